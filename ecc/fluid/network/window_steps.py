"""Steps of the fluid of windows on the grid: the equations and conventions of `windows`, compiled.

In each step (`advance`), each flow traces the data acknowledged now back along their path, moves its window by the laws
of its host, and sends. Then the data arrive at the queues, links serve them, routers that average compute their
feedback, and queue disciplines choose data that they mark or drop.

Laws are called by address and fail with a status other than 0. A step that calls laws returns this status and records
the law that failed in `Grid.failed`. The run then ends.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, entry, inlined, optimized, unpacker
from ecc.fluid.network.curves import OTHER, Curves, Paths, at, clear, drop, entered, look_back, passed, reached, serve
from ecc.fluid.network.departures import Departures, choose_departures
from ecc.fluid.network.disciplines import Disciplines, choose, part
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
    failed,
)
from ecc.fluid.network.host_states import STEP_FIELDS
from ecc.fluid.network.machines import Machines, move_machine
from ecc.fluid.network.queues import Service, serve_several

__all__ = [
    "MAX_WINDOW",
    "WINDOW_ARGUMENTS",
    "AckedData",
    "Routers",
    "Rules",
    "Signals",
    "Sources",
    "Step",
    "advance",
    "begin_recovery",
    "end_step",
    "fill_record",
    "keep_states",
    "laws_of",
    "loses_packet",
    "move_states",
    "move_window",
    "send",
    "set_seen",
    "signals_of",
    "trace_back",
]

WINDOW_ARGUMENTS = (
    "R",
    "y",
    "q",
    "q_mean",
    "q_flow",
    "loss",
    "C",
    "T",
    "w",
    "w_rtt",
    "m",
    "D",
    "s",
    "a",
    "since",
    "marked",
    *STEP_FIELDS,
    "result",
)
"""Fields of the record of window protocols' laws: laws read them, and write `result`; states of the host follow."""

(
    _R,
    _Y,
    _Q,
    _Q_MEAN,
    _Q_FLOW,
    _LOSS,
    _C,
    _T,
    _W,
    _W_RTT,
    _M,
    _D,
    _S,
    _A,
    _SINCE,
    _MARKED,
    _SHARE,
    _STEP,
    _JUMPS,
    _MOVES,
    _RESULT,
) = range(len(WINDOW_ARGUMENTS))
_STATES = len(WINDOW_ARGUMENTS)
_SMEARED = 0.01  # windows an RTT: slower ACKs are trains smeared by the grid
_LOSS_SIZE = 0.5  # packets: queues drop entire packets, and trains get slightly more or less than their share
MAX_WINDOW = 2.0**66
"""Maximum window [bit]."""
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
    mean: FloatRows  # (n_routers, 2): averages of arrivals [bit/s] and of the queue, if intervals are spread evenly
    share: Floats  # share of an interval that a step of the grid moves, if intervals are spread evenly; 0: they are not
    remembers: Integers  # whether the router law takes the state


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


class Laws(NamedTuple):
    """Laws of a host (0: none), their pointers and record, and the options of their application, as in `Rules`."""

    host: int
    pointers: Any  # to the record and to the parameters
    record: Floats
    failed: Floats
    router: int
    source: int
    slow_start: int
    decrease: int
    loss: int
    mark: int
    memory: int
    move: int
    after_loss: int
    after_mark: int
    interval: float
    combine: int
    by_flow: int
    averaged: int
    limit: float
    paced_over: float
    ack_clocked: int
    random: int


class Step(NamedTuple):
    """A step on the grid."""

    i: int  # row that the step computes
    t: float  # s
    h: float  # s
    zero: int  # row of time 0


class AckedData(NamedTuple):
    """Data of a flow that are acknowledged now, traced back along their path; losses and marks are cumulative."""

    position: float  # position on the grid at which the data were sent
    sent_at: float  # s
    rtt: float  # s
    feedback: float  # R, of all links of the path
    acknowledged: float  # bits
    dropped: float  # bits dropped by queues and disciplines
    random_lost: float  # bits
    early: float  # bits dropped by disciplines
    unmarked: float  # share of the data that no discipline marked on arrival
    certain: bool  # whether a discipline chose all arrivals
    at_heads: float  # bits dropped at the head of a queue
    marked_at_heads: float  # bits


