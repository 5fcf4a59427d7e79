"""`linearize`, which chooses the linear model of a protocol, and the equations of explicit feedback at an equilibrium.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, floor, lcm, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Vector, check_arguments, shown
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.declared import Taken
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import GrantedWindows
from ecc.contract.kinds import Kind, kind_of_laws, sets_windows
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import law_arguments, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem, SampledSystem, Switched, SwitchedLoop
from ecc.linear.sample_and_hold import common_unit
from ecc.linear.systems import components, reachable
from ecc.loops.ack_clocked_windows import linearize_windows
from ecc.loops.host_rates import linearize_rates
from ecc.loops.marked_hosts import linearize_marks
from ecc.loops.paced_windows import linearize_paced
from ecc.models.shared.equilibria import check_assignment
from ecc.network.network import Network

__all__ = [
    "Linearization",
    "has_clockings",
    "has_granted_windows",
    "law_arguments",
    "linearize",
    "linearize_laws",
    "steps_of",
]

_TIMES = ("continuous", "discrete", "hybrid")
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
        "router_law": ("R", *_MEASURED), "announce_law": ("R", *_MEASURED),
        "source_law": ("x", "x_rtt", "R", "R_prev", "D", "T", "p"),
    },
    {"combine": None, "scaling_rtt": None, "scaling_rtt_limit": None},
    {
        # The assignment is an argument, empty queues make both stampings equal, and the mean RTT is that of the flows.
        "priority_law": "", "stamping": "", "rtt_weights": "", "opening_rate": "", "floor": "", "initial": "",
        **dict.fromkeys(("windowed", "source_clock", "router_clock", "fluid_form"), _ONE_CLOCK),
    },
    model="linear model",
)  # fmt: skip


def steps_of(delay: float, interval: float) -> int:
    """Return ceil(delay / interval), at least 1; a ratio within 1e-9 of an integer is rounded to it.

    Feedback cannot act within the step that computes it, so a delay of zero is one step (THESIS Theorems 5, 11).

    Parameters
    ----------
    delay : float, s, >= 0
    interval : float, s, > 0
    """
    return max(1, ceil(delay / interval - 1e-9))


_ROUTER = ("R", "y", "y_prev", "u", "q", "x")
_SOURCE = ("x", "x_rtt", "R", "R_prev")
_AT_REST = 1e-9  # relative: rounding in the equilibrium
_ALIKE = 0.01  # relative: means of RTTs that differ by less than this get no note
_MAX_FLOWS = 200  # kinds of flows with separate states in continuous time


@dataclass(frozen=True)
class Delays:
    """Delays of packets, waits in the queues of the equilibrium included [s].

    `rtts` (n_flows,); `forward` (n_flows, n_links), from the sender to the queue of a link; `backward`, from the point
    at which the link stamps the header back to the sender; `around`, from that point over the sender to the queue
    again; `waits` (n_links,), in each queue.
    """

    rtts: NDArray[np.float64]
    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    around: NDArray[np.float64]
    waits: NDArray[np.float64]

    @classmethod
    def of(cls, protocol: Protocol, network: Network, queue: NDArray[np.float64] | None) -> Delays:
        """Return the delays of a network with queues [bit] (None: all are empty)."""
        waits = np.zeros(network.n_links) if queue is None else np.asarray(queue, dtype=float) / network.capacities
        rtts, forward, backward = (
            each.copy() for each in (network.rtts, network.forward_delays, network.backward_delays)
        )
        for i, flow in enumerate(network.flows if waits.any() else ()):
            route, answers = list(flow.route), float(waits[list(flow.reverse or ())].sum())
            passed = np.cumsum([0.0, *waits[route]])
            rtts[i] += passed[-1] + answers
            forward[i, route] += passed[:-1]
            backward[i, route] += passed[-1] - passed[1:] + answers
        around = rtts[:, None] - waits
        if protocol.stamping == "arrival":
            backward, around = backward + waits, around + waits
        return cls(rtts, forward, backward, around, waits)


@dataclass(frozen=True)
class Linearization:
    """First derivatives of the laws at an equilibrium, and the delays between bottleneck links.

    `links`: indices of the K links at which some flow is bottlenecked; the rows of everything below.
    `router`: name of argument (R, y, y_prev, u, q, x) -> shape (K,), derivative of the router law.
    `announce`: the same of the announce law, R being the router's new state; None if the state itself is announced.
    `source`: name (x, x_rtt, R, R_prev) -> shape (n_flows,), derivative of the source law.
    `receives`: shape (n_flows, K), bool: whether the flow receives the feedback of the link.
    `paths`: (l, b, delay [s], flow): the flow receives links[b] and crosses links[l], `delay` after links[b] announced.
    `passed_on`: (l, k, delay [s], share): arrivals at links[l] lose `share` of those at links[k] `delay` before,
        because flows reach links[l] through the queue of links[k].
    `by_flow`: whether the loop needs a state for each flow.
    `remembers`: whether routers have a state. `measures`: whether they respond to the flows bottlenecked there.
    `notes`: caveats of the model. `signed`: shape (K,), bool: whether the link's queue enters a law and is empty at the
        equilibrium, so that it is negative at times in the model.
    `steps_from`: the rate from which the source law steps, "x" or "x_rtt"; None if the law takes neither.
    `remembers`, `measures` and `steps_from` are read off the laws' arguments: a coefficient that is 0 by chance changes
    no model.
    """

    links: NDArray[np.int64]
    router: dict[str, NDArray[np.float64]]
    announce: dict[str, NDArray[np.float64]] | None
    source: dict[str, NDArray[np.float64]]
    receives: NDArray[np.bool_]
    paths: list[tuple[int, int, float, int]]
    passed_on: list[tuple[int, int, float, float]]
    delays: Delays
    by_flow: bool
    remembers: bool
    measures: bool
    steps_from: str | None
    notes: tuple[str, ...]
    signed: NDArray[np.bool_]
    equilibrium: Equilibrium


def linearize_laws(
    protocol: Protocol,
    network: Network,
    interval: ArrayLike,
    assignment: ArrayLike | None = None,
    mean_rtt: Vector | str | None = None,
    discrete: bool = False,
) -> Linearization:
    """Return the derivatives of the laws at their equilibrium on a network.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    interval : array_like
        Float or shape (n_links,), s, the T of the laws.
    assignment : array_like, shape (n_flows,), optional
        Link at which each flow is bottlenecked; default: the bottleneck at the equilibrium.
    mean_rtt : Vector, shape (n_links,), s, or str, optional
        Value that routers use as the RTT d: numbers, or the mean over "flows" that cross the link (default) or
        "packets".
    discrete : bool, optional
        Round RTTs up to whole intervals before they are averaged.

    Returns
    -------
    Linearization

    Raises
    ------
    LinearizationError
        If no equilibrium exists, a law switches at it, or an RTT is zero.
    """
    links_of = None if assignment is None else check_assignment(network, np.asarray(assignment))
    point = equilibrium_of(protocol, network, links_of)
    _check_loads(protocol, network, point)
    crosses = network.incidence
    receives = crosses if protocol.combine == "sum" else point.bottleneck[:, None] == np.arange(network.n_links)
    links = np.flatnonzero(receives.any(axis=0))
    p = protocol.namespace()
    delays = Delays.of(protocol, network, point.queue)
    rtts, intervals = delays.rtts, np.broadcast_to(np.asarray(interval, dtype=float), (network.n_links,))
    if discrete:
        rtts = intervals[0] * np.array([steps_of(rtt, float(intervals[0])) for rtt in rtts])
    laws: dict[str, Callable[..., float]] = {"router": protocol.router_law}
    if protocol.announce_law is not None:
        laws["announce"] = protocol.announce_law
    slopes: dict[str, dict[str, list[float]]] = {law: {name: [] for name in _ROUTER} for law in laws}
    announced = np.zeros(network.n_links)
    mean_rtts = None if mean_rtt is None or isinstance(mean_rtt, str) else np.asarray(mean_rtt, dtype=float)
    if isinstance(mean_rtt, str) and mean_rtt not in ("flows", "packets"):
        raise ValueError(f"mean_rtt must be 'flows', 'packets' or RTTs of links [s], got {shown(mean_rtt)}")
    if mean_rtts is not None and mean_rtts.shape != announced.shape:
        raise ValueError(f"mean_rtt must have the shape {announced.shape}, a value per link, got {mean_rtts.shape}")
    notes = _note_overloads(network, point)
    averages: list[tuple[float, str]] = []
    announcing: dict[int, tuple[Callable[..., float], dict[str, Any]]] = {}  # law and arguments of each link
    for link in links:
        through, bottlenecked = crosses[:, link], receives[:, link]
        if mean_rtts is not None:
            d = float(mean_rtts[link])
        else:
            counted = np.minimum(rtts[through], protocol.scaling_rtt_limit)
            weights = point.rates[through] if mean_rtt == "packets" else None
            d = float(counted.max() if protocol.scaling_rtt == "max" else np.average(counted, weights=weights))
            if (
                mean_rtt is None
                and protocol.scaling_rtt == "mean"
                and protocol.rtt_weights == "rates"
                and "d" in law_arguments(protocol.router_law)
            ):
                by_packet = float(np.average(counted, weights=point.rates[through]))
                if d > 0.0 and abs(by_packet - d) > _ALIKE * d:
                    averages.append((
                        abs(log(by_packet / d)),
                        f"d is the mean RTT over flows, {d:.4g} s at link {link}; over packets, as routers measure it, "
                        f"it is {by_packet:.4g} s (mean_rtt='packets')",
                    ))  # fmt: skip
        if "d" in law_arguments(protocol.router_law) and not d > 0.0:
            raise LinearizationError(f"the router law divides by the RTT, which is {d!r} s (link {int(link)})")
        y, C = float(point.rates[through].sum()), float(network.capacities[link])
        if abs(y - C) < 1e-12 * C:  # the last bit must not decide on which side of a switch the link is
            y = C
        supply: dict[str, Any] = {
            "R": float(point.fair_rate[link]), "y": y, "y_prev": y,
            "u": float(point.rates[through & ~bottlenecked].sum()), "N": float(bottlenecked.sum()),
            "N_all": float(through.sum()), "q": float(delays.waits[link]) * C, "d": d,
            "T": float(intervals[link]), "C": C, "x": float(point.rates[bottlenecked][0]), "p": p,
        }  # fmt: skip
        for name, law in laws.items():
            wanted = law_arguments(law)
            at = {argument: supply[argument] for argument in wanted}
            derivatives = gradient(law, at, [argument for argument in _ROUTER if argument in wanted])
            for argument, column in slopes[name].items():
                column.append(
                    derivatives.get(argument, 0.0) if argument != "q" or y >= C else 0.0
                )  # a slack queue stays empty
            if delays.waits[link] > 0.0 and "d" in wanted:
                if abs(gradient(law, at, ["d"])["d"] * d) > _AT_REST * abs(law(**at)):
                    notes.append("the mean RTT that routers scale by is constant in the model, though queues move it")
            announced[link] = value_of(law, at, type(protocol).__name__, f"{name}_law")
            announcing[int(link)] = law, at
            if name == "router":
                if "R" in wanted and abs(announced[link] - supply["R"]) > _AT_REST * abs(supply["R"]):
                    raise LinearizationError(
                        f"no equilibrium: the router of link {int(link)} would move from {supply['R']:g} to "
                        f"{announced[link]:g}, with arrivals of {y:g} of {C:g} bit/s"
                    )
                supply["R"] = announced[link]
    router = {name: np.array(column) for name, column in slopes["router"].items()}
    # The last bit of the equilibrium must not make an integrator drift: (R_R - 1)/T would be a pole off the origin.
    router["R"][np.abs(router["R"] - 1.0) < 1e-14] = 1.0
    announce = {name: np.array(column) for name, column in slopes["announce"].items()} if "announce" in slopes else None
    source = _source_slopes(protocol, network, point, receives @ announced, rtts, float(intervals[0]), p)
    by_flow = (
        protocol.combine == "sum"
        or announce is not None
        or not {"x_rtt", "D"}.isdisjoint(law_arguments(protocol.source_law))
        or bool(router["u"].any() or (np.abs(router["x"] * source["R"][0]) > _AT_REST).any())
    )
    if not by_flow and any(np.any(slope != slope[0]) for slope in source.values()):
        raise LinearizationError("the source law has different derivatives at different rates")
    row = {int(link): k for k, link in enumerate(links)}
    paths = [
        (
            row[link],
            row[int(b)],
            float(delays.backward[i, b] + delays.forward[i, link] if link != b else delays.around[i, b]),
            i,
        )  # fmt: skip
        for i, b in enumerate(point.bottleneck)
        for link in network.flows[i].route
        if link in row and not by_flow
    ]
    routers, sources = law_arguments(protocol.router_law), law_arguments(protocol.source_law)
    return Linearization(
        links, router, announce, source, receives[:, links], paths, _passed_on(network, point, delays, row), delays,
        by_flow,
        remembers="R" in routers,
        measures=not {"R", "y", "y_prev", "q"}.isdisjoint(routers),
        steps_from=next((name for name in ("x", "x_rtt") if name in sources), None),
        notes=(
            *notes, *([max(averages)[1]] if averages else []), *_note_assignment(protocol, network, point, announcing),
        ),
        signed=((router["q"] != 0.0) | (announce is not None and announce["q"] != 0.0)) & (delays.waits[links] == 0.0),
        equilibrium=point,
    )  # fmt: skip


def _note_assignment(
    protocol: Protocol,
    network: Network,
    point: Equilibrium,
    announcing: dict[int, tuple[Callable[..., float], dict[str, Any]]],
) -> list[str]:
    """Return notes on flows that cross several bottleneck links: would they choose the assigned link at this point?"""
    switching, ties = "", ""
    known = {link: law(**at) for link, (law, at) in announcing.items()}
    for i, flow in enumerate(network.flows if len(announcing) > 1 and protocol.combine != "sum" else ()):
        x, b, met = float(point.rates[i]), int(point.bottleneck[i]), [link for link in flow.route if link in announcing]
        announced = {
            link: law(**(at | {"x": x})) if "x" in at else known[link] for link in met for law, at in [announcing[link]]
        }
        for link in met:
            ahead = (announced[b] - announced[link]) * (1.0 if protocol.combine == "min" else -1.0)
            size = _AT_REST * max(abs(announced[b]), abs(announced[link]), x if "x" in announcing[link][1] else 0.0)
            if link != b and ahead > size:
                switching = switching or (
                    f"flow {i} would choose link {link} instead of link {b} at this equilibrium: the verdict applies "
                    "to flows with this assignment fixed"
                )
            elif link != b and ahead >= -size:
                ties = ties or (
                    f"flow {i} meets equal feedback at links {b} and {link}, between which the loop switches: the "
                    "verdict applies to flows with one of them fixed"
                )
    return [note for note in (switching, ties, *point.notes) if note]


def _passed_on(
    network: Network, point: Equilibrium, delays: Delays, row: dict[int, int]
) -> list[tuple[int, int, float, float]]:
    """Return the effects of queues on arrivals downstream: see `Linearization.passed_on`."""
    out = []
    downstream: dict[int, set[int]] = defaultdict(set)
    for i, flow in enumerate(network.flows):
        busy: list[int] = []
        for link in flow.route:
            for k in busy if link in row else ():
                delay = float(delays.forward[i, link] - delays.forward[i, k])
                out.append((row[link], row[k], delay, float(point.rates[i] / network.capacities[k])))
                downstream[k].add(link)
            if delays.waits[link] > 0.0:
                if link not in row:
                    raise LinearizationError(
                        f"the queue of link {link} has no linear model: no flow is bottlenecked there"
                    )
                busy.append(link)
    for k in list(downstream):
        reached, new = set[int](), set(downstream[k])
        while new:
            reached |= new
            new = {link for m in new for link in downstream.get(m, ())} - reached
        if k in reached:
            raise LinearizationError(f"the queue of link {k} has no linear model: it is downstream of itself")
    return out


def _note_overloads(network: Network, point: Equilibrium) -> list[str]:
    """Return a note if a link is loaded beyond its capacity, so that its losses are missing at a downstream link."""
    loads = point.rates @ network.incidence
    for flow in network.flows:
        for index, link in enumerate(flow.route[:-1]):
            excess = float(loads[link] / network.capacities[link]) - 1.0
            if excess > _AT_REST:
                return [
                    f"link {link} is overloaded by {excess:.2%}: this model ignores that packets lost there do not "
                    f"arrive at link {flow.route[index + 1]}"
                ]
    return []


def _check_loads(protocol: Protocol, network: Network, point: Equilibrium) -> None:
    """Refuse a point if a router would exceed its range there, or a queue would drain or grow without end."""
    loads = point.rates @ network.incidence
    for link, (R, load, capacity) in enumerate(zip(point.fair_rate, loads, network.capacities, strict=True)):
        low, high = protocol.rate_range(float(capacity))
        slack = _AT_REST * abs(R)
        if np.isfinite(R) and not low - slack <= R <= high + slack:
            raise LinearizationError(
                f"no equilibrium: the router of link {link} would have to announce {R:g}, outside its range from "
                f"{low:g} to {high:g}"
            )
        if load > capacity * (1.0 + _AT_REST) and not protocol.overloads_at_equilibrium:
            raise LinearizationError(
                f"no equilibrium: arrivals of {load:g} bit/s would fill the queue of link {link} ({capacity:g} bit/s) "
                "without end"
            )
        if point.queue is not None and point.queue[link] > 0.0 and load < capacity * (1.0 - _AT_REST):
            raise LinearizationError(
                f"no equilibrium: arrivals of {load:g} bit/s would drain the queue of link {link} ({capacity:g} bit/s)"
            )


def _source_slopes(
    protocol: Protocol,
    network: Network,
    point: Equilibrium,
    received: NDArray[np.float64],
    rtts: NDArray[np.float64],
    interval: float,
    p: Any,
) -> dict[str, NDArray[np.float64]]:
    """Return the derivatives of the source law for every flow; equal flows are differentiated once."""
    wanted = law_arguments(protocol.source_law)
    names = [name for name in _SOURCE if name in wanted]
    rows: dict[tuple[float, ...], int] = {}
    slopes: list[list[float]] = []
    row_of_flow = np.zeros(network.n_flows, dtype=np.int64)
    for flow, (x, R, D) in enumerate(zip(point.rates.tolist(), received.tolist(), rtts.tolist(), strict=True)):
        key = (x, R, D) if "D" in wanted else (x, R)
        if key not in rows:
            supply: dict[str, Any] = {"x": x, "x_rtt": x, "R": R, "R_prev": R, "D": D, "T": interval, "p": p}
            at = {name: supply[name] for name in wanted}
            next_rate = value_of(protocol.source_law, at, type(protocol).__name__, "source_law")
            if abs(next_rate - x) > _AT_REST * x:
                raise LinearizationError(f"no equilibrium: {_describe_drift(network, point, flow, x, next_rate)}")
            derivatives = gradient(protocol.source_law, at, names)
            rows[key] = len(slopes)
            slopes.append([derivatives.get(name, 0.0) for name in _SOURCE])
        row_of_flow[flow] = rows[key]
    return dict(zip(_SOURCE, np.array(slopes).T[:, row_of_flow], strict=True))


def _describe_drift(network: Network, point: Equilibrium, flow: int, x: float, next_rate: float) -> str:
    link = int(point.bottleneck[flow])
    load, capacity = float((point.rates @ network.incidence)[link]), float(network.capacities[link])
    reason = f"link {link} is not saturated ({load:g} of {capacity:g} bit/s)" if load < capacity else f"link {link}"
    return f"flow {flow} would move from {x:g} to {next_rate:g} bit/s; {reason}"


def has_clockings(protocol: Protocol | ProtocolAssignment) -> bool:
    """Return whether hosts have windows, so that linear models with two clocks exist.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    """
    if not isinstance(protocol, Protocol):
        return len(protocol.protocols) > 1 or has_clockings(protocol.protocols[0])
    return sets_windows(protocol)


def has_granted_windows(protocol: Protocol | ProtocolAssignment) -> bool:
    """Return whether routers grant changes of windows that ACKs clock, for which only a paced linear model exists.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    """
    if not isinstance(protocol, Protocol):
        return len(protocol.protocols) == 1 and has_granted_windows(protocol.protocols[0])
    form = protocol.fluid_form
    return isinstance(form, GrantedWindows) and not form.paced


@check_arguments
def linearize(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    time: str = "continuous",
    assignment: Sequence[int] | NDArray[np.int64] | None = None,
    approximation: str | None = None,
    mean_rtt: Vector | str | None = None,
    phases: ArrayLike | None = None,
    intervals: ArrayLike | None = None,
    clocking: str | None = None,
) -> DelaySystem | SampledSystem:
    """Return the exact linear model of a protocol around its equilibrium, without the check of `ecc.linearize`.

    Parameters
    ----------
    protocol, network, time
        Arguments of `ecc.linearize`.
    assignment, approximation, mean_rtt, phases, intervals, clocking
        Fields of `ecc.loops.options.LinearOptions`.

    Returns
    -------
    DelaySystem or SampledSystem

    Raises
    ------
    ValueError, LinearizationError
        Cases that `ecc.linearize` lists.
    """
    if time not in _TIMES:
        raise ValueError(f"time must be one of {', '.join(map(repr, _TIMES))}, got {shown(time)}")
    protocol = read_protocol(protocol)
    if not isinstance(protocol, Protocol) and len(protocol.protocols) == 1:
        protocol = protocol.protocols[0]
    if not isinstance(protocol, Protocol):
        unsupported = (approximation, assignment, mean_rtt, intervals)
        return _linearize_halves(protocol, network, time, clocking, phases, unsupported)
    if protocol.linear_refusal is not None:
        raise ValueError(f"{protocol.linear_refusal}; see the result of ecc.stability.analyze for alternatives")
    if time not in protocol.times:
        fix = f"time must be {' or '.join(map(repr, protocol.times))}" if protocol.times else "its class has times = ()"
        raise ValueError(f"{type(protocol).__name__} has no {time} model: {fix}")
    if approximation is not None and (time != "continuous" or approximation not in protocol.reductions):
        names = ", ".join(map(repr, protocol.reductions)) or "none"
        raise ValueError(f"approximation must be None or one of {names} (continuous time), got {shown(approximation)}")
    if clocking not in (None, "ack", "rate"):
        raise ValueError(f"clocking must be 'ack' or 'rate', got {shown(clocking)}")
    windows, granted = has_clockings(protocol), has_granted_windows(protocol)
    if granted and clocking == "ack":
        raise LinearizationError(
            f"{type(protocol).__name__} has no ACK-clocked linear model: departures repeat in patterns that grow or "
            "decay, depending on when routers act and when the queue is empty; use clocking='rate'"
        )
    if clocking == "rate" and not (windows or protocol.windowed):
        raise ValueError(f"clocking applies to window protocols only, got {shown(clocking)}")
    named, clocking = clocking, clocking or "ack"
    if windows and mean_rtt is not None:
        raise ValueError("mean_rtt must be None for windows: no router scales by it")
    _check_hybrid(time, phases, intervals)
    if windows and (protocol.states or protocol.paced_over > 0.0 or "y" in law_arguments(protocol.router_law)):
        return linearize_paced(protocol, network, clocking, assignment)
    if windows:
        return linearize_windows(protocol, network, clocking, assignment)
    if kind_of_laws(protocol) is Kind.HOST_RATES:
        return linearize_rates(protocol, network, assignment)
    notes = _TAKEN.check(protocol)
    T = interval_of(protocol)
    periods = np.full(network.n_links, T) if intervals is None else np.asarray(intervals, dtype=float)
    if periods.shape != (network.n_links,) or not np.all((periods > 0.0) & np.isfinite(periods)):
        raise ValueError(f"intervals must be {network.n_links} times > 0 s, got {shown(intervals)}")
    offsets = _read_phases(phases, network)
    laws = linearize_laws(protocol, network, periods, assignment, mean_rtt, discrete=time == "discrete")
    name = type(protocol).__name__
    system: DelaySystem | SampledSystem
    if laws.by_flow and time == "discrete":
        system = _sampled_flows(laws, network, T)
    elif laws.by_flow:
        if time == "hybrid" or laws.remembers or protocol.combine == "sum" or laws.announce is not None:
            raise ValueError(f"{name} needs a state for each flow: time must be 'discrete'")
        system = _continuous_flows(laws, network, T)
    elif time == "continuous":
        system = _continuous(laws, T, protocol.reductions.get(approximation or "", "exact"))
    elif time == "discrete":
        system = _discrete(laws, T)
    else:
        system = _hybrid(laws, periods[laws.links], offsets[laws.links])
    if laws.steps_from == "x" and not laws.by_flow and network.n_flows > len(laws.links):
        decay = float(laws.source["x"][0])
        if time == "continuous" and approximation is None:
            system = _with_differences(system, [((T, (decay - 1.0) / T),)])
        elif isinstance(system, SampledSystem):
            n_steps = round(float(system.dt or T) / float(periods[laws.links[0]]))
            system = _with_differences(system, [((1, decay**n_steps),)])
    system = system.with_notes(*notes, *laws.notes) if notes or laws.notes else system
    if granted and named is None:
        system = system.with_notes(
            f"this is the model of paced windows (clocking='rate'); hosts of {name} are clocked by ACKs"
        )
    if not laws.signed.any():
        return system
    unconstrained = (
        f"the queue is unconstrained (signed) in this model: its verdict is not that on {name}, whose loop switches at "
        "the empty queue"
    )
    return system.with_notes(unconstrained).with_switched(partial(_switched, protocol, network, assignment, mean_rtt))


def _linearize_halves(
    halves: ProtocolAssignment, network: Network, time: str, clocking: str | None, phases: Any, options: Sequence[Any]
) -> DelaySystem | SampledSystem:
    """Return the model of hosts over queue disciplines."""
    if all(protocol.has_hosts() for protocol in halves.protocols):
        raise TypeError(
            f"protocol must be one Protocol for a linear model, or hosts over queue disciplines, got {halves}"
        )
    if time == "discrete":
        raise ValueError("hosts over queue disciplines have no discrete model: time must be 'continuous' or 'hybrid'")
    if any(option is not None for option in options):
        raise ValueError(
            "approximation, assignment, mean_rtt and intervals must be None for hosts over queue disciplines"
        )
    if clocking not in (None, "ack", "rate"):
        raise ValueError(f"clocking must be 'ack' or 'rate', got {shown(clocking)}")
    _check_hybrid(time, phases, None)
    ticks = _read_phases(phases, network) if time == "hybrid" else None
    return linearize_marks(halves.deploy(network), network, clocking or "ack", phases=ticks)


def _check_hybrid(time: str, phases: Any, intervals: Any) -> None:
    for name, value in (("phases", phases), ("intervals", intervals)):
        if value is not None and time != "hybrid":
            raise ValueError(f"{name} belong to time='hybrid', got time={time!r}")


def _read_phases(phases: Any, network: Network) -> NDArray[np.float64]:
    offsets = np.zeros(network.n_links) if phases is None else np.asarray(phases, dtype=float)
    if offsets.shape != (network.n_links,) or not np.all((offsets >= 0.0) & (offsets < 1.0)):
        raise ValueError(f"phases must be {network.n_links} numbers in [0, 1), got {shown(phases)}")
    return offsets


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
            wide, lags, neutral=list(map(padded, part.neutral)), neutral_delays=part.neutral_delays, opened=opened,
            notes=part.notes,
        )  # fmt: skip

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
    """Return the continuous model of laws.

    `lag` is the form of v(t - T): "exact", "taylor" (v - T v', a neutral system) or "static" (v, sources at
    equilibrium). The state is R (if routers have memory), y (if sources have memory or routers have none), and those q
    that a law reads.
    """
    count = len(laws.links)
    router = laws.router
    queued = np.flatnonzero(router["q"]).tolist()  # no law reads the others
    source = {name: float(slopes[0]) for name, slopes in laws.source.items()}
    if not laws.remembers:
        _refuse_passing_on(laws, "if routers have no state")
    if lag == "static":
        source = {"x": 0.0, "R": (source["R"] + source["R_prev"]) / (1.0 - source["x"]), "R_prev": 0.0}
    memory = (laws.steps_from == "x" and lag != "static") or not laws.remembers
    y_at = count if laws.remembers else 0
    first = y_at + (count if memory else 0)
    q_at = {k: first + index for index, k in enumerate(queued)}
    size = first + len(queued)
    terms, slopes, opened = _Terms(size), _Terms(size), _Terms(size)

    def delayed(delay: float, row: int, column: int, value: float, into: _Terms = terms) -> None:
        """Add value * v(t - T - delay)."""
        if lag == "exact":
            into.add(delay + T, row, column, value)
        else:
            into.add(delay, row, column, value)
            if lag == "taylor":
                slopes.add(delay, row, column, -T * value)

    def arrivals(link: int, row: int, lagged: bool, gain: float, ago: float = 0.0) -> None:
        """Add gain * y_link(t - ago) or gain * y_link(t - T - ago)."""
        for target, before, delay, share in laws.passed_on:
            if target == link:
                arrivals(before, row, lagged, -gain * share, ago + delay)
        if memory:
            (delayed if lagged else terms.add)(ago, row, y_at + link, gain)
            return
        for target, b, delay, _ in laws.paths:
            if target == link:
                (delayed if lagged else terms.add)(ago + delay, row, b, gain * source["R"])
                if source["R_prev"]:
                    delayed(ago + delay + (T if lagged else 0.0), row, b, gain * source["R_prev"])

    for k in range(count):
        if laws.remembers:
            terms.add(0.0, k, k, (router["R"][k] - 1.0) / T)
        if k in q_at:
            if laws.remembers:
                terms.add(0.0, k, q_at[k], router["q"][k] / T)
            arrivals(k, q_at[k], False, 1.0)
        if memory:
            delayed(0.0, y_at + k, y_at + k, (source["x"] - 1.0) / T)
    if not laws.remembers:
        opened = _copy(terms)
    for link, b, delay, _ in laws.paths if memory else ():
        for name, later in (("R", 0.0), ("R_prev", T)):
            gain = source[name] / T
            if laws.remembers:
                (delayed if later else terms.add)(delay, y_at + link, b, gain)
            else:
                terms.add(delay + later, y_at + link, y_at + b, gain * router["y"][b])
                terms.add(delay + later + T, y_at + link, y_at + b, gain * router["y_prev"][b])
                if b in q_at:
                    terms.add(delay + later, y_at + link, q_at[b], gain * router["q"][b])
    if not laws.remembers:
        return _delay_system(terms, slopes, _delay_system(opened, slopes, None))
    opened, opened_slopes = _copy(terms), _copy(slopes)
    for k in range(count):
        arrivals(k, k, False, router["y"][k] / T)
        if router["y_prev"][k]:
            arrivals(k, k, True, router["y_prev"][k] / T)
    opened = opened.without(range(count), range(first, size))
    return _delay_system(terms, slopes, _delay_system(opened, opened_slopes, None))


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

    Router l ticks at t = (phase + g) T_l, g an integer; x_l[g] is the rate of a flow bottlenecked there after tick g
    (if it has memory; otherwise the rate is R_l[g]), from D_il after the tick until D_il after the next. y_l[g]
    averages the arrivals in the interval that ends at tick g.
    """
    _refuse_passing_on(laws, "with routers that act at their ticks")
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
        differences.append((
            (1, float(source["x"][i])),
            (around[i], float(source["x_rtt"][i] + source["R"][i] * feedback)),
            (around[i] + 1, float(source["R_prev"][i] * feedback)),
        ))  # fmt: skip
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
