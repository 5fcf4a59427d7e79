"""Bad and extreme input of the command line: one line on standard error the exit code of bad input, no trace."""

import re
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import HANG

from ecc.cli import BAD_INPUT, FAILED, UNWRITTEN, main

SCENARIO = """
duration = 1.0
[protocol]
name = "RCP"
[[links]]
capacity = "10 Mb/s"
delay = "10 ms"
[[flows]]
route = [0]
"""
HUGE = "1" + "0" * 400


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(SCENARIO)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "deep.toml").write_text("x = " + "[" * 50_000 + "]" * 50_000)
    (tmp_path / "tables.toml").write_text(SCENARIO + "\n[" + ".".join("a" * 5_000) + "]\n")
    for name, text in {
        "leaves": "import sys\nsys.exit(7)\n",
        "fails": "1 / 0\n",
        "other": "class Thing: pass\n",
        "law_fails": (
            "from dataclasses import dataclass\nfrom ecc.models import QIRCP\n\n@dataclass(frozen=True)\n"
            "class Fails(QIRCP):\n    def equilibrium(self, network, assignment=None):\n        return [][1]\n"
        ),
    }.items():
        (tmp_path / f"user_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def refused(arguments, capfd, code=BAD_INPUT):
    """Run the command line, and return the one line of its refusal."""
    assert main(arguments) == code
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("ecc: ") and len(lines[0]) > 10, err
    assert "Traceback" not in err and out == ""
    return lines[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1.0", HUGE), "duration must be"),
        (("1.0", "inf"), "duration must be"),
        (("1.0", "nan"), "duration must be"),
        (("1.0", "[1]"), "duration must be a number"),
        (("[0]", f"[{HUGE}]"), r"route must be .*flows\[0\]"),
        (("[0]", "[-1]"), r"route must be >= 0, got -1 \(in flows\[0\]\)"),
        (("[0]", "[true]"), r"route must be a whole number"),
        (("[0]", "{}"), r"route must"),
        (('"10 Mb/s"', "[]"), r"capacity must be a number or a string with a unit, got \[\] \(in links\[0\]\)"),
        (('"10 Mb/s"', '"' + "9" * 100_000 + ' Mb/s"'), "capacity must be"),
        (('"RCP"', "3"), "protocol name must be one of"),
        (('"RCP"', '"user_leaves:A"'), "cannot be imported: SystemExit: 7"),
        (('"RCP"', '"user_fails:A"'), "cannot be imported: ZeroDivisionError: division by zero"),
        (
            ('"RCP"', '"user_other:Thing"'),
            "protocol name must be a subclass of ecc.models.Protocol, got 'user_other",
        ),
        (('"RCP"', '"README.md"'), "protocol name must be a name, path.py:Class or path.so, got 'README.md'"),
        (('"RCP"', '"user_none:Thing"'), "cannot be imported: No module named"),
        (("[[links]]", "[links]"), "links must be a list of tables"),
        (("[[flows]]", "[flows]"), "flows must be a list of tables"),
        (("[protocol]", "[[protocol]]"), "protocol must be a table with a name"),
        (("duration", "rtts = 3\nduration"), "rtts must"),
        (("duration", "phases = [inf]\nduration"), "phases must"),
        (("duration", "intervals = [1e400]\nduration"), "intervals must"),
        (("duration", "assignment = [-1]\nduration"), "assignment must"),
        (("duration", f"assignment = [{HUGE}]\nduration"), "assignment must"),
        (("duration", f"seed = {HUGE}\nduration"), r"seed must be < 2\^64"),
        (("duration", "impairments = [3]\nduration"), r"impairments\[0\] must be a table"),
        (("duration", "workload = 3\nduration"), "workload must be a table"),
        (("duration", "workload = {arrivals = 3}\nduration"), "workload.arrivals must be a list"),
        (("duration", "workload = {tmix = [{vectors = 3, route = [0], reverse = [0]}]}\nduration"), "vectors must be"),
    ],
)
def test_scenarios_of_wrong_values_and_shapes(here, capfd, change, message):
    text = SCENARIO.replace(*change, 1)
    assert text != SCENARIO
    (here / "bad.toml").write_text(text)
    said = refused(["simulate", "bad.toml"], capfd)
    assert re.search(message, said), said
    assert len(said) < 600


