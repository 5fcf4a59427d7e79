"""The papers' discrete-time systems: one step a control interval, delays in integer numbers of intervals.

Let D_i = ceil(RTT_i/T), split into D_il^-> steps from source i to link l and D_il^<- = D_i - D_il^-> >= 1 back, and let
n count intervals (D may differ from step to step: step n uses the delays of its arrivals):

    x_i[n] = source_law(x_i[n - 1], x_i[n - D_i], R_i[n], R_i[n - 1]),   R_i[n] = min over its route of R_l[n - D_il^<-]
    y_l[n] = sum over flows of x_i[n - D_il^->]
    q_l[n] = q_l[n - 1] + T (y_l[n] - C_l)     within 0 and the buffer; the excess is lost
    R_l[n] = router_law(R_l[n - 1], y_l[n], y_l[n - 1], q_l[n], C_l, d_l[n], T, ...)     within the router's range

The signal of a router without a state, or with an announce law, is constant while nothing arrives; the rate in a header
is the arriving one. N_l counts the flows bottlenecked at link l, but not less than 1, and u_l is the arrival rate of
the others; a link that is not a bottleneck of any flow counts as empty. d_l is the mean of the arriving RTTs, weighted
by rates (or the largest RTT): RTTs rounded up to intervals, plus the queueing delays that senders measured last. Rates
are constant within an interval. As in the papers, queueing delays change d_l but not the delays D, and drops of one
link still arrive at the next.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.records import param_record, param_values
from ecc.fluid.compiled import Integers, call, compiled, entry, shifted, unpacker
from ecc.fluid.network.groups import FluidNetwork
from ecc.fluid.network.initial_conditions import InitialConditions
from ecc.fluid.network.laws import ARGUMENTS, BLOCK, LANES, CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import TOTALS, Result, turns

__all__ = ["NEVER", "Setup", "advance", "likeness", "run", "run_alike", "series_of", "setup_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SLICE = 4096  # maximum number of steps between two reports of progress
_MEMORY = 1 << 16  # maximum number of steps with arrivals that still wait in a queue
_R, _Y, _Y_PREV, _U, _N, _N_ALL, _Q, _C, _D, _T, _X, _X_RTT, _R_PREV, _OWN_RTT, _S, _RESULT = range(len(ARGUMENTS))
# indices in a block of flows: the first lane of each
_RS, _RS_PREV, _XS, _XS_RTT, _OWN_RTTS, _RESULTS = range(len(ARGUMENTS), BLOCK, LANES)
# indices in Fields.count
(
    STEP,
    LAST,
    SAMPLE,
    SAMPLES,
    LINKS,
    GROUPS,
    SIGNALS,
    LONGEST,
    COMBINE,
    ROUTER,
    SOURCE,
    ANNOUNCE,
    PRIORITY,
    REMEMBERS,
    BY_FLOW,
    MASK,
    MEMORY,
    SOURCES,
    SIGNAL_LAW,
    LOOKS_BACK,
    PERIOD,
    WAITED,
    LOSES,
    SINGLE,
    UNEVEN,
    NEXT_STOP,
) = range(26)
COUNTS = 26
MINIMUM, MAXIMUM, SUM = range(3)
FINE, LAW_FAILED, NOT_FINITE, TOO_LONG, INTERRUPTED = range(5)
NEVER = 1 << 62
NO_LINK, STOPPED, NOT_STARTED = -1, -2, -3  # instead of a bottleneck


class Fields(NamedTuple):
    """The arrays of a recurrence (pointers, in compiled code). P crossings: a group and a link of its route.

    Histories are rings over `size` steps, a power of two: step n lies in row n & mask.
    """

    record: Any  # arguments of a law
    block: Any  # (n_blocks, BLOCK): arguments of the source law for LANES groups at once, with their states
    signal_block: Any  # (BLOCK,): arguments of a signal's law
    params: Any
    capacity: Any  # (n_links,)
    buffer: Any
    lowest: Any  # minimum of the state
    highest: Any  # maximum of the state
    state: Any  # (n_links,): state of routers, if they have one
    advertised: Any  # (size, n_signals)
    priority: Any  # (size, n_links), or of size 0
    wait: Any  # (size, n_links): waiting time of the departures at the end of a step [s]
    volume: Any  # (n_links, memory): accepted in a step, by step modulo memory
    remaining: Any  # (n_links,): rest of the volume of the step that is being served
    queue: Any  # (n_links,)
    arrival: Any
    before: Any  # arrival one step ago
    weighted: Any  # RTTs, times the rates that carry them
    idle: Any  # RTT of the flows seen so far, used if nothing arrives
    mean: Any  # RTT of the router law; 0: unknown
    bottlenecked: Any
    crossing: Any  # flows that cross the link
    other: Any  # arrivals of flows that follow another link
    loss: Any
    arrived: Any  # cumulative
    dropped: Any
    peak: Any
    rtt: Any  # (n_groups,)
    members: Any
    floor: Any  # minimum rate, as bits an RTT
    floor_rate: Any  # minimum rate for RTTs without queueing delays
    size: Any
    total: Any  # cumulative
    delivered: Any
    lost: Any
    finished: Any  # step in which all of a group's size was sent
    x: Any  # (size, n_groups): past rates, if the source law looks back further than a step
    sent: Any  # (size, n_groups): rate
    carried: Any  # (size, n_groups): RTT in the headers
    reaching: Any  # (P,): rate at the crossing
    samples: Any  # times, in steps
    out_links: Any  # (n_samples, 4, n_links): cumulative arrived and dropped, queue, peak
    out_groups: Any  # (n_samples, 4, n_groups): cumulative sent, delivered, lost, and the bottleneck
    count: Any
    crossings: Any  # (n_groups + 1,)
    crossing_link: Any  # (P,)
    owner: Any  # (P,): group
    through: Any  # (P,): crossings, link by link
    first: Any  # (n_links + 1,): position in `through` of the first crossing of each link
    ahead: Any  # (period, P): steps from the source to the link
    back: Any  # (period, P): steps from the link to the source, > 0
    bottleneck: Any  # (size, n_groups): link that the packets are bottlenecked at, or NO_LINK, STOPPED, NOT_STARTED
    responds: Any  # (P,): 1 if the flow responds to the link
    signal: Any  # (P,): index of the signal that the flow reads there
    advertises_from: Any  # (n_links,): first step in which the router advertised
    opens: Any  # (n_groups,): step before the first in which the group sends
    stops: Any  # (n_groups,): last step in which the group sends
    responds_after: Any  # (n_groups,): feedback counts if its header left after this step
    selected: Any  # (n_groups,): link of the feedback that a group uses now, or NO_LINK
    head: Any  # (n_links,): step of the arrivals that are being served


_FLOATS = Fields._fields.index("count")
_unpack = unpacker("f" * _FLOATS + "i" * (len(Fields._fields) - _FLOATS))


@compiled
def _receive(w: Any) -> None:
    """Set the feedback that each group receives, its link, the RTT, and the rate an RTT ago if a law needs it."""
    c = w.count
    n, mask, links, signals, groups = c[STEP], c[MASK], c[LINKS], c[SIGNALS], c[GROUPS]
    period, combine, ranked, looks_back = c[PERIOD], c[COMBINE], c[PRIORITY] != 0, c[LOOKS_BACK] != 0
    no_wait = _has_no_wait(c)
    crossings = w.crossings[groups]
    now = (n % period) * crossings if period > 1 else 0
    for g in range(groups):
        best, which, rank, past_rate = 0.0, NO_LINK, 0.0, 0.0
        rtt, responds_after = w.rtt[g], w.responds_after[g]
        for p in range(w.crossings[g], w.crossings[g + 1]):
            link = w.crossing_link[p]
            step = n - w.back[now + p]
            sent = step - (w.ahead[p] if period == 1 else w.ahead[(step % period) * crossings + p])
            if not no_wait:
                rtt += w.wait[(step & mask) * links + link]
            if w.responds[p] != 0 and step >= w.advertises_from[link] and sent > responds_after:
                value = w.advertised[(step & mask) * signals + w.signal[p]]
                urgency = w.priority[(step & mask) * links + link] if ranked else 0.0
                if which < 0 or (
                    combine != SUM
                    and (
                        urgency > rank
                        or (urgency == rank and ((value < best) if combine == MINIMUM else (value > best)))
                    )
                ):
                    best, which, rank = value, link, urgency
                    if looks_back:
                        past_rate = w.x[(sent & mask) * groups + g]
                elif combine == SUM:
                    best += value
        lane_of_group = (g // LANES) * BLOCK + g % LANES
        w.block[lane_of_group + _RS_PREV] = w.block[lane_of_group + _RS] if w.selected[g] >= 0 else best
        w.block[lane_of_group + _RS] = best
        w.block[lane_of_group + _OWN_RTTS] = rtt
        w.block[lane_of_group + _XS_RTT] = past_rate
        w.selected[g] = which
    last = (groups - 1) % LANES  # the lanes after it copy its arguments
    for lane in range(last + 1, LANES):
        lane_of_group = (groups // LANES) * BLOCK
        for k in (_RS, _RS_PREV, _XS, _XS_RTT, _OWN_RTTS):
            w.block[lane_of_group + k + lane] = w.block[lane_of_group + k + last]


@compiled
def _update_sources(w: Any) -> Any:
    """Call the source law for all groups; return a status.

    If it fails for a block, it is called for each group of the block that has feedback.
    """
    c = w.count
    groups = c[GROUPS]
    for first in range(0, groups, LANES):
        block = shifted(w.block, first // LANES * BLOCK)
        if call(c[SOURCES], (block, block, w.params, block)) == 0:
            continue
        for g in range(first, min(first + LANES, groups)):
            if w.selected[g] < 0 or c[STEP] <= w.opens[g] or c[STEP] > w.stops[g]:
                continue
            lane = g - first
            w.record[_R], w.record[_R_PREV] = block[_RS + lane], block[_RS_PREV + lane]
            w.record[_X], w.record[_X_RTT] = block[_XS + lane], block[_XS_RTT + lane]
            w.record[_OWN_RTT] = block[_OWN_RTTS + lane]
            if call(c[SOURCE], (w.record, w.record, w.params, w.record)) != 0:
                return LAW_FAILED
            block[_RESULTS + lane] = w.record[_RESULT]
    return FINE


@compiled
def _send(w: Any) -> Any:
    """Set the rate of each group in this step; return a status."""
    c = w.count
    n, groups, T, looks_back = c[STEP], c[GROUPS], w.record[_T], c[LOOKS_BACK] != 0
    row = (n & c[MASK]) * groups
    no_wait = _has_no_wait(c)
    c[NEXT_STOP] = NEVER
    for g in range(groups):
        lane_of_group = (g // LANES) * BLOCK + g % LANES
        which, rate, x = w.selected[g], 0.0, w.block[lane_of_group + _XS]
        if n <= w.opens[g]:
            which = NOT_STARTED
        elif n > w.stops[g]:
            which = STOPPED
        else:
            if which >= 0:
                floor = w.floor[g]
                x = max(
                    w.block[lane_of_group + _RESULTS],
                    floor / w.block[lane_of_group + _OWN_RTTS] if floor > 0.0 else 0.0,
                )
            rate = x
            if rate * T >= w.size[g] - w.total[g]:
                rate = (w.size[g] - w.total[g]) / T
                w.stops[g] = n
                w.finished[g] = n
            if not np.isfinite(rate):
                return NOT_FINITE
        w.block[lane_of_group + _XS] = x
        w.sent[row + g] = rate
        w.bottleneck[row + g] = which
        w.total[g] += rate * T
        if which < 0 or w.size[g] < np.inf:
            c[UNEVEN] = n
        c[NEXT_STOP] = min(c[NEXT_STOP], w.stops[g])
        if not no_wait:
            w.carried[row + g] = w.block[lane_of_group + _OWN_RTTS]
        if looks_back:
            w.x[row + g] = x
    return FINE


@compiled
def _is_steady(c: Any) -> Any:
    """Return whether every flow crosses one link and has long been, is and will be bottlenecked there."""
    return c[SINGLE] != 0 and c[STEP] - c[UNEVEN] > c[MASK] + 1 and c[STEP] <= c[NEXT_STOP]


@compiled
def _has_no_wait(c: Any) -> Any:
    """Return whether no packet has waited recently, so that the RTTs in all headers are without queueing delay."""
    return c[STEP] - c[WAITED] > 2 * c[MASK] + 2


@compiled
def _advance_steadily(w: Any) -> Any:
    """Do the work of `_receive`, `_update_sources` and `_send` faster if all is steady, the usual case.

    Returns a status.
    """
    c = w.count
    n, mask, signals, groups, T = c[STEP], c[MASK], c[SIGNALS], c[GROUPS], w.record[_T]
    row, looks_back, no_wait, links = (n & mask) * groups, c[LOOKS_BACK] != 0, _has_no_wait(c), c[LINKS]
    check = 0.0
    for first in range(0, groups, LANES):
        block = shifted(w.block, first // LANES * BLOCK)
        count = min(LANES, groups - first)
        for lane in range(count):
            g = first + lane
            step = n - w.back[g]
            block[_RS_PREV + lane] = block[_RS + lane]
            block[_RS + lane] = w.advertised[(step & mask) * signals + w.signal[g]]
            if not no_wait:
                rtt = w.rtt[g] + w.wait[(step & mask) * links + w.crossing_link[g]]
                block[_OWN_RTTS + lane] = w.carried[row + g] = rtt
            if looks_back:
                block[_XS_RTT + lane] = w.x[((step - w.ahead[g]) & mask) * groups + g]
        if call(c[SOURCES], (block, block, w.params, block)) != 0:
            return LAW_FAILED
        for lane in range(count):
            g = first + lane
            x = max(block[_RESULTS + lane], w.floor_rate[g] if no_wait else w.floor[g] / block[_OWN_RTTS + lane])
            check += x * 0.0
            block[_XS + lane] = x
            w.sent[row + g] = x
            w.total[g] += x * T
            if looks_back:
                w.x[row + g] = x
    return FINE if check == 0.0 else NOT_FINITE


@compiled
def _arrive_steadily(w: Any, link: int) -> None:
    """Do the work of `_arrive` if all is steady, so that the bottlenecks are known."""
    c = w.count
    n, mask, groups, longest = c[STEP], c[MASK], c[GROUPS], c[LONGEST] != 0
    no_wait = _has_no_wait(c)
    arrival = weighted = idle = 0.0
    for k in range(w.first[link], w.first[link + 1]):
        g = w.through[k]
        at = ((n - w.ahead[g]) & mask) * groups + g
        rate = w.sent[at]
        rtt = w.rtt[g] if no_wait else w.carried[at]
        flow = rate * w.members[g]
        w.reaching[g] = rate
        arrival += flow
        idle = max(idle, rtt)
        if not longest:
            weighted += flow * rtt
        elif rate > 0.0:
            weighted = max(weighted, rtt)
    w.before[link] = w.arrival[link]
    w.arrival[link], w.weighted[link], w.idle[link] = arrival, weighted, idle


@compiled
def _arrive(w: Any, link: int) -> None:
    """Add up the arrivals at a link in this step."""
    c = w.count
    n, mask, groups, period = c[STEP], c[MASK], c[GROUPS], c[PERIOD]
    longest, adds_up = c[LONGEST] != 0, c[COMBINE] == SUM
    no_wait = _has_no_wait(c)
    now = (n % period) * w.crossings[groups] if period > 1 else 0
    arrival = weighted = idle = bottlenecked = crossing = other = 0.0
    for k in range(w.first[link], w.first[link + 1]):
        p = w.through[k]
        g = w.owner[p]
        at = ((n - w.ahead[now + p]) & mask) * groups + g
        rate, bottleneck, members = w.sent[at], w.bottleneck[at], w.members[g]
        rtt = w.rtt[g] if no_wait else w.carried[at]
        flow = rate * members
        w.reaching[p] = rate
        arrival += flow
        if not longest:
            weighted += flow * rtt
        elif rate > 0.0:
            weighted = max(weighted, rtt)
        if bottleneck > NOT_STARTED:
            idle = max(idle, rtt)
            if bottleneck > STOPPED:
                crossing += members
                if bottleneck == link or adds_up:
                    bottlenecked += members
                else:
                    other += flow
    w.before[link] = w.arrival[link]
    w.arrival[link], w.weighted[link], w.idle[link] = arrival, weighted, idle
    w.bottlenecked[link], w.crossing[link], w.other[link] = bottlenecked, crossing, other


@compiled
def _queue_up(w: Any, link: int, accepted: float, served: float) -> Any:
    """Add the accepted bits of a step to a queue and remove the served ones.

    Returns the waiting time of the bits that leave now, in steps, or a negative number if the memory of the queue is
    too short.
    """
    c = w.count
    n, size = c[STEP], c[MEMORY]
    row = link * size
    w.volume[row + n % size] = accepted
    if w.queue[link] <= 0.0:
        w.head[link] = n
        w.remaining[link] = 0.0
        return 0.0
    while served > w.remaining[link] and w.head[link] < n:
        served -= w.remaining[link]
        w.head[link] += 1
        w.remaining[link] = w.volume[row + w.head[link] % size]
    w.remaining[link] = max(0.0, w.remaining[link] - served)
    if n - w.head[link] >= size - 1:
        return -1.0
    volume = w.volume[row + w.head[link] % size]
    return n - w.head[link] + (w.remaining[link] / volume if volume > 0.0 else 0.0)


@compiled
def _queue(w: Any, link: int) -> Any:
    """Add the arrivals to the queue of a link; return a status."""
    c = w.count
    T, C, y = w.record[_T], w.capacity[link], w.arrival[link]
    w.arrived[link] += y * T
    queued = w.queue[link]
    queue = max(0.0, queued + T * (y - C))
    excess = max(0.0, queue - w.buffer[link])
    w.loss[link] = 0.0
    if excess > 0.0:
        w.dropped[link] += excess
        w.loss[link] = min(1.0, excess / (y * T))
        queue = w.buffer[link]
    w.queue[link] = queue
    waited = _queue_up(w, link, y * T - excess, queued + y * T - excess - queue)
    w.peak[link] = max(w.peak[link], queue)
    w.wait[(c[STEP] & c[MASK]) * c[LINKS] + link] = waited * T
    if waited > 0.0:
        c[WAITED] = c[STEP]
    if excess > 0.0:
        c[LOSES] = 1
    return FINE if waited >= 0.0 else TOO_LONG


@compiled
def _set_arguments(w: Any, link: int, record: Any) -> None:
    """Put the arguments of a router's law into a record."""
    record[_R] = w.state[link]
    record[_Y] = w.arrival[link]
    record[_Y_PREV] = w.before[link]
    record[_U] = w.other[link] if w.bottlenecked[link] > 0.0 else 0.0
    record[_N] = max(1.0, w.bottlenecked[link])
    record[_N_ALL] = max(1.0, w.crossing[link])
    record[_Q] = w.queue[link]
    record[_C] = w.capacity[link]
    record[_D] = w.mean[link]


