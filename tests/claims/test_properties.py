"""Published bounds as properties: drawn networks never break a confirmed one; the others keep their counterexample."""

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from drawing import drawn
from hypothesis import strategies as st

from ecc.claims.checks.theorems.delays_and_bottlenecks import _in_order, _loop, grows_in_the_laws
from ecc.claims.checks.theorems.stationary_rates import UNFAIR_DELAY, late_means, packet_run
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, PIQIRCP, QIRCP, JetMax
from ecc.network.network import Network
from ecc.stability import critical_gain, growth_of_rates

pytestmark = pytest.mark.property
MORE = drawn(30, 60)
FEW = drawn(5, 15)

rtts = st.floats(0.005, 3.0)
capacities = st.floats(1e6, 1e12)


def bound(protocol, network, time):
    return next(b.value for b in protocol.published_bounds(network) if b.time == time)


def stable(protocol, network, time, alpha):
    return linearize(replace(protocol, alpha=alpha), network, time).is_stable


@MORE(st.lists(rtts, min_size=2, max_size=8, unique=True), capacities, st.sampled_from(["continuous", "discrete"]))
def test_sufficient_bounds_of_qi_rcp_are_safe(rtts, capacity, time):
    """Theorems 4 and 8."""
    network = Network.dumbbell(capacity, rtts=rtts)
    assert stable(QIRCP(), network, time, 0.999 * bound(QIRCP(), network, time))


@MORE(rtts, st.integers(1, 20), capacities, st.sampled_from(["continuous", "discrete"]))
def test_bounds_of_qi_rcp_with_equal_rtts_are_sharp(rtt, flows, capacity, time):
    """Theorems 3 and 7, 0.1 % inside and outside."""
    network = Network.dumbbell(capacity, rtts=[rtt] * flows)
    edge = bound(QIRCP(), network, time)
    assert stable(QIRCP(), network, time, 0.999 * edge)
    assert not stable(QIRCP(), network, time, 1.001 * edge)


@pytest.mark.slow
@FEW(rtts)
def test_averaging_and_holding_cost_stability_where_rtts_are_equal(rtt):
    """They add an interval of delay to the integral loop."""
    network = Network.dumbbell("1 Gb/s", rtts=[rtt])
    assert critical_gain(QIRCP(), network, "alpha", "hybrid").value < critical_gain(QIRCP(), network, "alpha").value


def test_averaging_and_holding_may_help_where_rtts_differ():
    network = Network.dumbbell("1 Gb/s", rtts=[2.0, 1.8125, 0.0625, 0.0625])
    held = critical_gain(QIRCP(), network, "alpha", "hybrid", certify=True)
    assert held.certified[0] > critical_gain(QIRCP(), network, "alpha", certify=True).certified[1]


@pytest.mark.parametrize(
    ("time", "rtt", "exact"),
    [("continuous", 1.0, 0.6187307), ("continuous", 0.12, 1.5254638), ("discrete", 1.0, 0.6247179)],
)
def test_counterexamples_to_theorems_9_and_12(time, rtt, exact):
    """At tau1 = 0.01 and T = 10 ms the bound is neither safe at 1 s nor necessary at 120 ms."""
    network = Network.dumbbell("1 Gb/s", rtts=[rtt, rtt])
    loss = critical_gain(PIQIRCP(), network, "alpha", time, certify=True)
    assert loss.value == pytest.approx(exact, abs=5e-8)
    low, high = loss.certified
    edge = bound(PIQIRCP(), network, time)
    assert high < edge if rtt == 1.0 else low > edge


def test_theorem_9_in_its_limit():
    network = Network.dumbbell("1 Gb/s", rtts=[0.12, 0.12])
    distances = [abs(critical_gain(PIQIRCP(interval=T), network, "alpha").value - pi / 4) for T in (1e-4, 1e-5, 1e-6)]
    assert distances[0] > 5 * distances[1] > 25 * distances[2]


# ---- EMKC: constant delays, varying delays --------------------------------------------------------------


@MORE(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4), st.floats(0.0, 1.0), st.sampled_from([0.3, 1.0, 1.998]))
def test_emkc_1_constant_delays_are_proven_stable(times, split, beta):
    rtts = [0.02 + t for t in times]
    network = Network.dumbbell("50 Mb/s", rtts=rtts, delay=0.5 * split * min(rtts))
    assert linearize(EMKC(beta=beta), network, "discrete").certify().stable


BACK, AHEAD = st.integers(1, 3), st.integers(0, 2)
PATTERN = st.lists(st.tuples(BACK, BACK, AHEAD, AHEAD), min_size=1, max_size=8)


@MORE(PATTERN, st.sampled_from([0.2, 1.0, 1.9, 1.998]))
def test_emkc_1_no_varying_delays_destabilize_two_flows(pattern, beta):
    """|A| has a spectral radius below 1 for one and two flows, a contraction whatever the delays."""
    delays = np.array(pattern)
    own, gain, _, _ = _loop(beta, 2)
    assert growth_of_rates(own * np.eye(2) - gain, delays[:, 2:], delays[:, :2]).value < 1.0


@pytest.mark.slow
def test_emkc_1_counterexample():
    """Three flows on 100 Mb/s at JETMAX's gains, delays in order that repeat every eight intervals: 0.84 % a step."""
    back = np.transpose([[1, 1, 1, 2, 2, 2, 2, 1], [1, 2, 2, 2, 1, 2, 2, 2], [3, 2, 3, 2, 3, 3, 2, 2]])
    ahead = np.transpose([[2, 2, 1, 1, 0, 0, 1, 1], [1, 2, 2, 2, 1, 2, 1, 2], [2, 1, 1, 2, 2, 2, 2, 2]])
    assert _in_order(back) and _in_order(ahead)
    own, gain, protocol, network = _loop(EMKC().beta, 3)
    jacobian = own * np.eye(3) - gain
    growth = growth_of_rates(jacobian, ahead, back).value
    assert growth == pytest.approx(1.008395, abs=1e-6)
    assert grows_in_the_laws(protocol.beta, growth, back, ahead) == pytest.approx(growth, abs=1e-4)
    kept = [(np.tile(a, (8, 1)), np.tile(b, (8, 1))) for b, a in zip(back, ahead, strict=True)]
    still = [growth_of_rates(jacobian, a, b).value for a, b in kept]
    assert max(still) < 1.0  # each of its delays, kept


# ---- what converges from an equilibrium, but not from an empty network ----------------------------------


@pytest.mark.parametrize(
    ("protocol", "network"),
    [
        (PIQIRCP(), Network.xcp_unfair(2, UNFAIR_DELAY)),
        (JetMax(), Network.parking_lot(["97 Mb/s", "80 Mb/s"])),
    ],
    ids=["PIQI-RCP", "JetMax"],
)
def test_bottlenecks_that_keep_changing(protocol, network):
    """All flows begin at once and continue to change between the two links; from the equilibrium nothing moves."""
    runs = {start: packet_run(network, protocol, 90.0, start=start) for start in ("empty", "equilibrium")}
    rates = {start: late_means(run) for start, run in runs.items()}
    fair = protocol.equilibrium(network).rates
    assert rates["equilibrium"] == pytest.approx(fair, rel=0.02)
    assert np.abs(rates["empty"] / fair - 1.0).max() > 0.1
    followed = runs["empty"].bottleneck.to_numpy()[-100:]
    assert np.ptp(followed, axis=0).any()
