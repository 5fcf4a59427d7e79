"""The implicit method on stiff delay equations: closed forms, orders, and what it saves."""

from __future__ import annotations

from math import e, exp, factorial, pi

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from ecc.fluid import solve_dde

GAIN, DELAY = 2.0, 0.1


def decay(t, y, ylag):
    return -ylag[0]


def filtered(time_constant):
    """A source filter x of y, and y driven by the x of a delay ago."""

    def f(t, y, ylag):
        return np.array([(y[1] - y[0]) / time_constant, -GAIN * ylag[0, 0]])

    return f


def mode(time_constant):
    """y = exp(s t) and x = exp(s t)/(1 + T s) solve it where s (1 + T s) = -K exp(-s D)."""
    s = -GAIN
    for _ in range(50):
        value = s * (1.0 + time_constant * s) + GAIN * exp(-s * DELAY)
        s -= value / (1.0 + 2.0 * time_constant * s - GAIN * DELAY * exp(-s * DELAY))
    return lambda t: np.array([np.exp(s * t) / (1.0 + time_constant * s), np.exp(s * t)])


@pytest.mark.parametrize("time_constant", [1e-4, 1e-5, 1e-6])
def test_a_fast_filter_beside_a_slow_path(time_constant):
    exact = mode(time_constant)
    f, span = filtered(time_constant), (0.0, 2.0)
    for tolerance in (1e-4, 1e-6, 1e-8):
        r = solve_dde(f, span, exact, [DELAY], rtol=tolerance, atol=tolerance, method="Radau", jit=False)
        assert r.success and r.steps < 100
        assert np.abs(r.y - exact(r.t)).max() < tolerance
    off = solve_dde(f, span, [0.0, 1.0], [DELAY], rtol=1e-6, atol=1e-6, method="Radau", jit=False)
    assert off.success and off.steps < 100  # the filter begins far from what it tracks


def test_it_saves_orders_of_magnitude_of_steps():
    f = filtered(1e-4)
    implicit, explicit = (
        solve_dde(f, (0.0, 5.0), [1.0, 1.0], [DELAY], rtol=1e-6, atol=1e-9, method=method)
        for method in ("Radau", "RK45")
    )
    assert explicit.steps > 100 * implicit.steps
    assert implicit.y[:, -1] == pytest.approx(explicit.y[:, -1], rel=1e-3, abs=1e-8)


def measured_orders(f, history, delay, exact, **options):
    """Orders of the ends of steps, and of all between them, as steps are halved."""
    errors = []
    for steps in (20, 40, 80):
        h = 10.0 / steps
        r = solve_dde(
            f,
            (0.0, 10.0),
            history,
            delay,
            rtol=1e-12,
            atol=1e9,
            max_step=h,
            first_step=h,
            dense_output=True,
            method="Radau",
            jit=False,
            **options,
        )
        grid = np.linspace(0.0, 10.0, 333)
        errors.append([np.abs(r.y[0] - exact(r.t)).max(), np.abs(r.sol(grid)[0] - exact(grid)).max()])
    return np.log2(np.array(errors[:-1]) / errors[1:])


def test_order_without_delays():
    orders = measured_orders(lambda t, y, ylag: np.array([y[1], -y[0]]), [0.0, 1.0], [100.0], np.sin)
    assert np.all(orders[:, 0] > 4.8), orders


@pytest.mark.parametrize("delays", [[pi / 2], lambda t, y: [pi / 2 + 0.0 * y[0]]], ids=["constant", "callable"])
def test_order_where_lags_fall_between_steps(delays):
    orders = measured_orders(decay, np.sin, delays, np.sin)
    assert np.all(orders[:, 1] > 3.8), orders


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8])
def test_state_dependent_and_vanishing_delays(tolerance):
    options = {"rtol": tolerance, "atol": tolerance, "method": "Radau", "jit": False}
    r = solve_dde(lambda t, y, ylag: y * ylag[0] / t, (1.0, 7.0), [1.0], lambda t, y: t - np.log(y), **options)
    exact = np.where(r.t <= e, r.t, np.exp(r.t / e))
    assert np.abs(r.y[0] / exact - 1.0).max() < tolerance
    assert np.abs(r.t - e).min() < 10.0 * tolerance
    r = solve_dde(decay, (0.0, 4.0), [1.0], lambda t, y: [t / 2.0], **options)
    exact = sum((-4.0) ** k * 2.0 ** (-k * (k - 1) / 2) / factorial(k) for k in range(40))
    assert r.y[0, -1] == pytest.approx(exact, abs=tolerance)


