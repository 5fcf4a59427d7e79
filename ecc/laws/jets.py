"""Jets: truncated Taylor numbers, to third order, which carry exact derivatives through a law.

A law is evaluated on jets by rebinding its functions (`min`, `max`, `abs`, exp, log, sqrt, tanh) to those here, so
the text of the law stays plain Python. If a comparison is tied, the law is evaluated on either side of the point; if
the two slopes differ, the derivative does not exist, which is reported instead of picking a side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from ecc.errors import LinearizationError

__all__ = ["Jet", "Jacobian", "derivatives", "directional", "gradient", "jacobian", "rebind", "taylor"]

_ROUNDING = 1e-12  # relative, of slopes


class _Side:
    """The side from which a tie is approached: h > 0 or h < 0; `asked` records whether a comparison depended on it."""

    __slots__ = ("above", "asked")

    def __init__(self, above: bool) -> None:
        self.above, self.asked = above, False

    def has(self, term: float) -> bool:
        """Return whether an odd power of h with this coefficient is negative on this side."""
        self.asked = True
        return (term < 0.0) is self.above


@dataclass(eq=False, slots=True)  # not frozen: that takes three times as long, and models create hundreds
class Jet:
    """Taylor coefficients c[0] + c[1] h + c[2] h^2 + c[3] h^3 of a function of one variable h.

    `side` is the side on which all jets of one evaluation decide comparisons; None for a constant.
    """

    c: tuple[float, float, float, float]
    side: _Side | None = None

    @staticmethod
    def lift(value: Jet | float) -> Jet:
        """Return a constant as a jet; a jet is returned unchanged."""
        return value if isinstance(value, Jet) else Jet((float(value), 0.0, 0.0, 0.0))

    def __add__(self, other: Jet | float) -> Jet:
        a0, a1, a2, a3 = self.c
        if not isinstance(other, Jet):
            return Jet((a0 + float(other), a1, a2, a3), self.side)
        b0, b1, b2, b3 = other.c
        return Jet((a0 + b0, a1 + b1, a2 + b2, a3 + b3), self.side or other.side)

    def __neg__(self) -> Jet:
        a0, a1, a2, a3 = self.c
        return Jet((-a0, -a1, -a2, -a3), self.side)

    def __sub__(self, other: Jet | float) -> Jet:
        return self + (-other)

    def __rsub__(self, other: float) -> Jet:
        return -self + other

    def __mul__(self, other: Jet | float) -> Jet:
        a0, a1, a2, a3 = self.c
        if not isinstance(other, Jet):
            b = float(other)
            return Jet((a0 * b, a1 * b, a2 * b, a3 * b), self.side)
        b0, b1, b2, b3 = other.c
        return Jet(
            (a0 * b0, a0 * b1 + a1 * b0, a0 * b2 + a1 * b1 + a2 * b0, a0 * b3 + a1 * b2 + a2 * b1 + a3 * b0),
            self.side or other.side,
        )

    def __truediv__(self, other: Jet | float) -> Jet:
        a0, a1, a2, a3 = self.c
        if not isinstance(other, Jet):
            b = float(other)
            return Jet((a0 / b, a1 / b, a2 / b, a3 / b), self.side)
        b0, b1, b2, b3 = other.c
        q0 = a0 / b0
        q1 = (a1 - q0 * b1) / b0
        q2 = (a2 - (q0 * b2 + q1 * b1)) / b0
        q3 = (a3 - (q0 * b3 + q1 * b2 + q2 * b1)) / b0
        return Jet((q0, q1, q2, q3), self.side or other.side)

    def __rtruediv__(self, other: float) -> Jet:
        return Jet.lift(other) / self

    def __pow__(self, power: Jet | float) -> Jet:
        if isinstance(power, Jet):
            return _exp(power * _log(self))
        n = float(power)
        factors = (1.0, n, n * (n - 1.0) / 2.0, n * (n - 1.0) * (n - 2.0) / 6.0)

        def taylor(v: float) -> tuple[float, float, float, float]:
            a0, a1, a2, a3 = (factor and factor * v ** (n - k) for k, factor in enumerate(factors))
            return a0, a1, a2, a3

        return _compose(self, taylor)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rpow__(self, base: float) -> Jet:
        return _exp(self * math.log(base))

    def __lt__(self, other: Jet | float) -> bool:
        difference = self - other
        for k, term in enumerate(difference.c):
            if term != 0.0:
                return difference.side.has(term) if k % 2 and difference.side else term < 0.0
        return False

    def __gt__(self, other: Jet | float) -> bool:
        return Jet.lift(other) < self

    def __le__(self, other: Jet | float) -> bool:
        return not self > other

    def __ge__(self, other: Jet | float) -> bool:
        return not self < other

    def __abs__(self) -> Jet:
        return -self if self < 0.0 else self


def _compose(x: Jet | float, taylor: Callable[[float], tuple[float, float, float, float]]) -> Jet:
    """Return f(x) for f with the Taylor coefficients `taylor(x[0])` at x[0]."""
    x = Jet.lift(x)
    f = taylor(x.c[0])
    step = Jet((0.0, *x.c[1:]), x.side)
    return ((step * f[3] + f[2]) * step + f[1]) * step + f[0]


def _exp(x: Jet | float) -> Jet:
    return _compose(x, lambda v: (math.exp(v), math.exp(v), math.exp(v) / 2, math.exp(v) / 6))


def _log(x: Jet | float) -> Jet:
    return _compose(x, lambda v: (math.log(v), 1 / v, -1 / (2 * v * v), 1 / (3 * v * v * v)))


def _sqrt(x: Jet | float) -> Jet:
    if not any(Jet.lift(x).c):
        return Jet.lift(x)  # the root of a function that is constantly 0 is 0

    def taylor(v: float) -> tuple[float, float, float, float]:
        r = math.sqrt(v)
        return r, 1 / (2 * r), -1 / (8 * r * v), 1 / (16 * r * v * v)

    return _compose(x, taylor)


def _tanh(x: Jet | float) -> Jet:
    def taylor(v: float) -> tuple[float, float, float, float]:
        t = math.tanh(v)
        slope = 1.0 / math.cosh(v) ** 2 if abs(v) < 300.0 else 0.0  # 1 - t^2 without cancellation
        return t, slope, -t * slope, slope * (t * t - slope / 2.0) * 2.0 / 3.0

    return _compose(x, taylor)


def _min(*values: Jet | float) -> Jet | float:
    best = values[0]
    for value in values[1:]:
        best = value if value < best else best
    return best


def _max(*values: Jet | float) -> Jet | float:
    best = values[0]
    for value in values[1:]:
        best = value if best < value else best
    return best


JETS: Mapping[str, Callable[..., Any]] = {
    "min": _min,
    "max": _max,
    "abs": abs,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "tanh": _tanh,
}


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses, also in its comprehensions and inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


class _ReboundModule:
    """A module whose functions are rebound when a law calls them by the name of the module."""

    def __init__(self, module: ModuleType, names: Mapping[str, Callable[..., Any]]) -> None:
        self._module, self._names = module, names

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, FunctionType):
            value = rebind(value, self._names)
        setattr(self, name, value)
        return value


def rebind(law: Callable[..., Any], names: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return `law` with the given global names replaced, also in the plain functions that it calls.

    Parameters
    ----------
    law : callable
        Plain Python function.
    names : mapping
        Name -> replacement (for jets, or SymPy's Min, Max, ...).
    """
    if not isinstance(law, FunctionType):
        return law
    space = dict(law.__globals__)
    for name in _names_in(law.__code__):
        value = space.get(name)
        if isinstance(value, FunctionType) and name not in names:
            space[name] = rebind(value, names)
        elif isinstance(value, ModuleType):
            space[name] = _ReboundModule(value, names)
    space.update(names)
    return FunctionType(law.__code__, space, law.__name__, law.__defaults__, law.__closure__)


