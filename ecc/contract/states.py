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
    """A state of a host or a queue discipline in addition to window, rate and R, in `Protocol.states`.

    Attributes
    ----------
    law : callable
        Value after a period of the clock: a plain scalar function, with arguments as all laws (`ecc.contract.protocol`)
        and all states by their names. States listed earlier have already been updated. With the clock "continuous" it
        returns the derivative [1/s]. None: the state moves at its jumps only.
    clock : str
        "interval" (the parameter of that name), "rtt" (the flow's own RTT), "arrival" (each packet that arrives at the
        queue), "continuous", or, for a host that sets rates, "update": each update of its rate (`source_clock`), and
        "continuous" if that is its `source_clock`.
    initial : float or callable
        Initial value, or a law that returns it: for a queue discipline a law of C, T and p, for a host
        that sets windows a law of w, its first window [bit], and p.
    jumps : mapping
        For a host: "loss" or "mark" -> law with the value right after one, from the values of all states right before.
    unit : str
    lowest, highest : float
        Limits of the value.
    simultaneous : bool
        For a host that sets windows, with the clock "rtt": whether the state moves together with the window. In rounds,
        the window law then takes the value before the round; otherwise that after it. While the window is held, in a
        recovery, so is the state. A part of the window whose change the window law contains is an example.

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
    simultaneous: bool = False
