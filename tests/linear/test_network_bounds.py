"""Bounds of dense networks against exact ranges, samples, and exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from ecc.laws.dense_network import DenseNetwork, Layer
from ecc.linear import bound_derivatives, bound_outputs, interval_outputs
from ecc.models.shared.actors import orca_actor

ORCA = np.tile([1.0, 1.0, 0.0, 1.0, 0.02, 0.9, 1.0], 10)
"""An input of Orca's actor, next to which interval bounds are known."""


def a_network(seed, activations, sizes=(4, 9, 7, 2)):
    rng = np.random.default_rng(seed)
    layers = [
        Layer(rng.normal(size=(n, m)), rng.normal(size=n), kind, 0.2)
        for m, n, kind in zip(sizes[:-1], sizes[1:], activations, strict=True)
    ]
    return DenseNetwork(layers)


def test_an_absolute_value_is_bounded_exactly_after_a_division():
    network = DenseNetwork([Layer([[1.0], [-1.0]], [0.0, 0.0], "relu"), Layer([[1.0, 1.0]], [0.0])])
    bounds = bound_outputs(network, [0.0], [[1.0]], max_sets=4)
    assert -1e-9 < bounds.low[0] <= 0.0 and 1.0 <= bounds.high[0] < 1.0 + 1e-9
    assert interval_outputs(network, [0.0], [[1.0]])[1][0] == pytest.approx(2.0)
    assert bounds.attained_high[0] == 1.0 and bounds.n_sets >= 2


@pytest.mark.parametrize("activations", [("leaky_relu", "relu", "tanh"), ("tanh", "tanh", "linear")])
def test_samples_lie_within_bounds_and_bounds_within_intervals(activations):
    network = a_network(3, activations)
    rng = np.random.default_rng(0)
    center, directions = rng.normal(size=4), 0.2 * rng.normal(size=(4, 3))
    points = center + rng.uniform(-1.0, 1.0, (500, 3)) @ directions.T
    outputs, slopes = network(points), network.jacobian(points)
    wide = bound_outputs(network, center, directions, steps=0)
    tight = bound_outputs(network, center, directions, steps=4, max_sets=3)
    low, high = interval_outputs(network, center, directions)
    assert np.all(low <= wide.low + 1e-12) and np.all(wide.high <= high + 1e-12)
    assert np.all(wide.low <= tight.low + 1e-12) and np.all(tight.high <= wide.high + 1e-12)
    assert np.all(tight.low <= outputs.min(axis=0)) and np.all(outputs.max(axis=0) <= tight.high)
    assert np.all(tight.low <= tight.attained_low) and tight.gap < wide.gap
    first, last = bound_derivatives(network, center, directions, np.eye(4))
    assert np.all(first <= slopes.min(axis=0)) and np.all(slopes.max(axis=0) <= last)


def test_a_linear_law_is_added():
    network = a_network(5, ("leaky_relu", "linear"), (3, 6, 1))
    center, directions = np.zeros(3), 0.1 * np.eye(3)
    row = -network.jacobian(center)
    bounds = bound_outputs(network, center, directions, linear=row, steps=2, max_sets=4)
    points = center + np.random.default_rng(1).uniform(-1.0, 1.0, (400, 3)) @ directions
    deviation = (network(points) + points @ row.T)[:, 0]
    assert bounds.low[0] <= deviation.min() and deviation.max() <= bounds.high[0]
    alone = bound_outputs(network, center, directions)
    assert bounds.high[0] - bounds.low[0] < alone.high[0] - alone.low[0]


def test_bounds_include_rounding_errors():
    """An affine network at one input: the exact output, in rational numbers, is within bounds that differ by little."""
    network = a_network(8, ("linear", "linear"), (6, 40, 1))
    center = np.random.default_rng(2).normal(size=6)
    z = [Fraction(float(x)) for x in center]
    for layer in network.layers:
        rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        z = [sum((Fraction(w) * x for w, x in zip(row, z, strict=True)), Fraction(bias)) for row, bias in rows]
    bounds = bound_outputs(network, center, np.zeros((6, 1)))
    assert Fraction(float(bounds.low[0])) < z[0] < Fraction(float(bounds.high[0]))
    assert bounds.high[0] - bounds.low[0] < 1e-10


def test_a_kink_has_all_slopes_between_its_sides():
    low, high = bound_derivatives([Layer([[2.0]], [0.0], "leaky_relu", 0.2)], [0.0], [[1.0]], [[1.0]])
    assert low[0, 0] == pytest.approx(0.4) and high[0, 0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bound_outputs([], [0.0], [[1.0]]), "layers must contain at least one layer, got none"),
        (lambda: bound_outputs([Layer([[1.0]], [0.0])], [0.0, 1.0], [[1.0]]), "center must have 1 entries"),
        (lambda: bound_outputs([Layer([[1.0]], [0.0])], [0.0], [[1.0], [1.0]]), "directions must have 1 rows"),
        (
            lambda: bound_outputs([Layer([[1.0]], [0.0])], [0.0], [[1.0]], linear=[[1.0, 2.0]]),
            r"linear must have shape \(1, 1\)",
        ),
        (lambda: bound_derivatives([Layer([[1.0]], [0.0])], [0.0], [[1.0]], [[1.0], [1.0]]), "along must have 1 rows"),
        (
            lambda: bound_outputs([Layer([[1.0]], [0.0]), Layer([[1.0, 1.0]], [0.0])], [0.0], [[1.0]]),
            r"weight must have 1 columns, got 2 \(layer 1\)",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("size", "low", "high"), [(1e-4, -0.24, 0.04), (1e-3, -0.91, 0.87), (1e-2, -1.0, 1.0)])
def test_intervals_say_nothing_on_orcas_actor(size, low, high):
    bounds = interval_outputs(orca_actor(), ORCA, size * np.eye(70))
    assert float(bounds[0][0]) == pytest.approx(low, abs=0.005) and float(bounds[1][0]) == pytest.approx(
        high, abs=0.005
    )


@pytest.mark.slow
def test_linear_bounds_of_orcas_actor_at_one_percent():
    """All 70 inputs apart, and the same deviation of all frames, which is proven to cut the window."""
    apart = bound_outputs(orca_actor(), ORCA, 1e-2 * np.eye(70), steps=0, max_sets=64)
    assert -0.33 < apart.low[0] < -0.28 and 0.06 < apart.high[0] < 0.15
    shared = bound_outputs(orca_actor(), ORCA, 1e-2 * np.tile(np.eye(7), (10, 1)), steps=0, max_sets=128)
    assert shared.high[0] < -0.01 and shared.low[0] > -0.21 and shared.gap < 0.01
