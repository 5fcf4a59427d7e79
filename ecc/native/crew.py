"""Steps of many engines by one call: actions in, observations out, in threads that share the engines."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc.errors import NativeError
from ecc.native.engine import _STOPS, ACTION, OBSERVATION, STEP, Engine, _pointer, ffi, lib

__all__ = ["Crew"]


@check_arguments
class Crew:
    """Independent engines, each with its actions and observations, advanced together by `step`.

    The threads sleep between calls. After a fork, the child starts its own threads at its first step.

    Parameters
    ----------
    engines : sequence of Engine
        Engines of whole networks, all of which have the same number of monitors.
    actions : NDArray[void], shape (n_engines, n_actions)
        Dtype ACTION: flow, kind, and address of the word that is set (0 for rate and window).
    threads : int, >= 1
        Number of threads, the calling one included. For example 2.

    Raises
    ------
    NativeError
        If memory for the crew is missing.
    RuntimeError
        If the system starts no more threads.
    TypeError
        If `actions` has another dtype or shape.
    """

    @check_arguments
    def __init__(self, engines: Sequence[Engine], actions: NDArray[np.void], threads: int) -> None:
        if actions.dtype != ACTION or actions.ndim != 2 or len(actions) != len(engines):
            raise TypeError(f"actions must be of dtype ACTION, one row an engine, got {actions.dtype}")
        if threads < 1:
            raise ValueError(f"threads must be >= 1, got {threads}")
        self._engines = list(engines)
        self._threads, self._crew, self._process = threads, ffi.NULL, 0
        self._end: Callable[[], object] = lambda: None
        n_observed = {len(engine._tables["monitors"]) for engine in engines}
        self._actions = np.ascontiguousarray(actions)
        self.values: NDArray[np.float64] = np.full(actions.shape, np.nan)
        """Values of the actions of the next step, nan: no action; `step` sets them to nan."""
        self.observations: NDArray[np.void] = np.zeros((len(engines), max(n_observed, default=0)), OBSERVATION)
        """Observations of the last step, shape (n_engines, n_observed)."""
        self.steps: NDArray[np.void] = np.zeros(len(engines), STEP)
        """Input and output of each step; `until` [s] and its maximum `end` [ps] are set by the caller."""
        for k, engine in enumerate(engines):
            self.steps[k]["n_actions"] = actions.shape[1]
            self.steps[k]["actions"] = self._actions[k].ctypes.data
            self.steps[k]["values"] = self.values[k].ctypes.data
            self.steps[k]["observations"] = self.observations[k].ctypes.data
            self.replace(k, engine)
        self._pointer = _pointer("ecc_step_t *", self.steps)

    def replace(self, k: int, engine: Engine, actions: NDArray[np.void] | None = None) -> None:
        """Use another engine, or the same one after it has begun again.

        Parameters
        ----------
        k : int
            Index of the engine.
        engine : Engine
        actions : NDArray[void], shape (n_actions,), optional
            Its actions; None: those before.

        Raises
        ------
        ValueError
            If there is no such engine.
        """
        self._check(k)
        self._engines[k] = engine
        self.steps["engine"][k] = int(ffi.cast("uintptr_t", engine._engine))
        self.values[k] = np.nan
        if actions is not None:
            self._actions[k] = actions

    def step(self, max_events: int) -> int:
        """Take the step of every engine: actions, then events up to `until`, then, if it is reached, an observation.

        Parameters
        ----------
        max_events : int
            Maximum number of events of each engine.

        Returns
        -------
        int
            Number of engines that have not reached their times, see `has_arrived`. -1: a time is not >= 0, and no
            step has been taken.
        """
        if self._process != os.getpid():
            self._start()
        return int(lib.ecc_crew_run(self._crew, self._pointer, len(self.steps), max_events))

    def _check(self, k: int) -> None:
        if not 0 <= k < len(self._engines):
            raise ValueError(f"k must be from 0 to {len(self._engines) - 1}, got {k}")

    def _start(self) -> None:
        """Start the threads; those of a parent process are left alone."""
        crew = ffi.new("ecc_crew_t **")
        code = lib.ecc_crew_new(crew)
        if code != 0:
            raise NativeError("memory must suffice for a crew of threads", code)
        self._end()  # in a child process: the threads of the parent do not exist here
        self._crew, self._process = crew[0], os.getpid()
        workers: list[threading.Thread] = []
        self._end = weakref.finalize(self, _end_threads, self._crew, workers, self._process)
        for _ in range(self._threads - 1):
            thread = threading.Thread(target=lib.ecc_crew_work, args=(self._crew,), daemon=True)
            thread.start()
            workers.append(thread)

    @property
    def has_arrived(self) -> NDArray[np.bool_]:
        """True for engines that have reached their time in the last step or take no part, shape (n_engines,)."""
        stops, steps = self.steps["stop"], self.steps
        has_stopped = (stops == lib.ECC_STOP_UNTIL) | (stops == lib.ECC_STOP_IDLE)
        has_arrived: NDArray[np.bool_] = (steps["engine"] == 0) | (has_stopped & (steps["code"] == 0))
        return has_arrived

    def stop_of(self, k: int) -> str:
        """Return the reason of the last stop of an engine.

        Parameters
        ----------
        k : int
        """
        self._check(k)
        return _STOPS[int(self.steps["stop"][k])]


def _end_threads(crew: Any, workers: list[threading.Thread], process: int) -> None:
    if os.getpid() == process:
        lib.ecc_crew_end(crew)
        for thread in workers:
            thread.join()
        lib.ecc_crew_free(crew)
