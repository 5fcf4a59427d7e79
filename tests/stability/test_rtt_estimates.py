"""RTT estimates that are wrong: closed forms, proofs, and RTTs below the control interval."""

from dataclasses import replace
from math import pi

import pytest

from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, PIQIRCP, QIRCP, RCP, JetMax
from ecc.network.network import Network
from ecc.stability import critical_gain, rtt_margin


def net(*rtts):
    return Network.dumbbell("1 Gb/s", list(rtts))


@pytest.mark.slow
def test_an_integral_loop_bears_estimates_down_to_its_gain_margin():
    margin = rtt_margin(QIRCP(), net(0.1), certify=True)
    assert margin.ratio == pytest.approx(1.0 / pi, rel=1e-9)
    low, high = margin.certified
    assert low < margin.ratio < high and high / low < 1.0 + 1e-8
    for time in ("discrete", "hybrid"):
        edge = critical_gain(PIQIRCP(), net(0.1), "alpha", time).value
        assert rtt_margin(PIQIRCP(), net(0.1), time).ratio == pytest.approx(0.5 / edge, rel=1e-7)


def test_mixes_maxima_and_routers_without_an_rtt():
    assert rtt_margin(QIRCP(), net(0.05, 0.15)).ratio < 1.0 / pi
    longest = RCP(rtt="max", queue_term=False)
    assert rtt_margin(longest, net(0.1, 0.1)).ratio == pytest.approx(0.8 / pi)
    assert rtt_margin(longest, net(0.05, 0.15)).ratio < 0.8 / pi
    for protocol in (EMKC(), JetMax()):
        margin = rtt_margin(protocol, net(0.1), "discrete", certify=True)
        assert margin.ratio == 0.0 and margin.certified is None


@pytest.mark.parametrize("share", [0.02, 0.1, 1.0 / 6.0, 0.24, 0.26, 0.5, 0.9])
def test_rtts_below_the_interval_have_a_closed_form(share):
    edge = 2.0 * share / (1.0 - 2.0 * share) if share < 0.25 else 1.0
    small = net(share * 0.01)
    for factor, stable in ((0.999, True), (1.001, False)):
        assert linearize(replace(QIRCP(), alpha=factor * edge), small, "hybrid").is_stable is stable
    if share < 0.25:
        assert share == pytest.approx(edge / (2.0 * (1.0 + edge)))
    held = linearize(QIRCP(alpha=0.999), small, "hybrid", mean_rtt=[0.01])
    assert held.is_stable
