"""Phase effects: how equal senders share losses at a full queue, without and with random phases.

Prints the tables of docs/packet_runs.md. `python benchmarks/phase_effects.py` takes about four minutes on one core.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ecc
from ecc.models import CUBIC, DCQCN, HPCC, NSCC, ConstantRate, NewReno
from ecc.network.demands import incast
from ecc.network.network import Network
from ecc.scenario import Scenario

SEEDS = range(1, 101)
MODES = {"off": False, "on": None}
PORT, FAST = "0.5 MB", "100 Gb/s"


def shown(shares: np.ndarray) -> str:
    """The smallest and the largest of the shares of flows, relative to their mean."""
    return f"{shares.min():.3f} to {shares.max():.3f}"


def dropped(network: Network, rate: str, phase_jitter: bool | None) -> np.ndarray:
    """Bytes of each flow that are not delivered in 0.1 s."""
    run = ecc.packet.simulate(Scenario(network, ConstantRate(rate), 0.1, phase_jitter=phase_jitter), sample=0.01)
    return (run.rate - run.goodput).sum("time").to_numpy()


def constant_rates() -> None:
    """Senders of a constant rate, at one link and behind links of their own."""
    print("constant rate, 0.1 s: losses of a flow relative to the mean")
    for n, rate in ((2, FAST), (3, FAST), (8, "50 Gb/s")):
        networks = {
            how: Network.dumbbell(
                FAST, rtts=[1e-5 + spread * k for k in range(n)], buffer=PORT, starts=[shift * k for k in range(n)]
            )
            for how, shift, spread in (("equal", 0.0, 0.0), ("110 ns apart", 1.1e-7, 0.0), ("RTTs", 0.0, 1e-10))
        }
        flows = incast(n, destination=n)
        networks["leaf"] = Network.leaf_spine(1, 1, n + 1, flows, FAST, buffer=PORT, ack_links=False)
        for how, network in networks.items():
            found = {name: dropped(network, rate, mode) for name, mode in MODES.items()}
            print(f"  {n} of {rate}, {how}:", *(f"{name} {shown(x / x.mean())}" for name, x in found.items()))


def incasts() -> None:
    """Transfers of 2 MB to one port with a buffer of 0.2 MB."""
    print(f"incasts, {len(SEEDS)} seeds: mean loss of a flow relative to the mean of all; standard error")
    for protocol in (NSCC(), DCQCN(FAST), HPCC()):
        for n in (2, 3, 8):
            network = Network.dumbbell(FAST, rtts=[1e-5] * n, buffer="0.2 MB", sizes=["2 MB"] * n, packet_size=4096)
            texts = []
            for name, mode in MODES.items():
                runs = [
                    ecc.packet.simulate(Scenario(network, protocol, 2.0, seed=seed, phase_jitter=mode), sample=0.2)
                    for seed in SEEDS
                ]
                lost = np.array([run.flows["lost"] for run in runs], float)
                if lost.sum() == 0.0:
                    texts.append(f"{name} no losses")
                    continue
                error = lost.std(axis=0, ddof=1).max() / np.sqrt(len(lost)) / lost.mean()
                texts.append(f"{name} {shown(lost.mean(axis=0) / lost.mean())} (error {error:.3f})")
            print(f"  {type(protocol).__name__}, {n} to 1:", *texts)


def windows() -> None:
    """Pairs of window protocols, whose goodputs show the effect."""
    print("goodput of the first of two flows, 100 Mb/s, 60 s, three seeds, relative to the mean")
    protocols: tuple[Any, ...] = (NewReno(), CUBIC())
    for protocol in protocols:
        for rtts in ([0.05, 0.05], [0.05, 0.055]):
            network = Network.dumbbell("100 Mb/s", rtts=rtts, buffer=100 * 1500, packet_size=1500)
            texts = []
            for name, mode in (("off", False), ("on", True)):
                runs = [
                    ecc.packet.simulate(Scenario(network, protocol, 60.0, seed=k, phase_jitter=mode)) for k in (1, 2, 3)
                ]
                goodputs = np.array([run.goodput.to_numpy()[200:].mean(axis=0) for run in runs])
                share = goodputs[:, 0] / goodputs.mean(axis=1)
                texts.append(f"{name} {shown(share)} (link {goodputs.sum(axis=1).mean() / 1e8:.3f})")
            print(f"  {type(protocol).__name__}, RTTs {rtts}:", *texts)


if __name__ == "__main__":
    constant_rates()
    incasts()
    windows()
