"""Window flows as fluid, clocked by ACKs: the data sent are the data acknowledged, plus the window.

For a flow with window w, and a link l of capacity C_l, as cumulative curves of time:

    sent(t) = acknowledged(t) + lost(t) + w(t)                       never decreasing; lost: losses detected by time t
    dw      = [law(w, m, R, D, ...) - w] da/w                        da: newly acknowledged
    sent'  <= w/T_p                                                  if windows are paced over T_p
    w, m   <- loss_response_law(w, m, ...), memory_law(w, m, ...)    at a loss; w is then constant for one RTT
    w      <- decrease_law(w, R, since, ...)                         if that is less than w; since = 0
    out_l(t + h) = min(in_l(t + h), out_l(t) + C_l h)                a full buffer drops the excess
    out_l(u) = in_l(e)                                               first in, first out: departures at u entered at e

or, if links integrate rates (`clocking` "rate"): sent' = w/D and da = w dt/D. If there is a `slow_start_law`, it is the
law until its result is not above w (the result is then the window), or until a loss; afterwards the law is
`source_law`. A flow sends its first window at once when it starts. ACKs return in trains at the rate of the bottleneck,
and slow start sends at twice that rate. Therefore half a window is queued before windows fill the path, as in packets.

Tracing the data acknowledged now back along their path, queue by queue, gives the RTT D with all queueing delays, the
losses among these data, and the feedback R. R is the sum of the feedback of the links, its minimum or its maximum. The
feedback of a link is the result of its `router_law` for the queue found on arrival, the part of the queue that belongs
to the flow, and the share of simultaneous arrivals that was lost. If laws of routers need averages over intervals (y,
q_mean, a state R), the routers compute the feedback at their ticks and advertise it until the next one. Between trains
nothing is acknowledged, and no law is called.

Random losses remove a share of the departures of a link. A flow with a `loss_response_law` detects a loss once queues
have dropped half a packet: ACKs admit as much as has left, therefore a full queue drops the growth of each flow's
window. Random losses are detected as a Poisson process, with a mean of one detection for each packet's worth of lost
data, drawn from the scenario's seed. At a detection the window jumps and is then constant for an RTT, the recovery.
Other losses of the old window are detected without a response, because SACK repairs any number of them in one RTT.
Timeouts and lost retransmissions are left out; if they would have mattered, the run has a note. `m`, the memory of
losses, is 0 before the first.

A queue discipline at a link (`disciplines`) chooses a share P of the arrivals. If it marks them, windows learn of it by
the ACKs of these arrivals (for several links, the share is 1 - prod(1 - P)). If it drops them, windows learn of it when
the loss is detected:

    w' = [law(w, ...) - w]/D + a/s [loss_response_law(w, ...) - w]         a: bits chosen per second; s: a packet

This is the mean over many flows (`signals` "rate"). With `signals` "random", each flow jumps at random as above, once
for each packet's worth of chosen data on average. In slow start, and if all arrivals are chosen (P = 1), windows jump
as at the drops of a full queue in either case: once for the recovery that follows.

Flows may run several protocols: each group has separate laws, and routers that average compute a state for each
protocol with such laws. A discipline that marks drops packets that cannot be marked.

Links may have several queues (`queues`), each with separate curves, and disciplines that examine packets as they leave
(`departures`). Their drops leave the queue unserved, and the flow learns of them when the ACKs would have returned.

Hosts that are machines of states (`machines`) set a rate and a window by themselves.

Curves are stored on a grid, a 200th of the shortest RTT apart, and are linear in between. Laws may jump, and the burst
that a jump sends returns with the ACKs, RTT after RTT. Data sent within a step of the grid are spread over it: trains
shorter than a step build no queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.equilibrium import Equilibrium
from ecc.contract.kinds import source_takes
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import states_of
from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, entry, inlined, unpacker
from ecc.fluid.network.curves import (
    OTHER,
    Curves,
    Paths,
    at,
    clear,
    curves_of,
    drop,
    entered,
    look_back,
    passed,
    paths_of,
    reached,
    result_of,
    serve,
)
from ecc.fluid.network.departures import Departures, choose_departures, departures_of
from ecc.fluid.network.disciplines import Disciplines, begin, choose, chooses_departures, disciplines_of, part
from ecc.fluid.network.grid import (
    ANNOUNCE,
    DECREASE,
    DEPARTURE,
    DISCIPLINE,
    LOSS,
    MACHINE,
    MARK,
    MEMORY,
    NOT_POSITIVE,
    ROUTER,
    SLOW_START,
    SOURCE,
    STATE,
    TOO_LARGE,
    Grid,
    failed,
)
from ecc.fluid.network.groups import FluidNetwork
from ecc.fluid.network.host_states import STEP_FIELDS, compiled_moves
from ecc.fluid.network.laws import CompiledLaws
from ecc.fluid.network.machines import Machines, is_machine, machine_fields, machines_of, move_machine
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.queues import LinkQueues, Service, codepoint, serve_several
from ecc.fluid.network.result import Result
from ecc.laws.arguments import arguments_except, call_law, takes
from ecc.models.shared.windows import initial_window

__all__ = ["WINDOW_ARGUMENTS", "advance", "run"]

FloatArray = NDArray[np.float64]

WINDOW_ARGUMENTS = (
    "R", "y", "q", "q_mean", "q_flow", "loss", "C", "T", "w", "w_rtt", "m", "D", "s", "a", "since", "marked",
    *STEP_FIELDS, "result",
)  # fmt: skip
"""Fields of the record of window protocols' laws: laws read them, and write `result`; states of the host follow."""

