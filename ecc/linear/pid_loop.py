"""The characteristic function of a plant in unit feedback with a PID controller, over boxes of its gains.

For a plant N(s)/D(s) with delays in both, and the controller kp + ki/s + kd s/(tf s + 1),

    F(s) = A(s) + (kp s + ki) N1(s) + kd N2(s),   A = s (tf s + 1) D,   N1 = (tf s + 1) N,   N2 = s^2 N.

A gain factor g and a change delta of the dead time multiply N by g exp(-s delta). A box of kp, ki, g and delta has no
root on s = j w if, with F0 at the center of the box after multiplication by exp(j w delta),

    |Re(F0 conj N1)| > r_i |N1|^2 + rho |N1|,  or  |Im(F0 conj N1)| > w r_p |N1|^2 + rho |N1|,
    or  |F0| > rho + (w r_p + r_i) |N1|,

where r_p and r_i are the half widths of g kp and g ki, and rho bounds the other uncertain terms. On a piece of the axis
every quantity is its value and derivative at the center of the piece, with a proven bound on the rest and on rounding.
Above the last piece, A is larger than all other terms. If no piece fails, the number of unstable roots is constant over
the box.

The sensitivity is S = A/F. |S| <= M over the box if F - A z is not 0 for |z| <= 1/M, which adds |A|/M to rho.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.linear.characteristic import Complex, Real, align
from ecc.linear.delay_model import DelayModel
from ecc.linear.exact_pair import AxisSum
from ecc.linear.quasipolynomial import QuasiPolynomial

__all__ = ["Box", "PIDLoop"]

_MAX_PIECES = 1 << 16  # pieces of the axis that may fail at once
_MIN_PIECE = 1e-9  # relative to the frequency
_FIRST_PIECES = 256


class Box(NamedTuple):
    """Intervals of kp, ki, of a factor on the gain of the plant, and of a change of its dead time [s]."""

    kp: tuple[float, float]
    ki: tuple[float, float]
    gain: tuple[float, float] = (1.0, 1.0)
    delay: tuple[float, float] = (0.0, 0.0)

    def halves(self, weights: Sequence[float]) -> list[Box]:
        """Return the halves of the interval whose width has the largest weight."""
        widths = [weight * (high - low) for (low, high), weight in zip(self, weights, strict=True)]
        axis = int(np.argmax(widths))
        low, high = self[axis]
        middle = 0.5 * (low + high)
        parts = (low, middle), (middle, high)
        return [Box(*(part if i == axis else x for i, x in enumerate(self))) for part in parts]

    def center(self) -> tuple[float, float, float, float]:
        """Return the middle of each interval."""
        kp, ki, gain, delay = (0.5 * (low + high) for low, high in self)
        return kp, ki, gain, delay


def _scaled(interval: tuple[float, float], factor: tuple[float, float]) -> tuple[float, float]:
    """Return center and half width of the products of two intervals, rounded outward."""
    ends = [x * f for x, f in product(interval, factor)]
    low, high = min(ends), max(ends)
    center = 0.5 * (low + high)
    return center, max(high - center, center - low) * (1.0 + 1e-15) + 1e-15 * max(abs(low), abs(high)) * (low != high)


@dataclass(frozen=True)
class _Piece:
    """A complex function on pieces: value and derivative at the centers, bounds on errors, and on F, F' and F''."""

    value: Complex
    slope: Complex
    noise: Real
    bounds: Real

    @staticmethod
    def of(terms: AxisSum, middle: Real, half: Real) -> _Piece:
        value, slope = terms.at(middle)
        return _Piece(
            value, slope, terms.noise(middle), np.broadcast_to(terms.bounds(middle + half)[:3], (3, len(middle)))
        )

    def times(self, factor: Any) -> _Piece:
        size = np.abs(factor)
        return _Piece(self.value * factor, self.slope * factor, self.noise * size, self.bounds * size)

    def plus(self, other: _Piece) -> _Piece:
        return _Piece(
            self.value + other.value, self.slope + other.slope, self.noise + other.noise, self.bounds + other.bounds
        )

    def turned(self, delay: float, middle: Real) -> _Piece:
        """Return the function times exp(j w delay)."""
        if delay == 0.0:
            return self
        turn = np.exp(1j * middle * delay)
        b = self.bounds
        lag = abs(delay)
        bounds = np.array([b[0], b[1] + lag * b[0], b[2] + 2.0 * lag * b[1] + lag**2 * b[0]])
        noise = self.noise + 1e-15 * (2.0 + lag * middle) * b[0]
        return _Piece(self.value * turn, (self.slope + 1j * delay * self.value) * turn, noise, bounds)

    def radius(self, half: Real) -> Real:
        """Return bounds on the distance of F from its values at the centers of the pieces."""
        return np.asarray(
            half * np.abs(self.slope) + 0.5 * half**2 * self.bounds[2] + self.noise + 1e-14 * self.bounds[0]
        )

    def modulus(self, half: Real) -> tuple[Real, Real]:
        """Return bounds of |F| on the pieces."""
        spread, size = self.radius(half), np.abs(self.value)
        return np.maximum(size - spread, 0.0), size + spread


