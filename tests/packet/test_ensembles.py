"""Ensembles of packet runs: their members are single runs, to the last bit, and fail alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import until

import ecc
from ecc._support.store import Store
from ecc.models import BBR, CUBIC, RCP, NewReno, Protocol, all_protocols
from ecc.packet import ensemble, plans, simulate
from ecc.packet.simulation import Run
from ecc.testing.strategies import scenarios

NET = ecc.Network.dumbbell("5 Mb/s", rtts=[0.05, 0.08], buffer=20_000)
SERIES = ("rate", "goodput", "bottleneck", "rtt", "queue_max", "drops")


def built_anew(scenario: ecc.Scenario, **options: Any) -> ecc.Trajectory:
    """Run a scenario without the engine or the plan of an earlier run."""
    plans._plans.clear()
    return simulate(scenario, **options)


def assert_member_is(member: Any, alone: ecc.Trajectory) -> None:
    assert str(member.stopped.item()) == alone.stopped
    for name in ("digest", "events", "data_packets"):
        assert int(member[name]) == alone.stats[name]
    for name in SERIES:
        np.testing.assert_array_equal(member[name].to_numpy()[: len(alone.data["time"])], alone.data[name])


CASES = {
    "windows": ecc.Scenario(NET, CUBIC(), 1.0),
    "routers with clocks": ecc.Scenario(NET, RCP(), 1.0),
    "random numbers": ecc.Scenario(NET, BBR(), 1.0),
    "disciplines": ecc.Scenario(NET, {"flows": NewReno(), "links": ecc.queues.RED()}, 1.0),
    "losses": ecc.Scenario(NET, CUBIC(), 1.0, impairments=[ecc.impairments.RandomLoss(0.05, link=0)]),
    "transfers": ecc.Scenario(
        NET, CUBIC(), 1.0, workload=ecc.Workload([], [ecc.Arrivals([0], 0.02, 5_000, distribution="exponential")])
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 3])
def test_members_are_single_runs(case: str, threads: int) -> None:
    scenario = CASES[case]
    runs = ensemble(scenario, {"duration": [0.5, 1.0]}, seeds=5, series=SERIES, executor=threads)
    assert runs.rate.dims == ("duration", "seed", "time", "flow")
    for duration in (0.5, 1.0):
        for seed in runs.seed.to_numpy().tolist():
            alone = built_anew(scenario.with_(duration=duration, seed=seed))
            assert_member_is(runs.sel(duration=duration, seed=seed), alone)
    if case in ("routers with clocks", "losses", "transfers"):  # which draw random numbers in the first second
        assert len(set(runs.digest.sel(duration=1.0).to_numpy().tolist())) == 5


def test_members_at_an_equilibrium_are_single_runs() -> None:
    scenario = ecc.Scenario(NET, RCP(), 1.0)
    runs = ensemble(scenario, {"perturbation": [0.0, 0.2]}, seeds=[7, 3], start="equilibrium", series=SERIES)
    for perturbation in (0.0, 0.2):
        for seed in (3, 7):
            alone = built_anew(scenario.with_(seed=seed), start="equilibrium", perturbation=perturbation)
            assert_member_is(runs.sel(perturbation=perturbation, seed=seed), alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, kind in all_protocols().items() if kind.has_hosts()])
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_members_of_random_scenarios_are_single_runs(name: str, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(all_protocols()[name]()))
    scenario = scenario.with_(duration=min(scenario.duration, 50.0 * float(scenario.network.rtts.max())))
    order = data.draw(st.permutations(range(5)))
    runs = ensemble(scenario, seeds=order, series=("rate", "queue"), executor=data.draw(st.integers(1, 3)))
    for seed in order:
        alone, member = built_anew(scenario.with_(seed=seed)), runs.sel(seed=seed)
        assert int(member.digest) == alone.stats["digest"] == simulate(scenario.with_(seed=seed)).stats["digest"]
        np.testing.assert_array_equal(member.rate, alone.rate)
        np.testing.assert_array_equal(member.queue, alone.queue)


def test_metrics_are_those_of_single_runs() -> None:
    scenario = ecc.Scenario(NET, CUBIC(), 4.0)
    names = ["utilization", "fairness", "peak_queue", "mean_completion_time", "queue_found"]
    runs = ensemble(scenario, {"beta": [0.5, 0.7]}, seeds=2, metrics=names, arguments={"between": (1.0, 4.0)})
    alone = simulate(scenario.with_(protocol=CUBIC(beta=0.7), seed=2), histogram_from=1.0)
    member = runs.sel(beta=0.7, seed=2)
    for name in ("utilization", "fairness", "peak_queue"):
        expected = ecc.metrics.METRICS[name].function(alone, scenario, between=(1.0, 4.0))
        assert float(member[name]) == expected
    assert float(member.queue_found) == ecc.metrics.METRICS["queue_found"].function(alone, scenario)
    assert np.isnan(member.mean_completion_time) and "mean_completion_time: " in str(member.error.item())
    assert runs.peak_queue.attrs["units"] == "bytes" and "rate" not in runs


@dataclass(frozen=True)
class Breaks(Protocol):
    """A protocol whose hook divides by zero at the first ACK if `share` is 0."""

    share: float = 1.0

    def __post_init__(self) -> None:
        if self.share < 0.0:
            raise ValueError(f"share must be >= 0, got {self.share:g}")

    @dataclass
    class FlowState:
        x: float = 0.0

    def link_hooks(self):  # type: ignore[no-untyped-def]
        return {}

    def flow_hooks(self):  # type: ignore[no-untyped-def]
        return {"on_start": starts, "on_ack": divides}


def starts(state, header, p, env):  # type: ignore[no-untyped-def]
    env.rate = 1e6


FACTOR = 1.0


def divides(state, header, p, env):  # type: ignore[no-untyped-def]
    state.x = FACTOR / p.share


@pytest.mark.filterwarnings("ignore:the run ended at")
def test_a_member_that_fails_fails_alone() -> None:
    scenario = ecc.Scenario(NET, Breaks(), 1.0)
    runs = ensemble(scenario, {"share": [1.0, 0.0, 2.0, -1.0]}, seeds=2, series=["rate"], metrics=["utilization"])
    assert (runs.stopped.sel(share=[1.0, 2.0]) == "completed").all()
    assert "division by zero" in str(runs.stopped.sel(share=0.0, seed=1).item())
    assert "ValueError: share must be >= 0, got -1" in str(runs.stopped.sel(share=-1.0, seed=1).item())
    assert runs.utilization.sel(share=[0.0, -1.0]).isnull().all() and runs.utilization.sel(share=2.0).notnull().all()
    assert runs.rate.sel(share=-1.0).isnull().all() and runs.digest.sel(share=-1.0, seed=1) == 0
    single = simulate(scenario.with_(protocol=Breaks(2.0), seed=2))
    assert int(runs.digest.sel(share=2.0, seed=2)) == single.stats["digest"]


def test_cancel_and_interrupts_keep_the_results_so_far() -> None:
    scenario = ecc.Scenario(NET, CUBIC(), 1.0)
    done: list[float] = []
    runs = ensemble(scenario, seeds=300, executor=1, progress=done.append, cancel=lambda: len(done) > 1)
    stopped = runs.stopped.to_numpy().tolist()
    assert stopped[0] == "completed" and stopped[-1] == "canceled" and set(stopped) == {"completed", "canceled"}

    sent: list[int] = []

    def interrupts(share: float) -> None:
        if not sent:
            sent.append(1)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]

    runs = ensemble(scenario, seeds=300, executor=1, progress=interrupts, metrics=["utilization"])
    stopped = runs.stopped.to_numpy().tolist()
    assert stopped[0] == "completed" and stopped[-1] == "interrupted" and set(stopped) == {"completed", "interrupted"}
    assert (runs.utilization.notnull().to_numpy() == (runs.stopped.to_numpy() == "completed")).all()
    with pytest.raises(ecc.EccError, match="cancel must let a member run"):
        ensemble(scenario, seeds=3, cancel=lambda: True)


STORED: dict[str, Any] = {"metrics": ["utilization", "mean_completion_time"], "series": ["rate", "bottleneck"]}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which the seed of each run is added."""
    advance, seeds = Run.advance, list[int]()

    def advanced(run: Run, *arguments: Any, **options: Any) -> Run:
        seeds.append(run.scenario.seed)
        return advance(run, *arguments, **options)

    monkeypatch.setattr(Run, "advance", advanced)
    return seeds


