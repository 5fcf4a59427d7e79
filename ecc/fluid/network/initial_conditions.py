"""Initial conditions of a fluid run: states and signals of routers, rates of flows, and the times of their start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.equilibrium import Equilibrium
from ecc.contract.protocol import Protocol
from ecc.fluid.network.groups import MIN_SHARE, FluidNetwork
from ecc.fluid.network.laws import CompiledLaws
from ecc.laws.arguments import call_law

__all__ = ["MEASURED", "InitialConditions"]

MEASURED = ("y", "u", "N", "N_all", "d")
"""Quantities that routers measure, in the order of `InitialConditions.measured`; named as the arguments of laws."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class InitialConditions:
    """The state at time 0, and before it if a run begins at an equilibrium.

    A crossing is a flow group and a link of its route, in the order of the groups. `signal` (n_crossings,): index of
    the signal that a crossing reads; `advertised` (n_signals,): its value; `advertises_from` (n_crossings,) [s]: time
    at which a router, after its first measurement, first stamps a header there. For each link: `state`, from `lowest`
    to `highest`; `priority`; `queue` [bit]; and `measured` (len(MEASURED), n_links). For each group: `x` [bit/s]; `rtt`
    [s], with the queueing delays; `opens` [s], time at which it begins to send; `bottleneck`, a link, -1 if there is
    none yet. `measures_first`: whether routers advertise nothing before their first measurement; `announces_first`:
    whether they announce a rate, `initial` times their capacity, from the start.
    """

    signal: NDArray[np.int64]
    advertised: FloatArray
    advertises_from: FloatArray
    state: FloatArray
    lowest: FloatArray
    highest: FloatArray
    priority: FloatArray
    queue: FloatArray
    measured: FloatArray
    x: FloatArray
    rtt: FloatArray
    opens: FloatArray
    bottleneck: NDArray[np.int64]
    measures_first: bool
    announces_first: bool

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        laws: CompiledLaws,
        fluid: FluidNetwork,
        point: Equilibrium | None = None,
        factor: float = 1.0,
    ) -> InitialConditions:
        """Return the initial conditions of a run.

        Parameters
        ----------
        protocol : Protocol
        laws : CompiledLaws
            Laws of this protocol.
        fluid : FluidNetwork
        point : Equilibrium, optional
            Equilibrium for all t < 0; its rates and the routers' states are multiplied by `factor`. None: an empty
            network, routers with a state at `initial` times their capacity (if the protocol has no such parameter, at
            the maximum of their range, or at the minimum if the maximum is infinite), flows at their opening rate.
        factor : float, > 0, optional
            Perturbation of the equilibrium, for example 1.1.
        """
        crossings = _Crossings.of(fluid)
        signal = np.arange(len(crossings.link)) if laws.by_flow else crossings.link
        keeps = laws.remembers and not laws.announce
        announces_first = keeps and protocol.initial is not None
        lowest, highest = _range(protocol, fluid, announces_first)
        unused = np.where(np.isfinite(highest), highest, lowest)  # state of a link that is not a bottleneck
        advertises_from = np.full(len(crossings.link), -np.inf)
        if point is None:
            state = np.clip((protocol.initial or 0.0) * fluid.capacity, lowest, highest) if announces_first else unused
            x = np.broadcast_to(protocol.opening_rate(fluid.rtt, 8.0 * fluid.packet_size), fluid.rtt.shape)
            waits = announces_first & (fluid.steady == 0.0)
            opens = fluid.start + np.where(waits, fluid.rtt, 0.0)
            bottleneck = np.full(fluid.n_groups, -1, dtype=np.int64)
            if not announces_first:
                advertises_from = _first_stamps(fluid, crossings, None if keeps else protocol.params()["interval"])
        else:
            x = factor * point.rates[fluid.first_flow]
            used = np.isfinite(point.fair_rate)
            state = np.where(used, np.clip(factor * point.fair_rate, lowest, highest), unused)
            opens = np.full(fluid.n_groups, -np.inf)
            bottleneck = point.bottleneck[fluid.first_flow]
        queue = np.zeros(fluid.n_links) if point is None or point.queue is None else np.array(point.queue, dtype=float)
        begin = cls(
            signal=signal,
            advertised=np.zeros(len(crossings.link) if laws.by_flow else fluid.n_links),
            advertises_from=advertises_from,
            state=state,
            lowest=lowest,
            highest=highest,
            priority=np.zeros(fluid.n_links),
            queue=queue,
            measured=np.zeros((len(MEASURED), fluid.n_links)),
            x=x,
            rtt=_rtt_with_queues(fluid, queue),
            opens=opens,
            bottleneck=bottleneck,
            measures_first=point is None and not keeps,
            announces_first=announces_first,
        )
        if keeps:
            begin.advertised[:] = state
        if point is not None:
            begin._measure(protocol, fluid, crossings, point)
            begin._call_laws(protocol, fluid, crossings, keeps)
        return begin

    def _measure(self, protocol: Protocol, fluid: FluidNetwork, crossings: _Crossings, point: Equilibrium) -> None:
        """Set what the routers measure at an equilibrium."""
        for link in np.unique(crossings.link):
            group = crossings.group[crossings.link == link]
            members, rates, rtts = fluid.members[group], self.x[group], self.rtt[group]
            bottlenecked = np.array([point.bottleneck[flow] in (link, -1) for flow in fluid.first_flow[group]])
            weights = members * (1.0 if protocol.rtt_weights == "flows" else rates)
            mean = rtts.max() if protocol.scaling_rtt == "max" else np.average(rtts, weights=weights)
            self.measured[:, link] = (
                float(members @ rates),
                (members * rates)[~bottlenecked].sum(),
                members[bottlenecked].sum(),
                members.sum(),
                mean,
            )

    def _call_laws(self, protocol: Protocol, fluid: FluidNetwork, crossings: _Crossings, keeps: bool) -> None:
        """Set the priorities and, unless the routers advertise the state that they keep, the advertised values."""
        law = protocol.announce_law or protocol.router_law
        p, interval = protocol.namespace(), float(protocol.params()["interval"])
        for link in np.unique(crossings.link):
            measured = dict(zip(MEASURED, self.measured[:, link].tolist(), strict=True))
            supply: dict[str, Any] = {
                **measured,
                "u": measured["u"] * min(1.0, measured["N"]),
                "N": max(1.0, measured["N"]),
                "y_prev": measured["y"],
                "q": float(self.queue[link]),
                "C": float(fluid.capacity[link]),
                "T": interval,
                "R": float(self.state[link]),
                "p": p,
            }
            if protocol.priority_law is not None:
                self.priority[link] = call_law(protocol.priority_law, supply)
            if not keeps:
                for crossing in np.flatnonzero(crossings.link == link):
                    supply["x"] = float(self.x[crossings.group[crossing]])
                    self.advertised[self.signal[crossing]] = call_law(law, supply)


