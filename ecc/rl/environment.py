"""A single environment, with Gymnasium's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import as_count
from ecc.errors import EccError, NativeError
from ecc.packet import RunBatch
from ecc.rl.defaults import task_of
from ecc.rl.intervals import Interval
from ecc.rl.requirements import require
from ecc.rl.spaces import action_box, check_actions, observation_box
from ecc.rl.task import Task
from ecc.rl.tracker import Tracker
from ecc.scenario import Scenario

require("gymnasium")
import gymnasium  # noqa: E402

__all__ = ["Environment"]

_Observation = NDArray[np.float32]


class Environment(gymnasium.Env[_Observation, NDArray[np.float32]]):
    """An environment in which an agent controls one flow of a packet run.

    A step applies the action, runs the packets of one interval, and observes the flow. An episode is truncated after
    the steps of the task or the duration of the scenario, and terminates when the flow ends.

    An environment can be copied (`copy.deepcopy`) and pickled within an episode: the copy repeats the actions of the
    episode and continues identically, with the functions of the task imported by name.

    Parameters
    ----------
    scenario : Task, Scenario, sequence of Scenario, or callable
        A task, or its scenarios; see `Task`.
    **options : object
        Fields of `Task`, for example flow, observe, reward, act, interval and steps. Functions that are not given are
        those of Aurora.

    Raises
    ------
    TypeError, ValueError
        An unknown option or a bad value.
    EccError
        If gymnasium is not installed.

    Examples
    --------
    >>> import ecc
    >>> network = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"], buffer="50 kB")
    >>> scenario = ecc.Scenario(network, ecc.models.ConstantRate("5 Mb/s"), duration=60.0)
    >>> environment = ecc.rl.Environment(scenario, steps=100)
    >>> observation, _ = environment.reset(seed=1)
    >>> observation, reward, terminated, truncated, _ = environment.step([10.0])
    >>> observation.shape, round(environment.interval.rate / 1e6, 3)
    ((30,), 6.25)
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, scenario: Any, **options: Any) -> None:
        self.task: Task = task_of(scenario, options)
        self.action_space = action_box(self.task)
        self.observation_space = observation_box(self.task)
        self._batch: RunBatch | None = None
        self._scenario: Scenario | None = None
        self._interval: Interval | None = None
        self._actions = np.zeros(self.task.steps)
        self._steps, self._is_over = 0, True

    @property
    def scenario(self) -> Scenario:
        """Scenario of the episode."""
        if self._scenario is None:
            raise EccError("reset must be called before the first step")
        return self._scenario

    @property
    def interval(self) -> Interval:
        """Statistics of the last step."""
        if self._interval is None:
            raise EccError("reset must be called before the first step")
        return self._interval

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Observation, dict[str, Any]]:
        """Begin an episode, and return its first observation.

        Parameters
        ----------
        seed : int, optional
            Seed of the random choices of this episode and the next ones; None: they continue.
        options : dict, optional
            Unused: Gymnasium's interface has it.

        Returns
        -------
        observation : ndarray of float32, shape (history*n_features,)
            The features of the first interval, repeated.
        info : dict
            Empty.
        """
        super().reset(seed=None if seed is None else as_count(seed, "seed", bits=64))
        self._begin = self.np_random.bit_generator.state
        self._start()
        return self._observed(), {}

    def _start(self) -> None:
        task = self.task
        self._scenario = scenario = task._draw(self.np_random)
        if self._batch is None:
            self._batch = RunBatch([scenario], flows=(task.flow,), act=task.act.word, threads=1)
        self._batch.restart(0, scenario)
        self._row = self._batch.observations.view(np.float64).reshape(-1)
        self._end = float(scenario.duration)
        rtt = float(scenario.network.rtts[task.flow])
        self._tracker = Tracker(rtt)
        self._steps, self._is_over = 0, False
        features = self._run(float(scenario.network.flows[task.flow].start) + task.warmup * rtt)
        self._history = np.tile(np.array(features, np.float32), task.history)
        self._n = len(features)

    def _run(self, until: float) -> Any:
        """Run the packets up to a time, and return the features of the interval."""
        batch = self._batch
        assert batch is not None
        batch.step(until)
        if batch.failures:
            raise NativeError(batch.failures[0])
        self._interval = interval = self._tracker.read(self._row.tolist())
        return self.task.observe(interval)

    def _observed(self) -> _Observation:
        return self._history.copy()

    def step(self, action: Any) -> tuple[_Observation, float, bool, bool, dict[str, Any]]:
        """Apply an action, and run one interval.

        Parameters
        ----------
        action : array_like of float, shape (1,)
            Action, in the range of the task.

        Returns
        -------
        observation : ndarray of float32, shape (history*n_features,)
        reward : float
        terminated : bool
            True if the flow has ended.
        truncated : bool
            True if the steps of the task or the duration of the scenario have passed.
        info : dict
            Empty.

        Raises
        ------
        ValueError
            An action out of range.
        EccError
            If the episode is over, or a hook failed.
        """
        if self._is_over:
            raise EccError("reset must be called after the end of an episode")
        try:
            value, n_values = float(action[0]), len(action)
        except (TypeError, ValueError, OverflowError, LookupError):
            n_values = 0
        if n_values != 1:
            raise TypeError(f"action must be one number in an array, got {shown(action)}")
        reward = self._take(value)
        interval = self._interval
        assert interval is not None
        terminated = interval.active == 0.0
        truncated = self._steps >= self.task.steps or interval.now >= self._end
        self._is_over = terminated or truncated
        return self._observed(), reward, terminated, truncated, {}

    def _take(self, action: float) -> float:
        """Apply an action, run an interval, and return the reward."""
        task, last, batch = self.task, self._interval, self._batch
        assert last is not None and batch is not None
        if not task.act.low <= action <= task.act.high:
            check_actions(np.array([action]), task)
        batch.actions[0, 0] = task.act.apply(action, last)
        length = task.interval(last) if callable(task.interval) else task.interval
        if not length > 0.0:
            raise ValueError(f"interval must be > 0 s, got {length}")
        features = self._run(last.now + length)
        self._actions[self._steps] = action
        self._steps += 1
        history, n = self._history, self._n
        history[:-n] = history[n:]
        history[-n:] = features
        return float(task.reward(self._interval))  # type: ignore[arg-type]

    def close(self) -> None:
        """Release the memory of the run; `reset` begins again."""
        self._batch, self._is_over = None, True

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_batch", "_row", "_tracker", "_scenario", "_interval", "_history"):
            state.pop(name, None)
        state["_actions"] = self._actions[: self._steps].copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _batch=None, _scenario=None, _interval=None)
        actions, is_over = state["_actions"], self._is_over
        self._actions = np.zeros(self.task.steps)
        if "_begin" not in state:
            return
        later = self.np_random.bit_generator.state
        self.np_random.bit_generator.state = self._begin
        self._start()
        for action in actions.tolist():
            self._take(action)
        self._is_over = is_over
        self.np_random.bit_generator.state = later
