"""Conversion of a scenario to the setup of a packet engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import LONGEST_TIME, as_number
from ecc.contract.choices import (
    ECN_ECHOES,
    LOST_RETRANSMISSIONS,
    N_TIMERS,
    PHASE_JITTERS,
    PRR_USES,
    SCHEDULERS,
    TRANSPORTS,
)
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.packet_hooks import check_hooks, flow_hooks_of, link_hooks_of
from ecc.contract.parameters import check_choice
from ecc.contract.protocol import Protocol
from ecc.contract.records import check_params, check_records, param_record, record_dtype, records
from ecc.contract.values import equilibrium_of
from ecc.native import (
    BEGUN,
    CHANGE,
    DELAY_CHANGE,
    IMPAIRMENT,
    SERVER,
    UNDER_WAY,
    WRITE,
    new_flows,
    new_links,
    picoseconds,
)
from ecc.native.engine import copied
from ecc.network.applications import NO_END, Application
from ecc.network.impairments import (
    JITTER_LAWS,
    Aggregation,
    BurstLoss,
    CapacitySchedule,
    DelaySchedule,
    DelaySpikes,
    DeliveryTrace,
    Jitter,
    RandomLoss,
    Shaper,
)
from ecc.network.network import SPRAYINGS, Flow, Network
from ecc.packet.ideal_times import IdealTimes
from ecc.packet.setup import Part, Setup
from ecc.packet.under_way import Stationary, counted_before, queued_at_links, routes_of, under_way
from ecc.scenario import Scenario

__all__ = ["first_intervals_of", "prepare", "sample_width", "with_seed"]

_MAX_PERTURBATION = 1e6
_MAX_PACING = 1e6
_QUIC_ACK_EVERY = 2  # RFC 9000 sec. 13.2.2
_MAX_ACK_DELAY = 25 * 10**9  # ps, RFC 9000 sec. 18.2
STARTS = ("empty", "equilibrium")


def prepare(scenario: Scenario, start: str = "empty", perturbation: float = 0.0) -> Setup:
    """Return the arrays and records of a run.

    Parameters
    ----------
    scenario : Scenario
    start : str, optional
        "empty": nothing has been sent. "equilibrium": flows and routers begin at the equilibrium. If it has queues,
        the packets of the equilibrium are in the network. Otherwise control begins when the path is full.
    perturbation : float, > -1, optional
        Relative change of the rates or windows at the equilibrium, for example 0.1; 0 with start="empty".

    Returns
    -------
    Setup

    Raises
    ------
    ValueError
        If the start is unknown, if packets cannot begin at the equilibrium (several protocols without queue
        disciplines, links without routers of the protocol, or queues with flows or links that S-207 excludes), or if
        the protocol's flows cannot hold a fixed assignment.
    """
    network, deployment = scenario.network, scenario.deployment
    _check_start(start, perturbation, scenario)
    rng = np.random.default_rng(scenario.seed)
    flows = [*network.flows, *(scenario.workload.templates if scenario.workload else [])]
    at, routers = _routers(deployment.links)
    hops = max((len(route) for flow in flows for route in flow.routes), default=0)
    parts, header_size = _parts(scenario, at, routers, [*deployment.flows, *deployment.templates], hops)
    templates = flows[network.n_flows :]
    template_ack_delays = network.with_flows(templates).ack_delays if templates else np.zeros(0)
    ack_delays = np.concatenate([network.ack_delays, template_ack_delays])
    link_impairments, flow_impairments, impairments, delay_changes = _impairments(scenario, len(at), len(flows))
    n_changes, changes = _changes(scenario, len(at))
    link_servers, servers, opportunities = _servers(scenario, len(at))
    quanta = _queues(scenario.deployment.links, link_table := _link_table(scenario, at, parts))
    _check_selection(network, scenario.deployment.links)

    link_table["n_changes"], link_table["impairment"], link_table["server"] = n_changes, link_impairments, link_servers
    flow_table = _flow_table(scenario, flows, ack_delays, parts)
    _check_transmission_times(flows, link_table, flow_table, changes)
    for item in scenario.impairments:
        if isinstance(item, DelaySchedule):
            if network.links[item.link].pause is not None:
                raise ValueError(f"DelaySchedule must be for a link without pause, got one for link {item.link}")
            link_table["delay"][item.link] = _min_delay(network.links[item.link].delay, item)
    link_table["phase_jitter"][_links_with_phases(flows, flow_table)] = True
    _check_spraying(flows, parts)
    _check_trimming(flows, parts)
    _pause_links(scenario, flows, link_table, flow_table, changes)
    flow_table["impairment"] = flow_impairments
    warmup_end, counted = 0.0, {}
    begun, packets = np.zeros(0, BEGUN), np.zeros(0, UNDER_WAY)
    point = _equilibrium(scenario) if start == "equilibrium" else None
    if isinstance(point, Stationary):
        parts, begun, packets = _begun(scenario, at, parts, point, 1.0 + perturbation, link_table, flow_table, rng)
        counted = counted_before(packets, flow_table[: network.n_flows], routes_of(network.flows), network.n_links)
    elif point is not None:
        parts[0], starts, warmup_end = _at_equilibrium(scenario, at, parts[0], point, perturbation, rng)
        flow_table["opening_size"][: network.n_flows] = 0  # these flows have started
        flow_table["start"][: network.n_flows] = starts
    link_table["first_interval"] = _first_intervals(scenario, at, parts, warmup_end, rng)
    routes = np.array([k for flow in flows for k in _route_entries(flow)], dtype=np.int64)
    record_size = next((part.flow_states.itemsize for part in parts if (part.flows >= network.n_flows).any()), 0)
    return Setup(
        link_table,
        flow_table,
        routes,
        parts,
        network.n_links,
        network.n_flows,
        header_size,
        record_size,
        warmup_end,
        template_ack_delays,
        changes,
        impairments,
        delay_changes,
        _writes(scenario, flows, flow_table),
        servers,
        opportunities,
        quanta,
        IdealTimes(network, flows, flow_table),
        begun,
        packets,
        counted,
    )


def with_seed(setup: Setup, scenario: Scenario) -> Setup:
    """Return the setup of a run that begins empty, for another seed, with records of its own.

    Parameters
    ----------
    setup : Setup
        Result of `prepare` for a scenario that differs in its seed and duration only.
    scenario : Scenario
    """
    out = copy(setup)
    parts = []
    for part in setup.parts:
        new_part = copy(part)
        object.__setattr__(new_part, "link_states", copied(part.link_states))
        object.__setattr__(new_part, "flow_states", copied(part.flow_states))
        parts.append(new_part)
    object.__setattr__(out, "parts", parts)
    if any(map(_ticks, parts)):
        links = copied(setup.links)
        links["first_interval"] = first_intervals_of(setup, scenario)
        object.__setattr__(out, "links", links)
    return out


def first_intervals_of(setup: Setup, scenario: Scenario) -> NDArray[np.int64] | None:
    """Return the first ticks of routers [ps] in a run that begins empty, or None if no router has a clock.

    Parameters
    ----------
    setup, scenario
        See `with_seed`.
    """
    if not any(map(_ticks, setup.parts)):
        return None
    rng = np.random.default_rng(scenario.seed)
    return _first_intervals(scenario, setup.links["at"], setup.parts, setup.warmup_end, rng)


def _check_start(start: str, perturbation: float, scenario: Scenario) -> None:
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(map(repr, STARTS))}, got {shown(start)}")
    if not np.isfinite(perturbation) or perturbation <= -1.0 or (perturbation != 0.0 and start != "equilibrium"):
        raise ValueError(f"perturbation must be > -1, and 0 unless start='equilibrium', got {shown(perturbation)}")
    if perturbation > _MAX_PERTURBATION:
        raise ValueError(f"perturbation must be <= {_MAX_PERTURBATION:g}, got {shown(perturbation)}")


def _check_transmission_times(
    flows: Sequence[Flow], links: NDArray[np.void], table: NDArray[np.void], changes: NDArray[np.void]
) -> None:
    """Refuse capacities at which a packet takes less than 1 ps: the engine would round this up to 1 ps."""
    fastest = max(float(links["capacity"].max(initial=0.0)), float(changes["capacity"].max(initial=0.0)))
    data, acks = table["packet_size"] + table["header_bytes"], table["ack_size"]
    if not len(table) or 8e12 * min(data.min(), acks.min()) >= fastest:
        return
    ends = np.cumsum(links["n_changes"])
    for index, flow in enumerate(flows):
        hops = [(link, data[index]) for route in flow.routes for link in route]
        for link, size in [*hops, *((link, acks[index]) for link in flow.reverse or ())]:
            changed = changes["capacity"][ends[link] - links["n_changes"][link] : ends[link]]
            capacity = max(float(links["capacity"][link]), float(changed.max(initial=0.0)))
            if 8e12 * size < capacity:
                raise ValueError(
                    f"capacity must let a packet take at least 1 ps, {8e12 * size:g} bit/s for {size} bytes, got "
                    f"{capacity:g} bit/s (link {link}, flow {index})"
                )


def _check_spraying(flows: Sequence[Flow], parts: Sequence[Part]) -> None:
    """Refuse flows with several routes if a router counts the bytes of each flow in its queue."""
    counting = [part for part in parts if "flow_queue" in part.protocol.required_env and len(part.routers)]
    sprayed = next((index for index, flow in enumerate(flows) if flow.alternatives), None)
    if counting and sprayed is not None:
        name = type(counting[0].protocol).__name__
        raise ValueError(f"alternatives must be empty if routers of {name} count queues by flow (flow {sprayed})")


def _check_trimming(flows: Sequence[Flow], parts: Sequence[Part]) -> None:
    """Refuse trimmed packets for protocols with a transport, which cannot process them."""
    for part in parts:
        for index in part.flows.tolist() if part.protocol.transport is not None else ():
            if (size := flows[index].trimmed_size) is not None:
                name = type(part.protocol).__name__
                raise ValueError(
                    f"trimmed_size must be None with the transport of {name}, got {size} bytes (flow {index})"
                )


def _pause_links(
    scenario: Scenario,
    flows: Sequence[Flow],
    links: NDArray[np.void],
    table: NDArray[np.void],
    changes: NDArray[np.void],
) -> None:
    """Write the PFC thresholds of links, and refuse buffers that are too small for them."""
    network, at = scenario.network, 0
    if all(link.pause is None for link in network.links):
        return
    packet = int(np.max(table["packet_size_max"] + table["header_bytes"], initial=0))
    packet = max(packet, int(table["ack_size"].max(initial=0)))
    for index, link in enumerate(network.links):
        n, row = int(links["n_changes"][index]), links[index]
        capacity = max([link.capacity, *changes["capacity"][at : at + n].tolist()])
        at += n
        if link.pause is not None:
            needed = math.ceil(capacity * 2.0 * link.delay / 8.0) + 2 * packet
            row["xoff"], row["xon"] = link.pause.xoff, link.pause.xon
            row["headroom"] = needed if link.pause.headroom is None else link.pause.headroom
    steps = {
        (a, b)
        for flow in flows
        for route in (*flow.routes, flow.reverse or ())
        for a, b in zip(route, route[1:], strict=False)
    }
    classes = len({flow.priority for flow in flows})
    for index, link in enumerate(network.links):
        held = classes * sum(int(links["xoff"][a] + links["headroom"][a]) for a, b in steps if b == index)
        if link.buffer is not None and link.buffer < held:
            raise ValueError(
                f"buffer must be None or >= the XOFF and headroom of the links that lead there ({held} bytes), "
                f"got {link.buffer} bytes (link {index})"
            )


def _routers(protocols: Sequence[Sequence[Protocol]]) -> tuple[NDArray[np.int64], list[Protocol | None]]:
    """Return the link and protocol of every router, additional routers of a link last; None: no protocol."""
    routers = [(link, next(iter(stack), None)) for link, stack in enumerate(protocols)]
    routers += [(link, protocol) for link, stack in enumerate(protocols) for protocol in stack[1:]]
    return np.array([link for link, _ in routers], np.int64), [protocol for _, protocol in routers]


# Protocols and their records ----------------------------------------------------------------------------------------


def _numbers_by_object(protocols: Sequence[Protocol | None]) -> list[tuple[Protocol | None, list[int]]]:
    """Return each object of a sequence once, with its places; the hash of a protocol reads all its parameters."""
    places: dict[int, tuple[Protocol | None, list[int]]] = {}
    for number, protocol in enumerate(protocols):
        places.setdefault(id(protocol), (protocol, []))[1].append(number)
    return list(places.values())


def _parts(
    scenario: Scenario,
    at: NDArray[np.int64],
    routers: Sequence[Protocol | None],
    flows: Sequence[Protocol],
    hops: int,
) -> tuple[list[Part], int]:
    """Return the parts of a run, and the size of its header; protocols of one class share a region of the header.

    `hops` is the number of links of the longest route.
    """
    members: dict[Protocol, tuple[list[int], list[int]]] = {}
    for side, protocols in enumerate((routers, flows)):
        for protocol, numbers in _numbers_by_object(protocols):
            if protocol is not None:
                members.setdefault(protocol, ([], []))[side].extend(numbers)
    regions: dict[type[Protocol], int] = {}
    size, parts = 0, []
    for protocol, (its_routers, its_flows) in members.items():
        check_records(protocol)
        check_params(protocol)
        check_hooks(protocol)
        header = record_dtype(protocol.Header, hops)
        if type(protocol) not in regions:
            regions[type(protocol)], size = size, size + header.itemsize
        params = param_record(protocol)
        parts.append(
            Part(
                protocol,
                header,
                regions[type(protocol)],
                np.array(its_routers, np.int64),
                np.array(its_flows, np.int64),
                records(protocol.link_record(), len(its_routers)),
                _flow_states(scenario, protocol, its_flows, hops),
                _link_params(scenario, protocol, params, at[its_routers]),
                params,
                link_hooks_of(protocol),
                flow_hooks_of(protocol) if its_flows else {},
            )
        )
    if scenario.intervals is not None:
        for part in parts:
            if not _ticks(part) and (part.link_hooks or len(parts) == 1):
                name = type(part.protocol).__name__
                raise ValueError(f"intervals must be None: routers of {name} have no interval")
    return parts, size


def _ticks(part: Part) -> bool:
    """Return whether the routers of a part have clocks."""
    return "interval" in (part.link_params.dtype.names or ()) and "on_interval" in part.link_hooks


def _flow_states(scenario: Scenario, protocol: Protocol, flows: Sequence[int], hops: int) -> NDArray[np.void]:
    """Return the initial states of flows, with the links to which they are assigned."""
    states = records(protocol.flow_record(), len(flows), hops)
    if scenario.assignment is not None:
        if "assigned" not in (states.dtype.names or ()):
            raise ValueError(f"assignment must be None: flows of {type(protocol).__name__} cannot hold one")
        for row, flow in enumerate(flows):
            if flow < scenario.network.n_flows:
                states["assigned"][row] = scenario.assignment[flow]
    return states


def _link_params(
    scenario: Scenario, protocol: Protocol, params: NDArray[np.void], at: NDArray[np.int64]
) -> NDArray[np.void]:
    """Return the parameters of the routers at links, with their intervals."""
    out = np.repeat(params, len(at))
    if scenario.intervals is not None and "interval" in (out.dtype.names or ()):
        out["interval"] = np.array(scenario.intervals)[at]
    return out


# Tables of links and flows ------------------------------------------------------------------------------------------


def _link_table(scenario: Scenario, at: NDArray[np.int64], parts: Sequence[Part]) -> NDArray[np.void]:
    """Return the table of the links, followed by the additional routers, dtype LINK."""
    network = scenario.network
    links = new_links(len(at))
    links["at"] = at
    first = links[: network.n_links]
    first["capacity"] = network.capacities
    first["delay"] = picoseconds([link.delay for link in network.links])
    first["buffer"] = [-1 if link.buffer is None else link.buffer for link in network.links]
    first["buffer_packets"] = [link.buffer_packets or 0 for link in network.links]
    for part in parts:
        links["header_offset"][part.routers] = part.header_offset
        links["wants_random"][part.routers] = "random" in part.protocol.required_env
        links["wants_flow_queue"][part.routers] = "flow_queue" in part.protocol.required_env
    return links


def _queues(protocols: Sequence[Sequence[Protocol]], links: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the quanta of all links with several queues; write their numbers and schedulers to `links`."""
    quanta: list[int] = []
    for link, stack in enumerate(protocols):
        disciplines = [(protocol, queues) for protocol in stack if (queues := protocol.queues) is not None]
        if len(disciplines) > 1:
            names = " and ".join(type(protocol).__name__ for protocol, _ in disciplines)
            raise ValueError(f"link {link} must have one discipline with queues, got {names}")
        for protocol, queues in disciplines:
            if queues.scheduler not in SCHEDULERS:
                allowed = ", ".join(map(repr, SCHEDULERS))
                raise ValueError(
                    f"scheduler of {type(protocol).__name__} must be one of {allowed}, got {shown(queues.scheduler)}"
                )
            if not all(isinstance(quantum, int) and quantum > 0 for quantum in queues.quanta):
                raise ValueError(
                    f"quanta of {type(protocol).__name__} must be whole numbers > 0 bytes, got {shown(queues.quanta)}"
                )
            if not queues.quanta:
                raise ValueError(f"quanta of {type(protocol).__name__} must have one entry per queue, got none")
            quanta += queues.quanta
            row = links[link]
            row["n_queues"], row["scheduler"] = len(queues.quanta), SCHEDULERS.index(queues.scheduler)
            row["drops_longest"] = queues.drops_longest
    return np.array(quanta, np.int64)


