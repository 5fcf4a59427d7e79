"""A Dask cluster as an executor: its workers make the calls, many short ones as one task, and one process keeps them.

`distributed`, which this needs, comes with the optional dependencies `congestion-control[cluster]`.
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

_TASK = 2.0  # s that a task is meant to take: a thousand times what it costs to send one
_LONGEST = 5.0  # s after which a task makes no further call and gives the rest back
_ANSWER = 10.0  # s within which a scheduler answers
_LISTENS = 3.0  # s within which a machine accepts a connection
_REPLY = 10.0  # s within which a result that is there arrives; else it is made again
_LOOK = 0.5  # s between looks for what nobody reports: workers that come and go, a scheduler that is back
_TRIES = 3  # workers that may die while they make a call alone


class Cluster(Executor):
    """Executor whose calls are made by the workers of a Dask scheduler.

    Calls are sent in batches that take some seconds, by the time that those before took. What a lost worker or a
    scheduler that is started anew leaves undone is sent again. A worker has one thread, and the same code as this
    process, which is checked before it makes a call; modules of the user's are sent along, as they are here.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786".
    patience : float, s, optional
        How long a scheduler that is lost may be away.
    notice : callable, optional
        Called with a line when the scheduler is lost and when it is back, or when there is no worker.

    Raises
    ------
    WorkersLost
        `distributed` is not installed, no scheduler answers, or a worker has other code.

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
        self._seconds = 0.0  # of a call; 0: not known
        self._sources: dict[str, str] = {}  # of the user's modules, as they were when the work began
        self._looked = 0.0
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
        """Have a call made, and return the future of its result.

        Parameters
        ----------
        function, *arguments, **keywords : object
            Anything that cloudpickle can pickle.

        Raises
        ------
        WorkersLost
            The cluster cannot go on.
        RuntimeError
            After `shutdown`.
        """
        task = _Task((function, arguments, keywords), Future())
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._closing:
                raise RuntimeError("calls must not be submitted after shutdown")
            self._waiting.append(task)
        task.future.add_done_callback(lambda future: self._changed.set())  # it may be cancelled
        self._changed.set()
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the connection when those that were submitted have ended.

        Parameters
        ----------
        wait : bool, optional
            Return only then.
        cancel_futures : bool, optional
            Cancel those that have not ended.
        """
        with self._lock:
            self._closing = True
            left = [*self._waiting, *(task for batch in self._sent for task in batch.tasks)]
        if cancel_futures:
            for task in left:
                task.future.cancel()
        self._changed.set()
        if wait:
            self._thread.join()

    # ---- the thread that sends and receives --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not (self._closing and not self._waiting and not self._sent):
                self._changed.wait(_LOOK)
                self._changed.clear()
                self._receive()
                if self._client.status != "running" and not self._closing:
                    self._reconnect()
                self._look()
                self._send()
        except Exception as error:
            lost = error if isinstance(error, WorkersLost) else WorkersLost(f"{self._named}: {_text(error)}")
            with self._lock:
                self._error = lost
                left = [*self._waiting, *(task for batch in self._sent for task in batch.tasks)]
            for task in left:
                task.end(None, lost)
        finally:
            self._disconnect()

    @property
    def _named(self) -> str:
        return f"the scheduler at {self._address}"

    def _receive(self) -> None:
        """Take what has come back; what was lost waits again, before all others."""
        for batch in list(self._sent):
            status = batch.remote.status
            if status == "pending":
                if not all(task.future.cancelled() for task in batch.tasks):
                    continue
                with suppress(Exception):
                    batch.remote.cancel()
                left: list[_Task] = []
            elif status == "finished":
                left = self._results(batch)
            elif status == "lost":  # with its worker, which another call has killed
                left = self._again(batch)
            elif status == "error":
                left = self._failed(batch, batch.remote.exception())
            else:  # cancelled, and not by us: its scheduler is gone
                left = batch.tasks
            with self._lock:
                self._sent.remove(batch)
                self._waiting.extendleft(reversed(left))

    def _results(self, batch: _Batch) -> list[_Task]:
        """Hand results over; return what was not done."""
        try:
            reply = batch.remote.result(timeout=_REPLY)
        except Exception:  # the worker or the scheduler is lost with what it had
            return self._again(batch)
        if isinstance(reply, str):
            raise WorkersLost(reply)
        seconds, answers = reply
        if answers:
            taken = seconds / len(answers)
            self._seconds = 0.5 * (self._seconds or taken) + 0.5 * taken
        else:  # a worker died of one of them
            batch.part()
        for task, data in zip(batch.tasks, answers, strict=False):
            task.end(*outcome(data))
        return batch.tasks[len(answers) :]

    def _failed(self, batch: _Batch, error: BaseException) -> list[_Task]:
        """Return what Dask does not send again: it counts a death against all that the worker had, also what waited."""
        if not isinstance(error, self._distributed.scheduler.KilledWorker):
            raise WorkersLost(f"workers of {self._named} cannot make a call: {_text(error)}")
        return self._again(batch)

    def _again(self, batch: _Batch) -> list[_Task]:
        """Count the workers that died of a batch, and return what is to be sent again."""
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

    def _look(self) -> None:
        """Note now and then how many workers there are."""
        if monotonic() < self._looked + _LOOK or self._client.status != "running":
            return
        before = self._max_workers
        with suppress(OSError, self._distributed.TimeoutError):
            self._max_workers = len(self._client.nthreads())
        self._looked = monotonic()
        if before and not self._max_workers and (self._waiting or self._sent):
            self._notice(f"{self._named} has no worker: the work goes on when one comes")

    def _send(self) -> None:
        """Have two batches for each worker there: one that it does, and the next."""
        if not self._waiting and not self._sent:
            self._seconds = 0.0  # what comes next may be something else
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
                remote = self._client.submit(_make, calls, self._extras(calls), tasks[0].deaths, pure=False)
            except Exception:  # the connection has just been lost
                with self._lock:
                    self._waiting.extendleft(reversed(tasks))
                return
            with self._lock:
                self._sent.append(_Batch(tasks, remote))
            remote.add_done_callback(lambda remote: self._changed.set())

    def _next(self) -> list[_Task]:
        """Take calls for one task: as many as take some seconds, and at the end fewer, so that all have some."""
        with self._lock:
            share = -(-len(self._waiting) // (2 * max(1, self._max_workers)))
            most = min(share, int(_TASK / self._seconds)) if self._seconds else 1
            tasks: list[_Task] = []
            while self._waiting and len(tasks) < max(1, most):
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
        """What a worker needs to make some calls as this process would."""
        return _Extras(_about(), _PROCESS, dict(_modules(calls, self._sources)), dict(_libraries(calls)))

    # ---- the scheduler -----------------------------------------------------------------------------------------------

    def _connected(self, timeout: float) -> Any:
        try:
            self._probe(timeout)
            return self._distributed.Client(self._address, _loop(), timeout, set_as_default=False)
        except Exception as error:  # of any kind, if something else answers there
            what = _text(error) if str(error) else f"nothing within {timeout:g} s"
            raise WorkersLost(f"no scheduler answers at {self._address}: {what}") from None

    def _probe(self, timeout: float) -> None:
        """Open a connection and close it: a client that gets none tries again for long, and prints when it is deleted.

        Whether anything listens is known at once from a plain connection, which is not tried again.
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
        log = logging.getLogger("distributed.client")  # which has a traceback for each end that is not in order
        level = log.level
        log.setLevel(logging.CRITICAL)
        try:
            with suppress(Exception):
                self._client.close(timeout=2.0)
        finally:
            log.setLevel(level)

    def _reconnect(self) -> None:
        """Wait for a scheduler that is lost, and have a new connection to it."""
        self._notice(f"{self._named} is lost: waiting up to {self._patience:g} s for it")
        until = monotonic() + self._patience
        self._disconnect()
        self._receive()  # what was with it waits again
        while not self._closing:
            try:
                self._client = self._connected(min(_ANSWER, self._patience))
                self._notice(f"{self._named} is back: what was lost is done again")
                self._changed.set()
                return
            except WorkersLost:
                if monotonic() > until:
                    raise WorkersLost(f"{self._named} was lost, and not back within {self._patience:g} s") from None
                threading.Event().wait(_LOOK)

    def _check_workers(self) -> None:
        """Refuse a worker with more than one thread, or other code than this process."""
        threads = self._client.nthreads()
        self._max_workers = len(threads)
        for worker, count in sorted(threads.items()):
            if count != 1:
                raise WorkersLost(f"workers must have one thread each (dask worker --nthreads 1), {worker} has {count}")
        if not threads:
            self._notice(f"{self._named} has no worker yet: the work begins when one comes")
            return
        for worker, found in sorted(self._client.run(_about, on_error="return").items()):
            if isinstance(found, BaseException):
                raise WorkersLost(f"worker {worker} cannot run ecc {__version__}: {_text(found)}")
            if found != _about():
                raise WorkersLost(_differs(worker, found, _about()))