(
    _R, _Y, _Q, _Q_MEAN, _Q_FLOW, _LOSS, _C, _T, _W, _W_RTT, _M, _D, _S, _A, _SINCE, _MARKED, _SHARE, _STEP, _JUMPS,
    _RESULT,
) = range(len(WINDOW_ARGUMENTS))  # fmt: skip
_STATES = len(WINDOW_ARGUMENTS)
_AVERAGED, _ON_ARRIVAL = ("R", "y", "q_mean"), ("q_flow", "loss", "s")  # known over intervals; known on arrival
_STEPS = 200  # steps of the grid in the shortest RTT
_SMEARED = 0.01  # windows an RTT: slower ACKs are trains smeared by the grid
_LOSS_SIZE = 0.5  # packets: queues drop entire packets, and trains get slightly more or less than their share
_REPAIRED, _REPEATED = 10.0, 2  # packets lost of a window, and losses right after recoveries, that need no note
_EQUAL_RTTS = 1.05  # ratio of RTTs up to which they count as equal
_MAX_WINDOW = 2.0**66  # bits
_MINIMUM, _MAXIMUM = range(2)
_pointers = unpacker("ff")


class Rules(NamedTuple):
    """Laws of each protocol (0: none), and the options of their application."""

    host: Integers  # (n_groups,): index of the protocol that a group runs
    router: Integers
    source: Integers
    slow_start: Integers
    decrease: Integers
    loss: Integers
    mark: Integers
    memory: Integers
    move: Integers  # function that moves the states of a host by a step
    after_loss: Integers  # function that moves the states of a host at a loss
    after_mark: Integers  # function that moves the states of a host at a mark
    addresses: IntegerRows  # (n_hosts, 2): addresses of the record and of the parameters
    interval: Floats  # s
    combine: Integers
    by_flow: Integers  # whether the router law has the argument q_flow
    averaged: Integers  # row of the router at link 0 among the routers that average; -1: none
    limit: Floats  # maximum of the data in flight [bit]
    paced_over: Floats  # s
    record: Floats
    failed: Floats  # `Grid.failed`
    ack_clocked: int
    random: int  # whether disciplines choose at random instead of at a rate


class Routers(NamedTuple):
    """Routers that average over intervals, a row for each link and protocol; others are evaluated on arrival."""

    link: Integers
    law: Integers
    announce: Integers  # 0: none
    addresses: IntegerRows  # addresses of the record and of the parameters
    interval: Floats  # s
    advertised: FloatRows  # (n_routers, n_times)
    state: Floats
    due: Floats  # [s], next tick
    ticked: Integers  # last tick, row of the grid
    queue_sum: Floats  # sum of the queue over the rows since the last tick


class Sources(NamedTuple):
    """State of a source of each group."""

    window: Floats
    states: FloatRows  # (n_groups, n_states)
    slow_start: Integers  # whether it is in slow start
    decreased: Floats  # s
    acked: Floats
    memory: Floats
    recovery_end: Floats  # s
    drops_before: Floats  # drops_seen when the recovery began
    burst: Floats  # maximum number of packets lost of one window
    repeated: Integers  # losses within an RTT after a recovery
    drops_seen: Floats  # bits dropped by full queues, as far as detected
    random_seen: Floats  # bits lost at random, as far as detected
    draws: FloatRows  # (n_groups, n_losses): packets between random losses
    losses: Integers  # number of losses so far
    early_seen: Floats  # bits dropped by disciplines, as far as detected
    early: Floats  # bits dropped by disciplines, not yet responded to
    marked: Floats  # bits marked, not yet responded to
    heads_seen: Floats  # bits dropped at the head of a queue, as far as detected
    marked_seen: Floats  # bits marked at the head of a queue, as far as acknowledged
    at_heads: Floats  # bits dropped or marked at the head of a queue, not yet responded to
    answered: Floats  # s: time of the last response; data sent before it need no other
    pace: Floats  # [bit/s]: w/D at the end of the last step
    windows: FloatRows  # (n_groups, n_times), if a law takes a past window


@inlined
def jump_states(rules: Any, host: int, pointer: Any, params: Any, is_mark: bool) -> int:
    """Move the states of a host at a loss or a mark; return 0, or the status of a law that failed."""
    law = rules.after_mark[host] if is_mark else rules.after_loss[host]
    status: int = call(law, (pointer, pointer, params, pointer)) if law != 0 else 0
    return status


