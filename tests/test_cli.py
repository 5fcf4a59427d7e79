"""The command line: what it prints where, its exit codes, and one line for bad input."""

from __future__ import annotations

import importlib
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
import xarray as xr
from rich.console import Console
from typer.testing import CliRunner

import ecc
from ecc._support.store import Store
from ecc.batch.sweeps import EarlyEnd, SweepInterrupted, swept
from ecc.claims import catalog, ledger
from ecc.claims import crosscheck as runner
from ecc.claims.ledger import Finding, Measurement, Verdict, claims
from ecc.cli import main, output
from ecc.cli.app import app
from ecc.cli.output import print_items, print_text, progress_bar, table_of
from ecc.cli.parsing import protocol_of
from ecc.cli.sweep import _with_interval
from ecc.results import metrics

SCENARIO = """
duration = "2 s"
[protocol]
name = "QI-RCP"
[[links]]
capacity = "10 Mb/s"
delay = "25 ms"
[[flows]]
route = [0]
[[flows]]
route = [0]
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return str(path)


# ---- the program -----------------------------------------------------------------------------------------


def test_a_package_of_another_project_is_named(monkeypatch, capfd):
    """The `ecc` of the public index has its own `ecc/__init__.py`, which replaces ours."""
    monkeypatch.setattr("signal.signal", lambda *arguments: None)  # handlers of the test process remain
    monkeypatch.delattr(ecc, "_HOMES")
    assert importlib.import_module("ecc.__main__").main() == 2
    said = capfd.readouterr().err
    assert said.startswith("ecc: another project's package `ecc` has replaced files of congestion-control: run `pip")
    assert said.count("\n") == 1


def test_help_version_and_nothing(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ecc {ecc.__version__}\n"
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.split() == listed.split()
    assert all(command in listed for command in ("crosscheck", "simulate", "sweep", "stability", "claims"))


def test_help_does_not_wait_for_heavy_imports():
    code = "import sys, ecc.cli; print(sorted({'numpy', 'numba', 'plotly', 'rich', 'xarray'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["simulate"], "Missing argument 'SCENARIO.toml'"),
        (["simulate", "no/such.toml"], "'no/such.toml' cannot be opened: No such file or directory"),
        (["simulate", "{scenario}", "--out", "run.xls"], "out must end in .nc, .csv, .html, got 'run.xls'"),
        (
            ["simulate", "{scenario}", "--checkpoint", "none/run.ckpt"],
            "checkpoint must be in a directory that exists, got 'none/run.ckpt'",
        ),
        (["simulate", "{scenario}", "--sample", "0 s"], "sample must be > 0 s, got '0 s'"),
        (["simulate", "{scenario}", "--engine", "ns3"], "Invalid value for '--engine': 'ns3' is not one of"),
        (
            ["simulate", "{scenario}", "--engine", "fluid", "--checkpoint", "run.ckpt"],
            "flows-to and checkpoint need --engine packet, got fluid",
        ),
        (["simulate", "{scenario}", "--engine", "fluid", "--threads", "2"], "threads needs --engine packet, got fluid"),
        (["simulate", "{scenario}", "--time", "averaged"], "time and clocking need --engine fluid, got packet"),
        (
            ["sweep", "{scenario}", "--vary", "seed=1,2", "--clocking", "rate"],
            "time and clocking need --engine fluid, got packet",
        ),
        (["simulate", "{scenario}", "--engine", "fluid", "--time", "hybrid"], "'hybrid' is not one of 'continuous'"),
        (
            ["simulate", "{scenario}", "--engine", "fluid", "--capture", "a.pcapng"],
            "capture needs --engine packet or l",
        ),
        (["simulate", "{scenario}", "--capture", "a.pcapng", "--link", "7"], "capture must name links from 0 to 0"),
        (["simulate", "{scenario}", "--link", "0"], "link needs --engine packet and --capture FILE"),
        (["simulate", "{scenario}", "--slow", "2"], "slow needs --engine live, got packet"),
        (["simulate", "{scenario}", "--engine", "live", "--threads", "2"], "threads needs --engine packet, got live"),
        (["simulate", "{scenario}", "--threads", "2"], "threads must be 1 if no delay of a link or access line"),
        (["crosscheck", "TCP"], "got 'TCP'"),
        (["crosscheck", "--jobs", "-1"], "Invalid value for '--jobs': "),
        (["stability", "RPC", "--rtt", "0.1"], "got 'RPC'"),
        (
            ["stability", "QI-RCP", "--rtt", "5 apples"],
            "rtts must have one of the units s, sec, min, h, or one with a prefix such as ms, got '5 apples'",
        ),
        (["stability", "QI-RCP", "--rtt", "0.1", "--set", "gamma"], "--set must be NAME=VALUE, got 'gamma'"),
        (["stability", "QI-RCP", "--rtt", "0.1", "--set", "gama=1"], "--set has no key 'gama'"),
        (["stability", "QI-RCP", "--rtt", "0.1", "--parameter", "mu"], "parameter must be one of alpha"),
        (
            ["stability", "HPCC", "--rtt", "20us", "--capacity", "100 Gb/s"],
            "got flow 0, whose RTT of 2e-05 s is above base_rtt = 1.3e-05 s: use --clocking rate; a run shows",
        ),
        (["stability", "DCQCN", "--rtt", "20us", "--capacity", "50Gb/s"], "sum to 40 of 50 Gb/s at link 0"),
        (
            ["stability", "QI-RCP", "--capacity", "1 Gb/s"],
            "rtt must be given for each flow (--rtt 100ms), or a network",
        ),
        (["stability", "QI-RCP", "--parameter", "alpha"], "(--network SCENARIO.toml), with --parameter"),
        (["stability", "CUBIC", "--links", "PI2"], "(--network SCENARIO.toml), with --links"),
        (["stability", "{scenario}", "--links", "PI2"], "links must not be given beside a scenario with its own"),
        (["stability", "CUBIC", "--links", "PI2", "--rtt", "9ms", "--set", "c=1"], "--set must be flows.NAME=VALUE"),
        (["stability", "FAST", "--time", "hybrid"], "time must be one of a linear model of FAST, got hybrid"),
        (["stability", "{scenario}", "--network", "{scenario}"], "network must not be given beside a scenario"),
        (["stability", "{scenario}", "--rtt", "0.1"], "rtt, capacity and buffer must not be given beside a scenario"),
        (
            ["stability", "RCP", "--rtt", "1", "--rtt", "2", "--capacity", "1e6", "--capacity", "1e6"],
            "rtts must have 3 entries, one more than links, got 2",
        ),
        (["stability", "./no.py:Mine", "--rtt", "0.1"], "cannot be imported: there is no file './no.py'"),
        (
            ["stability", "no.py", "--rtt", "0.1"],
            "protocol name must have a class of the file, as no.py:MyProtocol, got 'no.py'",
        ),
        (["sweep", "{scenario}", "--vary", "protocol.alpha"], "--vary must be PATH=VALUES, got 'protocol.alpha'"),
        (["sweep", "{scenario}", "--vary", "protocol.alpa=1"], "protocol has no key 'alpa'"),
        (["sweep", "{scenario}"], "--vary must be given for at least one axis, as --vary protocol.alpha=0.1,0.4"),
        (
            ["sweep", "{scenario}", "--vary", "seed=1", "--vary", "seed=2"],
            "--vary must name each path once, got seed 2",
        ),
        (
            ["sweep", "{scenario}", "--zip", "seed=1,2", "--zip", "duration=3,4,5"],
            "for each path, or a single one, got 2 of",
        ),
        (["sweep", "{scenario}", "--vary", "seed=1", "--zip", "seed=2"], "--zip must not repeat a path of --vary, got"),
        (["sweep", "{scenario}", "--zip", "seed"], "--zip must be PATH=VALUES, got 'seed'"),
        (["sweep", "{scenario}", "--vary", "seed=1", "--average", "x"], "average must be one of the axes seed, got"),
        (
            ["sweep", "{scenario}", "--vary", "links.7.capacity=1"],
            "got 'links.7.capacity': '7' must be a number from 0 to 0, or * for all",
        ),
        (
            ["sweep", "{scenario}", "--vary", "network.0=1"],
            "got 'network.0': 'network' must be one of duration, seed, protocol, links, flows",
        ),
        (["sweep", "{scenario}", "--vary", "seed.0.1=1"], "got 'seed.0.1': there is nothing at '0'"),
        (
            ["sweep", "{scenario}", "--vary", "protocol.alpha=0.1:0.7"],
            "--vary must have ranges as first:last:count, three numbers, got 'protocol.alpha=0.1:0.7'",
        ),
        (["sweep", "{scenario}", "--vary", "seed=1:3:x"], "--vary must have ranges as first:last:count"),
        (["sweep", "{scenario}", "--vary", "seed=1:3:2.5"], "--vary must have a whole count >= 1"),
        (["sweep", "{scenario}", "--vary", "seed=1:5:1"], "--vary must have a count >= 2 from 1 to 5"),
        (["sweep", "{scenario}", "--vary", "protocol={{name=XCP}}"], "protocol must be an inline table of TOML, as"),
        (
            ["sweep", "{scenario}", "--vary", "protocol.name=NewReno", "--vary", "protocol.alpha=0.4"],
            ' (values as protocol={name = "..."} replace the other parameters, too)',
        ),
        (
            ["sweep", "{scenario}", "--vary", "seed=1", "--label", "lost=a"],
            "label must be NAME=TEXT with one of the names",
        ),
        (
            ["sweep", "{scenario}", "--vary", "seed=1", "--metric", "joy"],
            "metric must be one of rate, goodput, ",
        ),
        (
            ["sweep", "{scenario}", "--vary", "seed=1", "--metric", "flow.alpha"],
            "got 'flow.alpha': fields of states are series, recorded by --record",
        ),
        (
            ["sweep", "{scenario}", "--vary", "seed=1", "--metric", "mean_que"],
            "got 'mean_que': did you mean mean_queue",
        ),
        *[
            (["sweep", "{scenario}", "--vary", "seed=1", "--metric", metric], message)
            for metric, message in {
                "settling_time": "got 'settling_time', which takes after",
                "settling_time:after=x": "after must be a number with a unit such as s, got 'x'",
                "fairness:1-x": "flows must be indices, as 0,2,5-9, got '1-x'",
                "fairness:7": "flows must be from 0 to",
                "rate:1,2": "flow must be a whole number from 0 to 999,999, got '1,2'",
                "dropped_anywhere:1": "metric dropped_anywhere takes no flow or link, got",
                "loss:flow=1": "metric loss takes each of link, between once, got flow in 'loss:flow=1'",
                "lowest_rate:over=0": "over must be a number of samples >= 1, got '0'",
                "mean_slowdown:sizes=9": "sizes must be SMALLEST:ABOVE, as 0:100kB, got '9'",
                "mean_slowdown:sizes=9:3": "sizes must have SMALLEST < ABOVE, got '9:3'",
                "queue_found:quantile=1.5": "quantile must be from 0 to 1, got '1.5'",
                "overload_time:by=-1": "by must be a finite number >= 0, got '-1'",
                "mean_queue:between=1:900": "between must be in 0:",
            }.items()
        ],
        (["stability", "rcp-1", "--rtt", "0.1"], "got 'rcp-1': did you mean RCP?"),
        (["stability", "tcp", "--rtt", "0.1"], "got 'tcp': did you mean MaxNet, NewReno, Compound, Vegas or FAST?"),
        (["stability", "reno", "--rtt", "0.1"], "got 'reno': did you mean NewReno?"),
        (["stability", "cubik", "--rtt", "0.1"], "got 'cubik': did you mean CUBIC?"),
        (["stability", "piqi-10", "--rtt", "0.1"], "got 'piqi-10': did you mean PIQIRCP?"),
        (["sweep", "{scenario}", "--vary", "seed=1", "--between", "2:1"], "between must have BEGIN < END"),
        (
            ["sweep", "{scenario}", "--vary", "seed=1", "--store", "{scenario}"],
            "store must be a file that was made as",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_line_on_standard_error(arguments, message, scenario, tmp_path, monkeypatch, capsys, checks):
    monkeypatch.chdir(tmp_path)
    assert main([argument.format(scenario=scenario) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("ecc: ") and output.err.count("\n") == 1
    assert message in output.err


def test_all_metrics_are_listed_by_the_message_the_page_and_the_command(capsys):
    with pytest.raises(ValueError, match="metric must be one of rate, ") as caught:
        metrics.get("joy")
    listed = str(caught.value).removeprefix("metric must be one of ").removesuffix(", got 'joy'").split(", ")
    page = (Path(__file__).parents[1] / "docs/reference/metrics.md").read_text()
    assert listed == re.findall(r"^\| `(\w+)` \|", page, re.M) == list(metrics.METRICS)
    assert main(["sweep", "--metric", "list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows if re.match(r" \w", row)] == ["metric", *listed]
    assert any(
        re.match(r" settling_time +settling time +s +flow, after \(required\), target, close", row) for row in rows
    )


@pytest.mark.parametrize(("rtt", "said"), [("100", True), ("100ms", False), ("0.1", False), ("100s", False)])
def test_a_long_rtt_without_a_unit_gets_a_note(rtt, said, capsys):
    assert main(["stability", "QIRCP", "--rtt", rtt, "--time", "discrete"]) == 0
    assert ("note: an RTT of 100 is 100 s; for milliseconds: --rtt 100ms" in capsys.readouterr().err) is said


def narrow(columns):
    """A terminal of some columns."""
    return Console(highlight=False, width=columns, force_terminal=True, color_system=None)


def test_ids_and_numbers_are_not_broken_in_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr("ecc.cli.output._console", lambda: narrow(60))
    rows = [("bbr-cubic-oscillation", 0.000879507, "a sentence that is long enough to take several lines of the cell")]
    print_items(table_of("", ("claim", "value", "statement"), rows))
    out = capsys.readouterr().out
    assert "bbr-cubic-oscillation" in out and "0.000879507" in out
    heads = ("links.0.capacity", "protocol.alpha", "utilization", "mean queue [bytes]")
    print_items(table_of("", heads, [("5", "1", "2", "3")]))
    words = capsys.readouterr().out.split()
    assert {"links.0.", "capacity", "protocol.", "alpha", "utilization", "[bytes]"} <= set(words)
    assert main(["claims", "bbr-cubic-oscillation"]) == 0
    first, *text = capsys.readouterr().out.splitlines()
    assert first.startswith("bbr-cubic-oscillation  BBR-CUBIC abstract; read: ")
    assert all(line.startswith("    ") and len(line) <= 60 for line in text)


def test_long_lines_are_wrapped_at_words_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("ecc.cli.output._console", lambda: narrow(40))
    print_text("a table\n  proven stable at points of alpha: from 0.1 to 0.8606, at all values tried")
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "a table"
    assert all(len(line) <= 40 for line in out) and out[2].startswith("    ")
    assert " ".join(" ".join(out[1:]).split()).endswith("from 0.1 to 0.8606, at all values tried")
    print_text("  model          over       root\n  paced windows  drop-tail  z = 0.6865 per 12 s")
    assert capsys.readouterr().out.splitlines() == [
        "  model         over       root",
        "  paced         drop-tail  z = 0.6865",
        "  windows                  per 12 s",
    ]


@pytest.mark.parametrize("width", ["80", "160"])
def test_summaries_of_commands_are_complete(width):
    help_text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": width}).output
    summaries = re.findall(r"^  ([\w-]+)  +(.*)$", help_text.partition("Commands:")[2], re.M)
    assert len(summaries) == len(app.registered_commands)
    assert all(text.endswith(".") and not text.endswith("...") and len(text) <= 60 for _, text in summaries)


def test_examples_of_help_texts_are_calls_of_their_command():
    for command in typer.main.get_command(app).commands.values():
        text = CliRunner().invoke(app, [command.name, "--help"]).output
        examples = re.findall(r"^    (ecc .*)$", text.partition("Examples:")[2], re.M)
        assert examples or command.name == "node"
        assert all(example.startswith(f"ecc {command.name}") for example in examples)


def test_progress_where_there_is_no_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress_bar() as bar:
        task = bar.add_task("runs", total=1.0)
        for now[0], share in ((5.0, 0.1), (12.0, 0.12), (13.0, 0.2), (24.0, 0.22), (40.0, 0.5), (60.0, 1.0)):
            bar.update(task, completed=share)
    assert capsys.readouterr().err.splitlines() == [
        "ecc: runs: 12% in 12 s, about 88 s left",
        "ecc: runs: 22% in 24 s, about 85 s left",
        "ecc: runs: 50% in 40 s, about 40 s left",
    ]


def test_stability_of_hosts_over_a_queue_discipline(tmp_path, capsys):
    pair = {"flows": ecc.models.NewReno(ecn=True), "links": ecc.queues.PI2(mark=True)}
    path = tmp_path / "pair.toml"
    path.write_text(ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", [0.08] * 20), pair, 10.0).to_toml())
    asked = ["stability", str(path), "--set", "links.alpha=0.2"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("NewReno over PI2 on a link of 10 Mb/s, 20 flows") and "gain margin" in said
    assert main([*asked, "--clocking", "rate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["protocol"] == "NewReno over PI2"
    assert main([*asked, "--time", "hybrid", "--json"]) == 0
    assert [model["model"] for model in json.loads(capsys.readouterr().out)["models"]] == ["hybrid"]
    for wrong, message in (
        ("beta=1", "--set has no key 'beta'; allowed are flows.initial"),
        ("links.beta", "NAME=VALUE"),
    ):
        assert main(["stability", str(path), "--set", wrong]) == 2
        assert message in capsys.readouterr().err


def test_programming_errors_are_not_hidden(monkeypatch):
    monkeypatch.setattr(ledger, "claims", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["claims"])


def test_claims_are_listed(capsys):
    assert main(["claims", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [claim["id"] for claim in listed] == list(ledger.claims())
    assert main(["claims"]) == 0
    assert "qi-7" in capsys.readouterr().out


# ---- crosscheck ------------------------------------------------------------------------------------------

CHECKS = """
from ecc.claims.ledger import Finding, Measurement, Verdict


