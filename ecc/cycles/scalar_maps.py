"""Bifurcations of maps of one number: period doubling, and collisions of an orbit with a border where the map kinks.

An orbit x_1 -> x_2 -> ... -> x_n -> x_1 of x <- f(x) has the multiplier f'(x_1) ... f'(x_n), exact by jets.

    period doubling     the multiplier is -1. With g = f^n, a stable orbit of twice the period appears if
                        g''^2/2 + g'''/3 > 0 (supercritical); otherwise an unstable one disappears
    border collision    a point of the orbit meets the border x = b. With the multipliers l and r on its two sides,
                        x <- mu + l x (x < 0), mu + r x (x > 0) is the normal form at the border:
                        (1 - l)(1 - r) > 0  the orbit crosses the border; < 0: two orbits meet there and disappear
                        (1 + l)(1 + r) < 0  an orbit of twice the period appears, stable if |l r| < 1

The conditions for border collisions follow from solving the normal form for fixed points and orbits of period 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import as_count, as_number
from ecc.errors import ConvergenceError
from ecc.laws.jets import JETS, Jet, rebind

__all__ = ["BorderCollision", "PeriodDoubling", "ScalarOrbit", "border_collision", "period_doubling", "scalar_orbit"]

_NEWTON, _HALVINGS, _CLOSE = 80, 40, 1e-13
_SCAN = 41  # values of the parameter at which an orbit is followed
_SIDE = 1e-9  # distance from a border at which one-sided multipliers are computed, relative


@dataclass(frozen=True)
class ScalarOrbit:
    """A periodic orbit of a map of one number.

    Attributes
    ----------
    points : ndarray, shape (period,)
    multiplier : float
        Product of the derivatives of the map at the points; the orbit is stable if it is between -1 and 1.
    """

    points: NDArray[np.float64]
    multiplier: float


@dataclass(frozen=True)
class PeriodDoubling:
    """A loss of stability through a multiplier of -1.

    Attributes
    ----------
    value : float
        Value of the parameter.
    orbit : ScalarOrbit
        Orbit at that value.
    coefficient : float
        g''^2/2 + g'''/3 of the map over a period.
    supercritical : bool
        Whether the orbit of twice the period is stable: the coefficient is positive.
    """

    value: float
    orbit: ScalarOrbit
    coefficient: float
    supercritical: bool


@dataclass(frozen=True)
class BorderCollision:
    """A value of a parameter at which a point of an orbit meets the border between two laws.

    Attributes
    ----------
    value : float
        Value of the parameter.
    orbit : ScalarOrbit
        Orbit just before the collision.
    left, right : float
        Multipliers of the orbit with that point below and above the border.
    persists : bool
        Whether the orbit crosses the border; otherwise it disappears with another one.
    doubles : bool
        Whether an orbit of twice the period appears.
    stable_double : bool
        Whether that orbit is stable.
    """

    value: float
    orbit: ScalarOrbit
    left: float
    right: float
    persists: bool
    doubles: bool
    stable_double: bool


def _composed(law: Callable[..., Any], x: float, p: Any, period: int) -> tuple[list[float], Jet]:
    """Return the points of an orbit from x on, and its map over a period with derivatives by x."""
    on_jets = rebind(law, JETS)
    jet: Any = Jet((x, 1.0, 0.0, 0.0))
    points = []
    for _ in range(period):
        points.append(float(Jet.lift(jet).c[0]))
        jet = on_jets(jet, p)
    return points, Jet.lift(jet)


@check_arguments
def scalar_orbit(law: Callable[..., Any], start: float, p: Any = None, period: int = 1) -> ScalarOrbit:
    """Return the periodic orbit of a map of one number that Newton's method finds from a start.

    Parameters
    ----------
    law : callable
        `law(x, p)`: the next number. A plain function in the language of laws.
    start : float
        Number near a point of the orbit.
    p : object, optional
        Parameters of the law.
    period : int, >= 1, optional

    Returns
    -------
    ScalarOrbit

    Raises
    ------
    ConvergenceError
        Newton's method finds no orbit.

    Examples
    --------
    >>> result = scalar_orbit(lambda x, p: p * x * (1.0 - x), 0.6, 2.8)
    >>> round(result.points[0], 6), round(result.multiplier, 6)
    (0.642857, -0.8)
    """
    n = as_count(period, "period", minimum=1)
    x = as_number(start, "start")
    for _ in range(_NEWTON):
        _, jet = _composed(law, x, p, n)
        value, slope = jet.c[0], jet.c[1]
        step = (value - x) / (1.0 - slope) if slope != 1.0 else value - x
        if not np.isfinite(step):
            break
        for _ in range(_HALVINGS):  # a full step may pass a kink, beyond which the residual is larger
            residual = _composed(law, x + step, p, n)[1].c[0] - (x + step)
            if abs(residual) <= abs(value - x) or abs(step) <= _CLOSE * max(abs(x), 1e-300):
                break
            step *= 0.5
        x += step
        if abs(step) <= _CLOSE * max(abs(x), 1e-300):
            points, jet = _composed(law, x, p, n)
            return ScalarOrbit(np.array(points), float(jet.c[1]))
    raise ConvergenceError(f"no orbit of period {n} was found from {start:g}", last=x)


@check_arguments
def period_doubling(
    law: Callable[..., Any],
    parameters: Callable[[float], Any],
    low: float,
    high: float,
    start: float,
    period: int = 1,
) -> PeriodDoubling:
    """Return the first value of a parameter at which an orbit loses stability through the multiplier -1.

    Parameters
    ----------
    law, period
        As for `scalar_orbit`.
    parameters : callable
        Value of the parameter -> `p` of the law.
    low, high : float
        Range of the parameter; the orbit is followed from `low` on.
    start : float
        Number near the orbit at `low`.

    Returns
    -------
    PeriodDoubling

    Raises
    ------
    ConvergenceError
        The orbit is lost, or its multiplier does not pass -1 in the range.

    Examples
    --------
    >>> result = period_doubling(lambda x, p: p * x * (1.0 - x), float, 2.0, 3.4, 0.5)
    >>> round(result.value, 9), result.supercritical
    (3.0, True)
    """
    from scipy.optimize import brentq

    values, orbits = _followed(law, parameters, low, high, start, period)

    def excess(k: int) -> float:
        return orbits[k].multiplier + 1.0

    for k in range(len(values) - 1):
        if excess(k) > 0.0 >= excess(k + 1):
            near = float(orbits[k].points[0])

            def at(value: float, near: float = near) -> float:
                return scalar_orbit(law, near, parameters(value), period).multiplier + 1.0

            value = float(brentq(at, values[k], values[k + 1], xtol=1e-15, rtol=1e-14))
            orbit = scalar_orbit(law, near, parameters(value), period)
            _, jet = _composed(law, float(orbit.points[0]), parameters(value), period)
            coefficient = 0.5 * (2.0 * jet.c[2]) ** 2 + 6.0 * jet.c[3] / 3.0
            return PeriodDoubling(value, orbit, float(coefficient), coefficient > 0.0)
    raise ConvergenceError(
        f"the multiplier does not pass -1 from {values[0]:g} to {values[-1]:g}", last=orbits[-1].multiplier
    )


@check_arguments
def border_collision(
    law: Callable[..., Any],
    parameters: Callable[[float], Any],
    border: float,
    low: float,
    high: float,
    start: float,
    period: int = 1,
) -> BorderCollision:
    """Return the first value of a parameter at which a point of an orbit meets a border of the law.

    Parameters
    ----------
    law, parameters, low, high, start, period
        As for `period_doubling`.
    border : float
        Number at which the law kinks.

    Returns
    -------
    BorderCollision

    Raises
    ------
    ConvergenceError
        The orbit is lost, or meets no border in the range.

    Examples
    --------
    >>> tent = lambda x, p: p + (0.5 * x if x < 0.0 else -1.5 * x)
    >>> result = border_collision(tent, float, 0.0, -1.0, 1.0, -1.0)
    >>> round(result.value, 9), result.persists, result.doubles, result.stable_double
    (0.0, True, True, True)
    """
    place = as_number(border, "border")
    values, orbits = _followed(law, parameters, low, high, start, period, until=place)
    for k in range(len(values) - 1):
        before = orbits[k].points - place
        after = _sides_after(law, parameters, orbits[k], float(values[k + 1]), place)
        crossed = np.flatnonzero(before * after <= 0.0)
        if len(crossed):
            point = int(crossed[0])
            value = _meeting(law, parameters, orbits[k], point, (float(values[k]), float(values[k + 1])), place)
            slopes = [_slope_beside(law, parameters(value), orbits[k], point, place, side) for side in (-1.0, 1.0)]
            left, right = slopes
            doubles = (1.0 + left) * (1.0 + right) < 0.0
            return BorderCollision(
                value,
                orbits[k],
                left,
                right,
                (1.0 - left) * (1.0 - right) > 0.0,
                doubles,
                doubles and abs(left * right) < 1.0,
            )
    raise ConvergenceError(f"no point meets {place:g} from {values[0]:g} to {values[-1]:g}", last=values[-1])


def _followed(
    law: Callable[..., Any],
    parameters: Callable[[float], Any],
    low: float,
    high: float,
    start: float,
    period: int,
    until: float | None = None,
) -> tuple[NDArray[np.float64], list[ScalarOrbit]]:
    """Return values of the parameter and the orbit at each, followed from the first on; up to a border, if given."""
    values = np.linspace(low, high, _SCAN)
    orbits = [scalar_orbit(law, start, parameters(float(values[0])), period)]
    for k, value in enumerate(values[1:], start=1):
        try:
            orbits.append(scalar_orbit(law, float(orbits[-1].points[0]), parameters(float(value)), period))
        except ConvergenceError:
            if until is None:
                raise
            return values[: k + 1], orbits
        if until is not None and np.any((orbits[-1].points - until) * (orbits[-2].points - until) <= 0.0):
            return values[: k + 1], orbits
    return values, orbits


def _sides_after(
    law: Callable[..., Any], parameters: Callable[[float], Any], orbit: ScalarOrbit, value: float, border: float
) -> NDArray[np.float64]:
    """Return the distances from the border of the orbit's points at another value of the parameter."""
    period = len(orbit.points)
    try:
        after = scalar_orbit(law, float(orbit.points[0]), parameters(value), period).points
    except ConvergenceError:
        nearest = np.argmin(np.abs(orbit.points - border))
        after = orbit.points.copy()
        after[nearest] = 2.0 * border - after[nearest]
    return np.asarray(after - border)


def _meeting(
    law: Callable[..., Any],
    parameters: Callable[[float], Any],
    orbit: ScalarOrbit,
    point: int,
    between: Sequence[float],
    border: float,
) -> float:
    """Return the value at which the orbit through the border returns to it."""
    from scipy.optimize import brentq

    def returns(value: float) -> float:
        return float(_composed(law, border, parameters(value), len(orbit.points))[1].c[0]) - border

    low, high = between
    if returns(low) * returns(high) > 0.0:
        raise ConvergenceError(f"the orbit does not meet {border:g} from {low:g} to {high:g}", last=low)
    return float(brentq(returns, low, high, xtol=1e-15, rtol=1e-14))


def _slope_beside(law: Callable[..., Any], p: Any, orbit: ScalarOrbit, point: int, border: float, side: float) -> float:
    """Return the multiplier of the orbit that begins next to the border."""
    x = border + side * _SIDE * max(abs(border), float(np.ptp(orbit.points)), 1e-3)
    return float(_composed(law, x, p, len(orbit.points))[1].c[1])
