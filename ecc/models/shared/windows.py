"""What the hosts of all window protocols share: RFC 5681's opening, slow start, answer to losses, restart after idle.

Windows and thresholds are in bytes; s is a packet, SMSS in the RFC. Routers do nothing but queue and drop. The engine
recovers the losses (RFC 6582 or RFC 6675) and lets a window's worth of packets be in flight meanwhile; the hooks set
the window at the start of a recovery and at its end.

A window grows only while it limits its flow (`is_window_limited`), and not while the application has too little to
send, the receiver's window is smaller, or the pacer is slower. After an idle period it restarts (`restart_window`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from ecc._support.quantity import SIZE, TIME, QuantityField, as_count, as_delay, default
from ecc.errors import LinearizationError
from ecc.jit.reach import uses_field
from ecc.models.base import (
    LOST_RETRANSMISSIONS,
    Equilibrium,
    FlowEnv,
    Hook,
    Params,
    Protocol,
    RelayLoop,
    check_choice,
    check_number,
    record_at,
)
from ecc.network.allocation import proportional
from ecc.network.network import Network

GROW_UNTIL_LOST = "its windows grow until a queue overflows or a packet is lost, and jump there"
"""Why hosts that answer losses have no equilibrium (`no_equilibrium`)."""
GROW_UNTIL_MARKED = "its windows grow until packets are marked or lost, and jump there"
"""The same of those that are made for marks."""
LINUX: dict[str, Any] = {
    "transport": "rack", "lost_retransmission": "linux", "initial": 10.0, "min_rto": 0.2, "restart": "linux",
    "prr": True,
}  # fmt: skip
"""Parameters of all window protocols as Linux 6 has them by default."""
NEVER_LEFT = 1e300  # bytes, a slow-start threshold "arbitrarily high" (RFC 5681 sec. 3.1)
BY_DATA, BY_WINDOW, BY_PACER = range(3)
"""Values of `env.limited_by`: nothing to send (or to receive), a full window, the pacer."""
RESTARTS = ("none", "rfc5681", "linux")
LINUX_INITIAL = 10.0  # packets, Linux's initial window
LINUX_KEPT = 0.75  # share of the window that the slow-start threshold keeps at a restart (Linux)


@dataclass
class FlowState:
    """A host's state for one flow."""

    ssthresh: float = NEVER_LEFT  # slow-start threshold [bytes]
    answered: float = 0.0  # until when losses are of the window that a mark has cut [s]
    backed_off: int = 0  # whether its timer has expired since the last ACK of something new
    pipe_prev: float = 0.0  # what was in flight at the last loss, or the threshold [bytes]; 0: it cannot be undone


@dataclass
class Restorable:
    """A further state of hosts that `restore` after a loss that was none: what they had before it."""

    by_timer: int = 0  # whether the last loss was a timeout
    undo_W: float = 0.0  # [bytes]
    undo_ssthresh: float = 0.0  # [bytes]


def doubled(w: float, s: float, a: float, p: Params) -> float:
    """RFC 5681 (2), as fluid: what is acknowledged in an RTT is a window, in ACKs of a each."""
    return w + w * (counted_in_slow_start(a, s, p.L) / a)


def after_a_loss(w: float, s: float) -> float:
    """RFC 5681 (4), as fluid."""
    return max(halved(w), 2.0 * s)


def equilibrium_with_own(network: Network, packets: float) -> Equilibrium:
    """Return where each flow has so many packets in queues: proportional fairness, `fair_rate` the waits [s].

    Low, Peterson, Wang 2002, Theorem 1.

    Parameters
    ----------
    network : Network
    packets : float
        Of a flow, in all queues of its path.

    Raises
    ------
    LinearizationError
        Packets of several sizes, for which rates are not known.
    """
    sizes = {float(flow.mean_packet) for flow in network.flows}
    if len(sizes) > 1:
        raise LinearizationError(f"the equilibrium is known for packets of one size, got {sorted(sizes)} bytes")
    rates = proportional(network)
    held = 8.0 * packets * sizes.pop() / rates
    waits = np.linalg.lstsq(network.incidence.astype(float), held, rcond=None)[0]
    return Equilibrium(rates, waits, np.full(network.n_flows, -1), waits * network.capacities)


