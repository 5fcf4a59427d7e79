"""Compare the continuous, discrete and hybrid linear models of XCP with each other and with runs.

`python benchmarks/xcp_three_models.py` prints four tables (about a minute). The results are in
docs/xcp_three_models.md.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

import ecc
from ecc.errors import UndecidedError
from ecc.models import XCP
from ecc.network.network import Network
from ecc.stability import perturbed_run

RTT, CAPACITY = 0.1, "100 Mb/s"
DEFAULT_BETA = 0.226
TIMES = ("continuous", "discrete", "hybrid")
RUNS = {
    "averaged fluid": ("fluid", {"time": "averaged", "clocking": "rate", "floor": 1e-6}),
    "fluid, exact ticks": ("fluid", {"time": "continuous", "floor": 1e-6}),
    "packets": ("packet", {}),
}
POINTS = ((0.1, DEFAULT_BETA), (0.4, DEFAULT_BETA), (0.55, sqrt(2.0) * 0.55**2), (0.4, 1.0), (0.4, 2.0))
POINTS += ((0.8, DEFAULT_BETA), (1.2, DEFAULT_BETA), (1.8, DEFAULT_BETA))


def network(ratio: float) -> Network:
    """Return a link with one flow, or with two flows with a mean RTT of 100 ms and RTTs in this ratio."""
    short = 2.0 * RTT / (1.0 + ratio)
    return Network.dumbbell(CAPACITY, [RTT] if ratio == 1.0 else [short, short * ratio])


def published_beta(alpha: float) -> float:
    """Return the beta of the published condition, sqrt(2) alpha^2."""
    return sqrt(2.0) * alpha * alpha


def is_stable(net: Network, time: str, alpha: float, beta: float, gamma: float = 0.1) -> bool:
    """Return the verdict of a linear model."""
    return ecc.linearize(XCP(alpha=alpha, beta=beta, gamma=gamma), net, time=time, clocking="rate").is_stable


def verdict(net: Network, time: str, alpha: float, beta: float) -> str:
    """Return the verdict of a linear model as a word; "undecided" if its count of unstable roots does not end."""
    try:
        return "stable" if is_stable(net, time, alpha, beta) else "unstable"
    except UndecidedError:
        return "undecided"


def limit(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Return where a condition that holds at `low` ceases to hold, by bisection; nan if it also holds at `high`."""
    if holds(high):
        return np.nan
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return 0.5 * (low + high)


def linear_limits() -> None:
    """Print the ranges of gains in which the linear models are stable."""
    print(
        "| RTTs | model | alpha, beta = 0.226 | limit of alpha, beta = sqrt(2) alpha^2 | limit of beta, alpha = 0.4 |"
    )
    for ratio in (1.0, 2.0, 5.0, 10.0):
        net = network(ratio)
        for time in TIMES:
            if time == "hybrid" and ratio > 2.0:  # a second and more for each verdict
                print(f"| ratio {ratio:g} | {time} | {verdict(net, time, 0.4, DEFAULT_BETA)} at 0.4 | | |", flush=True)
                continue
            grid = np.arange(0.02, 1.3, 0.08)
            stable = [alpha for alpha in grid if is_stable(net, time, alpha, DEFAULT_BETA)]
            interval = "none"
            if stable:
                start = stable[0]
                low = 0.0
                if start != grid[0]:
                    low = limit(lambda a: not is_stable(net, time, a, DEFAULT_BETA), 0.02, start, 1e-4)  # noqa: B023
                high = limit(lambda a: is_stable(net, time, a, DEFAULT_BETA), start, 9.0, 1e-4)  # noqa: B023
                interval = f"{low:.3f} to {high:.3f}"
            curve = limit(lambda a: is_stable(net, time, a, published_beta(a)), 0.1, 2.0, 1e-3)  # noqa: B023
            queue = limit(lambda b: is_stable(net, time, 0.4, b), 1e-3, 9.0, 1e-3)  # noqa: B023
            print(f"| ratio {ratio:g} | {time} | {interval} | {curve:.3f} | {queue:.3f} |", flush=True)


