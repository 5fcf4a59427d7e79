"""The linear model of explicit feedback: routers compute a rate, price or feedback, by which hosts set rates.

The laws are differentiated by jets, never by hand, so a changed law changes every model at once. For router l with
state R_l, arrivals y_l and queue q_l, and flows i that are bottlenecked at the link b_i:

    continuous   T R_l' = R_R R_l(t) - R_l(t) + R_y y_l(t) + R_{y_prev} y_l(t - T) + R_q q_l(t)
                 T y_l' = (x_x - 1) y_l(t - T) + sum_i [x_R R_{b_i}(t - D_il) + x_{R_prev} R_{b_i}(t - T - D_il)]
                 q_l' = y_l
    discrete     the recurrences of the laws with D_il rounded up to steps of T
    hybrid       routers that average over their own intervals, step at their ticks and hold: every flow's rate is a
                 staircase that reaches link l after D_il, and an interval of l averages its steps by their duration

Subscripts are derivatives at the equilibrium; D_il is the delay from b_i over the source of flow i to link l (the RTT
if l = b_i). A source law without x has y_l = sum_i x_R R_{b_i}(t - D_il); a router without memory has no
R', its R_l(t) is R_y y_l(t) + R_q q_l(t).

If the equilibrium has queues, the laws are differentiated at these queues, and all delays include the waits q/C (a
header is stamped as its packet leaves a queue, or arrives at it: `stamping`). A queue also delays its departures: the
arrivals of a flow of rate x_i at link l change by -x_i y_k/C_k too, for every upstream queue k on its path.

Differences between flows that y adds up obey T x'(t) = (x_x - 1) x(t - T), or x[n] = x_x x[n - 1], by themselves. They
are included if they grow (x_x < 1 - pi/2, |x_x| > 1); if they stay constant (x_x = 1), a note reports it.

If a source steps from its rate one RTT ago, or a link distinguishes its own flows from others, only equal flows can be
added up (their differences follow separate equations, and are included in the same way). The discrete model then keeps
the rates of different flows separate, and distinguishes forward and backward delays (D_i = D_il^-> + D_il^<- steps,
D_il^<- >= 1):

    R_l[n] = R_R R_l[n - 1] + sum_{i crosses l} (R_y + [b_i != l] R_u) x_i[n - D_il^->]
    x_i[n] = x_x x_i[n - 1] + x_{x_rtt} x_i[n - D_i] + sum_{i receives l} x_R R_l[n - D_il^<-]

The continuous model does so if a router without memory reads the rate of each flow, b = b_i (XCP's shuffling):

    T x_i'(t) = (x_x - 1) x_i(t - T) + x_R [R_x x_i(t - D_i) + R_y y_b(t - D_ib^<-) + R_q q_b(t - D_ib^<-)]
    y_l(t) = sum_{i crosses l} x_i(t - D_il^->),   q_l' = y_l

Differences between two equal flows obey the same equations without y and q, and are included if they might not decay,
that is, if -R_x x_R D_i >= 3 T/2. The loop is cut at the feedback that a router gives to all flows alike,
(R_y + R_x/N) y + R_q q.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from math import ceil, floor, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.contract.entries import Taken
from ecc.contract.forms import GrantedWindows
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem, Switched, SwitchedLoop
from ecc.linear.sample_and_hold import common_unit
from ecc.linear.systems import components, reachable
from ecc.loops.explicit_derivatives import Linearization, linearize_laws, steps_of
from ecc.loops.options import ModelChoice, read_phases
from ecc.network.network import Network

__all__ = ["grants_windows", "linearize_explicit"]

_Equation = tuple[tuple[float, float], ...]
"""Delays [s, or steps] and gains of x' = sum a x(t - tau), or x[n] = sum a x[n - m]."""

