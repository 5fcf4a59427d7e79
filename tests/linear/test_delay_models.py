"""Models with inputs and outputs: constructors, algebra, poles, loops, and what is known of them in closed form."""

import operator

import control
import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import lambertw

from ecc.errors import ConvergenceError
from ecc.linear import (
    DelayModel,
    block,
    delay,
    descriptor,
    distributed_delay,
    quasi_polynomial,
    transfer_function,
)

S = np.array([0.0, 0.3j, 2j, 0.5 + 1j, 40j])
INTEGRATOR = transfer_function([1.0], [1.0, 0.0])


def dead_time(tau):
    return delay(1.0, tau)


# ---- transfer functions -----------------------------------------------------------------------------------


def test_dead_time_is_exact():
    assert abs(dead_time(2.5)(S) - np.exp(-2.5 * S)).max() < 1e-15


def test_a_matrix_of_transfer_functions():
    """Wood and Berry's distillation column."""
    num, den = [[[12.8], [-18.9]], [[6.6], [-19.4]]], [[[16.7, 1], [21.0, 1]], [[10.9, 1], [14.4, 1]]]
    tau = np.array([[1.0, 3.0], [7.0, 3.0]])
    model = transfer_function(num, den, tau)
    assert (model.n_states, model.n_inputs, model.n_outputs) == (4, 2, 2)
    values = model(S)
    for i in range(2):
        for j in range(2):
            expected = num[i][j][0] / (den[i][j][0] * S + 1) * np.exp(-tau[i, j] * S)
            assert values[:, i, j] == pytest.approx(expected, rel=1e-13)
            assert model[i, j](S) == pytest.approx(expected, rel=1e-13)
    assert not model.loop().is_stable  # det(I + G(0)) < 0: a real unstable pole


def test_states_of_an_input_are_shared_and_equal_delays_merged():
    model = transfer_function([[[1.0]], [[2.0, 3.0]]], [[[1.0, 2.0, 5.0]], [[1.0, 2.0, 5.0]]], 0.5)
    assert model.n_states == 2 and len(model.delays) == 2
    twice = dead_time(0.5) + dead_time(0.5)
    assert twice.delays.tolist() == [0.5] and twice(1.0) == pytest.approx(2 * np.exp(-0.5))


def test_delays_add_up_if_the_sum_is_exact():
    assert (dead_time(0.5) * dead_time(0.25)).delays.tolist() == [0.75]
    inexact = dead_time(0.1) * dead_time(0.2)
    assert sorted(inexact.delays.tolist()) == [0.1, 0.2]
    loop = (inexact * INTEGRATOR).loop()
    assert loop.notes == ("sums of delays are rounded to binary numbers",)
    assert (dead_time(0.5) * INTEGRATOR).loop().notes == ()


def test_objects_of_python_control_and_scipy():
    rational = control.tf([2.0, 1.0], [3.0, 1.0, 4.0])
    expected = (2 * S + 1) / (3 * S**2 + S + 4) * np.exp(-0.7 * S)
    signal = scipy.signal
    zeros = signal.ZerosPolesGain([-0.5], [-1.0, -2.0], 3.0)
    for system in (rational, control.ss(rational), signal.lti([2.0, 1.0], [3.0, 1.0, 4.0])):
        assert delay(system, 0.7)(S) == pytest.approx(expected, rel=1e-12)
    assert delay(zeros, 1.0)(S) == pytest.approx(3 * (S + 0.5) / (S + 1) / (S + 2) * np.exp(-S), rel=1e-12)


def test_sums_with_unconverted_objects_of_python_control_are_refused():
    plant, other = transfer_function([1.0], [1.0, 1.0], 1.0), control.tf([1.0], [1.0, 1.0])
    for combine in (operator.add, operator.sub):
        for pair in ((plant, other), (other, plant)):
            with pytest.raises(TypeError, match="unsupported operand type"):
                combine(*pair)
    assert [complex((2 + plant)(0.0)), complex((2 - plant)(0.0)), complex((2 * plant)(0.0))] == [3.0, 1.0, 2.0]


