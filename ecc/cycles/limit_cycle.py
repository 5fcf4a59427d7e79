"""The limit cycle of a closed loop: its period, its queue and its multipliers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows, number_text, value_text
from ecc.errors import LinearizationError

__all__ = ["AtRest", "LimitCycle", "time_mean"]


class AtRest(LinearizationError):
    """The loop comes to rest from the examined starts, so that it has no cycle to be observed."""


@dataclass(frozen=True, repr=False)
class LimitCycle(Displayed):
    """A periodic orbit of a closed loop, or a random motion around one, and how fast deviations from it decay.

    Attributes
    ----------
    object : str
        "cycle", or "random cycle" if hosts or routers draw random numbers.
    time : str
        "continuous": of the fluid. "discrete": of the map from one round to the next.
    period : float
        Period [s]; of a random cycle its mean.
    mean, amplitude : float
        Mean of the queue at the bottleneck, and half of its peak-to-peak range [bytes].
    multipliers : ndarray
        Multipliers of deviations over a period, complex, the largest modulus first. The multiplier 1 of a shift in time
        and those in `along` are left out. Of a random cycle: those of its mean map. Empty: a single state, or not
        computed.
    along : int
        Number of multipliers 1 of directions in which further cycles lie, for example other shares of the flows.
    exponent : float
        Lyapunov exponent per period of a random cycle: the mean logarithm of the growth of a deviation; otherwise nan.
    interval : tuple of float
        Confidence interval of the exponent, 95 %.
    stable : bool or None
        Whether small deviations decay; None: undecided.
    proven : bool
        Whether interval arithmetic proves that the cycle exists, and the verdict.
    method : str
        Method of the computation, as a clause.
    utilization : float
        Mean share of the bottleneck's capacity that is used; nan: not computed.
    orbit : mapping
        One period, for figures: "time" [s] from 0, "queue" [bytes] and "windows" [bytes] or "rates" [bit/s], shape
        (n_flows, n_times). Of a random cycle over CoDel or COBALT: many periods.
    notes : tuple of str
        Effects that are left out, and limits of the method.
    """

    object: str
    time: str
    period: float
    mean: float
    amplitude: float
    multipliers: NDArray[np.complex128]
    along: int = 0
    exponent: float = nan
    interval: tuple[float, float] = (nan, nan)
    stable: bool | None = None
    proven: bool = False
    method: str = ""
    utilization: float = nan
    orbit: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    _units = {"period": "s", "mean": "bytes", "amplitude": "bytes"}

    @property
    def dominant(self) -> complex:
        """The multiplier with the largest modulus; nan if none was computed."""
        return complex(self.multipliers[0]) if len(self.multipliers) else complex(nan, nan)

    @property
    def is_dead_beat(self) -> bool:
        """Whether all multipliers are 0: small deviations are gone after a few periods."""
        return len(self.multipliers) > 0 and not np.any(self.multipliers)

    @check_arguments
    def queue_percentile(self, percent: float) -> float:
        """Return the queue that is not exceeded in a share of the time of the orbit [bytes].

        Parameters
        ----------
        percent : float, from 0 to 100
            For example 99.

        Raises
        ------
        ValueError
            A share out of range, or a cycle without an orbit of the queue.

        Examples
        --------
        >>> cycle = ecc.stability.limit_cycle("NewReno")
        >>> cycle.queue_percentile(50) < cycle.queue_percentile(100) == cycle.orbit["queue"].max()
        True
        """
        if not 0.0 <= percent <= 100.0:
            raise ValueError(f"percent must be between 0 and 100, got {shown(percent)}")
        if "queue" not in self.orbit:
            raise ValueError("the orbit of this cycle has no queue")
        time, queue = self.orbit["time"], self.orbit["queue"]
        weights = np.gradient(time)
        order = np.argsort(queue)
        below = np.cumsum(weights[order]) / weights.sum()
        place = min(int(np.searchsorted(below, percent / 100.0 - 1e-12)), len(order) - 1)
        return float(queue[order[place]])

    def _title(self) -> str:
        return f"Limit cycle in {self.time} time" if self.object == "cycle" else f"Random cycle in {self.time} time"

    def _rows(self) -> Rows:
        rows = [
            ("period", value_text(self.period, "s")),
            ("queue, mean", value_text(self.mean, "bytes")),
            ("queue, half of peak to peak", value_text(self.amplitude, "bytes")),
            ("multipliers", "all 0 (dead beat)" if self.is_dead_beat else value_text(self.multipliers)),
        ]
        if self.along:
            rows.append(("multipliers 1 along further cycles", str(self.along)))
        if not isnan(self.utilization):
            rows.append(("utilization", number_text(self.utilization)))
        if not isnan(self.exponent):
            low, high = (number_text(bound) for bound in self.interval)
            rows.append(("Lyapunov exponent per period", f"{number_text(self.exponent)} ({low} to {high})"))
        verdict: Any = {True: "yes", False: "no", None: "undecided"}[self.stable]
        rows += [("stable", f"{verdict}, proven" if self.proven else verdict), ("method", self.method)]
        return rows


def time_mean(values: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Return the mean over time of sampled values, linear between the samples."""
    return float(np.trapezoid(values, times) / (times[-1] - times[0]))
