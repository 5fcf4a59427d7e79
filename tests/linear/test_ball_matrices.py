"""Eigenvalues of matrices drawn from balls are in the enclosures, and the verdicts agree with them."""

import numpy as np
import pytest
from flint import arb, arb_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.linear.ball_matrices import contraction_factor, spectrum
from ecc.linear.exact_pair import bits


def balls(middle, radius):
    n = len(middle)
    return arb_mat(n, n, [arb(float(middle[i, j]), float(radius[i, j])) for i in range(n) for j in range(n)])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([0.0, 1e-12, 1e-4, 0.02, 0.3]), st.floats(0.2, 1.6))
def test_matrices_within_the_balls_have_eigenvalues_in_the_enclosures(n, seed, width, size):
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7)
    middle *= size / max(np.abs(np.linalg.eigvals(middle)).max(), 0.1)
    radius = width * np.abs(middle)
    result = spectrum(balls(middle, radius))
    bound = contraction_factor(balls(middle, radius))
    for _ in range(5):
        member = middle + radius * rng.uniform(-1.0, 1.0, (n, n))
        values = np.linalg.eigvals(member)
        radii = np.abs(values[:, None] - result.values[None, :]) - result.errors[None, :]
        assert np.all(
            radii.min(axis=1) < 1e-4
        )  # eigenvalues of nearly defective matrices have errors of roots of 1e-16
        assert np.abs(values).max() <= bound * (1.0 + 1e-9) + 1e-4
        if result.inside is not None and abs(np.abs(values).max() - 1.0) > 1e-4:
            assert result.inside is bool(np.abs(values).max() < 1.0)
    if width == 0.0 and abs(size - 1.0) > 1e-3 and np.abs(middle).max() > 0.0:
        assert result.inside is not None


def test_zeros_by_structure_are_exact():
    chain = arb_mat([[0, arb(5, 1), arb(1, 9)], [0, 0, arb(2, 1)], [0, 0, 0]])
    result = spectrum(chain)
    assert result.nilpotent and result.inside is True and not result.values.any() and not result.errors.any()
    assert not spectrum(arb_mat([[arb(0, 0.1)]])).nilpotent
    assert spectrum(arb_mat([[0, 1], [arb(0, 0.1), 0]])).inside is True


@pytest.mark.parametrize("distance", [1e-9, -1e-9, 1e-20, -1e-20, 0.0])
def test_multipliers_near_1_are_decided_at_a_sufficient_precision(distance):
    with bits(128):
        value = arb(1) + arb(distance)
        matrix = arb_mat([[value, 3], [0, arb(0.5)]])
        assert spectrum(matrix).inside is {1: False, -1: True, 0: None}[int(np.sign(distance))]
        turned = arb_mat([[0, value], [-value, 0]])
        assert spectrum(turned).inside is {1: False, -1: True, 0: None}[int(np.sign(distance))]


def test_a_norm_bounds_wide_balls():
    wide = arb_mat([[arb(0.3, 0.25), arb(0.1, 0.1)], [arb(0.1, 0.1), arb(0.3, 0.25)]])
    assert 0.55 < contraction_factor(wide) < 0.76
    assert spectrum(wide).inside is True
    assert contraction_factor(arb_mat(0, 0, [])) == 0.0
    assert contraction_factor(arb_mat([[arb("nan")]])) == float("inf")
