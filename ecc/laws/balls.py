"""Balls: enclosures of the value and of all slopes of a law over a box of its arguments, in ball arithmetic.

A law is evaluated on balls by rebinding its built-ins, as on jets (`ecc.laws.jets`), so its text stays plain Python.
Each number is a ball of python-flint that contains the value for every point of the box, with a ball for the derivative
with respect to each variable, at every point. All roundings are enclosed; decimals in laws and parameters stand for the
doubles that they are read as.

    comparisons     must have one answer in the whole box; otherwise UndecidedError names the line of the comparison
    min, max, abs   are continuous: if a box contains both sides, the slopes are enclosures of both (`corner` is set)

Slopes that enclose both sides contain the generalized Jacobian of Clarke, for which the mean value theorem holds:
f(x) - f(y) = A (x - y) with a matrix A in the enclosure.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

from ecc.errors import UndecidedError
from ecc.laws.jets import rebind

__all__ = ["BALLS", "LANGUAGE", "Ball", "as_arb", "on_balls", "with_balls"]

LANGUAGE = (
    "laws have + - * / **, comparisons, min, max, abs, floor, int, and exp, log, sqrt and tanh of ecc.laws.elementary"
)


class Ball:
    """An enclosure of a function of several variables over a box: its value and its slopes.

    Parameters
    ----------
    value : flint.arb
        Ball that contains all values.
    slopes : dict of int to flint.arb, optional
        Index of a variable -> ball that contains all derivatives with respect to it; missing variables have slope 0.
    corner : str, optional
        Place of a min, max or abs that changes its side within the box, with other slopes; empty: none does.

    Examples
    --------
    >>> from flint import arb
    >>> x = Ball(arb(3), {0: arb(1)})
    >>> (x * x + 1.0).value, (x * x).slopes
    (10.0000000000000, {0: 6.00000000000000})
    """

    __slots__ = ("corner", "slopes", "value")
    __hash__ = None  # type: ignore[assignment]  # equality may be undecided
    __array_ufunc__ = None  # NumPy's scalars leave operations to the methods here

    def __init__(self, value: Any, slopes: dict[int, Any] | None = None, corner: str = "") -> None:
        self.value, self.slopes, self.corner = value, slopes or {}, corner

    def __repr__(self) -> str:
        return f"Ball({self.value}, {self.slopes})"

    # ---- arithmetic --------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Ball:
        if not isinstance(other, Ball):
            return Ball(self.value + as_arb(other), self.slopes, self.corner)
        slopes = dict(self.slopes)
        for k, slope in other.slopes.items():
            slopes[k] = slopes[k] + slope if k in slopes else slope
        return Ball(self.value + other.value, slopes, self.corner or other.corner)

    def __neg__(self) -> Ball:
        return Ball(-self.value, {k: -slope for k, slope in self.slopes.items()}, self.corner)

    def __pos__(self) -> Ball:
        return self

    def __sub__(self, other: Any) -> Ball:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Ball:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Ball:
        a = self.value
        if isinstance(other, Ball) and other is self:
            return other._through(_even(a * a), 2 * a)
        if not isinstance(other, Ball):
            b = as_arb(other)
            return Ball(a * b, {k: slope * b for k, slope in self.slopes.items()}, self.corner)
        b = other.value
        slopes = {k: slope * b for k, slope in self.slopes.items()}
        for k, slope in other.slopes.items():
            slopes[k] = slopes[k] + slope * a if k in slopes else slope * a
        return Ball(a * b, slopes, self.corner or other.corner)

    def __truediv__(self, other: Any) -> Ball:
        if not isinstance(other, Ball):
            b = as_arb(other)
            return Ball(self.value / b, {k: slope / b for k, slope in self.slopes.items()}, self.corner)
        b = other.value
        if not b != 0:
            raise UndecidedError(f"a divisor may be 0 in {_place()}: {_text(b)}")
        quotient = self.value / b
        slopes = {k: slope / b for k, slope in self.slopes.items()}
        for k, slope in other.slopes.items():
            change = quotient * slope / b
            slopes[k] = slopes[k] - change if k in slopes else -change
        return Ball(quotient, slopes, self.corner or other.corner)

    def __rtruediv__(self, other: Any) -> Ball:
        return Ball(as_arb(other)) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Ball:
        if isinstance(power, Ball):
            return _exp(power * _log(self))
        if float(power).is_integer():
            n = int(power)
            if n == 0:
                return Ball(as_arb(1))
            if n < 0:
                return 1.0 / self**-n
            return self._through(_even(self.value**n) if n % 2 == 0 else self.value**n, n * self.value ** (n - 1))
        if not self.value > 0:
            raise UndecidedError(f"the base of a power may be <= 0 in {_place()}: {_text(self.value)}")
        n = as_arb(power)
        return self._through(self.value**n, n * self.value ** (n - 1))

    def __rpow__(self, base: Any) -> Ball:
        return _exp(self * as_arb(base).log())

    def _through(self, value: Any, factor: Any) -> Ball:
        """Return f(self), given its value and its derivative at self."""
        return Ball(value, {k: factor * slope for k, slope in self.slopes.items()}, self.corner)

    def __abs__(self) -> Ball:
        if self.value > 0:
            return self
        if self.value < 0:
            return -self
        both = as_arb(0).union(as_arb(1)).union(as_arb(-1))
        slopes = {k: slope * both for k, slope in self.slopes.items()}
        return Ball(abs(self.value), slopes, self.corner or (_place() if slopes else ""))

    # ---- comparisons -------------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> bool:
        if other is self:
            return False
        return _decided(self.value, _value(other), "<", lambda a, b: a < b, lambda a, b: a >= b)

    def __le__(self, other: Any) -> bool:
        if other is self:
            return True
        return _decided(self.value, _value(other), "<=", lambda a, b: a <= b, lambda a, b: a > b)

    def __gt__(self, other: Any) -> bool:
        if other is self:
            return False
        return _decided(self.value, _value(other), ">", lambda a, b: a > b, lambda a, b: a <= b)

    def __ge__(self, other: Any) -> bool:
        if other is self:
            return True
        return _decided(self.value, _value(other), ">=", lambda a, b: a >= b, lambda a, b: a < b)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, Ball | int | float | Fraction):
            return NotImplemented
        return _decided(self.value, _value(other), "==", lambda a, b: a == b, lambda a, b: a != b)

    def __ne__(self, other: object) -> bool:
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __bool__(self) -> bool:
        return not self.__eq__(0)

    # ---- whole numbers -----------------------------------------------------------------------------------

    def __floor__(self) -> int:
        return self._whole("floor")

    def __ceil__(self) -> int:
        return self._whole("ceil")

    def __trunc__(self) -> int:
        return self._whole("floor" if self.value >= 0 else "ceil")

    __int__ = __trunc__

    def _whole(self, name: str) -> int:
        """Return the whole number to which all values of the ball are rounded."""
        number = getattr(self.value, name)().unique_fmpz()
        if number is None:
            raise UndecidedError(f"{name} in {_place()} is undecided: {_text(self.value)}")
        return int(number)

    def __float__(self) -> float:
        raise TypeError("a ball is not a float: laws must not call functions that need one, such as those of math")


def as_arb(number: Any) -> Any:
    """Return a number as a ball of python-flint, exactly if it is an int or a float.

    Parameters
    ----------
    number : int, float, Fraction or flint.arb
    """
    from flint import arb, fmpq

    if isinstance(number, Fraction):
        return arb(fmpq(number.numerator, number.denominator))
    return arb(number if isinstance(number, float | arb) else int(number))


def _even(ball: Any) -> Any:
    """Return the part >= 0 of a ball that contains an even power."""
    return ball if ball >= 0 else as_arb(0).union(ball.upper())


def _value(number: Any) -> Any:
    return number.value if isinstance(number, Ball) else as_arb(number)


def _decided(a: Any, b: Any, sign: str, holds: Callable[[Any, Any], bool], fails: Callable[[Any, Any], bool]) -> bool:
    """Return the answer to a comparison that is the same for all numbers of two balls."""
    if holds(a, b):
        return True
    if fails(a, b):
        return False
    raise UndecidedError(f"the comparison in {_place()} is undecided: {_text(a)} {sign} {_text(b)}")


def _text(ball: Any) -> str:
    return f"{float(ball.mid()):.6g} +/- {float(ball.rad()):.1g}"


def _place() -> str:
    """Return the function, file and line of the law that is evaluated, as in messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = frame.f_code.co_name.replace("<lambda>", "law")
    return f"{name} ({PurePath(frame.f_code.co_filename).name}:{frame.f_lineno})"


