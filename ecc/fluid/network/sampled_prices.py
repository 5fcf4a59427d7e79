"""Fluid with routers that compute a price for each interval and sources that step at each new price.

A router measures the arrival rate y in each interval of T, and its laws turn y into its price until the next tick. It
advertises nothing before the end of the first full interval, and keeps its price over an interval without arrivals:

    R_l <- router_law(R_l, y_l, d_l, C_l, ...),   price_l = announce_law(R_l, y_l, ...), or R_l itself

d is the largest RTT that arrived in an interval, or the mean, as a moving average of weight `rtt_gain`. A packet reads
the price on arrival at a queue. ACKs return packet by packet with the prices of the path (the maximum, the minimum or
their sum) and the rate at which their packet was sent. With a `source_clock` of "interval" the source responds once to
each new price, from another link or a later tick:

    x <- source_law(x, x_rtt, R, ...),   x_rtt the mean rate of the packets that arrived since the previous price

It ignores the first two prices of a flow, because it joined their intervals midway. With "always" a source steps on a
separate clock, every T from the first price on, and x_rtt is the rate of the packet acknowledged last. A flow begins at
its `opening_rate`, and its minimum rate is `floor` packets an RTT. Equations in which y lags by T and x moves by
(f(x) - x)/T (`continuous`, for `time` "averaged") model such a loop near its equilibrium only: they multiply the price
(y - C)/y of an idle link by a rate that has already changed, which gives peaks of several times the capacity.

The grid is a hundredth of the interval, or a twentieth of the shortest RTT; queues are as in `curves`.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.forms import SampledPrices
from ecc.fluid.compiled import FloatRows, Floats, Integers, call, entry, inlined, optimized, unpacker
from ecc.fluid.network.curves import (
    Curves,
    Paths,
    arrive,
    at,
    at_equilibrium,
    clear,
    curves_of,
    drop,
    look_back,
    paths_of,
    result_of,
    serve,
)
from ecc.fluid.network.grid import ANNOUNCE, ROUTER, SOURCE, Grid, failed
from ecc.fluid.network.initial_conditions import InitialConditions
from ecc.fluid.network.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result

__all__ = ["advance", "run"]

FloatArray = NDArray[np.float64]

_R, _Y, _Y_PREV, _U, _N, _N_ALL, _Q, _C, _D, _T, _X, _X_RTT, _R_PREV, _OWN_RTT, _S, _RESULT = range(len(ARGUMENTS))
_PER_INTERVAL, _PER_RTT, _FINEST = 100, 20, 10_000
_UNANSWERED = 2  # prices that a source ignores at the start of a flow
_MINIMUM, _MAXIMUM, _SUM = range(3)
# counters of a router: bits and RTTs since the last tick, the moving average of RTTs, ticks, y before
_BITS, _RTT, _MEAN, _TICKS, _BEFORE = range(5)
_pointers = unpacker("ff")


class Rules(NamedTuple):
    """Laws, and the options of their application by routers and sources."""

    router: int
    source: int
    announce: int  # 0: none
    addresses: Integers  # addresses of the record and of the parameters
    record: Floats
    failed: Floats  # `Grid.failed`
    per: int  # steps of the grid in an interval
    combine: int
    timed: int  # whether sources step on a separate clock
    longest: int  # whether d is the largest RTT
    gain: float  # gain of the moving average of RTTs
    remembers: int  # whether routers have a state


class Routers(NamedTuple):
    """State of each link's router."""

    tick: Integers  # steps of the grid until it first ticks
    state: Floats
    lowest: Floats
    highest: Floats
    advertised: FloatRows  # (n_links, n_times): the price
    counters: FloatRows  # (n_links, 5)


class Sources(NamedTuple):
    """State of a source of each group."""

    floor: Floats  # [bit], an RTT
    x: Floats
    x_rtt: Floats
    price: Floats
    rtt: Floats
    acked: Floats  # packets
    since: Floats  # position of sending of the last packet that the last price counts
    prices: Integers  # received so far
    owner: Integers  # crossing of the last price, -1 for none
    stamp: Floats  # tick of that price
    due: Floats  # s, next step on a separate clock
    squares: FloatRows  # (n_groups, n_times): integral of the squared rate


