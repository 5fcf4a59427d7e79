"""TCP Vegas: each flow keeps a few packets of its own in the queues (Brakmo, Peterson 1995).

Once an RTT, from what is sent and what would be with empty queues:

    Diff = W/B - W/D                     Expected - Actual                                    sec. 3.2
    W <- W + s        if B Diff < alpha s
    W <- W - s        if B Diff > beta s                   B Diff = W (D - B)/D: the flow's data in queues

    W  window [bytes]   B  least RTT seen [s]   alpha, beta, gamma  packets of the flow in queues
    s  packet           D  RTT, mean of the last window [s]

Slow start doubles the window every other RTT, so that Diff compares equal windows, and ends at B Diff > gamma s, an
eighth of the window being given back (sec. 3.3). A loss takes a quarter of the window (sec. 3.1).

At rest a flow has between alpha and beta packets queued, whatever its RTT: on one link the queue is alpha to beta
packets a flow, and with alpha = beta rates are proportionally fair (Low, Peterson, Wang 2002, Theorem 1). Which of
these points it is depends on how it got there, and a flow that joins a queue takes it for propagation delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError
from ecc.models import window_books as books
from ecc.models.base import Equilibrium, Hook, NoRecord, Protocol, check_number
from ecc.network import Network


@dataclass
class FlowState(books.FlowState):
    """A host's books for one flow."""

    acked: float = 0.0  # so far [bytes]
    mark: float = 0.0  # once so much is ACKed, an RTT is over [bytes]
    rtts: float = 0.0  # sum over the ACKs of this RTT [s]
    acks: int = 0  # their number
    adds: float = 0.0  # to the window in this RTT [bytes]
    holds: int = 0  # whether slow start keeps the window in this RTT


@dataclass(frozen=True)
class Vegas(Protocol):
    """TCP Vegas.

    Parameters
        alpha : float, >= 0. Packets in queues below which the window grows (Brakmo and Peterson: 1 or 2).
        beta : float, >= alpha. ... above which it shrinks (3 or 4).
        gamma : float, >= 0. ... above which slow start ends (1).
        transport : "newreno" or "sack": how losses are recovered.
        initial : float, > 0, or None. First window, in packets; None: RFC 5681 (1), 2 to 4.
        receiver_window : int, bytes, >= 0. How far data may be ahead of what is acknowledged; 0: no limit.
        min_rto : float, s, > 0. Least retransmission timeout.
    Raises
        ValueError, TypeError: a parameter out of range.
    """

    alpha: float = 1.0
    beta: float = 3.0
    gamma: float = 1.0
    transport: str = "newreno"
    initial: float | None = None
    receiver_window: int = 0
    min_rto: float = 1.0

    rests = False
    combine = "sum"
    times = ()
    header_bytes = (0, 0)

    def __post_init__(self) -> None:
        check_number(self, alpha=0.0, beta=0.0, gamma=0.0)
        if self.beta < self.alpha:
            raise ValueError(f"beta must be >= alpha ({self.alpha:g} packets), got {self.beta:g}")
        books.check_parameters(self)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: Any, C: Any) -> Any:
        """The wait in the queue; those of a path add up."""
        return q / C

    @staticmethod
    def source_law(w: Any, R: Any, D: Any, s: Any, p: Any) -> Any:
        """Brakmo and Peterson sec. 3.2, with the RTT of empty queues known."""
        return moved(w, queued(w, D - R, D), s, p)

    def params(self) -> dict[str, float]:
        return {"alpha": self.alpha, "beta": self.beta, "gamma": self.gamma, "initial": self.initial or 0.0}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": books.flow_on_start, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        return NoRecord()

    def flow_at(self, x: float, R: float, link: int) -> Any:
        return FlowState()

    # ---- equilibrium -------------------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """There is no single one: any window that keeps alpha to beta packets queued stays."""
        raise LinearizationError("Vegas has no one equilibrium: any window with alpha to beta packets queued stays")

    @property
    def linear_refusal(self) -> str | None:
        return "Vegas has no equilibrium to linearize at: any window with alpha to beta packets queued stays"


def queued(window: Any, base: Any, rtt: Any) -> Any:
    """B Diff: what a flow has in queues."""
    return window * (rtt - base) / rtt


def moved(window: Any, excess: Any, s: Any, p: Any) -> Any:
    """The window after an RTT, with so much queued."""
    if excess > p.beta * s:
        return window - s
    return window + s if excess < p.alpha * s else window


def flow_on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Average RTTs, and decide once an RTT; what the window gains is added as the ACKs of the next one come."""
    flow.acked += env.acked
    flow.rtts += env.rtt
    flow.acks += 1
    if books.opens(flow, env):
        if flow.acked >= flow.mark:
            decide(flow, p, env)
        if books.in_slow_start(flow, env):
            if flow.holds == 0:
                books.slow_start(env)
        else:
            env.window += flow.adds * env.acked / env.window


def decide(flow: Any, p: Any, env: Any) -> None:
    """Compare Expected with Actual."""
    s = 1.0 * env.packet_size
    excess = queued(env.window, env.min_rtt, flow.rtts / flow.acks)
    flow.adds = 0.0
    if books.in_slow_start(flow, env):
        flow.holds = 1 - flow.holds
        if excess > p.gamma * s:
            books.cut(flow, 0.875 * env.window, env)
    else:
        following = moved(env.window, excess, s, p)
        flow.adds = max(following - env.window, 0.0)
        if following < env.window:
            books.cut(flow, following, env)
    flow.rtts = 0.0
    flow.acks = 0
    flow.mark = flow.acked + env.in_flight


def flow_on_loss(flow: Any, header: Any, p: Any, env: Any) -> None:
    """A quarter less at a loss; slow start to half the window after a timeout."""
    flow.adds = 0.0
    if env.kind == 0:
        books.cut(flow, 0.75 * books.on_the_way(env), env)
    else:
        books.time_out(flow, books.halved(books.on_the_way(env)), env)
