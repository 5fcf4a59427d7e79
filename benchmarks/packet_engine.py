"""Data packets per CPU second of the packet engine: `python benchmarks/packet_engine.py [CASE ...] [--repeat N]`.

S1: 10 flows over 1 Gb/s, 50 ms. S2: 1,000 flows over 1 Gb/s, 20-220 ms. S3: 100,000 flows over 100 Gb/s, 20-220 ms.
1500-byte packets, flows at the equilibrium. Each is run with RCP's compiled hooks, and bare: the same flows at fixed
rates, without hooks; S1 and S2 with XCP's too (windows, sent in bursts), S1 with NewReno's (from its start, with a
buffer of one bandwidth-delay product), and, where they are installed, with those of ns-2 and ns-3 (Debian's `ns2`,
`libns3-dev`), in turns with ours. The best of N runs counts; CPU seconds are those inside the engine, after a first
stretch in which the pipes fill, and for ns-2 those of a long run less those of its first stretch. NewReno's flows run
over RED that marks, and in S2 over deficit round robin with 100 queues, too. Of ns-3 a shorter stretch is measured, in
which it loses nothing; Debian's libraries keep its logging, switched off, in the code.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ecc
from ecc.native import FLOW_HOOKS, LINK_HOOKS, Engine
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.queues import DRR, RED

sys.path.append(str(Path(__file__).parents[1] / "tests" / "oracle"))
import ns2  # noqa: E402

CASES = {  # capacity [bit/s], RTTs [s], warm-up and measured stretch [s]
    "S1": (1e9, np.full(10, 0.05), 1.0, 20.0),
    "S2": (1e9, np.linspace(0.02, 0.22, 1000), 1.0, 20.0),
    "S3": (1e11, np.linspace(0.02, 0.22, 100_000), 0.3, 0.6),
}
GOALS = {"S1": 12.0, "S2": 6.0, "S3": 1.0}  # M data packets per CPU second, with RCP
PEERS = {  # how many times as fast as these
    ("S1", "XCP"): {"ns-2": 8.0},
    ("S2", "XCP"): {"ns-2": 8.0},
    ("S1", "NewReno"): {"ns-2": 7.0, "ns-3": 250.0},
}
QUEUES = {"S1": ("RED",), "S2": ("RED", "DRR")}  # NewReno's over these
WINDOWS = ("NewReno", "RED", "DRR")
NEWRENO_WARM_UP = 10.0  # s: slow start and its losses
NS3_SPAN = (1.0, 4.0)  # s: its slow start loses nothing
NS3_SOURCE = Path(__file__).with_name("ns3.cc")
NS3_MODULES = ("applications", "internet", "point-to-point", "traffic-control", "network", "core")
MOST_BYTES_PER_PACKET, MOST_BYTES_PER_FLOW = 200, 1024


def network_of(case: str, hooks: str) -> ecc.Network:
    """Return the network of a case.

    Parameters
    ----------
    case : str
        "S1", "S2" or "S3".
    hooks : str
        See engine_of.
    """
    capacity, rtts, _, _ = CASES[case]
    buffer = int(capacity * rtts.mean() / 8.0) // 1500 * 1500 if hooks in WINDOWS else None
    return ecc.Network.dumbbell(capacity, rtts=rtts, packet_size=1500, buffer=buffer)


def span_of(case: str, hooks: str) -> tuple[float, float]:
    """Return how long the pipes fill, and when the run ends [s].

    Parameters
    ----------
    case, hooks : str
        See engine_of.
    """
    _, _, warm_up, measured = CASES[case]
    begin = NEWRENO_WARM_UP if hooks in WINDOWS else warm_up
    return begin, begin + measured


def engine_of(case: str, hooks: str) -> Engine:
    """Return the engine of a case, ready to run.

    Parameters
    ----------
    case : str
        "S1", "S2" or "S3".
    hooks : str
        "RCP", "XCP", "NewReno", this over "RED" or "DRR", or "none": flows keep the rates of the equilibrium.
    """
    capacity, rtts, _, _ = CASES[case]
    newreno = ecc.models.NewReno(initial=2, ecn=hooks == "RED")
    protocol = {"XCP": ecc.models.XCP()}.get(hooks, newreno if hooks in WINDOWS else ecc.models.RCP())
    disciplines = {
        "RED": RED(mark=True, packet_size=1500, min_threshold=50, max_threshold=150),
        "DRR": DRR(weights=(1.0,) * 100),
    }
    deployed = {"flows": {"default": protocol}, "links": {0: disciplines[hooks]}} if hooks in disciplines else protocol
    scenario = ecc.Scenario(network_of(case, hooks), deployed, duration=span_of(case, hooks)[1], seed=1)
    setup = prepare(scenario, start="equilibrium" if protocol.equilibrium_is_static else "empty")
    setup.flows["opening_size"] = 0  # whole packets from the start
    if hooks != "none":
        return build_engine(setup, scenario)
    for table, names in ((setup.links, LINK_HOOKS), (setup.flows, FLOW_HOOKS)):
        for name in names:
            table[name] = 0
    setup.links["first_interval"] = -1
    setup.flows["rate"] = capacity / len(rtts) * (1.0 - 1e-6)
    setup.flows["bottleneck"] = -1
    return Engine(setup.links, setup.flows, setup.routes)


def measure(case: str, hooks: str) -> tuple[float, float, float]:
    """Return M data packets per CPU second, events per data packet, and bytes of memory beyond 1 KiB a flow per packet.

    Parameters
    ----------
    case, hooks : str
        See engine_of.
    """
    begin, end = span_of(case, hooks)
    engine = engine_of(case, hooks)
    engine.advance(begin)
    before = engine.stats
    engine.advance(end)
    after = engine.stats
    engine.verify()
    packets = after.data_packets - before.data_packets
    beyond = max(after.peak_bytes - MOST_BYTES_PER_FLOW * len(CASES[case][1]), 0) / after.in_flight
    return (
        packets / (after.cpu_seconds - before.cpu_seconds) / 1e6,
        (after.events - before.events) / packets,
        beyond,
    )


def measure_ns2(case: str, hooks: str) -> float:
    """Return M data packets per CPU second of ns-2's XCP or NewReno.

    Parameters
    ----------
    case : str
        "S1" or "S2".
    hooks : str
        "XCP" or "NewReno".
    """
    network, ends = network_of(case, hooks), span_of(case, hooks)
    options = {"agents": ns2.NEWRENO, "window": 10_000, "rto": 1.0, "tick": 0.001} if hooks == "NewReno" else {}
    short, long = (ns2.run(network, end, end, look=end, **options) for end in ends)
    packets = long.rate.sum() * ends[1] - short.rate.sum() * ends[0]
    return float(packets / 12_000.0 / (long.cpu_seconds - short.cpu_seconds) / 1e6)


@functools.cache
def ns3_program() -> Path | None:
    """Return ns-3's NewReno, compiled; None without a compiler or the headers of ns-3."""
    compiler = shutil.which("c++")
    if compiler is None or not Path("/usr/include/ns3/core-module.h").exists():
        return None
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    program = Path(directory) / "ns3"
    libraries = [f"-lns3-{module}" for module in NS3_MODULES]
    subprocess.run([compiler, "-O3", "-o", program, NS3_SOURCE, *libraries], check=True)
    return program


