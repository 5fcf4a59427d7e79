"""Members of an ensemble: the values that they vary, and the threads that run them.

The varied quantities are a mapping from names to values as in xarray: a list of values is a separate dimension, and
DataArrays that share a dimension vary together. A member that fails fails alone, and Ctrl-C keeps the results so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ecc._support.arguments import shown
from ecc._support.quantity import as_count
from ecc._support.reports import ProgressCallback, Share
from ecc._support.workers import thread_count
from ecc.contract.assignment import parameter_names, with_parameters
from ecc.contract.protocol import Protocol
from ecc.scenario import Scenario

__all__ = ["Interrupt", "Members", "Varied", "collected", "or_error"]


@dataclass(frozen=True)
class Members:
    """Members of an ensemble: `shape` over `dims`, and the varied values of each member, in order."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: dict[str, Any]
    values: list[dict[str, Any]]

    @classmethod
    def of(cls, over: Mapping[str, Any], argument: str = "over") -> Members:
        """Return the members of a mapping from names to values.

        Parameters
        ----------
        over : mapping
            Name -> values, a sequence or a DataArray.
        argument : str, optional
            Name of the argument that has the mapping, for messages.

        Raises
        ------
        ValueError
            If there are no names, or no values of one.
        TypeError
            If values are not a sequence.
        """
        import xarray as xr

        if not over:
            raise ValueError(f"{argument} must name the quantities to vary, got {{}}")
        indices, choices = [], {}
        coordinates: dict[str, Any] = {}
        for name, choice in over.items():
            if isinstance(choice, xr.DataArray):
                choices[name] = list(choice.to_numpy().ravel())
                indices.append(choice.copy(data=np.arange(choice.size).reshape(choice.shape)))
                coordinates[name] = choice.variable
            else:
                if isinstance(choice, str | bytes) or not isinstance(choice, Iterable):
                    raise TypeError(f"{name} must be a sequence of values, or a DataArray, got {shown(choice)}")
                choices[name] = list(choice)
                indices.append(xr.DataArray(np.arange(len(choices[name])), dims=[name]))
                scalar = all(np.ndim(v) == 0 and isinstance(v, int | float | str | np.generic) for v in choices[name])
                coordinates[name] = (name, choices[name] if scalar else np.arange(len(choices[name])))
            if not choices[name]:
                raise ValueError(f"{argument} must have values for each name, got none for {name!r}")
        broadcast = xr.broadcast(*indices)
        flat = [index.to_numpy().ravel() for index in broadcast]
        count = broadcast[0].size
        values = [
            {name: choices[name][int(index[k])] for name, index in zip(over, flat, strict=True)} for k in range(count)
        ]
        coordinates = {**{str(k): v for k, v in broadcast[0].coords.items()}, **coordinates}
        return cls(tuple(map(str, broadcast[0].dims)), broadcast[0].shape, coordinates, values)


