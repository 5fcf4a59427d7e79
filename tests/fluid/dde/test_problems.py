"""The solver of delay differential equations on the problems of the literature: exact solutions, and SciPy by steps.

A to H are the classes of Enright & Hayashi's test set (drawn from Paul's, Neves' and Jackiewicz's): constant delays,
vanishing ones, state-dependent ones, both; then the same for neutral equations.
"""

from __future__ import annotations

from math import exp, log, pi

import numpy as np
import pytest

from ecc.fluid import solve_dde

ORDER = 5


def neves(t, y, ylag):
    return 1.0 - ylag[0]


def neves_delay(t, y):
    return t - np.exp(1.0 - 1.0 / t)


def relay(t, y, ylag):
    return (1.0 if ylag[0, 0] < 0.0 else -1.0) - y


def relay_solution(t):
    u = np.exp(-t)
    return np.where(t <= 2 * log(2), 2 * u - 1, np.where(t <= 2 * log(6), 1 - 6 * u, 66 * u - 1))


def neves_pair(t, y, ylag):
    return np.array([y[1], -ylag[0, 1] * y[1] ** 2 * np.exp(1.0 - y[1])])


def jackiewicz(t, y, ylag, dylag):
    return 2.0 * np.cos(2.0 * t) * ylag[0] ** (2.0 * np.cos(t)) + np.log(dylag[0]) - np.log(2.0 * np.cos(t)) - np.sin(t)


def halving_solution(t):
    """y' = y'(2t - 1/2) after exp(-t^2) up to 1/4: every interval half as long as the one before."""
    value, left = exp(-(0.25**2)), 0.25
    for k in range(1, 60):
        # on it y'(t) = g'(s), s = 2^k t - (2^k - 1)/2, of g = exp(-t^2): y grows by (g(s) - g(s at left))/2^k
        right = (1.0 - 2.0 ** -(k + 1)) / 2.0
        until = min(t, right)
        begin, end = (2.0**k * u - (2.0**k - 1.0) / 2.0 for u in (left, until))
        value += (exp(-(end**2)) - exp(-(begin**2))) / 2.0**k
        if until == t:
            break
        left = right
    return value


def touching(strength):
    def f(t, y, ylag, dylag):
        s = 0.5 * t * (1.0 - np.cos(2.0 * np.pi * t))
        return np.exp(-y) + strength * (np.sin(dylag[0]) - np.sin(1.0 / (3.0 + s)))

    return f


def turning(t, y, ylag, dylag):
    return -dylag[0]


def castleton_grimm(t, y, ylag, dylag):
    return -4.0 * t * y**2 / (4.0 + np.log(np.cos(2.0 * t)) ** 2) + np.tan(2.0 * t) + 0.5 * np.arctan(dylag[0])


def hayashi(strength):
    def f(t, y, ylag, dylag):
        s = t * np.sin(t) ** 2
        return (
            np.cos(t) * (1.0 + ylag[0])
            + strength * y * dylag[0]
            + (1.0 - strength) * np.sin(t) * np.cos(s)
            - np.sin(t + s)
        )

    return f


