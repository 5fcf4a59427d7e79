"""From a scenario to what the packet engines read: arrays of links and flows, routes, records, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.arguments import shown
from ecc.impairments import CapacitySchedule, DelaySpikes, RandomLoss
from ecc.models.base import TRANSPORTS, Hook, Protocol, check_choice
from ecc.native import CHANGE, IMPAIRMENT, new_flows, new_links, new_transfers, picoseconds
from ecc.network import Flow
from ecc.quantity import LONGEST_TIME
from ecc.scenario import Scenario

__all__ = ["Part", "Setup", "prepare", "record_dtype"]

_MOST_PERTURBED = 1e6
STARTS = ("empty", "equilibrium")


def record_dtype(record: Any) -> np.dtype[np.void]:
    """Return the dtype of a record that a protocol declares: float fields are float64, int fields int64.

    Parameters
    ----------
    record : object
        Dataclass, or one of its instances, with fields that are float, int, or tuples of either: arrays, as long as the
        record's own.

    Raises
    ------
    TypeError
        A field of another type.
    """
    kinds = {"float": "f8", "int": "i8", "tuple[float, ...]": "f8", "tuple[int, ...]": "i8"}
    kinds |= {float: "f8", int: "i8", tuple[float, ...]: "f8", tuple[int, ...]: "i8"}  # type: ignore[dict-item]
    for f in fields(record):
        if f.type not in kinds:
            name = getattr(record, "__name__", type(record).__name__)
            raise TypeError(f"{name}.{f.name} must be float or int, or a tuple of either, got {shown(f.type)}")
    return np.dtype([(f.name, kinds[f.type], np.shape(getattr(record, f.name))) for f in fields(record)])  # type: ignore[index]


@dataclass(frozen=True)
class Part:
    """What runs one protocol: routers and flows by number, their records, and their region of the header.

    `link_states`, `link_params`: shape (len(routers),); `flow_states`: shape (len(flows),); `flow_params`: shape (1,).
    """

    protocol: Protocol
    header: np.dtype[np.void]
    header_offset: int
    routers: NDArray[np.int64]
    flows: NDArray[np.int64]
    link_states: NDArray[np.void]
    flow_states: NDArray[np.void]
    link_params: NDArray[np.void]
    flow_params: NDArray[np.void]

    def sides(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.void], NDArray[np.void], Mapping[str, Hook]]]:
        """Yield "links" and "flows" with the numbers, the states, the parameters and the hooks of either."""
        yield "links", self.routers, self.link_states, self.link_params, self.protocol.link_hooks()
        yield "flows", self.flows, self.flow_states, self.flow_params, self.protocol.flow_hooks()


@dataclass(frozen=True)
class Setup:
    """What both packet engines start from; hooks and addresses are not in it yet.

    `links` (additional routers behind `n_links` links), `flows` (templates of transfers behind `n_flows` flows):
    dtypes LINK and FLOW of ecc.native; `routes`: as the engine reads them; `parts`: the protocols; `header_size`
    [bytes] of all of them together; `record_size` [bytes] of a transfer; `held_until` [s]: when the routers' clocks
    begin; `ack_delays` [s]: of each template, beside the access delay of a transfer; `changes`, `impairments`: dtypes
    CHANGE and IMPAIRMENT, what links and flows refer to.
    """

    links: NDArray[np.void]
    flows: NDArray[np.void]
    routes: NDArray[np.int64]
    parts: list[Part]
    n_links: int
    n_flows: int
    header_size: int
    record_size: int
    held_until: float
    ack_delays: NDArray[np.float64]
    changes: NDArray[np.void]
    impairments: NDArray[np.void]

    @property
    def n_additional(self) -> int:
        """Number of additional routers."""
        return len(self.links) - self.n_links

    def transfers(self, drawn: NDArray[np.void]) -> NDArray[np.void]:
        """Return drawn transfers as the engines read them.

        Parameters
        ----------
        drawn : NDArray[void], shape (n,)
            Dtype ecc.workload.DRAWN.
        """
        out = new_transfers(len(drawn))
        waits = drawn["label"]["wait"]
        out["is_subsequent"] = waits >= 0.0
        out["start"] = picoseconds(np.where(out["is_subsequent"], waits, drawn["start"]))
        ends = np.isfinite(drawn["stop"])
        out["stop"][ends] = np.maximum(picoseconds(drawn["stop"][ends]), out["start"][ends] + 1)
        out["size"], out["template_index"], out["receiver_window"] = drawn["size"], drawn["kind"], drawn["window"]
        out["access_delay"] = picoseconds(drawn["access_delay"])
        out["ack_delay"] = picoseconds(drawn["access_delay"] + self.ack_delays[drawn["kind"]])
        return out


def prepare(scenario: Scenario, start: str = "empty", perturb: float = 0.0) -> Setup:
    """Return the arrays and records of a run.

    Parameters
    ----------
    scenario : Scenario
    start : str, optional
        "empty": nothing has been sent. "equilibrium": flows send at the protocol's equilibrium and routers announce it,
        both times 1 + perturb, and control begins once the pipes are full.
    perturb : float, > -1, optional

    Returns
    -------
    Setup

    Raises
    ------
    ValueError
        An unknown start, the equilibrium of several protocols or of links without their routers, or a fixed assignment
        for a protocol whose flows cannot hold one.
    """
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(map(repr, STARTS))}, got {shown(start)}")
    if not np.isfinite(perturb) or perturb <= -1.0 or (perturb != 0.0 and start != "equilibrium"):
        raise ValueError(f"perturb must be > -1, and 0 unless start='equilibrium', got {shown(perturb)}")
    if perturb > _MOST_PERTURBED:
        raise ValueError(f"perturb must be <= {_MOST_PERTURBED:g}, got {shown(perturb)}")
    network, deployment = scenario.network, scenario.deployment
    if start == "equilibrium" and len(deployment.protocols) > 1:
        raise ValueError(f"start must be 'empty' for several protocols, got 'equilibrium' for {deployment}")
    rng = np.random.default_rng(scenario.seed)
    templates = scenario.workload.templates if scenario.workload else []
    ends = [*network.flows, *templates]
    runs = [*deployment.flows, *deployment.templates]
    at, routers = _routers(deployment.links)

    links, flows = new_links(len(routers)), new_flows(len(ends))
    links["at"] = at
    of_links = links[: network.n_links]
    of_links["capacity"] = network.capacities
    of_links["delay"] = picoseconds([link.delay for link in network.links])
    of_links["buffer"] = [-1 if link.buffer is None else link.buffer for link in network.links]
    of_links["buffer_packets"] = [link.buffer_packets or 0 for link in network.links]

    flows["start"] = picoseconds([flow.start for flow in ends])
    flows["stop"] = [-1 if flow.stop is None else picoseconds(flow.stop) for flow in ends]
    flows["size"] = [-1 if flow.size is None else flow.size for flow in ends]
    flows["packet_size"] = [np.min(flow.packet_size) for flow in ends]
    flows["packet_size_max"] = [flow.largest_packet for flow in ends]
    flows["access_delay"] = picoseconds([flow.access_delay for flow in ends])
    ack_delays = network.with_flows(ends).ack_delays
    flows["ack_delay"] = picoseconds(ack_delays)
    flows["ack_delay"][: network.n_flows] = picoseconds(network.ack_delays)  # exact where rtts= said so
    if scenario.workload:
        flows["enables_subsequent"][network.n_flows :] = scenario.workload.followed
    flows["n_forward"] = [len(flow.route) for flow in ends]
    flows["n_reverse"] = [len(flow.reverse or ()) for flow in ends]
    flows["ack_every"], flows["ack_wait"] = _delayed_acks(ends)
    routes = np.array([k for flow in ends for k in (*flow.route, *(flow.reverse or ()))], dtype=np.int64)

    parts, header_size = _parts(routers, runs)
    for part in parts:
        protocol = part.protocol
        check_choice(protocol, "transport", TRANSPORTS)
        names: Mapping[str, Any] = part.flow_states.dtype.fields or {}
        for table, numbers in ((links, part.routers), (flows, part.flows)):
            table["header_offset"][numbers] = part.header_offset
            table["wants_random"][numbers] = "random" in protocol.asks
        links["wants_flow_queue"][part.routers] = "flow_queue" in protocol.asks
        flows["opening_size"][part.flows] = protocol.opening_size
        flows["transport"][part.flows] = TRANSPORTS.index(protocol.transport)
        flows["receiver_window"][part.flows] = protocol.receiver_window
        flows["min_rto"][part.flows] = picoseconds(protocol.min_rto)
        flows["rto_granularity"][part.flows] = picoseconds(protocol.rto_granularity)
        if scenario.header_bytes:
            if protocol.header_bytes is None:
                raise ValueError(f"header_bytes must be False: {type(protocol).__name__} does not say how many it has")
            flows["header_bytes"][part.flows] = protocol.header_bytes[0]
            flows["ack_size"][part.flows] += protocol.header_bytes[1]
        flows["bottleneck"][part.flows] = names["bottleneck"][1] if "bottleneck" in names else -1
        if scenario.assignment is not None:
            if "assigned" not in names:
                raise ValueError(f"assignment must be None: flows of {type(protocol).__name__} cannot hold one")
            held_to = part.flows < network.n_flows
            part.flow_states["assigned"][held_to] = np.array(scenario.assignment)[part.flows[held_to]]

    held = _place(scenario, links["at"], flows, parts[0], perturb, rng) if start == "equilibrium" else 0.0
    _set_clocks(scenario, links, parts, held, rng)
    record_size = next((part.flow_states.itemsize for part in parts if (part.flows >= network.n_flows).any()), 0)
    return Setup(
        links, flows, routes, parts, network.n_links, network.n_flows, header_size, record_size, held,
        ack_delays[network.n_flows :], _schedule(scenario, links), _impair(scenario, links, flows),
    )  # fmt: skip


def _routers(stands: Sequence[Sequence[Protocol]]) -> tuple[list[int], list[Protocol | None]]:
    """The link and the protocol of every router: the first of each link, then further ones; None: no protocol."""
    first = [(link, next(iter(protocols), None)) for link, protocols in enumerate(stands)]
    further = [(link, protocol) for link, protocols in enumerate(stands) for protocol in protocols[1:]]
    return [link for link, _ in first + further], [protocol for _, protocol in first + further]


def _parts(routers: Sequence[Protocol | None], flows: Sequence[Protocol]) -> tuple[list[Part], int]:
    """The parts of a run, and the size of its header; protocols of one kind share a region of it."""
    members: dict[Protocol, tuple[list[int], list[int]]] = {}
    for side, runs in enumerate((routers, flows)):
        for number, protocol in enumerate(runs):
            if protocol is not None:
                members.setdefault(protocol, ([], []))[side].append(number)
    regions: dict[type[Protocol], int] = {}
    size, parts = 0, []
    for protocol, (at, ends) in members.items():
        header = record_dtype(protocol.Header)
        if type(protocol) not in regions:
            regions[type(protocol)], size = size, size + header.itemsize
        values = protocol.params()
        params = np.array([tuple(values.values())], dtype=[(name, "f8") for name in values])
        parts.append(
            Part(
                protocol, header, regions[type(protocol)], np.array(at, np.int64), np.array(ends, np.int64),
                _records(protocol.link_record(), len(at)), _records(protocol.FlowState(), len(ends)),
                np.repeat(params, len(at)), params,
            )
        )  # fmt: skip
    return parts, size


def _set_clocks(
    scenario: Scenario, links: NDArray[np.void], parts: Sequence[Part], held: float, rng: np.random.Generator
) -> None:
    """Control intervals and first ticks of the routers that have an interval; others begin as their on_start says."""
    phases = scenario.first_ticks(links["at"], rng)
    for part in parts:
        if "interval" in (part.link_params.dtype.names or ()):
            if scenario.intervals is not None:
                part.link_params["interval"] = np.array(scenario.intervals)[links["at"][part.routers]]
            wait = part.link_params["interval"] * phases[part.routers]
            if not (held + wait < LONGEST_TIME).all():
                raise ValueError(f"interval must be < {LONGEST_TIME:g} s, which the clock holds, got {wait.max():g} s")
            links["first_interval"][part.routers] = picoseconds(held + wait)
        elif scenario.intervals is not None and (part.protocol.link_hooks() or len(parts) == 1):
            raise ValueError(f"intervals must be None: routers of {type(part.protocol).__name__} have no interval")


def _records(first: Any, count: int) -> NDArray[np.void]:
    """`count` records like the first."""
    out = np.zeros(count, record_dtype(first))
    for f in fields(first):
        out[f.name] = getattr(first, f.name)
    return out


def _delayed_acks(flows: Sequence[Flow]) -> tuple[list[int], NDArray[np.int64]]:
    """For how many packets an ACK is sent, and how long it waits for them."""
    given = [flow.delayed_acks or (0, 0.0) for flow in flows]
    return [packets for packets, _ in given], picoseconds([wait for _, wait in given])


def _schedule(scenario: Scenario, links: NDArray[np.void]) -> NDArray[np.void]:
    """Changes of capacity, link by link; `links` is told how many it has."""
    schedules = {one.link: one for one in scenario.impairments if isinstance(one, CapacitySchedule)}
    changes: list[tuple[int, float]] = []
    for link, one in sorted(schedules.items()):
        links["n_changes"][link] = len(one.times)
        changes += zip(picoseconds(one.times).tolist(), one.capacities, strict=True)
    return np.array(changes, CHANGE)


def _impair(scenario: Scenario, links: NDArray[np.void], flows: NDArray[np.void]) -> NDArray[np.void]:
    """One impairment for each place that has any; `links` and `flows` are told which."""
    ways: dict[tuple[str, int], NDArray[np.void]] = {}
    for one in scenario.impairments:
        if isinstance(one, CapacitySchedule):
            continue
        numbers = range(len(flows)) if one.acks_of == "all" else one.acks_of or ()
        for place in [("link", one.link)] if one.link is not None else [("flow", k) for k in numbers]:
            way = ways.setdefault(place, np.zeros(1, IMPAIRMENT))[0]
            if isinstance(one, RandomLoss):
                for kind in ("data", "ack"):
                    if one.kind in (kind, "all") or one.link is None:
                        way[f"{kind}_loss"] = one.probability
            elif isinstance(one, DelaySpikes):
                way["spike_every_lo"], way["spike_every_hi"] = one.every
                way["spike_lo"], way["spike_hi"] = picoseconds(one.delay)
                way["spike_between"] = picoseconds(one.between)
            else:
                way["jitter_lo"], way["jitter_hi"] = picoseconds(one.delay)
                way["reorders"] = not one.in_order
    for number, (kind, index) in enumerate(ways, 1):
        (links if kind == "link" else flows)["impairment"][index] = number
    return np.concatenate([np.zeros(0, IMPAIRMENT), *ways.values()])


def _place(
    scenario: Scenario,
    at: NDArray[np.int64],
    flows: NDArray[np.void],
    part: Part,
    perturb: float,
    rng: np.random.Generator,
) -> float:
    """Put links and flows at the (disturbed) equilibrium; the time until which the routers' clocks wait."""
    network, protocol = scenario.network, part.protocol
    point = protocol.equilibrium(network, scenario.assigned)
    factor = 1.0 + perturb
    crosses = network.incidence
    lacking = set(np.flatnonzero(crosses.any(axis=0)).tolist()) - set(at[part.routers].tolist())
    if lacking:
        name = type(protocol).__name__
        raise ValueError(
            f"start must be 'empty' where a link has no router of {name}, got 'equilibrium' (link {min(lacking)})"
        )
    for place, link in enumerate(at[part.routers]):
        through = crosses[:, link]
        if not through.any():
            continue
        weight, rtts = point.rates[through], network.rtts[through]
        fair = min(float(point.fair_rate[link]), float(network.capacities[link]))
        state = protocol.link_at(
            factor * fair, factor * float(weight.sum()), float(weight @ rtts / weight.sum()), float(rtts.max())
        )
        part.link_states[place] = _tuple(state)
    flows["opening_size"][: network.n_flows] = 0  # these flows are under way
    gaps = 8.0 * np.array([flow.mean_packet for flow in network.flows]) / (factor * point.rates)
    flows["start"][: network.n_flows] = picoseconds(gaps * rng.random(network.n_flows))
    for flow, (rate, link) in enumerate(zip(point.rates, point.bottleneck, strict=True)):
        state = protocol.flow_at(factor * rate, factor * float(point.fair_rate[link]), int(link))
        part.flow_states[flow] = _tuple(state)
    return float(np.nanmax(network.forward_delays) + 2.0 * gaps.max())


def _tuple(state: Any) -> tuple[Any, ...]:
    return tuple(getattr(state, f.name) for f in fields(state))