def multipliers() -> None:
    """Print the roots of the hybrid model of one flow next to those of its characteristic polynomial."""
    alpha, beta = 0.4, DEFAULT_BETA
    roots = np.roots([2.0, -4.0, 2.0 + alpha + beta, beta, -alpha])
    print(f"polynomial, gamma = 0: {roots[0]:.4f}, modulus {abs(roots[0]):.4f}")
    for gamma in (0.0, 0.1):
        root = ecc.linearize(XCP(gamma=gamma), network(1.0), time="hybrid", clocking="rate").roots(1)[0]
        print(f"model, gamma = {gamma:g}: {root:.4f}, modulus {abs(root):.4f}")
    for gamma in (0.0, 0.1):
        ends = [
            limit(lambda a: is_stable(network(1.0), time, a, 1e-9, gamma), 0.2, 2.5, 1e-4)  # noqa: B023
            for time in TIMES
        ]
        print(f"no queue term (beta = 0), gamma = {gamma:g}: alpha < " + ", ".join(f"{end:.4f}" for end in ends))


def growth(net: Network, protocol: XCP, name: str) -> float:
    """Return the growth rate of a perturbation of 2 % in a run, 1/s."""
    engine, options = RUNS[name]
    return perturbed_run(protocol, net, 6.0 * RTT, 60.0, engine, **options).stability.growth_rate


def verdicts_and_runs() -> None:
    """Print verdicts of linear models and growth rates of runs, at a few gains."""
    net = network(1.0)
    print("| alpha | beta | " + " | ".join((*TIMES, *RUNS)) + " |")
    for alpha, beta in POINTS:
        verdicts = [verdict(net, time, alpha, beta) for time in TIMES]
        rates = [f"{growth(net, XCP(alpha=alpha, beta=beta, paced=True), name):+.2f}" for name in RUNS]
        print(f"| {alpha:g} | {beta:.3f} | " + " | ".join((*verdicts, *rates)) + " |", flush=True)


def run_limits() -> None:
    """Print the gains at which runs begin to grow."""
    print("| RTTs | " + " | ".join(RUNS) + " |")
    for ratio in (1.0, 2.0, 5.0):
        net = network(ratio)
        ends = [
            limit(
                lambda a: growth(net, XCP(alpha=a, beta=DEFAULT_BETA, paced=True), name) < 0.0,  # noqa: B023
                0.4,
                4.0,
                0.02,
            )
            for name in RUNS
        ]
        print(f"| beta = 0.226, ratio {ratio:g} | " + " | ".join(f"{end:.2f}" for end in ends) + " |", flush=True)
    net = network(1.0)
    ends = [
        limit(lambda a: growth(net, XCP(alpha=a, beta=published_beta(a), paced=True), name) < 0.0, 0.2, 2.0, 0.02)  # noqa: B023
        for name in RUNS
    ]
    print("| beta = sqrt(2) alpha^2, ratio 1 | " + " | ".join(f"{end:.2f}" for end in ends) + " |")
    queue = [
        limit(lambda b: growth(net, XCP(alpha=0.4, beta=b, paced=True), name) < 0.0, 0.5, 9.0, 0.05)  # noqa: B023
        for name in RUNS
    ]
    print("| limit of beta, alpha = 0.4, ratio 1 | " + " | ".join(f"{end:.1f}" for end in queue) + " |")
    for gamma in (0.1, 0.0):
        empty = [
            limit(lambda a: growth(net, XCP(alpha=a, beta=0.0, gamma=gamma, paced=True), name) < 0.0, 0.4, 2.0, 0.01)  # noqa: B023
            for name in RUNS
        ]
        print(f"| beta = 0, gamma = {gamma:g}, ratio 1 | " + " | ".join(f"{end:.2f}" for end in empty) + " |")
    print(f"pi/2 - 1 = {pi / 2.0 - 1.0:.3f}")


def main() -> None:
    """Print the tables."""
    linear_limits()
    multipliers()
    verdicts_and_runs()
    run_limits()


if __name__ == "__main__":
    main()
