"""No root on the boundary for a whole range of gains: the determinant over rectangles of frequency and gain.

Between five equally spaced gains of an interval, no coefficient of det P(s) = sum_jm c_jm s^j exp(-s theta_m) and no
delay strays from what they show by more than half of their second differences: that is the one thing taken of a family
here, true of what is smooth or has kinks once the interval is short. So F(j w; g) lies on the chord from the first
member to the last one up to a proven radius of second order in the length of the interval. On a piece of the frequency
axis both ends are cubic Hermite interpolants with a proven remainder, of the terms with theta h <= 1; of the others the
modulus counts. If one half plane holds the Bezier points of both ends with all these radii to spare, no member has a
root on the piece. Pieces that fail are halved; once none is left, the number of unstable roots is one number over the
interval. Intervals are laid end to end from a gain at which the system is stable; a family whose determinant is affine
in the gain needs few of them, and a range of instability is run into, however narrow it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, inf, perm, pi

import numpy as np

from ecc.errors import LinearizationError, UndecidedError
from ecc.linear.certificate import unstable
from ecc.linear.characteristic import Complex, Real, Terms, align
from ecc.linear.quasipolynomial import QuasiPolynomial

__all__ = ["REFUSED", "Cover"]

REFUSED = (ValueError, LinearizationError)
"""What a family raises at a gain that it does not take."""

_LEAST = 1e-12  # of a gain: no shorter interval is tried
_NEAR = 1e-7  # of a gain: nor a shorter one if a hundred of it do not reach the end
_JUMP = 1e-4  # of a gain: nor a shorter one over which delays in steps, or their number, change
_WIDEST = 0.125  # of a gain: nor a longer one
_MOST = 4000  # members asked for
_MOST_PIECES = 1 << 16
_EPS = float(np.finfo(np.float64).eps)


class _Broken(Exception):
    """Members of an interval that are not one smooth family, or whose determinant is too large to expand."""


@dataclass(frozen=True)
class _Member:
    """Coefficients c, shape (powers of s, M), and delays theta, shape (M,); `delays` of the system itself."""

    c: Real
    theta: Real
    delays: tuple[float, ...]


def _expanded(terms: Terms) -> _Member:
    ch = align(terms)[0]
    exact = QuasiPolynomial.of(ch)
    if exact is None:
        raise _Broken
    c = np.zeros((1 if ch.sampled else ch.size + 1, len(exact.terms)))
    for m, p in enumerate(exact.terms.values()):
        for j, x in enumerate(p.coeffs()):
            c[j, m] = int(x.p) / int(x.q)
    theta = np.array([int(x.p) / int(x.q) for x in exact.terms])
    return _Member(c, theta, tuple(ch.delays.tolist()))


class Cover:
    """The range of gains, from one on at which no root is unstable, over which it is proven that none is.

    `to` is the end of the range so far, `beyond` a gain at which a root is unstable, None if none was met.
    """

    def __init__(self, members: Callable[[float], Terms], low: float) -> None:
        self.members, self.to, self.step = members, low, _WIDEST * low
        self.beyond: float | None = None
        self.known: dict[float, tuple[Terms, _Member]] = {}

    def _at(self, gain: float) -> _Member:
        if gain not in self.known:
            terms = self.members(gain)
            self.known[gain] = terms, _expanded(terms)
        return self.known[gain][1]

    def reaches(self, high: float) -> bool:
        """Go on to a gain; whether it was reached. It is not where a member is unstable or refused, or too close to."""
        if self.beyond is not None and high < self.beyond:
            self.beyond, self.step = None, high - self.to
        while self.to < high and self.beyond is None and len(self.known) < _MOST:
            end = min(self.to + min(self.step, _WIDEST * self.to), high)
            length = end - self.to
            if end < high and length <= max(_LEAST * self.to, min(_NEAR * self.to, 0.01 * (high - self.to))):
                break  # the determinant is lost in rounding, as where several roots cross at once
            smooth = True
            try:
                members = [self._at(self.to + share * length) for share in (0.0, 0.25, 0.5, 0.75)]
                if _clear([*members, self._at(end)], self.known[end][0].sampled):
                    self.to, self.step = end, 4.0 * length
                    continue
                if unstable(align(self.known[end][0])[0]) > 0:
                    self.beyond = end
                    break
            except (*REFUSED, UndecidedError, _Broken):
                smooth = False
            if not smooth and length <= _JUMP * self.to:
                break
            self.step = 0.3 * length
        return self.to >= high


def _joined(members: list[_Member]) -> tuple[Real, Real]:
    """Coefficients, shape (members, powers, M), and delays, shape (members, M), of the same terms in one order."""
    if len({one.delays for one in members}) == 1:
        every = np.unique(np.concatenate([one.theta for one in members]))
        c = np.zeros((len(members), len(members[0].c), len(every)))
        for out, one in zip(c, members, strict=True):
            out[:, np.searchsorted(every, one.theta)] = one.c
        return c, np.tile(every, (len(members), 1))
    if len({one.c.shape for one in members}) > 1:
        raise _Broken
    return np.stack([one.c for one in members]), np.stack([one.theta for one in members])


class _Chord:
    """All members of an interval: two ends, and how far from the chord between them the others may be."""

    def __init__(self, members: list[_Member], sampled: bool) -> None:
        c, theta = _joined(members)
        if sampled and np.any(theta != theta[0]):
            raise _Broken
        self.c, self.theta, self.sampled = c[[0, -1]], theta[[0, -1]], sampled
        self.most, self.longest = np.abs(c).max(axis=0), theta.max(axis=0)
        share = np.linspace(0.0, 1.0, len(members))
        self.off, self.late = (
            np.abs(v - v[0] - share.reshape(-1, *[1] * (v.ndim - 1)) * (v[-1] - v[0])).max(axis=0)
            + 0.5 * np.abs(np.diff(v, 2, axis=0)).max(axis=0)
            for v in (c, theta)
        )
        self.rise, self.turn = np.abs(c[-1] - c[0]), np.abs(theta[-1] - theta[0])
        self.powers = np.arange(c.shape[1])

    def top(self) -> float:
        """A frequency beyond which no member has a root on the axis; inf if none is shown."""
        if self.sampled:
            return pi
        n = len(self.powers) - 1
        highest = self.most[n] + self.off[n]
        rest = 1.0 - float(highest[self.longest > 0.0].sum())
        if rest <= 0.0:
            return inf
        sums = ((self.most + self.off)[:n].sum(axis=1) * n / rest) ** (1.0 / (n - self.powers[:n]))
        return float(sums.max()) * (1.0 + 1e-6) if sums.max() > 0.0 else 1.0

    def radius(self, omega: Real, slow: Real) -> Real:
        """Between chord and members, the modulus of all that is not slow, and rounding; shape of omega."""
        power = omega[:, None] ** self.powers
        size = power @ self.most
        phase = omega[:, None] * self.longest
        out = (
            power @ self.off
            + size * np.logical_not(slow)
            + _EPS * size * (20.0 + 4.0 * len(self.powers) + len(slow) + 2.0 * phase)
        )
        if np.any(self.turn) or np.any(self.late):
            moved = omega[:, None] * self.turn
            bend = np.minimum(moved**2 / 8.0 + omega[:, None] * self.late, 2.0)
            out = out + 0.25 * (power @ self.rise) * np.minimum(moved, 2.0) + size * bend
        return np.asarray(out.sum(axis=1))

    def remainder(self, omega: Real, slow: Real) -> Real:
        """A bound on the fourth derivative of the slow terms up to a frequency."""
        out = np.zeros_like(omega)
        theta = self.longest[slow]
        for j in self.powers.tolist():
            for i in range(min(4, j) + 1):
                weight = comb(4, i) * perm(j, i) * float((self.most[j, slow] * theta ** (4 - i)).sum())
                out += weight * omega ** (j - i)
        return out

    def values(self, omega: Real, slow: Real) -> tuple[Complex, Complex]:
        """Both ends' slow terms and their derivatives in w: shape (2, points)."""
        s = 1j * omega
        power = s[:, None] ** self.powers
        steep = np.zeros_like(power)
        steep[:, 1:] = self.powers[1:] * power[:, :-1]
        value, slope = [], []
        for c, theta in zip(self.c[:, :, slow], self.theta[:, slow], strict=True):
            e = np.exp(-s[:, None] * theta)
            inner = power @ c
            value.append((inner * e).sum(axis=1))
            slope.append(1j * ((steep @ c - inner * theta) * e).sum(axis=1))
        return np.array(value), np.array(slope)


