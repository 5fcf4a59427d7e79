"""Networks, hooks and scenarios as Hypothesis draws them, for tests that compare engines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

import ecc
from ecc.contract.records import record_dtype
from ecc.jit import CompiledHooks, compile_hooks
from ecc.models import Protocol, all_protocols
from ecc.native import (
    CHANGE,
    DELAY_CHANGE,
    FLOW_ENV,
    FLOW_HOOKS,
    IMPAIRMENT,
    LINK_ENV,
    LINK_HOOKS,
    SERVER,
    WRITE,
    Engine,
    addresses,
    new_flows,
    new_links,
    new_transfers,
    picoseconds,
)
from ecc.network.impairments import (
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
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

# A protocol that uses all there is -----------------------------------------------------------------------------------
# `mix` gathers all that a hook sees, so that one wrong bit anywhere shows in the final states.


@dataclass
class Header:
    rate: float = 0.0
    rtt: float = 0.0
    link: int = 0
    hops: int = 0


@dataclass
class LinkState:
    R: float = 0.0
    mix: float = 0.0
    arrived: int = 0
    dropped: int = 0
    ticks: int = 0


@dataclass
class FlowState:
    mode: int = 0
    mix: float = 0.0
    acks: int = 0
    losses: int = 0
    bottleneck: int = -1
    received: int = 0
    marks: int = 0
    counts: int = 0


PARAMS = {"drop": 0.02, "gain": 0.4, "interval": 0.01}


def seen_by_link(link: Any, env: Any) -> float:
    return (
        0.5 * link.mix
        + env.now
        + 1e-6 * env.capacity
        + 0.001 * env.queue
        + 0.002 * env.queue_low
        + env.random
        + 0.01 * env.flow_queue
        + 0.1 * env.packet_size
        + env.kind
        + 3.0 * env.flow
        + env.link
        + 1e-5 * env.buffer
        + 11.0 * env.ecn
        + 70.0 * env.sojourn
        + 0.003 * env.backlog
        + 40.0 * env.queue_index
    )


def link_on_start(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env)
    link.R = 0.3 * env.capacity
    env.next_interval = p.interval * (1.0 + env.link)
    header.hops = 5  # a scratch header: nobody sees it


def link_on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.hops
    link.arrived += env.packet_size
    if env.random > 0.0 and env.random < p.drop:
        env.drop = 1
    if link.arrived % 3 == 0:
        env.mark = 1
    if link.arrived % 4 == 0 or env.backlog > 8000:
        env.trim = 1
    env.filter = link.arrived % 3
    if link.arrived % 7 == 0:
        env.next_interval = 0.004


def link_on_classify(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.hops
    env.queue_index = (env.flow + env.kind) % 2


def link_on_select(link: Any, header: Any, p: Any, env: Any) -> None:
    """Serve the queue that has had fewer turns, if its packets are known; otherwise wait."""
    env.wait = 0.001


def link_on_dequeue(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.rtt
    if env.random > 0.5 and env.sojourn > 0.002:
        env.drop = 1
    if header.hops % 4 == 0:
        env.mark = 1
    if env.sojourn > 0.1:
        env.next_interval = 0.003


def link_on_departure(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.rtt
    header.hops += 1
    if header.hops % 5 == 0:
        env.mark = 1
    if env.kind == 0 and (header.rate == 0.0 or link.R < header.rate):
        header.rate = link.R
        header.link = env.link
    env.drop = 1  # only read on arrival and on dequeue


def link_on_drop(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.hops
    link.dropped += 1


def link_on_interval(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.hops
    link.ticks += 1
    y = 8.0 * link.arrived / env.now if env.now > 0.0 else 0.0
    C = env.capacity
    link.R = min(max(link.R * (1.0 + p.gain * (C - y) / C), 8e3), C)
    if link.ticks % 5 == 0:
        env.next_interval = p.interval * math.exp(-env.random)
    if link.ticks == 40:
        env.next_interval = 0.0


def seen_by_flow(flow: Any, env: Any) -> float:
    return (
        0.5 * flow.mix
        + env.now
        + 0.001 * env.packet_size
        + env.rtt
        + 2.0 * env.srtt
        + 3.0 * env.min_rtt
        + env.kind
        + 0.01 * env.in_flight
        + 1e-4 * env.delivered
        + 1e-3 * env.lost
        + env.flow
        + env.random
        + env.timer
        + 1e-7 * env.rate
        + 1e-4 * env.window
        + 1e-5 * env.size
        + 0.03 * env.header_bytes
        + 1e-3 * env.acked
        + 5.0 * env.recovering
        + 7.0 * env.recovered
        + 9.0 * env.undone
        + 1e-4 * min(env.unsent, 1000000)
        + 1e-2 * env.marked
        + 11.0 * env.ece
        + env.timer_1
        + env.timer_2
        + env.timer_3
        + env.counter
        + env.control_size
        + env.control_kind
        + 13.0 * env.limited_by
        + env.idle
        + 3.0 * env.rto
    )


def flow_on_start(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    env.counter = 3000
    env.timer_1 = 0.011
    if flow.mode == 0:
        env.rate = 8e5
    elif flow.mode == 1:
        env.window = 4.0 * env.packet_size
    elif flow.mode == 2:
        env.rate = 4e6
        env.window = 5000.0
    else:
        env.timer = 0.02


def flow_on_send(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env) + header.rate
    header.rtt = env.rtt
    header.link = -1
    if flow.mode == 3 and env.random > 0.9:
        env.rate = min(1.1 * env.rate, 1e7)


def flow_on_receive(flow: Any, header: Any, p: Any, env: Any) -> None:
    header.rate = 0.5 * header.rate + env.random + env.now
    env.rate = -1.0  # ignored
    env.counter = 1  # neither
    env.timer = 0.03 if flow.received % 8 == 1 else -1.0  # ignored without on_report
    flow.received += 1
    flow.marks += env.marked
    if flow.received % 3 == 0 or env.marked > 0:
        env.control_size = 64 + 10 * (flow.received % 5)
        env.control_kind = flow.received % 7


def flow_on_report(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env) + header.rate + header.hops
    header.rate = env.random + env.now
    env.rate = -1.0  # ignored
    env.timer = 0.0 if flow.received % 17 == 3 and flow.marks == 0 else 0.007
    flow.marks += 1
    if flow.received % 2 == 0:
        env.control_size = 100
        env.control_kind = 8


def flow_on_control(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env) + header.rate + header.hops
    if env.kind == 2:
        env.timer_2 = 0.007
    env.rate = 0.99 * env.rate


def flow_on_count(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    flow.counts += 1
    env.counter = 4000
    env.timer_3 = 0.002 * (flow.counts % 3)
    if flow.counts % 11 == 0:
        env.timer_1 = math.inf


def flow_on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env) + header.rate + header.rtt + header.hops
    flow.acks += 1
    flow.bottleneck = header.link
    if flow.mode == 0:
        env.rate = min(max(header.rate, 1e5), 3e6)
    elif flow.mode == 1:
        env.window = min(env.window + 1000.0 * env.packet_size / max(env.window, 1000.0), 30000.0)
    elif flow.mode == 2:
        if flow.acks % 13 == 0:
            env.timer = 0.015
            env.rate = 0.0
        env.window = 5000.0 + 10.0 * flow.acks
    else:
        env.timer = 0.05
        env.rate = min(1.01 * env.rate, 1e7)


def flow_on_loss(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    flow.losses += 1
    env.rate = 0.5 * env.rate
    env.window = 0.5 * env.window if env.window > 3000.0 else env.window
    if env.kind == 1:
        env.rate = 2e5


def flow_on_restart(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    if env.idle > env.rto and env.window > 3000.0:
        env.window = 3000.0
    if flow.mode == 2 and flow.acks % 7 == 0:
        env.window = 0.0


def flow_on_timer(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    if env.kind == 0:
        env.rate = min(max(2.0 * env.rate, 1e5), 8e6) if flow.mode == 2 else 6e5
    if env.kind == 1:
        env.timer_1 = 0.004
        env.timer_2 = 0.004
    if flow.losses == 3:
        flow.losses += 1
        env.timer = 0.0


def flow_on_stop(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    env.rate = -5.0  # ignored


LINK_TABLE = {name: globals()[f"link_{name}"] for name in LINK_HOOKS}
FLOW_TABLE = {name: globals()[f"flow_{name}"] for name in FLOW_HOOKS}
DTYPES = {record: record_dtype(record) for record in (Header, LinkState, FlowState)}
PARAMS_DTYPE = np.dtype([(name, "f8") for name in PARAMS])


def compiled_hooks() -> tuple[CompiledHooks, CompiledHooks]:
    """The hooks of links and those of flows."""
    return (
        compile_hooks(LINK_TABLE, DTYPES[LinkState], DTYPES[Header], PARAMS_DTYPE, LINK_ENV),
        compile_hooks(FLOW_TABLE, DTYPES[FlowState], DTYPES[Header], PARAMS_DTYPE, FLOW_ENV),
    )


# Networks ------------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """What both engines get."""

    links: np.ndarray
    flows: np.ndarray
    routes: list[int]
    link_hooks: list[list[str]]
    flow_hooks: list[list[str]]
    modes: list[int]
    drop: float
    seed: int
    duration: float
    sample: float
    n_sampled: int
    max_events: int
    templates: np.ndarray
    template_hooks: list[list[str]]
    template_modes: list[int]
    transfers: np.ndarray
    chunk: int
    n_additional: int = 0
    changes: np.ndarray = field(default_factory=lambda: np.zeros(0, CHANGE))
    impairments: np.ndarray = field(default_factory=lambda: np.zeros(0, IMPAIRMENT))
    delay_changes: np.ndarray = field(default_factory=lambda: np.zeros(0, DELAY_CHANGE))
    writes: np.ndarray = field(default_factory=lambda: np.zeros(0, WRITE))
    servers: np.ndarray = field(default_factory=lambda: np.zeros(0, SERVER))
    opportunities: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    quanta: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            if isinstance(value, np.ndarray):
                if value.dtype.names is None:
                    return repr(value.tolist())
                return repr([dict(zip(value.dtype.names, row.item(), strict=True)) for row in value])
            return repr(value)

        return f"Case({', '.join(f'{name}={shown(getattr(self, name))}' for name in self.__dataclass_fields__)})"


# A clock on which many things happen at the same instant, and one on which they do not.
TIMES = st.one_of(st.sampled_from([0.0, 0.001, 0.002, 0.004, 0.01]), st.floats(0.0, 0.03))
CAPACITIES = st.one_of(st.sampled_from([1e6, 2e6, 4e6, 8e6]), st.floats(1e6, 2e7))
SLOT_BYTES = st.sampled_from([0, 0, 100, 3000])
SIZES = st.sampled_from([40, 250, 500, 1000, 1000, 1500])
REGIONS = DTYPES[Header].itemsize * np.array([0, 1])  # where in a header a protocol's fields are


def draw_queues(draw: Any, links: np.ndarray) -> np.ndarray:
    """Let some links have several queues, and return the quanta."""
    for link in links:
        link["n_queues"] = draw(st.sampled_from([0, 0, 2, 3]))
        link["scheduler"] = draw(st.integers(0, 2)) if link["n_queues"] else 0
        link["drops_longest"] = draw(st.booleans())
    n_queues = int(links["n_queues"].sum())
    return np.array(draw(st.lists(st.sampled_from([40, 500, 3000]), min_size=n_queues, max_size=n_queues)), np.int64)


def draw_pauses(draw: Any, links: np.ndarray) -> None:
    """Let some links of some networks be paused."""
    for link in links if draw(st.booleans()) else []:
        link["xoff"] = draw(st.sampled_from([0, 1, 3000, 20_000]))
        link["xon"] = draw(st.sampled_from([0, link["xoff"] // 2, link["xoff"]]))
        link["headroom"] = draw(st.sampled_from([0, 2000, 50_000]))


def draw_changes(draw: Any, links: np.ndarray) -> np.ndarray:
    """Capacities that change, at some links."""
    changes = []
    for link in links:
        times = sorted(draw(st.sets(st.integers(0, 10**12), max_size=4))) if draw(st.integers(0, 2)) == 0 else []
        link["n_changes"] = len(times)
        changes += [(time, draw(st.one_of(st.just(0.0), CAPACITIES))) for time in times]
    return np.array(changes, CHANGE)


def draw_impairments(draw: Any) -> np.ndarray:
    impairments = np.zeros(draw(st.integers(0, 2)), IMPAIRMENT)
    for way in impairments:
        way["data_loss"], way["ack_loss"] = [draw(st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0])) for _ in range(2)]
        for name in ("spike", "jitter"):
            way[f"{name}_lo"] = picoseconds(draw(TIMES))
            way[f"{name}_hi"] = way[f"{name}_lo"] + picoseconds(draw(TIMES))
        way["spike_between"] = draw(st.sampled_from([0, 10**7]))
        way["spike_every_lo"] = draw(st.integers(1, 10))
        way["spike_every_hi"] = draw(st.sampled_from([0, 1, 20])) and way["spike_every_lo"] + draw(st.integers(0, 10))
        way["reorders"] = draw(st.booleans())
        draw_laws(draw, way)
        draw_slots(draw, way)
    return impairments


def draw_laws(draw: Any, way: np.ndarray) -> None:
    """Laws of jitter and bursts of losses of some impairments."""
    way["jitter_law"] = draw(st.sampled_from([0, 0, 1, 2]))
    way["jitter_scale"] = float(picoseconds(draw(TIMES)))
    way["jitter_spread"] = 0.4 if way["jitter_law"] == 2 else float(picoseconds(draw(TIMES)))
    way["burst_kinds"] = draw(st.sampled_from([0, 0, 1, 2, 3]))
    way["burst_begins"], way["burst_ends"] = draw(st.sampled_from([(0.01, 0.3), (0.2, 1.0), (1.0, 1.0)]))
    way["burst_good_loss"], way["burst_bad_loss"] = draw(st.sampled_from([(0.0, 1.0), (0.01, 0.5)]))


def draw_writes(draw: Any, flow: np.void, writes: list[tuple[int, int]]) -> None:
    """Writes at their own times, of some flows that do not write periodically."""
    if flow["write_size"] > 0 or draw(st.integers(0, 2)) > 0:
        return
    times = sorted(draw(st.sets(st.integers(0, 4 * 10**11), min_size=1, max_size=6)))
    totals = np.cumsum([draw(st.sampled_from([1, 300, 4000, 50_000])) for _ in times]).tolist()
    flow["first_write"], flow["n_writes"] = len(writes), len(times)
    writes += zip(times, totals, strict=True)


def draw_delays(draw: Any, impairments: np.ndarray) -> np.ndarray:
    """Changes of the delays of impairments."""
    changes = []
    for way in impairments:
        times = sorted(draw(st.sets(st.integers(0, 10**12), max_size=4)))
        way["first_delay"], way["n_delays"] = len(changes), len(times)
        changes += [(time, picoseconds(draw(TIMES))) for time in times]
    return np.array(changes, DELAY_CHANGE)


def draw_slots(draw: Any, row: np.ndarray) -> None:
    """Slots of some servers and impairments."""
    if draw(st.integers(0, 2)) == 0:
        row["slot_lo"] = draw(st.sampled_from([0, 1, 10**9, 3 * 10**10]))
        row["slot_hi"] = row["slot_lo"] + draw(st.sampled_from([0, 1, 2 * 10**9]))
        row["slot_packets"], row["slot_bytes"] = draw(st.sampled_from([0, 0, 1, 3])), draw(SLOT_BYTES)


def draw_servers(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Servers, and the opportunities of all of them."""
    servers = np.zeros(draw(st.integers(0, 2)), SERVER)
    opportunities: list[int] = []
    for server in servers:
        server["rate"] = draw(st.one_of(st.just(0.0), CAPACITIES))
        server["burst"] = draw(st.sampled_from([1, 1000, 1500, 20_000]))
        if draw(st.booleans()):
            times = sorted(draw(st.lists(st.integers(0, 10**11), max_size=6))) + [10**11]
            server["n_opportunities"], server["opportunity"] = len(times), draw(st.sampled_from([100, 1504, 4000]))
            opportunities += times
        draw_slots(draw, server)
    return servers, np.array(opportunities, np.int64)


