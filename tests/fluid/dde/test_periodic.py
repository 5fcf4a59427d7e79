"""Periodic orbits and multipliers: van der Pol by Liouville's formula, Wright's equation by its Hopf point."""

import numpy as np
import pytest
from scipy.special import lambertw

from ecc.errors import ConvergenceError
from ecc.fluid import periodic_orbit, solve_dde
from ecc.results.transients import limit_cycle


def van_der_pol(t, y, ylag):
    return [y[1], (1.0 - y[0] * y[0]) * y[1] - y[0]]


def wright(gain):
    def f(t, y, ylag):
        return [-gain * ylag[0, 0] * (1.0 + y[0])]

    return f


def test_van_der_pol():
    """The multipliers' product is exp of the integrated divergence; the period is that of Andersen and Geer (1982)."""
    sol = solve_dde(van_der_pol, (0.0, 40.0), [0.5, 0.0], [], rtol=1e-8, atol=1e-10, dense_output=True).sol
    orbit = periodic_orbit(van_der_pol, [], sol, intervals=60)
    assert orbit.period == pytest.approx(6.6632868593231, rel=1e-9)
    assert orbit.trivial_error < 1e-8 and orbit.is_stable
    divergence = np.trapezoid(1.0 - orbit.y[0] ** 2, orbit.t)  # of a periodic function: as exact as its points
    assert orbit.multipliers[1].real == pytest.approx(np.exp(divergence), rel=1e-6)
    assert np.abs(orbit.multipliers[2:]).max(initial=0.0) < 1e-12
    assert orbit.y[:, 0] == pytest.approx(orbit.y[:, -1])


@pytest.fixture(scope="module")
def cycle():
    gain = 1.7
    sol = solve_dde(wright(gain), (0.0, 150.0), [0.5], [1.0], rtol=1e-9, atol=1e-10, dense_output=True).sol
    return gain, sol, periodic_orbit(wright(gain), [1.0], sol)


def test_wright_beyond_its_boundary(cycle):
    gain, sol, orbit = cycle
    assert orbit.trivial_error < 1e-6 and orbit.is_stable
    t = np.linspace(0.0, 150.0, 15001)
    seen = limit_cycle(t, sol(t)[0], skip=10.0)
    assert orbit.period == pytest.approx(seen.period, rel=1e-5)
    assert orbit.amplitude[0] == pytest.approx(seen.amplitude, rel=1e-5)
    assert abs(orbit.multipliers[1]) == pytest.approx(seen.multiplier, rel=1e-2)
    assert sol(150.0 - orbit.period + orbit.t[7])[0] == pytest.approx(orbit.y[0, 7], rel=1e-6)


def test_a_delay_of_more_than_a_period(cycle):
    """The same orbit solves the equation whose delay is a period longer."""
    gain, _, orbit = cycle
    later = 1.0 + orbit.period

    def guess(t):
        return np.interp(t, orbit.t, orbit.y[0])

    longer = periodic_orbit(wright(gain), [later], guess, orbit.period)
    assert longer.period == pytest.approx(orbit.period, rel=1e-6)
    assert longer.y[0] == pytest.approx(orbit.y[0], abs=1e-5)
    assert longer.trivial_error < 1e-6


def test_near_its_birth_a_cycle_attracts_twice_as_fast_as_the_equilibrium_repels():
    """A supercritical Hopf point: log multiplier / period = -2 Re(root) to first order; root = W(-gain)."""
    gain = np.pi / 2.0 + 0.002
    root = complex(lambertw(-gain))
    period = 2.0 * np.pi / abs(root.imag)
    size = np.sqrt(0.002 * 40.0 / (3.0 * np.pi - 2.0))  # Hassard, Kazarinoff, Wan 1981
    orbit = periodic_orbit(wright(gain), [1.0], lambda t: size * np.cos(2.0 * np.pi * t / period), period)
    assert orbit.amplitude[0] == pytest.approx(size, rel=1e-2)
    assert np.log(orbit.multipliers[1].real) / orbit.period == pytest.approx(-2.0 * root.real, rel=1e-2)


def test_an_unstable_cycle():
    """Time runs backwards in van der Pol's equation: the same orbit, the reciprocal multiplier."""

    def backwards(t, y, ylag):
        return [-y[1], -(1.0 - y[0] * y[0]) * y[1] + y[0]]

    sol = solve_dde(van_der_pol, (0.0, 40.0), [0.5, 0.0], [], rtol=1e-8, atol=1e-10, dense_output=True).sol
    period = 6.6632868593231
    orbit = periodic_orbit(backwards, [], lambda t: sol(40.0 - t), period)
    forward = periodic_orbit(van_der_pol, [], sol)
    assert not orbit.is_stable
    assert orbit.multipliers[0].real == pytest.approx(1.0 / forward.multipliers[1].real, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delays": [-1.0]}, "delays must be >= 0 s"),
        ({"intervals": 1}, "intervals must be >= 2, degree from 2 to 8 and multipliers >= 1, got 1, 4, 10"),
        ({"period": None}, "period must be given if the guess is not a solution"),
        ({"period": -1.0}, "period must be > 0 s, got -1.0"),
    ],
)
def test_bad_input(options, message):
    given = {"delays": [1.0], "guess": np.cos, "period": 6.0, **options}
    with pytest.raises(ValueError, match=message):
        periodic_orbit(wright(1.7), **given)


@pytest.mark.slow
def test_no_cycle_to_begin_with():
    sol = solve_dde(wright(1.0), (0.0, 50.0), [0.5], [1.0], dense_output=True).sol
    with pytest.raises(ValueError, match="guess must end on a cycle, or period must be given"):
        periodic_orbit(wright(1.0), [1.0], sol)
    with pytest.raises(ConvergenceError, match=r"the orbit shrinks|does not settle"):
        periodic_orbit(wright(1.0), [1.0], lambda t: 0.1 * np.cos(t), 6.0)
