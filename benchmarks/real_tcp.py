"""The kernel's TCP and ours on the same paths, from 0 s on: `python benchmarks/real_tcp.py kernel|ours|table FILE`.

One flow of packets of 1500 bytes over one drop-tail link: 20 and 100 Mb/s, RTTs of 20 and 100 ms, buffers of 0.5, 1 and
2 bandwidth-delay products, Reno, CUBIC and BBR: 36 cases of 30 s. `kernel` runs them live with Linux hosts, `ours` in
the packet engine with NewReno.linux(), CUBIC.linux() and BBRv1(). Either appends a line of JSON to FILE as each run
ends and omits the runs that FILE already has, so that an interrupted benchmark can be resumed. Void live runs are not
written. Connecting takes the kernel a round trip, so our flows start one later.

Live runs need an otherwise idle processor: `chrt -r 20 taskset -c 1 python benchmarks/real_tcp.py kernel FILE`.

`table` compares the goodput of the first 5 s and of the rest [Mb/s of application data], the mean queue after 5 s [kB],
and the mean time between loss events after 2 s, when slow start is over [s]. Each cell has the kernel's figure (the
mean of its runs), ours, and the ratio of both, and is marked ** if it misses its goal: 10 % for the first 5 s, 2 % for
the rest, 10 % for the queue, 5 % for the time between losses. "spread" is the range of the kernel's own runs, if it is
larger than the goal. Drops belong to one loss event if they are less than one and a half round trips through a full
buffer apart. `variants` counts the figures within their goals for other parameters of our hosts, and `figure FILE
IMAGE` draws windows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from plotly.subplots import make_subplots

import ecc
from ecc.live import TCP
from ecc.models import CUBIC, BBRv1, NewReno

SAMPLE, DURATION, FIRST, SLOW_START = 0.05, 30.0, 5.0, 2.0  # s
PACKET, DATA = 1500, 1448 / 1500  # bytes; share of application data in a packet with timestamps
CONTROLS: dict[str, Callable[[], Any]] = {"reno": NewReno.linux, "cubic": CUBIC.linux, "bbr": BBRv1}
CAPACITIES, RTTS, BUFFERS = (20e6, 100e6), (0.02, 0.1), (0.5, 1.0, 2.0)  # bit/s, s, bandwidth-delay products
GOALS = {"first": 0.10, "rest": 0.02, "queue": 0.10, "between": 0.05}
VARIANTS: dict[str, dict[str, Callable[[], Any]]] = {
    "reno": {
        "NewReno.linux()": NewReno.linux,
        "NewReno.linux(prr=False)": lambda: NewReno.linux(prr=False),
        "NewReno.linux(lost_retransmission='reduce')": lambda: NewReno.linux(lost_retransmission="reduce"),
        "NewReno.linux(transport='sack')": lambda: NewReno.linux(transport="sack"),
        "NewReno()": NewReno,
    },
    "cubic": {
        "CUBIC.linux()": CUBIC.linux,
        "CUBIC.linux(version='rfc9438')": lambda: CUBIC.linux(version="rfc9438"),
        "CUBIC.linux(slow_start='hystart++')": lambda: CUBIC.linux(slow_start="hystart++"),
        "CUBIC.linux(slow_start='standard')": lambda: CUBIC.linux(slow_start="standard"),
        "CUBIC.linux(prr=False)": lambda: CUBIC.linux(prr=False),
        "CUBIC(transport='sack')": lambda: CUBIC(transport="sack"),
    },
    "bbr": {"BBRv1()": BBRv1},
}
DRAWN = ((20e6, 0.02, 1.0), (100e6, 0.1, 0.5))

Case = tuple[str, float, float, float]
Lines = dict[tuple[str, Case], list[dict[str, Any]]]


def cases() -> Iterator[Case]:
    """All combinations of control, capacity, RTT and buffer."""
    yield from product(CONTROLS, CAPACITIES, RTTS, BUFFERS)


def scenario(case: Case, start: float) -> ecc.Scenario:
    """The path of a case, with a flow that starts then [s]."""
    control, capacity, rtt, buffer = case
    link = ecc.Link(capacity, rtt / 4, buffer=max(PACKET, int(buffer * capacity * rtt / 8)))
    flow = ecc.Flow([0], access_delay=rtt / 4, packet_size=PACKET, delayed_acks=(2, 0.04), start=start)
    return ecc.Scenario(ecc.Network([link], [flow]), CONTROLS[control](), DURATION)


def kernel(case: Case) -> ecc.Trajectory:
    """A live run of Linux hosts."""
    given = scenario(case, 0.0).with_(protocol=NewReno())
    return ecc.live.simulate(given, SAMPLE, traffic=[TCP(case[0])], clock="real", lateness="5 ms", attempts=4)


def ours(case: Case, protocol: Any = None) -> ecc.Trajectory:
    """A packet run of the same path."""
    given = scenario(case, case[2])
    given = given if protocol is None else given.with_(protocol=protocol)
    return ecc.packet.simulate(given, SAMPLE, record=["env.window", "env.in_flight"])


def line_of(case: Case, run: ecc.Trajectory) -> dict[str, Any]:
    """The line of a run: series of each sample, in application data [bit/s], bytes and packets."""
    is_live = "tcp_window" in run.data
    scale = 1.0 if is_live else DATA
    names = ("tcp_window", "tcp_in_flight") if is_live else ("env.window", "env.in_flight")
    size = DATA * PACKET if is_live else PACKET
    series = {
        "goodput": scale * run.goodput.to_numpy()[:, 0],
        "queue": run.data["queue_mean"].to_numpy()[:, 0],
        "drops": run.data["drops"].to_numpy()[:, 0],
        "window": run.data[names[0]].to_numpy()[:, 0] / size,
        "in_flight": run.data[names[1]].to_numpy()[:, 0] / size,
    }
    keys = ("lateness_p99", "lateness_max", "load", "receiver_limited", "buffer_limited", "attempts")
    about = {key: run.stats[key] for key in keys if key in run.stats}
    rounded = {name: np.round(np.nan_to_num(of), 1).tolist() for name, of in series.items()}
    return {"case": case, "who": "kernel" if is_live else "ours", **about, **rounded}


def figures(line: dict[str, Any]) -> dict[str, float]:
    """The figures of a run that the table has."""
    _, _, rtt, buffer = line["case"]
    goodput, queue, drops = (np.array(line[name]) for name in ("goodput", "queue", "drops"))
    at = SAMPLE * np.flatnonzero(drops)
    starts = at[np.diff(at, prepend=-np.inf) > 1.5 * rtt * (1.0 + buffer) + SAMPLE]
    late = starts[starts > SLOW_START]
    n = round(FIRST / SAMPLE)
    return {
        "first": float(goodput[:n].mean()) / 1e6,
        "rest": float(goodput[n:].mean()) / 1e6,
        "queue": float(queue[n:].mean()) / 1e3,
        "between": float(np.diff(late).mean()) if len(late) > 1 else np.nan,
        "events": len(starts),
        "drops": int(drops.sum()),
    }


def read(path: Path) -> Lines:
    """The lines of a file by the engine and the case."""
    found: Lines = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        line = json.loads(text)
        found.setdefault((line["who"], tuple(line["case"])), []).append(line)
    return found


def fill(path: Path, who: str, only: str, n_runs: int) -> None:
    """Run each case until the file has so many runs of it; ours are all the same, so that one is enough."""
    for repetition in range(n_runs if who == "kernel" else 1):
        for case in cases():
            if len(read(path).get((who, case), [])) > repetition or only not in (case[0], ""):
                continue
            run = {"kernel": kernel, "ours": ours}[who](case)
            if run.stats.get("void"):
                print(case, "void:", run.stats["void"], flush=True)
                continue
            line = line_of(case, run)
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(case, figures(line), flush=True)


def table(path: Path) -> None:
    """Print the comparison, and how many figures are within their goals."""
    lines = read(path)
    within, compared, steady = (dict.fromkeys(GOALS, 0) for _ in range(3))
    print("| | Mb/s | RTT [ms] | buffer | first 5 s | rest | queue [kB] | between losses [s] | loss events | drops |")
    print(f"|{'---|' * 10}")
    for case in cases():
        if ("kernel", case) not in lines or ("ours", case) not in lines:
            continue
        runs = [figures(line) for line in lines["kernel", case]]
        theirs = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        its = figures(lines["ours", case][-1])
        cells = [case[0], f"{case[1] / 1e6:g}", f"{1e3 * case[2]:g}", f"{case[3]:g}"]
        for name, goal in GOALS.items():
            ratio = its[name] / theirs[name] if theirs[name] else np.nan
            if np.isnan(ratio):
                cells.append("")
                continue
            is_good = abs(ratio - 1.0) <= goal
            compared[name] += 1
            within[name] += bool(is_good)
            spread = np.ptp([run[name] for run in runs]) / theirs[name]
            steady[name] += bool(spread <= goal)
            text = f"{theirs[name]:.4g}, {its[name]:.4g}, {ratio:.3f}{'' if is_good else ' **'}"
            cells.append(text + (f", spread {spread:.1%}" if spread > goal else ""))
        cells += [f"{theirs[name]:g}, {its[name]}" for name in ("events", "drops")]
        print("| " + " | ".join(cells) + " |")
    for name, goal in GOALS.items():
        print(
            f"{name}: {within[name]} of {compared[name]} within {goal:.0%}; the kernel's runs differ by no more in "
            f"{steady[name]}"
        )


def variants(path: Path) -> None:
    """Print how many figures of each variant of our hosts are within their goals."""
    lines = read(path)
    print(f"| | {' | '.join(GOALS)} |\n|{'---|' * (1 + len(GOALS))}")
    for control, of in VARIANTS.items():
        for name, protocol in of.items():
            ratios: dict[str, list[float]] = {name: [] for name in GOALS}
            for case in cases():
                if case[0] != control or ("kernel", case) not in lines:
                    continue
                runs = [figures(line) for line in lines["kernel", case]]
                its = figures(line_of(case, ours(case, protocol())))
                for key, found in ratios.items():
                    ratio = its[key] / float(np.mean([run[key] for run in runs]))
                    if not np.isnan(float(np.mean([run[key] for run in runs]))):
                        found.append(abs(np.nan_to_num(ratio) - 1.0))
            cells = [
                f"{sum(error <= GOALS[key] for error in of_key)} of {len(of_key)}" for key, of_key in ratios.items()
            ]
            print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


def figure(path: Path, image: str) -> None:
    """Draw windows over time, of the kernel and of ours."""
    lines = read(path)
    titles = [
        f"{control}, {capacity / 1e6:g} Mb/s, {1e3 * rtt:g} ms, buffer {buffer:g} BDP"
        for control in CONTROLS
        for capacity, rtt, buffer in DRAWN
    ]
    drawn = make_subplots(rows=len(CONTROLS), cols=len(DRAWN), subplot_titles=titles, vertical_spacing=0.09)
    for place, (control, path_of_case) in enumerate(product(CONTROLS, DRAWN)):
        row, column = divmod(place, len(DRAWN))
        for who, color in (("kernel", "#d62728"), ("ours", "#1f77b4")):
            window = lines[who, (control, *path_of_case)][0]["window"]
            drawn.add_scatter(
                x=SAMPLE * np.arange(1, len(window) + 1),
                y=window,
                line_color=color,
                line_width=1.2,
                row=row + 1,
                col=column + 1,
                showlegend=place == 0,
                name={"kernel": "Linux", "ours": "ecc"}[who],
            )
    drawn.update_yaxes(rangemode="tozero")
    drawn.update_yaxes(title="window [packets]", col=1)
    drawn.update_xaxes(title="time [s]", row=len(CONTROLS))
    drawn.update_layout(template="plotly_white", margin={"t": 60, "r": 10}, legend={"orientation": "h", "y": 1.1})
    drawn.update_annotations(font_size=12)
    drawn.write_image(image, width=1000, height=220 * len(CONTROLS) + 60, scale=2)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kernel", "ours", "table", "variants", "figure"))
    parser.add_argument("file", type=Path, help="file of the runs")
    parser.add_argument("image", nargs="?", default="real_tcp.png", help="file of the figure")
    parser.add_argument("--only", default="", choices=("", *CONTROLS), help="one congestion control")
    parser.add_argument("--runs", type=int, default=1, help="runs of the kernel for each case")
    given = parser.parse_args()
    if given.what == "table":
        table(given.file)
    elif given.what == "variants":
        variants(given.file)
    elif given.what == "figure":
        figure(given.file, given.image)
    else:
        fill(given.file, given.what, given.only, given.runs)


if __name__ == "__main__":
    sys.exit(main())
