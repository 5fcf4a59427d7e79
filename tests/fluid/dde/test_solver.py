"""The solver of delay differential equations against closed forms, characteristic roots and SciPy."""

from __future__ import annotations

from math import comb, e, exp, factorial, log, pi

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import lambertw

from ecc.fluid import solve_dde
from ecc.linear import DelaySystem


def decay(t, y, ylag):
    return -ylag[0]


def method_of_steps(t: float) -> float:
    """x' = -x(t - 1), x = 1 before 0."""
    return sum((-1.0) ** j * max(0.0, t - (j - 1)) ** j / factorial(j) for j in range(int(t) + 2))


def test_method_of_steps():
    times = np.linspace(0.0, 12.0, 61)
    r = solve_dde(decay, (0.0, 12.0), [1.0], [1.0], t_eval=times, rtol=1e-9, atol=1e-12)
    exact = [method_of_steps(t) for t in times]
    assert np.abs(r.y[0] - exact).max() < 1e-9
    assert r.compiled and r.success and r.status == 0


def test_steps_end_on_breaking_points():
    r = solve_dde(decay, (0.0, 9.0), [1.0], [1.0, 2.5][:1], rtol=1e-3)
    for point in (1.0, 2.0, 3.0, 4.0, 5.0):
        assert np.abs(r.t - point).min() == 0.0
    # polynomials of degree <= 5 between them: exact for any tolerance
    at = np.flatnonzero(r.t <= 5.0)
    assert np.abs(r.y[0, at] - [method_of_steps(t) for t in r.t[at]]).max() < 1e-12


