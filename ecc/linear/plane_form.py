"""The determinant of a family of two parameters as one formula over a rectangle of parameters.

In normalized parameters u = (u_1, u_2) in [-1, 1]^2, the determinant of a family of systems with delays is

    F(s; u) = sum_jm c_jm(u) s^j exp(-s theta_m(u)),

with polynomials c_jm and affine theta_m. Delays are followed from one member to its neighbors, so that they may cross
elsewhere in the rectangle. The determinants are expanded in rational numbers at the nodes of a grid and interpolated.
The degree grows until the formula agrees with members between the nodes. Families that depend polynomially on the
parameters have this form exactly; smooth ones have it up to the difference at these members, of which ten times is
added to every bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import comb, inf
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly, chebvander
from numpy.typing import NDArray

from ecc.errors import ConvergenceError
from ecc.linear.characteristic import Characteristic, Real
from ecc.linear.continuous import DelaySystem
from ecc.linear.quasipolynomial import expanded

__all__ = ["Local", "PlaneForm", "reach"]

_DEGREES = (1, 3, 6, 12)
_NOISE = 1e-14  # relative to the coefficients of a power of s: smaller Chebyshev coefficients are dropped
_BASE = (0.1234, -0.2718)  # a member of no particular symmetry
_STEP = 1e-4
_SAME_DELAY = 1e-9  # relative to the longest delay: distance within which delays are the same
_ROUNDING = 2e-15  # relative to the longest delay: error of the affine delays
_AGREES = 1e-11  # relative to the largest coefficients of a power: difference from members between the nodes
_DIGIT = 16  # a sum of delays is a number in this base: its k-th digit is the multiple of the k-th delay
_CHECKED = 12  # members between the nodes, in addition to the corners

Member = Callable[[float, float], DelaySystem]
Expanded = dict[int, NDArray[np.float64]]


@dataclass(frozen=True)
class Local:
    """The form in cells: value, change by each parameter over half a cell, and a bound on all other changes.

    Parameters
    ----------
    value, rest : ndarray, shape (cells, powers, terms)
        Coefficients at the center, and a bound on their deviation from the linear part.
    change : ndarray, shape (2, cells, powers, terms)
        Linear changes of the coefficients.
    delay, spread : ndarray, shape (cells, terms)
        Delays at the center, and a bound on their changes.
    turn : ndarray, shape (2, cells, terms)
        Linear changes of the delays.
    """

    value: Real
    change: Real
    rest: Real
    delay: Real
    turn: Real
    spread: Real

    @property
    def upper(self) -> Real:
        """Bounds on the moduli of the coefficients, shape (cells, powers, terms)."""
        return np.asarray(np.abs(self.value) + np.abs(self.change).sum(axis=0) + self.rest)

    @property
    def lower(self) -> Real:
        """Lower bounds of these moduli; negative if a coefficient may vanish."""
        return np.asarray(np.abs(self.value) - np.abs(self.change).sum(axis=0) - self.rest)


@dataclass(frozen=True)
class PlaneForm:
    """Polynomials of the coefficients and affine delays over [-1, 1]^2.

    Parameters
    ----------
    table : ndarray, shape (degree + 1, degree + 1, powers, terms)
        Coefficients of u_1^i u_2^k.
    theta : ndarray, shape (terms, 3)
        Delays theta_0 + theta_1 u_1 + theta_2 u_2, seconds; the first is 0.
    error : float
        Bound on the relative error of the coefficients.
    """

    table: Real
    theta: Real
    error: float

    @property
    def degree(self) -> int:
        """Degree of the polynomials in each parameter."""
        return len(self.table) - 1

    @staticmethod
    def fit(member: Member) -> PlaneForm:
        """Return the form of a family.

        Parameters
        ----------
        member : callable
            Function from normalized parameters to a system.

        Raises
        ------
        ConvergenceError
            The family does not have this form: delays are not affine, or coefficients jump or have kinks.
        """
        labels = _labels(member)
        rng = np.random.default_rng(0)
        points = [*product((-0.99, 0.99), (-0.98, 0.98)), *rng.uniform(-1.0, 1.0, (_CHECKED, 2)).tolist()]
        checks = [(u, _expanded(member(*u), labels, u)) for u in points]
        difference = inf
        for degree in _DEGREES:
            form, place = _interpolated(member, labels, degree)
            difference = max(form._difference(u, terms, place) for u, terms in checks)
            if difference < _AGREES:
                return replace(form, error=10.0 * difference + 1e-14)
        raise ConvergenceError(
            "coefficients of the family must be smooth functions of the parameters: they differ from polynomials of "
            f"degree {_DEGREES[-1]} by {difference:.1e}",
            difference,
        )

    @cached_property
    def size(self) -> Real:
        """Bounds on the moduli of the coefficients over the whole square, summed over the delays; shape (powers, 1)."""
        return np.asarray(np.abs(self.table).sum(axis=(0, 1, 3))[:, None])

    def _difference(self, u: tuple[float, float], terms: Expanded, place: dict[int, int]) -> float:
        """Return the difference of the coefficients from those of a member, relative to `size`."""
        values = np.zeros(self.table.shape[2:])
        for code, p in terms.items():
            if code not in place or len(p) > len(values):
                return inf
            values[: len(p), place[code]] += p
        known = self.local(np.array([u[0]]), np.array([u[1]]), 0.0).value[0]
        with np.errstate(invalid="ignore"):
            return float(np.nan_to_num(np.abs(values - known) / self.size, nan=0.0).max())

    def local(self, first: Real, second: Real, half: float) -> Local:
        """Return the form in cells of one size.

        Parameters
        ----------
        first, second : ndarray, shape (cells,)
            Centers, in normalized parameters.
        half : float
            Half of the width of the cells.
        """
        shifts = [_shift(center, half, self.degree) for center in (first, second)]
        local = np.einsum("cai,cbk,ikjm->cabjm", shifts[0], shifts[1], self.table, optimize=True)
        value, change = local[:, 0, 0], np.stack([local[:, 1, 0], local[:, 0, 1]])
        size = np.abs(local).sum(axis=(1, 2))
        rest = size - np.abs(value) - np.abs(change).sum(axis=0) + self.error * self.size
        delay = np.maximum(self.theta[:, 0] + np.outer(first, self.theta[:, 1]) + np.outer(second, self.theta[:, 2]), 0)
        turn = half * np.broadcast_to(self.theta[:, 1:].T[:, None], (2, *delay.shape))
        spread = np.abs(turn).sum(axis=0) + _ROUNDING * float(np.abs(self.theta).sum(axis=1).max()) * (
            self.theta.any(axis=1)
        )
        return Local(value, change, rest.clip(0.0), delay, turn, spread)


def reach(sizes: Real, lead: float | Real) -> Real:
    """Return a bound on the roots of polynomials: Fujiwara's, 2 max (sizes_j/lead)^(1/(n - j))."""
    n = sizes.shape[-1]
    with np.errstate(all="ignore"):
        return np.asarray(2.0 * ((sizes / np.asarray(lead)[..., None]) ** (1.0 / (n - np.arange(n)))).max(axis=-1))


