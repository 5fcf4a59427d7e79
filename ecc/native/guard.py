"""Locks that admit one thread at a time to an engine and to the objects built on it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
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

    def acquire(self, advances: bool) -> bool:
        """Take the lock for this thread, and return the argument of `release`.

        Parameters
        ----------
        advances : bool
            Whether other threads are refused instead of waiting.

        Raises
        ------
        EccError
            If another thread advances the run.
        """
        while not (self._lock.acquire(False) or self._lock.acquire(timeout=0.05)):
            if self._advancing:
                raise EccError(
                    "this run is being advanced by another thread; until it pauses only now and stopped can be read"
                )
        before = self._advancing
        self._advancing = before or advances
        return before

    def release(self, before: bool) -> None:
        """Return the lock.

        Parameters
        ----------
        before : bool
            Result of `acquire`.
        """
        self._advancing = before
        self._lock.release()


class _Guarded(Protocol):
    _guard: Guard


S = TypeVar("S", bound=_Guarded)


def _held(advances: bool) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    def wrapped(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            guard = self._guard
            before = guard.acquire(advances)
            try:
                return method(self, *args, **kwargs)
            finally:
                guard.release(before)

        return alone

    return wrapped


guarded = _held(advances=False)
"""Decorator of methods that read or change a run for a moment: they hold `self._guard`."""
advancing = _held(advances=True)
"""Decorator of methods that advance a run: they hold `self._guard`, and other threads are refused."""
