"""Where det P = F0(s) + g F1(s) of a pair of systems vanishes on the stability boundary s = j w.

At a real gain g the function Im(F0 conj F1) of w is zero there. Its zeros, and those of other real functions of the two
determinants, are isolated piece by piece and refined by Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import ceil, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.errors import ConvergenceError
from ecc.linear.characteristic import (
    Complex,
    Real,
    Terms,
    adjugate,
    align,
    determinant,
    evaluate_all,
    evaluate_grid,
    longest_sum,
)

__all__ = ["Crossing", "Pair", "Real3", "boundary_crossings", "isolate", "refine"]

_OVERSAMPLING = 0.5  # rad of the fastest oscillation in a piece of the first mesh
_MOST_NODES = 1 << 18


class Crossing(NamedTuple):
    """A root on the boundary, at this gain and frequency [rad/s or rad/step]; `change` roots turn unstable there.

    `change` is negative where they turn stable, 0 where roots only touch the boundary.
    """

    gain: float
    frequency: float
    change: int


class Pair:
    """det P of two systems on the axis: F0 of `low`, F1 = (weight * det of `high` - F0)/span, with derivatives in w."""

    def __init__(self, low: Terms, high: Terms, span: float, weight: float = 1.0) -> None:
        self.low, self.high = align(low, high)
        self.span, self.weight = span, weight
        self.sampled = low.sampled

    @cached_property
    def band(self) -> float:
        """Longest delay of the two determinants."""
        return longest_sum(self.low, self.high)

    def _functions(self, low: tuple[Complex, Complex], high: tuple[Complex, Complex]) -> tuple[Complex, ...]:
        out = []
        for value, slope in (low, high):
            out += [determinant(value), 1j * np.einsum("pij,pji->p", adjugate(value), slope)]
        f0, d0, f1, d1 = out
        return f0, d0, (self.weight * f1 - f0) / self.span, (self.weight * d1 - d0) / self.span

    def at(self, omega: Real) -> tuple[Complex, ...]:
        """F0, F0', F1, F1' at frequencies; ' is d/dw."""
        return self._functions(*evaluate_all([self.low, self.high], 1j * omega))

    def on_grid(self, start: float, step: float, count: int) -> tuple[Complex, ...]:
        """The same on a uniform grid, faster."""
        return self._functions(*evaluate_grid([self.low, self.high], 0.0, start, step, count))

    def trusted(self, omega: Real) -> NDArray[np.bool_]:
        """Whether Im(F0 conj F1) is larger than the rounding errors of both determinants."""
        s = 1j * omega
        size, error = [], []
        both = [self.low, self.high]
        values = evaluate_all(both, s)
        for ch, (value, _) in zip(both, values, strict=True):
            size.append(determinant(value))
            error.append(np.einsum("pij,pji->p", np.abs(adjugate(value)), ch.rounding(0.0, s)[0]))
        f0, f1 = size[0], self.weight * size[1] - size[0]
        noise = error[0] * np.abs(f1) + (self.weight * error[1] + error[0]) * np.abs(f0)
        return np.asarray(np.abs((f0 * np.conj(f1)).imag) > noise)


Real3 = tuple[Real, Real, Real]


def isolate(pair: Pair, form: Callable[..., Real3], top: float) -> tuple[Real, Real]:
    """Pieces of (0, top) with one zero each of a real function of the frequency, zeros at 0 and pi left out.

    Parameters
    ----------
    pair : Pair
        What the function is made of.
    form : callable
        From F0, F0', F1, F1' to (value, derivative in w, size of its terms).
    top : float
        rad/s or rad/step.

    Returns
    -------
    low, high : ndarray
        Ends of the pieces, increasing. Two zeros closer than 1e-9 of their frequency are not seen.

    Raises
    ------
    ConvergenceError
        More pieces than 2^18 are needed, or the function vanishes along an interval.

    Notes
    -----
    On each piece the function is its cubic Hermite interpolant up to an error estimated from the longest delay; a piece
    is done if the Bezier form shows one sign, or a monotone function. Others are halved.
    """
    band, order = pair.band, pair.low.size
    pieces = ceil(band * top / _OVERSAMPLING) + 16
    if pieces > _MOST_NODES:
        raise ConvergenceError(f"{pieces} pieces are needed up to {top!r}: too many", None)
    step = top / pieces
    ends = step * 2.0 ** -np.arange(1.0, 31.0, 0.5 if band == 0.0 else 1.0)
    extra = np.concatenate([ends, top - ends]) if pair.sampled else ends
    uniform = step * np.arange(1, pieces + (0 if pair.sampled else 1))
    parts = [pair.on_grid(step, step, len(uniform)), pair.at(extra)]
    omega = np.concatenate([uniform, extra])
    by = np.argsort(omega)
    omega = omega[by]
    value, slope, size = (x[by] for x in form(*(np.concatenate(x) for x in zip(*parts, strict=True))))
    if np.all(np.abs(value) <= 1e-12 * size):
        raise ConvergenceError("the roots lie on the boundary for every gain", None)
    low = np.stack([omega[:-1], value[:-1], slope[:-1], size[:-1]])
    high = np.stack([omega[1:], value[1:], slope[1:], size[1:]])
    found: list[Real] = []
    for depth in range(60):
        h = high[0] - low[0]
        rate = band + 2.0 * order / high[0]
        error = (h * rate) ** 4 / 256.0 * np.maximum(low[3], high[3])
        bezier = np.stack([low[1], low[1] + h / 3.0 * low[2], high[1] - h / 3.0 * high[2], high[1]])
        apart = (bezier.min(axis=0) > error) | (bezier.max(axis=0) < -error)
        rise = np.diff(bezier, axis=0)
        monotone = (rise.min(axis=0) > 1.1 * error) | (rise.max(axis=0) < -1.1 * error)
        crosses = (low[1] <= 0.0) != (high[1] <= 0.0)
        tiny = h <= 1e-9 * high[0]
        found.append(np.stack([low[0], high[0]])[:, (monotone | tiny) & crosses & ~apart])
        fails = ~(apart | monotone | tiny)
        if not fails.any():
            break
        if fails.sum() > _MOST_NODES or depth == 59:
            raise ConvergenceError("the crossing condition holds along an interval", low[0][fails])
        low, high = low[:, fails], high[:, fails]
        middle = 0.5 * (low[0] + high[0])
        new = np.stack([middle, *form(*pair.at(middle))])
        low, high = np.concatenate([low, new], axis=1), np.concatenate([new, high], axis=1)
    low, high = np.concatenate(found, axis=1)
    by = np.argsort(low)
    return low[by], high[by]


