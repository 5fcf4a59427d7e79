"""Badly scaled, large and neutral systems, and delays of very different lengths: right answers, bounded effort."""

from __future__ import annotations

import tracemalloc
from math import inf, log, pi

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

from ecc.errors import ConvergenceError, UndecidedError
from ecc.linear import DelaySystem, SampledSystem, certify
from ecc.linear.argument_principle import count_right
from ecc.linear.balancing import balancing_scale
from ecc.linear.neutral import largest_radius


def chain(states, feedback):
    """x_i' = -x_i + 5 x_(i+1), x_n' = -x_n + feedback x_1(t - 1): unstable if 5^(n - 1) feedback > 1."""
    late = np.zeros((states, states))
    late[-1, 0] = feedback
    return DelaySystem([-np.eye(states) + 5.0 * np.eye(states, k=1), late], [0.0, 1.0])


def nonnegative(seed, states, delays, gain, ratio=100.0, decades=6.0):
    """x' = -x + sum_k A_k x(t - tau_k), A_k >= 0 with a spectral radius of the sum of `gain`, in random units.

    Stable for all delays if gain < 1; unstable for all delays, by a real root, if gain > 1.
    """
    rng = np.random.default_rng(seed)
    matrices = rng.uniform(size=(delays, states, states)) * (rng.uniform(size=(delays, states, states)) < 0.3)
    matrices *= gain / np.abs(np.linalg.eigvals(matrices.sum(axis=0))).max()
    units = 10.0 ** rng.uniform(-decades, decades, states)
    lags = np.exp(rng.uniform(-log(ratio), 0.0, delays))
    return DelaySystem([-np.eye(states), *(matrices * units / units[:, None])], [0.0, *lags])


# ---- balancing and bounded effort ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "states, feedback", [(12, 1e-8), (14, 1e-8), (16, 1e-8), (16, 1e-11), (16, 1e-300), (16, -1e-11)]
)
def test_chains_in_bad_units_are_decided(states, feedback):
    system = chain(states, feedback)
    assert system.is_stable is (5.0 ** (states - 1) * feedback < 1.0)
    assert system.certify().stable is system.is_stable


@pytest.mark.slow
def test_long_chains_in_bad_units_are_decided():
    for states, feedback in ((30, 1e-8), (30, 1e-22)):
        assert chain(states, feedback).is_stable is (5.0 ** (states - 1) * feedback < 1.0)


@pytest.mark.parametrize("decades", [0.0, 3.0, 100.0])
def test_balancing_does_not_depend_on_units(decades):
    rng = np.random.default_rng(4)
    for states in (2, 3, 8, 30):
        matrix = rng.uniform(0.1, 1.0, (states, states))
        units = 10.0 ** rng.uniform(-decades, decades, states)
        scaled = matrix * units / units[:, None]
        scale = balancing_scale(scaled)
        assert np.array_equal(np.frexp(scale)[0], np.full(states, 0.5))  # powers of two
        balanced = scaled * scale / scale[:, None]
        off = ~np.eye(states, dtype=bool)
        assert balanced[off].max() < 4.0 and balanced[off].sum() < 1.3 * matrix[off].sum()


def test_balancing_leaves_groups_without_a_cycle_and_keeps_tiny_entries_exact():
    assert np.array_equal(balancing_scale(np.triu(np.full((4, 4), 1e9))), np.ones(4))
    assert np.array_equal(balancing_scale(np.zeros((3, 3))), np.ones(3))
    tiny = np.array([[-1.0, 1e300, 0.0], [1e-300, -1.0, 1e-300], [3e-308, 1e-300, -1.0]])
    ch = DelaySystem([tiny], [0.0]).characteristic_matrix
    assert np.array_equal(-ch.constant[0] * (ch.scale[:, None] / ch.scale), tiny)


def test_matrices_of_derivatives_are_balanced_in_any_unit_of_time():
    base = np.array([[0.0, 0.3], [0.2, 0.0]])
    scales = []
    for unit in (1.0, 2.0**-20, 2.0**20):
        system = DelaySystem(
            [np.array([[-1.0, 64.0], [0.5, -1.0]]) / unit], [unit], neutral=[base], neutral_delays=[unit]
        )
        scales.append(system.characteristic_matrix.scale.tolist())
    assert scales[0] == scales[1] == scales[2]


