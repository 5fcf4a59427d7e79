"""Crossings and stability limit against closed forms and against brute force."""

from __future__ import annotations

import importlib
from math import cos, inf, isnan, pi, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from ecc.errors import ConvergenceError, LinearizationError, UndecidedError
from ecc.linear import (
    DelaySystem,
    SampledSystem,
    affine_family,
    crossings,
    distributed_delay,
    quasi_polynomial,
    stability_limit,
    transfer_function,
)
from ecc.linear.black_box_family import nearest_taken


def loop(steps):
    return lambda a: SampledSystem([1.0, -a / steps], [0, steps - 1])


@pytest.mark.parametrize("tau", [1e-3, 1.0, 250.0])
def test_scalar_delay_loop(tau):
    loss = stability_limit(lambda k: DelaySystem([-k], [tau]), certify=True)
    assert loss.value * tau == pytest.approx(pi / 2, rel=1e-13)
    assert loss.frequency * tau == pytest.approx(pi / 2, rel=1e-13)
    low, high = loss.certified
    assert low < loss.value < high
    assert (high - low) / loss.value <= 1e-9
    assert loss.start == 0
    every = [c.gain * tau for c in loss.crossings]
    np.testing.assert_allclose(every, pi / 2 + 2 * pi * np.arange(len(every)), rtol=1e-12)
    assert len(every) > 1


@pytest.mark.parametrize("steps", [2, 10, 100, 10_000])
def test_sampled_loop_with_one_delay(steps):
    loss = stability_limit(loop(steps), certify=steps <= 100)
    assert loss.value == pytest.approx(2.0 * steps * sin(pi / (2.0 * (2.0 * steps - 1.0))), rel=1e-12)
    assert loss.frequency == pytest.approx(pi / (2.0 * steps - 1.0), rel=1e-12)
    assert loss.stable_ranges[0] == (0.0, loss.value)


def test_published_values():
    assert stability_limit(loop(10)).value == pytest.approx(1.651587, abs=5e-7)
    loss = stability_limit(lambda a: SampledSystem([1.0, -a / 30, -a / 30], [0, 9, 19]), certify=True)
    assert loss.value == pytest.approx(1.895494, abs=5e-7)
    assert loss.frequency > 0.0
    assert (loss.certified[1] - loss.certified[0]) / loss.value <= 1e-9


@pytest.mark.parametrize("w", [0.1, 0.5, pi / 4, 1.0, 1.4])
def test_double_integrator_on_its_curve(w):
    """s^2 + (a s/d + b/d^2) exp(-s d) is on the boundary at a = w sin w, b = w^2 cos w."""
    a, b, d = w * sin(w), w * w * cos(w), 0.3
    family = lambda g: DelaySystem([[[0, 1], [0, 0]], [[0, 0], [-g * b / d**2, -g * a / d]]], [0, d])  # noqa: E731
    loss = stability_limit(family, certify=True)
    assert loss.value == pytest.approx(1.0, rel=1e-11)
    assert loss.frequency == pytest.approx(w / d, rel=1e-11)
    assert family(0.999).is_stable
    assert not family(1.001).is_stable


def test_first_crossing_at_pi():
    loss = stability_limit(lambda g: SampledSystem([0.5, -g], [0, 0]), certify=True)
    assert (loss.value, loss.frequency) == (1.5, pi)
    assert loss.crossings[0].change == 1
    assert loss.certified[0] < 1.5 < loss.certified[1]


def test_first_crossing_at_zero():
    loss = stability_limit(lambda g: DelaySystem([-1.0, g], [0.0, 1.0]))
    assert (loss.value, loss.frequency) == (1.0, 0.0)
    loss = stability_limit(lambda g: SampledSystem([0.25, g], [0, 7]))
    assert (loss.value, loss.frequency) == (0.75, 0.0)


@pytest.mark.slow
def test_unstable_from_the_start_and_never():
    assert stability_limit(lambda g: DelaySystem([g], [1.0])).value == 0.0
    assert stability_limit(lambda g: DelaySystem([[[0, 1], [-g, 0]]], [0])).value == 0.0
    never = stability_limit(lambda g: DelaySystem([-g], [0.0]))
    assert never.value == inf
    assert isnan(never.frequency)
    assert never.certified is None
    assert never.crossings == ()
    never = stability_limit(lambda g: SampledSystem([0.5, 0.0 * g], [0, 3]))
    assert never.value == inf


def test_delay_that_never_matters():
    """|A_1| < A_0: stable for every gain, and searched far."""
    loss = stability_limit(lambda g: DelaySystem([-1.0 - g, -0.5 * g], [0.0, 1.0]))
    assert loss.value == inf
    assert loss.complete_to > 1e3


def test_stability_that_returns():
    """An unstable oscillator which a delayed feedback calms within a window of gains, and loses twice."""
    family = lambda g: DelaySystem([[[0, 1], [-1, 0.1]], [[0, 0], [g, 0]]], [0.0, 1.0])  # noqa: E731
    loss = stability_limit(family)
    assert loss.value == 0.0
    assert loss.start == 2
    assert len(loss.stable_ranges) == 1
    low, high = loss.stable_ranges[0]
    assert 0.0 < low < high
    for gain, stable in ((0.999 * low, False), (1.001 * low, True), (0.999 * high, True), (1.001 * high, False)):
        assert family(gain).is_stable is stable


