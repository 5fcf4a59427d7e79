"""Parts of a network, each an engine: any cut gives the results of the whole, in turns or in threads.

`ECC_PARTS_CASES=5000 pytest -m slow tests/packet/test_parts.py` draws 5,000 networks and as many cuts.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from drawn_networks import PROTOCOLS, Case, advance, cases, engine_of, one_flow, records_of, scenarios
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecc
from ecc.errors import NativeError
from ecc.models import RCP
from ecc.native import Engine, Team, picoseconds
from ecc.network.impairments import Aggregation, DelaySchedule, DeliveryTrace
from ecc.packet import Run, c_engine, resume, simulate
from ecc.packet.c_engine import build_engine, build_team
from ecc.packet.partition import Joints, joints, partition
from ecc.packet.prepare import prepare
from ecc.scenario import Scenario
from ecc.traffic.tmix import Synthetic
from ecc.traffic.workload import Arrivals, Tmix, Workload

CASES = int(os.environ.get("ECC_PARTS_CASES", "100"))
QUICK = ("EDN", "NewReno", "RCP")
"""Protocols of the default run: with `on_receive`, a transport, neither."""
SHORTEST = 10**9  # ps: shorter delays are not cut, as the parts would have to meet too often
FEW = settings(max_examples=10, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=CASES, suppress_health_check=list(HealthCheck))


def joints_of(case: Case) -> Joints:
    n_links = len(case.links) - case.n_additional
    receives = np.array(["on_receive" in names for names in [*case.flow_hooks, *case.template_hooks]])
    flows, kinds = np.concatenate([case.flows, case.templates]), case.transfers["template_index"]
    later = np.flatnonzero(case.transfers["is_subsequent"])
    chains = list(zip(kinds[later - 1].tolist(), kinds[later].tolist(), strict=True))
    routes = np.array(case.routes)
    return joints(case.links[:n_links], flows, routes, case.impairments, receives, len(case.templates), chains)


def draw_parts(draw: Any, of: Joints) -> np.ndarray:
    """Any cut where delays are not too short: each group of nodes that are not apart is in any of some parts."""
    groups, n_parts = of.groups(SHORTEST), draw(st.integers(2, 5))
    n_groups = int(groups.max()) + 1
    chosen = draw(st.lists(st.integers(0, n_parts - 1), min_size=n_groups, max_size=n_groups))
    parts: np.ndarray = np.unique(chosen, return_inverse=True)[1][groups]
    return parts


@st.composite
def cuts(draw: Any) -> tuple[Case, np.ndarray]:
    case = draw(cases())
    return case, draw_parts(draw, joints_of(case))


def engines_of(case: Case, compiled: Any, parts: np.ndarray) -> tuple[list[Engine], tuple[np.ndarray, ...]]:
    """The engines of all parts, which write the same records, samples and histogram."""
    of, records, engines = joints_of(case), records_of(case), []
    for part in range(parts.max() + 1):
        first = engines[0] if engines else None
        engines.append(engine_of(case, compiled, records, partition=of.of_parts(part, parts), shares_with=first))
    return engines, records


def exchange(engines: list[Engine]) -> None:
    for a in engines:
        for k, b in enumerate(engines):
            if a is not b:
                b.enter(a.take_leaving(k))


def in_turns(engines: list[Engine], until: float, share: float) -> None:
    """Advance the parts one after the other, by a share of the lookahead [s]."""
    lookahead = min(engine.lookahead for engine in engines)
    step = max(1, int(share * lookahead * 1e12)) if lookahead < until else 10**12
    for end in range(step - 1, int(picoseconds(until)), step):
        for engine in engines:
            assert engine.advance(end * 1e-12) in ("until", "idle")
        exchange(engines)
    for engine in engines:
        engine.advance(until)
    exchange(engines)


def assert_same(whole: Engine, team: Team, *records: tuple[np.ndarray, ...]) -> None:
    """All that the parts show together is what the whole shows."""
    a, b = whole.stats, team.stats
    np.testing.assert_array_equal(whole.trace, team.trace)
    for name in ("digest", "events", "data_packets", "in_flight", "samples", "now"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("link_results", "flow_results", "histogram"):
        assert getattr(whole, name).tobytes() == getattr(team, name).tobytes(), name
    for name in ("transfers", "alive", "waiting", "finished"):
        assert getattr(a, name) == getattr(b, name), name
    for mine, theirs in ((whole.take_finished(), team.take_finished()), (whole.alive, team.alive)):
        for name in ("number", "template_index", "start", "size", "end"):
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
        for name in mine["flow"].dtype.names:
            np.testing.assert_array_equal(mine["flow"][name], theirs["flow"][name], err_msg=name)
    for name, values in whole.samples.items():
        np.testing.assert_array_equal(values, team.samples[name], err_msg=name)
    for mine, theirs in zip(*records, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    team.verify()


def compare(case: Case, parts: np.ndarray, compiled: Any) -> None:
    records = records_of(case)
    whole = engine_of(case, compiled, records)
    try:
        advance(whole, case, case.duration)
    except NativeError as error:
        failure: NativeError | None = error
    else:
        failure = None
    engines, others = engines_of(case, compiled, parts)
    team = Team(engines, joints_of(case).of_parts(0, parts))
    if failure is not None:
        with pytest.raises(NativeError, match=str(failure)[:20]):
            advance(team, case, case.duration)
        return
    advance(team, case, case.duration, max_events=case.max_events)
    assert len({engine.stats.now for engine in engines}) == 1
    assert_same(whole, team, records, others)


def compare_resumed(case: Case, parts: np.ndarray, share: float, compiled: Any) -> None:
    """What parts have saved at some time continues to what the whole comes to."""
    records, of = records_of(case), joints_of(case).of_parts(0, parts)
    whole = engine_of(case, compiled, records)
    engines, others = engines_of(case, compiled, parts)
    first = Team(engines, of)
    try:
        advance(whole, case, case.duration)
        handed = advance(first, case, share * case.duration)
    except NativeError:
        return
    saved = first.save()
    engines, fresh = engines_of(case, compiled, parts)
    for mine, theirs in zip(fresh, others, strict=True):
        mine[:] = theirs
    team = Team(engines, of)
    team.load(saved)
    again = team.save()
    assert all(np.array_equal(saved[name], again[name]) for name in saved)
    advance(team, case, case.duration, handed)
    assert_same(whole, team, records, fresh)


@pytest.mark.slow
@pytest.mark.property
@FEW
@given(cut=cuts())
def test_any_cut_of_any_network_in_threads(cut: Any, compiled: Any) -> None:
    compare(*cut, compiled)


@pytest.mark.slow
@pytest.mark.property
@MANY
@given(cut=cuts())
def test_many_cuts_of_networks_in_threads(cut: Any, compiled: Any) -> None:
    compare(*cut, compiled)


@pytest.mark.slow
@pytest.mark.property
@FEW
@given(cut=cuts(), share=st.floats(0.0, 1.0))
def test_any_cut_of_any_network_is_saved_and_restored(cut: Any, share: float, compiled: Any) -> None:
    compare_resumed(*cut, share, compiled)


@pytest.mark.slow
@pytest.mark.property
@MANY
@given(cut=cuts(), share=st.floats(0.0, 1.0))
def test_many_cuts_of_networks_are_saved_and_restored(cut: Any, share: float, compiled: Any) -> None:
    compare_resumed(*cut, share, compiled)


def compare_in_turns(case: Case, parts: np.ndarray, share: float, compiled: Any) -> None:
    records = records_of(case)
    whole = engine_of(case, compiled, records)
    engines, others = engines_of(case, compiled, parts)
    team = Team(engines, joints_of(case).of_parts(0, parts))  # only to add up
    for engine in [whole, *engines]:
        engine.add(case.transfers, more=False)
    try:
        whole.advance(case.duration)
    except NativeError as error:
        with pytest.raises(NativeError, match=str(error)[:20]):
            in_turns(engines, case.duration, share)
        return
    in_turns(engines, case.duration, share)
    assert_same(whole, team, records, others)


@pytest.mark.slow
@pytest.mark.property
@FEW
@given(cut=cuts(), share=st.floats(0.3, 1.0))
def test_any_cut_of_any_network_in_turns(cut: Any, share: float, compiled: Any) -> None:
    compare_in_turns(*cut, share, compiled)


def fail_at_link_1(link: Any, header: Any, p: Any, env: Any) -> None:
    if env.link == 1 and env.now > 1.0:
        link.R = 1.0 / (env.link - 1)


class Failing(RCP):
    """RCP whose router at link 1 divides by zero after a second."""

    def link_hooks(self) -> Any:
        return {**super().link_hooks(), "on_arrival": fail_at_link_1}


class Quiet(RCP):
    """RCP whose routers never change anything: nothing happens when all flows have stopped."""

    def link_hooks(self) -> Any:
        return {}


# Scenarios -----------------------------------------------------------------------------------------------------------

LOT = ecc.Network.parking_lot(["20 Mb/s", "15 Mb/s", "20 Mb/s"], "10 ms", access_delay="2 ms")


@contextmanager
def parts_for_free() -> Iterator[None]:
    """Networks are cut though parts may be slower."""
    with pytest.MonkeyPatch.context() as patch:
        for cost in ("EXCHANGE", "CROSSING"):
            patch.setattr(f"ecc.packet.partition.{cost}", 0.0)
        yield


def assert_threads_change_nothing(scenario: Scenario, threads: int, **options: Any) -> None:
    alone = simulate(scenario, 0.05, **options)
    with parts_for_free():
        run = Run(scenario, 0.05, threads=threads, **options)
    assert isinstance(run._engine, Team)
    together = run.advance().trajectory()
    for name in alone.data.data_vars:
        np.testing.assert_array_equal(alone[name], together[name], err_msg=name)
    for name, column in alone.flows.items():
        np.testing.assert_array_equal(column, together.flows[name], err_msg=name)
    costs = ("cpu_seconds", "peak_bytes", "notes")
    assert {k: v for k, v in alone.stats.items() if k not in costs} == {
        k: v for k, v in together.stats.items() if k not in costs
    }


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sorted(PROTOCOLS)]
)
def test_threads_change_nothing_for_any_protocol(name: str) -> None:
    assert_threads_change_nothing(Scenario(LOT, PROTOCOLS[name](), 1.5, seed=3), 3, record=("env.rate",))


@pytest.mark.slow
def test_records_of_links_and_flows_and_histograms_come_from_the_part_that_has_them() -> None:
    scenario = Scenario(LOT, ecc.models.RCP(), 2.0)
    assert_threads_change_nothing(scenario, 4, record=("link.R", "env.rtt", "flow.bottleneck"))
    runs = [simulate(scenario, histogram_from=1.0, threads=threads) for threads in (1, 2)]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.queue_quantiles([0.5, 0.99]), runs[0].queue_quantiles([0.5, 0.99]))


def test_a_run_in_threads_pauses_as_one_does_in_one_thread() -> None:
    scenario = Scenario(LOT, ecc.models.RCP(), 2.0)
    alone, together = Run(scenario), Run(scenario, threads=2)
    for until in (0.3, 0.3, 1.234567, 2.0):
        a, b = alone.advance(until).trajectory(), together.advance(until).trajectory()
        assert (a.stats["digest"], a.stats["now"]) == (b.stats["digest"], b.stats["now"])
        np.testing.assert_array_equal(a.rate, b.rate)
    assert together.stopped == "completed"


def test_parts_that_have_nothing_more_to_do_come_to_the_end_all_the_same() -> None:
    network = ecc.Network(LOT.links, [ecc.Flow([0, 1, 2], stop=0.3, access_delay="2 ms")])
    scenario = Scenario(network, Quiet(), 1.0)
    with parts_for_free():
        team = Run(scenario, 0.05, threads=3)._engine
    assert isinstance(team, Team)
    while team.advance(1.0, 1) == "max_events":
        assert team.stats.now < 1.0
    assert team.stats.now == team.now == 1.0 and team.stats.samples == 20
    assert {engine.stats.now for engine in team._engines} == {1.0}


def with_transfers(protocol: Any = None) -> Scenario:
    """Transfers over one link, over all, and, with connections whose sides answer each other, there and back."""
    arrivals = [Arrivals([0, 1, 2], 0.03, 20_000), Arrivals([1], 0.03, 20_000)]
    tmix = Tmix(Synthetic(30.0, response_median=5_000), [0], [2])
    workload = Workload([], arrivals, tmix=[tmix])
    return Scenario(LOT, protocol or ecc.models.RCP(), 2.0, workload=workload, seed=5)


@pytest.mark.slow
def test_transfers_pass_through_other_parts_and_change_nothing() -> None:
    assert_threads_change_nothing(with_transfers(), 3)


DURATIONS = {"Orca": 1.0}
"""Seconds, if 2 are too long: without losses Orca's windows grow by 10 % every 20 ms, which makes 13 million events."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_threads_change_nothing_for_transfers_of_any_protocol(name: str) -> None:
    scenario = with_transfers(PROTOCOLS[name]())
    assert_threads_change_nothing(scenario.with_(duration=DURATIONS.get(name, scenario.duration)), 3)