@pytest.mark.slow
def test_a_store_keeps_members_and_a_later_call_runs_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, seeds = CASES["losses"], counted(monkeypatch)
    vary, path = {"beta": [0.5, 0.7]}, tmp_path / "runs.sqlite"
    expected = ensemble(scenario, vary, seeds=4, **STORED)
    seeds.clear()
    ensemble(scenario, {"beta": [0.7]}, seeds=[3, 1], **STORED, store=path)
    assert sorted(seeds) == [1, 3] and len(Store(path)) == 2
    seeds.clear()
    shares: list[float] = []
    again = ensemble(scenario, vary, seeds=4, **STORED, store=path, progress=shares.append)
    assert again.identical(expected) and sorted(seeds) == [1, 2, 2, 3, 4, 4]
    assert shares[0] == 0.25 and shares[-1] == 1.0
    seeds.clear()
    assert ensemble(scenario, vary, seeds=4, **STORED, store=path).identical(expected) and not seeds
    for options in (
        {"metrics": ["loss"]},
        {**STORED, "sample": 0.05},
        {**STORED, "arguments": {"between": (0.5, 1.0)}, "start": "empty", "record": ["env.window"]},
    ):
        seeds.clear()
        ensemble(scenario, vary, seeds=1, **options, store=path)
        assert seeds == [1, 1]
    with pytest.raises(ValueError, match="store must be a file that was made as a store"):
        ensemble(scenario, seeds=2, store=__file__)
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="results are not kept: .* cannot be written"):
        unstored = ensemble(scenario, vary, seeds=4, **STORED, store=tmp_path / "file" / "store")
    assert unstored.identical(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the run ended at")
def test_a_store_has_no_members_that_fail_or_are_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, path = ecc.Scenario(NET, Breaks(), 1.0), tmp_path / "runs.sqlite"
    runs = ensemble(scenario, {"share": [1.0, 0.0, -1.0]}, store=path)
    assert len(Store(path)) == 1 and "division by zero" in str(runs.stopped[1].item())
    monkeypatch.setitem(globals(), "FACTOR", 2.0)  # a constant of a hook
    seeds = counted(monkeypatch)
    ensemble(scenario, {"share": [1.0]}, store=path)
    assert seeds == [1] and len(Store(path)) == 2
    lossy, sent = CASES["losses"].with_(duration=4.0), list[int]()

    def interrupts(share: float) -> None:
        if share > 0.1 and not sent:
            sent.append(1)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]

    seeds.clear()  # the engine reaches this list, so that its content is part of the keys
    part = ensemble(lossy, seeds=1000, store=path, progress=interrupts, executor=1)
    completed = part.stopped.to_numpy() == "completed"
    assert 100 < completed.sum() < 1000 and len(Store(path)) == 2 + completed.sum()
    seeds.clear()
    complete = ensemble(lossy, seeds=1000, store=path)
    assert len(seeds) == 1000 - completed.sum() and (complete.stopped == "completed").all()
    assert complete.identical(ensemble(lossy, seeds=1000))


