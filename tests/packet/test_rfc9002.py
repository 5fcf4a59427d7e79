"""The transport "quic" against the pseudocode of RFC 9002 (`rfc9002`), event by event.

The twin writes the log of its events. `test_the_engine_repeats_the_runs` compares the C engine with the twin.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
import rfc9002
from rfc9002 import Acked, Counts, Expired, Recovery, ReductionOnly, Sent, State, replay

from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol
from ecc.models import CUBIC, NewReno
from ecc.models.shared import application_limits, windows
from ecc.network.impairments import Impairment, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin, quic
from ecc.packet.twin.events import Twin
from ecc.packet.twin.quic import NEVER, Quic
from ecc.queues import StepMarking
from ecc.scenario import Scenario

SIZE = 1200  # bytes, max_datagram_size
ACK_WAIT = 0.025  # s, max_ack_delay unless a case differs
INITIAL = 10.0  # packets, kInitialWindow
SEED = 1


class Recorder(Twin):
    """The twin with a log of flow 0."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log: list[Sent | Acked | Expired] = []
        self.begun_event: tuple[Any, ...] = ()

    def state_of(self, flow: Any) -> State:
        stream = flow.outgoing
        deadline = self.deadline(flow, stream)
        return State(
            flow.rtt,
            flow.srtt,
            stream.rttvar,
            flow.min_rtt,
            flow.srtt > 0.0,
            frozenset(stream.packets),
            flow.outstanding,
            None if deadline >= NEVER else deadline,
            flow.n_timeouts,
            stream.recovering,
            flow.window,
            flow.state.ssthresh,
        )

    def leave_sender(self, flow: Any, segment: Any) -> Any:
        packet = super().leave_sender(flow, segment)
        if flow.number == 0:
            self.log.append(Sent(self.now, packet.number, packet.size, segment.is_probe, self.state_of(flow)))
        return packet

    def acknowledge_packets(self, flow: Any, stream: Quic, ack: Any) -> None:
        if flow.number == 0 and flow.active:
            self.begun_event = (Acked, self.now, tuple(ack.sacks), ack.ack_delay, ack.ecn)
        super().acknowledge_packets(flow, stream, ack)

    def time_out_packets(self, flow: Any, stream: Quic) -> None:
        if flow.number == 0 and flow.active and self.deadline(flow, stream) <= self.now:
            self.begun_event = (Expired, self.now, stream.loss_time >= NEVER)
        super().time_out_packets(flow, stream)

    def try_send(self, flow: Any, released: bool = False) -> None:
        if flow.number == 0 and self.begun_event:
            (kind, *values), self.begun_event = self.begun_event, ()
            self.log.append(kind(*values, self.state_of(flow)))
        super().try_send(flow, released)


def drop_in_outage(link: Any, header: Any, p: Any, env: Any) -> None:
    if p.begin <= env.now < p.end:
        env.drop = 1


@dataclass(frozen=True)
class Outage(Protocol):
    begin: float = 0.0
    end: float = 0.0

    times = ()

    def params(self) -> dict[str, float]:
        return {"begin": self.begin, "end": self.end}

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": drop_in_outage}


def mark_or_drop(link: Any, header: Any, p: Any, env: Any) -> None:
    drop_in_outage(link, header, p, env)
    if env.now >= p.end:
        env.mark = 1


class MarkedOutage(Outage):
    """An outage after which all packets are marked."""

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": mark_or_drop}