class Signals(NamedTuple):
    """Losses and marks that the ACKs of a step signal to a host."""

    new_drops: float  # bits dropped by full queues
    new_random: float  # bits lost, or chosen, at random
    new_early: float  # bits dropped by disciplines
    new_marked: float  # bits
    marked_share: float  # share of the data that was marked
    unanswered: float  # bits chosen by disciplines that count as a loss like the drops of a full queue
    by_rate: bool  # whether the host responds to chosen data at their rate


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
    machines: Machines,
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
            elif machines.hook[g] != 0:
                status = move_machine(
                    machines,
                    paths,
                    sources,
                    curves.sent,
                    g,
                    i,
                    step.t,
                    h,
                    acked.position,
                    acked.sent_at >= paths.start[g],
                    acked.acknowledged,
                    acked.dropped + acked.random_lost,
                    1.0 - acked.unmarked,
                    laws.limit,
                )
                if status != 0:
                    return failed(rules.failed, MACHINE, g, step.t, status)
            else:
                if acked.sent_at >= paths.start[g]:
                    chosen = len(disciplines.marks) > 0 or len(departures.share) > 0
                    status = _respond(paths, laws, sources, acked, g, step, chosen)
                    if status != 0:
                        return status
                if not 0.0 < sources.window[g] <= MAX_WINDOW:
                    reason = NOT_POSITIVE if sources.window[g] <= 0.0 else TOO_LARGE
                    return failed(rules.failed, SOURCE, g, step.t, reason)
                sources.early_seen[g], sources.acked[g] = acked.early, acked.acknowledged
                send(paths, curves, laws, sources, acked, g, step)

        status = end_step(paths, curves, rules, routers, disciplines, service, departures, step)
        if status != 0:
            return status
    return 0


@inlined
def end_step(
    paths: Any, curves: Any, rules: Any, routers: Any, disciplines: Any, service: Any, departures: Any, step: Any
) -> Any:
    """Let the data sent in a step arrive, and let links, routers and disciplines act; return the status of a law."""
    i = step.i
    _arrive(paths, curves, disciplines, i)
    _serve(paths, curves, service, i)
    for k in range(len(routers.due)):
        status = _move_router(paths, curves, rules, routers, k, step)
        if status != 0:
            return status
    drop(paths, curves, i)
    status = _choose_arrivals(paths, curves, rules, disciplines, step)
    if status != 0:
        return status
    return _choose_departures(paths, curves, rules, departures, step)


@inlined
def laws_of(rules: Any, host: int) -> Any:
    """Return the laws of a host."""
    return Laws(
        host,
        _pointers(rules.addresses[host]),
        rules.record,
        rules.failed,
        rules.router[host],
        rules.source[host],
        rules.slow_start[host],
        rules.decrease[host],
        rules.loss[host],
        rules.mark[host],
        rules.memory[host],
        rules.move[host],
        rules.after_loss[host],
        rules.after_mark[host],
        rules.interval[host],
        rules.combine[host],
        rules.by_flow[host],
        rules.averaged[host],
        rules.limit[host],
        rules.paced_over[host],
        rules.ack_clocked,
        rules.random,
    )


@optimized
def _call_law(law: int, pointers: Any, place: Any, part: int, which: int, t: float) -> Any:
    """Call a law by its address; return 0, or its status, after recording the failure in `place`."""
    pointer, params = pointers
    status = call(law, (pointer, pointer, params, pointer))
    if status != 0:
        return failed(place, part, which, t, status)
    return status


