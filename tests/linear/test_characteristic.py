"""The characteristic matrix: small linear algebra in bulk, evaluation on grids, and the bounds that proofs rest on."""

from __future__ import annotations

import numpy as np
import pytest

from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.argument_principle import count_right
from ecc.linear.characteristic import adjugate, determinant, evaluate_grid, inverse


def neutral_system(rng, count):
    matrices, delays = rng.normal(size=(count, 2, 2)), rng.uniform(0, 2, count)
    return DelaySystem(matrices, delays, neutral=[0.1 * np.eye(2)], neutral_delays=[0.7])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_adjugate_determinant_and_inverse(size):
    rng = np.random.default_rng(size)
    a = rng.normal(size=(20, size, size)) + 1j * rng.normal(size=(20, size, size))
    np.testing.assert_allclose(determinant(a), np.linalg.det(a), rtol=1e-10)
    np.testing.assert_allclose(inverse(a), np.linalg.inv(a), rtol=1e-8, atol=1e-10)
    identity = np.eye(size) * determinant(a)[:, None, None]
    np.testing.assert_allclose(adjugate(a) @ a, identity, atol=1e-10)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_adjugate_of_a_singular_matrix(size):
    rng = np.random.default_rng(size)
    a = rng.normal(size=(size, size)) + 0j
    a[-1] = a[0]
    slope = rng.normal(size=(size, size))
    h = 1e-6
    derivative = (np.linalg.det(a + h * slope) - np.linalg.det(a - h * slope)) / (2 * h)
    assert np.trace(adjugate(a[None])[0] @ slope) == pytest.approx(derivative, rel=1e-6)
    assert not np.all(np.isfinite(inverse(np.zeros((1, size, size), complex))))


@pytest.mark.parametrize("delays", [3, 300])
def test_grid_equals_pointwise(delays):
    rng = np.random.default_rng(1)
    ch = neutral_system(rng, delays).characteristic_matrix
    omega = 0.2 + 0.03 * np.arange(1000)
    for ours, theirs in zip(evaluate_grid([ch], -0.1, 0.2, 0.03, 1000)[0], ch.evaluate(-0.1 + 1j * omega), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11 * np.abs(theirs).max())


def test_derivative_and_its_bounds():
    rng = np.random.default_rng(2)
    system = neutral_system(rng, 4)
    ch = system.characteristic_matrix
    s = 0.3 + 1j * np.linspace(0.0, 9.0, 50)
    h = 1e-3
    value, slope = ch.evaluate(s)
    near = [ch.evaluate(s + 1j * k * h)[0] for k in (-2, -1, 1, 2)]
    np.testing.assert_allclose(slope, (near[2] - near[1]) / (2j * h), rtol=1e-4, atol=1e-5)
    fourth = (near[0] - 4 * near[1] + 6 * value - 4 * near[2] + near[3]) / h**4
    assert np.all(np.abs(fourth) <= ch.fourth_derivative(0.3, np.abs(s) + 2 * h) * 1.01 + 1e-3)
    exact = DelaySystem(system.matrices, system.delays).characteristic_matrix
    assert np.all(ch.rounding(0.3, s)[0] < 1e-12)
    assert exact.slope is None


@pytest.mark.parametrize("seed", range(8))
def test_no_root_lies_beyond_the_bound(seed):
    rng = np.random.default_rng(seed)
    neutral = dict(neutral=[0.3 * rng.uniform(-1, 1, (2, 2))], neutral_delays=[0.8]) if seed % 2 else {}
    system = DelaySystem(2.0 * rng.normal(size=(5, 2, 2)), rng.uniform(0, 3, 5), **neutral)
    roots = system.roots(10)
    for s in roots:
        assert abs(s) <= system.characteristic_matrix.bound(float(s.real))


def test_count_right_of_any_line_equals_the_roots():
    rng = np.random.default_rng(3)
    for system in (
        DelaySystem(rng.normal(size=(5, 3, 3)), rng.uniform(0, 3, 5)),
        DelaySystem([-1.0, 0.5], [0.3, 1.0], neutral=[0.4, -0.3], neutral_delays=[0.5, 1.2]),
    ):
        real = system.roots(12).real
        for a, b in zip(real, real[1:], strict=False):
            if a - b > 1e-9:
                assert count_right(system.characteristic_matrix, 0.5 * (a + b)).number == (real > 0.5 * (a + b)).sum()
    system = SampledSystem(0.3 * rng.normal(size=(4, 3, 3)), [0, 3, 8, 11])
    size = np.abs(system.roots(36))
    assert len(size) == 36
    for a, b in zip(size, size[1:], strict=False):
        if a - b > 1e-9:
            line = float(np.log(0.5 * (a + b)))
            assert count_right(system.characteristic_matrix, line).number == (size > 0.5 * (a + b)).sum()


def test_count_on_a_root_is_left_open():
    ch = DelaySystem([0.0, -1.0], [0.0, np.pi / 2]).characteristic_matrix
    assert count_right(ch, 1e-9).number == 0
    assert count_right(ch, -1e-9).number == 2
    integrator = DelaySystem([0.0], [0.0]).characteristic_matrix
    stuck = count_right(integrator, 0.0)
    assert stuck.number is None
    assert stuck.stuck == 0.0
