"""Margins, Nyquist curves and python-control, against closed forms and python-control's own numbers."""

from __future__ import annotations

from math import inf, pi

import numpy as np
import pytest

from ecc.errors import ConvergenceError
from ecc.linear import (
    DelaySystem,
    SampledSystem,
    distributed_delay,
    from_control,
    to_control,
    transfer_function,
)

control = pytest.importorskip("control")

INTEGRATOR = DelaySystem([0.0], [0.0])


def test_margins_of_integrator_with_delay():
    """L = k exp(-s tau)/s: gain margin pi/(2 k tau), |L| = 1 at w = k, phase margin pi/2 - k tau."""
    k, tau = 2.0, 0.3
    m = DelaySystem([-k], [tau], opened=INTEGRATOR).margins()
    assert m.stable
    assert m.gain_margin == pytest.approx(pi / (2 * k * tau), rel=1e-12)
    assert m.gain_frequency == pytest.approx(pi / (2 * tau), rel=1e-12)
    assert m.gain_reduction == 0.0
    assert m.phase_margin == pytest.approx(pi / 2 - k * tau, rel=1e-12)
    assert m.phase_frequency == pytest.approx(k, rel=1e-12)
    assert m.delay_margin == pytest.approx((pi / 2 - k * tau) / k, rel=1e-12)
    w = np.linspace(0.1, 20.0, 2_000_001)
    assert m.modulus_margin == pytest.approx(np.abs(1 + k * np.exp(-1j * w * tau) / (1j * w)).min(), rel=1e-9)


def test_delay_margin_is_where_stability_ends():
    m = DelaySystem([-2.0], [0.3], opened=INTEGRATOR).margins()
    assert DelaySystem([-2.0], [0.3 + 0.999 * m.delay_margin]).is_stable
    assert not DelaySystem([-2.0], [0.3 + 1.001 * m.delay_margin]).is_stable


def test_delay_margin_comes_from_a_later_crossing_than_the_phase_margin():
    """Two crossovers: the larger phase margin sits at the higher frequency and allows less delay."""
    closed = [[0.0, 1.0, 0.0], [-25.0, -0.1, 1.0], [-4.0, -2.0, -1.0]]
    opened = [[0.0, 1.0, 0.0], [-25.0, -0.1, 1.0], [0.0, 0.0, -1.0]]
    m = DelaySystem([closed], [0.0], opened=DelaySystem([opened], [0.0])).margins()
    w = np.linspace(1e-3, 60.0, 2_000_001)
    loop = DelaySystem([closed], [0.0], opened=DelaySystem([opened], [0.0])).open_loop(1j * w[::40])
    assert m.modulus_margin <= np.abs(1.0 + loop).min() + 1e-9
    assert m.delay_margin <= m.phase_margin / m.phase_frequency + 1e-12


def test_conditionally_stable_loop_has_gains_on_both_sides():
    """An unstable plant: too little gain loses it through s = 0, too much through a pair."""
    opened = DelaySystem([0.5], [0.0])
    m = DelaySystem([0.5, -1.2], [0.0, 0.4], opened=opened).margins()
    assert m.stable
    assert m.gain_reduction == pytest.approx(0.5 / 1.2, rel=1e-12)
    assert m.reduction_frequency == 0.0
    for factor, stable in (
        (1.001 * m.gain_reduction, True),
        (0.999 * m.gain_reduction, False),
        (0.999 * m.gain_margin, True),
        (1.001 * m.gain_margin, False),
    ):
        assert DelaySystem([0.5, -1.2 * factor], [0.0, 0.4]).is_stable is stable


def test_sampled_margins_equal_those_of_python_control():
    ours = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0])).margins()
    theirs = control.stability_margins(control.tf([0.1], [1, -1] + [0] * 9, 1.0))
    gain, phase, modulus, w_gain, w_phase, w_modulus = theirs
    assert ours.gain_margin == pytest.approx(gain, rel=1e-9)
    assert ours.phase_margin == pytest.approx(np.deg2rad(phase), rel=1e-9)
    assert ours.modulus_margin == pytest.approx(modulus, rel=1e-9)
    assert ours.gain_frequency == pytest.approx(w_gain, rel=1e-9)
    assert ours.phase_frequency == pytest.approx(w_phase, rel=1e-9)
    assert ours.modulus_frequency == pytest.approx(w_modulus, rel=1e-5)


