"""UTIL: the feedback of VCP with the window law of Vegas (Kumar, Kaur; EDN sec. 4.2).

Routers signal the region of their load factor in two bits, like VCP's (ecc/models/vcp.py). A host opens with slow start
and then changes its window by a packet per RTT:

    rho > 0.8                 leave slow start                            EDN sec. 4.2
    rho < 0.8                 W <- W + s          once an RTT
    rho >= 1                  W <- W - s          once an RTT             W  window    s  packet

Any windows that load the worst link of their paths with 0.8 to 1 of gamma C stay constant, so shares depend on the
start. A loss halves the window, as in NewReno. A shrinking window lowers the slow-start threshold with it; otherwise it
would return to slow start. Once an RTT (EDN footnote 4) the last feedback decides. The minimum window is one packet.
rho = 0.8 counts as high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecc._support.quantity import TIME, as_delay
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium, EquilibriumSet
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models import vcp
from ecc.models.newreno import flow_on_loss
from ecc.models.shared import windows
from ecc.network.allocation import water_filling
from ecc.network.network import Network


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    acked: float = 0.0  # volume acknowledged so far [bytes]
    mark: float = 0.0  # the RTT ends when this volume is acknowledged [bytes]


@dataclass(frozen=True)
class UTIL(windows.WindowProtocol):
    """UTIL.

    Parameters
    ----------
    gamma : float, > 0
        Target utilization of the load factor (VCP: 0.98).
    kappa_q : float, >= 0
        Weight of the persistent queue (VCP: 0.5).
    interval : float, s, > 0
        Measurement interval of routers (VCP: 200 ms).
    sampling : float, s, > 0
        Time between samples of the queue (VCP: 10 ms).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    gamma: float = 0.98
    kappa_q: float = 0.5
    interval: float = 0.2
    sampling: float = 0.01

    dimensions = {"interval": TIME, "sampling": TIME}
    combine = "max"
    no_equilibrium = "any load between 0.8 and 1 of the target persists"
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "EDN sec. 3: 100 Mb/s, median RTT 100 ms; four flows are ours")

    def __post_init__(self) -> None:
        check_number(self, gamma=None, kappa_q=0.0, interval=as_delay, sampling=as_delay)
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(vcp.router_law)

    announce_law = staticmethod(vcp.announce_law)

    @staticmethod
    def slow_start_law(w: float, R: float, s: float, a: float, p: Params) -> float:
        """EDN sec. 4.2: slow start until the load is high."""
        return windows.doubled(w, s, a, p) if R < vcp.HIGH else w

    @staticmethod
    def source_law(w: float, R: float, s: float) -> float:
        """EDN sec. 4.2: the window one RTT later."""
        if R < vcp.HIGH:
            return w + s
        return max(w - s, s) if R >= vcp.OVERLOAD else w

    # ---- equilibria --------------------------------------------------------------------------------------

    def equilibrium_set(self, network: Network) -> EquilibriumSet:
        """Return the windows that load the worst link of each path with 0.8 to 1 of gamma C, without queues.

        Inside the set reports and windows are constant, so each window is a direction along it. The given point has the
        max-min fair rates of links loaded to 0.9 of gamma C.
        """
        load = 0.5 * (vcp.BEGINS_HIGH + vcp.BEGINS_OVERLOAD)
        shares = water_filling(network)
        rates = load * self.gamma * shares.rates
        point = Equilibrium(rates, np.zeros(network.n_links), shares.bottleneck)
        members = f"any windows that load the worst link of each path with {vcp.BEGINS_HIGH:g} to 1 of gamma C"
        return EquilibriumSet(point, network.n_flows, members, "windows return by a packet per RTT")

    def params(self) -> dict[str, float]:
        return {
            "gamma": self.gamma,
            "kappa_q": self.kappa_q,
            "interval": self.interval,
            "sampling": self.sampling,
            **super().params(),
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = vcp.Header
    LinkState = vcp.LinkState
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return vcp.LINK_HOOKS

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_send": vcp.on_send, "on_ack": on_ack, "on_loss": flow_on_loss}

    wire_fields = staticmethod(vcp.VCP.wire_fields)


slow_start_law, source_law = UTIL.slow_start_law, UTIL.source_law


def on_ack(flow: FlowState, header: vcp.Header, p: Params, env: FlowEnv) -> None:
    """Open with slow start until the load is high, then take one step per RTT."""
    s = 1.0 * env.packet_size
    flow.acked += env.acked
    if windows.moves(flow, env):
        is_limited = windows.is_window_limited(flow, env)
        over = flow.acked >= flow.mark
        if over:
            flow.mark = flow.acked + env.in_flight
        if windows.in_slow_start(flow, env):
            if slow_start_law(env.window, header.load, s, s, p) <= env.window:
                flow.ssthresh = env.window
            elif is_limited:
                windows.slow_start(flow, p, env)
        elif over:
            moved = source_law(env.window, header.load, s)
            env.window = moved if is_limited else min(moved, env.window)
            flow.ssthresh = min(flow.ssthresh, env.window)
