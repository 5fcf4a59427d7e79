"""Environments by name."""

from __future__ import annotations

from typing import Any, overload

from ecc._support.arguments import check_arguments, nearest, shown
from ecc.rl import aurora, orca
from ecc.rl.environment import Environment
from ecc.rl.vector import VectorEnvironment

__all__ = ["make"]

_TASKS = {"aurora": aurora.task, "orca": orca.task}


@overload
def make(name: str, num_envs: None = None, threads: int | None = None, **options: Any) -> Environment: ...
@overload
def make(name: str, num_envs: int, threads: int | None = None, **options: Any) -> VectorEnvironment: ...
@check_arguments
def make(
    name: str, num_envs: int | None = None, threads: int | None = None, **options: Any
) -> Environment | VectorEnvironment:
    """Return an environment of the literature.

    Parameters
    ----------
    name : str
        "aurora": pacing rate of a flow, as in Jay et al., ICML 2019 (`ecc.rl.aurora`); or "orca": window of a CUBIC
        flow every 20 ms, as in Abbasloo et al., SIGCOMM 2020 (`ecc.rl.orca`).
    num_envs : int, >= 1, or None
        Number of environments in a `VectorEnvironment`. None: a single `Environment`.
    threads : int, >= 1, or None
        Number of threads of a vector environment. None: one per core.
    **options : object
        Fields of `Task` to replace, for example steps=100. For "aurora" also `slips`: deviations of the original
        program to restore, see `ecc.rl.aurora.task`.

    Returns
    -------
    Environment or VectorEnvironment

    Raises
    ------
    ValueError, TypeError
        An unknown name or option, or a bad value.
    EccError
        If gymnasium is not installed.

    Examples
    --------
    >>> import ecc
    >>> environment = ecc.rl.make("aurora")
    >>> environment.observation_space.shape, environment.action_space.shape
    ((30,), (1,))
    """
    if name not in _TASKS:
        raise ValueError(
            f"name must be among {', '.join(_TASKS)}, got {shown(name)}{nearest(name, dict.fromkeys(_TASKS, ''))}"
        )
    task = _TASKS[name](**options)
    if num_envs is None:
        if threads is not None:
            raise ValueError(f"threads needs num_envs, got threads={threads}")
        return Environment(task)
    return VectorEnvironment(task, num_envs, threads)
