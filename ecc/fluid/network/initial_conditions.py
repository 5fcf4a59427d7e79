"""Initial conditions of a fluid run: states and signals of routers, rates of flows, and the times of their start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
        owner = np.repeat(np.arange(fluid.n_groups), [len(route) for route in fluid.routes])
        links = np.concatenate(fluid.routes).astype(np.int64)
        signal = np.arange(len(links)) if laws.by_flow else links
        params = protocol.params()
        keeps = laws.remembers and not laws.announce
        announces_first = keeps and protocol.initial is not None
        lowest, highest = _range(protocol, fluid, announces_first)
        unused = np.where(np.isfinite(highest), highest, lowest)  # state of a link that is not a bottleneck
        if point is None:
            state = np.clip((protocol.initial or 0.0) * fluid.capacity, lowest, highest) if announces_first else unused
            x = np.broadcast_to(protocol.opening_rate(fluid.rtt, 8.0 * fluid.packet_size), fluid.rtt.shape)
            waits = announces_first & (fluid.steady == 0.0)
            opens = fluid.start + np.where(waits, fluid.rtt, 0.0)
        else:
            x = factor * point.rates[fluid.first_flow]
            used = np.isfinite(point.fair_rate)
            state = np.where(used, np.clip(factor * point.fair_rate, lowest, highest), unused)
            opens = np.full(fluid.n_groups, -np.inf)
        advertised = np.zeros(len(links) if laws.by_flow else fluid.n_links)
        advertises_from, priority = np.full(len(links), -np.inf), np.zeros(fluid.n_links)
        measured = np.zeros((len(MEASURED), fluid.n_links))
        if keeps:
            advertised[:] = state
        if point is None and not announces_first:
            advertises_from = fluid.start[owner] + np.concatenate(fluid.forward)
            if not keeps:
                first_arrival = np.full(fluid.n_links, np.inf)
                np.minimum.at(first_arrival, links, advertises_from)
                advertises_from = np.maximum(advertises_from, first_arrival[links] + float(params["interval"]))
        queue = np.zeros(fluid.n_links) if point is None or point.queue is None else np.array(point.queue, dtype=float)
        rtt = fluid.rtt
        if queue.any():
            waits = queue / fluid.capacity
            rtt = rtt + np.array([waits[list(route)].sum() for route in fluid.routes])
        if point is None:
            no_link = np.full(fluid.n_groups, -1, dtype=np.int64)
            return cls(
                signal,
                advertised,
                advertises_from,
                state,
                lowest,
                highest,
                priority,
                queue,
                measured,
                x,
                rtt,
                opens,
                no_link,
                not keeps,
                announces_first,
            )
        law = protocol.announce_law or protocol.router_law
        p = protocol.namespace()
        for link in np.unique(links):
            through = np.flatnonzero(links == link)
            members, rates = fluid.members[owner[through]], x[owner[through]]
            bottlenecked = np.array([point.bottleneck[flow] in (link, -1) for flow in fluid.first_flow[owner[through]]])
            rtts = rtt[owner[through]]
            weights = members * (1.0 if protocol.rtt_weights == "flows" else rates)
            mean = rtts.max() if protocol.scaling_rtt == "max" else np.average(rtts, weights=weights)
            load = float(members @ rates)
            measured[:, link] = (
                load,
                (members * rates)[~bottlenecked].sum(),
                members[bottlenecked].sum(),
                members.sum(),
                mean,
            )
            supply: dict[str, Any] = {
                **dict(zip(MEASURED, measured[:, link].tolist(), strict=True)),
                "y_prev": load,
                "q": float(queue[link]),
                "C": float(fluid.capacity[link]),
                "T": float(params["interval"]),
                "R": float(state[link]),
                "p": p,
            }
            supply["u"] *= min(1.0, supply["N"])
            supply["N"] = max(1.0, supply["N"])
            if protocol.priority_law is not None:
                priority[link] = call_law(protocol.priority_law, supply)
            if not keeps:
                for crossing in through:
                    supply["x"] = float(x[owner[crossing]])
                    advertised[signal[crossing]] = call_law(law, supply)
        bottleneck = point.bottleneck[fluid.first_flow]
        return cls(
            signal,
            advertised,
            advertises_from,
            state,
            lowest,
            highest,
            priority,
            queue,
            measured,
            x,
            rtt,
            opens,
            bottleneck,
            False,
            announces_first,
        )


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
