"""The kernel's TCP as flows of a live run: what it may replace, and that it shares links and disciplines with ours."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import ecc.live
from ecc.errors import EccError
from ecc.live import TCP, tcp
from ecc.models import DCTCP, EDN, QIRCP, NewReno
from ecc.network import Flow, Link, Network
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
        ({"size": 30_000}, NewReno(), r"^flow 0 must have no size for the kernel's TCP, got 30000 bytes$"),
        ({"reverse": [0]}, NewReno(), r"^flow 0 must have no reverse links for the kernel's TCP, got \[0\]$"),
    ],
)
def test_flows_that_it_cannot_carry(flow, protocol, refused, monkeypatch):
    monkeypatch.setattr(tcp, "_check_available", lambda control: None)
    network = Network([Link("4 Mb/s", 0.01)], [Flow([0], **flow)])
    with pytest.raises(ValueError, match=refused):
        ecc.live.simulate(Scenario(network, protocol, duration=0.5), traffic=[TCP("reno")], clock="real")


def test_what_is_no_traffic():
    with pytest.raises(ValueError, match=r"^flows must be there once each, got \[0, 0\]$"):
        TCP("reno", [0, 0])
    with pytest.raises(TypeError, match=r"^traffic must be a sequence, each of it TCP, got \['reno'\]$"):
        ecc.live.simulate(Scenario(NETWORK, NewReno(), duration=0.5), traffic=["reno"], clock="real")
    with pytest.raises(EccError, match=r"^control must be one that this kernel has \(.*\), got 'none'$"):
        ecc.live.simulate(Scenario(NETWORK, NewReno(), duration=0.5), traffic=[TCP("none")], clock="real")


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
