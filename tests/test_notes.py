"""Notes: what must be known about a result goes with it, into its repr, its table and the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import ecc
import ecc.fluid
from ecc.cli import main
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops import closed_loop
from ecc.stability import analysis, gains, maps

NOTE = "the queue of link 0 is < 0 at times"
ESCAPED = "the queue of link 0 is &lt; 0 at times"
QI, NET = ecc.models.QIRCP(), ecc.Network.dumbbell("10 Mb/s", [0.1])


@pytest.mark.parametrize(
    "system", [DelaySystem([-1.0], [0.5], notes=[NOTE]), SampledSystem([0.5], [0]).with_notes(NOTE, NOTE)]
)
def test_linear_systems_show_their_notes_and_keep_them(system):
    assert system.notes == (NOTE,)
    assert repr(system).endswith(f">\nnote: {NOTE}")
    assert f"<th>note</th><td>{ESCAPED}</td>" in system._repr_html_()
    assert system.with_notes("another").notes == (NOTE, "another")
    assert system.with_notes("another").is_stable and system.notes == (NOTE,)


def test_parts_of_a_system_keep_its_notes():
    for kind in (DelaySystem, SampledSystem):
        system = kind([[[-0.5, 0.0], [0.1, -0.2]]], [1], notes=[NOTE])
        assert [part.notes for part, _ in system.blocks] == [(NOTE,), (NOTE,)]
        assert kind([-0.5], [0]).notes == ()


def test_notes_are_single_lines_of_text():
    with pytest.raises(ValueError, match="notes must have one line each"):
        DelaySystem([-1.0], [0.5], notes=["two\nlines"])
    with pytest.raises(TypeError, match="notes must be strings, got int"):
        SampledSystem([0.5], [0], notes=[1])
    assert SampledSystem([0.5], [0], notes=NOTE).notes == (NOTE,)


@pytest.fixture
def noted(monkeypatch):
    """Linear models that carry a note, of their gain too."""

    def linearize(protocol, *args, **options):
        return closed_loop.linearize(protocol, *args, **options).with_notes(
            NOTE, f"alpha below 1: {protocol.alpha < 1}"
        )

    for module in (analysis, gains, maps):
        monkeypatch.setattr(module, "linearize", linearize)


def test_critical_gains_and_maps_carry_the_notes_of_their_models(noted):
    loss = ecc.stability.critical_gain(QI, NET, "alpha")
    assert loss.value > 1.0 and loss.notes == (NOTE, "alpha below 1: False"), "those of the model at the value"
    assert f"<th>note</th><td>{ESCAPED}</td></tr><tr><th>note</th><td>alpha below 1: False</td>" in loss._repr_html_()
    assert NOTE in repr(loss)
    never = ecc.stability.critical_gain(QI, NET, "alpha", maximum=0.5)
    assert never.notes == (NOTE, "alpha below 1: True"), "those of a model that was looked at"
    found = ecc.stability.stability_map(QI, NET, {"alpha": [0.5, 1.5]})
    assert found.attrs["notes"] == (NOTE, "alpha below 1: True", "alpha below 1: False")
    assert ecc.stability.critical_gain(ecc.models.QIRCP(), NET, "gamma", maximum=0.9).notes == (
        NOTE,
        "alpha below 1: True",
    )


def test_the_command_line_prints_notes_of_linear_models_once(noted, monkeypatch, capsys):
    arguments = ["stability", "QI-RCP", "--rtt", "0.1", "--time", "continuous", "--time", "discrete"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert f"note (continuous, discrete): {NOTE}\n" in out and out.count(NOTE) == 1
    assert main([*arguments, "--json"]) == 0
    assert all(NOTE in row["notes"] for row in json.loads(capsys.readouterr().out)["models"])


def test_runs_carry_notes_and_show_them():
    run = ecc.fluid.simulate(ecc.Scenario(network=NET, protocol=QI, duration=1.0))
    assert run.stats["notes"] == run.notes == ()
    assert repr(run).splitlines() == [
        "<Trajectory QIRCP, completed>",
        "Dimensions: (time: 10, flow: 1, link: 1)",
        "Time:       0.1 to 1 s",
        "Series:     rate goodput bottleneck queue queue_max arrival drops dropped_bytes",
        f"Run:        engine fluid, seed 1, version {ecc.__version__}",
    ]
    run = replace(run, stats=dict(run.stats) | {"notes": (NOTE,)})
    assert run.notes == (NOTE,) and repr(run).endswith(f"\nnote: {NOTE}")
    assert run._repr_html_().partition("</p>")[2].startswith(f"<p>note: {ESCAPED}</p>")


def test_the_command_line_prints_notes_of_runs(tmp_path, monkeypatch, capsys):
    path = tmp_path / "case.toml"
    path.write_text(ecc.Scenario(network=NET, protocol=QI, duration=1.0).to_toml())
    simulate = ecc.fluid.simulate

    def noting(*args, **options):
        run = simulate(*args, **options)
        return replace(run, stats=dict(run.stats) | {"notes": (NOTE,)})

    monkeypatch.setattr(ecc.fluid, "simulate", noting)
    assert main(["simulate", str(path), "--engine", "fluid"]) == 0
    assert f"note: {NOTE}\n" in capsys.readouterr().out
    assert main(["simulate", str(path), "--engine", "fluid", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stats"]["notes"] == [NOTE]


def test_models_that_let_lost_traffic_through_say_so():
    """EMKC rests at y = C + N alpha/beta: losses at its first link are missing at the second, but not in the model."""
    network = ecc.Network.parking_lot(["10 Mb/s", "8 Mb/s"])
    laws = closed_loop.linearize_laws(ecc.models.EMKC(), network, 0.1)
    assert laws.notes == (
        "link 0 is overloaded by 6.80%: this model ignores that packets lost there do not arrive at link 1",
    )
    assert not closed_loop.linearize_laws(ecc.models.EMKC(), ecc.Network.dumbbell("10 Mb/s", [0.1]), 0.1).notes
    assert not closed_loop.linearize_laws(ecc.models.MKC(), network, 0.1).notes
