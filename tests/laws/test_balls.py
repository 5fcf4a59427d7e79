"""Balls: values and slopes of random laws, evaluated in high precision at random points, are in their enclosures."""

from fractions import Fraction
from math import ceil, floor
from types import SimpleNamespace

import mpmath
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.errors import UndecidedError
from ecc.laws.balls import BALLS, Ball, on_balls, with_balls
from ecc.laws.elementary import exp, log, sqrt

HIGH = {
    "min": min,
    "max": max,
    "abs": abs,
    "exp": mpmath.exp,
    "log": mpmath.log,
    "sqrt": mpmath.sqrt,
    "tanh": mpmath.tanh,
}


@st.composite
def laws(draw, depth=3):
    """A function of x, y and the names of `HIGH`."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        k = draw(st.integers(0, 2))
        number = draw(st.integers(-16, 16)) / 8.0
        return (lambda x, y, names: x, lambda x, y, names: y, lambda x, y, names: number)[k]
    a, b = draw(laws(depth - 1)), draw(laws(depth - 1))
    operations = [
        lambda x, y, names: a(x, y, names) + b(x, y, names),
        lambda x, y, names: a(x, y, names) - b(x, y, names),
        lambda x, y, names: a(x, y, names) * b(x, y, names),
        lambda x, y, names: a(x, y, names) / (2.0 + b(x, y, names) ** 2),
        lambda x, y, names: a(x, y, names) ** 3,
        lambda x, y, names: names["exp"](-(b(x, y, names) ** 2)),
        lambda x, y, names: names["log"](1.0 + a(x, y, names) ** 2),
        lambda x, y, names: names["sqrt"](1.5 + a(x, y, names) ** 2),
        lambda x, y, names: names["tanh"](a(x, y, names)),
        lambda x, y, names: (1.25 + a(x, y, names) ** 2) ** 0.75,
        lambda x, y, names: names["abs"](a(x, y, names)),
        lambda x, y, names: names["min"](a(x, y, names), b(x, y, names)),
        lambda x, y, names: names["max"](a(x, y, names), b(x, y, names), 0.25),
    ]
    return draw(st.sampled_from(operations))


def contains(ball, number, slack=0.0):
    """Whether an mpmath number, up to a slack, is in a ball."""
    lower, upper = (mpmath.mpf(edge.mid().str(40, radius=False)) for edge in (ball.lower(), ball.upper()))
    room = slack + mpmath.mpf(2) ** -45 * (1 + abs(number))  # of the conversion to 40 digits, and of 53 bits
    return lower - room <= number <= upper + room


@settings(max_examples=60, deadline=None)
@given(laws(), st.data())
def test_values_and_slopes_of_random_laws_are_enclosed(law, data):
    number = st.integers(-64, 64).map(lambda k: k / 32.0)
    centers = [data.draw(number) for _ in range(2)]
    radii = [2.0 ** -data.draw(st.integers(1, 12)) for _ in range(2)]
    at = [c + r * data.draw(st.integers(-16, 16)) / 16.0 for c, r in zip(centers, radii, strict=True)]
    variables = [Ball(arb(c, r), {k: arb(1)}) for k, (c, r) in enumerate(zip(centers, radii, strict=True))]
    try:
        ball = law(*variables, BALLS)
    except UndecidedError as error:
        assert "nan" in str(error)  # an exponential is beyond the range of balls
        return
    if not isinstance(ball, Ball) or not ball.value.is_finite():
        return
    with mpmath.workdps(60):
        point = [mpmath.mpf(x) for x in at]
        assert contains(ball.value, law(*point, HIGH)), (ball, at, law(*point, HIGH))
        step = mpmath.mpf(10) ** -25
        for k in range(2):
            ends = [[x + sign * step * (j == k) for j, x in enumerate(point)] for sign in (1, -1)]
            right, left = (law(*end, HIGH) for end in ends)
            # a difference quotient is a mean of slopes between its ends, which may lie outside by the step
            slope = (right - left) / (2 * step)
            assert contains(ball.slopes.get(k, arb(0)), slope, mpmath.mpf(10) ** -18 * (1 + abs(slope)))


def test_a_comparison_has_one_answer_or_names_its_line():
    x = Ball(arb(1.0, 0.25), {0: arb(1)})
    assert x < 1.5 and not x > 1.5 and x <= 1.26 and x >= 0.74 and x != 2.0 and x == x and 0.5 < x
    with pytest.raises(UndecidedError, match=r"test_balls.py:\d+\) is undecided: 1 \+/- 0.3 < 1 "):
        _ = x < 1.0
    assert not x < x and not x > x and x <= x and x >= x
    with pytest.raises(UndecidedError, match="=="):
        _ = x == 1.0
    with pytest.raises(UndecidedError, match="divisor may be 0"):
        _ = 1.0 / (x - 1.0)
    with pytest.raises(UndecidedError, match="log may be"):
        BALLS["log"](x - 1.0)
    with pytest.raises(UndecidedError, match="sqrt may be"):
        BALLS["sqrt"](x - 1.0)
    with pytest.raises(UndecidedError, match="base of a power"):
        _ = (x - 1.0) ** 0.5


def test_corners_enclose_the_slopes_of_both_sides():
    x, y = Ball(arb(1.0, 0.25), {0: arb(1)}), Ball(arb(1.125, 0.25), {1: arb(1)})
    low = BALLS["min"](x, y)
    assert "test_balls.py" in low.corner and low.value.overlaps(arb(1))
    assert all(low.slopes[k].contains(side) for k in (0, 1) for side in (0, 1))
    assert not BALLS["min"](x, 2.0).corner and BALLS["max"](x, 2.0).slopes == {}
    assert not BALLS["max"](x, x).corner and BALLS["max"](x, x).slopes == {0: 1}
    bent = abs(x - 1.0)
    assert bent.corner and bent.slopes[0].contains(-1) and bent.slopes[0].contains(1)
    assert (bent * 2.0 + y).corner == bent.corner


def test_whole_numbers_are_decided():
    x = Ball(arb(2.5, 0.25), {0: arb(1)})
    assert (floor(x), ceil(x), int(x), int(-x)) == (2, 3, 2, -2)
    with pytest.raises(UndecidedError, match="floor in .* is undecided"):
        floor(x + 0.5)
    with pytest.raises(TypeError, match="not a float"):
        float(x)


def test_a_law_is_rebound_with_the_functions_that_it_calls():
    def inner(x):
        return max(exp(log(x)), sqrt(x))

    ball = on_balls(_outer)(Ball(arb(4), {0: arb(1)}))
    assert ball.value.overlaps(arb(6)) and ball.slopes[0].overlaps(arb(1.25))


def _outer(x):
    return max(exp(log(x)), 0.5) + sqrt(x)


def test_parameters_become_balls_wherever_they_are():
    p = SimpleNamespace(a=0.1, n=3, rows=[0.5, (1.0, 2)], inner={"b": 0.25}, name="x", share=Fraction(1, 3))
    balls = with_balls(p, {"a": Ball(arb(0.1, 0.01), {7: arb(1)})})
    assert balls.a.slopes == {7: 1} and balls.n == 3 and balls.name == "x"
    assert balls.rows[0].value == 0.5 and balls.rows[1][1] == 2 and balls.inner["b"].value == 0.25
    assert p.a == 0.1
    assert (Ball(arb(1)) * Fraction(1, 3)).value.overlaps(arb(1) / 3)