@compiled
def _call_law(w: Any, link: int, law: int) -> Any:
    """Call a law of a router; return a status. The result is in the record."""
    _set_arguments(w, link, w.record)
    if call(law, (w.record, w.record, w.params, w.record)) != 0:
        return LAW_FAILED
    return FINE if np.isfinite(w.record[_RESULT]) else NOT_FINITE


@compiled
def _update_router(w: Any, link: int) -> Any:
    """Update the state of a router after a step, and its priority; return a status."""
    c = w.count
    n = c[STEP]
    w.mean[link] = w.idle[link]
    if w.arrival[link] > 0.0:
        w.advertises_from[link] = min(w.advertises_from[link], n)
        w.mean[link] = w.weighted[link] if c[LONGEST] != 0 else w.weighted[link] / w.arrival[link]
    if c[PRIORITY] != 0:
        now = (n & c[MASK]) * c[LINKS] + link
        w.priority[now] = w.priority[((n - 1) & c[MASK]) * c[LINKS] + link]
        if w.arrival[link] > 0.0:
            status = _call_law(w, link, c[PRIORITY])
            if status != FINE:
                return status
            w.priority[now] = w.record[_RESULT]
    if c[REMEMBERS] != 0 and w.mean[link] > 0.0:
        status = _call_law(w, link, c[ROUTER])
        if status != FINE:
            return status
        w.state[link] = min(max(w.record[_RESULT], w.lowest[link]), w.highest[link])
    return FINE


