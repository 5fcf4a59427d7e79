"""The schema of claims on runs: an entry of the ledger as typed records, checked completely when it is loaded.

`experiments` shows an entry. Unknown keys, values of the wrong type, and unknown names (setup, option, protocol,
metric, argument, run, value of the sweep) are rejected with a one-line message that names the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from inspect import Parameter, signature
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ecc.claims import setups
from ecc.models import all_protocols
from ecc.results import metrics

__all__ = ["Curve", "Expectation", "Experiment", "Reading", "Variation", "read"]

Table = Mapping[str, Any]
Values = tuple[Any, ...]
R = TypeVar("R")


@dataclass(frozen=True)
class Reading:
    """A metric of a run: its name, its unit, and its arguments."""

    metric: str
    unit: str = ""
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Expectation(Reading):
    """The expected value of a metric in some runs (`runs` or `run`; all runs if both are empty).

    The expectation is one of three: near the `reported` value (relative `band` or absolute `within`); from `at_least`
    to `at_most`; or significantly `below` or `above` another run with the same seeds, by a factor `times`. `at`
    restricts it to values of the sweep; `against` divides by the metric at another value. `name` is the displayed name
    of the metric, `as` the displayed text of the reported value.
    """

    run: str = ""
    runs: tuple[str, ...] = ()
    reported: float | None = None
    band: float = 0.1
    within: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    below: str = ""
    above: str = ""
    times: float = 1.0
    at: Any = None
    against: Any = None
    name: str = ""
    as_: str = ""


@dataclass(frozen=True)
class Curve(Reading):
    """A metric over the sweep (`over_option` if it has several options), or over `values` of its `argument` at `x`."""

    name: str = ""
    argument: str = ""
    values: Values = ()
    x: Values = ()
    over_option: str = ""
    reported: Table = field(default_factory=dict)
    x_title: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Variation:
    """Other choices of an assumption, with the same expectations; drawn if `figures` is true."""

    name: str
    options: Table = field(default_factory=dict)
    runs: Mapping[str, Table] = field(default_factory=dict)
    sample: float | None = None
    figures: bool = False

    def changes(self, label: str) -> bool:
        """Return whether the variation changes a run; unchanged runs are not repeated.

        Parameters
        ----------
        label : str
            Label of the run.
        """
        return bool(self.options) or self.sample is not None or label in self.runs


@dataclass(frozen=True)
class Experiment:
    """The runs for a claim and the expectations on them.

    `options` are arguments of the setup, replaced by those in `quick` in quick runs. `sweep` maps an option to its
    values. `sample` is the sampling interval and `cost` the duration of a run, both in s. `figures` draws all runs, or
    those at the given values of the sweep; if None, runs without a sweep are drawn. `fluid` selects the runs that the
    fluid repeats; `live` repeats all on real frames. `missing` is a fact without which a miss proves nothing; `cause`
    explains a refuted claim.
    """

    setup: str
    runs: Mapping[str, Table]
    expect: tuple[Expectation, ...]
    options: Table = field(default_factory=dict)
    quick: Table = field(default_factory=dict)
    sweep: Mapping[str, Values] = field(default_factory=dict)
    sample: float = 0.1
    cost: float = 3.0
    seeds: int = 10
    figures: bool | Values | None = None
    fluid: bool | tuple[str, ...] = False
    live: bool = False
    assumptions: tuple[str, ...] = ()
    missing: str = ""
    cause: str = ""
    histogram_from: float | None = None
    vary: tuple[Variation, ...] = ()
    curve: tuple[Curve, ...] = ()

    @property
    def points(self) -> list[dict[str, Any]]:
        """Points of the sweep, one option and value each, for example [{"load": 0.9}]; [{}] without a sweep."""
        return [{name: value} for name, values in self.sweep.items() for value in values] or [{}]

    def on_real_frames(self) -> Experiment:
        """Return this experiment with live runs, for one seed and without variations: each run takes minutes."""
        return replace(self, live=True, seeds=1, vary=(), curve=(), missing="", cause="")


def read(claim: str, entry: Table) -> Experiment:
    """Return the experiment that an entry describes.

    Parameters
    ----------
    claim : str
        Id of the claim, for messages.
    entry : mapping
        Table in the ledger, without the keys of the claim itself (source, statement, ...).

    Raises
    ------
    ValueError
        A key is unknown or missing, a name does not exist, or values contradict each other.
    TypeError
        A value has the wrong type.
    """
    table = dict(entry)
    for key, kind in (("expect", Expectation), ("vary", Variation), ("curve", Curve)):
        if isinstance(table.get(key), list | tuple):
            table[key] = tuple(_record(kind, item, f"{key}[{k}] of claim {claim}") for k, item in enumerate(table[key]))
    experiment = _record(Experiment, table, f"claim {claim}")
    _check(claim, experiment)
    return experiment


def _record(kind: type[R], table: Any, where: str) -> R:
    """Return the record of a table; further keys of a reading are arguments of its metric."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table, got {table!r}")
    hints = get_type_hints(kind)
    known = {f.name.rstrip("_"): f for f in fields(kind) if f.name != "arguments"}  # type: ignore[arg-type]
    missing = [key for key, f in known.items() if f.default is f.default_factory is MISSING and key not in table]
    if missing:
        raise ValueError(f"{where} must have the key {missing[0]!r}")
    values = {
        known[key].name: tuple(value) if isinstance(value, list) else value
        for key, value in table.items()
        if key in known
    }
    for name, value in values.items():
        if not _is(value, hints[name]):
            wanted = getattr(hints[name], "__name__", str(hints[name])).replace("typing.", "")
            raise TypeError(f"{name.rstrip('_')} in {where} must be {wanted}, got {value!r}")
    more = {key: value for key, value in table.items() if key not in known}
    taken: list[str] = []
    if issubclass(kind, Reading):
        metric = _known("metric", values["metric"], metrics.METRICS, where)
        parameters = list(signature(metrics.METRICS[metric].function).parameters.values())[2:]
        taken = [parameter.name for parameter in parameters]
        needed = [p.name for p in parameters if p.default is Parameter.empty and p.name not in more]
        needed = [name for name in needed if name != values.get("argument")]
        if needed:
            raise ValueError(f"{where} must have the key {needed[0]!r}, which the metric {metric} needs")
        values["arguments"] = more
    for key in more:
        _known("key", key, [*known, *taken], where)
    return kind(**values)