def derivatives(law: Callable[..., Any], at: Mapping[str, Any], name: str) -> tuple[float, float, float, float]:
    """Return the law's value and its first three derivatives with respect to one argument.

    Parameters
    ----------
    law : callable
        Scalar law.
    at : mapping
        Argument name -> value (floats; `p` may be any object).
    name : str
        The argument to vary.

    Returns
    -------
    tuple[float, float, float, float]
        (f, f', f'', f''') at the point; NaN for a second or third derivative that jumps there.

    Raises
    ------
    LinearizationError
        The slope jumps at the point, because of a tied comparison, min, max or abs.

    Examples
    --------
    >>> derivatives(lambda x: x * x, {"x": 3.0}, "x")
    (9.0, 6.0, 2.0, 0.0)
    """
    c = taylor(law, at, {name: 1.0})
    return c[0], c[1], 2.0 * c[2], 6.0 * c[3]


def gradient(law: Callable[..., Any], at: Mapping[str, Any], names: Iterable[str]) -> dict[str, float]:
    """Return the law's derivatives with respect to some of its arguments.

    Parameters
    ----------
    law : callable
        Scalar law.
    at : mapping
        Argument name -> value.
    names : iterable of str
        The arguments to vary.

    Returns
    -------
    dict
        Name -> derivative.

    Raises
    ------
    LinearizationError
        The law has no linear approximation at the point, because of a tied comparison, min, max or abs.
    """
    on_jets = rebind(law, JETS)
    sides = {name: _sides(on_jets, at, {name: 1.0}) for name in names}
    # An effect that is small compared with those of other arguments is rounding error: a slope may cancel to zero.
    effects = {name: max(abs(c[1] * at[name]) for c in both) for name, both in sides.items()}
    max_effect = max(effects.values(), default=0.0) or 1.0
    slack = {name: _ROUNDING * max_effect / abs(at[name]) if at[name] else 0.0 for name in sides}
    slopes = {name: _agreed(name, *both, slack[name])[1] for name, both in sides.items()}
    # Partial derivatives may exist although arguments that vary together meet a kink: check along one generic line.
    line = {
        name: (2.0 + math.sin(k)) * (abs(at[name]) if effects[name] else max_effect / abs(slope))
        for k, (name, slope) in enumerate(slopes.items())
        if slope
    }
    if line:
        expected = sum(slopes[name] * step for name, step in line.items())
        coefficients = _agreed(", ".join(line), *_sides(on_jets, at, line), _ROUNDING * max_effect)
        if abs(coefficients[1] - expected) > 1e-9 * max_effect:
            raise LinearizationError(f"the law switches at the equilibrium: {', '.join(line)} together meet a kink")
    return slopes