@pytest.mark.slow
def test_to_control_is_exact():
    plant = transfer_function([1.0], [1.0, 1.0], 2.0)
    samples = plant.to_control([0.1, 1.0, 10.0])
    w = np.array([0.1, 1.0, 10.0])
    assert np.squeeze(samples.frdata) == pytest.approx(np.exp(-2j * w) / (1 + 1j * w), rel=1e-14)
    gain, phase, *_ = control.stability_margins((plant * 1.5).to_control())
    margins = (plant * 1.5).loop().margins()
    assert (gain, phase) == pytest.approx((margins.gain_margin, np.degrees(margins.phase_margin)), rel=1e-4)
    back = delay(transfer_function([1.0, 3.0], [1.0, 1.0]).to_control(), 0.0)
    assert back(S) == pytest.approx((S + 3) / (S + 1), rel=1e-14)


# ---- algebra ----------------------------------------------------------------------------------------------

COEFFICIENT = st.floats(0.25, 4.0).map(lambda x: round(x, 3))


@st.composite
def models(draw):
    """A model and its transfer function."""
    a, b, c, tau = draw(COEFFICIENT), draw(COEFFICIENT), draw(COEFFICIENT), draw(st.sampled_from([0.0, 0.1, 0.5, 1.3]))
    direct = draw(st.booleans())
    num = [a, b] if direct else [b]
    return transfer_function(num, [1.0, c], tau), lambda s: np.polyval(num, s) / (s + c) * np.exp(-tau * s)


@pytest.mark.slow
@pytest.mark.property
@given(models(), models(), models(), COEFFICIENT)
@settings(max_examples=15, deadline=None)
def test_responses_of_connections_are_those_of_arithmetic(first, second, third, gain):
    (f, ff), (g, gg), (h, hh) = first, second, third
    s = S[1:]
    f_, g_, h_ = ff(s), gg(s), hh(s)
    cases = {
        "sum": (f + g, f_ + g_),
        "difference": (f - g * gain, f_ - gain * g_),
        "product": (f * g, f_ * g_),
        "feedback": (f.feedback(g), f_ / (1 + f_ * g_)),
        "nested": ((f * g).feedback(h).feedback(0.5, sign=1), f_ * g_ / (1 + f_ * g_ * h_ - 0.5 * f_ * g_)),
        "quotient": (1.0 - f / gain, 1 - f_ / gain),
    }
    for name, (model, expected) in cases.items():
        assert model(s) == pytest.approx(expected, rel=1e-9, abs=1e-11), name


def test_lft_and_blocks():
    g = [transfer_function([k], [1.0, k + 1.0], 0.5 * k) for k in (1.0, 2.0, 3.0, 4.0)]
    whole = block([g[:2], g[2:]])
    other = transfer_function([0.5], [1.0, 3.0], 0.3)
    a, b, c, d, e = (model(S) for model in (*g, other))
    assert whole.lft(other)(S) == pytest.approx(a + b * e / (1 - d * e) * c, rel=1e-12)
    assert block([[g[0], 0.0], [0.0, g[1]]])(S)[:, 0, 1].tolist() == [0.0] * len(S)


# ---- poles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "stable"), [(1.5, True), (1.6, False)])
def test_poles_by_lambert_w(k, stable):
    loop = (INTEGRATOR * dead_time(1.0)).feedback(k)
    assert loop.poles(1)[0] == pytest.approx(lambertw(-k), rel=1e-12)
    assert loop.is_stable is stable


@pytest.mark.slow
def test_feedback_through_a_delay_alone_is_neutral():
    for gain, stable in ((0.5, True), (0.999, True), (1.001, False)):
        loop = dead_time(1.0).feedback(gain)
        assert loop.is_stable is stable
        assert loop.system.essential_abscissa == pytest.approx(np.log(gain), abs=1e-12)
    direct = transfer_function([0.4, 1.0], [1.0, 2.0], 1.0).feedback()  # s + 2 + (0.4 s + 1) e^-s
    root = direct.poles(1)[0]
    assert abs(root + 2 + (0.4 * root + 1) * np.exp(-root)) < 1e-13
    assert direct.poles(1) == pytest.approx(quasi_polynomial({0.0: [1.0, 2.0], 1.0: [0.4, 1.0]}).roots(1))


