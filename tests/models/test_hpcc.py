"""HPCC against its algorithm, played by hand, and in packets against its equilibrium."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import HPCC, NewReno, PowerTCP
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

C, T = 100e9, 10e-6  # 125,000 bytes in T
KB = 1000.0
PAPER = HPCC(base_rtt=T, line_rate=4 * C, w_ai=100, initial=125)


def env(**fields):
    defaults = {"now": 1.0, "window": 0.0, "rate": 0.0, "packet_size": 1000, "delivered": 0, "in_flight": 0}
    return SimpleNamespace(**{"transport": 0, **defaults, **fields})


def telemetry(*links):
    """A header: of each link the time [us], bytes sent so far, queue [bytes]."""
    time, sent, queue = zip(*links, strict=True)
    return SimpleNamespace(
        hops=len(links), time=[1e-6 * t for t in time], sent=list(sent), queue=list(queue), capacity=[C] * len(links)
    )


class Played:
    """One flow and its ACKs."""

    def __init__(self, protocol, hops):
        self.hooks, self.p = protocol.flow_hooks(), protocol.namespace()
        self.flow = protocol.FlowState(queue=[0.0] * hops, sent=[0.0] * hops, time=[0.0] * hops)
        self.env = env()
        self.hooks["on_start"](self.flow, None, self.p, self.env)

    def ack(self, delivered, in_flight, *links):
        self.env.delivered, self.env.in_flight = delivered, in_flight
        self.hooks["on_ack"](self.flow, telemetry(*links), self.p, self.env)
        return self.env.window


def test_the_papers_algorithm_played_by_hand():
    """Algorithm 1 with eta = 0.95, maxStage = 5, W_AI = 100 bytes, T = 10 us, and two links of 12,500 bytes a us."""
    one = Played(PAPER, 2)
    assert one.env.window == pytest.approx(125 * KB) and one.env.rate == pytest.approx(C)  # the first RTT at line rate
    # The first ACK: its telemetry is kept. snd_nxt = 1,000 + 125,000.
    assert one.ack(1000, 125_000, (5.0, 50_000, 20_000), (7.0, 80_000, 0)) == pytest.approx(125 * KB)
    assert one.flow.update_end == 126_000
    # 2 us later. Link 0 sent 25,000: txRate/B = 1, and min(24,000, 20,000)/125,000 = 0.16: u' = 1.16, tau = 2 us.
    # Link 1 sent 20,000: 0.8. U = 0.8 1 + 0.2 1.16 = 1.032 >= eta: W = 125,000 0.95/1.032 + 100, and W_c stays.
    window = one.ack(3000, 124_000, (7.0, 75_000, 24_000), (9.0, 100_000, 0))
    assert one.flow.U == pytest.approx(1.032) and window == pytest.approx(125_000 * 0.95 / 1.032 + 100)
    assert one.env.rate == pytest.approx(8 * window / T) and one.flow.reference == pytest.approx(125 * KB)
    # 5 us later, still of the first RTT. Link 0: 50,000/62,500 + min(0, 24,000)/125,000 = 0.8. Link 1, 5 us later:
    # 62,500/62,500 + 0 = 1. U = 0.5 1.032 + 0.5 1 = 1.016. From W_c again, not from the last W.
    window = one.ack(100_000, 26_000, (12.0, 125_000, 0), (14.0, 162_500, 6_000))
    assert one.flow.U == pytest.approx(1.016) and window == pytest.approx(125_000 * 0.95 / 1.016 + 100)
    assert one.flow.reference == pytest.approx(125 * KB) and one.flow.stage == 0
    # The first ACK of what was sent after the first: 12 us later, tau = min(12, 10) us, so U is u. Link 0 sent 60,000
    # in 12 us: 0.4. Link 1: 90,000/150,000 + min(5,000, 6,000)/125,000 = 0.64. U = 0.64 < eta: W = W_c + W_AI = W_c.
    window = one.ack(126_001, 90_000, (24.0, 185_000, 0), (26.0, 252_500, 5_000))
    assert one.flow.U == pytest.approx(0.64)
    assert (
        window == one.flow.reference == pytest.approx(125_100)
        and one.flow.stage == 1
        and one.flow.update_end == 216_001
    )
    # Five RTTs may add; the sixth divides, though U = 0.64 < eta.
    for k in range(1, 6):
        window = one.ack(216_001 + 100_000 * k, 90_000, *low(k))
        divided = 125_500 * 0.95 / 0.64 + 100
        assert window == pytest.approx(125_100 + 100 * k if k < 5 else divided)
        assert one.flow.stage == (k + 1 if k < 5 else 0) and one.flow.reference == window
    assert window > 186 * KB


def low(k):
    """Reports 12 us apart, of 0.4 and of 0.64."""
    return (24.0 + 12 * k, 185_000 + 60_000 * k, 0), (26.0 + 12 * k, 252_500 + 90_000 * k, 5_000)


def test_the_simulators_form_keeps_rates_between_limits():
    one = Played(HPCC(base_rtt=T, line_rate=C, w_ai=100, form="rate", min_rate=1e9, max_stage=0), 1)
    one.ack(1000, 1000, (0.0, 0, 0))
    assert one.ack(3000, 1000, (12.0, 15_000, 0)) == pytest.approx(125 * KB)  # U = 0.1
    assert one.ack(5000, 1000, (24.0, 165_000, 200 * KB)) == pytest.approx(125_000 * 0.95 + 100)  # U = 1
    assert one.ack(7000, 1000, (36.0, 315_000, 200_000 * KB)) == pytest.approx(118_850 * 0.95 / 2.6 + 100)
    assert one.ack(9000, 1000, (48.0, 465_000, 200_000 * KB)) == pytest.approx(1250.0)  # U = 1601: the least


def test_reports_that_are_no_newer_say_nothing():
    one = Played(PAPER, 1)
    one.ack(1000, 1000, (5.0, 50_000, 0))
    one.ack(3000, 1000, (7.0, 65_000, 0))
    assert one.flow.U == pytest.approx(0.8 + 0.2 * 0.6)
    one.ack(3000, 1000, (7.0, 65_000, 0))
    assert one.flow.U == pytest.approx(0.92)


def test_links_write_what_leaves_them():
    hook, p = PAPER.link_hooks()["on_departure"], PAPER.namespace()
    header = SimpleNamespace(hops=1, capacity=[0.0] * 3, queue=[0.0] * 3, sent=[0.0] * 3, time=[0.0] * 3)
    link = SimpleNamespace(sent=5000.0)
    at = SimpleNamespace(now=0.25, packet_size=1000, kind=0, capacity=C, queue=3000)
    hook(link, header, p, at)
    at.kind, at.packet_size = 1, 40  # an ACK counts, and carries nothing of its way back
    hook(link, header, p, at)
    assert link.sent == 6040.0
    assert header == SimpleNamespace(
        hops=2, capacity=[0.0, C, 0.0], queue=[0.0, 3000, 0.0], sent=[0.0, 6000.0, 0.0], time=[0.0, 0.25, 0.0]
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eta": 1.1}, "eta must be <= 1, got 1.1"),
        ({"eta": 0}, "eta must be > 0"),
        ({"max_stage": 0.5}, "max_stage must be a whole number, got 0.5"),
        ({"w_ai": 0}, "w_ai must be >= 1 bytes, got 0"),
        ({"form": "both"}, "form must be one of 'window', 'rate', got 'both'"),
        ({"min_rate": "200 Gb/s"}, r"min_rate must be <= line_rate \(1e\+11 bit/s\), got"),
    ],
)
def test_bad_parameters_get_one_line(fields, message):
    with pytest.raises(ValueError, match=message):
        HPCC(**fields)


@pytest.mark.parametrize(("flows", "w_ai"), [(1, 800), (4, 800), (16, 200), (16, 800), (32, 800)])
def test_the_equilibrium_of_one_link(flows, w_ai):
    """U = eta + N W_AI/(C T), in a queue what is above 1."""
    point = HPCC(base_rtt=T, w_ai=w_ai).equilibrium(Network.dumbbell(C, [T] * flows))
    U = 0.95 + flows * w_ai / 125_000
    assert point.fair_rate == pytest.approx([U], rel=1e-9)
    assert point.rates == pytest.approx(min(U, 1.0) * C / flows, rel=1e-9)
    assert point.queue == pytest.approx([max(U - 1.0, 0.0) * C * T], rel=1e-6, abs=1e-3)


def test_the_equilibrium_of_several_links_is_max_min_fair():
    network = Network.parking_lot(["100 Gb/s", "80 Gb/s"], delay="1 us")
    point = HPCC(base_rtt=T, w_ai=10).equilibrium(network)
    loads = point.rates @ network.incidence
    assert loads == pytest.approx(0.95 * network.capacities, rel=2e-3)
    assert point.rates == pytest.approx(ecc.allocation.max_min(network, loads), rel=1e-2)
    assert point.bottleneck.tolist() == [1, 0, 1] and not point.queue.any()
    with pytest.raises(ValueError, match="assignment must be None: flows of HPCC follow the link of largest U"):
        HPCC().equilibrium(network, np.zeros(3, dtype=int))


@pytest.mark.parametrize(
    ("flows", "w_ai", "form"), [(1, 800, "window"), (4, 800, "window"), (4, 800, "rate"), (16, 400, "window")]
)
def test_packets_come_to_the_equilibrium(flows, w_ai, form):
    network = Network.dumbbell(C, [T] * flows, starts=list(np.arange(flows) * 1e-6))
    protocol = HPCC(base_rtt=T, w_ai=w_ai, form=form)
    point = protocol.equilibrium(network)
    run = ecc.packet.simulate(Scenario(network, protocol, 3e-3), sample=1e-4)
    late = run.data.sel(time=slice(1e-3, None))
    assert float(late["rate"].sum("flow").mean()) == pytest.approx(point.rates.sum(), rel=0.02)
    assert late["rate"].mean("time").to_numpy() == pytest.approx(point.rates, rel=0.06)
    assert late["queue"].mean() < 8 * KB and run.drops.sum() == 0


def test_packets_on_a_parking_lot_load_its_links_and_favor_short_paths():
    """The larger of two noisy reports is larger than either: a path with two bottlenecks gets less than its share."""
    lot = Network.parking_lot(["100 Gb/s", "80 Gb/s"], delay="1 us")
    protocol = HPCC(base_rtt=T, w_ai=800)
    run = ecc.packet.simulate(Scenario(lot, protocol, 3e-3), sample=1e-4)
    rates, point = run.rate.sel(time=slice(1e-3, None)).mean("time").to_numpy(), protocol.equilibrium(lot)
    assert rates @ lot.incidence == pytest.approx(point.rates @ lot.incidence, rel=0.03)
    assert 0.4 < rates[0] / point.rates[0] < 0.8


def test_a_link_that_slows_down_is_met_in_a_few_round_trips():
    network = Network([Link(C, "2 us"), Link(C, "2 us")], [Flow([0, 1], access_delay="1 us")])
    slow = CapacitySchedule(link=1, times=[1e-3], capacities=[0.2 * C])
    protocol = HPCC(base_rtt=T)
    run = ecc.packet.simulate(Scenario(network, protocol, 2e-3, impairments=[slow]), sample=2e-5)
    rate = run.rate[:, 0].to_numpy()
    assert rate[20:49].mean() == pytest.approx(0.95 * C, rel=0.01)
    assert rate[-20:].mean() == pytest.approx(0.19 * C, rel=0.05)
    assert run.queue[56:, 1].max() < 5 * KB


def test_packets_on_a_fat_tree_load_the_link_of_their_host():
    """Three hosts send to one of another pod: the reports of six links are in a header."""
    network = Network.fat_tree(4, [(0, 12), (1, 12), (2, 12)], capacity=C, delay="0.5 us")
    run = ecc.packet.simulate(Scenario(network, HPCC(base_rtt=T, w_ai=800), 1e-3), sample=5e-5)
    rates = run.rate[10:].mean("time").to_numpy()
    assert rates.sum() == pytest.approx(0.96 * C, rel=0.03) and run.drops.sum() == 0


def test_a_loss_lets_the_next_ack_renew_the_reference():
    one = Played(PAPER, 1)
    one.ack(1000, 100_000, (0.0, 0, 0))
    one.ack(2000, 100_000, (2.0, 25_000, 0))
    assert one.flow.reference == pytest.approx(125 * KB)
    one.hooks["on_loss"](one.flow, None, one.p, one.env)
    window = one.ack(2000, 100_000, (4.0, 50_000, 0))
    assert one.flow.reference == window == pytest.approx(125 * KB * 0.95 + 100)


def test_runs_note_parameters_that_do_not_fit_the_network():
    def notes(protocol, engine="packet", capacity="10 Gb/s", rtt="10 us"):
        network = ecc.Network.dumbbell(capacity, rtts=[rtt] * 2)
        return ecc.simulate(ecc.Scenario(network, protocol, duration=5e-5), engine).notes

    rate = "HPCC: line_rate (100 Gb/s) does not fit hosts with links of 10 Gb/s: first windows are 10 times too large"
    long = "HPCC: base_rtt (13 us) does not fit an RTT of 100 us: it must be the longest RTT without queues"
    for engine in ("packet", "fluid"):
        assert rate in notes(HPCC(), engine) and long not in notes(HPCC(), engine)
        assert long in notes(HPCC(), engine, rtt="100 us")
        fitting = notes(HPCC(line_rate="10 Gb/s", base_rtt="13 us"), engine)
        assert not [note for note in fitting if note.startswith("HPCC")]
    assert notes(PowerTCP())[0].startswith("PowerTCP: line_rate (100 Gb/s) does not fit hosts with links of 10 Gb/s")


def test_notes_on_parameters_count_the_flows_of_the_protocol_alone():
    network = ecc.Network.dumbbell("100 Gb/s", rtts=["10 us", "1 ms"])
    run = ecc.simulate(ecc.Scenario(network, {"flows": {0: HPCC(), 1: NewReno()}}, duration=5e-5))
    assert not [note for note in run.notes if "base_rtt" in note]
    run = ecc.simulate(ecc.Scenario(network, {"flows": {0: NewReno(), 1: HPCC()}}, duration=5e-5))
    assert [note for note in run.notes if "base_rtt (13 us) does not fit an RTT of 1 ms" in note]
