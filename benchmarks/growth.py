"""Growth of the work with the size of a case: `python benchmarks/growth.py [AXIS ...] [--short]`.

An axis changes one size and keeps the rest: the window, the flows, the links, the number of different delays, the
queue or the samples. For each subject on an axis (a transport, a protocol, a queue discipline, a step of the set-up, a
model), valgrind's callgrind counts the instructions per unit of work: a packet, a flow, a link or a sample. No clock is
read. The exponent is the slope of the logarithm of this cost against that of the size, by least squares: 0 if the cost
of a unit does not depend on the size, 1 if the work is quadratic. The program prints all costs and exits with 1 if an
exponent exceeds its bound.

--short  fewer subjects and smaller sizes: less than a minute of one core

Needs valgrind with its headers and a C compiler. Hooks are compiled for any x86-64, as valgrind lacks the instructions
of some processors.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ecc
import ecc.queues
from ecc.native import FLOW_HOOKS, Engine
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare

sys.path.append(str(Path(__file__).parent))
from cost_per_packet import (  # noqa: E402
    MAX_TIME,
    TRANSPORTS,
    callgrind_library,
    counted_by,
    engine_of,
    n_events_of,
    sent_by,
)

RTT, PACKET = 0.1, 1500  # s, bytes
FLAT = 0.1
"""Bound on the exponent of a cost that does not depend on the size; searches in trees and caches of NumPy take some."""

Work = Callable[[], float]
"""The measured work of a case; returns the number of its units."""


@dataclass(frozen=True)
class Axis:
    """Cases that differ in one size.

    `prepare` takes a subject and a size, and returns the measured work. `bounds` are bounds on the exponents of
    subjects other than `FLAT`.
    """

    unit: str
    prepare: Callable[[str, int], Work]
    subjects: tuple[str, ...]
    sizes: tuple[int, ...]
    short_subjects: tuple[str, ...]
    short_sizes: tuple[int, ...]
    bounds: dict[str, float]


# ---- packets ---------------------------------------------------------------------------------------------------------


def advance(engine: Engine, until: float) -> float:
    """Advance an engine, and return the number of data packets that were sent."""
    before = engine.stats.data_packets
    engine.advance(until)
    return float(engine.stats.data_packets - before)


def engine_of_protocol(network: ecc.Network, subject: str, start: str | None = None) -> Engine:
    """Return the engine of a protocol, by default started at its equilibrium if that has no queues."""
    protocol = getattr(ecc.models, subject)()
    scenario = ecc.Scenario(network, protocol, duration=1000.0 * RTT, seed=1)
    start = start or ("equilibrium" if protocol.equilibrium_is_static else "empty")
    return build_engine(prepare(scenario, start=start), scenario)


def transport_of_window(subject: str, size: int) -> Work:
    """A fixed window without hooks, with losses or reordering: 'sack, losses of 10 %'."""
    transport, _, condition = subject.partition(", ")
    case = {
        "transport": None if transport == "none" else transport,
        "window": size,
        **{"losses of 10 %": {"loss": 0.1}, "jitter of 5 RTTs": {"jitter": 5.0 * RTT}}[condition],
    }
    engine = engine_of(**case)
    first, second = n_events_of(case)
    engine.advance(MAX_TIME, max_events=first)

    def work() -> float:
        before = sent_by(engine)
        engine.advance(MAX_TIME, max_events=second // 3)
        return sent_by(engine) - before

    return work


def protocol_of_window(subject: str, size: int) -> Work:
    """15 RTTs of a flow from its start: slow start, its losses and their recovery, if the protocol has these."""
    network = ecc.Network.dumbbell(size * PACKET * 8 / RTT, rtts=[RTT], packet_size=PACKET, buffer=size * PACKET)
    engine = engine_of_protocol(network, subject, "empty")
    return partial(advance, engine, 15.0 * RTT)


def protocol_of_flows(subject: str, size: int) -> Work:
    """Two RTTs of flows with a window of ten packets each."""
    capacity = size * 10 * PACKET * 8 / RTT
    network = ecc.Network.dumbbell(capacity, rtts=[RTT] * size, packet_size=PACKET, buffer=size * 10 * PACKET)
    engine = engine_of_protocol(network, subject)
    engine.advance(5.0 * RTT)
    return partial(advance, engine, 7.0 * RTT)


def protocol_of_delays(subject: str, size: int) -> Work:
    """Two RTTs of 300 flows with so many different RTTs."""
    rtts = np.resize(np.linspace(RTT, 2.0 * RTT, size), 300)
    network = ecc.Network.dumbbell(300 * 10 * PACKET * 8 / RTT, rtts=rtts, packet_size=PACKET, buffer=3000 * PACKET)
    engine = engine_of_protocol(network, subject)
    engine.advance(5.0 * RTT)
    return partial(advance, engine, 7.0 * RTT)


def protocol_of_links(subject: str, size: int) -> Work:
    """Packets times links of a flow along a chain."""
    links = [ecc.Link(100 * PACKET * 8 / RTT, RTT / 2.0 / size, buffer=100 * PACKET)] * size
    network = ecc.Network(links, [ecc.Flow(range(size), packet_size=PACKET)])
    engine = engine_of_protocol(network, subject)
    engine.advance(5.0 * RTT)
    return lambda: size * advance(engine, 10.0 * RTT)


def discipline_of_queue(subject: str, size: int) -> Work:
    """A discipline at an overloaded link: a fixed window of twice the buffer, without loss recovery."""
    links = {} if subject == "drop-tail" else {"links": getattr(ecc.queues, subject)()}
    host = ecc.models.NewReno()
    network = ecc.Network.dumbbell(2000 * PACKET * 8 / RTT, [RTT / 100.0], packet_size=PACKET, buffer=size * PACKET)
    scenario = ecc.Scenario(network, {"flows": host, **links} if links else host, duration=MAX_TIME, seed=1)
    setup = prepare(scenario)
    for name in FLOW_HOOKS:
        setup.flows[name] = 0
    setup.flows["bottleneck"] = -1
    setup.flows["transport"] = setup.flows["opening_size"] = setup.flows["rate"] = 0
    setup.flows["window"] = 2 * size * PACKET
    engine = build_engine(setup, scenario)
    engine.advance(MAX_TIME, max_events=5 * size)

    def work() -> float:
        before = engine.stats.data_packets
        engine.advance(MAX_TIME, max_events=10_000)
        return float(engine.stats.data_packets - before)

    return work


def samples_of_run(subject: str, size: int) -> Work:
    """Samples of a run of ten flows, and the series made of them."""
    network = ecc.Network.dumbbell("1 Mb/s", rtts=[RTT] * 10)
    scenario = ecc.Scenario(network, ecc.models.RCP(), duration=1.0)
    ecc.packet.simulate(scenario)  # imports
    run = ecc.packet.Run(scenario, sample=1.0 / size)

    def work() -> float:
        run.advance(1.0).trajectory()
        return float(size)

    return work


# ---- set-up ----------------------------------------------------------------------------------------------------------


def setup_of_flows(subject: str, size: int) -> Work:
    """One step on the way from RTTs to an engine."""
    rtts = np.linspace(RTT, 2.0 * RTT, size).tolist()
    network = ecc.Network.dumbbell("1 Gb/s", rtts=rtts)
    scenario = ecc.Scenario(network, ecc.models.RCP(), duration=1.0)
    tables = scenario.to_dict()
    setup = prepare(scenario, start="equilibrium")
    steps: dict[str, Callable[[], Any]] = {
        "network": lambda: ecc.Network.dumbbell("1 Gb/s", rtts=rtts),
        "scenario": lambda: ecc.Scenario(network, ecc.models.RCP(), duration=1.0),
        "tables": scenario.to_dict,
        "scenario from tables": lambda: ecc.Scenario.from_dict(tables),
        "preparation": lambda: prepare(scenario, start="equilibrium"),
        "engine": lambda: build_engine(setup, scenario),
    }

    def work() -> float:
        steps[subject]()
        return float(size)

    return work


def fabric_of_links(subject: str, size: int) -> Work:
    """A fat tree with as many flows as hosts, and fair rates on it; `size` is the number of ports of a switch."""
    n_hosts = size**3 // 4
    demands = [(host, (host + n_hosts // 2) % n_hosts) for host in range(n_hosts)]
    network = ecc.Network.fat_tree(size, flows=demands)
    steps: dict[str, Callable[[], Any]] = {
        "fat tree": lambda: ecc.Network.fat_tree(size, flows=demands),
        "max-min rates": lambda: ecc.allocation.max_min(network),
    }

    def work() -> float:
        steps[subject]()
        return float(network.n_links)

    return work


# ---- models ----------------------------------------------------------------------------------------------------------


def linear_of_delays(subject: str, size: int) -> Work:
    """A question about the linear model of PIQI-RCP with so many different RTTs."""
    network = ecc.Network.dumbbell("100 Mb/s", rtts=np.linspace(RTT, 2.0 * RTT, size).tolist())
    protocol = ecc.models.PIQIRCP()
    questions: dict[str, Callable[[], Any]] = {
        "verdict": lambda: ecc.linearize(protocol, network).is_stable,
        "critical gain": lambda: ecc.stability.critical_gain(protocol, network, "alpha"),
    }
    questions[subject]()  # imports

    def work() -> float:
        questions[subject]()
        return float(size)

    return work


TRANSPORT_CASES = tuple(
    f"{transport or 'none'}, {condition}"
    for transport in TRANSPORTS
    for condition in ("losses of 10 %", "jitter of 5 RTTs")
)
PROTOCOLS = tuple(name for name, kind in ecc.models.all_protocols().items() if kind().has_packet_hooks())
DISCIPLINES = ("drop-tail", "RED", "PIE", "PI2", "CoDel", "DRR", "StrictPriority")
SETUP_STEPS = ("network", "scenario", "tables", "scenario from tables", "preparation", "engine")

AXES = {
    "window, transports": Axis(
        "packet",
        transport_of_window,
        TRANSPORT_CASES,
        (100, 1000, 10_000, 100_000),
        ("sack, losses of 10 %", "rack, jitter of 5 RTTs"),
        (100, 3000),
        {},
    ),
    "window": Axis("packet", protocol_of_window, PROTOCOLS, (100, 1000, 10_000), ("NewReno", "CUBIC"), (100, 1000), {}),
    "flows": Axis("packet", protocol_of_flows, PROTOCOLS, (10, 100, 1000), ("RCP", "CUBIC"), (10, 300), {}),
    "different delays": Axis("packet", protocol_of_delays, PROTOCOLS, (1, 15, 300), ("RCP",), (1, 300), {}),
    "links": Axis("packet and link", protocol_of_links, PROTOCOLS, (1, 10, 100), ("RCP",), (10, 100), {}),
    "queue": Axis(
        "packet", discipline_of_queue, DISCIPLINES, (10, 1000, 100_000), ("drop-tail", "CoDel"), (10, 3000), {}
    ),
    "samples": Axis("sample", samples_of_run, ("RCP",), (1000, 10_000, 100_000), ("RCP",), (3000, 30_000), {}),
    "flows, set-up": Axis("flow", setup_of_flows, SETUP_STEPS, (100, 1000, 10_000), SETUP_STEPS, (300, 3000), {}),
    "ports, set-up": Axis(
        "link",
        fabric_of_links,
        ("fat tree", "max-min rates"),
        (4, 8, 16),
        ("fat tree", "max-min rates"),
        (4, 8),
        {"fat tree": 1.0},  # a search from each destination switch, of which there are k^2 / 2
    ),
    "different delays, linear": Axis(
        "RTT", linear_of_delays, ("verdict", "critical gain"), (10, 100, 1000), ("verdict",), (30, 300), {}
    ),
}


# ---- measurement and report ------------------------------------------------------------------------------------------

Row = tuple[str, str, tuple[int, ...]]
"""An axis, a subject and its sizes."""


def rows(names: list[str], short: bool) -> Iterator[Row]:
    """The rows of axes; all axes without names."""
    for name, axis in AXES.items():
        if not names or name in names:
            subjects, sizes = (axis.short_subjects, axis.short_sizes) if short else (axis.subjects, axis.sizes)
            yield from ((name, subject, sizes) for subject in subjects)


def worker() -> None:
    """Print the units of each case of the standard input; under valgrind, callgrind writes a file for each."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind = callgrind_library(Path(folder))
        units = []
        gc.disable()  # collections fall into some cases and not into others
        for name, subject, sizes in json.load(sys.stdin):
            for size in sizes:
                work = AXES[name].prepare(subject, size)
                callgrind.start()
                units.append(work())
                callgrind.stop()
        print(json.dumps(units))


