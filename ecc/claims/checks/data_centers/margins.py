"""Phase margins of scalar loops and proofs of stability, shared by claims on several protocols."""

from __future__ import annotations

from collections.abc import Callable
from math import degrees
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ecc.linear import DelaySystem

__all__ = ["proven", "smallest_margin"]


def proven(system: DelaySystem) -> bool | None:
    """Return whether a certificate proves the loop stable (True) or unstable (False); None if it proves neither.

    Parameters
    ----------
    system : DelaySystem
    """
    return system.certify().stable


def smallest_margin(loop: Callable[[Any], Any]) -> float:
    """Return the phase margin of smallest absolute value over all gain crossovers of a scalar loop [degrees]."""
    w = np.geomspace(1.0, 1e7, 4_001)
    excess = np.abs(loop(w)) - 1.0
    margins = []
    for k in np.flatnonzero(excess[:-1] * excess[1:] < 0.0):
        at = float(brentq(lambda v: abs(loop(v)) - 1.0, w[k], w[k + 1]))
        margins.append((degrees(np.angle(loop(at))) % 360.0) - 180.0)
    return min(margins, key=abs)
