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

_SLICE = 20_000  # steps between two reports of progress, at most
_NEAR = 1e-6  # of a step: a sample that ends so close to the grid ends on it

# what may fail: first that of queues, then that of links, then that of flows
(
    ROUTER, ANNOUNCE, PRIORITY, REFUSAL, INTERVAL, QUEUE_INTERVAL, DISCIPLINE, DEPARTURE,
    SOURCE, SLOW_START, DECREASE, LOSS, MARK, MEMORY, STATE, MACHINE,
) = range(16)  # fmt: skip
_NAMES = (
    "router law", "announce law", "priority law", "refusal law", "interval law", "queue interval law",
    "queue discipline", "queue discipline", "source law", "slow start law", "decrease law", "loss response law",
    "mark response law", "memory law", "law of a state", "machine of states",
)  # fmt: skip
TOO_LARGE, NO_RATE, NOT_POSITIVE = 2, 4, 6  # statuses beside those of laws, which are odd
_WHY = {
    TOO_LARGE: "its window is more than 2^63 bytes",
    NO_RATE: "its rate or its window is not a number >= 0",
    NOT_POSITIVE: "its window is not > 0",
}


@inlined
def failed(place: Floats, what: int, which: int, t: float, status: int) -> int:
    """Note in `Grid.failed` what failed, of which link or group, and when [s]; returns the status."""
    place[0], place[1], place[2] = what, which, t
    return status


@dataclass
class Grid:
    """Times (i - zero + 1) h for rows i of the curves; `advance(begin, end)` computes rows, and returns a status.

    `rows`: how many there are, those up to time 0 included; `samples`: ends of samples [s], equally far apart. After
    `run`: `reached`, the row that would be next; `stopped`; `recorded`, name -> states at the ends of samples.
    `failed` is for the function of that name.
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

        The step does not depend on the samples, which end on the grid or between two of its rows: the result of a run
        is the same for any sampling period.

        Parameters
        ----------
        h : float, s
            Step.
        zero : int
            Number of rows up to time 0, which is included.
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
        code : iterable of CompiledHooks
            Of the laws: their exceptions.
        flows : ndarray, shape (n_groups,)
            The first flow of each group.
        links : ndarray, optional
            The link of each queue, where links may have several.
        """
        found: dict[str, list[FloatArray]] = {name: [] for name in states or {}}
        marks = self._rows_of(self.samples).astype(np.int64) + 1 if states else np.empty(0, np.int64)
        taken, i, steps = 0, self.zero, turns(_SLICE)
        try:
            while i < self.rows:
                following = min(i + next(steps), self.rows, *marks[taken : taken + 1])
                if (status := advance(i, following)) != 0:
                    self.stopped = self._failure(status, code, flows, links)
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

    def _failure(
        self, status: int, code: Iterable[Any], flows: NDArray[np.int64], links: NDArray[np.int64] | None
    ) -> str:
        """What failed, of which link or flow, when, and why."""
        what, which = self.failed[:2].astype(int)
        of = f"link {which if links is None or what == DEPARTURE else links[which]}"
        if what >= SOURCE:
            of = f"flow {flows[which]}"
        reasons = _WHY | {k: v for one in code for k, v in getattr(one, "reasons", {}).items()}
        why = reasons.get(status, reasons.get(-status, "an exception"))
        return f"the {_NAMES[what]} of {of} failed at t = {self.failed[2]:.9g} s: {why}"

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
        found = [np.interp(ends, np.arange(self.rows), curve) for curve in curves]
        return np.array(found).reshape(len(curves), -1).T

    def sums(self, curves: FloatArray) -> FloatArray:
        """Return by how much cumulative curves grew in each sample: shape (n_samples, n_curves).

        Parameters
        ----------
        curves : ndarray, shape (n_curves, rows)
        """
        return np.diff(self.values(curves), axis=0)
