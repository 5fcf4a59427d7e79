"""Delays that vary: the closed conditions against products of matrices, random sequences, and the laws in time."""

from dataclasses import dataclass, replace
from math import asin, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax
from ecc.network.network import Network
from ecc.stability import (
    absolute_radius,
    bottleneck_assignment,
    growth_of_rates,
    growth_under_delays,
    is_stable_under_varying_delays,
    water_filled,
    worst_sequence,
)
from ecc.stability.varying_delays import batched_delays, held_delays, worst_delays


def link(flows, capacity="100 Mb/s"):
    return bottleneck_assignment(Network.dumbbell(capacity, [0.1] * flows), [0] * flows)


def with_loss(loss, flows, beta=0.5):
    """EMKC on a link where it rests at this loss."""
    protocol = EMKC(beta=beta)
    return protocol, link(flows, flows * protocol.alpha / beta * (1.0 - loss) / loss)


@pytest.mark.parametrize("flows", [3, 4])
@pytest.mark.parametrize("beta", [0.3, 0.9])
def test_emkc_bears_all_delays_only_beyond_a_loss(flows, beta):
    edge = (flows - 2) / (2 * (flows - 1))
    for loss, grows in ((edge * 0.999, True), (edge * 1.001, False)):
        protocol, assignment = with_loss(loss, flows, beta)
        assert (absolute_radius(protocol, assignment) > 1.0) is grows
        found = growth_of_rates(assignment.jacobian(protocol), *worst_delays(flows), certify=True)
        assert (found.value > 1.0) is grows and found.proven is grows


@pytest.mark.parametrize("flows", [3, 6, 9])
def test_batches_in_order_reach_a_loss_of_a_quarter(flows):
    forward, backward = batched_delays(flows)
    heard = np.arange(6)[:, None] - backward
    assert np.all(np.diff(np.vstack([heard, heard[:1] + 6]), axis=0) >= 0)
    for loss in (0.01, 0.2499, 0.2501, 0.4):
        protocol, assignment = with_loss(loss, flows)
        assert (growth_of_rates(assignment.jacobian(protocol), forward, backward).value > 1.0) is (loss < 0.25)


@pytest.mark.parametrize("flows", [4, 5, 7, 8, 11])
def test_batches_in_order_of_unequal_groups(flows):
    """a + k mu = 1, mu the largest eigenvalue of n (11' - 2 I), n the sizes of the groups."""
    sizes = np.bincount(np.arange(flows) % 3)
    mu = float(np.linalg.eigvals(np.diag(sizes) @ (np.ones((3, 3)) - 2.0 * np.eye(3))).real.max())
    edge = mu / (flows + mu)
    assert 0.236 < edge < 0.25
    for loss in (edge * 0.999, edge * 1.001):
        protocol, assignment = with_loss(loss, flows)
        growth = growth_of_rates(assignment.jacobian(protocol), *batched_delays(flows))
        assert (growth.value > 1.0) is (loss < edge)


@pytest.mark.slow
@pytest.mark.parametrize("q", [1.5, 1.2, 1.7])
def test_held_delays_turn_a_peak_into_its_opposite(q):
    """Myshkis: 5 q/3 - 2 q^2/9 - 1 of it, q = alpha D/d, which is 1 at q = 3/2."""
    many = 300
    protocol = QIRCP(alpha=q, interval=0.1 / many)
    grown = growth_under_delays(protocol, 0.1, held_delays(many)).value ** len(held_delays(many))
    assert grown == pytest.approx(5.0 * q / 3.0 - 2.0 * q * q / 9.0 - 1.0, rel=0.02)


@dataclass(frozen=True)
class Runaway(QIRCP):
    """QI-RCP that raises its rate where arrivals are above their target."""

    router_law = staticmethod(lambda R, y, T, C, d, p: R * (1.0 - p.alpha * T * (p.gamma * C - y) / (d * p.gamma * C)))


def test_a_loop_with_the_wrong_sign_bears_no_delays():
    assert linearize(Runaway(), Network.dumbbell("1 Gb/s", [0.1]), "discrete").certify().stable is False
    assert not is_stable_under_varying_delays(Runaway(), 0.1, 10, 10)


def test_mkc_by_the_steepness_of_its_price():
    for flows in (4, 10):
        edge = flows / (flows - 2)
        for steepness, borne in ((edge * 0.99, True), (edge * 1.01, False)):
            protocol = MKC(steepness=steepness, beta=0.2)
            assert (absolute_radius(protocol, link(flows)) < 1.0) is borne