def _products(first: _Piece, second: _Piece, half: Real) -> tuple[Real, Real]:
    """Return lower bounds of |Re| and |Im| of first conj(second) on the pieces."""
    value = first.value * second.value.conj()
    slope = first.slope * second.value.conj() + first.value * second.slope.conj()
    b, c = first.bounds, second.bounds
    curve = b[2] * c[0] + 2.0 * b[1] * c[1] + b[0] * c[2]
    noise = first.noise * c[0] + second.noise * b[0] + 1e-14 * b[0] * c[0]
    rest = 0.5 * half**2 * curve + noise
    return tuple(np.abs(v) - half * np.abs(d) - rest for v, d in ((value.real, slope.real), (value.imag, slope.imag)))


class PIDLoop:
    """Exact sums of a loop with a SISO plant and a PID controller.

    Parameters
    ----------
    plant : DelayModel
        Plant with one input and one output.
    kd, tf : float
        Derivative gain, and time constant of its filter, s.

    Raises
    ------
    ValueError
        The plant is not SISO, has no state, feedthrough, a neutral part, distributed delays, or a zero at 0; or tf is 0
        although kd acts on a plant with one pole more than zeros.
    """

    def __init__(self, plant: DelayModel, kd: float, tf: float) -> None:
        if not plant.is_siso:
            raise ValueError(f"plant must have one input and one output, got {plant.n_inputs} and {plant.n_outputs}")
        if not plant.n_states:
            raise ValueError("plant must have a state, got gains and delays")
        if plant.removable:
            raise ValueError("plant must have no distributed delays")
        closed = plant.loop()
        opened = closed.opened
        assert opened is not None
        sums = [QuasiPolynomial.of(align(system.terms())[0]) for system in (opened, closed)]
        if sums[0] is None or sums[1] is None:
            raise ValueError(f"plant must have at most 12 states and few delays, got {plant!r}")
        if any(np.any(system.terms().slope) for system in (opened, closed)):
            raise ValueError("plant must fall to 0 at high frequencies, and no signal may return through delays alone")
        d, n = sums[0].terms, dict(sums[1].terms)
        for theta, p in d.items():
            n[theta] = n.get(theta, 0) - p
        n = {theta: p for theta, p in n.items() if p}
        if not sum(p[0] for p in n.values()):
            raise ValueError("plant must have no zero at s = 0, at which integral action has no effect")
        lags, leads = (max(p.degree() for p in sum_.values()) for sum_ in (d, n))
        if kd != 0.0 and tf == 0.0 and leads + 1 >= lags:
            raise ValueError("tf must be > 0 s if kd acts on a plant with one pole more than zeros")
        self.plant, self.kd, self.tf = plant, kd, tf
        self.d, self.n = AxisSum.of(d), AxisSum.of(n)
        self.a = _times(d, [0.0, 1.0, tf])
        self.n1, self.n2 = _times(n, [1.0, tf]), _times(n, [0.0, 0.0, 1.0])

    def inverse(self, omega: Real) -> Complex:
        """Return 1/G + kd s/(tf s + 1) at s = j omega, which is -(kp + ki/s) on the boundary."""
        s = 1j * omega
        with np.errstate(all="ignore"):
            return np.asarray(self.d.at(omega)[0] / self.n.at(omega)[0] + self.kd * s / (self.tf * s + 1.0))

    def gains(self, omega: Real) -> tuple[Real, Real]:
        """Return (kp, ki) with a root at j omega."""
        value = self.inverse(omega)
        return -value.real, omega * value.imag

    def top(self, kp: float, ki: float, kd: float, share: float = 1.0) -> float:
        """Return a frequency above which no root lies on the axis, for gains up to these moduli.

        Parameters
        ----------
        kp, ki, kd : float
            Largest moduli of the gains, with those of the plant's gain factor.
        share : float, optional
            Share of A that other terms may reach.
        """
        lead = len(self.a.c) - 1
        sums = np.zeros(max(lead, len(self.n1.c) + 1, len(self.n2.c)) + 1)
        sums[: lead + 1] += np.abs(self.a.c).sum(axis=1) * share
        at_zero = int(np.argmin(self.a.theta))
        main = share * abs(float(self.a.c[lead, at_zero]))
        sums[lead] -= main
        for weight, c, shift in ((kp, self.n1.c, 1), (ki, self.n1.c, 0), (kd, self.n2.c, 0)):
            sums[shift : shift + len(c)] += abs(weight) * np.abs(c).sum(axis=1)
        if sums[lead] >= 0.5 * main or np.any(sums[lead + 1 :]):
            return inf
        powers = np.arange(float(lead))
        w = 1.0
        while (sums[:lead] * w ** (powers - lead)).sum() + sums[lead] >= 0.999 * main:
            w *= 2.0
        while (sums[:lead] * (0.9 * w) ** (powers - lead)).sum() + sums[lead] < 0.999 * main:
            w *= 0.9
        return float(w)

    def is_clear(self, box: Box, max_sensitivity: float = inf) -> bool:
        """Return whether it is proven that no member of a box has a root on the boundary, or exceeds a sensitivity.

        Parameters
        ----------
        box : Box
            Intervals of gains, of a factor on the plant, and of a change of its dead time.
        max_sensitivity : float, optional
            Bound > 1 on |S|.
        """
        p, q, kd = (_scaled(x, box.gain) for x in (box.kp, box.ki, (self.kd, self.kd)))
        share = 1.0 - 1.0 / max_sensitivity
        max_p, max_q, max_kd = (abs(center) + radius for center, radius in (p, q, kd))
        top = self.top(max_p, max_q, max_kd, share)
        if not top < inf:
            return False
        ends = np.concatenate([[0.0], np.geomspace(1e-4 * top, top, _FIRST_PIECES)])
        low, high = ends[:-1], ends[1:]
        while len(low):
            good = self._clear_on(low, high, box, (p, q, kd), 1.0 - share)
            low, high = low[~good], high[~good]
            if len(low) > _MAX_PIECES or np.any(high - low < np.maximum(_MIN_PIECE * high, _MIN_PIECE**1.5 * top)):
                return False
            middle = 0.5 * (low + high)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        return True

    def unclear_plant(
        self, kp: float, ki: float, gain: tuple[float, float], delay: tuple[float, float], max_sensitivity: float = inf
    ) -> tuple[float, float] | None:
        """Return None if no plant of intervals is proven to put a root on the boundary or to exceed a sensitivity.

        At a frequency, the loop gains of all plants fill a sector of a ring. Its distance from -1 must be larger than
        1/max_sensitivity. This is tested on pieces of the axis, on which the nominal loop gain lies in a disk.

        Parameters
        ----------
        kp, ki : float
            Gains.
        gain, delay : (low, high)
            Intervals of the factor on the gain of the plant and of the change of its dead time, s.
        max_sensitivity : float, optional
            Bound > 1 on |S|.

        Returns
        -------
        tuple of two float, or None
            Factor and change of the dead time of a plant that is closest to -1 on a piece that fails.
        """
        level = 1.0 / max_sensitivity
        max_p, max_q, max_kd = (gain[1] * abs(x) for x in (kp, ki, self.kd))
        top = self.top(max_p, max_q, max_kd, 1.0 - level)
        if not top < inf:
            return gain[1], delay[1]
        shift, spread = 0.5 * sum(delay), 0.5 * (delay[1] - delay[0])
        ends = np.concatenate([[0.0], np.geomspace(1e-4 * top, top, _FIRST_PIECES)])
        low, high = ends[:-1], ends[1:]
        while len(low):
            middle, half = 0.5 * (low + high), 0.5 * (high - low) * (1.0 + 1e-12)
            a, controlled = self._parts_on(middle, half, kp, ki, self.kd)
            a = a.turned(shift, middle)
            r_a, r_b = (part.radius(half) for part in (a, controlled))
            size_a, size_b = np.abs(a.value), np.abs(controlled.value)
            far = gain[0] * (size_b - r_b) > (1.0 + level) * (size_a + r_a) * (1.0 + 1e-12)
            with np.errstate(all="ignore"):
                ratio = controlled.value / a.value
                size = np.abs(ratio)
                radius = np.where(r_a < size_a, (r_b + size * r_a) / (size_a - r_a), inf) + 1e-15 * size
                turn = np.where(radius < size, np.arcsin(np.minimum(radius / size, 1.0)), pi) + spread * high + 1e-14
                nearest, farthest = gain[0] * np.maximum(size - radius, 0.0), gain[1] * (size + radius)
                off = np.maximum(np.abs(np.angle(-ratio)) - turn, 0.0)
                closest = np.clip(np.cos(off), nearest, farthest)
                distance = np.hypot(closest - np.cos(off), np.sin(off))
                good = far | (off >= 0.5 * pi) | (distance > level + 1e-13)
            low, high = low[~good], high[~good]
            tiny = high - low < np.maximum(_MIN_PIECE * high, _MIN_PIECE**1.5 * top)
            if len(low) > _MAX_PIECES or tiny.any():
                at = np.flatnonzero(~good)[int(np.argmin(distance[~good]))]
                factor = float(np.clip(closest[at] / size[at], *gain)) if size[at] > 0.0 else gain[1]
                late = float(np.clip(np.angle(-ratio[at]), -spread * middle[at], spread * middle[at]) / middle[at])
                return factor, shift + late
            middle = 0.5 * (low + high)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        return None

    def _parts_on(self, middle: Real, half: Real, kp: float, ki: float, kd: float) -> tuple[_Piece, _Piece]:
        """Return the denominator and the numerator of the loop gain on pieces."""
        a, n1, n2 = (_Piece.of(terms, middle, half) for terms in (self.a, self.n1, self.n2))
        line = 1j * middle * kp + ki
        size = abs(kp) * (middle + half) + abs(ki)
        b = n1.bounds
        controlled = _Piece(
            n1.value * line,
            n1.slope * line + 1j * kp * n1.value,
            n1.noise * size + 1e-15 * size * b[0],
            np.array([b[0] * size, b[1] * size + abs(kp) * b[0], b[2] * size + 2.0 * abs(kp) * b[1]]),
        )
        return a, controlled.plus(n2.times(kd))

    def _clear_on(
        self, low: Real, high: Real, box: Box, gains: Sequence[tuple[float, float]], on_a: float
    ) -> NDArray[np.bool_]:
        (p0, r_p), (q0, r_q), (kd0, r_d) = gains
        middle, half = 0.5 * (low + high), 0.5 * (high - low) * (1.0 + 1e-12)
        shift = 0.5 * sum(box.delay)
        spread = 0.5 * (box.delay[1] - box.delay[0])
        n1, n2 = (_Piece.of(terms, middle, half) for terms in (self.n1, self.n2))
        a, controlled = self._parts_on(middle, half, p0, q0, kd0)
        f0 = a.turned(shift, middle).plus(controlled)
        max_a, max_n1, max_n2 = (part.modulus(half)[1] for part in (a, n1, n2))
        rho = (np.minimum(spread * high, 2.0) + on_a) * max_a + r_d * max_n2
        real, imaginary = _products(f0, n1, half)
        return np.asarray(
            (real > r_q * max_n1**2 + rho * max_n1)
            | (imaginary > high * r_p * max_n1**2 + rho * max_n1)
            | (f0.modulus(half)[0] > rho + (high * r_p + r_q) * max_n1)
        )


def _times(terms: dict[Any, Any], coefficients: Sequence[float]) -> AxisSum:
    """Return a sum of exponentials times a polynomial in s, in rational numbers."""
    from flint import fmpq, fmpq_poly

    factor = fmpq_poly([fmpq(*float(x).as_integer_ratio()) for x in coefficients])
    return AxisSum.of({theta: p * factor for theta, p in terms.items()})
