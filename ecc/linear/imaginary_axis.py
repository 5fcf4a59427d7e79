"""Zeros of det P = F0(s) + g F1(s) for a pair of systems on the stability boundary s = j w.

At a real gain g the function Im(F0 conj F1) of w is zero there. Its zeros, and those of other real functions of the two
determinants, are isolated piece by piece and refined by Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import ceil, inf, log2, pi
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ecc.errors import ConvergenceError
from ecc.linear.characteristic import (
    Characteristic,
    Complex,
    Real,
    Terms,
    adjugate,
    align,
    determinant,
    evaluate_all,
    evaluate_grid,
    fraction,
    longest_sum,
)
from ecc.linear.exact_pair import AxisSum, Bounded, Zero, bits, phase, resolve

__all__ = [
    "MAX_NODES",
    "AxisPair",
    "Crossing",
    "Pair",
    "ProvenPair",
    "Real3",
    "SumPair",
    "boundary_crossings",
    "determinants",
    "isolate",
    "joined_zeros",
    "pieces_to",
    "ratio",
    "refine",
    "trusted",
]

_OVERSAMPLING = 0.5  # rad of the fastest oscillation in a piece of the first mesh
MAX_NODES = 1 << 18
# Speed of a root that crosses, relative to frequency and gain: rounding may decide the direction of slower roots.
_MIN_SPEED = 1e-7
_SERIES = 16  # further terms of Taylor's series at 0
_SCALES = 60  # halvings of the range of frequencies in which it is tried
_CIRCLE = 64  # points on a circle around 0
_MAX_HALVINGS = 200.0  # Of the first piece, down to the lowest frequency of the first mesh
_ROUNDING = 1e-12  # relative to the terms of a real function: smaller values may be rounding errors
_NEAR_ZERO = 1e-6  # relative distance from a zero of F1 at which rounding may create a zero of Im(F0 conj F1)
_MAX_EXCHANGED = 2  # maximum number of differing rows or columns for which the difference is computed row by row


class Crossing(NamedTuple):
    """A root on the boundary at this gain and frequency [rad/s or rad/step]; `change` roots turn unstable there.

    `change` is negative if roots turn stable, 0 if they only touch the boundary.
    """

    gain: float
    frequency: float
    change: int


class Pair:
    """det P of two systems on the axis: F0 of `low`, F1 = (weight * det of `high` - F0)/span, with derivatives in w.

    Both have the root 0 `zeros` times without being roots of the model (`ecc.linear.removable`).

    If the systems differ in few rows or columns, the difference of the determinants is a sum of determinants of P0 with
    a row (column) replaced by that of the difference of the matrices, so that nothing cancels if it is small.
    """

    slowest = inf  # Not known without the coefficients of the determinants

    def __init__(self, low: Terms, high: Terms, span: float, weight: float = 1.0, zeros: int = 0) -> None:
        self.low, self.high = align(low, high)
        self.span, self.weight, self.zeros = span, weight, zeros
        self.sampled, self.order = low.sampled, self.low.size
        slopes = [np.zeros_like(ch.constant) if ch.slope is None else ch.slope for ch in (self.low, self.high)]
        constant, slope = self.high.constant - self.low.constant, slopes[1] - slopes[0]
        retarded = self.low.slope is None and self.high.slope is None
        self.change = replace(self.low, constant=constant, slope=None if retarded else slope, leading=False)
        differs = np.any(constant != 0.0, axis=0) | np.any(slope != 0.0, axis=0)
        rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
        self._turned = len(columns) < len(rows)  # exchange columns, as rows of the transposed matrices
        self._exchanged = columns if self._turned else rows
        self.exchanges = 0 < len(self._exchanged) <= _MAX_EXCHANGED

    @cached_property
    def band(self) -> float:
        """Longest delay of the two determinants."""
        return longest_sum(self.low, self.high)

    @property
    def _evaluated(self) -> list[Characteristic]:
        return [self.low, self.change if self.exchanges else self.high]

    def _exchange(self, base: Complex, change: Complex) -> list[Complex]:
        """Return matrices with determinants that add up to det(base + change) - det(base)."""
        if base.shape[-1] == 1:
            return [change]
        if self._turned:
            base, change = np.swapaxes(base, 1, 2), np.swapaxes(change, 1, 2)
        out = []
        for done, row in enumerate(self._exchanged, 1):
            mixed = base.copy()
            mixed[:, row] = change[:, row]
            out.append(mixed)
            if done < len(self._exchanged):
                base = base.copy()
                base[:, row] += change[:, row]
        return out

    def _functions(self, low: tuple[Complex, Complex], other: tuple[Complex, Complex]) -> tuple[Complex, ...]:
        f0, d0 = determinants(*low)
        if self.exchanges:
            mixed = zip(self._exchange(low[0], other[0]), self._exchange(low[1], other[1]), strict=True)
            parts = [determinants(value, slope) for value, slope in mixed]
            f1, d1 = (sum((part[i] for part in parts[1:]), start=parts[0][i]) for i in (0, 1))
            if self.weight != 1.0:
                f1, d1 = (self.weight * x + (self.weight - 1.0) * y for x, y in ((f1, f0), (d1, d0)))
            return f0, d0, f1 / self.span, d1 / self.span
        f1, d1 = determinants(*other)
        return f0, d0, (self.weight * f1 - f0) / self.span, (self.weight * d1 - d0) / self.span

    def at(self, omega: Real) -> tuple[Complex, ...]:
        """Return F0, F0', F1, F1' at frequencies; ' is d/dw."""
        return self._functions(*evaluate_all(self._evaluated, 1j * omega))

    def values(self, omega: Real) -> tuple[Complex, Complex]:
        """Return F0 and F1 at frequencies; with four states or more, derivatives take most of the time of `at`."""
        (low, _), (other, _) = evaluate_all(self._evaluated, 1j * omega)
        f0 = determinant(low)
        if not self.exchanges:
            return f0, (self.weight * determinant(other) - f0) / self.span
        f1 = np.sum([determinant(mixed) for mixed in self._exchange(low, other)], axis=0)
        if self.weight != 1.0:
            f1 = self.weight * f1 + (self.weight - 1.0) * f0
        return f0, np.asarray(f1 / self.span)

    def on_grid(self, start: float, step: float, count: int) -> tuple[Complex, ...]:
        """Return the same on a uniform grid, faster."""
        return self._functions(*evaluate_grid(self._evaluated, 0.0, start, step, count))

    def without_zeros(self) -> tuple[complex, ...]:
        """Return F0, F0', F1, F1' at w = 0 after division by (j w)^zeros, and bounds on the errors of F0 and F1.

        The coefficients of Taylor's series are means over a circle.
        """
        radius = min(self.low.resolution, self.high.resolution)
        turn = np.exp(2j * pi * (np.arange(_CIRCLE) + 0.5) / _CIRCLE)
        f0, _, f1, _ = self._functions(*evaluate_all(self._evaluated, radius * turn))
        parts = [(f * turn**-k).mean() / radius**k for f in (f0, f1) for k in (self.zeros, self.zeros + 1)]
        noise = [1e-14 * self.low.size * np.abs(f).max() / radius**self.zeros for f in (f0, f1)]
        return parts[0], 1j * parts[1], parts[2], 1j * parts[3], *noise

    def noises(self, omega: Real) -> tuple[Real, Real]:
        """Return the rounding errors of F0 and F1, to first order."""
        s = 1j * omega
        (low, _), (other, _) = evaluate_all(self._evaluated, s)
        errors = [ch.rounding(0.0, s)[0] for ch in self._evaluated]
        error = _rounding(low, errors[0])
        if self.exchanges:
            mixed = zip(self._exchange(low, other), self._exchange(*errors), strict=True)
            parts = [_rounding(value, spread) for value, spread in mixed]
            change = abs(self.weight) * sum(parts) + abs(self.weight - 1.0) * error
        else:
            change = abs(self.weight) * _rounding(other, errors[1]) + error
        return error, change / self.span


