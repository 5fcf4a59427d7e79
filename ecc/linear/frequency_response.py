"""The open loop on the boundary of stability, with exact delays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, log, log1p, log10, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ecc._support.display import Displayed, Rows, frequency_text
from ecc.errors import ConvergenceError
from ecc.linear.bordered_loop import BorderedLoop
from ecc.linear.characteristic import Complex, Real
from ecc.linear.imaginary_axis import Pair, ratio
from ecc.linear.systems import LinearSystem

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["FrequencyResponse", "nyquist", "settled_beyond"]

_MAX_FREQUENCY = 1e30  # times the sum of the matrices: limit of the search for the decay of a loop


@dataclass(frozen=True, eq=False, repr=False)
class FrequencyResponse(Displayed):
    """Samples of the open loop, the input of `ecc.plot.bode_figure` and `nyquist_figure`.

    Attributes
    ----------
    omega : ndarray, shape (m,)
        Frequency, rad/s (DelaySystem) or rad/step (SampledSystem).
    response : complex ndarray, shape (m,)
        Open loop L.
    sampled, dt : bool, float or None
        Whether omega is in rad/step, and the length of a step [s], or None.
    unmarked : callable or None
        Returns the reason why figures mark no margins, for example an unstable loop; "" if they mark them, as for None.
    """

    omega: Real
    response: Complex
    sampled: bool = False
    dt: float | None = None
    unmarked: Callable[[], str] | None = None

    @property
    def unit(self) -> str:
        """Unit of `frequency`."""
        return "rad/step" if self.sampled and self.dt is None else "rad/s"

    @property
    def frequency(self) -> Real:
        """Shape (m,): omega in rad/s if the length of a step is known."""
        return self.omega if self.dt is None else self.omega / self.dt

    def plot(self, kind: str = "nyquist") -> go.Figure:
        """Return a Plotly figure of the open loop.

        Parameters
        ----------
        kind : str, optional
            "nyquist": in the complex plane; "bode": modulus and phase over the frequency.

        Raises
        ------
        ValueError
            The kind is unknown.
        """
        from ecc.plot import bode_figure, nyquist_figure

        if kind not in ("nyquist", "bode"):
            raise ValueError(f"kind must be 'nyquist' or 'bode', got {kind!r}")
        draw = nyquist_figure if kind == "nyquist" else bode_figure
        return draw({"open loop": self}, marks=self.margin_points())

    @cached_property
    def without_margins(self) -> str:
        """Reason why the curve has no margins, for example an unstable closed loop; "" if it has."""
        return "" if self.unmarked is None else self.unmarked()

    def margin_points(self) -> dict[str, tuple[float, complex]]:
        """Return the points of the classical margins by interpolation, for the marks of a figure.

        `system.margins()` computes margins exactly, and considers every crossing; a figure has those nearest to -1.

        Returns
        -------
        dict
            Label -> frequency and L there; empty if the curve has no margins (`without_margins`).

        Examples
        --------
        >>> list(DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0])).nyquist().margin_points())
        ['phase margin 32.7°', 'gain margin 1.57 (3.92 dB)']
        """
        if self.without_margins:
            return {}
        w, value = self.frequency, self.response
        known = np.isfinite(value) & (value != 0.0)
        w, value = w[known], value[known]
        marks: dict[str, tuple[float, complex]] = {}
        with np.errstate(invalid="ignore", divide="ignore"):
            size = np.log(np.abs(value))
        at_one = _crossings(w, value, size)
        if at_one:
            frequency, point = min(at_one, key=lambda pair: abs(pair[1] + 1.0))
            degrees = float(np.degrees(np.angle(-point)))
            marks[f"phase margin {degrees:.3g}°"] = frequency, point
        on_axis = [pair for pair in _crossings(w, value, value.imag) if pair[1].real < 0.0]
        if on_axis:
            frequency, point = min(on_axis, key=lambda pair: abs(log(-pair[1].real)))
            factor = -1.0 / point.real
            marks[f"gain margin {factor:.3g} ({20.0 * log10(factor):.3g} dB)"] = frequency, point
        return marks

    def _title(self) -> str:
        return "Frequency response of an open loop"

    def _rows(self) -> Rows:
        size = np.abs(self.response)
        rows = [("samples", str(len(self.omega)))]
        if len(self.omega):
            ends = (frequency_text(float(w), self.sampled, self.dt) for w in self.omega[[0, -1]])
            rows += [("from, to", ", ".join(ends)), ("|L|", f"{size.min():.4g} to {size.max():.4g}")]
        return rows


def _crossings(w: Real, value: Complex, level: Real) -> list[tuple[float, complex]]:
    """Return frequencies at which a real function of samples changes its sign, and the value there, interpolated."""
    places = np.flatnonzero(np.signbit(level[1:]) != np.signbit(level[:-1]))
    shares = level[places] / (level[places] - level[places + 1])
    return [
        (float(w[k] + share * (w[k + 1] - w[k])), complex(value[k] + share * (value[k + 1] - value[k])))
        for k, share in zip(places.tolist(), shares.tolist(), strict=True)
    ]


def settled_beyond(pair: Pair | BorderedLoop, level: float) -> float:
    """Return a frequency above which |L| < level, proven by absolute values.

    With A, E the sums of absolute values in the open system and D, G those of the difference to the closed one,
    |L| = |det(I + P0^-1 (P1 - P0)) - 1| <= det(w (I - E) - A)/det(w (I - E - G) - A - D) - 1 if the second matrix has a
    nonnegative inverse, as log det(I + X) is a series of traces of powers of X. The bound falls with w.
    """
    if pair.sampled:
        return pi
    if isinstance(pair, BorderedLoop):
        return _narrowed(lambda w: pair.is_below(level, w), pair.start)
    (base, neutral), (change, change_neutral) = (
        [part[0] for part in ch.moments(0.0)] for ch in (pair.low, pair.change)
    )
    allowed = (level - abs(pair.weight - 1.0)) / pair.weight
    eye, start = np.eye(pair.low.size), float((base + change).sum())
    if start == 0.0:
        return 1.0

    def settled(w: float) -> bool:
        opened, more = w * (eye - neutral) - base, w * change_neutral + change
        with np.errstate(all="ignore"):
            try:
                back = np.linalg.inv(opened), np.linalg.inv(opened - more)
            except np.linalg.LinAlgError:
                return False
        if not all(np.all(inverse >= -1e-12 * np.abs(inverse).max()) for inverse in back):
            return False
        ratio = back[0] @ more  # the bound is 1/det(I - ratio) - 1
        with np.errstate(divide="ignore"):  # the bound is infinite if an eigenvalue is 1
            bound = -np.log1p(-np.linalg.eigvals(ratio)).sum().real
        return bool(bound * (1.0 + 1e-9) + 1e-14 * np.abs(ratio).max() < log1p(allowed))

    top = _narrowed(settled, start) if allowed > 0.0 else inf
    return top if isfinite(top) else _settled_by_reach(pair, level)


def _narrowed(settled: Callable[[float], bool], start: float) -> float:
    """Return a frequency within 5 % of the lowest one at which the bound holds; inf if it is above 1e30 start."""
    high = start
    while high < _MAX_FREQUENCY * start and not settled(high):
        high *= 4.0
    if not settled(high):
        return inf
    low = high / 4.0
    while settled(low):
        low /= 4.0
    while high > 1.05 * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high


def _settled_by_reach(pair: Pair, level: float) -> float:
    """Return the same if absolute values are too coarse for the neutral part, which must be equal in both systems."""
    radius = max(pair.low.bound(0.0), pair.high.bound(0.0))
    if not isfinite(radius) or pair.weight != 1.0 or np.any(pair.change.slope):
        raise ConvergenceError(
            "margins need a loop gain that falls to 0 at high frequencies: the neutral part of the loop prevents it",
            None,
        )
    return float(radius / -np.expm1(-log1p(level) / (2 * pair.low.size)) * (1.0 + 1e-6))


def nyquist(system: LinearSystem, omega: ArrayLike | None = None) -> FrequencyResponse:
    """Return the open loop on the boundary of stability: L(j w), or L(exp(j w)) for a sampled system.

    Parameters
    ----------
    system : LinearSystem
        DelaySystem or SampledSystem built with `opened`.
    omega : array_like, shape (m,), finite, optional
        Frequencies, rad/s or rad/step; None: a mesh on which the curve moves by less than 0.05 on the Riemann sphere
        from point to point, and by less than 6 % of |L| unless that is below 0.02, up to a frequency above which |L|
        stays below 0.01, or to pi.

    Returns
    -------
    FrequencyResponse

    Raises
    ------
    ValueError
        `opened` is missing, or omega is not one-dimensional or not finite.
    """
    opened = system._opened()
    weight = system._leading_determinant / opened._leading_determinant
    pair = Pair(opened.terms(), system.terms(), 1.0, weight, system._removable.count(0.0))
    if omega is not None:
        points = np.asarray(omega, dtype=np.float64)
        if points.ndim != 1 or not np.all(np.isfinite(points)):
            raise ValueError(f"omega must be one-dimensional and finite, got shape {points.shape}")
        return FrequencyResponse(points, ratio(pair, points), *system.sampling)
    top = settled_beyond(pair, 0.01)
    points = np.geomspace(1e-4 * min(top, 1.0 / pair.band if pair.band else top), top, 300)
    points[-1] = top
    response = ratio(pair, points)
    for _ in range(10):
        if len(points) > 20_000:
            break
        size = 1.0 + np.abs(response) ** 2
        step = np.abs(np.diff(response))
        far = 2.0 * step > 0.05 * np.sqrt(size[1:] * size[:-1])
        far |= step > 0.06 * np.maximum(np.abs(response[1:]), 0.02)  # no corners near the origin, at phase crossovers
        if not far.any():
            break
        new = 0.5 * (points[1:] + points[:-1])[far]
        at = np.flatnonzero(far) + 1
        points, response = np.insert(points, at, new), np.insert(response, at, ratio(pair, new))
    return FrequencyResponse(points, response, *system.sampling)
