"""A packet run in several threads against the same run in one: `python benchmarks/parts.py [--threads N] [--repeat N]`

Chains of links (parking lots) and T_u scaled up, with RCP. Runs in one thread and in N alternate; for each case the
least wall time and the least CPU time of either, the ratio of the wall times, and the ratio of the CPU time in one
thread to that of the busiest of N: what N idle cores would give, on a machine where others run too. Digests must agree.
"""

from __future__ import annotations

import argparse
import time

import ecc

CASES = {  # network, duration [s]
    "8 links of 1 Gb/s": (ecc.Network.parking_lot(["1 Gb/s"] * 8, "20 ms", packet_size=1500), 4.0),
    "8 links of 100 Mb/s": (ecc.Network.parking_lot(["100 Mb/s"] * 8, "20 ms", packet_size=1500), 20.0),
    "T_u, 10 times": (ecc.Network.T_u(scale=10.0, join_at=1.0), 10.0),
}


def measure(network: ecc.Network, duration: float, threads: int) -> tuple[float, float, float, int]:
    """Return wall time, CPU time of all threads and of the busiest [s], and the digest of a run.

    Parameters
    ----------
    network : Network
    duration : float, s
    threads : int
    """
    run = ecc.packet.Run(ecc.Scenario(network, ecc.models.RCP(), duration), threads=threads)
    began = time.perf_counter()
    run.advance()
    wall = time.perf_counter() - began
    parts = getattr(run._engine, "cpu_seconds_of_parts", [run._engine.stats.cpu_seconds])
    return wall, sum(parts), max(parts), run._engine.stats.digest


def main() -> None:
    """Print one row a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    print("case                   wall 1 [s]  wall N [s]  ratio  CPU 1 [s]  CPU N [s]  CPU 1 / busiest of N")
    for name, (network, duration) in CASES.items():
        runs = [[measure(network, duration, n) for n in (1, arguments.threads)] for _ in range(arguments.repeat)]
        assert len({run[3] for pair in runs for run in pair}) == 1
        (wall, cpu, _), (walls, cpus, busiest) = (
            [min(pair[k][i] for pair in runs) for i in range(3)] for k in range(2)
        )
        of_one, of_several = f"{wall:10.2f}  {walls:10.2f}  {wall / walls:5.2f}", f"{cpu:9.2f}  {cpus:9.2f}"
        print(f"{name:22} {of_one}  {of_several}  {cpu / busiest:20.2f}")


if __name__ == "__main__":
    main()
