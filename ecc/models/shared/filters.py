"""Windowed maxima and minima of a stream of samples, by three of them (Kathleen Nichols; Linux lib/win_minmax.c).

Three samples are kept: the best of the window, the best after that one, and the best after both; value[k] and time[k],
with the times in order. A sample replaces all kept ones that are not better. Once the best is older than the window, it
expires and the second best replaces it. To keep the replacement recent, a sample becomes the second best after a
quarter of the window without a new second best, and the third best after half of it.

The result is never below the latest sample (for a maximum), and never from a sample older than the window. It may be
below the true maximum of the window, as only three samples are kept. The window has the unit of its times, for example
seconds or rounds. The arrays belong to a flow's state; they have three entries each, 0 at first.
"""

from __future__ import annotations

from typing import Any

__all__ = ["reset", "windowed_max", "windowed_min"]


def reset(value: Any, time: Any, t: float, x: float) -> float:
    """Discard all samples but x at time t."""
    for k in range(3):
        value[k] = x
        time[k] = t
    return x


def put(value: Any, time: Any, k: int, t: float, x: float) -> None:
    """Store x as the k-th best sample."""
    value[k] = x
    time[k] = t


def shift(value: Any, time: Any, t: float, x: float) -> None:
    """Remove the expired best sample."""
    put(value, time, 0, time[1], value[1])
    put(value, time, 1, time[2], value[2])
    put(value, time, 2, t, x)


def windowed_max(value: Any, time: Any, window: float, t: float, x: float) -> float:
    """Return the maximum of the samples in [t - window, t], including x at time t."""
    if x >= value[0] or t - time[2] > window:
        return reset(value, time, t, x)
    if x >= value[1]:
        put(value, time, 1, t, x)
        put(value, time, 2, t, x)
    elif x >= value[2]:
        put(value, time, 2, t, x)
    age = t - time[0]
    if age > window:
        shift(value, time, t, x)
        if t - time[0] > window:
            shift(value, time, t, x)
    elif time[1] == time[0] and age > 0.25 * window:
        put(value, time, 1, t, x)
        put(value, time, 2, t, x)
    elif time[2] == time[1] and age > 0.5 * window:
        put(value, time, 2, t, x)
    best: float = value[0]
    return best


def windowed_min(value: Any, time: Any, window: float, t: float, x: float) -> float:
    """Return the minimum; `value` holds negated samples, so begin with `reset(value, time, t, -x)`."""
    return -windowed_max(value, time, window, t, -x)
