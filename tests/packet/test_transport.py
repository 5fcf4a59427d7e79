"""Loss recovery in the packet engine: which packet is sent when, against what RFC 6582, 6675 and 6298 prescribe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecc
from ecc.contract.env import Hook
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.protocol import Protocol
from ecc.native import Engine
from ecc.network.impairments import Impairment, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import Kind, build_twin
from ecc.scenario import Scenario
from ecc.traffic.tmix import ACCEPTOR, INITIATOR, ConnectionVector, Unit
from ecc.traffic.workload import Tmix

# A window protocol as small as can be, whose link drops the packets that it is told to ------------------------------


@dataclass
class WindowState:
    ssthresh: float = 1e15
    losses: int = 0
    timeouts: int = 0
    flight: int = 0
    acked: int = 0
    recovered: int = 0


@dataclass
class Arrivals:
    n: int = 0


def drop_on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    if link.n == p.drop0 or link.n == p.drop1 or link.n == p.drop2 or link.n == p.drop3:
        env.drop = 1
    link.n += 1


def window_on_start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = p.first * env.packet_size
    env.rate = p.rate


def window_on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.acked += env.acked
    flow.recovered += env.recovered
    if env.recovered == 1 and p.first > 0.0:
        env.window = flow.ssthresh
    elif p.first > 0.0 and p.grows > 0.0 and env.recovering == 0 and env.acked > 0:
        size = float(env.packet_size)
        env.window += size if env.window < flow.ssthresh else size * size / env.window


def window_on_loss(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.flight = env.in_flight
    flow.ssthresh = max(0.5 * env.in_flight, 2.0 * env.packet_size)
    if env.kind == 1:
        flow.timeouts += 1
        env.window = 1.0 * env.packet_size
    else:
        flow.losses += 1
        env.window = flow.ssthresh
    if p.first == 0.0:
        env.window = 0.0


@dataclass(frozen=True)
class Window(Protocol):
    transport: str | None = "newreno"
    first: float = 2.0
    grows: bool = True
    rate: float = 0.0
    drops: tuple[int, ...] = ()
    receiver_window: int = 0
    min_rto: float = 1.0
    initial_rto: float = 1.0
    rto_granularity: float = 0.0

    LinkState, FlowState = Arrivals, WindowState

    def params(self) -> dict[str, float]:
        drops = {f"drop{k}": float(n) for k, n in enumerate((*self.drops, -1, -1, -1, -1)[:4])}
        return {"first": self.first, "grows": float(self.grows), "rate": self.rate, **drops}

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": drop_on_arrival}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": window_on_start, "on_ack": window_on_ack, "on_loss": window_on_loss}

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, capacity

    def equilibrium(self, network: Network, assignment: Any = None) -> Equilibrium:
        raise NotImplementedError


def run(protocol: Protocol, duration: float = 0.12, **flow: Any) -> tuple[Engine, Any]:
    """A packet takes 1 ms on the link; its ACK is back 31 ms after it left. The engine, and the flow's record."""
    one = Flow([0], access_delay=0.005, **flow)
    scenario = Scenario(Network([Link("8 Mb/s", "10 ms")], [one]), protocol, duration=duration)
    setup = prepare(scenario)
    engine = build_engine(setup, scenario, trace=10_000)
    engine.advance(duration)
    engine.verify()
    return engine, setup.parts[0].flow_states[0]


