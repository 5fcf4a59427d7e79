"""Fluid under windows: ACK clocking, queues and delays against what can be worked out by hand."""

import numpy as np
import pytest

import ecc
from ecc.contract.equilibrium import Equilibrium
from ecc.models import BIC, EDN, FAST, PEDN, UTIL, VCP, NewReno, Vegas
from ecc.network.network import Flow, Link, Network


class Held(EDN):
    """Windows that stay as they are."""

    slow_start_law = loss_response_law = None

    @staticmethod
    def source_law(w):
        return w


class Still(Held):
    """... begun at an equilibrium with queues."""

    def equilibrium(self, network, assignment=None):
        return Equilibrium(np.array([4e6, 6e6]), np.array([1.0]), np.array([-1, -1]), np.array([200e3]))


def test_a_window_below_the_pipe_is_sent_once_an_rtt():
    """2 packets of 8000 bit in 50 ms, one behind the other."""
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
    """100 packets in flight, of which pipe and buffer hold 60: 40 of 100 are lost, and sent anew, each RTT."""
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
    assert run.flows["finish"][0] == pytest.approx(20_000 / 40_000, rel=0.01)  # two packets at once, ten times
    rates = run.rate[:, 1].to_numpy()
    assert not rates[:4].any() and not rates[8:].any() and rates[4:8].min() > 0.0


def test_the_cycle_of_edn_is_the_triangle_of_its_relay():
    """N packets up and down in 4 RTTs, by hand; 8/pi^2 of that by describing function."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.1] * 10, packet_size=1500)
    run = ecc.fluid.simulate(ecc.Scenario(net, EDN(), 20.0), sample=0.001, start="equilibrium")
    queue = run.queue[5000:, 0].to_numpy()
    estimate = ecc.stability.relay_cycle(EDN(), net)
    cycle = ecc.transients.limit_cycle(0.001 * np.arange(len(queue)), queue)
    assert cycle.period == pytest.approx(4 * 0.102, rel=0.005)
    assert estimate.period == pytest.approx(4 * 0.102, rel=1e-9)
    assert np.ptp(queue) / 2.0 == pytest.approx(10 * 1500, rel=0.005)  # an RTT's ACKs are those of the window before
    assert estimate.amplitude == pytest.approx(8.0 / np.pi**2 * 10 * 1500, rel=1e-9)
    assert queue.mean() == pytest.approx(estimate.mean, rel=0.01)


@pytest.mark.parametrize(
    ("protocol", "share"),
    [(PEDN(), 0.005), (Vegas(alpha=2.0, beta=2.0), 0.015)],  # Vegas multiplies by the window of now, not of then
    ids=["PEDN", "Vegas"],
)
def test_the_cycle_of_pedn_and_vegas_is_one_packet_a_flow(protocol, share):
    net = Network.dumbbell("100 Mb/s", rtts=[0.1] * 4, packet_size=1500)
    run = ecc.fluid.simulate(ecc.Scenario(net, protocol, 20.0), sample=0.001, start="equilibrium", perturbation=1e-4)
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
    scenario = ecc.Scenario(net, VCP(initial=4), 240.0)
    fluid, packets = (
        engine.simulate(scenario, sample=1.0).rate[-100:].mean("time").to_numpy() for engine in (ecc.fluid, ecc.packet)
    )
    assert fluid == pytest.approx(packets, rel=0.01)  # MD and AI swing about 0.94 of the target
    assert fluid[0] == pytest.approx(fluid[1], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("capacities", [["100 Mb/s", "50 Mb/s"], ["50 Mb/s"] * 3], ids=["two", "three"])
def test_vcp_hears_of_overloads_one_link_at_a_time(capacities):
    """Routers that tick at other times ask the long flow for a decrease each, those of a flow of one link for one."""
    scenario = ecc.Scenario(Network.parking_lot(capacities), VCP(), 200.0)
    fluid, packets = (
        engine.simulate(scenario, sample=1.0).rate[-100:].mean("time").to_numpy() for engine in (ecc.fluid, ecc.packet)
    )
    assert fluid[1:] == pytest.approx(packets[1:], rel=0.05)
    assert fluid[0] == pytest.approx(packets[0], rel=0.1)


OPENING = [NewReno(transport="sack"), UTIL(transport="sack"), VCP(opening="slow_start", transport="sack"), FAST()]


@pytest.mark.parametrize("buffer", [None, "1.25 MB"], ids=["unlimited", "one BDP"])
@pytest.mark.parametrize("protocol", OPENING, ids=lambda one: type(one).__name__)
def test_windows_open_as_those_of_packets(protocol, buffer):
    """Trains of twice as many packets an RTT, up to a loss, a load or a queue; what is lost is repaired in an RTT."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.1], buffer=buffer)
    runs = [engine.simulate(ecc.Scenario(net, protocol, 10.0)) for engine in (ecc.fluid, ecc.packet)]
    assert np.abs(runs[0].rate.to_numpy() - runs[1].rate.to_numpy()).mean() < 0.025 * 100e6
    queues = [run.queue.to_numpy().mean() for run in runs]
    assert queues[0] == pytest.approx(queues[1], rel=0.02, abs=0.06 * 1.25e6)
    drops = [float(run.drops.sum()) for run in runs]
    assert drops[0] == pytest.approx(drops[1], rel=0.02, abs=3.0)
    assert not runs[0].notes


