"""The right-hand side of a network of fluids, compiled: laws by address, everything else in two flat arrays.

State: R (links), q (links), cumulative arrivals and drops (links), x (groups, where the source law has memory); then,
not looked back to, cumulative sent, delivered and lost (groups). Rates are bit/s, queues and sums bits.

Fluid keeps its order in queues: what leaves link l at time u had entered it at e, where e + q_l(e)/C_l = u. Walking
back along a path from queue to queue gives when what arrives now was sent, and what a header read on its way.
"""

from __future__ import annotations

from typing import Any

from ecc.fluid.compiled import call, compiled, entry_point, shifted
from ecc.fluid.core import OLDEST, START, STORED, USABLE, fields_at, slope_at, value_at
from ecc.fluid.laws import ARGUMENTS

__all__ = ["HEADER", "HINTS_PER_CROSSING", "network_rates"]

HEADER = (
    "table", "links", "groups", "memory", "lagged_arrivals", "lagged_feedback", "router", "source", "combine",
    "longest",
    # arrays in numbers
    "capacity", "interval", "opens", "stops", "least", "members", "wire", "forward", "backward",
    "record", "params", "arrival", "before", "weighted", "loss", "share", "round_trip", "bottleneck",
    # arrays in indices
    "crossings", "crossing_link", "listens",
)  # fmt: skip
"""What the first indices are: whole numbers, then where arrays begin in `numbers` and in `indices`."""

(
    TABLE, LINKS, GROUPS, MEMORY, LAGGED_ARRIVALS, LAGGED_FEEDBACK, ROUTER, SOURCE, COMBINE, LONGEST,
    CAPACITY, INTERVAL, OPENS, STOPS, LEAST, MEMBERS, WIRE, FORWARD, BACKWARD,
    RECORD, PARAMS, ARRIVAL, BEFORE, WEIGHTED, LOSS, SHARE, ROUND_TRIP, BOTTLENECK,
    CROSSINGS, CROSSING_LINK, LISTENS,
) = range(len(HEADER))  # fmt: skip

MINIMUM, MAXIMUM, SUM = range(3)
_R, _Y, _Y_PREV, _Q, _C, _D, _T, _X, _R_PREV, _RESULT = range(len(ARGUMENTS))
# purposes of looking back: each has its own hints at every crossing
_ARRIVING, _EARLIER, _RECEIVED, _OWN = 0, 4, 8, 12
_PATH, _FEEDBACK, _FEEDBACK_BEFORE, _RATE = range(4)
_FAR = 16  # where fluid entered a queue is far from where it left
HINTS_PER_CROSSING = 2 * _FAR


@compiled
def _entered(w: Any, y: Any, u: float, link: int, slot: int, numbers: Any, indices: Any) -> Any:
    """When what leaves a link at u entered its queue."""
    i = indices[LINKS] + link
    C = numbers[indices[CAPACITY] + link]
    queue = value_at(w, y, i, u, slot)
    if queue <= 0.0:
        return u
    start = w.clock[START]
    if start + w.past[i] / C >= u:
        return u - w.past[i] / C
    if w.count[USABLE] == 0:
        return max(start, u - queue / C)
    n5 = 5 * w.count[STORED]
    c = w.curve
    far = slot + _FAR * indices[indices[CROSSINGS] + indices[GROUPS]]
    j = min(w.hint[far], w.count[USABLE] - 1)
    while j > 0 and w.begun[j] + c[j * n5 + 5 * i] / C > u:
        j -= 1
    while j + 1 < w.count[USABLE] and w.begun[j + 1] + c[(j + 1) * n5 + 5 * i] / C <= u:
        j += 1
    w.hint[far] = j
    k = j * n5 + 5 * i
    begun, width = w.begun[j], w.width[j]
    w.clock[OLDEST] = min(w.clock[OLDEST], begun)
    low, high = 0.0, (u - begun) / width
    if j + 1 < w.count[USABLE]:
        high = min(high, 1.0)
    theta = high
    for _ in range(60):
        value = c[k] + theta * (c[k + 1] + theta * (c[k + 2] + theta * (c[k + 3] + theta * c[k + 4])))
        slope = c[k + 1] + theta * (2.0 * c[k + 2] + theta * (3.0 * c[k + 3] + theta * 4.0 * c[k + 4]))
        excess = begun + theta * width + value / C - u
        if excess > 0.0:
            high = theta
        else:
            low = theta
        rise = width + slope / C
        following = theta - excess / rise if rise > 0.0 else 0.5 * (low + high)
        if not (following > low and following < high):
            following = 0.5 * (low + high)
        if abs(following - theta) <= 1e-14 * (1.0 + abs(theta)):
            break
        theta = following
    return begun + theta * width


