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

With `time` "averaged" these are also the equations of hosts that act once for each price or in steps (`SampledPrices`,
`SteppedRates`), whose actions are then spread evenly over T. All other routers without a state take present values
instead of averages. These equations have the linear form of `ecc.linearize(time="continuous")`.

Fluid has propagation delays and the delays of the queues on its path, first in, first out; a busy link serves it at its
capacity. A header reads R_l as it leaves link l for the wire. d_l is the mean of the RTTs in the headers that arrive at
l (each is the last one that its sender measured), weighted by rates as packets weight it, or the largest
(`scaling_rtt`). A router does nothing before its first arrival. If routers announce a rate from the start (`initial`),
a flow sends from its first feedback on, one RTT after its start; if not, it sends at once, at its `opening_rate`. The
`floor` of the protocol, in packets an RTT, is the minimum of announced rates and of flows' rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.choices import SOURCE_CLOCKS
from ecc.contract.forms import SampledPrices, SteppedRates
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.fluid.dde import history_and_step as core
from ecc.fluid.dde.integration import Integration, breaking_points
from ecc.fluid.network.groups import MIN_SHARE, FluidNetwork
from ecc.fluid.network.host_states import states_of_rates
from ecc.fluid.network.initial_conditions import MEASURED, InitialConditions
from ecc.fluid.network.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result, turns
from ecc.laws.arguments import takes

