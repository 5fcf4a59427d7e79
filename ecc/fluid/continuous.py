"""Delay differential equations of a network, made from the laws of its protocol.

For link l with fair rate R_l and queue q_l, and flow i with rate x_i, T the control interval:

    R_l' = [router_law(R_l(t), y_l(t), y_l(t - T), q_l(t), C_l, d_l(t), T) - R_l(t)]/T     within the router's range
    q_l' = y_l(t) - C_l                                                        within 0 and the buffer; the rest is lost
    x_i' = [source_law(x_i(t - T), R_i(t), R_i(t - T)) - x_i(t - T)]/T          with memory
    x_i  = source_law(R_i(t))                                                   without
    y_l(t) = sum over its flows of what arrives,  R_i(t) = min over its route of the R_l that its headers read

Fluid takes the propagation delays and waits in the queues on its way, first in, first out; a busy link passes it on at
its capacity. A header reads R_l as it leaves link l for the wire. d_l is the mean of the RTTs that what arrives at l
carries (those its senders measured last), weighted by rates as packets weight it, or the largest of them where the
protocol says so. A router that nothing has come to yet waits; a flow sends from the moment its first feedback is back,
one RTT after its start. Where a protocol has a `floor`, no router announces and no flow sends less than so many packets
an RTT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid import core
from ecc.fluid.integration import Integration, breaking_points
from ecc.fluid.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.model import LEAST, FluidNetwork
from ecc.fluid.outcome import Outcome
from ecc.models.base import Protocol

__all__ = ["run_continuous"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SLICE = 20_000  # steps between two reports of progress


def run_continuous(
    protocol: Protocol,
    fluid: FluidNetwork,
    start: tuple[FloatArray, FloatArray] | None,
    samples: FloatArray,
    rtol: float,
    progress: Callable[[float], None],
) -> Outcome:
    """Integrate the equations of a network.

    Parameters
        protocol : Protocol. fluid : FluidNetwork.
        start : (rates of the groups, fair rates of the links) that were there for ever, or None: an empty network.
        samples : increasing, s. rtol : relative tolerance. progress : called with the share done.
    Returns
        Outcome.
    """
    from ecc.fluid import rates

    laws = CompiledLaws(protocol)
    L, G = fluid.n_links, fluid.n_groups
    T = float(protocol.params()["interval"])
    memory = laws.has_memory
    least, most = fluid.announced(protocol)
    floor = fluid.floor(protocol)
    opens = fluid.start + fluid.rtt if start is None else np.full(G, -np.inf)
    crossings = sum(map(len, fluid.routes))
    numbers, indices = _packed(
        {
            "links": L, "groups": G, "memory": memory, "lagged_arrivals": "y_prev" in laws.wants["router"],
            "lagged_feedback": "R_prev" in laws.wants["source"], "router": laws.router, "source": laws.source,
            "combine": ("min", "max", "sum").index(protocol.combine), "longest": protocol.scaling_rtt == "max",
        },
        {
            "capacity": fluid.capacity, "interval": [T], "opens": opens, "stops": fluid.stop, "least": floor,
            "members": fluid.members, "wire": fluid.wire,
            "forward": np.concatenate(fluid.forward), "backward": np.concatenate(fluid.backward),
            "record": np.zeros(len(ARGUMENTS)), "params": laws.params, "arrival": np.zeros(L), "before": np.zeros(L),
            "weighted": np.zeros(L), "loss": np.zeros(L), "share": np.zeros(crossings), "round_trip": fluid.rtt,
            "bottleneck": np.full(G, -1.0),
        },
        {
            "crossings": np.cumsum([0, *map(len, fluid.routes)]), "crossing_link": np.concatenate(fluid.routes),
            "listens": np.concatenate(fluid.listens),
        },
    )  # fmt: skip
    place = {name: int(indices[k]) for k, name in enumerate(rates.HEADER)}
    size = 4 * L + (4 if memory else 3) * G
    y = np.zeros(size)
    fair = np.array([protocol.params()["initial"]] * L) * fluid.capacity if start is None else start[1]
    y[:L] = np.clip(fair, least, most)
    own, sent = 4 * L, 4 * L + (G if memory else 0)
    if memory:
        y[own:sent] = floor / fluid.rtt if start is None else start[0]
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    lower[:L], upper[:L] = least, most
    lower[L : 2 * L], upper[L : 2 * L] = 0.0, fluid.buffer
    upper[sent : sent + G] = fluid.size
    stopping = np.zeros(size, dtype=np.int64)
    stopping[sent : sent + G] = 1
    absolute = np.full(size, np.inf)
    busiest = np.array([fluid.capacity[list(route)].max() for route in fluid.routes])
    absolute[sent + G : sent + 2 * G] = 8.0 * fluid.packet_size + 1e-3 * busiest * T
    absolute[:L] = rtol * least
    absolute[L : 2 * L] = rtol * fluid.capacity * T
    if memory:
        lower[own:sent] = 0.0
        absolute[own:sent] = rtol * LEAST * busiest
    end = float(samples[-1])
    gates = _gates(fluid, opens, T)
    loops = np.concatenate([fluid.rtt, fluid.rtt + T, [T]])
    run = Integration(
        y,
        (0.0, end),
        rates.network_rates.address,
        np.empty(0),
        [],
        rtol,
        absolute,
        numbers=numbers,
        indices=indices,
        lower=lower,
        upper=upper,
        stopping=stopping,
        breaks=breaking_points(np.append(gates[gates > 0.0], 0.0), loops, end, generations=3, most=2000),
        samples=samples,
        peaked=np.arange(L, 2 * L),
        watched=place["bottleneck"] + np.arange(G),
        max_step=end / 10.0,
        reach=2.0 * (float(fluid.rtt.max()) + T),
        stored=sent,
        largest=True,
        hints=rates.HINTS_PER_CROSSING * crossings,
    )
    w = run.work
    w.indices[rates.TABLE] = run.table.ctypes.data
    stops = w.numbers[place["stops"] :][:G]
    finished = fluid.stop.copy()
    status = core.PAUSED
    stopped = "completed"
    try:
        while status in (core.PAUSED, core.CAUGHT):
            status = run.advance(_SLICE)
            if status == core.CAUGHT:
                g = run.counted(core.COMPONENT) - sent
                stops[g] = finished[g] = run.now
                _add_breaks(run, run.now + _echoes(fluid, g, T))
                run.work.count[core.FRESH] = 1
            progress(run.now / end)
        if status != core.DONE:
            stopped = run.trouble(status)
    except KeyboardInterrupt:
        stopped = "interrupted"
    rows = run.counted(core.SAMPLE)
    w = run.work
    states = w.sampled[:rows]
    link_sums = np.diff(states[:, 2 * L : 4 * L], axis=0, prepend=0.0)
    sums = np.diff(states[:, sent:], axis=0, prepend=0.0)
    widths = np.diff(np.concatenate([[0.0], samples[:rows]]))[:, None]
    totals = states[-1, sent:] if rows else np.zeros(3 * G)
    return Outcome(
        time=samples[:rows],
        rate=sums[:, :G] / widths,
        goodput=sums[:, G : 2 * G] / widths,
        bottleneck=w.seen[:rows].astype(np.int64),
        queue=np.clip(states[:, L : 2 * L], 0.0, fluid.buffer),
        queue_max=w.peaks[:rows],
        arrival=link_sums[:, :L] / widths,
        drops=link_sums[:, L:],
        sent=totals[:G],
        delivered=totals[G : 2 * G],
        lost=totals[2 * G : 3 * G],
        stopped_at=np.where(finished <= end, finished, np.nan),
        stats={
            "steps": run.counted(core.STEPS),
            "rejected": run.counted(core.REJECTED),
            "evaluations": run.counted(core.CALLS),
            "switches": run.counted(core.EVENTS),
        },
        stopped=stopped,
    )


def _packed(whole: dict[str, int], floats: dict[str, Any], integers: dict[str, Any]) -> tuple[FloatArray, IntArray]:
    """(numbers, indices) that hold whole numbers and arrays where the header of `rates` says."""
    from ecc.fluid.rates import HEADER

    header = np.zeros(len(HEADER), dtype=np.int64)
    for name, value in whole.items():
        header[HEADER.index(name)] = value
    for arrays, at in ((floats, 0), (integers, len(HEADER))):
        for name, array in arrays.items():
            header[HEADER.index(name)] = at
            at += np.size(array)
    numbers = np.concatenate([np.ravel(np.asarray(array, dtype=float)) for array in floats.values()])
    indices = np.concatenate([header, *[np.ravel(np.asarray(array, dtype=np.int64)) for array in integers.values()]])
    return numbers, indices


def _gates(fluid: FluidNetwork, opens: FloatArray, T: float) -> FloatArray:
    """When a flow begins or ends, wherever that is noticed."""
    edges = [(g, edge) for g in range(fluid.n_groups) for edge in (opens[g], fluid.stop[g]) if np.isfinite(edge)]
    return np.concatenate([np.empty(0), *[edge + _echoes(fluid, g, T) for g, edge in edges]])


def _echoes(fluid: FluidNetwork, g: int, T: float) -> FloatArray:
    """How long after its sender the links, these one interval later, and the receiver notice a flow, without queues."""
    forward = fluid.forward[g]
    return np.concatenate([[0.0], forward, forward + T, [forward[-1] + fluid.wire[g]]])


def _add_breaks(run: Integration, times: FloatArray) -> None:
    w = run.work
    ahead = w.breaks[run.counted(core.BREAK) :]
    end = float(w.clock[core.END])
    run.replace(breaks=np.unique(np.concatenate([ahead, times[times < end]])))
    run.work.count[core.BREAK] = 0
    run.work.count[core.BREAKS] = len(run.work.breaks)
