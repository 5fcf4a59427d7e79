"""FAST TCP: each flow keeps alpha packets in queues and steps towards that in proportion (Wei, Jin, Low, Hegde 2006).

    W <- min(2 W, (1 - gamma) W + gamma (B/D W + alpha s))     once an RTT                    sec. III-B
    W' = gamma (alpha s - W R/D)/D                             as fluid, a flow sending W/D   (4)-(5)

    W  window [bytes in hooks, bit in laws]   D  RTT, with queues [s]    alpha  packets of the flow in queues
    s  packet                                 B  least RTT seen [s]      gamma  step
    R  sum of the waits in queues, q/C, on the path [s]: D - B

At equilibrium W R/D = alpha s, so x = alpha s/R: rates are proportionally fair, weighted by alpha, and a link with N
flows of its own has N alpha packets queued (Theorem 1). An ACK moves the estimate of D by min(3 s/W, 1/4) of what it is
off (sec. III-A). A loss halves the window. There is no slow start: what a step adds is gamma alpha packets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.models.base import Equilibrium, FlowEnv, Hook, OperatingRange, Params, check_number
from ecc.models.shared import windows
from ecc.network.network import Network


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    rtt: float = 0.0  # moving average [s]; 0 before any
    acked: float = 0.0  # so far [bytes]
    mark: float = 0.0  # once so much is ACKed, an RTT is over [bytes]
    target: float = 0.0  # window at the end of this RTT [bytes]; 0: as it is


@dataclass(frozen=True)
class FAST(windows.EndToEndProtocol):
    """FAST TCP.

    Parameters
    ----------
    alpha : float, > 0
        Packets that a flow keeps in queues.
    gamma : float, in (0, 1]
        Step.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        As of every `EndToEndProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 200.0
    gamma: float = 0.5
    transport: str = field(default="sack", kw_only=True)

    times = ("continuous",)
    main_parameter = "gamma"
    slow_start_law = None

    operating_range = OperatingRange(capacity=(100e6, 300e6))  # more than the packets that all flows queue

    def __post_init__(self) -> None:
        check_number(self, alpha=None, gamma=None)
        if self.gamma > 1.0:
            raise ValueError(f"gamma must be <= 1, got {shown(self.gamma)}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float) -> float:
        """The wait in the queue; those of a path add up."""
        return q / C

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, p: Params) -> float:
        """Sec. III-B, with the RTT of empty queues known."""
        return stepped(w, D - R, D, p.alpha * s, p.gamma)

    def params(self) -> dict[str, float]:
        return {"alpha": self.alpha, "gamma": self.gamma, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_restart": flow_on_restart, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, rtt: float = 0.0, **values: float) -> Any:
        """Return the state of a flow whose RTTs have long been `rtt`."""
        flow = super().flow_at(x, R, link, window)
        flow.rtt = rtt
        return flow

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Proportional fairness; where there is a queue, `fair_rate` is the wait in it [s] (Theorem 1)."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of FAST receive the feedback of all links of their route")
        return windows.equilibrium_with_own(network, self.alpha)


def stepped(window: float, base: float, rtt: float, kept: float, gamma: float) -> float:
    """The window after an RTT; kept: alpha s."""
    return min(2.0 * window, (1.0 - gamma) * window + gamma * (base / rtt * window + kept))


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Average RTTs; the step of an RTT is taken in equal parts as its ACKs come."""
    s = 1.0 * env.packet_size
    if flow.rtt == 0.0:
        flow.rtt = env.rtt
    flow.rtt += min(3.0 * s / env.window, 0.25) * (env.rtt - flow.rtt)
    flow.acked += env.acked
    if windows.opens(flow, env):
        if flow.acked >= flow.mark:
            flow.target = stepped(env.window, env.min_rtt, flow.rtt, p.alpha * s, p.gamma)
            flow.mark = flow.acked + env.in_flight
        left = flow.mark - flow.acked + env.acked  # of this RTT, with this ACK
        env.window += (flow.target - env.window) * min(env.acked / left, 1.0)


def flow_on_restart(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Go on with the restart window, and a new RTT."""
    windows.flow_on_restart(flow, header, p, env)
    flow.mark = 0.0


def flow_on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Half the window, and a new RTT; one packet after a timeout."""
    flow.mark = 0.0
    window = windows.after_a_loss(windows.on_the_way(env), 1.0 * env.packet_size)
    if env.kind == 0:
        windows.cut(flow, window, env)
    else:
        windows.time_out(flow, window, env)
