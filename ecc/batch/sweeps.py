"""Sweeps: evaluation of a function, or of a scenario, on a grid of arguments; with any executor, resumable."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.digests import digest, function_digest
from ecc._support.files import checked_digest
from ecc._support.interrupts import InterruptRecord
from ecc._support.intervals import mean_with_interval
from ecc._support.quantity import as_count
from ecc._support.reports import ProgressCallback, Share
from ecc._support.store import Store
from ecc._support.workers import WorkersLost, in_workers
from ecc.batch.table import SweepTable
from ecc.errors import EccError, warn

if TYPE_CHECKING:
    import xarray as xr

    from ecc.packet.ensembles import Runs
    from ecc.scenario import Scenario

__all__ = [
    "MetricError",
    "ScenarioRuns",
    "SweepError",
    "SweepInterrupted",
    "data_files",
    "names_data_file",
    "EarlyEnd",
    "sweep",
    "sweep_means",
    "swept",
    "unused_seed",
]


class MetricError(EccError):
    """Some metrics of a run cannot be computed: `reasons` by name of the metric; `values` has the other metrics."""

    def __init__(self, values: Mapping[str, float], reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
        self.values, self.reasons = dict(values), dict(reasons)

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricError, (self.values, self.reasons)


class SweepError(EccError):
    """The function failed at some points; `dataset` has the other points, and the errors in its variable "error"."""

    def __init__(self, message: str, dataset: xr.Dataset) -> None:
        super().__init__(message)
        self.dataset = dataset


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a sweep; `dataset` has the finished points, and "not run" in "error" for the others."""

    def __init__(self, message: str, dataset: xr.Dataset) -> None:
        super().__init__(message)
        self.dataset = dataset


@check_arguments
def sweep(
    function: Callable[..., Mapping[str, float] | float],
    grid: Mapping[str, Sequence[Any]],
    executor: Executor | int | None = None,
    store: str | Path | None = None,
    progress: ProgressCallback | None = None,
    resumed: Callable[[int, int], None] | None = None,
    part: tuple[int, int] | None = None,
    zipped: Mapping[str, Sequence[Any]] | None = None,
) -> xr.Dataset:
    """Return the values of a function on every point of a grid.

    Parameters
    ----------
    function : callable
        Called as function(name=value, ...); returns a number, or a mapping from names to numbers.
    grid : mapping
        Values (numbers or strings) by name; the axes of the result, in this order.
    executor : Executor or int, optional
        Any concurrent.futures.Executor (processes, threads, or a cluster: `ecc.batch.cluster.Cluster`), or a number of
        worker processes. None: calls in this process. A point that kills its worker is tried once more, then it fails.
        Short packet runs of `ScenarioRuns` with built-in protocols are made in as many threads instead, as processes
        take longer to start.
    store : str or Path, optional
        Path of a file (for a folder: its "results.sqlite") that keeps each finished point. The key is a digest of the
        function (its code and everything that it reaches) and of the point, so a later call with the same function
        resumes after this one, even if it was killed. With `ScenarioRuns`, each metric has its own entry; series are
        not kept.
    progress : callable, optional
        Called after each point with a `Progress`: the `share` of points that have ended.
    resumed : callable, optional
        If points are in the store, called before the first new one with their number and the total number.
    part : (int, int), optional
        (k, n): only part k of n, numbered from 1: every n-th point, beginning with the k-th. For example (1, 4).
    zipped : mapping, optional
        Values by name that vary together: lists of one length, of which a point has the k-th value of each. They are
        one more axis of the grid, the last one.

    Returns
    -------
    Dataset
        Dataset with one variable for each name of the results ("value" for a plain number). It is NaN at points without
        this result, and at points of other parts. The axis of `zipped` has the name of its first list; the other lists
        are coordinates along it.

    Raises
    ------
    ValueError
        An empty grid or axis, lists in `zipped` of different lengths, a name in both, a store that is a file of another
        kind, or a part out of range.
    TypeError
        A store for a function that uses objects without a digest.
    SweepError
        The function, or some metrics of `ScenarioRuns`, failed at some points (after all others are done), or a cluster
        was lost. The exception has the finished points in `dataset`.
    SweepInterrupted
        Ctrl-C; a KeyboardInterrupt with the finished points in `dataset`.

    Warns
    -----
    RuntimeWarning
        If the store cannot be written; the result is complete.

    Examples
    --------
    >>> int(sweep(lambda a, b: a * b, {"a": [1, 2], "b": [3, 4]})["value"].sum())
    21
    >>> sweep(lambda a, b: a * b, {}, zipped={"a": [1, 2], "b": [3, 4]})["value"].values
    array([3., 8.])
    """
    table, end = swept(function, grid, executor, store, progress, resumed, part, zipped, prepare=_prepare_datasets)
    if end is not None:
        raise end.kind(end.message, table.dataset())
    return table.dataset()


