"""A real scheduler and real workers, as processes here: what is lost there is done again, and nothing is kept twice."""

import gc
import importlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from dask_processes import Forking, Processes, is_there, kill
from waiting import HANG, until

import ecc
from ecc._support.store import Store
from ecc._support.workers import WorkerDied, WorkersLost, in_workers
from ecc.batch import cluster as clusters
from ecc.batch.cluster import Cluster
from ecc.batch.sweeps import SweepError, sweep
from ecc.cli import main
from ecc.cli.work import started_workers

# Warnings of distributed's own: about what it imports and about the cores that others have.
pytestmark = [pytest.mark.filterwarnings("ignore:::distributed"), pytest.mark.filterwarnings("ignore:::dask")]

CALLS = """
import os
import signal
import time
from pathlib import Path

import numbers_of_mine


def noted(folder, x):
    Path(folder, f"{x}-{os.getpid()}").touch()
    time.sleep(0.1)
    return numbers_of_mine.FACTOR * x


def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


def task(x):
    from distributed import get_worker

    return hash(get_worker().get_current_task()) % 2**40


def process(x):
    time.sleep(0.05)
    return os.getpid()
"""


@pytest.fixture(scope="module")
def forking():
    found = Forking()
    yield found
    found.end()


@pytest.fixture
def processes(tmp_path, forking, monkeypatch):
    monkeypatch.setattr(clusters, "_ANSWER", HANG)
    folder = tmp_path / "cluster"
    folder.mkdir()
    found = Processes(folder, forking)
    yield found
    found.end()


@pytest.fixture
def calls(tmp_path, monkeypatch):
    names = {"calls_on_a_cluster": CALLS, "numbers_of_mine": "FACTOR = 3\n"}
    for name, text in names.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("calls_on_a_cluster")
    for name in names:
        del sys.modules[name]


