"""Window flows as fluid, clocked by ACKs: the data sent are the data acknowledged, plus the window.

For a flow with window w, and a link l of capacity C_l, as cumulative curves of time:

    sent(t) = acknowledged(t) + lost(t) + w(t)                       never decreasing; lost: losses detected by time t
    dw      = [law(w, m, R, D, ...) - w] da/w                        da: newly acknowledged
    sent'  <= w/T_p                                                  if windows are paced over T_p
    w, m   <- loss_response_law(w, m, ...), memory_law(w, m, ...)    at a loss; w is then constant for one RTT
    w      <- decrease_law(w, R, since, ...)                         if that is less than w; since = 0
    out_l(t + h) = min(in_l(t + h), out_l(t) + C_l h)                a full buffer drops the excess
    out_l(u) = in_l(e)                                               first in, first out: departures at u entered at e

or, if links integrate rates (`clocking` "rate"): sent' = w/D and da = w dt/D. If there is a `slow_start_law`, it is the
law until its result is not above w (the result is then the window), or until a loss; afterwards the law is
`source_law`. A flow sends its first window at once when it starts. ACKs return in trains at the rate of the bottleneck,
and slow start sends at twice that rate. Therefore half a window is queued before windows fill the path, as in packets.

Tracing the data acknowledged now back along their path, queue by queue, gives the RTT D with all queueing delays, the
losses among these data, and the feedback R. R is the sum of the feedback of the links, its minimum or its maximum. The
feedback of a link is the result of its `router_law` for the queue found on arrival, the part of the queue that belongs
to the flow, and the share of simultaneous arrivals that was lost. If laws of routers need averages over intervals (y,
q_mean, a state R), the routers compute the feedback at their ticks and advertise it until the next one. Between trains
nothing is acknowledged, and no law is called. If every action is spread evenly (`time` "averaged"), averages and states
of routers and disciplines move at every moment instead: T m' = y - m, T R' = law(R, m, ...) - R.

Random losses remove a share of the departures of a link. A flow with a `loss_response_law` detects a loss once queues
have dropped half a packet: ACKs admit as much as has left, therefore a full queue drops the growth of each flow's
window. Random losses are detected as a Poisson process, with a mean of one detection for each packet's worth of lost
data, drawn from the scenario's seed. At a detection the window jumps and is then constant for an RTT, the recovery.
Other losses of the old window are detected without a response, because SACK repairs any number of them in one RTT.
Timeouts and lost retransmissions are left out; if they would have mattered, the run has a note. `m`, the memory of
losses, is 0 before the first.

A queue discipline at a link (`disciplines`) chooses a share P of the arrivals. If it marks them, windows learn of it by
the ACKs of these arrivals (for several links, the share is 1 - prod(1 - P)). If it drops them, windows learn of it when
the loss is detected:

    w' = [law(w, ...) - w]/D + a/s [loss_response_law(w, ...) - w]         a: bits chosen per second; s: a packet

This is the mean over many flows (`signals` "rate"). With `signals` "random", each flow jumps at random as above, once
for each packet's worth of chosen data on average. In slow start, and if all arrivals are chosen (P = 1), windows jump
as at the drops of a full queue in either case: once for the recovery that follows.

Flows may run several protocols: each group has separate laws, and routers that average compute a state for each
protocol with such laws. A discipline that marks drops packets that cannot be marked.

Links may have several queues (`queues`), each with separate curves, and disciplines that examine packets as they leave
(`departures`). Their drops leave the queue unserved, and the flow learns of them when the ACKs would have returned.

Hosts that are machines of states (`machines`) set a rate and a window by themselves.

Curves are stored on a grid, a 200th of the shortest RTT apart, and are linear in between. Laws may jump, and the burst
that a jump sends returns with the ACKs, RTT after RTT. Data sent within a step of the grid are spread over it: trains
shorter than a step build no queue. `window_steps` has the steps, compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.equilibrium import Equilibrium
from ecc.contract.kinds import source_takes
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import simultaneous_states, states_of
from ecc.fluid.network.curves import Curves, Paths, curves_of, paths_of, result_of
from ecc.fluid.network.departures import Departures, departures_of
from ecc.fluid.network.disciplines import Compiled, Disciplines, begin, chooses_departures, disciplines_of
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.groups import FluidNetwork
from ecc.fluid.network.host_states import compiled_moves
from ecc.fluid.network.laws import BEFORE, CompiledLaws
from ecc.fluid.network.machines import is_machine, machine_fields, machines_of
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.queues import LinkQueues, Service, codepoint
from ecc.fluid.network.result import Result
from ecc.fluid.network.window_steps import WINDOW_ARGUMENTS, Routers, Rules, Sources, advance
from ecc.laws.arguments import arguments_except, call_law, takes
from ecc.models.shared.windows import initial_window

__all__ = ["run", "solve"]

FloatArray = NDArray[np.float64]

_AVERAGED, _ON_ARRIVAL = ("R", "y", "q_mean"), ("q_flow", "loss", "s")  # known over intervals; known on arrival
_STEPS = 200  # steps of the grid in the shortest RTT
_REPAIRED, _REPEATED = 10.0, 2  # packets lost of a window, and losses right after recoveries, that need no note
_EQUAL_RTTS = 1.05  # ratio of RTTs up to which they count as equal


def _recoveries(protocol: Protocol, burst: float, repeated: int) -> tuple[str, ...]:
    """Return notes on losses that packet transports need longer to repair."""
    notes = []
    if protocol.transport == "newreno" and burst > _REPAIRED:
        notes.append(
            f"a flow lost up to {burst:.0f} packets of a window, which this fluid repairs in one RTT, as SACK does; "
            "NewReno (RFC 6582) takes an RTT for each, or a timeout"
        )
    if protocol.transport is not None and repeated > _REPEATED:
        notes.append(
            f"a flow met losses again within an RTT after a recovery, {repeated} times; if retransmissions are lost, "
            "packets wait for timeouts, which this fluid does not have"
        )
    return tuple(notes)


def _unequal_rtts(fluid: FluidNetwork, full: Sequence[int]) -> tuple[str, ...]:
    """Return a note if flows with different RTTs lost packets at a full queue."""
    for link in full:
        rtts = [rtt for rtt, route in zip(fluid.rtt, fluid.routes, strict=True) if link in route]
        if max(rtts) > _EQUAL_RTTS * min(rtts):
            return (
                f"RTTs of flows through the full queue of link {link} are from {1e3 * min(rtts):.4g} to "
                f"{1e3 * max(rtts):.4g} ms: this fluid divides losses by rates, packet runs lose whole packets of some "
                "flows, and the flows may have other shares there",
            )
    return ()


def _averages(protocol: Protocol, laws: CompiledLaws) -> bool:
    """Return whether routers average over intervals; if not, their law is evaluated for each flow as it arrives."""
    averaged, on_arrival = (
        [name for name in names if laws.takes("router", name) or laws.takes("announce", name)]
        for names in (_AVERAGED, _ON_ARRIVAL)
    )
    if averaged and on_arrival:
        raise ValueError(
            f"{type(protocol).__name__} has no fluid model: its routers average {', '.join(averaged)} over intervals, "
            f"but {', '.join(on_arrival)} is known only as a packet arrives"
        )
    return bool(averaged) or laws.announce != 0


def _measured(fluid: FluidNetwork, link: int, point: Equilibrium | None) -> tuple[float, float]:
    """Return the arrivals [bit/s] and the queue [bit] of a link before the start: none, or those of the equilibrium."""
    if point is None:
        return 0.0, 0.0
    arrivals = sum(
        members * point.rates[flow]
        for members, flow, route in zip(fluid.members, fluid.first_flow, fluid.routes, strict=True)
        if link in route
    )
    return arrivals, 0.0 if point.queue is None else float(point.queue[link])


def _announced(
    protocol: Protocol, fluid: FluidNetwork, link: int, interval: float, point: Equilibrium | None
) -> tuple[float, float]:
    """Return the state and signal of a router before its first tick: those of an idle link, or of the equilibrium."""
    supply: dict[str, Any] = {"C": float(fluid.capacity[link]), "T": interval, "p": protocol.namespace()}
    y, q = _measured(fluid, link, point)
    supply |= {"R": protocol.rate_range(supply["C"])[0], "y": y, "q": q, "q_mean": q}
    if point is not None:
        supply["R"] = point.fair_rate[link]
    state = call_law(protocol.router_law, supply)
    if protocol.announce_law is None:
        return state, state
    supply["R"] = state
    return state, call_law(protocol.announce_law, supply)


@dataclass(frozen=True)
class _Host:
    """A protocol, its laws, and whether its routers average over intervals."""

    protocol: Protocol
    laws: CompiledLaws
    moves: Mapping[str, int]
    averages: bool
    interval: float

    @classmethod
    def of(cls, protocol: Protocol, fields: tuple[str, ...], h: float) -> _Host:
        laws = CompiledLaws(protocol, fields)
        interval = float(protocol.params().get("interval", h))
        return cls(protocol, laws, compiled_moves(protocol, fields), _averages(protocol, laws), interval)

    def all_laws(self) -> Iterator[Any]:
        """Yield the laws of the protocol, and those of its states."""
        yield from self.laws.by_name.values()
        for state in self.protocol.states.values():
            yield from (law for law in (state.law, *state.jumps.values()) if law is not None)

    def initial_window(self, packet_size: float) -> float:
        """Return the initial window in bytes."""
        if self.protocol.opening_window is not None:
            return self.protocol.opening_window
        return self.protocol.initial * packet_size if self.protocol.initial else initial_window(packet_size)


def _rules(hosts: Sequence[_Host], averaged: Sequence[int], record: FloatArray, grid: Grid, problem: Problem) -> Rules:
    """Return the laws of some hosts; `averaged` is the row of each host's router at link 0."""
    runs = [[host.protocol for host in hosts].index(protocol) for protocol in problem.protocols]

    def laws(name: str) -> NDArray[np.int64]:
        return np.array([getattr(host.laws, name) for host in hosts], np.int64)

    def moves(name: str) -> NDArray[np.int64]:
        return np.array([host.moves.get(name, 0) for host in hosts], np.int64)

    return Rules(
        np.array(runs, np.int64),
        laws("router"),
        laws("source"),
        laws("slow_start"),
        laws("decrease"),
        laws("loss"),
        laws("mark"),
        laws("memory"),
        moves("move"),
        moves("after_loss"),
        moves("after_mark"),
        np.array([[record.ctypes.data, host.laws.params.ctypes.data] for host in hosts]),
        np.array([host.interval for host in hosts]),
        np.array([("min", "max", "sum").index(host.protocol.combine) for host in hosts]),
        np.array([int(host.laws.takes("router", "q_flow")) for host in hosts]),
        np.array(averaged, np.int64),
        np.array([8.0 * host.protocol.receiver_window or np.inf for host in hosts]),
        np.array([host.protocol.paced_over for host in hosts]),
        record,
        grid.failed,
        int(problem.ack_clocked),
        int(problem.signals == "random"),
    )


