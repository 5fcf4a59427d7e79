"""The kernel's TCP as flows of a live run: what it may replace, and that it shares links and disciplines with ours."""

import os
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from pcapng_blocks import blocks

import ecc.live
from ecc.errors import EccError
from ecc.live import TCP, simulation, tcp
from ecc.live.tcp import limits, path_room, socket_buffer
from ecc.models import DCTCP, EDN, QIRCP, NewReno
from ecc.network.impairments import Jitter
from ecc.network.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.queues import PI2
from ecc.scenario import Scenario

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live runs are refused for this alone")

NETWORK = Network([Link("4 Mb/s", 0.01, buffer=20_000)], [Flow([0], packet_size=1500, access_delay=0.005)] * 2)


def live(scenario, **options):
    """A run on the real clock that is not void; a machine on which none can be had says nothing about us."""
    run = ecc.live.simulate(scenario, clock="real", attempts=3, lateness=0.02, **options)
    if run.stats["void"]:
        pytest.skip(f"three runs in a row were void, the last because {run.stats['void']}")
    assert run.is_complete and run.stats["frames_refused"] == 0
    return run


@pytest.mark.parametrize(
    ("traffic", "options", "refused"),
    [
        ([TCP("reno")], {"clock": "steady"}, r"^clock must be 'real' with the kernel's TCP, .* got 'steady'$"),
        ([TCP("reno")], {"slow": 2.0}, r"^slow must be 1 with the kernel's TCP, .* got 2$"),
        ([TCP("reno", [2])], {}, r"^flows of traffic\[0\] must be < 2, got 2$"),
        ([TCP("reno", [0]), TCP("reno")], {}, r"^flow 0 must be of one TCP, got traffic of reno and of reno$"),
    ],
)
def test_bad_traffic(traffic, options, refused, monkeypatch):
    monkeypatch.setattr(tcp, "_check_available", lambda control: None)
    with pytest.raises(ValueError, match=refused):
        ecc.live.simulate(Scenario(NETWORK, NewReno(), duration=0.5), traffic=traffic, **{"clock": "real"} | options)


@pytest.mark.parametrize(
    ("flow", "protocol", "refused"),
    [
        ({}, QIRCP(), r"^flow 0 must run a protocol without hooks of links and receivers, .* got QIRCP$"),
        ({}, EDN(), r"^flow 0 must run a protocol without hooks .* got EDN$"),
        ({}, DCTCP(), r"^ecn_echo of flow 0 must be None or 'classic' for the kernel's TCP, got DCTCP's$"),
        ({"writes": "1 Mb/s"}, NewReno(), r"^flow 0 must have no writes for the kernel's TCP, got 1000000\.0$"),
        ({"size": 30_000}, NewReno(), r"^flow 0 must have no size for the kernel's TCP, got 30000 bytes$"),
        ({"reverse": [0]}, NewReno(), r"^flow 0 must have no reverse links for the kernel's TCP, got \[0\]$"),
    ],
)
def test_flows_that_it_cannot_carry(flow, protocol, refused, monkeypatch):
    monkeypatch.setattr(tcp, "_check_available", lambda control: None)
    network = Network([Link("4 Mb/s", 0.01)], [Flow([0], **flow)])
    with pytest.raises(ValueError, match=refused):
        ecc.live.simulate(Scenario(network, protocol, duration=0.5), traffic=[TCP("reno")], clock="real")


@pytest.mark.parametrize("acks_of", ["all", 1])
def test_impairments_of_its_acks_are_refused(acks_of, monkeypatch):
    """ACKs of the kernel do not pass the pure delay of the engine, which would ignore the impairment."""
    monkeypatch.setattr(tcp, "_check_available", lambda control: None)
    scenario = Scenario(NETWORK, NewReno(), duration=0.5, impairments=[Jitter((0.0, 0.001), acks_of=acks_of)])
    flow = 0 if acks_of == "all" else 1
    with pytest.raises(
        ValueError, match=rf"^acks_of must not name flow {flow} of the kernel's TCP \(impairments\[0\]\)$"
    ):
        ecc.live.simulate(scenario, traffic=[TCP("reno")], clock="real")


