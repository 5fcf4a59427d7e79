"""One thread at a time: what an engine, and all that is built on it, is held by while it is used."""

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
    """Admits one thread at a time, as often as it likes; the others wait, but not for one that advances a run.

    A run may take hours: other threads are refused meanwhile. What reads it for a moment is waited for.
    """

    def __init__(self) -> None:
        self._lock, self._advancing = threading.RLock(), False

    @contextmanager
    def held(self, advances: bool) -> Iterator[None]:
        """Hold it for this thread.

        Parameters
        ----------
        advances : bool
            Whether others are refused meanwhile.

        Raises
        ------
        EccError
            Another thread advances the run.
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
"""Decorator of methods that look at a run or change it for a moment: `self._guard` is held."""
advancing = _held(advances=True)
"""The same of those that advance it."""