class Noted:
    """A function of x that notes each call in a folder."""

    def __init__(self, function, folder):
        self.function, self.folder = function, str(folder)
        folder.mkdir()

    def __call__(self, x):
        return self.function(self.folder, x)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    command = r"pip install 'congestion-control\[cluster\]'"
    with pytest.raises(WorkersLost, match=rf"a cluster needs the package cloudpickle, .*: {command}"):
        Cluster("tcp://127.0.0.1:1")
    with (
        pytest.raises(ValueError, match="--jobs must not be given with --cluster"),
        started_workers(2, "tcp://127.0.0.1:1"),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{free}", "nothing://127.0.0.1:1", "tcp://127.0.0.1:x", ""])
def test_an_address_without_a_scheduler_is_one_line(address, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(clusters, "_ANSWER", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens
        address = address.format(free=free.getsockname()[1])
        assert main(["crosscheck", "qi-7", "--cluster", address, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ecc: no scheduler answers at {address}: ") and said.count("\n") == 1


@pytest.mark.slow
def test_an_address_where_nothing_listens_is_refused_at_once(capfd):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        began = time.monotonic()
        with pytest.raises(WorkersLost, match=r"^no scheduler answers at tcp://.*: ConnectionRefusedError: "):
            Cluster(f"tcp://127.0.0.1:{free.getsockname()[1]}")
    gc.collect()
    assert time.monotonic() < began + clusters._ANSWER and capfd.readouterr().err == ""


@pytest.mark.slow
def test_an_address_where_something_else_answers_is_one_line(monkeypatch):
    monkeypatch.setattr(clusters, "_ANSWER", 1.0)

    def answer():
        while True:
            try:
                connection, _ = other.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)

    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(WorkersLost, match=f"^no scheduler answers at {address}: .*$"):
            Cluster(address)
        other.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_neither_a_killed_worker_nor_a_new_scheduler_loses_a_point(processes, calls, tmp_path):
    processes.start_workers(2)
    marks, told = tmp_path / "marks", []
    function = Noted(calls.noted, marks)
    shares = []

    def progress(share):
        shares.append(share)
        if len(shares) == 10:
            kill(processes.workers[0])
        elif len(shares) == 20:
            kill(processes.scheduler)

    def notice(line):
        told.append(line)
        if "is lost" in line:
            processes.start_scheduler()
            processes.start_workers(2)

    with Cluster(processes.address, HANG, notice) as cluster:
        found = sweep(function, {"x": list(range(60))}, cluster, tmp_path / "store.sqlite", progress)
    assert found["value"].to_numpy().tolist() == [3.0 * x for x in range(60)]
    assert len(shares) == 60 and shares == sorted(set(shares))  # each point once
    assert len(Store(tmp_path / "store.sqlite")) == 60
    assert any("is lost" in line for line in told) and any("is back" in line for line in told)
    assert not is_there(processes.workers[0])
    before = len(list(marks.iterdir()))
    again = sweep(function, {"x": list(range(60))}, store=tmp_path / "store.sqlite")
    assert again.identical(found) and len(list(marks.iterdir())) == before


@pytest.mark.slow
def test_a_scheduler_that_stays_away_leaves_what_was_done(processes, calls, tmp_path):
    processes.start_workers(1)
    shares = []

    def progress(share):
        shares.append(share)
        kill(processes.scheduler)

    function = Noted(calls.noted, tmp_path / "marks")
    with Cluster(processes.address, patience=1.0) as cluster, pytest.raises(SweepError) as caught:
        sweep(function, {"x": list(range(1, 400))}, cluster, progress=progress)
    assert "was lost, and not back within 1 s" in str(caught.value) and "of 399 points" in str(caught.value)
    assert 1 <= caught.value.dataset["value"].notnull().sum() == len(shares) < 399


@pytest.mark.slow
def test_short_calls_go_together_and_one_that_kills_fails_alone(processes, calls, monkeypatch):
    monkeypatch.setattr(clusters, "_TASK", HANG)  # as many calls as workers leave, however long they take
    processes.start_workers(1)
    with Cluster(processes.address) as cluster:
        found = [result for _, result, _ in in_workers([(calls.task, (x,), {}) for x in range(400)], cluster)]
        assert len(found) == 400 and len(set(found)) < 20
        processes.start_workers(4)  # one dies of the first batch, three of the call
        work = [(calls.die, (0,), {}), *[(calls.task, (x,), {}) for x in range(3)], (calls.task, (), {})]
        ends = {index: (result, error) for index, result, error in in_workers(work, cluster)}
    assert isinstance(ends[0][1], WorkerDied) and isinstance(ends[4][1], TypeError)
    assert all(ends[k][1] is None for k in (1, 2, 3))


@pytest.mark.slow
def test_calls_that_wait_beside_one_that_kills_are_made(processes, calls):
    """With one worker at a time each death is one of all that wait there too, and Dask counts four against each."""
    processes.start_workers(1)
    with Cluster(processes.address) as cluster:
        futures = [cluster.submit(calls.die, k) for k in range(2)] + [cluster.submit(calls.task, 0)]

        def all_done():
            if not is_there(processes.workers[-1]):
                processes.start_workers(1)
            return all(future.done() for future in futures)

        until(all_done)
    assert [str(future.exception()) for future in futures[:2]] == ["the worker that made this call died, 3 times"] * 2
    assert isinstance(futures[2].result(), int)


@pytest.mark.slow
def test_the_loop_of_clients_is_given_the_time_that_it_takes(processes, monkeypatch):
    import distributed

    def late(*_, **__):
        raise AssertionError("Dask gives its own 10 s")

    monkeypatch.setattr(distributed.utils.LoopRunner, "_real_stop", late)
    monkeypatch.setattr(distributed.utils, "_CollectErrorThread", late)
    processes.start_workers(1)
    with Cluster(processes.address) as cluster:
        assert cluster.submit(pow, 2, 3).result() == 8


@pytest.mark.slow
@pytest.mark.parametrize("joins", ["before", "later"])
def test_a_worker_with_other_code_is_refused_by_name(processes, tmp_path, capsys, joins):
    other = tmp_path / "other"
    shutil.copytree(Path(ecc.__file__).parent, other / "ecc", ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "ecc" / "errors.py").open("a") as file:
        file.write("# another\n")
    line = r"worker tcp://127\.0\.0\.1:\d+ runs ecc 0.*\(code (\w+), .*\), this process ecc 0.*\(code (\w+), .*\)"
    line += ": install the same wheel on both"
    if joins == "before":
        processes.start_other_worker(other)
        assert main(["crosscheck", "mm-1", "--cluster", processes.address, "--out", str(tmp_path / "out")]) == 2
        assert re.fullmatch(f"ecc: {line}\n", capsys.readouterr().err)
        return
    told = []
    with Cluster(processes.address, notice=told.append) as cluster:
        processes.start_other_worker(other)
        with pytest.raises(SweepError, match=f"ended after 0 of 2 points: {line}"):
            sweep(abs, {"x": [1, 2]}, cluster)
        with pytest.raises(WorkersLost):
            cluster.submit(abs, 1)
    assert told == [f"the scheduler at {processes.address} has no worker yet: the work begins when one joins"]


@pytest.mark.slow
def test_a_worker_has_one_thread(processes):
    processes.start_workers(1, threads=2)
    with pytest.raises(WorkersLost, match=r"workers must have one thread each .*, tcp://127.0.0.1:\d+ has 2"):
        Cluster(processes.address)


OWN = """
from dataclasses import dataclass

from gains_of_mine import RATE
from ecc.models import ConstantRate


@dataclass(frozen=True)
class Mine(ConstantRate):
    rate: float = RATE
"""
SCENARIO = """
duration = 1.0
[protocol]
name = "mine.py:Mine"
[[links]]
capacity = "5 Mb/s"
delay = "5 ms"
[[flows]]
route = [0]
"""


@pytest.mark.slow
def test_protocols_of_ones_own_go_along_as_they_are_now(processes, tmp_path, monkeypatch, capsys):
    processes.start_workers(1)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def swept(*options):
        for name in ("mine", "gains_of_mine"):  # as in a process of its own
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        assert main(["sweep", "scenario.toml", "--vary", "flows.0.access_delay=0.01,0.02", "--json", *options]) == 0
        return capsys.readouterr().out

    found = []
    for rate in (1e6, 20e6):  # texts of different lengths: the bytecode of the first does not stand for the second
        (tmp_path / "gains_of_mine.py").write_text(f"RATE = {rate}\n")
        found.append(swept("--cluster", processes.address))
    assert found[0] != found[1] == swept("--jobs", "1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("crosscheck", "mm-1"), ("reproduce", "mm-1"), ("conform", "cubic", "--case", "cubic-window")]
)
def test_commands_of_claims_and_cases_do_their_work_on_a_cluster(processes, tmp_path, capsys, command, monkeypatch):
    processes.start_workers(1)
    monkeypatch.setattr(clusters.Cluster, "submit", counted := Counted(Cluster.submit))
    store = () if command[0] == "crosscheck" else ("--store", str(tmp_path / "store.sqlite"))  # nothing is there yet
    options = ("--cluster", processes.address, "--out", str(tmp_path / "out"), "--json", *store)
    assert main([*command, *options]) == 0
    assert '"confirmed"' in capsys.readouterr().out and counted.calls


class Counted:
    """A method that counts its calls."""

    def __init__(self, method):
        self.method, self.calls = method, 0

    def __get__(self, owner, kind):
        def counting(*arguments, **keywords):
            self.calls += 1
            return self.method(owner, *arguments, **keywords)

        return counting


def command_line(*words, **options):
    command = [sys.executable, "-P", "-m", "ecc", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


INTERRUPTED = {
    "sweep": (
        "scenario.toml",
        "--vary",
        "duration=1,2,50000,50001",
        "--metric",
        "utilization",
        "--store",
        "store.sqlite",
    ),
    "reproduce": ("mm-1", "bbr-share", "--store", "store.sqlite"),
    "conform": ("bbr", "--store", "store.sqlite"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", INTERRUPTED)
def test_an_interruption_keeps_what_is_done_in_one_line(processes, calls, tmp_path, command):
    processes.start_workers(2)
    (tmp_path / "scenario.toml").write_text(SCENARIO.replace("mine.py:Mine", "PIQI-RCP"))
    out = "table.csv" if command == "sweep" else "out"
    run = command_line(command, *INTERRUPTED[command], "--cluster", processes.address, "--out", out, cwd=tmp_path)
    store = tmp_path / "store.sqlite"
    if command == "sweep":
        until(lambda: store.exists() and len(Store(store)) == 2)  # the others take hours
    else:
        assert re.match(r"\S+ +(confirmed|not comparable|deviating)", run.stderr.readline())
    run.send_signal(signal.SIGINT)
    printed, said = run.communicate(timeout=HANG)
    assert run.returncode == 130
    (line,) = [one for one in said.splitlines() if "interrupted" in one]
    match = re.match(r"ecc: interrupted after (\d+) of (\d+) (points|claims|cases)", line)
    assert match and 1 <= int(match[1]) < int(match[2])
    assert "Traceback" not in said and ("table.partial.csv" in printed or "results.json" in said + printed)
    if command == "reproduce":  # of which `crosscheck` is the same code
        return  # one that is inside compiled code ends that first
    with Cluster(processes.address) as cluster:  # each worker makes calls: it is in no other

        def all_answer():
            made = [cluster.submit(calls.process, k) for k in range(8)]
            return {one.result(HANG) for one in made} == set(processes.workers)

        until(all_answer)


@pytest.mark.slow
def test_two_sweeps_share_a_store_and_one_that_is_killed_loses_nothing(processes, tmp_path, capsys, monkeypatch):
    processes.start_workers(2)
    (tmp_path / "scenario.toml").write_text(SCENARIO.replace("mine.py:Mine", "PIQI-RCP"))
    monkeypatch.chdir(tmp_path)
    many = ("sweep", "scenario.toml", "--vary", "seed=1:40:40", "--metric", "utilization")
    kept = (*many, "--store", "store.sqlite", "--cluster", processes.address)
    one, other = (command_line(*kept, "--out", f"{name}.csv") for name in ("one", "other"))
    until(lambda: Path("store.sqlite").exists() and len(Store("store.sqlite")))
    one.kill()
    one.communicate()
    assert other.wait(HANG) == 0
    other.communicate()
    held = len(Store("store.sqlite"))
    assert main([*kept, "--out", "again.csv"]) == 0
    assert "40 of 40 points are in store.sqlite, nothing left to do" in capsys.readouterr().err
    assert len(Store("store.sqlite")) == held  # and no point is there twice
    assert main([*many, "--cluster", processes.address, "--out", "whole.csv"]) == 0
    assert Path("other.csv").read_text() == Path("again.csv").read_text() == Path("whole.csv").read_text()