@entry
def advance(
    begin: int, end: int, h: float, zero: int, paths: Paths, curves: Curves, rules: Rules, routers: Routers,
    sources: Sources, disciplines: Disciplines, service: Service, departures: Departures, machines: Machines,
) -> Any:  # fmt: skip
    """Take steps on the grid; return 0, or the status of a law that failed."""
    record, place = rules.record, rules.failed
    into, out, arrived, drops = curves.into, curves.out, curves.arrived, curves.crossing_drops
    sent, pass_share, packet, window = curves.sent, paths.pass_share, paths.packet, sources.window
    drops_seen, random_seen, slow_start = sources.drops_seen, sources.random_seen, sources.slow_start
    advertised, due = routers.advertised, routers.due
    at_departure = len(departures.share) > 0
    disciplined = len(disciplines.marks) > 0 or at_departure
    host, router_law, source_law, slow_start_law, decrease_law, loss_law, mark_law, memory_law, move = (
        -1, 0, 0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
    combine, by_flow, averaged, period, limit, over = 0, 0, -1, 0.0, 0.0, 0.0
    pointer, params = _pointers(rules.addresses[0])
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(paths.members)):
            if rules.host[g] != host:
                host = rules.host[g]
                pointer, params = _pointers(rules.addresses[host])
                router_law, source_law, slow_start_law = rules.router[host], rules.source[host], rules.slow_start[host]
                loss_law, mark_law, memory_law = rules.loss[host], rules.mark[host], rules.memory[host]
                decrease_law, move, period = rules.decrease[host], rules.move[host], rules.interval[host]
                combine, by_flow, averaged = rules.combine[host], rules.by_flow[host], rules.averaged[host]
                limit, over = rules.limit[host], rules.paced_over[host]
            # trace the data acknowledged now back along their path
            a, b = paths.first[g], paths.first[g + 1]
            u = look_back(paths, curves, g, i)
            D = (i - u) * h
            R, dropped, random_lost, acknowledged = 0.0, 0.0, 0.0, 0.0
            early, unmarked, certain, at_heads, marked_at_heads = 0.0, 1.0, False, 0.0, 0.0
            for c in range(b - 1, a - 1, -1):
                link, e, row_left = paths.links[c], curves.entered_at[c], int(curves.left_at[c])
                arrived_bits = at(arrived[c], e)
                if c == b - 1:
                    acknowledged = passed(paths, curves, c, e, curves.left_at[c])
                dropped += at(drops[c], e)
                random_lost += (1.0 - pass_share[c]) * arrived_bits
                if at_departure:
                    at_heads += at(curves.head_drops[c], curves.left_at[c])
                    marked_at_heads += at(departures.marks[c], curves.left_at[c])
                if len(disciplines.marks) > 0:
                    latest, before = max(0, ceil(e) - 1), max(0, int(e) - 1)
                    row = disciplines.rows[c]
                    chosen = disciplines.probability[row, latest]  # set at the end of the step before the arrival
                    earlier = disciplines.probability[row, before]  # holds for the part that arrived in that step
                    certain = certain or max(chosen, earlier) >= 1.0
                    chosen = earlier + (e - int(e)) * (chosen - earlier)
                    early += at(disciplines.early[c], e)
                    if disciplines.marks[c] != 0:
                        unmarked *= 1.0 - chosen
                if router_law == 0:
                    signal = 0.0
                elif averaged >= 0:
                    signal = advertised[averaged + link, row_left]
                else:
                    lost = at(drops[c], e) - at(drops[c], e - 1.0)
                    accepted = arrived_bits - at(arrived[c], e - 1.0)
                    record[_LOSS] = 1.0 - pass_share[c] * (accepted / (lost + accepted) if lost > 0.0 else 1.0)
                    record[_Q] = at(into[link], e) - at(out[link], e)
                    if by_flow != 0:
                        record[_Q_FLOW] = at(arrived[c], e) - at(
                            arrived[c], entered(into[link], out[link], e, curves.hints[OTHER], c)
                        )
                    record[_C], record[_T], record[_S] = paths.capacity[link, row_left], period, packet[g]
                    status = call(router_law, (pointer, pointer, params, pointer))
                    if status != 0:
                        return failed(place, ROUTER, link, t, status)
                    signal = record[_RESULT]
                if c == b - 1:
                    R = signal
                elif combine == _MINIMUM:
                    R = min(R, signal)
                elif combine == _MAXIMUM:
                    R = max(R, signal)
                else:
                    R += signal
            early, dropped = early + at_heads, dropped + at_heads
            if t >= paths.stop[g]:
                sent[g, i] = sent[g, i - 1]
                continue
            if machines.hook[g] != 0:
                status = move_machine(
                    machines, paths, sources, sent, g, i, t, h, u, (u - zero) * h >= paths.start[g], acknowledged,
                    dropped + random_lost, 1.0 - unmarked, limit,
                )  # fmt: skip
                if status != 0:
                    return failed(place, MACHINE, g, t, status)
                continue
            if (u - zero) * h >= paths.start[g]:
                record[_W], record[_M], record[_R], record[_D] = window[g], sources.memory[g], R, D
                record[_T], record[_S], record[_SINCE] = period, packet[g], t - sources.decreased[g]
                record[_A] = paths.acknowledged[g]
                if sources.windows.shape[1] > 0:
                    record[_W_RTT] = at(sources.windows[g], u)
                for column in range(sources.states.shape[1]):
                    record[_STATES + column] = sources.states[g, column]
                new_drops, new_random = dropped - early - drops_seen[g], random_lost - random_seen[g]
                newly = max(0.0, acknowledged - sources.acked[g])
                if marked_at_heads > sources.marked_seen[g] and newly > 0.0:
                    new = min(marked_at_heads - sources.marked_seen[g], newly)
                    unmarked *= 1.0 - new / newly
                    sources.marked_seen[g] += new
                    sources.at_heads[g] += new
                sources.at_heads[g] += at_heads - sources.heads_seen[g]
                sources.heads_seen[g] = at_heads
                new_early, new_marked = early - sources.early_seen[g], (1.0 - unmarked) * newly
                record[_MARKED] = 1.0 - unmarked
                by_rate = rules.random == 0 and slow_start[g] == 0 and not certain
                if not by_rate:
                    sources.early[g] += new_early
                    sources.marked[g] += new_marked
                unanswered = sources.early[g] + sources.marked[g]
                if rules.random != 0:
                    new_random += unanswered - sources.at_heads[g]
                    unanswered = sources.at_heads[g]
                share = h / D
                if rules.ack_clocked != 0:
                    share = min(1.0, (acknowledged - sources.acked[g]) / window[g])
                if move != 0:
                    record[_SHARE], record[_STEP] = share, h
                    status = call(move, (pointer, pointer, params, pointer))
                    if status != 0:
                        return failed(place, STATE, g, t, status)
                answered = disciplined and (u - zero) * h < sources.answered[g]
                if loss_law != 0 and (t < sources.recovery_end[g] or answered):
                    drops_seen[g], random_seen[g] = dropped - early, random_lost
                    sources.early[g], sources.marked[g], sources.at_heads[g] = 0.0, 0.0, 0.0
                    sources.burst[g] = max(sources.burst[g], (drops_seen[g] - sources.drops_before[g]) / packet[g])
                elif loss_law != 0 and (
                    new_drops + unanswered >= _LOSS_SIZE * packet[g]
                    or new_random >= packet[g] * sources.draws[g, sources.losses[g]] > 0.0
                ):
                    is_mark = sources.marked[g] > new_drops + random_lost - random_seen[g] + sources.early[g]
                    status = call(mark_law if is_mark else loss_law, (pointer, pointer, params, pointer))
                    if status != 0:
                        return failed(place, MARK if is_mark else LOSS, g, t, status)
                    if not record[_RESULT] > 0.0:
                        return failed(place, MARK if is_mark else LOSS, g, t, NOT_POSITIVE)
                    new_window, record[_JUMPS] = record[_RESULT], 1.0
                    status = jump_states(rules, host, pointer, params, is_mark)
                    if status != 0:
                        return failed(place, STATE, g, t, status)
                    sources.repeated[g] += int(new_drops >= _LOSS_SIZE * packet[g] and t < sources.recovery_end[g] + D)
                    window[g], sources.recovery_end[g], sources.drops_before[g] = new_window, t + D, drops_seen[g]
                    slow_start[g], drops_seen[g], random_seen[g] = 0, dropped - early, random_lost
                    sources.early[g], sources.marked[g], sources.at_heads[g] = 0.0, 0.0, 0.0
                    sources.answered[g] = t
                    sources.losses[g] += 1
                    if memory_law != 0:
                        status = call(memory_law, (pointer, pointer, params, pointer))
                        if status != 0:
                            return failed(place, MEMORY, g, t, status)
                        sources.memory[g] = record[_RESULT]
                else:
                    jump = 0.0
                    if loss_law != 0 and by_rate and new_early + new_marked > 0.0:
                        jumps = min(1.0, (new_early + new_marked) / packet[g])
                        is_mark = new_marked > new_early
                        status = call(mark_law if is_mark else loss_law, (pointer, pointer, params, pointer))
                        if status != 0:
                            return failed(place, MARK if is_mark else LOSS, g, t, status)
                        if not record[_RESULT] > 0.0:
                            return failed(place, MARK if is_mark else LOSS, g, t, NOT_POSITIVE)
                        jump, record[_JUMPS] = jumps * (record[_RESULT] - window[g]), jumps
                        status = jump_states(rules, host, pointer, params, is_mark)
                        if status != 0:
                            return failed(place, STATE, g, t, status)
                        if memory_law != 0:
                            status = call(memory_law, (pointer, pointer, params, pointer))
                            if status != 0:
                                return failed(place, MEMORY, g, t, status)
                            sources.memory[g] += jumps * (record[_RESULT] - sources.memory[g])
                    if share >= _SMEARED * h / D:
                        if slow_start[g] != 0:
                            status = call(slow_start_law, (pointer, pointer, params, pointer))
                            if status != 0:
                                return failed(place, SLOW_START, g, t, status)
                            if record[_RESULT] <= window[g]:
                                window[g], slow_start[g] = record[_RESULT], 0
                        else:
                            record[_RESULT] = window[g]
                            if decrease_law != 0:
                                status = call(decrease_law, (pointer, pointer, params, pointer))
                                if status != 0:
                                    return failed(place, DECREASE, g, t, status)
                            if record[_RESULT] < window[g]:
                                window[g], sources.decreased[g] = record[_RESULT], t
                            else:
                                status = call(source_law, (pointer, pointer, params, pointer))
                                if status != 0:
                                    return failed(place, SOURCE, g, t, status)
                        window[g] += share * (record[_RESULT] - window[g])
                    window[g] += jump
                for column in range(sources.states.shape[1]):
                    sources.states[g, column] = record[_STATES + column]
            if not 0.0 < window[g] <= _MAX_WINDOW:
                return failed(place, SOURCE, g, t, NOT_POSITIVE if window[g] <= 0.0 else TOO_LARGE)
            sources.early_seen[g] = early
            sources.acked[g] = acknowledged
            allowed = min(window[g], limit) if t > paths.start[g] + 1e-6 * h else 0.0
            if rules.ack_clocked != 0:
                allowed += acknowledged + dropped + random_lost
            else:
                rate = allowed / max(D, over)
                paced, sources.pace[g] = sources.pace[g], rate
                allowed = sent[g, i - 1] + 0.5 * h * ((paced if paced > 0.0 else rate) + rate)
            if over > 0.0:
                allowed = min(allowed, sent[g, i - 1] + h * window[g] / over)
            if sources.windows.shape[1] > 0:
                sources.windows[g, i] = window[g]
            sent[g, i] = min(max(sent[g, i - 1], allowed), paths.size[g])

        # arrivals at the queues, and departures from them
        clear(curves)
        for link in range(len(disciplines.passed)):
            disciplines.passed[link] = 0.0
        for c in range(len(paths.links)):
            amount, _ = reached(paths, curves, c, i)
            arrived[c, i] = max(amount - drops[c, i - 1], arrived[c, i - 1])  # as if the buffer were unlimited
            if len(disciplines.marks) > 0:
                disciplines.early[c, i] = disciplines.early[c, i - 1]
                new, chosen = arrived[c, i] - arrived[c, i - 1], disciplines.probability[disciplines.rows[c], i - 1]
                disciplines.passed[paths.links[c]] += paths.members[paths.owner[c]] * (1.0 - chosen) * new
                if disciplines.marks[c] == 0:
                    cut = chosen * new
                    disciplines.early[c, i] += cut
                    arrived[c, i] -= cut
            curves.incoming[paths.links[c]] += paths.members[paths.owner[c]] * (arrived[c, i] - arrived[c, i - 1])
        if len(service.first) == 0:
            for link in range(len(paths.buffer)):
                serve(paths, curves, link, i)
        for link in range(len(service.first) - 1):
            if service.first[link + 1] - service.first[link] == 1:
                serve(paths, curves, service.first[link], i)
            else:
                serve_several(paths, curves, service, link, i)
        for k in range(len(due)):
            link = routers.link[k]
            advertised[k, i] = advertised[k, i - 1]
            routers.queue_sum[k] += into[link, i] - out[link, i]
            if t >= due[k] - 1e-9 * h:
                its_record, its_params = _pointers(routers.addresses[k])
                ticked, lost_by = routers.ticked[k], curves.link_drops[link]
                steps = i - ticked
                arrived_bits = into[link, i] + lost_by[i] - into[link, ticked] - lost_by[ticked]
                record[_R], record[_Y], record[_Q_MEAN] = (
                    routers.state[k], arrived_bits / (steps * h), routers.queue_sum[k] / steps,
                )  # fmt: skip
                record[_Q], record[_C], record[_T] = (
                    into[link, i] - out[link, i], paths.capacity[link, i], routers.interval[k],
                )  # fmt: skip
                status = call(routers.law[k], (its_record, its_record, its_params, its_record))
                if status != 0:
                    return failed(place, ROUTER, link, t, status)
                routers.state[k] = record[_R] = record[_RESULT]
                if routers.announce[k] != 0:
                    status = call(routers.announce[k], (its_record, its_record, its_params, its_record))
                    if status != 0:
                        return failed(place, ANNOUNCE, link, t, status)
                advertised[k, i] = record[_RESULT]
                routers.queue_sum[k], routers.ticked[k], due[k] = 0.0, i, due[k] + routers.interval[k]
        drop(paths, curves, i)
        if len(disciplines.marks) > 0:
            for c in range(len(paths.links)):
                cut = disciplines.early[c, i] - disciplines.early[c, i - 1]
                drops[c, i] += cut
                curves.link_drops[paths.links[c], i] += paths.members[paths.owner[c]] * cut
            if len(disciplines.marked_part) > 1:
                part(disciplines, paths, curves, i)
            for link in range(len(paths.buffer)):
                status = choose(disciplines, paths, curves, link, i, t, h)
                if status != 0:
                    return failed(place, DISCIPLINE, link, t, status)
        if at_departure:
            for c in range(len(paths.links)):
                curves.head_drops[c, i] = curves.head_drops[c, i - 1]
                departures.marks[c, i] = departures.marks[c, i - 1]
            for link in range(len(departures.due)):
                if departures.addresses[link, 0] != 0:
                    status = choose_departures(departures, paths, curves, link, i, t, h)
                    if status != 0:
                        return failed(place, DEPARTURE, link, t, status)
    return 0


