"""Measure maps per round against packets: s-PERC's rounds, ExpressPass' long cycles, and how fast rates become equal.

`python benchmarks/round_maps.py` prints three tables (about two minutes). The results are in docs/sperc.md,
docs/expresspass.md and docs/vivace_and_c4.md.
"""

from __future__ import annotations

import argparse
from math import log

import numpy as np

import ecc
from ecc.models import SPERC, ExpressPass, Vivace
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Flow, Link, Network

NETWORKS, FALL = 100, 0.999
CHAIN = Network.parking_lot(["10 Gb/s", "6 Gb/s", "13 Gb/s"], delay="5 us", buffer="200 kB")


def random_network(seed: int) -> Network:
    """Return 2 to 12 links with different capacities, and 2 to 24 flows over up to four of them."""
    rng = np.random.default_rng(seed)
    links = [Link(1e9 * rng.uniform(1.0, 8.0), "5 us") for _ in range(rng.integers(2, 13))]
    routes = [rng.permutation(len(links))[: rng.integers(1, 5)].tolist() for _ in range(rng.integers(2, 25))]
    return Network(links, [Flow(route) for route in routes])


def sperc() -> None:
    """Print the rounds after which small deviations are 0, and those that packets need after a change of capacity."""
    steps, iterations = [], []
    for seed in range(NETWORKS):
        network = random_network(seed)
        steps.append(ecc.linearize(SPERC(), network, time="discrete").deadbeat_steps)
        iterations.append(SPERC().exact_rounds(network).iterations)
    ratio = np.array(steps) / np.array(iterations)
    print(f"s-PERC, {NETWORKS} networks: {min(steps)} to {max(steps)} rounds, N {min(iterations)} to {max(iterations)}")
    print(f"rounds over N: {ratio.min():.2f} to {ratio.max():.2f}, mean {ratio.mean():.2f}")
    system = ecc.linearize(SPERC(), CHAIN, time="discrete")
    for link in range(CHAIN.n_links):
        change = CapacitySchedule(link, [1e-3], [FALL * CHAIN.capacities[link]])
        run = ecc.packet.simulate(ecc.Scenario(CHAIN, SPERC(), 2e-3, impairments=[change]), 1e-6, record=["flow.x"])
        rates = run.data["flow.x"].to_numpy()
        last = np.flatnonzero(np.abs(rates / rates[-1] - 1.0).max(axis=1) > 1e-9)[-1]
        print(f"link {link}: {(1e-6 * last - 1e-3) / system.dt:.1f} rounds in packets, map {system.deadbeat_steps}")


def expresspass() -> None:
    """Print cycles of a flow over several links, each with another flow, and all RTTs equal."""
    for count in (2, 3, 5):
        flows = [Flow(list(range(count)))]
        flows += [Flow([link], access_delay=5e-6 * (count - 1)) for link in range(count)]
        network = ExpressPass.on(Network([Link("10 Gb/s", "5 us", "100 kB")] * count, flows))
        form = ExpressPass().round_map(network)
        radius = ecc.linearize(ExpressPass(), network, time="discrete").spectral_radius
        state, total = list(form.state), np.zeros(count + 1)
        for _ in range(form.rounds):
            state = form.law(state, form.p)
            total += np.array(state[4::5]) / ExpressPass().max_rate / form.rounds
        others = f"{total[1:].min():.2f} to {total[1:].max():.2f}"
        print(f"{count} links: cycle of {form.rounds}, radius {radius:.3g}, long flow {total[0]:.2f}, others {others}")


def vivace(seeds: int) -> None:
    """Print time constants of the ratio of two rates: discrete, continuous, and of packets."""
    for form in ("paper", "pcc-uspace"):
        protocol = Vivace(form=form)
        network = Network.dumbbell("100 Mb/s", ["30 ms"] * 2, packet_size=1500, starts=[0.0, 20.0])
        found = []
        for seed in range(seeds):
            run = ecc.packet.simulate(ecc.Scenario(network, protocol, 40.0, seed=seed), 0.1, record=["flow.x"])
            rates = run.data["flow.x"].to_numpy()
            found.append(np.abs(np.log(rates[:, 0] / np.maximum(rates[:, 1], 1.0))))
        ratios = np.mean(found, axis=0)
        begin, end = ratios[220], ratios[280]
        packets = 6.0 / log(begin / end) if end < begin else float("inf")
        print(
            f"{form}: log ratio {begin:.2f} at 2 s, {end:.2f} at 8 s after the second start, {packets:.1f} s in packets"
        )
        averaged = ecc.linearize(protocol, network)
        print(f"    continuous {-1.0 / averaged.spectral_abscissa:.1f} s")
        try:
            system = ecc.linearize(protocol, network, time="discrete")
        except ecc.LinearizationError as error:
            print(f"    {error}")
            continue
        print(f"    discrete {-system.dt / log(system.spectral_radius):.1f} s, {system.notes[0]}")
    for flows in (1, 3, 5, 10):
        network = Network.dumbbell("100 Mb/s", ["30 ms"] * flows, packet_size=1500)
        system = ecc.linearize(Vivace(), network, time="discrete")
        seconds = -system.dt / log(system.spectral_radius)
        print(f"paper, {flows} flows: {system.notes[0]}, radius {system.spectral_radius:.3f}, {seconds:.1f} s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12, help="packet runs of Vivace for each form (default 12)")
    options = parser.parse_args()
    sperc()
    expresspass()
    vivace(options.seeds)


if __name__ == "__main__":
    main()
