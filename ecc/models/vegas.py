"""TCP Vegas: each flow keeps a few of its packets in the queues (Brakmo, Peterson 1995).

Once an RTT a flow compares its sending rate with the rate that it would have with empty queues:

    Diff = W/B - W/D                     Expected - Actual                                    sec. 3.2
    W <- W + s        if B Diff < alpha s
    W <- W - s        if B Diff > beta s                   B Diff = W (D - B)/D: the flow's data in queues

    W  window [bytes]   B  minimum RTT [s]      alpha, beta, gamma  packets of the flow in queues
    s  packet           D  RTT, mean of the last window [s]

Slow start doubles the window only every other RTT, so that Diff compares equal windows. It ends at B Diff > gamma s and
gives back an eighth of the window (sec. 3.3). A loss takes a quarter of the window (sec. 3.1).

At equilibrium a flow has between alpha and beta packets queued, for any RTT. The queue of one link is alpha to beta
packets per flow; with alpha = beta rates are proportionally fair (Low, Peterson, Wang 2002, Theorem 1). Which of these
points is reached depends on the start, and a flow that joins a queue mistakes it for propagation delay. With
alpha = beta the law is a relay, W' = s sign(alpha s - W (D - B)/D)/D as fluid, and N flows oscillate like PEDN's. In
packet runs, which decide once an RTT by the mean of the last one, the amplitude is about twice as large. For example, 4
flows of 100 ms at 100 Mb/s with alpha = beta = 3 have 20.6 kB queued on average with an amplitude of 12 kB; the fluid
has 18 kB and 6 kB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium, EquilibriumSet, RelayLoop
from ecc.contract.forms import RelayDelays
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.laws.elementary import sqrt
from ecc.models.shared import windows
from ecc.network.network import Network

LOSS_FACTOR = 0.75  # share of the window that remains after a loss (sec. 3.1)
EXIT_FACTOR = 0.875  # share of the window that remains at the end of slow start (sec. 3.3)


def window_after_loss(w: float, s: float) -> float:
    """Sec. 3.1: three quarters of the window, two packets or more."""
    return max(LOSS_FACTOR * w, 2.0 * s)


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    acked: float = 0.0  # volume acknowledged so far [bytes]
    mark: float = 0.0  # the RTT ends when this volume is acknowledged [bytes]
    rtts: float = 0.0  # sum of the RTT samples of this RTT [s]
    acks: int = 0  # number of these samples
    adds: float = 0.0  # growth of the window in this RTT [bytes]
    holds: int = 0  # 1 if slow start keeps the window constant in this RTT


@dataclass(frozen=True)
class Vegas(windows.EndToEndProtocol):
    """TCP Vegas.

    Parameters
    ----------
    alpha : float, >= 0
        Packets in queues below which the window grows (Brakmo and Peterson: 1 or 2).
    beta : float, >= alpha
        Packets in queues above which the window shrinks (3 or 4).
    gamma : float, >= 0
        Packets in queues above which slow start ends (1).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        See `EndToEndProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 1.0
    beta: float = 3.0
    gamma: float = 1.0
    no_equilibrium = "with alpha < beta any window with alpha to beta packets queued persists"
    relay_delays = RelayDelays(0.5, 0.5, 0.25)  # means over an RTT; growth is spread over an RTT, a decrease is not
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "EDN sec. 3: 100 Mb/s, median RTT 100 ms; four flows are ours")

    def __post_init__(self) -> None:
        check_number(self, alpha=0.0, beta=0.0, gamma=0.0)
        if self.beta < self.alpha:
            raise ValueError(f"beta must be >= alpha ({self.alpha:g} packets), got {self.beta:g}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float) -> float:
        """The queueing delay; the delays of a path's links add up."""
        return q / C

    @staticmethod
    def slow_start_law(w: float, R: float, D: float, s: float, a: float, p: Params) -> float:
        """Sec. 3.3, averaged over an RTT that doubles the window and one that does not."""
        return opened(w, queued(w, D - R, D), sqrt(windows.doubled(w, s, a, p) / w) * w, s, p)

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, p: Params) -> float:
        """Brakmo and Peterson sec. 3.2, with a known RTT without queues."""
        return moved(w, queued(w, D - R, D), s, p)

    loss_response_law = staticmethod(window_after_loss)

    # ---- equilibrium, for alpha = beta -------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point with alpha packets of each flow in queues; for alpha < beta it is not unique."""
        if self.alpha < self.beta:
            return super().equilibrium(network, assignment)
        return windows.equilibrium_with_own(network, self.alpha)

    def equilibrium_set(self, network: Network) -> EquilibriumSet | None:
        """Return the windows with alpha to beta packets of each flow in queues; None for alpha = beta.

        Inside the set windows stay constant, so each window is a direction along it. The given point has
        (alpha + beta)/2 packets of each flow in queues. Outside, equal flows that change together move by a packet per
        RTT and learn it an RTT later: they stop inside if beta - alpha is a packet or more, and may pass the set
        otherwise.
        """
        if self.alpha == self.beta:
            return None
        passed = "" if self.beta - self.alpha >= 1.0 else ", and may pass the set, since beta - alpha < 1 packet"
        return EquilibriumSet(
            windows.equilibrium_with_own(network, 0.5 * (self.alpha + self.beta)),
            network.n_flows,
            f"any windows with {self.alpha:g} to {self.beta:g} packets of each flow in queues",
            f"windows return by a packet per RTT{passed}",
        )

    @property
    def linear_refusal(self) -> str | None:
        return super().linear_refusal if self.alpha < self.beta else windows.relay_refusal("Vegas")

    def relay_loop(self, network: Network) -> tuple[RelayLoop, float]:
        """Return the loop gain from relay to reported packets, and the queue [bit] per reported packet.

        Parameters
        ----------
        network : Network
            Network of one link; its flows have equal RTTs.
        """
        return windows.relay_with_own(self.equilibrium(network), network, self.alpha)

    def params(self) -> dict[str, float]:
        return {"alpha": self.alpha, "beta": self.beta, "gamma": self.gamma, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_restart": flow_on_restart, "on_ack": flow_on_ack, "on_loss": flow_on_loss}


def queued(window: float, base: float, rtt: float) -> float:
    """B Diff: the data of a flow in queues."""
    return window * (rtt - base) / rtt


def opened(window: float, excess: float, grown: float, s: float, p: Params) -> float:
    """Return the window after an RTT of slow start with `excess` queued."""
    return EXIT_FACTOR * window if excess > p.gamma * s else grown


def moved(window: float, excess: float, s: float, p: Params) -> float:
    """Return the window after an RTT with `excess` queued."""
    if excess > p.beta * s:
        return window - s
    return window + s if excess < p.alpha * s else window


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Average RTTs and decide once an RTT; spread the growth over the ACKs of the next one, to avoid a burst."""
    flow.acked += env.acked
    flow.rtts += env.rtt
    flow.acks += 1
    if windows.opens(flow, env):
        if flow.acked >= flow.mark:
            decide(flow, p, env)
        if windows.in_slow_start(flow, env):
            if flow.holds == 0:
                windows.slow_start(flow, p, env)
        else:
            env.window += flow.adds * env.acked / env.window


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window and begin to average RTTs (Linux: vegas_init at CA_EVENT_TX_START)."""
    windows.flow_on_restart(flow, header, p, env)
    flow.adds = flow.rtts = 0.0
    flow.acks = 0
    flow.mark = flow.acked


def decide(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Compare Expected with Actual, and set the change of the window for the next RTT."""
    s = 1.0 * env.packet_size
    excess = queued(env.window, env.min_rtt, flow.rtts / flow.acks)
    flow.adds = 0.0
    if windows.in_slow_start(flow, env):
        flow.holds = 1 - flow.holds
        grown = opened(env.window, excess, env.window, s, p)
        if grown < env.window:
            windows.cut(flow, grown, env)
    else:
        grown = moved(env.window, excess, s, p)
        flow.adds = max(grown - env.window, 0.0)
        if grown < env.window:
            windows.cut(flow, grown, env)
    flow.rtts = 0.0
    flow.acks = 0
    flow.mark = flow.acked + env.in_flight


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Remove a quarter of the window at a loss; after a timeout, slow start to half the window."""
    flow.adds = 0.0
    if env.kind == 0:
        windows.cut(flow, window_after_loss(windows.on_the_way(env), 1.0 * env.packet_size), env)
    else:
        windows.time_out(flow, windows.halved(windows.on_the_way(env)), env)
