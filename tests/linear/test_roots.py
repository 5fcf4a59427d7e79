"""Roots, abscissa and radius against closed forms and computations made without ecc."""

from __future__ import annotations

import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from ecc.errors import ConvergenceError
from ecc.linear import CharacteristicRoots, DelaySystem, SampledSystem, distributed_delay, quasi_polynomial, rootfinding
from ecc.linear.imaginary_axis import Pair
from ecc.linear.rootfinding import isolated


def companion_moduli(matrices, delays):
    size, longest = matrices.shape[1], int(max(delays)) + 1
    full = np.eye(size * longest, k=-size)
    for matrix, delay in zip(matrices, delays, strict=True):
        full[:size, int(delay) * size : (int(delay) + 1) * size] += matrix
    return np.sort(np.abs(np.linalg.eigvals(full)))[::-1]


@pytest.mark.parametrize("k", [0.2, 1.0, 1.5707, 3.0, 40.0])
@pytest.mark.parametrize("tau", [0.01, 1.0, 60.0])
def test_scalar_delay_roots_are_lambert_w(k, tau):
    branches = np.array([lambertw(-k * tau, b) / tau for b in range(-12, 12)])
    expected = branches[np.lexsort((-branches.imag, -branches.real.round(9)))][:8]
    roots = DelaySystem([-k], [tau]).roots(8)
    np.testing.assert_allclose(np.sort_complex(roots.round(12)), np.sort_complex(expected.round(12)), rtol=1e-9)
    assert roots.real.max() == pytest.approx(expected.real.max(), rel=1e-12)


def test_roots_come_by_falling_real_part_with_conjugates_side_by_side():
    roots = DelaySystem([0.3, -1.0], [0.0, 1.0]).roots(12)
    assert len(roots) == 12
    assert np.all(np.diff(roots.real) <= 1e-12)
    np.testing.assert_allclose(roots[0::2], roots[1::2].conj())
    assert np.all(roots[0::2].imag > 0.0)


def test_system_without_delays_has_as_many_roots_as_states():
    matrix = np.array([[0.0, 1.0, 0.0], [-2.0, -0.5, 1.0], [0.3, 0.0, -1.0]])
    roots = DelaySystem([matrix], [0.0]).roots(7)
    expected = np.linalg.eigvals(matrix)
    np.testing.assert_allclose(np.sort_complex(roots), np.sort_complex(expected), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_free_integrators_have_roots_at_zero(size):
    system = DelaySystem([np.zeros((size, size))], [0.0])
    assert system.roots(size).tolist() == [0.0] * size
    assert system.spectral_abscissa == 0.0
    assert not system.is_stable


def test_double_root_is_listed_twice():
    system = DelaySystem([np.diag([-1.0, -1.0])], [1.0])
    one = DelaySystem([-1.0], [1.0]).roots(2)
    np.testing.assert_allclose(system.roots(4), [one[0], one[1], one[0], one[1]], rtol=1e-7)


def test_many_unstable_roots_are_all_found():
    roots = DelaySystem([-1.0, -400.0], [0.0, 1.0]).roots(140)
    assert len(roots) == 140
    s = roots[:128]
    np.testing.assert_allclose(s + 1.0 + 400.0 * np.exp(-s), 0.0, atol=1e-10)
    assert DelaySystem([-1.0, -400.0], [0.0, 1.0]).certify().unstable == int((roots.real > 0).sum())


def test_neutral_root_solves_its_equation_and_essential_abscissa_is_exact():
    system = DelaySystem([-1.0, -0.5], [0.0, 1.0], neutral=[-0.5], neutral_delays=[1.0])
    assert system.essential_abscissa == pytest.approx(np.log(0.5), rel=1e-12)
    s = system.roots(3)
    np.testing.assert_allclose(s * (1.0 - 0.5 * np.exp(-s)) + 1.0 + 0.5 * np.exp(-s), 0.0, atol=1e-12)
    assert system.spectral_abscissa == pytest.approx(s[0].real)


@pytest.mark.parametrize("factor, stable", [(0.999, True), (1.001, False)])
def test_neutral_system_turns_unstable_with_its_difference_part(factor, stable):
    neutral = [0.6 * factor, 0.4 * factor]
    assert DelaySystem([-1.0], [0.0], neutral=neutral, neutral_delays=[1.0, 2.0**0.5]).is_stable is stable


def test_neutral_term_without_delay_only_scales():
    plain = DelaySystem([-1.0], [0.7])
    scaled = DelaySystem([-3.0], [0.7], neutral=[2.0], neutral_delays=[0.0])
    np.testing.assert_allclose(scaled.roots(4), plain.roots(4), rtol=1e-12)
    np.testing.assert_allclose(scaled.characteristic(0.3j), 3.0 * plain.characteristic(0.3j))


def test_time_scaling_moves_roots_only():
    rng = np.random.default_rng(4)
    matrices, delays = rng.normal(size=(5, 2, 2)), rng.uniform(0.0, 3.0, 5)
    slow, fast = DelaySystem(matrices, delays).roots(5), DelaySystem(1e3 * matrices, 1e-3 * delays).roots(5)
    np.testing.assert_allclose(fast, 1e3 * slow, rtol=1e-9)


def test_badly_scaled_states_change_nothing():
    rng = np.random.default_rng(5)
    matrices, delays = rng.normal(size=(4, 3, 3)) - np.eye(3), rng.uniform(0.0, 2.0, 4)
    scale = np.diag([1e9, 1.0, 1e-6])
    other = scale @ matrices @ np.linalg.inv(scale)
    np.testing.assert_allclose(DelaySystem(other, delays).roots(3), DelaySystem(matrices, delays).roots(3), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 40), min_size=1, max_size=8),
    st.floats(0.05, 2.0),
    st.integers(0, 2**32 - 1),
)
def test_radius_equals_companion_eigenvalues(size, delays, gain, seed):
    matrices = gain * np.random.default_rng(seed).normal(size=(len(delays), size, size)) / len(delays)
    system = SampledSystem(matrices, delays)
    expected = companion_moduli(system.matrices, system.delays)
    np.testing.assert_allclose(np.abs(system.roots(5))[:5], expected[:5], rtol=1e-7)
    assert system.spectral_radius == pytest.approx(expected[0], rel=1e-9)
    assert system.is_stable == (expected[0] < 1.0) or abs(expected[0] - 1.0) < 1e-12


