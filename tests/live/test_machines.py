"""Several machines run one scenario: two namespaces joined by virtual Ethernet stand for two machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import HANG

import ecc
from ecc.errors import EccError
from ecc.live.machines import _address, machines_of, node
from ecc.models import XCP

TOKEN = "a secret of this run alone"
SCENARIO = """
duration = "{duration}"
[protocol]
name = "XCP"
[[links]]
capacity = "4 Mb/s"
delay = "10 ms"
[[flows]]
route = [0]
access_delay = "5 ms"
[[flows]]
route = [0]
access_delay = "8 ms"
"""
MACHINES = """
import json, os, socket, subprocess, sys, threading, time
from ecc.live.namespaces import NEW_NET, become_root, call
from ecc.live.netlink import new_pair, set_up

scenario, token, stranger = sys.argv[1:4]
become_root()
told, tells = os.pipe()
heard, says = os.pipe()
child = os.fork()
if child == 0:
    call("unshare", NEW_NET)
    os.write(tells, b"x")
    os.read(heard, 1)
    set_up("b0")
    os.write(tells, b"x")
    os.read(heard, 1)
    time.sleep(3600)
os.read(told, 1)
space = os.open(f"/proc/{child}/ns/net", os.O_RDONLY)
new_pair("a0", "b0", space, 1500)
os.write(says, b"x")
os.read(told, 1)
set_up("a0")

def address(name):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as one:
        one.bind((name, 0))
        return one.getsockname()[4]

here = address("a0")
ours = os.open("/proc/self/ns/net", os.O_RDONLY)
call("setns", space, NEW_NET)
there = address("b0")
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
tap.bind(("b0", 3))
tap.settimeout(0.05)
def command(machine, peer, interface, mac):
    link = f"{peer}={interface},{mac.hex(':')}"
    return [sys.executable, "-P", "-m", "ecc", "node", scenario, str(machine), "--link", link, "--token-file", token,
            "--slow", "2", "--json"]
router = subprocess.Popen(command(1, 0, "b0", here), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
line = router.stderr.readline()
assert line == "ready\\n", line + router.stderr.read()
call("setns", ours, NEW_NET)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind(("a0", 0))
ends = threading.Event()
n_sent = 0

def annoy():
    global n_sent
    mine = set()
    while not ends.is_set():
        try:
            frame = tap.recv(65600)
        except TimeoutError:
            continue
        if frame in mine or frame[:6] != there:
            continue
        at = os.urandom(1)[0] % 100
        forged = frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]
        for other in (frame, forged, frame[:100], frame[:14] + os.urandom(200), os.urandom(300)):
            mine.add(other)
            wire.send(other)
            n_sent += 1

if stranger == "stranger":
    thread = threading.Thread(target=annoy)
    thread.start()
