"""Stability limits of linear models compared with fluid and packet runs on both sides of each limit.

For each linear model of a protocol (continuous, discrete, hybrid), `check_boundary` computes the critical gain, runs
the fluid of the same time and packets from a perturbed equilibrium just below and just above it, and fits the growth of
the deviation (`ecc.stability.perturbed_run`). If a run contradicts the model, the limit of that engine is measured by
bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, log, nan, pi
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import as_number
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import ProtocolAssignment, parameter_value, read_protocol, with_parameter
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError, EccError
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.closed_loop import has_granted_windows, linearize
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network
from ecc.stability.gains import critical_gain, parameter_of
from ecc.stability.run_classification import StabilityClassification, classify_stability
from ecc.stability.runs import PerturbedRun, measured_boundary, perturbed_run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_boundary"]

_TIMES = ("continuous", "discrete", "hybrid")
_ENGINES = ("fluid", "packet")
_FLUIDS: Mapping[str, tuple[str, ...]] = {
    "continuous": ("averaged", "continuous"),
    "discrete": ("discrete",),
    "hybrid": ("continuous",),
}
"""Time of a linear model -> times of the fluid with the same clocks; the first that the fluid engine accepts is run."""
_FOLDS: Mapping[str, float] = {"fluid": 5.0, "packet": 3.0}
"""Engine -> a run lasts until the linear model predicts a change of the deviation by this power of e."""
_PERIODS = (12.0, 200.0)  # minimum and maximum length of a run, in periods
_WINDOWS = 8  # minimum number of windows of a fit whose first half may hold faster modes, and is left out
_NEAR = 1e-6  # distance of a critical root from the boundary of stability, relative to its modulus
_FARTHER = 3.5  # runs that contradict a model are repeated up to this multiple of its limit, or down to its inverse
_STEP = 1.5
_SIDES = ("below", "above")


@dataclass(frozen=True)
class RunSettings:
    """Options of all runs of a check.

    `margin`: distance of the runs from the limit. `perturbation`, `seed`, `floor` (by engine), `ceiling`: options of
    `perturbed_run`. `tolerance`, `max_runs`: options of `measured_boundary`. `measures`: whether the limit of an engine
    that contradicts a model is measured. `fluid`: time of the fluid; "": that of the linear model. `max_packets`: runs
    that would send more packets are refused.
    """

    margin: float = 0.1
    seed: int = 1
    perturbation: float = 0.02
    floor: Mapping[str, float] = field(default_factory=lambda: {"fluid": 1e-6, "packet": 2e-3})
    ceiling: float = 0.06
    tolerance: float = 0.02
    max_runs: int = 16
    measures: bool = True
    fluid: str = ""
    max_packets: float = inf

    def runs(self, engine: str) -> dict[str, Any]:
        """Return the options of `perturbed_run` for an engine."""
        return {
            "engine": engine,
            "perturbation": self.perturbation,
            "seed": self.seed,
            "floor": self.floor[engine],
            "ceiling": self.ceiling,
        }


class _Limit(NamedTuple):
    """The stability limit of one linear model: its value, its slowest critical oscillation, rates of growth nearby."""

    value: float
    period: float
    growth: tuple[float, float]


@check_arguments
def check_boundary(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    parameter: str | None = None,
    times: Sequence[str] | None = None,
    engines: Sequence[str] = _ENGINES,
    margin: float = 0.1,
    seed: int = 1,
    progress: ProgressCallback | None = None,
    *,
    options: LinearOptions | None = None,
    **keywords: Unpack[LinearKeywords],
) -> pd.DataFrame:
    """Compare the stability limits of all linear models of a protocol with runs on both sides of each limit.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
        One protocol for all, or hosts over queue disciplines, {"flows": ..., "links": ...}.
    network : Network
        Network on which packets are much smaller than the perturbation: 2 % of the data of an RTT, or more packets.
    parameter : str, optional
        Name of the gain, of hosts and queue disciplines "flows.NAME" or "links.NAME". None: the protocol's
        `main_parameter`.
    times : sequence of str, optional
        Linear models: "continuous", "discrete", "hybrid". None: all models that the protocol declares.
    engines : sequence of str, optional
        "fluid" (of the time of the linear model), "packet", or both.
    margin : float, in (0, 1), optional
        Relative distance of the runs from the limit, for example 0.1: runs at 0.9 and 1.1 times the limit.
    seed : int, optional
        Seed of packet runs.
    progress : callable, optional
        Called with a `Progress` before each run: model, engine and gain, as `text`.
    options : LinearOptions, optional
        Options of the linear models; the assignment and the clocking apply to runs, too.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    DataFrame
        One row for each linear model and engine. Columns: `protocol`, `parameter`; `time`, of the linear model;
        `limit`, its critical gain, inf if stability is not lost (the runs are then at the present gain); `period` [s]
        of the slowest oscillation at the limit; `engine`; `fluid`, the time of the fluid run, "" for packets; for runs
        below and above the limit, `growth_below`, `growth_above` [1/s] of the linear model, `measured_below`,
        `measured_above` [1/s] of the run, `status_below`, `status_above` ("stable", "unstable", "undecided", or "" if
        there is no run); `agrees` (True, False, or NA if undecided); `measured_limit`, of the engine, measured only
        if a run contradicts the model, else nan, and its standard error `error` (0 or inf: runs are unstable, or
        stable, at all gains from a quarter of the limit to four times the limit); `reason`, why a model, a run or a
        measured limit does not exist, else "".

    Raises
    ------
    ValueError
        An unknown time or engine, an empty list of them, a margin out of range, or an unknown parameter.
    KeyboardInterrupt
        A run was interrupted with Ctrl-C.

    Notes
    -----
    A model or a run that is refused has a row with the reason; the other rows are not affected. The fluid of continuous
    models spreads all actions over their intervals, if the fluid engine has this form, that of hybrid models has exact
    ticks. Packets have exact ticks: they contradict a continuous model if its limit differs from the hybrid one.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.1, 0.1])
    >>> table = ecc.stability.check_boundary(ecc.models.QIRCP(), net, times=["continuous"], engines=["fluid"])
    >>> table[["limit", "status_below", "status_above", "agrees"]].round(3).to_numpy().tolist()
    [[1.571, 'stable', 'unstable', True]]
    """
    import pandas as pd

    protocol = read_protocol(protocol)
    chosen = read_options(options, keywords)
    name = parameter_of(protocol, parameter)
    selected = protocol.times if times is None else tuple(times)
    for label, values, allowed in (("times", selected, _TIMES), ("engines", tuple(engines), _ENGINES)):
        if not values or any(value not in allowed for value in values):
            raise ValueError(f"{label} must be among {', '.join(allowed)}, got {shown(list(values))}")
    share = as_number(margin, "margin", positive=True)
    if not share < 1.0:
        raise ValueError(f"margin must be > 0 and < 1, got {share:g}")
    settings = RunSettings(share, seed)
    report = progress or (lambda step: None)
    rows = [
        {"protocol": _name(protocol), "parameter": name, **row}
        for time in selected
        for row in rows_of_model(protocol, network, name, time, tuple(engines), settings, chosen, report)
    ]
    return pd.DataFrame(rows).astype({"agrees": "boolean"})


def _name(protocol: Protocol | ProtocolAssignment) -> str:
    return type(protocol).__name__ if isinstance(protocol, Protocol) else str(protocol)


def rows_of_model(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    name: str,
    time: str,
    engines: Sequence[str],
    settings: RunSettings,
    options: LinearOptions,
    report: ProgressCallback,
    limit: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the row of each engine for the linear model of a time.

    Parameters
    ----------
    protocol : Protocol or ProtocolAssignment
    network : Network
    name : str
        Parameter that is varied.
    time : str
        Time of the linear model.
    engines : sequence of str
        "fluid", "packet" or both.
    settings : RunSettings
    options : LinearOptions
    report : callable
        Called with a `Progress`.
    limit : float, optional
        A value at which the verdict of the model changes; inf: runs at the present value only. None: the critical gain.
    """
    report(Step(f"{time} model: critical {name}"))
    try:
        at = _limit(protocol, network, name, time, settings.margin, options, limit)
    except (ValueError, EccError) as error:
        for engine in engines:
            yield asdict(_Row(time, engine, reason=f"no limit of the {time} model: {error}"))
        return
    for engine in engines:
        runs = _Runs(protocol, network, name, time, engine, settings, options, report)
        yield asdict(_compared(runs, at))