@pytest.mark.parametrize("steps", [1, 7, 400])
def test_radius_of_a_pure_delay_is_known(steps):
    system = SampledSystem([0.5], [steps - 1])
    assert system.spectral_radius == pytest.approx(0.5 ** (1.0 / steps), rel=1e-13)


def test_nilpotent_recurrence_has_no_roots():
    system = SampledSystem([[[0.0, 1.0], [0.0, 0.0]]], [3])
    assert system.spectral_radius == 0.0
    assert system.is_stable
    assert SampledSystem([0.0], [3]).spectral_radius == 0.0


@pytest.mark.parametrize("gain", [1e-4, 1.57e-4, 1.0])
def test_degree_ten_thousand_agrees_with_newton_on_the_polynomial(gain):
    radius = SampledSystem([1.0, -gain], [0, 9999]).spectral_radius
    angles = (2.0 * np.arange(400) + 1.0) * np.pi / 10_000.0
    z = np.exp(1j * angles) * (1.0 + 1e-9)
    for _ in range(200):  # z^10000 - z^9999 + gain = 0, roots next to the circle
        power = np.exp(9999.0 * np.log(z))
        step = (power * (z - 1.0) + gain) / (10_000.0 * power - 9999.0 * power / z)
        z = z - np.where(np.abs(step) > 1e-4, 1e-4 * step / np.abs(step), step)
    good = np.abs(np.exp(9999.0 * np.log(z)) * (z - 1.0) + gain) < 1e-9 * gain
    assert good.sum() > 100
    assert radius == pytest.approx(np.abs(z[good]).max(), rel=1e-12)


def test_thousand_distinct_delays_of_both_kinds():
    rng = np.random.default_rng(6)
    tau = rng.uniform(0.01, 3.0, 1000)
    s = DelaySystem(np.full(1000, -1e-3), tau).roots(1)[0]
    assert abs(s + np.exp(-s * tau).mean()) < 1e-13
    m = rng.choice(np.arange(1, 4000), 1000, replace=False)
    z = SampledSystem(np.r_[1.0, np.full(1000, -5e-7)], np.r_[0, m]).roots(1)[0]
    assert abs(z - 1.0 + 5e-4 * np.exp(-m * np.log(z)).mean()) < 1e-12