@inlined
def trace_back(
    paths: Any, curves: Any, laws: Any, routers: Any, disciplines: Any, departures: Any, g: int, step: Any
) -> Any:
    """Return the status of the router law, and the data of a flow that are acknowledged now."""
    status, R, dropped, random_lost, acknowledged = 0, 0.0, 0.0, 0.0, 0.0
    early, unmarked, certain, at_heads, marked_at_heads = 0.0, 1.0, False, 0.0, 0.0
    u, last = look_back(paths, curves, g, step.i), paths.first[g + 1] - 1
    for c in range(last, paths.first[g] - 1, -1):
        e = curves.entered_at[c]
        arrived = at(curves.arrived[c], e)
        if c == last:
            acknowledged = passed(paths, curves, c, e, curves.left_at[c])
        dropped += at(curves.crossing_drops[c], e)
        random_lost += (1.0 - paths.pass_share[c]) * arrived
        if len(departures.share) > 0:
            at_heads += at(curves.head_drops[c], curves.left_at[c])
            marked_at_heads += at(departures.marks[c], curves.left_at[c])
        if len(disciplines.marks) > 0:
            chosen, bound = _chosen_share(disciplines, c, e)
            certain = certain or bound >= 1.0
            early += at(disciplines.early[c], e)
            if disciplines.marks[c] != 0:
                unmarked *= 1.0 - chosen
        if laws.router != 0:
            status, signal = _feedback(paths, curves, laws, routers, c, e, arrived, step)
            if status != 0:
                break
            R = signal if c == last else _combined(laws.combine, R, signal)
    return status, AckedData(
        u,
        (u - step.zero) * step.h,
        (step.i - u) * step.h,
        R,
        acknowledged,
        dropped + at_heads,
        random_lost,
        early + at_heads,
        unmarked,
        certain,
        at_heads,
        marked_at_heads,
    )


@inlined
def _chosen_share(disciplines: Any, c: int, e: float) -> Any:
    """Return the share of the arrivals at a position that a discipline chose, and an upper bound of it."""
    row, latest, before = disciplines.rows[c], max(0, ceil(e) - 1), max(0, int(e) - 1)
    chosen = disciplines.probability[row, latest]  # set at the end of the step before the arrival
    earlier = disciplines.probability[row, before]  # holds for the part that arrived in that step
    return earlier + (e - int(e)) * (chosen - earlier), max(chosen, earlier)


@inlined
def _feedback(paths: Any, curves: Any, laws: Any, routers: Any, c: int, e: float, arrived: float, step: Any) -> Any:
    """Return the status of the router law, and the feedback of a link to the data acknowledged now."""
    link, row, record = paths.links[c], int(curves.left_at[c]), laws.record
    if laws.averaged >= 0:
        return 0, routers.advertised[laws.averaged + link, row]
    into, out, curve, drops = curves.into[link], curves.out[link], curves.arrived[c], curves.crossing_drops[c]
    lost, accepted = at(drops, e) - at(drops, e - 1.0), arrived - at(curve, e - 1.0)
    record[_LOSS] = 1.0 - paths.pass_share[c] * (accepted / (lost + accepted) if lost > 0.0 else 1.0)
    record[_Q] = at(into, e) - at(out, e)
    if laws.by_flow != 0:
        record[_Q_FLOW] = at(curve, e) - at(curve, entered(into, out, e, curves.hints[OTHER], c))
    record[_C], record[_T], record[_S] = paths.capacity[link, row], laws.interval, paths.packet[paths.owner[c]]
    status = _call_law(laws.router, laws.pointers, laws.failed, ROUTER, link, step.t)
    return status, record[_RESULT]


@inlined
def _combined(combine: int, first: float, second: float) -> float:
    """Return the feedback of two links together."""
    if combine == _MINIMUM:
        return min(first, second)
    if combine == _MAXIMUM:
        return max(first, second)
    return first + second