def _nearest(ends: Complex) -> Complex:
    """The points next to 0 of segments between ends, shape (2, points)."""
    along = ends[1] - ends[0]
    with np.errstate(all="ignore"):
        t = np.clip(-(ends[0] * along.conj()).real / np.abs(along) ** 2, 0.0, 1.0)
    return np.asarray(ends[0] + np.where(np.isfinite(t), t, 0.0) * along)


def _clear(members: list[_Member], sampled: bool) -> bool:
    """Whether no member of an interval has a root on the boundary."""
    chord = _Chord(members, sampled)
    top = chord.top()
    if not top < inf:
        return False
    pieces = int(min(max(1.5 * top * float(chord.longest.max()), 16.0), 256.0))
    h: float = top / pieces
    low: Real = h * np.arange(float(pieces))
    for _ in range(60):
        slow = chord.longest * h <= 1.0
        high: Real = np.asarray(low + h)
        parts = []
        for omega in (low, high):
            value, slope = chord.values(omega, slow)
            parts.append((value, value + (h / 3.0) * slope if omega is low else value - (h / 3.0) * slope))
        corners = np.stack([parts[0][0], parts[0][1], parts[1][1], parts[1][0]])  # (4, 2, pieces)
        # rounding of the ends of pieces is within that of phases
        radius = chord.radius(high, slow) + h**4 / 384.0 * chord.remainder(high, slow)
        if slow.all() and np.any(np.abs(_nearest(corners[0])) <= chord.radius(low, slow)):
            return False  # no shorter piece will do
        good = np.zeros(len(low), bool)
        for toward in (_nearest(corners.mean(axis=0)), corners.sum(axis=(0, 1))):
            with np.errstate(all="ignore"):
                u = toward.conj() / np.abs(toward)
                good |= (u * corners).real.min(axis=(0, 1)) > radius * (1.0 + 1e-12)
        low = low[~good]
        if not len(low):
            return True
        h *= 0.5
        if len(low) > _MOST_PIECES or h < 1e-15 * top:
            return False
        low = np.concatenate([low, low + h])
    return False
