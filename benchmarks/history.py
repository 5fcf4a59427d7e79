"""Work of fixed cases, counted, by commit: `python benchmarks/history.py {measure,compare,append,draw}`.

No clock is read, so two machines count alike. Packets: S1, S2 and a tenth of S3 of packet_engine.py with RCP's hooks,
S1 and S2 with XCP's, and S1 with NewReno's, each for a shorter time: data packets, events, peak bytes, and, under
valgrind's callgrind, instructions and allocations of the engine and its hooks, which are compiled for any x86-64.
Linear: a stability verdict with its certificate, and a search for a critical gain: calls of functions of `ecc` in
Python, and how many of them evaluate a characteristic matrix. Fluid: steps, and evaluations of the right-hand side.

measure      print the counts of the installed package
compare      measure; exit with 1 if anything is more than 5 % above the last commit of history.csv
append       measure, and add it to history.csv under the commit of this checkout
draw FILE    draw history.csv

An older commit is measured by `append --checkout DIR --python DIR/.venv/bin/python`: its own cases, its own package.

Costs of packets are compared by data packet. Instructions depend on the compilers and the C library: they are compared
only where these are the same as then, everything else always. After a change that is meant to cost more, commit it,
`append`, and commit history.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HISTORY = HERE / "history.csv"
RISE = 0.05
PACKETS = {  # case of packet_engine.py, hooks, measured stretch [s]
    "S1 RCP": ("S1", "RCP", 0.5),
    "S1 NewReno": ("S1", "NewReno", 0.5),
    "S1 XCP": ("S1", "XCP", 0.5),
    "S2 RCP": ("S2", "RCP", 0.5),
    "S2 XCP": ("S2", "XCP", 0.5),
    "S3 RCP": ("S3", "RCP", 0.05),
}
WARM_UP = {"S1": 0.1, "S2": 0.1, "S3": 0.25}  # s
FEWER = {"S3": 10}  # times less capacity, and fewer flows
UNTRACED = ("S3 RCP",)  # to prepare its flows would take a minute under valgrind
COSTS = ("events", "peak bytes", "allocations", "instructions", "calls", "evaluations", "steps")
OF_COMPILERS = ("instructions",)
PER_PACKET = ("events", "instructions")
COLUMNS = ("commit", "date", "compilers", "case", "packets", *COSTS)
Counters = dict[str, dict[str, int]]


# ---- in a process of its own: what is counted -------------------------------------------------------------


def packets(left_out: tuple[str, ...] = ()) -> Counters:
    """Run the cases of packets; callgrind writes a file for each at the end of its measured stretch.

    Parameters
    ----------
    left_out : tuple of str, optional
        Cases.
    """
    import llvmlite.binding

    llvmlite.binding.get_host_cpu_name = lambda: "x86-64"
    llvmlite.binding.get_host_cpu_features = llvmlite.binding.FeatureMap
    import packet_engine as cases

    CASES = dict(cases.CASES)
    cases.NEWRENO_WARM_UP = WARM_UP["S1"]
    out = Counters()
    for name, (case, hooks, stretch) in PACKETS.items():
        if name in left_out:
            continue
        capacity, rtts, *_ = CASES[case]
        one_of = FEWER.get(case, 1)
        cases.CASES[case] = (capacity / one_of, rtts[::one_of], WARM_UP[case], stretch)
        engine = cases.engine_of(case, hooks)
        engine.advance(WARM_UP[case])
        before = engine.stats
        engine.advance(WARM_UP[case] + stretch)
        after = engine.stats
        out[name] = {
            "packets": after.data_packets - before.data_packets,
            "events": after.events - before.events,
            "peak bytes": after.peak_bytes,
        }
    return out


def models() -> Counters:
    """Run the cases of linear models and of fluids."""
    import ecc

    def network(*rtts: float) -> Any:
        return ecc.Network.dumbbell("100 Mb/s", rtts=list(rtts))

    def verdict(*rtts: float) -> None:
        model = ecc.linearize(ecc.models.RCP(), network(*rtts))
        assert model.is_stable is model.certify().stable is False

    def gain(*rtts: float) -> None:
        assert ecc.stability.critical_gain(ecc.models.PIQIRCP(), network(*rtts), "alpha").value > 0.0

    folder, out = str(Path(ecc.__file__).parent), Counters()
    for name, question in (("verdict", verdict), ("critical gain", gain)):
        question(0.11, 0.12)  # imports what it needs
        calls = evaluations = 0

        def count(frame: Any, event: str, _: Any) -> None:
            nonlocal calls, evaluations
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(folder) and code.co_name[0] != "<":  # as of 3.12, too
                calls += 1
                evaluations += code.co_name.startswith("evaluate")

        sys.setprofile(count)
        question(0.1, 0.2, 0.3)
        sys.setprofile(None)
        out[name] = {"calls": calls, "evaluations": evaluations}
    for name, protocol in (("fluid RCP", ecc.models.RCP()), ("fluid PIQI-RCP", ecc.models.PIQIRCP())):
        run = ecc.fluid.simulate(ecc.Scenario(network(0.1, 0.2, 0.3), protocol, duration=20.0))
        out[name] = {"steps": run.stats["steps"], "evaluations": run.stats["evaluations"]}
    return out


# ---- from outside ------------------------------------------------------------------------------------------


def compilers() -> str:
    """Return what made and ran the machine code: on what instructions depend."""
    import llvmlite

    from ecc.native import _engine

    made = re.search(rb"GCC: \(.*?\) ([\d.]+)|(clang version [\d.]+)", Path(_engine.__file__).read_bytes())
    compiler = "unknown" if made is None else f"gcc {made[1].decode()}" if made[1] else made[2].decode()
    return ", ".join([compiler, " ".join(platform.libc_ver()), f"llvmlite {llvmlite.__version__}", platform.machine()])


def traced() -> Counters:
    """Run the cases of packets whose instructions are counted."""
    return packets(UNTRACED)


WORKERS = {"packets": packets, "traced": traced, "models": models, "compilers": compilers}


# ---- from outside ------------------------------------------------------------------------------------------


def work(what: str, benchmarks: Path, python: str, before: Sequence[str] = ()) -> Any:
    """Return what a function above returns in a process of its own.

    Parameters
    ----------
    what : str
    benchmarks : Path
        Where packet_engine.py is.
    python : str
        Whose ecc.
    before : sequence of str, optional
        What the command begins with.
    """
    code = f"import sys, json; sys.path[:0] = [{str(benchmarks)!r}, {str(HERE)!r}]; import history; "
    code += f"print(json.dumps(history.WORKERS[{what!r}]()))"
    variables = os.environ | {
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
    }
    if what == "models":
        del variables["NUMBA_CPU_NAME"], variables["NUMBA_CPU_FEATURES"]  # the package has its code
    done = subprocess.run(
        [*before, python, "-P", "-c", code], cwd=tempfile.gettempdir(), env=variables, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{what}: {done.stderr}")
    return json.loads(done.stdout)


def collected(file: Path) -> dict[str, int]:
    """Return what a file of callgrind holds.

    Parameters
    ----------
    file : Path
    """
    instructions = allocations = 0
    callee = ""
    for line in file.read_text(errors="replace").splitlines():
        if line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls=") and callee in ("malloc", "calloc", "realloc"):
            allocations += int(line[6:].split()[0])
        elif line.startswith("summary:"):
            instructions = int(line.split()[1])
    return {"instructions": instructions, "allocations": allocations}


def measure(checkout: Path = HERE.parent, python: str = sys.executable) -> list[dict[str, Any]]:
    """Return rows of the history, without commit and date.

    Parameters
    ----------
    checkout : Path, optional
        Whose cases are run.
    python : str, optional
        Whose ecc runs them.
    """
    benchmarks = checkout / "benchmarks"
    counters = work("packets", benchmarks, python)  # compiles the hooks, too
    valgrind = shutil.which("valgrind")
    if valgrind:
        with tempfile.TemporaryDirectory() as folder:
            options = ["--tool=callgrind", "--toggle-collect=ecc_engine_advance", "--dump-after=ecc_engine_advance"]
            options += ["--compress-strings=no", f"--callgrind-out-file={folder}/out", "-q"]
            again = work("traced", benchmarks, python, [valgrind, *options])
            assert again == {name: counters[name] for name in again}, (again, counters)
            for k, name in enumerate(again):
                counters[name] |= collected(Path(folder) / f"out.{2 * k + 2}")
    else:
        print("there is no valgrind: no instructions, no allocations", file=sys.stderr)
    counters |= work("models", benchmarks, python)
    made_by = work("compilers", benchmarks, python)
    return [{"compilers": made_by, "case": name, **found} for name, found in counters.items()]


def stored() -> list[dict[str, Any]]:
    """Return the rows of history.csv, oldest first."""
    with HISTORY.open(newline="", encoding="utf-8") as file:
        rows = [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]
    return [{key: int(value) if key in ("packets", *COSTS) else value for key, value in row.items()} for row in rows]


def last(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the last commit.

    Parameters
    ----------
    rows : list of dict
    """
    return [row for row in rows if row["commit"] == rows[-1]["commit"]]