def test_gain_margin_at_pi():
    m = SampledSystem([-0.25], [0], opened=SampledSystem([0.0], [0])).margins()
    assert (m.gain_margin, m.gain_frequency) == (4.0, pi)
    assert m.phase_margin == inf
    assert m.delay_margin == inf
    assert m.modulus_margin == pytest.approx(0.75)


@pytest.mark.parametrize(("lag", "dead_time"), [(10.0, 5.0), (10.0, 0.0), (1.0, 30.0), (1e-6, 3e-7)])
def test_margins_of_a_lag_with_unit_gain(lag, dead_time):
    """L = exp(-s tau)/(T s + 1) has |L| = 1 at w = 0 only, where |L| - 1 has a double zero; its angle is -pi at g."""
    m = transfer_function([1.0], [lag, 1.0], dead_time).loop().margins()
    assert m.stable
    assert (m.phase_margin, m.phase_frequency, m.delay_margin) == (pi, 0.0, inf)
    if dead_time == 0.0:
        assert m.gain_margin == inf
    else:
        w = m.gain_frequency
        assert w * dead_time + np.arctan(w * lag) == pytest.approx(pi, rel=1e-12)
        assert m.gain_margin == pytest.approx(np.hypot(1.0, w * lag), rel=1e-12)


def test_loop_gain_of_modulus_one_at_the_ends_of_the_axis():
    """L(0) = -1: a root at 0. Sampled: |L| = 1 at z = 1 or z = -1, and L = 1/z, which has |L| = 1 everywhere."""
    m = transfer_function([-1.0], [10.0, 1.0], 5.0).loop().margins()
    assert (m.stable, m.phase_margin, m.phase_frequency) == (False, 0.0, 0.0)
    for pole, end in ((0.5, 0.0), (-0.5, pi)):
        m = SampledSystem([pole, -0.5], [0, 3], opened=SampledSystem([pole], [0])).margins()
        assert (m.phase_margin, m.phase_frequency) == (pytest.approx(pi), end)
    with pytest.raises(ConvergenceError, match="the crossing condition holds at all frequencies"):
        SampledSystem([-1.0], [1], opened=SampledSystem([0.0], [0])).margins()


def test_angle_that_is_flat_at_zero():
    """The angle of (s + 1) exp(-s) is -w^3/3 near w = 0, less than rounding on the first pieces of the axis."""
    loop = transfer_function([0.1, 0.1], [0.01, 0.1, 1.0], 1.0).loop()
    m = loop.margins()
    assert m.gain_margin * loop.open_loop(1j * m.gain_frequency) == pytest.approx(-1.0, rel=1e-9)
    w = np.linspace(0.01, 60.0, 100_001)
    curve = loop.open_loop(1j * w)
    crossings = np.flatnonzero((np.diff(np.sign(curve.imag)) != 0) & (curve[1:].real < 0.0))
    assert m.gain_margin == pytest.approx((-1.0 / curve[crossings].real).min(), rel=1e-3)


def test_loop_that_is_not_there():
    m = DelaySystem([-1.0], [0.0], opened=DelaySystem([-1.0], [0.0])).margins()
    assert (m.gain_margin, m.delay_margin, m.modulus_margin) == (inf, inf, 1.0)


def test_unstable_loop_says_so():
    assert not DelaySystem([-2.0], [1.0], opened=INTEGRATOR).margins().stable


