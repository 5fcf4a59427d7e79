"""XCP, the eXplicit Control Protocol (Katabi, Handley, Rohrs 2002; EVAL sec. 2, THESIS II.E.1).

Every mean RTT d, a router divides among flows the change phi of all windows that would fill the link, and moves a part
gamma of the traffic from large flows to small ones:

    phi = alpha d (C - y) - beta q                                          EVAL (1)
    h = max(0, gamma y d - |phi|)                                           shuffled traffic
    x' = [(h + max(phi, 0))/N - (h + max(-phi, 0)) x/y] / d^2               a flow at rate x; the minimum of its path

    y  arrival rate [bit/s]    x  sending rate [bit/s]   alpha  gain on spare capacity
    C  capacity [bit/s]        q  queue [bit]            beta   gain on the queue
    d  mean RTT [s]            N  flows at the link      gamma  share of the traffic that is shuffled

The last line is the sum of per-packet feedback over a flow's packets, as in Low, Andrew and Wydrowski (INFOCOM 2005):
increases are equal and decreases proportional to the rate, for any RTTs. With y < C a flow that is limited elsewhere
wastes its share of the increase, so the others stop at x = (gamma y/N) y/((gamma + alpha) y - alpha C): XCP is max-min
fair on one link, but not in networks, and may leave alpha/(alpha + gamma) of a link as its load.

Packets carry the RTT D, the spacing X = D s/w of the flow's packets and the requested change of rate. Every router on
the path lowers the request to its grant, as in the internet draft (draft-falk-xcp-spec) and in ns-2. A window changes
by D times the feedback, so increases are proportional to D^2 s/w and decreases to D s, as in Katabi et al.:

    feedback = up X / sum(X) - down s / sum(s),   up, down = (h + max(+-phi, 0)) T/d^2

    s  packet size    w  window, in whole packets    sum  over the packets of the last interval

The papers leave open how to treat a grant that the application does not use. Here a window that does not limit its flow
grows up to twice the bytes in flight (as in slow start: draft-ietf-ccwg-ratelimited-increase).

A flow sends T x/s packets per interval, so sum(X) = N T and sum(s) = y T: feedback adds up to x' T. Grants are deducted
from the budget of the interval; if another router of the path grants less, the difference stays in the budget. The
interval T is the mean RTT d, but `least_interval` or more; d is a mean over flows, as each adds T to sum(X). If d is
shorter, the law uses T instead: grants of an interval act for an interval. q is the minimum queue of about the last
half RTT.

With h and the larger of +-phi written out the law is x' = [phi/N - (gamma y d - max(phi, 0)) (x/y - 1/N)]/d^2. As
x = y/N at an equilibrium with y = C, |phi| is of second order there, and the law has a derivative although h has none.
With u_i the rate of a flow of RTT D_i as it reaches the router, paced windows (`clocking="rate"`), and a signed queue,

    u_i'(t) = phi(t - D_i)/(N d^2) - (gamma/d) [u_i(t - D_i) - y(t - D_i)/N],   y = sum u_i,   q' = y - C
    1 + [(alpha - gamma)/d + beta/(d^2 s)] mean(exp(-s D_i)/(s + (gamma/d) exp(-s D_i))) = 0

and, between flows of one RTT D, s + (gamma/d) exp(-s D) = 0: shuffling alone is unstable for D >= pi d/(2 gamma). It
cancels if RTTs are equal or gamma = 0: s^2 + (alpha s/d + beta/d^2) mean(exp(-s D_i)) = 0. The hybrid model adds that
routers measure in an interval and grant in the next. It is stable for smaller gains only: with the defaults and one
flow, it is unstable. Not in these models: ACK-clocked windows, with flows that repeat their departures of one RTT ago,
and a queue that is never negative. With unequal RTTs fluid and packet runs grow in cases in which the continuous model
is stable.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import TIME, as_delay
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.forms import GrantedWindows
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.errors import LinearizationError
from ecc.formats.headers import (
    COMMON,
    MS,
    REVERSE,
    CongestionHeader,
    WireFields,
    constant_field,
    count_field,
    number_field,
    rate_field,
    time_field,
)
from ecc.models.shared import rate_feedback, windows
from ecc.models.shared.equilibria import bottleneck_links, shared_rate
from ecc.network.network import Network

HANDSHAKES = 1.0  # s of spacing among which an interval without spacing (only handshakes) is divided (ns-2)
MIN_QUEUE_INTERVAL = 0.002  # s, minimum time over which the lowest queue is measured (draft-falk-xcp-spec)
ANY = 1e300  # bit/s that a host requests: all available capacity
USED = 2.0  # a window that does not limit its flow grows up to this multiple of the bytes in flight


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    rtt: float = 0.0  # the sender's smoothed RTT [s]; 0 before the first sample: routers grant it nothing
    spacing: float = 0.0  # time between the flow's packets [s]
    feedback: float = 0.0  # change of the sending rate, requested and then granted [bit/s]
    link: int = rate_feedback.NO_LINK  # link with the smallest grant


@dataclass
class LinkState:
    """A router's state at one link."""

    d: float = 0.0  # RTT of the last interval that had samples [s]; before any, the parameter `interval`
    q: float = 0.0  # persistent queue [bit]
    up: float = 0.0  # increase for each second of spacing [bit/s^2]
    down: float = 0.0  # decrease for each byte [bit/s]
    up_left: float = 0.0  # remaining increase of this interval [bit/s]
    down_left: float = 0.0  # remaining decrease of this interval [bit/s]
    arrived: float = 0.0  # bytes since the last control
    spacing: float = 0.0  # sum of the spacings of those packets [s]
    rtt_spacing: float = 0.0  # sum of RTT times spacing [s^2]
    rtt_peak: float = 0.0  # largest RTT of those packets [s]
    lowest: float = 0.0  # minimum queue since the last update of q [bytes]
    opened: float = 0.0  # start of the control interval [s]
    control_due: float = 0.0  # end of the control interval [s]
    queue_due: float = 0.0  # time of the next update of q [s]


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # rate of a flow that is active from the start [bit/s]; 0: it opens with a handshake
    opened: int = 0  # 1 after the first ACK
    packet: float = 0.0  # a packet, the minimum window [bytes]
    recovery: int = 0  # a gap before this offset belongs to a window already halved [bytes]
    bottleneck: int = rate_feedback.NO_LINK  # link with the smallest grant


