"""Losses under windows, as fluid and in packets: python benchmarks/window_losses.py.

First single flows with an RTT of 100 ms whose packets of 1500 bytes are lost at random: goodput over 950 s, mean of six
seeds, with the standard error. Then flows that fill a buffer of one bandwidth-delay product at 100 Mb/s: mean and least
queue, and the share that is lost there. Two minutes of CPU.
"""

from __future__ import annotations

import numpy as np

import ecc
from ecc.contract.protocol import Protocol
from ecc.models import BIC, NewReno
from ecc.network.impairments import RandomLoss

ENGINES = {"fluid": ecc.fluid.simulate, "packets": ecc.packet.simulate}
PROTOCOLS: dict[str, Protocol] = {
    "Sack": NewReno(transport="sack"),
    "BIC": BIC(transport="sack"),
    "BIC of Linux": BIC(transport="sack", form="linux"),
}
WHEN = {1: (100.0, 300.0), 2: (100.0, 300.0), 10: (60.0, 160.0), 50: (30.0, 90.0)}


def main() -> None:
    """Print two tables."""
    print("protocol      lost    fluid [Mb/s]    packets [Mb/s]  ratio")
    one = ecc.Network.dumbbell("1 Gb/s", rtts=[0.1], packet_size=1500)
    for name, protocol in PROTOCOLS.items():
        for loss in (3e-4, 1e-3, 3e-3, 1e-2):
            goodput = []
            for simulate in ENGINES.values():
                for seed in range(6):
                    losing = [RandomLoss(loss, link=0)]
                    scenario = ecc.Scenario(one, protocol, 1000.0, impairments=losing, seed=seed)
                    goodput.append(float(simulate(scenario, sample=10.0).goodput[5:].mean()) / 1e6)
            found = np.array(goodput).reshape(2, 6)
            mean, error = found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(6)
            shown = "  ".join(f"{m:6.3f} +- {e:.3f}" for m, e in zip(mean, error, strict=True))
            print(f"{name:12}  {loss:.4f}  {shown}  {mean[0] / mean[1]:.3f}", flush=True)
    print("protocol      flows  engine   mean queue [kB]  least  lost")
    for name, protocol in PROTOCOLS.items():
        for flows, (since, until) in WHEN.items():
            starts = np.linspace(0.0, 1.0, flows).tolist()
            network = ecc.Network.dumbbell(
                "100 Mb/s", rtts=[0.1] * flows, packet_size=1500, buffer=1_250_000, starts=starts
            )
            for engine, simulate in ENGINES.items():
                run = simulate(ecc.Scenario(network, protocol, until, seed=3), sample=1.0)
                late = run.data.sel(time=slice(since, None))
                queue = late["queue"].to_numpy() / 1e3
                lost = float(late["drops"].sum() / (late["arrival"].sum() / 12_000.0))
                found = f"{queue.mean():15.1f}  {queue.min():5.0f}  {lost:.2g}"
                print(f"{name:12}  {flows:5}  {engine:7}  {found}", flush=True)


if __name__ == "__main__":
    main()