def test_effort_is_a_bound_and_undecided_states_what_was_spent():
    matrices = np.random.default_rng(9).normal(size=(3, 13, 13)) / 10.0  # the determinant is not expanded
    system = DelaySystem([-np.eye(13), *matrices], [0.0, 0.3, 1.0, 1.7])
    proof = system.certify(effort=1e-4)
    assert (proof.stable, proof.at_least, proof.at_most) == (None, 0, None)
    assert "of the roots are unstable, after" in proof.reason and "(effort 0.0001)" in proof.reason
    assert certify(system, effort=10.0).stable is True and certify(system).reason == ""
    for effort in (0.0, -1.0, 1e7):
        with pytest.raises(ValueError, match=r"^effort must be > 0 and at most 1e\+06, got"):
            system.certify(effort=effort)


def test_the_error_of_an_undecided_verdict_has_the_effort():
    """s^2 + 2 - 1e-300 e^(-s): closer to the axis than any precision that is tried."""
    late = [[0.0, 0.0], [1e-300, 0.0]]
    with pytest.raises(UndecidedError, match=r"after [\d,]+ pieces of the contour in up to 768 bits \(effort 1\)$"):
        _ = DelaySystem([[[0.0, 1.0], [-2.0, 0.0]], late], [0.0, 1.0]).is_stable


@pytest.mark.parametrize("gain", [0.9, 1.1])
def test_many_states_and_delays_in_bad_units(gain):
    assert nonnegative(2, 12, 20, gain).is_stable is (gain < 1.0)


@pytest.mark.parametrize("gain", [0.97, 1.03])
def test_thirty_states_and_twenty_delays_in_bad_units(gain):
    system = nonnegative(3, 30, 20, gain)
    assert system.is_stable is (gain < 1.0)
    assert system.certify().stable is (gain < 1.0)


def test_delays_of_any_ratio_are_never_decided_wrongly():
    decided = 0
    for seed, (states, delays, ratio) in enumerate([(2, 2, 1e6), (3, 3, 1e6), (3, 2, 1e9), (5, 2, 1e9), (30, 2, 1e6)]):
        for gain in (0.5, 0.999, 1.2):
            verdict = nonnegative(seed, states, delays, gain, ratio).verdict
            assert verdict in ("undecided", "stable" if gain < 1.0 else "unstable")
            decided += verdict != "undecided"
    assert decided >= 14


@pytest.mark.parametrize("gain", [0.999, 1.001])
@pytest.mark.parametrize("ratio", [1e6, 1e9])
def test_thirty_states_over_long_delays_are_decided_by_comparison_or_a_real_root(gain, ratio):
    system = nonnegative(9, 30, 20, gain, ratio)
    late = DelaySystem(system.matrices, 1e6 * system.delays)
    assert late.is_stable is (gain < 1.0)
    proof = late.certify()
    assert (proof.stable, proof.at_least) == (gain < 1.0, int(gain > 1.0))
    steps = np.round(1e9 * system.delays[1:]).astype(int)
    assert SampledSystem(system.matrices[1:], steps).is_stable is (gain < 1.0)


