"""Claims on runs as data: the runs, the metrics computed from them, and the values that the paper reports.

An entry of the ledger names a `setup` (a function of `ecc.claims.setups`) and its `options`, the `runs` (a label ->
protocol and parameters), and a list of `expect`: a metric (a function of `ecc.metrics`) and its expected value.
An entry that `repeats` another entry makes the runs of that entry on real frames too (`ecc.live`).

    [ev-f4]
    setup = "three_joins"
    options = { capacity = "970 Mb/s", rtt = 0.05 }
    sample = 0.1                        # sampling interval of the runs, s
    runs.RCP = { protocol = "RCP", alpha = 0.1 }
    runs.XCP = { protocol = "XCP" }
    quick = { duration = 40.0 }         # options replaced in quick runs
    assumptions = ["..."]               # choices that the paper leaves open
    [[ev-f4.expect]]
    run = "RCP"                         # or runs = [...]; every run if both are missing
    metric = "peak_queue"
    unit = "packets"
    reported = 9415                     # met within `band` (0.1, relative) or `within` (absolute)
    [[ev-f4.expect]]
    metric = "utilization"
    at_least = 0.9                      # or at_most, or both
    [[ev-f4.expect]]
    run = "XCP"
    metric = "peak_queue"
    below = "RCP"                       # or above: significantly, compared with another run with the same seeds
    [[ev-f4.vary]]                      # sensitivity to an assumption: the same expectations, other choices
    name = "RCP at alpha = 0.4"
    runs.RCP = { alpha = 0.4 }          # or options = {...}, or sample = ...
    figures = true                      # draw these runs too

Further keys of `expect` are arguments of its metric (`flow`, `link`, `between`, ...). Every run is made with several
seeds (`seeds`, 10 by default), which draw arrivals, start times and the phases of routers. If there is a `sweep =
{ option = [...] }`, everything is done for each value of the option. If several options are swept, they are swept one
after the other, and all values must differ. An expectation then names the values it holds `at` (all by default), and a
`[[ev-f4.curve]]` draws a metric over the first option, or over the one named by `over_option`. If `against` names
another value of the sweep, the ratio of the metric to its value there is judged. A curve with `argument`, `values` and
`x` draws the metric over the values of an argument of the metric, at x. `missing` names a fact without which a miss
proves nothing ("not comparable"); `cause` explains a refuted claim. A variation repeats only the runs that it changes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from ecc import fluid, live, packet, plot
from ecc._support.digests import code_digest, digest, function_digest
from ecc._support.intervals import mean_with_interval
from ecc.claims import setups
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict
from ecc.claims.report.pictures import side_by_side
from ecc.claims.report.text import count
from ecc.claims.schema import Curve, Expectation, Experiment, Reading, Variation, protocol_tables
from ecc.errors import EccError, NativeError
from ecc.models import all_protocols
from ecc.results import metrics
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

__all__ = ["Job", "judge", "of_machine", "perform", "plan", "protocol_of"]

_ENGINES = {"packet": packet, "fluid": fluid, "live": live}

FEW_SEEDS, QUICK_SEEDS = 3, 2
"""Numbers of seeds for runs that vary an assumption, and for quick runs."""
SERIES_SHOWN = 12
"""Maximum number of flows in a figure of rates."""
SLOW, ATTEMPTS = (1.0, 4.0), 2
"""Slowdown factors of live runs, tried in this order if runs are void; number of attempts with each."""
LIVE_COST = 300.0
"""Approximate duration of a live run, s."""
CLOSE = 0.1
"""Relative difference up to which a live value agrees with the packet value, even if a limit lies between the two."""


@dataclass(frozen=True)
class Job:
    """One unit of work for a claim: `work(*arguments)` returns plain data, stored under `key`.

    If jobs of a `group` run in the same process, they share intermediate results.
    """

    key: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    cost: float = 1.0
    role: tuple[Any, ...] = ()
    group: str = ""


# ---- plan of the runs ------------------------------------------------------------------------------------


def plan(claim: Claim, quick: bool = False) -> list[Job]:
    """Return the runs that a claim needs.

    Parameters
    ----------
    claim : Claim
        Claim with an experiment.
    quick : bool, optional
        Use fewer seeds and the entry's options for quick runs.

    Raises
    ------
    ValueError
        A setup, metric, protocol or run does not exist.
    """
    experiment = _of(claim)
    base = {**experiment.options, **(experiment.quick if quick else {})}
    seeds = min(experiment.seeds, QUICK_SEEDS) if quick else experiment.seeds
    expectations = _expectations(experiment)
    jobs = []
    for version in (None, *_variations(experiment, quick)):
        name = version.name if version else ""
        drawn_seeds = seeds if version is None else 1 if quick else min(seeds, FEW_SEEDS)
        options = base | dict(version.options if version else {})
        for label in experiment.runs:
            if version and not version.changes(label):
                continue
            for point in experiment.points:
                wanted = [e for e in expectations if _applies(e, label, point)]
                drawn = _drawn(experiment) if _shows(version) else []
                if not wanted and not drawn and experiment.figures is False:
                    continue
                spec = {
                    "setup": experiment.setup,
                    "options": options | point,
                    "protocol": {**experiment.runs[label], **(version.runs.get(label, {}) if version else {})},
                    "sample": float(version.sample if version and version.sample else experiment.sample),
                    "histogram_from": experiment.histogram_from,
                    "metrics": [_spec_of(e) for e in [*wanted, *drawn]],
                }
                for engine in _engines(experiment, label, version):
                    for seed in range(1, 1 + (drawn_seeds if engine == "packet" else 1)):
                        shown = engine != "fluid" and seed == 1 and _shows(version) and _draws(experiment, point)
                        cost = LIVE_COST if engine == "live" else experiment.cost
                        jobs.append(
                            _job(
                                cost,
                                (name, label, _value_of(point), engine, seed),
                                spec
                                | {
                                    "engine": engine,
                                    "seed": seed,
                                    "series": shown,
                                },
                            )
                        )
    return jobs


def _of(claim: Claim) -> Experiment:
    if claim.experiment is None:
        raise ValueError(f"claim must have an experiment, got {claim.id}")
    return claim.experiment


def _variations(experiment: Experiment, quick: bool) -> list[Variation]:
    """Return the variations to run; a quick run omits those that set a duration."""
    return [version for version in experiment.vary if not (quick and "duration" in version.options)]


def _shows(version: Variation | None) -> bool:
    """Return whether the runs of a version are drawn."""
    return version is None or version.figures


def _option(experiment: Experiment, value: Any) -> str:
    """Return the swept option that takes a value."""
    return next(name for name, values in experiment.sweep.items() if value in values)


def _value_of(point: Mapping[str, Any]) -> Any:
    return next(iter(point.values()), None)


def _draws(experiment: Experiment, point: Mapping[str, Any]) -> bool:
    """Return whether rates and queues of this point are drawn; `figures` selects points of a sweep."""
    figures = experiment.figures
    if isinstance(figures, bool) or figures is None:
        return not point if figures is None else figures
    return _value_of(point) in figures


def _engines(experiment: Experiment, label: str, version: Variation | None) -> list[str]:
    also = experiment.fluid if isinstance(experiment.fluid, bool) else label in experiment.fluid
    if version is not None:
        return ["packet"]
    return ["packet", *(["fluid"] if also else []), *(["live"] if experiment.live else [])]


def _expectations(experiment: Experiment) -> list[Expectation]:
    """Return each expectation once for every run and value of the sweep to which it applies."""
    expectations = []
    for item in experiment.expect:
        at = (item.at if isinstance(item.at, tuple) else (item.at,)) if item.at is not None else ()
        for label in item.runs or ((item.run,) if item.run else tuple(experiment.runs)):
            for value in at or [_value_of(point) for point in experiment.points]:
                expectations.append(replace(item, run=label, runs=(), at=value))
    return expectations


def _drawn(experiment: Experiment) -> list[Reading]:
    """Return the metrics that the curves of an experiment need from each run."""
    return [item for curve in experiment.curve for item in _points_of(curve)]


def _points_of(curve: Curve) -> list[Reading]:
    """Return the readings of a curve for one run: a single reading, or one for each value of its argument."""
    if not curve.argument:
        return [curve]
    return [replace(curve, arguments={**curve.arguments, curve.argument: value}) for value in curve.values]


def _applies(expectation: Expectation, label: str, point: Mapping[str, Any]) -> bool:
    """Return whether an expectation needs a run, either as its subject or for comparison."""
    if expectation.at is not None and _value_of(point) not in (expectation.at, expectation.against):
        return False
    return label in (expectation.run, expectation.below, expectation.above)


def _spec_of(item: Reading) -> dict[str, Any]:
    """Return the data of an expectation or curve that a job needs."""
    return {"metric": item.metric, "unit": item.unit, "arguments": dict(item.arguments)}


def _job(cost: float, role: tuple[Any, ...], spec: dict[str, Any]) -> Job:
    engine, classes = spec["engine"], all_protocols()
    protocols = sorted({table["protocol"] for table in protocol_tables(spec["protocol"])})
    code = digest(
        code_digest(_ENGINES[engine].simulate.__module__, *(classes[name].__module__ for name in protocols)),
        function_digest(setups.get(spec["setup"])),
        *(function_digest(metrics.get(item["metric"]).function) for item in spec["metrics"]),
    )
    group = "live" if engine == "live" else ""  # live runs need the processors for themselves, one after the other
    return Job(digest(code, json.dumps(spec, sort_keys=True)), perform, (spec,), cost, role, group)


# ---- one run ---------------------------------------------------------------------------------------------


def perform(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of one run: `values` in the requested units, `series` of the figure, `machine` of a live run.

    Without values, the reason is under `refused` (no fluid run) or `void` (no valid live run is possible here).

    Parameters
    ----------
    spec : mapping
        Specification of the run, as written by `plan`.

    Raises
    ------
    EccError
        The run ended early.
    """
    begin = perf_counter()
    parts = setups.build(spec["setup"], spec["options"], spec["seed"])
    options: dict[str, Any] = {}
    if spec.get("histogram_from") is not None and spec["engine"] == "packet":
        options["histogram_from"] = spec["histogram_from"]
    scenario = Scenario(protocol=protocol_of(spec["protocol"]), seed=spec["seed"], **parts)
    try:
        run = (_live if spec["engine"] == "live" else _ENGINES[spec["engine"]].simulate)(
            scenario, sample=spec["sample"], **options
        )
    except _Void as error:
        return {"void": str(error), "seconds": perf_counter() - begin}
    except (EccError, ValueError) as error:
        if spec["engine"] != "fluid":
            raise
        return {"refused": str(error), "seconds": perf_counter() - begin}
    if spec["engine"] != "fluid":
        run.raise_if_incomplete()
    elif not run.is_complete:
        return {"refused": run.stopped, "seconds": perf_counter() - begin}
    values = [_measured(item, run, scenario) for item in spec["metrics"]]
    series = metrics.series(run, scenario, SERIES_SHOWN) if spec["series"] else None
    done = {"values": values, "series": series, "seconds": perf_counter() - begin}
    if spec["engine"] == "live":
        fastest = max(link.capacity for link in scenario.network.links)
        done["machine"] = {name: run.stats[name] for name in MACHINE} | {"fastest": fastest}
    return done


