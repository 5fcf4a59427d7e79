"""The right-hand side of a network of fluids, compiled: laws by address, all other data in two flat arrays.

State: R of routers (links, if the router law has memory), their measurements (five numbers a link, if a law is called
as a header is stamped: averages, or, if `instant`, integrals of present values), queues, cumulative arrivals and drops
(links), x (groups, if the source law has memory) and other states of hosts (groups, state by state); then, without a
stored history, cumulative sent, delivered and lost (groups). Rates are bit/s, queues and sums bits.

Fluid keeps its order in queues: departures from link l at time u had entered it at e, with e + q_l(e)/C_l = u. Walking
back along a path from queue to queue gives the time at which the data that arrive now were sent, and the feedback that
a header read on its way, as it left a queue or, if `early`, as it arrived there.
"""

from __future__ import annotations

from typing import Any

from ecc.fluid.compiled import call, compiled, entry_point, shifted
from ecc.fluid.dde.history_and_step import (
    EPS,
    INSIDE,
    NOW,
    OLDEST,
    REACH,
    RELATIVE,
    START,
    STEP,
    STORED,
    USABLE,
    fields_at,
    slope_at,
    value_at,
)
from ecc.fluid.network.laws import ARGUMENTS

inf, nan = float("inf"), float("nan")

__all__ = ["HEADER", "HINTS_PER_CROSSING", "N_PLACES", "network_rates", "ring_size", "signals_size"]

HEADER = (
    "table", "links", "groups", "remembers", "measures", "by_flow", "memory", "stepping", "lagged_arrivals",
    "lagged_feedback", "router", "source", "announce", "priority", "combine", "longest", "clock",
    "windows", "by_rtt", "per_flow", "counts_all", "early", "instant", "host_states", "states_law", "ahead",
    # arrays in the state
    "state", "measured", "queue", "arrived", "dropped", "source_state", "host", "sent", "delivered", "lost",
    # arrays in numbers
    "begins", "capacity", "known_capacity", "level",
    "interval", "opens", "stops", "floor", "members", "packet", "wire", "forward", "backward",
    "steady", "min_count", "reaches", "survives", "acks_kept", "router_floor",
    "record", "params", "arrival", "before", "weighted", "responsive", "other", "bottlenecked", "crossing",
    "loss", "share", "reads", "failed", "measured_before",
    "round_trip", "bottleneck", "advertises_from", "left_at", "known_for", "known", "signals", "values", "pieces",
    # arrays in indices
    "crossings", "crossing_link", "responds", "changes",
)  # fmt: skip
"""Meaning of the first indices: integers, then the positions of the first elements of arrays in the two flat arrays."""

(
    TABLE,
    LINKS,
    GROUPS,
    REMEMBERS,
    MEASURES,
    BY_FLOW,
    MEMORY,
    STEPPING,
    LAGGED_ARRIVALS,
    LAGGED_FEEDBACK,
    ROUTER,
    SOURCE,
    ANNOUNCE,
    PRIORITY,
    COMBINE,
    LONGEST,
    CLOCK,
    WINDOWS,
    BY_RTT,
    PER_FLOW,
    COUNTS_ALL,
    EARLY,
    INSTANT,
    HOST_STATES,
    STATES_LAW,
    AHEAD,
    STATE,
    MEASURED,
    QUEUE,
    ARRIVED,
    DROPPED,
    SOURCE_STATE,
    HOST,
    SENT,
    DELIVERED,
    LOST,
    BEGINS,
    CAPACITY,
    KNOWN_CAPACITY,
    LEVEL,
    INTERVAL,
    OPENS,
    STOPS,
    FLOOR,
    MEMBERS,
    PACKET,
    WIRE,
    FORWARD,
    BACKWARD,
    STEADY,
    MIN_COUNT,
    REACHES,
    SURVIVES,
    ACKS_KEPT,
    ROUTER_FLOOR,
    RECORD,
    PARAMS,
    ARRIVAL,
    BEFORE,
    WEIGHTED,
    RESPONSIVE,
    OTHER,
    BOTTLENECKED,
    CROSSING,
    LOSS,
    SHARE,
    READS,
    FAILED,
    MEASURED_BEFORE,
    ROUND_TRIP,
    BOTTLENECK,
    ADVERTISES_FROM,
    LEFT_AT,
    KNOWN_FOR,
    KNOWN,
    SIGNALS,
    VALUES,
    PIECES,
    CROSSINGS,
    CROSSING_LINK,
    RESPONDS,
    CHANGES,
) = range(len(HEADER))

MINIMUM, MAXIMUM, SUM = range(3)
ROUTER_FAILED, SOURCE_FAILED, STATE_FAILED = 1.0, 2.0, 3.0
EACH_INTERVAL, EACH_ACK, EACH_RTT, AT_ALL_TIMES, CONTINUOUS = range(5)
(
    _R,
    _Y,
    _Y_PREV,
    _U,
    _N,
    _N_ALL,
    _Q,
    _C,
    _D,
    _T,
    _X,
    _X_RTT,
    _R_PREV,
    _OWN_RTT,
    _S,
    _RESULT,
) = range(len(ARGUMENTS))
# purposes of looking back: each has separate hints at every crossing
_ARRIVING, _EARLIER, _RECEIVED, _SOURCE, _ACKED, _ROUND = 0, 4, 8, 12, 16, 20
_PATH, _FEEDBACK, _FEEDBACK_BEFORE, _RATE = range(4)
_ROUNDING = 1e-9  # relative error of the rate from a busy link, which must start no queue at another of equal capacity
_EMPTY = 1.0  # bit: a smaller queue counts as empty for that purpose
_FAR = 21  # offset of the hints for times of entering a queue, which are far from those of leaving
HINTS_PER_CROSSING = 2 * _FAR


@compiled
def _change(t: float, link: int, numbers: Any, indices: Any) -> Any:
    """Return the index of a link's last change of capacity by time t; before 0 s, of the first."""
    k, following = indices[indices[CHANGES] + link], indices[indices[CHANGES] + link + 1]
    while k + 1 < following and numbers[indices[BEGINS] + k + 1] <= t:
        k += 1
    return k


