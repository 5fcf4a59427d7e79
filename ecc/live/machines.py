"""One of several machines that run a scenario together, over the real interfaces between them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import Quantity, as_time
from ecc.errors import EccError, NativeError
from ecc.live.engine import MachineEngine
from ecc.live.nodes import links_between, nodes, prepared_for_links
from ecc.native import Frames, Partition, Port
from ecc.native._engine import lib
from ecc.packet.c_engine import build_parts, joints_of
from ecc.packet.frames import formats
from ecc.packet.interrupts import Interrupts
from ecc.packet.prepare import prepare
from ecc.scenario import Scenario

__all__ = ["HOSTS_AND_ROUTERS", "Machine", "machines_of", "node"]

HOSTS_AND_ROUTERS = "hosts/routers"
MIN_TOKEN_LENGTH = 16
"""Characters."""
ETHERNET, IPV4 = 1, 0x0800
SIOCGIFMTU = 0x8921
FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"


@dataclass(frozen=True)
class Machine:
    """Results of a run on one machine.

    `machine` is its number, `stopped` is "completed", "interrupted", "canceled", or the message of an error, and
    `simulated` is the time reached [s]. `flows` has `sent`, `lost` and `delivered` [bytes] for each flow with its
    sender on this machine, and `received` [bytes] for each with its receiver. `links` has `departed` and
    `dropped_bytes` [bytes] and `dropped` [packets] for each link on this machine. `frames` has numbers of frames: those
    sent, and those that the kernel did not accept (`not_sent`); those read, by outcome (taken, foreign, truncated,
    forged, replayed, wrong); among the taken ones, those `refused` by the engine and those `reordered` on the way;
    those `lost` on the way to this machine; and those from any source that were discarded because the buffer was full
    (`overrun`).
    """

    machine: int
    stopped: str
    simulated: float
    flows: dict[int, dict[str, int]]
    links: dict[int, dict[str, int]]
    frames: dict[str, int]

    def __str__(self) -> str:
        rows = [(f"flow {k}", counts) for k, counts in self.flows.items()]
        rows += [(f"link {k}", counts) for k, counts in self.links.items()]
        rows.append(("frames", self.frames))
        return "\n".join(f"{name}: " + ", ".join(f"{key} {n}" for key, n in counts.items()) for name, counts in rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the results in a form that JSON can represent."""
        return {
            "machine": self.machine,
            "stopped": self.stopped,
            "simulated": self.simulated,
            "flows": self.flows,
            "links": self.links,
            "frames": self.frames,
        }