def test_order_of_convergence():
    # x = sin t solves x' = -x(t - pi/2)
    errors = []
    for steps in (20, 40, 80):
        h = 10.0 / steps
        r = solve_dde(
            decay, (0.0, 10.0), np.sin, [pi / 2], rtol=0.5, atol=1e3, max_step=h, first_step=h, dense_output=True
        )
        grid = np.linspace(0.0, 10.0, 333)
        errors.append(np.abs(r.sol(grid)[0] - np.sin(grid)).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(orders > 4.6), (errors, orders)


def test_steps_longer_than_the_delay():
    delay = 0.01
    rate = float(lambertw(-delay).real) / delay  # root of s = -exp(-s delay)
    r = solve_dde(decay, (0.0, 5.0), lambda t: np.exp(rate * t), [delay], rtol=1e-8, atol=1e-12, jit=False)
    assert r.y[0, -1] == pytest.approx(exp(rate * 5.0), rel=1e-6)
    assert np.diff(r.t).max() > 3 * delay


@pytest.mark.slow
def test_growth_rate_is_the_rightmost_root():
    k = 2.0
    r = solve_dde(lambda t, y, ylag: -k * ylag[0], (0.0, 60.0), [1.0], [1.0], rtol=1e-9, dense_output=True)
    root = DelaySystem([[[-k]]], [1.0]).roots(1)[0]
    period = 2 * pi / abs(root.imag)
    early, late = (r.sol(np.linspace(t, t + period, 400))[0] for t in (30.0, 30.0 + 3 * period))
    growth = log(np.linalg.norm(late) / np.linalg.norm(early)) / (3 * period)
    assert growth == pytest.approx(root.real, rel=1e-6)


@pytest.mark.slow
@pytest.mark.oracle
def test_mackey_glass_against_scipy_by_steps():
    tau, rtol = 17.0, 1e-11

    def before(t):
        return np.array([0.5])

    previous = before
    for k in range(10):
        last = previous
        piece = solve_ivp(
            lambda t, y, last=last: 0.2 * last(t - tau) / (1 + last(t - tau) ** 10) - 0.1 * y,
            (k * tau, (k + 1) * tau),
            last(k * tau),
            method="DOP853",
            rtol=rtol,
            atol=1e-12,
            dense_output=True,
        )
        previous = piece.sol

    def mackey_glass(t, y, ylag):
        return 0.2 * ylag[0] / (1 + ylag[0] ** 10) - 0.1 * y

    for tolerance in (1e-5, 1e-9):
        r = solve_dde(mackey_glass, (0.0, 170.0), [0.5], [tau], rtol=tolerance, atol=tolerance)
        error = abs(r.y[0, -1] - previous(170.0)[0])
        assert error < 100 * tolerance


@pytest.mark.slow
def test_state_dependent_delay():
    # Neves & Feldstein: y' = y y(ln y)/t from y(1) = 1: y = t up to e, then exp(t/e) up to e^2
    r = solve_dde(
        lambda t, y, ylag: y * ylag[0] / t, (1.0, 7.0), [1.0], lambda t, y: t - np.log(y), rtol=1e-9, atol=1e-12
    )
    exact = np.where(r.t <= e, r.t, np.exp(r.t / e))
    assert np.abs(r.y[0] / exact - 1.0).max() < 1e-8
    assert np.abs(r.t - e).min() < 1e-7  # the breaking point moves with the solution and is found


def test_vanishing_delay():
    # pantograph: y' = -y(t/2), y(0) = 1
    r = solve_dde(
        lambda t, y, ylag: -ylag[0], (0.0, 4.0), [1.0], lambda t, y: [t / 2.0], rtol=1e-10, atol=1e-12, jit=False
    )
    exact = sum((-4.0) ** k * 2.0 ** (-k * (k - 1) / 2) / factorial(k) for k in range(40))
    assert r.y[0, -1] == pytest.approx(exact, abs=1e-9)


def test_events():
    def crossing(t, y):
        return y[0]

    r = solve_dde(decay, (0.0, 10.0), np.sin, [pi / 2], rtol=1e-10, atol=1e-12, events=crossing)
    assert r.t_events[0] == pytest.approx([pi, 2 * pi, 3 * pi], abs=1e-8)
    crossing.terminal = True
    crossing.direction = 1.0
    r = solve_dde(decay, (0.0, 10.0), np.sin, [pi / 2], rtol=1e-10, atol=1e-12, events=[crossing])
    assert r.status == 1 and r.success
    assert r.t[-1] == r.t_events[0][0] == pytest.approx(2 * pi, abs=1e-8)
    assert r.y[0, -1] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("tolerance", [1e-6, 1e-10])
def test_a_run_from_a_terminal_event_goes_on(tolerance):
    # C1 of Paul's set, its delay with a kink where y crosses 0, from kink to kink
    def crossing(t, y):
        return y[0]

    crossing.terminal = True
    at, past = 0.0, [0.5]
    found = []
    while at < 24.0:
        r = solve_dde(
            lambda t, y, ylag: -2.0 * ylag[0] * (1.0 - y**2),
            (at, 24.0),
            past,
            lambda t, y: 1.0 + np.abs(y),
            rtol=tolerance,
            atol=tolerance,
            events=crossing,
            dense_output=True,
            jit=False,
        )
        assert r.success, r.message
        at, past = r.t[-1], r.sol
        found.append(at)
    crossings = [0.549306144, 3.86215078, 7.76105454, 11.74031886, 15.72082688, 19.70134994, 23.68187321, 24.0]
    assert found == pytest.approx(crossings, abs=200 * tolerance + 1e-8)


def test_a_history_with_a_solution_as_its_default_is_called_back():
    first = solve_dde(decay, (0.0, 1.0), [1.0], [1.0], dense_output=True, rtol=1e-8).sol
    r = solve_dde(decay, (1.0, 3.0), lambda t, first=first: first(t), [1.0], rtol=1e-8)
    assert r.y[0, -1] == pytest.approx(method_of_steps(3.0), abs=1e-7)


def test_several_delays_and_components():
    # rotation x = cos t, y = sin t with delays of a whole turn
    turn = 2 * pi
    r = solve_dde(
        lambda t, y, ylag: np.array([-ylag[0, 1], ylag[1, 0]]),
        (0.0, 20.0),
        lambda t: np.array([np.cos(t), np.sin(t)]),
        [turn, 2 * turn],
        rtol=1e-9,
        atol=1e-10,
        jit=False,
    )
    assert r.y[:, -1] == pytest.approx([np.cos(20.0), np.sin(20.0)], abs=1e-7)


def test_called_back_equals_compiled():
    def f(t, y, ylag):
        return -0.5 * y * ylag[0] + 0.1 * ylag[1]

    runs = [solve_dde(f, (0.0, 30.0), [1.0], [1.0, 0.3], jit=jit) for jit in (True, False)]
    assert runs[0].compiled and not runs[1].compiled
    assert np.array_equal(runs[0].t, runs[1].t) and np.array_equal(runs[0].y, runs[1].y)


def test_a_function_numba_cannot_compile_is_called_back():
    seen = {}

    def f(t, y, ylag):
        seen[round(t)] = True
        return [-ylag[0, 0]]

    r = solve_dde(f, (0.0, 3.0), [1.0], [1.0])
    assert not r.compiled and set(seen) == {0, 1, 2, 3}
    assert r.y[0, -1] == pytest.approx(method_of_steps(3.0))


@pytest.mark.slow
def test_fixed_arrays_in_a_closure_are_compiled():
    matrix = np.array([[0.0, -1.0], [1.0, 0.0]])
    r = solve_dde(lambda t, y, ylag: matrix @ ylag[0], (0.0, 5.0), [1.0, 0.0], [0.5])
    assert r.compiled and r.success


def test_forgetting_and_t_eval_change_nothing():
    times = np.linspace(0.0, 200.0, 41)
    kept = solve_dde(decay, (0.0, 200.0), [1.0], [1.5], rtol=1e-6, dense_output=True, t_eval=times)
    forgot = solve_dde(decay, (0.0, 200.0), [1.0], [1.5], rtol=1e-6, t_eval=times)
    assert kept.steps > 64  # the history was full at least once
    assert np.array_equal(kept.y, forgot.y)
    assert np.allclose(kept.sol(times), kept.y, rtol=1e-13)
    assert kept.sol(-3.0) == pytest.approx([1.0])


def test_jump_at_the_start():
    # x = 0 before and 1 from 0 on: x' = -x(t - 1) is 0 up to 1
    r = solve_dde(decay, (0.0, 1.5), [0.0], [1.0], y0=[1.0], rtol=1e-8, dense_output=True)
    assert r.sol(0.999)[0] == pytest.approx(1.0, abs=1e-12)
    assert r.y[0, -1] == pytest.approx(0.5, abs=1e-8)


def neutral(t, y, ylag, dylag):
    return -y + 0.9 * dylag[0]


def neutral_by_steps(t: float) -> float:
    """y' = -y + 0.9 y'(t - 1), y = 1 before 0: a sum over the jumps of y' at 1, 2, ..."""
    total = exp(-t)
    for k in range(1, int(t) + 1):
        u = t - k
        terms = sum(comb(k - 1, j) * (-1.0) ** j * u ** (j + 1) / factorial(j + 1) for j in range(k))
        total -= 0.9**k * exp(-u) * terms
    return total


@pytest.mark.parametrize("jit", [True, False])
def test_neutral_by_the_method_of_steps(jit):
    times = np.linspace(0.0, 12.0, 121)
    exact = np.array([neutral_by_steps(t) for t in times])
    for tolerance in (1e-4, 1e-6, 1e-8, 1e-10):
        r = solve_dde(
            neutral, (0.0, 12.0), [1.0], [1.0], neutral=True, rtol=tolerance, atol=tolerance, dense_output=True, jit=jit
        )
        assert r.compiled == jit
        assert np.abs(r.sol(times)[0] - exact).max() < 5.0 * tolerance
        for point in range(1, 12):  # jumps of y' come back undamped, and every one ends a step
            assert np.abs(r.t - point).min() == 0.0


def test_order_of_convergence_of_neutral_equations():
    # x = sin t solves x' = -x(t - pi/2)/2 - x'(t - pi)/2
    def f(t, y, ylag, dylag):
        return -0.5 * ylag[0] - 0.5 * dylag[1]

    grid = np.linspace(0.0, 3 * pi, 333)
    errors = []
    for steps in (24, 48, 96):
        h = 3 * pi / steps
        r = solve_dde(
            f,
            (0.0, 3 * pi),
            np.sin,
            [pi / 2, pi],
            neutral=True,
            history_slope=np.cos,
            rtol=0.5,
            atol=1e3,
            max_step=h,
            first_step=h,
            dense_output=True,
            jit=False,
        )
        errors.append(np.abs(r.sol(grid)[0] - np.sin(grid)).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(orders > 4.6), (errors, orders)


def test_a_derivative_that_depends_on_itself_without_contraction_is_a_result():
    r = solve_dde(
        lambda t, y, ylag, dylag: 1.0 + 2.0 * dylag[0], (0.0, 1.0), [1.0], lambda t, y: 0.0 * y, neutral=True, jit=False
    )
    assert r.status == -1
    assert "does not settle it, at t = 0, y = [1.]" in r.message


@pytest.mark.parametrize("since", [0.0, 0.5])
def test_a_derivative_that_is_not_finite_is_a_result(since):
    r = solve_dde(lambda t, y, ylag: -y if t < since else y * np.nan, (0.0, 1.0), [1.0], [1.0], jit=False)
    assert r.status == -1
    assert r.t[-1] == pytest.approx(since, abs=1e-9)
    assert "the derivative is not finite at t = " in r.message and "y = [" in r.message


@pytest.mark.slow
@pytest.mark.parametrize("jit", [True, False])
def test_a_history_that_changes_its_shape_is_reported(jit):
    def history(t):
        return np.ones(3) if -0.9 < t < -0.5 else np.ones(2)

    with pytest.raises(ValueError, match=r"history at t = -0\.\d+, y = \[.*\] must have 2 numbers, got shape \(3,\)"):
        solve_dde(lambda t, y, ylag: -ylag[0], (0.0, 1.0), history, [1.0], jit=jit)


def test_blow_up_is_a_result():
    r = solve_dde(lambda t, y, ylag: y * y, (0.0, 2.0), [1.0], [0.5], jit=False)
    assert r.status == -1 and not r.success
    assert r.t[-1] == pytest.approx(1.0, abs=1e-2)
    assert "at t = " in r.message


def test_negative_delay_is_a_result():
    r = solve_dde(lambda t, y, ylag: -ylag[0], (0.0, 2.0), [1.0], lambda t, y: [1.0 - t], rtol=1e-6, jit=False)
    assert r.status == -1
    assert r.t[-1] == pytest.approx(1.0, abs=2e-4)  # errors may make a delay that touches 0 as negative as this
    assert "delay 0 became -" in r.message and "at t = 1" in r.message and "y = [" in r.message


def test_a_result_of_the_wrong_size_is_an_error_without_delays():
    with pytest.raises(ValueError, match="must have 1 numbers, got shape \\(3,\\)"):
        solve_dde(lambda t, y, ylag: y if t < 0.5 else np.zeros(3), (0.0, 1.0), [1.0], [], jit=False)


@pytest.mark.parametrize("jit", [True, False])
def test_exceptions_of_the_function_are_raised(jit):
    def f(t, y, ylag):
        if t > 0.5:
            raise ArithmeticError("too late")
        return -ylag[0]

    with pytest.raises(ArithmeticError, match="too late"):
        solve_dde(f, (0.0, 1.0), [1.0], [1.0], jit=jit)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t_span": (1.0, 0.0)}, "t_span must be"),
        ({"delays": [-1.0]}, "delays must be >= 0, got -1.0"),
        ({"delays": [np.nan]}, "delays must be finite"),
        ({"history": [[1.0]]}, "history must have shape"),
        ({"history": [np.inf]}, "history must be finite"),
        ({"history": lambda t: [1.0] if t == 0.0 else [1.0, 2.0]}, "history must have 1 numbers"),
        ({"rtol": 0.0}, "rtol must be >="),
        ({"atol": -1.0}, "atol must be >= 0"),
        ({"atol": [1.0, 1.0, 1.0]}, "atol must be >= 0"),
        ({"max_step": 0.0}, "max_step must be > 0"),
        ({"first_step": 5.0}, "first_step must be > 0"),
        ({"t_eval": [0.5, 0.2]}, "t_eval must increase"),
        ({"f": lambda t, y, ylag: [1.0, 2.0]}, "f must return 1 numbers"),
        ({"y0": [1.0, 2.0]}, "y0 must have 1 numbers"),
        ({"f": neutral, "neutral": True, "delays": [0.0]}, "delays must be > 0 if neutral, got 0.0"),
        ({"f": neutral, "neutral": True, "history": np.cos}, "history_slope must be given"),
        ({"history": np.cos, "history_slope": np.sin}, "history_slope must be None"),
    ],
)
def test_bad_input(change, message):
    given = {"f": decay, "t_span": (0.0, 1.0), "history": [1.0], "delays": [1.0]} | change
    with pytest.raises(ValueError, match=message):
        solve_dde(given.pop("f"), given.pop("t_span"), given.pop("history"), **given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"f": lambda t, y: -y}, r"^f must take 3 arguments \(t, y, ylag\), got <function"),
        ({"neutral": True}, r"^f must take 4 arguments \(t, y, ylag, dylag\), got"),
        ({"args": [1.0], "f": lambda t, y, ylag: -y}, r"^f must take 4 arguments \(t, y, ylag, args\[0\]\), got"),
        ({"delays": lambda t: [1.0]}, r"^delays must take 2 arguments \(t, y\), got"),
    ],
)
def test_functions_of_other_arguments_are_refused(change, message):
    given = {"f": decay, "t_span": (0.0, 1.0), "history": [1.0], "delays": [1.0]} | change
    with pytest.raises(TypeError, match=message):
        solve_dde(given.pop("f"), given.pop("t_span"), given.pop("history"), **given)