@optimized
def _close_interval(link: int, i: int, t: float, rules: Any, capacity: Any, queue: float, routers: Any) -> Any:
    """Close the interval of a router; return a status."""
    pointer, params = _pointers(rules.addresses)
    record, b = rules.record, routers.counters[link]
    status = 0
    if b[_TICKS] > 0.0 and b[_BITS] > 0.0:
        y = b[_BITS] / record[_T]
        seen = b[_RTT] if rules.longest != 0 else b[_RTT] / b[_BITS]
        if seen > 0.0:
            b[_MEAN] += (rules.gain if b[_MEAN] > 0.0 else 1.0) * (seen - b[_MEAN])
        record[_R], record[_Y], record[_Y_PREV], record[_Q] = routers.state[link], y, b[_BEFORE], queue
        record[_C], record[_D] = capacity[link, i], b[_MEAN]
        if b[_BEFORE] <= 0.0:
            record[_Y_PREV] = y
        b[_BEFORE] = y
        if rules.remembers == 0 or b[_MEAN] > 0.0:
            status = call(rules.router, (pointer, pointer, params, pointer))
            if status != 0:
                return failed(rules.failed, ROUTER, link, t, status)
            record[_RESULT] = min(max(record[_RESULT], routers.lowest[link]), routers.highest[link])
            routers.state[link] = record[_RESULT]
        if rules.announce != 0:
            record[_R] = routers.state[link]
            status = call(rules.announce, (pointer, pointer, params, pointer))
            if status != 0:
                return failed(rules.failed, ANNOUNCE, link, t, status)
            routers.advertised[link, i] = record[_RESULT]
        else:
            routers.advertised[link, i] = routers.state[link]
    b[_TICKS] += 1.0
    b[_BITS] = b[_RTT] = 0.0
    return status


@optimized
def _rate(squares: Any, sent: Any, g: int, sigma: float) -> Any:
    """Return the rate of a flow in the step of the grid before a position, 0 if it sent nothing."""
    bits = at(sent[g], sigma) - at(sent[g], sigma - 1.0)
    return (at(squares[g], sigma) - at(squares[g], sigma - 1.0)) / bits if bits > 0.0 else 0.0


@inlined
def _price_of_path(g: int, zero: int, paths: Any, curves: Any, rules: Any, routers: Any) -> Any:
    """Return (crossing of the price or -1, price, its tick) of the feedback that a group receives now."""
    which, best, latest = -1, 0.0, 0.0
    for c in range(paths.first[g], paths.first[g + 1]):
        link, k = paths.links[c], int(curves.entered_at[c])
        ticks = (k - zero - routers.tick[link]) // rules.per
        price = routers.advertised[link, k]
        if paths.responds[c] == 0 or price == -np.inf:
            continue
        if rules.combine == _SUM:
            best += price
            which = c
        elif which < 0 or (price > best if rules.combine == _MAXIMUM else price < best):
            which, best, latest = c, price, ticks
    return which, best, latest