def test_maximum_is_kept():
    family = lambda k: DelaySystem([-k], [1.0])  # noqa: E731
    assert stability_limit(family, maximum=1.5).value == inf
    assert stability_limit(family, maximum=1.6).value == pytest.approx(pi / 2)
    assert [c.gain for c in crossings(family, maximum=9.0)] == pytest.approx([pi / 2, 5 * pi / 2])


@pytest.mark.slow
def test_family_that_is_not_affine_in_the_gain():
    square = stability_limit(lambda g: DelaySystem([-1.0, -g * g], [0.0, 1.0]), certify=True)
    plain = stability_limit(lambda g: DelaySystem([-1.0, -g], [0.0, 1.0]))
    assert square.value == pytest.approx(plain.value**0.5, rel=1e-12)
    assert square.frequency == pytest.approx(plain.frequency, rel=1e-12)
    delay = stability_limit(lambda g: DelaySystem([-1.0], [g]))
    assert delay.value == pytest.approx(pi / 2, rel=1e-12)
    two = stability_limit(lambda g: SampledSystem([np.diag([1.0, 1.0]), -g * np.diag([0.1, 0.05])], [0, 9]))
    assert two.value == pytest.approx(stability_limit(loop(10)).value, rel=1e-9)
    real = stability_limit(lambda g: SampledSystem([0.5, -(g**3)], [0, 0]))
    assert (real.value, real.frequency) == (pytest.approx(0.5 ** (1 / 3) * 3 ** (1 / 3), rel=1e-12), pi)


def test_family_that_ends_before_stability_is_lost():
    def family(tau):
        if tau > 1.0:
            raise ValueError(f"tau must be <= 1, got {tau}")
        return DelaySystem([-1.0], [tau])

    loss = stability_limit(family)
    assert loss.value == inf
    assert 0.7 < loss.complete_to <= 1.0


def test_island_of_instability_between_grid_points_is_found():
    center, width = 0.3337, 0.2
    family = lambda g: DelaySystem([-1.0 + 1.01 * np.exp(-((np.log(g / center) / width) ** 2))], [0.0])  # noqa: E731
    loss = stability_limit(family)
    edge = center * np.exp(-width * np.sqrt(np.log(1.01)))
    assert loss.value == pytest.approx(edge, rel=1e-9)
    assert loss.frequency == 0.0


@pytest.mark.slow
def test_two_coupled_loops_affine_in_entries_but_not_in_the_determinant():
    coupling = np.array([[1.0, 0.4], [0.3, 1.0]])
    family = lambda g: DelaySystem([-g * coupling], [1.0])  # noqa: E731
    largest = np.abs(np.linalg.eigvals(coupling)).max()
    assert stability_limit(family).value == pytest.approx(pi / 2 / largest, rel=1e-10)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_count_changes_exactly_at_the_crossings(seed):
    rng = np.random.default_rng(seed)
    tau = np.exp(rng.uniform(np.log(0.01), np.log(3.0), rng.integers(1, 12)))
    weights = rng.uniform(0.2, 1.0, len(tau)) * rng.choice([1.0, 1.0, 1.0, -0.5], len(tau))
    base = rng.uniform(0.0, 1.0)
    family = lambda g: DelaySystem(np.r_[-base, -g * weights], np.r_[0.0, tau])  # noqa: E731
    loss = stability_limit(family)
    end = min(loss.complete_to, 3.0 * loss.value if 0.0 < loss.value < inf else loss.complete_to)
    gains = [0.0, *(c.gain for c in loss.crossings if c.gain < end), end]
    changes = np.cumsum([loss.start, *(c.change for c in loss.crossings if c.gain < end)])
    for a, b, number in zip(gains, gains[1:], changes, strict=False):
        for part in (0.02, 0.5, 0.98):
            assert family(a + part * (b - a)).certify().unstable == number


@pytest.mark.parametrize("seed", [5, 40, 112, 201, 472, 530])
def test_counts_follow_the_crossings_of_several_states(seed):
    """Rank-one feedback around random recurrences: crossings at 0 and pi, beside them, and at far apart gains."""
    rng = np.random.default_rng(seed)
    size = 2 + seed % 2
    steps = rng.integers(0, 30, 4)
    feedback = rng.normal(size=(size, 1)) @ rng.normal(size=(4, 1, size)) / 4.0
    base = np.eye(size) * rng.uniform(0.3, 1.0) + 0.1 * rng.normal(size=(size, size))
    family = lambda g: SampledSystem([base, *(g * feedback)], [0, *steps])  # noqa: E731
    loss = stability_limit(family)
    gains = [c.gain for c in loss.crossings]
    assert len(gains) >= 2
    for gain in np.geomspace(1e-3 * gains[0], 2.0 * gains[-1], 40):
        unstable = loss.start + sum(c.change for c in loss.crossings if c.gain < gain)
        assert family(gain).certify().unstable == unstable


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.slow) for k in (3, 4, 5))])
def test_two_state_loops_agree_with_bisection_on_the_radius(seed):
    rng = np.random.default_rng(seed)
    steps = rng.choice(np.arange(1, 40), 4, replace=False)

    def family(a):
        first = np.array([[1.0, -a / steps.mean()], [0.0, 0.2]])
        return SampledSystem([first, *np.tile([[0.0, 0.0], [0.2, 0.0]], (4, 1, 1))], [0, *steps])

    loss = stability_limit(family, certify=True)
    low, high = 0.5 * loss.value, 1.5 * loss.value
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if family(middle).spectral_radius < 1.0 else (low, middle)
    assert loss.value == pytest.approx(low, rel=1e-10)