def test_nyquist_curve_is_exact_and_encircles_as_often_as_roots_are_unstable():
    for gain, unstable in ((1.0, 0), (3.0, 2), (10.0, 4)):
        system = DelaySystem([-0.5, -gain], [0.0, 1.0], opened=DelaySystem([-0.5], [0.0]))
        curve = system.nyquist()
        exact = gain * np.exp(-1j * curve.omega) / (1j * curve.omega + 0.5)
        np.testing.assert_allclose(curve.response, exact, rtol=1e-10)
        turns = np.unwrap(np.angle(1.0 + curve.response))
        assert round((turns[-1] - turns[0]) / -pi) == unstable == system.certify().unstable
        step = np.abs(np.diff(curve.response)) / (1.0 + np.abs(curve.response[1:]) ** 2)
        assert step.max() < 0.06


def test_nyquist_at_given_frequencies():
    system = SampledSystem([1.0, -0.1], [0, 9], opened=SampledSystem([1.0], [0]))
    omega = np.array([0.1, 1.0, pi])
    np.testing.assert_allclose(system.nyquist(omega).response, system.open_loop(np.exp(1j * omega)), rtol=1e-12)
    assert system.nyquist().omega[-1] == pi
    with pytest.raises(ValueError, match="omega must be one-dimensional and finite"):
        system.nyquist([[0.1]])
    with pytest.raises(ValueError, match="omega must be an array of finite numbers or None, got .nan."):
        system.nyquist([np.nan])


def test_control_state_space_has_the_same_poles():
    rng = np.random.default_rng(2)
    matrices = 0.4 * rng.normal(size=(3, 2, 2))
    system = SampledSystem(matrices, [0, 3, 7], dt=0.01)
    theirs = to_control(system)
    assert isinstance(theirs, control.StateSpace)
    assert theirs.dt == 0.01
    poles = theirs.poles()
    ours = system.roots(16)
    assert len(ours) == len(poles) == 16
    for pole in poles:
        assert np.abs(ours - pole).min() < 1e-10
    assert SampledSystem([0.5], [0]).to_control().dt is True


def test_control_state_space_answers_like_the_recurrence():
    system = SampledSystem([0.5, -0.3], [0, 2], dt=1.0)
    x = [0.0, 0.0, 0.0, 1.0]
    for _ in range(12):
        x.append(0.5 * x[-1] - 0.3 * x[-3])
    impulse = control.impulse_response(system.to_control(), T=np.arange(14.0)).outputs
    np.testing.assert_allclose(np.ravel(impulse)[1:], x[3:16], atol=1e-12)


def test_control_frequency_response_is_exact():
    system = DelaySystem([-2.0], [0.3], opened=INTEGRATOR)
    frd = to_control(system)
    assert isinstance(frd, control.FrequencyResponseData)
    s = 1j * frd.omega
    np.testing.assert_allclose(frd.eval(frd.omega), 2.0 * np.exp(-0.3 * s) / s, rtol=1e-12)


def test_control_round_trip():
    system = SampledSystem([1.0, -0.1], [0, 9], dt=0.02)
    again = from_control(system.to_control())
    assert again.dt == 0.02
    assert again.spectral_radius == pytest.approx(system.spectral_radius, rel=1e-9)


def test_control_bad_input():
    with pytest.raises(ValueError, match="the open loop is unknown"):
        to_control(DelaySystem([-1.0], [1.0]))
    with pytest.raises(ValueError, match="must have <= 5000 states, this system needs 6001"):
        to_control(SampledSystem([0.5], [6000]))
    with pytest.raises(TypeError, match="must be a control.StateSpace, got int"):
        from_control(1)
    with pytest.raises(ValueError, match="must be in discrete time"):
        from_control(control.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]]))


# ---- several loops -------------------------------------------------------------------------------------------


def two_loops(first, second, across, back=0.0):
    """Integrators with gains and unit delays, the first acting on the second, and the second back or not."""
    closed = [[-first, -back], [across, -second]]
    return DelaySystem([closed], [1.0], opened=DelaySystem([np.zeros((2, 2))], [0.0]))


