"""Ranges of the parameters of random paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import as_number

__all__ = ["checked_range"]


def checked_range(values: Any, name: str, limit: float, *, zero: bool = False) -> tuple[float, float]:
    """Return a pair low <= high <= limit of numbers > 0.

    Parameters
    ----------
    values : sequence of float
    name : str
        Name of the parameter for messages.
    limit : float
        Maximum.
    zero : bool
        True: 0 is allowed.

    Raises
    ------
    TypeError
        Not a pair of numbers.
    ValueError
        A value out of range.
    """
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 2:
        raise TypeError(f"{name} must be a pair of numbers, got {shown(values)}")
    low, high = (as_number(value, name, positive=not zero, minimum=0.0) for value in values)
    if not low <= high <= limit:
        raise ValueError(f"{name} must be a pair low <= high <= {limit:g}, got {shown(values)}")
    return low, high
