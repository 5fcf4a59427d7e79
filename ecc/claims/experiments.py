"""Claims on runs, as data: what to run, what to compute of it, and what the paper says of that.

An entry of the ledger names a `setup` (a function of `ecc.claims.setups`) and its `options`, the `runs` (a label ->
protocol and parameters), and a list of `expect`: a metric (a function of `ecc.metrics`) and what it should be.
An entry that names another one as what it `repeats` makes its runs on real frames too (`ecc.live`).

    [ev-f4]
    setup = "three_joins"
    options = { capacity = "970 Mb/s", rtt = 0.05 }
    sample = 0.1                        # of the runs, s
    runs.RCP = { protocol = "RCP", alpha = 0.1 }
    runs.XCP = { protocol = "XCP" }
    quick = { duration = 40.0 }         # options of a quick run, beside the others
    assumptions = ["..."]               # what the paper leaves open
    [[ev-f4.expect]]
    run = "RCP"                         # or runs = [...]; every run if neither is there
    metric = "peak_queue"
    unit = "packets"
    reported = 9415                     # met within `band` (0.1, relative) or `within` (absolute)
    [[ev-f4.expect]]
    metric = "utilization"
    at_least = 0.9                      # or at_most, or both
    [[ev-f4.expect]]
    run = "XCP"
    metric = "peak_queue"
    below = "RCP"                       # or above: another run, in the same seeds, beyond chance
    [[ev-f4.vary]]                      # sensitivity to an assumption: the same expectations, other choices
    name = "RCP at alpha = 0.4"
    runs.RCP = { alpha = 0.4 }          # or options = {...}, or sample = ...
    figures = true                      # drawn too

Further keys of `expect` are arguments of its metric (`flow`, `link`, `between`, ...). Every run is made with several
seeds (`seeds`, 10 if not said): they draw arrivals, starts and the phases of routers. With `sweep = { option = [...] }`
all of it is done for each value of an option (of several options one after the other: all values must differ). An
expectation then says `at` which value or values it holds, if not at all of them, and a `[[ev-f4.curve]]` draws a
metric over the first option, or the one it names as `over_option`. With `against`, another value of the sweep, what is
judged is the ratio of the metric to what it is there. A curve with `argument`, `values` and `x` draws it over
the values of an argument of its own, at x. `missing` names a fact without which a miss proves nothing ("not
comparable"), `cause` says why a refuted claim cannot come out. A variation makes only those runs again that it changes.
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
"""Seeds of the runs that vary an assumption, and of quick runs."""
SERIES_SHOWN = 12
"""Rates of at most so many flows are drawn."""
SLOW, ATTEMPTS = (1.0, 4.0), 2
"""Seconds of real time for one of a live run, the next one tried where runs are void; attempts at each."""
LIVE_COST = 300.0
"""s. About, of a live run."""
CLOSE = 0.1
"""Relative distance from packets within which a live run is as they are, whatever limit is between the two."""


@dataclass(frozen=True)
class Job:
    """One piece of work for a claim: `work(*arguments)` in some process gives plain data, which `key` stands for.

    Jobs of a `group` share what they compute, if they are done in one process.
    """

    key: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    cost: float = 1.0
    role: tuple[Any, ...] = ()
    group: str = ""


# ---- what is to be done ----------------------------------------------------------------------------------


def plan(claim: Claim, quick: bool = False) -> list[Job]:
    """Return the runs that a claim needs.

    Parameters
    ----------
    claim : Claim
        With an experiment.
    quick : bool, optional
        Fewer seeds, and the options that the entry has for it.

    Raises
    ------
    ValueError
        A setup, metric, protocol or run that there is not.
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
                        jobs.append(_job(cost, (name, label, _value_of(point), engine, seed), spec | {
                            "engine": engine, "seed": seed, "series": shown,
                        }))  # fmt: skip
    return jobs


def _of(claim: Claim) -> Experiment:
    if claim.experiment is None:
        raise ValueError(f"claim must have an experiment, got {claim.id}")
    return claim.experiment


def _variations(experiment: Experiment, quick: bool) -> list[Variation]:
    """Those that are made: a quick run leaves out longer ones."""
    return [version for version in experiment.vary if not (quick and "duration" in version.options)]