@compiled
def _advertise(w: Any, link: int) -> Any:
    """Update the signals of a link after a step; return a status."""
    c = w.count
    now, before = (c[STEP] & c[MASK]) * c[SIGNALS], ((c[STEP] - 1) & c[MASK]) * c[SIGNALS]
    if c[BY_FLOW] != 0:
        return _advertise_by_flow(w, link, now, before)
    if c[REMEMBERS] != 0 and c[ANNOUNCE] == 0:
        w.advertised[now + link] = w.state[link]
    elif w.arrival[link] > 0.0:
        status = _call_law(w, link, c[ANNOUNCE] if c[ANNOUNCE] != 0 else c[ROUTER])
        if status != FINE:
            return status
        w.advertised[now + link] = w.record[_RESULT]
    else:
        w.advertised[now + link] = w.advertised[before + link]
    return FINE


@compiled
def _advertise_by_flow(w: Any, link: int, now: int, before: int) -> Any:
    c = w.count
    first, end = w.first[link], w.first[link + 1]
    if w.arrival[link] <= 0.0:
        for k in range(first, end):
            p = w.through[k]
            w.advertised[now + p] = w.advertised[before + p]
        return FINE
    _set_arguments(w, link, w.signal_block)
    w.signal_block[_T] = w.record[_T]
    while first < end:
        count = min(LANES, end - first)
        for lane in range(LANES):
            w.signal_block[_XS + lane] = w.reaching[w.through[first + min(lane, count - 1)]]
        if call(c[SIGNAL_LAW], (w.signal_block, w.signal_block, w.params, w.signal_block)) != 0:
            return LAW_FAILED
        for lane in range(count):
            if not np.isfinite(w.signal_block[_RESULTS + lane]):
                return NOT_FINITE
            w.advertised[now + w.through[first + lane]] = w.signal_block[_RESULTS + lane]
        first += count
    return FINE