_LASTING = "differences between flows of one link stay constant in this model: verdicts apply to their sum"
_MEASURED = ("y", "y_prev", "u", "N", "N_all", "q", "C", "d", "T", "x", "p")
_ONE_CLOCK = (
    "all routers and sources act on one common clock in this model; separate clocks and windows are not modeled"
)
_TAKEN = Taken(
    "a linear model",
    {
        "router_law": ("R", *_MEASURED),
        "announce_law": ("R", *_MEASURED),
        "source_law": ("x", "x_rtt", "R", "R_prev", "D", "T", "p"),
    },
    {"combine": None, "scaling_rtt": None, "scaling_rtt_limit": None},
    {
        # The assignment is an argument, empty queues make both stampings equal, and the mean RTT is that of the flows.
        "priority_law": "",
        "stamping": "",
        "rtt_weights": "",
        "opening_rate": "",
        "floor": "",
        "initial": "",
        **dict.fromkeys(("windowed", "source_clock", "router_clock", "fluid_form"), _ONE_CLOCK),
    },
    model="linear model",
)
_MAX_FLOWS = 200  # kinds of flows with separate states in continuous time


def grants_windows(protocol: Protocol) -> bool:
    """Return whether routers grant changes of windows that ACKs clock, for example `True` for XCP.

    Parameters
    ----------
    protocol : Protocol
    """
    form = protocol.fluid_form
    return isinstance(form, GrantedWindows) and not form.paced


