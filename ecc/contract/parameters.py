"""Checks, dimensions and labels of the parameters of a protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import Dimension, as_choice, as_delay, as_number, as_size
from ecc.contract.protocol import Protocol

__all__ = ["check_choice", "check_number", "dimensions_of", "interval_of", "label", "settings"]

_ENTRIES_SHOWN = 4


def check_number(protocol: Any, **allowed: float | Callable[..., float] | None) -> None:
    """Check parameters on construction: a lower limit means >= it, None means > 0; floats are stored back.

    Parameters
    ----------
    protocol : object
        Frozen dataclass instance.
    **allowed : float or callable or None
        Parameter name -> minimum, or None for > 0; or `as_delay`, `as_rate`, `as_size` of `ecc.quantity` for one > 0
        that may have a unit.

    Raises
    ------
    ValueError, TypeError
        One line naming the parameter, the value and what is allowed.
    """
    for name, minimum in allowed.items():
        value = getattr(protocol, name)
        if callable(minimum):
            number = float(minimum(value, name) if minimum is as_size else minimum(value, name, positive=True))
        else:
            number = as_number(value, name, positive=minimum is None, minimum=minimum)
        if number is not value:
            object.__setattr__(protocol, name, number)


def dimensions_of(protocol: Protocol) -> dict[str, Dimension]:
    """Return the dimensions of a protocol's parameters; those that are pure numbers are missing.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError, ValueError
        `dimensions` of its class names no parameter, or has something else than a `Dimension`.

    Examples
    --------
    >>> from ecc.models import EMKC
    >>> dimensions_of(EMKC())
    {'alpha': Dimension(size=1, time=-1), 'interval': Dimension(size=0, time=1)}
    """
    dimensions: dict[str, Dimension] = {}
    for base in reversed(type(protocol).__mro__):
        declared = vars(base).get("dimensions", {})
        dimensions.update(declared.__get__(protocol) if isinstance(declared, property) else declared)
    names = {f.name for f in fields(protocol)}
    for name, dimension in dimensions.items():
        if name not in names:
            listed = ", ".join(f.name for f in fields(protocol)) or "none"
            raise ValueError(
                f"dimensions of {type(protocol).__name__} must name parameters ({listed}), got {shown(name)}"
            )
        if not isinstance(dimension, Dimension):
            raise TypeError(
                f"dimensions of {type(protocol).__name__} must be a Dimension, got {shown(dimension)} for {name}"
            )
    return dimensions


def interval_of(protocol: Protocol) -> float:
    """Return the time between updates of a protocol's routers [s].

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    ValueError
        Its `params()` do not hold it.
    """
    params = protocol.params()
    if "interval" not in params:
        raise ValueError(
            f"interval must be among the params() of {type(protocol).__name__}: the time between updates [s], got "
            f"{', '.join(params) or 'none'}"
        )
    return as_delay(params["interval"], "interval", positive=True)


def check_choice(protocol: Any, name: str, choices: tuple[object, ...]) -> None:
    """Check that a parameter is one of the named variants.

    Parameters
    ----------
    protocol : object
        Dataclass instance.
    name : str
        Parameter.
    choices : tuple of object
        Allowed values.
    """
    as_choice(getattr(protocol, name), name, choices)


def settings(protocol: Protocol) -> dict[str, Any]:
    """Return the constructor arguments that differ from their defaults (for TOML and labels).

    Parameters
    ----------
    protocol : Protocol
    """
    return {f.name: getattr(protocol, f.name) for f in fields(protocol) if getattr(protocol, f.name) != f.default}


def label(protocol: Protocol, *names: str) -> str:
    """Return a protocol in short: its name, some parameters, and all that differ from their defaults.

    Parameters
    ----------
    protocol : Protocol
    *names : str
        Parameters that are shown in any case.
    """
    shown = {name: getattr(protocol, name) for name in names} | settings(protocol)
    inside = ", ".join(f"{key} = {_value_text(value)}" for key, value in shown.items())
    return f"{type(protocol).__name__}({inside})" if inside else type(protocol).__name__


def _value_text(value: Any) -> str:
    """A value in a label; long arrays by their first entries and their length."""
    if isinstance(value, tuple):
        first = ", ".join(map(_value_text, value[:_ENTRIES_SHOWN]))
        return f"({first})" if len(value) <= _ENTRIES_SHOWN else f"({first}, ... {len(value)} entries)"
    return f"{value:g}" if isinstance(value, float) else f"{value}"
