"""Compound TCP: Reno's window plus a delay-based window that grows while queues are short (Tan et al. 2006).

    W = c + d                                             c: loss part (cwnd)   d: delay part (dwnd)
    c <- c + s a/W                                        an ACK of a: a packet per RTT
    d <- d + max(alpha (W/s)^k - 1, 0) s   if Q <  gamma s    once an RTT, if W >= low_window s
    d <- max(d - zeta Q, 0)                if Q >= gamma s    once an RTT               Q = W (D - B)/D
    d <- max((1 - beta) W - c/2, 0)        a loss, after which W is (1 - beta) W
    d <- 0, B <- D                         a timeout, with slow start of c as Reno's

    gamma <- (1 - lambda) gamma + lambda 3/4 Q_c    a loss, with `adaptive`: from 5 packets to its parameter
    Q_c = c (D - B)/(D s), lambda = 0.8             packets that Reno would have in queues

    W  window [bytes in hooks, bit in laws]   D  RTT, mean of the last window [s]   B  minimum RTT [s]
    s  packet   Q  the flow's data in queues   alpha 1/8   beta 1/2   k 3/4   zeta 1   gamma 30   low_window 41

While queues are short both parts together gain alpha W^k packets per RTT: 1 for Reno and the rest for d, hence the -1
in its law. With evenly spaced losses, one packet in 1/p, windows oscillate between (1 - beta) M and M,

    M^(2-k) = alpha (2 - k)/(p [1 - (1 - beta)^(2-k)]),        mean ~ p^(-1/(2-k)), p^-0.8 by default,

and `mean_window` also gives the mean for random losses. Once a queue holds gamma packets of a flow, d falls by the
queued data until W is Reno's. In slow start d is 0. The gain of d in an RTT is spread over its ACKs, as in Vegas.

Windows grow until a queue overflows or a packet is lost: no equilibrium exists, except over queue disciplines that
mark or drop at random (`ecc.linearize` with `links=`). Then W = s (alpha/(beta p))^(1/(2-k)) while Q < gamma s.

The abstracts of the paper and of draft-sridharan-tcpm-ctcp-02 were available. Equations and constants agree with
three programs written from them: Linux modules of 2006 (also in ns-2) and 2008, and a module for ns-3. docs/compound.md
lists the differences. None of the three has low_window; lambda is 1/2 in the module of 2008.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp as math_exp
from math import expm1, log1p
from math import gamma as gamma_function
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import as_number
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.laws.elementary import exp, log
from ecc.models.shared import hystart, start_up, windows
from ecc.models.vegas import Vegas, queued

MIN_GAMMA, WEIGHT, SHARE = 5.0, 0.8, 0.75  # packets; weight of a sample in gamma; share of Reno's packets in queues
UNKNOWN = 1e300  # s, an RTT before the first sample


def gained(w: float, s: float, p: Params) -> float:
    """Return the gain of the delay part per RTT with short queues."""
    if w < p.low_window * s:
        return 0.0
    return max(p.alpha * exp(p.k * log(w / s)) - 1.0, 0.0) * s


def delay_part(w: float, d: float, excess: float, gamma: float, s: float, p: Params) -> float:
    """Return the delay part after an RTT without a loss, with `excess` of the flow in queues."""
    return d + gained(w, s, p) if excess < gamma * s else max(d - p.zeta * excess, 0.0)


def delay_part_after_loss(w: float, d: float, p: Params) -> float:
    """Return the delay part after a loss, (1 - beta) W - c/2; for beta <= 1/2 it cannot be negative."""
    remaining = (0.5 - p.beta) * w + 0.5 * d
    return remaining if p.beta <= 0.5 else max(remaining, 0.0)


def window_after_loss(w: float, s: float, p: Params) -> float:
    """Return the window after a loss, two packets or more."""
    return max((1.0 - p.beta) * w, 2.0 * s)


# Laws for fluid, with a known RTT without queues; R is the queueing delay.


def delay_law(w: float, delay: float, lossy: float, R: float, D: float, s: float, p: Params) -> float:
    """The state `delay`, which is 0 until the first loss ends slow start."""
    return delay_part(w, delay, w * R / D, p.gamma, s, p) if lossy > 0.0 else 0.0


def delay_after_loss(w: float, delay: float, p: Params) -> float:
    """The state `delay` after a loss."""
    return delay_part_after_loss(w, delay, p)


def lossy_after_loss() -> float:
    """The state `lossy` after a loss: 1."""
    return 1.0


@dataclass
class FlowState(hystart.FlowState):
    """A host's state for one flow."""

    delay: float = 0.0  # delay part of the window [bytes]
    adds: float = 0.0  # gain of the delay part in this RTT [bytes]
    gamma: float = 0.0  # current gamma [packets]
    base: float = UNKNOWN  # minimum RTT since the last timeout [s]
    rtts: float = 0.0  # sum of the RTT samples of this RTT [s]
    acks: int = 0  # number of these samples
    acked: float = 0.0  # volume acknowledged so far [bytes]
    mark: float = 0.0  # the RTT ends when this volume is acknowledged [bytes]
    reno: float = -1.0  # queued data of the loss part [bytes]; < 0: not known since the last loss
    undo_delay: float = 0.0  # delay part before the last loss [bytes]