@compiled
def _loss_rate(w: Any, g: int) -> Any:
    """Return the rate that a flow loses at all links of its route."""
    lost_rate = 0.0
    for p in range(w.crossings[g], w.crossings[g + 1]):
        lost_rate += w.reaching[p] * w.loss[w.crossing_link[p]]
    return lost_rate


@compiled
def _step(w: Any) -> Any:
    """Advance by one control interval; return a status."""
    c = w.count
    links, groups, T = c[LINKS], c[GROUPS], w.record[_T]
    c[LOSES] = 0
    steady = _is_steady(c)
    if steady:
        status = _advance_steadily(w)
    else:
        _receive(w)
        status = _update_sources(w)
        if status == FINE:
            status = _send(w)
    if status != FINE:
        return status
    for link in range(links):
        if steady:
            _arrive_steadily(w, link)
        else:
            _arrive(w, link)
        status = _queue(w, link)
        if status != FINE:
            return status
        status = _update_router(w, link)
        if status != FINE:
            return status
        status = _advertise(w, link)
        if status != FINE:
            return status
    for g in range(groups):
        arrived = w.reaching[w.crossings[g + 1] - 1]
        if c[LOSES] != 0:
            lost_rate = _loss_rate(w, g)
            w.delivered[g] += max(0.0, arrived - lost_rate) * T
            w.lost[g] += lost_rate * T
        else:
            w.delivered[g] += max(0.0, arrived) * T
    return FINE


