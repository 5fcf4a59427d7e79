"""Construction of systems: what is stored, and what is refused in one line."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from ecc.linear import DelaySystem, SampledSystem


def test_equal_delays_are_merged_and_sorted():
    system = DelaySystem([1.0, 2.0, 3.0], [0.5, 0.0, 0.5])
    assert system.delays.tolist() == [0.0, 0.5]
    assert system.matrices.ravel().tolist() == [2.0, 4.0]


def test_systems_are_frozen_and_can_be_pickled():
    system = SampledSystem([1.0, -0.1], [0, 9], dt=0.01, opened=SampledSystem([1.0], [0]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        system.dt = 0.02
    with pytest.raises(ValueError, match="read-only"):
        system.matrices[0] = 2.0
    again = pickle.loads(pickle.dumps(system))
    assert again.dt == 0.01
    assert again.spectral_radius == system.spectral_radius
    assert again.opened.delays.tolist() == [0.0]


def test_display_says_what_it_is():
    system = SampledSystem([1.0, -0.1], [0, 9])
    assert repr(system) == "<SampledSystem states: 1, distinct delays: 2, delays: 0 to 9 steps>"
    assert "SampledSystem, stable" in system._repr_html_()
    assert "delays: 0 to 9 steps of 10 ms>" in repr(SampledSystem([1.0, -0.1], [0, 9], dt=0.01))
    assert "distinct delays: 1, delays: 100 ms>" in repr(DelaySystem([-1.0], [0.1]))
    assert "<th>delays</th><td>0 s to 1.5 s</td>" in DelaySystem([-1.0, -0.1], [0.0, 1.5])._repr_html_()


def test_characteristic_is_the_determinant():
    a, b = np.array([[0.1, 2.0], [-1.0, 0.3]]), np.array([[0.0, -0.2], [0.5, 0.0]])
    s = np.array([[0.3 + 1j, -2.0], [0.5j, 1.0]])
    expected = [[np.linalg.det(x * np.eye(2) - a - b * np.exp(-0.7 * x)) for x in row] for row in s]
    np.testing.assert_allclose(DelaySystem([a, b], [0.0, 0.7]).characteristic(s), expected, rtol=1e-12)
    expected = [[np.linalg.det(x * np.eye(2) - a - b * x**-4) for x in row] for row in s]
    np.testing.assert_allclose(SampledSystem([a, b], [0, 4]).characteristic(s), expected, rtol=1e-12)


def test_poles_are_the_roots():
    control = pytest.importorskip("control")
    system = SampledSystem([1.0, -0.2], [0, 4], dt=0.1)
    every = np.sort_complex(control.poles(system.to_control()))
    np.testing.assert_allclose(np.sort_complex(system.poles()), every, atol=1e-12)
    assert system.poles(2).tolist() == system.roots(2).tolist()
    plain = np.array([[0.0, 1.0], [-2.0, -3.0]])
    np.testing.assert_allclose(DelaySystem([plain], [0.0]).poles(), [-1.0, -2.0], rtol=1e-12)
    assert DelaySystem([-1.0], [1.0]).poles(2).tolist() == DelaySystem([-1.0], [1.0]).roots(2).tolist()
    assert len(SampledSystem([0.0], [3]).poles()) == 0
    with pytest.raises(ValueError, match="k must be given for a system with delays, which has infinitely many poles"):
        DelaySystem([-1.0], [1.0]).poles()


def test_one_gain_on_the_loop():
    loop = DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0]))
    assert loop.with_gain(1.5).is_stable and not loop.with_gain(1.6).is_stable
    sampled = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0]))
    assert sampled.with_gain(1.6).matrices.ravel().tolist() == [1.0, -0.16000000000000003]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(matrices=[], delays=[]), "matrices of a DelaySystem must contain at least one matrix, got none"),
        (dict(matrices=[np.ones((2, 3))], delays=[0]), r"must be square, got shape \(2, 3\) \(number 0\)"),
        (dict(matrices=[[[1.0, 2.0], [3.0]]], delays=[0]), "must be square, got rows of different lengths"),
        (dict(matrices=[np.eye(2), np.eye(3)], delays=[0, 1]), r"must be 2 x 2, got shape \(3, 3\) \(number 1\)"),
        (dict(matrices=np.eye(2), delays=[0]), r"must be square, got shape \(1, 2\) .*; one matrix alone is \[A\]"),
        (dict(matrices=[np.zeros((0, 0))], delays=[0]), "must have at least one row"),
        (dict(matrices=[1.0, float("nan")], delays=[0, 1]), r"must be finite, got nan \(number 1\)"),
        (dict(matrices=[1.0, 2.0], delays=[0]), r"one for each of the 2 matrices, got shape \(1,\)"),
        (dict(matrices=[1.0], delays=[-0.5]), r"finite and >= 0 s, got -0.5 \(number 0\)"),
        (dict(matrices=[1.0], delays=[float("inf")]), "finite and >= 0 s, got inf"),
        (dict(matrices=[1.0], delays=[0], neutral=[-1.0], neutral_delays=[0]), r"I \+ E of delay 0 must be regular"),
        (dict(matrices=[1.0], delays=[0], neutral=[np.eye(2)], neutral_delays=[1]), "neutral matrices .* be 1 x 1"),
        (dict(matrices=[1.0], delays=[0], opened=DelaySystem([np.eye(2)], [0])), "opened must have 1 states .* got 2"),
    ],
)
def test_bad_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DelaySystem(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(matrices=[1.0], delays=[0.5]), r"must be whole steps, got 0.5 \(number 0\)"),
        (dict(matrices=[1.0], delays=[-1]), "finite and >= 0 steps, got -1.0"),
        (dict(matrices=[1.0], delays=[0], dt=0.0), "dt must be > 0 s and finite, got 0.0"),
        (dict(matrices=[1.0], delays=[0], dt=float("nan")), "dt must be > 0 s and finite, got nan"),
        (dict(matrices=[], delays=[]), "matrices of a SampledSystem must contain at least one matrix"),
    ],
)
def test_bad_recurrences_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SampledSystem(**arguments)


def test_wrong_kinds_are_refused():
    with pytest.raises(TypeError, match="must be real, got complex128"):
        DelaySystem([1.0j], [0])
    with pytest.raises(TypeError, match="delays of a DelaySystem must be real numbers"):
        DelaySystem([1.0], ["a"])
    with pytest.raises(TypeError, match="opened must be a DelaySystem, got SampledSystem"):
        DelaySystem([1.0], [0], opened=SampledSystem([1.0], [0]))


def test_open_loop_needs_the_open_system():
    with pytest.raises(ValueError, match="the open loop is unknown"):
        DelaySystem([-1.0], [1.0]).open_loop(1j)
    with pytest.raises(ValueError, match="the open loop is unknown"):
        SampledSystem([0.5], [1]).margins()


def test_open_loop_is_exact():
    s = np.linspace(0.1, 50.0, 400) * 1j
    loop = DelaySystem([-2.0], [0.3], opened=DelaySystem([0.0], [0.0])).open_loop(s)
    np.testing.assert_allclose(loop, 2.0 * np.exp(-0.3 * s) / s, rtol=1e-13)
    z = np.exp(1j * np.linspace(0.01, np.pi, 400))
    loop = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0])).open_loop(z)
    np.testing.assert_allclose(loop, 0.1 * z**-10 / (1.0 - 1.0 / z), rtol=1e-12)


def test_a_neutral_system_shows_its_neutral_delays():
    system = DelaySystem([-1.0], [0.5], neutral=[0.2, 0.1], neutral_delays=[1.0, 0.4])
    assert "neutral delays: 400 ms to 1 s" in repr(system)
    assert "neutral" not in repr(DelaySystem([-1.0], [0.5]))


@pytest.mark.parametrize(
    ("matrices", "delays", "steps"),
    [
        ([0.0], [0], 1),
        ([[[0.0, 0.0], [2.0, 0.0]]], [0], 2),
        ([[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, -1.0, 0.0]]], [0], 3),
        ([[[0.0, 0.0], [2.0, 0.0]]], [4], 6),
        ([[[0.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 0.1]]], [0, 1], None),
        ([[[0.0, 1.0], [1.0, 0.0]]], [0], None),
        ([0.5], [3], None),
    ],
)
def test_deadbeat_steps(matrices, delays, steps):
    system = SampledSystem(matrices, delays)
    assert system.deadbeat_steps == steps and (system.spectral_radius == 0.0) is (steps is not None)
    if steps is not None:
        longest = max(delays)
        past = [np.zeros(system.size)] * longest + [np.ones(system.size)]
        for count in range(1, steps + 1):
            past.append(sum(a @ past[-1 - int(m)] for a, m in zip(system.matrices, system.delays, strict=True)))
            assert any(past[-1]) is (count < steps) or count < steps
        assert not any(past[-1])
