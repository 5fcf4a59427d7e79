"""Locks that admit one thread at a time to an engine and to the objects built on it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ecc.errors import EccError

__all__ = ["Guard", "advancing", "guarded"]

P = ParamSpec("P")
R = TypeVar("R")


class Guard:
    """Reentrant lock that refuses other threads while one advances a run; otherwise they wait.

    Advancing a run can take hours, so other threads get an error. Reading takes a moment, so they wait for it.
    """

    def __init__(self) -> None:
        self._lock, self._advancing = threading.RLock(), False

    @contextmanager
    def held(self, advances: bool) -> Iterator[None]:
        """Hold the lock in this thread.

        Parameters
        ----------
        advances : bool
            Whether other threads are refused instead of waiting.

        Raises
        ------
        EccError
            If another thread advances the run.
        """
        while not self._lock.acquire(timeout=0.05):
            if self._advancing:
                raise EccError(
                    "this run is being advanced by another thread; until it pauses only now and stopped can be read"
                )
        before = self._advancing
        self._advancing = before or advances
        try:
            yield
        finally:
            self._advancing = before
            self._lock.release()


class _Guarded(Protocol):
    _guard: Guard


S = TypeVar("S", bound=_Guarded)


def _held(advances: bool) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    def wrapped(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with self._guard.held(advances):
                return method(self, *args, **kwargs)

        return alone

    return wrapped


guarded = _held(advances=False)
"""Decorator of methods that read or change a run for a moment: they hold `self._guard`."""
advancing = _held(advances=True)
"""Decorator of methods that advance a run: they hold `self._guard`, and other threads are refused."""