@pytest.mark.slow
def test_spread_of_delays_over_three_hundred_needs_no_luck():
    """The slow loop decides, and collocation of low order calls this system unstable."""
    tau = np.geomspace(0.01, 3.0, 12)
    gains = 1.5 / tau / 12.0
    system = DelaySystem(-gains, tau)
    roots = system.roots(20)
    residual = roots + (gains * np.exp(-np.multiply.outer(roots, tau))).sum(axis=1)
    np.testing.assert_allclose(residual, 0.0, atol=1e-10)
    assert system.is_stable is bool(roots[0].real < 0.0)
    dense = np.linspace(0.0, 2.0 * gains.sum(), 400_001)
    values = 1j * dense + (gains * np.exp(-1j * np.multiply.outer(dense, tau))).sum(axis=1)
    turns = np.unwrap(np.angle(values))
    assert round(0.5 - (turns[-1] - turns[0]) / np.pi) == (0 if system.is_stable else int((roots.real > 0).sum()))


def test_k_is_checked():
    system = DelaySystem([-1.0], [1.0])
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        system.roots(0)
    with pytest.raises(TypeError, match="k must be a whole number, got 1.5"):
        system.roots(1.5)


def test_missing_roots_raise_with_what_was_found(monkeypatch):
    from ecc.linear import rootfinding

    monkeypatch.setattr(rootfinding, "newton", lambda ch, starts, removable: np.zeros(0, complex))
    with pytest.raises(ConvergenceError, match="roots lie right of .* 0 found") as caught:
        DelaySystem([-1.0], [2.0]).roots(2)
    assert len(caught.value.last) == 0


@pytest.mark.parametrize("links", [2, 4, 8])
@pytest.mark.parametrize("steps", [1, 4])
def test_defective_roots_of_a_chain(links, steps):
    """Each state follows those before it: (1 - tau) z^-(steps - 1) on the diagonal, a Jordan block at every root."""

    def chain(tau):
        return SampledSystem([(1.0 - tau) * np.eye(links) + 0.3 * np.tril(np.ones((links, links)), -1)], [steps - 1])

    assert chain(0.6).spectral_radius == pytest.approx(0.4 ** (1 / steps), rel=1e-12)
    np.testing.assert_allclose(chain(0.6).roots(links * steps) ** steps, 0.4, rtol=1e-10)
    assert len(chain(0.6).roots(links * steps + 3)) == links * steps
    assert chain(2.0 - 1e-9).is_stable
    assert not chain(2.0).is_stable
    assert chain(2.0 + 1e-9).certify().unstable == links * steps


def test_defective_roots_in_continuous_time():
    matrix = np.array([[-1.0, 0.0, 0.0], [5.0, -1.0, 0.0], [3.0, 2.0, -0.5]])
    one, other = DelaySystem([-1.0], [1.0]).roots(2), DelaySystem([-0.5], [1.0]).roots(1)
    roots = DelaySystem([matrix], [1.0]).roots(6)
    assert roots[:4].tolist() == [*one, *one]
    assert abs(roots[4] - other[0]) < 1e-12


def test_groups_of_states_are_found_in_any_order():
    rng = np.random.default_rng(7)
    matrices = rng.normal(size=(3, 5, 5)) * 0.3
    matrices[:, :2, 2:] = 0.0
    matrices[:, 2:4, 4:] = 0.0
    delays = [0, 1, 3]
    order = rng.permutation(5)
    system = SampledSystem(matrices[:, order[:, None], order], delays)
    assert sorted(part.size for part, _ in system.blocks) == [1, 2, 2]
    np.testing.assert_allclose(np.abs(system.roots(9)), companion_moduli(matrices, delays)[:9], rtol=1e-9)


def monic(*roots):
    """The one-state recurrence whose polynomial has these roots."""
    weights = -np.poly(roots)[1:].real
    return SampledSystem(weights, range(len(weights)))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 7])