def _prepare_datasets() -> None:
    import xarray  # noqa: F401, imported before the runs, as after Ctrl-C it would delay the end


class EarlyEnd(NamedTuple):
    """The reason for which a sweep lacks results: the exception that `sweep` raises, and its message."""

    kind: type[SweepError | SweepInterrupted]
    message: str


def swept(
    function: Callable[..., Mapping[str, float] | float],
    grid: Mapping[str, Sequence[Any]],
    executor: Executor | int | None = None,
    store: str | Path | None = None,
    progress: ProgressCallback | None = None,
    resumed: Callable[[int, int], None] | None = None,
    part: tuple[int, int] | None = None,
    zipped: Mapping[str, Sequence[Any]] | None = None,
    prepare: Callable[[], None] | None = None,
) -> tuple[SweepTable, EarlyEnd | None]:
    """Return the values of a function on every point of a grid as a table, and the reason if some are missing.

    Parameters
    ----------
    function, grid, executor, store, progress, resumed, part, zipped
        See `sweep`.
    prepare : callable, optional
        Called before the first point, when Ctrl-C already keeps the results.
    """
    axes = _Axes.of(grid, zipped or {})
    first, step = (1, 1) if part is None else part
    if not 1 <= first <= step:
        raise ValueError(f"part must be (k, n) with k from 1 to n, got {shown(part)}")
    points = axes.points()
    mine = range(first - 1, len(points), step)
    stored: _PointStore | None = None
    done: dict[int, dict[str, float]] = {}
    failures: dict[int, str] = {}
    subject = "some metrics"
    try:
        if prepare is not None:
            prepare()
        calls = [function.pinned(**point) for point in points] if hasattr(function, "pinned") else points
        if store is not None:
            stored = _PointStore(function, store)
            done = stored.get_all({k: calls[k] for k in mine})
        todo = [k for k in mine if k not in done]
        if done and resumed is not None:
            resumed(len(done), len(mine))
        all_outcomes = _outcomes(function, [calls[k] for k in todo], executor)
        with InterruptRecord() as interrupts, closing(all_outcomes) as outcomes:
            for ended in outcomes:
                if interrupts.noted and executor is None:  # a run in the function ended early, with a part of its data
                    raise KeyboardInterrupt
                results: dict[int, dict[str, float]] = {}
                for index, value in ended:
                    k = todo[index]
                    try:
                        results[k] = _numbers(value)
                    except MetricError as error:
                        failures[k], results[k] = str(error), error.values
                    except Exception as error:
                        failures[k], subject = f"{type(error).__name__}: {error}", "the function"
                if stored is not None:
                    stored.put_all(results)
                done |= results  # after the store: after Ctrl-C every point in `done` is stored
                if progress is not None and results:
                    progress(Share(len(done) / len(mine)))
    except (KeyboardInterrupt, WorkersLost) as error:
        missing = dict.fromkeys((k for k in mine if k not in done), "not run") | failures
        if len(missing) > len(failures):
            how = f"after {len(done)} of {len(mine)} points"
            end = (
                EarlyEnd(SweepError, f"ended {how}: {error}")
                if isinstance(error, WorkersLost)
                else EarlyEnd(SweepInterrupted, f"interrupted {how}")
            )
            return _table(axes, len(points), done, missing), end
    finally:
        if stored is not None:
            stored.close()
    if failures:
        first = min(failures)
        message = f"{subject} failed at {len(failures)} of {len(mine)} points, first at {_label(points[first])}"
        return _table(axes, len(points), done, failures), EarlyEnd(SweepError, f"{message}: {failures[first]}")
    return _table(axes, len(points), done), None


