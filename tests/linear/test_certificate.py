"""Proven counts of unstable roots against closed forms, against roots, and where they must not guess."""

from __future__ import annotations

from math import log10, nextafter, pi, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.linear import DelaySystem, SampledSystem, certify, stability_limit
from ecc.linear.argument_principle import count_right
from ecc.linear.quasipolynomial import QuasiPolynomial


def spread_system(seed, size=1, largest=25):
    """Delays spread over a factor 300, gains on both sides of the boundary."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, largest))
    delays = np.exp(rng.uniform(np.log(0.01), np.log(3.0), count))
    gain = rng.uniform(0.1, 15.0) / delays.mean() / count
    matrices = -gain * rng.uniform(0.2, 1.8, (count, 1, 1)) * np.eye(size)
    if size > 1:
        matrices = matrices + 0.4 * gain * rng.normal(size=(count, size, size))
    return DelaySystem(matrices, delays)


@pytest.mark.parametrize("factor, unstable", [(0.999, 0), (1.001, 2), (1 - 1e-9, 0), (1 + 1e-9, 2), (5.001, 4)])
@pytest.mark.parametrize("tau", [0.02, 1.0, 300.0])
def test_scalar_delay_loop_at_half_pi(factor, unstable, tau):
    system = DelaySystem([-factor * (pi / 2) / tau], [tau])
    proof = system.certify()
    assert proof.unstable == unstable
    assert proof.stable is (unstable == 0)
    assert system.is_stable is proof.stable


@pytest.mark.parametrize("steps", [1, 2, 10, 100])
@pytest.mark.parametrize("factor, unstable", [(0.999, 0), (1.001, 2), (1 - 1e-9, 0), (1 + 1e-9, 2)])
def test_sampled_loop_at_its_closed_form(steps, factor, unstable):
    gain = 2.0 * np.sin(pi / (2.0 * (2.0 * steps - 1.0))) * factor
    proof = SampledSystem([1.0, -gain], [0, steps - 1]).certify()
    assert proof.unstable == min(unstable, steps)  # one step: a real root passes z = -1


def test_next_double_beside_the_boundary_is_decided_or_left_open():
    below, above = nextafter(pi / 2, 0.0), nextafter(pi / 2, 2.0)
    for gain in (below, pi / 2, above):
        proof = DelaySystem([-gain], [1.0]).certify()
        assert proof.at_least in (0, 2)
        assert proof.at_most in (0, 2)
        assert proof.at_least <= proof.at_most
    assert DelaySystem([-below * (1.0 - 1e-11)], [1.0]).certify().unstable == 0
    assert DelaySystem([-above * (1.0 + 1e-11)], [1.0]).certify().unstable == 2


def test_root_on_the_boundary_is_proven_where_it_is_algebraic():
    """Sturm's theorem on the axis, and on the circle by z = (1 + s)/(1 - s): such roots are unstable, not undecided."""
    oscillator = DelaySystem([[[0.0, 1.0], [-1.0, 0.0]]], [0.0])
    proof = oscillator.certify()
    assert (proof.stable, proof.unstable) == (False, 2)
    assert not oscillator.is_stable
    circle = SampledSystem([1.0, -1.0], [0, 1])  # z^2 - z + 1: sixth roots of unity
    assert (circle.verdict, circle.certify().at_least) == ("unstable", 2)
    assert SampledSystem([-1.0], [6]).verdict == "unstable"  # z^7 = -1


def test_integrators_are_proven_by_rational_arithmetic():
    proof = DelaySystem([0.1, -0.1], [0.5, 1.0]).certify()
    assert (proof.stable, proof.unstable) == (False, 1)
    proof = SampledSystem([1.0, 0.25, -0.25], [0, 1, 3]).certify()
    assert (proof.stable, proof.unstable) == (False, 1)
    assert not SampledSystem([1.0, 0.25, -0.25], [0, 1, 3]).is_stable
    double = SampledSystem([1.0, 0.25, -0.25], [0, 1, 5]).certify()
    assert (double.stable, double.at_least) == (False, 1)


