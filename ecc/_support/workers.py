"""Calls in worker processes or on an executor.

Worker processes end with their parent, and the death of one does not affect the others.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from ecc.errors import EccError

__all__ = [
    "WorkerDied",
    "WorkersLost",
    "answer",
    "in_workers",
    "outcome",
    "thread_count",
    "thread_pool",
    "worker_count",
]

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
"""A function with its arguments and keywords."""
Made = Generator[tuple[int, Any, BaseException | None], None, None]
_CONTEXT = get_context("spawn")
_TRIES = 2


class WorkerDied(EccError):
    """The process that made a call died, and so did the process that made it again."""


class WorkersLost(EccError):
    """No more calls can be made; unfinished ones are lost."""


class _Elsewhere(Exception):
    """Traceback of an error in a worker, as the cause of the error in this process."""


def in_workers(calls: Sequence[Call], workers: Executor | int, groups: Sequence[str] = ()) -> Made:
    """Make calls in worker processes; yield the index, result and error of each call, in the order in which they end.

    If a worker dies, its call is made once more. Workers are killed if the iteration ends early, for example by Ctrl-C,
    or if this process ends in any way. Ctrl-C takes effect only while this function waits, so that every started worker
    is known and every received result reaches the caller. Close the iterator if it is not exhausted. An executor then
    cancels the calls that have not begun.

    Parameters
    ----------
    calls : sequence of Call
        (function, arguments, keywords) of each call, in the order in which they begin; all can be pickled.
    workers : Executor or int, >= 1
        Executor, or number of worker processes.
    groups : sequence of str, optional
        Group of each call; empty: no groups. A worker that made a call of a group gets the other calls of the group
        first, as its memory holds intermediate results; another worker gets them only if no other calls wait.
        Executors ignore groups.

    Raises
    ------
    WorkersLost
        If the executor cannot make more calls.
    """
    return _in_executor(calls, workers) if isinstance(workers, Executor) else _in_processes(calls, workers, groups)


def worker_count(workers: Executor | int) -> int:
    """Return the number of concurrent calls; if an executor does not report it, the number of local cores.

    Parameters
    ----------
    workers : Executor or int
    """
    if not isinstance(workers, Executor):
        return workers
    return max(1, getattr(workers, "_max_workers", os.cpu_count() or 1))  # standard executors


@contextmanager
def thread_pool(executor: Executor | int | None) -> Iterator[ThreadPoolExecutor]:
    """Provide threads for calls that share memory: those of an executor, which stays open, or a new pool.

    Parameters
    ----------
    executor : Executor, int or None
        Threads, or their number, >= 1. None: the number of cores available to this process.
    """
    count = thread_count(executor)
    if isinstance(executor, ThreadPoolExecutor):
        yield executor
    else:
        with ThreadPoolExecutor(count) as pool:
            yield pool


def thread_count(executor: Executor | int | None) -> int:
    """Return the number of threads of an `executor=` argument.

    Parameters
    ----------
    executor : Executor, int or None
        Threads, or their number, >= 1. None: the number of cores available to this process.

    Raises
    ------
    TypeError
        An executor of processes or machines, which do not share memory.
    ValueError
        A number < 1.
    """
    from ecc._support.quantity import as_count  # imported here, as worker processes do not always need NumPy

    if executor is None:
        return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1
    if isinstance(executor, ThreadPoolExecutor):
        return worker_count(executor)
    if isinstance(executor, Executor):
        kind = type(executor).__name__
        raise TypeError(f"executor must be a ThreadPoolExecutor or a number of threads here, got a {kind}")
    return as_count(executor, "executor", minimum=1)


def _in_executor(calls: Sequence[Call], executor: Executor) -> Made:
    """Make calls on an executor. A call that breaks a process pool, which is then unusable, is made in a worker."""
    broken = []
    running: dict[Future[Any], int] = {}
    try:
        for index, (function, arguments, keywords) in enumerate(calls):
            running[executor.submit(function, *arguments, **keywords)] = index
        for future in as_completed(running):
            failure = future.exception()
            if isinstance(failure, WorkersLost):
                raise failure
            if isinstance(failure, BrokenProcessPool):
                broken.append(running[future])
            else:
                yield running[future], future.result() if failure is None else None, failure
    finally:
        for future in running:
            future.cancel()
    broken.sort()
    with closing(_in_processes([calls[index] for index in broken], worker_count(executor))) as ended:
        for k, result, failure in ended:
            yield broken[k], result, failure


def _in_processes(calls: Sequence[Call], jobs: int, groups: Sequence[str] = ()) -> Made:
    group_of = groups or [""] * len(calls)
    waiting, tries = deque(range(len(calls))), Counter[int]()
    idle: list[_Worker] = []
    busy: dict[Connection, tuple[_Worker, int]] = {}
    timeout = 0.0
    with _interrupts_blocked() as mask:
        try:
            while waiting or busy:
                while waiting and len(busy) < jobs:
                    worker = idle.pop() if idle else _Worker()
                    elsewhere = {group for other, _ in busy.values() for group in other.groups}
                    index = _next(waiting, group_of, worker.groups, elsewhere)
                    worker.groups |= {group_of[index]} - {""}
                    busy[worker.connection] = worker, index
                    try:
                        worker.connection.send(calls[index])
                    except OSError:  # the worker died while it was idle
                        waiting.appendleft(index)
                        busy.pop(worker.connection)[0].end()
                    except Exception as error:  # the call cannot be pickled
                        idle.append(busy.pop(worker.connection)[0])
                        yield index, None, error
                for ready in _wait_for_replies(list(busy), mask):
                    worker, index = busy[ready]
                    reply = worker.reply()
                    del busy[ready]
                    if reply is not None:
                        idle.append(worker)
                        yield index, *reply
                        continue
                    code = worker.end(1.0)
                    tries[index] += 1
                    if tries[index] < _TRIES:
                        waiting.append(index)
                    else:
                        yield index, None, WorkerDied(f"its process ended, {_TRIES} times: {_exit_reason(code)}")
            timeout = 5.0
        finally:
            for worker in [*idle, *(worker for worker, _ in busy.values())]:
                worker.end(timeout)


def _next(waiting: deque[int], group_of: Sequence[str], own_groups: set[str], elsewhere: set[str]) -> int:
    """Take the first call of the worker's own groups, else of a group that no other worker has, else the first."""
    order = sorted(waiting, key=lambda index: (group_of[index] not in own_groups, group_of[index] in elsewhere))
    waiting.remove(order[0])
    return order[0]


