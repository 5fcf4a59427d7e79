"""Crossings of the stability boundary as a gain grows, and the gain at which stability is first lost.

A family is a function from a gain g > 0 to a system. Where its matrices are affine in g and det P(s; g) is too,
det P = F0(s) + g F1(s), and a root lies on the boundary s = j w at a positive gain only where the real function
Im(F0 conj F1) of w vanishes: its zeros are isolated piece by piece on (0, w_max], where w_max bounds every root of
every member up to the gain searched. Other families are followed by the proven count of unstable roots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import ceil, inf, isfinite, nan, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from ecc.errors import ConvergenceError
from ecc.linear.certificate import certify as prove
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
from ecc.linear.counting import count_right
from ecc.linear.display import Displayed
from ecc.linear.systems import LinearSystem, components, reachable

__all__ = ["Crossing", "Loss", "Pair", "boundary_crossings", "crossings", "first_loss", "isolate", "refine"]

Family = Callable[[float], LinearSystem]

_OVERSAMPLING = 0.5  # rad of the fastest oscillation in a piece of the first mesh
_MOST_NODES = 1 << 18
_TOGETHER = 1e-6  # of the gain: crossings that counts need not tell apart
_SAMPLES = (0.25, 0.5, 1.0)  # of the least of 1 and the maximum: gains at which a family is looked at
_FAR = 2e4  # rad turned within the longest delay: gains whose roots lie beyond are not searched


class Crossing(NamedTuple):
    """A root on the boundary, at this gain and frequency [rad/s or rad/step]; `change` roots turn unstable there.

    `change` is negative where they turn stable, 0 where roots only touch the boundary.
    """

    gain: float
    frequency: float
    change: int


_Found = tuple[int, list[Crossing], float]


@dataclass(frozen=True)
class Loss(Displayed):
    """First loss of stability as the gain grows from 0.

    Fields
        value : gain; 0 if unstable already as the gain tends to 0, inf if stability is not lost.
        frequency : rad/s or rad/step of the root that crosses; nan if value is 0 or inf.
        certified : (lo, hi) around value, proven stable at lo and unstable at hi; None if not asked, or value 0 or inf.
        crossings : every crossing with a gain up to complete_to, by growing gain.
        start : number of unstable roots as the gain tends to 0.
        complete_to : the list of crossings, and a value of inf, hold up to this gain.
    """

    value: float
    frequency: float
    certified: tuple[float, float] | None
    crossings: tuple[Crossing, ...]
    start: int
    complete_to: float

    @property
    def stable_ranges(self) -> tuple[tuple[float, float], ...]:
        """Open intervals of the gain, up to complete_to, in which the system is stable."""
        out, unstable, begin = [], self.start, 0.0
        for crossing in self.crossings:
            after = unstable + crossing.change
            if unstable == 0 and after > 0 and crossing.gain > begin:
                out.append((begin, crossing.gain))
            if after == 0 and unstable > 0:
                begin = crossing.gain
            unstable = after
        return (*out, (begin, self.complete_to)) if unstable == 0 else tuple(out)


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
        pair : what the function is made of.
        form : from F0, F0', F1, F1' to (value, derivative in w, size of its terms).
        top : rad/s or rad/step.
    Returns
        low, high : ends of the pieces, increasing. Two zeros closer than 1e-9 of their frequency are not seen.
    Raises
        ConvergenceError: more pieces than 2^18 are needed, or the function vanishes along an interval.
    Notes: on each piece the function is its cubic Hermite interpolant up to an error estimated from the longest delay;
        a piece is done if the Bezier form shows one sign, or a monotone function. Others are halved.
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


class _Affine:
    """A family whose matrices are `base + g rise`."""

    def __init__(self, base: Terms, rise: Terms) -> None:
        self.base, self.rise = base, rise

    @staticmethod
    def detect(members: Sequence[LinearSystem], gain: float) -> _Affine | None:
        """Read base and rise off the members at `_SAMPLES` of the gain; None if they or determinants are not affine."""
        quarter, half, full = align(*(member._terms() for member in members))
        blocks = []
        for name in ("constant", "slope"):
            q, h, f = (getattr(ch, name) for ch in (quarter, half, full))
            if f is None:
                f = q = h = np.zeros_like(full.constant)
            base, rise = 2.0 * h - f, (f - h) * (2.0 / gain)
            noise = 1e-13 * (np.abs(f) + np.abs(h))
            base[np.abs(base) <= noise / 100.0] = 0.0
            if np.any(np.abs(q - base - 0.25 * gain * rise) > noise):
                return None
            blocks.append((base, rise))
        (b0, b1), (e0, e1) = blocks
        tau = full.delays
        out = _Affine(Terms(b0, tau, e0, tau, full.sampled), Terms(b1, tau, e1, tau, full.sampled))
        if full.size > 1:
            s = (0.13 + 1.7j * np.array([0.05, 0.31, 0.77, 1.0])) * (1.0 if full.sampled else full.unit)
            values = np.stack([determinant(ch.evaluate(s)[0]) for ch in align(*map(out.member, (0.0, gain, 2 * gain)))])
            if np.any(np.abs(values[0] - 2.0 * values[1] + values[2]) > 1e-10 * np.abs(values).sum(axis=0)):
                return None
        return out

    def member(self, gain: float) -> Terms:
        b, r = self.base, self.rise
        return Terms(b.constant + gain * r.constant, b.delays, b.slope + gain * r.slope, b.slope_delays, b.sampled)

    def reach(self, gain: float) -> float:
        """Frequency that no root of a member up to this gain passes on the boundary."""
        b, r = self.base, self.rise
        if b.sampled:
            return pi
        constant, slope = (np.abs(x) + gain * np.abs(y) for x, y in ((b.constant, r.constant), (b.slope, r.slope)))
        return align(Terms(constant, b.delays, slope, b.slope_delays, False))[0].bound(0.0) * (1.0 + 1e-6)

    @property
    def first_span(self) -> float:
        """A gain to start the search at: its members' roots turn about once within the longest delay."""
        b, r = self.base, self.rise
        weight = [float(np.abs(x.constant).sum() + np.abs(x.slope).sum()) for x in (b, r)]
        if weight[1] == 0.0:
            return 1.0
        gain = (weight[0] + float(b.sampled)) / weight[1] or 1.0
        if b.sampled:
            return gain
        band = Pair(b, r, 1.0).band
        if band == 0.0:
            return 1e3 * gain
        goal = max(10.0 / band, 1.5 * self.reach(0.0))
        while self.reach(gain) > goal:
            gain *= 0.5
        while self.reach(gain) < goal and gain < 1e300:
            gain *= 2.0
        return gain

    def up_to(self, gain: float) -> list[Crossing]:
        """Every crossing with a gain up to this one; all of them for sampled systems."""
        pair = Pair(self.base, self.member(gain), gain)
        top = self.reach(gain)
        if not isfinite(top):
            raise ConvergenceError(f"the neutral part bounds no root at gain {gain!r}", None)
        out = boundary_crossings(pair, top)
        return [c for c in out if pair.sampled or c.gain <= gain]