def _shows(version: Variation | None) -> bool:
    """Whether the runs of a version are drawn."""
    return version is None or version.figures


def _option(experiment: Experiment, value: Any) -> str:
    """Which option is swept through a value."""
    return next(name for name, values in experiment.sweep.items() if value in values)


def _value_of(point: Mapping[str, Any]) -> Any:
    return next(iter(point.values()), None)


def _draws(experiment: Experiment, point: Mapping[str, Any]) -> bool:
    """Whether rates and queues of this point are drawn: of a sweep only where `figures` says so."""
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
    """One expectation for each run and value of the sweep that it is about."""
    found = []
    for item in experiment.expect:
        at = (item.at if isinstance(item.at, tuple) else (item.at,)) if item.at is not None else ()
        for label in item.runs or ((item.run,) if item.run else tuple(experiment.runs)):
            for value in at or [_value_of(point) for point in experiment.points]:
                found.append(replace(item, run=label, runs=(), at=value))
    return found


def _drawn(experiment: Experiment) -> list[Reading]:
    """The metrics that the curves of an experiment need of each run."""
    return [item for curve in experiment.curve for item in _points_of(curve)]


def _points_of(curve: Curve) -> list[Reading]:
    """A curve as it is computed from a run: once, or for each value of its argument."""
    if not curve.argument:
        return [curve]
    return [replace(curve, arguments={**curve.arguments, curve.argument: value}) for value in curve.values]


def _applies(expectation: Expectation, label: str, point: Mapping[str, Any]) -> bool:
    """Whether a run serves an expectation: its own run, or the one it is compared with."""
    if expectation.at is not None and _value_of(point) not in (expectation.at, expectation.against):
        return False
    return label in (expectation.run, expectation.below, expectation.above)


def _spec_of(item: Reading) -> dict[str, Any]:
    """What a job must know of an expectation or curve."""
    return {"metric": item.metric, "unit": item.unit, "arguments": dict(item.arguments)}


def _job(cost: float, role: tuple[Any, ...], spec: dict[str, Any]) -> Job:
    engine, classes = spec["engine"], all_protocols()
    protocols = sorted({table["protocol"] for table in protocol_tables(spec["protocol"])})
    code = digest(
        code_digest(_ENGINES[engine].simulate.__module__, *(classes[name].__module__ for name in protocols)),
        function_digest(setups.get(spec["setup"])),
        *(function_digest(metrics.get(item["metric"]).function) for item in spec["metrics"]),
    )
    group = "live" if engine == "live" else ""  # one after the other: they need processors to themselves
    return Job(digest(code, json.dumps(spec, sort_keys=True)), perform, (spec,), cost, role, group)


# ---- one run ---------------------------------------------------------------------------------------------


def perform(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one run measures: `values` in the units asked for, `series` for the figure, `machine` of a live run.

    Or why it measures nothing: `refused` by the fluid, or `void`, a live run that cannot be made here.

    Parameters
    ----------
    spec : mapping
        Plain data, as `plan` writes it.

    Raises
    ------
    EccError
        The run did not reach its end.
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
    "slow", "attempts", "elapsed", "frozen", "load", "lateness_p50", "lateness_p99", "lateness_p999", "frames_sent",
    "frames_lost", "frames_refused",
)  # fmt: skip
"""What a reader must know of a live run, of its `stats`."""


class _Void(Exception):
    """No live run can be made here, and why."""


def _live(scenario: Scenario, sample: float) -> Trajectory:
    """A live run, as slow as it must be not to be void; transfers of a workload are drawn before it begins."""
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
            data = run.data.isel(flow=slice(len(flows)))  # as of packets, transfers have no columns
            return replace(run, data=data, stats={**run.stats, "attempts": tried})
    raise _Void(f"{run.stats['void']}, in the last of {tried} runs")


def protocol_of(table: Mapping[str, Any]) -> Any:
    """Return a protocol from its table, or the mapping of flows and links to protocols that a scenario takes.

    Parameters
    ----------
    table : mapping
        Of a run, as the ledger has it.
    """
    if "protocol" in table:
        return all_protocols()[table["protocol"]](**{k: v for k, v in table.items() if k != "protocol"})
    whole: dict[str, Any] = {}
    for side, choices in table.items():
        whole[side] = {int(key) if key.isdecimal() else key: protocol_of(choice) for key, choice in choices.items()}
    return whole


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
        from scipy.stats import t

        n = len(self.values)
        if n < 2 or not np.all(np.isfinite(self.values)):
            return 0.0
        return float(t.ppf(0.975, n - 1) * np.std(self.values, ddof=1) / np.sqrt(n))


