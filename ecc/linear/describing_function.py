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
    """An oscillation: `amplitude` of the signal that the relay receives, and `frequency` [rad/s]."""

    amplitude: float
    frequency: float
    _units = {"frequency": "rad/s"}

    def _title(self) -> str:
        return "Oscillation of a relay"


@check_arguments
def relay_oscillation(loop: Callable[[Any], NDArray[np.complex128]], frequencies: Vector) -> Oscillation:
    """Return the sinusoidal oscillation of a relay with output +1 below its threshold and -1 above it.

    A relay responds to a sine of amplitude a with a square wave. Its fundamental is 4/(pi a) times the sine: the loop
    is in balance if L(j w) = -pi a/4. Of several such frequencies the one with the largest amplitude is used, since
    larger amplitudes decay.

    Parameters
    ----------
    loop : callable
        L(s), vectorized: from the output of the relay to its input, times -1.
    frequencies : Vector
        Increasing frequencies, rad/s. Between two of them L may cross the negative real axis only once.

    Returns
    -------
    Oscillation

    Raises
    ------
    ValueError
        Frequencies are not increasing and > 0, or fewer than two.
    ConvergenceError
        L does not cross the negative real axis.

    Notes
    -----
    Harmonics are assumed to be 0; a pure delay before an integrator produces a triangle with a fundamental of 8/pi^2 of
    its peak.

    Examples
    --------
    >>> oscillation = relay_oscillation(lambda s: np.exp(-s) / s, np.linspace(0.5, 3.0, 20))
    >>> round(oscillation.frequency, 6), round(oscillation.amplitude, 6)
    (1.570796, 0.810569)
    """
    from scipy.optimize import brentq

    grid = np.asarray(frequencies, dtype=float)
    if len(grid) < 2 or not (grid[0] > 0.0 and np.all(np.diff(grid) > 0.0)):
        raise ValueError(f"frequencies must be two or more, > 0 rad/s and increasing, got {shown(frequencies)}")

    def height(w: float) -> float:
        return float(loop(np.array([1j * w]))[0].imag)

    response = loop(1j * grid)
    crossed = np.flatnonzero(np.sign(response.imag[1:]) != np.sign(response.imag[:-1]))
    places = [float(brentq(height, grid[k], grid[k + 1], xtol=1e-14 * grid[k])) for k in crossed]
    oscillations = [Oscillation(-4.0 / pi * float(loop(np.array([1j * w]))[0].real), w) for w in places]
    oscillations = [each for each in oscillations if each.amplitude > 0.0]
    if not oscillations:
        raise ConvergenceError(f"the loop does not cross the negative real axis from {grid[0]:g} to {grid[-1]:g} rad/s")
    return max(oscillations, key=lambda each: each.amplitude)
