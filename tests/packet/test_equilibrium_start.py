"""Runs that begin at an equilibrium with queues: they begin with these queues, and stay there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ecc
from ecc import Flow, Link, Network, Scenario
from ecc.contract.env import NoRecord
from ecc.models import (
    CUBIC,
    DCQCN,
    DCTCP,
    EDN,
    FAST,
    HPCC,
    NSCC,
    PEDN,
    Compound,
    Copa,
    Equilibrium,
    Kelly,
    NewReno,
    PatchedTIMELY,
    Prague,
    Protocol,
    Swift,
    ThetaPowerTCP,
    Vegas,
    Vivace,
)
from ecc.models.shared import windows
from ecc.models.shared.equilibria import full_links
from ecc.network.impairments import RandomLoss
from ecc.packet import resume
from ecc.queues import AVQ, PI, PI2, PIE, RED, REM, FQCoDel, RampMarking

SLOW_LINK = Network.dumbbell("20 Mb/s", rtts=["50 ms", "50 ms", "80 ms"])
FOUR = Network.dumbbell("20 Mb/s", rtts=["50 ms"] * 4)
MANY = Network.dumbbell("200 Mb/s", rtts=["50 ms"] * 40)
RACK = Network.dumbbell("10 Gb/s", rtts=["20 us"] * 4)
SEGMENTS = Network.dumbbell("10 Gb/s", rtts=["20 us"] * 2, packet_size=16000)
TWO_LINKS = Network(
    [Link("20 Mb/s", "10 ms"), Link("30 Mb/s", "5 ms")], [Flow([0, 1]), Flow([0]), Flow([1], access_delay=0.02)]
)


def over(host: Protocol, discipline: Protocol) -> dict[str, dict[Any, Protocol]]:
    return {"flows": {"default": host}, "links": {0: discipline}}


def queues_of(network: Network, protocol: Any) -> np.ndarray:
    """The queue of each link at the equilibrium [bytes]."""
    if isinstance(protocol, Protocol):
        return protocol.equilibrium(network).queue / 8.0
    from ecc.loops.marked_hosts import equilibrium_of_marks

    return equilibrium_of_marks(Scenario(network, protocol, 1.0).deployment, network).queues / 8.0


def started(network: Network, protocol: Any, rtts: float = 10.0, **options: Any) -> tuple[Any, float]:
    """A run of some RTTs from the equilibrium with 20 samples an RTT, and the longest RTT."""
    rtt = float((network.rtts + network.incidence @ (8.0 * queues_of(network, protocol) / network.capacities)).max())
    run = ecc.packet.simulate(
        Scenario(network, protocol, rtts * rtt), sample=rtt / 20.0, start="equilibrium", **options
    )
    assert run.is_complete and run.stats["warmup_end"] == 0.0
    return run, rtt


# (network, protocol, how far the mean queue of ten RTTs may be from that of the equilibrium [packets])
QUIET = {
    "FAST": (SLOW_LINK, FAST(alpha=20.0), 2.0),
    "FAST on two links": (TWO_LINKS, FAST(alpha=20.0), 2.0),
    "Vegas": (SLOW_LINK, Vegas(alpha=3.0, beta=3.0), 3.0),
    "Swift": (RACK, Swift(), 2.0),
    "PatchedTIMELY": (SEGMENTS, PatchedTIMELY(), 2.0),
}
SLOW = {
    "NSCC over ramp marking": (
        Network.dumbbell("100 Gb/s", rtts=["12 us"] * 8, packet_size=4096),
        over(NSCC(), RampMarking(packet_size=4096, min_threshold=7.3, max_threshold=29.3)),
        5.0,
    ),
    "EDN": (Network.dumbbell("100 Mb/s", rtts=["20 ms"] * 4), EDN(), 5.0),
    "ThetaPowerTCP": (RACK, ThetaPowerTCP(base_rtt="20 us"), 5.0),
    "Copa": (SLOW_LINK, Copa(), 20.0),
    "DCTCP over PI2": (MANY, over(DCTCP(), PI2(mark=True)), 100.0),  # its queue swings from 240 to 740 packets
    "DCTCP over RED": (MANY, over(DCTCP(), RED(mark=True, min_threshold=50, max_threshold=600)), 120.0),
    "Prague over PI2": (MANY, over(Prague(), PI2(mark=True)), 60.0),
    "NewReno over PI2": (MANY, over(NewReno(ecn=True), PI2(mark=True)), 120.0),
    "NewReno with losses over PI2": (MANY, over(NewReno(), PI2()), 120.0),
    "NewReno over PI": (MANY, over(NewReno(ecn=True), PI(mark=True, reference=200.0)), 60.0),
    "NewReno over REM": (MANY, over(NewReno(ecn=True), REM(mark=True)), 120.0),
    "CUBIC over PI2": (MANY, over(CUBIC(ecn=True), PI2(mark=True)), 120.0),
    "CUBIC over PIE": (MANY, over(CUBIC(ecn=True), PIE(mark=True)), 120.0),
    "Compound over PI2": (MANY, over(Compound(ecn=True), PI2(mark=True)), 150.0),
    "Prague over ramp marking": (MANY, over(Prague(), RampMarking(mark=True)), 60.0),
}


def assert_stays(network: Network, protocol: Any, packets: float, first: float | None = None) -> Any:
    """The mean queue of ten RTTs is that of the equilibrium, and so is the first sample, where that is asked."""
    size, expected = network.flows[0].packet_size, queues_of(network, protocol)
    run, rtt = started(network, protocol)
    assert np.abs(run.queue_mean.mean("time").to_numpy() - expected).max() <= packets * size
    if first is not None:
        assert np.abs(run.queue[0].to_numpy() - expected).max() <= first * size
    return run


@pytest.mark.parametrize(("network", "protocol", "packets"), QUIET.values(), ids=QUIET.keys())
def test_a_run_begins_with_the_queues_of_the_equilibrium_and_keeps_them(network, protocol, packets):
    run = assert_stays(network, protocol, packets, first=2.0)
    assert run.drops.sum() == 0 and (run.flows["lost"] == 0).all() and (run.flows["retransmitted"] == 0).all()
    rates = protocol.equilibrium(network).rates
    assert run.rate.mean("time").to_numpy() == pytest.approx(rates, rel=0.05)
    assert run.goodput.mean("time").to_numpy() == pytest.approx(rates, rel=0.05)
    loads = rates @ network.incidence
    for when in (slice(None, 20), slice(None)):  # packets sent before time 0 are not in the series
        assert run.arrival[when].mean("time").to_numpy() == pytest.approx(loads, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "protocol", "packets"), SLOW.values(), ids=SLOW.keys())
def test_hosts_with_random_signals_stay_near_the_queue_that_they_begin_with(network, protocol, packets):
    assert_stays(network, protocol, packets, first=20.0)


def test_hosts_over_a_discipline_begin_with_its_queue_and_probability():
    network = Network.dumbbell("40 Mb/s", rtts=["50 ms"] * 8)
    run = assert_stays(network, over(Prague(), PI2(mark=True)), 20.0, first=5.0)
    assert run.drops.sum() == 0 and run.marks.sum() > 0
    assert run.rate.mean("time").to_numpy() == pytest.approx(np.full(8, 5e6), rel=0.1)


def test_dcqcn_begins_with_the_queue_of_its_equilibrium():
    """DCQCN swings about its equilibrium with few flows; the first RTT is near it."""
    protocol = DCQCN(10e9, p_max=0.1)
    run, _ = started(RACK, protocol, rtts=1.0)
    assert abs(float(run.queue_mean.mean()) - queues_of(RACK, protocol)[0]) < 4000


@pytest.mark.slow
def test_both_engines_begin_alike_and_a_checkpoint_changes_nothing(tmp_path):
    scenario = Scenario(FOUR, over(CUBIC(ecn=True), RED(mark=True, min_threshold=5, max_threshold=60)), 0.2)
    whole, twin = (
        ecc.packet.simulate(scenario, sample=0.01, start="equilibrium", engine=engine) for engine in ("c", "python")
    )
    assert twin.stats["digest"] == whole.stats["digest"]
    for name in ("rate", "goodput", "queue", "arrival", "marks", "rtt"):
        assert np.array_equal(twin[name].to_numpy(), whole[name].to_numpy(), equal_nan=True)
    run = ecc.packet.Run(scenario, 0.01, "equilibrium")
    for until in (0.0, 0.02, 0.1):  # packets that were sent before time 0 are in the network
        run.advance(until)
        run.save(tmp_path / "run.ckpt")
        run.close()
        run = resume(tmp_path / "run.ckpt")
    rest = run.advance().trajectory()
    assert rest.stats["digest"] == whole.stats["digest"]
    assert np.array_equal(rest.rate.to_numpy(), whole.rate.to_numpy())


def test_a_perturbation_moves_what_flows_send_from_time_0_on():
    protocol = FAST(alpha=20.0)
    calm, _ = started(SLOW_LINK, protocol)
    higher, rtt = started(SLOW_LINK, protocol, perturbation=0.2)
    added = 0.2 * float((protocol.equilibrium(SLOW_LINK).rates * (SLOW_LINK.rtts + 0.024)).sum()) / 8.0
    peak = float((higher.queue - calm.queue).sel(time=slice(None, 2 * rtt)).max())
    assert peak == pytest.approx(added, rel=0.2)
    assert float(abs(higher.queue - calm.queue)[-20:].max()) < 0.2 * added


@dataclass(frozen=True)
class Backlog(windows.EndToEndProtocol):
    """A custom window protocol, without a word on how it begins at its equilibrium."""

    packets: float = 10.0
    transport: str = "sack"
    slow_start_law = None

    def params(self) -> dict[str, float]:
        return {"packets": self.packets, **super().params()}

    @staticmethod
    def router_law(q, C):
        return q / C

    @staticmethod
    def source_law(w, R, D, s, p):
        return w + 0.5 * (p.packets * s - w * R / D)

    def flow_hooks(self):
        return {**windows.STARTS, "on_ack": on_ack, "on_loss": on_loss}

    def equilibrium(self, network, assignment=None):
        return windows.equilibrium_with_own(network, self.packets)


def on_ack(flow, header, p, env):
    if flow.ssthresh > 1e15:  # the state with which flows begin: slow start
        env.window = 2.0 * env.window
    queued = env.window * (env.rtt - env.min_rtt) / env.rtt
    env.window += 0.5 * (p.packets * env.packet_size - queued) * env.acked / env.window


def on_loss(flow, header, p, env):
    env.window = max(0.5 * env.window, 2.0 * env.packet_size)


@dataclass
class RateState:
    x: float = 0.0  # bit/s
    wait: float = 0.0  # s


@dataclass(frozen=True)
class ByDelay(Protocol):
    """A custom rate protocol: the rate falls with the wait in queues."""

    most: float = 12e6
    slope: float = 1e8
    combine = "sum"
    FlowState = RateState

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {"on_start": rate_on_start, "on_ack": rate_on_ack}

    def flow_at(self, x, R, link, rtt=0.0, min_rtt=0.0):
        assert rtt - min_rtt == pytest.approx(R)
        return RateState(x, rtt - min_rtt)

    def equilibrium(self, network, assignment=None):
        def demand(D):
            return np.maximum(self.most - self.slope * (D - network.rtts), 1.0)

        waits = full_links(network, demand, "ByDelay", "")
        rates = demand(network.rtts + network.incidence @ waits)
        return Equilibrium(rates, waits, np.full(network.n_flows, -1), waits * network.capacities)


def rate_on_start(flow, header, p, env):
    flow.x = 1e5
    env.rate = flow.x


def rate_on_ack(flow, header, p, env):
    flow.wait = env.rtt - env.min_rtt
    flow.x = max(p.most - p.slope * flow.wait, 1e5)
    env.rate = flow.x


@pytest.mark.parametrize("protocol", [Backlog(), ByDelay()], ids=lambda protocol: type(protocol).__name__)
def test_a_custom_protocol_begins_with_the_queue_of_its_equilibrium(protocol):
    network = Network.dumbbell("20 Mb/s", rtts=["50 ms", "50 ms"])
    assert_stays(network, protocol, 2.0, first=3.0)


class WithoutState(ByDelay):
    """It has routers with a state, too, and says nothing of it."""

    LinkState = RateState
    flow_at = Protocol.flow_at

    def link_hooks(self):
        return {"on_arrival": rate_on_start}


CROSSED = Network.dumbbell("20 Mb/s", rtts=["50 ms"])
QUEUES = "^start must be 'empty' at an equilibrium with queues "


def one_flow(**options: Any) -> Network:
    return Network([Link("20 Mb/s", "20 ms"), Link("20 Mb/s", "20 ms")], [Flow([0], **options)])


@pytest.mark.parametrize(
    ("network", "protocol", "reason"),
    [
        (one_flow(reverse=[1]), FAST(), QUEUES + "for a flow with reverse links, got 'equilibrium' \\(flow 0\\)$"),
        (one_flow(delayed_acks=(2, 0.04)), FAST(), QUEUES + "for a flow with delayed ACKs"),
        (one_flow(size=10**6), FAST(), QUEUES + "for a flow with a finite size"),
        (one_flow(packet_size=(500, 1500)), FAST(), QUEUES + "for a flow with packets of several sizes"),
        (one_flow(writes="1 Mb/s"), FAST(), "^writes must be None except in packet runs"),
        (
            Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer="100 kB"),
            FAST(),
            r"^start must be 'empty' if a queue of the equilibrium exceeds the buffer \(100000 bytes\), got "
            r"201000 bytes in 201 packets \(link 0\)$",
        ),
        (CROSSED, PEDN(), "^PEDN has no packet runs from the equilibrium: it does not define link_at$"),
        (CROSSED, HPCC(base_rtt="50 ms"), "^HPCC has no packet runs from the equilibrium: it does not define link_at$"),
        (
            CROSSED,
            WithoutState(),
            "^WithoutState has no packet runs from the equilibrium: it does not define link_at and flow_at$",
        ),
        (CROSSED, Vivace(), "^start must be 'empty' for packets of Vivace: its rates depend on earlier monitor"),
        (CROSSED, over(NewReno(), FQCoDel()), "FQCoDel has no linear model"),
    ],
)
def test_what_cannot_begin_with_queues_is_refused_in_one_line(network, protocol, reason):
    with pytest.raises((ValueError, ecc.LinearizationError), match=reason):
        ecc.packet.simulate(Scenario(network, protocol, 1.0), start="equilibrium")


def test_what_cannot_show_packets_sent_before_time_0_is_refused_in_one_line(tmp_path):
    scenario = Scenario(SLOW_LINK, FAST(alpha=20.0), 1.0)
    lossy = Scenario(SLOW_LINK, FAST(alpha=20.0), 1.0, impairments=[RandomLoss(0.01, link=0)])
    with pytest.raises(ValueError, match=QUEUES + "with RandomLoss, got 'equilibrium'$"):
        ecc.packet.simulate(lossy, start="equilibrium")
    with pytest.raises(ValueError, match="^threads must be 1 for a run that begins with queues at an equilibrium"):
        ecc.packet.simulate(scenario, start="equilibrium", threads=2)
    with pytest.raises(ValueError, match="^capture must be None for a run that begins with queues"):
        ecc.packet.simulate(scenario, start="equilibrium", capture={0: tmp_path / "link.pcapng"})
    with pytest.raises(ValueError, match="^qlog must be None for a run that begins with queues"):
        ecc.packet.simulate(scenario, start="equilibrium", engine="python", qlog={0: tmp_path / "flow.qlog"})
    with pytest.raises(ValueError, match="^start must be 'empty' in live runs of an equilibrium with queues"):
        ecc.live.simulate(scenario, start="equilibrium")


def test_hosts_get_the_sum_of_the_feedback_of_their_path(monkeypatch):
    """They got that of the last link of the network."""
    received = []
    monkeypatch.setattr(Kelly, "flow_at", lambda self, x, R, link: received.append(R) or Kelly.FlowState(x=x, x_rtt=x))
    network, protocol = Network.parking_lot(["20 Mb/s", "30 Mb/s"]), Kelly()
    ecc.packet.simulate(Scenario(network, protocol, 0.1), start="equilibrium")
    prices = protocol.equilibrium(network).fair_rate
    assert received == pytest.approx((network.incidence @ prices).tolist())


def test_routers_without_state_need_none():
    assert FAST().link_at(0.0, 1e6, 0.1, 0.1) == NoRecord()
    assert AVQ().link_at(0.1, 1e6, 0.1, 0.2, V=100.0).V == 100.0