@compiled
def _write(w: Any, row: int, share: float) -> None:
    """Write a sample that ends after `share` of the running step."""
    c = w.count
    links, groups = c[LINKS], c[GROUPS]
    T = w.record[_T]
    later = (1.0 - share) * T
    for link in range(links):
        at = row * 4 * links + link
        y = w.arrival[link]
        w.out_links[at] = w.arrived[link] - later * y
        w.out_links[at + links] = w.dropped[link] - later * y * w.loss[link]
        w.out_links[at + 2 * links] = w.queue[link]
        w.out_links[at + 3 * links] = w.peak[link]
        w.peak[link] = w.queue[link]
    for g in range(groups):
        at = row * 4 * groups + g
        rate = w.sent[(c[STEP] & c[MASK]) * groups + g]
        lost_rate = _loss_rate(w, g)
        w.out_groups[at] = w.total[g] - later * rate
        w.out_groups[at + groups] = w.delivered[g] - later * max(0.0, w.reaching[w.crossings[g + 1] - 1] - lost_rate)
        w.out_groups[at + 2 * groups] = w.lost[g] - later * lost_rate
        w.out_groups[at + 3 * groups] = w.selected[g] if c[COMBINE] != SUM and c[STEP] > w.opens[g] else NO_LINK


@entry
def advance(table: Integers, steps: int) -> Any:
    """Take up to `steps` steps, but not beyond the last one; return a status."""
    w = Fields(*_unpack(table))
    c = w.count
    end = min(c[LAST], c[STEP] + steps)
    if c[STEP] == 0:
        _receive(w)
    while c[STEP] < end:
        c[STEP] += 1
        status = _step(w)
        if status != FINE:
            return status
        while c[SAMPLE] < c[SAMPLES] and w.samples[c[SAMPLE]] <= c[STEP]:
            _write(w, c[SAMPLE], w.samples[c[SAMPLE]] - c[STEP] + 1.0)
            c[SAMPLE] += 1
    return FINE


