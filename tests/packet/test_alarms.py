"""Several timers, counters of bytes, marks at receivers, and control packets of receivers, by hand, in both engines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ecc.contract.env import Hook
from ecc.models import DCQCN, Protocol
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, resume, simulate
from ecc.scenario import Scenario

ROOM = 32


@dataclass
class Header:
    number: int = 0


@dataclass
class FlowState:
    sent: int = 0
    received: int = 0
    expired: int = 0
    when: tuple[float, ...] = (0.0,) * ROOM  # timers that have expired: when ...
    which: tuple[int, ...] = (0,) * ROOM
    counted: int = 0
    counted_at: tuple[int, ...] = (0,) * ROOM  # packets sent when on_count was called
    marks: int = 0  # bytes that came marked
    reported: int = 0  # ... and that ACKs report so
    control: int = 0
    control_when: tuple[float, ...] = (0.0,) * ROOM  # control packets that have arrived: when ...
    control_is: tuple[int, ...] = (0,) * ROOM  # ... size, kind, and the packet that it answers, in one number


@dataclass(frozen=True)
class Clocked(Protocol):
    """Sends at `rate`; timers of `first` and `second` seconds; `size` bytes of control for each third packet."""

    rate: float = 8e5
    first: float = 0.03
    second: float = 0.02
    bytes: float = 2500.0
    size: float = 64.0
    kind: float = 7.0

    n_timers = 2
    times = ()
    ecn_echo: ClassVar[str] = "accurate"
    Header = Header
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": mark}

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": start,
            "on_send": send,
            "on_receive": receive,
            "on_ack": ack,
            "on_timer": expire,
            "on_count": count,
            "on_control": answer,
        }


def mark(link: Any, header: Any, p: Any, env: Any) -> None:
    if env.kind == 0 and header.number % 5 == 0:
        env.mark = 1


def start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.rate = p.rate
    env.timer = p.first
    env.timer_1 = p.second
    env.counter = int(p.bytes)


def send(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.sent += 1
    header.number = flow.sent


def receive(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.received += 1
    flow.marks += env.marked
    if flow.received % 3 == 0:
        env.control_size = int(p.size)
        env.control_kind = int(p.kind)


def ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.reported += env.marked


def expire(flow: Any, header: Any, p: Any, env: Any) -> None:
    if flow.expired < ROOM:
        flow.when[flow.expired] = env.now
        flow.which[flow.expired] = env.kind
        flow.expired += 1
    if env.kind == 0:
        env.timer = p.first
    else:
        env.timer_1 = p.second


def count(flow: Any, header: Any, p: Any, env: Any) -> None:
    if flow.counted < ROOM:
        flow.counted_at[flow.counted] = flow.sent
        flow.counted += 1
    env.counter = int(p.bytes)


def answer(flow: Any, header: Any, p: Any, env: Any) -> None:
    if flow.control < ROOM:
        flow.control_when[flow.control] = env.now
        flow.control_is[flow.control] = 10000 * env.packet_size + 100 * env.kind + header.number
        flow.control += 1
    if env.kind == 8:
        env.timer_1 = 0.004  # restarts it


def network(reverse: bool = False) -> Network:
    """Packets take 1 ms and 5 ms on the way there; back 5 ms, or 2 ms and what they need at 1 Mb/s."""
    links = [Link("8 Mb/s", "5 ms"), Link("1 Mb/s", "2 ms")]
    return Network(links, [Flow([0], reverse=[1] if reverse else None, stop=0.3)])


def recorded(fields: list[str], protocol: Clocked, reverse: bool = False, engine: str = "c") -> dict[str, Any]:
    """What the fields of the flow's record are at the end of 0.2 s."""
    names = [f"flow.{name}" for name in fields]
    run = simulate(Scenario(network(reverse), protocol, 0.2), record=names, engine=engine)
    return {name: run[f"flow.{name}"][-1, 0].item() for name in fields}


BOTH = pytest.mark.parametrize("engine", ["c", "python"])


@BOTH
def test_timers_expire_each_at_its_time_and_in_the_order_of_their_numbers(engine: str) -> None:
    fields = [f"{of}[{k}]" for of in ("when", "which") for k in range(10)]
    found = recorded(fields, Clocked(), engine=engine)
    when = [found[f"when[{k}]"] for k in range(10)]
    which = [found[f"which[{k}]"] for k in range(10)]
    # 20 1, 30 0, 40 1, 60 both, ...: at 60 ms and 120 ms timer 0 comes first
    assert when == pytest.approx([0.02, 0.03, 0.04, 0.06, 0.06, 0.08, 0.09, 0.1, 0.12, 0.12], abs=1e-12)
    assert which == [1, 0, 1, 0, 1, 1, 0, 1, 0, 1]


@BOTH
def test_bytes_are_counted_from_where_the_counter_was_set(engine: str) -> None:
    found = recorded(["counted", "counted_at[0]", "counted_at[1]", "counted_at[5]"], Clocked(), engine=engine)
    # packets of 1000 bytes: 2500 bytes are sent with the third, and then again with each third
    assert [found[f"counted_at[{k}]"] for k in (0, 1, 5)] == [3, 6, 18]
    exact = recorded(["counted_at[0]", "counted_at[1]"], Clocked(bytes=2000.0), engine=engine)
    assert list(exact.values()) == [2, 4]


