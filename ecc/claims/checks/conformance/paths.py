"""Paths of the cases: a single link, and losses at chosen times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import QuantityField, as_time, default
from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory
from ecc.contract.env import Hook
from ecc.contract.parameters import check_number
from ecc.network.network import Network
from ecc.queues.discipline import QueueDiscipline

__all__ = ["CAPACITY", "RTT", "LossesBetween", "bdp", "each_acknowledged", "path"]

CAPACITY, RTT = 20e6, 0.05
"""Capacity [bit/s] and RTT [s] of the usual path of the cases."""


def bdp(capacity: float = CAPACITY, rtt: float = RTT) -> float:
    """Return the bandwidth-delay product of a path [bytes].

    Parameters
    ----------
    capacity : float, bit/s, optional
    rtt : float, s, optional
    """
    return capacity * rtt / 8.0


def path(capacity: float = CAPACITY, rtt: float = RTT, buffer: float = 4.0, flows: int = 1) -> Network:
    """Return a network of one link; packets have `PACKET` bytes.

    Parameters
    ----------
    capacity : float, bit/s, optional
    rtt : float, s, optional
    buffer : float, optional
        Buffer in bandwidth-delay products.
    flows : int, optional
    """
    size = max(int(buffer * bdp(capacity, rtt)), 2 * PACKET)
    return Network.dumbbell(capacity, rtts=[rtt] * flows, buffer=size, packet_size=PACKET)


def each_acknowledged(lab: Laboratory) -> dict[str, Any]:
    """Return the field of a flow with which each packet is acknowledged, for cases that count ACKs in an RTT.

    Parameters
    ----------
    lab : Laboratory
    """
    return {"delayed_acks": (1, 0.025)} if lab.protocol.transport == "quic" else {}


@dataclass
class LinkState:
    """State of the link."""

    seen: int = 0  # data packets in the loss periods
    lost: int = 0


@dataclass(frozen=True)
class LossesBetween(QueueDiscipline):
    """Drops one in `every` data packets during one period, and again during a second period.

    Parameters
    ----------
    mark, packet_size
        Parameters of `QueueDiscipline`; this discipline never marks.
    begin, end, again, until : float, s, >= 0
        Packets are lost from `begin` to `end` and from `again` to `until`.
    every : float, >= 1
        Ratio of packets to losses, for example 10 for every tenth packet.
    max_losses : float, >= 1
        Maximum number of losses from `begin` to `end`, and again from `again` to `until`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    begin: QuantityField = default(0.0)
    end: QuantityField = default(0.0)
    again: QuantityField = default(0.0)
    until: QuantityField = default(0.0)
    every: float = 10.0
    max_losses: float = 1e9

    LinkState = LinkState

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("begin", "end", "again", "until"):
            object.__setattr__(self, name, as_time(getattr(self, name), name))
        check_number(self, every=1.0, max_losses=1.0)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival}


def on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    """Drop one in `every` data packets during the two periods."""
    is_first = p.begin <= env.now < p.end
    if env.kind == 0 and (is_first or p.again <= env.now < p.until):
        link.seen += 1
        if link.seen % p.every == 0.0 and link.lost < (p.max_losses if is_first else 2.0 * p.max_losses):
            link.lost += 1
            env.drop = 1