def _lift(x: Any) -> Ball:
    return x if isinstance(x, Ball) else Ball(as_arb(x))


def _exp(x: Any) -> Ball:
    ball = _lift(x)
    value = ball.value.exp()
    return ball._through(value, value)


def _log(x: Any) -> Ball:
    ball = _lift(x)
    if not ball.value > 0:
        raise UndecidedError(f"the argument of log may be <= 0 in {_place()}: {_text(ball.value)}")
    return ball._through(ball.value.log(), 1 / ball.value)


def _sqrt(x: Any) -> Ball:
    ball = _lift(x)
    if ball.value == 0 and not ball.slopes:
        return ball
    if not ball.value > 0:
        raise UndecidedError(f"the argument of sqrt may be <= 0 in {_place()}: {_text(ball.value)}")
    root = ball.value.sqrt()
    return ball._through(root, 0.5 / root)


def _tanh(x: Any) -> Ball:
    ball = _lift(x)
    return ball._through(ball.value.tanh(), ball.value.sech() ** 2)


def _smaller(a: Any, b: Any) -> Any:
    if not isinstance(a, Ball) and not isinstance(b, Ball):
        return min(a, b)
    a, b = _lift(a), _lift(b)
    if a.value < b.value:
        return a
    if b.value < a.value:
        return b
    slopes = {}
    same = True
    for k in a.slopes.keys() | b.slopes.keys():
        first, second = a.slopes.get(k, as_arb(0)), b.slopes.get(k, as_arb(0))
        same = same and bool(first == second)
        slopes[k] = first.union(second)
    return Ball(a.value.min(b.value), slopes, a.corner or b.corner or ("" if same else _place()))