def test_a_stiff_lag_inside_the_step():
    # the lag too is far stiffer than the solution, sin t, and a step holds 1e5 of its delays
    stiffness, delay = 1e5, 1e-6

    def f(t, y, ylag):
        pull = y - np.sin(t) + 0.5 * (ylag[0] - np.sin(t - delay))
        return np.cos(t) - stiffness * pull

    r = solve_dde(f, (0.0, 10.0), np.sin, [delay], rtol=1e-6, atol=1e-6, method="Radau", jit=False)
    assert r.success and r.steps < 50
    assert np.abs(r.y[0] - np.sin(r.t)).max() < 1e-5


def robertson(t, y, ylag):
    slow, quick = 0.04 * y[0] - 1e4 * ylag[0, 1] * y[2], 3e7 * y[1] ** 2
    return np.array([-slow, slow - quick, quick])


def test_robertsons_reaction_with_a_delay():
    # the example of RADAR5 (Guglielmi & Hairer 2001), tau = 0.01; its late course is that without the delay
    options = {"rtol": 1e-6, "atol": [1e-8, 1e-12, 1e-8], "method": "Radau"}
    r = solve_dde(robertson, (0.0, 1e10), [1.0, 0.0, 0.0], [0.01], jit=False, **options)
    assert r.success and r.steps < 1000
    assert r.y.sum(axis=0) == pytest.approx(1.0, abs=1e-9)
    late = solve_ivp(lambda t, y: robertson(t, y, y[None]), (0.0, 1e6), [1.0, 0.0, 0.0], t_eval=[1e3, 1e6], **options)
    delayed = solve_dde(robertson, (0.0, 1e6), [1.0, 0.0, 0.0], [0.01], t_eval=[1e3, 1e6], jit=False, **options)
    assert delayed.y == pytest.approx(late.y, rel=1e-4)


def test_events_and_a_failing_derivative():
    def crossing(t, y):
        return y[0]

    r = solve_dde(
        decay, (0.0, 10.0), np.sin, [pi / 2], rtol=1e-9, atol=1e-11, events=crossing, method="Radau", jit=False
    )
    assert r.t_events[0] == pytest.approx([pi, 2 * pi, 3 * pi], abs=1e-7)
    r = solve_dde(lambda t, y, ylag: -y if t < 0.5 else y * np.nan, (0.0, 1.0), [1.0], [1.0], method="Radau", jit=False)
    assert r.status == -1 and "the derivative is not finite at t = 0.5" in r.message
    assert r.t[-1] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "BDF"}, "method must be 'RK45' or 'Radau', got 'BDF'"),
        ({"method": "Radau", "neutral": True}, "method must be 'RK45' if neutral, got 'Radau'"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        solve_dde(lambda *given: -given[1], (0.0, 1.0), [1.0], [1.0], **change)


def test_a_step_over_a_fast_change_is_right_between_its_stages():
    # y follows the lag within 1e-6; the lag jumps in the layer after t = 0, which returns at t = 1, behind the first
    # derivative of the step that begins there
    e = 1e-6
    r = solve_dde(
        lambda t, y, ylag: (1.0 - y - 0.8 * ylag[0]) / e,
        (0.0, 3.0),
        [0.0],
        [1.0],
        rtol=1e-6,
        atol=1e-6,
        method="Radau",
        dense_output=True,
        jit=False,
    )
    assert r.sol(np.array([0.5, 1.5, 2.5]))[0] == pytest.approx([1.0, 0.2, 0.84], abs=3e-5)