def test_captures_are_those_of_one_thread(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecc.packet.simulation.ROOM", 300)  # the parts pause before the memory of a capture is full
    found = []
    for threads in (1, 3):
        files = {link: tmp_path / f"{link}-{threads}.pcapng" for link in (0, 2)}
        with parts_for_free():
            run = Run(with_transfers().with_(duration=0.5), threads=threads, capture=files)
        assert isinstance(run._engine, Team) == (threads > 1)
        run.advance()
        found.append([run.trajectory().stats["digest"], *(path.read_bytes() for path in files.values())])
    assert found[0] == found[1] and len(found[0][1]) > 10_000


@pytest.mark.slow
def test_a_run_with_transfers_is_saved_and_resumed(tmp_path: Any) -> None:
    whole = simulate(with_transfers())
    with parts_for_free():
        Run(with_transfers(), threads=3).advance(1.234).save(tmp_path / "a")
        run = resume(tmp_path / "a")
    assert isinstance(run._engine, Team)
    again = run.advance().trajectory()
    assert whole.stats["digest"] == again.stats["digest"] and whole.stats["transfers"] == again.stats["transfers"] > 50
    for name, column in whole.flows.items():
        np.testing.assert_array_equal(column, again.flows[name], err_msg=name)


def test_a_run_in_threads_is_saved_and_resumed(tmp_path: Any) -> None:
    scenario = Scenario(LOT, ecc.models.RCP(), 2.0)
    whole = simulate(scenario, trace=20_000, histogram_from=0.5, record=("link.R", "env.rtt"))
    run = Run(scenario, trace=20_000, histogram_from=0.5, record=("link.R", "env.rtt"), threads=3).advance(0.777)
    run.save(tmp_path / "a")
    again = resume(tmp_path / "a").advance().trajectory()
    for name in whole.data.data_vars:
        np.testing.assert_array_equal(whole[name], again[name], err_msg=name)
    assert whole.stats["digest"] == again.stats["digest"]
    np.testing.assert_array_equal(whole.trace, again.trace)
    with np.load(io.BytesIO((tmp_path / "a").read_bytes()[:-32])) as arrays:
        saved = {name[7:]: arrays[name] for name in arrays if name.startswith("engine_")}
    with pytest.raises(ValueError, match="state of a saved engine must be present"):
        Run(scenario)._engine.load(saved)
    with pytest.raises(
        NativeError, match="must be complete, and saved by an engine of the same build, configuration and part"
    ):
        Run(scenario, trace=20_000, threads=3)._engine.load({**saved, "state_0": saved["state_1"]})


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(scenario=scenarios(), data=st.data())
def test_any_cut_of_any_scenario(scenario: Scenario, data: Any) -> None:
    setups = [prepare(scenario) for _ in range(2)]
    options = {"sample": 0.05, "n_samples": int(scenario.duration / 0.05), "histogram": True}
    whole = build_engine(setups[0], scenario, trace=1_000_000, **options)
    whole.advance(scenario.duration)
    parts = None

    def cut(of: Joints, *_: object) -> tuple[np.ndarray, float]:
        nonlocal parts
        parts = draw_parts(data.draw, of)
        return parts, 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_engine, "partition", cut)
        try:
            team = build_team(setups[1], scenario, 5, trace=1_000_000, **options)
        except ValueError:
            assert parts is not None and parts.max() == 0
            return
    team.advance(scenario.duration)
    assert_same(whole, team)
    for a, b in zip(setups[0].parts, setups[1].parts, strict=True):
        assert a.link_states.tobytes() == b.link_states.tobytes()
        assert a.flow_states.tobytes() == b.flow_states.tobytes()


