"""RACK-TLP in the packet engine: which packet is sent when, by hand, against what RFC 8985, 2883 and 3522 prescribe.

What holds of any transport, with losses and reordering of all kinds and in the twin, is in `test_transport.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from test_transport import BURST, CLOCKED, Window, WindowState, run, sent, window_on_ack

import ecc
from ecc.contract.choices import LOST_RETRANSMISSIONS
from ecc.contract.env import Hook
from ecc.native import Engine
from ecc.network.impairments import CapacitySchedule, Impairment, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin.rack import Rack
from ecc.queues import Policer
from ecc.scenario import Scenario


@dataclass
class State(WindowState):
    undone: int = 0


def on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.undone += env.undone
    window_on_ack(flow, header, p, env)


@dataclass(frozen=True)
class Counting(Window):
    """A window that counts what was for nothing."""

    transport: str | None = "rack"
    lost_retransmission: str = "reduce"

    FlowState = State

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": on_ack}


def run_over(network: Network, protocol: Window, duration: float, *impairments: Impairment) -> tuple[Engine, Any]:
    scenario = Scenario(network, protocol, duration=duration, impairments=impairments)
    setup = prepare(scenario)
    engine = build_engine(setup, scenario, trace=100_000)
    engine.advance(duration)
    engine.verify()
    return engine, setup.parts[0].flow_states[0]


# ---- losses ----------------------------------------------------------------------------------------------------------


def test_one_loss_is_found_at_three_segments_beyond_it() -> None:
    engine, flow = run(Window("rack", first=10, grows=False, drops=(3,)), duration=0.0925)
    assert sent(engine) == [
        *BURST,
        *CLOCKED,
        (34.0, 13),
        (35.0, 14),
        (36.0, 3),  # 12 are outstanding, of which 3 are sacked: 9 with this, the window is 6 from now on
        (62.0, 15),
        (63.0, 16),
        (64.0, 17),
        (65.0, 18),
        (66.0, 19),
        (67.0, 20),  # the gap is filled, 15 were in flight when it was found: the recovery ends
    ]
    assert (flow["losses"], flow["flight"], flow["recovered"]) == (1, 12_000, 1)
    assert engine.flow_results[0]["retransmitted"] == 1000


def test_a_loss_is_found_by_time_where_few_follow() -> None:
    # 2 is missing, and only 3 comes, at 33, beyond it: a quarter of the least RTT is left for reordering
    engine, flow = run(Window("rack", first=4, grows=False, drops=(2,)), duration=0.06)
    assert sent(engine) == [*BURST[:4], (31.0, 4), (32.0, 5), (33.0, 6), (pytest.approx(33.0 + 7.75), 2)]
    assert flow["losses"] == 1


@pytest.mark.parametrize(("transport", "again"), [("sack", 236.0), ("rack", 69.0)])
def test_the_loss_of_a_retransmission_is_found_without_a_timeout(transport: str, again: float) -> None:
    # 15 packets have left when 3 is sent again, and its copy is the 16th at the link; what was sent after the copy, 15,
    # is acknowledged at 93
    protocol = Window(transport, first=10, grows=False, drops=(3, 15), min_rto=0.2)
    engine, flow = run(protocol, duration=0.3)
    copies = [time for time, packet in sent(engine) if packet == 3]
    assert copies[:2] == [0.0, 36.0] and len(copies) == 3
    assert copies[2] == (pytest.approx(93.0) if transport == "rack" else pytest.approx(again, abs=31.0))
    assert flow["timeouts"] == (transport == "sack")
    assert engine.flow_results[0]["retransmitted"] == (2000 if transport == "rack" else pytest.approx(6000, abs=5000))


@pytest.mark.parametrize(
    ("drops", "reduced", "linux"),
    [
        ((3,), 1, 1),
        ((3, 15), 2, 1),  # a retransmission
        ((3, 16), 2, 2),  # new data that was sent in the recovery, which ends before its loss is found
        ((3, 15, 16), 2, 2),  # both, in one RTT; Linux answers the second one at the end of the recovery
    ],
)
def test_the_loss_of_a_packet_sent_in_a_recovery_is_answered(drops: tuple[int, ...], reduced: int, linux: int) -> None:
    for rule, losses in (("reduce", reduced), ("linux", linux)):
        engine, flow = run(Counting(first=10, grows=False, drops=drops, lost_retransmission=rule), duration=0.3)
        assert (flow["losses"], flow["timeouts"], flow["undone"]) == (losses, 0, 0)
        assert engine.flow_results[0]["retransmitted"] == 1000 * len(drops)


@dataclass(frozen=True)
class Proportional(Counting):
    uses_prr: bool = True


@pytest.mark.parametrize(
    ("transport", "window", "later"),
    [
        # FlightSize is 10; 9 packets are in flight or lost as the ACK at 36 delivers one: the ACKs at 36 to 39 allow
        # 500, 1000, 1500, 2000 bytes; at 63, 5 are in flight, and each ACK replaces its packet until the end, at 67
        ("sack", 5000.0, [(39.0, 15), (64.0, 16), (65.0, 17), (66.0, 18), (67.0, 19), (70.0, 20)]),
        # FlightSize is 12, which leaves a window of 6: 600, 1200, 1800 bytes; at 39, 6 are in flight
        ("rack", 6000.0, [(62.0, 15), (63.0, 16), (64.0, 17), (65.0, 18), (66.0, 19), (67.0, 20)]),
    ],
)
def test_proportional_rate_reduction_spreads_the_reduction(
    transport: str, window: float, later: list[tuple[float, int]]
) -> None:
    engine, flow = run(Proportional(transport, first=10, grows=False, drops=(3,)), duration=0.0925)
    assert sent(engine) == [*BURST, *CLOCKED, (34.0, 13), (35.0, 14), (36.0, 3), *later]
    assert (flow["losses"], flow["ssthresh"]) == (1, window)


def test_a_policer_drops_no_more_of_rack_than_of_sack() -> None:
    dropped = {}
    for transport in ("sack", "rack"):
        network = Network([Link("100 Mb/s", "25 ms")], [Flow([0])])
        halves = {"flows": ecc.models.CUBIC(transport=transport), "links": Policer(rate="5 Mb/s", burst="2 MB")}
        found = ecc.packet.simulate(Scenario(network, halves, 40.0), sample=1.0)
        dropped[transport] = int(found.drops.sum())
        assert found.goodput[10:].mean() > 0.9 * 5e6
    assert 0 < dropped["rack"] <= dropped["sack"]


@pytest.mark.parametrize("transport", ["newreno", "sack", "rack"])
@pytest.mark.parametrize("host", [ecc.models.NewReno, ecc.models.CUBIC])
def test_a_transfer_ends_where_each_third_packet_is_lost(transport: str, host: Any) -> None:
    network = Network([Link("10 Mb/s", "10 ms")], [Flow([0], size=100_000)])
    loss = RandomLoss(0.3, link=0)
    protocol = host(transport=transport, min_rto=0.2)
    found = ecc.packet.simulate(Scenario(network, protocol, 600.0, impairments=[loss]), sample=10.0)
    assert found.flows["completion_time"][0] < 600.0


def test_lost_retransmissions_reduce_the_window_until_the_path_carries_it() -> None:
    # the path holds 150 packets; without further reductions it stays full of packets that are dropped
    network = Network([Link("10 Mb/s", "50 ms", buffer_packets=50)], [Flow([0], packet_size=1250)])
    protocol = ecc.models.NewReno(transport="rack", initial=1000)
    found = ecc.packet.simulate(Scenario(network, protocol, 4.0), sample=0.05, record=["env.window"])
    windows = dict.fromkeys((found["env.window"].to_numpy()[:30, 0] / 1250).round().astype(int).tolist())
    assert [window for window in windows if window < 1000][:3] == [525, 262, 131]
    assert found.goodput.sel(time=slice(1.0, None)).mean() > 0.95 * 10e6


@pytest.mark.parametrize(("rule", "is_undone"), [("reduce", False), ("linux", True)])
def test_a_recovery_with_a_second_reduction_is_not_undone(rule: str, is_undone: bool) -> None:
    given = SimpleNamespace(
        transport=3, reordering_threshold=0, receiver_window=0, lost_retransmission=LOST_RETRANSMISSIONS.index(rule)
    )
    sender = Rack(given, written=100_000, srtt=0.03, min_rtt=0.03)

    def send(ms: int) -> int:
        sender.now, segment = ms * 10**9, sender.next(1000)
        sender.sent(segment)
        return segment.begin // 1000

    def acknowledge(ms: int, sent_at: int, ack: int, *sacks: tuple[int, int]) -> bool:
        sender.now, sender.echo = ms * 10**9, sent_at * 10**9
        return sender.receive_ack(ack, list(sacks), 1000)[1]

    assert [send(k) for k in range(10)] == list(range(10))
    assert acknowledge(36, 6, 3000, (4000, 7000))  # 3 is late: a recovery begins
    assert (send(36), send(37)) == (3, 10)
    assert acknowledge(67, 37, 3000, (10_000, 11_000), (4000, 7000)) == (rule == "reduce")  # its copy is lost
    assert send(67) == 3
    assert not acknowledge(70, 3, 11_000)  # the first one arrives, sent before both copies
    assert sender.undone == is_undone


@dataclass
class Mark:
    is_repeated: int = 0


def mark_on_send(flow: Any, header: Any, p: Any, env: Any) -> None:
    header.is_repeated = env.kind


def drop_repeated_on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    if header.is_repeated > 0 or link.n == p.drop0:
        env.drop = 1
    link.n += 1


def halve_on_loss(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.losses += 1 - env.kind
    flow.timeouts += env.kind
    flow.ssthresh = max(0.5 * min(env.window, 1.0 * env.in_flight), 2.0 * env.packet_size)
    env.window = flow.ssthresh if env.kind == 0 else 1.0 * env.packet_size


@dataclass(frozen=True)
class LosesRetransmissions(Counting):
    """A window behind a link that drops a packet, and all that is sent again."""

    Header = Mark

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": drop_repeated_on_arrival}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_send": mark_on_send, "on_loss": halve_on_loss}


@pytest.mark.parametrize("transport", ["newreno", "sack", "rack"])
def test_lost_retransmissions_never_go_unanswered(transport: str) -> None:
    # RFC 6582 and 6675 find the loss of a retransmission by a timeout only; RACK finds it each RTT, of 31 ms or more
    protocol = LosesRetransmissions(transport, first=10, grows=False, drops=(3,), min_rto=0.2)
    engine, flow = run(protocol, duration=3.0)
    n_copies = engine.flow_results[0]["retransmitted"] / 1000
    if transport == "rack":
        assert (flow["losses"], flow["timeouts"], flow["ssthresh"]) == (n_copies, 0, 2000.0)
        assert 3.0 / 0.064 < n_copies <= 3.0 / 0.031
    else:
        assert (flow["losses"], flow["timeouts"], n_copies) == (1, 3, 4)  # 0.2, 0.4 and 0.8 s after the one before


def test_the_work_per_ack_does_not_grow_with_the_window() -> None:
    # 16,000 packets wait, and thousands are lost and found again: with a list that is searched this takes hours
    network = Network([Link("144 Mb/s", "285 ms", buffer_packets=16_000)], [Flow([0], packet_size=1500)])
    jitter = Jitter(("0 ms", "60 ms"), link=0)
    protocol = ecc.models.CUBIC(transport="rack", initial=10.0)
    found = ecc.packet.simulate(Scenario(network, protocol, 45.0, impairments=[jitter]), sample=1.0)
    assert found.drops.sum() > 10_000
    assert found.stats["cpu_seconds"] < 10e-6 * found.stats["events"]


def test_a_probe_asks_for_the_end_of_a_flow() -> None:
    engine, flow = run(Window("rack", first=10, grows=False, drops=(8, 9)), duration=2.0, size=10_000)
    # the last ACK comes at 38 ms, with RTTs of 31 to 38 ms; the probe is acknowledged, and 8 is overdue
    srtt = 31.0
    for k in range(1, 8):
        srtt += (31.0 + k - srtt) / 8.0
    probe = 38.0 + 2.0 * srtt
    assert sent(engine) == [*BURST, (pytest.approx(probe), 9), (pytest.approx(probe + 31.0), 8)]
    assert (flow["losses"], flow["timeouts"]) == (1, 0) and engine.flow_results[0]["completed"] == 1


def test_a_probe_that_repairs_the_only_loss_is_answered() -> None:
    # 14 is the last of a window that is full; its probe is new data, which the receiver holds beyond the gap
    engine, flow = run(Counting(first=5, grows=False, drops=(14,), receiver_window=5000), duration=0.4)
    again = [time for time, packet in sent(engine) if packet == 14]
    assert len(again) == 2 and flow["timeouts"] == 0
    assert flow["losses"] == 1 and flow["undone"] == 0


def test_new_data_is_the_probe_where_there_is_some() -> None:
    engine, flow = run(Window("rack", first=4, drops=(0, 1, 2, 3)), duration=1.05)
    # no RTT is known: after a second; its ACK shows that all before it is lost
    assert sent(engine) == [*BURST[:4], (1000.0, 4), (1031.0, 0), (1031.0, 1)]
    assert (flow["losses"], flow["timeouts"]) == (1, 0)


def test_a_probe_waits_for_a_delayed_ack() -> None:
    def probed(**others: Any) -> float:
        engine, _ = run(Window("rack", first=1, grows=False, drops=(1,)), duration=2.0, size=2000, **others)
        return sent(engine)[2][0]

    # one packet is in flight, and its ACK would wait
    assert probed() == pytest.approx(31.0 + 62.0)
    assert probed(delayed_acks=(2, 0.1)) == pytest.approx(131.0 + 262.0 + 100.0)


# ---- reordering, and what was for nothing ----------------------------------------------------------------------------


def two_ways(later: str) -> Network:
    """Every other packet takes a longer way."""
    links = [Link("8 Mb/s", "10 ms"), Link("8 Mb/s", later)]
    return Network(links, [Flow([0], alternatives=[[1]], access_delay=0.005)])


@pytest.mark.parametrize(("later", "most"), [("15 ms", 1), ("25 ms", 2), ("32 ms", 4)])
def test_the_window_for_reordering_grows_until_nothing_is_sent_again(later: str, most: int) -> None:
    engine, flow = run_over(two_ways(later), Counting(first=10, grows=False), 3.0)
    assert 1 <= flow["losses"] == flow["undone"] <= most
    result = engine.flow_results[0]
    early, _ = run_over(two_ways(later), Counting(first=10, grows=False), 1.0)
    assert result["retransmitted"] == early.flow_results[0]["retransmitted"] <= 5000


def test_a_timeout_without_a_loss_is_undone() -> None:
    network = Network([Link("8 Mb/s", "10 ms")], [Flow([0], access_delay=0.005)])
    outage = CapacitySchedule(0, [0.04, 0.25], [0.0, 8e6])
    engine, flow = run_over(network, Counting(first=4, grows=False, min_rto=0.1), 0.5, outage)
    # 8 to 11 wait in the queue; 12 is a probe, 8 is sent again at the timeout. Then the first 8 is acknowledged
    assert [packet for _, packet in sent(engine)][:14] == [*range(13), 8]
    assert (flow["timeouts"], flow["losses"], flow["undone"]) == (1, 0, 1)
    assert engine.flow_results[0]["retransmitted"] == 1000


def test_a_timeout_with_a_loss_is_not() -> None:
    engine, flow = run(Counting(first=1, grows=False, drops=(1, 2), min_rto=0.2), duration=2.0, size=3000)
    assert engine.flow_results[0]["completed"] == 1
    assert (flow["timeouts"], flow["undone"]) == (1, 0)


@pytest.mark.parametrize("protocol", [ecc.models.NewReno, ecc.models.CUBIC])
def test_what_is_lost_is_sent_again_once(protocol: Any) -> None:
    network = Network.dumbbell("20 Mb/s", rtts=["50 ms", "100 ms"], buffer="250 kB", sizes=[20e6, 20e6])
    found = ecc.packet.simulate(Scenario(network, protocol(transport="rack"), 60.0), sample=1.0)
    assert found.drops.sum() > 100
    assert found.flows["retransmitted"].sum() == 1000 * found.drops.sum()