def relay_with_own(point: Equilibrium, network: Network, packets: float) -> tuple[RelayLoop, float]:
    """Return the loop from relays, of a packet an RTT, to own packets reported to them; and the queue [bit] for one.

    Parameters
    ----------
    point : Equilibrium
        Of `equilibrium_with_own`.
    network : Network
        Network of one link, whose flows have one RTT.
    packets : float
        At rest.
    """
    if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
        raise LinearizationError("relays act as one on one link with equal RTTs, got another network")
    assert point.queue is not None
    D = float(network.rtts[0] + point.queue[0] / network.capacities[0])
    return lambda s: np.asarray(np.exp(-D * s) / (D * s)), float(point.queue[0]) / packets


def relay_refusal(name: str) -> str:
    """Why there is no linear model of a relay."""
    return f"{name}'s source law is a relay, which has no slope to linearize"


@dataclass(frozen=True, kw_only=True)
class WindowProtocol(Protocol):
    """Base of the protocols whose hosts set windows: their parameters, and what most of them leave as it is.

    Parameters
    ----------
    transport : str
        "newreno" (RFC 6582), "sack" (RFC 6675) or "rack" (RFC 8985): how losses are recovered.
    lost_retransmission : str
        With "rack", what the loss of a packet that was sent in the recovery leads to: "reduce", a further reduction of
        the window, at most once an RTT (RFC 5681 sec. 4.3, RFC 8985 sec. 3.4), or "linux", none before the recovery
        ends.
    prr : bool, "marks" or None
        Proportional rate reduction in recoveries (RFC 9937), with "sack" or "rack"; None: with "rack", of hosts that
        reduce their windows at losses. "sack" alone is RFC 6675. "marks": after marks as well, as Linux has it; without
        it a host that answers a mark stops until enough packets are acknowledged.
    initial : float, > 0, or None
        First window, in packets; None: RFC 5681 (1), 2 to 4 (ns-2: 2, Linux: 10).
    receiver_window : int, bytes, >= 0
        How far data may be ahead of what is acknowledged; 0: no limit.
    min_rto : float, s, > 0
        Least retransmission timeout (RFC 6298: 1 s; Linux and ns-2: 0.2 s; in data centers some ms).
    initial_rto : float, s, > 0
        ... before the first ACK (RFC 6298, Linux: 1 s).
    L : float, packets, >= 1, or 0
        For how many packets an ACK counts at most in slow start (RFC 3465 sec. 2.2; 1 after a timeout, sec. 2.3). 0:
        without RFC 3465, ACKs count and not bytes, as in ns-2; also in the congestion avoidance of NewReno, DCTCP, VCP,
        EDN and PEDN. The other window laws divide what they gain in an RTT among its bytes for any L.
    restart : str
        What becomes of the window when data is sent after an idle period, with nothing in flight and nothing sent for
        longer than the retransmission timeout. "rfc5681" (sec. 4.1): at most the first window, for example 3 packets of
        1500 bytes. "linux": halved for each further timeout that has passed, down to the first window (`initial`, or
        Linux's 10 packets), while the slow-start threshold becomes at least 3/4 of the window before. "none": it stays.

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

    dimensions = {"receiver_window": SIZE, "min_rto": TIME, "initial_rto": TIME}

    combine = "sum"
    times: ClassVar[tuple[str, ...]] = ()
    equilibrium_is_static = False
    header_bytes = (0, 0)  # what some report is in the IP header
    FlowState: ClassVar[type] = FlowState
    may_use_prr: ClassVar[bool] = True
    """Whether its window after a loss is a reduced one, which a recovery is to reach; False: that of a model."""
    slow_start_law: ClassVar[Callable[..., float] | None] = staticmethod(doubled)
    loss_response_law: ClassVar[Callable[..., float] | None] = staticmethod(after_a_loss)
    restarts: ClassVar[tuple[str, ...]] = RESTARTS
    """The values of `restart` that a class takes."""

    def __post_init__(self) -> None:
        check_choice(self, "transport", ("newreno", "sack", "rack"))
        check_choice(self, "lost_retransmission", LOST_RETRANSMISSIONS)
        check_choice(self, "prr", (None, False, True, "marks"))
        if self.prr and self.transport == "newreno":
            raise ValueError(f"prr must be False or None with the transport 'newreno', got {self.prr!r}")
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

    @property
    def uses_prr(self) -> bool | str:
        return self.may_use_prr and self.transport == "rack" if self.prr is None else self.prr

    def params(self) -> dict[str, float]:
        return {"initial": self.initial or 0.0, "L": self.L, "restart": float(RESTARTS.index(self.restart))}

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, **values: float) -> Any:
        """Return the state of a flow in congestion avoidance, with its `states` in the fields of their names."""
        return record_at(self.FlowState(), {**values, "ssthresh": window})

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
    """Base of those among them that need nothing of links but losses, or marks.

    Parameters
    ----------
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        As of every `WindowProtocol`.
    ecn : bool
        Whether packets can be marked (RFC 3168). A mark is answered as a loss is, once a window (sec. 6.1.2); nothing
        is sent again.

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

        A mark calls `on_loss`, at most once a window, and a loss in the RTT after it calls nothing.

        Parameters
        ----------
        hooks : mapping
            Those of `flow_hooks`.
        """
        on_ack, on_loss = hooks.get("on_ack"), hooks.get("on_loss")
        if not self.ecn or self.mark_response_law is not None or on_ack is None or on_loss is None:
            return dict(hooks)
        if uses_field(on_ack, "marked"):
            return dict(hooks)

        def on_ack_and_mark(flow: Any, header: Any, p: Any, env: Any) -> None:
            on_ack(flow, header, p, env)
            if env.marked > 0 and env.recovering == 0 and env.recovered == 0:
                on_loss(flow, header, p, env)
                flow.answered = env.now + env.srtt
                flow.pipe_prev = 0.0  # a mark is no error

        def on_loss_unless_marked(flow: Any, header: Any, p: Any, env: Any) -> None:
            if env.kind > 0 or env.now >= flow.answered:
                on_loss(flow, header, p, env)
            else:
                flow.pipe_prev = 0.0  # nothing was done

        return {**hooks, "on_ack": on_ack_and_mark, "on_loss": on_loss_unless_marked}


def grown(window: float, s: float, counts: float) -> float:
    """RFC 5681 (3), in congestion avoidance: about a packet an RTT."""
    return window + s * counts / window


def counted(acked: float, s: float, p: Params) -> float:
    """What an ACK counts for in congestion avoidance: its bytes (RFC 3465 sec. 2.1), or a packet (RFC 5681 (3))."""
    return acked if p.L > 0.0 else s


def counted_in_slow_start(acked: float, s: float, L: float) -> float:
    """... in slow start: L packets at most (RFC 3465 sec. 2.2), or one (RFC 5681 (2))."""
    return min(acked, max(L, 1.0) * s)


def halved(window: float) -> float:
    """RFC 5681 (4), of the data in flight."""
    return 0.5 * window


def initial_window(s: float) -> float:
    """RFC 5681 (1)."""
    if s > 2190.0:
        return 2.0 * s
    if s > 1095.0:
        return 3.0 * s
    return 4.0 * s


def first_window(s: float, p: Params) -> float:
    """What a flow opens with: its parameter, or RFC 5681 (1)."""
    return p.initial * s if p.initial > 0.0 else initial_window(s)


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open with the initial window."""
    env.window = first_window(1.0 * env.packet_size, p)