@compiled
def _entered(w: Any, y: Any, u: float, link: int, slot: int, numbers: Any, indices: Any) -> Any:
    """Return the time at which the data that leave a link at u entered its queue.

    The queue that they met is the service of the link in between.
    """
    i = indices[QUEUE] + link
    queue = value_at(w, y, i, u, slot)
    if queue <= 0.0:
        return u
    begins, capacity, levels = indices[BEGINS], indices[CAPACITY], indices[LEVEL]
    k = _change(u, link, numbers, indices)
    start = w.clock[START]
    level = numbers[levels + k] + numbers[capacity + k] * (u - numbers[begins + k])
    first = indices[indices[CHANGES] + link]
    if w.past[i] >= level:
        return start - (w.past[i] - level) / numbers[capacity + first]
    if w.count[USABLE] == 0:
        return max(start, u - queue / numbers[capacity + k]) if numbers[capacity + k] > 0.0 else u
    n5 = 5 * w.count[STORED]
    c = w.curve
    far = slot + _FAR * indices[indices[CROSSINGS] + indices[GROUPS]]
    j = min(w.hint[far], w.count[USABLE] - 1)
    while j > 0 and _level(w.begun[j], link, numbers, indices) + c[j * n5 + 5 * i] > level:
        j -= 1
    while j + 1 < w.count[USABLE] and _level(w.begun[j + 1], link, numbers, indices) + c[(j + 1) * n5 + 5 * i] <= level:
        j += 1
    w.hint[far] = j
    at = j * n5 + 5 * i
    begun, width = w.begun[j], w.width[j]
    w.clock[OLDEST] = min(w.clock[OLDEST], begun)
    k = _change(begun + 0.5 * width, link, numbers, indices)
    C = numbers[capacity + k]
    level -= numbers[levels + k] + C * (begun - numbers[begins + k])
    low, high = 0.0, (u - begun) / width
    if j + 1 < w.count[USABLE]:
        high = min(high, 1.0)
    entries = C * width + c[at + 1] + c[at + 2] + c[at + 3] + c[at + 4]  # in the whole segment
    theta = min(max((level - c[at]) / entries, low), high) if entries > 0.0 else high
    for _ in range(60):
        value = c[at] + theta * (c[at + 1] + theta * (c[at + 2] + theta * (c[at + 3] + theta * c[at + 4])))
        slope = c[at + 1] + theta * (2.0 * c[at + 2] + theta * (3.0 * c[at + 3] + theta * 4.0 * c[at + 4]))
        excess = C * theta * width + value - level
        if abs(excess) <= 2.0 * EPS * (abs(value) + abs(level)):  # rounding; shorter steps of theta would not end
            break
        if excess > 0.0:
            high = theta
        else:
            low = theta
        rise = C * width + slope
        following = theta - excess / rise if rise > 0.0 else 0.5 * (low + high)
        if not (following > low and following < high):
            following = 0.5 * (low + high)
        if abs(following - theta) <= 1e-14 * (1.0 + abs(theta)):
            break
        theta = following
    return begun + theta * width


@compiled
def _level(t: float, link: int, numbers: Any, indices: Any) -> Any:
    """Return the maximum service of a link since 0 s, in bits."""
    k = _change(t, link, numbers, indices)
    return numbers[indices[LEVEL] + k] + numbers[indices[CAPACITY] + k] * (t - numbers[indices[BEGINS] + k])


@compiled
def _passed(w: Any, e: float, u: float, link: int, slot: int, numbers: Any, indices: Any) -> Any:
    """Return the ratio of the rate at which fluid leaves a link at u to the rate at which it entered at e."""
    if e >= u:
        return 1.0
    far = slot + _FAR * indices[indices[CROSSINGS] + indices[GROUPS]]
    C = numbers[indices[CAPACITY] + _change(u, link, numbers, indices)]
    before = numbers[indices[CAPACITY] + _change(e, link, numbers, indices)]
    swelling = before + slope_at(w, indices[QUEUE] + link, e, far)
    return _accepted_share(w, e, link, far, indices) * C / max(swelling, 1e-9 * C) if C > 0.0 else 0.0


@compiled
def _accepted_share(w: Any, e: float, link: int, slot: int, indices: Any) -> Any:
    """Return the share of the arrivals at a queue at e that it accepted."""
    dropped = slope_at(w, indices[DROPPED] + link, e, slot)
    if dropped <= 0.0:
        return 1.0
    return max(0.0, 1.0 - dropped / slope_at(w, indices[ARRIVED] + link, e, slot))


@compiled
def _back_to_sender(
    w: Any, y: Any, v: float, group: int, crossing: int, purpose: int, numbers: Any, indices: Any
) -> Any:
    """Return the time at which arrivals at the queue of a crossing at v were sent, and the ratio of the two rates."""
    first = indices[indices[CROSSINGS] + group]
    total = indices[indices[CROSSINGS] + indices[GROUPS]]
    forward = indices[FORWARD]
    share = 1.0
    p = crossing
    while p > first:
        u = v - (numbers[forward + p] - numbers[forward + p - 1])
        p -= 1
        link = indices[indices[CROSSING_LINK] + p]
        slot = purpose * total + p
        v = _entered(w, y, u, link, slot, numbers, indices)
        share *= _passed(w, v, u, link, slot, numbers, indices)
    return v - numbers[forward + first], share


@compiled
def _fail(kind: float, which: int, status: int, numbers: Any, indices: Any) -> None:
    """Record the first law that failed in this evaluation; status 0: its result is not finite."""
    failed = indices[FAILED]
    if numbers[failed] == 0.0 or status != 0:
        numbers[failed], numbers[failed + 1], numbers[failed + 2] = kind, which, status


@compiled
def _call_router_law(law: int, u: float, link: int, R: float, x: float, numbers: Any, indices: Any) -> Any:
    """Call a law of a router at u; return a status.

    The other arguments must be in the record, which also takes the result.
    """
    record = indices[RECORD]
    numbers[record + _R] = R
    numbers[record + _X] = x
    numbers[record + _C] = numbers[indices[KNOWN_CAPACITY] + _change(u, link, numbers, indices)]
    numbers[record + _T] = numbers[indices[INTERVAL]]
    min_count = numbers[indices[MIN_COUNT] + link]
    numbers[record + _U] *= min(1.0, numbers[record + _N] / min_count)
    numbers[record + _N] = max(min_count, numbers[record + _N])
    numbers[record + _N_ALL] = max(min_count, numbers[record + _N_ALL])
    pointer = shifted(numbers, record)
    status = call(law, (pointer, pointer, shifted(numbers, indices[PARAMS]), pointer))
    if status != 0 or not abs(numbers[record + _RESULT]) < inf:
        _fail(ROUTER_FAILED, link, status, numbers, indices)
    return status


