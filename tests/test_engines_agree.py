"""Packets, fluids and linear models of every protocol on one network of three bottlenecks."""

import numpy as np
import pytest

import ecc
from ecc.models import EMKC, EMKCAVQ, MKC, Kelly, MaxNet
from ecc.network import Network
from ecc.scenario import Scenario


@pytest.mark.parametrize(
    "protocol", [MKC(), EMKC(), EMKCAVQ(), Kelly(omega=1e6), MaxNet()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("packet_size", [500, 1500])
def test_flows_open_alike_in_fluid_and_packets(protocol, packet_size):
    network = Network.dumbbell("100 Mb/s", rtts=[0.5], packet_size=packet_size)
    scenario = Scenario(network, protocol, 0.5)
    sent = [float(engine.simulate(scenario, sample=0.5).rate[0, 0]) for engine in (ecc.packet, ecc.fluid)]
    least = 8.0 * packet_size / 0.5
    assert sent[1] == pytest.approx(max(least, protocol.opening_rate(0.5, 8.0 * packet_size)), rel=1e-3)
    assert sent[0] == pytest.approx(sent[1], abs=least)  # a packet


def test_a_clock_of_their_own_does_not_wait_for_acks():
    """Kelly's hosts step every interval, however few packets they send."""
    network = Network.parking_lot(["6 Mb/s", "9 Mb/s"], access_delay=0.4)
    for kappa, is_stable in ((0.01, True), (0.03, False)):
        protocol = Kelly(kappa=kappa, omega=0.3e6)  # of the long flow less than a packet an interval
        assert ecc.linearize(protocol, network, "discrete").is_stable is is_stable
        rates = protocol.equilibrium(network).rates
        assert rates[0] * protocol.interval < 8000.0
        for engine in (ecc.packet, ecc.fluid):
            scenario = Scenario(network, protocol, 80.0)
            run = engine.simulate(scenario, sample=4.0, start="equilibrium", perturb=0.1)
            off = np.abs(run.rate.to_numpy() / rates - 1.0).max(axis=1)
            assert bool(off[-5:].max() < 0.07) == is_stable, engine


def test_windows_of_segments_count_segments():
    """MaxNet's integral goes by what ACKs acknowledge, so that runs hardly depend on the size of packets."""
    found = []
    for packet_size in (500, 1000, 1500):
        network = Network.dumbbell("8 Mb/s", rtts=[1.0], packet_size=packet_size)
        scenario = Scenario(network, MaxNet(), 30.0)
        found.append([float(engine.simulate(scenario, sample=1.0).rate[-1, 0]) for engine in (ecc.packet, ecc.fluid)])
    packets, fluid = np.transpose(found)
    assert fluid == pytest.approx(fluid[0], rel=1e-6)
    assert (packets > 0.7 * fluid).all() and (packets < fluid).all()  # of a window, whole packets are sent
