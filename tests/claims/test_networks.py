"""Networks of the claims: short flows that are held back beside a long one, and T_u with its links in either order."""

from math import pi

import numpy as np
import pytest

from ecc.claims.checks.open.networks import held_back, in_t_u, onset_alone, onset_in_fluid
from ecc.fluid import simulate
from ecc.loops.closed_loop import linearize
from ecc.models import QIRCP, XCP
from ecc.scenario import Scenario
from ecc.stability import critical_gain, mean_rtts


def test_averaged_over_flows_no_gain_is_stable_in_every_network():
    found = [critical_gain(QIRCP(), held_back(flows), "alpha").value for flows in (2, 5, 19)]
    assert found[0] > found[1] > found[2] and found[2] < 0.1
    assert linearize(QIRCP(alpha=0.18), held_back()).certify().stable is False
    assert linearize(QIRCP(alpha=0.17), held_back()).certify().stable is True
    by_packet = mean_rtts(QIRCP(), held_back())
    assert critical_gain(QIRCP(), held_back(), "alpha", mean_rtt=by_packet).value == pytest.approx(pi / 2, rel=1e-9)


def test_xcp_averages_over_flows():
    """Its own gains are stable with two short flows bottlenecked elsewhere beside a long one, not with three."""
    for flows, stable in ((1, True), (2, True), (3, False), (9, False)):
        assert linearize(XCP(), held_back(flows)).certify().stable is stable


@pytest.mark.slow
@pytest.mark.parametrize("flows", [2, 3])
def test_xcp_beside_flows_that_are_held_back_in_the_fluid(flows):
    protocol, network = XCP(paced=True), held_back(flows)
    run = simulate(Scenario(network, protocol, 30.0), sample=0.1, start="equilibrium", perturbation=1e-4)
    peaks = np.abs(run.rate.to_numpy()[:, 0] / protocol.equilibrium(network).rates[0] - 1.0).reshape(6, -1).max(axis=1)
    assert peaks[-1] < 0.6 * peaks[1] if flows == 2 else peaks[-1] > 5.0 * peaks[1]


@pytest.mark.slow
def test_a_queue_in_order_acts_on_the_link_behind():
    """T_u loses stability before either of its links does alone, and with its links in the other order it does not."""
    alone, first, last = onset_alone(), onset_in_fluid("l1 first"), onset_in_fluid("l3 first")
    assert first[1] < 0.66 < 0.73 < alone[0]
    assert last == pytest.approx(alone, abs=0.02)
    assert [flow.route for flow in in_t_u("l3 first").flows[:2]] == [(0, 1), (2, 0)]