def test_solution_ends():
    r = solve_dde(decay, (0.0, 1.0), [1.0], [1.0], dense_output=True)
    with pytest.raises(ValueError, match="t must be <= 1"):
        r.sol(1.5)


def test_a_function_that_returns_nothing_is_refused():
    """Numba ends with an assertion of its own where it would compile this one."""
    with pytest.raises(ValueError, match="f must return 1 numbers, got None"):
        solve_dde(lambda *first, **named: None, (0.0, 1.0), [1.0], [0.5])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_initial_slope_selects_one_of_two_solutions_of_a_neutral_equation(sign):
    """y' = tanh(2 y'(t/2)) has the solutions y = s t with s = tanh(2 s), s = 0 and +-0.9575."""

    def f(t, y, ylag, dylag):
        return np.tanh(2.0 * dylag[0])

    run = solve_dde(
        f, (0.0, 3.0), [0.0], lambda t, y: [0.5 * t], neutral=True, initial_slope=[0.2 * sign], rtol=1e-8, atol=1e-10
    )
    slope = brentq(lambda s: np.tanh(2.0 * s) - s, 0.5, 1.0)
    np.testing.assert_allclose(run.y[0], sign * slope * run.t, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_initial_slope_of_the_example_of_ddensd():
    """Jackiewicz' equation determines y'(0) by s = 2 + log(s/2), which 0 cannot start; y = exp(sin 2 t) for s = 2."""

    def f(t, y, ylag, dylag):
        cosine = 2.0 * np.cos(t)
        return 2.0 * np.cos(2.0 * t) * ylag[0] ** cosine + np.log(dylag[0]) - np.log(cosine) - np.sin(t)

    run = solve_dde(
        f, (0.0, 0.1), [1.0], lambda t, y: [0.5 * t], neutral=True, initial_slope=[1.0], rtol=1e-8, atol=1e-10
    )
    assert run.success
    np.testing.assert_allclose(run.y[0], np.exp(np.sin(2.0 * run.t)), rtol=1e-6)


def test_initial_slope_is_refused_unless_neutral():
    with pytest.raises(ValueError, match="initial_slope must be None unless neutral"):
        solve_dde(lambda t, y, ylag: -ylag[0], (0.0, 1.0), [1.0], [1.0], initial_slope=[0.0])
