"""BBR version 1 of ns-3 (`libns3-dev`, g++) and ours: `python benchmarks/bbr.py`.

One flow, packets of 1500 bytes, 20 Mb/s, an RTT of 50 ms, a buffer of four bandwidth-delay products, 25 s. Of 2 to
10 s: goodput [Mb/s of application data], packets in flight, mean queue [packets]; of all: the most in flight, when
Startup has ended (in flight is below three quarters of that), drops, and when no more than five packets are in flight
(ProbeRTT), by samples of 50 ms. Then what two flows of version 3 send again, and what was dropped.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

import ecc
from ecc.models import BBR, BBRv1

CAPACITY, RTT, BUFFER, DURATION, STEP = 20e6, 0.05, 334, 25.0, 0.05
PACKET, DATA = 1500, 1448
MODULES = ("core", "network", "internet", "applications", "point-to-point", "traffic-control")


def ns3() -> np.ndarray:
    """Columns: time, goodput [bit/s], in flight [packets], queue [packets], drops so far."""
    source = Path(__file__).with_name("bbr_ns3.cc")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "bbr_ns3"
        libraries = [f"-lns3-{module}" for module in MODULES]
        subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-o", program, source, *libraries], check=True)
        given = [str(value) for value in (CAPACITY, RTT, BUFFER, DURATION, STEP)]
        done = subprocess.run([program, *given], capture_output=True, text=True, check=True)
    table = np.loadtxt(done.stdout.splitlines())
    return np.column_stack([table[:, 0], table[:, 1], table[:, 2] / DATA, table[:, 4] / PACKET, table[:, 5]])


def ours(protocol: ecc.models.Protocol) -> np.ndarray:
    """The same columns."""
    flow = ecc.Flow(route=[0], access_delay=RTT / 4.0, packet_size=PACKET)
    network = ecc.Network([ecc.Link(CAPACITY, RTT / 4.0, buffer=BUFFER * PACKET)], [flow])
    run = ecc.packet.simulate(ecc.Scenario(network, protocol, duration=DURATION), STEP, record=["env.in_flight"])
    data = run.data
    columns = [data[name].to_numpy()[:, 0] for name in ("goodput", "env.in_flight", "queue", "drops")]
    goodput, in_flight, queue, drops = columns
    return np.column_stack(
        [data["time"], goodput * DATA / PACKET, in_flight / PACKET, queue / PACKET, np.cumsum(drops)]
    )


def row(name: str, table: np.ndarray) -> str:
    """A line of the table."""
    time, goodput, in_flight, queue, drops = table.T
    steady = (time > 2.0) & (time <= 10.0)
    early = in_flight * (time < 2.0)
    peak = int(early.argmax())
    startup = time[peak:][in_flight[peak:] < 0.75 * in_flight[peak]][0]
    low = time[(in_flight <= 5.0) & (time > 1.0)]
    begins = [float(at) for k, at in enumerate(low) if k == 0 or at - low[k - 1] > 1.0]
    spans = ", ".join(f"{at:.2f} to {low[low < at + 1.0].max():.2f}" for at in begins) or "--"
    return (
        f"| {name} | {goodput[steady].mean() / 1e6:.2f} | {in_flight[steady].mean():.1f} | {queue[steady].mean():.1f} "
        f"| {in_flight.max():.0f} | {startup:.2f} | {int(drops[-1])} | {spans} |"
    )


def sent_again(transport: str) -> str:
    """What two flows send again in 40 s, and what is dropped.

    Parameters
    ----------
    transport : str
    """
    network = ecc.Network.dumbbell(CAPACITY, rtts=[0.05, 0.1], buffer=250_000)
    run = ecc.packet.simulate(ecc.Scenario(network, BBR(transport=transport), 40.0), 1.0)
    again, dropped = run.flows["retransmitted"].sum() / 1e6, int(run.drops.sum()) * 1000 / 1e6
    flows = f"Two flows of BBR(transport={transport!r}), RTTs of 50 and 100 ms, buffer 250 kB"
    return f"{flows}: {again:.1f} MB sent again, {dropped:.1f} MB dropped"


def main() -> None:
    """Run them and print the table."""
    print("| | goodput | in flight | queue | most in flight | Startup ends [s] | drops | ProbeRTT [s] |")
    print("|---|---|---|---|---|---|---|---|")
    print(row("ns-3.37, TcpBbr", ns3()), flush=True)
    for name, protocol in (("BBRv1()", BBRv1()), ("BBR()", BBR()), ('BBR(form="google")', BBR(form="google"))):
        print(row(f"`{name}`", ours(protocol)), flush=True)
    for transport in ("rack", "sack"):
        print(sent_again(transport))


if __name__ == "__main__":
    main()
