"""ABC, Accel-Brake Control: a bit a packet, for links whose capacity varies (Goyal et al. 2020, arXiv:1905.03429).

As a packet leaves it, a router works out the rate that it wants in an RTT, and the share of packets that get it there:

    tr = eta C - (C/delta) (q/C - d_t)^+                 target rate                                 (1)
    f  = min(tr/(2 cr), 1)                               share of packets that say "accelerate"      (2)
    cr   what has left in the last `measured_over`, over that time

and marks packets so, by a count of tokens: each packet adds f (up to `token_limit`), and goes on as "accelerate" if it
came as that and takes a token, else as "brake" (Algorithm 1). On a path the smallest f counts. For each ACK of a packet

    W <- W + 1 + 1/W   accelerate,        W <- W - 1 + 1/W   brake        packets, at least one        (3)

W packets come back at cr in an RTT, and as many as 2 f cr are sent for them, and one more.

    W  window [packets]   C  capacity [bit/s]   q  queue behind the packet [bit]   D  RTT, with queues [s]
    d_t  `target_delay` [s]   delta [s]   tau  RTT from the router back to it, without its own queue [s]

As fluid a link reports the share of brakes 1 - f, of which the largest of a path counts, and

    w(t + D) = 2 f w + s          R' = 2 (min(C, y + q/T) - R)/`measured_over`,  cr = R        s  packet [bit]

with the average R of what leaves, as old in the mean as that of packets, each T, a tenth of `measured_over`.
With a queue at all times R = C, and of N flows with one RTT tau, for the wait b = q/C,

    b'(t) = eta - 1 - (b(t - tau) - d_t)^+/delta + N s/(C D)

With the last term a constant A - (eta - 1), b -> d_t + A delta from any start if delta > 2 tau/3, by Yorke's theorem of
1970 on one-dimensional equations with delay, whose constant is 3/2. (The paper's section on stability was not read.)
Near the equilibrium the equation is e' = -e(t - tau)/delta, stable if and only if delta > 2 tau/pi. With D in the last
term it is s + a + e^(-s tau)/delta = 0 with a = (1 - tr/C)/D: a little more stable.

At equilibrium tr/cr = 1 - 1/W at the link of a path where it is smallest: equal windows, hence rates by 1/D. One link:
its queue is empty where N s/(C tau) < 1 - eta, and f holds it at eta C/(1 - 1/W); it waits up to d_t where only windows
over C (tau + d_t) would not fill it, and more than d_t beyond.

A path of links that are no routers of ABC says "accelerate" only. The paper has a second window there, of CUBIC, and
the smaller of both counts; here a loss halves the one window, and a timeout leaves one packet of it, as in NewReno. The
router counts all that leaves in cr; the paper gives other traffic a queue of its own.
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
from ecc.models.newreno import flow_on_loss
from ecc.models.shared import windows
from ecc.models.shared.clock import has_come, is_over
from ecc.models.shared.telemetry import equilibrium_of_windows
from ecc.network.network import Network

ACCELERATE, BRAKE = 1, 2  # 0 is a packet of another protocol
PARTS = 10  # of `measured_over`, in which routers count


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    mark: int = 0


@dataclass
class LinkState:
    """A router's state; the arrays are of the ends of the last parts of `measured_over`, from `oldest` on."""

    tokens: float = 5.0
    sent: float = 0.0  # so far [bytes]
    left: float = -windows.NEVER_LEFT  # when the last packet did [s]
    part_end: float = 0.0  # s
    oldest: int = 0
    sent_by: tuple[float, ...] = (0.0,) * PARTS
    left_by: tuple[float, ...] = (0.0,) * PARTS