def determinants(value: Complex, slope: Complex) -> tuple[Complex, Complex]:
    """Return det P and its derivative in w."""
    return determinant(value), 1j * np.einsum("pij,pji->p", adjugate(value), slope)


def _rounding(value: Complex, error: Real) -> Real:
    """Return the error of det P, to first order in those of its entries."""
    return np.asarray(np.einsum("pij,pji->p", np.abs(adjugate(value)), error))


class SumPair:
    """F0 and F1 as sums of exponentials, with derivatives in w; `span` is the order of magnitude of gains.

    `zeros` is as in `Pair`.
    """

    def __init__(self, f0: AxisSum, f1: AxisSum, sampled: bool, order: int, span: float = 1.0, zeros: int = 0) -> None:
        self.f0, self.f1, self.sampled, self.order, self.span, self.zeros = f0, f1, sampled, order, span, zeros

    def without_zeros(self) -> tuple[complex, ...]:
        """Return F0, F0', F1, F1' at w = 0 after division by (j w)^zeros, and bounds on the errors of F0 and F1."""
        out, noises = list[complex](), list[complex]()
        for f in (self.f0, self.f1):
            value, slope = (float(fraction(x)) for x in f.series(self.zeros + 2)[self.zeros :])
            out += [value, 1j * slope]
            noises.append(1e-15 * float(np.abs(f.c).sum() * max(1.0, self.band) ** self.zeros))
        return *out, *noises

    @cached_property
    def clear_to(self) -> float:
        """A frequency below which Im(F0 conj F1) has no zero, by Taylor's series without the artificial roots at 0.

        Next to these roots both functions are so small that rounding hides the zeros of the other factors. Divided by
        (j w)^zeros they are a(w^2) + j w b(w^2), and the function is w times (b0 a1 - a0 b1), whose constant term
        outweighs the others up to this frequency. 0 without artificial roots, or if the constant term vanishes.
        """
        if not self.zeros or self.band == 0.0:
            return 0.0
        from flint import fmpq_poly

        number = self.zeros + max(len(self.f0.c), len(self.f1.c)) + _SERIES
        parts, sizes = [], []
        for f in (self.f0, self.f1):
            g = f.series(number)[self.zeros :]
            parts.append([fmpq_poly([(-1) ** i * x for i, x in enumerate(g[first::2])]) for first in (0, 1)])
            sizes.append(np.array([abs(float(fraction(x))) for x in g]))
        (a0, b0), (a1, b1) = parts
        h = [abs(float(fraction(x))) for x in (b0 * a1 - a0 * b1).coeffs()] or [0.0]
        omega = 1.0 / self.band
        for _ in range(_SCALES if h[0] > 0.0 else 0):
            power = omega ** np.arange(number)
            rest = [f.remainder(number, omega) / omega**self.zeros for f in (self.f0, self.f1)]
            size = [float(part @ power[: len(part)]) + r for part, r in zip(sizes, rest, strict=True)]
            others = sum(x * omega ** (2 * k) for k, x in enumerate(h[1:], 1))
            if h[0] > 1.001 * (others + (rest[0] * size[1] + rest[1] * size[0]) / omega):
                return omega
            omega *= 0.5
        return 0.0

    @property
    def band(self) -> float:
        """Longest delay of the two sums."""
        return max(float(f.theta.max(initial=0.0)) for f in (self.f0, self.f1))

    def at(self, omega: Real) -> tuple[Complex, ...]:
        """Return F0, F0', F1, F1' at frequencies; ' is d/dw."""
        return *self.f0.at(omega), *self.f1.at(omega)

    def on_grid(self, start: float, step: float, count: int) -> tuple[Complex, ...]:
        """Return the same on a uniform grid, faster."""
        return *self.f0.on_grid(start, step, count), *self.f1.on_grid(start, step, count)

    def noises(self, omega: Real) -> tuple[Real, Real]:
        """Return bounds on the errors of F0 and F1 in floating point."""
        return self.f0.noise(omega), self.f1.noise(omega)

    @cached_property
    def slowest(self) -> float:
        """Order of magnitude of the lowest frequency at which terms of the sums balance, rad/s; inf for constants."""
        return min(self.f0.slowest, self.f1.slowest)

    @cached_property
    def _bound(self) -> Bounded:
        return Bounded(phase, self.f0, self.f1)

    def errors(self, low: Real, high: Real) -> Real3:
        """Return bounds on the fourth derivative of Im(F0 conj F1) on pieces, on rounding, and on its terms."""
        return self._bound.errors(low, high)

    def doubtful_crossings(self, low: Real, high: Real) -> list[Crossing]:
        """Return the crossings in pieces that are undecided due to rounding, in balls."""
        return resolved_crossings(self._bound, low, high)


