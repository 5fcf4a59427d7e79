"""The characteristic matrix, common to both kinds of linear systems with delays, and its evaluation.

With s the complex frequency (for sampled systems s = log z, in rad/step), every system here is

    P(s) = p(s) I + sum_k (B_k + s E_k) exp(-s tau_k),      p(s) = s (continuous) or 1 (sampled),

and its roots are the s with det P(s) = 0: all of them for continuous systems, those with |Im s| <= pi for sampled ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import atan2, ceil, inf, isfinite, nan, pi, sin, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.linear.balancing import balancing_scale
from ecc.linear.neutral import Strong, strong

__all__ = [
    "Characteristic",
    "Rational",
    "Terms",
    "adjugate",
    "align",
    "determinant",
    "evaluate_all",
    "evaluate_grid",
    "fraction",
    "identity",
    "inverse",
    "longest_sum",
    "product",
    "rounded",
]

Real = NDArray[np.float64]
Complex = NDArray[Any]  # complex128
Rational = dict[float, Any]
"""Delay -> matrix of rational numbers (flint's fmpq_mat)."""

_EPS = float(np.finfo(np.float64).eps)
_CHUNK = 1 << 21  # exponentials in memory at the same time
_SCALES = 20  # radii of circles around 0, each an eighth of the one before, in which roots are counted


def product(a: Complex, b: Complex) -> Complex:
    """Return the product of stacked square matrices; scalars are multiplied directly."""
    return a * b if a.shape[-1] == 1 else np.matmul(a, b)


def inverse(a: Complex) -> Complex:
    """Return the inverse of stacked square matrices, inf or nan (not an exception) for singular ones."""
    size = a.shape[-1]
    with np.errstate(all="ignore"):
        if size == 1:
            return 1.0 / a
        if size in (2, 3):
            minors, value = adjugate(a), determinant(a)
            out: Complex = minors / value[..., None, None]
            lost = np.abs(value) < 1e-6 * np.abs(minors).max(axis=(-2, -1)) * np.abs(a).max(axis=(-2, -1))
            if lost.any():  # the determinant cancels: elimination with pivots is more accurate
                out[lost] = _inverse(a[lost])
            return out
        return _inverse(a)


def _inverse(a: Complex) -> Complex:
    with np.errstate(all="ignore"):
        try:
            return np.asarray(np.linalg.inv(a))
        except np.linalg.LinAlgError:
            if a.ndim == 2:
                return np.full_like(a, np.nan)
            return np.stack([_inverse(matrix) for matrix in a])


def determinant(a: Complex) -> Complex:
    """Return the determinant of stacked square matrices."""
    if a.shape[-1] == 1:
        return a[..., 0, 0]
    if a.shape[-1] == 2:
        return np.asarray(a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0])
    if a.shape[-1] == 3:
        return np.asarray((a[..., 0, :] * _cross(a[..., 1, :], a[..., 2, :])).sum(axis=-1))
    return np.asarray(np.linalg.det(a))


def _cross(a: Complex, b: Complex) -> Complex:
    """Return cross products along the last axis; numpy's own function is slower, as it covers other cases."""
    next_axis, last_axis = [1, 2, 0], [2, 0, 1]
    return np.asarray(a[..., next_axis] * b[..., last_axis] - a[..., last_axis] * b[..., next_axis])


def adjugate(a: Complex) -> Complex:
    """Return the adjugate of stacked square matrices, singular ones included: (det a)' = trace(adjugate(a) a')."""
    size = a.shape[-1]
    if size == 1:
        return np.ones_like(a)
    if size == 2:
        out = np.empty_like(a)
        out[..., 0, 0], out[..., 1, 1] = a[..., 1, 1], a[..., 0, 0]
        out[..., 0, 1], out[..., 1, 0] = -a[..., 0, 1], -a[..., 1, 0]
        return out
    if size == 3:
        x, y, z = a[..., 0, :], a[..., 1, :], a[..., 2, :]
        return np.stack([_cross(y, z), _cross(z, x), _cross(x, y)], axis=-1)
    u, singular, v = np.linalg.svd(a)
    minors = np.stack([np.delete(singular, i, axis=-1).prod(axis=-1) for i in range(size)], axis=-1)
    turn = np.linalg.det(u) * np.linalg.det(v)
    back = np.swapaxes(v.conj(), -1, -2) * minors[..., None, :]
    return np.asarray(turn[..., None, None] * np.matmul(back, np.swapaxes(u.conj(), -1, -2)))


