"""The kernel's TCP through our router, and our hosts: `python benchmarks/real_tcp.py [--duration S] [reno cubic bbr]`.

One flow, packets of 1500 bytes, delayed ACKs, 20 Mb/s, an RTT of 50 ms, a buffer of one bandwidth-delay product. The
kernel runs live, on the real clock, our hosts in the packet engine; BBRv1 also with ACKs that come up to so many
milliseconds later (Jitter). From 5 s on: goodput [Mb/s of application data: of our packets those bytes that are no
headers in TCP's], mean queue [kB], packets in flight, and of the kernel's the mean RTT beside that queue [ms] (ours:
50.6, both ways and the time in which a packet is sent). Loss events are drops 0.5 s apart; ProbeRTT is where a window
of BBR is at most four packets after 2 s. Behind the kernel's: by how much the latest frame in a hundred was late [ms],
and the load of the system. `--figure FILE` writes the windows of docs/real_tcp.md.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from plotly.subplots import make_subplots

import ecc
from ecc.impairments import Jitter
from ecc.live import TCP
from ecc.models import CUBIC, BBRv1, NewReno

SAMPLE, SETTLED, APART = 0.05, 5.0, 0.5  # s
CAPACITY = 20e6  # bit/s
PACKET = 1500
DATA = 1448 / PACKET  # of a packet with timestamps
OURS = {
    "reno": {"NewReno(transport='sack')": NewReno(transport="sack"), "NewReno()": NewReno()},
    "cubic": {"CUBIC(slow_start='hystart++')": CUBIC(slow_start="hystart++"), "CUBIC()": CUBIC()},
    "bbr": {"BBRv1()": BBRv1()},
}
LATE = (1e-3, 5e-3)  # s: ACKs of BBRv1


def starts(times: np.ndarray) -> list[float]:
    """Times that come at least APART after the ones before."""
    return [float(at) for k, at in enumerate(times) if k == 0 or at - times[k - 1] > APART]


def window(run: ecc.Trajectory) -> np.ndarray:
    """Of a sender [packets of what it sends]."""
    name, size = ("tcp_window", DATA * PACKET) if "tcp_window" in run.data else ("env.window", PACKET)
    return run.data[name].to_numpy()[:, 0] / size


def row(name: str, run: ecc.Trajectory) -> str:
    """A line of the table."""
    is_live = "tcp_window" in run.data
    late, time = run.data.sel(time=slice(SETTLED, None)), run.data["time"].to_numpy()
    goodput = (1.0 if is_live else DATA) * float(late["goodput"][:, 0].mean()) / 1e6
    queue = float(late["queue_mean"][:, 0].mean()) / 1e3
    rtt = f"{1e3 * (float(late['tcp_rtt'][:, 0].mean()) - queue * 8e3 / CAPACITY):.1f}" if is_live else ""
    drops = run.data["drops"].to_numpy()[:, 0]
    events = " ".join(f"{at:.1f}" for at in starts(time[drops > 0]))
    sent, size = ("tcp_in_flight", DATA * PACKET) if is_live else ("env.in_flight", PACKET)
    in_flight = float(late[sent][:, 0].mean()) / size
    probes = (
        " ".join(f"{at:.1f}" for at in starts(time[(window(run) < 4.5) & (time > 2.0)]))
        if "bbr" in name.lower()
        else ""
    )
    how = f"{1e3 * run.stats['lateness_p99']:.1f}, {run.stats['load']:.0f}" if is_live else ""
    return (
        f"| {name} | {goodput:.2f} | {queue:.1f} | {in_flight:.0f} | {rtt} | {int(drops.sum())} | {events} | {probes} "
        f"| {how} |"
    )


def figure(runs: dict[str, dict[str, ecc.Trajectory]], path: str) -> None:
    """Windows over time, a panel for each congestion control."""
    drawn = make_subplots(rows=len(runs), shared_xaxes=True, vertical_spacing=0.06, subplot_titles=list(runs))
    for place, (control, of) in enumerate(runs.items(), 1):
        for name, color in zip(of, ("#d62728", "#1f77b4"), strict=False):
            run = of[name]
            drawn.add_scatter(
                x=run.data["time"], y=window(run), line_color=color, row=place, col=1, showlegend=place == 1,
                name="Linux" if name.startswith("Linux") else "ecc",
            )  # fmt: skip
        drawn.update_yaxes(title=f"{control} [packets]", rangemode="tozero", row=place)
    drawn.update_xaxes(title="time [s]", row=len(runs))
    drawn.update_layout(template="plotly_white", margin={"t": 40, "r": 10}, legend={"orientation": "h", "y": 1.1})
    drawn.write_image(path, width=900, height=200 * len(runs) + 60)


def main() -> None:
    """Run them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("controls", nargs="*", default=list(OURS), help=", ".join(OURS))
    parser.add_argument("--duration", type=float, default=40.0)
    parser.add_argument("--figure", help="file for the figure")
    given = parser.parse_args()
    if unknown := set(given.controls) - set(OURS):
        parser.error(f"controls must be among {', '.join(OURS)}, got {', '.join(sorted(unknown))}")
    flow = ecc.Flow(route=[0], access_delay=0.0125, packet_size=PACKET, delayed_acks=(2, 0.04))
    network = ecc.Network([ecc.Link(CAPACITY, 0.0125, buffer=125_000)], [flow])
    print(
        "| | goodput | mean queue | in flight | RTT beside it | drops | loss events [s] | ProbeRTT [s] | late, load |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    runs: dict[str, dict[str, ecc.Trajectory]] = {}
    record = ["env.window", "env.in_flight"]
    for control in given.controls:
        of = runs.setdefault(control, {})
        scenario = ecc.Scenario(network, NewReno(), duration=given.duration)
        live = ecc.live.simulate(scenario, SAMPLE, traffic=[TCP(control)], clock="real", lateness="20 ms", attempts=2)
        why = live.stats["void"]
        of[f"Linux, {control}" + (f" (void: {why})" if why else "")] = live
        for name, protocol in OURS[control].items():
            of[name] = ecc.packet.simulate(scenario.with_(protocol=protocol), SAMPLE, record=record)
        for late in LATE if control == "bbr" else ():
            jitter = scenario.with_(protocol=BBRv1(), impairments=[Jitter((0.0, late), acks_of="all")])
            of[f"BBRv1(), ACKs up to {1e3 * late:g} ms late"] = ecc.packet.simulate(jitter, SAMPLE, record=record)
        for name, run in of.items():
            print(row(name, run), flush=True)
    if given.figure:
        figure(runs, given.figure)


if __name__ == "__main__":
    sys.exit(main())