@dataclass(frozen=True)
class XCP(Protocol):
    """XCP.

    Parameters
    ----------
    alpha : float, > 0
        Gain on spare capacity (EVAL sec. 4: 0.4).
    beta : float, >= 0
        Gain on the queue (EVAL sec. 4: 0.226).
    gamma : float, >= 0
        Share of the traffic that is shuffled per RTT (Katabi et al.: 0.1).
    interval : float, s, > 0
        A router's control interval until it has RTT samples; the linear model does not use it.
    rtt : str
        RTT used as d: "mean" or "max" (JETMAX sec. 3.4 has the maximum instead of the mean).
    rtt_limit : float, s, > 0, or None
        Longer RTTs count as this in d (ns-2: 1 s).
    least_interval, largest_interval : float, s, > 0, or None
        Limits of the control interval, which otherwise is the RTT d (ns-2: 1 ms and none; THESIS VI.A.5: 10 and 500
        ms).
    initial : float, > 0
        Window after the handshake, in packets (ns-2: 2).
    paced : bool
        Whether packets are spread evenly over an RTT; False: windows are sent in bursts.
    transport : str or None
        "newreno", "sack" or None: recovery of lost data; None: no retransmission, but its bytes are owed.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.4
    beta: float = 0.226
    gamma: float = 0.1
    interval: float = 0.05
    rtt: str = "mean"
    rtt_limit: float | None = None
    least_interval: float = 0.001
    largest_interval: float | None = None
    initial: float = 2.0
    paced: bool = False
    transport: str | None = None

    dimensions = {"interval": TIME, "rtt_limit": TIME, "least_interval": TIME, "largest_interval": TIME}

    main_parameter = "alpha"
    run_findings = (
        "fluid, one flow, RTT 100 ms: deviations of 1e-6 decay with beta = 0.226 at alpha up to 1.1 and grow from "
        "1.2, with beta = sqrt(2) alpha^2 up to 0.9 and from 1; no interval above is proven for XCP, but up to the "
        "published bound none grew"
    )
    windowed = True
    rtt_weights = "flows"

    property_exceptions = {"scaling": "flows open with a control packet of 40 bytes, for packets of any size"}
    reference_loop = ReferenceLoop(1e9, (0.05,) * 3, "THESIS fig. 29")

    def __post_init__(self) -> None:
        check_number(self, alpha=None, beta=0.0, gamma=0.0, interval=as_delay, least_interval=as_delay, initial=None)
        for name in ("rtt_limit", "largest_interval"):
            if getattr(self, name) is not None:
                check_number(self, **{name: as_delay})
        if self.largest_interval is not None and self.largest_interval < self.least_interval:
            raise ValueError(
                f"largest_interval must be >= least_interval ({self.least_interval:g} s), got "
                f"{self.largest_interval:g} s"
            )
        check_choice(self, "transport", TRANSPORTS)
        check_choice(self, "rtt", ("mean", "max"))
        check_choice(self, "paced", (True, False))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(x: float, y: float, q: float, N_all: float, C: float, d: float, T: float, p: Params) -> float:
        """EVAL (1) and the fairness controller: the change in T of the rate of a flow at rate x."""
        up, down = shared_out(y, q, C, d, T, p)
        return up / N_all - down * x / y

    @staticmethod
    def source_law(x: float, R: float) -> float:
        """EVAL (2), for a rate and its change or a window and its change."""
        return x + R

    @staticmethod
    def time_to_measure(d: float, p: Params) -> float:
        """The control interval T for a mean RTT d."""
        return min(max(d, p.least_interval), p.largest_interval)

    @staticmethod
    def time_to_look(d: float, q: float, C: float) -> float:
        """The time over which the lowest queue is measured: half an RTT without queues (draft-falk-xcp-spec)."""
        return max((d - q / C) / 2.0, MIN_QUEUE_INTERVAL)

    @property
    def fluid_form(self) -> GrantedWindows:
        return GrantedWindows(self.time_to_measure, self.time_to_look, bool(self.paced), HANDSHAKES)

    @property
    def router_clock(self) -> str:
        return "rtt"

    @property
    def source_clock(self) -> str:
        return "always"

    def params(self) -> dict[str, float]:
        return {
            "alpha": self.alpha,
            "beta": self.beta,
            "gamma": self.gamma,
            "interval": self.interval,
            "use_max": float(self.rtt == "max"),
            "rtt_limit": self.scaling_rtt_limit,
            "least_interval": self.least_interval,
            "largest_interval": inf if self.largest_interval is None else self.largest_interval,
            "initial": self.initial,
            "paced": float(self.paced),
        }

    @property
    def scaling_rtt(self) -> str:
        return self.rtt

    @property
    def scaling_rtt_limit(self) -> float:
        return inf if self.rtt_limit is None else self.rtt_limit

    # ---- hooks -------------------------------------------------------------------------------------------

    opening_size = rate_feedback.PROBE_SIZE
    header_bytes = (20, 20)  # EVAL sec. 3
    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": link_on_start,
            "on_arrival": link_on_arrival,
            "on_departure": link_on_departure,
            "on_interval": link_on_interval,
        }

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_ack": flow_on_ack,
            "on_timer": flow_on_timer,
            "on_loss": flow_on_loss,
        }

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        change = "reverse" if is_ack else "delta"
        return WireFields(XCPHeader, {"rtt": "rtt", "spacing": "spacing", change: "feedback"})

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        return LinkState(d=max_rtt if self.rtt == "max" else mean_rtt)

    def flow_at(self, x: float, R: float, link: int) -> Any:
        return FlowState(x=x, bottleneck=link)

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return -inf, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return constrained max-min rates (Low, Andrew, Wydrowski); max-min fair on one link or with gamma = 0."""
        alpha, gamma = self.alpha, self.gamma
        crossing = network.incidence.sum(axis=0)

        def share(link: int, count: int, others: float) -> float:
            # y - others = count gamma y^2 / (N ((gamma + alpha) y - alpha C)): the larger root of a y^2 - b y + c
            C, N = float(network.capacities[link]), int(crossing[link])
            a = N * alpha + (N - count) * gamma
            b = N * ((gamma + alpha) * others + alpha * C)
            c = N * others * alpha * C
            y = (b + sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
            if y > C * (1.0 + 1e-9):
                raise LinearizationError(f"no equilibrium without a standing queue at link {link}")
            return (y - others) / count

        point = shared_rate(network, share, assignment)
        return Equilibrium(point.rates, np.where(bottleneck_links(point), 0.0, inf), point.bottleneck)

    def published_bounds(self, network: Network) -> list[Bound]:
        """EVAL sec. 2 (Katabi et al.), which is exact in the model with an unconstrained queue."""
        if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
            return []
        hypotheses = "equal RTTs, beta = sqrt(2) alpha^2"
        return [Bound("EVAL sec. 2", "alpha", pi / (4.0 * sqrt(2.0)), "sufficient", "continuous", hypotheses)]


def shared_out(y: float, q: float, C: float, d: float, T: float, p: Params) -> tuple[float, float]:
    """Return the increase and the decrease of the rates of all flows together in T."""
    D = max(d, p.least_interval)  # grants are not repeated sooner
    phi = p.alpha * D * (C - y) - p.beta * q
    h = max(0.0, p.gamma * y * D - abs(phi))
    return T * (h + max(phi, 0.0)) / (D * D), T * (h + max(-phi, 0.0)) / (D * D)


source_law, time_to_measure, time_to_look = XCP.source_law, XCP.time_to_measure, XCP.time_to_look


def link_on_start(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Start the clock."""
    if link.d == 0.0:
        link.d = p.interval
    env.next_interval = p.interval


def link_on_arrival(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet, its spacing and its RTT."""
    link.arrived += env.packet_size
    if env.kind == 0 and header.rtt > 0.0:
        rtt = min(header.rtt, p.rtt_limit)
        link.spacing += header.spacing
        link.rtt_spacing += rtt * header.spacing
        link.rtt_peak = max(link.rtt_peak, rtt)


def link_on_departure(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Lower a packet's request to this router's grant; if it already is lower, keep the rest in the budget."""
    if env.kind == 0 and header.rtt > 0.0:
        up = min(link.up * header.spacing, link.up_left)
        down = min(link.down * env.packet_size, link.down_left)
        feedback = up - down
        if feedback <= header.feedback:
            header.feedback = feedback
            header.link = env.link
        else:
            down = min(down + (feedback - header.feedback), link.down_left)
            up = header.feedback + down
        link.up_left = max(link.up_left - up, 0.0)
        link.down_left = max(link.down_left - down, 0.0)


def link_on_interval(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Update the persistent queue and the grants, each when it is due."""
    link.lowest = min(link.lowest, env.queue_low)
    if env.now >= link.queue_due:
        link.q = 8.0 * link.lowest
        link.lowest = env.queue
        link.queue_due = env.now + time_to_look(link.d, 8.0 * env.queue, env.capacity)
    if env.now >= link.control_due:
        control(link, p, env)
    env.next_interval = min(link.queue_due, link.control_due) - env.now


def control(link: LinkState, p: Params, env: LinkEnv) -> None:
    """Close a control interval and compute the grants of the next one."""
    link.up_left = link.down_left = link.up = link.down = 0.0
    if link.spacing > 0.0:
        link.d = link.rtt_peak if p.use_max > 0.0 else link.rtt_spacing / link.spacing
    T = time_to_measure(link.d, p)
    if link.arrived > 0.0:
        y = 8.0 * link.arrived / (env.now - link.opened)
        link.up_left, link.down_left = shared_out(y, link.q, env.capacity, link.d, T, p)
        link.up = link.up_left / (link.spacing if link.spacing > 0.0 else HANDSHAKES)
        link.down = link.down_left / link.arrived
    link.arrived = link.spacing = link.rtt_spacing = link.rtt_peak = 0.0
    link.opened = env.now
    link.control_due = env.now + T


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Send one small packet as a handshake; a flow started at an equilibrium sends at its rate for an RTT."""
    flow.packet = env.packet_size
    if flow.x > 0.0:
        env.rate = flow.x
    else:
        env.window = env.packet_size


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Request all available capacity; routers lower the request."""
    header.link = rate_feedback.NO_LINK
    header.rtt = env.srtt
    if env.srtt > 0.0 and env.window > 0.0:
        sent = max(env.window // flow.packet, 1.0) * flow.packet  # only whole packets are sent in an RTT
        header.spacing = env.srtt * env.packet_size / sent
        header.feedback = ANY


def flow_on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Change the window by the feedback; the first ACK ends the handshake."""
    if flow.opened == 0:
        flow.opened = 1
        if flow.x > 0.0:
            env.rate = 0.0
            set_window(max(flow.x * env.srtt / 8.0, flow.packet), p, env)
        else:
            env.timer = 0.0  # on_timer sees the size of later packets
    elif header.link != rate_feedback.NO_LINK:
        flow.bottleneck = header.link
        window = max(source_law(env.window, header.feedback * env.srtt / 8.0), flow.packet)
        if env.limited_by == windows.BY_DATA:
            window = min(window, max(env.window, USED * (env.in_flight + env.acked)))
        set_window(window, p, env)


def flow_on_timer(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """End the handshake; bytes in flight are its retransmitted packet if its ACK came after the first timeout."""
    flow.packet = env.packet_size
    set_window(p.initial * env.packet_size + env.in_flight, p, env)


def flow_on_loss(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Respond like TCP: halve the window at a gap, once an RTT; restart from one packet after a timeout."""
    if env.kind == 1 or env.delivered + env.lost > flow.recovery:
        if flow.opened > 0:
            set_window(flow.packet if env.kind == 1 else max(env.window / 2.0, flow.packet), p, env)
        flow.recovery = env.delivered + env.lost + env.in_flight


def set_window(window: float, p: Params, env: FlowEnv) -> None:
    """Set the window, and with `paced` the rate that spreads it over an RTT."""
    env.window = window
    if p.paced > 0.0:
        env.rate = 8.0 * window / env.srtt


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class XCPHeader(CongestionHeader):
    """XCP header, 20 bytes; 12 without reverse data.

    `protocol`: number of the transport above; `version`; `rtt`: the host's estimate [s]; `spacing`: time between its
    packets [s]; `delta`: change of throughput requested, then allowed [bit/s]; `reverse`: `delta` returned by an ACK.
    """

    title = "an XCP header"
    protocol: int = count_field(1, 6, COMMON)
    length: int = constant_field(20)
    version: int = count_field(1, 1, COMMON)
    unused: int = constant_field(0)
    rtt: float = time_field(4, MS)
    spacing: float = number_field(MS, unit="s")
    delta: float = rate_field(low=float("-inf"))
    reverse: float = rate_field(low=float("-inf"), direction=REVERSE)
