"""Goals of speed that take less than a minute to measure: `python benchmarks/goals.py [ROW ...]`.

Each row is a case with its CPU seconds, or its CPU time per packet, of this process and of the commands it starts. A
loop of ten million additions in Python is timed before and after, because times depend on the machine and on the other
processes that share its caches: divide by it before you compare two machines.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import ecc
from ecc.models import BBR, CUBIC, DCTCP, MKC, PIQIRCP, RCP, XCP
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.queues import PI2, RampMarking

sys.path.append(str(Path(__file__).parent))
from cost_per_packet import MAX_TIME, engine_of, sent_by  # noqa: E402

RTT, PACKET = 0.1, 1500  # s, bytes
TEN = ecc.Network.dumbbell("100 Mb/s", ["100 ms"] * 10)
MANY = 100_000


def spread(number: int) -> ecc.Network:
    """Return a link with flows of different RTTs from 20 to 200 ms."""
    return ecc.Network.dumbbell("1 Gb/s", np.linspace(0.02, 0.2, number).tolist())


def additions() -> None:
    total = 0
    for k in range(10_000_000):
        total += k


def seconds(work: Callable[[], Any]) -> str:
    """Return the CPU time of one call."""
    start = process_time()
    work()
    return f"{process_time() - start:.2f} s"


def command(*arguments: str) -> str:
    """Return the CPU time of an `ecc` command, with its start."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(Path(sys.executable).with_name("ecc")), *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.2f} s"


def cubic(window: int) -> str:
    """15 RTTs of one flow of CUBIC from its start, through slow start and its losses."""
    network = ecc.Network.dumbbell(window * PACKET * 8 / RTT, [RTT], packet_size=PACKET, buffer=window * PACKET)
    run = ecc.packet.simulate(ecc.Scenario(network, CUBIC(), 15.0 * RTT))
    return f"{1e9 * run.stats['cpu_seconds'] / run.stats['data_packets']:.0f} ns a packet"


def jitter(transport: str) -> str:
    """A fixed window of 3,000 packets whose packets overtake each other by up to five RTTs."""
    engine = engine_of(transport=transport, window=3000, jitter=5.0 * RTT)
    engine.advance(MAX_TIME, max_events=100_000)
    before, start = sent_by(engine), process_time()
    engine.advance(MAX_TIME, max_events=300_000)
    return f"{1e9 * (process_time() - start) / (sent_by(engine) - before):.0f} ns a packet"


def flows(step: str) -> str:
    """A step of the set-up of 10^5 flows over 10 Gb/s; `resume` loads the state of a run."""

    def network() -> ecc.Network:
        return ecc.Network.dumbbell("10 Gb/s", np.linspace(0.02, 0.2, MANY).tolist())

    if step == "Network":
        return seconds(network)
    scenario = ecc.Scenario(network(), RCP(), 0.01)
    if step == "Run":
        return seconds(lambda: ecc.packet.Run(scenario))
    if step == "TOML":
        text = scenario.to_toml()
        return seconds(lambda: ecc.Scenario.from_toml(text))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state"
        ecc.packet.Run(scenario).save(file)
        return seconds(lambda: ecc.packet.resume(file))


def fluid(number: int) -> str:
    """10 s of PIQI-RCP from an empty network, compilation not counted."""
    ecc.simulate(ecc.Scenario(spread(number), PIQIRCP(), 0.01), "fluid")
    return seconds(lambda: ecc.simulate(ecc.Scenario(spread(number), PIQIRCP(), 10.0), "fluid"))


def bbr() -> str:
    """10^4 flows of BBR in Startup, with losses."""
    network = ecc.Network.dumbbell("10 Gb/s", np.linspace(0.02, 0.22, 10_000).tolist())
    scenario = ecc.Scenario(network, BBR(), 1.0)
    engine = build_engine(prepare(scenario, start="empty"), scenario)
    engine.advance(0.3)
    before, start = engine.stats.data_packets, process_time()
    engine.advance(0.5)
    return f"{1e9 * (process_time() - start) / (engine.stats.data_packets - before):.0f} ns a packet"


def rates() -> str:
    """Proportionally fair rates of 1,000 random pairs of hosts of a fat tree with 8 ports."""
    random = np.random.default_rng(1)
    pairs = [tuple(random.choice(128, 2, replace=False).tolist()) for _ in range(1000)]
    network = ecc.Network.fat_tree(8, flows=pairs)
    return seconds(lambda: ecc.allocation.proportional(network))


def gain(protocol: Any, network: ecc.Network, parameter: str | None = None, **options: Any) -> Callable[[], str]:
    return lambda: seconds(lambda: ecc.critical_gain(protocol, network, parameter, **options))


THREE = ecc.Network.dumbbell("100 Mb/s", ["100 ms", "200 ms", "300 ms"])
ROWS: dict[str, Callable[[], str]] = {
    **{f"CUBIC, window 10^{k}": lambda k=k: cubic(10**k) for k in (4, 5, 6)},  # type: ignore[misc]
    **{f"{name}, window 3,000, jitter": lambda name=name: jitter(name) for name in ("sack", "rack")},  # type: ignore[misc]
    **{f"critical gain of XCP, {n} RTTs": gain(XCP(), spread(n), "alpha") for n in (20, 80, 1000)},
    **{
        f"ecc stability RCP, 100 ms and {rtt}": lambda rtt=rtt: command(  # type: ignore[misc]
            "stability", "RCP", "--rtt", "100ms", "--rtt", rtt
        )
        for rtt in ("1s", "10s", "100s", "1000s")
    },
    **{f"fluid PIQI-RCP, {n} flows": lambda n=n: fluid(n) for n in (20, 50, 100)},  # type: ignore[misc]
    "links.beta of CUBIC over PI2": gain({"flows": CUBIC(), "links": PI2()}, TEN, "links.beta"),
    "links.max_threshold of DCTCP": gain({"flows": DCTCP(), "links": RampMarking()}, TEN, "links.max_threshold"),
    "MKC, 3 RTTs, certified": gain(MKC(), THREE, certify=True),
    **{f"10^5 flows: {step}": lambda step=step: flows(step) for step in ("Network", "Run", "TOML", "resume")},  # type: ignore[misc]
    "BBR, 10^4 flows": bbr,
    "proportional rates on fat_tree(8)": rates,
}


def main() -> None:
    """Print the rows whose names contain one of the arguments; all without arguments."""
    ecc.critical_gain(RCP(), TEN, "alpha")  # imports
    print(f"{'ten million additions':44s}{seconds(additions):>20s}")
    for name, measure in ROWS.items():
        if not sys.argv[1:] or any(part in name for part in sys.argv[1:]):
            print(f"{name:44s}{measure():>20s}", flush=True)
    print(f"{'ten million additions':44s}{seconds(additions):>20s}")


if __name__ == "__main__":
    main()