def costs_of(cases: list[Row]) -> list[list[float]]:
    """Instructions per unit of each size of each row."""
    command = [sys.executable, "-P", "-c"]
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import growth; growth.worker()"
    variables = os.environ | {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    run = partial(subprocess.run, input=json.dumps(cases), text=True, env=variables, stdout=subprocess.PIPE, check=True)
    units = json.loads(run([*command, code]).stdout)  # compiles hooks
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        valgrind = ["valgrind", "--tool=callgrind", "-q", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        assert json.loads(run([*valgrind, *command, code]).stdout) == units
        costs = iter([counted_by(out, k + 1) / n for k, n in enumerate(units)])
    return [[next(costs) for _ in sizes] for *_, sizes in cases]


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """The slope of the logarithm of costs against that of sizes."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def main() -> int:
    """Print one line per subject; return 1 if an exponent exceeds its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"{'; '.join(AXES)}; all by default")
    parser.add_argument("--short", action="store_true", help="fewer subjects and smaller sizes")
    chosen = parser.parse_args()
    if unknown := set(chosen.axes) - set(AXES):
        parser.error(f"AXIS must be one of {'; '.join(AXES)}, got {', '.join(sorted(unknown))}")
    if shutil.which("valgrind") is None:
        parser.error("valgrind must be installed, as instructions are counted")
    cases = list(rows(chosen.axes, chosen.short))
    n_above, axis_before = 0, ""
    for (name, subject, sizes), costs in zip(cases, costs_of(cases), strict=True):
        axis = AXES[name]
        if name != axis_before:
            print(f"{name}: instructions per {axis.unit} at sizes {', '.join(map(str, sizes))}; exponent, bound")
        axis_before = name
        slope, bound = exponent(sizes, costs), axis.bounds.get(subject, FLAT)
        n_above += slope > bound
        shown = " ".join(f"{cost:12.0f}" for cost in costs)
        print(f"  {subject:26}{shown}   {slope:+6.2f} {bound:5.2f}{'  ABOVE' * (slope > bound)}", flush=True)
    if n_above:
        print(f"{n_above} exponents above their bounds", file=sys.stderr)
    return int(n_above > 0)


if __name__ == "__main__":
    sys.exit(main())
