"""Continuous and hybrid models of explicit feedback with a state for each kind of flow, for all laws.

The continuous model spreads the actions of routers and hosts evenly over their intervals. For router l and flow i, with
the interval T, and R_l, P_l, x_i, y_l, u_l, q_l deviations from the equilibrium (subscripts are derivatives):

    T R_l' = (R_R - 1) R_l(t) + R_y y_l(t) + R_{y_prev} y_l(t - T) + R_u u_l(t) + R_q q_l(t)    routers with a state
    T v_l' = (A_y + A_{y_prev}) y_l(t) + A_u u_l(t) - v_l(t)                measurements of prices, averaged over T
    P_l = A_R R_l + v_l + A_q q_l                                                          announced; or R_l itself
    T x_i' = (x_x - 1) x_i(t - T) + x_{x_rtt} x_i(t - D_i) + sum_l [x_R P_l(t - B_il) + x_{R_prev} P_l(t - B_il - T)]
    y_l = sum_i x_i(t - F_il),   u_l of the flows that do not receive the feedback of l,   q_l' = y_l

A is the announce law, or the router law of routers without a state. B_il is the delay from the point at which link l
writes into a header to the host, F_il from the host to link l. A host that steps only from its rate one RTT ago has
-x_i(t) instead of -x_i(t - T). The rate x_i(t - D_i) in the header adds A_x x_R x_i(t - D_i).

In the hybrid model everything that has a clock acts at its ticks and holds its value. Routers act at (phase + g) T_l
with the means of y_l and u_l over the interval that ended, and with the queue q_l of the moment. For hosts there are
four ways (`Timing`):

    feedback     as the feedback of a new tick arrives; x_rtt is the mean of the rates that this tick measured
    steps        likewise, but at each n-th tick, n = 1 + wait + floor(D_i/T_l), and from the present rate
    timer        at multiples of T, by the feedback received last; x_rtt is the rate of the packet acknowledged last
    all times    as in the continuous model; T_l is the interval of the law if the routers grant changes of windows

Hosts with sampled prices act on feedback, or by a timer if their source clock is "always" or if they add up prices;
those with stepped rates act by steps; those whose windows routers grant, and others with the source clock "always", act
at all times (`ecc.contract.forms`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.forms import GrantedWindows, SampledPrices, SteppedRates
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.sample_and_hold import Clock, SampleAndHold, Term
from ecc.loops.explicit_derivatives import Linearization
from ecc.loops.explicit_terms import (
    CUT_AT_SOURCES,
    FEEDBACK,
    GROWING,
    LASTING,
    MAX_KINDS,
    Terms,
    decays,
    delay_system,
    refuse_passing_on,
)
from ecc.network.network import Network

__all__ = ["Timing", "continuous_equations", "hybrid_equations"]

_Slopes = dict[tuple[int, float, int], float]
"""(state, delay [s], order) -> coefficient; order -1: the mean over an interval of the row's clock."""
_LATER = 0.5  # intervals that separate the values before and after a tick
_PIECES = 4  # minimum number of polynomial pieces of a rate in the shortest RTT
_ANY_LENGTH = 1e9  # s, of pieces without rates in continuous time


class Timing(Enum):
    """When hosts act in the hybrid model."""

    FEEDBACK = "feedback"
    STEPS = "steps"
    TIMER = "timer"
    ALL_TIMES = "all times"

    @classmethod
    def of(cls, protocol: Protocol) -> Timing:
        """Return when the hosts of a protocol act.

        Parameters
        ----------
        protocol : Protocol
            Protocol whose routers compute a rate, price or feedback.
        """
        form = protocol.fluid_form
        if isinstance(form, SteppedRates):
            return cls.STEPS
        if isinstance(form, GrantedWindows):
            return cls.ALL_TIMES
        if protocol.source_clock == "interval":
            return cls.TIMER if protocol.combine == "sum" else cls.FEEDBACK
        return cls.TIMER if isinstance(form, SampledPrices) else cls.ALL_TIMES


@dataclass(frozen=True)
class _Kind:
    """Equal flows, whose sum is a state: the rate with which they enter their first link.

    `start`: delay from the host to that link. `distances`: link -> delays from the first link. `back`: row k -> delay
    from the feedback of `links[k]` over the host to the first link. `count`: flows that a state adds up.

    If flows need no separate states, the state is the rate of any flow that receives the feedback of one link, at the
    time of that feedback, with a count of 1; `distances` then has a delay for each such flow, around the loop.
    """

    flows: list[int]
    count: int
    start: float
    distances: Mapping[int, Sequence[float]]
    back: Mapping[int, float]
    rtt: float