def _recoveries(protocol: Protocol, burst: float, repeated: int) -> tuple[str, ...]:
    """Return notes on losses that packet transports need longer to repair."""
    notes = []
    if protocol.transport == "newreno" and burst > _REPAIRED:
        notes.append(
            f"a flow lost up to {burst:.0f} packets of a window, which this fluid repairs in one RTT, as SACK does; "
            "NewReno (RFC 6582) takes an RTT for each, or a timeout"
        )
    if protocol.transport is not None and repeated > _REPEATED:
        notes.append(
            f"a flow met losses again within an RTT after a recovery, {repeated} times; if retransmissions are lost, "
            "packets wait for timeouts, which this fluid does not have"
        )
    return tuple(notes)


def _unequal_rtts(fluid: FluidNetwork, full: Sequence[int]) -> tuple[str, ...]:
    """Return a note if flows with different RTTs lost packets at a full queue."""
    for link in full:
        rtts = [rtt for rtt, route in zip(fluid.rtt, fluid.routes, strict=True) if link in route]
        if max(rtts) > _EQUAL_RTTS * min(rtts):
            return (
                f"RTTs of flows through the full queue of link {link} are from {1e3 * min(rtts):.4g} to "
                f"{1e3 * max(rtts):.4g} ms: this fluid divides losses by rates, packet runs lose whole packets of some "
                "flows, and the flows may have other shares there",
            )
    return ()


