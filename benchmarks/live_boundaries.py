"""Stability boundaries on real frames, beside those of linear models, of packet runs, and of fluid runs.

    python benchmarks/live_boundaries.py [CASE ...] [--slow K] [--repeat N]

starts each case at its equilibrium with all rates 4 % high, at gains on both sides of the hybrid boundary, fits the
growth of the deviation of arrivals, and bisects its sign. A live run that is void is counted and made again; after six
in a row the case has no live boundary.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from math import pi

from ecc.claims.checks.common.evidence import ROOM
from ecc.claims.checks.live import CAPACITY, SEEN, SIDES, WIDTH
from ecc.errors import EccError
from ecc.models import PIQIRCP, QIRCP, Protocol
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.stability import MeasuredBoundary, PerturbedRun, critical_gain, measured_boundary, perturbed_run

ATTEMPTS = 6
"""Of a run that is void."""


@dataclass(frozen=True)
class Case:
    """A protocol, and the RTT [s] of its two flows."""

    protocol: Protocol
    rtt: float

    @property
    def network(self) -> Network:
        """One link."""
        return Network.dumbbell(CAPACITY, rtts=[self.rtt] * 2)


CASES = {
    "qi-40": Case(QIRCP(gamma=ROOM["gamma"]), 0.04),
    "qi-100": Case(QIRCP(gamma=ROOM["gamma"]), 0.1),
    "qi-200": Case(QIRCP(gamma=ROOM["gamma"]), 0.2),
    "piqi-50": Case(PIQIRCP(gamma=ROOM["gamma"]), 0.05),
    "piqi-100": Case(PIQIRCP(gamma=ROOM["gamma"]), 0.1),
}


class Runs:
    """Runs of one engine, and what is measured of those on real frames."""

    def __init__(self, engine: str, **options: float) -> None:
        self.make = partial(perturbed_run, engine=engine, **SEEN, **options)
        self.trajectories: list[Trajectory] = []

    def __call__(self, protocol: Protocol, network: Network, period: float) -> PerturbedRun:
        """Make one, for measured_boundary."""
        found = self.make(protocol, network, period)
        self.trajectories.append(found.trajectory)
        return found

    @property
    def void(self) -> int:
        """How many were void and made again."""
        return sum(run.stats["attempts"] - 1 for run in self.trajectories)

    def worst(self, name: str) -> float:
        """Largest of a figure of live runs."""
        return max(float(run.stats[name]) for run in self.trajectories)


def show(name: str, case: Case, slow: float, repeat: int) -> None:
    """Print the boundaries of a case."""
    network = case.network
    linear = {time: critical_gain(case.protocol, network, "alpha", time) for time in ("continuous", "hybrid")}
    hybrid = linear["hybrid"].value
    period = 2.0 * pi / linear["hybrid"].frequency * case.protocol.params()["interval"]
    boundary = partial(
        measured_boundary, case.protocol, network, "alpha", *(share * hybrid for share in SIDES), period, WIDTH
    )
    print(f"{name}: period {period:.3f} s; continuous {linear['continuous'].value:.4f}, hybrid {hybrid:.4f}")
    for engine in ("fluid", "packet"):
        line(engine, boundary(run=Runs(engine)), hybrid)
    for _ in range(repeat):
        runs = Runs("live", slow=slow, attempts=ATTEMPTS)
        try:
            found = boundary(run=runs)
        except EccError as error:
            print(f"  live: {error}; void before it: {runs.void}", flush=True)
            continue
        line("live", found, hybrid)
        late = " ".join(f"{1e6 * runs.worst(f'lateness_{which}'):.0f}" for which in ("p50", "p99", "p999", "max"))
        real = sum(run.stats["elapsed"] for run in runs.trajectories)
        emulated = sum(float(run.data["time"][-1]) for run in runs.trajectories)
        print(
            f"    void {runs.void}; lateness 50/99/99.9/100 % at most {late} us; real time {real / emulated:.2f} of "
            f"the scenario's, slow {slow:g}; load {runs.worst('load'):.1f}",
            flush=True,
        )


def line(engine: str, found: MeasuredBoundary, hybrid: float) -> None:
    """Print a boundary and the growth rates beside it."""
    rates = ", ".join(
        f"{gain / hybrid:.3f}: {rate:+.3f} +- {error:.3f}"
        for gain, rate, error in zip(found.gains, found.growth_rates, found.errors, strict=True)
    )
    off = found.value / hybrid - 1.0
    print(f"  {engine}: {found.value:.4f} +- {found.error:.4f}, {off:+.2%}; growth at {rates}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--slow", type=float, default=1.0, help="seconds of real time for one of the scenario")
    parser.add_argument("--repeat", type=int, default=1, help="live boundaries of each case")
    options = parser.parse_args()
    for one in options.cases or CASES:
        show(one, CASES[one], options.slow, options.repeat)
