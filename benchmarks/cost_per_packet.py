"""Cost of a packet against the size of a case: `python benchmarks/cost_per_packet.py [AXIS ...] [--instructions]`.

Each axis changes one number and keeps the rest: the window, the loss rate, the reordering, or the number of flows, for
each transport; then delayed ACKs, writes of an application, a receiver window, several routes, and the reordering
threshold. The windows are fixed and no hooks run, so only the engine is measured. The link carries one window per RTT.

The cost is that of a data packet that is sent, retransmissions included, after the window has filled: CPU time (the
smallest of three stretches), events, and with --instructions the instructions of the call of `Engine.advance`, counted
by valgrind's callgrind in the first stretch; this needs valgrind with its headers and a C compiler. "ratio" is the
largest cost of a row over the smallest one. CPU times include cache misses, which grow with the memory of the packets
in the network; instructions do not. The smallest loss rate and jitter are not 0, as a link without impairments needs no
event at the end of its wire.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import ecc
from ecc.native import FLOW_HOOKS, LINK_HOOKS, Engine
from ecc.network.impairments import Jitter, RandomLoss
from ecc.packet.prepare import prepare

RTT, PACKET = 0.1, 1500  # s, bytes
TRANSPORTS = (None, "newreno", "sack", "rack")
MAX_TIME = 3e6  # s
MIN_PACKETS = 20_000
WINDOW_LOSS, WINDOW_JITTER = 1000, 1000

Case = dict[str, Any]


def axes(large: bool) -> dict[str, list[tuple[str, list[Case]]]]:
    """Return the rows of each axis: a name, and its cases from small to large.

    Parameters
    ----------
    large : bool
        Whether to include the cases that take minutes under valgrind.
    """
    windows = [10, 100, 1000, 10_000, 100_000, *([1_000_000] if large else [])]
    numbers = [1, 10, 100, 1000, 10_000, *([100_000] if large else [])]
    losses, jitters = [0.001, 0.01, 0.03, 0.1, 0.3], [1e-9, 0.005 * RTT, 0.1 * RTT, RTT, 5.0 * RTT]

    def by_transport(name: str, cases: list[Case]) -> list[tuple[str, list[Case]]]:
        return [(f"{one}, {name}", [{"transport": one, **case} for case in cases]) for one in TRANSPORTS]

    found = {
        "window": by_transport("no loss", [{"window": window} for window in windows])
        + by_transport("losses of 10 %", [{"window": window, "loss": 0.1} for window in windows])
        + by_transport("jitter of 5 RTTs", [{"window": window, "jitter": 5.0 * RTT} for window in windows]),
        "loss": by_transport(f"window {WINDOW_LOSS}", [{"window": WINDOW_LOSS, "loss": loss} for loss in losses]),
        "reordering": by_transport(
            f"window {WINDOW_JITTER}", [{"window": WINDOW_JITTER, "jitter": jitter} for jitter in jitters]
        ),
        "flows": by_transport("window 10", [{"window": 10, "flows": number} for number in numbers]),
        "options": [],
    }
    options: dict[str, Case] = {
        "delayed ACKs": {"delayed_acks": (2, 0.04)},
        "delayed ACKs, losses of 10 %": {"delayed_acks": (2, 0.04), "loss": 0.1},
        "writes": {"writes": True},
        "receiver window": {"receiver_window": True},
        "4 routes": {"routes": 4},
        "4 routes, threshold 255": {"routes": 4, "threshold": 255},
        "losses of 30 %, threshold 255": {"loss": 0.3, "threshold": 255},
    }
    for name, option in options.items():
        found["options"] += by_transport(
            name, [{"window": window, **option} for window in windows[1:5]]
        )  # windows of at least 100: the others do not fill four routes
    return found


def label(axis: str, case: Case) -> str:
    """Return the number that a case has on its axis.

    Parameters
    ----------
    axis : str
    case : dict
    """
    name = {"loss": "loss", "reordering": "jitter", "flows": "flows"}.get(axis, "window")
    return f"{case[name]:g}"


def engine_of(
    *,
    transport: str | None,
    window: int,
    flows: int = 1,
    loss: float = 0.0,
    jitter: float = 0.0,
    delayed_acks: tuple[int, float] | None = None,
    writes: bool = False,
    receiver_window: bool = False,
    routes: int = 1,
    threshold: int | None = None,
) -> Engine:
    """Return the engine of a case, ready to run.

    Parameters
    ----------
    transport : str or None
    window : int
        Packets, of each flow.
    flows : int, optional
    loss : float, optional
        Probability that the link loses a packet.
    jitter : float, s, optional
        Packets take up to this much longer and may overtake each other.
    delayed_acks : tuple, optional
        Packets per ACK, and its longest delay [s].
    writes : bool, optional
        Whether the application writes a packet at a time, at half the rate that the window allows.
    receiver_window : bool, optional
        Whether the receiver window is half the window.
    routes : int, optional
        Number of routes that packets take in turn; each is a quarter of an RTT longer than the one before it.
    threshold : int, optional
        Reordering threshold.
    """
    capacity = window * flows * PACKET * 8 / RTT
    impairments: list[Any] = [RandomLoss(loss, link=0)] if loss else []
    impairments += [Jitter((0.0, jitter), link=0, in_order=False)] if jitter else []
    flow = ecc.Flow(
        route=[0],
        alternatives=[[k] for k in range(1, routes)],
        packet_size=PACKET,
        delayed_acks=delayed_acks,
        writes=(PACKET, 2.0 * RTT / window) if writes else None,
        reordering_threshold=threshold,
    )
    links = [ecc.Link(capacity / routes, RTT / 2.0 + k * RTT / 4.0) for k in range(routes)]
    network = ecc.Network(links=links, flows=[flow] * flows)
    protocol = ecc.models.NewReno()
    setup = prepare(ecc.Scenario(network, protocol, duration=MAX_TIME, impairments=impairments, seed=1))
    for table, names in ((setup.links, LINK_HOOKS), (setup.flows, FLOW_HOOKS)):
        for name in names:
            table[name] = 0
    setup.links["first_interval"] = setup.flows["bottleneck"] = -1
    setup.flows["opening_size"] = setup.flows["rate"] = 0
    setup.flows["window"] = window * PACKET
    setup.flows["transport"] = TRANSPORTS.index(transport)
    setup.flows["receiver_window"] = window * PACKET // 2 if receiver_window else 0
    return Engine(setup.links, setup.flows, setup.routes, impairments=setup.impairments, seed=1, keep=[setup])


def n_events_of(case: Case) -> tuple[int, int]:
    """Return the events before the measured stretch, and in it.

    Parameters
    ----------
    case : dict
    """
    in_flight = case["window"] * case.get("flows", 1) * (1 + 5 * ("jitter" in case) + ("routes" in case))
    return 9 * in_flight, 3 * max(MIN_PACKETS, in_flight // 4)


def measure(case: Case, callgrind: Any = None) -> Case:
    """Run a case, and return its costs.

    Parameters
    ----------
    case : dict
    callgrind : object, optional
        Library of `CALLGRIND`, in a process under valgrind: instructions of one stretch are counted.
    """
    engine = engine_of(**case)
    first, second = n_events_of(case)
    engine.advance(MAX_TIME, max_events=first)
    found: list[Case] = []
    for _ in range(1 if callgrind else 3):
        before, sent = engine.stats, sent_by(engine)
        if callgrind:
            callgrind.start()
        engine.advance(MAX_TIME, max_events=second)
        if callgrind:
            callgrind.stop()
        after = engine.stats
        packets = sent_by(engine) - sent
        seconds = after.cpu_seconds - before.cpu_seconds
        events = (after.events - before.events) / packets
        found.append({"packets": packets, "ns": seconds / packets * 1e9, "events": events})
    return found[0] | {"ns": min(one["ns"] for one in found)}


def sent_by(engine: Engine) -> int:
    """Return the number of packets that all flows have sent.

    Parameters
    ----------
    engine : Engine
    """
    return int(engine.flow_results["sent"].sum()) // PACKET


CALLGRIND = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void stop(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
"""Outside of the measured stretches valgrind then runs the engine ten times as fast."""


def worker() -> None:
    """Measure the cases of the standard input, in a process under valgrind."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind = callgrind_library(Path(folder))
        print(json.dumps([measure(case, callgrind) for case in json.load(sys.stdin)]))


