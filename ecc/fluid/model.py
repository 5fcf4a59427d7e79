"""A network as fluids see it: groups of equal flows, and the delays between them and the links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc.models.base import Protocol
from ecc.scenario import Scenario

__all__ = ["LEAST", "FluidNetwork"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LEAST = 1e-9  # of the capacity: the smallest rate a router announces, so that none is lost in zero


@dataclass(frozen=True)
class FluidNetwork:
    """Flows that are alike move alike, so one stands for all of its group.

    `members` (n_groups,): flows in the group; `group_of` (n_flows,). For each group g: `routes[g]` the links it
    crosses and `listens[g]` which of them it listens to; `forward[g]` and `backward[g]` the delays from the sender to
    the queue of each and from there back to the sender, `wire` that of the last link; `rtt`, `start`, `stop` (inf),
    `size` [bit] (inf), `packet_size` [bytes].
    """

    members: FloatArray
    group_of: IntArray
    routes: list[tuple[int, ...]]
    listens: list[NDArray[np.bool_]]
    forward: list[FloatArray]
    backward: list[FloatArray]
    rtt: FloatArray
    wire: FloatArray
    start: FloatArray
    stop: FloatArray
    size: FloatArray
    packet_size: FloatArray
    capacity: FloatArray
    buffer: FloatArray  # [bit]

    @classmethod
    def of(cls, scenario: Scenario) -> FluidNetwork:
        """Return the groups of a scenario's network.

        Parameters
            scenario : Scenario.
        """
        network = scenario.network
        followed = scenario.assignment
        keys: dict[tuple[object, ...], int] = {}
        first: list[int] = []
        group_of = np.zeros(network.n_flows, dtype=np.int64)
        for i, flow in enumerate(network.flows):
            delays = tuple(network.forward_delays[i, list(flow.route)])
            key = (flow.route, delays, network.rtts[i], flow.start, flow.stop, flow.size, flow.packet_size,
                   None if followed is None else followed[i])  # fmt: skip
            if key not in keys:
                keys[key] = len(keys)
                first.append(i)
            group_of[i] = keys[key]
        flows = [network.flows[i] for i in first]
        routes = [tuple(flow.route) for flow in flows]

        def or_inf(values: list[float | None], factor: float = 1.0) -> FloatArray:
            return np.array([np.inf if value is None else factor * value for value in values])

        return cls(
            members=np.bincount(group_of).astype(float),
            group_of=group_of,
            routes=routes,
            listens=[
                np.full(len(route), True) if followed is None else np.array(route) == followed[i]
                for i, route in zip(first, routes, strict=True)
            ],
            forward=[network.forward_delays[i, list(route)] for i, route in zip(first, routes, strict=True)],
            backward=[network.backward_delays[i, list(route)] for i, route in zip(first, routes, strict=True)],
            rtt=network.rtts[first],
            wire=np.array([network.links[route[-1]].delay for route in routes]),
            start=np.array([flow.start for flow in flows]),
            stop=or_inf([flow.stop for flow in flows]),
            size=or_inf([flow.size for flow in flows], 8.0),
            packet_size=np.array([flow.mean_packet for flow in flows]),
            capacity=network.capacities,
            buffer=8.0 * network.buffers,
        )

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.members)

    @property
    def n_links(self) -> int:
        """Number of links."""
        return len(self.capacity)

    def floor(self, protocol: Protocol) -> FloatArray:
        """Return what each flow of a group sends at least, bits an RTT: its protocol's `floor`, in packets.

        Parameters
            protocol : Protocol.
        """
        return protocol.params().get("floor", 0.0) * 8.0 * self.packet_size

    def spread(self, values: NDArray[np.float64]) -> FloatArray:
        """Return what belongs to groups, in the last axis, for every flow.

        Parameters
            values : shape (..., n_groups).
        """
        found: FloatArray = values[..., self.group_of]
        return found
