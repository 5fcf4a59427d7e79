"""The linear model of paced windows, of windows with states, and of routers that measure arrivals.

Flow i has window w_i, other states v_i (for example, an average of reports) and RTT D_i, queues included. A packet
reaches the queue of link l F_il after it was sent, and D_i - F_il passes from there until the ACK that reports the
queue. b_i is the bottleneck of flow i. A flow is *paced* if D_i <= T_p, the time in which its window is sent
(`paced_over`); otherwise it is *clocked* by its ACKs.
Deviations from the equilibrium, with derivatives g of the source law, G of the laws of states, and r of the router law:

    E_i w_i' = (g_w - 1) w_i(t) + g_{w_rtt} w_i(t - D_i) + g_v v_i(t) + g_D D_i(t) + g_R R_i(t),  E_i = max(D_i, T_p)
    v_i'     = G_v v_i(t) + G_w w_i(t) + ...                  "continuous"; "rtt": E_i v_i' = (G_v - 1) v_i(t) + ...
    D_i(t)   = q_l(t - D_i + F_il)/C_l                        of the queue of its path
    R_i(t)   = r_q q_l(t - D_i + F_il) + r_y m_l(t - D_i + F_il)    of l = b_i, or the sum over its path
    q_l'     = sum_i w_i(t - F_il)/T_p                        if flows are paced
    q_l      = sum_i w_i(t - F_il)                            if they are clocked, all with one RTT
    T m_l'   = y_l(t) - m_l(t)                                mean arrivals at l in an interval T
    T M_l'   = (r_R - 1) M_l(t) + r_y m_l(t) + r_q q_l(t)     memory of l; R_i is then that of an announce law
    y_l      = sum_i w_i(t - F_il)/T_p, or q_l'

A router that averages y writes its report when a packet leaves, so the wait in its queue does not delay r. Empty queues
stay empty. If clocking is "rate", clocked flows send x_i = w_i/D_i - x_i/D_i D_i(t), and q_l' = sum_i x_i(t - F_il).

These are the equations of `ecc.fluid.network.windows`, in which y is the mean over an interval, and is reported until
the end of the next interval: T later on average, as in this model. Equal flows are represented by their sum. Their
differences obey the same equations without queues, and are included.

The other two models differ in one part each:

    hybrid     routers that measure arrivals act at their ticks t = (phase + n) T:  y is the mean over the interval that
               ended, M[n] = r_R M[n - 1] + r_y y + r_q q, and the report of tick n is held until the next one
    discrete   hosts act once per RTT, w and the states of the clock "rtt" (`ecc.loops.rounds_of_windows`)

The hybrid model is the fluid's, linearized. It tends to the continuous model as T shrinks: at the second order in T if
reports depend on arrivals alone, and at the first order if they depend on a memory or a queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.entries import Taken
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.contract.values import equilibrium_of, refuse_simultaneous, state_at, states_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, takes, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.sample_and_hold import Clock, Term
from ecc.loops.options import ModelChoice, read_phases
from ecc.loops.rounds_of_windows import act_at_ticks, follow_states, hold, reduced
from ecc.network.network import Network

__all__ = ["linearize_paced"]

_SOURCE = ("w", "w_rtt", "R", "D", "T", "s", "a", "p")
_TAKEN = Taken(
    "a linear model",
    {"router_law": ("R", "y", "q", "C", "T", "p"), "announce_law": ("R", "q", "C", "T", "p"), "source_law": _SOURCE},
    {"combine": ("max", "sum"), "states": None, "paced_over": None},
    # no flow starts and no packet is lost at an equilibrium
    dict.fromkeys(("slow_start_law", "loss_response_law", "memory_law", "initial", "opening_window"), ""),
    without_memory=("y", "q", "C", "T", "p"),
    model="linear model",
    of_states=_SOURCE,
)
_EQUAL = 1e-9  # relative: rounding in the equilibrium
_MAX_GROUPS = 16  # ticks per RTT of hosts that move at each ACK, if they also have states that move once per RTT
_TIED = 1e-6  # relative: of the reports of links
_Signal = dict[tuple[float, int], float]
"""(delay [s], state) -> coefficient."""


def _add(into: _Signal, signal: _Signal, gain: float, delay: float = 0.0) -> None:
    for (earlier, state), slope in signal.items():
        if gain * slope != 0.0:
            into[earlier + delay, state] = into.get((earlier + delay, state), 0.0) + gain * slope


@dataclass(frozen=True)
class _Kind:
    """Equal flows: their rate and RTT, their delay to the queue of each link, their first state, and their pacing."""

    members: list[int]
    route: list[int]
    x: float
    D: float
    late: dict[int, float]
    first: int
    is_paced: bool


def linearize_paced(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem | SampledSystem:
    """Return the linear model; its state: w [bit] and other states of each kind of flow, queues, averages, differences.

    Parameters
    ----------
    protocol : Protocol
        Protocol of hosts that set windows and have states, or pace their windows.
    network : Network
    choice : ModelChoice
        Its time; its clocking, "ack" if it is None; its assignment, which `Protocol.equilibrium` takes; its phases, for
        the time "hybrid"; and its updates per RTT, for the time "discrete".

    Raises
    ------
    ValueError
        If a law takes other arguments, or a state has another clock; or the time is "hybrid", and no router measures
        over an interval.
    LinearizationError
        If no equilibrium exists, or a law or a bottleneck switches at it; a path has several queues; clocked flows have
        heterogeneous RTTs or no queue; or the time is "discrete", and the ticks of hosts do not repeat.
    """
    _TAKEN.check(protocol)
    loop = _Loop.of(protocol, network, choice)
    queues = loop.queue_signals()
    waits, rates = loop.host_signals(queues)
    rows: list[_Signal] = [{} for _ in range(loop.size)]
    if choice.time == "hybrid":
        held, averages = loop.held_links(rows, queues, rates)
    else:
        held, averages = [], loop.add_links(rows, queues, rates)
    through_links: list[_Signal] = [{} for _ in range(loop.size)]
    for k in range(len(loop.kinds)):
        loop.add_host(k, rows, through_links, loop.report_signal(k, queues, averages), waits[k])
    closed = [dict(row) for row in rows]
    for row, signal in zip(closed, through_links, strict=True):
        _add(row, signal, 1.0)
    if choice.time == "hybrid":
        return loop.sampled(closed, rows, held, read_phases(choice.phases, network))
    system = _system(closed, loop.size, _system(rows, loop.size)).with_notes(*loop.point.notes)
    if choice.time == "continuous":
        return system
    intervals, shares = loop.ticks(choice.updates_per_rtt)
    rtts = [kind.D for kind in loop.kinds]
    return act_at_ticks(follow_states(system, loop.followed()), intervals, rtts, loop.point.notes, shares)


@dataclass(frozen=True)
class _Loop:
    """A protocol at its equilibrium on a network, and the states of its linear model.

    `waits` (n_links,) [s]; `queues`: links with a queue; `clocked`: those of them that ACKs clock; `read`: links to
    whose reports each kind of flow responds. `queue_at`, `average_at`, `memory_at`: link -> its state for the queue,
    the average of arrivals and the memory. `differences`: kind of flow -> first state of the difference between two of
    its flows. `is_hybrid`: True if routers that measure act at ticks; `average_at` then has the held reports.
    `size`: number of states.
    """

    protocol: Protocol
    network: Network
    point: Equilibrium
    waits: NDArray[np.float64]
    queues: list[int]
    clocked: list[int]
    kinds: list[_Kind]
    reports: dict[int, _Report]
    read: list[list[int]]
    states: Mapping[str, State]
    queue_at: dict[int, int]
    average_at: dict[int, int]
    memory_at: dict[int, int]
    differences: dict[int, int]
    is_hybrid: bool
    size: int

    @classmethod
    def of(cls, protocol: Protocol, network: Network, choice: ModelChoice) -> _Loop:
        """Return the loop of a protocol; states with other clocks and paths with several queues are refused."""
        name, states = type(protocol).__name__, states_of(protocol)
        if bad := [state for state, its in states.items() if its.clock not in ("continuous", "rtt") or its.law is None]:
            raise ValueError(
                f"{name} has no linear model: its state {bad[0]} must have a law and the clock 'continuous'"
            )
        point = equilibrium_of(protocol, network, choice.assignment)
        waits = np.zeros(network.n_links) if point.queue is None else point.queue / network.capacities
        queues: list[int] = np.flatnonzero(waits > _EQUAL * network.rtts.max()).tolist()
        if queues and network.incidence[:, queues].sum(axis=1).max() > 1:
            raise LinearizationError(f"{name} has no linear model if a path has several queues")
        width = 1 + len(states)
        kinds = _kinds(network, point.rates, waits, width, protocol.paced_over)
        reports = {
            link: _Report.of(protocol, network, link, point, float(waits[link])) for link in range(network.n_links)
        }
        read = _read(protocol, network, kinds, reports)
        clocked = _clocked(kinds, queues, choice.clocking or "ack", protocol)
        places = count(width * len(kinds))  # states of hosts come first
        reading = sorted({link for links in read for link in links})
        is_hybrid = choice.time == "hybrid"
        if is_hybrid:
            averaged = reading if takes(protocol.router_law, "y") or takes(protocol.router_law, "R") else []
        else:
            averaged = [
                link for link in reading if reports[link].by_y != 0.0 or reports[link].memory.get("y", 0.0) != 0.0
            ]
        if is_hybrid and not averaged:
            raise ValueError(f"{name} has no control interval: time must be 'continuous' or 'discrete'")
        queue_at = {link: next(places) for link in queues if link not in clocked}
        average_at = {link: next(places) for link in averaged}
        memory_at = {link: next(places) for link in reading if reports[link].memory}
        several = [k for k, kind in enumerate(kinds) if len(kind.members) > 1]
        first = next(places)
        return cls(
            protocol,
            network,
            point,
            waits,
            queues,
            clocked,
            kinds,
            reports,
            read,
            states,
            queue_at,
            average_at,
            memory_at,
            differences={k: first + width * index for index, k in enumerate(several)},
            is_hybrid=is_hybrid,
            size=first + width * len(several),
        )

    def queue_signals(self) -> dict[int, _Signal]:
        """Return the perturbations of queues [bit], by link."""
        signals: dict[int, _Signal] = {link: {(0.0, place): 1.0} for link, place in self.queue_at.items()}
        for link in self.clocked:
            signals[link] = {(kind.late[link], kind.first): 1.0 for kind in self.kinds if link in kind.late}
        return signals

    def host_signals(self, queues: dict[int, _Signal]) -> tuple[list[_Signal], list[_Signal]]:
        """Return the perturbations of the RTT [s] and of the sum of rates [bit/s] of each kind of flow."""
        waits: list[_Signal] = [{} for _ in self.kinds]
        rates: list[_Signal] = [{} for _ in self.kinds]
        for wait, rate, kind in zip(waits, rates, self.kinds, strict=True):
            for link in set(kind.route) & set(self.queues):
                _add(wait, queues[link], 1.0 / float(self.network.capacities[link]), kind.D - kind.late[link])
            _add(rate, {(0.0, kind.first): 1.0}, 1.0 / max(kind.D, self.protocol.paced_over))
            if not kind.is_paced:
                _add(rate, wait, -len(kind.members) * kind.x / kind.D)
        return waits, rates

    def arrivals(self, link: int, rates: list[_Signal]) -> _Signal:
        """Return the perturbation of the arrivals of a link [bit/s]."""
        signal: _Signal = {}
        for kind, rate in zip(self.kinds, rates, strict=True):
            if link not in kind.late:
                continue
            upstream = kind.route[: kind.route.index(link)]
            if (link not in self.clocked and any(other in self.clocked for other in kind.route)) or (
                link not in self.queues and any(other in self.queues for other in upstream)
            ):
                raise LinearizationError(
                    f"{type(self.protocol).__name__} has no linear model if departures of a queue affect other links"
                )
            _add(signal, rate, 1.0, kind.late[link])
        return signal

    def add_links(self, rows: list[_Signal], queues: dict[int, _Signal], rates: list[_Signal]) -> dict[int, _Signal]:
        """Add the equations of queues, averages and memories, and return the averages of arrivals, by link."""
        T = interval_of(self.protocol) if self.average_at or self.memory_at else 0.0
        arrivals = {link: self.arrivals(link, rates) for link in (*self.queue_at, *self.average_at)}
        averages: dict[int, _Signal] = {}
        for link, row in self.average_at.items():
            averages[link] = {(0.0, row): 1.0}
            if link in self.clocked:  # m = (q - l)/T, l an average of q, as y = q'
                averages[link] = {(0.0, row): -1.0 / T}
                _add(averages[link], queues[link], 1.0 / T)
            _add(rows[row], queues[link] if link in self.clocked else arrivals[link], 1.0 / T)
            _add(rows[row], {(0.0, row): 1.0}, -1.0 / T)
        for link, row in self.queue_at.items():
            rows[row] = arrivals[link]
        for link, row in self.memory_at.items():
            g = self.reports[link].memory
            _add(rows[row], {(0.0, row): 1.0}, (g.get("R", 0.0) - 1.0) / T)
            _add(rows[row], averages.get(link, {}), g.get("y", 0.0) / T)
            _add(rows[row], queues.get(link, {}), g.get("q", 0.0) / T)
        return averages

    def held_links(
        self, rows: list[_Signal], queues: dict[int, _Signal], rates: list[_Signal]
    ) -> tuple[list[Term], dict[int, _Signal]]:
        """Add the equations of queues; return those of routers at their ticks, and the reports that they hold."""
        T = interval_of(self.protocol)
        terms: list[Term] = []
        for link, row in self.queue_at.items():
            rows[row] = self.arrivals(link, rates)
        for link, report_row in self.average_at.items():
            report, queue = self.reports[link], queues.get(link, {})
            if link in self.clocked:  # the mean of y = q' is the growth of q
                mean: _Signal = dict(queue)
                _add(mean, queue, -1.0, T)
                seen = [(mean, 1.0 / T, 0)]
            else:
                seen = [(self.arrivals(link, rates), 1.0, -1)]
            equations = [(report_row, report.by_y, report.by_q)]
            if link in self.memory_at:
                memory_row, g = self.memory_at[link], report.memory
                equations.append((memory_row, g.get("y", 0.0), g.get("q", 0.0)))
                terms.append(Term(memory_row, memory_row, 0.0, 0, g.get("R", 0.0)))
                terms.append(Term(report_row, memory_row, -0.5 * T, 0, report.by_R))  # after this tick
            for row, by_y, by_q in equations:
                for signal, share, order in (*((s, by_y * unit, order) for s, unit, order in seen), (queue, by_q, 0)):
                    terms += [Term(row, state, delay, order, share * slope) for (delay, state), slope in signal.items()]
        return terms, {link: {(0.0, row): 1.0} for link, row in self.average_at.items()}

    def sampled(
        self, closed: list[_Signal], opened: list[_Signal], held: list[Term], phases: NDArray[np.float64]
    ) -> SampledSystem:
        """Return the hybrid model: continuous hosts and queues, and routers that act at ticks."""
        T = interval_of(self.protocol)
        clocks = {
            at[link]: Clock(T, float(phases[link])) for at in (self.memory_at, self.average_at) for link in at
        }  # a memory moves before the report of the same tick
        terms = [
            [
                Term(row, state, delay, 0, slope)
                for row, signal in enumerate(part)
                for (delay, state), slope in signal.items()
            ]
            for part in (closed, opened)
        ]
        rtts = [kind.D for kind in self.kinds]
        grid = hold(self.size, clocks, terms[0] + held, rtts)
        return reduced(grid.recurrence(terms[0] + held, notes=self.point.notes), grid.recurrence(terms[1] + held))

    def ticks(self, updates_per_rtt: int | None) -> tuple[dict[int, float], dict[int, float]]:
        """Return the held states of hosts with the intervals between ticks [s], and shares (`act_at_ticks`)."""
        refuse_simultaneous(self.protocol, "linear model of windows in discrete time")
        intervals: dict[int, float] = {}
        shares: dict[int, float] = {}
        once_per_rtt = [n for n, its in enumerate(self.states.values(), 1) if its.clock == "rtt"]
        for k, kind in enumerate(self.kinds):
            per_rtt, share = updates_per_rtt or 1, 1.0
            acks = kind.x * kind.D / (8.0 * self.network.flows[kind.members[0]].mean_acknowledged)
            if self.protocol.window_clock == "ack" and updates_per_rtt is None:
                per_rtt = max(round(acks), 1)
                if once_per_rtt and per_rtt > _MAX_GROUPS:
                    steps, per_rtt = acks / _MAX_GROUPS, _MAX_GROUPS
                    by_window = self._host_slopes(k)[0][1].get("w", 0.0)
                    kept = max(1.0 - (1.0 - by_window) * kind.D / max(kind.D, self.protocol.paced_over) / acks, 0.0)
                    share = (1.0 - kept**steps) / (1.0 - kept) / steps if kept < 1.0 else 1.0
            for first in self._blocks(k):
                intervals[first], shares[first] = kind.D / per_rtt, share
                intervals |= {first + row: kind.D / (updates_per_rtt or 1) for row in once_per_rtt}
        return intervals, shares

    def followed(self) -> dict[tuple[int, int], float]:
        """Return the states that windows follow between two rounds: (window, state) -> change per change of it."""
        name, shares = self.protocol.window_clock, dict[tuple[int, int], float]()
        if name in ("rtt", "ack"):
            return shares
        if name not in self.states or self.states[name].clock != "continuous":
            raise ValueError(
                f"window_clock of {type(self.protocol).__name__} must be 'rtt', 'ack' or the name of a state of the "
                f"clock 'continuous', got {name!r}"
            )
        column = 1 + list(self.states).index(name)
        for k, kind in enumerate(self.kinds):
            slopes = [g for _, g in self._host_slopes(k)]
            E = max(kind.D, self.protocol.paced_over)
            seen = next((argument for argument in ("R", "D") if slopes[column].get(argument, 0.0) != 0.0), None)
            if seen is not None:
                share = slopes[0].get(seen, 0.0) / E / slopes[column][seen]
                shares |= {(first, first + column): share for first in self._blocks(k)}
        return shares

    def _blocks(self, k: int) -> list[int]:
        """Return the first states of a kind of flow, and of the difference between two of its flows."""
        return [self.kinds[k].first, *([self.differences[k]] if k in self.differences else [])]

    def _host_slopes(self, k: int) -> list[tuple[str, dict[str, float]]]:
        """Return the clocks and derivatives of the source law and of the laws of states of a kind of flow."""
        at = self._host_arguments(k)
        laws: list[tuple[Any, Any, str]] = [(self.protocol.source_law, at["w"], "rtt")]
        laws += [(its.law, at[state], its.clock) for state, its in self.states.items()]
        name = type(self.protocol).__name__
        return [(clock, _slopes(law, at, value, clock, name)) for law, value, clock in laws]

    def report_signal(self, k: int, queues: dict[int, _Signal], averages: dict[int, _Signal]) -> _Signal:
        """Return the perturbation of the reports that a kind of flow reads."""
        kind, signal = self.kinds[k], dict[tuple[float, int], float]()
        for link in self.read[k]:
            report, back = self.reports[link], kind.D - kind.late[link]
            if report.at_departure:
                back -= float(self.waits[link])
            if self.is_hybrid and link in averages:
                _add(signal, averages[link], 1.0, back)
                continue
            _add(signal, queues.get(link, {}), report.by_q, back)
            _add(signal, averages.get(link, {}), report.by_y, back)
            memory: _Signal = {(0.0, self.memory_at[link]): 1.0} if link in self.memory_at else {}
            _add(signal, memory, report.by_R, back)
        return signal

    def add_host(
        self, k: int, rows: list[_Signal], through_links: list[_Signal], reports: _Signal, wait: _Signal
    ) -> None:
        """Add the equations of the window and the states of a kind of flow, and of differences between its flows."""
        kind = self.kinds[k]
        E = max(kind.D, self.protocol.paced_over)
        for row, (clock, g) in enumerate(self._host_slopes(k)):
            pace = 1.0 if clock == "continuous" else 1.0 / E
            for first in self._blocks(k):
                into = rows[first + row]
                if clock != "continuous":
                    _add(into, {(0.0, first + row): 1.0}, -pace)
                _add(into, {(0.0, first): 1.0}, pace * g.get("w", 0.0))
                _add(into, {(kind.D, first): 1.0}, pace * g.get("w_rtt", 0.0))
                for column, state in enumerate(self.states, start=1):
                    _add(into, {(0.0, first + column): 1.0}, pace * g.get(state, 0.0))
            weight = pace * len(kind.members)
            _add(through_links[kind.first + row], reports, weight * g.get("R", 0.0))
            _add(through_links[kind.first + row], wait, weight * g.get("D", 0.0))

    def _host_arguments(self, k: int) -> dict[str, Any]:
        """Return the values of the arguments of the laws of a kind of flow."""
        kind, flow = self.kinds[k], self.kinds[k].members[0]
        window = kind.x * max(kind.D, self.protocol.paced_over)
        at: dict[str, Any] = {
            "w": window,
            "w_rtt": window,
            "R": sum(self.reports[link].value for link in self.read[k]),
            "D": kind.D,
            "T": self.protocol.params().get("interval", 0.0),
            "s": 8.0 * self.network.flows[flow].mean_packet,
            "a": 8.0 * self.network.flows[flow].mean_acknowledged,
            "p": self.protocol.namespace(),
        }
        return at | {state: state_at(self.point, state, its, flow) for state, its in self.states.items()}


@dataclass(frozen=True)
class _Report:
    """The report of a link at the equilibrium, and its derivatives; `memory`: derivatives of the link's memory."""

    value: float
    by_q: float
    by_y: float
    by_R: float
    memory: dict[str, float]
    at_departure: bool

    @classmethod
    def of(cls, protocol: Protocol, network: Network, link: int, point: Equilibrium, wait: float) -> _Report:
        law, announce = protocol.router_law, protocol.announce_law
        C = float(network.capacities[link])
        y = float(point.rates[network.incidence[:, link]].sum())
        known: dict[str, Any] = {"y": C if wait > 0.0 else y, "q": wait * C, "C": C, "p": protocol.namespace()}
        if takes(law, "T") or takes(announce, "T"):
            known["T"] = interval_of(protocol)
        R = float(point.fair_rate[link])
        known["R"] = R if np.isfinite(R) else known["y"]
        moving = ("R", "y", *(["q"] if wait > 0.0 else []))

        def slopes(law: Any) -> tuple[float, dict[str, float]]:
            at = arguments_from(law, known)
            varying = [argument for argument in moving if argument in at]
            return value_of(law, at, type(protocol).__name__), gradient(law, at, varying)

        value, memory = slopes(law)
        g = memory
        if announce is not None:
            if abs(value - known["R"]) > 1e-6 * abs(known["R"]):
                raise LinearizationError(f"no equilibrium: the router law of {type(protocol).__name__} moves at it")
            value, g = slopes(announce)
        is_driven = announce is not None and any(memory.get(argument, 0.0) != 0.0 for argument in ("y", "q"))
        return cls(
            value,
            g.get("q", 0.0),
            g.get("y", 0.0),
            g.get("R", 0.0) if is_driven else 0.0,
            memory if is_driven else {},
            takes(law, "y"),
        )


