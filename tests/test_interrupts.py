"""What is on disk is whole, whatever ends a command and whenever; and what was computed is printed."""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray as xr
from waiting import HANG, advancing, until, without_progress

import ecc
from ecc._support.files import replacing
from ecc._support.store import Store
from ecc.claims import ledger
from ecc.claims.report.output import Report, write_report
from ecc.cli import main, output
from ecc.packet import resume
from ecc.results.trajectory import Trajectory

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
    """The command line in a session of its own, whose processes can be found whoever their parent is by then."""
    command = [sys.executable, "-P", "-m", "ecc", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options
    )


def session(leader):
    """The states of the processes of a session, by number, and the CPU time that it has taken [s]."""
    states, ticks = {}, 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            about = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(about[3]) == leader:
            states[int(pid)] = about[0]
            ticks += sum(map(int, about[11:15]))  # its own, and of those it has waited for
    return states, ticks / os.sysconf("SC_CLK_TCK")


def of_session(leader):
    """The processes of a session that are left, but for those that only wait to be counted."""
    return [pid for pid, state in session(leader)[0].items() if state != "Z"]


def answers_signals(process):
    """Whether a process has come to where it says what it does on SIGTERM, or has ended."""
    try:
        caught = Path(f"/proc/{process.pid}/status").read_text().split("SigCgt:")[1].split()[0]
    except (OSError, IndexError):
        return True
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1) or process.poll() is not None


@pytest.mark.slow
def test_an_interrupted_sweep_says_so_at_once_and_keeps_what_is_done(scenario, tmp_path):
    store, out = tmp_path / "runs.sqlite", tmp_path / "table.nc"
    out.write_text("of a former sweep")
    durations = "duration=1,2,3,4,50000,50001"  # the last two take hours
    sweep = start(
        [
            "sweep",
            scenario(capacity="2 Gb/s"),
            "--vary",
            durations,
            "--metric",
            "utilization",
            "--jobs",
            "2",
            "--store",
            store,
            "--out",
            out,
        ]
    )
    until(lambda: store.exists() and len(Store(store)) == 4)
    os.killpg(sweep.pid, signal.SIGINT)  # a terminal sends it to all of them
    printed, said = sweep.communicate(timeout=HANG)
    said = without_progress(said)
    assert sweep.returncode == 130 and said.startswith("ecc: interrupted after 4 of 6 points")
    assert said.count("\n") == 1
    until(lambda: not of_session(sweep.pid))  # what counts its shared memory ends when it sees that it is gone
    assert out.read_text() == "of a former sweep" and "table.partial.nc" in printed
    table = xr.load_dataset(tmp_path / "table.partial.nc")
    assert table["utilization"].notnull().values.tolist() == [True] * 4 + [False] * 2
    assert "not run" not in printed and len(Store(store)) == 4  # what was not run has no row


@pytest.mark.slow
def test_sigterm_writes_the_checkpoint_that_was_asked_for(scenario, tmp_path):
    saved = tmp_path / "run.ckpt"
    with advancing(
        *("simulate", scenario("100000 s"), "--checkpoint", saved, "--sample", "10"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as behind a shell's `&`
    ) as run:
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=HANG)
    assert run.returncode == 130 and said.endswith(" of 100000 s: interrupted\n")
    assert resume(saved).now > 0.0


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