def judge(claim: Claim, jobs: Sequence[Job], results: Sequence[Mapping[str, Any]], quick: bool = False) -> Finding:
    """Return the finding on a claim whose runs are done.

    Parameters
    ----------
    claim : Claim
        With an experiment.
    jobs, results : sequence of Job, sequence of mapping
        Of `plan`, in its order.
    quick : bool, optional
        As in `plan`; the finding says so.
    """
    experiment = _of(claim)
    by_role = dict(zip((job.role for job in jobs), results, strict=True))
    expectations = _expectations(experiment)
    if experiment.live:
        return _judge_live(claim, by_role)
    met, rows, seeds = [], [], 0
    in_a_seed = False  # whether something that is missed on average is met in one seed alone
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
            f"Quick run: {QUICK_SEEDS} seeds at most, and shorter where the claim has a short form. So few say little "
            "of chance: which of two runs is above the other may change with more."
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
    """The values of a metric over the seeds of a run; None where the engine did not run it."""
    experiment = _of(claim)
    change = next((one for one in experiment.vary if one.name == version), None)
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
    found = _expected(claim, by_role, expectation, version, expectation.run)
    if found is None:
        raise EccError(f"no run of {expectation.run} for claim {claim.id}")
    return found


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
    assert expectation.reported is not None  # the schema asks for one of them
    return abs(mean - expectation.reported) <= _room(expectation)


def _room(expectation: Expectation) -> float:
    """How far a value may be from what is reported."""
    if expectation.within is not None:
        return expectation.within
    return expectation.band * abs(expectation.reported or 0.0)


def _seed_by_seed(estimate: Estimate, other: Estimate | None) -> Iterator[tuple[Estimate, Estimate | None]]:
    """The values of each seed alone."""
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
        factor = f"{expectation.times:g} times as much, " if expectation.times != 1.0 else ""
        notes.append(f"{factor}{word} {expectation.below or expectation.above}: {_short(other.mean)}")
    limits = ((">=", expectation.at_least), ("<=", expectation.at_most))
    bounds = [f"{sign} {limit:g}" for sign, limit in limits if limit is not None]
    notes += ["expected " + " and ".join(bounds)] if bounds else []
    if met and other is None and expectation.reported is not None and estimate.half > _room(expectation):
        notes.append("met on average only: the 95 % interval is wider than what is allowed")
    fluid_run = _expected(claim, by_role, expectation, "", expectation.run, "fluid")
    refused = next((r["refused"] for (v, n, _, e, _), r in by_role.items()
                    if (v, n, e) == ("", expectation.run, "fluid") and "refused" in r), None)  # fmt: skip
    if refused:
        notes.append(f"no fluid run: {refused}")
    return Measurement(
        _name(claim, expectation), _rounded(estimate.mean), expectation.unit, expectation.as_ or expectation.reported,
        "; ".join(notes), None if fluid_run is None else _rounded(fluid_run.mean),
        float(f"{estimate.half:.2g}") if seeds > 1 else None, met,
    )  # fmt: skip


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
    """The verdict and its reason; `few` seeds are behind variations, 0 if as many as behind the rest."""
    missed = [row for row, ok in zip(rows, met, strict=False) if not ok]
    whole = [name for name, now in versions.items() if all(now)]
    broken = [name for name, now in versions.items() if not all(now)]
    said = f"{len(met) - len(missed)} of {len(met)} expectations are met"
    behind = f" ({count(few, 'seed')})" if few else ""
    if not missed:
        if broken:
            return Verdict.CONDITIONAL, f"{said}, but not with {', nor with '.join(broken)}{behind}."
        return Verdict.CONFIRMED, f"{said}{', under every assumption tried' if versions else ''}."
    words = "; ".join(_miss(row) for row in missed[:4]) + (f"; and {len(missed) - 4} more" if len(missed) > 4 else "")
    if whole:
        return Verdict.CONDITIONAL, f"All expectations are met with {', or with '.join(whole)}{behind}; else {words}."
    if experiment.missing:
        return Verdict.NOT_COMPARABLE, f"{said} ({words}), and the paper leaves open {experiment.missing}."
    cause = f"{experiment.cause} " if experiment.cause else ""
    return Verdict.REFUTED, f"{cause}{said}; {words}."


