"""The worst RTT mix of a mean: the moment problem against distributions, linear programs, and exact boundaries."""

from math import cos, pi, sin

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP, XCP, ExpressPass
from ecc.network.network import Network
from ecc.stability import critical_gain, is_stable_for_all_rtts, local_margin, worst_rtt_distribution
from ecc.stability.rtt_distribution_proofs import (
    averaging_is_stable_for_all_rtts,
    boundary_is_stable_for_all_rtts,
    equal_rtts_threshold,
)
from ecc.stability.rtt_distributions import least_mean, slack_of_rtt_distributions


class InRounds(ExpressPass):
    """A protocol that declares a model in discrete time only."""

    times = ("discrete",)


RTTS = st.lists(st.floats(0.002, 2.0), min_size=2, max_size=4)


def net(rtts):
    return Network.dumbbell("1 Gb/s", list(rtts))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.floats(0.01, 1.0)), min_size=1, max_size=6), st.floats(0.0, 1.0))
def test_no_distribution_has_a_lesser_mean(values, share):
    x, weight = np.array(values).T
    weight = weight / weight.sum()
    least = share * x.min()
    mean, second, heavier = least_mean(weight @ np.exp(-1j * x), least)
    assert mean <= weight @ x + 1e-6
    reached = (1.0 - heavier) * np.exp(-1j * least) + heavier * np.exp(-1j * second)
    assert abs(reached - weight @ np.exp(-1j * x)) < 1e-6
    assert mean == pytest.approx((1.0 - heavier) * least + heavier * second, abs=1e-9)


def test_least_mean_is_that_of_a_linear_program():
    x = np.linspace(0.0, 4.0 * pi, 4001)
    for moment in (0.2 - 0.3j, -0.5 - 0.1j, 0.1 + 0.6j):
        equal = np.array([np.ones_like(x), np.cos(x), -np.sin(x)])
        found = linprog(x, A_eq=equal, b_eq=[1.0, moment.real, moment.imag])
        assert least_mean(moment)[0] == pytest.approx(found.fun, abs=1e-5)
    assert least_mean(1.1)[0] == np.inf


