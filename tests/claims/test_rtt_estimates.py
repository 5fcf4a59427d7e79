"""Wrong RTT estimates: the closed form of loops with an unconstrained queue, and hosts that report a wrong RTT."""

from math import acos, cos, pi, sin, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecc.claims.checks.open.rtt_estimates import SMALL, MisjudgingQIRCP, critical_ratio
from ecc.loops.closed_loop import linearize
from ecc.models import QIRCP, RCP, XCP
from ecc.network.network import Network
from ecc.stability import perturbed_run, rtt_margin


def net(*rtts):
    return Network.dumbbell("1 Gb/s", list(rtts))


@pytest.mark.slow
def test_a_loop_with_a_free_queue_at_its_closed_form():
    for gains in ({"alpha": 0.4, "beta": 0.226}, {"alpha": 0.4, "beta": 1.0}):
        exact = critical_ratio(**gains)
        assert rtt_margin(XCP(**gains), net(0.1)).ratio == pytest.approx(exact, rel=1e-7)
    # on beta = sqrt(2) alpha^2, w = pi/4: XCP's published bound, turned around
    assert critical_ratio(0.4, sqrt(2.0) * 0.16) == pytest.approx(0.4 * 4.0 * sqrt(2.0) / pi)


@settings(max_examples=10)
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


@pytest.mark.slow
def test_hosts_that_misjudge():
    edge = rtt_margin(QIRCP(), net(0.12), "hybrid")
    period = 2.0 * pi / edge.frequency * 0.01
    for factor, expected in ((0.9, "unstable"), (1.1, "stable")):
        protocol = MisjudgingQIRCP(scale=edge.ratio * factor, gamma=0.8)
        assert perturbed_run(protocol, net(0.12), period, 40.0, **SMALL).stability.status == expected