def _unstable(family: Family, gain: float) -> int:
    """Number of unstable roots of a member, at least; roots on the boundary itself count as one."""
    system = family(gain)
    total = 0
    for part, many in system._blocks:
        number = count_right(part._characteristic, 0.0).number
        if number is None:
            proof = prove(part)
            number = 0 if proof.stable else max(1, proof.at_least)
        total += many * number
    return total


def _middle(a: float, b: float) -> float:
    return 0.5 * b if a == 0.0 else float(np.sqrt(a) * np.sqrt(b))


def _recount(family: Family, found: list[Crossing], end: float) -> tuple[int, list[Crossing]]:
    """Changes of the count over every gap between crossings, where the directions of the roots did not tell."""
    gains = sorted({c.gain for c in found})
    counts = [_unstable(family, _middle(a, b)) for a, b in zip([0.0, *gains], [*gains, end], strict=True)]
    jump = {g: b - a for g, a, b in zip(gains, counts, counts[1:], strict=False)}
    out = []
    for c in found:
        out.append(c._replace(change=jump.pop(c.gain, 0)))
    return counts[0], out


def _lost_at(start: int, found: list[Crossing]) -> int | None:
    """Index of the first crossing after which roots are unstable."""
    unstable = start
    for i, crossing in enumerate(found):
        unstable += crossing.change
        if unstable > 0:
            return i
    return None