def test_thousand_distinct_delays():
    tau = np.random.default_rng(7).uniform(0.01, 3.0, 1000)
    loss = stability_limit(lambda a: DelaySystem(np.full(1000, -a / 1000.0), tau))
    s = 1j * loss.frequency
    assert abs(s + loss.value * np.exp(-s * tau).mean()) < 1e-11 * loss.frequency
    assert DelaySystem(np.full(1000, -loss.value * 0.999 / 1000.0), tau).is_stable


def test_bad_families_are_refused():
    with pytest.raises(ValueError, match="maximum must be > 0, got 0"):
        stability_limit(lambda g: DelaySystem([-g], [1.0]), maximum=0.0)
    with pytest.raises(ValueError, match="maximum must be a number, got nan"):
        crossings(lambda g: DelaySystem([-g], [1.0]), maximum=float("nan"))
    with pytest.raises(TypeError, match="must return a DelaySystem or SampledSystem, got float"):
        stability_limit(lambda g: g)
    plant = transfer_function([1.0], [1.0, 1.0], 1.0)
    with pytest.raises(TypeError, match="got DelayModel; its poles are the roots of its `system`"):
        stability_limit(lambda g: (plant * g).feedback())


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.7, 1.3])
def test_both_ends_of_a_narrow_window_are_found(gain):
    """Unstable for |g - gain| < 1.5e-7 only, up to rounding; covers end early, after they have found one end."""

    def family(g):
        square = (g - gain) ** 2
        return DelaySystem([-(pi / 2.0 - 0.1 * square / (1.0 + 0.1 * square) + 2.25e-15)], [1.0])

    limit = stability_limit(family, maximum=2.0)
    assert [crossing.change for crossing in limit.crossings] == [2, -2]
    np.testing.assert_allclose([c.gain - gain for c in limit.crossings], [-1.5e-7, 1.5e-7], rtol=0.05)
    assert limit.stable_ranges[-1][1] == 2.0
    assert family(1.9).is_stable


def test_unprovable_boundary_raises(monkeypatch):
    open_ = DelaySystem([[[0, 1], [-1, 0]]], [0]).certify()
    monkeypatch.setattr(DelaySystem, "certify", lambda system: open_)
    with pytest.raises(ConvergenceError, match="its end near .* could not be proven"):
        stability_limit(lambda g: DelaySystem([-g], [1.0]), certify=True)


@pytest.mark.parametrize("steps", [[1, 2], [3, 3, 3], [1, 2, 4]])
def test_many_roots_cross_at_once(steps):
    """Flows that follow one router, z^D = 1 - tau each: every root of every flow crosses at tau = 2."""

    def family(tau):
        size, matrices = len(steps) + 1, []
        for delay in sorted(set(steps)):
            matrix = np.zeros((size, size))
            on = 1 + np.flatnonzero(np.array(steps) == delay)
            matrix[on, on], matrix[on, 0] = 1.0 - tau, tau
            matrices.append(matrix)
        return SampledSystem(matrices, [delay - 1 for delay in sorted(set(steps))])

    loss = stability_limit(family, certify=True)
    assert loss.value == pytest.approx(2.0, rel=1e-12)
    assert loss.certified[0] < 2.0 < loss.certified[1]
    assert sum(c.change for c in loss.crossings) == sum(steps)
    assert all(c.gain == pytest.approx(2.0, rel=1e-12) for c in loss.crossings)
    turns = {round((2 * i + 1) / delay, 9) for delay in steps for i in range(delay) if 2 * i + 1 <= delay}
    assert {round(c.frequency / pi, 9) for c in loss.crossings} == turns


@pytest.mark.slow
def test_equal_flows_that_act_on_each_other_cross_at_once():
    """Roots 0.5 - 0.5 b^2, as often as there are flows but one, cross at z = -1 where b^2 = 3."""

    def family(b):
        coupling = np.full((3, 3), 0.1 * b * b)
        np.fill_diagonal(coupling, -0.4 * b * b)
        return SampledSystem([0.5 * np.eye(3) + coupling], [0])

    loss = stability_limit(family, maximum=10.0, certify=True)
    assert loss.value == pytest.approx(3.0**0.5, rel=1e-11)
    assert loss.certified[0] < 3.0**0.5 < loss.certified[1]
    assert loss.certified[1] - loss.certified[0] <= 1e-9 * loss.value
    assert loss.frequency == pytest.approx(pi)
    assert loss.crossings[0].change == 2


def test_states_that_couple_at_some_gains_only():
    def family(g):
        both, other = 0.5 - 0.01 * g * g, max(0.0, g - 1.0)
        return SampledSystem([[[both, -other], [other, both]]], [0])

    value = stability_limit(family, maximum=10.0).value
    assert (0.5 - 0.01 * value**2) ** 2 + (value - 1.0) ** 2 == pytest.approx(1.0, rel=1e-9)


