"""Parts shared by all window protocols: initial window, slow start, loss response and restart of RFC 5681.

Windows and thresholds are in bytes; s is a packet, SMSS in the RFC. Routers only queue and drop. The engine recovers
the losses (RFC 6582 or RFC 6675) and lets a window's worth of packets be in flight meanwhile; the hooks set the window
at the start of a recovery and at its end.

A window grows only while it limits its flow (`is_window_limited`). It does not grow if the application has too little
to send, the receiver's window is smaller, or the pacer is slower. After an idle period it restarts (`restart_window`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from ecc._support.quantity import SIZE, TIME, QuantityField, as_count, as_delay, default
from ecc.contract.choices import LOST_RETRANSMISSIONS, TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium, RelayLoop
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.values import record_at
from ecc.errors import LinearizationError
from ecc.jit.reach import uses_field
from ecc.network.allocation import proportional
from ecc.network.network import Network

GROW_UNTIL_LOST = "its windows grow until a queue overflows or a packet is lost, and are then reduced"
"""Why protocols that respond to losses have no equilibrium (`no_equilibrium`)."""
GROW_UNTIL_MARKED = "its windows grow until packets are marked or lost, and are then reduced"
"""Why protocols that respond to marks have no equilibrium (`no_equilibrium`)."""
LINUX: dict[str, Any] = {
    "transport": "rack",
    "lost_retransmission": "linux",
    "initial": 10.0,
    "min_rto": 0.2,
    "restart": "linux",
    "prr": True,
}
"""Linux 6's defaults for the parameters that all window protocols have."""
NEVER_LEFT = 1e300  # bytes, a slow-start threshold "arbitrarily high" (RFC 5681 sec. 3.1)
NO_LIMIT = 1e300  # packets that an ACK counts for
QUIC = TRANSPORTS.index("quic")
"""Value of `env.transport` of a flow with the transport "quic"."""
BY_DATA, BY_WINDOW, BY_PACER = range(3)
"""Values of `env.limited_by`: nothing to send (or to receive), a full window, the pacer."""
RESTARTS = ("none", "rfc5681", "linux", "rfc7661")
LINUX_INITIAL = 10.0  # packets, Linux's initial window
LINUX_KEPT = 0.75  # share of the window that the slow-start threshold keeps at a restart (Linux, RFC 7661)
NON_VALIDATED_PERIOD = 300.0  # s, for which an unused window is kept (RFC 7661 sec. 4.4)


@dataclass
class FlowState:
    """A host's state for one flow."""

    ssthresh: float = NEVER_LEFT  # slow-start threshold [bytes]
    answered: float = 0.0  # losses before this time belong to the window that a mark has already reduced [s]
    backed_off: int = 0  # 1 if the timer has expired since the last ACK of new data
    pipe_prev: float = 0.0  # max(FlightSize, ssthresh) before the last loss [bytes]; 0: nothing to undo


@dataclass
class Restorable(FlowState):
    """Further state of hosts that `restore` after a spurious loss: window and threshold before the loss."""

    by_timer: int = 0  # 1 if the last loss was a timeout
    undo_W: float = 0.0  # window before the loss [bytes]
    undo_ssthresh: float = 0.0  # slow-start threshold before the loss [bytes]


def doubled(w: float, s: float, a: float, p: Params) -> float:
    """RFC 5681 (2), as fluid: the window after an RTT, in which a window is acknowledged in ACKs of a bits each."""
    return w + w * (counted_in_slow_start(a, s, p.L) / a)


def after_a_loss(w: float, s: float) -> float:
    """RFC 5681 (4), as fluid: half the window, or two packets if that is more."""
    return max(halved(w), 2.0 * s)