def _min(*values: Any) -> Any:
    values = _several(values)
    result = values[0]
    for value in values[1:]:
        result = _smaller(result, value)
    return result


def _max(*values: Any) -> Any:
    values = _several(values)
    result = values[0]
    for value in values[1:]:
        larger = _smaller(-result, -value)
        result = -larger
    return result


def _several(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of min or max, which may be in one sequence."""
    return tuple(values[0]) if len(values) == 1 else values


BALLS: Mapping[str, Callable[..., Any]] = {
    "min": _min,
    "max": _max,
    "abs": abs,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "tanh": _tanh,
}


@lru_cache(16)
def on_balls(law: Callable[..., Any]) -> Callable[..., Any]:
    """Return a law for balls.

    Parameters
    ----------
    law : callable
        Plain function in the language of laws.
    """
    return rebind(law, BALLS)


def with_balls(parameters: Any, replaced: Mapping[str, Any] | None = None) -> Any:
    """Return a copy of the parameters of a law in which floats are balls, so that their arithmetic is enclosed.

    Parameters
    ----------
    parameters : object
        Number, sequence, mapping, or object with attributes; ints, texts and functions are kept.
    replaced : mapping, optional
        Name of an attribute -> its replacement, for example a ball with a radius.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> with_balls(SimpleNamespace(gain=0.5, flows=2))
    namespace(gain=Ball(0.500000000000000, {}), flows=2)
    """
    if isinstance(parameters, bool | int | str | Ball) or parameters is None or callable(parameters):
        return parameters
    if isinstance(parameters, float):
        return parameters if math.isnan(parameters) else Ball(as_arb(parameters))
    if isinstance(parameters, Mapping):
        return {name: with_balls(value) for name, value in parameters.items()} | dict(replaced or {})
    if hasattr(parameters, "tolist"):
        return with_balls(parameters.tolist())
    if isinstance(parameters, Sequence):
        values = [with_balls(value) for value in parameters]
        names = getattr(parameters, "_fields", None)
        if names is None:
            return tuple(values) if isinstance(parameters, tuple) else values
        return SimpleNamespace(**dict(zip(names, values, strict=True)) | dict(replaced or {}))
    if not hasattr(parameters, "__dict__"):
        return parameters
    result = copy.copy(parameters)
    for name, value in {**vars(parameters), **(replaced or {})}.items():
        object.__setattr__(result, name, value if name in (replaced or {}) else with_balls(value))
    return result