@dataclass(frozen=True)
class _Axes:
    """The axes of a sweep: those of a grid, and lists that vary together as the last one."""

    grid: dict[str, list[Any]]
    zipped: dict[str, list[Any]]

    @classmethod
    def of(cls, grid: Mapping[str, Sequence[Any]], zipped: Mapping[str, Sequence[Any]]) -> _Axes:
        """Return the axes after checks of their names and lengths."""
        axes = cls(*({name: list(values) for name, values in group.items()} for group in (grid, zipped)))
        if not (axes.grid or axes.zipped) or not all(axes.grid.values()):
            raise ValueError(f"grid must have at least one axis and a value on each, got {shown(axes.grid)}")
        lengths = {name: len(values) for name, values in axes.zipped.items()}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            counts = ", ".join(f"{count} of {name}" for name, count in lengths.items())
            raise ValueError(f"zipped must be lists of one length, at least 1, got {counts}")
        if both := axes.grid.keys() & axes.zipped.keys():
            raise ValueError(f"zipped must not repeat an axis of the grid, got {', '.join(sorted(both))}")
        return axes

    def shape(self) -> dict[str, int]:
        """Return the number of values by the name of the axis; lists that vary together have the name of the first."""
        lists = [*self.grid.items(), *list(self.zipped.items())[:1]]
        return {name: len(values) for name, values in lists}

    def points(self) -> list[dict[str, Any]]:
        """Return the settings of each point, of which the last axis varies fastest."""
        steps = [dict(zip(self.zipped, values, strict=True)) for values in zip(*self.zipped.values(), strict=True)]
        return [
            dict(zip(self.grid, values, strict=True)) | step
            for values in product(*self.grid.values())
            for step in (steps if self.zipped else [{}])
        ]

    def coordinates(self) -> dict[str, tuple[str, NDArray[Any]]]:
        """Return the axis and the values of each coordinate of the result."""
        along = next(iter(self.zipped), "")
        axes = {name: (name, np.asarray(values)) for name, values in self.grid.items()}
        return axes | {name: (along, np.asarray(values)) for name, values in self.zipped.items()}


class _PointStore:
    """Finished points in a store, each under a digest of the function and of the point.

    If a function has `parts` (name of a result -> objects that compute it), each part has its own entry, which another
    function with the same part finds.
    """

    def __init__(self, function: Any, store: str | Path) -> None:
        self._store, self._warned = Store(store), False
        self._function = function.caller() if hasattr(function, "caller") else function
        self._parts: dict[str, Any] = function.parts() if hasattr(function, "parts") else {"": (function,)}
        # A function may change objects that it uses, for example a list of its calls; it counts as the same function.
        now = {name: function_digest(*part) for name, part in self._parts.items()}
        self._identity = {name: self._store.get(digest("same function", key)) or key for name, key in now.items()}
        self._digests: dict[tuple[Any, ...], str] = {}
        self._keys_of: dict[int, dict[str, str]] = {}

    def _keys(self, point: Mapping[str, Any]) -> dict[str, str]:
        reached = ""
        if hasattr(self._function, "depends_on"):
            with suppress(Exception):  # the call itself will report the error
                reached = self._digest(self._function.depends_on(**point))
        return {name: digest("sweep", key, reached, _label(point)) for name, key in self._identity.items()}

    def _digest(self, objects: tuple[Any, ...]) -> str:
        """Return the digest of objects, computed once for all points."""
        if objects not in self._digests:
            self._digests[objects] = function_digest(*objects)
        return self._digests[objects]

    def get_all(self, points: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, float]]:
        """Return the results of the points that have all of them."""
        self._keys_of = {k: self._keys(point) for k, point in points.items()}
        stored = self._store.get_all([key for keys in self._keys_of.values() for key in keys.values()])
        results: dict[int, dict[str, float]] = {}
        for k, keys in self._keys_of.items():
            parts = [stored.get(key) for key in keys.values()]
            if all(isinstance(part, dict) for part in parts):
                results[k] = {name: value for part in parts for name, value in part.items()}  # type: ignore[union-attr]
        return results

    def put_all(self, results: Mapping[int, Mapping[str, float]]) -> None:
        """Keep results by the number of their points."""
        rows: dict[str, Mapping[str, float]] = {}
        for k, result in results.items():
            for name, key in self._keys_of[k].items():
                if not name:
                    rows[key] = result
                elif name in result:  # a metric that could not be computed is missing
                    rows[key] = {name: result[name]}
        self._store.put_all(rows)
        if self._store.trouble is not None and not self._warned:
            self._warned = True
            warn(self._store.trouble)

    def close(self) -> None:
        """Store the digest of the function after its calls, as an alias of its digest before them."""
        for name, part in self._parts.items():
            with suppress(TypeError):
                after = function_digest(*part)
                if after != self._identity[name] and self._store.path.exists():
                    self._store.put(digest("same function", after), self._identity[name])


