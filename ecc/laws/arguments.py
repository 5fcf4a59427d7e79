"""The names of a law's arguments, by which every engine supplies them, and its value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from inspect import signature
from numbers import Real
from types import FunctionType
from typing import Any

from ecc.errors import LinearizationError

__all__ = ["law_arguments", "value_of"]


def law_arguments(law: Any) -> tuple[str, ...]:
    """Return the names of a law's arguments, which the engine has to supply.

    Parameters
    ----------
    law : object
        Router or source law; None has no arguments.
    """
    if law is None:
        return ()
    return _names(law) if isinstance(law, FunctionType) else tuple(signature(law).parameters)


def value_of(law: Any, at: Mapping[str, Any], owner: str = "", name: str = "") -> float:
    """Return the value of a law, which must be a number.

    Parameters
    ----------
        The law.
    at : mapping
        Argument name -> value.
    owner : str, optional
        Name of the protocol, for messages; if empty, the qualified name of the function is used.
    name : str, optional
        Name of the law, for messages; if empty, that of the function.

    Raises
    ------
    TypeError
        The law returns something that is not a number.
    LinearizationError
        The law returns NaN.
    """
    value: float = law(**at)
    label = f"{name or law.__name__} of {owner}" if owner else law.__qualname__
    if not isinstance(value, Real):
        raise TypeError(f"{label} must return a number, got {value!r:.60}")
    if math.isnan(value):
        raise LinearizationError(f"{label} is nan at the equilibrium")
    return value


@lru_cache(256)
def _names(function: FunctionType) -> tuple[str, ...]:
    """Return the names of a function's parameters; cached, since every linear model of a map looks them up."""
    return tuple(signature(function).parameters)
