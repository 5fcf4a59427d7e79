"""Closes the laws of a protocol over a network: which delays act where, and the exact linear model around equilibrium.

The laws are differentiated by jets, never by hand, so a changed law changes every model at once. For router l with
state R_l, arrivals y_l and queue q_l, and flows i that follow the link b_i:

    continuous   T R_l' = R_R R_l(t) - R_l(t) + R_y y_l(t) + R_{y_prev} y_l(t - T) + R_q q_l(t)
                 T y_l' = (x_x - 1) y_l(t - T) + sum_i [x_R R_{b_i}(t - D_il) + x_{R_prev} R_{b_i}(t - T - D_il)]
                 q_l' = y_l
    discrete     the recurrences of the laws with D_il rounded up to steps of T
    hybrid       a router that averages over its interval, steps at its tick and holds: every flow's rate is a staircase
                 that reaches link l after D_il, so that an interval of l sees two of its steps in proportion

Subscripts are derivatives at the equilibrium; D_il is the delay from b_i over the source of flow i to link l (the RTT
where l = b_i). A source without memory (x_x = 0) has y_l = sum_i x_R R_{b_i}(t - D_il).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.models.base import Equilibrium, Protocol
from ecc.models.equilibria import check_assignment
from ecc.models.jet import derivatives
from ecc.network import Network

__all__ = ["Linearization", "law_arguments", "linearize", "linearize_laws", "steps_of"]

_TIMES = ("continuous", "discrete", "hybrid")


def law_arguments(law: Any) -> tuple[str, ...]:
    """Return the names of a law's arguments: what the engine has to supply.

    Parameters
        law : router or source law.
    """
    return tuple(signature(law).parameters)


def steps_of(delay: float, interval: float) -> int:
    """Return ceil(delay / interval), at least 1; within 1e-9 steps of a multiple it is that multiple.

    Feedback cannot act within the step that computes it, so a delay of zero is one step (THESIS Theorems 5, 11).

    Parameters
        delay : float, s, >= 0. interval : float, s, > 0.
    """
    return max(1, ceil(delay / interval - 1e-9))


@dataclass(frozen=True)
class Linearization:
    """First derivatives of the laws at an equilibrium, and the delays between the links that flows follow.

    `links`: indices of the K links that some flow follows; the rows of everything below.
    `router`: name of argument (R, y, y_prev, q) -> shape (K,), derivative of the router law.
    `source`: name (x, R, R_prev) -> derivative of the source law (the same for all flows).
    `paths`: (l, b, delay [s], flow): flow follows links[b] and crosses links[l], `delay` after links[b] spoke.
    """

    links: NDArray[np.int64]
    router: dict[str, NDArray[np.float64]]
    source: dict[str, float]
    paths: list[tuple[int, int, float, int]]
    equilibrium: Equilibrium


def linearize_laws(
    protocol: Protocol,
    network: Network,
    interval: float,
    assignment: ArrayLike | None = None,
    mean_rtt: ArrayLike | None = None,
    discrete: bool = False,
) -> Linearization:
    """Return the derivatives of the laws at their equilibrium on a network.

    Parameters
        protocol : Protocol. network : Network. interval : float, s, the T of the laws.
        assignment : shape (n_flows,), link each flow follows; default: that of the equilibrium.
        mean_rtt : shape (n_links,), s, what routers take for the RTT d; default: over the flows that cross the link.
        discrete : round RTTs up to whole intervals before they are averaged.
    Returns
        Linearization.
    Raises
        LinearizationError: no equilibrium, a tied law, or a zero RTT.
    """
    links_of = None if assignment is None else check_assignment(network, np.asarray(assignment))
    point = protocol.equilibrium(network, links_of)
    links = np.unique(point.bottleneck)
    p = protocol.namespace()
    rtts = network.rtts
    if discrete:
        rtts = interval * np.array([steps_of(rtt, interval) for rtt in rtts])
    wanted = law_arguments(protocol.router_law)
    router: dict[str, list[float]] = {name: [] for name in ("R", "y", "y_prev", "q")}
    for link in links:
        through = network.incidence[:, link]
        if mean_rtt is not None:
            d = float(np.asarray(mean_rtt, dtype=float)[link])
        else:
            d = float(rtts[through].max() if protocol.scaling_rtt == "max" else rtts[through].mean())
        if not d > 0.0:
            raise LinearizationError(f"the router law divides by the RTT, which is {d!r} s (link {int(link)})")
        y = float(point.rates[through].sum())
        supply = {
            "R": float(point.fair_rate[link]), "y": y, "y_prev": y, "q": 0.0, "d": d, "T": interval,
            "C": float(network.capacities[link]), "p": p,
        }  # fmt: skip
        at = {name: supply[name] for name in wanted}
        for name, column in router.items():
            column.append(derivatives(protocol.router_law, at, name)[1] if name in wanted else 0.0)
    # The last bit of the equilibrium must not make an integrator drift: (R_R - 1)/T would be a pole off the origin.
    router["R"] = [1.0 if abs(slope - 1.0) < 1e-14 else slope for slope in router["R"]]
    slopes = [_source_slopes(protocol, float(rate), p) for rate in point.fair_rate[links]]
    if any(slope != slopes[0] for slope in slopes):
        raise LinearizationError("the source law has different derivatives at different rates")
    forward, backward = network.forward_delays, network.backward_delays
    row = {int(link): k for k, link in enumerate(links)}
    paths = [
        (row[link], row[int(b)], float(backward[i, b] + forward[i, link]) if link != b else float(network.rtts[i]), i)
        for i, b in enumerate(point.bottleneck)
        for link in network.flows[i].route
        if link in row
    ]
    return Linearization(links, {k: np.array(v) for k, v in router.items()}, slopes[0], paths, point)


def _source_slopes(protocol: Protocol, rate: float, p: Any) -> dict[str, float]:
    supply = {"x": rate, "R": rate, "R_prev": rate, "p": p}
    wanted = law_arguments(protocol.source_law)
    at = {name: supply[name] for name in wanted}
    return {
        name: derivatives(protocol.source_law, at, name)[1] if name in wanted else 0.0 for name in ("x", "R", "R_prev")
    }


def linearize(
    protocol: Protocol,
    network: Network,
    time: str = "continuous",
    assignment: Sequence[int] | NDArray[np.int64] | None = None,
    approximation: str | None = None,
    mean_rtt: ArrayLike | None = None,
    phases: ArrayLike | None = None,
) -> DelaySystem | SampledSystem:
    """Return the exact linear model of a protocol around its equilibrium on a network.

    Continuous QI-RCP is THESIS (4.20), continuous PIQI-RCP (4.60) with its router, discrete both (4.42) and (4.85)
    unreduced. RCP with its queue term gets the queue as a free integrator: a verdict on that model, not on the
    protocol, whose queue cannot be negative.

    Parameters
        protocol : Protocol.
        network : Network.
        time : "continuous" (DelaySystem, s), "discrete" (SampledSystem; one step an interval, delays rounded up) or
            "hybrid" (SampledSystem; sampled routers on the continuous path, as packets see them).
        assignment : shape (n_flows,), the link each flow follows; default: the bottleneck at the equilibrium.
        approximation : continuous only, one of the protocol's published reductions (PIQI-RCP: "4.64", "4.75").
        mean_rtt : shape (n_links,), s, what routers take for the RTT; default: the mean (or maximum) over their flows.
        phases : hybrid only, shape (n_links,), in [0, 1): where in the interval each router ticks; default all 0.
    Returns
        DelaySystem or SampledSystem; its state holds the followed links' fair rates, then aggregates y, then queues.
    Raises
        ValueError: an unknown time or approximation, a variant without a linear model.
        LinearizationError: no equilibrium, or a law that switches there.
    Example
        >>> linearize(QIRCP(alpha=1.5), Network.dumbbell("1 Gb/s", [0.1])).is_stable
        True
    """
    if time not in _TIMES:
        raise ValueError(f"time must be one of {', '.join(map(repr, _TIMES))}, got {time!r}")
    if approximation is not None and (time != "continuous" or approximation not in protocol.reductions):
        names = ", ".join(map(repr, protocol.reductions)) or "none"
        raise ValueError(f"approximation must be None or one of {names} (continuous time), got {approximation!r}")
    if phases is not None and time != "hybrid":
        raise ValueError(f"phases belong to time='hybrid', got time={time!r}")
    if protocol.linear_refusal is not None:
        raise ValueError(protocol.linear_refusal)
    T = float(protocol.params()["interval"])
    laws = linearize_laws(protocol, network, T, assignment, mean_rtt, discrete=time == "discrete")
    if time == "continuous":
        return _continuous(laws, T, protocol.reductions.get(approximation or "", "exact"))
    offsets = np.zeros(network.n_links) if phases is None else np.asarray(phases, dtype=float)
    if offsets.shape != (network.n_links,) or not np.all((offsets >= 0.0) & (offsets < 1.0)):
        raise ValueError(f"phases must be {network.n_links} numbers in [0, 1), got {phases!r}")
    return _sampled(laws, T, offsets[laws.links] if time == "hybrid" else None)


class _Terms:
    """Coefficients a[row, column] at a delay, added up."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.at: dict[Any, NDArray[np.float64]] = defaultdict(lambda: np.zeros((size, size)))

    def add(self, delay: Any, row: int, column: int, value: float) -> None:
        if value != 0.0:
            self.at[delay][row, column] += value

    def without(self, rows: range, columns: range) -> _Terms:
        """The same terms with rows no longer listening to columns: the loop cut at the routers."""
        cut = _Terms(self.size)
        for delay, matrix in self.at.items():
            kept = matrix.copy()
            kept[rows.start : rows.stop, columns.start : columns.stop] = 0.0
            cut.at[delay] = kept
        return cut