def _kinds(laws: Linearization, network: Network) -> list[_Kind]:
    if not laws.by_flow:
        return _kinds_of_links(laws)
    delays = laws.delays
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        first = flow.route[0]
        start = float(delays.forward[i, first])
        distances = tuple((link, float(delays.forward[i, link]) - start) for link in flow.route)
        back = tuple(
            (k, float(delays.backward[i, link] + start if link != first else delays.around[i, link]))
            for k, link in enumerate(laws.links.tolist())
            if laws.receives[i, k]
        )
        equal[start, distances, back, float(delays.rtts[i])].append(i)
    if len(equal) > MAX_KINDS:
        raise LinearizationError(f"the model has a state for each kind of flow: at most {MAX_KINDS}, got {len(equal)}")
    return [
        _Kind(flows, len(flows), start, {link: (delay,) for link, delay in distances}, dict(back), rtt)
        for (start, distances, back, rtt), flows in equal.items()
    ]


def _kinds_of_links(laws: Linearization) -> list[_Kind]:
    kinds = []
    for k in range(len(laws.links)):
        distances: dict[int, list[float]] = defaultdict(list)
        for link, b, delay, _ in laws.paths:
            if b == k:
                distances[int(laws.links[link])].append(delay)
        kinds.append(_Kind(np.flatnonzero(laws.receives[:, k]).tolist(), 1, 0.0, distances, {k: 0.0}, 0.0))
    return kinds


