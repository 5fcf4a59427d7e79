"""What bounds the speed of the packet engine: `python benchmarks/limits.py`.

S1, S2 and a tenth of S3 of packet_engine.py, each bare (fixed rates without hooks) and with RCP's hooks, and S1 with
NewReno's. Callgrind counts instructions, mispredicted branches and misses of a first and a second level of cache
(48 KiB and 1 MiB: change LEVELS for another processor), each per data packet. The times are CPU times without
valgrind, the minimum of three runs. Needs valgrind with its headers and a C compiler.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
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
]
FEWER = {"S3": 10}  # times less capacity and fewer flows
LEVELS = ["--I1=32768,8,64", "--D1=49152,12,64", "--LL=1048576,16,64"]
ALL = dict(packet_engine.CASES)


def run(under_valgrind: bool) -> list[tuple[int, int, float]]:
    """Return data packets, events and CPU time [s] of the measured stretch of each case."""
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        callgrind = callgrind_library(Path(folder))
        for case, hooks, warm_up, counted, timed in CASES:
            capacity, rtts, *_ = ALL[case]
            stretch, k = counted if under_valgrind else timed, FEWER.get(case, 1)
            packet_engine.CASES[case] = (capacity / k, rtts[::k], warm_up, stretch)
            packet_engine.NEWRENO_WARM_UP = warm_up
            engine = packet_engine.engine_of(case, hooks)
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
        print(f"{case}  {hooks:8}{events / packets:6.2f} {shown} {min(s / n for n, _, s in times) * 1e9:9.1f}")


if __name__ == "__main__":
    main()