def in_slow_start(flow: Any, env: FlowEnv) -> bool:
    """Whether an ACK of something new finds the window below the threshold."""
    below: bool = env.window < flow.ssthresh
    return below


def slow_start(flow: Any, p: Params, env: FlowEnv) -> None:
    """RFC 5681 (2), with L packets an ACK at most, and one after a timeout (RFC 3465 sec. 2.3)."""
    L = p.L if flow.ssthresh >= NEVER_LEFT else 1.0  # what comes back to slow start has met losses
    env.window += counted_in_slow_start(env.acked, env.packet_size, L)


def moves(flow: Any, env: FlowEnv) -> bool:
    """Whether an ACK acknowledges new data, no loss is being recovered, and no mark is being answered.

    Windows grow at ACKs without ECE (RFC 3168 sec. 6.1.2). New data resets the backoff of the timer.
    """
    if env.acked > 0:
        flow.backed_off = 0
    may: bool = env.acked > 0 and env.recovering == 0 and env.recovered == 0 and env.ece == 0
    return may


def opens(flow: Any, env: FlowEnv) -> bool:
    """Whether an ACK may open the window: it `moves`, and it limits the flow (RFC 7661, RFC 9438 sec. 5.8)."""
    return moves(flow, env) and is_window_limited(flow, env)


def is_window_limited(flow: Any, env: FlowEnv) -> bool:
    """Whether the window limits a flow, and not its application, the receiver's window or the pacer.

    The engine reports what kept the sender from sending more before this ACK (`env.limited_by`). In slow start, which
    doubles the window, it is enough if half of it was in flight: the window then reaches twice the bytes that the flow
    uses, as in Linux (tcp_is_cwnd_limited) and in draft-ietf-ccwg-ratelimited-increase.
    """
    return env.limited_by == BY_WINDOW or is_filled(env.window, env.window < flow.ssthresh, env)


