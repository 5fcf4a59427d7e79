"""Covers of boxes of parameters: closed forms on both sides of each boundary, islands, and what is refused."""

from __future__ import annotations

from math import inf, log, pi

import numpy as np
import pytest

from ecc.errors import ConvergenceError
from ecc.linear import DelaySystem
from ecc.linear.box_cover import Axis, cover_box


def integral(gain, delay):
    """x' = -gain x(t - delay): stable for gain delay < pi/2, gain margin pi/2/(gain delay), phase pi/2 - gain delay."""
    return DelaySystem([-gain], [delay], opened=DelaySystem([0.0], [0.0]))


def box(highest):
    return [Axis("gain", 0.1, highest), Axis("delay", 0.1, 1.0)]


@pytest.mark.parametrize(
    ("boundary", "options"),
    [
        (pi / 2.0, {}),
        (pi / 4.0, {"gain_margin": 2.0}),
        (pi / 2.0 - 0.6, {"phase_margin": 0.6}),
    ],
)
def test_covers_reach_the_boundary_and_not_beyond_it(boundary, options):
    found = cover_box(integral, box(0.998 * boundary), **options)
    assert found.boxes < 100 and found.members < 500
    assert {"gain_margin": found.gain_margin, "phase_margin": found.phase_margin}.items() >= options.items()
    with pytest.raises(ConvergenceError, match="not proven over the whole range: undecided at gain = .* delay = "):
        cover_box(integral, box(1.002 * boundary), **options)


def test_a_line_left_of_zero_is_a_decay():
    """The root of s = -gain exp(-s) is real and right of -1 up to gain 1/e; at delay 1 and gain 0.2 it is -0.259171."""
    slow = [Axis("gain", 0.2, 0.35), Axis("delay", 0.9, 1.0)]
    assert cover_box(integral, slow, line=-0.22).line == -0.22
    with pytest.raises(ConvergenceError, match=r"a root lies right of -0.27 1/s at gain = 0.2, delay = 0.9"):
        cover_box(integral, slow, line=-0.27)


@pytest.mark.slow
@pytest.mark.parametrize("height", [1.56, 1.6])
def test_an_island_that_no_corner_shows(height):
    """Corners are far in the stable region; the middle is stable or not."""

    def family(x, y):
        return integral(height - 0.5 * (log(x) ** 2 + log(y) ** 2), 1.0)

    square = [Axis("x", 0.5, 2.2), Axis("y", 0.4, 1.9)]
    if height < pi / 2.0:
        assert cover_box(family, square).boxes > 4
    else:
        with pytest.raises(ConvergenceError, match="undecided"):
            cover_box(family, square)


def test_whole_numbers_are_looked_at_one_by_one_where_it_matters():
    seen = set()

    def family(n):
        seen.add(n)
        return integral(1.5 if n == 7 else 0.2, 1.0)

    assert cover_box(family, [Axis("n", 5.0, 9.0, whole=True)]).line == 0.0
    assert 7.0 in seen and all(n == int(n) for n in seen)
    with pytest.raises(ConvergenceError, match=r"undecided at n = "):
        cover_box(lambda n: integral(1.6 if n == 7 else 0.2, 1.0), [Axis("n", 5.0, 9.0, whole=True)])


def test_a_delay_that_only_rounding_leaves_in_is_none():
    """s + 1 - (1e-17 of a long delay) here, and none there."""

    def family(x):
        return DelaySystem(
            [[[-1.0]], [[-0.5 * x]], [[-1e-17 * (x > 1.0)]]], [0.0, 1.0, 5.0], opened=DelaySystem([[[-1.0]]], [0.0])
        )

    assert cover_box(family, [Axis("x", 0.5, 1.5)]).boxes < 10


def test_the_number_of_states_may_not_change_in_a_box():
    def family(x):
        rest = np.diag([-1.0] * (1 if x < 1.0 else 2))
        return DelaySystem([rest], [0.0], opened=DelaySystem([rest], [0.0]))

    with pytest.raises(ConvergenceError, match="undecided at x = "):
        cover_box(family, [Axis("x", 0.5, 2.0)])


def test_what_is_not_covered_is_refused():
    def neutral(x):
        opened = DelaySystem([-1.0], [0.0], neutral=[-0.96], neutral_delays=[1.0])
        return DelaySystem([-1.0 - 0.1 * x], [0.0], neutral=[-1.4 + x], neutral_delays=[1.0], opened=opened)

    with pytest.raises(ConvergenceError, match="neutral terms with delays are not covered"):
        cover_box(neutral, [Axis("x", 0.5, 0.6)])
    large = np.diag(-np.arange(1.0, 14.0))
    with pytest.raises(ValueError, match="a cover of a box needs systems of up to twelve states"):
        cover_box(lambda x: DelaySystem([x * large], [0.0], opened=DelaySystem([large], [0.0])), [Axis("x", 1.0, 2.0)])


def test_an_axis_is_halved_evenly_in_its_logarithm():
    assert Axis("x", 1.0, 4.0).nodes() == (1.0, 2.0, 4.0) and Axis("x", 1.0, 4.0).bend() == pytest.approx(2.0)
    assert Axis("x", 3.0, 3.0).nodes() == (3.0,) and Axis("n", 3.0, 4.0, whole=True).nodes() == (3.0, 4.0)
    assert Axis("n", 3.0, 5.0, whole=True).nodes() == (3.0, 4.0, 5.0)
    assert Axis("n", 3.0, 5.0, whole=True).bend() == 0.0 < Axis("n", 3.0, 6.0, whole=True).bend() < inf
