"""Quantities: a number in the base unit, or a string with a unit (`"100 Mb/s"`, `"50 ms"`, `"1.25 MB"`).

Base units are bit/s for rates, seconds for times and bytes for sizes. Every function takes the name of the field that
it converts, for its messages.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar

import numpy as np

from ecc._support.arguments import shown
from ecc._support.columns import Column

__all__ = [
    "LONGEST_DELAY",
    "LONGEST_TIME",
    "PER_TIME",
    "RATE",
    "SIZE",
    "TIME",
    "Dimension",
    "OptionalQuantityField",
    "OptionalSizeField",
    "PacketSizeField",
    "QuantitiesField",
    "Quantity",
    "QuantityField",
    "SizeField",
    "as_choice",
    "as_count",
    "as_delay",
    "as_number",
    "as_rate",
    "as_size",
    "as_time",
    "default",
    "required",
]


@dataclasses.dataclass(frozen=True)
class Dimension:
    """The dimension of a quantity: exponents of size (bytes, bits) and time.

    Numbers of packets have no dimension: if all sizes are scaled, packets are scaled too, but not their number.

    Parameters
    ----------
    size : int
        Exponent of size.
    time : int
        Exponent of time.

    Examples
    --------
    >>> RATE == Dimension(size=1, time=-1)
    True
    >>> RATE.factor(size=2.0, time=4.0)
    0.5
    """

    size: int = 0
    time: int = 0

    def factor(self, size: float = 1.0, time: float = 1.0) -> float:
        """Return the factor that scales a quantity of this dimension if all sizes and times are scaled.

        Parameters
        ----------
        size : float, > 0, optional
            Factor of sizes.
        time : float, > 0, optional
            Factor of times.
        """
        return float(size**self.size * time**self.time)


SIZE = Dimension(size=1)
"""Bytes or bits."""
TIME = Dimension(time=1)
"""Seconds."""
RATE = Dimension(size=1, time=-1)
"""Bit/s."""
PER_TIME = Dimension(time=-1)
"""1/s, for example gains of controllers that act on delays."""

Quantity: TypeAlias = Annotated[float | str, "checked where it is read"]
"""A number in the base unit or a string with a unit."""

if TYPE_CHECKING:
    Stored = TypeVar("Stored")
    Accepted = TypeVar("Accepted")

    class _Field(Generic[Stored, Accepted]):
        """A field of a dataclass that accepts one type and stores another, converted in `__post_init__`."""

        def __get__(self, instance: object, owner: Any) -> Stored: ...
        def __set__(self, instance: object, value: Accepted) -> None: ...

    QuantityField = _Field[float, Quantity]
    SizeField = _Field[int, Quantity]
    OptionalQuantityField = _Field[float | None, Quantity | None]
    OptionalSizeField = _Field[int | None, Quantity | None]
    QuantitiesField = _Field[tuple[float, ...], Sequence[Quantity]]
    PacketSizeField = _Field[int | tuple[int, int], Quantity | tuple[Quantity, Quantity]]
else:
    QuantityField = SizeField = PacketSizeField = Quantity
    OptionalQuantityField = OptionalSizeField = Quantity | None
    QuantitiesField = Sequence[Quantity]


def required() -> Any:
    """Return the declaration of a `QuantityField` without a default.

    Notes
    -----
    Type checkers treat a field as a descriptor, with one type to assign and another to read, only if the body of the
    class assigns a value. They then consider the argument optional, but the constructor requires it.
    """
    return dataclasses.field()


def default(value: Any) -> Any:
    """Return the declaration of a `QuantityField` with a default.

    Parameters
    ----------
    value : object
        Default, in the type that the field stores or one that it accepts, for example "10 ms".
    """
    return value


LONGEST_TIME = 4e6
"""Limit of times [s], 46 days: the packet clock, picoseconds in 64 bits, holds sums of such times."""
LONGEST_DELAY = 1e6
"""Limit of delays and waits [s], lower as several of them add up."""
_LONGEST_TEXT = 100

_RATE = {"b/s": 1.0, "bit/s": 1.0, "bps": 1.0, "bits/s": 1.0, "B/s": 8.0, "byte/s": 8.0}
_TIME = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
_SIZE = {"B": 1.0, "byte": 1.0, "bytes": 1.0, "b": 0.125, "bit": 0.125, "bits": 0.125}
_PREFIXED = {"bit/s": "Mb/s", "s": "ms", "bytes": "kB"}


def as_number(
    value: Quantity,
    field: str,
    unit: str = "",
    units: dict[str, float] | None = None,
    *,
    positive: bool = False,
    minimum: float | None = None,
) -> float:
    """Return `value` as a finite float in the base unit, or raise an error that names `field`.

    Parameters
    ----------
    value : number
        Number, or string with one of `units`.
    field : str
        Name for the message.
    unit : str, optional
        Base unit for the message.
    units : dict, optional
        Accepted unit -> factor to the base unit; None: strings are refused.
    positive : bool, optional
        True: values that are not > 0 are refused.
    minimum : float, optional
        Minimum; lower values are refused.

    Returns
    -------
    float
        Number in the base unit.

    Raises
    ------
    TypeError
        Neither a number nor a string.
    ValueError
        Unreadable, not finite or out of range.
    """
    if type(value) is float or type(value) is int:  # fast path: a network may have a million plain numbers
        number = _float(value)
        if math.isfinite(number) and (minimum is None or number >= minimum) and (number > 0.0 or not positive):
            return number
    if isinstance(value, Column):  # members of an ensemble are checked together
        return value.checked(positive, minimum)
    minimum = None if minimum == -math.inf else minimum
    allowed = "> 0" if positive else (f">= {minimum:g}" if minimum is not None else "finite")
    if isinstance(value, str) and units is not None:
        number = _parse(value, field, unit, units)
    elif isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{field} must be a number{' or a string with a unit' if units else ''}, got {shown(value)}")
    else:
        number = _float(value)
    out_of_range = (positive and not number > 0) or (minimum is not None and not number >= minimum)
    if math.isinf(number) and allowed != "finite":
        allowed += f" {unit} and finite" if unit else " and finite"
        unit = ""
    if not math.isfinite(number) or out_of_range:
        raise ValueError(f"{field} must be {f'{allowed} {unit}'.strip()}, got {shown(value)}")
    return number


def _float(value: Any) -> float:
    """Return a number as a float, infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _parse(text: str, field: str, unit: str, units: dict[str, float]) -> float:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{field} must be a number with a unit such as {unit}, got {shown(text)}")
    head, _, tail = text.strip().rpartition(" ")
    if head and tail in units:  # "5 min": quantiphy would read a milli-"in"
        try:
            return float(head) * units[tail]
        except ValueError:
            pass
    parsed = _number_and_unit(text)
    if parsed is None:
        raise ValueError(f"{field} must be a number with a unit such as {unit}, got {shown(text)}")
    if parsed[1] not in units:
        allowed = f"one of the units {', '.join(units)}, or one with a prefix such as {_PREFIXED[unit]}"
        raise ValueError(f"{field} must have {allowed}, got {shown(text)}")
    return parsed[0] * units[parsed[1]]