MACHINE = (
    "slow",
    "attempts",
    "elapsed",
    "frozen",
    "load",
    "lateness_p50",
    "lateness_p99",
    "lateness_p999",
    "frames_sent",
    "frames_lost",
    "frames_refused",
)
"""Keys of a live run's `stats` that the report shows."""


class _Void(Exception):
    """No valid live run is possible here; the message has the reason."""


def _live(scenario: Scenario, sample: float) -> Trajectory:
    """Make a live run, slowed down if it is void at full speed; transfers of a workload are drawn before it begins."""
    flows, tried = scenario.network.flows, 0
    if scenario.workload is not None:
        drawn = scenario.workload.draw(scenario.seed, scenario.duration)
        scenario = scenario.with_(network=scenario.network.with_flows([*flows, *drawn]), workload=None)
    for slow in SLOW:
        try:
            run = live.simulate(scenario, sample=sample, slow=slow, attempts=ATTEMPTS)
        except NativeError:
            raise
        except EccError as error:  # namespaces are forbidden
            raise _Void(str(error)) from None
        tried += run.stats["attempts"]
        if not run.stats["void"]:
            data = run.data.isel(flow=slice(len(flows)))  # transfers have no columns, as in packet runs
            return replace(run, data=data, stats={**run.stats, "attempts": tried})
    raise _Void(f"{run.stats['void']}, in the last of {tried} runs")


