"""What runs of the packet engine cost: `python benchmarks/packet_runs.py [transfers | threads]`.

transfers: a million short transfers over one link, some 100 of them alive at a time: transfers per CPU second, and the
most memory that the engine held, beside that of a tenth of them. threads: two runs one after the other and in two
threads: how many times faster; the machine must have two idle cores.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ThreadPoolExecutor

import ecc


def transfers(count: int) -> None:
    """Print one row: what so many transfers cost.

    Parameters
    ----------
    count : int
        About how many.
    """
    network = ecc.Network.dumbbell("1 Gb/s", rtts=["40 ms"], sizes=[1000])
    arrivals = ecc.Arrivals([0], "0.8 ms", 3_000, distribution="exponential", count=count)
    scenario = ecc.Scenario(network, ecc.models.RCP(), 0.00082 * count, workload=ecc.Workload([], [arrivals]))
    run = ecc.packet.Run(scenario, sample=1.0, flows_to="/dev/null").advance()
    stats = run.trajectory().stats
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{stats['transfers']:>9,} transfers  {stats['transfers'] / stats['cpu_seconds']:>9,.0f} per CPU s  "
        f"engine at most {stats['peak_bytes'] / 1e3:,.0f} kB  process {rss:,.0f} MB"
    )


def threads(duration: float = 20.0) -> None:
    """Print how many times faster two runs are in two threads.

    Parameters
    ----------
    duration : float, s, optional
        Of a run.
    """
    network = ecc.Network.dumbbell("1 Gb/s", rtts=[0.05] * 10, packet_size=1500)
    scenario = ecc.Scenario(network, ecc.models.RCP(), duration)

    def run(_: int) -> int:
        return int(ecc.packet.simulate(scenario, sample=1.0, start="equilibrium").stats["digest"])

    run(0)
    began = time.perf_counter()
    alone = [run(k) for k in range(2)]
    middle = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, range(2)))
    end = time.perf_counter()
    assert len({*alone, *together}) == 1
    print(
        f"two runs: {middle - began:.2f} s one after the other, {end - middle:.2f} s in two threads, "
        f"{(middle - began) / (end - middle):.2f} times as fast (goal 1.9)"
    )


def main() -> None:
    """Run what is requested, or both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=["transfers", "threads", []])
    which = parser.parse_args().which or ["transfers", "threads"]
    if "transfers" in which:
        for count in (100_000, 1_000_000):
            transfers(count)
    if "threads" in which:
        threads()


if __name__ == "__main__":
    main()
