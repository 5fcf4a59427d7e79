"""What live runs are not made for is refused in one line, before anything is made."""

import errno
import os
import sys
from dataclasses import replace

import pytest

import ecc.live
from ecc.errors import EccError
from ecc.live import namespaces, simulation
from ecc.live.engine import Measured
from ecc.models import QIRCP
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

NETWORK = Network.dumbbell("1 Mb/s", rtts=[0.05])
linux = pytest.mark.skipif(sys.platform != "linux", reason="live runs are refused for this alone")


@linux
@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"slow": 0.0}, r"^slow must be > 0 and finite, got 0$"),
        ({"slow": float("inf")}, r"^slow must be "),
        ({"clock": "fast"}, r"^clock must be one of 'steady', 'real', got 'fast'$"),
        ({"lateness": 0.0}, r"^lateness must be > 0 s, got 0 s$"),
        ({"attempts": 0}, r"^attempts must be >= 1, got 0$"),
        ({"capture": "run.parquet"}, r"^capture must be a \.pcapng file, got 'run\.parquet'$"),
        ({"sample": 2.0}, r"^sample must be "),
        ({"record": ["link.nothing"]}, r"^record must name a field of a link"),
    ],
)
def test_bad_options(options, refused):
    with pytest.raises(ValueError, match=refused):
        ecc.live.simulate(Scenario(NETWORK, QIRCP(), duration=0.5), **options)


@linux
def test_no_workload():
    workload = Workload([], [Arrivals([0], 0.1, 5_000)])
    with pytest.raises(ValueError, match=r"^a live run must have no workload: its flows are those of the network$"):
        ecc.live.simulate(Scenario(NETWORK, QIRCP(), duration=0.5, workload=workload))


def test_other_systems(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(simulation, "lib", object())
    with pytest.raises(EccError, match=r"^live runs need the network namespaces of Linux, got darwin$"):
        ecc.live.simulate(Scenario(NETWORK, QIRCP(), duration=0.5))
    with pytest.raises(EccError, match=r"^live runs need the network namespaces of Linux, got darwin$"):
        namespaces.ends_of_links([(0, 1)], 1500)


def test_a_limit_of_namespaces_is_not_a_full_disk():
    reason = namespaces.reason_of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "unshare"))
    assert reason.startswith("the limit on namespaces is reached: raise user.max_net_namespaces")
    assert namespaces.reason_of(OSError(errno.EPERM, "Operation not permitted", "unshare")).endswith("(unshare)")


MEASURED = Measured(8.0, 0.0, 0.051, {"p50": 0.0, "p99": 0.0, "p999": 0.048, "max": 0.05}, 1000, 0, 0, 0)


@linux
@pytest.mark.parametrize(
    ("policy", "stall", "runtime", "names_it"),
    [
        (os.SCHED_RR, 0.051, "950000", True),
        (os.SCHED_FIFO, 0.051, "-1", True),
        (os.SCHED_RR, 0.005, "950000", False),
        (os.SCHED_OTHER, 0.051, "950000", False),
    ],
)
def test_a_void_run_names_the_limit_of_real_time_threads(policy, stall, runtime, names_it, monkeypatch, tmp_path):
    (tmp_path / "sched_rt_period_us").write_text("1000000\n")
    (tmp_path / "sched_rt_runtime_us").write_text(runtime + "\n")
    monkeypatch.setattr(simulation, "_SCHEDULER", tmp_path)
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: policy)
    why = simulation._void(replace(MEASURED, longest_stall=stall), 0.02, 0.0, (0.0, -1))
    assert why.startswith("one packet in a thousand was later than 0.048 s, the limit is 0.02 s")
    assert ("the longest stall was 51 ms: the kernel stops a real-time thread" in why) == names_it


@linux
def test_forbidden_namespaces(monkeypatch, tmp_path):
    """A child that may not make any says why; here, since a sitecustomize of ours lets unshare fail."""
    (tmp_path / "sitecustomize.py").write_text(
        "import ecc.live.namespaces as n, os, errno\n"
        "def refuse(name, *arguments):\n"
        "    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)\n"
        "n.call = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EccError, match=r"^live runs need network namespaces, as root or in user namespaces: Operation"):
        namespaces.ends_of_links([(0, 1)], 1500)
