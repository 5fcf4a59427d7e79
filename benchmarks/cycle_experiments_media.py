"""Experiments on the cycle of GCC, for `benchmarks/cycles_against_packets.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from cycle_experiments import Experiment, measured

from ecc import packet
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.stability import LimitCycle

CYCLES, SETTLING, POINTS = 60, 10, 1000  # cycles of a run, those before the ones that count; samples of a cycle
CUT, CUT_CYCLES = 0.97, 20  # share of the capacity until a time, and this time in cycles


def _whole_cycles(values: Any) -> Any:
    """Return the samples of a run as rows of cycles, without those that settle."""
    return values.reshape(CYCLES, POINTS)[SETTLING:]


def with_peaks(loop: Any, network: Network, computed: LimitCycle) -> LimitCycle:
    """Return the measured cycle with the mean range of the queue between samples, too."""
    scenario = Scenario(network, loop, CYCLES * computed.period)
    run = packet.simulate(scenario, sample=computed.period / POINTS)
    peaks = _whole_cycles(run.queue_max.to_numpy()[: CYCLES * POINTS, 0]).max(axis=1)
    least = _whole_cycles(run.queue.to_numpy()[: CYCLES * POINTS, 0]).min(axis=1)
    return replace(measured(loop, network, computed), amplitude=0.5 * float(np.mean(peaks - least)))


def of_the_mean(loop: Any, network: Network, computed: LimitCycle) -> LimitCycle:
    """Return the measured cycle with the decay per cycle of the mean of received rates, after a lower capacity."""
    capacity = float(network.capacities[0])
    rise = CapacitySchedule(0, (0.0, CUT_CYCLES * computed.period), (CUT * capacity, capacity))
    means = []
    for impairments in ((), (rise,)):
        scenario = Scenario(network, loop, CYCLES * computed.period, impairments=impairments)
        run = packet.simulate(scenario, sample=computed.period / POINTS, record=["flow.mean"])
        means.append(run["flow.mean"].to_numpy()[: CYCLES * POINTS, 0].reshape(CYCLES, POINTS).mean(axis=1))
    late = slice(CUT_CYCLES + 2, CUT_CYCLES + 14)
    slope = np.polyfit(np.arange(12), np.log(means[0][late] - means[1][late]), 1)[0]
    return replace(measured(loop, network, computed), multipliers=np.array([np.exp(slope)], complex))


EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {
    "GCC": (
        Experiment(
            "with the largest queue between samples",
            "samples of the queue of packet runs are 25 ms apart, and miss peaks of one packet, which last 4 ms",
            measure=with_peaks,
            times=("continuous",),
        ),
        Experiment(
            "of the mean of received rates, after a lower capacity",
            "the mean of received rates decays slowly, and its effect on queue and rates is below the noise of runs",
            measure=of_the_mean,
            times=("continuous",),
        ),
    ),
}
