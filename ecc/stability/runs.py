"""Stability measured in runs that start from a perturbed equilibrium: the growth or decay of the deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, given, shown
from ecc._support.display import Displayed
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import ProtocolAssignment, read_protocol, with_parameter
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.engines import ENGINES, simulate
from ecc.errors import ConvergenceError
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.stability.gains import parameter_of
from ecc.stability.run_classification import StabilityClassification, classify_stability

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["MeasuredBoundary", "PerturbedRun", "measured_boundary", "perturbed_run"]

_OPTIONS = {"time": "fluid", "rtol": "fluid", "clocking": "fluid", "slow": "live", "attempts": "live"}
"""The engine to which each option applies."""
_FIXED = ("sample", "start")


@dataclass(frozen=True, repr=False)
class PerturbedRun(Displayed):
    """A run from a perturbed equilibrium: its `stability`; the `deviation` of arrivals at `link` over `time` [s]."""

    stability: StabilityClassification
    time: NDArray[np.float64]
    deviation: NDArray[np.float64]
    link: int
    trajectory: Trajectory

    def plot(self) -> go.Figure:
        """Return a Plotly figure of the deviation from equilibrium, with the amplitude fitted in each time span."""
        from ecc.plot import boundary_figure

        return boundary_figure(
            self.time,
            {"deviation": self.deviation},
            log_x=False,
            x_title="time [s]",
            points={"amplitude of the windows that end here": (self.stability.time, self.stability.amplitude, None)},
            y_title="deviation of arrivals, share of the equilibrium",
            title=f"Perturbed run: {self.stability.status}",
        )


@check_arguments
def perturbed_run(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    period: float,
    periods: float = 100.0,
    engine: str = "packet",
    perturbation: float = 0.02,
    seed: int = 1,
    floor: float = 2e-3,
    ceiling: float = 0.06,
    assignment: Any = None,
    **options: Any,
) -> PerturbedRun:
    """Run from the equilibrium with all rates changed by `perturbation`, and fit the growth of the deviation.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
        One protocol for all, or hosts over queue disciplines, {"flows": ..., "links": ...}.
    network : Network
    period : float, s
        Period of the expected oscillation: determines samples (period/24), windows (two periods) and the horizon.
    periods : float, optional
        Length of the run, in periods.
    engine : str, optional
        "packet", "fluid" or "live".
    perturbation : float, optional
        Relative disturbance of all rates, not 0, for example 0.02.
    seed : int, optional
        Seed of packet runs.
    floor, ceiling : float, optional
        Amplitudes between which the envelope is fitted (the noise of packets; no longer small).
    assignment : object, optional
        Fixed bottleneck assignment, as for Scenario.
    **options : optional
        Options of the engine, as in `ecc.simulate`: `record`, or for example `time`, `rtol` and `clocking` of fluid
        runs, `slow` and `attempts` of live runs, or `progress` of all engines. None: the default of the engine.

    Returns
    -------
    PerturbedRun

    Raises
    ------
    ValueError
        An unknown engine, or an option of another engine.
    EccError
        The run ended before its second sample, or is a live run that is void or cannot be made on this machine.
    KeyboardInterrupt
        The run was interrupted with Ctrl-C.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.1])
    >>> run = perturbed_run(ecc.models.QIRCP(alpha=1.0), net, period=0.4, periods=30.0, engine="fluid", floor=2e-4)
    >>> run.stability.status
    'stable'
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {shown(engine)}")
    chosen = given(**options)
    for name in chosen:
        if name in _OPTIONS and engine != _OPTIONS[name]:
            raise ValueError(f"{name} must be given to {_OPTIONS[name]} runs only, got engine {engine!r}")
        if name in _FIXED:
            raise TypeError(f"{name} is set by perturbed_run, got {shown(chosen[name])}")
    scenario = Scenario(network, read_protocol(protocol), periods * period, seed=seed, assignment=assignment)
    run = simulate(scenario, engine, sample=period / 24.0, start="equilibrium", perturbation=perturbation, **chosen)
    if run.stopped == "interrupted":
        raise KeyboardInterrupt
    run.raise_if_incomplete(samples=2)
    rates, link = _observed(scenario)
    level = float(rates[network.incidence[:, link]].sum())
    times = run.data["time"].to_numpy()
    deviation = run.arrival.to_numpy()[:, link] / level - 1.0
    release = float(run.stats.get("warmup_end", 0.0))
    stability = classify_stability(
        times, deviation, period, release + 2.0 * period, floor, ceiling, (release, abs(perturbation))
    )
    return PerturbedRun(stability, times, deviation, link, run)


def _observed(scenario: Scenario) -> tuple[NDArray[np.float64], int]:
    """Return the rates at the equilibrium, and the link with the most bottlenecked flows or the highest load."""
    network, protocol = scenario.network, scenario.protocol
    if isinstance(protocol, Protocol):
        point = equilibrium_of(protocol, network, scenario.assigned)
        if (point.bottleneck >= 0).all():
            return point.rates, int(np.bincount(point.bottleneck).argmax())
        rates = point.rates
    else:
        rates = equilibrium_of_marks(scenario.deployment, network).rates
    return rates, int((rates @ network.incidence / network.capacities).argmax())


