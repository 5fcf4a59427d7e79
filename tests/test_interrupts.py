"""What is on disk is whole, whatever ends a command and whenever; and what was computed is printed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray as xr

from ecc.claims import ledger
from ecc.claims.report import Report, write_report
from ecc.cli import main
from ecc.store import Store

SCENARIO = """
duration = "{duration}"
[protocol]
name = "QI-RCP"
[[links]]
capacity = "{capacity}"
delay = "25 ms"
[[flows]]
route = [0]
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and /proc")


@pytest.fixture
def scenario(tmp_path):
    def write(duration="1 s", capacity="10 Mb/s"):
        path = tmp_path / "scenario.toml"
        path.write_text(SCENARIO.format(duration=duration, capacity=capacity))
        return str(path)

    return write


def start(arguments, **options):
    """The command line in a process of its own, as a shell starts it in the foreground."""
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from ecc.cli import main; "
    command = [sys.executable, "-P", "-c", f"{code}sys.exit(main())", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def workers_of(pid):
    """Processes that descend from one."""
    found = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in found.splitlines()]
    return [child for child, parent in parents if parent == pid]


def until(condition, seconds=60.0):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds
        time.sleep(0.05)


SWEEP = ["--vary", "seed=1:200:200", "--measure", "utilization", "--jobs", "2"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_says_so_at_once_and_keeps_what_is_done(number, scenario, tmp_path):
    store, out = tmp_path / "runs.sqlite", tmp_path / "table.nc"
    sweep = start(["sweep", scenario("20 s"), *SWEEP, "--store", store, "--out", out])
    until(lambda: store.exists() and len(Store(store)) > 3)
    begin = time.monotonic()
    sweep.send_signal(number)
    said = sweep.stderr.readline()
    assert time.monotonic() - begin < 30.0  # far below a second on a quiet machine
    printed, rest = sweep.communicate(timeout=60)
    assert rest == ""
    assert sweep.returncode == 130 and "ecc: interrupted after" in said
    table = xr.load_dataset(out)
    done = int(table["utilization"].notnull().sum())
    assert 3 < done < 200 and f"interrupted after {done} of 200 points" in said
    assert "not run" in printed and len(Store(store)) >= done


def test_killed_it_leaves_no_workers_and_a_whole_store(scenario, tmp_path):
    store = tmp_path / "runs.sqlite"
    sweep = start(["sweep", scenario("20 s"), *SWEEP, "--store", store])
    until(lambda: store.exists() and len(Store(store)) > 1)
    workers = workers_of(sweep.pid)
    assert len(workers) >= 2
    sweep.kill()
    sweep.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 10.0)
    kept = Store(store)
    assert kept.trouble is None and len(kept) > 1


def test_sigterm_writes_the_checkpoint_that_was_asked_for(scenario, tmp_path):
    saved, rows = tmp_path / "run.ckpt", tmp_path / "rows.parquet"
    command = ["simulate", scenario("100000 s"), "--checkpoint", saved, "--flows-to", rows, "--sample", "10"]
    for ignored in (False, True):  # as behind a shell's `&`
        run = start(command, preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None)
        until(rows.exists)
        time.sleep(0.5)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
        assert run.returncode == 130 and said.rstrip().endswith("interrupted")
        saved.unlink()
        for file in tmp_path.glob("rows*"):
            file.unlink()


def finding():
    return ledger.Finding(ledger.claims()["qi-3"], ledger.Verdict.CONFIRMED, "it is")


def test_a_partial_report_stands_beside_a_whole_one(tmp_path, monkeypatch, capsys):
    write_report(Report([finding()]), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    from ecc.claims import crosscheck

    monkeypatch.setattr(crosscheck, "examine", lambda *_: crosscheck.Outcome([], {}, interrupted=True))
    assert main(["crosscheck", "qi-3", "--out", str(tmp_path)]) == 130
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert json.loads((tmp_path / "partial" / "results.json").read_text())["partial"] is True
    assert str(tmp_path / "partial" / "report.html") in capsys.readouterr().out


LIMITED = """
import resource, sys
from ecc.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""


def limited(size, *arguments, **options):
    command = [sys.executable, "-P", "-c", LIMITED, str(size), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_a_full_disk_costs_the_file_and_not_the_table(scenario, tmp_path):
    out = tmp_path / "run.html"
    out.write_text("before")
    done = limited(100_000, "simulate", scenario(), "--out", out)
    assert (done.returncode, out.read_text()) == (3, "before")
    assert done.stderr == f"ecc: {out} cannot be written: File too large\n" and "mean rate" in done.stdout
    out = tmp_path / "table.csv"
    done = limited(10, "sweep", scenario(), "--vary", "seed=1,2", "--out", out, "--store", tmp_path / "runs.sqlite")
    assert done.returncode == 3 and f"{out} cannot be written: File too large" in done.stderr
    assert "results are not kept" in done.stderr and "utilization" in done.stdout and not out.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_report_does_not_depend_on_the_store(tmp_path):
    (tmp_path / "file").write_text("")
    environment = os.environ | {"ECC_CACHE_DIR": str(tmp_path / "file" / "cache")}
    done = limited(2**40, "reproduce", "hdr", "--quick", "--out", tmp_path / "r", "--jobs", "1", env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 2 and "ecc: results are not kept: " in done.stderr
    assert len(json.loads((tmp_path / "r" / "results.json").read_text())["findings"]) == 1
    done = limited(200_000, "reproduce", "hdr", "--out", tmp_path / "r", "--jobs", "1", env=environment)
    assert done.returncode == 3 and "report.html cannot be written: File too large" in done.stderr
    assert "hdr" in done.stdout and "plotly.js" in (tmp_path / "r" / "report.html").read_text()[:5_000_000]


def test_standard_output_on_a_full_disk():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-c", "import sys; from ecc.cli import main; sys.exit(main())", "claims", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "ecc: standard output cannot be written: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["simulate", "sweep", "crosscheck", "reproduce"])
def test_at_drawn_moments_nothing_finished_is_lost(command, number, scenario, tmp_path):
    """Ten moments each: afterwards no process is left, and every file can be read."""
    draw, toml = random.Random(f"{command} {number}"), scenario("20 s", "50 Mb/s")
    store, report = tmp_path / "store.sqlite", tmp_path / "report"
    out, saved = tmp_path / f"{command}.nc", tmp_path / "run.ckpt"
    arguments = {
        "simulate": ["simulate", toml, "--out", out, "--checkpoint", saved],
        "sweep": ["sweep", toml, *SWEEP, "--store", store, "--out", out],
        "crosscheck": ["crosscheck", "jm-3", "avq-1", "--out", report],
        "reproduce": ["reproduce", "jm-3", "avq-1", "--out", report, "--store", store],
    }[command]
    write_report(Report([finding()]), report)
    before, most = (report / "results.json").read_bytes(), 0
    for _ in range(10):
        process = start(arguments)
        time.sleep(draw.uniform(0.2, 4.0))
        workers = workers_of(process.pid)
        process.send_signal(number)
        process.communicate(timeout=60)
        until(lambda pids=workers: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10.0)
        if store.exists():
            kept = Store(store)
            assert kept.trouble is None and len(kept) >= most
            most = len(kept)
        assert not list(tmp_path.glob("*.damaged-*"))
        if out.exists():
            assert xr.load_dataset(out).sizes
        if process.returncode != 0:
            assert (report / "results.json").read_bytes() == before
        before = (report / "results.json").read_bytes()
        assert json.loads(before)["partial"] is False
