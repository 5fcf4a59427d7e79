import math
from types import SimpleNamespace

import pytest

from ecc.errors import LinearizationError
from ecc.laws.arguments import value_of
from ecc.laws.elementary import exp, log, sqrt, tanh
from ecc.laws.jets import derivatives, gradient, jacobian
from ecc.models import vivace


def helper(x):
    return exp(x) / x


@pytest.mark.parametrize(
    ("law", "at", "expected"),
    [
        (lambda x: 3.0 - x * x / 2.0, 2.0, (1.0, -2.0, -1.0, 0.0)),
        (lambda x: 1.0 / x, 2.0, (0.5, -0.25, 0.25, -0.375)),
        (lambda x: exp(2.0 * x), 0.5, (math.e, 2 * math.e, 4 * math.e, 8 * math.e)),
        (
            lambda x: 2.0 ** (-x),
            1.0,
            (0.5, -math.log(2.0) / 2.0, math.log(2.0) ** 2 / 2.0, -(math.log(2.0) ** 3) / 2.0),
        ),
        (lambda x: log(x), 2.0, (math.log(2.0), 0.5, -0.25, 0.25)),
        (lambda x: sqrt(x), 4.0, (2.0, 0.25, -1 / 32, 3 / 256)),
        (lambda x: tanh(x), log(2.0), (0.6, 0.64, -0.768, -0.8192 + 0.9216)),
        (lambda x: tanh(x), 400.0, (1.0, 0.0, 0.0, 0.0)),
        (lambda x: max(x, 1.0) + min(5.0 * x, x), 3.0, (6.0, 2.0, 0.0, 0.0)),
        (lambda x: abs(-x), 3.0, (3.0, 1.0, 0.0, 0.0)),
        (lambda x: x**3, 2.0, (8.0, 12.0, 12.0, 6.0)),
        (lambda x: x**-0.5, 4.0, (0.5, -1 / 16, 3 / 128, -15 / 1024)),
        (lambda x: x**2, 0.0, (0.0, 0.0, 2.0, 0.0)),
        (lambda x: 2.0**-x, 1.0, (0.5, *(0.5 * (-math.log(2.0)) ** n for n in (1, 2, 3)))),
        (lambda x: x**x, 1.0, (1.0, 1.0, 2.0, 3.0)),
        (lambda x: helper(x), 1.0, (math.e, 0.0, math.e, -2 * math.e)),
    ],
)
def test_exact_derivatives(law, at, expected):
    assert derivatives(law, {"x": at}, "x") == pytest.approx(expected, rel=1e-14, abs=1e-14)


@pytest.mark.parametrize("law", [lambda x: max(x, 2.0), lambda x: min(2.0, x), lambda x: abs(x - 2.0)])
def test_a_tie_is_said_not_picked(law):
    with pytest.raises(LinearizationError, match="the law switches at the equilibrium"):
        derivatives(law, {"x": 2.0}, "x")


def test_ties_that_leave_the_slope_alone_are_no_ties():
    def law(x, a):
        return max(x, 0.0) / a + min(x, 0.0) / 4.0 + max(0.0, 0.0 - abs(x))

    assert derivatives(law, {"x": 0.0, "a": 4.0}, "x")[1] == 0.25
    with pytest.raises(LinearizationError, match=r"its slope in x is 0\.25 or 0\.5"):
        derivatives(law, {"x": 0.0, "a": 2.0}, "x")
    value, slope, second, third = derivatives(lambda x: max(x, 0.0) * x, {"x": 0.0}, "x")
    assert (value, slope, third) == (0.0, 0.0, 0.0) and math.isnan(second)


def test_partial_derivatives_do_not_hide_a_kink_between_arguments():
    def law(x, y):
        return x + y + max(min(x, y), 0.0)

    with pytest.raises(LinearizationError, match="x, y"):
        gradient(law, {"x": 0.0, "y": 0.0}, ["x", "y"])
    assert gradient(law, {"x": 2.0, "y": 1.0}, ["x", "y"]) == {"x": 1.0, "y": 2.0}