def _shift(center: Real, half: float, degree: int) -> Real:
    """Return matrices from coefficients of u^i to those of t^k, u = center + half t; shape (cells, k, i)."""
    out = np.zeros((len(center), degree + 1, degree + 1))
    for i in range(degree + 1):
        for k in range(i + 1):
            out[:, k, i] = comb(i, k) * center ** (i - k) * half**k
    return out


def _parts(ch: Characteristic) -> list[tuple[int, float, list[Any]]]:
    """Return (power of s, delay, exact entries) of the matrices that are not zero."""
    return [
        (power, tau, row)
        for power, block in enumerate(ch.exact)
        for tau, row in zip(ch.delays.tolist(), block or (), strict=False)
        if any(x != 0 for x in row)
    ]


def _labels(member: Member) -> Real:
    """Return the delays of the family, affine in the parameters; shape (delays, 3).

    Raises
    ------
    ConvergenceError
        A delay is not affine.
    """

    def delays(u: tuple[float, float]) -> Real:
        return np.unique([tau for _, tau, _ in _parts(member(*u).characteristic_matrix)] or [0.0])

    first, second = _BASE
    start, right, up = delays(_BASE), delays((first + _STEP, second)), delays((first, second + _STEP))
    fault = "delays of the family must be constant or affine in the parameters: at some members they are not"
    if not len(start) == len(right) == len(up):
        raise ConvergenceError(fault, start)
    slope = np.stack([(right - start) / _STEP, (up - start) / _STEP], axis=1)
    longest = float(max(start.max(), (start + np.abs(slope).sum(axis=1)).max()))
    points = [(0.91, 0.37), (-0.83, 0.53), (0.59, -0.79), (-0.47, -0.93), (0.29, 0.97), (-0.97, 0.05), (0.03, -0.41)]
    rows: list[list[tuple[float, ...]]] = [[(1.0, first, second, tau)] for tau in start.tolist()]
    for u in points:
        near = start + slope @ (np.array(u) - _BASE)
        for tau in delays(u).tolist():
            distance = np.abs(near - tau)
            if distance.min() > _SAME_DELAY * longest:
                raise ConvergenceError(fault, tau)
            if (distance <= _SAME_DELAY * longest).sum() == 1:
                rows[int(distance.argmin())].append((1.0, *u, tau))
    out = np.zeros((len(start), 3))
    for k, row in enumerate(rows):
        known = np.array(row)
        if np.ptp(known[:, 3]) == 0.0:
            out[k, 0] = known[0, 3]
            continue
        fit = np.linalg.lstsq(known[:, :3], known[:, 3])[0]
        if len(row) < 4 or np.abs(known[:, :3] @ fit - known[:, 3]).max() > 10.0 * _ROUNDING * longest:
            raise ConvergenceError(fault, start)
        out[k] = np.where(np.abs(fit) <= 4.0 * _ROUNDING * longest, 0.0, fit)
    return out


