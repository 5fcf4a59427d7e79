"""Many environments that advance together in threads of C, with Gymnasium's vector interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import as_count
from ecc.errors import EccError, NativeError
from ecc.packet import RunBatch
from ecc.rl.defaults import task_of
from ecc.rl.intervals import Interval
from ecc.rl.spaces import action_box, check_actions, observation_box
from ecc.rl.task import Task
from ecc.rl.tracker import TrackerArray
from ecc.scenario import Scenario

__all__ = ["VectorEnvironment"]

MAX_ENVS = 100_000
_Observation = NDArray[np.float32]
_Flags = NDArray[np.bool_]
_Step = tuple[_Observation, NDArray[np.float64], _Flags, _Flags, dict[str, Any]]


class VectorEnvironment(VectorEnv[_Observation, NDArray[np.float32], NDArray[Any]]):
    """Environments of one task whose packets run in threads of C, in one call per step.

    An environment whose episode has ended begins the next one in the following step, which ignores its action and has
    the reward 0 (Gymnasium's autoreset mode "next step"). Environment k with seed s is equal to an `Environment` with
    seed s + k.

    Parameters
    ----------
    scenario : Task, Scenario, sequence of Scenario, or callable
        A task, or its scenarios; see `Task`.
    num_envs : int, from 1 to 100,000
        Number of environments.
    threads : int, >= 1, or None
        Number of threads. None: one per core.
    **options : object
        Fields of `Task`, as for `Environment`.

    Raises
    ------
    TypeError, ValueError
        An unknown option or a bad value.

    Examples
    --------
    >>> import ecc
    >>> environments = ecc.rl.make("aurora", num_envs=3)
    >>> observations, _ = environments.reset(seed=1)
    >>> observations, rewards, terminated, truncated, _ = environments.step([[0.0]] * 3)
    >>> observations.shape, rewards.shape
    ((3, 30), (3,))
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, scenario: Any, num_envs: int, threads: int | None = None, **options: Any) -> None:
        self.task: Task = task_of(scenario, options)
        self.num_envs = n = as_count(num_envs, "num_envs", minimum=1)
        if n > MAX_ENVS:
            raise ValueError(f"num_envs must be <= {MAX_ENVS}, got {n}")
        self.threads = None if threads is None else as_count(threads, "threads", minimum=1)
        self.single_action_space = action_box(self.task)
        self.single_observation_space = box = observation_box(self.task)
        self.action_space = batch_space(self.single_action_space, n)
        self.observation_space = batch_space(self.single_observation_space, n)
        self._batch: RunBatch | None = None
        self._randoms = [seeding.np_random()[0] for _ in range(n)]
        self._begins: list[Any] = [None] * n
        self._actions = np.zeros((self.task.steps, n))
        self._history = np.zeros((n, self.task.history, len(box.low) // self.task.history), np.float32)
        self._steps, self._over = np.zeros(n, np.int64), np.ones(n, np.bool_)
        self._ends, self._base_rtts = np.zeros(n), np.zeros(n)
        self._tracker = TrackerArray(n)
        self._interval: Interval | None = None
        self.scenarios: list[Scenario] = []

    @property
    def interval(self) -> Interval:
        """Statistics of the last step, with one value per environment in each field."""
        if self._interval is None:
            raise EccError("reset must be called before the first step")
        return self._interval

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Observation, dict[str, Any]]:
        """Begin an episode in each environment, and return the first observations.

        Parameters
        ----------
        seed : int, sequence of int, or None
            Seed of the first environment, of which the others are the successors; or the seed of each. None: the
            random choices continue.
        options : dict, optional
            Unused: Gymnasium's interface has it.

        Returns
        -------
        observations : ndarray of float32, shape (num_envs, history*n_features)
        info : dict
            Empty.
        """
        for k, value in enumerate(_seeds(seed, self.num_envs)):
            if value is not None:
                self._randoms[k] = seeding.np_random(value)[0]
        self._over[:] = True
        until = np.zeros(self.num_envs)
        self._restart(until)
        self._run(until, np.ones(self.num_envs, np.bool_))
        self._over[:] = False
        return self._observed(), {}

    def step(self, actions: Any) -> tuple[_Observation, NDArray[np.float64], _Flags, _Flags, dict[str, Any]]:
        """Apply an action to each environment, and run one interval.

        Parameters
        ----------
        actions : array_like of float, shape (num_envs, 1)
            Actions, in the range of the task.

        Returns
        -------
        observations : ndarray of float32, shape (num_envs, history*n_features)
        rewards : ndarray of float, shape (num_envs,)
        terminated, truncated : ndarray of bool, shape (num_envs,)
        info : dict
            Empty.

        Raises
        ------
        ValueError
            An action out of range.
        EccError
            Before the first `reset`, or if a hook failed.
        """
        try:
            values = np.array(actions, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"actions must be numbers, got {shown(actions)}") from None
        if values.shape != (self.num_envs, 1):
            raise ValueError(f"actions must have the shape ({self.num_envs}, 1), got {values.shape}")
        return self._step(values[:, 0])

    def _step(self, actions: NDArray[np.float64], idle: _Flags | None = None) -> _Step:
        last, restarted = self.interval, self._over.copy()
        check_actions(actions[~restarted] if restarted.any() else actions, self.task)
        task, batch = self.task, self._batch
        assert batch is not None
        batch.actions[:, 0] = task.act.apply(actions, last)
        lengths = task.interval(last) if callable(task.interval) else np.full(self.num_envs, task.interval)
        if not (lengths > 0.0).all():
            raise ValueError(f"interval must be > 0 s, got {lengths.min()}")
        until = last.now + lengths
        if idle is not None:
            until[idle] = 0.0
            batch.actions[idle, 0] = np.nan
        self._actions[self._steps - (self._steps == task.steps), np.arange(self.num_envs)] = actions
        self._steps += 1
        if restarted.any():
            batch.actions[restarted, 0] = np.nan
            self._restart(until)
        self._run(until, restarted, idle)
        rewards = np.asarray(task.reward(self.interval), np.float64)
        terminated = self.interval.active == 0.0
        truncated = (self._steps >= task.steps) | (self.interval.now >= self._ends)
        rewards[restarted] = 0.0
        terminated &= ~restarted
        truncated &= ~restarted
        self._over = terminated | truncated if idle is None else np.zeros_like(restarted)
        return self._observed(), rewards, terminated, truncated, {}

    def _restart(self, until: NDArray[np.float64]) -> None:
        """Begin the next episode of environments whose episode is over; set the ends of their warmup."""
        which, task = np.flatnonzero(self._over), self.task
        indices: list[int] = which.tolist()
        for k in indices:
            self._begins[k] = self._randoms[k].bit_generator.state
        drawn = [task._draw(self._randoms[k]) for k in indices]
        if self._batch is None:
            self.scenarios = drawn
            self._batch = RunBatch(drawn, flows=(task.flow,), act=task.act.word, threads=self.threads)
        for k, scenario in zip(indices, drawn, strict=True):
            self.scenarios[k] = scenario
            self._batch.restart(k, scenario)
            self._base_rtts[k], self._ends[k] = scenario.network.rtts[task.flow], scenario.duration
            until[k] = float(scenario.network.flows[task.flow].start) + task.warmup * self._base_rtts[k]
        self._tracker.restart(which, self._base_rtts[which])
        self._steps[which] = 0

    def _run(self, until: NDArray[np.float64], restarted: _Flags, idle: _Flags | None = None) -> None:
        """Run the packets up to given times, and add the features of the intervals to the history."""
        batch = self._batch
        assert batch is not None
        batch.step(until)
        for k, message in batch.failures.items():
            raise NativeError(f"{message} (environment {k})")
        read = self._tracker.read(batch.observations.view(np.float64).reshape(self.num_envs, -1))
        if idle is not None:
            read = Interval._make(np.where(idle, *pair) for pair in zip(self.interval, read, strict=True))
        self._interval = read
        features = np.stack([np.asarray(x) for x in self.task.observe(self._interval)], axis=1)
        history = self._history
        if idle is None:
            history[:, :-1] = history[:, 1:]
            history[:, -1] = features
        else:
            history[~idle, :-1] = history[~idle, 1:]
            history[~idle, -1] = features[~idle]
        if restarted.any():
            history[restarted] = features[restarted, None, :]

    def _observed(self) -> _Observation:
        return self._history.reshape(self.num_envs, -1).copy()

    def close_extras(self, **kwargs: Any) -> None:
        """Release the memory of the runs.

        Parameters
        ----------
        **kwargs : object
            Unused: Gymnasium's interface has them.
        """
        self._batch = None
        self._interval = None

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_batch", "_interval", "_tracker", "scenarios"):
            state.pop(name)
        state["_actions"] = self._actions[: self._steps.max(initial=0)].copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _batch=None, _interval=None, scenarios=[], _tracker=TrackerArray(state["num_envs"]))
        if self._begins[0] is None:
            return
        n, recorded = self.num_envs, state["_actions"]
        steps, over = self._steps.copy(), self._over.copy()
        later = [random.bit_generator.state for random in self._randoms]
        for random, begin in zip(self._randoms, self._begins, strict=True):
            random.bit_generator.state = begin
        self._actions, self._history = np.zeros((self.task.steps, n)), np.zeros_like(self._history)
        self.reset()
        for k in range(int(steps.max(initial=0))):
            self._step(recorded[k], idle=steps <= k)
        self._steps, self._over = steps, over
        for random, state_after in zip(self._randoms, later, strict=True):
            random.bit_generator.state = state_after


def _seeds(seed: Any, n: int) -> list[int | None]:
    """Return the seed of each environment."""
    if seed is None:
        return [None] * n
    if not isinstance(seed, Sequence) or isinstance(seed, str | bytes):
        first = as_count(seed, "seed", bits=63)
        return [first + k for k in range(n)]
    if len(seed) != n:
        raise ValueError(f"seed must have one value per environment ({n}), got {shown(seed)}")
    return [None if value is None else as_count(value, "seed", bits=64) for value in seed]