def refute(claim):
    found = [Measurement("a", 1.0), Measurement("b", 1.651587, "1", 1.6523)]
    return Finding(claim, Verdict.REFUTED, "it is not", found)


def fail(claim):
    raise RuntimeError("out of luck")
"""


@pytest.fixture
def checks(tmp_path, monkeypatch):
    (tmp_path / "cli_checks.py").write_text(CHECKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("cli_checks")
    table = {"qi-3": module.refute, "piqi-9": module.fail}
    monkeypatch.setattr(catalog, "checks", lambda: table)
    yield table
    del sys.modules["cli_checks"]


def test_crosscheck_prints_a_table_and_writes_the_report(checks, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "report"
    assert main(["crosscheck", "qi-3", "--out", str(out), "--jobs", "1"]) == 0  # a refuted claim is a result
    output = capsys.readouterr()
    for text in ("qi-3", "refuted", "b: 1.6523 → 1.651587", "it is not", str(out / "report.html")):
        assert text in output.out
    assert "refuted" in output.err
    assert json.loads((out / "results.json").read_text())["command"] == "ecc crosscheck qi-3"


def test_the_table_says_what_a_confirmed_claim_does_not(capsys, monkeypatch):
    missed = Measurement("packets below the bound", "unstable", met=False)
    one, other = claims()["qi-3"], claims()["qi-4"]
    confirmed = Finding(one, Verdict.CONFIRMED, "Right.", [missed])
    findings = [confirmed, Finding(other, Verdict.REFUTED, "Wrong.", [missed])]
    output.print_verdicts(findings, "claim", {})
    text = capsys.readouterr().out
    head, _, first, second = (line for line in text.splitlines() if line)
    assert head.endswith("  beyond the claim") and first.endswith("  packets below the bound: unstable")
    assert second.endswith("  Wrong.")  # nothing after it, no blanks either
    output.print_verdicts([replace(confirmed, measurements=[])], "claim", {})
    assert "beyond" not in capsys.readouterr().out
    monkeypatch.setattr(output, "_console", lambda: narrow(60))
    output.print_verdicts(findings, "claim", {"qi-5": "no memory"})
    blocks = ["qi-3  confirmed", "    Right.", "    beyond the claim: packets below the bound: unstable"]
    blocks += ["qi-4  refuted", "    Wrong.", "qi-5  failed", "    no memory"]
    assert capsys.readouterr().out.splitlines() == blocks


def test_crosscheck_json_is_all_there_is_on_standard_output(checks, tmp_path, capsys):
    assert main(["crosscheck", "QI-RCP", "--out", str(tmp_path / "r"), "--json"]) == 0
    output = capsys.readouterr()
    assert [finding["verdict"] for finding in json.loads(output.out)["findings"]] == ["refuted"]
    assert "report.html" in output.err


def test_a_failing_check_ends_in_one_and_loses_nothing(checks, tmp_path, capsys):
    assert main(["crosscheck", "--out", str(tmp_path / "r")]) == 1
    output = capsys.readouterr()
    assert output.err.endswith("ecc: claim piqi-9 failed: RuntimeError: out of luck (cli_checks.py, line 11)\n")
    assert re.search(r"^ qi-3 +refuted ", output.out, re.M)
    assert re.search(r"^ piqi-9 +failed +RuntimeError: out of luck", output.out, re.M)
    assert "out of luck" in (tmp_path / "r" / "report.html").read_text()


def test_an_interrupted_crosscheck_writes_a_partial_report(checks, tmp_path, monkeypatch, capsys):
    done = ledger.Finding(ledger.claims()["qi-3"], ledger.Verdict.CONFIRMED, "it is")
    monkeypatch.setattr(runner, "examine", lambda *_: runner.Outcome([done], {}, interrupted=True))
    assert main(["crosscheck", "--out", str(tmp_path / "r")]) == 130
    assert "interrupted after 1 of 2 claims" in capsys.readouterr().err
    assert json.loads((tmp_path / "r" / "results.json").read_text())["partial"] is True


# ---- simulate --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["packet", "fluid"])
def test_simulate_reports_rates_and_queues(engine, scenario, capsys):
    assert main(["simulate", scenario, "--engine", engine, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["engine"], summary["protocol"], summary["stopped"]) == (engine, "QIRCP", "completed")
    assert summary["simulated"] == pytest.approx(2.0)
    assert [flow["last_rate"] for flow in summary["flows"]] == pytest.approx([4.75e6] * 2, rel=0.05)
    assert summary["links"][0]["drops"] == 0
    assert main(["simulate", scenario, "--engine", engine]) == 0
    table = capsys.readouterr().out
    assert "mean rate [Mb/s]" in table and "peak queue [bytes]" in table
    assert "capacity [Mb/s]" in table and "10.0000" in table
    link = summary["links"][0]
    assert link["capacity"] == 10e6 and f"{link['utilization']:.1%}" in table
    sent = sum(flow["mean_rate"] for flow in summary["flows"])
    assert link["utilization"] == pytest.approx(sent / 10e6, rel=0.1)
    assert summary["transfers"]["rows"] == 0 and "transfers" not in table


def test_losses_by_impairments_are_shown_by_simulate_and_sweep(tmp_path, capsys):
    path = tmp_path / "lossy.toml"
    one_flow = SCENARIO.replace("QI-RCP", "NewReno").rpartition("[[flows]]")[0]
    path.write_text(
        "seed = 7\n" + one_flow + '[[impairments]]\nname = "BurstLoss"\nbegins = 0.01\nends = 0.24\nlink = 0\n'
    )
    flows = ecc.packet.simulate(ecc.Scenario.from_toml(path).with_(seed=7)).flows
    lost, delivered = float(flows["lost"][0]), float(flows["delivered"][0])
    assert main(["simulate", str(path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["flows"][0]["lost"] == lost > 0.0 and summary["links"][0]["drops"] == 0
    assert main(["simulate", str(path)]) == 0
    table = capsys.readouterr().out
    assert "lost [bytes]" in table and f" {lost:,.0f}" in table
    arguments = ["sweep", str(path), "--vary", "seed=7", "--metric", "lost_share", "--metric", "loss", "--json"]
    assert main(arguments) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["loss"] == 0.0 and row["lost_share"] == pytest.approx(lost / (lost + delivered), rel=1e-9)


@pytest.mark.slow
def test_simulate_and_sweep_take_the_time_of_fluid_runs(scenario, tmp_path, capsys):
    folder = tmp_path / "out"
    folder.mkdir()
    asked = [scenario, "--engine", "fluid", "--time", "averaged", "--json"]
    assert main(["simulate", *asked, "--out", str(folder / "run.nc")]) == 0
    assert ecc.Trajectory.load(folder / "run.nc").data.attrs["time"] == "averaged"
    mean = sum(flow["mean_rate"] for flow in json.loads(capsys.readouterr().out)["flows"])
    discrete = [scenario, "--engine", "fluid", "--time", "discrete", "--json"]
    metric = ["--vary", "seed=1", "--metric", "utilization", "--between", "0:2"]
    utilizations = []
    for words in (asked, discrete):
        assert main(["sweep", *words, *metric]) == 0
        utilizations.append(json.loads(capsys.readouterr().out)[0]["utilization"])
    assert utilizations[0] == pytest.approx(mean / 10e6, rel=0.01) and utilizations[0] != utilizations[1]
    target = str(folder / "Snakefile")
    assert main(["sweep", *asked[:-1], *metric, "--snakefile", target]) == 0
    assert "--time averaged" in (folder / "Snakefile").read_text()


LOSSY = """
duration = "1 s"
protocol = { name = "NewReno" }
links = [{ capacity = "10 Mb/s", delay = "5 ms", buffer_packets = 20 }]
flows = [{ route = [0] }]
impairments = [{ name = "RandomLoss", probability = 0.01, link = 0 }]
"""


def test_a_sweep_prints_means_over_seeds_with_intervals(tmp_path, capsys):
    (tmp_path / "lossy.toml").write_text(LOSSY)
    command = ["sweep", str(tmp_path / "lossy.toml"), "--metric", "utilization", "--vary", "seed=1,2,3", "--jobs", "1"]
    command += ["--zip", "links.0.capacity=10 Mb/s,20 Mb/s", "--zip", "links.0.buffer_packets=20,40"]
    assert main([*command, "--json", "--out", str(tmp_path / "runs.nc")]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["seed"], row["links.0.capacity"], row["links.0.buffer_packets"]) for row in rows] == [
        (seed, *pair) for seed in (1, 2, 3) for pair in (("10 Mb/s", 20), ("20 Mb/s", 40))
    ]
    kept = xr.load_dataset(tmp_path / "runs.nc")["utilization"]
    assert kept.dims == ("seed", "links.0.capacity") and kept.attrs["long_name"] == "utilization"
    assert main([*command, "--average", "seed", "--json"]) == 0
    means = json.loads(capsys.readouterr().out)
    for mean, capacity in zip(means, ("10 Mb/s", "20 Mb/s"), strict=True):
        values = pd.Series([row["utilization"] for row in rows if row["links.0.capacity"] == capacity])
        assert mean["utilization"] == pytest.approx(values.mean())
        assert mean["utilization_interval"] == pytest.approx(4.3027 * values.std() / 3**0.5, rel=1e-4)
    assert main([*command, "--average", "seed"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("lossy.toml, packet runs: mean over 3 values of seed, 95 % interval\n")
    assert re.search(r"10 Mb/s +20 +3 +0\.\d+ ± 0\.\d+\n", printed)
    assert main([*command[:6], "--jobs", "1", "--average", "seed", "--json"]) == 0
    (mean,) = json.loads(capsys.readouterr().out)
    assert mean["runs"] == 3 and mean["utilization"] == pytest.approx(means[0]["utilization"])


@pytest.mark.parametrize(
    ("mean", "half_width", "text"),
    [(1.0, 7.9e-6, "1 ± 7.9e-06"), (128.4, 26.1, "128 ± 26"), (0.5, 0.0, "0.5 ± 0"), (3.0, math.nan, "3")],
)
def test_a_mean_has_the_digits_of_its_interval(mean, half_width, text):
    assert _with_interval(mean, half_width) == text


def test_means_of_an_interrupted_sweep_have_the_number_of_runs(scenario, capsys, monkeypatch):
    found, _ = swept(lambda **point: {"utilization": 1.0}, {"duration": [1, 2], "seed": [1, 2]})
    found.variables["utilization"][1, 1] = float("nan")
    found.variables["error"] = np.array([["", ""], ["", "not run"]])
    end = EarlyEnd(SweepInterrupted, "interrupted after 3 of 4 points")
    monkeypatch.setattr("ecc.batch.sweeps.swept", lambda *arguments: (found, end))
    command = ["sweep", scenario, "--vary", "duration=1,2", "--vary", "seed=1,2", "--average", "seed"]
    assert main([*command, "--metric", "utilization"]) == 130
    printed = capsys.readouterr().out
    assert "mean over up to 2 values of seed" in printed
    assert re.search(r"^ duration +runs +utilization", printed, re.M)
    assert re.search(r"^ 1 +2 +1 ± 0\n 2 +1 +1$", printed, re.M)


SHORT = """
duration = "3 ms"
links = [{ capacity = "10 Gb/s", delay = "10 us", buffer = "500 kB" }]
flows = [{ route = [0], size = "100 kB" }, { route = [0], size = "200 kB" }, { route = [0], size = "90 MB" }]
protocol = { name = "Swift" }
"""
PAIR = '{flows={default={name="DCTCP"}},links={default={name="StepMarking",threshold=65}}}'


def test_a_sweep_over_protocols_reports_flows_that_do_not_finish(tmp_path, capsys):
    (tmp_path / "short.toml").write_text(SHORT)
    command = ["sweep", str(tmp_path / "short.toml"), "--jobs", "1", "--metric", "p95_completion_time"]
    command += ["--zip", f'protocol={PAIR},{{name="HPCC"}}', "--zip", "links.0.buffer=400 kB"]
    assert main([*command, "--out", str(tmp_path / "a.html"), "--label", "p95_completion_time=time"]) == 0
    printed, notes = capsys.readouterr()
    note = "flows of finite size did not finish in 2 of 2 runs (up to 1 of them)"
    assert notes.startswith(f"ecc: note: {note}; completion times and slowdowns leave them out\n")
    assert re.search(r"^ protocol +links.0.buffer +time \[µs\] +unfinished flows$", printed, re.M)
    assert re.search(r"^ DCTCP over StepMarking\(threshold = 65\) +400 kB +[\d.]+ +1$", printed, re.M)
    page = (tmp_path / "a.html").read_text()
    assert note[:40] in page and '"type":"bar"' in page and "DCTCP over StepMarking" in page
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["protocol"] for row in rows] == [PAIR, '{name="HPCC"}'] and rows[1]["unfinished"] == 1
    assert 1e-4 < rows[1]["p95_completion_time"] < 1e-3
    (tmp_path / "short.toml").write_text(SHORT.replace(', { route = [0], size = "90 MB" }', ""))
    assert main([*command, "--metric", "mean_queue"]) == 0
    printed, notes = capsys.readouterr()
    assert "unfinished" not in printed and "active" not in printed
    assert notes.startswith(
        "ecc: note: no flow is active in the time of the metrics, by default the last half, in 2 of"
    )


def test_each_metric_of_a_sweep_may_have_its_own_arguments(tmp_path, capsys):
    (tmp_path / "short.toml").write_text(SHORT.replace("90 MB", "200 kB"))
    metrics = ["unfinished:0-1", "p95_slowdown:sizes=0:150kB", "p95_slowdown:2", "mean_queue:between=0:100us"]
    command = ["sweep", str(tmp_path / "short.toml"), "--vary", "seed=1", "--json", "--sample", "50us", "--flow", "1"]
    command += ["--store", str(tmp_path / "a.sqlite")]
    assert main([*command, *(word for metric in metrics for word in ("--metric", metric))]) == 0
    (row,), notes = (read(text) for read, text in zip((json.loads, str), capsys.readouterr(), strict=True))
    assert "ecc: note: --flow has no effect, as no metric takes it from there (unfinished:0-1, " in notes
    run = ecc.packet.simulate(ecc.Scenario.from_toml(tmp_path / "short.toml"), sample=50e-6)
    slowdowns = run.flows["completion_time"] / run.flows["ideal_time"]
    assert [row[name] for name in metrics[:3]] == pytest.approx([0.0, slowdowns[0], slowdowns[2]])
    assert row[metrics[3]] == pytest.approx(run.queue_mean[:2, 0].mean())


def test_a_sweep_draws_its_figure_and_averages_seeds(tmp_path, capsys):
    (tmp_path / "lossy.toml").write_text(LOSSY)
    command = ["sweep", str(tmp_path / "lossy.toml"), "--vary", "links.0.buffer_packets=10,20", "--jobs", "1"]
    for more, bars in (([], False), (["--vary", "seed=1,2"], True)):
        assert main([*command, *more, "--metric", "mean_queue", "--out", str(tmp_path / "map.html")]) == 0
        page = (tmp_path / "map.html").read_text()
        assert "mean queue [kB]" in page and "lossy.toml, packet runs" in page
        assert ('"error_y":{' in page) is bars
    capsys.readouterr()
    many = ["--vary", "links.0.capacity=1e6,2e6", "--vary", "flows.0.access_delay=0.01,0.02"]
    assert main([*command, *many, "--out", str(tmp_path / "map.html")]) == 2
    assert "out must end in .nc or .csv for more than two axes, got 'map.html' and links" in capsys.readouterr().err


MIXED = """
duration = "1 s"
links = [{ capacity = "10 Mb/s", delay = "20 ms", buffer = "75 kB" }]
flows = [{ route = [0] }, { route = [0] }, { route = [0] }]
[protocol.flows]
0 = { name = "Prague" }
1 = { name = "CUBIC" }
2 = { name = "CUBIC", beta = 0.5 }
[protocol.links]
default = { name = "DualPI2" }
"""


def test_a_mixed_run_says_which_flow_runs_which_protocol_over_what(tmp_path, capsys):
    path, figure = tmp_path / "mixed.toml", tmp_path / "mixed.html"
    path.write_text(MIXED)
    assert main(["simulate", str(path), "--out", str(figure)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Prague, CUBIC over DualPI2, packet run of 1 s\n")
    assert re.search(r"^ flow +protocol +mean rate", said, re.M)
    assert re.search(r"^ 0 +Prague +\d", said, re.M) and re.search(r"^ 2 +CUBIC\(beta = 0\.5\) +\d", said, re.M)
    assert re.search(r"drops \[packets\] +marks \[packets\]$", said, re.M)
    assert {"flow 0, Prague", "flow 1, CUBIC", "flow 2, CUBIC"} <= set(re.findall(r"flow \d, \w+", figure.read_text()))
    path.write_text(MIXED.replace("DualPI2", "DropTail"))
    assert main(["simulate", str(path)]) == 0
    assert "marks" not in capsys.readouterr().out
    path.write_text(MIXED.replace("Prague", "CUBIC").replace(", beta = 0.5", ""))
    assert main(["simulate", str(path), "--json"]) == 0
    assert [one["protocol"] for one in json.loads(capsys.readouterr().out)["flows"]] == ["CUBIC"] * 3
    assert main(["simulate", str(path)]) == 0
    assert "protocol" not in capsys.readouterr().out


@pytest.mark.slow
def test_mean_queue_of_packets_is_exact_however_long_samples_are(scenario, capsys):
    found = []
    for sample in ("20 ms", "100 ms", "1 s"):
        assert main(["simulate", scenario, "--sample", sample, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["links"][0]["mean_queue"])
    assert found[0] > 0.0 and found == pytest.approx([found[0]] * 3, rel=1e-9)
    options = ["--vary", "duration=2", "--metric", "mean_queue", "--between", "0:2", "--jobs", "1", "--json"]
    assert main(["sweep", scenario, *options]) == 0
    assert json.loads(capsys.readouterr().out)[0]["mean_queue"] == pytest.approx(found[0], rel=1e-9)


def test_simulate_captures_the_packets_of_a_link(scenario, tmp_path, capsys):
    wire = tmp_path / "link.parquet"
    assert main(["simulate", scenario, "--capture", str(wire), "--link", "0"]) == 0
    assert f"capture: {wire}\n" in capsys.readouterr().out
    assert len(pd.read_parquet(wire)) > 1000
    assert main(["simulate", scenario, "--capture", str(tmp_path / "link.pcapng"), "--json"]) == 0
    assert (tmp_path / "link.pcapng").stat().st_size > 100_000


def test_simulate_says_what_became_of_transfers(tmp_path, capsys):
    path = tmp_path / "mice.toml"
    path.write_text(SCENARIO + "[[workload.transfers]]\nroute = [0]\nsize = 3000\nstart = 0.5\n")
    assert main(["simulate", str(path), "--json"]) == 0
    transfers = json.loads(capsys.readouterr().out)["transfers"]
    assert (transfers["rows"], transfers["completed"]) == (1, 1) and 0.05 < transfers["mean_completion_time"] < 0.5
    assert main(["simulate", str(path)]) == 0
    table = capsys.readouterr().out
    assert "mean completion time" in table and "p99 completion time" in table


def test_simulate_prints_completion_times_and_the_busiest_links_of_a_fabric(tmp_path, capsys):
    path = tmp_path / "fabric.toml"
    path.write_text(
        'duration = "2 ms"\nprotocol = { name = "NewReno" }\n[fabric]\ntopology = "fat_tree"\nk = 4\n'
        'capacity = "10 Gb/s"\nbuffer = "30 kB"\nack_links = false\n'
        'demands = [{ pattern = "incast", sources = 8, destination = 0, size = "20 kB" }]\n'
    )
    assert main(["simulate", str(path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    transfers = summary["transfers"]
    run = ecc.simulate(ecc.Scenario.from_toml(path))
    times = run.flows["completion_time"].dropna()
    assert transfers["rows"] == 8 and transfers["completed"] == len(times) > 0
    assert transfers["p99_completion_time"] == pytest.approx(times.quantile(0.99))
    assert transfers["p99_slowdown"] == pytest.approx((times / run.flows["ideal_time"]).quantile(0.99))
    assert len(summary["links"]) == 96
    assert main(["simulate", str(path)]) == 0
    table = capsys.readouterr().out
    busiest = max(summary["links"], key=lambda link: link["peak_queue"])
    assert "\n 77 others " in table and f" {busiest['peak_queue']:,.0f} " in table and "p99 slowdown" in table


def test_an_interrupted_run_goes_on_from_its_checkpoint(scenario, tmp_path, capsys, monkeypatch):
    path, rows = tmp_path / "run.ckpt", tmp_path / "flows.parquet"
    assert main(["simulate", scenario, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["stats"]
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 500)
    advance = ecc.packet.Run.advance

    def interrupted(run, until=None, progress=None, cancel=None):
        def stop(share):
            if share > 0.4:
                raise KeyboardInterrupt

        return advance(run, until, stop, cancel)

    command = ["simulate", scenario, "--json", "--checkpoint", str(path), "--flows-to", str(rows)]
    with monkeypatch.context() as patch:
        patch.setattr(ecc.packet.Run, "advance", interrupted)
        assert main(command) == 130 and path.exists() and rows.exists()
    capsys.readouterr()
    assert main(command) == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    assert (stats["digest"], stats["events"]) == (whole["digest"], whole["events"])


class Killed(BaseException):
    """Ends a call as kill -9 ends a process: nothing that follows is done."""


def killed_after(share_of_run):
    advance = ecc.packet.Run.advance

    def killed(run, until=None, progress=None, cancel=None):
        def stop(share):
            if share > share_of_run:
                raise Killed
            progress(share)

        return advance(run, until, stop, cancel)

    return killed


def test_a_killed_run_loses_only_what_came_after_its_last_checkpoint(scenario, tmp_path, capsys, monkeypatch):
    path, rows = tmp_path / "run.ckpt", tmp_path / "flows.parquet"
    assert main(["simulate", scenario, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["stats"]
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 100)  # a hundredth of the run
    command = ["simulate", scenario, "--json", "--checkpoint", str(path), "--checkpoint-every", "1 ns"]
    command += ["--flows-to", str(rows)]
    for share in (0.3, 0.6):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(ecc.packet.Run, "advance", killed_after(share))
            main(command)
        assert 0.8 * share < ecc.packet.resume(path).now / 2.0 <= share
    capsys.readouterr()
    assert main(command) == 0
    output = capsys.readouterr()
    stats = json.loads(output.out)["stats"]
    assert (stats["digest"], stats["events"]) == (whole["digest"], whole["events"])
    assert not path.exists() and f"removed: {path}, as the run is complete" in output.err
    assert main(command) == 0  # anew: the end of a run leaves nothing to resume from
    assert json.loads(capsys.readouterr().out)["stats"]["digest"] == whole["digest"]


def test_a_resumed_run_has_the_options_that_it_began_with_or_is_refused(scenario, tmp_path, capsys, monkeypatch):
    path, rows = tmp_path / "run.ckpt", tmp_path / "flows.parquet"
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 500)
    command = ["simulate", scenario, "--json", "--checkpoint", str(path)]

    def begin(*options):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(ecc.packet.Run, "advance", killed_after(0.3))
            main([*command, "--checkpoint-every", "1 ns", *options])

    begin("--sample", "0.05", "--record", "flow.x")
    for options, said in (
        (["--sample", "0.1"], "sample must be 0.05, as in the checkpoint, or left out, got 0.1"),
        (["--record", "link.R"], r"record must be ['flow.x'], as in the checkpoint, or left out, got ['link.R']"),
        (["--threads", "2"], "threads must be 1, as in the checkpoint, or left out, got 2"),
        (["--flows-to", str(rows)], "flows_to must not be given: the run was started without it"),
    ):
        assert main([*command, *options]) == 2
        output = capsys.readouterr().err
        assert said in output and output.count("\n") == 1 and path.exists()
    out = tmp_path / "run.nc"
    assert main([*command, "--record", "flow.x", "--out", str(out)]) == 0  # others are those of the checkpoint
    assert xr.load_dataset(out).sizes["time"] == 40 and not path.exists()
    begin("--flows-to", str(rows))
    capsys.readouterr()
    assert main(command) == 2
    assert "flows-to must be given, as the run of the checkpoint writes rows" in capsys.readouterr().err
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert main([*command, "--flows-to", str(elsewhere / "more.parquet")]) == 0
    assert [file.name for file in elsewhere.iterdir()] == ["more.parquet"]


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(scenario, tmp_path, capsys, monkeypatch):
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 500)

    def full(run, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ecc.packet.Run, "save", full)
    assert main(["simulate", scenario, "--checkpoint", str(path), "--checkpoint-every", "1 ns"]) == 0
    said = capsys.readouterr().err
    assert said == f"ecc: {path} cannot be written: No space left on device; the run continues\n"
    assert main(["simulate", scenario, "--checkpoint-every", "1 s"]) == 2
    assert "checkpoint-every needs --checkpoint FILE" in capsys.readouterr().err


def test_simulate_keeps_the_run_in_three_formats(scenario, tmp_path):
    for suffix in ("nc", "csv", "html"):
        assert main(["simulate", scenario, "--sample", "50 ms", "--out", str(tmp_path / f"run.{suffix}")]) == 0
    data = xr.load_dataset(tmp_path / "run.nc")
    table = pd.read_csv(tmp_path / "run.csv", index_col="time")
    assert (data.sizes["time"], len(table)) == (40, 40)
    assert data.attrs["engine"] == "packet"
    assert table["rate 1"].to_numpy() == pytest.approx(data["rate"][:, 1].to_numpy())
    page = (tmp_path / "run.html").read_text()
    assert "plotly.js v" in page
    assert '"modebar":{"remove":["sendChartToCloud"' in page  # the button that uploads what is drawn


def test_a_page_shows_what_was_recorded(scenario, tmp_path):
    page, table = str(tmp_path / "run.html"), str(tmp_path / "run.csv")
    options = ["--sample", "0.5 s", "--record", "link.R", "--record", "flow.x"]
    assert main(["simulate", scenario, *options, "--out", page]) == 0
    assert main(["simulate", scenario, *options, "--out", table]) == 0
    text = (tmp_path / "run.html").read_text()
    assert all(f'"text":"{name}"' in text for name in ("link.R", r"flow.x [bit\u002fs]"))  # titles of axes
    assert all(f'"name":"{name}"' in text for name in ("link.R, link 0", "flow.x, flow 0", "flow.x, flow 1"))
    assert {"link.R 0", "flow.x 0", "flow.x 1"} <= set(pd.read_csv(table).columns)


def test_an_interrupted_run_is_kept(scenario, tmp_path, monkeypatch, capsys):
    advance = ecc.packet.Run.advance

    def interrupt(share):
        raise KeyboardInterrupt

    monkeypatch.setattr(ecc.packet.Run, "advance", lambda run, progress: advance(run, progress=interrupt))
    monkeypatch.setattr("ecc.packet.simulation.SLICE", 1000)
    assert main(["simulate", scenario, "--out", str(tmp_path / "run.nc")]) == 130
    output = capsys.readouterr()
    assert re.search(r"^ecc: the run ended at [\d.]+ of 2 s: interrupted$", output.err)
    assert "mean rate" in output.out
    assert 0 < xr.load_dataset(tmp_path / "run.nc").sizes["time"] < 20


def test_a_run_that_a_hook_stops_is_kept_and_ends_in_one(scenario, monkeypatch, capsys):
    trajectory = ecc.packet.Run.trajectory

    def stopped(run):
        made = trajectory(run)
        return replace(made, stats=dict(made.stats) | {"stopped": "rate of flow 0 is nan"})

    monkeypatch.setattr(ecc.packet.Run, "trajectory", stopped)
    assert main(["simulate", scenario]) == 1
    assert capsys.readouterr().err == "ecc: the run ended at 2 of 2 s: rate of flow 0 is nan\n"


def test_a_run_that_ends_at_once_has_no_tables(tmp_path, capsys):
    (tmp_path / "window_that_is_nan.py").write_text(
        "from dataclasses import dataclass\nfrom ecc.models import NewReno\n\ndef start(flow, header, p, env):\n"
        "    env.window = float('nan')\n\n@dataclass(frozen=True)\nclass Mine(NewReno):\n"
        "    def flow_hooks(self):\n        return super().flow_hooks() | {'on_start': start}\n"
    )
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO.replace("QI-RCP", f"{tmp_path / 'window_that_is_nan.py'}:Mine"))
    assert main(["simulate", str(path)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("ecc: the run ended at 0 of 2 s: window must be finite and >= 0 bytes, got nan")
    assert said.out == ""


def test_many_flows_are_summed_up(scenario, tmp_path, capsys):
    path = tmp_path / "many.toml"
    path.write_text(SCENARIO + "[[flows]]\nroute = [0]\n" * 30)
    assert main(["simulate", str(path)]) == 0
    assert "mean of 13 others" in capsys.readouterr().out


# ---- stability -------------------------------------------------------------------------------------------


def test_stability_without_a_network_prints_the_verdicts_on_the_reference_loop(capsys):
    assert main(["stability", "piqi-rcp"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PIQIRCP on its reference loop: 3 flows, 1 Gb/s, RTT of 50 ms (THESIS fig. 29)"
    assert [line.split()[2] for line in lines[2:5]] == ["continuous", "discrete", "hybrid"]
    assert main(["stability", "piqi-rcp", "--time", "hybrid", "--set", "alpha=5", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert (model["time"], model["object"], model["stable"], model["proven"]) == ("hybrid", "equilibrium", False, True)
    assert len(model["dominant"]) == 2 and model["margin"] is None and model["step"] == 0.01
    assert main(["stability", "EDN", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [(model["time"], model["object"]) for model in models] == [("continuous", "cycle"), ("discrete", "cycle")]
    assert models[0]["stable"]


@pytest.mark.slow
def test_sweep_measures_each_run_and_goes_on_from_its_store(scenario, tmp_path, capsys):
    arguments = ["sweep", scenario, "--vary", "protocol.gamma=0.5,0.9", "--vary", "links.*.capacity=10 Mb/s,20 Mb/s"]
    options = ["--metric", "utilization", "--metric", "rate", "--between", "1:2", "--jobs", "1", "--json"]
    kept = ["--store", str(tmp_path / "runs.sqlite"), "--out", str(tmp_path / "table.nc")]
    assert main([*arguments, *options, *kept]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["protocol.gamma"], row["links.*.capacity"]) for row in rows] == [
        (0.5, "10 Mb/s"),
        (0.5, "20 Mb/s"),
        (0.9, "10 Mb/s"),
        (0.9, "20 Mb/s"),
    ]
    for row in rows:
        gamma, capacity = row["protocol.gamma"], ecc.Link(row["links.*.capacity"], 0.0).capacity
        assert row["utilization"] == pytest.approx(gamma, rel=0.01)
        assert row["rate"] == pytest.approx(gamma * capacity / 2, rel=0.01)
    assert xr.load_dataset(tmp_path / "table.nc")["rate"].shape == (2, 2)
    assert main([*arguments, *options, *kept]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == rows
    assert again.err.startswith(f"4 of 4 points are in {tmp_path / 'runs.sqlite'}, nothing left to do\n")
    assert len(Store(tmp_path / "runs.sqlite")) == 8  # points, each with two metrics
    other = (tmp_path / "other.toml").write_text(SCENARIO.replace("25 ms", "35 ms"))
    assert other and main(["sweep", str(tmp_path / "other.toml"), *arguments[2:], *options, *kept]) == 0
    assert len(Store(tmp_path / "runs.sqlite")) == 16  # a store may serve several scenarios


@pytest.mark.slow
def test_a_sweep_takes_from_its_store_the_metrics_that_are_there(scenario, tmp_path, capsys):
    arguments = ["sweep", scenario, "--vary", "protocol.gamma=0.5,0.9", "--jobs", "1", "--json"]
    arguments += ["--store", str(tmp_path / "runs.sqlite")]

    def taken(*metrics):
        assert main([*arguments, *(word for name in metrics for word in ("--metric", name))]) == 0
        found = capsys.readouterr()
        return json.loads(found.out), "2 of 2 points" in found.err

    both, stored = taken("utilization", "peak_queue")
    assert not stored
    assert taken("peak_queue") == ([{k: v for k, v in row.items() if k != "utilization"} for row in both], True)
    assert taken("peak_queue", "rate")[1] is False  # series are not kept: the runs are made again
    assert taken("rate", "utilization")[1] is True
    arguments += ["--between", "0:2"]
    assert taken("utilization")[1] is False


def test_an_interrupted_sweep_prints_no_row_of_what_was_not_run(scenario, capsys, monkeypatch):
    found, _ = swept(lambda **point: {"utilization": 1.0}, {"seed": [1, 2, 3]})

    def interrupted(done):
        found.variables["error"] = np.array(["" if k < done else "not run" for k in range(3)])
        end = EarlyEnd(SweepInterrupted, f"interrupted after {done} of 3 points")
        monkeypatch.setattr("ecc.batch.sweeps.swept", lambda *arguments: (found, end))
        assert main(["sweep", scenario, "--vary", "seed=1,2,3", "--metric", "utilization"]) == 130
        return capsys.readouterr()

    printed = interrupted(1)
    assert printed.err == "ecc: interrupted after 1 of 3 points; without --store FILE a later call begins anew\n"
    assert "not run" not in printed.out and "error" not in printed.out and printed.out.count("\n 1") == 1
    assert printed.out.startswith("scenario.toml, packet runs\n")
    assert interrupted(0).out == ""


@pytest.mark.slow
def test_an_interrupted_sweep_writes_a_partial_table_wherever_it_goes(scenario, tmp_path, capsys, monkeypatch):
    found, _ = swept(lambda **point: {"utilization": 1.0}, {"seed": [1]})
    found.variables["error"] = np.array([""])
    end = EarlyEnd(SweepInterrupted, "interrupted after 1 of 1 points")
    monkeypatch.setattr("ecc.batch.sweeps.swept", lambda *arguments: (found, end))
    command = ["sweep", scenario, "--vary", "seed=1", "--metric", "utilization", "--out", str(tmp_path / "table.csv")]
    assert main(command) == 130
    assert [path.name for path in tmp_path.glob("table*")] == ["table.partial.csv"]
    monkeypatch.undo()
    capsys.readouterr()
    assert main([*command, "--jobs", "1"]) == 0  # whole: what is part of it goes
    assert [path.name for path in tmp_path.glob("table*")] == ["table.csv"]
    assert capsys.readouterr().out.endswith(f"\nremoved: {tmp_path / 'table.partial.csv'}, which was part of it\n")


def test_a_rule_of_a_piped_table_is_as_long_as_its_head(capsys):
    output.print_items(output.table_of("", ("id", "text"), [("a", "x" * 500)]))
    head, rule, row = filter(None, capsys.readouterr().out.splitlines())
    assert len(rule) <= len(head) < len(row) and set(rule) <= {"─", " "}


def test_stability_gives_the_critical_gains_of_all_models(capsys):
    arguments = ["stability", "QI-RCP", "--rtt", "100 ms", "--capacity", "1 Gb/s", "--set", "alpha=1.6", "--json"]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    models = {row["model"]: row for row in result["models"]}
    assert models["continuous"]["critical"] == pytest.approx(math.pi / 2, rel=1e-9)
    assert models["discrete"]["critical"] == pytest.approx(20 * math.sin(math.pi / 38), rel=1e-9)
    assert (models["continuous"]["stable"], models["discrete"]["stable"]) == (False, True)
    assert models["discrete"]["gain_margin"] == pytest.approx(models["discrete"]["critical"] / 1.6, rel=1e-6)
    assert {bound["theorem"] for bound in result["published"]} >= {"THESIS Theorem 3"}


def test_stability_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["stability", "QI-RCP", "--rtt", "0.1", "--rtt", "0.2", "--time", "discrete"]) == 0
    output = capsys.readouterr().out
    assert "  stable for alpha      0 to 1.89549" in output and "at alpha = 0.5        stable" in output
    assert "continuous" not in output.split("published")[0]


def test_stability_json_has_null_where_there_is_no_number(capsys):
    assert main(["stability", "RCP", "--rtt", "0.1", "--time", "continuous", "--json"]) == 0
    text = capsys.readouterr().out
    model = json.loads(text)["models"][0]
    assert "nan" not in text and ".switched" not in text
    assert (model["interval"], model["frequency"], model["gain_margin"]) == ([None, None], None, None)


@pytest.mark.slow
def test_what_is_no_stability_bound_is_not_called_one(capsys):
    assert main(["stability", "JetMax", "--rtt", "0.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("published, JETMAX Theorem 2: stable for tau < 2 ") for line in lines)
    assert any(line.startswith("published, JETMAX sec. 5.4: converges monotonically for tau < 1 ") for line in lines)


def test_none_is_text_for_parameters_that_have_this_choice():
    made = protocol_of("NewReno", ["restart=none", "application_limited=none", "initial=none", "prr=None"])
    assert made == ecc.models.NewReno(restart="none", application_limited="none")


def test_literal_parameters_of_a_custom_protocol_take_none_as_text(tmp_path, monkeypatch):
    source = """
from dataclasses import dataclass
from typing import Literal

import ecc


@dataclass(frozen=True)
class Mine(ecc.models.NewReno):
    mode: Literal["all", "none"] = "all"
    size: float | None = 1.0
"""
    (tmp_path / "mine_with_modes.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    made = protocol_of("mine_with_modes.py:Mine", ["mode=none", "size=none"])
    assert (made.mode, made.size) == ("none", None)


def test_variants_are_set_by_name(capsys):
    arguments = ["stability", "RCP", "--rtt", "0.1", "--set", "queue_term=false", "--set", "rtt=max", "--json"]
    assert main(arguments) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert models[0]["critical"] == pytest.approx(math.pi / 2, rel=1e-9)
