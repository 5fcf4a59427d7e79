"""Prague (RFC 9331, draft-briscoe-iccrg-prague-congestion-control, udp_prague): DCTCP for the Internet, paced.

    V     = max(D, 25 ms)                    virtual RTT
    alpha <- alpha + (m - alpha)/16          once in V and an RTT; m is the share of its bytes marked; from a mark on
    W     <- W + s (D/V)^2 a/W               a bytes acknowledged without marks
    W     <- (1 - alpha/2) W                 a mark, once in V and an RTT; W/2 at the first one, which ends slow start
    W     <- W/2                             a loss, once in V and an RTT
    rate  = W/D, twice as much while W < ssthresh/2

    W  window [bytes in hooks, bit in laws]   s  packet   D  smoothed RTT

Packets are ECT(1); receivers report marked bytes. In V a flow gains s D/V times the unmarked share, and loses alpha W/2
at a mark. If each V has one, its rate is

    W/D = x s/(p V)      x = 2 (1 - p)       p  share marked

for any D up to 25 ms, with x marks in V on average. If marks are random, some V pass without a mark, the mean time
between marks with a response is V (1 + 1/x), and x is 1 + sqrt(3) for small p (`mean_rate`).

After 7 V without a mark, plus one for each 15.36 Mb/s, windows grow per RTT by the volume that the rate sends in 1 ms,
if that is more than a packet. A window grows only while it limits its flow, as in Linux (tcp_is_cwnd_limited). It may
be less than two packets: they are sent at W/D. Slow start (RFC 5681), the first reduction and the pacing in slow start
are those of Linux, everything else that of udp_prague. Not modeled: its rate mode for RTTs below 2 ms, its packets that
shrink with the rate, the undoing of reductions after reordering, and the detection of queues that mark as in RFC 3168.

As fluid all marks count as if they were random: a mark causes a response with the probability 1/(1 + x). With
signals="random" hosts also wait an RTT after each mark, which is too long if a queue marks in bursts (`DualPI2`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import RATE, TIME, Quantity, QuantityField, as_delay, as_number, as_rate, as_time, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.models.newreno import NewReno
from ecc.models.shared import windows

GROWTH_WAIT, GROWTH_RATE, GROWTH_TIME = 7.0, 15.36e6, 1e-3  # V; bit/s for one V more; s of the rate
ROOM, MIN_PACKETS = 1.03, 2.0  # the engine's window exceeds W, so that pacing and not the window limits the flow


def virtual_rtt(D: float, p: Params) -> float:
    """Return the virtual RTT: RTTs below the reference count as the reference."""
    return max(D, p.reference_rtt)


def grown(w: float, unmarked: float, D: float, step: float, s: float, p: Params) -> float:
    """Return the window after ACKs of `unmarked` without marks."""
    share = D / virtual_rtt(D, p)
    return w + step * unmarked / w * share * share


def averaged(alpha: float, marked: float, D: float, p: Params) -> float:
    """Return the averaged share of marks after an RTT, of which a virtual RTT has V/D."""
    return alpha + p.g * (D / virtual_rtt(D, p)) * (marked - alpha)


def reduced(w: float, alpha: float) -> float:
    """Return the window after a mark."""
    return (1.0 - 0.5 * alpha) * w


def answered(w: float, alpha: float, D: float, s: float, p: Params) -> float:
    """Return the share of random marks with a response: marks in the V after a response have none."""
    x = alpha * w / s * virtual_rtt(D, p) / D
    return 1.0 / (1.0 + x)


def window_after_loss(w: float) -> float:
    """Return half the window."""
    return windows.halved(w)


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    W: float = 0.0  # window [bytes]
    alpha: float = 0.0  # averaged share of marks
    saw_mark: int = 0  # 1 after the first mark
    acked: float = 0.0  # volume acknowledged since alpha was updated [bytes]
    marked: float = 0.0  # marked part of it [bytes]
    updated: float = 0.0  # time of the last update of alpha [s]
    update_after: float = 0.0  # alpha may be updated when more than this is delivered [bytes]
    reduced_at: float = -1.0  # time of the last response to a mark [s]; < 0: none yet
    reduce_after: float = 0.0  # the next response may follow when more than this is delivered [bytes]
    lost_at: float = -1.0  # time of the last response to a loss [s]; < 0: none yet
    lost_until: float = 0.0  # the RTT of that loss ends when more than this is delivered [bytes]
    wait: float = GROWTH_WAIT  # virtual RTTs until windows grow faster


@dataclass(frozen=True)
class Prague(windows.WindowProtocol):
    """Prague.

    Parameters
    ----------
    g : float, in (0, 1]
        Weight of a virtual RTT in the averaged share of marks.
    reference_rtt : float, s, >= 0
        Minimum virtual RTT (25 ms); 0: windows grow and fall as DCTCP's, by the actual RTT.
    growth : bool
        Whether windows grow faster after a long time without marks.
    min_rate : float, bit/s, > 0
        Minimum rate, for example 100 kb/s.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`. The default is recovery by RACK-TLP, as in Linux; its tcp_prague sets the window in
        recoveries itself, without `prr`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    g: float = 0.0625
    reference_rtt: QuantityField = default(0.025)
    growth: bool = True
    min_rate: QuantityField = default(1e5)
    transport: str = field(default="rack", kw_only=True)

    dimensions = {"reference_rtt": TIME, "min_rate": RATE}

    ecn_echo = "scalable"
    answers: ClassVar[frozenset[str]] = frozenset({"ecn", "loss"})
    no_equilibrium = windows.GROW_UNTIL_MARKED
    is_paced = True
    may_use_prr = False  # as in Linux: tcp_prague controls the window in recoveries itself
    sets_rate = True
    reference_loop = ReferenceLoop(
        40e6,
        (0.025,) * 4,
        "LINUX sch_dualpi2.c, the defaults, for one queue; the network is ours",
        1500,
        "PI2",
        {"mark": True, "target": 0.015, "interval": 0.016, "alpha": 41.0 / 256.0, "beta": 819.0 / 256.0},
    )
    cycle_loop = ReferenceLoop(
        40e6,
        (0.025,) * 4,
        "ours; the network of the reference loop over a step",
        1500,
        "StepMarking",
        {"threshold": 14.0},
    )

    def __post_init__(self) -> None:
        check_number(self, g=None, min_rate=as_rate)
        object.__setattr__(self, "reference_rtt", as_time(self.reference_rtt, "reference_rtt"))
        check_choice(self, "growth", (False, True))
        if self.g > 1.0:
            raise ValueError(f"g must be <= 1, got {self.g:g}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(NewReno.router_law)

    @staticmethod
    def source_law(w: float, marked: float, D: float, s: float, p: Params) -> float:
        """The window after an RTT."""
        return grown(w, (1.0 - marked) * w, D, s, s, p)

    @staticmethod
    def mark_response_law(w: float, alpha: float, D: float, s: float, p: Params) -> float:
        """The mean window after a mark."""
        return w - answered(w, alpha, D, s, p) * (w - reduced(w, alpha))

    marked_round_law = staticmethod(reduced)
    loss_response_law = staticmethod(window_after_loss)

    @check_arguments
    def response_interval(self, rtt: float) -> float:
        """The virtual RTT."""
        return virtual_rtt(rtt, self.namespace())

    @property
    def states(self) -> Mapping[str, State]:
        return {"alpha": State(averaged, "rtt", 0.0, lowest=0.0, highest=1.0)}

    def params(self) -> dict[str, float]:
        values = {name: float(getattr(self, name)) for name in ("g", "reference_rtt", "growth", "min_rate")}
        return {**values, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_restart": flow_on_restart,
            "on_ack": flow_on_ack,
            "on_loss": flow_on_loss,
        }

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, **values: float) -> Any:
        """Return the state of a flow in congestion avoidance that has seen marks."""
        flow = super().flow_at(x, R, link, window, **values)
        flow.W, flow.saw_mark = window, 1
        return flow

    # ---- published results -------------------------------------------------------------------------------

    @check_arguments
    def mean_rate(self, marked: float, rtt: Quantity, packet_size: Quantity = 1500.0, random: bool = False) -> float:
        """Return the rate of a flow with a constant share of marks.

        Implements x s/(p V), see the docstring of the module.

        Parameters
        ----------
        marked : float, in (0, 1)
            Share of packets marked, for example 0.1.
        rtt : float, s, > 0
            Round-trip time, for example "5 ms".
        packet_size : float, bytes, > 0, optional
        random : bool, optional
            Whether marks are random, so that some virtual RTTs pass without one.

        Returns
        -------
        float, bit/s

        Raises
        ------
        ValueError
            A value out of range.

        Examples
        --------
        >>> round(Prague().mean_rate(0.1, "5 ms"))
        8640000
        """
        share, D = as_number(marked, "marked", positive=True), as_delay(rtt, "rtt", positive=True)
        if not share < 1.0:
            raise ValueError(f"marked must be < 1, got {shown(share)}")
        size = as_number(packet_size, "packet_size", positive=True)
        # random marks: x/2 = (1 - p)(1 + 1/x)
        x = (1.0 - share) + sqrt((1.0 - share) * (3.0 - share)) if random else 2.0 * (1.0 - share)
        return float(8.0 * size * x / (share * virtual_rtt(D, self.namespace())))


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start with the initial window."""
    windows.flow_on_start(flow, header, p, env)
    flow.W = env.window
    flow.updated = env.now


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window."""
    flow.W = windows.restart_window(flow.W, flow, p, env)
    send(flow, p, env)


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Count marks, open the window by the unmarked data, and respond to a mark."""
    s, V = 1.0 * env.packet_size, virtual_rtt(env.srtt, p)
    if env.acked > 0:
        flow.backed_off = 0
    update_alpha(flow, V, p, env)
    unmarked = max(env.acked - env.marked, 0)
    may_grow = unmarked > 0 and windows.is_paced_window_limited(flow.W, flow.W < flow.ssthresh, env)
    if may_grow and not is_answered(flow.lost_at, flow.lost_until, V, env):
        if flow.W < flow.ssthresh:
            flow.W += windows.counted_in_slow_start(unmarked, s, p.L)
        else:
            flow.W = grown(flow.W, unmarked, env.srtt, increase(flow, s, p, env), s, p)
    if env.marked > 0 and not (
        is_answered(flow.reduced_at, flow.reduce_after, V, env) or is_answered(flow.lost_at, flow.lost_until, V, env)
    ):
        flow.W = reduced(flow.W, flow.alpha) if flow.saw_mark > 0 else windows.halved(flow.W)
        flow.ssthresh = flow.W
        flow.saw_mark = 1
        flow.reduced_at = env.now
        flow.reduce_after = 1.0 * (env.delivered + env.in_flight)
        flow.wait = GROWTH_WAIT + 8.0 * flow.W / env.srtt / GROWTH_RATE // 1.0
    send(flow, p, env)


def is_answered(since: float, until: float, V: float, env: FlowEnv) -> bool:
    """Return whether a response is less than V or an RTT ago."""
    waits: bool = since >= 0.0 and (env.now - since < V or env.delivered <= until)
    return waits


def update_alpha(flow: FlowState, V: float, p: Params, env: FlowEnv) -> None:
    """Average the marks of a virtual RTT into alpha."""
    flow.acked += env.acked
    flow.marked += env.marked
    if env.delivered > flow.update_after and env.now - flow.updated >= V and flow.acked > 0.0:
        if flow.saw_mark > 0:
            flow.alpha += p.g * (min(flow.marked / flow.acked, 1.0) - flow.alpha)
        flow.acked = 0.0
        flow.marked = 0.0
        flow.updated = env.now
        flow.update_after = 1.0 * (env.delivered + env.in_flight)
        flow.wait = max(flow.wait - 1.0, 0.0)


def increase(flow: FlowState, s: float, p: Params, env: FlowEnv) -> float:
    """Return the growth [bytes] of a window per RTT if the RTT exceeds the reference."""
    grows = p.growth > 0.0 and flow.wait <= 0.0
    step: float = max(flow.W / env.srtt * GROWTH_TIME, s) if grows else s
    return step


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Halve the window, once in a virtual RTT; after a timeout, send one packet.

    The engine calls this hook only for packets sent after the last loss that it reported. Waiting for the ACK of all
    data sent before that loss would ignore every further loss of a recovery.
    """
    V = virtual_rtt(env.srtt, p)
    if env.kind == 1:
        windows.time_out(flow, window_after_loss(flow.W), env)
        flow.W = env.window
        flow.lost_at = env.now
    elif flow.lost_at < 0.0 or env.now - flow.lost_at >= V:
        flow.W = window_after_loss(flow.W)
        flow.ssthresh = flow.W
        share = p.reference_rtt / V if V > 0.0 else 0.0
        flow.wait = flow.W / env.packet_size * share * p.reference_rtt / env.srtt // 1.0
        flow.lost_at = env.now
    flow.lost_until = 1.0 * (env.delivered + env.in_flight)
    send(flow, p, env)


def send(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Pace a window over an RTT; the engine's window is slightly larger, so that it does not interfere."""
    if env.srtt > 0.0:
        flow.W = max(flow.W, p.min_rate * env.srtt / 8.0)
        env.rate = 8.0 * flow.W / env.srtt * (2.0 if flow.W < 0.5 * flow.ssthresh else 1.0)
    env.window = max(ROOM * flow.W + env.packet_size, MIN_PACKETS * env.packet_size)
