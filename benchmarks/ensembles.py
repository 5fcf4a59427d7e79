"""Ensembles beside a plain loop over their members, from one run: members per CPU second, and whether all bits agree.

    python benchmarks/ensembles.py [--workers N] [--before PYTHON] [--figure FILE]

Compilations are not counted. CPU time is that of the process, in all threads, the best of six; wall time depends on
the cores that are free. `--before` names the interpreter of an environment with an older `ecc`: its ensembles are
measured in turns with ours, and the bits of both are compared. A member's calls are those of functions of Python and of
C from Python; how threads wait for each other moves them by a few. `--figure` draws the members per CPU second. The
last line is the speed of a kernel written by hand for the row "generated", without series.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import Any

import numba
import numpy as np

from ecc import Network, Scenario
from ecc.fluid import ensemble, simulate, solve_dde, solve_ensemble
from ecc.models import CUBIC, PIQIRCP, QIRCP, RCP, XCP

ROUNDS = 3
Runs = Callable[[], Any]


def mackey_glass(t: float, y: Any, ylag: Any, rise: float, fall: float) -> Any:
    """The right-hand side, with its two rates as arguments."""
    return rise * ylag[0] / (1.0 + ylag[0] ** 10) - fall * y


def solutions(workers: int) -> tuple[int, Runs, Runs]:
    """How many solutions, and how they are made in a loop and at once."""
    rise, fall, t = np.linspace(0.1, 0.3, 4), [0.08, 0.1], np.linspace(1.0, 100_000.0, 1000)

    def loop() -> Any:
        return np.array(
            [
                [solve_dde(mackey_glass, (0.0, t[-1]), [0.5], [17.0], t_eval=t, args=(a, b)).y for b in fall]
                for a in rise
            ]
        )

    def together() -> Any:
        args = {"rise": rise, "fall": fall}
        return solve_ensemble(
            mackey_glass, (0.0, t[-1]), [0.5], [17.0], args=args, t_eval=t, executor=workers
        ).y.to_numpy()

    return len(rise) * len(fall), loop, together


def members(
    workers: int, protocol: Any, flows: int, values: Any, name: str = "alpha", time: str = "discrete"
) -> tuple[int, Runs, Runs]:
    """How many members, and how they are made in a loop and at once."""
    network = Network.dumbbell("1 Gb/s", rtts=np.linspace(0.05, 0.5, flows).tolist(), buffer="10 MB")
    options = {"sample": 1.0, "time": time}
    scenario = Scenario(network, protocol, 60.0)

    def loop() -> Any:
        each = [replace(scenario, protocol=replace(protocol, **{name: float(value)})) for value in values]
        return np.array([simulate(one, **options).rate.to_numpy() for one in each])

    def together() -> Any:
        return ensemble(scenario, {name: values}, executor=workers, **options).rate.to_numpy()

    return len(values), loop, together


def cases(workers: int) -> dict[str, tuple[int, Runs, Runs]]:
    """What is measured, by name."""
    alphas = np.linspace(0.1, 0.4, 64)
    return {
        "recurrence, PIQI-RCP, 2 flows, 6,000 steps": members(workers, PIQIRCP(), 2, alphas),
        "recurrence, PIQI-RCP, 2 flows, 6,000 steps, generated": members(
            workers, PIQIRCP(), 2, np.linspace(0.1, 0.4, 4096)
        ),
        "recurrence, PIQI-RCP, 20 flows, 6,000 steps": members(workers, PIQIRCP(), 20, alphas),
        "recurrence, RCP, 20 flows, 6,000 steps": members(workers, RCP(), 20, alphas),
        "recurrence, XCP, 20 flows, 1,200 steps": members(workers, XCP(), 20, alphas),
        "recurrence, QI-RCP, 200 flows, 6,000 steps": members(workers, QIRCP(), 200, alphas[:12]),
        "windows, CUBIC, 2 flows": members(
            workers, CUBIC(transport="sack"), 2, np.linspace(0.5, 0.8, 4), "beta", "continuous"
        ),
        "`solve_dde`, Mackey-Glass": solutions(workers),
    }


@numba.njit
def rates_by_hand(alphas: Any, delays: Any, steps: int, rates: Any, peaks: Any) -> None:
    """Run PIQI-RCP with two flows on a link for many gains; set the last rates and the largest queues."""
    C, T, gamma, tau1, tau2 = 1e9, 0.01, 0.95, 0.01, 0.1
    mean_rtt = 0.5 * T * (delays[0] + delays[1])
    ring = np.empty(64)
    for k in range(len(alphas)):
        R = 0.05 * C
        ring[:] = R
        x1 = x2 = R
        y_prev = queue = peak = 0.0
        for n in range(steps):
            now, before = ring[(n - delays[0]) & 63], ring[(n - delays[0] - 1) & 63]
            x1 = x1 - tau1 * (x1 - now) + tau2 * (now - before)
            now, before = ring[(n - delays[1]) & 63], ring[(n - delays[1] - 1) & 63]
            x2 = x2 - tau1 * (x2 - now) + tau2 * (now - before)
            y = x1 + x2
            queue = max(0.0, queue + T * (y - C))
            peak = max(peak, queue)
            R *= 1.0 + T * (alphas[k] * (gamma * C - y) + alphas[k] * (gamma * C - y_prev)) / (gamma * C * mean_rtt)
            R = min(max(R, 1e-4 * C), C)
            y_prev = y
            ring[n & 63] = R
        rates[k, 0], rates[k, 1], peaks[k] = x1, x2, peak


def members_by_hand(count: int = 4096) -> float:
    """Return the members per CPU second of the kernel written by hand."""
    alphas, delays = np.linspace(0.1, 0.4, count), np.array([5, 50])
    rates, peaks, times = np.empty((count, 2)), np.empty(count), []
    rates_by_hand(alphas[:1], delays, 10, rates, peaks)
    for _ in range(ROUNDS):
        used = process_time()
        rates_by_hand(alphas, delays, 6000, rates, peaks)
        times.append(process_time() - used)
    return count / min(times)


def calls_of(run: Callable[[], Any]) -> int:
    """Return how many functions a run calls in all threads, of Python and of C from Python."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def measured(workers: int, loops: bool, only: str) -> dict[str, Any]:
    """Return for each case the members per CPU second, a member's calls, and the digest of all bits."""
    found: dict[str, Any] = {}
    for name, (count, loop, together) in cases(workers).items():
        if only not in name:
            continue
        row: dict[str, Any] = {"members": count}
        for kind, run in (("loop", loop), ("ensemble", together)) if loops else (("ensemble", together),):
            values, times = run(), []
            for _ in range(ROUNDS):
                used = process_time()
                run()
                times.append(process_time() - used)
            row[kind] = count / min(times)
            row[f"{kind} bits"] = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
        row["calls"] = calls_of(together) / count
        found[name] = row
    return found


