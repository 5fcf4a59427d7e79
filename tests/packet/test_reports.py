"""Receivers that report by a timer of their own, by hand and in a protocol of media, in both engines."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ecc
import ecc.fluid
from ecc.contract.env import Hook
from ecc.models import Protocol
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, resume, simulate
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

ROOM = 16


@dataclass
class Header:
    number: int = 0  # data: packets sent; report: packets received
    sum_of_bytes: int = 0
    first: float = 0.0  # report: arrival of the first packet since the last report [s]


@dataclass
class FlowState:
    """`sent` to `report_when` are of the sender; the others of the receiver."""

    sent: int = 0
    reports: int = 0
    report_when: tuple[float, ...] = (0.0,) * ROOM
    report_is: tuple[int, ...] = (0,) * ROOM  # packets that it reports
    received: int = 0
    sum_of_bytes: int = 0
    first: float = -1.0
    began: int = 0
    due: int = 0
    due_when: tuple[float, ...] = (0.0,) * ROOM  # calls of on_report


@dataclass(frozen=True)
class Media(Protocol):
    """Sends at a rate that reports of the receiver determine: a share of the bytes that have arrived since the last."""

    rate: float = 8e5
    report_interval: float = 0.05
    gain: float = 0.0
    size: float = 80.0
    kind: float = 5.0
    transport: str | None = None

    times = ()
    Header = Header
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": start,
            "on_send": send,
            "on_receive": receive,
            "on_report": report,
            "on_control": adapt,
        }


def start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.rate = p.rate


def send(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.sent += 1
    header.number = flow.sent


def receive(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.received += 1
    flow.sum_of_bytes += env.packet_size
    if flow.first < 0.0:
        flow.first = env.now
    if flow.began == 0:
        flow.began = 1
        env.timer = p.report_interval


def report(flow: Any, header: Any, p: Any, env: Any) -> None:
    if flow.due < ROOM:
        flow.due_when[flow.due] = env.now
        flow.due += 1
    header.number = flow.received
    header.sum_of_bytes = flow.sum_of_bytes
    header.first = flow.first
    flow.sum_of_bytes, flow.first = 0, -1.0
    env.control_size, env.control_kind = int(p.size), int(p.kind)
    env.timer = p.report_interval


def adapt(flow: Any, header: Any, p: Any, env: Any) -> None:
    if flow.reports < ROOM:
        flow.report_when[flow.reports] = env.now
        flow.report_is[flow.reports] = 1000 * env.kind + header.number
        flow.reports += 1
    if p.gain > 0.0:
        arrived = 8.0 * header.sum_of_bytes / p.report_interval
        env.rate = max((1.0 - p.gain) * env.rate + p.gain * 1.05 * arrived, 1e4)


BOTH = pytest.mark.parametrize("engine", ["c", "python"])


def network(reverse: bool = False, **flow: Any) -> Network:
    """Packets take 1 ms and 5 ms on the way there; back 5 ms, or 2 ms and their transmission time at 1 Mb/s."""
    links = [Link("8 Mb/s", "5 ms"), Link("1 Mb/s", "2 ms")]
    return Network(links, [Flow([0], reverse=[1] if reverse else None, **flow)])


def recorded(fields: list[str], scenario: Scenario, engine: str) -> list[float]:
    run = simulate(scenario, record=[f"flow.{name}" for name in fields], engine=engine)
    return [run[f"flow.{name}"][-1, 0].item() for name in fields]


@BOTH
@pytest.mark.parametrize("transport", [None, "sack"])
@pytest.mark.parametrize("reverse", [False, True])
def test_reports_leave_at_each_interval_and_take_the_path_of_acks(engine: str, transport: str, reverse: bool) -> None:
    scenario = Scenario(network(reverse), Media(transport=transport), 0.3)
    due = recorded(["due", *(f"due_when[{k}]" for k in range(4))], scenario, engine)
    # the first packet is at the receiver at 6 ms
    assert due[0] == 5 and due[1:] == pytest.approx([0.056, 0.106, 0.156, 0.206], abs=1e-12)
    back = 0.002 + 80 * 8 / 1e6 if reverse else 0.005
    if reverse:  # an ACK of 40 bytes leaves for the packet that arrives at the same time, before the report (S-10)
        back += 40 * 8 / 1e6
    when = recorded([f"report_when[{k}]" for k in range(4)], scenario, engine)
    assert when == pytest.approx(np.array([0.056, 0.106, 0.156, 0.206]) + back, abs=1e-12)
    assert recorded([f"report_is[{k}]" for k in range(3)], scenario, engine) == [5006, 5011, 5016]


@BOTH
def test_a_flow_that_stops_reports_no_more(engine: str) -> None:
    scenario = Scenario(network(stop=0.1), Media(), 0.4)
    assert recorded(["due", "received"], scenario, engine) == [1, 11]  # at 56 ms; the last packet arrives at 106 ms


@BOTH
def test_the_rate_follows_the_reports(engine: str) -> None:
    links = [Link("1 Mb/s", "10 ms", buffer="20 kB")]
    scenario = Scenario(Network(links, [Flow([0], access_delay="5 ms")]), Media(rate=3e6, gain=0.5), 6.0)
    run = simulate(scenario, engine=engine)
    assert float(run.goodput[-20:].mean()) == pytest.approx(1e6, rel=0.02)
    assert float(run.rate[-20:].mean()) < 1.2e6


def case() -> Scenario:
    """Flows with and without reverse links and transports, losses, and transfers."""
    links = [Link("8 Mb/s", "5 ms", buffer="20 kB"), Link("6 Mb/s", "4 ms", buffer="20 kB"), Link("1 Mb/s", "2 ms")]
    flows = [
        Flow([0, 1], reverse=[2]),
        Flow([1], access_delay="3 ms", reverse=[2]),
        Flow([0], access_delay="2 ms"),
        Flow([0, 1], delayed_acks=(2, "20 ms"), stop=0.7),
    ]
    media = Media(rate=3e6, gain=0.4, report_interval=0.013)
    hosts = {
        "flows": {
            0: media,
            1: replace(media, transport="sack"),
            2: media,
            3: replace(media, transport="rack"),
            "default": media,
        },
    }
    workload = Workload(arrivals=[Arrivals([0], 0.05, 30_000, access_delay="1 ms")])
    losses = [ecc.network.impairments.RandomLoss(0.02, link=0), ecc.network.impairments.RandomLoss(0.05, acks_of=[2])]
    return Scenario(Network(links, flows), hosts, 1.5, workload=workload, impairments=losses, seed=5)


NAMES = ["env.rate", "flow.reports", "flow.due", "flow.received"]


def test_engines_agree_on_reports() -> None:
    runs = [simulate(case(), sample=0.01, record=NAMES, engine=engine) for engine in ("c", "python")]
    assert int(runs[0]["flow.reports"].min()) == 0 and int(runs[0]["flow.reports"][-1].min()) == ROOM
    assert runs[0].stats["digest"] == runs[1].stats["digest"]
    for name in runs[0].data.data_vars:
        np.testing.assert_array_equal(runs[0][name], runs[1][name], err_msg=name)


def test_checkpoints_and_threads_have_report_timers(tmp_path: Path) -> None:
    whole, path = simulate(case(), sample=0.01, record=NAMES), tmp_path / "state.npz"
    later = []
    for moment in (0.004, 0.05, 0.61, 0.9):
        Run(case(), sample=0.01, record=NAMES).advance(moment).save(path)
        later.append(resume(path).advance().trajectory())
    for run in (*later, simulate(case(), sample=0.01, record=NAMES, threads=3)):
        assert run.stats["digest"] == whole.stats["digest"]
        for name in NAMES:
            np.testing.assert_array_equal(run[name], whole[name], err_msg=name)


class Stuck(Media):
    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_report": report_at_once}


def report_at_once(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.timer = 0.0


@BOTH
@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        (
            Stuck(),
            "timer must be >= 5e-13 s, or negative for none, after 100 smaller ones in calls of its hook, got 0 ",
        ),
        (Media(report_interval=np.inf, size=1.0), ""),
        (Media(size=2.0**30 + 1), "a control packet must have at most 2^30 bytes and a kind from 0 to 2^31 - 1, got "),
    ],
    ids=["stuck", "never", "size"],
)
def test_what_reports_cannot_be_ends_the_run(engine: str, protocol: Media, text: str) -> None:
    if not text:
        run = simulate(Scenario(network(), protocol, 0.2), engine=engine)
        assert run.is_complete
        return
    with pytest.warns(RuntimeWarning, match=re.escape(text)):
        run = simulate(Scenario(network(), protocol, 0.2), engine=engine)
    assert "(flow 0, on_report, t = 0.056" in str(run.stats["stopped"])


@pytest.mark.parametrize("name", ["on_receive", "on_control"])
def test_reports_that_nothing_starts_or_receives_are_refused(name: str) -> None:
    def flow_hooks(self: Any) -> dict[str, Hook]:
        return {key: hook for key, hook in Media.flow_hooks(self).items() if key != name}

    kind = type("Partial", (Media,), {"flow_hooks": flow_hooks})
    with pytest.raises(ValueError, match=f"^Partial must have the packet hook {name}: it has on_report, "):
        simulate(Scenario(network(), kind(), 0.2))


def test_receivers_write_their_timer_and_packets_only() -> None:
    def turn(flow: Any, header: Any, p: Any, env: Any) -> None:
        env.rate = 1e6

    kind = type("Turning", (Media,), {"flow_hooks": lambda self: {**Media.flow_hooks(self), "on_report": turn}})
    allowed = "control_size, control_kind, timer"
    with pytest.raises(TypeError, match=f"writes env.rate: of env, this hook may write {allowed}"):
        simulate(Scenario(network(), kind(), 0.2))

    class Silent(Media):
        def flow_hooks(self) -> dict[str, Hook]:
            return {"on_start": start, "on_send": send, "on_receive": receive}

    with pytest.raises(TypeError, match=r"writes env.timer: of env, this hook may write control_size, control_kind"):
        simulate(Scenario(network(), Silent(), 0.2))


def test_fluid_and_linear_models_refuse_hooks_without_laws() -> None:
    with pytest.raises(ValueError, match=r"^Media has no fluid model: it has no router_law and no source_law"):
        ecc.fluid.simulate(Scenario(network(), Media(), 0.2))


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_reports_on_real_frames() -> None:
    import ecc.live

    scenario = Scenario(network(), Media(), 2.0)
    run = ecc.live.simulate(scenario, attempts=5, lateness="2 ms", exact=True, record=["flow.reports", "flow.due"])
    if run.stats["void"]:
        pytest.skip(f"five runs in a row were void, the last because {run.stats['void']}")
    packets = simulate(replace(scenario, duration=2.0), record=["flow.reports", "flow.due"])
    for name in ("flow.reports", "flow.due"):
        assert run[name][5, 0].item() == pytest.approx(packets[name][5, 0].item(), abs=1)