def _check_selection(network: Network, protocols: Sequence[Sequence[Protocol]]) -> None:
    """Refuse disciplines that choose the next packet themselves if links can be paused (S-226)."""
    if all(link.pause is None for link in network.links):
        return
    for link, stack in enumerate(protocols):
        for protocol in stack:
            if protocol.queues is not None and protocol.queues.scheduler == "select":
                name = type(protocol).__name__
                raise ValueError(f"networks with pause must have no {name}, which selects packets (link {link})")


def _links_with_phases(flows: Sequence[Flow], table: NDArray[np.void]) -> list[int]:
    """Return the links with a random phase (S-189).

    For flows that always have a phase, these are all links of their routes except the last; for flows that have one at
    line rate, the first link if it is not the last.
    """
    n_links = (0, 1, None)  # number of such links, by index in PHASE_JITTERS
    return sorted(
        {
            link
            for flow, when in zip(flows, table["phase_jitter"].tolist(), strict=True)
            for route in flow.routes
            for link in route[:-1][: n_links[when]]
        }
    )


def _route_entries(flow: Flow) -> Sequence[int]:
    """Return the routes of a flow in the format of the engines."""
    if flow.reverse is None and not flow.alternatives:  # most of a hundred thousand flows
        return flow.route
    lengths = tuple(len(route) for route in flow.alternatives)
    return (*flow.route, *(flow.reverse or ()), *lengths, *(link for route in flow.alternatives for link in route))