def _routers(
    hosts: Sequence[_Host],
    fluid: FluidNetwork,
    grid: Grid,
    record: FloatArray,
    ticks: FloatArray,
    problem: Problem,
) -> Routers:
    """Return the routers of some hosts, one at each link, before their first ticks."""
    point = problem.point
    rows = [(link, host) for host in hosts for link in range(fluid.n_links)]
    state, advertised, mean = np.zeros(len(rows)), np.zeros((len(rows), grid.rows)), np.zeros((len(rows), 2))
    for k, (link, host) in enumerate(rows):
        state[k], advertised[k, : grid.zero] = _announced(host.protocol, fluid, link, host.interval, point)
        mean[k] = _measured(fluid, link, point)
    interval = np.array([host.interval for _, host in rows])
    return Routers(
        np.array([link for link, _ in rows], np.int64),
        np.array([host.laws.router for _, host in rows], np.int64),
        np.array([host.laws.announce for _, host in rows], np.int64),
        np.array([[record.ctypes.data, host.laws.params.ctypes.data] for _, host in rows], np.int64).reshape(-1, 2),
        interval,
        advertised,
        state,
        interval * ticks[[link for link, _ in rows]],
        np.full(len(rows), grid.zero - 1),
        np.zeros(len(rows)),
        mean,
        -np.expm1(-grid.h / interval) if problem.averaged else np.zeros(len(rows)),
        np.array([host.laws.remembers for _, host in rows], np.int64),
    )


