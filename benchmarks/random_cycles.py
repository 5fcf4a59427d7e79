"""Numbers of docs/random_cycles.md: random cycles, synchronization of flows, and a mean map of RED's average.

python benchmarks/random_cycles.py cycles    random cycles with multipliers and Lyapunov exponents
python benchmarks/random_cycles.py flows     correlation of windows over drop-tail, RED, PI and PI2 in packet runs
python benchmarks/random_cycles.py red       bifurcations of the mean map of RED's average, and limits of linear models
"""

from __future__ import annotations

import sys

import numpy as np

import ecc
from ecc.claims.checks.disciplines.red_average import doubling, empty_queue_collision, linear_limit, weight_of
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.random_cycles import random_cycle
from ecc.cycles.reference_cases import case_on, named_protocol
from ecc.models import NewReno
from ecc.queues import PI, PI2, RED


def red() -> None:
    """Print the bifurcations of the mean map."""
    double, collision = doubling(), empty_queue_collision()
    queue = float(double.orbit.points[0])
    print(f"fixed point {queue:.6g} packets; period doubling at gain {double.value:.6f},", end=" ")
    print(f"weight {weight_of(double.value, queue):.3e}, supercritical: {double.supercritical}")
    print(f"empty queue at gain {collision.value:.6f}, weight {weight_of(collision.value, queue):.3e},", end=" ")
    print(f"multipliers {collision.left:.4f}, {collision.right:.4f}, stable orbit of 4: {collision.stable_double}")
    for time in ("continuous", "discrete"):
        limit, root = linear_limit(time)
        print(f"{time} linear model: weight {limit:.3e}, dominant root {root:.4f}")


def correlation(windows: np.ndarray) -> float:
    """Return the mean correlation of pairs of flows; shape (n_times, n_flows)."""
    table = np.corrcoef(windows.T)
    return float(np.mean(table[np.triu_indices(len(table), 1)]))


def flows() -> None:
    """Print the mean correlation of windows in packet runs."""
    print("| discipline | RTTs | flows | correlation |\n|---|---|---|---|")
    for spread in (0.0, 0.2):
        for n in (2, 5, 20):
            rtts = (0.05 * np.linspace(1.0 - spread, 1.0 + spread, n)).tolist()
            for name, rule in {
                "drop-tail": None,
                "RED": RED(packet_size=1000, min_threshold=5.0 * n, max_threshold=15.0 * n),
                "PI": PI(packet_size=1000, reference=10.0 * n),
                "PI2": PI2(packet_size=1000),
            }.items():
                net = ecc.Network.dumbbell(4e6 * n, rtts=rtts, packet_size=1000, buffer=25_000 * n)
                loop = NewReno() if rule is None else ProtocolAssignment(NewReno(), rule)
                found = []
                for seed in range(5):
                    run = ecc.packet.simulate(
                        ecc.Scenario(net, loop, duration=120.0, seed=seed), sample=0.05, record=["env.window"]
                    )
                    found.append(correlation(run["env.window"][400:].to_numpy()))
                print(
                    f"| {name} | {1 - spread:.1f} to {1 + spread:.1f} | {n} | {np.mean(found):.2f} "
                    f"({np.min(found):.2f} to {np.max(found):.2f}) |"
                )


def mean_window(loss: float, rounds: int = 400_000) -> float:
    """Return the mean window of the random map with a constant probability, with recoveries of a round."""
    draws = np.random.default_rng(1).random(rounds)
    w, held, total = float(np.sqrt(2.0 / loss)), False, 0.0
    for draw in draws:
        if held:
            held = False
        elif draw < 1.0 - (1.0 - loss) ** w:
            w, held = max(0.5 * w, 2.0), True
        else:
            w += 1.0
        total += w
    return total / rounds


def grain() -> None:
    """Print windows and goodputs of packet runs over those of the map, for independent losses without a queue."""
    net = ecc.Network.dumbbell("10 Gb/s", rtts=["100 ms"], packet_size=1000)
    for loss, duration in ((6e-3, 600.0), (6e-4, 1500.0), (6e-5, 4000.0)):
        windows, goodputs = [], []
        for seed in range(6):
            losses = [ecc.impairments.RandomLoss(loss, link=0)]
            scenario = ecc.Scenario(net, NewReno(), duration=duration, seed=seed, impairments=losses)
            run = ecc.packet.simulate(scenario, sample=0.1, record=["env.window"])
            windows.append(float(run["env.window"][200:, 0].mean()) / 1000.0)
            goodputs.append(float(run.goodput[200:, 0].mean()) * 0.1 / 8000.0)
        mean = mean_window(loss)
        print(
            f"loss {loss:g}: window {np.mean(windows):.1f} packets, {np.mean(windows) / mean:.3f} of the map,", end=" "
        )
        print(f"goodput {np.mean(goodputs) / mean:.3f} of the map")


def cycles() -> None:
    """Print random cycles on the reference loops, and of three flows over each discipline."""
    for name in ("NewReno", "CUBIC", "Vivace"):
        hosts = named_protocol(name)
        loop, net = case_on(hosts, hosts.reference_loop)
        for time in ("discrete", "continuous"):
            try:
                cycle = random_cycle(loop, net, time)
            except ecc.errors.EccError as error:
                print(name, time, error)
                continue
            low, high = cycle.interval
            print(
                f"| `{name}` | {time} | {cycle.period:.3g} s | {abs(cycle.dominant):.3f} | {cycle.exponent:.2f} "
                f"({low:.2f} to {high:.2f}) | {cycle.mean / 1e3:.1f} kB | {cycle.amplitude / 1e3:.1f} kB |"
            )


if __name__ == "__main__":
    {"cycles": cycles, "flows": flows, "grain": grain, "red": red}[sys.argv[1] if len(sys.argv) > 1 else "red"]()