@inlined
def _respond(paths: Any, laws: Any, sources: Any, acked: Any, g: int, step: Any, disciplined: bool) -> Any:
    """Move the window and the states of a host by the ACKs of a step; return 0, or the status of a law that failed."""
    share = step.h / acked.rtt
    if laws.ack_clocked != 0:
        share = min(1.0, (acked.acknowledged - sources.acked[g]) / sources.window[g])
    signals = signals_of(laws, sources, acked, g)
    fill_record(paths, laws, sources, acked, signals, g, step)
    responds = laws.loss != 0
    answered = disciplined and acked.sent_at < sources.answered[g]
    recovers = responds and (step.t < sources.recovery_end[g] or answered)
    loses = responds and not recovers and loses_packet(sources, signals, paths.packet[g], g)
    status = move_states(laws, share, recovers or loses, g, step)
    if status != 0:
        return status
    if recovers:
        set_seen(sources, acked, g)
        lost = (sources.drops_seen[g] - sources.drops_before[g]) / paths.packet[g]
        sources.burst[g] = max(sources.burst[g], lost)
        status = 0
    elif loses:
        status = begin_recovery(laws, sources, acked, signals, paths.packet[g], g, step)
    else:
        status = move_window(laws, sources, acked, signals, share, paths.packet[g], g, step)
    if status != 0:
        return status
    keep_states(laws, sources, g)
    return status


@inlined
def move_states(laws: Any, share: float, held: bool, g: int, step: Any) -> Any:
    """Move the states of a host, in the record, by a step in which this share of a window is acknowledged.

    States that move together with the window are constant if it is held.
    """
    if laws.move == 0:
        return 0
    laws.record[_SHARE], laws.record[_STEP], laws.record[_MOVES] = share, step.h, 0.0 if held else 1.0
    return _call_law(laws.move, laws.pointers, laws.failed, STATE, g, step.t)


@inlined
def keep_states(laws: Any, sources: Any, g: int) -> None:
    """Store the states of a host, which its laws have moved in their record."""
    for column in range(sources.states.shape[1]):
        sources.states[g, column] = laws.record[_STATES + column]


@inlined
def signals_of(laws: Any, sources: Any, acked: Any, g: int) -> Any:
    """Return the losses and marks that the ACKs of a step signal; count those that need a response as for a loss."""
    new_drops = acked.dropped - acked.early - sources.drops_seen[g]
    new_random = acked.random_lost - sources.random_seen[g]
    newly, unmarked = max(0.0, acked.acknowledged - sources.acked[g]), acked.unmarked
    if acked.marked_at_heads > sources.marked_seen[g] and newly > 0.0:
        new = min(acked.marked_at_heads - sources.marked_seen[g], newly)
        unmarked *= 1.0 - new / newly
        sources.marked_seen[g] += new
        sources.at_heads[g] += new
    sources.at_heads[g] += acked.at_heads - sources.heads_seen[g]
    sources.heads_seen[g] = acked.at_heads
    new_early, new_marked = acked.early - sources.early_seen[g], (1.0 - unmarked) * newly
    by_rate = laws.random == 0 and sources.slow_start[g] == 0 and not acked.certain
    if not by_rate:
        sources.early[g] += new_early
        sources.marked[g] += new_marked
    unanswered = sources.early[g] + sources.marked[g]
    if laws.random != 0:
        new_random += unanswered - sources.at_heads[g]
        unanswered = sources.at_heads[g]
    return Signals(new_drops, new_random, new_early, new_marked, 1.0 - unmarked, unanswered, by_rate)


@inlined
def fill_record(paths: Any, laws: Any, sources: Any, acked: Any, signals: Any, g: int, step: Any) -> None:
    """Write the arguments of a host's laws into their record."""
    record = laws.record
    record[_W], record[_M], record[_R], record[_D] = sources.window[g], sources.memory[g], acked.feedback, acked.rtt
    record[_T], record[_S], record[_A] = laws.interval, paths.packet[g], paths.acknowledged[g]
    record[_SINCE], record[_MARKED] = step.t - sources.decreased[g], signals.marked_share
    if sources.windows.shape[1] > 0:
        record[_W_RTT] = at(sources.windows[g], acked.position)
    for column in range(sources.states.shape[1]):
        record[_STATES + column] = sources.states[g, column]


@inlined
def set_seen(sources: Any, acked: Any, g: int) -> None:
    """Record that all losses and marks so far are detected, and need no other response."""
    sources.drops_seen[g], sources.random_seen[g] = acked.dropped - acked.early, acked.random_lost
    sources.early[g], sources.marked[g], sources.at_heads[g] = 0.0, 0.0, 0.0