def _ticks(discipline: Protocol) -> bool:
    """Return whether a discipline has a state that moves at intervals."""
    return any(state.clock == "interval" for state in discipline.states.values())


@dataclass(frozen=True)
class _Links:
    """Links of a run, or their queues if links have several, with the disciplines at each.

    `on_arrival` has those that choose arrivals, for each link or queue; `at_departure` those that choose departures,
    for each link.
    """

    fluid: FluidNetwork
    on_arrival: list[Protocol | None]
    at_departure: list[Protocol | None]
    ticks: FloatArray
    queues: LinkQueues | None

    @classmethod
    def of(cls, problem: Problem) -> _Links:
        fluid, at_links, ticks, queues = problem.fluid, problem.disciplines, problem.ticks, None
        if len(problem.joined) > 0:
            queues = LinkQueues.of(fluid, at_links, problem.joined)
            at_links, ticks, fluid = [at_links[link] for link in queues.link], ticks[queues.link], queues.fluid
        at_departure = [
            discipline if discipline is not None and chooses_departures(discipline) else None
            for discipline in problem.disciplines
        ]
        on_arrival = [
            discipline if discipline is None or discipline.probability_law is not None else None
            for discipline in at_links
        ]
        return cls(fluid, on_arrival, at_departure, ticks, queues)

    @property
    def service(self) -> Service:
        """The scheduling of several queues at a link, empty if each link has one queue."""
        empty = np.zeros(0, np.int64)
        return Service(empty, empty, empty, np.zeros(0)) if self.queues is None else self.queues.service


