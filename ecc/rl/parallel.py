"""Several learning flows in one network, with PettingZoo's parallel interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

for _package in ("gymnasium", "pettingzoo"):
    require(_package)
from gymnasium.utils import seeding  # noqa: E402
from pettingzoo import ParallelEnv  # noqa: E402

__all__ = ["ParallelEnvironment"]

_Observation = NDArray[np.float32]


class ParallelEnvironment(ParallelEnv[str, _Observation, NDArray[np.float32]]):  # type: ignore[misc]
    """An environment in which each agent controls one flow of the same network.

    All agents act at the same times: a step lasts as long as the longest interval of the agents' tasks. The first
    observation follows the warmup of the agent that starts last.

    Parameters
    ----------
    scenario : Task, Scenario, sequence of Scenario, or callable
        A task, or its scenarios; see `Task`.
    flows : sequence of int
        Indices of the learning flows, different. Their agents are "flow_0" and so on.
    **options : object
        Fields of `Task` except flow, as for `Environment`.

    Raises
    ------
    TypeError, ValueError
        An unknown option or a bad value.
    EccError
        If gymnasium or pettingzoo is not installed.

    Examples
    --------
    >>> import ecc
    >>> network = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"] * 2, buffer="50 kB")
    >>> scenario = ecc.Scenario(network, ecc.models.ConstantRate("4 Mb/s"), duration=60.0)
    >>> environment = ecc.rl.ParallelEnvironment(scenario, flows=(0, 1))
    >>> observations, _ = environment.reset(seed=1)
    >>> sorted(environment.step({agent: [0.0] for agent in environment.agents})[1])
    ['flow_0', 'flow_1']
    """

    metadata: dict[str, Any] = {"name": "ecc", "render_modes": []}

    def __init__(self, scenario: Any, flows: Sequence[int] = (0, 1), **options: Any) -> None:
        self.task: Task = task_of(scenario, options)
        if isinstance(flows, str) or not isinstance(flows, Sequence) or not flows or len(set(flows)) != len(flows):
            raise ValueError(f"flows must be different indices, got {shown(flows)}")
        self._flows = [as_count(flow, "flows") for flow in flows]
        self.possible_agents = [f"flow_{flow}" for flow in self._flows]
        self.agents: list[str] = []
        self._index = {agent: k for k, agent in enumerate(self.possible_agents)}
        self._action_space, self._observation_space = action_box(self.task), observation_box(self.task)
        self.observation_spaces = dict.fromkeys(self.possible_agents, self._observation_space)
        self.action_spaces = dict.fromkeys(self.possible_agents, self._action_space)
        self._rows = np.argsort(np.argsort(self._flows))  # a batch observes flows in increasing order
        self._random = seeding.np_random()[0]
        self._batch: RunBatch | None = None
        self.intervals: dict[str, Interval] = {}

    def observation_space(self, agent: str) -> Any:
        """Return the space of the observations of an agent.

        Parameters
        ----------
        agent : str
            For example "flow_0".
        """
        return self._of(agent, self.observation_spaces)

    def action_space(self, agent: str) -> Any:
        """Return the space of the actions of an agent.

        Parameters
        ----------
        agent : str
            For example "flow_0".
        """
        return self._of(agent, self.action_spaces)

    def _of(self, agent: str, values: dict[str, Any]) -> Any:
        if not isinstance(agent, str) or agent not in values:
            raise ValueError(f"agent must be among {', '.join(values)}, got {shown(agent)}")
        return values[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, _Observation], dict[str, dict[str, Any]]]:
        """Begin an episode, and return the first observations and empty infos by agent.

        Parameters
        ----------
        seed : int, optional
            Seed of the random choices; None: they continue.
        options : dict, optional
            Unused: PettingZoo's interface has it.
        """
        if seed is not None:
            self._random = seeding.np_random(as_count(seed, "seed", bits=64))[0]
        task = self.task
        self.scenario: Scenario = task._draw(self._random)
        network = self.scenario.network
        if max(self._flows) >= network.n_flows:
            raise ValueError(f"flows must be < {network.n_flows}, the flows of the network, got {self._flows}")
        if self._batch is None:
            self._batch = RunBatch([self.scenario], flows=tuple(self._flows), act=task.act.word, threads=1)
        self._batch.restart(0, self.scenario)
        rtts = network.rtts[self._flows]
        starts = [float(network.flows[flow].start) for flow in self._flows]
        self._trackers = [Tracker(float(rtt)) for rtt in rtts]
        self.agents, self._steps = [*self.possible_agents], 0
        features = self._run(max(start + task.warmup * rtt for start, rtt in zip(starts, rtts, strict=True)))
        self._histories = [np.tile(np.array(row, np.float32), (task.history, 1)) for row in features]
        return self._observed(), {agent: {} for agent in self.agents}

    def _run(self, until: float) -> list[Sequence[Any]]:
        """Run the packets up to a time, and return the features of all flows."""
        assert self._batch is not None
        self._batch.step(until)
        if self._batch.failures:
            raise NativeError(self._batch.failures[0])
        rows = self._batch.observations.view(np.float64).reshape(len(self._flows), -1)[self._rows].tolist()
        read = [tracker.read(row) for tracker, row in zip(self._trackers, rows, strict=True)]
        self.intervals = dict(zip(self.possible_agents, read, strict=True))
        return [self.task.observe(interval) for interval in read]

    def _observed(self) -> dict[str, _Observation]:
        return {agent: self._histories[self._index[agent]].reshape(-1).copy() for agent in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Apply an action of each agent, and run one interval.

        Parameters
        ----------
        actions : mapping
            Agent -> its action, an array of one number.

        Returns
        -------
        observations, rewards, terminations, truncations, infos : dict
            Values by agent. Agents whose flow has ended are absent from then on.

        Raises
        ------
        ValueError
            A missing or unknown agent, or an action out of range.
        EccError
            If no episode has begun, or a hook failed.
        """
        if not self.agents or self._batch is None:
            raise EccError("reset must be called before the first step and after the end of an episode")
        if not isinstance(actions, Mapping) or set(actions) != set(self.agents):
            raise ValueError(f"actions must be those of {', '.join(self.agents)}, got {shown(actions)}")
        task, agents = self.task, self.agents
        try:
            values = np.array([np.asarray(actions[agent], np.float64).reshape(1) for agent in agents])
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"actions must be arrays of one number, got {shown(actions)}") from None
        check_actions(values, task)
        last = [self.intervals[agent] for agent in agents]
        for agent, value, interval in zip(agents, values[:, 0].tolist(), last, strict=True):
            self._batch.actions[0, self._index[agent]] = task.act.apply(value, interval)
        lengths = [task.interval(interval) if callable(task.interval) else task.interval for interval in last]
        features = self._run(last[0].now + max(lengths))
        self._steps += 1
        for history, row in zip(self._histories, features, strict=True):
            history[:-1] = history[1:]
            history[-1] = row
        observations = self._observed()
        rewards = {agent: float(task.reward(self.intervals[agent])) for agent in agents}
        is_over = self._steps >= task.steps or self.intervals[agents[0]].now >= self.scenario.duration
        terminations = {agent: self.intervals[agent].active == 0.0 for agent in agents}
        truncations = dict.fromkeys(agents, is_over)
        self.agents = [agent for agent in agents if not (is_over or terminations[agent])]
        return observations, rewards, terminations, truncations, {agent: {} for agent in agents}

    def close(self) -> None:
        """Release the memory of the run; `reset` begins again."""
        self._batch, self.agents = None, []