def taylor(law: Callable[..., Any], at: Mapping[str, Any], line: Mapping[str, float]) -> tuple[float, ...]:
    """Return the Taylor coefficients of h -> law(at + h line), to third order.

    Parameters
    ----------
    law : callable
        Scalar law.
    at : mapping
        Argument name -> value.
    line : mapping
        The arguments to vary -> direction component of each.

    Returns
    -------
    tuple of float
        Four floats; NaN for a second or third derivative that jumps there.

    Raises
    ------
    LinearizationError
        The slope jumps at the point, because of a tied comparison, min, max or abs.

    Examples
    --------
    >>> taylor(lambda x, y: x * y, {"x": 3.0, "y": 2.0}, {"x": 1.0, "y": 1.0})
    (6.0, 5.0, 1.0, 0.0)
    """
    return _agreed(", ".join(line), *_sides(rebind(law, JETS), at, line))


@lru_cache(16)
def _on_jets(law: Callable[..., Any]) -> Callable[..., Any]:
    """Return a law for jets, cached because an orbit has many points."""
    return rebind(law, JETS)


class Jacobian(NamedTuple):
    """Values and derivatives of a law of several numbers.

    Attributes
    ----------
    values : list of float
        Numbers that the law returns.
    slopes : list of list of float
        Derivative of each of them with respect to each varied number, for increases.
    kinks : list of int
        Positions of varied numbers with another derivative for decreases; also those that meet a kink together.
    """

    values: list[float]
    slopes: list[list[float]]
    kinks: list[int]