class ProvenPair(Protocol):
    """Two functions on the axis with proven errors; members as in `SumPair`."""

    sampled: bool
    order: int
    span: float
    zeros: int

    def without_zeros(self) -> tuple[complex, ...]: ...
    @property
    def clear_to(self) -> float: ...
    @property
    def slowest(self) -> float: ...
    @property
    def band(self) -> float: ...
    def at(self, omega: Real) -> tuple[Complex, ...]: ...
    def on_grid(self, start: float, step: float, count: int) -> tuple[Complex, ...]: ...
    def noises(self, omega: Real) -> tuple[Real, Real]: ...
    def errors(self, low: Real, high: Real) -> Real3: ...
    def doubtful_crossings(self, low: Real, high: Real) -> list[Crossing]: ...


Real3 = tuple[Real, Real, Real]
AxisPair = Pair | ProvenPair


def ratio(pair: AxisPair, omega: Real) -> Complex:
    """Return F1/F0 at frequencies; infinite or not a number at zeros of F0."""
    f0, f1 = pair.values(omega) if isinstance(pair, Pair) else pair.at(omega)[::2]
    if pair.zeros and np.any(omega == 0.0):
        at_zero = pair.without_zeros()
        f0[omega == 0.0], f1[omega == 0.0] = at_zero[0], at_zero[2]
    with np.errstate(all="ignore"):
        return np.asarray(f1 / f0)