def _flow_table(
    scenario: Scenario, flows: Sequence[Flow], ack_delays: NDArray[np.float64], parts: Sequence[Part]
) -> NDArray[np.void]:
    """Return the table of the network's flows, followed by the templates of transfers, dtype FLOW."""
    network = scenario.network
    out = new_flows(len(flows))
    out["start"] = picoseconds([flow.start for flow in flows])
    stops = np.array([-1.0 if flow.stop is None else flow.stop for flow in flows])
    out["stop"] = np.where(stops < 0.0, -1, picoseconds(np.maximum(stops, 0.0)))
    out["size"] = [-1 if flow.size is None else flow.size for flow in flows]
    out["packet_size"] = [size[0] if isinstance(size := flow.packet_size, tuple) else size for flow in flows]
    out["packet_size_max"] = [flow.largest_packet for flow in flows]
    out["access_delay"] = picoseconds([flow.access_delay for flow in flows])
    out["ack_delay"] = picoseconds(ack_delays)
    if scenario.workload:
        out["enables_subsequent"][network.n_flows :] = scenario.workload.enables_subsequent
    out["n_forward"] = [len(flow.route) for flow in flows]
    out["n_reverse"] = [len(flow.reverse or ()) for flow in flows]
    out["n_alternatives"] = [len(flow.alternatives) for flow in flows]
    out["spraying"] = [SPRAYINGS.index(flow.spraying) for flow in flows]
    out["ack_size"] = [flow.ack_size for flow in flows]
    out["trimmed_size"] = [flow.trimmed_size or 0 for flow in flows]
    out["priority"] = [flow.priority for flow in flows]
    out["reordering_threshold"] = [flow.reordering_threshold or 0 for flow in flows]
    delayed = [flow.delayed_acks or (0, 0.0) for flow in flows]  # packets per ACK; maximum wait [s]
    out["ack_every"] = [packets for packets, _ in delayed]
    out["ack_wait"] = picoseconds([wait for _, wait in delayed])
    writes = [(0, 0.0) if isinstance(flow.writes, Application) else flow.writes_in_bytes for flow in flows]
    out["write_size"] = [size for size, _ in writes]
    out["write_period"] = picoseconds([period for _, period in writes])
    for part in parts:
        protocol, its = part.protocol, part.flows
        check_choice(protocol, "transport", TRANSPORTS)
        check_choice(protocol, "lost_retransmission", LOST_RETRANSMISSIONS)
        check_choice(protocol, "uses_prr", PRR_USES)
        check_choice(protocol, "ecn_echo", ECN_ECHOES)
        if protocol.n_timers not in N_TIMERS:
            raise ValueError(
                f"n_timers of {type(protocol).__name__} must be from 1 to 4, got {shown(protocol.n_timers)}"
            )
        out["header_offset"][its] = part.header_offset
        out["wants_random"][its] = "random" in protocol.required_env
        out["n_timers"][its] = protocol.n_timers
        check_choice(protocol, "phase_jitter", PHASE_JITTERS)
        when = {None: protocol.phase_jitter, True: "always", False: None}[scenario.phase_jitter]
        out["phase_jitter"][its] = PHASE_JITTERS.index(when)
        out["opening_size"][its] = protocol.opening_size
        out["transport"][its] = TRANSPORTS.index(protocol.transport)
        out["lost_retransmission"][its] = LOST_RETRANSMISSIONS.index(protocol.lost_retransmission)
        out["uses_prr"][its] = PRR_USES.index(protocol.uses_prr) if protocol.transport in ("sack", "rack") else 0
        if protocol.transport == "quic":
            if protocol.uses_prr:
                name = type(protocol).__name__
                raise ValueError(
                    f"uses_prr of {name} must be False with the transport 'quic', got {shown(protocol.uses_prr)}"
                )
            by_default = its[out["ack_every"][its] == 0]
            out["ack_every"][by_default], out["ack_wait"][by_default] = _QUIC_ACK_EVERY, _MAX_ACK_DELAY
        out["ecn"][its] = ECN_ECHOES.index(protocol.ecn_echo)
        out["receiver_window"][its] = protocol.receiver_window
        out["min_rto"][its] = picoseconds(protocol.min_rto)
        out["initial_rto"][its] = picoseconds(protocol.initial_rto)
        out["rto_granularity"][its] = picoseconds(protocol.rto_granularity)
        if protocol.pacing:
            _pace(protocol, flows, out, its)
        if scenario.header_bytes:
            if protocol.header_bytes is None:
                raise ValueError(f"header_bytes must be False: {type(protocol).__name__} does not declare its size")
            out["header_bytes"][its] = protocol.header_bytes[0]
            out["ack_size"][its] += protocol.header_bytes[1]
        layout: Mapping[str, Any] = part.flow_states.dtype.fields or {}
        out["bottleneck"][its] = layout["bottleneck"][1] if "bottleneck" in layout else -1
    return out


