"""However a live run ends, its namespaces and processes are gone; by Ctrl-C and SIGTERM it also says what it had."""

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys

import pytest
from pcapng_blocks import blocks
from waiting import until

from ecc.packet.pcapng import ETHERNET

pytestmark = pytest.mark.usefixtures("namespaces")

SCENARIO = """
duration = "3000 s"
[protocol]
name = "QI-RCP"
[[links]]
capacity = "1 Mb/s"
delay = "25 ms"
[[flows]]
route = [0]
"""
HOLDING = """
import socket, sys, time
from ecc.live.namespaces import ends_of_links
one, other = ends_of_links([(0, 1)], 1500)[0]
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"x"], [other.fileno()])
time.sleep(3600)
"""


@pytest.fixture
def running(tmp_path):
    """The command line in a session of its own, in the midst of a live run."""
    scenario, wire = tmp_path / "scenario.toml", tmp_path / "wire.pcapng"
    scenario.write_text(SCENARIO)
    command = [sys.executable, "-P", "-m", "ecc", "simulate", str(scenario), "--engine", "live", "--json"]
    with subprocess.Popen(
        [*command, "--capture", str(wire)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            until(lambda: run.poll() is not None or (wire.exists() and wire.stat().st_size > 20_000))
            assert run.poll() is None, run.communicate()
            yield run, wire
        finally:
            run.kill()


def is_empty(group):
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_a_run_gets_what_it_had(running, number):
    run, wire = running
    run.send_signal(number)
    said, complained = run.communicate()
    assert run.returncode == 130 and "the run ended at" in complained
    summary = json.loads(said)
    assert summary["engine"] == "live" and summary["stopped"] == "interrupted" and summary["simulated"] > 0.0
    assert is_empty(run.pid)
    found = blocks(wire)
    frames = [body for kind, body in found if kind == 6]
    assert {struct.unpack_from("<H", body)[0] for kind, body in found if kind == 1} == {ETHERNET}
    assert len(frames) == summary["stats"]["frames_sent"] - summary["stats"]["frames_lost"]
    assert {body[20 + 12 : 20 + 14] for body in frames} == {b"\x08\x00"} and {body[20 + 23] for body in frames} == {253}


@pytest.mark.slow
def test_a_killed_run_leaves_no_process(running):
    run, _ = running
    run.kill()
    run.communicate()
    until(lambda: is_empty(run.pid))


def test_namespaces_of_a_killed_process_are_gone():
    """Who holds one end of a link sees the other end vanish with its namespace."""
    ours, its = socket.socketpair()
    with (
        ours,
        subprocess.Popen([sys.executable, "-P", "-c", HOLDING, str(its.fileno())], pass_fds=[its.fileno()]) as run,
    ):
        its.close()
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        run.kill()
        run.wait()
        with socket.socket(fileno=fds[0]) as end:
            until(lambda: end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ENETDOWN)
