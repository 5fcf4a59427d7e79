"""Period doublings and border collisions of maps with known values."""

import numpy as np
import pytest

from ecc.cycles.scalar_maps import border_collision, period_doubling, scalar_orbit
from ecc.errors import ConvergenceError


def logistic(x, p):
    return p * x * (1.0 - x)


def kinked(x, p):
    """The normal form of a border collision, with slopes l below and r above 0."""
    mu, below, above = p
    return mu + (below * x if x < 0.0 else above * x)


def test_the_logistic_map_doubles_its_period_at_3_and_at_1_plus_the_root_of_6():
    first = period_doubling(logistic, float, 2.0, 3.4, 0.5)
    assert first.value == pytest.approx(3.0, rel=1e-12) and first.supercritical
    assert first.coefficient == pytest.approx(18.0, rel=1e-9)  # (2 r)^2/2
    second = period_doubling(logistic, float, 3.2, 3.5, 0.8, period=2)
    assert second.value == pytest.approx(1.0 + np.sqrt(6.0), rel=1e-12) and second.supercritical
    assert scalar_orbit(logistic, 0.8, 1.0 + np.sqrt(5.0), 2).multiplier == pytest.approx(0.0, abs=1e-9)


def test_a_cubic_map_doubles_its_period_subcritically():
    found = period_doubling(lambda x, p: -p * x - x * x * x, float, 0.5, 1.5, 0.0)
    assert found.value == pytest.approx(1.0) and not found.supercritical
    assert found.coefficient == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("below", "above", "persists", "doubles", "stable"),
    [
        (0.5, -0.5, True, False, False),
        (0.5, -1.5, True, True, True),
        (0.5, -3.0, True, True, False),
        (0.5, 1.5, False, False, False),
    ],
)
def test_border_collisions_have_the_outcome_of_the_normal_form(below, above, persists, doubles, stable):
    found = border_collision(kinked, lambda mu: (mu, below, above), 0.0, -1.0, 1.0, -2.0)
    assert found.value == pytest.approx(0.0, abs=1e-9)
    assert (found.left, found.right) == pytest.approx((below, above))
    assert (found.persists, found.doubles, found.stable_double) == (persists, doubles, stable)
    if stable:  # iterate the map beyond the collision
        x, orbit = 0.1, []
        for _ in range(500):
            x = kinked(x, (0.1, below, above))
            orbit.append(x)
        assert orbit[-1] == pytest.approx(orbit[-3]) and abs(orbit[-1] - orbit[-2]) > 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scalar_orbit(lambda x, p: x + 1.0, 0.0), "no orbit of period 1 was found from 0"),
        (lambda: period_doubling(logistic, float, 2.0, 2.5, 0.5), "the multiplier does not pass -1 from 2 to 2.5"),
        (lambda: border_collision(logistic, float, 5.0, 2.0, 2.5, 0.5), "no point meets 5 from 2 to 2.5"),
        (lambda: scalar_orbit(logistic, 0.5, 2.0, 0), "period must be >= 1, got 0"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, ConvergenceError), match=f"^{message}"):
        make()