def test_margins_of_loops_in_a_chain_are_the_worst_of_each():
    """det Delta/det Delta_open - 1 = L1 + L2 + L1 L2 crosses the negative axis elsewhere: no margin of anything."""
    m = two_loops(1.5, 0.3, 7.0).margins()
    assert m.gain_margin == pytest.approx(pi / 3.0, rel=1e-12)
    assert m.phase_margin == pytest.approx(pi / 2 - 1.5, rel=1e-12)
    assert m.delay_margin == pytest.approx((pi / 2 - 1.5) / 1.5, rel=1e-12)
    assert [loop.gain_margin for loop in m.loops] == pytest.approx([pi / 3.0, pi / 0.6], rel=1e-12)
    assert m.coupled == 1 and m.loops[1].loops == ()
    assert two_loops(2.0, 0.3, 7.0).margins().stable is False


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.1, 0.3, 0.54, 1.4])
def test_margins_of_coupled_loops_are_of_one_factor_on_both(gain):
    """With the matrix gain [[1, -1], [1, 1]] loci are gain (1 +- j) e^-s/s: rotated by 45 degrees."""
    m = two_loops(gain, gain, gain, gain).margins()
    size = np.sqrt(2.0) * gain
    assert (m.coupled, m.loops) == (2, ())
    assert m.gain_margin == pytest.approx(pi / 4 / size, rel=1e-9) if pi / 4 > size else m.gain_margin > 1.0
    if m.stable:
        assert m.phase_margin == pytest.approx(pi / 4 - size, rel=1e-9)
        assert m.delay_margin == pytest.approx((pi / 4 - size) / size, rel=1e-9)
        for share, stable in ((0.999, True), (1.001, False)):
            matrix = [[-gain, -gain], [gain, -gain]]
            assert DelaySystem([matrix], [1.0 + share * m.delay_margin]).is_stable is stable
            assert DelaySystem([share * m.gain_margin * np.array(matrix)], [1.0]).is_stable is stable
    w = np.linspace(0.5, 1.5, 200_001) * m.modulus_frequency
    loci = gain * (1.0 + np.outer([1j, -1j], np.ones(len(w)))) * np.exp(-1j * w) / (1j * w)
    assert m.modulus_margin == pytest.approx(np.abs(1.0 + loci).min(), rel=1e-6)


@pytest.mark.slow
def test_random_coupled_loops_lose_stability_where_their_gain_margin_says():
    rng = np.random.default_rng(5)
    compared = 0
    for _ in range(12):
        size = int(rng.integers(2, 4))
        gains, lags = 0.25 * rng.normal(size=(3, size, size)) - 0.2 * np.eye(size), [0.3, 0.8, 1.3]
        system = DelaySystem(gains, lags, opened=DelaySystem([np.zeros((size, size))], [0.0]))
        if not system.is_stable:
            continue
        margin = system.margins().gain_margin
        for share, stable in [*((k / 10.0, True) for k in range(10)), (1.0 - 1e-7, True), (1.0 + 1e-7, False)]:
            assert (
                DelaySystem(margin**share * gains if share < 0.95 else share * margin * gains, lags).is_stable is stable
            )
        compared += 1
    assert compared >= 4


def test_a_loop_beside_an_unstable_part_that_is_not_cut():
    opened = DelaySystem([[[0.0, 0.0], [0.0, 0.5]]], [0.0])
    m = DelaySystem([[[0.0, 0.0], [0.0, 0.5]], [[-1.0, 0.0], [0.0, 0.0]]], [0.0, 1.0], opened=opened).margins()
    assert not m.stable and m.gain_margin == pytest.approx(pi / 2)


def test_margins_say_where_the_loop_is_cut():
    opened = SampledSystem([1.0], [0], notes=["cut at the step"])
    m = SampledSystem([1.0, -0.1], [0, 9], opened=opened).margins()
    assert m.notes == ("cut at the step",) and "cut at the step" in m._repr_html_()


