"""Ensembles of packet runs: one scenario with many seeds, parameters or fields, run on all cores by one call.

Members run in threads, because the C engine releases the interpreter's lock. Each member has the digest of the run that
`simulate` makes of it alone.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.digests import digest, function_digest
from ecc._support.quantity import Quantity
from ecc._support.reports import ProgressCallback
from ecc._support.store import Store
from ecc.errors import EccError, warn
from ecc.packet.simulation import Cancel, Run, simulate
from ecc.results.members import Interrupt, Members, Varied, collected, or_error, seeds_of
from ecc.results.metrics import evaluated, get
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Runs", "ensemble"]

_COUNTS = ("digest", "events", "data_packets", "now")
_OPTIONS = ("sample", "start", "perturbation")


@check_arguments
def ensemble(
    scenario: Scenario,
    vary: Mapping[str, Any] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    metrics: Sequence[str] = (),
    arguments: Mapping[str, Any] | None = None,
    series: Sequence[str] = (),
    sample: Quantity | None = None,
    start: str = "empty",
    perturbation: float = 0.0,
    record: Sequence[str] = (),
    histogram_from: Quantity | None = None,
    executor: Executor | int | None = None,
    progress: ProgressCallback | None = None,
    cancel: Cancel | None = None,
    store: str | Path | None = None,
) -> xr.Dataset:
    """Return metrics and series of the packet runs of a scenario for many seeds, parameters or fields.

    Parameters
    ----------
    scenario : Scenario
    vary : mapping, optional
        Name -> values, for example {"beta": [0.5, 0.7]}. A name is a parameter of the protocol ("beta"; if there are
        several protocols, "flows.beta" or "links.target"), a field of the scenario ("network", "duration"), or one of
        the options "sample", "start" and "perturbation". A sequence makes a dimension of this name. An xarray DataArray
        keeps its dimensions; DataArrays that share a dimension vary together.
    seeds : int, or sequence of int, optional
        Seeds, which make the last dimension "seed", or their number: from the seed of the scenario on. None: the seed
        of the scenario, without this dimension.
    metrics : sequence of str, optional
        Names in `ecc.metrics`, for example "utilization".
    arguments : mapping, optional
        Arguments of all metrics that accept them: `link`, `flow`, `flows`, `between` (s). `between` is by default the
        last half of each run, and the whole run for metrics that select transfers by their start.
    series : sequence of str, optional
        Series of trajectories to return, for example "goodput".
    sample, start, perturbation, record, histogram_from
        As in `simulate`, the same for all members unless `vary` names them.
    executor : ThreadPoolExecutor or int, >= 1, optional
        Threads, or their number. None: the number of cores available to this process.
    progress : callable, optional
        Called after members end with a `Progress`: the completed `share` of members.
    cancel : Cancel, optional
        Called regularly, in several threads; the ensemble ends when it returns True.
    store : str or Path, optional
        File (for a folder: its "results.sqlite") that keeps the results of completed members. A later call with the
        same metrics, series and options runs only members that are missing, even if the process was killed. The key of
        a member is a digest of its scenario and of the code of engine, protocols and metrics.

    Returns
    -------
    Dataset
        Dataset over the varied dimensions with the metrics, the series over (*varied dimensions, time, flow or link),
        `stopped` ("completed", the reason for an early end, or the exception that the member raised), `error` (the
        reasons for metrics that cannot be computed, or ""), and the counts `digest`, `events`, `data_packets` and `now`
        of `run.stats`. Metrics and samples that a member does not have are nan (-1 in `bottleneck`). If Ctrl-C or
        `cancel` ends the ensemble, members that ran or had not started are "interrupted" or "canceled".

    Raises
    ------
    ValueError
        If nothing varies, a name is unknown or has no values, members with series differ in size, the store is a file
        of another kind, or, if all members raise (for example because a series does not exist), the exception of the
        first.
    TypeError
        If a store is given for a protocol that uses objects without a digest.
    EccError
        If `cancel` returns True before any member runs.
    KeyboardInterrupt
        Ctrl-C before any member had a result.

    Warns
    -----
    RuntimeWarning
        If the store cannot be written; the result is complete.

    Examples
    --------
    >>> scenario = ecc.Scenario(ecc.Network.dumbbell("5 Mb/s", [0.05], buffer="20 kB"), ecc.models.CUBIC(), 5.0)
    >>> runs = ensemble(scenario, {"beta": [0.5, 0.7]}, seeds=3, metrics=["utilization"])
    >>> runs.utilization.dims, bool((runs.stopped == "completed").all())
    (('beta', 'seed'), True)
    """
    import xarray as xr

    varied = Varied(scenario, _OPTIONS)
    varied.check("vary", vary or {})
    if seeds is not None and "seed" in (vary or {}):
        raise ValueError("seeds must be None if vary names the seed")
    scenario.check_writable()  # refuse a scenario that cannot be stored with the result before the work
    members = Members.of({**(vary or {}), **seeds_of(scenario, seeds)}, "vary")
    interrupt, templates = Interrupt(), list[Trajectory]()

    def ends() -> bool:
        return interrupt.is_set or (cancel is not None and cancel())

    options: dict[str, Any] = {"sample": sample, "start": start, "perturbation": perturbation, "record": list(record)}
    options["histogram_from"] = histogram_from
    chosen: dict[str, tuple[str, Mapping[str, Any]]] = {name: (name, {}) for name in metrics}
    counts = histogram_from is None and any(get(name).needs_histogram for name in metrics)

    def make(choice: Varied, runs: Runs, values: dict[str, Any]) -> _Member:
        if ends():
            return _Member("canceled")
        scenario_of_member, own_options = choice.member(values)
        if counts:
            own_options["histogram_from"] = (arguments or {}).get("between", (0.5 * scenario_of_member.duration,))[0]
        run = runs.run(scenario_of_member, options | own_options).advance(cancel=ends)
        templates[:] = templates or [run.trajectory()]
        stats = run._engine.stats
        member = _Member(run.stopped, {name: getattr(stats, name) for name in _COUNTS})
        if series:
            arrays = run._series()
            member.series = {name: _one_of(arrays, name) for name in ("time", *series)}
        if run.stopped == "completed" and metrics:
            result = run.trajectory()
            member.metrics, reasons = evaluated(result, scenario_of_member, chosen, arguments or {})
            member.error = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        return member

    def worker() -> Callable[[Sequence[int]], list[Any]]:
        make_member = partial(make, copy(varied), Runs())
        return lambda which: [or_error(make_member, members.values[k]) for k in which]

    stored = None
    if store is not None:
        made_by = {"options": options, "metrics": list(metrics), "arguments": arguments or {}, "series": list(series)}
        stored = _MemberStore(store, copy(varied), members, made_by)
    known, keep = (stored.known, stored.keep) if stored is not None else ({}, None)
    results, reasons = collected(len(members.values), worker, 1, executor, progress, interrupt, known, keep)
    for k, member in enumerate(results):
        if member is None:
            results[k] = _Member(reasons[k])
        elif member.stopped == "canceled" and interrupt.is_set:
            member.stopped = "interrupted"
    if not templates and known:  # labels and units of a run that has not begun
        first, own_options = varied.member(members.values[min(known)])
        templates.append(Run(first, **(options | own_options)).trajectory())
    if not templates:
        raise EccError("cancel must let a member run, got True before the first one")
    variables = _series(members, results, templates[0], series) | _numbers(members, results, list(metrics))
    labels = {str(name): templates[0].data[name] for name in ("flow", "link")}
    time = max((member.series.get("time", np.zeros(0)) for member in results), key=len)
    coordinates = {"time": ("time", time, {"units": "s"}), **labels} if series else {}
    attributes = {name: templates[0].data.attrs[name] for name in ("engine", "version")}
    attributes["scenario"] = scenario.to_toml()
    return xr.Dataset(variables, coords={**coordinates, **members.coordinates}, attrs=attributes)


class Runs:
    """Runs of one thread, of which each reuses the arrays and records of the one before if it differs in its seed."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._options: Mapping[str, Any] = {}

    def run(self, scenario: Scenario, options: Mapping[str, Any]) -> Run:
        """Return a run at time 0, which ends the use of the one before.

        Parameters
        ----------
        scenario : Scenario
            Scenario, from `Scenario._with_seed` of the one before if only the seed differs.
        options : mapping
            Options of `Run`.
        """
        if self._run is None or options != self._options or not self._run._restart(scenario):
            self._run = None  # frees its memory first
            self._run, self._options = Run(scenario, **options), options
        return self._run


