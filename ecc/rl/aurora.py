"""The environment of Aurora (Jay et al., ICML 2019): a paced flow whose rate changes by a factor every half RTT.

    a >= 0: x <- x (1 + 0.025 a);   a < 0: x <- x/(1 - 0.025 a);   40 <= x <= 1000 packets/s
    observation: (D2 - D1)/t, D/min D, x_s/x_d         of each of the last 10 intervals
    reward:      0.001 (10 x_d - 1000 D - 2000 L)      x_d in packets/s, D in s

Symbol  Name                                                                Unit
a       action                                                              1
x       pacing rate                                                         packets/s
x_s     sending rate of the interval                                        packets/s
x_d     delivery rate of the interval                                       packets/s
D       mean RTT of the interval; D1, D2: of its two halves                 s
t       duration of the interval: half of the last D                        s
L       share lost                                                          1

Differences from the original program, each of which `make("aurora", slips=...)` can restore (`SLIPS`): its delivery
rate lacks one packet; an interval without ACKs has an RTT of 0, which is rewarded; the RTT has no service time; random
losses happen before the queue and use no capacity. Not restored: a lost packet was reported after a full RTT, as by its
ACK; here the first ACK after the loss reports it. An interval ended with the first event after its end. Minimum RTTs
were kept in a dictionary of all connections, which grew in each episode and changed no result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc.models import ConstantRate
from ecc.models.shared.policies import GAIN, MAX_SEND_RATIO
from ecc.network import Flow, Link, Network
from ecc.network.impairments import RandomLoss
from ecc.rl.intervals import Interval, ratio
from ecc.rl.ranges import checked_range
from ecc.rl.task import Action, Task
from ecc.scenario import Scenario

__all__ = ["ACTION", "FUNCTIONS", "HIGH", "LOW", "SLIPS", "Paths", "interval", "observe", "reward", "task"]

PACKET = 1500
"""Size of a packet [bytes]."""
MIN_RATE, MAX_RATE = 8.0 * PACKET * 40.0, 8.0 * PACKET * 1000.0
DURATION = 1e6
"""Duration of scenarios [s]: longer than any episode of 400 steps."""
SLIPS = ("short delivery", "silent interval", "no service time", "loss before queue")
"""Deviations of the original program from its description that `task` can restore."""
LOW, HIGH = (-100.0, 0.0, 0.0), (100.0, 10_000.0, MAX_SEND_RATIO)
"""Bounds of the features in the observation space."""


def observe(interval: Interval) -> tuple[Any, Any, Any]:
    """Return latency inflation, latency ratio and send ratio of an interval.

    Parameters
    ----------
    interval : Interval

    Returns
    -------
    tuple of float or ndarray
        Change of the RTT per time, mean RTT in units of its minimum, and sending rate in units of the delivery rate.
        The last is 1 if nothing was delivered.
    """
    return interval.gradient, interval.rtt / interval.min_mean_rtt, _send_ratio(interval.sent, interval.delivered)


def reward(interval: Interval) -> Any:
    """Return 0.001 (10 throughput [packets/s] - 1000 RTT [s] - 2000 loss).

    Parameters
    ----------
    interval : Interval
    """
    return _reward(interval.delivery_rate, interval.rtt, interval.loss)


def change_rate(action: Any, interval: Interval) -> Any:
    """Return the pacing rate after an action [bit/s].

    Parameters
    ----------
    action : float or ndarray
    interval : Interval
    """
    if isinstance(action, float):
        factor = 1.0 + GAIN * action if action >= 0.0 else 1.0 / (1.0 - GAIN * action)
        return min(max(interval.rate * factor, MIN_RATE), MAX_RATE)
    up = 1.0 + GAIN * np.maximum(action, 0.0)
    return np.clip(
        interval.rate * np.where(action >= 0.0, up, 1.0 / (1.0 - GAIN * np.minimum(action, 0.0))), MIN_RATE, MAX_RATE
    )


def interval(last: Interval) -> Any:
    """Return the length of the next step [s]: half of the mean RTT.

    Parameters
    ----------
    last : Interval
    """
    return 0.5 * last.rtt


ACTION = Action("rate", change_rate, -40.0, 40.0)
"""A factor from 1/2 to 2; the original has no bounds."""
FUNCTIONS: dict[str, Any] = {"observe": observe, "reward": reward, "act": ACTION, "interval": interval}
"""Default functions of a `Task`."""


def _send_ratio(sent: Any, delivered: Any) -> Any:
    """Return sent/delivered, or 1 if it is not below 1000, as in the original."""
    value = ratio(sent, delivered)
    if isinstance(value, float):
        return value if value < MAX_SEND_RATIO else 1.0
    return np.where(value < MAX_SEND_RATIO, value, 1.0)


def _reward(rate: Any, rtt: Any, loss: Any) -> Any:
    return 0.01 * rate / (8.0 * PACKET) - rtt - 2.0 * loss


@dataclass(frozen=True)
class _Observe:
    """Observation with slips of the original."""

    slips: frozenset[str]

    def __call__(self, interval: Interval) -> tuple[Any, Any, Any]:
        gradient, latency, send = observe(interval)
        if "short delivery" in self.slips:
            send = _send_ratio(interval.sent, interval.delivered - PACKET)
        if "silent interval" in self.slips:
            latency = latency * np.minimum(interval.n_rtts, 1.0)
        return gradient, latency, send


@dataclass(frozen=True)
class _Reward:
    """Reward with slips of the original."""

    slips: frozenset[str]

    def __call__(self, interval: Interval) -> Any:
        rate, rtt = interval.delivery_rate, interval.rtt
        if "short delivery" in self.slips:
            rate = ratio(8.0 * (interval.delivered - PACKET), interval.duration, 0.0)
        if "silent interval" in self.slips:
            rtt = rtt * np.minimum(interval.n_rtts, 1.0)
        return _reward(rate, rtt, interval.loss)


@check_arguments
@dataclass(frozen=True)
class Paths:
    """Distribution of the paths on which Aurora was trained: a function of a random generator.

    Parameters
    ----------
    capacity : pair of float, packets/s, > 0
        Range of the capacity, uniform; packets have 1500 bytes.
    delay : pair of float, s, > 0
        Range of the propagation delay in each direction, uniform.
    queue : pair of float, >= 0
        Range of the exponent u, uniform: the buffer has room for 1 + floor(e^u) packets.
    loss : pair of float, from 0 to 1
        Range of the probability of random loss of data, uniform.
    rate : pair of float, > 0
        Range of the initial rate in units of the capacity, uniform. The rate is clipped as after an action.
    slips : sequence of str
        Of `SLIPS`, "no service time" and "loss before queue" change the paths.

    Raises
    ------
    ValueError, TypeError
        A bad range or an unknown slip.

    Examples
    --------
    >>> import numpy as np
    >>> from ecc.rl import aurora
    >>> scenario = aurora.Paths(capacity=(200, 200), delay=(0.1, 0.1))(np.random.default_rng(1))
    >>> scenario.network.capacities, scenario.network.rtts
    (array([2400000.]), array([0.2]))
    """

    capacity: Sequence[float] = (100.0, 500.0)
    delay: Sequence[float] = (0.05, 0.5)
    queue: Sequence[float] = (0.0, 8.0)
    loss: Sequence[float] = (0.0, 0.05)
    rate: Sequence[float] = (0.3, 1.5)
    slips: Sequence[str] = ()

    def __post_init__(self) -> None:
        limits = {"capacity": 1e12, "delay": 1e3, "queue": 20.0, "loss": 1.0, "rate": 1e6}
        for name, limit in limits.items():
            object.__setattr__(
                self, name, checked_range(getattr(self, name), name, limit, zero=name in ("queue", "loss"))
            )
        object.__setattr__(self, "slips", _slips(self.slips))

    def __call__(self, rng: np.random.Generator) -> Scenario:
        """Return a scenario with one flow.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the random choices.
        """
        capacity, delay = _uniform(rng, self.capacity), _uniform(rng, self.delay)
        room, loss = 1 + math.floor(math.exp(_uniform(rng, self.queue))), _uniform(rng, self.loss)
        rate = min(max(8.0 * PACKET * capacity * _uniform(rng, self.rate), MIN_RATE), MAX_RATE)
        links = [Link(8.0 * PACKET * capacity, delay, buffer=PACKET * room)]
        if "no service time" in self.slips:
            links = [Link(links[0].capacity, max(0.0, delay - 0.5 / capacity), buffer=PACKET * room)]
        if "loss before queue" in self.slips:  # on the wire of a link that is too fast for queues
            links.append(Link(1e3 * links[0].capacity, 0.0))
        network = Network(links, [Flow([*range(len(links))][::-1], packet_size=PACKET)])
        losses = [RandomLoss(loss, link=len(links) - 1)]
        seed = int(rng.integers(2**63))
        return Scenario(network, ConstantRate(rate), DURATION, seed=seed, impairments=losses, phase_jitter=False)


def task(slips: Sequence[str] | str = (), **options: Any) -> Task:
    """Return the learning task of Aurora.

    Parameters
    ----------
    slips : sequence of str, or "all"
        Deviations of the original program to restore, from `SLIPS`.
    **options : object
        Fields of the `Task` to replace.

    Returns
    -------
    Task
        Task with 400 steps per episode and a history of 10 intervals.

    Raises
    ------
    ValueError
        An unknown slip.

    Examples
    --------
    >>> from ecc.rl import aurora
    >>> aurora.task(slips="all").steps
    400
    """
    chosen = SLIPS if isinstance(slips, str) and slips == "all" else _slips(slips)
    values: dict[str, Any] = {"scenario": Paths(slips=chosen), "low": LOW, "high": HIGH} | FUNCTIONS
    if set(chosen) & {"short delivery", "silent interval"}:
        values |= {"observe": _Observe(frozenset(chosen)), "reward": _Reward(frozenset(chosen))}
    return Task(**(values | options))


def _uniform(rng: np.random.Generator, limits: Sequence[float]) -> float:
    low, high = limits
    return rng.uniform(low, high)


def _slips(slips: Sequence[str]) -> tuple[str, ...]:
    if isinstance(slips, str) or not isinstance(slips, Sequence):
        raise TypeError(f"slips must be a sequence of {', '.join(SLIPS)}, got {shown(slips)}")
    for slip in slips:
        if slip not in SLIPS:
            raise ValueError(f"slips must be among {', '.join(SLIPS)}, got {shown(slip)}")
    return tuple(slips)