@dataclass
class _Row:
    """One row of the table: a linear model and an engine."""

    time: str
    engine: str
    limit: float = nan
    period: float = nan
    fluid: str = ""
    growth_below: float = nan
    growth_above: float = nan
    measured_below: float = nan
    measured_above: float = nan
    status_below: str = ""
    status_above: str = ""
    agrees: bool | None = None
    measured_limit: float = nan
    error: float = nan
    reason: str = ""


def _compared(runs: _Runs, limit: _Limit) -> _Row:
    """Return the row of an engine: runs on both sides of the limit and, if they contradict the model, its own limit."""
    row = _Row(runs.time, runs.engine, limit.value, limit.period, growth_below=limit.growth[0])
    row.growth_above = limit.growth[1]
    gains = runs.gains(limit.value)
    try:
        for side, gain, growth in zip(_SIDES, gains, limit.growth, strict=False):
            found = runs.classified(gain, limit.period, growth)
            setattr(row, f"status_{side}", found.status)
            setattr(row, f"measured_{side}", found.growth_rate)
    except (ValueError, EccError) as error:
        row.reason = str(error)
        return row
    finally:
        row.fluid = runs.fluid
    statuses = [row.status_below, row.status_above][: len(gains)]
    expected = [verdict_of(growth) for growth in limit.growth[: len(gains)]]
    if statuses == expected:
        row.agrees = True
    elif any(status not in ("undecided", model) for status, model in zip(statuses, expected, strict=True)):
        row.agrees = False
    if row.agrees is False and len(gains) == 2 and runs.settings.measures:
        try:
            row.measured_limit, row.error, row.reason = runs.measured(gains, limit)
        except (ValueError, EccError) as error:
            row.reason = f"the limit of these runs was not measured: {str(error).split(' in [')[0].split(': [')[0]}"
    return row


