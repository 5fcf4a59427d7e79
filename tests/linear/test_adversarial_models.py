"""Adversarial models from the constructors: the right verdict or "undecided" within the default effort.

The default effort of `certify` bounds pieces and precision. `MAX_PIECES` checks that it is kept.
"""

from __future__ import annotations

from functools import reduce
from math import acos, cos, pi, sin

import numpy as np
import pytest

from ecc.linear import DelaySystem, delay, quasi_polynomial, stability_limit, transfer_function

pytestmark = pytest.mark.slow

MAX_PIECES = 1 << 20
INTEGRATOR = transfer_function([1.0], [1.0, 0.0])


def check(system: DelaySystem, unstable: int | None, may_be_undecided: bool = False) -> None:
    """Require the number of unstable roots, or "undecided" if that is allowed; None: at least one."""
    proof = system.certify()
    assert proof.pieces <= MAX_PIECES
    if proof.stable is None and may_be_undecided:
        assert proof.reason
        assert system.verdict != ("unstable" if unstable == 0 else "stable")
        return
    assert proof.stable is (unstable == 0)
    assert unstable is None or proof.unstable == unstable
    assert system.verdict == ("stable" if unstable == 0 else "unstable")


def damped_pair(damping: float) -> DelaySystem:
    """(s^2 + 2 d s + d^2 + 1)(s + exp(-s)): a pair at -d +- j, and a loop of gain 1 with a delay."""
    pair = [1.0, 2.0 * damping, damping**2 + 1.0]
    return quasi_polynomial({0.0: [*pair, 0.0], 1.0: pair})


@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_touches(distance, side):
    """The damping (k - 1)^2 touches 0 at k = 1, at which the pair is on the axis; no gain makes it unstable."""
    k = 1.0 + side * distance
    check(damped_pair((k - 1.0) ** 2), None if distance == 0.0 else 0, may_be_undecided=distance <= 1e-6)


@pytest.mark.parametrize("width", [1e-3, 1e-5, 1e-7])
def test_narrow_windows(width):
    """The damping (k - 1)^2 - (width/2)^2 is negative within a window of this width."""

    def member(k: float) -> DelaySystem:
        return damped_pair(1e7 * ((k - 1.0) ** 2 - 0.25 * width**2))

    check(member(1.0), 2)
    check(member(1.0 - 0.6 * width), 0)
    check(member(1.0 + 0.6 * width), 0)
    limit = stability_limit(member)
    assert limit.value == pytest.approx(1.0 - 0.5 * width, abs=1e-3 * width)


@pytest.mark.parametrize("excess", [-1e-3, -1e-9, 0.0, 1e-9, 1e-3])
def test_neutral_sums_at_one(excess):
    """Echoes of gains 0.5 and 0.5 + excess with independent delays: strongly stable if their sum is below 1."""
    echoes = delay(0.5, 1.0) + delay(0.5 + excess, 2.0**0.5)
    system = delay(1.0, 0.0).feedback(echoes).system
    assert system.verdict in ({"stable", "undecided"} if excess < 0.0 else {"unstable", "undecided"})
    if excess >= 1e-9 or excess <= -1e-3:  # slightly below 1, roots are possible up to very high frequencies
        assert system.verdict == ("stable" if excess < 0.0 else "unstable")


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("states", [8, 30])
@pytest.mark.parametrize("share", [0.98, 1.02])
def test_chains_of_lags_in_any_unit(unit, states, share):
    """n equal lags in feedback: the pair crosses at the gain cos(pi/n)^-n."""
    chain = reduce(lambda first, second: second * first, [transfer_function([1.0], [unit, 1.0])] * states)
    check(chain.feedback(share * cos(pi / states) ** -states).system, 0 if share < 1.0 else 2)


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_twenty_delays(share):
    """x' = -k/20 sum x(t - m/16), m = 1 to 20: the phase of the mean is that of the mean delay, 10.5/16 s."""
    delays = np.arange(1.0, 21.0) / 16.0
    mean = reduce(lambda a, b: a + b, [delay(0.05, tau) for tau in delays.tolist()])
    w = 0.5 * pi / delays.mean()
    size = sin(10.0 * w / 16.0) / (20.0 * sin(0.5 * w / 16.0))
    check((INTEGRATOR * mean).feedback(share * w / size).system, 0 if share < 1.0 else 2)


@pytest.mark.parametrize("share", [0.99, 1.01])
@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e9])
def test_delays_of_very_different_lengths(ratio, share):
    """s + k (1/4 exp(-s/ratio) + 3/4 exp(-s)): for a short first delay, cos w = -1/3 and k = w/(3/4 sin w)."""
    w = acos(-1.0 / 3.0)
    gains = delay(0.25, 1.0 / ratio) + delay(0.75, 1.0)
    check((INTEGRATOR * gains).feedback(share * w / (0.75 * sin(w))).system, 0 if share < 1.0 else 2)