def _follow(family: Family, affine: _Affine, maximum: float) -> _Found:
    """Unstable roots as the gain tends to 0, crossings, and the gain up to which they are complete."""
    span = min(affine.first_span, maximum)
    if not np.any(affine.rise.constant) and not np.any(affine.rise.slope):
        return _unstable(family, span), [], maximum
    start, found, complete, too_far = 0, list[Crossing](), 0.0, inf
    while True:
        try:
            more = affine.up_to(span)
        except ConvergenceError:  # the axis is too long to search at this gain: look nearer
            too_far = span
            span *= 0.25
            if complete > 0.0:
                return start, found, complete
            if span < 1e-9 * affine.first_span:  # on the boundary for every gain
                start = _unstable(family, span)
                if start == 0:
                    raise
                return start, [], 0.0
            continue
        found = more
        complete = inf if affine.base.sampled else span
        start = _unstable(family, 0.5 * (found[0].gain if found else span))
        if start > 0:
            return start, found, complete
        at = _lost_at(start, found)
        if at is not None:
            gain = found[at].gain
            after = next((c.gain for c in found[at:] if c.gain > gain * (1.0 + 1e-9)), min(2.0 * gain, complete))
            if _unstable(family, _middle(gain, after)) == sum(c.change for c in found if c.gain < after):
                return start, found, complete
        if found and (at is not None or any(c.change == 0 for c in found)):
            start, found = _recount(family, found, min(complete, 2.0 * found[-1].gain))
            if start > 0 or _lost_at(start, found) is not None:
                return start, found, complete
        if complete >= maximum or affine.reach(4.0 * span) * Pair(affine.base, affine.rise, 1.0).band > _FAR:
            return start, found, complete
        span = min(span * (4.0 if Pair(affine.base, affine.rise, 1.0).band > 0.0 else 1e3), maximum)
        if span > 1e18 or span >= too_far:
            return start, found, complete


def _checked(system: LinearSystem) -> LinearSystem:
    if not isinstance(system, LinearSystem):
        raise TypeError(f"the family must return a DelaySystem or SampledSystem, got {type(system).__name__}")
    return system


class _Recoupled(Exception):
    """A member whose states act on each other in other ways than those that the family was split by."""


def _search(family: Family, members: Sequence[LinearSystem], maximum: float) -> _Found:
    """Unstable roots as the gain tends to 0, crossings, and the gain up to which they are complete."""
    affine = _Affine.detect(members, min(1.0, maximum))
    if affine is not None:
        return _follow(family, affine, maximum)
    low, high = (maximum * 1e-6, maximum) if isfinite(maximum) else (1e-6, 1e6)
    return _Scan(family, low, high).follow()


def _search_blocks(family: Family, maximum: float) -> _Found:
    """The same for a family whose determinant is a product: over all groups of states that act on each other."""
    members = [_checked(family(min(1.0, maximum) * share)) for share in _SAMPLES]
    reach = reachable(np.any([member._pattern for member in members], axis=0))
    groups = components(reach)
    if len(groups) == 1:
        return _search(family, members, maximum)

    def part(gain: float, states: NDArray[np.int64]) -> LinearSystem:
        system = remembered(gain)
        if np.any(system._pattern & ~reach):
            raise _Recoupled
        return system._part(states)

    remembered = lru_cache(maxsize=256)(family)
    start, complete, found = 0, inf, list[Crossing]()
    try:
        for states in groups:
            own = [member._part(states) for member in members]
            begin, more, until = _search(partial(part, states=states), own, maximum)
            start, complete, found = start + begin, min(complete, until), found + more
    except _Recoupled:
        return _search(family, members, maximum)
    return start, _joined([c for c in found if c.gain <= complete]), complete


