"""Fluid under windows: ACK clocking, queues and delays against what can be worked out by hand."""

import numpy as np
import pytest

import ecc
from ecc.models import EDN, PEDN, UTIL, VCP, NewReno, Vegas
from ecc.models.base import Equilibrium
from ecc.network import Flow, Link, Network


class Held(EDN):
    """Windows that stay as they are."""

    loss_law = None

    @staticmethod
    def source_law(w):
        return w


class Still(Held):
    """... begun at a point of rest with queues."""

    def equilibrium(self, network, assignment=None):
        return Equilibrium(np.array([4e6, 6e6]), np.array([1.0]), np.array([-1, -1]), np.array([200e3]))


def test_a_window_below_the_pipe_is_sent_once_an_rtt():
    """2 packets of 8000 bit in 50 ms; the queue is that of the first RTT, in which no ACK clocks yet."""
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    run = ecc.fluid.simulate(ecc.Scenario(net, Held(initial=2), 2.0), sample=0.5)
    assert run.rate[:, 0].to_numpy() == pytest.approx(2 * 8000 / 0.05, rel=1e-9)
    assert run.queue.max() == pytest.approx(0.0, abs=1e-9)


def test_a_window_beyond_the_pipe_stands_in_the_queue():
    """Windows of 50 packets in pipes of 10 Mb/s for 20 and 40 ms: shares by what is in the queue, and W = x D."""
    net = Network.dumbbell("10 Mb/s", rtts=[0.02, 0.04])
    run = ecc.fluid.simulate(ecc.Scenario(net, Held(initial=50), 20.0), sample=1.0)
    x, q = run.goodput[-1].to_numpy(), 8.0 * float(run.queue[-1, 0])
    assert x.sum() == pytest.approx(10e6, rel=1e-9)
    assert x * (np.array([0.02, 0.04]) + q / 10e6) == pytest.approx([400e3, 400e3], rel=1e-3)


def test_two_queues_in_a_row():
    """All that is beyond the pipe waits at the slower link, the second."""
    net = Network([Link("20 Mb/s", 0.01), Link("10 Mb/s", 0.02)], [Flow([0, 1], access_delay=0.005)])
    run = ecc.fluid.simulate(ecc.Scenario(net, Held(initial=100), 5.0), sample=0.5)
    assert run.queue[-1].to_numpy() == pytest.approx([0.0, 100_000 - 10e6 * 0.07 / 8.0], rel=1e-6, abs=1e-6)
    assert float(run.goodput[-1, 0]) == pytest.approx(10e6, rel=1e-9)


def test_a_full_buffer_loses_what_it_does_not_take():
    """100 packets on their way, of which pipe and buffer hold 60: 40 of 100 are lost, and sent anew, each RTT."""
    net = Network.dumbbell("8 Mb/s", rtts=[0.01], buffer="50 kB")
    run = ecc.fluid.simulate(ecc.Scenario(net, Held(initial=100), 5.0), sample=0.1)
    assert run.queue.max() <= 50_000.0
    assert float(run.goodput[-1, 0]) == pytest.approx(8e6, rel=1e-9)
    assert float(run.drops[-20:, 0].mean()) == pytest.approx(100.0 * 40.0 / 60.0, rel=0.03)  # 40 at a time
    assert run.flows["lost"][0] == pytest.approx(1000.0 * float(run.drops.sum()), rel=1e-9)


def test_a_point_of_rest_with_a_queue_stays():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1])
    run = ecc.fluid.simulate(ecc.Scenario(net, Still(), 3.0), sample=0.1, start="equilibrium")
    assert np.abs(run.rate.to_numpy() / [4e6, 6e6] - 1.0).max() < 1e-9
    assert np.abs(run.queue.to_numpy() - 25_000.0).max() < 1e-3


def test_sizes_stops_and_starts():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05], sizes=[20_000, None], starts=[0.0, 1.0], stops=[None, 2.0])
    run = ecc.fluid.simulate(ecc.Scenario(net, Held(initial=2), 4.0), sample=0.25)
    assert run.flows["delivered"].to_numpy() == pytest.approx([20_000, 40_000], rel=1e-3)
    assert run.flows["finish"][0] == pytest.approx(20_000 / 40_000 + 0.05, rel=0.01)
    rates = run.rate[:, 1].to_numpy()
    assert not rates[:4].any() and not rates[8:].any() and rates[4:8].min() > 0.0


