"""Fluid and packets side by side: peak queues, settle times and stationary rates, and why they part where they do.

    python benchmarks/fluid_against_packets.py [--figures FOLDER]

prints the tables of docs/fluid_against_packets.md; with a folder it writes two of the comparisons there as pictures.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import ecc
from ecc.models import PIQIRCP, RCP, XCP, JetMax
from ecc.models.base import Protocol
from ecc.network import Network

SEEDS = range(1, 6)
PROTOCOLS: dict[str, Protocol] = {
    "RCP": RCP(), "PIQI-RCP": PIQIRCP(), "XCP": XCP(), "XCP, paced": XCP(paced=True), "JetMax": JetMax(),
}  # fmt: skip


def setup(name: str, packet_size: int = 1000) -> tuple[Network, float, float]:
    """Return (network, duration [s], when the last flow joins [s]) of a figure of the papers."""
    if name == "th-f11":
        starts = [0.0] + [15.0] * 50
        network = Network.dumbbell("100 Mb/s", [0.12] * 51, delay=0.05, starts=starts, packet_size=packet_size)
        return network, 45.0, 15.0
    if name == "th-f22":
        network = Network.parking_lot(["970 Mb/s", "800 Mb/s"], starts=[0.0, 15.0, 30.0])
    else:
        network = Network.dumbbell("1 Gb/s", [0.22, 0.03], starts=[0.0, 30.0])
    return Network(network.links, [replace(flow, packet_size=packet_size) for flow in network.flows]), 60.0, 30.0


def measure(name: str, protocol: Protocol, packet_size: int = 1000) -> np.ndarray:
    """Return rows fluid, packets (means over seeds): peak queue [bytes], settle time [s], farthest rate [share]."""
    network, duration, joined = setup(name, packet_size)
    found = []
    for seed in SEEDS:
        both = ecc.compare(ecc.Scenario(network, protocol, duration, seed=seed), sample=0.05, window=0.5)
        rates = both.table[both.table["series"] == "rate"]
        fair = rates["fluid_end"].to_numpy()
        found.append([
            [float(run.queue_max.max()) for run in (both.fluid, both.packet)],
            [float(rates[f"{run}_settled"].max()) - joined for run in ("fluid", "packet")],
            [0.0, float(np.abs(rates["packet_end"].to_numpy() / fair - 1.0).max())],
        ])  # fmt: skip
    return np.mean(found, axis=0).T


def table() -> None:
    """Print what both engines find, and how far apart that is."""
    print(f"{'setup':8}{'protocol':12}{'peak queue [kB]':>26}{'settle time [s]':>26}{'rates':>9}")
    for name in ("th-f11", "th-f22", "ev-f5"):
        for label, protocol in PROTOCOLS.items():
            fluid, packets = measure(name, protocol)
            peak, settle = (f"{fluid[k] * f:9.{d}f}{packets[k] * f:9.{d}f}{fluid[k] / packets[k] - 1.0:+8.1%}"
                            for k, f, d in ((0, 1e-3, 0), (1, 1.0, 2)))  # fmt: skip
            print(f"{name:8}{label:12}{peak}{settle}{packets[2]:9.2%}", flush=True)


def reasons() -> None:
    """Print how gaps close: with smaller packets, and RCP's with routers that learn of RTTs from fewer packets."""
    for size in (2000, 1000, 500, 250):
        fluid, packets = measure("th-f11", PIQIRCP(), size)
        print(f"th-f11, PIQI-RCP, packets of {size} bytes: peak {fluid[0] / packets[0] - 1.0:+.1%}", flush=True)
    for name in ("th-f11", "th-f22", "ev-f5"):  # windows open with the same bytes
        for size in (2000, 1000, 500, 250):
            fluid, packets = measure(name, XCP(paced=True, initial=2000 / size), size)
            both = (f"{what} {fluid[k] / packets[k] - 1.0:+.1%}" for k, what in enumerate(("peak", "settle")))
            print(f"{name}, XCP, paced, packets of {size} bytes: {', '.join(both)}", flush=True)
    for size in (1000, 250, 100):
        fluid, packets = measure("th-f11", JetMax(floor=1000.0 / size), size)
        print(f"th-f11, JetMax, packets of {size} bytes: peak {fluid[0] / packets[0] - 1.0:+.1%}", flush=True)
    for gain in (0.02, 0.1, 0.5):
        fluid, packets = measure("th-f11", RCP(rtt_gain=gain))
        print(f"th-f11, RCP, weight of a packet's RTT {gain:g}: settle {fluid[1] / packets[1] - 1.0:+.1%}", flush=True)


def figures(folder: Path) -> None:
    """Write an agreement and a parting."""
    for name, protocol, stem in (("ev-f5", PIQIRCP(), "agreement"), ("ev-f5", XCP(), "parting")):
        network, duration, _ = setup(name)
        both = ecc.compare(ecc.Scenario(network, protocol, duration), sample=0.05, window=0.5)
        both.plot().write_image(folder / f"fluid_and_packets_{stem}.png", width=900, height=600)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path, help="folder for pictures")
    given = parser.parse_args()
    if given.figures:
        figures(given.figures)
    else:
        table()
        reasons()
