"""Crossings of the stability boundary as a gain grows, and the gain at which stability is first lost.

A family is a function from a gain g > 0 to a system. Where its matrices are affine in g and det P(s; g) is too,
det P = F0(s) + g F1(s), and a root lies on the boundary s = j w at a positive gain only where the real function
Im(F0 conj F1) of w vanishes: its zeros are isolated piece by piece on (0, w_max], where w_max bounds every root of
every member up to the gain searched. Other families are followed by the proven count of unstable roots.

A family is a black box: that it is affine is read off a few members, compared with many more over the whole range, and
what comes out is held against the proven count of the family's own members. What disagrees is counted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, inf, isfinite, nan, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from ecc.errors import ConvergenceError, LinearizationError
from ecc.linear.certificate import certify as prove
from ecc.linear.certificate import certify_block
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
    longest_sum,
)
from ecc.linear.counting import count_right
from ecc.linear.display import Displayed
from ecc.linear.systems import LinearSystem, components, reachable

__all__ = ["Crossing", "Loss", "Pair", "boundary_crossings", "crossings", "first_loss", "isolate", "refine"]

Family = Callable[[float], LinearSystem]

_OVERSAMPLING = 0.5  # rad of the fastest oscillation in a piece of the first mesh
_MOST_NODES = 1 << 18
_TOGETHER = 1e-12  # of the gain: crossings that counts need not tell apart
_BESIDE = 1e-6  # of a gain: how far beside it a member is counted
_SAMPLES = (0.25, 0.5, 1.0)  # of a gain: members that an affine form is read off
_RANGE = 1e6  # gains from 1/_RANGE to _RANGE are looked at, if the maximum does not say otherwise
_BEYOND = 4.0  # times the gain at which stability is lost: how far families are followed by counts
_MANY = 8  # roots that turn unstable together with the first, before families that are counted are left
_INSIDE = 16  # gains looked at inside a range that is said to be stable
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
        complete_to : the list of crossings, and a value of inf, hold up to this gain; finite always, as no family can
            be looked at beyond all gains.
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
        return _stable_ranges(self.start, self.crossings, self.complete_to)


def _stable_ranges(start: int, found: Sequence[Crossing], end: float) -> tuple[tuple[float, float], ...]:
    out, unstable, begin = [], start, 0.0
    for crossing in found:
        after = unstable + crossing.change
        if unstable == 0 and after > 0 and crossing.gain > begin:
            out.append((begin, crossing.gain))
        if after == 0 and unstable > 0:
            begin = crossing.gain
        unstable = after
    return (*out, (begin, end)) if unstable == 0 and end > begin else tuple(out)


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
    """A family whose matrices are `base + g rise`, as far as `gain` and its fractions tell; entries are off by `noise`
    at most there."""

    def __init__(self, base: Terms, rise: Terms, noise: tuple[Real, Real], gain: float) -> None:
        self.base, self.rise, self.noise, self.gain = base, rise, noise, gain

    @staticmethod
    def detect(members: Sequence[Terms], gain: float) -> _Affine | None:
        """Read base and rise off the members at `_SAMPLES` of the gain; None if they or determinants are not affine."""
        first = members[0]
        every = np.unique(np.concatenate([tau for m in members for tau in (m.delays, m.slope_delays)]))
        parts = []
        for which in (0, 2):
            tables = np.zeros((len(members), len(every), *first.constant.shape[1:]))
            for table, m in zip(tables, members, strict=True):
                np.add.at(table, np.searchsorted(every, m[which + 1]), m[which])
            quarter, half, full = tables
            base, rise = 2.0 * half - full, (full - half) * (2.0 / gain)
            noise = 1e-13 * (np.abs(full) + np.abs(half))
            base[np.abs(base) <= noise / 100.0] = 0.0
            if np.any(np.abs(quarter - base - 0.25 * gain * rise) > noise):
                return None
            parts.append((base, rise, noise))
        (b0, b1, e0), (s0, s1, e1) = parts
        make = partial(Terms, delays=every, slope_delays=every, sampled=first.sampled)
        out = _Affine(make(constant=b0, slope=s0), make(constant=b1, slope=s1), (e0, e1), gain)
        if first.constant.shape[1] > 1:
            three = align(*map(out.member, (0.0, gain, 2 * gain)))
            s = (0.13 + 1.7j * np.array([0.05, 0.31, 0.77, 1.0])) * (1.0 if first.sampled else three[1].unit)
            values = np.stack([determinant(ch.evaluate(s)[0]) for ch in three])
            if np.any(np.abs(values[0] - 2.0 * values[1] + values[2]) > 1e-10 * np.abs(values).sum(axis=0)):
                return None
        return out

    def agrees(self, member: Terms, gain: float) -> bool:
        """Whether a member of the family is what its affine form says."""
        model = self.member(gain)
        pairs = (model.constant, member.constant, member.delays), (model.slope, member.slope, member.slope_delays)
        for (said, matrices, delays), noise in zip(pairs, self.noise, strict=True):
            if np.array_equal(delays, model.delays):
                off = said - matrices
            else:
                known = np.isin(delays, model.delays)
                if np.any(matrices[~known]):
                    return False
                off = said.copy()
                np.subtract.at(off, np.searchsorted(model.delays, delays[known]), matrices[known])
            if np.any(np.abs(off) > (1.0 + gain / self.gain) * noise):
                return False
        return True

    def count(self, gain: float) -> int:
        """Unstable roots of the member that the form says."""
        return _unstable(align(self.member(gain))[0])

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
        both = align(b, r)
        weight = [float(np.abs(x.constant).sum() + (0.0 if x.slope is None else np.abs(x.slope).sum())) for x in both]
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


def _unstable(ch: Characteristic) -> int:
    """Number of unstable roots, at least; roots on the boundary itself count as one."""
    number = count_right(ch, 0.0).number
    if number is None:
        proof = certify_block(ch)
        number = 0 if proof.stable else max(1, proof.at_least)
    return number


def _unstable_of(system: LinearSystem) -> int:
    return sum(many * _unstable(part._characteristic) for part, many in system._blocks)


def _middle(a: float, b: float) -> float:
    return 0.5 * b if a == 0.0 else float(np.sqrt(a) * np.sqrt(b))


def _recount(affine: _Affine, found: list[Crossing], end: float) -> tuple[int, list[Crossing]]:
    """Changes of the count over every gap between crossings, where the directions of the roots did not tell."""
    gains = sorted({c.gain for c in found})
    counts = [affine.count(_middle(a, b)) for a, b in zip([0.0, *gains], [*gains, end], strict=True)]
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


def _follow(affine: _Affine, maximum: float) -> _Found:
    """Unstable roots as the gain tends to 0, crossings, and the gain up to which they are complete."""
    span = min(affine.first_span, maximum)
    if not np.any(affine.rise.constant) and not np.any(affine.rise.slope):
        return affine.count(span), [], maximum
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
                start = affine.count(span)
                if start == 0:
                    raise
                return start, [], 0.0
            continue
        found = more
        complete = inf if affine.base.sampled else span
        start = affine.count(0.5 * (found[0].gain if found else span))
        if start > 0:
            return start, found, complete
        at = _lost_at(start, found)
        if at is not None:
            gain = found[at].gain
            after = next((c.gain for c in found[at:] if c.gain > gain * (1.0 + 1e-9)), min(2.0 * gain, complete))
            if affine.count(_middle(gain, after)) == sum(c.change for c in found if c.gain < after):
                return start, found, complete
        if found and (at is not None or any(c.change == 0 for c in found)):
            start, found = _recount(affine, found, min(complete, 2.0 * found[-1].gain))
            if start > 0 or _lost_at(start, found) is not None:
                return start, found, complete
        if complete >= maximum or affine.reach(4.0 * span) * Pair(affine.base, affine.rise, 1.0).band > _FAR:
            return start, found, complete
        span = min(span * (4.0 if Pair(affine.base, affine.rise, 1.0).band > 0.0 else 1e3), maximum)
        if span > 1e18 or span >= too_far:
            return start, found, complete


_REFUSED = (ValueError, LinearizationError)
"""What a family raises at a gain that it does not take."""


def _checked(system: LinearSystem) -> LinearSystem:
    if not isinstance(system, LinearSystem):
        raise TypeError(f"the family must return a DelaySystem or SampledSystem, got {type(system).__name__}")
    return system


def _first_members(family: Family, maximum: float) -> tuple[float, list[LinearSystem]]:
    """A gain and the members at `_SAMPLES` of it: 1 or the maximum, less if the family does not take them."""
    top = gain = min(1.0, maximum)
    while True:
        try:
            return gain, [_checked(family(gain * share)) for share in _SAMPLES]
        except _REFUSED:
            gain *= 0.25
            if gain < top / _RANGE:
                raise


def _last_taken(family: Family, taken: float, refused: float) -> float:
    """The largest gain, to 1e-9, at which the family still has a member."""
    while refused - taken > 1e-9 * refused:
        middle = 0.5 * (taken + refused)
        try:
            family(middle)
            taken = middle
        except _REFUSED:
            refused = middle
    return taken


class _Recoupled(Exception):
    """A member whose states act on each other in other ways than those that the family was split by."""


class _Group:
    """States of a family that act on each other, and what an affine form says of them, if they have one."""

    def __init__(self, states: NDArray[np.int64], members: Sequence[LinearSystem], gain: float, maximum: float) -> None:
        self.states, self.gain = states, gain
        self.claim: _Found | None = None
        terms = [self.terms(member) for member in members]
        self.first, self.affine = terms[-1], _Affine.detect(terms, gain)
        if self.affine is not None:
            self.claim = _follow(self.affine, maximum)

    def terms(self, member: LinearSystem) -> Terms:
        whole, rows = member._terms(), self.states[:, None]
        return whole._replace(constant=whole.constant[:, rows, self.states], slope=whole.slope[:, rows, self.states])

    def again(self, family: Family, maximum: float) -> None:
        """Read the form off members nearer to the boundary that it shows: what is small against 1 is exact there."""
        if self.claim is None or self.claim[0] > 0:
            return
        at = _lost_at(0, self.claim[1])
        if at is None or 0.1 < self.claim[1][at].gain < 10.0:
            return
        gain = self.claim[1][at].gain
        try:
            affine = _Affine.detect([self.terms(family(gain * share)) for share in _SAMPLES], gain)
        except (*_REFUSED, IndexError):  # too far, or with other states: the comparison of members will tell
            return
        if affine is not None and affine.agrees(self.first, self.gain):
            self.affine, self.claim = affine, _follow(affine, maximum)


def _search(family: Family, maximum: float) -> _Found:
    """Unstable roots as the gain tends to 0, crossings, and the gain up to which they are complete."""
    gain, members = _first_members(family, maximum)
    if len({member.size for member in members}) > 1:
        return _Scan(family, _mesh((0, [], inf), maximum)).follow()
    reach = reachable(np.any([member._pattern for member in members], axis=0))
    groups = [_Group(states, members, gain, maximum) for states in components(reach)]
    for group in groups:
        group.again(family, maximum)
    claim = _together([group.claim for group in groups if group.claim is not None])
    gains = _mesh(claim, maximum)
    end, same = _agreement(family, reach, groups, gains)
    try:
        for group in groups:
            if group.claim is None:
                part = partial(_part, family, reach, group.states)
                claim = _together([claim, _Scan(part, [g for g in gains if g <= end]).follow()])
    except _Recoupled:
        return _Scan(family, gains).follow()
    start, found, complete = claim[0], [c for c in claim[1] if c.gain <= end], min(claim[2], end)
    if end == 0.0 or _contradicted(family, (start, found, complete), gains[0]):
        return _Scan(family, gains).follow()
    if same or start > 0 or _lost_at(start, found) is not None:
        return start, found, complete
    _, more, complete = _Scan(family, [g for g in gains if g >= end]).follow()
    return start, found + more, complete


def _part(family: Family, reach: NDArray[np.bool_], states: NDArray[np.int64], gain: float) -> LinearSystem:
    system = family(gain)
    if system.size != len(reach) or np.any(system._pattern & ~reach):
        raise _Recoupled
    return system._part(states)


def _together(claims: Sequence[_Found]) -> _Found:
    """What is known of several groups as one."""
    complete = min((claim[2] for claim in claims), default=inf)
    found = _joined([c for claim in claims for c in claim[1] if c.gain <= complete])
    return sum(claim[0] for claim in claims), found, complete


def _mesh(claim: _Found, maximum: float) -> list[float]:
    """Gains at which a family is looked at: half an octave apart, and closer where it is said to be stable."""
    start, found, complete = claim
    edges = [gain for both in _stable_ranges(start, found, inf) for gain in both if 0.0 < gain < inf]
    high = min(complete, maximum) or min(1.0, maximum)
    if not isfinite(high):
        high = max([_RANGE, *(4.0 * gain for gain in edges)])
    low = min([1.0, high, *edges]) / _RANGE
    gains = set(np.geomspace(low, high, 2 + ceil(2.0 * np.log2(high / low))).tolist()) | {high}
    for a, b in _stable_ranges(start, found, high):
        gains |= {gain for gain in np.linspace(a, b, _INSIDE + 2)[1:-1].tolist() if gain <= high}
    return sorted(gains)


def _agreement(
    family: Family, reach: NDArray[np.bool_], groups: Sequence[_Group], gains: Sequence[float]
) -> tuple[float, bool]:
    """The gain up to which members have the forms read off, and whether that is all that the family takes."""
    affine = [group for group in groups if group.affine is not None]
    if not affine:
        return gains[-1], True
    end = 0.0
    for gain in gains:
        try:
            system = _checked(family(gain))
        except _REFUSED:
            if end == 0.0:
                continue
            return _last_taken(family, end, gain), True
        if system.size != len(reach) or np.any(system._pattern & ~reach):
            return end, False
        if not all(group.affine is None or group.affine.agrees(group.terms(system), gain) for group in affine):
            return end, False
        end = gain
    return end, True


def _contradicted(family: Family, claim: _Found, lowest: float) -> bool:
    """Whether the count of members beside the ends of the stable ranges, and inside these, says otherwise."""
    start, found, end = claim
    ranges = _stable_ranges(*claim)
    tests = [] if ranges or end < lowest else [(lowest, False)]
    gains = [0.0, *(c.gain for c in found), end]
    for a, b in ranges:
        tests += [(a + share * (b - a), True) for share in (0.1, 0.5, 0.9)]
        for edge, sign in ((a, 1.0), (b, -1.0)):
            near = [_BESIDE * edge, *(0.25 * abs(g - edge) for g in gains if g != edge)]
            if edge > 0.0:
                tests.append((edge + sign * min(near), True))
            if 0.0 < edge < end:
                tests.append((edge - sign * min(near), False))
    for gain, stable in tests:
        try:
            if (_unstable_of(family(gain)) == 0) is not stable:
                return True
        except _REFUSED:
            continue
    return False


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

    def __init__(self, family: Family, gains: Sequence[float]) -> None:
        self.family, self.gains = family, gains
        self.known: dict[float, int] = {}

    def count(self, gain: float) -> int:
        if gain not in self.known:
            self.known[gain] = _unstable_of(_checked(self.family(gain)))
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
        grid: list[float] = []
        found: list[Crossing] = []
        lost = inf
        for gain in self.gains:
            try:
                number = self.count(gain)
            except _REFUSED:
                if not grid and gain < self.gains[-1]:
                    continue
                if not grid:
                    raise
                grid.append(_last_taken(self.family, grid[-1], gain))
                break
            grid.append(gain)
            lost = min(lost, gain) if number > 0 else lost
            if gain > _BEYOND * lost or number > self.count(grid[0]) + _MANY:
                break
        if len(grid) > 1:
            grid[-1] = self._fewer(grid[-2], grid[-1], self.count(grid[0]) + _MANY)
        grid = sorted({*grid, *self._hidden([g for g in grid if g < lost])})
        for a, b in zip(grid, grid[1:], strict=False):
            found += self._between(a, b)
        return self.count(grid[0]), found, grid[-1]

    def _fewer(self, low: float, high: float, most: int) -> float:
        """The upper end of a gap, or a gain inside it where roots are unstable but fewer, if they come one by one."""
        before, end = self.count(low), high
        while high - low > 1e-9 * high and not before < self.count(high) <= most:
            if self.count(high) <= before:
                return end
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.count(middle) <= before else (low, middle)
        return high if self.count(high) <= most else end

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
        middle = float(np.sqrt(low) * np.sqrt(high))
        wide = high - low > 1e-3 * high or (abs(change) > 2 and high - low > _TOGETHER * high)
        if wide and low < middle < high:
            return self._between(low, middle) + self._between(middle, high)
        return [Crossing(*self._polish(low, high), change)]

    def _polish(self, low: float, high: float) -> tuple[float, float]:
        """The gain and frequency at which the root that lies nearest to the boundary crosses it."""
        below, above = self.count(low), self.count(high)
        low, high = self._halved(low, high, 1e-6)
        omega = self._nearest(0.5 * (low + high), max(below, above))
        sampled = self.family(low)._characteristic.sampled
        if abs(above - below) <= 2:
            gain, exact = self._newton(low, high, omega, omega == 0.0 or (sampled and omega == pi))
            beside = 1e-9 * gain
            if low <= gain + beside and gain - beside <= high:
                if self.count(gain - beside) == below and self.count(gain + beside) == above:
                    return gain, exact
        low, high = self._halved(low, high, _TOGETHER)  # several roots at once, or none that Newton's method finds
        return 0.5 * (low + high), omega

    def _halved(self, low: float, high: float, share: float) -> tuple[float, float]:
        """The ends of a gap narrowed to this share of the gain, by counts alone."""
        before = self.count(low)
        while high - low > share * high:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self.count(middle) == before else (low, middle)
        return low, high

    def _nearest(self, gain: float, unstable: int) -> float:
        """The frequency of the root nearest to the boundary, as many being unstable at most."""
        system = self.family(gain)
        s = system.roots(max(1, unstable))
        if system._characteristic.sampled:
            s = np.log(s)
        return abs(complex(s[np.argmin(np.abs(s.real))]).imag)

    def _newton(self, low: float, high: float, omega: float, real: bool) -> tuple[float, float]:
        """The gain and frequency of a simple crossing, nan if there is none; a real root crosses at its frequency."""

        def value(gain: float, w: float) -> complex:
            return complex(self.family(gain)._characteristic.determinant(np.array([1j * w]))[0])

        if real:
            if np.sign(value(low, omega).real) == np.sign(value(high, omega).real):
                return nan, omega
            return float(brentq(lambda g: value(g, omega).real, low, high, xtol=1e-14 * high, rtol=1e-14)), omega
        gain = 0.5 * (low + high)
        for _ in range(20):
            h = 1e-6
            here = value(gain, omega)
            along = (value(gain, omega * (1 + h)) - value(gain, omega * (1 - h))) / (2 * h * omega)
            rise = (value(gain * (1 + h), omega) - value(gain * (1 - h), omega)) / (2 * h * gain)
            area = (along * rise.conjugate()).imag
            if area == 0.0:
                return nan, omega
            dw, dg = -(here * rise.conjugate()).imag / area, -(along * here.conjugate()).imag / area
            gain, omega = gain + dg, omega + dw
            if not low * (1.0 - 1e-3) < gain < high * (1.0 + 1e-3):
                return nan, omega
            if abs(dg) <= 1e-14 * gain and abs(dw) <= 1e-14 * omega:
                break
        return gain, omega


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
        act back on others apart from these). Others are counted on the gains looked at until four times the first
        loss; a crossing is refined by Newton's method, of several roots at once by halving to 1e-12. The gains looked
        at: half an octave apart from 1e-6 (less, if the maximum or the first boundary is below 1) to the maximum or,
        without one, to 1e6 (four times the last boundary, if that is more) or to where the search along the axis ends,
        and 16 more inside every range said to be stable. A gain that the family refuses with ValueError or
        LinearizationError ends the range; those below the first one taken are passed over.
        Guaranteed: at every gain looked at the member is the affine form that was solved (to 1e-13 of its entries), or
        was counted; members just beside the ends of stable ranges (1e-6, nearer where crossings crowd) and at three
        gains inside each have the counts that the result says, in floating point with its own error bounds or in balls.
        certify proves both sides of the value. What is contradicted is counted over the whole range instead.
        Hypothesis: a family keeps its form between the gains looked at; a black box can do anything there, and one that
        is counted can become unstable and stable again unseen, if its dominant root hints at nothing on either side.
    Example:
        >>> first_loss(lambda k: DelaySystem([-k], [1.0])).value / (pi / 2)
        1.0
    """
    if not maximum > 0.0:
        raise ValueError(f"maximum must be > 0, got {maximum!r}")
    start, found, complete = _search(family, maximum)
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
