"""Calls in worker processes, none of which outlives its parent, and none of which takes others with it when it dies."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from ecc.errors import EccError

__all__ = ["WorkerDied", "in_workers"]

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
"""A function with its arguments and keywords."""
_CONTEXT = get_context("spawn")
_TRIES = 2


class WorkerDied(EccError):
    """The process in which a call was made ended, and so did the one in which it was made again."""


class _Elsewhere(Exception):
    """The traceback of an error in a worker, as the cause of the error here."""


def in_workers(
    calls: Sequence[Call], jobs: int, groups: Sequence[str] = ()
) -> Generator[tuple[int, Any, BaseException | None], None, None]:
    """Make calls in worker processes; return each one's index, its result and its error, as they end.

    A call whose worker dies is made once more. Anything that ends the iteration early, Ctrl-C for one, kills the
    workers; so does the end of this process, however it ends. Ctrl-C has effect only while this waits: no worker is
    started that is not known, and a result that has come back is with the caller. Close what is not exhausted.

    Parameters
    ----------
    calls : sequence of Call
        (function, arguments, keywords) each, the first to begin first; all can be pickled.
    jobs : int, >= 1
        Worker processes.
    groups : sequence of str, optional
        A name for each call, or none at all. A worker that made a call of a group gets the others of it first, which
        find in its memory what that has left there; another gets them only if nothing else is left.
    """
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
                    except OSError:  # it died while it was idle
                        waiting.appendleft(index)
                        busy.pop(worker.connection)[0].end()
                    except Exception as error:  # the call cannot be pickled
                        idle.append(busy.pop(worker.connection)[0])
                        yield index, None, error
                for ready in _waited(list(busy), mask):
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
                        how = f"its worker process terminated abruptly, {_TRIES} times ({_how(code)})"
                        yield index, None, WorkerDied(how)
            timeout = 5.0
        finally:
            for worker in [*idle, *(worker for worker, _ in busy.values())]:
                worker.end(timeout)


def _next(waiting: deque[int], group_of: Sequence[str], own: set[str], elsewhere: set[str]) -> int:
    """Take the first call of a group of one's own, else of one that no other worker has, else the first."""
    order = sorted(waiting, key=lambda index: (group_of[index] not in own, group_of[index] in elsewhere))
    waiting.remove(order[0])
    return order[0]


def _waited(connections: list[Connection], mask: Iterable[int]) -> list[Connection]:
    """Those from which a reply, or an end, can be read; in the meantime signals are as they were."""
    if not connections:
        return []
    if not hasattr(signal, "pthread_sigmask"):
        return wait(connections)  # type: ignore[return-value]
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return wait(connections)  # type: ignore[return-value]
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _how(code: int | None) -> str:
    with suppress(ValueError):
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class _Worker:
    """A process that makes one call after the other."""

    def __init__(self) -> None:
        self.groups: set[str] = set()  # of the calls that it has made
        self.connection, far = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(far, os.getpid()))
        self._process.start()
        far.close()

    def reply(self) -> tuple[Any, BaseException | None] | None:
        """Return result and error of its call, or None if it died."""
        try:
            result, error, text = self.connection.recv()
        except (EOFError, OSError):
            return None
        except Exception as error:  # a result or an error that cannot be put together again here
            return None, EccError(f"what came back cannot be read: {type(error).__name__}: {error}")
        if error is not None:
            error.__cause__ = _Elsewhere(text)
        return result, error

    def end(self, timeout: float = 0.0) -> int | None:
        """End the process, by force if it does not end by itself in some seconds, and return its exit code."""
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
    """Ctrl-C has effect when the block ends; a process that is started meanwhile does not receive it at all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield ()
        return
    resource_tracker.ensure_running()  # whose start would allow signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, parent: int) -> None:
    """Make calls until there are no more, or no parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    _end_with(parent)
    for library in ("OMP", "OPENBLAS", "MKL"):  # which read it when a call imports them
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    while True:
        reply: tuple[Any, BaseException | None, str]
        try:
            call = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            function, arguments, keywords = pickle.loads(call)
            reply = function(*arguments, **keywords), None, ""
        except BaseException as error:  # sys.exit() in a call too
            reply = None, error, traceback.format_exc()
        try:
            connection.send(reply)
        except OSError:
            return
        except Exception as error:  # a result or an error that cannot be pickled
            text = f"{type(error).__name__}: {error}" if reply[1] is None else reply[2].strip().splitlines()[-1]
            connection.send((None, EccError(text), reply[2]))


def _end_with(parent: int) -> None:
    """Have this process killed when its parent ends; elsewhere than on Linux it ends after its call."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