@inlined
def loses_packet(sources: Any, signals: Any, packet: float, g: int) -> Any:
    """Return whether a host detects the loss of a packet [bit], or a mark that counts as one."""
    to_next = packet * sources.draws[g, sources.losses[g]]
    return signals.new_drops + signals.unanswered >= _LOSS_SIZE * packet or signals.new_random >= to_next > 0.0


@inlined
def begin_recovery(laws: Any, sources: Any, acked: Any, signals: Any, packet: float, g: int, step: Any) -> Any:
    """Let the window jump at a loss or mark, and be constant for the next RTT; return the status of the laws."""
    is_mark = sources.marked[g] > signals.new_drops + acked.random_lost - sources.random_seen[g] + sources.early[g]
    status, window = _jump(laws, is_mark, 1.0, g, step.t)
    if status != 0:
        return status
    sources.repeated[g] += int(
        signals.new_drops >= _LOSS_SIZE * packet and step.t < sources.recovery_end[g] + acked.rtt
    )
    sources.window[g], sources.recovery_end[g] = window, step.t + acked.rtt
    sources.drops_before[g], sources.slow_start[g] = sources.drops_seen[g], 0
    set_seen(sources, acked, g)
    sources.answered[g] = step.t
    sources.losses[g] += 1
    if laws.memory != 0:
        status = _call_law(laws.memory, laws.pointers, laws.failed, MEMORY, g, step.t)
        if status == 0:
            sources.memory[g] = laws.record[_RESULT]
    return status


@inlined
def _jump(laws: Any, is_mark: bool, jumps: float, g: int, t: float) -> Any:
    """Move the states of a host at losses or marks; return the laws' status, and the window after a single one."""
    record = laws.record
    law, part = (laws.mark, MARK) if is_mark else (laws.loss, LOSS)
    status, window = _call_law(law, laws.pointers, laws.failed, part, g, t), record[_RESULT]
    if status == 0 and not window > 0.0:
        status = failed(laws.failed, part, g, t, NOT_POSITIVE)
    record[_JUMPS] = jumps
    move = laws.after_mark if is_mark else laws.after_loss
    if status == 0 and move != 0:
        status = _call_law(move, laws.pointers, laws.failed, STATE, g, t)
    return status, window


@inlined
def move_window(
    laws: Any, sources: Any, acked: Any, signals: Any, share: float, packet: float, g: int, step: Any
) -> Any:
    """Move the window of a host that is not in recovery, by the acknowledged share of it; return the laws' status."""
    status, jump = 0, 0.0
    if laws.loss != 0 and signals.by_rate and signals.new_early + signals.new_marked > 0.0:
        status, jump = _jump_by_rate(laws, sources, signals, packet, g, step.t)
        if status != 0:
            return status
    if share >= _SMEARED * step.h / acked.rtt:
        status = _call_source_laws(laws, sources, g, step.t)
        if status != 0:
            return status
        sources.window[g] += share * (laws.record[_RESULT] - sources.window[g])
    sources.window[g] += jump
    return status


@inlined
def _jump_by_rate(laws: Any, sources: Any, signals: Any, packet: float, g: int, t: float) -> Any:
    """Return the status of the laws, and the mean change of the window at the data that disciplines chose in a step."""
    jumps = min(1.0, (signals.new_early + signals.new_marked) / packet)
    status, window = _jump(laws, signals.new_marked > signals.new_early, jumps, g, t)
    if status == 0 and laws.memory != 0:
        status = _call_law(laws.memory, laws.pointers, laws.failed, MEMORY, g, t)
        if status == 0:
            sources.memory[g] += jumps * (laws.record[_RESULT] - sources.memory[g])
    return status, jumps * (window - sources.window[g])