def _averages(protocol: Protocol, laws: CompiledLaws) -> bool:
    """Return whether routers average over intervals; if not, their law is evaluated for each flow as it arrives."""
    averaged, on_arrival = (
        [name for name in names if laws.takes("router", name) or laws.takes("announce", name)]
        for names in (_AVERAGED, _ON_ARRIVAL)
    )
    if averaged and on_arrival:
        raise ValueError(
            f"{type(protocol).__name__} has no fluid model: its routers average {', '.join(averaged)} over intervals, "
            f"but {', '.join(on_arrival)} is known only as a packet arrives"
        )
    return bool(averaged) or laws.announce != 0


def _announced(
    protocol: Protocol, fluid: FluidNetwork, link: int, interval: float, point: Equilibrium | None
) -> tuple[float, float]:
    """Return the state and signal of a router before its first tick: those of an idle link, or of the equilibrium."""
    supply: dict[str, Any] = {"C": float(fluid.capacity[link]), "T": interval, "p": protocol.namespace()}
    supply |= {"R": protocol.rate_range(supply["C"])[0], "y": 0.0, "q": 0.0, "q_mean": 0.0}
    if point is not None:
        supply["y"] = sum(
            members * point.rates[flow]
            for members, flow, route in zip(fluid.members, fluid.first_flow, fluid.routes, strict=True)
            if link in route
        )
        supply["R"] = point.fair_rate[link]
        supply["q"] = supply["q_mean"] = 0.0 if point.queue is None else float(point.queue[link])
    state = call_law(protocol.router_law, supply)
    if protocol.announce_law is None:
        return state, state
    supply["R"] = state
    return state, call_law(protocol.announce_law, supply)