def identity(size: int) -> Any:
    """Return the identity in rational numbers."""
    from flint import fmpq_mat

    return fmpq_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])


def rounded(sums: Rational, size: int) -> Real:
    """Return rational matrices as binary numbers, by increasing delay; shape (K, n, n)."""
    numbers = [int(x.p) / int(x.q) for _, matrix in sorted(sums.items()) for x in matrix.entries()]
    return np.array(numbers, np.float64).reshape(len(sums), size, size)


def fraction(x: Any) -> Fraction:
    """Return a binary number or one of flint's rational numbers as a fraction."""
    return Fraction(x) if isinstance(x, float) else Fraction(int(x.p), int(x.q))


class Terms(NamedTuple):
    """A characteristic matrix as input: B_k at tau_k and E_j at sigma_j > 0, in any order."""

    constant: Real
    delays: Real
    slope: Real
    slope_delays: Real
    sampled: bool

    @property
    def powers(self) -> tuple[tuple[Real, Real], tuple[Real, Real]]:
        """Matrices and delays of each power of s, starting from 0."""
        return (self.constant, self.delays), (self.slope, self.slope_delays)


def align(*systems: Terms) -> list[Characteristic]:
    """Return characteristic matrices over the same delays and states: joined, without zeros, balanced together."""
    pairs = [pair for t in systems for pair in ((t.constant, t.delays), (t.slope, t.slope_delays))]
    used = [(np.any(matrices != 0.0, axis=(1, 2)), delays) for matrices, delays in pairs]
    every = np.unique(np.concatenate([delays[on] for on, delays in used]))
    size = systems[0].constant.shape[1]
    tables = np.zeros((len(pairs), len(every), size, size))
    for table, (matrices, delays), (on, _) in zip(tables, pairs, used, strict=True):
        np.add.at(table, np.searchsorted(every, delays[on]), matrices[on])
    scale = np.ones(size)
    if size > 1:
        total = np.abs(tables[::2]).sum(axis=(0, 1))
        if np.any(tables[1::2]):  # E is dimensionless, B is in 1/s
            total += np.abs(tables[1::2]).sum(axis=(0, 1)) / every[-1]
        scale = balancing_scale(total)
        if np.any(scale != 1.0):
            scale, tables = _scaled_exactly(tables, scale)
    retarded = not np.any(tables[1::2])
    return [
        Characteristic(every, tables[2 * i], None if retarded else tables[2 * i + 1], t.sampled, scale)
        for i, t in enumerate(systems)
    ]


def _scaled_exactly(tables: Real, scale: Real) -> tuple[Real, Real]:
    """Return powers of two and the scaled tables; smaller powers if an entry would leave the range of exact scaling."""
    while True:
        ratio = scale[None, :] / scale[:, None]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scaled = tables * ratio
            if np.array_equal(scaled / ratio, tables):
                return scale, scaled
        scale = np.exp2(np.trunc(0.5 * np.log2(scale)))