class _Equations:
    """Rows of the model; `rows[z]` are the coefficients of the equation of state z, and `held[z]` its clock, if any.

    `opened`: whether the loop is cut: at the routers, or at the sources if routers do not measure the flows that
    receive their feedback. `rates[g]` is the rate of a kind of flow, `feedback[k]` that of `links[k]`.
    """

    def __init__(self, laws: Linearization, network: Network, opened: bool) -> None:
        self.laws = laws
        self.cut_routers = opened and laws.measures
        self.cut_sources = opened and not laws.measures
        self.kinds = _kinds(laws, network)
        self.rows: list[_Slopes] = []
        self.held: dict[int, Clock] = {}
        self.state_of_kind: dict[int, int] = {}
        self.rates: list[_Slopes] = []
        self.feedback: list[_Slopes] = []

    def new_state(self, clock: Clock | None = None) -> int:
        self.rows.append(defaultdict(float))
        if clock is not None:
            self.held[len(self.rows) - 1] = clock
        return len(self.rows) - 1

    def add(self, row: int, slopes: _Slopes, gain: float = 1.0) -> None:
        for key, slope in slopes.items():
            self.rows[row][key] += gain * slope

    def arrivals(self, k: int, gain: float, delay: float = 0.0, others: bool = False, order: int = 0) -> _Slopes:
        """Return gain times y, or u, of the link with index k."""
        link = int(self.laws.links[k])
        slopes: _Slopes = defaultdict(float)
        for kind, rate in zip(self.kinds, self.rates, strict=True):
            if gain == 0.0 or (others and k in kind.back):
                continue
            for distance in kind.distances.get(link, ()):
                for (z, tau, _), slope in rate.items():
                    slopes[z, tau + distance + delay, order] += gain * slope
        return slopes

    def measure(
        self, row: int, k: int, law: Mapping[str, NDArray[np.float64]], gain: float, T: float, order: int
    ) -> None:
        """Add to a router's row the effect of its arrivals by a law, unless the loop is cut there."""
        for name, delay, others in (("y", 0.0, False), ("y_prev", T, False), ("u", 0.0, True)):
            if not self.cut_routers:
                self.add(row, self.arrivals(k, gain * float(law[name][k]), delay, others, order))

    def add_rates(self, stores: bool, clocks: list[Clock | None]) -> None:
        """Add a state for each rate, or express it by the feedback if the source law stores nothing."""
        for g, kind in enumerate(self.kinds):
            if stores or self.header_gain(kind) != 0.0:
                self.state_of_kind[g] = self.new_state(clocks[g])
                self.rates.append({(self.state_of_kind[g], 0.0, 0): 1.0})
            else:
                self.rates.append(self.received(kind, 0.0, 0.0))

    def header_gain(self, kind: _Kind) -> float:
        """Return the derivative of the feedback that a flow receives with respect to the rate in its headers."""
        law = self.laws.announce or self.laws.router
        return float(sum(law["x"][k] for k in kind.back))

    def received(self, kind: _Kind, since: float, shift: float) -> _Slopes:
        """Return x_R P(t - B) + x_{R_prev} P(t - B - since), for all flows of the kind, `shift` seconds later."""
        slopes: _Slopes = defaultdict(float)
        source, i = self.laws.source, kind.flows[0]
        for k, back in kind.back.items():
            for gain, delay in ((source["R"][i], back), (source["R_prev"][i], back + since)):
                for (z, tau, order), slope in self.feedback[k].items():
                    if gain != 0.0:
                        slopes[z, tau + delay - shift, order] += kind.count * float(gain) * slope
        return slopes

    def close_rate(
        self, g: int, own: _Slopes, identity: _Slopes, since: float, share: float = 1.0, shift: float = 0.0
    ) -> None:
        """Set the equation of a rate: `share` times the source law, whose own rates are `own`; opened: `identity`."""
        kind, source, i, row = self.kinds[g], self.laws.source, self.kinds[g].flows[0], self.state_of_kind[g]
        if self.cut_sources:
            self.add(row, identity, share)
            return
        self.add(row, own, share)
        header = self.header_gain(kind)
        self.add(row, {(row, kind.rtt, 0): header * float(source["R"][i])}, share)
        self.add(row, {(row, kind.rtt + since, 0): header * float(source["R_prev"][i])}, share)
        self.add(row, self.received(kind, since, shift), share)

    def close_smooth_rate(self, g: int, T: float) -> None:
        """Set the equation of a rate whose host acts at all times."""
        laws, kind, row = self.laws, self.kinds[g], self.state_of_kind[g]
        steps, i = laws.steps_from == "x", self.kinds[g].flows[0]
        own: _Slopes = defaultdict(float)
        own[row, T if steps else 0.0, 0] += float(laws.source["x"][i]) - 1.0
        own[row, kind.rtt, 0] += float(laws.source["x_rtt"][i])
        identity = {} if steps else {(row, 0.0, 0): -1.0, (row, kind.rtt, 0): 1.0}
        self.close_rate(g, own, identity, T, 1.0 / T)

    def terms(self) -> list[Term]:
        return [
            Term(row, z, delay, order, slope)
            for row, slopes in enumerate(self.rows)
            for (z, delay, order), slope in slopes.items()
            if slope != 0.0
        ]

    def differences(self) -> list[tuple[int, _Slopes]]:
        """Return (state, equation) of the difference between two flows of each kind with several flows."""
        out = []
        for g, row in self.state_of_kind.items():
            if len(self.kinds[g].flows) > 1:
                own = {key: slope for key, slope in self.rows[row].items() if key[0] == row and slope != 0.0}
                out.append((row, own))
        return out

    def add_difference(self, row: int, equation: _Slopes) -> None:
        place = self.new_state(self.held.get(row))
        self.add(place, {(place, delay, order): slope for (_, delay, order), slope in equation.items()})


def continuous_equations(protocol: Protocol, laws: Linearization, network: Network, T: float) -> DelaySystem:
    """Return the continuous model with a state for each kind of flow.

    Parameters
    ----------
    protocol : Protocol
    laws : Linearization
        Derivatives of its laws.
    network : Network
    T : float, s
        Control interval.

    Raises
    ------
    LinearizationError
        If a queue is upstream of another router, or there are too many kinds of flows.
    """
    refuse_passing_on(laws, "with a state for each flow")
    averages = isinstance(protocol.fluid_form, (SampledPrices, SteppedRates)) or laws.announce is not None
    closed, cut = (_continuous_rows(laws, network, T, averages, opened) for opened in (False, True))

    def system() -> DelaySystem:
        return _delay_system(closed, _delay_system(cut, None))

    model: DelaySystem = _with_growing_differences(laws, closed, cut, system)
    return model


