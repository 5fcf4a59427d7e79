"""Runs on a grid of times: the loop over its steps, recorded states, and sums over cumulative curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.network.result import turns

__all__ = ["Grid"]

FloatArray = NDArray[np.float64]

_SLICE = 20_000  # steps between two reports of progress, at most
_NEAR = 1e-6  # of a step: a sample that ends so close to the grid ends on it


@dataclass
class Grid:
    """Times (i - zero + 1) h for rows i of the curves; `advance(begin, end)` computes rows, and returns a status.

    `rows`: how many there are, those up to time 0 included; `samples`: ends of samples [s], equally far apart. After
    `run`: `reached`, the row that would be next; `stopped`; `recorded`, name -> states at the ends of samples.
    """

    h: float
    zero: int
    rows: int
    samples: FloatArray
    reached: int = 0
    stopped: str = "completed"
    recorded: dict[str, FloatArray] = field(default_factory=dict)

    def run(
        self,
        advance: Callable[[int, int], int],
        progress: Callable[[float], None],
        states: Mapping[str, FloatArray] | None = None,
    ) -> None:
        """Compute all rows, until a law fails or Ctrl-C.

        Parameters
        ----------
        advance : callable
            Called as advance(begin, end).
        progress : callable
            Called with the share done.
        states : mapping, optional
            What is recorded, name -> the array that `advance` works on; None: nothing.
        """
        found: dict[str, list[FloatArray]] = {name: [] for name in states or {}}
        marks = self._rows_of(self.samples).astype(np.int64) + 1 if states else np.empty(0, np.int64)
        taken, i, steps = 0, self.zero, turns(_SLICE)
        try:
            while i < self.rows:
                following = min(i + next(steps), self.rows, *marks[taken : taken + 1])
                if advance(i, following) != 0:
                    begin, end = ((row - self.zero + 1) * self.h for row in (i, following - 1))
                    self.stopped = f"a law failed between t = {begin:g} s and {end:g} s"
                    break
                i = following
                while taken < len(marks) and marks[taken] == i:
                    taken += 1
                    for name, state in (states or {}).items():
                        found[name].append(state.copy())
                progress((i - self.zero) / (self.rows - self.zero))
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        self.reached = i
        rows = len(self.ends()) - 1
        self.recorded = {
            name: np.array(values[:rows]).reshape(rows, len((states or {})[name])) for name, values in found.items()
        }

    def _rows_of(self, times: Any) -> FloatArray:
        """Rows of times, between two of them where a time is not on the grid."""
        at: FloatArray = self.zero - 1 + np.asarray(times) / self.h
        near = np.rint(at)
        return np.where(np.abs(at - near) < _NEAR, near, at)

    def ends(self) -> FloatArray:
        """Return the rows of time 0 and of the ends of the samples that are whole, between two where they lie so."""
        at = self._rows_of(np.concatenate([[0.0], self.samples]))
        return at[at <= self.reached - 1] if self.reached > self.zero else at[:1]

    def at_ends(self, curves: NDArray[Any]) -> NDArray[Any]:
        """Return what steps on the grid, in the rows nearest to the ends of samples: shape (n_samples, n_curves).

        Parameters
        ----------
        curves : ndarray, shape (n_curves, rows)
        """
        return curves[:, np.rint(self.ends()[1:]).astype(np.int64)].T

    def sums(self, curves: FloatArray) -> FloatArray:
        """Return by how much cumulative curves grew in each sample: shape (n_samples, n_curves).

        Parameters
        ----------
        curves : ndarray, shape (n_curves, rows)
        """
        ends = self.ends()
        at = [np.interp(ends, np.arange(self.rows), curve) for curve in curves]
        found: FloatArray = np.diff(np.array(at).reshape(len(curves), -1).T, axis=0)
        return found
