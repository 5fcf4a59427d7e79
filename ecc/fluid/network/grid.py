"""Runs on a grid of times: the loop over its steps, recorded states, and sums over cumulative curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.compiled import Floats, inlined
from ecc.fluid.network.result import turns

__all__ = [
    "ANNOUNCE", "DECREASE", "DEPARTURE", "DISCIPLINE", "INTERVAL", "LOSS", "MACHINE", "MARK", "MEMORY", "NOT_POSITIVE",
    "NO_RATE", "PRIORITY", "QUEUE_INTERVAL", "REFUSAL", "ROUTER", "SLOW_START", "SOURCE", "STATE", "TOO_LARGE",
    "Grid", "failed",
]  # fmt: skip

FloatArray = NDArray[np.float64]

_SLICE = 20_000  # maximum number of steps between two reports of progress
_NEAR = 1e-6  # steps: a sample that ends this close to a row of the grid ends on the row

# parts that may fail: those of queues, then those of links, then those of flows
(
    ROUTER,
    ANNOUNCE,
    PRIORITY,
    REFUSAL,
    INTERVAL,
    QUEUE_INTERVAL,
    DISCIPLINE,
    DEPARTURE,
    SOURCE,
    SLOW_START,
    DECREASE,
    LOSS,
    MARK,
    MEMORY,
    STATE,
    MACHINE,
) = range(16)
_NAMES = (
    "router law",
    "announce law",
    "priority law",
    "refusal law",
    "interval law",
    "queue interval law",
    "queue discipline",
    "queue discipline",
    "source law",
    "slow start law",
    "decrease law",
    "loss response law",
    "mark response law",
    "memory law",
    "law of a state",
    "machine of states",
)
TOO_LARGE, NO_RATE, NOT_POSITIVE = 2, 4, 6  # even statuses, because those of laws are odd
_WHY = {
    TOO_LARGE: "its window is more than 2^63 bytes",
    NO_RATE: "its rate or its window is not a number >= 0",
    NOT_POSITIVE: "its window is not > 0",
}


@inlined
def failed(place: Floats, part: int, which: int, t: float, status: int) -> int:
    """Record in `Grid.failed` the part that failed, its link or group, and the time [s]; return the status."""
    place[0], place[1], place[2] = part, which, t
    return status


@dataclass
class Grid:
    """Times (i - zero + 1) h for rows i of the curves; `advance(begin, end)` computes rows, and returns a status.

    `rows`: number of rows, including those up to time 0. `samples`: ends of samples [s], equally far apart. After
    `run`: `reached`, the row after the last one computed; `stopped`, why the run ended; `recorded`, name -> states at
    the ends of samples. The function `failed` writes `failed`.
    """

    h: float
    zero: int
    rows: int
    samples: FloatArray
    reached: int = 0
    stopped: str = "completed"
    recorded: dict[str, FloatArray] = field(default_factory=dict)
    failed: FloatArray = field(default_factory=lambda: np.zeros(3))

    @classmethod
    def of(cls, h: float, zero: int, samples: FloatArray) -> Grid:
        """Return the grid that reaches the end of the last sample.

        The step does not depend on the samples, which end on a row of the grid or between two rows. Therefore the
        result of a run is the same for any sampling period.

        Parameters
        ----------
        h : float, s
            Step.
        zero : int
            Number of rows up to and including time 0.
        samples : ndarray, s
            Ends of samples.
        """
        return cls(h, zero, zero + ceil(float(samples[-1]) / h - _NEAR) + 1, samples)

    def run(
        self,
        advance: Callable[[int, int], int],
        progress: Callable[[float], None],
        states: Mapping[str, FloatArray] | None = None,
        *,
        code: Iterable[Any],
        flows: NDArray[np.int64],
        links: NDArray[np.int64] | None = None,
        visit: Callable[[float, Mapping[str, FloatArray]], None] | None = None,
    ) -> None:
        """Compute all rows, unless a law fails or Ctrl-C ends the run.

        Parameters
        ----------
        advance : callable
            Called as advance(begin, end).
        progress : callable
            Called with the share done, from 0 to 1.
        states : mapping, optional
            States to record, name -> the array that `advance` works on.
        code : iterable of CompiledHooks
            Compiled laws, which hold the messages of their exceptions.
        flows : ndarray, shape (n_groups,)
            First flow of each group.
        links : ndarray, optional
            Link of each queue, if links may have several.
        visit : callable, optional
            Called at the end of each sample with its time [s] and the states.
        """
        recorded: dict[str, list[FloatArray]] = {name: [] for name in states or {}}
        marks = self._rows_of(self.samples).astype(np.int64) + 1 if states else np.empty(0, np.int64)
        taken, i, steps = 0, self.zero, turns(_SLICE)
        try:
            while i < self.rows:
                following = min(i + next(steps), self.rows, *marks[taken : taken + 1])
                if (status := advance(i, following)) != 0:
                    self.stopped = self._failure(status, code, flows, links)
                    # rows before the failure are complete; the length of the turn that failed depends on the machine
                    i = round(self.zero - 1 + self.failed[2] / self.h)
                    break
                i = following
                while taken < len(marks) and marks[taken] == i:
                    taken += 1
                    for name, state in (states or {}).items():
                        recorded[name].append(state.copy())
                    if visit is not None:
                        visit(float(self.samples[taken - 1]), states or {})
                progress((i - self.zero) / (self.rows - self.zero))
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        self.reached = i
        rows = len(self.ends()) - 1
        self.recorded = {
            name: np.array(values[:rows]).reshape(rows, len((states or {})[name])) for name, values in recorded.items()
        }

    def _failure(
        self, status: int, code: Iterable[Any], flows: NDArray[np.int64], links: NDArray[np.int64] | None
    ) -> str:
        """Return a message with the part that failed, its link or flow, the time and the reason."""
        part, which = self.failed[:2].astype(int)
        owner = f"link {which if links is None or part == DEPARTURE else links[which]}"
        if part >= SOURCE:
            owner = f"flow {flows[which]}"
        reasons = _WHY | {k: v for compiled in code for k, v in getattr(compiled, "reasons", {}).items()}
        why = reasons.get(status, reasons.get(-status, "an exception"))
        return f"the {_NAMES[part]} of {owner} failed at t = {self.failed[2]:.9g} s: {why}"

    def _rows_of(self, times: Any) -> FloatArray:
        """Return the rows of times, fractional if a time is not on the grid."""
        at: FloatArray = self.zero - 1 + np.asarray(times) / self.h
        near = np.rint(at)
        return np.where(np.abs(at - near) < _NEAR, near, at)

    def ends(self) -> FloatArray:
        """Return the rows of time 0 and of the ends of complete samples, fractional if they are not on the grid."""
        at = self._rows_of(np.concatenate([[0.0], self.samples]))
        return at[at <= self.reached - 1] if self.reached > self.zero else at[:1]

    def at_ends(self, curves: NDArray[Any]) -> NDArray[Any]:
        """Return curves that step on the grid, in the rows nearest to the ends of samples: shape (n_samples, n_curves).

        Parameters
        ----------
        curves : ndarray, shape (n_curves, rows)
        """
        return curves[:, np.rint(self.ends()[1:]).astype(np.int64)].T

    def values(self, curves: FloatArray) -> FloatArray:
        """Return curves that are linear between rows, at time 0 and the ends of samples: shape (1 + n, n_curves).

        Parameters
        ----------
        curves : ndarray, shape (n_curves, rows)
        """
        ends = self.ends()
        columns = [np.interp(ends, np.arange(self.rows), curve) for curve in curves]
        return np.array(columns).reshape(len(curves), -1).T

    def sums(self, curves: FloatArray) -> FloatArray:
        """Return the growth of cumulative curves in each sample: shape (n_samples, n_curves).

        Parameters
        ----------
        curves : ndarray, shape (n_curves, rows)
        """
        return np.diff(self.values(curves), axis=0)