@dataclass(frozen=True, repr=False)
class MeasuredBoundary(Displayed):
    """A gain at which the measured growth rate passes through zero.

    `value` with standard error `error`; `gains` and `growth_rates` [1/s] of the runs that bracket it.
    """

    value: float
    error: float
    gains: NDArray[np.float64]
    growth_rates: NDArray[np.float64]
    errors: NDArray[np.float64]
    _units = {"growth_rates": "1/s", "errors": "1/s"}

    def plot(self) -> go.Figure:
        """Return a Plotly figure of the growth rates over the gain, with their standard errors."""
        from ecc.plot import boundary_figure

        order = np.argsort(self.gains)
        return boundary_figure(
            self.gains[order],
            {"growth rate": self.growth_rates[order]},
            log_x=False,
            x_title="gain",
            points={"measured boundary": ([self.value], [0.0], None)},
            y_title="growth rate [1/s]",
            errors={"growth rate": self.errors[order]},
        )


@check_arguments
def measured_boundary(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    parameter: str | None,
    low: float,
    high: float,
    period: float,
    tolerance: float = 0.01,
    max_runs: int = 12,
    run: Callable[[Any, Network, float], PerturbedRun] = perturbed_run,
    *,
    progress: ProgressCallback | None = None,
) -> MeasuredBoundary:
    """Return the stability limit in runs, by bisection on the fitted growth rate and a line through its ends.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
    network : Network
    parameter : str or None
        Name of the gain. None: the protocol's `main_parameter`.
    low, high : floats
        First gains; they are moved apart, by twice their distance or a fifth, until the first is stable and the second
        unstable.
    period : float, s
        Period of the expected oscillation.
    tolerance : float, optional
        Relative width at which bisection ends.
    max_runs : int, optional
        Maximum number of runs.
    run : callable, optional
        Function that makes a run, called as run(protocol, network, period): for example
        `functools.partial(perturbed_run, engine="fluid")`, or a version of it that caches its results.
    progress : callable, optional
        Called with a `Progress` before each run: the gain, as `text`.

    Returns
    -------
    MeasuredBoundary

    Raises
    ------
    ValueError
        The protocol does not have the gain, the range is empty, or the tolerance is out of range.
    ConvergenceError
        No bracket after max_runs runs, or not two fits near the limit; `last` holds (gain, growth rate) of all runs.

    Examples
    --------
    >>> from functools import partial
    >>> run = partial(ecc.stability.perturbed_run, engine="fluid", periods=60.0, floor=2e-4)
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.1])
    >>> boundary = measured_boundary(ecc.models.QIRCP(), net, None, 1.4, 1.7, period=0.4, run=run)
    >>> round(boundary.value, 3)  # pi/2
    1.571
    """
    protocol = read_protocol(protocol)
    parameter = parameter_of(protocol, parameter)
    if not (0.0 < low < high and 0.0 < tolerance < 1.0):
        raise ValueError(f"low must be > 0 and < high, tolerance > 0 and < 1, got {low:g}, {high:g}, {tolerance:g}")
    results: dict[float, StabilityClassification] = {}

    def rate(gain: float) -> float:
        if len(results) >= max_runs:
            tried = [(g, v.growth_rate) for g, v in sorted(results.items())]
            raise ConvergenceError(f"no stability limit found for {parameter} in {tried}", tried)
        if progress is not None:
            progress(Step(f"{parameter} = {gain:.6g}, run {len(results) + 1}"))
        results[gain] = run(with_parameter(protocol, parameter, gain), network, period).stability
        return results[gain].growth_rate

    stable, unstable = float(low), float(high)
    while not rate(stable) < 0.0:
        stable, unstable = max(0.8 * stable, stable - 2.0 * (unstable - stable)), stable
    if unstable not in results:
        while not rate(unstable) > 0.0:
            stable, unstable = unstable, min(1.25 * unstable, unstable + 2.0 * (unstable - stable))
    while unstable - stable > tolerance * unstable and len(results) < max_runs:
        middle = 0.5 * (stable + unstable)
        if rate(middle) < 0.0:
            stable = middle
        else:
            unstable = middle
    gains = np.array(sorted(results))
    rates = np.array([results[g].growth_rate for g in gains])
    errors = np.array([results[g].error for g in gains])
    near = np.flatnonzero((gains >= 0.97 * stable) & (gains <= 1.03 * unstable) & np.isfinite(rates + errors))
    if len(near) < 2:
        tried = list(zip(gains.tolist(), rates.tolist(), strict=True))
        raise ConvergenceError(
            f"fewer than two growth rates of {parameter} near its limit are fitted, others are bounds: {tried}", tried
        )
    value, error = _zero(gains[near], rates[near], errors[near])
    return MeasuredBoundary(value, error, gains, rates, errors)


def _zero(gains: NDArray[np.float64], rates: NDArray[np.float64], errors: NDArray[np.float64]) -> tuple[float, float]:
    """Return the zero of the least-squares line through (gain, rate), and its standard error."""
    weights = 1.0 / np.maximum(errors, 1e-12 + 1e-3 * np.abs(rates).max())
    (slope, offset), covariance = np.polyfit(gains, rates, 1, w=weights, cov="unscaled")
    value = -offset / slope
    variance = (covariance[1, 1] + 2 * value * covariance[0, 1] + value**2 * covariance[0, 0]) / slope**2
    return float(value), float(np.sqrt(max(variance, 0.0)))