@pytest.mark.parametrize("name", ["folder", "none.toml", "binary.toml", "deep.toml", "tables.toml", "\0", "x" * 5000])
def test_files_that_are_no_scenarios(here, capfd, name):
    said = refused(["simulate", name], capfd)
    assert name in ("\0", "tables.toml") or name[:50] in said, said  # the latter is TOML, of another table
    refused(["sweep", name, "--vary", "seed=1,2"], capfd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "seed=1:1e12:1000000000000"], "at most|<= 1,000,000"),
        (["--vary", "duration=0:inf:3"], "finite ends"),
        (["--vary", "duration=1:nan:3"], "finite ends"),
        (["--vary", f"seed=1:{HUGE}:3"], "finite ends"),
        (["--vary", f"seed={HUGE}"], "seed must be"),
        (["--vary", "seed=1:2:" + HUGE], "whole count"),
        (["--vary", "seed=1:1000:1000", "--vary", "duration=1:2:10000"], "at most 1,000,000 runs"),
        (["--vary", "links.-1.capacity=1e6"], "links"),
        (["--vary", "links.7.capacity=1e6"], "links"),
        (["--vary", f"links.{HUGE}.capacity=1e6"], "links"),
        (["--vary", "links.0.capacity.x=1e6"], "links"),
        (["--vary", "=1"], "PATH=VALUES"),
        (["--vary", "seed=1,2", "--link", "-1"], "link must be"),
        (["--vary", "seed=1,2", "--link", "3"], "link must be from 0 to 0, got 3"),
        (["--vary", "seed=1,2", "--flow", "-1", "--metric", "rate"], "flow must be"),
        (["--vary", "seed=1,2", "--metric", "none"], "metric"),
        (["--vary", "seed=1,2", "--metric", "settling_time"], "got 'settling_time', which takes after"),
        (["--vary", "seed=1,2", "--between", "5:1"], "between"),
        (["--vary", "seed=1,2", "--between", "nan:1"], "between"),
        (["--vary", "seed=1,2", "--between", "500:600"], r"between must hold samples .* up to 1 s, got 500:600 s$"),
        (["--vary", "seed=1,2", "--between", "0.55:0.58"], r"which end every 0.1 s up to 1 s, got 0.55:0.58 s$"),
        (["--vary", "duration=4,2", "--between", "3:4"], r"up to 2 s, got 3:4 s$"),
        (
            ["--vary", "duration=4,2", "--between", "1:4"],
            "between must be in 0:2 s, the run, got 1:4 s$",
        ),
        (["--vary", "seed=1,2", "--between=-1:1"], "between must be >= 0 s, got -1.0$"),
        (["--vary", "seed=1,2", "--between", "0:2furlongs"], "between must have one of the units s, sec, min, h"),
        (["--vary", "seed=1,2", "--flows", "0,x"], "flows must be indices, as 0,2,5-9, got '0,x'"),
        (["--vary", "seed=1,2", "--flows", "7"], "flows must be from 0 to 0, got 7"),
        (["--vary", "seed=1,2", "--jobs", "-3"], "jobs"),
        (["--vary", "seed=1,2", "--sample", "nan"], "sample must be"),
        (["--vary", "seed=1,2", "--out", "none/a.csv"], "out must be in a directory"),
    ],
)
def test_sweeps_that_cannot_be(here, capfd, arguments, message):
    said = refused(["sweep", "good.toml", *arguments], capfd)
    assert re.search(message, said), said