@compiled
def _present(u: float, link: int, numbers: Any, indices: Any) -> Any:
    """Return the number of flows with packets that arrive at a link at u, if those of new flows wait nowhere."""
    n_flows = 0.0
    for g in range(indices[GROUPS]):
        for p in range(indices[indices[CROSSINGS] + g], indices[indices[CROSSINGS] + g + 1]):
            sent = u - numbers[indices[FORWARD] + p]
            if indices[indices[CROSSING_LINK] + p] == link and numbers[indices[STEADY] + g] == 0.0:
                if sent >= numbers[indices[OPENS] + g] and sent < numbers[indices[STOPS] + g]:
                    n_flows += numbers[indices[MEMBERS] + g]
    return n_flows


@compiled
def _measured(w: Any, y: Any, u: float, link: int, row: int, slot: int, numbers: Any, indices: Any) -> Any:
    """Return a measurement of a router at u: its average, or, if `instant`, its value, the slope of its integral."""
    offset = row * indices[LINKS] + link
    if indices[INSTANT] == 0:
        return value_at(w, y, indices[MEASURED] + offset, u, slot)
    if u <= w.clock[START]:
        return numbers[indices[MEASURED_BEFORE] + offset]
    return slope_at(w, indices[MEASURED] + offset, u, slot)


@compiled
def _advertised(w: Any, y: Any, u: float, link: int, x: float, slot: int, numbers: Any, indices: Any) -> Any:
    """Return (status, feedback, priority) that a link stamps at u into the header of a flow at rate x."""
    R = value_at(w, y, indices[STATE] + link, u, slot) if indices[REMEMBERS] != 0 else 0.0
    if indices[MEASURES] == 0:
        return 0, R, 0.0
    record = indices[RECORD]
    numbers[record + _Y] = _measured(w, y, u, link, 0, slot, numbers, indices)
    if numbers[record + _Y] <= 0.0:
        return 0, 0.0, -inf
    numbers[record + _U] = _measured(w, y, u, link, 1, slot, numbers, indices)
    numbers[record + _N] = _measured(w, y, u, link, 2, slot, numbers, indices)
    numbers[record + _N_ALL] = _measured(w, y, u, link, 3, slot, numbers, indices)
    if indices[COUNTS_ALL] != 0:  # count new flows at once, so that shares do not exceed the capacity
        numbers[record + _N_ALL] = max(numbers[record + _N_ALL], _present(u, link, numbers, indices))
    numbers[record + _D] = _measured(w, y, u, link, 4, slot, numbers, indices)
    numbers[record + _Q] = max(0.0, value_at(w, y, indices[QUEUE] + link, u, slot))
    numbers[record + _Y_PREV] = numbers[record + _Y]
    priority = 0.0
    if indices[PRIORITY] != 0:
        status = _call_router_law(indices[PRIORITY], u, link, R, x, numbers, indices)
        if status != 0:
            return status, 0.0, 0.0
        priority = numbers[record + _RESULT]
    if indices[ANNOUNCE] == 0 and indices[REMEMBERS] != 0:
        return 0, R, priority
    law = indices[ANNOUNCE] if indices[ANNOUNCE] != 0 else indices[ROUTER]
    status = _call_router_law(law, u, link, R, x, numbers, indices)
    return status, numbers[record + _RESULT], priority


@compiled
def _received(
    w: Any, y: Any, sigma: float, group: int, purpose: int, wants_rtt: bool, numbers: Any, indices: Any
) -> Any:
    """Return (status, feedback of the path, crossing that gave it or -1, RTT) for a sender at a time.

    The RTT is 0 if it is not wanted and the feedback does not depend on it.
    """
    first, last = indices[indices[CROSSINGS] + group], indices[indices[CROSSINGS] + group + 1] - 1
    total = indices[indices[CROSSINGS] + indices[GROUPS]]
    how = indices[COMBINE]
    forward, left_at = indices[FORWARD], indices[LEFT_AT]
    u = sigma - numbers[indices[BACKWARD] + last]
    sent = u
    for p in range(last, first - 1, -1):
        link = indices[indices[CROSSING_LINK] + p]
        k = _change(u, link, numbers, indices)
        if numbers[indices[CAPACITY] + k] == 0.0:  # nothing has left since the outage began
            u = numbers[indices[BEGINS] + k]
        if p == first and not (wants_rtt or indices[EARLY] != 0 or indices[BY_FLOW] != 0):
            numbers[left_at + p] = u
            sent = sigma
            continue
        e = _entered(w, y, u, link, purpose * total + p, numbers, indices)
        numbers[left_at + p] = u if indices[EARLY] == 0 else e
        if p > first:
            u = e - (numbers[forward + p] - numbers[forward + p - 1])
        else:
            sent = e - numbers[forward + p]
    x = 0.0
    if indices[BY_FLOW] != 0:
        x = value_at(w, y, indices[SOURCE_STATE] + group, sent, purpose * total + first)
        if indices[WINDOWS] != 0:
            x /= sigma - sent
    best, which, rank = 0.0, -1, -inf
    for p in range(last, first - 1, -1):
        link = indices[indices[CROSSING_LINK] + p]
        u = numbers[left_at + p]
        if indices[indices[RESPONDS] + p] == 0 or u < numbers[indices[ADVERTISES_FROM] + p]:
            continue
        status, value, urgency = _advertised(w, y, u, link, x, purpose * total + p, numbers, indices)
        if status != 0:
            return status, 0.0, -1, 0.0
        if urgency == -inf:
            continue
        if which < 0:
            best, which, rank = value, p, urgency
        elif how == SUM:
            best += value
        elif urgency > rank or (
            urgency == rank and ((how == MINIMUM and value <= best) or (how == MAXIMUM and value >= best))
        ):
            best, which, rank = value, p, urgency
    return 0, best, which, sigma - sent


@compiled
def _source(
    group: int, numbers: Any, indices: Any, x: float, x_rtt: float, R: float, R_prev: float, rtt: float, received: bool
) -> Any:
    """Return (status, rate by the source law).

    `received`: R is feedback of a link. If not, R is 0, for which a law may return -inf.
    """
    record = indices[RECORD]
    numbers[record + _OWN_RTT] = rtt
    numbers[record + _T] = numbers[indices[INTERVAL]]
    numbers[record + _X] = x
    numbers[record + _X_RTT] = x_rtt
    numbers[record + _R] = R
    numbers[record + _R_PREV] = R_prev
    numbers[record + _S] = numbers[indices[PACKET] + group]
    pointer = shifted(numbers, record)
    status = call(indices[SOURCE], (pointer, pointer, shifted(numbers, indices[PARAMS]), pointer))
    rate = numbers[record + _RESULT]
    if status != 0 or not rate < inf or (received and rate == -inf):
        _fail(SOURCE_FAILED, group, status, numbers, indices)
    return status, rate


