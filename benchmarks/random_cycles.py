"""Numbers of docs/random_cycles.md: random cycles, synchronization of flows, and a mean map of RED's average.

python benchmarks/random_cycles.py cycles    random cycles with multipliers and Lyapunov exponents
python benchmarks/random_cycles.py flows     correlation of windows over drop-tail, RED, PI and PI2 in packet runs
python benchmarks/random_cycles.py red       bifurcations of the mean map of RED's average, and limits of linear models
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import brentq

import ecc
from ecc.contract.assignment import ProtocolAssignment
from ecc.cycles.random_cycles import random_cycle
from ecc.cycles.reference_cases import case_on, named_protocol
from ecc.cycles.scalar_maps import border_collision, period_doubling, scalar_orbit
from ecc.laws.elementary import sqrt
from ecc.models import NewReno
from ecc.queues import PI, PI2, RED
from ecc.queues.red import probability, share_chosen

FLOWS, CAPACITY, DELAY, BUFFER = 50, 3750.0, 0.1, 1000.0  # packets/s, s, packets


def red_average(a: Any, p: Any) -> Any:
    """RED's average a round later, if windows were always those of the probability: w = sqrt(2/P), q = N w - C d."""
    P = share_chosen(probability(a, p.aqm.p_max, p.aqm))
    q = p.flows * sqrt(2.0 / P) - p.capacity * p.delay if P > 0.0 else p.buffer
    return a + p.gain * (max(min(q, p.buffer), 0.0) - a)


def red_parameters(gain: float) -> Any:
    """Return the parameters of `red_average` for a weight of a round."""
    return SimpleNamespace(
        flows=FLOWS, capacity=CAPACITY, delay=DELAY, gain=gain, buffer=BUFFER, aqm=discipline(0.002).namespace()
    )


def discipline(weight: float) -> RED:
    """Return the RED of the examples."""
    return RED(packet_size=1000, min_threshold=50.0, max_threshold=150.0, p_max=0.05, weight=weight)


def weight_of(gain: float, queue: float) -> float:
    """Return the weight of a packet for the weight of a round, that is of C d + q packets."""
    return float(1.0 - (1.0 - gain) ** (1.0 / (CAPACITY * DELAY + queue)))


def empty_queue() -> float:
    """Return the average at which the queue of `red_average` becomes empty."""
    p = red_parameters(0.1)
    return float(
        brentq(
            lambda a: FLOWS * np.sqrt(2.0 / share_chosen(probability(a, p.aqm.p_max, p.aqm))) - CAPACITY * DELAY,
            60.0,
            200.0,
        )
    )


def linear_limit(time: str) -> tuple[float, complex]:
    """Return the weight at which the linear model loses stability, and its dominant root there."""
    net = ecc.Network.dumbbell("30 Mb/s", rtts=[DELAY] * FLOWS, packet_size=1000)

    def root(weight: float) -> complex:
        return ecc.linearize(ProtocolAssignment(NewReno(), discipline(weight)), net, time).dominant_root

    limit = float(brentq(lambda w: root(w).real if time == "continuous" else abs(root(w)) - 1.0, 1e-4, 2e-3))
    return limit, root(limit)


def red() -> None:
    """Print the bifurcations of the mean map."""
    double = period_doubling(red_average, red_parameters, 0.05, 0.9, 75.0)
    queue = float(double.orbit.points[0])
    print(f"fixed point {queue:.6g} packets; period doubling at gain {double.value:.6f},", end=" ")
    print(f"weight {weight_of(double.value, queue):.3e}, supercritical: {double.supercritical}")
    begin = 1.0005 * double.value
    x = 1.001 * queue
    for _ in range(40_000):
        x = red_average(x, red_parameters(begin))
    pair = scalar_orbit(red_average, x, red_parameters(begin), 2)
    border = empty_queue()
    hit = border_collision(
        red_average, red_parameters, border, begin, 1.06 * double.value, float(pair.points[0]), period=2
    )
    print(f"border collision (empty queue, average {border:.6g}) at gain {hit.value:.6f},", end=" ")
    print(f"multipliers {hit.left:.4f} and {hit.right:.4f}, stable orbit of period 4: {hit.stable_double}")
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
    {"cycles": cycles, "flows": flows, "red": red}[sys.argv[1] if len(sys.argv) > 1 else "red"]()
