"""Derivatives of the laws of explicit feedback at an equilibrium, and the delays between its bottleneck links.

`ecc.loops.explicit_feedback` has the equations, and makes linear models of these derivatives. Points that are not an
equilibrium of the laws are refused here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Vector, shown
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import GrantedWindows
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, law_arguments, value_of
from ecc.laws.jets import gradient
from ecc.models.shared.equilibria import check_assignment
from ecc.network.network import Network

__all__ = ["Delays", "Linearization", "granting_intervals", "linearize_laws", "steps_of"]

_ROUTER = ("R", "y", "y_prev", "u", "q", "x")
_SOURCE = ("x", "x_rtt", "R", "R_prev")
_AT_REST = 1e-9  # relative: rounding in the equilibrium
_ALIKE = 0.01  # relative: means of RTTs that differ by less than this get no note


def steps_of(delay: float, interval: float) -> int:
    """Return ceil(delay / interval), at least 1; a ratio within 1e-9 of an integer is rounded to it.

    Feedback cannot act within the step that computes it, so a delay of zero is one step (THESIS Theorems 5, 11).

    Parameters
    ----------
    delay : float, s, >= 0
    interval : float, s, > 0
    """
    return max(1, ceil(delay / interval - 1e-9))


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
    point = _OperatingPoint.of(protocol, network, interval, links_of, discrete)
    notes = _note_overloads(network, point.equilibrium)
    routers = _differentiate_routers(point, mean_rtt)
    router, announce = routers.router, routers.announce
    source = _source_slopes(point, point.receives @ routers.announced)
    by_flow = _needs_states_of_flows(point, routers, source)
    if not by_flow and any(np.any(slope != slope[0]) for slope in source.values()):
        raise LinearizationError("the source law has different derivatives at different rates")
    row = {int(link): k for k, link in enumerate(point.links)}
    return Linearization(
        links=point.links,
        router=router,
        announce=announce,
        source=source,
        receives=point.receives[:, point.links],
        paths=[] if by_flow else _paths(point, row),
        passed_on=_passed_on(network, point.equilibrium, point.delays, row),
        delays=point.delays,
        by_flow=by_flow,
        remembers="R" in point.router_arguments,
        measures=not {"R", "y", "y_prev", "q"}.isdisjoint(point.router_arguments),
        steps_from=next((name for name in ("x", "x_rtt") if name in point.source_arguments), None),
        notes=(*notes, *routers.notes, *_note_assignment(point, routers.calls)),
        signed=((router["q"] != 0.0) | (announce is not None and announce["q"] != 0.0))
        & (point.delays.waits[point.links] == 0.0),
        equilibrium=point.equilibrium,
    )


def granting_intervals(
    protocol: Protocol, network: Network, assignment: ArrayLike | None = None, mean_rtt: Vector | str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the control intervals of routers that grant changes of windows [s], and the links with such flows.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a `fluid_form` of type `GrantedWindows`: its `interval_law` gives the intervals.
    network : Network
    assignment, mean_rtt
        Arguments of `linearize_laws`.
    """
    form = protocol.fluid_form
    assert isinstance(form, GrantedWindows)
    links_of = None if assignment is None else check_assignment(network, np.asarray(assignment))
    point = _OperatingPoint.of(protocol, network, interval_of(protocol), links_of, discrete=False)
    values = None if mean_rtt is None else _read_mean_rtts(mean_rtt, network)
    intervals = point.intervals.copy()
    for link in point.links.tolist():
        d = _scaling_rtt(point, link, mean_rtt) if values is None else float(values[link])
        known = arguments_from(form.interval_law, {"d": d, "p": point.parameters})
        intervals[link] = value_of(form.interval_law, known, type(protocol).__name__, "interval_law")
    return intervals, point.links


@dataclass(frozen=True)
class _OperatingPoint:
    """The equilibrium of a protocol on a network, and what else its laws take there.

    `rtts` (n_flows,) [s]: in whole intervals for a discrete model. `intervals` (n_links,) [s]. `receives`
    (n_flows, n_links): whether a flow receives the feedback of a link. `links`: the links whose feedback some flow
    receives. `parameters`: the `p` of laws. `router_arguments`, `source_arguments`: names of arguments of these laws.
    """

    protocol: Protocol
    network: Network
    equilibrium: Equilibrium
    delays: Delays
    rtts: NDArray[np.float64]
    intervals: NDArray[np.float64]
    receives: NDArray[np.bool_]
    links: NDArray[np.int64]
    parameters: Any
    router_arguments: tuple[str, ...]
    source_arguments: tuple[str, ...]

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        network: Network,
        interval: ArrayLike,
        assignment: NDArray[np.int64] | None,
        discrete: bool,
    ) -> _OperatingPoint:
        """Return the operating point of a protocol; a point that cannot be an equilibrium is refused."""
        equilibrium = equilibrium_of(protocol, network, assignment)
        _check_loads(protocol, network, equilibrium)
        delays = Delays.of(protocol, network, equilibrium.queue)
        crosses = network.incidence
        n_links = crosses.shape[1]
        receives = crosses if protocol.combine == "sum" else equilibrium.bottleneck[:, None] == np.arange(n_links)
        rtts, intervals = delays.rtts, np.broadcast_to(np.asarray(interval, dtype=float), (n_links,))
        if discrete:
            rtts = intervals[0] * np.array([steps_of(rtt, float(intervals[0])) for rtt in rtts])
        return cls(
            protocol,
            network,
            equilibrium,
            delays,
            rtts,
            intervals,
            receives,
            links=np.flatnonzero(receives.any(axis=0)),
            parameters=protocol.namespace(),
            router_arguments=law_arguments(protocol.router_law),
            source_arguments=law_arguments(protocol.source_law),
        )


