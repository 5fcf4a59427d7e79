"""Fluid under windows that routers grant changes of: they count an interval, and share out what it leaves in the next.

Routers measure for T, as long as `interval_law` says of the mean RTT d of the flows (or the largest), and look at the
lowest queue Q of every `queue_interval_law`. What the rates of all flows are to gain and to lose in the next interval,

    up = router_law(x=0, N_all=1),   down = up - router_law(x=y, N_all=1),

is granted to what leaves the queue in that interval: of the gain an equal part to each flow, for the time that what it
sends took to send (as flows say: their RTT over their window), of the loss to each bit. When either is spent no more is
granted, and what a link before granted is a limit: a link keeps the rest.

    w'  = D (what came back with the ACKs of the moment)                        D the smoothed RTT
    sent(t) = settled(t) + w(t), and, where packets are `paced`, sent' <= w/D   never less than before

A flow opens with a packet of `opening_size`, which is told nothing; once it is acknowledged its window is `initial`
packets. Windows are not whole packets here, and losses do not change them. Curves and queues are as in `windows`, on a
grid of a 100th of the shortest RTT.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, entry, optimized, unpacker
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.groups import FluidNetwork
from ecc.fluid.network.laws import CompiledLaws
from ecc.fluid.network.result import Outcome
from ecc.fluid.network.windows import at, entered
from ecc.models.base import Equilibrium, Protocol

__all__ = ["GRANT_ARGUMENTS", "advance", "run_granted"]

FloatArray = NDArray[np.float64]

GRANT_ARGUMENTS = ("R", "y", "q", "N_all", "C", "d", "T", "x", "result")
"""What laws find in their record, and where they leave their result."""

_R, _Y, _Q, _N_ALL, _C, _D, _T, _X, _RESULT = range(len(GRANT_ARGUMENTS))
_PER_RTT = 100
_BACK, _ON, _RECEIVED, _LEAVING = range(4)  # purposes of looking back, each with its hints
_SMOOTHING = 1.0 / 8.0  # of RTTs, by each packet
_OPENING = 1.0  # s for which a flow counts where an interval saw nothing but openings
_pointers = unpacker("ff")

# what a router keeps: RTT, lowest queue, what it grants (of time, of bits) and what is left of both; its books since
# the last tick: bits, time that they took to send, that times RTTs, largest RTT; lowest queue of now; last, next ticks
(
    _RTT, _LOWEST, _UP, _DOWN, _UP_LEFT, _DOWN_LEFT, _BITS, _TIME, _RTT_TIME, _LARGEST, _LOW, _OPENED, _DUE, _LOOKS,
    _KEPT,
) = range(15)  # fmt: skip


@optimized
def _ask(law: int, addresses: Any, record: Any) -> Any:
    pointer, params = _pointers(addresses)
    status = call(law, (pointer, pointer, params, pointer))
    return status, record[_RESULT]


@optimized
def _share_out(b: Any, t: float, bits: float, laws: Any, addresses: Any, record: Any) -> Any:
    """Set what an interval grants by what came in the last one; a status."""
    record[_D] = b[_RTT]
    status, T = _ask(laws[1], addresses, record)
    b[_UP] = b[_DOWN] = b[_UP_LEFT] = b[_DOWN_LEFT] = 0.0
    if status == 0 and bits > 0.0:
        record[_Y], record[_T], record[_N_ALL], record[_X] = bits / (t - b[_OPENED]), T, 1.0, 0.0
        record[_Q] = b[_LOWEST]
        status, up = _ask(laws[0], addresses, record)
        record[_X] = record[_Y]
        if status == 0:
            status, net = _ask(laws[0], addresses, record)
            b[_UP_LEFT], b[_DOWN_LEFT] = up, up - net
            b[_UP] = up / (b[_TIME] if b[_TIME] > 0.0 else _OPENING)
            b[_DOWN] = (up - net) / bits
    b[_BITS] = b[_TIME] = b[_RTT_TIME] = b[_LARGEST] = 0.0
    b[_OPENED], b[_DUE] = t, t + T
    return status


@entry
def advance(
    begin: int, end: int, h: float, zero: int, largest: int, paced: int, laws: Integers, addresses: Integers,
    record: Floats, first: Integers, links: Integers, listens: Integers, members: Floats, forward: Floats,
    backward: Floats, wire: Floats, reaches: Floats, survives: Floats, answers: Floats, start: Floats, stop: Floats,
    size: Floats, steady: Floats, opening: Floats, packet: Floats, initial: Floats, capacity: FloatRows,
    served: FloatRows, buffer: Floats, window: Floats, srtt: Floats, opened: Integers, acked: Floats, passed: Floats,
    sent: FloatRows, rtt: FloatRows, spacing: FloatRows, arrived: FloatRows, origin: FloatRows, seen: Floats,
    grants: FloatRows, giver: IntegerRows, into: FloatRows, out: FloatRows, gone: FloatRows, lost: Floats,
    received: FloatRows, books: FloatRows, comes: Floats, follows: IntegerRows, hints: IntegerRows,
) -> Any:  # fmt: skip
    """Take steps on the grid; 0, or what a law returned."""
    for i in range(begin, end):
        t = (i - zero) * h
        # sources: what is acknowledged now, back along its path
        for g in range(len(members)):
            a, b = first[g], first[g + 1]
            left = min(i - backward[b - 1] / h, i - 1.0)
            u, e = left, left
            for c in range(b - 1, a - 1, -1):
                e = entered(into[links[c]], out[links[c]], u, hints[_BACK], c)
                if c == b - 1:
                    bits = at(arrived[c], e)
                    more = max(0.0, bits - acked[g])
                    acked[g] = max(acked[g], bits)
                u = e - (forward[c] - forward[c - 1]) / h if c > a else e - forward[c] / h
            sigma, D = u, (i - u) * h
            follows[g, i], sent[g, i] = follows[g, i - 1], sent[g, i - 1]
            if t >= stop[g]:
                continue
            if steady[g] > 0.0:
                sent[g, i] = min(sent[g, i - 1] + steady[g] * min(h, max(0.0, t + h - start[g])), size[g])
            else:
                if opened[g] == 0 and t >= start[g]:
                    sent[g, i] = max(sent[g, i - 1], opening[g])
                    if sigma >= zero + start[g] / h:
                        opened[g], window[g], srtt[g] = 1, initial[g], D
                if opened[g] > 0:
                    srtt[g] += (D - srtt[g]) * min(1.0, _SMOOTHING * more / packet[g])
                    k = min(int(np.ceil(left)), i - 1)
                    record[_X] = window[g]
                    record[_R] = more * survives[g] / reaches[b - 1] * answers[g] * grants[b - 1, k] * srtt[g]
                    if record[_R] != 0.0:
                        status, following = _ask(laws[3], addresses, record)
                        if status != 0:
                            return status
                        window[g] = max(following, packet[g])
                        follows[g, i] = giver[b - 1, k]
                    allowed = at(sent[g], sigma) + window[g]  # what came after sigma is under way
                    if paced != 0:
                        allowed = min(allowed, sent[g, i - 1] + h * window[g] / srtt[g])
                    sent[g, i] = min(max(sent[g, i - 1], allowed), size[g])
                    rtt[g, i], spacing[g, i] = srtt[g], srtt[g] / window[g]
            if sent[g, i] >= size[g]:
                stop[g] = t

        # what arrives at the queues, and what routers note of it
        for link in range(len(capacity)):
            comes[link] = 0.0
        for g in range(len(members)):
            for c in range(first[g], first[g + 1]):
                link = links[c]
                if c == first[g]:
                    origin[c, i] = i - forward[c] / h
                    amount = reaches[c] * at(sent[g], origin[c, i])
                else:
                    u = min(i - (forward[c] - forward[c - 1]) / h, i - 1.0)
                    e = entered(into[links[c - 1]], out[links[c - 1]], u, hints[_ON], c - 1)
                    origin[c, i] = at(origin[c - 1], e)
                    amount = reaches[c] / reaches[c - 1] * at(arrived[c - 1], e)
                come = max(0.0, amount - seen[c])
                seen[c] = amount
                arrived[c, i] = arrived[c, i - 1] + come  # as if all found room
                comes[link] += members[g] * come
                k = max(0, min(int(np.ceil(origin[c, i])), i))
                if listens[c] != 0 and come > 0.0 and rtt[g, k] > 0.0:
                    took = members[g] * come * spacing[g, k]
                    books[link, _TIME] += took
                    books[link, _RTT_TIME] += took * rtt[g, k]
                    books[link, _LARGEST] = max(books[link, _LARGEST], rtt[g, k])
        for link in range(len(capacity)):
            most = out[link, i - 1] + served[link, i] - served[link, i - 1]
            taken = min(comes[link], max(0.0, buffer[link] + most - into[link, i - 1]))
            into[link, i] = into[link, i - 1] + taken
            out[link, i] = min(into[link, i], most)
            gone[link, i] = gone[link, i - 1] + comes[link] - taken
            books[link, _BITS] += comes[link]
        for g in range(len(members)):
            for c in range(first[g], first[g + 1]):
                more = gone[links[c], i] - gone[links[c], i - 1]
                if more > 0.0:
                    refused = more / comes[links[c]] * (arrived[c, i] - arrived[c, i - 1])
                    arrived[c, i] -= refused
                    lost[g] += refused
            c = first[g + 1] - 1
            link = links[c]
            reached = at(arrived[c], entered(into[link], out[link], i - wire[g] / h, hints[_RECEIVED], c))
            received[g, i] = survives[g] / reaches[c] * reached
            lost[g] += (1.0 - survives[g]) * (sent[g, i] - sent[g, i - 1])

        # what leaves the queues is granted its part
        for g in range(len(members)):
            for c in range(first[g], first[g + 1]):
                link = links[c]
                grants[c, i], giver[c, i] = grants[c, i - 1], giver[c, i - 1]
                e = entered(into[link], out[link], float(i), hints[_LEAVING], c)
                amount = at(arrived[c], e) - passed[c]
                passed[c] += amount
                k = max(0, min(int(np.ceil(at(origin[c], e))), i))
                before, who = np.inf, -1
                if c > first[g]:
                    u = max(0, min(int(np.ceil(e - (forward[c] - forward[c - 1]) / h)), i))
                    if giver[c - 1, u] >= 0:
                        before, who = grants[c - 1, u], giver[c - 1, u]
                if steady[g] > 0.0 or rtt[g, k] <= 0.0 or amount <= 0.0:
                    continue
                if listens[c] == 0:
                    grants[c, i], giver[c, i] = 0.0 if who < 0 else before, who
                    continue
                bits = members[g] * amount
                up = min(books[link, _UP] * spacing[g, k] * bits, books[link, _UP_LEFT])
                down = min(books[link, _DOWN] * bits, books[link, _DOWN_LEFT])
                if (up - down) / bits <= before:
                    grants[c, i], giver[c, i] = (up - down) / bits, link
                else:
                    down = min(up - before * bits, books[link, _DOWN_LEFT])
                    up = before * bits + down
                    grants[c, i], giver[c, i] = before, who
                books[link, _UP_LEFT] = max(0.0, books[link, _UP_LEFT] - up)
                books[link, _DOWN_LEFT] = max(0.0, books[link, _DOWN_LEFT] - down)

        # routers look at their queues, and close their books
        for link in range(len(capacity)):
            b = books[link]
            b[_LOW] = min(b[_LOW], into[link, i] - out[link, i])
            if t < min(b[_DUE], b[_LOOKS]) - 1e-9 * h:
                continue
            record[_C], record[_D], record[_Q] = capacity[link, i], b[_RTT], into[link, i] - out[link, i]
            if t >= b[_LOOKS] - 1e-9 * h:
                b[_LOWEST], b[_LOW] = b[_LOW], record[_Q]
                status, soon = _ask(laws[2], addresses, record)
                if status != 0:
                    return status
                b[_LOOKS] = t + soon
            if t >= b[_DUE] - 1e-9 * h:
                if b[_TIME] > 0.0:
                    b[_RTT] = b[_LARGEST] if largest != 0 else b[_RTT_TIME] / b[_TIME]
                status = _share_out(b, t, b[_BITS], laws, addresses, record)
                if status != 0:
                    return status
    return 0


def _books_at_rest(books: Any, protocol: Protocol, laws: CompiledLaws, fluid: FluidNetwork, x: FloatArray) -> None:
    """Routers have counted an interval of flows at rates x, and are about to look at it."""
    for link, b in enumerate(books):
        through = [g for g, route in enumerate(fluid.routes) if link in route]
        members, rtts = fluid.members[through], fluid.rtt[through]
        if len(through):
            b[_RTT] = rtts.max() if protocol.scaling_rtt == "max" else np.average(rtts, weights=members)
        supply = {"d": float(b[_RTT]), "C": float(fluid.capacity[link]), "p": protocol.namespace()}
        assert protocol.interval_law is not None
        T = protocol.interval_law(**{name: supply[name] for name in laws.wants["interval"]})
        b[_BITS], b[_TIME], b[_RTT_TIME] = T * members @ x[through], T * members.sum(), T * members @ rtts
        b[_LARGEST], b[_OPENED], b[_DUE] = b[_RTT], -T, 0.0


def run_granted(
    protocol: Protocol,
    fluid: FluidNetwork,
    samples: FloatArray,
    point: Equilibrium | None,
    factor: float,
    progress: Callable[[float], None],
    ticks: FloatArray,
    records: bool = False,
) -> Outcome:
    """Compute the curves of a network.

    Parameters
    ----------
    protocol : Protocol
        Protocol with an `interval_law`.
    fluid : FluidNetwork
    samples : ndarray, s
        Equally far apart.
    point : Equilibrium or None
        Equilibrium that has held for ever, or None: an empty network.
    factor : float
        By which windows differ at the start from those of the point.
    progress : callable
        Called with the share done.
    ticks : ndarray, shape (n_links,)
        When routers first tick, in control intervals.
    records : bool, optional
        Whether windows, smoothed RTTs and the RTTs of routers are kept at each sample.

    Returns
    -------
    Outcome
    """
    laws = CompiledLaws(protocol, GRANT_ARGUMENTS)
    L, G = fluid.n_links, fluid.n_groups
    params = protocol.params()
    width = float(samples[0])
    per_sample = ceil(_PER_RTT * width / float(fluid.rtt.min()))
    h = width / per_sample
    links = np.concatenate(fluid.routes).astype(np.int64)
    P = len(links)
    first = np.cumsum([0, *map(len, fluid.routes)])
    forward, backward = np.concatenate(fluid.forward), np.concatenate(fluid.backward)
    packet = 8.0 * fluid.packet_size
    zero = 2 + ceil(float(fluid.rtt.max()) / h)
    n = zero + per_sample * len(samples) + 1
    record = np.zeros(len(GRANT_ARGUMENTS))
    addresses = np.array([record.ctypes.data, laws.params.ctypes.data])
    called = np.array([laws.router, laws.interval, laws.queue_interval, laws.source], dtype=np.int64)
    into, out, gone = np.zeros((3, L, n))
    served, capacity = fluid.service(h * (np.arange(n) - zero + 1.0))
    arrived, origin, grants = np.zeros((3, P, n))
    giver = np.full((P, n), -1, dtype=np.int64)
    sent, received, rtt, spacing = np.zeros((4, G, n))
    follows = np.full((G, n), -1, dtype=np.int64)
    window, srtt, opened = np.zeros(G), fluid.rtt.copy(), np.zeros(G, dtype=np.int64)
    lost, books = np.zeros(G), np.zeros((L, _KEPT))
    books[:, _RTT] = params["interval"]
    books[:, _DUE] = books[:, _LOOKS] = ticks * params["interval"]
    start, stop = fluid.start.copy(), fluid.stop.copy()
    for c in range(P):
        origin[c, :zero] = np.arange(zero) - forward[c] / h
    base = np.zeros(G)
    if point is not None:
        start[:], opened[:] = -np.inf, 1
        member = {int(g): i for i, g in reversed(list(enumerate(fluid.group_of)))}
        x = point.rates[[member[g] for g in range(G)]]
        window[:] = factor * x * fluid.rtt
        rtt[:, :zero], spacing[:, :zero] = fluid.rtt[:, None], 1.0 / x[:, None]
        sent[:, :zero] = x[:, None] * h * np.arange(zero)
        base = sent[:, zero - 1].copy()
        for g in range(G):
            follows[g, :zero] = point.bottleneck[member[g]]
            for c in range(first[g], first[g + 1]):
                arrived[c, :zero] = x[g] * h * origin[c, :zero]
                into[links[c], :zero] += fluid.members[g] * arrived[c, :zero]
            received[g, :zero] = arrived[c, :zero] - x[g] * fluid.wire[g]
        out[:, :zero] = into[:, :zero]
        giver[:, :zero] = np.repeat(follows[:, :1], np.diff(first), axis=0)
        _books_at_rest(books, protocol, laws, fluid, x)
    state = (
        called, addresses, record, first, links, np.concatenate(fluid.listens).astype(np.int64), fluid.members,
        forward, backward, fluid.wire, np.concatenate(fluid.reaches), fluid.survives, fluid.answers, start, stop,
        fluid.size + base, fluid.steady, np.full(G, 8.0 * protocol.opening_size), packet, params["initial"] * packet,
        capacity, served, fluid.buffer, window, srtt, opened, np.zeros(G), arrived[:, zero - 1].copy(), sent, rtt,
        spacing, arrived, origin, arrived[:, zero - 1].copy(), grants, giver, into, out, gone, lost, received,
        books, np.zeros(L), follows, np.zeros((4, P), np.int64),
    )  # fmt: skip
    largest, paced = int(protocol.scaling_rtt == "max"), int(params["paced"])
    states = {"env.window": window, "env.srtt": srtt, "link.d": books[:, _RTT]} if records else None
    grid = Grid(h, zero, n, samples)
    grid.run(lambda begin, end: int(advance(begin, end, h, zero - 1, largest, paced, *state)), progress, states)
    found = grid.outcome(fluid.buffer, sent, received, into, out, gone, follows, lost, stop)
    if records:
        found.recorded["env.window"] /= 8.0
    return found
