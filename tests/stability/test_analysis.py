"""`ecc stability` and `analyze`: an answer or a useful refusal for every protocol, with nothing but RTTs given."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from math import inf, nan, pi
from pathlib import Path

import pytest

import ecc
from ecc.cli import main
from ecc.models import ConstantRate, all_protocols
from ecc.stability import analyze, critical_gain, stable_interval

ONE = ecc.Network.dumbbell("100 Mb/s", ["100 ms"])
WITHOUT = {"NewReno", "CUBIC", "DCTCP", "Vegas", "BIC", "UTIL", "TIMELY", "NSCC", "Prague", "Compound", "ConstantRate"}
WITHOUT |= {"ABC", "Orca", "GCC", "SCReAM"}
CYCLES = {"BBR", "BBRv1", "BBRv2", "C4", "Aurora", "Swift", "VCP"}
"""Without linear models, but with limit cycles on a link without a limit of its buffer."""
ROUNDS = {"SPERC", "ExpressPass", "Vivace"}
"""Maps per round, without a main parameter: tests/loops/test_round_maps.py."""
SHORT = {"PatchedTIMELY", "DCQCN", "HPCC", "PowerTCP", "ThetaPowerTCP"}
"""For RTTs of a data center: tests/models/test_timely.py, test_dcqcn_fluid.py, tests/loops/test_paced_windows.py."""
MEDIA = {"NADA"}
"""For links of about 1 Mb/s: tests/models/test_nada.py."""
RELAYS = {"Copa", "EDN", "PEDN"}
MINE = (Path(__file__).parents[2] / "examples" / "fair_share.py").read_text(encoding="utf-8")


def _cases(names):
    """Those whose models are counted at every gain take seconds each."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in ("MKC", "EMKCAVQ") else []) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", _cases(sorted(set(all_protocols()) - WITHOUT - CYCLES - RELAYS - SHORT - MEDIA - ROUNDS))
)
def test_every_protocol_with_a_linear_model_has_an_interval_around_its_own_main_parameter(name, capsys):
    assert main(["stability", name, "--rtt", "100ms", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    kind = all_protocols()[name]
    parameter = kind.main_parameter
    assert (result["parameter"], result["value"]) == (parameter, getattr(kind(), parameter))
    assert [row["model"] for row in result["models"]] == list(kind.times)
    for row in result["models"]:
        (low, high), found = (nan if end is None else float(end) for end in row["interval"]), row["stable_ranges"]
        assert row["stable"] is any(a < result["value"] < b for a, b in found)
        if row["stable"]:
            assert low < result["value"] < high
        for end, proof, inward in ((low, row["certified"][0], 1), (high, row["certified"][1], -1)):
            if 0.0 < end < inf:
                stable, unstable = proof
                assert inward * (stable - end) > 0 > inward * (unstable - end)
                assert abs(unstable - stable) < 1e-8 * end
                for value, verdict in ((stable, True), (unstable, False)):
                    system = ecc.linearize(kind(**{parameter: value}), ONE, row["model"])
                    assert system.certify().stable is verdict
        assert row["stable"] or row["gain_margin"] is None  # no margins of an unstable loop


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_a_protocol_without_linear_model_says_why_and_what_to_ask_instead(name, capsys):
    rate = ["--set", "rate=1Mb/s"] if name == "ConstantRate" else []
    assert main(["stability", name, "--rtt", "100ms", *rate]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    reason = {
        "ABC": "ABC has no ACK-clocked linear model if a window that is not paced meets no queue, got flow 0",
        "ConstantRate": "ConstantRate responds to no feedback: it has no linear model",
        "Orca": "Orca has no linear model: its hosts act at the ends of intervals, on whole histories",
        "GCC": "GCC has no linear model: an over-use of the path switches its rate from increase to decrease",
        "NSCC": "NSCC has no linear model alone: its windows decrease only at marks",
        "SCReAM": "SCReAM has no linear model: its average of delays falls at once, and grows by a quarter",
    }
    assert said.err.startswith(f"ecc: {reason.get(name, f'{name} has no equilibrium')}")
    assert said.err.endswith("; a run shows what it does: ecc simulate SCENARIO.toml\n")
    assert "ecc." not in said.err.removeprefix("ecc: ")  # commands, no names of Python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "buffer", "stable"),
    [
        ("BBR", (), {"continuous": True, "discrete": True}),
        ("NewReno", ("--buffer", "300kB"), {"continuous": True, "discrete": True}),
        ("Aurora", (), {"continuous": True}),  # its hosts have no map per round
    ],
)
def test_a_protocol_without_linear_model_has_its_limit_cycles(host, buffer, stable, capsys):
    assert main(["stability", host, "--rtt", "100ms", *buffer, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    network = ecc.Network.dumbbell("100 Mb/s", ["100 ms"], buffer=buffer[1] if buffer else None)
    for row in result["cycles"]:
        found = ecc.stability.limit_cycle(all_protocols()[host](), network, row["time"])
        assert (row["period"], row["amplitude"], row["stable"]) == (found.period, found.amplitude, found.stable)
        assert [complex(*value) for value in row["multipliers"]] == found.multipliers.tolist()
    assert {row["time"]: row["stable"] for row in result["cycles"]} == stable
    refused = {"linear"} | {f"{time} cycle" for time in {"continuous", "discrete"} - set(stable)}
    assert set(result["refused"]) == refused
    assert result["conclusion"].startswith("the loop returns to its limit cycle after small deviations in continuous")


@pytest.mark.slow
def test_a_pair_without_linear_model_has_its_limit_cycle():
    network = ecc.Network.dumbbell("50 Mb/s", ["20 ms"])
    text = repr(analyze({"flows": ecc.models.CUBIC(), "links": ecc.queues.CoDel()}, network, times=["continuous"]))
    assert "limit cycle" in text and "no linear model: CoDel has no linear model" in text
    assert text.splitlines()[-1].startswith("conclusion: the loop returns to its limit cycle")


@pytest.mark.slow
def test_a_refusal_names_a_queue_discipline_with_linear_models_as_a_scenario_has_it(capsys):
    assert main(["stability", "CUBIC", "--rtt", "100ms"]) == 2
    halves = re.search(r"in a scenario, (protocol = .*? \} \});", capsys.readouterr().err)[1]
    flow = "[[links]]\ncapacity = 1e8\ndelay = 0.05\n[[flows]]\nroute = [0]\n"
    scenario = ecc.Scenario.from_toml(f"duration = 1.0\n{halves}\n{flow}")
    assert str(scenario.protocol) == "CUBIC over PI2"
    assert ecc.linearize(scenario.protocol, scenario.network).is_stable
    options = ["--links", "PI2", "--rtt", "100ms", "--set", "links.beta=2", "--time", "hybrid"]
    assert main(["stability", "CUBIC", *options, "--json"]) == 0
    (given,) = json.loads(capsys.readouterr().out)["models"]
    pair = {"flows": ecc.models.CUBIC(), "links": ecc.queues.PI2(beta=2.0)}
    assert given["gain_margin"] == analyze(pair, scenario.network, times=["hybrid"]).models[0].margins.gain_margin
    assert main(["stability", "BIC", "--rtt", "100ms"]) == 2  # its model over a discipline does not exist
    assert "discipline" not in capsys.readouterr().err


@pytest.mark.slow
def test_of_flows_that_do_not_move_as_one_no_describing_function_is_given():
    found = analyze(ecc.models.PEDN(), ecc.Network.dumbbell("100 Mb/s", ["100 ms", "50 ms"]))
    assert found.cycle is None and [cycle.time for cycle in found.cycles]


@pytest.mark.slow
def test_the_verdict_comes_first_then_the_interval_then_margins_then_notes():
    lines = repr(analyze(ecc.models.XCP(), ONE)).splitlines()
    order = [
        "with the queue kept >= 0",
        "linear model *",
        "at alpha = 0.4 *",
        "stable for alpha *",
        "gain margin *",
        "* not the loop of XCP",
        "published",
        "runs",
        "assumed",
        "note",
    ]
    places = [next(k for k, line in enumerate(lines) if line.strip().startswith(word)) for word in order]
    assert places == sorted(places)


@pytest.mark.slow
def test_the_interval_with_the_queue_kept_above_zero_stands_beside_the_other():
    found = stable_interval(ecc.models.RCP(), ONE)
    assert not found.stable and found.switched_stable is True
    low, high = found.switched_range
    assert low < 0.4 < high
    for alpha, proven in ((low, True), (0.4, True), (high, True), (1.02 * high, False)):
        loops = ecc.linearize(ecc.models.RCP(alpha=alpha), ONE).switched.loops
        assert all(loop.proven for loop in loops) is proven
    whole = analyze(ecc.models.RCP(), ONE, times=["continuous"])
    assert whole.models[0].interval == found or repr(whole.models[0].interval) == repr(found)
    assert whole.switched_range == found.switched_range
    assert "with the queue kept >= 0 (control interval -> 0)  stable\n" in repr(found)
    plain = stable_interval(ecc.models.RCP(queue_term=False), ONE)
    assert plain.switched_stable is None and plain.switched_range is None and "queue kept" not in repr(plain)


@pytest.mark.slow
def test_of_routers_that_act_once_an_rtt_the_loop_with_those_that_always_act_is_no_verdict():
    """XCP oscillates at values that were called proven, for a control interval -> 0: its own is a mean RTT."""
    whole = analyze(ecc.models.XCP(), ONE, certify=False)
    assert whole.switched.caveat.startswith("not known: routers of XCP act once a mean RTT")
    assert whole.switched_range is None and whole.to_dict()["models"][0]["switched_stable"] is None
    assert "proven stable at points" not in repr(whole) and "stable, but this is not a verdict on XCP\n" in repr(whole)
    found = stable_interval(ecc.models.XCP(), ONE, certify=False)
    assert found.switched_stable is None and found.switched_range is None
    assert not ecc.linearize(ecc.models.RCP(), ONE).switched.caveat


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "beta", "grows"), [(1.1, None, False), (1.2, None, True), (0.9, 2**0.5 * 0.81, False), (1, 2**0.5, True)]
)
def test_runs_show_of_xcp_what_is_said_of_them(alpha, beta, grows):
    protocol = ecc.models.XCP(alpha=alpha) if beta is None else ecc.models.XCP(alpha=alpha, beta=beta)
    run = ecc.fluid.simulate(ecc.Scenario(ONE, protocol, 40.0), sample=0.01, start="equilibrium", perturbation=1e-6)
    off = run.rate.to_numpy()[:, 0] / 100e6
    early, late = (float(part.max() - part.min()) for part in (off[1000:2000], off[3000:]))
    assert (late > 3.0 * early) is grows and (late > 1e-3 if grows else late < early)


@pytest.mark.parametrize("name", sorted(RELAYS))
def test_of_a_relay_the_limit_cycle_is_given(name, capsys):
    assert main(["stability", name, "--rtt", "100ms", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    found = ecc.stability.relay_cycle(all_protocols()[name](), ONE)
    assert result["cycle"] == {"mean": found.mean, "amplitude": found.amplitude, "period": found.period}
    assert [cycle["time"] for cycle in result["cycles"]] == ["continuous", "discrete"]
    assert main(["stability", name, "--rtt", "100ms"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{name} on a link of 100 Mb/s, a flow, RTT 100 ms\n  limit cycle")
    assert "\ndescribing function, mean of the queue: " in said


@pytest.mark.slow
def test_a_protocol_in_a_file_is_found_from_its_folder_and_by_its_path(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "json.py").write_text(MINE)  # the name of a module of Python
    code = "import sys; from ecc.cli import main; sys.exit(main(sys.argv[1:]))"

    def run(name, folder=tmp_path):
        command = [sys.executable, "-P", "-c", code, "stability", name, "--rtt", "100ms", "--time", "hybrid"]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder)

    (tmp_path / "elsewhere").mkdir()
    by_module, by_path = run("mine:FairShare"), run("../mine.py:FairShare", tmp_path / "elsewhere")
    assert by_module.returncode == 0, by_module.stderr
    assert by_module.stdout == by_path.stdout
    assert by_module.stdout.startswith("FairShare(alpha = 0.4) on a link of 100 Mb/s, a flow, RTT 100 ms")
    assert "stable for alpha      0 to 1.57" in by_module.stdout
    taken = run("./json.py:FairShare")
    assert taken.returncode == 2 and "its name is that of another module" in taken.stderr


def test_a_class_that_declares_no_parameter_gets_verdicts_and_is_asked_for_one():
    class Mine(ecc.models.QIRCP):
        main_parameter = ""

    found = analyze(Mine(), ONE, times=["continuous"])
    assert found.models[0].verdict == "stable" and found.models[0].interval is None
    assert "at these parameters  stable" in repr(found)
    with pytest.raises(ValueError, match="parameter must be one of alpha, .*: Mine declares no main_parameter"):
        stable_interval(Mine(), ONE)


@pytest.mark.slow
def test_the_interval_of_rcp_on_three_links_in_three_lines(capsys):
    net = ecc.Network.parking_lot(["100 Mb/s", "50 Mb/s", "80 Mb/s"], rtts=["100 ms"] * 4)
    found = analyze(ecc.models.RCP(queue_term=False), net, times=["continuous"])
    interval = found.models[0].interval
    edge = critical_gain(ecc.models.RCP(queue_term=False), net, "alpha", certify=True)
    assert (interval.lower, interval.upper, interval.upper_certified) == (0.0, edge.value, edge.certified)
    # flow 0 is bottlenecked at link 1, whose flows have half of it each: link 1 alone is a dumbbell
    assert interval.upper == pytest.approx(pi / 2, rel=1e-9)
    chain = ["--capacity", "100 Mb/s", "--capacity", "50 Mb/s", "--capacity", "80 Mb/s"]
    arguments = ["stability", "RCP", "--rtt", "100ms", *chain, "--time", "continuous"]
    assert main([*arguments, "--set", "queue_term=false"]) == 0
    assert f"stable for alpha      0 to {interval.upper:.7g}" in capsys.readouterr().out
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "RCP(alpha = 0.4) on 3 links of 50 Mb/s to 100 Mb/s, 4 flows, RTT 100 ms" in shown
    assert "at alpha = 0.4 *    unstable\n" in shown and "kept >= 0 (control interval -> 0): stable\n" in shown
    assert "  link 1: alpha 0.4, beta 1 (per 100 ms, its flows' mean RTT): stable, proven below beta" in shown
    low, high = map(float, re.search(r"proven stable at points of alpha: from (\S+) to (\S+),", shown).groups())
    for alpha, proven in ((low, True), (high * (1 - 1e-3), True), (high * 1.02, False)):
        switched = ecc.linearize(ecc.models.RCP(alpha=alpha), net).switched
        assert all(loop.proven for loop in switched.loops) is proven


@pytest.mark.slow
def test_a_signed_queue_is_marked_where_nothing_is_known_of_the_switched_loop_too():
    net = ecc.Network.dumbbell("100 Mb/s", ["100 ms", "200 ms"])
    found = analyze(ecc.models.XCP(), net, certify=False)
    assert found.switched is None and found.models[0].system.has_signed_queue
    assert "at alpha = 0.4 *  " in repr(found) and "kept >= 0 (control interval -> 0): not known\n" in repr(found)
    assert "*" not in repr(analyze(ecc.models.RCP(queue_term=False), net, times=["hybrid"], certify=False))


def test_a_scenario_gives_protocol_network_and_assignment(tmp_path, capsys):
    net = ecc.Network.parking_lot(["10 Mb/s", "15 Mb/s"])
    path = tmp_path / "case.toml"
    path.write_text(ecc.Scenario(net, ecc.models.QIRCP(alpha=0.7), 10.0, assignment=[1, 0, 1]).to_toml())
    arguments = ["stability", str(path), "--time", "continuous", "--json"]
    assert main(arguments) == 0
    row = json.loads(capsys.readouterr().out)
    loss = critical_gain(ecc.models.QIRCP(alpha=0.7), net, "alpha", assignment=[1, 0, 1])
    assert (row["value"], row["models"][0]["interval"]) == (0.7, [0.0, loss.value])
    assert main(["stability", "RCP", "--network", str(path), "--set", "queue_term=false", *arguments[2:]]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["protocol"], row["capacities"]) == ("RCP", [10e6, 15e6])


def test_ends_above_zero_are_certified_too():
    """A signed queue makes XCP's interval of alpha begin above 0."""
    found = stable_interval(ecc.models.XCP(), ONE)
    assert found.stable and 0.2 < found.lower < 0.4 < found.upper
    for (stable, unstable), end in ((found.lower_certified, found.lower), (found.upper_certified, found.upper)):
        assert end == pytest.approx(stable, rel=1e-8) and end == pytest.approx(unstable, rel=1e-8)
        for alpha, verdict in ((stable, True), (unstable, False)):
            assert ecc.linearize(ecc.models.XCP(alpha=alpha), ONE).certify().stable is verdict
    assert "lower end, proven" in repr(found) and re.search("oscillation +5.087 rad/s", repr(found))


@pytest.mark.slow
def test_a_parameter_that_sets_the_length_of_steps_has_its_frequencies_in_steps():
    found = stable_interval(ecc.models.QIRCP(alpha=1.2), ONE, "interval", "hybrid", certify=False)
    assert found.sampled and found.dt is None and found.upper < 1.0
    assert (
        found.upper_frequency == found.upper_frequency
        and "rad/step" in repr(found)
        and "rad/s" not in repr(found).replace("rad/step", "")
    )


def test_notebooks_get_the_table_and_all_that_is_said_of_it():
    html = analyze(ecc.models.RCP(), ONE, times=["continuous"])._repr_html_()
    for part in (
        "RCP(alpha = 0.4) on a link of 100 Mb/s",
        "<td>at alpha = 0.4 *</td>",
        "stable, proven below beta",
        "note (cont",
    ):
        assert part in html


def test_the_largest_value_that_a_protocol_takes_ends_the_search_and_is_no_limit():
    found = stable_interval(ecc.models.FAST(gamma=1.0), ONE)
    assert found.stable and (found.lower, found.upper) == (0.0, inf)
    assert found.text() == "0 to 1, all allowed values"
    unbounded = replace(found, all_allowed=False)
    assert unbounded.text() == "0 to 1, the end of the search"


def test_of_an_unstable_point_the_nearest_interval_is_given():
    found = stable_interval(ecc.models.QIRCP(alpha=2.0), ONE)
    assert not found.stable and found.upper == pytest.approx(pi / 2)
    none = stable_interval(ecc.models.RCP(), ONE)
    assert none.lower != none.lower and none.text() == "no value up to 18227.2"
    assert analyze(ecc.models.QIRCP(alpha=2.0), ONE, times=["continuous"]).models[0].margins is None


@pytest.mark.slow
def test_margins_that_mean_nothing_are_left_out_and_said_to_be():
    for protocol in (ecc.models.JetMax(), ecc.models.EMKC(), ecc.models.Kelly()):
        model = analyze(protocol, ONE, times=["discrete"], certify=False).models[0]
        assert model.verdict == "stable" and model.margins is None
        assert any(note.startswith("no margins: ") for note in model.notes)
    assert analyze(ecc.models.MaxNet(), ONE, times=["discrete"], certify=False).models[0].margins.delay_margin > 0


def test_models_that_a_variant_has_not_are_refused_beside_the_others():
    class Sampled(ecc.models.JetMax):
        times = ("discrete",)

    refused = analyze(Sampled(), ONE, times=["discrete", "hybrid"], certify=False).refused
    assert refused == {"hybrid": "Sampled has no hybrid model: time must be 'discrete'"}
    with pytest.raises(ecc.LinearizationError, match="Sampled has no hybrid model.*; a run shows what it does"):
        analyze(Sampled(), ONE, times=["hybrid"])


def test_constant_rate_refuses_without_its_rate():
    assert isinstance(ConstantRate.linear_refusal, str) and ConstantRate(1e6).linear_refusal


def test_tables_in_a_pipe_are_not_folded(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["claims", "qi-7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    statement = json.loads(_json(["claims", "qi-7", "--json"], capsys))[0]["statement"]
    assert any(statement in line for line in lines)


def _json(arguments, capsys):
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("protocol", "times", "conclusion"),
    [
        (
            ecc.models.QIRCP(alpha=0.5),
            ["continuous"],
            r"stable at alpha = 0\.5 in the continuous model, up to alpha = 1\.571, 3\.14 times this value",
        ),
        (
            ecc.models.QIRCP(alpha=2.0),
            ["continuous", "hybrid"],
            r"unstable at alpha = 2 in all linear models; stable for alpha from 0 to 1\.495",
        ),
        (
            ecc.models.QIRCP(alpha=1.6),
            ["continuous", "discrete"],
            r"the linear models differ at alpha = 1\.6: unstable in the continuous model, stable in the discrete model",
        ),
        (
            ecc.models.RCP(),
            ["continuous"],
            r"stable at alpha = 0\.4; proven at the values of alpha tried from \S+ to \S+",
        ),
        (
            ecc.models.XCP(),
            ["hybrid"],
            r"not known at alpha = 0\.4, because the linear models hold for a signed queue only; a run shows .*",
        ),
        (
            {"flows": ecc.models.NewReno(ecn=True), "links": ecc.queues.PI2(mark=True)},
            ["continuous"],
            r"unstable at these parameters in the continuous model",
        ),
    ],
)
def test_the_last_line_has_the_conclusion(protocol, times, conclusion):
    network = ecc.Network.dumbbell("100 Mb/s", rtts=["200 ms" if isinstance(protocol, dict) else "100 ms"])
    found = analyze(protocol, network, times=times, certify=False)
    assert re.fullmatch(conclusion, found.conclusion)
    assert repr(found).splitlines()[-1] == f"conclusion: {found.conclusion}"
    assert found.to_dict()["conclusion"] == found.conclusion