@pytest.mark.slow
def test_pairs_that_cross_at_once_inside_a_block():
    """A ring of four equal loops, coupled by g^2: two pairs of the same frequency turn unstable at one gain."""
    ring = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)

    def family(g):
        return DelaySystem([-g * g * (np.eye(4) - 0.3 * ring)], [1.0])

    loss = stability_limit(family, certify=True, maximum=10.0)
    assert loss.value == pytest.approx((pi / 2 / 1.6) ** 0.5, rel=1e-12)
    both = loss.crossings[1]
    assert both.gain == pytest.approx((pi / 2) ** 0.5, rel=1e-11)
    assert (both.change, both.frequency) == (4, pytest.approx(pi / 2, rel=1e-6))


@pytest.mark.slow
def test_crossings_closer_than_a_millionth_are_told_apart():
    """Two loops whose boundaries lie 1e-8 apart, in one block by a coupling that leaves the roots as they are."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / 2.0**0.5
    base = turn @ np.diag([1.0, 1.0 + 1e-8]) @ turn
    loss = stability_limit(lambda g: DelaySystem([-g * g * base], [1.0]), certify=True, maximum=2.5)
    gains = [c.gain for c in loss.crossings]
    expected = [(pi / 2 / (1.0 + 1e-8)) ** 0.5, (pi / 2) ** 0.5]
    np.testing.assert_allclose(gains, expected, rtol=1e-12)
    assert [c.change for c in loss.crossings] == [2, 2]
    assert expected[0] > loss.certified[0] > expected[0] * (1.0 - 1e-9)


def saturating(knee, after):
    """z = 1 - g up to the knee, beyond it 1 - after(g)."""
    return lambda g: SampledSystem([1.0, -(g if g <= knee else after(g))], [0, 0])


@pytest.mark.parametrize("knee", [0.1, 0.9, 1.3, 1.9])
def test_gain_that_saturates_is_never_lost(knee):
    loss = stability_limit(saturating(knee, lambda g: knee))
    assert loss.value == inf
    assert loss.crossings == ()
    assert loss.complete_to >= 1e5


@pytest.mark.slow
@pytest.mark.parametrize("knee", [1.3, 3.7, 30.0, 999.0, 2.5e5])
def test_form_that_changes_far_beyond_one_loses_stability_there(knee):
    """Stable for all gains by the form near 1; beyond the knee the loop turns over."""
    family = lambda g: SampledSystem([0.9 / (1.0 + max(0.0, g - knee)) - max(0.0, g - knee)], [0])  # noqa: E731
    loss = stability_limit(family, certify=True)
    excess = brentq(lambda x: x - 0.9 / (1.0 + x) - 1.0, 0.0, 3.0)
    assert loss.value == pytest.approx(knee + excess, rel=1e-9)
    assert loss.certified[0] < knee + excess < loss.certified[1]
    assert stability_limit(lambda g: DelaySystem([-1.0, -0.5 - max(0.0, g - knee)], [0.0, 1.0])).value > knee


@pytest.mark.slow
@pytest.mark.parametrize("low, high", [(2e-4, 4e-4), (0.03, 0.06), (0.3, 0.42), (0.6, 0.8), (1.2, 1.4)])
def test_island_of_another_form_inside_the_stable_range(low, high):
    """z = 1 - g, stable to 2 but for an island on which the loop is cut and drifts."""
    loss = stability_limit(lambda g: SampledSystem([1.001 if low < g < high else 1.0 - g], [0]))
    assert loss.value == pytest.approx(low, rel=1e-9)
    ranges = loss.stable_ranges
    assert ranges[0] == (0.0, pytest.approx(low, rel=1e-9))
    assert len(ranges) == 1 or ranges[1][0] == pytest.approx(high, rel=1e-9)


@pytest.mark.parametrize("edge", [1e-9, 1e-5, 1e4, 1e9])
def test_boundary_far_from_one_is_exact(edge):
    loss = stability_limit(lambda g: SampledSystem([0.25, -g / edge], [0, 1]), certify=True)
    assert loss.value == pytest.approx(edge, rel=1e-13)
    assert loss.complete_to >= 4.0 * edge * (1.0 - 1e-12)


@pytest.mark.slow
def test_small_gains_of_another_form():
    """Below 0.01 the sign is turned: unstable as the gain tends to 0, whatever the form at 1 says."""
    loss = stability_limit(lambda g: DelaySystem([-g if g > 0.01 else g], [1.0]))
    assert (loss.value, loss.start) == (0.0, 1)
    assert loss.stable_ranges == (pytest.approx((0.01, np.pi / 2.0)),)


@pytest.mark.slow
def test_a_loop_that_is_unstable_without_gain_is_searched_up_to_its_stable_range():
    """x' = a x(t) - 3 k a x(t): stable from k = 1/3; counted gain by gain next to a state that is 1e9 times faster."""

    def family(k):
        return DelaySystem(
            [np.array([[1e-3, 0.0], [1.0, -1e6]]), np.array([[-3e-3 * k, 1e-9 * k], [0.0, 0.0]])], [0.0, 1.0]
        )

    loss = stability_limit(family)
    assert (loss.value, loss.start) == (0.0, 1)
    assert loss.stable_ranges[0][0] == pytest.approx(1.0 / 3.0, rel=1e-6)


