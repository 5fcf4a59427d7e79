"""A network as fluid: groups of equal flows, and the delays between them and the links."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import shown
from ecc.contract.protocol import Protocol
from ecc.network.impairments import CapacitySchedule, RandomLoss, flows_of
from ecc.network.network import Network
from ecc.scenario import Scenario

__all__ = ["MIN_SHARE", "FluidNetwork", "StepDelays", "step_delays"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MIN_SHARE = 1e-9  # minimum rate that a router announces, as a share of the capacity: a rate of zero could not grow


@dataclass(frozen=True)
class FluidNetwork:
    """Groups of equal flows: their rates are equal, so that each group is computed once.

    `members` (n_groups,): flows in the group; `group_of` (n_flows,), -1 for idle flows, which have no group. For each
    group g: `routes[g]`, the links that it crosses; `responds[g]`, whether it responds to each; `forward[g]`, the delay
    from the sender to the queue of each; `backward[g]`, the delay from there back to the sender; `wire`, the delay of
    the last link; `rtt`, `start`, `stop` (inf), `size` [bit] (inf), `packet_size` [bytes]; `acknowledged` [bytes], by
    an ACK; `steady` [bit/s], the rate of unresponsive flows, else 0. Random losses leave the share `reaches[g]` of the
    data sent for the queue of each link, `survives` for the receiver, and `acks_kept` of the ACKs. The `capacity` of
    each link changes to `changes[link][1]` at the times `changes[link][0]`.
    """

    members: FloatArray
    group_of: IntArray
    routes: list[tuple[int, ...]]
    responds: list[NDArray[np.bool_]]
    forward: list[FloatArray]
    backward: list[FloatArray]
    rtt: FloatArray
    wire: FloatArray
    start: FloatArray
    stop: FloatArray
    size: FloatArray
    packet_size: FloatArray
    acknowledged: FloatArray
    steady: FloatArray
    reaches: list[FloatArray]
    survives: FloatArray
    acks_kept: FloatArray
    capacity: FloatArray
    buffer: FloatArray  # [bit]
    changes: list[tuple[FloatArray, FloatArray]]

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        separate: bool = False,
        steady: FloatArray | None = None,
        unlike: Sequence[Hashable] | None = None,
        idle: NDArray[np.bool_] | None = None,
    ) -> FluidNetwork:
        """Return the groups of a scenario's network.

        Parameters
        ----------
        scenario : Scenario
            Scenario without impairments other than random losses and schedules of capacities.
        separate : bool, optional
            Whether every flow is a separate group.
        steady : ndarray, shape (n_flows,), bit/s, optional
            Rates of unresponsive flows, 0 for others; None: no such flows.
        unlike : sequence, optional
            Further key of each flow: flows with different keys are in different groups.
        idle : ndarray, shape (n_flows,), optional
            Flows that never send, which are left out: steps and tolerances do not depend on them. None: no such flows.
        """
        network = scenario.network
        unresponsive = np.zeros(network.n_flows) if steady is None else steady
        pass_shares, acks_kept = np.ones(network.n_links), np.ones(network.n_flows)
        changes = [(np.empty(0), np.empty(0))] * network.n_links
        for loss in scenario.impairments:
            if isinstance(loss, CapacitySchedule):
                changes[loss.link] = np.array(loss.times, dtype=float), np.array(loss.capacities, dtype=float)
                continue
            assert isinstance(loss, RandomLoss)
            if loss.link is not None:
                pass_shares[loss.link] = 1.0 - loss.probability
            acks_kept[list(flows_of(loss, network.n_flows))] = 1.0 - loss.probability
        assigned = scenario.assignment
        keys: dict[tuple[object, ...], int] = {}
        first: list[int] = []
        group_of = np.full(network.n_flows, -1)
        for i in _in_order(network, idle):
            flow = network.flows[i]
            delays = tuple(network.forward_delays[i, list(flow.route)])
            key = (
                i if separate else None,
                flow.route,
                delays,
                network.rtts[i],
                flow.start,
                flow.stop,
                flow.size,
                flow.packet_size,
                flow.mean_acknowledged,
                unresponsive[i],
                acks_kept[i],
                0 if assigned is None else assigned[i],
                None if unlike is None else unlike[i],
            )
            if key not in keys:
                keys[key] = len(keys)
                first.append(i)
            group_of[i] = keys[key]
        flows = [network.flows[i] for i in first]
        routes = [tuple(flow.route) for flow in flows]

        def or_inf(values: list[float | None], factor: float = 1.0) -> FloatArray:
            return np.array([np.inf if value is None else factor * value for value in values])

        return cls(
            members=np.bincount(group_of[group_of >= 0]).astype(float),
            group_of=group_of,
            routes=routes,
            responds=[
                np.full(len(route), True) if assigned is None else np.array(route) == assigned[i]
                for i, route in zip(first, routes, strict=True)
            ],
            forward=[network.forward_delays[i, list(route)] for i, route in zip(first, routes, strict=True)],
            backward=[network.backward_delays[i, list(route)] for i, route in zip(first, routes, strict=True)],
            rtt=network.rtts[first],
            wire=np.array([network.links[route[-1]].delay for route in routes]),
            start=np.array([flow.start for flow in flows]),
            stop=or_inf([flow.stop for flow in flows]),
            size=or_inf([flow.size for flow in flows], 8.0),
            steady=unresponsive[first],
            reaches=[np.cumprod([1.0, *pass_shares[list(route)]])[:-1] for route in routes],
            survives=np.array([pass_shares[list(route)].prod() for route in routes]),
            acks_kept=acks_kept[first],
            packet_size=np.array([flow.mean_packet for flow in flows]),
            acknowledged=np.array([flow.mean_acknowledged for flow in flows]),
            capacity=network.capacities,
            buffer=8.0 * network.buffers,
            changes=changes,
        )

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.members)

    @property
    def n_links(self) -> int:
        """Number of links."""
        return len(self.capacity)

    @cached_property
    def crosses(self) -> FloatArray:
        """Shape (n_groups, n_links): 1 if the link is on the group's route, else 0."""
        return np.array([[link in route for link in range(self.n_links)] for route in self.routes], dtype=float)

    @property
    def min_count(self) -> FloatArray:
        """Shape (n_links,): minimum count of a flow at a link that counts its packets, which random losses reduce."""
        counts = np.ones(self.n_links)
        for route, reaches in zip(self.routes, self.reaches, strict=True):
            counts[list(route)] = np.minimum(counts[list(route)], reaches)
        return np.maximum(counts, MIN_SHARE)

    def capacities(self, link: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (times, capacities, known capacities) of a link, for 0 s and each change.

        Parameters
        ----------
        link : int
            Index of the link. In an outage routers know the capacity before it.
        """
        times, values = (
            np.concatenate([[first], rest])
            for first, rest in zip((0.0, self.capacity[link]), self.changes[link], strict=True)
        )
        known = values.copy()
        for k in range(1, len(known)):
            known[k] = known[k] if known[k] > 0.0 else known[k - 1]
        return times, values, known

    def service(self, times: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return, shape (n_links, n_times): bits that links can have served since 0 s, and the known capacity.

        Parameters
        ----------
        times : array_like, shape (n_times,), s
            Times; before 0 s capacities are those of the links.
        """
        when = np.asarray(times, dtype=float)
        served, known = np.empty((2, self.n_links, len(when)))
        for link in range(self.n_links):
            begins, values, knows = self.capacities(link)
            levels = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(begins))])
            k = np.maximum(np.searchsorted(begins, when, side="right") - 1, 0)
            served[link], known[link] = levels[k] + values[k] * (when - begins[k]), knows[k]
        return served, known

    def floor(self, protocol: Protocol) -> FloatArray:
        """Return the minimum rate of each flow of a group, in bits an RTT: its protocol's `floor`, in packets.

        Parameters
        ----------
        protocol : Protocol
        """
        return protocol.floor * 8.0 * self.packet_size

    def mean_floor(self, protocol: Protocol) -> FloatArray:
        """Return for each link the mean of `floor` over the flows that cross it, 0 without such flows.

        Parameters
        ----------
        protocol : Protocol
        """
        floor, n_flows = np.zeros(self.n_links), np.full(self.n_links, 1e-300)
        for route, members, floor_of_flow in zip(self.routes, self.members, self.floor(protocol), strict=True):
            floor[list(route)] += members * floor_of_flow
            n_flows[list(route)] += members
        means: FloatArray = floor / n_flows
        return means

    @cached_property
    def active(self) -> IntArray:
        """Shape (n_active,): the flows that have a group."""
        return np.flatnonzero(self.group_of >= 0)

    @cached_property
    def first_flow(self) -> IntArray:
        """Shape (n_groups,): the first flow of each group."""
        first: IntArray = self.active[np.unique(self.group_of[self.active], return_index=True)[1]]
        return first

    def spread(self, values: NDArray[Any], idle: float = 0.0) -> NDArray[Any]:
        """Return the values of groups, in the last axis, for every flow.

        Parameters
        ----------
        values : ndarray, shape (..., n_groups)
        idle : float, optional
            Value of flows that have no group.
        """
        by_flow: NDArray[Any] = values[..., self.group_of]
        by_flow[..., self.group_of < 0] = idle
        return by_flow


