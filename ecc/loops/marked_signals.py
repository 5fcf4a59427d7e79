"""Numbers with their derivatives with respect to present and past states, for the equations of a loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.laws.arguments import arguments_from, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem
from ecc.linear.sample_and_hold import Term

__all__ = ["Signal", "Slopes", "delayed", "derivative", "evaluate", "mean", "nominal", "system_of", "terms_of"]

Slopes = dict[tuple[int, float, int], float]
"""(state, delay [s], order of its derivative) -> coefficient."""


class Signal:
    """A varying number: its value at the equilibrium, and its derivatives with respect to present and past states."""

    __slots__ = ("slopes", "value")

    def __init__(self, value: float, slopes: Slopes) -> None:
        self.value, self.slopes = value, slopes

    def _with(self, value: float, scale: float, other: Any = 0.0, factor: float = 0.0) -> Signal:
        slopes = {key: scale * slope for key, slope in self.slopes.items()}
        for key, slope in other.slopes.items() if isinstance(other, Signal) else ():
            slopes[key] = slopes.get(key, 0.0) + factor * slope
        return Signal(value, slopes)

    def __add__(self, other: Any) -> Signal:
        return self._with(self.value + nominal(other), 1.0, other, 1.0)

    def __sub__(self, other: Any) -> Signal:
        return self._with(self.value - nominal(other), 1.0, other, -1.0)

    def __rsub__(self, other: float) -> Signal:
        return self._with(other - self.value, -1.0)

    def __mul__(self, other: Any) -> Signal:
        return self._with(self.value * nominal(other), nominal(other), other, self.value)

    def __truediv__(self, other: Any) -> Signal:
        over = nominal(other)
        return self._with(self.value / over, 1.0 / over, other, -self.value / over**2)

    def __rtruediv__(self, other: float) -> Signal:
        return self._with(other / self.value, -other / self.value**2)

    __radd__ = __add__
    __rmul__ = __mul__


def nominal(number: Any) -> float:
    return number.value if isinstance(number, Signal) else float(number)


def delayed(number: Any, delay: float) -> Any:
    """Return the value of the number `delay` seconds ago."""
    if not isinstance(number, Signal):
        return number
    return Signal(number.value, {(state, tau + delay, n): a for (state, tau, n), a in number.slopes.items()})


def derivative(number: Any) -> Any:
    """Return the time derivative of the number."""
    if not isinstance(number, Signal):
        return 0.0
    return Signal(0.0, {(state, tau, n + 1): a for (state, tau, n), a in number.slopes.items()})


def mean(number: Any, span: float) -> Any:
    """Return the mean over the last `span` seconds; terms without an antiderivative among the states have order -1."""
    if not isinstance(number, Signal) or span <= 0.0:
        return number
    slopes: Slopes = defaultdict(float)
    for (state, tau, n), a in number.slopes.items():
        if n == 0:
            slopes[state, tau, -1] += a
        else:
            slopes[state, tau, n - 1] += a / span
            slopes[state, tau + span, n - 1] -= a / span
    return Signal(number.value, dict(slopes))


def evaluate(law: Callable[..., float], known: Mapping[str, Any]) -> Any:
    """Return the value of a law, with derivatives if some of its arguments are signals."""
    arguments = arguments_from(law, known)
    varying = [name for name, number in arguments.items() if isinstance(number, Signal)]
    if not varying:
        return value_of(law, arguments)
    at = {name: nominal(number) if name in varying else number for name, number in arguments.items()}
    result = Signal(float(value_of(law, at)), {})
    for name, slope in gradient(law, at, varying).items():
        result = result._with(result.value, 1.0, arguments[name], slope)
    return result


def terms_of(parts: Sequence[tuple[Any, Sequence[int]]]) -> list[Term]:
    """Return the coefficients of some rows of equations; each part has separate states."""
    terms, first = [], 0
    for moved, rows in parts:
        column = {place: first + number for number, place in enumerate(rows)}
        for place in rows:
            for (state, delay, order), slope in moved[place].slopes.items():
                if state in column:
                    terms.append(Term(column[place], column[state], delay, order, slope))
        first += len(rows)
    return terms


def system_of(
    parts: Sequence[tuple[Any, Sequence[int]]], opened: DelaySystem | None = None, notes: Sequence[str] = ()
) -> DelaySystem:
    """Return the linear system of some rows of equations; each part has separate states."""
    size = sum(len(rows) for _, rows in parts)
    by_order: list[dict[float, NDArray[np.float64]]] = [defaultdict(lambda: np.zeros((size, size))) for _ in range(2)]
    for row, column, delay, order, gain in terms_of(parts):
        by_order[order][delay][row, column] += gain
    plain, neutral = by_order
    plain = plain or {0.0: np.zeros((size, size))}
    neutral = {delay: -matrix for delay, matrix in neutral.items() if np.any(matrix)}
    return DelaySystem(
        list(plain.values()),
        list(plain),
        neutral=list(neutral.values()),
        neutral_delays=list(neutral),
        opened=opened,
        notes=notes,
    )
