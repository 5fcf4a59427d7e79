"""Trimming: a packet that finds the queue full loses its data, and its header overtakes (NDP, Handley et al. 2017).

A link has two queues. Data wait in the second one, which holds `limit` bytes; ACKs and headers of trimmed packets wait
in the first, which is served first. The receiver reports a trimmed packet as soon as its header comes, so that its
sender knows of the loss after little more than an RTT without queues, and sends the data again. Packets of flows
without a `trimmed_size`, and of transports, are dropped instead, as are all where the buffer of the link is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.models.base import Hook, Protocol, Queues, check_number

HEADERS, DATA = 0, 1  # the queues


@dataclass
class LinkState:
    """How many packets were trimmed, or dropped as they could not be."""

    trimmed: int = 0


@dataclass(frozen=True)
class Trimming(Protocol):
    """Packets that find the queue of data full are trimmed to their headers, which go first.

    Parameters
    ----------
    limit : float, bytes, > 0
        Of data that a link holds, with the packet in service if it has any.

    Raises
    ------
    ValueError, TypeError
        No size > 0.
    """

    limit: float = 100_000.0

    times = ()
    linear_refusal = "Trimming has no linear model: it acts where the buffer is full"
    gives = frozenset()
    LinkState = LinkState

    def __post_init__(self) -> None:
        check_number(self, limit=None)

    @property
    def queues(self) -> Queues:
        return Queues("priority", (1, 1))

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_classify": on_classify, "on_arrival": on_arrival}


def on_classify(link: Any, header: Any, p: Any, env: Any) -> None:
    """Tell data (kind 0) from ACKs (1) and headers (2)."""
    env.queue_index = DATA if env.kind == 0 else HEADERS


def on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    """Trim data that find the queue full."""
    if env.kind == 0 and env.queue + env.packet_size > p.limit:
        env.trim = 1
        link.trimmed += 1
