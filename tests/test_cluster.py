"""A real scheduler and real workers, as processes here: what is lost there is done again, and nothing is kept twice."""

import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG, until

import ecc
from ecc import cluster as clusters
from ecc.cli import main
from ecc.cluster import Cluster
from ecc.store import Store
from ecc.sweeps import SweepError, sweep
from ecc.workers import WorkerDied, WorkersLost, in_workers

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

    time.sleep(0.001)
    return hash(get_worker().get_current_task()) % 2**40


def slow(folder, x):
    Path(folder, f"{x}").touch()
    time.sleep(0.5)
    return x
"""


class Processes:
    """A scheduler at a port of its own, and workers."""

    def __init__(self, folder):
        self.folder, self.workers = folder, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.start_scheduler()

    def start_scheduler(self):
        where = ("--host", "127.0.0.1", "--port", str(self.port))
        self.scheduler = self._started("scheduler", *where, "--no-dashboard")

    def start_workers(self, count=1, threads=1, **environment):
        options = ("--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder))
        for _ in range(count):
            self.workers.append(self._started("worker", self.address, *options, **environment))

    def _started(self, kind, *arguments, **environment):
        with (self.folder / f"{kind}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", f"distributed.cli.dask_{kind}", *arguments],
                stdout=log, stderr=log, cwd=self.folder, env=os.environ | environment,
            )  # fmt: skip

    def until_there(self, count):
        until(lambda: len(self.connected()) >= count)

    def connected(self):
        import distributed

        with distributed.Client(self.address, timeout=HANG, set_as_default=False) as client:
            return client.nthreads()

    def end(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    found = Processes(folder)
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


def test_without_the_package_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(WorkersLost, match=r"a cluster needs the package cloudpickle, .*: pip install 'ecc\[cluster\]'"):
        Cluster("tcp://127.0.0.1:1")
    assert main(["crosscheck", "qi-7", "--jobs", "2", "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "--jobs must not be given with --cluster" in capsys.readouterr().err


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
def test_neither_a_killed_worker_nor_a_new_scheduler_loses_a_point(processes, calls, tmp_path):
    processes.start_workers(2)
    processes.until_there(2)
    marks, told = tmp_path / "marks", []
    function = Noted(calls.noted, marks)
    shares = []

    def progress(share):
        shares.append(share)
        if len(shares) == 10:
            processes.workers[0].kill()
        elif len(shares) == 20:
            processes.scheduler.kill()
            processes.scheduler.wait()
            processes.start_scheduler()
            processes.start_workers(2)

    with Cluster(processes.address, notice=told.append) as cluster:
        found = sweep(function, {"x": list(range(60))}, cluster, tmp_path / "store.sqlite", progress)
    assert found["value"].to_numpy().tolist() == [3.0 * x for x in range(60)]
    assert len(shares) == 60 and shares == sorted(set(shares))  # each point once
    assert len(Store(tmp_path / "store.sqlite")) == 60
    assert any("is lost" in line for line in told) and any("is back" in line for line in told)
    before = len(list(marks.iterdir()))
    again = sweep(function, {"x": list(range(60))}, store=tmp_path / "store.sqlite")
    assert again.identical(found) and len(list(marks.iterdir())) == before


@pytest.mark.slow
def test_a_scheduler_that_stays_away_leaves_what_was_done(processes, calls, tmp_path):
    processes.start_workers(1)
    shares = []

    def progress(share):
        shares.append(share)
        processes.scheduler.kill()

    function = Noted(calls.noted, tmp_path / "marks")
    with Cluster(processes.address, patience=1.0) as cluster, pytest.raises(SweepError) as caught:
        sweep(function, {"x": list(range(1, 400))}, cluster, progress=progress)
    assert "was lost, and not back within 1 s" in str(caught.value) and "of 399 points" in str(caught.value)
    assert 1 <= caught.value.dataset["value"].notnull().sum() == len(shares) < 399


@pytest.mark.slow
def test_short_calls_go_together_and_one_that_kills_fails_alone(processes, calls):
    processes.start_workers(1)
    with Cluster(processes.address) as cluster:
        found = [result for _, result, _ in in_workers([(calls.task, (x,), {}) for x in range(400)], cluster)]
        assert len(found) == 400 and len(set(found)) < 20
        processes.start_workers(5)  # of which four die
        work = [(calls.die, (0,), {}), *[(calls.task, (x,), {}) for x in range(3)], (calls.task, (), {})]
        ends = {index: (result, error) for index, result, error in in_workers(work, cluster)}
    assert isinstance(ends[0][1], WorkerDied) and isinstance(ends[4][1], TypeError)
    assert all(ends[k][1] is None for k in (1, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("joins", ["before", "later"])
def test_a_worker_with_other_code_is_refused_by_name(processes, calls, tmp_path, joins):
    other = tmp_path / "other"
    shutil.copytree(Path(ecc.__file__).parent, other / "ecc", ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "ecc" / "errors.py").open("a") as file:
        file.write("# another\n")
    line = r"worker tcp://127\.0\.0\.1:\d+ runs ecc 0.*\(code (\w+), .*\), this process ecc 0.*\(code (\w+), .*\)"
    if joins == "before":
        processes.start_workers(1, PYTHONPATH=str(other))
        processes.until_there(1)
        with pytest.raises(WorkersLost, match=line):
            Cluster(processes.address)
        return
    told = []
    with Cluster(processes.address, notice=told.append) as cluster:
        processes.start_workers(1, PYTHONPATH=str(other))
        with pytest.raises(SweepError, match=f"ended after 0 of 2 points: {line}"):
            sweep(abs, {"x": [1, 2]}, cluster)
        with pytest.raises(WorkersLost):
            cluster.submit(abs, 1)
    assert told == [f"the scheduler at {processes.address} has no worker yet: the work begins when one comes"]


@pytest.mark.slow
def test_a_worker_has_one_thread(processes):
    processes.start_workers(1, threads=2)
    processes.until_there(1)
    with pytest.raises(WorkersLost, match=r"workers must have one thread each .*, tcp://127.0.0.1:\d+ has 2"):
        Cluster(processes.address)


OWN = """
from dataclasses import dataclass

