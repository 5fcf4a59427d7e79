"""Drop-tail: a packet is dropped where the buffer is full, which is a link's own (`ecc.network.Link`)."""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol


@dataclass(frozen=True)
class DropTail(Protocol):
    """No discipline: what a link is that is not named, with flows whose protocol has no routers."""

    times = ()
    linear_refusal = "DropTail has no linear model: it acts where the buffer is full"

    def link_hooks(self) -> dict[str, Hook]:
        return {}
