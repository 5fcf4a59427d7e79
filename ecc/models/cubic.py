"""CUBIC (RFC 9438): between losses the window is a cubic function of time, flat where the last loss was.

    W_cubic(t) = s C (t - K)^3 + M     K = cbrt((M - W_0)/(s C)), so that W_cubic(0) = W_0                     sec. 4.2
    W   <- W + (G - W) a/W             an ACK of a, with G = W_cubic(t + D), at least W and at most 3 W/2       sec. 4.2
    W   <- E                           where W_cubic(t) < E, the window that Reno would have                    sec. 4.3
    E   <- E + A s a/W                 A = 3 (1 - beta)/(1 + beta) until E = W at the loss, then 1; E(0) = W_0  sec. 4.3
    M   <- W, or W (1 + beta)/2        a loss; the latter if W < M (fast convergence)                           sec. 4.7
    W_0 <- beta F                      ... and congestion avoidance begins there once the loss is recovered     sec. 4.6
    M   <- W_0 <- W                    where it begins without a loss, or after a timeout: then K = 0           sec. 4.8

    W  window [bytes]   t  time since congestion avoidance began [s]   M  window of the last loss, W_max in the RFC
    s  packet   D  RTT   F  data in flight when the loss is seen   a  bytes that an ACK acknowledges
    C  0.4 packets/s^3   beta  0.7

Slow start is that of RFC 5681, HyStart++ (RFC 9406), or Linux's HyStart (`ecc.models.shared.hystart`).

With `version="linux"` packets follow net/ipv4/tcp_cubic.c of Linux 6, which differs from the RFC in six points: W, M,
E and s C |t - K|^3 are rounded down to whole packets, so that W reaches M before K; D is the minimum RTT; W_0 = beta W,
of the window and not of the data in flight; A stays 3 (1 - beta)/(1 + beta); W grows towards E in an RTT if that is
faster; and until the first loss, and after a timeout until the next, W gains at least W/20 in an RTT. Not here: times
in jiffies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import Dimension, Quantity, as_number, as_time
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.states import State
from ecc.laws.elementary import exp, log
from ecc.models.newreno import NewReno
from ecc.models.shared import hystart, windows

MOST = 1.5  # of a window, in an RTT
MIN_FIRST_GAIN = 0.05  # share of the window in an RTT, before any loss (Linux)
MIN_GAIN = 0.01  # packets in an RTT (Linux)


def cubic(t: float, K: float, M: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.2: the window at time t."""
    return s * p.C * (t - K) * (t - K) * (t - K) + M