PROBLEMS = {  # f, (start, end), history, delays, exact solution, options, largest error in units of the tolerance
    "B1": (neves, (0.1, 10.0), np.log, neves_delay, np.log, {}, 10),
    "B2": (  # f jumps where the lag crosses 0, which error control alone has to find
        relay,
        (0.0, 2 * log(66)),
        [1.0],
        lambda t, y: t / 2.0,
        relay_solution,
        {},
        2,
    ),
    "D1": (
        neves_pair,
        (0.1, 5.0),
        lambda t: np.array([np.log(t), 1.0 / t]),
        lambda t, y: t - np.exp(1.0 - y[1]),
        lambda t: np.array([np.log(t), 1.0 / t]),
        {},
        10,
    ),
    "F1": (
        jackiewicz,
        (0.0, 1.0),
        lambda t: np.exp(np.sin(2.0 * t)),
        lambda t, y: t / 2.0,
        lambda t: np.exp(np.sin(2.0 * t)),
        {"history_slope": lambda t: 2.0 * np.cos(2.0 * t) * np.exp(np.sin(2.0 * t))},
        1,
    ),
    "F2": (
        lambda t, y, ylag, dylag: dylag[0],
        (0.25, 0.499),
        lambda t: np.exp(-(t**2)),
        lambda t, y: 0.5 - t,
        np.vectorize(halving_solution),
        {"history_slope": lambda t: -2.0 * t * np.exp(-(t**2))},
        1,
    ),
    **{
        f"F{k}": (
            touching(strength),
            (0.0, 10.0),
            lambda t: np.log(t + 3.0),
            lambda t, y: 0.5 * t * (1.0 + np.cos(2.0 * np.pi * t)),
            lambda t: np.log(t + 3.0),
            {"history_slope": lambda t: 1.0 / (t + 3.0)},
            30,
        )
        for k, strength in ((3, 0.2), (4, 0.4), (5, 0.6))
    },
    "G1": (
        turning,
        (0.0, 1.0),
        lambda t: 1.0 - t,
        lambda t, y: y**2 / 4.0,
        lambda t: 1.0 + t,
        {"history_slope": lambda t: -1.0},
        1,
    ),
    "G2": (
        turning,
        (0.0, 1.0),
        lambda t: 1.0 - t,
        lambda t, y: t + 2.0 - y,
        lambda t: 1.0 + t,
        {"history_slope": lambda t: -1.0},
        1,
    ),
    "H1": (
        castleton_grimm,
        (0.0, 0.225 * pi),
        [0.0],
        lambda t, y: t / (1.0 + y**2),
        lambda t: -np.log(np.cos(2.0 * t)) / 2.0,
        {},
        1,
    ),
    **{
        f"H{k}": (
            hayashi(strength),
            (0.0, pi),
            np.sin,
            lambda t, y: t * (1.0 - y**2),
            np.sin,
            {"history_slope": np.cos},
            1,
        )
        for k, strength in ((2, 0.1), (3, 0.3), (4, 0.5))
    },
}


def errors(name, grid=201, **options):
    """(largest error relative to 1 + |y|, result)."""
    f, span, history, delays, exact, more, _ = PROBLEMS[name]
    neutral = name[0] in "EFGH"
    r = solve_dde(f, span, history, delays, dense_output=True, jit=False, neutral=neutral, **(more | options))
    assert r.success, r.message
    t = np.linspace(*span, grid)
    y = exact(t)
    return float((np.abs(r.sol(t) - y) / (1.0 + np.abs(y))).max()), r


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("name", PROBLEMS)
def test_error_is_in_proportion_to_the_tolerance(name, tolerance):
    error, _ = errors(name, rtol=tolerance, atol=tolerance)
    assert error <= max(PROBLEMS[name][-1] * tolerance, 1e-13)


@pytest.mark.parametrize("tolerance", [1e-4, pytest.param(1e-8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_jump_or_kink_of_any_size_anywhere_errs_little(order, tolerance):
    # the error estimate alone passes steps that err up to 1e4 tolerances: no stage lies between 0.3 and 0.8 of a step
    def f(t, y, ylag, at, size):
        return np.cos(t) + (size * (t - at) ** order if t > at else 0.0)

    worst = 0.0
    for at in np.linspace(1.0, 2.0, 41):
        for size in 10.0 ** np.arange(-2.5, 2.6, 0.5):
            r = solve_dde(f, (0.0, 3.0), [0.0], [5.0], rtol=tolerance, atol=tolerance, args=(at, size))
            after = np.maximum(r.t - at, 0.0)
            exact = np.sin(r.t) + size * after ** (order + 1) / (order + 1)
            worst = max(worst, float((np.abs(r.y[0] - exact) / (1.0 + np.abs(exact))).max()))
    assert worst < 30 * tolerance


@pytest.mark.parametrize("name", ["B1", "D1", "F1", "H1", "H4"])
def test_order_of_convergence(name):
    # delays that vanish are iterated to the tolerance, so the order is that of the error over the number of steps
    (coarse, few), (fine, many) = (errors(name, rtol=tolerance, atol=tolerance) for tolerance in (1e-6, 1e-10))
    assert np.log(coarse / fine) / np.log(many.steps / few.steps) > ORDER - 0.5
