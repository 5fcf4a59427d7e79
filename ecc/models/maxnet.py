"""MaxNet (Wydrowski and Zukerman 2002; as TCP MaxNet of Suchara, Witt, Wydrowski, ICON 2005: MAXNET; THESIS II.E.2).

A router integrates arrivals above mu C into a price in seconds: the queue that a link of capacity mu C would have. A
source sets its rate by the largest price on its path only:

    P(t + T) = P(t) + (T/C) (y(t) - mu C), >= 0                             MAXNET (1), (2)
    P(t + T) = P(t) + (y(t) - mu C)/(mu C), >= 0, in intervals              THESIS (2.10): form="thesis"
    eta <- eta + (p1/W - p2 P/D) T, on every ACK                            MAXNET fig. 2, THESIS (2.11)
    W <- p3 exp(eta - p4 P/D), limited to +maxIncrement and -maxDecrement   MAXNET fig. 2, THESIS (2.12)

    P  price                  y  arrival rate [bit/s]   p1, p2  gains of the integral (THESIS: beta K, beta)
    W  window [packets]       C  capacity [bit/s]       p3  window at equilibrium without price (W_m)
    D  base RTT [s]           mu  target utilization    p4  gain of the proportional part (alpha/M)
    eta  the integral         T  control interval [s]

At equilibrium all flows of a bottleneck have the rate W/D = p1/(p2 P). This demand function is the same for any RTT, so
MaxNet is max-min fair at loads mu C. Without eta, a source is a rate law of PI type,

    x <- x exp((p1/W - p2 P/D) T n - p4 (P - P_prev)/D), W = x D, n = W T/D ACKs per interval

which linear models use; p3 only sets the start of a flow.

MAXNET leaves some choices open. The `interval` of fig. 2, "integration period", is the router's control interval, added
on every ACK as in THESIS (2.11); the bracket that fig. 2 lost is that of THESIS (2.11).

The units of price and base RTT are scaled integers in MAXNET's kernel. With both in seconds the printed p4 = 15 exceeds
all bounds (a link carries 11 to 32 % of its capacity), so a source multiplies prices by `price_scale`. The default,
0.05, was chosen to reproduce the paper's figures. On its setups the sampled model is stable below 0.129, packet runs up
to 0.06 (RTTs of 57 and 29 ms oscillate at 0.07); at 0.03 the first price arrives too late for the 30 KB buffer. Its
RTTs of 29 and 57 ms belong to links of 14 and 28 ms in each direction: like base RTTs they include a transmission of
1.2 ms. Compared with those, its flows queue for less than 2 ms on average over a minute from the start.

Windows count `segment` bytes, and ACKs the segments that they acknowledge; windows stay above 1. A timeout sets the
window to 1 ("standard TCP"); a gap in the ACKs changes nothing. Prices are nonnegative, as their field has no sign. The
router's clock ticks by itself, while MAXNET's reads the time when it sends a packet; its first tick only starts the
measurement.

Windows are not paced. At an RTT of two intervals bursts may lock to the ticks: rates are then 2 to 4 % off those at
equilibrium, and queues four times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import PER_TIME, SIZE, TIME, Dimension, as_delay, as_size
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.formats.headers import REVERSE, US, CongestionHeader, WireFields, constant_field, time_field
from ecc.laws.elementary import exp, log
from ecc.models.shared import rate_feedback
from ecc.models.shared.equilibria import bottleneck_links, shared_fair_rate
from ecc.network.network import Network


def integral_law(eta: float, W: float, P: float, D: float, T: float, p: Params) -> float:
    """MAXNET fig. 2 and THESIS (2.11): the next integral."""
    return eta + (p.p1 / W - p.p2 * p.scale * P / D) * T


def window_law(eta: float, P: float, D: float, p: Params) -> float:
    """MAXNET fig. 2 and THESIS (2.12): the target window [packets]."""
    return p.p3 * exp(eta - p.p4 * p.scale * P / D)


def integral_of(W: float, P: float, D: float, p: Params) -> float:
    """Return the integral for which the target window is W: the inverse of `window_law`."""
    return log(W / p.p3) + p.p4 * p.scale * P / D


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    price: float = 0.0  # largest price on the path so far
    link: int = rate_feedback.NO_LINK  # link that announced it


@dataclass
class LinkState:
    """A router's state at one link."""

    price: float = 0.0
    arrived: float = 0.0  # bytes since the last tick
    opened: float = 0.0  # start of the current interval [s]
    ticks: int = 0  # intervals closed; 0 until the first tick begins to count


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # rate until the first ACK of a flow started at an equilibrium [bit/s]; 0 for others
    W: float = 0.0  # window [packets]; 0 before the start
    eta: float = 0.0
    bottleneck: int = rate_feedback.NO_LINK  # link of the last price


