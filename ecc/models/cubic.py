"""CUBIC (RFC 9438): between losses the window is a cubic function of time, flat at the window of the last loss.

    W_cubic(t) = s C (t - K)^3 + M     K = cbrt((M - W_0)/(s C)), so that W_cubic(0) = W_0                     sec. 4.2
    W   <- W + (G - W) a/W             an ACK of a, with G = W_cubic(t + D), limited to W <= G <= 3 W/2         sec. 4.2
    W   <- E                           if W_cubic(t) < E, the window that Reno would have                       sec. 4.3
    E   <- E + A s a/W                 A = 3 (1 - beta)/(1 + beta) until E = W at the loss, then 1; E(0) = W_0  sec. 4.3
    M   <- W, or W (1 + beta)/2        a loss; the latter if W < M (fast convergence)                           sec. 4.7
    W_0 <- beta F                      a loss; congestion avoidance begins there when it is recovered           sec. 4.6
    M   <- W_0 <- W                    a start without a loss, or after a timeout: then K = 0                   sec. 4.8

    W  window [bytes]   t  time since congestion avoidance began [s]   M  window of the last loss, W_max in the RFC
    s  packet   D  RTT   F  data in flight at the loss   a  bytes that an ACK acknowledges
    C  0.4 packets/s^3   beta  0.7

Slow start is that of RFC 5681, HyStart++ (RFC 9406), or Linux's HyStart (`ecc.models.shared.hystart`).

With `version="linux"` packet runs follow net/ipv4/tcp_cubic.c of Linux 6, which differs from the RFC in six points. W,
M, E and s C |t - K|^3 are rounded down to whole packets, so that W reaches M before K. D is the minimum RTT. W_0 = beta
W is computed from the window, not from the data in flight. A stays 3 (1 - beta)/(1 + beta). W grows towards E over an
RTT if that is faster. Until the first loss, and after a timeout until the next, W gains W/20 or more per RTT. Times in
jiffies are not modeled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import Dimension, Quantity, as_number, as_time
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.laws.elementary import exp, log
from ecc.models.newreno import NewReno
from ecc.models.shared import hystart, start_up, windows

MAX_GROWTH = 1.5  # limit of the window after an RTT, as a factor (sec. 4.2)
MIN_FIRST_GAIN = 0.05  # share of the window gained per RTT before any loss (Linux)
MIN_GAIN = 0.01  # packets gained per RTT (Linux)


def cubic(t: float, K: float, M: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.2: the window at time t."""
    return s * p.C * (t - K) * (t - K) * (t - K) + M