@compiled
def _passed(w: Any, e: float, u: float, link: int, slot: int, numbers: Any, indices: Any) -> Any:
    """Rate with which fluid leaves a link at u, as a share of the rate with which it entered at e."""
    links = indices[LINKS]
    if e >= u:
        return 1.0
    far = slot + _FAR * indices[indices[CROSSINGS] + indices[GROUPS]]
    swelling = 1.0 + slope_at(w, links + link, e, far) / numbers[indices[CAPACITY] + link]
    kept = 1.0
    dropped = slope_at(w, 3 * links + link, e, far)
    if dropped > 0.0:
        kept = max(0.0, 1.0 - dropped / slope_at(w, 2 * links + link, e, far))
    return kept / max(swelling, 1e-9)


@compiled
def _back_to_sender(
    w: Any, y: Any, v: float, group: int, crossing: int, purpose: int, numbers: Any, indices: Any
) -> Any:
    """When what reaches the queue of a crossing at v was sent, and its rate there as a share of its rate then."""
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
def _heard(w: Any, y: Any, sigma: float, group: int, purpose: int, numbers: Any, indices: Any) -> Any:
    """What a sender hears at a time: (feedback of its path, crossing that gave it, round-trip time)."""
    first, last = indices[indices[CROSSINGS] + group], indices[indices[CROSSINGS] + group + 1] - 1
    total = indices[indices[CROSSINGS] + indices[GROUPS]]
    how = indices[COMBINE]
    forward = indices[FORWARD]
    best, which = 0.0, -1
    u = sigma - numbers[indices[BACKWARD] + last]
    sent = u
    for p in range(last, first - 1, -1):
        link = indices[indices[CROSSING_LINK] + p]
        slot = purpose * total + p
        if indices[indices[LISTENS] + p] != 0:
            value = value_at(w, y, link, u, slot)
            if which < 0:
                best, which = value, p
            elif how == SUM:
                best += value
            elif (how == MINIMUM and value <= best) or (how == MAXIMUM and value >= best):
                best, which = value, p
        e = _entered(w, y, u, link, slot, numbers, indices)
        if p > first:
            u = e - (numbers[forward + p] - numbers[forward + p - 1])
        else:
            sent = e - numbers[forward + p]
    return best, which, sigma - sent


@compiled
def _source(numbers: Any, indices: Any, x: float, R: float, R_prev: float) -> Any:
    """(status, rate by the source law)."""
    record = indices[RECORD]
    numbers[record + _X] = x
    numbers[record + _R] = R
    numbers[record + _R_PREV] = R_prev
    pointer = shifted(numbers, record)
    status = call(indices[SOURCE], (pointer, pointer, shifted(numbers, indices[PARAMS]), pointer))
    return status, numbers[record + _RESULT]


@compiled
def _sent(w: Any, y: Any, sigma: float, group: int, crossing: int, purpose: int, numbers: Any, indices: Any) -> Any:
    """What a flow of a group sends at a time: (status, rate, round-trip time it knows, crossing it follows)."""
    R, which, rtt = _heard(w, y, sigma, group, purpose + _FEEDBACK, numbers, indices)
    if sigma < numbers[indices[OPENS] + group] or sigma >= numbers[indices[STOPS] + group]:
        return 0, 0.0, rtt, which
    total = indices[indices[CROSSINGS] + indices[GROUPS]]
    least = numbers[indices[LEAST] + group] / rtt
    if indices[MEMORY] != 0:
        own = 4 * indices[LINKS] + group
        return 0, max(least, value_at(w, y, own, sigma, (purpose + _RATE) * total + crossing)), rtt, which
    R_prev = R
    if indices[LAGGED_FEEDBACK] != 0:
        earlier = sigma - numbers[indices[INTERVAL]]
        R_prev, _, _ = _heard(w, y, earlier, group, purpose + _FEEDBACK_BEFORE, numbers, indices)
    status, rate = _source(numbers, indices, 0.0, R, R_prev)
    return status, max(least, rate), rtt, which


@compiled
def _idle_rtt(t: float, link: int, numbers: Any, indices: Any) -> Any:
    """RTT at a link that nothing arrives at: over the flows that it has seen, 0 before any."""
    total, many = 0.0, 0.0
    for g in range(indices[GROUPS]):
        for p in range(indices[indices[CROSSINGS] + g], indices[indices[CROSSINGS] + g + 1]):
            if indices[indices[CROSSING_LINK] + p] == link:
                if t >= numbers[indices[OPENS] + g] + numbers[indices[FORWARD] + p]:
                    rtt = numbers[indices[ROUND_TRIP] + g]
                    if indices[LONGEST] != 0:
                        total = max(total, rtt)
                        many = 1.0
                    else:
                        total += rtt * numbers[indices[MEMBERS] + g]
                        many += numbers[indices[MEMBERS] + g]
    return total / many if many > 0.0 else 0.0


