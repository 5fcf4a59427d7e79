"""Window flows as fluid in discrete time: each host acts once per RTT, and holds its window in between.

Flow i with window w_i acts at its ticks t_n. A tick comes when the data that the flow sent first after the tick before
have been acknowledged, or are known to be lost. If the window had grown, these are all data that it admitted at once:

    w[n] = law(w[n - 1], R[n], D[n], ...)       R, D: as met by the data sent right after the tick t_{n-1}
    w[n] = loss_response_law(w[n - 1], ...)     if data sent by t_{n-1} was lost; in the next round the window is held
    w[n] = law(...) + k (jump(w[n - 1]) - w[n - 1])       k = min(1, P w[n - 1]/s), expected signals of the round
    v[n] = law(v[n - 1], ...)                   states with the clock "rtt"

P is the probability with which queue disciplines choose the data sent right after the tick t_{n-1}. In slow start, and
if P is 1, half a packet chosen counts as a loss, as in `windows`. States with the clock "continuous" or "interval" also
move between ticks.

Between ticks a flow sends as much as is acknowledged, or at the rate w[n]/D(t) if `clocking` is "rate". An increase is
sent at once, unless windows are paced, and a decrease holds data back until the flight size fits. If one kind of flow
fills one queue, then q[n] = sum w[n] - C d after the tick, and w[n + 1] = law(w[n], q[n]) is the map of textbooks. On
other networks, flows tick in the order in which their data return, each with its own RTT, queueing delays included.

With `updates_per_rtt` = m, a host acts m times per RTT: after each m-th part of the data that were in flight when it
acted last. It then moves by (law - w) n, where n, about 1/m, is the share of a window that has returned. As m grows,
the run tends to that of continuous time (`windows`). Hosts whose windows follow a state (`window_clock`) act at each
ACK, unless m is given. Windows with the clock "ack" have no run in rounds: each of their steps depends on those before.

Paths, queues, routers and disciplines are those of `windows`, with the same grid: a host acts at the end of the step in
which the last data of its round return, so that a round is up to a 200th of the shortest RTT longer. Routers and
disciplines with an interval act at their ticks, and average over it; states on arrivals move with the arrivals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ecc.fluid.compiled import Floats, Integers, entry, inlined
from ecc.fluid.network.curves import Curves, Paths
from ecc.fluid.network.departures import Departures
from ecc.fluid.network.disciplines import Disciplines
from ecc.fluid.network.grid import NOT_POSITIVE, SOURCE, TOO_LARGE, failed
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.queues import Service
from ecc.fluid.network.result import Result
from ecc.fluid.network.window_steps import (
    MAX_WINDOW,
    AckedData,
    Routers,
    Rules,
    Signals,
    Sources,
    Step,
    begin_recovery,
    end_step,
    fill_record,
    keep_states,
    laws_of,
    loses_packet,
    move_states,
    move_window,
    send,
    set_seen,
    signals_of,
    trace_back,
)

__all__ = ["Rounds", "advance", "run"]

_ROUNDING = 1e-9  # relative to the window: error of cumulative curves
_UNSET = -np.inf


class Rounds(NamedTuple):
    """The round of each group, all of shape (n_groups,)."""

    target: Floats  # bits: the host acts when so much has been acknowledged or lost; -inf: nothing sent since it acted
    returned: Floats  # bits acknowledged or lost when the host acted last; -inf before the first ACK
    acted: Floats  # s: time at which the host acted last
    recovery: Floats  # bits sent by the last response to a loss, and right after it; inf: nothing sent since
    part: Floats  # part of the data in flight after its last action after which the host acts again
    share: Floats  # part of the window that has returned when the host acts
    by_ack: Integers  # whether the host acts at each ACK
    spreads: Integers  # whether the host has states that move between its actions


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
    disciplines: Disciplines,
    service: Service,
    departures: Departures,
    rounds: Rounds,
) -> Any:
    """Take steps on the grid; return 0, or the status of a law that failed."""
    laws = laws_of(rules, 0)
    for i in range(begin, end):
        step = Step(i, (i - zero) * h, h, zero)
        for g in range(len(paths.members)):
            if rules.host[g] != laws.host:
                laws = laws_of(rules, rules.host[g])
            status, acked = trace_back(paths, curves, laws, routers, disciplines, departures, g, step)
            if status != 0:
                return status
            if step.t >= paths.stop[g]:
                curves.sent[g, i] = curves.sent[g, i - 1]
            else:
                returned = acked.acknowledged + acked.dropped + acked.random_lost
                if acked.sent_at >= paths.start[g]:
                    status = _receive(paths, curves, laws, sources, disciplines, rounds, acked, returned, g, step)
                    if status != 0:
                        return status
                if not 0.0 < sources.window[g] <= MAX_WINDOW:
                    reason = NOT_POSITIVE if sources.window[g] <= 0.0 else TOO_LARGE
                    return failed(rules.failed, SOURCE, g, step.t, reason)
                send(paths, curves, laws, sources, acked, g, step)
                if rounds.target[g] == _UNSET and curves.sent[g, i] > curves.sent[g, i - 1]:
                    _begin_round(paths, curves.sent[g, i] - returned, rounds, returned, g)
        status = end_step(paths, curves, rules, routers, disciplines, service, departures, step)
        if status != 0:
            return status
    return 0


@inlined
def _begin_round(paths: Any, in_flight: float, rounds: Any, returned: float, g: int) -> None:
    """Set the data after which a host acts next: those in flight after it sends first, or a part of them."""
    if rounds.by_ack[g] != 0:
        rounds.part[g] = min(1.0, paths.acknowledged[g] / in_flight)
    if rounds.recovery[g] == np.inf:
        rounds.recovery[g] = returned + in_flight
    rounds.target[g] = returned + rounds.part[g] * in_flight
    if rounds.recovery[g] > returned:
        rounds.target[g] = min(rounds.target[g], rounds.recovery[g])


@inlined
def _receive(
    paths: Any,
    curves: Any,
    laws: Any,
    sources: Any,
    disciplines: Any,
    rounds: Any,
    acked: Any,
    returned: float,
    g: int,
    step: Any,
) -> Any:
    """Let a host act if a round ends in this step, else move its other states; return 0, or the status of a law."""
    if rounds.returned[g] == _UNSET:
        rounds.returned[g] = returned
    rounding, status = _ROUNDING * sources.window[g], 0
    ends = returned >= rounds.target[g] - rounding and returned > rounds.returned[g] + rounding
    on_time = step.t >= rounds.acted[g] + rounds.part[g] * laws.paced_over - _ROUNDING * step.h
    if rounds.target[g] != _UNSET and ends and (on_time or rounds.by_ack[g] != 0):
        bits = returned - rounds.returned[g]
        once = rounds.part[g] == 1.0 and rounds.by_ack[g] == 0
        rounds.share[g] = 1.0 if once else min(1.0, bits / sources.window[g])
        bits = min(bits, rounds.share[g] * sources.window[g])  # those of the last step are data of the next round
        met = _data_of_round(paths, curves, sources, disciplines, acked, bits, g, step.i)
        status = _act(paths, laws, sources, rounds, met, g, step)
        rounds.returned[g], rounds.acted[g], rounds.target[g] = returned, step.t, _UNSET
        sources.early_seen[g], sources.acked[g] = acked.early, acked.acknowledged
    elif rounds.spreads[g] != 0:
        signals = Signals(0.0, 0.0, 0.0, 0.0, 1.0 - acked.unmarked, 0.0, False)
        fill_record(paths, laws, sources, acked, signals, g, step)
        status = move_states(laws, 0.0, False, g, step)
        keep_states(laws, sources, g)
    return status


@inlined
def _data_of_round(
    paths: Any, curves: Any, sources: Any, disciplines: Any, acked: Any, bits: float, g: int, i: int
) -> Any:
    """Return the data acknowledged now, with the choices of disciplines that they met, for all data of the round.

    Marks and drops of disciplines are counted from `Sources.acked` and `Sources.early_seen`, which are moved to the
    counts that give the mean number among the bits of the round.
    """
    sources.acked[g] = acked.acknowledged - bits
    kept, unmarked, certain = 1.0, 1.0, False
    if len(disciplines.marks) > 0:
        for c in range(paths.first[g], paths.first[g + 1]):
            row = min(int(curves.entered_at[c]) + 1, i - 1)  # the end of the step of the arrival: a burst has arrived
            chosen = disciplines.probability[disciplines.rows[c], row]
            certain = certain or chosen >= 1.0
            if disciplines.marks[c] != 0:
                unmarked *= 1.0 - chosen
            else:
                kept *= 1.0 - chosen
        at_heads = acked.at_heads - sources.heads_seen[g]
        sources.early_seen[g] = acked.early - (1.0 - kept) * bits - at_heads
    return AckedData(
        acked.position,
        acked.sent_at,
        acked.rtt,
        acked.feedback,
        acked.acknowledged,
        acked.dropped,
        acked.random_lost,
        acked.early,
        unmarked,
        certain,
        acked.at_heads,
        acked.marked_at_heads,
    )


@inlined
def _act(paths: Any, laws: Any, sources: Any, rounds: Any, acked: Any, g: int, step: Any) -> Any:
    """Move the window and the states of a host by the ACKs of a round; return 0, or the status of a law that failed."""
    responds, packet = laws.loss != 0, paths.packet[g]
    recovering = responds and rounds.target[g] <= rounds.recovery[g]
    if recovering:  # losses so far are of data sent before the last response
        lost = (acked.dropped - acked.early - sources.drops_before[g]) / packet
        sources.burst[g] = max(sources.burst[g], lost)
        set_seen(sources, acked, g)
    signals = signals_of(laws, sources, acked, g)
    fill_record(paths, laws, sources, acked, signals, g, step)
    loses = responds and loses_packet(sources, signals, packet, g)
    status = move_states(laws, rounds.share[g], recovering or loses, g, step)
    if status != 0:
        return status
    if recovering and rounds.target[g] < rounds.recovery[g]:  # so are marks
        set_seen(sources, acked, g)
    elif loses:
        status = begin_recovery(laws, sources, acked, signals, packet, g, step)
        rounds.recovery[g] = np.inf
    elif not recovering:
        status = move_window(laws, sources, acked, signals, rounds.share[g], packet, g, step)
    if status == 0:
        keep_states(laws, sources, g)
    return status


def run(problem: Problem) -> Result:
    """Compute the curves of a network whose hosts act once per RTT.

    Parameters
    ----------
    problem : Problem
        Problem with source laws that take the argument `w`.

    Returns
    -------
    Result
    """
    from ecc.fluid.network import windows

    unset = np.full(problem.fluid.n_groups, _UNSET)
    clocks = [{state.clock for state in protocol.states.values() if state.law} for protocol in problem.protocols]
    m = problem.updates_per_rtt
    by_ack = [m is None and protocol.window_clock != "rtt" for protocol in problem.protocols]
    rounds = Rounds(
        unset,
        unset.copy(),
        unset.copy(),
        unset.copy(),
        np.full(len(unset), 1.0 / (m or 1)),
        np.ones(len(unset)),
        np.array(by_ack, np.int64),
        np.array([int(not clock <= {"rtt"}) for clock in clocks], np.int64),
    )
    return windows.solve(problem, advance, rounds)