def protocol_of(table: Mapping[str, Any]) -> Any:
    """Return a protocol from its table, or a scenario's mapping of flows and links to protocols.

    Parameters
    ----------
    table : mapping
        Table of a run in the ledger, for example {"protocol": "RCP", "alpha": 0.4}.
    """
    if "protocol" in table:
        return all_protocols()[table["protocol"]](**{k: v for k, v in table.items() if k != "protocol"})
    sides: dict[str, Any] = {}
    for side, choices in table.items():
        sides[side] = {int(key) if key.isdecimal() else key: protocol_of(choice) for key, choice in choices.items()}
    return sides


def _measured(item: Mapping[str, Any], run: Any, scenario: Scenario) -> float:
    metric = metrics.get(item["metric"])
    return float(metric.function(run, scenario, **item["arguments"])) / metrics.scale(metric, item["unit"], scenario)


# ---- the verdict -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """Mean of a metric over seeds and the half-width of its 95 % interval (0 for one seed)."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def half(self) -> float:
        if len(self.values) < 2 or not np.all(np.isfinite(self.values)):
            return 0.0
        return float(mean_with_interval(np.asarray(self.values), 0, 0.95)[1])


def judge(claim: Claim, jobs: Sequence[Job], results: Sequence[Mapping[str, Any]], quick: bool = False) -> Finding:
    """Return the finding on a claim whose runs are done.

    Parameters
    ----------
    claim : Claim
        Claim with an experiment.
    jobs, results : sequence of Job, sequence of mapping
        Jobs of `plan` in its order, and their results.
    quick : bool, optional
        True if the jobs were planned as quick; the finding says so.
    """
    experiment = _of(claim)
    by_role = dict(zip((job.role for job in jobs), results, strict=True))
    expectations = _expectations(experiment)
    if experiment.live:
        return _judge_live(claim, by_role)
    met, rows, seeds = [], [], 0
    in_a_seed = False  # an expectation that the mean misses is met by a single seed
    for expectation in expectations:
        estimate = _estimate(claim, by_role, expectation, "")
        other = _other(claim, by_role, expectation, "")
        met.append(_is_met(expectation, estimate, other))
        rows.append(_row(claim, by_role, expectation, estimate, other, met[-1]))
        seeds = max(seeds, len(estimate.values))
        in_a_seed |= not met[-1] and any(_is_met(expectation, *pair) for pair in _seed_by_seed(estimate, other))
    versions: dict[str, list[bool]] = {}
    for name in (version.name for version in _variations(experiment, quick)):
        versions[name] = [
            _is_met(e, _estimate(claim, by_role, e, name), _other(claim, by_role, e, name)) for e in expectations
        ]
        rows.append(_version_row(name, met, versions[name], rows))
    few = 1 if quick else min(seeds, FEW_SEEDS)
    verdict, reason = _verdict(experiment, met, versions, rows, few if few < seeds else 0)
    if verdict is Verdict.REFUTED:
        reason += _survival(met, versions, seeds, in_a_seed)
    assumptions = list(experiment.assumptions)
    if experiment.missing:
        assumptions.append(f"Not stated: {experiment.missing}")
    if quick:
        reason += f" Quick: {count(seeds, 'seed')}{', 1 for variations' if versions else ''}."
        assumptions.append(
            f"Quick run: at most {QUICK_SEEDS} seeds, and shorter runs if the claim has a short form. With more seeds, "
            "the order of two runs may change."
        )
    seconds = sum(float(result["seconds"]) for result in results)
    missed: dict[tuple[str, Any], list[Measurement]] = {}
    for expectation, row, ok in zip(expectations, rows, met, strict=False):
        if not ok:
            missed.setdefault((expectation.run, expectation.at), []).append(row)
    return Finding(claim, verdict, reason, rows, _pictures(claim, by_role, missed), assumptions, seconds)