def trusted(pair: AxisPair, omega: Real) -> NDArray[np.bool_]:
    """Return whether Im(F0 conj F1) exceeds the rounding errors of both functions."""
    f0, _, f1, _ = pair.at(omega)
    noise0, noise1 = pair.noises(omega)
    return np.asarray(np.abs((f0 * np.conj(f1)).imag) > noise0 * np.abs(f1) + noise1 * np.abs(f0))


def pieces_to(band: float, top: float) -> int:
    """Return the pieces of the first mesh up to a frequency for this longest delay of the determinants."""
    return ceil(band * top / _OVERSAMPLING) + 16


def isolate(
    pair: AxisPair,
    form: Callable[..., Real3],
    top: float,
    errors: Callable[[Real, Real], Real3] | None = None,
    start: float = 0.0,
) -> tuple[Real, ...]:
    """Return pieces of (start, top) with one zero each of a real function of the frequency, without zeros at 0 and pi.

    Parameters
    ----------
    pair : AxisPair
        The two determinants.
    form : callable
        Function from F0, F0', F1, F1' to (value, derivative in w, size of its terms).
    top : float
        Highest frequency, rad/s or rad/step.
    errors : callable, optional
        Function from the ends of pieces to proven bounds on the function, as `SumPair.errors`.
    start : float, optional
        Lowest frequency, rad/s or rad/step.

    Returns
    -------
    low, high : ndarray
        Ends of the pieces, increasing. Without `errors`, two zeros closer than 1e-9 of their frequency may be missed.
    low, high : ndarray
        With `errors` only: ends of the pieces undecided due to rounding, for `ecc.linear.exact_pair.resolve`.

    Raises
    ------
    ConvergenceError
        The search needs more than 2^18 pieces, or the function vanishes along an interval.

    Notes
    -----
    On each piece the function is its cubic Hermite interpolant up to an error that is proven by `errors`, or estimated
    from the longest delay. A piece is done if the Bezier form has one sign, or is monotone. Other pieces are halved.
    """
    band, order = pair.band, pair.order
    pieces = pieces_to(band, top)
    if pieces > MAX_NODES:
        raise ConvergenceError(
            f"crossings up to {top:.3g} rad/s take {pieces:.2g} pieces for a delay of {band:.3g} s in the determinant, "
            f"more than the limit of {MAX_NODES:,}",
            None,
        )
    step = top / pieces
    slowest = 0.001 * pair.slowest  # if delays are very short, it may be far below the first step
    halvings = min(max(31.0, ceil(log2(step / slowest))), _MAX_HALVINGS) if 0.0 < slowest < inf else 31.0
    ends = step * 2.0 ** -np.arange(1.0, halvings, 0.5 if band == 0.0 else 1.0)
    extra = np.concatenate([ends, top - ends]) if pair.sampled else ends
    uniform = step * np.arange(1, pieces + (0 if pair.sampled else 1))
    parts = [pair.on_grid(step, step, len(uniform)), pair.at(extra)]
    omega = np.concatenate([uniform, extra])
    by = np.argsort(omega)
    by = by[max(0, int(np.searchsorted(omega[by], start, "right")) - 1) :]
    omega = omega[by]
    value, slope, size = (x[by] for x in form(*(np.concatenate(x) for x in zip(*parts, strict=True))))
    known = np.flatnonzero(np.abs(value) > _ROUNDING * size)
    if not len(known):
        raise ConvergenceError("the crossing condition holds at all frequencies", None)
    mesh = np.stack([omega, value, slope, size])
    if errors is None:  # next to a zero at 0 or pi, only rounding is left
        mesh = mesh[:, known[0] : known[-1] + 1 if pair.sampled else None]
    low, high = mesh[:, :-1], mesh[:, 1:]
    isolated: list[Real] = []
    doubtful: list[Real] = [np.zeros((2, 0))]
    for depth in range(60):
        h = high[0] - low[0]
        if errors is None:
            rate = band + 2.0 * order / high[0]
            error = (h * rate) ** 4 / 256.0 * np.maximum(low[3], high[3])
            noise = np.zeros_like(h)
        else:
            fourth, noise, _ = errors(low[0], high[0])
            error = h**4 / 384.0 * fourth
        bezier = np.stack([low[1], low[1] + h / 3.0 * low[2], high[1] - h / 3.0 * high[2], high[1]])
        apart = (bezier.min(axis=0) > error + noise) | (bezier.max(axis=0) < -error - noise)
        rise = np.diff(bezier, axis=0)
        steep = 1.1 * error + 2.0 * noise
        monotone = (rise.min(axis=0) > steep) | (rise.max(axis=0) < -steep)
        if errors is None:
            tiny = h <= 1e-9 * high[0]
            lost = np.zeros_like(tiny)
        else:
            monotone &= (np.abs(low[1]) > noise) & (np.abs(high[1]) > noise)
            tiny = np.zeros_like(monotone)
            lost = ~(apart | monotone) & ((error < 0.01 * noise) | (h <= 1e-7 * high[0]))
            doubtful.append(np.stack([low[0], high[0]])[:, lost])
        crosses = (low[1] <= 0.0) != (high[1] <= 0.0)
        isolated.append(np.stack([low[0], high[0]])[:, (monotone | tiny) & crosses & ~apart])
        fails = ~(apart | monotone | tiny | lost)
        if not fails.any():
            break
        if fails.sum() > MAX_NODES or depth == 59:
            raise ConvergenceError("the crossing condition holds along an interval", low[0][fails])
        low, high = low[:, fails], high[:, fails]
        middle = 0.5 * (low[0] + high[0])
        new = np.stack([middle, *form(*pair.at(middle))])
        low, high = np.concatenate([low, new], axis=1), np.concatenate([new, high], axis=1)

    def sorted_pieces(parts: list[Real]) -> tuple[Real, Real]:
        low, high = np.concatenate(parts, axis=1)
        by = np.argsort(low)
        return low[by], high[by]

    return sorted_pieces(isolated) if errors is None else (*sorted_pieces(isolated), *sorted_pieces(doubtful))


