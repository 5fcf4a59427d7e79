"""Reports of the progress of long computations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Reporter"]

_INTERVAL = 0.5  # minimum time between reports [s]


class Reporter:
    """Pass texts to a function, with half a second or more between them; from any thread.

    Parameters
    ----------
    progress : callable or None
        Function that is called with a text, for example `print`.
    """

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self.progress, self.last = progress, time.monotonic()
        self.lock = threading.Lock()

    def __call__(self, text: Callable[[], str]) -> None:
        """Report a text, which is computed only if it is due."""
        if self.progress is None or time.monotonic() - self.last < _INTERVAL:
            return
        with self.lock:
            if time.monotonic() - self.last < _INTERVAL:
                return
            self.last = time.monotonic()
            self.progress(text())