def callgrind_library(folder: Path) -> Any:
    """Return the library of `CALLGRIND`; outside of valgrind its functions do nothing.

    Parameters
    ----------
    folder : Path
        Where it is compiled.
    """
    library = folder / "callgrind.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-xc", "-", "-o", library], input=CALLGRIND, text=True, check=True)
    return ctypes.CDLL(str(library))


def counted_by(out: Path, k: int) -> int:
    """Return the instructions of the k-th stretch, from 1, that callgrind wrote.

    Parameters
    ----------
    out : Path
        Its --callgrind-out-file.
    k : int
    """
    text = Path(f"{out}.{k}").read_text(errors="replace")
    (line,) = [line for line in text.splitlines() if line.startswith(("summary:", "totals:"))][:1]
    return int(line.split()[1])


def with_instructions(cases: list[Case]) -> list[Case]:
    """Return the costs of cases, counted in one process under valgrind.

    Parameters
    ----------
    cases : list of dict
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "-q"]
        command += ["--instr-atstart=no", f"--callgrind-out-file={folder}/out", sys.executable, "-P"]
        done = subprocess.run(
            [*command, __file__, "--worker"],
            input=json.dumps(cases),
            capture_output=True,
            text=True,
            env=os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout)
        for k, one in enumerate(found):
            one["instructions"] = counted_by(Path(folder) / "out", k + 1) / one["packets"]
    return list(found)


def show(axis: str, name: str, cases: list[Case], found: list[Case], costs: tuple[str, ...]) -> None:
    """Print the costs of a row.

    Parameters
    ----------
    axis, name : str
    cases, found : list of dict
    costs : tuple of str
    """
    print(f"{name}: {', '.join(label(axis, case) for case in cases)}")
    for cost in costs:
        values = [one[cost] for one in found]
        shown = " ".join(f"{value:9.3g}" if cost == "events" else f"{value:9.0f}" for value in values)
        print(f"    {cost:14}{shown}   ratio {max(values) / min(values):.2f}", flush=True)


def main() -> None:
    names = list(axes(False))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"{', '.join(names)}; all by default")
    parser.add_argument("--instructions", action="store_true", help="count instructions too (needs valgrind)")
    parser.add_argument("--transport", choices=[*map(str, TRANSPORTS)], help="this one only; all by default")
    parser.add_argument("--large", action="store_true", help="windows of 10^6 packets and 10^5 flows too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker()
    if unknown := set(arguments.axes) - set(names):
        parser.error(f"AXIS must be one of {', '.join(names)}, got {', '.join(sorted(unknown))}")
    if arguments.instructions and shutil.which("valgrind") is None:
        parser.error("--instructions needs valgrind, which is not installed")
    costs = ("ns", "events", *(("instructions",) if arguments.instructions else ()))
    for axis, rows in axes(arguments.large).items():
        if arguments.axes and axis not in arguments.axes:
            continue
        rows = [row for row in rows if arguments.transport in (None, str(row[1][0]["transport"]))]
        print(f"--- {axis} ---")
        counted: list[Case] = []
        if arguments.instructions:
            counted = with_instructions([case for _, cases in rows for case in cases])
        for name, cases in rows:
            found = [measure(case) for case in cases]
            for one in found:
                if counted:
                    one["instructions"] = counted.pop(0)["instructions"]
            show(axis, name, cases, found, costs)
    return None


if __name__ == "__main__":
    main()