__all__ = ["run"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SLICE = 20_000  # maximum number of steps between two reports of progress
_RARE = 2.0  # ACKs in an interval of updates, above which no jump of departures makes them rarer than updates
_FEW_GROUPS = 8  # groups up to which steps end on jumps that pass from one group to another
_SHORTEST = 0.1  # control intervals: minimum time for which a flow must be known ahead
_SLIDING_STEP = 1e-3  # step, in control intervals, if bottlenecks switch endlessly


class _Parts(NamedTuple):
    """What the equations of a network are made of, and where each quantity is in the state of the integration.

    `block`: quantity -> its part of the state; `size`: length of the state. `reads`: 1.0 for each of `MEASURED` that a
    law reads, else 0.0. `measures`: whether averages of measurements are states. `instant`: whether their integrals are
    states instead, so that laws get their present values.
    """

    protocol: Protocol
    fluid: FluidNetwork
    laws: CompiledLaws
    initial: InitialConditions
    states: Mapping[str, State]
    interval: float
    measures: bool
    instant: bool
    reads: FloatArray
    block: dict[str, slice]
    size: int

    def of_host(self, k: int) -> slice:
        """The part of the state with the k-th state of hosts."""
        start, G = self.block["host"].start, self.fluid.n_groups
        return slice(start + k * G, start + (k + 1) * G)


class _Schedule(NamedTuple):
    """The capacities of all links, one link after the other: times of changes, capacities, those that routers know."""

    begins: FloatArray
    capacity: FloatArray
    known: FloatArray
    served: FloatArray
    """Data that could have been served before each change [bit]."""
    counts: list[int]
    """Number of capacities of each link."""

    @classmethod
    def of(cls, fluid: FluidNetwork) -> _Schedule:
        plans = [fluid.capacities(link) for link in range(fluid.n_links)]
        begins, capacity, known = (np.concatenate(parts) for parts in zip(*plans, strict=True))
        served = np.concatenate([np.cumsum([0.0, *(C[:-1] * np.diff(times))]) for times, C, _ in plans])
        return cls(begins, capacity, known, served, [len(times) for times, _, _ in plans])

    @property
    def changes(self) -> FloatArray:
        """The times after the start at which a capacity changes."""
        return np.unique(self.begins)[1:]

    def known_at(self, time: float) -> list[float]:
        """Return the capacity of each link that its router knows at a time."""
        ends = np.cumsum(self.counts)
        links = [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]
        return [float(self.known[link][self.begins[link] <= time][-1]) for link in links]


class _Start(NamedTuple):
    """The initial state of the integration, its range, and the absolute tolerances of its components."""

    y: FloatArray
    lower: FloatArray
    upper: FloatArray
    absolute: FloatArray


def run(problem: Problem) -> Result:
    """Integrate the equations of a network.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    Result
    """
    parts = _parts(problem)
    schedule = _Schedule.of(parts.fluid)
    numbers, indices = _packed(_header(parts), _float_arrays(parts, schedule), _integer_arrays(parts, schedule))
    integration, offset = _integration(problem, parts, schedule, numbers, indices)
    finished = parts.fluid.stop.copy()
    try:
        stopped = _advance(problem, parts, schedule, integration, offset, finished)
    except KeyboardInterrupt:
        stopped = "interrupted"
    return _result(problem, parts, integration, finished, stopped)


def _parts(problem: Problem) -> _Parts:
    """Return what the equations are made of: compiled laws, initial conditions, and the places of their quantities."""
    protocol, fluid = problem.protocol, problem.fluid
    states = states_of_rates(protocol)
    laws = CompiledLaws(protocol, shared=problem.shared, checked=False)
    interval = float(protocol.params()["interval"])
    initial = InitialConditions.of(protocol, laws, fluid, problem.point, problem.factor)
    form = protocol.fluid_form
    if isinstance(form, SteppedRates) and problem.point is None:
        lowest = (protocol.floor or 1.0) * 8.0 * fluid.packet_size / interval
        initial = replace(initial, x=np.maximum(lowest, form.opening_rate))
    L, G = fluid.n_links, fluid.n_groups
    measures = not laws.remembers or laws.announce != 0 or laws.priority != 0
    blocks = {
        "state": L if laws.remembers else 0,
        "measured": 5 * L if measures else 0,
        "queue": L,
        "arrived": L,
        "dropped": L,
        "source_state": G if laws.source_remembers else 0,
        "host": G * len(states),
        "sent": G,
        "delivered": G,
        "lost": G,
    }
    signals = {name for name in MEASURED if laws.takes(laws.signal_law, name) or laws.takes("priority", name)}
    read = signals | {"y"} | ({"N"} if "u" in signals else set())  # a router that sees no arrivals is silent
    reads = np.array([float(name in read) for name in MEASURED])
    ends = np.cumsum([0, *blocks.values()])
    block = {name: slice(int(a), int(b)) for name, a, b in zip(blocks, ends[:-1], ends[1:], strict=True)}
    averages = isinstance(form, SampledPrices | SteppedRates) or laws.announce != 0 or not signals
    instant = problem.averaged and not averages
    return _Parts(protocol, fluid, laws, initial, states, interval, measures, instant, reads, block, int(ends[-1]))


def _header(parts: _Parts) -> dict[str, int]:
    """Return the numbers at the beginning of the indices of the right-hand side."""
    laws, protocol = parts.laws, parts.protocol
    of_hosts = (protocol.source_law, *(state.law for state in parts.states.values()))
    return {
        "links": parts.fluid.n_links,
        "groups": parts.fluid.n_groups,
        "remembers": laws.remembers,
        "measures": parts.measures,
        "by_flow": laws.by_flow,
        "memory": laws.source_remembers,
        "stepping": laws.takes("source", "x"),
        "lagged_arrivals": laws.takes("router", "y_prev"),
        "lagged_feedback": any(takes(law, "R_prev") for law in of_hosts),
        "router": laws.router,
        "source": laws.source,
        "announce": laws.announce,
        "priority": laws.priority,
        "combine": ("min", "max", "sum").index(protocol.combine),
        "longest": protocol.scaling_rtt == "max",
        "windows": protocol.windowed,
        "by_rtt": protocol.router_clock == "rtt",
        "per_flow": protocol.rtt_weights == "flows",
        "counts_all": any(takes(law, "N_all") for law in laws.by_name.values()),
        "early": protocol.stamping == "arrival",
        "instant": parts.instant,
        "clock": SOURCE_CLOCKS.index(protocol.source_clock),
        "host_states": len(parts.states),
        "states_law": laws.states,
        "ahead": _known_ahead(parts),
        **{name: offset.start for name, offset in parts.block.items()},
    }


def _float_arrays(parts: _Parts, schedule: _Schedule) -> dict[str, Any]:
    """Return the arrays of floats of the right-hand side: data of the network, and its intermediate results."""
    fluid, laws, initial = parts.fluid, parts.laws, parts.initial
    from ecc.fluid.network.right_hand_side import N_PLACES, ring_size, signals_size

    L, G, crossings = fluid.n_links, fluid.n_groups, sum(map(len, fluid.routes))
    signals = [signals_size(len(route)) for route in fluid.routes]
    return {
        "begins": schedule.begins,
        "capacity": schedule.capacity,
        "known_capacity": schedule.known,
        "level": schedule.served,
        "interval": [parts.interval],
        "opens": initial.opens,
        "stops": fluid.stop,
        "floor": _floor(parts),
        "members": fluid.members,
        "packet": 8.0 * fluid.packet_size,
        "wire": fluid.wire,
        "forward": np.concatenate(fluid.forward),
        "backward": np.concatenate(fluid.backward),
        "min_count": fluid.min_count,
        "steady": fluid.steady,
        "reaches": np.concatenate(fluid.reaches),
        "survives": fluid.survives,
        "acks_kept": fluid.acks_kept,
        "router_floor": fluid.mean_floor(parts.protocol) if initial.announces_first else np.full(L, -np.inf),
        "record": np.zeros(len(ARGUMENTS) + 2 * len(parts.states)),
        "params": laws.params,
        "arrival": np.zeros(L),
        "before": np.zeros(L),
        "weighted": np.zeros(L),
        "responsive": np.zeros(L),
        "other": np.zeros(L),
        "bottlenecked": np.zeros(L),
        "crossing": np.zeros(L),
        "loss": np.zeros(L),
        "share": np.zeros(crossings),
        "round_trip": initial.rtt,
        "bottleneck": np.full(G, -1.0),
        "reads": parts.reads,
        "failed": np.zeros(3),
        "measured_before": initial.measured,
        "advertises_from": initial.advertises_from,
        "left_at": np.zeros(crossings),
        "known_for": _known_for(parts),
        "known": np.zeros(G),
        "signals": np.zeros(sum(signals)),
        "values": np.zeros(N_PLACES * max(signals)),
        "pieces": np.zeros(sum(ring_size(len(route)) for route in fluid.routes)),
    }


def _known_ahead(parts: _Parts) -> bool:
    """Return whether there are many flows, with rates that depend on the past only."""
    steps = parts.laws.source_remembers and parts.laws.takes("source", "x") and not parts.states
    return bool(steps) and parts.fluid.n_groups > _FEW_GROUPS and parts.protocol.source_clock != "continuous"


def _known_for(parts: _Parts) -> FloatArray:
    """Return for how long each group is known ahead, its shortest delay; 0 if that is much shorter than an interval."""
    fluid, T = parts.fluid, parts.interval
    delays = [
        min([T, fluid.backward[g][-1], fluid.wire[g], *np.diff(forward), *forward[:1][forward[:1] > 0.0]])
        for g, forward in enumerate(fluid.forward)
    ]
    return np.where(np.array(delays) > _SHORTEST * T, delays, 0.0)


def _floor(parts: _Parts) -> FloatArray:
    """Return the minimum of each group in an RTT without queues [bit]; that of `SteppedRates` is one of an interval."""
    floor = parts.fluid.floor(parts.protocol)
    stepped = isinstance(parts.protocol.fluid_form, SteppedRates)
    return floor * parts.fluid.rtt / parts.interval if stepped else floor


def _integer_arrays(parts: _Parts, schedule: _Schedule) -> dict[str, Any]:
    """Return the arrays of integers of the right-hand side: the routes, and the number of changes of capacities."""
    routes = parts.fluid.routes
    return {
        "crossings": np.cumsum([0, *map(len, routes)]),
        "crossing_link": np.concatenate(routes),
        "responds": np.concatenate(parts.fluid.responds),
        "changes": np.cumsum([0, *schedule.counts]),
    }


def _start(problem: Problem, parts: _Parts) -> _Start:
    """Return the state at t = 0, with the ranges and tolerances of its components."""
    fluid, initial, block, rtol = parts.fluid, parts.initial, parts.block, problem.rtol
    L, T, packet = fluid.n_links, parts.interval, 8.0 * fluid.packet_size
    y, lower, upper = np.zeros(parts.size), np.full(parts.size, -np.inf), np.full(parts.size, np.inf)
    absolute = np.full(parts.size, np.inf)
    if parts.laws.remembers:
        y[block["state"]], absolute[block["state"]] = initial.state, rtol * MIN_SHARE * fluid.capacity
        lowest = MIN_SHARE * fluid.capacity if initial.announces_first else initial.lowest  # a rate of 0 could not grow
        lower[block["state"]], upper[block["state"]] = lowest, initial.highest
    if parts.measures:
        y[block["measured"]] = 0.0 if parts.instant else initial.measured.ravel()
        for row, name in enumerate(MEASURED):
            if parts.reads[row] != 0.0 and not parts.instant:
                of_link = rtol * MIN_SHARE * (fluid.capacity if name in ("y", "u") else np.ones(L))
                absolute[block["measured"]][row * L : (row + 1) * L] = of_link
    y[block["queue"]] = initial.queue
    lower[block["queue"]], upper[block["queue"]] = 0.0, fluid.buffer
    upper[block["sent"]] = fluid.size
    busiest = np.array([fluid.capacity[list(route)].max() for route in fluid.routes])
    absolute[block["delivered"]] = packet + 1e-3 * busiest * T
    absolute[block["queue"]] = rtol * fluid.capacity * T
    if parts.laws.source_remembers:
        windows = problem.protocol.windowed
        y[block["source_state"]] = initial.x * (initial.rtt if windows else 1.0)
        lower[block["source_state"]] = packet if windows else 0.0
        absolute[block["source_state"]] = rtol * MIN_SHARE * busiest * (fluid.rtt if windows else 1.0)
    start = _Start(y, lower, upper, absolute)
    _start_hosts(problem, parts, start)
    return start


def _start_hosts(problem: Problem, parts: _Parts, start: _Start) -> None:
    """Write the initial states of hosts into the state at t = 0."""
    for k, (name, state) in enumerate(parts.states.items()):
        if callable(state.initial):
            kind = type(problem.protocol).__name__
            raise ValueError(
                f"initial of state {name} of {kind} must be a number: only window protocols can start states by a law"
            )
        part = parts.of_host(k)
        start.y[part], start.lower[part], start.upper[part] = state.initial, state.lowest, state.highest
        start.absolute[part] = problem.rtol
        if problem.point is not None and name in problem.point.states:
            start.y[part] = problem.point.states[name][parts.fluid.first_flow]


def _integration(
    problem: Problem, parts: _Parts, schedule: _Schedule, numbers: FloatArray, indices: IntArray
) -> tuple[Integration, dict[str, int]]:
    """Return the integration at t = 0, and the place of each array of the right-hand side in `numbers`."""
    from ecc.fluid.network import right_hand_side as rates

    fluid, block, T = parts.fluid, parts.block, parts.interval
    start = _start(problem, parts)
    offset = {name: int(indices[k]) for k, name in enumerate(rates.HEADER)}
    stopping = np.zeros(parts.size, dtype=np.int64)
    stopping[block["sent"]] = core.AT_UPPER
    if _steps_by_spacing(parts):
        stopping[block["queue"]] = core.AT_EITHER
    end = float(problem.samples[-1])
    integration = Integration(
        start.y,
        (0.0, end),
        rates.network_rates.address,
        np.empty(0),
        [],
        problem.rtol,
        start.absolute,
        numbers=numbers,
        indices=indices,
        lower=start.lower,
        upper=start.upper,
        stopping=stopping,
        breaks=_breaks(parts, schedule.changes, end),
        samples=problem.samples,
        peaked=np.arange(parts.size)[block["queue"]],
        watched=offset["bottleneck"] + np.arange(fluid.n_groups),
        max_step=end / 10.0,
        reach=2.0 * (float(fluid.rtt.max()) + T),
        stored=block["sent"].start,
        largest=True,
        sliding_step=_SLIDING_STEP * T,
        hints=rates.HINTS_PER_CROSSING * sum(map(len, fluid.routes)),
        named=lambda component: _named(component, block, fluid.n_links),
    )
    integration.work.clock[core.END] = min([end, *schedule.changes])
    integration.work.indices[rates.TABLE] = integration.table.ctypes.data
    return integration, offset


def _advance(
    problem: Problem,
    parts: _Parts,
    schedule: _Schedule,
    integration: Integration,
    offset: dict[str, int],
    finished: FloatArray,
) -> str:
    """Advance to the last sample, and return "completed", or why the run ended; `finished` gets times of completion."""
    end, changes = float(problem.samples[-1]), schedule.changes
    stops = integration.work.numbers[offset["stops"] :][: parts.fluid.n_groups]
    status = core.PAUSED
    steps = turns(_SLICE)
    while status in (core.PAUSED, core.LOCATED):
        status = integration.advance(next(steps))
        if status == core.DONE and integration.now < end:  # a change of capacities changes the range of routers
            status = core.PAUSED
            integration.work.clock[core.END] = min([end, *changes[changes > integration.now]])
            if parts.laws.remembers:
                _bound(integration, parts.block["state"], problem.protocol, schedule.known_at(integration.now))
        if status == core.LOCATED:
            component = integration.counted(core.COMPONENT)
            g = component - parts.block["sent"].start
            if g < 0:  # a queue
                link = component - parts.block["queue"].start
                _add_breaks(integration, integration.now + _spacing_times(parts, link, integration.work.y))
            else:
                stops[g] = finished[g] = integration.now
                _forget_pieces(parts, integration, offset["pieces"])
                _add_breaks(integration, integration.now + _notice_times(parts.fluid, g, parts.interval))
                integration.work.count[core.FRESH] = 1
        problem.progress(integration.now / end)
    if status == core.DONE:
        return "completed"
    law = _law_failed(integration, status, offset["failed"], parts.laws.code, problem.fluid.first_flow)
    return law or integration.trouble(status)


def _forget_pieces(parts: _Parts, integration: Integration, first: int) -> None:
    """Drop what is known ahead, after a flow has ended."""
    from ecc.fluid.network.right_hand_side import ring_size

    for route in parts.fluid.routes:
        integration.work.numbers[first] = 0.0
        first += ring_size(len(route))


def _result(problem: Problem, parts: _Parts, integration: Integration, finished: FloatArray, stopped: str) -> Result:
    """Return the series up to the present time, and the sums of flows."""
    samples, block = problem.samples, parts.block
    L, G, sent = parts.fluid.n_links, parts.fluid.n_groups, parts.block["sent"].start
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
        queue=np.clip(sampled[:, block["queue"]], 0.0, parts.fluid.buffer),
        queue_max=w.peaks[:rows],
        arrival=link_sums[:, :L] / widths,
        drops=link_sums[:, L:],
        sent=totals[:G],
        delivered=totals[G : 2 * G],
        lost=totals[2 * G : 3 * G],
        stopped_at=np.where(finished <= samples[-1], finished, np.nan),
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
            if part != "source_state" or not problem.protocol.windowed
        }
        | {f"flow.{name}": sampled[:, parts.of_host(k)] for k, name in enumerate(parts.states)},
    )


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