def _pace(protocol: Protocol, flows: Sequence[Flow], out: NDArray[np.void], its: NDArray[np.int64]) -> None:
    """Write the pacing of the windows of a protocol."""
    gain, name = as_number(protocol.pacing, "pacing"), type(protocol).__name__
    if not 0.0 < gain <= _MAX_PACING:
        raise ValueError(f"pacing of {name} must be from 0 to {_MAX_PACING:g} windows per RTT, got {gain:g}")
    if protocol.transport is None:
        raise ValueError(f"pacing of {name} must be 0 without a transport, got {gain:g}")
    out["pacing_gain"][its] = gain
    out["pacing_burst"][its] = [round(protocol.pacing_burst(flows[k].largest_packet)) for k in its]


def _first_intervals(
    scenario: Scenario,
    at: NDArray[np.int64],
    parts: Sequence[Part],
    warmup_end: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the first ticks [ps] of the routers that have an interval; -1: on_start sets it."""
    phases = scenario.first_ticks(at, rng)
    out = np.full(len(at), -1)
    for part in parts:
        if _ticks(part):
            wait = part.link_params["interval"] * phases[part.routers]
            if not (warmup_end + wait < LONGEST_TIME).all():
                raise ValueError(f"interval must be < {LONGEST_TIME:g} s, which the clock holds, got {wait.max():g} s")
            out[part.routers] = picoseconds(warmup_end + wait)
    return out


_NEVER_WRITES = 3.9e6
"""Time of the write of an application that writes nothing [s]: the clock of the engine ends soon after."""


def _writes(scenario: Scenario, flows: Sequence[Flow], table: NDArray[np.void]) -> NDArray[np.void]:
    """Return the writes of applications, dtype WRITE, and write their places to the table of flows."""
    rows: list[NDArray[np.void]] = [np.zeros(0, WRITE)]
    count = 0
    for index, flow in enumerate(flows):
        if not isinstance(flow.writes, Application):
            continue
        times, sizes = flow.writes.writes(scenario.duration - (flow.start or 0.0), [scenario.seed, index])
        if len(times) == 0:  # a flow without writes would have all data at its start
            times, sizes = np.array([_NEVER_WRITES]), np.ones(1, np.int64)
        ticks, places = np.unique(picoseconds(times), return_inverse=True)
        totals = np.zeros(len(ticks), np.int64)
        np.add.at(totals, places, sizes)
        writes = np.zeros(len(ticks), WRITE)
        writes["time"], writes["total"] = ticks, np.minimum(np.cumsum(totals), NO_END)
        table["first_write"][index], table["n_writes"][index] = count, len(writes)
        rows.append(writes)
        count += len(writes)
    return np.concatenate(rows)


# Impairments --------------------------------------------------------------------------------------------------------


def _changes(scenario: Scenario, n_links: int) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Return the number of capacity changes of each link, and the changes in order of the links, dtype CHANGE."""
    schedules = {item.link: item for item in scenario.impairments if isinstance(item, CapacitySchedule)}
    counts = np.zeros(n_links, np.int64)
    changes: list[tuple[int, float]] = []
    for link, schedule in sorted(schedules.items()):
        counts[link] = len(schedule.times)
        changes += zip(picoseconds(schedule.times).tolist(), schedule.capacities, strict=True)
    return counts, np.array(changes, CHANGE)


def _impairments(
    scenario: Scenario, n_links: int, n_flows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.void], NDArray[np.void]]:
    """Return the impairment of each link and flow, counted from 1 (0: none).

    Also return the impairments, dtype IMPAIRMENT, and the changes of delays to which they refer, dtype DELAY_CHANGE.
    """
    channels: dict[tuple[str, int], NDArray[np.void]] = {}
    delays: list[tuple[int, int]] = []
    for item in scenario.impairments:
        if isinstance(item, CapacitySchedule | Shaper | DeliveryTrace):
            continue
        if isinstance(item, Aggregation) and item.link is not None:
            continue
        acks_of = None if isinstance(item, DelaySchedule) else item.acks_of
        numbers = range(n_flows) if acks_of == "all" else acks_of or ()
        for owner in [("link", item.link)] if item.link is not None else [("flow", k) for k in numbers]:
            channel = channels.setdefault(owner, np.zeros(1, IMPAIRMENT))[0]
            if isinstance(item, DelaySchedule):
                changes = _delay_changes(scenario.network.links[item.link].delay, item)
                channel["first_delay"], channel["n_delays"] = len(delays), len(changes)
                channel["reorders"] = not item.in_order
                delays += changes
            else:
                _write_impairment(channel, item)
    of_links, of_flows = np.zeros(n_links, np.int64), np.zeros(n_flows, np.int64)
    for number, (side, index) in enumerate(channels, 1):
        (of_links if side == "link" else of_flows)[index] = number
    impairments = np.concatenate([np.zeros(0, IMPAIRMENT), *channels.values()])
    return of_links, of_flows, impairments, np.array(delays, DELAY_CHANGE)