@dataclass(frozen=True)
class _Host:
    """A protocol, its laws, and whether its routers average over intervals."""

    protocol: Protocol
    laws: CompiledLaws
    moves: Mapping[str, int]
    averages: bool
    interval: float

    @classmethod
    def of(cls, protocol: Protocol, fields: tuple[str, ...], h: float) -> _Host:
        laws = CompiledLaws(protocol, fields)
        interval = float(protocol.params().get("interval", h))
        return cls(protocol, laws, compiled_moves(protocol, fields), _averages(protocol, laws), interval)

    def all_laws(self) -> Iterator[Any]:
        """Yield the laws of the protocol, and those of its states."""
        yield from self.laws.by_name.values()
        for state in self.protocol.states.values():
            yield from (law for law in (state.law, *state.jumps.values()) if law is not None)

    def initial_window(self, packet_size: float) -> float:
        """Return the initial window in bytes."""
        if self.protocol.opening_window is not None:
            return self.protocol.opening_window
        return self.protocol.initial * packet_size if self.protocol.initial else initial_window(packet_size)


def _rules(hosts: Sequence[_Host], averaged: Sequence[int], record: FloatArray, grid: Grid, problem: Problem) -> Rules:
    """Return the laws of some hosts; `averaged` is the row of each host's router at link 0."""
    runs = [[host.protocol for host in hosts].index(protocol) for protocol in problem.protocols]

    def laws(name: str) -> NDArray[np.int64]:
        return np.array([getattr(host.laws, name) for host in hosts], np.int64)

    def moves(name: str) -> NDArray[np.int64]:
        return np.array([host.moves.get(name, 0) for host in hosts], np.int64)

    return Rules(
        np.array(runs, np.int64), laws("router"), laws("source"), laws("slow_start"), laws("decrease"), laws("loss"),
        laws("mark"), laws("memory"), moves("move"), moves("after_loss"), moves("after_mark"),
        np.array([[record.ctypes.data, host.laws.params.ctypes.data] for host in hosts]),
        np.array([host.interval for host in hosts]),
        np.array([("min", "max", "sum").index(host.protocol.combine) for host in hosts]),
        np.array([int(host.laws.takes("router", "q_flow")) for host in hosts]),
        np.array(averaged, np.int64),
        np.array([8.0 * host.protocol.receiver_window or np.inf for host in hosts]),
        np.array([host.protocol.paced_over for host in hosts]),
        record, grid.failed, int(problem.ack_clocked), int(problem.signals == "random"),
    )  # fmt: skip


def _routers(
    hosts: Sequence[_Host], fluid: FluidNetwork, grid: Grid, record: FloatArray, ticks: FloatArray,
    point: Equilibrium | None,
) -> Routers:  # fmt: skip
    """Return the routers of some hosts, one at each link, before their first ticks."""
    rows = [(link, host) for host in hosts for link in range(fluid.n_links)]
    state, advertised = np.zeros(len(rows)), np.zeros((len(rows), grid.rows))
    for k, (link, host) in enumerate(rows):
        state[k], advertised[k, : grid.zero] = _announced(host.protocol, fluid, link, host.interval, point)
    interval = np.array([host.interval for _, host in rows])
    return Routers(
        np.array([link for link, _ in rows], np.int64),
        np.array([host.laws.router for _, host in rows], np.int64),
        np.array([host.laws.announce for _, host in rows], np.int64),
        np.array([[record.ctypes.data, host.laws.params.ctypes.data] for _, host in rows], np.int64).reshape(-1, 2),
        interval, advertised, state, interval * ticks[[link for link, _ in rows]],
        np.full(len(rows), grid.zero - 1), np.zeros(len(rows)),
    )  # fmt: skip


def _ticks(discipline: Protocol) -> bool:
    """Return whether a discipline has a state that moves at intervals."""
    return any(state.clock == "interval" for state in discipline.states.values())