def _breaks(parts: _Parts, changes: FloatArray, end: float) -> FloatArray:
    """Return the times at which steps end: the jumps of derivatives that are known at the start.

    A jump returns after the RTT of each flow. If sources have memory, it returns undamped only to the flow itself, as
    ACKs that begin or end, and by its previous rate. To the others it returns in the second derivative, divided by the
    number of flows. These points are as many as pairs of RTTs: for many RTTs they are left to error control.
    """
    fluid, T, opens = parts.fluid, parts.interval, parts.initial.opens
    gates = np.concatenate([_gates(fluid, opens, T), changes, changes + T])
    roots = np.append(gates[gates > 0.0], 0.0)
    if not parts.laws.source_remembers or fluid.n_groups <= _FEW_GROUPS:
        loops = np.concatenate([fluid.rtt, fluid.rtt + T, [T]])
        return breaking_points(roots, loops, end, generations=3, max_points=2000)
    edges = np.concatenate([[begin, stop, 0.0] for begin, stop in zip(opens, fluid.stop, strict=True)])
    returns = edges + np.repeat(fluid.rtt, 3)
    at_links = [change + _spacing_times(parts, link, None) for change in changes for link in range(fluid.n_links)]
    points = np.concatenate([roots, edges, edges + T, returns, returns + T, *at_links])
    return breaking_points(points[points >= 0.0], [], end, generations=0)


