"""The kernel's TCP through our router, and our hosts: `python benchmarks/real_tcp.py [--duration S] [reno cubic bbr]`.

One flow, packets of 1500 bytes, delayed ACKs, 20 Mb/s, an RTT of 50 ms, a buffer of one bandwidth-delay product. The
kernel runs live, on the real clock, our hosts in the packet engine. From 5 s on: goodput [Mb/s of application data: of
our packets those bytes that are no headers in TCP's], mean queue [kB] and, of the kernel's, the mean RTT beside that
queue [ms] (ours: 50.6, both ways and the time in which a packet is sent). Loss events are drops 0.5 s apart.
"""

from __future__ import annotations

import argparse
import sys

import ecc
from ecc.live import TCP
from ecc.models import CUBIC, BBRv1, NewReno

SAMPLE, SETTLED, APART = 0.05, 5.0, 0.5  # s
CAPACITY = 20e6  # bit/s
DATA = 1448 / 1500  # of a packet with timestamps
OURS = {
    "reno": {"NewReno(transport='sack')": NewReno(transport="sack"), "NewReno()": NewReno()},
    "cubic": {"CUBIC(slow_start='hystart++')": CUBIC(slow_start="hystart++"), "CUBIC()": CUBIC()},
    "bbr": {"BBRv1()": BBRv1()},
}


def loss_events(run: ecc.Trajectory) -> list[float]:
    """When drops began that come at least APART after the ones before."""
    drops = run.data["drops"].to_numpy()[:, 0]
    times = run.data["time"].to_numpy()[drops > 0]
    return [float(at) for k, at in enumerate(times) if k == 0 or at - times[k - 1] > APART]


def row(name: str, run: ecc.Trajectory, share: float) -> str:
    """A line of the table."""
    late = run.data.sel(time=slice(SETTLED, None))
    goodput = share * float(late["goodput"][:, 0].mean()) / 1e6
    queue = float(late["queue_mean"][:, 0].mean()) / 1e3
    rtt = f"{1e3 * (float(late['tcp_rtt'][:, 0].mean()) - queue * 8e3 / CAPACITY):.1f}" if "tcp_rtt" in late else ""
    events = " ".join(f"{at:.1f}" for at in loss_events(run))
    drops = int(run.data["drops"][:, 0].sum())
    return f"| {name} | {goodput:.2f} | {queue:.1f} | {rtt} | {drops} | {events} |"


def main() -> None:
    """Run them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("controls", nargs="*", default=list(OURS))
    parser.add_argument("--duration", type=float, default=40.0)
    given = parser.parse_args()
    flow = ecc.Flow(route=[0], access_delay=0.0125, packet_size=1500, delayed_acks=(2, 0.04))
    network = ecc.Network([ecc.Link(CAPACITY, 0.0125, buffer=125_000)], [flow])
    print("| | goodput | mean queue | RTT beside it | drops | loss events [s] |\n|---|---|---|---|---|---|")
    for control in given.controls:
        scenario = ecc.Scenario(network, NewReno(), duration=given.duration)
        live = ecc.live.simulate(scenario, SAMPLE, traffic=[TCP(control)], clock="real", lateness="20 ms", attempts=2)
        why = live.stats["void"]
        print(row(f"Linux, {control}" + (f" (void: {why})" if why else ""), live, 1.0), flush=True)
        for name, protocol in OURS[control].items():
            ours = ecc.packet.simulate(scenario.with_(protocol=protocol), SAMPLE)
            print(row(name, ours, DATA), flush=True)


if __name__ == "__main__":
    sys.exit(main())
