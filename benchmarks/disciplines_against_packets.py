"""Queue disciplines as fluid and in packets: `python benchmarks/disciplines_against_packets.py [--seeds N]`.

Ten Sack flows with an RTT of 100 ms, packets of 1000 bytes, share 50 Mb/s. Mean queue [packets] and utilization by
goodput over 30 to 90 s: means over seeds, and their standard errors. Flows start at once, or 1.3 s apart.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import ecc
from ecc.models import NewReno
from ecc.queues import AVQ, DRR, PI, PI2, PIE, RED, REM, CoDel, DualPI2, FQCoDel

FLOWS, PACKET, CAPACITY, SETTLED, UNTIL = 10, 1000, 50e6, 30.0, 90.0  # bytes, bit/s, s
CASES = {  # of a discipline: whether flows start at once
    "PI2": (PI2(mark=True), True),
    "PIE": (PIE(mark=True), True),
    "REM": (REM(mark=True), True),
    "PI": (PI(mark=True, reference=100), True),
    "RED": (RED(mark=True, min_threshold=20, max_threshold=200, p_max=0.02, weight=0.0005), True),
    "AVQ": (AVQ(mark=True), True),
    "CoDel": (CoDel(mark=True), False),
    "FQ-CoDel": (FQCoDel(mark=True), False),
    "FQ-CoDel, one start": (FQCoDel(mark=True), True),
    "DualPI2": (DualPI2(), False),
    "DRR": (DRR(weights=(1.0,) * FLOWS, quantum=PACKET), False),
}
RUNS = {
    "packets": ecc.packet.simulate,
    'fluid, "random"': lambda scenario: ecc.fluid.simulate(scenario, signals="random"),
    'fluid, "rate"': ecc.fluid.simulate,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    print("| discipline | " + " | ".join(RUNS) + " |\n|---" + "|---" * len(RUNS) + "|")
    for name, (discipline, at_once) in CASES.items():
        starts = [0.0 if at_once else 1.3 * k for k in range(FLOWS)]
        net = ecc.Network.dumbbell(CAPACITY, rtts=[0.1] * FLOWS, packet_size=PACKET, buffer="900 kB", starts=starts)
        protocol = {"flows": {"default": NewReno(ecn=True, transport="sack")}, "links": {"default": discipline}}
        cells = []
        for run in RUNS.values():
            found = []
            for seed in seeds:
                settled = run(ecc.Scenario(net, protocol, duration=UNTIL, seed=seed)).data.sel(
                    time=slice(SETTLED, UNTIL)
                )
                goodput = settled.goodput.sum("flow").mean()
                found.append((float(settled.queue.mean()) / PACKET, 100.0 * float(goodput) / CAPACITY))
            mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
            cells.append(f"{mean[0]:.1f} ± {error[0]:.1f}, {mean[1]:.1f} ± {error[1]:.1f} %")
        print(f"| {name} | " + " | ".join(cells) + " |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