def _joined(found: list[Crossing]) -> list[Crossing]:
    """By growing gain; those of several groups at one gain and frequency as one."""
    out: list[Crossing] = []
    for c in sorted(found):
        for i in range(len(out) - 1, -1, -1):
            if c.gain - out[i].gain > 1e-12 * c.gain:
                out.append(c)
                break
            if abs(c.frequency - out[i].frequency) <= 1e-9 * c.frequency:
                out[i] = out[i]._replace(change=out[i].change + c.change)
                break
        else:
            out.append(c)
    return out


class _Scan:
    """Families that are not affine: the count of unstable roots on a grid of gains, bisection, Newton in (g, w)."""

    def __init__(self, family: Family, low: float, high: float) -> None:
        self.family, self.low, self.high = family, low, high
        self.known: dict[float, int] = {}

    def count(self, gain: float) -> int:
        if gain not in self.known:
            self.known[gain] = _unstable(self.family, gain)
        return self.known[gain]

    def measure(self, gain: float) -> tuple[float, complex]:
        """Real part (or log |z|) of the dominant root, and the root as s."""
        system = self.family(gain)
        roots = system.roots(1)
        s = complex(roots[0]) if len(roots) else complex(-inf, 0.0)
        if system._characteristic.sampled and len(roots):
            s = complex(np.log(s))
        return s.real, complex(s.real, abs(s.imag))

    def follow(self) -> _Found:
        steps = max(2, ceil(2.0 * np.log2(self.high / self.low)))
        grid: list[float] = []
        found: list[Crossing] = []
        for gain in np.geomspace(self.low, self.high, steps + 1).tolist():
            try:
                self.count(gain)
            except ValueError:  # the end of what the family allows
                if not grid:
                    raise
                break
            grid.append(gain)
            if len(grid) > 4 and self.known[grid[-5]] > 0:
                break
        lost = next((i for i, g in enumerate(grid) if self.known[g] > 0), len(grid))
        grid = sorted([*grid, *self._hidden(grid[:lost])])
        for a, b in zip(grid, grid[1:], strict=False):
            found += self._between(a, b)
        return self.count(grid[0]), found, grid[-1]

    def _hidden(self, stable: list[float]) -> list[float]:
        """Unstable gains between stable ones: where the dominant root comes closest to the boundary."""
        values = [self.measure(g)[0] for g in stable]
        out = []
        for i in range(1, len(stable) - 1):
            if values[i] >= max(values[i - 1], values[i + 1]) > min(values[i - 1 : i + 2]):
                ends = np.log(stable[i - 1]), np.log(stable[i + 1])
                best = minimize_scalar(
                    lambda x: -self.measure(float(np.exp(x)))[0], bounds=ends, method="bounded", options={"maxiter": 20}
                )
                gain = float(np.exp(best.x))
                if self.count(gain) > 0:
                    out.append(gain)
        return out

    def _between(self, low: float, high: float) -> list[Crossing]:
        """Crossings in a gap, each change of the count narrowed down to one crossing."""
        change = self.count(high) - self.count(low)
        if change == 0:
            return []
        if high - low > 1e-3 * high or (abs(change) > 2 and high - low > _TOGETHER * high):
            middle = float(np.sqrt(low * high))
            return self._between(low, middle) + self._between(middle, high)
        return [Crossing(*self._polish(low, high), change)]

    def _polish(self, low: float, high: float) -> tuple[float, float]:
        """The gain and frequency at which the root that lies nearest to the boundary crosses it."""
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.count(middle) == self.count(low) else (low, middle)
        k = max(self.count(low), self.count(high))
        system = self.family(0.5 * (low + high))
        s = system.roots(k)
        if system._characteristic.sampled:
            s = np.log(s)
        nearest = complex(s[np.argmin(np.abs(s.real))])
        omega = abs(nearest.imag)

        def value(gain: float, w: float) -> complex:
            return complex(self.family(gain)._characteristic.determinant(np.array([1j * w]))[0])

        if abs(self.count(high) - self.count(low)) > 2:  # several roots at once
            return self._halved(low, high), omega
        if omega in (0.0, pi) and (omega == 0.0 or system._characteristic.sampled):
            if np.sign(value(low, omega).real) != np.sign(value(high, omega).real):
                return float(brentq(lambda g: value(g, omega).real, low, high, xtol=1e-14 * high, rtol=1e-14)), omega
            return self._halved(low, high), omega
        gain = 0.5 * (low + high)
        for _ in range(20):
            h = 1e-6
            here = value(gain, omega)
            along = (value(gain, omega * (1 + h)) - value(gain, omega * (1 - h))) / (2 * h * omega)
            rise = (value(gain * (1 + h), omega) - value(gain * (1 - h), omega)) / (2 * h * gain)
            area = (along * rise.conjugate()).imag
            if area == 0.0:
                break
            dw, dg = -(here * rise.conjugate()).imag / area, -(along * here.conjugate()).imag / area
            gain, omega = gain + dg, omega + dw
            if abs(dg) <= 1e-14 * gain and abs(dw) <= 1e-14 * omega:
                break
        if not low * (1.0 - 1e-9) <= gain <= high * (1.0 + 1e-9):
            return self._halved(low, high), abs(nearest.imag)
        return gain, omega

    def _halved(self, low: float, high: float) -> float:
        """The gain of several roots that cross together: by counts alone."""
        before = self.count(low)
        while high - low > _TOGETHER * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.count(middle) == before else (low, middle)
        return 0.5 * (low + high)