def test_memory_of_a_count_does_not_grow_with_its_pieces():
    matrices = 0.3 * np.random.default_rng(5).normal(size=(2, 4, 4)) / 2.0
    ch = DelaySystem([-np.eye(4), *matrices], [0.0, 17_000.0, 24_000.0]).characteristic_matrix
    tracemalloc.start()
    count = count_right(ch, 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count.number == 0 and len(count.omega) > 30_000
    assert peak < 120e6


# ---- margins -------------------------------------------------------------------------------------------------


def loop(gain, delay, poles):
    """L = gain exp(-delay s)/prod(s + p)."""
    states = len(poles)
    opened = -np.diag(poles) + np.eye(states, k=1)
    late = np.zeros((states, states))
    late[-1, 0] = -gain
    return DelaySystem([opened, late], [0.0, delay], opened=DelaySystem([opened], [0.0]))


@pytest.mark.parametrize(
    "gain, delay, margin", [(1e-4, 1.0, 22618.26), (1e-3, 10.0, 1040.17), (1e-12, 1e-3, None), (1e-30, 10.0, None)]
)
def test_gain_margins_of_weak_loops_are_finite(gain, delay, margin):
    found = loop(gain, delay, [1.0]).margins()
    w = brentq(lambda w: w * delay + np.arctan(w) - pi, 1e-9 * pi / delay, pi / delay, xtol=1e-300, rtol=1e-15)
    assert found.gain_margin == pytest.approx(np.hypot(1.0, w) / gain, rel=1e-9)
    assert margin is None or found.gain_margin == pytest.approx(margin, rel=1e-6)
    assert found.phase_margin == inf


@pytest.mark.slow
def test_random_gain_margins_equal_the_first_crossing_of_the_phase():
    """The phase -w tau - sum arctan(w/p) falls: one crossing of -pi has the smallest gain."""
    rng = np.random.default_rng(6)
    for _ in range(15):
        poles = 10.0 ** rng.uniform(-2.0, 2.0, rng.integers(1, 4))
        delay, gain = 10.0 ** rng.uniform(-3.0, 1.0), 10.0 ** rng.uniform(-12.0, -4.0)
        w = brentq(lambda w: w * delay + np.arctan(w / poles).sum() - pi, 1e-12, pi / delay, rtol=1e-15)  # noqa: B023
        expected = float(np.prod(np.hypot(w, poles))) / gain
        assert loop(gain, delay, poles).margins().gain_margin == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_random_gain_margins_equal_a_dense_grid():
    """Two paths of different delays, so that |L| does not fall and the first crossing need not be the margin."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        poles, delays = 10.0 ** rng.uniform(-1.0, 1.0, 2), rng.uniform(0.1, 3.0, 2)
        gains = 10.0 ** rng.uniform(-6.0, -1.0) * rng.uniform(-1.0, 1.0, 2)
        opened = np.array([[-poles[0], 1.0], [0.0, -poles[1]]])
        late = [np.array([[0.0, 0.0], [-gain, 0.0]]) for gain in gains]
        found = DelaySystem([opened, *late], [0.0, *delays], opened=DelaySystem([opened], [0.0])).margins()
        w = np.linspace(0.0, 200.0, 2_000_001)
        numerator = sum(gain * np.exp(-1j * w * lag) for gain, lag in zip(gains, delays, strict=True))
        response = numerator / (1j * w + poles[0]) / (1j * w + poles[1])
        at = np.flatnonzero(np.sign(response.imag[1:]) != np.sign(response.imag[:-1]))
        share = response.imag[at] / (response.imag[at] - response.imag[at + 1])
        real = response.real[at] + share * (response.real[at + 1] - response.real[at])
        factors = -1.0 / real[real < 0.0]
        assert found.gain_margin == pytest.approx(factors[factors > 1.0].min(), rel=1e-6)


def test_a_loop_cut_in_a_neutral_term_does_not_fall_off():
    """L = 0.5 s exp(-s)/(s + 1) stays at 0.5: crossings are infinitely many, and none is the last."""
    closed = DelaySystem([-1.0], [0.0], neutral=[0.5], neutral_delays=[1.0], opened=DelaySystem([-1.0], [0.0]))
    with pytest.raises(ConvergenceError, match="margins need a loop gain that falls to 0"):
        closed.margins()


def test_margins_that_need_too_many_crossings_raise_an_error():
    with pytest.raises(ConvergenceError, match=r"^crossings up to .* rad/s take .* pieces .*, more than the limit"):
        loop(0.5, 1e7, [1.0, 1.0]).margins()


# ---- neutral systems and delays of very different lengths ----------------------------------------------------


def radius_on_a_circle(matrices, sigma, x):
    """Largest spectral radius of E_1 exp(-x sigma_1) + E_2 exp(-x sigma_2 + j theta) on a dense grid of angles."""
    angles = np.exp(1j * np.linspace(0.0, pi, 4001))
    first, second = (matrix * np.exp(-x * lag) for matrix, lag in zip(matrices, sigma, strict=True))
    return float(np.abs(np.linalg.eigvals(first + angles[:, None, None] * second)).max())


def random_neutral(seed):
    rng = np.random.default_rng(seed)
    neutral = rng.normal(size=(2, 3, 3))
    neutral *= rng.uniform(0.5, 0.95) / np.abs(np.linalg.eigvals(np.abs(neutral).sum(axis=0))).max()
    matrices = rng.normal(size=(3, 3, 3)) / 3.0 - np.array([2.0, 0.0, 0.0])[:, None, None] * np.eye(3)
    return DelaySystem(matrices, [0.0, 1.0, 2.0**0.5], neutral=neutral, neutral_delays=[1.0, 2.0**0.5])


def winding(system, line, top):
    """Roots right of a line with |Im s| < top, by the argument of the determinant on a dense rectangle."""
    right = 40.0
    sides = [
        line + 1j * np.linspace(top, -top, 100_001),
        np.linspace(line, right, 20_001) - 1j * top,
        right + 1j * np.linspace(-top, top, 2001),
        np.linspace(right, line, 20_001) + 1j * top,
    ]
    values = system.characteristic(np.concatenate(sides))
    steps = np.angle(values[1:] / values[:-1])
    assert np.abs(steps).max() < 1.0
    return round(steps.sum() / (2.0 * pi))


@pytest.mark.parametrize("seed", [0])
def test_neutral_systems_have_an_abscissa_if_they_have_a_verdict(seed):
    check_neutral(random_neutral(seed))


@pytest.mark.slow
def test_random_neutral_systems_have_an_abscissa_if_they_have_a_verdict():
    for seed in range(1, 9):
        check_neutral(random_neutral(seed))


def check_neutral(system):
    abscissa, essential = system.spectral_abscissa, system.essential_abscissa
    assert radius_on_a_circle(system.neutral, system.neutral_delays, essential) == pytest.approx(1.0, abs=1e-6)
    assert system.is_stable is (abscissa < 0.0)
    assert winding(system, abscissa + 2e-2, 100.0) == 0
    if abscissa > essential + 4e-2:
        assert winding(system, abscissa - 2e-2, 100.0) > 0


@pytest.mark.parametrize("ratio", [1.0, 2.0**0.5, 1e6, 1e9])
def test_essential_abscissa_of_one_state_is_right_to_rounding(ratio):
    delays = [1.0, ratio] if ratio != 1.0 else [1.0, 1.25]
    found = DelaySystem([-1.0], [0.0], neutral=[0.3, -0.4], neutral_delays=delays).essential_abscissa
    with mpmath.workdps(40):
        exact = mpmath.findroot(
            lambda x: mpmath.mpf(0.3) * mpmath.exp(-x * delays[0]) + mpmath.mpf(0.4) * mpmath.exp(-x * delays[1]) - 1,
            found,
        )
    assert found == pytest.approx(float(exact), rel=4e-15)


def test_largest_radius_equals_a_dense_grid():
    rng = np.random.default_rng(8)
    for size in (2, 3, 4):
        matrices = rng.normal(size=(2, size, size))
        grid = radius_on_a_circle(matrices, [0.0, 0.0], 0.0)
        assert grid <= largest_radius(matrices)[0] * (1.0 + 1e-14) < grid * (1.0 + 1e-5)


@pytest.mark.parametrize("tau", [1e6, 1e9])
def test_abscissa_of_delays_of_very_different_lengths(tau):
    """Roots s = j w + gamma/tau lie along gamma(w) = log |2/(j w + 5 + 2 exp(-j w))|, up to terms of 1/tau."""
    w = np.linspace(0.0, 10.0, 1_000_001)
    highest = float(np.log(2.0 / np.abs(1j * w + 5.0 + 2.0 * np.exp(-1j * w))).max())
    system = DelaySystem([-5.0, -2.0, -2.0], [0.0, 1.0, tau])
    assert system.is_stable
    assert tau * system.spectral_abscissa == pytest.approx(highest, abs=2e-3)
    pair = system.roots(2)
    assert pair[0] == pair[1].conjugate() and pair[0].real == system.spectral_abscissa


@pytest.mark.parametrize("tau", [1e6, 1e9])
def test_neutral_abscissa_of_delays_of_very_different_lengths(tau):
    """|z| = |j w (1 + 0.3 exp(-j w)) + 1|/(0.4 w) > 0.7/0.4 for z = exp(-s tau): no root right of -log(1.75)/tau."""
    system = DelaySystem([-1.0], [0.0], neutral=[0.3, 0.4], neutral_delays=[1.0, tau])
    assert system.is_stable
    assert tau * system.spectral_abscissa == pytest.approx(-log(1.75), rel=1e-5)


@pytest.mark.parametrize("gain", [0.5, 0.99, 1.5])
def test_abscissa_of_two_states_over_a_long_delay(gain):
    """x' = -x - g M x(t - tau) with M of eigenvalues 1 and 1/2: the rightmost root is near log(g)/tau."""
    tau = 1e7
    system = DelaySystem([-np.eye(2), -gain * np.array([[0.75, 0.25], [0.25, 0.75]])], [0.0, tau])
    assert tau * system.spectral_abscissa == pytest.approx(log(gain), abs=2e-6)


def test_neutral_sums_at_one_are_decided_exactly():
    for last, verdict in ((0.5, "unstable"), (np.nextafter(0.5, 1.0), "unstable"), (0.5 - 2.0**-12, "stable")):
        system = DelaySystem([-1.0], [0.0], neutral=[0.25, -0.25, last], neutral_delays=[1.0, 2.0**0.5, pi])
        assert system.verdict in (verdict, "undecided" if verdict == "stable" else verdict)
    assert SampledSystem([0.5, 0.25, 0.25], [0, 10, 100]).verdict == "unstable"  # z = 1
