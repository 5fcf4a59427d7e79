"""CAKE against its code in Linux, played by hand: the same packets leave, are marked and are dropped."""

from __future__ import annotations

import numpy as np
import pytest
from cake_by_hand import Cake, Packet, filtered, play

import ecc
from ecc.models import ConstantRate, NewReno
from ecc.packet.twin.state import TwinLink
from ecc.queues import CAKE, RED

EIGHTHS = tuple(0.875**tin for tin in range(8))
SHARES = {
    "besteffort": (1.0,),
    "diffserv3": (1.0, 1 / 16, 1 / 4),
    "diffserv4": (1.0, 1 / 16, 1 / 2, 1 / 4),
    "diffserv8": EIGHTHS,
    "precedence": EIGHTHS,
}
SIZE = 1000


def compare(cake, rates, capacity="20 Mb/s", duration=1.6, ecn=True, buffer=50_000_000, adjust=lambda size: size):
    """Run constant rates through CAKE, and play its arrivals by hand; return the run and the played discipline."""
    link = ecc.Link(capacity, "1 ms", buffer=buffer)
    sizes = [SIZE - 7 * k for k in range(len(rates))]
    network = ecc.Network([link], [ecc.Flow([0], packet_size=size, start=0.001 * k) for k, size in enumerate(sizes)])
    hosts = {k: ConstantRate(rate, ecn=ecn) for k, rate in enumerate(rates)}
    scenario = ecc.Scenario(network, {"flows": hosts, "links": cake}, duration)
    run = ecc.packet.simulate(scenario, sample=0.1, trace=2_000_000)
    sent = run.trace.loc[run.trace["event"] == "send", ["time", "entity", "value"]]
    arrivals = [(time, Packet(k, offset, sizes[k], ecn)) for time, k, offset in sent.itertuples(index=False)]
    assert sum(packet.size for _, packet in arrivals) == pytest.approx(float(run.arrival.sum()) * 0.1 / 8, abs=2000)
    hand = Cake(
        float(network.capacities[0]) if cake.rate is None else float(cake.rate),
        SHARES[cake.tins],
        lambda flow: int(cake.params()["tin_of"][flow % len(cake.dscp)]),
        lambda flow: tuple(
            hosts[flow % len(hosts)] if hosts and cake.isolation in ("triple", side) else flow
            for hosts, side in ((cake.sources, "dual-srchost"), (cake.destinations, "dual-dsthost"))
        ),
        buffer,
        cake.packet_size,
        adjust,
        ingress=cake.ingress,
    )
    departures = play(hand, float(network.capacities[0]), arrivals, duration)
    for event, played in (
        ("departure", departures),
        ("drop", hand.dropped),
        ("mark", hand.marked),
    ):
        seen = run.trace[(run.trace["event"] == event) & (run.trace["value"] >= 0)]
        assert seen["value"].tolist() == [packet.offset for _, packet in played], event
        assert seen["time"].values == pytest.approx([time for time, _ in played], abs=1e-9)
    return run, hand, departures


def rates_of(departures, n, since):
    """Goodput of each flow from a time on [bit/s]."""
    last = departures[-1][0]
    sizes = [sum(packet.size for time, packet in departures if packet.flow == k and time > since) for k in range(n)]
    return 8.0 * np.array(sizes) / (last - since)


@pytest.mark.slow
def test_hosts_share_the_rate_and_so_do_the_flows_of_a_host():
    """Six flows of a host, two of another and one of a third: a third of 18 Mb/s for each."""
    hosts = (0, 0, 0, 0, 0, 0, 1, 1, 2)
    cake = CAKE(rate="18 Mb/s", destinations=hosts, sources=(9,), isolation="dual-dsthost", tins="besteffort")
    run, hand, departures = compare(cake, [f"{7 + 0.1 * k} Mb/s" for k in range(9)])
    rates = rates_of(departures, 9, 0.5)
    assert rates[:6] == pytest.approx(1e6, rel=0.02) and rates[6:8] == pytest.approx(3e6, rel=0.02)
    assert rates[8] == pytest.approx(6e6, rel=0.02) and len(hand.marked) > 100


