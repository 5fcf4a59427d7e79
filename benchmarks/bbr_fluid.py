"""BBR as fluid and in packets on the grid of Scherrer et al. (IMC 2022): `python benchmarks/bbr_fluid.py`.

Ten flows over 100 Mb/s, 10 ms (`--delay 5` for theirs of 5 ms), from sources 5 to 10 ms away, with the delays that
their program draws; packets of 1514 bytes; buffers of 1 to 7 bandwidth-delay products of the link; 9 s, of which the
first 4 are left out. One protocol, or two of five flows each. Drop-tail, or what they call RED (`--red`), which drops
with the probability q/B. For each: utilization [%], mean queue [% of the buffer], loss [% of what arrived], jitter
[ms: mean change of the queueing delay in a millisecond], Jain's index of goodputs, and the share of the first five
flows [%]. Packets: the mean of three seeds, of their own random numbers. `--late S` lets the first five flows start S
seconds after the others (before them, if negative), `--span FROM UNTIL` takes other seconds, both counted from the last
start. `--csv FILE` writes all numbers, `--figure FILE` the figure of docs/bbr_fluid.md. Beside the grid there is
BBRv2-rounds (BBRv2-rounds/Reno): version 2 whose fluid is that of version 3, with the constants of version 2; packets
are those of BBRv2.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from plotly.subplots import make_subplots

import ecc
from ecc.models import BBR, CUBIC, BBRv1, BBRv2, NewReno
from ecc.models.shared import bbr_fluid
from ecc.queues.discipline import QueueDiscipline, congested_at_random

CAPACITY, PACKET, FLOWS = 100e6, 1514, 10
SPAN, STEP = (4.0, 9.0), 0.001  # s
BUFFERS = (1, 2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class ByRounds(BBRv2):
    """Version 2 whose fluid lowers its bounds after each round with a loss, as its code does."""

    fluid_form = bbr_fluid.VERSION_3


PROTOCOLS = {
    "BBRv1": BBRv1(),
    "BBRv2": BBRv2(),
    "BBRv2-rounds": ByRounds(),
    "BBRv3": BBR(),
    "Reno": NewReno(transport="rack", initial=10.0),
    "CUBIC": CUBIC(transport="rack", initial=10.0),
}
THEIRS = ("BBRv1", "BBRv2", "Reno/CUBIC", "BBRv1/Reno", "BBRv1/CUBIC", "BBRv2/Reno", "BBRv2/CUBIC", "BBRv1/BBRv2")
OURS = ("BBRv3", "BBRv3/Reno", "BBRv3/CUBIC")
FORMATS = {
    "utilization": "7.1f",
    "queue": "7.1f",
    "loss": "7.2f",
    "jitter": "7.3f",
    "jain": "6.2f",
    "share": "6.1f",
}
ENGINES = {"fluid": (ecc.fluid.simulate, (1,)), "packets": (ecc.packet.simulate, (1, 2, 3))}


@dataclass(frozen=True)
class Setting:
    """What all points of a grid have: times in s."""

    delay: float
    red: bool = False
    late: float = 0.0
    span: tuple[float, float] = SPAN

    @property
    def times(self) -> tuple[float, float]:
        """From when, and until when."""
        return abs(self.late) + self.span[0], abs(self.late) + self.span[1]


@dataclass(frozen=True)
class Proportional(QueueDiscipline):
    """Drops with the probability q/B."""

    most: float = 100.0  # B [packets]
    required_env = frozenset({"random"})

    @property
    def probability_law(self) -> Callable[..., float]:
        return share

    def link_hooks(self) -> dict[str, Any]:
        return {"on_arrival": drop_at_random}


def share(q: float, p: Any) -> float:
    """The share of packets that is dropped."""
    return min(q / p.most, 1.0)


def drop_at_random(link: Any, header: Any, p: Any, env: Any) -> None:
    """... as packets come."""
    congested_at_random(share(env.queue / p.packet_size, p), p, env)


def network(buffer: float, setting: Setting) -> ecc.Network:
    """The dumbbell; delays of sources are drawn in tenths of a millisecond."""
    delay, late = setting.delay, setting.late
    draw = random.Random(1)
    delays = [1e-3 * round(draw.uniform(5.0, 10.0), 1) for _ in range(FLOWS)]
    starts = [max(late, 0.0) if i < FLOWS // 2 else max(-late, 0.0) for i in range(FLOWS)]
    flows = [
        ecc.Flow(route=[0], access_delay=one, packet_size=PACKET, start=start)
        for one, start in zip(delays, starts, strict=True)
    ]
    return ecc.Network([ecc.Link(CAPACITY, delay, buffer=int(buffer * CAPACITY * delay / 8.0))], flows)


def scenario(case: str, buffer: float, setting: Setting, seed: int) -> ecc.Scenario:
    """One point of the grid."""
    first, last = case.split("/")[0], case.split("/")[-1]
    protocol = {"flows": {"0-4": PROTOCOLS[first], "5-9": PROTOCOLS[last]}}
    net = network(buffer, setting)
    if setting.red:
        protocol["links"] = Proportional(packet_size=PACKET, most=net.links[0].buffer / PACKET)
    return ecc.Scenario(net, protocol, setting.times[1], seed=seed)


def measured(run: ecc.Trajectory, buffer: float, since: float) -> list[float]:
    """The numbers of a run, in the order of `FORMATS`."""
    data = run.data.sel(time=slice(since + 0.5 * STEP, None))
    queue = data["queue"].to_numpy()[:, 0]
    arrived, dropped = float(data["arrival"].sum()) * STEP, float(data["drops"].sum()) * 8.0 * PACKET
    served = arrived - dropped - 8.0 * (queue[-1] - queue[0])
    goodput = data["goodput"].mean("time").to_numpy()
    return [
        100.0 * served / (CAPACITY * STEP * len(queue)),
        100.0 * queue.mean() / buffer,
        100.0 * dropped / arrived,
        1e3 * np.abs(np.diff(8.0 * queue / CAPACITY)).mean(),
        goodput.sum() ** 2 / (FLOWS * (goodput**2).sum()),
        100.0 * goodput[: FLOWS // 2].sum() / goodput.sum(),
    ]


def rows(cases: list[str], setting: Setting) -> Iterator[dict[str, str | float]]:
    """Every point, of both engines."""
    for case in cases:
        for buffer in BUFFERS:
            for engine, (simulate, seeds) in ENGINES.items():
                points = [scenario(case, buffer, setting, seed) for seed in seeds]
                found = [
                    measured(simulate(one, sample=STEP), one.network.links[0].buffer, setting.times[0])
                    for one in points
                ]
                yield {
                    "case": case,
                    "buffer": buffer,
                    "engine": engine,
                    **dict(zip(FORMATS, np.mean(found, axis=0), strict=True)),
                }


def figure(kept: list[dict[str, str | float]], path: str) -> None:
    """Loss and queue of one protocol, and shares of two: lines are of the fluid, points of packets."""
    panels = (
        ("loss [%]", "loss", ("BBRv1", "BBRv2", "BBRv3")),
        ("mean queue [% of the buffer]", "queue", ("BBRv1", "BBRv2", "BBRv3")),
        ("share beside Reno [%]", "share", ("BBRv1/Reno", "BBRv2/Reno", "BBRv3/Reno")),
        ("share beside CUBIC [%]", "share", ("BBRv1/CUBIC", "BBRv2/CUBIC", "BBRv3/CUBIC")),
    )
    drawn = make_subplots(rows=2, cols=2, subplot_titles=[title for title, *_ in panels], vertical_spacing=0.16)
    for place, (_, name, cases) in enumerate(panels):
        for case, color in zip(cases, ("#d62728", "#1f77b4", "#2ca02c"), strict=True):
            for engine, mode in (("fluid", "lines"), ("packets", "markers")):
                points = [row for row in kept if (row["case"], row["engine"]) == (case, engine)]
                drawn.add_scatter(
                    x=[row["buffer"] for row in points],
                    y=[row[name] for row in points],
                    mode=mode,
                    line_color=color,
                    name=f"{case}, {engine}",
                    showlegend=place == 0,
                    row=place // 2 + 1,
                    col=place % 2 + 1,
                )
    drawn.update_xaxes(title="buffer [bandwidth-delay products of the link]", row=2)
    drawn.update_yaxes(rangemode="tozero")
    drawn.update_annotations(font_size=13)
    drawn.update_layout(template="plotly_white", margin={"t": 40, "r": 10}, legend={"orientation": "h", "y": -0.15})
    drawn.write_image(path, width=900, height=620, scale=2)


def main() -> None:
    """Run the grid and print a line for each point."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--delay", type=float, default=10.0, help="of the link [ms]")
    asked.add_argument("--red", action="store_true", help="RED instead of drop-tail")
    asked.add_argument("--late", type=float, default=0.0, help="start of the first five flows [s]")
    asked.add_argument("--span", type=float, nargs=2, default=SPAN, help="seconds that are measured, FROM UNTIL")
    asked.add_argument("--csv", help="file for all numbers")
    asked.add_argument("--figure", help="file for the figure")
    asked.add_argument("cases", nargs="*", default=[*THEIRS, *OURS], help="PROTOCOL or PROTOCOL/PROTOCOL")
    given = asked.parse_args()
    for case in given.cases:
        if set(case.split("/")) - set(PROTOCOLS) or case.count("/") > 1:
            asked.error(f"cases must be one or two of {', '.join(PROTOCOLS)}, got {case}")
    if not 0.0 <= given.span[0] < given.span[1]:
        asked.error(f"span must be 0 <= FROM < UNTIL, got {given.span[0]:g} {given.span[1]:g}")
    setting = Setting(given.delay * 1e-3, given.red, given.late, tuple(given.span))
    kept = []
    print(f"{'protocols':18} {'buffer':6} {'engine':8} utiliz.  queue   loss  jitter  Jain  share")
    for row in rows(given.cases, setting):
        kept.append(row)
        numbers = " ".join(format(row[name], width) for name, width in FORMATS.items())
        print(f"{row['case']:18} {row['buffer']:6} {row['engine']:8}{numbers}", flush=True)
    if given.csv:
        with open(given.csv, "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(kept[0]))
            table.writeheader()
            table.writerows(kept)
    if given.figure:
        figure(kept, given.figure)


if __name__ == "__main__":
    main()