def refine(pair: AxisPair, form: Callable[..., Real3], low: Real, high: Real) -> Real:
    """Return the zero of a function in each piece, by Newton's method that never leaves the piece."""
    low, high = low.copy(), high.copy()
    rises = form(*pair.at(low))[0] <= 0.0
    omega = 0.5 * (low + high)
    active = np.arange(len(omega))
    for _ in range(80):
        if not len(active):
            break
        w = omega[active]
        value, slope, _ = form(*pair.at(w))
        before = (value <= 0.0) == rises[active]
        low[active], high[active] = np.where(before, w, low[active]), np.where(before, high[active], w)
        with np.errstate(all="ignore"):
            new = w - value / slope
        inside = (new >= low[active]) & (new <= high[active])
        omega[active] = np.where(inside, new, 0.5 * (low[active] + high[active]))
        active = active[np.abs(omega[active] - w) > 1e-13 * w]
    return omega


def _phase(f0: Complex, d0: Complex, f1: Complex, d1: Complex) -> Real3:
    """Return Im(F0 conj F1), its derivative and its size."""
    conjugate = np.conj(f1)
    return (f0 * conjugate).imag, (d0 * conjugate + f0 * np.conj(d1)).imag, np.abs(f0) * np.abs(f1)


def _gains(pair: AxisPair, omega: Real, rises: NDArray[np.bool_] | None = None) -> tuple[Real, Real, NDArray[np.int64]]:
    """Return gains > 0, frequencies and changes at zeros of Im(F0 conj F1), after a Newton step on F0 + g F1 = 0.

    Where F0 = -g F1, Re ds/dg is d/dw Im(F0 conj F1) times a negative number. If `rises` says at which zeros that
    function rises, directions are those; otherwise they are computed, and unknown (0) if rounding may decide them.
    """
    f0, d0, f1, d1 = pair.at(omega)
    with np.errstate(all="ignore"):
        gain = -(f0 * np.conj(f1)).real / np.abs(f1) ** 2
        value, along = f0 + gain * f1, d0 + gain * d1
        area = (along * np.conj(f1)).imag
        dw, dg = -(value * np.conj(f1)).imag / area, -(along * np.conj(value)).imag / area
        good = (np.abs(dw) < 1e-9 * omega) & (np.abs(dg) < 1e-9 * np.abs(gain))
        speed = (-1j * f1 / along).real
    gain, omega = np.where(good, gain + dg, gain), np.where(good, omega + dw, omega)
    if isinstance(pair, Pair):
        min_gain = np.full_like(gain, 1e-13 * pair.span)
    else:
        with np.errstate(divide="ignore"):
            min_gain = pair.noises(omega)[0] / np.abs(f1)  # F0 = 0 is not a crossing at a gain > 0
    if rises is None:
        change = np.where(np.abs(speed) * gain / omega > _MIN_SPEED, 2.0 * np.sign(speed), 0.0)
    else:
        change = np.where(rises, -2.0, 2.0)
    keep = np.isfinite(speed) & (gain > min_gain) & ~_due_to_zero(pair, omega, f1, d1)
    return gain[keep], omega[keep], change[keep].astype(int)