@compiled
def _sent(w: Any, y: Any, sigma: float, group: int, crossing: int, purpose: int, numbers: Any, indices: Any) -> Any:
    """Return (status, rate, last RTT, crossing that is its bottleneck, feedback) of a flow of a group at a time."""
    open_now = sigma >= numbers[indices[OPENS] + group] and sigma < numbers[indices[STOPS] + group]
    steady = numbers[indices[STEADY] + group]
    if steady > 0.0:
        rate = steady if open_now else 0.0
        return 0, rate, numbers[indices[ROUND_TRIP] + group], -1, 0.0
    status, R, which, rtt = _received(w, y, sigma, group, purpose + _FEEDBACK, True, numbers, indices)
    if status != 0 or not open_now:
        return status, 0.0, rtt, which, R
    total = indices[indices[CROSSINGS] + indices[GROUPS]]
    floor = numbers[indices[FLOOR] + group] / rtt
    slot = (purpose + _RATE) * total + crossing
    if indices[MEMORY] != 0:
        rate = value_at(w, y, indices[SOURCE_STATE] + group, sigma, slot)
        if indices[WINDOWS] != 0:
            rate /= rtt
        return 0, max(floor, rate), rtt, which, R
    R_prev = R
    if indices[LAGGED_FEEDBACK] != 0:
        earlier = sigma - numbers[indices[INTERVAL]]
        status, R_prev, _, _ = _received(w, y, earlier, group, purpose + _FEEDBACK_BEFORE, False, numbers, indices)
        if status != 0:
            return status, 0.0, rtt, which, R
    status, rate = _source(group, numbers, indices, 0.0, 0.0, R, R_prev, rtt, which >= 0)
    return status, max(floor, rate), rtt, which, R


@compiled
def _sending_rate(
    w: Any, y: Any, sigma: float, group: int, crossing: int, purpose: int, numbers: Any, indices: Any
) -> Any:
    """Return (status, rate) of a flow of a group at a time; without its RTT if the rate exceeds the minimum anyway."""
    last = indices[indices[CROSSINGS] + group + 1] - 1
    if numbers[indices[STEADY] + group] <= 0.0 and indices[MEMORY] > indices[WINDOWS] + indices[MEASURES]:
        if not (sigma >= numbers[indices[OPENS] + group] and sigma < numbers[indices[STOPS] + group]):
            return 0, 0.0
        slot = (purpose + _RATE) * indices[indices[CROSSINGS] + indices[GROUPS]] + crossing
        rate = value_at(w, y, indices[SOURCE_STATE] + group, sigma, slot)
        shortest_rtt = numbers[indices[FORWARD] + last] + numbers[indices[BACKWARD] + last]
        floor = numbers[indices[FLOOR] + group]
        if floor <= 0.0 or rate * shortest_rtt > floor * (1.0 + 1e-9):
            return 0, max(0.0, rate)
    status, rate, _, _, _ = _sent(w, y, sigma, group, crossing, purpose, numbers, indices)
    return status, rate


@compiled
def _arriving(w: Any, y: Any, v: float, group: int, purpose: int, numbers: Any, indices: Any) -> Any:
    """Return (status, rate) at which the data of a flow of a group leave its last queue at a time."""
    first, last = indices[indices[CROSSINGS] + group], indices[indices[CROSSINGS] + group + 1] - 1
    link = indices[indices[CROSSING_LINK] + last]
    slot = purpose * indices[indices[CROSSINGS] + indices[GROUPS]] + last
    e = _entered(w, y, v, link, slot, numbers, indices)
    part = _passed(w, e, v, link, slot, numbers, indices)
    sigma, passed = _back_to_sender(w, y, e, group, last, purpose, numbers, indices)
    status, rate = _sending_rate(w, y, sigma, group, first, purpose, numbers, indices)
    return status, rate * part * passed


@compiled
def _arrival(w: Any, y: Any, t: float, g: int, p: int, numbers: Any, indices: Any) -> Any:
    """Return (status, arrival rate of a flow at a crossing, RTT, crossing that is its bottleneck, earlier arrivals).

    The earlier arrivals are those of all flows of the group one interval ago, 0 if no law reads them.
    """
    reaches, earlier = numbers[indices[REACHES] + p], 0.0
    sigma, part = _back_to_sender(w, y, t, g, p, _ARRIVING, numbers, indices)
    status, rate, rtt, which, _ = _sent(w, y, sigma, g, p, _ARRIVING, numbers, indices)
    if status == 0 and indices[LAGGED_ARRIVALS] != 0:
        sigma, passed = _back_to_sender(w, y, t - numbers[indices[INTERVAL]], g, p, _EARLIER, numbers, indices)
        status, earlier = _sending_rate(w, y, sigma, g, p, _EARLIER, numbers, indices)
        earlier = numbers[indices[MEMBERS] + g] * earlier * passed * reaches
    return status, rate * (part * reaches), rtt, which, earlier


@compiled
def _update_time(w: Any, y: Any, t: float, group: int, rtt: float, numbers: Any, indices: Any) -> Any:
    """Return (status, seconds from one update of a source to the next), which depends on the spacing of ACKs.

    The first feedback makes one update, within T, an RTT before the ACKs of the data sent then.
    """
    T, clock = numbers[indices[INTERVAL]], indices[CLOCK]
    if clock == AT_ALL_TIMES or clock == CONTINUOUS or t < numbers[indices[OPENS] + group] + T:
        return 0, T
    last = indices[indices[CROSSINGS] + group + 1] - 1
    received = t - numbers[indices[BACKWARD] + last]
    status, acknowledged = _arriving(w, y, received, group, _ACKED, numbers, indices)
    acknowledged *= numbers[indices[ACKS_KEPT] + group]
    spacing = numbers[indices[PACKET] + group] / acknowledged if acknowledged > 0.0 else inf
    if clock == EACH_ACK:
        return status, spacing
    return status, max(spacing, rtt if clock == EACH_RTT else T)


