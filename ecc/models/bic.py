"""BIC: binary increase of the window towards the window of the last loss (Xu, Harfoush, Rhee 2004).

Gain of a window per RTT, and its reduction at a loss (sec. III):

    W < 14 s         s                                            as TCP
    W < M            min(max((M - W)/2, s/100), 32 s)             binary search; additive if M is far
    W >= M           min(W - M + s, 32 s)                         max probing: 1, 2, 4, ... packets
    a loss           M <- W, or W (1 - beta/2) if W < M (fast convergence);  W <- (1 - beta) W, below 14 s W/2
    a timeout        M is discarded

    W  window [bytes]   M  window at the last loss, 0 before any   s  packet   beta  1/8

After a spurious loss (`transport` "rack"), W and M return to their values before it; after a timeout W is that of RFC
4015.

The gain is determined at the start of an RTT and spread over its ACKs: M - W halves. (The paper's pseudo-code and Linux
determine it at each ACK, so that M - W falls by exp(-1/2) and exp(-1/4) per RTT.)

`form="linux"` is BIC as in Linux 2.6.22 (net/ipv4/tcp_bic.c), in whole packets. The gain is (M - W)/4; a fifth of a
packet if that is one or less, and until W = M + 4; then (W - M)/3; limited to 16 packets. beta is 205/1024. A window
gains a packet after one more than the computed number of ACKs, and each ACK counts for 31/16 packets, since the
estimate of delayed ACKs begins at 2 and rounding keeps it there. W = ssthresh is still slow start, so that the first
ACK after a recovery adds a packet. In recovery the window falls by a packet every other ACK (rate halving). A spurious
loss leaves M unchanged and sets W to M.

Windows grow until a queue overflows: no equilibrium exists. As fluid, W' = gain/D with D the RTT including queues, so
that M - W falls by exp(-1/2) per RTT, and a loss is the same jump of W and M (`ecc.fluid.network`). The jumps are not
averaged over losses as Misra, Gong, Towsley average W. With M' = p W/(s D) (M after a loss - M), M would be a mean of
windows: below it W would fall to 14 s, above it max probing would run away, and M = W would be an equilibrium of the
means only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice
from ecc.contract.reference import ReferenceLoop
from ecc.models.newreno import NewReno
from ecc.models.shared import hystart, start_up, windows

LOW_WINDOW = 14.0  # packets below which the window grows and shrinks as TCP's
SMALL, LARGE, BETA = 0.01, 32.0, 0.125  # packets per RTT, packets per RTT, share
LINUX_LARGE, LINUX_KEPT = 16.0, 819.0 / 1024.0  # packets per RTT; share of the window after a loss


@dataclass
class FlowState(windows.Restorable, hystart.FlowState):
    """A host's state for one flow."""

    top: float = 0.0  # M, window at the last loss [bytes]; 0: none yet
    goal: float = 0.0  # window at the end of this RTT [bytes]; form "paper"
    due: float = 0.0  # volume still to be acknowledged in this RTT [bytes]
    acks: float = 0.0  # ACKs since the window gained a packet; form "linux"
    undo_top: float = 0.0  # M before the last loss [bytes]


