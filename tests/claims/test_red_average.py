"""The map of RED's average: its period doubling, its border collision, and the linear model with windows."""

import numpy as np
import pytest
from scipy.optimize import brentq

from ecc.claims.checks.disciplines.red_average import (
    average_after_round,
    doubling,
    empty_queue_collision,
    linear_limit,
    parameters,
    share_at,
    weight_of,
)


def test_the_mean_map_of_red_doubles_its_period_at_the_gain_of_the_closed_form():
    found = doubling()
    a, n, pipe = found.orbit.points[0], 50, 375.0
    p_b = 0.05 * (a - 50.0) / 100.0
    probability, slope = 2.0 * p_b / (1.0 + p_b), 0.0005 * 2.0 / (1.0 + p_b) ** 2
    assert n * np.sqrt(2.0 / probability) - pipe == pytest.approx(a, rel=1e-12)
    pull = 1.0 + 0.5 * n * np.sqrt(2.0) * slope / probability**1.5  # multiplier 1 - gain pull
    assert found.value == pytest.approx(2.0 / pull, rel=1e-9) and found.supercritical


def test_the_orbit_of_two_rounds_of_red_collides_with_the_empty_queue():
    """Beyond the collision, a pair of points has a stable orbit no longer: |l r| > 1."""
    collision, at = empty_queue_collision(), parameters(empty_queue_collision().value)
    border = brentq(lambda a: 50 * np.sqrt(2.0 / share_at(a, at)) - 375.0, 60.0, 149.0)
    assert average_after_round(average_after_round(border, at), at) == pytest.approx(border, rel=1e-9)
    assert 0.0 < collision.left < 1.0 and collision.right < -1.0
    assert collision.persists and collision.doubles and not collision.stable_double
    points = [75.1]
    for _ in range(3000):
        points.append(average_after_round(points[-1], parameters(1.01 * collision.value)))
    assert len(np.unique(np.round(points[-200:], 6))) > 4


@pytest.mark.slow
def test_linear_models_of_newreno_over_red_lose_stability_near_the_weight_of_the_map_with_another_period():
    limit, root = linear_limit("continuous")
    found = doubling()
    assert limit == pytest.approx(weight_of(found.value, float(found.orbit.points[0])), rel=0.06)
    assert 2.0 * np.pi / abs(root.imag) > 4.0 * 2.0 * 0.12  # s; the map has a period of two RTTs
