"""One machine of several that run a scenario together, on the real interfaces between them."""

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
SHORTEST_TOKEN = 16
"""Characters."""
ETHERNET, IPV4 = 1, 0x0800
SIOCGIFMTU = 0x8921
FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"


@dataclass(frozen=True)
class Machine:
    """What one machine has seen of a run.

    `machine`: its number; `stopped`: "completed", "interrupted", "canceled", or an error; `simulated` [s]; `flows`: for
    each flow whose sender or receiver it has, `sent`, `lost` and `delivered` [bytes, sender], `received` [bytes,
    receiver]; `links`: for each link that it has, `departed` and `dropped_bytes`, [bytes], and `dropped` [packets];
    `frames`: how many were sent, not taken by the kernel (`not_sent`), and read, by what became of them: taken,
    foreign, truncated, forged, replayed, wrong; of those taken, `refused` by the engine, and `reordered` on their way;
    `lost` on their way here; and `overrun`, of anybody, that came while there was no room for them.
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
        return "\n".join(f"{name}: " + ", ".join(f"{of} {n}" for of, n in counts.items()) for name, counts in rows)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "machine": self.machine, "stopped": self.stopped, "simulated": self.simulated, "flows": self.flows,
            "links": self.links, "frames": self.frames,
        }  # fmt: skip


def machines_of(text: str, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the machine of each live node.

    Parameters
    ----------
    text : str
        Numbers of nodes, those of each machine after a slash: "0,1/2/3"; or "hosts/routers": all hosts on machine 0,
        all routers on machine 1.
    parts : ndarray of int
        Node of each link, sender and receiver.

    Raises
    ------
    ValueError
        A node is missing, twice there, or no node.
    """
    n = int(parts.max(initial=0)) + 1
    if text == HOSTS_AND_ROUTERS:
        text = f"0,1/{','.join(map(str, range(2, n)))}" if n > 2 else "0/1"
    of = np.full(n, -1)
    for machine, listed in enumerate(text.split("/")):
        for name in listed.split(","):
            number = int(name) if name.strip().isdecimal() else -1
            if not 0 <= number < n or of[number] >= 0:
                raise ValueError(f"machines must name each node from 0 to {n - 1} once, as in 0,1/2, got {shown(text)}")
            of[number] = machine
    if (of < 0).any():
        raise ValueError(f"machines must name each node from 0 to {n - 1} once, as in 0,1/2, got {shown(text)}")
    return of


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
    """Run what one machine has of a scenario; the others run the rest at the same time.

    Nodes are those of `ecc.live.simulate`. A machine without senders waits for the first frame of the run, and is
    started first. Clocks are those of the machines, and nothing compares them.

    Parameters
    ----------
    scenario : Scenario
        The same on all machines; without a workload.
    machine : int, >= 0
        Number of this one.
    links : mapping
        Number of each machine that packets go to or come from -> interface here, and MAC address of the interface
        there, such as "52:54:00:12:34:56".
    token : str
        At least 16 characters, the same on all machines and new for each run; secret.
    machines : str, optional
        Which nodes are on which machine: see `machines_of`.
    slow, exact
        See `ecc.live.simulate`; the same on all machines.
    wait : float, s, >= 0, optional
        How long a machine without senders waits for the first frame.
    ready : callable, optional
        Is called when frames can come.
    cancel : callable, optional
        True ends the run.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        A bad number, address, interface, token or list; links that are missing or too many; a workload.
    EccError
        Not Linux; no permission for packet sockets; an interface that forwards; no frame has come in time.
    NativeError
        The engine refuses the network.
    """
    if not hasattr(lib, "ecc_live_new"):
        raise EccError(f"live runs need the packet sockets of Linux, got {sys.platform}")
    if not 0.0 < slow < float("inf"):
        raise ValueError(f"slow must be > 0 and finite, got {slow:g}")
    if len(token) < SHORTEST_TOKEN:
        raise ValueError(f"token must have at least {SHORTEST_TOKEN} characters, got {len(token)}")
    if scenario.workload:
        raise ValueError("a live run must have no workload: its flows are those of the network")
    patience = as_time(wait, "wait")
    setup = prepared_for_links(prepare(scenario))
    of = joints_of(setup)
    of_nodes = nodes(of, setup)
    parts = machines_of(machines, of_nodes)[of_nodes]
    n_machines = int(parts.max(initial=0)) + 1
    if not 0 <= machine < n_machines:
        raise ValueError(f"machine must be from 0 to {n_machines - 1}, got {machine}")
    between = {a + b - machine for a, b in links_between(of, parts) if machine in (a, b)}
    if set(links) != between:
        raise ValueError(f"links must lead to machines {sorted(between)}, got {sorted(links)}")
    engines, partition, _ = build_parts([setup] * n_machines, scenario, of, parts)
    engine, layout = engines[machine], formats(setup)
    key = _key(scenario, machines, exact, token)
    with ExitStack() as stack:
        opened = {peer: stack.enter_context(_socket(interface)) for peer, (interface, _) in sorted(links.items())}
        mtu = min(map(_mtu, opened.values()), default=1500)
        frames = Frames(engine, layout, key, mtu=mtu, exact=exact)
        ends = [(one, peer, Port(_own(one), _address(links[peer][1]))) for peer, one in opened.items()]
        runner = MachineEngine(engine, frames, ends, slow)
        if ready is not None:
            ready()
        if not (partition.senders == machine).any():
            _await_frame(runner, patience)
        stopped = _advance(runner, scenario.duration, cancel)
        return _seen(runner, engine, partition, machine, stopped)


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


