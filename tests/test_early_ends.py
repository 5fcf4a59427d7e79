"""A run that ends before its first sample: whoever uses it reports why it ended, and nothing else."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, replace

import pytest

import ecc
from ecc.batch.sweeps import ScenarioRuns, SweepError, SweepInterrupted, sweep
from ecc.cli import main
from ecc.errors import EccError
from ecc.models import QIRCP
from ecc.packet import Run
from ecc.results.transients import response
from ecc.stability import measured_boundary, perturbed_run

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
HOOK = r"a hook failed: ZeroDivisionError: division by zero \(link 0, on_interval, t = 0\.00"
LAW = "the router law of link 0 failed at t = "

pytestmark = pytest.mark.filterwarnings("ignore:the run ended at:RuntimeWarning")


def divides_by_zero(link, header, p, env):
    link.R = 1.0 / (env.now - env.now)
    env.next_interval = p.interval


@dataclass(frozen=True)
class FailingHook(QIRCP):
    """QI-RCP whose router fails at its first tick."""

    def link_hooks(self):
        return {**super().link_hooks(), "on_interval": divides_by_zero}


@dataclass(frozen=True)
class FailingLaw(QIRCP):
    """The same in the law."""

    @staticmethod
    def router_law(R, y, C, d, T, p):
        return R / (R - R)


SCENARIO = ecc.Scenario(NETWORK, FailingHook(), 5.0)


def test_the_result_can_be_looked_at():
    run = ecc.packet.simulate(SCENARIO, histogram_from=0.0)
    assert run.data.sizes["time"] == 0 and not run.is_complete
    assert "division by zero" in repr(run) and run.plot().data is not None and "xarray" in run._repr_html_()
    assert float(run.queue_quantiles(0.5)[0, 0]) >= 0.0


def test_what_is_made_of_it_raises_why_it_ended():
    run = ecc.packet.simulate(SCENARIO)
    for use in (run.raise_if_incomplete, lambda: response(run, 1e6), lambda: ecc.compare(SCENARIO)):
        with pytest.raises(EccError, match=f"^the packet run ended early: {HOOK}"):
            use()
    for use in (
        lambda: ecc.compare(ecc.Scenario(NETWORK, FailingLaw(), 5.0)),
        lambda: perturbed_run(FailingLaw(), NETWORK, 0.5, engine="fluid"),
    ):
        with pytest.raises(EccError, match=f"^the fluid run ended early: {LAW}"):
            use()
    with pytest.raises(EccError, match=f"^the packet run ended early: {HOOK}"):
        measured_boundary(FailingHook(), NETWORK, "alpha", 0.5, 1.5, 0.5)


def test_a_comparison_needs_two_samples():
    with pytest.raises(ValueError, match=r"sample must be at most half the duration \(1 s\), got 0.7 s"):
        ecc.compare(ecc.Scenario(NETWORK, QIRCP(), 1.0), sample=0.7, window=0.7)


def test_a_run_that_has_what_is_needed_is_enough():
    run = ecc.packet.simulate(ecc.Scenario(NETWORK, QIRCP(), 5.0))
    run.raise_if_incomplete()
    part = replace(run, stats={**run.stats, "stopped": "canceled"})
    part.raise_if_incomplete(samples=50)
    with pytest.raises(EccError, match="^the packet run ended early: canceled$"):
        part.raise_if_incomplete(samples=51)
    with pytest.raises(KeyboardInterrupt):
        replace(run, stats={**run.stats, "stopped": "interrupted"}).raise_if_incomplete()


def test_points_of_a_sweep_have_the_error_of_the_run():
    with pytest.raises(SweepError, match=HOOK) as caught:
        sweep(ScenarioRuns(SCENARIO.to_dict(), ["utilization"]), {"seed": [1, 2]})
    assert all("ZeroDivisionError" in text for text in caught.value.dataset["error"].values)


def test_ctrl_c_within_a_run_ends_a_sweep(monkeypatch):
    advance, runs = Run.advance, []

    def interrupted(run, until=None, progress=None, cancel=None):
        runs.append(run)
        last = len(runs) == 2
        return advance(run, progress=lambda share: last and signal.raise_signal(signal.SIGINT))

    monkeypatch.setattr(Run, "advance", interrupted)
    fine = ecc.Scenario(NETWORK, QIRCP(), 2.0)
    with pytest.raises(SweepInterrupted, match="interrupted after 1 of 3 points") as caught:
        sweep(ScenarioRuns(fine.to_dict(), ["utilization"]), {"seed": [1, 2, 3]})
    assert len(runs) == 2 and int(caught.value.dataset["utilization"].notnull().sum()) == 1
    del runs[1:]
    with pytest.raises(KeyboardInterrupt):
        perturbed_run(QIRCP(), NETWORK, 0.5)


@pytest.mark.parametrize(("name", "engine", "why"), [("FailingHook", "packet", HOOK), ("FailingLaw", "fluid", LAW)])
def test_the_command_line_reports_it(name, engine, why, tmp_path, capsys):
    path = tmp_path / "scenario.toml"
    known = ecc.Scenario(NETWORK, QIRCP(), 5.0).to_toml().replace('"QIRCP"', f'"{__name__}:{name}"')
    path.write_text(known)
    for options in ([], ["--json"]):
        assert main(["simulate", str(path), "--engine", engine, *options]) == 1
        output = capsys.readouterr()
        assert output.err.count("\n") == 1
        with pytest.raises(AssertionError, match=rf"^ecc: the run ended at 0 of 5 s: {why}"):
            raise AssertionError(output.err)
    assert json.loads(output.out)["flows"] == []