def run(problem: Problem) -> Result:
    """Compute the curves of a network.

    Parameters
    ----------
    problem : Problem
        Problem with source laws that take the argument `w`.

    Returns
    -------
    Result
    """
    fluid, point = problem.fluid, problem.point
    at_links, ticks, queues = problem.disciplines, problem.ticks, None
    if len(problem.joined) > 0:
        queues = LinkQueues.of(fluid, at_links, problem.joined)
        at_links, ticks, fluid = [at_links[link] for link in queues.link], ticks[queues.link], queues.fluid
    at_departure = [
        discipline if discipline is not None and chooses_departures(discipline) else None
        for discipline in problem.disciplines
    ]
    at_links = [
        discipline if discipline is None or discipline.probability_law is not None else None for discipline in at_links
    ]
    L, G = fluid.n_links, fluid.n_groups
    shortest = float(fluid.rtt.min())
    crossed = {link for route in fluid.routes for link in route}
    ticking = [
        interval_of(discipline)
        for link, discipline in enumerate(at_links)
        if discipline is not None and link in crossed and _ticks(discipline)
    ]
    h = shortest / _STEPS
    if ticking:  # the shortest interval is an integer number of steps, because ticks happen on the grid
        h = min(ticking) / ceil(min(ticking) / h)
    queue = np.zeros(L) if point is None or point.queue is None else point.queue
    waits = queue / fluid.capacity
    delay = fluid.rtt + np.array([waits[list(route)].sum() for route in fluid.routes])
    zero = ceil(float(delay.max()) / h) + 2
    grid = Grid.of(h, zero, problem.samples)
    paths = paths_of(fluid, grid)
    curves = curves_of(paths, fluid, grid, keeps_drops=True, head_drops=any(at_departure))
    ecn = [codepoint(protocol) for protocol in problem.protocols]
    disciplines, code = disciplines_of(at_links, ecn, paths, grid, ticks, shortest)
    begin(disciplines, code, at_links, fluid.capacity, problem.marking)
    begun = {protocol: machine_fields(protocol) for protocol in dict.fromkeys(problem.protocols)}
    names = list(dict.fromkeys(name for protocol in begun for name in (*states_of(protocol), *begun[protocol])))
    fields = (*WINDOW_ARGUMENTS, *names)
    hosts = {protocol: _Host.of(protocol, fields, h) for protocol in dict.fromkeys(problem.protocols)}
    of_group = [hosts[protocol] for protocol in problem.protocols]
    acked, early_seen = np.zeros((2, G))
    states_now = np.zeros((G, len(names)))
    for g, host in enumerate(of_group):
        for name, state in host.protocol.states.items():
            if not callable(state.initial):
                states_now[g, names.index(name)] = state.initial
        for name, value in begun[host.protocol].items():
            states_now[g, names.index(name)] = value
    if point is None:
        first = [host.initial_window(s) for host, s in zip(of_group, fluid.packet_size, strict=True)]
        window = 8.0 * np.array(first)
        for g, host in enumerate(of_group):
            for name, state in host.protocol.states.items():
                if callable(state.initial):
                    states_now[g, names.index(name)] = _first_value(host.protocol, name, state.initial, window[g])
    else:
        x = point.rates[fluid.first_flow]
        over = np.array([host.protocol.paced_over for host in of_group])
        window = problem.factor * x * np.maximum(delay, over)
        for g, flow in enumerate(fluid.first_flow):
            for name, values in point.states.items():
                states_now[g, names.index(name)] = values[flow]
        chosen_before = np.zeros(len(paths.links))
        if problem.marking is not None:
            flows = fluid.first_flow[paths.owner]
            chosen_before = problem.marking.chosen[flows, paths.links]
            disciplines.probability[disciplines.rows, :zero] = chosen_before[:, None]
        let_through = _sent_before(paths, curves, disciplines, fluid, grid, x, waits, chosen_before)
        acked -= paths.pass_share[paths.first[1:] - 1] * let_through * delay
        early_seen -= (x - let_through) * delay
    if problem.marking is not None:
        for g, flow in enumerate(fluid.first_flow):
            for name, value in problem.marking.host_states[flow].items():
                states_now[g, names.index(name)] = value
    record = np.zeros(len(fields))
    averaging = [host for host in hosts.values() if host.averages]
    averaged = [L * averaging.index(host) if host.averages else -1 for host in hosts.values()]
    rules = _rules(list(hosts.values()), averaged, record, grid, problem)
    routers = _routers(averaging, fluid, grid, record, ticks, point)
    max_losses = int(grid.rows * h / shortest) + 2  # one an RTT
    memory, recovery_end, drops_before, burst, drops_seen, random_seen, early, marked = np.zeros((8, G))
    heads_seen, marked_seen, at_heads = np.zeros((3, G))
    begins = np.array([int(point is None and host.laws.slow_start != 0) for host in of_group])
    for host in hosts.values():
        _check_since(host.protocol)
    looks_back = any(takes(law, "w_rtt") for host in hosts.values() for law in host.all_laws())
    windows = np.repeat(window[:, None], grid.rows if looks_back else 0, axis=1)
    sources = Sources(
        window, states_now, begins, np.full(G, -np.inf), acked,
        memory, recovery_end, drops_before, burst, np.zeros(G, np.int64), drops_seen, random_seen,
        np.random.default_rng(problem.seed).exponential(size=(G, max_losses)), np.zeros(G, np.int64),
        early_seen, early, marked, heads_seen, marked_seen, at_heads, np.full(G, -np.inf), np.zeros(G), windows,
    )  # fmt: skip
    empty = np.zeros(0, np.int64)
    service = Service(empty, empty, empty, np.zeros(0)) if queues is None else queues.service
    n, chosen = problem.fluid.n_links, any(at_departure)
    departures, hooks = departures_of(
        at_departure if chosen else [],
        np.arange(n + 1) if queues is None else queues.service.first,
        np.zeros(n, np.int64) if queues is None else queues.index,
        ecn, paths, problem.fluid.capacity, problem.fluid.buffer, grid, problem.ticks, problem.seed,
        problem.signals == "random",
    )  # fmt: skip
    machines, code_of_machines = machines_of(
        problem.protocols,
        names,
        states_now,
        np.searchsorted(fluid.active, fluid.first_flow),
        len(fluid.active),
        grid.rows,
    )
    recorded = {"env.window": window, "flow.m": sources.memory, "link.R": routers.state}
    recorded |= {f"flow.{name}": sources.states[:, column] for column, name in enumerate(names)}
    recorded |= {f"link.{name}": disciplines.records[:, column] for name, column in code.states.items()}
    grid.run(
        lambda begin, end: int(
            advance(
                begin,
                end,
                h,
                zero - 1,
                paths,
                curves,
                rules,
                routers,
                sources,
                disciplines,
                service,
                departures,
                machines,
            )  # fmt: skip
        ),
        problem.progress,
        recorded if problem.records else None,
        code=[
            *(compiled for host in hosts.values() for compiled in (host.laws.code, host.moves)),
            *code.owners, *hooks, *code_of_machines,
        ],
        flows=fluid.first_flow,
        links=None if queues is None else queues.link,
    )  # fmt: skip
    done = np.argmax(curves.sent >= fluid.size[:, None], axis=1)
    paths.stop[:] = np.where(done > 0, (done - zero + 1) * h, fluid.stop)
    last = int(grid.ends()[-1])
    full = [link for link in range(L) if at_links[link] is None and curves.link_drops[link, last] > 0.0]
    full = [] if chosen or queues is not None else full
    lost = curves.crossing_drops[:, last] - curves.crossing_drops[:, zero - 1]
    lost += (1.0 - paths.pass_share) * curves.arrived[:, last]
    if chosen:
        lost += curves.head_drops[:, last]
    curves.lost[:] = [lost[a:b].sum() for a, b in zip(paths.first[:-1], paths.first[1:], strict=True)]
    marked = disciplines.marked if len(disciplines.marked) > 0 else np.zeros_like(curves.into)
    if chosen:
        members_of_crossing = paths.members[paths.owner][:, None]
        np.add.at(marked, paths.links, members_of_crossing * departures.marks)
        np.add.at(curves.link_drops, paths.links, members_of_crossing * curves.head_drops)
    classes, by_class = None, {}
    if queues is not None:
        classes, rows = queues.classes(problem.disciplines)
        cumulative = {"class_drops": curves.link_drops, "class_marks": marked}
        by_class = {name: grid.sums(curve)[:, rows] * (rows >= 0) for name, curve in cumulative.items()}
        by_class["class_queue"] = grid.values(curves.into - curves.out)[1:, rows] * (rows >= 0)
        paths, curves = queues.of_links(paths, curves)
        marked = queues.by_link(marked)
        for name in [name for name in grid.recorded if name.startswith("link.")]:
            grid.recorded[name] = grid.recorded[name][:, queues.service.first[:-1]]
    result = result_of(grid, paths, curves)
    if classes is not None and classes.size > 0:
        result.classes, result.by_class = classes, by_class
    if any(problem.disciplines):
        result.marks = grid.sums(marked)
    notes: list[str] = list(_unequal_rtts(fluid, full))
    for protocol in hosts:
        groups = [g for g, of_g in enumerate(problem.protocols) if of_g == protocol]
        if not is_machine(protocol):
            notes += _recoveries(protocol, float(sources.burst[groups].max()), int(sources.repeated[groups].max()))
        if protocol.loss_response_law is None and not is_machine(protocol) and curves.lost[groups].any():
            notes.append(
                f"packets were lost: in fluid runs, windows of {type(protocol).__name__} do not respond to losses"
            )
    result.stats["notes"] = tuple(dict.fromkeys(notes))
    if problem.records:
        result.recorded["env.window"] /= 8.0
        for g, host in enumerate(of_group):
            for name in names:
                if name not in host.protocol.states and name not in begun[host.protocol]:
                    result.recorded[f"flow.{name}"][:, g] = np.nan
    return result


