"""Which slow start? Completion times, losses and harm of five starts, over rate, RTT, buffer, jitter and ACK bursts.

Prints the tables of docs/start_up.md and writes its figure: `python benchmarks/slow_starts.py [--figure FILE]`. It
takes under five minutes on two cores.

Each path differs from the first one in one property. A transfer of 10 MB begins alone, and a second time after a CUBIC
flow has run for 15 s or more. Starts are 12 times within a second, drawn once and the same for all hosts.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

import ecc
from ecc._support.intervals import mean_with_interval
from ecc.models import BBR, CUBIC, NewReno
from ecc.network.impairments import Aggregation, Jitter
from ecc.scenario import Scenario

SIZE, PACKET, INITIAL = 10_000_000, 1500, 10.0  # bytes, bytes, packets
BEFORE, LIMIT, AFTER = (
    15.0,
    60.0,
    5.0,
)  # s: age of the flow that is there, limit of the transfer's time, and time in which harm is counted
SEEDS = range(1, 13)
DRAWN = {seed: float(np.random.default_rng(seed).uniform()) for seed in SEEDS}


@dataclass(frozen=True)
class Path:
    """A bottleneck: rate [bit/s], RTT [s], buffer in BDPs, and what disturbs its packets."""

    name: str
    rate: float = 50e6
    rtt: float = 0.05
    buffer: float = 1.0
    impairments: tuple[Jitter | Aggregation, ...] = ()

    @property
    def bdp(self) -> float:
        """Bandwidth-delay product [bytes]."""
        return self.rate * self.rtt / 8.0


PATHS = (
    Path("50 Mb/s, 50 ms, 1 BDP"),
    Path("10 Mb/s", rate=10e6),
    Path("200 Mb/s", rate=200e6),
    Path("RTT 20 ms", rtt=0.02),
    Path("RTT 300 ms", rtt=0.3),
    Path("buffer 0.25 BDP", buffer=0.25),
    Path("buffer 3 BDP", buffer=3.0),
    Path("buffer 6 BDP", buffer=6.0),
    Path("jitter 0 to 10 ms", impairments=(Jitter((0.0, 0.01), link=0),)),
    Path("jitter 0 to 30 ms", impairments=(Jitter((0.0, 0.03), link=0),)),
    Path("ACKs each 10 ms", impairments=(Aggregation((0.01, 0.01), acks_of="all"),)),
)
NONE = "no transfer"
HOSTS = ("RFC 5681", "HyStart++", "SEARCH", "Careful Resume", "BBR")


def host(name: str, path: Path) -> CUBIC | BBR:
    """A host with a start; the saved window of Careful Resume is the bandwidth-delay product."""
    cubic = CUBIC(initial=INITIAL)
    return {
        "RFC 5681": cubic,
        "HyStart++": replace(cubic, slow_start="hystart++"),
        "SEARCH": replace(cubic, slow_start="search"),
        "Careful Resume": replace(cubic, saved_window=round(path.bdp), saved_rtt=path.rtt),
        "BBR": BBR(initial=INITIAL),
        NONE: cubic,
    }[name]


def measured(case: tuple[str, Path, int]) -> tuple[float, float, float, float]:
    """Completion time alone [s] and retransmitted share [%]; the time next to a flow, and what this flow lacks [%]."""
    name, path, seed = case
    buffer = max(round(path.buffer * path.bdp), 2 * PACKET)
    options = {"buffer": buffer, "packet_size": PACKET}
    start = DRAWN[seed]
    alone = (np.nan, np.nan)
    if name != NONE:
        network = ecc.Network.dumbbell(path.rate, [path.rtt], sizes=[SIZE], starts=[start], **options)
        run = ecc.packet.simulate(Scenario(network, host(name, path), LIMIT, impairments=path.impairments, seed=seed))
        flow = run.flows.iloc[0]
        alone = (float(flow["completion_time"]), 100.0 * float(flow["retransmitted"]) / SIZE)
    start += BEFORE
    n = 1 if name == NONE else 2
    sizes, begins = [None, SIZE][:n], [0.0, start][:n]
    network = ecc.Network.dumbbell(path.rate, [path.rtt] * n, sizes=sizes, starts=begins, **options)
    flows = {"flows": dict(enumerate([CUBIC(initial=INITIAL), host(name, path)][:n]))}
    duration = BEFORE + (AFTER + 1.0 if name == NONE else LIMIT)
    scenario = Scenario(network, flows, duration, impairments=path.impairments, seed=seed)
    shared = ecc.packet.simulate(scenario, sample=0.1)
    times = shared.data.time
    after = (times > start) & (times < start + AFTER)
    lacks = 100.0 * (1.0 - float(shared.goodput[:, 0].where(after).mean()) / path.rate)
    return *alone, float(shared.flows["completion_time"].iloc[-1]), lacks


def shown(values: np.ndarray, digits: int) -> str:
    """Mean and half-width of its 95 % interval; NaN if a transfer did not finish."""
    mean, half = mean_with_interval(values, 0, 0.95)
    return f"{float(mean):.{digits}f} ± {float(half):.{digits}f}"


def starts() -> None:
    """The table of starts over paths."""
    cases = list(product((*HOSTS, NONE), PATHS, SEEDS))
    with ProcessPoolExecutor(2) as pool:
        results = dict(zip(cases, pool.map(measured, cases, chunksize=10), strict=True))
    columns = (
        ("completion time alone [s]", 2),
        ("retransmitted alone [%]", 1),
        ("completion time next to a CUBIC flow [s]", 2),
        ("capacity that this flow lacks in the 5 s after the start [%]", 1),
    )
    for column, (title, digits) in enumerate(columns):
        names = (*HOSTS, NONE) if column == 3 else HOSTS
        print(f"\n{title}\n\n| path | {' | '.join(names)} |\n|---{'|---' * len(names)}|")
        for path in PATHS:
            values = [np.array([results[name, path, seed][column] for seed in SEEDS]) for name in names]
            print(f"| {path.name} | {' | '.join(shown(each, digits) for each in values)} |")


def ends(buffer: float, **options: str | float) -> tuple[np.ndarray, np.ndarray]:
    """For eight initial windows: the window at the end of slow start [BDPs], and the packets lost until 1.2 s."""
    path = PATHS[0]
    rows = []
    for initial in np.linspace(INITIAL, 2.0 * INITIAL, 8, endpoint=False):
        network = ecc.Network.dumbbell(path.rate, [path.rtt], buffer=round(buffer * path.bdp), packet_size=PACKET)
        protocol = NewReno(initial=float(initial), transport="rack", **options)
        run = ecc.packet.simulate(Scenario(network, protocol, 1.2), sample=0.005, record=["flow.ssthresh"])
        ssthresh = run["flow.ssthresh"][:, 0].to_numpy()
        rows.append((ssthresh[np.argmax(ssthresh < 1e300)] / path.bdp, float(run.drops.sum())))
    window, lost = np.array(rows).T
    return window, lost


def span(values: np.ndarray, digits: int) -> str:
    """Minimum and maximum."""
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


def buffers(figure: str | None) -> None:
    """The window at which an ACK-clocked sender leaves slow start by SEARCH, over the buffer."""
    kinds = {
        "RFC 5681": {},
        "SEARCH, 0.26": {"slow_start": "search", "search_threshold": 0.26},
        "SEARCH, 0.35": {"slow_start": "search", "search_threshold": 0.35},
    }
    sizes = (0.5, 1.0, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 4.5, 5.0, 6.0, 8.0)
    print("window at the end of slow start [BDP], and packets lost, alone at 50 Mb/s and 50 ms")
    print(f"\n| buffer [BDP] |{''.join(f' {name} | lost |' for name in kinds)}\n|---{'|---' * 2 * len(kinds)}|")
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in kinds}
    for size in sizes:
        for name, options in kinds.items():
            curves[name].append(ends(size, **options))
        cells = "".join(f" {span(curves[name][-1][0], 1)} | {span(curves[name][-1][1], 0)} |" for name in kinds)
        print(f"| {size} |{cells}")
    if figure is not None:
        draw(sizes, curves, figure)


def draw(sizes: tuple[float, ...], curves: dict[str, list[tuple[np.ndarray, np.ndarray]]], file: str) -> None:
    """Write the figure of docs/start_up.md."""
    from plotly.subplots import make_subplots

    picture = make_subplots(1, 2, subplot_titles=("window at the end of slow start [BDP]", "packets lost"))
    for (name, rows), color in zip(curves.items(), ("#7f7f7f", "#1f77b4", "#d62728"), strict=True):
        for column in (0, 1):
            means = [float(row[column].mean()) for row in rows]
            line = {"name": name, "mode": "lines+markers", "line_color": color, "showlegend": column == 0}
            picture.add_scatter(x=sizes, y=means, row=1, col=column + 1, **line)
    picture.update_xaxes(title="buffer [BDP]")
    picture.update_layout(template="plotly_white", legend={"x": 0.02, "y": 0.98}, margin={"t": 40, "b": 50, "l": 50})
    picture.write_image(file, width=1000, height=400, scale=2)


def resumers() -> None:
    """Flows that resume at once with the same saved window, in place of slow start."""
    path = PATHS[0]
    print("\nflows that begin within 10 ms, 2.5 MB each: mean completion time [s], and packets lost")
    print("\n| flows | buffer [BDP] | slow start | lost | saved: 1 BDP | lost | saved: 2 BDP | lost |")
    print(f"|---{'|---' * 7}|")
    for n, buffer in product((1, 2, 4), (0.25, 1.0)):
        cells = []
        for saved in (0.0, 1.0, 2.0):
            options = {"saved_window": round(saved * path.bdp), "saved_rtt": path.rtt} if saved else {}
            times, lost = [], []
            for seed in SEEDS:
                begins = np.random.default_rng(seed).uniform(0.0, 0.01, n)
                network = ecc.Network.dumbbell(
                    path.rate,
                    [path.rtt] * n,
                    buffer=round(buffer * path.bdp),
                    packet_size=PACKET,
                    sizes=[2_500_000] * n,
                    starts=list(begins),
                )
                run = ecc.packet.simulate(Scenario(network, CUBIC(initial=INITIAL, **options), 20.0), sample=0.1)
                times.append(float(run.flows["completion_time"].mean()))
                lost.append(float(run.drops.sum()))
            cells += [shown(np.array(times), 2), shown(np.array(lost), 0)]
        print(f"| {n} | {buffer} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", metavar="FILE", help="write the figure of the page, for example docs/start_up.png")
    parser.add_argument("--quick", action="store_true", help="without the table of starts over paths")
    arguments = parser.parse_args()
    buffers(arguments.figure)
    resumers()
    if not arguments.quick:
        starts()


if __name__ == "__main__":
    main()