@dataclass(frozen=True)
class _Network:
    """Network of a run on its grid, with the delays of its queues at the start [s]."""

    fluid: FluidNetwork
    grid: Grid
    paths: Paths
    curves: Curves
    disciplines: Disciplines
    waits: FloatArray  # (n_links,)
    rtt: FloatArray  # (n_groups,): with waits

    @classmethod
    def of(cls, problem: Problem, links: _Links) -> tuple[_Network, Compiled]:
        """Return an empty network, and the code of its disciplines."""
        fluid, point = links.fluid, problem.point
        queue = np.zeros(fluid.n_links) if point is None or point.queue is None else point.queue
        waits = queue / fluid.capacity
        rtt = fluid.rtt + np.array([waits[list(route)].sum() for route in fluid.routes])
        h = _step(links)
        grid = Grid.of(h, ceil(float(rtt.max()) / h) + 2, problem.samples)
        paths = paths_of(fluid, grid)
        curves = curves_of(paths, fluid, grid, keeps_drops=True, head_drops=any(links.at_departure))
        disciplines, code = disciplines_of(
            links.on_arrival,
            _codepoints(problem),
            paths,
            grid,
            links.ticks,
            float(fluid.rtt.min()),
            averaged=problem.averaged,
        )
        begin(disciplines, code, links.on_arrival, fluid.capacity, problem.marking)
        return cls(fluid, grid, paths, curves, disciplines, waits, rtt), code


