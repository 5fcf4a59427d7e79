"""Fluid of windows with changes granted by routers: routers measure an interval, and share out its rest in the next.

Routers measure for T, the `interval_law` of the mean RTT d of the flows (or the largest), and take the lowest queue Q
of every `queue_interval_law`. The changes of the rates of all flows in the next interval, up and down,

    up = router_law(x=0, N_all=1),   down = up - router_law(x=y, N_all=1),

are granted to departures from the queue in that interval: up in equal parts to each flow, for the time that its bits
took to send (as flows report it: their RTT over their window), down to each bit. When either is used up, no more is
granted. The grant of an upstream link is a limit: a link keeps the excess for other flows.

    w'  = D (grants returned by the ACKs of the moment)                         D the smoothed RTT
    sent(t) = acknowledged(t) + w(t), and, if packets are `paced`, sent' <= w/D      never decreasing

A flow opens with a packet of `opening_size`, which gets no grant; once it is acknowledged the window is `initial`
packets. Windows may be fractions of a packet here, and losses do not change them. Curves and queues are as in `curves`,
on a grid of a 100th of the shortest RTT.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.forms import GrantedWindows
from ecc.contract.protocol import Protocol
from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, entry, inlined, optimized, unpacker
from ecc.fluid.network.curves import (
    OTHER,
    Curves,
    Paths,
    arrive,
    at,
    at_equilibrium,
    clear,
    curves_of,
    drop,
    entered,
    look_back,
    paths_of,
    result_of,
    serve,
)
from ecc.fluid.network.grid import INTERVAL, QUEUE_INTERVAL, ROUTER, SOURCE, Grid, failed
from ecc.fluid.network.groups import FluidNetwork
from ecc.fluid.network.laws import CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result
from ecc.laws.arguments import call_law

__all__ = ["GRANT_ARGUMENTS", "advance", "run"]

FloatArray = NDArray[np.float64]

GRANT_ARGUMENTS = ("R", "y", "q", "N_all", "C", "d", "T", "x", "result")
"""Fields of the record that laws read, and `result`, which they write."""

_R, _Y, _Q, _N_ALL, _C, _D, _T, _X, _RESULT = range(len(GRANT_ARGUMENTS))
_PER_RTT = 100
_SMOOTHING = 1.0 / 8.0  # gain of the smoothed RTT for each packet
_pointers = unpacker("ff")

# state of a router: RTT, lowest queue, its grants (per time, per bit) and the rest of both; since the last tick: bits,
# their sending time, the sum of sending time times RTT, largest RTT; lowest queue since the last look; times of the
# last tick, of the next tick and of the next look
(
    _RTT,
    _LOWEST,
    _UP,
    _DOWN,
    _UP_LEFT,
    _DOWN_LEFT,
    _BITS,
    _TIME,
    _RTT_TIME,
    _LARGEST,
    _LOW,
    _OPENED,
    _DUE,
    _LOOKS,
    _KEPT,
) = range(15)


class Rules(NamedTuple):
    """Laws, and the options of their application."""

    router: int
    interval: int
    queue_interval: int
    source: int
    addresses: Integers  # addresses of the record and of the parameters
    record: Floats
    failed: Floats  # `Grid.failed`
    longest: int  # whether d is the largest RTT
    paced: int  # whether w/D limits the rate of sources
    handshake_time: float  # sending time counted if an interval saw only opening packets [s]


class Routers(NamedTuple):
    """Counters and grants of each link's router."""

    state: FloatRows  # (n_links, 14)
    grants: FloatRows  # (n_crossings, n_times): change of the rate for each bit that leaves the queue
    granter: IntegerRows  # (n_crossings, n_times): link that made the grant, -1 for none
    passed: Floats  # (n_crossings,): bits that have left the queue


class Sources(NamedTuple):
    """State of a source of each group."""

    opening: Floats  # bits that a flow sends before it is granted anything
    initial: Floats  # window from then on [bit]
    window: Floats
    srtt: Floats
    opened: Integers  # whether it has a window
    acked: Floats  # bits
    rtt: FloatRows  # (n_groups, n_times): smoothed RTT, as packets carry it
    spacing: FloatRows  # (n_groups, n_times): RTT over window