@dataclass(frozen=True)
class ABC(windows.WindowProtocol):
    """ABC.

    Parameters
    ----------
    eta : float, in (0, 1]
        Target utilization (the paper's 0.98).
    delta : float, s, > 0
        In which a router takes back what waits longer than `target_delay` (133 ms).
    target_delay : float, s, >= 0
        d_t, what may wait (50 ms).
    measured_over : float, s, > 0
        For how long routers count what leaves (20 ms, as the authors' queue for Mahimahi).
    token_limit : float, >= 1
        (5, as there.)
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        As of every `WindowProtocol`; with L = 0 each ACK counts for a packet.

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
    times: ClassVar[tuple[str, ...]] = ("continuous",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_delay", as_time(self.target_delay, "target_delay"))
        check_number(self, eta=None, delta=as_delay, measured_over=as_delay, token_limit=1.0)
        if self.eta > 1.0:
            raise ValueError(f"eta must be <= 1, got {shown(self.eta)}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, q: float, C: float, T: float, p: Params) -> float:
        """The average of what leaves: in T a link sends what it holds and what comes, at most C T."""
        return R + 2.0 * T / p.measured_over * (min(C, y + q / T) - R)

    @staticmethod
    def announce_law(R: float, q: float, C: float, p: Params) -> float:
        """The share of brakes."""
        return 1.0 - accelerated(target_rate(q, C, p), R)

    @staticmethod
    def source_law(w: float, R: float, s: float) -> float:
        """Equation (3), of the ACKs of a window; R is the share of brakes."""
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
        """Equal windows at each link of most brakes; `fair_rate` is what leaves it, R."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of ABC follow the link of most brakes")
        packets = np.array([8.0 * flow.mean_packet for flow in network.flows])

        def report(u: NDArray[np.float64]) -> Any:
            """cr eta/tr of a link with the load u, or with the wait (u - 1) delta."""
            over = np.maximum(u - 1.0 - self.target_delay / self.delta, 0.0)
            return np.minimum(u, 1.0) / np.maximum(1.0 - over / self.eta, 1e-15)

        point = equilibrium_of_windows(network, self.delta, self.eta, packets, np.inf, "ABC", "", report, 0.0)
        left = np.minimum(point.rates @ network.incidence, network.capacities)
        return replace(point, fair_rate=np.where(np.isfinite(point.fair_rate), left, np.inf), states={})

    def published_bounds(self, network: Network) -> list[Bound]:
        """Yorke's theorem of 1970 for the router's law, of one link, from any start."""
        if network.n_links != 1:
            return []
        least = 2.0 / 3.0 * float(network.rtts.max())
        hypotheses = "one link; additive increase of a constant rate; tau the largest RTT without queue"
        return [Bound("Yorke 1970", "delta", least, "sufficient", "continuous", hypotheses, above=True)]


def target_rate(q: float, C: float, p: Params) -> float:
    """Equation (1), at least 0 [bit/s]."""
    return max(p.eta * C - C / p.delta * max(q / C - p.target_delay, 0.0), 0.0)


def accelerated(tr: float, cr: float) -> float:
    """Equation (2)."""
    return 1.0 if tr >= 2.0 * cr else 0.5 * tr / cr


def counted(link: Any, p: Params, env: LinkEnv) -> float:
    """Count a packet that leaves; return cr [bit/s], from one that left about `measured_over` ago to this one."""
    if is_over(env.now, link.left + p.measured_over):  # nothing has left for so long
        for k in range(PARTS):
            link.sent_by[k] = link.sent
            link.left_by[k] = env.now - p.measured_over
        link.part_end = env.now + p.interval
    for _ in range(PARTS + 1):
        if has_come(env.now, link.part_end):
            link.sent_by[link.oldest] = link.sent
            link.left_by[link.oldest] = link.left
            link.oldest = (link.oldest + 1) % PARTS
            link.part_end += p.interval
    link.sent += env.packet_size
    link.left = env.now
    k = link.oldest
    return 8.0 * (link.sent - link.sent_by[k]) / (env.now - link.left_by[k])  # type: ignore[no-any-return]


def mark(link: Any, header: Any, cr: float, p: Params, env: LinkEnv) -> None:
    """Algorithm 1: say to a packet of the protocol whether to brake."""
    if env.kind == 0 and header.mark != 0:
        tr = target_rate(8.0 * env.queue, env.capacity, p)
        link.tokens = min(link.tokens + accelerated(tr, cr), p.token_limit)
        if header.mark == ACCELERATE:
            if link.tokens > 1.0:
                link.tokens -= 1.0
            else:
                header.mark = BRAKE


def link_on_departure(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Count what leaves, and mark by it."""
    mark(link, header, counted(link, p, env), p, env)


def on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Ask to accelerate."""
    header.mark = ACCELERATE


def on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Equation (3); a flow that its application limits does not accelerate."""
    s = 1.0 * env.packet_size
    opens = windows.opens(flow, env)
    brakes = header.mark == BRAKE and env.acked > 0 and env.recovering == 0 and env.recovered == 0
    if opens or brakes:
        acked = windows.counted(env.acked, s, p)
        w = env.window + s * acked / env.window
        env.window = max(w - acked, s) if brakes else w + acked