def _kinds(
    network: Network, rates: NDArray[np.float64], waits: NDArray[np.float64], width: int, over: float
) -> list[_Kind]:
    """Group equal flows."""
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        delays = network.forward_delays[i, list(flow.route)].tolist()
        equal[
            flow.route,
            tuple(delays),
            float(network.rtts[i]),
            flow.mean_packet,
            flow.mean_acknowledged,
            float(f"{rates[i]:.9g}"),
        ].append(i)
    kinds: list[_Kind] = []
    for (route, delays, rtt, *_), members in equal.items():
        waited = np.cumsum([0.0, *waits[list(route)]]).tolist()
        D = rtt + waited[-1]
        late = {link: delays[k] + waited[k] for k, link in enumerate(route)}
        x = float(rates[members[0]])
        kinds.append(_Kind(members, list(route), x, D, late, width * len(kinds), D <= over * (1.0 + _EQUAL)))
    return kinds


def _read(protocol: Protocol, network: Network, kinds: list[_Kind], reports: dict[int, _Report]) -> list[list[int]]:
    """Return the links to whose reports each kind of flow responds."""
    if protocol.combine == "sum":
        return [kind.route for kind in kinds]
    links = []
    for kind in kinds:
        ranked = sorted(kind.route, key=lambda link: reports[link].value)
        largest = reports[ranked[-1]].value
        if len(ranked) > 1 and reports[ranked[-2]].value > largest * (1.0 - _TIED):
            raise LinearizationError(
                f"{type(protocol).__name__} has no linear model if two links of a path report the same, got "
                f"{largest:.6g} of links {min(ranked[-2:])} and {max(ranked[-2:])} (flow {kind.members[0]})"
            )
        links.append([ranked[-1]])
    return links


