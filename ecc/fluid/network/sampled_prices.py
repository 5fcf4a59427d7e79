"""Fluid whose routers count by intervals and whose sources step by what they hear: rates are staircases.

A router turns what came in each interval of T into y, and what its laws make of that is its price until the next tick;
it is silent before the first whole interval, and keeps its price through one without arrivals:

    R_l <- router_law(R_l, y_l, d_l, C_l, ...),   told_l = announce_law(R_l, y_l, ...), or R_l itself

d is the largest RTT that came in an interval, or the mean, as a moving average of weight `rtt_gain`. A packet reads the
price as it comes to a queue. ACKs come packet by packet, and bring back the prices of the path (the largest, the least
or their sum) with the rate at which their packet was sent. With a `source_clock` of "interval" a price that is new, of
another link or a later tick, is answered once:

    x <- source_law(x, x_rtt, R, ...),   x_rtt the mean rate of the packets that came since the price before was made

but for the first two of a flow, which speak of intervals that it joined midway. With "always" a source steps on its own
clock, every T from the first price on, x_rtt being the rate of the packet acknowledged last. A flow begins at its
`opening_rate`, and keeps to `floor` packets an RTT. The equations that have y lag by T and x move by (f(x) - x)/T
(`continuous`) are no model of such a loop: price (y - C)/y of an idle link and a rate that has already left
that y behind multiply to peaks of several capacities.

The grid is a hundredth of the interval, or a twentieth of the shortest RTT; queues are as in `windows`.
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
from ecc.fluid.network.initial_conditions import Beginning
from ecc.fluid.network.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.network.result import Outcome
from ecc.fluid.network.windows import at, entered
from ecc.models.base import Equilibrium, Protocol

__all__ = ["advance", "run_sampled"]

FloatArray = NDArray[np.float64]

_R, _Y, _Y_PREV, _U, _N, _N_ALL, _Q, _C, _D, _T, _X, _X_RTT, _R_PREV, _OWN_RTT, _RESULT = range(len(ARGUMENTS))
_PER_INTERVAL, _PER_RTT, _FINEST = 100, 20, 10_000
_UNANSWERED = 2  # prices at the start of a flow
_BACK, _ON, _RECEIVED = range(3)  # purposes of looking back, each with its hints
_MINIMUM, _MAXIMUM, _SUM = range(3)
# the books of a router: bits and RTTs since the last tick, the moving average of RTTs, ticks, y before
_BITS, _RTT, _MEAN, _TICKS, _BEFORE = range(5)
_pointers = unpacker("ff")


@optimized
def _close(
    link: int, i: int, longest: int, gain: float, router: int, announce: int, remembers: int, addresses: Any,
    record: Any, capacity: Any, state: Any, least: Any, most: Any, queue: float, told: Any, b: Any,
) -> Any:  # fmt: skip
    """Close the books of an interval; a status."""
    pointer, params = _pointers(addresses)
    status = 0
    if b[_TICKS] > 0.0 and b[_BITS] > 0.0:
        y = b[_BITS] / record[_T]
        seen = b[_RTT] if longest != 0 else b[_RTT] / b[_BITS]
        if seen > 0.0:
            b[_MEAN] += (gain if b[_MEAN] > 0.0 else 1.0) * (seen - b[_MEAN])
        record[_R], record[_Y], record[_Y_PREV], record[_Q] = state[link], y, b[_BEFORE], queue
        record[_C], record[_D] = capacity[link, i], b[_MEAN]
        if b[_BEFORE] <= 0.0:
            record[_Y_PREV] = y
        b[_BEFORE] = y
        if remembers == 0 or b[_MEAN] > 0.0:
            status = call(router, (pointer, pointer, params, pointer))
            if status != 0:
                return status
            state[link] = record[_RESULT] = min(max(record[_RESULT], least[link]), most[link])
        if announce != 0:
            record[_R] = state[link]
            status = call(announce, (pointer, pointer, params, pointer))
            told[link, i] = record[_RESULT]
        else:
            told[link, i] = state[link]
    b[_TICKS] += 1.0
    b[_BITS] = b[_RTT] = 0.0
    return status


@entry
def advance(
    begin: int, end: int, h: float, zero: int, per: int, combine: int, timed: int, longest: int, gain: float,
    remembers: int, laws: Integers, addresses: Integers, record: Floats, tick: Integers, first: Integers,
    links: Integers, listens: Integers, members: Floats, forward: Floats, backward: Floats, wire: Floats,
    reaches: Floats, survives: Floats, answers: Floats, start: Floats, stop: Floats, size: Floats, steady: Floats,
    floor: Floats, packet: Floats, capacity: FloatRows, served: FloatRows, buffer: Floats, state: Floats, least: Floats,
    most: Floats, x: Floats, x_rtt: Floats, price: Floats, rtt: Floats, heard: Floats, since: Floats, prices: Integers,
    owner: Integers, stamp: Floats, due: Floats, sent: FloatRows, squares: FloatRows, follows: IntegerRows,
    told: FloatRows, arrived: FloatRows, origin: FloatRows, seen: Floats, into: FloatRows, out: FloatRows,
    gone: FloatRows, lost: Floats, received: FloatRows, books: FloatRows, comes: Floats, met: Floats,
    hints: IntegerRows,
) -> Any:  # fmt: skip
    """Take steps on the grid; 0, or what a law returned."""
    pointer, params = _pointers(addresses)
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
            packets = 1.0 + np.floor(answers[g] * at(sent[g], sigma) / packet[g] + 1e-9)  # the first leaves at once
            moves = False
            if packets > heard[g] and sigma >= zero + start[g] / h and t < stop[g] and steady[g] <= 0.0:
                heard[g], rtt[g] = packets, (i - sigma) * h
                which, best, latest = -1, 0.0, 0.0
                for c in range(a, b):
                    link, k = links[c], int(met[c])
                    ticks = (k - zero - tick[link]) // per
                    if listens[c] == 0 or told[link, k] == -np.inf:
                        continue
                    if combine == _SUM:
                        best += told[link, k]
                        which = c
                    elif which < 0 or (told[link, k] > best if combine == _MAXIMUM else told[link, k] < best):
                        which, best, latest = c, told[link, k], ticks
                if which >= 0 and timed != 0:
                    price[g], x_rtt[g] = best, _rate(squares, sent, g, sigma)
                    if due[g] == np.inf:
                        due[g] = t + record[_T]
                    owner[g] = which
                elif which >= 0 and (which != owner[g] or latest > stamp[g]):
                    closed = int(zero + tick[links[which]] + latest * per)  # the price speaks of what came until then
                    spoken = min(sigma, origin[which, min(closed, i - 1)])
                    came = at(sent[g], spoken) - at(sent[g], since[g])
                    x_rtt[g] = _rate(squares, sent, g, sigma)
                    if came > 0.0:
                        x_rtt[g] = (at(squares[g], spoken) - at(squares[g], since[g])) / came
                    owner[g], stamp[g], since[g], price[g] = which, latest, max(since[g], spoken), best
                    prices[g] += 1
                    moves = prices[g] > _UNANSWERED
            if timed != 0 and t >= due[g] - 1e-9 * h:
                moves = t < stop[g]
                due[g] += record[_T]
            if moves:
                record[_X], record[_X_RTT], record[_R], record[_OWN_RTT] = x[g], x_rtt[g], price[g], rtt[g]
                status = call(laws[1], (pointer, pointer, params, pointer))
                if status != 0:
                    return status
                x[g] = max(record[_RESULT], floor[g] / rtt[g])
            now = min(h, max(0.0, t + h - start[g])) if t < stop[g] else 0.0
            rate = steady[g] if steady[g] > 0.0 else x[g]
            now = min(now, (size[g] - sent[g, i - 1]) / rate) if rate > 0.0 else 0.0
            sent[g, i] = sent[g, i - 1] + rate * now
            squares[g, i] = squares[g, i - 1] + rate * rate * now
            follows[g, i] = links[owner[g]] if owner[g] >= 0 and combine != _SUM else -1
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
                if steady[g] <= 0.0 and come > 0.0 and longest != 0:
                    books[link, _RTT] = max(books[link, _RTT], rtt[g])
                elif steady[g] <= 0.0:
                    books[link, _RTT] += members[g] * come * rtt[g]
        for link in range(len(capacity)):
            most_out = out[link, i - 1] + served[link, i] - served[link, i - 1]
            taken = min(comes[link], max(0.0, buffer[link] + most_out - into[link, i - 1]))
            into[link, i] = into[link, i - 1] + taken
            out[link, i] = min(into[link, i], most_out)
            gone[link, i] = gone[link, i - 1] + comes[link] - taken
            books[link, _BITS] += comes[link]
            told[link, i] = told[link, i - 1]
            late_by = i - zero - tick[link]
            if late_by >= 0 and late_by % per == 0:
                status = _close(
                    link, i, longest, gain, laws[0], laws[2], remembers, addresses, record, capacity, state, least,
                    most, into[link, i] - out[link, i], told, books[link],
                )  # fmt: skip
                if status != 0:
                    return status
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


@optimized
def _rate(squares: Any, sent: Any, g: int, sigma: float) -> Any:
    """The rate at which a flow sent in the step of the grid before a place, 0 if nothing."""
    bits = at(sent[g], sigma) - at(sent[g], sigma - 1.0)
    return (at(squares[g], sigma) - at(squares[g], sigma - 1.0)) / bits if bits > 0.0 else 0.0


def run_sampled(
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
        Protocol that is `sampled`.
    fluid : FluidNetwork
    samples : ndarray, s
        Equally far apart.
    point : Equilibrium or None
        Equilibrium that has held for ever, or None: an empty network.
    factor : float
        By which rates differ before and at the start from those of the point.
    progress : callable
        Called with the share done.
    ticks : ndarray, shape (n_links,)
        When routers first tick, in control intervals.
    records : bool, optional
        Whether rates, and the states of routers, are kept at each sample.

    Returns
    -------
    Outcome
    """
    laws = CompiledLaws(protocol)
    beginning = Beginning.of(protocol, laws, fluid, point, factor)
    L, G = fluid.n_links, fluid.n_groups
    params = protocol.params()
    T = float(params["interval"])
    per = min(_FINEST, max(_PER_INTERVAL, ceil(_PER_RTT * T / float(fluid.rtt.min()))))
    h = T / per
    links = np.concatenate(fluid.routes).astype(np.int64)
    P = len(links)
    first = np.cumsum([0, *map(len, fluid.routes)])
    forward, backward = np.concatenate(fluid.forward), np.concatenate(fluid.backward)
    packet = 8.0 * fluid.packet_size
    zero = 2 + ceil(float(beginning.rtt.max()) / h)
    n = zero + ceil(float(samples[-1]) / h - 1e-9) + 1
    record = np.zeros(len(ARGUMENTS))
    record[_T] = T
    addresses = np.array([record.ctypes.data, laws.params.ctypes.data])
    called = np.array([laws.router, laws.source, laws.announce], dtype=np.int64)
    into, out, gone, told = np.zeros((4, L, n))
    served, capacity = fluid.service(h * (np.arange(n) - zero + 1.0))
    arrived, origin = np.zeros((2, P, n))
    sent, squares, received = np.zeros((3, G, n))
    follows = np.full((G, n), -1, dtype=np.int64)
    start, stop = fluid.start.copy(), fluid.stop.copy()
    x = np.maximum(beginning.x, fluid.floor(protocol) / beginning.rtt)
    owner, prices = np.full(G, -1, dtype=np.int64), np.zeros(G, dtype=np.int64)
    tick = np.maximum(1, np.rint(per * ticks)).astype(np.int64)
    books = np.zeros((L, 5))
    told[:] = 0.0 if protocol.combine == "sum" else -np.inf
    grid = np.arange(zero)
    for c in range(P):
        origin[c, :zero] = grid - forward[c] / h
    if point is not None:
        start[:] = -np.inf
        prices[:] = _UNANSWERED
        told[:, :zero] = beginning.told[:, None]
        books[:, _MEAN], books[:, _BEFORE] = beginning.measured[4], beginning.measured[0]
        books[:, _TICKS] = 1.0
        books[:, _BITS] = (per - tick) * h * beginning.measured[0]  # of the interval that runs
        books[:, _RTT] = beginning.measured[4] * (1.0 if protocol.scaling_rtt == "max" else books[:, _BITS])
        waits = beginning.queue / fluid.capacity / h
        for g, route in enumerate(fluid.routes):
            flow = int(np.argmax(fluid.group_of == g))
            followed = int(point.bottleneck[flow])
            owner[g] = first[g] + (route.index(followed) if followed >= 0 else 0)
            follows[g, :zero] = followed
            sent[g, :zero] = x[g] * h * grid
            squares[g, :zero] = x[g] * sent[g, :zero]
            late = np.concatenate([[0.0], np.cumsum(waits[list(route)])])
            for c in range(first[g], first[g + 1]):
                origin[c, :zero] -= late[c - first[g]]
                arrived[c, :zero] = x[g] * h * origin[c, :zero]
                into[links[c], :zero] += fluid.members[g] * arrived[c, :zero]
            received[g, :zero] = arrived[c, :zero] - x[g] * (fluid.wire[g] + h * waits[links[c]])
        out[:, :zero] = into[:, :zero] - beginning.queue[:, None]
    seen = arrived[:, zero - 1].copy()
    base = sent[:, zero - 1].copy()
    around = beginning.rtt / h
    behind = zero - 1 - around if point is not None else zero - 1.0 + np.maximum(start, 0.0) / h
    heard = np.zeros(G)
    if point is not None:
        heard = 1.0 + np.array([np.floor(at(sent[g, :zero], s) / packet[g]) for g, s in enumerate(behind)])
    due = np.full(G, T if point is not None else np.inf)
    lost = np.zeros(G)
    feedback = beginning.state.copy()
    state = (
        called, addresses, record, tick, first, links, np.concatenate(fluid.listens).astype(np.int64), fluid.members,
        forward, backward, fluid.wire, np.concatenate(fluid.reaches), fluid.survives, fluid.answers, start, stop,
        fluid.size + base, fluid.steady, fluid.floor(protocol), packet, capacity, served, fluid.buffer,
        feedback, beginning.least, beginning.most, x, x.copy(),
        beginning.told[links[np.maximum(owner, 0)]], beginning.rtt.copy(), heard, behind, prices, owner,
        np.full(G, -1.0), due, sent, squares, follows, told, arrived, origin, seen, into, out, gone, lost, received,
        books, np.zeros(L), np.zeros(P), np.zeros((3, P), np.int64),
    )  # fmt: skip
    how = ("min", "max", "sum").index(protocol.combine)
    options = (how, int(protocol.source_clock == "always"), int(protocol.scaling_rtt == "max"))
    gain = float(params.get("rtt_gain", 1.0))
    steps = Grid(h, zero, n, samples)
    steps.run(
        lambda begin, end: int(advance(begin, end, h, zero - 1, per, *options, gain, int(laws.remembers), *state)),
        progress,
        {"flow.x": x, "link.R": feedback} if records else None,
    )
    return steps.outcome(fluid.buffer, sent, received, into, out, gone, follows, lost, stop)