KILLED = """
import sys
import ecc
net = ecc.Network.dumbbell("5 Mb/s", rtts=[0.05], buffer=20_000)
scenario = ecc.Scenario(net, ecc.models.CUBIC(), 5.0, impairments=[ecc.impairments.RandomLoss(0.05, link=0)])
print("begun", flush=True)
runs = ecc.packet.ensemble(scenario, seeds=int(sys.argv[2]), metrics=["utilization"], store=sys.argv[1])
print("ended", int((runs.stopped == "completed").sum()), runs.digest.to_numpy().tolist())
"""


@pytest.mark.slow
def test_a_killed_ensemble_continues(tmp_path: Path) -> None:
    program, path = [sys.executable, "-P", "-c", KILLED], tmp_path / "runs.sqlite"
    killed = subprocess.Popen([*program, path, "100000"], stdout=subprocess.PIPE, text=True)
    until(lambda: path.exists() and len(Store(path)) > 200)
    killed.kill()
    assert killed.communicate()[0] == "begun\n"
    kept = len(Store(path))
    outputs = [
        subprocess.run([*program, store, str(kept)], stdout=subprocess.PIPE, text=True, check=True).stdout
        for store in (path, tmp_path / "new.sqlite")
    ]
    assert outputs[0] == outputs[1] and f"ended {kept} " in outputs[0]
    assert kept <= len(Store(path)) < kept + 100  # threads take seeds in order


@pytest.mark.parametrize(
    ("vary", "options", "message"),
    [
        ({}, {}, "vary must name the quantities to vary, got {}"),
        ({"gain": [1.0]}, {}, "vary must name one of .*, got 'gain'"),
        ({"seed": [1]}, {"seeds": 2}, "seeds must be None if vary names the seed"),
        ({}, {"seeds": 0}, "seeds must be >= 1, got 0"),
        ({}, {"seeds": []}, r"seeds must have at least one seed, got \[\]"),
        ({}, {"seeds": 2, "series": ["speed"]}, "series must be among rate, goodput, .*, got 'speed'"),
        ({}, {"seeds": 2, "metrics": ["speed"]}, "metric must be one of"),
        ({"network": [NET, ecc.Network.dumbbell("5 Mb/s", [0.1])]}, {"series": ["rate"]}, "one number of flows"),
    ],
)
def test_bad_ensembles(vary: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ensemble(ecc.Scenario(NET, CUBIC(), 0.5), vary, **options)


def test_restarted_runs_forget_everything() -> None:
    scenario = ecc.Scenario(NET, RCP(), 1.0)
    run = Run(scenario, trace=100, histogram_from=0.0, record=["link.R"])
    first = run.advance().trajectory()
    digest, rates = first.stats["digest"], first.rate.to_numpy().copy()
    assert run._restart(scenario._with_seed(2)) and run.now == 0.0 and run.stopped == "paused"
    second = run.advance().trajectory()
    alone = built_anew(scenario.with_(seed=2), trace=100, histogram_from=0.0, record=["link.R"])
    assert second.stats["digest"] == alone.stats["digest"] != digest
    assert second.data.equals(alone.data) and second.trace.equals(alone.trace) and second.flows.equals(alone.flows)
    assert second.queues.equals(alone.queues) and (first.rate.to_numpy() == rates).all()
    assert not run._restart(scenario.with_(seed=2))