@dataclass(frozen=True)
class _Start:
    """State of a run at time 0: window [bit], states, acknowledged bits and early drops of each group."""

    window: FloatArray
    states: FloatArray
    acked: FloatArray
    early_seen: FloatArray


def run(problem: Problem) -> Result:
    """Compute the curves of a network.

    Parameters
    ----------
    problem : Problem
        Problem with source laws that take the argument `w`.

    Returns
    -------
    Result
    """
    return solve(problem, advance)


def solve(problem: Problem, advance: Callable[..., Any], rounds: Any = None) -> Result:
    """Compute the curves of a network by a kernel.

    Parameters
    ----------
    problem : Problem
        Problem with source laws that take the argument `w`.
    advance : callable
        Kernel with the arguments of `window_steps.advance`.
    rounds : NamedTuple, optional
        Last argument of the kernel; None: the hosts that are machines of states.
    """
    links = _Links.of(problem)
    network, code_of_disciplines = _Network.of(problem, links)
    fluid, grid, paths, curves = network.fluid, network.grid, network.paths, network.curves
    names = _state_names(problem.protocols)
    before = (BEFORE + name for protocol in problem.protocols for name in simultaneous_states(protocol))
    fields = (*WINDOW_ARGUMENTS, *names, *dict.fromkeys(before))
    hosts = {protocol: _Host.of(protocol, fields, grid.h) for protocol in dict.fromkeys(problem.protocols)}
    of_group = [hosts[protocol] for protocol in problem.protocols]
    start = _start(problem, network, of_group, names)
    record = np.zeros(len(fields))
    averaging = [host for host in hosts.values() if host.averages]
    averaged = [fluid.n_links * averaging.index(host) if host.averages else -1 for host in hosts.values()]
    rules = _rules(list(hosts.values()), averaged, record, grid, problem)
    routers = _routers(averaging, fluid, grid, record, links.ticks, problem)
    sources = _sources(problem, of_group, start, grid)
    departures, code_of_departures = _departures(problem, links, network)
    machines, code_of_machines = machines_of(
        problem.protocols,
        names,
        start.states,
        np.searchsorted(fluid.active, fluid.first_flow),
        len(fluid.active),
        grid.rows,
    )
    recorded = {"env.window": start.window, "flow.m": sources.memory, "link.R": routers.state}
    recorded |= {f"flow.{name}": start.states[:, column] for column, name in enumerate(names)}
    recorded |= {
        f"link.{name}": network.disciplines.records[:, column] for name, column in code_of_disciplines.states.items()
    }
    grid.run(
        lambda begin, end: int(
            advance(
                begin,
                end,
                grid.h,
                grid.zero - 1,
                paths,
                curves,
                rules,
                routers,
                sources,
                network.disciplines,
                links.service,
                departures,
                machines if rounds is None else rounds,
            )
        ),
        problem.progress,
        recorded if problem.records else None,
        code=[
            *(compiled for host in hosts.values() for compiled in (host.laws.code, host.moves)),
            *code_of_disciplines.owners,
            *code_of_departures,
            *code_of_machines,
        ],
        flows=fluid.first_flow,
        links=None if links.queues is None else links.queues.link,
        visit=problem.visit,
    )
    _set_losses(links, network)
    full = _full_links(links, network)
    result = _result(problem, links, network, departures)
    notes = (*_unequal_rtts(fluid, full), *_notes_on_losses(problem.protocols, sources, curves.lost))
    result.stats["notes"] = tuple(dict.fromkeys(notes))
    if problem.records:
        _finish_records(result.recorded, of_group, names)
    return result


def _step(links: _Links) -> float:
    """Return the step of the grid [s]."""
    fluid, on_arrival = links.fluid, links.on_arrival
    crossed = {link for route in fluid.routes for link in route}
    ticking = [
        interval_of(discipline)
        for link, discipline in enumerate(on_arrival)
        if discipline is not None and link in crossed and _ticks(discipline)
    ]
    h = float(fluid.rtt.min()) / _STEPS
    if ticking:  # the shortest interval is an integer number of steps, because ticks happen on the grid
        h = min(ticking) / ceil(min(ticking) / h)
    return h