def _find(
    claim: Claim,
    by_role: Mapping[Any, Any],
    item: Reading,
    version: str,
    label: str,
    engine: str,
    at: Any = None,
    against: Any = None,
) -> Estimate | None:
    """Return the values of a metric over the seeds of a run; None if the engine did not run it."""
    experiment = _of(claim)
    change = next((variation for variation in experiment.vary if variation.name == version), None)
    if change is not None and not change.changes(label):
        version, change = "", None
    values = []
    for (v, name, value, e, _), result in by_role.items():
        if (v, name, value, e) == (version, label, at, engine) and "values" in result:
            values.append(result["values"][_position(experiment, label, value, change, item)])
    if values and against is not None:
        base = _find(claim, by_role, item, version, label, engine, against)
        values = [value / other for value, other in zip(values, base.values, strict=True)] if base else []
    return Estimate(tuple(values)) if values else None


def _position(experiment: Experiment, label: str, value: Any, version: Variation | None, item: Reading) -> int:
    point = {} if value is None else {_option(experiment, value): value}
    specs = [_spec_of(e) for e in _expectations(experiment) if _applies(e, label, point)]
    specs += [_spec_of(c) for c in _drawn(experiment)] if _shows(version) else []
    return specs.index(_spec_of(item))


def _expected(
    claim: Claim, by_role: Mapping[Any, Any], expectation: Expectation, version: str, label: str, engine: str = "packet"
) -> Estimate | None:
    return _find(claim, by_role, expectation, version, label, engine, expectation.at, expectation.against)