def cost(row: dict[str, Any], name: str) -> float:
    """Return a cost as it is compared.

    Parameters
    ----------
    row : dict
    name : str
        One of COSTS.
    """
    return row[name] / row["packets"] if name in PER_PACKET else float(row[name])


def compared(now: list[dict[str, Any]], then: list[dict[str, Any]]) -> list[tuple[str, str, float, float, bool]]:
    """Return case, name, value then, value now, and whether it rose too much, of each cost that both have.

    Parameters
    ----------
    now, then : list of dict
        Rows of one measurement, and of another.
    """
    old = {row["case"]: row for row in then}
    out = []
    for row in now:
        of = old.get(row["case"], {})
        for name in COSTS:
            if name not in row or name not in of:
                continue
            if name in OF_COMPILERS and row["compilers"] != of["compilers"]:
                continue
            before, after = cost(of, name), cost(row, name)
            out.append((row["case"], name, before, after, after > (1.0 + RISE) * before))
    return out


def git(checkout: Path, *arguments: str) -> str:
    """Return what git prints.

    Parameters
    ----------
    checkout : Path
    *arguments : str
    """
    return subprocess.run(
        ["git", "-C", checkout, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def append(checkout: Path, rows: list[dict[str, Any]]) -> None:
    """Add rows to history.csv, which stays in the order of dates.

    Parameters
    ----------
    checkout : Path
        At the commit that was measured, which must have no other code.
    rows : list of dict
        Of `measure`.
    """
    if git(checkout, "status", "--porcelain", "--untracked-files=no", "--", "ecc", "benchmarks/packet_engine.py"):
        raise SystemExit(f"{checkout} has changes that are in no commit: commit them first")
    commit, date = git(checkout, "log", "-1", "--format=%h %cI", "--abbrev=10").split()
    kept = [row for row in stored() if row["commit"] != commit] if HISTORY.exists() else []
    kept += [{"commit": commit, "date": date, **row} for row in rows]
    kept.sort(key=lambda row: row["date"])
    with HISTORY.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(kept)


def draw(path: Path) -> None:
    """Write a figure of all costs by commit, over those of the first commit that has them.

    Parameters
    ----------
    path : Path
    """
    from plotly.subplots import make_subplots

    rows = stored()
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    panels = ("instructions", "events", "peak bytes", "evaluations")
    titles = ("instructions a packet", "events a packet", "peak bytes", "evaluations")
    figure = make_subplots(rows=2, cols=2, subplot_titles=titles, shared_xaxes=True, vertical_spacing=0.1)
    colors = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e", "#17becf", "#7f7f7f")
    cases = list(dict.fromkeys(row["case"] for row in rows))
    seen = set()
    for k, name in enumerate(panels):
        for case, color in zip(cases, colors, strict=False):
            points = {row["commit"]: cost(row, name) for row in rows if row["case"] == case and name in row}
            if not points:
                continue
            figure.add_scatter(
                x=[commits.index(commit) for commit in points],
                y=list(points.values()),
                name=case,
                line_color=color,
                mode="lines+markers",
                legendgroup=case,
                showlegend=case not in seen,
                row=k // 2 + 1,
                col=k % 2 + 1,
            )
            seen.add(case)
    dates = {row["commit"]: row["date"][5:10] for row in rows}
    figure.update_xaxes(tickvals=list(range(len(commits))), ticktext=[f"{one[:7]}, {dates[one]}" for one in commits])
    figure.update_xaxes(tickangle=-60, tickfont_size=9)
    figure.update_yaxes(rangemode="tozero", row=1)
    figure.update_yaxes(type="log", dtick=1, exponentformat="power", row=2)
    figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 40, "b": 90})
    figure.write_image(path, width=900, height=640, scale=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("measure", "compare", "append", "draw"))
    parser.add_argument("file", nargs="?", type=Path, help="of `draw`")
    parser.add_argument("--checkout", type=Path, default=HERE.parent, help="whose cases are run")
    parser.add_argument("--python", default=sys.executable, help="whose ecc runs them")
    given = parser.parse_args()
    if given.action == "draw":
        if given.file is None:
            parser.error("draw takes a FILE")
        return draw(given.file)
    rows = measure(given.checkout.resolve(), given.python)
    if given.action == "append":
        return append(given.checkout, rows)
    if given.action == "measure":
        for row in rows:
            print(", ".join(f"{key}: {value}" for key, value in row.items()))
        return None
    then = last(stored())
    if then[0]["compilers"] != rows[0]["compilers"]:
        print(f"instructions are not compared: then {then[0]['compilers']}, now {rows[0]['compilers']}")
    results = compared(rows, then)
    for case, name, before, after, rose in results:
        change = after / before - 1.0 if before else 0.0
        print(f"{case:15} {name:13} {before:14.6g} {after:14.6g} {change:+8.2%}{'  ROSE' * rose}")
    if any(rose for *_, rose in results):
        raise SystemExit(
            f"more than {RISE:.0%} above {then[0]['commit']}; if that is meant, add a row: {sys.argv[0]} append"
        )
    return None


if __name__ == "__main__":
    main()
