"""NSCC against its rules, played by hand; with trims, marks and quick adapt in packets; fluid and linear over marks."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import read_protocol
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import NSCC
from ecc.models.nscc import average_law
from ecc.network.network import Flow, Link, Network
from ecc.queues import RampMarking, Trimming
from ecc.scenario import Scenario

C, T, S = 100e9, 12e-6, 4096
BDP = 150_000.0  # bytes, of the network to which all constants refer: a = 1
D = 9e-6
RAMP = RampMarking(packet_size=S, min_threshold=0.2 * BDP / S, max_threshold=0.8 * BDP / S)
UEC = Trimming(limit=BDP, min_threshold=0.2 * BDP, max_threshold=0.8 * BDP)


class Played:
    """A flow of NSCC whose ACKs are given by hand."""

    def __init__(self, **given):
        self.protocol = NSCC(**given)
        self.hooks, self.p, self.flow = self.protocol.flow_hooks(), self.protocol.namespace(), NSCC.FlowState()
        self.env = SimpleNamespace(
            transport=0,
            now=1.0,
            window=0.0,
            packet_size=S,
            delivered=0,
            lost=0,
            in_flight=100_000,
            rtt=0.0,
            min_rtt=T,
            marked=0,
        )
        self.hooks["on_start"](self.flow, None, self.p, self.env)

    def ack(self, delay, marked=False, packets=1, after=1e-7):
        """The window after an ACK with this queueing delay."""
        env = self.env
        env.now, env.rtt, env.delivered = env.now + after, T + delay, env.delivered + packets * S
        env.marked = S if marked else 0
        self.hooks["on_ack"](self.flow, None, self.p, env)
        return env.window

    def lose(self, packets=1):
        self.env.lost += packets * S
        self.hooks["on_loss"](self.flow, None, self.p, self.env)
        return self.env.window


def test_constants_are_those_of_the_reference_network_and_scale():
    p = NSCC().namespace()
    assert (p.target, p.fair, p.eta) == pytest.approx((D, 5.0, 0.15))
    assert p.alpha * p.target == pytest.approx(4.0 * 0.75)  # alpha = 4 s a b/D with b = D/12 us
    assert Played(base_rtt="4 us").env.window == pytest.approx(0.5 * BDP)
    wide = NSCC("400 Gb/s", "24 us", trimming=False).namespace()
    assert (wide.target, wide.fair, wide.fast) == pytest.approx((24e-6, 40.0, 2.0))
    assert NSCC(target="5 us").namespace().target == 5e-6


def test_flows_open_with_one_and_a_half_products_and_keep_below():
    one = Played(quick_adapt=False)
    assert one.env.window == pytest.approx(1.5 * BDP)
    for _ in range(100):
        one.ack(2e-6)
    assert one.env.window == pytest.approx(1.5 * BDP)


def test_without_mark_below_the_target_windows_grow_in_proportion_every_eight_packets():
    one = Played()
    one.env.window = 100_000.0
    for _ in range(8):
        assert one.ack(3e-6) == 100_000.0
    per_packet = 4.0 * S / T * (D - 3e-6) * S / 100_000.0
    assert one.ack(3e-6) == pytest.approx(100_000.0 + 9 * per_packet)
    before = one.env.window
    grown = one.ack(3e-6, after=1.1 * T)  # more than an RTT of the network later: eta, too
    assert grown == pytest.approx(before + 4.0 * S / T * (D - 3e-6) * S / before + 0.15 * S)


def test_without_mark_beyond_the_target_windows_grow_fairly_and_the_average_forgets():
    one = Played()
    one.env.window, one.flow.average = 100_000.0, 12e-6
    one.ack(10e-6)
    assert one.flow.average == pytest.approx(12e-6 + 0.0125 * (3e-6 - 12e-6))
    for _ in range(8):
        one.ack(10e-6)
    assert one.env.window == pytest.approx(100_000.0 + 9 * 5.0 * S * S / 100_000.0)


def test_a_mark_beyond_the_target_cuts_once_an_rtt_and_one_below_changes_nothing():
    one = Played()
    one.env.window = 100_000.0
    assert one.ack(8e-6, marked=True) == 100_000.0
    assert one.ack(12e-6, marked=True) == 100_000.0  # the average is still below
    one.flow.average = 12e-6
    average = 12e-6 + 0.0125 * (14e-6 - 12e-6)
    assert one.ack(14e-6, marked=True) == pytest.approx(100_000.0 * (1 - 0.8 * (average - D) / average))
    before = one.env.window
    assert one.ack(14e-6, marked=True) == before
    one.flow.average = 100e-6
    assert one.ack(14e-6, marked=True, after=0.5 * T) == before
    assert one.ack(14e-6, marked=True, after=0.51 * T) == pytest.approx(0.5 * before + 0.15 * S)


def test_a_window_without_delay_makes_increases_fast():
    one = Played()
    one.env.window = 5.0 * S
    windows = [one.ack(0.5e-6) for _ in range(7)]
    assert windows[:5] == [5.0 * S] * 5 and windows[5:] == [5.25 * S, 5.5 * S]
    one.ack(2e-6)
    assert one.env.window == 5.5 * S and one.flow.is_fast == 0


def test_a_trimmed_packet_leaves_the_window_and_comes_into_the_average():
    one = Played(quick_adapt=False)
    assert one.lose(2) == pytest.approx(1.5 * BDP - 2 * S)
    assert one.flow.average == pytest.approx(0.0125 * T)
    assert one.lose(100) == S


def test_quick_adapt_goes_on_with_what_has_arrived():
    one = Played()
    one.ack(3e-6)  # begins the time in which arrivals count
    one.ack(3e-6, packets=3)
    one.env.in_flight = 40 * S
    assert one.lose() == pytest.approx(1.5 * BDP - S)  # T + D is not over
    assert one.ack(3e-6, packets=1, after=T + D) == 4 * S  # ... and with this ACK it is
    assert (one.flow.to_ignore, one.flow.is_trimmed) == (40 * S, 0)
    assert one.ack(40e-6, marked=True, packets=10) == 4 * S
    assert one.lose(10) == 4 * S  # of what was on its way: neither counts
    before = one.ack(3e-6, packets=20)
    assert one.lose(1) == before - S
    other = Played()
    other.ack(3e-6)
    other.ack(3e-6, packets=8)
    assert other.ack(37e-6, after=T + D + 1e-6) == pytest.approx(1.5 * BDP)  # more than an eighth has arrived
    assert other.ack(37e-6, after=T + D + 1e-6) == S  # 4 targets late, and a packet


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gamma": 1.5}, "gamma must be <= 1, got 1.5"),
        ({"target": 0}, "target must be > 0"),
        ({"base_rtt": 0}, "base_rtt must be > 0"),
        ({"fast": -1}, "fast must be >= 0"),
        ({"network_rtt": "0 s"}, "network_rtt must be > 0"),
        ({"quick_adapt": 1}, "quick_adapt must be one of True, False, got 1"),
    ],
)
def test_bad_parameters_get_one_line(fields, message):
    with pytest.raises(ValueError, match=message):
        NSCC(**fields)


def incast(n, discipline, size="400 kB"):
    """Hosts with a link each send to one, with an RTT of 12 us."""
    links = [*[Link(C, "1 us")] * n, Link(C, "2 us")]
    flows = [Flow([k, n], size=size, packet_size=S, trimmed_size=64, access_delay="3 us") for k in range(n)]
    return Network(links, flows), {"flows": NSCC(), "links": {n: discipline}}


def test_what_is_trimmed_of_an_incast_is_reported_and_sent_again():
    """Headers arrive, receivers report them, senders send again: all is there at nearly the pace of the link."""
    network, protocol = incast(16, UEC)
    run = ecc.packet.simulate(Scenario(network, protocol, 2e-3), sample=1e-5, record=["link.trimmed"])
    trimmed = int(run["link.trimmed"][-1, 16])
    assert trimmed > 100 and run.drops.sum() == 0 and float(run.marks.sum()) > 100
    assert run.flows["retransmitted"].sum() == run.flows["lost"].sum() > 0.9 * trimmed * S
    assert (run.flows["delivered"] == 400_000).all()
    assert run.flows["completion_time"].max() < 1.1 * 16 * 400_000 * 8 / C + 2 * T
    assert run.queue[:, 16].max() < BDP + 64 * 16 * 60


@pytest.mark.parametrize(("n", "size"), [(4, "100 kB"), (8, "60 kB")])
def test_the_twin_trims_marks_and_adapts_alike(n, size):
    network, protocol = incast(n, UEC, size)
    c, python = (ecc.packet.simulate(Scenario(network, protocol, 1e-3), engine=engine) for engine in ("c", "python"))
    assert c.stats["digest"] == python.stats["digest"] and c.flows["lost"].sum() > 0


@pytest.mark.parametrize(("flows", "off"), [(2, 0.05), (8, 0.03)])
def test_packets_and_fluid_have_one_mean_queue(flows, off):
    network = Network.dumbbell(C, [T] * flows, packet_size=S, starts=list(np.arange(flows) * 1e-6))
    pair = {"flows": NSCC(), "links": RAMP}
    packets, fluid = (engine.simulate(Scenario(network, pair, 4e-3), sample=4e-6) for engine in (ecc.packet, ecc.fluid))
    for run in (packets, fluid):
        assert run.goodput[500:].sum("flow").mean() == pytest.approx(C, rel=0.005)
    assert fluid.queue[500:].mean() == pytest.approx(float(packets.queue[500:].mean()), rel=off)


def test_at_the_equilibrium_increases_are_what_cuts_take():
    network = Network.dumbbell(C, [T] * 8, packet_size=S)
    point = equilibrium_of_marks(read_protocol({"flows": NSCC(), "links": RAMP}).deploy(network), network)
    q, w, m = point.queues[0] / C, point.windows[0] / 8.0, point.host_states[0]["average"]
    marked = (point.queues[0] / 8.0 / BDP - 0.2) / 0.6
    assert marked == pytest.approx(point.probabilities[0]) and D < m < q
    assert m == pytest.approx(marked * q + (1 - marked) * T / 4)
    gained = (1 - marked) * 5.0 * S + 0.15 * S * (T + q) / T
    cuts = (T + q) / (T + S / (marked * w) * (T + q))  # in an RTT: one in T and the wait for a mark
    assert gained == pytest.approx(w * 0.8 * (m - D) / m * cuts, rel=1e-6)


def test_linear_models_need_marks():
    network = Network.dumbbell(C, [T] * 8, packet_size=S)
    model = ecc.linearize({"flows": NSCC(), "links": RAMP}, network)
    assert model.certify().stable is False
    with pytest.raises(ecc.errors.LinearizationError, match="NSCC has no"):
        NSCC().equilibrium(network)


def test_the_fluid_says_that_losses_are_not_answered():
    network = Network.dumbbell(C, [T] * 4, packet_size=S, buffer=60_000)
    run = ecc.fluid.simulate(Scenario(network, {"flows": NSCC(), "links": RAMP}, 2e-4), sample=1e-5)
    assert "packets were lost: in fluid runs, windows of NSCC do not respond to losses" in run.stats["notes"]


def test_the_average_of_an_rtt_is_that_of_its_acks():
    p = NSCC().namespace()
    after = average_law(10 * 8.0 * S, 10e-6, 22e-6, 8.0 * S, 0.75, 9e-6, p)
    assert after == pytest.approx(9e-6 + 10 * 0.0125 * (0.75 * 10e-6 + 0.25 * 3e-6 - 9e-6))


def test_a_flow_that_comes_later_gets_an_equal_share():
    network = Network.dumbbell(C, [T] * 8, packet_size=S, starts=[*(np.arange(7) * 1e-6), 2e-3])
    hosts = {"flows": NSCC(), "links": RAMP}
    run = ecc.packet.simulate(Scenario(network, hosts, 0.04), sample=1e-3)
    assert run.goodput[20:].mean("time").to_numpy() == pytest.approx(C / 8, rel=0.2)