_LAWS = ("router_law", "source_law", "announce_law", "priority_law")


def likeness(problem: Problem) -> Hashable:
    """Return a key that is equal for problems that `run_alike` can take together: all but parameters and rates.

    Parameters
    ----------
    problem : Problem
    """
    protocol, samples, params = problem.protocol, problem.samples, param_record(problem.protocol)
    laws = tuple(getattr(protocol, name) for name in _LAWS)
    return (
        type(protocol),
        laws,
        protocol.scaling_rtt,
        protocol.combine,
        params.dtype,
        float(params["interval"][0]),
        id(problem.fluid),
        len(samples),
        samples[-1],
        id(problem.delays),
        problem.records,
    )


def run(problem: Problem) -> Result:
    """Run the recurrence of a network.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    Result
    """
    return run_alike([problem])[0]


def run_alike(problems: Sequence[Problem]) -> list[Result]:
    """Run recurrences that differ in parameters and initial rates; setting them up together saves work.

    Parameters
    ----------
    problems : sequence of Problem
        Problems with the same `likeness`.
    """
    setup = setup_of(problems)
    of_each, of_all = _arrays_of_each(setup), _arrays_of_all(setup)
    w = Fields(**{name: np.ascontiguousarray(array) for name, array in {**of_each, **of_all}.items()})
    for k, array in enumerate(w):
        assert array.dtype == (np.float64 if k < _FLOATS else np.int64), Fields._fields[k]
    strides = [array.strides[0] if name in of_each else 0 for name, array in zip(Fields._fields, w, strict=True)]
    n_problems = len(problems)
    tables = np.array([array.ctypes.data for array in w]) + np.arange(n_problems)[:, None] * strides
    recorded = _Recorded(*np.zeros((2, n_problems, len(setup.samples), 0)))
    if problems[0].records:
        n_samples, fluid = len(setup.samples), setup.fluid
        recorded = _Recorded(setup.zeros(n_samples, fluid.n_groups), setup.zeros(n_samples, fluid.n_links))
    statuses = [_run_to_end(setup, w, table, k, recorded) for k, table in enumerate(tables)]
    return _results(setup, w, statuses, recorded)


