"""Where a controller leaves a reference that sees the same ACKs."""

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest

import ecc
from ecc import conform
from ecc.cli import main
from ecc.conform.deviation import divergence
from ecc.models import BBR, CUBIC, BBRv1, ConstantRate, NewReno
from ecc.queues import Policer

MOSTLY_IDLE = {"flows": {0: NewReno(), 1: ConstantRate("1 kb/s")}}


@dataclass(frozen=True)
class HurriedUp(BBR):
    """Drain paces at 0.6 of the bandwidth."""

    def params(self):
        return super().params() | {"drain_gain": 0.6}


def scenario(protocol, duration=1.5):
    network = ecc.Network.dumbbell("4 Mb/s", rtts=["20 ms"], buffer="60 kB", packet_size=1500)
    return ecc.Scenario(network, protocol, duration)


@pytest.mark.slow
def test_a_controller_does_not_deviate_from_itself():
    for protocol in (BBR(), CUBIC()):
        found = conform.compare(protocol, protocol, scenario(protocol))
        assert found.first is None and found.deviations == () and len(found.time) > 300
        assert str(found).startswith("no deviation in")
        assert {"env.rate", "env.window"} <= set(found.compared)
    assert {"state", "max_bw"} <= set(conform.compare(BBR(), BBR(), scenario(BBR(), 0.5)).compared)


def test_a_wrong_gain_is_seen_in_the_pacing_rate_where_the_state_begins():
    found = conform.compare(HurriedUp(), BBR(), scenario(BBR()))
    first = found.first
    assert first.variable == "env.rate" and first.hook == "on_ack"
    k = int(np.flatnonzero(found.values["state"] == 1)[0])  # Drain
    assert first.time == found.time[k]
    assert first.value / first.reference == pytest.approx(0.6 / 0.5, rel=1e-9)
    assert "env.rate deviates first, at" in str(found)
    assert len(found.figure().data) >= 2


def test_the_first_window_that_differs_is_named_after_an_internal_variable():
    found = conform.compare(CUBIC(C=0.8), CUBIC(), scenario(CUBIC(), 3.0))
    window = next(one for one in found.deviations if one.variable == "env.window")
    assert window.time > found.first.time
    assert str(found).startswith("K deviates first, at ")
    assert f"; env.window deviates at {window.time:.6g} s in {window.hook}: " in str(found)
    begun = found.time < 0.5 * (found.first.time + window.time)
    shorter = divergence(
        found.time[begun],
        ["on_ack"] * int(begun.sum()),
        {name: (found.values[name][begun], found.reference_values[name][begun]) for name in ("K", "env.window")},
        (),
    )
    assert str(shorter).endswith("; rates and windows do not deviate")


def test_a_wrong_constant_of_cubic_is_seen_after_the_first_loss():
    found = conform.compare(CUBIC(C=0.8), CUBIC(), scenario(CUBIC(), 3.0))
    assert found.first.variable == "K"  # it is longer, when congestion avoidance begins
    assert found.first.value / found.first.reference == pytest.approx(0.5 ** (1 / 3), rel=1e-9)
    assert {one.variable for one in found.deviations} >= {"K", "env.window"}


def test_variables_are_compared_by_name_and_what_lacks_is_said():
    found = conform.compare(BBRv1(), BBR(), scenario(BBRv1(), 0.5))
    assert {"max_bw", "min_rtt", "state"} <= set(found.compared)
    assert {"inflight_longterm", "bw_shortterm"} <= set(found.lacking)
    assert found.first.variable == "env.rate" and found.first.hook == "on_start"  # 2.86 and 2.77


@pytest.mark.slow
def test_the_rest_of_a_scenario_is_as_it_is_there():
    """Cross traffic and queue disciplines, also where other flows start first."""
    network = ecc.Network.dumbbell("4 Mb/s", rtts=["20 ms"] * 2, buffer="60 kB", packet_size=1500, starts=[0.2, 0.0])
    alone = ecc.Scenario(network, MOSTLY_IDLE, 3.0)
    beside = alone.with_(protocol={"flows": {0: NewReno(), 1: ConstantRate("2 Mb/s")}})
    policed = alone.with_(protocol={**MOSTLY_IDLE, "links": Policer(rate="2 Mb/s", burst="15 kB")})
    found = [conform.compare(CUBIC(C=0.8), CUBIC(), one) for one in (alone, beside, policed)]
    assert all(one.first.variable == "K" for one in found)
    assert all(one.time[0] == pytest.approx(0.2) for one in found)
    calls = [len(one.time) for one in found]
    assert calls[0] > 1.5 * calls[1] and calls[0] > 1.5 * calls[2]