@dataclass(eq=False)
class _Task:
    """A call with the future of its result.

    `alone`: it is sent as a batch of its own; `deaths`: of workers that made it so.
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
        """Have each of its calls sent alone from now on."""
        for task in self.tasks:
            task.alone = True


@cache
def _loop() -> Any:
    """The event loop of all clients of this process, in a thread of its own.

    Dask's own gives up when it has not begun within 10 s, which it may not on a machine that is busy.
    """
    found: Future[Any] = Future()

    async def run() -> None:
        found.set_result(import_module("tornado.ioloop").IOLoop.current())
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), name="ecc-cluster-loop", daemon=True).start()
    return found.result()


def _text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


# ---- what a worker needs -------------------------------------------------------------------------------------------

_PROCESS = uuid4().hex


@dataclass
class _Extras:
    """The code of the process that sends (`about`), and of the user's: modules and shared objects."""

    about: str
    process: str
    modules: dict[str, tuple[str, str]]
    """Name -> file, relative to a folder on sys.path, and source."""
    libraries: dict[str, str]
    """Path -> digest of its content."""


@cache
def _about() -> str:
    """The code that a process runs, in a line."""
    python, minor, *others = surroundings().split(" ", 2)
    return f"ecc {__version__} (code {package_digest()[:12]}, Python {python}.{minor}, {' '.join(others)})"