@pytest.mark.parametrize("interruptions", [1, 2])
@pytest.mark.parametrize(
    "command", ["simulate", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sweep", "crosscheck"))]
)
def test_ctrl_c_while_results_are_written_is_too_late_but_for_the_second(
    command, interruptions, scenario, tmp_path, monkeypatch, capsys
):
    def interrupted(write):
        def after(*arguments):
            for _ in range(interruptions):
                signal.raise_signal(signal.SIGTERM)
            return write(*arguments)

        return after

    out = tmp_path / "out.nc"
    if command == "crosscheck":
        arguments, out = ["src-2", "--jobs", "1", "--out", out], out / "results.json"
        monkeypatch.setattr("ecc.claims.report.output.write_report", interrupted(write_report))
    else:
        arguments = [scenario(), "--out", out]
        arguments += ["--vary", "seed=1,2", "--jobs", "1"] if command == "sweep" else []
        writers = output.TABLE_WRITERS if command == "sweep" else output.RUN_WRITERS
        monkeypatch.setitem(writers, ".nc", interrupted(writers[".nc"]))
    assert main([command, *map(str, arguments)]) == (0 if interruptions == 1 else 130)
    assert out.exists() is (interruptions == 1)
    printed, said = capsys.readouterr()
    assert "ecc: results are written first; a second Ctrl-C ends this" in said
    assert bool(printed) is (interruptions == 1) and said.endswith("ecc: interrupted\n") is (interruptions == 2)


def test_ctrl_c_is_answered_while_a_run_is_prepared_behind_a_shells_ampersand(scenario, monkeypatch):
    monkeypatch.setattr(ecc.Scenario, "from_toml", lambda path: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["simulate", scenario()]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


LIMITED = """
import resource, sys
from ecc.cli import main
from ecc.packet import resume
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""


def limited(size, *arguments, **options):
    command = [sys.executable, "-P", "-c", LIMITED, str(size), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.slow
def test_a_full_disk_costs_the_file_and_not_the_table(scenario, tmp_path):
    out = tmp_path / "run.html"
    out.write_text("before")
    done = limited(100_000, "simulate", scenario(), "--out", out)
    assert (done.returncode, out.read_text()) == (3, "before")
    assert done.stderr == f"ecc: {out} cannot be written: File too large\n" and "mean rate" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes(tmp_path):
    out, gone = tmp_path / "table.csv", subprocess.Popen(["true"])
    gone.wait()
    with replacing(out) as part:
        name = part.name
        for pid, there in ((gone.pid, False), (os.getppid(), True)):
            other = tmp_path / name.replace(f"-{os.getpid()}-", f"-{pid}-")
            other.write_text("half of it")
            with replacing(out) as second:
                second.write_text("whole")
            assert other.exists() is there and part.name == name
        part.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, "table.csv"])


@pytest.mark.slow
def test_a_report_does_not_depend_on_the_store(tmp_path):
    (tmp_path / "file").write_text("")
    environment = os.environ | {"ECC_CACHE_DIR": str(tmp_path / "file" / "cache")}
    done = limited(2**40, "reproduce", "hdr", "--quick", "--out", tmp_path / "r", "--jobs", "1", env=environment)
    assert done.returncode == 0, done.stderr
    assert without_progress(done.stderr).count("\n") == 2 and "ecc: results are not kept: " in done.stderr
    assert len(json.loads((tmp_path / "r" / "results.json").read_text())["findings"]) == 1


def test_standard_output_on_a_full_disk():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-c", "import sys; from ecc.cli import main; sys.exit(main())", "claims", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 3
    assert done.stderr == "ecc: standard output cannot be written: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_ctrl_c_during_the_imports_is_answered(share, scenario):
    process = start(["simulate", scenario("100000 s")])
    until(lambda: answers_signals(process))
    time.sleep(share)
    os.killpg(process.pid, signal.SIGINT)
    printed, said = process.communicate(timeout=HANG)
    assert process.returncode == 130
    said = without_progress(said)
    assert said == "ecc: interrupted\n" if not printed else said.endswith("of 100000 s: interrupted\n")


# ---- everything, at several moments each ----------------------------------------------------------------------------


CLAIMS = ["piqi-11", "piqi-w", "qi-6", "src-2"]
SMALL = {"duration": "5 s", "capacity": "10 Mb/s"}
PAGE = 4096  # bytes
SAID = re.compile(
    r"ecc: (interrupted(| after \d+ of \d+ (points; the same command resumes there"
    r"|claims(|; the same command resumes there)(|; results up to then:)))"
    r"|the run ended at .*: interrupted|results are written first; .*)"
)


class Case:
    """A command, what it makes when nothing disturbs it, and how to look at what is there when something did."""

    def __init__(self, command, home):
        self.home, self.place, self.temporary = home, home / "place", home / "tmp"
        self.temporary.mkdir()
        scenario, at = home / "scenario.toml", self.place
        size = {"duration": "20 s", "capacity": "200 Mb/s"} if command == "simulate" else SMALL
        scenario.write_text(SCENARIO.format(**size))
        self.arguments = {
            "simulate": [scenario, "--sample", "0.01", "--out", at / "run.nc", "--checkpoint", at / "run.ckpt"],
            "sweep": [
                scenario,
                "--vary",
                "seed=1:20:20",
                "--metric",
                "utilization",
                "--jobs",
                "2",
                "--store",
                at / "store.sqlite",
                "--out",
                at / "table.nc",
            ],
            "crosscheck": [*CLAIMS, "--out", at / "report", "--jobs", "1"],
            "reproduce": [*CLAIMS, "--out", at / "report", "--jobs", "2", "--store", at / "store.sqlite"],
        }[command]
        self.arguments.insert(0, command)
        self.environment = os.environ | {"TMPDIR": str(self.temporary)}
        self.place.mkdir()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = self.start()
        self.printed, said = whole.communicate(timeout=HANG)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_time = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert whole.returncode == 0 and "ecc:" not in without_progress(said)
        self.result = self.result_in(self.place)
        assert self.result
        self.pages = self.room(self.place)
        self.former = home / "former"
        self.former.mkdir()
        if (self.place / "report").exists():  # a report of a former run stays, and nothing else
            (self.place / "report").rename(self.former / "report")
        self.known = self.result_in(self.former)

    def begin(self):
        """Have nothing there but what was there before."""
        shutil.rmtree(self.place)
        shutil.copytree(self.former, self.place)

    @staticmethod
    def room(folder):
        """What the files take on a disk, in pages."""
        return sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*") if path.is_file())

    def start(self):
        return start(self.arguments, env=self.environment)

    @staticmethod
    def table(printed):
        """What is printed of the results, without the names of files."""
        return re.split("^(report|run|table): ", printed, maxsplit=1, flags=re.MULTILINE)[0].strip()

    def kept(self, place):
        """How many results the store has."""
        if not (place / "store.sqlite").exists():
            return 0
        store = Store(place / "store.sqlite")
        assert store.trouble is None
        return len(store)

    def result_in(self, place):
        """What the files hold that do not say that they are partial; all that can be seen can be read whole."""
        found = None
        for path in (path for path in place.rglob("*") if path.is_file() and not path.name.startswith(".")):
            if path.suffix == ".nc":
                data = xr.load_dataset(path)
                whole = "ecc_trajectory" not in data.attrs or Trajectory.load(path).stopped == "completed"
                if whole and "error" not in data:
                    found = {name: repr(data[name].values.tolist()) for name in data if data[name].dtype.kind == "f"}
            elif path.suffix == ".ckpt":
                assert resume(path).now >= 0.0
            elif path.suffix == ".html":
                assert path.read_text().rstrip().endswith("</html>")
            elif path.suffix == ".json":
                text = json.loads(path.read_text())
                assert text["partial"] is (path.parent.name == "partial")
                if not text["partial"]:
                    found = {one["claim"]["id"]: one["verdict"] for one in text["findings"]}
            else:
                assert path.suffix in (".md", ".sqlite") or path.name.endswith("-journal")
        return found


@pytest.fixture(
    scope="module",
    params=["simulate", "sweep", "crosscheck", pytest.param("reproduce", marks=pytest.mark.extensive)],  # as crosscheck
)
def whole(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def case(whole):
    whole.begin()
    return whole


SEVERAL = pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.extensive)])
"""Moments or sizes, one drawn in each of as many parts of the whole: each takes a process of seconds."""


@pytest.mark.slow
@SEVERAL
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_at_drawn_moments_nothing_finished_is_lost(number, count, case):
    draw, memory = random.Random(int(number)), set(os.listdir("/dev/shm"))
    for k in range(count):
        process = case.start()
        until(lambda process=process: answers_signals(process))
        work = case.cpu_time * (k + draw.random()) / count  # on a busy machine time says nothing of how far it is
        until(lambda work=work, leader=process.pid: session(leader)[1] >= work or not of_session(leader))
        before = case.kept(case.place)
        sent = time.monotonic()
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("ecc:"):
                print(f"{time.monotonic() - sent:.2f} s to {line.strip()}")
        process.communicate(timeout=HANG)
        said = without_progress(said)
        until(lambda leader=process.pid: not of_session(leader))
        assert case.kept(case.place) >= before
        found = case.result_in(case.place)
        assert found == case.result or found == case.known
        if number != signal.SIGKILL:
            assert not list(case.temporary.iterdir()) and not list(case.place.glob("**/.*"))
            assert process.returncode in (0, 130), said
            lines = [line for line in said.splitlines() if line.startswith("ecc:")]
            told = [
                line.split()[0]
                for line in said.splitlines()
                if line.strip()
                and line not in lines
                and not re.match(r"\d+ of \d+ (points|jobs) are in |removed: ", line)
            ]
            if process.returncode == 130:
                assert len(lines) == 1 and SAID.fullmatch(lines[0]), said
                assert not set(told) >= set(CLAIMS)  # once all are done it is too late
            assert set(told) <= set(CLAIMS), said
            if told and process.returncode == 130:  # what was called done is in the report
                report = json.loads((case.place / "report" / "partial" / "results.json").read_text())
                assert {one["claim"]["id"] for one in report["findings"]} >= set(told)
        if found is not None and case.known is None:  # it got to its end: once more from the beginning
            case.begin()
    left = set(os.listdir("/dev/shm")) - memory
    until(lambda: not left & set(os.listdir("/dev/shm")))  # what other tests have there goes with them
    last = case.start()
    last.communicate(timeout=HANG)
    assert last.returncode == 0 and case.result_in(case.place) == case.result
    assert not list(case.place.glob("**/.*"))  # nor what those that were killed had begun


FULL = """
set -e
mount -t tmpfs -o "size=$1" tmpfs "$2"
cp -a "$3/." "$2"
code=0
( shift 4; exec "$@" ) || code=$?
cp -a "$2/." "$4"
exit $code
"""


@pytest.mark.slow
@pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0, reason="may not mount anything"
)
@SEVERAL
def test_on_full_disks_nothing_is_cut_and_all_is_printed(count, case):
    draw, was_full = random.Random(4), set()
    for k in range(count):
        after = case.home / f"after-{k}"
        shutil.rmtree(after, ignore_errors=True)
        after.mkdir()
        # up to twice what it makes: every file is written beside the one that it replaces, a store beside its journal
        room = PAGE * (case.room(case.former) + 1 + round(2.2 * case.pages * (k + draw.random()) / count))
        command = ["unshare", "-rm", "sh", "-c", FULL, "sh", str(room), case.place, case.former, after]
        done = subprocess.run(
            [*command, sys.executable, "-P", "-m", "ecc", *map(str, case.arguments)],
            capture_output=True,
            text=True,
            env=case.environment,
        )
        assert done.returncode in (0, 3), done.stderr
        lines = [line for line in without_progress(done.stderr).splitlines() if line.startswith("ecc:")]
        assert "Traceback" not in done.stderr and bool(lines) >= (done.returncode == 3)
        assert all("No space left on device" in line or "database or disk is full" in line for line in lines), lines
        assert case.table(done.stdout) == case.table(case.printed)
        assert not list(case.temporary.iterdir()) and not list(after.glob("**/.*"))
        case.kept(after)
        assert case.result_in(after) in ((case.result, case.known) if done.returncode else (case.result,))
        was_full.add("No space left" in done.stderr or "is full" in done.stderr)
    assert was_full == {True, False}
