"""Families of systems with matrices and a determinant that are affine in the gain: solved along the frequency axis.

The list of crossings holds for the whole range of gains: at s = j w, det P = F0(w) + g F1(w) vanishes at a real g only
if Im(F0 conj F1) = 0, a condition on w alone, and then at the one gain g = -Re(F0 conj F1)/|F1|^2. Let w_max bound the
roots of all members up to the gain searched. Then the zeros of that function on (0, w_max], and the ends, give all
gains at which a root can lie on the boundary. Between two of these gains the number of unstable roots is constant, so
one count of a member decides it for the whole gap, and a proof at one gain below the first crossing is a proof for
every gain below it. No zero is missed, since zeros are isolated with proven errors (`ecc.linear.exact_pair`). For
systems of more than eight states, or with too many terms, the errors are estimated; then the list is not called
complete. Families without this property are counted over intervals of gains (`ecc.linear.gain_intervals`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import accumulate
from math import inf, isfinite, pi
from typing import Protocol

import numpy as np

from ecc.errors import ConvergenceError, UndecidedError
from ecc.linear.argument_principle import count_right
from ecc.linear.black_box_family import Found
from ecc.linear.certificate import unstable
from ecc.linear.characteristic import Real, Terms, align, determinant
from ecc.linear.exact_pair import AxisSum, affine_sums
from ecc.linear.imaginary_axis import MAX_NODES, AxisPair, Crossing, Pair, SumPair, boundary_crossings, pieces_to

__all__ = [
    "NEGATIVE",
    "SAMPLES",
    "Affine",
    "AffineForm",
    "affine_parts",
    "follow",
    "lost_at",
    "recounted",
    "runs_negative",
    "span_of_one_turn",
    "unstable_roots",
]

SAMPLES = (0.25, 0.5, 1.0)
"""Shares of a gain at which members determine an affine form."""
NEGATIVE = "the number of unstable roots along the gain is negative: a crossing was missed"
_RECOUNTED = 1e9
"""Factor on the first gain tried: beyond it the directions of crossings stay unknown, as F1 is 0 to rounding."""
_SHORT, _SHORT_NODES = 16.0, 1 << 13  # steps of a short delay; nodes at which terms with such delays are evaluated
_MAX_LIMITED = 1 << 17  # pieces of a part of the axis if delays are too long to search the whole axis
_FAR = 2e4  # rad turned within the longest delay: gains with roots beyond it are not searched


def unstable_roots(member: Terms) -> int:
    """Return the unstable roots of one system; raise UndecidedError if the certificate does not decide either."""
    ch = align(member)[0]
    number = count_right(ch, 0.0).number
    return unstable(ch) if number is None else number


def affine_parts(quarter: Real, half: Real, full: Real, gain: float) -> tuple[Real, Real, Real] | None:
    """Return base, rise and noise of entries `base + g rise` from members at `SAMPLES` of a gain; None for others."""
    base, rise = 2.0 * half - full, (full - half) * (2.0 / gain)
    noise = 1e-13 * (np.abs(full) + np.abs(half))
    base[np.abs(base) <= noise] = 0.0
    return None if np.any(np.abs(quarter - base - 0.25 * gain * rise) > noise) else (base, rise, noise)


def span_of_one_turn(reach: Callable[[float], float], band: float, gain: float) -> float:
    """Return a gain near another one at which the roots of members turn about once within the delay `band`."""
    goal = max(10.0 / band, 1.5 * reach(0.0))
    while reach(gain) > goal:
        gain *= 0.5
    while reach(gain) < goal and gain < 1e300:
        gain *= 2.0
    return gain


class Affine:
    """A family with matrices `base + g rise`, up to errors of the entries of `noise` at the gain `gain`.

    `counter` counts the unstable roots of members without the artificial roots of their determinants, for families that
    have artificial roots. The root 0 is artificial `zeros` times.
    """

    def __init__(self, base: Terms, rise: Terms, noise: tuple[Real, Real], gain: float) -> None:
        self.base, self.rise, self.noise, self.gain = base, rise, noise, gain
        self.counter: Callable[[float], int] | None = None
        self.zeros = 0

    @staticmethod
    def detect(members: Sequence[Terms], gain: float) -> Affine | None:
        """Compute base and rise from the members at `SAMPLES` of the gain; None if the family is not affine."""
        first = members[0]
        every = np.unique(np.concatenate([tau for m in members for tau in (m.delays, m.slope_delays)]))
        parts = []
        for which in (0, 2):
            tables = np.zeros((len(members), len(every), *first.constant.shape[1:]))
            for table, m in zip(tables, members, strict=True):
                np.add.at(table, np.searchsorted(every, m[which + 1]), m[which])
            part = affine_parts(tables[0], tables[1], tables[2], gain)
            if part is None:
                return None
            parts.append(part)
        (b0, b1, e0), (s0, s1, e1) = parts
        make = partial(Terms, delays=every, slope_delays=every, sampled=first.sampled)
        out = Affine(make(constant=b0, slope=s0), make(constant=b1, slope=s1), (e0, e1), gain)
        if first.constant.shape[1] > 1:
            three = align(*map(out.member, (0.0, gain, 2 * gain)))
            s = (0.13 + 1.7j * np.array([0.05, 0.31, 0.77, 1.0])) * (1.0 if first.sampled else three[1].unit)
            values = np.stack([determinant(ch.evaluate(s)[0]) for ch in three])
            if np.any(np.abs(values[0] - 2.0 * values[1] + values[2]) > 1e-10 * np.abs(values).sum(axis=0)):
                return None
        return out

    def agrees(self, member: Terms, gain: float) -> bool:
        """Return whether a member of the family agrees with its affine form."""
        model = self.member(gain)
        pairs = (model.constant, member.constant, member.delays), (model.slope, member.slope, member.slope_delays)
        for (expected, matrices, delays), noise in zip(pairs, self.noise, strict=True):
            if np.array_equal(delays, model.delays):
                difference = expected - matrices
            else:
                known = np.isin(delays, model.delays)
                if np.any(matrices[~known]):
                    return False
                difference = expected.copy()
                np.subtract.at(difference, np.searchsorted(model.delays, delays[known]), matrices[known])
            if np.any(np.abs(difference) > (1.0 + gain / self.gain) * noise):
                return False
        return True

    def count(self, gain: float) -> int:
        """Return the number of unstable roots of the member of the affine form."""
        return unstable_roots(self.member(gain)) if self.counter is None else self.counter(gain)

    def member(self, gain: float) -> Terms:
        b, r = self.base, self.rise
        return Terms(b.constant + gain * r.constant, b.delays, b.slope + gain * r.slope, b.slope_delays, b.sampled)

    def reach(self, gain: float) -> float:
        """Return a frequency above which no member up to this gain has a root on the boundary."""
        b, r = self.base, self.rise
        if b.sampled:
            return pi
        constant, slope = (np.abs(x) + gain * np.abs(y) for x, y in ((b.constant, r.constant), (b.slope, r.slope)))
        return align(Terms(constant, b.delays, slope, b.slope_delays, False))[0].bound(0.0) * (1.0 + 1e-6)

    @property
    def first_span(self) -> float:
        """A gain to start the search at: the roots of its members turn about once within the longest delay."""
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
        return span_of_one_turn(self.reach, band, gain)

    @property
    def sampled(self) -> bool:
        """True if time is in steps."""
        return self.base.sampled

    @property
    def is_constant(self) -> bool:
        """True if no member depends on the gain."""
        return not np.any(self.rise.constant) and not np.any(self.rise.slope)

    @cached_property
    def _sums(self) -> tuple[AxisSum, AxisSum] | None:
        return affine_sums(self.base, self.rise)

    def pair(self, gain: float) -> AxisPair:
        """Return F0 and F1 of det P = F0 + g F1, for gains of this order of magnitude."""
        if self._sums is None:
            return Pair(self.base, self.member(gain), gain, zeros=self.zeros)
        return SumPair(*self._sums, self.base.sampled, self.base.constant.shape[1], gain, self.zeros)

    @property
    def is_exact(self) -> bool:
        """True if the list of crossings is proven."""
        return self._sums is not None

    @cached_property
    def finds_all(self) -> bool:
        """True if `up_to` returns the crossings of all gains: for sampled systems whose delays are not too long."""
        return self.sampled and (self._sums is None or pieces_to(self.pair(1.0).band, pi) <= MAX_NODES)

    def up_to(self, gain: float) -> list[Crossing]:
        """Return every crossing with a gain up to this one; all crossings if `finds_all`."""
        pair = self.pair(gain)
        top = self.reach(gain)
        if self.sampled and not self.finds_all:
            top = self._last_frequency(gain)
            if pieces_to(pair.band, top) > _MAX_LIMITED:
                raise ConvergenceError(f"crossings up to gain {gain:.6g} reach too far for delays of this length", None)
        if not isfinite(top):
            raise ConvergenceError(f"the neutral part bounds no root at gain {gain!r}", None)
        out = boundary_crossings(pair, top, inf if self.finds_all else gain)
        return [c for c in out if self.finds_all or c.gain <= gain]

    def _last_frequency(self, gain: float) -> float:
        """Return a frequency above which no member of a sampled family up to this gain has a root on the boundary.

        There the terms of F0 with short delays exceed all other terms and g F1 in absolute value.
        """
        assert self._sums is not None
        f0, f1 = self._sums
        short = f0.theta <= _SHORT
        c, theta = f0.c[0, short], f0.theta[short]
        remainder = float(np.abs(f0.c[0, ~short]).sum() + gain * np.abs(f1.c[0]).sum()) * (1.0 + 1e-9)
        omega = np.linspace(0.0, pi, _SHORT_NODES + 1)
        step = omega[1]
        middle = omega[:-1] + 0.5 * step
        terms = c * np.exp(-1j * np.multiply.outer(middle, theta))
        curve = float((np.abs(c) * theta**2).sum())
        lower = np.abs(terms.sum(axis=1)) - 0.5 * step * np.abs(terms @ theta) - 0.125 * step**2 * curve
        near = np.flatnonzero(lower <= remainder + 1e-12 * np.abs(c).sum())
        return float(omega[near[-1] + 1]) if len(near) else float(step)


def _middle(a: float, b: float) -> float:
    return 0.5 * b if a == 0.0 else float(np.sqrt(a) * np.sqrt(b))


def recounted(
    count: Callable[[float], int], start: int, crossings: list[Crossing], end: float, limit: float = inf
) -> list[Crossing]:
    """Return the crossings with changes of the count from members on both sides if roots' directions did not decide.

    Parameters
    ----------
    count : callable
        Function from a gain to the number of unstable roots; it may raise UndecidedError.
    start : int
        Number of unstable roots as the gain tends to 0.
    crossings : list of Crossing
        Crossings by increasing gain.
    end : float
        Gain up to which they are complete.
    limit : float, optional
        Gain above which directions may stay unknown.

    Raises
    ------
    ConvergenceError
        The crossings contradict the counts of members: one was missed.
    """
    gains = sorted({c.gain for c in crossings})
    unknown = {c.gain for c in crossings if c.change == 0 and c.gain <= limit}
    if runs_negative(start, crossings):
        unknown = set(gains)
    edges = [0.0, *gains, max(end, 2.0 * gains[-1]) if gains and end == inf else end]
    known: dict[int, int | None] = {}

    def between(i: int) -> int | None:
        """Return the unstable roots of a member in a gap, None if the gap is empty or the number is not decided."""
        if i not in known:
            middle = _middle(edges[i], min(edges[i + 1], 4.0 * edges[i] or inf))
            try:
                known[i] = count(middle) if edges[i] < middle < edges[i + 1] else None
            except UndecidedError:
                known[i] = None
        return known[i]

    jump: dict[float, int] = {}
    for i, gain in enumerate(gains):
        if gain in unknown and (before := between(i)) is not None and (after := between(i + 1)) is not None:
            jump[gain] = after - before
    out = []
    for c in crossings:
        if c.gain in jump:
            c = c._replace(change=jump[c.gain])
            jump[c.gain] = 0
        out.append(c)
    if runs_negative(start, out):
        raise ConvergenceError(NEGATIVE, out)
    return out


def runs_negative(start: int, crossings: list[Crossing]) -> bool:
    """Return whether crossings imply a negative number of unstable roots."""
    return start < 0 or min(accumulate((c.change for c in crossings), initial=start)) < 0


def lost_at(start: int, crossings: list[Crossing]) -> int | None:
    """Return the index of the first crossing after which roots are unstable."""
    unstable = start
    for i, crossing in enumerate(crossings):
        unstable += crossing.change
        if unstable > 0:
            return i
    return None


class AffineForm(Protocol):
    """A form of a family with a determinant that is affine in the gain; members as in `Affine`."""

    @property
    def finds_all(self) -> bool: ...
    @property
    def is_constant(self) -> bool: ...
    @property
    def first_span(self) -> float: ...
    def count(self, gain: float) -> int: ...
    def reach(self, gain: float) -> float: ...
    def pair(self, gain: float) -> AxisPair: ...
    def up_to(self, gain: float) -> list[Crossing]: ...


def follow(affine: AffineForm, maximum: float) -> Found:
    """Return the unstable roots as the gain tends to 0, the crossings, and the gain up to which they are complete."""
    span = min(affine.first_span, maximum)
    if affine.is_constant:
        return affine.count(span), [], maximum
    start, crossings, complete, too_far = 0, list[Crossing](), 0.0, inf
    limit = min(maximum, _RECOUNTED * affine.first_span)
    while True:
        try:
            more = affine.up_to(span)
        except ConvergenceError:  # the axis is too long to search at this gain: try smaller gains
            too_far = span
            span *= 0.25
            if complete > 0.0:
                return start, crossings, complete
            if span < 1e-9 * affine.first_span:  # on the boundary for every gain
                start = affine.count(span)
                if start == 0:
                    raise
                return start, [], 0.0
            continue
        crossings = more
        complete = inf if affine.finds_all else span
        start = affine.count(0.5 * (crossings[0].gain if crossings else span))
        crossings = recounted(affine.count, start, crossings, complete, limit)
        at = lost_at(start, crossings)
        if at is not None and start == 0:
            gain = crossings[at].gain
            after = next((c.gain for c in crossings[at:] if c.gain > gain * (1.0 + 1e-9)), min(2.0 * gain, complete))
            if affine.count(_middle(gain, after)) != sum(c.change for c in crossings if c.gain < after):
                crossings = recounted(affine.count, start, [c._replace(change=0) for c in crossings], complete)
            return start, crossings, complete
        if start > 0 and any(number == 0 for number in accumulate((c.change for c in crossings), initial=start)):
            return start, crossings, complete
        if complete >= maximum or affine.reach(4.0 * span) * affine.pair(1.0).band > _FAR:
            return start, crossings, complete
        span = min(span * (4.0 if affine.pair(1.0).band > 0.0 else 1e3), maximum)
        if span > 1e18 or span >= too_far:
            return start, crossings, complete