class Interrupt:
    """Flag that Ctrl-C sets and members in threads check, because the signal reaches the main thread only."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self, share: float) -> None:
        if self.is_set:
            raise KeyboardInterrupt


def or_error(make: Callable[[dict[str, Any]], Any], varied: dict[str, Any]) -> Any:
    """Return the result for one member, or the exception that it raises, which must not end the ensemble."""
    try:
        return make(varied)
    except Exception as error:
        return error


def collected(
    count: int,
    several: Callable[[range], list[Any]],
    together: int,
    executor: Executor | int | None,
    progress: ProgressCallback | None,
    interrupt: Interrupt,
) -> tuple[list[Any], list[str]]:
    """Return the result of each member (None if it raised) and the reason for each that raised.

    `several` returns the result or the exception of each of at most `together` members. The first member runs before
    all others, because it compiles the code that they share. Ctrl-C ends the runs, and keeps the results so far.
    """
    threads = thread_count(executor)
    size = min(together, -(-count // (4 * threads)))  # batches that end at about the same time
    batches = [range(first, min(first + size, count)) for first in range(1, count, size)]
    results: list[Any] = [None] * count
    reasons = ["interrupted"] * count
    errors: list[Exception] = []
    done = 0

    def store(future: Any) -> None:
        for k, result in zip(running.pop(future), future.result(), strict=True):
            if isinstance(result, Exception):
                reasons[k] = f"{type(result).__name__}: {result}"
                errors.append(result)
            else:
                results[k] = result

    running: dict[Any, range] = {}
    pool = executor if isinstance(executor, ThreadPoolExecutor) else ThreadPoolExecutor(threads)

    def end() -> None:
        """Wait for the members that run, and drop those that do not."""
        if pool is not executor:
            pool.shutdown(cancel_futures=True)
        else:
            wait([future for future in running if not future.cancel()])

    try:
        for stage in ([range(1)], batches):
            running = {pool.submit(several, members): members for members in stage}
            for future in as_completed(list(running)):
                done += len(running[future])
                store(future)
                if progress is not None:
                    progress(Share(done / count))
    except KeyboardInterrupt:
        interrupt.is_set = True
        end()
        for future in [future for future in running if not future.cancelled()]:
            store(future)
    finally:
        end()
    if all(result is None for result in results):
        raise errors[0] if errors else KeyboardInterrupt
    return results, reasons


class Varied:
    """The names that an ensemble may vary, and the scenarios of its members.

    Used by one thread at a time; a copy serves another thread.

    Parameters
    ----------
    scenario : Scenario
        Scenario that the members change.
    options : sequence of str
        Names of options of the engine.

    Raises
    ------
    TypeError
        If `scenario` is not a Scenario.
    """

    def __init__(self, scenario: Scenario, options: Sequence[str]) -> None:
        if not isinstance(scenario, Scenario):
            raise TypeError(f"scenario must be a Scenario, got {shown(scenario)}")
        protocol = scenario.protocol
        single = isinstance(protocol, Protocol)
        self._parameters = [field.name for field in fields(protocol)] if single else parameter_names(protocol)
        self._parts = [field.name for field in fields(scenario)]
        self._scenario, self._options = scenario, tuple(options)
        self._last: tuple[dict[str, Any], tuple[Scenario, dict[str, Any]]] | None = None

    def check(self, name: str, names: Iterable[str]) -> None:
        """Refuse unknown names.

        Parameters
        ----------
        name : str
            Name of the argument that has the names, for the message.
        names : iterable of str
            Parameters of the protocol, fields of the scenario or options of the engine.

        Raises
        ------
        ValueError
            If a name is unknown.
        """
        allowed = (*self._parameters, *self._parts, *self._options)
        for item in names:
            if item not in allowed:
                raise ValueError(f"{name} must name one of {', '.join(allowed)}, got {shown(item)}")

    def member(self, varied: Mapping[str, Any]) -> tuple[Scenario, dict[str, Any]]:
        """Return the scenario of a member, and its options of the engine.

        Parameters
        ----------
        varied : mapping
            Values by name.
        """
        rest = {name: value for name, value in varied.items() if name != "seed"}
        if "seed" in varied and self._last is not None and _are_same(self._last[0], rest):
            scenario, options = self._last[1]
            return scenario._with_seed(as_count(varied["seed"], "seed", bits=64)), dict(options)
        self._last = rest, (member := self._made(varied))
        return member

    def _made(self, varied: Mapping[str, Any]) -> tuple[Scenario, dict[str, Any]]:
        changed = {name: value for name, value in varied.items() if name in self._parts}
        tuned = {name: value for name, value in varied.items() if name in self._parameters and name not in changed}
        if tuned:
            changed["protocol"] = with_parameters(changed.get("protocol", self._scenario.protocol), tuned)
        scenario = replace(self._scenario, **changed) if changed else self._scenario
        return scenario, {name: value for name, value in varied.items() if name not in changed and name not in tuned}


def _are_same(values: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return whether two members vary the same objects."""
    return values.keys() == others.keys() and all(values[name] is others[name] for name in values)