def test_quasi_polynomials():
    assert quasi_polynomial({0.0: [0.1, 0.0], 1.0: [0.1]}).roots(1)[0] == pytest.approx(lambertw(-1.0))
    mathieu = quasi_polynomial({0.0: [1.0, 0.2, 4.0], 0.5: [0.3, 1.0]})
    for root in mathieu.roots(5):
        assert abs(root**2 + 0.2 * root + 4 + (0.3 * root + 1) * np.exp(-0.5 * root)) < 1e-11
    assert quasi_polynomial({0.0: [1.0], 1.0: [0.4], 2.0: [0.5]}).is_stable
    assert not quasi_polynomial({0.0: [1.0], 1.0: [0.6], 2.0: [0.5]}).is_stable


@pytest.mark.slow
def test_descriptor_systems():
    """x' = z with 0 = -z - x(t - 1); a mass matrix with dependent rows; one that is regular."""
    now, later = [[0, 1], [0, -1]], [[0, 0], [-1, 0]]
    simple = descriptor([[1, 0], [0, 0]], [now, later], [0.0, 1.0])
    assert simple.roots(3) == pytest.approx([lambertw(-1, 0), lambertw(-1, -1), lambertw(-1, 1)], rel=1e-9)
    assert simple.is_stable and simple.certify().unstable == 0
    mixed = np.array([[1.0, 1.0], [2.0, 1.0]])
    combined = descriptor(mixed @ [[1, 0], [0, 0]], [mixed @ now, mixed @ later], [0.0, 1.0])
    assert combined.roots(1) == pytest.approx(simple.roots(1), rel=1e-9)
    mass = descriptor([[3.0]], [[[-1.5]]], [1.0])
    assert mass.roots(1)[0] == pytest.approx(lambertw(-0.5), rel=1e-12)
    with pytest.raises(ValueError, match="must have index <= 1: its equations without delay do not determine"):
        descriptor([[1, 0], [0, 0]], [[[0, 1], [1, 0]]], [0.0])


# ---- loops ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_margins_of_simc_settings():
    """The controller cancels the lag: L = exp(-theta s)/(2 theta s)."""
    theta = 2.0
    plant, pi = transfer_function([3.0], [10.0, 1.0], theta), transfer_function([25 / 3, 5 / 6], [10.0, 0.0])
    margins = (plant * pi).loop().margins()
    assert margins.gain_margin == pytest.approx(np.pi, rel=1e-9)
    assert margins.phase_margin == pytest.approx(np.pi / 2 - 0.5, rel=1e-9)
    assert margins.delay_margin == pytest.approx((np.pi - 1.0) * theta, rel=1e-9)


@pytest.mark.slow
def test_open_loop_is_the_model():
    model = transfer_function([0.3, 1.0], [1.0, 2.0], 1.0) * transfer_function([1.0, 1.0], [2.0, 1.0])
    assert model.loop().open_loop(S) == pytest.approx(model(S), rel=1e-12)
    assert model.loop().roots(1) == pytest.approx(model.feedback().poles(1), rel=1e-9)


def test_a_smith_predictor_leaves_finitely_many_poles():
    """The delay cancels in the determinant: poles are those of the loop without delay, and of plant and model."""
    lag = transfer_function([5.6], [40.2, 1.0])
    plant, pi = delay(lag, 93.9), transfer_function([20.0, 0.5], [40.0, 0.0])
    loop = (plant * pi.feedback(lag - plant)).feedback()
    known = [*np.roots([40.0 * 40.2, 40.0 + 112.0, 2.8]), -1 / 40.2, -1 / 40.2]
    assert loop.poles(10) == pytest.approx(np.sort(known)[::-1], rel=1e-9)
    assert loop.is_stable


