"""Environments for reinforcement learning, at the speed of the packet engine: Gymnasium and PettingZoo.

`make("aurora")` and `make("orca")` are two environments of the literature; `Environment` and `VectorEnvironment` take
any scenario, or a distribution of scenarios, and functions that compute observations, rewards and actions. They need
the extra `rl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy

if TYPE_CHECKING:
    from ecc.rl import aurora, orca
    from ecc.rl.environment import Environment
    from ecc.rl.intervals import Interval, ratio
    from ecc.rl.parallel import ParallelEnvironment
    from ecc.rl.registry import make
    from ecc.rl.task import Action, Task
    from ecc.rl.vector import VectorEnvironment

__all__ = [
    "Action",
    "Environment",
    "Interval",
    "ParallelEnvironment",
    "Task",
    "VectorEnvironment",
    "aurora",
    "make",
    "orca",
    "ratio",
]

_HOMES: dict[str, str | None] = {
    "Action": "task",
    "Environment": "environment",
    "Interval": "intervals",
    "ParallelEnvironment": "parallel",
    "Task": "task",
    "VectorEnvironment": "vector",
    "aurora": None,
    "make": "registry",
    "orca": None,
    "ratio": "intervals",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
