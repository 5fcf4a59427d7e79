"""Fluid with sources that change their rate in steps, each after routers have reported a full interval since the last.

Rates are constant between steps. A router measures the requests of flows in each interval of T:

    y_l  rate requested by all flows     u_l  rate requested by flows not bottlenecked at l
    N_l  flows bottlenecked at l: the time that their arrivals took to send, over T; random losses are not counted
    R_l = router_law(u_l, N_l, ...),  priority_law and refusal_law alike; if N_l = 0: of an empty link, or 0 if refused

A header reads them on arrival at a queue, and ACKs return packet by packet. An ACK counts if its packet was sent after
the source's last step. The first ACK that counts marks an interval of the router of the source's bottleneck. Once an
ACK returns from the interval `wait` after the next one, the source does one of two things. If a link has a higher
priority than its bottleneck (or the same and a lower offer), and if the source is near the offer of its bottleneck,
that link's priority is above 0, or routers send no priority, it changes to that link. Otherwise it takes the rate it
requested, if no link refuses, and requests source_law(x, R); it takes a lower rate at once.

Each then waits again, for times that `SteppedRates` gives for a change of bottleneck and for a step. A new flow sends
`floor` packets an interval, or its `opening_rate`, and changes to the first link that sends it feedback; until
`opening_bytes` are acknowledged it does not respond. If a flow limits its requests to its desired rate (its size over
its RTT), offers are limited to that rate, and a link that offers more counts it among flows bottlenecked elsewhere. The
grid is a hundredth of the interval; queues are as in `curves`.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ecc.contract.forms import SteppedRates
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
from ecc.fluid.network.grid import PRIORITY, REFUSAL, ROUTER, SOURCE, Grid, failed
from ecc.fluid.network.laws import CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result

__all__ = ["STEP_ARGUMENTS", "advance", "run"]

STEP_ARGUMENTS = ("R", "y", "u", "N", "q", "C", "T", "x", "x_rtt", "result")
"""Fields of the record that laws read, and `result`, which they write."""

_R, _Y, _U, _N, _Q, _C, _T, _X, _X_RTT, _RESULT = range(len(STEP_ARGUMENTS))
_PER_INTERVAL = 100
_NOT_YET = -1
# counters of a router since its last tick: bits requested, bits requested by flows bottlenecked elsewhere, and the
# sending time of the flows bottlenecked here [s]
_REQUESTED, _OTHERS, _TOOK = range(3)
_pointers = unpacker("ff")


class Rules(NamedTuple):
    """Laws, and the options of their application by sources."""

    router: int
    priority: int  # 0: none
    refusal: int  # 0: none
    source: int
    addresses: Integers  # addresses of the record and of the parameters
    record: Floats
    failed: Floats  # `Grid.failed`
    switch_wait: int  # intervals
    step_wait: int  # intervals
    near: float  # share of an offer
    needs_approval: int  # whether a higher rate waits until no link refuses it


class Routers(NamedTuple):
    """Signals of each link's router at each time, and its counters."""

    tick: Integers  # steps of the grid until it first ticks
    advertised: FloatRows  # (n_links, n_times): the rate that it offers
    priority: FloatRows  # (n_links, n_times)
    refusal: FloatRows  # (n_links, n_times)
    counters: FloatRows  # (n_links, 3)


class Sources(NamedTuple):
    """State of a source of each group."""

    lowest: Floats  # minimum rate
    desired: Floats  # rate, inf without a limit
    responds_after: Floats  # bits that must be acknowledged before it responds to feedback
    x: Floats  # rate
    proposed: Floats  # requested rate
    offered: Floats  # offer at its last step
    owner: Integers  # crossing at which it is bottlenecked, -1 for none
    changed: Floats  # position of its last step
    first_interval: Integers  # interval of the router reported by the first ACK since then
    wait: Integers  # intervals to let pass
    acked: Floats  # packets acknowledged
    requested: FloatRows  # (n_groups, n_times): integral of the rate requested


@optimized
def _close_interval(link: int, i: int, t: float, rules: Any, routers: Any, paths: Any, curves: Any) -> Any:
    """Close the interval of a router; return a status."""
    pointer, params = _pointers(rules.addresses)
    record, counters = rules.record, routers.counters[link]
    T = record[_T]
    record[_R], record[_C] = routers.advertised[link, i - 1], paths.capacity[link, i]
    record[_Q] = curves.into[link, i] - curves.out[link, i]
    record[_Y], record[_U], record[_N] = counters[_REQUESTED] / T, counters[_OTHERS] / T, counters[_TOOK] / T
    routers.priority[link, i] = routers.refusal[link, i] = 0.0
    if rules.priority != 0:
        status = call(rules.priority, (pointer, pointer, params, pointer))
        if status != 0:
            return failed(rules.failed, PRIORITY, link, t, status)
        routers.priority[link, i] = record[_RESULT]
    if rules.refusal != 0:
        status = call(rules.refusal, (pointer, pointer, params, pointer))
        if status != 0:
            return failed(rules.failed, REFUSAL, link, t, status)
        routers.refusal[link, i] = record[_RESULT]
    unused = record[_N] <= 0.0
    if unused:
        record[_U], record[_N] = 0.0, 1.0
    status = call(rules.router, (pointer, pointer, params, pointer))
    if status != 0:
        return failed(rules.failed, ROUTER, link, t, status)
    routers.advertised[link, i] = 0.0 if unused and routers.refusal[link, i] > 0.0 else max(0.0, record[_RESULT])
    return status


