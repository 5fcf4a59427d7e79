"""Learning tasks: paths, observation, reward, action, and the length of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import as_count, as_number, as_time
from ecc.rl.intervals import Interval
from ecc.scenario import Scenario

__all__ = ["Action", "Paths", "Task"]

Paths = Scenario | Sequence[Scenario] | Callable[[np.random.Generator], Scenario]
Observe = Callable[[Interval], Sequence[Any]]
Reward = Callable[[Interval], Any]
MAX_HISTORY, MAX_STEPS = 1000, 10**7


@check_arguments
@dataclass(frozen=True)
class Action:
    """Effect of an action on a flow.

    Parameters
    ----------
    word : str
        "rate" [bit/s] or "window" [bytes]: the value that the action sets; or the name of a field of the protocol's
        `FlowState`.
    apply : callable
        Function of the action and the last `Interval` that returns the new value. It receives floats or arrays, as an
        `Interval` does.
    low, high : float
        Minimum and maximum action, finite, low < high. Other actions are refused.

    Raises
    ------
    ValueError, TypeError
        A value out of range, or an `apply` that cannot be called.

    Examples
    --------
    >>> from ecc.rl import Action
    >>> double = Action("window", lambda action, interval: interval.window * 2.0**action)
    >>> double.low, double.high
    (-1.0, 1.0)
    """

    word: str
    apply: Callable[[Any, Interval], Any]
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.word, str) or not self.word.isidentifier():
            raise ValueError(f"word must be 'rate', 'window' or the name of a field, got {shown(self.word)}")
        _check_callable(self.apply, "apply")
        low, high = as_number(self.low, "low"), as_number(self.high, "high")
        if not low < high:
            raise ValueError(f"low must be < high ({high:g}), got {low:g}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@check_arguments
@dataclass(frozen=True)
class Task:
    """A learning task: everything that defines an environment except the number of copies and threads.

    Parameters
    ----------
    scenario : Scenario, sequence of Scenario, or callable
        The scenario of all episodes, with a new seed in each; or scenarios of which each episode draws one; or a
        function that takes a `numpy.random.Generator` and returns the scenario of an episode.
    observe : callable
        Function of an `Interval` that returns the observed features as a sequence.
    reward : callable
        Function of an `Interval` that returns the reward of the step.
    act : Action
        Meaning of the action.
    interval : float or callable, s
        Length of a step > 0, for example 0.02; or a function of the last `Interval` that returns it.
    flow : int, >= 0
        Index of the learning flow. Its protocol sends as usual, and an action overwrites the rate, the window or a
        field of its state.
    steps : int, >= 1
        Number of steps after which an episode is truncated. It also ends with the scenario's duration or the flow.
    history : int, from 1 to 1000
        Number of intervals in an observation, oldest first. At the start all are the first interval.
    warmup : float, > 0
        Time from the start of the flow to the first observation, in RTTs without queues.
    low, high : sequence of float, optional
        Bounds of the features, for the observation space. None: unbounded.

    Raises
    ------
    ValueError, TypeError
        A bad value; the message is one line that names the field.

    Examples
    --------
    >>> from ecc.rl import aurora
    >>> aurora.task().steps
    400
    """

    scenario: Any
    observe: Observe
    reward: Reward
    act: Action
    interval: Any
    flow: int = 0
    steps: int = 400
    history: int = 10
    warmup: float = 3.0
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None

    def __post_init__(self) -> None:
        _check_paths(self.scenario)
        _check_callable(self.observe, "observe")
        _check_callable(self.reward, "reward")
        if not isinstance(self.act, Action):
            raise TypeError(f"act must be an Action, got {shown(self.act)}")
        if not callable(self.interval):
            object.__setattr__(self, "interval", as_time(self.interval, "interval", positive=True))
        object.__setattr__(self, "flow", as_count(self.flow, "flow"))
        for name, limit in (("steps", MAX_STEPS), ("history", MAX_HISTORY)):
            value = as_count(getattr(self, name), name, minimum=1)
            if value > limit:
                raise ValueError(f"{name} must be <= {limit}, got {value}")
            object.__setattr__(self, name, value)
        bounds: tuple[Any, Any] = (self.low, self.high)
        if (self.low is None) != (self.high is None) or np.shape(bounds[0]) != np.shape(bounds[1]):
            raise ValueError(
                f"low and high must have one number per feature, got {shown(self.low)} and {shown(self.high)}"
            )
        object.__setattr__(self, "warmup", as_number(self.warmup, "warmup", positive=True))

    def _draw(self, rng: np.random.Generator) -> Scenario:
        """Return the scenario of an episode.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the random choices: one episode draws from it once.

        Raises
        ------
        TypeError
            If the function of the task returns something else.
        ValueError
            If the scenario has no such flow.
        """
        if isinstance(self.scenario, Scenario):
            scenario = self.scenario._with_seed(int(rng.integers(2**63)))
        elif callable(self.scenario):
            scenario = self.scenario(rng)
            if not isinstance(scenario, Scenario):
                raise TypeError(f"scenario must return a Scenario, got {shown(scenario)}")
        else:
            chosen = self.scenario[int(rng.integers(len(self.scenario)))]
            scenario = chosen._with_seed(int(rng.integers(2**63)))
        if self.flow >= scenario.network.n_flows:
            raise ValueError(f"flow must be < {scenario.network.n_flows}, the flows of the network, got {self.flow}")
        return scenario


def _check_callable(value: object, name: str) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {shown(value)}")


def _check_paths(value: object) -> None:
    """Refuse what is neither a scenario, nor scenarios, nor a function."""
    if isinstance(value, Scenario) or callable(value):
        return
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise TypeError(f"scenario must be a Scenario, a sequence of them or a function, got {shown(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, Scenario):
            raise TypeError(f"scenario must be a Scenario, got {shown(item)} (item {index})")