@dataclass(frozen=True, eq=False)
class Characteristic:
    """P(s) of one system, balanced by powers of two (which does not change the determinant).

    Parameters
    ----------
    delays : ndarray, shape (K,), increasing
        Distinct delays, in seconds, or in steps for a sampled system.
    constant, slope : ndarray, ndarray, shape (K, n, n)
        B_k and E_k; slope: None if all E_k are zero.
    sampled : bool
        True: p(s) = 1 instead of s, and |Im s| <= pi.
    scale : ndarray, shape (n,)
        Balancing powers of two: entry (i, j) was multiplied by scale_j/scale_i.
    unrounded : callable or None
        Function that returns the rational B_k and E_k, delay -> matrix, before balancing; None: the binary numbers are
        exact. Floating-point values are within half a unit in the last place of the rational ones.
    leading : bool
        False: without p(s) I, for the difference of two characteristic matrices.
    """

    delays: Real
    constant: Real
    slope: Real | None
    sampled: bool
    scale: Real
    unrounded: Callable[[], tuple[Rational, Rational]] | None = None
    leading: bool = True

    @cached_property
    def exact(self) -> tuple[list[list[Any]], list[list[Any]] | None]:
        """The exact entries of B_k and of E_k, row by row: binary numbers, or rational ones if those are rounded."""
        tables = [self.constant] if self.slope is None else [self.constant, self.slope]
        if self.unrounded is None:
            out = [[matrix.ravel().tolist() for matrix in table] for table in tables]
        else:
            from flint import fmpq

            ratio = (self.scale[None, :] / self.scale[:, None]).ravel()
            scale = [fmpq(*float(x).as_integer_ratio()) for x in ratio]
            zeros = [fmpq(0)] * len(scale)
            out = [
                [
                    [x * f for x, f in zip(sums[tau].entries(), scale, strict=True)] if tau in sums else zeros
                    for tau in self.delays.tolist()
                ]
                for sums in self.unrounded()[: len(tables)]
            ]
        return out[0], out[1] if len(out) > 1 else None

    @cached_property
    def size(self) -> int:
        """Number of states n."""
        return int(self.constant.shape[1])

    @property
    def longest(self) -> float:
        """Longest delay, 0 without delays."""
        return float(self.delays[-1]) if len(self.delays) else 0.0

    @cached_property
    def unit(self) -> float:
        """The scale of distances between large roots: 1/longest delay, or the size of the matrices without delays."""
        if self.longest > 0.0:
            return 1.0 / self.longest
        return self.bound(0.0) if not self.sampled and np.any(self.constant) else 1.0

    @cached_property
    def _smallest(self) -> tuple[float, float]:
        """The scale of distances between the roots closest to 0, at most `unit`, and the rounding of these roots.

        Delays may be short against the time constants, or time constants may differ by many orders of magnitude. Roots
        in circles around 0 are counted; the scale is the radius at which their number first rises above the number of
        roots that rounding cannot distinguish from 0. Roots z = exp(s) of a sampled system have the scale 1.
        """
        if self.sampled:
            return self.unit, 0.0
        radii = self.unit * 8.0 ** -np.arange(_SCALES)
        s = np.multiply.outer(radii, np.exp(1j * pi * (np.arange(4) + 0.5) / 4)).ravel()
        value, slope = self.evaluate(s)
        minors = inverse(value)
        error = self.rounding(-self.unit, s)[0]
        with np.errstate(all="ignore"):
            number = (s * np.einsum("pij,pji->p", minors, slope)).real.reshape(_SCALES, -1).mean(axis=1)
            doubt = np.einsum("pij,pji->p", np.abs(minors), error).reshape(_SCALES, -1).max(axis=1)
        known = np.flatnonzero((doubt < 0.1) & np.isfinite(number))
        if not len(known):
            return self.unit, 0.0
        rises = known[number[known] > number[known[-1]] + 0.5]
        if not len(rises) or rises[-1] == 0:
            return self.unit, 0.0
        return float(radii[rises[-1]]), float(radii[rises[-1]] * doubt[rises[-1]])

    @property
    def resolution(self) -> float:
        """The scale of distances between the roots closest to 0: `unit`, or less if delays are short."""
        return self._smallest[0]

    def spacing(self, s: Complex) -> Real:
        """Return the scale of the distances between roots near s: |s| itself, within limits.

        Roots due to long delays lie 1/(longest delay) apart at any |s|; those closest to 0 give the lower limit.
        """
        return np.asarray(self.resolution + np.minimum(np.abs(s), self.unit))

    def near(self, s: Complex, tolerance: float) -> Real:
        """Return a distance from s that is a share of the distances between roots, and more than the rounding of s."""
        return np.asarray(tolerance * self.spacing(s) + 64.0 * _EPS * np.abs(s) + self._smallest[1])

    @cached_property
    def _table(self) -> Real:
        """(columns of P and P' per matrix entry) x K: B, -tau B, and for neutral systems E, -tau E."""
        parts = [self.constant, -self.delays[:, None, None] * self.constant]
        if self.slope is not None:
            parts += [self.slope, -self.delays[:, None, None] * self.slope]
        return np.concatenate([part.reshape(len(self.delays), self.size**2) for part in parts], axis=1).T.copy()

    def _assemble(self, s: Complex, sums: Complex) -> tuple[Complex, Complex]:
        n = self.size
        parts = sums.reshape(len(s), 2 if self.slope is None else 4, n, n)
        value, slope = parts[:, 0].copy(), parts[:, 1].copy()
        if self.slope is not None:
            value += s[:, None, None] * parts[:, 2]
            slope += parts[:, 2] + s[:, None, None] * parts[:, 3]
        index = np.arange(n if self.leading else 0)
        if self.sampled:
            value[:, index, index] += 1.0
        else:
            value[:, index, index] += s[:, None]
            slope[:, index, index] += 1.0
        return value, slope

    def evaluate(self, s: Complex) -> tuple[Complex, Complex]:
        """Return P(s) and P'(s), shape (points, n, n), for s of shape (points,)."""
        return evaluate_all([self], s)[0]

    def enclose(self, s: Complex, middle: Complex, radius: Real) -> tuple[Complex, Complex, Real, Real]:
        """Return P, P' and their radii from enclosed sums over the delays (columns as in `_table`), with rounding."""
        n = self.size
        value, slope = self._assemble(s, middle)
        extra = (radius + 2.0 * _EPS * np.abs(middle)).reshape(len(s), 2 if self.slope is None else 4, n, n)
        size, eye = np.abs(s)[:, None, None], np.eye(n)
        value_error = extra[:, 0] + (0.0 if self.slope is None else size * extra[:, 2])
        slope_error = extra[:, 1] + (0.0 if self.slope is None else extra[:, 2] + size * extra[:, 3])
        return (
            value,
            slope,
            2.0 * value_error + 4.0 * _EPS * (np.abs(value) + size * eye),
            2.0 * slope_error + 4.0 * _EPS * (np.abs(slope) + eye),
        )

    def sums(self, middle: Complex, radius: Real) -> tuple[Complex, Real]:
        """Return sums over the delays (columns as in `_table`) of enclosed exponentials, shape (points, K).

        The radii include every rounding: of the exponentials and of the table, of products and of sums in any order.
        """
        table = self._table.T
        size = np.abs(table)
        n_roundings = 16.0 + 2.0 * len(self.delays)
        error = (2.0 * radius + n_roundings * _EPS * np.abs(middle) + np.finfo(np.float64).tiny) @ size
        return middle @ table.astype(np.complex128), np.asarray(error)

    def determinant(self, s: Complex) -> Complex:
        """Return det P(s), shape (points,)."""
        return determinant(self.evaluate(s)[0])

    @cached_property
    def _known(self) -> dict[float, tuple[Real, Real]]:
        return {}

    def moments(self, sigma: float) -> tuple[Real, Real]:
        """Return sums over k of |B_k| tau_k^p exp(-sigma tau_k), and the same of |E_k|, p = 0..4: shape (5, n, n)."""
        if sigma not in self._known:
            self._known.clear()  # only one line is stored
            self._known[sigma] = self._moments(sigma)
        return self._known[sigma]

    def _moments(self, sigma: float) -> tuple[Real, Real]:
        with np.errstate(over="ignore"):
            weights = self.delays ** np.arange(5)[:, None] * np.exp(-sigma * self.delays)
            total = np.einsum("pk,kij->pij", weights, np.abs(self.constant))
            if self.slope is None:
                return total, np.zeros_like(total)
            return total, np.einsum("pk,kij->pij", weights, np.abs(self.slope))

    def bound(self, sigma: float) -> float:
        """Return a proven bound on |s| over the roots with Re s >= sigma; inf if the neutral part permits no bound.

        For a positive vector v and nonnegative A, E with A v <= r (v - E v): every root has |s| <= r. Sums run over
        positive numbers, so that the relative margin of 1e-9 covers rounding many times over. If absolute values are
        too coarse for the neutral part, the bound is that of `ecc.linear.neutral`.
        """
        if sigma not in self._bounds:
            self._bounds[sigma] = inf if self.sampled else self._bound(sigma)
        return self._bounds[sigma]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        return {}

    def _bound(self, sigma: float) -> float:
        moments, slopes = self.moments(sigma)
        a, e = moments[0], slopes[0]
        if not (np.all(np.isfinite(a)) and np.all(np.isfinite(e))):
            return inf
        gain = a
        if self.slope is not None:
            if self.size == 1:
                margin = self._scalar_rest(sigma)
                return inf if margin <= 0.0 else float(a[0, 0]) / margin * (1.0 + 1e-9)
            if self.neutral_radius(sigma) >= 1.0:
                return self.strong(sigma).reach
            gain = np.linalg.solve(np.eye(self.size) - e, a)
        top = float(gain.sum(axis=1).max())
        if top == 0.0:
            return 0.0
        best = inf
        v = np.ones(self.size)
        if self.size > 1:  # the iteration below needs too many steps if one entry outweighs the others by far
            values, vectors = np.linalg.eig(gain)
            leading = np.abs(vectors[:, np.abs(values).argmax()])
            margin = leading - e @ leading
            if np.all(margin > 0.0):
                best = float((a @ leading / margin).max())
        for _ in range(30 if self.size > 1 else 1):
            margin = v - e @ v
            before = best
            if np.all(margin > 0.0) and np.all(v > 0.0):
                best = min(best, float((a @ v / margin).max()))
            if before - best <= 1e-3 * best:
                break
            v = gain @ v + 1e-4 * top * v
            v /= v.max()
        return best * (1.0 + 1e-9)

    def neutral_radius(self, sigma: float) -> float:
        """Return a bound on the neutral part's spectral radius over Re s >= sigma, by sum |E_k| exp(-sigma tau_k)."""
        if self.slope is None:
            return 0.0
        e = self.moments(sigma)[1][0]
        if not np.all(np.isfinite(e)):
            return inf
        return float(np.abs(np.linalg.eigvals(e)).max()) * (1.0 + 1e-9)

    def _scalar_rest(self, sigma: float) -> float:
        """Return a lower bound of 1 - sum |e_k| exp(-sigma tau_k) for one state; rational numbers on the axis."""
        assert self.exact[1] is not None
        if sigma == 0.0:
            return float(1 - sum(abs(fraction(row[0])) for row in self.exact[1]))
        total = float(self.moments(sigma)[1][0][0, 0])
        return 1.0 - total - 4.0 * _EPS * (len(self.delays) + self.longest * abs(sigma)) * total

    def strong(self, sigma: float) -> Strong:
        """Return the proven properties of the neutral part over Re s >= sigma under small changes of its delays."""
        if self.slope is None:
            return Strong(True, inf)
        if sigma not in self._settled:
            if self.size == 1:
                margin = self._scalar_rest(sigma)
                on_axis = True if sigma == 0.0 or margin > 0.0 else None
                self._settled[sigma] = Strong(margin > 0.0 if on_axis else None, inf)
            elif self.neutral_radius(sigma) < 1.0 and isfinite(reach := self.bound(sigma)):
                self._settled[sigma] = Strong(True, reach)  # absolute values suffice
            else:
                with np.errstate(over="ignore"):
                    weights = np.exp(-sigma * self.delays)
                known = bool(np.all(np.isfinite(weights)))
                parts = (x * weights[:, None, None] for x in (self.slope, self.constant))
                self._settled[sigma] = strong(*parts) if known else Strong(None, inf)
        return self._settled[sigma]

    @cached_property
    def _settled(self) -> dict[float, Strong]:
        return {}

    def top_frequency(self, sigma: float) -> float:
        """Return the end of the contour on Re s = sigma: pi, or a frequency above which det P stays in one quadrant."""
        if self.sampled:
            return pi
        radius = self.bound(sigma)
        if radius == 0.0:
            return 1.0
        return radius * 1.001 / sin(pi / max(2, self.size))

    def tail(self, s: complex, value: Complex) -> float:
        """Return the change of the argument of det P from s upward on a line, without periodic parts; `value` is P(s).

        det P = s^n det E(s) det(I - M(s)/s) with M bounded, and each factor's eigenvalues stay in the right half plane.
        The result is nan if E(s) is almost singular.
        """
        turn = self.size * (pi / 2 - atan2(s.imag, s.real))
        factor: Complex = value / s
        if self.slope is not None:
            lead = np.eye(self.size) + np.einsum("k,kij->ij", np.exp(-s * self.delays), self.slope)
            eigenvalues = np.linalg.eigvals(lead)
            if np.abs(eigenvalues).min() < 1e-6:
                return nan  # rounding could turn one past the negative axis
            turn -= float(np.angle(eigenvalues).sum())
            factor = np.linalg.solve(lead, factor)
        return turn - float(np.angle(determinant(factor)))

    def rounding(self, sigma: float, s: Complex) -> tuple[Real, Real]:
        """Return bounds on the errors of `evaluate` at s on Re s = sigma: entries of P and of P'.

        Valid for exponentials accurate to 4 ulp; includes the sum over K delays and the rounding of s tau.
        """
        b, e = self.moments(sigma)
        size = np.abs(s)[:, None, None]
        eye = np.eye(self.size) if self.leading else 0.0
        n_roundings = 11.0 + len(self.delays)  # the entries themselves may be rounded once
        value = n_roundings * (b[0] + size * (e[0] + eye)) + 4.0 * size * (b[1] + size * e[1])
        slope = n_roundings * (b[1] + e[0] + eye + size * e[1]) + 4.0 * size * (b[2] + 2.0 * e[1] + size * e[2])
        return _EPS * value, _EPS * slope

    def fourth_derivative(self, sigma: float, size: Real) -> Real:
        """Return a bound on the fourth derivative of every entry of P along Re s = sigma for |s| <= size."""
        b, e = self.moments(sigma)
        return np.asarray(b[4] + 4.0 * e[3] + size[:, None, None] * e[4])


