"""Reports of what a linear model leaves open: the other clocking's verdict, the bifurcation, and safe perturbations."""

import json
from dataclasses import dataclass
from math import inf

import numpy as np
import pytest

import ecc
from ecc.cli import main
from ecc.contract.assignment import read_protocol
from ecc.linear import StabilityLimit
from ecc.loops import closed_loop
from ecc.models import CUBIC, FAST, PIQIRCP, QIRCP, NewReno
from ecc.network.network import Network
from ecc.queues import PI2
from ecc.scenario import Scenario
from ecc.stability import analyze, checked, critical_gain, safe_perturbation
from ecc.stability.bifurcations import bifurcation_at

LONG = Network.dumbbell("100 Mb/s", rtts=[0.2] * 24)
ONE = Network.dumbbell("1 Gb/s", [0.1])


@dataclass(frozen=True)
class ScaledPI2(PI2):
    """PI2 whose two gains are those of its authors times a factor."""

    scale: float = 1.0

    def params(self):
        found = super().params()
        return found | {"alpha": self.scale * found["alpha"], "beta": self.scale * found["beta"]}


CUSTOM = """
from dataclasses import dataclass
from ecc.models import FAST

@dataclass(frozen=True)
class Eager(FAST):
    factor: float = 1.5

    @staticmethod
    def source_law(w, R, D, s, p):
        return w + p.factor * p.gamma * (w * (D - R) / D + p.alpha * s - w)

    def params(self):
        return super().params() | {"factor": self.factor}
"""


def over(scale):
    return {"flows": CUBIC(), "links": ScaledPI2(scale=scale)}


def swing(pair, perturbation):
    """Half of peak to peak of the queue after 40 to 60 s [packets]."""
    scenario = Scenario(LONG, pair, 60.0)
    run = ecc.fluid.simulate(scenario, sample=0.05, start="equilibrium", perturbation=perturbation)
    return float(np.ptp(run.queue.to_numpy()[-400:, 0])) / 2000.0


@pytest.mark.slow
def test_cubic_over_pi2_has_a_margin_that_holds_for_small_perturbations_only():
    """The gain margin is 1.57; at 1.45 times the gains, a perturbation of 0.5 % ends in a lasting oscillation."""
    assert closed_loop.linearize(over(1.0), LONG).margins().gain_margin == pytest.approx(1.5687, abs=2e-4)
    assert closed_loop.linearize(over(1.45), LONG).is_stable
    assert swing(over(1.45), 0.005) == pytest.approx(97.0, rel=0.02)
    assert swing(over(1.45), 0.002) < 1.0


@pytest.mark.slow
def test_the_bifurcation_of_cubic_over_pi2_is_subcritical():
    """The unstable cycle below the limit shrinks as the square root of the distance: by 0.55 from 0.9 to 0.97 of it."""
    assert swing(over(1.0), 0.03) == pytest.approx(75.8, rel=0.02)
    assert swing(over(1.0), 0.009) < 1.0
    limit = StabilityLimit(1.5687, 5.87, None, (), 0, 2.0)
    found = bifurcation_at(read_protocol(over(1.0)), LONG, "links.scale", limit, "continuous", {})
    assert found.kind == "subcritical"
    (_, far), (_, near) = found.perturbations
    assert near.value == pytest.approx(0.55 * far.value, rel=0.34) and far.unsafe < 0.01
    assert [safe for _, safe in near.tried] == [True, True, *[False] * (len(near.tried) - 2)]


def test_linearize_notes_a_paced_model_with_another_verdict():
    pair = {"flows": NewReno(ecn=True), "links": PI2(mark=True)}
    network = Network.dumbbell("30 Mb/s", rtts=["80 ms"] * 60)
    (note,) = [note for note in ecc.linearize(pair, network).notes if "paced" in note]
    assert note.startswith("the paced model (clocking='rate') is unstable (rightmost root 0.4")
    assert "this ACK-clocked model is stable; in the ACK-clocked fluid, perturbations up to 0.3" in note
    assert not any("paced" in note for note in ecc.linearize(pair, network, clocking="ack").notes)
    assert not any("paced" in note for note in ecc.linearize(FAST(gamma=0.3), ONE).notes)