def _codepoints(problem: Problem) -> list[int]:
    """Return the ECN codepoint of each group's packets."""
    return [codepoint(protocol) for protocol in problem.protocols]


def _departures(problem: Problem, links: _Links, network: _Network) -> tuple[Departures, list[Any]]:
    """Return the disciplines that choose departures, and the objects that own their code."""
    fluid, queues = problem.fluid, links.queues
    n = fluid.n_links
    return departures_of(
        links.at_departure if any(links.at_departure) else [],
        np.arange(n + 1) if queues is None else queues.service.first,
        np.zeros(n, np.int64) if queues is None else queues.index,
        _codepoints(problem),
        network.paths,
        fluid.capacity,
        fluid.buffer,
        network.grid,
        problem.ticks,
        problem.seed,
        problem.signals == "random",
    )


def _state_names(protocols: Sequence[Protocol]) -> list[str]:
    """Return the names of the states of all hosts, machines included."""
    begun = {protocol: machine_fields(protocol) for protocol in dict.fromkeys(protocols)}
    return list(dict.fromkeys(name for protocol in begun for name in (*states_of(protocol), *begun[protocol])))


def _constant_states(of_group: Sequence[_Host], names: Sequence[str]) -> FloatArray:
    """Return the states of each group; those with initial values that laws derive are 0."""
    states = np.zeros((len(of_group), len(names)))
    for g, host in enumerate(of_group):
        for name, state in host.protocol.states.items():
            if not callable(state.initial):
                states[g, names.index(name)] = state.initial
        for name, value in machine_fields(host.protocol).items():
            states[g, names.index(name)] = value
    return states


def _start(problem: Problem, network: _Network, of_group: Sequence[_Host], names: Sequence[str]) -> _Start:
    """Return the state of a run at time 0; with an equilibrium, also set the curves of the network for all t < 0."""
    if problem.point is None:
        return _empty_start(network.fluid, of_group, names)
    return _equilibrium_start(problem, problem.point, network, of_group, names)


def _empty_start(fluid: FluidNetwork, of_group: Sequence[_Host], names: Sequence[str]) -> _Start:
    """Return the state of an empty network."""
    states, (acked, early_seen) = _constant_states(of_group, names), np.zeros((2, len(of_group)))
    window = 8.0 * np.array([host.initial_window(s) for host, s in zip(of_group, fluid.packet_size, strict=True)])
    for g, host in enumerate(of_group):
        for name, state in host.protocol.states.items():
            if callable(state.initial):
                states[g, names.index(name)] = _first_value(host.protocol, name, state.initial, window[g])
    return _Start(window, states, acked, early_seen)


def _equilibrium_start(
    problem: Problem, point: Equilibrium, network: _Network, of_group: Sequence[_Host], names: Sequence[str]
) -> _Start:
    """Return the state of a network at an equilibrium, and set its curves for all t < 0."""
    fluid, paths, marking = network.fluid, network.paths, problem.marking
    states, (acked, early_seen) = _constant_states(of_group, names), np.zeros((2, len(of_group)))
    x = point.rates[fluid.first_flow]
    over = np.array([host.protocol.paced_over for host in of_group])
    window = problem.factor * x * np.maximum(network.rtt, over)
    for g, flow in enumerate(fluid.first_flow):
        for name, values in point.states.items():
            states[g, names.index(name)] = values[flow]
    chosen_before = np.zeros(len(paths.links))
    if marking is not None:
        chosen_before = marking.chosen[fluid.first_flow[paths.owner], paths.links]
        network.disciplines.probability[network.disciplines.rows, : network.grid.zero] = chosen_before[:, None]
        for g, flow in enumerate(fluid.first_flow):
            for name, value in marking.host_states[flow].items():
                states[g, names.index(name)] = value
    let_through = _sent_before(network, x, chosen_before)
    acked -= paths.pass_share[paths.first[1:] - 1] * let_through * network.rtt
    early_seen -= (x - let_through) * network.rtt
    return _Start(window, states, acked, early_seen)