@dataclass(frozen=True)
class BIC(start_up.StartUpProtocol):
    """BIC.

    Parameters
    ----------
    form : str
        "paper" or "linux": the law of Linux 2.6.22.
    slow_start, search_threshold, search_drain, application_limited, saved_window, saved_rtt
        See `StartUpProtocol`.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, pacing, restart, ecn
        See `StartUpProtocol`. The default is recovery by RACK-TLP with proportional rate reduction, as in Linux;
        Linux 2.6.22 (`form` "linux") had SACK, and no `prr`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    form: str = "paper"
    transport: str = field(default="rack", kw_only=True)

    no_equilibrium = windows.GROW_UNTIL_LOST
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "ours; PI2 with its default parameters", 1500, "PI2")
    cycle_loop = ReferenceLoop(40e6, (0.05,) * 2, "ours; a buffer of a bandwidth-delay product", buffer=250_000)

    def __post_init__(self) -> None:
        check_choice(self, "form", ("paper", "linux"))
        super().__post_init__()
        if self.prr and self.form == "linux":
            raise ValueError("prr must be False or None with the form 'linux', which uses rate halving, got True")

    @property
    def uses_prr(self) -> bool | str:
        return super().uses_prr if self.form == "paper" else False

    @property
    def rto_granularity(self) -> float:
        """Minimum difference of timeout and RTT [s]: 0.2 s in Linux."""
        return 0.2 if self.form == "linux" else 0.0

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(NewReno.router_law)

    @staticmethod
    def source_law(w: float, m: float, s: float, p: Params) -> float:
        """Sec. III: the window after an RTT without a loss."""
        return w + gained(w, m, s, p)

    @staticmethod
    def loss_response_law(w: float, s: float, p: Params) -> float:
        """Sec. III: W after a loss."""
        reduced = max(window_after_loss(w, s, p), 2.0 * s)
        return reduced + s if p.linux > 0.0 else reduced

    @staticmethod
    def memory_law(w: float, m: float, s: float, p: Params) -> float:
        """Sec. III: M after a loss."""
        return next_maximum(w, m, s, p)

    def params(self) -> dict[str, float]:
        return {"linux": float(self.form == "linux"), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_ack": flow_on_ack, "on_loss": flow_on_loss}


def gained(window: float, top: float, s: float, p: Params) -> float:
    """Return the gain of the window per RTT, in either form."""
    if p.linux > 0.0:
        return window / (linux_acks(window // s, top // s) + 1.0)
    return increment(window, top, s)


def window_after_loss(window: float, s: float, p: Params) -> float:
    """Return the window after a loss, in either form."""
    if p.linux > 0.0:
        packets = window // s
        return (LINUX_KEPT * packets if packets > LOW_WINDOW else windows.halved(packets)) // 1.0 * s
    return (1.0 - BETA) * window if window >= LOW_WINDOW * s else windows.halved(window)


def next_maximum(window: float, top: float, s: float, p: Params) -> float:
    """Return M after a loss: the window towards which the next search goes, lowered for fast convergence."""
    if p.linux > 0.0:
        packets = window // s
        return (0.5 * (1.0 + LINUX_KEPT) * packets // 1.0 if packets < top // s else packets) * s
    return (1.0 - 0.5 * BETA) * window if window < top else window


def increment(window: float, top: float, s: float) -> float:
    """Return the gain of the window per RTT, in the form "paper"."""
    if window < LOW_WINDOW * s:
        return s
    gain = 0.5 * (top - window) if window < top else window - top + s
    return min(max(gain, SMALL * s), LARGE * s)


def linux_acks(window: float, top: float) -> float:
    """Return the ACKs for which the window gains a packet, in the form "linux"; arguments are in packets."""
    if window <= LOW_WINDOW:
        return window
    far = (top - window) // 4.0
    if window < top:
        acks = 5.0 * window if far <= 1.0 else window // min(far, LINUX_LARGE)
    elif window < top + 4.0:
        acks = 5.0 * window
    elif window < top + 3.0 * LINUX_LARGE:
        acks = 3.0 * window // (window - top)
    else:
        acks = window // LINUX_LARGE
    if top == 0.0:
        acks = min(acks, 20.0)
    return max(16.0 * acks // 31.0, 1.0)


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Undo a spurious loss, and open the window."""
    s = 1.0 * env.packet_size
    if p.linux > 0.0 and env.recovering + env.recovered > 0:
        rate_halving(flow, s, env)
    if env.undone > 0 and windows.restore(flow, env):
        flow.top = flow.undo_top
        flow.due = 0.0
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env) or (p.linux > 0.0 and env.window == flow.ssthresh):
            windows.slow_start(flow, p, env)
        elif p.linux == 0.0:
            search(flow, s, env)
        elif flow.acks >= linux_acks(env.window // s, flow.top // s):
            env.window += s
            flow.acks = 0.0
        else:
            flow.acks += 1.0


def search(flow: FlowState, s: float, env: FlowEnv) -> None:
    """Move by this ACK's share of the gain determined at the start of the RTT."""
    if flow.due <= 0.0:
        flow.due = env.window
        flow.goal = env.window + increment(env.window, flow.top, s)
    env.window += (flow.goal - env.window) * min(env.acked / flow.due, 1.0)
    flow.due -= env.acked


def rate_halving(flow: FlowState, s: float, env: FlowEnv) -> None:
    """Lower the window by a packet every other ACK, and limit it so that an ACK releases one packet (Linux)."""
    flow.acks = 1.0 if flow.acks == 0.0 else 0.0
    if flow.acks == 0.0 and env.window > flow.ssthresh:
        env.window -= s
    env.window = min(env.window, env.in_flight + s)
    if env.recovered > 0:
        env.window = min(env.window, flow.ssthresh)


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Remember the window at the loss, and reduce it."""
    s = 1.0 * env.packet_size
    window = windows.on_the_way(env)
    if windows.remember_window(flow, env):
        flow.undo_top = flow.top
    flow.due = 0.0
    if env.kind == 0:
        flow.top = next_maximum(window, flow.top, s, p)
        windows.cut(flow, window_after_loss(window, s, p), env)
        if p.linux > 0.0:
            env.window = window
    else:
        flow.top = 0.0
        windows.time_out(flow, window_after_loss(window, s, p), env)
    if p.linux > 0.0:
        flow.undo_top = flow.top
        if env.kind == 0:
            flow.undo_W = flow.top
