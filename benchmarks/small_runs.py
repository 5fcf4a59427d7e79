"""Cost of many short packet runs: `python benchmarks/small_runs.py`.

Each row makes runs of 5 s of CUBIC over 5 Mb/s with different seeds, and prints runs per CPU second, and the CPU time
of a run relative to that of the C engine alone. The rows alternate, and the minimum over the rounds counts. In the rows
"prepared anew", the kept plans of earlier runs are discarded before each run. The next rows are ensembles of the same
runs. The last lines are the CPU time of `ecc sweep` over 1,000 seeds, and the part of it that is start-up: a sweep over
one seed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ecc
from ecc.packet import plans

NET = ecc.Network.dumbbell("5 Mb/s", rtts=["50 ms"], buffer=20_000)


def scenario(seed: int) -> ecc.Scenario:
    """The scenario of a seed."""
    return ecc.Scenario(NET, ecc.models.CUBIC(), 5.0, seed=seed)


def digest(seed: int) -> float:
    """Run a seed, and return the CPU time in the engine."""
    return float(ecc.packet.simulate(scenario(seed)).stats["cpu_seconds"])


def one_series(seed: int) -> float:
    """Run a seed, and read one series."""
    run = ecc.packet.simulate(scenario(seed))
    run.goodput.to_numpy().mean()
    return float(run.stats["cpu_seconds"])


def everything(seed: int) -> float:
    """Run a seed, and read the dataset and the table of flows."""
    run = ecc.packet.simulate(scenario(seed))
    assert run.data is not None and run.flows is not None
    return float(run.stats["cpu_seconds"])


def anew(row: Callable[[int], float]) -> Callable[[int], float]:
    """Let a row prepare each run anew."""

    def run(seed: int) -> float:
        plans._plans.clear()
        return row(seed)

    return run


ROWS = {
    "counts only": digest,
    "one series": one_series,
    "dataset and table": everything,
    "counts only, prepared anew": anew(digest),
    "dataset and table, prepared anew": anew(everything),
}
METRICS = ["utilization", "fairness", "mean_queue", "peak_queue", "loss"]


def ensembles(runs: int, rounds: int, engine: float) -> None:
    """Print rows of ensembles in one thread and in two."""
    for threads in (1, 2):
        for name, metrics in (("counts only", []), ("five metrics", METRICS)):
            best = float("inf")
            for _ in range(rounds):
                began = time.process_time()
                ecc.packet.ensemble(scenario(0), seeds=runs, metrics=metrics, executor=threads)
                best = min(best, (time.process_time() - began) / runs)
            label = f"ensemble, {threads} thread{'s'[: threads - 1]}, {name}"
            print(f"| {label} | {1.0 / best:,.0f} | {best / engine:.2f} |")


def command(n_runs: int, jobs: int) -> float:
    """Return the CPU time of `ecc sweep` over a number of seeds, user and system time with worker processes, in s."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scenario.toml").write_text(scenario(0).to_toml())
        words = ["sweep", "scenario.toml", "--vary", f"seed=1:{n_runs}:{n_runs}", "--average", "seed"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        program = [sys.executable, "-P", "-m", "ecc", *words, "--jobs", str(jobs)]
        subprocess.run(program, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(rounds: int) -> None:
    """Print the CPU time of sweeps by the command line."""
    for jobs in (1, 2):
        whole, start = (min(command(n_runs, jobs) for _ in range(rounds)) for n_runs in (1_000, 1))
        print(f"ecc sweep, 1,000 seeds, --jobs {jobs}: {whole:.2f} s of CPU time, of which start-up {start:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="runs of a row in each round")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    best = dict.fromkeys(ROWS, float("inf"))
    engine = float("inf")
    for row in ROWS.values():
        row(0)
    for _ in range(options.rounds):
        for name, row in ROWS.items():
            began = time.process_time()
            in_engine = sum(row(seed) for seed in range(options.runs))
            best[name] = min(best[name], (time.process_time() - began) / options.runs)
            engine = min(engine, in_engine / options.runs)
    print(f"| results that are read | runs per CPU second | CPU time of a run over that in C ({1e3 * engine:.2f} ms) |")
    print("|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1.0 / seconds:,.0f} | {seconds / engine:.2f} |")
    ensembles(options.runs, options.rounds, engine)
    commands(min(options.rounds, 3))


if __name__ == "__main__":
    main()
