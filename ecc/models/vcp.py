"""VCP, the Variable-structure congestion Control Protocol (Xia, Subramanian, Stoica, Kalyanaraman, SIGCOMM 2005).

Every t_rho a router works out the load factor of its link and signals in two ECN bits in which of three regions it is;
a flow increases its window multiplicatively (MI), additively (AI) or decreases it (MD), by the worst region on its
path:

    rho = (y t_rho + kappa_q q) / (gamma C t_rho)
    code = low where rho < 0.8, high where rho < 1, else overload
    MI, code low         W(t + D) = W(t) (1 + xi)^(D/t_rho)
    AI, code high        W(t + D) = W(t) + alpha (D/t_rho)^2 s
    MD, code overload    W <- beta W, then nothing for t_rho, then AI for an RTT

    y  arrival rate [bit/s]   q  steady queue [bit]   t_rho    `interval`           kappa_q  weight of the queue
    C  capacity [bit/s]       D  RTT [s]              W, s     window, packet       gamma    target utilization

MI and MD are the same for all and AI is in proportion to D^2 in windows, to D in rates: where MD meets all flows
equally, rates become equal for any RTTs. The window swings between AI and MD: there is no equilibrium, and loads swing
from about beta to 1 of gamma C. There is no slow start; MI begins with the first ACK. (EDN sec. 2 has a slow start that
VCP leaves at a load of 80 %: `opening="slow_start"` doubles windows until a higher region is reported.)

What the paper leaves open is as in its authors' ns-2 code: ACKs move windows, MI by (1 + xi)^(D/t_rho) - 1 packets and
AI by alpha (D/t_rho)^2 s/W for each packet that they acknowledge (for each ACK, as there, where L = 0); the response
after an overload is skipped where another region is reported; q is a moving average, a quarter of it the mean of the
last t_rho, of the queue sampled each `sampling`; D is the smoothed RTT. A loss halves the window, and a timeout leaves
one packet of it, as in NewReno.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.arguments import check_arguments
from ecc._support.quantity import TIME, as_delay
from ecc.formats.headers import COMMON, CongestionHeader, WireFields, bits_field
from ecc.laws.elementary import exp, log
from ecc.models.base import FlowEnv, Hook, LinkEnv, Params, check_choice, check_number
from ecc.models.newreno import flow_on_loss
from ecc.models.shared import windows

LOW, HIGH, OVERLOAD = 1, 2, 3  # the two bits; 0 is a packet of another protocol
BEGINS_HIGH, BEGINS_OVERLOAD = 0.8, 1.0
FORGETS = 0.25  # weight of the last interval in the steady queue


@dataclass
class Header:
    """What travels with a packet and returns with its ACK."""

    load: int = 0  # worst region on the path so far


@dataclass
class LinkState:
    """A router's state at one link."""

    code: int = LOW  # announced region
    arrived: float = 0.0  # since the interval began [bytes]
    queues: float = 0.0  # sum of the samples of the queue since then [bytes]
    samples: int = 0  # their number
    q: float = 0.0  # steady queue [bit]
    opened: float = 0.0  # when the interval began [s]


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    decreased: float = -windows.NEVER_LEFT  # when the last MD was [s]