def sent(engine: Engine) -> list[tuple[float, int]]:
    """When [ms] which packet left: it gets to the link 5 ms later."""
    rows = engine.trace[engine.trace["kind"] == Kind.ACCESS]
    return [(time / 10**9 - 5.0, value // 1000) for time, value in zip(rows["time"], rows["value"], strict=True)]


def acks(engine: Engine) -> list[tuple[float, int]]:
    """When [ms] an ACK came, and for which packet."""
    rows = engine.trace[engine.trace["kind"] == Kind.ACK]
    return [(time / 10**9, value // 1000) for time, value in zip(rows["time"], rows["value"], strict=True)]


BOTH = pytest.mark.parametrize("transport", ["newreno", "sack"])
BURST = [(0.0, k) for k in range(10)]
CLOCKED = [(31.0, 10), (32.0, 11), (33.0, 12)]  # by the ACKs of the first three


@BOTH
def test_one_loss(transport: str) -> None:
    engine, flow = run(Window(transport, first=10, grows=False, drops=(3,)), duration=0.0995)
    assert sent(engine) == [
        *BURST,
        *CLOCKED,
        (34.0, 13),
        (35.0, 14),  # limited transmit, RFC 3042
        (36.0, 3),  # the third duplicate; 10 were in flight, the window is 5 from now on
        (63.0, 15),
        (64.0, 16),
        (65.0, 17),
        (66.0, 18),  # once 8 of those 12 beyond it have left the network
        (67.0, 19),  # the repeated packet has filled the gap: up to 15, which ends it
        (94.0, 20),
    ]
    assert (flow["losses"], flow["timeouts"], flow["flight"], flow["recovered"]) == (1, 0, 10_000, 1)
    result = engine.flow_results[0]
    assert result["retransmitted"] == result["lost"] == 1000 and flow["acked"] == result["delivered"] == 20_000


def test_two_losses_of_newreno_take_two_round_trips() -> None:
    engine, flow = run(Window("newreno", first=10, grows=False, drops=(3, 6)), duration=0.104)
    assert sent(engine) == [
        *BURST,
        *CLOCKED,
        (34.0, 13),
        (35.0, 14),
        (36.0, 3),
        (64.0, 15),
        (65.0, 16),
        (66.0, 17),
        (67.0, 6),
        (67.0, 18),  # a partial ACK of 3 packets: 10 duplicates count as 10 - 3 + 1
        (95.0, 19),
        (96.0, 20),
        (97.0, 21),
        (98.0, 22),  # a full ACK, of 18
        (99.0, 23),
    ]
    assert (flow["losses"], flow["recovered"]) == (1, 1)


def test_two_losses_of_sack_take_one_round_trip() -> None:
    engine, flow = run(Window("sack", first=10, grows=False, drops=(3, 6)), duration=0.1005)
    assert sent(engine) == [
        *BURST,
        *CLOCKED,
        (34.0, 13),
        (35.0, 14),
        (36.0, 3),
        (63.0, 6),  # held for lost since 38, when three packets beyond it were sacked; pipe is 4 now
        (64.0, 15),
        (65.0, 16),
        (66.0, 17),
        (67.0, 18),
        (94.0, 19),  # a full ACK
        (95.0, 20),
    ]
    assert (flow["losses"], flow["recovered"]) == (1, 1)


def test_sack_rescues_the_end_of_a_flow() -> None:
    engine, flow = run(Window("sack", first=10, grows=False, drops=(3, 9)), duration=0.3, size=10_000)
    # nothing new is left, and nothing is sacked beyond 9: NextSeg (4), once the first repeated one is acknowledged
    assert sent(engine) == [*BURST, (36.0, 3), (67.0, 9)]
    assert engine.flow_results[0]["completed"] == 1 and engine.flow_results[0]["finish"] == 98 * 10**9
    assert flow["timeouts"] == 0


def test_newreno_waits_for_the_timeout_at_the_end_of_a_flow() -> None:
    engine, flow = run(Window("newreno", first=10, grows=False, drops=(8, 9)), duration=2.0, size=10_000)
    # the last ACK, at 38 ms, started the timer; then the window is one packet, and duplicates are none
    assert sent(engine) == [*BURST, (1038.0, 8), (1069.0, 9)]
    assert flow["timeouts"] == 1 and flow["flight"] == 2000


@BOTH
@pytest.mark.parametrize(
    ("protocol", "repeated"),
    [
        # RTTs of 31 and 32 ms: srtt = 31.125, rttvar = 15.5 + (1 - 15.5) / 4 = 11.875
        ({"min_rto": 0.0}, [32.0 + 31.125 + 4 * 11.875]),
        ({"min_rto": 0.0, "rto_granularity": 0.1}, [32.0 + 31.125 + 100.0]),
        ({"min_rto": 0.2}, [232.0]),
        ({"min_rto": 0.2, "drops": (2, 3, 4)}, [232.0, 632.0, 1432.0]),  # it backs off
    ],
)
def test_the_timeout(transport: str, protocol: dict[str, Any], repeated: list[float]) -> None:
    engine, flow = run(Window(transport, **{"first": 10, "drops": (2,), **protocol}), duration=2.0, size=3000)
    assert sent(engine) == [*BURST[:3], *((pytest.approx(time, abs=1e-6), 2) for time in repeated)]
    assert flow["timeouts"] == len(repeated) and engine.flow_results[0]["completed"] == 1


@BOTH
def test_the_timer_begins_anew_with_a_recovery(transport: str) -> None:
    # RTTs that do not vary: the RTO is one RTT, and what is sent again at the third duplicate takes as long
    engine, flow = run(Window(transport, first=10, grows=False, drops=(203,), min_rto=0.0), duration=1.0)
    assert (flow["losses"], flow["timeouts"]) == (1, 0) and engine.flow_results[0]["retransmitted"] == 1000


@BOTH
def test_no_timer_expires_where_the_rtt_exceeds_the_least_rto(transport: str) -> None:
    # slow start overshoots by a window: with SACK the last of it is sent again an RTT after the recovery began
    net = Network.dumbbell("2 Mb/s", rtts=[1.0], buffer="250 kB")
    found = ecc.packet.simulate(Scenario(net, ecc.models.NewReno(transport=transport), 120.0), sample=1.0)
    assert found.drops.sum() > 200
    if transport == "sack":
        assert found.flows["retransmitted"][0] == 1000 * found.drops.sum()
    assert found.goodput[60:].mean() > 0.999 * 2e6


@pytest.mark.parametrize("transport", ["newreno", "sack", None])
def test_the_first_timer_waits_for_what_an_answer_takes(transport: str | None) -> None:
    def first_again(**others: Any) -> float:
        """When what was dropped is sent again [s]; its first copy was at 0."""
        links = [Link("8 Mb/s", "0.5 s"), Link("0.8 Mb/s", "0.25 s")]
        net = Network(links, [Flow([0], access_delay=0.25, size=1000, reverse=[1], **others)])
        protocol = Window(transport, first=1, drops=(0,), min_rto=0.2)
        ways = [Jitter(("0.1 s", "0.2 s"), link=1), Jitter(("0.2 s", "0.3 s"), acks_of=0)]
        setup = prepare(scenario := Scenario(net, protocol, 60.0, impairments=ways))
        engine = build_engine(setup, scenario, trace=100)
        engine.advance(60.0)
        assert engine.flow_results[0]["completed"] == 1
        return float(engine.trace[engine.trace["kind"] == Kind.ACCESS]["time"][1] / 1e12) - 0.25

    first = 0.25 + 0.001 + 0.5 + 0.0004 + 0.25 + 0.1 + 0.25 + 0.2
    assert first_again() == pytest.approx(3.0 * first)
    assert first_again(delayed_acks=(2, 1.0)) == pytest.approx(3.0 * (first + 1.0))


@BOTH
@pytest.mark.parametrize(
    ("least", "initial", "expected"), [(0.2, 1.0, 1000.0), (0.2, 0.3, 300.0), (0.4, 0.3, 400.0), (0.01, 0.01, 93.12)]
)
def test_the_first_timeout_has_a_least_value_of_its_own(
    transport: str, least: float, initial: float, expected: float
) -> None:
    """... which is no less than that of the others, or three times what an answer takes (31.04 ms)."""
    protocol = Window(transport, first=1, drops=(0,), min_rto=least, initial_rto=initial)
    engine, _ = run(protocol, duration=2.0, size=1000)
    assert sent(engine)[1] == (pytest.approx(expected, rel=2e-3), 0)


@pytest.mark.parametrize("rtt", [0.99, 1.0, 2.02])
@pytest.mark.parametrize("name", ["NewReno", "BIC", "RCP", "EMKC", "XCP"])
def test_nothing_is_lost_before_an_answer_can_be_back(name: str, rtt: float) -> None:
    net = Network.dumbbell("10 Mb/s", rtts=[rtt], sizes=[100_000])
    found = ecc.packet.simulate(Scenario(net, getattr(ecc.models, name)(), 40.0), sample=1.0)
    flow = found.flows.iloc[0]
    assert flow["lost"] == flow["retransmitted"] == 0 and flow["delivered"] == 100_000
    assert found.goodput.sum().item() / 8.0 == pytest.approx(100_000)


@BOTH
def test_after_a_timeout_all_is_sent_again_in_slow_start(transport: str) -> None:
    engine, flow = run(Window(transport, first=4, drops=(0, 1, 2, 3)), duration=1.1)
    assert sent(engine) == [
        *BURST[:4],
        (1000.0, 0),
        (1031.0, 1),
        (1031.0, 2),  # ssthresh is 2
        (1062.0, 3),
        (1063.0, 4),
        (1093.0, 5),
        (1093.0, 6),
        (1094.0, 7),  # 2.5, 2.9, 3.2, 3.6 packets
    ]
    assert flow["timeouts"] == 1 and engine.flow_results[0]["retransmitted"] == 4000


def test_what_sack_knows_is_not_sent_again_after_a_timeout() -> None:
    # 3 is lost twice; its timeout comes when 4 to 9 are held, which the ACK of its third copy says
    engine, _ = run(Window("sack", first=10, grows=False, drops=(3, 10), min_rto=0.2), duration=0.4, size=10_000)
    assert sent(engine) == [*BURST, (36.0, 3), (236.0, 3)]  # the timer began anew with the second copy
    assert engine.flow_results[0]["completed"] == 1


@BOTH
def test_the_receiver_window_limits_new_data(transport: str) -> None:
    engine, _ = run(Window(transport, first=10, receiver_window=4000), duration=0.04)
    assert sent(engine) == [*BURST[:4], (31.0, 4), (32.0, 5), (33.0, 6), (34.0, 7)]


@BOTH
def test_a_paced_flow_repairs_losses_at_its_pace(transport: str) -> None:
    engine, flow = run(Window(transport, first=0, grows=False, rate=4e6, drops=(1,)), duration=0.1)
    expected = [(2.0 * k, k) for k in range(20)] + [(40.0, 1)] + [(2.0 * k, k - 1) for k in range(21, 48)]
    assert sent(engine) == expected  # duplicates come at 35, 37 and 39
    assert flow["losses"] == 1 and flow["recovered"] == 1
    assert engine.flow_results[0]["delivered"] == engine.flow_results[0]["sent"] - 1000 - 16_000


@BOTH
def test_delayed_acks_do_not_wait_beside_a_gap(transport: str) -> None:
    engine, _ = run(Window(transport, first=6, drops=(3,)), duration=0.04, delayed_acks=(2, 0.05))
    # 2 is kept, and gone when 4 comes out of order
    assert acks(engine) == [(32.0, 1), (34.0, 4), (35.0, 5)]


@BOTH
def test_reordering_within_three_packets_is_no_loss(transport: str) -> None:
    net = Network([Link("8 Mb/s", "10 ms")], [Flow([0], access_delay=0.005, size=500_000)])
    scenario = Scenario(net, Window(transport, first=20), 20.0, impairments=[Jitter((0.0, 0.0015), 0, in_order=False)])
    flow = ecc.packet.simulate(scenario, sample=1.0).flows.iloc[0]
    assert flow["retransmitted"] == 0 and flow["completion_time"] < 2.0


@BOTH
def test_a_transfer_arrives_whole_through_random_loss(transport: str) -> None:
    net = Network.dumbbell("10 Mb/s", rtts=[0.04], buffer="50 kB", sizes=[1_000_000])
    scenario = Scenario(net, Window(transport), duration=60.0, impairments=[RandomLoss(0.02, link=0)])
    found = ecc.packet.simulate(scenario, sample=1.0)
    flow = found.flows.iloc[0]
    assert flow["delivered"] == 1_000_000 and flow["completion_time"] < 20.0
    assert 0.01 * 1_000_000 < flow["retransmitted"] == flow["lost"] < 0.06 * 1_000_000
    assert found.goodput.sum().item() / 8.0 == pytest.approx(1_000_000)
    assert found.rate.sum().item() / 8.0 == pytest.approx(1_000_000 + flow["retransmitted"])


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(
        ValueError, match="transport must be one of None, 'newreno', 'sack', 'rack', 'quic', got 'tahoe'"
    ):
        run(Window("tahoe"))


# Whatever happens on the way ------------------------------------------------------------------------------------------


@st.composite
def impaired_scenarios(draw: Any) -> Scenario:
    links = [Link(draw(st.sampled_from(["2 Mb/s", "8 Mb/s"])), 0.005, draw(st.sampled_from([None, 4000, 20_000])))]
    links.append(Link("1 Mb/s", 0.005))
    flows = []
    for _ in range(draw(st.integers(1, 3))):
        flows.append(
            Flow(
                [0],
                access_delay=draw(st.sampled_from([0.0, 0.01])),
                size=draw(st.integers(1, 60_000)),
                packet_size=draw(st.sampled_from([500, 1000, (300, 1500)])),
                reverse=draw(st.sampled_from([None, [1]])),
                delayed_acks=draw(st.sampled_from([None, (2, 0.04)])),
                start=draw(st.sampled_from([0.0, 0.1])),
                stop=draw(st.sampled_from([None, None, 0.3])),
            )
        )
    possible: list[Impairment] = [
        RandomLoss(draw(st.sampled_from([0.02, 0.1, 0.3])), link=0),
        RandomLoss(0.3, acks_of="all"),
        RandomLoss(0.2, link=1, kind="all"),
        Jitter((0.0, 0.02), link=0, in_order=False),
        Jitter((0.0, 0.02), acks_of="all", in_order=False),
    ]
    first = draw(st.sampled_from([0.0, 2.0, 20.0]))
    protocol = Window(
        draw(st.sampled_from(["newreno", "sack", "rack", "quic"])),
        first,
        rate=draw(st.sampled_from([0.0, 1e6])) if first else 1e6,
        min_rto=draw(st.sampled_from([0.01, 0.2])),
        receiver_window=draw(st.sampled_from([0, 0, 3000])),
    )
    impairments = draw(st.lists(st.sampled_from(possible), unique=True, max_size=4))
    # timeouts back off to 64 s: with these losses a transfer may take many minutes
    return Scenario(Network(links, flows), protocol, 3000.0, seed=draw(st.integers(0, 99)), impairments=impairments)


@pytest.mark.property
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(scenario=impaired_scenarios())
def test_every_byte_arrives_once_and_as_in_the_twin(scenario: Scenario) -> None:
    setup = prepare(scenario)
    twin = build_twin(setup, seed=scenario.seed)
    engine = build_engine(setup, scenario, trace=200_000)
    while engine.advance(scenario.duration, 500) == "max_events":
        engine.verify()
    twin.advance(scenario.duration)
    assert engine.trace.tolist() == twin.events_traced.tolist()
    assert engine.flow_results.tobytes() == twin.flow_results.tobytes()
    for flow, result, state in zip(
        scenario.network.flows, engine.flow_results, setup.parts[0].flow_states, strict=True
    ):
        assert result["sent"] >= result["received"] >= result["delivered"]
        assert result["sent"] - result["retransmitted"] <= flow.size
        if flow.stop is None:
            assert result["completed"] == 1
            assert result["received"] == result["delivered"] == flow.size
            if scenario.protocol.transport == "quic":  # counts packets, also those that repeat data (S-217)
                assert 0 < state["acked"] <= result["sent"]
            else:
                assert state["acked"] == flow.size
            assert result["sent"] - result["retransmitted"] == flow.size


def test_a_rate_protocol_may_repair() -> None:
    @dataclass(frozen=True)
    class Repairing(ecc.models.RCP):
        transport: str | None = "sack"

    net = Network.dumbbell("10 Mb/s", rtts=[0.05] * 2, sizes=[500_000] * 2)
    found = ecc.packet.simulate(Scenario(net, Repairing(), 20.0, impairments=[RandomLoss(0.05, link=0)]), sample=1.0)
    assert np.all(found.flows["delivered"] == 500_000) and np.all(found.flows["completion_time"] < 5.0)
    assert np.all(found.flows["retransmitted"] > 15_000)


@BOTH
def test_a_connections_windows_limit_its_sides(transport: str) -> None:
    units = [Unit(INITIATOR, 10_000), Unit(ACCEPTOR, 10_000)]
    vectors = [ConnectionVector(0.0, 0.1, units, windows=windows) for windows in ((2000, 5000), None, (10, 10_000))]
    links = [Link("800 Mb/s", 0.0)] * 3
    took = []
    for vector in vectors:
        network = Network(links, [Flow([2], size=1)])
        scenario = Scenario(network, Window(transport, first=10, grows=False), 5.0, workload=Tmix([vector], [0], [1]))
        took.append(ecc.packet.simulate(scenario).flows["completion_time"][1:].tolist())
    # so many packets in an RTT of 0.1 s
    assert took == [pytest.approx([n * 0.1 for n in row], rel=0.01) for row in ([5, 2], [1, 1], [10, 1])]