def test_clusters_and_multiple_roots_of_short_systems(k):
    """Binary roots: the polynomial is exact, and a triple root is one."""
    roots = monic(0.5, 0.5, 0.5, -0.5, -0.5, 0.25, 0.75).roots(k)
    expected = np.array([0.75, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25])[:k]
    np.testing.assert_allclose(np.abs(roots), expected, rtol=1e-12)
    if k >= 6:
        assert sorted(roots.real.round(9))[:2] == [-0.5, -0.5]


def test_roots_that_all_but_tie():
    """Moduli 1e-12 apart, cut between them: no circle fits, the list is complete all the same."""
    pair = np.exp(0.7j) * 0.5
    system = monic(pair, pair.conjugate(), 0.5 * (1.0 + 1e-12), -0.5 * (1.0 - 1e-12), 0.9)
    assert [len(system.roots(k)) for k in (1, 2, 3, 4, 5)] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(np.abs(system.roots(5)), [0.9, 0.5, 0.5, 0.5, 0.5], rtol=1e-11)


@pytest.mark.parametrize("size, steps", [(1, 60), (2, 20), (4, 9)])
def test_isolated_roots_are_all_there_are(size, steps):
    """Exact isolation against the counted search, and against the trace and the determinant of the companion matrix."""
    rng = np.random.default_rng(size)
    system = SampledSystem(0.3 * rng.normal(size=(3, size, size)), [0, steps // 2, steps - 1])
    s, many = isolated(system.characteristic_matrix)
    assert many.sum() == size * steps
    every = np.repeat(np.exp(s), np.where(many > 1, 2, 1))
    every[1:][np.diff(every) == 0] = every[1:][np.diff(every) == 0].conj()
    np.testing.assert_allclose(every.sum().real, np.trace(system.matrices[0]), atol=1e-12)
    np.testing.assert_allclose(np.abs(np.prod(every)), np.abs(np.linalg.det(system.matrices[-1])), rtol=1e-10)
    np.testing.assert_allclose(np.abs(system.roots(size * steps)), np.sort(np.abs(every))[::-1], rtol=1e-9)


def test_roots_of_all_sizes_down_to_nothing():
    """Roots at 0 are no roots; one of size 1e-14 is."""
    system = SampledSystem([1.0, -0.25 + 1e-14, -2.5e-15], [0, 1, 2])
    roots = system.roots(9)
    assert len(roots) == 3
    assert abs(roots[2]) == pytest.approx(1e-14, rel=1e-2)
    assert len(SampledSystem([1.0, -0.25, 0.0], [0, 1, 2]).roots(9)) == 2


@pytest.mark.parametrize("size", [2, 40, 200])
def test_radius_of_one_dense_matrix(size):
    matrix = np.random.default_rng(size).normal(size=(size, size)) / size**0.5
    largest = np.abs(np.linalg.eigvals(matrix)).max()
    assert SampledSystem([0.9 / largest * matrix], [0]).spectral_radius == pytest.approx(0.9, rel=1e-12)


def test_neutral_parts_that_only_pass_downstream_have_no_essential_spectrum():
    """x' = -x(t - 1); y' = x'(t - 0.3) + x'(t - 0.7) - 2 y: the eigenvalues are those of the diagonal."""
    down = np.array([[0.0, 0.0], [1.0, 0.0]])
    system = DelaySystem(
        [np.diag([-1.0, 0.0]), np.diag([0.0, -2.0])], [1.0, 0.0], neutral=[-down, -down], neutral_delays=[0.3, 0.7]
    )
    whole = DelaySystem(
        [np.diag([-1.0, 0.0]) + 1e-9 * np.ones((2, 2)), np.diag([0.0, -2.0])],
        [1.0, 0.0],
        neutral=[-down, -down],
        neutral_delays=[0.3, 0.7],
    )
    alone = DelaySystem([[[-1.0]]], [1.0]).roots(1)[0]
    for one in (system, whole):
        assert one.essential_abscissa == -np.inf and one.is_stable
        assert one.roots(1)[0] == pytest.approx(alone, abs=1e-7)


def test_essential_abscissa_is_exact_where_it_is_said_to_be():
    """Triangular: the worst diagonal entry. Entries of one sign: the radius of the sum, reached at a real root."""
    triangular = [np.array([[0.3, 5.0], [0.0, -0.2]]), np.array([[-0.4, -7.0], [0.0, 0.1]])]
    system = DelaySystem([-np.eye(2)], [0.0], neutral=triangular, neutral_delays=[1.0, 2.0])
    x = system.essential_abscissa
    assert 0.3 * np.exp(-x) + 0.4 * np.exp(-2.0 * x) == pytest.approx(1.0, rel=2e-9)
    negative = [-np.array([[0.3, 0.2], [0.1, 0.4]]), -np.array([[0.1, 0.2], [0.3, 0.0]])]
    system = DelaySystem([-np.eye(2)], [0.0], neutral=negative, neutral_delays=[1.0, 2.0])
    x = system.essential_abscissa
    lead = np.eye(2) + sum(e * np.exp(-tau * x) for e, tau in zip(negative, (1.0, 2.0), strict=True))
    assert abs(np.linalg.det(lead)) < 2e-9


def beside_triple_root(alpha, beta):
    """The largest real part of the three zeros of s^2 exp(s) + alpha s + beta beside sqrt(2) - 2."""
    with mpmath.workdps(40):
        a, b, at = mpmath.mpf(alpha), mpmath.mpf(beta), mpmath.sqrt(2) - 2
        weight = mpmath.exp(at)
        third = (6 + 6 * at + at * at) * weight / 6  # and the second derivative, (2 + 4 s + s^2) exp(s), is 0 there
        cubic = [third, 0, (2 * at + at * at) * weight + a, at * at * weight + a * at + b]
        starts = mpmath.polyroots(cubic, maxsteps=200, extraprec=40)
        found = [mpmath.findroot(lambda s: s * s * mpmath.exp(s) + a * s + b, at + t) for t in starts]
        return float(max(s.real for s in found))


@pytest.mark.parametrize("cases", [3, pytest.param(300, marks=pytest.mark.slow)])
def test_roots_beside_the_triple_root_of_a_free_queue_are_exact_to_rounding(cases):
    """XCP's and RCP's fastest gains: a cluster whose radius is the third root of the change of the gains."""
    random, root = np.random.default_rng(3), np.sqrt(2.0) - 2.0
    for _ in range(cases):
        alpha, beta = (
            np.array([2.0 * (root + 1.0), 10.0 * root + 6.0])
            * np.exp(root)
            * (1.0 + 10.0 ** random.uniform(-17.0, -4.0) * random.standard_normal(2))
        )
        system = DelaySystem([[[0.0, 0.0], [1.0, 0.0]], [[-alpha, -beta], [0.0, 0.0]]], [0.0, 1.0])
        assert system.spectral_abscissa == pytest.approx(beside_triple_root(alpha, beta), abs=1e-12), (alpha, beta)


def test_triple_roots_of_a_polynomial_are_exact():
    system = DelaySystem([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]]], [0.0])
    assert system.roots(3).tolist() == [-1.0] * 3
    six = DelaySystem([np.eye(6, k=1) - np.outer(np.eye(6)[5], [8.0, 24.0, 36.0, 32.0, 18.0, 6.0])], [0.0])
    assert system.spectral_abscissa == six.spectral_abscissa == -1.0  # (s^2 + 2 s + 2)^3