@dataclass(frozen=True)
class Drawing(NewReno):
    """NewReno whose rate is the last random number."""

    required_env = NewReno.required_env | {"random"}

    def flow_hooks(self):
        def drawing(flow, header, p, env):
            env.rate = 1e9 * (1.0 + env.random)

        return super().flow_hooks() | {"on_send": drawing}


def test_a_reference_has_random_numbers_of_its_own_where_the_protocol_draws_none():
    """Those that it has as flow 0 of the same run; one that draws is given what the protocol draws."""
    alike = conform.compare(Drawing(), Drawing(), scenario(Drawing(), 0.3))
    assert alike.first is None and alike.notes == ()
    found = conform.compare(NewReno(), Drawing(), scenario(NewReno(), 0.3))
    assert found.notes == (
        "NewReno draws no random numbers, and reference Drawing may: the reference has a separate stream, "
        "that of flow 0",
    )
    rates = found.reference_values["env.rate"]
    assert len(set(rates)) > 10
    assert list(alike.values["env.rate"][:5]) == list(rates[:5])


def test_references_that_cannot_be_replayed_are_refused_in_one_line():
    with pytest.raises(ValueError, match="reference must act at ACKs and losses alone"):
        conform.compare(NewReno(), Timed())


class Timed(NewReno):
    def flow_hooks(self):
        return super().flow_hooks() | {"on_timer": lambda flow, header, p, env: None}


@pytest.mark.slow
def test_a_comparison_reports_how_much_of_it_is_done():
    shares = []
    found = conform.compare(CUBIC(), CUBIC(), scenario(CUBIC(), 8.0), progress=shares.append)
    assert len(shares) > 3 and shares == sorted(shares) and 0.0 < shares[0] < 0.5 and 0.5 < shares[-1] <= 1.0
    assert list(found.time) == list(conform.compare(CUBIC(), CUBIC(), scenario(CUBIC(), 8.0)).time)


@pytest.mark.slow
def test_the_command_shows_progress_where_there_is_no_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ecc.cli.output.PROGRESS_PERIOD", 0.0)
    path = tmp_path / "scenario.toml"
    path.write_text(scenario(CUBIC(), 8.0).to_toml(), encoding="utf-8")
    assert main(["conform", "CUBIC", "--against", "CUBIC", "--scenario", str(path), "--out", str(tmp_path)]) == 0
    assert re.search(r"^ecc: comparison: \d+% in \d+ s, about \d+ s left$", capsys.readouterr().err, re.M)


def test_the_command_prints_notes_of_a_comparison(tmp_path, capsys):
    path = tmp_path / "scenario.toml"
    path.write_text(scenario(NewReno(), 0.1).to_toml(), encoding="utf-8")
    line = ["conform", "NewReno", "--against", "BBR", "--scenario", str(path), "--out", str(tmp_path)]
    assert main(line) == 4
    assert "note: NewReno draws no random numbers, and reference BBR may: the" in capsys.readouterr().out
    assert main([*line, "--json"]) == 4
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 1


def test_the_command_sets_parameters_of_both(tmp_path, capsys):
    path = tmp_path / "scenario.toml"
    path.write_text(scenario(CUBIC(), 0.1).to_toml(), encoding="utf-8")
    line = ["conform", "CUBIC", "--set", "initial=8", "--against", "cubic", "--against-set", "initial=4"]
    assert main([*line, "--scenario", str(path), "--out", str(tmp_path)]) == 4
    said = capsys.readouterr().out
    assert "CUBIC(initial = 8) " in said and "CUBIC(initial = 4), same ACKs" in said
    assert "env.window deviates first, at 0 s in on_start: 12,000, of the reference 6000" in said