@inlined
def _call_source_laws(laws: Any, sources: Any, g: int, t: float) -> Any:
    """Call the law of slow start, or the decrease law and then the source law; return the status.

    The record has the result. The window is set to it at once at the end of slow start, and if it decreases.
    """
    record = laws.record
    if sources.slow_start[g] != 0:
        status = _call_law(laws.slow_start, laws.pointers, laws.failed, SLOW_START, g, t)
        if status == 0 and record[_RESULT] <= sources.window[g]:
            sources.window[g], sources.slow_start[g] = record[_RESULT], 0
        return status
    record[_RESULT] = sources.window[g]
    if laws.decrease != 0:
        status = _call_law(laws.decrease, laws.pointers, laws.failed, DECREASE, g, t)
        if status != 0:
            return status
    if record[_RESULT] < sources.window[g]:
        sources.window[g], sources.decreased[g] = record[_RESULT], t
        return 0
    return _call_law(laws.source, laws.pointers, laws.failed, SOURCE, g, t)


@inlined
def send(paths: Any, curves: Any, laws: Any, sources: Any, acked: Any, g: int, step: Any) -> None:
    """Send the data that the window, the receiver window and pacing admit."""
    i, sent, over = step.i, curves.sent, laws.paced_over
    started = step.t > paths.start[g] + 1e-6 * step.h
    allowed = min(sources.window[g], laws.limit) if started else 0.0
    if laws.ack_clocked != 0:
        allowed += acked.acknowledged + acked.dropped + acked.random_lost
    else:
        rate = allowed / max(acked.rtt, over)
        paced, sources.pace[g] = sources.pace[g], rate
        allowed = sent[g, i - 1] + 0.5 * step.h * ((paced if paced > 0.0 else rate) + rate)
    if over > 0.0:
        allowed = min(allowed, sent[g, i - 1] + step.h * sources.window[g] / over)
    if sources.windows.shape[1] > 0:
        sources.windows[g, i] = sources.window[g]
    sent[g, i] = min(max(sent[g, i - 1], allowed), paths.size[g])


@inlined
def _arrive(paths: Any, curves: Any, disciplines: Any, i: int) -> None:
    """Let data arrive at all queues, as if buffers were unlimited, except for those that disciplines drop at once."""
    clear(curves)
    for link in range(len(disciplines.passed)):
        disciplines.passed[link] = 0.0
    for c in range(len(paths.links)):
        arrived = curves.arrived[c]
        amount, _ = reached(paths, curves, c, i)
        arrived[i] = max(amount - curves.crossing_drops[c, i - 1], arrived[i - 1])
        if len(disciplines.marks) > 0:
            disciplines.early[c, i] = disciplines.early[c, i - 1]
            new, chosen = arrived[i] - arrived[i - 1], disciplines.probability[disciplines.rows[c], i - 1]
            disciplines.passed[paths.links[c]] += paths.members[paths.owner[c]] * (1.0 - chosen) * new
            if disciplines.marks[c] == 0:
                cut = chosen * new
                disciplines.early[c, i] += cut
                arrived[i] -= cut
        curves.incoming[paths.links[c]] += paths.members[paths.owner[c]] * (arrived[i] - arrived[i - 1])


@inlined
def _serve(paths: Any, curves: Any, service: Any, i: int) -> None:
    """Let all links serve their queues."""
    if len(service.first) == 0:
        for link in range(len(paths.buffer)):
            serve(paths, curves, link, i)
    for link in range(len(service.first) - 1):
        if service.first[link + 1] - service.first[link] == 1:
            serve(paths, curves, service.first[link], i)
        else:
            serve_several(paths, curves, service, link, i)