@pytest.mark.slow
def test_finite_spectrum_assignment():
    """u = -k (e x + int_0^1 exp(theta) u(t - theta)) for x' = x + u(t - 1) has the single pole 1 - k."""
    for k, stable in ((0.999, False), (1.001, True), (3.0, True)):
        prediction = distributed_delay(1.0, [1.0], rate=-1.0)
        law = dead_time(0.0).feedback(prediction * k) * (k * np.e)
        loop = (transfer_function([1.0], [1.0, -1.0], 1.0) * law).feedback()
        assert loop.is_stable is stable
        assert loop.poles(1)[0] == pytest.approx(1.0 - k, abs=1e-12)
        assert loop(S) == pytest.approx(k * np.e * np.exp(-S) / (S - 1 + k), rel=1e-9)


# ---- distributed delays -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("length", "kernel", "rate"), [(1.5, [1.0, 2.0, 0.5], 0.3), (2.0, [0, 0, 0, 1.0], 0.0)])
def test_responses_of_kernels_near_the_removable_point(length, kernel, rate):
    model = distributed_delay(length, kernel, rate)
    for s in (-rate, 1e-8, 0.2j, 3 + 4j, -rate + 1e-4j):
        parts = [
            quad(lambda x, s=s, part=part: part(np.polyval(kernel[::-1], x) * np.exp(-(rate + s) * x)), 0, length)[0]
            for part in (np.real, np.imag)
        ]
        assert model(s) == pytest.approx(complex(*parts), rel=1e-12)


@pytest.mark.slow
def test_a_moving_average_in_the_loop():
    """s + k (1 - exp(-s h))/(s h) loses stability at k = pi^2/(2 h), with s = j pi/h."""
    h = 2.0
    for factor in (1 - 1e-6, 1 + 1e-6):
        loop = (INTEGRATOR * distributed_delay(h, [1 / h])).feedback(factor * np.pi**2 / (2 * h))
        assert loop.is_stable is (factor < 1)
        assert loop.system.certify().unstable == (0 if factor < 1 else 2)
    root = loop.poles(1)[0]
    assert root.imag == pytest.approx(np.pi / h, rel=1e-6)
    assert abs(root.real) < 1e-5


def test_an_infinite_gamma_kernel_is_rational():
    rate, n = 3.0, 4
    model = distributed_delay(None, [0.0] * (n - 1) + [rate**n / 6.0], rate)
    assert model(S) == pytest.approx((rate / (S + rate)) ** n, rel=1e-13)
    truncated = distributed_delay(30.0, [0.0] * (n - 1) + [rate**n / 6.0], rate)
    assert truncated(S) == pytest.approx(model(S), rel=1e-12)


@pytest.mark.slow
def test_margins_of_two_loops_of_which_one_has_a_moving_average():
    average = INTEGRATOR * distributed_delay(2.0, [0.5])
    margins = average.loop().margins()
    assert margins.gain_margin == pytest.approx(np.pi**2 / 4, rel=1e-12)
    both = block([[average, 0.0], [0.0, transfer_function([2.0], [1.0, 1.0], 0.5)]]).loop()
    loops = both.margins().loops
    assert both.is_stable and [loop.stable for loop in loops] == [True, True]
    assert min(loop.gain_margin for loop in loops) == both.margins().gain_margin < margins.gain_margin


