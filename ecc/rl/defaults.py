"""The task that the arguments of an environment describe: those of Aurora, unless they are given."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ecc._support.arguments import nearest, shown
from ecc.rl import aurora
from ecc.rl.task import Task

__all__ = ["task_of"]


def task_of(scenario: Any, options: dict[str, Any]) -> Task:
    """Return the task of the arguments of an environment.

    Parameters
    ----------
    scenario : Task, Scenario, sequence of Scenario, or callable
        A task, of which options replace fields, or its scenarios.
    options : dict
        Further fields of the task.

    Raises
    ------
    TypeError
        An unknown option.
    """
    known = {field.name: "" for field in fields(Task) if field.name != "scenario"}
    for name in options:
        if name not in known:
            raise TypeError(f"options must be among {', '.join(known)}, got {shown(name)}{nearest(name, known)}")
    if isinstance(scenario, Task):
        return replace(scenario, **options)
    bounds = {"low": aurora.LOW, "high": aurora.HIGH} if "observe" not in options else {}
    return Task(scenario, **(aurora.FUNCTIONS | bounds | options))