def test_a_search_without_a_stable_gain_names_its_range():
    loss = stability_limit(lambda g: DelaySystem([1.0 + g], [0.0]), maximum=5.0)
    assert "stable for                             no value up to 5" in str(loss)


@pytest.mark.slow
def test_states_that_join_beyond_one():
    """A second state appears at g = 2: the size of the system, and with it the form, changes."""

    def family(g):
        return DelaySystem([-g], [0.1]) if g < 2.0 else DelaySystem([[[0.0, 1.0], [0.0, 0.0]]], [0.0])

    assert stability_limit(family).value == pytest.approx(2.0, rel=1e-9)


def stays_stable(family, value, top, points=400):
    """By eigenvalues: stable at gains up to a value, unstable beyond."""
    largest = lambda g: np.linalg.eigvals(family(g).matrices.sum(axis=0)).real.max()  # noqa: E731
    assert max(largest(g) for g in np.linspace(top / points, value * (1 - 1e-9), points)) < 0.0
    assert largest(value * (1 + 1e-6)) > 0.0


@pytest.mark.slow
def test_a_range_of_instability_that_counts_jump_over():
    """The determinant is quadratic in the gain: unstable from 0.8585, stable again from 1.1415, and lost at 32.6."""
    k, c, e = 200.0, 0.001, 0.02

    def family(g):
        return DelaySystem([[[0, 1, 0, c], [-1, -(1 - e) + 2 * g, -g, 0], [0, k * g, -k, 0], [c, 0, 0, -c]]], [0.0])

    loss = stability_limit(family, certify=True)
    stays_stable(family, loss.value, loss.value)
    assert loss.value == pytest.approx(0.8585132699, rel=1e-9)
    assert loss.certified[0] < loss.value < loss.certified[1] < loss.value * (1 + 1e-9)
    assert stability_limit(family).value == loss.value


@pytest.mark.parametrize("tau", [1e4, pytest.param(1e6, marks=pytest.mark.slow)])
def test_first_loss_with_a_long_delay(tau):
    """x' = -x - g x(t - tau) is lost where w = sqrt(g^2 - 1), w tau = pi - atan w: just above 1."""
    loss = stability_limit(lambda g: DelaySystem([-1.0, -g], [0.0, tau]), maximum=4.0)
    w = brentq(lambda w: w * tau - pi + np.arctan(w), 0.0, pi / tau)
    assert loss.value == pytest.approx(np.hypot(1.0, w), rel=1e-12)
    assert loss.frequency == pytest.approx(w, rel=1e-6)
    unstable = np.cumsum([crossing.change for crossing in loss.crossings])
    for number, crossing in zip(unstable, loss.crossings, strict=True):
        w = np.sqrt((crossing.gain + 3e-12) ** 2 - 1.0)  # crossings of counted families are accurate to 1e-12
        turns = (w * tau + np.arctan(w) + pi) / (2.0 * pi)  # a pair has crossed at each odd multiple of pi
        assert number == 2 * int(turns)


@pytest.mark.slow
def test_undecided_members_end_what_is_known():
    """What cannot be decided is not called lost: the range ends, or nothing is said at all."""
    swing = DelaySystem([[[0.0, 1.0], [-1.0, 0.0]], [[0.0, 0.0], [1e-300, 0.0]]], [0.0, 1.0])
    two = lambda g: DelaySystem(np.stack([[[-1.0, 0.0], [0.0, -1.0 - g * g]]] * 2), [0.0, 1.0])  # noqa: E731
    loss = stability_limit(lambda g: two(g) if g < 0.5 else swing)
    assert loss.value == inf and 0.3 < loss.complete_to < 0.5


def test_nothing_decided_raises(monkeypatch):
    module = importlib.import_module("ecc.linear.black_box_family")

    def unknown(system):
        raise UndecidedError("unknown")

    monkeypatch.setattr(module, "unstable_of", unknown)
    with pytest.raises(UndecidedError, match="stability is undecided at every gain from 1e-06 to 1e"):
        stability_limit(lambda g: DelaySystem([-1.0, -g * g], [0.0, 1.0]))


def test_range_that_the_family_takes():
    def family(g):
        if not 0.01 <= g <= 0.2:
            raise ValueError(f"g must be in [0.01, 0.2], got {g}")
        return DelaySystem([-10.0 * g], [1.0])

    assert stability_limit(family).value == pytest.approx(pi / 20, rel=1e-12)
    assert stability_limit(family).complete_to == pytest.approx(0.2, rel=1e-6)
    with pytest.raises(ValueError, match="must be in"):
        stability_limit(lambda g: family(0.0))