def first_loss(family: Family, *, maximum: float = inf, certify: bool = False) -> Loss:
    """Return the gain at which a family of systems first loses stability as the gain grows from 0.

    Parameters
        family : function from a gain > 0 to a DelaySystem or SampledSystem.
        maximum : float > 0. Gains above it are not asked for and not reported.
        certify : bool. Prove stability just below and instability just above the value, in balls.
    Returns
        Loss.
    Raises
        ValueError: maximum is not > 0.   TypeError: the family returns something else.
        ConvergenceError: a crossing that cannot be isolated or, if asked for, proven.
    Notes: families affine in the gain are solved along the frequency axis, the gain to about 1e-14 (states that do not
        act back on others apart from these); others, to 1e-6 where several roots cross at once, are followed
        over gains from 1e-6 to 1e6 (or from maximum/10^6 up to the maximum), half an octave apart, until two octaves
        beyond the first loss or until the family refuses a gain with ValueError; complete_to says how far.
    Example:
        >>> first_loss(lambda k: DelaySystem([-k], [1.0])).value / (pi / 2)
        1.0
    """
    if not maximum > 0.0:
        raise ValueError(f"maximum must be > 0, got {maximum!r}")
    start, found, complete = _search_blocks(family, maximum)
    found, complete = [c for c in found if c.gain <= maximum], min(complete, maximum)
    at = 0 if start > 0 else _lost_at(start, found)
    value, frequency, proven = inf, nan, None
    if start > 0:
        value = 0.0
    elif at is not None:
        value, frequency = found[at].gain, found[at].frequency
        proven = _bracket(family, value) if certify else None
    return Loss(value, frequency, proven, tuple(found), start, complete)


def crossings(family: Family, *, maximum: float = inf) -> tuple[Crossing, ...]:
    """Return the crossings of the stability boundary by growing gain; `first_loss` says up to which gain all of them.

    Parameters
        family : function from a gain > 0 to a DelaySystem or SampledSystem.
        maximum : float > 0. Gains above it are not asked for and not reported.
    Returns
        tuple of Crossing. Empty if no root reaches the boundary.
    Raises
        ValueError: maximum is not > 0.   TypeError: the family returns something else.
        ConvergenceError: a crossing that cannot be isolated.
    Example:
        >>> [round(c.frequency, 3) for c in crossings(lambda k: DelaySystem([-k], [1.0]), maximum=10.0)]
        [1.571, 7.854]
    """
    return first_loss(family, maximum=maximum).crossings


def _bracket(family: Family, value: float) -> tuple[float, float]:
    low, high = value * (1.0 - 4.5e-10), value * (1.0 + 4.5e-10)
    below, above = prove(family(low)), prove(family(high))
    if below.stable is not True or above.stable is not False:
        verdicts = f"stable below: {below.stable}, above: {above.stable}"
        raise ConvergenceError(f"no proof around gain {value!r} ({verdicts})", (low, high))
    return low, high