def _estimate(claim: Claim, by_role: Mapping[Any, Any], expectation: Expectation, version: str) -> Estimate:
    estimate = _expected(claim, by_role, expectation, version, expectation.run)
    if estimate is None:
        raise EccError(f"no run of {expectation.run} for claim {claim.id}")
    return estimate


def _other(
    claim: Claim, by_role: Mapping[Any, Any], expectation: Expectation, version: str, engine: str = "packet"
) -> Estimate | None:
    label = expectation.below or expectation.above
    return _expected(claim, by_role, expectation, version, label, engine) if label else None


def _is_met(expectation: Expectation, estimate: Estimate, other: Estimate | None) -> bool:
    mean = estimate.mean
    if np.isnan(mean):
        return False
    if other is not None:
        sign = 1.0 if expectation.below else -1.0
        n = min(len(estimate.values), len(other.values))
        gap = sign * (np.array(other.values[:n]) - expectation.times * np.array(estimate.values[:n]))
        difference = Estimate(tuple(gap.tolist()))
        return difference.mean > difference.half
    if expectation.at_least is not None or expectation.at_most is not None:
        low = -np.inf if expectation.at_least is None else expectation.at_least
        return low <= mean <= (np.inf if expectation.at_most is None else expectation.at_most)
    assert expectation.reported is not None  # the schema requires one of them
    return abs(mean - expectation.reported) <= _tolerance(expectation)


def _tolerance(expectation: Expectation) -> float:
    """Return the allowed difference from the reported value."""
    if expectation.within is not None:
        return expectation.within
    return expectation.band * abs(expectation.reported or 0.0)


def _seed_by_seed(estimate: Estimate, other: Estimate | None) -> Iterator[tuple[Estimate, Estimate | None]]:
    """Yield the values of each seed separately."""
    for k, value in enumerate(estimate.values):
        if other is None:
            yield Estimate((value,)), None
        elif k < len(other.values):
            yield Estimate((value,)), Estimate((other.values[k],))


def _row(
    claim: Claim,
    by_role: Mapping[Any, Any],
    expectation: Expectation,
    estimate: Estimate,
    other: Estimate | None,
    met: bool,
) -> Measurement:
    seeds = len(estimate.values)
    notes = [f"{seeds} seeds"] if seeds > 1 else []
    if other is not None:
        word = "below" if expectation.below else "above"
        factor = f"{expectation.times:g} times the value " if expectation.times != 1.0 else ""
        notes.append(f"{factor}{word} {expectation.below or expectation.above}: {_short(other.mean)}")
    limits = ((">=", expectation.at_least), ("<=", expectation.at_most))
    bounds = [f"{sign} {limit:g}" for sign, limit in limits if limit is not None]
    notes += ["expected " + " and ".join(bounds)] if bounds else []
    if met and other is None and expectation.reported is not None and estimate.half > _tolerance(expectation):
        notes.append("met on average only: the 95 % interval is wider than the allowed difference")
    fluid_run = _expected(claim, by_role, expectation, "", expectation.run, "fluid")
    refused = next(
        (
            r["refused"]
            for (v, n, _, e, _), r in by_role.items()
            if (v, n, e) == ("", expectation.run, "fluid") and "refused" in r
        ),
        None,
    )
    if refused:
        notes.append(f"no fluid run: {refused}")
    return Measurement(
        _name(claim, expectation),
        _rounded(estimate.mean),
        expectation.unit,
        expectation.as_ or expectation.reported,
        "; ".join(notes),
        None if fluid_run is None else _rounded(fluid_run.mean),
        float(f"{estimate.half:.2g}") if seeds > 1 else None,
        met,
    )


def _version_row(name: str, met: Sequence[bool], now: Sequence[bool], rows: Sequence[Measurement]) -> Measurement:
    changed = [f"{rows[k].name} {'holds' if now[k] else 'fails'}" for k in range(len(met)) if met[k] != now[k]]
    return Measurement(
        f"with {name}", f"{sum(now)} of {len(now)} as reported", note="; ".join(changed) or "nothing changes"
    )