@optimized
def _call_source_law(g: int, rules: Any, sources: Any) -> Any:
    """Return (status, rate by the source law)."""
    pointer, params = _pointers(rules.addresses)
    record = rules.record
    record[_X] = record[_X_RTT] = sources.x[g]
    record[_R] = sources.offered[g]
    status = call(rules.source, (pointer, pointer, params, pointer))
    return status, max(record[_RESULT], sources.lowest[g])


@inlined
def _preferred_offer(g: int, paths: Any, curves: Any, routers: Any, sources: Any) -> Any:
    """Return (crossing of the preferred offer or -1, offer, its priority, largest refusal) of the feedback of a path.

    The offer of the highest priority is preferred, and among equal priorities the lowest offer.
    """
    which, best, rank, worst = -1, np.inf, -np.inf, 0.0
    for c in range(paths.first[g], paths.first[g + 1]):
        link, k = paths.links[c], int(curves.entered_at[c])
        worst = max(worst, routers.refusal[link, k])
        priority, offer = routers.priority[link, k], min(routers.advertised[link, k], sources.desired[g])
        if paths.responds[c] != 0 and (priority > rank or (priority == rank and offer < best)):
            which, best, rank = c, offer, priority
    return which, best, rank, worst


@inlined
def _respond(
    g: int, i: int, t: float, zero: int, rules: Any, paths: Any, curves: Any, routers: Any, sources: Any
) -> Any:
    """Let a source with new feedback change its bottleneck or its rate after its wait; return a status."""
    x, proposed, owner = sources.x, sources.proposed, sources.owner
    which, best, rank, worst = _preferred_offer(g, paths, curves, routers, sources)
    moves, switches = False, False
    if which >= 0 and owner[g] < 0:
        moves = switches = True
    elif which >= 0:
        interval = (int(curves.entered_at[owner[g]]) - zero - routers.tick[paths.links[owner[g]]]) // _PER_INTERVAL
        if sources.first_interval[g] == _NOT_YET:
            sources.first_interval[g] = interval
        moves = interval > sources.first_interval[g] + sources.wait[g]
        close = abs(x[g] - sources.offered[g]) <= rules.near * sources.offered[g]
        switches = which != owner[g] and (close or rank > 0.0 or rules.priority == 0)
    status = 0
    if moves:
        sources.offered[g] = best
        if switches:
            owner[g] = which
            if rules.priority == 0 and best < x[g]:  # a link chosen for its offer is approached at once
                status, x[g] = _call_source_law(g, rules, sources)
            proposed[g] = x[g]
        else:
            if worst <= 0.0:
                x[g] = proposed[g]
            status, proposed[g] = _call_source_law(g, rules, sources)
            if rules.needs_approval == 0 or proposed[g] < x[g]:
                x[g] = proposed[g]
        if status != 0:
            return failed(rules.failed, SOURCE, g, t, status)
        sources.changed[g], sources.first_interval[g] = i, _NOT_YET
        sources.wait[g] = rules.switch_wait if switches else rules.step_wait
    return status


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
    sent, requested, origin, counters = curves.sent, sources.requested, curves.origin, routers.counters
    stop, steady, owner = paths.stop, paths.steady, sources.owner
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(paths.members)):
            last = paths.first[g + 1] - 1
            look_back(paths, curves, g, i)
            sigma = at(origin[last], curves.entered_at[last])
            packets = np.floor(at(sent[g], sigma) / paths.packet[g] + 1e-9)
            responds = packets > sources.acked[g] and sigma >= sources.changed[g]
            responds = responds and t < stop[g] and steady[g] <= 0.0
            if sigma >= zero + paths.start[g] / h:
                sources.acked[g] = packets
            if responds and at(sent[g], sigma) >= sources.responds_after[g]:
                status = _respond(g, i, t, zero, rules, paths, curves, routers, sources)
                if status != 0:
                    return status
            now = min(h, max(0.0, t + h - paths.start[g])) if t < stop[g] else 0.0
            rate = steady[g] if steady[g] > 0.0 else sources.x[g]
            now = min(now, (paths.size[g] - sent[g, i - 1]) / rate)
            sent[g, i] = sent[g, i - 1] + rate * now
            requested[g, i] = requested[g, i - 1] + (rate if steady[g] > 0.0 else sources.proposed[g]) * now
            curves.bottleneck[g, i] = paths.links[owner[g]] if owner[g] >= 0 and steady[g] <= 0.0 else -1
            if sent[g, i] >= paths.size[g] and stop[g] > t:
                stop[g] = t

        # arrivals at the queues, departures from them, and the counters of routers
        clear(curves)
        for c in range(len(paths.links)):
            g, link = paths.owner[c], paths.links[c]
            arrive(paths, curves, c, i)
            early, late = origin[c, i - 1], origin[c, i]
            flows_of_crossing = paths.members[g] * paths.reaches[c]
            proposing = flows_of_crossing * max(0.0, at(requested[g], late) - at(requested[g], early))
            counters[link, _REQUESTED] += proposing
            if (
                curves.bottleneck[g, max(0, int(late))] == link
                and sources.desired[g] >= routers.advertised[link, i - 1]
            ):
                opens, ends = zero + paths.start[g] / h, zero + stop[g] / h
                counters[link, _TOOK] += flows_of_crossing * h * max(0.0, min(late, ends) - max(early, opens))
            else:
                counters[link, _OTHERS] += proposing
        for link in range(len(paths.buffer)):
            serve(paths, curves, link, i)
            routers.advertised[link, i], routers.priority[link, i] = (
                routers.advertised[link, i - 1],
                routers.priority[link, i - 1],
            )
            routers.refusal[link, i] = routers.refusal[link, i - 1]
            late_by = i - zero - routers.tick[link]
            if late_by >= 0 and late_by % _PER_INTERVAL == 0:
                if late_by > 0:  # the first tick begins the first interval
                    status = _close_interval(link, i, t, rules, routers, paths, curves)
                    if status != 0:
                        return status
                counters[link, _REQUESTED] = counters[link, _OTHERS] = counters[link, _TOOK] = 0.0
        drop(paths, curves, i)
    return 0