@dataclass(frozen=True)
class Compound(start_up.StartUpProtocol):
    """Compound TCP.

    Parameters
    ----------
    alpha : float, > 0
        Packets that a window of one packet would gain per RTT with short queues (Tan et al.: 1/8).
    beta : float, in (0, 1)
        Share of the window that a loss removes.
    k : float, in (0, 1)
        Exponent of the window in its gain per RTT.
    gamma : float, packets, > 0
        Data in queues above which the delay part falls; with `adaptive` the maximum of that threshold.
    zeta : float, > 0
        Share of the data in queues by which it falls.
    low_window : float, packets, >= 0
        Minimum window for growth of the delay part; 0: any.
    adaptive : bool
        Whether gamma follows the data that Reno would have in queues (tuning by emulation).
    slow_start, search_threshold, search_drain, application_limited, saved_window, saved_rtt
        See `StartUpProtocol`.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, pacing, restart, ecn
        See `StartUpProtocol`. The default is recovery by RACK and tail loss probes, as in Windows since 2016.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.125
    beta: float = 0.5
    k: float = 0.75
    gamma: float = 30.0
    zeta: float = 1.0
    low_window: float = 41.0
    adaptive: bool = False
    transport: str = field(default="rack", kw_only=True)

    no_equilibrium = windows.GROW_UNTIL_LOST
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "ours; PI2 with its default parameters", 1500, "PI2")
    cycle_loop = ReferenceLoop(40e6, (0.05,) * 2, "ours; a buffer of a bandwidth-delay product", buffer=250_000)

    def __post_init__(self) -> None:
        check_number(self, alpha=None, beta=None, k=None, gamma=None, zeta=None, low_window=0.0)
        for name in ("beta", "k"):
            if not getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be < 1, got {getattr(self, name):g}")
        check_choice(self, "adaptive", (False, True))
        if self.adaptive and self.gamma < MIN_GAMMA:
            raise ValueError(
                f"gamma must be >= {MIN_GAMMA:g} packets, the minimum of an adaptive gamma, got {self.gamma:g}"
            )
        super().__post_init__()

    @property
    def fluid_refusal(self) -> str | None:
        if self.adaptive:
            return "Compound(adaptive=True) has no fluid model: its laws need a constant gamma"
        return super().fluid_refusal

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(Vegas.router_law)

    @staticmethod
    def source_law(w: float, delay: float, lossy: float, R: float, D: float, s: float, a: float, p: Params) -> float:
        """Both parts after an RTT."""
        reno = windows.grown(w, s, w * (windows.counted(a, s, p) / a))
        return reno + (delay_law(w, delay, lossy, R, D, s, p) - delay)

    loss_response_law = staticmethod(window_after_loss)

    @property
    def states(self) -> Mapping[str, State]:
        def moved(law: Any, jump: Any, unit: str) -> State:
            return State(law, "rtt", jumps={"loss": jump, "mark": jump}, unit=unit)

        delay = moved(delay_law, delay_after_loss, "bit")._replace(simultaneous=True)  # a part of the window
        return {"delay": delay, "lossy": moved(None, lossy_after_loss, "")}

    def params(self) -> dict[str, float]:
        values = {name: float(getattr(self, name)) for name in ("alpha", "beta", "k", "gamma", "zeta", "low_window")}
        return {**values, "adaptive": float(self.adaptive), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_restart": flow_on_restart,
            "on_ack": flow_on_ack,
            "on_loss": flow_on_loss,
        }

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, min_rtt: float = 0.0, **values: float) -> Any:
        """Return the state of a flow in congestion avoidance with a known minimum RTT."""
        flow = super().flow_at(x, R, link, window, **values)
        flow.base, flow.gamma = min_rtt, self.gamma
        return flow

    # ---- published results -------------------------------------------------------------------------------

    @check_arguments
    def mean_window(self, loss: float, random: bool = False) -> float:
        """Return the mean window of a flow with short queues, far above `low_window`, for a given loss rate.

        Parameters
        ----------
        loss : float, in (0, 1)
            Share of packets lost, for example 1e-5.
        random : bool, optional
            Whether packets are lost independently with that probability; False: one after each 1/loss packets.

        Returns
        -------
        float, packets

        Raises
        ------
        ValueError
            A value out of range.

        Notes
        -----
        With evenly spaced losses, windows go from (1 - beta) M to M. Random losses occur at the rate W p/D. Counted in
        packets sent, W^r with r = 2 - k grows by alpha r per packet, and a loss leaves c W^r, c = (1 - beta)^r. So W^r
        is alpha r/p times the sum of c^j E_j with independent exponential E_j, with known moments (Guillemin, Robert,
        Zwart 2004). The mean over time, the inverse of the mean of 1/W over packets, is

            M Gamma_c(1 - 1/r)/Gamma(1 - 1/r),    Gamma_c(x) = (1 - c)^(1 - x) prod_(j >= 1) (1 - c^j)/(1 - c^(j-1+x)).

        Examples
        --------
        >>> round(Compound().mean_window(1e-5)), round(Compound().mean_window(1e-5, random=True))
        (2553, 2631)
        """
        p = as_number(loss, "loss", positive=True)
        if not p < 1.0:
            raise ValueError(f"loss must be < 1, got {shown(p)}")
        r, log_share = 2.0 - self.k, log1p(-self.beta)
        c, taken = math_exp(r * log_share), -expm1(r * log_share)  # taken = 1 - c
        M = (self.alpha * r / (p * taken)) ** (1.0 / r)
        if not random:
            rtts = M ** (1.0 - self.k) * -expm1((1.0 - self.k) * log_share) / (self.alpha * (1.0 - self.k))
            return float(1.0 / (p * rtts))
        if taken < 1e-5:  # small reductions: the window hardly varies
            return float(M)
        powers = c ** np.arange(1.0, 40.0 / taken)
        product = np.prod((1.0 - powers) / (1.0 - powers / (1.0 - self.beta)))
        return float(M * taken ** (1.0 / r) * product / gamma_function(1.0 - 1.0 / r))


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start with the initial window and the maximum gamma."""
    windows.flow_on_start(flow, header, p, env)
    flow.gamma = p.gamma


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Average RTTs, decide once an RTT, and add this ACK's share of the gain of both parts."""
    if env.undone > 0:
        undo(flow, env)
    flow.base = min(flow.base, env.rtt)
    flow.rtts += env.rtt
    flow.acks += 1
    flow.acked += env.acked
    if windows.opens(flow, env):
        if flow.acked >= flow.mark:
            decide(flow, p, env)
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            s = 1.0 * env.packet_size
            step = flow.adds * env.acked / env.window
            flow.delay += step
            env.window = windows.grown(env.window, s, windows.counted(env.acked, s, p)) + step


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window; a smaller window has no delay part, as after a timeout."""
    before = env.window
    windows.flow_on_restart(flow, header, p, env)
    if env.window < before:
        flow.delay = flow.adds = flow.rtts = 0.0
        flow.acks = 0


def decide(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Update the delay part from the RTT that ends here."""
    s, D = 1.0 * env.packet_size, flow.rtts / flow.acks
    flow.adds = 0.0
    if not windows.in_slow_start(flow, env):
        target = delay_part(env.window, flow.delay, queued(env.window, flow.base, D), flow.gamma, s, p)
        flow.reno = queued(env.window - flow.delay, flow.base, D)
        if target < flow.delay:
            windows.cut(flow, env.window - flow.delay + target, env)
            flow.delay = target
        else:
            flow.adds = target - flow.delay
    flow.rtts = 0.0
    flow.acks = 0
    flow.mark = flow.acked + env.in_flight


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Reduce both parts at a loss or a timeout, and adapt gamma."""
    W = windows.on_the_way(env)
    window = window_after_loss(W, 1.0 * env.packet_size, p)
    if env.kind == 0 or flow.backed_off == 0:
        flow.undo_delay = flow.delay
    windows.remember(flow, env)
    flow.adds = 0.0
    if p.adaptive > 0.0 and flow.reno >= 0.0:
        sample = SHARE * flow.reno / env.packet_size
        flow.gamma = min(max((1.0 - WEIGHT) * flow.gamma + WEIGHT * sample, MIN_GAMMA), p.gamma)
    flow.reno = -1.0
    if env.kind == 0:
        flow.delay = delay_part_after_loss(W, min(flow.delay, W), p)
        windows.cut(flow, window, env)
    else:
        flow.delay = 0.0
        flow.gamma = p.gamma
        flow.base = env.srtt
        windows.time_out(flow, window, env)


def undo(flow: FlowState, env: FlowEnv) -> None:
    """RFC 4015: restore the delay part after a spurious loss, as far as the window has room for it."""
    if flow.pipe_prev > 0.0 and env.ece == 0:
        windows.undo(flow, env)
        flow.delay = min(flow.undo_delay, env.window)
    flow.pipe_prev = 0.0
