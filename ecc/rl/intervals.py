"""Monitor intervals of flows: the statistics from which observations, rewards and actions are computed.

Functions of an `Interval` use `+ - * /`, `ratio` and functions of NumPy, so that one text serves a single environment,
whose intervals hold floats, and a vector environment, whose intervals hold an array with one value per environment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ecc._support.arguments import shown

__all__ = ["Interval", "ratio"]


class Interval(NamedTuple):
    """Statistics of a flow in one step of an environment: floats, or arrays with one value per environment.

    Parameters
    ----------
    now : float, s
        End of the interval.
    duration : float, s
        Duration of the interval.
    sent, delivered, lost : float, bytes
        Data sent, newly acknowledged, and found lost in the interval.
    n_rtts : float
        Number of RTT samples.
    rtt : float, s
        Mean RTT. An interval without samples keeps the value of the last interval; before any, it is the RTT without
        queues.
    rtt_first, rtt_second : float, s
        Mean of the first half of the samples, and of the rest. Both are `rtt` for fewer than two samples.
    min_rtt : float, s
        Minimum RTT of the interval, 0 without samples.
    path_rtt : float, s
        Minimum RTT of the connection, 0 before any sample.
    srtt : float, s
        Smoothed RTT, 0 before any sample.
    rate : float, bit/s
        Pacing rate at the end of the interval.
    window : float, bytes
        Congestion window at the end of the interval; 0: the protocol has none.
    in_flight : float, bytes
        Data in flight at the end of the interval.
    active : float
        1 while the flow sends, 0 before it starts and after its end.
    min_mean_rtt : float, s
        Minimum of `rtt` since the beginning of the episode.
    max_delivery_rate : float, bit/s
        Maximum of `delivery_rate` since the beginning of the episode.

    Examples
    --------
    >>> from ecc.rl import Interval
    >>> values = dict.fromkeys(Interval._fields, 1.0)
    >>> interval = Interval(**(values | {"delivered": 3000.0, "lost": 1000.0, "duration": 2.0}))
    >>> interval.delivery_rate, interval.loss
    (12000.0, 0.25)
    """

    now: Any
    duration: Any
    sent: Any
    delivered: Any
    lost: Any
    n_rtts: Any
    rtt: Any
    rtt_first: Any
    rtt_second: Any
    min_rtt: Any
    path_rtt: Any
    srtt: Any
    rate: Any
    window: Any
    in_flight: Any
    active: Any
    min_mean_rtt: Any
    max_delivery_rate: Any

    @property
    def send_rate(self) -> Any:
        """Sending rate in the interval [bit/s]; 0 for an interval without duration."""
        return ratio(8.0 * self.sent, self.duration, 0.0)

    @property
    def delivery_rate(self) -> Any:
        """Rate of newly acknowledged data [bit/s]; 0 for an interval without duration."""
        return ratio(8.0 * self.delivered, self.duration, 0.0)

    @property
    def loss(self) -> Any:
        """Share of the acknowledged and lost data that was lost; 0 without data."""
        return ratio(self.lost, self.lost + self.delivered, 0.0)

    @property
    def gradient(self) -> Any:
        """Difference of the mean RTTs of the two halves of the samples, relative to the duration; 0 without it."""
        return ratio(self.rtt_second - self.rtt_first, self.duration, 0.0)


def ratio(numerator: Any, denominator: Any, otherwise: float = 1.0) -> Any:
    """Return a quotient of floats or arrays, or another value if the denominator is not positive.

    Parameters
    ----------
    numerator, denominator : float or ndarray
        For example the sending rate and the delivery rate of an interval.
    otherwise : float
        Value if the denominator is <= 0.

    Returns
    -------
    float or ndarray
        The quotient, of the shape of the arguments.

    Raises
    ------
    TypeError
        If the arguments are neither numbers nor arrays of shapes that fit.

    Examples
    --------
    >>> from ecc.rl import ratio
    >>> ratio(3.0, 2.0), ratio(3.0, 0.0)
    (1.5, 1.0)
    """
    if isinstance(denominator, float) and isinstance(numerator, float):
        return numerator / denominator if denominator > 0.0 else otherwise
    try:
        shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
        out = np.full(shape, otherwise, np.float64)
        return np.divide(numerator, denominator, out=out, where=np.greater(denominator, 0.0))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"numerator and denominator must be numbers or arrays of one shape, got {shown(numerator)} and "
            f"{shown(denominator)}"
        ) from None