def _wait_for_replies(connections: list[Connection], mask: Iterable[int]) -> list[Connection]:
    """Wait for connections with a reply, or an end, and return them; meanwhile signals are handled as before."""
    if not connections:
        return []
    if not hasattr(signal, "pthread_sigmask"):
        return wait(connections)  # type: ignore[return-value]
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return wait(connections)  # type: ignore[return-value]
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _exit_reason(code: int | None) -> str:
    with suppress(ValueError):
        if code is not None and code < 0:
            return signal.Signals(-code).name
    return f"exit code {code}"


class _Worker:
    """A worker process, which makes one call at a time."""

    def __init__(self) -> None:
        self.groups: set[str] = set()  # groups of the calls that it has made
        self.connection, far = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(far, os.getpid()))
        self._process.start()
        far.close()

    def reply(self) -> tuple[Any, BaseException | None] | None:
        """Return result and error of its call, or None if the process died."""
        try:
            return outcome(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None

    def end(self, timeout: float = 0.0) -> int | None:
        """End the process, by force after a timeout [s], and return its exit code."""
        self.connection.close()
        self._process.join(timeout)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        self._process.close()
        return code


@contextmanager
def _interrupts_blocked() -> Iterator[Iterable[int]]:
    """Delay Ctrl-C to the end of the block; processes started in the block do not receive it at all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield ()
        return
    resource_tracker.ensure_running()  # starting it later would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, parent: int) -> None:
    """Make calls until the connection or the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _end_with_parent(parent)
    for library in ("OMP", "OPENBLAS", "MKL"):  # they read it when a call imports them
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    while True:
        try:
            call = connection.recv_bytes()
        except (EOFError, OSError):
            return
        reply = answer(_call_pickled, (call,), {})
        try:
            connection.send_bytes(reply)
        except OSError:
            return


def _call_pickled(call: bytes) -> Any:
    function, arguments, keywords = pickle.loads(call)
    return function(*arguments, **keywords)


def answer(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bytes:
    """Make a call, and return its result or its error as bytes for `outcome`.

    Parameters
    ----------
    function, arguments, keywords : callable, sequence, mapping
    """
    reply: tuple[Any, BaseException | None, str]
    try:
        reply = function(*arguments, **keywords), None, ""
    except BaseException as error:  # sys.exit() in a call too
        reply = None, error, traceback.format_exc()
    try:
        return pickle.dumps(reply)
    except Exception as error:  # a result or an error that cannot be pickled
        text = f"{type(error).__name__}: {error}" if reply[1] is None else reply[2].strip().splitlines()[-1]
        return pickle.dumps((None, EccError(text), reply[2]))


def outcome(reply: bytes) -> tuple[Any, BaseException | None]:
    """Return result and error of a call in another process; the cause of the error is its traceback there.

    Parameters
    ----------
    reply : bytes
        Bytes from `answer`.
    """
    try:
        result, error, text = pickle.loads(reply)
    except Exception as error:  # a result or an error that cannot be unpickled here
        return None, EccError(f"what came back cannot be read: {type(error).__name__}: {error}")
    if error is not None:
        error.__cause__ = _Elsewhere(text)
    return result, error


def _end_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends; except on Linux it ends after its call."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