def _continuous_rows(laws: Linearization, network: Network, T: float, averages: bool, opened: bool) -> _Equations:
    model = _Equations(laws, network, opened)
    router, announcing = laws.router, laws.announce or laws.router
    count = range(len(laws.links))
    states = [model.new_state() for _ in count] if laws.remembers else []
    measured = [model.new_state() for _ in count] if averages and not (states and laws.announce is None) else []
    queues = {k: model.new_state() for k in _queued(laws)}
    for k in count:
        announced: _Slopes = defaultdict(float)
        if states:
            announced[states[k], 0.0, 0] = 1.0 if laws.announce is None else float(announcing["R"][k])
        if measured:
            announced[measured[k], 0.0, 0] = 1.0
        if k in queues and not (states and laws.announce is None) and not model.cut_routers:
            announced[queues[k], 0.0, 0] = float(announcing["q"][k])
        model.feedback.append(announced)
    direct = not (states or measured)  # feedback follows arrivals at once
    model.add_rates(laws.steps_from is not None or direct, [None] * len(model.kinds))
    for k in count:
        if states:
            row = states[k]
            model.add(row, {(row, 0.0, 0): (float(router["R"][k]) - 1.0) / T})
            model.measure(row, k, router, 1.0 / T, T, 0)
            if k in queues and not model.cut_routers:
                model.add(row, {(queues[k], 0.0, 0): float(router["q"][k]) / T})
        if measured:
            row = measured[k]
            model.add(row, {(row, 0.0, 0): -1.0 / T})
            model.measure(row, k, announcing, 1.0 / T, 0.0, 0)
        if k in queues:
            model.add(queues[k], model.arrivals(k, 1.0))
        for name, delay, others in (("y", 0.0, False), ("y_prev", T, False), ("u", 0.0, True)):
            if direct and not model.cut_routers:
                arriving = model.arrivals(k, float(router[name][k]), delay, others)
                for key, slope in arriving.items():
                    model.feedback[k][key] = model.feedback[k].get(key, 0.0) + slope
    for g in model.state_of_kind:
        model.close_smooth_rate(g, T)
    return model


def _queued(laws: Linearization) -> list[int]:
    """Return the indices of links whose queues a law reads."""
    reads = laws.router["q"] != 0.0
    if laws.announce is not None:
        reads = reads | (laws.announce["q"] != 0.0)
    return [int(k) for k in np.flatnonzero(reads)]


def _delay_system(model: _Equations, opened: DelaySystem | None) -> DelaySystem:
    terms = Terms(len(model.rows))
    for row, column, delay, _, gain in model.terms():
        terms.add(delay, row, column, gain)
    return delay_system(terms, Terms(terms.size), opened)


def hybrid_equations(
    protocol: Protocol,
    laws: Linearization,
    network: Network,
    T: float,
    periods: NDArray[np.float64],
    phases: NDArray[np.float64],
) -> SampledSystem:
    """Return the hybrid model with a state for each kind of flow; a step is the least common multiple of all clocks.

    Parameters
    ----------
    protocol : Protocol
    laws : Linearization
        Derivatives of its laws.
    network : Network
    T : float, s
        Control interval of the protocol, at which hosts with a timer act.
    periods, phases : ndarray of float, shape (n_links,)
        Control intervals of the links [s], and when each acts, as a share of its interval.

    Raises
    ------
    LinearizationError
        If a queue is upstream of another router, or there are too many kinds of flows.
    ValueError
        If the clocks do not repeat within a thousand ticks or states.
    """
    refuse_passing_on(laws, "with a state for each flow")
    closed, cut = (_hybrid_rows(protocol, laws, network, T, periods, phases, opened) for opened in (False, True))
    longest = float(laws.delays.rtts.min()) / _PIECES if len(closed.held) < len(closed.rows) else _ANY_LENGTH

    def system() -> SampledSystem:
        terms = closed.terms()
        grid = SampleAndHold(len(closed.rows), closed.held, terms, longest)
        return grid.recurrence(terms, opened=grid.recurrence(cut.terms()))

    model: SampledSystem = _with_growing_differences(laws, closed, cut, system)
    return model


def _hybrid_rows(
    protocol: Protocol,
    laws: Linearization,
    network: Network,
    T: float,
    periods: NDArray[np.float64],
    phases: NDArray[np.float64],
    opened: bool,
) -> _Equations:
    model, timing = _Equations(laws, network, opened), Timing.of(protocol)
    clocks = [Clock(float(periods[link]), float(phases[link])) for link in laws.links]
    queues = {k: model.new_state(clocks[k]) for k in _queued(laws)}
    states = [model.new_state(clock) for clock in clocks]
    prices = states if laws.announce is None else [model.new_state(clock) for clock in clocks]
    model.feedback = [{(price, 0.0, 0): 1.0} for price in prices]
    waits = protocol.fluid_form.waits[1] if isinstance(protocol.fluid_form, SteppedRates) else 0
    hosts = [_host_clock(timing, kind, clocks, T, waits) for kind in model.kinds]
    model.add_rates(laws.steps_from is not None or timing is not Timing.ALL_TIMES, hosts)
    for k, clock in enumerate(clocks):
        row, span = states[k], clock.interval
        if laws.remembers:
            model.add(row, {(row, 0.0, 0): float(laws.router["R"][k])})
        for place, law in ((row, laws.router), *([] if laws.announce is None else [(prices[k], laws.announce)])):
            model.measure(place, k, law, 1.0, span, -1)
            if k in queues and not model.cut_routers:
                model.add(place, {(queues[k], -_LATER * span, 0): float(law["q"][k])})
        if laws.announce is not None:
            model.add(prices[k], {(row, -_LATER * span, 0): float(laws.announce["R"][k])})
        if k in queues:
            model.add(queues[k], {(queues[k], 0.0, 0): 1.0})
            model.add(queues[k], model.arrivals(k, span, order=-1))
    for g, row in model.state_of_kind.items():
        _close_held_rate(model, g, row, timing, clocks, T, isinstance(protocol.fluid_form, GrantedWindows))
    return model