@pytest.mark.parametrize(
    "impairment",
    [
        DeliveryTrace(0, ["2 ms", "10 ms"], opportunity="6 kB"),
        Aggregation(("8 ms", "8 ms"), link=0),
        DelaySchedule(0, [0.005 * k for k in range(40)], [0.003, 0.0] * 20, in_order=False),
    ],
    ids=["opportunities", "slots", "reordering"],
)
def test_packets_that_reach_the_ends_of_a_wire_at_one_instant_are_in_the_order_of_the_wire(impairment: Any) -> None:
    links = [ecc.Link("8 Mb/s", "10 ms"), ecc.Link("80 Mb/s", "10 ms"), ecc.Link("80 Mb/s", "10 ms")]
    flows = [ecc.Flow([0, second], start=start) for second, start in ((2, 0.0), (1, "1 ms"), (2, "2 ms"))]
    protocol = ecc.models.ConstantRate("3 Mb/s")
    scenario = Scenario(ecc.Network(links, flows), protocol, 0.2, impairments=[impairment])
    setups = [prepare(scenario) for _ in range(2)]
    whole = build_engine(setups[0], scenario, trace=100_000)
    whole.advance(scenario.duration)

    def second_link_first(of: Joints, *_: object) -> tuple[np.ndarray, float]:
        groups = of.groups(SHORTEST)
        order = list(dict.fromkeys(groups[[0, 1, 2]].tolist() + groups.tolist()))
        return np.array([order.index(group) for group in groups]), 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_engine, "partition", second_link_first)
        team = build_team(setups[1], scenario, 5, trace=100_000)
    team.advance(scenario.duration)
    hops = whole.trace[whole.trace["kind"] == 1]
    of_link = hops[hops["entity"] == 0]
    assert (np.diff(of_link["time"]) == 0).sum() > 10 and len(np.unique(of_link["value"])) > 10
    np.testing.assert_array_equal(whole.trace, team.trace)