def test_more_roots_than_can_be_waited_for_are_refused():
    with pytest.raises(ValueError, match="^k must be <= 100,000, got 1000000000$"):
        DelaySystem([-1.0], [1.0]).roots(10**9)


def test_multiple_root_at_zero_is_exact():
    """s - 1 + exp(-s) has a double root at 0, and s^2 - 2 s + 2 - 2 exp(-s) a triple one."""
    for coefficients, multiplicity in (({0.0: [1, -1], 1.0: [1]}, 2), ({0.0: [1, -2, 2], 1.0: [-2]}, 3)):
        system = quasi_polynomial(coefficients)
        roots = system.roots(multiplicity + 2)
        np.testing.assert_array_equal(roots[:multiplicity], np.zeros(multiplicity))
        assert np.all(roots[multiplicity:].real < -1.0)
        assert np.abs(system.characteristic(roots[multiplicity:])).max() < 1e-10
        assert system.verdict == "unstable"


def test_roots_within_a_disk_left_of_the_essential_abscissa():
    """x' + 0.5 x'(t - 1) = -x: the chain of roots approaches Re s = -log 2 from the right."""
    system = DelaySystem([-1.0], [0.0], neutral=[0.5], neutral_delays=[1.0])
    assert len(system.roots_within(-0.7, 30.0)) == 11
    near = system.roots_within(-0.7, 8.0)
    np.testing.assert_allclose(near, system.roots(3), rtol=1e-13)
    neutral = DelaySystem([1.0], [0.0], neutral=[0.5], neutral_delays=[1.0])  # its chain is left of the abscissa
    roots = neutral.roots_within(-0.7 + 100j, 5.0)
    assert len(roots) == 2 and np.all(roots.real < neutral.essential_abscissa)
    with mpmath.workdps(40):
        for root in roots.tolist():
            exact = mpmath.findroot(lambda s: s * (1 + mpmath.exp(-s) / 2) - 1, root)
            assert abs(root - complex(exact)) < 1e-13 * abs(root)


