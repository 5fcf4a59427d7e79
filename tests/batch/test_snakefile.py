"""A sweep as a Snakefile: its commands, run as Snakemake would run them, make the table of the whole sweep."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

from ecc.batch.snakefile import files_of, snakefile
from ecc.cli import main
from ecc.cli.sweep import part_of_sweep

SCENARIO = """
duration = 1.0
[protocol]
name = "PIQI-RCP"
[[links]]
capacity = "5 Mb/s"
delay = "5 ms"
[[flows]]
route = [0]
access_delay = "5 ms"
"""


class File(str):
    """A path, which `{:q}` puts into quotes."""

    def __format__(self, how):
        return shlex.quote(self) if how == "q" else str(self)


class Touched(str):
    """A file that Snakemake makes when a rule has ended."""


def read(text):
    """Rules of a Snakefile, name -> section -> value: of Snakemake's language what the file uses of it."""
    head, *rules = re.split(r"^rule (\w+):$", text, flags=re.MULTILINE)
    scope = {"touch": Touched, "expand": lambda pattern, part: [pattern.format(part=one) for one in part]}
    exec(head, scope)
    found = {}
    for name, body in zip(rules[::2], rules[1::2], strict=True):
        sections = re.findall(r"^    (\w+):\s*(.*?),?$", body, flags=re.MULTILINE)
        assert [section for section, _ in sections] == re.findall(r"^    (\w+):", body, flags=re.MULTILINE)
        found[name] = {key: eval(f"dict({value})" if key == "params" else value, scope) for key, value in sections}
    return found


def run(command, folder):
    command = re.sub(r"^ecc ", f"{sys.executable} -P -m ecc ", command)
    subprocess.run(["sh", "-e", "-c", command], cwd=folder, check=True, timeout=HANG, capture_output=True)


@pytest.mark.slow
def test_its_parts_and_their_merge_are_the_sweep(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a scenario.toml").write_text(SCENARIO)
    command = ["sweep", "a scenario.toml", "--vary", "protocol.alpha=0.1,0.2,0.3", "--metric", "utilization"]
    command += ["--sample", "0.05", "--between", "0.2:1"]
    assert main([*command, "--snakefile", "runs of mine.smk", "--parts", "2", "--out", "the table.csv"]) == 0
    assert "3 runs in 2 parts" in capsys.readouterr().out
    rules = read(Path("runs of mine.smk").read_text())
    part, table = rules["part"], rules["table"]
    assert part["input"] == ["a scenario.toml"] and table["output"] == "the table.csv"
    done = [part["output"].format(part=k) for k in (1, 2)]
    assert table["input"] == done and isinstance(part["output"], Touched)
    for k in (1, 2):
        log = part["log"].format(part=k)
        Path(log).parent.mkdir(exist_ok=True)
        wildcards = type("Wildcards", (), {"part": k})
        run(part["shell"].format(wildcards=wildcards, threads=1, log=File(log)), tmp_path)
    params = type("Params", (), table["params"])
    run(table["shell"].format(params=params), tmp_path)
    assert main([*command, "--jobs", "1", "--out", "whole.csv"]) == 0
    assert Path("the table.csv").read_text() == Path("whole.csv").read_text()
    capsys.readouterr()
    assert main([*command, "--store", "runs of mine.parts/all.sqlite"]) == 0
    assert "3 of 3 points are in" in capsys.readouterr().err


def test_braces_stand_for_themselves_in_commands_and_are_refused_in_names():
    text = snakefile(Path("a.smk"), ["ecc", "sweep", "--vary", "x={1}"], ["s.toml"], "t.csv", 2, 1)
    assert read(text)["part"]["shell"].startswith(
        "ecc sweep --vary 'x={{1}}' --part {wildcards.part}/1 --store a.parts/"
    )
    with pytest.raises(ValueError, match="must have no braces in their names, got '{t}.csv'"):
        snakefile(Path("a.smk"), ["ecc"], ["s.toml"], "{t}.csv", 2, 1)


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/3", "-1/2", "x/y"])
def test_a_part_is_one_of_those_there(part):
    with pytest.raises(ValueError, match=r"--part must be K/N, 1 <= K <= N <= 2 \(points of the grid\), got "):
        part_of_sweep(part, 2)
    assert part_of_sweep("2/2", 2) == (2, 2)


def test_the_files_that_runs_read_are_inputs():
    tables = {
        "protocol": {"flows": {"0": {"name": "mine.py:Mine"}, "default": {"name": "build/theirs.so"}}},
        "workload": {"tmix": [{"vectors": "a.tmix"}, {"vectors": "SEQ 1\n"}]},
        "impairments": [{"name": "DeliveryTrace", "file": "walk.up"}],
    }
    axes = {"impairments.0.file": ["ride.up"], "protocol.name": ["RCP", "other.py:Other"], "seed": [1, 2]}
    assert files_of(tables, axes) == [
        "a.tmix",
        "walk.up",
        "ride.up",
        "mine.py",
        "build/theirs.so",
        "other.py",
    ]