def _survival(met: Sequence[bool], versions: Mapping[str, Sequence[bool]], seeds: int, in_a_seed: bool) -> str:
    """Whether what refutes a claim stands in every seed and with every variation."""
    mends = [name for name, now in versions.items() if any(new and not old for new, old in zip(now, met, strict=True))]
    always = [f"each of {seeds} seeds"] if seeds > 1 and not in_a_seed else []
    always += [f"each of {count(len(versions), 'variation')}"] if versions and not mends else []
    parts = [f"So it is with {' and '.join(always)}."] if always else []
    if seeds > 1 and in_a_seed:
        parts.append("Single seeds meet what their mean does not.")
    if mends:
        parts.append(f"Some expectations are met with {', or with '.join(mends)}.")
    return "".join(f" {part}" for part in parts)


def _miss(row: Measurement) -> str:
    unit = f" {row.unit}" if row.unit else ""
    if row.live is not None:
        return f"{row.name} is {_short(row.live)}{unit} live and {_short(row.value)}{unit} in packets"
    if row.reported is None:
        return f"{row.name} is {_short(row.value)}{unit} ({row.note})"
    return f"{row.name} is {_short(row.value)}{unit} where {_short(row.reported)} is reported"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}") if np.isfinite(value) else value


def _said(experiment: Experiment, value: Any) -> str:
    """A value of the sweep with its option: `capacity 16 Mb/s`."""
    said = _short(value) if isinstance(value, float) else str(value)
    return f"{_option(experiment, value).replace('_', ' ')} {said}"


def _name(claim: Claim, expectation: Expectation) -> str:
    experiment, given = _of(claim), expectation.arguments
    said = expectation.name
    if not said:
        said = metrics.get(expectation.metric).title
        if "flow" in given:
            said += f" of flow {given['flow']}"
        if "link" in given:
            said += f" at link {given['link']}"
        if "between" in given:
            said += f", {given['between'][0]:g} to {given['between'][1]:g} s"
        if "after" in given:
            said += f" after {given['after']:g} s"
    if expectation.at is not None:
        said += f", {_said(experiment, expectation.at)}"
    if expectation.against is not None:
        said += f" over that at {expectation.against}"
    for word, other in (("below", expectation.below), ("above", expectation.above)):
        if other:
            times = f"{expectation.times:g} times that " if expectation.times != 1.0 else ""
            said += f", {times}{word} {other}'s"
    return f"{expectation.run}: {said}" if len(experiment.runs) > 1 else said


# ---- live runs beside packets ----------------------------------------------------------------------------