@pytest.mark.slow
def test_equal_rtts_are_the_worst_of_an_integral_loop():
    assert worst_rtt_distribution(QIRCP(), 0.3).value == pytest.approx(pi / 2, rel=1e-9)
    assert worst_rtt_distribution(QIRCP(), 0.1, time="discrete").value == pytest.approx(20 * sin(pi / 38), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("time", ["continuous", "discrete"])
@pytest.mark.parametrize("mean_rtt", [0.12, 1.0, 2.0])
def test_equal_rtts_are_the_worst_of_piqi_rcp(mean_rtt, time):
    assert worst_rtt_distribution(PIQIRCP(), mean_rtt, time=time).share == 1.0


@pytest.mark.slow
@settings(max_examples=3)
@given(RTTS)
def test_mixes_bear_what_is_safe_for_all(rtts):
    mean = float(np.mean(rtts))
    assert critical_gain(QIRCP(), net(rtts), "alpha").value >= pi / 2 * (1 - 1e-9)
    steps = np.maximum(1, np.ceil(np.array(rtts) / 0.01 - 1e-9))
    safe = 2 * steps.mean() * sin(pi / (2 * (2 * steps.mean() - 1)))
    assert linearize(QIRCP(alpha=safe * (1 - 1e-6)), net(rtts), "discrete").is_stable
    # 0.9936: what a mix may cost at most, `largest loss of beta` in the ledger
    equal = critical_gain(RCP(alpha=0.2875), net([mean]), "beta").value
    assert linearize(RCP(alpha=0.2875, beta=0.9936 * equal), net(rtts)).is_stable


@pytest.mark.slow
def test_half_is_the_largest_alpha_that_every_mix_bears():
    """The boundary of an average that is ever slower tends to D/(2D - 1): no bound in d alone is larger."""
    for steps in (1, 40):
        edge = steps / (2 * steps - 1)
        exact = [
            critical_gain(PIQIRCP(tau1=tau1, tau2=0.0), net([0.01 * steps]), "alpha", "discrete").value
            for tau1 in (1e-2, 1e-4)
        ]
        assert exact[1] == pytest.approx(edge, rel=2e-3)
        assert edge * (1 - 1e-9) <= exact[1] <= exact[0] * (1 + 1e-9)


@pytest.mark.slow
def test_equal_rtts_are_not_the_worst_of_a_loop_with_a_queue():
    found = worst_rtt_distribution(RCP(alpha=0.2875), 0.1, "beta")
    assert found.value / found.equal == pytest.approx(0.99363, abs=1e-5)
    assert found.rtts[0] == 0.0 and found.rtts[1] * found.share == pytest.approx(0.1, rel=1e-3)
    rtts = [0.001, 0.133, 0.133, 0.133]
    for protocol in (RCP(alpha=0.2875, beta=0.2571), XCP(alpha=0.2875, beta=0.2571, gamma=0.0)):
        assert linearize(protocol, net([0.1] * 4)).certify().stable is True
        assert linearize(protocol, net(rtts)).certify().stable is False
    kept = worst_rtt_distribution(RCP(alpha=0.2875), 0.1, "beta", least_rtt=0.05)
    assert found.value < kept.value < kept.equal


# ---- beside equal RTTs -------------------------------------------------------------------------------------


def threshold(v):
    """A root of this is where equal RTTs begin to be the worst distribution of a loop with a queue: alpha = v sin v."""
    return (v - sin(v)) * (1 + cos(v) ** 2) - (1 - cos(v)) * (v - sin(v) * cos(v))


@pytest.mark.slow
def test_threshold_is_proven_where_the_local_test_changes_its_sign():
    v = brentq(threshold, 0.5, 1.4, xtol=1e-15)
    low, high = equal_rtts_threshold()
    assert low < v * sin(v) < high and high - low < 1e-12
    assert high < 0.723599 and low > 0.723597  # not 0.7229
    assert local_margin(RCP(alpha=low - 1e-5), 0.1, "beta") < 0.0 < local_margin(RCP(alpha=high + 1e-5), 0.1, "beta")


def test_local_margin_by_hand():
    v = 1.1
    k = (v - sin(v)) / (1 - cos(v))
    wanted = v - sin(v) * cos(v) - k * (1 + cos(v) ** 2)
    assert local_margin(RCP(alpha=v * sin(v)), 0.3, "beta") == pytest.approx(wanted, rel=1e-6)
    assert local_margin(QIRCP(), 0.3) == pytest.approx(1.0, rel=1e-6)  # pi/2 - (pi/2 - 1)


def test_just_above_0_7229_a_mix_is_lost_before_equal_rtts():
    """A share of 6e-4 at RTT 0, the others a little above the mean: 50-digit roots by Newton's method."""
    alpha = 0.7232
    v = brentq(lambda v: v * sin(v) - alpha, 0.5, 1.4, xtol=1e-16)
    beta = v * v * cos(v)
    w = v * (1 - 1e-4)
    moment = -1 / ((alpha * 1j * w + beta) / (1j * w) ** 2)
    mean, second, share = (float(x) for x in least_mean(moment))
    assert mean < w  # of mean RTT below 1 already
    with mpmath.workdps(50):
        x = mpmath.mpf(second) / w
        p = 1 / x  # of mean 1

        def loop(s, factor):
            return s * s + (alpha * s + factor * beta) * (1 - p + p * mpmath.exp(-s * x))

        grows = mpmath.findroot(lambda s: loop(s, mpmath.mpf(1)), 1j * v)
        assert abs(grows.imag - v) < 1e-2 and grows.real > 0
    assert worst_rtt_distribution(RCP(alpha=0.72365), 1.0, "beta").share == 1.0


@pytest.mark.slow
def test_equal_rtts_are_not_the_worst_of_piqi_rcp_with_a_strong_lead():
    """tau = (0.999, 3), 30 ms: equal RTTs are lost at 0.33547, RTTs of 0, 45, 45 ms at 0.30051."""
    protocol = PIQIRCP(tau1=0.999, tau2=3.0)
    equal = critical_gain(protocol, net([0.03] * 3), "alpha", certify=True)
    mixed = critical_gain(protocol, net([0.0, 0.045, 0.045]), "alpha", certify=True)
    assert equal.certified[0] == pytest.approx(0.33547, abs=1e-5)
    assert mixed.certified[1] == pytest.approx(0.30051, abs=1e-5)
    assert worst_rtt_distribution(protocol, 0.03).value < mixed.value < equal.value
    assert local_margin(protocol, 0.03) < 0.0 < local_margin(PIQIRCP(), 0.03)


def test_one_stable_mix_is_needed():
    """G = -2/(s + 1), d = 0.3: no RTT distribution has a root on the axis, and all are unstable."""

    def open_loop(w):
        return -2.0 / (1j * w + 1.0) * np.exp(-0.3j * w)

    assert slack_of_rtt_distributions(open_loop, 0.3, top=50.0)[0] > 1.0
    for rtts in ([0.3], [0.0, 0.6], [0.0, 0.15, 0.75]):
        loop = DelaySystem([-1.0, *[2.0 / len(rtts)] * len(rtts)], [0.0, *rtts])
        assert not loop.is_stable and loop.spectral_abscissa > 0.4
    assert DelaySystem([-1.0, 2.0], [0.0, 0.3]).spectral_abscissa == pytest.approx(0.647, abs=1e-3)
    assert not boundary_is_stable_for_all_rtts(1.5, 1.0, 1.1)  # beyond the region of equal RTTs


@pytest.mark.slow
def test_proof_for_every_mix():
    assert is_stable_for_all_rtts(0.4, 0.226)
    assert not is_stable_for_all_rtts(0.4, 1.0)  # RCP: not even equal RTTs
    assert not is_stable_for_all_rtts(0.2875, 0.2571)
    edge = worst_rtt_distribution(RCP(alpha=0.2875), 0.1, "beta").value
    assert is_stable_for_all_rtts(0.2875, edge * (1 - 1e-6)) and not is_stable_for_all_rtts(0.2875, edge * (1 + 1e-6))


@pytest.mark.slow
def test_proofs_over_ranges_stop_at_what_is_lost():
    """Beside the exact loss: of RCP's boundary around alpha = 0.31, of PIQI-RCP at equal RTTs of 0.984 s."""
    least = worst_rtt_distribution(RCP(alpha=0.31), 0.1, "beta")
    v = brentq(lambda v: v * sin(v) - 0.31, 0.1, 1.5)
    assert boundary_is_stable_for_all_rtts(0.98, v - 0.02, v + 0.02)
    assert not boundary_is_stable_for_all_rtts(1.01, v - 0.001, v + 0.001)
    assert is_stable_for_all_rtts(0.98 * 0.31, 0.98**2 * least.equal)
    edge = critical_gain(PIQIRCP(), net([0.984]), "alpha").value
    assert averaging_is_stable_for_all_rtts(PIQIRCP(alpha=0.618), 0.02)
    assert not averaging_is_stable_for_all_rtts(PIQIRCP(alpha=edge * (1 + 1e-3)), 0.9)


@pytest.mark.slow
def test_the_whole_drawn_in_region_and_its_end():
    assert boundary_is_stable_for_all_rtts(0.994, 0.02, 1.57)
    assert boundary_is_stable_for_all_rtts(0.9999, 0.95, 1.57)


@settings(max_examples=40)
@given(st.lists(st.floats(0.02, 3.0), min_size=1, max_size=4), st.floats(0.05, 0.6187))
def test_no_mix_breaks_what_is_proven_for_all(rtts, alpha):
    assert linearize(PIQIRCP(alpha=alpha), net(rtts)).is_stable


@pytest.mark.parametrize(
    "options, message",
    [
        ({"time": "hybrid"}, "time must be 'continuous' or 'discrete', got 'hybrid'"),
        ({"least_rtt": 0.2}, r"least_rtt must be >= 0 s and below mean_rtt \(0.1 s\), got 0.2"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        worst_rtt_distribution(QIRCP(), 0.1, **options)


def test_other_refusals():
    with pytest.raises(ValueError, match="rtt must be 'mean' for a worst distribution, got 'max'"):
        worst_rtt_distribution(RCP(rtt="max"), 0.1, "beta")
    with pytest.raises(ValueError, match="alpha must have a critical value > 0 at equal RTTs, got 0"):
        worst_rtt_distribution(RCP(beta=1.0), 0.1)
    with pytest.raises(ValueError, match="beta must be > 0, got 0.0"):
        is_stable_for_all_rtts(0.4, 0.0)
    with pytest.raises(ValueError, match="RTTs must count in full for a worst distribution, got a limit of 1 s"):
        worst_rtt_distribution(XCP(gamma=0.0, rtt_limit=1.0), 0.1, "beta")
    with pytest.raises(ValueError, match="gamma must be 0 for a worst distribution of XCP: see critical_rtt_ratio"):
        worst_rtt_distribution(XCP(), 0.1, "beta")
    for function in (worst_rtt_distribution, local_margin):
        with pytest.raises(ValueError, match="^parameter must be .*: ExpressPass declares no main_parameter$"):
            function(ExpressPass(), 0.1)
        with pytest.raises(ValueError, match="^InRounds has no continuous model: .*"):
            function(InRounds(), 0.1, "alpha")
    with pytest.raises(ValueError, match="scale must be > 0, got 0.0"):
        boundary_is_stable_for_all_rtts(0.0, 0.1, 0.2)
    with pytest.raises(ValueError, match="low and high must be increasing, > 0 and < pi/2, got 0.3 and 0.2"):
        boundary_is_stable_for_all_rtts(1.0, 0.3, 0.2)
    with pytest.raises(ValueError, match="least_mean_rtt must be > 0 s, got 0.0"):
        averaging_is_stable_for_all_rtts(PIQIRCP(), 0.0)
    with pytest.raises(ValueError, match="alpha1 and alpha2 must be equal, got 0.5 and 0.3"):
        averaging_is_stable_for_all_rtts(PIQIRCP(alpha2=0.3), 0.02)