@pytest.mark.parametrize(
    ("protocol", "share"),
    [(EDN(), 0.05), (EDN(quantized=False), 0.05), (PEDN(), 0.12), (Vegas(), 0.1), (VCP(), 0.15)],
    ids=["EDN", "exact EDN", "PEDN", "Vegas", "VCP"],
)
def test_slow_start_ends_at_the_queue_of_a_train(protocol, share):
    """Half a window is queued at twice the rate of the bottleneck, so windows stay far below the path; VCP has none."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.1])
    rates = [
        float(engine.simulate(ecc.Scenario(net, protocol, 10.0)).rate.mean()) for engine in (ecc.fluid, ecc.packet)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=share)
    assert rates[0] < 25e6


def test_flows_that_start_later_open_alike():
    """With starts one and a half RTTs apart trains do not meet: each flow opens as on an idle link."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.1] * 2, starts=[0.0, 1.05])
    run = ecc.fluid.simulate(ecc.Scenario(net, EDN(), 2.0), sample=0.05)
    sent = run.rate.to_numpy()
    assert sent[:19, 0] == pytest.approx(sent[21:, 1], rel=0.04, abs=2e5)


def test_a_receiver_window_limits_the_rate():
    net = Network.dumbbell("100 Mb/s", rtts=[0.1])
    run = ecc.fluid.simulate(ecc.Scenario(net, NewReno(receiver_window=50_000), 10.0), sample=1.0)
    assert float(run.rate[5:].mean()) == pytest.approx(8.0 * 50_000 / 0.1, rel=1e-3)


def test_what_transports_of_packets_take_longer_for_is_noted():
    net = Network.dumbbell("100 Mb/s", rtts=[0.1], buffer="1.25 MB")
    run = ecc.fluid.simulate(ecc.Scenario(net, NewReno(), 5.0))
    assert len(run.notes) == 1 and "note: a flow lost up to 24" in repr(run)
    assert "packets of a window, which this fluid repairs in one RTT, as SACK does; NewReno (RFC 6582)" in run.notes[0]
    run = ecc.fluid.simulate(ecc.Scenario(net, BIC(), 10.0))  # keeps 7/8 of a window that is twice as large as it fits
    assert len(run.notes) == 1 and "met losses again within an RTT after a recovery, " in run.notes[0]


class Loaded(Held):
    """Windows that stay, and routers that count over intervals and remember."""

    @staticmethod
    def router_law(R, y, T):
        return R + y * T

    @staticmethod
    def announce_law(R, q_mean, C):
        return R + q_mean / C

    @staticmethod
    def source_law(w, R):
        return w + 1e-3 * R

    def params(self):
        return super().params() | {"interval": 0.5}


def test_routers_that_count_act_at_their_ticks():
    """What has come in whole intervals, bit by bit, and what it had to wait; windows hear of it an interval long."""
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    scenario = ecc.Scenario(net, Loaded(initial=2), 2.0, phases="equal")
    run = ecc.fluid.simulate(scenario, sample=0.05)
    rate = run.rate[:, 0].to_numpy() * 0.05 / 8000.0  # packets an RTT
    assert rate[:10] == pytest.approx(np.full(10, 2.0))
    step = 1e-3 * 10 * 16_000 / 8000.0  # of what came in the first half second, in packets
    assert np.diff(rate)[12:19] == pytest.approx(np.full(7, step), rel=0.02)
    assert (np.diff(rate)[23:29] > 1.9 * step).all()


class Torn(Held):
    @staticmethod
    def router_law(y, loss):
        return y * loss


def test_a_router_counts_or_is_met():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(
        ValueError, match="Torn has no fluid model: its routers average y over intervals, but loss is known only"
    ):
        ecc.fluid.simulate(ecc.Scenario(net, Torn(), 1.0))


class Eager(ecc.models.RCP):
    @staticmethod
    def slow_start_law(w):
        return 2.0 * w


def test_fluids_of_rates_have_no_slow_start():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(ValueError, match="Eager has no .*slow_start"):
        ecc.fluid.simulate(ecc.Scenario(net, Eager(), 1.0))


def test_refusals():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(ValueError, match="^NewReno has no relay: it does not define relay_loop$"):
        ecc.stability.relay_cycle(NewReno(), net)


class Curious(EDN):
    @staticmethod
    def router_law(q, N):
        return q / N


def test_a_law_that_asks_for_what_windows_have_not():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(
        ValueError, match="Curious has no fluid model: its router law takes N; available arguments for a fluid of"
    ):
        ecc.fluid.simulate(ecc.Scenario(net, Curious(), 1.0))
