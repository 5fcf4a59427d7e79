"""Searches over a parameter on families constructed to break them: narrow windows, touches, several of both."""

from __future__ import annotations

from math import acos, atan2, inf, pi, sqrt

import numpy as np
import pytest

from ecc import Network
from ecc.errors import ConvergenceError
from ecc.linear import Crossing, DelaySystem, SampledSystem, stability_limit
from ecc.linear.affine_family import recounted
from ecc.models import PIQIRCP
from ecc.stability import critical_gain, stability_map


def agrees(found, edges, stable_first, tolerance=1e-9):
    """Whether a result has these edges of stable ranges, or says that it does not know them all.

    Every edge up to `complete_to` must be listed; a window narrower than 1e-7 of the gain may be listed as a touch.
    """
    listed = [c.gain for c in found.crossings]
    for edge in edges:
        if edge < found.complete_to:
            assert listed and min(abs(gain / edge - 1.0) for gain in listed) < tolerance, (edge, listed)
    inside = [0.5 * (a + b) for a, b in zip([0.0, *edges], [*edges, 2.0 * edges[-1]], strict=True)]
    for i, gain in enumerate(inside):
        wide = min(abs(gain / edge - 1.0) for edge in edges) > 1e-7
        if wide and gain < found.complete_to:
            said = any(low < gain < high for low, high in found.stable_ranges)
            assert said is (stable_first is (i % 2 == 0)), gain
    if found.complete_to < found.searched_to:
        assert any("narrow windows may be missed" in note for note in found.notes)
    if any(c.change == 0 for c in found.crossings):
        assert any("touch the stability boundary" in note for note in found.notes)


def delayed_damping(excess):
    """s^2 + s + 1 + (1 + excess) s exp(-s h): a window of instability at each odd multiple of pi."""
    return lambda h: DelaySystem([[[0, 1], [-1, -1]], [[0, 0], [0, -(1.0 + excess)]]], [0.0, h])


def delayed_damping_edges(excess, turns):
    """Ends of its windows, from |1 - w^2 + j w| = (1 + excess) w."""
    side = sqrt(excess * (2.0 + excess))
    out = []
    for sign in (1.0, -1.0):
        w = sign * side / 2.0 + sqrt(side**2 / 4.0 + 1.0)
        angle = pi + atan2(sign * side, 1.0)  # exp(-j w h) = -(1 - w^2 + j w)/((1 + excess) j w)
        out += [((2.0 * pi - angle) % (2.0 * pi) + 2.0 * pi * n) / w for n in range(turns)]
    return sorted(out)


@pytest.mark.parametrize("certify", [False, True])
def test_every_window_of_a_delay_is_found(certify):
    found = stability_limit(delayed_damping(1e-6), certify=certify, maximum=100.0)
    assert found.stable_ranges[1] == pytest.approx((3.145230094, 9.416702778), rel=1e-9)
    assert found.stable_ranges[2][0] == pytest.approx(9.432859856, rel=1e-9)
    assert found.complete_to == found.searched_to == 100.0
    assert (found.certified is not None) is certify


@pytest.mark.parametrize("excess", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14])
def test_windows_of_a_delay_of_any_width(excess):
    found = stability_limit(delayed_damping(excess), maximum=30.0)
    rounded = (1.0 + excess) - 1.0
    edges = [edge for edge in delayed_damping_edges(rounded, 5) if edge < 30.0]
    assert found.complete_to == 30.0
    assert [c.gain for c in found.crossings] == pytest.approx(edges, rel=1e-9)
    assert [c.change for c in found.crossings[:2]] == [2, -2]


def test_touches_at_every_turn_of_a_delay():
    found = stability_limit(delayed_damping(0.0), maximum=60.0)
    assert [c.gain for c in found.crossings] == pytest.approx(pi * np.arange(1, 20, 2), rel=1e-12)
    assert {c.change for c in found.crossings} == {0} and found.value == inf
    assert any("roots touch the stability boundary at the gain = 3.14159265" in note for note in found.notes)


def test_a_system_that_a_delay_stabilizes():
    """x'' - 0.1 x' + 2 x = x(t - h): unstable without a delay."""
    found = stability_limit(lambda h: DelaySystem([[[0, 1], [-2, 0.1]], [[0, 0], [1, 0]]], [0.0, h]))
    assert found.value == 0.0 and found.start == 2
    assert found.stable_ranges == (pytest.approx((0.100168, 1.717858), rel=1e-5),)
    assert "no gain" not in str(found) and "none" not in str(found)