@dataclass(frozen=True)
class Setup:
    """Problems that run together: what they share, and their initial conditions.

    P crossings: a group and a link of its route.
    """

    problems: Sequence[Problem]
    laws: CompiledLaws
    initial: Sequence[InitialConditions]
    interval: float  # [s]
    links: IntArray  # (P,)
    owner: IntArray  # (P,): group
    around: IntArray  # (n_groups,): steps of a round trip
    ahead: IntArray  # (period, P): steps from the source to the link
    back: IntArray  # (period, P): steps from the link to the source
    samples: FloatArray  # (n_samples,): ends of samples, in steps
    waiting: FloatArray  # (n_problems, n_links): waiting time of the first departures, in steps

    @property
    def fluid(self) -> FluidNetwork:
        """The network of all problems."""
        return self.problems[0].fluid

    @cached_property
    def ring_size(self) -> int:
        """Number of steps in the rings of histories, a power of two."""
        return 1 << int(self.ahead.max() + self.back.max() + 2).bit_length()

    @property
    def memory(self) -> int:
        """Number of steps with arrivals that a queue keeps."""
        steps = float(self.problems[0].samples[-1]) / self.interval
        return min(_MEMORY, ceil(steps + float(self.waiting.max())) + 2)

    @property
    def looks_back(self) -> bool:
        """Whether the source law takes the rate of one RTT ago."""
        return self.laws.takes("source", "x_rtt")

    def each(self, name: str) -> NDArray[Any]:
        """Return a field of the initial conditions, shape (n_problems, ...)."""
        return np.array([getattr(conditions, name) for conditions in self.initial])

    def zeros(self, *shape: int) -> FloatArray:
        """Return zeros of shape (n_problems, *shape)."""
        return np.zeros((len(self.problems), *shape))

    def ring(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a history of constant values, shape (n_problems, ring_size, ...), from shape (n_problems, ...)."""
        return np.repeat(values[:, None], self.ring_size, axis=1)

    def steps(self, times: FloatArray) -> IntArray:
        """Return times in steps, rounded up; infinite ones as -NEVER or NEVER."""
        finite = np.isfinite(times)
        steps = np.ceil(np.where(finite, times, 0.0) / self.interval - 1e-9)
        return np.where(finite, steps, np.where(times > 0.0, NEVER, -NEVER)).astype(np.int64)


class _Recorded(NamedTuple):
    """Recorded states at the ends of samples, of no columns if none are recorded."""

    rates: FloatArray  # (n_problems, n_samples, n_groups)
    states: FloatArray  # (n_problems, n_samples, n_links)


def setup_of(problems: Sequence[Problem]) -> Setup:
    """Return the setup of problems with the same `likeness`.

    Parameters
    ----------
    problems : sequence of Problem
    """
    from ecc.loops.closed_loop import steps_of

    first = problems[0]
    protocol, fluid, samples = first.protocol, first.fluid, first.samples
    laws = CompiledLaws(protocol, shared=first.shared, checked=False)
    initial = [
        InitialConditions.of(problem.protocol, laws, fluid, problem.point, problem.factor) for problem in problems
    ]
    T = float(protocol.params()["interval"])
    owner = np.repeat(np.arange(fluid.n_groups), [len(route) for route in fluid.routes])
    around = np.array([steps_of(rtt, T) for rtt in fluid.rtt])
    ahead = np.minimum(np.ceil(np.concatenate(fluid.forward) / T - 1e-9).astype(np.int64), around[owner] - 1)[None]
    back = around[owner] - ahead
    if first.delays is not None:
        ahead, back = first.delays.ahead, first.delays.back
    ends = samples / T
    ends = np.where(np.abs(ends - np.round(ends)) < 1e-9 * np.maximum(1.0, ends), np.round(ends), ends)
    queue = np.array([conditions.queue for conditions in initial])
    waiting = queue / (fluid.capacity * T)  # at equilibrium a queue has arrivals at capacity
    links = np.concatenate(fluid.routes).astype(np.int64)
    return Setup(problems, laws, initial, T, links, owner, around, ahead, back, ends, waiting)


def _counts(setup: Setup) -> IntArray:
    """Return `Fields.count` of each problem before the first step."""
    protocol, laws, fluid = setup.problems[0].protocol, setup.laws, setup.fluid
    counts = np.zeros((len(setup.problems), COUNTS), dtype=np.int64)
    counts[:, LAST] = ceil(setup.samples[-1])
    counts[:, [SAMPLES, LINKS, GROUPS]] = len(setup.samples), fluid.n_links, fluid.n_groups
    counts[:, SIGNALS] = len(setup.initial[0].advertised)
    counts[:, [ROUTER, SOURCE, ANNOUNCE, PRIORITY]] = laws.router, laws.source, laws.announce, laws.priority
    counts[:, [REMEMBERS, BY_FLOW]] = laws.remembers, laws.by_flow
    counts[:, LONGEST] = protocol.scaling_rtt == "max"
    counts[:, COMBINE] = ("min", "max", "sum").index(protocol.combine)
    counts[:, [MASK, MEMORY]] = setup.ring_size - 1, setup.memory
    counts[:, [SOURCES, SIGNAL_LAW, LOOKS_BACK]] = *laws.blocks(), setup.looks_back
    period = len(setup.ahead)
    counts[:, [PERIOD, SINGLE]] = period, len(setup.links) == fluid.n_groups and period == 1
    counts[:, WAITED] = np.where(setup.waiting.any(axis=1), 0, -NEVER)
    return counts


def _arrays_of_each(setup: Setup) -> dict[str, Any]:
    """Return the fields that differ between problems, name -> array (n_problems, ...)."""
    problems, fluid, T, zeros, each, ring = (
        setup.problems,
        setup.fluid,
        setup.interval,
        setup.zeros,
        setup.each,
        setup.ring,
    )
    B, L, G, n_samples = len(problems), fluid.n_links, fluid.n_groups, len(setup.samples)
    x, queue = each("x"), each("queue")
    opens = setup.steps(each("opens"))
    sending = np.isneginf(each("opens"))
    groups_padded = -(-G // LANES) * LANES
    block = zeros(groups_padded // LANES, BLOCK)
    block[:, :, _T] = T
    block[:, :, _XS : _XS + LANES] = np.pad(x, ((0, 0), (0, groups_padded - G))).reshape(B, -1, LANES)
    record = zeros(len(ARGUMENTS))
    record[:, _T] = T
    rtt = setup.around * T
    floor = np.array([fluid.floor(problem.protocol) for problem in problems])
    return {
        "record": record,
        "block": block,
        "signal_block": zeros(BLOCK),
        "params": np.array([param_values(param_record(problem.protocol)) for problem in problems]),
        "lowest": each("lowest"),
        "highest": each("highest"),
        "state": each("state"),
        "advertised": ring(each("advertised")),
        "queue": queue,
        "peak": queue.copy(),
        "remaining": setup.waiting % 1.0 * fluid.capacity * T,
        "priority": ring(each("priority")) if setup.laws.priority else zeros(0),
        "wait": ring(setup.waiting * T),
        **{
            name: zeros(L)
            for name in (
                "before",
                "weighted",
                "idle",
                "loss",
                "arrived",
                "dropped",
                "mean",
                "bottlenecked",
                "crossing",
                "other",
            )
        },
        "arrival": each("measured")[:, 0].copy(),
        "floor": floor,
        "total": zeros(G),
        "delivered": zeros(G),
        "lost": zeros(G),
        "finished": np.full((B, G), np.nan),
        "x": ring(x) if setup.looks_back else zeros(0),
        "sent": ring(np.where(sending, x, 0.0)),
        "floor_rate": floor / rtt,
        "carried": ring(rtt + each("rtt") - fluid.rtt),
        "reaching": zeros(len(setup.links)),
        "out_links": zeros(n_samples, 4, L),
        "out_groups": zeros(n_samples, 4, G),
        "count": _counts(setup),
        "bottleneck": ring(np.where(sending, each("bottleneck"), NOT_STARTED)),
        "opens": opens,
        "selected": np.full((B, G), NO_LINK),
        "advertises_from": np.where(each("measures_first")[:, None], NEVER, np.full(L, -NEVER)),
        "stops": np.repeat(setup.steps(fluid.stop)[None], B, axis=0),
        "responds_after": np.where(each("announces_first")[:, None], -NEVER, opens),
        "head": -np.floor(setup.waiting).astype(np.int64),
    }


def _arrays_of_all(setup: Setup) -> dict[str, Any]:
    """Return the fields that all problems share, by name."""
    fluid, links = setup.fluid, setup.links
    return {
        "capacity": fluid.capacity,
        "buffer": fluid.buffer,
        "rtt": setup.around * setup.interval,
        "members": fluid.members,
        "size": fluid.size,
        "volume": np.empty((fluid.n_links, setup.memory)),
        "samples": setup.samples,
        "owner": setup.owner,
        "crossing_link": links,
        "crossings": np.cumsum([0, *map(len, fluid.routes)]),
        "through": np.argsort(links, kind="stable"),
        "ahead": setup.ahead,
        "back": setup.back,
        "first": np.concatenate([[0], np.cumsum(np.bincount(links, minlength=fluid.n_links))]),
        "responds": np.concatenate(fluid.responds).astype(np.int64),
        "signal": setup.initial[0].signal,
    }


def _run_to_end(setup: Setup, w: Fields, table: IntArray, k: int, recorded: _Recorded) -> int:
    """Take all steps of problem k, and record its states at the ends of samples; return a status."""
    problem, counters = setup.problems[k], w.count[k]
    status, slices = FINE, turns(_SLICE)
    w.volume[:] = setup.fluid.capacity[:, None] * setup.interval
    try:
        while status == FINE and counters[STEP] < counters[LAST]:
            row = int(counters[SAMPLE])
            until_sample = int(np.ceil(setup.samples[row])) - int(counters[STEP]) if problem.records else _SLICE
            status = int(advance(table, min(next(slices), until_sample)))
            if problem.records:
                rates = w.block[k, :, _XS : _XS + LANES].ravel()[: setup.fluid.n_groups]
                recorded.rates[k, row : counters[SAMPLE]] = rates
                recorded.states[k, row : counters[SAMPLE]] = w.state[k]
            problem.progress(float(counters[STEP] / counters[LAST]))
    except KeyboardInterrupt:
        status = INTERRUPTED
    return status


def _results(setup: Setup, w: Fields, statuses: Sequence[int], recorded: _Recorded) -> list[Result]:
    """Return the result of each problem after its last step."""
    T = setup.interval
    finals = np.stack([w.total, w.delivered, w.lost, w.finished], axis=1)
    series = series_of(setup, w.out_links, w.out_groups, finals)
    results = []
    for k, status in enumerate(statuses):
        rows, taken = int(w.count[k, SAMPLE]), int(w.count[k, STEP])
        results.append(
            Result(
                time=setup.problems[0].samples[:rows],
                **{name: values[k] if name in TOTALS else values[k, :rows] for name, values in series.items()},
                stats={"steps": taken, "rejected": 0},
                stopped=_stop_reason(status, taken * T),
                recorded={"flow.x": recorded.rates[k, :rows], "link.R": recorded.states[k, :rows]},
            )
        )
    return results


def series_of(setup: Setup, links: FloatArray, groups: FloatArray, finals: FloatArray) -> dict[str, Any]:
    """Return the series and sums of results, name -> array (n_problems, ...).

    Parameters
    ----------
    setup : Setup
    links : ndarray, shape (n_problems, n_samples, 4, n_links)
        Cumulative arrived and dropped, queue, peak at the ends of samples.
    groups : ndarray, shape (n_problems, n_samples, 4, n_groups)
        Cumulative sent, delivered and lost, and the bottleneck.
    finals : ndarray, shape (n_problems, 4, n_groups)
        Sent, delivered and lost in the end, and the step in which all of a group's size was sent.
    """
    widths = np.diff(setup.problems[0].samples, prepend=0.0)[:, None]
    link_sums = np.diff(links[:, :, :2], axis=1, prepend=0.0)
    group_sums = np.diff(groups[:, :, :3], axis=1, prepend=0.0)
    finished = finals[:, 3]
    return {
        "rate": group_sums[:, :, 0] / widths,
        "goodput": group_sums[:, :, 1] / widths,
        "bottleneck": groups[:, :, 3].astype(np.int64),
        "queue": links[:, :, 2],
        "queue_max": links[:, :, 3],
        "arrival": link_sums[:, :, 0] / widths,
        "drops": link_sums[:, :, 1],
        "sent": finals[:, 0],
        "delivered": finals[:, 1],
        "lost": finals[:, 2],
        "stopped_at": np.where(np.isfinite(finished), finished * setup.interval, setup.fluid.stop),
    }


def _stop_reason(status: int, now: float) -> str:
    """Return the reason why a run ended, in the words of a trajectory."""
    return {
        FINE: "completed",
        LAW_FAILED: f"a law failed at t = {now:.9g} s",
        NOT_FINITE: f"a rate is no longer finite at t = {now:.9g} s",
        TOO_LONG: f"a queue takes more than {_MEMORY} steps to drain at t = {now:.9g} s",
        INTERRUPTED: "interrupted",
    }[status]