# ---- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: transfer_function([1.0, 0.0], [1.0]), "must be proper, got degrees 1 over 0"),
        (lambda: transfer_function([1.0], [0.0]), r"den must not be 0, got \[0.0\]"),
        (
            lambda: transfer_function([1.0], [1.0], -1.0),
            "delay of a transfer function must be finite and >= 0 s, got -1.0",
        ),
        (lambda: transfer_function([[[1.0], [1.0]]], [[[1.0]]]), "must have equal rows of one length, got rows of"),
        (lambda: transfer_function([1.0], [1.0], [1.0]), r"must be a number or have shape \(1, 1\), got shape \(1,\)"),
        (lambda: delay(control.tf([1], [1, 1], 0.1), 1.0), "must be in continuous time, got dt = 0.1"),
        (lambda: delay("plant", 1.0), "system must be a DelayModel, a matrix of gains, or"),
        (lambda: delay(1.0, [1.0, 2.0]), r"tau must be a number or one for each of 1 inputs, got shape \(2,\)"),
        (lambda: distributed_delay(0.0), "length must be > 0 s, got 0.0"),
        (lambda: distributed_delay(None), "rate must be > 0 1/s for an infinite kernel, got 0.0"),
        (lambda: distributed_delay(1.0, [0.0]), "kernel must have 1 to 20 coefficients"),
        (lambda: quasi_polynomial({1.0: [1.0, 0.0]}), "polynomial of delay 0 must have the highest degree"),
        (lambda: dead_time(1.0).system.roots(1), "must have a state or a feedback through delays to have poles"),
        (lambda: delay(1.0, 0.0).feedback(-1.0), "feedback without delays must not have gain 1"),
        (lambda: block([[1.0, 2.0], [1.0]]), r"rows must have one length >= 1, got lengths \[2, 1\]"),
        (lambda: block([[np.eye(2), 1.0]]), r"entry \(0, 1\) must have 1 inputs and 2 outputs"),
        (lambda: block([[1.0, 2.0]]).loop(), "must have as many outputs as inputs, got 2 -> 1"),
        (lambda: INTEGRATOR.lft(INTEGRATOR), "must leave inputs and outputs of the model open"),
        (lambda: INTEGRATOR + block([[1.0, 2.0]]), "must have equal inputs and outputs to be added"),
        (lambda: DelayModel([[1.0]], [[1.0]], [[1.0]], [[0.0]], [1.0]), "must be larger than 1 x 1 delays"),
        (lambda: DelayModel([[1.0, 0.0]], [[1.0]], [[1.0]], [[0.0]]), r"a of a DelayModel must be square, got shape"),
        (lambda: DelayModel([[1.0]], [[1.0, 2.0]], [[1.0]], [[0.0]]), r"b of a DelayModel must have shape \(1, 1\)"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()


@pytest.mark.slow
def test_margins_need_a_gain_that_falls_off():
    with pytest.raises(ConvergenceError, match="margins need a loop gain that falls to 0"):
        transfer_function([2.0, 1.0], [1.0, 2.0], 1.0).loop().margins()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.7, -0.7])
@pytest.mark.parametrize("power", [1, pytest.param(3, marks=pytest.mark.extensive), 6])
def test_kernels_with_powers_have_no_artificial_root(power, rate):
    """s + k K(s) at its roots, and proven counts on both sides of the gain at which s = j w is one: Re K(j w) = 0."""
    length, kernel = 1.5, [0.0] * power + [1.0]
    model = distributed_delay(length, kernel, rate)

    def transform(s):
        parts = (
            quad(lambda x, part=part: part(x**power * np.exp(-(rate + s) * x)), 0.0, length, epsabs=1e-14)[0]
            for part in (np.real, np.imag)
        )
        return complex(*parts)

    omega = brentq(lambda w: transform(1j * w).real, 0.2, 3.0, xtol=1e-13)
    limit = -omega / transform(1j * omega).imag
    for gain, unstable in ((0.999 * limit, 0), (1.001 * limit, 2)):
        system = (INTEGRATOR * model).feedback(gain).system
        assert system.verdict == ("unstable" if unstable else "stable")
        assert system.certify().unstable == unstable
        roots = system.roots(5)
        assert len(roots) == 5
        assert max(abs(s + gain * transform(s)) / abs(s) for s in roots) < 1e-9
        values = system.characteristic([0.0, -rate, 1.0 + 1j])
        expected = [s + gain * transform(s) for s in (0.0, -rate, 1.0 + 1j)]
        assert values == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_multiple_artificial_roots_do_not_move_by_rounding():
    """The kernel theta^6 has the artificial root 0 of multiplicity 7, which rounding would split across the axis."""
    model = distributed_delay(1.5, [0.0] * 6 + [1.0])
    system = (INTEGRATOR * model).feedback(0.5 / abs(model(0.0))).system
    assert system.certify().stable and system.verdict == "stable"


@pytest.mark.parametrize("gain", [1e-9, 1e-6])
def test_a_root_next_to_a_multiple_artificial_root(gain):
    """A loop with the kernel theta^2 on [0, 1.5] and a small gain has the root -gain, up to gain^2 3/4 1.5."""
    model = distributed_delay(1.5, [0.0, 0.0, 1.0])
    root = (INTEGRATOR * model).feedback(gain / abs(model(0.0))).poles(1)[0]
    assert root == pytest.approx(-gain - 1.125 * gain**2, rel=1e-11)


