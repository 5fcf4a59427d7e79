"""BIC: binary increase of the window towards where it lost last (Xu, Harfoush, Rhee 2004).

What a window gains in an RTT, and keeps at a loss (sec. III):

    W < 14 s         s                                            as TCP
    W < M            min(max((M - W)/2, s/100), 32 s)             binary search; additive where M is far
    W >= M           min(W - M + s, 32 s)                         max probing: 1, 2, 4, ... packets
    a loss           M <- W, or W (1 - beta/2) if W < M (fast convergence);  W <- (1 - beta) W, below 14 s W/2
    a timeout        M is forgotten

    W  window [bytes]   M  window at the last loss, 0 before any   s  packet   beta  1/8

Where a loss turns out to be none (`transport` "rack"), W and M are what they were before it; after a timeout W is that
of RFC 4015.

What is gained is determined as an RTT begins, and comes with its ACKs: M - W halves. (The pseudo-code there determines
it at each ACK, as Linux does, where M - W falls by exp(-1/2) and exp(-1/4) an RTT.)

`form="linux"` is BIC as Linux 2.6.22 has it (net/ipv4/tcp_bic.c), in whole packets: (M - W)/4, a fifth of a packet
where that is one or less and until W = M + 4, then (W - M)/3; 16 packets at most; beta 205/1024. A window gains a
packet after so many ACKs and one, and each ACK counts for 31/16 packets: the estimate of delayed ACKs begins at 2 and,
rounded, sticks there. At W = ssthresh it is still in slow start: one packet more with the first ACK behind a recovery.
In recovery Linux comes down by a packet every other ACK (rate halving). A loss that was none leaves M as it is, and W
there.

Windows grow until a queue overflows: there is no equilibrium. As fluid, W' = gain/D, D the RTT with queues, where M - W
falls by exp(-1/2) an RTT, and a loss is the same jump of W and M (`ecc.fluid.network`). These are not averaged over
losses, as Misra, Gong, Towsley average W: M' = p W/(s D) (M after a loss - M) would make M a mean of windows, below
which W is drawn down to 14 s and above which max probing runs away from M = W, the equilibrium of the means only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice
from ecc.models.newreno import NewReno
from ecc.models.shared import hystart, windows

LOW_WINDOW = 14.0  # packets
SMALL, LARGE, BETA = 0.01, 32.0, 0.125  # packets, packets, share
LINUX_LARGE, LINUX_KEPT = 16.0, 819.0 / 1024.0  # packets, share


@dataclass
class FlowState(windows.Restorable, hystart.FlowState):
    """A host's state for one flow."""

    top: float = 0.0  # window at the last loss [bytes]; 0: none
    goal: float = 0.0  # window at the end of this RTT [bytes], in the paper
    due: float = 0.0  # what is to be acknowledged until then [bytes]
    acks: float = 0.0  # since the window gained a packet, in Linux
    undo_top: float = 0.0  # before the last loss [bytes]


@dataclass(frozen=True)
class BIC(hystart.SlowStartProtocol):
    """BIC.

    Parameters
    ----------
    form : str
        "paper" or "linux".
    slow_start, transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        See `SlowStartProtocol`. Linux recovers losses by RACK-TLP with proportional rate reduction, the default
        here; Linux 2.6.22 (`form` "linux") had SACK, and has no `prr`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    form: str = "paper"
    transport: str = field(default="rack", kw_only=True)

    no_equilibrium = windows.GROW_UNTIL_LOST

    def __post_init__(self) -> None:
        check_choice(self, "form", ("paper", "linux"))
        super().__post_init__()
        if self.prr and self.form == "linux":
            raise ValueError("prr must be False or None with the form 'linux', which halves its rate, got True")

    @property
    def uses_prr(self) -> bool | str:
        return super().uses_prr if self.form == "paper" else False

    @property
    def rto_granularity(self) -> float:
        """Linux never waits less than 0.2 s longer than an RTT."""
        return 0.2 if self.form == "linux" else 0.0

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(NewReno.router_law)

    @staticmethod
    def source_law(w: float, m: float, s: float, p: Params) -> float:
        """Sec. III, an RTT without a loss."""
        return w + gained(w, m, s, p)

    @staticmethod
    def loss_response_law(w: float, s: float, p: Params) -> float:
        """Sec. III, W after a loss."""
        found = max(below(w, s, p), 2.0 * s)
        return found + s if p.linux > 0.0 else found

    @staticmethod
    def memory_law(w: float, m: float, s: float, p: Params) -> float:
        """Sec. III, M after a loss."""
        return noted(w, m, s, p)

    def params(self) -> dict[str, float]:
        return {"linux": float(self.form == "linux"), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_ack": flow_on_ack, "on_loss": flow_on_loss}


def gained(window: float, top: float, s: float, p: Params) -> float:
    """What the window gains in an RTT, in either form."""
    if p.linux > 0.0:
        return window / (linux_acks(window // s, top // s) + 1.0)
    return increment(window, top, s)


def below(window: float, s: float, p: Params) -> float:
    """The window after a loss."""
    if p.linux > 0.0:
        packets = window // s
        return (LINUX_KEPT * packets if packets > LOW_WINDOW else windows.halved(packets)) // 1.0 * s
    return (1.0 - BETA) * window if window >= LOW_WINDOW * s else windows.halved(window)


def noted(window: float, top: float, s: float, p: Params) -> float:
    """Where the next search ends."""
    if p.linux > 0.0:
        packets = window // s
        return (0.5 * (1.0 + LINUX_KEPT) * packets // 1.0 if packets < top // s else packets) * s
    return (1.0 - 0.5 * BETA) * window if window < top else window


def increment(window: float, top: float, s: float) -> float:
    """What the window gains in an RTT."""
    if window < LOW_WINDOW * s:
        return s
    gain = 0.5 * (top - window) if window < top else window - top + s
    return min(max(gain, SMALL * s), LARGE * s)


def linux_acks(window: float, top: float) -> float:
    """ACKs for which the window gains a packet, in Linux; all in packets."""
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


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open the window."""
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


def search(flow: Any, s: float, env: FlowEnv) -> None:
    """Move by the ACKs of this RTT as determined at its start."""
    if flow.due <= 0.0:
        flow.due = env.window
        flow.goal = env.window + increment(env.window, flow.top, s)
    env.window += (flow.goal - env.window) * min(env.acked / flow.due, 1.0)
    flow.due -= env.acked


def rate_halving(flow: Any, s: float, env: FlowEnv) -> None:
    """Linux comes down a packet every other ACK, and sends no more than an ACK lets out."""
    flow.acks = 1.0 if flow.acks == 0.0 else 0.0
    if flow.acks == 0.0 and env.window > flow.ssthresh:
        env.window -= s
    env.window = min(env.window, env.in_flight + s)
    if env.recovered > 0:
        env.window = min(env.window, flow.ssthresh)


def flow_on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Note where it was lost, and continue below."""
    s = 1.0 * env.packet_size
    window = windows.on_the_way(env)
    if windows.remember_window(flow, env):
        flow.undo_top = flow.top
    flow.due = 0.0
    if env.kind == 0:
        flow.top = noted(window, flow.top, s, p)
        windows.cut(flow, below(window, s, p), env)
        if p.linux > 0.0:
            env.window = window
    else:
        flow.top = 0.0
        windows.time_out(flow, below(window, s, p), env)
    if p.linux > 0.0:
        flow.undo_top = flow.top
        if env.kind == 0:
            flow.undo_W = flow.top
