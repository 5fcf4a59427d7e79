"""QUIC's loss recovery in the packet engine: which packet is sent when, by hand, as RFC 9002 and RFC 9000 prescribe.

What holds of any transport, with losses and reordering of all kinds and in the twin, is in `test_transport.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from test_transport import BURST, CLOCKED, Window, acks, run, sent

import ecc
from ecc.contract.env import Hook
from ecc.jit.reach import uses_field
from ecc.models import DCTCP, NewReno
from ecc.models.shared.windows import WindowProtocol
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin
from ecc.packet.twin.quic import Quic
from ecc.queues import StepMarking
from ecc.scenario import Scenario

AT_ONCE = (1, "25 ms")  # every packet is acknowledged


def test_a_loss_is_found_at_the_third_packet_after_it() -> None:
    engine, flow = run(Window("quic", first=10, grows=False, drops=(3,)), duration=0.0725, delayed_acks=AT_ONCE)
    assert (
        sent(engine)
        == [
            *BURST,
            *CLOCKED,
            (34.0, 13),
            (35.0, 14),
            (36.0, 3),  # 7 to 14 are in flight: the window is 4 from now on, and does not limit this packet
            (64.0, 15),
            (65.0, 16),
            (66.0, 17),
            (67.0, 18),  # the ACK of the retransmission, the first packet that was sent in the recovery, ends it
            (68.0, 19),
            (69.0, 20),
            (70.0, 21),
        ][: len(sent(engine))]
    )
    assert (flow["losses"], flow["flight"], flow["recovered"]) == (1, 8000, 1)
    assert engine.flow_results[0]["retransmitted"] == 1000


def test_a_loss_is_found_by_time_if_few_packets_follow() -> None:
    # packet 2 is dropped: the ACK of 3 comes at 33, and those of 4 to 6 after 62 ms
    engine, flow = run(Window("quic", first=4, grows=False, drops=(2,)), duration=0.06, delayed_acks=AT_ONCE)
    assert sent(engine)[:7] == [*BURST[:4], (31.0, 4), (32.0, 5), (33.0, 6)]
    # srtt is below the last RTT, 33 ms; all packets left at 0
    assert sent(engine)[7] == (pytest.approx(1.125 * 33.0), 2)
    assert flow["losses"] == 1


def test_a_probe_timeout_sends_two_probes_and_keeps_the_window() -> None:
    # the last two packets are lost, and no ACK shows it before those of the probes
    engine, flow = run(Window("quic", first=10, grows=False, drops=(8, 9)), duration=2.0, size=10_000)
    copies = sent(engine)[10:]
    # the ACK of the first probe shows that 8 and 9 were lost, and 9 is sent again although the second probe has it
    assert [packet for _, packet in copies] == [8, 9, 9]
    assert copies[0][0] == copies[1][0] == copies[2][0] - 31.0
    assert (flow["losses"], flow["timeouts"]) == (1, 0)
    assert engine.flow_results[0]["completed"]


def test_probe_timeouts_back_off() -> None:
    engine, flow = run(
        Window("quic", first=2, grows=False, drops=(2, 3, 4, 5)), duration=3.0, size=4000, delayed_acks=AT_ONCE
    )
    times = sorted({time for time, _ in sent(engine)[2:]})
    # packets 2 and 3 leave at 31 and 32 and are lost, and so are the first two probes
    assert [packet for _, packet in sent(engine)] == [0, 1, 2, 3, 2, 3, 2, 3, 3]
    first, second = times[2] - times[1], times[3] - times[2]
    rttvar = 0.75 * 15.5 + 0.25 * 1.0
    assert first == pytest.approx(31.0 + 1.0 / 8.0 + 4.0 * rttvar + 25.0)
    assert second == pytest.approx(2.0 * first)
    assert (flow["losses"], flow["timeouts"]) == (1, 0)


def test_acks_leave_after_two_packets_or_25_ms() -> None:
    engine, _ = run(Window("quic", first=5, grows=False), duration=0.06, size=5000)
    assert acks(engine) == [(32.0, 1), (34.0, 3), (35.0 + 25.0, 4)]
    engine, _ = run(Window("quic", first=5, grows=False), duration=0.06, size=5000, delayed_acks=(4, "5 ms"))
    assert acks(engine) == [(34.0, 3), (35.0 + 5.0, 4)]


def test_acks_do_not_wait_after_a_gap() -> None:
    engine, _ = run(Window("quic", first=8, grows=False, drops=(2,)), duration=0.0395)
    # 3 arrives after a gap; 4 and 5 are in order again
    assert acks(engine)[:3] == [(32.0, 1), (33.0, 3), (35.0, 5)]


def test_the_smoothed_rtt_excludes_the_delay_of_acks() -> None:
    network = Network([Link("8 Mb/s", "10 ms")], [Flow([0], access_delay=0.005, size=1000)])
    scenario = Scenario(network, NewReno(transport="quic", initial=1.0), 1.0)
    twin = build_twin(prepare(scenario))
    twin.advance(1.0)
    assert twin.flows[0].rtt == pytest.approx(0.056)  # the only ACK waits for 25 ms
    network = network.with_flows([Flow([0], access_delay=0.005, size=4000)])
    twin = build_twin(prepare(Scenario(network, NewReno(transport="quic", initial=3.0), 1.0)))
    twin.advance(1.0)
    # samples: 32 ms; 58 ms with 25 ms of delay; 56 ms, of which 25 ms would be below the minimum of 32 ms
    assert twin.flows[0].srtt == pytest.approx(0.875 * (0.875 * 0.032 + 0.125 * 0.033) + 0.125 * 0.056)


def drop_eight_packets(link: Any, header: Any, p: Any, env: Any) -> None:
    if 2 <= link.n < 10:
        env.drop = 1
    link.n += 1


class Outage(Window):
    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": drop_eight_packets}


def test_congestion_is_persistent_if_all_is_lost_for_three_probe_timeouts() -> None:
    engine, flow = run(Outage("quic", first=2, grows=False), duration=3.0, size=4000, delayed_acks=AT_ONCE)
    times = sorted({time for time, _ in sent(engine)})
    pto = times[3] - times[2]  # from 32 ms on, when packet 3 leaves
    assert times[3:7] == pytest.approx([32.0 + n * pto for n in (1, 3, 7, 15)])
    # the probes of the fourth timeout arrive; those before it were sent up to seven timeouts after packet 3
    assert times[7] == pytest.approx(times[6] + 31.0)
    assert (flow["losses"], flow["timeouts"]) == (0, 1)
    assert engine.flow_results[0]["completed"]


def test_a_recovery_reduces_the_window_once() -> None:
    engine, flow = run(Window("quic", first=12, grows=False, drops=(2, 5, 9)), duration=0.09, delayed_acks=AT_ONCE)
    assert flow["losses"] == 1
    assert sorted(packet for _, packet in sent(engine)).count(2) == 2


@pytest.mark.parametrize("name", ["NewReno", "Copa", "Prague", "Compound"])
def test_windows_grow_by_all_acknowledged_bytes_whatever_L_is(name: str) -> None:
    """RFC 9002 sec. 7.3: each ACK counts for all its bytes; here it is for ten packets."""
    network = Network([Link("100 Mb/s", "25 ms", buffer="100 kB")], [Flow([0], delayed_acks=(10, "25 ms"))])
    runs = [
        ecc.packet.simulate(Scenario(network, getattr(ecc.models, name)(initial=10, transport="quic", L=L), 1.0))
        for L in (0.0, 2.0, 1e6)
    ]
    assert len({run.stats["digest"] for run in runs}) == 1


def test_marks_begin_a_recovery() -> None:
    network = Network.dumbbell("20 Mb/s", rtts=[0.04], buffer=200_000)
    marking = StepMarking(threshold=30)
    for protocol in (NewReno(transport="quic", ecn=True), DCTCP(transport="quic")):
        found = ecc.packet.simulate(Scenario(network, {"flows": protocol, "links": marking}, 5.0), sample=0.1)
        assert found.drops.sum() == 0
        assert found.goodput.values.mean() > 0.7 * 20e6


@pytest.mark.property
@pytest.mark.parametrize("seed", range(5))
def test_packet_numbers_never_repeat_and_bytes_are_conserved(seed: int) -> None:
    network = Network.dumbbell("8 Mb/s", rtts=[0.03, 0.05], buffer=15_000)
    network = network.with_flows([replace(flow, size=300_000) for flow in network.flows])
    scenario = Scenario(network, NewReno(transport="quic"), 60.0, seed=seed, impairments=[RandomLoss(0.1, link=0)])
    twin = build_twin(prepare(scenario), seed=seed)
    numbers: list[tuple[int, int]] = []
    leave = twin.leave_sender

    def noted(flow: Any, segment: Any) -> Any:
        packet = leave(flow, segment)
        numbers.append((flow.number, packet.number))
        return packet

    twin.leave_sender = noted  # type: ignore[method-assign]
    twin.advance(60.0)
    assert len(set(numbers)) == len(numbers)
    for flow in twin.flows.values():
        assert isinstance(flow.outgoing, Quic)
        assert flow.completed and flow.received == 300_000
        assert [number for f, number in numbers if f == flow.number] == list(range(flow.outgoing.next_number))
        assert flow.sent - flow.lost == 300_000


def test_what_quic_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("prr must be False or None with the transport 'quic', got True")):
        NewReno(transport="quic", prr=True)
    network = Network.dumbbell("8 Mb/s", rtts=[0.03], buffer=200_000)
    with pytest.raises(
        ValueError, match="start must be 'empty' at an equilibrium with queues over the transport 'quic'"
    ):
        ecc.packet.simulate(Scenario(network, ecc.models.FAST(transport="quic"), 1.0), start="equilibrium")


# ---- pacing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["newreno", "sack", "rack", "quic"])
def test_a_paced_window_leaves_at_its_rate_after_a_burst(transport: str) -> None:
    protocol = Paced(transport, first=20, grows=False)
    engine, _ = run(protocol, duration=0.09, delayed_acks=AT_ONCE)
    times = [time for time, _ in sent(engine)]
    # nothing is paced before the first RTT sample; after it, 20 packets in 31 ms at 1.25 windows per RTT: 1.24 ms
    assert times[:20] == [0.0] * 20
    gaps = [after - before for before, after in zip(times[20:38], times[21:39], strict=True)]
    assert max(gaps) < 2.0 and min(gaps) >= 1.0


@dataclass(frozen=True)
class Paced(Window):
    pacing: float = 1.25

    def pacing_burst(self, packet_size: float) -> float:
        return 4.0 * packet_size


@pytest.mark.slow
def test_a_window_grows_although_its_pacer_keeps_it_from_being_filled() -> None:
    # the path holds 25 packets, and the buffer is never full: bytes in flight stay below the window
    network = Network.dumbbell("8 Mb/s", rtts=[0.025], buffer=10**9)
    for pacing in (0.0, 1.25):
        scenario = Scenario(network, NewReno(transport="quic", initial=10.0, pacing=pacing), 3.0)
        twin = build_twin(prepare(scenario))
        twin.advance(3.0)
        assert twin.flows[0].window > 100_000.0


def test_an_idle_paced_sender_does_not_grow_its_window() -> None:
    network = Network.dumbbell("8 Mb/s", rtts=[0.025])
    network = network.with_flows([replace(flow, writes=(3000, "50 ms")) for flow in network.flows])
    twin = build_twin(prepare(Scenario(network, NewReno(transport="quic", initial=12.0, pacing=1.25), 3.0)))
    twin.advance(3.0)
    assert twin.flows[0].window == 12_000.0


HOSTS = {
    name: host
    for name, host in vars(ecc.models).items()
    if isinstance(host, type) and issubclass(host, WindowProtocol) and host is not WindowProtocol
}


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_pacing_is_refused_for_hosts_that_set_rates(name: str) -> None:
    host = HOSTS[name]
    assert host.sets_rate == any(uses_field(hook, "rate") for hook in host().flow_hooks().values())
    if host.sets_rate:
        with pytest.raises(ValueError, match=f"pacing must be 0 for {name}, which sets its rate, got 1.25"):
            host(pacing=1.25)
    else:
        assert host(pacing=1.25).pacing == 1.25


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HOSTS))
def test_every_host_over_quic_in_both_engines(name: str) -> None:
    network = Network.dumbbell("8 Mb/s", rtts=[0.02, 0.05], buffer=15_000)
    host = HOSTS[name](transport="quic")
    losses = [RandomLoss(0.02, link=0)]
    scenario = Scenario(network, host, 1.5, seed=3, impairments=losses)
    setup = prepare(scenario)
    engine, twin = build_engine(setup, scenario, trace=100_000), build_twin(setup, seed=3)
    while engine.advance(1.5, 500) == "max_events":
        engine.verify()
    twin.advance(1.5)
    assert engine.trace.tolist() == twin.events_traced.tolist()
    assert engine.flow_results.tobytes() == twin.flow_results.tobytes()
    assert min(engine.flow_results["received"]) >= 10_000