def test_roots_within_a_disk_of_repeated_states_and_of_none():
    one = DelaySystem([-1.0], [1.0])
    two = DelaySystem([-np.eye(2)], [1.0])
    np.testing.assert_allclose(two.roots_within(0.0, 2.0), np.repeat(one.roots_within(0.0, 2.0), 2))
    assert len(one.roots_within(10.0, 2.0)) == 0
    np.testing.assert_allclose(one.roots_within(0.0, 2.0), one.roots(2), rtol=1e-14)


def test_roots_within_a_disk_are_refused_by_name():
    system = DelaySystem([-1.0], [1.0])
    with pytest.raises(ValueError, match="radius must be > 0 1/s, got -1.0"):
        system.roots_within(0.0, -1.0)
    with pytest.raises(TypeError, match=r"center must be a number, got \[1.0\]"):
        system.roots_within([1.0], 1.0)
    with pytest.raises(ValueError, match="center must be finite, got nan"):
        system.roots_within(float("nan"), 1.0)
    for unclear in (DelaySystem([[[1, 1], [-1, -1]]], [0.0]), DelaySystem([-2.0], [0.0])):  # double; on the circle
        with pytest.raises(ConvergenceError, match="the roots in the disk of radius 2 1/s cannot be separated"):
            unclear.roots_within(0.0, 2.0)
    with pytest.raises(
        ConvergenceError, match="100000 1/s cannot be separated.*is above about 60 over the longest delay"
    ):
        system.roots_within(0.0, 1e5)  # at once: expansions of this many terms took minutes
    average = distributed_delay(1.0).feedback(1.0).system
    with pytest.raises(ValueError, match="the disk must not contain artificial roots, got .* inside it"):
        average.roots_within(0.0, 0.5)


@pytest.mark.parametrize("delay", [1e-12, 1e-9, 1e-6])
def test_roots_with_delays_far_below_the_time_constants(delay):
    """Once, roots closer than 1e-8 of 1/delay were taken for one root."""
    found = quasi_polynomial({0.0: [1.0, 5.0, 6.0], delay: [0.01]}).roots(2)
    np.testing.assert_allclose(found, np.roots([1.0, 5.0, 6.01])[::-1], rtol=10.0 * delay + 1e-13)


def test_slow_oscillation_with_a_short_delay():
    """s^2 + 1 - 1e-12 exp(-1e-9 s): to first order the pair lies at j - 1e-21/2."""
    found = quasi_polynomial({0.0: [1.0, 0.0, 1.0], 1e-9: [-1e-12]}).roots(2)
    np.testing.assert_allclose(found.imag, [1.0, -1.0], rtol=1e-11)
    np.testing.assert_allclose(found.real, -5e-22, rtol=1e-3)


def test_roots_of_a_short_delay_beyond_those_of_the_time_constants():
    """The third root is due to the delay: exp(y) = 100 (y^2/d^2 - 5 y/d + 6) with s = -y/d."""
    root = quasi_polynomial({0.0: [1.0, 5.0, 6.0], 1e-9: [0.01]}).roots(3)[2]
    value = root**2 + 5.0 * root + 6.0 + 0.01 * np.exp(-root * 1e-9)
    assert abs(value) < 1e-12 * abs(root) ** 2
    assert root.real == pytest.approx(-5.403e10, rel=1e-3)


