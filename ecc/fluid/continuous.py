"""Delay differential equations of a network, made from the laws of its protocol.

For link l with fair rate R_l and queue q_l, and flow i with rate x_i, T the control interval:

    R_l' = [router_law(R_l(t), y_l(t), y_l(t - T), q_l(t), C_l, d_l(t), T) - R_l(t)]/T     within the router's range
    q_l' = y_l(t) - C_l                                                         within 0 and the buffer; the rest is lost
    x_i' = [source_law(x_i(t - T), R_i(t), R_i(t - T)) - x_i(t - T)]/T          with memory
    x_i  = source_law(R_i(t))                                                   without
    y_l(t) = sum of x_i(t - forward delay),  R_i(t) = min over its route of R_l(t - backward delay)

Delays are those of propagation. d_l is the mean, weighted by rates as packets weight it, of the RTTs of the flows that
arrive at l (or the largest of them, where the protocol says so), queues on their routes included. A router without any
arrival yet waits; a flow sends from the moment its first feedback is back, one RTT after its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid import core
from ecc.fluid.integration import Integration, breaking_points
from ecc.fluid.laws import CompiledLaws
from ecc.fluid.model import LEAST, FluidNetwork
from ecc.fluid.outcome import Outcome
from ecc.models.base import Protocol

__all__ = ["run_continuous"]

FloatArray = NDArray[np.float64]

_SLICE = 20_000  # steps between two reports of progress


def run_continuous(
    protocol: Protocol,
    fluid: FluidNetwork,
    start: tuple[FloatArray, FloatArray] | None,
    samples: FloatArray,
    rtol: float,
    progress: Callable[[float], None] | None,
) -> Outcome:
    """Integrate the equations of a network.

    Parameters
        protocol : Protocol. fluid : FluidNetwork.
        start : (rates of the groups, fair rates of the links) that were there for ever, or None: an empty network.
        samples : increasing, s. rtol : relative tolerance. progress : called with the time reached.
    Returns
        Outcome.
    """
    from ecc.fluid import rates

    laws = CompiledLaws(protocol)
    L, G = fluid.n_links, fluid.n_groups
    T = float(protocol.params()["interval"])
    memory = laws.has_memory
    offsets, lags, places = _lags(fluid, T, laws)
    span = np.array([protocol.rate_range(float(C)) for C in fluid.capacity])
    least, most = np.maximum(span[:, 0], LEAST * fluid.capacity), span[:, 1]
    opens = fluid.start + fluid.rtt if start is None else np.full(G, -np.inf)
    numbers, indices = rates.packed(
        {
            "links": L, "groups": G, "memory": memory, "lagged_arrivals": "y_prev" in laws.wants["router"],
            "lagged_feedback": "R_prev" in laws.wants["source"], "router": laws.router, "source": laws.source,
            "combine": ("min", "max", "sum").index(protocol.combine), "longest": protocol.scaling_rtt == "max",
        },
        {
            "capacity": fluid.capacity, "interval": [T], "opens": opens, "stops": fluid.stop, "rtt": fluid.rtt,
            "members": fluid.members, "forward": np.concatenate(fluid.forward), "record": np.zeros(10),
            "params": laws.params, "arrival": np.zeros(L), "before": np.zeros(L), "weighted": np.zeros(L),
            "loss": np.zeros(L), "crossing_rate": np.zeros(sum(map(len, fluid.routes))), "path_rtt": np.zeros(G),
            "bottleneck": np.full(G, -1.0),
        },
        {
            "crossings": np.cumsum([0, *map(len, fluid.routes)]), "crossing_link": np.concatenate(fluid.routes),
            "heard": np.cumsum([0, *map(len, fluid.heard)]), "heard_link": np.concatenate(fluid.heard), **places,
        },
    )  # fmt: skip
    place = rates.offsets()
    size = 4 * L + (4 if memory else 3) * G
    y = np.zeros(size)
    fair = np.array([protocol.params()["initial"]] * L) * fluid.capacity if start is None else start[1]
    y[:L] = np.clip(fair, least, most)
    if memory and start is not None:
        y[4 * L + 3 * G :] = start[0]
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    lower[:L], upper[:L] = least, most
    lower[L : 2 * L], upper[L : 2 * L] = 0.0, fluid.buffer
    upper[4 * L : 4 * L + G] = fluid.size
    stopping = np.zeros(size)
    stopping[4 * L : 4 * L + G] = 1
    absolute = np.full(size, np.inf)
    absolute[:L] = rtol * least
    absolute[L : 2 * L] = rtol * fluid.capacity * T
    if memory:
        lower[4 * L + 3 * G :] = 0.0
        absolute[4 * L + 3 * G :] = rtol * LEAST * np.array([fluid.capacity[list(r)].max() for r in fluid.routes])
    end = float(samples[-1])
    gates = _gates(fluid, opens, T)
    run = Integration(
        y,
        (0.0, end),
        rates.network_rates.address,
        offsets,
        lags,
        rtol,
        absolute,
        numbers=numbers,
        indices=indices,
        lower=lower,
        upper=upper,
        stopping=stopping,
        breaks=breaking_points(np.append(gates[gates > 0.0], 0.0), offsets, end, generations=3, most=2000),
        samples=samples,
        peaked=np.arange(L, 2 * L),
        watched=indices[place["bottleneck"]] + np.arange(G),
        max_step=end / 10.0,
        reach=float(offsets.max()),
    )
    w = run.work
    stops = w.numbers[indices[place["stops"]] :][:G]
    finished = fluid.stop.copy()
    status = core.PAUSED
    while status in (core.PAUSED, core.CAUGHT):
        status = run.advance(_SLICE)
        if status == core.CAUGHT:
            g = run.counted(core.COMPONENT) - 4 * L
            stops[g] = finished[g] = run.now
            _add_breaks(run, np.concatenate([run.now + fluid.forward[g], run.now + fluid.forward[g] + T]))
            run.work.count[core.FRESH] = 1
        if progress is not None:
            progress(run.now)
    rows = run.counted(core.SAMPLE)
    w = run.work
    states = w.sampled[:rows]
    sums = np.diff(np.vstack([np.zeros(2 * L + 3 * G), states[:, 2 * L : 4 * L + 3 * G]]), axis=0)
    widths = np.diff(np.concatenate([[0.0], samples[:rows]]))[:, None]
    totals = states[-1, 4 * L :] if rows else np.zeros(3 * G)
    return Outcome(
        time=samples[:rows],
        rate=sums[:, 2 * L : 2 * L + G] / widths,
        goodput=sums[:, 2 * L + G : 2 * L + 2 * G] / widths,
        bottleneck=w.seen[:rows].astype(np.int64),
        queue=states[:, L : 2 * L],
        queue_max=w.peaks[:rows],
        arrival=sums[:, :L] / widths,
        drops=sums[:, L : 2 * L],
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
        stopped="completed" if status == core.DONE else run.trouble(status),
    )


def _lags(fluid: FluidNetwork, T: float, laws: CompiledLaws) -> tuple[FloatArray, list[list[int]], dict[str, Any]]:
    """Delays, the components wanted at each, and where the right-hand side finds them among the lags."""
    L, G = fluid.n_links, fluid.n_groups
    own = 4 * L + 3 * G
    feedback_twice = "R_prev" in laws.wants["source"]
    pairs: dict[tuple[float, int], int] = {}  # (delay, component) -> provisional number
    lags: list[int] = []

    def want(delay: float, component: int) -> None:
        lags.append(pairs.setdefault((round(delay, 15), component), len(pairs)))

    def listen(g: int, delay: float) -> int:
        """Feedback that a flow of g heard `delay` ago, and T before that."""
        begin = len(lags)
        for extra in (0.0, T) if feedback_twice else (0.0,):
            for link, back in zip(fluid.heard[g], fluid.backward[g], strict=True):
                want(delay + back + extra, link)
        return begin

    def rate(g: int, delay: float) -> int:
        if not laws.has_memory:
            return listen(g, delay)
        want(delay, own + g)
        return len(lags) - 1

    crossings = [(g, float(f)) for g in range(G) for f in fluid.forward[g]]
    echo = [rate(g, 0.0) for g in range(G)] + [rate(g, f) for g, f in crossings]
    if "y_prev" in laws.wants["router"]:
        echo += [rate(g, f + T) for g, f in crossings]
    hearing = [listen(g, 0.0) for g in range(G)]
    own_lag = []
    if laws.has_memory:
        for g in range(G):
            want(T, own + g)
            own_lag.append(lags[-1])
    order = sorted(pairs, key=lambda pair: pair)
    final = np.zeros(len(pairs), dtype=np.int64)
    for place, pair in enumerate(order):
        final[pairs[pair]] = place
    delays = sorted({delay for delay, _ in order})
    wanted: dict[float, list[int]] = {delay: [] for delay in delays}
    for delay, component in order:
        wanted[delay].append(component)
    places = {"echo": echo, "hearing": hearing, "own": final[own_lag], "lags": final[lags]}
    return np.array(delays), list(wanted.values()), places


def _gates(fluid: FluidNetwork, opens: FloatArray, T: float) -> FloatArray:
    """When a flow begins or ends, at its sender, at the links, and one interval later there."""
    times = []
    for g, forward in enumerate(fluid.forward):
        for edge in (opens[g], fluid.stop[g]):
            if np.isfinite(edge):
                times.append(edge + np.concatenate([[0.0], forward, forward + T]))
    return np.concatenate(times) if times else np.empty(0)


def _add_breaks(run: Integration, times: FloatArray) -> None:
    w = run.work
    ahead = w.breaks[run.counted(core.BREAK) :]
    end = float(w.clock[core.END])
    run.replace(breaks=np.unique(np.concatenate([ahead, times[times < end]])))
    run.work.count[core.BREAK] = 0
    run.work.count[core.BREAKS] = len(run.work.breaks)