def test_the_cycle_of_edn_is_the_triangle_of_its_relay():
    """N packets up and down in 4 RTTs, by hand; 8/pi^2 of that by describing function."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.1] * 10, packet_size=1500)
    run = ecc.fluid.simulate(ecc.Scenario(net, EDN(), 20.0), sample=0.001, start="equilibrium")
    queue = run.queue[5000:, 0].to_numpy()
    estimate = ecc.stability.relay_cycle(EDN(), net)
    cycle = ecc.measures.limit_cycle(0.001 * np.arange(len(queue)), queue)
    assert cycle.period == pytest.approx(4 * 0.102, rel=0.005)
    assert estimate.period == pytest.approx(4 * 0.102, rel=1e-9)
    assert np.ptp(queue) / 2.0 == pytest.approx(10 * 1500, rel=0.002)
    assert estimate.amplitude == pytest.approx(8.0 / np.pi**2 * 10 * 1500, rel=1e-9)
    assert queue.mean() == pytest.approx(estimate.mean, rel=0.01)


@pytest.mark.parametrize(
    ("protocol", "share"),
    [(PEDN(), 0.002), (Vegas(alpha=2.0, beta=2.0), 0.012)],  # Vegas multiplies by the window of now, not of then
    ids=["PEDN", "Vegas"],
)
def test_the_cycle_of_pedn_and_vegas_is_one_packet_a_flow(protocol, share):
    net = Network.dumbbell("100 Mb/s", rtts=[0.1] * 4, packet_size=1500)
    run = ecc.fluid.simulate(ecc.Scenario(net, protocol, 20.0), sample=0.001, start="equilibrium", perturb=1e-4)
    queue = run.queue[5000:, 0].to_numpy()
    estimate = ecc.stability.relay_cycle(protocol, net)
    assert queue.mean() == pytest.approx(4 * 2 * 1500, rel=0.01) == estimate.mean
    assert np.ptp(queue) / 2.0 == pytest.approx(4 * 1500, rel=share)
    assert estimate.amplitude == pytest.approx(8.0 / np.pi**2 * 4 * 1500, rel=1e-9)


def test_pedn_shares_equally_whatever_the_rtts():
    net = Network.dumbbell("50 Mb/s", rtts=[0.03, 0.09], packet_size=1500)
    run = ecc.fluid.simulate(ecc.Scenario(net, PEDN(initial=100), 60.0), sample=1.0)
    assert run.rate[-20:].mean("time").to_numpy() == pytest.approx([25e6, 25e6], rel=0.05)


def test_util_rests_between_its_regions():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1])
    run = ecc.fluid.simulate(ecc.Scenario(net, UTIL(initial=4), 60.0), sample=1.0)
    load = run.arrival[-10:, 0].to_numpy() / (0.98 * 10e6)
    assert np.ptp(load) < 1e-9 and 0.8 <= load[0] < 1.0


def test_vcp_makes_rates_equal_whatever_the_rtts():
    net = Network.dumbbell("20 Mb/s", rtts=[0.1, 0.2])
    run = ecc.fluid.simulate(ecc.Scenario(net, VCP(initial=4), 240.0), sample=1.0)
    rates = run.rate[-100:].mean("time").to_numpy()
    assert rates.sum() == pytest.approx(0.98 * 20e6, rel=0.05)
    assert rates[0] == pytest.approx(rates[1], rel=0.05)


def test_refusals():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(ValueError, match=r"^time must be 'continuous' for the windows of EDN, got 'discrete'$"):
        ecc.fluid.simulate(ecc.Scenario(net, EDN(), 1.0), time="discrete")
    with pytest.raises(ValueError, match="^NewReno has no relay: EDN, PEDN and Vegas have$"):
        ecc.stability.relay_cycle(NewReno(), net)


class Curious(EDN):
    @staticmethod
    def router_law(q, N):
        return q / N


def test_a_law_that_asks_for_what_windows_have_not():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(ValueError, match="Curious has no fluid model: its router law asks for N, and what a fluid of"):
        ecc.fluid.simulate(ecc.Scenario(net, Curious(), 1.0))
