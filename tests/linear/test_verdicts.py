"""Verdicts where floating point cannot decide: clusters, long delays, neutral parts, sums that cancel."""

from __future__ import annotations

from math import pi

import mpmath
import numpy as np
import pytest

import ecc
from ecc.errors import UndecidedError
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.argument_principle import count_right, first_pieces
from ecc.linear.characteristic import Characteristic


def companion(polynomial):
    """The first-order system of a monic polynomial, highest power first."""
    matrix = np.eye(len(polynomial) - 1, k=1)
    matrix[-1] = -np.asarray(polynomial, float)[:0:-1]
    return matrix


@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.parametrize("zeta", [2.0**-8, 2.0**-12, -(2.0**-8)])
def test_clusters_beside_the_axis_are_decided(power, zeta):
    """(s^2 + 2 zeta s + 1)^m: the coefficients are exact, and so is the verdict."""
    system = DelaySystem([companion((np.poly1d([1.0, 2.0 * zeta, 1.0]) ** power).c)], [0.0])
    assert system.is_stable is (zeta > 0.0)
    assert system.certify().unstable == (0 if zeta > 0.0 else 2 * power)


@pytest.mark.parametrize("tau", [1e-6, 1.0, 1e4, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("gain, stable", [(0.1, True), (4.999999, True), (5.000001, False), (9.0, False)])
def test_long_delays(gain, stable, tau):
    """x' = -5x - g x(t - tau): for g < 5 stable for every delay; beyond it, unstable for all but short delays."""
    system = DelaySystem([-5.0, -gain], [0.0, tau])
    w = np.sqrt(max(gain**2 - 25.0, 0.0))
    longest = (pi - np.arctan2(w, 5.0)) / w if w else np.inf
    assert system.is_stable is (stable or bool(tau < longest))
    proof = system.certify()
    assert proof.stable is system.is_stable


@pytest.mark.slow
@pytest.mark.parametrize("tau", [1e4, 1e7, 1e12])
@pytest.mark.parametrize("gain", [0.1, 0.99, 1.01, 3.0])
def test_long_delays_between_two_states(gain, tau):
    """x' = -x - g M x(t - tau), M of eigenvalues 1 and 1/2: stable for long delays if and only if g < 1."""
    feedback = np.array([[0.75, 0.25], [0.25, 0.75]])
    system = DelaySystem([-np.eye(2), -gain * feedback], [0.0, tau])
    assert system.is_stable is (gain < 1.0)
    assert system.certify().stable is (gain < 1.0)


@pytest.mark.parametrize("steps", [10, 10_000, 10**7])
@pytest.mark.parametrize("gain, stable", [(0.25, True), (0.499999, True), (-0.500001, False), (0.500001, False)])
def test_long_steps(gain, stable, steps):
    """z = 0.5 - g z^-m: |g| < 0.5 holds for every m, g < -0.5 never; beyond 0.5 for m large enough."""
    if steps == 10 and gain > 0.5:
        roots = np.roots([1.0, -0.5, *np.zeros(9), gain])
        stable = bool(np.abs(roots).max() < 1.0)
    assert SampledSystem([0.5, -gain], [0, steps]).is_stable is stable


def test_matrix_neutral_systems_by_their_own_condition():
    """Absolute values of E have radius 1, its own is 0.71: strongly stable; and where phases cannot align."""
    turn = np.array([[0.5, 0.5], [-0.5, 0.5]])
    system = DelaySystem([-np.eye(2)], [0.0], neutral=[turn], neutral_delays=[1.0])
    assert system.essential_abscissa == pytest.approx(np.log(0.5**0.5), rel=1e-12)
    assert system.is_stable and system.certify().unstable == 0
    assert not DelaySystem([-np.eye(2)], [0.0], neutral=[1.42 * turn], neutral_delays=[1.0]).is_stable
    assert DelaySystem([-np.eye(2)], [0.0], neutral=[1.41 * turn], neutral_delays=[1.0]).is_stable


@pytest.mark.parametrize("factor, stable", [(0.99, True), (1.01, False)])
def test_strong_stability_of_two_matrices_at_its_boundary(factor, stable):
    rng = np.random.default_rng(3)
    one, two = rng.normal(size=(2, 2, 2))
    angles = np.linspace(0.0, 2.0 * pi, 20_001)
    radius = np.abs(np.linalg.eigvals(one + np.exp(1j * angles)[:, None, None] * two)).max()
    assert np.abs(np.linalg.eigvals(np.abs(one) + np.abs(two))).max() > 1.02 * radius  # absolute values do not tell
    neutral = [factor / radius * one, factor / radius * two]
    system = DelaySystem([-np.eye(2)], [0.0], neutral=neutral, neutral_delays=[1.0, 1.7])
    assert (system.essential_abscissa < 0.0) is stable
    assert system.is_stable is (stable and system.certify().stable)


def test_scalar_neutral_part_beside_one_is_compared_exactly():
    for other, verdict in ((0.25, "unstable"), (0.25 + 2.0**-54, "unstable"), (0.25 - 2.0**-10, "stable")):
        system = DelaySystem([-1.0], [0.0], neutral=[0.75, other], neutral_delays=[1.0, 2.0**0.5])
        assert system.verdict == verdict


def test_equal_delays_are_merged_without_rounding():
    """-3e-17 is what is left; in floating point nothing is, or a root at 0 is "proven"."""
    for matrices in ([1.0, -3e-17, -1.0], [-1.0, -3e-17, 1.0], [-3e-17, 1.0, -1.0], [1.0, 1e-40, -3e-17, -1.0]):
        system = DelaySystem(matrices, np.zeros(len(matrices)))
        assert system.is_stable and system.certify().unstable == 0
    assert DelaySystem([-1.0, -1e-20, 1.0], [0.0, 0.0, 1.0]).is_stable  # the sum at 0 is no binary number
    assert not DelaySystem([-1.0, 1e-20, 1.0], [0.0, 0.0, 1.0]).is_stable
    assert SampledSystem([1.0, -1e-20], [0, 0]).is_stable
    assert not SampledSystem([1.0, 1e-20], [0, 0]).is_stable
    assert SampledSystem([-1.0, 1e-20], [0, 0]).certify().stable is True
    both = DelaySystem([np.diag([-1.0, -2.0]), np.diag([-1e-20, 0.0]), np.diag([1.0, 0.0])], [0.0, 0.0, 1.0])
    assert both.is_stable  # groups of states keep what rounding would lose


def test_a_neutral_term_without_delay_is_divided_by_exactly():
    """3 x' = -x + (1 - 2^-53) x(t - 1): a third is no binary number, a ratio below 1 is."""
    for gain, stable in ((1.0 - 2.0**-53, True), (1.0, False)):
        system = DelaySystem([-1.0, gain], [0.0, 1.0], neutral=[2.0], neutral_delays=[0.0])
        assert system.is_stable is stable


def test_undecided_is_an_answer_of_its_own():
    """s^2 + 2 - 1e-300 exp(-s) has roots closer to the axis than any precision that is tried, at +-j sqrt(2)."""
    matrices = [[[0.0, 1.0], [-2.0, 0.0]]]
    swing = DelaySystem([*matrices, [[0.0, 0.0], [1e-300, 0.0]]], [0.0, 1.0])
    assert swing.verdict == "undecided"
    with pytest.raises(UndecidedError, match=r"^stability is undecided: between 0 and 2 of the roots are unstable"):
        _ = swing.is_stable
    assert "undecided" in swing._repr_html_()
    assert issubclass(ecc.UndecidedError, ecc.EccError)
    rational = DelaySystem([[[0.0, 1.0], [-1.0, 0.0]], [[0.0, 0.0], [1e-300, 0.0]]], [0.0, 1.0])
    assert rational.is_stable  # next to +-j, where s^2 + 1 is exact, Re s = -1e-300 sin(1)/2
    many = 0.25 * np.ones((6, 1, 1))
    open_part = DelaySystem([-1.0], [0.0], neutral=many, neutral_delays=np.arange(1.0, 7.0))
    assert open_part.verdict == "unstable"


def brute(system):
    """Largest real part (log of the modulus) at 40 digits; systems without delays, or with few steps."""
    with mpmath.workdps(40):
        if isinstance(system, DelaySystem):
            values = mpmath.eig(mpmath.matrix(system.matrices.sum(axis=0).tolist()), left=False, right=False)
            return float(max(mpmath.re(v) for v in values))
        steps, n = int(system.delays[-1]) + 1, system.size
        whole = mpmath.zeros(n * steps)
        for delay, matrix in zip(system.delays, system.matrices, strict=True):
            for i in range(n):
                for j in range(n):
                    whole[i, n * int(delay) + j] = matrix[i, j]
        for i in range(n * (steps - 1)):
            whole[n + i, i] = 1
        values = mpmath.eig(whole, left=False, right=False)
        return float(max(mpmath.log(abs(v)) if v != 0 else -mpmath.inf for v in values))


def clustered(rng):
    """Companion matrices with a multiple factor within 2^-3 to 2^-14 of the boundary, on either side."""
    if rng.random() < 0.5:
        zeta = float(rng.choice([-1, 1]) * 2.0 ** -int(rng.integers(3, 15)))
        other = np.poly1d([1.0, float(rng.choice([0.5, 1.0, 2.0]))])
        return DelaySystem([companion((np.poly1d([1.0, 2 * zeta, 1.0]) ** int(rng.integers(1, 4)) * other).c)], [0.0])
    radius = 1.0 + float(rng.choice([-1, 1]) * 2.0 ** -int(rng.integers(3, 12)))
    polynomial = (np.poly1d([1.0, 0.0, radius]) ** int(rng.integers(1, 4))).c
    return SampledSystem(-polynomial[1:], range(len(polynomial) - 1))


@pytest.mark.parametrize("number", [12, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.extensive])])
def test_clusters_against_eigenvalues_at_forty_digits(number):
    rng, undecided = np.random.default_rng(0), 0
    for _ in range(number):
        system = clustered(rng)
        largest = brute(system)
        undecided += system.verdict == "undecided"
        assert system.verdict in ("undecided", "stable" if largest < 0.0 else "unstable")
        count = system.certify()
        assert count.stable in (None, largest < 0.0)
    assert undecided == 0


