"""Ctrl-C between imports, and a record of it for loops over functions of users, which may end a run at Ctrl-C.

An import that is interrupted leaves modules without their package, and the same import fails later, for example as the
results so far are written.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

__all__ = ["InterruptRecord", "interrupt", "raises", "record_in_force"]

_GRACE_PERIOD = 3.0
"""s. An import that takes longer is interrupted: a module of the user may work, or never end."""

_LOOK_PERIOD = 0.02
"""s. Time between two looks whether an import has ended."""

_first_look: float | None = None


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise Ctrl-C as Python does, as soon as no import is under way. A handler of SIGINT.

    Parameters
    ----------
    number : int
        Number of the signal.
    frame : frame or None
        What is executed.

    Raises
    ------
    KeyboardInterrupt
    """
    global _first_look
    if _imports(frame) and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
        now = time.monotonic()
        _first_look = now if _first_look is None else _first_look
        if now - _first_look < _GRACE_PERIOD:
            signal.signal(signal.SIGALRM, _interrupt_again)
            signal.setitimer(signal.ITIMER_REAL, _LOOK_PERIOD)
            return
    _first_look = None
    raise KeyboardInterrupt


def _interrupt_again(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def raises(handler: Any) -> bool:
    """Return whether a handler of SIGINT raises `KeyboardInterrupt` and does nothing else.

    Parameters
    ----------
    handler : object
        Handler, as `signal.getsignal` returns it.
    """
    return handler is signal.default_int_handler or handler is interrupt


class InterruptRecord:
    """Raises Ctrl-C as `interrupt` does, and records it, because a run within the called function may have absorbed it.

    In other threads, and if the signal has another handler, nothing is recorded.

    Attributes
    ----------
    noted : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.noted = False
        self._before = signal.getsignal(signal.SIGINT)
        self._handles = threading.current_thread() is threading.main_thread() and raises(self._before)

    def __enter__(self) -> InterruptRecord:
        if self._handles:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted = True
        interrupt(number, frame)


def record_in_force(handler: Any) -> InterruptRecord | None:
    """Return the record whose handler of the signal this is; None for another handler.

    Parameters
    ----------
    handler : object
        Handler, as `signal.getsignal` returns it.
    """
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, InterruptRecord) else None