def test_verdicts_and_margins_do_not_compute_the_second_model(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the second model was computed")

    monkeypatch.setattr(checked, "other_clocking", refuse)
    system = ecc.linearize(FAST(gamma=0.9), ONE)
    assert system.is_stable and system.margins().gain_margin > 1.0 and system.with_notes("one").is_stable
    with pytest.raises(AssertionError, match="was computed"):
        system.with_notes("one").notes  # noqa: B018


@pytest.mark.slow
def test_critical_gain_reports_the_paced_limit_and_a_subcritical_bifurcation():
    windows = critical_gain(FAST(), Network.dumbbell("100 Mb/s", [0.1] * 2), "gamma")
    assert windows.value == inf and windows.other.value == pytest.approx(0.72359, abs=1e-5)
    assert windows.notes == (
        "in the paced model (clocking='rate') stability is lost at gamma = 0.723591, with 8.82 rad/s (period 712.4 ms)",
    )
    assert critical_gain(FAST(), ONE, "gamma", clocking="ack").notes == ()
    piqi = critical_gain(PIQIRCP(alpha=1.98, gamma=0.5), ONE, "alpha")
    assert piqi.bifurcation.kind == "subcritical" and piqi.bifurcation.lyapunov == pytest.approx(3.027, abs=1e-3)
    assert piqi.notes[0].startswith("the bifurcation at the limit is subcritical (first Lyapunov coefficient 3.027 1/s")
    gain, safe = piqi.safe_perturbation
    assert gain == 1.98 and 0.0 < safe.value < safe.unsafe < 0.3 and safe.text() in piqi.notes[1]
    assert critical_gain(QIRCP(), ONE, "alpha").bifurcation.kind == "supercritical"
    assert critical_gain(QIRCP(), ONE, "alpha").notes == ()


@pytest.mark.slow
def test_analyze_and_the_command_report_both_clockings_of_a_custom_protocol(tmp_path, capsys):
    path = tmp_path / "eager.py"
    path.write_text(CUSTOM)
    arguments = ["stability", f"{path}:Eager", "--rtt", "100ms"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    (paced,) = (line.split() for line in lines if line.startswith("    paced instead"))
    assert paced[2] == "unstable"  # of the first model, in continuous time
    assert any(
        line.startswith("in the fluid: perturbations up to 0.3 of the equilibrium, the largest") for line in lines
    )
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"][0]["stable"] is True
    assert found["models"][0]["other_clocking"] == {"clocking": "rate", "verdict": "unstable"}
    assert found["safe_perturbation"]["value"] == 0.3
    assert main([*arguments, "--clocking", "ack", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["other_clocking"] is None


def test_below_a_subcritical_limit_analyze_gives_the_perturbation_that_dies_out():
    found = analyze(PIQIRCP(), ONE, times=["continuous"])
    assert found.models[0].bifurcation.kind == "subcritical" and found.models[0].other is None
    assert found.perturbation.value == 0.3 and found.perturbation.text() in repr(found)
    assert "bifurcation there   subcritical" in repr(found)
    assert analyze(QIRCP(), ONE, times=["continuous"]).perturbation is None


def test_safe_perturbations_state_what_was_tried():
    calm = safe_perturbation(QIRCP(alpha=1.0), ONE, 0.2)
    assert (calm.value, calm.unsafe, calm.oscillation) == (0.2, inf, 0.0) and len(calm.tried) == 6
    assert calm.text().startswith("perturbations up to 0.2 of the equilibrium, the largest tried, die out")
    assert safe_perturbation(QIRCP(alpha=1.6), ONE).text() == "no perturbation dies out: the equilibrium is unstable"
    with pytest.raises(ValueError, match=r"largest must be > 0 and < 1, got 1\.5"):
        safe_perturbation(QIRCP(), ONE, 1.5)