def _check_since(protocol: Protocol) -> None:
    """Raise if a source law takes the time since a decrease by feedback, but only losses and marks decrease windows."""
    if source_takes(protocol, "since") and protocol.decrease_law is None and protocol.loss_response_law is not None:
        raise ValueError(
            f"source_law of {type(protocol).__name__} must not take since, the time since the last decrease by "
            "decrease_law, because there is no decrease_law: the time since a loss or mark is a State that jumps at it"
        )


def _first_value(protocol: Protocol, name: str, law: Callable[..., float], window: float) -> float:
    """Return the initial value of a state that a law derives from the first window [bit]."""
    supply: dict[str, Any] = {"w": float(window), "p": protocol.namespace()}
    if unknown := arguments_except(law, supply):
        raise ValueError(
            f"initial of state {name} of {type(protocol).__name__} may take w and p, got the argument {unknown[0]!r}"
        )
    return float(call_law(law, supply))


def _sent_before(
    paths: Paths,
    curves: Curves,
    disciplines: Disciplines,
    fluid: FluidNetwork,
    grid: Grid,
    x: FloatArray,
    waits: FloatArray,
    chosen: FloatArray,
) -> FloatArray:
    """Set the bits sent by all flows for all t < 0, counted from 0 s; return the rates after drops by disciplines."""
    zero = grid.zero
    paths.start[:] = -np.inf
    past = grid.h * (np.arange(zero) - zero + 1.0)
    passed = x.copy()
    for g, route in enumerate(fluid.routes):
        waited = np.cumsum([0.0, *waits[list(route)]])
        curves.sent[g, :zero] = x[g] * past
        for k, link in enumerate(route):
            c, late = paths.first[g] + k, past - fluid.forward[g][k] - waited[k]
            if chosen[c] > 0.0 and disciplines.marks[c] == 0:
                dropped = chosen[c] * passed[g]
                passed[g] -= dropped
                disciplines.early[c, :zero] = curves.crossing_drops[c, :zero] = dropped * late
                curves.link_drops[link, :zero] += fluid.members[g] * dropped * late
            curves.arrived[c, :zero] = passed[g] * late
            curves.into[link, :zero] += fluid.members[g] * passed[g] * late
            curves.out[link, :zero] += fluid.members[g] * passed[g] * (late - waits[link])
        curves.received[g, :zero] = passed[g] * (past - fluid.forward[g][-1] - waited[-1] - fluid.wire[g])
    return passed
