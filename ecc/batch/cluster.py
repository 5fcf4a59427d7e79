"""A Dask cluster as an executor: workers make the calls, many short ones as one task; this process collects results.

It requires `distributed`, which is in the optional dependencies `congestion-control[cluster]`.
"""

from __future__ import annotations

import ast
import asyncio
import ctypes
import hashlib
import logging
import pickle
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, invalidate_caches
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any
from uuid import uuid4

from ecc import __version__
from ecc._support.digests import digest, is_installed, package_digest, surroundings
from ecc._support.workers import Call, WorkerDied, WorkersLost, answer, outcome
from ecc.errors import install_command

__all__ = ["Cluster"]

_TASK = 2.0  # target duration of a task [s]: a thousand times the cost of sending one
_LONGEST = 5.0  # time [s] after which a task makes no further call and returns the rest
_ANSWER = 10.0  # timeout [s] for the answer of a scheduler
_LISTENS = 3.0  # timeout [s] for a TCP connection
_REPLY = 10.0  # timeout [s] for a result that exists; after it, the call is made again
_POLL = 0.5  # polling period [s] for changes without a callback: workers that join or leave, a returned scheduler
_TRIES = 3  # number of workers that die of a call on its own before it fails


class Cluster(Executor):
    """Executor that makes calls on the workers of a Dask scheduler.

    Calls are sent in batches of some seconds, estimated from the duration of earlier calls. If a worker is lost or the
    scheduler restarts, unfinished calls are sent again. A worker has one thread and the same code as this process,
    which is checked before it makes a call; the current sources of user-defined modules are sent along.

    Parameters
    ----------
    address : str
        Address of the scheduler, for example "tcp://10.0.0.1:8786".
    patience : float, s, optional
        Maximum time to wait for a scheduler that is lost.
    notice : callable, optional
        Called with a line of text if the scheduler is lost or back, or has no worker.

    Raises
    ------
    WorkersLost
        `distributed` is not installed, no scheduler answers, or a worker has different code.

    Examples
    --------
    >>> with Cluster("tcp://10.0.0.1:8786") as cluster:  # doctest: +SKIP
    ...     ecc.sweep(function, {"alpha": [0.2, 0.4]}, cluster)
    """

    def __init__(self, address: str, patience: float = 60.0, notice: Callable[[str], None] | None = None) -> None:
        try:
            cloudpickle, distributed = import_module("cloudpickle"), import_module("distributed")
        except ImportError as error:
            message = f"a cluster needs the package {error.name}, which is not installed: {install_command('cluster')}"
            raise WorkersLost(message) from None
        self._distributed: Any = distributed
        self._pickle: Callable[[Any], bytes] = cloudpickle.dumps
        self._address, self._patience, self._notice = address, patience, notice or (lambda line: None)
        self._waiting: deque[_Task] = deque()
        self._sent: list[_Batch] = []
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closing = False
        self._error: WorkersLost | None = None
        self._seconds = 0.0  # mean duration of a call; 0: unknown
        self._sources: dict[str, str] = {}  # sources of user-defined modules when the work began
        self._polled_at = 0.0
        self._max_workers = 0
        self._client = self._connected(_ANSWER)
        try:
            self._check_workers()
        except BaseException:
            self._disconnect()
            raise
        self._thread = threading.Thread(target=self._run, name="ecc-cluster", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Submit a call and return the future of its result.

        Parameters
        ----------
        function, *arguments, **keywords : object
            Any objects that cloudpickle can pickle.

        Raises
        ------
        WorkersLost
            The cluster was lost.
        RuntimeError
            If called after `shutdown`.
        """
        task = _Task((function, arguments, keywords), Future())
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._closing:
                raise RuntimeError("calls must not be submitted after shutdown")
            self._waiting.append(task)
        task.future.add_done_callback(lambda future: self._changed.set())  # also if it is cancelled
        self._changed.set()
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and close the connection after all submitted calls have ended.

        Parameters
        ----------
        wait : bool, optional
            Return only after that.
        cancel_futures : bool, optional
            Cancel the calls that have not ended.
        """
        with self._lock:
            self._closing = True
            unfinished = [*self._waiting, *(task for batch in self._sent for task in batch.tasks)]
        if cancel_futures:
            for task in unfinished:
                task.future.cancel()
        self._changed.set()
        if wait:
            self._thread.join()

    # ---- the thread that sends and receives --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not (self._closing and not self._waiting and not self._sent):
                self._changed.wait(_POLL)
                self._changed.clear()
                self._receive()
                if self._client.status != "running" and not self._closing:
                    self._reconnect()
                self._count_workers()
                self._send()
        except Exception as error:
            lost = error if isinstance(error, WorkersLost) else WorkersLost(f"{self._named}: {_text(error)}")
            with self._lock:
                self._error = lost
                unfinished = [*self._waiting, *(task for batch in self._sent for task in batch.tasks)]
            for task in unfinished:
                task.end(None, lost)
        finally:
            self._disconnect()

    @property
    def _named(self) -> str:
        return f"the scheduler at {self._address}"

    def _receive(self) -> None:
        """Process finished batches; calls of lost ones are put back at the head of the queue."""
        for batch in list(self._sent):
            status = batch.remote.status
            if status == "pending":
                if not all(task.future.cancelled() for task in batch.tasks):
                    continue
                with suppress(Exception):
                    batch.remote.cancel()
                unfinished: list[_Task] = []
            elif status == "finished":
                unfinished = self._results(batch)
            elif status == "lost":  # lost with its worker, which another call has killed
                unfinished = self._to_retry(batch)
            elif status == "error":
                unfinished = self._failed(batch, batch.remote.exception())
            else:  # cancelled, but not by this process: its scheduler is gone
                unfinished = batch.tasks
            with self._lock:
                self._sent.remove(batch)
                self._waiting.extendleft(reversed(unfinished))

    def _results(self, batch: _Batch) -> list[_Task]:
        """Set the results of a batch; return the calls that were not made."""
        try:
            reply = batch.remote.result(timeout=_REPLY)
        except Exception:  # the worker or the scheduler is lost with the result
            return self._to_retry(batch)
        if isinstance(reply, str):
            raise WorkersLost(reply)
        seconds, answers = reply
        if answers:
            taken = seconds / len(answers)
            self._seconds = 0.5 * (self._seconds or taken) + 0.5 * taken
        else:  # a worker died of one of the calls
            batch.part()
        for task, data in zip(batch.tasks, answers, strict=False):
            task.end(*outcome(data))
        return batch.tasks[len(answers) :]

    def _failed(self, batch: _Batch, error: BaseException) -> list[_Task]:
        """Return the calls of a task that Dask gave up: it blames a death on all tasks of the worker."""
        if not isinstance(error, self._distributed.scheduler.KilledWorker):
            raise WorkersLost(f"workers of {self._named} cannot make a call: {_text(error)}")
        return self._to_retry(batch)

    def _to_retry(self, batch: _Batch) -> list[_Task]:
        """Count the workers that died of a batch, and return the calls to send again."""
        try:
            asked = {"keys": [batch.remote.key], "default": 0, "callback_timeout": _REPLY}
            deaths = self._client.sync(self._client.scheduler.get_metadata, **asked)
        except Exception:  # the scheduler is lost
            return batch.tasks
        if len(batch.tasks) > 1:
            if deaths:
                batch.part()
            return batch.tasks
        (task,) = batch.tasks
        task.deaths += deaths
        if task.deaths < _TRIES:
            return [task]
        task.end(None, _died(task.deaths))
        return []

    def _count_workers(self) -> None:
        """Update the number of workers periodically."""
        if monotonic() < self._polled_at + _POLL or self._client.status != "running":
            return
        before = self._max_workers
        with suppress(OSError, self._distributed.TimeoutError):
            self._max_workers = len(self._client.nthreads())
        self._polled_at = monotonic()
        if before and not self._max_workers and (self._waiting or self._sent):
            self._notice(f"{self._named} has no worker: the work continues when one joins")

    def _send(self) -> None:
        """Keep two batches per worker at the scheduler: the current and the next one."""
        if not self._waiting and not self._sent:
            self._seconds = 0.0  # the next calls may be of another kind
            self._sources.clear()
        while len(self._sent) < 2 * max(1, self._max_workers) and self._client.status == "running":
            tasks = self._next()
            if not tasks:
                return
            try:
                calls = self._pickle([task.call for task in tasks])
            except Exception as error:
                if len(tasks) == 1:
                    tasks[0].end(None, error)
                else:
                    _Batch(tasks, None).part()
                    with self._lock:
                        self._waiting.extendleft(reversed(tasks))
                continue
            try:
                remote = self._client.submit(_make_calls, calls, self._extras(calls), tasks[0].deaths, pure=False)
            except Exception:  # the connection was lost at this moment
                with self._lock:
                    self._waiting.extendleft(reversed(tasks))
                return
            with self._lock:
                self._sent.append(_Batch(tasks, remote))
            remote.add_done_callback(lambda remote: self._changed.set())

    def _next(self) -> list[_Task]:
        """Take the calls of one task: some seconds of work, and fewer at the end, so that all workers are busy."""
        with self._lock:
            share = -(-len(self._waiting) // (2 * max(1, self._max_workers)))
            limit = min(share, int(_TASK / self._seconds)) if self._seconds else 1
            tasks: list[_Task] = []
            while self._waiting and len(tasks) < max(1, limit):
                if self._waiting[0].future.cancelled():
                    self._waiting.popleft().end(None, None)
                elif self._waiting[0].alone and tasks:
                    break
                else:
                    tasks.append(self._waiting.popleft())
                    if tasks[-1].alone:
                        break
            return tasks

    def _extras(self, calls: bytes) -> _Extras:
        """Return the code that a worker needs to make some calls as this process would."""
        return _Extras(_code_identity(), _PROCESS, dict(_modules(calls, self._sources)), dict(_libraries(calls)))

    # ---- the scheduler -----------------------------------------------------------------------------------------------

    def _connected(self, timeout: float) -> Any:
        try:
            self._probe(timeout)
            return self._distributed.Client(self._address, _loop(), timeout, set_as_default=False)
        except Exception as error:  # any exception: another program may answer at the address
            cause = _text(error) if str(error) else f"nothing within {timeout:g} s"
            raise WorkersLost(f"no scheduler answers at {self._address}: {cause}") from None

    def _probe(self, timeout: float) -> None:
        """Open a connection and close it, as a client without one retries for a long time and prints when deleted.

        A plain TCP connection, without retries, first tells if anything listens.
        """
        comm = self._distributed.comm
        host, port = comm.get_address_host_port(self._address)
        if self._address.startswith(("tcp://", "tls://")):
            socket.create_connection((host, port), min(timeout, _LISTENS)).close()
        arguments = self._distributed.Security().get_connection_args("client")

        async def connect() -> None:
            await (await comm.connect(self._address, timeout=timeout, **arguments)).close()

        bounded = asyncio.wait_for(connect(), timeout)
        asyncio.run_coroutine_threadsafe(bounded, _loop().asyncio_loop).result(timeout + _LISTENS)

    def _disconnect(self) -> None:
        log = logging.getLogger("distributed.client")  # it logs a traceback for each unclean end
        level = log.level
        log.setLevel(logging.CRITICAL)
        try:
            with suppress(Exception):
                self._client.close(timeout=2.0)
        finally:
            log.setLevel(level)

    def _reconnect(self) -> None:
        """Wait for a lost scheduler, and connect to it again."""
        self._notice(f"{self._named} is lost: waiting up to {self._patience:g} s for it")
        until = monotonic() + self._patience
        self._disconnect()
        self._receive()  # its calls are queued again
        while not self._closing:
            try:
                self._client = self._connected(min(_ANSWER, self._patience))
                self._notice(f"{self._named} is back: lost calls are made again")
                self._changed.set()
                return
            except WorkersLost:
                if monotonic() > until:
                    raise WorkersLost(f"{self._named} was lost, and not back within {self._patience:g} s") from None
                threading.Event().wait(_POLL)

    def _check_workers(self) -> None:
        """Refuse workers with several threads, or with code that differs from that of this process."""
        threads = self._client.nthreads()
        self._max_workers = len(threads)
        for worker, count in sorted(threads.items()):
            if count != 1:
                raise WorkersLost(f"workers must have one thread each (dask worker --nthreads 1), {worker} has {count}")
        if not threads:
            self._notice(f"{self._named} has no worker yet: the work begins when one joins")
            return
        for worker, about in sorted(self._client.run(_code_identity, on_error="return").items()):
            if isinstance(about, BaseException):
                raise WorkersLost(f"worker {worker} cannot run ecc {__version__}: {_text(about)}")
            if about != _code_identity():
                raise WorkersLost(_differs(worker, about, _code_identity()))


@dataclass(eq=False)
class _Task:
    """A call with the future of its result.

    `alone`: it is sent in a batch without other calls; `deaths`: number of workers that died of such a batch.
    """

    call: Call
    future: Future[Any]
    alone: bool = False
    deaths: int = 0

    def end(self, result: Any, error: BaseException | None) -> None:
        if self.future.done() or not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


@dataclass(eq=False)
class _Batch:
    tasks: list[_Task]
    remote: Any  # Dask's future

    def part(self) -> None:
        """Send each of its calls alone from now on."""
        for task in self.tasks:
            task.alone = True


@cache
def _loop() -> Any:
    """Return the event loop of all clients of this process, in a separate thread.

    The loop of Dask gives up if it does not start within 10 s, which happens on a busy machine.
    """
    loop: Future[Any] = Future()

    async def run() -> None:
        loop.set_result(import_module("tornado.ioloop").IOLoop.current())
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), name="ecc-cluster-loop", daemon=True).start()
    return loop.result()