def linearize_explicit(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem | SampledSystem:
    """Return the linear model; its state: see `ecc.linearize`.

    Parameters
    ----------
    protocol : Protocol
        Protocol whose routers compute a rate, price or feedback.
    network : Network
    choice : ModelChoice

    Raises
    ------
    ValueError
        If a law takes other arguments, or the model needs a state for each flow, which its time does not have.
    LinearizationError
        If no equilibrium exists, or a law switches at it.
    """
    notes = _TAKEN.check(protocol)
    T = interval_of(protocol)
    n_links = network.n_links
    periods = np.full(n_links, T) if choice.intervals is None else np.asarray(choice.intervals, dtype=float)
    if periods.shape != (n_links,) or not np.all((periods > 0.0) & np.isfinite(periods)):
        raise ValueError(f"intervals must be {n_links} times > 0 s, got {shown(choice.intervals)}")
    phases = read_phases(choice.phases, network) if choice.time == "hybrid" else np.zeros(n_links)
    laws = linearize_laws(
        protocol, network, periods, choice.assignment, choice.mean_rtt, discrete=choice.time == "discrete"
    )
    if laws.by_flow:
        system = _model_of_flows(protocol, network, laws, choice.time, T)
    else:
        system = _model_of_links(protocol, laws, choice, periods, phases)
    notes, name = (*notes, *laws.notes), type(protocol).__name__
    if choice.clocking is None and grants_windows(protocol):
        notes = (*notes, f"this is the model of paced windows (clocking='rate'); hosts of {name} are clocked by ACKs")
    if not laws.signed.any():
        return system.with_notes(*notes) if notes else system
    unconstrained = (
        f"the queue is unconstrained (signed) in this model: its verdict is not that on {name}, whose loop switches at "
        "the empty queue"
    )
    return system.with_notes(*notes, unconstrained).with_switched(
        partial(_switched, protocol, network, choice.assignment, choice.mean_rtt)
    )


def _model_of_flows(
    protocol: Protocol, network: Network, laws: Linearization, time: str, T: float
) -> DelaySystem | SampledSystem:
    """Return the model with a state for each kind of flow."""
    if time == "discrete":
        return _sampled_flows(laws, network, T)
    if time == "hybrid" or laws.remembers or protocol.combine == "sum" or laws.announce is not None:
        raise ValueError(f"{type(protocol).__name__} needs a state for each flow: time must be 'discrete'")
    return _continuous_flows(laws, network, T)


def _model_of_links(
    protocol: Protocol,
    laws: Linearization,
    choice: ModelChoice,
    periods: NDArray[np.float64],
    phases: NDArray[np.float64],
) -> DelaySystem | SampledSystem:
    """Return the model in which the flows of a link are added up, with differences between flows that do not decay."""
    T = float(periods[0])  # the same for all links in continuous and discrete time
    decay = float(laws.source["x"][0])
    model: DelaySystem | SampledSystem
    if choice.time == "continuous":
        model = _continuous(laws, T, protocol.reductions.get(choice.approximation or "", "exact"))
        difference = (T, (decay - 1.0) / T)
    else:
        model = _discrete(laws, T) if choice.time == "discrete" else _hybrid(laws, periods, phases)
        difference = (1, decay ** round(float(model.dt or T) / float(periods[laws.links[0]])))
    if laws.steps_from == "x" and len(laws.receives) > len(laws.links) and choice.approximation is None:
        model = _with_differences(model, [(difference,)])
    return model


def _with_differences(system: Any, equations: Sequence[_Equation]) -> Any:
    """Return the system, extended by the equations of those differences between flows that do not decay."""
    sampled = isinstance(system, SampledSystem)
    growing = [equation for equation in dict.fromkeys(equations) if not _decays(equation, sampled)]
    lasting = [equation for equation in growing if sum(gain for _, gain in equation) == float(sampled)]
    if lasting:
        system = system.with_notes(_LASTING)
    growing = [equation for equation in growing if equation not in lasting]
    if not growing:
        return system
    n = system.size + len(growing)

    def padded(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.pad(matrix, (0, n - len(matrix)))

    matrices, delays = [], []
    for index, equation in enumerate(growing, start=system.size):
        for delay, gain in equation:
            matrices.append(np.zeros((n, n)))
            matrices[-1][index, index] = gain
            delays.append(delay - sampled)

    def joined(part: Any, opened: Any) -> Any:
        wide, lags = [*map(padded, part.matrices), *matrices], [*part.delays, *delays]
        if sampled:
            return SampledSystem(wide, lags, dt=part.dt, opened=opened, notes=part.notes)
        return DelaySystem(
            wide,
            lags,
            neutral=list(map(padded, part.neutral)),
            neutral_delays=part.neutral_delays,
            opened=opened,
            notes=part.notes,
        )

    extended = joined(system, None if system.opened is None else joined(system.opened, None))
    return extended.with_notes("differences between flows of one link grow, whether or not their sum does")


def _with_differences_if_stable(system: SampledSystem, equations: Sequence[_Equation]) -> SampledSystem:
    """Return the system, extended as by `_with_differences` unless it is unstable by itself.

    An unstable system keeps the form that it has at gains at which the differences decay.
    """
    growing = [equation for equation in dict.fromkeys(equations) if not _decays(equation, sampled=True)]
    wide: SampledSystem = system if not growing or system.verdict == "unstable" else _with_differences(system, growing)
    return wide


def _decays(equation: _Equation, sampled: bool) -> bool:
    """Return whether x' = sum a x(t - tau), or x[n] = sum a x[n - m], decays to 0."""
    delays, gains = zip(*equation, strict=True)
    if sampled and sum(map(abs, gains)) < 1.0:
        return True
    if not sampled and len(gains) == 1 and 0.0 < -gains[0] * delays[0] < 1.5:  # Myshkis; pi/2 is exact
        return True
    scalar = SampledSystem(list(gains), [m - 1 for m in delays]) if sampled else DelaySystem(list(gains), list(delays))
    return scalar.verdict == "stable"


def _switched(protocol: Protocol, network: Network, assignment: Any, mean_rtt: Any) -> Switched | None:
    """Return the bottlenecks that switch at empty queues, if each is the loop of `ecc.linear.empty_queue`."""
    T = interval_of(protocol)
    laws = linearize_laws(protocol, network, T, assignment, mean_rtt)
    if protocol.combine == "sum" or laws.announce is not None or not laws.signed.all():
        return None
    source, router, rtts = laws.source, laws.router, laws.delays.rtts
    if laws.remembers:  # routers integrate, sources adopt
        influences = np.zeros((len(laws.links),) * 2, dtype=bool)
        for link, b, _, _ in laws.paths:
            influences[link, b] = True
        plain = laws.steps_from is None and not source["R_prev"].any() and not router["y_prev"].any()
        decoupled = len(components(reachable(influences))) == len(influences)
        if laws.by_flow or not (plain and decoupled and np.all(router["R"] == 1.0)):
            return None
        slopes = router["y"], router["q"]
    else:  # sources integrate; the uneven part of the routers' feedback cancels from the sum
        single = len(laws.links) == 1 and laws.receives.all() and np.ptp(rtts) == 0.0
        if not (single and laws.steps_from == "x" and np.all(source["x"] == 1.0)):
            return None
        slopes = router["y"] + router["x"] / network.n_flows, router["q"]
    loops = []
    for k, link in enumerate(laws.links.tolist()):
        members = laws.receives[:, k]
        mean = float(rtts[members].mean())
        alpha, beta = (
            -(mean**power) * float(source["R"][members].sum()) / T * float(slopes[power - 1][k]) for power in (1, 2)
        )
        loops.append(SwitchedLoop(link, alpha, beta, tuple(rtts[members].tolist())))
    name = type(protocol).__name__
    caveat = f"not known: routers of {name} act once a mean RTT, which this loop ignores and which reduces stability"
    return Switched(tuple(loops), caveat if protocol.router_clock == "rtt" else "")


class _Terms:
    """Coefficients a[row, column] at a delay, added up."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.at: dict[Any, NDArray[np.float64]] = defaultdict(lambda: np.zeros((size, size)))

    def add(self, delay: Any, row: int, column: int, value: float) -> None:
        if value != 0.0:
            self.at[delay][row, column] += value

    def without(self, rows: range, columns: range) -> _Terms:
        """Return the terms without the effect of these columns on these rows: the loop cut at the routers."""
        cut = _Terms(self.size)
        for delay, matrix in self.at.items():
            remaining = matrix.copy()
            remaining[rows.start : rows.stop, columns.start : columns.stop] = 0.0
            cut.at[delay] = remaining
        return cut


def _continuous(laws: Linearization, T: float, lag: str) -> DelaySystem:
    """Return the continuous model in which the flows of a link are added up; `lag`: see `_LinkTerms`."""
    if not laws.remembers:
        _refuse_passing_on(laws, "if routers have no state")
    model = _LinkTerms(laws, T, lag)
    model.add_links()
    if laws.remembers:
        model.add_announced_rates()
        opened = model.terms.without(range(model.n_links), range(model.first_queue, model.size))
        opened_slopes = _copy(model.slopes)
        model.add_measured_arrivals()
    else:
        opened, opened_slopes = _copy(model.terms), model.slopes
        model.add_feedback()
    return _delay_system(model.terms, model.slopes, _delay_system(opened, opened_slopes, None))


class _LinkTerms:
    """Terms of the continuous model in which the flows of a link are added up.

    The state is R (if routers have memory), y (if sources have memory or routers have none), and those q that a law
    reads. `lag` is the form of v(t - T): "exact", "taylor" (v - T v', a neutral system with `slopes`) or "static" (v,
    sources at equilibrium).
    """

    def __init__(self, laws: Linearization, T: float, lag: str) -> None:
        self.laws, self.T, self.lag = laws, T, lag
        self.n_links = len(laws.links)
        self.source = {name: float(slopes[0]) for name, slopes in laws.source.items()}
        if lag == "static":
            gain = (self.source["R"] + self.source["R_prev"]) / (1.0 - self.source["x"])
            self.source = {"x": 0.0, "R": gain, "R_prev": 0.0}
        self.has_rates = (laws.steps_from == "x" and lag != "static") or not laws.remembers
        self.first_rate = self.n_links if laws.remembers else 0
        self.first_queue = self.first_rate + (self.n_links if self.has_rates else 0)
        queued = np.flatnonzero(laws.router["q"]).tolist()  # no law reads the others
        self.queue_at = {k: self.first_queue + index for index, k in enumerate(queued)}
        self.size = self.first_queue + len(queued)
        self.terms, self.slopes = _Terms(self.size), _Terms(self.size)

    def add_delayed(self, delay: float, row: int, column: int, value: float) -> None:
        """Add value * v(t - T - delay)."""
        if self.lag == "exact":
            self.terms.add(delay + self.T, row, column, value)
            return
        self.terms.add(delay, row, column, value)
        if self.lag == "taylor":
            self.slopes.add(delay, row, column, -self.T * value)

    def add_arrivals(self, link: int, row: int, lagged: bool, gain: float, ago: float = 0.0) -> None:
        """Add gain * y_link(t - ago) or gain * y_link(t - T - ago)."""
        add = self.add_delayed if lagged else self.terms.add
        for target, before, delay, share in self.laws.passed_on:
            if target == link:
                self.add_arrivals(before, row, lagged, -gain * share, ago + delay)
        if self.has_rates:
            add(ago, row, self.first_rate + link, gain)
            return
        for target, b, delay, _ in self.laws.paths:
            if target == link:
                add(ago + delay, row, b, gain * self.source["R"])
                if self.source["R_prev"]:
                    self.add_delayed(ago + delay + (self.T if lagged else 0.0), row, b, gain * self.source["R_prev"])

    def add_links(self) -> None:
        """Add the equations of each link, without the arrivals that its router measures and the feedback of sources."""
        router, T = self.laws.router, self.T
        for k in range(self.n_links):
            if self.laws.remembers:
                self.terms.add(0.0, k, k, (router["R"][k] - 1.0) / T)
            if k in self.queue_at:
                if self.laws.remembers:
                    self.terms.add(0.0, k, self.queue_at[k], router["q"][k] / T)
                self.add_arrivals(k, self.queue_at[k], False, 1.0)
            if self.has_rates:
                rate = self.first_rate + k
                self.add_delayed(0.0, rate, rate, (self.source["x"] - 1.0) / T)

    def add_announced_rates(self) -> None:
        """Add the response of sources with memory to routers with memory."""
        for link, b, delay, _ in self.laws.paths if self.has_rates else ():
            self.terms.add(delay, self.first_rate + link, b, self.source["R"] / self.T)
            self.add_delayed(delay, self.first_rate + link, b, self.source["R_prev"] / self.T)

    def add_measured_arrivals(self) -> None:
        """Add the response of routers with memory to their arrivals."""
        router, T = self.laws.router, self.T
        for k in range(self.n_links):
            self.add_arrivals(k, k, False, router["y"][k] / T)
            if router["y_prev"][k]:
                self.add_arrivals(k, k, True, router["y_prev"][k] / T)

    def add_feedback(self) -> None:
        """Add the response of sources to routers without memory, through which arrivals and queues act."""
        router, T = self.laws.router, self.T
        for link, b, delay, _ in self.laws.paths:
            for name, later in (("R", 0.0), ("R_prev", T)):
                gain, row = self.source[name] / T, self.first_rate + link
                self.terms.add(delay + later, row, self.first_rate + b, gain * router["y"][b])
                self.terms.add(delay + later + T, row, self.first_rate + b, gain * router["y_prev"][b])
                if b in self.queue_at:
                    self.terms.add(delay + later, row, self.queue_at[b], gain * router["q"][b])


def _continuous_flows(laws: Linearization, network: Network, T: float) -> DelaySystem:
    """Return the continuous model with state (x[, q][, differences]).

    An x is the sum of equal flows, as it enters their first link.
    """
    router, bottleneck = laws.router, laws.equilibrium.bottleneck
    _refuse_passing_on(laws, "with a state for each flow")
    ahead = laws.delays.forward
    row = {int(link): k for k, link in enumerate(laws.links)}
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        start, b = float(ahead[i, flow.route[0]]), int(bottleneck[i])
        around = float(laws.delays.rtts[i])
        back = float(laws.delays.backward[i, b] + start if b != flow.route[0] else laws.delays.around[i, b])
        distances = frozenset((link, float(ahead[i, link]) - start) for link in flow.route)
        equal[distances, b, back, around].append(i)
    if len(equal) > _MAX_FLOWS:
        raise LinearizationError(f"the model has a state for each kind of flow: at most {_MAX_FLOWS}, got {len(equal)}")
    queued = np.flatnonzero(router["q"] != 0.0).tolist()
    q_at = {k: len(equal) + index for index, k in enumerate(queued)}
    first = len(equal) + len(queued)
    source = laws.source
    differences = []  # (gain, delay) of differences between equal flows
    for (_, b, _, around), flows in equal.items():
        gain = float(source["R"][flows[0]] * router["x"][row[b]]) / T
        if len(flows) > 1 and -gain * around >= 1.5:
            differences.append((gain, around))
    terms, opened = _Terms(first + len(differences)), _Terms(first + len(differences))
    arrivals: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for g, (distances, *_) in enumerate(equal):
        for link, delay in distances:
            arrivals[link].append((g, delay))
    for g, ((_, b, back, around), flows) in enumerate(equal.items()):
        k, i = row[b], flows[0]
        gain = float(source["R"][i]) / T
        crossing = int(network.incidence[:, b].sum())
        for system, of_y in ((terms, router["y"][k]), (opened, -router["x"][k] / crossing)):
            system.add(T, g, g, (float(source["x"][i]) - 1.0) / T)
            system.add(around, g, g, gain * router["x"][k])
            for other, delay in arrivals[b]:
                system.add(back + delay, g, other, len(flows) * gain * of_y)
        if k in q_at:
            terms.add(back, g, q_at[k], len(flows) * gain * router["q"][k])
    for k in queued:
        for other, delay in arrivals[int(laws.links[k])]:
            for system in (terms, opened):
                system.add(delay, q_at[k], other, 1.0)
    for index, (gain, around) in enumerate(differences):
        for system in (terms, opened):
            system.add(around, first + index, first + index, gain)
    return _delay_system(terms, _Terms(terms.size), _delay_system(opened, _Terms(terms.size), None))


def _refuse_passing_on(laws: Linearization, reason: str) -> None:
    if laws.passed_on:
        queue = int(laws.links[laws.passed_on[0][1]])
        raise LinearizationError(f"the queue of link {queue} is upstream of another router: no linear model {reason}")


def _copy(terms: _Terms) -> _Terms:
    return terms.without(range(0), range(0))


def _delay_system(terms: _Terms, slopes: _Terms, opened: DelaySystem | None) -> DelaySystem:
    matrices = terms.at or {0.0: np.zeros((terms.size, terms.size))}
    neutral = [(-matrix, delay) for delay, matrix in slopes.at.items()]
    return DelaySystem(
        list(matrices.values()),
        list(matrices),
        neutral=[matrix for matrix, _ in neutral],
        neutral_delays=[delay for _, delay in neutral],
        opened=opened,
    )


def _discrete(laws: Linearization, T: float) -> SampledSystem:
    """Return the discrete model with state (R, y[, q]) at a step; delays in whole steps (the papers' recurrence)."""
    count = len(laws.links)
    queued = np.flatnonzero(laws.router["q"]).tolist()
    size = 2 * count + len(queued)
    terms = _Terms(size)  # key m: coefficient of x[n - m] in x[n]
    source = {name: float(slopes[0]) for name, slopes in laws.source.items()}
    for k in range(count):
        y = count + k
        terms.add(1, k, k, laws.router["R"][k])
        terms.add(1, y, y, source["x"])
        terms.add(0, k, y, laws.router["y"][k])
        terms.add(1, k, y, laws.router["y_prev"][k])
        if k in queued:
            q = 2 * count + queued.index(k)
            terms.add(0, k, q, laws.router["q"][k])
            terms.add(1, q, q, 1.0)
            terms.add(0, q, y, T)
    for link, before, delay, share in laws.passed_on:
        terms.add(ceil(delay / T - 1e-9), count + link, count + before, -share)
    for link, b, delay, _ in laws.paths:
        m = steps_of(delay, T)
        terms.add(m, count + link, b, source["R"])
        terms.add(m + 1, count + link, b, source["R_prev"])
    cut = terms.without(range(count), range(count, size))
    return _sampled_system(terms, T, _sampled_system(cut, T, None))


def _hybrid(laws: Linearization, intervals: NDArray[np.float64], phases: NDArray[np.float64]) -> SampledSystem:
    """Return the hybrid model with state (R[, x][, q]) of every tick in H, the least common multiple of intervals.

    `intervals`, `phases`: shape (n_links,), of all links of the network.

    Router l ticks at t = (phase + g) T_l, g an integer; x_l[g] is the rate of a flow bottlenecked there after tick g
    (if it has memory; otherwise the rate is R_l[g]), from D_il after the tick until D_il after the next. y_l[g]
    averages the arrivals in the interval that ends at tick g.
    """
    _refuse_passing_on(laws, "with routers that act at their ticks")
    intervals, phases = intervals[laws.links], phases[laws.links]
    unit, lengths = common_unit(intervals)
    total = lcm(*lengths)
    ticks = [total // length for length in lengths]  # ticks of each router in H
    source = {name: float(slopes[0]) for name, slopes in laws.source.items()}
    memory = laws.steps_from == "x"
    before = np.concatenate([[0], np.cumsum(ticks)])
    n_ticks = int(before[-1])
    R, x, q = 0, n_ticks, n_ticks * (2 if memory else 1)
    size = q + (n_ticks if np.any(laws.router["q"] != 0.0) else 0)
    terms, cut = _Terms(size), _Terms(size)

    def add(row: int, link: int, g: int, kind: int, sender: int, other: int, value: float, loop: bool = False) -> None:
        """Add value times the sender's state at tick `other` (any integer) to the link's state at tick g."""
        back, index = divmod(other, ticks[sender])
        for system in (terms,) if loop else (terms, cut):
            system.add(-back, row + int(before[link]) + g, kind + int(before[sender]) + index, value)

    def receive(kind: int, link: int, g: int, sender: int, other: int, gain: float, loop: bool) -> None:
        """Add gain times the result of the source law from the sender's tick `other`."""
        add(kind, link, g, R, sender, other, gain * source["R"], loop)
        add(kind, link, g, R, sender, other - 1, gain * source["R_prev"], loop)

    shares = _arrivals(laws, intervals, phases, ticks)

    def arrive(kind: int, link: int, g: int, at: int, gain: float, loop: bool) -> None:
        """Add gain times y of the link at tick `at`."""
        back, index = divmod(at, ticks[link])
        for b, other, share in shares[link][index]:
            then = other + back * ticks[b]
            if memory:
                add(kind, link, g, x, b, then, gain * share, loop)
            else:
                receive(kind, link, g, b, then, gain * share, loop)

    for k, T in enumerate(intervals):
        for g in range(ticks[k]):
            add(R, k, g, R, k, g - 1, laws.router["R"][k])
            arrive(R, k, g, g, laws.router["y"][k], True)
            arrive(R, k, g, g - 1, laws.router["y_prev"][k], True)
            if memory:
                add(x, k, g, x, k, g - 1, source["x"])
                receive(x, k, g, k, g, 1.0, False)
            if laws.router["q"][k]:
                add(R, k, g, q, k, g, laws.router["q"][k], True)
                add(q, k, g, q, k, g - 1, 1.0)
                arrive(q, k, g, g, float(T), False)
    step = unit * total
    return _sampled_system(terms, step, _sampled_system(cut, step, None))


def _arrivals(
    laws: Linearization, intervals: NDArray[np.float64], phases: NDArray[np.float64], ticks: list[int]
) -> list[list[list[tuple[int, int, float]]]]:
    """Return (router, its tick, share) of the staircase steps that each interval of each link in H averages."""
    shares: list[list[dict[tuple[int, int], float]]] = [[defaultdict(float) for _ in range(n)] for n in ticks]
    for link, b, delay, _ in laws.paths:
        T, sender_period = float(intervals[link]), float(intervals[b])
        for g in range(ticks[link]):
            end = ((phases[link] + g) * T - delay) / sender_period - phases[b]  # in the sender's intervals
            for other, share in _overlaps(end - T / sender_period, end):
                shares[link][g][b, other] += share * sender_period / T
    return [[[(b, other, share) for (b, other), share in tick.items()] for tick in link] for link in shares]


def _overlaps(start: float, end: float) -> list[tuple[int, float]]:
    """Return (g, share) for every g if more of [g, g + 1) than rounding lies in [start, end]; share: that part."""
    first, last = floor(start + 1e-9), ceil(end - 1e-9)
    return [(g, max(0.0, min(g + 1.0, end) - max(float(g), start))) for g in range(first, last)]


def _sampled_flows(laws: Linearization, network: Network, T: float) -> SampledSystem:
    """Return the discrete model with state (R[, announced], x[, q]) at a step; an x is the sum of equal flows."""
    _refuse_passing_on(laws, "with a state for each flow")
    around = [steps_of(float(rtt), T) for rtt in laws.delays.rtts]

    def forward(flow: int, link: int) -> int:
        return min(ceil(float(laws.delays.forward[flow, link]) / T - 1e-9), around[flow] - 1)

    def backward(flow: int, link: int) -> int:
        waited = float(laws.delays.rtts[flow] - laws.delays.around[flow, link])
        return max(1, around[flow] - forward(flow, link) - floor(waited / T + 1e-9))

    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        distances = frozenset((link, forward(i, link)) for link in flow.route)
        equal[distances, around[i], laws.receives[i].tobytes()].append(i)
    groups = list(equal.values())
    count = len(laws.links)
    reads_queue = laws.router["q"] != 0.0
    if laws.announce is not None:
        reads_queue |= laws.announce["q"] != 0.0
    queues = np.flatnonzero(reads_queue).tolist()
    first = count * (1 if laws.announce is None else 2)  # index of the first rate
    announced = first - count  # index of the first announced value
    q_at = first + len(groups)
    size = q_at + len(queues)
    terms = _Terms(size)
    source = laws.source
    for k, link in enumerate(laws.links.tolist()):
        crossing = [(first + g, flows[0]) for g, flows in enumerate(groups) if network.incidence[flows[0], link]]
        for slopes, row in ((laws.router, k), (laws.announce, announced + k)):
            if slopes is None:
                continue
            for x, i in crossing:
                m, other = forward(i, link), not laws.receives[i, k]
                terms.add(m, row, x, slopes["y"][k] + (slopes["u"][k] if other else 0.0))
                terms.add(m + 1, row, x, slopes["y_prev"][k])
            terms.add(1 if slopes is laws.router else 0, row, k, slopes["R"][k])
            if k in queues:
                terms.add(0, row, q_at + queues.index(k), slopes["q"][k])
        if k in queues:
            q = q_at + queues.index(k)
            terms.add(1, q, q, 1.0)
            for x, i in crossing:
                terms.add(forward(i, link), q, x, T)
    answered = (laws.announce or laws.router)["x"]
    for g, flows in enumerate(groups):
        x, i = first + g, flows[0]
        terms.add(1, x, x, source["x"][i])
        terms.add(around[i], x, x, source["x_rtt"][i])
        receives: list[int] = np.flatnonzero(laws.receives[i]).tolist()
        for k in receives:
            back = backward(i, int(laws.links[k]))
            terms.add(back, x, announced + k, len(flows) * source["R"][i])
            terms.add(back + 1, x, announced + k, len(flows) * source["R_prev"][i])
            terms.add(around[i], x, x, source["R"][i] * answered[k])
            terms.add(around[i] + 1, x, x, source["R_prev"][i] * answered[k])
    differences = []
    for flows in (flows for flows in groups if len(flows) > 1):
        i, feedback = flows[0], float(answered[laws.receives[flows[0]]].sum())
        differences.append(
            (
                (1, float(source["x"][i])),
                (around[i], float(source["x_rtt"][i] + source["R"][i] * feedback)),
                (around[i] + 1, float(source["R_prev"][i] * feedback)),
            )
        )
    if laws.measures:
        cut = terms.without(range(first), range(first, size))
        opened = _sampled_system(cut, T, None)
        opened = opened.with_notes(_FEEDBACK) if source["x_rtt"].any() else opened
        return _with_differences_if_stable(_sampled_system(terms, T, opened), differences)
    cut = terms.without(range(first, size), range(size))
    for g, flows in enumerate(groups):
        if laws.steps_from is not None:
            cut.add(1 if laws.steps_from == "x" else around[flows[0]], first + g, first + g, 1.0)
    opened = _sampled_system(cut, T, None).with_notes(_CUT_AT_SOURCES)
    return _with_differences_if_stable(_sampled_system(terms, T, opened), differences)


_FEEDBACK = (
    "sources take their own rate of one RTT ago, which does not pass through the routers, where the loop is cut: "
    "these margins are not margins of a gain or of the RTT"
)
_CUT_AT_SOURCES = (
    "the feedback of routers does not depend on the flows that are bottlenecked there: the margins are those of the "
    "sources' own updates, and the delay margin does not apply to the RTT"
)


def _sampled_system(terms: _Terms, T: float, opened: SampledSystem | None) -> SampledSystem:
    """Turn x[n] = sum_m B_m x[n - m], B_0 nilpotent, into x[n + 1] = sum_k A_k x[n - k]."""
    now = terms.at.get(0, np.zeros((terms.size, terms.size)))
    solve = np.linalg.inv(np.eye(terms.size) - now)
    past = {m: solve @ matrix for m, matrix in terms.at.items() if m > 0}
    return SampledSystem(list(past.values()), [m - 1 for m in past], dt=T, opened=opened)
