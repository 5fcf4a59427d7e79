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
    """Return the names of a law's arguments: what the engine has to supply.

    Parameters
    ----------
    law : object
        Router or source law; None has none.
    """
    if law is None:
        return ()
    return _names(law) if isinstance(law, FunctionType) else tuple(signature(law).parameters)


def value_of(law: Any, at: Mapping[str, Any], owner: str = "", name: str = "") -> float:
    """Return the value of a law, which must be a number.

    Parameters
    ----------
    law : callable
    at : mapping
        Its arguments.
    owner : str, optional
        Of the law: the name of the protocol; "": where the function was defined.
    name : str, optional
        Of the law; "": that of the function.

    Raises
    ------
    TypeError
        It returns something else.
    LinearizationError
        It is NaN.
    """
    found: float = law(**at)
    what = f"{name or law.__name__} of {owner}" if owner else law.__qualname__
    if not isinstance(found, Real):
        raise TypeError(f"{what} must return a number, got {found!r:.60}")
    if math.isnan(found):
        raise LinearizationError(f"{what} is nan at the equilibrium")
    return found


@lru_cache(256)
def _names(function: FunctionType) -> tuple[str, ...]:
    """The names of a function's parameters, which every linear model of a map takes."""
    return tuple(signature(function).parameters)
