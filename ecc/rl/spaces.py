"""Gymnasium's spaces of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.rl.intervals import Interval
from ecc.rl.requirements import require
from ecc.rl.task import Task

require("gymnasium")
from gymnasium.spaces import Box  # noqa: E402

__all__ = ["action_box", "check_actions", "features_of", "observation_box"]


def action_box(task: Task) -> Any:
    """Return the space of actions: one number.

    Parameters
    ----------
    task : Task
    """
    return Box(np.float32(task.act.low), np.float32(task.act.high), (1,), np.float32)


def observation_box(task: Task) -> Any:
    """Return the space of observations: the features of each interval of the history, oldest first.

    Parameters
    ----------
    task : Task
    """
    n = len(features_of(task.observe(Interval._make([1.0] * len(Interval._fields)))))
    low, high = (np.full(n, limit, np.float32) for limit in (-np.inf, np.inf))
    if task.low is not None and task.high is not None:
        low, high = np.array(task.low, np.float32), np.array(task.high, np.float32)
        if low.shape != (n,) or not (low < high).all():
            raise ValueError(
                f"low and high must be one number per feature ({n}), low < high, got {shown(low)} and {shown(high)}"
            )
    return Box(np.tile(low, task.history), np.tile(high, task.history), dtype=np.float32)


def features_of(features: Sequence[Any]) -> Sequence[Any]:
    """Return the result of an observation, or raise an error if it is not a sequence of numbers.

    Parameters
    ----------
    features : sequence of float
    """
    shape = np.shape(features)
    if len(shape) != 1 or shape == (0,):
        raise TypeError(f"observe must return a sequence of numbers, got shape {shape}")
    return features


def check_actions(values: NDArray[np.float64], task: Task) -> None:
    """Refuse actions outside of their range.

    Parameters
    ----------
    values : ndarray of float
    task : Task

    Raises
    ------
    ValueError
        If a value is outside of the range, or not a number.
    """
    low, high = task.act.low, task.act.high
    inside = (values >= low) & (values <= high)
    if not inside.all():
        raise ValueError(f"action must be from {low:g} to {high:g}, got {values[~inside].flat[0]:g}")