def equilibrium_with_own(network: Network, packets: float) -> Equilibrium:
    """Return the equilibrium at which each flow has `packets` packets in queues; `fair_rate` is the delays [s].

    Rates are proportionally fair (Low, Peterson, Wang 2002, Theorem 1).

    Parameters
    ----------
    network : Network
    packets : float
        Packets that a flow keeps in all queues of its path together, for example 2.

    Raises
    ------
    LinearizationError
        Flows with packets of different sizes: their equilibrium is not known.
    """
    sizes = {float(flow.mean_packet) for flow in network.flows}
    if len(sizes) > 1:
        raise LinearizationError(f"the equilibrium is known for packets of one size, got {sorted(sizes)} bytes")
    rates = proportional(network)
    held = 8.0 * packets * sizes.pop() / rates
    waits = np.linalg.lstsq(network.incidence.astype(float), held, rcond=None)[0]
    return Equilibrium(rates, waits, np.full(network.n_flows, -1), waits * network.capacities)


def relay_with_own(point: Equilibrium, network: Network, packets: float) -> tuple[RelayLoop, float]:
    """Return the loop gain from relay to reported queue, and the queue [bit] per reported packet.

    The relay adds one packet per RTT; the loop reports how many packets the flow itself has in the queue.

    Parameters
    ----------
    point : Equilibrium
        Equilibrium from `equilibrium_with_own`.
    network : Network
        Network of one link; its flows have equal RTTs.
    packets : float
        Packets that a flow keeps in queues at equilibrium.
    """
    if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
        raise LinearizationError("relays switch together on one link with equal RTTs only, got another network")
    assert point.queue is not None
    D = float(network.rtts[0] + point.queue[0] / network.capacities[0])
    return lambda s: np.asarray(np.exp(-D * s) / (D * s)), float(point.queue[0]) / packets


def relay_refusal(name: str) -> str:
    """Return the message that refuses a linear model of a relay."""
    return f"{name}'s source law is a relay, which has no slope to linearize"


