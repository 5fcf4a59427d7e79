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

Slow start is that of RFC 5681, or HyStart++ (RFC 9406, `ecc.models.shared.hystart`).

While the application, and not the window, limits a flow, t stands still (secs. 4.2, 5.8). Where a loss turns out to be
none (`transport` "rack"), all is what it was before it, and so is W if ACKs had shown the loss (sec. 4.9.2); after a
timeout W is that of RFC 4015 (sec. 4.9.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ecc.arguments import check_arguments, shown
from ecc.laws.elementary import exp, log
from ecc.models.base import FlowEnv, Hook, Params, State, check_choice, check_number
from ecc.models.newreno import NewReno
from ecc.models.shared import hystart, windows
from ecc.quantity import Quantity, as_number, as_time

MOST = 1.5  # of a window, in an RTT


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
    return 1.0 if W_prior <= E else 3.0 * (1.0 - p.beta) / (1.0 + p.beta)


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
    limited: float = -1.0  # since when the application limits the flow [s]; < 0: it does not
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
    fast_convergence : bool
        Whether a flow that lost below its last maximum leaves room for others.
    slow_start, transport, initial, receiver_window, min_rto, initial_rto, L, ecn
        As of every `SlowStartProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    C: float = 0.4
    beta: float = 0.7
    fast_convergence: bool = True
    transport: str = field(default="sack", kw_only=True)

    no_equilibrium = windows.GROW_UNTIL_LOST

    def __post_init__(self) -> None:
        check_number(self, C=None, beta=None)
        if not self.beta < 1.0:
            raise ValueError(f"beta must be < 1, got {self.beta:g}")
        check_choice(self, "fast_convergence", (False, True))
        super().__post_init__()

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
            "E": moved(reno_law, "rtt", window_after_loss, "bit"),
        }

    def params(self) -> dict[str, float]:
        own = {"C": self.C, "beta": self.beta, "fast_convergence": float(self.fast_convergence)}
        return {**own, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return self._hosts(flow_on_ack, flow_on_loss)

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
    elif flow.limited < 0.0 and windows.limits_itself(flow, env):
        flow.limited = env.now


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
    if cubic(t, flow.K, flow.M, s, p) < flow.E:
        env.window = flow.E
    else:
        env.window += (goal(W, t, flow.K, flow.M, env.srtt, s, p) - W) * env.acked / W


def flow_on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """RFC 9438 secs. 4.6 to 4.8."""
    left = p.beta * windows.on_the_way(env)
    remember(flow, env)
    flow.W_prior = env.window
    flow.began = -1.0
    if env.kind == 0:
        flow.M = last_maximum(env.window, flow.M, p)
        windows.cut(flow, left, env)
    else:
        flow.M = 0.0
        windows.time_out(flow, left, env)


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