def _judge_live(claim: Claim, by_role: Mapping[Any, Any]) -> Finding:
    """Whether live runs come out as packets do, whatever the paper says of both."""
    experiment = _of(claim)
    rows: list[Measurement] = []
    missed: dict[tuple[str, Any], list[Measurement]] = {}
    reported = Counter[str]()
    for e in _expectations(experiment):
        packets, other = _estimate(claim, by_role, e, ""), _other(claim, by_role, e, "")
        found, beside = _expected(claim, by_role, e, "", e.run, "live"), _other(claim, by_role, e, "", "live")
        as_packets = _is_met(e, packets, other)
        row = replace(_row(claim, by_role, e, packets, other, as_packets), met=None)
        if found is not None and (beside is not None or other is None):
            as_live = _is_met(e, found, beside)
            reported.update(packets=as_packets, live=as_live)
            where = {(True, True): "both", (False, False): "neither", (True, False): "packets", (False, True): "live"}
            is_close = abs(found.mean - packets.mean) <= CLOSE * abs(packets.mean)
            said = f"as reported: {where[as_packets, as_live]}"
            row = replace(
                row, live=_rounded(found.mean), met=as_live == as_packets or is_close,
                note=f"{row.note}; {said}" if row.note else said,
            )  # fmt: skip
            if not row.met:
                missed.setdefault((e.run, e.at), []).append(row)
        rows.append(row)
    void: dict[str, list[str]] = {}
    for (_, label, value, engine, _), result in by_role.items():
        name = label if value is None else f"{label}, {_said(experiment, value)}"
        if engine == "live" and "void" in result:
            void.setdefault(result["void"], []).append(name)
            rows.append(Measurement(f"{name}: live run", "", live="void", note=result["void"]))
        elif engine == "live":
            rows.append(_driven(name, result["machine"]))
    whole, off = [row for row in rows if row.met is not None], [row for of_run in missed.values() for row in of_run]
    reason = f"{len(whole) - len(off)} of {len(whole)} figures are live as they are in packets"
    reason += f"; {'; '.join(map(_miss, off))}." if off else "."
    reason += f" {reported['live']} are as reported live, {reported['packets']} in packets."
    said = "; ".join(f"{', '.join(names)}: {why}" for why, names in void.items())
    verdict = Verdict.REFUTED if off else Verdict.CONDITIONAL if void else Verdict.CONFIRMED
    if not whole:
        verdict, reason = Verdict.NOT_COMPARABLE, ""
    reason = f"{reason}{f' Void: {said}.' if void else ''}".strip()
    seconds = sum(float(result["seconds"]) for result in by_role.values())
    return Finding(
        claim, verdict, reason, rows, _pictures(claim, by_role, missed), [*experiment.assumptions, *_OF_LIVE], seconds
    )  # fmt: skip


_OF_LIVE = (
    "Live runs are between network namespaces of one machine, on a clock that stands while the process is stalled. One "
    "with late or lost frames is void and made again, then at a lower rate. Flows that come and go are drawn before it "
    "begins.",
    "One seed, without variations. A live figure is as in packets if it is within a tenth of theirs, or if both are as "
    "reported, or neither.",
)


def _driven(name: str, machine: Mapping[str, float]) -> Measurement:
    """At which rate a live run was driven, and what became of its frames."""
    rate = _rounded(machine["fastest"] / machine["slow"] / 1e6)
    return Measurement(
        f"{name}: rate at which the fastest link was driven", "", "Mb/s", live=rate, note=of_machine([machine])
    )


def of_machine(runs: Sequence[Mapping[str, float]]) -> str:
    """Return what a reader must know of live runs, the worst of all, times and frames together.

    Parameters
    ----------
    runs : sequence of mapping
        With `MACHINE` of their `stats`.
    """
    worst = {name: max(run[name] for run in runs) for name in MACHINE}
    whole = {name: sum(run[name] for run in runs) for name in MACHINE}
    late = "/".join(f"{1e6 * worst[f'lateness_{share}']:.0f}" for share in ("p50", "p99", "p999"))
    return (
        f"{_speed(worst['slow'])}: {whole['elapsed']:.0f} s, in {whole['frozen']:.0f} s of which time stood; "
        f"{whole['frames_sent'] / 1e6:.2f} million frames, {whole['frames_lost']:.0f} lost, "
        f"{whole['frames_refused']:.0f} refused; 50/99/99.9 % of the packets less than {late} us late; "
        f"{count(int(whole['attempts']) - len(runs), 'void run')} before; load {worst['load']:.1f}"
    )


def _speed(slow: float) -> str:
    return "at full speed" if slow == 1.0 else f"{slow:g} times slow"


# ---- figures ---------------------------------------------------------------------------------------------