def _host_clock(timing: Timing, kind: _Kind, clocks: list[Clock], T: float, waits: int) -> Clock | None:
    """Return the clock of a host, in whose time its rate enters its first link; None: it acts at all times."""
    if timing is Timing.ALL_TIMES:
        return None
    if timing is Timing.TIMER:
        return Clock(T, kind.start / T)
    (k, back), *_ = kind.back.items()
    interval, phase = clocks[k]
    n = 1 if timing is Timing.FEEDBACK else 1 + waits + floor(kind.rtt / interval + 1e-9)
    return Clock(n * interval, (phase + back / interval) / n)


def _close_held_rate(
    model: _Equations, g: int, row: int, timing: Timing, clocks: list[Clock], T: float, grants: bool
) -> None:
    """Set the equation of a rate in the hybrid model."""
    kind, source, i = model.kinds[g], model.laws.source, model.kinds[g].flows[0]
    (k, back), *_ = kind.back.items()
    span = clocks[k].interval
    if timing is Timing.ALL_TIMES:
        model.close_smooth_rate(g, span if grants else T)
        return
    own: _Slopes = defaultdict(float)
    own[row, 0.0, 0] += float(source["x"][i])
    if timing is Timing.TIMER:
        earlier, since, shift = (row, kind.rtt, 0), T, 0.0
    elif timing is Timing.STEPS:
        earlier, since, shift = (row, 0.0, 0), span, _LATER * span
    else:  # the rates that the tick has measured
        measured = back + kind.distances[int(model.laws.links[k])][0]
        earlier, since, shift = (row, measured, -1), span, _LATER * span
    own[earlier] += float(source["x_rtt"][i])
    identity = {(row, 0.0, 0) if model.laws.steps_from == "x" else earlier: 1.0}
    model.close_rate(g, own, identity, since, shift=shift)


def _with_growing_differences(
    laws: Linearization, closed: _Equations, cut: _Equations, system: Callable[[], Any]
) -> Any:
    """Return the system, with those differences between equal flows that grow, unless it is unstable by itself."""
    growing, notes = [], []
    for row, equation in closed.differences():
        held = row in closed.held
        if _decays(equation, closed.held.get(row)):
            continue
        if sum(equation.values()) == float(held):
            notes.append(LASTING)
        else:
            growing.append((row, equation))
    model = system()
    if growing and model.verdict != "unstable":
        for row, equation in growing:
            closed.add_difference(row, equation)
            cut.add_difference(row, equation)
        model = system()
        notes.append(GROWING)
    if model.opened is not None and laws.source["x_rtt"].any():
        notes.append(FEEDBACK if laws.measures else CUT_AT_SOURCES)
    elif not laws.measures:
        notes.append(CUT_AT_SOURCES)
    return model.with_notes(*dict.fromkeys(notes)) if notes else model


def _decays(equation: _Slopes, clock: Clock | None) -> bool:
    """Return whether a difference between two equal flows decays."""
    if not equation:
        return False
    present = sum(slope for (_, delay, _), slope in equation.items() if delay == 0.0)
    total = sum(map(abs, equation.values()))
    if clock is None:
        return -present > total - abs(present) or decays(
            tuple((delay, slope) for (_, delay, _), slope in equation.items()), sampled=False
        )
    terms = [Term(0, 0, delay, order, slope) for (_, delay, order), slope in equation.items()]
    return total < 1.0 or SampleAndHold(1, {0: clock}, terms, _ANY_LENGTH).recurrence(terms).verdict == "stable"
