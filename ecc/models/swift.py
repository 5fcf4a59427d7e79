"""Swift: windows that keep the delay of a path at a target, which is larger for small windows (Kumar et al. 2020).

    D* = base + n h + clip(a/sqrt(W/s) + b, 0, range)                     n  links of the path           sec. 3.5
         a = range/(1/sqrt(fs_min) - 1/sqrt(fs_max)),  b = -a/sqrt(fs_max)
    W <- W + ai s A/max(W, s)                        D < D*, an ACK of A                                 Algorithm 1
    W <- W max(1 - beta (D - D*)/D, 1 - max_mdf)     D >= D*, once an RTT                                Algorithm 1
    W <- W (1 - max_mdf)                             a loss or a timeout, once an RTT; the fifth timeout
                                                     without an ACK in between: W <- min_cwnd s          Algorithm 1

    W  window [bytes in hooks, bit in laws]   s  packet   D  RTT, with queues [s]   base, h, range  [s]

A window below a packet is sent as one packet each D s/W (sec. 3.2). Links count themselves in the header, as with the
TTL. Slow start is left out, and so is the target for host delay.

At equilibrium every flow has D = D*. The scaling gives one window for each D: flows with equal paths have equal
windows, and it adds to the queue of a link with N flows about as sqrt(N). If it is limited to 0 (windows above fs_max)
or to its range, D = D* holds for any shares.

A decrease removes beta of the excess delay, so that D remains above the target: one flow, or flows that decrease at the
same time, do not oscillate below it. Decreases of many flows are spread over the RTT, and each responds to a delay that
others have responded to already: the queue oscillates by about N ai packets (`ecc.stability.target_cycle`,
docs/swift.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import TIME, QuantityField, as_delay, as_time, default
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.laws.elementary import sqrt
from ecc.models.shared import windows
from ecc.models.shared.clock import has_come
from ecc.models.shared.equilibria import full_links
from ecc.network.network import Network

FLAT = "if windows are so large or so small that the target no longer depends on them, any shares persist"
RESET_TIMEOUTS = 5  # timeouts without an ACK in between, after which the window is the minimum


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    links: int = 0  # links of the path so far


def window_after_loss(w: float, s: float, p: Params) -> float:
    """Return the window after a loss, the maximum decrease."""
    return max((1.0 - p.max_mdf) * w, p.min_cwnd * s)


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    decreased: float = -windows.NEVER_LEFT  # time of the last decrease of the window [s]
    timeouts: int = 0  # timeouts since the last ACK


@dataclass(frozen=True)
class Swift(windows.WindowProtocol):
    """Swift.

    Parameters
    ----------
    base_target : float, s, > 0
        Target delay of a path without links, for large windows.
    hop_scaling : float, s, >= 0
        Addition to the target for each link, for example 3 us.
    fs_range : float, s, >= 0
        Maximum addition to the target for small windows, of `fs_min_cwnd` packets or fewer. Windows of `fs_max_cwnd` or
        more add nothing.
    fs_min_cwnd, fs_max_cwnd : float, packets, > 0
        Windows between which the target depends on the window, for example 0.1 and 100.
    ai : float, packets, > 0
        Additive increase of a window per RTT.
    beta : float, in (0, 1]
        Share of the excess delay that a decrease removes.
    max_mdf : float, in (0, 1)
        Maximum decrease, as a share of the window, and the decrease at a loss.
    min_cwnd : float, packets, in (0, `fs_min_cwnd`]
        Minimum window.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; L has no effect. `restart` is "none" by default: without slow start a small window grows
        by `ai` packets per RTT only.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    base_target: QuantityField = default(20e-6)
    hop_scaling: QuantityField = default(3e-6)
    fs_range: QuantityField = default(100e-6)
    fs_min_cwnd: float = 0.1
    fs_max_cwnd: float = 100.0
    ai: float = 1.0
    beta: float = 0.8
    max_mdf: float = 0.5
    min_cwnd: float = 0.01
    transport: str = field(default="sack", kw_only=True)
    restart: str = field(default="none", kw_only=True)

    dimensions = {"base_target": TIME, "hop_scaling": TIME, "fs_range": TIME}

    slow_start_law = None
    linear_refusal = "Swift has no linear model: its windows grow up to the target delay, and have no slope there"

    operating_range = OperatingRange((40e9, 100e9), (10e-6, 20e-6))
    reference_loop = ReferenceLoop(100e9, (10e-6,) * 10, "ours", 4000)

    def __post_init__(self) -> None:
        for name in ("hop_scaling", "fs_range"):
            object.__setattr__(self, name, as_time(getattr(self, name), name))
        check_number(
            self,
            base_target=as_delay,
            fs_min_cwnd=None,
            fs_max_cwnd=None,
            ai=None,
            beta=None,
            max_mdf=None,
            min_cwnd=None,
        )
        if self.fs_max_cwnd <= self.fs_min_cwnd:
            raise ValueError(
                f"fs_max_cwnd must be > fs_min_cwnd ({self.fs_min_cwnd:g} packets), got {shown(self.fs_max_cwnd)}"
            )
        if self.beta > 1.0:
            raise ValueError(f"beta must be <= 1, got {shown(self.beta)}")
        if self.max_mdf >= 1.0:
            raise ValueError(f"max_mdf must be < 1, got {shown(self.max_mdf)}")
        if self.min_cwnd > self.fs_min_cwnd:
            raise ValueError(
                f"min_cwnd must be <= fs_min_cwnd ({self.fs_min_cwnd:g} packets), got {shown(self.min_cwnd)}"
            )
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(p: Params) -> float:
        """The addition of a link to the target; the additions of a path's links add up."""
        return p.hop_scaling

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, p: Params) -> float:
        """The window after an RTT, in which a window is acknowledged."""
        return w + grown(w, w, s, p) if D < target(w, R, s, p) else w

    @staticmethod
    def decrease_law(w: float, R: float, D: float, since: float, s: float, p: Params) -> float:
        """The decrease, once an RTT."""
        aim = target(w, R, s, p)
        return max(cut(w, D, aim, p), p.min_cwnd * s) if D >= aim and since >= D else w

    loss_response_law = staticmethod(window_after_loss)

    def params(self) -> dict[str, float]:
        spread = 1.0 / sqrt(self.fs_min_cwnd) - 1.0 / sqrt(self.fs_max_cwnd)
        return {
            "base_target": self.base_target,
            "hop_scaling": self.hop_scaling,
            "fs_range": self.fs_range,
            "fs_alpha": self.fs_range / spread,
            "fs_beta": -self.fs_range / spread / sqrt(self.fs_max_cwnd),
            "ai": self.ai,
            "beta": self.beta,
            "max_mdf": self.max_mdf,
            "min_cwnd": self.min_cwnd,
            **super().params(),
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    FlowState = FlowState
    sets_rate = True

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": link_on_arrival}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point at which delays equal their targets."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Swift have the target of their whole path")
        crosses, rtts = network.incidence, network.rtts
        s = 8.0 * np.array([flow.mean_packet for flow in network.flows])
        aims = self.base_target + self.hop_scaling * crosses.sum(axis=1)

        def demand(D: NDArray[np.float64]) -> NDArray[np.float64]:
            return self._windows(D - aims) * s / D

        waits = full_links(network, demand, "Swift", FLAT)
        rates = demand(rtts + crosses @ waits)
        late = np.flatnonzero(rtts > aims + self.fs_range)
        notes = tuple(
            f"the RTT of flow {i} exceeds its target without any queue: its window is the minimum" for i in late[:1]
        )
        feedback = np.full(network.n_flows, -1, dtype=np.int64)
        return Equilibrium(
            rates, np.full(network.n_links, self.hop_scaling), feedback, waits * network.capacities, notes
        )

    def steepness(self, network: Network) -> NDArray[np.float64]:
        """Return the relative sensitivity of each flow's target to its window at equilibrium, -(W/D) dD*/dW.

        The argument of `ecc.stability.target_cycle`: a/sqrt(W/s)/(2 D), less than 1/2; 0 if scaling is at its limits.

        Parameters
        ----------
        network : Network

        Returns
        -------
        ndarray, shape (n_flows,)

        Raises
        ------
        LinearizationError
            The equilibrium is not unique.
        """
        point, p = self.equilibrium(network), self.namespace()
        assert point.queue is not None
        D = network.rtts + network.incidence @ (point.queue / network.capacities)
        windows = point.rates * D / (8.0 * np.array([flow.mean_packet for flow in network.flows]))
        inside = (windows > self.fs_min_cwnd) & (windows < self.fs_max_cwnd)
        slopes: NDArray[np.float64] = np.where(inside, 0.5 * p.fs_alpha / np.sqrt(windows) / D, 0.0)
        return slopes

    def _windows(self, scaling: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the windows [packets] with this addition to the target; infinite if it is 0 or less."""
        p = self.namespace()
        inside = (scaling > 0.0) & (scaling <= self.fs_range)
        packets = (p.fs_alpha / np.where(inside, scaling - p.fs_beta, 1.0)) ** 2
        return np.where(inside, packets, np.where(scaling > 0.0, self.min_cwnd, inf))


def target(w: float, R: float, s: float, p: Params) -> float:
    """Sec. 3.5: the target delay, with the additions R of the links."""
    return p.base_target + R + min(max(p.fs_alpha / sqrt(w / s) + p.fs_beta, 0.0), p.fs_range)


def grown(acked: float, w: float, s: float, p: Params) -> float:
    """Algorithm 1: the growth of the window at an ACK."""
    return p.ai * s * acked / max(w, s)


def cut(w: float, D: float, aim: float, p: Params) -> float:
    """Algorithm 1: the window after a delay above the target."""
    return w * max(1.0 - p.beta * (D - aim) / D, 1.0 - p.max_mdf)


def link_on_arrival(link: Any, header: Header, p: Params, env: LinkEnv) -> None:
    """Count the link in the header."""
    if env.kind == 0:
        header.links += 1


def flow_on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Compare the delay with the target; grow at each ACK, decrease once an RTT."""
    if windows.moves(flow, env):
        s = 1.0 * env.packet_size
        flow.timeouts = 0
        aim = target(env.window, p.hop_scaling * header.links, s, p)
        if env.rtt < aim and windows.is_window_limited(flow, env):
            send_with(env.window + grown(env.acked, env.window, s, p), p, env)
        elif env.rtt >= aim and has_come(env.now, flow.decreased + env.rtt):
            flow.decreased = env.now
            send_with(cut(env.window, env.rtt, aim, p), p, env)


def flow_on_loss(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Take the maximum decrease, once an RTT; after five timeouts, the minimum window."""
    if env.kind == 1:
        flow.timeouts += 1
    if flow.timeouts >= RESET_TIMEOUTS:
        send_with(0.0, p, env)
    elif has_come(env.now, flow.decreased + env.srtt):
        flow.decreased = env.now
        send_with(window_after_loss(env.window, 1.0 * env.packet_size, p), p, env)


def send_with(window: float, p: Params, env: FlowEnv) -> None:
    """Continue with a window; one below a packet is sent as one packet each D s/W."""
    env.window = max(window, p.min_cwnd * env.packet_size)
    env.rate = 8.0 * env.window / env.srtt if env.window < env.packet_size and env.srtt > 0.0 else 0.0
