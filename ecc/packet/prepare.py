"""From a scenario to what the packet engines read: arrays of links and flows, routes, records, parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.models.base import Protocol
from ecc.native import new_flows, new_links, picoseconds
from ecc.network import Flow
from ecc.scenario import Scenario

__all__ = ["Setup", "prepare", "record_dtype"]

STARTS = ("empty", "equilibrium")


def record_dtype(record: type) -> np.dtype[np.void]:
    """Return the dtype of a record that a protocol declares: float fields are float64, int fields int64.

    Parameters
        record : dataclass with float and int fields.
    Raises
        TypeError: a field of another type.
    """
    kinds = {"float": "f8", "int": "i8", float: "f8", int: "i8"}
    for f in fields(record):
        if f.type not in kinds:
            raise TypeError(f"{record.__name__}.{f.name} must be float or int, got {f.type!r}")
    return np.dtype([(f.name, kinds[f.type]) for f in fields(record)])


@dataclass(frozen=True)
class Setup:
    """What both packet engines start from; hooks and addresses are not in it yet.

    `links`, `flows`: dtypes LINK and FLOW of ecc.native; `routes`: as the engine reads them; `link_states`,
    `flow_states`: records; `params`: shape (1,); `transfers`: all flows, those of the network first; `held_until` [s]:
    when the routers' clocks begin.
    """

    protocol: Protocol
    links: NDArray[np.void]
    flows: NDArray[np.void]
    routes: NDArray[np.int64]
    link_states: NDArray[np.void]
    flow_states: NDArray[np.void]
    params: NDArray[np.void]
    header: np.dtype[np.void]
    transfers: list[Flow]
    held_until: float


def prepare(scenario: Scenario, start: str = "empty", perturb: float = 0.0) -> Setup:
    """Return the arrays and records of a run.

    Parameters
        scenario : Scenario.
        start : "empty": nothing has been sent and the routers' clocks tick at random phases. "equilibrium": flows send
            at the protocol's equilibrium and routers announce it, both times 1 + perturb, and control begins once the
            pipes are full.
        perturb : float, > -1.
    Returns
        Setup.
    Raises
        ValueError: an unknown start, or a fixed assignment for a protocol whose flows cannot hold one.
    """
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(map(repr, STARTS))}, got {start!r}")
    if not np.isfinite(perturb) or perturb <= -1.0 or (perturb != 0.0 and start != "equilibrium"):
        raise ValueError(f"perturb must be > -1, and 0 unless start='equilibrium', got {perturb!r}")
    network, protocol = scenario.network, scenario.protocol
    rng = np.random.default_rng(scenario.seed)
    transfers = [
        *network.flows,
        *(scenario.workload.draw(scenario.seed, scenario.duration) if scenario.workload else ()),
    ]
    links, flows = new_links(network.n_links), new_flows(len(transfers))
    links["capacity"] = network.capacities
    links["delay"] = picoseconds([link.delay for link in network.links])
    links["buffer"] = [-1 if link.buffer is None else link.buffer for link in network.links]
    links["wants_flow_queue"] = "flow_queue" in protocol.asks
    links["wants_random"] = "random" in protocol.asks

    flows["start"] = picoseconds([flow.start for flow in transfers])
    flows["stop"] = [-1 if flow.stop is None else picoseconds(flow.stop) for flow in transfers]
    flows["size"] = [-1 if flow.size is None else flow.size for flow in transfers]
    flows["packet_size"] = [flow.packet_size for flow in transfers]
    flows["opening_size"] = protocol.opening_size
    flows["access_delay"] = picoseconds([flow.access_delay for flow in transfers])
    flows["ack_delay"] = picoseconds(network.with_flows(transfers).ack_delays)
    flows["ack_delay"][: network.n_flows] = picoseconds(network.ack_delays)  # exact where rtts= said so
    flows["n_forward"] = [len(flow.route) for flow in transfers]
    flows["n_reverse"] = [len(flow.reverse or ()) for flow in transfers]
    flows["wants_random"] = "random" in protocol.asks
    routes = np.array([k for flow in transfers for k in (*flow.route, *(flow.reverse or ()))], dtype=np.int64)

    link_states = _records(protocol.LinkState, network.n_links)
    flow_states = _records(protocol.FlowState, len(transfers))
    names = flow_states.dtype.names or ()
    flows["bottleneck"] = flow_states.dtype.fields["bottleneck"][1] if "bottleneck" in names else -1  # type: ignore[index]
    values = protocol.params()
    params = np.array([tuple(values.values())], dtype=[(name, "f8") for name in values])

    held = _place(scenario, flows, link_states, flow_states, perturb, rng) if start == "equilibrium" else 0.0
    if scenario.assignment is not None:
        if "assigned" not in names:
            raise ValueError(f"assignment must be None: flows of {type(protocol).__name__} cannot hold one")
        flow_states["assigned"][: network.n_flows] = scenario.assignment
    interval = values.get("interval", 0.0)
    links["first_interval"] = picoseconds(held + interval * (1.0 - rng.random(network.n_links))) if interval else -1
    return Setup(
        protocol, links, flows, routes, link_states, flow_states, params, record_dtype(protocol.Header), transfers, held
    )


def _records(record: type, count: int) -> NDArray[np.void]:
    """`count` records with the defaults of the dataclass."""
    first = record()
    out = np.zeros(count, record_dtype(record))
    for f in fields(record):
        out[f.name] = getattr(first, f.name)
    return out


def _place(
    scenario: Scenario,
    flows: NDArray[np.void],
    link_states: NDArray[np.void],
    flow_states: NDArray[np.void],
    perturb: float,
    rng: np.random.Generator,
) -> float:
    """Put links and flows at the (disturbed) equilibrium; the time until which the routers' clocks wait."""
    network, protocol = scenario.network, scenario.protocol
    point = protocol.equilibrium(network, scenario.assigned)
    factor = 1.0 + perturb
    crosses = network.incidence
    for link in range(network.n_links):
        through = crosses[:, link]
        if not through.any():
            continue
        weight, rtts = point.rates[through], network.rtts[through]
        fair = min(float(point.fair_rate[link]), float(network.capacities[link]))
        state = protocol.link_at(
            factor * fair, factor * float(weight.sum()), float(weight @ rtts / weight.sum()), float(rtts.max())
        )
        link_states[link] = _tuple(state)
    flows["opening_size"][: network.n_flows] = 0  # these flows are under way
    gaps = 8.0 * flows["packet_size"][: network.n_flows] / (factor * point.rates)
    flows["start"][: network.n_flows] = picoseconds(gaps * rng.random(network.n_flows))
    for flow, (rate, link) in enumerate(zip(point.rates, point.bottleneck, strict=True)):
        flow_states[flow] = _tuple(protocol.flow_at(factor * rate, factor * float(point.fair_rate[link]), int(link)))
    return float(np.nanmax(network.forward_delays) + 2.0 * gaps.max())


def _tuple(state: Any) -> tuple[Any, ...]:
    return tuple(getattr(state, f.name) for f in fields(state))
