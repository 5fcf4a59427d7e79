"""Floquet multipliers: constant coefficients, charts of the delayed Mathieu equation, and milling."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import mathieu_a

from ecc.linear import DelaySystem, floquet_multipliers

TURN = 2.0 * np.pi


def mathieu(delta, epsilon, b, damping=0.0):
    """x'' + damping x' + (delta + epsilon cos t) x = b x(t - 2 pi)."""
    return floquet_multipliers(
        lambda t: [[0.0, 1.0], [-delta - epsilon * np.cos(t), -damping]],
        [lambda t: [[0.0, 0.0], [b, 0.0]]],
        [TURN],
        TURN,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("period", "delay"), [(1.0, 1.0), (0.7, 1.0), (2.3, 0.6)])
def test_constant_coefficients_have_the_exponentials_of_roots(period, delay):
    roots = DelaySystem([-1.0, -0.4], [delay, 0.0]).roots(4)
    found = floquet_multipliers(lambda t: -0.4, [lambda t: -1.0], [delay], period, k=4)
    expected = np.exp(roots * period)
    assert np.sort_complex(found.values) == pytest.approx(np.sort_complex(expected), abs=1e-13)
    assert found.errors.max() < 1e-12


@pytest.mark.slow
def test_the_delayed_oscillator_without_modulation():
    """Hsu and Bhatt 1966: for delta in (0, 1/4) stable for 0 < b < min(delta, 1/4 - delta)."""
    for delta in (0.1, 0.2):
        edge = min(delta, 0.25 - delta)
        assert mathieu(delta, 0.0, 0.999 * edge).is_stable is True
        assert mathieu(delta, 0.0, 1.001 * edge).is_stable is False
        assert mathieu(delta, 0.0, -0.001).is_stable is False


@pytest.mark.slow
def test_the_boundary_of_the_delayed_mathieu_equation():
    """A multiplier -1 makes x(t - 2 pi) = -x(t): Mathieu's equation with 4 (delta + b) = a_1(2 epsilon)."""
    delta, epsilon = 0.75, 1.0
    edge = mathieu_a(1, 2.0 * epsilon) / 4.0 - delta
    inside, outside = (mathieu(delta, epsilon, factor * edge) for factor in (0.9999, 1.0001))
    assert inside.is_stable is True and outside.is_stable is False
    at_edge = mathieu(delta, epsilon, edge)
    assert at_edge.values[0] == pytest.approx(-1.0, abs=1e-9)
    assert at_edge.is_stable is None


def test_multiplier_of_one_delay_with_jumps():
    """x' = -g(t) x with g = 2 on half of the period: exp(-1); a delayed term that is 0 adds multipliers 0."""
    found = floquet_multipliers(
        lambda t: -2.0 if t % 1.0 < 0.5 else 0.0, [lambda t: 0.0], [1.0], 1.0, k=1, breaks=[0.5]
    )
    assert found.spectral_radius == pytest.approx(np.exp(-1.0), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [0.1, 0.4])
def test_milling_by_semi_discretization(depth):
    """One tooth cuts 0.3 of a turn: x'' + 0.02 x' + x = -depth h(t) (x - x(t - T)), h = max(0, ...) with a jump."""
    period = 4.0

    def force(t):
        phase = TURN * (t % period) / period
        return depth * (np.sin(phase) ** 2 + 0.3 * np.sin(phase) * np.cos(phase)) if phase < 0.6 * np.pi else 0.0

    found = floquet_multipliers(
        lambda t: [[0.0, 1.0], [-1.0 - force(t), -0.02]],
        [lambda t: [[0.0, 0.0], [force(t), 0.0]]],
        [period],
        period,
        breaks=[0.3 * period],
    )

    def by_steps(steps):
        h, size = period / steps, steps + 2
        product = np.eye(size)
        for i in range(steps):
            f = force((i + 0.5) * h)
            a = np.array([[0.0, 1.0], [-1.0 - f, -0.02]])
            p = expm(a * h)
            r = np.linalg.solve(a, p - np.eye(2)) @ [0.0, f]
            step = np.zeros((size, size))
            step[:2, :2] = p
            step[:2, -2:] = 0.5 * r[:, None]
            step[2, 0] = 1.0
            step[3:, 2:-1] = np.eye(steps - 1)
            product = step @ product
        return np.abs(np.linalg.eigvals(product)).max()

    coarse, fine = by_steps(100), by_steps(200)
    assert found.spectral_radius == pytest.approx(fine, abs=2.0 * abs(fine - coarse) + 1e-9)
    assert abs(fine - coarse) < 1e-3


def test_display():
    text = str(mathieu(0.2, 0.0, 0.01))
    assert "Floquet multipliers: stable" in text and "estimated error" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"period": 0.0}, "period must be finite and > 0 s, got 0.0"),
        ({"k": 0}, "k must be >= 1, got 0"),
        ({"degree": 3}, "degree must be 4 to 40, got 3"),
        ({"delays": [0.0]}, "delays must contain at least one delay > 0 s"),
        ({"delays": [1.0, 2.0]}, "must be one for each of the 1 matrices"),
        ({"breaks": [1.5]}, r"breaks must lie in \[0, 1\) s"),
        ({"a": lambda t: np.nan}, "coefficients must be finite matrices of one shape"),
        ({"b": [lambda t: np.eye(2)]}, "coefficients must be finite matrices of one shape"),
        ({"delays": [400.0]}, "must have <= 3000 unknowns"),
    ],
)
def test_bad_input(change, text):
    arguments = {"a": lambda t: -1.0, "b": [lambda t: 0.5], "delays": [1.0], "period": 1.0} | change
    with pytest.raises(ValueError, match=text):
        floquet_multipliers(**arguments)
