"""Progress of long computations: what their `progress` callbacks are called with."""

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
    """The only argument of a `progress` callback.

    It is also a number (`Share`) if the share of the work that is done is known, and a string (`Step`) if it is not.

    Attributes
    ----------
    share : float
        Share of the work that is done, from 0 to 1; nan if it is not known.
    text : str
        The current or completed step; "" if steps have no names.
    """

    share: float
    text: str


ProgressCallback: TypeAlias = Callable[[Any], None]
"""Function of a `Progress`."""


class Share(float, Progress):
    """Progress of a computation whose length is known."""

    text = ""

    @property
    def share(self) -> float:  # type: ignore[override]
        """The share of the work that is done."""
        return float(self)


class Step(str, Progress):
    """Progress of a computation with named steps.

    Parameters
    ----------
    text : str
    share : float, optional
        nan: not known.
    """

    def __new__(cls, text: str, share: float = nan) -> Step:
        step = super().__new__(cls, text)
        step.share = share
        return step

    @property
    def text(self) -> str:  # type: ignore[override]
        """The name of the step."""
        return str(self)


def takes(callback: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many arguments, and not with one.

    Callbacks of `ecc.conform.run` and `ecc.testing.check_protocol` took two and three.

    Parameters
    ----------
    callback : callable
    count : int
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
    """Pass steps on to a function, at most one every half second; from any thread.

    Parameters
    ----------
    progress : callable or None
        Function of a `Progress`.
    """

    def __init__(self, progress: ProgressCallback | None) -> None:
        self.progress, self.last = progress, time.monotonic()
        self.lock = threading.Lock()

    def __call__(self, text: Callable[[], str]) -> None:
        """Report a step, whose text is made only if it is due."""
        if self.progress is None or time.monotonic() - self.last < _INTERVAL:
            return
        with self.lock:
            if time.monotonic() - self.last < _INTERVAL:
                return
            self.last = time.monotonic()
            self.progress(Step(text()))