def _check(claim: str, experiment: Experiment) -> None:
    """Reject unknown names and contradictory values."""
    runs, where = experiment.runs, f"claim {claim}"
    parameters = signature(setups.get(experiment.setup)).parameters
    free = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    for table in (experiment.options, experiment.quick, experiment.sweep, *(v.options for v in experiment.vary)):
        for key in table:
            if not free:
                _known(f"option of {experiment.setup}", key, [name for name in parameters if name != "seed"], where)
    values = [value for points in experiment.sweep.values() for value in points]
    if any(value in values[:k] for k, value in enumerate(values)):
        raise ValueError(f"sweep must have every value once, got {dict(experiment.sweep)} in {where}")
    for label, table in runs.items():
        for run_table in protocol_tables(table):
            _known("protocol", run_table.get("protocol"), all_protocols(), f"run {label} of {where}")
    if not isinstance(experiment.fluid, bool):
        for label in experiment.fluid:
            _known("run", label, runs, f"fluid of {where}")
    for k, item in enumerate(experiment.expect):
        place = f"expect[{k}] of {where}"
        for label in (item.run, *item.runs, item.below, item.above):
            if label:
                _known("run", label, runs, place)
        for value in (*(item.at if isinstance(item.at, tuple) else (item.at,)), item.against):
            if value is not None:
                _known("value", value, values, place)
        if item.reported is item.at_least is item.at_most is None and not (item.below or item.above):
            raise ValueError(f"{place} must have one of the keys reported, at_least, at_most, below, above")
    for k, version in enumerate(experiment.vary):
        for label in version.runs:
            _known("run", label, runs, f"vary[{k}] of {where}")
    for k, curve in enumerate(experiment.curve):
        place = f"curve[{k}] of {where}"
        if curve.argument and not len(curve.values) == len(curve.x) > 0:
            raise ValueError(f"{place} must have as many x as values, got {len(curve.x)} and {len(curve.values)}")
        if curve.over_option or not curve.argument:
            _known("over_option", curve.over_option or next(iter(experiment.sweep), ""), experiment.sweep, place)


def protocol_tables(table: Table) -> list[Table]:
    """Return the protocol tables of a run: a single table, or those of flows and links.

    Parameters
    ----------
    table : mapping
        Table of the run.
    """
    if "protocol" in table:
        return [table]
    return [item for side in table.values() for item in (side if isinstance(side, list | tuple) else side.values())]


def _known(what: str, name: Any, among: Any, where: str) -> Any:
    if name not in among:
        raise ValueError(f"{what} must be one of {', '.join(map(str, among))}, got {name!r} in {where}")
    return name


def _is(value: Any, hint: Any) -> bool:
    """Return whether a value has a type; an integer counts as a float."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is UnionType:
        return any(_is(value, option) for option in inner)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_is(item, inner[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_is(item, inner[1]) for item in value.values())
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)