@pytest.mark.slow
def test_three_moving_averages_in_one_loop():
    """Each has one artificial root 0: together a triple root."""
    average = distributed_delay(0.3, [1 / 0.3])
    system = (INTEGRATOR * average * average * average).feedback(1.0).system
    assert system.certify().unstable == 0
    for s in system.roots(3):
        assert abs(s + (-np.expm1(-0.3 * s) / (0.3 * s)) ** 3) < 1e-10 * abs(s)


@pytest.mark.parametrize(("power", "gain"), [(3, 1e-3), (3, 1e-4), (6, 1e-2)])
def test_poles_next_to_an_artificial_root(power, gain):
    """s + g K(s), K normalized with mean delay m = h (power + 1)/(power + 2), has a root at -g (1 + g m + O(g^2))."""
    kernel = distributed_delay(1.5, [0.0] * power + [1.0])
    root = (transfer_function([1.0], [1.0, 0.0]) * kernel).feedback(gain / float(kernel(0.0).real)).poles(1)[0]
    mean = 1.5 * (power + 1) / (power + 2)
    assert root.imag == 0.0
    assert root.real == pytest.approx(-gain * (1.0 + gain * mean), rel=4 * gain**2)
    second = 1.5**2 * (power + 1) / (power + 3)
    residual = root.real + gain * (1.0 - root.real * mean + root.real**2 * second / 2.0)
    assert abs(residual) < 2 * gain**4


@pytest.mark.parametrize("gain", [1e8, 1e12])
def test_a_series_connection_with_a_large_gain_is_no_algebraic_loop(gain):
    """PI control of gain k in series with 1/((s + 1) k) is that of gain 1."""
    controller = transfer_function([gain, gain], [1.0, 0.0])
    closed = (transfer_function([1.0 / gain], [1.0, 1.0], 0.5) * controller).feedback()
    assert closed.poles(2)[1].real == pytest.approx(lambertw(-0.5).real / 0.5, rel=1e-9)  # after the cancelled pole -1
    with pytest.raises(ValueError, match="must not have gain 1"):
        delay(gain, 0.0).feedback(-1.0 / gain)


@pytest.mark.parametrize(
    ("excess", "unstable"), [(0.0, 1), (2.0**-52, 1), (-(2.0**-53), 0), (1e-9, 1), (-1e-9, 0), (-0.5, 0)]
)
def test_real_root_that_crosses_at_the_artificial_root_of_a_moving_average(excess, unstable):
    """1 - k A(s)/(1 + s), with A(0) = 1: the real root crosses at k = 1, next to the root 0 of the determinant."""
    system = (distributed_delay(1.0) * transfer_function([-(1.0 + excess)], [1.0, 1.0])).loop()
    proof = system.certify()
    assert (proof.at_least, proof.at_most) == (unstable, unstable)
    assert system.verdict == ("unstable" if unstable else "stable")
    assert (system.spectral_abscissa >= 0.0) == bool(unstable)


def test_double_root_at_0_next_to_artificial_ones():
    """1 - A(s) (1 + 2 s)/(1 + s) with the average A = 1 - s + 2 s^2/3 - ... has a double zero at 0."""
    system = (distributed_delay(2.0) * transfer_function([-1.0, -0.5], [1.0, 1.0])).loop()
    assert system.certify().at_least == 2
    np.testing.assert_array_equal(system.roots(2), [0.0, 0.0])


def test_a_moving_average_with_a_large_gain_is_counted_with_little_work():
    """1 + 7e5 (1 - exp(-s))/s has its zeros left of the axis; thousands lie right of a line at -0.001."""
    proof = (distributed_delay(1.0) * 7e5).loop().certify()
    assert proof.unstable == 0 and proof.stable and proof.pieces < 10_000
    average = distributed_delay(1.0) * transfer_function([1e5], [1.0, 1.0])
    assert average.loop().certify().unstable == 142