@pytest.mark.parametrize(
    "arguments",
    [
        ["stability", "piqi-rcp", "--set", "alpha=-1"],
        ["stability", "piqi-rcp", "--mean-rtt", "flows"],
        ["stability", "none", "--rtt", "0.1"],
        ["stability", "rcp", "--rtt", "nan"],
        ["stability", "rcp", "--rtt", HUGE],
        ["stability", "rcp", "--rtt", "-1"],
        ["stability", "rcp", "--rtt", "0.1", "--capacity", "inf"],
        ["stability", "rcp", "--rtt", "0.1", "--capacity", HUGE],
        ["stability", "rcp", "--rtt", "0.1", "--set", f"alpha={HUGE}"],
        ["stability", "rcp", "--rtt", "0.1", "--set", "alpha"],
        ["stability", "rcp", "--rtt", "0.1", "--set", "interval=3 parsecs"],
        ["stability", "rcp", "--rtt", "0.1", "--parameter", "none"],
        ["stability", "user_fails:A", "--rtt", "0.1"],
        ["stability", "user_leaves:A", "--rtt", "0.1"],
        ["claims", "none"],
        ["crosscheck", "none"],
        ["reproduce", "none"],
        ["crosscheck", "qi-7", "--out", "good.toml"],
        ["crosscheck", "qi-7", "--jobs", "-1"],
        ["reproduce", "qi-7", "--jobs", HUGE],
        ["simulate", "good.toml", "--sample", "inf"],
        ["simulate", "good.toml", "--sample", "1e400 s"],
        ["simulate", "good.toml", "--out", "run.txt"],
        ["simulate", "good.toml", "--checkpoint", "folder"],
        ["simulate", "good.toml", "--flows-to", "none/rows.parquet"],
        ["simulate", "good.toml", "--engine", "steam"],
        ["unknown"],
        ["--unknown"],
    ],
)
def test_options_that_cannot_be(here, capfd, arguments):
    refused(arguments, capfd)


def test_what_cannot_be_written_is_told_from_bad_input(here, capfd):
    assert main(["simulate", "good.toml", "--engine", "fluid", "--out", "folder.csv"]) == UNWRITTEN
    assert "folder.csv cannot be written" in capfd.readouterr().err


def test_an_error_in_the_protocol_of_the_user_is_placed(here, capfd):
    said = refused(["stability", "user_law_fails:Fails", "--rtt", "0.1"], capfd, FAILED)
    assert "IndexError in" in said and "user_law_fails.py, line 7" in said


@pytest.mark.parametrize("error", [OverflowError("int too large"), RecursionError("maximum recursion depth exceeded")])
def test_what_no_check_foresees_is_said_to_be_too_large_or_too_deep(error, here, capfd, monkeypatch):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("ecc.scenario.Scenario.from_toml", fails)
    said = refused(["simulate", "good.toml"], capfd)
    assert said == f"ecc: a number or table is too large or too deep: {error}"


WORDS = st.one_of(
    st.sampled_from(
        [
            "good.toml",
            "folder",
            "rcp",
            "qi-7",
            "--rtt",
            "--vary",
            "--out",
            "--jobs",
            "--link",
            "--json",
            "",
            "inf",
            "nan",
            "-1",
            HUGE,
            "seed=1,2",
            "=",
            ":",
            "\ud800",
            "--sample",
            "0 s",
            "alpha=nan",
        ]
    ),
    st.text(max_size=8),
)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(["simulate", "sweep", "stability", "claims"]), st.lists(WORDS, max_size=5))
def test_words_in_any_order(here, capfd, command, words):
    if command != "claims" and "good.toml" in words or "rcp" in words:
        words = [*words, "--unknown"]  # that would be work
    code = main([command, *words])
    err = capfd.readouterr().err
    assert code in (0, BAD_INPUT) and "Traceback" not in err
    assert code == 0 or (err.startswith("ecc: ") and err.count("\n") == 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["simulate", "deep.toml"], ["simulate", "binary.toml"], ["stability", "user_leaves:A"]]
)
def test_the_command_itself_ends_in_order(here, arguments):
    done = subprocess.run([sys.executable, "-m", "ecc.cli", *arguments], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == BAD_INPUT and done.stderr.startswith("ecc: ") and "Traceback" not in done.stderr
