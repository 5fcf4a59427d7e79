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

from ecc.network import Network
from ecc.workload import Workload

FloatArray = NDArray[np.float64]
SCRIPTS = Path(__file__).parent
HANDSHAKE = 40  # bytes of the SYN, which carries no data in ns-2

installed = shutil.which("ns") is not None


@dataclass(frozen=True)
class Samples:
    """What ns-2 did, over each period: `rate` (sample, flow), `arrival` (sample, link) [bit/s], queues [bytes].

    ns-2 does not count the packet in service as queued. It is added here, as in our engine: a packet times the link's
    utilization to `queue`, the mean; a packet to `peak`, the highest that was looked at.
    """

    time: FloatArray
    rate: FloatArray
    arrival: FloatArray
    queue: FloatArray
    peak: FloatArray
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
) -> Samples:
    """Return ns-2's run of XCP.

    Parameters
        network : Network; ACKs on pure delays. duration, period : float, s. look : float, s, between looks at queues.
        workload : mice beside its flows. seed : of mice and of the routers' first ticks.
        tick : float, s, the senders' clock (ns-2's default: 10 ms).
        rto : float, s, least timeout (ns-2's default, 0.2 s, lets timers expire where an RTT is longer and varies).
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
    settings = {
        "links": _tcl((link.capacity, link.delay) for link in network.links),
        "routes": _tcl(way[1:] for way in ways),
        "flows": _tcl(flows),
        "sampled": network.n_flows,
        "duration": duration,
        "look": look,
        "period": period,
        "packet_size": packet_size,
        "tick": tick,
        "rto": rto,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as directory:
        scenario = Path(directory) / "scenario.tcl"
        scenario.write_text("".join(f"set {name} {{{value}}}\n" for name, value in settings.items()))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(["ns", SCRIPTS / "xcp.tcl", scenario], capture_output=True, text=True, cwd=directory)
    if done.returncode != 0:
        raise RuntimeError(f"ns-2 failed: {done.stderr.strip()}")
    rows = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    step = np.diff(rows, axis=0, prepend=0.0) / period
    arrival = 8.0 * step[:, network.n_flows + 2 :: 3]
    return Samples(
        time=period * np.arange(1, len(rows) + 1),
        rate=8.0 * packet_size * step[:, : network.n_flows],
        arrival=arrival,
        queue=step[:, network.n_flows + 1 :: 3] + packet_size * np.minimum(arrival / network.capacities, 1.0),
        peak=rows[:, network.n_flows :: 3] + packet_size,
        cpu_seconds=resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before,
    )


def _tcl(rows: Iterable[Iterable[float]]) -> str:
    return " ".join("{" + " ".join(map(str, row)) + "}" for row in rows)