@inlined
def _move_router(paths: Any, curves: Any, rules: Any, routers: Any, k: int, step: Any) -> Any:
    """Let a router that averages measure a step, and compute its feedback at its ticks; return the laws' status."""
    i, link, record = step.i, routers.link[k], rules.record
    into, out, lost = curves.into[link], curves.out[link], curves.link_drops[link]
    routers.advertised[k, i] = routers.advertised[k, i - 1]
    routers.queue_sum[k] += into[i] - out[i]
    if routers.share[k] > 0.0:
        return _spread_router(paths, curves, rules, routers, k, step)
    if step.t < routers.due[k] - 1e-9 * step.h:
        return 0
    ticked, pointers = routers.ticked[k], _pointers(routers.addresses[k])
    steps, bits = i - ticked, into[i] + lost[i] - into[ticked] - lost[ticked]
    record[_R], record[_Y], record[_Q_MEAN] = routers.state[k], bits / (steps * step.h), routers.queue_sum[k] / steps
    record[_Q], record[_C], record[_T] = into[i] - out[i], paths.capacity[link, i], routers.interval[k]
    status = _call_law(routers.law[k], pointers, rules.failed, ROUTER, link, step.t)
    if status != 0:
        return status
    routers.state[k] = record[_R] = record[_RESULT]
    if routers.announce[k] != 0:
        status = _call_law(routers.announce[k], pointers, rules.failed, ANNOUNCE, link, step.t)
        if status != 0:
            return status
    routers.advertised[k, i] = record[_RESULT]
    routers.queue_sum[k], routers.ticked[k], routers.due[k] = 0.0, i, routers.due[k] + routers.interval[k]
    return status


@optimized
def _spread_router(paths: Any, curves: Any, rules: Any, routers: Any, k: int, step: Any) -> Any:
    """Move the averages and the state of a router by the share of an interval that a step is; return a status."""
    i, link, record, mean, share = step.i, routers.link[k], rules.record, routers.mean[k], routers.share[k]
    into, out, lost, pointers = (
        curves.into[link],
        curves.out[link],
        curves.link_drops[link],
        _pointers(routers.addresses[k]),
    )
    mean[0] += share * ((into[i] + lost[i] - into[i - 1] - lost[i - 1]) / step.h - mean[0])
    mean[1] += share * (into[i] - out[i] - mean[1])
    record[_R], record[_Y], record[_Q_MEAN] = routers.state[k], mean[0], mean[1]
    record[_Q], record[_C], record[_T] = into[i] - out[i], paths.capacity[link, i], routers.interval[k]
    status = _call_law(routers.law[k], pointers, rules.failed, ROUTER, link, step.t)
    if status != 0:
        return status
    moved = share if routers.remembers[k] != 0 else 1.0
    routers.state[k] += moved * (record[_RESULT] - routers.state[k])
    record[_R] = routers.advertised[k, i] = routers.state[k]
    if routers.announce[k] != 0:
        status = _call_law(routers.announce[k], pointers, rules.failed, ANNOUNCE, link, step.t)
        routers.advertised[k, i] = record[_RESULT]
    return status


@inlined
def _choose_arrivals(paths: Any, curves: Any, rules: Any, disciplines: Any, step: Any) -> Any:
    """Count the arrivals that disciplines dropped, and choose the share of the next ones; return the laws' status."""
    i = step.i
    if len(disciplines.marks) == 0:
        return 0
    for c in range(len(paths.links)):
        cut = disciplines.early[c, i] - disciplines.early[c, i - 1]
        curves.crossing_drops[c, i] += cut
        curves.link_drops[paths.links[c], i] += paths.members[paths.owner[c]] * cut
    if len(disciplines.marked_part) > 1:
        part(disciplines, paths, curves, i)
    for link in range(len(paths.buffer)):
        status = choose(disciplines, paths, curves, link, i, step.t, step.h)
        if status != 0:
            return failed(rules.failed, DISCIPLINE, link, step.t, status)
    return 0


@inlined
def _choose_departures(paths: Any, curves: Any, rules: Any, departures: Any, step: Any) -> Any:
    """Let disciplines choose data that leave the queues in a step; return the hooks' status."""
    i = step.i
    if len(departures.share) == 0:
        return 0
    for c in range(len(paths.links)):
        curves.head_drops[c, i] = curves.head_drops[c, i - 1]
        departures.marks[c, i] = departures.marks[c, i - 1]
    for link in range(len(departures.due)):
        if departures.addresses[link, 0] != 0:
            status = choose_departures(departures, paths, curves, link, i, step.t, step.h)
            if status != 0:
                return failed(rules.failed, DEPARTURE, link, step.t, status)
    return 0
