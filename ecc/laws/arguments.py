"""Questions about the arguments of a law: every engine supplies them by their names.

`takes`: whether a law takes an argument. `arguments_except`, `arguments_beyond`: the arguments that a caller does not
supply. `arguments_from`, `call_law`, `value_of`: a call of a law with the values that it takes of a larger supply.
`arguments_text`, `with_arguments_of`: a call as text, and a law under the arguments of another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from inspect import signature
from numbers import Real
from types import FunctionType
from typing import Any

from ecc.errors import LinearizationError

__all__ = [
    "arguments_beyond",
    "arguments_except",
    "arguments_from",
    "arguments_text",
    "call_law",
    "law_arguments",
    "takes",
    "value_of",
    "with_arguments_of",
]


@lru_cache(256)
def law_arguments(law: Any) -> tuple[str, ...]:
    """Return the names of a law's arguments, which the engine has to supply.

    The result is cached, since every linear model of a map looks it up.

    Parameters
    ----------
    law : object
        Router or source law; None has no arguments.
    """
    return () if law is None else tuple(signature(law).parameters)


def takes(law: Any, argument: str) -> bool:
    """Return whether a law takes an argument.

    Parameters
    ----------
    law : object
        The law; None takes no argument.
    argument : str
        Name of the argument, for example "w".
    """
    return argument in law_arguments(law)


def arguments_except(law: Any, names: Collection[str]) -> list[str]:
    """Return the arguments of a law that are not among some names, for example those that an engine does not supply.

    Parameters
    ----------
    law : object
        The law; None has no arguments.
    names : collection of str
        Names of arguments.
    """
    return [argument for argument in law_arguments(law) if argument not in names]


def arguments_beyond(law: Any, other: Any) -> list[str]:
    """Return the arguments of a law that another law does not take.

    Parameters
    ----------
    law, other : object
        Laws; None has no arguments.
    """
    return arguments_except(law, law_arguments(other))


def arguments_from(law: Any, supply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for the arguments of a law, from a supply that may have more.

    Parameters
    ----------
    law : object
        The law; None has no arguments.
    supply : mapping
        Argument name -> value.

    Raises
    ------
    KeyError
        The supply has no value for an argument.
    """
    return {argument: supply[argument] for argument in law_arguments(law)}


def arguments_text(law: Any, text_of: Callable[[str], str] = str) -> str:
    """Return the arguments of a law as the text between the parentheses of a call, for example "x, R, p".

    Parameters
    ----------
    law : object
        The law; None has no arguments.
    text_of : callable, optional
        Text for the name of an argument; the name itself by default.
    """
    return ", ".join(map(text_of, law_arguments(law)))


def with_arguments_of(law: FunctionType, other: FunctionType) -> FunctionType:
    """Return a law as a function of the name and the arguments of another law, in the order of the other law.

    Parameters
    ----------
    law : function
        The law; it has no arguments beyond those of the other law.
    other : function
        The other law.
    """
    if law_arguments(law) == law_arguments(other):
        return law
    name = other.__name__.strip("<>")
    scope: dict[str, Any] = {"law": law, "__name__": law.__module__}
    exec(f"def {name}({arguments_text(other)}):\n    return law({arguments_text(law)})\n", scope)
    adapted = scope[name]
    assert isinstance(adapted, FunctionType)
    return adapted


def call_law(law: Any, supply: Mapping[str, Any]) -> Any:
    """Return the value of a law at the values of a supply, which may have more arguments than the law.

    Parameters
    ----------
    law : callable
        The law.
    supply : mapping
        Argument name -> value.

    Raises
    ------
    KeyError
        The supply has no value for an argument.
    """
    return law(**arguments_from(law, supply))


def value_of(law: Any, at: Mapping[str, Any], owner: str = "", name: str = "") -> float:
    """Return the value of a law, which must be a number.

    Parameters
    ----------
    law : callable
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
    if type(value) is float and value == value:  # the tests below would take most of the time of a search
        return value
    label = f"{name or law.__name__} of {owner}" if owner else law.__qualname__
    if not isinstance(value, Real):
        raise TypeError(f"{label} must return a number, got {value!r:.60}")
    if math.isnan(value):
        raise LinearizationError(f"{label} is nan at the equilibrium")
    return value
