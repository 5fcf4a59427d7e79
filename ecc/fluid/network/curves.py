"""Cumulative curves of a network on a grid of times: bits sent, arrived at each queue, departed from it, and dropped.

Queues are first in, first out. Curves are linear between points of the grid; a position on the grid is a row number,
possibly fractional. A crossing c is a group of flows at a link of its path; the crossings of a group are consecutive.
For link l with capacity C_l,

    out_l(t + h) = min(in_l(t + h), out_l(t) + C_l h)     a full buffer drops the excess
    out_l(u) = in_l(e)                                    data that leave at u entered at e

The drops of a link are shared among its crossings in proportion to their arrivals. Each step has the same
order: sources look back along their paths (`look_back`), fluid arrives at the queues (`arrive`), links serve (`serve`),
and drops are subtracted from the arrivals, before these travel to receivers (`drop`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, inlined, optimized
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.groups import MIN_SHARE, FluidNetwork
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result

__all__ = [
    "OTHER",
    "Curves",
    "Paths",
    "arrive",
    "at",
    "at_equilibrium",
    "clear",
    "curves_of",
    "drop",
    "entered",
    "look_back",
    "passed",
    "paths_of",
    "reached",
    "result_of",
    "serve",
]

FloatArray = NDArray[np.float64]

_BACK, _ONWARD, _RECEIVED, OTHER = range(4)
"""Purposes of looking back through a queue, each with separate hints; the last is free for the model."""


class Paths(NamedTuple):
    """Constants of a run: crossings, delays between them in steps of the grid, and the shares that are not lost."""

    first: Integers  # (n_groups + 1,): the crossings of group g are those from first[g] to first[g + 1]
    owner: Integers  # (n_crossings,): group
    links: Integers  # (n_crossings,)
    responds: Integers  # (n_crossings,): whether the group responds to feedback of the link
    members: Floats  # (n_groups,): flows
    hop: Floats  # (n_crossings,): delay from the upstream queue, or from the sender
    back: Floats  # (n_groups,): delay from the last queue back to the sender
    wire: Floats  # (n_groups,): delay from the last queue to the receiver
    reaches: Floats  # (n_crossings,): share of the data sent that random losses leave for the queue
    pass_share: Floats  # (n_crossings,): share of the departures from the queue that reach the next one
    survives: Floats  # (n_groups,): share of the data sent that random losses leave
    acks_kept: Floats  # (n_groups,): share of the ACKs that random losses leave
    packet: Floats  # (n_groups,) [bit]
    acknowledged: Floats  # (n_groups,) [bit]: by an ACK
    steady: Floats  # (n_groups,) [bit/s]: rate of unresponsive flows, 0 of others
    start: Floats  # (n_groups,) [s]
    stop: Floats  # (n_groups,) [s]; also set when a flow has sent its size
    size: Floats  # (n_groups,) [bit]: final value of `sent`
    capacity: FloatRows  # (n_links, n_times) [bit/s], as routers know it
    served: FloatRows  # (n_links, n_times) [bit]: maximum service since 0 s
    buffer: Floats  # (n_links,) [bit]


class Curves(NamedTuple):
    """State of a run, in bits; columns are times of the grid."""

    sent: FloatRows  # (n_groups, n_times): per flow of the group, like all below but those of links
    received: FloatRows  # (n_groups, n_times)
    bottleneck: IntegerRows  # (n_groups, n_times): link that the group is bottlenecked at, -1 for none
    lost: Floats  # (n_groups,)
    arrived: FloatRows  # (n_crossings, n_times): accepted by the queue
    origin: FloatRows  # (n_crossings, n_times): position at which the arrivals were sent
    crossing_drops: FloatRows  # (n_crossings, n_times), or (n_crossings, 0) if the model does not use it
    offered: Floats  # (n_crossings,): arrived at the queue, accepted or dropped
    into: FloatRows  # (n_links, n_times)
    out: FloatRows  # (n_links, n_times)
    link_drops: FloatRows  # (n_links, n_times)
    incoming: Floats  # (n_links,): arrivals in this step
    entered_at: Floats  # (n_crossings,): position at which the data acknowledged now entered the queue
    left_at: Floats  # (n_crossings,): position at which the data acknowledged now left the queue
    hints: IntegerRows  # (4, n_crossings): row in which the last search ended
    head_drops: FloatRows  # (n_crossings, n_times): dropped at the head of the queue; or (n_crossings, 0)


def paths_of(fluid: FluidNetwork, grid: Grid) -> Paths:
    """Return the paths of a network.

    Parameters
    ----------
    fluid : FluidNetwork
    grid : Grid
    """
    h = grid.h
    first = np.cumsum([0, *map(len, fluid.routes)])
    hop = np.concatenate([np.diff(delays, prepend=0.0) for delays in fluid.forward]) / h
    reaches = [np.array([*fluid.reaches[g], fluid.survives[g]]) for g in range(fluid.n_groups)]
    served, capacity = fluid.service(h * (np.arange(grid.rows) - grid.zero + 1.0))
    return Paths(
        first=first,
        owner=np.repeat(np.arange(fluid.n_groups), np.diff(first)),
        links=np.concatenate(fluid.routes).astype(np.int64),
        responds=np.concatenate(fluid.responds).astype(np.int64),
        members=fluid.members,
        hop=hop,
        back=np.array([delays[-1] for delays in fluid.backward]) / h,
        wire=fluid.wire / h,
        reaches=np.concatenate(fluid.reaches),
        pass_share=np.concatenate([r[1:] / np.maximum(r[:-1], MIN_SHARE) for r in reaches]),
        survives=fluid.survives,
        acks_kept=fluid.acks_kept,
        packet=8.0 * fluid.packet_size,
        acknowledged=8.0 * fluid.acknowledged,
        steady=fluid.steady,
        start=fluid.start.copy(),
        stop=fluid.stop.copy(),
        size=fluid.size.copy(),
        capacity=capacity,
        served=served,
        buffer=fluid.buffer,
    )


def curves_of(
    paths: Paths, fluid: FluidNetwork, grid: Grid, keeps_drops: bool = False, head_drops: bool = False
) -> Curves:
    """Return the curves of an empty network.

    Parameters
    ----------
    paths : Paths
    fluid : FluidNetwork
    grid : Grid
    keeps_drops : bool, optional
        Whether the drops of each crossing are stored as a curve; if so, `origin` is empty.
    head_drops : bool, optional
        Whether there may be drops at the heads of queues.
    """
    n, zero = grid.rows, grid.zero
    L, G, P = len(paths.buffer), len(paths.members), len(paths.links)
    origin, drops = np.zeros((P, 0 if keeps_drops else n)), np.zeros((P, n if keeps_drops else 0))
    if not keeps_drops:
        origin[:, :zero] = np.arange(zero) - np.concatenate(fluid.forward)[:, None] / grid.h
    (sent, received), (into, out, link_drops) = np.zeros((2, G, n)), np.zeros((3, L, n))
    return Curves(
        sent,
        received,
        np.full((G, n), -1, dtype=np.int64),
        np.zeros(G),
        np.zeros((P, n)),
        origin,
        drops,
        np.zeros(P),
        into,
        out,
        link_drops,
        np.zeros(L),
        np.zeros(P),
        np.zeros(P),
        np.zeros((4, P), dtype=np.int64),
        np.zeros((P, n if head_drops else 0)),
    )


def at_equilibrium(
    paths: Paths, curves: Curves, problem: Problem, grid: Grid, x: FloatArray, queue: FloatArray
) -> NDArray[np.int64]:
    """Set the bits sent by all flows for all t < 0; return the crossing at which each group is bottlenecked.

    Parameters
    ----------
    paths, curves : Paths, Curves
        Paths and curves of an empty network, changed in place.
    problem : Problem
        Problem with an equilibrium.
    grid : Grid
    x : ndarray, shape (n_groups,), bit/s
    queue : ndarray, shape (n_links,), bit
    """
    fluid, point, h, zero = problem.fluid, problem.point, grid.h, grid.zero
    assert point is not None
    paths.start[:] = -np.inf
    waits = queue / fluid.capacity / h
    owner: NDArray[np.int64] = paths.first[:-1].copy()
    for g, (route, flow) in enumerate(zip(fluid.routes, problem.fluid.first_flow, strict=True)):
        bottleneck = int(point.bottleneck[flow])
        owner[g] += route.index(bottleneck) if bottleneck >= 0 else 0
        curves.bottleneck[g, :zero] = bottleneck
        curves.sent[g, :zero] = x[g] * h * np.arange(zero)
        late = np.cumsum([0.0, *waits[list(route)]])
        for c in range(paths.first[g], paths.first[g + 1]):
            curves.origin[c, :zero] -= late[c - paths.first[g]]
            curves.arrived[c, :zero] = x[g] * h * curves.origin[c, :zero]
            curves.into[paths.links[c], :zero] += fluid.members[g] * curves.arrived[c, :zero]
        curves.received[g, :zero] = curves.arrived[c, :zero] - x[g] * (fluid.wire[g] + h * waits[paths.links[c]])
    curves.out[:, :zero] = curves.into[:, :zero] - queue[:, None]
    curves.offered[:] = curves.arrived[:, zero - 1]
    paths.size[:] += curves.sent[:, zero - 1]
    return owner


def result_of(grid: Grid, paths: Paths, curves: Curves) -> Result:
    """Return the result of a run.

    Parameters
    ----------
    grid : Grid
        Grid after its `run`.
    paths : Paths
    curves : Curves
    """
    width, ends = float(grid.samples[0]), grid.ends()
    rows = np.rint(ends).astype(np.int64)
    waiting = np.clip(curves.into - curves.out, 0.0, paths.buffer[:, None])
    queue = grid.values(waiting)[1:]
    peaks = [waiting[:, min(a + 1, b) : b + 1].max(axis=1) for a, b in zip(rows[:-1], rows[1:], strict=True)]
    last = float(grid.samples[len(ends) - 2]) if len(ends) > 1 else 0.0
    sent, received = grid.sums(curves.sent), grid.sums(curves.received)
    return Result(
        time=grid.samples[: len(ends) - 1],
        rate=sent / width,
        goodput=received / width,
        bottleneck=grid.at_ends(curves.bottleneck),
        queue=queue,
        queue_max=np.maximum(queue, np.array(peaks).reshape(-1, len(waiting))),
        arrival=grid.sums(curves.into + curves.link_drops) / width,
        drops=grid.sums(curves.link_drops),
        sent=sent.sum(axis=0),
        delivered=received.sum(axis=0),
        lost=curves.lost,
        stopped_at=np.where(paths.stop <= last, paths.stop, np.nan),
        stats={"steps": grid.reached - grid.zero},
        stopped=grid.stopped,
        recorded=grid.recorded,
    )


@optimized
def at(curve: Any, position: float) -> Any:
    """Return the value of a curve between points of the grid."""
    i = max(0, min(int(position), len(curve) - 2))
    return curve[i] + (position - i) * (curve[i + 1] - curve[i])


@optimized
def entered(into: Any, out: Any, u: float, hints: Any, k: int) -> Any:
    """Return the position on the grid at which the data that leave a queue at position u entered it."""
    level = at(out, u)
    if at(into, u) <= level:
        return u
    j = hints[k]
    while into[j + 1] <= level:
        j += 1
    hints[k] = j
    return j + (level - into[j]) / (into[j + 1] - into[j])


@inlined
def look_back(paths: Any, curves: Any, g: int, i: int) -> Any:
    """Trace the data acknowledged at time i back, into `entered_at` and `left_at`; return the position of sending."""
    u = min(i - paths.back[g], i - 1.0)
    for c in range(paths.first[g + 1] - 1, paths.first[g] - 1, -1):
        link = paths.links[c]
        curves.left_at[c] = u
        curves.entered_at[c] = entered(curves.into[link], curves.out[link], u, curves.hints[_BACK], c)
        u = curves.entered_at[c] - paths.hop[c]
    return u


@inlined
def passed(paths: Any, curves: Any, c: int, e: float, u: float) -> Any:
    """Return the bits of a crossing that entered its queue by e, left it by u, and passed the link behind it."""
    amount = at(curves.arrived[c], e)
    if curves.head_drops.shape[1] > 0:
        amount -= at(curves.head_drops[c], u)
    return paths.pass_share[c] * amount


@inlined
def reached(paths: Any, curves: Any, c: int, i: int) -> Any:
    """Return the bits that have arrived at a crossing by time i, and their position on the upstream curve."""
    g = paths.owner[c]
    if c == paths.first[g]:
        position = i - paths.hop[c]
        return at(curves.sent[g], position), position
    upstream = paths.links[c - 1]
    u = min(i - paths.hop[c], i - 1.0)
    e = entered(curves.into[upstream], curves.out[upstream], u, curves.hints[_ONWARD], c - 1)
    return passed(paths, curves, c - 1, e, u), e


@inlined
def clear(curves: Any) -> None:
    """Begin a step: set the arrivals at all links to 0."""
    for link in range(len(curves.incoming)):
        curves.incoming[link] = 0.0


@inlined
def arrive(paths: Any, curves: Any, c: int, i: int) -> Any:
    """Record the arrivals at a crossing at time i, as if the buffer were unlimited, and return their amount."""
    g = paths.owner[c]
    amount, e = reached(paths, curves, c, i)
    curves.origin[c, i] = e if c == paths.first[g] else at(curves.origin[c - 1], e)
    new = max(0.0, amount - curves.offered[c])
    curves.offered[c] = amount
    curves.arrived[c, i] = curves.arrived[c, i - 1] + new
    curves.incoming[paths.links[c]] += paths.members[g] * new
    return new


@inlined
def serve(paths: Any, curves: Any, link: int, i: int) -> None:
    """Let a queue accept the arrivals that fit, and serve as much as its link can, at time i."""
    into, out = curves.into[link], curves.out[link]
    max_out = out[i - 1] + paths.served[link, i] - paths.served[link, i - 1]
    accepted = min(curves.incoming[link], max(0.0, paths.buffer[link] + max_out - into[i - 1]))
    into[i] = into[i - 1] + accepted
    out[i] = min(into[i], max_out)
    curves.link_drops[link, i] = curves.link_drops[link, i - 1] + curves.incoming[link] - accepted


@inlined
def drop(paths: Any, curves: Any, i: int) -> None:
    """Subtract drops from the arrivals at time i, and let departures from the last queues reach the receivers."""
    keeps = curves.crossing_drops.shape[1] > 0
    for g in range(len(paths.members)):
        for c in range(paths.first[g], paths.first[g + 1]):
            link = paths.links[c]
            more = curves.link_drops[link, i] - curves.link_drops[link, i - 1]
            dropped = 0.0
            if more > 0.0:
                dropped = more / curves.incoming[link] * (curves.arrived[c, i] - curves.arrived[c, i - 1])
                curves.arrived[c, i] -= dropped
                curves.lost[g] += dropped
            if keeps:
                curves.crossing_drops[c, i] = curves.crossing_drops[c, i - 1] + dropped
        c = paths.first[g + 1] - 1
        link = paths.links[c]
        u = i - paths.wire[g]
        e = entered(curves.into[link], curves.out[link], u, curves.hints[_RECEIVED], c)
        curves.received[g, i] = passed(paths, curves, c, e, u)
        curves.lost[g] += (1.0 - paths.survives[g]) * (curves.sent[g, i] - curves.sent[g, i - 1])
