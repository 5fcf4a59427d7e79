"""Data packets per CPU second on fat trees: `python benchmarks/fabrics.py [CASE ...] [--peer PROGRAM] [--repeat N]`.

Fat trees with 128 and 1,024 hosts; links of 100 Gb/s and 1 us, 333 packets of 1500 bytes a port, DCTCP over step
marking at 65 packets, windows that begin with two packets, and ACKs on a pure delay. Permutation: each host sends to
one other. Incast: 127 hosts send to one, in each 128. Flows have no end. The best of N runs counts, ours and each
peer's in turn; CPU seconds are those of the run without its preparation.

A peer is a program outside this tree, called as `PROGRAM HOSTS SECONDS`; `--peer` may be given several times. It reads
lines `SOURCE DESTINATION` from its standard input, sends as above, and ends its output with a line of numbers: data
packets that have arrived, CPU seconds, events, and peak bytes of its memory (VmHWM: ru_maxrss begins at what the caller
has).
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import ecc
from ecc.network.demands import Demand, permutation
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare

PACKET = 1500
CASES = {  # ports of a switch, pattern, duration [s]
    "permutation-128": (8, "permutation", 1e-3),
    "permutation-1024": (16, "permutation", 0.25e-3),
    "incast-128": (8, "incast", 20e-3),
    "incast-1024": (16, "incast", 5e-3),
}
TIMES_A_PEER = {"permutation-1024": 2.0, "incast-1024": 2.0}  # goals: how many times as fast as one
MOST_BYTES_PER_PACKET = {"permutation-1024": 200}  # in an incast, flows have more memory than their few packets
SLICES = 20  # of a run; between them the packets in flight are counted


def demands_of(case: str) -> list[Demand]:
    """Return the flows of a case, between hosts.

    Parameters
    ----------
    case : str
        One of CASES.
    """
    k, pattern, _ = CASES[case]
    n_hosts = k**3 // 4
    if pattern == "permutation":
        return permutation(n_hosts, seed=1, packet_size=PACKET)
    n_receivers = n_hosts // 128
    return [Demand(host, host % n_receivers, packet_size=PACKET) for host in range(n_receivers, n_hosts)]


def scenario_of(k: int, demands: list[Demand], duration: float) -> ecc.Scenario:
    """Return DCTCP on a fat tree.

    Parameters
    ----------
    k : int
        Ports of a switch.
    demands : list of Demand
    duration : float, s
    """
    network = ecc.Network.fat_tree(
        k, demands, "100 Gb/s", "1 us", buffer=333 * PACKET, host_buffer=333 * PACKET, ack_links=False
    )
    deployed = {
        "flows": ecc.models.DCTCP(transport="sack", initial=2),
        "links": ecc.queues.StepMarking(threshold=65, packet_size=PACKET),
    }
    return ecc.Scenario(network, deployed, duration)


def measure(case: str) -> tuple[float, float, float, float]:
    """Return M data packets and M events per CPU second, peak MB of the engine, and bytes of memory a packet in flight.

    These bytes are what the engine holds at its peak beyond what it held before the first packet.

    Parameters
    ----------
    case : str
        One of CASES.
    """
    k, _, duration = CASES[case]
    scenario = scenario_of(k, demands_of(case), duration)
    engine = build_engine(prepare(scenario), scenario)
    before = engine.stats
    in_flight = 0
    for part in range(1, SLICES + 1):
        engine.advance(duration * part / SLICES)
        in_flight = max(in_flight, engine.stats.in_flight)
    engine.verify()
    after = engine.stats
    seconds = after.cpu_seconds - before.cpu_seconds
    return (
        after.data_packets / seconds / 1e6,
        after.events / seconds / 1e6,
        after.peak_bytes / 1e6,
        (after.peak_bytes - before.bytes) / in_flight,
    )


def measure_peer(program: Path, case: str) -> tuple[float, float, float]:
    """Return M data packets and M events per CPU second of a peer, and peak MB of its process.

    Parameters
    ----------
    program : Path
    case : str
        One of CASES.
    """
    k, _, duration = CASES[case]
    pairs = "".join(f"{demand.source} {demand.destination}\n" for demand in demands_of(case))
    call = [program, str(k**3 // 4), repr(duration)]
    done = subprocess.run(call, input=pairs, capture_output=True, text=True, check=True)
    packets, seconds, events, peak = map(float, done.stdout.split("\n")[-2].split())
    return packets / seconds / 1e6, events / seconds / 1e6, peak / 1e6


def main() -> None:
    """Print one row a case and one a peer: the figures and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; all by default")
    parser.add_argument("--peer", type=Path, action="append", default=[], metavar="PROGRAM")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"CASE must be one of {', '.join(CASES)}, got {', '.join(sorted(unknown))}")
    print("case              M packets/CPU s  M events/CPU s  peak [MB]  bytes/packet in flight")
    for case in arguments.cases or CASES:
        ours: list[tuple[float, float, float, float]] = []
        theirs: dict[Path, list[tuple[float, float, float]]] = {peer: [] for peer in arguments.peer}
        for _ in range(arguments.repeat):
            ours.append(measure(case))
            for peer, runs in theirs.items():
                runs.append(measure_peer(peer, case))
        speed, events, peak, each = max(ours)
        print(f"{case:16}  {speed:15.2f}  {events:14.2f}  {peak:9.1f}  {each:.0f}")
        for peer, runs in theirs.items():
            figure, events, peak = max(runs)
            goal = f"; goal {TIMES_A_PEER[case]:.0f}" if case in TIMES_A_PEER else ""
            row = f"  {peer.name:14}  {figure:15.2f}  {events:14.2f}  {peak:9.1f}"
            print(f"{row}  here {speed / figure:.1f} times as many packets{goal}")
        assert each <= MOST_BYTES_PER_PACKET.get(case, each)


if __name__ == "__main__":
    main()
