"""Linear systems in continuous time with constant delays, retarded and neutral."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import quantity_text
from ecc.errors import ConvergenceError, UndecidedError
from ecc.linear.bordered import Entries, strong_groups
from ecc.linear.certificate import Certificate, certify_blocks
from ecc.linear.characteristic import Characteristic, Complex, Rational, Real, Terms, identity, rounded
from ecc.linear.characteristic_roots import CharacteristicRoots
from ecc.linear.exact_pair import MAX_STATES
from ecc.linear.loops import ClosedLoop
from ecc.linear.neutral import largest_radius
from ecc.linear.quasipolynomial import QuasiPolynomial
from ecc.linear.removable import certificate_without, removable_of
from ecc.linear.rootfinding import noise
from ecc.linear.systems import check_line, merge, rational_sums, read_delays, read_matrices, read_notes

__all__ = ["DelaySystem"]

_CIRCLE = 96  # points on a circle over which an entire function is averaged
_MAX_ROOTS = 100_000  # roots that `roots` computes, in half a minute
_FLOORS = (
    1e-3,
    1e-2,
    1e-1,
)  # in 1/(longest delay): distances from the essential abscissa, right of which roots are sought


def _around_zero(blocks: Sequence[tuple[Characteristic, int]], radius: float) -> tuple[int, int, int] | None:
    """Return `QuasiPolynomial.around_zero` of the product of determinants, None if one is not decided."""
    total = np.zeros(3, int)
    for ch, multiplicity in blocks:
        exact = QuasiPolynomial.of(ch)
        numbers = None if exact is None else exact.around_zero(radius)
        if numbers is None:
            return None
        total += multiplicity * np.array(numbers)
    at_zero, right, near = total.tolist()
    return at_zero, right, near


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

    @classmethod
    def _of_exact(
        cls,
        a: Any,
        delays: Sequence[float] | Real,
        e: Any,
        neutral_delays: Sequence[float] | Real,
        notes: Iterable[str],
    ) -> DelaySystem:
        """Return the system of matrices that may consist of rational numbers (`Fraction`)."""
        plain, derivative = (matrices.astype(np.float64) for matrices in (a, e))
        system = cls(plain, delays, neutral=derivative, neutral_delays=neutral_delays, notes=notes)
        if a.dtype == object:
            given = (a, np.asarray(delays, np.float64), e, np.asarray(neutral_delays, np.float64))
            object.__setattr__(system, "_given", given)
        return system

    def _without_roots(self, removable: Sequence[float]) -> DelaySystem:
        """Return the same system with roots that are not roots of its model, to be left out of roots and counts."""
        other = copy(self)
        object.__setattr__(other, "_removable", tuple(sorted(removable)))
        return other

    def _with_opened(self, opened: DelaySystem) -> DelaySystem:
        other = copy(self)
        object.__setattr__(other, "opened", opened)
        other._check_opened()
        return other

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
        system = DelaySystem._of_exact(part, tau, derivative, sigma, self._own_notes)
        return (
            system._without_roots(removable_of(system.characteristic_matrix, self._removable))
            if self._removable
            else system
        )

    def _cut_groups(self) -> list[DelaySystem]:
        closed, opened = self._entries, self._opened()._entries
        if closed is None or opened is None or not (closed.n_signals or self._bordered is not None):
            return super()._cut_groups()
        make = DelaySystem._of_entries
        return [make(high, opened=make(low, opened=None)) for low, high in strong_groups(opened, closed)]

    def with_gain(self, gain: float) -> DelaySystem:
        opened, back = self._opened(), 1.0 - gain
        return DelaySystem(
            np.concatenate([gain * self.matrices, back * opened.matrices]),
            np.concatenate([self.delays, opened.delays]),
            neutral=np.concatenate([gain * self.neutral, back * opened.neutral]),
            neutral_delays=np.concatenate([self.neutral_delays, opened.neutral_delays]),
        )._without_roots(self._removable)

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
        if later.all() and not self._is_rational:
            return Terms(-self.matrices, self.delays, self.neutral, sigma, sampled=False)
        b, e = self._rational
        return Terms(rounded(b, self.size), self.delays, rounded(e, self.size), sigma, sampled=False)

    @property
    def _is_rational(self) -> bool:
        """True if the matrices were given as rational numbers, which binary ones only approximate."""
        return self._given is not None and self._given[0].dtype == object

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
            value = np.asarray(value / np.prod([points - root for root in self._removable], axis=0))
        for index in self._near_removable(points):
            value[index] = self.characteristic(self._circle(points[index])).mean()
        if not np.isfinite(value).all():
            raise ValueError(f"s must give a finite determinant, got {points[~np.isfinite(value)][0]}")
        return np.asarray(value)

    def _near_removable(self, points: Complex) -> list[tuple[int, ...]]:
        """Return the indices of points at which the division by the removable factors loses digits."""
        unit = self.characteristic_matrix.resolution
        near = np.zeros(points.shape, bool)
        for root, multiplicity in Counter(self._removable).items():
            near |= np.abs(points - root) < min(0.5 * unit, 1e3 * noise(unit, root, multiplicity))
        return [tuple(index) for index in np.argwhere(near).tolist()]

    def _circle(self, center: complex) -> Complex:
        """Return points on a circle around a point, with removable roots far from the circle."""
        radii = self.characteristic_matrix.resolution * np.array([1.0, 1.4, 1.8, 2.2])
        gaps = [min(abs(abs(center - root) - radius) for root in self._removable) for radius in radii]
        turn = np.exp(2j * np.pi * (np.arange(_CIRCLE) + 0.5) / _CIRCLE)
        return np.asarray(center + radii[int(np.argmax(gaps))] * turn)

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
        from scipy.optimize import brentq

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
        from scipy.optimize import brentq

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

    def certify(self, line: float = 0.0, effort: float = 1.0) -> Certificate:
        """Return a proof, by ball arithmetic, of the number of unstable roots; see `ecc.linear.certify`.

        Parameters
        ----------
        line : float, optional
            Line, 1/s: roots right of it are counted, as proof of a decay rate.
        effort : float, optional
            Multiple (> 0) of the default limits on work, beyond which the count is undecided.
        """
        if not self._removable:
            return super().certify(line, effort)
        blocks = [(part.characteristic_matrix, multiplicity) for part, multiplicity in self.blocks]
        is_multiple = max(Counter(self._removable).values()) > 1
        check_line(line, effort)
        return certificate_without(
            lambda at, share, expand: certify_blocks(blocks, at, share * effort, expand or is_multiple),
            self._removable,
            line,
            self.characteristic_matrix.resolution,
            partial(_around_zero, blocks),
        )

    @property
    def _is_essentially_unstable(self) -> bool:
        return bool(len(self.neutral)) and any(
            part.characteristic_matrix.strong(0.0).holds is False for part, _ in self.blocks
        )

    @cached_property
    def _decision(self) -> tuple[str, str]:
        if not self._removable or self._removable[-1] < -0.01 * self.characteristic_matrix.resolution:
            return super()._decision
        if not all(part.characteristic_matrix.strong(0.0).holds for part, _ in self.blocks):
            return super()._decision
        proof = self.certify()
        return {True: "stable", False: "unstable", None: "undecided"}[proof.stable], proof.reason

    @cached_property
    def _counted(self) -> tuple[int, bool]:
        if not self._removable or self._removable[-1] < -0.01 * self.characteristic_matrix.resolution:
            return super()._counted
        proof = self.certify()
        if proof.stable is None:
            raise UndecidedError(proof.reason)
        return proof.at_least, proof.at_least == proof.at_most

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

    def roots(self, k: int) -> CharacteristicRoots:
        """Return the k rightmost roots, conjugates adjacent, verified by a count that none is missing.

        Parameters
        ----------
        k : int, >= 1
            Number of roots. A pair may be divided by k: its root in the upper half plane is then the last.

        Returns
        -------
        roots : CharacteristicRoots
            Complex array, shape (k,) or less, 1/s, with `plane` "s", by decreasing real part; less if the system has
            fewer roots (no delays), or a neutral one has fewer right of its essential abscissa.

        Raises
        ------
        ValueError
            k < 1, or > 100,000.   TypeError: k not whole.   ConvergenceError: carries the roots found.

        Notes
        -----
        Simple roots are accurate to rounding, about 1e-14 |s|. Cost: an eigenproblem of size 100 or less, and a count.

        All roots that lie right of the last one returned by more than 1e-8 of the distances between roots are in the
        list. These are the modulus of the root, at most 1/(longest delay), and at least the modulus of the smallest
        root except 0. If that takes too many pieces of a contour, for example for delays of very different length, this
        holds for 1e-3 of the distances. For a neutral system roots are sought right of its essential abscissa by
        1e-3/(longest delay); if that takes too many pieces, by 1e-2 or 1e-1 of it.

        Examples
        --------
        >>> DelaySystem([-1.0], [1.0]).roots(2)
        array([-0.31813151+1.33723570j, -0.31813151-1.33723570j])
        """
        if k > _MAX_ROOTS:
            raise ValueError(f"k must be <= {_MAX_ROOTS:,}, got {k}")
        roots = self._rightmost(k)
        return CharacteristicRoots(roots[roots.real > self.essential_abscissa], "s")

    def roots_within(self, center: Any, radius: float) -> Complex:
        """Return all roots in a disk, also left of the essential abscissa of a neutral system, by proof.

        Parameters
        ----------
        center : complex
            Center of the disk, 1/s.
        radius : float
            Radius of the disk, > 0, 1/s.

        Returns
        -------
        roots : complex ndarray, shape (k,)
            Roots in the disk, by decreasing real part, 1/s.

        Raises
        ------
        ValueError
            The radius is not positive, or an artificial root of a distributed delay or of an algebraic equation lies in
            the disk.   TypeError: the center is not a number.
        ConvergenceError
            Roots are multiple or on the circle, up to 768 bits; or the determinant has too many terms, or the radius is
            too large for one power series, about 60 over the longest delay.

        Notes
        -----
        Zeros of Taylor's polynomial of the determinant with a bound on its remainder, in ball arithmetic.

        Examples
        --------
        >>> system = DelaySystem([-1.0], [0.0], neutral=[0.5], neutral_delays=[1.0])
        >>> system.roots_within(-0.7 + 100j, 5.0)  # the essential abscissa is -log 2
        array([-0.69312922+103.68220232j, -0.69312682 +97.39963911j])
        """
        if isinstance(center, bool) or not isinstance(center, complex | float | int | np.number):
            raise TypeError(f"center must be a number, got {shown(center)}")
        try:
            at = complex(center)
        except OverflowError:  # a whole number above all floats
            at = complex(inf)
        if not np.isfinite(at):
            raise ValueError(f"center must be finite, got {shown(center)}")
        if not radius > 0.0:
            raise ValueError(f"radius must be > 0 1/s, got {shown(radius)}")
        inside = [root for root in self._removable if abs(root - at) <= radius]
        if inside:
            raise ValueError(f"the disk must not contain artificial roots, got {inside[0]:g} 1/s inside it")
        out = [np.zeros(0, complex)]
        for part, multiplicity in self.blocks:
            exact = QuasiPolynomial.of(part.characteristic_matrix)
            roots = None if exact is None else exact.roots_within(at, radius)
            if roots is None:
                raise ConvergenceError(
                    f"the roots in the disk of radius {radius:g} 1/s cannot be separated: multiple, on the circle, "
                    "or the radius is above about 60 over the longest delay",
                    at,
                )
            out += [roots] * multiplicity
        every = np.concatenate(out)
        return np.asarray(every[np.lexsort((-every.imag, -every.real))])
