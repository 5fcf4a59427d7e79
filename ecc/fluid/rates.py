"""The right-hand side of a network of fluids, compiled: laws by address, everything else in two flat arrays.

State: R (links), q (links), then cumulative arrivals and drops (links), then of each group cumulative sent, delivered
and lost, then x (groups, where the source law has memory). Rates are bit/s, queues and sums bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ecc.fluid.compiled import call, compiled, entry_point, shifted

__all__ = ["HEADER", "network_rates", "offsets", "packed"]

HEADER = (
    "links", "groups", "memory", "lagged_arrivals", "lagged_feedback", "router", "source", "combine", "longest",
    # arrays in numbers
    "capacity", "interval", "opens", "stops", "rtt", "members", "forward", "record", "params", "arrival", "before",
    "weighted", "loss", "crossing_rate", "path_rtt", "bottleneck",
    # arrays in indices
    "crossings", "crossing_link", "heard", "heard_link", "echo", "hearing", "own", "lags",
)  # fmt: skip
"""What the first indices are: whole numbers, then where arrays begin in `numbers` and in `indices`."""

(
    LINKS, GROUPS, MEMORY, LAGGED_ARRIVALS, LAGGED_FEEDBACK, ROUTER, SOURCE, COMBINE, LONGEST,
    CAPACITY, INTERVAL, OPENS, STOPS, RTT, MEMBERS, FORWARD, RECORD, PARAMS, ARRIVAL, BEFORE, WEIGHTED, LOSS,
    CROSSING_RATE, PATH_RTT, BOTTLENECK,
    CROSSINGS, CROSSING_LINK, HEARD, HEARD_LINK, ECHO, HEARING, OWN, LAGS,
) = range(len(HEADER))  # fmt: skip

MINIMUM, MAXIMUM, SUM = range(3)
_R, _Y, _Y_PREV, _Q, _C, _D, _T, _X, _R_PREV, _RESULT = range(10)


@compiled
def _combined(lag: Any, indices: Any, at: int, count: int) -> Any:
    """(feedback of a path, place of the link that gave it): of the lags that indices[at:at + count] name."""
    how = indices[COMBINE]
    best, which = lag[indices[at]], 0
    for k in range(1, count):
        value = lag[indices[at + k]]
        if how == SUM:
            best += value
        elif (how == MINIMUM and value < best) or (how == MAXIMUM and value > best):
            best, which = value, k
    return best, which


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
def _sent(t: float, delay: float, group: int, echo: int, lag: Any, numbers: Any, indices: Any) -> Any:
    """(status, rate that a flow of a group sent `delay` ago)."""
    then = t - delay
    if then < numbers[indices[OPENS] + group] or then >= numbers[indices[STOPS] + group]:
        return 0, 0.0
    at = indices[LAGS] + indices[indices[ECHO] + echo]
    if indices[MEMORY] != 0:
        return 0, lag[indices[at]]
    count = indices[indices[HEARD] + group + 1] - indices[indices[HEARD] + group]
    R, _ = _combined(lag, indices, at, count)
    R_prev = R
    if indices[LAGGED_FEEDBACK] != 0:
        R_prev, _ = _combined(lag, indices, at + count, count)
    return _source(numbers, indices, 0.0, R, R_prev)


@compiled
def _idle_rtt(t: float, link: int, numbers: Any, indices: Any) -> Any:
    """RTT at a link that nothing arrives at: over the flows that it has seen, 0 before any."""
    groups = indices[GROUPS]
    total, many = 0.0, 0.0
    for g in range(groups):
        for p in range(indices[indices[CROSSINGS] + g], indices[indices[CROSSINGS] + g + 1]):
            if indices[indices[CROSSING_LINK] + p] == link:
                if t >= numbers[indices[OPENS] + g] + numbers[indices[FORWARD] + p]:
                    rtt = numbers[indices[PATH_RTT] + g]
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
    links, groups = indices[LINKS], indices[GROUPS]
    crossings = indices[CROSSINGS]
    total = indices[crossings + groups]
    arrival, before = indices[ARRIVAL], indices[BEFORE]
    weighted, loss, capacity = indices[WEIGHTED], indices[LOSS], indices[CAPACITY]
    arrived, dropped = 2 * links, 3 * links
    sent, delivered, lost, own_rate = 4 * links, 4 * links + groups, 4 * links + 2 * groups, 4 * links + 3 * groups
    for link in range(links):
        numbers[arrival + link] = 0.0
        numbers[before + link] = 0.0
        numbers[weighted + link] = 0.0

    # what arrives at the links, and the RTTs that it carries
    for g in range(groups):
        a, b = indices[crossings + g], indices[crossings + g + 1]
        rtt = numbers[indices[RTT] + g]
        for p in range(a, b):
            link = indices[indices[CROSSING_LINK] + p]
            rtt += y[links + link] / numbers[capacity + link]
        numbers[indices[PATH_RTT] + g] = rtt
        many = numbers[indices[MEMBERS] + g]
        for p in range(a, b):
            link = indices[indices[CROSSING_LINK] + p]
            delay = numbers[indices[FORWARD] + p]
            status, rate = _sent(t, delay, g, groups + p, lag, numbers, indices)
            if status != 0:
                return status
            numbers[indices[CROSSING_RATE] + p] = rate
            numbers[arrival + link] += many * rate
            if indices[LONGEST] != 0:
                if rate > 0.0:
                    numbers[weighted + link] = max(numbers[weighted + link], rtt)
            else:
                numbers[weighted + link] += many * rate * rtt
            if indices[LAGGED_ARRIVALS] != 0:
                earlier = delay + numbers[indices[INTERVAL]]
                status, rate = _sent(t, earlier, g, groups + total + p, lag, numbers, indices)
                if status != 0:
                    return status
                numbers[before + link] += many * rate

    # routers and queues
    record = indices[RECORD]
    pointer = shifted(numbers, record)
    T = numbers[indices[INTERVAL]]
    for link in range(links):
        rate, C = numbers[arrival + link], numbers[capacity + link]
        out[links + link] = rate - C
        out[arrived + link] = rate
        overflow = rate - C if held[links + link] > 0 and rate > C else 0.0
        out[dropped + link] = overflow
        numbers[loss + link] = overflow / rate if overflow > 0.0 else 0.0
        d = 0.0
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

    # sources
    for g in range(groups):
        opened = t >= numbers[indices[OPENS] + g]
        count = indices[indices[HEARD] + g + 1] - indices[indices[HEARD] + g]
        here = indices[LAGS] + indices[indices[HEARING] + g]
        R, which = _combined(lag, indices, here, count)
        link = indices[indices[HEARD_LINK] + indices[indices[HEARD] + g] + which]
        numbers[indices[BOTTLENECK] + g] = link if opened else -1.0
        rate = 0.0
        if indices[MEMORY] != 0:
            out[own_rate + g] = 0.0
            if opened and t < numbers[indices[STOPS] + g]:
                rate = y[own_rate + g]
                R_prev = R
                if indices[LAGGED_FEEDBACK] != 0:
                    R_prev, _ = _combined(lag, indices, here + count, count)
                x = lag[indices[indices[OWN] + g]]
                status, following = _source(numbers, indices, x, R, R_prev)
                if status != 0:
                    return status
                out[own_rate + g] = (following - x) / T
        else:
            status, rate = _sent(t, 0.0, g, g, lag, numbers, indices)
            if status != 0:
                return status
        out[sent + g] = rate
        kept = 1.0
        a, b = indices[crossings + g], indices[crossings + g + 1]
        for p in range(a, b):
            kept *= 1.0 - numbers[loss + indices[indices[CROSSING_LINK] + p]]
        rate = numbers[indices[CROSSING_RATE] + b - 1]
        out[delivered + g] = rate * kept
        out[lost + g] = rate * (1.0 - kept)
    return 0


def offsets() -> dict[str, int]:
    """Return the place of each name of `HEADER` in the indices."""
    return {name: place for place, name in enumerate(HEADER)}


def packed(whole: dict[str, int], floats: dict[str, Any], integers: dict[str, Any]) -> tuple[Any, Any]:
    """Return (numbers, indices) that hold whole numbers and arrays where the header says.

    Parameters
        whole : name -> int. floats, integers : name -> array; names are those of `HEADER`.
    """
    place = offsets()
    header = np.zeros(len(HEADER), dtype=np.int64)
    for name, value in whole.items():
        header[place[name]] = value
    at = 0
    for name, array in floats.items():
        header[place[name]] = at
        at += np.size(array)
    at = len(HEADER)
    for name, array in integers.items():
        header[place[name]] = at
        at += np.size(array)
    numbers = np.concatenate([np.ravel(np.asarray(array, dtype=float)) for array in floats.values()])
    indices = np.concatenate([header, *[np.ravel(np.asarray(array, dtype=np.int64)) for array in integers.values()]])
    return numbers, indices.astype(np.int64)