hosts = subprocess.run(command(0, 1, "a0", there), capture_output=True, text=True)
rest, errors = router.communicate(timeout=600)
ends.set()
os.kill(child, 9)
os.waitpid(child, 0)
print(json.dumps([hosts.stdout, hosts.stderr, rest, errors, n_sent]))
"""


def run_both(folder: Path, duration: str, stranger: str) -> tuple[dict[str, Any], dict[str, Any], int]:
    scenario, token = folder / "scenario.toml", folder / "token"
    scenario.write_text(SCENARIO.format(duration=duration))
    token.write_text(TOKEN + "\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", MACHINES, str(scenario), str(token), stranger],
        capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    hosts, one, routers, other, n_sent = json.loads(done.stdout)
    assert hosts and routers, one + other
    return json.loads(hosts), json.loads(routers), n_sent


def assert_complete(hosts: dict[str, Any], routers: dict[str, Any]) -> None:
    """Each has seen what is its own, and nothing is there that was not sent."""
    assert hosts["stopped"] == routers["stopped"] == "completed"
    assert set(hosts["flows"]) == {"0", "1"} and routers["flows"] == {} and set(routers["links"]) == {"0"}
    sent = sum(flow["sent"] for flow in hosts["flows"].values())
    received = sum(flow["received"] for flow in hosts["flows"].values())
    assert 0 < received <= routers["links"]["0"]["departed"] <= sent
    assert (
        routers["frames"]["taken"] <= hosts["frames"]["sent"] and hosts["frames"]["taken"] <= routers["frames"]["sent"]
    )
    for one in (hosts, routers):
        assert one["frames"]["wrong"] == one["frames"]["refused"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_two_machines_run_one_scenario(tmp_path: Path) -> None:
    hosts, routers, _ = run_both(tmp_path, "1 s", "nobody")
    assert_complete(hosts, routers)
    for one in (hosts, routers):
        assert all(one["frames"][verdict] == 0 for verdict in ("foreign", "truncated", "forged", "replayed"))
    packets = ecc.packet.simulate(ecc.Scenario.from_toml(tmp_path / "scenario.toml"))
    expected = 1.0 / 8.0 * float(packets.goodput.mean("time").sum())
    received = sum(flow["received"] for flow in hosts["flows"].values())
    assert 0.3 * expected < received < 1.2 * expected  # whatever the machine does besides


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_strangers_change_nothing_and_stop_nothing(tmp_path: Path) -> None:
    """Each frame of the hosts comes again, altered, cut, and with noise behind its addresses."""
    hosts, routers, n_sent = run_both(tmp_path, "2 s", "stranger")
    assert_complete(hosts, routers)
    frames = routers["frames"]
    assert n_sent > 500 and frames["forged"] > 50 and frames["replayed"] > 50 and frames["foreign"] > 50
    assert frames["truncated"] > 50


def test_machines_have_each_node_once() -> None:
    parts = np.array([2, 3, 0, 1])
    assert machines_of("hosts/routers", parts).tolist() == [0, 0, 1, 1]
    assert machines_of("0/2,3/1", parts).tolist() == [0, 2, 1, 1]
    for text in ("0,1/2", "0,1/2,3,3", "0,1/2,3,4", "x", "", "0,1/2,-3", "0,1//2,3"):
        with pytest.raises(ValueError, match="machines must name each node from 0 to 3 once, as in 0,1/2, got "):
            machines_of(text, parts)


LINKS = {1: ("nowhere0", "52:54:00:12:34:56")}


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    ("machine", "links", "token", "options", "message"),
    [
        (0, LINKS, "short", {}, "token must have at least 16 characters, got 5"),
        (2, LINKS, TOKEN, {}, "machine must be from 0 to 1, got 2"),
        (0, {}, TOKEN, {}, r"links must lead to machines \[1\], got \[\]"),
        (0, LINKS | {2: LINKS[1]}, TOKEN, {}, r"links must lead to machines \[1\], got \[1, 2\]"),
        (0, LINKS, TOKEN, {"slow": 0.0}, "slow must be > 0 and finite, got 0"),
        (0, LINKS, TOKEN, {"machines": "0/1"}, "machines must name each node from 0 to 2 once"),
    ],
)
def test_what_is_refused(machine: int, links: Any, token: str, options: Any, message: str) -> None:
    scenario = ecc.Scenario(ecc.Network.dumbbell("4 Mb/s", rtts=[0.05]), XCP(), 1.0)
    with pytest.raises(ValueError, match=message):
        node(scenario, machine, links, token, **options)


def test_workloads_are_refused() -> None:
    network = ecc.Network.dumbbell("4 Mb/s", rtts=[0.05])
    mice = ecc.Workload(arrivals=[ecc.Arrivals([0], 0.02, 3000)])
    with pytest.raises(ValueError, match="a live run must have no workload"):
        node(ecc.Scenario(network, XCP(), 1.0, workload=mice), 0, LINKS, TOKEN)


@pytest.mark.parametrize("text", ["", "52:54:00:12:34", "52:54:00:12:34:5g", "525400123456", "1:2:3:4:5:6"])
def test_addresses_are_those_of_ethernet(text: str) -> None:
    assert _address("52:54:00:12:34:aF") == bytes.fromhex("5254001234af")
    with pytest.raises(
        ValueError, match="address must be that of an Ethernet interface, as in 52:54:00:12:34:56, got "
    ):
        _address(text)


def test_an_interface_that_is_not_there_is_refused() -> None:
    scenario = ecc.Scenario(ecc.Network.dumbbell("4 Mb/s", rtts=[0.05]), XCP(), 1.0)
    with pytest.raises(
        (ValueError, EccError), match="interface must be one of this machine that is up, got 'nowhere0'|CAP_NET"
    ):
        node(scenario, 0, LINKS, TOKEN)
