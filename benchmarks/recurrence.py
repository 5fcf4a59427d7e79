"""Flow-steps a CPU second of the recurrences: `python benchmarks/recurrence.py`.

A flow-step is a control interval of a flow; every flow has an RTT of its own, so that none is computed for another.
CPU time of the run itself, compilations not counted; the best of three.
"""

from __future__ import annotations

import numpy as np

from ecc import Link, Network, Scenario
from ecc.fluid import simulate
from ecc.models import EMKC, EMKCAVQ, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, Kelly, MaxNet

FLOWS, STEPS = 1000, 5000


def networks(flows: int = FLOWS) -> dict[str, Network]:
    """A dumbbell, and a parking lot of three links with as many long flows as short ones."""
    rtts = np.linspace(0.05, 0.25, flows)
    one = Network.dumbbell("10 Gb/s", rtts=rtts.tolist(), buffer="12 MB")
    lot = Network.parking_lot(["10 Gb/s", "8 Gb/s", "9 Gb/s"])
    many = [flow for flow in lot.flows for _ in range(flows // len(lot.flows))]
    links = [Link(link.capacity, link.delay, 12_000_000) for link in lot.links]
    return {"dumbbell": one, "parking lot": Network(links, many, tuple(np.linspace(0.2, 0.4, len(many))))}


def main() -> None:
    """Run everything."""
    protocols = (QIRCP(), PIQIRCP(), RCP(), JetMax(), EMKC(), EMKCAVQ(), MKC(alpha="5 Mb/s"), XCP(), Kelly(), MaxNet())
    for name, network in networks().items():
        for protocol in protocols:
            T = protocol.params()["interval"]
            scenario = Scenario(network, protocol, STEPS * T)
            runs = [simulate(scenario, sample=STEPS * T / 50.0, time="discrete") for _ in range(3)]
            seconds = min(run.stats["cpu_seconds"] for run in runs)
            speed = runs[0].stats["steps"] * network.n_flows / seconds / 1e6
            print(f"{type(protocol).__name__:8s} {name:12s} {speed:7.1f} M flow-steps/CPU s", flush=True)


if __name__ == "__main__":
    main()
