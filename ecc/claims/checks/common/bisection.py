"""Bisection for a predicate that holds for small values and fails for large ones."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["narrowed"]


def narrowed(low: float, high: float, tolerance: float, holds: Callable[[float], object]) -> tuple[float, float]:
    """Return two values not more than `tolerance` apart: `holds` is true for the first and false for the second.

    Parameters
    ----------
    low, high : float
        Values for which `holds` is true and false; it is not called with either.
    tolerance : float, > 0
    holds : callable
        Predicate of a value between them.
    """
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