@settings(max_examples=25)
@given(st.floats(0.05, 1.95), st.integers(0, 10**6))
def test_jetmax_has_its_own_modulus_in_networks(tau, seed):
    network = Network.parking_lot(["97 Mb/s", "80 Mb/s", "60 Mb/s"])
    capacities = np.random.default_rng(seed).uniform(1.0, 9.0, 3)
    assert absolute_radius(JetMax(tau=tau), water_filled(network, capacities)) == pytest.approx(abs(1 - tau), abs=1e-9)


@settings(max_examples=25)
@given(st.integers(3, 5), st.integers(0, 10**6), st.floats(1.01, 1.5))
def test_no_random_delays_grow_inside_the_bound(flows, seed, factor):
    protocol, assignment = with_loss(min(0.9, factor * (flows - 2) / (2 * (flows - 1))), flows)
    rng = np.random.default_rng(seed)
    period = int(rng.integers(1, 7))
    forward, backward = rng.integers(0, 4, (period, flows)), rng.integers(1, 5, (period, flows))
    assert growth_of_rates(assignment.jacobian(protocol), forward, backward).value < 1.0


def test_constant_delays_are_those_of_the_linear_model():
    for protocol, delay in ((QIRCP(alpha=1.2), 14), (PIQIRCP(), 12), (RCP(alpha=0.3, beta=0.1), 9)):
        system = linearize(protocol, Network.dumbbell("1 Gb/s", [delay * 0.01]), "discrete", mean_rtt=[0.1])
        assert growth_under_delays(protocol, 0.1, [delay]).value == pytest.approx(system.spectral_radius, abs=1e-9)


def test_first_order_loops_bear_three_halves():
    assert is_stable_under_varying_delays(QIRCP(alpha=0.5), 0.1, 1, 29)
    held = growth_under_delays(QIRCP(alpha=0.5), 0.1, held_delays(31), certify=True)
    assert held.proven and 2 * asin(0.025) * (2 * 31 - 1) < pi  # where a constant delay is stable
    for gain, grows in ((1.49, False), (1.53, True)):
        found = growth_under_delays(QIRCP(alpha=gain, interval=0.1 / 60), 0.1, held_delays(60))
        assert (found.value > 1.0) is grows


def test_range_of_piqi_rcp_and_of_xcps_loop_is_that_of_constant_delays():
    for protocol, most in ((PIQIRCP(), 19), (RCP(beta=0.226), 14)):
        assert is_stable_under_varying_delays(protocol, 0.1, 1, most)
        assert not is_stable_under_varying_delays(protocol, 0.1, 1, most + 1)
        assert growth_under_delays(protocol, 0.1, [most + 1], certify=True).proven


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_nothing_grows_in_a_range_that_is_borne(seed):
    rng = np.random.default_rng(seed)
    protocol = (QIRCP(), PIQIRCP(), RCP(beta=0.226))[seed % 3]
    longest = (29, 19, 14)[seed % 3]
    assert growth_under_delays(protocol, 0.1, rng.integers(1, longest + 1, rng.integers(2, 40)).tolist()).value < 1.0


def test_the_adversary_does_better_than_constant_delays():
    growth, delays = worst_sequence(QIRCP(), 0.1, 1, 31)
    assert growth > 1.0 > growth_under_delays(QIRCP(), 0.1, [31]).value
    assert growth == pytest.approx(growth_under_delays(QIRCP(), 0.1, delays).value, abs=1e-12)
    assert set(delays) <= set(range(1, 32))


def test_refusals():
    with pytest.raises(ValueError, match="flows must be >= 2, got 1"):
        worst_delays(1)
    with pytest.raises(ValueError, match="delays must be >= 1 step, got 0"):
        growth_under_delays(QIRCP(), 0.1, [0, 3])
    for function in (is_stable_under_varying_delays, worst_sequence):
        with pytest.raises(ValueError, match="delays must be >= 1 step and least <= longest, got 3 and 2"):
            function(QIRCP(), 0.1, 3, 2)
    for protocol in (XCP(), JetMax()):
        with pytest.raises(ValueError, match="protocol must have routers that integrate one rate, got "):
            is_stable_under_varying_delays(protocol, 0.1, 1, 2)
    with pytest.raises(ValueError, match="protocol must have routers without memory, got QIRCP"):
        absolute_radius(replace(QIRCP(), alpha=1.0), link(2))
