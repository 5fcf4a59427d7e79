"""The papers' discrete-time systems: one step a control interval, delays in whole intervals.

With D = ceil((forward + backward delay)/T) from link to source to link (at least 1; the RTT where both are the same),
x_il the rate of flow i as it reaches link l, and n counting intervals:

    x_il[n] = source_law(x_il[n - 1], x_il[n - D_i], R_i[n - D], R_i[n - D - 1]),   y_l[n] = sum over flows of x_il[n]
    q_l[n]  = q_l[n - 1] + T (y_l[n] - C_l)     within 0 and the buffer; the rest is lost
    R_l[n]  = router_law(R_l[n - 1], y_l[n], y_l[n - 1], q_l[n], C_l, d_l[n], T, ...)     within the router's range

D_i is the RTT in steps. A router without a state, or with an announce law, says nothing new while nothing arrives; the
rate in a header is the one that arrives. N_l counts the flows whose packets follow link l, at least 1, and u_l is what
the others bring. d_l is the mean of the RTTs that arrive, weighted by rates (or the largest): those rounded up to
intervals, and the waits that senders measured last. Rates are constant within an interval. Waiting changes d_l but no
delay D, and what one link loses another still sees: these are the papers' systems.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.closed_loop import steps_of
from ecc.fluid.beginning import Beginning
from ecc.fluid.compiled import call, compiled, entry, unpacker
from ecc.fluid.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.model import FluidNetwork
from ecc.fluid.outcome import Outcome
from ecc.models.base import Protocol

__all__ = ["run_recurrence"]

FloatArray = NDArray[np.float64]

_SLICE = 4096  # steps between two reports of progress
_MEMORY = 1 << 16  # steps: what a queue can hold
_R, _Y, _Y_PREV, _U, _N, _N_ALL, _Q, _C, _D, _T, _X, _X_RTT, _R_PREV, _RESULT = range(len(ARGUMENTS))
# places in Fields.count
(
    STEP, LAST, SAMPLE, SAMPLES, LINKS, GROUPS, LONGEST, COMBINE, ROUTER, SOURCE, ANNOUNCE, PRIORITY, REMEMBERS, BASE,
    DEPTH, CAPACITY, MEMORY, PAST, VOICES, BY_FLOW,
) = range(20)  # fmt: skip
COUNTS = 20
FINE, LAW_FAILED, NOT_FINITE, TOO_LONG, INTERRUPTED = range(5)


class Fields(NamedTuple):
    """The arrays of a recurrence (pointers, in compiled code). P crossings: a group and a link of its route."""

    record: Any  # arguments of a law
    params: Any
    capacity: Any  # (n_links,)
    buffer: Any
    least: Any  # range of R
    most: Any
    state: Any  # (n_links,): what routers keep, if they do
    told: Any  # (n_voices, capacity of the history)
    priority: Any  # (n_links, capacity), or of size 0
    mean: Any  # (n_links,): RTT of the router law; 0: not known
    followers: Any  # (n_links,)
    crossing: Any  # (n_links,): flows that cross the link
    other: Any  # (n_links,): arrivals of flows that follow another link
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
    past: Any  # (P, past): of earlier steps, by step modulo past
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
    voice: Any  # (P,): who speaks to the flow there ...
    speaker: Any  # (n_voices,): ... and for which link
    speaks: Any  # (P,): step of the first header that has something to say
    round_trip: Any  # (P,): steps
    first_lag: Any  # (P,): where the lags of a crossing begin in `lag`
    lag: Any  # steps from each link of the route to a crossing
    head: Any  # (n_links,): step whose arrivals are being served
    bottleneck: Any  # (n_groups,)


_unpack = unpacker("f" * Fields._fields.index("count") + "i" * (len(Fields._fields) - Fields._fields.index("count")))


@compiled
def _heard(w: Any, g: int, p: int, back: int) -> Any:
    """What crossing p acts on, `back` steps before the running one: (feedback, link it comes from, RTT)."""
    c = w.count
    best, which, rank = 0.0, -1, 0.0
    first = w.crossings[g]
    rtt = w.rtt[g]
    for k in range(first, w.crossings[g + 1]):
        link = w.crossing_link[k]
        step = c[STEP] - w.lag[w.first_lag[p] + k - first] - back
        at = link * c[CAPACITY] + step - c[BASE]
        rtt += w.wait[at]
        if w.listens[k] != 0 and step >= w.speaks[k]:
            value = w.told[w.voice[k] * c[CAPACITY] + step - c[BASE]]
            urgency = w.priority[at] if c[PRIORITY] != 0 else 0.0
            if which < 0:
                best, which, rank = value, link, urgency
            elif c[COMBINE] == 2:
                best += value
            elif urgency > rank or (
                urgency == rank and ((c[COMBINE] == 0 and value < best) or (c[COMBINE] == 1 and value > best))
            ):
                best, which, rank = value, link, urgency
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
def _router(w: Any, link: int, law: int) -> Any:
    """Call a law of a router; a status. The result is in the record."""
    w.record[_R] = w.state[link]
    w.record[_Y] = w.arrival[link]
    w.record[_Y_PREV] = w.before[link]
    w.record[_U] = w.other[link]
    w.record[_N] = max(1.0, w.followers[link])
    w.record[_N_ALL] = max(1.0, w.crossing[link])
    w.record[_Q] = w.queue[link]
    w.record[_C] = w.capacity[link]
    w.record[_D] = w.mean[link]
    if call(law, (w.record, w.record, w.params, w.record)) != 0:
        return LAW_FAILED
    return FINE if np.isfinite(w.record[_RESULT]) else NOT_FINITE


@compiled
def _speak(w: Any, link: int, at: int) -> Any:
    """What a router keeps and says after a step; a status."""
    c = w.count
    if c[PRIORITY] != 0:
        w.priority[link * c[CAPACITY] + at] = w.priority[link * c[CAPACITY] + at - 1]
        if w.arrival[link] > 0.0:
            status = _router(w, link, c[PRIORITY])
            if status != FINE:
                return status
            w.priority[link * c[CAPACITY] + at] = w.record[_RESULT]
    if c[REMEMBERS] != 0 and w.mean[link] > 0.0:
        status = _router(w, link, c[ROUTER])
        if status != FINE:
            return status
        w.state[link] = min(max(w.record[_RESULT], w.least[link]), w.most[link])
    return FINE


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
        w.followers[link] = 0.0
        w.crossing[link] = 0.0
        w.other[link] = 0.0
    for g in range(groups):
        for p in range(w.crossings[g], w.crossings[g + 1]):
            link = w.crossing_link[p]
            rate = 0.0
            R, which, rtt = _heard(w, g, p, 0)
            if n > w.opens[p] and n <= w.stops[p]:
                rate = w.x[p]
                if which >= 0:
                    before, earlier, _ = _heard(w, g, p, 1)
                    w.record[_R] = R
                    w.record[_R_PREV] = before if earlier >= 0 else R
                    w.record[_X] = w.x[p]
                    w.record[_X_RTT] = w.past[p * c[PAST] + (n - w.round_trip[p]) % c[PAST]]
                    if call(c[SOURCE], (w.record, w.record, w.params, w.record)) != 0:
                        return LAW_FAILED
                    rate = max(w.record[_RESULT], w.floor[g] / rtt)
                if p == w.crossings[g]:
                    w.bottleneck[g] = which if c[COMBINE] != 2 else -1
                w.x[p] = rate
                w.crossing[link] += w.members[g]
                if which == link or c[COMBINE] == 2:
                    w.followers[link] += w.members[g]
                if rate * T >= w.size[g] - w.total[p]:
                    rate = (w.size[g] - w.total[p]) / T
                    w.stops[p] = n
                    if p == w.crossings[g]:
                        w.finished[g] = n
            w.past[p * c[PAST] + n % c[PAST]] = w.x[p]
            w.rate[p] = rate
            w.total[p] += rate * T
            flow = rate * w.members[g]
            w.arrival[link] += flow
            if which != link and c[COMBINE] != 2:
                w.other[link] += flow
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
        w.wait[link * c[CAPACITY] + n - c[BASE]] = waited * T
        w.mean[link] = w.idle[link]
        if y > 0.0:
            w.mean[link] = w.weighted[link] if c[LONGEST] != 0 else w.weighted[link] / y
        status = _speak(w, link, n - c[BASE])
        if status != FINE:
            return status
    for voice in range(c[VOICES]):
        at = voice * c[CAPACITY] + n - c[BASE]
        link = w.speaker[voice]
        if c[REMEMBERS] != 0 and c[ANNOUNCE] == 0:
            w.told[at] = w.state[link]
        elif w.arrival[link] > 0.0:
            w.record[_X] = w.rate[voice] if c[BY_FLOW] != 0 else 0.0
            status = _router(w, link, c[ANNOUNCE] if c[ANNOUNCE] != 0 else c[ROUTER])
            if status != FINE:
                return status
            w.told[at] = w.record[_RESULT]
        else:
            w.told[at] = w.told[at - 1]
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


@compiled
def _move(history: Any, rows: int, capacity: int, depth: int, shift: int) -> None:
    """Keep `depth` steps of a history, from `shift` on."""
    for row in range(rows):
        for k in range(depth):
            history[row * capacity + k] = history[row * capacity + k + shift]


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
            _move(w.told, c[VOICES], c[CAPACITY], c[DEPTH], shift)
            _move(w.wait, c[LINKS], c[CAPACITY], c[DEPTH], shift)
            if c[PRIORITY] != 0:
                _move(w.priority, c[LINKS], c[CAPACITY], c[DEPTH], shift)
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
    laws: CompiledLaws,
    beginning: Beginning,
    samples: FloatArray,
    progress: Callable[[float], None],
) -> Outcome:
    """Run the recurrence of a network.

    Parameters
        protocol : Protocol. fluid : FluidNetwork. laws : CompiledLaws. beginning : Beginning.
        samples : increasing, s. progress : called with the share done.
    Returns
        Outcome; rates are those at the first link of a route.
    """
    L, G, V = fluid.n_links, fluid.n_groups, len(beginning.told)
    T = float(protocol.params()["interval"])
    crossings = [(g, float(f)) for g in range(G) for f in fluid.forward[g]]
    lag = [[steps_of(f + float(b), T) for b in fluid.backward[g]] for g, f in crossings]
    depth = max(map(max, lag)) + 2
    floor = fluid.floor(protocol)
    owner = [g for g, _ in crossings]
    x = beginning.x[owner]
    round_trip = [steps_of(fluid.rtt[g], T) for g in owner]
    past = max(round_trip) + 1
    links = np.concatenate(fluid.routes).astype(np.int64)
    never = 1 << 62

    def steps(time: float) -> int:
        return ceil(time / T - 1e-9) if np.isfinite(time) else (never if time > 0.0 else -never)

    opens = [steps(beginning.opens[g] + f) for g, f in crossings]
    capacity = depth + 2 * _SLICE

    def always(values: FloatArray) -> FloatArray:
        return np.repeat(values[:, None], capacity, axis=1)

    count = len(samples)
    memory = min(_MEMORY, ceil(float(samples[-1]) / T) + 2)
    at = samples / T
    at = np.where(np.abs(at - np.round(at)) < 1e-9 * np.maximum(1.0, at), np.round(at), at)
    zeros = {
        name: np.zeros(L)
        for name in (
            "queue", "before", "weighted", "idle", "loss", "arrived", "dropped", "peak", "left", "mean", "followers",
            "crossing", "other",
        )
    }  # fmt: skip
    floats: dict[str, Any] = {
        "record": np.zeros(len(ARGUMENTS)), "params": laws.params, "capacity": fluid.capacity, "buffer": fluid.buffer,
        "least": beginning.least, "most": beginning.most, "state": beginning.state, "told": always(beginning.told),
        "priority": always(beginning.priority) if laws.priority else [], "wait": np.zeros((L, capacity)),
        "volume": np.zeros((L, memory)), **zeros, "arrival": beginning.measured[0],
        "rtt": [steps_of(rtt, T) * T for rtt in fluid.rtt], "members": fluid.members,
        "floor": floor, "size": fluid.size, "delivered": np.zeros(G), "lost": np.zeros(G),
        "finished": np.full(G, np.nan), "x": x,
        "past": np.repeat(x[:, None], past, axis=1),
        "rate": np.zeros(len(crossings)), "total": np.zeros(len(crossings)),
        "samples": at, "out_links": np.zeros((count, 4, L)), "out_groups": np.zeros((count, 4, G)),
    }  # fmt: skip
    integers: dict[str, Any] = {
        "count": np.zeros(COUNTS), "crossings": np.cumsum([0, *map(len, fluid.routes)]), "crossing_link": links,
        "opens": opens, "stops": [steps(fluid.stop[g] + f) for g, f in crossings],
        "listens": np.concatenate(fluid.listens), "voice": beginning.voice, "round_trip": round_trip,
        "speaker": links if laws.by_flow else np.arange(L),
        "speaks": [steps(time) for time in beginning.speaks], "head": np.zeros(L),
        "first_lag": np.cumsum([0, *map(len, lag)])[:-1], "lag": np.concatenate(lag), "bottleneck": np.full(G, -1),
    }  # fmt: skip
    w = Fields(
        **{name: np.array(value, dtype=np.float64) for name, value in floats.items()},
        **{name: np.array(value, dtype=np.int64) for name, value in integers.items()},
    )
    w.record[_T] = T
    w.count[LAST] = ceil(at[-1])
    w.count[[SAMPLES, LINKS, GROUPS, VOICES]] = count, L, G, V
    w.count[[ROUTER, SOURCE, ANNOUNCE, PRIORITY]] = laws.router, laws.source, laws.announce, laws.priority
    w.count[[REMEMBERS, BY_FLOW]] = laws.remembers, laws.by_flow
    w.count[LONGEST] = protocol.scaling_rtt == "max"
    w.count[COMBINE] = ("min", "max", "sum").index(protocol.combine)
    w.count[[BASE, DEPTH, CAPACITY, MEMORY, PAST]] = -depth, depth, capacity, memory, past
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