def test_neutral_count_is_proven_and_left_open_without_a_bound():
    assert DelaySystem([-1.0, -0.5], [0.0, 1.0], neutral=[-0.5], neutral_delays=[1.0]).certify().unstable == 0
    assert DelaySystem([-1.0, -4.0], [0.0, 1.0], neutral=[-0.5], neutral_delays=[1.0]).certify().stable is False
    proof = DelaySystem([-1.0], [0.0], neutral=[-1.1], neutral_delays=[1.0]).certify()
    assert (proof.stable, proof.at_most, proof.reach) == (None, None, float("inf"))


def test_certificate_says_what_it_covers():
    proof = certify(DelaySystem([-1.0], [1.6]))
    assert proof.unstable == 2
    assert proof.line == 0.0
    assert proof.reach >= 1.0  # |s| <= 1 for every root right of the axis
    assert proof.pieces > 0
    assert "ball" in proof.method


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_verdict_equals_certificate_and_rightmost_root(seed, size):
    system = spread_system(seed, size)
    proof = system.certify()
    assert proof.unstable is not None
    assert system.is_stable is proof.stable
    abscissa = system.spectral_abscissa
    assert system.is_stable is (abscissa < 0.0)
    unstable = system.roots(proof.unstable + 1)
    assert int((unstable.real > 0.0).sum()) == proof.unstable


@pytest.mark.property
@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 300))
def test_sampled_verdict_equals_certificate(seed, size, longest):
    rng = np.random.default_rng(seed)
    delays = rng.integers(0, longest, rng.integers(1, 15))
    gain = rng.uniform(0.1, 3.0) / (1.0 + delays.mean()) / len(delays)
    matrices = [np.eye(size), *(-gain * np.eye(size) + 0.3 * gain * rng.normal(size=(len(delays), size, size)))]
    system = SampledSystem(matrices, [0, *delays])
    proof = system.certify()
    assert proof.unstable is not None
    assert system.is_stable is proof.stable is bool(system.spectral_radius < 1.0)


@pytest.mark.slow
def test_no_verdict_differs_from_its_certificate_in_four_thousand_systems():
    wrong = undecided = stable = 0
    for seed in range(4_000):
        system = spread_system(seed, 1 + seed % 2)
        proof = system.certify()
        undecided += proof.stable is None
        wrong += proof.stable is not None and proof.stable is not system.is_stable
        stable += system.is_stable
    assert (wrong, undecided) == (0, 0)
    assert 400 < stable < 3600


@pytest.mark.parametrize("factor, stable", [(0.999, True), (1.001, False)])
def test_a_rate_of_decay_is_proven_on_another_line(factor, stable):
    assert DelaySystem([-np.exp(-1.0)], [1.0]).certify(-factor).stable is stable  # a double root at -1
    assert SampledSystem([0.5], [0]).certify(factor * np.log(0.5)).stable is stable
    triangular = DelaySystem([[[-1.0, 0.0], [1.0, -3.0]]], [0.0])
    assert triangular.certify(-factor).unstable == (0 if stable else 1)
    assert triangular.certify(-3.0 * factor).unstable == (1 if stable else 2)


def test_a_root_on_the_line_is_never_left_of_it():
    proof = DelaySystem([-1.0], [0.0]).certify(-1.0)
    assert proof.stable is None and (proof.at_least, proof.at_most) == (0, 1)
    with pytest.raises(ValueError, match="line must be a finite number, got inf"):
        DelaySystem([-1.0], [1.0]).certify(float("inf"))


def test_roots_that_are_proven_are_counted_as_often_as_they_are():
    """(s - 1)^2 + 4, (s - 1)^2 and s^2 - 4: a pair, a double root and one real root right of the axis."""
    for constant, roots in ([-5.0, 2.0], 2), ([-1.0, 2.0], 2), ([4.0, 0.0], 1):
        system = DelaySystem([[[0.0, 1.0], constant]], [0.0])
        assert QuasiPolynomial.of(system.characteristic_matrix).beyond(0.0, [0.0, 2.0], 96) == roots


