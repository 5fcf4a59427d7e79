"""FAST TCP: each flow steps towards alpha packets in queues, in proportion to its distance (Wei, Jin, Low, Hegde 2006).

    W <- min(2 W, (1 - gamma) W + gamma (B/D W + alpha s))     once an RTT                    sec. III-B
    W' = gamma (alpha s - W R/D)/D                             as fluid, a flow sending W/D   (4)-(5)

    W  window [bytes in hooks, bit in laws]   D  RTT, with queues [s]    alpha  packets of the flow in queues
    s  packet                                 B  minimum RTT [s]         gamma  step
    R  sum of the queueing delays q/C on the path [s]: D - B

At equilibrium W R/D = alpha s, so x = alpha s/R: rates are proportionally fair, weighted by alpha. A bottleneck of N
flows has N alpha packets queued (Theorem 1). An ACK moves the estimate of D by min(3 s/W, 1/4) of its error (sec.
III-A). A loss halves the window. FAST has no slow start: from an empty queue, a step adds gamma alpha packets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models.shared import windows
from ecc.network.network import Network


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    rtt: float = 0.0  # moving average of RTTs [s]; 0 before the first sample
    acked: float = 0.0  # volume acknowledged so far [bytes]
    mark: float = 0.0  # the RTT of a step ends when this volume is acknowledged [bytes]
    target: float = 0.0  # window at the end of this RTT [bytes]; 0 before the first step


@dataclass(frozen=True)
class FAST(windows.EndToEndProtocol):
    """FAST TCP.

    Parameters
    ----------
    alpha : float, > 0
        Packets that a flow keeps in queues, for example 200.
    gamma : float, in (0, 1]
        Share of the distance to the target that a step covers.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        See `EndToEndProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 200.0
    gamma: float = 0.5
    transport: str = field(default="sack", kw_only=True)

    times = ("continuous", "discrete")
    main_parameter = "gamma"
    slow_start_law = None

    operating_range = OperatingRange(capacity=(100e6, 300e6))  # a pipe larger than the packets that all flows queue
    reference_loop = ReferenceLoop(200e6, (0.1,) * 2, "ours")

    def __post_init__(self) -> None:
        check_number(self, alpha=None, gamma=None)
        if self.gamma > 1.0:
            raise ValueError(f"gamma must be <= 1, got {shown(self.gamma)}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float) -> float:
        """The queueing delay; the delays of a path's links add up."""
        return q / C

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, p: Params) -> float:
        """Sec. III-B, with a known RTT without queues."""
        return stepped(w, D - R, D, p.alpha * s, p.gamma)

    def params(self) -> dict[str, float]:
        return {"alpha": self.alpha, "gamma": self.gamma, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_restart": flow_on_restart, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, rtt: float = 0.0, **values: float) -> Any:
        """Return the state of a flow after many RTTs of length `rtt`."""
        flow = super().flow_at(x, R, link, window)
        flow.rtt = rtt
        return flow

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the proportionally fair point; at links with a queue `fair_rate` is the delay [s] (Theorem 1)."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of FAST receive the feedback of all links of their route")
        return windows.equilibrium_with_own(network, self.alpha)


def stepped(window: float, base: float, rtt: float, queued: float, gamma: float) -> float:
    """Return the window after an RTT; `queued` is the target alpha s, and a step never more than doubles the window."""
    return min(2.0 * window, (1.0 - gamma) * window + gamma * (base / rtt * window + queued))


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Average RTTs, and take the step of an RTT in equal parts at its ACKs: one large step would cause a burst."""
    s = 1.0 * env.packet_size
    if flow.rtt == 0.0:
        flow.rtt = env.rtt
    flow.rtt += min(3.0 * s / env.window, 0.25) * (env.rtt - flow.rtt)
    flow.acked += env.acked
    if windows.opens(flow, env):
        if flow.acked >= flow.mark:
            flow.target = stepped(env.window, env.min_rtt, flow.rtt, p.alpha * s, p.gamma)
            flow.mark = flow.acked + env.in_flight
        remaining = flow.mark - flow.acked + env.acked  # volume of this RTT still to be acknowledged, with this ACK
        env.window += (flow.target - env.window) * min(env.acked / remaining, 1.0)


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window and begin a new RTT: the old target is outdated."""
    windows.flow_on_restart(flow, header, p, env)
    flow.mark = 0.0


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Halve the window and begin a new RTT: the old target is outdated; after a timeout, send one packet."""
    flow.mark = 0.0
    window = windows.after_a_loss(windows.on_the_way(env), 1.0 * env.packet_size)
    if env.kind == 0:
        windows.cut(flow, window, env)
    else:
        windows.time_out(flow, window, env)