def test_what_is_no_traffic():
    with pytest.raises(ValueError, match=r"^flows must appear once each, got \[0, 0\]$"):
        TCP("reno", [0, 0])
    with pytest.raises(TypeError, match=r"^traffic must be a sequence, each of it TCP, got \['reno'\]$"):
        ecc.live.simulate(Scenario(NETWORK, NewReno(), duration=0.5), traffic=["reno"], clock="real")
    with pytest.raises(EccError, match=r"^control must be one that this kernel has \(.*\), got 'none'$"):
        ecc.live.simulate(Scenario(NETWORK, NewReno(), duration=0.5), traffic=[TCP("none")], clock="real")


def test_socket_buffers_exceed_twice_the_window_of_slow_start():
    """Linux lets a send buffer grow to 2 * window * 4352 bytes for packets of 1500 bytes (tcp_sndbuf_expand)."""
    network = Network([Link("100 Mb/s", 0.05, buffer_packets=833), Link("1 Gb/s")], [Flow([0, 1], packet_size=1500)])
    room = path_room(Scenario(network, NewReno(), duration=1.0), 0)
    assert room == 10_002  # a bandwidth-delay product of 833.3, 833, ten products for no limit, and one in service each
    assert 2 * (2 * room) * 4352 < socket_buffer(room, 1500) < 2**30


def test_limits_are_those_of_the_worst_flow():
    reports = {
        3: {"full": np.array([0, 0]), "busy": np.array([10, 20]), "receiver_limited": np.array([0, 5])},
        5: {"full": np.array([0, 1]), "busy": np.array([0, 0]), "receiver_limited": np.array([0, 0])},
        7: {name: np.zeros(0, np.int64) for name in ("full", "busy", "receiver_limited")},
    }
    assert limits(reports) == {"buffer_limited": (0.5, 5), "receiver_limited": (0.25, 3)}
    assert limits({}) == {"buffer_limited": (0.0, -1), "receiver_limited": (0.0, -1)}


@pytest.mark.slow
@pytest.mark.parametrize("size", ["that of the path", "that of the system"])
def test_windows_beyond_the_default_socket_buffer(namespaces, monkeypatch, size):
    """A window of 1,900 packets fills the 4 MB of Linux's default; the path holds 3,700."""
    if size == "that of the system":
        monkeypatch.setattr(simulation, "socket_buffer", lambda room, packet: 0)
    link = Link("100 Mb/s", 0.05, buffer_packets=2000)
    network = Network([link], [Flow([0], packet_size=1500, access_delay=0.05)])
    scenario = Scenario(network, NewReno(), duration=4.0)
    run = ecc.live.simulate(scenario, traffic=[TCP("reno")], clock="real", attempts=1, lateness=1.0)
    assert float(run.data["tcp_in_flight"].max()) / 1448 > 3000 or size == "that of the system"
    assert (run.stats["buffer_limited"] > 0.2) == (size == "that of the system")
    assert ("the send buffer of flow 0 had its maximum size" in run.stats["void"]) == (size == "that of the system")


@pytest.mark.slow
def test_captures_have_the_frames_of_the_kernel(namespaces, tmp_path):
    """Both hosts' frames, before and after the network, on TCP ports of their own."""
    path = tmp_path / "wire.pcapng"
    network = Network([Link("4 Mb/s", 0.01, buffer=20_000)], [Flow([0], packet_size=1500)])
    run = ecc.live.simulate(
        Scenario(network, NewReno(), duration=1.0), traffic=[TCP("reno")], clock="real", attempts=1, capture=path
    )
    found = blocks(path)
    way = rb"[a-z]+(?: of flow)? \d to [a-z]+(?: of flow)? \d"
    names = [re.findall(way, body) for kind, body in found if kind == 1]
    packets = [(struct.unpack_from("<I", body)[0], body[20:]) for kind, body in found if kind == 6]
    frames = {name[0].decode(): [frame for at, frame in packets if at == k] for k, name in enumerate(names) if name}
    data, arrived = frames["sender of flow 0 to node 2"], frames["node 2 to receiver of flow 0"]
    acks, returned = frames["receiver of flow 0 to node 2"], frames["node 2 to sender of flow 0"]
    drops = int(run.data["drops"].sum())
    assert 200 < len(arrived) and len(arrived) <= len(data) <= len(arrived) + drops + 30  # under way at the end
    assert len(data) - drops - 30 <= len(arrived) and 100 < len(returned) <= len(acks) < len(data)
    assert {struct.unpack_from("!HH", frame, 34) for frame in data + arrived} == {(50000, 50001)}
    assert {struct.unpack_from("!HH", frame, 34) for frame in acks + returned} == {(50001, 50000)}


