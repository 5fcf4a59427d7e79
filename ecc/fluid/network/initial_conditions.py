"""How a fluid run begins: what routers keep and say, what flows send, and from when on either is heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.network.groups import LEAST, FluidNetwork
from ecc.fluid.network.laws import CompiledLaws
from ecc.models.base import Equilibrium, Protocol

__all__ = ["MEASURED", "InitialConditions"]

MEASURED = ("y", "u", "N", "N_all", "d")
"""What routers measure, in the order of `InitialConditions.measured`; named as the arguments of laws."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class InitialConditions:
    """The state at time 0, and before it where a run begins at an equilibrium.

    A crossing is a flow group and a link of its route, in the order of the groups. `voice` (n_crossings,): which voice
    speaks to a crossing; `told` (n_voices,): what it says; `speaks` (n_crossings,) [s]: when first a router that has
    measured something stamps a header there. For each link: `state`, within `least` and `most`; `priority`; `queue`
    [bit]; and `measured` (len(MEASURED), n_links). For each group: `x` [bit/s]; `rtt` [s], the waits in these queues
    included; `opens` [s], when it begins to send; `follows`, the link that its packets follow, -1: none yet.
    `measures_first`: whether routers say nothing before they have measured something; `greets`: whether they announce a
    rate (of `initial` times their capacity) from the start.
    """

    voice: NDArray[np.int64]
    told: FloatArray
    speaks: FloatArray
    state: FloatArray
    least: FloatArray
    most: FloatArray
    priority: FloatArray
    queue: FloatArray
    measured: FloatArray
    x: FloatArray
    rtt: FloatArray
    opens: FloatArray
    follows: NDArray[np.int64]
    measures_first: bool
    greets: bool

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        laws: CompiledLaws,
        fluid: FluidNetwork,
        point: Equilibrium | None = None,
        factor: float = 1.0,
    ) -> InitialConditions:
        """Return the beginning of a run.

        Parameters
        ----------
        protocol : Protocol
        laws : CompiledLaws
            CompiledLaws of it.
        fluid : FluidNetwork
        point : Equilibrium, optional
            Equilibrium that has held for ever, its rates and the routers' states times `factor`; None: an empty
            network, routers with a state at `initial` times their capacity (where the protocol has no such parameter,
            the most they may be, or the least), flows at their opening rate.
        factor : float, > 0, optional
        """
        first = {g: i for i, g in reversed(list(enumerate(fluid.group_of)))}
        owner = np.repeat(np.arange(fluid.n_groups), [len(route) for route in fluid.routes])
        links = np.concatenate(fluid.routes).astype(np.int64)
        voice = np.arange(len(links)) if laws.by_flow else links
        params = protocol.params()
        keeps = laws.remembers and not laws.announce
        greets = keeps and protocol.initial is not None
        least, most = _range(protocol, fluid, greets)
        rest = np.where(np.isfinite(most), most, least)  # of a link that nobody follows
        if point is None:
            state = np.clip((protocol.initial or 0.0) * fluid.capacity, least, most) if greets else rest
            x = np.broadcast_to(protocol.opening_rate(fluid.rtt, 8.0 * fluid.packet_size), fluid.rtt.shape)
            waits = greets & (fluid.steady == 0.0)
            opens = fluid.start + np.where(waits, fluid.rtt, 0.0)
        else:
            groups = [first[g] for g in range(fluid.n_groups)]
            x = factor * point.rates[groups]
            followed = np.isfinite(point.fair_rate)
            state = np.where(followed, np.clip(factor * point.fair_rate, least, most), rest)
            opens = np.full(fluid.n_groups, -np.inf)
        told = np.zeros(len(links) if laws.by_flow else fluid.n_links)
        speaks, priority = np.full(len(links), -np.inf), np.zeros(fluid.n_links)
        measured = np.zeros((len(MEASURED), fluid.n_links))
        if keeps:
            told[:] = state
        if point is None and not greets:
            speaks = fluid.start[owner] + np.concatenate(fluid.forward)
            if not keeps:
                first_arrival = np.array([speaks[links == link].min() for link in links])
                speaks = np.maximum(speaks, first_arrival + float(params["interval"]))
        queue = np.zeros(fluid.n_links) if point is None or point.queue is None else np.array(point.queue, dtype=float)
        waits = queue / fluid.capacity
        rtt = fluid.rtt + np.array([waits[list(route)].sum() for route in fluid.routes])
        if point is None:
            nobody = np.full(fluid.n_groups, -1, dtype=np.int64)
            return cls(
                voice, told, speaks, state, least, most, priority, queue, measured, x, rtt, opens, nobody, not keeps,
                greets,
            )  # fmt: skip
        law = protocol.announce_law or protocol.router_law
        p = protocol.namespace()
        for link in np.unique(links):
            through = np.flatnonzero(links == link)
            members, rates = fluid.members[owner[through]], x[owner[through]]
            mine = np.array([point.bottleneck[first[g]] in (link, -1) for g in owner[through]])
            rtts = rtt[owner[through]]
            weights = members * (1.0 if protocol.rtt_weights == "flows" else rates)
            mean = rtts.max() if protocol.scaling_rtt == "max" else np.average(rtts, weights=weights)
            load = float(members @ rates)
            measured[:, link] = load, (members * rates)[~mine].sum(), members[mine].sum(), members.sum(), mean
            supply: dict[str, Any] = {
                **dict(zip(MEASURED, measured[:, link].tolist(), strict=True)),
                "y_prev": load, "q": float(queue[link]), "C": float(fluid.capacity[link]),
                "T": float(params["interval"]), "R": float(state[link]), "p": p,
            }  # fmt: skip
            supply["u"] *= min(1.0, supply["N"])
            supply["N"] = max(1.0, supply["N"])
            if protocol.priority_law is not None:
                priority[link] = protocol.priority_law(**{name: supply[name] for name in laws.wants["priority"]})
            if not keeps:
                for crossing in through:
                    supply["x"] = float(x[owner[crossing]])
                    told[voice[crossing]] = law(
                        **{name: supply[name] for name in laws.wants["announce" if laws.announce else "router"]}
                    )
        follows = point.bottleneck[[first[g] for g in range(fluid.n_groups)]]
        return cls(
            voice, told, speaks, state, least, most, priority, queue, measured, x, rtt, opens, follows, False, greets
        )


def _range(protocol: Protocol, fluid: FluidNetwork, rates: bool) -> tuple[FloatArray, FloatArray]:
    """The least and the largest state of the routers: the protocol's range, rates from its `floor` upwards."""
    span = np.array([protocol.rate_range(float(C)) for C in fluid.capacity])
    crosses = np.array([[link in route for link in range(fluid.n_links)] for route in fluid.routes], dtype=float)
    through = fluid.members @ crosses
    floors = fluid.members * fluid.floor(protocol) / np.maximum(fluid.rtt, 1e-300) @ crosses
    per_flow = np.divide(floors, through, out=np.zeros(fluid.n_links), where=through > 0.0)
    least = span[:, 0]
    if rates:  # none is lost in zero
        least = np.maximum(np.maximum(least, per_flow), LEAST * fluid.capacity)
    return np.minimum(least, span[:, 1]), span[:, 1]