def evaluate_all(systems: list[Characteristic], s: Complex) -> list[tuple[Complex, Complex]]:
    """Return P(s) and P'(s) of systems over the same delays, from one set of exponentials."""
    delays = systems[0].delays
    step = max(1, _CHUNK // max(1, len(delays)))
    table = np.concatenate([ch._table for ch in systems]).T.astype(np.complex128)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [np.exp(np.multiply.outer(-s[at : at + step], delays)) @ table for at in range(0, len(s), step)]
        sums = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros((0, table.shape[1]), complex)])
        return _split(systems, s, sums)


def evaluate_grid(
    systems: list[Characteristic], sigma: float, start: float, step: float, count: int
) -> list[tuple[Complex, Complex]]:
    """Return P and P' at s = sigma + j (start + i step), i < count; exponentials of sums are products of exponentials.

    K delays at M points take K sqrt(M) exponentials and K M multiplications in one matrix product.
    """
    delays = systems[0].delays
    s = grid(sigma, start, step, count)
    if len(delays) * count < 4096:
        return evaluate_all(systems, s)
    columns = ceil(sqrt(count))
    rows = ceil(count / columns)
    outer = np.exp(np.multiply.outer(-grid(sigma, start, step * columns, rows), delays))
    inner = np.exp(np.multiply.outer(delays, -1j * step * np.arange(columns)))
    table = np.concatenate([ch._table for ch in systems])
    sums = np.zeros((len(table), rows, columns), complex)
    for out, row in zip(sums, table, strict=True):
        if np.any(row):
            np.matmul(outer * row, inner, out=out)
    return _split(systems, s, sums.reshape(len(table), -1)[:, :count].T)


