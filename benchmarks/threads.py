"""A packet run in several threads against the same run in one: `python benchmarks/threads.py [--threads N]`

Chains of links (parking lots), T_u with ten times its capacities and delays, and fat trees of 128 hosts at 1 Gb/s and
of 1,024 at 100 Gb/s, with RCP. Runs in one thread and in N alternate, `--repeat` times; for each case the least wall
time and the least CPU time of either, the ratio of the wall times, and the ratio of the CPU time in one thread to that
of the busiest of N: what N idle cores would give, on a machine where others run too. Digests must agree.

`--paper N...` runs no threads. It counts what each of at most N parts does in each quarter of the least delay, and adds
up a schedule: a part begins what it does next when it has done what was before, and when all others have come so far
that nothing of theirs can arrive there, at the delays from them, `--exchange` s ago. An event takes the CPU time that
it has in one thread, and a packet that enters or leaves 130 ns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import ecc
from ecc.native import Engine
from ecc.network.network import Flow, Link, Network
from ecc.packet.c_engine import build_parts, joints_of
from ecc.packet.partition import CROSSING, EXCHANGE, Joints, partition
from ecc.packet.prepare import prepare
from ecc.scenario import Scenario


def T_u() -> Network:
    """Return T_u with ten times its capacities and delays."""
    return Network(
        [Link("1.55 Gb/s", "10 ms"), Link("6.22 Gb/s", "1 s"), Link("1 Gb/s", "10 ms")],
        [Flow([0, 1])] + [Flow([0, 2]) for _ in range(9)],
    )


def fat_tree(k: int, capacity: str, delay: str) -> Network:
    """Return a fat tree with a flow from each host to one in another pod.

    Parameters
    ----------
    k : int, even
        Ports of a switch.
    capacity, delay : str
        Of all links.
    """
    n_hosts, per_pod = k**3 // 4, k**2 // 4
    pairs = [(host, (host + per_pod * (1 + host % (k - 1))) % n_hosts) for host in range(n_hosts)]
    return Network.fat_tree(k, pairs, capacity, delay, ack_links=False)


CASES = {  # network, duration [s]
    "8 links of 1 Gb/s": (Network.parking_lot(["1 Gb/s"] * 8, "20 ms", packet_size=1500), 4.0),
    "8 links of 100 Mb/s": (Network.parking_lot(["100 Mb/s"] * 8, "20 ms", packet_size=1500), 20.0),
    "64 links of 1 Gb/s": (Network.parking_lot(["1 Gb/s"] * 64, "20 ms", packet_size=1500), 0.5),
    "T_u, 10 times": (T_u(), 4.0),
    "fat tree, 1 Gb/s": (fat_tree(8, "1 Gb/s", "5 us"), 0.05),
    "fat tree, 100 Gb/s": (fat_tree(16, "100 Gb/s", "1 us"), 0.0005),
}


def measure(network: Network, duration: float, threads: int) -> tuple[float, float, float, int]:
    """Return wall time, CPU time of all threads and of the busiest [s], and the digest of a run.

    Parameters
    ----------
    network : Network
    duration : float, s
    threads : int
    """
    run = ecc.packet.Run(Scenario(network, ecc.models.RCP(), duration), threads=threads)
    began = time.perf_counter()
    run.advance()
    wall = time.perf_counter() - began
    parts = getattr(run._engine, "cpu_seconds_of_parts", [run._engine.stats.cpu_seconds])
    return wall, sum(parts), max(parts), run._engine.stats.digest


def compare(threads: int, repeat: int) -> None:
    """Print one row a case.

    Parameters
    ----------
    threads, repeat : int
    """
    print("case                   wall 1 [s]  wall N [s]  ratio  CPU 1 [s]  CPU N [s]  CPU 1 / busiest of N")
    for name, (network, duration) in CASES.items():
        runs = [[measure(network, duration, n) for n in (1, threads)] for _ in range(repeat)]
        assert len({run[3] for pair in runs for run in pair}) == 1
        (wall, cpu, _), (walls, cpus, busiest) = (
            [min(pair[k][i] for pair in runs) for i in range(3)] for k in range(2)
        )
        of_one, of_several = f"{wall:10.2f}  {walls:10.2f}  {wall / walls:5.2f}", f"{cpu:9.2f}  {cpus:9.2f}"
        print(f"{name:22} {of_one}  {of_several}  {cpu / busiest:20.2f}")


def stretches(
    engines: Sequence[Engine], delays: NDArray[np.float64], duration: float, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the events of each part in each stretch, and the packets that enter or leave it; shapes (n_stretches, n).

    Parameters
    ----------
    engines : sequence of Engine
        Of all parts.
    delays : ndarray, s, shape (n, n)
        From part to part, inf where nothing crosses. A stretch is a quarter of the least.
    duration : float, s
    size : int
        Bytes of a packet that leaves.
    """
    events, crossings = [], []
    length = float(delays.min()) / 4.0
    for end in np.append(np.arange(length, duration, length) - 1e-12, duration):
        before = [engine.stats.events for engine in engines]
        for engine in engines:
            engine.advance(float(end))
        events.append([engine.stats.events - n for engine, n in zip(engines, before, strict=True)])
        moved = np.zeros(len(engines), np.int64)
        for a, b in np.argwhere(delays < np.inf):
            leaving = engines[a].take_leaving(int(b))
            engines[b].enter(leaving)
            moved[[a, b]] += len(leaving) // size
        crossings.append(moved)
    return np.array(events), np.array(crossings)


