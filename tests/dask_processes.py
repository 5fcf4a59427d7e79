"""A Dask scheduler and its workers as processes of their own, which a process that has imported all forks off."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from waiting import until

FORKING = """
import ctypes, json, os, signal, sys
import distributed.cli.dask_scheduler, distributed.cli.dask_worker
import ecc.batch.cluster, ecc.packet, ecc.batch.sweeps

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    kind, folder, arguments = json.loads(line)
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with this process
        os.chdir(folder)
        log = os.open(f"{kind}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(log, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        getattr(distributed.cli, f"dask_{kind}").main(arguments)
    print(pid, flush=True)
"""


class Forking:
    """What starts schedulers and workers, as `dask scheduler` and `dask worker` do, without their imports."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, kind, folder, arguments):
        self.process.stdin.write(json.dumps([kind, str(folder), arguments]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill(pid):
    """Kill a process, if it is there, and wait for its end."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not is_there(pid))


class Processes:
    """A scheduler at a port of its own, and workers, whose pids these are."""

    def __init__(self, folder, forking):
        self.folder, self.forking, self.workers = Path(folder), forking, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.start_scheduler()

    def start_scheduler(self):
        """Start a scheduler and wait until it listens, as a `Cluster` is refused at once where nothing does."""
        before = self._listening()
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self.forking.start("scheduler", self.folder, where)
        until(lambda: self._listening() > before)

    def start_workers(self, count=1, threads=1):
        """Start workers and wait until the scheduler knows them."""
        before = self._registered()
        options = ["--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder)]
        for _ in range(count):
            self.workers.append(self.forking.start("worker", self.folder, [self.address, *options]))
        until(lambda: self._registered() >= before + count)

    def start_other_worker(self, path):
        """Start a worker whose packages are first looked for in a folder."""
        before = self._registered()
        command = [sys.executable, "-P", "-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1"]
        command += ["--no-nanny", "--no-dashboard", "--local-directory", str(self.folder)]
        with (self.folder / "worker.log").open("ab") as log:
            self.other = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": str(path)})
        until(lambda: self._registered() > before)

    def _registered(self):
        return self._logged("worker", "Registered to:")

    def _listening(self):
        return self._logged("scheduler", "Scheduler at:")

    def _logged(self, kind, text):
        log = self.folder / f"{kind}.log"
        return log.read_text().count(text) if log.exists() else 0

    def end(self):
        for pid in (*self.workers, self.scheduler):
            kill(pid)
        if hasattr(self, "other"):
            self.other.kill()
            self.other.wait()
