"""Delay differential equations of a network, made from the laws of its protocol.

For link l with fair rate R_l and queue q_l, and flow i with rate x_i, T the control interval:

    R_l' = [router_law(R_l(t), y_l(t), y_l(t - T), q_l(t), C_l, d_l(t), T, ...) - R_l(t)]/T   within its range
    q_l' = y_l(t) - C_l(t)                                                   within 0 and the buffer; the excess is lost
    x_i' = [source_law(x_i(t - h), R_i(t), R_i(t - h)) - x_i(t - h)]/h          if it steps from its current rate
    x_i' = [source_law(x_i(t - rtt), R_i(t)) - x_i(t)]/h                        if it steps from the rate of one RTT ago
    x_i  = source_law(R_i(t))                                                   without memory
    v_i' = [law(v_i(t), x_i(t - h), R_i(t), R_i(t - h)) - v_i(t)]/h              any other state; first its `initial`
    x_i' = source_law(x_i(t), x_i(t - rtt), v_i(t), R_i(t)),  v_i' = law(...)    with the `source_clock` "continuous"
    y_l(t) = sum of the arrivals of its flows,  R_i(t) = min over its route of the R_l that its headers read

A source updates when an ACK brings new feedback: h is T, or the time between its ACKs if that is longer; with another
`source_clock` it is the time between ACKs, or the RTT.

A router without a state R_l, or with an announce law, evaluates its law for every header, with the rate in the header
and with averages of its measurements that lag by T: y, u, N, N_all and d. N_l counts the flows bottlenecked at link l,
but not less than 1, and u_l is the arrival rate of the others; a link that is not a bottleneck of any flow counts as
empty.

Fluid has propagation delays and the delays of the queues on its path, first in, first out; a busy link serves it at its
capacity. A header reads R_l as it leaves link l for the wire. d_l is the mean of the RTTs in the headers that arrive at
l (each is the last one that its sender measured), weighted by rates as packets weight it, or the largest
(`scaling_rtt`). A router does nothing before its first arrival. If routers announce a rate from the start (`initial`),
a flow sends from its first feedback on, one RTT after its start; if not, it sends at once, at its `opening_rate`. The
`floor` of the protocol, in packets an RTT, is the minimum of announced rates and of flows' rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.choices import SOURCE_CLOCKS
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.contract.values import clock_of_states, states_of
from ecc.fluid.dde import history_and_step as core
from ecc.fluid.dde.integration import Integration, breaking_points
from ecc.fluid.network.groups import MIN_SHARE, FluidNetwork
from ecc.fluid.network.initial_conditions import MEASURED, InitialConditions
from ecc.fluid.network.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result, turns
from ecc.laws.arguments import takes

__all__ = ["run"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SLICE = 20_000  # maximum number of steps between two reports of progress
_SLIDING_STEP = 1e-3  # step, in control intervals, if bottlenecks switch endlessly


def run(problem: Problem) -> Result:
    """Integrate the equations of a network.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    Result
    """
    from ecc.fluid.network import right_hand_side as rates

    protocol, fluid, samples, rtol = problem.protocol, problem.fluid, problem.samples, problem.rtol
    states = _states_of(protocol)
    laws = CompiledLaws(protocol, shared=problem.shared, checked=False)
    initial = InitialConditions.of(protocol, laws, fluid, problem.point, problem.factor)
    L, G = fluid.n_links, fluid.n_groups
    T = float(protocol.params()["interval"])
    memory = laws.source_remembers
    floor = fluid.floor(protocol)
    opens = initial.opens
    crossings = sum(map(len, fluid.routes))
    windows = protocol.windowed
    of_hosts = (protocol.source_law, *(state.law for state in states.values()))
    measures = not laws.remembers or laws.announce != 0 or laws.priority != 0
    blocks = {
        "state": L if laws.remembers else 0, "measured": 5 * L if measures else 0, "queue": L, "arrived": L,
        "dropped": L, "source_state": G if memory else 0, "host": G * len(states), "sent": G, "delivered": G, "lost": G,
    }  # fmt: skip
    signals = {name for name in MEASURED if laws.takes(laws.signal_law, name) or laws.takes("priority", name)}
    read = signals | {"y"} | ({"N"} if "u" in signals else set())  # a router that sees no arrivals is silent
    reads = np.array([float(name in read) for name in MEASURED])
    ends = np.cumsum([0, *blocks.values()])
    block = {name: slice(int(a), int(b)) for name, a, b in zip(blocks, ends[:-1], ends[1:], strict=True)}
    plans = [fluid.capacities(link) for link in range(L)]
    schedule = [plan[0] for plan in plans]
    changing = [np.concatenate(parts) for parts in zip(*plans, strict=True)]
    levels = np.concatenate([np.cumsum([0.0, *(C[:-1] * np.diff(times))]) for times, C, _ in plans])
    numbers, indices = _packed(
        {
            "links": L, "groups": G, "remembers": laws.remembers, "measures": measures, "by_flow": laws.by_flow,
            "memory": memory, "stepping": laws.takes("source", "x"),
            "lagged_arrivals": laws.takes("router", "y_prev"),
            "lagged_feedback": any(takes(law, "R_prev") for law in of_hosts),
            "router": laws.router, "source": laws.source, "announce": laws.announce, "priority": laws.priority,
            "combine": ("min", "max", "sum").index(protocol.combine), "longest": protocol.scaling_rtt == "max",
            "windows": windows, "by_rtt": protocol.router_clock == "rtt",
            "per_flow": protocol.rtt_weights == "flows",
            "counts_all": any(takes(law, "N_all") for law in laws.by_name.values()),
            "early": protocol.stamping == "arrival", "clock": SOURCE_CLOCKS.index(protocol.source_clock),
            "host_states": len(states), "states_law": laws.states,
            **{name: offset.start for name, offset in block.items()},
        },
        {
            "begins": changing[0], "capacity": changing[1], "known_capacity": changing[2], "level": levels,
            "interval": [T], "opens": opens, "stops": fluid.stop, "floor": floor,
            "members": fluid.members, "packet": 8.0 * fluid.packet_size, "wire": fluid.wire,
            "forward": np.concatenate(fluid.forward), "backward": np.concatenate(fluid.backward),
            "min_count": fluid.min_count, "steady": fluid.steady,
            "reaches": np.concatenate(fluid.reaches), "survives": fluid.survives, "acks_kept": fluid.acks_kept,
            "router_floor": fluid.mean_floor(protocol) if initial.announces_first else np.full(L, -np.inf),
            "record": np.zeros(len(ARGUMENTS) + 2 * len(states)), "params": laws.params, "arrival": np.zeros(L),
            "before": np.zeros(L), "weighted": np.zeros(L), "responsive": np.zeros(L),
            "other": np.zeros(L), "bottlenecked": np.zeros(L), "crossing": np.zeros(L),
            "loss": np.zeros(L), "share": np.zeros(crossings), "round_trip": initial.rtt,
            "bottleneck": np.full(G, -1.0), "reads": reads, "failed": np.zeros(3),
            "advertises_from": initial.advertises_from, "left_at": np.zeros(crossings),
        },
        {
            "crossings": np.cumsum([0, *map(len, fluid.routes)]), "crossing_link": np.concatenate(fluid.routes),
            "responds": np.concatenate(fluid.responds), "changes": np.cumsum([0, *map(len, schedule)]),
        },
    )  # fmt: skip
    offset = {name: int(indices[k]) for k, name in enumerate(rates.HEADER)}
    size = int(ends[-1])
    sent = block["sent"].start
    y, lower, upper = np.zeros(size), np.full(size, -np.inf), np.full(size, np.inf)
    absolute = np.full(size, np.inf)
    if laws.remembers:
        y[block["state"]], absolute[block["state"]] = initial.state, rtol * MIN_SHARE * fluid.capacity
        lowest = MIN_SHARE * fluid.capacity if initial.announces_first else initial.lowest  # a rate of 0 could not grow
        lower[block["state"]], upper[block["state"]] = lowest, initial.highest
    if measures:
        y[block["measured"]] = initial.measured.ravel()
        for row, name in enumerate(MEASURED):
            if reads[row] != 0.0:
                of_link = rtol * MIN_SHARE * (fluid.capacity if name in ("y", "u") else np.ones(L))
                absolute[block["measured"]][row * L : (row + 1) * L] = of_link
    y[block["queue"]] = initial.queue
    lower[block["queue"]], upper[block["queue"]] = 0.0, fluid.buffer
    upper[block["sent"]] = fluid.size
    stopping = np.zeros(size, dtype=np.int64)
    stopping[block["sent"]] = 1
    busiest = np.array([fluid.capacity[list(route)].max() for route in fluid.routes])
    absolute[block["delivered"]] = 8.0 * fluid.packet_size + 1e-3 * busiest * T
    absolute[block["queue"]] = rtol * fluid.capacity * T
    if memory:
        y[block["source_state"]] = initial.x * (initial.rtt if windows else 1.0)
        lower[block["source_state"]] = 8.0 * fluid.packet_size if windows else 0.0
        absolute[block["source_state"]] = rtol * MIN_SHARE * busiest * (fluid.rtt if windows else 1.0)
    for k, (name, state) in enumerate(states.items()):
        part_of_state = slice(block["host"].start + k * G, block["host"].start + (k + 1) * G)
        if callable(state.initial):
            kind = type(protocol).__name__
            raise ValueError(
                f"initial of state {name} of {kind} must be a number: only window protocols can start states by a law"
            )
        y[part_of_state], lower[part_of_state], upper[part_of_state], absolute[part_of_state] = (
            state.initial,
            state.lowest,
            state.highest,
            rtol,
        )
        if problem.point is not None and name in problem.point.states:
            y[part_of_state] = problem.point.states[name][fluid.first_flow]
    end = float(samples[-1])
    changes = np.unique(changing[0])[1:]
    gates = np.concatenate([_gates(fluid, opens, T), changes, changes + T])
    loops = np.concatenate([fluid.rtt, fluid.rtt + T, [T]])
    integration = Integration(
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
        breaks=breaking_points(np.append(gates[gates > 0.0], 0.0), loops, end, generations=3, max_points=2000),
        samples=samples,
        peaked=np.arange(size)[block["queue"]],
        watched=offset["bottleneck"] + np.arange(G),
        max_step=end / 10.0,
        reach=2.0 * (float(fluid.rtt.max()) + T),
        stored=sent,
        largest=True,
        sliding_step=_SLIDING_STEP * T,
        hints=rates.HINTS_PER_CROSSING * crossings,
        named=lambda component: _named(component, block, L),
    )
    w = integration.work
    w.clock[core.END] = min([end, *changes])
    w.indices[rates.TABLE] = integration.table.ctypes.data
    stops = w.numbers[offset["stops"] :][:G]
    finished = fluid.stop.copy()
    status = core.PAUSED
    stopped = "completed"
    steps = turns(_SLICE)
    try:
        while status in (core.PAUSED, core.LOCATED):
            status = integration.advance(next(steps))
            if status == core.DONE and integration.now < end:  # a change of capacities changes the range of routers
                status = core.PAUSED
                integration.work.clock[core.END] = min([end, *changes[changes > integration.now]])
                if laws.remembers:
                    _bound(
                        integration, block["state"], protocol, [float(p[2][p[0] <= integration.now][-1]) for p in plans]
                    )
            if status == core.LOCATED:
                g = integration.counted(core.COMPONENT) - sent
                stops[g] = finished[g] = integration.now
                _add_breaks(integration, integration.now + _notice_times(fluid, g, T))
                integration.work.count[core.FRESH] = 1
            problem.progress(integration.now / end)
        if status != core.DONE:
            law = _law_failed(integration, status, offset["failed"], laws.code, problem.fluid.first_flow)
            stopped = law or integration.trouble(status)
    except KeyboardInterrupt:
        stopped = "interrupted"
    rows = integration.counted(core.SAMPLE)
    w = integration.work
    sampled = w.sampled[:rows]
    link_sums = np.diff(sampled[:, block["arrived"].start : block["dropped"].stop], axis=0, prepend=0.0)
    sums = np.diff(sampled[:, sent:], axis=0, prepend=0.0)
    widths = np.diff(np.concatenate([[0.0], samples[:rows]]))[:, None]
    totals = sampled[-1, sent:] if rows else np.zeros(3 * G)
    return Result(
        time=samples[:rows],
        rate=sums[:, :G] / widths,
        goodput=sums[:, G : 2 * G] / widths,
        bottleneck=w.seen[:rows].astype(np.int64),
        queue=np.clip(sampled[:, block["queue"]], 0.0, fluid.buffer),
        queue_max=w.peaks[:rows],
        arrival=link_sums[:, :L] / widths,
        drops=link_sums[:, L:],
        sent=totals[:G],
        delivered=totals[G : 2 * G],
        lost=totals[2 * G : 3 * G],
        stopped_at=np.where(finished <= end, finished, np.nan),
        stats={
            "steps": integration.counted(core.STEPS),
            "rejected": integration.counted(core.REJECTED),
            "evaluations": integration.counted(core.CALLS),
            "switches": integration.counted(core.EVENTS),
            "slid": integration.counted(core.SLIDING_STEPS),
        },
        stopped=stopped,
        recorded={
            name: sampled[:, block[part]]
            for name, part in (("link.R", "state"), ("flow.x", "source_state"))
            if part != "source_state" or not windows
        }
        | {f"flow.{name}": sampled[:, block["host"]][:, k * G : (k + 1) * G] for k, name in enumerate(states)},
    )


def _states_of(protocol: Protocol) -> Mapping[str, State]:
    """Return the states of hosts that set rates; the states move when the rates are updated."""
    states = states_of(protocol)
    for name, state in states.items():
        clock = clock_of_states(protocol)
        if state.clock != clock or state.law is None or state.jumps:
            raise ValueError(
                f"{type(protocol).__name__} has no fluid model: its state {name} must have a law, the clock {clock!r}, "
                "and no jumps, because hosts set rates"
            )
    return states


def _named(component: int, block: dict[str, slice], links: int) -> str:
    """Return a description of a component of the state."""
    name, offset = next((name, offset) for name, offset in block.items() if offset.start <= component < offset.stop)
    which = component - offset.start
    if name == "measured":
        return f"{MEASURED[which // links]} measured at link {which % links}"
    names = {"state": "R", "arrived": "arrivals", "dropped": "drops", "source_state": "rate", "host": "state"}
    quantity = names.get(name, name)
    return f"{quantity} of {'link' if name in ('state', 'queue', 'arrived', 'dropped') else 'flow group'} {which}"


def _law_failed(run: Integration, status: int, at: int, code: Any, flows: IntArray) -> str | None:
    """Return a message with the law that failed, the time and the reason; None if no law failed."""
    from ecc.fluid.network.right_hand_side import ROUTER_FAILED, SOURCE_FAILED

    kind, which, why = run.work.numbers[at : at + 3]
    if kind == 0.0 or status not in (core.FAILED, core.NOT_FINITE):
        return None
    time = run.work.clock[core.FAILED_AT] if status == core.FAILED else run.now
    owner = f"link {which:.0f}" if kind == ROUTER_FAILED else f"flow {flows[int(which)]}"
    law = "router law" if kind == ROUTER_FAILED else "source law" if kind == SOURCE_FAILED else "law of a state"
    reason = code.reasons.get(int(why), "an exception") if status == core.FAILED else "its result is not finite"
    return f"the {law} of {owner} failed at t = {time:.9g} s: {reason}"


def _packed(
    numbers_of_header: dict[str, int], floats: dict[str, Any], integers: dict[str, Any]
) -> tuple[FloatArray, IntArray]:
    """Return the arrays (numbers, indices) that hold integers and arrays in the order of the header of `rates`."""
    from ecc.fluid.network.right_hand_side import HEADER

    header = np.zeros(len(HEADER), dtype=np.int64)
    for name, value in numbers_of_header.items():
        header[HEADER.index(name)] = value
    for arrays, at in ((floats, 0), (integers, len(HEADER))):
        for name, array in arrays.items():
            header[HEADER.index(name)] = at
            at += np.size(array)
    numbers = np.concatenate([np.ravel(np.asarray(array, dtype=float)) for array in floats.values()])
    indices = np.concatenate([header, *[np.ravel(np.asarray(array, dtype=np.int64)) for array in integers.values()]])
    return numbers, indices


def _gates(fluid: FluidNetwork, opens: FloatArray, T: float) -> FloatArray:
    """Return the times at which the first or last data of a flow reaches a link, the receiver, or as ACK the sender."""
    edges = [(g, edge) for g in range(fluid.n_groups) for edge in (opens[g], fluid.stop[g]) if np.isfinite(edge)]
    return np.concatenate([np.empty(0), *[edge + _notice_times(fluid, g, T) for g, edge in edges]])


def _notice_times(fluid: FluidNetwork, g: int, T: float) -> FloatArray:
    """Return the delays, without queues, from a sender to itself, the links, the links plus T, and the receiver."""
    forward = fluid.forward[g]
    return np.concatenate([[0.0], forward, forward + T, [forward[-1] + fluid.wire[g]]])


def _bound(run: Integration, states: slice, protocol: Protocol, capacities: list[float]) -> None:
    """Limit the states of routers to their range under new capacities."""
    w = run.work
    w.upper[states] = [protocol.rate_range(C)[1] for C in capacities]
    w.y[states] = np.minimum(w.y[states], w.upper[states])
    w.held[states] = 0
    w.count[core.FRESH] = 1


def _add_breaks(run: Integration, times: FloatArray) -> None:
    w = run.work
    ahead = w.breaks[run.counted(core.BREAK) :]
    run.replace(breaks=np.unique(np.concatenate([ahead, times])))
    run.work.count[core.BREAK] = 0
    run.work.count[core.BREAKS] = len(run.work.breaks)