def _layout(laws: Linearization) -> tuple[int, bool, int]:
    """Number of links K, whether queues are states, size of the state [R (K), y (K), q (K)]."""
    count = len(laws.links)
    queues = bool(np.any(laws.router["q"] != 0.0))
    return count, queues, count * (3 if queues else 2)


def _continuous(laws: Linearization, T: float, lag: str) -> DelaySystem:
    """`lag` says what v(t - T) is: "exact", "taylor" (v - T v', a neutral system) or "static" (v, sources at rest)."""
    count, queues, _ = _layout(laws)
    source = dict(laws.source)
    if lag == "static":
        source = {"x": 0.0, "R": (source["R"] + source["R_prev"]) / (1.0 - source["x"]), "R_prev": 0.0}
    memory = source["x"] != 0.0
    y_at = count
    q_at = count * (2 if memory else 1)
    size = q_at + (count if queues else 0)
    terms, slopes = _Terms(size), _Terms(size)

    def delayed(delay: float, row: int, column: int, value: float) -> None:
        """Add value * v(t - T - delay)."""
        if lag == "exact":
            terms.add(delay + T, row, column, value)
        else:
            terms.add(delay, row, column, value)
            if lag == "taylor":
                slopes.add(delay, row, column, -T * value)

    def arrivals(link: int, row: int, lagged: bool, gain: float) -> None:
        """Add gain * y_link(t) or gain * y_link(t - T)."""
        if memory:
            (delayed if lagged else terms.add)(0.0, row, y_at + link, gain)
            return
        for here, b, delay, _ in laws.paths:
            if here == link:
                (delayed if lagged else terms.add)(delay, row, b, gain * source["R"])
                if source["R_prev"]:
                    delayed(delay + (T if lagged else 0.0), row, b, gain * source["R_prev"])

    for k in range(count):
        terms.add(0.0, k, k, (laws.router["R"][k] - 1.0) / T)
        if queues:
            terms.add(0.0, k, q_at + k, laws.router["q"][k] / T)
            arrivals(k, q_at + k, False, 1.0)
        if memory:
            delayed(0.0, y_at + k, y_at + k, (source["x"] - 1.0) / T)
    if memory:
        for link, b, delay, _ in laws.paths:
            terms.add(delay, y_at + link, b, source["R"] / T)
            if source["R_prev"]:
                delayed(delay, y_at + link, b, source["R_prev"] / T)
    opened, opened_slopes = _copy(terms), _copy(slopes)
    for k in range(count):
        arrivals(k, k, False, laws.router["y"][k] / T)
        if laws.router["y_prev"][k]:
            arrivals(k, k, True, laws.router["y_prev"][k] / T)
    if queues:
        opened = opened.without(range(count), range(q_at, size))
    return _delay_system(terms, slopes, _delay_system(opened, opened_slopes, None))


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