@dataclass
class _Member:
    """The results of a member."""

    stopped: str
    counts: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    series: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the results as plain data for a store, without loss."""
        series = {
            name: [array.dtype.str, array.shape, b64encode(np.ascontiguousarray(array).data).decode()]
            for name, array in self.series.items()
        }
        return vars(self) | {"series": series}

    @classmethod
    def restored(cls, plain: Mapping[str, Any]) -> _Member:
        """Return the results from the plain data of `plain`."""
        series = {
            name: np.frombuffer(b64decode(text), kind).reshape(shape)
            for name, (kind, shape, text) in plain["series"].items()
        }
        return cls(**{**plain, "series": series})


class _MemberStore:
    """Completed members of ensembles in a store; `known` has those of this ensemble by number.

    Parameters
    ----------
    path : str or Path
    varied : Varied
    members : Members
    made_by : mapping
        Names and options that determine the results of a member, in addition to its scenario and its own options.
    """

    def __init__(self, path: str | Path, varied: Varied, members: Members, made_by: Mapping[str, Any]) -> None:
        self._store = Store(path)
        self._code: dict[tuple[Any, ...], str] = {}
        self._made_by = _text(made_by)
        self._functions = [get(name).function for name in made_by["metrics"]]
        self._keys: dict[int, str] = {}
        texts: dict[tuple[int, ...], str] = {}
        for k, values in enumerate(members.values):
            try:
                scenario, own_options = varied.member(values)
            except Exception:  # the member itself will report it
                continue
            group = tuple(id(value) for name, value in values.items() if name != "seed")
            if group not in texts:
                texts[group] = self._text_of(scenario, own_options)
            if texts[group]:
                self._keys[k] = digest(texts[group], str(scenario.seed))
        results = self._store.get_all(list(self._keys.values()))
        self.known = {k: _Member.restored(results[key]) for k, key in self._keys.items() if key in results}
        self._is_reported = False

    def _text_of(self, scenario: Scenario, own_options: Mapping[str, Any]) -> str:
        """Return a digest of all that determines the results of a member, except its seed; "" if it cannot run."""
        objects = (simulate, *self._functions, *dict.fromkeys(map(type, scenario.deployment.protocols)))
        if objects not in self._code:
            self._code[objects] = function_digest(*objects)
        try:
            tables = scenario.to_dict()
        except (TypeError, ValueError):
            return ""
        del tables["seed"]
        return digest("packet ensemble", self._code[objects], self._made_by, _text(tables), _text(own_options))

    def keep(self, ended: Sequence[tuple[int, Any]]) -> None:
        """Store the completed ones of members that have ended.

        Parameters
        ----------
        ended : sequence of (int, _Member or Exception)
        """
        completed = [(k, member) for k, member in ended if getattr(member, "stopped", "") == "completed"]
        self._store.put_all({self._keys[k]: member.plain() for k, member in completed})
        if self._store.trouble is not None and not self._is_reported:
            self._is_reported = True
            warn(self._store.trouble)


def _text(values: Any) -> str:
    def plain(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else str(value)

    return json.dumps(values, sort_keys=True, default=plain)


def _numbers(members: Members, results: Sequence[_Member], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the variables with one value for each member."""

    def each(values: Sequence[Any], dtype: Any, **attributes: str) -> tuple[Any, ...]:
        return members.dims, np.array(values, dtype).reshape(members.shape), attributes

    variables = {
        name: each(
            [member.metrics.get(name, np.nan) for member in results],
            float,
            units=get(name).kind,
            long_name=get(name).title,
        )
        for name in metrics
    }
    kinds = {"digest": np.uint64, "now": float}
    variables |= {
        name: each([member.counts.get(name, 0) for member in results], kinds.get(name, np.int64)) for name in _COUNTS
    }
    variables |= {name: each([getattr(member, name) for member in results], object) for name in ("stopped", "error")}
    return variables


def _one_of(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in arrays:
        raise ValueError(f"series must be among {', '.join(list(arrays)[1:])}, got {shown(name)}")
    return arrays[name]


def _series(members: Members, results: Sequence[_Member], template: Trajectory, names: Sequence[str]) -> dict[str, Any]:
    """Return series over the varied dimensions and time, with the labels of one of the runs."""
    variables: dict[str, Any] = {}
    for name in names:
        labeled = template[name]
        length = max(len(member.series[name]) for member in results if name in member.series)
        shape = (length, *labeled.shape[1:])
        values = np.full(
            (len(results), *shape),
            -1 if name == "bottleneck" else np.nan,
            labeled.dtype if name == "bottleneck" else float,
        )
        for k, member in enumerate(results):
            if name in member.series:
                array = member.series[name]
                if array.shape[1:] != shape[1:]:
                    raise ValueError(
                        f"members must have one number of flows and links, got {shape[1]} and {array.shape[1]}"
                    )
                values[k, : len(array)] = array
        variables[name] = ((*members.dims, *labeled.dims), values.reshape(*members.shape, *shape), labeled.attrs)
    return variables