def test_two_delays_with_a_ratio():
    """Two scalar loops, coupled by a change of coordinates: delays h and 2 h in the determinant."""
    turn = np.array([[2.0, 1.0], [1.0, 1.0]])
    back = np.linalg.inv(turn)
    near, far = turn @ np.diag([1.0, 0.5]) @ back, turn @ np.diag([2.0, 0.75]) @ back
    found = stability_limit(lambda h: DelaySystem([-near, -far], [0.0, h]), maximum=40.0)
    edges = []
    for a, b in ((1.0, 2.0), (0.5, 0.75)):
        w = sqrt(b * b - a * a)
        edges += [(acos(-a / b) + 2.0 * pi * n) / w for n in range(12)]
    assert [c.gain for c in found.crossings] == pytest.approx(sorted(e for e in edges if e < 40.0), rel=1e-9)
    assert found.complete_to == 40.0 and found.start == 0


def test_a_delay_next_to_a_fixed_one():
    """x' = -0.2 x - 0.9 x(t - h) - 0.8 x(t - 1), whose crossings are counted member by member."""
    family = lambda h: DelaySystem([-0.2, -0.9, -0.8], [0.0, h, 1.0])  # noqa: E731
    found = stability_limit(family, maximum=20.0)
    assert found.complete_to == 20.0
    for h in np.linspace(0.05, 19.95, 200):
        stable = any(low < h < high for low, high in found.stable_ranges)
        assert family(h).is_stable is stable, h


@pytest.mark.parametrize("excess", [1e-4, 1e-8, 1e-12, 1e-13, 1e-14])
def test_a_window_in_a_family_affine_in_the_gain(excess):
    """s^3 + k s^2 + k s + 2 k - 1 + excess: unstable within sqrt(excess) of k = 1, and below 1/2."""
    found = stability_limit(lambda k: DelaySystem([[[0, 1, 0], [0, 0, 1], [-(2 * k - 1 + excess), -k, -k]]], [0.0]))
    side = sqrt(1.0 + excess - 1.0)
    agrees(found, [0.5 * (1.0 - excess), 1.0 - side, 1.0 + side], False, tolerance=1e-8)
    assert found.stable_ranges[0][0] == pytest.approx(0.5, rel=1e-3)
    assert found.complete_to > 10.0


def test_a_touch_in_a_family_affine_in_the_gain():
    found = stability_limit(lambda k: DelaySystem([[[0, 1, 0], [0, 0, 1], [-(2 * k - 1), -k, -k]]], [0.0]))
    assert [(c.gain, c.change) for c in found.crossings] == [(0.5, -1), (pytest.approx(1.0, abs=1e-15), 0)]
    assert any("touch the stability boundary at the gain = 1 " in note for note in found.notes)


FAMILIES = {
    "real root": lambda c: DelaySystem([c], [0.0]),
    "pair": lambda c: DelaySystem([[[0, 1], [-1, c]]], [0.0]),
    "sampled": lambda c: SampledSystem([1.0 + 0.1 * c], [0]),
    "sampled pair": lambda c: SampledSystem([[[0, 1], [-1.0 - 0.1 * c, 1.0]]], [0]),
}


