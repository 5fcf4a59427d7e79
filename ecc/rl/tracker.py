"""Conversion of the engine's observations of a flow to intervals, with the memory that they need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.rl.intervals import Interval

__all__ = ["Tracker", "TrackerArray"]

_RTT, _FIRST, _SECOND = (Interval._fields.index(name) for name in ("rtt", "rtt_first", "rtt_second"))


class Tracker:
    """Memory of one flow: its last mean RTT, the minimum of these, and the maximum delivery rate.

    Parameters
    ----------
    rtt : float, s
        RTT without queues, the value of `Interval.rtt` before any sample.
    """

    __slots__ = ("max_rate", "min_rtt", "rtt")

    def __init__(self, rtt: float) -> None:
        self.rtt, self.min_rtt, self.max_rate = rtt, math.inf, 0.0

    def read(self, values: list[float]) -> Interval:
        """Return the interval of an observation.

        Parameters
        ----------
        values : list of float
            Fields of `ecc.packet.OBSERVATION`; the RTTs of an interval without samples are overwritten.
        """
        if values[_RTT - 1] == 0.0:
            values[_RTT] = values[_FIRST] = values[_SECOND] = self.rtt
        rtt = self.rtt = values[_RTT]
        if rtt < self.min_rtt:
            self.min_rtt = rtt
        duration, delivered = values[1], values[3]
        if duration > 0.0 and 8.0 * delivered / duration > self.max_rate:
            self.max_rate = 8.0 * delivered / duration
        return Interval._make((*values, self.min_rtt, self.max_rate))


class TrackerArray:
    """Memory of the flows of many runs, as in `Tracker`.

    Parameters
    ----------
    count : int
        Number of runs.
    """

    def __init__(self, count: int) -> None:
        self.rtt, self.min_rtt, self.max_rate = np.zeros(count), np.full(count, math.inf), np.zeros(count)

    def restart(self, which: NDArray[np.int64], rtt: NDArray[np.float64]) -> None:
        """Forget some flows.

        Parameters
        ----------
        which : ndarray of int
            Indices of the runs.
        rtt : ndarray of float, s
            Their RTTs without queues.
        """
        self.rtt[which], self.min_rtt[which], self.max_rate[which] = rtt, math.inf, 0.0

    def read(self, observations: NDArray[Any]) -> Interval:
        """Return the intervals of observations.

        Parameters
        ----------
        observations : ndarray of float, shape (n_runs, n_fields)
            Fields of `ecc.packet.OBSERVATION`.
        """
        columns = observations.T.copy()
        silent = columns[_RTT - 1] == 0.0
        if silent.any():
            for column in (_RTT, _FIRST, _SECOND):
                columns[column][silent] = self.rtt[silent]
        self.rtt = columns[_RTT].copy()
        np.minimum(self.min_rtt, self.rtt, out=self.min_rtt)
        rate = np.divide(8.0 * columns[3], columns[1], out=np.zeros(len(silent)), where=columns[1] > 0.0)
        np.maximum(self.max_rate, rate, out=self.max_rate)
        return Interval._make((*columns, self.min_rtt.copy(), self.max_rate.copy()))