def test_a_failing_hook_is_reported_as_by_one_thread() -> None:
    network = ecc.Network.parking_lot(["20 Mb/s", "15 Mb/s"], "10 ms")
    messages = []
    for threads in (1, 2):
        with pytest.warns(RuntimeWarning, match="the run ended at"):
            messages.append(simulate(Scenario(network, Failing(), 3.0), threads=threads).stats["stopped"])
    assert messages[0] == messages[1] and "link 1, on_arrival, t = " in messages[0]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "python"}, r"^threads needs engine='c', got threads=2 and engine='python'$"),
        ({"memory_limit": "1 MB"}, r"^memory_limit needs threads=1, got threads=2$"),
    ],
)
def test_what_needs_one_thread(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(Scenario(LOT, ecc.models.RCP(), 1.0), threads=2, **options)


def test_threads_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match=r"^threads must be >= 1, got 0$"):
        simulate(Scenario(LOT, ecc.models.RCP(), 1.0), threads=0)


def test_a_network_without_delay_between_parts_is_not_cut() -> None:
    with pytest.raises(ValueError, match=r"^threads must be 1 if no delay .* separates parts .*, got 2$"):
        simulate(Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.RCP(), 1.0), threads=2)


def two_links(**values: Any) -> tuple[Case, Joints]:
    """One flow over two links of 5 ms, 10 ms before its sender hears of a packet."""
    case = one_flow(rate=4e6, delay=picoseconds(0.005), ack_delay=picoseconds(0.01), **values)
    case.links, case.routes = np.repeat(case.links, 2), [0, 1]
    case.link_hooks, case.flows["n_forward"] = [[], []], 2
    return case, joints_of(case)


