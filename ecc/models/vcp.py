"""VCP, the Variable-structure congestion Control Protocol (Xia, Subramanian, Stoica, Kalyanaraman, SIGCOMM 2005).

Every t_rho a router computes the load factor of its link and signals one of three regions in two ECN bits. A flow
increases its window multiplicatively (MI), additively (AI) or decreases it (MD), by the worst region on its path:

    rho = (y t_rho + kappa_q q) / (gamma C t_rho)
    code = low if rho < 0.8, high if rho < 1, else overload
    MI, code low         W(t + D) = W(t) (1 + xi)^(D/t_rho)
    AI, code high        W(t + D) = W(t) + alpha (D/t_rho)^2 s
    MD, code overload    W <- beta W, then no change for t_rho, then AI for an RTT

    y  arrival rate [bit/s]   q  persistent queue [bit]   t_rho   `interval`       kappa_q  weight of the queue
    C  capacity [bit/s]       D  RTT [s]                  W, s    window, packet   gamma    target utilization

MI and MD have the same factors for all flows. AI adds per RTT in proportion to D^2 to windows, and to D to rates: if MD
affects all flows equally, rates become equal for any RTTs. The window oscillates between AI and MD: there is no
equilibrium, and loads vary from about beta to 1 of gamma C. VCP has no slow start; MI begins with the first ACK. (EDN
sec. 2 describes a slow start that VCP leaves at a load of 80 %: `opening="slow_start"` doubles windows until a higher
region is reported.)

Choices that the paper leaves open follow its authors' ns-2 code. ACKs change windows, MI by (1 + xi)^(D/t_rho) - 1
packets and AI by alpha (D/t_rho)^2 s/W for each packet that they acknowledge (for each ACK, as in that code, if L = 0).
The response after an overload is skipped if another region is reported. q is a moving average of the queue sampled each
`sampling`, with weight 1/4 for the mean of the last t_rho. D is the smoothed RTT. A loss halves the window, and a
timeout reduces it to one packet, as in NewReno.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc._support.arguments import check_arguments
from ecc._support.quantity import TIME, as_delay
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.formats.headers import COMMON, CongestionHeader, WireFields, bits_field
from ecc.laws.elementary import exp, log
from ecc.models.newreno import flow_on_loss
from ecc.models.shared import windows

LOW, HIGH, OVERLOAD = 1, 2, 3  # the two bits; 0 is a packet of another protocol
BEGINS_HIGH, BEGINS_OVERLOAD = 0.8, 1.0  # load factors at which the regions begin
FORGETS = 0.25  # weight of the last interval in the persistent queue


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    load: int = 0  # worst region on the path so far


@dataclass
class LinkState:
    """A router's state at one link."""

    code: int = LOW  # announced region
    arrived: float = 0.0  # bytes since the interval began
    queues: float = 0.0  # sum of the queue samples since then [bytes]
    samples: int = 0  # number of these samples
    q: float = 0.0  # persistent queue [bit]
    opened: float = 0.0  # start of the interval [s]


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    decreased: float = -windows.NEVER_LEFT  # time of the last MD [s]


@dataclass(frozen=True)
class VCP(windows.WindowProtocol):
    """VCP.

    Parameters
    ----------
    xi : float, > 0
        Factor of MI over one interval, minus 1 (0.0625 in the paper, as all values in brackets here).
    alpha : float, > 0
        Packets that AI adds over one interval (1).
    beta : float, in (0, 1)
        Factor of MD (0.875).
    gamma : float, > 0
        Target utilization (0.98).
    kappa_q : float, >= 0
        Weight of the persistent queue (0.5).
    interval : float, s, > 0
        t_rho, the measurement interval of routers (200 ms).
    sampling : float, s, > 0
        Time between samples of the queue (10 ms).
    opening : str
        "mi" or "slow_start" (EDN sec. 2): growth of a flow until the first report of more than a low load.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`.

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
    no_equilibrium = "its windows oscillate between AI and MD"
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "EDN sec. 3: 100 Mb/s, median RTT 100 ms; four flows are ours")

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
        """The persistent queue: a moving average of the mean queue of an interval."""
        return R + FORGETS * (q_mean - R)

    @staticmethod
    def announce_law(R: float, y: float, C: float, T: float, p: Params) -> int:
        """The region of the load factor."""
        return region((y * T + p.kappa_q * R) / (p.gamma * C * T))

    @staticmethod
    def slow_start_law(w: float, R: float, s: float, a: float, p: Params) -> float:
        """EDN sec. 2: slow start until the load is high, if selected; otherwise no change."""
        return windows.doubled(w, s, a, p) if p.doubles > 0.0 and R < HIGH else w

    @staticmethod
    def decrease_law(w: float, R: float, D: float, T: float, since: float, s: float, p: Params) -> float:
        """MD, no more than once in t_rho plus an RTT: earlier reports may predate the last decrease."""
        return max(p.beta * w, s) if R >= OVERLOAD and since >= T + D else w

    @staticmethod
    def source_law(w: float, R: float, D: float, T: float, since: float, s: float, p: Params) -> float:
        """The window after an RTT of MI or AI."""
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


def region(rho: float) -> int:
    """Return the code of a load factor."""
    if rho < BEGINS_HIGH:
        return LOW
    return HIGH if rho < BEGINS_OVERLOAD else OVERLOAD


def multiplied(intervals: float, p: Params) -> float:
    """Return the growth by MI in an RTT of `intervals`, as a share of the window."""
    return exp(intervals * log(1.0 + p.xi)) - 1.0


def added(intervals: float, p: Params) -> float:
    """Return the growth by AI in an RTT of `intervals`, in packets."""
    return p.alpha * intervals * intervals


def link_on_start(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Start the clock."""
    env.next_interval = p.sampling


def link_on_arrival(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count arriving bytes."""
    link.arrived += env.packet_size


def link_on_departure(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Mark packets of the protocol with the region if it is worse than those of the links before."""
    if env.kind == 0 and 0 < header.load < link.code:
        header.load = link.code


def link_on_interval(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Sample the queue; once in t_rho, compute the load factor."""
    link.queues += env.queue
    link.samples += 1
    duration = env.now - link.opened
    if link.opened == 0.0 or duration > p.interval - 0.5 * p.sampling:  # the first tick closes a short first interval
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


def on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Initialize the header with a low load, which routers may raise."""
    header.load = LOW


def on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Apply one ACK's share of MI or AI, or MD."""
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
    """Header field of VCP and UTIL: the byte of the IP header that ends with the two ECN bits.

    `service`: the six bits before these, used by others; `load`: region of the load factor (1 low, 2 high, 3 overload;
    0: a packet of another protocol).
    """

    title = "a VCP field"
    place = "service"
    service: int = bits_field(6, direction=COMMON)
    load: int = bits_field(2)