@compiled
def _updated(w: Any, y: Any, t: float, g: int, R: float, rtt: float, numbers: Any, indices: Any) -> Any:
    """Return (status, rate after an update of a source that received the feedback R, rate before it, seconds for it).

    The seconds are inf without updates.
    """
    source_state, first = indices[SOURCE_STATE] + g, indices[indices[CROSSINGS] + g]
    total = indices[indices[CROSSINGS] + indices[GROUPS]]
    status, step = _update_time(w, y, t, g, rtt, numbers, indices)
    if status != 0 or step == inf:
        return status, 0.0, 0.0, inf
    R_prev = R
    if indices[LAGGED_FEEDBACK] != 0:
        status, earlier, which, _ = _received(w, y, t - step, g, _SOURCE + _FEEDBACK_BEFORE, False, numbers, indices)
        if status != 0:
            return status, 0.0, 0.0, inf
        if which >= 0:
            R_prev = earlier
    x = y[source_state]
    x_rtt = value_at(w, y, source_state, t - rtt, _ROUND * total + first)
    if indices[STEPPING] != 0 and indices[CLOCK] != CONTINUOUS:
        x = value_at(w, y, source_state, t - step, _SOURCE * total + first)
    if indices[WINDOWS] != 0:
        x, x_rtt = x / rtt, x_rtt / rtt
    record, states = indices[RECORD] + len(ARGUMENTS), indices[HOST] + g
    for k in range(indices[HOST_STATES]):
        numbers[record + k] = y[states + k * indices[GROUPS]]
    status, updated = _source(g, numbers, indices, x, x_rtt, R, R_prev, rtt, True)
    return status, updated, x, step


@compiled
def _update(
    w: Any,
    y: Any,
    t: float,
    g: int,
    received: bool,
    R: float,
    rtt: float,
    out: Any,
    numbers: Any,
    indices: Any,
) -> Any:
    """Write the derivatives of the states of a source, which has `received` the feedback R or none; return a status."""
    source_state, states, n_states = indices[SOURCE_STATE] + g, indices[HOST] + g, indices[HOST_STATES]
    out[source_state] = 0.0
    for k in range(n_states):
        out[states + k * indices[GROUPS]] = 0.0
    if not received or numbers[indices[STEADY] + g] > 0.0:
        return 0
    status, updated, x, step = _updated(w, y, t, g, R, rtt, numbers, indices)
    if status != 0 or step == inf:
        return status
    continuous, record = indices[CLOCK] == CONTINUOUS, indices[RECORD] + len(ARGUMENTS)
    if n_states > 0:
        pointer = shifted(numbers, indices[RECORD])
        status = call(indices[STATES_LAW], (pointer, pointer, shifted(numbers, indices[PARAMS]), pointer))
        if status != 0:
            _fail(STATE_FAILED, g, status, numbers, indices)
            return status
        for k in range(n_states):
            by_law = numbers[record + n_states + k]
            out[states + k * indices[GROUPS]] = by_law if continuous else (by_law - numbers[record + k]) / step
    out[source_state] = updated if continuous else (updated - x) / step * (rtt if indices[WINDOWS] != 0 else 1.0)
    return 0


# A flow is known ahead for as long as its shortest delay, because its signals depend on the past only. Then polynomials
# interpolate its signals, and several steps of the integration read them instead of its laws and the history. This is
# for rates that step from the rate of one update ago. Smooth signals: at each crossing the arrival rate, the RTT and
# earlier arrivals; at the source the derivative of the rate, the deliveries and the RTT. Signals that change in steps:
# at each crossing the bottleneck, and whether data arrives; at the source the bottleneck.
_AT_CROSSING, _AT_SOURCE, _STEPS_AT_CROSSING, _STEPS_AT_SOURCE = 3, 3, 2, 1
_PLACES = (-1.0, -(0.5**0.5), 0.0, 0.5**0.5, 1.0)  # places in [-1, 1] of the values that a piece interpolates
N_PLACES = len(_PLACES)
_RING = 4  # maximum number of pieces of a flow
_TRIAL, _UNTIL, _AT_STEP, _RING_HEADER = 2, 3, 4, 5  # after the number of pieces and the index of the first one
_BEGIN, _END, _OLDEST, _PIECE_HEADER = 0, 1, 2, 3
_ACCURACY = 0.2  # tolerances: error of a piece
_MIN_STEPS = 1.0  # steps: minimum length of a piece
_PAUSE = 3.0  # steps without a new trial after a failed one
_SHORTER = 0.25  # a step shortened by this factor ends the pause
_LONG_STEP = 2.0  # times for which a flow is known ahead: a step for which pieces save nothing


def ring_size(n_crossings: int) -> int:
    """Return the size of the pieces of a flow in the array of numbers.

    Parameters
    ----------
    n_crossings : int
        Length of its route.
    """
    smooth = _AT_CROSSING * n_crossings + _AT_SOURCE
    steps = _STEPS_AT_CROSSING * n_crossings + _STEPS_AT_SOURCE
    return _RING_HEADER + _RING * (_PIECE_HEADER + steps + N_PLACES * smooth)


def signals_size(n_crossings: int) -> int:
    """Return the number of signals of a flow.

    Parameters
    ----------
    n_crossings : int
        Length of its route.
    """
    return (_AT_CROSSING + _STEPS_AT_CROSSING) * n_crossings + _AT_SOURCE + _STEPS_AT_SOURCE


@compiled
def _sizes(g: int, indices: Any) -> Any:
    """Return (number of crossings of a flow, of its smooth signals, of its signals that change in steps)."""
    n = indices[indices[CROSSINGS] + g + 1] - indices[indices[CROSSINGS] + g]
    return n, _AT_CROSSING * n + _AT_SOURCE, _STEPS_AT_CROSSING * n + _STEPS_AT_SOURCE


@compiled
def _signals_of(g: int, numbers: Any, indices: Any) -> Any:
    """Return a pointer to the present signals of a flow."""
    of_crossings = (_AT_CROSSING + _STEPS_AT_CROSSING) * indices[indices[CROSSINGS] + g]
    return shifted(numbers, indices[SIGNALS] + of_crossings + (_AT_SOURCE + _STEPS_AT_SOURCE) * g)


@compiled
def _ring_of(g: int, numbers: Any, indices: Any) -> Any:
    """Return a pointer to the pieces of a flow."""
    of_crossing = _RING * (_STEPS_AT_CROSSING + N_PLACES * _AT_CROSSING)
    of_flow = _RING_HEADER + _RING * (_PIECE_HEADER + _STEPS_AT_SOURCE + N_PLACES * _AT_SOURCE)
    return shifted(numbers, indices[PIECES] + of_crossing * indices[indices[CROSSINGS] + g] + of_flow * g)


@compiled
def _sends_at_present(g: int, p: int, numbers: Any, indices: Any) -> Any:
    """Return whether the arrivals at a crossing are the present rate of a flow, which no piece can hold."""
    first = indices[indices[CROSSINGS] + g]
    return p == first and numbers[indices[FORWARD] + p] == 0.0