class _Crossings(NamedTuple):
    """Group and link of each crossing."""

    group: NDArray[np.int64]
    link: NDArray[np.int64]

    @classmethod
    def of(cls, fluid: FluidNetwork) -> _Crossings:
        group = np.repeat(np.arange(fluid.n_groups), [len(route) for route in fluid.routes])
        return cls(group, np.concatenate(fluid.routes).astype(np.int64))


def _first_stamps(fluid: FluidNetwork, crossings: _Crossings, interval: float | None) -> FloatArray:
    """Return when routers first stamp headers: at the first arrival, or an interval after the first of all flows."""
    arrival = fluid.start[crossings.group] + np.concatenate(fluid.forward)
    if interval is None:
        return arrival
    first_arrival = np.full(fluid.n_links, np.inf)
    np.minimum.at(first_arrival, crossings.link, arrival)
    return np.maximum(arrival, first_arrival[crossings.link] + float(interval))


def _rtt_with_queues(fluid: FluidNetwork, queue: FloatArray) -> FloatArray:
    """Return the RTTs of the groups with the queueing delays of their routes."""
    if not queue.any():
        return fluid.rtt
    delays = queue / fluid.capacity
    delay_of_route: FloatArray = np.array([delays[list(route)].sum() for route in fluid.routes])
    return fluid.rtt + delay_of_route


def _range(protocol: Protocol, fluid: FluidNetwork, rates: bool) -> tuple[FloatArray, FloatArray]:
    """Return the minimum and maximum state of the routers: the protocol's range, with rates from its `floor` up."""
    span = np.array([protocol.rate_range(float(C)) for C in fluid.capacity])
    through = fluid.members @ fluid.crosses
    floors = fluid.members * fluid.floor(protocol) / np.maximum(fluid.rtt, 1e-300) @ fluid.crosses
    per_flow = np.divide(floors, through, out=np.zeros(fluid.n_links), where=through > 0.0)
    lowest = span[:, 0]
    if rates:  # a rate of zero could not grow
        lowest = np.maximum(np.maximum(lowest, per_flow), MIN_SHARE * fluid.capacity)
    return np.minimum(lowest, span[:, 1]), span[:, 1]