def _verdict(
    experiment: Experiment,
    met: Sequence[bool],
    versions: Mapping[str, Sequence[bool]],
    rows: Sequence[Measurement],
    few: int,
) -> tuple[Verdict, str]:
    """Return the verdict and its reason; `few` is the number of seeds of variations, 0 if they have all seeds."""
    missed = [row for row, ok in zip(rows, met, strict=False) if not ok]
    fulfilled = [name for name, now in versions.items() if all(now)]
    broken = [name for name, now in versions.items() if not all(now)]
    summary = f"{len(met) - len(missed)} of {len(met)} expectations are met"
    note = f" ({count(few, 'seed')})" if few else ""
    if not missed:
        if broken:
            return Verdict.CONDITIONAL, f"{summary}, but not with {', nor with '.join(broken)}{note}."
        return Verdict.CONFIRMED, f"{summary}{', under every assumption tried' if versions else ''}."
    words = "; ".join(_miss(row) for row in missed[:4]) + (f"; and {len(missed) - 4} more" if len(missed) > 4 else "")
    if fulfilled:
        return (
            Verdict.CONDITIONAL,
            f"All expectations are met with {', or with '.join(fulfilled)}{note}; otherwise {words}.",
        )
    if experiment.missing:
        return Verdict.NOT_COMPARABLE, f"{summary} ({words}), and the paper leaves open {experiment.missing}."
    cause = f"{experiment.cause} " if experiment.cause else ""
    return Verdict.REFUTED, f"{cause}{summary}; {words}."


def _survival(met: Sequence[bool], versions: Mapping[str, Sequence[bool]], seeds: int, in_a_seed: bool) -> str:
    """Return sentences on whether every seed and every variation refutes the claim."""
    helpful = [
        name for name, now in versions.items() if any(new and not old for new, old in zip(now, met, strict=True))
    ]
    always = [f"each of {seeds} seeds"] if seeds > 1 and not in_a_seed else []
    always += [f"each of {count(len(versions), 'variation')}"] if versions and not helpful else []
    parts = [f"The same holds for {' and '.join(always)}."] if always else []
    if seeds > 1 and in_a_seed:
        parts.append("Single seeds meet expectations that their mean misses.")
    if helpful:
        parts.append(f"Some expectations are met with {', or with '.join(helpful)}.")
    return "".join(f" {part}" for part in parts)


def _miss(row: Measurement) -> str:
    unit = f" {row.unit}" if row.unit else ""
    if row.live is not None:
        return f"{row.name} is {_short(row.live)}{unit} live and {_short(row.value)}{unit} in packets"
    if row.reported is None:
        return f"{row.name} is {_short(row.value)}{unit} ({row.note})"
    return f"{row.name} is {_short(row.value)}{unit} instead of the reported {_short(row.reported)}"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}") if np.isfinite(value) else value


def _point_text(experiment: Experiment, value: Any) -> str:
    """Return a value of the sweep with its option, for example "capacity 16 Mb/s"."""
    text = _short(value) if isinstance(value, float) else str(value)
    return f"{_option(experiment, value).replace('_', ' ')} {text}"


def _name(claim: Claim, expectation: Expectation) -> str:
    experiment, arguments = _of(claim), expectation.arguments
    text = expectation.name
    if not text:
        text = metrics.get(expectation.metric).title
        if "flow" in arguments:
            text += f" of flow {arguments['flow']}"
        if "link" in arguments:
            text += f" at link {arguments['link']}"
        if "between" in arguments:
            text += f", {arguments['between'][0]:g} to {arguments['between'][1]:g} s"
        if "after" in arguments:
            text += f" after {arguments['after']:g} s"
    if expectation.at is not None:
        text += f", {_point_text(experiment, expectation.at)}"
    if expectation.against is not None:
        text += f" relative to the value at {expectation.against}"
    for word, other in (("below", expectation.below), ("above", expectation.above)):
        if other:
            times = f"{expectation.times:g} times the value " if expectation.times != 1.0 else ""
            text += f", {times}{word} {other}'s"
    return f"{expectation.run}: {text}" if len(experiment.runs) > 1 else text


# ---- live runs compared with packets ---------------------------------------------------------------------