def _pictures(
    claim: Claim, by_role: Mapping[Any, Any], missed: Mapping[tuple[str, Any], Sequence[Measurement]]
) -> list[Picture]:
    """Runs, live ones first, of each kind those first that miss what is expected (run, value -> rows), then curves."""
    experiment = _of(claim)
    kinds = {"packet": ("Packet runs", "as expected")}
    if experiment.live:
        kinds = {"live": ("Live runs", "as in packets")} | kinds
    judged = next(iter(kinds))
    found: dict[tuple[str, bool], list[Picture]] = {(engine, off): [] for engine in kinds for off in (True, False)}
    for (version, label, value, engine, _), result in by_role.items():
        series = result.get("series")
        if not series:
            continue
        where = "" if value is None else f", {_said(_of(claim), value)}"
        kind = f"Live run {_speed(result['machine']['slow'])}" if engine == "live" else "Packet run"
        run = f"{kind} with {version}, seed 1." if version else f"{kind}, seed 1."
        rates, queues = _reported(claim, label, value, series)
        figure = plot.trajectory_figure(
            series["time"], np.array(series["rates"]).T, np.array(series["queues"]).T,
            flows=series["flows"], links=series["links"], packet_size=series["packet_size"],
            levels=rates, queue_levels=queues,
        )  # fmt: skip
        wrong = [] if version or engine != judged else missed.get((label, value), [])
        more = f"; and {len(wrong) - 2} more" if len(wrong) > 2 else ""
        mark = f"Not {kinds[engine][1]}: {'; '.join(map(_miss, wrong[:2]))}{more}. " if wrong else ""
        title = f"{label}{where}{', varied' if version else ''}{', live' if engine == 'live' else ''}"
        found[engine, bool(wrong)].append(Picture.of(figure, title, f"{mark}{run} {series['said']}"))
    curves = [_curve(claim, by_role, curve) for curve in experiment.curve]
    drawn = [
        side_by_side(pictures, f"{kinds[engine][0]} that are not {kinds[engine][1]}" if off else kinds[engine][0])
        for (engine, off), pictures in found.items()
    ]
    return [*(picture for of_kind in drawn for picture in of_kind), *curves]


def _reported(claim: Claim, label: str, value: Any, series: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """What the paper reports of the rates and peak queues that a figure of a run shows, when and in its units."""
    found: dict[str, list[Any]] = {"rate": [], "peak_queue": []}
    shown = {"rate": ("flow", "x", series["flows"]), "peak_queue": ("link", "l", series["links"])}
    for item in _expectations(_of(claim)):
        if item.metric not in found or item.reported is None or (item.run, item.at) != (label, value):
            continue
        argument, letter, names = shown[item.metric]
        name = f"{letter}{item.arguments.get(argument, 0) + 1}"
        if name in names and item.against is None:
            kind = metrics.get(item.metric).kind
            unit = (metrics.UNITS[kind] | {"packets": series["packet_size"], "": 1.0})[item.unit]
            span = tuple(item.arguments.get("between", (series["time"][0], series["time"][-1])))
            found[item.metric].append((f"{name}, reported", item.reported * unit, span))
    return found["rate"], found["peak_queue"]


def _curve(claim: Claim, by_role: Mapping[Any, Any], curve: Curve) -> Picture:
    """A metric over the values of the sweep or of an argument, a line for each run, beside what the paper shows."""
    experiment = _of(claim)
    points: list[tuple[Reading, Any]]
    if curve.argument:
        name, values, points = curve.argument, curve.x, [(point, None) for point in _points_of(curve)]
    else:
        name = curve.over_option or next(iter(experiment.sweep))
        values, points = experiment.sweep[name], [(curve, value) for value in experiment.sweep[name]]
    lines: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}  # as they are, and varied
    halves: dict[str, list[float]] = {}
    made = {version for version, *_ in by_role}
    drawn = [version for version in experiment.vary if version.figures and version.name in made]
    for change in (None, *drawn):
        for label in experiment.runs:
            if change and not change.changes(label):
                continue
            version = change.name if change else ""
            found = [_find(claim, by_role, point, version, label, "packet", at) for point, at in points]
            of_run = [f.mean if f else float("nan") for f in found]
            line = f"{label}, varied" if change else label
            lines[change is not None][line] = of_run
            if any(f and f.half and len(f.values) > 2 for f in found):  # two seeds bound a mean by many times itself
                halves[line] = [f.half if f else float("nan") for f in found]
    shown = {f"{label}, reported": (*np.array(given, float).T, None) for label, given in curve.reported.items()}
    title, unit = curve.name or metrics.get(curve.metric).title, curve.unit
    figure = plot.boundary_figure(
        values, lines[False], lines[True], shown, x_title=curve.x_title or name.replace("_", " "),
        y_title=f"{title} [{unit}]" if unit else title, log_x=curve.log_x, log_y=curve.log_y, errors=halves,
    )  # fmt: skip
    said = f"Packet runs, mean over seeds{'; bars are its 95 % intervals' if halves else ''}."
    said += "".join(f" Varied: {change.name}." for change in drawn)
    return Picture.of(figure, title[:1].upper() + title[1:], said)
