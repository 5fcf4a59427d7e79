"""Explicit congestion notification by hand: CWR of RFC 3168, ACKs at once where CE changes, bits of the IP header."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ecc.contract.env import Hook
from ecc.models import DCTCP, ConstantRate, NewReno, Protocol
from ecc.network.impairments import Jitter
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, resume, simulate
from ecc.queues import StepMarking
from ecc.scenario import Scenario


@dataclass(frozen=True)
class Marker(Protocol):
    """Marks the packets from `first` to `last`, counted from 1, and drops one; hosts have a constant window."""

    first: int = 2
    last: int = 2
    lost: int = 0
    window: int = 4
    echo: Any = "classic"

    times = ()

    @property
    def ecn_echo(self) -> Any:  # type: ignore[override]
        return self.echo

    @dataclass
    class LinkState:
        packets: int = 0

    @dataclass
    class FlowState:
        acks: int = 0
        marked: tuple[int, ...] = (0,) * 32  # as each ACK reports [bytes]
        ece: tuple[int, ...] = (0,) * 32

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": count}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": start, "on_ack": note}


def count(link: Any, header: Any, p: Any, env: Any) -> None:
    link.packets += 1
    if p.first <= link.packets and link.packets <= p.last:
        env.mark = 1
    if link.packets == p.lost:
        env.drop = 1


def start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = p.window * env.packet_size


def note(flow: Any, header: Any, p: Any, env: Any) -> None:
    if flow.acks < 32:
        flow.marked[flow.acks] = env.marked
        flow.ece[flow.acks] = env.ece
    flow.acks += 1


def run(marker: Marker, packets: int, engine: str, **options: Any) -> Any:
    """Packets of 1 ms each at 8 Mb/s, and an RTT of 100 ms beside."""
    network = Network.dumbbell("8 Mb/s", rtts=[0.1], packet_size=1000, sizes=[1000 * packets])
    network = network.with_flows([replace(flow, **options) for flow in network.flows])
    names = ["flow.acks", *(f"flow.{name}[{k}]" for name in ("marked", "ece") for k in range(12))]
    return simulate(Scenario(network, marker, 3.0), sample=3.0, trace=1000, record=names, engine=engine)


def noted(found: Any, name: str) -> list[int]:
    acks = int(found["flow.acks"].values[-1, 0])
    return [int(found[f"flow.{name}[{k}]"].values[-1, 0]) for k in range(min(acks, 12))]


@pytest.mark.parametrize("engine", ["c", "python"])
def test_a_mark_is_echoed_until_cwr_and_reported_once(engine):
    """Of four packets in flight the second is marked. Its ACK lets packet 6 out, with CWR: ACKs 2 to 5 have ECE."""
    found = run(Marker(), 10, engine)
    assert noted(found, "ece") == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert noted(found, "marked") == [0, 1000, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("engine", ["c", "python"])
def test_marks_are_reported_again_where_the_packet_with_cwr_was_lost(engine):
    """Packet 6, with CWR, is dropped: the ACK of packet 7 still has ECE, and reports; packet 11 or so answers that."""
    found = run(Marker(lost=6), 20, engine)
    ece, marked = noted(found, "ece"), noted(found, "marked")
    assert ece[:6] == [0, 1, 1, 1, 1, 1] and 0 in ece[6:]
    assert marked[1] == 1000 and marked[2:5] == [0, 0, 0] and marked[5] > 0 and not any(marked[6:])


@pytest.mark.parametrize("engine", ["c", "python"])
def test_delayed_acks_are_sent_at_once_where_ce_changes(engine):
    """Six packets at once, ACKs delayed by ten packets or half a second; the third and fourth are marked.

    The third arrives, marked, at 3 ms beyond the path: the ACK of the second is sent then. So is that of the fourth
    when the fifth arrives, at 5 ms, and that of the sixth half a second after it. The second ACK reports both marks.
    """
    found = run(Marker(first=3, last=4, window=6, echo="accurate"), 6, engine, delayed_acks=(10, 0.5))
    acks = found.trace[found.trace["event"] == "ack"]
    assert acks["value"].tolist() == [1000, 3000, 5000]
    assert (acks["time"] - 0.1).to_numpy() == pytest.approx([0.003, 0.005, 0.505])
    assert noted(found, "marked") == [0, 2000, 0]


@pytest.mark.parametrize("every", [2, 5])
def test_delayed_acks_of_a_flow_that_completes_have_reported_every_marked_byte(every):
    """A flow that completes has had its last ACK: what its ACKs have reported is what came marked."""
    found = run(Marker(first=4, last=9, window=7, echo="accurate"), 30, "c", delayed_acks=(every, 0.05))
    assert found.flows["marked"].sum() == 6000 == sum(noted(found, "marked")[:12])
    assert found.flows["finish"].notna().all()


def test_captures_have_the_codepoints_in_the_ip_header(tmp_path):
    """The low bits of the second byte of each header: ECT(0), and CE where it was marked."""
    network = Network.dumbbell("8 Mb/s", rtts=[0.1], packet_size=1000, sizes=[10_000])
    path, table = tmp_path / "link.pcapng", tmp_path / "link.parquet"
    for file in (path, table):
        simulate(Scenario(network, Marker(first=3, last=5), 2.0), capture={0: file})
    data, at, bits = path.read_bytes(), 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            bits.append(data[at + 28 + 1] & 3)
        at += size
    assert bits == [2, 2, 3, 3, 3, 2, 2, 2, 2, 2] == pd.read_parquet(table)["ecn"].tolist()
    assert np.unique(bits).tolist() == [2, 3]


def codepoints(protocol, tmp_path, buffer, size):
    """Of data that left a link, and of the ACKs on another one."""
    links = [Link("8 Mb/s", "50 ms", buffer=buffer), Link("8 Mb/s", "50 ms")]
    network = Network(links, [Flow([0], reverse=[1], size=size)])
    tables = [tmp_path / "data.parquet", tmp_path / "acks.parquet"]
    found = simulate(Scenario(network, protocol, 60.0), capture=dict(enumerate(tables)))
    assert found.flows["finish"].notna().all()
    return found, *(pd.read_parquet(table)["ecn"].tolist() for table in tables)


@pytest.mark.parametrize(("echo", "data", "acks"), [("classic", 2, 0), ("accurate", 2, 2), ("scalable", 1, 1)])
def test_acks_are_ect_but_those_of_rfc_3168(echo, data, acks, tmp_path):
    """RFC 3168, 6.1.4: not ECT. Linux sends those of DCTCP as it does data; a router marks one, which changes nothing.

    Each router marks the third packet that it sees, of the data and of the ACKs.
    """
    found, of_data, of_acks = codepoints(Marker(first=3, last=3, echo=echo), tmp_path, None, 6000)
    assert of_data == [data, data, 3, data, data, data]
    assert of_acks == [acks, acks, 3 if acks else 0, acks, acks, acks]
    assert found.flows["marked"].tolist() == [1000]


@pytest.mark.parametrize("protocol", [NewReno(ecn=True), DCTCP()], ids=["RFC 3168", "DCTCP"])
def test_what_is_sent_again_is_ect_but_that_of_rfc_3168(protocol, tmp_path):
    found, data, acks = codepoints(protocol, tmp_path, 10_000, 400_000)
    again = int(found.flows["retransmitted"].sum() / 1000)
    assert again > 3 and data.count(2) == len(data) - (0 if isinstance(protocol, DCTCP) else again)
    assert set(acks) == ({2} if isinstance(protocol, DCTCP) else {0})


def test_marks_of_what_was_sent_twice_are_saved(tmp_path):
    """Receivers count bytes of copies too: more than the flow has sent, where all came with marks."""
    hosts = {0: DCTCP(initial=20, min_rto=0.02, initial_rto=0.02), 1: ConstantRate("9 Mb/s")}
    network = Network.dumbbell("10 Mb/s", rtts=[0.01, 0.01])
    protocol = {"flows": hosts, "links": StepMarking(threshold=0.1)}
    late = [Jitter((0.0, 0.1), link=0, in_order=False)]
    scenario = Scenario(network, protocol, 0.4, impairments=late)
    run = Run(scenario).advance(0.2)
    run.save(tmp_path / "marked.ckpt")
    ends = [one.advance().trajectory() for one in (run, resume(tmp_path / "marked.ckpt"))]
    assert ends[0].stats["digest"] == ends[1].stats["digest"]