@pytest.mark.parametrize("seed", range(30))
def test_time_constants_over_ten_decades(seed):
    """The weakly delayed term hardly moves the roots of the polynomial, which are well separated."""
    rng = np.random.default_rng(seed)
    poles: list[complex] = []
    while len(poles) < 4:
        size = 10.0 ** rng.uniform(-8.0, 2.0)
        turn = size * rng.uniform(0.1, 10.0) * 1j
        new = [-size + turn, -size - turn] if len(poles) < 3 and rng.random() < 0.4 else [complex(-size)]
        if all(abs(a - b) > 0.3 * abs(a) for a in new for b in poles):
            poles += new
    polynomial = np.poly(poles).real
    delayed = quasi_polynomial({0.0: polynomial.tolist(), 10.0 ** rng.uniform(-9.0, -3.0): [1e-12 * polynomial[-1]]})
    found = delayed.roots(4)
    for root in poles:
        assert np.min(np.abs(found - root)) < 1e-9 * abs(root)


def test_roots_know_their_plane():
    continuous, sampled = DelaySystem([-1.0], [1.0]).roots(4), SampledSystem([1.0, -0.5], [0, 1]).roots(2)
    assert (continuous.plane, sampled.plane) == ("s", "z")
    assert continuous[:2].plane == "s" and sampled.copy().plane == "z"
    assert pickle.loads(pickle.dumps(sampled)).plane == "z"
    assert type(np.log(sampled)) is np.ndarray and type(2.0 * sampled) is np.ndarray
    assert isinstance(np.abs(sampled).max(), float)
    with pytest.raises(ValueError, match="^plane must be 's' or 'z', got 'w'$"):
        CharacteristicRoots([1.0], "w")


def test_figures_use_the_plane_of_roots():
    from ecc.plot import root_figure

    continuous, sampled = DelaySystem([-1.0], [1.0]).roots(4), SampledSystem([1.0, -0.5], [0, 1]).roots(2)
    titles = [root_figure({"loop": roots}).layout.xaxis.title.text for roots in (continuous, sampled, [1j])]
    assert titles == ["Re s [rad/s]", "Re z", "Re s [rad/s]"]
    with pytest.raises(ValueError, match="^roots must lie in one plane, got "):
        root_figure({"one": continuous, "other": sampled})


@pytest.mark.parametrize("size", [2, 5])
def test_values_of_a_pair_are_those_with_derivatives(size):
    rng = np.random.default_rng(size)
    low = DelaySystem(rng.normal(size=(2, size, size)), [0.0, 0.3])
    change = np.zeros((2, size, size))
    change[1, 0] = rng.normal(size=size)
    for high in (
        DelaySystem(low.matrices + change, low.delays),
        DelaySystem(rng.normal(size=(2, size, size)), low.delays),
    ):
        pair = Pair(low.terms(), high.terms(), 2.0, 1.5)
        omega = np.linspace(0.1, 9.0, 7)
        f0, _, f1, _ = pair.at(omega)
        assert np.allclose(pair.values(omega), (f0, f1), rtol=1e-12)


def test_roots_among_thousands_of_a_line():
    """With delays over nine decades, 4000 roots lie next to the line: once, two of them were not found in 50 s."""
    coefficients = {
        0.0: [1.0, 5.522888881143557e-05],
        0.05716080864409833: [-4.927086825523197e-05],
        49.63580109252714: [-1.3983531967263428e-04],
        611.1500904289373: [-1.2114060139022897e-04],
        2480433.5263918373: [2.8772859489917245e-05],
        73364292.11442101: [-2.436413007681115e-05],
    }
    root = quasi_polynomial(coefficients).roots(3)[1]
    value = sum(np.polyval(c, root) * np.exp(-root * tau) for tau, c in coefficients.items())
    assert abs(value) < 1e-12
    assert root == pytest.approx(-3.024381781617e-08 + 2.52668368e-06j, rel=1e-8)


def test_the_effort_of_a_search_for_roots_is_limited(monkeypatch):
    monkeypatch.setattr(rootfinding, "_MAX_COUNTS", 1e-6)
    with pytest.raises(ConvergenceError, match=r"^the search took \d+ pieces of contours without finding all roots$"):
        DelaySystem([-1.0], [1.0]).roots(2)