def _write_impairment(channel: np.void, item: RandomLoss | BurstLoss | DelaySpikes | Jitter | Aggregation) -> None:
    """Write an impairment to a row of dtype IMPAIRMENT."""
    if isinstance(item, RandomLoss):
        for kind in ("data", "ack"):
            if item.kind in (kind, "all") or item.link is None:
                channel[f"{kind}_loss"] = item.probability
    elif isinstance(item, BurstLoss):
        channel["burst_kinds"] = 2 if item.link is None else {"data": 1, "ack": 2, "all": 3}[item.kind]
        for name in ("begins", "ends", "good_loss", "bad_loss"):
            channel[f"burst_{name}"] = getattr(item, name)
    elif isinstance(item, DelaySpikes):
        channel["spike_every_lo"], channel["spike_every_hi"] = item.every
        channel["spike_lo"], channel["spike_hi"] = picoseconds(item.delay)
        channel["spike_between"] = picoseconds(item.between)
    elif isinstance(item, Aggregation):
        _write_slots(channel, item)
    else:
        channel["reorders"] = not item.in_order
        channel["jitter_law"] = JITTER_LAWS.index(item.law)
        if item.law == "uniform":
            channel["jitter_lo"], channel["jitter_hi"] = picoseconds(item.delay)
        elif item.law == "normal":
            channel["jitter_scale"], channel["jitter_spread"] = 1e12 * np.array(item.delay, np.float64)
        else:
            channel["jitter_scale"], channel["jitter_spread"] = 1e12 * item.minimum, 1.0 / item.shape