@pytest.mark.parametrize(("at", "expected"), [(3.0, 1), (2.0, 2)])
def test_a_law_is_evaluated_on_the_other_side_only_where_a_comparison_is_tied(at, expected):
    count = 0

    def law(x):
        nonlocal count
        count += 1
        return x * 1.0 if x > 2.0 else x + 0.0

    assert derivatives(law, {"x": at}, "x")[:2] == (at, 1.0)
    assert count == expected


@pytest.mark.parametrize(("law", "got"), [(lambda x: None, "a NoneType"), (lambda x: (x, x), "a tuple")])
def test_a_law_that_returns_no_number_is_named(law, got):
    with pytest.raises(TypeError, match=rf"law \(test_jets.py:\d+\) must return a number, got {got}"):
        derivatives(law, {"x": 2.0}, "x")


@pytest.mark.parametrize(
    ("law", "error", "message"),
    [
        (lambda x: math.exp(x), TypeError, r"\(test_jets.py:\d+\) cannot be differentiated: must be real"),
        (lambda x: x // 2.0, TypeError, "cannot be differentiated: .* exp, log, sqrt and tanh of ecc.laws"),
        (lambda x: x + SimpleNamespace().alfa, TypeError, "cannot be differentiated: .* no attribute 'alfa'"),
        (lambda x: 1.0 / (x - 2.0), LinearizationError, r"\(test_jets.py:\d+\) fails at the equilibrium: "),
        (lambda x: x * float("nan"), LinearizationError, r"\(test_jets.py:\d+\) is nan at the equilibrium"),
        (lambda x: x * float("inf"), LinearizationError, "has a slope of inf in x at the equilibrium"),
    ],
)
def test_laws_that_have_no_derivative_are_named(law, error, message):
    with pytest.raises(error, match=message):
        gradient(law, {"x": 2.0}, ["x"])


def test_a_law_that_is_nan_has_no_value():
    with pytest.raises(LinearizationError, match="router_law of Mine is nan at the equilibrium"):
        value_of(lambda x: x * float("nan"), {"x": 1.0}, "Mine", "router_law")


def powers(state, p):
    """Calls a function of a module by the module's name, in a comprehension."""
    return [vivace.utility(x, 0.0, 0.0, p) for x in state] + [helper(state[0])]


def meets_a_kink(state, p):
    return [max(state[0], state[1]), min(state[0], p)]


def meets_a_kink_along_a_line(state, p):
    return [max(min(state[0], state[1]), 0.0)]


def test_the_derivatives_of_a_map():
    found = jacobian(powers, (1.0, 4.0), vivace.Vivace(t=0.5).namespace(), [0, 1])
    assert found.values == pytest.approx([1.0, 2.0, math.e])
    assert found.slopes[0] == pytest.approx([0.5, 0.0])
    assert found.slopes[1] == pytest.approx([0.0, 0.25]) and found.slopes[2] == [0.0, 0.0]
    assert found.kinks == []


def test_the_kinks_of_a_map():
    assert jacobian(meets_a_kink, (1.0, 1.0), 3.0, [0, 1]).kinks == [0, 1]
    assert jacobian(meets_a_kink, (1.0, 1.0), 3.0, [0, 1]).slopes == [[1.0, 1.0], [1.0, 0.0]]
    assert jacobian(meets_a_kink, (2.0, 1.0), 3.0, [0, 1]).kinks == []
    assert jacobian(meets_a_kink, (3.0, 1.0), 3.0, [0]).kinks == [0]
    assert jacobian(meets_a_kink_along_a_line, (0.0, 0.0), None, [0, 1]).kinks == [0, 1]  # both partial slopes are 0


def test_the_root_of_a_constant_zero_is_zero():
    assert jacobian(lambda state, p: [sqrt(state[0] - state[0])], (2.0,), None, [0]).slopes == [[0.0]]


@pytest.mark.parametrize(
    ("law", "error", "message"),
    [
        (lambda state, p: [1.0 / (state[0] - 2.0)], LinearizationError, "fails on the orbit: .*division by zero"),
        (
            lambda state, p: [state[0] * math.inf],
            LinearizationError,
            "has a result or a slope that is not finite on the",
        ),
        (lambda state, p: [state[0] // 2], TypeError, "cannot be differentiated: unsupported operand"),
    ],
)
def test_maps_that_have_no_derivative(law, error, message):
    with pytest.raises(error, match=message):
        jacobian(law, (2.0,), None, [0])
