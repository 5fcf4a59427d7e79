"""Several machines run one scenario: two namespaces joined by virtual Ethernet stand for two machines."""

from __future__ import annotations

import json
import re
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
TWO_MACHINES = Path(__file__).with_name("two_machines.py")


def run_both(
    folder: Path, duration: str, frames_per_second: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    scenario, token = folder / "scenario.toml", folder / "token"
    scenario.write_text(SCENARIO.format(duration=duration))
    token.write_text(TOKEN + "\n")
    done = subprocess.run(
        [sys.executable, "-P", str(TWO_MACHINES), str(scenario), str(token), "2", frames_per_second],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    hosts, one, routers, other, sent = json.loads(done.stdout)
    assert hosts and routers, one + other
    return json.loads(hosts), json.loads(routers), sent


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
    hosts, routers, _ = run_both(tmp_path, "1 s", "0")
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
    """Frames of the hosts come again, altered, cut, and with noise behind their addresses, as fast as can be sent."""
    hosts, routers, sent = run_both(tmp_path, "2 s", "inf")
    assert_complete(hosts, routers)
    frames = routers["frames"]
    assert sent["frames"] > 1000
    assert all(frames[verdict] > 50 for verdict in ("foreign", "truncated", "forged", "replayed"))
    seen = sum(frames[verdict] for verdict in ("taken", "foreign", "truncated", "forged", "replayed"))
    assert seen + frames["overrun"] >= hosts["frames"]["sent"] - hosts["frames"]["not_sent"]


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


ROUTER = """
import os
import ecc
from ecc.live import node
from ecc.live.namespaces import become_root
from ecc.live.netlink import new_pair, set_up

become_root()
new_pair("a0", "b0", os.open("/proc/self/ns/net", os.O_RDONLY), 1500)
set_up("a0")
set_up("b0")
scenario = ecc.Scenario(ecc.Network.dumbbell("4 Mb/s", rtts=[0.05]), ecc.models.XCP(), 1.0)
"""
ALONE = (
    ROUTER
    + """
node(scenario, 1, {0: ("b0", "52:54:00:12:34:56")}, "a secret of this run alone", wait="0.2 s")
"""
)
OTHER_TOKEN = (
    ROUTER
    + """
import threading
from ecc.live.namespaces import packet_socket

a0, b0 = (packet_socket(name).getsockname()[4].hex(":") for name in ("a0", "b0"))
hosts = lambda: node(scenario, 0, {1: ("a0", b0)}, "another secret, of no use")
begin = lambda: threading.Thread(target=hosts, daemon=True).start()
node(scenario, 1, {0: ("b0", a0)}, "a secret of this run alone", wait="2 s", ready=begin)
"""
)


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_a_router_does_not_wait_forever() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", ALONE], capture_output=True, text=True, timeout=HANG)
    assert done.stderr.splitlines()[-1] == (
        "ecc.errors.EccError: a node without senders must receive the first frame within 0.2 s: "
        "no frame of a run arrived"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_a_wrong_token_is_named() -> None:
    """The hosts run with another token than the router, which says how many such frames arrived."""
    done = subprocess.run([sys.executable, "-P", "-c", OTHER_TOKEN], capture_output=True, text=True, timeout=HANG)
    assert re.fullmatch(
        r"ecc\.errors\.EccError: a node without senders must receive the first frame within 2 s: [1-9]\d* frames had "
        r"a different token, scenario, --machines or --exact; .* must be the same on all machines",
        done.stderr.splitlines()[-1],
    ), done.stderr
