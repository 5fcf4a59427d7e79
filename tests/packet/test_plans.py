"""Runs that are prepared from the plan of an earlier run have the results of runs that are prepared anew."""

from dataclasses import dataclass
from types import SimpleNamespace

import pandas as pd
import pytest
import xarray as xr

import ecc
from ecc.models import CUBIC, RCP, Protocol
from ecc.packet import plans, simulation
from ecc.packet.plans import prepared
from ecc.packet.prepare import prepare

NET = ecc.Network.dumbbell("5 Mb/s", rtts=[0.05, 0.08], buffer=20_000)


@pytest.fixture(autouse=True)
def no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_plans", [])


def digest(scenario: ecc.Scenario) -> int:
    return int(ecc.packet.simulate(scenario).stats["digest"])


def counted(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Count the plans that are made."""
    calls = SimpleNamespace(count=0)

    def counting(scenario: ecc.Scenario) -> object:
        calls.count += 1
        return prepare(scenario)

    monkeypatch.setattr(plans, "prepare", counting)
    return calls


def test_seeds_share_a_plan_and_have_the_digests_of_runs_without(monkeypatch: pytest.MonkeyPatch) -> None:
    # RCP's routers have clocks with random phases, so that each seed has other first ticks
    for protocol in (CUBIC(), RCP()):
        cases = [ecc.Scenario(NET, protocol, 1.0 + seed % 2, seed=seed) for seed in range(4)]
        monkeypatch.setattr(plans, "_MAX_SIZE", 0)
        alone = [digest(case) for case in cases]
        monkeypatch.undo()
        calls = counted(monkeypatch)
        assert [digest(case) for case in cases] == alone
        assert calls.count == 1 and len(set(alone)) == (4 if protocol == RCP() else 2)
        monkeypatch.undo()


def test_runs_use_the_engine_of_a_finished_run_and_leave_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    build = simulation.build_engine
    monkeypatch.setattr(simulation, "build_engine", lambda *a, **k: made.append(1) or build(*a, **k))
    scenario = ecc.Scenario(NET, RCP(), 1.0, seed=1)
    first = ecc.packet.simulate(scenario)
    again = ecc.Scenario(NET, RCP(), 1.0, seed=1)
    others = [ecc.packet.simulate(scenario.with_(seed=seed)) for seed in (2, 3)]
    assert len(made) == 1
    for options in ({"sample": 0.05}, {"record": ["env.rate"]}, {"histogram_from": 0.5}, {"trace": 5}, {"threads": 2}):
        ecc.packet.simulate(scenario, **options)
    ecc.packet.simulate(scenario.with_(duration=0.5))
    ecc.packet.simulate(scenario.with_(protocol=RCP(alpha=0.5)))
    assert len(made) == 1 + 6  # threads=2 builds a team
    canceled = ecc.packet.simulate(ecc.Scenario(NET, CUBIC(), 100.0), cancel=lambda: True)
    assert canceled.stopped == "canceled"
    second = ecc.packet.simulate(again)
    assert len(made) == 1 + 6 + 1
    assert second.stats["digest"] == first.stats["digest"] != others[0].stats["digest"]
    xr.testing.assert_identical(first.data, second.data)
    pd.testing.assert_frame_equal(first.flows, second.flows)
    assert first.notes == second.notes


def test_a_run_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = ecc.Scenario(NET, CUBIC(), 1.0)
    ecc.packet.simulate(scenario)
    assert len(plans.idle_runs(scenario)) == 1
    monkeypatch.setattr(simulation, "_MAX_IDLE_BYTES", 1000)
    ecc.packet.simulate(scenario)
    assert not plans.idle_runs(scenario)
    monkeypatch.undo()
    for k in range(10):
        ecc.packet.simulate(scenario.with_(duration=1.0 + 0.1 * k))
    assert len(plans.idle_runs(scenario)) == simulation._MAX_IDLE


def test_a_run_does_not_see_the_records_of_another() -> None:
    scenario = ecc.Scenario(NET, CUBIC(), 1.0)
    first = ecc.packet.Run(scenario)
    second = ecc.packet.Run(scenario)
    first.advance()
    assert first.trajectory().stats["digest"] == second.advance().trajectory().stats["digest"]


@pytest.mark.parametrize(
    "other",
    [
        {"protocol": CUBIC(beta=0.6)},
        {"network": ecc.Network.dumbbell("5 Mb/s", rtts=[0.05, 0.08], buffer=20_000)},
        {"header_bytes": True},
        {"phase_jitter": True},
        {"impairments": [ecc.impairments.RandomLoss(0.01, link=0)]},
        {"workload": ecc.Workload(transfers=[ecc.Flow([0], size=5000)])},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_network_protocol_or_option_makes_another_plan(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, object]
) -> None:
    calls = counted(monkeypatch)
    scenario = ecc.Scenario(NET, CUBIC(), 1.0)
    prepared(scenario)
    prepared(scenario.with_(**other))
    assert calls.count == 2
    prepared(scenario)  # the first plan is still there
    assert calls.count == 2


GAIN = 1.0


def on_start(state, header, p, env):  # type: ignore[no-untyped-def]
    env.rate = 1e6 * GAIN


@dataclass(frozen=True)
class Steady(Protocol):
    """A protocol whose rate is a constant of its module."""

    @dataclass
    class FlowState:
        x: float = 0.0

    def link_hooks(self):  # type: ignore[no-untyped-def]
        return {}

    def flow_hooks(self):  # type: ignore[no-untyped-def]
        return {"on_start": on_start}


def test_changed_constants_and_classes_take_effect_in_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = ecc.Scenario(NET, Steady(), 1.0)

    def rate() -> float:
        return float(ecc.packet.simulate(scenario).rate.mean())

    assert rate() == pytest.approx(1e6, rel=0.02)
    monkeypatch.setitem(globals(), "GAIN", 2.0)
    assert rate() == pytest.approx(2e6, rel=0.02)

    def slow_start(state, header, p, env):  # type: ignore[no-untyped-def]
        env.rate = 5e5

    monkeypatch.setattr(Steady, "flow_hooks", lambda self: {"on_start": slow_start})
    assert rate() == pytest.approx(5e5, rel=0.02)
    monkeypatch.setattr(Steady, "receiver_window", 1)
    with pytest.raises(ValueError, match="receiver_window must be"):
        scenario.with_(seed=2)


@dataclass(frozen=True)
class Alternating(Steady):
    """A protocol whose method returns another hook in each call."""

    def flow_hooks(self):  # type: ignore[no-untyped-def]
        def starts_alone(state, header, p, env):  # type: ignore[no-untyped-def]
            env.rate = 1e6

        return {"on_start": starts_alone}


def test_hooks_that_are_new_in_each_call_share_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    prepared(ecc.Scenario(NET, Alternating(), 1.0))
    prepared(ecc.Scenario(NET, Alternating(), 1.0))
    assert calls.count == 2