@inlined
def _receive(
    g: int, i: int, t: float, h: float, zero: int, paths: Any, curves: Any, rules: Any, routers: Any, sources: Any
) -> Any:
    """Trace the data acknowledged at time i back along their path, and store the feedback of a new ACK.

    Returns whether the source steps.
    """
    sent, last = curves.sent, paths.first[g + 1] - 1
    look_back(paths, curves, g, i)
    sigma = at(curves.origin[last], curves.entered_at[last])
    # the first packet leaves at once
    packets = 1.0 + np.floor(paths.acks_kept[g] * at(sent[g], sigma) / paths.packet[g] + 1e-9)
    is_new = packets > sources.acked[g] and sigma >= zero + paths.start[g] / h
    moves = False
    if is_new and t < paths.stop[g] and paths.steady[g] <= 0.0:
        sources.acked[g], sources.rtt[g] = packets, (i - sigma) * h
        which, price, latest = _price_of_path(g, zero, paths, curves, rules, routers)
        if which >= 0 and rules.timed != 0:
            sources.price[g], sources.x_rtt[g] = price, _rate(sources.squares, sent, g, sigma)
            if sources.due[g] == np.inf:
                sources.due[g] = t + rules.record[_T]
            sources.owner[g] = which
        elif which >= 0 and (which != sources.owner[g] or latest > sources.stamp[g]):
            # the price counts arrivals until its tick
            closed = int(zero + routers.tick[paths.links[which]] + latest * rules.per)
            counted = min(sigma, curves.origin[which, min(closed, i - 1)])
            squares, since = sources.squares, sources.since[g]
            arrived = at(sent[g], counted) - at(sent[g], since)
            sources.x_rtt[g] = _rate(squares, sent, g, sigma)
            if arrived > 0.0:
                sources.x_rtt[g] = (at(squares[g], counted) - at(squares[g], since)) / arrived
            sources.owner[g], sources.stamp[g], sources.price[g] = which, latest, price
            sources.since[g] = max(since, counted)
            sources.prices[g] += 1
            moves = sources.prices[g] > _UNANSWERED
    if rules.timed != 0 and t >= sources.due[g] - 1e-9 * h:
        moves = t < paths.stop[g]
        sources.due[g] += rules.record[_T]
    return moves


@entry
def advance(
    begin: int,
    end: int,
    h: float,
    zero: int,
    paths: Paths,
    curves: Curves,
    rules: Rules,
    routers: Routers,
    sources: Sources,
) -> Any:
    """Take steps on the grid; return 0, or the status of a law that failed."""
    pointer, params = _pointers(rules.addresses)
    record, counters, sent, squares = rules.record, routers.counters, curves.sent, sources.squares
    stop, steady = paths.stop, paths.steady
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(paths.members)):
            if _receive(g, i, t, h, zero, paths, curves, rules, routers, sources):
                record[_X], record[_X_RTT], record[_R] = sources.x[g], sources.x_rtt[g], sources.price[g]
                record[_OWN_RTT] = sources.rtt[g]
                status = call(rules.source, (pointer, pointer, params, pointer))
                if status != 0:
                    return failed(rules.failed, SOURCE, g, t, status)
                sources.x[g] = max(record[_RESULT], sources.floor[g] / sources.rtt[g])
            now = min(h, max(0.0, t + h - paths.start[g])) if t < stop[g] else 0.0
            rate = steady[g] if steady[g] > 0.0 else sources.x[g]
            now = min(now, (paths.size[g] - sent[g, i - 1]) / rate) if rate > 0.0 else 0.0
            sent[g, i] = sent[g, i - 1] + rate * now
            squares[g, i] = squares[g, i - 1] + rate * rate * now
            owner = sources.owner[g]
            curves.bottleneck[g, i] = paths.links[owner] if owner >= 0 and rules.combine != _SUM else -1
            if sent[g, i] >= paths.size[g] and stop[g] > t:
                stop[g] = t

        # arrivals at the queues, departures from them, and the counters of routers
        clear(curves)
        for c in range(len(paths.links)):
            g, link = paths.owner[c], paths.links[c]
            new = arrive(paths, curves, c, i)
            if steady[g] <= 0.0 and new > 0.0 and rules.longest != 0:
                counters[link, _RTT] = max(counters[link, _RTT], sources.rtt[g])
            elif steady[g] <= 0.0:
                counters[link, _RTT] += paths.members[g] * new * sources.rtt[g]
        for link in range(len(paths.buffer)):
            serve(paths, curves, link, i)
            counters[link, _BITS] += curves.incoming[link]
            routers.advertised[link, i] = routers.advertised[link, i - 1]
            late_by = i - zero - routers.tick[link]
            if late_by >= 0 and late_by % rules.per == 0:
                queue = curves.into[link, i] - curves.out[link, i]
                status = _close_interval(link, i, t, rules, paths.capacity, queue, routers)
                if status != 0:
                    return status
        drop(paths, curves, i)
    return 0


