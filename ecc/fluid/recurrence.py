"""The papers' discrete-time systems: one step a control interval, delays in whole intervals.

With D_i = ceil(RTT_i/T) split into D_il^-> steps from source i to link l and D_il^<- = D_i - D_il^-> >= 1 back, and n
counting intervals:

    x_i[n] = source_law(x_i[n - 1], x_i[n - D_i], R_i[n], R_i[n - 1]),   R_i[n] = min over its route of R_l[n - D_il^<-]
    y_l[n] = sum over flows of x_i[n - D_il^->]
    q_l[n] = q_l[n - 1] + T (y_l[n] - C_l)     within 0 and the buffer; the rest is lost
    R_l[n] = router_law(R_l[n - 1], y_l[n], y_l[n - 1], q_l[n], C_l, d_l[n], T, ...)     within the router's range

A router without a state, or with an announce law, says nothing new while nothing arrives; the rate in a header is the
one that arrives. N_l counts the flows whose packets follow link l, at least 1, and u_l is what the others bring; a link
that nobody follows is taken for empty. d_l is the mean of the RTTs that arrive, weighted by rates (or the largest):
those rounded up to intervals, and the waits that senders measured last. Rates are constant within an interval. Waiting
changes d_l but no delay D, and what one link loses another still sees: these are the papers' systems.
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
_R, _Y, _Y_PREV, _U, _N, _N_ALL, _Q, _C, _D, _T, _X, _X_RTT, _R_PREV, _OWN_RTT, _RESULT = range(len(ARGUMENTS))
# places in Fields.count
(
    STEP, LAST, SAMPLE, SAMPLES, LINKS, GROUPS, VOICES, LONGEST, COMBINE, ROUTER, SOURCE, ANNOUNCE, PRIORITY, REMEMBERS,
    BY_FLOW, MASK, MEMORY,
) = range(17)  # fmt: skip
COUNTS = 17
MINIMUM, MAXIMUM, SUM = range(3)
FINE, LAW_FAILED, NOT_FINITE, TOO_LONG, INTERRUPTED = range(5)
NEVER = 1 << 62


class Fields(NamedTuple):
    """The arrays of a recurrence (pointers, in compiled code). P crossings: a group and a link of its route.

    Histories are rings over `size` steps, a power of two: step n lies at n & mask.
    """

    record: Any  # arguments of a law
    params: Any
    capacity: Any  # (n_links,)
    buffer: Any
    least: Any  # range of the state
    most: Any
    state: Any  # (n_links,): what routers keep, if they do
    told: Any  # (n_voices, size)
    priority: Any  # (n_links, size), or of size 0
    wait: Any  # (n_links, size): how long what left at the end of a step had waited [s]
    volume: Any  # (n_links, memory): accepted in a step, by step modulo memory
    left: Any  # (n_links,): of the volume of the step that is being served
    queue: Any  # (n_links,)
    arrival: Any
    before: Any  # arrival one step ago
    weighted: Any  # RTTs, times the rates that carry them
    idle: Any  # RTTs of the flows seen, while nothing arrives
    mean: Any  # RTT of the router law; 0: not known
    followers: Any
    crossing: Any  # flows that cross the link
    other: Any  # arrivals of flows that follow another link
    loss: Any
    arrived: Any  # cumulative
    dropped: Any
    peak: Any
    rtt: Any  # (n_groups,)
    members: Any
    floor: Any  # least rate, as bits an RTT
    size: Any
    total: Any  # cumulative
    delivered: Any
    lost: Any
    finished: Any  # step in which all of a group's size was sent
    x: Any  # (n_groups, size): what the source law remembers
    rate: Any  # (n_groups, size): what is sent
    carried: Any  # (n_groups, size): RTT in the headers
    reaching: Any  # (P,): rate at the crossing
    samples: Any  # times, in steps
    out_links: Any  # (n_samples, 4, n_links): cumulative arrived and dropped, queue, peak
    out_groups: Any  # (n_samples, 4, n_groups): cumulative sent, delivered, lost, and the bottleneck
    count: Any
    crossings: Any  # (n_groups + 1,)
    crossing_link: Any  # (P,)
    forward: Any  # (P,): steps from the source to the link
    listens: Any  # (P,): 1 where the flow heeds the link
    voice: Any  # (P,): who speaks to the flow there ...
    speaker: Any  # (n_voices,): ... and for which link
    spoke: Any  # (n_links,): first step in which the router had something to say
    round_trip: Any  # (n_groups,): steps
    opens: Any  # (n_groups,): active after this step ...
    stops: Any  # ... until this one
    hears: Any  # (n_groups,): a header must have left after this step
    follows: Any  # (n_groups, size): link that packets follow
    head: Any  # (n_links,): step whose arrivals are being served


_FLOATS = Fields._fields.index("count")
_unpack = unpacker("f" * _FLOATS + "i" * (len(Fields._fields) - _FLOATS))


@compiled
def _heard(w: Any, g: int, n: int) -> Any:
    """What flows of a group hear in step n: (feedback, link it comes from or -1, RTT)."""
    c = w.count
    best, which, rank = 0.0, -1, 0.0
    rtt = w.rtt[g]
    for p in range(w.crossings[g], w.crossings[g + 1]):
        link = w.crossing_link[p]
        step = n - w.round_trip[g] + w.forward[p]
        at = link * (c[MASK] + 1) + (step & c[MASK])
        rtt += w.wait[at]
        if w.listens[p] != 0 and step >= w.spoke[link] and n - w.round_trip[g] > w.hears[g]:
            value = w.told[w.voice[p] * (c[MASK] + 1) + (step & c[MASK])]
            urgency = w.priority[at] if c[PRIORITY] != 0 else 0.0
            if which < 0:
                best, which, rank = value, link, urgency
            elif c[COMBINE] == SUM:
                best += value
            elif urgency > rank or (
                urgency == rank
                and ((c[COMBINE] == MINIMUM and value < best) or (c[COMBINE] == MAXIMUM and value > best))
            ):
                best, which, rank = value, link, urgency
    return best, which, rtt


@compiled
def _send(w: Any, g: int) -> Any:
    """What flows of a group send in this step; a status."""
    c = w.count
    n, ring = c[STEP], g * (c[MASK] + 1)
    now = ring + (n & c[MASK])
    x = w.x[ring + ((n - 1) & c[MASK])]
    rate = 0.0
    R, which, rtt = _heard(w, g, n)
    if n > w.opens[g] and n <= w.stops[g]:
        if which >= 0:
            before, earlier, _ = _heard(w, g, n - 1)
            w.record[_R] = R
            w.record[_R_PREV] = before if earlier >= 0 else R
            w.record[_X] = x
            w.record[_OWN_RTT] = rtt
            w.record[_X_RTT] = w.x[ring + ((n - w.round_trip[g]) & c[MASK])]
            if call(c[SOURCE], (w.record, w.record, w.params, w.record)) != 0:
                return LAW_FAILED
            x = max(w.record[_RESULT], w.floor[g] / rtt)
        rate = x
        T = w.record[_T]
        if rate * T >= w.size[g] - w.total[g]:
            rate = (w.size[g] - w.total[g]) / T
            w.stops[g] = n
            w.finished[g] = n
    w.x[now] = x
    w.rate[now] = rate
    w.carried[now] = rtt
    w.follows[now] = which if n > w.opens[g] else -1
    w.total[g] += rate * w.record[_T]
    return FINE if np.isfinite(rate) else NOT_FINITE


@compiled
def _arrive(w: Any, g: int) -> None:
    """Add what flows of a group bring to the links of their route in this step."""
    c = w.count
    for p in range(w.crossings[g], w.crossings[g + 1]):
        link = w.crossing_link[p]
        sent = c[STEP] - w.forward[p]
        at = g * (c[MASK] + 1) + (sent & c[MASK])
        rate, rtt = w.rate[at], w.carried[at]
        w.reaching[p] = rate
        flow = rate * w.members[g]
        w.arrival[link] += flow
        if c[LONGEST] == 0:
            w.weighted[link] += flow * rtt
        elif rate > 0.0:
            w.weighted[link] = max(w.weighted[link], rtt)
        if sent > w.opens[g]:
            w.idle[link] = max(w.idle[link], rtt)
            if sent <= w.stops[g]:
                w.crossing[link] += w.members[g]
                if w.follows[at] == link or c[COMBINE] == SUM:
                    w.followers[link] += w.members[g]
                else:
                    w.other[link] += flow


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
def _queue(w: Any, link: int) -> Any:
    """Queue up what has arrived; a status."""
    c = w.count
    T, C, y = w.record[_T], w.capacity[link], w.arrival[link]
    w.arrived[link] += y * T
    held = w.queue[link]
    queue = max(0.0, held + T * (y - C))
    excess = max(0.0, queue - w.buffer[link])
    w.loss[link] = 0.0
    if excess > 0.0:
        w.dropped[link] += excess
        w.loss[link] = min(1.0, excess / (y * T))
        queue = w.buffer[link]
    w.queue[link] = queue
    waited = _queue_up(w, link, y * T - excess, held + y * T - excess - queue)
    w.peak[link] = max(w.peak[link], queue)
    w.wait[link * (c[MASK] + 1) + (c[STEP] & c[MASK])] = waited * T
    return FINE if waited >= 0.0 else TOO_LONG


@compiled
def _ask(w: Any, link: int, law: int) -> Any:
    """Call a law of a router; a status. The result is in the record."""
    w.record[_R] = w.state[link]
    w.record[_Y] = w.arrival[link]
    w.record[_Y_PREV] = w.before[link]
    w.record[_U] = w.other[link] if w.followers[link] > 0.0 else 0.0
    w.record[_N] = max(1.0, w.followers[link])
    w.record[_N_ALL] = max(1.0, w.crossing[link])
    w.record[_Q] = w.queue[link]
    w.record[_C] = w.capacity[link]
    w.record[_D] = w.mean[link]
    if call(law, (w.record, w.record, w.params, w.record)) != 0:
        return LAW_FAILED
    return FINE if np.isfinite(w.record[_RESULT]) else NOT_FINITE


@compiled
def _keep(w: Any, link: int) -> Any:
    """What a router keeps after a step, and its priority; a status."""
    c = w.count
    n, ring = c[STEP], link * (c[MASK] + 1)
    w.mean[link] = w.idle[link]
    if w.arrival[link] > 0.0:
        w.spoke[link] = min(w.spoke[link], n)
        w.mean[link] = w.weighted[link] if c[LONGEST] != 0 else w.weighted[link] / w.arrival[link]
    if c[PRIORITY] != 0:
        w.priority[ring + (n & c[MASK])] = w.priority[ring + ((n - 1) & c[MASK])]
        if w.arrival[link] > 0.0:
            status = _ask(w, link, c[PRIORITY])
            if status != FINE:
                return status
            w.priority[ring + (n & c[MASK])] = w.record[_RESULT]
    if c[REMEMBERS] != 0 and w.mean[link] > 0.0:
        status = _ask(w, link, c[ROUTER])
        if status != FINE:
            return status
        w.state[link] = min(max(w.record[_RESULT], w.least[link]), w.most[link])
    return FINE


@compiled
def _say(w: Any, voice: int) -> Any:
    """What a voice says after a step; a status."""
    c = w.count
    n, ring, link = c[STEP], voice * (c[MASK] + 1), w.speaker[voice]
    if c[REMEMBERS] != 0 and c[ANNOUNCE] == 0:
        w.told[ring + (n & c[MASK])] = w.state[link]
    elif w.arrival[link] > 0.0:
        w.record[_X] = w.reaching[voice] if c[BY_FLOW] != 0 else 0.0
        status = _ask(w, link, c[ANNOUNCE] if c[ANNOUNCE] != 0 else c[ROUTER])
        if status != FINE:
            return status
        w.told[ring + (n & c[MASK])] = w.record[_RESULT]
    else:
        w.told[ring + (n & c[MASK])] = w.told[ring + ((n - 1) & c[MASK])]
    return FINE


@compiled
def _gone(w: Any, g: int) -> Any:
    """Rate that a flow loses at all links of its route."""
    gone = 0.0
    for p in range(w.crossings[g], w.crossings[g + 1]):
        gone += w.reaching[p] * w.loss[w.crossing_link[p]]
    return gone


@compiled
def _step(w: Any) -> Any:
    """One control interval; a status."""
    c = w.count
    links, groups, T = c[LINKS], c[GROUPS], w.record[_T]
    for link in range(links):
        w.before[link] = w.arrival[link]
        w.arrival[link] = 0.0
        w.weighted[link] = 0.0
        w.idle[link] = 0.0
        w.followers[link] = 0.0
        w.crossing[link] = 0.0
        w.other[link] = 0.0
    for g in range(groups):
        status = _send(w, g)
        if status != FINE:
            return status
        _arrive(w, g)
    for link in range(links):
        status = _queue(w, link)
        if status != FINE:
            return status
        status = _keep(w, link)
        if status != FINE:
            return status
    for voice in range(c[VOICES]):
        status = _say(w, voice)
        if status != FINE:
            return status
    for g in range(groups):
        gone = _gone(w, g)
        w.delivered[g] += max(0.0, w.reaching[w.crossings[g + 1] - 1] - gone) * T
        w.lost[g] += gone * T
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
        now = g * (c[MASK] + 1) + (c[STEP] & c[MASK])
        gone = _gone(w, g)
        w.out_groups[at] = w.total[g] - rest * w.rate[now]
        w.out_groups[at + groups] = w.delivered[g] - rest * max(0.0, w.reaching[w.crossings[g + 1] - 1] - gone)
        w.out_groups[at + 2 * groups] = w.lost[g] - rest * gone
        w.out_groups[at + 3 * groups] = w.follows[now] if c[COMBINE] != SUM else -1


@entry
def _advance(table: Any, steps: int) -> Any:
    """Take at most `steps` steps, not beyond the last one; a status."""
    w = Fields(*_unpack(table))
    c = w.count
    end = min(c[LAST], c[STEP] + steps)
    while c[STEP] < end:
        c[STEP] += 1
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
        Outcome.
    """
    L, G, V = fluid.n_links, fluid.n_groups, len(beginning.told)
    T = float(protocol.params()["interval"])
    around = np.array([steps_of(rtt, T) for rtt in fluid.rtt])
    forward = [min(ceil(f / T - 1e-9), around[g] - 1) for g in range(G) for f in fluid.forward[g]]
    size = 1 << int(around.max() + 2).bit_length()
    links = np.concatenate(fluid.routes).astype(np.int64)

    def steps(time: float) -> int:
        return ceil(time / T - 1e-9) if np.isfinite(time) else (NEVER if time > 0.0 else -NEVER)

    def always(values: FloatArray) -> FloatArray:
        return np.repeat(values[:, None], size, axis=1)

    opens = [steps(time) for time in beginning.opens]
    sending = np.isneginf(beginning.opens)
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
    rtt = around * T
    floats: dict[str, Any] = {
        "record": np.zeros(len(ARGUMENTS)), "params": laws.params, "capacity": fluid.capacity, "buffer": fluid.buffer,
        "least": beginning.least, "most": beginning.most, "state": beginning.state, "told": always(beginning.told),
        "priority": always(beginning.priority) if laws.priority else [], "wait": np.zeros((L, size)),
        "volume": np.zeros((L, memory)), **zeros, "arrival": beginning.measured[0], "rtt": rtt,
        "members": fluid.members, "floor": fluid.floor(protocol), "size": fluid.size, "total": np.zeros(G),
        "delivered": np.zeros(G), "lost": np.zeros(G), "finished": np.full(G, np.nan), "x": always(beginning.x),
        "rate": always(np.where(sending, beginning.x, 0.0)), "carried": always(rtt), "reaching": np.zeros(len(links)),
        "samples": at, "out_links": np.zeros((count, 4, L)), "out_groups": np.zeros((count, 4, G)),
    }  # fmt: skip
    integers: dict[str, Any] = {
        "count": np.zeros(COUNTS), "crossings": np.cumsum([0, *map(len, fluid.routes)]), "crossing_link": links,
        "forward": forward, "listens": np.concatenate(fluid.listens), "voice": beginning.voice,
        "speaker": links if laws.by_flow else np.arange(L), "round_trip": around, "opens": opens,
        "spoke": np.full(L, NEVER if beginning.measures_first else -NEVER),
        "stops": [steps(time) for time in fluid.stop],
        "hears": np.full(G, -NEVER) if beginning.greets else opens,
        "follows": np.repeat(beginning.follows[:, None], size, axis=1), "head": np.zeros(L),
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
    w.count[[MASK, MEMORY]] = size - 1, memory
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
        sent=w.total,
        delivered=w.delivered,
        lost=w.lost,
        stopped_at=np.where(np.isfinite(w.finished), w.finished * T, fluid.stop),
        stats={"steps": int(w.count[STEP]), "rejected": 0},
        stopped=reasons[status],
    )