def time_to(M: float, W_0: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.2: K, the time at which the window is M again."""
    cubed = (M - W_0) / (s * p.C)
    return exp(log(cubed) / 3.0) if cubed > 0.0 else 0.0


def goal(W: float, t: float, K: float, M: float, D: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.2: the target window after an RTT."""
    return min(max(cubic(t + D, K, M, s, p), W), MAX_GROWTH * W)


def reno_step(E: float, W_prior: float, p: Params) -> float:
    """RFC 9438 sec. 4.3: packets that Reno's window would gain per RTT, with the same beta."""
    return 1.0 if W_prior <= E and p.linux == 0.0 else 3.0 * (1.0 - p.beta) / (1.0 + p.beta)


def last_maximum(W: float, M: float, p: Params) -> float:
    """RFC 9438 sec. 4.7: the window M at which the next cubic is flat."""
    return 0.5 * (1.0 + p.beta) * W if p.fast_convergence > 0.0 and M > W else W


# Laws for fluid, in which congestion avoidance begins an RTT after a loss: the window, and states that a loss changes.


def window_law(w: float, t: float, K: float, M: float, E: float, D: float, s: float, p: Params) -> float:
    """The window after an RTT."""
    return max(goal(w, t, K, M, D, s, p), E)


def window_after_loss(w: float, s: float, p: Params) -> float:
    """RFC 9438 sec. 4.6: the window after a loss, two packets or more."""
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
    """The state E after an RTT."""
    return E + reno_step(E, W_prior, p) * s if t >= 0.0 else E


def window_at_loss(w: float) -> float:
    """The state W_prior after a loss."""
    return w


def time_slope(t: float) -> float:
    """The derivative of the state t."""
    return 1.0


def time_at_loss(D: float) -> float:
    """The state t at a loss: congestion avoidance, with t = 0, begins after a recovery of one RTT."""
    return -D


@dataclass
class FlowState(windows.Restorable, hystart.FlowState):
    """A host's state for one flow."""

    M: float = 0.0  # window at the last loss [bytes]; 0: no loss yet, or discarded by a timeout
    W_prior: float = 0.0  # window at the last loss, before fast convergence [bytes]
    K: float = 0.0  # [s]
    began: float = -1.0  # start of congestion avoidance [s]; < 0: not started
    E: float = 0.0  # window that Reno would have [bytes]
    has_lost: int = 0  # 1 if M is from a loss since the last timeout
    limited: float = -1.0  # time since which the window has not limited the flow [s]; < 0: it limits the flow
    undo_W_prior: float = 0.0  # the fields above, before the last loss
    undo_M: float = 0.0
    undo_K: float = 0.0
    undo_began: float = -1.0
    undo_E: float = 0.0


@dataclass(frozen=True)
class CUBIC(start_up.StartUpProtocol):
    """CUBIC.

    Parameters
    ----------
    C : float, packets/s^3, > 0
        Scale of the cubic (RFC 9438: 0.4).
    beta : float, in (0, 1)
        Share of the window that remains after a loss (RFC 9438: 0.7).
    version : str
        "rfc9438", or "linux": the law of Linux's tcp_cubic.c, see the docstring of the module.
    fast_convergence : bool
        Whether a flow with a loss below its last maximum leaves room for other flows.
    slow_start, search_threshold, search_drain, application_limited, saved_window, saved_rtt
        See `StartUpProtocol`.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, pacing, restart, ecn
        See `StartUpProtocol`. The default is recovery by RACK-TLP (QUIC: RFC 9002) with proportional rate reduction,
        as in Linux, Windows and QUIC stacks.

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
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "ours; PI2 with its default parameters", 1500, "PI2")
    cycle_loop = ReferenceLoop(40e6, (0.05,) * 2, "ours; a buffer of a bandwidth-delay product", buffer=250_000)

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
        window of 10 packets, retransmission timeouts of 0.2 s or more, and Linux's rules for unused windows and idle
        periods.

        Parameters
        ----------
        **parameters : object
            Parameters that differ from Linux's values, for example `beta=0.5`.

        Examples
        --------
        >>> CUBIC.linux().slow_start
        'hystart'
        """
        choices = {"version": "linux", "slow_start": "hystart", "application_limited": "linux"}
        return cls(**{**choices, **windows.LINUX, **parameters})

    router_law = staticmethod(NewReno.router_law)
    source_law = staticmethod(window_law)
    loss_response_law = staticmethod(window_after_loss)

    @property
    def states(self) -> Mapping[str, State]:
        def moved(law: Callable[..., float] | None, clock: str, jump: Callable[..., float], unit: str) -> State:
            return State(law, clock, jumps={"loss": jump, "mark": jump}, unit=unit)

        return {
            "t": moved(time_slope, "continuous", time_at_loss, "s"),
            "K": moved(None, "rtt", time_to_maximum, "s"),
            "M": moved(None, "rtt", maximum_after_loss, "bit"),
            "W_prior": moved(None, "rtt", window_at_loss, "bit"),
            "E": moved(reno_law, "rtt", reno_after_loss, "bit"),
        }

    def params(self) -> dict[str, float]:
        values = {"C": self.C, "beta": self.beta, "fast_convergence": float(self.fast_convergence)}
        values["linux"] = float(self.version == "linux")
        return {**values, **super().params()}

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
        """Return the mean window of a flow with evenly spaced losses, one packet in 1/loss, without Reno's minimum.

        Implements RFC 9438, sec. 5.1, fig. 5.

        Parameters
        ----------
        loss : float, in (0, 1)
            Share of packets lost, for example 1e-5.
        rtt : float, s, > 0
            Round-trip time, for example "100 ms".

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


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Undo a spurious loss, and open the window."""
    if env.undone > 0:
        undo(flow, env)
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            avoid_congestion(flow, p, env)
    elif flow.limited < 0.0 and not windows.is_window_limited(flow, env):
        flow.limited = env.now


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window; the cubic's time excludes idle time (RFC 9438 sec. 5.8, bictcp_cwnd_event)."""
    if flow.began >= 0.0:  # `limited` is earlier than the idle period
        flow.began += env.now - flow.limited if flow.limited >= 0.0 else env.idle
    flow.limited = -1.0
    windows.flow_on_restart(flow, header, p, env)


def avoid_congestion(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """RFC 9438 secs. 4.2 to 4.5: grow along the cubic, or as Reno if that window is larger."""
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


def linux_gain(flow: FlowState, t: float, packets: float, s: float, p: Params) -> float:
    """Linux's bictcp_update: return the packets that a window of `packets` gains in an RTT."""
    x = t - flow.K
    moved = p.C * abs(x) * x * x // 1.0
    target = flow.M // s + (moved if x > 0.0 else -moved)
    gain: float = max(target - packets, flow.E // s - packets, MIN_GAIN)
    if flow.has_lost == 0:
        gain = max(gain, MIN_FIRST_GAIN * packets)
    limited: float = min(gain, (MAX_GROWTH - 1.0) * packets)
    return limited


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """RFC 9438 secs. 4.6 to 4.8: reduce the window, and remember it as the next cubic's maximum."""
    s, W = 1.0 * env.packet_size, env.window
    if p.linux > 0.0:  # windows of Linux are whole packets: a fraction must not make a maximum look lower than the last
        W = W // s * s
    window = window_after_loss(W if p.linux > 0.0 else windows.on_the_way(env), s, p)
    remember(flow, env)
    flow.W_prior = window_at_loss(W)
    flow.began = -1.0
    flow.has_lost = 1 - env.kind
    if env.kind == 0:
        flow.M = maximum_after_loss(W, flow.M, p)
        windows.cut(flow, window, env)
    else:
        flow.M = 0.0
        windows.time_out(flow, window, env)


def remember(flow: FlowState, env: FlowEnv) -> None:
    """RFC 9438 sec. 4.9.2: remember the state that a loss is about to change."""
    if windows.remember_window(flow, env):
        flow.undo_W_prior, flow.undo_M, flow.undo_K = flow.W_prior, flow.M, flow.K
        flow.undo_began, flow.undo_E = flow.began, flow.E


def undo(flow: FlowState, env: FlowEnv) -> None:
    """RFC 9438 sec. 4.9: restore the state from before a spurious loss."""
    if windows.restore(flow, env):
        flow.W_prior, flow.M, flow.K = flow.undo_W_prior, flow.undo_M, flow.undo_K
        flow.began, flow.E = flow.undo_began, flow.undo_E
