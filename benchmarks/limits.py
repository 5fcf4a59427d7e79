"""What bounds the speed of the packet engine: `python benchmarks/limits.py`.

S1, S2 and a tenth of S3 of packet_engine.py, each bare (fixed rates without hooks) and with RCP's hooks, and S1 with
NewReno's; BBR with 1,000 and 10,000 flows, each with 1 Mb/s and an RTT of 20 to 220 ms; and DCTCP on fat trees of
switches with 8 and 24 ports, each host sending to another one. Callgrind counts instructions, mispredicted branches and
misses of a first and a second level of cache (48 KiB and 1 MiB: change LEVELS for another processor), each per data
packet; memory that is fetched in advance counts as missed. The times are CPU times without valgrind, the minimum of
three runs. Needs valgrind with its headers and a C compiler.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import ecc
from ecc.native import Engine
from ecc.network.demands import permutation
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare

sys.path.append(str(Path(__file__).parent))
import fabrics  # noqa: E402
import packet_engine  # noqa: E402
from cost_per_packet import callgrind_library  # noqa: E402

CASES = [  # case of packet_engine.py, hooks, warm-up, stretch under valgrind and stretch that is timed [s]
    ("S1", "none", 0.1, 0.3, 20.0),
    ("S1", "RCP", 0.1, 0.3, 10.0),
    ("S1", "NewReno", 10.0, 0.3, 20.0),
    ("S2", "none", 0.25, 0.3, 10.0),
    ("S2", "RCP", 0.25, 0.3, 5.0),
    ("S3", "none", 0.25, 0.02, 0.4),
    ("S3", "RCP", 0.25, 0.02, 0.4),
    ("1,000 flows", "BBR", 0.6, 0.1, 2.0),
    ("10,000 flows", "BBR", 0.6, 0.01, 0.4),
    ("8 ports", "DCTCP", 4e-5, 2e-5, 4e-4),
    ("24 ports", "DCTCP", 4e-5, 8e-6, 3e-5),
]
FEWER = {"S3": 10}  # times less capacity and fewer flows
LEVELS = ["--I1=32768,8,64", "--D1=49152,12,64", "--LL=1048576,16,64"]
ALL = dict(packet_engine.CASES)


def bbr(n_flows: int, duration: float) -> Engine:
    """Return an engine of BBR over one link, with a buffer of a bandwidth-delay product."""
    rtts = np.linspace(0.02, 0.22, n_flows)
    buffer = int(n_flows * 1e6 * rtts.mean() / 8.0) // 1500 * 1500
    network = ecc.Network.dumbbell(n_flows * 1e6, rtts=rtts, packet_size=1500, buffer=buffer)
    scenario = ecc.Scenario(network, ecc.models.BBR(), duration, seed=1)
    return build_engine(prepare(scenario), scenario)


def engine_of(case: str, hooks: str, warm_up: float, stretch: float) -> Engine:
    """Return the engine of a case."""
    size = int(case.split()[0].replace(",", "")) if " " in case else 0
    if hooks == "BBR":
        return bbr(size, warm_up + stretch)
    if hooks == "DCTCP":
        scenario = fabrics.scenario_of(size, permutation(size**3 // 4, seed=1, packet_size=1500), warm_up + stretch)
        return build_engine(prepare(scenario), scenario)
    capacity, rtts, *_ = ALL[case]
    k = FEWER.get(case, 1)
    packet_engine.CASES[case] = (capacity / k, rtts[::k], warm_up, stretch)
    packet_engine.NEWRENO_WARM_UP = warm_up
    return packet_engine.engine_of(case, hooks)


def run(under_valgrind: bool) -> list[tuple[int, int, float]]:
    """Return data packets, events and CPU time [s] of the measured stretch of each case."""
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        callgrind = callgrind_library(Path(folder))
        for case, hooks, warm_up, counted, timed in CASES:
            stretch = counted if under_valgrind else timed
            engine = engine_of(case, hooks, warm_up, stretch)
            engine.advance(warm_up)
            before = engine.stats
            callgrind.start()
            engine.advance(warm_up + stretch)
            callgrind.stop()
            after = engine.stats
            counts = after.data_packets - before.data_packets, after.events - before.events
            measured.append((*counts, after.cpu_seconds - before.cpu_seconds))
    return measured


def counts(file: Path) -> dict[str, int]:
    """Return the counts of a file of callgrind, by the names of its events."""
    lines = [line.split() for line in file.read_text(errors="replace").splitlines()]
    names = next(line[1:] for line in lines if line[:1] == ["events:"])
    values = next(line[1:] for line in lines if line[:1] in (["summary:"], ["totals:"]))
    return dict(zip(names, map(int, values), strict=False))


def main() -> None:
    """Print one line per case."""
    code = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import json, limits; "
    command = [sys.executable, "-P", "-c", code + "print(json.dumps(limits.run(sys.argv[1] == 'valgrind')))"]
    generic = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}  # valgrind lacks some instructions
    read = partial(subprocess.run, stdout=subprocess.PIPE, text=True, check=True)
    timed = [json.loads(read([*command, "alone"]).stdout) for _ in range(3)]
    read([*command, "valgrind"], env=generic)  # compiles hooks
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--tool=callgrind", "-q", "--instr-atstart=no", "--cache-sim=yes", "--branch-sim=yes"]
        valgrind += [*LEVELS, f"--callgrind-out-file={folder}/out"]
        counted = json.loads(read([*valgrind, *command, "valgrind"], env=generic).stdout)
        of_case = [counts(Path(folder) / f"out.{k + 1}") for k in range(len(CASES))]
    print("per data packet: events, instructions, mispredicted branches, misses of level 1, misses of level 2, ns")
    for (case, hooks, *_), (packets, events, _), count, *times in zip(CASES, counted, of_case, *timed, strict=True):
        totals = [
            count["Ir"],
            count["Bcm"] + count["Bim"],
            count["D1mr"] + count["D1mw"] + count["I1mr"],
            count["DLmr"] + count["DLmw"] + count["ILmr"],
        ]
        shown = " ".join(f"{total / packets:9.1f}" for total in totals)
        print(f"{case:13}{hooks:8}{events / packets:6.2f} {shown} {min(s / n for n, _, s in times) * 1e9:9.1f}")


if __name__ == "__main__":
    main()
