"""A record of Ctrl-C for loops over functions of users, which may end a run at Ctrl-C and return what it has so far."""

from __future__ import annotations

import signal
import threading
from typing import Any

__all__ = ["InterruptRecord", "record_in_force"]


class InterruptRecord:
    """Raises Ctrl-C as Python does, and records it, because a run within the called function may have absorbed it.

    In other threads, and if the signal has another handler, nothing is recorded.

    Attributes
    ----------
    noted : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.noted = False
        in_main = threading.current_thread() is threading.main_thread()
        self._handles = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> InterruptRecord:
        if self._handles:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: object) -> None:
        self.noted = True
        raise KeyboardInterrupt


def record_in_force(handler: Any) -> InterruptRecord | None:
    """Return the record whose handler of the signal this is; None for another handler.

    Parameters
    ----------
    handler : object
        Handler, as `signal.getsignal` returns it.
    """
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, InterruptRecord) else None
