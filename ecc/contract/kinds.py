"""The kind of a closed loop, which decides how fluid runs and linear models treat a protocol.

A class declares its kind by its definitions: an option type as `fluid_form` (`ecc.contract.forms`), or a `source_law`
with certain arguments. This file is the only one that derives the kind from a class. A class that fits two kinds, or
none, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from ecc._support.arguments import shown
from ecc.contract.forms import FluidForm, GrantedWindows, SampledPrices, StateMachine, SteppedRates
from ecc.contract.states import State
from ecc.laws.arguments import takes

__all__ = [
    "Kind",
    "LoopDeclarations",
    "kind_of",
    "kind_of_laws",
    "router_takes",
    "sets_windows",
    "source_takes",
    "steps_from_rate",
]


class Kind(StrEnum):
    """Kinds of closed loops."""

    EXPLICIT_FEEDBACK = "explicit feedback"
    """Routers compute a rate, price or feedback from their arrivals, and hosts set rates by it."""
    SAMPLED_PRICES = "sampled prices"
    """Hosts respond once to each price, which a router computes of an interval (`SampledPrices`)."""
    STEPPED_RATES = "stepped rates"
    """Hosts step once routers have reported on a complete interval after their last step (`SteppedRates`)."""
    GRANTED_WINDOWS = "granted windows"
    """Routers grant changes of windows, an interval ahead (`GrantedWindows`)."""
    ACK_CLOCKED_WINDOWS = "ACK-clocked windows"
    """Hosts set windows: the source law takes `w`, and each ACK lets a packet go."""
    WINDOWS_WITH_STATES = "ACK-clocked windows with states"
    """Hosts set windows that ACKs clock, and have further states, or their routers measure arrivals (`y`)."""
    PACED_WINDOWS = "paced windows"
    """Hosts set windows, and send them in no less than a given time (`paced_over`)."""
    HOST_RATES = "host rates"
    """Hosts set rates by states of their own, such as an averaged gradient of RTTs."""
    ROUND_MAP = "map per round"
    """Hosts and routers act once per round, and `round_map` has their states after a round (`RoundMap`)."""
    STATE_MACHINE = "state machine"
    """Hosts are state machines, which probe in turns and jump (`StateMachine`)."""
    QUEUE_DISCIPLINE = "queue discipline"
    """Half of a loop: a queue that drops, marks or trims packets of other protocols' hosts."""
    PACKETS_ONLY = "packet hooks only"
    """Hooks without laws: packet runs alone can show what the protocol does."""


class LoopDeclarations(Protocol):
    """The declarations of a protocol that decide its kind, in addition to its laws (`ecc.contract.protocol`)."""

    @property
    def fluid_form(self) -> FluidForm | None: ...
    @property
    def paced_over(self) -> float: ...
    @property
    def states(self) -> Mapping[str, State]: ...
    @property
    def source_clock(self) -> str: ...
    @classmethod
    def has_hosts(cls) -> bool: ...
    def _undefined(self, *names: str) -> str | None: ...


_FORMS = {
    SampledPrices: Kind.SAMPLED_PRICES,
    SteppedRates: Kind.STEPPED_RATES,
    GrantedWindows: Kind.GRANTED_WINDOWS,
}


def router_takes(protocol: object, argument: str) -> bool:
    """Return whether the router law of a protocol takes an argument; False without a router law.

    Parameters
    ----------
    protocol : Protocol
    argument : str
        Name of the argument, for example "R", which routers with memory take.
    """
    return takes(getattr(protocol, "router_law", None), argument)


def source_takes(protocol: object, argument: str) -> bool:
    """Return whether the source law of a protocol takes an argument; False without a source law.

    Parameters
    ----------
    protocol : Protocol
    argument : str
        Name of the argument, for example "x", which hosts that step from their rate take.
    """
    return takes(getattr(protocol, "source_law", None), argument)


def steps_from_rate(protocol: object) -> bool:
    """Return whether the source law of a protocol takes a rate, of now or of an RTT ago, to return the next one.

    Parameters
    ----------
    protocol : Protocol
    """
    return source_takes(protocol, "x") or source_takes(protocol, "x_rtt")


def sets_windows(protocol: object) -> bool:
    """Return whether the source law of a protocol is that of a window, for example `True` for NewReno.

    Parameters
    ----------
    protocol : Protocol
    """
    return source_takes(protocol, "w")


def kind_of(protocol: LoopDeclarations) -> Kind:
    """Return the kind of the closed loop of a protocol, for example `Kind.STEPPED_RATES` for JetMax.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError
        Its `fluid_form` is not one of the option types.
    ValueError
        It fits two kinds, for example by a `fluid_form` of rates and a source law of windows, or none.
    """
    return Kind.STATE_MACHINE if isinstance(protocol.fluid_form, StateMachine) else kind_of_laws(protocol)


def kind_of_laws(protocol: LoopDeclarations) -> Kind:
    """Return the kind of loop of a protocol's laws, which linear models use if its fluid is a state machine.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError
        Its `fluid_form` is not one of the option types.
    ValueError
        It fits two kinds, for example by a `fluid_form` of rates and a source law of windows, or none.
    """
    kinds = _fitting_kinds(protocol)
    if len(kinds) != 1:
        fitting = " and ".join(kinds) if kinds else "none, without a source_law and without hooks"
        raise ValueError(
            f"{type(protocol).__name__} must fit one kind of closed loop, and it fits {fitting}; the kinds are "
            f"{', '.join(Kind)}"
        )
    return kinds[0]


def _fitting_kinds(protocol: LoopDeclarations) -> list[Kind]:
    """Return the kinds of loops that the declarations of a protocol fit."""
    form = protocol.fluid_form
    if form is not None and not isinstance(form, (*_FORMS, StateMachine)):
        raise TypeError(
            f"fluid_form of {type(protocol).__name__} must be SampledPrices, SteppedRates, GrantedWindows, "
            f"StateMachine or None, got {shown(form)}"
        )
    has_map = protocol._undefined("round_map") is None
    if getattr(protocol, "source_law", None) is None:
        if has_map:
            return [Kind.ROUND_MAP]
        if not type(protocol).has_hosts():
            return [Kind.QUEUE_DISCIPLINE]
        has_hooks = any(protocol._undefined(hooks) is None for hooks in ("link_hooks", "flow_hooks"))
        return [Kind.PACKETS_ONLY] if has_hooks or form is not None else []
    kinds = [Kind.ROUND_MAP] if has_map else []
    kinds += [kind for option, kind in _FORMS.items() if isinstance(form, option)]
    if sets_windows(protocol):
        kinds.append(_kind_of_windows(protocol))
    elif protocol.states or protocol.source_clock == "continuous":
        kinds.append(Kind.HOST_RATES)
    return kinds or [Kind.EXPLICIT_FEEDBACK]


def _kind_of_windows(protocol: LoopDeclarations) -> Kind:
    """Return the kind of the loop of hosts that set windows."""
    if protocol.paced_over > 0.0:
        return Kind.PACED_WINDOWS
    has_states = protocol.states or router_takes(protocol, "y")
    return Kind.WINDOWS_WITH_STATES if has_states else Kind.ACK_CLOCKED_WINDOWS
