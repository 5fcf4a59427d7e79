"""Trimming: a packet that finds the queue full loses its data, and its header is sent first (NDP, Handley et al. 2017).

A link has two queues. Data wait in the second one, which holds `limit` bytes; ACKs and headers of trimmed packets wait
in the first, which is served first. The receiver reports a trimmed packet as soon as its header arrives. The sender
then learns of the loss after little more than the RTT without queues, and sends the data again. A packet that is not
larger than a header enters the first queue complete, and counts as data at its receiver. Packets of flows without a
`trimmed_size`, and of transports, are dropped instead, as are all packets if the buffer of the link is full.

With thresholds, data that leave are marked (ECN) according to the data that remain in their queue, q: with the
probability (q - K_min)/(K_max - K_min), limited to [0, 1], as in the switches of Ultra Ethernet 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import SIZE
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.queues.ramp_marking import ramp

HEADERS, DATA = 0, 1  # indices of the queues


@dataclass
class LinkState:
    """Number of packets that were trimmed, dropped because they could not be, or sent complete among the headers."""

    trimmed: int = 0


@dataclass(frozen=True)
class Trimming(Protocol):
    """Trimming: packets that find the data queue full are cut to their headers, which are served first.

    Parameters
    ----------
    limit : float, bytes, > 0
        Data that a link holds, including a data packet in service.
    min_threshold, max_threshold : float, bytes, >= 0, or None
        Queue of data up to which none is marked, and queue from which on all are; without both, nothing is marked.

    Raises
    ------
    ValueError, TypeError
        A limit that is not > 0; min_threshold >= max_threshold, or only one of the two.
    """

    limit: float = 100_000.0
    min_threshold: float | None = None
    max_threshold: float | None = None

    dimensions = {"limit": SIZE, "min_threshold": SIZE, "max_threshold": SIZE}

    times = ()
    linear_refusal = "Trimming has no linear model: it acts only when the buffer is full"
    LinkState = LinkState

    def __post_init__(self) -> None:
        check_number(self, limit=None)
        if self.min_threshold is None and self.max_threshold is None:
            return
        if self.min_threshold is None or self.max_threshold is None:
            raise ValueError("min_threshold and max_threshold must both be None or both be sizes, got only one of them")
        check_number(self, min_threshold=0.0, max_threshold=None)
        if self.min_threshold >= self.max_threshold:
            raise ValueError(
                f"max_threshold must be > min_threshold ({self.min_threshold:g} bytes), got {self.max_threshold:g}"
            )

    @property
    def gives(self) -> frozenset[str]:
        return frozenset() if self.min_threshold is None else frozenset({"ecn"})

    @property
    def required_env(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset() if self.min_threshold is None else frozenset({"random"})

    @property
    def queues(self) -> Queues:
        return Queues("priority", (1, 1))

    def link_hooks(self) -> dict[str, Hook]:
        hooks: dict[str, Hook] = {"on_classify": on_classify, "on_arrival": on_arrival}
        return hooks if self.min_threshold is None else {**hooks, "on_departure": on_departure}


def on_classify(link: LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Separate data (kind 0) from ACKs (1) and headers (2)."""
    env.queue_index = DATA if env.kind == 0 else HEADERS


def on_arrival(link: LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Trim data that find the data queue full."""
    if env.kind == 0 and env.queue + env.packet_size > p.limit:
        env.trim = 1
        link.trimmed += 1


def on_departure(link: LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Mark data at random, by the queue that they leave behind."""
    if env.kind == 0 and env.random < ramp(1.0 * env.queue, p.min_threshold, p.max_threshold):
        env.mark = 1
