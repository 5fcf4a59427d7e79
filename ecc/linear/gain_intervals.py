"""Proofs that no root is on the boundary for a whole range of gains, over rectangles of frequency and gain.

An interval of gains is sampled at five equally spaced gains. The hypothesis on a family: between the samples, no
coefficient of

    F(s) = sum_jm c_jm s^j exp(-s theta_m)

and no delay deviates from the polygon through the samples by more than half of their largest second difference. It
holds for functions that are affine between samples except for a kink, and for smooth functions on short intervals.
Intervals longer than 1e-4 of the gain are divided until the samples look smooth. A family without a known form cannot
prove more, and results note the hypothesis and the distance of samples. Then F(j w; g) lies on the chord from the
first member to the last one up to a proven radius of second order in the length of the interval. On a piece of the
frequency axis both ends are cubic Hermite interpolants with a proven remainder for the terms with theta h <= 1; other
terms are bounded by their modulus. If one half plane contains the Bezier points of both ends with a distance that
exceeds all these radii, no member has a root on the piece. Pieces that fail are halved. If none remains, the number of
unstable roots is constant over the interval. Intervals are joined end to end from a gain at which the system is
stable, so a range of instability is met, however narrow it is.

F is det P. If det P cancels, for example because several roots cross at once, or has too many terms, F is P itself,
entry by entry: no member is singular on a piece if one matrix Y maps all Bezier points, with their radii, into the unit
disk about the identity.

Delays that change with the gain are identified by the order of their size. Delays that get as close to each other as
they move (they cross, or differ by rounding alone) form one group. Around its center at s M a group is
(C_0 - s C_1) exp(-s M) up to |s|^2 sum |c_m| (theta_m - M)^2. Delays in steps jump, but a loop that divides its delay
between two steps does not, nor does the group of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, inf, perm, pi

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError, UndecidedError
from ecc.linear.characteristic import Complex, Real, Terms, align, inverse, product
from ecc.linear.quasipolynomial import expanded

__all__ = ["REFUSED", "SAMPLES", "Cover"]

REFUSED = (ValueError, LinearizationError)
"""Exceptions of a family at a gain that it does not allow."""

SAMPLES = 5
_MIN_LENGTH = 1e-12  # relative to the gain: no shorter interval is tried
_NEAR = 1e-7  # relative to the gain: nor a shorter one if a hundred of it do not reach the end
_JUMP = 1e-6  # relative to the gain: nor a shorter one over which delays in steps, or their number, change
_WIDEST = 0.5  # relative to the gain: nor a longer one
_CLOSE = 1e-7  # relative to the gain: the first interval next to a crossing
_BEGINS = 1e-3  # relative to the shortest interval: the shortest first one next to a crossing
_SHORT = 1e-4  # relative to the gain: samples of a shorter interval may be those of any function
_SEEN = 1e-9  # relative to the coefficient: smaller differences may be due to rounding
_ROUNDING = 4e-15  # relative to the largest coefficient of the matrix: smaller differences may be due to rounding
_MAX_MEMBERS = 4000  # members requested
_MAX_PIECES = 1 << 14
_BLOCK = 1 << 13  # entries of matrices that are examined at once: they fit into the cache
_SMALL = 8  # states up to which the determinant is expanded
_CANCELS = 1e-5  # relative to the moduli of its terms: below it, the matrix is used instead of the determinant
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class _Form:
    """Coefficients c, shape (powers of s, M, entries), and increasing delays theta, shape (M,)."""

    c: Real
    theta: Real


class _Member:
    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    @property
    def longest(self) -> float:
        """The longest delay."""
        t = self.terms
        parts = [(t.constant, t.delays), (t.slope, t.slope_delays)]
        return max((float(tau) for matrices, delays in parts for tau in delays[matrices.any(axis=(1, 2))]), default=0.0)

    @cached_property
    def determinant(self) -> _Form | None:
        """The determinant; its terms do not depend on the balance of the matrices."""
        t, n = self.terms, self.terms.constant.shape[1]
        unit = max(tau.as_integer_ratio()[1] for _, delays in t.powers for tau in [0.0, *delays.tolist()])
        tables = [  # delays in whole multiples of 1/unit, which is a power of two
            ([int(tau * unit) for tau in map(Fraction, delays.tolist())], matrices.reshape(-1, n * n).tolist())
            for matrices, delays in t.powers
        ]
        known = expanded(n, t.sampled, tables, 0) if n <= _SMALL else None
        if known is None:
            return None
        c = np.zeros((1 if t.sampled else n + 1, len(known), 1))
        for m, (_, p) in enumerate(exact := sorted(known.items())):
            for j, x in enumerate(p.coeffs()):
                c[j, m, 0] = int(x.p) / int(x.q)
        return _Form(c, np.array([theta / unit for theta, _ in exact]))

    def matrix(self, scale: Real) -> _Form:
        """Return P entry by entry, balanced by powers of two that are the same for all members."""
        t, n = self.terms, len(scale)
        every = np.unique(np.concatenate([[0.0], t.delays, t.slope_delays]))
        c = np.zeros((1 if t.sampled else 2, len(every), n, n))
        c[-1, 0] = np.eye(n)
        np.add.at(c[0], np.searchsorted(every, t.delays), t.constant)
        if not t.sampled:
            np.add.at(c[1], np.searchsorted(every, t.slope_delays), t.slope)
        c *= scale[None, :] / scale[:, None]
        used = np.any(c != 0.0, axis=(0, 2, 3))
        return _Form(c[:, used].reshape(len(c), -1, n * n), every[used])


@dataclass(frozen=True)
class _Columns:
    """The same terms of several members: c of shape (members, powers, M, entries), theta of shape (members, M).

    `mass` bounds the moduli of the terms in a column, and `rest` is the factor of |s|^j in the remainder of a group.
    """

    c: Real
    theta: Real
    mass: Real
    rest: Real


def _plain(c: Real, theta: Real) -> _Columns:
    """Return columns of one term each."""
    mass = np.abs(c).max(axis=0) + _bend(c)
    return _Columns(c, theta, mass, np.zeros_like(mass))


def _bend(x: Real) -> Real:
    """Return the maximum distance from the chord between first and last sample, also between the samples."""
    share = np.linspace(0.0, 1.0, len(x)).reshape(-1, *[1] * (x.ndim - 1))
    off = np.abs(x - x[0] - share * (x[-1] - x[0])).max(axis=0)
    return np.asarray(off + 0.5 * np.abs(np.diff(x, 2, axis=0)).max(axis=0))


def _matched_columns(forms: Sequence[_Form], sampled: bool) -> Iterator[_Columns]:
    """Yield possible ways to match the terms of the members."""
    if len({form.c.shape[0] for form in forms}) > 1:
        return
    first, last = forms[0].theta, forms[-1].theta
    same = all(np.array_equal(form.theta, first) for form in forms)
    max_move = 0.0 if same else max(_apart(first, last), _apart(last, first))
    if same or (sampled and max_move <= 1.0):
        every = np.unique(np.concatenate([form.theta for form in forms]))
        c = np.zeros((len(forms), forms[0].c.shape[0], len(every), forms[0].c.shape[2]))
        for out, form in zip(c, forms, strict=True):
            out[:, np.searchsorted(every, form.theta)] = form.c
        yield _plain(c, np.tile(every, (len(forms), 1)))
    if not same:
        step = 1.0 if sampled else 16.0 * _EPS * float(max(form.theta[-1] for form in forms))
        yield from _grouped(forms, 1.5 * max_move + step, 1.0 if sampled else 0.0)


def _apart(delays: Real, other_delays: Real) -> float:
    """Return the largest distance of a delay to the nearest one among other delays."""
    at = np.searchsorted(other_delays, delays)
    near = other_delays[np.stack([(at - 1).clip(0), at.clip(0, len(other_delays) - 1)])]
    return float(np.abs(near - delays).min(axis=0).max())


def _grouped(forms: Sequence[_Form], gap: float, step: float) -> Iterator[_Columns]:
    """Yield delays within a gap as groups; yield nothing if their number differs between members."""
    parts = [np.split(np.arange(len(f.theta)), np.flatnonzero(np.diff(f.theta) > gap) + 1) for f in forms]
    if len({len(part) for part in parts}) > 1:
        return
    powers, entries = forms[0].c.shape[0], forms[0].c.shape[2]
    columns: list[_Columns] = []
    for groups in zip(*parts, strict=True):
        theta = [form.theta[group] for form, group in zip(forms, groups, strict=True)]
        c = [np.pad(form.c[:, group], ((0, 2), (0, 0), (0, 0))) for form, group in zip(forms, groups, strict=True)]
        if all(len(tau) == 1 for tau in theta) or all(np.array_equal(tau, theta[0]) for tau in theta):
            columns.append(_plain(np.array(c), np.array(theta)))
            continue
        low, high = (float(np.average(theta[i], weights=np.abs(c[i]).sum(axis=(0, 2)))) for i in (0, -1))
        center = low + np.linspace(0.0, 1.0, len(forms)) * (high - low)
        values, mass, remainder = np.zeros((3, len(forms), powers + 2, 1, entries))
        for i, size in enumerate(map(np.abs, c)):
            late = (theta[i] - center[i])[:, None]
            values[i, :, 0] = c[i].sum(axis=1)
            values[i, 1:, 0] -= (c[i][:-1] * late).sum(axis=1)
            # twice the terms, and one step more: between samples delays in steps are divided in other proportions
            mass[i, :, 0] = 2.0 * size.sum(axis=1)
            remainder[i, 2:, 0] = (size[:-2] * (np.abs(late) + step) ** 2).sum(axis=1)
        columns.append(_Columns(values, center[:, None], mass.max(axis=0), remainder.max(axis=0)))
    yield _Columns(
        np.concatenate([column.c for column in columns], axis=2),
        np.concatenate([column.theta for column in columns], axis=1),
        np.concatenate([column.mass for column in columns], axis=1),
        np.concatenate([column.rest for column in columns], axis=1),
    )


class _Chord:
    """All members of an interval: two ends, and the maximum distance of the others from the chord between them."""

    def __init__(self, columns: _Columns) -> None:
        c, theta = columns.c, columns.theta
        self.c, self.theta, self.mass = c[[0, -1]], theta[[0, -1]], columns.mass
        self.off, self.late = columns.rest + _bend(c), _bend(theta)
        self.max_c, self.longest = np.abs(c).max(axis=0), theta.max(axis=0)
        self.rise, self.turn = np.abs(c[-1] - c[0]), np.abs(theta[-1] - theta[0])
        self.moves = bool(np.any(self.turn) or np.any(self.late))
        self.powers = np.arange(c.shape[1])

    def radius(self, omega: Real, slow: NDArray[np.bool_]) -> Real:
        """Return distance of members from the chord, modulus of terms that are not slow, and rounding, summed."""
        power = omega[:, None] ** self.powers

        def sums(table: Real, on: NDArray[np.bool_] = slow) -> Real:
            return np.asarray(np.tensordot(power, table[:, on], axes=1))  # (points, columns, entries)

        size = sums(self.max_c)
        phase = (omega[:, None] * self.longest[slow])[:, :, None]
        out = sums(self.off) + _EPS * size * (20.0 + 4.0 * len(self.powers) + len(slow) + 2.0 * phase)
        if self.moves:
            turned, late = ((omega[:, None] * x[slow])[:, :, None] for x in (self.turn, self.late))
            out += np.minimum(size * (turned**2 / 8.0 + late) + 0.25 * turned * sums(self.rise), 2.0 * size)
        return np.asarray(out.sum(axis=1) + (1.0 + 1e-12) * sums(self.mass, ~slow).sum(axis=1))

    def remainder(self, omega: Real, slow: NDArray[np.bool_]) -> Real:
        """Return a bound on the fourth derivative of the slow terms up to a frequency."""
        out = np.zeros((len(omega), self.max_c.shape[2]))
        theta = self.longest[slow, None]
        for j in self.powers.tolist():
            for i in range(min(4, j) + 1):
                weight = comb(4, i) * perm(j, i) * (self.max_c[j, slow] * theta ** (4 - i)).sum(axis=0)
                out += np.multiply.outer(omega ** (j - i), weight)
        return out

    def values(self, omega: Real, slow: NDArray[np.bool_]) -> tuple[Complex, Complex]:
        """Return the slow terms of both ends and their derivatives in w: shape (2, points, entries)."""
        s = 1j * omega
        power = s[:, None] ** self.powers
        steep = np.zeros_like(power)
        steep[:, 1:] = self.powers[1:] * power[:, :-1]
        value, slope = [], []
        for c, theta in zip(self.c[:, :, slow], self.theta[:, slow], strict=True):
            e = np.exp(-s[:, None] * theta)[:, :, None]
            inner = np.tensordot(power, c, axes=1)
            value.append((inner * e).sum(axis=1))
            slope.append(1j * ((np.tensordot(steep, c, axes=1) - inner * theta[:, None]) * e).sum(axis=1))
        return np.array(value), np.array(slope)


def _nearest(ends: Complex) -> Complex:
    """Return the points closest to 0 of segments between ends, shape (2, points)."""
    along = ends[1] - ends[0]
    with np.errstate(all="ignore"):
        t = np.clip(-(ends[0] * along.conj()).real / np.abs(along) ** 2, 0.0, 1.0)
    return np.asarray(ends[0] + np.where(np.isfinite(t), t, 0.0) * along)


def _apart_from_zero(corners: Complex, radius: Real) -> NDArray[np.bool_]:
    """Return whether a half plane contains all corners, shape (4, 2, pieces, 1), with their radii."""
    corners, radius = corners[..., 0], radius[:, 0]
    good = np.zeros(len(radius), bool)
    for toward in (_nearest(corners.mean(axis=0)), corners.sum(axis=(0, 1))):
        with np.errstate(all="ignore"):
            u = toward.conj() / np.abs(toward)
            good |= (u * corners).real.min(axis=(0, 1)) > radius * (1.0 + 1e-12)
    return good


def _apart_from_singular(corners: Complex, radius: Real) -> NDArray[np.bool_]:
    """Return whether a matrix maps all corners, shape (4, 2, pieces, entries), into the unit disk about I."""
    n = round(corners.shape[-1] ** 0.5)
    square = corners.reshape(*corners.shape[:-1], n, n)
    y = inverse(square.mean(axis=(0, 1)))
    error = radius.reshape(-1, n, n) + (n + 4) * _EPS * np.abs(square)
    with np.errstate(all="ignore"):
        spread = np.abs(product(y, square) - np.eye(n)) + product(np.abs(y), error)
        return np.asarray((spread * spread).sum(axis=(-2, -1)).max(axis=(0, 1)) < 0.99)


def _tried(chord: _Chord, low: Real, h: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which pieces have no root of a member, in which no shorter piece can succeed, and where det P cancels."""
    clear = _apart_from_zero if chord.c.shape[-1] == 1 else _apart_from_singular
    slow = chord.longest * h <= 1.0
    high: Real = np.asarray(low + h)
    at_low, at_high = chord.values(low, slow), chord.values(high, slow)
    corners = np.stack([at_low[0], at_low[0] + (h / 3.0) * at_low[1], at_high[0] - (h / 3.0) * at_high[1], at_high[0]])
    # the rounding error of the ends of pieces is included in that of phases
    good = clear(corners, chord.radius(high, slow) + h**4 / 384.0 * chord.remainder(high, slow))
    nothing_lost = np.zeros(len(low), bool)
    if good.all() or not slow.all():
        return good, nothing_lost, nothing_lost
    hopeless = ~clear(corners[[0] * 4], chord.radius(low, slow))
    size = np.tensordot(low[:, None] ** chord.powers, chord.max_c.sum(axis=1), axes=1)
    lost = (np.abs(corners[0]).max(axis=0) < _CANCELS * size).all(axis=1)
    return good, hopeless, lost


