"""Worker processes: none outlives its parent, and none takes others with it."""

import importlib
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest
from waiting import HANG, until

from ecc._support.workers import WorkerDied, _next, in_workers

CALLS = """
import os
import signal
from pathlib import Path


def double(x):
    return 2 * x


def die_once(folder, x):
    mark = Path(folder) / str(x)
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def die(x):
    os._exit(3)


def fail(x):
    raise {1: ValueError("no"), 2: SystemExit("bye"), 3: EOFError("end"), 4: KeyboardInterrupt()}[x]


def strange(x):
    class Local(Exception):
        pass

    if x == 1:
        raise Local("of its own")
    return lambda: x


SEEN = []


def remember(x):
    SEEN.append(x)
    return tuple(SEEN)


def threads():
    import numpy as np

    np.ones((300, 300)) @ np.ones((300, 300))
    return len(os.listdir("/proc/self/task"))
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    (tmp_path / "calls_of_workers.py").write_text(CALLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("calls_of_workers")
    del sys.modules["calls_of_workers"]


def made(calls, jobs=2, groups=()):
    results = {index: (result, error) for index, result, error in in_workers(calls, jobs, groups)}
    assert sorted(results) == list(range(len(calls)))
    return [results[k] for k in range(len(calls))]


def test_results_and_errors_come_back_by_index(calls):
    work = [(calls.double, (k,), {}) for k in range(5)] + [(calls.fail, (k,), {}) for k in (1, 2, 3, 4)]
    work += [(calls.strange, (k,), {}) for k in (1, 2)] + [
        (calls.double, (lambda: 0,), {}),
        (calls.double, (), {"x": 4}),
    ]
    found = made(work)
    assert [result for result, _ in found[:5]] == [0, 2, 4, 6, 8] and found[-1] == (8, None)
    assert [type(error) for _, error in found[5:9]] == [ValueError, SystemExit, EOFError, KeyboardInterrupt]
    assert "calls_of_workers.py" in str(found[5][1].__cause__)
    assert (
        "of its own" in str(found[9][1]) and "local object" in str(found[10][1]) and "local object" in str(found[11][1])
    )
    assert made([]) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_leaves_the_cores_to_the_others(calls, monkeypatch):
    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.delenv(f"{library}_NUM_THREADS", raising=False)
    assert made([(calls.threads, (), {})]) == [(1, None)]


def test_a_killed_worker_costs_its_call_one_more_try(calls, tmp_path):
    work = [(calls.die_once, (str(tmp_path), k), {}) for k in range(2)]
    found = made([*work, (calls.die, (0,), {}), *[(calls.double, (1,), {})] * 3])
    assert [result for result, _ in found] == [0, 1, None, 2, 2, 2]
    assert isinstance(found[2][1], WorkerDied)
    assert str(found[2][1]) == "its process ended, 2 times: exit code 3"


PARENT = """
import os, sys, time
from ecc._support.workers import in_workers

def call(k):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    end = time.monotonic() + 1000.0  # long after whoever waits for the end of this has given up
    while time.monotonic() < end:
        pass

if __name__ == "__main__":
    for _ in in_workers([(call, (k,), {}) for k in range(2)], 2):
        pass
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_parent(number, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen([sys.executable, "-P", tmp_path / "parent.py", marks], stderr=subprocess.DEVNULL)
    until(lambda: len(list(marks.iterdir())) == 2)
    pids = [int(mark.name) for mark in marks.iterdir()]
    assert all(map(alive, pids))
    parent.send_signal(number)
    parent.wait(HANG)
    until(lambda: not any(map(alive, pids)))


def test_calls_of_a_group_go_to_the_worker_that_began_it(calls):
    groups = ["a", "b", "", "a", "b", "", "a", "b"]
    work = [(calls.remember, (k,), {}) for k in range(len(groups))]
    alone = [result for result, _ in made(work, 1, groups)]
    assert max(alone, key=len) == (0, 3, 6, 1, 4, 7, 2, 5)
    waiting = deque(range(2, 8))
    assert [_next(waiting, groups, own, other) for own, other in (({"a"}, {"b"}), ({"b"}, {"a"}), ({"a"}, {"b"}))] == [
        3,
        4,
        6,
    ]
    assert [_next(waiting, groups, {"a"}, {"b"}) for _ in range(3)] == [2, 5, 7]  # another's when nothing else is left
    assert not waiting
