"""A state of a host or a queue discipline, with its law and its clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["RESERVED_NAMES", "State"]


RESERVED_NAMES = frozenset(
    (
        "R R_prev x x_rtt y y_prev y_passed u N N_all q q_prev q_mean q_flow C d D T w w_rtt m since s loss marked "
        "scalable p"
    ).split()
)
"""Names of arguments that no state can have."""


class State(NamedTuple):
    """A state of a host or a queue discipline beside window, rate and R, in `Protocol.states`.

    Attributes
    ----------
    law : callable
        The value after a period of the clock: a plain scalar function, whose argument names are what it needs (see the
        module's text), this and all other states by their names. Those that `states` names before it are new already.
        With the clock "continuous" it returns the derivative [1/s]. None: it moves at its jumps alone.
    clock : str
        "interval" (the parameter of that name), "rtt" (the flow's own RTT), "arrival" (each packet that comes to the
        queue), "continuous", or, of a host that sets rates, "update": each update of its rate (`source_clock`);
        "continuous" where its `source_clock` is that.
    initial : float or callable
        Value with which it begins, or a law that returns it: for a queue discipline a law of C, T and p, for a host
        that sets windows a law of w, its first window [bit], and p.
    jumps : mapping
        Of a host, "loss" or "mark" -> law with its value right after one, by the values of all states right before.
    unit : str
    lowest, highest : float
        Between which it stays.

    Notes
    -----
    As fluid, a state of period t moves by (law - state)/t: t is T, D, or 1/y.
    """

    law: Callable[..., float] | None
    clock: str
    initial: float | Callable[..., float] = 0.0
    jumps: Mapping[str, Callable[..., float]] = MappingProxyType({})
    unit: str = ""
    lowest: float = -inf
    highest: float = inf
