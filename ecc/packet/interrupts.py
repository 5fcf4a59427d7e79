"""Ctrl-C during a run, handled between the slices of the engine, and a limit on the duration of slices."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from ecc._support.interrupts import InterruptRecord, raises, record_in_force

__all__ = ["Interrupts", "SliceLimit"]

LOOK_PERIOD, IDLE_TIME = 0.02, 1.0
"""Time between two checks of the current slices, and time without slices after which the thread ends [s]."""


class Interrupts:
    """Records Ctrl-C instead of raising it, because it must not separate a step of the engine from the run's counters.

    A second Ctrl-C is raised within `callback`, in code of the user. In other threads, and if the signal has another
    handler than Python's or that of an `InterruptRecord`, nothing changes.
    """

    def __init__(self) -> None:
        self.noted = self._may_raise = self._handles = False
        self._before: Any = None
        self._record: InterruptRecord | None = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            self._record = record_in_force(self._before)
            self._handles = raises(self._before) or self._record is not None

    def __enter__(self) -> Interrupts:
        if self._handles:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: object) -> None:
        if self._record is not None:
            self._record.noted = True
        if self.noted and self._may_raise:
            raise KeyboardInterrupt
        self.noted = True

    def callback(self, function: Callable[..., Any], *arguments: float) -> Any:
        """Call a function of the user, in which a second Ctrl-C is raised.

        Parameters
        ----------
        function : callable
        *arguments : float
        """
        self._may_raise = True
        try:
            return function(*arguments)
        finally:
            self._may_raise = False


class SliceLimit:
    """Ends slices that take longer than a limit, from another thread.

    The number of events in a slice follows from the time that earlier events took. A limit is needed as well, because
    later events may take a thousand times as long, for example if a hook begins to search for something. One thread
    serves all runs of the process, so that a short slice does not have to start one.

    Parameters
    ----------
    stop : Callable
        Function that ends the slice after its current event. It may be called several times, and after the slice.
    seconds : float, s, > 0
        Time that a slice may take.
    """

    _lock = threading.Lock()
    _ends: ClassVar[dict[SliceLimit, float]] = {}  # limits of the current slices, `time.monotonic()`
    _thread: ClassVar[threading.Thread | None] = None

    def __init__(self, stop: Callable[[], None], seconds: float) -> None:
        self._stop, self._seconds = stop, seconds

    def __enter__(self) -> None:
        with self._lock:
            self._ends[self] = time.monotonic() + self._seconds
            if SliceLimit._thread is None or not SliceLimit._thread.is_alive():  # the thread does not survive a fork
                SliceLimit._thread = threading.Thread(target=self._watch, name="ecc slices", daemon=True)
                SliceLimit._thread.start()

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            del self._ends[self]

    @classmethod
    def _watch(cls) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(LOOK_PERIOD)
            now = time.monotonic()
            with cls._lock:
                for limit, end in cls._ends.items():
                    if now > end:
                        limit._stop()
                idle_since = now if cls._ends else idle_since
                if now - idle_since > IDLE_TIME:
                    cls._thread = None
                    return