@dataclass(frozen=True)
class Case:
    """A flow over a link of 10 Mb/s, with an RTT of 40 ms by default, and events that its replay must have or lack."""

    meets: tuple[str, ...]
    buffer: int | None = None
    impairments: tuple[Impairment, ...] = ()
    router: Protocol | None = None
    host: dict[str, Any] = field(default_factory=dict)
    flow: dict[str, Any] = field(default_factory=dict)
    duration: float = 2.0
    lacks: tuple[str, ...] = ()

    def scenario(self, protocol: type[NewReno]) -> Scenario:
        flow = replace(Flow([0], access_delay=0.005, packet_size=SIZE), **self.flow)
        parameters = {"application_limited": "rfc9002", "initial": INITIAL, "restart": "none", **self.host}
        host = protocol(transport="quic", **parameters)
        protocols: Any = host if self.router is None else {"flows": host, "links": self.router}
        network = Network([Link("10 Mb/s", "15 ms", buffer=self.buffer)], [flow])
        return Scenario(network, protocols, self.duration, seed=SEED, impairments=list(self.impairments))


def reordering(longest: str, **target: Any) -> tuple[Impairment, ...]:
    return (Jitter((0.0, longest), in_order=False, **target),)


MARKS = StepMarking(threshold=10, packet_size=SIZE)
CASES = {
    "overflows": Case(("recoveries", "lost_by_number", "lost_by_time", "timer_losses", "first_packets"), 20_000),
    "random losses": Case(("recoveries", "lost_by_number", "lost_by_time"), impairments=(RandomLoss(0.03, link=0),)),
    "many losses": Case(
        ("probe_timeouts", "timer_losses", "persistent"), impairments=(RandomLoss(0.25, link=0),), duration=20.0
    ),
    "lost ACKs": Case(("recoveries",), 20_000, (RandomLoss(0.3, acks_of=0),)),
    "reordering below the threshold": Case(
        ("gaps",),
        impairments=reordering("1.5 ms", link=0),
        host={"receiver_window": 30_000},
        lacks=("recoveries", "lost_by_time"),
    ),
    "reordering above the threshold": Case(
        ("gaps", "recoveries", "lost_by_number"), impairments=reordering("12 ms", link=0)
    ),
    "reordered ACKs": Case(("recoveries",), 20_000, reordering("12 ms", acks_of=0)),
    "an outage": Case(("probe_timeouts", "persistent"), 40_000, router=Outage(0.5, 2.0), duration=4.5),
    "an outage of 20 s": Case(("probe_timeouts", "persistent"), 20_000, router=Outage(0.5, 20.0), duration=37.0),
    "an outage from the start": Case(("probe_timeouts",), router=Outage(0.0, 5.0), duration=8.0, lacks=("persistent",)),
    "marks": Case(("recoveries",), router=MARKS, host={"ecn": True}, lacks=("lost_by_number", "lost_by_time")),
    "marks and losses": Case(
        ("recoveries", "lost_by_number"), 16_000, (RandomLoss(0.01, link=0),), MARKS, {"ecn": True}
    ),
    "marks of packets that seem lost": Case(
        ("gaps", "recoveries", "marks_of_lost_packets"),
        impairments=(RandomLoss(0.1, link=0), *reordering("60 ms", link=0)),
        router=StepMarking(threshold=3, packet_size=SIZE),
        host={"ecn": True},
        duration=4.0,
    ),
    "marks after an outage": Case(
        ("persistent",), 60_000, router=MarkedOutage(0.5, 2.0), host={"ecn": True}, duration=4.0
    ),
    "an ACK for 8 packets": Case(("recoveries", "ack_delay"), 20_000, flow={"delayed_acks": (8, ACK_WAIT)}),
    "an ACK for each packet": Case(("recoveries",), 20_000, flow={"delayed_acks": (1, 0.0)}, lacks=("ack_delay",)),
    "bursts of an application": Case(
        ("underutilized", "ack_delay", "recoveries"),
        impairments=(RandomLoss(0.01, link=0),),
        flow={"writes": (20 * SIZE, "60 ms")},
    ),
    "single packets of an application": Case(
        ("underutilized", "ack_delay", "lost_by_time"),
        impairments=(RandomLoss(0.1, link=0),),
        flow={"writes": (SIZE, "30 ms")},
        duration=10.0,
    ),
    "RTTs that differ by an ACK delay": Case(  # of 12 ms, whose floating-point sum with the minimum is too large
        ("underutilized", "ack_delay", "lost_by_time"),
        impairments=(RandomLoss(0.1, link=0),),
        flow={"writes": (SIZE, "30 ms"), "access_delay": 0.012, "delayed_acks": (2, 0.012)},
    ),
    "a slow application": Case(("underutilized",), flow={"writes": "2 Mb/s"}, lacks=("recoveries",)),
    "a receiver's window": Case(("underutilized",), host={"receiver_window": 30_000}, lacks=("recoveries",)),
}


