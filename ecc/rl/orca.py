"""The environment of Orca (Abbasloo et al., SIGCOMM 2020): a factor on the window of CUBIC every 20 ms.

    cwnd <- max(2, floor(floor(100 4^a) cwnd/100))   packets; CUBIC continues from this window
    m = min(1, 1.25 minRTT/sRTT)
    observation: x_d/M, min(10, x_p/M), 5 x_l/M, n/cwnd, t, minRTT/sRTT, m      of each of the last 10 intervals
    reward:      (x_d - 5 x_l)/M m

Symbol  Name                                                       Unit
a       action, from -1 to 1                                       1
cwnd    window                                                     packets
x_d     delivery rate of the interval                              bit/s
x_l     rate of losses found in the interval                       bit/s
x_p     pacing rate: 1.2 windows per sRTT, as in Linux             bit/s
M       maximum delivery rate of the episode                       bit/s
n       number of RTT samples of the interval                      1
t       duration of the interval                                   s
m       delay metric                                               1
minRTT  minimum RTT of the connection                              s
sRTT    smoothed RTT                                               s

The original lets CUBIC finish slow start, during which it multiplies the window by 1.1 instead. Here actions begin
after `warmup` RTTs, whether or not slow start has ended. The paths of its training are not part of its repository:
`Paths` is a choice of this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments
from ecc.models import CUBIC
from ecc.models.shared.policies import DELAY_MARGIN, INTERVAL, LOSS_WEIGHT, MAX_PACING, MIN_WINDOW, PACING
from ecc.network import Flow, Link, Network
from ecc.rl.intervals import Interval, ratio
from ecc.rl.ranges import checked_range
from ecc.rl.task import Action, Task
from ecc.scenario import Scenario

__all__ = ["ACTION", "HIGH", "LOW", "Paths", "observe", "reward", "task"]

PACKET = 1500
"""Size of a packet [bytes]."""
WARMUP = 10.0
DURATION = 600.0
LOW, HIGH = (0.0,) * 7, (1.0, 10.0, 1e4, 1e3, 1e3, 1.0, 1.0)
"""Bounds of the features in the observation space."""


def delay_metric(interval: Interval) -> Any:
    """Return min(1, 1.25 minRTT/sRTT).

    Parameters
    ----------
    interval : Interval
    """
    return np.minimum(1.0, DELAY_MARGIN * ratio(interval.path_rtt, interval.srtt))


def observe(interval: Interval) -> tuple[Any, ...]:
    """Return the seven features of an interval.

    Parameters
    ----------
    interval : Interval

    Returns
    -------
    tuple of float or ndarray
        In the order of the module's description.
    """
    top = interval.max_delivery_rate
    pacing = ratio(PACING * 8.0 * interval.window, interval.srtt, 0.0)
    lost = ratio(8.0 * interval.lost, interval.duration, 0.0)
    return (
        ratio(interval.delivery_rate, top, 0.0),
        np.minimum(MAX_PACING, ratio(pacing, top, 0.0)),
        LOSS_WEIGHT * ratio(lost, top, 0.0),
        ratio(interval.n_rtts, interval.window / PACKET, 0.0),
        interval.duration,
        ratio(interval.path_rtt, interval.srtt),
        delay_metric(interval),
    )


def reward(interval: Interval) -> Any:
    """Return (throughput - 5 loss rate)/(maximum throughput) times the delay metric.

    Parameters
    ----------
    interval : Interval
    """
    lost = ratio(8.0 * interval.lost, interval.duration, 0.0)
    return ratio(interval.delivery_rate - LOSS_WEIGHT * lost, interval.max_delivery_rate, 0.0) * delay_metric(interval)


def change_window(action: Any, interval: Interval) -> Any:
    """Return the window after an action, in whole packets and percents [bytes].

    Parameters
    ----------
    action : float or ndarray
    interval : Interval
    """
    percent = np.floor(100.0 * np.exp2(2.0 * action))
    return PACKET * np.maximum(MIN_WINDOW, np.floor(percent * np.floor(interval.window / PACKET) / 100.0))


ACTION = Action("window", change_window, -1.0, 1.0)


@check_arguments
@dataclass(frozen=True)
class Paths:
    """Distribution of paths with one CUBIC flow: a function of a random generator. The ranges are log-uniform.

    Parameters
    ----------
    capacity : pair of float, bit/s, > 0
        Range of the capacity.
    rtt : pair of float, s, > 0
        Range of the RTT without queues.
    buffer : pair of float, > 0
        Range of the buffer in bandwidth-delay products; the buffer has room for at least one packet.

    Raises
    ------
    ValueError, TypeError
        A bad range.

    Examples
    --------
    >>> import numpy as np
    >>> from ecc.rl import orca
    >>> orca.Paths(rtt=(0.04, 0.04))(np.random.default_rng(1)).network.rtts.round(6)
    array([0.04])
    """

    capacity: Sequence[float] = (5e6, 100e6)
    rtt: Sequence[float] = (0.01, 0.2)
    buffer: Sequence[float] = (0.5, 4.0)

    def __post_init__(self) -> None:
        for name, limit in (("capacity", 1e12), ("rtt", 1e3), ("buffer", 1e4)):
            object.__setattr__(self, name, checked_range(getattr(self, name), name, limit))

    def __call__(self, rng: np.random.Generator) -> Scenario:
        """Return a scenario with one flow of CUBIC.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the random choices.
        """
        ranges = (self.capacity, self.rtt, self.buffer)
        capacity, rtt, share = (float(np.exp(rng.uniform(*np.log(limits)))) for limits in ranges)
        buffer = max(PACKET, int(share * capacity * rtt / 8.0))
        network = Network([Link(capacity, 0.5 * rtt, buffer=buffer)], [Flow([0], packet_size=PACKET)])
        return Scenario(network, CUBIC(), DURATION, seed=int(rng.integers(2**63)))


def task(**options: Any) -> Task:
    """Return the learning task of Orca.

    Parameters
    ----------
    **options : object
        Fields of the `Task` to replace.

    Returns
    -------
    Task
        Task with steps of 20 ms, 400 per episode, and a history of 10 intervals.

    Examples
    --------
    >>> from ecc.rl import orca
    >>> orca.task().interval
    0.02
    """
    values: dict[str, Any] = {
        "scenario": Paths(),
        "observe": observe,
        "reward": reward,
        "act": ACTION,
        "interval": INTERVAL,
        "warmup": WARMUP,
        "low": LOW,
        "high": HIGH,
    }
    return Task(**(values | options))