def _min_delay(delay: float, schedule: DelaySchedule) -> int:
    """Return the minimum delay [ps] of a link with its own delay [s] and a schedule."""
    return int(min(picoseconds([delay, *schedule.delays]).tolist()))


def _delay_changes(delay: float, schedule: DelaySchedule) -> list[tuple[int, int]]:
    """Return the delays of a schedule beyond its minimum, which the link has, with their times, from time 0 on [ps]."""
    times, delays = picoseconds(schedule.times).tolist(), picoseconds(schedule.delays).tolist()
    if times[0] > 0:
        times, delays = [0, *times], [int(picoseconds(delay)), *delays]
    return [(time, value - _min_delay(delay, schedule)) for time, value in zip(times, delays, strict=True)]


def _servers(scenario: Scenario, n_links: int) -> tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.int64]]:
    """Return the server of each link, counted from 1 (0: none), the servers, dtype SERVER, and opportunities [ps]."""
    servers: dict[int, NDArray[np.void]] = {}
    times: dict[int, tuple[float, ...]] = {}
    for item in scenario.impairments:
        if not isinstance(item, Shaper | DeliveryTrace | Aggregation) or item.link is None:
            continue
        server = servers.setdefault(item.link, np.zeros(1, SERVER))[0]
        if isinstance(item, Shaper):
            server["rate"], server["burst"] = item.rate, item.burst
        elif isinstance(item, DeliveryTrace):
            server["n_opportunities"], server["opportunity"] = len(item.times), item.opportunity
            times[item.link] = item.times
        else:
            _write_slots(server, item)
    numbers = np.zeros(n_links, np.int64)
    numbers[list(servers)] = np.arange(1, len(servers) + 1)
    opportunities = np.array([time for link in servers for time in times.get(link, ())])
    return numbers, np.concatenate([np.zeros(0, SERVER), *servers.values()]), picoseconds(opportunities)


def _write_slots(row: np.void, aggregation: Aggregation) -> None:
    """Write the slots of a server or an impairment."""
    row["slot_lo"], row["slot_hi"] = picoseconds(aggregation.wait)
    row["slot_packets"], row["slot_bytes"] = aggregation.max_packets or 0, aggregation.max_size or 0


# Equilibrium --------------------------------------------------------------------------------------------------------