@pytest.mark.parametrize(
    ("numerator", "denominator", "reduction"),
    [
        ([6.0, 6.0], [1.0, -1.0, 0.0], 1.0 / 6.0),
        ([4.0, 1.0], [1.0, -1.0, 1.0], 0.25),
        ([5.0, 10.0, 10.0], [1.0, 0.0, 0.0, 0.0], 0.2),
        ([6.0, 6.0], [0.01, 0.99, -1.0, 0.0], 0.99 / 5.88),  # by Hurwitz: 0.99 (6 k - 1) > 0.06 k
    ],
)
@pytest.mark.parametrize("delay", [0.0, 1e-10])
def test_gain_reduction_of_loops_that_no_larger_gain_destabilizes(numerator, denominator, reduction, delay):
    """The search for a larger gain reaches frequencies at which the lowest crossing is lost."""
    margins = transfer_function(numerator, denominator, delay).loop().margins()
    assert margins.gain_reduction == pytest.approx(reduction, rel=1e-6)
    assert margins.gain_margin > 1e6


def test_modulus_margin_of_small_loop_gains_is_1():
    assert transfer_function([0.04], [1.0, 1.0]).loop().margins().modulus_margin == 1.0


@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_zero_of_a_moving_average_is_not_a_crossing_of_the_real_axis(gain):
    """1 + k (1 - exp(-s))/s has no root on the axis for any k > 0: its phase only jumps where the average vanishes."""
    margins = (distributed_delay(1.0) * gain).loop().margins()
    assert (margins.gain_margin, margins.gain_reduction) == (inf, 0.0)


def test_gain_margin_with_a_moving_average_ignores_the_zeros_of_the_loop_gain():
    margins = (distributed_delay(1.0) * transfer_function([1.0], [1.0, 0.0])).loop().margins()
    assert margins.gain_margin == pytest.approx(pi**2 / 2.0, rel=1e-12)  # at w = pi, the average is -2j/pi


@pytest.mark.parametrize(
    ("numerator", "denominator", "delay"),
    [
        ([0.02, 0.0], [1.0, 0.02, 1.0], 0.0),  # only positive real: larger than 1 at all finite frequencies
        ([-0.02, 0.0], [1.0, 0.02, 1.0], 1.0),
        ([0.03], [1.0, 0.001, 1.0], 0.2),
        ([1e-4], [1.0, 1.0], 3.0),  # |L| never reaches 0.05
        ([0.3, 0.01], [1.0, 0.01, 400.0], 0.0),
    ],
)
def test_modulus_margin_is_the_minimum_over_all_frequencies(numerator, denominator, delay):
    margins = transfer_function(numerator, denominator, delay).loop().margins()
    omega = np.concatenate(
        [np.geomspace(1e-3, 1e3, 400_001), np.linspace(0.98, 1.02, 400_001), np.linspace(19, 21, 20_001)]
    )
    s = 1j * omega
    loop = np.polyval(numerator, s) / np.polyval(denominator, s) * np.exp(-s * delay)
    smallest = np.abs(1.0 + loop).min()
    assert margins.modulus_margin <= smallest
    assert margins.modulus_margin == pytest.approx(min(smallest, 1.0), abs=1e-7)


def test_modulus_margin_sees_a_narrow_resonance_above_the_bandwidth():
    """|L| is 0.04 at the resonance at 1000 rad/s, with a width of 1e-3 rad/s, and turns to -1 there."""
    resonance = transfer_function([8e-5, 0.0], [1.0, 2e-3, 1e6], pi / 1000.0)
    margins = (transfer_function([0.01], [1.0, 1.0]) + resonance).loop().margins()
    assert margins.modulus_margin == pytest.approx(0.96, abs=1e-4)
    assert margins.modulus_frequency == pytest.approx(1000.0, rel=1e-5)


def test_real_crossing_at_the_artificial_root_of_a_moving_average():
    """L(0) = -1/2, although both determinants vanish at 0."""
    margins = (distributed_delay(1.0) * transfer_function([-0.5], [1.0, 1.0])).loop().margins()
    assert (margins.gain_margin, margins.gain_frequency) == (pytest.approx(2.0, rel=1e-13), 0.0)
    assert margins.modulus_margin == pytest.approx(0.5, rel=1e-13)


def test_phase_margin_of_a_moving_average_at_frequency_0():
    margins = distributed_delay(1.0).loop().margins()
    assert (margins.phase_margin, margins.phase_frequency) == (pytest.approx(pi), 0.0)