def verdict_of(growth: float) -> str:
    """Return the verdict on a growth rate, for example "stable" for -0.1.

    Parameters
    ----------
    growth : float, 1/s
    """
    return "stable" if growth < 0.0 else "unstable"


class _Runs:
    """Runs of one engine for the linear model of one time, with its form of the fluid."""

    def __init__(
        self,
        protocol: Protocol | ProtocolAssignment,
        network: Network,
        name: str,
        time: str,
        engine: str,
        settings: RunSettings,
        options: LinearOptions,
        report: ProgressCallback,
    ) -> None:
        self.protocol, self.network, self.name = protocol, network, name
        self.time, self.engine, self.settings, self.report = time, engine, settings, report
        self.assignment = options.assignment
        self.forms = _forms(protocol, time, options.clocking) if engine == "fluid" else [{}]
        if engine == "fluid" and settings.fluid:
            self.forms = [{"time": settings.fluid, "clocking": options.clocking}]
        self.fluid = ""

    def gains(self, limit: float) -> tuple[float, ...]:
        """Return the gains of the runs: on both sides of the limit, or the present one without a limit."""
        if limit == inf:
            return (float(parameter_value(self.protocol, self.name)),)
        return (limit * (1.0 - self.settings.margin), limit * (1.0 + self.settings.margin))

    def classified(self, gain: float, period: float, growth: float) -> StabilityClassification:
        """Return the classification of a run at a gain, long enough for the growth that a model predicts."""
        self.report(Step(f"{self.time} model, {self.engine}: {self.name} = {gain:.6g}"))
        periods = _length(growth, period, self.engine)
        if self.engine == "packet":
            self._check_packets(periods * period)
        return self._run(with_parameter(self.protocol, self.name, gain), period, periods)

    def _check_packets(self, duration: float) -> None:
        """Refuse a run of a duration [s] whose links can send more packets than `RunSettings.max_packets`."""
        size = min(flow.mean_packet for flow in self.network.flows)
        packets = duration * float(self.network.capacities.sum()) / (8.0 * size)
        if packets > self.settings.max_packets:
            allowed = f"the maximum is {self.settings.max_packets:.2g}"
            raise ValueError(f"a run of {duration:.3g} s sends up to {packets:.2g} packets, and {allowed}")

    def _run(self, protocol: Protocol | ProtocolAssignment, period: float, periods: float) -> StabilityClassification:
        """Return the classification of a run, in the first form of the fluid that the engine accepts."""
        refusal: ValueError | None = None
        for form in self.forms:
            options = {**self.settings.runs(self.engine), **form, "assignment": self.assignment}
            try:
                run = perturbed_run(protocol, self.network, period, periods, **options)
            except ValueError as error:
                refusal = error
                continue
            self.forms, self.fluid = [form], form.get("time", "")
            return _decided(run, period, self.settings)
        raise refusal or ValueError(f"no fluid has the clocks of the {self.time} model of {_name(protocol)}")

    def measured(self, gains: Sequence[float], limit: _Limit) -> tuple[float, float, str]:
        """Return the limit of the engine by bisection, its standard error, and a reason if it is 0 or inf."""
        growth = 0.5 * min(map(abs, limit.growth))
        cache: dict[float, StabilityClassification] = {}

        def found(gain: float) -> StabilityClassification:
            if gain not in cache:
                cache[gain] = self.classified(gain, limit.period, growth)
            return cache[gain]

        def run(protocol: Any, network: Network, period: float) -> Any:
            return _Classified(found(parameter_value(protocol, self.name)))

        if not limit.growth[0] < limit.growth[1]:
            raise ValueError("it is measured for limits above which the model is unstable")
        low, high = gains
        if not found(low).growth_rate < 0.0:
            while not found(low).growth_rate < 0.0:
                if low * _FARTHER < limit.value:
                    return 0.0, nan, f"runs are unstable down to {low / limit.value:.2g} times the limit"
                low, high = low / _STEP, low
        else:
            while not found(high).growth_rate > 0.0:
                if high > _FARTHER * limit.value:
                    return inf, nan, f"runs are stable up to {high / limit.value:.2g} times the limit"
                try:
                    with_parameter(self.protocol, self.name, high * _STEP)
                except ValueError as error:
                    return inf, nan, f"runs are stable up to {high / limit.value:.2g} times the limit ({error})"
                low, high = high, high * _STEP
        tolerance, count = self.settings.tolerance, self.settings.max_runs
        bound = measured_boundary(
            self.protocol, self.network, self.name, low, high, limit.period, tolerance, count, run
        )
        return bound.value, bound.error, ""


