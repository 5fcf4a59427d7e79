"""Recurrences with changing coefficients against closed forms, and joint spectral radii that are known."""

from math import sqrt

import numpy as np
import pytest

from ecc.linear import IntervalRecurrence, joint_spectral_radius


def test_the_impulse_response_of_a_first_order_loop_is_a_geometric_series():
    loop = IntervalRecurrence([0.5], [0.5])
    assert loop.impulse_sum == pytest.approx(2.0, rel=1e-4) and loop.impulse_sum >= 2.0
    assert loop.disturbance_gain == pytest.approx(2.0, rel=1e-4) and loop.small_gain == 0.0


def test_a_sum_of_coefficients_beyond_one_needs_the_small_gain():
    """x[n+1] = x[n] - k x[n-1] is stable for 0 < k < 1; its coefficients alone do not show it."""
    loop = IntervalRecurrence([1.0, -0.31], [1.0, -0.29])
    g = [1.0, 1.0]
    for _ in range(2000):
        g.append(g[-1] - 0.3 * g[-2])
    assert loop.coefficient_sum > 1.0 > loop.small_gain and loop.is_stable is True
    assert loop.impulse_sum == pytest.approx(np.abs(g).sum(), rel=1e-4) and loop.impulse_sum >= np.abs(g).sum()
    assert loop.small_gain == pytest.approx(0.01 * loop.impulse_sum)


@pytest.mark.parametrize(("gain", "stable"), [(0.9, True), (1.01, False)])
def test_the_limit_of_a_delayed_integrator(gain, stable):
    assert IntervalRecurrence([1.0, -gain], [1.0, -gain]).is_stable is stable


def test_wide_intervals_are_undecided():
    """Each constant loop with k in [0.2, 0.9] is stable, but the small gain does not prove it for changing ones."""
    assert IntervalRecurrence([1.0, -0.9], [1.0, -0.2]).is_stable is None


def test_disturbances_stay_within_the_ultimate_bound():
    loop = IntervalRecurrence([0.3, -0.4], [0.5, -0.1])
    rng = np.random.default_rng(0)
    x = [0.0, 0.0]
    for _ in range(300):
        a, b = rng.choice([0.3, 0.5]), rng.choice([-0.4, -0.1])
        x.append(a * x[-1] + b * x[-2] + rng.choice([-1.0, 1.0]))
    assert max(np.abs(x)) <= loop.disturbance_gain <= 10.0 + 1e-9


def test_two_stable_matrices_that_grow_by_turns():
    a, b = [[0.6, 1.5], [0.0, 0.6]], [[0.6, 0.0], [1.5, 0.6]]
    bounds = joint_spectral_radius([a, b], max_products=100)
    exact = sqrt(max(np.linalg.eigvals(np.array(b) @ a).real))
    assert bounds.is_stable is False and bounds.product == (0, 1)
    assert bounds.lower == pytest.approx(exact, rel=1e-9) and bounds.lower <= exact <= bounds.upper < 1.01 * exact


def test_the_golden_ratio():
    """The pair of shears has the golden ratio as its joint spectral radius."""
    bounds = joint_spectral_radius([[[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]], max_products=60)
    assert bounds.lower == pytest.approx(0.5 * (1.0 + sqrt(5.0)), rel=1e-12)
    assert bounds.lower <= bounds.upper < 1.2 * bounds.lower


def test_matrices_with_one_norm_are_proven_stable():
    turn = 0.9 * np.array([[0.6, -0.8], [0.8, 0.6]])
    bounds = joint_spectral_radius([turn, 0.95 * turn.T])
    assert bounds.is_stable is True and bounds.lower <= 0.9 <= bounds.upper < 0.901


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: joint_spectral_radius([]), "matrices must contain at least one matrix, got none"),
        (
            lambda: joint_spectral_radius([[[1.0]], [[1.0, 0.0], [0.0, 1.0]]]),
            r"of one size, got shape \(2, 2\) .number 1",
        ),
        (lambda: IntervalRecurrence([0.2], [0.1]), r"low must be <= high, got 0.2 > 0.1 \(delay 0\)"),
        (lambda: IntervalRecurrence([0.2], [0.3, 0.4]), "low and high must have one entry per delay"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(ValueError, match=message):
        call()
