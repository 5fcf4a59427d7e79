"""Published bounds as properties: drawn networks never break a confirmed one; the others keep their counterexample."""

from dataclasses import replace
from math import pi

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP
from ecc.network import Network
from ecc.stability import critical_gain

pytestmark = pytest.mark.property
MORE = settings(max_examples=60, deadline=None)

rtts = st.floats(0.005, 3.0)
capacities = st.floats(1e6, 1e12)


def bound(protocol, network, time):
    return next(b.value for b in protocol.published_bounds(network) if b.time == time)


def stable(protocol, network, time, alpha):
    return linearize(replace(protocol, alpha=alpha), network, time).is_stable


@MORE
@given(st.lists(rtts, min_size=2, max_size=8, unique=True), capacities, st.sampled_from(["continuous", "discrete"]))
def test_sufficient_bounds_of_qi_rcp_are_safe(mix, capacity, time):
    """Theorems 4 and 8."""
    network = Network.dumbbell(capacity, rtts=mix)
    assert stable(QIRCP(), network, time, 0.999 * bound(QIRCP(), network, time))


@MORE
@given(rtts, st.integers(1, 20), capacities, st.sampled_from(["continuous", "discrete"]))
def test_bounds_of_qi_rcp_with_equal_rtts_are_sharp(rtt, flows, capacity, time):
    """Theorems 3 and 7, 0.1 % inside and outside."""
    network = Network.dumbbell(capacity, rtts=[rtt] * flows)
    edge = bound(QIRCP(), network, time)
    assert stable(QIRCP(), network, time, 0.999 * edge)
    assert not stable(QIRCP(), network, time, 1.001 * edge)


@MORE
@given(rtts)
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