QUADRATIC = [("real root", 1e-2, 1.0), ("real root", 1e-8, -1.0), ("real root", 1e-14, 1.0), ("sampled", 1e-8, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("kind, width, sign", QUADRATIC)
def test_a_window_in_a_family_quadratic_in_the_gain(kind, width, sign):
    """The root crosses at 1 and at 1 + width: unstable inside (sign 1) or stable inside (sign -1)."""
    high = 1.0 + width
    found = stability_limit(lambda k: FAMILIES[kind](sign * (k - 1.0) * (high - k)), maximum=2.0)
    agrees(found, [1.0, high], sign > 0.0, tolerance=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("width", [1e-4, pytest.param(1e-10, marks=pytest.mark.extensive), 1e-14])
@pytest.mark.parametrize("center, sign", [(0.0123, 1.0), (345.6, -1.0)])
def test_windows_anywhere(kind, width, center, sign):
    low, high = center, center * (1.0 + width)
    family = lambda k: FAMILIES[kind](sign * (k / low - 1.0) * (high / low - k / low))  # noqa: E731
    agrees(stability_limit(family, maximum=2.0 * center), [low, high], sign > 0.0, tolerance=1e-7)


def random_families(seed):
    """Families whose gain is a delay: with one multiple of it, two of them, and neutral."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    a, b, c, e = rng.normal(size=(4, n, n))
    a -= np.eye(n) * rng.uniform(0.0, 2.5)
    e *= rng.uniform(0.2, 0.8) / np.abs(np.linalg.eigvals(e)).max()
    return [
        lambda h: DelaySystem([a, b], [0.0, h]),
        lambda h: DelaySystem([a, b, c], [0.0, h, 2.0 * h]),
        lambda h: DelaySystem([a, b], [0.0, h], neutral=[e], neutral_delays=[h]),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_random_families_of_delays_against_verdicts(seed):
    rng = np.random.default_rng(100 + seed)
    for family in random_families(seed):
        found = stability_limit(family, maximum=10.0)
        assert found.complete_to == 10.0
        for h in rng.uniform(0.01, 10.0, 8).tolist():
            assert any(low < h < high for low, high in found.stable_ranges) is (family(h).verdict == "stable"), h


@pytest.mark.slow
def test_a_loop_that_becomes_stable_far_from_its_fast_pole():
    """A pole at -1e6 next to x' = 1e-3 (x(t) - 3 k x(t - 1)): stable from k = 1/3 on, and lost near pi/2 * 1e3/3."""

    def family(k):
        return DelaySystem([[[1e-3, 1e-9], [1.0, -1e6]], [[-3e-3 * k, 0.0], [0.0, 0.0]]], [0.0, 1.0])

    found = stability_limit(family)
    assert (found.value, found.start) == (0.0, 1)
    assert found.stable_ranges[0][0] == pytest.approx(1.0 / 3.0, rel=1e-6)


@pytest.mark.slow
def test_several_touches_of_a_counted_family():
    found = stability_limit(lambda k: DelaySystem([-(((k - 1.0) * (k - 2.0) * (k - 3.0)) ** 2)], [0.0]), maximum=4.0)
    for k in (1.0, 2.0, 3.0):  # where a root lies on the boundary itself
        assert k > found.complete_to or min(abs(c.gain / k - 1.0) for c in found.crossings) < 1e-6
    assert found.complete_to < 1.0 + 1e-6 and found.notes
    for low, high in found.stable_ranges:
        assert all(not low < k - 1e-6 < k + 1e-6 < high or found.complete_to < k for k in (1.0, 2.0, 3.0))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1e-2, 1e-6, 1e-10, 1e-13])
def test_a_stable_window_between_two_loops(width):
    """Two loops in one block: the first is stable up to 1 + width, the second from 1 on."""
    turn = np.array([[2.0, 1.0], [1.0, 1.0]])
    back = np.array([[1.0, -1.0], [-1.0, 2.0]])

    def family(k):
        return DelaySystem([turn @ np.diag([k - (1.0 + width), 1.0 - k]) @ back], [0.0])

    agrees(stability_limit(family, maximum=3.0), [1.0, 1.0 + width], False, tolerance=1e-7)


def test_a_negative_count_raises():
    """A list that lacks the crossing at 1 leaves -1 roots after the one at 2; members with one root too many agree."""
    with pytest.raises(ConvergenceError, match="number of unstable roots along the gain is negative"):
        recounted(lambda gain: 3 if gain < 2.0 else 1, 0, [Crossing(2.0, 1.0, -2)], 4.0)


def test_a_search_without_a_result_names_its_range():
    found = stability_limit(lambda k: DelaySystem([1.0 + k * k], [0.0]), maximum=7.0)
    assert "no value up to 7" in str(found) and "none" not in str(found)


@pytest.mark.slow
def test_a_map_over_two_parameters_agrees_with_searches_along_one():
    network = Network.dumbbell("1 Gb/s", [0.1, 0.2])
    alphas, taus = np.linspace(0.3, 3.0, 7), np.array([0.4, 1.3, 1.9])
    stable = stability_map(PIQIRCP(), network, {"tau1": taus, "alpha": alphas}, time="discrete").values < 1.0
    for row, tau in zip(stable, taus.tolist(), strict=True):
        found = critical_gain(PIQIRCP(tau1=tau), network, "alpha", time="discrete")
        assert found.complete_to == found.searched_to
        expected = [any(low < alpha < high for low, high in found.stable_ranges) for alpha in alphas]
        assert row.tolist() == expected


def test_searches_report_progress(monkeypatch):
    monkeypatch.setattr("ecc._support.reports._INTERVAL", 0.0)
    texts = []
    network = Network.dumbbell("1 Gb/s", [0.1])
    critical_gain(PIQIRCP(), network, "alpha", time="discrete", progress=texts.append)
    assert texts and all(text.startswith("alpha = ") for text in texts)
    texts.clear()
    stability_map(PIQIRCP(), network, {"tau1": [0.4, 0.5], "alpha": [0.2, 0.3]}, progress=texts.append)
    assert texts and all(text.startswith("tau1 = ") and ", alpha = " in text for text in texts)