def _due_to_zero(pair: AxisPair, omega: Real, f1: Complex, d1: Complex) -> NDArray[np.bool_]:
    """Return whether Im(F0 conj F1) = 0 because F1 has a zero on the axis, at which no gain puts a root.

    If the phase jumps there, the function changes its sign at the zero; if the function only touches 0, rounding puts
    two sign changes next to the zero.
    """
    with np.errstate(all="ignore"):
        step = f1 / d1
        on_axis = np.abs(step.imag) <= _ROUNDING * omega + pair.noises(omega)[1] / np.abs(d1)
    on_axis &= np.isfinite(step) & (np.abs(step.real) <= _NEAR_ZERO * omega)
    between = np.where(on_axis, omega - 0.5 * step.real, omega)
    return np.asarray(on_axis & ((np.abs(step.real) <= _ROUNDING * omega) | ~trusted(pair, between)))


def _at_ends(pair: AxisPair) -> list[Crossing]:
    """Return crossings of a real root: s = 0, and z = -1 for a sampled system."""
    out = []
    for omega in (0.0, pi) if pair.sampled else (0.0,):
        if omega == 0.0 and pair.zeros:
            f0, d0, f1, d1, *zero = map(complex, pair.without_zeros())
        else:
            f0, d0, f1, d1, *zero = (complex(x[0]) for f in (pair.at, pair.noises) for x in f(np.array([omega])))
        if isinstance(pair, Pair):
            zero[0] = 1e-13 * pair.span * abs(f1)
        if abs(f0) <= abs(zero[0]) or abs(f1) <= abs(zero[1]):
            continue
        gain = -(f0 / f1).real
        if gain > 0.0:
            speed = (-1j * f1 / (d0 + gain * d1)).real if d0 + gain * d1 else 0.0
            out.append(Crossing(gain, omega, int(np.sign(speed))))
    return out


