"""Ctrl-C while a run is advanced: noted, and acted on between the steps of the engine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Interrupts"]


class Interrupts:
    """Notes Ctrl-C instead of raising it: it must not fall between a step of the engine and the counters of the run.

    A second one is raised within `callback`, in code that is not ours. In other threads, and where somebody else
    handles it, nothing changes.
    """

    def __init__(self) -> None:
        self.noted = self._may_raise = False
        in_main = threading.current_thread() is threading.main_thread()
        self._mine = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> Interrupts:
        if self._mine:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: object) -> None:
        if self.noted and self._may_raise:
            raise KeyboardInterrupt
        self.noted = True

    def callback(self, function: Callable[..., Any], *arguments: float) -> Any:
        """Call a function of the caller's.

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