def _sources(problem: Problem, of_group: Sequence[_Host], start: _Start, grid: Grid) -> Sources:
    """Return the sources of all groups at the start of a run."""
    G = len(of_group)
    max_losses = int(grid.rows * grid.h / float(problem.fluid.rtt.min())) + 2  # one an RTT
    memory, recovery_end, drops_before, burst, drops_seen, random_seen, early, marked = np.zeros((8, G))
    heads_seen, marked_seen, at_heads = np.zeros((3, G))
    begins = np.array([int(problem.point is None and host.laws.slow_start != 0) for host in of_group])
    hosts = {host.protocol: host for host in of_group}.values()
    for host in hosts:
        _check_since(host.protocol)
    looks_back = any(takes(law, "w_rtt") for host in hosts for law in host.all_laws())
    windows = np.repeat(start.window[:, None], grid.rows if looks_back else 0, axis=1)
    return Sources(
        start.window,
        start.states,
        begins,
        np.full(G, -np.inf),
        start.acked,
        memory,
        recovery_end,
        drops_before,
        burst,
        np.zeros(G, np.int64),
        drops_seen,
        random_seen,
        np.random.default_rng(problem.seed).exponential(size=(G, max_losses)),
        np.zeros(G, np.int64),
        start.early_seen,
        early,
        marked,
        heads_seen,
        marked_seen,
        at_heads,
        np.full(G, -np.inf),
        np.zeros(G),
        windows,
    )


def _full_links(links: _Links, network: _Network) -> list[int]:
    """Return the links with a full queue that dropped packets, if no link has a discipline for departures or queues."""
    if any(links.at_departure) or links.queues is not None:
        return []
    dropped = network.curves.link_drops[:, int(network.grid.ends()[-1])]
    return [link for link, discipline in enumerate(links.on_arrival) if discipline is None and dropped[link] > 0.0]


def _set_losses(links: _Links, network: _Network) -> None:
    """Set the times at which flows stopped, and the bits that each group has lost."""
    grid, paths, curves = network.grid, network.paths, network.curves
    done = np.argmax(curves.sent >= links.fluid.size[:, None], axis=1)
    paths.stop[:] = np.where(done > 0, (done - grid.zero + 1) * grid.h, links.fluid.stop)
    last = int(grid.ends()[-1])
    lost = curves.crossing_drops[:, last] - curves.crossing_drops[:, grid.zero - 1]
    lost += (1.0 - paths.pass_share) * curves.arrived[:, last]
    if any(links.at_departure):
        lost += curves.head_drops[:, last]
    curves.lost[:] = [lost[a:b].sum() for a, b in zip(paths.first[:-1], paths.first[1:], strict=True)]


def _result(problem: Problem, links: _Links, network: _Network, departures: Departures) -> Result:
    """Return the result of a run, with series of links, and of the queues of each link if there are several."""
    grid, paths, curves, queues = network.grid, network.paths, network.curves, links.queues
    disciplines = network.disciplines
    marked = disciplines.marked if len(disciplines.marked) > 0 else np.zeros_like(curves.into)
    if any(links.at_departure):
        members_of_crossing = paths.members[paths.owner][:, None]
        np.add.at(marked, paths.links, members_of_crossing * departures.marks)
        np.add.at(curves.link_drops, paths.links, members_of_crossing * curves.head_drops)
    classes, by_class = None, {}
    if queues is not None:
        classes, rows = queues.classes(problem.disciplines)
        cumulative = {"class_drops": curves.link_drops, "class_marks": marked}
        by_class = {name: grid.sums(curve)[:, rows] * (rows >= 0) for name, curve in cumulative.items()}
        by_class["class_queue"] = grid.values(curves.into - curves.out)[1:, rows] * (rows >= 0)
        paths, curves = queues.of_links(paths, curves)
        marked = queues.by_link(marked)
        for name in [name for name in grid.recorded if name.startswith("link.")]:
            grid.recorded[name] = grid.recorded[name][:, queues.service.first[:-1]]
    result = result_of(grid, paths, curves)
    if classes is not None and classes.size > 0:
        result.classes, result.by_class = classes, by_class
    if any(problem.disciplines):
        result.marks = grid.sums(marked)
    return result