def test_a_partition_that_parts_what_is_one_is_refused(compiled: Any) -> None:
    case, of = two_links()
    message = r"^a network must be cut into at most 1024 parts, .*\(flow 0\)$"
    for parts in ([0, 1, 1, 1], [0, 1, 0, 1]):  # sender and first link; receiver of an immediate ACK and sender
        with pytest.raises(NativeError, match=message):
            engine_of(case, compiled, records_of(case), partition=of.of_parts(0, np.array(parts)))
    with pytest.raises(ValueError, match="a partition must have an entry for each link, sender, receiver and template"):
        engine_of(case, compiled, records_of(case), partition=of.of_parts(0, np.array([0, 1, 0])))
    with pytest.raises(NativeError, match="a network must be cut"):
        Team([engine_of(case, compiled, records_of(case))], of.of_parts(0, np.zeros(4, int)))


def test_lookahead_is_the_least_delay_from_a_part(compiled: Any) -> None:
    case, of = two_links()
    case.links["delay"] = picoseconds(0.005), picoseconds(0.002)
    parts = np.array([0, 1, 0, 0])
    for part, lookahead in ((0, 0.005), (1, 0.002)):
        engine = engine_of(case, compiled, records_of(case), partition=of.of_parts(part, parts))
        assert engine.lookahead == lookahead
    assert engine_of(case, compiled, records_of(case)).lookahead == float("inf")