@optimized
def _call_law(law: int, rules: Any) -> Any:
    pointer, params = _pointers(rules.addresses)
    status = call(law, (pointer, pointer, params, pointer))
    return status, rules.record[_RESULT]


@optimized
def _set_grants(b: Any, link: int, t: float, bits: float, rules: Any) -> Any:
    """Set the grants of an interval by the arrivals in the last one; return a status."""
    record = rules.record
    record[_D] = b[_RTT]
    status, T = _call_law(rules.interval, rules)
    if status != 0:
        return failed(rules.failed, INTERVAL, link, t, status)
    b[_UP] = b[_DOWN] = b[_UP_LEFT] = b[_DOWN_LEFT] = 0.0
    if bits > 0.0:
        record[_Y], record[_T], record[_N_ALL], record[_X] = bits / (t - b[_OPENED]), T, 1.0, 0.0
        record[_Q] = b[_LOWEST]
        status, up = _call_law(rules.router, rules)
        record[_X] = record[_Y]
        if status == 0:
            status, net = _call_law(rules.router, rules)
        if status != 0:
            return failed(rules.failed, ROUTER, link, t, status)
        b[_UP_LEFT], b[_DOWN_LEFT] = up, up - net
        b[_UP] = up / (b[_TIME] if b[_TIME] > 0.0 else rules.handshake_time)
        b[_DOWN] = (up - net) / bits
    b[_BITS] = b[_TIME] = b[_RTT_TIME] = b[_LARGEST] = 0.0
    b[_OPENED], b[_DUE] = t, t + T
    return status


@optimized
def _grant(paths: Any, curves: Any, routers: Any, sources: Any, c: int, i: int) -> None:
    """Set the grant of the departures from a queue."""
    g, link = paths.owner[c], paths.links[c]
    b, grants, granter = routers.state[link], routers.grants, routers.granter
    grants[c, i], granter[c, i] = grants[c, i - 1], granter[c, i - 1]
    e = entered(curves.into[link], curves.out[link], float(i), curves.hints[OTHER], c)
    amount = at(curves.arrived[c], e) - routers.passed[c]
    routers.passed[c] += amount
    k = max(0, min(int(np.ceil(at(curves.origin[c], e))), i))
    upstream, by = np.inf, -1
    if c > paths.first[g]:
        u = max(0, min(int(np.ceil(e - paths.hop[c])), i))
        if granter[c - 1, u] >= 0:
            upstream, by = grants[c - 1, u], granter[c - 1, u]
    if paths.steady[g] > 0.0 or sources.rtt[g, k] <= 0.0 or amount <= 0.0:
        return
    if paths.responds[c] == 0:
        grants[c, i], granter[c, i] = 0.0 if by < 0 else upstream, by
        return
    bits = paths.members[g] * amount
    up = min(b[_UP] * sources.spacing[g, k] * bits, b[_UP_LEFT])
    down = min(b[_DOWN] * bits, b[_DOWN_LEFT])
    if (up - down) / bits <= upstream:
        grants[c, i], granter[c, i] = (up - down) / bits, link
    else:
        down = min(up - upstream * bits, b[_DOWN_LEFT])
        up = upstream * bits + down
        grants[c, i], granter[c, i] = upstream, by
    b[_UP_LEFT] = max(0.0, b[_UP_LEFT] - up)
    b[_DOWN_LEFT] = max(0.0, b[_DOWN_LEFT] - down)


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
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(paths.members)):
            status = _move_source(paths, curves, rules, routers, sources, g, i, t, h, zero)
            if status != 0:
                return status
        clear(curves)
        for c in range(len(paths.links)):
            _count_arrivals(paths, curves, routers, sources, c, i)
        for link in range(len(paths.buffer)):
            serve(paths, curves, link, i)
            routers.state[link, _BITS] += curves.incoming[link]
        drop(paths, curves, i)
        for c in range(len(paths.links)):
            _grant(paths, curves, routers, sources, c, i)
        for link in range(len(paths.buffer)):
            status = _move_router(paths, curves, rules, routers, link, i, t, h)
            if status != 0:
                return status
    return 0


