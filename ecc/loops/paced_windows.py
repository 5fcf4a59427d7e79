"""The linear model of paced windows, of windows with states, and of routers that measure arrivals.

Flow i has window w_i, other states v_i (for example, an average of reports) and RTT D_i, queues included. A packet
reaches the queue of link l F_il after it was sent, and D_i - F_il passes from there until the ACK that reports the
queue. A flow is *paced* if D_i <= T_p, the time in which its window is sent; otherwise it is *clocked* by its ACKs.
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
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.entries import Taken
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of, state_at, states_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, takes, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem
from ecc.loops.options import ModelChoice
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


def linearize_paced(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem:
    """Return the linear model; its state: w [bit] and other states of each kind of flow, queues, averages, differences.

    Parameters
    ----------
    protocol : Protocol
        Protocol of hosts that set windows and have states, or pace their windows.
    network : Network
    choice : ModelChoice
        Its clocking, "ack" if it is None, and its assignment, which `Protocol.equilibrium` takes.

    Raises
    ------
    ValueError
        If a law takes other arguments, or a state has another clock.
    LinearizationError
        If no equilibrium exists, or a law or a bottleneck switches at it; a path has several queues; clocked flows have
        heterogeneous RTTs or no queue.
    """
    name, clocking = type(protocol).__name__, choice.clocking or "ack"
    _TAKEN.check(protocol)
    states = states_of(protocol)
    if bad := [state for state, its in states.items() if its.clock not in ("continuous", "rtt") or its.law is None]:
        raise ValueError(f"{name} has no linear model: its state {bad[0]} must have a law and the clock 'continuous'")
    point = equilibrium_of(protocol, network, choice.assignment)
    waits = np.zeros(network.n_links) if point.queue is None else point.queue / network.capacities
    queues: list[int] = np.flatnonzero(waits > _EQUAL * network.rtts.max()).tolist()
    if queues and network.incidence[:, queues].sum(axis=1).max() > 1:
        raise LinearizationError(f"{name} has no linear model if a path has several queues")
    over, width = protocol.paced_over, 1 + len(states)
    kinds = _kinds(network, point.rates, waits, width, over)
    reports = {link: _Report.of(protocol, network, link, point, float(waits[link])) for link in range(network.n_links)}
    read = _read(protocol, network, kinds, reports)
    clocked = _clocked(kinds, queues, clocking, protocol)
    integrated = [link for link in queues if link not in clocked]
    reading = sorted({link for links in read for link in links})
    averaged = [link for link in reading if reports[link].by_y != 0.0 or reports[link].memory.get("y", 0.0) != 0.0]
    remembered = [link for link in reading if reports[link].memory]
    of_queue = {link: width * len(kinds) + k for k, link in enumerate(integrated)}
    of_average = {link: width * len(kinds) + len(integrated) + k for k, link in enumerate(averaged)}
    of_memory = {link: width * len(kinds) + len(integrated) + len(averaged) + k for k, link in enumerate(remembered)}
    several = [kind for kind in kinds if len(kind.members) > 1]
    shared = width * len(kinds) + len(integrated) + len(averaged) + len(remembered)
    size = shared + width * len(several)

    held: dict[int, _Signal] = {link: {(0.0, of_queue[link]): 1.0} for link in integrated}  # perturbations of queues
    for link in clocked:
        held[link] = {(kind.late[link], kind.first): 1.0 for kind in kinds if link in kind.late}
    wait: list[_Signal] = [{} for _ in kinds]
    sent: list[_Signal] = [{} for _ in kinds]
    for k, kind in enumerate(kinds):
        for link in set(kind.route) & set(queues):
            _add(wait[k], held[link], 1.0 / float(network.capacities[link]), kind.D - kind.late[link])
        _add(sent[k], {(0.0, kind.first): 1.0}, 1.0 / max(kind.D, over))
        if not kind.is_paced:
            _add(sent[k], wait[k], -len(kind.members) * kind.x / kind.D)

    T = interval_of(protocol) if averaged or remembered else 0.0
    rows: list[_Signal] = [{} for _ in range(size)]
    arrivals: dict[int, _Signal] = {link: {} for link in (*integrated, *averaged)}
    for link, into in arrivals.items():
        for k, kind in enumerate(kinds):
            if link not in kind.late:
                continue
            if link not in clocked and any(other in clocked for other in kind.route):
                raise LinearizationError(f"{name} has no linear model if departures of a queue affect other links")
            if link not in queues and any(other in queues for other in kind.route[: kind.route.index(link)]):
                raise LinearizationError(f"{name} has no linear model if departures of a queue affect other links")
            _add(into, sent[k], 1.0, kind.late[link])
    average: dict[int, _Signal] = {}
    for link in averaged:
        row = of_average[link]
        average[link] = {(0.0, row): 1.0}
        if link in clocked:  # m = (q - l)/T, l an average of q, as y = q'
            average[link] = {(0.0, row): -1.0 / T}
            _add(average[link], held[link], 1.0 / T)
        _add(rows[row], held[link] if link in clocked else arrivals[link], 1.0 / T)
        _add(rows[row], {(0.0, row): 1.0}, -1.0 / T)
    for link in integrated:
        rows[of_queue[link]] = arrivals[link]
    for link, row in of_memory.items():
        g = reports[link].memory
        _add(rows[row], {(0.0, row): 1.0}, (g.get("R", 0.0) - 1.0) / T)
        _add(rows[row], average.get(link, {}), g.get("y", 0.0) / T)
        _add(rows[row], held.get(link, {}), g.get("q", 0.0) / T)

    loop: list[_Signal] = [{} for _ in range(size)]  # terms that pass through links
    for k, kind in enumerate(kinds):
        R: _Signal = {}
        for link in read[k]:
            back = kind.D - kind.late[link]
            if reports[link].at_departure:
                back -= float(waits[link])
            _add(R, held.get(link, {}), reports[link].by_q, back)
            _add(R, average.get(link, {}), reports[link].by_y, back)
            _add(R, {(0.0, of_memory[link]): 1.0} if link in of_memory else {}, reports[link].by_R, back)
        at: dict[str, Any] = {
            "w": kind.x * max(kind.D, over),
            "w_rtt": kind.x * max(kind.D, over),
            "R": sum(reports[link].value for link in read[k]),
            "D": kind.D,
            "T": protocol.params().get("interval", 0.0),
            "s": 8.0 * network.flows[kind.members[0]].mean_packet,
            "a": 8.0 * network.flows[kind.members[0]].mean_acknowledged,
            "p": protocol.namespace(),
        }
        at |= {state: state_at(point, state, its, kind.members[0]) for state, its in states.items()}
        firsts = [kind.first, *(shared + width * several.index(other) for other in several if other is kind)]
        for row, (law, value, clock) in enumerate(
            [(protocol.source_law, at["w"], "rtt"), *((its.law, at[state], its.clock) for state, its in states.items())]
        ):
            g = _slopes(law, at, value, clock, name)
            pace = 1.0 if clock == "continuous" else 1.0 / max(kind.D, over)
            for first in firsts:
                into = rows[first + row]
                if clock != "continuous":
                    _add(into, {(0.0, first + row): 1.0}, -pace)
                _add(into, {(0.0, first): 1.0}, pace * g.get("w", 0.0))
                _add(into, {(kind.D, first): 1.0}, pace * g.get("w_rtt", 0.0))
                for column, state in enumerate(states, start=1):
                    _add(into, {(0.0, first + column): 1.0}, pace * g.get(state, 0.0))
            weight = pace * len(kind.members)
            _add(loop[kind.first + row], R, weight * g.get("R", 0.0))
            _add(loop[kind.first + row], wait[k], weight * g.get("D", 0.0))
    opened = _system(rows, size)
    for row, signal in enumerate(loop):
        _add(rows[row], signal, 1.0)
    return _system(rows, size, opened).with_notes(*point.notes)


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
            value, g.get("q", 0.0), g.get("y", 0.0), g.get("R", 0.0) if is_driven else 0.0,
            memory if is_driven else {}, takes(law, "y"),
        )  # fmt: skip


def _kinds(
    network: Network, rates: NDArray[np.float64], waits: NDArray[np.float64], width: int, over: float
) -> list[_Kind]:
    """Group equal flows."""
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        delays = network.forward_delays[i, list(flow.route)].tolist()
        equal[flow.route, tuple(delays), float(network.rtts[i]), flow.mean_packet, flow.mean_acknowledged,
              float(f"{rates[i]:.9g}")].append(i)  # fmt: skip
    kinds: list[_Kind] = []
    for (route, delays, rtt, *_), members in equal.items():
        waited = np.cumsum([0.0, *waits[list(route)]]).tolist()
        D = rtt + waited[-1]
        late = {link: delays[k] + waited[k] for k, link in enumerate(route)}
        x = float(rates[members[0]])
        kinds.append(_Kind(members, list(route), x, D, late, width * len(kinds), D <= over * (1.0 + _EQUAL)))
    return kinds


def _read(
    protocol: Protocol, network: Network, kinds: list[_Kind], reports: dict[int, _Report]
) -> list[list[int]]:  # fmt: skip
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