def _in_order(network: Network, idle: NDArray[np.bool_] | None) -> list[int]:
    """Return the flows that are not idle, in an order that does not depend on the labels of flows or links.

    Sums over flows are then the same to the last bit for any labels.
    """

    def place(i: int) -> tuple[float, ...]:
        flow = network.flows[i]
        stop, size = (np.inf if value is None else float(value) for value in (flow.stop, flow.size))
        along = [value for k in flow.route for value in (network.capacities[k], network.forward_delays[i, k])]
        return (network.rtts[i], flow.start, stop, size, flow.mean_packet, flow.mean_acknowledged, *along)

    return sorted((i for i in range(network.n_flows) if idle is None or not idle[i]), key=place)


@dataclass(frozen=True)
class StepDelays:
    """Delays of a recurrence at each crossing, shape (period, n_crossings), in steps: `ahead` >= 0 and `back` >= 1.

    `longest` (n_groups,): maximum number of steps of a round trip.
    """

    ahead: IntArray
    back: IntArray
    longest: IntArray


def step_delays(delays: tuple[ArrayLike, ArrayLike], fluid: FluidNetwork) -> StepDelays:
    """Return the delays of a recurrence from arrays (forward, backward) over (period, n_flows, n_links).

    Parameters
    ----------
    delays : tuple of two array_like
        Integers that broadcast to that shape.
    fluid : FluidNetwork
        Network in which every flow is a group.

    Raises
    ------
    ValueError
        If there are not two arrays, if a shape does not fit, or if numbers are not integers or are too small.
    """
    if not isinstance(delays, tuple) or len(delays) != 2:
        raise ValueError(f"delays must be (forward, backward), got {shown(delays)}")
    owner = np.repeat(np.arange(fluid.n_groups), [len(route) for route in fluid.routes])
    links = np.concatenate(fluid.routes).astype(np.int64)
    tables = []
    for name, delay, lowest in zip(("forward", "backward"), delays, (0, 1), strict=True):
        table = np.asarray(delay)
        if not np.issubdtype(table.dtype, np.integer) or np.any(table < lowest):
            raise ValueError(f"{name} delays must be integers >= {lowest}, got {shown(delay)}")
        period = len(table) if table.ndim == 3 else 1
        try:
            full_table = np.broadcast_to(table, (period, fluid.n_groups, fluid.n_links))
        except ValueError:
            raise ValueError(
                f"{name} delays must broadcast to (period, {fluid.n_groups}, {fluid.n_links}), got {table.shape}"
            ) from None
        tables.append(full_table[:, fluid.first_flow[owner], links].astype(np.int64))
    ahead, back = tables
    period = int(np.lcm(len(ahead), len(back)))
    ahead, back = (np.tile(table, (period // len(table), 1)) for table in (ahead, back))
    trips = ahead.max(axis=0) + back.max(axis=0)
    longest = np.zeros(fluid.n_groups, dtype=np.int64)
    np.maximum.at(longest, owner, trips)
    return StepDelays(ahead, back, longest)