def _clocked(kinds: list[_Kind], queues: list[int], clocking: str, protocol: Protocol) -> list[int]:
    """Return the queues that ACKs clock: each holds the sum of the windows that cross it."""
    clocked, name, over = [], type(protocol).__name__, protocol.paced_over
    paced_by = next((f.name for f in fields(protocol) if getattr(protocol, f.name) == over), "paced_over")
    for kind in kinds:
        if not kind.is_paced and clocking == "ack" and not set(kind.route) & set(queues):
            raise LinearizationError(
                f"{name} has no ACK-clocked linear model if a window that is not paced meets no queue, got flow "
                f"{kind.members[0]}{f', whose RTT of {kind.D:g} s is above {paced_by} = {over:g} s' * (over > 0.0)}: "
                "use clocking='rate'"
            )
    for link in queues if clocking == "ack" else ():
        crossing = [kind for kind in kinds if link in kind.late]
        if any(kind.is_paced for kind in crossing) and not all(kind.is_paced for kind in crossing):
            raise LinearizationError(f"{name} has no linear model if some flows of a queue are paced, and some not")
        if crossing and not crossing[0].is_paced:
            if np.ptp([kind.D for kind in crossing]) > _EQUAL * crossing[0].D:
                raise LinearizationError(
                    f"{name} has no ACK-clocked linear model with heterogeneous RTTs in a queue, got "
                    f"{min(kind.D for kind in crossing):g} and {max(kind.D for kind in crossing):g} s: use "
                    "clocking='rate'"
                )
            clocked.append(link)
    return clocked


def _slopes(law: Any, at: dict[str, Any], value: Any, clock: str, name: str) -> dict[str, float]:
    """Return the derivatives of a law, after a check that it keeps its value, or returns a derivative of 0."""
    supply = arguments_from(law, at)
    law_value = value_of(law, supply, name)
    residual = law_value * at["D"] if clock == "continuous" else law_value - value
    if abs(residual) > 1e-6 * max(abs(value), 1e-300):
        raise LinearizationError(f"no equilibrium: the laws of {name} do not stay at it")
    return gradient(law, supply, [argument for argument in supply if argument not in ("T", "s", "a", "p")])


def _system(rows: list[_Signal], size: int, opened: DelaySystem | None = None) -> DelaySystem:
    terms: dict[float, NDArray[np.float64]] = defaultdict(lambda: np.zeros((size, size)))
    terms[0.0][0, 0] += 0.0
    for row, signal in enumerate(rows):
        for (delay, column), slope in signal.items():
            terms[delay][row, column] += slope
    return DelaySystem(list(terms.values()), list(terms), opened=opened)