def measure_ns3(case: str, hooks: str) -> float:
    """Return M data packets per CPU second of ns-3's NewReno.

    Parameters
    ----------
    case : str
        "S1".
    hooks : str
        "NewReno".
    """
    capacity, rtts, _, _ = CASES[case]
    buffer = network_of(case, hooks).links[0].buffer
    assert buffer is not None
    given = (int(capacity), rtts[0], len(rtts), buffer // 1500, *NS3_SPAN)
    done = subprocess.run([str(ns3_program()), *map(str, given)], capture_output=True, text=True, check=True)
    packets, seconds = map(float, done.stdout.split())
    assert packets > 0.99 * (NS3_SPAN[1] - NS3_SPAN[0]) * capacity / 12_016.0  # frames of 1502 bytes; the link is full
    return packets / seconds / 1e6


def peers_of(case: str, hooks: str) -> dict[str, Callable[[str, str], float]]:
    """Return how the peers of a case are measured that are installed.

    Parameters
    ----------
    case, hooks : str
        See engine_of.
    """
    ready = {"ns-2": ns2.installed, "ns-3": "ns-3" in PEERS.get((case, hooks), {}) and ns3_program() is not None}
    measures = {"ns-2": measure_ns2, "ns-3": measure_ns3}
    for name in PEERS.get((case, hooks), {}):
        if not ready[name]:
            print(f"{case:4}  {hooks:7}  {name} is not installed: left out")
    return {name: measures[name] for name in PEERS.get((case, hooks), {}) if ready[name]}


def main() -> None:
    """Print one row a case and one a peer: the figure, the goal and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="S1, S2 or S3; all by default")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"CASE must be one of {', '.join(CASES)}, got {', '.join(sorted(unknown))}")
    print("case  hooks    M packets/CPU s  goal  ratio  events/packet  bytes/packet beyond 1 KiB a flow")
    for case in arguments.cases or CASES:
        for hooks in ("RCP", *(hooks for of, hooks in PEERS if of == case), *QUEUES.get(case, ()), "none"):
            peers = peers_of(case, hooks)
            runs, theirs = [], {name: 0.0 for name in peers}
            for _ in range(arguments.repeat):
                runs.append(measure(case, hooks))
                for name, measure_peer in peers.items():
                    theirs[name] = max(theirs[name], measure_peer(case, hooks))
            speed, events, beyond = max(runs)
            goal = f"{GOALS[case]:4.1f}  {speed / GOALS[case]:5.2f}" if hooks == "RCP" else "   -      -"
            print(f"{case:4}  {hooks:7}  {speed:15.2f}  {goal}  {events:13.2f}  {beyond:.0f}")
            for name, figure in theirs.items():
                times = PEERS[case, hooks][name]
                print(f"{case:4}    of {name} {figure:15.3f}, here {speed / figure:.1f} times that; goal {times:.0f}")
            if hooks not in QUEUES.get(
                case, ()
            ):  # over these, more packets are in flight in slow start than at the end
                assert beyond <= MOST_BYTES_PER_PACKET


if __name__ == "__main__":
    main()
