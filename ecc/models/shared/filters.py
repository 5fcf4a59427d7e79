"""Windowed maxima and minima of a stream of samples, by three of them (Kathleen Nichols; Linux lib/win_minmax.c).

Kept are the best sample of the window, the best after that one, and the best after both: value[k] and time[k], the
times in order. A sample replaces all that are no better. The best expires once it is older than the window, and then
the next one takes its place. So that this is a recent one, a sample is taken as the second best once a quarter of the
window has passed without one, and as the third best after half of it.

The result is never below the latest sample (of a maximum), and never that of a sample that is older than the window;
it may be less than the true maximum of the window, as only three are kept. A window has the unit of its times, which
may be seconds or rounds. Arrays of a flow's state are passed, three entries each, 0 at first.
"""

from __future__ import annotations

from typing import Any

__all__ = ["reset", "windowed_max", "windowed_min"]


def reset(value: Any, time: Any, t: float, x: float) -> float:
    """Forget all but a sample x at t."""
    for k in range(3):
        value[k] = x
        time[k] = t
    return x


def put(value: Any, time: Any, k: int, t: float, x: float) -> None:
    """Take x as the k-th best."""
    value[k] = x
    time[k] = t


def shift(value: Any, time: Any, t: float, x: float) -> None:
    """The best has expired."""
    put(value, time, 0, time[1], value[1])
    put(value, time, 1, time[2], value[2])
    put(value, time, 2, t, x)


def windowed_max(value: Any, time: Any, window: float, t: float, x: float) -> float:
    """Return the maximum of the samples in [t - window, t], with x as the one at t."""
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
    """Return the minimum, of which `value` holds the negatives; begin with `reset(value, time, t, -x)`."""
    return -windowed_max(value, time, window, t, -x)
