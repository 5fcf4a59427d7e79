"""The loop of a protocol for readers: its kind, and the engines and linear models that its definitions allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ecc._support.display import Displayed, Rows
from ecc.contract.kinds import Kind, LoopDeclarations, kind_of

__all__ = ["Loop", "loop_of"]


@dataclass(frozen=True, repr=False)
class Loop(Displayed):
    """The kind of a closed loop, and for each engine the reason why a protocol does not run there.

    Attributes
    ----------
    kind : Kind
        For example `Kind.STEPPED_RATES` ("stepped rates").
    packet, fluid, linear : str or None
        Reason for the lack of packet runs, fluid runs or linear models; None if they exist. The call may still refuse a
        network, a parameter, an argument of a law, or inherited hooks that do not follow a changed law. Hosts over a
        marking discipline have a linear model even if they have none alone.
    times : tuple of str
        Times of the linear models, for example ("continuous", "discrete").
    """

    kind: Kind
    packet: str | None
    fluid: str | None
    linear: str | None
    times: tuple[str, ...]

    def _rows(self) -> Rows:
        def answer(reason: str | None, available: str = "yes") -> str:
            return available if reason is None else f"no: {reason}"

        return [
            ("kind", str(self.kind)),
            ("packet runs", answer(self.packet)),
            ("fluid runs", answer(self.fluid)),
            ("linear models", answer(self.linear, ", ".join(self.times))),
        ]


class EngineDeclarations(LoopDeclarations, Protocol):
    """The declarations of a protocol that decide which engines and linear models it has (`ecc.contract.protocol`)."""

    @property
    def fluid_refusal(self) -> str | None: ...
    @property
    def linear_refusal(self) -> str | None: ...
    @property
    def no_equilibrium(self) -> str: ...
    @property
    def times(self) -> tuple[str, ...]: ...


def loop_of(protocol: EngineDeclarations) -> Loop:
    """Return the loop of a protocol.

    Parameters
    ----------
    protocol : Protocol

    Raises
    ------
    TypeError
        Its `fluid_form` is not one of the option types.
    ValueError
        It fits two kinds of loops, or none.

    Examples
    --------
    >>> from ecc.models import JetMax
    >>> print(JetMax().loop.kind)
    stepped rates
    """
    kind = kind_of(protocol)
    fluid: str | None
    linear: str | None
    hooks = ("link_hooks", "flow_hooks") if type(protocol).has_hosts() else ("link_hooks",)
    missing = [law for law in ("router_law", "source_law") if getattr(protocol, law, None) is None]
    lacks = f"it does not define {' and '.join(missing)}" if missing else None
    packet = protocol._undefined(*hooks)
    if kind is Kind.QUEUE_DISCIPLINE:
        half = "it is half of a loop: deploy it at links, under hosts that set windows"
        fluid = protocol.fluid_refusal or half
        linear = protocol.linear_refusal or half
    else:
        fluid = protocol.fluid_refusal or (None if kind is Kind.STATE_MACHINE else lacks)
        linear = protocol.linear_refusal
        if linear is None and protocol._undefined("round_map") is not None:
            linear = lacks or protocol.no_equilibrium or protocol._undefined("equilibrium")
        if linear is None and not protocol.times:
            linear = "it declares no times"
    return Loop(kind, packet, fluid, linear, () if linear else protocol.times)