@pytest.mark.slow
@pytest.mark.parametrize("power", [1, 2], ids=["affine", "counted"])
def test_a_range_begins_where_the_family_does(power):
    """Below 0.1 there is no member: nothing is known there, and nothing said but that."""

    def family(gain):
        if gain < 0.1:
            raise ValueError("too small")
        return DelaySystem([-(gain**power)], [1.0])

    limit = (pi / 2) ** (1.0 / power)
    found = stability_limit(family, certify=True, name="k")
    assert found.begins == pytest.approx(0.1, rel=1e-8)
    assert found.stable_ranges == ((found.begins, found.value),) and found.value == pytest.approx(limit, rel=1e-9)
    assert found.certified is not None
    assert found.notes[0] == "there is no linear model for k below 0.1"
    assert power == 1 or found.notes[1].startswith("certified for k from 0.1 on, provided that ")
    assert found.plot().data[0].x[0] == found.begins


@pytest.mark.slow
@pytest.mark.parametrize("power", [1, 2], ids=["affine", "counted"])
def test_a_family_that_begins_unstable_has_no_stable_range(power):
    def family(gain):
        if gain < 3.1:
            raise ValueError("too small")
        return DelaySystem([-(gain**power)], [1.0])

    found = stability_limit(family)
    assert found.value == 0.0 and found.start > 0 and found.stable_ranges == ()
    assert dict(found._rows())["value"] == "0: unstable as the gain tends to 3.1"


def test_a_family_is_searched_around_a_gain_that_is_far_from_1():
    """Members from 1e9 to 1e11; from 1e-6 to 1e6 there are none."""

    def family(gain):
        if not 1e9 <= gain <= 1e11:
            raise ValueError("none")
        return DelaySystem([-gain * 1e-10], [1.0])

    found = stability_limit(family, near=4e9)
    assert found.value == pytest.approx(pi / 2 * 1e10, rel=1e-9)
    assert found.begins == pytest.approx(1e9, rel=1e-8) and found.complete_to == pytest.approx(1e11, rel=1e-8)
    with pytest.raises(ValueError, match="^none$"):
        stability_limit(family)
    with pytest.raises(ValueError, match="^near must be > 0, got 0.0$"):
        stability_limit(family, near=0.0)


def test_directions_of_crossings_at_long_delays_take_no_counts(monkeypatch):
    """Re ds/dg is small against g and w at large gains; counts on both sides would take most of the search."""
    counted = []
    unstable = affine_family.unstable_roots
    monkeypatch.setattr(affine_family, "unstable_roots", lambda member: (counted.append(1), unstable(member))[1])
    base, late = np.diag([1.0, 0.0, 1.0]), np.zeros((3, 3))
    base[0, 2], late[:, 0] = -1.9605921e-4, [-1.0 / 1010.0, 1.0, 1e-2]

    def family(gain):
        fed_back = late.copy()
        fed_back[0, 0] = gain * late[0, 0] - 1.9605921e-6
        return SampledSystem([base, fed_back, fed_back], [0, 9, 999])

    every = [c for c in stability_limit(family).crossings if c.gain > 1e4]
    assert [c.change for c in every] == [2] * 11
    assert len(counted) == 2  # two more per crossing without a known direction


def test_hundreds_of_unstable_roots_at_the_first_gain_have_one_entry():
    tried = []

    def family(gain):
        if gain < 1.0:
            raise ValueError("gain must be >= 1")
        tried.append(gain)
        return DelaySystem([-2000.0 / gain**2], [1.0])

    limit = stability_limit(family, maximum=1e3)
    last = (2000.0 / (pi / 2.0)) ** 0.5
    assert limit.start == 638
    assert sum(c.change for c in limit.crossings) == -638
    listed = [c.gain for c in limit.crossings if not isnan(c.frequency)]
    np.testing.assert_allclose(listed[-3:], last / np.sqrt([9.0, 5.0, 1.0]), rtol=1e-9)
    ((low, high),) = limit.stable_ranges
    assert (low, high) == (pytest.approx(last, rel=1e-9), 1e3)
    assert limit.complete_to == limit.begins < low
    assert len(tried) < 1500


@pytest.mark.parametrize("steps", [100_000, 1_000_000])
def test_delays_too_long_for_the_whole_axis_are_searched_up_to_a_gain(steps):
    limit = stability_limit(lambda g: SampledSystem([1.0, -g], [0, steps]))
    assert limit.value == pytest.approx(2.0 * np.sin(np.pi / (2.0 * (2 * steps + 1))), rel=1e-10)
    assert limit.complete_to == limit.searched_to > 1e3 * limit.value


@pytest.mark.slow
def test_lower_bounds_of_counts_make_no_crossings():
    """At small gains an unstable root is proven, but not the number of all; this is no change of the number."""
    tried = []

    def family(gain):
        tried.append(gain)
        return DelaySystem([-3e5 / gain**2, -1e-3], [1.0, 1e-4])

    limit = stability_limit(family, maximum=1e4)
    assert limit.value == 0.0
    ((low, high),) = limit.stable_ranges
    assert (low, high) == (pytest.approx((3e5 / (pi / 2.0)) ** 0.5, rel=1e-2), 1e4)
    assert limit.complete_to < low
    assert 0 < sum(not isnan(c.frequency) for c in limit.crossings) <= 8
    assert len(tried) < 500


def averaged(kernel, rate, denominator, sign=1.0):
    def closed(gain):
        return (transfer_function([gain], denominator) * distributed_delay(1.0, kernel, rate)).feedback(sign).system

    return closed