def _differs(worker: str, there: str, here: str) -> str:
    return f"worker {worker} runs {there}, this process {here}: install the same wheel on both"


def _modules(calls: bytes, sources: dict[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The user's modules that pickled calls name, and those that these import."""
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
    """Modules that are neither installed nor ours, by name; of a package with compiled modules, none."""
    found = {
        name: Path(file)
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and (file := getattr(module, "__file__", None))
        and name not in ("__main__", "__mp_main__") and name.partition(".")[0] != "ecc" and not is_installed(name)
    }  # fmt: skip
    compiled = {name.partition(".")[0] for name, path in found.items() if path.suffix != ".py"}
    return {name: path for name, path in found.items() if name.partition(".")[0] not in compiled}


def _imported(source: str, package: str) -> Iterator[str]:
    """Names of modules that a module may import, and of what it imports from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _libraries(calls: bytes) -> Iterator[tuple[str, str]]:
    """Controllers in shared objects that pickled calls name."""
    module = sys.modules.get("ecc.models.controller")
    for kind in () if module is None else module.Controller.__subclasses__():
        if kind.library and kind.library.encode() in calls:
            yield kind.library, kind.code


# ---- in a worker ---------------------------------------------------------------------------------------------------


def _make(calls: bytes, extras: _Extras, deaths: int) -> tuple[float, list[bytes]] | str:
    """Make calls, the first ones if all take too long: the seconds that they took, and answers; or why none is made.

    None of several that a worker has died of: each is to be made alone. Nor one that `_TRIES` have died of.
    """
    worker = import_module("distributed").get_worker()
    if _about() != extras.about:
        return _differs(worker.address, _about(), extras.about)
    if worker.state.nthreads != 1:
        threads = worker.state.nthreads
        return f"workers must have one thread each (dask worker --nthreads 1), {worker.address} has {threads}"
    for library, code in extras.libraries.items():
        if not _is_same(library, code):
            return f"worker {worker.address} must have the same file at {library} as this process: its path is absolute"
    if extras.process != _PROCESS:
        _take_over(extras.modules, worker.local_directory)
    with suppress(KeyboardInterrupt), _begun(worker) as before, _while_wanted(worker) as unwanted:
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
    return 0.0, []  # nobody reads it


@contextmanager
def _begun(worker: Any) -> Iterator[int]:
    """Note with the scheduler that a task is begun and not ended, and how often it was before: workers died of it.

    A worker has one thread: it dies of what it has begun, never of what waits there for its turn, nor of what has
    ended and is lost with it. What is kept under the key of a task goes when the task does.
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
    """Raise a KeyboardInterrupt in this thread when nobody waits for its task any more, as after a Ctrl-C there."""
    key, thread, lock = worker.get_current_task(), ctypes.c_ulong(threading.get_ident()), threading.Lock()
    unwanted, ended = threading.Event(), False
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    async def watch() -> None:
        while (task := worker.state.tasks.get(key)) is not None and task.state == "executing":
            await asyncio.sleep(_LOOK)
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
            raise_in(thread, None)  # what has been raised, and has not come yet
        watching.cancel()


def _died(deaths: int) -> WorkerDied:
    return WorkerDied(f"the worker that made this call died, {deaths} times")


def _is_same(library: str, code: str) -> bool:
    try:
        return hashlib.sha256(Path(library).read_bytes()).hexdigest() == code
    except OSError:
        return False


_taken: dict[str, str] = {}
"""Name -> folder of the user's modules that this worker has from elsewhere."""
_taken_digest = digest()


def _take_over(modules: Mapping[str, tuple[str, str]], folder: str) -> None:
    """Have just these modules of the user's; what was imported of others, or of what they were before, is forgotten."""
    global _taken_digest
    now = digest(*(text for name, entry in sorted(modules.items()) for text in (name, *entry)))
    if now == _taken_digest:
        return
    for name in {*_taken, *modules}:
        sys.modules.pop(name, None)
    for place in set(_taken.values()):
        sys.path.remove(place)
    _taken.clear()
    if modules:
        place = tempfile.mkdtemp(prefix="modules-", dir=folder)
        for name, (file, source) in modules.items():
            path = Path(place, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
            _taken[name] = place
        sys.path.insert(0, place)
        invalidate_caches()
    _taken_digest = now
