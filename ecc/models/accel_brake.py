"""ABC, Accel-Brake Control: one bit per packet, for links of varying capacity (Goyal et al. 2020, arXiv:1905.03429).

As a packet leaves it, a router computes its target rate for the next RTT, and the share of packets that achieves it:

    tr = eta C - (C/delta) (q/C - d_t)^+                 target rate                                 (1)
    f  = min(tr/(2 cr), 1)                               share of packets marked "accelerate"        (2)
    cr   departures in the last `measured_over`, over that time

It marks packets by a count of tokens: each packet adds f (up to `token_limit`). A packet that arrives as "accelerate"
and can take a token leaves as "accelerate", all others as "brake" (Algorithm 1). So the smallest f of a path is
effective. For each ACK of a packet

    W <- W + 1 + 1/W   accelerate,        W <- W - 1 + 1/W   brake        packets, >= 1                (3)

In an RTT W packets return at cr, and the flow sends 2 f cr for them, plus one packet.

    W  window [packets]   C  capacity [bit/s]   q  queue behind the packet [bit]   D  RTT, with queues [s]
    d_t  `target_delay` [s]   delta [s]   tau  RTT from the router back to it, without its queue [s]

As fluid a link reports the share of brakes 1 - f, of which the largest of a path is effective, and

    w(t + D) = 2 f w + s          R' = 2 (min(C, y + q/T) - R)/`measured_over`,  cr = R        s  packet [bit]

with the average R of departures, on average as old as that of packet runs, and T a tenth of `measured_over`. With a
queue at all times R = C, and for N flows with one RTT tau and the queueing delay b = q/C,

    b'(t) = eta - 1 - (b(t - tau) - d_t)^+/delta + N s/(C D)

If the last term is a constant A - (eta - 1), b -> d_t + A delta from any start if delta > 2 tau/3, by Yorke's theorem
of 1970 on one-dimensional equations with delay, with its constant 3/2. (The paper's section on stability was not
available.) Near the equilibrium the equation is e' = -e(t - tau)/delta, stable if and only if delta > 2 tau/pi. With D
in the last term it is s + a + e^(-s tau)/delta = 0 with a = (1 - tr/C)/D: slightly more stable.

At equilibrium tr/cr = 1 - 1/W at the link of a path with the smallest ratio: windows are equal, hence rates are
proportional to 1/D. On one link the queue is empty if N s/(C tau) < 1 - eta, and f holds the load at eta C/(1 - 1/W).
The queueing delay is up to d_t if only windows above C (tau + d_t) would not fill the link, and more than d_t beyond.

If no link of a path is an ABC router, all packets say "accelerate". For this case the paper has a second window, of
CUBIC, and uses the smaller one; here a loss halves the single window, and a timeout reduces it to one packet, as in
NewReno. The router counts all departures in cr; the paper has a separate queue for other traffic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import TIME, QuantityField, as_delay, as_time, default
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models.newreno import flow_on_loss
from ecc.models.shared import windows
from ecc.models.shared.clock import has_come, is_over
from ecc.models.shared.telemetry import equilibrium_of_windows
from ecc.network.network import Network

ACCELERATE, BRAKE = 1, 2  # 0 is a packet of another protocol
PARTS = 10  # parts of `measured_over` in which routers count


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    mark: int = 0  # ACCELERATE or BRAKE


@dataclass
class LinkState:
    """A router's state; arrays have values at the ends of the last parts of `measured_over`, starting at `oldest`."""

    tokens: float = 5.0
    sent: float = 0.0  # departures so far [bytes]
    departed: float = -windows.NEVER_LEFT  # time of the last departure [s]
    part_end: float = 0.0  # end of the current part [s]
    oldest: int = 0
    sent_by: tuple[float, ...] = (0.0,) * PARTS
    departed_by: tuple[float, ...] = (0.0,) * PARTS


