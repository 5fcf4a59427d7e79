"""Period doublings and border collisions of maps with known values."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.scalar_maps import border_collision, period_doubling, scalar_orbit
from ecc.errors import ConvergenceError
from ecc.laws.elementary import sqrt
from ecc.models import NewReno
from ecc.queues import RED
from ecc.queues.red import probability as red_probability
from ecc.queues.red import share_chosen


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


def average_of_red(a, p):
    """RED's average after a round if windows are always sqrt(2/P), and so the queue is N sqrt(2/P) - C d."""
    probability = share_chosen(red_probability(a, p.aqm.p_max, p.aqm))
    queue = p.flows * sqrt(2.0 / probability) - p.pipe if probability > 0.0 else p.buffer
    return a + p.gain * (max(min(queue, p.buffer), 0.0) - a)


def parameters(gain):
    aqm = RED(packet_size=1000, min_threshold=50.0, max_threshold=150.0, p_max=0.05).namespace()
    return SimpleNamespace(flows=50, pipe=375.0, buffer=1000.0, gain=gain, aqm=aqm)


def test_the_mean_map_of_red_doubles_its_period_at_the_gain_of_the_closed_form():
    found = period_doubling(average_of_red, parameters, 0.05, 0.9, 75.0)
    a, n, pipe = found.orbit.points[0], 50, 375.0
    p_b = 0.05 * (a - 50.0) / 100.0
    probability, slope = 2.0 * p_b / (1.0 + p_b), 0.0005 * 2.0 / (1.0 + p_b) ** 2
    assert n * np.sqrt(2.0 / probability) - pipe == pytest.approx(a, rel=1e-12)
    pull = 1.0 + 0.5 * n * np.sqrt(2.0) * slope / probability**1.5  # multiplier 1 - gain pull
    assert found.value == pytest.approx(2.0 / pull, rel=1e-9) and found.supercritical


def test_the_orbit_of_two_rounds_of_red_collides_with_the_empty_queue():
    """Beyond the collision, a pair of points has a stable orbit no longer: |l r| > 1."""
    begin = 1.002 * 18.0 / 89.0  # just after the period doubling
    x = 76.0
    for _ in range(10_000):
        x = average_of_red(x, parameters(begin))
    pair = scalar_orbit(average_of_red, x, parameters(begin), 2)
    full = parameters(begin)
    border = brentq(lambda a: 50 * np.sqrt(2.0 / share_chosen(red_probability(a, 0.05, full.aqm))) - 375.0, 60.0, 149.0)
    found = border_collision(average_of_red, parameters, border, begin, 0.2144, float(pair.points[0]), period=2)
    assert begin < found.value < 0.2144
    at = parameters(found.value)
    assert average_of_red(average_of_red(border, at), at) == pytest.approx(border, rel=1e-9)
    assert 0.0 < found.left < 1.0 and found.right < -1.0
    assert found.persists and found.doubles and not found.stable_double
    points = [75.1]
    for _ in range(3000):
        points.append(average_of_red(points[-1], parameters(1.01 * found.value)))
    assert len(np.unique(np.round(points[-200:], 6))) > 4


@pytest.mark.slow
def test_linear_models_of_newreno_over_red_lose_stability_near_the_gain_of_the_map_with_another_period():
    network = ecc.Network.dumbbell("30 Mb/s", rtts=[0.1] * 50, packet_size=1000)

    def root(weight):
        aqm = RED(packet_size=1000, min_threshold=50.0, max_threshold=150.0, p_max=0.05, weight=weight)
        return ecc.linearize(ProtocolAssignment(NewReno(), aqm), network).dominant_root

    limit = brentq(lambda weight: root(weight).real, 3e-4, 8e-4)
    found = period_doubling(average_of_red, parameters, 0.05, 0.9, 75.0)
    of_map = 1.0 - (1.0 - found.value) ** (1.0 / (375.0 + found.orbit.points[0]))
    assert limit == pytest.approx(of_map, rel=0.06)
    assert 2.0 * np.pi / abs(root(limit).imag) > 4.0 * 2.0 * 0.12  # s; the map has a period of two RTTs