@pytest.mark.slow
def test_beside_a_flow_of_ours(namespaces):
    """The kernel has one flow, we the other: together they have the link, and what is dropped is sent again."""
    run = live(Scenario(NETWORK, NewReno(transport="sack"), duration=6.0), traffic=[TCP("reno", [0])])
    kernel, ours = run.goodput[20:].mean("time").to_numpy()
    assert kernel * 1500 / 1448 + ours == pytest.approx(4e6, rel=0.1)
    assert min(kernel, ours) > 2e5
    drops = run.data["drops"].to_numpy()[:, 0].sum()
    again = run.data["tcp_retransmissions"].to_numpy()
    assert drops > 0 and 0 < again[-1, 0] and np.isnan(again[:, 1]).all()
    assert run.flows["min_rtt"].to_numpy()[0] == pytest.approx(0.03, abs=0.01)


@pytest.mark.slow
def test_alone_as_our_hosts(namespaces):
    """Over two links, the first the narrow one: Reno has what our NewReno has, and mostly leaves no link idle."""
    links = [Link("4 Mb/s", 0.01, buffer=20_000), Link("10 Mb/s", 0.005)]
    network = Network(links, [Flow([0, 1], packet_size=1500, delayed_acks=(2, 0.04))])
    scenario = Scenario(network, NewReno(transport="sack"), duration=8.0)
    run, packets = live(scenario, traffic=[TCP("reno")]), simulate(scenario)
    late = [float(one.goodput[20:, 0].mean()) for one in (run, packets)]
    assert late[0] * 1500 / 1448 == pytest.approx(late[1], rel=0.05)
    assert run.flows["delivered"].to_numpy()[0] == pytest.approx(late[0] * 8.0 / 8.0, rel=0.3)


@pytest.mark.slow
def test_marks_reach_the_kernel(namespaces):
    """PI2 marks: the kernel reacts to CE in frames whose checksum is right, and next to nothing is sent again."""
    network = Network([Link("4 Mb/s", 0.01)], [Flow([0], packet_size=1500, access_delay=0.005)])
    protocol = {"flows": {"default": NewReno(transport="sack", ecn=True)}, "links": {"default": [PI2(mark=True)]}}
    scenario = Scenario(network, protocol, duration=6.0)
    run = live(scenario, traffic=[TCP("reno")])
    assert run.data["marks"].to_numpy()[:, 0].sum() > 3 and run.data["drops"].to_numpy()[:, 0].sum() == 0
    ours = [float(simulate(scenario.with_(seed=k)).goodput[20:, 0].mean()) for k in range(40)]  # 65 to 99 % of the link
    assert 0.95 * min(ours) < float(run.goodput[20:, 0].mean()) * 1500 / 1448 < 1.05 * max(ours)
    assert float(run.data["tcp_retransmissions"][-1, 0]) == 0.0
    sent, window = (run.data[name].to_numpy()[20:, 0] for name in ("tcp_in_flight", "tcp_window"))
    assert (sent <= 1.2 * window).all() and np.median(sent / window) > 0.8
    assert float(run.data["queue"][20:, 0].max()) < 60_000  # without marks: the window of the receiver


@pytest.mark.slow
def test_a_canceled_run_keeps_what_there_was(namespaces):
    """The hosts say what they know, and their process is gone."""
    begun = []

    def cancel():
        begun.append(len(begun))
        return len(begun) > 15

    run = ecc.live.simulate(
        Scenario(NETWORK, NewReno(), duration=60.0), traffic=[TCP("reno")], clock="real", attempts=1, cancel=cancel
    )
    assert run.stats["stopped"] == "canceled" and 1.0 < run.stats["now"] < 50.0
    window = run.data["tcp_window"].to_numpy()
    assert (window[2 : len(window) - 3] > 0).all() and (run.flows["delivered"].to_numpy() > 10_000).all()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not [command for command in commands if b"ecc.live.hosts" in command]