def ack_wait_of(name: str) -> int:
    """Return max_ack_delay of a case [ps]."""
    return rfc9002.ticks(CASES[name].flow.get("delayed_acks", (2, ACK_WAIT))[1])


@cache
def log_of(name: str, protocol: type[NewReno]) -> list[Sent | Acked | Expired]:
    twin = build_twin(prepare(CASES[name].scenario(protocol)), Recorder, seed=SEED)
    twin.advance(CASES[name].duration)
    assert isinstance(twin, Recorder)
    return twin.log


def check_met(name: str, recovery: Recovery, counts: Counts) -> None:
    """Refute a case that does not meet what it is for."""
    met = {
        "recoveries": recovery.controller.events,
        "lost_by_number": recovery.lost_by_number,
        "lost_by_time": recovery.lost_by_time,
        "persistent": recovery.persistent,
        "underutilized": recovery.underutilized,
        "marks_of_lost_packets": recovery.marks_of_lost_packets,
        "first_packets": counts.first_packets,
        "probe_timeouts": counts.probe_timeouts,
        "timer_losses": counts.timer_losses,
        "ack_delay": counts.max_ack_delay,
        "gaps": counts.gaps,
    }
    assert counts.events > 100
    assert [value for value in CASES[name].meets if met[value] == 0] == []
    assert [value for value in CASES[name].lacks if met[value] > 0] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_newreno_follows_appendices_a_and_b(name: str) -> None:
    recovery = Recovery(rfc9002.NewReno(INITIAL * SIZE, SIZE), ack_wait_of(name))
    check_met(name, recovery, replay(log_of(name, NewReno), recovery))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_cubic_follows_appendix_a_and_reduces_once_a_recovery(name: str) -> None:
    controller = ReductionOnly(INITIAL * SIZE, SIZE, loss_reduction_factor=CUBIC().beta)
    recovery = Recovery(controller, ack_wait_of(name))
    check_met(name, recovery, replay(log_of(name, CUBIC), recovery))


def test_growth_per_ack_is_close_to_the_loop_over_packets() -> None:
    # in congestion avoidance the loop adds s (s/W)^3 less per ACK of two packets
    for tolerance in (0.002, 1e-9):
        recovery = Recovery(rfc9002.NewReno(INITIAL * SIZE, SIZE, per_packet=True), ack_wait_of("overflows"))
        if tolerance > 1e-9:
            replay(log_of("overflows", NewReno), recovery, tolerance)
        else:
            with pytest.raises(AssertionError, match="congestion_window must be"):
                replay(log_of("overflows", NewReno), recovery, tolerance)


def late_recovery(self: Quic) -> None:
    self.recovering, self.recovery_from = True, self.next_number + 1


def later_losses(self: Quic) -> bool:
    self.srtt *= 1.2
    return FIND_LOSSES(self)


def measure_with_delay(self: Twin, flow: Any, time: int, ack_delay: int = 0) -> None:
    MEASURE(self, flow, time)


def measure_in_seconds(self: Twin, flow: Any, time: int, ack_delay: int = 0) -> None:
    rtt, delay = 1e-12 * time, 1e-12 * ack_delay
    MEASURE(self, flow, time, ack_delay if rtt >= min(flow.min_rtt, rtt) + delay else 0)


