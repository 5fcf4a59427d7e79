"""Equilibria, states and records of a protocol at an operating point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.contract.choices import JUMPS, STATE_CLOCKS
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.kinds import source_takes
from ecc.contract.protocol import Protocol
from ecc.contract.states import RESERVED_NAMES, State
from ecc.errors import LinearizationError
from ecc.network.network import Network

__all__ = [
    "clock_of_states",
    "equilibrium_of",
    "record_at",
    "refuse_simultaneous",
    "simultaneous_states",
    "state_at",
    "states_of",
]


def equilibrium_of(protocol: Protocol, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
    """Return the equilibrium that a protocol states, which must be one.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    assignment : ndarray of int, optional
        As of `Protocol.equilibrium`.

    Raises
    ------
    LinearizationError
        If no equilibrium exists.
    TypeError
        It returns something else.
    """
    point: Any = protocol.equilibrium(network, assignment)
    if not isinstance(point, Equilibrium):
        raise TypeError(f"equilibrium of {type(protocol).__name__} must return an Equilibrium, got {shown(point)}")
    return point


def clock_of_states(protocol: Protocol) -> str:
    """Return the clock that states of a host have which sets rates.

    Parameters
    ----------
    protocol : Protocol
    """
    return "continuous" if protocol.source_clock == "continuous" else "update"


def states_of(protocol: Protocol) -> Mapping[str, State]:
    """Return the states of a protocol, checked.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    ValueError
        A name that laws have for something else, a clock or a signal that is not known, or limits that are crossed.
    """
    kind = type(protocol).__name__
    for name, state in protocol.states.items():
        if not name.isidentifier() or name in RESERVED_NAMES:
            raise ValueError(f"states of {kind} must have names that laws have for nothing else, got {shown(name)}")
        if not isinstance(state, State):
            raise TypeError(f"states of {kind} must be State, got {shown(state)} for {name}")
        if state.clock not in STATE_CLOCKS:
            listed = ", ".join(map(repr, STATE_CLOCKS))
            raise ValueError(f"clock of state {name} of {kind} must be one of {listed}, got {shown(state.clock)}")
        if unknown := [signal for signal in state.jumps if signal not in JUMPS]:
            raise ValueError(f"jumps of state {name} of {kind} must be at 'loss' or 'mark', got {shown(unknown[0])}")
        if not (callable(state.initial) or state.lowest <= state.initial <= state.highest):
            raise ValueError(
                f"initial of state {name} of {kind} must be from {state.lowest:g} to {state.highest:g}, got "
                f"{state.initial:g}"
            )
        if state.simultaneous and not (state.clock == "rtt" and source_takes(protocol, "w")):
            raise ValueError(
                f"simultaneous of state {name} of {kind} must be False for the clock {state.clock!r}: only the states "
                "of a host's window with the clock 'rtt' move together with it"
            )
    return protocol.states


def simultaneous_states(protocol: Protocol) -> tuple[str, ...]:
    """Return the names of the states that move together with the window, whose old values the window law takes.

    Parameters
    ----------
    protocol : Protocol
    """
    return tuple(name for name, state in protocol.states.items() if state.simultaneous)


def refuse_simultaneous(protocol: Protocol, model: str) -> None:
    """Refuse states that move together with the window, for a model that updates states before windows.

    Parameters
    ----------
    protocol : Protocol
    model : str
        Name of the model in the message, for example "map per round over a marking threshold".

    Raises
    ------
    LinearizationError
        The protocol has such a state.
    """
    if names := simultaneous_states(protocol):
        raise LinearizationError(
            f"the {model} updates states before windows, and cannot move state {names[0]} of {type(protocol).__name__} "
            "together with the window"
        )


def record_at(record: Any, values: Mapping[str, float]) -> Any:
    """Write values to the fields of a record that have their names, and return the record.

    Parameters
    ----------
    record : object
        Dataclass instance.
    values : mapping
        Name -> value; names without a field are ignored.
    """
    for f in fields(record):
        if f.name in values:
            kind = type(getattr(record, f.name))
            setattr(record, f.name, kind(values[f.name]))
    return record


def state_at(point: Equilibrium, name: str, state: State, flow: int) -> Any:
    """Return the value of a state of a flow's host at an equilibrium: its initial value where that says nothing of it.

    Parameters
    ----------
    point : Equilibrium
    name : str
    state : State
        Of that name.
    flow : int
        Index.
    """
    return float(point.states[name][flow]) if name in point.states else state.initial
