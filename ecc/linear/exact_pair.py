"""Zeros of real functions of two determinants along the stability boundary, with proven errors.

On s = j w the determinants are sums of exponentials with rational coefficients (`ecc.linear.quasipolynomial`),

    F(w) = sum_m p_m(j w) exp(-j w theta_m),

so that the derivatives of F, and of a product of two such sums, have simple bounds. On a piece of the axis a real
function G of two determinants differs from its cubic Hermite interpolant by no more than h^4/384 times a bound on its
fourth derivative. A piece has no zero if the Bezier form of the cubic has one sign by more than all errors, and one
zero or none if the cubic is monotone. Pieces are halved in floating point first (`ecc.linear.imaginary_axis.isolate`).
Those that remain undecided because of rounding are halved in ball arithmetic of 256 bits, down to 2^-100 of their
frequency. If a piece is still undecided, it contains a double zero, to 30 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import ceil, comb, factorial, perm, sqrt
from typing import Any, NamedTuple

import numpy as np

from ecc.errors import ConvergenceError
from ecc.linear.characteristic import Complex, Real, Terms
from ecc.linear.quasipolynomial import expanded

__all__ = ["MAX_STATES", "AxisSum", "Bounded", "Form", "Zero", "affine_sums", "bits", "modulus", "phase", "resolve"]

_EPS = float(np.finfo(np.float64).eps)
MAX_STATES = 8  # states up to which a determinant is expanded
_EFFORT = 0.1  # share of the products that an expansion may take
_BITS = 256
_NARROWEST = 2.0**-100  # shortest piece, relative to the frequency
_MAX_EVALUATIONS = 20_000
_MAX_LOCAL = 64  # terms of a sum up to which its derivatives are evaluated on every piece
_NOISE = 8.0 * _EPS  # relative error of coefficients that are computed from members

Real3 = tuple[Real, Real, Real]


class bits:  # noqa: N801
    """A context in which ball arithmetic has this number of bits."""

    def __init__(self, number: int = _BITS) -> None:
        self.number = number

    def __enter__(self) -> None:
        from flint import ctx

        self.before, ctx.prec = ctx.prec, self.number

    def __exit__(self, *_: object) -> None:
        from flint import ctx

        ctx.prec = self.before


class AxisSum:
    """F(w) = sum_m p_m(j w) exp(-j w theta_m).

    Parameters
    ----------
    c : ndarray, shape (powers, M)
        Coefficients of the powers of s in each p_m.
    theta : ndarray, shape (M,)
        Delays of the terms.
    exact : callable
        Function that returns the same sum in rational numbers, theta -> p.
    """

    def __init__(self, c: Real, theta: Real, exact: Callable[[], dict[Any, Any]]) -> None:
        self.c, self.theta, self._exact = c, theta, exact
        self._balls: dict[int, list[tuple[Any, Any, Any]]] = {}
        moments = np.abs(c) @ theta[:, None] ** np.arange(5)
        self._derivatives = [
            [
                (comb(i, k) * perm(j, k) * float(moments[j, i - k]), j - k)
                for j in range(len(c))
                for k in range(min(i, j) + 1)
                if moments[j, i - k] > 0.0
            ]
            for i in range(5)
        ]

    @staticmethod
    def of(terms: dict[Any, Any]) -> AxisSum:
        """Return the sum of rational terms, theta -> p."""
        terms = {theta: p for theta, p in terms.items() if p}
        degree = max((p.degree() for p in terms.values()), default=0)
        c = np.zeros((degree + 1, len(terms)))
        for m, p in enumerate(terms.values()):
            for j, x in enumerate(p.coeffs()):
                c[j, m] = int(x.p) / int(x.q)
        return AxisSum(c, np.array([int(theta.p) / int(theta.q) for theta in terms]), lambda: terms)

    @property
    def slowest(self) -> float:
        """Order of magnitude of the lowest frequency at which terms of different powers balance, rad/s; inf if none."""
        sizes = np.abs(self.c).sum(axis=1)
        powers = np.flatnonzero(sizes)
        with np.errstate(all="ignore"):
            ratios = (sizes[powers[:-1]] / sizes[powers[1:]]) ** (1.0 / np.diff(powers))
        return float(ratios.min(initial=np.inf))

    @cached_property
    def terms(self) -> dict[Any, Any]:
        """The sum in rational numbers, theta -> p."""
        return self._exact()

    def at(self, omega: Real) -> tuple[Complex, Complex]:
        """Return F and dF/dw."""
        s = 1j * omega[:, None]
        powers = np.arange(len(self.c))
        power = s**powers
        steep = np.zeros_like(power)
        steep[:, 1:] = powers[1:] * power[:, :-1]
        e = np.exp(-s * self.theta)
        inner = power @ self.c
        return (inner * e).sum(axis=1), 1j * ((steep @ self.c - inner * self.theta) * e).sum(axis=1)

    def on_grid(self, start: float, step: float, count: int) -> tuple[Complex, Complex]:
        """Return F and dF/dw on a uniform grid; exponentials of sums are products of exponentials."""
        omega: Real = start + step * np.arange(float(count))
        if len(self.theta) * count < 4096:
            return self.at(omega)
        columns = ceil(sqrt(count))
        rows = ceil(count / columns)
        outer = np.exp(np.multiply.outer(-1j * (start + step * columns * np.arange(rows)), self.theta))
        inner = np.exp(np.multiply.outer(self.theta, -1j * step * np.arange(columns)))
        value, slope = np.zeros((2, count), complex)
        s = 1j * omega
        for j, row in enumerate(self.c):
            if not row.any():
                continue
            part, late = (((outer * r) @ inner).ravel()[:count] for r in (row, row * self.theta))
            power: Any = s**j if j else 1.0
            value += part * power
            slope -= late * power
            if j:
                slope += j * part * s ** (j - 1)
        return value, 1j * slope

    def bounds(self, omega: Real) -> Real:
        """Return bounds on the moduli of F and of its first four derivatives up to frequencies, shape (5, points).

        The shape is (5, 1) if they are the same at every frequency.
        """
        if len(self.c) == 1:
            return np.array([[sum(k for k, _ in parts)] for parts in self._derivatives], float)
        return np.array([sum(k * omega**n for k, n in parts) + 0.0 * omega for parts in self._derivatives])

    def bounds_between(self, low: Real, high: Real) -> Real:
        """Return bounds on the moduli of F and of its first four derivatives on pieces, shape (5, points).

        With derivatives at the upper ends, for few terms without powers of s: F may be much smaller than its terms.
        """
        every = self.bounds(high)
        if len(self.c) > 1 or len(self.theta) > _MAX_LOCAL:
            return every
        length = high - low
        fixed, rising = self.rounding
        terms = self.c[0] * np.exp(np.multiply.outer(-1j * high, self.theta))
        out = [np.broadcast_to(every[4], high.shape)]
        for order in (3, 2, 1, 0):
            at_end = np.abs(terms @ self.theta**order) + (fixed + rising * high) * every[order]
            out.append(np.minimum(every[order], at_end + length * out[-1]))
        return np.array(out[::-1])

    def series(self, number: int) -> list[Any]:
        """Return the first coefficients of Taylor's series in s at 0, in rational numbers.

        Parameters
        ----------
        number : int
            Number of coefficients.
        """
        from flint import fmpq, fmpq_poly

        total = fmpq_poly()
        for theta, p in self.terms.items():
            factors = [fmpq(1)]
            for k in range(1, number):
                factors.append(factors[-1] * -theta / k)
            total += p * fmpq_poly(factors)
        return [total[k] for k in range(number)]

    def remainder(self, number: int, omega: float) -> float:
        """Return a bound on the modulus of Taylor's series after its first terms, for |s| up to a frequency.

        Parameters
        ----------
        number : int
            Number of terms that are left out, at least that of the powers of s.
        omega : float
            Frequency, rad/s.
        """
        j = np.arange(len(self.c))[:, None]
        turn = self.theta * omega
        factorials = np.array([[float(factorial(number - k))] for k in range(len(self.c))])
        return float((np.abs(self.c) * omega**j * turn ** (number - j) / factorials * np.exp(turn)).sum()) * (
            1.0 + 1e-9
        )

    @property
    def rounding(self) -> tuple[float, float]:
        """Relative error of values in floating point: a constant part and a part proportional to w."""
        longest = float(self.theta.max(initial=0.0))
        return _EPS * (24.0 + 4.0 * len(self.c) + len(self.theta)), 4.0 * _EPS * longest

    def noise(self, omega: Real) -> Real:
        """Return a bound on the errors of F in floating point."""
        fixed, rising = self.rounding
        return np.asarray((fixed + rising * omega) * self.bounds(omega)[0])

    @cached_property
    def bound_polynomials(self) -> list[list[float]] | None:
        """The polynomials in w of `bounds`, highest powers first; None if `bounds_between` depends on the piece."""
        if len(self.c) == 1 and len(self.theta) <= _MAX_LOCAL:
            return None
        out = []
        for parts in self._derivatives:
            polynomial = [0.0] * (1 + max((n for _, n in parts), default=0))
            for k, n in parts:
                polynomial[-1 - n] += k
            out.append(polynomial)
        return out

    def _in_balls(self) -> list[tuple[Any, Any, Any]]:
        """Return (theta, p, p') of all terms in balls of the present precision."""
        from flint import acb_poly, arb, ctx

        if ctx.prec not in self._balls:
            polynomials = [(arb(theta), acb_poly(p)) for theta, p in self.terms.items()]
            self._balls[ctx.prec] = [(theta, p, p.derivative()) for theta, p in polynomials]
        return self._balls[ctx.prec]

    def ball(self, w: Any) -> tuple[Any, Any]:
        """Return F and dF/dw in balls."""
        from flint import acb

        s = acb(0, w)
        value, slope = acb(0), acb(0)
        for theta, p, derivative in self._in_balls():
            e, p_at_s = (-s * theta).exp(), p(s)
            value += p_at_s * e
            slope += (derivative(s) - p_at_s * theta) * e
        return value, acb(0, 1) * slope


def affine_sums(base: Terms, rise: Terms) -> tuple[AxisSum, AxisSum] | None:
    """Return F0 and F1 of det(base + g rise) = F0 + g F1; None if they have too many terms."""
    n, sampled = base.constant.shape[1], base.sampled
    if n > MAX_STATES:
        return None

    def tables(shares: int) -> list[tuple[list[Any], Any]]:
        from flint import fmpq

        out: list[tuple[list[Any], Any]] = []
        for which in (0, 1):
            pairs = [t.powers[which] for t in (base, rise)[:shares]]
            delays = [fmpq(*tau.as_integer_ratio()) for _, every in pairs for tau in every.tolist()]
            out.append((delays, [matrix.ravel().tolist() for matrices, _ in pairs for matrix in matrices]))
        return out

    def exact(shares: int) -> dict[Any, Any] | None:
        from flint import fmpq

        return expanded(n, sampled, tables(shares), fmpq(0), _EFFORT)

    def difference() -> dict[Any, Any] | None:
        low, high = exact(1), exact(2)
        if low is None or high is None:
            return None
        for theta, p in low.items():
            high[theta] = high.get(theta, 0) - p
        return high

    if n == 1:
        return _of_one_state(base, True, exact, 1), _of_one_state(rise, False, lambda _: difference(), 1)
    low, change = exact(1), difference()
    return None if low is None or change is None else (AxisSum.of(low), AxisSum.of(change))


def _of_one_state(t: Terms, identity: bool, exact: Callable[[int], Any], shares: int) -> AxisSum:
    lead = float(identity)
    c = np.zeros((2, 1 + len(t.delays) + len(t.slope_delays)))
    c[0 if t.sampled else 1, 0] = lead
    c[0, 1 : 1 + len(t.delays)] = t.constant[:, 0, 0]
    c[1, 1 + len(t.delays) :] = t.slope[:, 0, 0]
    theta = np.concatenate([[0.0], t.delays, t.slope_delays])
    used = np.any(c != 0.0, axis=0)
    c, theta = c[:, used], theta[used]
    return AxisSum(c if np.any(c[1]) else c[:1], theta, lambda: exact(shares) or {})


class Form(NamedTuple):
    """A real function of F0, F1 and their derivatives: in floating point, in balls, and its bounds."""

    floats: Callable[[Complex, Complex, Complex, Complex], Real3]
    balls: Callable[[Any, Any, Any, Any], tuple[Any, Any]]
    products: Callable[[Real, Real], Real]


def _phase(f0: Complex, d0: Complex, f1: Complex, d1: Complex) -> Real3:
    conjugate = np.conj(f1)
    return (f0 * conjugate).imag, (d0 * conjugate + f0 * np.conj(d1)).imag, np.abs(f0) * np.abs(f1)


def _phase_balls(f0: Any, d0: Any, f1: Any, d1: Any) -> tuple[Any, Any]:
    conjugate = f1.conjugate()
    return (f0 * conjugate).imag, (d0 * conjugate + f0 * d1.conjugate()).imag


def _modulus(f0: Complex, d0: Complex, f1: Complex, d1: Complex) -> Real3:
    square0, square1 = np.abs(f0) ** 2, np.abs(f1) ** 2
    return square0 - square1, 2.0 * (d0 * np.conj(f0) - d1 * np.conj(f1)).real, square0 + square1


def _modulus_balls(f0: Any, d0: Any, f1: Any, d1: Any) -> tuple[Any, Any]:
    value = (f0 * f0.conjugate() - f1 * f1.conjugate()).real
    return value, 2 * (d0 * f0.conjugate() - d1 * f1.conjugate()).real


phase = Form(_phase, _phase_balls, lambda m0, m1: m0 * m1)
"""Im(F0 conj F1)."""
modulus = Form(_modulus, _modulus_balls, lambda m0, m1: m0 * m0 + m1 * m1)
"""|F0|^2 - |F1|^2."""


class Zero(NamedTuple):
    """A zero of a form: its frequency as a ball, and the sign of the change of the function there.

    `rises` is 0 at a zero without a change of sign, or at a minimum that is 0 within the errors of the coefficients.
    """

    frequency: Any
    rises: int


class Bounded:
    """A form of two sums, with its bounds."""

    def __init__(self, form: Form, f0: AxisSum, f1: AxisSum) -> None:
        self.form, self.f0, self.f1 = form, f0, f1
        self.evaluations = 0

    def errors(self, low: Real, omega: Real) -> Real3:
        """Return bounds on the fourth derivative on pieces, on rounding in floating point, and on the terms."""
        fourth = self._fourth_derivative(self.f0.bounds_between(low, omega), self.f1.bounds_between(low, omega))
        size = self.form.products(self.f0.bounds(omega)[0], self.f1.bounds(omega)[0])
        (a, b), (c, d) = self.f0.rounding, self.f1.rounding
        return np.asarray(fourth), np.asarray(2.0 * (a + c + (b + d) * omega) * size), np.asarray(size)

    def _fourth_derivative(self, m0: Any, m1: Any) -> Any:
        """Return a bound on the fourth derivative of the form from those of the sums and their derivatives."""
        if self.form is phase:
            return sum(comb(4, i) * m0[i] * m1[4 - i] for i in range(5))
        return sum(comb(4, i) * m[i] * m[4 - i] for i in range(5) for m in (m0, m1))

    def fourth(self, low: float, high: float) -> float:
        """Return the bound on the fourth derivative of `errors` on one piece."""
        first, second = self.f0.bound_polynomials, self.f1.bound_polynomials
        if first is None or second is None:
            return float(self.errors(np.array([low]), np.array([high]))[0][0])
        m0, m1 = ([_horner(p, high) for p in every] for every in (first, second))
        return float(self._fourth_derivative(m0, m1))

    def ball(self, w: Any) -> tuple[Any, Any]:
        """Return the form and its derivative in balls."""
        self.evaluations += 1
        if self.evaluations > _MAX_EVALUATIONS:
            raise ConvergenceError("zeros along the stability boundary are too close to each other", float(w))
        return self.form.balls(*self.f0.ball(w), *self.f1.ball(w))


def _horner(polynomial: list[float], x: float) -> float:
    """Return the value of a polynomial, highest powers first."""
    value = 0.0
    for coefficient in polynomial:
        value = value * x + coefficient
    return value


def _piece(bound: Bounded, low: Any, high: Any, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[bool, bool]:
    """Return whether a form has no zero on a piece, and whether it is monotone there."""
    from flint import arb

    h = high - low
    error = arb(bound.fourth(float(low), float(high) * (1.0 + 1e-12)) * (1.0 + 1e-9)) * h**4 / 384
    bezier = [a[0], a[0] + h / 3 * a[1], b[0] - h / 3 * b[1], b[0]]
    apart = all(x > error for x in bezier) or all(x < -error for x in bezier)
    rise = [y - x for x, y in zip(bezier, bezier[1:], strict=False)]
    error = error * 1.1  # the remainder's derivative is within 3.1 times the largest remainder divided by the length
    monotone = all(x > error for x in rise) or all(x < -error for x in rise)
    return apart, monotone


def resolve(bound: Bounded, low: float, high: float) -> list[Zero]:
    """Return all zeros of a form in a piece of the axis, in balls.

    Raises
    ------
    ConvergenceError
        The zeros need too many evaluations.
    """
    from flint import arb

    with bits():
        first, last = arb(low), arb(high)
        ends = bound.ball(first), bound.ball(last)
        pieces: list[tuple[Any, Any, tuple[Any, Any], tuple[Any, Any]]] = [(first, last, *ends)]
        zeros: list[Zero] = []
        undecided: list[tuple[Any, Any, Any, Any]] = []
        smallest: tuple[Any, Any] | None = None
        while pieces:
            a, b, at_a, at_b = pieces.pop()
            apart, monotone = _piece(bound, a, b, at_a, at_b)
            if apart:
                continue
            if monotone:
                rises = int(bool(at_b[0] > 0)) - int(bool(at_a[0] > 0))
                if rises:
                    zeros.append(Zero(_root(bound, a, b, rises > 0), rises))
                continue
            if b - a <= _NARROWEST * b:
                undecided.append((a, b, at_a[0], at_b[0]))
                continue
            middle = ((a + b) / 2).mid()
            at = bound.ball(middle)
            if smallest is None or abs(at[0]) < smallest[1]:
                smallest = middle, abs(at[0])
            pieces += [(a, middle, at_a, at), (middle, b, at, at_b)]
        undecided.sort(key=lambda piece: float(piece[0]))
        joined: list[tuple[Any, Any, Any, Any]] = []
        for piece in undecided:
            if joined and abs(joined[-1][1] - piece[0]) <= 4 * _NARROWEST * piece[0]:
                joined[-1] = (joined[-1][0], piece[1], joined[-1][2], piece[3])
            else:
                joined.append(piece)
        zeros += [Zero(((a + b) / 2).mid(), int(y > 0) - int(x > 0)) for a, b, x, y in joined]
        if not zeros and smallest is not None:
            noise = _NOISE * float(bound.errors(np.zeros(1), np.array([float(smallest[0])]))[2][0])
            dips = all(abs(at[0]) > 2 * smallest[1] for at in ends)  # does not just fall toward w = 0 or pi
            if dips and smallest[1] < noise:
                zeros.append(Zero(smallest[0], 0))
        return sorted(zeros, key=lambda zero: float(zero.frequency))


def _root(bound: Bounded, low: Any, high: Any, rises: bool) -> Any:
    """Return the zero of a monotone form, by Newton's method that never leaves the piece."""
    w = ((low + high) / 2).mid()
    for _ in range(60):
        value, slope = bound.ball(w)
        low, high = (w, high) if bool(value <= 0) is rises else (low, w)
        step = (value / slope).mid() if abs(slope) > 0 else high - low
        new = (w - step).mid()
        if not low <= new <= high:
            new = ((low + high) / 2).mid()
        done = abs(new - w) <= 2.0**-140 * abs(w)
        w = new
        if done:
            break
    return w