def run(problem: Problem) -> Result:
    """Compute the curves of a network.

    Parameters
    ----------
    problem : Problem
        Problem with a `fluid_form` of type `SteppedRates`.

    Returns
    -------
    Result
    """
    protocol, fluid, point = problem.protocol, problem.fluid, problem.point
    laws = CompiledLaws(protocol, STEP_ARGUMENTS, problem.shared)
    form = protocol.fluid_form
    assert isinstance(form, SteppedRates)
    L, G = fluid.n_links, fluid.n_groups
    T = float(protocol.params()["interval"])
    h = T / _PER_INTERVAL
    zero = 2 + ceil(float(fluid.rtt.max()) / h)
    grid = Grid.of(h, zero, problem.samples)
    paths = paths_of(fluid, grid)
    curves = curves_of(paths, fluid, grid)
    lowest = (protocol.floor or 1.0) * paths.packet / T
    x, owner = np.maximum(lowest, form.opening_rate), np.full(G, -1, dtype=np.int64)
    offers = np.array([protocol.rate_range(float(C))[1] for C in fluid.capacity])
    acked, requested = np.full(G, -1.0), np.zeros((G, grid.rows))
    changed = zero + paths.start / h - 1e-9
    if point is not None:
        x = np.maximum(problem.factor * point.rates[problem.fluid.first_flow], lowest)
        offers = np.where(np.isfinite(point.fair_rate), problem.factor * point.fair_rate, offers)
        owner = at_equilibrium(paths, curves, problem, grid, x, np.zeros(L))
        requested[:, :zero] = curves.sent[:, :zero]
        acked = np.floor(curves.sent[:, zero - 1] / paths.packet)
        changed = np.zeros(G)
    advertised, priority, refusal = np.zeros((3, L, grid.rows))
    advertised[:, :zero] = offers[:, None]
    record = np.zeros(len(STEP_ARGUMENTS))
    record[_T] = T
    addresses = np.array([record.ctypes.data, laws.params.ctypes.data])
    rules = Rules(
        laws.router,
        laws.priority,
        laws.refusal,
        laws.source,
        addresses,
        record,
        grid.failed,
        *form.waits,
        form.near,
        int(form.needs_approval),
    )
    tick = np.maximum(1, np.rint(_PER_INTERVAL * problem.ticks)).astype(np.int64)
    routers = Routers(tick, advertised, priority, refusal, np.zeros((L, 3)))
    sources = Sources(
        lowest=lowest,
        desired=fluid.size / fluid.rtt if form.limits_requests else np.full(G, np.inf),
        responds_after=curves.sent[:, zero - 1] + 8.0 * form.opening_bytes,
        x=x,
        proposed=x.copy(),
        offered=offers[paths.links[np.maximum(owner, 0)]],
        owner=owner,
        changed=changed,
        first_interval=np.full(G, _NOT_YET),
        wait=np.zeros(G, np.int64),
        acked=acked,
        requested=requested,
    )
    grid.run(
        lambda begin, end: int(advance(begin, end, h, zero - 1, paths, curves, rules, routers, sources)),
        problem.progress,
        {"flow.x": x} if problem.records else None,
        code=[laws.code],
        flows=problem.fluid.first_flow,
    )
    result = result_of(grid, paths, curves)
    if problem.records:
        result.recorded["link.R"] = grid.at_ends(advertised)
    return result
