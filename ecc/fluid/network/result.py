"""The result of a fluid run, group by group, in bits: the same for all kinds of fluid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TOTALS", "Result", "turns"]

FloatArray = NDArray[np.float64]

_TURN = 0.1  # s between two reports of progress, and checks for Ctrl-C


def turns(max_steps: int) -> Iterator[int]:
    """Yield the number of steps to take before the next report, so that they take a tenth of a second together.

    Parameters
    ----------
    max_steps : int
        Maximum number of steps.

    Notes
    -----
    The division of a run into turns never changes its result.
    """
    steps = min(100, max_steps)
    while True:
        began = perf_counter()
        yield steps
        taken = perf_counter() - began
        steps = min(max_steps, max(1, round(steps * min(10.0, _TURN / max(taken, 1e-9)))))


@dataclass
class Result:
    """Series over (sample, group) and (sample, link), totals over groups; rates in bit/s, amounts in bits."""

    time: FloatArray
    rate: FloatArray
    goodput: FloatArray
    bottleneck: NDArray[np.int64]
    queue: FloatArray
    queue_max: FloatArray
    arrival: FloatArray
    drops: FloatArray
    sent: FloatArray
    delivered: FloatArray
    lost: FloatArray
    stopped_at: FloatArray  # s, NaN if a flow did not stop
    stats: dict[str, Any] = field(default_factory=dict)
    marks: FloatArray | None = None  # over (sample, link), if links have queue disciplines
    classes: NDArray[np.int64] | None = None  # (2, n_classes): link and index of each queue of links with several
    by_class: dict[str, FloatArray] = field(default_factory=dict)  # over (sample, class)
    recorded: dict[str, FloatArray] = field(default_factory=dict)  # "link.", "flow." or "env." and name -> series
    stopped: str = "completed"

    def of_member(self, place: int) -> Result:
        """Return the result of one of several members, if arrays have a first axis for these.

        Parameters
        ----------
        place : int
            Index of the member.
        """
        names = ("rate", "goodput", "bottleneck", "queue", "queue_max", "arrival", "drops", *TOTALS)
        arrays = {name: getattr(self, name)[place] for name in names}
        return replace(self, **arrays, recorded={name: values[place] for name, values in self.recorded.items()})


TOTALS = ("sent", "delivered", "lost", "stopped_at")
"""Fields of a result that have one value for each group."""
