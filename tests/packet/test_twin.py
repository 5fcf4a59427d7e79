"""The C engine against its twin in plain Python: the same networks, hooks and seeds, equal event by event.

`ECC_TWIN_CASES=10000 pytest -m slow tests/packet/test_twin.py` draws 10,000 networks.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from drawn_networks import (
    DTYPES,
    FLOW_TABLE,
    LINK_TABLE,
    PARAMS_DTYPE,
    PROTOCOLS,
    REGIONS,
    Case,
    FlowState,
    Header,
    LinkState,
    cases,
    engine_of,
    one_flow,
    options_of,
    records_of,
    scenarios,
)
from hypothesis import HealthCheck, given, settings

from ecc.errors import NativeError
from ecc.jit import CompiledHooks, compile_hooks
from ecc.models import DCQCN, FAST, PatchedTIMELY, Protocol, Swift, ThetaPowerTCP
from ecc.native import (
    COUNTERS,
    FLOW_ENV,
    LINK_ENV,
    Engine,
    new_flows,
    new_transfers,
    picoseconds,
)
from ecc.network.network import Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.packet.twin import Kind, Twin, build_twin
from ecc.packet.twin.state import NEVER, Agent, Record, to_ps, transmission
from ecc.scenario import Scenario

CASES = int(os.environ.get("ECC_TWIN_CASES", "200"))
FEW = settings(max_examples=20, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=CASES, suppress_health_check=list(HealthCheck))


def both_engines(case: Case, compiled: Any) -> tuple[Engine, Twin, np.ndarray, np.ndarray]:
    """Both engines, and the records that the C engine writes."""
    records = records_of(case)
    agents = [
        [
            Agent(state, records[3][0], {name: table[name] for name in names})
            for state, names in zip(states, chosen, strict=True)
        ]
        for states, chosen, table in zip(
            records,
            (case.link_hooks, case.flow_hooks, case.template_hooks),
            (LINK_TABLE, FLOW_TABLE, FLOW_TABLE),
            strict=False,
        )
    ]
    twin = Twin(
        case.links,
        case.flows,
        case.routes,
        *agents[:2],
        dict.fromkeys(REGIONS, DTYPES[Header]),
        templates=case.templates,
        template_ends=agents[2],
        **options_of(case),
    )
    return engine_of(case, compiled, records), twin, *records[:2]


def run_both(case: Case, compiled: Any) -> tuple[Engine, Twin, np.ndarray, np.ndarray]:
    """Both engines at the end of a case, the C engine in slices, saved and loaded, and with the transfers in chunks."""
    engine, twin, *states = both_engines(case, compiled)
    handed = slices = 0
    deadlock = ""

    def advance(engine: Engine) -> str:
        nonlocal deadlock
        try:
            return engine.advance(case.duration, case.max_events)
        except NativeError as error:
            deadlock = str(error)
            assert "PFC deadlock" in deadlock
            return "error"

    while (stop := advance(engine)) in ("max_events", "transfers"):
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
    try:
        twin.advance(case.duration)
    except NativeError as error:
        assert str(error) == deadlock
    else:
        assert not deadlock
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


@pytest.mark.slow
@pytest.mark.property
@FEW
@given(case=cases(pauses=True))
def test_any_network_with_any_hooks(case: Case, compiled: tuple[CompiledHooks, CompiledHooks]) -> None:
    assert_equal(*run_both(case, compiled))


@pytest.mark.slow
@pytest.mark.property
@MANY
@given(case=cases(pauses=True))
def test_many_networks_with_any_hooks(case: Case, compiled: tuple[CompiledHooks, CompiledHooks]) -> None:
    assert_equal(*run_both(case, compiled))


# The protocols of the project ----------------------------------------------------------------------------------------


def compare_protocol(scenario: Scenario, start: str = "empty", sample: float = 0.05) -> None:
    setup = prepare(scenario, start)
    options = {"sample": sample, "n_samples": int(scenario.duration / sample)}
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


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_protocol_on_a_loaded_bottleneck(name: str) -> None:
    network = Network.dumbbell("10 Mb/s", rtts=[0.02, 0.02, 0.05], buffer=15000, starts=[0.0, 0.0, 0.3])
    compare_protocol(Scenario(network, PROTOCOLS[name](), duration=1.0))


@pytest.mark.parametrize(
    "protocol", [FAST(), Swift(), PatchedTIMELY(), DCQCN(10e9, p_max=0.1), ThetaPowerTCP()], ids=str
)
def test_protocols_that_begin_with_the_queue_of_their_equilibrium(protocol: Protocol) -> None:
    """Packets sent before time 0 are in queues, on wires and on access lines, and return as ACKs."""
    rtts = ["20 us", "20 us", "25 us"]
    network = Network.dumbbell("10 Gb/s", rtts=rtts, delay="2 us", packet_size=4000)
    compare_protocol(Scenario(network, protocol, duration=4e-4), "equilibrium", 1e-5)


# One at a time -------------------------------------------------------------------------------------------------------


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


@pytest.mark.slow
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
    with pytest.raises(NativeError, match=r"a subsequent transfer must have no stop, .* call, got .* \(tr.* [12]"):
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