@compiled
def _write_signals(w: Any, y: Any, t: float, g: int, row: Any, numbers: Any, indices: Any) -> Any:
    """Write the signals of a flow at t, without its present rate; return a status."""
    first, last = indices[indices[CROSSINGS] + g], indices[indices[CROSSINGS] + g + 1] - 1
    n, smooth, _ = _sizes(g, indices)
    for p in range(first, last + 1):
        status, rate, rtt, which, earlier = _arrival(w, y, t, g, p, numbers, indices)
        if status != 0:
            return status
        if _sends_at_present(g, p, numbers, indices):
            rate = 0.0
        at_crossing = shifted(row, _AT_CROSSING * (p - first))
        at_crossing[0], at_crossing[1], at_crossing[2] = rate, rtt, earlier
        in_steps = shifted(row, smooth + _STEPS_AT_CROSSING * (p - first))
        in_steps[0], in_steps[1] = which, 1.0 if rate > 0.0 else 0.0
    status, _, rtt, which, R = _sent(w, y, t, g, first, _SOURCE, numbers, indices)
    if status != 0:
        return status
    slope = 0.0
    opened = t >= numbers[indices[OPENS] + g] and t < numbers[indices[STOPS] + g]
    if opened and which >= 0 and numbers[indices[STEADY] + g] <= 0.0:
        status, updated, x, step = _updated(w, y, t, g, R, rtt, numbers, indices)
        if status != 0:
            return status
        if step < inf:
            slope = (updated - x) / step * (rtt if indices[WINDOWS] != 0 else 1.0)
    status, leaving = _arriving(w, y, t - numbers[indices[WIRE] + g], g, _RECEIVED, numbers, indices)
    at_source = shifted(row, _AT_CROSSING * n)
    at_source[0], at_source[1], at_source[2] = slope, leaving, rtt
    row[smooth + _STEPS_AT_CROSSING * n] = which
    return status