def _seen(runner: MachineEngine, engine: Any, partition: Partition, machine: int, stopped: str) -> Machine:
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
    """What tags of frames are made with: another scenario gives other tags."""
    said = "\0".join([token, machines, str(exact), scenario.to_toml()])
    return hashlib.blake2b(said.encode(), digest_size=lib.ECC_FRAME_KEY).digest()


def _address(text: str) -> bytes:
    bytes_of = text.split(":")
    if len(bytes_of) != 6 or not all(len(one) == 2 and set(one.lower()) <= set("0123456789abcdef") for one in bytes_of):
        raise ValueError(f"address must be that of an Ethernet interface, as in 52:54:00:12:34:56, got {shown(text)}")
    return bytes.fromhex("".join(bytes_of))


def _socket(interface: str) -> socket.socket:
    """A packet socket that gets the IPv4 frames of one interface."""
    try:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise EccError("a node needs packet sockets: run it as root, or with the capability CAP_NET_RAW") from None
    try:
        one.bind((interface, IPV4))
    except OSError:
        one.close()
        raise ValueError(f"interface must be one of this machine that is up, got {shown(interface)}") from None
    if one.getsockname()[3] != ETHERNET:
        one.close()
        raise ValueError(f"interface must be Ethernet, got {shown(interface)}")
    forwarding = Path(FORWARDING.format(interface))
    if os.sep not in interface and forwarding.exists() and forwarding.read_text().strip() != "0":
        one.close()
        raise EccError(f"interface must not forward IPv4, or the kernel sends frames of the run on, got {interface}")
    return one


def _own(one: socket.socket) -> bytes:
    address: bytes = one.getsockname()[4]
    return address


def _mtu(one: socket.socket) -> int:
    answer = fcntl.ioctl(one, SIOCGIFMTU, struct.pack("16si12x", one.getsockname()[0].encode(), 0))
    return min(int(struct.unpack("16si12x", answer)[1]), 65535)


def _await_frame(runner: MachineEngine, patience: float) -> None:
    """Until a frame of the run has come."""
    end = time.monotonic() + patience
    with Interrupts() as interrupts:
        while not runner.await_first():
            if interrupts.noted:
                raise KeyboardInterrupt
            if time.monotonic() > end:
                seen = _seen_instead(runner)
                raise EccError(f"a node without senders must receive the first frame within {patience:g} s: {seen}")


def _seen_instead(runner: MachineEngine) -> str:
    """What a node received instead of the first frame of its run."""
    counts = runner.counts
    if counts["forged"]:
        return (
            f"{counts['forged']} frames had another token, or were of another scenario, --machines or --exact; the "
            "token file and these must be the same on all machines"
        )
    if counts["truncated"]:
        return f"{counts['truncated']} frames of it were cut off"
    return "no frame of a run arrived"
