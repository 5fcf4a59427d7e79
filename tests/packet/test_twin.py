"""The C engine against its twin in plain Python: the same networks, hooks and seeds, equal event by event.

`ECC_TWIN_CASES=10000 pytest -m slow tests/packet/test_twin.py` draws 10,000 networks.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecc
from ecc.errors import NativeError
from ecc.impairments import CapacitySchedule, DelaySpikes, Jitter, RandomLoss
from ecc.jit import CompiledHooks, compile_hooks
from ecc.models import Protocol, all_protocols
from ecc.models.records import record_dtype
from ecc.native import (
    CHANGE,
    COUNTERS,
    FLOW_ENV,
    FLOW_HOOKS,
    IMPAIRMENT,
    LINK_ENV,
    LINK_HOOKS,
    Engine,
    addresses,
    new_flows,
    new_links,
    new_transfers,
    picoseconds,
)
from ecc.network import Flow, Link, Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import Kind, Twin, build_twin
from ecc.packet.twin.state import NEVER, Agent, Record, to_ps, transmission
from ecc.scenario import Scenario

CASES = int(os.environ.get("ECC_TWIN_CASES", "500"))
FEW = settings(max_examples=20, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=CASES, suppress_health_check=list(HealthCheck))

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


PARAMS = {"drop": 0.02, "gain": 0.4, "interval": 0.01}


def seen_by_link(link: Any, env: Any) -> float:
    return (
        0.5 * link.mix + env.now + 1e-6 * env.capacity + 0.001 * env.queue + 0.002 * env.queue_low + env.random
        + 0.01 * env.flow_queue + 0.1 * env.packet_size + env.kind + 3.0 * env.flow + env.link + 1e-5 * env.buffer
        + 11.0 * env.ecn + 70.0 * env.sojourn + 0.003 * env.backlog + 40.0 * env.queue_index
    )  # fmt: skip


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
    if link.arrived % 7 == 0:
        env.next_interval = 0.004


def link_on_classify(link: Any, header: Any, p: Any, env: Any) -> None:
    link.mix = seen_by_link(link, env) + header.hops
    env.queue_index = (env.flow + env.kind) % 2


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
        0.5 * flow.mix + env.now + 0.001 * env.packet_size + env.rtt + 2.0 * env.srtt + 3.0 * env.min_rtt + env.kind
        + 0.01 * env.in_flight + 1e-4 * env.delivered + 1e-3 * env.lost + env.flow + env.random + env.timer
        + 1e-7 * env.rate + 1e-4 * env.window + 1e-5 * env.size + 0.03 * env.header_bytes
        + 1e-3 * env.acked + 5.0 * env.recovering + 7.0 * env.recovered
        + 1e-2 * env.marked + 11.0 * env.ece
    )  # fmt: skip


def flow_on_start(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
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
    env.timer = 0.5  # neither


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


def flow_on_timer(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.mix = seen_by_flow(flow, env)
    env.rate = min(max(2.0 * env.rate, 1e5), 8e6) if flow.mode == 2 else 6e5
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


@pytest.fixture(scope="module")
def compiled() -> tuple[CompiledHooks, CompiledHooks]:
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
    return impairments


@st.composite
def cases(draw: Any) -> Case:
    n_links, n_flows, n_additional = (
        draw(st.integers(1, 6)),
        draw(st.integers(1, 12)),
        draw(st.sampled_from([0, 0, 1, 3])),
    )
    n_templates = draw(st.integers(0, 2))
    links, flows, templates = new_links(n_links + n_additional), new_flows(n_flows), new_flows(n_templates)
    impairments = draw_impairments(draw)
    some_impairment = st.one_of(st.just(0), st.integers(0, len(impairments)))
    for link in links:
        link["impairment"] = draw(some_impairment)
        link["at"] = draw(st.integers(0, n_links - 1))
        link["header_offset"] = draw(st.sampled_from(REGIONS))
        link["capacity"] = draw(CAPACITIES)
        link["delay"] = picoseconds(draw(TIMES))
        link["buffer"] = draw(st.sampled_from([-1, -1, 0, 1500, 3000, 6000, 20000]))
        link["buffer_packets"] = draw(st.sampled_from([0, 0, 1, 5]))
        link["first_interval"] = draw(st.sampled_from([-1, 0, 10**10, 12345678901]))
        link["wants_flow_queue"], link["wants_random"] = draw(st.booleans()), draw(st.booleans())
    routes: list[int] = []
    can_be_marked = draw(st.booleans())
    ways = st.permutations(range(n_links))
    for flow in [*flows, *templates]:
        forward = draw(ways)[: draw(st.integers(1, n_links))]
        reverse = draw(ways)[: draw(st.integers(0, n_links))] if draw(st.booleans()) else []
        routes += [*forward, *reverse]
        flow["n_forward"], flow["n_reverse"] = len(forward), len(reverse)
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
        flow["transport"] = draw(st.sampled_from([0, 0, 1, 2, 2]))
        flow["ecn"] = draw(st.sampled_from([0, 0, 1, 2, 3])) if can_be_marked else 0
        flow["receiver_window"] = draw(st.sampled_from([0, 0, 2000, 8000]))
        flow["min_rto"] = draw(st.sampled_from([0, 10**10, 10**11, 10**12]))
        flow["rto_granularity"] = draw(st.sampled_from([0, 10**9, 10**10]))
        flow["ack_every"], flow["ack_wait"] = draw(st.sampled_from([0, 0, 2, 5])), picoseconds(draw(TIMES))
        flow["enables_subsequent"] = draw(st.booleans())
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
    chosen = [draw(some) for _ in links]
    for k, link in enumerate(links):  # which of two queues; not where there is one
        if links[k if k < n_links else link["at"]]["n_queues"] == 0:
            chosen[k] = [name for name in chosen[k] if name != "on_classify"]
    others = st.one_of(st.just(list(FLOW_HOOKS)), st.lists(st.sampled_from(FLOW_HOOKS), unique=True))
    return Case(
        links, flows, routes, chosen, [draw(others) for _ in flows],
        [draw(st.integers(0, 3)) for _ in flows], draw(st.sampled_from([0.0, 0.02, 0.2])),
        draw(st.integers(0, 2**64 - 1)), draw(st.floats(0.1, 1.5)), draw(st.sampled_from([0.001, 0.01, 0.0123])),
        draw(st.integers(0, n_flows)), draw(st.integers(1, 500)),
        templates, [draw(others) for _ in templates], [draw(st.integers(0, 3)) for _ in templates],
        transfers, draw(st.integers(1, 20)), n_additional, draw_changes(draw, links[:n_links]), impairments,
        quanta,
    )  # fmt: skip


def both_engines(case: Case, compiled: Any) -> tuple[Engine, Twin, np.ndarray, np.ndarray]:
    """Both engines, and the records that the C engine writes."""
    link_states = np.zeros(len(case.links), DTYPES[LinkState])
    flow_states = np.zeros(len(case.flows), DTYPES[FlowState])
    flow_states["mode"], flow_states["bottleneck"] = case.modes, -1
    template_states = np.zeros(len(case.templates), DTYPES[FlowState])
    template_states["mode"], template_states["bottleneck"] = case.template_modes, -1
    params = np.array([tuple((PARAMS | {"drop": case.drop}).values())], PARAMS_DTYPE)
    n_samples = int(case.duration / case.sample)
    options = {"seed": case.seed, "sample": case.sample, "n_samples": n_samples, "n_sampled": case.n_sampled}
    options |= {"n_additional": case.n_additional, "changes": case.changes, "impairments": case.impairments}
    options |= {"quanta": case.quanta}
    agents = [
        [
            Agent(state, params[0], {name: table[name] for name in names})
            for state, names in zip(states, chosen, strict=True)
        ]
        for states, chosen, table in (
            (link_states, case.link_hooks, LINK_TABLE),
            (flow_states, case.flow_hooks, FLOW_TABLE),
            (template_states, case.template_hooks, FLOW_TABLE),
        )
    ]
    twin = Twin(
        case.links, case.flows, case.routes, *agents[:2], dict.fromkeys(REGIONS, DTYPES[Header]),
        templates=case.templates, template_ends=agents[2], **options,
    )  # fmt: skip
    links, flows, templates = case.links.copy(), case.flows.copy(), case.templates.copy()
    for rows, chosen, table, states in (
        (links, case.link_hooks, compiled[0], link_states),
        (flows, case.flow_hooks, compiled[1], flow_states),
        (templates, case.template_hooks, compiled[1], template_states),
    ):
        rows["state"], rows["params"] = addresses(states), addresses(params)[0]
        for row, names in zip(rows, chosen, strict=True):
            for name in names:
                row[name] = table[name]
    engine = Engine(
        links, flows, case.routes, header_size=len(REGIONS) * DTYPES[Header].itemsize, trace=1_000_000,
        histogram=True, templates=templates, record_size=DTYPES[FlowState].itemsize,
        keep=(link_states, flow_states, template_states, params, compiled),
        reasons=getattr(compiled[1], "reasons", None), **options,
    )  # fmt: skip
    return engine, twin, link_states, flow_states


def run_both(case: Case, compiled: Any) -> tuple[Engine, Twin, np.ndarray, np.ndarray]:
    """Both engines at the end of a case, the C engine in slices, saved and loaded, and with the transfers in chunks."""
    engine, twin, *states = both_engines(case, compiled)
    handed = slices = 0
    while (stop := engine.advance(case.duration, case.max_events)) in ("max_events", "transfers"):
        engine.verify()
        if stop == "transfers":
            end = handed + case.chunk
            while end < len(case.transfers) and case.transfers[end]["is_subsequent"]:
                end += 1
            engine.add(case.transfers[handed:end], more=end < len(case.transfers))
            handed = end
        slices += 1
        if slices == case.chunk:  # another engine continues
            saved, (engine, _, *others) = engine.save(), both_engines(case, compiled)
            for array, other in zip(states, others, strict=True):
                other[:] = array
            engine.load(saved)
            states = others
    engine.verify()
    twin.add(case.transfers, more=False)
    twin.advance(case.duration)
    return engine, twin, *states


def assert_equal(engine: Engine, twin: Twin, *states: list[np.void] | np.ndarray) -> None:
    """All that the engines show is equal; states: the records of the routers and of the flows that C wrote."""
    expected, found = engine.trace, twin.events_traced
    assert len(expected) == engine.stats.trace, "room in the trace"
    for k, (c, p) in enumerate(zip(expected.tolist(), found.tolist(), strict=False)):
        assert c == p, f"record {k} of C: {c} {Kind(c[1]).name}, of the twin: {p} {Kind(p[1]).name}"
    assert len(expected) == len(found)
    stats = engine.stats
    assert (stats.digest, stats.events) == (twin.digest, twin.events)
    assert (stats.data_packets, stats.in_flight) == (twin.data_packets, twin.in_flight)
    for written, records in zip(states, twin.states, strict=True):
        for k, (c, p) in enumerate(zip(written, records, strict=True)):
            assert c.tobytes() == np.array(p, c.dtype).tobytes(), f"record {k} of C: {c}, of the twin: {p}"
    for name in ("link_results", "flow_results"):
        c, p = getattr(engine, name), getattr(twin, name)
        assert c.tobytes() == p.tobytes(), f"{name} of C: {c}, of the twin: {p}"
    for c, p in ((engine.take_finished(), twin.transfers_finished), (engine.alive, twin.transfers_alive)):
        assert c.tobytes() == p.tobytes(), f"transfers of C: {c}, of the twin: {p}"
    np.testing.assert_array_equal(engine.histogram, twin.histogram)
    assert stats.samples == len(twin.rows)
    for name, totals in twin.samples.items():
        if len(totals):
            counted = name in COUNTERS
            values = np.diff(totals, axis=0, prepend=0) if counted else totals
            np.testing.assert_array_equal(engine.samples[name], values, err_msg=name)


@pytest.mark.property
@FEW
@given(case=cases())
def test_any_network_with_any_hooks(case: Case, compiled: tuple[CompiledHooks, CompiledHooks]) -> None:
    assert_equal(*run_both(case, compiled))


@pytest.mark.slow
@pytest.mark.property
@MANY
@given(case=cases())
def test_many_networks_with_any_hooks(case: Case, compiled: tuple[CompiledHooks, CompiledHooks]) -> None:
    assert_equal(*run_both(case, compiled))


# The protocols of the project ----------------------------------------------------------------------------------------

PROTOCOLS = {
    **{name: cls for name, cls in all_protocols().items() if cls.has_packet_hooks()},
    "ConstantRate": partial(ecc.models.ConstantRate, "2 Mb/s"),
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
    for _ in range(n_flows):
        way = draw(st.permutations(range(n_links)))
        cut = draw(st.integers(1, n_links))
        start = draw(START_TIMES)
        flows.append(Flow(
            way[:cut], start=start, stop=draw(st.sampled_from([None, start + 0.1, start + 0.333])),
            size=draw(st.sampled_from([None, 700, 30000])), access_delay=draw(TIMES),
            packet_size=draw(st.sampled_from([500, 1000, 1500, (300, 1500)])),
            reverse=draw(st.sampled_from([None, list(reversed(way[:cut])), way[cut:] or None])),
            delayed_acks=draw(st.sampled_from([None, None, (2, 0.04)])),
        ))  # fmt: skip
    network, seed = Network(links, flows), draw(st.integers(0, 99))
    protocol = mixes(draw, n_links, n_flows) if draw(st.booleans()) else protocols(draw)
    phases = draw(st.sampled_from(["random", "equal", [k / n_links for k in range(n_links)]]))
    link, reordered = draw(st.integers(0, n_links - 1)), draw(st.booleans())
    possible = [
        RandomLoss(0.05, link=link, kind="all"), RandomLoss(0.5, acks_of="all"),
        DelaySpikes((5, 20), (0.0, 0.1), link=link),
        Jitter((0.0, 0.01), link=link, in_order=not reordered), Jitter((0.0, 0.01), acks_of=0, in_order=reordered),
        CapacitySchedule(link, [0.1, 0.15, 0.4], [2e6, 1e5, 8e6]),
    ]  # fmt: skip
    impairments = draw(st.lists(st.sampled_from(possible), unique=True, max_size=4))
    return Scenario(network, protocol, draw(st.floats(0.2, 1.0)), seed=seed, phases=phases, impairments=impairments)


def compare_protocol(scenario: Scenario) -> None:
    setup = prepare(scenario)
    options = {"sample": 0.05, "n_samples": int(scenario.duration / 0.05)}
    twin = build_twin(setup, seed=scenario.seed, n_sampled=scenario.network.n_flows, **options)
    engine = build_engine(setup, scenario, trace=1_000_000, histogram=True, **options)
    engine.advance(scenario.duration)
    twin.advance(scenario.duration)
    nothing = np.zeros(1, np.dtype([]))[0]
    written = {"links": [nothing] * len(setup.links), "flows": [nothing] * setup.n_flows}
    for part in setup.parts:
        for side, numbers, states, *_ in part.sides():
            for number, state in zip(numbers, states, strict=True):
                written[side][number] = state
    assert_equal(engine, twin, *written.values())


@pytest.mark.property
@FEW
@given(scenario=scenarios())
def test_any_small_network_with_a_protocol(scenario: Scenario) -> None:
    compare_protocol(scenario)


@pytest.mark.slow
@pytest.mark.property
@MANY
@given(scenario=scenarios())
def test_many_small_networks_with_a_protocol(scenario: Scenario) -> None:
    compare_protocol(scenario)


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_protocol_on_a_loaded_bottleneck(name: str) -> None:
    network = Network.dumbbell("10 Mb/s", rtts=[0.02, 0.02, 0.05], buffer=15000, starts=[0.0, 0.0, 0.3])
    compare_protocol(Scenario(network, PROTOCOLS[name](), duration=1.0))


# One at a time -------------------------------------------------------------------------------------------------------


def one_flow(**values: Any) -> Case:
    """One link of 8 Mb/s, one flow of 1000-byte packets, no hooks, no delays: a packet takes 1 ms."""
    links, flows = new_links(1), new_flows(1)
    links["capacity"], flows["n_forward"] = 8e6, 1
    fields: dict[str, Any] = {
        "link_hooks": [[]], "flow_hooks": [[]], "modes": [0], "drop": 0.0, "seed": 1, "duration": 0.1, "sample": 0.01,
        "n_sampled": 1, "max_events": 10**6, "templates": new_flows(0), "template_hooks": [], "template_modes": [],
        "transfers": new_transfers(0), "chunk": 1,
    }  # fmt: skip
    for name, value in values.items():
        if name in fields:
            fields[name] = value
        else:
            (links if name in links.dtype.names else flows)[name] = value
    return Case(links, flows, [0], **fields)


def test_packets_of_a_paced_flow_by_hand(compiled: Any) -> None:
    case = one_flow(rate=4e6, size=2500, delay=picoseconds(0.01), ack_delay=picoseconds(0.02))
    engine, twin, *states = run_both(case, compiled)
    assert_equal(engine, twin, *states)
    ms = 10**9
    assert twin.traced == [
        (0, Kind.START, 0, 0),
        (0, Kind.SEND, 0, 0),
        (2 * ms, Kind.SEND, 0, 1000),  # a packet of 8000 bits at 4 Mb/s
        (4 * ms, Kind.SEND, 0, 2000),
        (31 * ms, Kind.ACK, 0, 0),  # 1 ms on the link, 10 on the wire, 20 back
        (33 * ms, Kind.ACK, 0, 1000),
        (34 * ms + ms // 2, Kind.ACK, 0, 2000),
    ]
    assert twin.flow_results["finish"] == 34 * ms + ms // 2 and twin.flow_results["completed"] == 1
    np.testing.assert_array_equal(twin.samples["received"][:3, 0], [0, 2500, 2500])


def test_a_window_clocked_flow_fills_the_buffer_and_loses_the_rest(compiled: Any) -> None:
    case = one_flow(window=6000.0, buffer=3000, delay=picoseconds(0.01), duration=3.0)
    engine, twin, *states = run_both(case, compiled)
    assert_equal(engine, twin, *states)
    drops = [event for event in twin.traced if event[1] == Kind.DROP]
    assert drops[:3] == [(0, Kind.DROP, 0, 3000), (0, Kind.DROP, 0, 4000), (0, Kind.DROP, 0, 5000)]
    assert twin.flows[0].lost > 0 and twin.links[0].queue <= 3000


def test_a_window_without_end_is_sent_in_events_that_end(compiled: Any) -> None:
    case = one_flow(window=1e300, size=70_000, packet_size=1, buffer=500, duration=0.5, max_events=1000)
    engine, twin, *states = run_both(case, compiled)
    assert_equal(engine, twin, *states)
    assert [event for event in twin.traced if event[1] == Kind.SEND] == [(0, Kind.SEND, 0, 65_536)]
    assert twin.flows[0].sent == 70_000


def test_a_window_below_a_packet_lets_one_out_at_a_time(compiled: Any) -> None:
    case = one_flow(window=1.0, transport=1, ack_delay=picoseconds(0.02), duration=0.1)
    engine, twin, *states = run_both(case, compiled)
    assert_equal(engine, twin, *states)
    assert [event[0] // 10**9 for event in twin.traced if event[1] == Kind.ACK] == [21, 42, 63, 84]


def test_a_transfer_that_follows_waits_where_the_data_went(compiled: Any) -> None:
    templates, transfers, ms = new_flows(1), new_transfers(4), 10**9
    templates["n_forward"], templates["rate"], templates["enables_subsequent"] = 1, 8e6, 1
    transfers["start"] = [5 * ms, 3 * ms, 0, 7 * ms]
    transfers["is_subsequent"], transfers["size"], transfers["ack_delay"] = (
        [0, 1, 1, 0],
        [2000, 500, 1000, 1000],
        20 * ms,
    )
    case = one_flow(size=1, templates=templates, template_hooks=[[]], template_modes=[0], transfers=transfers, chunk=5)
    case.routes.append(0)
    engine, twin, *states = run_both(case, compiled)
    assert_equal(engine, twin, *states)
    starts = {row["number"]: row["start"] for row in twin.transfers_finished}
    # 5 ms, two packets of 1 ms, 3 ms of waiting; then half a packet
    assert starts == {1: 5 * ms, 2: 10 * ms, 3: 10 * ms + ms // 2, 4: 7 * ms}
    assert [row["number"] for row in twin.transfers_finished] == [1, 4, 2, 3]


def test_what_follows_one_that_is_cut_short_never_starts(compiled: Any) -> None:
    templates, transfers, ms = new_flows(1), new_transfers(4), 10**9
    templates["n_forward"], templates["rate"], templates["enables_subsequent"] = 1, 8e6, 1
    transfers["start"], transfers["is_subsequent"], transfers["size"] = [0, 0, 0, 50 * ms], [0, 1, 1, 0], 5000
    transfers["stop"][0] = 3 * ms
    case = one_flow(size=1, templates=templates, template_hooks=[[]], template_modes=[0], transfers=transfers, chunk=5)
    case.routes.append(0)
    engine, twin, *states = run_both(case, compiled)
    assert_equal(engine, twin, *states)
    assert [row["number"] for row in twin.transfers_finished] == [1, 4] and twin.started == 2


@pytest.mark.parametrize("bad", [{"stop": 10**12}, {"size": -1}, {"enables_subsequent": 0}, {"alone": True}])
def test_what_may_not_follow_is_refused(bad: dict[str, int], compiled: Any) -> None:
    templates, transfers = new_flows(1), new_transfers(2)
    templates["n_forward"], templates["enables_subsequent"] = 1, bad.get("enables_subsequent", 1)
    transfers["is_subsequent"], transfers["size"] = [0, 1], [bad.get("size", 5), 5]
    transfers["stop"][1] = bad.get("stop", -1)
    case = one_flow(templates=templates, template_hooks=[[]], template_modes=[0])
    case.routes.append(0)
    engine, *_ = both_engines(case, compiled)
    with pytest.raises(NativeError, match=r"may be subsequent to one of finite size, .* no stop, got .* \(tr.* [12]"):
        engine.add(transfers[1:] if "alone" in bad else transfers, more=False)


def raising_on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    if env.delivered >= 3000:
        flow.mix = 1.0 / (env.delivered - 3000.0)


def rate_gone_wrong(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.rate = math.nan if env.delivered >= 3000 else env.rate


def window_gone_wrong(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = -2.5 if env.delivered >= 3000 else env.window


def timer_gone_wrong(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.timer = math.nan


def timer_that_stands(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.timer = 0.0


def interval_that_stands(link: Any, header: Any, p: Any, env: Any) -> None:
    env.next_interval = 4e-13 if env.now > 0.005 else 0.002


def interval_gone_wrong(link: Any, header: Any, p: Any, env: Any) -> None:
    env.next_interval = math.nan if env.now > 0.005 else 0.002


@pytest.mark.parametrize(
    ("table", "name", "hook", "message"),
    [
        (
            "flow",
            "on_ack",
            raising_on_ack,
            r"a hook failed: ZeroDivisionError: .*division by zero \(flow 0, on_ack, t = 0.005 s\)",
        ),
        ("flow", "on_ack", rate_gone_wrong, r"rate must be finite and >= 0 bit/s, got nan \(flow 0, on_ack, t = 0.005"),
        ("flow", "on_ack", window_gone_wrong, r"window must be .* bytes, got -2.5 \(flow 0, on_ack, t = 0.005 s\)"),
        ("flow", "on_send", timer_gone_wrong, r"timer must not be NaN s, got nan \(flow 0, on_send, t = 0 s\)"),
        (
            "link",
            "on_interval",
            interval_gone_wrong,
            r"next interval must not be NaN s, got nan \(link 0, on_interval, ",
        ),
        (
            "flow",
            "on_start on_timer",
            timer_that_stands,
            r"timer must be >= 5e-13 s, or negative for none, after 100 .*, got 0 \(flow 0, on_timer, t = 1e-10 s\)",
        ),
        (
            "link",
            "on_interval",
            interval_that_stands,
            r"next interval must be >= 5e-13 s, or 0 for none, after 100 .*, got 4e-13 \(link 0, on_interval, t = 0.01",
        ),
    ],
)
def test_both_stop_at_the_same_place_with_the_same_words(
    table: str, name: str, hook: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks, header = dict.fromkeys(name.split(), hook), DTYPES[Header]
    for one in hooks:
        monkeypatch.setitem(LINK_TABLE if table == "link" else FLOW_TABLE, one, hook)
    if table == "link":
        compiled = (compile_hooks(hooks, DTYPES[LinkState], header, PARAMS_DTYPE, LINK_ENV), {})
    else:
        compiled = ({}, compile_hooks(hooks, DTYPES[FlowState], header, PARAMS_DTYPE, FLOW_ENV))
    case = one_flow(rate=4e6, first_interval=picoseconds(0.01), **{f"{table}_hooks": [list(hooks)]})
    engine, twin, *_ = both_engines(case, compiled)
    with pytest.raises(NativeError, match=message):
        engine.advance(case.duration)
    with pytest.raises(NativeError, match=message):
        twin.advance(case.duration)
    assert engine.trace.tolist() == twin.events_traced.tolist()


def test_records_of_the_twin_hold_what_compiled_hooks_would_find() -> None:
    record = Record(np.dtype([("R", "f8"), ("n", "i8")]), {"R": 1, "n": 2})
    assert isinstance(record.R, float) and record.n == 2
    record.n = True
    assert record.values() == (1.0, 1)
    with pytest.raises(TypeError, match=r"field n is an int, got 0\.5"):
        record.n = 0.5
    with pytest.raises(AttributeError, match="there is no field 'y'"):
        record.y = 1.0
    with pytest.raises(AttributeError, match="'y'"):
        _ = record.y


def test_times_beyond_the_clock_never_come() -> None:
    assert to_ps(3.9e6) == 39 * 10**17 and to_ps(4e6) == to_ps(math.inf) == NEVER
    assert transmission(1, 1e30) == 1 and transmission(1500, 1e-300) == transmission(1500, 1e-3) == NEVER
    assert transmission(1000, 8e6) == 10**9