def _notes_on_losses(protocols: Sequence[Protocol], sources: Sources, lost: FloatArray) -> Iterator[str]:
    """Yield notes on losses that hosts would need longer to repair, or do not respond to."""
    for protocol in dict.fromkeys(protocols):
        if is_machine(protocol):
            continue
        groups = [g for g, of_g in enumerate(protocols) if of_g == protocol]
        yield from _recoveries(protocol, float(sources.burst[groups].max()), int(sources.repeated[groups].max()))
        if protocol.loss_response_law is None and lost[groups].any():
            yield f"packets were lost: in fluid runs, windows of {type(protocol).__name__} do not respond to losses"


def _finish_records(recorded: dict[str, FloatArray], of_group: Sequence[_Host], names: Sequence[str]) -> None:
    """Convert recorded windows to bytes, and set states that a host does not have to NaN."""
    recorded["env.window"] /= 8.0
    for g, host in enumerate(of_group):
        for name in names:
            if name not in host.protocol.states and name not in machine_fields(host.protocol):
                recorded[f"flow.{name}"][:, g] = np.nan


def _check_since(protocol: Protocol) -> None:
    """Raise if a source law takes the time since a decrease by feedback, but only losses and marks decrease windows."""
    if source_takes(protocol, "since") and protocol.decrease_law is None and protocol.loss_response_law is not None:
        raise ValueError(
            f"source_law of {type(protocol).__name__} must not take since, the time since the last decrease by "
            "decrease_law, because there is no decrease_law: the time since a loss or mark is a State that jumps at it"
        )


def _first_value(protocol: Protocol, name: str, law: Callable[..., float], window: float) -> float:
    """Return the initial value of a state that a law derives from the first window [bit]."""
    supply: dict[str, Any] = {"w": float(window), "p": protocol.namespace()}
    if unknown := arguments_except(law, supply):
        raise ValueError(
            f"initial of state {name} of {type(protocol).__name__} may take w and p, got the argument {unknown[0]!r}"
        )
    return float(call_law(law, supply))


def _sent_before(network: _Network, x: FloatArray, chosen: FloatArray) -> FloatArray:
    """Set the bits sent by all flows for all t < 0, counted from 0 s; return the rates after drops by disciplines."""
    fluid, grid, paths, curves = network.fluid, network.grid, network.paths, network.curves
    disciplines, waits = network.disciplines, network.waits
    zero = grid.zero
    paths.start[:] = -np.inf
    past = grid.h * (np.arange(zero) - zero + 1.0)
    passed = x.copy()
    for g, route in enumerate(fluid.routes):
        waited = np.cumsum([0.0, *waits[list(route)]])
        curves.sent[g, :zero] = x[g] * past
        for k, link in enumerate(route):
            c, late = paths.first[g] + k, past - fluid.forward[g][k] - waited[k]
            if chosen[c] > 0.0 and disciplines.marks[c] == 0:
                dropped = chosen[c] * passed[g]
                passed[g] -= dropped
                disciplines.early[c, :zero] = curves.crossing_drops[c, :zero] = dropped * late
                curves.link_drops[link, :zero] += fluid.members[g] * dropped * late
            curves.arrived[c, :zero] = passed[g] * late
            curves.into[link, :zero] += fluid.members[g] * passed[g] * late
            curves.out[link, :zero] += fluid.members[g] * passed[g] * (late - waits[link])
        curves.received[g, :zero] = passed[g] * (past - fluid.forward[g][-1] - waited[-1] - fluid.wire[g])
    return passed
