"""EMKC, EMKC-AVQ, MKC and Kelly from an empty network, fluid against packets: peaks, settle times, rates at the end."""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

import ecc
from ecc.models import EMKC, EMKCAVQ, MKC, Kelly

PROTOCOLS = {"EMKC": EMKC(), "EMKC-AVQ": EMKCAVQ(), "MKC": MKC(), "Kelly": Kelly()}


def scenario(protocol: ecc.models.Protocol, capacity: float, rtt: float, flows: int) -> ecc.Scenario:
    """Flows that join half a second apart, and ten seconds of all of them."""
    starts = [0.5 * i for i in range(flows)]
    network = ecc.Network.dumbbell(capacity, rtts=[rtt] * flows, starts=starts)
    return ecc.Scenario(network, protocol, 10.0 + 0.5 * flows)


def figures(run: ecc.Trajectory) -> tuple[float, float, float, float]:
    """Peak of arrivals over 0.1 s [Mb/s], of the queue [kB], when rates stay near their last [s], and these."""
    rates = run.rate.to_numpy()
    final = rates[-20:].mean(axis=0)
    off = np.flatnonzero((np.abs(rates - final) > 0.05 * final.max()).any(axis=1))
    settled = float(run.rate.time[off[-1]]) if len(off) else 0.0
    return float(run.arrival.max()) / 1e6, float(run.queue_max.max()) / 1e3, settled, float(final.sum()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocol", choices=PROTOCOLS, help="only this one")
    only = parser.parse_args().protocol
    print(
        "                                  peak rate [Mb/s]    peak queue [kB]       settled [s]      at the end [Mb/s]"
    )
    print("protocol   Mb/s   ms  flows      fluid  packets     fluid  packets     fluid  packets     fluid  packets")
    for name, C, rtt, n in product(PROTOCOLS, (10e6, 100e6, 1e9), (0.02, 0.1, 0.5), (1, 2, 10)):
        if only in (None, name):
            case = scenario(PROTOCOLS[name], C, rtt, n)
            pairs = zip(figures(ecc.fluid.simulate(case)), figures(ecc.packet.simulate(case, sample=0.1)), strict=True)
            print(f"{name:9s} {C / 1e6:5.0f} {1e3 * rtt:4.0f} {n:6d} ", *(f"{a:9.2f} {b:8.2f}" for a, b in pairs))


if __name__ == "__main__":
    main()
