"""A test, from the text of a law, whether the law is affine in its arguments; if so, its derivatives are constant.

The law is evaluated on symbolic terms instead of numbers: sums and multiples of affine terms are affine; products and
quotients of two arguments, powers, elementary functions, and everything that depends on a comparison, are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ecc.laws.arguments import law_arguments
from ecc.laws.jets import rebind

__all__ = ["is_affine"]


class _NotAffineError(Exception):
    """A term of the law is not affine."""


class _Affine:
    """An affine expression in the arguments."""

    def _plus(self, other: Any) -> _Affine:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = _plus

    def __neg__(self) -> _Affine:
        return self

    def _times(self, other: Any) -> _Affine:
        if isinstance(other, _Affine):
            raise _NotAffineError
        return self

    __mul__ = __rmul__ = __truediv__ = _times

    def _refused(self, *operands: Any) -> Any:
        raise _NotAffineError

    __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = __mod__ = __abs__ = __float__ = _refused
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refused


def _of_constants(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises if an argument of the law enters it, as its value is then not affine."""

    def inner(*values: Any) -> Any:
        if any(isinstance(value, _Affine) for value in values):
            raise _NotAffineError
        return function(*values)

    return inner


def is_affine(law: Callable[..., float] | None, variables: Iterable[str], constants: dict[str, Any]) -> bool:
    """Return whether a law is affine in some of its arguments jointly, for all values of these.

    Parameters
    ----------
    law : callable or None
        Scalar law; None is affine.
    variables : iterable of str
        The arguments to vary; names that the law does not take have no effect.
    constants : dict
        The other arguments -> value (`p` may be any object). A missing value counts as 1.

    Examples
    --------
    >>> is_affine(lambda x, N: 2.0 * x / N, ["x"], {"N": 3.0}), is_affine(lambda x, y: x * y, "xy", {})
    (True, False)
    """
    if not isinstance(law, FunctionType):
        return law is None
    functions: dict[str, Callable[..., Any]] = {
        "min": min,
        "max": max,
        "abs": abs,
        "exp": math.exp,
        "log": math.log,
        "sqrt": math.sqrt,
        "tanh": math.tanh,
    }
    varied = set(variables)
    at = {name: _Affine() if name in varied else constants.get(name, 1.0) for name in law_arguments(law)}
    try:
        rebind(law, {name: _of_constants(function) for name, function in functions.items()})(**at)
    except (_NotAffineError, ArithmeticError, TypeError, ValueError):  # the last three: the constants do not permit it
        return False
    return True