FIELDS = ("time", "sent", "offset", "size", "flow", "hop")


def crossing_of(engine: Engine, to: int) -> np.ndarray:
    """The words of the first packet that has left; its fields come first."""
    return np.frombuffer(engine.take_leaving(to), np.int64).copy()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time", -1),
        ("time", 0),
        ("time", 2**62),
        ("sent", -1),
        ("sent", 2**62),
        ("offset", -1),
        ("offset", 2**62),
        ("size", 0),
        ("size", 2**31),
        ("flow", -1),
        ("flow", 1),
        ("hop", -2),
        ("hop", -1),
        ("hop", 1),
        ("hop", 2),
        ("hop", 3),
        ("hop", 2**62),
    ],
)
def test_a_crossing_that_is_wrong_is_refused_and_changes_nothing(field: str, value: int, compiled: Any) -> None:
    case, of = two_links()
    parts = np.array([0, 1, 0, 0])
    engines, _ = engines_of(case, compiled, parts)
    for engine in engines:
        engine.advance(0.004)
    good = crossing_of(engines[0], 1)
    n_each = len(good) // 2  # two have left: one before 2 ms, one before 4
    bad = good[:n_each].copy()
    bad[FIELDS.index(field)] = value
    with pytest.raises(NativeError, match=r"^a crossing must be complete, and a packet .*, got 0$"):
        engines[1].enter(bad.tobytes())
    engines[1].enter(good.tobytes())
    for wrong in (good.tobytes()[:-1], good[:n_each].tobytes()):  # not whole; out of order
        with pytest.raises(NativeError, match="a crossing must be complete"):
            engines[1].enter(wrong)
    assert engines[1].advance(1.0) == "idle" and engines[1].stats.data_packets == 0
    engines[1].verify()


# Partitions ----------------------------------------------------------------------------------------------------------


def test_parts_that_would_wait_for_each_other_are_not_made() -> None:
    network = ecc.Network.parking_lot(["10 Mb/s"] * 4, "10 us")
    runs = [simulate(Scenario(network, ecc.models.RCP(), 0.2), threads=threads) for threads in (1, 4)]
    assert runs[1].stats["notes"] == ("threads: 1 of 4, because more would be slower", *runs[0].stats["notes"])
    assert runs[0].stats["digest"] == runs[1].stats["digest"]
    few = simulate(Scenario(LOT, ecc.models.RCP(), 0.2), threads=50)
    assert few.stats["notes"][0].endswith(" of 50, because more would be slower")


def test_a_chain_is_cut_into_pieces_with_as_much_to_do() -> None:
    network = ecc.Network.parking_lot(["20 Mb/s"] * 8, "10 ms")
    setup = prepare(Scenario(network, ecc.models.RCP(), 1.0))
    links, flows = setup.links[: setup.n_links], setup.flows
    of = joints(links, flows, setup.routes, setup.impairments, np.zeros(len(flows), bool))
    for n in (2, 4, 8):
        parts, speedup = partition(of, n, links, flows)
        assert np.array_equal(parts[:8], np.repeat(np.arange(n), 8 // n)) and 1.4 < speedup <= n
