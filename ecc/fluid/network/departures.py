"""Queue disciplines that choose packets as they are taken for service, in a fluid of windows, by their packet hooks.

The fluid is divided into packets' worth: each time that amount of a queue has been served, the hook `on_dequeue` is
called for the next packet's worth, with its waiting time and the queue, as in packet runs. If the hook drops it, it
leaves the queue at once, and the hook is called for the next. If the hook marks, the packet's worth just served is
marked. `on_interval` is called at its times. Each flow bears its part of the chosen data; with signals "random", a flow
drawn in proportion to its part bears all of it. If packets in a queue have several ECN codepoints, each packet's worth
counts as one of them: in turn by their parts, or that of the drawn flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ecc.contract.protocol import Protocol
from ecc.contract.records import param_record, records
from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, inlined, optimized, unpacker
from ecc.fluid.network.curves import Paths, at, entered
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.queues import ECT_0, NOT_ECT
from ecc.jit import compile_hooks

__all__ = ["HOOKS", "Departures", "choose_departures", "departures_of"]

HOOKS = frozenset({"on_classify", "on_dequeue", "on_interval"})
"""Hooks of a discipline that the fluid runs; the first is called once for each flow (`queues`)."""

_STATE, _PARAMS, _ENV, _DEQUEUE, _INTERVAL = range(5)
_ENV_FIELDS = {
    "now": "f8", "capacity": "f8", "buffer": "i8", "queue": "i8", "backlog": "i8", "queue_index": "i8",
    "packet_size": "i8", "link": "i8", "sojourn": "f8", "random": "f8", "ecn": "i8", "drop": "i8", "mark": "i8",
    "next_interval": "f8",
}  # fmt: skip
_LAYOUT = np.dtype(list(_ENV_FIELDS.items()))  # fields of `LinkEnv` that a fluid has
(
    _NOW,
    _CAPACITY,
    _BUFFER,
    _QUEUE,
    _BACKLOG,
    _INDEX,
    _SIZE,
    _LINK,
    _SOJOURN,
    _RANDOM,
    _ECN,
    _DROP,
    _MARK,
    _NEXT,
) = range(len(_ENV_FIELDS))
_WRITABLE = {"on_dequeue": ("drop", "mark"), "on_interval": ("next_interval",)}
_MAX_DROPS = 100_000  # consecutive packets dropped before one is served
_pointers = unpacker("fff")


class Departures(NamedTuple):
    """State of the disciplines that choose departures; arrays are empty if no link has one."""

    addresses: IntegerRows  # (n_links, 5): state, parameters, env, and hooks (0: none); 0 of links without one
    ecn: Integers  # (n_queues,): codepoint of the arrivals at the queue, -1 for several
    codes: Integers  # (n_crossings,): codepoint of the group's packets
    credit: FloatRows  # (n_queues, n_codepoints): packets arrived with the codepoint, minus those counted as such
    numbers: FloatRows  # (n_links, n_words): env of each link
    words: IntegerRows  # memory of `numbers` as integers
    first: Integers  # (n_links + 1,): the queues of link l are those from first[l] to first[l + 1]
    index: Integers  # (n_queues,): index of the queue at its link
    packet: Floats  # (n_queues,) [bit]
    until_next: Floats  # (n_queues,) [bit]: amount to serve before the next packet is taken
    heads: Integers  # (n_queues,): row in which the search for the head of the queue ended
    before: Floats  # (n_queues,): position at which the head before the step had entered the queue
    due: Floats  # (n_links,) [s], next tick
    draws: IntegerRows  # (n_links, 1): state of the generator of random numbers
    share: Floats  # (n_crossings,): share of the chosen data, per flow of the group
    marks: FloatRows  # (n_crossings, n_times) [bit]: marked so far, per flow of the group
    drawn: int  # whether one flow bears all of the chosen data


def departures_of(
    at_links: Sequence[Protocol | None],
    first: Any,
    index: Any,
    ecn: Sequence[int],
    paths: Paths,
    capacity: Any,
    buffer: Any,
    grid: Grid,
    ticks: Any,
    seed: int,
    drawn: bool,
) -> tuple[Departures, list[Any]]:
    """Return the disciplines of all links at the start of a run, and the objects that own their code and records.

    Parameters
    ----------
    at_links : sequence of Protocol or None
        Discipline of each link that chooses packets as they leave, or None.
    first : ndarray, shape (n_links + 1,)
        First queue of each link.
    index : ndarray, shape (n_queues,)
        Index of each queue at its link.
    ecn : sequence of int
        Codepoint of each group's packets.
    paths : Paths
        Paths through the queues.
    capacity, buffer : ndarray, shape (n_links,), bit/s and bit
    grid : Grid
    ticks : ndarray, shape (n_links,)
        Time of the first tick of each router, in intervals.
    seed : int
    drawn : bool
        Whether one flow bears all of the chosen data.
    """
    L, n = len(at_links), len(index)
    codes = np.array(ecn, np.int64)[paths.owner]
    arrival_codes = [set(codes[paths.links == k].tolist()) for k in range(n)]
    of_queue = [
        -1 if len(codes_of_queue) > 1 else max(codes_of_queue, default=NOT_ECT) for codes_of_queue in arrival_codes
    ]
    crossings = len(codes) if L > 0 else 0
    numbers = np.zeros((L, len(_ENV_FIELDS)))
    words = numbers.view(np.int64)
    addresses = np.zeros((L, 5), np.int64)
    packet, due = np.ones(n), np.full(L, np.inf)
    owners: list[Any] = [numbers]
    draws = np.random.default_rng([seed, 1]).integers(1 << 62, size=(L, 1))
    for link, discipline in enumerate(at_links):
        if discipline is None:
            continue
        values, params = discipline.params(), param_record(discipline)
        state = records(discipline.link_record(), 1)
        hooks = {name: hook for name, hook in discipline.link_hooks().items() if name != "on_classify"}
        code = compile_hooks(hooks, state.dtype, np.dtype([]), params.dtype, _LAYOUT, _WRITABLE)
        owners += [params, state, code]
        addresses[link, :3] = state.ctypes.data, params.ctypes.data, numbers[link].ctypes.data
        addresses[link, 3:] = [code[name] if name in code else 0 for name in ("on_dequeue", "on_interval")]
        packet[first[link] : first[link + 1]] = 8.0 * values["packet_size"]
        if "on_interval" in code:
            due[link] = values["interval"] * ticks[link]
        numbers[link, _CAPACITY] = capacity[link]
        words[link, _BUFFER] = buffer[link] / 8.0 if np.isfinite(buffer[link]) else -1
        words[link, _SIZE], words[link, _LINK] = round(values["packet_size"]), link
    return Departures(
        addresses,
        np.array(of_queue, np.int64),
        codes,
        np.zeros((n, ECT_0 + 1)),
        numbers,
        words,
        first,
        index,
        packet,
        packet.copy(),
        np.zeros(n, np.int64),
        np.full(n, float(grid.zero - 1)),
        due,
        draws,
        np.zeros(crossings),
        np.zeros((crossings, grid.rows)),
        int(drawn),
    ), owners


@inlined
def _uniform(draws: Any) -> float:
    """Draw a number in [0, 1): SplitMix64."""
    draws[0] += np.int64(-7046029254386353131)
    z = np.uint64(draws[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@inlined
def _part(departures: Any, paths: Any, curves: Any, k: int, before: float, after: float, ecn: int, draws: Any) -> None:
    """Set each crossing's share of the data that entered a queue between two positions, for one codepoint.

    A codepoint < 0 means all. If flows are drawn, the drawn crossing has the entire share.
    """
    total = 0.0
    share = departures.share
    for c in range(len(paths.links)):
        share[c] = 0.0
        if paths.links[c] == k and (ecn < 0 or departures.codes[c] == ecn):
            share[c] = max(0.0, at(curves.arrived[c], after) - at(curves.arrived[c], before))
            total += paths.members[paths.owner[c]] * share[c]
    if departures.drawn != 0:
        chosen = total * _uniform(draws)
        for c in range(len(paths.links)):
            if share[c] > 0.0:
                drawn_share = 1.0 if 0.0 <= chosen < share[c] else 0.0
                chosen -= share[c]
                share[c] = drawn_share
    elif total > 0.0:
        for c in range(len(paths.links)):
            share[c] /= total


@optimized
def _next_codepoint(departures: Any, paths: Any, curves: Any, k: int, before: float, after: float, draws: Any) -> int:
    """Return the codepoint of the packet from `before` to `after` in a queue of several codepoints, and set shares."""
    _part(departures, paths, curves, k, before, after, -1, draws)
    credit, ecn, max_credit = departures.credit[k], NOT_ECT, 0.0
    for c in range(len(paths.links)):
        if departures.drawn == 0:
            credit[departures.codes[c]] += paths.members[paths.owner[c]] * departures.share[c]
        elif departures.share[c] > 0.0:
            ecn = departures.codes[c]
    if departures.drawn == 0:
        for code in range(len(credit)):
            if credit[code] > max_credit:
                ecn, max_credit = code, credit[code]
        credit[ecn] -= 1.0
        _part(departures, paths, curves, k, before, after, ecn, draws)
    return ecn


@inlined
def choose_departures(departures: Any, paths: Any, curves: Any, link: int, i: int, t: float, h: float) -> int:
    """Call the hooks for the data that reached the heads of a link's queues in a step; return 0, or a hook's status."""
    addresses = departures.addresses[link]
    state, params, env = _pointers(addresses)
    numbers, words, draws = departures.numbers[link], departures.words[link], departures.draws[link]
    a, b = departures.first[link], departures.first[link + 1]
    backlog, longest, status = 0.0, 0.0, 0
    for k in range(a, b):
        backlog += curves.into[k, i] - curves.out[k, i]
    numbers[_NOW], numbers[_CAPACITY] = t, paths.capacity[a, i]
    for k in range(a, b):
        into, out, size = curves.into[k], curves.out[k], departures.packet[k]
        departures.until_next[k] -= out[i] - out[i - 1]
        head = entered(into, out, float(i), departures.heads, k)
        while departures.until_next[k] <= 0.0 and status == 0:
            departures.until_next[k] += size
            for _ in range(_MAX_DROPS):
                waits, several = into[i] - out[i], departures.ecn[k] < 0
                if several:
                    ahead, row, served = head, departures.heads[k], out[i]
                    if waits > 0.0:
                        out[i] += min(size, waits)
                        ahead = entered(into, out, float(i), departures.heads, k)
                        out[i], departures.heads[k] = served, row
                    since = head if waits > 0.0 else departures.before[k]
                    words[_ECN] = _next_codepoint(departures, paths, curves, k, since, ahead, draws)
                else:
                    words[_ECN] = departures.ecn[k]
                words[_INDEX], words[_DROP], words[_MARK] = departures.index[k], 0, 0
                words[_QUEUE], words[_BACKLOG] = int(max(waits, size) / 8.0), int(max(backlog, size) / 8.0)
                numbers[_SOJOURN], numbers[_RANDOM] = (i - head) * h, _uniform(draws)
                status = abs(call(addresses[_DEQUEUE], (state, env, params, env)))
                if status != 0 or words[_DROP] == 0 or waits <= 0.0:
                    break
                amount, before = min(size, waits), head
                out[i] += amount
                backlog -= amount
                head = entered(into, out, float(i), departures.heads, k)
                if not several:
                    _part(departures, paths, curves, k, before, head, -1, draws)
                for c in range(len(paths.links)):
                    curves.head_drops[c, i] += amount * departures.share[c]
            if status == 0 and words[_MARK] != 0 and words[_ECN] != 0:
                if departures.ecn[k] >= 0:
                    before = departures.before[k]
                    _part(departures, paths, curves, k, before, max(head, before), -1, draws)
                for c in range(len(paths.links)):
                    departures.marks[c, i] += size * departures.share[c]
        departures.before[k] = head
        if into[i] > out[i]:
            longest = max(longest, (i - head) * h)
    if status == 0 and addresses[_INTERVAL] != 0 and t >= departures.due[link] - 1e-9 * h:
        words[_INDEX], words[_QUEUE], words[_BACKLOG] = 0, int(backlog / 8.0), int(backlog / 8.0)
        numbers[_SOJOURN], numbers[_NEXT] = longest, 0.0
        status = abs(call(addresses[_INTERVAL], (state, env, params, env)))
        departures.due[link] += numbers[_NEXT] if numbers[_NEXT] > 0.0 else np.inf
    return status
