"""A parameter of many members of an ensemble in place of a number, so that checks and sums are made once for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "Differ"]


class Differ(Exception):
    """Members differ in a condition, or a column is used in a way that one operation for all cannot follow."""


def _arithmetic(operate: Callable[[Any, Any], Any]) -> Callable[[Column, Any], Any]:
    def of_columns(self: Column, other: Any) -> Any:
        operand = _operand(other)
        return NotImplemented if operand is None else Column(operate(self.values, operand))

    return of_columns


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Column, Any], Any]:
    def of_columns(self: Column, other: Any) -> Any:
        operand = _operand(other)
        return NotImplemented if operand is None else agreed(compare(self.values, operand))

    return of_columns


def _divided(dividend: Any, divisor: Any) -> Any:
    if np.any(np.equal(divisor, 0.0)):  # a number would raise
        raise Differ("a divisor is zero")
    return dividend / divisor


def _operand(value: Any) -> Any:
    if isinstance(value, Column):
        return value.values
    return float(value) if type(value) in (float, int) else None


def agreed(conditions: NDArray[np.bool_]) -> bool:
    """Return a condition on which all members agree.

    Parameters
    ----------
    conditions : ndarray of bool

    Raises
    ------
    Differ
        If they do not.
    """
    if conditions.all():
        return True
    if conditions.any():
        raise Differ("members differ in a condition")
    return False


class Column:
    """Values of one parameter, one for each member.

    It has the operations of numbers that round in the same way for arrays: sums, differences, products and quotients.
    A comparison is that of all members, or raises. All other uses raise, for example powers, `float` and `hash`.

    Parameters
    ----------
    values : ndarray of float, shape (n_members,)
    """

    __slots__ = ("values",)
    __array_ufunc__ = None  # NumPy leaves operations with arrays to this class, which refuses them
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values

    @classmethod
    def of(cls, values: Sequence[Any]) -> Column:
        """Return the column of numbers.

        Parameters
        ----------
        values : sequence of float

        Raises
        ------
        Differ
            If one is not a float.
        """
        if not all(isinstance(value, float) for value in values):
            raise Differ("values must be floats")
        return cls(np.array(values, dtype=float))

    def checked(self, positive: bool, minimum: float | None) -> Column:
        """Return the column if all values are finite and in range.

        Parameters
        ----------
        positive : bool
            Whether values must be > 0.
        minimum : float or None

        Raises
        ------
        Differ
            If a value is out of range.
        """
        fits = np.isfinite(self.values)
        if positive:
            fits &= self.values > 0.0
        if minimum is not None:
            fits &= self.values >= minimum
        if not fits.all():
            raise Differ("a value is out of range")
        return self

    __add__ = __radd__ = _arithmetic(lambda a, b: a + b)
    __sub__ = _arithmetic(lambda a, b: a - b)
    __rsub__ = _arithmetic(lambda a, b: b - a)
    __mul__ = __rmul__ = _arithmetic(lambda a, b: a * b)
    __truediv__ = _arithmetic(_divided)
    __rtruediv__ = _arithmetic(lambda a, b: _divided(b, a))
    __lt__ = _comparison(lambda a, b: a < b)
    __le__ = _comparison(lambda a, b: a <= b)
    __gt__ = _comparison(lambda a, b: a > b)
    __ge__ = _comparison(lambda a, b: a >= b)

    def __eq__(self, other: object) -> bool:
        operand = _operand(other)
        return False if operand is None else agreed(self.values == operand)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __neg__(self) -> Column:
        return Column(-self.values)

    def __bool__(self) -> bool:
        return agreed(self.values != 0.0)

    def __float__(self) -> float:
        raise Differ("a column is not a number")

    def __format__(self, style: str) -> str:
        raise Differ("a column is not a number")

    def __str__(self) -> str:
        raise Differ("a column is not a number")


Real.register(Column)