@inlined
def _move_source(
    paths: Any, curves: Any, rules: Any, routers: Any, sources: Any, g: int, i: int, t: float, h: float, zero: int
) -> Any:
    """Let a source respond to the data acknowledged now, and send; return 0, or the status of a law that failed."""
    record, sent, start, stop, steady = rules.record, curves.sent, paths.start, paths.stop, paths.steady
    window, srtt, opened, acked = sources.window, sources.srtt, sources.opened, sources.acked
    last = paths.first[g + 1] - 1
    sigma = look_back(paths, curves, g, i)
    bits = at(curves.arrived[last], curves.entered_at[last])
    more = max(0.0, bits - acked[g])
    acked[g] = max(acked[g], bits)
    D = (i - sigma) * h
    curves.bottleneck[g, i], sent[g, i] = curves.bottleneck[g, i - 1], sent[g, i - 1]
    if t >= stop[g]:
        return 0
    if steady[g] > 0.0:
        sent[g, i] = min(sent[g, i - 1] + steady[g] * min(h, max(0.0, t + h - start[g])), paths.size[g])
    else:
        if opened[g] == 0 and t >= start[g]:
            sent[g, i] = max(sent[g, i - 1], sources.opening[g])
            if sigma >= zero + start[g] / h:
                opened[g], window[g], srtt[g] = 1, sources.initial[g], D
        if opened[g] > 0:
            srtt[g] += (D - srtt[g]) * min(1.0, _SMOOTHING * more / paths.packet[g])
            k = min(int(np.ceil(curves.left_at[last])), i - 1)
            record[_X] = window[g]
            share = more * paths.survives[g] / paths.reaches[last] * paths.acks_kept[g]
            record[_R] = share * routers.grants[last, k] * srtt[g]
            if record[_R] != 0.0:
                status, new_window = _call_law(rules.source, rules)
                if status != 0:
                    return failed(rules.failed, SOURCE, g, t, status)
                window[g] = max(new_window, paths.packet[g])
                curves.bottleneck[g, i] = routers.granter[last, k]
            allowed = at(sent[g], sigma) + window[g]  # data sent after sigma are in flight
            if rules.paced != 0:
                allowed = min(allowed, sent[g, i - 1] + h * window[g] / srtt[g])
            sent[g, i] = min(max(sent[g, i - 1], allowed), paths.size[g])
            sources.rtt[g, i], sources.spacing[g, i] = srtt[g], srtt[g] / window[g]
    if sent[g, i] >= paths.size[g]:
        stop[g] = t
    return 0


@inlined
def _count_arrivals(paths: Any, curves: Any, routers: Any, sources: Any, c: int, i: int) -> None:
    """Let data arrive at a queue, and count their RTTs and sending time at its router."""
    g, b = paths.owner[c], routers.state[paths.links[c]]
    new = arrive(paths, curves, c, i)
    k = max(0, min(int(np.ceil(curves.origin[c, i])), i))
    if paths.responds[c] != 0 and new > 0.0 and sources.rtt[g, k] > 0.0:
        took = paths.members[g] * new * sources.spacing[g, k]
        b[_TIME] += took
        b[_RTT_TIME] += took * sources.rtt[g, k]
        b[_LARGEST] = max(b[_LARGEST], sources.rtt[g, k])


@inlined
def _move_router(paths: Any, curves: Any, rules: Any, routers: Any, link: int, i: int, t: float, h: float) -> Any:
    """Let a router check its queue, and close its interval; return 0, or the status of a law that failed."""
    b, record = routers.state[link], rules.record
    queue = curves.into[link, i] - curves.out[link, i]
    b[_LOW] = min(b[_LOW], queue)
    if t < min(b[_DUE], b[_LOOKS]) - 1e-9 * h:
        return 0
    record[_C], record[_D], record[_Q] = paths.capacity[link, i], b[_RTT], queue
    if t >= b[_LOOKS] - 1e-9 * h:
        b[_LOWEST], b[_LOW] = b[_LOW], record[_Q]
        status, soon = _call_law(rules.queue_interval, rules)
        if status != 0:
            return failed(rules.failed, QUEUE_INTERVAL, link, t, status)
        b[_LOOKS] = t + soon
    if t >= b[_DUE] - 1e-9 * h:
        if b[_TIME] > 0.0:
            b[_RTT] = b[_LARGEST] if rules.longest != 0 else b[_RTT_TIME] / b[_TIME]
        return _set_grants(b, link, t, b[_BITS], rules)
    return 0


