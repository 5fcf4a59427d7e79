"""Breaking points that a delay passes within rounding, solutions that end at a jump, and runs of many steps."""

from __future__ import annotations

import numpy as np
import pytest

from ecc.fluid import solve_dde
from ecc.fluid.dde import integration, solver

END = 125.0 / 121.0  # of y' = 5 - y(t - 2 - y^2): 5.5 leads the lagged time below -1, and 0.5 above it
AT_A_JUMP = "the derivative jumps there, and from either side it leads to the other"


@pytest.mark.parametrize("method", ["RK45", "Radau"])
@pytest.mark.parametrize("tolerance", [1e-6, 1e-7, 1e-9])
def test_a_delay_that_is_zero_up_to_rounding_passes_breaking_points(method, tolerance):
    # u[1] = t, so the first delay is zero, and each breaking point of the second is passed when it arises
    r = solve_dde(
        lambda t, u, lag: [-lag[0, 0] - 0.5 * lag[1, 0], 1.0],
        (0.0, 4.0),
        [1.0, 0.0],
        lambda t, u: [t - u[1], 0.7],
        rtol=tolerance,
        atol=1e-3 * tolerance,
        method=method,
    )
    assert r.success, r.message
    assert r.y[0, -1] == pytest.approx(7.04165774e-4, abs=tolerance)


@pytest.mark.parametrize("count", [1, 150])
def test_equal_delays_pass_a_breaking_point_together(count):
    def delays(t, y):
        return 1.0 + 0.1 * y + np.zeros(count)

    r = solve_dde(lambda t, y, ylag: -ylag.sum() / count, (0.0, 10.0), [1.0], delays, rtol=1e-6, jit=False)
    assert r.success and r.steps < 100, r.message
    assert r.y[0, -1] == pytest.approx(0.0175351, abs=1e-6)


def ending(**options):
    return solve_dde(
        lambda t, y, ylag: 5.0 - ylag[0],
        (0.0, 2.0),
        lambda t: np.array([4.5 if t < -1.0 else -0.5]),
        lambda t, y: 2.0 + y**2,
        jit=False,
        **options,
    )


@pytest.mark.parametrize("method", ["RK45", "Radau"])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_a_delay_led_back_to_a_breaking_point_ends_the_solution(method, tolerance):
    r = ending(breaks=[-1.0], method=method, rtol=tolerance)
    assert r.status == -1 and r.steps < 10
    assert r.t[-1] == pytest.approx(END, abs=1e-12)
    assert r.y[0, -1] == pytest.approx(2.0 / 11.0, abs=1e-11)
    assert r.message == (
        "the solution ends at t = 1.03305785, y = [0.181818]: delay 0 reaches the breaking point t = -1, and from "
        "either side of it the derivative leads the delay back to the other side"
    )


@pytest.mark.parametrize("method", ["RK45", "Radau"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
def test_it_ends_where_the_break_is_not_declared(method, tolerance):
    r = ending(method=method, rtol=tolerance, atol=tolerance)
    assert r.status == -1 and r.steps < 200
    assert r.t[-1] == pytest.approx(END, abs=tolerance)
    assert r.message.startswith("the solution ends at t = 1.0") and r.message.endswith(AT_A_JUMP)


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_a_relay_without_delay_ends_at_its_jump(method):
    r = solve_dde(lambda t, y, ylag: 1.0 if y < 0.0 else -1.0, (0.0, 2.0), [1.0], [1.0], rtol=1e-6, method=method)
    assert r.status == -1 and r.steps < 200
    assert r.t[-1] == pytest.approx(1.0, abs=1e-6)
    assert r.message.endswith(AT_A_JUMP)


def test_a_steep_slope_is_not_a_jump():
    r = solve_dde(lambda t, y, ylag: -np.tanh(1e6 * y), (0.0, 1.05), [1.0], [1.0], rtol=1e-3)
    assert r.success and r.rejected > 100, r.message


def test_jumps_at_given_times_end_no_solution():
    # 300 jumps of f in t, none declared; y is a triangle wave
    r = solve_dde(
        lambda t, y, ylag: 1.0 if t % 2.0 < 1.0 else -1.0,
        (0.0, 300.0),
        [0.0],
        [1.0],
        rtol=1e-6,
        atol=1e-6,
        max_step=0.5,
    )
    assert r.success and r.rejected > 1000, r.message
    assert r.y[0, -1] == pytest.approx(0.0, abs=3e-3)


@pytest.mark.parametrize("method", ["RK45", "Radau"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_a_delayed_relay_has_amplitude_1(method, tolerance):
    # the relay switches 1 after y crosses 0: a triangle wave of period 4; on its slopes the error estimate is zero
    for level in (0.1, 0.3, 0.5, 0.7, 0.9):
        r = solve_dde(
            lambda t, y, ylag: 1.0 if ylag[0, 0] < 0.0 else -1.0,
            (0.0, 200.0),
            [level],
            [1.0],
            rtol=tolerance,
            method=method,
        )
        assert r.success, r.message
        assert np.abs(r.y[0]).max() == pytest.approx(1.0, abs=tolerance)


def test_two_delays_may_end_a_solution_together():
    # the derivative turns by a quarter at each passage: a spiral that reaches 0 at t = 0.7 after infinitely many
    r = solve_dde(
        lambda t, y, ylag: np.array([-0.5 * ylag[0, 0] - ylag[1, 1], ylag[0, 0] - 0.5 * ylag[1, 1]]),
        (0.0, 10.0),
        lambda t: np.array([1.0, 1.0]) if t > -1.0 else np.array([-1.0, -1.0]),
        lambda t, y: t + 1.0 - y,
        y0=[0.4, 0.3],
        breaks=[-1.0],
        rtol=1e-6,
        atol=1e-6,
        jit=False,
    )
    assert r.status == -1 and r.steps < 1000
    assert r.t[-1] == pytest.approx(0.7, abs=1e-9)
    assert r.message.startswith("the solution ends at t = 0.7, y = ")


@pytest.mark.parametrize("events", [None, lambda t, y: y[0] - 2.0])
def test_a_run_of_many_steps_reports_its_progress(monkeypatch, events):
    monkeypatch.setattr(solver, "_NOTICE", 100)
    message = r"solve_dde has taken 100 steps from t = 0 to 2 and continues to 3.015; a larger tolerance takes fewer"
    with pytest.warns(RuntimeWarning, match=message) as warned:
        solve_dde(lambda t, y, ylag: -y, (0.0, 3.015), [1.0], [1.0], max_step=0.02, events=events, jit=False)
    assert len(warned) == 1 and warned[0].filename == __file__


def test_a_history_that_exceeds_the_free_memory_ends_the_run_with_a_reason(monkeypatch):
    monkeypatch.setattr(integration, "_LARGE", 0)
    monkeypatch.setattr(integration, "free_memory", lambda: 20_000)
    r = solve_dde(lambda t, y, ylag: -ylag[0], (0.0, 1000.0), [1.0], [1.0], max_step=0.1, jit=False)
    assert r.status == -1 and 10.0 < r.t[-1] < 1000.0
    assert r.message.startswith("the stored solution exceeds the free memory at t =")