def machines_of(text: str, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the machine of each live node.

    Parameters
    ----------
    text : str
        Numbers of nodes, with a slash between machines, for example "0,1/2/3"; or "hosts/routers": all hosts on
        machine 0, all routers on machine 1.
    parts : ndarray of int
        Node of each link, sender and receiver.

    Raises
    ------
    ValueError
        If a node is missing, appears twice, or does not exist.
    """
    n = int(parts.max(initial=0)) + 1
    if text == HOSTS_AND_ROUTERS:
        text = f"0,1/{','.join(map(str, range(2, n)))}" if n > 2 else "0/1"
    machine_of = np.full(n, -1)
    for machine, listed in enumerate(text.split("/")):
        for name in listed.split(","):
            number = int(name) if name.strip().isdecimal() else -1
            if not 0 <= number < n or machine_of[number] >= 0:
                raise ValueError(f"machines must name each node from 0 to {n - 1} once, as in 0,1/2, got {shown(text)}")
            machine_of[number] = machine
    if (machine_of < 0).any():
        raise ValueError(f"machines must name each node from 0 to {n - 1} once, as in 0,1/2, got {shown(text)}")
    return machine_of


@check_arguments
def node(
    scenario: Scenario,
    machine: int,
    links: Mapping[int, tuple[str, str]],
    token: str,
    *,
    machines: str = HOSTS_AND_ROUTERS,
    slow: float = 1.0,
    exact: bool = False,
    wait: Quantity = "60 s",
    ready: Callable[[], None] | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Machine:
    """Run the nodes of a scenario that are on this machine; other machines run the others at the same time.

    Nodes are those of `ecc.live.simulate`. A machine without senders waits for the first frame of the run and must be
    started first. Each machine uses its clock; the clocks are not synchronized.

    Parameters
    ----------
    scenario : Scenario
        Scenario without a workload, the same on all machines.
    machine : int, >= 0
        Number of this machine.
    links : mapping
        Number of each machine with which packets are exchanged -> interface of this machine, and MAC address of the
        interface of the other one, for example "52:54:00:12:34:56".
    token : str
        Secret of at least 16 characters, the same on all machines and new for each run.
    machines : str, optional
        Assignment of nodes to machines: see `machines_of`.
    slow, exact
        See `ecc.live.simulate`; the same on all machines.
    wait : float, s, >= 0, optional
        Time for which a machine without senders waits for the first frame.
    ready : callable, optional
        Called when frames can be received.
    cancel : callable, optional
        Called regularly; the run ends when it returns True.

    Returns
    -------
    Machine
        Results of this machine.

    Raises
    ------
    ValueError
        If a number, address, interface, token or list is not admissible, links are missing or superfluous, or the
        scenario has a workload.
    EccError
        If the system is not Linux, packet sockets are not permitted, an interface forwards packets, or no frame has
        arrived in time.
    NativeError
        If the engine refuses the network.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> scenario = ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0)
    >>> links = {1: ("eth1", "52:54:00:12:34:56")}
    >>> node(scenario, 0, links, token="a new secret for each run")  # doctest: +SKIP
    """
    if not hasattr(lib, "ecc_live_new"):
        raise EccError(f"live runs need the packet sockets of Linux, got {sys.platform}")
    if not 0.0 < slow < float("inf"):
        raise ValueError(f"slow must be > 0 and finite, got {slow:g}")
    if len(token) < MIN_TOKEN_LENGTH:
        raise ValueError(f"token must have at least {MIN_TOKEN_LENGTH} characters, got {len(token)}")
    if scenario.workload:
        raise ValueError("a live run must have no workload: its flows are those of the network")
    patience = as_time(wait, "wait")
    setup = prepared_for_links(prepare(scenario))
    graph = joints_of(setup)
    node_of = nodes(graph, setup)
    parts = machines_of(machines, node_of)[node_of]
    n_machines = int(parts.max(initial=0)) + 1
    if not 0 <= machine < n_machines:
        raise ValueError(f"machine must be from 0 to {n_machines - 1}, got {machine}")
    between = {a + b - machine for a, b in links_between(graph, parts) if machine in (a, b)}
    if set(links) != between:
        raise ValueError(f"links must lead to machines {sorted(between)}, got {sorted(links)}")
    engines, partition, _ = build_parts([setup] * n_machines, scenario, graph, parts)
    engine, layout = engines[machine], formats(setup)
    key = _key(scenario, machines, exact, token)
    with ExitStack() as stack:
        opened = {peer: stack.enter_context(_socket(interface)) for peer, (interface, _) in sorted(links.items())}
        mtu = min(map(_mtu, opened.values()), default=1500)
        frames = Frames(engine, layout, key, mtu=mtu, exact=exact)
        ends = [(end, peer, Port(_local_address(end), _address(links[peer][1]))) for peer, end in opened.items()]
        runner = MachineEngine(engine, frames, ends, slow)
        if ready is not None:
            ready()
        if not (partition.senders == machine).any():
            _await_frame(runner, patience)
        stopped = _advance(runner, scenario.duration, cancel)
        return _results(runner, engine, partition, machine, stopped)


def _advance(runner: MachineEngine, duration: float, cancel: Callable[[], bool] | None) -> str:
    try:
        with Interrupts() as interrupts:
            while runner.advance(duration) != "until":
                if interrupts.noted:
                    return "interrupted"
                if cancel is not None and interrupts.callback(cancel):
                    return "canceled"
        return "completed"
    except KeyboardInterrupt:
        return "interrupted"
    except NativeError as error:
        return str(error)


def _results(runner: MachineEngine, engine: Any, partition: Partition, machine: int, stopped: str) -> Machine:
    flows: dict[int, dict[str, int]] = {}
    results = engine.flow_results
    for ends, names in ((partition.senders, ("sent", "lost", "delivered")), (partition.receivers, ("received",))):
        for flow in np.flatnonzero(ends == machine).tolist():
            flows.setdefault(flow, {}).update({name: int(results[name][flow]) for name in names})
    links = {
        link: {name: int(engine.link_results[name][link]) for name in ("departed", "dropped", "dropped_bytes")}
        for link in np.flatnonzero(partition.links == machine).tolist()
    }
    return Machine(machine, stopped, runner.now, dict(sorted(flows.items())), links, runner.counts)


def _key(scenario: Scenario, machines: str, exact: bool, token: str) -> bytes:
    """Return the key of the tags of frames, which depends on the scenario and the options."""
    text = "\0".join([token, machines, str(exact), scenario.to_toml()])
    return hashlib.blake2b(text.encode(), digest_size=lib.ECC_FRAME_KEY).digest()


def _address(text: str) -> bytes:
    parts = text.split(":")
    if len(parts) != 6 or not all(len(part) == 2 and set(part.lower()) <= set("0123456789abcdef") for part in parts):
        raise ValueError(f"address must be that of an Ethernet interface, as in 52:54:00:12:34:56, got {shown(text)}")
    return bytes.fromhex("".join(parts))


def _socket(interface: str) -> socket.socket:
    """Return a packet socket that receives the IPv4 frames of an interface."""
    try:
        packet_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise EccError("a node needs packet sockets: run it as root, or with the capability CAP_NET_RAW") from None
    try:
        packet_socket.bind((interface, IPV4))
    except OSError:
        packet_socket.close()
        raise ValueError(f"interface must be one of this machine that is up, got {shown(interface)}") from None
    if packet_socket.getsockname()[3] != ETHERNET:
        packet_socket.close()
        raise ValueError(f"interface must be Ethernet, got {shown(interface)}")
    forwarding = Path(FORWARDING.format(interface))
    if os.sep not in interface and forwarding.exists() and forwarding.read_text().strip() != "0":
        packet_socket.close()
        raise EccError(
            f"interface must not forward IPv4, because the kernel would forward frames of the run, got {interface}"
        )
    return packet_socket


def _local_address(end: socket.socket) -> bytes:
    address: bytes = end.getsockname()[4]
    return address


def _mtu(end: socket.socket) -> int:
    answer = fcntl.ioctl(end, SIOCGIFMTU, struct.pack("16si12x", end.getsockname()[0].encode(), 0))
    return min(int(struct.unpack("16si12x", answer)[1]), 65535)


def _await_frame(runner: MachineEngine, patience: float) -> None:
    """Wait until a frame of the run has arrived."""
    end = time.monotonic() + patience
    with Interrupts() as interrupts:
        while not runner.await_first():
            if interrupts.noted:
                raise KeyboardInterrupt
            if time.monotonic() > end:
                observed = _observed_frames(runner)
                raise EccError(f"a node without senders must receive the first frame within {patience:g} s: {observed}")


def _observed_frames(runner: MachineEngine) -> str:
    """Return a text on the frames that a node received instead of the first frame of its run."""
    counts = runner.counts
    if counts["forged"]:
        return (
            f"{counts['forged']} frames had a different token, scenario, --machines or --exact; the "
            "token file and these must be the same on all machines"
        )
    if counts["truncated"]:
        return f"{counts['truncated']} frames of the run were truncated"
    return "no frame of a run arrived"