def time_to(M: float, W_0: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.2: K, when the window is M again."""
    cubed = (M - W_0) / (s * p.C)
    return exp(log(cubed) / 3.0) if cubed > 0.0 else 0.0


def goal(W: float, t: float, K: float, M: float, D: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.2: the window an RTT later."""
    return min(max(cubic(t + D, K, M, s, p), W), MOST * W)


def reno_step(E: float, W_prior: float, p: Params) -> float:
    """RFC 9438 sec. 4.3: packets that Reno's window would gain in an RTT, with the same beta."""
    return 1.0 if W_prior <= E and p.linux == 0.0 else 3.0 * (1.0 - p.beta) / (1.0 + p.beta)


def last_maximum(W: float, M: float, p: Params) -> float:
    """RFC 9438 sec. 4.7: where the next cubic is flat."""
    return 0.5 * (1.0 + p.beta) * W if p.fast_convergence > 0.0 and M > W else W


# As fluid, where congestion avoidance begins an RTT after a loss: the window, and what else a loss moves.


def window_law(w: float, t: float, K: float, M: float, E: float, D: float, s: float, p: Params) -> float:
    """The window an RTT later."""
    return max(goal(w, t, K, M, D, s, p), E)


def window_after_loss(w: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.6; two packets at least."""
    return max(p.beta * w, 2.0 * s)


def reno_after_loss(w: float, s: float, p: Params) -> float:
    """The state E after a loss."""
    return window_after_loss(w, s, p)


def maximum_after_loss(w: float, M: float, p: Params) -> float:
    """The state M after a loss."""
    return last_maximum(w, M, p)


def time_to_maximum(w: float, M: float, s: float, p: Params) -> float:
    """The state K after a loss."""
    return time_to(last_maximum(w, M, p), window_after_loss(w, s, p), s, p)


def reno_law(E: float, W_prior: float, t: float, s: float, p: Params) -> float:
    """The state E an RTT later."""
    return E + reno_step(E, W_prior, p) * s if t >= 0.0 else E


def at_a_loss(w: float) -> float:
    """The state W_prior after one."""
    return w


def passed(t: float) -> float:
    """The derivative of the time."""
    return 1.0


def before_recovery(D: float) -> float:
    """The time at a loss."""
    return -D


@dataclass
class FlowState(windows.Restorable, hystart.FlowState):
    """A host's state for one flow."""

    M: float = 0.0  # window at the last loss [bytes]; 0: none, or forgotten
    W_prior: float = 0.0  # ... before fast convergence
    K: float = 0.0  # [s]
    began: float = -1.0  # when congestion avoidance began [s]; < 0: it is to begin
    E: float = 0.0  # window that Reno would have [bytes]
    has_lost: int = 0  # whether M is that of a loss since the last timeout
    limited: float = -1.0  # since when the window has not limited the flow [s]; < 0: it limits the flow
    undo_W_prior: float = 0.0  # before the last loss ...
    undo_M: float = 0.0
    undo_K: float = 0.0
    undo_began: float = -1.0
    undo_E: float = 0.0


@dataclass(frozen=True)
class CUBIC(hystart.SlowStartProtocol):
    """CUBIC.

    Parameters
    ----------
    C : float, packets/s^3, > 0
    beta : float, in (0, 1)
        Share of the window that a loss leaves.
    version : str
        "rfc9438", or "linux": the law of Linux's tcp_cubic.c (see the text of the module).
    fast_convergence : bool
        Whether a flow that lost below its last maximum leaves room for others.
    slow_start, transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        See `SlowStartProtocol`. Linux, Windows and QUIC stacks recover losses by RACK-TLP (QUIC: RFC 9002) with
        proportional rate reduction, the default here.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    C: float = 0.4
    beta: float = 0.7
    fast_convergence: bool = True
    version: str = field(default="rfc9438", kw_only=True)
    transport: str = field(default="rack", kw_only=True)

    dimensions = {"C": Dimension(time=-3)}

    no_equilibrium = windows.GROW_UNTIL_LOST

    def __post_init__(self) -> None:
        check_number(self, C=None, beta=None)
        if not self.beta < 1.0:
            raise ValueError(f"beta must be < 1, got {self.beta:g}")
        check_choice(self, "fast_convergence", (False, True))
        check_choice(self, "version", ("rfc9438", "linux"))
        super().__post_init__()

    @classmethod
    def linux(cls, **parameters: Any) -> Self:
        """Return the configuration of CUBIC in Linux 6.

        The law of tcp_cubic.c with its HyStart, loss recovery by RACK-TLP with proportional rate reduction, an initial
        window of 10 packets, retransmission timeouts from 0.2 s on, and Linux's restart after idle periods.

        Parameters
        ----------
        **parameters : object
            Parameters that differ from Linux's values.

        Examples
        --------
        >>> CUBIC.linux().slow_start
        'hystart'
        """
        return cls(**{"version": "linux", "slow_start": "hystart", **windows.LINUX, **parameters})

    router_law = staticmethod(NewReno.router_law)
    source_law = staticmethod(window_law)
    loss_response_law = staticmethod(window_after_loss)

    @property
    def states(self) -> Mapping[str, State]:
        def moved(law: Callable[..., float] | None, clock: str, jump: Callable[..., float], unit: str) -> State:
            return State(law, clock, jumps={"loss": jump, "mark": jump}, unit=unit)

        return {
            "t": moved(passed, "continuous", before_recovery, "s"),
            "K": moved(None, "rtt", time_to_maximum, "s"),
            "M": moved(None, "rtt", maximum_after_loss, "bit"),
            "W_prior": moved(None, "rtt", at_a_loss, "bit"),
            "E": moved(reno_law, "rtt", reno_after_loss, "bit"),
        }

    def params(self) -> dict[str, float]:
        own = {"C": self.C, "beta": self.beta, "fast_convergence": float(self.fast_convergence)}
        own["linux"] = float(self.version == "linux")
        return {**own, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_restart": flow_on_restart, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, t: float = 0.0, **values: float) -> Any:
        """Return the state of a flow in congestion avoidance, `t` after its last loss [s]."""
        flow = super().flow_at(x, R, link, window, **values)
        flow.began, flow.has_lost = -t, 1
        return flow

    # ---- published results -------------------------------------------------------------------------------

    @check_arguments
    def mean_window(self, loss: float, rtt: Quantity) -> float:
        """Return the mean window of a flow that loses one packet in 1/loss, where it grows as a cubic throughout.

        Implements RFC 9438, sec. 5.1, fig. 5.

        Parameters
        ----------
        loss : float, in (0, 1)
        rtt : float, s, > 0

        Returns
        -------
        float, packets

        Raises
        ------
        ValueError
            A value out of range.

        Examples
        --------
        >>> round(CUBIC().mean_window(1e-5, "100 ms"))
        1054
        """
        p, D = as_number(loss, "loss", positive=True), as_time(rtt, "rtt", positive=True)
        if not p < 1.0:
            raise ValueError(f"loss must be < 1, got {shown(p)}")
        steepness = self.C * (3.0 + self.beta) / (4.0 * (1.0 - self.beta))
        return float(steepness**0.25 * (D / p) ** 0.75)


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open the window, after a loss that was none is undone."""
    if env.undone > 0:
        undo(flow, env)
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            avoid_congestion(flow, p, env)
    elif flow.limited < 0.0 and not windows.is_window_limited(flow, env):
        flow.limited = env.now


def flow_on_restart(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Go on with the restart window. The cubic's time excludes the idle time (RFC 9438 sec. 5.8, bictcp_cwnd_event)."""
    if flow.began >= 0.0:  # `limited` began before the idle time
        flow.began += env.now - flow.limited if flow.limited >= 0.0 else env.idle
    flow.limited = -1.0
    windows.flow_on_restart(flow, header, p, env)


def avoid_congestion(flow: Any, p: Params, env: FlowEnv) -> None:
    """RFC 9438 secs. 4.2 to 4.5."""
    s, W = 1.0 * env.packet_size, env.window
    if flow.began < 0.0:
        flow.began = env.now
        flow.M = max(flow.M, W)
        flow.K = time_to(flow.M, W, s, p)
        flow.E = W
    elif flow.limited >= 0.0:
        flow.began += env.now - flow.limited
    flow.limited = -1.0
    t = env.now - flow.began
    flow.E += reno_step(flow.E, flow.W_prior, p) * s * env.acked / W
    if p.linux > 0.0:
        env.window += linux_gain(flow, t + env.min_rtt, W // s, s, p) * env.acked / (W // s)
    elif cubic(t, flow.K, flow.M, s, p) < flow.E:
        env.window = flow.E
    else:
        env.window += (goal(W, t, flow.K, flow.M, env.srtt, s, p) - W) * env.acked / W


def linux_gain(flow: Any, t: float, packets: float, s: float, p: Params) -> float:
    """Linux's bictcp_update: by how many packets a window of so many grows in an RTT."""
    x = t - flow.K
    moved = p.C * abs(x) * x * x // 1.0
    target = flow.M // s + (moved if x > 0.0 else -moved)
    gain: float = max(target - packets, flow.E // s - packets, MIN_GAIN)
    if flow.has_lost == 0:
        gain = max(gain, MIN_FIRST_GAIN * packets)
    limited: float = min(gain, (MOST - 1.0) * packets)
    return limited


def flow_on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """RFC 9438 secs. 4.6 to 4.8."""
    s, W = 1.0 * env.packet_size, env.window
    if p.linux > 0.0:  # windows of Linux are whole packets, so that equal maxima are not taken for lower ones
        W = W // s * s
    window = window_after_loss(W if p.linux > 0.0 else windows.on_the_way(env), s, p)
    remember(flow, env)
    flow.W_prior = at_a_loss(W)
    flow.began = -1.0
    flow.has_lost = 1 - env.kind
    if env.kind == 0:
        flow.M = maximum_after_loss(W, flow.M, p)
        windows.cut(flow, window, env)
    else:
        flow.M = 0.0
        windows.time_out(flow, window, env)


def remember(flow: Any, env: FlowEnv) -> None:
    """RFC 9438 sec. 4.9.2: what a loss is about to change."""
    if windows.remember_window(flow, env):
        flow.undo_W_prior, flow.undo_M, flow.undo_K = flow.W_prior, flow.M, flow.K
        flow.undo_began, flow.undo_E = flow.began, flow.E


def undo(flow: Any, env: FlowEnv) -> None:
    """RFC 9438 sec. 4.9."""
    if windows.restore(flow, env):
        flow.W_prior, flow.M, flow.K = flow.undo_W_prior, flow.undo_M, flow.undo_K
        flow.began, flow.E = flow.undo_began, flow.undo_E
