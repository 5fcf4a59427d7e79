"""Bisection, which many checks use: where what holds for small values ceases to hold."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["narrowed"]


def narrowed(low: float, high: float, tolerance: float, holds: Callable[[float], object]) -> tuple[float, float]:
    """Return two values at most `tolerance` apart, such that `holds` is true of the first and not of the second.

    Parameters
    ----------
    low, high : float
        Where it holds, and where not, which is not looked at.
    tolerance : float, > 0
    holds : callable
        Of a value between.
    """
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
