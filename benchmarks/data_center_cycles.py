"""Limit cycles of data-center transports with their multipliers, next to packet runs; docs/data_centers.md quotes them.

    python benchmarks/data_center_cycles.py

Packets are smaller than usual, with parameters that leave the fluid unchanged, so that windows of a few packets do not
hide the cycles. The multiplier of a difference is measured with a flow that starts late: the difference of its window
or rate from the mean of the others, averaged over a period, as a ratio per period.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ecc
from ecc.claims.checks.data_centers.dctcp import _Variant
from ecc.contract.assignment import read_protocol
from ecc.models import DCTCP, NSCC, TIMELY, Swift
from ecc.network.network import Network
from ecc.queues import StepMarking
from ecc.stability import LimitCycle, limit_cycle

Real = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A protocol over a network: the loop of the fluid, and that of packets with their size and the recorded series."""

    name: str
    loop: Any
    packets: Any
    capacity: float
    rtt: float
    flows: int
    size: int
    small: int
    recorded: str
    settled: float  # periods before the late flow starts
    compared: tuple[int, int]  # periods after that start between which differences are compared

    def network(self, size: int, starts: list[float] | None = None) -> Network:
        """Return the network with packets of a size."""
        rtts = [self.rtt] * self.flows
        return Network.dumbbell(self.capacity, rtts, packet_size=size, starts=starts or [0.0] * self.flows)


def dctcp(flows: int, parts: int = 10) -> Case:
    """Return DCTCP over a step of 40 packets of 1500 bytes, with packets of 1500/parts bytes in packet runs."""
    small = 1500 // parts
    steps = [StepMarking(threshold=40.0 * 1500 / size, packet_size=size) for size in (1500, small)]
    hosts = _Variant(transport="sack", initial=10.0 * parts, packets=float(parts))
    loop, packets = {"flows": DCTCP(), "links": steps[0]}, {"flows": hosts, "links": steps[1]}
    return Case("DCTCP", read_protocol(loop), packets, 10e9, 100e-6, flows, 1500, small, "env.window", 40.0, (6, 20))


def timely(flows: int) -> Case:
    """Return TIMELY with packets of 100 bytes."""
    return Case("TIMELY", TIMELY(), TIMELY(), 10e9, 10e-6, flows, 1000, 100, "flow.x", 12.0, (1, 4))


def swift(flows: int, parts: int = 10) -> Case:
    """Return Swift with windows and increases of more and smaller packets."""
    base: dict[str, Any] = {"base_target": "20 us", "hop_scaling": 0.0, "fs_range": "50 us"}
    small = Swift(**base, ai=parts, fs_min_cwnd=0.1 * parts, fs_max_cwnd=100.0 * parts, min_cwnd=0.01 * parts)
    return Case("Swift", Swift(**base), small, 100e9, 10e-6, flows, 4000, 4000 // parts, "env.window", 15.0, (0, 4))


def nscc(flows: int, parts: int = 16) -> Case:
    """Return NSCC over a step at 20 % of the bandwidth-delay product."""
    size, small = 4096, 4096 // parts
    steps = [StepMarking(threshold=0.2 * 150e3 / each, packet_size=each) for each in (size, small)]
    hosts = NSCC(alpha=4.0 * parts, fair=5.0 * parts, eta=0.15 * parts, delay_gain=0.0125 / parts)
    loop = read_protocol({"flows": NSCC(), "links": steps[0]})
    packets = {"flows": hosts, "links": steps[1]}
    return Case("NSCC", loop, packets, 100e9, 12e-6, flows, size, small, "env.window", 40.0, (3, 9))


def period_of(queue: Real, interval: float) -> float:
    """Return the lag of the largest maximum of the autocorrelation after its first negative value [s]."""
    power = np.abs(np.fft.rfft(queue - queue.mean(), 2 * len(queue))) ** 2
    correlation = np.fft.irfft(power)[: len(queue)]
    first = int(np.flatnonzero(correlation < 0.0)[0])
    return interval * (first + int(correlation[first : len(queue) // 2].argmax()))


def measured(case: Case, period: float) -> tuple[float, Real, float]:
    """Return the period and the queue of packet runs, and the ratio of differences per period of `case.compared`."""
    interval = min(1e-6, period / 100.0)
    long = ecc.packet.simulate(
        ecc.Scenario(case.network(case.small), case.packets, 3.0 * case.settled * period), sample=interval
    )
    queue = long.queue[len(long.queue) // 3 :, 0].to_numpy()
    if case.flows == 1:
        return period_of(queue, interval), queue, np.nan
    steps, differences = round(period / interval), []
    first, last = case.compared
    for offset in range(6):
        start = (case.settled + offset / 6.0) * period
        network = case.network(case.small, [7e-7 * k for k in range(case.flows - 1)] + [start])
        scenario = ecc.Scenario(network, case.packets, start + (last + 1.0) * period)
        run = ecc.packet.simulate(scenario, sample=interval, record=[case.recorded])
        series = run.data[case.recorded].to_numpy()[int(start / interval) :]
        means = [series[k * steps : (k + 1) * steps].mean(0) for k in case.compared]
        differences.append([mean[:-1].mean() - mean[-1] for mean in means])
    decay = np.mean(differences, axis=0)
    share = float(decay[1] / decay[0])  # negative if noise exceeds the difference
    return period_of(queue, interval), queue, share ** (1.0 / (last - first)) if share > 0.0 else np.nan


def moduli(cycle: LimitCycle) -> str:
    """Return the distinct moduli of multipliers above 0.01, each with its number."""
    values, counts = np.unique(np.abs(cycle.multipliers).round(3), return_counts=True)
    pairs = [(value, count) for value, count in zip(values, counts, strict=True) if value > 0.01]
    return ", ".join(f"{value:.3f} ({count})" for value, count in reversed(pairs)) or "all 0"


def main() -> None:
    """Print the table."""
    print("| protocol | flows | model | period [us] | queue [us] | mean | moduli of multipliers (number) |")
    cases = [dctcp(1), dctcp(2), dctcp(10), timely(2), timely(10), swift(10), swift(20), nscc(2), nscc(4)]
    for case in cases:
        scale, period = 8e6 / case.capacity, 0.0
        row = f"| {case.name} | {case.flows} |"
        for time in ("continuous", "discrete"):
            cycle = limit_cycle(case.loop, case.network(case.size), time)
            low, high = cycle.mean - cycle.amplitude, cycle.mean + cycle.amplitude
            if "queue" in cycle.orbit:
                low, high = float(cycle.orbit["queue"].min()), float(cycle.orbit["queue"].max())
            queues = f"{scale * low:.2f} to {scale * high:.2f} | {scale * cycle.mean:.2f}"
            print(f"{row} {time} | {1e6 * cycle.period:.1f} | {queues} | {moduli(cycle)} |", flush=True)
            if time == "continuous" or case.name == "TIMELY":
                period = cycle.period
        of_packets, queue, ratio = measured(case, period)
        queues = f"{scale * queue.min():.2f} to {scale * queue.max():.2f} | {scale * queue.mean():.2f}"
        found = "" if case.flows == 1 else f"differences: {ratio:.3f}"
        print(f"{row} packets of {case.small} bytes | {1e6 * of_packets:.1f} | {queues} | {found} |", flush=True)


if __name__ == "__main__":
    main()
