"""The linear model of hosts that set rates from the queues of their path, around an equilibrium with queues.

Flow i has rate x_i, other states v_i (for example, the gradient of the RTT) and RTT D_i, queues included. Link l has
queue q_l, and r_l(q_l) is the feedback of its router law. A packet reaches that queue F_il after it was sent, and
D_i - F_il passes from there until the ACK that reports the queue. A rate is updated every h_i (`source_clock`): once in
T, or once an ACK if ACKs are further apart. Deviations from the equilibrium, with derivatives g of the source law and G
of the laws of the states:

    h_i x_i' = (g_x - 1) x_i(t - h_i) + g_v v_i(t) + sum_l [(g_R r_l' + g_D/C_l) q_l(t - D_i + F_il)
                                                           + g_{R_prev} r_l' q_l(t - D_i + F_il - h_i)]
    h_i v_i' = (G_v - 1) v_i(t) + G_x x_i(t - h_i) + sum_l [...]  with G instead of g
    q_l'     = sum_i x_i(t - F_il)

If the clock of the source is "continuous", laws return x_i' and v_i' themselves, as functions of x_i(t), without h_i
and the -1. A law that takes the rate of one RTT ago adds the term g_{x_rtt} x_i(t - D_i). If feedback is written at
departure, q_l is read when a packet has left it: the wait in that queue is not part of the delay of r_l.

These are the continuous equations, those of `ecc.fluid.network.continuous`. In discrete and hybrid time hosts act at
ticks, h_i apart, and hold x and v in between (`ecc.linear.sample_and_hold`). The law of a state takes earlier states
after their step, and that of the rate takes all states so. Laws that return derivatives take all values before a tick.

    x_i <- g(x_i, v_i, q)      or x_i + h_i x_i',   and the same for v_i
    hybrid      q_l' = sum_i x_i(t - F_il), and no delay is rounded
    discrete    q_l[n + 1] = q_l[n] + u sum_i x_i[n - F_il/u], with D_i and F_il rounded up to steps of u

x_i[n] is the rate after tick n; u is h_i if all flows have the same, and otherwise their largest common divisor. If all
delays are whole steps, both models have the same roots. Hosts that act once per RTT (the source clock "rtt") do so in
discrete time with exact delays, and q(t - D_i + F) is that right after the tick one RTT ago. With `updates_per_rtt` m
they act every h_i/m, by 1/m of each step, of the rate and with the feedback that the continuous model has. Hosts with
ACKs or RTTs as their clock have no hybrid model.

Delays that change with queues and rates have no first-order
effect, because the delayed quantities are constant at the equilibrium. Equal flows are represented by their sum. Their
differences obey the same equations without queues, and are included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.entries import Taken
from ecc.contract.kinds import source_takes
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import clock_of_states, equilibrium_of, state_at, states_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.sample_and_hold import Clock, SampleAndHold, Term, common_unit
from ecc.loops.options import ModelChoice
from ecc.network.network import Network

__all__ = ["linearize_rates"]

_SOURCE = ("x", "x_rtt", "R", "R_prev", "D", "T", "s", "p")
_TAKEN = Taken(
    "a linear model",
    {"router_law": ("q", "C", "T", "p"), "source_law": _SOURCE},
    {"combine": ("sum",), "source_clock": None, "stamping": None, "states": None},
    {"opening_rate": "", "floor": "", "initial": ""},  # at an equilibrium no flow starts, no rate is at its floor
    model="linear model",
    of_states=_SOURCE,
)
_EQUAL = 1e-9  # relative: rounding in the equilibrium
_AFTER = 1e-4  # share of a step by which exact delays are shorter, so that they end right after a tick
_PIECES = 4  # minimum number of polynomial pieces of queues in the shortest RTT


@dataclass(frozen=True)
class _Read:
    """A queue that hosts read: its index, forward delay, wait [s], capacity, delays to hosts of R and D, slope of R."""

    queue: int
    late: float
    wait: float
    capacity: float
    report: float
    back: float
    slope: float


@dataclass(frozen=True)
class _Kind:
    """Equal flows: their number, RTT, time between updates [s], derivatives of the laws of x and of each state, queues.

    `slopes`: first those of the source law, then those of the laws of the states in their order.
    """

    members: int
    D: float
    h: float
    slopes: tuple[Mapping[str, float], ...]
    reads: tuple[_Read, ...]


@dataclass(frozen=True)
class _Loop:
    """A loop at its equilibrium; `derivatives`: laws return derivatives; `steps`: the source law takes x."""

    name: str
    kinds: tuple[_Kind, ...]
    states: tuple[str, ...]
    n_queues: int
    derivatives: bool
    steps: bool
    notes: Sequence[str]

    @property
    def width(self) -> int:
        return 1 + len(self.states)

    @property
    def first_queue(self) -> int:
        return self.width * len(self.kinds)

    @property
    def several(self) -> list[int]:
        """Kinds of several flows, whose differences are states, too."""
        return [k for k, kind in enumerate(self.kinds) if kind.members > 1]

    @property
    def size(self) -> int:
        return self.first_queue + self.n_queues + self.width * len(self.several)

    def blocks(self, k: int) -> list[int]:
        """Return the first states of the sum of a kind of flow, and of the difference between two of them."""
        differences = self.first_queue + self.n_queues
        return [
            k * self.width,
            *(differences + self.several.index(other) * self.width for other in self.several if other == k),
        ]


def linearize_rates(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem | SampledSystem:
    """Return the linear model; its state: x and other states of each kind of flow, queues, differences.

    Parameters
    ----------
    protocol : Protocol
        Protocol of hosts that have states in addition to the rate.
    network : Network
    choice : ModelChoice
        Its time, its assignment, which `Protocol.equilibrium` takes, and its updates_per_rtt.

    Raises
    ------
    ValueError
        If a law takes other arguments, a state has another clock, or hosts do not have the time of the model.
    LinearizationError
        If no equilibrium or no queue exists, or a path has several queues; in discrete and hybrid time if the times
        between updates of different flows have no common multiple.
    """
    _check_choice(protocol, choice)
    loop = _differentiated(protocol, network, choice)
    if choice.time == "continuous":
        return _continuous(loop)
    once_per_rtt = protocol.source_clock == "rtt"
    rounds = choice.updates_per_rtt or 1
    return _at_ticks(loop, rounds, rounded=choice.time == "discrete" and not once_per_rtt)


def _check_choice(protocol: Protocol, choice: ModelChoice) -> None:
    """Refuse options that the hosts of a protocol do not have."""
    name, clock = type(protocol).__name__, protocol.source_clock
    if choice.time == "hybrid" and clock in ("ack", "rtt"):
        raise ValueError(
            f"{name} has no hybrid model: its hosts have no clock in seconds, got source_clock = {clock!r}"
        )
    if choice.phases is not None or choice.intervals is not None:
        raise ValueError("phases and intervals must be None for hosts that set rates: no router has an interval")
    if choice.updates_per_rtt is not None and clock != "rtt":
        raise ValueError(
            f"updates_per_rtt applies to hosts that act once per RTT, got {choice.updates_per_rtt} for {name} with "
            f"source_clock = {clock!r}"
        )


def _differentiated(protocol: Protocol, network: Network, choice: ModelChoice) -> _Loop:
    """Return the loop, with the derivatives of its laws at the equilibrium."""
    name = type(protocol).__name__
    _TAKEN.check(protocol)
    states = states_of(protocol)
    clock = clock_of_states(protocol)
    if bad := [state for state, its in states.items() if its.clock != clock or its.law is None]:
        raise ValueError(f"{name} has no linear model: its state {bad[0]} must have a law and the clock {clock!r}")
    derivatives = clock == "continuous"
    point = equilibrium_of(protocol, network, choice.assignment)
    waits = np.zeros(network.n_links) if point.queue is None else point.queue / network.capacities
    queues: list[int] = np.flatnonzero(waits > _EQUAL * waits.max(initial=0.0)).tolist()
    if not queues:
        raise LinearizationError(
            f"{name} has no linear model on this network: no link has a queue at the equilibrium, for example because"
            " the capacity exceeds the maximum rates of the flows"
        )
    if network.incidence[:, queues].sum(axis=1).max() > 1:
        raise LinearizationError(f"{name} has no linear model if a path has several queues")
    kinds = []
    for members in _kinds(network, point.rates):
        flow = network.flows[members[0]]
        route, x = list(flow.route), float(point.rates[members[0]])
        D = float(network.rtts[members[0]] + waits[route].sum())
        reports = {link: _report(protocol, network, link, waits) for link in route}
        R = sum(value for value, _ in reports.values())
        at: dict[str, Any] = {
            "x": x,
            "x_rtt": x,
            "s": 8.0 * flow.mean_packet,
            "R": R,
            "R_prev": R,
            "D": D,
            "T": interval_of(protocol),
            "p": protocol.namespace(),
        }
        at |= {state: state_at(point, state, its, members[0]) for state, its in states.items()}
        laws = [(protocol.source_law, x), *((its.law, at[state]) for state, its in states.items())]
        slopes = tuple(_slopes(law, at, value, name, derivatives) for law, value in laws)
        reads = []
        for link in set(route) & set(queues):
            late, wait = float(network.forward_delays[members[0], link]), float(waits[link])
            back = D - late - _upstream_wait(route, link, waits)
            report = back if protocol.stamping == "arrival" else back - wait
            capacity = float(network.capacities[link])
            reads.append(_Read(queues.index(link), late, wait, capacity, report, back, reports[link][1]))
        h = _update_time(protocol, 8.0 * flow.mean_packet / x, D)
        kinds.append(_Kind(len(members), D, h, slopes, tuple(reads)))
    steps = source_takes(protocol, "x") and not derivatives
    return _Loop(name, tuple(kinds), tuple(states), len(queues), derivatives, steps, point.notes)


def _continuous(loop: _Loop) -> DelaySystem:
    """Return the delay differential equation."""
    terms: dict[float, NDArray[np.float64]] = defaultdict(lambda: np.zeros((loop.size, loop.size)))
    seen: list[tuple[float, int, int, float]] = []  # terms in queues
    for k, kind in enumerate(loop.kinds):
        pace, earlier = (1.0, 0.0) if loop.derivatives else (1.0 / kind.h, kind.h)
        first = loop.blocks(k)[0]
        for row, g in enumerate(kind.slopes):
            for block in loop.blocks(k):
                if not loop.derivatives:
                    terms[kind.h if row == 0 and loop.steps else 0.0][block + row, block + row] -= pace
                terms[earlier][block + row, block] += g.get("x", 0.0) * pace
                if "x_rtt" in g:
                    terms[kind.D][block + row, block] += g["x_rtt"] * pace
                for column, state in enumerate(loop.states, start=1):
                    terms[0.0][block + row, block + column] += g.get(state, 0.0) * pace
            for read in kind.reads:
                column, weight = loop.first_queue + read.queue, kind.members * pace
                seen.append((read.report, first + row, column, weight * g.get("R", 0.0) * read.slope))
                seen.append((read.back, first + row, column, weight * g.get("D", 0.0) / read.capacity))
                seen.append((read.report + kind.h, first + row, column, weight * g.get("R_prev", 0.0) * read.slope))
        for read in kind.reads:
            terms[read.late][loop.first_queue + read.queue, first] += 1.0
    opened = DelaySystem([matrix.copy() for matrix in terms.values()], list(terms))
    for delay, row, column, value in seen:
        if value != 0.0:
            terms[delay][row, column] += value
    return DelaySystem(list(terms.values()), list(terms), opened=opened, notes=loop.notes)


def _at_ticks(loop: _Loop, updates: int, rounded: bool) -> SampledSystem:
    """Return the model of hosts that act `updates` times in h, with delays and queues in steps if `rounded`."""
    steps = [kind.h / updates for kind in loop.kinds]
    try:
        unit = common_unit(np.array(steps))[0]
    except ValueError:
        listed = " and ".join(f"{1e6 * step:.6g}" for step in dict.fromkeys(steps))
        raise LinearizationError(
            f"{loop.name} has a discrete or hybrid model only if the times between updates of all flows repeat "
            f"together within 1000 updates, got {listed} us: use time='continuous'"
        ) from None
    clocks: dict[int, Clock] = {}
    if rounded:
        clocks |= {loop.first_queue + queue: Clock(unit) for queue in range(loop.n_queues)}
    terms, feedback = [], []
    for k, (kind, step) in enumerate(zip(loop.kinds, steps, strict=True)):
        delays = _Delays(unit, kind.D) if rounded else _Delays(0.0, kind.D, _AFTER * step)
        for block in loop.blocks(k):
            clocks |= {block + row: Clock(step) for row in (*range(1, loop.width), 0)}  # states, and then x
            terms += _of_hosts(loop, kind, block, step, updates, delays.around())
        feedback += _of_feedback(loop, kind, loop.blocks(k)[0], step, updates, delays)
        for read in kind.reads:
            column = loop.first_queue + read.queue
            late = delays.forward(read.late) + (0.5 * unit if rounded else 0.0)
            terms.append(Term(column, loop.blocks(k)[0], late, 0, unit if rounded else 1.0))
    if rounded:
        terms += [
            Term(loop.first_queue + queue, loop.first_queue + queue, 0.0, 0, 1.0) for queue in range(loop.n_queues)
        ]
    longest = min(kind.D for kind in loop.kinds) / _PIECES
    grid = SampleAndHold(loop.size, clocks, [*terms, *feedback], longest)
    return grid.recurrence([*terms, *feedback], opened=grid.recurrence(terms), notes=loop.notes)


@dataclass(frozen=True)
class _Delays:
    """Delays of a kind of flow, rounded up to steps of `unit` if it is not 0; values are those after a tick.

    `after`: time by which exact delays are shorter, so that they end right after a tick.
    """

    unit: float
    D: float
    after: float = 0.0

    def forward(self, late: float) -> float:
        """Return the delay from a host to a queue."""
        if not self.unit:
            return late
        return self.unit * min(ceil(late / self.unit - _EQUAL), ceil(self.D / self.unit - _EQUAL))

    def around(self) -> float:
        """Return the RTT."""
        return self.unit * (ceil(self.D / self.unit - _EQUAL) - 0.5) if self.unit else self.D - self.after

    def backward(self, delay: float, read: _Read) -> float:
        """Return the delay `delay` from a queue to a host."""
        if not self.unit:
            return delay
        waited = floor((self.D - read.late - delay) / self.unit + _EQUAL)
        around = self.unit * ceil(self.D / self.unit - _EQUAL)
        return max(around - self.forward(read.late) - self.unit * waited, 0.0) - 0.5 * self.unit


def _of_hosts(loop: _Loop, kind: _Kind, block: int, step: float, updates: int, around: float) -> list[Term]:
    """Return the terms of hosts in their own states."""
    gain, earlier = (step, 0.0) if loop.derivatives else (1.0 / updates, kind.h - _AFTER * step)
    terms = []
    for row, g in enumerate(kind.slopes):
        terms.append(Term(block + row, block + row, 0.0, 0, 1.0))
        if not loop.derivatives:
            terms.append(Term(block + row, block + row, earlier if row == 0 and loop.steps else 0.0, 0, -gain))
        terms.append(Term(block + row, block, earlier, 0, gain * g.get("x", 0.0)))
        terms.append(Term(block + row, block, around, 0, gain * g.get("x_rtt", 0.0)))
        for column, state in enumerate(loop.states, start=1):
            stepped = not loop.derivatives and (row == 0 or column < row)
            delay = -0.5 * step if stepped else 0.0
            terms.append(Term(block + row, block + column, delay, 0, gain * g.get(state, 0.0)))
    return [term for term in terms if term.gain != 0.0]


def _of_feedback(loop: _Loop, kind: _Kind, block: int, step: float, updates: int, delays: _Delays) -> list[Term]:
    """Return the terms of hosts in queues."""
    terms = []
    gain = kind.members * (step if loop.derivatives else 1.0 / updates)
    for row, g in enumerate(kind.slopes):
        for read in kind.reads:
            column = loop.first_queue + read.queue
            report, back = (delays.backward(delay, read) for delay in (read.report, read.back))
            terms.append(Term(block + row, column, report, 0, gain * g.get("R", 0.0) * read.slope))
            terms.append(Term(block + row, column, back, 0, gain * g.get("D", 0.0) / read.capacity))
            terms.append(Term(block + row, column, report + kind.h, 0, gain * g.get("R_prev", 0.0) * read.slope))
    return [term for term in terms if term.gain != 0.0]


def _upstream_wait(route: list[int], link: int, waits: NDArray[np.float64]) -> float:
    """Return the total wait [s] of a packet in the queues upstream of a link."""
    return float(waits[route[: route.index(link)]].sum())


def _kinds(network: Network, rates: NDArray[np.float64]) -> list[list[int]]:
    """Group equal flows."""
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        delays = network.forward_delays[i, list(flow.route)].tolist()
        equal[flow.route, tuple(delays), float(network.rtts[i]), flow.mean_packet, float(rates[i])].append(i)
    return list(equal.values())


def _update_time(protocol: Protocol, spacing: float, D: float) -> float:
    """Return the time between updates of a rate [s]; `spacing`: time between ACKs [s]."""
    T = interval_of(protocol)
    return {"continuous": T, "always": T, "ack": spacing, "rtt": max(spacing, D), "interval": max(spacing, T)}[
        protocol.source_clock
    ]


def _report(protocol: Protocol, network: Network, link: int, waits: NDArray[np.float64]) -> tuple[float, float]:
    """Return the feedback of a link at the equilibrium, and its derivative with respect to the queue."""
    C = float(network.capacities[link])
    known = {"q": float(waits[link]) * C, "C": C, "T": interval_of(protocol), "p": protocol.namespace()}
    at = arguments_from(protocol.router_law, known)
    value = value_of(protocol.router_law, at, type(protocol).__name__, "router_law")
    return value, gradient(protocol.router_law, at, ["q"])["q"]


def _slopes(
    law: Callable[..., float] | None, at: dict[str, Any], value: Any, name: str, derivative: bool
) -> dict[str, float]:
    """Return the derivatives of a law, after a check that it keeps its value, or returns a derivative of 0."""
    assert law is not None
    supply = arguments_from(law, at)
    law_value = value_of(law, supply, name)
    residual = law_value * at["T"] if derivative else law_value - value
    if abs(residual) > _EQUAL * max(1.0, abs(value)):
        raise LinearizationError(f"no equilibrium: the laws of {name} do not stay at it")
    return gradient(law, supply, [argument for argument in supply if argument not in ("T", "s", "p")])