def _judge_live(claim: Claim, by_role: Mapping[Any, Any]) -> Finding:
    """Judge whether live runs agree with packet runs, independently of the values that the paper reports."""
    experiment = _of(claim)
    rows: list[Measurement] = []
    missed: dict[tuple[str, Any], list[Measurement]] = {}
    reported = Counter[str]()
    for e in _expectations(experiment):
        packets, other = _estimate(claim, by_role, e, ""), _other(claim, by_role, e, "")
        live_estimate, live_other = (
            _expected(claim, by_role, e, "", e.run, "live"),
            _other(claim, by_role, e, "", "live"),
        )
        as_packets = _is_met(e, packets, other)
        row = replace(_row(claim, by_role, e, packets, other, as_packets), met=None)
        if live_estimate is not None and (live_other is not None or other is None):
            as_live = _is_met(e, live_estimate, live_other)
            reported.update(packets=as_packets, live=as_live)
            where = {(True, True): "both", (False, False): "neither", (True, False): "packets", (False, True): "live"}
            is_close = abs(live_estimate.mean - packets.mean) <= CLOSE * abs(packets.mean)
            text = f"as reported: {where[as_packets, as_live]}"
            row = replace(
                row,
                live=_rounded(live_estimate.mean),
                met=as_live == as_packets or is_close,
                note=f"{row.note}; {text}" if row.note else text,
            )
            if not row.met:
                missed.setdefault((e.run, e.at), []).append(row)
        rows.append(row)
    void: dict[str, list[str]] = {}
    for (_, label, value, engine, _), result in by_role.items():
        name = label if value is None else f"{label}, {_point_text(experiment, value)}"
        if engine == "live" and "void" in result:
            void.setdefault(result["void"], []).append(name)
            rows.append(Measurement(f"{name}: live run", "", live="void", note=result["void"]))
        elif engine == "live":
            rows.append(_driven(name, result["machine"]))
    judged, misses = [row for row in rows if row.met is not None], [row for of_run in missed.values() for row in of_run]
    reason = f"{len(judged) - len(misses)} of {len(judged)} live values agree with packet runs"
    reason += f"; {'; '.join(map(_miss, misses))}." if misses else "."
    reason += f" As reported: {count(reported['live'], 'live value')}, {count(reported['packets'], 'packet value')}."
    text = "; ".join(f"{', '.join(names)}: {why}" for why, names in void.items())
    verdict = Verdict.REFUTED if misses else Verdict.CONDITIONAL if void else Verdict.CONFIRMED
    if not judged:
        verdict, reason = Verdict.NOT_COMPARABLE, ""
    reason = f"{reason}{f' Void: {text}.' if void else ''}".strip()
    seconds = sum(float(result["seconds"]) for result in by_role.values())
    return Finding(
        claim, verdict, reason, rows, _pictures(claim, by_role, missed), [*experiment.assumptions, *_OF_LIVE], seconds
    )


_OF_LIVE = (
    "Live runs use network namespaces of one machine and a clock that stops while the process is stalled. A run with "
    "late or lost frames is void; it is repeated, then slowed down. Flows of a workload are drawn before the run.",
    "One seed, without variations. A live value agrees with packet runs if it is within a tenth of their value, or if "
    "both or neither of the two are as reported.",
)


def _driven(name: str, machine: Mapping[str, float]) -> Measurement:
    """Return the rate at which a live run was driven, with a note on its frames."""
    rate = _rounded(machine["fastest"] / machine["slow"] / 1e6)
    return Measurement(
        f"{name}: rate at which the fastest link was driven", "", "Mb/s", live=rate, note=of_machine([machine])
    )


def of_machine(runs: Sequence[Mapping[str, float]]) -> str:
    """Return a summary of live runs in one line: the worst lateness and load, and sums of times and frames.

    Parameters
    ----------
    runs : sequence of mapping
        The entries `MACHINE` of the `stats` of each run.
    """
    worst = {name: max(run[name] for run in runs) for name in MACHINE}
    total = {name: sum(run[name] for run in runs) for name in MACHINE}
    late = "/".join(f"{1e6 * worst[f'lateness_{share}']:.0f}" for share in ("p50", "p99", "p999"))
    return (
        f"{_speed(worst['slow'])}: {total['elapsed']:.0f} s, with the clock stopped for {total['frozen']:.0f} s; "
        f"{total['frames_sent'] / 1e6:.2f} million frames, {total['frames_lost']:.0f} lost, "
        f"{total['frames_refused']:.0f} refused; 50/99/99.9 % of the packets were less than {late} us late; "
        f"{count(int(total['attempts']) - len(runs), 'earlier void run')}; load {worst['load']:.1f}"
    )


def _speed(slow: float) -> str:
    return "at full speed" if slow == 1.0 else f"slowed down {slow:g} times"


# ---- figures ---------------------------------------------------------------------------------------------


