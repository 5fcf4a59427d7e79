"""Sweeps: one function over a grid of arguments, on any executor, resumable; and a scenario as such a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ecc.errors import EccError

if TYPE_CHECKING:
    import xarray as xr

    from ecc.scenario import Scenario

__all__ = ["ScenarioRuns", "sweep"]


def sweep(
    function: Callable[..., Mapping[str, float] | float],
    grid: Mapping[str, Sequence[Any]],
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> xr.Dataset:
    """Return the values of a function on every point of a grid.

    Parameters
        function : called as function(name=value, ...); returns a number, or a mapping from names to numbers.
        grid : name -> values (numbers or strings); the axes of the result, in this order.
        executor : any concurrent.futures.Executor (processes, threads, Dask's `client.get_executor()`), or None: here.
        store : path of a file that keeps each finished point as a line of JSON. A later call with the same file goes on
            where this one ended, whatever ended it.
        progress : called with the share that is done after each point.
    Returns
        Dataset with one variable a name of the results ("value" for a plain number), NaN where a point lacks it.
    Raises
        ValueError: an empty grid or axis. EccError: the function failed at some points (after all others are done).
    Example
        >>> int(sweep(lambda a, b: a * b, {"a": [1, 2], "b": [3, 4]})["value"].sum())
        21
    """
    axes = {name: list(values) for name, values in grid.items()}
    if not axes or not all(axes.values()):
        raise ValueError(f"grid must have at least one axis and a value on each, got {axes!r}")
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    done = _read(store)
    todo = [point for point in points if _key(point) not in done]
    failures: list[str] = []
    for point, outcome in _outcomes(function, todo, executor):
        if isinstance(outcome, Exception):
            failures.append(f"{_key(point)}: {type(outcome).__name__}: {outcome}")
            continue
        result = dict(outcome) if isinstance(outcome, Mapping) else {"value": outcome}
        done[_key(point)] = {name: float(value) for name, value in result.items()}
        if store is not None:
            with Path(store).open("a", encoding="utf-8") as file:
                file.write(json.dumps([point, done[_key(point)]], default=_plain) + "\n")
        if progress is not None:
            progress(sum(_key(p) in done for p in points) / len(points))
    if failures:
        raise EccError(f"the function failed at {len(failures)} of {len(points)} points, first at {failures[0]}")
    return _dataset(axes, points, done)


@dataclass(frozen=True)
class ScenarioRuns:
    """A scenario as a function of some of its settings, for `sweep`: each call is a run, and returns measures of it.

    Parameters
        scenario : what `Scenario.to_dict` returns, or the tables of its TOML.
        measures : names in `ecc.claims.measures`, such as "utilization" or "peak_queue".
        engine : "packet" or "fluid". sample : s, or with a unit.
        arguments : of every measure that takes them: `link`, `flow`, `between` (s). Without `between`, the last half.
    Example
        >>> runs = ScenarioRuns(tables, ["utilization"])  # doctest: +SKIP
        >>> sweep(runs, {"protocol.alpha": [0.2, 0.4], "links.0.capacity": ["10 Mb/s", "1 Gb/s"]})  # doctest: +SKIP
    """

    scenario: Mapping[str, Any]
    measures: Sequence[str]
    engine: str = "packet"
    sample: float | str = 0.1
    arguments: Mapping[str, Any] | None = None

    def at(self, **settings: Any) -> Scenario:
        """Return the scenario with some settings.

        Parameters
            settings : path -> value, a path like protocol.alpha, links.0.capacity or flows.*.access_delay (every flow).
        Raises
            ValueError: a path that leads nowhere, and what the scenario refuses.
        """
        from ecc.scenario import Scenario

        tables = deepcopy(dict(self.scenario))
        for path, value in settings.items():
            _put(tables, path, value)
        return Scenario.from_dict(tables)

    def __call__(self, **settings: Any) -> dict[str, float]:
        """Run the scenario with some settings and return its measures.

        Parameters
            settings : as of `at`.
        Raises
            ValueError: a measure that is not known, or a setting that `at` refuses.
        """
        from ecc.claims.measures import get, taken

        chosen = {name: get(name) for name in self.measures}
        scenario = self.at(**settings)
        run = import_module(f"ecc.{self.engine}").simulate(scenario, sample=self.sample)
        given = {"between": (0.5 * scenario.duration, scenario.duration), **(self.arguments or {})}
        return {name: one.function(run, scenario, **taken(one, given)) for name, one in chosen.items()}


def _put(tables: Any, path: str, value: Any) -> None:
    """Write a value where a dotted path leads; `*` is every entry of a list."""
    *way, last = path.split(".")
    places = [tables]
    for step in way:
        places = [inner for place in places for inner in _entries(place, step, path)]
    for place in places:
        if not isinstance(place, dict):
            raise ValueError(f"path must end in a key of a table, got {path!r}")
        place[last] = value


def _entries(place: Any, step: str, path: str) -> list[Any]:
    if isinstance(place, dict) and step in place:
        return [place[step]]
    if isinstance(place, list) and (step == "*" or (step.isdigit() and int(step) < len(place))):
        return place if step == "*" else [place[int(step)]]
    allowed = list(place) if isinstance(place, dict) else f"* or a number < {len(place)}" if place else "nothing"
    raise ValueError(f"path must lead to a setting of the scenario, got {path!r}: {step!r} is not of {allowed}")


def _outcomes(
    function: Callable[..., Any], points: list[dict[str, Any]], executor: Executor | None
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each point with its result or exception, as they end."""
    if executor is None:
        for point in points:
            try:
                yield point, function(**point)
            except Exception as error:  # reported together, when everything else is done
                yield point, error
        return
    running: dict[Future[Any], dict[str, Any]] = {executor.submit(function, **point): point for point in points}
    for future in as_completed(running):
        failure = future.exception()
        yield running[future], failure if failure is not None else future.result()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _key(point: Mapping[str, Any]) -> str:
    return json.dumps(point, sort_keys=True, default=_plain)


def _read(store: str | Path | None) -> dict[str, dict[str, float]]:
    """Finished points of an earlier call; a last line that was cut short is dropped."""
    if store is None or not Path(store).exists():
        return {}
    found = {}
    for line in Path(store).read_text(encoding="utf-8").splitlines():
        try:
            point, result = json.loads(line)
        except ValueError:
            continue
        found[_key(point)] = result
    return found


def _dataset(axes: dict[str, list[Any]], points: list[dict[str, Any]], done: dict[str, dict[str, float]]) -> xr.Dataset:
    import xarray as xr

    shape = [len(values) for values in axes.values()]
    names = dict.fromkeys(name for point in points for name in done[_key(point)])
    variables = {
        name: (list(axes), np.array([done[_key(point)].get(name, np.nan) for point in points]).reshape(shape))
        for name in names
    }
    return xr.Dataset(variables, coords=axes)
