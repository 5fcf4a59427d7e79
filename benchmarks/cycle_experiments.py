"""Experiments that look for the causes of differences between computed cycles and those of packet runs.

`benchmarks/cycles_against_packets.py` runs the experiments of a protocol if a row of it disagrees. An experiment
changes one condition: of the computed cycle, of the packet runs, or of both. If a quantity then agrees within its
limits, the changed condition is the cause of its difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ecc.errors import EccError
from ecc.network.network import Network
from ecc.stability import LimitCycle, limit_cycle, measured_cycle

TIMES = ("continuous", "discrete")
SMALLER = 4
Case = tuple[Any, Network]  # a loop, and its network
Change = Callable[[Any, Network], Case]


def measured(loop: Any, network: Network, computed: LimitCycle, **engine: str) -> LimitCycle:
    """Return the motion of runs whose period is nearest to the computed one, or the shortest that repeats."""
    try:
        return measured_cycle(loop, network, near=computed.period, **engine)
    except EccError:
        return measured_cycle(loop, network, **engine)


@dataclass(frozen=True)
class Experiment:
    """A change of one condition, and the effect that explains the differences which vanish with it.

    Attributes
    ----------
    change : str
        What the experiment changes, after "deviations", for example "with packets four times smaller".
    cause : str
        The effect, as a clause after the quantity that it changes.
    computed, packets : callable or None
        Changes of the loop and the network of the computed cycle, and of those of the packet runs.
    times : tuple of str
        Times of the computed cycles that it concerns.
    """

    change: str
    cause: str
    computed: Change | None = None
    packets: Change | None = None
    times: tuple[str, ...] = TIMES

    def run(self, loop: Any, network: Network, time: str) -> tuple[LimitCycle, LimitCycle]:
        """Return the computed cycle and that of runs, both with the changes."""
        computed = limit_cycle(*(self.computed or _same)(loop, network), time)
        return computed, measured(*(self.packets or _same)(loop, network), computed)


def _same(loop: Any, network: Network) -> Case:
    return loop, network


def of_both(change: str, cause: str, changed: Change, times: tuple[str, ...] = TIMES) -> Experiment:
    """Return an experiment with the same change of the computed cycle and of the packet runs."""
    return Experiment(change, cause, changed, changed, times)


def with_packets(size: Callable[[float], float]) -> Change:
    """Return a change of the packets of all flows to a size [bytes], a function of the present size."""

    def changed(loop: Any, network: Network) -> Case:
        flows = [replace(flow, packet_size=max(40, int(size(flow.mean_packet)))) for flow in network.flows]
        return loop, network.with_flows(flows)

    return changed


GRANULARITY = of_both(
    "with packets four times smaller", "granularity of packets", with_packets(lambda size: size // SMALLER)
)

EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {}