def _fails(chord: _Chord, low: Real, h: float, min_length: float) -> tuple[Real, float, bool]:
    """Return pieces of the axis, of length h from `low`, that may have a root of a member; and if due to rounding."""
    block = max(_BLOCK // chord.c.shape[-1], 1)
    while True:
        blocks = [_tried(chord, low[k : k + block], h) for k in range(0, len(low), block)]
        good, hopeless, lost = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        if good.all():
            return low[:0], h, False
        if hopeless.any():
            return low[~good], h, bool(lost[hopeless].all())
        low = low[~good]
        h *= 0.5
        if 2 * len(low) > _MAX_PIECES or h < min_length:
            return low, 2.0 * h, False
        low = np.concatenate([low, low + h])


def _top(members: Sequence[_Member]) -> float:
    """Return a frequency above which no member has a root on the boundary; inf if none is proven."""
    if members[0].terms.sampled:
        return pi
    sums = np.array([[np.abs(x).sum(axis=0) for x in (m.terms.constant, m.terms.slope)] for m in members])
    hull = (sums.max(axis=0) + _bend(sums))[:, None]
    radius = align(Terms(hull[0], np.ones(1), hull[1], np.ones(1), False))[0].bound(0.0) * (1.0 + 1e-6)
    return radius or 1.0


def _clear(members: Sequence[_Member]) -> bool:
    """Return whether no member of an interval has a root on the boundary."""
    top, sampled = _top(members), members[0].terms.sampled
    if not top < inf:
        return False
    longest = max(m.longest for m in members)
    pieces = int(min(max(1.5 * top * longest, 16.0), 256.0))
    h = top / pieces
    low: Real = h * np.arange(float(pieces))
    forms = [form for m in members if (form := m.determinant)]
    if len(forms) == len(members):
        lost = False
        for columns in _matched_columns(forms, sampled):
            low, h, lost = _fails(_Chord(columns), low, h, 1e-15 * top)
            if not len(low):
                return True
        if not lost:
            return False
    scale = align(members[-1].terms)[0].scale
    for columns in _matched_columns([m.matrix(scale) for m in members], sampled):
        low, h, _ = _fails(_Chord(columns), low, h, 1e-15 * top)
        if not len(low):
            return True
    return False


def _is_resolved(members: Sequence[Terms]) -> bool:
    """Return whether five samples of all coefficients and delays look like those of smooth functions.

    The second differences change little, or the third ones do. Next to a peak that is narrower than the distance of
    samples they do not, if its sides are seen.
    """
    if len({(m.constant.shape, m.slope.shape) for m in members}) > 1:
        return True
    tables = [[m.constant for m in members], [m.slope for m in members]]
    if not members[0].sampled:
        tables += [[m.delays for m in members], [m.slope_delays for m in members]]
    elif not all(np.array_equal(m.delays, members[0].delays) for m in members):
        return True  # delays in steps, and their shares, jump
    samples = [np.array(table).reshape(SAMPLES, -1) for table in tables]
    values = np.concatenate(samples, axis=1)
    noise = np.concatenate([np.full(part.shape[1], _ROUNDING * np.abs(part).max(initial=0.0)) for part in samples])
    second, third, fourth = (np.abs(np.diff(values, order, axis=0)).max(axis=0) for order in (2, 3, 4))
    bend = np.maximum(second, third)
    smooth = (fourth <= 0.125 * bend) & ((third <= 0.5 * second) | (fourth <= 0.03 * bend))
    return bool(np.all(smooth | (bend <= np.maximum(_SEEN * np.abs(values).max(axis=0), noise))))


class Cover:
    """A range of gains, from a first gain upward, over which the number of unstable roots is proven constant.

    `to` is the end of the range so far, `beyond` a gain at which the number differs, None if none was met.

    Parameters
    ----------
    members, count : callable
        Functions from a gain to the characteristic matrix of a member, and to its number of unstable roots.
    low : float
        Start of the range.
    close : bool, optional
        Whether the range begins next to a crossing: intervals then grow by a factor of four or less.
    limit : int, optional
        Maximum number of members.
    resolution : float, optional
        Maximum distance of neighboring samples, relative to the gain.
    """

    def __init__(
        self,
        members: Callable[[float], Terms],
        count: Callable[[float], int],
        low: float,
        close: bool = False,
        limit: int = _MAX_MEMBERS,
        resolution: float = inf,
    ) -> None:
        self.members, self.count, self.low, self.to = members, count, low, low
        self.widest = min(_WIDEST, (SAMPLES - 1) * resolution)
        self.step = min(_CLOSE, self.widest) * low if close else self.widest * low
        self.close, self.limit = close, limit
        self.beyond: float | None = None
        self.known: dict[float, _Member] = {}

    def _at(self, gain: float) -> _Member:
        if gain not in self.known:
            self.known[gain] = _Member(self.members(gain))
        return self.known[gain]

    @property
    def is_spent(self) -> bool:
        """True if the maximum number of members has been used."""
        return len(self.known) >= self.limit

    def reaches(self, high: float) -> bool:
        """Extend the range to a gain and return whether it was reached; an unstable or refused member stops it."""
        if self.beyond is not None and high < self.beyond:
            self.beyond = None
        if self.to > self.low:  # resume
            self.step = high - self.to
        failed = 0
        while self.to < high and self.beyond is None and not self.is_spent:
            end = min(self.to + min(self.step, self.widest * self.to), high)
            length = end - self.to
            shortest = _NEAR * (_BEGINS if self.close and self.to == self.low else 1.0)
            if end < high and length <= max(_MIN_LENGTH * self.to, min(shortest * self.to, 0.01 * (high - self.to))):
                break  # too short for floating point
            smooth = True
            try:
                if self._covers(end):
                    # Small steps double. Close to the end, which may lie next to a crossing, the remaining distance
                    # shrinks by the square of its last ratio, as the radius does.
                    remaining = (high - end) / (high - self.to)
                    self.to, self.step, failed = end, (high - end) * (1.0 - remaining ** (1 if failed else 2)), 0
                    if self.close:
                        self.step = min(max(self.step, 0.5 * length), 4.0 * length)
                    continue
                if failed and self.count(end) != self.count(self.low):
                    self.beyond = end
                    break
            except (*REFUSED, UndecidedError):
                smooth = False
            if not smooth and length <= _JUMP * self.to:
                break
            failed += 1
            self.step = 0.5 * length
        return self.to >= high

    def _covers(self, end: float) -> bool:
        length = end - self.to
        members = [self._at(self.to + share * length) for share in np.linspace(0.0, 1.0, SAMPLES)[:-1].tolist()]
        members.append(self._at(end))
        return (length <= _SHORT * self.to or _is_resolved([m.terms for m in members])) and _clear(members)