def _interpolated(member: Member, labels: Real, degree: int) -> tuple[PlaneForm, dict[int, int]]:
    """Return the form from members at the nodes of a grid, and the term to which each code of a delay belongs."""
    turns = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    nodes = 0.99 * turns, 0.97 * turns  # not the same: delays that are parameters would coincide
    samples = {
        (i, k): _expanded(member(a, b), labels, (a, b))
        for (i, a), (k, b) in product(enumerate(nodes[0].tolist()), enumerate(nodes[1].tolist()))
    }
    codes = sorted({0, *(code for terms in samples.values() for code in terms)})
    exponents = np.array([[code // _DIGIT**k % _DIGIT for k in range(len(labels))] for code in codes]) @ labels
    scale = float(np.abs(exponents).sum(axis=1).max()) or 1.0
    keys = [tuple(np.round(row / (1e-12 * scale)).tolist()) for row in exponents]
    distinct = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    place = {code: distinct[key] for code, key in zip(codes, keys, strict=True)}
    powers = max(len(p) for terms in samples.values() for p in terms.values())
    values = np.zeros((degree + 1, degree + 1, powers, len(distinct)))
    theta = np.zeros((len(distinct), 3))
    for code, row in zip(codes, exponents, strict=True):
        theta[place[code]] = row
        for node, terms in samples.items():
            p = terms.get(code, np.zeros(0))
            values[(*node, slice(len(p)), place[code])] += p
    back = [np.linalg.inv(chebvander(x, degree)) for x in nodes]
    table = np.einsum("ai,bk,ikjm->abjm", back[0], back[1], values, optimize=True)
    size = np.abs(table).sum(axis=(0, 1, 3))[:, None]
    table[np.abs(table) < _NOISE * size] = 0.0  # otherwise powers of u amplify rounding errors
    powers_of = np.array([np.pad(cheb2poly(row), (0, degree + 1))[: degree + 1] for row in np.eye(degree + 1)])
    return PlaneForm(np.einsum("ai,bk,abjm->ikjm", powers_of, powers_of, table, optimize=True), theta, 0.0), place


def _expanded(system: DelaySystem, labels: Real, u: tuple[float, float]) -> Expanded:
    """Return the determinant of a member: code of the delay -> coefficients of the powers of s.

    Known artificial roots are divided out if all coefficients have them, as for algebraic equations.
    """
    from flint import fmpq, fmpq_poly

    ch = system.characteristic_matrix
    at = labels @ np.array([1.0, *u])
    tolerance = 2.0 * _SAME_DELAY * float(at.max())
    tables: list[tuple[list[int], list[list[Any]]]] = [([], []), ([], [])]
    for power, tau, row in _parts(ch):
        near = np.flatnonzero(np.abs(at - tau) <= tolerance)
        if len(near) != 1:
            raise ConvergenceError(f"delays of the family cannot be distinguished near {tau:.6g} s", tau)
        tables[power][0].append(_DIGIT ** int(near[0]) if labels[near[0]].any() else 0)
        tables[power][1].append(row)
    exact = expanded(ch.size, ch.sampled, tables, 0)
    if exact is None:
        raise ValueError(
            f"systems must have determinants that can be expanded: up to 12 states and few delays, got {ch.size} states"
        )
    for root in system._removable:
        divided = {code: divmod(p, fmpq_poly([-fmpq(*root.as_integer_ratio()), 1])) for code, p in exact.items()}
        if all(remainder == 0 for _, remainder in divided.values()):
            exact = {code: p for code, (p, _) in divided.items()}
    return {code: np.array([int(x.p) / int(x.q) for x in p.coeffs()]) for code, p in exact.items()}
