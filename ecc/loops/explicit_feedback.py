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

The continuous model does so if a router without memory responds at once to the rate of each flow, b = b_i (as XCP's
routers do in shuffling; all other continuous models with a state for each flow, and all hybrid ones, are in
`explicit_equations`):

    T x_i'(t) = (x_x - 1) x_i(t - T) + x_R [R_x x_i(t - D_i) + R_y y_b(t - D_ib^<-) + R_q q_b(t - D_ib^<-)]
    y_l(t) = sum_{i crosses l} x_i(t - D_il^->),   q_l' = y_l

Differences between two equal flows obey the same equations without y and q, and are included if they might not decay,
that is, if -R_x x_R D_i >= 3 T/2. The loop is cut at the feedback that a router gives to all flows alike,
(R_y + R_x/N) y + R_q q.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from math import ceil, floor, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.contract.entries import Taken
from ecc.contract.forms import GrantedWindows, SampledPrices, SteppedRates
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.linear import DelaySystem, SampledSystem, Switched, SwitchedLoop
from ecc.linear.sample_and_hold import common_unit
from ecc.linear.systems import components, reachable
from ecc.loops.explicit_derivatives import Linearization, granting_intervals, linearize_laws, steps_of
from ecc.loops.explicit_equations import continuous_equations, hybrid_equations
from ecc.loops.explicit_flows import continuous_flows, sampled_flows
from ecc.loops.explicit_terms import (
    Terms,
    delay_system,
    refuse_passing_on,
    sampled_system,
    with_differences,
)
from ecc.loops.options import ModelChoice, read_phases
from ecc.network.network import Network

__all__ = ["grants_windows", "linearize_explicit"]

_ALIKE = 0.01  # relative: control intervals that differ by less than this get no note
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
        If a law takes other arguments, or a router with a state responds to the rate of each flow.
    LinearizationError
        If no equilibrium exists, or a law switches at it.
    """
    notes = _TAKEN.check(protocol)
    periods, spread = _control_intervals(protocol, network, choice)
    phases = read_phases(choice.phases, network) if choice.time == "hybrid" else np.zeros(network.n_links)
    grants = isinstance(protocol.fluid_form, GrantedWindows)
    rounds = choice.time == "discrete" and not grants
    laws = linearize_laws(protocol, network, periods, choice.assignment, choice.mean_rtt, discrete=rounds)
    if laws.by_flow or (grants and choice.time == "hybrid"):
        system = _model_of_flows(protocol, network, laws, choice.time, periods, phases)
    else:
        system = _model_of_links(protocol, laws, choice, periods, phases)
    if laws.by_flow and choice.time == "hybrid":
        notes = tuple(note for note in notes if note != _ONE_CLOCK)
    notes = (*notes, *spread)
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


def _control_intervals(
    protocol: Protocol, network: Network, choice: ModelChoice
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the control interval of each link's router in a model [s], and notes on them."""
    n_links = network.n_links
    if choice.intervals is not None:
        periods = np.asarray(choice.intervals, dtype=float)
        if periods.shape != (n_links,) or not np.all((periods > 0.0) & np.isfinite(periods)):
            raise ValueError(f"intervals must be {n_links} times > 0 s, got {shown(choice.intervals)}")
        return periods, ()
    periods = np.full(n_links, interval_of(protocol))
    if choice.time == "continuous" or not isinstance(protocol.fluid_form, GrantedWindows):
        return periods, ()
    periods, active = granting_intervals(protocol, network, choice.assignment, choice.mean_rtt)
    if choice.time == "hybrid":
        return periods, ()
    step, shortest, longest = float(periods[active].mean()), float(periods[active].min()), float(periods[active].max())
    note = (
        f"routers act every {1e3 * shortest:.4g} to {1e3 * longest:.4g} ms; in this model, all of them act every "
        f"{1e3 * step:.4g} ms, the mean"
    )
    return np.full(n_links, step), (note,) if longest - shortest > _ALIKE * step else ()


def _model_of_flows(
    protocol: Protocol,
    network: Network,
    laws: Linearization,
    time: str,
    periods: NDArray[np.float64],
    phases: NDArray[np.float64],
) -> DelaySystem | SampledSystem:
    """Return the model with a state for each kind of flow."""
    T = float(periods[0])
    if time == "discrete":
        return sampled_flows(laws, network, T)
    if laws.remembers and laws.announce is None and laws.router["x"].any():
        raise ValueError(
            f"{type(protocol).__name__} has no {time} model: its router law takes R and x, by which each flow would "
            "move the state of the router; an announce_law can take x"
        )
    if time == "hybrid":
        return hybrid_equations(protocol, laws, network, interval_of(protocol), periods, phases)
    if _follows_each_flow(protocol, laws):
        return continuous_flows(laws, network, T)
    return continuous_equations(protocol, laws, network, T)


def _follows_each_flow(protocol: Protocol, laws: Linearization) -> bool:
    """Return whether routers without memory respond at once to the rate of each flow, which steps from it."""
    plain = not laws.remembers and laws.announce is None and protocol.combine != "sum"
    averages = isinstance(protocol.fluid_form, (SampledPrices, SteppedRates))
    lagged = [laws.source["x_rtt"], laws.source["R_prev"], laws.router["u"], laws.router["y_prev"]]
    return plain and not averages and laws.steps_from == "x" and not any(slopes.any() for slopes in lagged)


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
        model = with_differences(model, [(difference,)])
    return model


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


def _continuous(laws: Linearization, T: float, lag: str) -> DelaySystem:
    """Return the continuous model in which the flows of a link are added up; `lag`: see `_LinkTerms`."""
    if not laws.remembers:
        refuse_passing_on(laws, "if routers have no state")
    model = _LinkTerms(laws, T, lag)
    model.add_links()
    if laws.remembers:
        model.add_announced_rates()
        opened = model.terms.without(range(model.n_links), range(model.first_queue, model.size))
        opened_slopes = model.slopes.copy()
        model.add_measured_arrivals()
    else:
        opened, opened_slopes = model.terms.copy(), model.slopes
        model.add_feedback()
    return delay_system(model.terms, model.slopes, delay_system(opened, opened_slopes, None))


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
        self.terms, self.slopes = Terms(self.size), Terms(self.size)

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


def _discrete(laws: Linearization, T: float) -> SampledSystem:
    """Return the discrete model with state (R, y[, q]) at a step; delays in whole steps (the papers' recurrence)."""
    count = len(laws.links)
    queued = np.flatnonzero(laws.router["q"]).tolist()
    size = 2 * count + len(queued)
    terms = Terms(size)  # key m: coefficient of x[n - m] in x[n]
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
    return sampled_system(terms, T, sampled_system(cut, T, None))


def _hybrid(laws: Linearization, intervals: NDArray[np.float64], phases: NDArray[np.float64]) -> SampledSystem:
    """Return the hybrid model with state (R[, x][, q]) of every tick in H, the least common multiple of intervals.

    `intervals`, `phases`: shape (n_links,), of all links of the network.

    Router l ticks at t = (phase + g) T_l, g an integer; x_l[g] is the rate of a flow bottlenecked there after tick g
    (if it has memory; otherwise the rate is R_l[g]), from D_il after the tick until D_il after the next. y_l[g]
    averages the arrivals in the interval that ends at tick g.
    """
    refuse_passing_on(laws, "with routers that act at their ticks")
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
    terms, cut = Terms(size), Terms(size)

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
    return sampled_system(terms, step, sampled_system(cut, step, None))


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
