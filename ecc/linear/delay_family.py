"""Families with a delay as parameter: every crossing, from the frequencies at which any delay has a root on the axis.

A family here has constant matrices and delays that are affine in the gain, theta + k u g with integers k. With
z = exp(-s u g) its determinant is a polynomial in z with coefficients that depend on s alone,

    F(s, z) = A_0(s) + A_1(s) z + ... + A_K(s) z^K.

A root s = j w has |z| = 1, so that F(j w, z) and z^K conj F(j w, 1/conj z) have a common zero: a condition on w alone.
For K = 1 it is |A_0(j w)| = |A_1(j w)|; for K > 1 and polynomials A_k, a resultant in w^2. Its zeros, with proven
errors, give all crossings, at the gains g = (2 pi n - arg z)/(w u) for all n. The direction in which the roots cross
does not depend on n, since Re(1/(ds/dg)) does not. So windows of stability are known completely up to any gain, touches
included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import atan2, inf, isfinite, pi
from typing import Any, NamedTuple

import numpy as np

from ecc.errors import ConvergenceError
from ecc.linear.affine_family import NEGATIVE, recounted, runs_negative, unstable_roots
from ecc.linear.black_box_family import Found
from ecc.linear.characteristic import Real, Terms, align
from ecc.linear.exact_pair import AxisSum, Bounded, bits, modulus
from ecc.linear.imaginary_axis import Crossing, SumPair, isolate, joined_zeros
from ecc.linear.quasipolynomial import expanded

__all__ = ["SHARES", "DelayForm"]

SHARES = (0.2361, 0.5773, 0.9183)
"""Shares of a gain at which members determine the form; not simple ratios, so that delays rarely coincide."""
_MAX_POWER = 6  # maximum power of z
_MAX_DEGREE = 40  # maximum degree of the resultant in w^2
_MAX_CROSSINGS = 1 << 12
_TOLERANCE = 1e-13  # relative error of delays


@dataclass(frozen=True)
class _Lag:
    """The exponent theta + k u g, with `fixed` theta and `power` k."""

    fixed: Any
    power: int

    def __add__(self, other: _Lag) -> _Lag:
        return _Lag(self.fixed + other.fixed, self.power + other.power)


class _Branch(NamedTuple):
    """Crossings at (angle + 2 pi n)/(frequency u), n = 0, 1, ...; `change`: None if it is not known."""

    frequency: float
    angle: float
    change: int | None


@dataclass(frozen=True)
class DelayForm:
    """Members P(s) = s I + sum_k (B_k + s E_k) exp(-s (theta_k + p_k u g)), p_k integers >= 0.

    Parameters
    ----------
    matrices : tuple of two ndarray
        B_k and E_k, shape (K, n, n) each.
    fixed, powers : tuple of two ndarray
        theta_k and p_k of each.
    unit : float
        Common factor u of the delays that grow with the gain.
    """

    matrices: tuple[Real, Real]
    fixed: tuple[Real, Real]
    powers: tuple[Real, Real]
    unit: float
    is_exact = True

    @staticmethod
    def detect(members: Sequence[Terms], gains: Sequence[float]) -> DelayForm | None:
        """Infer the form from members; None if they do not have it, or roots may lie on the axis for every gain."""
        if members[0].sampled:
            return None
        matrices, fixed, rates = [], [], []
        for which in (0, 1):
            parts = []
            for member in members:
                pairs = [(m.tobytes(), tau, m) for m, tau in zip(*member.powers[which], strict=True)]
                parts.append(sorted((pair for pair in pairs if pair[2].any()), key=lambda pair: pair[:2]))
            if len({tuple(pair[0] for pair in part) for part in parts}) > 1:
                return None
            shape = members[0].constant.shape[1:]
            matrices.append(np.array([pair[2] for pair in parts[0]]).reshape(-1, *shape))
            tau = np.array([[pair[1] for pair in part] for part in parts]).reshape(len(parts), -1)
            rate = (tau[-1] - tau[0]) / (gains[-1] - gains[0])
            base = tau[0] - rate * gains[0]
            error = _TOLERANCE * tau.max(axis=0)
            if np.any(np.abs(tau[1] - base - rate * gains[1]) > error):
                return None
            same = np.abs(rate) * gains[-1] <= error
            is_proportional = ~same & (np.abs(base) <= 10.0 * error)
            fixed.append(np.where(is_proportional, 0.0, np.where(same, tau[0], base)))
            rates.append(np.where(same, 0.0, np.where(is_proportional, tau[-1] / gains[-1], rate)))
        positive_rates = np.concatenate([rate[rate != 0.0] for rate in rates])
        if not len(positive_rates) or positive_rates.min() < 0.0 or any(np.any(base < 0.0) for base in fixed):
            return None
        unit = float(positive_rates.min())
        powers = [np.round(rate / unit) for rate in rates]
        if any(np.any(np.abs(rate / unit - p) > 1e-12 * p) for rate, p in zip(rates, powers, strict=True)):
            return None
        form = DelayForm((matrices[0], matrices[1]), (fixed[0], fixed[1]), (powers[0], powers[1]), unit)
        return form if form._is_solved else None

    def member(self, gain: float) -> Terms:
        """Return the member at a gain."""
        delays = [base + p * (self.unit * gain) for base, p in zip(self.fixed, self.powers, strict=True)]
        return Terms(self.matrices[0], delays[0], self.matrices[1], delays[1], False)

    def agrees(self, member: Terms, gain: float) -> bool:
        """Return whether a member of the family agrees with the form."""
        model = self.member(gain)
        for actual, expected in zip(member.powers, model.powers, strict=True):
            remaining = [(tau, matrix.copy()) for matrix, tau in zip(*actual, strict=True)]
            for matrix, tau in zip(*expected, strict=True):
                near = [known for known in remaining if abs(known[0] - tau) <= 2.0 * _TOLERANCE * max(tau, known[0])]
                if not near:
                    return False
                near[0][1][...] -= matrix  # coinciding delays form one term of the member
            size = np.abs(expected[0]).sum(axis=0)
            if any(np.any(np.abs(rest) > 1e-13 * size) for _, rest in remaining):
                return False
        return True

    def count(self, gain: float) -> int:
        """Return the unstable roots of the member at a gain."""
        return unstable_roots(self.member(gain))

    @cached_property
    def _parts(self) -> list[dict[Any, Any]] | None:
        """The polynomials A_0 to A_K: theta -> polynomial."""
        from flint import fmpq

        tables = []
        for matrices, fixed, powers in zip(self.matrices, self.fixed, self.powers, strict=True):
            lags = [
                _Lag(fmpq(*theta.as_integer_ratio()), int(p))
                for theta, p in zip(fixed.tolist(), powers.tolist(), strict=True)
            ]
            tables.append((lags, [matrix.ravel().tolist() for matrix in matrices]))
        terms = expanded(self.matrices[0].shape[1], False, tables, _Lag(fmpq(0), 0))
        if terms is None:
            return None
        out: list[dict[Any, Any]] = [{} for _ in range(1 + max(lag.power for lag in terms))]
        for lag, p in terms.items():
            out[lag.power][lag.fixed] = p
        return out

    @cached_property
    def _is_polynomial(self) -> bool:
        assert self._parts is not None
        return all(theta == 0 for part in self._parts for theta in part)

    @property
    def _is_solved(self) -> bool:
        parts = self._parts
        if parts is None or len(parts) > 1 + _MAX_POWER:
            return False
        states = self.matrices[0].shape[1]
        if len(parts) > 2 and not (self._is_polynomial and (len(parts) - 1) * states <= _MAX_DEGREE):
            return False
        at_zero = sum((p[0] for part in parts for p in part.values()), 0)
        middle = align(self.member(1.0 / self.unit))[0]
        return bool(at_zero != 0) and middle.strong(0.0).holds is True and isfinite(middle.bound(0.0))

    @cached_property
    def branches(self) -> list[_Branch]:
        """Series of crossings, one for each frequency and z."""
        assert self._parts is not None
        return self._two_terms() if len(self._parts) <= 2 else self._resultant()

    def _two_terms(self) -> list[_Branch]:
        assert self._parts is not None
        if len(self._parts) < 2 or not (self._parts[0] and self._parts[1]):
            return []
        a_0, a_1 = (AxisSum.of(part) for part in self._parts)
        top = align(self.member(1.0 / self.unit))[0].bound(0.0) * (1.0 + 1e-6)
        bound = Bounded(modulus, a_0, a_1)
        low, high, *doubtful = isolate(
            SumPair(a_0, a_1, False, self.matrices[0].shape[1]), modulus.floats, top, bound.errors
        )
        low, high = np.concatenate([low, doubtful[0]]), np.concatenate([high, doubtful[1]])
        order = np.argsort(low)
        out = []
        for zero in joined_zeros(bound, low[order], high[order]):
            with bits():
                a, b = a_0.ball(zero.frequency)[0], a_1.ball(zero.frequency)[0]
                if not (abs(a) > 0 and abs(b) > 0):
                    raise ConvergenceError("a root lies on the boundary for every gain", float(zero.frequency))
                # roots turn unstable if |A_0|^2 - |A_1|^2 rises
                out.append(_Branch(float(zero.frequency), _angle(-a / b), 2 * zero.rises))
        return out

    def _resultant(self) -> list[_Branch]:
        from flint import acb, acb_poly, arb, fmpq, fmpq_mpoly_ctx, fmpq_poly

        assert self._parts is not None
        parts = [part.get(fmpq(0), fmpq_poly()) for part in self._parts]
        last = len(parts) - 1
        s, z = fmpq_mpoly_ctx.get(("s", "z")).gens()
        terms = [(c, i, k) for k, p in enumerate(parts) for i, c in enumerate(p.coeffs())]
        direct = sum((c * s**i * z**k for c, i, k in terms), 0 * s)
        mirror = sum(((-1) ** i * c * s**i * z ** (last - k) for c, i, k in terms), 0 * s)
        known = {int(powers[0]): c for powers, c in direct.resultant(mirror, "z").to_dict().items()}
        if not known:
            raise ConvergenceError("roots lie on the boundary for every gain", None)
        odd = min(known) % 2
        in_x = fmpq_poly([(-1) ** k * known.get(2 * k + odd, 0) for k in range(max(known) // 2 + 1)])  # x = w^2 = -s^2
        out = []
        with bits():
            roots: list[Any] = in_x.complex_roots()
            for x, _ in roots:
                if not (x.imag == 0 and x.real > 0):
                    continue
                w = x.real.sqrt()
                at = acb(0, w)
                values = [acb_poly(p)(at) for p in parts]
                while values and bool(abs(values[-1]) < 2.0**-200 * sum((abs(v) for v in values), arb(0))):
                    values.pop()
                for root in _zeros(values):
                    if not abs(abs(root) - 1) < 2.0**-60:
                        continue
                    slope = sum((acb_poly(p.derivative())(at) * root**k for k, p in enumerate(parts)), acb(0))
                    rise = at * sum((k * v * root**k for k, v in enumerate(values)), acb(0))
                    speed = (slope / rise).real if abs(rise) > 0 else arb(0)
                    sure = abs(rise) > 0 and abs(speed) > 2.0**-60 * abs(slope / rise)
                    out.append(_Branch(float(w), _angle(root), (2 if speed > 0 else -2) if sure else None))
        return sorted(out, key=lambda branch: branch[:2])

    def follow(self, maximum: float) -> Found:
        """Return the unstable roots as the gain tends to 0, crossings, and the gain up to which they are complete."""
        if not self.branches:
            return self.count(min(maximum, 1.0 / self.unit)), [], maximum
        rates = np.array([b.frequency * self.unit for b in self.branches])
        angles = np.array([b.angle for b in self.branches])
        first = angles / rates
        start = self.count(0.5 * min(float(first.min()), maximum))
        changes = [b.change or 0 for b in self.branches]
        unknown = [i for i, b in enumerate(self.branches) if b.change is None]
        if unknown:
            end = float(first[unknown].max()) * (1.0 + 1e-6)
            near = recounted(self.count, start, self._up_to(end, changes), end)
            jumps = {(c.gain, c.frequency): c.change for c in near}
            for i in unknown:
                changes[i] = jumps[float(first[i]), self.branches[i].frequency]
        end = min(self._settled(rates, angles, changes, start), _MAX_CROSSINGS * 2.0 * pi / float(rates.sum()), maximum)
        crossings = self._up_to(end, changes)
        if runs_negative(start, crossings):
            raise ConvergenceError(NEGATIVE, crossings)
        return start, crossings, end

    def _up_to(self, end: float, changes: Sequence[int]) -> list[Crossing]:
        out = []
        for branch, change in zip(self.branches, changes, strict=True):
            rate = branch.frequency * self.unit
            turns = np.arange(max(0, int((end * rate - branch.angle) / (2.0 * pi)) + 1))
            gains = (branch.angle + 2.0 * pi * turns) / rate
            out += [Crossing(gain, branch.frequency, change) for gain in gains.tolist() if gain <= end]
        return ordered(out)

    @staticmethod
    def _settled(rates: Real, angles: Real, changes: Sequence[int], start: int) -> float:
        """Return a gain beyond which roots stay unstable, or inf."""
        change = np.array(changes, float)
        slope = float((change * rates).sum()) / (2.0 * pi)
        if slope <= 0.0:
            return inf
        down = change < 0.0
        min_unstable = start - float((change[~down] * angles[~down]).sum()) / (2.0 * pi)
        min_unstable += float((change[down] * (1.0 - angles[down] / (2.0 * pi))).sum())
        return max(float(((8.0 * pi + angles) / rates).max()), (1.0 - min_unstable) / slope)


def _zeros(coefficients: list[Any]) -> list[Any]:
    from flint import acb_poly

    if len(coefficients) < 2:
        return []
    try:
        return list(acb_poly([c.mid() for c in coefficients]).roots(tol=2.0**-100, maxprec=1024))
    except ValueError as error:
        raise ConvergenceError("roots cross the boundary together", None) from error


def _angle(z: Any) -> float:
    """Return the angle in (0, 2 pi] with z = exp(-j angle)."""
    z = complex(z.mid())
    angle = -atan2(z.imag, z.real) % (2.0 * pi)
    return angle if angle > 1e-14 else 2.0 * pi


def ordered(crossings: Sequence[Crossing]) -> list[Crossing]:
    """Return crossings by increasing gain; within rounding of each other, those that turn unstable are first."""
    out = sorted(crossings)
    at = 0
    while at < len(out):
        end = at
        while end + 1 < len(out) and out[end + 1].gain <= out[at].gain * (1.0 + 4e-15):
            end += 1
        out[at : end + 1] = sorted(out[at : end + 1], key=lambda c: (-c.change, c.frequency))
        at = end + 1
    return out