@entry_point
def network_rates(at: Any, y: Any, lag: Any, out: Any, numbers: Any, indices: Any, held: Any) -> Any:
    """Write the derivative of the state of a network; 0, or what a law returned."""
    t = at[0]
    w = fields_at(indices[TABLE])
    links, groups = indices[LINKS], indices[GROUPS]
    crossings = indices[CROSSINGS]
    arrival, before, share = indices[ARRIVAL], indices[BEFORE], indices[SHARE]
    weighted, loss, capacity = indices[WEIGHTED], indices[LOSS], indices[CAPACITY]
    arrived, dropped = 2 * links, 3 * links
    own_rate = 4 * links
    sent = own_rate + groups * indices[MEMORY]
    delivered, lost = sent + groups, sent + 2 * groups
    T = numbers[indices[INTERVAL]]
    for link in range(links):
        numbers[arrival + link] = 0.0
        numbers[before + link] = 0.0
        numbers[weighted + link] = 0.0

    # what arrives at the links, and the RTTs that it carries
    for g in range(groups):
        many = numbers[indices[MEMBERS] + g]
        for p in range(indices[crossings + g], indices[crossings + g + 1]):
            link = indices[indices[CROSSING_LINK] + p]
            sigma, part = _back_to_sender(w, y, t, g, p, _ARRIVING, numbers, indices)
            status, rate, rtt, _ = _sent(w, y, sigma, g, p, _ARRIVING, numbers, indices)
            if status != 0:
                return status
            rate *= part
            numbers[share + p] = rate
            numbers[arrival + link] += many * rate
            if indices[LONGEST] != 0:
                if rate > 0.0:
                    numbers[weighted + link] = max(numbers[weighted + link], rtt)
            else:
                numbers[weighted + link] += many * rate * rtt
            if indices[LAGGED_ARRIVALS] != 0:
                sigma, part = _back_to_sender(w, y, t - T, g, p, _EARLIER, numbers, indices)
                status, rate, rtt, _ = _sent(w, y, sigma, g, p, _EARLIER, numbers, indices)
                if status != 0:
                    return status
                numbers[before + link] += many * rate * part

    # routers and queues
    record = indices[RECORD]
    pointer = shifted(numbers, record)
    for link in range(links):
        rate, C = numbers[arrival + link], numbers[capacity + link]
        out[links + link] = rate - C
        out[arrived + link] = rate
        overflow = rate - C if held[links + link] > 0 and rate > C else 0.0
        out[dropped + link] = overflow
        numbers[loss + link] = overflow / rate if overflow > 0.0 else 0.0
        if rate > 0.0:
            d = numbers[weighted + link] if indices[LONGEST] != 0 else numbers[weighted + link] / rate
        else:
            d = _idle_rtt(t, link, numbers, indices)
        out[link] = 0.0
        if d > 0.0:
            numbers[record + _R] = y[link]
            numbers[record + _Y] = rate
            numbers[record + _Y_PREV] = numbers[before + link]
            numbers[record + _Q] = y[links + link]
            numbers[record + _C] = C
            numbers[record + _D] = d
            numbers[record + _T] = T
            status = call(indices[ROUTER], (pointer, pointer, shifted(numbers, indices[PARAMS]), pointer))
            if status != 0:
                return status
            out[link] = (numbers[record + _RESULT] - y[link]) / T

    # sources and receivers
    total = indices[crossings + groups]
    for g in range(groups):
        first, last = indices[crossings + g], indices[crossings + g + 1] - 1
        status, rate, rtt, which = _sent(w, y, t, g, first, _OWN, numbers, indices)
        if status != 0:
            return status
        opened = t >= numbers[indices[OPENS] + g]
        numbers[indices[ROUND_TRIP] + g] = rtt
        numbers[indices[BOTTLENECK] + g] = indices[indices[CROSSING_LINK] + which] if opened else -1.0
        out[sent + g] = rate
        if indices[MEMORY] != 0:
            out[own_rate + g] = 0.0
            if opened and t < numbers[indices[STOPS] + g]:
                R, _, _ = _heard(w, y, t, g, _OWN + _FEEDBACK, numbers, indices)
                R_prev = R
                if indices[LAGGED_FEEDBACK] != 0:
                    R_prev, _, _ = _heard(w, y, t - T, g, _OWN + _FEEDBACK_BEFORE, numbers, indices)
                x = value_at(w, y, own_rate + g, t - T, _OWN * total + first)
                status, following = _source(numbers, indices, x, R, R_prev)
                if status != 0:
                    return status
                out[own_rate + g] = (following - x) / T
        gone = 0.0
        for p in range(first, last + 1):
            gone += numbers[share + p] * numbers[loss + indices[indices[CROSSING_LINK] + p]]
        out[lost + g] = gone
        link = indices[indices[CROSSING_LINK] + last]
        slot = _RECEIVED * total + last
        u = t - numbers[indices[WIRE] + g]
        e = _entered(w, y, u, link, slot, numbers, indices)
        part = _passed(w, e, u, link, slot, numbers, indices)
        sigma, passed = _back_to_sender(w, y, e, g, last, _RECEIVED, numbers, indices)
        status, rate, rtt, which = _sent(w, y, sigma, g, first, _RECEIVED, numbers, indices)
        if status != 0:
            return status
        out[delivered + g] = rate * part * passed
    return 0