@dataclass(frozen=True)
class VCP(windows.WindowProtocol):
    """VCP.

    Parameters
    ----------
    xi : float, > 0
        Factor of MI over one interval, less 1 (the paper's 0.0625, as are all of these).
    alpha : float, > 0
        Packets that AI adds over one interval (1).
    beta : float, in (0, 1)
        Factor of MD (0.875).
    gamma : float, > 0
        Target utilization (0.98).
    kappa_q : float, >= 0
        Weight of the steady queue (0.5).
    interval : float, s, > 0
        t_rho, over which routers measure (200 ms).
    sampling : float, s, > 0
        Between samples of the queue (10 ms).
    opening : str
        "mi" or "slow_start" (EDN sec. 2): what a flow does until more than a low load is first reported to it.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        As of every `WindowProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    xi: float = 0.0625
    alpha: float = 1.0
    beta: float = 0.875
    gamma: float = 0.98
    kappa_q: float = 0.5
    interval: float = 0.2
    sampling: float = 0.01
    opening: str = "mi"

    dimensions = {"interval": TIME, "sampling": TIME}
    combine = "max"
    no_equilibrium = "its windows swing between AI and MD"

    def __post_init__(self) -> None:
        check_number(
            self, xi=None, alpha=None, beta=None, gamma=None, kappa_q=0.0, interval=as_delay, sampling=as_delay
        )
        if not self.beta < 1.0:
            raise ValueError(f"beta must be < 1, got {self.beta:g}")
        check_choice(self, "opening", ("mi", "slow_start"))
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, q_mean: float) -> float:
        """The steady queue."""
        return R + FORGETS * (q_mean - R)

    @staticmethod
    def announce_law(R: float, y: float, C: float, T: float, p: Params) -> float:
        """The load factor, and the region in which it is."""
        return region((y * T + p.kappa_q * R) / (p.gamma * C * T))

    @staticmethod
    def slow_start_law(w: float, R: float, s: float, a: float, p: Params) -> float:
        """EDN sec. 2, up to a high load, if it is to be; else nothing."""
        return windows.doubled(w, s, a, p) if p.doubles > 0.0 and R < HIGH else w

    @staticmethod
    def decrease_law(w: float, R: float, D: float, T: float, since: float, s: float, p: Params) -> float:
        """MD: once in t_rho and an RTT."""
        return max(p.beta * w, s) if R >= OVERLOAD and since >= T + D else w

    @staticmethod
    def source_law(w: float, R: float, D: float, T: float, since: float, s: float, p: Params) -> float:
        """The window one RTT later, of MI and AI."""
        if R < HIGH:
            return w * (1.0 + multiplied(D / T, p))
        return w + added(D / T, p) * s if R < OVERLOAD or since >= T else w

    def params(self) -> dict[str, float]:
        return {
            "xi": self.xi,
            "alpha": self.alpha,
            "beta": self.beta,
            "gamma": self.gamma,
            "kappa_q": self.kappa_q,
            "interval": self.interval,
            "sampling": self.sampling,
            "doubles": float(self.opening == "slow_start"),
            **super().params(),
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return LINK_HOOKS

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_send": on_send, "on_ack": on_ack, "on_loss": flow_on_loss}

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        return WireFields(VCPField, {"load": "load"})


def region(rho: float) -> float:
    """The code of a load factor."""
    if rho < BEGINS_HIGH:
        return LOW
    return HIGH if rho < BEGINS_OVERLOAD else OVERLOAD


def multiplied(intervals: float, p: Params) -> float:
    """What MI adds in an RTT of so many intervals, as a share of the window."""
    return exp(intervals * log(1.0 + p.xi)) - 1.0


def added(intervals: float, p: Params) -> float:
    """What AI adds in such an RTT, in packets."""
    return p.alpha * intervals * intervals


def link_on_start(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Start the clock."""
    env.next_interval = p.sampling


def link_on_arrival(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Count what arrives."""
    link.arrived += env.packet_size


def link_on_departure(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Tell the region, where it is worse than those before, to packets of the protocol."""
    if env.kind == 0 and 0 < header.load < link.code:
        header.load = link.code


def link_on_interval(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Sample the queue; once in t_rho, work out the load factor."""
    link.queues += env.queue
    link.samples += 1
    duration = env.now - link.opened
    if link.opened == 0.0 or duration > p.interval - 0.5 * p.sampling:  # the first tick has the phase of the router
        link.q = router_law(link.q, 8.0 * link.queues / link.samples)
        link.code = announce_law(link.q, 8.0 * link.arrived / duration, env.capacity, duration, p)
        link.arrived = link.queues = 0.0
        link.samples = 0
        link.opened = env.now
    env.next_interval = p.sampling


router_law, announce_law = VCP.router_law, VCP.announce_law
slow_start_law, decrease_law, source_law = VCP.slow_start_law, VCP.decrease_law, VCP.source_law

LINK_HOOKS: dict[str, Hook] = {
    "on_start": link_on_start,
    "on_arrival": link_on_arrival,
    "on_departure": link_on_departure,
    "on_interval": link_on_interval,
}


def on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """The least load, for routers to raise."""
    header.load = LOW


def on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """One ACK's part of MI or AI, or MD."""
    s = 1.0 * env.packet_size
    if windows.moves(flow, env):
        is_limited = windows.is_window_limited(flow, env)
        w, R, D, T, since = env.window, header.load, env.srtt, p.interval, env.now - flow.decreased
        if R > LOW:
            flow.ssthresh = min(flow.ssthresh, w)
        less = decrease_law(w, R, D, T, since, s, p)
        if windows.in_slow_start(flow, env) and slow_start_law(w, R, s, s, p) > w:
            if is_limited:
                windows.slow_start(flow, p, env)
        elif less < w:
            env.window = less
            flow.decreased = env.now
        elif is_limited:
            env.window += (source_law(w, R, D, T, since, s, p) - w) * windows.counted(env.acked, s, p) / w


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class VCPField(CongestionHeader):
    """VCP's and UTIL's, the byte of the IP header that ends in the two ECN bits.

    `service`: the six bits before these, of others; `load`: region of the load factor (1 low, 2 high, 3 overload; 0: a
    packet of another protocol).
    """

    title = "a VCP field"
    place = "service"
    service: int = bits_field(6, direction=COMMON)
    load: int = bits_field(2)