@pytest.mark.parametrize(
    ("kernel", "rate", "denominator"),
    [
        ([1.0], 0.0, [1.0, 0.0]),
        ([1.0], 0.0, [1.0, 1.0]),
        ([1.0], -1.0, [1.0, 1.0]),  # the artificial root is unstable
        ([1.0], 1.0, [1.0, 1.0]),
        ([0.0, 1.0], 0.0, [1.0, 0.0]),
    ],
)
def test_artificial_roots_of_distributed_delays_do_not_count(kernel, rate, denominator):
    """They do not move with the gain; on or right of the axis they would be unstable for all gains."""
    closed = averaged(kernel, rate, denominator)
    limit = stability_limit(closed)
    assert limit.start == 0
    below, above = (closed(limit.value * (1.0 + step)).certify().stable for step in (-1e-6, 1e-6))
    assert below is True and above is False
    if kernel == [1.0] and denominator == [1.0, 0.0]:  # s^2 + g (1 - exp(-s)) = 0 at s = j pi
        assert limit.value == pytest.approx(pi**2 / 2.0, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("near", [0.3, 1.0])
def test_a_root_that_crosses_at_an_artificial_root(near):
    """The limit is 1, where s + 1 equals the mean at s = 0."""
    closed = averaged([1.0], 0.0, [1.0, 1.0], sign=-1.0)
    limit = stability_limit(closed, near=near)
    assert limit.value == pytest.approx(1.0, rel=1e-9) and limit.crossings[0].frequency == 0.0
    assert closed(1.0 - 1e-6).certify().stable is True and closed(1.0 + 1e-6).certify().stable is False


@pytest.mark.parametrize("tau", [1e-8, 2e-10, 1e-11, 1e-14])
def test_slow_crossings_of_loops_with_very_short_delays(tau):
    """Frequencies of 1/tau are searched too, and the crossing at 1 rad/s is 10 to 14 decades lower."""
    limit = stability_limit(lambda g: quasi_polynomial({0: [1.0, -0.1, 1.0], tau: [g, 0.0]}), certify=True)
    assert limit.start == 2 and limit.value == 0.0
    first = limit.crossings[0]
    assert first.gain == pytest.approx(0.1, rel=1e-6)
    assert first.frequency == pytest.approx(1.0, rel=1e-6)
    assert first.change == -2


@pytest.mark.slow
def test_a_loop_with_direct_feedthrough_loses_stability_with_its_neutral_part():
    """At the gain 1 the neutral part gets infinitely many unstable roots."""
    limit = stability_limit(lambda g: transfer_function([g, 0.5 * g], [1.0, 1.0], 1.0).loop(), maximum=5.0)
    assert limit.value == pytest.approx(1.0, rel=1e-9) and limit.frequency == inf
    assert any("narrow windows may be missed" in note for note in limit.notes)


@pytest.mark.parametrize(("kernel", "gain"), [([0.0, 0.0, 1.0], 3.0), ([1.0], 1.0), ([0.0, 1.0], 2.0)])
def test_limit_at_the_artificial_roots_of_a_kernel(kernel, gain):
    """The real root crosses 0 when the gain times the integral of the kernel is 1, proven complete from 0 on."""
    average = distributed_delay(1.0, kernel)
    limit = stability_limit(lambda g: (average * transfer_function([-g], [1.0, 1.0])).loop())
    assert (limit.value, limit.frequency) == (pytest.approx(gain, rel=1e-13), 0.0)
    assert limit.complete_to > gain
    assert not limit.notes


def test_limit_with_a_quadratic_kernel():
    """Once, rounding next to the triple artificial root at 0 was resolved in balls, which failed after 18 s."""
    average = distributed_delay(1.0, [0.0, 0.0, 1.0])
    limit = stability_limit(lambda g: (average * transfer_function([g], [1.0, 1.0])).loop())
    s = 1j * limit.frequency
    value = (2.0 - np.exp(-s) * (2.0 + 2.0 * s + s**2)) / s**3
    assert limit.value * value / (1.0 + s) == pytest.approx(-1.0, rel=1e-10)
    assert limit.complete_to > limit.value


@pytest.mark.parametrize("undecided", [(1e-3,), (1e-3, 0.1, 10.0)])
def test_a_claim_without_stable_range_needs_a_decided_member(monkeypatch, undecided):
    """Once, such a claim was accepted if its only count was undecided."""
    module = importlib.import_module("ecc.linear.stability_limits")

    def unstable_of(gain):
        if any(gain == pytest.approx(value) for value in undecided):
            raise UndecidedError("undecided")
        return 0, True

    monkeypatch.setattr(module, "unstable_of", unstable_of)
    assert module._contradicted(lambda gain: gain, (1, [], 10.0), 1e-3, 0.0, True)


@pytest.mark.parametrize("unsettled, closeness", [(0.0, 1e-9), (3e-8, 1e-6)])
def test_the_end_of_models_that_are_not_found_takes_one_search(unsettled, closeness):
    """A family allows gains from 1, but models of those just above are not found, each after a long search."""
    searches = []

    def family(gain):
        if gain < 1.0:
            raise ValueError("gain must be >= 1")
        if gain < 1.0 + unsettled:
            searches.append(gain)
            raise LinearizationError("no equilibrium was found")
        return DelaySystem([-gain], [1.0])

    assert 0.0 <= nearest_taken(family, 2.0, 0.5) - (1.0 + unsettled) <= 2.0 * closeness
    assert len(searches) == (unsettled > 0.0)


def plain(k):
    return DelaySystem([[[-k * k, 0.1], [0.1, -k]]], [1.0])


def neutral(k):
    return DelaySystem([-1.0, -0.5 - 0.1 * k * k], [0.0, 1.0], neutral=[k * k / 2, k / 3], neutral_delays=[1.0, 2.5])


@pytest.mark.parametrize(
    ("system", "refusal", "low", "high", "start"),
    [
        (plain, ValueError, 0.2151, 0.24, 1),
        (neutral, ValueError, 1.1195, 1.13, 0),
        (neutral, LinearizationError, 1.11963, 1.13, 0),
    ],
)
def test_a_range_without_members_between_gains_that_are_tried_ends_the_search(system, refusal, low, high, start):
    """The searches for the crossings of both families, near 0.2154 and 1.1196, meet members that are refused."""

    def family(k):
        if low < k < high:
            raise refusal("no member")
        return system(k)

    limit = stability_limit(family, maximum=1.5)
    assert limit.start == start and limit.searched_to <= low * (1.0 + 1e-12)
    assert all(crossing.gain <= low for crossing in limit.crossings)


def test_a_refused_member_next_to_the_limit_leaves_it_uncertified():
    """The limit of x' = -(k + 0.3 k^2) x(t - 1) is that of k + 0.3 k^2 = pi/2."""
    value = (np.sqrt(1.0 + 0.6 * np.pi) - 1.0) / 0.6

    def family(k):
        if 4e-10 < k / value - 1.0 < 5e-10:
            raise LinearizationError("no equilibrium was found")
        return DelaySystem([-k - 0.3 * k * k], [1.0])

    limit = stability_limit(family, certify=True, maximum=1.3)
    assert limit.value == pytest.approx(value, rel=1e-12) and limit.certified is None
    assert "counted, not proven" in limit.notes[-1]


def test_members_at_the_end_of_a_family_are_not_needed_again():
    """Equilibria are found from those of similar loops: at the end of a family, not from each of them."""
    members = []

    def family(k):
        if k > 7.0 or (k > 6.9 and k in members):
            raise LinearizationError("no equilibrium was found")
        members.append(k)
        return DelaySystem([-k * k / 30.0], [1.0])

    limit = stability_limit(family, near=7.0)
    assert limit.value == pytest.approx(np.sqrt(15.0 * np.pi), rel=1e-9)
    assert limit.searched_to <= 7.0


@pytest.mark.parametrize("width", [1e-2, 1e-4])
def test_a_peak_of_a_coefficient_that_is_narrower_than_the_mesh_is_found_by_its_sides(width):
    """The coefficient -1 + 2/(1 + u^2), u = (k - 0.7)/width, is positive for |u| < 1."""
    limit = stability_limit(lambda k: DelaySystem([-1.0 + 2.0 / (1.0 + ((k - 0.7) / width) ** 2)], [0.0]), maximum=3.0)
    assert limit.stable_ranges[0][1] == pytest.approx(0.7 - width, rel=1e-9)
    assert limit.stable_ranges[1][0] == pytest.approx(0.7 + width, rel=1e-9)


@pytest.mark.slow
def test_a_limit_states_the_width_of_peaks_that_may_be_missed():
    """The coefficient -1 + 2 exp(-u^2), u = (k - 0.7)/0.005, is constant to rounding on both sides of its peak."""

    def family(k):
        return DelaySystem([-1.0 + 2.0 * np.exp(-(((k - 0.7) / 0.005) ** 2))], [0.0])

    coarse = stability_limit(family, maximum=100.0)
    assert coarse.value == inf and 0.3 < coarse.resolution < 0.42
    assert f"wider than {100.0 * coarse.resolution:.2g} % of the gain" in repr(coarse)
    fine = stability_limit(family, maximum=100.0, resolution=0.005)
    assert fine.resolution <= 0.005 and fine.value == pytest.approx(0.7 - 0.005 * np.sqrt(np.log(2.0)), rel=1e-9)
    with pytest.raises(ValueError, match=r"^resolution must be >= 1e-06, got 0\.0$"):
        stability_limit(family, resolution=0.0)


def test_the_limit_at_which_a_neutral_part_loses_strong_stability():
    """Roots stay left of the axis for |g|/2 + |g|/3 < 1, and for delays without a common measure for no larger g."""

    def family(g):
        return DelaySystem([-1.0, -0.5], [0.0, 1.0], neutral=[g / 2, g / 3], neutral_delays=[1.0, 2.5])

    limit = stability_limit(family, certify=True)
    assert limit.value == pytest.approx(1.2, rel=1e-12) and limit.frequency == inf
    low, high = limit.certified
    assert 1.19 < low < 1.2 < high < 1.2 + 1e-8
    assert "essential spectrum" in repr(limit) and "1.2" in str(limit.plot().to_dict())
    falling = stability_limit(lambda g: family(1.0 / g), maximum=10.0)
    assert falling.start > 0 and falling.value == 0.0
    assert falling.stable_ranges == (pytest.approx((1.0 / 1.2, 10.0), rel=1e-12),)