@dataclass(frozen=True)
class MaxNet(Protocol):
    """MaxNet.

    Parameters
    ----------
    p1 : float, packets/s, > 0
        Gain of the integral on 1/W (MAXNET sec. IV: 6).
    p2 : float, 1/s, > 0
        Gain of the integral on the price (MAXNET sec. IV: 1).
    p3 : float, > 0, packets
        Initial window (MAXNET sec. IV: 2).
    p4 : float, > 0
        Gain of the proportional part (MAXNET sec. IV: 15).
    mu : float, > 0
        Target utilization (MAXNET sec. IV: 0.96).
    interval : float, s, > 0
        Control interval of routers, and period of integration at an ACK (MAXNET sec. IV: 10,000 in microseconds).
    max_increment, max_decrement : float, packets, > 0
        Maximum steps of the window per ACK (MAXNET sec. IV: 2 and 20).
    form : str
        "maxnet" (prices in seconds) or "thesis" (in intervals, normalized by mu C).
    price_scale : float, > 0, or None
        Factor of sources on prices. None: 0.05, or 0.05 mu interval for form="thesis", which gives the same loop.
    segment : int, bytes, > 0
        Unit of windows, for example 1500.
    transport : str or None
        "newreno", "sack" or None: recovery of lost data; None: no retransmission, but its bytes are owed.
    min_rto : float, s, > 0
        Minimum retransmission timeout of a transport.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    p1: float = 6.0
    p2: float = 1.0
    p3: float = 2.0
    p4: float = 15.0
    mu: float = 0.96
    interval: float = 0.01
    max_increment: float = 2.0
    max_decrement: float = 20.0
    form: str = "maxnet"
    price_scale: float | None = None
    segment: int = 1500
    transport: str | None = None
    min_rto: float = 1.0

    operating_range = OperatingRange(convergence=400.0)
    reference_loop = ReferenceLoop(10e6, (0.028,) * 4, "MAXNET fig. 7")

    @property
    def dimensions(self) -> dict[str, Dimension]:  # type: ignore[override]
        scale = {"price_scale": TIME} if self.form == "thesis" else {}
        return {"p1": PER_TIME, "p2": PER_TIME, "interval": TIME, "segment": SIZE, "min_rto": TIME, **scale}

    combine = "max"
    main_parameter = "p4"

    def __post_init__(self) -> None:
        positive = ("p1", "p2", "p3", "p4", "mu", "max_increment", "max_decrement")
        check_number(self, **dict.fromkeys(positive), interval=as_delay, min_rto=as_delay)
        check_choice(self, "transport", TRANSPORTS)
        check_choice(self, "form", ("maxnet", "thesis"))
        if self.price_scale is not None:
            check_number(self, price_scale=None)
        object.__setattr__(self, "segment", as_size(self.segment, "segment"))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, C: float, T: float, p: Params) -> float:
        """MAXNET (1) and (2), or THESIS (2.10): the next price."""
        return max(R + (p.per_second * T + p.per_tick) * (y - p.mu * C) / C, 0.0)

    @staticmethod
    def source_law(x: float, R: float, R_prev: float, D: float, T: float, p: Params) -> float:
        """The ACKs of an interval taken together, as a rate law."""
        W = x * D / p.segment_bits
        eta = integral_law(integral_of(W, R_prev, D, p), W, R, D, T * W * T / D, p)
        return window_law(eta, R, D, p) * p.segment_bits / D

    @property
    def source_clock(self) -> str:
        return "always"

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        return np.maximum(max(self.p3, 1.0) * 8.0 * self.segment, packet) / rtt

    def params(self) -> dict[str, float]:
        ticks = self.form == "thesis"
        scale = 0.05 * (self.mu * self.interval if ticks else 1.0) if self.price_scale is None else self.price_scale
        return {
            "p1": self.p1,
            "p2": self.p2,
            "p3": self.p3,
            "p4": self.p4,
            "mu": self.mu,
            "interval": self.interval,
            "max_increment": self.max_increment,
            "max_decrement": self.max_decrement,
            "per_second": float(not ticks),
            "per_tick": 1.0 / self.mu if ticks else 0.0,
            "scale": scale,
            "segment_bits": 8.0 * self.segment,
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    header_bytes = (8, 8)  # MAXNET fig. 3
    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        return WireFields(MaxNetOption, {"echo" if is_ack else "price": "price"})

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        return LinkState(price=R)

    def flow_at(self, x: float, R: float, link: int) -> Any:
        return FlowState(x=x, bottleneck=link)

    def link_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": link_on_start,
            "on_arrival": link_on_arrival,
            "on_departure": link_on_departure,
            "on_interval": link_on_interval,
        }

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": flow_on_send, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return y = mu C at every bottleneck: max-min fair rates; the price P makes p1/(p2 P) the share."""
        p = self.namespace()
        point = shared_fair_rate(network, self.mu * network.capacities, assignment)
        price = np.where(bottleneck_links(point), p.p1 * p.segment_bits / (p.p2 * p.scale * point.fair_rate), inf)
        return Equilibrium(point.rates, price, point.bottleneck)

    def published_bounds(self, network: Network) -> list[Bound]:
        """Paganini, Wang, Doyle, Low 2005, the origin of MAXNET's source law: a gain alpha < pi/2."""
        p = self.namespace()
        gain = p.scale * p.mu * (p.per_second + p.per_tick / p.interval)
        hypotheses = "no integral (p1 and p2 near 0), intervals far below the RTT"
        return [Bound("Paganini et al. 2005", "p4", pi / (2.0 * gain), "sufficient", "continuous", hypotheses)]