@dataclass(frozen=True)
class ScenarioRuns:
    """A scenario as a function of some of its settings, for `sweep`: each call is a run and returns its metrics.

    Parameters
    ----------
    scenario : mapping
        Result of `Scenario.to_dict`, or the tables of a scenario's TOML.
    metrics : sequence of str, or mapping
        Names in `ecc.metrics`, for example "utilization" or "peak_queue"; or name of a result -> name of a metric and
        its own arguments, which override `arguments`, for example {"share of 1": ("rate", {"flow": 1})}.
    engine : str
        "packet" or "fluid".
    sample : float or str or None
        Sample period, in s or with a unit; None: the default of `simulate`.
    arguments : mapping or None
        Arguments of all metrics that accept them: `link`, `flow`, `flows`, `between` (s). `between` is by default the
        last half of the run, and the whole run for metrics that select transfers by their start.
    options : mapping or None
        Options of fluid runs, for example {"time": "averaged"}; only with engine "fluid".

    Raises
    ------
    ValueError
        Options with another engine.

    Examples
    --------
    >>> runs = ScenarioRuns(tables, ["utilization"])  # doctest: +SKIP
    >>> sweep(runs, {"protocol.alpha": [0.2, 0.4], "links.0.capacity": ["10 Mb/s", "1 Gb/s"]})  # doctest: +SKIP
    """

    scenario: Mapping[str, Any]
    metrics: Sequence[str] | Mapping[str, tuple[str, Mapping[str, Any]]]
    engine: str = "packet"
    sample: float | str | None = None
    arguments: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.options and self.engine != "fluid":
            raise ValueError(f"options must be None for engine={self.engine!r}, got {shown(dict(self.options))}")
        tables = deepcopy(dict(self.scenario))
        for table, key in data_files(tables):
            with suppress(OSError, ValueError):  # `at` reports it
                table.setdefault("digest", checked_digest(table[key], key))
        object.__setattr__(self, "scenario", tables)

    def pinned(self, **settings: Any) -> dict[str, Any]:
        """Return settings with the digest of each data file that they name, so that new content is a new point.

        Parameters
        ----------
        **settings : object
            See `at`.
        """
        pinned = dict(settings)
        for path, value in settings.items():
            place, _, key = path.rpartition(".")
            if names_data_file(path) and isinstance(value, str) and "\n" not in value:
                with suppress(OSError, ValueError):  # `at` reports it
                    pinned.setdefault(f"{place}.digest", checked_digest(value, key))
        return pinned

    def at(self, **settings: Any) -> Scenario:
        """Return the scenario with some settings.

        Parameters
        ----------
        **settings : path -> value
            Paths of settings, for example protocol.alpha, links.0.capacity or flows.*.access_delay (every flow).

        Raises
        ------
        ValueError
            An unknown path, a value that the scenario refuses, a sample, link or flow out of range, or a time `between`
            that contains no end of a sample or is not within the run.
        """
        from ecc.scenario import Scenario

        tables = deepcopy(dict(self.scenario))
        for path, value in settings.items():
            _set_value(tables, path, value)
        try:
            scenario = Scenario.from_dict(tables)
        except ValueError as error:
            tables_of_names = [path.removesuffix(".name") for path in settings if path.endswith(".name")]
            if tables_of_names and "has no key" in str(error):
                example = f'{tables_of_names[0]}={{name = "..."}}'
                raise ValueError(f"{error} (values as {example} replace the other parameters, too)") from None
            raise
        period = scenario.sample_period(self.sample)
        for arguments in (self.arguments or {}, *(overrides for _, overrides in self._chosen().values())):
            _check_metric_arguments(arguments, scenario, period)
        return scenario

    def _chosen(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Return the name of each result with the name of its metric and the metric's own arguments."""
        return dict(self.metrics) if isinstance(self.metrics, Mapping) else {name: (name, {}) for name in self.metrics}

    def __call__(self, **settings: Any) -> dict[str, float]:
        """Run the scenario with some settings and return the metrics of the run.

        Parameters
        ----------
        **settings : object
            See `at`.

        Raises
        ------
        ValueError
            An unknown metric, or a setting that `at` refuses.
        EccError
            The run ended early.
        MetricError
            Some metrics cannot be computed for this run; the exception has the others.
        KeyboardInterrupt
            Ctrl-C ended it.
        """
        return self.caller()(**settings)

    def caller(self, cancel: Callable[[], bool] | None = None) -> _Calls:
        """Return an equal function for many calls in one thread, which share work if their settings differ in the seed.

        Parameters
        ----------
        cancel : callable, optional
            Called regularly; packet runs end when it returns True.
        """
        return _Calls(self, cancel)

    def parts(self) -> dict[str, tuple[Any, ...]]:
        """Return the objects that determine each metric: a sweep of this metric alone, and its function.

        Returns
        -------
        dict
            Name of the metric -> objects with the digest under which a store keeps it. Another sweep of the same
            scenario finds the metrics that both have. A new metric, or one with other arguments, requires new runs, as
            stores keep no series.
        """
        from ecc.results.metrics import get, taken

        arguments = self.arguments or {}
        parts: dict[str, tuple[Any, ...]] = {}
        for name, (metric, overrides) in self._chosen().items():
            alone = {name: (metric, overrides)} if overrides or name != metric else (name,)
            shared = taken(get(metric), arguments)
            parts[name] = (replace(self, metrics=alone, arguments=shared), get(metric).function)
        return parts

    def depends_on(self, **settings: Any) -> tuple[Any, ...]:
        """Return the code that a call depends on in addition to this class and its metrics: engine and protocols.

        Parameters
        ----------
        **settings : object
            See `at`.
        """
        return self.caller().depends_on(**settings)


class _Calls:
    """Calls of `ScenarioRuns` in one thread: if settings differ in their seed, they share scenario and engine."""

    def __init__(self, of: ScenarioRuns, cancel: Callable[[], bool] | None = None) -> None:
        self.of, self._cancel = of, cancel
        self._draws_network = "fabric" in of.scenario
        self._settings = ""
        self._scenario: Scenario | None = None
        self._runs: Runs | None = None

    def at(self, **settings: Any) -> Scenario:
        """Return the scenario with some settings, as `ScenarioRuns.at`."""
        rest = _label({path: value for path, value in settings.items() if path != "seed"})
        if self._scenario is not None and rest == self._settings and "seed" in settings and not self._draws_network:
            return self._scenario._with_seed(as_count(settings["seed"], "seed", bits=64))
        self._settings, self._scenario = rest, None
        self._scenario = scenario = self.of.at(**settings)
        return scenario

    def depends_on(self, **settings: Any) -> tuple[Any, ...]:
        """Return the code that a call depends on, as `ScenarioRuns.depends_on`."""
        protocols = self.at(**settings).deployment.protocols
        return import_module(f"ecc.{self.of.engine}").simulate, *map(type, protocols)

    def __call__(self, **settings: Any) -> dict[str, float]:
        """Run the scenario with some settings and return the metrics of the run, as `ScenarioRuns`."""
        from ecc.results.metrics import evaluated, get

        of, chosen = self.of, self.of._chosen()
        scenario = self.at(**settings)
        arguments = dict(of.arguments or {})
        if of.engine == "packet":
            from ecc.packet.ensembles import Runs

            options: dict[str, Any] = {"sample": of.sample}
            if any(get(metric).needs_histogram for metric, _ in chosen.values()):
                options["histogram_from"] = arguments.get("between", (0.5 * scenario.duration,))[0]
            self._runs = self._runs or Runs()
            run = self._runs.run(scenario, options).advance(cancel=self._cancel).trajectory()
        else:
            simulate = import_module(f"ecc.{of.engine}").simulate
            run = simulate(scenario, sample=of.sample, **(of.options or {}))
        run.raise_if_incomplete()
        values, reasons = evaluated(run, scenario, chosen, arguments)
        if reasons:
            raise MetricError(values, reasons)
        return values


_MAX_PACKETS, _MAX_SIZE = 100_000, 1_000
"""Packets that the links of a short run can send, and the number of its links and flows."""


def _is_short(scenario: Scenario) -> bool:
    """Return whether a packet run takes milliseconds and runs code of this package only.

    To start a worker process takes longer than hundreds of such runs. Code of others, which may never return or end its
    process, and long runs are left to processes.
    """
    network, protocols = scenario.network, scenario.deployment.protocols
    bits = scenario.duration * float(network.capacities.sum())
    packet = min((float(flow.mean_packet) for flow in network.flows), default=1.0)
    return (
        bits <= 8.0 * packet * _MAX_PACKETS
        and network.n_links + network.n_flows <= _MAX_SIZE
        and all(type(protocol).__module__.startswith("ecc.") for protocol in protocols)
    )


def _check_metric_arguments(arguments: Mapping[str, Any], scenario: Scenario, period: float) -> None:
    """Refuse links and flows that a scenario lacks, and a time `between` without samples or not within the run."""
    n_links, n_flows = scenario.network.n_links, scenario.network.n_flows
    indices = [(name, arguments[name]) for name in ("link", "flow", "of") if name in arguments]
    for name, index in [*indices, *(("flows", flow) for flow in arguments.get("flows", ()))]:
        count = n_links if name == "link" else n_flows
        if as_count(index, name) >= count:
            raise ValueError(f"{name} must be from 0 to {count - 1}, got {shown(index)}")
    between = arguments.get("between")
    if between is not None:
        begin, end = between
        last = scenario.n_samples(period) * period
        if not (max(begin, 0.0) + 1e-9) // period * period + period <= min(last, end) + 1e-9:
            allowed = f"samples of the run, which end every {period:g} s up to {last:g} s"
            raise ValueError(f"between must hold {allowed}, got {begin:g}:{end:g} s")
        if begin < 0.0 or end > scenario.duration + 1e-9:
            raise ValueError(f"between must be in 0:{scenario.duration:g} s, the run, got {begin:g}:{end:g} s")


def data_files(tables: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables of a scenario that name a data file, each with the key of the path.

    Parameters
    ----------
    tables : object
        Tables of `Scenario.from_dict`. Malformed ones are skipped.
    """
    data = tables if isinstance(tables, Mapping) else {}
    workload = data.get("workload")
    groups = []
    if isinstance(workload, Mapping):
        arrivals = workload.get("arrivals")
        sizes = [stream.get("distribution") for stream in arrivals or () if isinstance(stream, Mapping)]
        groups = [(workload.get("tmix"), "vectors"), (sizes, "file")]
    for group, key in [*groups, (data.get("impairments"), "file")]:
        for table in group if isinstance(group, list | tuple) else ():
            path = table.get(key) if isinstance(table, dict) else None
            if isinstance(path, str | Path) and "\n" not in str(path):
                yield table, key


def names_data_file(path: str) -> bool:
    """Return True if the value of a setting is the path of a data file.

    Parameters
    ----------
    path : str
        Path of the setting, for example "workload.tmix.0.vectors" or "impairments.0.file".
    """
    table, key = path.partition(".")[0], path.rpartition(".")[2]
    return (table, key) in (("workload", "vectors"), ("impairments", "file"))


_REPLACED = {"vectors": "digest", "file": "times"}
"""Keys of data files -> keys with the content, or its digest, of the file that was named before."""


_INTERVAL = "_interval"
"""End of the names of half-widths in the result of `sweep_means`."""
_COUNTS = ("digest", "events", "data_packets", "now", "steps", "bottleneck")
"""Variables of ensembles of which a mean has no meaning."""


@check_arguments
def sweep_means(dataset: Any, axis: str = "seed", confidence: float = 0.95) -> xr.Dataset:
    """Return the mean of each variable of a sweep or ensemble over one axis, with a confidence interval.

    The interval is that of Student's t distribution. It holds for runs that differ in their random numbers only, for
    example over seeds. Runs without a result are left out, and members of ensembles that are not completed, too.

    Parameters
    ----------
    dataset : Dataset
        Result of `sweep`, `ecc.packet.ensemble` or `ecc.fluid.ensemble`.
    axis : str, optional
        Name of the axis, for example "seed".
    confidence : float, in (0, 1), optional
        Probability with which the interval contains the mean.

    Returns
    -------
    Dataset
        For each variable NAME the mean, and as NAME_interval the half-width of the interval, which is NaN for fewer
        than two runs. Errors of single runs are left out. Means over an ensemble are those of its metrics and series,
        and `runs` is the number of completed members in each.

    Raises
    ------
    ValueError
        If the dataset has no such axis, or if confidence is not in (0, 1).
    TypeError
        If `dataset` is not a Dataset.

    Examples
    --------
    >>> runs = sweep(lambda gain, seed: gain + 0.1 * (-1) ** seed, {"gain": [1.0, 2.0], "seed": [1, 2, 3, 4]})
    >>> means = sweep_means(runs)
    >>> means["value"].values.round(6), means["value_interval"].values.round(3)
    (array([1., 2.]), array([0.184, 0.184]))
    >>> scenario = ecc.Scenario(ecc.Network.dumbbell("5 Mb/s", [0.05]), ecc.models.RCP(), 5.0)
    >>> means = sweep_means(ecc.packet.ensemble(scenario, seeds=5, metrics=["utilization"]))
    >>> list(means), int(means.runs)
    (['utilization', 'utilization_interval', 'runs'], 5)
    """
    import xarray as xr

    if not isinstance(dataset, xr.Dataset):
        raise TypeError(f"dataset must be a Dataset, as `sweep` returns it, got {shown(dataset)}")
    if axis not in dataset.dims:
        raise ValueError(f"axis must be one of {', '.join(map(str, dataset.dims))}, got {axis!r}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    is_ensemble = "stopped" in dataset
    left_out = _COUNTS if is_ensemble else ()
    numeric = dataset.drop_vars(
        [name for name in dataset.data_vars if name in left_out or dataset[name].dtype.kind not in "fiub"]
    )
    if is_ensemble:
        numeric = numeric.where(dataset["stopped"] == "completed")
    means: xr.Dataset = numeric.mean(axis, keep_attrs=True)
    for name, series in numeric.data_vars.items():
        half_widths = mean_with_interval(series.to_numpy(), series.get_axis_num(axis), confidence)[1]
        means[f"{name}{_INTERVAL}"] = means[name].copy(data=half_widths)
        means[f"{name}{_INTERVAL}"].attrs = {"units": series.attrs.get("units", "")} if is_ensemble else {}
    return means.assign(runs=(dataset["stopped"] == "completed").sum(axis)) if is_ensemble else means


def unused_seed(results: SweepTable) -> bool:
    """Return True if a sweep over several seeds has the same metrics for all of them.

    Parameters
    ----------
    results : SweepTable
        Result of `swept` with `ScenarioRuns`.
    """
    if results.shape.get("seed", 0) < 2:
        return False
    axis, is_compared = results.axis("seed"), False
    for values in results.numbers().values():
        compared = (~np.isnan(values)).sum(axis) > 1
        differs = np.fmax.reduce(values, axis) != np.fmin.reduce(values, axis)
        if (differs & compared).any():
            return False
        is_compared |= bool(compared.any())
    return is_compared


def _set_value(tables: Any, path: str, value: Any) -> None:
    """Write a value at a dotted path. `*` is every entry of a list; the index of a single entry may be omitted."""
    *names, last = path.split(".")
    tables_at = [tables]
    for step in names:
        tables_at = [inner for entry in tables_at for inner in _entries(entry, step, path)]
    for entry in (_single_entry(entry, last) for entry in tables_at):
        if not isinstance(entry, dict):
            raise ValueError(f"path must end in a key of a table, got {shown(path)}")
        if names_data_file(path):
            entry.pop(_REPLACED[last], None)
        entry[last] = _inline_table(value, path) if isinstance(value, str) and value[:1] == "{" else value


def _inline_table(text: str, path: str) -> Any:
    """Return an inline table of TOML, for example {name = "DCTCP"}."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        example = '{name = "DCTCP"}'
        raise ValueError(f"{path} must be an inline table of TOML, as {example}, got {text}: {error}") from None


def _single_entry(entry: Any, step: str) -> Any:
    """Return the single entry of a list if the step is not an index: routers of a link may be such a list."""
    is_key = step != "*" and not step.isdigit()
    return entry[0] if isinstance(entry, list) and len(entry) == 1 and is_key else entry


def _entries(entry: Any, step: str, path: str) -> list[Any]:
    entry = _single_entry(entry, step)
    if isinstance(entry, dict) and step in entry:
        return [entry[step]]
    if isinstance(entry, list) and (step == "*" or (step.isdigit() and int(step) < len(entry))):
        return entry if step == "*" else [entry[int(step)]]
    wrong = f"there is nothing at {shown(step)}"
    if isinstance(entry, dict) and entry:
        wrong = f"{shown(step)} must be one of {', '.join(entry)}"
    elif isinstance(entry, list) and entry:
        wrong = f"{shown(step)} must be a number from 0 to {len(entry) - 1}, or * for all"
    raise ValueError(f"path must lead to a setting of the scenario, got {shown(path)}: {wrong}")


_Outcomes = Generator[list[tuple[int, Any]], None, None]


def _outcomes(function: Callable[..., Any], points: list[dict[str, Any]], executor: Executor | int | None) -> _Outcomes:
    """Yield the index of each point with its result or exception, in the order in which calls end."""
    if executor is None:
        call = function.caller() if hasattr(function, "caller") else function
        for index, point in enumerate(points):
            yield [(index, _outcome(call, point))]
        return
    workers = executor if isinstance(executor, Executor) else as_count(executor, "executor", minimum=1)
    if isinstance(function, ScenarioRuns) and isinstance(workers, int):
        if _are_short(function, points):
            yield from _in_threads(function, points, workers)
            return
        function = partial(_call_again, function)
    with closing(in_workers([(function, (), point) for point in points], workers)) as ended:
        for index, result, failure in ended:
            yield [(index, result if failure is None else failure)]


def _outcome(call: Callable[..., Any], point: Mapping[str, Any]) -> Any:
    """Return the result of a call, or its exception, which is reported after all other points are done."""
    try:
        return call(**point)
    except (Exception, SystemExit) as error:
        return error


def _are_short(function: ScenarioRuns, points: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all points are short packet runs."""
    if function.engine != "packet":
        return False
    of_points = function.caller()
    with suppress(Exception):  # the call itself will report the error
        return all(_is_short(of_points.at(**point)) for point in points)
    return False


def _in_threads(function: ScenarioRuns, points: Sequence[Mapping[str, Any]], threads: int) -> _Outcomes:
    """Make packet runs in threads of this process; those that differ in their seed follow each other."""
    from ecc.results.members import Crew, Interrupt

    interrupt = Interrupt()

    def worker() -> Callable[[Sequence[int]], list[Any]]:
        call = function.caller(lambda: interrupt.is_set)
        return lambda which: [_outcome(call, points[index]) for index in which]

    groups: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        groups.setdefault(_label({path: value for path, value in point.items() if path != "seed"}), []).append(index)
    crew = Crew([[index] for group in groups.values() for index in group], worker, threads)
    try:
        yield from crew
    finally:
        interrupt.is_set = True
        crew.stop()


_calls_before: list[_Calls] = []
"""Calls of this worker process; at most one."""


def _call_again(function: ScenarioRuns, **settings: Any) -> dict[str, float]:
    """Call a function, which shares work with the last call if it is equal, in a worker process."""
    try:
        is_equal = bool(_calls_before) and _calls_before[0].of == function
    except ValueError:  # arrays among its arguments
        is_equal = False
    if not is_equal:
        _calls_before[:] = [function.caller()]
    return _calls_before[0](**settings)


def _numbers(outcome: Any) -> dict[str, float]:
    """Return the result of a call as named numbers, or raise its exception."""
    if isinstance(outcome, SystemExit):
        raise EccError(f"it called sys.exit({outcome.code!r})")
    if isinstance(outcome, BaseException):
        raise outcome
    result = dict(outcome) if isinstance(outcome, Mapping) else {"value": outcome}
    return {str(name): float(value) for name, value in result.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _label(point: Mapping[str, Any]) -> str:
    return json.dumps(point, sort_keys=True, default=_plain)


def _table(
    axes: _Axes,
    count: int,
    done: Mapping[int, dict[str, float]],
    errors: Mapping[int, str] | None = None,
) -> SweepTable:
    shape = axes.shape()
    names = dict.fromkeys(name for k in range(count) for name in done.get(k, ()))
    variables: dict[str, Any] = {
        name: np.array([done.get(k, {}).get(name, np.nan) for k in range(count)]).reshape(*shape.values())
        for name in names
    }
    if errors:
        free = "error" if "error" not in variables else "error_"
        variables[free] = np.array([errors.get(k, "") for k in range(count)]).reshape(*shape.values())
    return SweepTable(shape, axes.coordinates(), variables, {})
