"""Gains that decay fastest: closed forms, margins, proofs, and RTT distributions."""

from math import exp, inf, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.errors import ConvergenceError
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP, XCP, JetMax
from ecc.network.network import Network
from ecc.stability import critical_gain, decay_rate, design, least_decay

RTT = 0.12
ALPHA = {"alpha": (0.01, 2.0)}


def net(*rtts):
    return Network.dumbbell("1 Gb/s", list(rtts))


@pytest.mark.slow
def test_fastest_integral_loop_has_a_double_root():
    found = design(QIRCP(), net(RTT), ALPHA)
    assert found.gains["alpha"] == pytest.approx(exp(-1.0), rel=1e-6) == found.protocol.alpha
    assert 1.0 - 1e-5 < found.decay * RTT < 1.0
    assert found.before * RTT == pytest.approx(0.7940236, rel=1e-6)
    assert found.proofs[0].stable and found.proofs[0].line == pytest.approx(-found.decay)
    assert found.margins[0].gain_margin == pytest.approx(exp(1.0) * pi / 2.0, rel=1e-5)


@pytest.mark.slow
def test_a_gain_margin_binds():
    found = design(QIRCP(), net(RTT), ALPHA, gain_margin=6.0)
    assert found.gains["alpha"] == pytest.approx(pi / 12.0, rel=1e-6)
    turned = design(QIRCP(), net(RTT), ALPHA, phase_margin=1.4)
    assert turned.gains["alpha"] == pytest.approx(pi / 2.0 - 1.4, rel=1e-6)


@pytest.mark.slow
def test_fastest_loop_with_a_free_queue_has_a_triple_root():
    root = sqrt(2.0) - 2.0
    found = design(XCP(), net(RTT), {"alpha": (0.1, 1.0), "beta": (0.01, 1.0)})
    assert found.gains["alpha"] == pytest.approx(2.0 * (root + 1.0) * exp(root), rel=1e-4)
    assert found.gains["beta"] == pytest.approx((10.0 * root + 6.0) * exp(root), rel=1e-4)
    assert -root * 0.99 < found.decay * RTT < -root


