"""RACK-TLP in the packet engine: which packet is sent when, by hand, against what RFC 8985, 2883 and 3522 prescribe.

What holds of any transport, with losses and reordering of all kinds and in the twin, is in `test_transport.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from test_transport import BURST, CLOCKED, Window, WindowState, run, sent, window_on_ack

import ecc
from ecc.impairments import CapacitySchedule, Impairment
from ecc.models.base import Hook
from ecc.native import Engine
from ecc.network import Flow, Link, Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
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
        *BURST, *CLOCKED, (34.0, 13), (35.0, 14),
        (36.0, 3),  # 12 are outstanding, of which 3 are sacked: 9 with this, the window is 6 from now on
        (62.0, 15), (63.0, 16), (64.0, 17), (65.0, 18), (66.0, 19),
        (67.0, 20),  # the gap is filled, 15 were in flight when it was found: the recovery ends
    ]  # fmt: skip
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
