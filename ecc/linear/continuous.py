"""Linear systems in continuous time with constant delays, retarded and neutral."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from ecc.linear.certificate import is_stable
from ecc.linear.characteristic import Complex, Real, Terms
from ecc.linear.systems import LinearSystem, merge, read_delays, read_matrices, read_notes

__all__ = ["DelaySystem"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class DelaySystem(LinearSystem):
    """x'(t) + sum_j E_j x'(t - sigma_j) = sum_k A_k x(t - tau_k), delays exact.

    Parameters
        matrices : sequence of K real n x n matrices A_k (numbers for n = 1), 1/s.
        delays : sequence of K delays tau_k >= 0, seconds; equal ones are merged.
        neutral : sequence of J real n x n matrices E_j; none for a retarded system.
        neutral_delays : sequence of J delays sigma_j >= 0, seconds.
        opened : DelaySystem or None. The same system with its loop cut, for the open loop and its margins.
        notes : strings of one line each: what must be known about the model beside its verdict.
    Raises
        ValueError: no matrix, matrices not square, not finite or of different sizes, a delay negative or not finite,
            I + E at delay 0 singular.
        TypeError: matrices or delays that are not real; `opened` of another kind.
    Example:
        >>> DelaySystem([-1.0], [1.5]).is_stable, DelaySystem([-1.0], [1.6]).is_stable
        (True, False)
    """

    neutral: Real
    neutral_delays: Real

    def __init__(
        self,
        matrices: Sequence[ArrayLike] | Real,
        delays: Sequence[float] | Real,
        *,
        neutral: Sequence[ArrayLike] | Real = (),
        neutral_delays: Sequence[float] | Real = (),
        opened: DelaySystem | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        a = read_matrices(matrices, "matrices of a DelaySystem")
        if not len(a):
            raise ValueError("matrices of a DelaySystem must be at least one, got none")
        tau = read_delays(delays, len(a), "delays of a DelaySystem", "s")
        e = read_matrices(neutral, "neutral matrices of a DelaySystem", a.shape[1])
        sigma = read_delays(neutral_delays, len(e), "neutral_delays of a DelaySystem", "s")
        for name, value in zip(("matrices", "delays"), merge(a, tau), strict=True):
            object.__setattr__(self, name, value)
        for name, value in zip(("neutral", "neutral_delays"), merge(e, sigma), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "opened", opened)
        object.__setattr__(self, "notes", read_notes(notes))
        if np.any(self.neutral_delays == 0.0) and np.linalg.cond(self._leading) > 1e14:
            raise ValueError("I + E of delay 0 must be regular, got a singular matrix: x' is not determined")
        self._check_opened()

    @property
    def _leading(self) -> Real:
        """The matrix at x'(t): I + E_j of delay 0."""
        return np.asarray(np.eye(self.size) + self.neutral[self.neutral_delays == 0.0].sum(axis=0))

    @property
    def _leading_determinant(self) -> float:
        return float(np.linalg.det(self._leading)) if np.any(self.neutral_delays == 0.0) else 1.0

    def _part(self, states: NDArray[np.int64]) -> DelaySystem:
        rows = states[:, None]
        return DelaySystem(
            self.matrices[:, rows, states],
            self.delays,
            neutral=self.neutral[:, rows, states],
            neutral_delays=self.neutral_delays,
            notes=self.notes,
        )

    @property
    def _pattern(self) -> NDArray[np.bool_]:
        return np.asarray(super()._pattern | np.any(self.neutral != 0.0, axis=0))

    def _terms(self) -> Terms:
        later = self.neutral_delays > 0.0
        a: Real = self.matrices
        e: Real = self.neutral[later]
        if not np.array_equal(self._leading, np.eye(self.size)):
            a, e = (np.asarray(np.linalg.solve(self._leading, x)) for x in (a, e))
        return Terms(-a, self.delays, e, self.neutral_delays[later], sampled=False)

    def characteristic(self, s: ArrayLike) -> Complex:
        """Return det(s I + s sum_j E_j exp(-s sigma_j) - sum_k A_k exp(-s tau_k)).

        Parameters
            s : complex, any shape, rad/s.
        Returns
            det Delta : complex, the shape of s.
        """
        points = np.asarray(s, dtype=np.complex128)
        value = self._characteristic.determinant(points.ravel()).reshape(points.shape)
        return np.asarray(self._leading_determinant * value)

    @cached_property
    def essential_abscissa(self) -> float:
        """Supremum of the real parts that the neutral part alone allows under small changes of its delays [1/s].

        -inf for retarded systems. Exact (to 1e-9 above it) for one state, one neutral delay, matrices E_j triangular in
        one order of the states, and entries of one sign up to the signs of the states; otherwise an upper bound: the
        spectral radius of sum_j |E_j| exp(-x sigma_j) is 1 there. A count on a line needs that radius below 1 on it, so
        a system of several states whose radius is 1 or more at x = 0 is called not stable, although it may be stable.
        """
        ch = self._characteristic
        if ch.slope is None:
            return -inf
        on = np.any(ch.slope != 0.0, axis=(1, 2))
        if on.sum() == 1:
            radius = float(np.abs(np.linalg.eigvals(ch.slope[on][0])).max())
            return float(np.log(radius) / ch.delays[on][0]) if radius > 0.0 else -inf
        return self._countable

    @cached_property
    def _countable(self) -> float:
        """Right of this line roots have a proven bound."""
        ch = self._characteristic
        if ch.slope is None or ch.neutral_radius(-600.0 * ch.unit) < 1.0:
            return -inf
        low, high = -600.0 * ch.unit, ch.unit
        while ch.neutral_radius(high) >= 1.0:
            high *= 2.0
        return float(brentq(lambda x: np.log(ch.neutral_radius(x)), low, high, xtol=1e-14 * ch.unit, rtol=1e-14))

    @cached_property
    def is_stable(self) -> bool:
        """Whether all roots have Re s < 0, by a proven count (in balls where floating point cannot tell).

        A root within 1e-13 of the axis, relative to the scale of the system, counts as not stable. A neutral system is
        stable only if it stays so under small changes of its neutral delays.
        """
        return self.essential_abscissa < 0.0 and is_stable(self)

    @property
    def _floor(self) -> float:
        ch = self._characteristic
        floor = -600.0 * ch.unit if ch.longest > 0.0 else -2.0 * (ch.bound(0.0) + ch.unit)
        return max(floor, self._countable + 1e-3 * ch.unit)

    @property
    def spectral_abscissa(self) -> float:
        """Real part of the rightmost root [1/s]; of a neutral system at least its essential abscissa."""
        roots = self.roots(1)
        return max(float(roots[0].real) if len(roots) else -inf, self.essential_abscissa)

    def roots(self, k: int) -> Complex:
        """Return the k rightmost roots, conjugates side by side, verified by a count that none is missing.

        Parameters
            k : int >= 1. A pair may be cut by k: its root in the upper half plane is then the last.
        Returns
            roots : shape (k,) or less, complex, 1/s, by falling real part; less if the system has fewer (no delays), or
                if a neutral one has fewer right of its essential abscissa.
        Raises
            ValueError: k < 1.   TypeError: k not whole.   ConvergenceError: carries the roots found.
        Notes: simple roots to rounding, about 1e-14 |s|. Cost: an eigenproblem of at most 100 and a count.
        Example:
            >>> DelaySystem([-1.0], [1.0]).roots(2)
            array([-0.31813151+1.33723570j, -0.31813151-1.33723570j])
        """
        roots = self._rightmost(k)
        return roots[roots.real > self.essential_abscissa]
