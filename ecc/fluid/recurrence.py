"""The papers' discrete-time systems: one step a control interval, delays in whole intervals.

With D = ceil((forward + backward delay)/T) from link to source to link (at least 1; the RTT where both are the same),
x_il the rate of flow i as it reaches link l, and n counting intervals:

    x_il[n] = source_law(x_il[n - 1], R_i[n - D], R_i[n - D - 1]),   y_l[n] = sum over flows of x_il[n]
    q_l[n]  = q_l[n - 1] + T (y_l[n] - C_l)     within 0 and the buffer; the rest is lost
    R_l[n]  = router_law(R_l[n - 1], y_l[n], y_l[n - 1], q_l[n], C_l, d_l[n], T)     within the router's range

d_l is the mean of the RTTs that arrive, weighted by rates (or the largest): those rounded up to intervals, and the
waits that senders measured last. Rates are constant within an interval. Waiting changes d_l but no delay D, and what
one link loses another still sees: these are the papers' systems.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.closed_loop import steps_of
from ecc.fluid.compiled import call, compiled, entry, unpacker
from ecc.fluid.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.model import FluidNetwork
from ecc.fluid.outcome import Outcome
from ecc.models.base import Protocol

__all__ = ["run_recurrence"]

FloatArray = NDArray[np.float64]

_SLICE = 4096  # steps between two reports of progress
_MEMORY = 1 << 16  # steps: what a queue can hold
_R, _Y, _Y_PREV, _Q, _C, _D, _T, _X, _R_PREV, _RESULT = range(len(ARGUMENTS))
# places in Fields.count
STEP, LAST, SAMPLE, SAMPLES, LINKS, GROUPS, LONGEST, COMBINE, ROUTER, SOURCE, BASE, DEPTH, CAPACITY, MEMORY = range(14)
FINE, LAW_FAILED, NOT_FINITE, TOO_LONG, INTERRUPTED = range(5)


class Fields(NamedTuple):
    """The arrays of a recurrence (pointers, in compiled code). P crossings: a group and a link of its route."""

    record: Any  # arguments of a law
    params: Any
    capacity: Any  # (n_links,)
    buffer: Any
    least: Any  # range of R
    most: Any
    R: Any  # (n_links, capacity of the history)
    wait: Any  # (n_links, capacity): how long what left at the end of a step had waited [s]
    volume: Any  # (n_links, memory): accepted in a step, by step modulo memory
    left: Any  # (n_links,): of the volume of the step that is being served
    queue: Any  # (n_links,)
    arrival: Any
    before: Any  # arrival one step ago
    weighted: Any
    idle: Any  # RTTs of the flows seen, while nothing arrives
    loss: Any
    arrived: Any  # cumulative
    dropped: Any
    peak: Any
    rtt: Any  # (n_groups,)
    members: Any
    floor: Any  # least rate, as bits an RTT
    size: Any
    delivered: Any
    lost: Any
    finished: Any  # step in which all of a group's size was sent
    x: Any  # (P,): what the source law remembers
    rate: Any  # (P,): at the crossing
    total: Any  # (P,): cumulative
    samples: Any  # times, in steps
    out_links: Any  # (n_samples, 4, n_links): cumulative arrived and dropped, queue, peak
    out_groups: Any  # (n_samples, 4, n_groups): cumulative sent, delivered, lost, and the bottleneck
    count: Any
    crossings: Any  # (n_groups + 1,)
    crossing_link: Any  # (P,)
    opens: Any  # (P,): active after this step ...
    stops: Any  # ... until this one
    listens: Any  # (P,): 1 where the flow heeds the link
    first_lag: Any  # (P,): where the lags of a crossing begin in `lag`
    lag: Any  # steps from each link of the route to a crossing
    head: Any  # (n_links,): step whose arrivals are being served
    bottleneck: Any  # (n_groups,)


_unpack = unpacker("f" * Fields._fields.index("count") + "i" * (len(Fields._fields) - Fields._fields.index("count")))


@compiled
def _heard(w: Any, g: int, p: int, back: int) -> Any:
    """What crossing p acts on, `back` steps before the running one: (feedback, link it comes from, RTT)."""
    c = w.count
    best, which = 0.0, -1
    first = w.crossings[g]
    rtt = w.rtt[g]
    for k in range(first, w.crossings[g + 1]):
        link = w.crossing_link[k]
        at = link * c[CAPACITY] + c[STEP] - w.lag[w.first_lag[p] + k - first] - back - c[BASE]
        rtt += w.wait[at]
        if w.listens[k] != 0:
            value = w.R[at]
            if which < 0:
                best, which = value, link
            elif c[COMBINE] == 2:
                best += value
            elif (c[COMBINE] == 0 and value < best) or (c[COMBINE] == 1 and value > best):
                best, which = value, link
    return best, which, rtt


@compiled
def _queue_up(w: Any, link: int, accepted: float, served: float) -> Any:
    """Add what a step brought to a queue and take out what it served: how long what leaves now has waited, in steps.

    Negative where the memory of the queue is too short.
    """
    c = w.count
    n, size = c[STEP], c[MEMORY]
    row = link * size
    w.volume[row + n % size] = accepted
    if w.queue[link] <= 0.0:
        w.head[link] = n
        w.left[link] = 0.0
        return 0.0
    while served > w.left[link] and w.head[link] < n:
        served -= w.left[link]
        w.head[link] += 1
        w.left[link] = w.volume[row + w.head[link] % size]
    w.left[link] = max(0.0, w.left[link] - served)
    if n - w.head[link] >= size - 1:
        return -1.0
    volume = w.volume[row + w.head[link] % size]
    return n - w.head[link] + (w.left[link] / volume if volume > 0.0 else 0.0)


@compiled
def _gone(w: Any, g: int) -> Any:
    """Rate that a flow loses at all links of its route."""
    gone = 0.0
    for p in range(w.crossings[g], w.crossings[g + 1]):
        gone += w.rate[p] * w.loss[w.crossing_link[p]]
    return gone


@compiled
def _step(w: Any) -> Any:
    """One control interval; a status."""
    c = w.count
    n, links, groups = c[STEP], c[LINKS], c[GROUPS]
    T = w.record[_T]
    for link in range(links):
        w.before[link] = w.arrival[link]
        w.arrival[link] = 0.0
        w.weighted[link] = 0.0
        w.idle[link] = 0.0
        w.loss[link] = 0.0
    for g in range(groups):
        for p in range(w.crossings[g], w.crossings[g + 1]):
            link = w.crossing_link[p]
            rate = 0.0
            R, which, rtt = _heard(w, g, p, 0)
            if n > w.opens[p] and n <= w.stops[p]:
                w.record[_R] = R
                w.record[_R_PREV], _, _ = _heard(w, g, p, 1)
                w.record[_X] = w.x[p]
                if call(c[SOURCE], (w.record, w.record, w.params, w.record)) != 0:
                    return LAW_FAILED
                rate = max(w.record[_RESULT], w.floor[g] / rtt)
                if p == w.crossings[g]:
                    w.bottleneck[g] = which
                w.x[p] = rate
                if rate * T >= w.size[g] - w.total[p]:
                    rate = (w.size[g] - w.total[p]) / T
                    w.stops[p] = n
                    if p == w.crossings[g]:
                        w.finished[g] = n
            w.rate[p] = rate
            w.total[p] += rate * T
            flow = rate * w.members[g]
            w.arrival[link] += flow
            if c[LONGEST] != 0:
                if rate > 0.0:
                    w.weighted[link] = max(w.weighted[link], rtt)
            else:
                w.weighted[link] += flow * rtt
            if n > w.opens[p]:
                w.idle[link] = max(w.idle[link], rtt)
    for link in range(links):
        C, y = w.capacity[link], w.arrival[link]
        w.arrived[link] += y * T
        held = w.queue[link]
        queue = max(0.0, held + T * (y - C))
        excess = max(0.0, queue - w.buffer[link])
        if excess > 0.0:
            w.dropped[link] += excess
            w.loss[link] = min(1.0, excess / (y * T))
            queue = w.buffer[link]
        w.queue[link] = queue
        waited = _queue_up(w, link, y * T - excess, held + y * T - excess - queue)
        if waited < 0.0:
            return TOO_LONG
        w.peak[link] = max(w.peak[link], queue)
        at = link * c[CAPACITY] + n - c[BASE]
        R = w.R[at - 1]
        d = w.idle[link]
        if y > 0.0:
            d = w.weighted[link] if c[LONGEST] != 0 else w.weighted[link] / y
        if d > 0.0:
            w.record[_R] = R
            w.record[_Y] = y
            w.record[_Y_PREV] = w.before[link]
            w.record[_Q] = queue
            w.record[_C] = C
            w.record[_D] = d
            if call(c[ROUTER], (w.record, w.record, w.params, w.record)) != 0:
                return LAW_FAILED
            R = w.record[_RESULT]
            if not np.isfinite(R):
                return NOT_FINITE
            R = min(max(R, w.least[link]), w.most[link])
        w.R[at] = R
        w.wait[at] = waited * T
    for g in range(groups):
        gone = _gone(w, g)
        last = w.rate[w.crossings[g + 1] - 1]
        w.delivered[g] += max(0.0, last - gone) * T
        w.lost[g] += gone * T
        if not np.isfinite(last):
            return NOT_FINITE
    return FINE


@compiled
def _write(w: Any, row: int, share: float) -> None:
    """Write a sample that ends after `share` of the running step."""
    c = w.count
    links, groups = c[LINKS], c[GROUPS]
    T = w.record[_T]
    rest = (1.0 - share) * T
    for link in range(links):
        at = row * 4 * links + link
        y = w.arrival[link]
        w.out_links[at] = w.arrived[link] - rest * y
        w.out_links[at + links] = w.dropped[link] - rest * y * w.loss[link]
        w.out_links[at + 2 * links] = w.queue[link]
        w.out_links[at + 3 * links] = w.peak[link]
        w.peak[link] = w.queue[link]
    for g in range(groups):
        at = row * 4 * groups + g
        first, last = w.crossings[g], w.crossings[g + 1] - 1
        gone = _gone(w, g)
        w.out_groups[at] = w.total[first] - rest * w.rate[first]
        w.out_groups[at + groups] = w.delivered[g] - rest * max(0.0, w.rate[last] - gone)
        w.out_groups[at + 2 * groups] = w.lost[g] - rest * gone
        w.out_groups[at + 3 * groups] = w.bottleneck[g]


@entry
def _advance(table: Any, steps: int) -> Any:
    """Take at most `steps` steps, not beyond the last one; a status."""
    w = Fields(*_unpack(table))
    c = w.count
    end = min(c[LAST], c[STEP] + steps)
    while c[STEP] < end:
        c[STEP] += 1
        if c[STEP] - c[BASE] >= c[CAPACITY]:
            shift = c[STEP] - c[BASE] - c[DEPTH]
            for link in range(c[LINKS]):
                for k in range(c[DEPTH]):
                    at = link * c[CAPACITY] + k
                    w.R[at] = w.R[at + shift]
                    w.wait[at] = w.wait[at + shift]
            c[BASE] += shift
        status = _step(w)
        if status != FINE:
            return status
        while c[SAMPLE] < c[SAMPLES] and w.samples[c[SAMPLE]] <= c[STEP]:
            _write(w, c[SAMPLE], w.samples[c[SAMPLE]] - c[STEP] + 1.0)
            c[SAMPLE] += 1
    return FINE


def run_recurrence(
    protocol: Protocol,
    fluid: FluidNetwork,
    start: tuple[FloatArray, FloatArray] | None,
    samples: FloatArray,
    progress: Callable[[float], None],
) -> Outcome:
    """Run the recurrence of a network.

    Parameters
        protocol : Protocol. fluid : FluidNetwork.
        start : (rates of the groups, fair rates of the links) that were there for ever, or None: an empty network.
        samples : increasing, s. progress : called with the share done.
    Returns
        Outcome; rates are those at the first link of a route.
    """
    laws = CompiledLaws(protocol)
    L, G = fluid.n_links, fluid.n_groups
    T = float(protocol.params()["interval"])
    crossings = [(g, float(f)) for g in range(G) for f in fluid.forward[g]]
    lag = [[steps_of(f + float(b), T) for b in fluid.backward[g]] for g, f in crossings]
    depth = max(map(max, lag)) + 2
    least, most = fluid.announced(protocol)
    floor = fluid.floor(protocol)
    fair = protocol.params()["initial"] * fluid.capacity if start is None else start[1]
    x = (floor / fluid.rtt if start is None else start[0])[[g for g, _ in crossings]]
    members = fluid.members[[g for g, _ in crossings]]
    links = np.concatenate(fluid.routes).astype(np.int64)
    never = 1 << 62

    def steps(time: float) -> int:
        return ceil(time / T - 1e-9) if np.isfinite(time) else never

    opens = [steps(fluid.start[g] + fluid.rtt[g] + f) if start is None else -1 for g, f in crossings]
    capacity = depth + 2 * _SLICE
    R = np.repeat(np.clip(fair, least, most)[:, None], capacity, axis=1)
    count = len(samples)
    memory = min(_MEMORY, ceil(float(samples[-1]) / T) + 2)
    at = samples / T
    at = np.where(np.abs(at - np.round(at)) < 1e-9 * np.maximum(1.0, at), np.round(at), at)
    zeros = {
        name: np.zeros(L)
        for name in ("queue", "before", "weighted", "idle", "loss", "arrived", "dropped", "peak", "left")
    }  # fmt: skip
    arrival = np.bincount(links, members * x, minlength=L) if start is not None else np.zeros(L)
    floats: dict[str, Any] = {
        "record": np.zeros(len(ARGUMENTS)), "params": laws.params, "capacity": fluid.capacity, "buffer": fluid.buffer,
        "least": least, "most": most, "R": R, "wait": np.zeros_like(R), "volume": np.zeros((L, memory)), **zeros,
        "arrival": arrival, "rtt": [steps_of(rtt, T) * T for rtt in fluid.rtt], "members": fluid.members,
        "floor": floor, "size": fluid.size, "delivered": np.zeros(G), "lost": np.zeros(G),
        "finished": np.full(G, np.nan), "x": x, "rate": np.zeros(len(crossings)), "total": np.zeros(len(crossings)),
        "samples": at, "out_links": np.zeros((count, 4, L)), "out_groups": np.zeros((count, 4, G)),
    }  # fmt: skip
    integers: dict[str, Any] = {
        "count": np.zeros(14), "crossings": np.cumsum([0, *map(len, fluid.routes)]), "crossing_link": links,
        "opens": opens, "stops": [steps(fluid.stop[g] + f) for g, f in crossings],
        "listens": np.concatenate(fluid.listens), "head": np.zeros(L),
        "first_lag": np.cumsum([0, *map(len, lag)])[:-1], "lag": np.concatenate(lag), "bottleneck": np.full(G, -1),
    }  # fmt: skip
    w = Fields(
        **{name: np.array(value, dtype=np.float64) for name, value in floats.items()},
        **{name: np.array(value, dtype=np.int64) for name, value in integers.items()},
    )
    w.record[_T] = T
    w.count[LAST] = ceil(at[-1])
    w.count[[SAMPLES, LINKS, GROUPS, ROUTER, SOURCE]] = count, L, G, laws.router, laws.source
    w.count[LONGEST] = protocol.scaling_rtt == "max"
    w.count[COMBINE] = ("min", "max", "sum").index(protocol.combine)
    w.count[[BASE, DEPTH, CAPACITY, MEMORY]] = -depth, depth, capacity, memory
    table = np.array([array.ctypes.data for array in w], dtype=np.int64)
    status = FINE
    try:
        while status == FINE and w.count[STEP] < w.count[LAST]:
            status = int(_advance(table, _SLICE))
            progress(float(w.count[STEP] / w.count[LAST]))
    except KeyboardInterrupt:
        status = INTERRUPTED
    rows = int(w.count[SAMPLE])
    by_link = w.out_links[:rows]
    by_group = w.out_groups[:rows]
    widths = np.diff(np.concatenate([[0.0], samples[:rows]]))[:, None]
    link_sums = np.diff(by_link[:, :2], axis=0, prepend=0.0)
    group_sums = np.diff(by_group[:, :3], axis=0, prepend=0.0)
    now = float(w.count[STEP]) * T
    reasons = ["completed", f"a law failed at t = {now:.9g} s", f"a rate is no longer finite at t = {now:.9g} s",
               f"a queue takes more than {_MEMORY} steps to drain at t = {now:.9g} s",
        "interrupted"]  # fmt: skip
    return Outcome(
        time=samples[:rows],
        rate=group_sums[:, 0] / widths,
        goodput=group_sums[:, 1] / widths,
        bottleneck=by_group[:, 3].astype(np.int64),
        queue=by_link[:, 2],
        queue_max=by_link[:, 3],
        arrival=link_sums[:, 0] / widths,
        drops=link_sums[:, 1],
        sent=w.total[w.crossings[:-1]],
        delivered=w.delivered,
        lost=w.lost,
        stopped_at=np.where(np.isfinite(w.finished), w.finished * T, fluid.stop),
        stats={"steps": int(w.count[STEP]), "rejected": 0},
        stopped=reasons[status],
    )