@st.composite
def cases(draw: Any, pauses: bool = False) -> Case:
    n_links, n_flows, n_additional = (
        draw(st.integers(1, 6)),
        draw(st.integers(1, 12)),
        draw(st.sampled_from([0, 0, 1, 3])),
    )
    n_templates = draw(st.integers(0, 2))
    links, flows, templates = new_links(n_links + n_additional), new_flows(n_flows), new_flows(n_templates)
    impairments = draw_impairments(draw)
    delay_changes = draw_delays(draw, impairments)
    writes: list[tuple[int, int]] = []
    some_impairment = st.one_of(st.just(0), st.integers(0, len(impairments)))
    servers, opportunities = draw_servers(draw)
    for link in links:
        link["server"] = draw(st.one_of(st.just(0), st.integers(0, len(servers))))
        link["impairment"] = draw(some_impairment)
        link["at"] = draw(st.integers(0, n_links - 1))
        link["header_offset"] = draw(st.sampled_from(REGIONS))
        link["capacity"] = draw(CAPACITIES)
        link["delay"] = picoseconds(draw(TIMES))
        link["buffer"] = draw(st.sampled_from([-1, -1, 0, 1500, 3000, 6000, 20000]))
        link["buffer_packets"] = draw(st.sampled_from([0, 0, 1, 5]))
        link["first_interval"] = draw(st.sampled_from([-1, 0, 10**10, 12345678901]))
        link["wants_flow_queue"], link["wants_random"] = draw(st.booleans()), draw(st.booleans())
        link["phase_jitter"] = draw(st.booleans())
    routes: list[int] = []
    if sprayed := draw(st.integers(0, n_flows)) if draw(st.booleans()) else 0:  # so many of the first flows
        links["wants_flow_queue"] = 0
    can_be_marked = draw(st.booleans())
    ways = st.permutations(range(n_links))
    for k, flow in enumerate([*flows, *templates]):
        forward = draw(ways)[: draw(st.integers(1, n_links))]
        reverse = draw(ways)[: draw(st.integers(0, n_links))] if draw(st.booleans()) else []
        others = [draw(ways)[: draw(st.integers(1, n_links))] for _ in range(draw(st.integers(0, 3)) * (k < sprayed))]
        routes += [*forward, *reverse, *map(len, others), *(link for way in others for link in way)]
        flow["n_forward"], flow["n_reverse"], flow["n_alternatives"] = len(forward), len(reverse), len(others)
        flow["spraying"] = draw(st.integers(0, 1)) if others else 0
        flow["trimmed_size"] = draw(st.sampled_from([0, 0, 40, 400]))
        flow["reordering_threshold"] = draw(st.sampled_from([0, 0, 0, 1, 2, 9]))
        flow["start"] = picoseconds(10 * draw(TIMES))
        if draw(st.booleans()):
            flow["stop"] = flow["start"] + max(1, picoseconds(20 * draw(TIMES)))
        if draw(st.booleans()):
            flow["size"] = draw(st.integers(1, 60000))
        flow["packet_size"], flow["ack_size"] = draw(SIZES), draw(st.sampled_from([40, 40, 1000]))
        flow["packet_size_max"] = flow["packet_size"] + draw(st.sampled_from([0, 0, 1, 460]))
        flow["opening_size"] = draw(st.sampled_from([0, 0, 40, 700]))
        flow["header_offset"], flow["header_bytes"] = draw(st.sampled_from(REGIONS)), draw(st.sampled_from([0, 0, 32]))
        flow["access_delay"], flow["ack_delay"] = picoseconds(draw(TIMES)), picoseconds(draw(TIMES))
        flow["rate"] = draw(st.sampled_from([0.0, 5e5, 2e6]))
        flow["window"] = draw(st.sampled_from([0.0, 0.0, 300.0, 1500.0, 6000.0]))
        flow["bottleneck"] = draw(st.sampled_from([-1, DTYPES[FlowState].fields["bottleneck"][1]]))
        flow["wants_random"] = draw(st.booleans())
        flow["impairment"] = draw(some_impairment)
        flow["transport"] = 0 if flow["trimmed_size"] else draw(st.sampled_from([0, 0, 1, 2, 3, 3, 4, 4]))
        flow["lost_retransmission"] = draw(st.sampled_from([0, 0, 1]))
        flow["uses_prr"] = draw(st.sampled_from([0, 1, 2])) if flow["transport"] in (2, 3) else 0
        flow["ecn"] = draw(st.sampled_from([0, 0, 1, 2, 3])) if can_be_marked else 0
        flow["receiver_window"] = draw(st.sampled_from([0, 0, 2000, 8000]))
        flow["min_rto"] = draw(st.sampled_from([0, 10**10, 10**11, 10**12]))
        flow["initial_rto"] = draw(st.sampled_from([0, 10**10, 10**12]))
        flow["rto_granularity"] = draw(st.sampled_from([0, 10**9, 10**10]))
        if flow["transport"]:
            flow["pacing_gain"] = draw(st.sampled_from([0.0, 0.0, 1.25, 2.0]))
            flow["pacing_burst"] = draw(st.sampled_from([0, 1500, 4000]))
        flow["ack_every"], flow["ack_wait"] = draw(st.sampled_from([0, 0, 2, 5])), picoseconds(draw(TIMES))
        flow["enables_subsequent"] = draw(st.booleans())
        flow["write_size"] = draw(st.sampled_from([0, 0, 0, 500, 3000, 20000]))
        flow["write_period"] = picoseconds(max(1e-3, 2 * draw(TIMES))) if flow["write_size"] else 0
        draw_writes(draw, flow, writes)
        flow["n_timers"] = draw(st.integers(0, 4))
        flow["priority"] = draw(st.sampled_from([0, 0, 1, 7]))
        flow["phase_jitter"] = draw(st.integers(0, 2))
    transfers = new_transfers(draw(st.integers(0, 40)) if n_templates else 0)
    for transfer in transfers:
        transfer["start"] = picoseconds(20 * draw(TIMES))
        transfer["stop"] = draw(st.sampled_from([-1, transfer["start"] + max(1, picoseconds(20 * draw(TIMES)))]))
        transfer["size"] = draw(st.sampled_from([-1, 1, 1000, 5000, 30000]))
        transfer["access_delay"], transfer["ack_delay"] = picoseconds(draw(TIMES)), picoseconds(draw(TIMES))
        transfer["template_index"] = draw(st.integers(0, n_templates - 1))
        transfer["receiver_window"] = draw(st.sampled_from([0, 0, 2500]))
    transfers = transfers[np.argsort(transfers["start"], kind="stable")]
    for before, transfer in zip(transfers, transfers[1:], strict=False):
        if before["size"] > 0 and templates[before["template_index"]]["enables_subsequent"] and draw(st.booleans()):
            transfer["is_subsequent"], transfer["start"], transfer["stop"] = 1, picoseconds(draw(TIMES)), -1
    some = st.one_of(st.just(list(LINK_HOOKS)), st.lists(st.sampled_from(LINK_HOOKS), unique=True))
    quanta = draw_queues(draw, links[:n_links])
    if pauses:
        draw_pauses(draw, links[:n_links])
    chosen = [draw(some) for _ in links]
    for k, link in enumerate(links):  # which of two queues; not where there is one
        if links[k if k < n_links else link["at"]]["n_queues"] == 0:
            chosen[k] = [name for name in chosen[k] if name != "on_classify"]
    some_hooks = st.one_of(st.just(list(FLOW_HOOKS)), st.lists(st.sampled_from(FLOW_HOOKS), unique=True))
    return Case(
        links,
        flows,
        routes,
        chosen,
        [draw(some_hooks) for _ in flows],
        [draw(st.integers(0, 3)) for _ in flows],
        draw(st.sampled_from([0.0, 0.02, 0.2])),
        draw(st.integers(0, 2**64 - 1)),
        draw(st.floats(0.1, 1.5)),
        draw(st.sampled_from([0.001, 0.01, 0.0123])),
        draw(st.integers(0, n_flows)),
        draw(st.integers(1, 500)),
        templates,
        [draw(some_hooks) for _ in templates],
        [draw(st.integers(0, 3)) for _ in templates],
        transfers,
        draw(st.integers(1, 20)),
        n_additional,
        draw_changes(draw, links[:n_links]),
        impairments,
        delay_changes,
        np.array(writes, WRITE),
        servers,
        opportunities,
        quanta,
    )