@pytest.mark.parametrize("longest", [1.0, 300.0])
@pytest.mark.parametrize("seed", range(5))
def test_pieces_that_fail_in_floats_fail_in_balls(seed, longest):
    """Floating point only spares a test in balls: without it, every count and every piece is the same."""
    rng = np.random.default_rng(seed)
    delays = np.append(rng.uniform(0.001, 0.1, 2), longest)
    gains = np.append(-rng.uniform(5.0, 20.0, 2), rng.uniform(2.0, 8.0)) / longest
    system = DelaySystem(gains[:, None, None] * np.array([[1.0, 0.3], [0.2, 0.7]]), delays)
    fast, plain = (QuasiPolynomial.of(system.characteristic_matrix) for _ in range(2))
    plain._fails_in_floats = lambda s, half: None
    plain._laps_fail_in_floats = lambda s, half: False
    fast._near_root = lambda s, half: None
    assert fast.count(0.0) == plain.count(0.0)
    assert fast.pieces == plain.pieces > 1
    assert fast.inside == plain.inside


def count_and_pieces(system, search=True):
    exact = QuasiPolynomial.of(system.characteristic_matrix)
    if not search:
        exact._near_root = lambda s, half: None
    return exact.count(0.0)[0], exact.pieces


@pytest.mark.parametrize("distance", [1e-3, 1e-9, 1e-14])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_single_root_close_to_the_boundary_costs_few_pieces(distance, side, sampled):
    """Pieces were halved down to the distance of the root."""
    if sampled:
        system = SampledSystem([1.0, -2.0 * sin(pi / 38) * (1.0 + side * distance)], [0, 9])
    else:
        system = DelaySystem([-(pi / 2) * (1.0 + side * distance)], [1.0])
    unstable, pieces = count_and_pieces(system)
    assert unstable == (2 if side > 0 else 0)
    assert pieces <= 31
    counted, halved = count_and_pieces(system, search=False)
    assert counted == unstable
    assert halved > pieces - 2 * log10(distance)


@pytest.mark.parametrize("gain", [0.5, 4.5, 5.5, 20.0])
@pytest.mark.parametrize("longest", [30.0, 300.0, 1e4])
def test_a_factor_common_to_two_laps_costs_few_pieces(gain, longest):
    """s^2 + (s + 1e-9)(exp(-0.1 s) + exp(-s longest)) gain: both laps almost vanish at s = 0."""
    law = [[0.0, 0.0], [-1e-9 * gain, -gain]]
    system = DelaySystem([[[0.0, 1.0], [0.0, 0.0]], law, law], [0.0, 0.1, longest])
    number, pieces = count_and_pieces(system)
    assert pieces < 150
    assert (number == 0) is (gain < 5.0)
    if longest < 1e4:
        assert number == count_right(system.characteristic_matrix, 0.0).number


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_roots_close_to_the_boundary_do_not_change_counts(seed):
    """Several roots at each distance, also in pairs, of loops with a gain that is scaled close to a crossing."""
    rng = np.random.default_rng(seed)
    delays = rng.uniform(0.1, 1.0, 3)
    matrices = -rng.uniform(0.5, 2.0, (3, 1, 1)) * np.array([[1.0, 0.4], [rng.choice([0.0, 0.3]), 1.0]])
    limit = stability_limit(lambda gain: DelaySystem(gain * matrices, delays)).value
    for factor in (1.0 - 1e-3, 1.0 - 1e-8, 1.0 + 1e-8, 1.0 + 1e-3, 3.0):
        system = DelaySystem(factor * limit * matrices, delays)
        (fast, pieces), (plain, halved) = count_and_pieces(system), count_and_pieces(system, search=False)
        assert fast == plain
        assert (fast == 0) is (factor < 1.0)
        assert pieces <= halved