FIND_LOSSES, MEASURE = Quic.find_losses, Twin.measure
FAULTS: dict[str, tuple[str, Any, str, Any]] = {
    "a packet threshold of 4": ("overflows", Quic, "dup_thresh", 4),
    "a longer time threshold": ("overflows", Quic, "find_losses", later_losses),
    "three probes": ("an outage", quic, "N_PROBES", 3),
    "no probe": ("an outage", quic, "N_PROBES", 0),
    "a probe timeout of a fixed variation": ("random losses", quic, "GRANULARITY", 0.1),
    "persistent congestion after 300 timeouts": ("an outage", quic, "PERSISTENCE", 300),
    "persistent congestion after a timeout": ("many losses", quic, "PERSISTENCE", 1),
    "a recovery period that the next packet does not end": ("overflows", Quic, "begin_recovery", late_recovery),
    "ACK delays that are not subtracted": ("random losses", Twin, "measure", measure_with_delay),
    "ACK delays compared after rounding": ("RTTs that differ by an ACK delay", Twin, "measure", measure_in_seconds),
    "windows reduced to 0.7": ("overflows", windows, "halved", lambda window: 0.7 * window),
    "growth of unused windows": (
        "a slow application",
        application_limits,
        "RULES",
        {"rfc9002": application_limits.always},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, place, attribute, value = FAULTS[name]
    monkeypatch.setattr(place, attribute, value)
    log = log_of.__wrapped__(case, NewReno)  # the cache has the log without the fault
    with pytest.raises(AssertionError, match=r"^event \d+ at "):
        replay(log, Recovery(rfc9002.NewReno(INITIAL * SIZE, SIZE), ack_wait_of(case)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_engine_repeats_the_runs(name: str) -> None:
    case = CASES[name]
    scenario = case.scenario(NewReno)
    setup = prepare(scenario)
    engine, twin = build_engine(setup, scenario, trace=100_000), build_twin(setup, seed=SEED)
    engine.advance(case.duration)
    engine.verify()
    twin.advance(case.duration)
    assert engine.trace.tolist() == twin.events_traced.tolist()
    assert engine.flow_results.tobytes() == twin.flow_results.tobytes()
    assert twin.flows[0].min_rtt == engine.flow_results["min_rtt"][0]


def drawn(seed: int) -> Case:
    """Return a case with several impairments at once."""
    draw = random.Random(seed)
    impairments: list[Impairment] = [RandomLoss(draw.choice([0.005, 0.02, 0.1, 0.3]), link=0)]
    if draw.random() < 0.5:
        impairments += reordering(draw.choice(["2 ms", "8 ms", "40 ms"]), link=0)
    if draw.random() < 0.5:
        impairments += [RandomLoss(draw.choice([0.1, 0.4]), acks_of=0)]
    if draw.random() < 0.5:
        impairments += reordering(draw.choice(["2 ms", "20 ms"]), acks_of=0)
    router = draw.choice([None, Outage(0.5, 1.5), MARKS, MarkedOutage(0.5, 1.5)])
    flow: dict[str, Any] = {"delayed_acks": (draw.choice([1, 2, 4, 10]), ACK_WAIT)}
    if draw.random() < 0.3:
        flow["writes"] = (SIZE * draw.choice([1, 3, 20]), draw.choice(["10 ms", "45 ms"]))
    host = {"ecn": isinstance(router, StepMarking | MarkedOutage)}
    return Case((), draw.choice([None, 9000, 20_000, 60_000]), tuple(impairments), router, host, flow, 3.0)


@pytest.mark.slow
@pytest.mark.property
def test_drawn_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    persistent = 0
    for seed in range(40):
        monkeypatch.setitem(CASES, "drawn", drawn(seed))
        recovery = Recovery(rfc9002.NewReno(INITIAL * SIZE, SIZE), ack_wait_of("drawn"))
        replay(log_of.__wrapped__("drawn", NewReno), recovery)
        persistent += recovery.persistent
    assert persistent > 10
