"""Runs ns-2 (Debian's `ns2`) on a network of ours and returns samples in our units."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecc.network import Flow, Network
from ecc.workload import Workload

FloatArray = NDArray[np.float64]
SCRIPTS = Path(__file__).parent
HANDSHAKE = 40  # bytes of ns-2's SYN; carries no data there

installed = shutil.which("ns") is not None


@dataclass(frozen=True)
class Samples:
    """What ns-2 did: `rate` (sample, flow) [bit/s], queues (sample, link) [bytes], `mean_queue` over each period.

    The packet in service is no part of ns-2's queue: `mean_queue` has it added as the link's utilization times a
    packet, so that it is that of our engine; `queue` has not.
    """

    time: FloatArray
    rate: FloatArray
    arrival: FloatArray
    queue: FloatArray
    mean_queue: FloatArray


def run(
    network: Network,
    duration: float,
    period: float,
    workload: Workload | None = None,
    seed: int = 1,
    tick: float = 1e-5,
    rto: float = 0.2,
) -> Samples:
    """Return ns-2's run of XCP.

    Parameters
        network : Network; ACKs on pure delays. duration, period : float, s. workload : mice beside its flows. seed : of mice and of ns-2.
        tick : float, s, the sender's clock. rto : float, s, least retransmission timeout.
    """
    transfers = [*network.flows, *(workload.draw(seed, duration) if workload else ())]
    packet_size = transfers[0].packet_size
    ways: dict[tuple[float, ...], int] = {}
    flows = []
    delays = network.with_flows(transfers).ack_delays
    delays[: network.n_flows] = network.ack_delays
    for index, (flow, ack_delay) in enumerate(zip(transfers, delays, strict=True)):
        own = index if index < network.n_flows else -1  # mice share hosts
        way = ways.setdefault((own, flow.access_delay, ack_delay, *flow.route), len(ways))
        packets = -1 if flow.size is None else -(-(flow.size - HANDSHAKE) // packet_size)
        flows.append((way, flow.start, -1 if flow.stop is None else flow.stop, packets))
    settings = {
        "links": _tcl((link.capacity, link.delay) for link in network.links),
        "routes": _tcl(way[1:] for way in ways),
        "flows": _tcl(flows),
        "sampled": network.n_flows,
        "duration": duration,
        "period": period,
        "packet_size": packet_size,
        "tick": tick,
        "rto": rto,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as directory:
        scenario = Path(directory) / "scenario.tcl"
        scenario.write_text("".join(f"set {name} {{{value}}}\n" for name, value in settings.items()))
        done = subprocess.run(
            ["ns", str(SCRIPTS / "xcp.tcl"), str(scenario)], capture_output=True, text=True, cwd=directory
        )
    if done.returncode != 0:
        raise RuntimeError(f"ns-2 failed: {done.stderr.strip()}")
    rows = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    split = 2 * network.n_flows
    step = np.diff(rows, axis=0, prepend=0.0)
    arrival = 8.0 * step[:, split + 2 :: 3] / period
    busy = np.minimum(arrival / network.capacities, 1.0)
    return Samples(
        time=period * np.arange(1, len(rows) + 1),
        rate=8.0 * packet_size * step[:, 0:split:2] / period,
        arrival=arrival,
        queue=rows[:, split::3],
        mean_queue=step[:, split + 1 :: 3] / period + busy * packet_size,
    )


def _tcl(rows) -> str:
    return " ".join("{" + " ".join(repr(float(value)) if isinstance(value, float) else str(value) for value in row) + "}"
                    for row in rows)  # fmt: skip