class _RouterDerivatives(NamedTuple):
    """The derivatives of the laws of routers, as in `Linearization`.

    `announced` (n_links,): what each link announces. `calls`: link -> the law that returns it, and its arguments.
    """

    router: dict[str, NDArray[np.float64]]
    announce: dict[str, NDArray[np.float64]] | None
    announced: NDArray[np.float64]
    calls: dict[int, tuple[Callable[..., float], dict[str, Any]]]
    notes: list[str]


def _read_mean_rtts(mean_rtt: Vector | str, network: Network) -> NDArray[np.float64] | None:
    """Return the mean RTTs that routers use, if `mean_rtt` is not the name of a mean."""
    if isinstance(mean_rtt, str) and mean_rtt not in ("flows", "packets"):
        raise ValueError(f"mean_rtt must be 'flows', 'packets' or RTTs of links [s], got {shown(mean_rtt)}")
    if isinstance(mean_rtt, str):
        return None
    values, shape = np.asarray(mean_rtt, dtype=float), (network.n_links,)
    if values.shape != shape:
        raise ValueError(f"mean_rtt must have the shape {shape}, a value per link, got {values.shape}")
    return values


def _differentiate_routers(point: _OperatingPoint, mean_rtt: Vector | str | None) -> _RouterDerivatives:
    """Return the derivatives of the router law, and of the announce law, at each link."""
    mean_rtts = None if mean_rtt is None else _read_mean_rtts(mean_rtt, point.network)
    protocol, arguments = point.protocol, {"router": point.router_arguments}
    laws: dict[str, Callable[..., float]] = {"router": protocol.router_law}
    if protocol.announce_law is not None:
        laws["announce"], arguments["announce"] = protocol.announce_law, law_arguments(protocol.announce_law)
    slopes: dict[str, dict[str, list[float]]] = {law: {name: [] for name in _ROUTER} for law in laws}
    announced = np.zeros(len(point.intervals))
    calls: dict[int, tuple[Callable[..., float], dict[str, Any]]] = {}
    notes: list[str] = []
    averages: list[tuple[float, str]] = []
    for link in point.links.tolist():
        d = _scaling_rtt(point, link, mean_rtt) if mean_rtts is None else float(mean_rtts[link])
        if "d" in point.router_arguments:
            if not d > 0.0:
                raise LinearizationError(f"the router law divides by the RTT, which is {d!r} s (link {link})")
            averages += [] if mean_rtt is not None else _note_mean(point, link, d)
        supply = _router_supply(point, link, d)
        for name, law in laws.items():
            wanted = arguments[name]
            at = {argument: supply[argument] for argument in wanted}
            derivatives = gradient(law, at, [argument for argument in _ROUTER if argument in wanted])
            if supply["y"] < supply["C"]:  # a slack queue stays empty
                derivatives["q"] = 0.0
            for argument, column in slopes[name].items():
                column.append(derivatives.get(argument, 0.0))
            if point.delays.waits[link] > 0.0 and "d" in wanted:
                if abs(gradient(law, at, ["d"])["d"] * d) > _AT_REST * abs(law(**at)):
                    notes.append("the mean RTT that routers scale by is constant in the model, though queues move it")
            announced[link] = value_of(law, at, type(protocol).__name__, f"{name}_law")
            calls[link] = law, at
            if name == "router":
                R, supply["R"] = supply["R"], announced[link]
                if "R" in wanted and abs(announced[link] - R) > _AT_REST * abs(R):
                    raise LinearizationError(f"no equilibrium: {_describe_move(link, R, supply)}")
    router, *announce = ({name: np.array(column) for name, column in columns.items()} for columns in slopes.values())
    # The last bit of the equilibrium must not make an integrator drift: (R_R - 1)/T would be a pole off the origin.
    router["R"][np.abs(router["R"] - 1.0) < 1e-14] = 1.0
    notes += [max(averages)[1]] if averages else []
    return _RouterDerivatives(router, announce[0] if announce else None, announced, calls, notes)


