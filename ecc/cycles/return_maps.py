"""Multipliers of a return map that is known by runs only: by small changes at the start of a cycle.

y_m is the memory of a run at the start of cycle m. A run in which one entry of y_m is multiplied by 1 + e has the
memory y'_{m+k} later. G_k are the relative derivatives of y_{m+k} with respect to y_m, by differences of the runs with
+e and -e; those by +e and 0, and by 0 and -e, give the error. If y were the complete state of a cycle, G_1 would be the
derivative of the return map. A run also has a fast state (bytes in flight, filters) that y does not hold, but which a
change of y moves. After K cycles only the slowest modes of both are left, and G_{K+1} = M G_K on the space of G_K, with
the multipliers of M. Directions in which G_K is small have the multiplier 0: the cycle forgets them within K cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["STEP", "UNKNOWN", "ReturnMap", "period_of", "return_map"]

FloatArray = NDArray[np.float64]

STEP = 0.05
"""Relative change of the memory."""
_NEUTRAL = 0.005  # distance from 1 of a multiplier along a family of cycles
_ZERO = 0.05  # singular values of G_K that count as zero: 5 % of a change is left
_JUMP, _RATIO = 2.0, 4.0  # slope in one direction, and its ratio to that in the other, of a jump
UNKNOWN = 1e200
"""A memory from which on it is a bound that is not set yet."""
_MAX_PERIOD = 4


class ReturnMap(NamedTuple):
    """Multipliers per cycle, without those along a family of cycles.

    Attributes
    ----------
    multipliers : ndarray
        Complex, the largest modulus first; as many as memories, less `along`.
    along : int
        Number of multipliers 1.
    error : float
        Largest difference of a multiplier's modulus between changes up and changes down.
    jumps : tuple of int
        Entries of the memory that have a finite effect in one direction: the map jumps at the orbit. Their slope is
        that of the other direction.
    """

    multipliers: NDArray[np.complex128]
    along: int
    error: float
    jumps: tuple[int, ...]


def period_of(memories: FloatArray, tolerance: float) -> int:
    """Return after how many cycles the memory of a run returns, from its last cycles; 0: not within four.

    Parameters
    ----------
    memories : ndarray, shape (n_cycles, n_memories)
    tolerance : float
        Relative difference that counts as equal.
    """
    scale = tolerance * np.abs(memories[-1])
    known = np.abs(memories[-1]) < UNKNOWN
    for period in range(1, min(_MAX_PERIOD, len(memories) // 2) + 1):
        late, early = memories[-period:], memories[-2 * period : -period]
        if np.all((np.abs(late - early) <= scale)[:, known]):
            return period
    return 0


def return_map(respond: Callable[[int, float], FloatArray], start: FloatArray) -> ReturnMap:
    """Return the multipliers of a cycle.

    Parameters
    ----------
    respond : callable
        `respond(entry, e)`: memories after K and K + 1 cycles of a run in which an entry of the memory is multiplied by
        1 + e at the start of a cycle, shape (2, n_memories).
    start : ndarray, shape (n_memories,)
        Memory at that start; all differences are relative to it.
    """
    known = np.flatnonzero((np.abs(start) < UNKNOWN) & (start != 0.0))
    base = respond(int(known[0]), 0.0)
    ups, downs = ([respond(int(entry), e) for entry in known] for e in (STEP, -STEP))

    def slopes_of(late: FloatArray, early: FloatArray, distance: float) -> FloatArray:
        return ((late - early) / distance / start)[:, known]

    sides = [(slopes_of(up, base, STEP), slopes_of(base, down, STEP)) for up, down in zip(ups, downs, strict=True)]
    jumps = [k for k, (up, down) in enumerate(sides) if _jumps(up, down)]
    slopes = []
    for k, (up, down) in enumerate(sides):
        smaller = up if np.abs(up).max() < np.abs(down).max() else down
        slopes.append((smaller, smaller, smaller) if k in jumps else (0.5 * (up + down), up, down))
    central, *one_sided = (
        _multipliers(np.array(each).transpose(1, 2, 0), len(start)) for each in zip(*slopes, strict=True)
    )
    error = max(float(np.abs(np.abs(central) - np.abs(side)).max(initial=0.0)) for side in one_sided)
    neutral = np.abs(central - 1.0) <= _NEUTRAL
    return ReturnMap(central[~neutral], int(neutral.sum()), error, tuple(int(known[k]) for k in jumps))


def _jumps(up: FloatArray, down: FloatArray) -> bool:
    """Return whether an effect is large in one direction, and several times as large as in the other."""
    large, small = sorted((float(np.abs(up).max(initial=0.0)), float(np.abs(down).max(initial=0.0))), reverse=True)
    return large > _JUMP and large > _RATIO * small


def _multipliers(slopes: FloatArray, count: int) -> NDArray[np.complex128]:
    """Return the multipliers of G_{K+1} = M G_K, for the two of shape (n, n); those that are forgotten are 0."""
    before, after = slopes
    outputs, sizes, inputs = np.linalg.svd(before)
    slow = sizes > _ZERO
    values = np.zeros(count, complex)
    if np.any(slow):
        reduced = outputs[:, slow].T @ after @ inputs[slow].T / sizes[slow]
        values[: int(slow.sum())] = np.linalg.eigvals(reduced)
    return values[np.argsort(-np.abs(values), kind="stable")]