@BOTH
@pytest.mark.parametrize("reverse", [False, True])
def test_control_packets_go_the_way_of_acks(engine: str, reverse: bool) -> None:
    fields = ["control", *(f"{of}[{k}]" for of in ("control_when", "control_is") for k in range(3))]
    found = recorded(fields, Clocked(), reverse, engine)
    # the third packet sets out at 20 ms, and is at the receiver 6 ms later
    arrivals = 0.026 + 0.03 * np.arange(3) + (0.002 + 64 * 8 / 1e6 if reverse else 0.005)
    assert [found[f"control_when[{k}]"] for k in range(3)] == pytest.approx(arrivals, abs=1e-12)
    assert [found[f"control_is[{k}]"] for k in range(3)] == [640703, 640706, 640709]
    assert found["control"] == 6


@BOTH
def test_a_hook_may_restart_a_timer(engine: str) -> None:
    fields = [f"when[{k}]" for k in range(4)]
    found = recorded(fields, Clocked(kind=8.0), engine=engine)
    # a control packet sets timer 1 anew at 31 ms, before it would have expired at 40 ms
    assert list(found.values()) == pytest.approx([0.02, 0.03, 0.035, 0.055], abs=1e-12)


@BOTH
def test_hosts_that_set_rates_see_marks_at_both_ends(engine: str) -> None:
    found = recorded(["marks", "reported"], Clocked(), engine=engine)
    assert found == {"marks": 4000, "reported": 3000}  # of 20 packets the 5th, 10th and 15th, and the 20th at 190 ms


def test_control_packets_wait_in_the_queues_of_the_way_back() -> None:
    run = simulate(Scenario(network(True), Clocked(size=2000.0, rate=8e6), 0.2))
    # between 100 and 200 ms 34 control packets of 2000 bytes and 100 ACKs of 40 come, more than 1 Mb/s carries
    assert run.arrival[-1, 1] * 0.1 == pytest.approx(8 * (34 * 2000 + 100 * 40), rel=0.03)
    assert run.queue[-1, 1] > 1e5


def test_checkpoints_and_threads_have_timers_counters_and_control_packets(tmp_path: Path) -> None:
    """DCQCN, whose senders have two timers and a counter, and whose receivers send CNPs."""
    links = [Link("8 Mb/s", "5 ms"), Link("6 Mb/s", "1 ms"), Link("1 Mb/s", "2 ms")]
    flows = [Flow([0, 1], reverse=[2]), Flow([1], access_delay="3 ms", reverse=[2])]
    protocol = DCQCN(
        "8 Mb/s",
        interval=0.003,
        alpha_interval=0.004,
        increase_interval=0.007,
        byte_counter=9000,
        rate_ai=1e5,
        rate_hai=5e5,
        min_threshold=2000,
        max_threshold=20_000,
        p_max=0.5,
    )
    scenario = Scenario(Network(links, flows), protocol, 0.3)
    names = ["flow.x", "flow.alpha", "flow.target", "flow.timer_increases", "flow.byte_increases", "flow.marked"]
    whole = simulate(scenario, sample=0.01, record=names)
    path = tmp_path / "state.npz"
    later = []
    for moment in (0.05, 0.12, 0.2):
        Run(scenario, sample=0.01, record=names).advance(moment).save(path)
        later.append(resume(path).advance().trajectory())
    in_threads = simulate(scenario, sample=0.01, record=names, threads=3)
    assert whole["flow.byte_increases"].max() > 0 and whole["flow.timer_increases"].max() > 0
    for run in (*later, in_threads):
        assert run.stats["digest"] == whole.stats["digest"]
        for name in names:
            assert np.array_equal(run[name], whole[name])


def test_what_an_engine_cannot_carry_is_refused() -> None:
    text = "a control packet must have at most 2^30 bytes and a kind from 0 to 2^31 - 1, got "
    for engine in ("c", "python"):
        for protocol, got in ((Clocked(size=2.0**30 + 1), "1073741825"), (Clocked(kind=-1.0), "-1")):
            with pytest.warns(RuntimeWarning, match=f"^the run ended at 0.026 s: {re.escape(text)}{got} "):
                run = simulate(Scenario(network(), protocol, 0.2), engine=engine)
            assert f"{text}{got} (flow 0, on_receive, t = 0.026 s)" in str(run.stats["stopped"])


def test_more_timers_than_there_are_is_refused() -> None:
    five = type("Five", (Clocked,), {"n_timers": 5})
    with pytest.raises(ValueError, match="n_timers of Five must be from 1 to 4, got 5"):
        simulate(Scenario(network(), five(), 0.2))
    one = type("One", (Clocked,), {"n_timers": 1})
    with pytest.raises(
        TypeError, match=r"writes env.timer_1: of env, this hook may write rate, window, timer, counter"
    ):
        simulate(Scenario(network(), one(), 0.2))