router_law = MaxNet.router_law


def link_on_start(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Start the clock."""
    env.next_interval = p.interval


def link_on_arrival(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet."""
    link.arrived += env.packet_size


def link_on_departure(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Mark a packet with the price if that is the largest so far."""
    if env.kind == 0 and link.price > header.price:
        header.price = link.price
        header.link = env.link


def link_on_interval(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Integrate the excess load over the time since the last tick."""
    if link.ticks > 0:
        T = env.now - link.opened
        link.price = router_law(link.price, 8.0 * link.arrived / T, env.capacity, T, p)
    link.arrived = 0.0
    link.opened = env.now
    link.ticks += 1


def set_window(flow: FlowState, W: float, p: Params, env: FlowEnv) -> None:
    """Set a window of one segment or more, and of one packet or more, or nothing would be sent."""
    flow.W = max(W, 1.0)
    env.window = max(flow.W * p.segment_bits / 8.0, env.packet_size)


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Start with the window for price 0; a flow started at an equilibrium sends at its rate for an RTT."""
    if flow.x > 0.0:
        env.rate = flow.x
    else:
        set_window(flow, window_law(flow.eta, 0.0, 1.0, p), p, env)


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Initialize the header: no price yet."""
    header.link = rate_feedback.NO_LINK


def flow_on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Move the window towards the target window for the price in this ACK."""
    D = env.min_rtt
    flow.bottleneck = header.link
    if flow.W == 0.0:
        env.rate = 0.0
        flow.W = flow.x * D / p.segment_bits
        flow.eta = integral_of(flow.W, header.price, D, p)
    T = p.interval * 8.0 * env.acked / p.segment_bits  # MAXNET integrates once per segment acknowledged
    flow.eta = min(integral_law(flow.eta, flow.W, header.price, D, T, p), LARGEST)
    aim = window_law(flow.eta, header.price, D, p)
    set_window(flow, max(min(aim, flow.W + p.max_increment), flow.W - p.max_decrement), p, env)


def flow_on_loss(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Restart with one packet after a timeout; other losses change nothing."""
    if env.kind == 1:
        set_window(flow, 1.0, p, env)


LARGEST = 500.0  # limit of the integral, below the overflow of its exponential


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class MaxNetOption(CongestionHeader):
    """MaxNet's TCP option, 8 bytes: option 42, then the length of the rest; in packets the total length, as in TCP.

    `echo`: the price that an ACK returns [s]; `price`: largest on the path so far [s].
    """

    title = "a MaxNet option"
    place = "option"
    option: int = constant_field(42)
    length: int = constant_field(6)
    echo: float = time_field(3, US, REVERSE)
    price: float = time_field(3, US)
