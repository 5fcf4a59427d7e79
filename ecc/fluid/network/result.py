"""The result of a fluid run, group by group, in bits: the same for all forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Result", "turns"]

FloatArray = NDArray[np.float64]

_TURN = 0.1  # s between two reports of progress, and looks at Ctrl-C


def turns(most: int) -> Iterator[int]:
    """Yield how many steps to take before the next report, which take a tenth of a second together.

    Parameters
    ----------
    most : int
        Never more than that.

    Notes
    -----
    How a run is cut never changes its result.
    """
    steps = min(100, most)
    while True:
        began = perf_counter()
        yield steps
        taken = perf_counter() - began
        steps = min(most, max(1, round(steps * min(10.0, _TURN / max(taken, 1e-9)))))


@dataclass
class Result:
    """Series over (sample, group) and (sample, link), totals over groups; rates in bit/s, all else in bits."""

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
    stopped_at: FloatArray  # s, NaN where a flow did not stop
    stats: dict[str, Any] = field(default_factory=dict)
    marks: FloatArray | None = None  # over (sample, link), where links have queue disciplines
    classes: NDArray[np.int64] | None = None  # (2, n_classes): link and index of each queue of links with several
    by_class: dict[str, FloatArray] = field(default_factory=dict)  # over (sample, class)
    recorded: dict[str, FloatArray] = field(default_factory=dict)  # "link.", "flow." or "env." and name -> series
    stopped: str = "completed"