def _text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


# ---- code for workers ----------------------------------------------------------------------------------------------

_PROCESS = uuid4().hex


@dataclass
class _Extras:
    """Description of the sender's code (`about`), and user-defined modules and shared objects."""

    about: str
    process: str
    modules: dict[str, tuple[str, str]]
    """Name -> (file relative to a folder on sys.path, source)."""
    libraries: dict[str, str]
    """Path -> digest of its content."""


@cache
def _code_identity() -> str:
    """Return a line that identifies the code that this process runs."""
    python, minor, *versions = surroundings().split(" ", 2)
    return f"ecc {__version__} (code {package_digest()[:12]}, Python {python}.{minor}, {' '.join(versions)})"


def _differs(worker: str, worker_code: str, own_code: str) -> str:
    return f"worker {worker} runs {worker_code}, this process {own_code}: install the same wheel on both"


def _modules(calls: bytes, sources: dict[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the user-defined modules that pickled calls name, and those that these import."""
    users = _users_modules()
    todo, seen = [name for name in users if name.encode() in calls], set[str]()
    while todo:
        name = todo.pop()
        if name in seen or name not in users:
            continue
        seen.add(name)
        path = users[name]
        if name not in sources:
            sources[name] = path.read_text(encoding="utf-8")
        parts = [*name.split("."), "__init__"] if path.name == "__init__.py" else name.split(".")
        yield name, ("/".join(parts) + ".py", sources[name])
        todo += _imported(sources[name], ".".join(parts[:-1]))
        todo.append(name.rpartition(".")[0])


def _users_modules() -> dict[str, Path]:
    """Return the modules that are neither installed nor of `ecc`, by name, without packages with compiled modules."""
    modules = {
        name: Path(file)
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and (file := getattr(module, "__file__", None))
        and name not in ("__main__", "__mp_main__")
        and name.partition(".")[0] != "ecc"
        and not is_installed(name)
    }
    compiled = {name.partition(".")[0] for name, path in modules.items() if path.suffix != ".py"}
    return {name: path for name, path in modules.items() if name.partition(".")[0] not in compiled}


def _imported(source: str, package: str) -> Iterator[str]:
    """Yield the names of modules that a source may import, and of the objects that it imports from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _libraries(calls: bytes) -> Iterator[tuple[str, str]]:
    """Yield path and digest of the shared objects with controllers that pickled calls name."""
    module = sys.modules.get("ecc.models.controller")
    for kind in () if module is None else module.Controller.__subclasses__():
        if kind.library and kind.library.encode() in calls:
            yield kind.library, kind.code


# ---- in a worker ---------------------------------------------------------------------------------------------------


def _make_calls(calls: bytes, extras: _Extras, deaths: int) -> tuple[float, list[bytes]] | str:
    """Make calls until the time is up; return their duration [s] and answers, or the reason why no call is made.

    If a worker has died of several calls, no call is made, as each is to be made alone. A call alone is not made if
    `_TRIES` workers have died of it.
    """
    worker = import_module("distributed").get_worker()
    if _code_identity() != extras.about:
        return _differs(worker.address, _code_identity(), extras.about)
    if worker.state.nthreads != 1:
        threads = worker.state.nthreads
        return f"workers must have one thread each (dask worker --nthreads 1), {worker.address} has {threads}"
    for library, code in extras.libraries.items():
        if not _is_same(library, code):
            return f"worker {worker.address} must have the same file at {library} as this process: its path is absolute"
    if extras.process != _PROCESS:
        _install_modules(extras.modules, worker.local_directory)
    with suppress(KeyboardInterrupt), _counted_start(worker) as before, _while_wanted(worker) as unwanted:
        if deaths + before >= _TRIES:
            return 0.0, [pickle.dumps((None, _died(deaths + before), ""))]
        answers: list[bytes] = []
        begin = monotonic()
        todo = pickle.loads(calls)
        if before and len(todo) > 1:
            return 0.0, answers
        for function, arguments, keywords in todo:
            answers.append(answer(function, arguments, keywords))
            if unwanted.is_set() or monotonic() > begin + _LONGEST:
                break
        return monotonic() - begin, answers
    return 0.0, []  # no process waits for it


@contextmanager
def _counted_start(worker: Any) -> Iterator[int]:
    """Count the unfinished starts of a task at the scheduler, and yield their number before: workers died of it.

    A worker has one thread, so it dies of the task that it has begun, not of waiting or finished tasks, which are only
    lost with it. Metadata under the key of a task are deleted with the task.
    """
    keys, sync = [worker.get_current_task()], import_module("distributed.utils").sync
    before: int = sync(worker.loop, worker.scheduler.get_metadata, keys=keys, default=0)
    sync(worker.loop, worker.scheduler.set_metadata, keys=keys, value=before + 1)
    try:
        yield before
    finally:
        sync(worker.loop, worker.scheduler.set_metadata, keys=keys, value=before)


@contextmanager
def _while_wanted(worker: Any) -> Iterator[threading.Event]:
    """Raise a KeyboardInterrupt in this thread if no client waits for its task any more, for example after Ctrl-C."""
    key, thread, lock = worker.get_current_task(), ctypes.c_ulong(threading.get_ident()), threading.Lock()
    unwanted, ended = threading.Event(), False
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    async def watch() -> None:
        while (task := worker.state.tasks.get(key)) is not None and task.state == "executing":
            await asyncio.sleep(_POLL)
        with lock:
            if not ended:
                unwanted.set()
                raise_in(thread, ctypes.py_object(KeyboardInterrupt))

    watching = asyncio.run_coroutine_threadsafe(watch(), worker.loop.asyncio_loop)
    try:
        yield unwanted
    finally:
        with lock:
            ended = True
            raise_in(thread, None)  # cancel an exception that is still pending
        watching.cancel()


def _died(deaths: int) -> WorkerDied:
    return WorkerDied(f"the worker that made this call died, {deaths} times")


def _is_same(library: str, code: str) -> bool:
    try:
        return hashlib.sha256(Path(library).read_bytes()).hexdigest() == code
    except OSError:
        return False


_received: dict[str, str] = {}
"""Name -> folder of the user-defined modules that this worker has received."""
_received_digest = digest()


def _install_modules(modules: Mapping[str, tuple[str, str]], folder: str) -> None:
    """Install exactly these user-defined modules; forget imports of others and of earlier versions."""
    global _received_digest
    now = digest(*(text for name, entry in sorted(modules.items()) for text in (name, *entry)))
    if now == _received_digest:
        return
    for name in {*_received, *modules}:
        sys.modules.pop(name, None)
    for place in set(_received.values()):
        sys.path.remove(place)
    _received.clear()
    if modules:
        place = tempfile.mkdtemp(prefix="modules-", dir=folder)
        for name, (file, source) in modules.items():
            path = Path(place, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
            _received[name] = place
        sys.path.insert(0, place)
        invalidate_caches()
    _received_digest = now
