"""Ensembles of packet runs: one scenario with many seeds, parameters or fields, run on all cores by one call.

Members run in threads, because the C engine releases the interpreter's lock. Each member has the digest of the run that
`simulate` makes of it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import Quantity, as_count
from ecc._support.reports import ProgressCallback
from ecc.errors import EccError
from ecc.packet.simulation import Cancel, Run
from ecc.results.members import Interrupt, Members, Varied, collected, or_error
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
        If nothing varies, a name is unknown or has no values, members with series differ in size, or, if all members
        raise (for example because a series does not exist), the exception of the first.
    EccError
        If `cancel` returns True before any member runs.
    KeyboardInterrupt
        Ctrl-C before any member had a result.

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
    members = Members.of({**(vary or {}), **_seeds(scenario, seeds)}, "vary")
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

    results, reasons = collected(len(members.values), worker, 1, executor, progress, interrupt)
    for k, member in enumerate(results):
        if member is None:
            results[k] = _Member(reasons[k])
        elif member.stopped == "canceled" and interrupt.is_set:
            member.stopped = "interrupted"
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


def _numbers(members: Members, results: Sequence[_Member], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the variables with one value for each member."""

    def each(values: Sequence[Any], dtype: Any, **attributes: str) -> tuple[Any, ...]:
        return members.dims, np.array(values, dtype).reshape(members.shape), attributes

    variables = {
        name: each([member.metrics.get(name, np.nan) for member in results], float, units=get(name).kind)
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


def _seeds(scenario: Scenario, seeds: int | Sequence[int] | None) -> dict[str, list[int]]:
    """Return the dimension of seeds, if there is one."""
    if seeds is None:
        return {}
    if isinstance(seeds, int | np.integer):
        count = as_count(seeds, "seeds", minimum=1)
        return {"seed": list(range(scenario.seed, scenario.seed + count))}
    if not len(seeds):
        raise ValueError(f"seeds must have at least one seed, got {shown(seeds)}")
    return {"seed": [as_count(seed, "seeds", bits=64) for seed in seeds]}