def grid(sigma: float, start: float, step: float, count: int) -> Complex:
    """Return the points sigma + j (start + i step), i < count."""
    return np.asarray(sigma + 1j * (start + step * np.arange(count)))


def _split(systems: list[Characteristic], s: Complex, sums: Complex) -> list[tuple[Complex, Complex]]:
    if len(systems) == 1:
        return [systems[0]._assemble(s, sums)]
    ends = np.cumsum([len(ch._table) for ch in systems])[:-1]
    return [ch._assemble(s, part) for ch, part in zip(systems, np.split(sums, ends, axis=1), strict=True)]


def longest_sum(*systems: Characteristic) -> float:
    """Return the longest delay possible in the determinants of systems over the same delays: over all permutations."""
    every = np.sum([np.abs(ch.constant) + (0.0 if ch.slope is None else np.abs(ch.slope)) for ch in systems], axis=0)
    if not len(every):
        return 0.0
    longest = (systems[0].delays[:, None, None] * (every > 0.0)).max(axis=0)
    if len(longest) <= 2:  # most systems: avoids the import of scipy.optimize, which takes long
        return float(max(np.trace(longest), np.trace(longest[::-1])))
    from scipy.optimize import linear_sum_assignment

    return float(longest[linear_sum_assignment(-longest)].sum())