@lru_cache(1024)
def _number_and_unit(text: str) -> tuple[float, str] | None:
    """Return the number and unit in a text, or None; cached, as thousands of flows repeat the same text."""
    import quantiphy

    try:
        parsed = quantiphy.Quantity(text, binary=True)
    except quantiphy.QuantiPhyError:
        return None
    return float(parsed), parsed.units


def as_rate(value: Quantity, field: str, *, positive: bool = True) -> float:
    """Return a rate in bit/s, > 0 (>= 0 with `positive=False`); `"100 Mb/s"` and `"1 MB/s"` are understood.

    Parameters
    ----------
    value : Quantity
        Number [bit/s] or string.
    field : str
        Name for the message.
    positive : bool, optional
        True: zero is refused.
    """
    rate = as_number(value, field, "bit/s", _RATE, positive=positive, minimum=0.0)
    if isinstance(value, str) and 0.0 < rate < 1.0:  # the papers write mb/s and mean megabits
        raise ValueError(
            f"{field} must be >= 1 bit/s when given as text, got {shown(value)} ({rate:g} bit/s; M is mega)"
        )
    return rate


def as_time(value: Quantity, field: str, *, positive: bool = False, limit: float = LONGEST_TIME) -> float:
    """Return a time in seconds, >= 0 (> 0 with `positive=True`) and below a limit; `"50 ms"` is understood.

    Parameters
    ----------
    value : Quantity
        Number [s] or string.
    field : str
        Name for the message.
    positive : bool, optional
        True: zero is refused.
    limit : float, s, optional
        Upper limit, exclusive.
    """
    time = as_number(value, field, "s", _TIME, positive=positive, minimum=0.0)
    if time >= limit:
        raise ValueError(f"{field} must be < {limit:g} s, which the clock holds, got {shown(value)}")
    return time


def as_delay(value: Quantity, field: str, *, positive: bool = False) -> float:
    """Return a delay in seconds, like `as_time` but with a lower limit, as several delays add up.

    Parameters
    ----------
    value : Quantity
        Number [s] or string.
    field : str
        Name for the message.
    positive : bool, optional
        True: zero is refused.
    """
    return as_time(value, field, positive=positive, limit=LONGEST_DELAY)


def as_size(value: Quantity, field: str) -> int:
    """Return a size in bytes, >= 1, to the nearest whole number; `"1.25 MB"` is understood.

    Parameters
    ----------
    value : Quantity
        Number [bytes] or string.
    field : str
        Name for the message.
    """
    size = as_number(value, field, "bytes", _SIZE, minimum=1.0)
    if size > 2.0**62:
        raise ValueError(f"{field} must be <= 2^62 bytes, got {shown(value)}")
    return round(size)


def as_choice(value: Any, field: str, choices: tuple[object, ...]) -> Any:
    """Return a value if it is one of the allowed ones.

    Parameters
    ----------
    value : str, bool or None
    field : str
        Name for the message.
    choices : tuple of object
        Allowed values.
    """
    kind = type(value)  # fast path: `isinstance` takes longer than the rest
    if (kind is str or kind is bool or value is None) and value in choices:
        return value
    if not (isinstance(value, str | bool | np.bool_ | None) and value in choices):
        raise ValueError(f"{field} must be one of {', '.join(map(repr, choices))}, got {shown(value)}")
    return value


def as_count(value: Any, field: str, *, minimum: int = 0, bits: int = 63) -> int:
    """Return a whole number >= `minimum` with a limited number of bits.

    Parameters
    ----------
    value : integer
    field : str
        Name for the message.
    minimum : int, optional
        Minimum.
    bits : int, optional
        The value must be below 2 to this power.
    """
    if type(value) is int and minimum <= value < 2**bits:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{field} must be a whole number, got {shown(value)}")
    if value < minimum:
        raise ValueError(f"{field} must be >= {minimum}, got {shown(value)}")
    if value >= 2**bits:
        raise ValueError(f"{field} must be < 2^{bits}, got {shown(value)}")
    return int(value)
