"""Fluid and packets side by side: peak queues, settle times and stationary rates, and why they part where they do.

    python benchmarks/fluid_against_packets.py [--figures FOLDER | --windows]

prints the tables of docs/fluid_against_packets.md; with a folder it writes two of the comparisons there as pictures;
with --windows it prints how windows open, protocol by protocol, on 36 dumbbells: 20 minutes of CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

import ecc
from ecc.contract.protocol import Protocol
from ecc.models import BIC, EDN, FAST, PEDN, PIQIRCP, RCP, UTIL, VCP, XCP, JetMax, NewReno, Vegas
from ecc.network.network import Network

SEEDS = range(1, 6)
PROTOCOLS: dict[str, Protocol] = {
    "RCP": RCP(),
    "PIQI-RCP": PIQIRCP(),
    "XCP": XCP(),
    "XCP, paced": XCP(paced=True),
    "JetMax": JetMax(),
}

WINDOWS: dict[str, Protocol] = {
    "NewReno": NewReno(),
    **{
        name: replace(protocol, transport="sack")
        for name, protocol in {
            "Sack": NewReno(),
            "BIC": BIC(transport="sack"),
            "BIC of Linux": BIC(transport="sack", form="linux"),
            "Vegas": Vegas(),
            "FAST": FAST(),
            "VCP": VCP(),
            "VCP, slow start": VCP(opening="slow_start"),
            "UTIL": UTIL(),
            "EDN": EDN(),
            "PEDN": PEDN(),
        }.items()
    },
}
DUMBBELLS = list(product((10e6, 100e6, 1e9), (0.02, 0.1), (1, 2, 10), (1.0, 0.25)))
OPENING = ("rate, 10 s", "rate, 60 s", "peak queue, 10 s", "mean queue, 10 s", "mean queue, 60 s")


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
        found.append(
            [
                [float(run.queue_max.max()) for run in (both.fluid, both.packet)],
                [float(rates[f"{run}_settled"].max()) - joined for run in ("fluid", "packet")],
                [0.0, float(np.abs(rates["packet_end"].to_numpy() / fair - 1.0).max())],
            ]
        )
    return np.mean(found, axis=0).T


def table() -> None:
    """Print what both engines find, and how far apart that is."""
    print(f"{'setup':8}{'protocol':12}{'peak queue [kB]':>26}{'settle time [s]':>26}{'rates':>9}")
    for name in ("th-f11", "th-f22", "ev-f5"):
        for label, protocol in PROTOCOLS.items():
            fluid, packets = measure(name, protocol)
            peak, settle = (
                f"{fluid[k] * f:9.{d}f}{packets[k] * f:9.{d}f}{fluid[k] / packets[k] - 1.0:+8.1%}"
                for k, f, d in ((0, 1e-3, 0), (1, 1.0, 2))
            )
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


def opening(protocol: Protocol, capacity: float, rtt: float, flows: int, buffer: float) -> np.ndarray:
    """Return rows fluid, packets: rates of all flows [share of the capacity], queues [share of the BDP], as `OPENING`.

    Flows start at random within the first second. Parameters: of the dumbbell, its buffer in BDPs.
    """
    pipe = capacity * rtt / 8.0
    starts = np.random.default_rng(flows).uniform(0.0, 1.0, flows).round(4).tolist() if flows > 1 else [0.0]
    network = Network.dumbbell(capacity, [rtt] * flows, buffer=int(buffer * pipe), starts=starts)
    found = []
    for engine in (ecc.fluid, ecc.packet):
        run = engine.simulate(ecc.Scenario(network, protocol, 60.0), sample=0.02)
        rate, queue = run.rate.to_numpy().sum(axis=1) / capacity, run.queue.to_numpy()[:, 0] / pipe
        peak = float(run.queue_max.to_numpy()[:500].max()) / pipe
        found.append([rate[:500].mean(), rate.mean(), peak, queue[:500].mean(), queue.mean()])
    return np.array(found)


def windows(names: Sequence[str] = tuple(WINDOWS)) -> None:
    """Print every dumbbell, then the dumbbells in which fluid and packets agree, within 5 % of the capacity or BDP."""
    print(f"{'protocol':16}{'Mb/s':>5}{'ms':>4}{'flows':>6}{'buffer':>7}  fluid/packets: {', '.join(OPENING)}")
    summary = []
    for name in names:
        apart = []
        for capacity, rtt, flows, buffer in DUMBBELLS:
            fluid, packets = opening(WINDOWS[name], capacity, rtt, flows, buffer)
            apart.append(np.abs(fluid - packets))
            shown = "  ".join(f"{a:5.3f}/{b:5.3f}" for a, b in zip(fluid, packets, strict=True))
            print(f"{name:16}{capacity / 1e6:5.0f}{rtt * 1e3:4.0f}{flows:6}{buffer:7}  {shown}", flush=True)
        off = np.array(apart)
        counts, medians = (off <= 0.05).sum(axis=0), np.median(off, axis=0)
        within = "".join(f"{k:6} {m:6.3f}" for k, m in zip(counts, medians, strict=True))
        summary.append(f"{name:16}{within}")
    print(f"of {len(DUMBBELLS)} dumbbells, those within 0.05, and the median difference:", *summary, sep="\n")


def figures(folder: Path) -> None:
    """Write a figure in which both agree, and one with a discrepancy."""
    for name, protocol, stem in (("ev-f5", PIQIRCP(), "agreement"), ("ev-f5", XCP(), "discrepancy")):
        network, duration, _ = setup(name)
        both = ecc.compare(ecc.Scenario(network, protocol, duration), sample=0.05, window=0.5)
        both.plot().write_image(folder / f"fluid_and_packets_{stem}.png", width=900, height=600, scale=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path, help="folder for pictures")
    parser.add_argument("--windows", nargs="*", metavar="NAME", help="how windows open, of these protocols or all")
    given = parser.parse_args()
    if given.figures:
        figures(given.figures)
    elif given.windows is not None:
        windows(given.windows or tuple(WINDOWS))
    else:
        table()
        reasons()
