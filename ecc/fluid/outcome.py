"""What a fluid run leaves, group by group, in bits: the same from equations and recurrences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Outcome"]

FloatArray = NDArray[np.float64]


@dataclass
class Outcome:
    """Series over (sample, group) and (sample, link), totals over groups; rates in bit/s, the rest in bits."""

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
    stopped_at: FloatArray  # s, NaN where a flow went on
    stats: dict[str, Any] = field(default_factory=dict)
    recorded: dict[str, FloatArray] = field(default_factory=dict)  # "link.", "flow." or "env." and name -> series
    stopped: str = "completed"
