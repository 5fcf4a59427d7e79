"""The names of a law's arguments, by which every engine supplies them."""

from __future__ import annotations

from functools import lru_cache
from inspect import signature
from types import FunctionType
from typing import Any

__all__ = ["law_arguments"]


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


@lru_cache(256)
def _names(function: FunctionType) -> tuple[str, ...]:
    """The names of a function's parameters, which every linear model of a map takes."""
    return tuple(signature(function).parameters)