def jacobian(
    law: Callable[[Sequence[Any], Any], Sequence[Any]], at: Sequence[Any], p: Any, varied: Sequence[int]
) -> Jacobian:
    """Return the derivatives of a law that maps a sequence of numbers to another, for example a map per round.

    Parameters
    ----------
    law : callable
        `law(state, p)`, a plain function.
    at : sequence of float or int
        Point, for example (1.0, 3).
    p : object
        Second argument of the law.
    varied : sequence of int
        Positions of the numbers to vary.

    Returns
    -------
    Jacobian

    Raises
    ------
    LinearizationError
        The law fails at the point, or a result is not finite.
    TypeError
        The law is not in the language of laws.

    Examples
    --------
    >>> jacobian(lambda x, p: [x[0] * x[1], max(x[0], 1.0)], [1.0, 3.0], None, [0, 1])
    Jacobian(values=[3.0, 1.0], slopes=[[3.0, 1.0], [1.0, 0.0]], kinks=[0])
    """
    on_jets = _on_jets(law)
    values = [float(value) for value in _outputs(on_jets, at, p, {}, None)[0]]
    sides = [_both_sides(on_jets, at, p, {k: 1.0}) for k in varied]
    sizes = [abs(at[k]) or 1.0 for k in varied]
    slack = [
        _ROUNDING * max((abs(above[i]) * size for (above, _), size in zip(sides, sizes, strict=True)), default=0.0)
        for i in range(len(values))
    ]
    kinks = [
        k
        for k, (above, below), size in zip(varied, sides, sizes, strict=True)
        if _differ(above, below, [each / size for each in slack])
    ]
    line = {k: (2.0 + math.sin(j)) * size for j, (k, size) in enumerate(zip(varied, sizes, strict=True))}
    slopes = [[above[i] for above, _ in sides] for i in range(len(values))]
    if line and not kinks:
        expected = [sum(slope * line[k] for k, slope in zip(varied, row, strict=True)) for row in slopes]
        if any(_differ(side, expected, [1e3 * each for each in slack]) for side in _both_sides(on_jets, at, p, line)):
            kinks = list(varied)
    return Jacobian(values, slopes, kinks)


def directional(
    law: Callable[..., Sequence[Any]], at: Sequence[Any], direction: Sequence[float], *arguments: Any
) -> tuple[list[float], list[float]]:
    """Return the values of a law of several numbers and their derivatives along a direction, from its upper side.

    Parameters
    ----------
    law : callable
        `law(state, *arguments)`, a plain function.
    at : sequence of float or int
        Point; integers are not varied.
    direction : sequence of float
        One component for each number of `at`; those of integers have no effect.
    *arguments : object
        Further arguments of the law, for example draws and parameters.

    Returns
    -------
    tuple of list of float
        Values and derivatives, one for each number that the law returns.

    Raises
    ------
    LinearizationError
        The law fails at the point, or a result is not finite.
    TypeError
        The law is not in the language of laws.

    Examples
    --------
    >>> directional(lambda x, p: [p * x[0] * x[1], x[1]], [1.0, 3.0], [1.0, 0.0], 2.0)
    ([6.0, 3.0], [6.0, 0.0])
    """
    line = {k: step for k, step in enumerate(direction) if step and not isinstance(at[k], int)}
    on_jets = _on_jets(law)

    def applied(point: Sequence[Any], _: Any) -> Any:
        return on_jets(point, *arguments)

    applied.__qualname__ = getattr(law, "__qualname__", "law")  # for messages
    return _outputs(applied, at, None, line, _Side(above=True))


def _differ(one: Sequence[float], other: Sequence[float], slack: Sequence[float]) -> bool:
    """Return whether slopes differ by more than rounding errors."""
    return any(abs(a - b) > max(1e-9 * (abs(a) + abs(b)), limit) for a, b, limit in zip(one, other, slack, strict=True))


