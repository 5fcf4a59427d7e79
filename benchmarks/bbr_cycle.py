"""The probing cycles of BBR and C4: multipliers of return maps against the decay of deviations in packet runs.

Prints the tables of docs/bbr_cycle.md, in about ten minutes: `python benchmarks/bbr_cycle.py` for all, or with the
names of tables (small, deep, cubic, packets, sizes, spreads, phases, drained).
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from cycle_experiments_probing import DrainedBBR

import ecc
from ecc.cycles.probing import Hooks, staggered
from ecc.cycles.reference_cases import cycle_case
from ecc.cycles.signals import decay_text, memory_maps
from ecc.errors import LinearizationError
from ecc.models import BBR, C4, CUBIC, BBRv1, BBRv2

WITHOUT_RTT_PROBES = BBRv1(min_rtt_window=1e4)
SEEDS = range(6)


def a_network(buffer: int, rtts: list[float], capacity: str = "100 Mb/s") -> ecc.Network:
    """Return one link; flows start a second apart."""
    starts = [1.0 * flow for flow in range(len(rtts))]
    return ecc.Network.dumbbell(capacity, rtts=rtts, buffer=buffer, starts=starts)


def cycle_network(kind: Any) -> ecc.Network:
    """Return the network of the cycle of a protocol in the table of verdicts; flows start a second apart."""
    return staggered(cycle_case(kind())[1])


def show(label: str, loop: Any, network: ecc.Network, time: str) -> None:
    """Print a row: period, queue, multipliers and shares of a cycle."""
    try:
        cycle = ecc.stability.limit_cycle(loop, network, time)
    except LinearizationError as error:
        print(f"{label} | {time} | {error}", flush=True)
        return
    values = " ".join(f"{value:.3g}" for value in np.abs(cycle.multipliers[:2]))
    if cycle.object != "cycle":
        values = f"exponent {cycle.exponent:.2f} ({cycle.interval[0]:.2f} to {cycle.interval[1]:.2f})"
    rates = cycle.orbit["rates"].mean(axis=1)
    shares = " ".join(f"{share:.2f}" for share in rates / rates.sum())
    verdict = {True: "stable", False: "unstable", None: "undecided"}[cycle.stable]
    print(
        f"{label} | {time} | {cycle.period:.3f} s | {cycle.mean / 1e3:.0f} +- {cycle.amplitude / 1e3:.0f} kB | "
        f"{values} | {cycle.along} | {verdict} | {shares} | {cycle.method.rsplit(' ', 1)[-1]}",
        flush=True,
    )


def small() -> None:
    """Print cycles of version 1 without ProbeRTT in a small buffer, over the number of flows and the ratio of RTTs."""
    for flows in (1, 2, 3, 4):
        show(f"{flows} flows", WITHOUT_RTT_PROBES, a_network(100_000, [0.03] * flows), "continuous")
    for ratio in (1.5, 2.0, 3.0):
        show(f"ratio {ratio}", WITHOUT_RTT_PROBES, a_network(100_000, [0.03, 0.03 * ratio]), "continuous")


def deep() -> None:
    """Print cycles with ProbeRTT over the size of the buffer."""
    for protocol in (BBRv1(), BBRv2(), BBR()):
        for buffer in (200_000, 1_000_000):
            show(f"{type(protocol).__name__} {buffer}", protocol, a_network(buffer, [0.03] * 2), "continuous")
            show(f"{type(protocol).__name__} {buffer}", protocol, a_network(buffer, [0.03] * 2), "discrete")
    for time in ("continuous", "discrete"):
        show("C4 500000", C4(), a_network(500_000, [0.03] * 2), time)


def cubic() -> None:
    """Print cycles of version 1 next to CUBIC."""
    for protocol in (BBRv1(), BBRv2(), BBR()):
        for products in (0.5, 2.0, 4.0):
            buffer = int(products * 125_000)
            loop = {"flows": {"0": protocol, "1": CUBIC(transport="rack")}}
            show(
                f"{type(protocol).__name__}, CUBIC {products}",
                loop,
                a_network(buffer, [0.02] * 2, "50 Mb/s"),
                "continuous",
            )


def packets() -> None:
    """Print the difference of goodput of two flows in windows of packet runs, means of seeds, and the cycle of one."""
    cases = [
        (WITHOUT_RTT_PROBES, 100_000, 2.0, 14.0),
        (BBR(), 1_000_000, 20.0, 120.0),
        (BBRv2(), 1_000_000, 20.0, 120.0),
        (BBRv2(), 200_000, 20.0, 120.0),
        (C4(), 500_000, 10.0, 60.0),
    ]
    for protocol, buffer, width, duration in cases:
        network, differences = a_network(buffer, [0.03] * 2), []
        for seed in SEEDS:
            run = ecc.packet.simulate(ecc.Scenario(network, protocol, duration, seed=seed), 0.1)
            goodput = run.goodput.to_numpy().reshape(int(duration / width), -1, 2).mean(axis=1)
            differences.append((goodput[:, 0] - goodput[:, 1]) / goodput.sum(axis=1))
        means = " ".join(f"{value:.3f}" for value in np.mean(differences, axis=0))
        queue = ""
        if protocol is not WITHOUT_RTT_PROBES:
            cycle = ecc.stability.measured_cycle(protocol, network)
            queue = f" | queue {cycle.mean / 1e3:.0f} +- {cycle.amplitude / 1e3:.0f} kB"
        print(f"{type(protocol).__name__} {buffer} packets | windows of {width} s | {means}{queue}", flush=True)


def sizes() -> None:
    """Print the exponent of version 3 in discrete time over the size of the deviation whose growth is measured."""
    for size in (1e-2, 1e-3, 1e-4):
        hooks = Hooks([BBR(), BBR()], cycle_network(BBR), "discrete")
        hooks.size = size
        hooks.orbit()
        exponent, (low, high) = hooks.grown.exponent()
        print(f"{size:g} | {len(hooks.grown.logarithms)} cycles | {exponent:.2f} ({low:.2f} to {high:.2f})", flush=True)


def spreads() -> None:
    """Print period and multiplier of the hooks of C4 in continuous time over the irregularity of ACKs."""
    cases = [(32, 0.0, 200.0), (32, 0.01, 300.0), (32, 0.1, 300.0), (32, 0.5, 300.0), (32, 0.95, 600.0)]
    for acks, spread, length in [*cases, (128, 0.95, 300.0)]:
        hooks = Hooks([C4(), C4()], cycle_network(C4), "continuous", acks=acks, spread=spread)
        starts = hooks.starts(hooks.begins())
        while hooks.next_start(hooks.run, starts, length):
            pass
        first = int(np.searchsorted(starts.times, 0.25 * length))
        memories = np.array(starts.memories[first:]).reshape(len(starts.times) - first, 2, -1)
        rates = memory_maps({"nominal rate": memories[:, :, 0]})
        texts = [decay_text(*pair) for pair in rates.items()]
        print(f"{acks} ACKs, spread {spread} | {np.diff(starts.times[first:]).mean():.4f} s | {'; '.join(texts)}")


def phases() -> None:
    """Print the multiplier of C4 in packet runs over the start of the second flow, and with small packets."""
    for start, size in ((1.0, 1500), (1.003, 1500), (1.0107, 1500), (1.02, 1500), (1.0, 375)):
        flows = [replace(flow, start=start * k, packet_size=size) for k, flow in enumerate(cycle_network(C4).flows)]
        cycle = ecc.stability.measured_cycle(C4(), cycle_network(C4).with_flows(flows))
        print(f"{start} s, {size} bytes | {cycle.period:.3f} s | {'; '.join(cycle.notes[:2])}", flush=True)


def drained() -> None:
    """Print bandwidths of version 3 in the fluid whose ProbeRTT waits until the volume in flight has fallen."""
    scenario = ecc.Scenario(cycle_network(BBR), DrainedBBR(), 150.0)
    bandwidths = ecc.fluid.simulate(scenario, 0.03, record=["flow.bw"])["flow.bw"].to_numpy()
    for time in range(10, 150, 14):
        print(f"{time} s | {' '.join(f'{each / 1e6:.1f}' for each in bandwidths[int(time / 0.03)])} Mb/s", flush=True)


if __name__ == "__main__":
    tables = {
        **{"small": small, "deep": deep, "cubic": cubic, "packets": packets},
        **{"sizes": sizes, "spreads": spreads, "phases": phases, "drained": drained},
    }
    for name in sys.argv[1:] or tables:
        print(f"-- {name}")
        tables[name]()
