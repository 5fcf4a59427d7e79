"""What the hosts of all window protocols share: RFC 5681's opening, slow start, and answer to losses.

Windows and thresholds are in bytes; s is a packet, SMSS in the RFC. Routers do nothing but queue and drop. The engine
recovers the losses (RFC 6582 or RFC 6675) and lets a window's worth of packets be in flight meanwhile; the hooks set
the window at the start of a recovery and at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from ecc.allocation import proportional
from ecc.errors import LinearizationError
from ecc.models.base import Equilibrium, FlowEnv, Hook, Params, Protocol, RelayLoop, check_choice, check_number
from ecc.network import Network
from ecc.quantity import QuantityField, as_count, as_delay, default

GROW_UNTIL_LOST = "its windows grow until a queue overflows or a packet is lost, and jump there"
"""Why hosts that answer losses have no equilibrium (`no_equilibrium`)."""
GROW_UNTIL_MARKED = "its windows grow until packets are marked or lost, and jump there"
"""The same of those that are made for marks."""
NEVER_LEFT = 1e300  # bytes, a slow-start threshold "arbitrarily high" (RFC 5681 sec. 3.1)


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

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    transport: str = "newreno"
    initial: float | None = None
    receiver_window: int = 0
    min_rto: QuantityField = default(1.0)
    initial_rto: QuantityField = default(1.0)
    L: float = 2.0

    combine = "sum"
    times: ClassVar[tuple[str, ...]] = ()
    equilibrium_is_static = False
    header_bytes = (0, 0)  # what some report is in the IP header
    FlowState: ClassVar[type] = FlowState
    slow_start_law: ClassVar[Callable[..., float] | None] = staticmethod(doubled)
    loss_response_law: ClassVar[Callable[..., float] | None] = staticmethod(after_a_loss)

    def __post_init__(self) -> None:
        check_choice(self, "transport", ("newreno", "sack", "rack"))
        if self.initial is not None:
            check_number(self, initial=None)
        for name in ("min_rto", "initial_rto"):
            object.__setattr__(self, name, as_delay(getattr(self, name), name, positive=True))
        object.__setattr__(self, "receiver_window", as_count(self.receiver_window, "receiver_window"))
        check_number(self, L=0.0)
        if 0.0 < self.L < 1.0:
            raise ValueError(f"L must be >= 1 packet, or 0 to count ACKs, got {self.L:g}")

    def params(self) -> dict[str, float]:
        return {"initial": self.initial or 0.0, "L": self.L}

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        raise ValueError(f"start must be 'empty' for packets of {type(self).__name__}: its equilibrium has queues")

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
    transport, initial, receiver_window, min_rto, initial_rto, L
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

    def _hosts(self, on_ack: Hook, on_loss: Hook) -> dict[str, Hook]:
        """Return the hooks of a flow: what it does at ACKs and at losses, and, with `ecn`, at marks."""

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

        hooks = {"on_start": flow_on_start, "on_ack": on_ack, "on_loss": on_loss}
        return hooks | ({"on_ack": on_ack_and_mark, "on_loss": on_loss_unless_marked} if self.ecn else {})


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


def opens(flow: Any, env: FlowEnv) -> bool:
    """Whether an ACK acknowledges new data, no loss is being recovered, and no mark is being answered.

    Windows grow at ACKs without ECE (RFC 3168 sec. 6.1.2), and only where they are used. What is new resets the timer.
    """
    if env.acked > 0:
        flow.backed_off = 0
    may: bool = env.acked > 0 and env.recovering == 0 and env.recovered == 0 and env.ece == 0
    return may and not limits_itself(flow, env)


def limits_itself(flow: Any, env: FlowEnv) -> bool:
    """Whether its application, which has no more to send, and not the window limits a flow (RFC 7661, RFC 9438 5.8).

    Half of the window is enough in slow start, which doubles it; as in Linux.
    """
    used = 1.0 * (env.in_flight + env.acked)
    if env.window < flow.ssthresh:
        used *= 2.0
    limited: bool = env.unsent <= 0 and used + env.packet_size <= env.window
    return limited


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
