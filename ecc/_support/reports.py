"""Progress of long computations, as passed to their `progress` callbacks."""

from __future__ import annotations

import inspect
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from math import isnan, nan
from typing import Any, TypeAlias

__all__ = ["Progress", "ProgressCallback", "Reporter", "Share", "Step", "shows_progress", "takes"]

_INTERVAL = 0.5  # minimum time between reports, and between looks at a computation that reports nothing [s]
_SILENT = 2.0  # time after which a computation without a callback writes its first line to a terminal [s]


class Progress:
    """Argument of a `progress` callback.

    It is also a number (`Share`) if the completed share of the work is known, for example 0.25, and otherwise a string
    (`Step`).

    Attributes
    ----------
    share : float
        Completed share of the work, from 0 to 1; nan if it is unknown.
    text : str
        Current or completed step; "" if steps have no names.
    """

    share: float
    text: str


ProgressCallback: TypeAlias = Callable[[Any], None]
"""Function that is called with a `Progress`."""


class Share(float, Progress):
    """Progress of a computation of known length."""

    text = ""

    @property
    def share(self) -> float:  # type: ignore[override]
        """Completed share of the work."""
        return float(self)


class Step(str, Progress):
    """Progress of a computation with named steps.

    Parameters
    ----------
    text : str
        Name of the step.
    share : float, optional
        Completed share of the work; nan: unknown.
    """

    def __new__(cls, text: str, share: float = nan) -> Step:
        step = super().__new__(cls, text)
        step.share = share
        return step

    @property
    def text(self) -> str:  # type: ignore[override]
        """Name of the step."""
        return str(self)


def takes(callback: Callable[..., Any], count: int) -> bool:
    """Return True if a function accepts `count` positional arguments, but not a single one.

    Earlier callbacks of `ecc.conform.run` took two arguments, those of `ecc.testing.check_protocol` three.

    Parameters
    ----------
    callback : callable
    count : int
        Number of arguments.
    """
    try:
        parameters = inspect.signature(callback)
        parameters.bind(*range(count))
    except (TypeError, ValueError):
        return False
    try:
        parameters.bind(0)
    except TypeError:
        return True
    return False


class Reporter:
    """Pass steps to a function, with half a second or more between them; from any thread.

    Parameters
    ----------
    progress : callable or None
        Function that is called with a `Progress`.
    """

    def __init__(self, progress: ProgressCallback | None) -> None:
        self.progress, self.last = progress, time.monotonic()
        self.lock = threading.Lock()

    def __call__(self, text: Callable[[], str]) -> None:
        """Report a step; its text is computed only if it is due."""
        if self.progress is None or time.monotonic() - self.last < _INTERVAL:
            return
        with self.lock:
            if time.monotonic() - self.last < _INTERVAL:
                return
            self.last = time.monotonic()
            self.progress(Step(text()))


class _Lines:
    """Callback that writes the progress of a computation to standard error, after 2 s, 4 s, 8 s and so on."""

    def __init__(self, name: str) -> None:
        self.name, self.began, self.due = name, time.monotonic(), _SILENT
        self.reached = ""

    def __call__(self, progress: Any) -> None:
        share = "" if isnan(progress.share) else f"{progress.share:.0%}"
        self.reached = ", ".join(text for text in (progress.text, share) if text)
        self.write_if_due()

    def write_if_due(self) -> None:
        seconds = time.monotonic() - self.began
        if seconds < self.due:
            return
        self.due = 2.0 * seconds
        print(f"ecc: {self.name}: {self.reached or 'running'} after {seconds:.0f} s", file=sys.stderr)


class _Watch:
    """Thread that writes lines which are due while a computation reports nothing."""

    def __init__(self) -> None:
        self.lines: _Lines | None = None
        self._began = False

    def follow(self, lines: _Lines | None) -> None:
        """Write lines of this computation from now on, or of none."""
        self.lines = lines
        if lines is not None and not self._began:
            self._began = True
            threading.Thread(target=self._run, name="ecc progress", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_INTERVAL)
            lines = self.lines
            if lines is not None:
                lines.write_if_due()


_watch = _Watch()
_is_shown = False  # whether an outer call already reports its progress


def _has_terminal() -> bool:
    """Return whether this thread of this process may write lines on its progress."""
    return (
        sys.stderr is not None
        and sys.stderr.isatty()
        and threading.current_thread() is threading.main_thread()
        and multiprocessing.parent_process() is None
    )


class shows_progress:
    """Context of a call with the callback for it.

    Without a callback, this is one that writes lines to standard error if it is a terminal. Calls inside this call,
    which contribute to its progress, do not write lines of their own.

    Parameters
    ----------
    name : str
        Name of the function that is called.
    progress : callable or None
        Callback that the function was called with.
    """

    def __init__(self, name: str, progress: ProgressCallback | None) -> None:
        self._name, self._progress = name, progress

    def __enter__(self) -> ProgressCallback | None:
        global _is_shown
        self._is_outer = not _is_shown and _has_terminal()
        if not self._is_outer:
            return self._progress
        _is_shown = True
        if self._progress is not None:
            return self._progress
        lines = _Lines(self._name)
        _watch.follow(lines)
        return lines

    def __exit__(self, *raised: object) -> None:
        global _is_shown
        if self._is_outer:
            _is_shown = False
            _watch.follow(None)
