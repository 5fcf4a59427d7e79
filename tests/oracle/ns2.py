"""Runs ns-2 (Debian's `ns2`) on a network of ours and returns what it did in our units."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecc.network.network import Network
from ecc.traffic.workload import Workload

FloatArray = NDArray[np.float64]
SCRIPTS = Path(__file__).parent
HANDSHAKE = 40  # bytes of the SYN, which carries no data in ns-2

installed = shutil.which("ns") is not None


@dataclass(frozen=True)
class Agents:
    """A protocol of ns-2: the classes of its senders and receivers, of its queues, and their `options`.

    `options`: (class, name, value). `set_up`: Tcl that is run for each sender, `$tcp`.
    """

    sender: str
    receiver: str
    queue: str = "DropTail"
    options: tuple[tuple[str, str, float], ...] = ()
    set_up: str = ""


XCP = Agents("TCP/Reno/XCP", "TCPSink/XCPSink", "XCP")
RFCS = (
    ("Agent/TCP", "timestamps_", 1),
    ("Agent/TCP", "ts_resetRTO_", 1),
    ("Agent/TCP/Newreno", "exit_recovery_fix_", 1),
)
NEWRENO = Agents("TCP/Newreno", "TCPSink", options=RFCS)
SACK = Agents("TCP/Sack1", "TCPSink/Sack1", options=RFCS)


@dataclass(frozen=True)
class Samples:
    """What ns-2 did, over each period: `rate`, `goodput` (sample, flow), `arrival` (sample, link) [bit/s], queues
    [bytes], `drops` and `marks` (sample, link) in packets; those that leave marked; `window` (sample, flow) [bytes] at
    the end of each period.

    ns-2 does not count the packet in service as queued. It is added here, as in our engine: a packet times the link's
    utilization to `queue`, the mean; a packet to `peak`, the highest that was looked at.
    """

    time: FloatArray
    rate: FloatArray
    goodput: FloatArray
    arrival: FloatArray
    queue: FloatArray
    peak: FloatArray
    drops: FloatArray
    marks: FloatArray
    window: FloatArray
    cpu_seconds: float


def run(
    network: Network,
    duration: float,
    period: float,
    look: float = 0.001,
    workload: Workload | None = None,
    seed: int = 1,
    tick: float = 1e-5,
    rto: float = 10.0,
    window: int = 10_000_000,
    agents: Agents = XCP,
    loss: float = 0.0,
) -> Samples:
    """Return ns-2's run of a protocol.

    Parameters
    ----------
    network : Network
        Network; ACKs on pure delays, buffers of whole packets.
    duration, period : float, s
    look : float, s, optional
        Between looks at queues.
    workload : Workload, optional
        Mice beside its flows.
    seed : int, optional
        Of mice and of all that ns-2 draws.
    tick : float, s, optional
        The senders' clock (ns-2's default: 10 ms).
    rto : float, s, optional
        Least timeout (ns-2's default, 0.2 s, lets timers expire where an RTT is longer and varies).
    window : int, optional
        Packets that a receiver allows.
    agents : Agents, optional
    loss : float, optional
        Share lost at random on each link's wire.
    """
    transfers = [*network.flows, *(workload.draw(seed, duration) if workload else ())]
    packet_size = transfers[0].packet_size
    ack_delays = network.with_flows(transfers).ack_delays
    ack_delays[: network.n_flows] = network.ack_delays
    ways: dict[tuple[float, ...], int] = {}
    flows = []
    for index, (flow, ack_delay) in enumerate(zip(transfers, ack_delays, strict=True)):
        owner = min(index, network.n_flows)  # mice share hosts
        way = ways.setdefault((owner, flow.access_delay, ack_delay, *flow.route), len(ways))
        packets = -1 if flow.size is None else -((HANDSHAKE - flow.size) // packet_size)
        flows.append((way, flow.start, -1 if flow.stop is None else flow.stop, packets))
    defaults = [
        ("Agent/TCP", name, value)
        for name, value in (("packetSize_", packet_size), ("window_", window), ("tcpTick_", tick), ("minrto_", rto))
    ]
    settings = {
        "links": _tcl((link.capacity, link.delay, _limit(link.buffer, packet_size), loss) for link in network.links),
        "routes": _tcl(way[1:] for way in ways),
        "flows": _tcl(flows),
        "sampled": network.n_flows,
        "duration": duration,
        "look": look,
        "period": period,
        "queue": agents.queue,
        "tcp_class": agents.sender,
        "sink_class": agents.receiver,
        "set_up": agents.set_up,
        "options": _tcl([*defaults, *agents.options]),
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as directory:
        scenario = Path(directory) / "scenario.tcl"
        scenario.write_text("".join(f"set {name} {{{value}}}\n" for name, value in settings.items()))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(["ns", SCRIPTS / "ns2.tcl", scenario], capture_output=True, text=True, cwd=directory)
    if done.returncode != 0:
        raise RuntimeError(f"ns-2 failed: {done.stderr.strip()}")
    rows = np.array([line.split()[1:] for line in done.stdout.splitlines() if line.startswith("row ")], dtype=float)
    rows, windows = np.split(rows, [-network.n_flows], axis=1)
    step = np.diff(rows, axis=0, prepend=0.0)
    n = 2 * network.n_flows
    step[:, n + 2 :: 5] %= 2.0**32  # ns-2 counts bytes in 32 bits
    step /= period
    arrival = 8.0 * step[:, n + 2 :: 5]
    return Samples(
        time=period * np.arange(1, len(rows) + 1),
        rate=8.0 * packet_size * step[:, :n:2],
        goodput=8.0 * packet_size * step[:, 1:n:2],
        arrival=arrival,
        queue=step[:, n + 1 :: 5] + packet_size * np.minimum(arrival / network.capacities, 1.0),
        peak=rows[:, n::5] + packet_size,
        drops=period * step[:, n + 3 :: 5],
        marks=period * step[:, n + 4 :: 5],
        window=packet_size * windows,
        cpu_seconds=resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before,
    )


def first_ticks(seed: int, n_links: int) -> FloatArray:
    """Return when XCP's routers first look at their queues and first close their books [s], (n_links, 2).

    Parameters
    ----------
    seed : int
        That of the run.
    n_links : int
    """
    script = f"""
        ns-random {seed}
        for {{set link 0}} {{$link < {n_links}}} {{incr link}} {{
            foreach mean {{0.05 0.05 0.1}} {{ ;# of a router's clocks: queue, control, statistics
                lappend ticks [expr {{max(0.004, [$defaultRNG normal $mean [expr {{0.2 * $mean}}]])}}]
            }}
        }}
        puts $ticks
        exit 0
    """
    done = subprocess.run(["ns", "-"], input=script, capture_output=True, text=True, check=True)
    return np.array(done.stdout.split(), dtype=float).reshape(n_links, 3)[:, :2]


def _limit(buffer: int | None, packet_size: int) -> int:
    """Packets that a queue holds, that in service too, as ns-2 counts them."""
    return 10_000_000 if buffer is None else buffer // packet_size


def _tcl(rows: Iterable[Iterable[float]]) -> str:
    return " ".join("{" + " ".join(map(str, row)) + "}" for row in rows)