@pytest.mark.slow
def test_triple_isolation_counts_the_busier_host_of_a_flow():
    """A sender with eight flows and a receiver with three: the third flow of the receiver has its own sender."""
    cake = CAKE(rate="18 Mb/s", sources=(0,) * 8 + (1,), destinations=(*range(1, 7), 9, 9, 9), tins="besteffort")
    _, _, departures = compare(cake, ["9 Mb/s"] * 9)
    rates = rates_of(departures, 9, 0.5)
    assert rates[:8] == pytest.approx(18e6 / 8 / (1 + 8 / 24), rel=0.05)
    assert rates[8] == pytest.approx(18e6 / 3 / (1 + 8 / 24), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tins", "dscp", "expected"),
    [
        ("diffserv3", (0, 8, 46), (13.5e6, 1.125e6, 4.5e6)),
        ("diffserv4", (0, 1, 34, 40), (2e6, 1.125e6, 9e6, 4.5e6)),
        ("diffserv8", (1, 46, 48), (0.0, 18e6 * 0.875**6, 18e6 * 0.875**7)),
        ("precedence", (0, 63, 48), (0.0, 18e6 * 0.875**7, 18e6 * 0.875**6)),
    ],
)
def test_tins_have_the_thresholds_of_their_class(tins, dscp, expected):
    """All flows send at 18 Mb/s; tins above best effort have their shares, and it gets the rest."""
    cake = CAKE(rate="18 Mb/s", tins=tins, dscp=dscp)
    _, _, departures = compare(cake, [f"{18 + k} Mb/s" for k in range(len(dscp))])
    rates = rates_of(departures, len(dscp), 0.5)
    assert rates.sum() == pytest.approx(18e6, rel=0.005)
    assert rates[1:] == pytest.approx(expected[1:], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("ecn", [True, False])
def test_packets_are_marked_or_dropped_by_the_same_schedule(ecn):
    cake = CAKE(rate="10 Mb/s", tins="besteffort")
    _, hand, _ = compare(cake, ["10.5 Mb/s"], ecn=ecn)
    assert len(hand.marked if ecn else hand.dropped) > 10 and not (hand.dropped if ecn else hand.marked)


@pytest.mark.slow
@pytest.mark.parametrize("tins", ["besteffort", "diffserv3"])
def test_in_ingress_mode_dropped_packets_count_as_sent(tins):
    """Departures and drops together keep the rate, or the failsafe lets two thirds of it leave."""
    cake = CAKE(rate="10 Mb/s", tins=tins, dscp=(0, 0, 46, 8, 0), ingress=True)
    rates = ["4 Mb/s", "4.5 Mb/s", "3 Mb/s", "2 Mb/s", "100 kb/s"]
    _, hand, departures = compare(cake, rates, ecn=False)
    left, dropped = (
        8.0 * sum(packet.size for time, packet in events if time > 0.8) / 0.8 for events in (departures, hand.dropped)
    )
    assert dropped > 0.1e6 and left > 0.66 * 10e6
    assert left + dropped == pytest.approx(10e6, rel=0.01)


def test_in_ingress_mode_a_flood_leaves_two_thirds_of_the_rate():
    """Drops of a full buffer count as sent, so that the failsafe decides, in a run and by hand."""
    cake = CAKE(rate="10 Mb/s", tins="besteffort", ingress=True)
    network = ecc.Network([ecc.Link("20 Mb/s", "1 ms", buffer=60_000)], [ecc.Flow([0], packet_size=1000)])
    flood = {"flows": ConstantRate("30 Mb/s"), "links": cake}
    run = ecc.packet.simulate(ecc.Scenario(network, flood, 2.0), sample=0.1)
    arrivals = [(k * 8e3 / 30e6, Packet(0, 1000 * k, 1000, False)) for k in range(int(2.0 * 30e6 / 8e3))]
    hand = Cake(10e6, (1.0,), lambda flow: 0, lambda flow: (flow, flow), 60_000, 1000, lambda size: size, ingress=True)
    by_hand = sum(8e3 for time, _ in play(hand, 20e6, arrivals, 2.0) if time > 1.0)
    assert by_hand == pytest.approx(10e6 / 1.5, rel=0.01)
    assert float(run.goodput[10:].mean()) == pytest.approx(10e6 / 1.5, rel=0.01)


def test_in_ingress_mode_signals_wait_for_two_packets_of_each_bulk_flow():
    """Eight flows at 2 Mb/s: sixteen packets take 64 ms, so that few packets are marked."""
    few, many = (
        compare(CAKE(rate="2 Mb/s", tins="besteffort", ingress=ingress), ["260 kb/s"] * 8)[1].marked
        for ingress in (True, False)
    )
    assert len(few) < 0.5 * len(many)


@pytest.mark.parametrize(
    ("framing", "overhead", "adjust"),
    [
        ("none", 18, lambda size: max(size + 18, 64)),
        ("atm", 40, lambda size: -(-max(size + 40, 64) // 48) * 53),
        ("ptm", 22, lambda size: max(size + 22, 64) + -(-max(size + 22, 64) // 64)),
    ],
)
def test_the_shaper_keeps_its_rate(framing, overhead, adjust):
    """Bytes on the wire of the modem are the rate within 0.5 %, and a pause gives no burst."""
    cake = CAKE(rate="7.3 Mb/s", overhead=overhead, mpu=64, framing=framing, tins="besteffort")
    _, _, departures = compare(cake, ["6 Mb/s", "5 Mb/s"], adjust=adjust)
    times = np.array([time for time, _ in departures])
    sizes = np.array([adjust(packet.size) for _, packet in departures])
    assert 8.0 * sizes[1:].sum() / (times[-1] - times[0]) == pytest.approx(7.3e6, rel=0.005)


@pytest.mark.slow
def test_overload_by_packets_that_do_not_respond_is_dropped_by_blue():
    """A flood of three times the rate fills its queue alone; a call next to it loses nothing and waits for a packet."""
    cake = CAKE(rate="10 Mb/s", tins="besteffort")
    link = ecc.Link("20 Mb/s", "1 ms", buffer=100_000)
    network = ecc.Network([link], [ecc.Flow([0], packet_size=1000), ecc.Flow([0], packet_size=200)])
    hosts = {0: ConstantRate("30 Mb/s", ecn=True), 1: ConstantRate("160 kb/s", ecn=True)}
    run = ecc.packet.simulate(
        ecc.Scenario(network, {"flows": hosts, "links": cake}, 12.0), sample=0.1, record=["link.p_drop[0]"]
    )
    flood = [(k * 8e3 / 30e6, Packet(0, 1000 * k, 1000, True)) for k in range(int(12.0 * 30e6 / 8e3))]
    call = [(k * 0.01, Packet(1, 200 * k, 200, True)) for k in range(1200)]
    hand = Cake(10e6, (1.0,), lambda flow: 0, lambda flow: (flow, flow), 100_000, 1000, lambda size: size)
    departures = play(hand, 20e6, sorted(flood + call, key=lambda item: item[0]), 12.0)
    assert run.flows["lost"][1] == 0 and not [packet for _, packet in hand.dropped if packet.flow == 1]
    waits = [time - packet.arrived for time, packet in departures if packet.flow == 1]
    assert max(waits) < 0.002 and float(run.rtt[10:, 1].max()) < 0.001 + 0.001 + 0.002
    assert float(run.drops.sum()) == pytest.approx(len(hand.dropped), rel=0.01)
    for marks in (float(run.marks.sum()), len(hand.marked)):  # 767 to 1273 with twelve seeds
        assert 600 < marks < 1600
    p_drop = max(queue.p_drop for queue in hand.tins[0].queues.values())
    assert float(run["link.p_drop[0]"][-1].max()) == pytest.approx(p_drop, abs=0.03) and p_drop > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["conservative", "aggressive"])
def test_the_ack_filter_drops_the_acks_that_the_kernel_drops(mode, monkeypatch):
    """Downloads with losses and marks, whose ACKs share a slow uplink; both engines drop the same ACKs."""
    links = [ecc.Link("20 Mb/s", "10 ms", buffer=60_000), ecc.Link("300 kb/s", "10 ms", buffer=60_000)]
    flows = [ecc.Flow([0], reverse=[1], packet_size=1500, ack_size=60) for _ in range(3)]
    hosts = {0: NewReno(transport="sack"), "1-2": NewReno(transport="sack", ecn=True)}
    protocol = {"flows": hosts, "links": {0: RED(mark=True), 1: CAKE(tins="besteffort", n_queues=8, ack_filter=mode)}}
    scenario = ecc.Scenario(ecc.Network(links, flows), protocol, 4.0)
    seen = []
    original = TwinLink.superseded

    def record(link, packet, aggressive):
        place = original(link, packet, aggressive)
        waiting = [other for _, other in link.queues[packet.queue_index].waiting]
        seen.append((place, filtered([(p.flow.number, p.front, list(p.sacks), p.ecn) for p in waiting], aggressive)))
        return place

    monkeypatch.setattr(TwinLink, "superseded", record)
    twin = ecc.packet.simulate(scenario, sample=0.1, engine="python")
    assert [place for place, _ in seen] == [place for _, place in seen]
    dropped = sum(place is not None for place, _ in seen)
    assert dropped > 2000 and dropped <= float(twin.drops[:, 1].sum()) < dropped + 10  # COBALT drops a few
    run = ecc.packet.simulate(scenario, sample=0.1)
    assert run.stats["digest"] == twin.stats["digest"]
    plain = ecc.packet.simulate(scenario.with_(protocol={"flows": hosts, "links": {0: RED(mark=True)}}), sample=0.1)
    assert float(run.goodput[10:].sum()) > 1.2 * float(plain.goodput[10:].sum())
