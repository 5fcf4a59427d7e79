"""Progress of long computations, as passed to their `progress` callbacks."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from math import nan
from typing import Any, TypeAlias

__all__ = ["Progress", "ProgressCallback", "Reporter", "Share", "Step", "takes"]

_INTERVAL = 0.5  # minimum time between reports [s]


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