@compiled
def _limit(w: Any, g: int, i: int, n: int, largest: float, numbers: Any, indices: Any) -> Any:
    """Return the maximum error of the integral of a smooth signal over a piece."""
    kind = i - _AT_CROSSING * n
    if kind == 0:
        source_state = indices[SOURCE_STATE] + g
        return w.absolute[source_state] + w.clock[RELATIVE] * abs(w.y[source_state])
    if kind == 1:
        return w.absolute[indices[DELIVERED] + g]
    if kind < 0 and i % _AT_CROSSING != 1:  # arrivals
        link = indices[indices[CROSSING_LINK] + indices[indices[CROSSINGS] + g] + i // _AT_CROSSING]
        capacity = numbers[indices[CAPACITY] + _change(w.clock[NOW], link, numbers, indices)]
        largest += capacity / indices[GROUPS]
    return w.clock[RELATIVE] * numbers[indices[INTERVAL]] * largest


@compiled
def _interpolate(values: Any, stride: int, c: Any) -> Any:
    """Write the coefficients of the quartic through the values at `_PLACES`; return (tail, largest value)."""
    a, b, middle, d, e = values[0], values[stride], values[2 * stride], values[3 * stride], values[4 * stride]
    inner, outer = 0.5 * (b + d) - middle, 0.5 * (a + e) - middle
    odd = 0.5 * (e - a)
    c[0], c[2], c[4] = middle, 4.0 * inner - outer, 2.0 * outer - 4.0 * inner
    c[3] = 2.0 * odd - (d - b) / _PLACES[3]
    c[1] = odd - c[3]
    tail = max(0.2 * abs(c[3]) / 4.0, abs(c[4]) / 8.0)  # from the last two coefficients of Chebyshev polynomials
    return tail, max(abs(a), abs(b), abs(middle), abs(d), abs(e))


@compiled
def _fit(w: Any, y: Any, g: int, begin: float, end: float, piece: Any, numbers: Any, indices: Any) -> Any:
    """Write the piece of a flow between two times; return (whether the past gives it, error in units of its limit)."""
    n, smooth, steps = _sizes(g, indices)
    rounding = 4.0 * EPS * max(abs(end), w.clock[REACH])
    inside, oldest, failed, now = w.count[INSIDE], w.clock[OLDEST], numbers[indices[FAILED]], w.at[0]
    w.count[INSIDE], w.clock[OLDEST] = 0, inf
    values = shifted(numbers, indices[VALUES])
    status = 0
    for k in range(N_PLACES):
        if status == 0 and w.count[INSIDE] == 0:
            t = 0.5 * (begin + end + (end - begin) * _PLACES[k])
            w.at[0] = min(max(t, begin + rounding), end - rounding)
            status = _write_signals(w, y, w.at[0], g, shifted(values, k * (smooth + steps)), numbers, indices)
    known = status == 0 and w.count[INSIDE] == 0
    piece[_BEGIN], piece[_END], piece[_OLDEST] = begin, end, w.clock[OLDEST]
    w.at[0], w.count[INSIDE], w.clock[OLDEST] = now, inside, min(oldest, w.clock[OLDEST])
    if not known:
        numbers[indices[FAILED]] = failed
        return False, inf
    worst = 0.0
    for i in range(steps):
        piece[_PIECE_HEADER + i] = values[smooth + i]
        for k in range(1, N_PLACES):
            if values[k * (smooth + steps) + smooth + i] != values[smooth + i]:
                worst = inf
    for i in range(smooth):
        c = shifted(piece, _PIECE_HEADER + steps + N_PLACES * i)
        tail, largest = _interpolate(shifted(values, i), smooth + steps, c)
        if not tail <= 0.0:
            ratio = tail * (end - begin) / (_ACCURACY * _limit(w, g, i, n, largest, numbers, indices))
            if not ratio <= worst:
                worst = ratio
    return True, worst


@compiled
def _extend(w: Any, y: Any, t: float, g: int, begin: float, piece: Any, ring: Any, numbers: Any, indices: Any) -> Any:
    """Write the piece of a flow that begins at a time before t; return whether it is accurate and long enough.

    A piece shorter than a step of the integration costs more than it saves.
    """
    known_for, step = numbers[indices[KNOWN_FOR] + g], w.clock[STEP]
    horizon = w.clock[NOW] + known_for
    if t > horizon or step > _LONG_STEP * known_for or (t < ring[_UNTIL] and step > _SHORTER * ring[_AT_STEP]):
        return False
    shortest = _MIN_STEPS * step
    end = min(begin + max(ring[_TRIAL], shortest), horizon)
    max_growth = 5.0
    while True:
        known, error = _fit(w, y, g, begin, end, piece, numbers, indices)
        if not known:  # a delay is shorter than the propagation delays and the interval
            numbers[indices[KNOWN_FOR] + g] = 0.0
            return False
        length = end - begin
        factor = 0.85 * max(error, 1e-5) ** -0.2 if error < inf else 0.0
        if error <= 1.0:
            following = length * min(factor, max_growth)
            ring[_TRIAL] = following if end < horizon else max(following, ring[_TRIAL])
            return True
        max_growth = 1.0
        end = begin + length * max(factor, 0.1)
        if end - begin < shortest:
            ring[_TRIAL], ring[_UNTIL], ring[_AT_STEP] = shortest, begin + _PAUSE * step, step
            return False


@compiled
def _known(w: Any, y: Any, t: float, g: int, numbers: Any, indices: Any) -> Any:
    """Write the signals of a flow at t from its pieces, which are made as needed; return whether they are known."""
    if numbers[indices[KNOWN_FOR] + g] <= 0.0:
        return False
    _, smooth, steps = _sizes(g, indices)
    size = _PIECE_HEADER + steps + N_PLACES * smooth
    ring = _ring_of(g, numbers, indices)
    n, head, now = int(ring[0]), int(ring[1]), w.clock[NOW]
    while n > 0 and ring[_RING_HEADER + head * size + _END] <= now:
        head = (head + 1) % _RING
        n -= 1
    ring[0], ring[1] = n, head
    i, begin = 0, now
    piece = shifted(ring, _RING_HEADER + head * size)
    while i < _RING:
        if i == n:
            if not _extend(w, y, t, g, begin, piece, ring, numbers, indices):
                return False
            n += 1
            ring[0] = n
        if t <= piece[_END]:
            break
        begin = piece[_END]
        i += 1
        piece = shifted(ring, _RING_HEADER + ((head + i) % _RING) * size)
    if i == _RING or t < piece[_BEGIN]:
        return False
    w.clock[OLDEST] = min(w.clock[OLDEST], piece[_OLDEST])
    u = 2.0 * (t - piece[_BEGIN]) / (piece[_END] - piece[_BEGIN]) - 1.0
    signals = _signals_of(g, numbers, indices)
    for i in range(smooth):
        c = shifted(piece, _PIECE_HEADER + steps + N_PLACES * i)
        signals[i] = c[0] + u * (c[1] + u * (c[2] + u * (c[3] + u * c[4])))
    for i in range(steps):
        signals[smooth + i] = piece[_PIECE_HEADER + i]
    return True


@compiled
def _present_rate(y: Any, t: float, g: int, rtt: float, numbers: Any, indices: Any) -> Any:
    """Return the present rate of a flow."""
    if not (t >= numbers[indices[OPENS] + g] and t < numbers[indices[STOPS] + g]):
        return 0.0
    if numbers[indices[STEADY] + g] > 0.0:
        return numbers[indices[STEADY] + g]
    rate = y[indices[SOURCE_STATE] + g]
    return max(numbers[indices[FLOOR] + g] / rtt, rate / rtt if indices[WINDOWS] != 0 else rate)


@compiled
def _known_arrival(y: Any, t: float, g: int, p: int, numbers: Any, indices: Any) -> Any:
    """Return (status, rate, RTT, bottleneck, earlier arrivals) like `_arrival`, from the signals of a flow."""
    signals, k = _signals_of(g, numbers, indices), p - indices[indices[CROSSINGS] + g]
    _, smooth, _ = _sizes(g, indices)
    rate, rtt, earlier = signals[_AT_CROSSING * k], signals[_AT_CROSSING * k + 1], signals[_AT_CROSSING * k + 2]
    which, arrives = signals[smooth + _STEPS_AT_CROSSING * k], signals[smooth + _STEPS_AT_CROSSING * k + 1]
    if _sends_at_present(g, p, numbers, indices):
        rate = _present_rate(y, t, g, rtt, numbers, indices) * numbers[indices[REACHES] + p]
    elif arrives == 0.0:
        rate = 0.0
    return 0, rate, rtt, int(which), earlier


@compiled
def _known_source(y: Any, t: float, g: int, out: Any, numbers: Any, indices: Any) -> Any:
    """Write the derivative of the rate of a flow; return (rate, RTT, bottleneck, deliveries), from its signals."""
    n, smooth, _ = _sizes(g, indices)
    signals = _signals_of(g, numbers, indices)
    source = shifted(signals, _AT_CROSSING * n)
    out[indices[SOURCE_STATE] + g] = source[0]
    rate = _present_rate(y, t, g, source[2], numbers, indices)
    return rate, source[2], int(signals[smooth + _STEPS_AT_CROSSING * n]), source[1]


@compiled
def _idle_rtt(t: float, link: int, numbers: Any, indices: Any) -> Any:
    """Return the RTT at a link without arrivals: over the flows that it has seen, 0 if it has seen no flow."""
    total, n_flows = 0.0, 0.0
    for g in range(indices[GROUPS]):
        for p in range(indices[indices[CROSSINGS] + g], indices[indices[CROSSINGS] + g + 1]):
            if indices[indices[CROSSING_LINK] + p] == link:
                if t >= numbers[indices[OPENS] + g] + numbers[indices[FORWARD] + p]:
                    rtt = numbers[indices[ROUND_TRIP] + g]
                    if indices[LONGEST] != 0:
                        total = max(total, rtt)
                        n_flows = 1.0
                    else:
                        total += rtt * numbers[indices[MEMBERS] + g]
                        n_flows += numbers[indices[MEMBERS] + g]
    return total / n_flows if n_flows > 0.0 else 0.0


@compiled
def _measure(y: Any, link: int, rate: float, out: Any, numbers: Any, indices: Any) -> None:
    """Write the derivatives of the measurements of a router: those of averages, or, if `instant`, of integrals."""
    at, links = indices[MEASURED] + link, indices[LINKS]
    reads = indices[READS]  # 0 for measurements that no law reads: they would escape error control
    if indices[INSTANT] != 0:
        out[at] = rate
        out[at + links] = numbers[reads + 1] * numbers[indices[OTHER] + link]
        out[at + 2 * links] = numbers[reads + 2] * numbers[indices[BOTTLENECKED] + link]
        out[at + 3 * links] = numbers[reads + 3] * numbers[indices[CROSSING] + link]
        out[at + 4 * links] = numbers[reads + 4] * numbers[indices[WEIGHTED] + link]
        return
    lag = numbers[indices[INTERVAL]]
    if indices[BY_RTT] != 0 and numbers[indices[WEIGHTED] + link] > 0.0:
        lag = 0.5 * numbers[indices[WEIGHTED] + link]
    out[at] = (rate - y[at]) / lag
    out[at + links] = numbers[reads + 1] * (numbers[indices[OTHER] + link] - y[at + links]) / lag
    out[at + 2 * links] = numbers[reads + 2] * (numbers[indices[BOTTLENECKED] + link] - y[at + 2 * links]) / lag
    out[at + 3 * links] = numbers[reads + 3] * (numbers[indices[CROSSING] + link] - y[at + 3 * links]) / lag
    out[at + 4 * links] = numbers[reads + 4] * (numbers[indices[WEIGHTED] + link] - y[at + 4 * links]) / lag


@entry_point
def network_rates(at: Any, y: Any, lag: Any, out: Any, numbers: Any, indices: Any, held: Any) -> Any:
    """Write the derivative of the state of a network; return 0, or the status of a law that failed."""
    t = at[0]
    w = fields_at(indices[TABLE])
    numbers[indices[FAILED]] = 0.0
    links, groups = indices[LINKS], indices[GROUPS]
    crossings = indices[CROSSINGS]
    arrival, before, share = indices[ARRIVAL], indices[BEFORE], indices[SHARE]
    weighted, loss, capacity = indices[WEIGHTED], indices[LOSS], indices[CAPACITY]
    other, bottlenecked, crossing = indices[OTHER], indices[BOTTLENECKED], indices[CROSSING]
    sent, delivered, lost = indices[SENT], indices[DELIVERED], indices[LOST]
    how = indices[COMBINE]
    T = numbers[indices[INTERVAL]]
    for link in range(links):
        numbers[arrival + link] = 0.0
        numbers[indices[RESPONSIVE] + link] = 0.0
        numbers[before + link] = 0.0
        numbers[weighted + link] = 0.0
        numbers[other + link] = 0.0
        numbers[bottlenecked + link] = 0.0
        numbers[crossing + link] = 0.0

    # arrivals at the links, and the RTTs in their headers
    responsive = indices[RESPONSIVE]
    for g in range(groups):
        members = numbers[indices[MEMBERS] + g]
        known = indices[AHEAD] != 0 and _known(w, y, t, g, numbers, indices)
        numbers[indices[KNOWN] + g] = 1.0 if known else 0.0
        for p in range(indices[crossings + g], indices[crossings + g + 1]):
            link = indices[indices[CROSSING_LINK] + p]
            reaches = numbers[indices[REACHES] + p]
            if known:
                status, rate, rtt, which, earlier = _known_arrival(y, t, g, p, numbers, indices)
            else:
                status, rate, rtt, which, earlier = _arrival(w, y, t, g, p, numbers, indices)
            if status != 0:
                return status
            numbers[share + p] = rate
            numbers[arrival + link] += members * rate
            if numbers[indices[STEADY] + g] > 0.0:
                numbers[other + link] += members * rate
            else:
                if rate > 0.0:
                    numbers[crossing + link] += members * reaches
                    if which == p or how == SUM:
                        numbers[bottlenecked + link] += members * reaches
                    else:
                        numbers[other + link] += members * rate
                    if indices[LONGEST] != 0:
                        numbers[weighted + link] = max(numbers[weighted + link], rtt)
                carries = members * rate
                if indices[PER_FLOW] != 0 and rate > 0.0:
                    carries = members * reaches
                numbers[responsive + link] += carries
                if indices[LONGEST] == 0:
                    numbers[weighted + link] += carries * rtt
            numbers[before + link] += earlier

    # queues, measurements of routers, and their states
    record = indices[RECORD]
    for link in range(links):
        rate, C = numbers[arrival + link], numbers[capacity + _change(t, link, numbers, indices)]
        queue = indices[QUEUE] + link
        begins = y[queue] > _EMPTY or abs(rate - C) > _ROUNDING * C
        out[queue] = rate - C if begins else 0.0
        out[indices[ARRIVED] + link] = rate
        overflow = rate - C if held[queue] > 0 and rate > C else 0.0
        out[indices[DROPPED] + link] = overflow
        numbers[loss + link] = overflow / rate if overflow > 0.0 else 0.0
        if numbers[responsive + link] > 0.0:
            if indices[LONGEST] == 0:
                numbers[weighted + link] /= numbers[responsive + link]
        else:
            numbers[weighted + link] = _idle_rtt(t, link, numbers, indices)
        if indices[MEASURES] != 0:
            _measure(y, link, rate, out, numbers, indices)
        if indices[REMEMBERS] != 0:
            at = indices[STATE] + link
            out[at] = 0.0
            if numbers[weighted + link] > 0.0:
                numbers[record + _Y] = rate
                numbers[record + _Y_PREV] = numbers[before + link]
                numbers[record + _U] = numbers[other + link]
                numbers[record + _N] = numbers[bottlenecked + link]
                numbers[record + _N_ALL] = numbers[crossing + link]
                numbers[record + _Q] = y[queue]
                numbers[record + _D] = numbers[weighted + link]
                status = _call_router_law(indices[ROUTER], t, link, y[at], 0.0, numbers, indices)
                if status != 0:
                    return status
                router_floor = numbers[indices[ROUTER_FLOOR] + link] / numbers[weighted + link]
                out[at] = (max(numbers[record + _RESULT], router_floor) - y[at]) / T

    # sources and receivers
    for g in range(groups):
        first, last = indices[crossings + g], indices[crossings + g + 1] - 1
        opened = t >= numbers[indices[OPENS] + g] and t < numbers[indices[STOPS] + g]
        if numbers[indices[KNOWN] + g] != 0.0:
            rate, rtt, which, leaving = _known_source(y, t, g, out, numbers, indices)
        else:
            status, rate, rtt, which, R = _sent(w, y, t, g, first, _SOURCE, numbers, indices)
            if status == 0 and indices[MEMORY] != 0:
                status = _update(w, y, t, g, opened and which >= 0, R, rtt, out, numbers, indices)
            if status != 0:
                return status
            status, leaving = _arriving(w, y, t - numbers[indices[WIRE] + g], g, _RECEIVED, numbers, indices)
            if status != 0:
                return status
        numbers[indices[ROUND_TRIP] + g] = rtt
        has_bottleneck = opened and which >= 0 and how != SUM
        numbers[indices[BOTTLENECK] + g] = indices[indices[CROSSING_LINK] + which] if has_bottleneck else -1
        out[sent + g] = rate
        survives = numbers[indices[SURVIVES] + g]
        out[delivered + g] = leaving * survives
        out[lost + g] = leaving * (1.0 - survives)
        for p in range(first, last + 1):
            out[lost + g] += numbers[share + p] * numbers[loss + indices[indices[CROSSING_LINK] + p]]
    if numbers[indices[FAILED]] != 0.0:  # a limit, or a minimum over links, may hide that a result is not finite
        out[sent] = nan
    return 0
