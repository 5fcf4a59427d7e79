"""A run in which flows send nothing says so."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import ecc
from ecc.cli import main
from ecc.models import Protocol

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05])


def ten_packets_it_thinks(flow, header, p, env):
    env.window = p.window


@dataclass(frozen=True)
class Window(Protocol):
    window: float = 10.0

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {"on_start": ten_packets_it_thinks, "on_ack": ten_packets_it_thinks}


@pytest.mark.parametrize("engine", ["c", "python"])
def test_a_window_in_packets_is_no_silent_success(engine):
    run = ecc.packet.simulate(ecc.Scenario(NETWORK, Window(), 1.0), engine=engine)
    assert not run.rate.to_numpy().any()
    note = (
        "flow 0 has not sent a byte: its window of 10 bytes has no room for a packet of 1000 bytes "
        "(env.window is in bytes); nor has 1 other"
    )
    assert run.notes == (note,) and f"note: {note}" in repr(run)


def test_a_flow_without_rate_and_window_is_named_and_one_that_sends_is_not():
    run = ecc.packet.simulate(ecc.Scenario(NETWORK, Window(window=0.0), 1.0))
    assert run.notes == ("flow 0 has not sent a byte: it has no rate and no window; nor has 1 other",)
    assert ecc.packet.simulate(ecc.Scenario(NETWORK, Window(window=10_000.0), 1.0)).notes == ()
    late = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05], starts=[5.0])
    assert ecc.packet.simulate(ecc.Scenario(late, Window(), 1.0)).notes == ()


def test_the_command_line_says_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "one.toml"
    text = ecc.Scenario(NETWORK, ecc.models.ConstantRate(1e6), 1.0).to_toml()
    path.write_text(text)
    assert main(["simulate", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "has not sent" not in shown and "20.0%" in shown


@pytest.mark.parametrize("engine", ["c", "python"])
def test_a_policer_that_no_packet_fits_in_is_named(engine):
    def notes(burst):
        pair = {"flows": ecc.models.NewReno(), "links": ecc.queues.Policer(rate="5 Mb/s", burst=burst)}
        return ecc.packet.simulate(ecc.Scenario(NETWORK, pair, 1.0), engine=engine).notes

    assert notes(1000) == ()
    assert notes(999) == (
        "the Policer of link 0 never has the tokens for a packet of flow 0 and 1 other: burst must be >= a packet "
        "(1000 bytes), got 999 bytes",
    )