def best(row: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the higher speeds of two."""
    return {key: max(value, other[key]) if key in ("loop", "ensemble") else value for key, value in row.items()}


def draw(rows: dict[str, dict[str, Any]], path: str) -> None:
    """Draw the members per CPU second of each case."""
    import plotly.graph_objects as go

    kinds = {
        "loop": ("loop over simulate", "#7f7f7f", "circle-open"),
        "before": ("ensemble, before", "#1f77b4", "circle"),
        "ensemble": ("ensemble", "#d62728", "diamond"),
    }
    names = [name.replace("`", "").removeprefix("recurrence, ") for name in rows]
    figure = go.Figure()
    for kind, (label, color, symbol) in kinds.items():
        values = [row.get(kind) for row in rows.values()]
        if any(values):
            figure.add_scatter(x=values, y=names, mode="markers", name=label, marker={"color": color, "symbol": symbol})
    figure.update_traces(marker_size=11)
    figure.update_xaxes(type="log", dtick="D2", title="members per CPU second")
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(template="plotly_white", margin={"l": 20, "r": 20, "t": 20, "b": 50})
    figure.write_image(path, width=800, height=420, scale=2)


def main() -> None:
    """Measure all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads")
    parser.add_argument("--before", help="interpreter of an environment with an older ecc")
    parser.add_argument("--figure", help="file to draw to")
    parser.add_argument("--only", default="", help="measure the rows whose name has this text")
    parser.add_argument("--json", action="store_true", help="print the ensembles' measurements only")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measured(options.workers, loops=False, only=options.only)))
        return
    rows: dict[str, Any] = {}
    older: dict[str, Any] = {}
    for _ in range(2):  # the load of the machine changes
        if options.before:
            command = [options.before, "-P", __file__, "--json", "--workers", str(options.workers)]
            command += ["--only", options.only]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            older = {name: best(row, older.get(name, row)) for name, row in found.items()}
        found = measured(options.workers, loops=True, only=options.only)
        rows = {name: best(row, rows.get(name, row)) for name, row in found.items()}
    for name, row in older.items():
        rows[name]["before"] = row["ensemble"]
    print("| ensemble | members | loop | before | ensemble | ratio to before | calls before | calls |")
    print("|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        same = row["loop bits"] == row["ensemble bits"] == older.get(name, row).get("ensemble bits")
        before, calls = row.get("before", np.nan), older.get(name, {}).get("calls", np.nan)
        speeds = f"{row['loop']:.0f} | {before:.0f} | {row['ensemble']:.0f} | {row['ensemble'] / before:.1f}"
        print(
            f"| {name} | {row['members']} | {speeds} | {calls:.0f} | {row['calls']:.0f} |",
            "" if same else "BITS DIFFER",
        )
    print(f"kernel written by hand: {members_by_hand():.0f} members per CPU second")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.figure:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
