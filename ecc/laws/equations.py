"""The laws of a protocol as SymPy equations, read from the same text that the engines run."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ecc.laws.jets import rebind

if TYPE_CHECKING:
    import sympy

__all__ = ["router_equation", "source_equation"]


class Laws(Protocol):
    """The two laws and the parameters of a protocol."""

    router_law: Callable[..., float]
    source_law: Callable[..., float]

    def params(self) -> dict[str, float]: ...


def router_equation(protocol: Laws) -> sympy.Eq:
    """Return the next fair rate as an equation in the names of the router law's arguments.

    Parameters
    ----------
    protocol : Protocol
        Parameters of value 0 drop out; the others are symbols.

    Returns
    -------
    sympy.Eq
        Sympy Eq, R_next = ...

    Raises
    ------
    TypeError
        A law that branches on its arguments.

    Examples
    --------
    >>> from ecc.models import RCP
    >>> print(router_equation(RCP(queue_term=False)).rhs)
    R*(1 + T*alpha*(C - y)/(C*d))
    """
    return _equation("R_next", protocol.router_law, protocol)


def source_equation(protocol: Laws) -> sympy.Eq:
    """Return the next sending rate as an equation in the names of the source law's arguments.

    Parameters
    ----------
    protocol : Protocol
        Parameters of value 0 drop out; the others are symbols.

    Returns
    -------
    sympy.Eq
        Sympy Eq, x_next = ...

    Raises
    ------
    TypeError
        A law that branches on its arguments.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> print(source_equation(QIRCP()))
    Eq(x_next, R)
    """
    return _equation("x_next", protocol.source_law, protocol)


def _equation(left_side: str, law: Callable[..., Any], protocol: Laws) -> sympy.Eq:
    import sympy

    def symbol(name: str) -> sympy.Symbol:
        return sympy.Symbol(name, real=True)

    functions = {
        "min": sympy.Min,
        "max": sympy.Max,
        "abs": sympy.Abs,
        "exp": sympy.exp,
        "log": sympy.log,
        "sqrt": sympy.sqrt,
        "tanh": sympy.tanh,
    }

    def parameter(name: str, value: Any) -> Any:
        if np.ndim(value):
            return tuple(parameter(f"{name}_{place}", entry) for place, entry in enumerate(value))
        return symbol(name) if value else sympy.Integer(0)

    p = SimpleNamespace(**{name: parameter(name, value) for name, value in protocol.params().items()})
    arguments = {name: p if name == "p" else symbol(name) for name in signature(law).parameters}
    return sympy.Eq(
        symbol(left_side), sympy.nsimplify(rebind(law, functions)(**arguments), rational=True), evaluate=False
    )
