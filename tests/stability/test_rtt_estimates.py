"""RTT estimates that are wrong: closed forms, proofs, and RTTs below the control interval."""

from dataclasses import replace
from math import acos, cos, pi, sin, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.claims.checks.open.rtt_estimates import critical_ratio
from ecc.closed_loop import linearize
from ecc.models import EMKC, PIQIRCP, QIRCP, RCP, XCP, JetMax
from ecc.network import Network
from ecc.stability import critical_gain, rtt_margin


def net(*rtts):
    return Network.dumbbell("1 Gb/s", list(rtts))


def test_an_integral_loop_bears_estimates_down_to_its_gain_margin():
    margin = rtt_margin(QIRCP(), net(0.1), certify=True)
    assert margin.ratio == pytest.approx(1.0 / pi, rel=1e-9)
    low, high = margin.certified
    assert low < margin.ratio < high and high / low < 1.0 + 1e-8
    for time in ("discrete", "hybrid"):
        edge = critical_gain(PIQIRCP(), net(0.1), "alpha", time).value
        assert rtt_margin(PIQIRCP(), net(0.1), time).ratio == pytest.approx(0.5 / edge, rel=1e-7)


def test_a_loop_with_a_free_queue_at_its_closed_form():
    for gains in ({"alpha": 0.4, "beta": 0.226}, {"alpha": 0.4, "beta": 1.0}):
        exact = critical_ratio(**gains)
        assert rtt_margin(XCP(**gains), net(0.1)).ratio == pytest.approx(exact, rel=1e-7)
    # on beta = sqrt(2) alpha^2, w = pi/4: XCP's published bound, turned around
    assert critical_ratio(0.4, sqrt(2.0) * 0.16) == pytest.approx(0.4 * 4.0 * sqrt(2.0) / pi)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 0.6), st.floats(0.1, 4.0))
def test_both_sides_of_the_closed_form(alpha, k):
    beta = k * alpha**2
    ratio = critical_ratio(alpha, beta)
    omega = acos((sqrt(1.0 + 4.0 * k * k) - 1.0) / (2.0 * k))
    assert alpha / ratio == pytest.approx(omega * sin(omega)) and beta / ratio**2 == pytest.approx(
        omega**2 * cos(omega)
    )
    loop = RCP(alpha=alpha, beta=beta)
    assert linearize(loop, net(0.1), mean_rtt=[0.1 * ratio * 1.001]).is_stable
    assert not linearize(loop, net(0.1), mean_rtt=[0.1 * ratio * 0.999]).is_stable


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


@pytest.mark.slow
def test_hosts_that_misjudge():
    from ecc.claims.checks.open.rtt_estimates import SMALL, MisjudgingQIRCP
    from ecc.stability import perturbed_run

    edge = rtt_margin(QIRCP(), net(0.12), "hybrid")
    period = 2.0 * pi / edge.frequency * 0.01
    for factor, expected in ((0.9, "unstable"), (1.1, "stable")):
        protocol = MisjudgingQIRCP(scale=edge.ratio * factor, gamma=0.8)
        assert perturbed_run(protocol, net(0.12), period, 40.0, **SMALL).verdict.status == expected
