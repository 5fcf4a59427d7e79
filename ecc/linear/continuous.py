"""Linear systems in continuous time with constant delays, retarded and neutral."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from ecc._support.arguments import check_arguments
from ecc._support.display import quantity_text
from ecc.linear.bordered import Entries
from ecc.linear.characteristic import Complex, Rational, Real, Terms, identity, rounded
from ecc.linear.exact_pair import MAX_STATES
from ecc.linear.loops import ClosedLoop
from ecc.linear.neutral import largest_radius
from ecc.linear.systems import merge, rational_sums, read_delays, read_matrices, read_notes

__all__ = ["DelaySystem"]

_MAX_ROOTS = 100_000  # roots that `roots` computes, in half a minute
_FLOORS = (
    1e-3,
    1e-2,
    1e-1,
)  # in 1/(longest delay): distances from the essential abscissa, right of which roots are sought


@check_arguments
@dataclass(frozen=True, eq=False, repr=False, init=False)
class DelaySystem(ClosedLoop):
    """x'(t) + sum_j E_j x'(t - sigma_j) = sum_k A_k x(t - tau_k), delays exact.

    Parameters
    ----------
    matrices : sequence of array_like or ndarray
        Sequence of K real n x n matrices A_k (numbers for n = 1), 1/s.
    delays : sequence of float or ndarray
        Sequence of K delays tau_k >= 0, seconds; equal ones are merged.
    neutral : sequence of array_like or ndarray, optional
        Sequence of J real n x n matrices E_j; empty for a retarded system.
    neutral_delays : sequence of float or ndarray, optional
        Sequence of J delays sigma_j >= 0, seconds.
    opened : DelaySystem or None
        The same system with its loop opened, for the open loop and its margins.
    notes : iterable of str, optional
        Strings of one line each: limitations of the model, in addition to its verdict.

    Raises
    ------
    ValueError
        No matrix; matrices not square, not finite or of different sizes; a delay negative or not finite; I + E at delay
        0 singular.
    TypeError
        Matrices or delays are not real, or `opened` is of another kind.

    Examples
    --------
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
            raise ValueError("matrices of a DelaySystem must contain at least one matrix, got none")
        tau = read_delays(delays, len(a), "delays of a DelaySystem", "s")
        e = read_matrices(neutral, "neutral matrices of a DelaySystem", a.shape[1])
        sigma = read_delays(neutral_delays, len(e), "neutral_delays of a DelaySystem", "s")
        *plain, is_plain_exact = merge(a, tau)
        *derivative, is_derivative_exact = merge(e, sigma)
        for name, value in zip(("matrices", "delays", "neutral", "neutral_delays"), (*plain, *derivative), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_given", None if is_plain_exact and is_derivative_exact else (a, tau, e, sigma))
        object.__setattr__(self, "opened", opened)
        object.__setattr__(self, "_own_notes", read_notes(notes))
        if np.any(self.neutral_delays == 0.0) and np.linalg.cond(self._leading) > 1e14:
            raise ValueError("I + E of delay 0 must be regular, got a singular matrix: x' is not determined")
        self._check_opened()

    @classmethod
    def _of_entries(cls, entries: Entries, *, opened: DelaySystem | None, notes: Iterable[str] = ()) -> DelaySystem:
        """Return the retarded system of some entries, without its matrices until they are read."""
        system = object.__new__(cls)
        n = entries.n_states
        system.__dict__.update(
            _given_entries=entries,
            _given=None,
            _own_notes=read_notes(notes),
            opened=opened,
            neutral=np.zeros((0, n, n)),
            neutral_delays=np.zeros(0),
        )
        system._check_opened()
        return system

    def _find_entries(self) -> Entries | None:
        if len(self.neutral) or self._given is not None or self.size <= MAX_STATES:
            return None
        k, row, column = np.nonzero(self.matrices)
        return Entries(row, column, self.delays[k], self.matrices[k, row, column], self.size, 0)

    @property
    def _leading(self) -> Real:
        """The matrix at x'(t): I + E_j for delay 0."""
        return np.asarray(np.eye(self.size) + self.neutral[self.neutral_delays == 0.0].sum(axis=0))

    @property
    def _leading_determinant(self) -> float:
        return float(np.linalg.det(self._leading)) if np.any(self.neutral_delays == 0.0) else 1.0

    def _part(self, states: NDArray[np.int64]) -> DelaySystem:
        rows = states[:, None]
        a, tau, e, sigma = self._exact
        part, derivative = a[:, rows, states], e[:, rows, states]
        return DelaySystem(part, tau, neutral=derivative, neutral_delays=sigma, notes=self._own_notes)

    def with_gain(self, gain: float) -> DelaySystem:
        opened, back = self._opened(), 1.0 - gain
        return DelaySystem(
            np.concatenate([gain * self.matrices, back * opened.matrices]),
            np.concatenate([self.delays, opened.delays]),
            neutral=np.concatenate([gain * self.neutral, back * opened.neutral]),
            neutral_delays=np.concatenate([self.neutral_delays, opened.neutral_delays]),
        )

    @property
    def _exact(self) -> tuple[Real, ...]:
        """Matrices and delays, neutral ones last, without rounding."""
        return self._given or (self.matrices, self.delays, self.neutral, self.neutral_delays)

    def _describe(self) -> Sequence[tuple[str, str]]:
        rows = list(super()._describe())
        if len(self.neutral_delays):
            ends = dict.fromkeys((float(self.neutral_delays.min()), float(self.neutral_delays.max())))
            rows.append(("neutral delays", " to ".join(quantity_text(end, "s") for end in ends)))
        return rows

    @property
    def _pattern(self) -> NDArray[np.bool_]:
        return np.asarray(super()._pattern | np.any(self.neutral != 0.0, axis=0))

    def terms(self) -> Terms:
        later = self.neutral_delays > 0.0
        sigma = self.neutral_delays[later]
        if later.all():
            return Terms(-self.matrices, self.delays, self.neutral, sigma, sampled=False)
        b, e = self._rational
        return Terms(rounded(b, self.size), self.delays, rounded(e, self.size), sigma, sampled=False)

    @cached_property
    def _rational(self) -> tuple[Rational, Rational]:
        a, tau, e, sigma = self._exact
        plain, other = rational_sums(a, tau, -1), rational_sums(e, sigma)
        lead = other.pop(0.0, None)
        if lead is None:
            return plain, other
        lead += identity(self.size)
        b, c = ({delay: lead.solve(matrix) for delay, matrix in sums.items()} for sums in (plain, other))
        return b, c

    def _unrounded(self) -> Callable[[], tuple[Rational, Rational]] | None:
        exact = self._given is None and bool(np.all(self.neutral_delays > 0.0))
        return None if exact else lambda: self._rational

    def characteristic(self, s: ArrayLike) -> Complex:
        """Return det(s I + s sum_j E_j exp(-s sigma_j) - sum_k A_k exp(-s tau_k)).

        Parameters
        ----------
        s : complex
            Points of any shape, rad/s.

        Returns
        -------
        complex ndarray
            Det Delta : complex, the shape of s.
        """
        points = np.asarray(s, dtype=np.complex128)
        with np.errstate(all="ignore"):
            determinant = self.characteristic_matrix.determinant(points.ravel()).reshape(points.shape)
            value = self._leading_determinant * determinant
        if not np.isfinite(value).all():
            raise ValueError(f"s must give a finite determinant, got {points[~np.isfinite(value)][0]}")
        return np.asarray(value)

    @cached_property
    def essential_abscissa(self) -> float:
        """Supremum of the real parts due to the neutral part alone under small changes of its delays [1/s].

        -inf for retarded systems; otherwise the x at which sup over theta of the spectral radius of
        sum_j E_j exp(-x sigma_j + j theta_j) is 1. Exact up to rounding (about 1e-15 of 1/(shortest neutral delay)) for
        one state, one neutral delay, and matrices E_j triangular in one order of the states. For others the supremum
        over theta is searched: the value is attained at some theta to rounding, but the search may miss a higher one.
        The verdict does not depend on this number but on a proof (`ecc.linear.neutral`).
        """
        return max(part._essential for part, _ in self.blocks)

    @cached_property
    def _essential(self) -> float:
        """The essential abscissa of one group of states."""
        ch = self.characteristic_matrix
        if ch.slope is None:
            return -inf
        on = np.any(ch.slope != 0.0, axis=(1, 2))
        e, sigma = ch.slope[on], ch.delays[on]
        if len(e) == 1:
            radius = float(np.abs(np.linalg.eigvals(e[0])).max())
            return float(np.log(radius) / sigma[0]) if radius > 0.0 else -inf
        if self._plain == -inf:  # an upper bound
            return -inf
        x, floor = -600.0 * ch.unit, -600.0 * ch.unit

        def size(y: float, theta: Real) -> float:
            rotated = np.tensordot(np.exp(-y * sigma + 1j * theta), e, axes=1)
            return float(np.log(np.abs(np.linalg.eigvals(rotated)).max()))

        for _ in range(20):  # the angles, then the line on which they reach 1, from below, until neither changes
            theta = largest_radius(e * np.exp(-max(x, -20.0 * ch.unit) * sigma)[:, None, None])[1]
            if size(self._plain, theta) >= 0.0:
                return self._plain
            if size(floor, theta) <= 0.0:
                break
            before = x
            x = max(x, float(brentq(size, floor, self._plain, args=(theta,), xtol=1e-16 * ch.unit, rtol=1e-15)))
            if x <= before + 1e-12 * ch.unit:
                break
        return x if x > -600.0 * ch.unit else -inf

    @cached_property
    def _plain(self) -> float:
        """An upper bound, at which the spectral radius of sum_j |E_j| exp(-x sigma_j) is 1."""
        ch = self.characteristic_matrix
        if ch.slope is None or ch.neutral_radius(-600.0 * ch.unit) < 1.0:
            return -inf
        low, high = -600.0 * ch.unit, ch.unit
        while ch.neutral_radius(high) >= 1.0:
            high *= 2.0
        return float(brentq(lambda x: np.log(ch.neutral_radius(x)), low, high, xtol=1e-14 * ch.unit, rtol=1e-14))

    @cached_property
    def _countable(self) -> float:
        """A line such that the roots right of it have a proven bound."""
        sharp, plain = self._essential, self._plain
        near = sharp + 1e-3 * self.characteristic_matrix.unit
        return sharp if plain > near and self.characteristic_matrix.bound(near) < inf else plain

    @property
    def is_stable(self) -> bool:
        """True if all roots have Re s < 0, False if not, proven either way.

        The proof is a count in floating point with its own error bounds, or in balls of increasing precision.
        A neutral system is stable only if it stays so under small changes of its neutral delays.
        Raises UndecidedError if neither is proven (`verdict` is "undecided").
        """
        return super().is_stable

    @property
    def _floors(self) -> Sequence[float]:
        ch = self.characteristic_matrix
        floor = -600.0 * ch.unit if ch.longest > 0.0 else -2.0 * (ch.bound(0.0) + ch.unit)
        return [
            max(floor, self._countable + distance * ch.unit)
            for distance in (_FLOORS if ch.slope is not None else _FLOORS[:1])
        ]

    @property
    def spectral_abscissa(self) -> float:
        """Real part of the rightmost root [1/s]; for a neutral system no less than its essential abscissa.

        Roots further right are excluded by proof as in `roots`, with the distances stated there.
        """
        roots = self.roots(1)
        return max(float(roots[0].real) if len(roots) else -inf, self.essential_abscissa)

    @property
    def dominant_root(self) -> complex:
        """Rightmost root s, with Im s >= 0 [1/s], as of `roots(1)`."""
        return complex(self.roots(1)[0])

    def roots(self, k: int) -> Complex:
        """Return the k rightmost roots, conjugates adjacent, verified by a count that none is missing.

        Parameters
        ----------
        k : int, >= 1
            Number of roots. A pair may be divided by k: its root in the upper half plane is then the last.

        Returns
        -------
        roots : complex ndarray
            Shape (k,) or less, complex, 1/s, by decreasing real part; less if the system has fewer roots (no delays),
            or a neutral one has fewer right of its essential abscissa.

        Raises
        ------
        ValueError
            k < 1, or > 100,000.   TypeError: k not whole.   ConvergenceError: carries the roots found.

        Notes
        -----
        Simple roots are accurate to rounding, about 1e-14 |s|. Cost: an eigenproblem of size 100 or less, and a count.

        All roots that lie right of the last one returned by more than 1e-8/(longest delay) are in the list. If that
        takes too many pieces of a contour, for example for delays of very different length, this holds for
        1e-3/(longest delay). For a neutral system roots are sought right of its essential abscissa by 1e-3/(longest
        delay); if that takes too many pieces, by 1e-2 or 1e-1 of it.

        Examples
        --------
        >>> DelaySystem([-1.0], [1.0]).roots(2)
        array([-0.31813151+1.33723570j, -0.31813151-1.33723570j])
        """
        if k > _MAX_ROOTS:
            raise ValueError(f"k must be <= {_MAX_ROOTS:,}, got {k}")
        roots = self._rightmost(k)
        return roots[roots.real > self.essential_abscissa]