def _equilibrium(scenario: Scenario) -> Equilibrium | Stationary:
    """Return the equilibrium of one protocol, as `Stationary` if it has queues, or of hosts over queue disciplines."""
    deployment, network = scenario.deployment, scenario.network
    if len(deployment.protocols) == 1:
        point = equilibrium_of(deployment.protocols[0], network, scenario.assigned)
        has_queues = point.queue is not None and bool((point.queue > 0.0).any())
        has_empty_start = type(deployment.protocols[0]).link_at is not Protocol.link_at
        return point if has_empty_start and not has_queues else _with_queues(network, point)
    routers = [protocol for stack in deployment.links for protocol in stack]
    if not routers or any(type(protocol).has_hosts() for protocol in routers):
        raise ValueError(f"start must be 'empty' for several protocols, got 'equilibrium' for {deployment}")
    from ecc.loops.marked_hosts import equilibrium_of_marks

    marking = equilibrium_of_marks(deployment, network)
    received = 1.0 - np.prod(1.0 - marking.chosen * network.incidence, axis=1)
    return Stationary(
        marking.rates,
        marking.queues,
        marking.probabilities,
        received,
        np.full(network.n_flows, -1),
        marking.states,
        marking.host_states,
    )


def _with_queues(network: Network, point: Equilibrium) -> Stationary:
    """Return an equilibrium with queues; links that are not a bottleneck announce 0."""
    feedback = np.where(np.isfinite(point.fair_rate), point.fair_rate, 0.0)
    received = _received(network, point)
    states = [{name: float(values[flow]) for name, values in point.states.items()} for flow in range(network.n_flows)]
    return Stationary(
        point.rates,
        np.zeros(network.n_links) if point.queue is None else point.queue,
        feedback,
        received,
        point.bottleneck,
        [{}] * network.n_links,
        states,
    )


def _received(network: Network, point: Equilibrium) -> NDArray[np.float64]:
    """Return the feedback that each flow receives: that of its bottleneck, or the sum along its path."""
    summed = network.incidence @ np.where(np.isfinite(point.fair_rate), point.fair_rate, 0.0)
    return np.where(point.bottleneck < 0, summed, point.fair_rate[np.maximum(point.bottleneck, 0)])


def _begun(
    scenario: Scenario,
    at: NDArray[np.int64],
    parts: Sequence[Part],
    steady: Stationary,
    factor: float,
    link_table: NDArray[np.void],
    flow_table: NDArray[np.void],
    rng: np.random.Generator,
) -> tuple[list[Part], NDArray[np.void], NDArray[np.void]]:
    """Return the parts at an equilibrium with queues, RTTs of the flows, and packets in the network at time 0.

    Only the traffic from time 0 on is perturbed: `factor` multiplies the rates and windows of the flows.
    """
    network, n = scenario.network, scenario.network.n_flows
    _check_begun(scenario, parts)
    flows, table = flow_table[:n], link_table[: network.n_links]
    table["begun_queue"] = np.floor(steady.queues / 8.0 + 0.5)
    phases = 1.0 - (np.arange(n) / max(n, 1) + rng.random()) % 1.0
    packets, rtts = under_way(steady.rates, network.flows, flows, table, phases)
    _check_room(network, packets, flows)
    n_packets = np.bincount(packets["flow"], minlength=n)  # a packet that fills the window exactly may be sent
    windows = factor * (np.maximum(n_packets, 1) + 0.5) * flows["packet_size"]
    flows["start"] = flows["opening_size"] = 0
    flows["rate"], flows["window"] = factor * steady.rates, windows
    begun = np.zeros(n, BEGUN)
    begun["rtt"] = rtts
    waits = network.incidence @ (steady.queues / network.capacities)
    out = []
    for part in parts:
        link_states, flow_states = copied(part.link_states), copied(part.flow_states)
        for row, router in enumerate(part.routers):
            link = int(at[router])
            through = network.incidence[:, link]
            if part.link_hooks and through.any():
                rates, times = steady.rates[through], 1e-12 * rtts[through]
                values = _in_bytes(part.protocol, steady.link_states[link]) | {
                    "R": float(steady.feedback[link]),
                    "y": float(rates.sum()),
                    "mean_rtt": float(rates @ times / rates.sum()),
                    "max_rtt": float(times.max()),
                    "queue": float(steady.queues[link]) / 8.0,
                    "capacity": float(network.capacities[link]),
                    "packet_size": float(np.mean([flow.mean_packet for flow in network.flows])),
                }
                state = _call_with(part.protocol.link_at, values)
                link_states[row] = _tuple(state)
        for row, flow in enumerate(part.flows):
            if flow < n:
                rtt = 1e-12 * float(rtts[flow])
                values = _in_bytes(part.protocol, steady.flow_states[flow]) | {
                    "x": factor * float(steady.rates[flow]),
                    "R": float(steady.received[flow]),
                    "link": int(steady.bottleneck[flow]),
                    "rtt": rtt,
                    "min_rtt": rtt - float(waits[flow]),
                    "window": float(windows[flow]),
                    "packet_size": float(network.flows[flow].mean_packet),
                }
                state = _call_with(part.protocol.flow_at, values)
                flow_states[row] = _tuple(state)
        out.append(
            replace(
                part,
                link_states=link_states,
                flow_states=flow_states,
                begun_links=copied(link_states),
                begun_flows=part.flow_states,
            )
        )
    return out, begun, packets