@dataclass(frozen=True)
class ABC(windows.WindowProtocol):
    """ABC.

    Parameters
    ----------
    eta : float, in (0, 1]
        Target utilization (0.98 in the paper).
    delta : float, s, > 0
        Time in which a router drains the queue above `target_delay` (133 ms).
    target_delay : float, s, >= 0
        Queueing delay d_t that a router tolerates (50 ms).
    measured_over : float, s, > 0
        Time over which routers count departures (20 ms, as in the authors' queue for Mahimahi).
    token_limit : float, >= 1
        Maximum number of tokens (5, as in that queue).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; with L = 0 each ACK counts for a packet.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    eta: float = 0.98
    delta: QuantityField = default(0.133)
    target_delay: QuantityField = default(0.05)
    measured_over: QuantityField = default(0.02)
    token_limit: float = 5.0
    transport: str = field(default="sack", kw_only=True)

    dimensions = {"delta": TIME, "target_delay": TIME, "measured_over": TIME}

    combine = "max"
    slow_start_law = None
    times: ClassVar[tuple[str, ...]] = ("continuous", "discrete", "hybrid")
    reference_loop = ReferenceLoop(100e6, (0.1,) * 4, "ours")

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_delay", as_time(self.target_delay, "target_delay"))
        check_number(self, eta=None, delta=as_delay, measured_over=as_delay, token_limit=1.0)
        if self.eta > 1.0:
            raise ValueError(f"eta must be <= 1, got {shown(self.eta)}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, q: float, C: float, T: float, p: Params) -> float:
        """The average of departures: in T a link sends its queue and its arrivals, limited to C T."""
        return R + 2.0 * T / p.measured_over * (min(C, y + q / T) - R)

    @staticmethod
    def announce_law(R: float, q: float, C: float, p: Params) -> float:
        """The share of brakes."""
        return 1.0 - accelerated(target_rate(q, C, p), R)

    @staticmethod
    def source_law(w: float, R: float, s: float) -> float:
        """Equation (3), for the ACKs of a window; R is the share of brakes."""
        return max(2.0 * (1.0 - R) * w + s, s)

    def params(self) -> dict[str, float]:
        return {
            "eta": self.eta,
            "delta": self.delta,
            "target_delay": self.target_delay,
            "measured_over": self.measured_over,
            "token_limit": self.token_limit,
            "interval": self.measured_over / PARTS,
            **super().params(),
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    LinkState = LinkState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_send": on_send, "on_ack": on_ack, "on_loss": flow_on_loss}

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return equal windows at each link with the largest share of brakes; `fair_rate` is its departures R."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of ABC follow the link with the largest share of brakes")
        packets = np.array([8.0 * flow.mean_packet for flow in network.flows])

        def report(u: NDArray[np.float64]) -> Any:
            """Return cr eta/tr of a link with the load u, or with the queueing delay (u - 1) delta."""
            over = np.maximum(u - 1.0 - self.target_delay / self.delta, 0.0)
            return np.minimum(u, 1.0) / np.maximum(1.0 - over / self.eta, 1e-15)

        point = equilibrium_of_windows(network, self.delta, self.eta, packets, np.inf, "ABC", "", report, 0.0)
        departures = np.minimum(point.rates @ network.incidence, network.capacities)
        return replace(point, fair_rate=np.where(np.isfinite(point.fair_rate), departures, np.inf), states={})

    def published_bounds(self, network: Network) -> list[Bound]:
        """Yorke's theorem of 1970 for the router's law, on one link, from any start."""
        if network.n_links != 1:
            return []
        minimum = 2.0 / 3.0 * float(network.rtts.max())
        hypotheses = "one link; additive increase of a constant rate; tau the largest RTT without queue"
        return [Bound("Yorke 1970", "delta", minimum, "sufficient", "continuous", hypotheses, above=True)]


def target_rate(q: float, C: float, p: Params) -> float:
    """Equation (1): the target rate [bit/s], or 0 if it is negative."""
    return max(p.eta * C - C / p.delta * max(q / C - p.target_delay, 0.0), 0.0)


def accelerated(tr: float, cr: float) -> float:
    """Equation (2): the share of packets marked "accelerate"."""
    return 1.0 if tr >= 2.0 * cr else 0.5 * tr / cr


def counted(link: LinkState, p: Params, env: LinkEnv) -> float:
    """Count a departure; return cr [bit/s], measured from a departure about `measured_over` ago to this one."""
    if is_over(env.now, link.departed + p.measured_over):  # no departure for so long: start a new measurement
        for k in range(PARTS):
            link.sent_by[k] = link.sent
            link.departed_by[k] = env.now - p.measured_over
        link.part_end = env.now + p.interval
    for _ in range(PARTS + 1):
        if has_come(env.now, link.part_end):
            link.sent_by[link.oldest] = link.sent
            link.departed_by[link.oldest] = link.departed
            link.oldest = (link.oldest + 1) % PARTS
            link.part_end += p.interval
    link.sent += env.packet_size
    link.departed = env.now
    k = link.oldest
    return 8.0 * (link.sent - link.sent_by[k]) / (env.now - link.departed_by[k])


def mark(link: LinkState, header: Header, cr: float, p: Params, env: LinkEnv) -> None:
    """Algorithm 1: mark a packet of the protocol "brake", unless a token lets it keep "accelerate"."""
    if env.kind == 0 and header.mark != 0:
        tr = target_rate(8.0 * env.queue, env.capacity, p)
        link.tokens = min(link.tokens + accelerated(tr, cr), p.token_limit)
        if header.mark == ACCELERATE:
            if link.tokens > 1.0:
                link.tokens -= 1.0
            else:
                header.mark = BRAKE


def link_on_departure(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a departure, and mark the packet by the measured rate."""
    mark(link, header, counted(link, p, env), p, env)


def on_send(flow: windows.FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Mark each packet "accelerate"; routers may change the mark."""
    header.mark = ACCELERATE


def on_ack(flow: windows.FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Equation (3); an application-limited flow does not accelerate."""
    s = 1.0 * env.packet_size
    opens = windows.opens(flow, env)
    brakes = header.mark == BRAKE and env.acked > 0 and env.recovering == 0 and env.recovered == 0
    if opens or brakes:
        acked = windows.counted(env.acked, s, p)
        w = env.window + s * acked / env.window
        env.window = max(w - acked, s) if brakes else w + acked
