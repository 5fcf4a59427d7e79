"""Floquet multipliers of linear delay equations with periodic coefficients, by collocation of the solution operator.

x'(t) = A(t) x(t) + sum_j B_j(t) x(t - tau_j) maps the solution on [-r, 0] to that on [T - r, T], with r no shorter than
the longest delay. The nonzero eigenvalues of this map do not depend on r. They are the Floquet multipliers (Hale,
Verduyn Lunel 1993, ch. 8). The interval [-r, T] is divided into elements. In each, x is a polynomial that satisfies the
equation at Chebyshev points. Multipliers then converge exponentially in the degree, if coefficients are smooth within
the elements (Breda, Maset, Vermiglio 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows
from ecc.linear.characteristic import Complex, Real
from ecc.linear.chebyshev import chebyshev_points, values_between
from ecc.linear.systems import read_delays

__all__ = ["FloquetMultipliers", "floquet_multipliers"]

_MAX_UNKNOWNS = 3000
_REFINED = 6  # additional degree of the second discretization, from which errors are estimated
_ROUNDING = 1e-13  # relative to the largest multiplier: errors are not estimated to be smaller


@dataclass(frozen=True, repr=False, eq=False)
class FloquetMultipliers(Displayed):
    """Dominant Floquet multipliers, with estimates of their errors.

    Attributes
    ----------
    values : ndarray, shape (k,)
        Multipliers by decreasing modulus, complex.
    errors : ndarray, shape (k,)
        Distance from the nearest multiplier of a discretization with polynomials of a higher degree: an estimate of the
        error, not a bound.
    degree : int
        Degree of the polynomials from which the values come.
    elements : int
        Number of elements in a period.
    """

    values: Complex
    errors: Real
    degree: int
    elements: int

    @property
    def spectral_radius(self) -> float:
        """Largest modulus of a multiplier."""
        return float(np.abs(self.values[0]))

    @property
    def is_stable(self) -> bool | None:
        """True if the spectral radius is below 1 by more than ten times its estimated error, False if above; or None.

        Estimated, not proven.
        """
        distance = self.spectral_radius - 1.0
        if abs(distance) <= 10.0 * float(self.errors[0]):
            return None
        return distance < 0.0

    def _rows(self) -> Rows:
        return [
            ("spectral radius", f"{self.spectral_radius:.10g} (estimated error {self.errors[0]:.1g})"),
            ("multipliers", ", ".join(f"{value:.6g}" for value in self.values[:4])),
            ("method", f"collocation, degree {self.degree}, {self.elements} elements in a period"),
        ]

    def _title(self) -> str:
        return "Floquet multipliers: " + {True: "stable", False: "unstable", None: "undecided"}[self.is_stable]


@check_arguments
def floquet_multipliers(
    a: Callable[[float], Any],
    b: Sequence[Callable[[float], Any]],
    delays: Sequence[float],
    period: float,
    k: int = 6,
    degree: int = 12,
    breaks: ArrayLike = (),
) -> FloquetMultipliers:
    """Return the dominant Floquet multipliers of x'(t) = A(t) x(t) + sum_j B_j(t) x(t - delays[j]).

    Parameters
    ----------
    a : callable
        Function of the time [s] that returns the matrix A(t) of shape (n, n), 1/s, or a number; periodic.
    b : sequence of callable
        The same for each matrix B_j(t).
    delays : sequence of float
        Delays > 0, seconds.
    period : float
        Common period of the coefficients, seconds.
    k : int, optional
        Number of multipliers, >= 1.
    degree : int, optional
        Degree of the polynomials, 4 to 40.
    breaks : array_like, optional
        Times in [0, period) at which coefficients jump, for example at which a tooth of a milling cutter enters or
        leaves the material.

    Returns
    -------
    FloquetMultipliers
        With estimated errors. The result is stable if the spectral radius is below 1.

    Raises
    ------
    ValueError
        A period or delay is not positive, matrices differ in shape or are not finite, or more than 3000 unknowns.

    Notes
    -----
    Elements end at the breaks and at the times to which one delay moves them. Between two of these times, they are no
    longer than a quarter of the period or half the shortest delay. The delays need not be multiples of the period.

    Examples
    --------
    >>> # x'' + (0.75 + cos t) x = -0.1 x(t - 2 pi)
    >>> result = floquet_multipliers(
    ...     lambda t: [[0.0, 1.0], [-0.75 - np.cos(t), 0.0]],
    ...     [lambda t: [[0.0, 0.0], [-0.1, 0.0]]], [2.0 * np.pi], 2.0 * np.pi,
    ... )
    >>> round(result.spectral_radius, 6), result.is_stable
    (0.602898, True)
    """
    if not 0.0 < period < np.inf:
        raise ValueError(f"period must be finite and > 0 s, got {shown(period)}")
    if k < 1:
        raise ValueError(f"k must be >= 1, got {k}")
    if not 4 <= degree <= 40:
        raise ValueError(f"degree must be 4 to 40, got {degree}")
    tau = read_delays(delays, len(b), "delays of periodic coefficients", "s")
    if not len(tau) or not np.all(tau > 0.0):
        raise ValueError(f"delays must contain at least one delay > 0 s, and no other, got {shown(delays)}")
    jumps = np.asarray(breaks, np.float64).ravel()
    if not np.all((jumps >= 0.0) & (jumps < period)):
        raise ValueError(f"breaks must lie in [0, {period:g}) s, got {shown(breaks)}")
    ends = _ends(tau, period, jumps)
    n_elements = int((ends > 1e-12 * period).sum())
    coarse, fine = (_multipliers(a, b, tau, period, ends, order) for order in (degree, degree + _REFINED))
    values = fine[:k]
    errors = np.abs(values[:, None] - coarse[None, :]).min(axis=1)
    return FloquetMultipliers(values, np.maximum(errors, _ROUNDING * abs(values[0])), degree + _REFINED, n_elements)


def _ends(tau: Real, period: float, jumps: Real) -> Real:
    """Return the ends of elements from -r <= -max(tau) to the period; those of [-r, 0] are periodic continuations."""
    moved = np.concatenate([jumps, *(np.remainder(jumps + delay, period) for delay in tau)])
    fixed = np.unique(np.concatenate([[0.0, period], moved]))
    fixed = fixed[np.concatenate([[True], np.diff(fixed) > 1e-9 * period])]
    longest = min(0.25 * period, 0.5 * float(tau.min()))
    parts = [
        np.linspace(low, high, ceil((high - low) / longest) + 1)[:-1]
        for low, high in zip(fixed[:-1], [*fixed[1:-1], period], strict=True)
    ]
    inside = np.concatenate(parts)
    laps = ceil(float(tau.max()) / period)
    every = np.concatenate([inside + lap * period for lap in range(-laps, 1)] + [np.array([period])])
    start = int(np.searchsorted(every, -float(tau.max()) * (1.0 - 1e-12), side="right")) - 1
    return np.asarray(every[max(0, start) :])


def _matrix(function: Callable[[float], Any], t: float, n: int | None) -> Real:
    value = np.atleast_2d(np.asarray(function(t), np.float64))
    size = value.shape[0] if n is None else n
    if value.shape != (size, size) or not np.isfinite(value).all():
        raise ValueError(f"coefficients must be finite matrices of one shape, got {shown(value)} at t = {t:g} s")
    return value


def _multipliers(
    a: Callable[[float], Any], b: Sequence[Callable[[float], Any]], tau: Real, period: float, ends: Real, degree: int
) -> Complex:
    """Return the multipliers of the discretized map by decreasing modulus."""
    n = len(_matrix(a, 0.0, None))
    decreasing, weight, slope = chebyshev_points(degree)
    x, derivative = -decreasing, -slope
    elements = len(ends) - 1
    total = n * (elements * degree + 1)
    if total > _MAX_UNKNOWNS:
        raise ValueError(f"the discretization must have <= {_MAX_UNKNOWNS} unknowns, got {total}: shorten the delays")
    zero = int(np.argmin(np.abs(ends)))
    known = n * (zero * degree + 1)
    system = np.zeros((total - known, total))

    def columns(element: int) -> NDArray[np.int64]:
        return n * (element * degree + np.arange(degree + 1))[:, None] + np.arange(n)

    row = 0
    for element in range(zero, elements):
        low, high = ends[element], ends[element + 1]
        unknowns = columns(element)
        for i in range(1, degree + 1):
            # a point at the end of an element belongs to it, so coefficients are evaluated slightly before a jump
            t = low + 0.5 * (high - low) * (x[i] + 1.0)
            inside = min(t, high - 1e-12 * (high - low))
            rows = slice(row, row + n)
            for j in range(degree + 1):
                system[rows, unknowns[j]] += 2.0 / (high - low) * derivative[i, j] * np.eye(n)
            system[rows, unknowns[i]] -= _matrix(a, inside, n)
            for function, delay in zip(b, tau, strict=True):
                back = t - float(delay)
                source = int(np.clip(np.searchsorted(ends, back - 1e-12 * period), 1, elements)) - 1
                width = ends[source + 1] - ends[source]
                basis = values_between(x, weight, np.array([2.0 * (back - ends[source]) / width - 1.0]))[0]
                gain = _matrix(function, inside, n)
                for column, factor in zip(columns(source), basis, strict=True):
                    system[rows, column] -= factor * gain
            row += n
    solution = -np.linalg.solve(system[:, known:], system[:, :known])
    solutions = np.vstack([np.eye(known), solution])
    values = np.linalg.eigvals(solutions[total - known :]).astype(np.complex128)
    return np.asarray(values[np.lexsort((-values.imag, -np.abs(values)))])