def advance(engine: Any, case: Case, until: float, handed: int = 0, max_events: int | None = None) -> int:
    """Advance an engine or a team, which gets transfers in chunks, to a time; returns how many it has got."""
    while (stop := engine.advance(until, max_events)) in ("max_events", "transfers"):
        if stop == "transfers":
            end = handed + case.chunk
            while end < len(case.transfers) and case.transfers[end]["is_subsequent"]:
                end += 1
            engine.add(case.transfers[handed:end], more=end < len(case.transfers))
            handed = min(end, len(case.transfers))
    return handed


def options_of(case: Case) -> dict[str, Any]:
    """What both engines are given by the same names."""
    return {
        "seed": case.seed,
        "sample": case.sample,
        "n_samples": int(case.duration / case.sample),
        "n_sampled": case.n_sampled,
        "n_additional": case.n_additional,
        "changes": case.changes,
        "impairments": case.impairments,
        "delay_changes": case.delay_changes,
        "writes": case.writes,
        "quanta": case.quanta,
        "servers": case.servers,
        "opportunities": case.opportunities,
    }


def records_of(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The records of routers, flows and templates as they begin, and the parameters."""
    records = [np.zeros(len(rows), DTYPES[FlowState]) for rows in (case.flows, case.templates)]
    for states, modes in zip(records, (case.modes, case.template_modes), strict=True):
        states["mode"], states["bottleneck"] = modes, -1
    params = np.array([tuple((PARAMS | {"drop": case.drop}).values())], PARAMS_DTYPE)
    return np.zeros(len(case.links), DTYPES[LinkState]), *records, params


def engine_of(case: Case, compiled: Any, records: tuple[np.ndarray, ...], **options: Any) -> Engine:
    """The C engine, which writes these records."""
    links, flows, templates = case.links.copy(), case.flows.copy(), case.templates.copy()
    for rows, chosen, table, states in (
        (links, case.link_hooks, compiled[0], records[0]),
        (flows, case.flow_hooks, compiled[1], records[1]),
        (templates, case.template_hooks, compiled[1], records[2]),
    ):
        rows["state"], rows["params"] = addresses(states), addresses(records[3])[0]
        for row, names in zip(rows, chosen, strict=True):
            for name in names:
                row[name] = table[name]
    return Engine(
        links,
        flows,
        case.routes,
        header_size=len(REGIONS) * DTYPES[Header].itemsize,
        trace=4_000_000,
        histogram=True,
        templates=templates,
        record_size=DTYPES[FlowState].itemsize,
        keep=(records, compiled),
        reasons=getattr(compiled[1], "reasons", None),
        **options_of(case),
        **options,
    )


# The protocols of the project ----------------------------------------------------------------------------------------

PROTOCOLS = {
    **{name: cls for name, cls in all_protocols().items() if cls.has_packet_hooks()},
    "ConstantRate": partial(ecc.models.ConstantRate, "2 Mb/s"),
    "DCQCN": partial(
        ecc.models.DCQCN,
        "4 Mb/s",
        interval=0.005,
        alpha_interval=0.006,
        increase_interval=0.01,
        byte_counter=8000,
        rate_ai=1e5,
        rate_hai=1e6,
        min_threshold=1500,
        max_threshold=9000,
        p_max=0.5,
    ),
    "RCP-2": partial(ecc.models.RCP, rtt="max", loss="halve"),
    "PIQI-RCP-ACK": partial(ecc.models.PIQIRCP, update="ack", loss="halve"),
    "PIQI-RCP-RTT": partial(ecc.models.PIQIRCP, update="rtt"),
    "JetMax-rate": partial(ecc.models.JetMax, interval=0.02, bottleneck="rate", mice="desired_rate"),
    "JetMax-naive": partial(
        ecc.models.JetMax, interval=0.02, switching="naive", proposed_rate=False, mice="unresponsive", mouse_size=20_000
    ),
}
START_TIMES = st.sampled_from([0.0, 0.0, 0.05, 0.1, 0.123])


def protocols(draw: Any) -> Protocol:
    return PROTOCOLS[draw(st.sampled_from(sorted(PROTOCOLS)))]()


def mixes(draw: Any, n_links: int, n_flows: int) -> dict[str, Any]:
    """Several protocols, the routers of all of them at most links, and other ones at some."""
    flows = {k: protocols(draw) for k in range(n_flows) if draw(st.booleans())}
    kinds = {type(one): one for one in (*flows.values(), protocols(draw))}
    flows = {k: kinds[type(one)] for k, one in flows.items()} | {"default": list(kinds.values())[-1]}
    some = st.lists(st.sampled_from(list(kinds.values())), unique=True, max_size=3)
    return {"flows": flows, "links": {k: draw(some) for k in range(n_links) if draw(st.integers(0, 3)) == 0}}


@st.composite
def scenarios(draw: Any) -> Scenario:
    n_links, n_flows = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    buffers = st.sampled_from([None, 4000, 20000])
    links = [
        Link(draw(CAPACITIES), draw(TIMES), draw(buffers), draw(st.sampled_from([None, None, 4])))
        for _ in range(n_links)
    ]
    flows = []
    sprays = draw(st.integers(0, 3)) == 0
    for _ in range(n_flows):
        way = draw(st.permutations(range(n_links)))
        cut = draw(st.integers(1, n_links))
        start = draw(START_TIMES)
        flows.append(
            Flow(
                way[:cut],
                start=start,
                stop=draw(st.sampled_from([None, start + 0.1, start + 0.333])),
                size=draw(st.sampled_from([None, 700, 30000])),
                access_delay=draw(TIMES),
                packet_size=draw(st.sampled_from([500, 1000, 1500, (300, 1500)])),
                reverse=draw(st.sampled_from([None, list(reversed(way[:cut])), way[cut:] or None])),
                delayed_acks=draw(st.sampled_from([None, None, (2, 0.04)])),
                alternatives=[
                    draw(st.permutations(range(n_links)))[:cut] for _ in range(draw(st.integers(0, 2)) * sprays)
                ],
                spraying=draw(st.sampled_from(["round robin", "random"])),
                reordering_threshold=draw(st.sampled_from([None, 5])) if sprays else None,
            )
        )
    network, seed = Network(links, flows), draw(st.integers(0, 99))
    protocol = mixes(draw, n_links, n_flows) if draw(st.booleans()) else protocols(draw)
    phases = draw(st.sampled_from(["random", "equal", [k / n_links for k in range(n_links)]]))
    link, reordered = draw(st.integers(0, n_links - 1)), draw(st.booleans())
    delay, law = draw(
        st.sampled_from([((0.0, 0.01), "uniform"), ((0.004, 0.003), "normal"), ((0.004, 0.002), "pareto")])
    )
    possible = [
        RandomLoss(0.05, link=link, kind="all"),
        RandomLoss(0.5, acks_of="all"),
        DelaySpikes((5, 20), (0.0, 0.1), link=link),
        Jitter((0.0, 0.01), link=link, in_order=not reordered),
        Jitter(delay, acks_of=0, law=law, in_order=reordered),
        DelaySchedule(link, [0.1, 0.2, 0.3], [0.03, 0.0, 0.01], in_order=not reordered),
        BurstLoss(0.02, 0.3, link=link, kind="all"),
        CapacitySchedule(link, [0.1, 0.15, 0.4], [2e6, 1e5, 8e6]),
        Shaper(link, 1e6, 3000),
        Aggregation((0.0, 0.01), acks_of=0),
        Aggregation((0.002, 0.01), link=link, max_packets=4, max_size=3000),
        DeliveryTrace(link, [0.0, 0.002, 0.002, 0.003, 0.009]),
    ]
    impairments = draw(st.lists(st.sampled_from(possible), unique=True, max_size=4))
    return Scenario(
        network,
        protocol,
        draw(st.floats(0.2, 1.0)),
        seed=seed,
        phases=phases,
        impairments=impairments,
        phase_jitter=draw(st.sampled_from([None, True])),
    )


# One at a time -------------------------------------------------------------------------------------------------------


def one_flow(**values: Any) -> Case:
    """One link of 8 Mb/s, one flow of 1000-byte packets, no hooks, no delays: a packet takes 1 ms."""
    links, flows = new_links(1), new_flows(1)
    links["capacity"], flows["n_forward"] = 8e6, 1
    fields: dict[str, Any] = {
        "link_hooks": [[]],
        "flow_hooks": [[]],
        "modes": [0],
        "drop": 0.0,
        "seed": 1,
        "duration": 0.1,
        "sample": 0.01,
        "n_sampled": 1,
        "max_events": 10**6,
        "templates": new_flows(0),
        "template_hooks": [],
        "template_modes": [],
        "transfers": new_transfers(0),
        "chunk": 1,
    }
    for name, value in values.items():
        if name in fields:
            fields[name] = value
        else:
            (links if name in links.dtype.names else flows)[name] = value
    return Case(links, flows, [0], **fields)
