"""Describing functions of relays against the cycles of loops that are solved by hand."""

from math import pi

import numpy as np
import pytest

from ecc.errors import ConvergenceError
from ecc.linear import relay_oscillation


def test_a_delay_before_an_integrator():
    """The cycle is a triangle of period 4 D and peak k D, whose fundamental is 8/pi^2 of it: exactly what is found."""
    k, D = 3.0, 0.2
    found = relay_oscillation(lambda s: k * np.exp(-s * D) / s, np.geomspace(1.0, 20.0, 50))
    assert found.frequency == pytest.approx(pi / (2.0 * D), rel=1e-12)
    assert found.amplitude == pytest.approx(8.0 / pi**2 * k * D, rel=1e-12)


def test_three_lags():
    """1/(s + 1)^3 crosses at sqrt(3) with gain 1/8."""
    found = relay_oscillation(lambda s: 1.0 / (s + 1.0) ** 3, np.geomspace(0.1, 10.0, 30))
    assert found.frequency == pytest.approx(np.sqrt(3.0), rel=1e-12)
    assert found.amplitude == pytest.approx(0.5 / pi, rel=1e-12)


def test_the_largest_of_several():
    """Beyond pi/2 the delay turns the loop round again and again, with ever smaller gain."""
    found = relay_oscillation(lambda s: np.exp(-s) / s, np.linspace(0.1, 30.0, 300))
    assert found.frequency == pytest.approx(0.5 * pi, rel=1e-12)


def test_no_crossing_is_told():
    with pytest.raises(ConvergenceError, match="does not cross the negative real axis from 0.1 to 10 rad/s"):
        relay_oscillation(lambda s: 1.0 / (s + 1.0), np.geomspace(0.1, 10.0, 30))