@settings(max_examples=30)
@given(st.floats(-4.0, 0.0), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_no_gains_decay_faster_than_the_triple_roots(size, one, two):
    """By Gauss and Lucas: beside the gains of the triple roots and far from them some root is right of the line."""
    root = sqrt(2.0) - 2.0
    alpha, beta = (
        best * (1.0 + 10.0**size * part)
        for best, part in ((2.0 * (root + 1.0) * exp(root), one), ((10.0 * root + 6.0) * exp(root), two))
    )
    queue = DelaySystem([[[0.0, 0.0], [1.0, 0.0]], [[-alpha, -beta], [0.0, 0.0]]], [0.0, 1.0])
    assert queue.certify(1.001 * root).stable is False
    gain, lead = 2.0 * exp(-2.0) * (1.0 + 10.0**size * one), 0.25 * (1.0 + 10.0**size * two)
    if abs(2.0 * gain * lead) < 1.0:
        piqi = DelaySystem([-2.0 * gain], [1.0], neutral=[2.0 * gain * lead], neutral_delays=[1.0])
        assert piqi.certify(-2.002).stable is not True


def test_the_triple_root_with_a_free_queue_is_the_rightmost():
    """Q(s0 + z)/z^3 as an integral over (0, 1) of an increasing weight: no zero in a large half disk."""
    root = sqrt(2.0) - 2.0
    alpha, beta = 2.0 * (root + 1.0) * exp(root), (10.0 * root + 6.0) * exp(root)
    t, w = np.polynomial.legendre.leggauss(80)
    t, w = 0.5 * (t + 1.0), 0.5 * w
    weight = w * t * (2.0 * sqrt(2.0) - 2.0 + (3.0 - 2.0 * sqrt(2.0)) * t)

    def rest(z):
        return np.exp(root) * (weight * np.exp(np.multiply.outer(z, t))).sum(axis=-1)

    z = np.array([0.3 + 2.0j, -1.0 + 5.0j, 2.0 + 0.1j, 7.0j])
    s = root + z
    np.testing.assert_allclose(z**3 * rest(z), s * s * np.exp(s) + alpha * s + beta, rtol=1e-10)
    side = np.linspace(-40.0, 40.0, 20001)
    around = np.concatenate([40.0 * np.exp(1j * np.pi * side / 80.0), 1j * side[::-1]])
    turns = np.unwrap(np.angle(rest(around)))
    assert abs(turns[-1] - turns[0]) < 1e-6


@pytest.mark.slow
def test_piqi_rcp_decays_faster_than_any_integral_loop():
    ranges = {"alpha": (0.1, 0.5), "tau1": (0.1, 1.95), "tau2": (0.1, 10.0)}
    found = design(PIQIRCP(), net(RTT), ranges, "hybrid")
    assert 1.7 < found.decay * RTT < 2.0
    assert linearize(found.protocol, net(RTT), "hybrid").certify(-0.01 * found.decay).stable


def test_lead_of_a_quarter_rtt_doubles_the_decay():
    lead = DelaySystem([-4.0 * exp(-2.0)], [1.0], neutral=[exp(-2.0)], neutral_delays=[1.0])
    assert lead.certify(-1.98).stable is True
    assert abs(lead.characteristic(-2.0 + 1e-3)) < 1e-9  # a triple root, where the neutral part's own line is
    assert lead.essential_abscissa == pytest.approx(-2.0)


@pytest.mark.slow
def test_several_networks_are_as_fast_as_the_slowest():
    found = design(QIRCP(), [net(RTT), net(0.5 * RTT)], {"alpha": (0.3, 0.5)})
    assert found.decay * RTT == pytest.approx(1.0, rel=1e-5)
    assert len(found.margins) == len(found.proofs) == 2


def test_decay_of_what_ends():
    assert decay_rate(linearize(JetMax(tau=1.0), net(RTT), "discrete")) == inf
    loop = linearize(JetMax(tau=0.5, interval=0.1), net(0.1), "discrete")
    assert decay_rate(loop) == pytest.approx(log(2.0) / 0.1)


@pytest.mark.property
@settings(max_examples=20)
@given(st.lists(st.floats(0.005, 2.0), min_size=1, max_size=6))
def test_every_mix_decays_once_in_its_largest_rtt(rtts):
    """docs/gain_design.md, statement 1."""
    line = -(1.0 - 1e-6) / max(rtts)
    assert linearize(QIRCP(alpha=exp(-1.0)), net(*rtts)).certify(line).stable


@pytest.mark.slow
def test_least_decay_of_a_range():
    assert least_decay(QIRCP(alpha=exp(-1.0)), 0.3 * RTT, RTT).value * RTT == pytest.approx(1.0, rel=1e-4)
    gains = XCP(alpha=0.461, beta=0.0791, gamma=0.0)
    worst = least_decay(gains, 0.1 * RTT, RTT)
    assert worst.found * RTT == pytest.approx(0.483, abs=2e-3)
    assert worst.value == pytest.approx(worst.found, rel=3e-3)
    assert decay_rate(linearize(gains, net(*worst.rtts))) == pytest.approx(worst.found, rel=1e-6)
    rng = np.random.default_rng(1)
    drawn = rng.uniform(0.1 * RTT, RTT, (20, 4)).tolist()
    assert min(decay_rate(linearize(gains, net(*mix))) for mix in drawn) > 0.99 * worst.found


@pytest.mark.parametrize(
    "networks, ranges, options, message",
    [
        ([], ALPHA, {}, "networks must contain at least one network, got none"),
        (net(RTT), {"beta": (0.1, 1.0)}, {}, "parameter must be one of alpha.*, got 'beta'"),
        (net(RTT), {"alpha": (1.0, 0.1)}, {}, r"range of alpha must be 0 < lowest < highest, got \(1.0, 0.1\)"),
        (net(RTT), ALPHA, {"gain_margin": 0.5}, "gain_margin must be >= 1, got 0.5"),
        (net(RTT), ALPHA, {"phase_margin": -1.0}, "phase_margin must be >= 0, got -1.0"),
        (net(RTT), ALPHA, {"delay_margin": -1.0}, "delay_margin must be >= 0, got -1.0"),
    ],
)
def test_refusals(networks, ranges, options, message):
    with pytest.raises(ValueError, match=message):
        design(QIRCP(), networks, ranges, **options)


def test_other_refusals():
    with pytest.raises(ConvergenceError, match="no gains found that are stable and have the margins"):
        design(QIRCP(), net(RTT), {"alpha": (2.0, 3.0)})
    with pytest.raises(ValueError, match="range must be 0 < least_rtt < largest_rtt, got 0.2 and 0.1 s"):
        least_decay(QIRCP(), 0.2, 0.1)
    with pytest.raises(ValueError, match="RTTs must count in full for all RTT distributions, got a limit of 1 s"):
        least_decay(XCP(gamma=0.0, rtt_limit=1.0), 0.05, 0.1)
    with pytest.raises(ValueError, match="gamma must be 0 for all RTT distributions of XCP: see critical_rtt_ratio"):
        least_decay(XCP(), 0.1, 0.2)
    with pytest.raises(ValueError, match="rtt must be 'mean' for all RTT distributions, got 'max'"):
        least_decay(RCP(rtt="max"), 0.1, 0.2)


@pytest.mark.slow
def test_a_gain_margin_over_several_bottlenecks_is_that_of_the_worst():
    """With margins of det/det0 - 1, an alpha of 0.5 passed for a margin of 3 in T_u, where it has 1.043."""
    found = design(QIRCP(), Network.T_u(), ALPHA, gain_margin=3.0)
    limit = critical_gain(QIRCP(), Network.T_u(), "alpha").value
    assert found.gains["alpha"] <= limit / 3.0 * (1.0 + 1e-6)
    assert found.margins[0].gain_margin >= 3.0 * (1.0 - 1e-6)