def _set_counters(state: Any, form: GrantedWindows, protocol: Protocol, fluid: FluidNetwork, x: FloatArray) -> None:
    """Set routers to the end of an interval in which flows sent at rates x."""
    for link, b in enumerate(state):
        through = [g for g, route in enumerate(fluid.routes) if link in route]
        members, rtts = fluid.members[through], fluid.rtt[through]
        if len(through):
            b[_RTT] = rtts.max() if protocol.scaling_rtt == "max" else np.average(rtts, weights=members)
        supply = {"d": float(b[_RTT]), "C": float(fluid.capacity[link]), "p": protocol.namespace()}
        T = call_law(form.interval_law, supply)
        b[_BITS], b[_TIME], b[_RTT_TIME] = T * members @ x[through], T * members.sum(), T * members @ rtts
        b[_LARGEST], b[_OPENED], b[_DUE] = b[_RTT], -T, 0.0


def run(problem: Problem) -> Result:
    """Compute the curves of a network.

    Parameters
    ----------
    problem : Problem
        Problem with a `fluid_form` of type `GrantedWindows`.

    Returns
    -------
    Result
    """
    protocol, fluid, point = problem.protocol, problem.fluid, problem.point
    laws = CompiledLaws(protocol, GRANT_ARGUMENTS, problem.shared)
    L, G = fluid.n_links, fluid.n_groups
    form, interval = protocol.fluid_form, protocol.params()["interval"]
    assert isinstance(form, GrantedWindows)
    h = float(fluid.rtt.min()) / _PER_RTT
    zero = 2 + ceil(float(fluid.rtt.max()) / h)
    grid = Grid.of(h, zero, problem.samples)
    paths = paths_of(fluid, grid)
    curves = curves_of(paths, fluid, grid)
    granter = np.full((len(paths.links), grid.rows), -1, dtype=np.int64)
    rtt, spacing = np.zeros((2, G, grid.rows))
    window, opened = np.zeros(G), np.zeros(G, dtype=np.int64)
    state = np.zeros((L, _KEPT))
    state[:, _RTT] = interval
    state[:, _DUE] = state[:, _LOOKS] = problem.ticks * interval
    if point is not None:
        x = point.rates[fluid.first_flow]
        at_equilibrium(paths, curves, problem, grid, x, np.zeros(L))
        opened[:], window[:] = 1, problem.factor * x * fluid.rtt
        rtt[:, :zero], spacing[:, :zero] = fluid.rtt[:, None], 1.0 / x[:, None]
        granter[:, :zero] = curves.bottleneck[paths.owner, :1]
        _set_counters(state, form, protocol, fluid, x)
    record = np.zeros(len(GRANT_ARGUMENTS))
    addresses = np.array([record.ctypes.data, laws.params.ctypes.data])
    rules = Rules(
        laws.router,
        laws.interval,
        laws.queue_interval,
        laws.source,
        addresses,
        record,
        grid.failed,
        int(protocol.scaling_rtt == "max"),
        int(form.paced),
        float(form.handshake_time),
    )
    routers = Routers(state, np.zeros(curves.arrived.shape), granter, curves.arrived[:, zero - 1].copy())
    opening = np.full(G, 8.0 * protocol.opening_size or paths.packet)
    sources = Sources(
        opening,
        (protocol.initial or 1.0) * paths.packet,
        window,
        fluid.rtt.copy(),
        opened,
        np.zeros(G),
        rtt,
        spacing,
    )
    states = {"env.window": window, "env.srtt": sources.srtt, "link.d": state[:, _RTT]} if problem.records else None
    grid.run(
        lambda begin, end: int(advance(begin, end, h, zero - 1, paths, curves, rules, routers, sources)),
        problem.progress,
        states,
        code=[laws.code],
        flows=fluid.first_flow,
    )
    result = result_of(grid, paths, curves)
    if problem.records:
        result.recorded["env.window"] /= 8.0
    return result