def _steps_by_spacing(parts: _Parts) -> bool:
    """Return whether there are many rates that step with ACKs if these are rare."""
    many = parts.laws.source_remembers and parts.fluid.n_groups > _FEW_GROUPS
    return bool(many) and parts.protocol.source_clock in ("interval", "ack", "rtt")


def _spacing_times(parts: _Parts, link: int, y: FloatArray | None) -> FloatArray:
    """Return the delays after which a jump of the departures from a link makes the steps of sources jump.

    These are the sources whose ACKs are not much more frequent than their updates in the state y; None: all.
    """
    fluid, T, clock = parts.fluid, parts.interval, parts.protocol.source_clock
    delays = []
    for g, route in enumerate(fluid.routes):
        if link not in route or not _steps_by_spacing(parts):
            continue
        if y is not None and clock != "ack":
            rate = y[parts.block["source_state"]][g] / (fluid.rtt[g] if parts.protocol.windowed else 1.0)
            update = fluid.rtt[g] if clock == "rtt" else T
            if rate * fluid.acks_kept[g] * update > _RARE * 8.0 * fluid.packet_size[g]:
                continue
        delays.append(fluid.backward[g][list(route).index(link)])
    times: FloatArray = np.add.outer(np.array(delays), [0.0, T]).ravel()
    return times


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
