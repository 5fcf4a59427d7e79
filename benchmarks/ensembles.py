"""Ensembles beside a plain loop over their members, from one run: members per CPU second, and whether all bits agree.

    python benchmarks/ensembles.py [--workers N]

Compilations are not counted. CPU time is that of the process, in all threads; wall time depends on the cores that are
free: the load of the machine is shown.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ecc import Network, Scenario
from ecc.fluid import ensemble, simulate, solve_dde, solve_ensemble
from ecc.models import QIRCP, RCP, XCP


def mackey_glass(t: float, y: Any, ylag: Any, rise: float, fall: float) -> Any:
    """The right-hand side, with its two rates as arguments."""
    return rise * ylag[0] / (1.0 + ylag[0] ** 10) - fall * y


def main() -> None:
    """Run both kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads")
    workers = parser.parse_args().workers
    rise, fall, t = np.linspace(0.1, 0.3, 12), [0.08, 0.1], np.linspace(1.0, 100_000.0, 1000)

    def loop_of_solutions() -> Any:
        return np.array([[solve_dde(mackey_glass, (0.0, t[-1]), [0.5], [17.0], t_eval=t, args=(a, b)).y for b in fall]
                         for a in rise])  # fmt: skip

    def solutions() -> Any:
        found = solve_ensemble(
            mackey_glass, (0.0, t[-1]), [0.5], [17.0], args={"rise": rise, "fall": fall}, t_eval=t, workers=workers
        )
        return found.y.to_numpy()

    def members_of(protocol: Any, flows: int, alphas: Any) -> tuple[Any, Any]:
        network = Network.dumbbell("1 Gb/s", rtts=np.linspace(0.05, 0.5, flows).tolist())
        scenario = Scenario(network, protocol, 60.0)

        def loop_of_runs() -> Any:
            each = [replace(scenario, protocol=replace(protocol, alpha=float(alpha))) for alpha in alphas]
            return np.array([simulate(one, sample=1.0, time="discrete").rate.to_numpy() for one in each])

        def runs() -> Any:
            return ensemble(scenario, {"alpha": alphas}, sample=1.0, time="discrete", workers=workers).rate.to_numpy()

        return loop_of_runs, runs

    for name, count, (plain, threaded) in (
        ("solve_dde, Mackey-Glass to 100,000", 24, (loop_of_solutions, solutions)),
        ("recurrence, QI-RCP, 2 flows, 6000 steps", 64, members_of(QIRCP(), 2, np.linspace(0.1, 1.0, 64))),
        ("recurrence, QI-RCP, 200 flows, 6000 steps", 24, members_of(QIRCP(), 200, np.linspace(0.1, 1.0, 24))),
        ("recurrence, RCP, 20 flows, 6000 steps", 64, members_of(RCP(), 20, np.linspace(0.1, 0.4, 64))),
        ("recurrence, XCP, 20 flows, 1200 steps", 64, members_of(XCP(), 20, np.linspace(0.1, 0.4, 64))),
    ):
        plain(), threaded()
        times = []
        for run in (plain, threaded):
            begun, used = perf_counter(), process_time()
            values = run()
            times.append((perf_counter() - begun, count / (process_time() - used), values))
        (alone, slow, first), (together, fast, second) = times
        same, load = np.array_equal(first, second), os.getloadavg()[0]
        print(f"{name}, {count} members: loop {alone:.2f} s, {workers} threads {together:.2f} s; ", end="")
        print(f"members per CPU second {slow:.0f} and {fast:.0f}, ratio {fast / slow:.2f}; ", end="")
        print(f"bit-identical: {same} (load {load:.1f} on {os.cpu_count()} cores)", flush=True)


if __name__ == "__main__":
    main()
