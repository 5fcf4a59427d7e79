"""Reports on each packet (RFC 8888): blocks by hand, sizes on links, lost reports, and a custom controller."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ecc
from ecc.models.shared import feedback
from ecc.models.shared.feedback import BLOCKS, SENT, FeedbackHeader, FeedbackState
from ecc.network.impairments import CapacitySchedule, Impairment, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.queues import PI
from ecc.scenario import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"


def mutable(record: Any) -> Any:
    """Return a record whose arrays can be written, as those of the engine."""
    for name, value in vars(record).items():
        setattr(record, name, list(value) if isinstance(value, tuple) else value)
    return record


class Ends:
    """A sender and a receiver, whose packets and reports are passed on by hand."""

    def __init__(self, repeat: float = 0.0, ecn: bool = False) -> None:
        self.p = SimpleNamespace(report_interval=0.1, report_repeat=repeat, ecn=float(ecn))
        self.flow = mutable(FeedbackState())

    def env(self, now: float, marked: int = 0) -> Any:
        return SimpleNamespace(now=now, marked=marked, timer=-1.0, control_size=0)

    def send(self, number: int, now: float) -> None:
        feedback.packet_sent(self.flow, SimpleNamespace(number=number), self.env(now))

    def arrive(self, number: int, now: float, marked: int = 0) -> tuple[Any, Any]:
        env, header = self.env(now, marked), mutable(FeedbackHeader(number=number))
        feedback.packet_received(self.flow, header, self.p, env)
        return header, env

    def report(self, now: float) -> tuple[Any, Any]:
        env, header = self.env(now), mutable(FeedbackHeader())
        feedback.write_report(self.flow, header, self.p, env)
        return header, env

    def read(self, header: Any, now: float) -> Any:
        feedback.read_report(self.flow, header, self.env(now))
        return self.flow


def test_blocks_are_those_of_the_rfc() -> None:
    ends = Ends(ecn=True)
    _, env = ends.arrive(1, 1.0)
    assert env.timer == 0.1 and env.control_size == 0  # the first packet starts the timer
    ends.arrive(2, 1.25, marked=1000)
    ends.arrive(4, 1.5)
    header, env = ends.report(2.0)
    assert (header.begin, header.count, header.stamp) == (1, 4, 2 * 65536)
    # R = 1, ECN = 10 or 11, ATO = 1024, 768 and 512 units of 1/1024 s
    assert header.blocks[:4] == [0b1_10 << 13 | 1024, 0b1_11 << 13 | 768, 0, 0b1_10 << 13 | 512]
    assert env.control_size == 28 + 8 + 8 + 2 * 4 + 4 and env.timer == 0.1  # IPv4 and UDP, RTCP, range, blocks, time
    ends.arrive(5, 2.5)
    header, env = ends.report(2.5)
    assert (header.begin, header.count) == (5, 1) and env.control_size == 28 + 8 + 8 + 4 + 4  # padded to 4 bytes
    header, env = ends.report(2.6)
    assert (header.begin, header.count) == (6, 0) and env.control_size == 48
    assert Ends().arrive(0, 1.0)[1].timer < 0.0  # a packet that was in flight at the start of the run
    unmarked = Ends()
    unmarked.arrive(1, 1.0)
    assert unmarked.report(1.0)[0].blocks[0] == 0b1_00 << 13


def test_times_out_of_range_are_marked_so() -> None:
    ends = Ends()
    for number, now in ((1, 1.0), (2, 2.0)):
        ends.send(number, now)
        ends.arrive(number, now)
    header, _ = ends.report(1.0 + 8191 / 1024)
    assert header.blocks[0] & 0x1FFF == 0x1FFE and header.blocks[1] & 0x1FFF == 8191 - 1024
    flow = ends.read(header, 10.0)
    assert flow.received_arrival[0] == -1.0 and flow.received_arrival[1] == pytest.approx(2.0, abs=1e-3)


def test_a_full_report_leaves_at_once() -> None:
    ends = Ends()
    sizes = [ends.arrive(number, 0.001 * number)[1].control_size for number in range(1, 2 * BLOCKS + 1)]
    full = 48 + 2 * BLOCKS
    assert sizes == [0] * (BLOCKS - 1) + [full] + [0] * (BLOCKS - 1) + [full]


def test_a_sender_reads_arrivals_losses_and_marks_of_each_packet() -> None:
    ends = Ends()
    for number in range(1, 6):
        ends.send(number, 0.01 * number)
    for number, marked in ((1, 0), (2, 1000), (5, 0)):
        ends.arrive(number, 0.01 * number + 0.125, marked)
    flow = ends.read(ends.report(0.25)[0], 0.3)
    assert (flow.received, flow.lost, flow.late, flow.marked, flow.unreported) == (3, 2, 0, 1, 0)
    assert flow.received_number[:3] == [1, 2, 5] and flow.received_marked[:3] == [0, 1, 0]
    assert flow.received_sent[:3] == pytest.approx([0.01, 0.02, 0.05])
    assert np.subtract(flow.received_arrival[:3], flow.received_sent[:3]) == pytest.approx([0.125] * 3, abs=1 / 2048)
    assert feedback.missed_reports(flow, ends.p, ends.env(0.55)) == pytest.approx(2.5)
    empty = ends.read(ends.report(0.35)[0], 0.4)
    assert (empty.received, empty.lost, empty.unreported, empty.reports_read) == (0, 0, 0, 2)


def test_a_lost_report_leaves_packets_unreported_unless_the_next_one_repeats_them() -> None:
    counts = {}
    for repeat in (0.0, 3.0):
        ends = Ends(repeat)
        for number in range(1, 8):
            ends.send(number, 0.01 * number)
        ends.arrive(1, 0.1)
        ends.read(ends.report(0.2)[0], 0.2)
        ends.arrive(2, 0.2)
        ends.arrive(4, 0.25)
        ends.report(0.3)  # lost
        ends.arrive(3, 0.31)  # late
        ends.arrive(6, 0.35)
        flow = ends.read(ends.report(0.4)[0], 0.4)
        counts[repeat] = (flow.received, flow.lost, flow.late, flow.unreported, flow.received_number[: flow.received])
    assert counts == {0.0: (1, 1, 0, 3, [6]), 3.0: (4, 1, 0, 0, [2, 3, 4, 6])}


def test_a_packet_that_arrives_after_its_report_is_late_and_counts_once() -> None:
    ends = Ends(repeat=4.0)
    for number in range(1, 4):
        ends.send(number, 0.0)
    ends.arrive(2, 0.1)
    first = ends.read(ends.report(0.1)[0], 0.1)
    assert (first.received, first.lost) == (1, 1)
    ends.arrive(1, 0.15)
    ends.arrive(3, 0.15)
    second = ends.read(ends.report(0.2)[0], 0.2)
    assert (second.received, second.late, second.lost) == (2, 1, 0) and second.received_number[:2] == [1, 3]
    old = Ends()
    for number in range(1, SENT + 2):
        old.send(number, 0.0)
    old.arrive(1, 0.1)
    assert old.read(old.report(0.1)[0], 0.1).received == 0  # its sending time is no longer kept


@pytest.fixture
def media(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("delay_target").DelayTarget
    sys.modules.pop("delay_target", None)


def two_way(protocol: Any, impairments: tuple[Impairment, ...] = (), duration: float = 4.0) -> Scenario:
    """A flow over 1 Mb/s whose reports return over a link; ACKs of the engine have one byte."""
    links = [Link(1e6, 0.02, buffer=30_000), Link(10e6, 0.02)]
    flow = Flow([0], reverse=[1], packet_size=500, ack_size=1)
    return Scenario(Network(links, [flow]), protocol, duration, impairments=impairments, seed=2)


RECORD = ["flow.x", "flow.unreported", "flow.lost", "flow.reports_read", "flow.reported_to"]


def test_a_custom_controller_fills_a_link_and_its_reports_have_their_sizes(media: Any) -> None:
    scenario = two_way(media(), duration=12.0)
    run = ecc.packet.simulate(scenario, sample=0.1, record=RECORD)
    assert run["flow.x"].to_numpy()[-10:, 0] == pytest.approx(np.full(10, 1e6), rel=0.02)
    late = run["queue"].to_numpy()[-10:, 0].mean() * 8.0 / 1e6
    assert late == pytest.approx(0.05, abs=0.02)  # the target, and the frames
    returned = run["arrival"].to_numpy()[:, 1].sum() * 0.1 / 8.0  # bytes on the reverse link
    arrived = run["goodput"].to_numpy()[:, 0].sum() * 0.1 / 8.0 / 500.0  # packets: a byte of ACK, 2 of a block for each
    reports = run["flow.reports_read"][-1, 0].item()
    assert reports == 119 and returned == pytest.approx(48.0 * reports + 3.0 * arrived, abs=3.0 * reports)


@pytest.mark.parametrize(("repeat", "covered"), [(0.0, False), (20.0, True)])
def test_lost_reports(media: Any, repeat: float, covered: bool) -> None:
    lossy = (RandomLoss(0.2, link=1, kind="ack"),)
    scenario = two_way(media(report_repeat=repeat, max_rate=4e5), lossy)
    run = ecc.packet.simulate(scenario, sample=0.02, record=RECORD)
    assert run["flow.reports_read"][-1, 0].item() < 37
    assert (int(run["flow.unreported"].max()) == 0) == covered and int(run["flow.lost"].max()) == 0


def test_without_reports_the_rate_falls(media: Any) -> None:
    scenario = two_way(media(), (CapacitySchedule(1, [2.0], [0.0]),))
    run = ecc.packet.simulate(scenario, sample=0.1, record=RECORD)
    rate = run["flow.x"].to_numpy()[:, 0]
    assert rate[19] > 2.5e5 and rate[-1] == 150e3


@pytest.mark.parametrize("frames", [0.0, 30.0])
def test_both_engines_read_the_same_reports(media: Any, frames: float) -> None:
    network = Network.dumbbell(1e6, rtts=[0.05], packet_size=500, buffer="15 kB")
    pair = {"flows": media(ecn=True, frames=frames, report_repeat=5.0), "links": PI(mark=True)}
    losses = (RandomLoss(0.02, link=0), RandomLoss(0.1, acks_of="all"))
    scenario = Scenario(network, pair, 1.5, impairments=losses, seed=3)
    record = [*RECORD, "flow.marked", "flow.received_arrival[0]", "flow.received_number[0]"]
    runs = [ecc.packet.simulate(scenario, sample=0.1, record=record, engine=engine) for engine in ("c", "python")]
    assert runs[0].stats["digest"] == runs[1].stats["digest"] and runs[0]["flow.reports_read"][-1, 0].item() > 10
    for name in record:
        np.testing.assert_array_equal(runs[0][name], runs[1][name])