from gains_of_mine import GAIN
from ecc.models import PIQIRCP


@dataclass(frozen=True)
class Mine(PIQIRCP):
    alpha: float = GAIN
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


def swept(folder, *options):
    command = [sys.executable, "-P", "-m", "ecc", "sweep", "scenario.toml", "--vary", "flows.0.access_delay=0.01,0.02"]
    done = subprocess.run([*command, "--json", *options], cwd=folder, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_protocols_of_ones_own_go_along_as_they_are_now(processes, tmp_path):
    processes.start_workers(1)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    (tmp_path / "mine.py").write_text(OWN)
    found = []
    for gain in (0.2, 0.9):
        (tmp_path / "gains_of_mine.py").write_text(f"GAIN = {gain}\n")
        found.append(swept(tmp_path, "--cluster", processes.address))
    assert found[0] != found[1] == swept(tmp_path, "--jobs", "1")


@pytest.mark.slow
def test_claims_are_checked_on_a_cluster(processes, tmp_path, capsys):
    processes.start_workers(1)
    assert main(["crosscheck", "mm-1", "--cluster", processes.address, "--out", str(tmp_path / "out"), "--json"]) == 0
    assert '"confirmed"' in capsys.readouterr().out


PARENT = """
import sys
from calls_on_a_cluster import slow
from functools import partial
from ecc.cluster import Cluster
from ecc.sweeps import SweepInterrupted, sweep

with Cluster(sys.argv[1]) as cluster:
    try:
        sweep(partial(slow, sys.argv[2]), {"x": list(range(1000))}, cluster, sys.argv[3])
    except SweepInterrupted as error:
        print(error)
"""


@pytest.mark.slow
def test_an_interruption_ends_the_work_on_the_cluster(processes, calls, tmp_path):
    processes.start_workers(1)
    marks, store = tmp_path / "marks", tmp_path / "store.sqlite"
    marks.mkdir()
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py", processes.address, marks, store], stdout=subprocess.PIPE, text=True
    )
    until(lambda: len(list(marks.iterdir())) >= 3)
    parent.send_signal(signal.SIGINT)
    said, _ = parent.communicate(timeout=HANG)
    assert said.startswith("interrupted after ") and parent.returncode == 0
    import distributed

    with distributed.Client(processes.address, set_as_default=False) as client:
        until(lambda: not any(client.processing().values()))
        begun = len(list(marks.iterdir()))
        until(lambda: len(list(marks.iterdir())) == begun)
    assert begun < 40
    assert 1 <= len(Store(store)) <= begun + 1  # and what the function is
