"""Hooks that never return: on the command line Ctrl-C ends the process, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from waiting import HANG, advancing, without_progress

from ecc.native import inside
from ecc.native.stuck import GRACE_PERIOD, ending_stuck_hooks

PROTOCOL = """
from dataclasses import dataclass
from ecc.models import QIRCP

def forever(flow, header, p, env):
    while env.rate >= 0.0:
        env.rate = env.rate + 1.0 if env.rate < 1e6 else 1.0

def slowly(flow, header, p, env):
    rate = 1.0
    while rate < 3e7:
        rate += 1.0
    env.rate = rate - 29e6

@dataclass(frozen=True)
class Stuck(QIRCP):
    def flow_hooks(self):
        return {**super().flow_hooks(), "on_ack": forever}

@dataclass(frozen=True)
class Slow(QIRCP):
    def flow_hooks(self):
        return {**super().flow_hooks(), "on_ack": slowly}
"""
SCENARIO = """
duration = "1000 s"
[protocol]
name = "stuck_protocol:{name}"
[[links]]
capacity = "10 Mb/s"
delay = "25 ms"
[[flows]]
route = [0]
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals")


def start(name: str, inside: float, directory: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    (directory / "stuck_protocol.py").write_text(PROTOCOL)
    (directory / "scenario.toml").write_text(SCENARIO.format(name=name))
    given = {**os.environ, "PYTHONPATH": str(directory)}
    return advancing("simulate", "scenario.toml", inside=inside, cwd=directory, env=given)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_a_hook_that_never_returns_ends_with_the_process(number: signal.Signals, tmp_path: Path) -> None:
    with start("Stuck", 0.5, tmp_path) as run:
        begin = time.monotonic()
        run.send_signal(number)
        printed, said = run.communicate(timeout=HANG)
    assert time.monotonic() - begin > 0.9 * (GRACE_PERIOD - 0.5)
    assert (run.returncode, printed) == (130, "")
    assert without_progress(said) == "ecc: a hook has not returned for 3 s: the process ends without a result\n"


@pytest.mark.slow
def test_hooks_that_take_their_time_are_interrupted_as_any(tmp_path: Path) -> None:
    with start("Slow", 0.05, tmp_path) as run:
        run.send_signal(signal.SIGINT)
        printed, said = run.communicate(timeout=HANG)
    has_ended_before_its_first_sample = "the run ended at 0 of 1000 s" in said  # on a busy machine
    assert run.returncode == 130 and ("flow" in printed) is not has_ended_before_its_first_sample
    assert said.endswith("interrupted\n") and "has not returned" not in said


def test_nothing_is_left_of_the_watch() -> None:
    before = threading.active_count()
    with ending_stuck_hooks(130):
        assert threading.active_count() == before + 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
            time.sleep(10.0)
    assert threading.active_count() == before and signal.set_wakeup_fd(-1) == -1
    assert inside(threading.get_ident()) == (None, 0.0)
    thread = threading.Thread(target=lambda: ending_stuck_hooks(130).__enter__())
    thread.start()
    thread.join()
    assert signal.set_wakeup_fd(-1) == -1