def _both_sides(
    on_jets: Callable[..., Any], at: Sequence[Any], p: Any, line: Mapping[int, float]
) -> tuple[list[float], list[float]]:
    """Return the slopes of all results along a line, for h > 0 and for h < 0."""
    above = _Side(above=True)
    right = _outputs(on_jets, at, p, line, above)[1]
    return right, _outputs(on_jets, at, p, line, _Side(above=False))[1] if above.asked else right


def _outputs(
    on_jets: Callable[..., Any], at: Sequence[Any], p: Any, line: Mapping[int, float], side: _Side | None
) -> tuple[list[float], list[float]]:
    """Return the values and slopes of all results of a law along a line."""
    point = [Jet((float(x), line[k], 0.0, 0.0), side) if k in line else x for k, x in enumerate(at)]
    try:
        results = [Jet.lift(value).c for value in on_jets(point, p)]
    except (ArithmeticError, ValueError) as error:
        raise LinearizationError(f"{_place(on_jets)} fails on the orbit: {error}") from None
    except (AttributeError, TypeError) as error:
        raise TypeError(f"{_place(on_jets)} cannot be differentiated: {error}; {_LANGUAGE}") from None
    if not all(math.isfinite(value[0]) and math.isfinite(value[1]) for value in results):
        raise LinearizationError(f"{_place(on_jets)} has a result or a slope that is not finite on the orbit")
    return [value[0] for value in results], [value[1] for value in results]


_LANGUAGE = "laws have + - * /, comparisons, min, max, abs, and exp, log, sqrt and tanh of ecc.laws.elementary"


def _place(law: Callable[..., Any]) -> str:
    """Return the name, file and line of a law, as in messages."""
    name = getattr(law, "__qualname__", "law").replace("<lambda>", "law")
    code = getattr(law, "__code__", None)
    return name if code is None else f"{name} ({PurePath(code.co_filename).name}:{code.co_firstlineno})"


def _sides(
    on_jets: Callable[..., Any], at: Mapping[str, Any], line: Mapping[str, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the Taylor coefficients of h -> law(at + h line) for h > 0 and h < 0, equal unless a comparison ties."""

    def coefficients(side: _Side) -> tuple[float, ...]:
        arguments = dict(at)
        for name, step in line.items():
            arguments[name] = Jet((float(at[name]), step, 0.0, 0.0), side)
        try:
            value = on_jets(**arguments)
        except ArithmeticError as error:
            raise LinearizationError(f"{_place(on_jets)} fails at the equilibrium: {error}") from None
        except (AttributeError, TypeError) as error:
            raise TypeError(f"{_place(on_jets)} cannot be differentiated: {error}; {_LANGUAGE}") from None
        try:
            series = Jet.lift(value).c
        except TypeError:
            raise TypeError(f"{_place(on_jets)} must return a number, got a {type(value).__name__}") from None
        if math.isnan(series[0]) or not math.isfinite(series[1]):
            slope = f"has a slope of {series[1]:g} in {', '.join(line)}"
            problem = f"is {series[0]:g}" if math.isnan(series[0]) else slope
            raise LinearizationError(f"{_place(on_jets)} {problem} at the equilibrium")
        return series

    above = _Side(above=True)
    right = coefficients(above)
    return right, coefficients(_Side(above=False)) if above.asked else right


def _agreed(names: str, above: tuple[float, ...], below: tuple[float, ...], slack: float = 0.0) -> tuple[float, ...]:
    """Return the Taylor coefficients if the slopes on both sides of a tie agree; NaN for later ones that differ."""
    if abs(above[1] - below[1]) > max(1e-9 * (abs(above[1]) + abs(below[1])), slack):
        raise LinearizationError(
            f"the law switches at the equilibrium: its slope in {names} is {below[1]:g} or {above[1]:g}"
        )
    return (*above[:2], *(a if a == b else math.nan for a, b in zip(above[2:], below[2:], strict=True)))
