"""Expanded determinants against the matrices, and dominant roots of families that no protocol makes."""

from __future__ import annotations

import numpy as np
import pytest

from ecc.linear import DelaySystem, SampledSystem, root_grid
from ecc.linear.root_grid import Expansion, Field, dominant, expand


def random_systems(seed, sampled, points=5, states=3):
    rng = np.random.default_rng(seed)
    mask = rng.random((4, states, states)) < 0.6
    delays = np.arange(4) if sampled else np.r_[0.0, rng.uniform(0.05, 1.0, 3)]
    kind = SampledSystem if sampled else DelaySystem
    return [kind(mask * rng.normal(size=mask.shape) * 0.7, delays) for _ in range(points)]


def value(expansion, s):
    """F at one s for every point."""
    powers = s ** np.arange(len(expansion.coefficients))
    return np.einsum("j,jmp,mp->p", powers, expansion.coefficients, np.exp(-s * expansion.theta))


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_multiply_to_the_determinant(seed, sampled):
    systems = random_systems(seed, sampled)
    s = 0.3 + 0.8j
    product = np.prod([value(block, s) for _, block in expand([one.terms() for one in systems])], axis=0)
    truth = [one.characteristic_matrix.determinant(np.array([s]))[0] for one in systems]
    np.testing.assert_allclose(product, truth, rtol=1e-11)


def test_triangular_systems_fall_into_blocks():
    a = np.array([[-1.0, 0.0], [3.0, -2.0]])
    blocks = expand([DelaySystem([a], [0.5]).terms()])
    assert sorted(states.tolist() for states, _ in blocks) == [[0], [1]]
    neutral = DelaySystem([-1.0], [0.0], neutral=[0.3], neutral_delays=[1.0])
    assert expand([neutral.terms()]) is None


def family(sampled, gains, delays):
    """x' = -g x(t - tau) - h x(t - sigma) + f x over a grid of (g, h)."""
    f = 0.7 if sampled else -0.1
    kind = SampledSystem if sampled else DelaySystem

    def at(i, j):
        size = len(i)
        order = np.array([0.0, *delays])
        theta = (order + 1.0 if sampled else order)[:, None]
        terms = np.stack([np.full(size, -f), gains[i], gains[j]])
        if sampled:
            return Expansion(np.r_[[[0.0]], theta], np.concatenate([np.ones((1, size)), terms])[None])
        lead = np.zeros_like(terms)
        lead[0] = 1.0
        return Expansion(theta, np.stack([terms, lead]))

    def system(i, j):
        return kind([f, -gains[i], -gains[j]], [0.0, *delays])

    def exact(i, j, k):
        roots = system(i, j).roots(k)
        return np.log(roots) if sampled else roots

    return Field(at, (len(gains), len(gains)), sampled, exact), system


@pytest.mark.parametrize("carried", [pytest.param(2, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("sampled", [False, True])
def test_dominant_roots_of_two_gains(sampled, carried, monkeypatch):
    monkeypatch.setattr(root_grid, "_CARRIED", carried)
    rng = np.random.default_rng(4)
    scale = 0.25 if sampled else 1.5
    field, system = family(sampled, scale * np.linspace(-1.0, 1.0, 15), [3.0, 8.0] if sampled else [0.3, 2.1])
    s = dominant(field, 2)
    assert np.all(s.imag >= 0.0)
    for i, j in rng.integers(0, 15, (40, 2)).tolist():
        one = system(i, j)
        truth = np.log(one.spectral_radius) if sampled else one.spectral_abscissa
        assert s[i, j].real == pytest.approx(truth, abs=1e-9), (i, j)
        assert (s[i, j].real < 0.0) == one.is_stable


def test_a_root_found_twice_is_not_taken_for_two():
    """x' = -x(t - 1)/e has a double root at -1: one point, no tile to follow it from."""
    k = np.exp(-1.0)

    def at(i, j):
        return Expansion(np.array([[0.0], [1.0]]), np.array([[[0.0], [k]], [[1.0], [0.0]]]))

    s = dominant(Field(at, (1, 1), False, lambda i, j, n: DelaySystem([-k], [1.0]).roots(n)), 1)
    assert s[0, 0].real == pytest.approx(-1.0, abs=1e-6)