def _pictures(
    claim: Claim, by_role: Mapping[Any, Any], missed: Mapping[tuple[str, Any], Sequence[Measurement]]
) -> list[Picture]:
    """Return pictures of the live runs, the packet runs and the curves; runs that miss an expectation come first.

    `missed` maps (run, value of the sweep) to the measurements that are not as expected.
    """
    experiment = _of(claim)
    kinds = {"packet": ("Packet runs", "as expected")}
    if experiment.live:
        kinds = {"live": ("Live runs", "as in packets")} | kinds
    judged = next(iter(kinds))
    by_kind: dict[tuple[str, bool], list[Picture]] = {(engine, off): [] for engine in kinds for off in (True, False)}
    for (version, label, value, engine, _), result in by_role.items():
        series = result.get("series")
        if not series:
            continue
        where = "" if value is None else f", {_point_text(_of(claim), value)}"
        kind = f"Live run {_speed(result['machine']['slow'])}" if engine == "live" else "Packet run"
        run = f"{kind} with {version}, seed 1." if version else f"{kind}, seed 1."
        rates, queues = _reported(claim, label, value, series)
        figure = plot.trajectory_figure(
            series["time"],
            np.array(series["rates"]).T,
            np.array(series["queues"]).T,
            flows=series["flows"],
            links=series["links"],
            packet_size=series["packet_size"],
            levels=rates,
            queue_levels=queues,
        )
        wrong = [] if version or engine != judged else missed.get((label, value), [])
        more = f"; and {len(wrong) - 2} more" if len(wrong) > 2 else ""
        mark = f"Not {kinds[engine][1]}: {'; '.join(map(_miss, wrong[:2]))}{more}. " if wrong else ""
        title = f"{label}{where}{', varied' if version else ''}{', live' if engine == 'live' else ''}"
        by_kind[engine, bool(wrong)].append(Picture.of(figure, title, f"{mark}{run} {series['said']}"))
    curves = [_curve(claim, by_role, curve) for curve in experiment.curve]
    drawn = [
        side_by_side(pictures, f"{kinds[engine][0]} that are not {kinds[engine][1]}" if off else kinds[engine][0])
        for (engine, off), pictures in by_kind.items()
    ]
    return [*(picture for of_kind in drawn for picture in of_kind), *curves]


def _reported(claim: Claim, label: str, value: Any, series: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the reported rates and peak queues for the figure of a run, as (label, level, time span)."""
    levels: dict[str, list[Any]] = {"rate": [], "peak_queue": []}
    shown = {"rate": ("flow", "x", series["flows"]), "peak_queue": ("link", "l", series["links"])}
    for item in _expectations(_of(claim)):
        if item.metric not in levels or item.reported is None or (item.run, item.at) != (label, value):
            continue
        argument, letter, names = shown[item.metric]
        name = f"{letter}{item.arguments.get(argument, 0) + 1}"
        if name in names and item.against is None:
            kind = metrics.get(item.metric).kind
            unit = (metrics.UNITS[kind] | {"packets": series["packet_size"], "": 1.0})[item.unit]
            span = tuple(item.arguments.get("between", (series["time"][0], series["time"][-1])))
            levels[item.metric].append((f"{name}, reported", item.reported * unit, span))
    return levels["rate"], levels["peak_queue"]


def _curve(claim: Claim, by_role: Mapping[Any, Any], curve: Curve) -> Picture:
    """Return the picture of a metric over the sweep or an argument: one line per run, and the reported values."""
    experiment = _of(claim)
    points: list[tuple[Reading, Any]]
    if curve.argument:
        name, values, points = curve.argument, curve.x, [(point, None) for point in _points_of(curve)]
    else:
        name = curve.over_option or next(iter(experiment.sweep))
        values, points = experiment.sweep[name], [(curve, value) for value in experiment.sweep[name]]
    lines: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}  # False: the runs of the entry; True: varied runs
    halves: dict[str, list[float]] = {}
    made = {version for version, *_ in by_role}
    drawn = [version for version in experiment.vary if version.figures and version.name in made]
    for change in (None, *drawn):
        for label in experiment.runs:
            if change and not change.changes(label):
                continue
            version = change.name if change else ""
            estimates = [_find(claim, by_role, point, version, label, "packet", at) for point, at in points]
            of_run = [f.mean if f else float("nan") for f in estimates]
            line = f"{label}, varied" if change else label
            lines[change is not None][line] = of_run
            if any(f and f.half and len(f.values) > 2 for f in estimates):  # two seeds: far too wide
                halves[line] = [f.half if f else float("nan") for f in estimates]
    shown = {f"{label}, reported": (*np.array(reported, float).T, None) for label, reported in curve.reported.items()}
    title, unit = curve.name or metrics.get(curve.metric).title, curve.unit
    figure = plot.boundary_figure(
        values,
        lines[False],
        lines[True],
        shown,
        x_title=curve.x_title or name.replace("_", " "),
        y_title=f"{title} [{unit}]" if unit else title,
        log_x=curve.log_x,
        log_y=curve.log_y,
        errors=halves,
    )
    caption = f"Packet runs, mean over seeds{'; bars are its 95 % intervals' if halves else ''}."
    caption += "".join(f" Varied: {change.name}." for change in drawn)
    return Picture.of(figure, title[:1].upper() + title[1:], caption)
