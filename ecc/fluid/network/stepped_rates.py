"""Fluid whose sources move in steps, each once routers have told of a whole interval that knew of the last one.

Rates are constant between steps. A router looks at what came in each interval of T, as flows ask for it:

    y_l  asked for by all           u_l  ... by those whose packets follow another link, or nobody
    N_l  following flows: how long what came from each took to send, over T; what random losses took is missing
    R_l = router_law(u_l, N_l, ...),  priority_law and refusal_law of the same; nobody follows: as if empty, or 0 if
    refused

A header reads them as it comes to a queue; ACKs come packet by packet. One counts if it was sent after the source's
last step. The first that counts marks an interval of the router that the source follows; once an ACK comes from the
interval `wait` after the next, the source

- follows another link, if one is more urgent (or as urgent and offers less) and it has come near what its own offers,
  or its own refuses; or else
- takes what it asked for, if no link refuses, and asks for source_law(x, R); what is less it takes at once.

Each then waits again, after a switch and after a step as `Stepping` says. Newcomers send `floor` packets an interval
and switch to the first link they hear of; with `mouse_size`, they send at `basic_rate` and heed nobody until so much
is acknowledged. Where flows tell what they `desire`, their size over their RTT, no offer is more, and a link that
offers more counts them among others. The grid is a hundredth of the interval; queues are as in `windows`.
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

__all__ = ["STEP_ARGUMENTS", "advance", "run_stepped"]

FloatArray = NDArray[np.float64]

STEP_ARGUMENTS = ("R", "y", "u", "N", "q", "C", "T", "x", "x_rtt", "result")
"""What laws find in their record, and where they leave their result."""

_R, _Y, _U, _N, _Q, _C, _T, _X, _X_RTT, _RESULT = range(len(STEP_ARGUMENTS))
_PER_INTERVAL = 100
_BACK, _ON, _RECEIVED = range(3)  # purposes of looking back, each with its hints
_NOT_YET = -1
_pointers = unpacker("ff")


@optimized
def _look(
    link: int, i: int, laws: Any, addresses: Any, record: Any, capacity: Any, into: Any, out: Any, told: Any,
    urgency: Any, refusal: Any, books: Any,
) -> Any:  # fmt: skip
    """Close the books of an interval; a status."""
    pointer, params = _pointers(addresses)
    T = record[_T]
    record[_R], record[_C] = told[link, i - 1], capacity[link, i]
    record[_Q] = into[link, i] - out[link, i]
    record[_Y], record[_U], record[_N] = books[link, 0] / T, books[link, 1] / T, books[link, 2] / T
    router, priority, refuses = laws[0], laws[1], laws[2]
    urgency[link, i] = refusal[link, i] = 0.0
    if priority != 0:
        status = call(priority, (pointer, pointer, params, pointer))
        if status != 0:
            return status
        urgency[link, i] = record[_RESULT]
    if refuses != 0:
        status = call(refuses, (pointer, pointer, params, pointer))
        if status != 0:
            return status
        refusal[link, i] = record[_RESULT]
    nobody = record[_N] <= 0.0
    if nobody:
        record[_U], record[_N] = 0.0, 1.0
    status = call(router, (pointer, pointer, params, pointer))
    told[link, i] = 0.0 if nobody and refusal[link, i] > 0.0 else max(0.0, record[_RESULT])
    return status


@optimized
def _aim(g: int, source: int, addresses: Any, record: Any, least: Any, x: Any, offered: Any) -> Any:
    """(status, rate by the source law)."""
    pointer, params = _pointers(addresses)
    record[_X] = record[_X_RTT] = x[g]
    record[_R] = offered[g]
    status = call(source, (pointer, pointer, params, pointer))
    return status, max(record[_RESULT], least[g])


@entry
def advance(
    begin: int, end: int, h: float, zero: int, tick: Integers, switch_wait: int, step_wait: int, near: float, asks: int,
    laws: Integers, addresses: Integers, record: Floats, first: Integers, links: Integers, listens: Integers,
    members: Floats, forward: Floats, backward: Floats, wire: Floats, reaches: Floats, survives: Floats, start: Floats,
    stop: Floats, size: Floats, steady: Floats, deaf: Floats, desired: Floats, least: Floats, packet: Floats,
    capacity: FloatRows, served: FloatRows, buffer: Floats, x: Floats, wants: Floats, offered: Floats, owner: Integers,
    changed: Floats, marked: Integers, wait: Integers, heard: Floats, sent: FloatRows, asked: FloatRows,
    follows: IntegerRows, arrived: FloatRows, origin: FloatRows, seen: Floats, into: FloatRows, out: FloatRows,
    gone: FloatRows, lost: Floats, received: FloatRows, told: FloatRows, urgency: FloatRows, refusal: FloatRows,
    books: FloatRows, comes: Floats, met: Floats, hints: IntegerRows,
) -> Any:  # fmt: skip
    """Take steps on the grid; 0, or what a law returned."""
    for i in range(begin, end):
        t = (i - zero) * h
        # sources: what is acknowledged now, back along its path
        for g in range(len(members)):
            a, b = first[g], first[g + 1]
            u = min(i - backward[b - 1] / h, i - 1.0)
            sigma = 0.0
            for c in range(b - 1, a - 1, -1):
                link = links[c]
                met[c] = entered(into[link], out[link], u, hints[_BACK], c)
                if c == b - 1:
                    sigma = at(origin[c], met[c])
                u = met[c] - (forward[c] - forward[c - 1]) / h if c > a else u
            packets = np.floor(at(sent[g], sigma) / packet[g] + 1e-9)
            news = packets > heard[g] and sigma >= changed[g] and t < stop[g] and steady[g] <= 0.0
            news = news and at(sent[g], sigma) >= deaf[g]
            if sigma >= zero + start[g] / h:
                heard[g] = packets
            if news:
                which, best, rank, worst = -1, np.inf, -np.inf, 0.0
                for c in range(a, b):
                    k = int(met[c])
                    worst = max(worst, refusal[links[c], k])
                    urgent, offer = urgency[links[c], k], min(told[links[c], k], desired[g])
                    if listens[c] != 0 and (urgent > rank or (urgent == rank and offer < best)):
                        which, best, rank = c, offer, urgent
                moves, switches = False, False
                if which >= 0 and owner[g] < 0:
                    moves = switches = True
                elif which >= 0:
                    interval = (int(met[owner[g]]) - zero - tick[links[owner[g]]]) // _PER_INTERVAL
                    if marked[g] == _NOT_YET:
                        marked[g] = interval
                    moves = interval > marked[g] + wait[g]
                    close = abs(x[g] - offered[g]) <= near * offered[g]
                    switches = which != owner[g] and (close or rank > 0.0 or laws[1] == 0)
                if moves:
                    offered[g] = best
                    status = 0
                    if switches:
                        owner[g] = which
                        if laws[1] == 0 and best < x[g]:  # a link chosen for its offer is approached at once
                            status, x[g] = _aim(g, laws[3], addresses, record, least, x, offered)
                        wants[g] = x[g]
                    else:
                        if worst <= 0.0:
                            x[g] = wants[g]
                        status, wants[g] = _aim(g, laws[3], addresses, record, least, x, offered)
                        if asks == 0 or wants[g] < x[g]:
                            x[g] = wants[g]
                    if status != 0:
                        return status
                    changed[g], marked[g], wait[g] = i, _NOT_YET, switch_wait if switches else step_wait
            now = min(h, max(0.0, t + h - start[g])) if t < stop[g] else 0.0
            rate = steady[g] if steady[g] > 0.0 else x[g]
            now = min(now, (size[g] - sent[g, i - 1]) / rate)
            sent[g, i] = sent[g, i - 1] + rate * now
            asked[g, i] = asked[g, i - 1] + (rate if steady[g] > 0.0 else wants[g]) * now
            follows[g, i] = links[owner[g]] if owner[g] >= 0 and steady[g] <= 0.0 else -1
            if sent[g, i] >= size[g] and stop[g] > t:
                stop[g] = t

        # what arrives at the queues and leaves them, and what routers note of it
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
                early, late = origin[c, i - 1], origin[c, i]
                many = members[g] * reaches[c]
                asking = many * max(0.0, at(asked[g], late) - at(asked[g], early))
                books[link, 0] += asking
                if follows[g, max(0, int(late))] == link and desired[g] >= told[link, i - 1]:
                    opens, ends = zero + start[g] / h, zero + stop[g] / h
                    books[link, 2] += many * h * max(0.0, min(late, ends) - max(early, opens))
                else:
                    books[link, 1] += asking
        for link in range(len(capacity)):
            most = out[link, i - 1] + served[link, i] - served[link, i - 1]
            taken = min(comes[link], max(0.0, buffer[link] + most - into[link, i - 1]))
            into[link, i] = into[link, i - 1] + taken
            out[link, i] = min(into[link, i], most)
            gone[link, i] = gone[link, i - 1] + comes[link] - taken
            told[link, i], urgency[link, i] = told[link, i - 1], urgency[link, i - 1]
            refusal[link, i] = refusal[link, i - 1]
            late_by = i - zero - tick[link]
            if late_by >= 0 and late_by % _PER_INTERVAL == 0:
                if late_by > 0:  # the first tick opens the books
                    status = _look(link, i, laws, addresses, record, capacity, into, out, told, urgency, refusal, books)
                    if status != 0:
                        return status
                books[link, 0] = books[link, 1] = books[link, 2] = 0.0
        for g in range(len(members)):
            for c in range(first[g], first[g + 1]):
                more = gone[links[c], i] - gone[links[c], i - 1]
                if more > 0.0:
                    refused = more / comes[links[c]] * (arrived[c, i] - arrived[c, i - 1])
                    arrived[c, i] -= refused
                    lost[g] += refused
            c = first[g + 1] - 1
            link = links[c]
            passed = at(arrived[c], entered(into[link], out[link], i - wire[g] / h, hints[_RECEIVED], c))
            received[g, i] = survives[g] / reaches[c] * passed
            lost[g] += (1.0 - survives[g]) * (sent[g, i] - sent[g, i - 1])
    return 0


def run_stepped(
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
        Protocol with `stepping`.
    fluid : FluidNetwork
    samples : ndarray, s
        Equally far apart.
    point : Equilibrium or None
        Equilibrium that has held for ever, or None: an empty network.
    factor : float
        By which rates and offers differ before and at the start from those of the point.
    progress : callable
        Called with the share done.
    ticks : ndarray, shape (n_links,)
        When routers first tick, in control intervals.
    records : bool, optional
        Whether rates, and what routers offer, are kept at each sample.

    Returns
    -------
    Outcome
    """
    laws = CompiledLaws(protocol, STEP_ARGUMENTS)
    stepping = protocol.stepping
    assert stepping is not None
    L, G = fluid.n_links, fluid.n_groups
    params = protocol.params()
    T = float(params["interval"])
    h = T / _PER_INTERVAL
    links = np.concatenate(fluid.routes).astype(np.int64)
    P = len(links)
    first = np.cumsum([0, *map(len, fluid.routes)])
    forward, backward = np.concatenate(fluid.forward), np.concatenate(fluid.backward)
    packet = 8.0 * fluid.packet_size
    least = params["floor"] * packet / T
    zero = 2 + ceil(float(fluid.rtt.max()) / h)
    n = zero + ceil(float(samples[-1]) / h - 1e-9) + 1
    record = np.zeros(len(STEP_ARGUMENTS))
    record[_T] = T
    addresses = np.array([record.ctypes.data, laws.params.ctypes.data])
    called = np.array([laws.router, laws.priority, laws.refusal, laws.source], dtype=np.int64)
    into, out, gone, told, urgency, refusal = np.zeros((6, L, n))
    served, capacity = fluid.service(h * (np.arange(n) - zero + 1.0))
    arrived = np.zeros((P, n))
    origin = np.zeros((P, n))
    sent, asked, received = np.zeros((3, G, n))
    follows = np.full((G, n), -1, dtype=np.int64)
    start, stop = fluid.start.copy(), fluid.stop.copy()
    x, owner = np.maximum(least, params.get("basic_rate", 0.0)), np.full(G, -1, dtype=np.int64)
    desired = fluid.size / fluid.rtt if params.get("desires", 0.0) else np.full(G, np.inf)
    offers = np.array([protocol.rate_range(float(C))[1] for C in fluid.capacity])
    grid = np.arange(zero)
    for c in range(P):
        origin[c, :zero] = grid - forward[c] / h
    if point is not None:
        start[:] = -np.inf
        member = {int(g): i for i, g in reversed(list(enumerate(fluid.group_of)))}
        flows = [member[g] for g in range(G)]
        x = np.maximum(factor * point.rates[flows], least)
        offers = np.where(np.isfinite(point.fair_rate), factor * point.fair_rate, offers)
        for g, route in enumerate(fluid.routes):
            owner[g] = first[g] + route.index(int(point.bottleneck[flows[g]]))
            follows[g, :zero] = links[owner[g]]
            sent[g, :zero] = asked[g, :zero] = x[g] * h * grid
            for c in range(first[g], first[g + 1]):
                arrived[c, :zero] = x[g] * h * origin[c, :zero]
                into[links[c], :zero] += fluid.members[g] * arrived[c, :zero]
            received[g, :zero] = arrived[c, :zero] - x[g] * fluid.wire[g]
        out[:, :zero] = into[:, :zero]
    told[:, :zero] = offers[:, None]
    seen = arrived[:, zero - 1].copy()
    heard = np.floor(sent[:, zero - 1] / packet) if point is not None else np.full(G, -1.0)
    changed = zero + start / h - 1e-9 if point is None else np.zeros(G)
    lost, base = np.zeros(G), sent[:, zero - 1].copy()
    state = (
        called, addresses, record, first, links, np.concatenate(fluid.listens).astype(np.int64), fluid.members,
        forward, backward, fluid.wire, np.concatenate(fluid.reaches), fluid.survives, start, stop,
        fluid.size + base, fluid.steady, base + 8.0 * params.get("mouse_size", 0.0), desired, least,
        packet, capacity, served, fluid.buffer, x, x.copy(),
        offers[links[np.maximum(owner, 0)]], owner, changed, np.full(G, _NOT_YET), np.zeros(G, np.int64), heard,
        sent, asked, follows, arrived, origin, seen, into, out, gone, lost, received, told, urgency, refusal,
        np.zeros((L, 3)), np.zeros(L), np.zeros(P), np.zeros((3, P), np.int64),
    )  # fmt: skip
    tick = np.maximum(1, np.rint(_PER_INTERVAL * ticks)).astype(np.int64)
    options = (*stepping.waits, stepping.near, int(stepping.needs_approval))
    steps = Grid(h, zero, n, samples)
    steps.run(
        lambda begin, end: int(advance(begin, end, h, zero - 1, tick, *options, *state)),
        progress,
        {"flow.x": x} if records else None,
    )
    found = steps.outcome(fluid.buffer, sent, received, into, out, gone, follows, lost, stop)
    if records:
        found.recorded["link.R"] = steps.at_ends(told)
    return found