def _forms(protocol: Protocol | ProtocolAssignment, time: str, clocking: str | None) -> list[dict[str, Any]]:
    """Return the options of fluid runs with the clocks of a linear model, the preferred ones first."""
    if time == "hybrid" and isinstance(protocol, Protocol) and protocol.fluid_form is None:
        return []  # the fluid of such routers and hosts has no ticks
    forms: list[dict[str, Any]] = [{"time": form, "clocking": clocking} for form in _FLUIDS[time]]
    if clocking is None and time == "continuous" and has_granted_windows(protocol):
        forms.insert(0, {"time": "averaged", "clocking": "rate"})
    return forms


class _Classified(NamedTuple):
    """The part of a `PerturbedRun` that `measured_boundary` reads."""

    stability: StabilityClassification


def _length(growth: float, period: float, engine: str) -> float:
    """Return the length of a run in periods, for a growth rate [1/s]."""
    if not abs(growth) > 0.0:
        return _PERIODS[1]
    return float(np.clip(4.0 + _FOLDS[engine] / (abs(growth) * period), *_PERIODS))


def _decided(run: PerturbedRun, period: float, settings: RunSettings) -> StabilityClassification:
    """Return the classification of the late part of a run, in which the slowest mode is left.

    In packets, noise may hide the decay: then the noise level of the run is the floor.
    """
    found = run.stability
    release = float(run.trajectory.stats.get("warmup_end", 0.0))
    start, skip = (release, abs(settings.perturbation)), release + 2.0 * period
    if len(found.time) >= _WINDOWS and found.error == found.error:  # not only a bound
        middle = float(found.time[len(found.time) // 2 - 1])
        floor = float(found.amplitude.min()) * (1.0 - 1e-9)
        late = classify_stability(run.time, run.deviation, period, middle, 0.5 * floor, settings.ceiling)
        if late.status != "undecided":
            return late
    half = found.amplitude[len(found.amplitude) // 2 :]
    if found.status != "undecided" or len(half) < 3:
        return found
    noise = 1.5 * float(half.max())
    if not noise < 0.5 * abs(settings.perturbation):
        return found
    return classify_stability(run.time, run.deviation, period, skip, noise, settings.ceiling, start)


def _limit(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    name: str,
    time: str,
    margin: float,
    options: LinearOptions,
    value: float | None = None,
) -> _Limit:
    """Return the stability limit of a linear model and the growth rates that it predicts on both sides.

    Raises
    ------
    ValueError, LinearizationError
        The model does not exist, is unstable as the gain tends to 0, or loses stability without oscillation.
    """
    chosen = options.given()

    def model(gain: float) -> DelaySystem | SampledSystem:
        return linearize(with_parameter(protocol, name, gain), network, time, **chosen)

    frequency, is_known = nan, value is not None
    if value is None:
        loss = critical_gain(protocol, network, name, time, options=options)
        value, frequency = loss.value, loss.frequency
    if value == 0.0:
        raise ValueError(f"it is unstable as {name} tends to 0, so {name} has no limit from below")
    if not isfinite(value):
        present = linearize(protocol, network, time, **chosen)
        roots = np.atleast_1d(present.roots(8))
        periods = [period for root in roots if (period := _period(present, complex(root)))]
        period = periods[0] if periods else _longest(network)
        return _Limit(inf, period, (_growth(present, complex(roots[0])), nan))
    growth = []
    for factor in (1.0 - margin, 1.0 + margin):
        system = model(factor * value)
        growth.append(_growth(system, complex(system.roots(1)[0])))
    system = model(value)
    if is_known and (period := _period(system, complex(system.roots(1)[0]))):  # the value may be rounded
        return _Limit(value, period, (growth[0], growth[1]))
    return _Limit(value, _critical_period(system, frequency), (growth[0], growth[1]))


def _critical_period(system: DelaySystem | SampledSystem, frequency: float) -> float:
    """Return the period [s] of the slowest oscillation among the roots on the boundary of stability."""
    step = 1.0 if isinstance(system, DelaySystem) else float(system.dt or 1.0)
    periods = [2.0 * pi / frequency * step] if frequency > 0.0 else []
    try:
        roots = np.atleast_1d(system.roots(24))
    except ConvergenceError:
        roots = np.empty(0)
    for root in roots:
        distance = abs(root.real) / max(abs(root), 1e-300) if isinstance(system, DelaySystem) else abs(abs(root) - 1.0)
        if distance < _NEAR and (period := _period(system, complex(root))):
            periods.append(period)
    if not periods:
        raise ValueError("stability is lost without oscillation, and the fit of runs needs a period")
    return max(periods)


def _period(system: DelaySystem | SampledSystem, root: complex) -> float | None:
    """Return the period [s] of the oscillation of a root; None for a root on the positive real axis."""
    if isinstance(system, DelaySystem):
        speed = abs(root.imag)
    else:
        speed = abs(float(np.angle(root))) / float(system.dt or 1.0)
    return 2.0 * pi / speed if speed > 0.0 else None


def _growth(system: DelaySystem | SampledSystem, root: complex) -> float:
    """Return the growth rate of a root [1/s]."""
    if isinstance(system, DelaySystem):
        return root.real
    return log(max(abs(root), 1e-300)) / float(system.dt or 1.0)


def _longest(network: Network) -> float:
    """Return the period of the runs of a loop that does not oscillate: four times the longest RTT [s]."""
    return 4.0 * float(network.rtts.max())