def boundary_crossings(pair: AxisPair, top: float, max_gain: float = inf) -> list[Crossing]:
    """Return all (g, w) with F0 + g F1 = 0, g > 0 and 0 <= w <= top, by increasing gain; with pi for sampled systems.

    Crossings with gains above `max_gain` may be missing.

    For a `ProvenPair` the list is complete, with proven errors. It includes pairs that floating point cannot separate,
    and roots that touch the boundary without a crossing, or may do so within the rounding of the coefficients. Their
    change is 0.
    """
    out = _at_ends(pair)
    if top > 0.0:
        if not isinstance(pair, Pair):
            low, high, *doubtful = isolate(pair, _phase, top, pair.errors, pair.clear_to)
            rises = _phase(*pair.at(low))[0] <= 0.0
            gains, omega, change = _gains(pair, refine(pair, _phase, low, high), rises)
            out += pair.doubtful_crossings(*_below(pair, max_gain, *doubtful))
        else:
            low, high = isolate(pair, _phase, top)
            width = high - low  # near 0 and pi, at which the function vanishes, rounding creates zeros
            real = trusted(pair, low - 0.1 * width) & trusted(pair, high + 0.1 * width)
            gains, omega, change = _gains(pair, refine(pair, _phase, low[real], high[real]))
        order = np.lexsort((gains, omega))
        gains, omega, change = gains[order], omega[order], change[order]
        new = np.ones(len(omega), bool)
        new[1:] = np.diff(omega) > 1e-11 * omega[1:]
        rows = zip(gains[new].tolist(), omega[new].tolist(), change[new].tolist(), strict=True)
        out += [Crossing(*row) for row in rows]
    return sorted(out)


def _below(pair: ProvenPair, max_gain: float, low: Real, high: Real) -> tuple[Real, Real]:
    """Return the pieces on which a gain |F0|/|F1| may be at most `max_gain`: zeros of F1 need no precision."""
    if not isinstance(pair, SumPair) or max_gain == inf or not len(low):
        return low, high
    f0, _, f1, _ = pair.at(low)
    noise0, noise1 = pair.noises(high)
    smallest = np.abs(f0) - noise0 - (high - low) * pair.f0.bounds(high)[1]
    largest = np.abs(f1) + noise1 + (high - low) * pair.f1.bounds(high)[1]
    may = smallest <= (1.0 + 1e-6) * max_gain * largest
    return low[may], high[may]


def resolved_crossings(bound: Bounded, low: Real, high: Real) -> list[Crossing]:
    """Return the crossings in pieces that are undecided due to rounding, in balls."""
    from flint import acb, arb

    out: list[Crossing] = []
    for zero in joined_zeros(bound, low, high):
        with bits():
            f0, d0 = bound.f0.ball(zero.frequency)
            f1, d1 = bound.f1.ball(zero.frequency)
            noises = [float(f.noise(np.array([float(zero.frequency)]))[0]) for f in (bound.f0, bound.f1)]
            if not (abs(f0) > noises[0] and abs(f1) > noises[1]):  # F0 = 0 or F1 = 0 is not a crossing at a gain
                continue
            gain = -(f0 * f1.conjugate()).real / (f1 * f1.conjugate()).real
            if not float(gain) > 0.0:
                continue
            along = d0 + gain * d1
            speed: Any = (acb(0, -1) * f1 / along).real if abs(along) > 0 else arb(0)
            known = zero.rises and abs(speed) > 0
            out.append(Crossing(float(gain), float(zero.frequency), (2 if speed > 0 else -2) if known else 0))
    return out


def joined_zeros(bound: Bounded, low: Real, high: Real) -> list[Zero]:
    """Return the zeros in pieces that are undecided due to rounding; adjacent pieces are resolved together."""
    out: list[Zero] = []
    at = 0
    while at < len(low):
        end = at
        while end + 1 < len(low) and low[end + 1] <= high[end]:
            end += 1
        out += resolve(bound, float(low[at]), float(high[end]))
        at = end + 1
    return out