def _check_begun(scenario: Scenario, parts: Sequence[Part]) -> None:
    """Refuse flows, links and impairments with which a run cannot begin with packets in the network."""
    network, refused = scenario.network, "start must be 'empty' at an equilibrium with queues"
    for index, flow in enumerate(network.flows):
        for name, value in (
            ("reverse links", flow.reverse),
            ("several routes", flow.alternatives),
            ("delayed ACKs", flow.delayed_acks),
            ("an application that writes periodically", flow.writes),
            ("a finite size", flow.size),
            ("packets of several sizes", isinstance(flow.packet_size, tuple)),
        ):
            if value:
                raise ValueError(f"{refused} for a flow with {name}, got 'equilibrium' (flow {index})")
    if any(link.pause is not None for link in network.links):
        raise ValueError(f"{refused} for links with pause, got 'equilibrium'")
    for impairment in scenario.impairments:
        if not isinstance(impairment, CapacitySchedule):
            raise ValueError(f"{refused} with {type(impairment).__name__}, got 'equilibrium'")
    for part in parts:
        name = type(part.protocol).__name__
        if part.protocol.transport == "quic":
            raise ValueError(f"{refused} over the transport 'quic', which delays ACKs, got 'equilibrium'")
        if part.protocol.pacing:
            raise ValueError(f"{refused} over {name} with pacing, got 'equilibrium'")
        if part.protocol.queues is not None or "on_dequeue" in part.link_hooks:
            raise ValueError(f"{refused} over {name}, which chooses the next packet, got 'equilibrium'")


def _check_room(network: Network, packets: NDArray[np.void], flow_table: NDArray[np.void]) -> None:
    """Refuse queues that are larger than buffers."""
    queued, count = queued_at_links(packets, flow_table, routes_of(network.flows), network.n_links)
    for index, link in enumerate(network.links):
        if (link.buffer is not None and queued[index] > link.buffer) or 0 < (link.buffer_packets or 0) < count[index]:
            room = f"{link.buffer_packets} packets" if link.buffer is None else f"{link.buffer} bytes"
            raise ValueError(
                f"start must be 'empty' if a queue of the equilibrium exceeds the buffer ({room}), got "
                f"{queued[index]} bytes in {count[index]} packets (link {index})"
            )


def _call_with(method: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a method with those of the values for which it has parameters, and return its result."""
    parameters = signature(method).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return method(**values)
    return method(**{parameter.name: values[parameter.name] for parameter in parameters if parameter.name in values})


def _in_bytes(protocol: Protocol, states: Mapping[str, float]) -> dict[str, float]:
    """Return the values of states in the units of hooks: sizes in bytes."""
    units = {name: state.unit for name, state in protocol.states.items()}
    return {name: value / 8.0 if units.get(name) == "bit" else value for name, value in states.items()}


def _at_equilibrium(
    scenario: Scenario,
    at: NDArray[np.int64],
    part: Part,
    point: Equilibrium,
    perturbation: float,
    rng: np.random.Generator,
) -> tuple[Part, NDArray[np.int64], float]:
    """Return the part at the perturbed equilibrium, the flows' start times [ps], and the end of the warmup [s].

    All links are empty, and the routers' clocks wait for the end of the warmup.
    """
    network, protocol = scenario.network, part.protocol
    factor = 1.0 + perturbation
    crosses = network.incidence
    missing = set(np.flatnonzero(crosses.any(axis=0)).tolist()) - set(at[part.routers].tolist())
    if missing:
        name = type(protocol).__name__
        raise ValueError(
            f"start must be 'empty' if a link has no router of {name}, got 'equilibrium' (link {min(missing)})"
        )
    link_states, flow_states = copied(part.link_states), copied(part.flow_states)
    for router, link in enumerate(at[part.routers]):
        through = crosses[:, link]
        if not through.any():
            continue
        weight, rtts = point.rates[through], network.rtts[through]
        fair = _announced(protocol, float(point.fair_rate[link]), float(network.capacities[link]))
        state = protocol.link_at(
            factor * fair, factor * float(weight.sum()), float(weight @ rtts / weight.sum()), float(rtts.max())
        )
        link_states[router] = _tuple(state)
    gaps = 8.0 * np.array([flow.mean_packet for flow in network.flows]) / (factor * point.rates)
    starts = picoseconds(gaps * rng.random(network.n_flows))
    values = np.column_stack([factor * point.rates, factor * _received(network, point), point.bottleneck])
    distinct, of_flow = np.unique(values, axis=0, return_inverse=True)
    states = [_tuple(protocol.flow_at(rate, received, int(link))) for rate, received, link in distinct.tolist()]
    flow_states[: network.n_flows] = np.array(states, flow_states.dtype)[of_flow.reshape(-1)]
    warmup_end = float(np.nanmax(network.forward_delays) + 2.0 * gaps.max())
    return replace(part, link_states=link_states, flow_states=flow_states), starts, warmup_end


def _announced(protocol: Protocol, R: float, capacity: float) -> float:
    """Return the signal of a router at equilibrium: R, or if the link is not a bottleneck (R infinite), a value that
    limits no flow: the maximum rate or the minimum price."""
    if math.isfinite(R):
        return R
    lowest, highest = protocol.rate_range(capacity)
    return min(highest, capacity) if protocol.combine == "min" else max(lowest, 0.0)


def _tuple(state: Any) -> tuple[Any, ...]:
    return tuple(getattr(state, f.name) for f in fields(state))


def sample_width(scenario: Scenario, period: float) -> float:
    """Return the sampling period, reduced if rounding to ps would put the last sample after the end of the run.

    Parameters
    ----------
    scenario : Scenario
    period : float, s
        Period before rounding, for example 0.1.

    Returns
    -------
    float
        Period for the engine [s].
    """
    count, end = scenario.n_samples(period), picoseconds(scenario.duration)
    while count * picoseconds(period) > end:
        period = float(np.nextafter(period - 0.5e-12, 0.0))
    return period