def refine(pair: Pair, form: Callable[..., Real3], low: Real, high: Real) -> Real:
    """The zero of a function in each piece, by Newton's method that never leaves the piece."""
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
    """Im(F0 conj F1)."""
    turned = np.conj(f1)
    return (f0 * turned).imag, (d0 * turned + f0 * np.conj(d1)).imag, np.abs(f0) * np.abs(f1)


def _gains(pair: Pair, omega: Real) -> tuple[Real, Real, Real]:
    """Gains > 0, frequencies and d Re s/dg at zeros of Im(F0 conj F1), after a Newton step on F0 + g F1 = 0."""
    f0, d0, f1, d1 = pair.at(omega)
    with np.errstate(all="ignore"):
        gain = -(f0 * np.conj(f1)).real / np.abs(f1) ** 2
        value, along = f0 + gain * f1, d0 + gain * d1
        area = (along * np.conj(f1)).imag
        dw, dg = -(value * np.conj(f1)).imag / area, -(along * np.conj(value)).imag / area
        good = (np.abs(dw) < 1e-9 * omega) & (np.abs(dg) < 1e-9 * np.abs(gain))
        speed = (-1j * f1 / along).real
    gain, omega = np.where(good, gain + dg, gain), np.where(good, omega + dw, omega)
    keep = np.isfinite(speed) & (gain > 1e-13 * pair.span)  # F0 = 0 is a crossing at no gain
    return gain[keep], omega[keep], speed[keep]


def _at_ends(pair: Pair) -> list[Crossing]:
    """Crossings of a real root: s = 0, and z = -1 of a sampled system."""
    out = []
    for omega in (0.0, pi) if pair.sampled else (0.0,):
        f0, d0, f1, d1 = (complex(x[0]) for x in pair.at(np.array([omega])))
        if abs(f1) <= 1e-14 * abs(f0) / pair.span or abs(f0) <= 1e-13 * pair.span * abs(f1):
            continue
        gain = -(f0 / f1).real
        if gain > 0.0:
            speed = (-1j * f1 / (d0 + gain * d1)).real if d0 + gain * d1 else 0.0
            out.append(Crossing(gain, omega, int(np.sign(speed))))
    return out


def boundary_crossings(pair: Pair, top: float) -> list[Crossing]:
    """All (g, w) with F0 + g F1 = 0, g > 0 and 0 <= w <= top, by growing gain; pi is included for sampled systems."""
    out = _at_ends(pair)
    if top > 0.0:
        low, high = isolate(pair, _phase, top)
        width = high - low  # next to 0 and pi, where the function vanishes, rounding makes zeros too
        real = pair.trusted(low - 0.1 * width) & pair.trusted(high + 0.1 * width)
        gains, omega, speed = _gains(pair, refine(pair, _phase, low[real], high[real]))
        order = np.lexsort((gains, omega))
        gains, omega, speed = gains[order], omega[order], speed[order]
        new = np.ones(len(omega), bool)
        new[1:] = np.diff(omega) > 1e-11 * omega[1:]
        size = np.abs(speed) * gains / omega
        change = np.where(size > 1e-7, 2 * np.sign(speed), 0).astype(int)
        rows = zip(gains[new].tolist(), omega[new].tolist(), change[new].tolist(), strict=True)
        out += [Crossing(*row) for row in rows]
    return sorted(out)