def close_to_unstable(seed, largest, delay):
    """Three states and two neutral delays, the spectral radius of whose neutral part reaches `largest` on the torus."""
    rng = np.random.default_rng(seed)
    both, (first, second) = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3))
    angles = np.linspace(0.0, 2.0 * np.pi, 4001)
    radius = np.abs(np.linalg.eigvals(both[0] + np.exp(1j * angles)[:, None, None] * both[1])).max()
    first = first - (np.abs(first).sum() + np.abs(second).sum()) * np.eye(3)
    neutral = {"neutral": both * largest / radius, "neutral_delays": [0.36, 1.32]}
    return DelaySystem([first, second], [0.0, delay], **neutral)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_neutral_part_close_to_unstable_is_counted_on_a_mesh_of_its_own_phases(seed):
    """The mesh took no account of them, so that its cap on refinement ended the count."""
    ch = close_to_unstable(seed, 0.99, 0.2).characteristic_matrix
    found = count_right(ch, 0.0)
    assert found.number == 0 and len(found.omega) < 40 * first_pieces(ch, 0.0)


def test_what_no_budget_decides_is_undecided_for_a_stated_reason(monkeypatch):
    """Of a neutral part 1e-4 below instability minutes went by without a word, and 10^6 evaluations."""
    points, evaluate = [], Characteristic.evaluate
    monkeypatch.setattr(Characteristic, "evaluate", lambda ch, s: [points.append(len(s)), evaluate(ch, s)][1])
    system = close_to_unstable(0, 1.0 - 1e-4, 0.83)
    assert system.verdict == "undecided"
    with pytest.raises(UndecidedError, match=r"roots are possible up to .* rad/s, .* more than the limit of 131,072"):
        _ = system.is_stable
    proof = system.certify()
    assert proof.stable is None and proof.at_most is None
    assert 0 < sum(points) < 400_000
