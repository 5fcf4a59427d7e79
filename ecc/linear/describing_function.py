"""Oscillations of a relay in a linear loop, by its describing function (Gelb, Vander Velde 1968, sec. 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Vector, check_arguments, shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError

__all__ = ["Oscillation", "relay_oscillation"]


@dataclass(frozen=True, repr=False)
class Oscillation(Displayed):
    """`amplitude` of the signal that the relay receives, and `frequency` [rad/s]."""

    amplitude: float
    frequency: float
    _units = {"frequency": "rad/s"}

    def _title(self) -> str:
        return "Oscillation of a relay"


@check_arguments
def relay_oscillation(loop: Callable[[Any], NDArray[np.complex128]], frequencies: Vector) -> Oscillation:
    """Return the sinusoidal oscillation of a relay whose output is +1 below its threshold and -1 above it.

    A relay answers a sine of amplitude a with a square wave, whose fundamental is 4/(pi a) times it: there is balance
    where L(j w) = -pi a/4. Of several such frequencies that of the largest amplitude is taken, as larger ones decay.

    Parameters
    ----------
    loop : callable
        L(s), vectorized: from the output of the relay to its input, times -1.
    frequencies : Vector
        Increasing, rad/s. Between two of them L crosses the negative real axis at most once.

    Returns
    -------
    Oscillation

    Raises
    ------
    ValueError
        Frequencies that are not.
    ConvergenceError
        L does not cross the negative real axis.

    Notes
    -----
    Harmonics are taken for 0; a pure delay before an integrator makes a triangle, whose fundamental is 8/pi^2 of its
    peak.

    Examples
    --------
    >>> found = relay_oscillation(lambda s: np.exp(-s) / s, np.linspace(0.5, 3.0, 20))
    >>> round(found.frequency, 6), round(found.amplitude, 6)
    (1.570796, 0.810569)
    """
    from scipy.optimize import brentq

    grid = np.asarray(frequencies, dtype=float)
    if len(grid) < 2 or not (grid[0] > 0.0 and np.all(np.diff(grid) > 0.0)):
        raise ValueError(f"frequencies must be > 0 rad/s and increase, two at least, got {shown(frequencies)}")

    def height(w: float) -> float:
        return float(loop(np.array([1j * w]))[0].imag)

    response = loop(1j * grid)
    crossed = np.flatnonzero(np.sign(response.imag[1:]) != np.sign(response.imag[:-1]))
    places = [float(brentq(height, grid[k], grid[k + 1], xtol=1e-14 * grid[k])) for k in crossed]
    found = [Oscillation(-4.0 / pi * float(loop(np.array([1j * w]))[0].real), w) for w in places]
    found = [one for one in found if one.amplitude > 0.0]
    if not found:
        raise ConvergenceError(f"the loop does not cross the negative real axis from {grid[0]:g} to {grid[-1]:g} rad/s")
    return max(found, key=lambda one: one.amplitude)