def _scaling_rtt(point: _OperatingPoint, link: int, mean_rtt: Vector | str | None) -> float:
    """Return the RTT by which the router of a link scales [s]."""
    protocol, through = point.protocol, point.network.incidence[:, link]
    counted = np.minimum(point.rtts[through], protocol.scaling_rtt_limit)
    weights = point.equilibrium.rates[through] if mean_rtt == "packets" else None
    return float(counted.max() if protocol.scaling_rtt == "max" else np.average(counted, weights=weights))


def _note_mean(point: _OperatingPoint, link: int, d: float) -> list[tuple[float, str]]:
    """Return a note, after its weight, if routers measure another mean RTT: that over packets."""
    protocol = point.protocol
    if protocol.scaling_rtt != "mean" or protocol.rtt_weights != "rates":
        return []
    through = point.network.incidence[:, link]
    counted = np.minimum(point.rtts[through], protocol.scaling_rtt_limit)
    by_packet = float(np.average(counted, weights=point.equilibrium.rates[through]))
    if not abs(by_packet - d) > _ALIKE * d:
        return []
    note = (
        f"d is the mean RTT over flows, {d:.4g} s at link {link}; over packets, as routers measure it, "
        f"it is {by_packet:.4g} s (mean_rtt='packets')"
    )
    return [(abs(log(by_packet / d)), note)]


def _router_supply(point: _OperatingPoint, link: int, d: float) -> dict[str, Any]:
    """Return the values of all arguments that a law of the router of a link may take."""
    rates, through, bottlenecked = point.equilibrium.rates, point.network.incidence[:, link], point.receives[:, link]
    y, C = float(rates[through].sum()), float(point.network.capacities[link])
    if abs(y - C) < 1e-12 * C:  # the last bit must not decide on which side of a switch the link is
        y = C
    return {
        "R": float(point.equilibrium.fair_rate[link]),
        "y": y,
        "y_prev": y,
        "u": float(rates[through & ~bottlenecked].sum()),
        "N": float(bottlenecked.sum()),
        "N_all": float(through.sum()),
        "q": float(point.delays.waits[link]) * C,
        "d": d,
        "T": float(point.intervals[link]),
        "C": C,
        "x": float(rates[bottlenecked][0]),
        "p": point.parameters,
    }


def _describe_move(link: int, R: float, supply: dict[str, Any]) -> str:
    """Return the move of a router that is not at equilibrium in words; `R`: its state before."""
    return (
        f"the router of link {link} would move from {R:g} to {supply['R']:g}, with arrivals of {supply['y']:g} of "
        f"{supply['C']:g} bit/s"
    )


def _needs_states_of_flows(
    point: _OperatingPoint, routers: _RouterDerivatives, source: dict[str, NDArray[np.float64]]
) -> bool:
    """Return whether the arrivals of a link cannot be added up over its flows."""
    router = routers.router
    return (
        point.protocol.combine == "sum"
        or routers.announce is not None
        or not {"x_rtt", "D"}.isdisjoint(point.source_arguments)
        or bool(router["u"].any() or (np.abs(router["x"] * source["R"][0]) > _AT_REST).any())
    )


def _paths(point: _OperatingPoint, row: dict[int, int]) -> list[tuple[int, int, float, int]]:
    """Return the paths from announcements to arrivals: see `Linearization.paths`."""
    delays = point.delays
    return [
        (
            row[link],
            row[int(b)],
            float(delays.backward[i, b] + delays.forward[i, link] if link != b else delays.around[i, b]),
            i,
        )
        for i, b in enumerate(point.equilibrium.bottleneck)
        for link in point.network.flows[i].route
        if link in row
    ]


def _note_assignment(
    operating: _OperatingPoint, announcing: dict[int, tuple[Callable[..., float], dict[str, Any]]]
) -> list[str]:
    """Return notes on flows that cross several bottleneck links: would they choose the assigned link at this point?"""
    protocol, network, point = operating.protocol, operating.network, operating.equilibrium
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


def _source_slopes(point: _OperatingPoint, received: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the derivatives of the source law for every flow; equal flows are differentiated once."""
    protocol, network, p, wanted = point.protocol, point.network, point.parameters, point.source_arguments
    rates, interval = point.equilibrium.rates, float(point.intervals[0])
    names = [name for name in _SOURCE if name in wanted]
    rows: dict[tuple[float, ...], int] = {}
    slopes: list[list[float]] = []
    row_of_flow = np.zeros(len(rates), dtype=np.int64)
    for flow, (x, R, D) in enumerate(zip(rates.tolist(), received.tolist(), point.rtts.tolist(), strict=True)):
        key = (x, R, D) if "D" in wanted else (x, R)
        if key not in rows:
            supply: dict[str, Any] = {"x": x, "x_rtt": x, "R": R, "R_prev": R, "D": D, "T": interval, "p": p}
            at = {name: supply[name] for name in wanted}
            next_rate = value_of(protocol.source_law, at, type(protocol).__name__, "source_law")
            if abs(next_rate - x) > _AT_REST * x:
                raise LinearizationError(
                    f"no equilibrium: {_describe_drift(network, point.equilibrium, flow, x, next_rate)}"
                )
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