def is_paced_window_limited(window: float, in_slow_start: bool, env: FlowEnv) -> bool:
    """As `is_window_limited`, of a host that paces a window over an RTT: its pacer is then its window."""
    return env.limited_by != BY_DATA or is_filled(window, in_slow_start, env)


def is_filled(window: float, in_slow_start: bool, env: FlowEnv) -> bool:
    """Whether the bytes in flight before this ACK, or twice as much in slow start, fill a window up to a packet."""
    flight = (2.0 if in_slow_start else 1.0) * (env.in_flight + env.acked)
    return flight + env.packet_size > window


def restart_window(window: float, flow: Any, p: Params, env: FlowEnv) -> float:
    """The window with which a flow goes on after an idle period, in `on_restart`: the parameter `restart`.

    Without an idle period longer than the retransmission timeout it stays. RFC 5681 sec. 4.1; Linux: tcp_cwnd_restart.
    """
    if p.restart == 0.0 or env.idle <= env.rto:
        return window
    s = 1.0 * env.packet_size
    if p.restart == 1.0:
        return min(window, first_window(s, p))
    flow.ssthresh = max(flow.ssthresh, LINUX_KEPT * window)
    lowest = min(window, (p.initial if p.initial > 0.0 else LINUX_INITIAL) * s)
    rest = env.idle - env.rto
    while rest > 0.0 and window > lowest:
        window *= 0.5
        rest -= env.rto
    return max(window, lowest)


def flow_on_restart(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Go on with the restart window."""
    env.window = restart_window(env.window, flow, p, env)


STARTS: dict[str, Hook] = {"on_start": flow_on_start, "on_restart": flow_on_restart}
"""The hooks of a flow that sends, at first or again, with nothing in flight."""


def on_the_way(env: FlowEnv) -> float:
    """FlightSize, with what the ACK that reports a mark acknowledges (0 in `on_loss`), but no more than a window.

    Behind a gap that stays open long, SACK lets more be outstanding.
    """
    return min(env.window, 1.0 * (env.in_flight + env.acked))


def cut(flow: Any, window: float, env: FlowEnv) -> None:
    """Go on from a window, of two packets at least, without slow start."""
    flow.ssthresh = max(window, 2.0 * env.packet_size)
    env.window = flow.ssthresh


def remember(flow: Any, env: FlowEnv) -> None:
    """RFC 4015, in `on_loss`: what `undo` would restore, if the loss turns out to be none."""
    if env.kind == 0 or flow.backed_off == 0:
        flow.pipe_prev = max(on_the_way(env), flow.ssthresh)


def undo(flow: Any, env: FlowEnv) -> None:
    """RFC 4015, at an ACK with `env.undone`: no burst, and slow start up to what was in flight before.

    Nothing is restored where the ACK reports congestion, or a mark has cut the window since.
    """
    if flow.pipe_prev > 0.0 and env.ece == 0:
        opened = env.in_flight + min(1.0 * env.acked, initial_window(1.0 * env.packet_size))
        env.window = max(env.window, opened)
        flow.ssthresh = flow.pipe_prev
    flow.pipe_prev = 0.0


def remember_window(flow: Any, env: FlowEnv) -> bool:
    """Remember for `restore`; whether what else the loss is about to change is to be remembered, too."""
    is_first: bool = env.kind == 0 or flow.backed_off == 0
    if is_first:
        flow.undo_W, flow.undo_ssthresh = env.window, flow.ssthresh
        flow.by_timer = env.kind
    remember(flow, env)
    return is_first


def restore(flow: Any, env: FlowEnv) -> bool:
    """RFC 9438 sec. 4.9, at an ACK with `env.undone`: the window, and whether all else is to be what it was.

    Not where the window is larger again, a mark has cut it since, or the ACK reports congestion. After a timeout the
    window is that of `undo`.
    """
    is_undone: bool = flow.pipe_prev > 0.0 and env.ece == 0 and env.window < flow.undo_W
    if is_undone and flow.by_timer == 0:
        env.window, flow.ssthresh = flow.undo_W, flow.undo_ssthresh
    elif is_undone:
        undo(flow, env)
    flow.pipe_prev = 0.0
    return is_undone


def time_out(flow: Any, window: float, env: FlowEnv) -> None:
    """One packet, and slow start up to a window; the threshold stays if the timer expires again (RFC 5681 sec. 3.1)."""
    if flow.backed_off == 0:
        flow.ssthresh = max(window, 2.0 * env.packet_size)
    flow.backed_off = 1
    env.window = 1.0 * env.packet_size