def run(problem: Problem) -> Result:
    """Compute the curves of a network.

    Parameters
    ----------
    problem : Problem
        Problem with a `fluid_form` of type `SampledPrices`.

    Returns
    -------
    Result
    """
    protocol, fluid = problem.protocol, problem.fluid
    laws = CompiledLaws(protocol, shared=problem.shared)
    initial = InitialConditions.of(protocol, laws, fluid, problem.point, problem.factor)
    L, G = fluid.n_links, fluid.n_groups
    form = protocol.fluid_form
    assert isinstance(form, SampledPrices)
    T = float(protocol.params()["interval"])
    per = min(_FINEST, max(_PER_INTERVAL, ceil(_PER_RTT * T / float(fluid.rtt.min()))))
    h = T / per
    zero = 2 + ceil(float(initial.rtt.max()) / h)
    grid = Grid.of(h, zero, problem.samples)
    paths = paths_of(fluid, grid)
    x = np.maximum(initial.x, fluid.floor(protocol) / initial.rtt)
    curves = curves_of(paths, fluid, grid)
    owner, prices = np.full(G, -1, dtype=np.int64), np.zeros(G, dtype=np.int64)
    tick = np.maximum(1, np.rint(per * problem.ticks)).astype(np.int64)
    counters = np.zeros((L, 5))
    advertised = np.full((L, grid.rows), 0.0 if protocol.combine == "sum" else -np.inf)
    squares, acked = np.zeros((G, grid.rows)), np.zeros(G)
    since = zero - 1.0 + np.maximum(paths.start, 0.0) / h
    if problem.point is not None:
        owner = at_equilibrium(paths, curves, problem, grid, x, initial.queue)
        since = zero - 1 - initial.rtt / h
        prices[:] = _UNANSWERED
        advertised[:, :zero] = initial.advertised[:, None]
        counters[:, _MEAN], counters[:, _BEFORE] = initial.measured[4], initial.measured[0]
        counters[:, _TICKS] = 1.0
        counters[:, _BITS] = (per - tick) * h * initial.measured[0]  # bits of the current interval
        counters[:, _RTT] = initial.measured[4] * (1.0 if protocol.scaling_rtt == "max" else counters[:, _BITS])
        squares[:, :zero] = x[:, None] * curves.sent[:, :zero]
        sent = [at.py_func(curves.sent[g, :zero], s) for g, s in enumerate(since)]
        acked = 1.0 + np.floor(np.array(sent) / paths.packet)
    record = np.zeros(len(ARGUMENTS))
    record[_T] = T
    rules = Rules(
        laws.router,
        laws.source,
        laws.announce,
        np.array([record.ctypes.data, laws.params.ctypes.data]),
        record,
        grid.failed,
        per,
        ("min", "max", "sum").index(protocol.combine),
        int(protocol.source_clock == "always"),
        int(protocol.scaling_rtt == "max"),
        form.rtt_gain,
        int(laws.remembers),
    )
    routers = Routers(tick, initial.state.copy(), initial.lowest, initial.highest, advertised, counters)
    sources = Sources(
        floor=fluid.floor(protocol),
        x=x,
        x_rtt=x.copy(),
        price=initial.advertised[paths.links[np.maximum(owner, 0)]],
        rtt=initial.rtt.copy(),
        acked=acked,
        since=since,
        prices=prices,
        owner=owner,
        stamp=np.full(G, -1.0),
        due=np.full(G, np.inf if problem.point is None else T),
        squares=squares,
    )
    grid.run(
        lambda begin, end: int(advance(begin, end, h, zero - 1, paths, curves, rules, routers, sources)),
        problem.progress,
        {"flow.x": x, "link.R": routers.state} if problem.records else None,
        code=[laws.code],
        flows=problem.fluid.first_flow,
    )
    return result_of(grid, paths, curves)
