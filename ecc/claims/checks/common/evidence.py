"""Evidence shared by the checks of many claims: a bound compared with the exact boundaries and with runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import inf, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import plot
from ecc.claims.ledger import Measurement, Picture
from ecc.contract.equilibrium import Bound
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError
from ecc.linear import StabilityLimit
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network
from ecc.stability import (
    MeasuredBoundary,
    PerturbedRun,
    StabilityClassification,
    critical_gain,
    measured_boundary,
    perturbed_run,
)

__all__ = [
    "BRACKET",
    "TIMES",
    "Sweep",
    "Tightness",
    "boundary_near",
    "critical",
    "exact_boundaries",
    "measured",
    "nyquist_picture",
    "perturbed",
    "random_distributions",
    "run_evidence",
    "sweep",
]

TIMES = ("continuous", "discrete", "hybrid")
RTTS = np.array([0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0])
"""RTTs over which bounds are compared [s]."""
CAPACITY = "1 Gb/s"
ROOM = {"gamma": 0.8}
"""Runs that measure stability leave a fifth of the link free, so that a small oscillation meets no queue."""

# Results needed by several claims are computed once per process; claims of one `group` are checked in one process.
_KEPT = 256
_NEAR = 8.0  # the search for an exact boundary first covers gains up to this multiple of the bound
perturbed = lru_cache(_KEPT)(perturbed_run)
measured = lru_cache(_KEPT)(partial(measured_boundary, run=partial(perturbed, engine="packet")))
"""Boundary of packet runs; runs in the cache are not repeated."""
BRACKET = (0.98, 1.02)
"""Gains of runs, relative to the hybrid boundary; the boundary of packet runs is bisected between them."""
critical = lru_cache(_KEPT)(critical_gain)

RUN_ASSUMPTIONS = (
    "Runs that judge stability start at the equilibrium with all rates 2 % high, on 0.1 to 1 Gb/s with 1000-byte "
    "packets "
    "and gamma = 0.8, so that an oscillation meets neither a queue nor the capacity; the linear loop depends on "
    "none of these.",
)


def run_network(rtts: Sequence[float], period: float) -> Network:
    """Return the dumbbell for stability runs: fast enough for fine packet granularity, slow enough to simulate.

    Parameters
    ----------
    rtts : sequence of float
        RTTs of the flows, s.
    period : float, s
        Period of the oscillation; runs last a hundred periods.
    """
    return Network.dumbbell(float(np.clip(4e8 / period, 1e8, 1e9)), rtts=list(rtts))


def exact_boundaries(
    protocol: Protocol, network: Network, times: Iterable[str] = TIMES, **options: Any
) -> dict[str, StabilityLimit]:
    """Return the critical alpha of each linear model, certified from both sides.

    Parameters
    ----------
    protocol, network : Protocol, Network
        Protocol and network of the loop.
    times : iterable of str, optional
        Models.
    **options : object
        Further arguments of linearize.
    """
    search = critical_gain if options else critical
    return {time: search(protocol, network, "alpha", time, certify=True, **options) for time in times}


def boundary_near(protocol: Protocol, network: Network, time: str, bound: float, **options: Any) -> float:
    """Return the critical alpha; gains up to eight times a bound are searched first, which compares fewer models.

    Parameters
    ----------
    protocol, network : Protocol, Network
        Protocol and network of the loop.
    time : str
        Model.
    bound : float
        Estimate of the critical alpha.
    **options : object
        Further arguments of linearize.
    """
    search = critical_gain if options else critical
    near = search(protocol, network, "alpha", time, maximum=_NEAR * bound, **options).value
    return near if near < inf else search(protocol, network, "alpha", time, **options).value


def period_of(loss: StabilityLimit, time: str, interval: float) -> float:
    """Return the period of the oscillation at a boundary, s.

    Parameters
    ----------
    loss : StabilityLimit
    time : str
        Model of the boundary.
    interval : float, s
        Step of sampled models.
    """
    return 2.0 * pi / loss.frequency * (1.0 if time == "continuous" else interval)


@dataclass(frozen=True)
class RunEvidence:
    """Runs around a bound: the measured boundary (None if none was found, for the given `reason`) and each verdict."""

    measured: MeasuredBoundary | None
    reason: str
    runs: dict[tuple[str, str], PerturbedRun]  # (engine, label) -> run
    measurements: list[Measurement]


def run_evidence(
    protocol: Protocol, network: Network, bound: Bound, exact: dict[str, StabilityLimit], boundary: bool = True
) -> RunEvidence:
    """Return verdicts of fluid and packet runs 2 % inside and outside a bound and the hybrid boundary.

    Parameters
    ----------
    protocol, network : Protocol, Network
        Protocol and network of the loop.
    bound : Bound
        The published bound.
    exact : dict
        Boundary of each model, with the key "hybrid".
    boundary : bool, optional
        Also find the boundary of packet runs by bisection.
    """
    hybrid = exact["hybrid"]
    interval = protocol.params()["interval"]
    period = period_of(hybrid, "hybrid", interval)
    roomy, network = replace(protocol, **ROOM), run_network(network.rtts.tolist(), period)
    runs: dict[tuple[str, str], PerturbedRun] = {}
    measurements: list[Measurement] = []
    for name, edge in ((bound.theorem.removeprefix("THESIS "), bound.value), ("hybrid boundary", hybrid.value)):
        for side, factor in zip(("2 % below", "2 % above"), BRACKET, strict=True):
            for engine in ("fluid", "packet"):
                label = f"{side} {name}"
                run = perturbed(replace(roomy, **{"alpha": edge * factor}), network, period, engine=engine)
                runs[engine, label] = run
                measurements.append(
                    Measurement(
                        f"{engine} run {label}",
                        run.stability.status,
                        note=f"alpha = {edge * factor:.4f}, {_growth(run.stability)}",
                        met=_as_stated(run.stability.status) if edge == bound.value and factor < 1.0 else None,
                    )
                )
    boundary_run, reason = None, ""
    if boundary:
        try:
            boundary_run = measured(roomy, network, "alpha", *(hybrid.value * share for share in BRACKET), period)
        except ConvergenceError as error:
            reason = str(error)
    if boundary_run is not None:
        off = boundary_run.value / hybrid.value - 1.0
        note = f"+- {boundary_run.error:.1e}; hybrid model {off:+.2%}; {len(boundary_run.gains)} runs"
        measurements.append(Measurement("boundary of packet runs", boundary_run.value, note=note))
    return RunEvidence(boundary_run, reason, runs, measurements)


def _as_stated(status: str) -> bool | None:
    """Return whether a run is stable, as the bound states for this side; None if the run is undecided."""
    return {"stable": True, "unstable": False}.get(status)


def _growth(verdict: StabilityClassification) -> str:
    if np.isfinite(verdict.error):
        return f"growth {verdict.growth_rate:+.4f} +- {verdict.error:.4f} 1/s"
    return f"growth beyond {verdict.growth_rate:+.2f} 1/s"


def envelope_picture(evidence: RunEvidence, engine: str = "packet") -> Picture:
    """Return the envelopes of the runs on both sides of each boundary.

    Parameters
    ----------
    evidence : RunEvidence
    engine : str, optional
        Engine of the runs to draw, for example "fluid".
    """
    curves, fits = {}, {}
    for (name, label), run in evidence.runs.items():
        if name == engine and len(run.stability.time):
            v = run.stability
            curves[label] = (v.time, v.amplitude)
            if np.isfinite(v.growth_rate):
                level = np.exp(np.log(v.amplitude).mean() + v.growth_rate * (v.time - v.time.mean()))
                fits[label] = (v.time, level)
    return Picture.of(
        plot.envelope_figure(curves, fits, y_title="deviation, as a share of the equilibrium"),
        f"Growth and decay in {engine} runs",
        "Amplitude of the arrival rate's deviation from the equilibrium over windows of two periods, with the fitted "
        "exponentials that decide the verdicts.",
    )


@dataclass(frozen=True)
class Sweep:
    """Exact critical alpha of each model and the published bound, for a grid of equal RTTs."""

    rtts: NDArray[np.float64]
    exact: dict[str, NDArray[np.float64]]
    bounds: dict[str, NDArray[np.float64]]  # by model time


def sweep(protocol: Protocol, rtts: NDArray[np.float64] = RTTS) -> Sweep:
    """Return exact boundaries and bounds for two flows of equal RTT, as functions of the RTT.

    Parameters
    ----------
    protocol : Protocol
        Protocol with bounds.
    rtts : ndarray, shape (n,), s, optional
    """
    exact: dict[str, list[float]] = {time: [] for time in TIMES}
    bounds: dict[str, list[float]] = {}
    for rtt in rtts:
        network = Network.dumbbell(CAPACITY, rtts=[float(rtt)] * 2)
        published = protocol.published_bounds(network)
        for time in TIMES:
            exact[time].append(boundary_near(protocol, network, time, max(bound.value for bound in published)))
        for bound in published:
            bounds.setdefault(bound.time, []).append(bound.value)
    return Sweep(rtts, {k: np.array(v) for k, v in exact.items()}, {k: np.array(v) for k, v in bounds.items()})


def sweep_picture(boundaries: Sweep, title: str, measured: Sequence[tuple[float, MeasuredBoundary]] = ()) -> Picture:
    """Return the boundaries as functions of the RTT, with packet measurements as points.

    Parameters
    ----------
    boundaries : Sweep
        Exact boundaries and bounds.
    title : str
    measured : sequence of tuple, optional
        (RTT [s], boundary) of packet runs.
    """
    points = None
    if measured:
        points = {
            "packet runs": (
                [rtt for rtt, _ in measured],
                [m.value for _, m in measured],
                [m.error for _, m in measured],
            )
        }
    figure = plot.boundary_figure(
        boundaries.rtts,
        {f"exact, {time}": values for time, values in boundaries.exact.items()},
        {f"published, {time}": values for time, values in boundaries.bounds.items()},
        points,
        x_title="RTT of both flows [s]",
        y_title="critical α",
        title=title,
    )
    return Picture.of(
        figure,
        title,
        "The alpha at which two flows of equal RTT lose stability: exact for each model, the published bounds, "
        "and, if measured, the alpha at which perturbations of packet runs stop decaying.",
    )


def nyquist_picture(protocol: Protocol, network: Network, gains: Sequence[float], time: str) -> Picture:
    """Return Nyquist curves of the open loop for several values of alpha.

    Parameters
    ----------
    protocol, network : Protocol, Network
        Protocol and network of the loop.
    gains : sequence of float
        Values of alpha.
    time : str
        Model.
    """
    curves = {}
    for gain in gains:
        curves[f"α = {gain:.4g}"] = linearize(replace(protocol, **{"alpha": gain}), network, time).nyquist()
    title = f"Nyquist curves, {time} model"
    return Picture.of(
        plot.nyquist_figure(curves, title=title),
        title,
        "Open loop with its gain, delays exact; the loop is stable while the curve leaves -1 outside.",
    )


@dataclass(frozen=True)
class Tightness:
    """Extreme ratios of exact boundary to sufficient bound over RTT distributions; `worst` has the smallest ratio."""

    smallest: float
    largest: float
    worst: tuple[float, ...]
    worst_exact: StabilityLimit
    worst_bound: float
    count: int
    violations: int


def random_distributions(count: int, seed: int = 1, low: float = 0.02, high: float = 4.0) -> list[list[float]]:
    """Return RTT distributions of 2 to 8 flows, drawn between `low` and `high` [s], with narrow and wide spreads.

    Parameters
    ----------
    count : int
    seed : int, optional
    low, high : float, s, optional
    """
    rng = np.random.default_rng(seed)
    distributions = []
    for _ in range(count):
        size = int(rng.integers(2, 9))
        center, spread = rng.uniform(np.log(low), np.log(high)), rng.uniform(0.0, 2.0)
        distributions.append(np.exp(np.clip(rng.normal(center, spread, size), np.log(low), np.log(high))).tolist())
    return distributions


def tightness(
    protocol: Protocol, time: str, rtts: Sequence[Sequence[float]], bound_of: Callable[[Network], float], **options: Any
) -> Tightness:
    """Return the ratios of the exact boundary to a sufficient bound over RTT distributions.

    Parameters
    ----------
    protocol : Protocol
    time : str
        Model.
    rtts : sequence of sequences of float
        RTTs of each network.
    bound_of : callable
        Function that returns the bound for a network.
    **options : object
        Further arguments of linearize.
    """
    ratios, bounds = [], []
    for distribution in rtts:
        network = Network.dumbbell(CAPACITY, rtts=list(distribution))
        bounds.append(bound_of(network))
        ratios.append(boundary_near(protocol, network, time, bounds[-1], **options) / bounds[-1])
    worst = int(np.argmin(ratios))
    network = Network.dumbbell(CAPACITY, rtts=list(rtts[worst]))
    exact = critical_gain(protocol, network, "alpha", time, certify=True, **options)
    return Tightness(
        float(min(ratios)),
        float(max(ratios)),
        tuple(rtts[worst]),
        exact,
        bounds[worst],
        len(ratios),
        int(np.sum(np.array(ratios) < 1.0 - 1e-9)),
    )