def _sampled(laws: Linearization, T: float, phases: NDArray[np.float64] | None) -> SampledSystem:
    """State (R, y[, q]) at a tick; `phases` None: delays in whole steps (the papers' recurrence)."""
    count, queues, size = _layout(laws)
    terms = _Terms(size)  # key m: coefficient of x[n - m] in x[n]
    source = laws.source
    for k in range(count):
        y = count + k
        terms.add(1, k, k, laws.router["R"][k])
        terms.add(1, y, y, source["x"])
        terms.add(0, k, y, laws.router["y"][k])
        terms.add(1, k, y, laws.router["y_prev"][k])
        if queues:
            q = 2 * count + k
            terms.add(0, k, q, laws.router["q"][k])
            terms.add(1, q, q, 1.0)
            terms.add(0, q, y, T)
    for link, b, delay, _ in laws.paths:
        if phases is None:
            steps = [(steps_of(delay, T), 1.0)]
        else:
            steps = _staircase(delay / T + phases[b] - phases[link])
        for m, share in steps:
            terms.add(m, count + link, b, share * source["R"])
            terms.add(m + 1, count + link, b, share * source["R_prev"])
    cut = terms.without(range(count), range(count, size))
    return _sampled_system(terms, T, _sampled_system(cut, T, None))


def _staircase(delay: float) -> list[tuple[int, float]]:
    """(m, share): an interval [n - 1, n] of the listener sees the speaker's value of n - m for that share of it."""
    whole = floor(delay + 1e-9)
    part = max(0.0, delay - whole)
    return [(whole + 1, 1.0 - part), (whole + 2, part)]


def _sampled_system(terms: _Terms, T: float, opened: SampledSystem | None) -> SampledSystem:
    """Turn x[n] = sum_m B_m x[n - m], B_0 nilpotent, into x[n + 1] = sum_k A_k x[n - k]."""
    now = terms.at.get(0, np.zeros((terms.size, terms.size)))
    solve = np.linalg.inv(np.eye(terms.size) - now)
    past = {m: solve @ matrix for m, matrix in terms.at.items() if m > 0}
    return SampledSystem(list(past.values()), [m - 1 for m in past], dt=T, opened=opened)
