"""Phase margins of scalar loops, and proofs of stability, which claims on several protocols share."""

from __future__ import annotations

from collections.abc import Callable
from math import degrees
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ecc.linear import DelaySystem

__all__ = ["least_margin", "proven"]


def proven(system: DelaySystem) -> bool | None:
    """Whether a certificate proves the loop stable (True) or unstable (False); None if neither.

    Parameters
    ----------
    system : DelaySystem
    """
    return system.certify().stable


def least_margin(loop: Callable[[Any], Any]) -> float:
    """The phase margin nearest to 0 of a scalar loop over its crossings of 1 [degrees]."""
    w = np.geomspace(1.0, 1e7, 4_001)
    excess = np.abs(loop(w)) - 1.0
    found = []
    for k in np.flatnonzero(excess[:-1] * excess[1:] < 0.0):
        at = float(brentq(lambda v: abs(loop(v)) - 1.0, w[k], w[k + 1]))
        found.append((degrees(np.angle(loop(at))) % 360.0) - 180.0)
    return min(found, key=abs)
