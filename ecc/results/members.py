"""Members of an ensemble: the values that they vary, and the threads that run them.

The varied quantities are a mapping from names to values as in xarray: a list of values is a separate dimension, and
DataArrays that share a dimension vary together. A member that fails fails alone, and Ctrl-C keeps the results so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ecc._support.arguments import shown
from ecc._support.quantity import as_count
from ecc._support.reports import ProgressCallback, Share
from ecc._support.workers import thread_count
from ecc.contract.assignment import parameter_names, with_parameters
from ecc.contract.protocol import Protocol
from ecc.scenario import Scenario

__all__ = ["Crew", "Interrupt", "Members", "Varied", "collected", "or_error", "seeds_of"]

_PERIOD, _MAX_ENDED = 0.05, 64
"""Time [s] and number of members of a thread after which members that have ended are handed over."""


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
            Without names, or without values of one.
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


class Crew:
    """Threads that run the members of an ensemble, and the results of members as they end.

    Iteration yields lists of (number, result) of members that have ended since the last list; the results of short
    members come several at once. The first batch runs before all others, because it compiles the code that they share.

    Parameters
    ----------
    batches : sequence of sequence of int
        Numbers of the members that are run together, in the order in which they begin.
    worker : callable
        Function called once for each thread; returns a function from a batch to a list of results.
    executor : Executor, int or None
        Threads, or their number. None: the number of cores available to this process.

    Raises
    ------
    TypeError
        An executor of processes or machines, which do not share memory.
    ValueError
        A number of threads < 1.
    """

    def __init__(
        self,
        batches: Sequence[Sequence[int]],
        worker: Callable[[], Callable[[Sequence[int]], list[Any]]],
        executor: Executor | int | None,
    ) -> None:
        self._threads, self._executor, self._is_stopped = thread_count(executor), executor, False
        self._stages = (batches[:1], batches[1:])
        self._work = [worker() for _ in range(min(self._threads, max(1, len(self._stages[1]))))]
        self._max_ended = min(_MAX_ENDED, -(-sum(map(len, batches)) // (4 * self._threads)))
        self._ended = deque[tuple[int, Any]]()
        self._signals: SimpleQueue[bool | BaseException] = SimpleQueue()  # whether the sender continues
        self._running: list[Future[None]] = []
        self._owned: ThreadPoolExecutor | None = None

    def __iter__(self) -> Iterator[list[tuple[int, Any]]]:
        pool = self._executor
        if not isinstance(pool, ThreadPoolExecutor):
            pool = self._owned = ThreadPoolExecutor(self._threads)
        for stage in self._stages:
            waiting = deque(stage)
            self._running = [pool.submit(self._serve, waiting, work) for work in self._work[: len(stage)]]
            n_running = len(self._running)
            while n_running:
                signal: bool | BaseException = True
                with suppress(Empty):
                    signal = self._signals.get(timeout=_PERIOD)
                if isinstance(signal, BaseException):
                    raise signal
                n_running -= not signal
                if ended := self._taken():
                    yield ended

    def _taken(self) -> list[tuple[int, Any]]:
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def _serve(self, waiting: deque[Sequence[int]], work: Callable[[Sequence[int]], list[Any]]) -> None:
        """Run members in a thread until none are left."""
        count = 0
        try:
            while not self._is_stopped:
                try:
                    batch = waiting.popleft()
                except IndexError:
                    break
                self._ended.extend(zip(batch, work(batch), strict=True))
                count += len(batch)
                if count >= self._max_ended:
                    self._signals.put(True)
                    count = 0
        except BaseException as error:
            self._signals.put(error)
        self._signals.put(False)

    def stop(self) -> list[tuple[int, Any]]:
        """Begin no further batch, wait for the threads, and return members that have ended and were not yielded."""
        self._is_stopped = True
        wait([future for future in self._running if not future.cancel()])
        if self._owned is not None:
            self._owned.shutdown()
        return self._taken()


def collected(
    count: int,
    worker: Callable[[], Callable[[Sequence[int]], list[Any]]],
    together: int,
    executor: Executor | int | None,
    progress: ProgressCallback | None,
    interrupt: Interrupt,
    done: Mapping[int, Any] | None = None,
    keep: Callable[[list[tuple[int, Any]]], None] | None = None,
) -> tuple[list[Any], list[str]]:
    """Return the result of each member (None if it raised) and the reason for each that raised.

    Ctrl-C ends the runs, and keeps the results so far.

    Parameters
    ----------
    count : int
        Number of members.
    worker, executor
        See `Crew`. The result of a member that raised is its exception.
    together : int
        Maximum number of members in a batch.
    progress : callable or None
        Called with the share of members that have ended.
    interrupt : Interrupt
        Set by Ctrl-C, after which running members must end.
    done : mapping, optional
        Number -> result of members that need not run.
    keep : callable, optional
        Called with the numbers and results of members as they end.

    Raises
    ------
    Exception
        If all members raise: the exception of the first.
    KeyboardInterrupt
        Ctrl-C before any member had a result.
    """
    results: list[Any] = [None] * count
    reasons = ["interrupted"] * count
    errors: dict[int, Exception] = {}
    for k, result in (done or {}).items():
        results[k] = result
    todo = [k for k in range(count) if k not in (done or {})]
    size = min(together, max(1, -(-len(todo) // (4 * thread_count(executor)))))  # batches that end at about one time
    crew = Crew([todo[:1], *(todo[k : k + size] for k in range(1, len(todo), size))], worker, executor)
    n_ended = count - len(todo)

    def store(ended: list[tuple[int, Any]]) -> None:
        for k, result in ended:
            if isinstance(result, Exception):
                reasons[k], errors[k] = f"{type(result).__name__}: {result}", result
            else:
                results[k] = result
        if keep is not None:
            keep(ended)

    try:
        if done and progress is not None:
            progress(Share(n_ended / count))
        for ended in crew if todo else ():
            store(ended)
            n_ended += len(ended)
            if progress is not None:
                progress(Share(n_ended / count))
    except KeyboardInterrupt:
        interrupt.is_set = True
        store(crew.stop())
    finally:
        crew.stop()
    if all(result is None for result in results):
        raise errors[min(errors)] if errors else KeyboardInterrupt
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

    @property
    def parameters_of_protocol(self) -> Sequence[str]:
        """Names of the parameters, if all flows and links have one protocol."""
        return self._parameters if isinstance(self._scenario.protocol, Protocol) else ()

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


def seeds_of(scenario: Scenario, seeds: int | Sequence[int] | None) -> dict[str, list[int]]:
    """Return the dimension of seeds of an ensemble, if there is one.

    Parameters
    ----------
    scenario : Scenario
    seeds : int, sequence of int, or None
        Seeds, or their number: from the seed of the scenario on.

    Raises
    ------
    ValueError
        If seeds are empty, or a value is out of range.
    """
    if seeds is None:
        return {}
    if isinstance(seeds, int | np.integer):
        count = as_count(seeds, "seeds", minimum=1)
        return {"seed": list(range(scenario.seed, scenario.seed + count))}
    if not len(seeds):
        raise ValueError(f"seeds must have at least one seed, got {shown(seeds)}")
    return {"seed": [as_count(seed, "seeds", bits=64) for seed in seeds]}