@dataclass(frozen=True, kw_only=True)
class WindowProtocol(Protocol):
    """Base class of the window protocols: their common parameters, and defaults that a protocol may override.

    Parameters
    ----------
    transport : str
        "newreno" (RFC 6582), "sack" (RFC 6675), "rack" (RFC 8985) or "quic" (RFC 9002): how losses are recovered. With
        "quic", `L` has no effect, nor has `min_rto` after the first ACK, and receivers acknowledge every second packet,
        after 25 ms at the latest, unless `Flow.delayed_acks` differs.
    lost_retransmission : str
        With "rack", the response to the loss of a packet that was sent in the recovery. "reduce": a further reduction
        of the window, once an RTT (RFC 5681 sec. 4.3, RFC 8985 sec. 3.4). "linux": none until the recovery
        ends.
    prr : bool, "marks" or None
        Proportional rate reduction in recoveries (RFC 9937), with "sack" or "rack". None: used with "rack" if the host
        reduces its window at losses. "sack" without it is RFC 6675. "marks": after marks as well, as in Linux; without
        it a host that responds to a mark sends nothing until enough packets are acknowledged.
    initial : float, > 0, or None
        Initial window, in packets; None: RFC 5681 (1), 2 to 4 (ns-2: 2, Linux: 10).
    receiver_window : int, bytes, >= 0
        Maximum of data sent but not yet acknowledged; 0: no limit.
    min_rto : float, s, > 0
        Minimum retransmission timeout (RFC 6298: 1 s; Linux and ns-2: 0.2 s; in data centers some ms).
    initial_rto : float, s, > 0
        Retransmission timeout before the first ACK (RFC 6298, Linux: 1 s).
    L : float, packets, >= 1, or 0
        Maximum number of packets that an ACK counts for in slow start (RFC 3465 sec. 2.2; 1 after a timeout, sec. 2.3).
        0: without RFC 3465, the window grows per ACK and not per byte, as in ns-2; this also holds in the congestion
        avoidance of NewReno, DCTCP, VCP, EDN and PEDN. The other window laws divide their growth per RTT among its
        bytes for any L.
    restart : str
        Window after an idle period, with nothing in flight and nothing sent for longer than the retransmission timeout.
        "rfc5681" (sec. 4.1): limited to the initial window, for example 3 packets of 1500 bytes. "linux": halved for
        each further timeout that has passed, down to the initial window (`initial`, or Linux's 10 packets), while the
        slow-start threshold is raised to 3/4 of the previous window. "rfc7661": halved for each five minutes, down to
        the initial window, with the same threshold. "none" (RFC 9002, whose senders are paced): unchanged.

    pacing : float, >= 0
        Pacing rate, in windows per smoothed RTT (RFC 9002 sec. 7.7: N, for example 1.25); 0: windows are not paced.
        Bursts of up to the initial window leave at once. Hosts that set their rates themselves refuse it.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    transport: str = "newreno"
    lost_retransmission: str = "reduce"
    prr: bool | str | None = None
    initial: float | None = None
    receiver_window: int = 0
    min_rto: QuantityField = default(1.0)
    initial_rto: QuantityField = default(1.0)
    L: float = 2.0
    restart: str = "rfc5681"
    pacing: float = 0.0

    dimensions = {"receiver_window": SIZE, "min_rto": TIME, "initial_rto": TIME}

    combine = "sum"
    times: ClassVar[tuple[str, ...]] = ()
    equilibrium_is_static = False
    header_bytes = (0, 0)  # feedback fits into the IP and TCP headers
    FlowState: ClassVar[type] = FlowState
    may_use_prr: ClassVar[bool] = True
    """True if losses reduce the window, so that a recovery can approach the reduced one; False if a model sets it."""
    sets_rate: ClassVar[bool] = False
    """True if hooks set `env.rate`, so that the engine cannot pace the window."""
    slow_start_law: ClassVar[Callable[..., float] | None] = staticmethod(doubled)
    loss_response_law: ClassVar[Callable[..., float] | None] = staticmethod(after_a_loss)
    restarts: ClassVar[tuple[str, ...]] = RESTARTS
    """Values of `restart` that a class accepts."""

    def __post_init__(self) -> None:
        check_choice(self, "transport", TRANSPORTS[1:])
        check_choice(self, "lost_retransmission", LOST_RETRANSMISSIONS)
        check_choice(self, "prr", (None, False, True, "marks"))
        if self.prr and self.transport in ("newreno", "quic"):
            raise ValueError(f"prr must be False or None with the transport {self.transport!r}, got {self.prr!r}")
        if self.prr == "marks" and self.ecn_echo is None:
            raise ValueError(f"prr must not be 'marks' for {type(self).__name__} without ECN (ecn=True)")
        if self.prr and not self.may_use_prr:
            raise ValueError(
                f"prr must be False or None for {type(self).__name__}, which follows a model, got {self.prr!r}"
            )
        check_choice(self, "restart", self.restarts)
        if self.initial is not None:
            check_number(self, initial=None)
        for name in ("min_rto", "initial_rto"):
            object.__setattr__(self, name, as_delay(getattr(self, name), name, positive=True))
        object.__setattr__(self, "receiver_window", as_count(self.receiver_window, "receiver_window"))
        check_number(self, L=0.0)
        if 0.0 < self.L < 1.0:
            raise ValueError(f"L must be >= 1 packet, or 0 to count ACKs, got {self.L:g}")
        check_number(self, pacing=0.0)
        if self.pacing > 0.0 and self.sets_rate:
            raise ValueError(f"pacing must be 0 for {type(self).__name__}, which sets its rate, got {self.pacing:g}")

    @property
    def uses_prr(self) -> bool | str:
        return self.may_use_prr and self.transport == "rack" if self.prr is None else self.prr

    def params(self) -> dict[str, float]:
        L = NO_LIMIT if self.transport == "quic" else self.L  # RFC 9002 sec. 7.3: all acknowledged bytes
        return {"initial": self.initial or 0.0, "L": L, "restart": float(RESTARTS.index(self.restart))}

    def pacing_burst(self, packet_size: float) -> float:
        return initial_window(packet_size) if self.initial is None else self.initial * packet_size

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, **values: float) -> Any:
        """Return the state of a flow in congestion avoidance; `values` set the fields named in `states`."""
        return record_at(self.flow_record(), {**values, "ssthresh": window})

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    @property
    def linear_refusal(self) -> str | None:
        return (
            f"{type(self).__name__} has no equilibrium to linearize at: {self.no_equilibrium}"
            if self.no_equilibrium
            else None
        )


@dataclass(frozen=True, kw_only=True)
class EndToEndProtocol(WindowProtocol):
    """Base class of the window protocols that need no feedback from links but losses or marks.

    Parameters
    ----------
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`.
    ecn : bool
        Whether packets can be marked (RFC 3168). The response to a mark is the response to a loss, once a
        window (sec. 6.1.2), without a retransmission.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    ecn: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "ecn", (False, True))

    @property
    def ecn_echo(self) -> str | None:
        return "classic" if self.ecn else None

    @property
    def answers(self) -> frozenset[str]:
        return frozenset({"loss", "ecn"} if self.ecn else {"loss"})

    def _completed_flow_hooks(self, hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        """Return the hooks with a response to marks if `ecn` is set and `on_ack` does not read `env.marked` itself.

        A mark calls `on_loss`, once a window. A loss in the RTT after it does not: the window is already reduced.

        Parameters
        ----------
        hooks : mapping
            Hooks returned by `flow_hooks`.
        """
        on_ack, on_loss = hooks.get("on_ack"), hooks.get("on_loss")
        if not self.ecn or self.mark_response_law is not None or on_ack is None or on_loss is None:
            return dict(hooks)
        if uses_field(on_ack, "marked"):
            return dict(hooks)

        def on_ack_and_mark(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
            on_ack(flow, header, p, env)
            if env.marked > 0 and env.recovering == 0 and (env.recovered == 0 or env.transport == QUIC):
                on_loss(flow, header, p, env)
                flow.answered = env.now + env.srtt
                flow.pipe_prev = 0.0  # a mark is never spurious: nothing to undo

        def on_loss_unless_marked(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
            if env.kind > 0 or env.now >= flow.answered or env.transport == QUIC:
                on_loss(flow, header, p, env)
            else:
                flow.pipe_prev = 0.0  # the loss changed nothing: nothing to undo

        return {**hooks, "on_ack": on_ack_and_mark, "on_loss": on_loss_unless_marked}


def grown(window: float, s: float, counts: float) -> float:
    """RFC 5681 (3), in congestion avoidance: about a packet per RTT."""
    return window + s * counts / window


def counted(acked: float, s: float, p: Params) -> float:
    """Return the bytes that an ACK counts for in congestion avoidance: all (RFC 3465 sec. 2.1), or a packet."""
    return acked if p.L > 0.0 else s


def counted_in_slow_start(acked: float, s: float, L: float) -> float:
    """Return the bytes that an ACK counts for in slow start: up to L packets (RFC 3465 sec. 2.2), or one for L = 0."""
    return min(acked, max(L, 1.0) * s)


def halved(window: float) -> float:
    """RFC 5681 (4): half the data in flight."""
    return 0.5 * window


def initial_window(s: float) -> float:
    """RFC 5681 (1): the default initial window of a flow with packets of s bytes."""
    if s > 2190.0:
        return 2.0 * s
    if s > 1095.0:
        return 3.0 * s
    return 4.0 * s


def first_window(s: float, p: Params) -> float:
    """Return the initial window: the parameter `initial`, or RFC 5681 (1)."""
    return p.initial * s if p.initial > 0.0 else initial_window(s)


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Start with the initial window."""
    env.window = first_window(1.0 * env.packet_size, p)


def in_slow_start(flow: FlowState, env: FlowEnv) -> bool:
    """Return whether the window is below the slow-start threshold."""
    below: bool = env.window < flow.ssthresh
    return below


def slow_start(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """RFC 5681 (2), with up to L packets per ACK, or one after a timeout (RFC 3465 sec. 2.3)."""
    L = p.L if flow.ssthresh >= NEVER_LEFT else 1.0  # a finite threshold: the flow has had losses
    if env.transport == QUIC:
        L = inf  # RFC 9002 sec. 7.3.1: all acknowledged bytes
    env.window += counted_in_slow_start(env.acked, env.packet_size, L)


def moves(flow: FlowState, env: FlowEnv) -> bool:
    """Return whether an ACK acknowledges new data outside of recovery and of the response to a mark.

    Windows grow only at ACKs without ECE (RFC 3168 sec. 6.1.2). New data also resets the backoff of the timer.
    """
    if env.acked > 0:
        flow.backed_off = 0
    is_after = env.recovered == 0 or env.transport == QUIC  # QUIC counts only packets sent after the recovery began
    may: bool = env.acked > 0 and env.recovering == 0 and is_after and env.ece == 0
    return may


def opens(flow: FlowState, env: FlowEnv) -> bool:
    """Return whether an ACK may open the window: it `moves`, and the window limits the flow (RFC 9438 sec. 5.8)."""
    return moves(flow, env) and is_window_limited(flow, env)


def is_window_limited(flow: FlowState, env: FlowEnv) -> bool:
    """Return whether the window limits a flow, and not its application, the receiver's window or the pacer.

    The engine reports the limit that kept the sender from sending more before this ACK (`env.limited_by`). In slow
    start, which doubles the window, half a window in flight is enough: the window then reaches twice the bytes that the
    flow uses, or less, as flights shrink with each ACK. `ecc.models.shared.application_limits` has other rules, which
    can replace this one.
    """
    return env.limited_by == BY_WINDOW or is_filled(env.window, env.window < flow.ssthresh, env)


def is_paced_window_limited(window: float, in_slow_start: bool, env: FlowEnv) -> bool:
    """Return `is_window_limited` of a host that paces a window over an RTT: its pacer enforces its window."""
    return env.limited_by != BY_DATA or is_filled(window, in_slow_start, env)


def is_filled(window: float, in_slow_start: bool, env: FlowEnv) -> bool:
    """Return whether the bytes in flight before this ACK (twice as many in slow start) fill a window up to a packet."""
    flight = (2.0 if in_slow_start else 1.0) * (env.in_flight + env.acked)
    return flight + env.packet_size > window


def restart_window(window: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """Return the window after an idle period, as the parameter `restart` selects it; for `on_restart`.

    An idle period no longer than the retransmission timeout leaves the window unchanged. RFC 5681 sec. 4.1; Linux:
    tcp_cwnd_restart.
    """
    if p.restart == 0.0 or env.idle <= env.rto:
        return window
    s = 1.0 * env.packet_size
    if p.restart == 1.0:
        return min(window, first_window(s, p))
    if p.restart == 3.0:
        return decayed(window, env.idle, flow, p, env)
    flow.ssthresh = max(flow.ssthresh, LINUX_KEPT * window)
    lowest = min(window, (p.initial if p.initial > 0.0 else LINUX_INITIAL) * s)
    rest = env.idle - env.rto
    while rest > 0.0 and window > lowest:
        window *= 0.5
        rest -= env.rto
    return max(window, lowest)


def decayed(window: float, age: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """Return a window after it was not validated for `age` [s]: RFC 7661 sec. 4.4.3."""
    lowest = min(window, first_window(1.0 * env.packet_size, p))
    while age >= NON_VALIDATED_PERIOD and window > lowest:
        flow.ssthresh = max(flow.ssthresh, LINUX_KEPT * window)
        window = max(0.5 * window, lowest)
        age -= NON_VALIDATED_PERIOD
    return window


def flow_on_restart(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Resume with the restart window."""
    env.window = restart_window(env.window, flow, p, env)


STARTS: dict[str, Hook] = {"on_start": flow_on_start, "on_restart": flow_on_restart}
"""Hooks of a flow that starts, or starts again after an idle period, with nothing in flight."""


def on_the_way(env: FlowEnv) -> float:
    """Return FlightSize plus the data that this ACK acknowledges (0 in `on_loss`), limited to the window.

    The limit matters during a long recovery: SACK then allows more outstanding data than a window. With the transport
    "quic" it is the window (RFC 9002 sec. 7.3.2).
    """
    if env.transport == QUIC:
        return env.window
    return min(env.window, 1.0 * (env.in_flight + env.acked))


def cut(flow: FlowState, window: float, env: FlowEnv) -> None:
    """Continue in congestion avoidance with a window of two packets or more."""
    flow.ssthresh = max(window, 2.0 * env.packet_size)
    env.window = flow.ssthresh


def remember(flow: FlowState, env: FlowEnv) -> None:
    """RFC 4015, in `on_loss`: remember the flight size that `undo` restores if the loss proves to be spurious."""
    if env.kind == 0 or flow.backed_off == 0:  # later expirations of the timer find an already reduced flight
        flow.pipe_prev = max(on_the_way(env), flow.ssthresh)


def undo(flow: FlowState, env: FlowEnv) -> None:
    """RFC 4015, at an ACK with `env.undone`: slow start up to the flight size before the loss, without a burst.

    Nothing is restored if the ACK reports congestion, or if a mark has reduced the window since.
    """
    if flow.pipe_prev > 0.0 and env.ece == 0:
        opened = env.in_flight + min(1.0 * env.acked, initial_window(1.0 * env.packet_size))
        env.window = max(env.window, opened)
        flow.ssthresh = flow.pipe_prev
    flow.pipe_prev = 0.0


def remember_window(flow: Restorable, env: FlowEnv) -> bool:
    """Remember the window for `restore`; return whether the caller has to remember its further state too."""
    is_first: bool = env.kind == 0 or flow.backed_off == 0
    if is_first:
        flow.undo_W, flow.undo_ssthresh = env.window, flow.ssthresh
        flow.by_timer = env.kind
    remember(flow, env)
    return is_first


def restore(flow: Restorable, env: FlowEnv) -> bool:
    """RFC 9438 sec. 4.9, at an ACK with `env.undone`: restore the window; return whether to restore further state.

    Nothing is restored if the window has grown back already, a mark has reduced it since, or the ACK reports
    congestion. After a timeout the window is that of `undo`, which avoids a burst.
    """
    is_undone: bool = flow.pipe_prev > 0.0 and env.ece == 0 and env.window < flow.undo_W
    if is_undone and flow.by_timer == 0:
        env.window, flow.ssthresh = flow.undo_W, flow.undo_ssthresh
    elif is_undone:
        undo(flow, env)
    flow.pipe_prev = 0.0
    return is_undone


def time_out(flow: FlowState, window: float, env: FlowEnv) -> None:
    """Restart from one packet in slow start; repeated timeouts keep the threshold (RFC 5681 sec. 3.1).

    With the transport "quic" it is the response to persistent congestion (RFC 9002 sec. 7.6.2): two packets, and a new
    threshold unless the recovery has already reduced it.
    """
    if env.transport == QUIC:
        if env.recovering == 0:
            flow.ssthresh = max(window, 2.0 * env.packet_size)
        env.window = 2.0 * env.packet_size
        return
    if flow.backed_off == 0:
        flow.ssthresh = max(window, 2.0 * env.packet_size)
    flow.backed_off = 1
    env.window = 1.0 * env.packet_size