def schedule(work: NDArray[np.float64], delays: NDArray[np.float64], exchange: float) -> float:
    """Return how long all parts take, each in a thread that nothing else disturbs [s].

    Parameters
    ----------
    work : ndarray, s, shape (n_stretches, n)
    delays : ndarray of int, shape (n, n)
        From part to part, in stretches; 0 where nothing crosses.
    exchange : float, s
    """
    done = np.zeros_like(work)
    pairs = [(np.flatnonzero(delays[:, b]), delays[delays[:, b] > 0, b]) for b in range(work.shape[1])]
    for k, each in enumerate(work):
        for b, (others, lags) in enumerate(pairs):
            known = others[lags <= k]
            heard = float(done[k - lags[lags <= k], known].max(initial=-exchange)) + exchange
            done[k, b] = max(done[k - 1, b] if k else 0.0, heard) + each[b]
    return float(done[-1].max())


def delays_between(of: Joints, parts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the least delays from part to part [s], inf where nothing crosses; shape (n, n).

    Parameters
    ----------
    of : Joints
    parts : ndarray of int
        Of all nodes.
    """
    n = int(parts.max()) + 1
    out = np.full((n, n), np.inf)
    begins, ends = parts[of.begins], parts[of.ends]
    crosses = begins != ends
    np.minimum.at(out, (begins[crosses], ends[crosses]), of.delays[crosses] * 1e-12)
    return out


def paper(n_parts: Sequence[int], exchange: float) -> None:
    """Print the schedule of each case on so many cores.

    Parameters
    ----------
    n_parts : sequence of int
    exchange : float, s
    """
    print("case                   cores  parts  least delay [s]  events a delay  busiest / mean  speed-up")
    for name, (network, duration) in CASES.items():
        cost = min(_cost(network, duration) for _ in range(3))
        for n in n_parts:
            scenario = Scenario(network, ecc.models.RCP(), duration)
            setup = prepare(scenario)
            of = joints_of(setup)
            parts, _ = partition(of, n, setup.links[: setup.n_links], setup.flows)
            n_found = int(parts.max()) + 1
            engines, _, _ = build_parts([setup] * n_found, scenario, of, parts, sample=duration, n_samples=1)
            if n_found == 1:
                print(f"{name:22} {n:5}  {1:5}  (more would be slower)")
                continue
            delays = delays_between(of, parts)
            events, crossings = stretches(engines, delays, duration, 48 + setup.header_size)
            lags = np.where(np.isinf(delays), 0.0, np.floor(4.0 * delays / delays.min() + 1e-9)).astype(int)
            total = schedule(events * cost + crossings * CROSSING, lags, exchange)
            balance = events.sum(axis=0).max() / events.sum(axis=0).mean()
            print(
                f"{name:22} {n:5}  {n_found:5}  {delays.min():15.6f}  {4 * events.sum() / len(events):14.0f}"
                f"  {balance:14.2f}  {events.sum() * cost / total:8.2f}"
            )


def _cost(network: Network, duration: float) -> float:
    """CPU seconds an event, in one thread."""
    run = ecc.packet.Run(Scenario(network, ecc.models.RCP(), duration)).advance()
    return run._engine.stats.cpu_seconds / run._engine.stats.events


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--paper", type=int, nargs="+", metavar="N")
    parser.add_argument("--exchange", type=float, default=EXCHANGE, help="s")
    arguments = parser.parse_args()
    if arguments.paper:
        paper(arguments.paper, arguments.exchange)
    else:
        compare(arguments.threads, arguments.repeat)


if __name__ == "__main__":
    main()
