"""Charts of two parameters: areas and verdicts against closed forms, proofs of members, and what is refused."""

from __future__ import annotations

from math import cos, inf, nan, pi, sin, tan

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import ecc.linear.charts
from ecc.errors import ConvergenceError
from ecc.linear import (
    DelaySystem,
    StabilityChart,
    delay,
    descriptor,
    distributed_delay,
    stability_chart,
    transfer_function,
)


def hayes(a, b):
    """x' = -a x - b x(t - 1)."""
    return DelaySystem([-a, -b], [0.0, 1.0])


def upper_boundary(a):
    """Hayes 1950: x' = -a x - b x(t - 1) is stable for a > -1 and -a < b < w/sin w, w cot w = -a, 0 < w < pi."""
    w = brentq(lambda w: w / tan(w) + a, 1e-9, pi - 1e-9)
    return w / sin(w)


def points(chart, count=200):
    """Random points of a chart that are decided, with their numbers of roots."""
    rng = np.random.default_rng(1)
    every = np.stack([rng.uniform(*ends, count) for ends in chart.ranges], axis=1).tolist()
    known = [(x, y, chart.unstable(x, y)) for x, y in every if chart.verdict(x, y) != "undecided"]
    assert len(known) > count // 2
    return known


def test_hayes():
    chart = stability_chart(hayes, {"a": (-2.0, 4.0), "b": (-2.0, 6.0)}, resolution=1 / 64)
    exact = quad(lambda a: upper_boundary(a) - max(-a, -2.0), -1.0 + 1e-9, 4.0, points=[2.0])[0]
    areas = chart.areas
    assert areas["stable"] < exact < areas["stable"] + areas["undecided"]
    assert areas["undecided"] < 0.06 * 48.0
    assert sum(areas.values()) == pytest.approx(48.0)
    for a, b, number in points(chart):
        assert (number == 0) == (a > -1.0 and -a < b < upper_boundary(a))
    assert chart.status == "complete" and "assumed" in chart.notes[0]


def test_number_of_roots_over_gain_and_delay():
    """x' = -k x(t - tau): a pair of roots turns unstable at k tau = pi/2 + 2 pi n."""
    chart = stability_chart(
        lambda k, tau: DelaySystem([-k], [tau]), {"k": (0.1, 4.0), "tau": (0.0, 4.0)}, resolution=1 / 64
    )
    for k, tau, number in points(chart):
        assert number == 2 * np.floor(k * tau / (2.0 * pi) + 0.75)


def test_delays_that_cross():
    """x' = -x(t - tau1) - x(t - tau2) is stable for tau1 + tau2 < pi/w, w = 2 cos(w (tau1 - tau2)/2)."""

    def is_stable(tau1, tau2):
        half = abs(tau1 - tau2) / 2.0
        w = brentq(lambda w: w - 2.0 * cos(w * half), 0.0, min(2.0, pi / 2.0 / half))
        return tau1 + tau2 < pi / w

    chart = stability_chart(
        lambda tau1, tau2: DelaySystem([-1.0, -1.0], [tau1, tau2]), {"tau1": (0.0, 4.0), "tau2": (0.0, 4.0)}
    )
    for tau1, tau2, number in points(chart):
        assert (number == 0) == is_stable(tau1, tau2)


def test_delayed_oscillator():
    """x'' + d x = b x(t - 2 pi): stable in triangles between the lines b = (-1)^k (d - k^2/4) (Bhatt, Hsu 1966)."""

    def is_stable(d, b):
        if d <= 0.0:
            return False
        k = int(2.0 * np.sqrt(d))
        return 0.0 < (-1) ** k * b < min(d - k**2 / 4.0, (k + 1) ** 2 / 4.0 - d)

    chart = stability_chart(
        lambda d, b: DelaySystem([[[0, 1], [-d, 0]], [[0, 0], [b, 0]]], [0.0, 2.0 * pi]),
        {"d": (-0.5, 3.0), "b": (-1.0, 1.0)},
        resolution=1 / 32,
    )
    for d, b, number in points(chart):
        assert (number == 0) == is_stable(d, b), (d, b)


