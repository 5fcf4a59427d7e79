"""Drop-tail: a packet is dropped if the buffer, a property of the link (`ecc.network.Link`), is full."""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol


@dataclass(frozen=True)
class DropTail(Protocol):
    """No discipline: the default of links if the protocol of the flows has no routers."""

    times = ()
    linear_refusal = "DropTail has no linear model: it acts only when the buffer is full"

    def link_hooks(self) -> dict[str, Hook]:
        return {}