def pi_loop(kp, ki):
    plant = transfer_function([3.0], [10.0, 1.0], delay=2.0)
    return (plant * transfer_function([kp, ki], [1.0, 0.0])).feedback()


FAMILIES = {
    "PI controller": (pi_loop, {"kp": (-0.5, 3.0), "ki": (-0.1, 0.8)}, 0.0),
    "decay rate": (pi_loop, {"kp": (0.0, 2.0), "ki": (0.01, 0.4)}, -0.05),
    "mass": (
        lambda m, c: DelaySystem([[[0, 1], [-1 / m, -c / m]], [[0, 0], [-0.5 / m, 0]]], [0.0, 1.0]),
        {"m": (2.0, 3.0), "c": (0.1, 1.0)},
        0.0,
    ),
    "algebraic": (
        lambda k, tau: descriptor([[1, 0], [0, 0]], [[[0, 1], [0, -1]], [[-k, 0.2], [0.3, 0]]], [0.0, tau]),
        {"k": (0.5, 3.0), "tau": (0.1, 3.0)},
        0.0,
    ),
    "third order": (
        lambda k, tau: (transfer_function([k], [1, 3, 3, 1]) * delay(1.0, tau)).feedback(),
        {"k": (0.0, 12.0), "tau": (0.0, 3.0)},
        0.0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_members_are_proven_to_have_the_number_of_their_cell(name):
    family, ranges, line = FAMILIES[name]
    chart = stability_chart(family, ranges, line=line)
    for x, y, number in points(chart, 60):
        member = family(x, y)
        assert number == getattr(member, "system", member).certify(line).unstable


def random_family(rng):
    """Up to three states and three delays, entries of degree one or bilinear, delays affine; sometimes neutral."""
    n, count = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    a = rng.normal(size=(count + 1, 3, n, n))
    a[0, 0] -= rng.uniform(0.5, 2.5) * np.eye(n)
    slope = rng.uniform(-0.3, 0.8, (count, 2)) * (rng.random((count, 2)) < 0.5)
    tau = np.abs(slope).sum(axis=1) + rng.uniform(0.05, 1.5, count)
    e, is_neutral, bend = rng.normal(size=(n, n)) * 0.25 / n, rng.random() < 0.3, rng.choice([0.0, 0.2])

    def family(x, y):
        matrices = [m[0] + 0.7 * (x * m[1] + y * m[2]) + bend * x * y * m[1] for m in a]
        neutral = [(1.0 + 0.5 * x) * e] if is_neutral else []
        return DelaySystem(matrices, [0.0, *(tau + slope @ [x, y])], neutral=neutral, neutral_delays=[1.0] * is_neutral)

    return family


@pytest.mark.slow
def test_random_families_have_no_false_number():
    rng = np.random.default_rng(7)
    decided = 0
    for line in [0.0, -0.2, 0.3] * 8:
        family = random_family(rng)
        chart = stability_chart(family, {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}, resolution=1 / 16, line=line)
        for x, y in rng.uniform(-1.0, 1.0, (40, 2)).tolist():
            if chart.verdict(x, y) != "undecided" and chart.unstable(x, y) < inf:
                assert chart.unstable(x, y) == family(x, y).certify(line).unstable
                decided += 1
    assert decided > 500


def test_neutral_part():
    """x' + c x'(t - 1) = -x - k x(t - 1): infinitely many unstable roots for |c| > 1, undecided only near |c| = 1."""
    chart = stability_chart(
        lambda c, k: DelaySystem([-1.0, -k], [0.0, 1.0], neutral=[c], neutral_delays=[1.0]),
        {"c": (-1.5, 1.5), "k": (-0.9, 0.9)},
        resolution=1 / 16,
    )
    assert chart.unstable(1.2, 0.5) == chart.unstable(-1.2, 0.5) == inf
    assert chart.verdict(0.5, 0.5) == "stable" and chart.verdict(1.3, 0.0) == "unstable"


@pytest.mark.slow
def test_kinks_are_undecided():
    chart = stability_chart(
        lambda a, b: DelaySystem([-1.0 - abs(a - 0.05), -b], [0.0, 1.0]),
        {"a": (-1.0, 1.0), "b": (0.1, 0.5)},
        resolution=1 / 4,
    )
    assert chart.verdict(0.9, 0.3) == "stable" and chart.verdict(0.05, 0.3) == "undecided"
    assert "25.0% of the area is undecided, for example a = 0 to 0.5, b = " in chart.notes[1]


def test_effort_bounds_the_cells():
    chart = stability_chart(hayes, {"a": (-2.0, 4.0), "b": (-2.0, 6.0)}, effort=100)
    assert chart.status == "effort" and chart.cells <= 100
    assert chart.verdict(3.0, 0.0) == "stable" and "effort" in repr(chart)


def test_an_interrupted_chart_keeps_its_cells(monkeypatch):
    examine, calls = ecc.linear.charts._Search._examine, []

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return examine(self, *arguments)

    monkeypatch.setattr(ecc.linear.charts._Search, "_examine", interrupted)
    chart = stability_chart(hayes, {"a": (-2.0, 4.0), "b": (-2.0, 6.0)})
    assert chart.status == "interrupted"
    assert chart.verdict(3.0, 0.0) == "stable" and chart.areas["undecided"] > 0.0


def test_a_root_at_zero_of_all_members_is_undecided():
    chart = stability_chart(
        lambda a, b: DelaySystem([[[0, 1], [0, -a]], [[0, 0], [0, b]]], [0.0, 1.0]),
        {"a": (0.5, 3.0), "b": (0.1, 3.0)},
        resolution=1 / 8,
    )
    assert np.isnan(chart.grid).all()


def test_figure_and_refusals_of_a_chart():
    grid = np.array([[0.0, nan], [2.0, inf]])
    chart = StabilityChart(("x", "y"), ((0.0, 1.0), (0.0, 2.0)), grid, 0.0, 4, 9, "complete")
    assert chart.areas == {"stable": 0.5, "unstable": 1.0, "undecided": 0.5}
    figure = chart.plot()
    assert np.asarray(figure.data[0].z).tolist() == [[0, 2], [-1, 4]]  # rows are values of y
    assert chart.unstable(1.0, 2.0) == inf and chart.verdict(0.2, 1.9) == "undecided"
    with pytest.raises(ValueError, match=r"y must be in \[0, 2\], got 2.5"):
        chart.verdict(0.5, 2.5)


@pytest.mark.parametrize(
    ("family", "ranges", "options", "message"),
    [
        (hayes, {"a": (0.0, 1.0)}, {}, "ranges must have two parameters, got 1"),
        (hayes, {"a": (0.0, 1.0), "b": (2.0, 1.0)}, {}, "range of b must be finite and increasing, got .2.0, 1.0."),
        (hayes, {"a": (0.0, 1.0), "b": 3.0}, {}, "range of b must be .lower end, upper end., got 3.0"),
        (hayes, {"a": (0.0, 1.0), "b": (0.0, 1.0)}, {"resolution": 0.5}, r"resolution must be in .*0.25\], got 0.5"),
        (hayes, {"a": (0.0, 1.0), "b": (0.0, 1.0)}, {"effort": 0}, "effort must be >= 1, got 0"),
        (
            lambda a, b: (transfer_function([a], [1.0, b]) * distributed_delay(1.0)).feedback(),
            {"a": (0.5, 1.0), "b": (0.5, 1.0)},
            {},
            "line must differ from the artificial roots of distributed delays .* got 0 1/s and the root 0 1/s",
        ),
        (
            lambda a, b: DelaySystem([-a * np.eye(13), -b * np.eye(13)], [0.0, 1.0]),
            {"a": (0.5, 1.0), "b": (0.5, 1.0)},
            {},
            "up to 12 states and few delays, got 13 states",
        ),
    ],
)
def test_refusals(family, ranges, options, message):
    with pytest.raises(ValueError, match=message):
        stability_chart(family, ranges, **options)


def test_a_family_must_return_systems_with_affine_delays():
    ranges = {"a": (0.5, 1.0), "b": (0.5, 1.0)}
    with pytest.raises(TypeError, match="family must return a DelaySystem or a DelayModel, got float"):
        stability_chart(lambda a, b: a + b, ranges)
    with pytest.raises(ConvergenceError, match="delays of the family must be constant or affine"):
        stability_chart(lambda a, b: DelaySystem([-b], [a * a]), ranges)
