"""JetMax (Zhang, Leonard, Loguinov, Computer Networks 52, 2008; JETMAX sec. 5-6).

A link divides the part of its target that unresponsive flows leave among the flows bottlenecked there. A flow
approaches that share by an average over RTTs, once the links of its path have approved the rate that it proposes:

    g_l(n) = (gamma C_l - u_l(n)) / N_l                                     JETMAX (8), (25)
    p_l(n) = 1 - gamma C_l / y_l(n), clipped at 0                           JETMAX (10), (25)
    x_r(n) = (1 - tau) x_r(n - D_r) + tau g_l(n - D_r^<-)                   JETMAX (9)
    N_l    = sum over packets of those flows of s/x, divided by Delta         JETMAX (23)

    g  fair rate [bit/s]       u  proposed by flows bottlenecked elsewhere [bit/s]      tau    gain
    C  capacity [bit/s]        y  proposed by all flows [bit/s]   p  virtual loss         gamma  target utilization
    x  sending rate [bit/s]    N  flows bottlenecked there      s  packet size          Delta  control interval
    D_r  RTT, D_r^<- router back to source [control intervals]

A flow is bottlenecked at the link with the largest p, or, if no link has a loss, at the one with the smallest g (11).
In the second case it switches only once it is near the fair rate of its current bottleneck. (18) should read x_r(n) =
(1 - tau) x_r(n - D_r) + tau x_r^*.

Header (JETMAX sec. 6): R_T counts the hops to the router of the flow's bottleneck, R_C those to the current router, R_S
those to the router that suggests itself; a packet is responsive if R_C = R_T. Its virtual size (24) proposes a rate. An
ACK counts if its packet was sent after the last change of router or rate. Of these ACKs, the first one with new
feedback of the router is ignored, since the change happened in the middle of that interval (6.3, 6.5): a step takes RTT
+ (1 + k) Delta, 0 <= k < 1.

The paper leaves some choices open. Its header has no interval number to recognize duplicates by; here R_T's router
stamps one. `tolerance` is its epsilon: virtual loss up to it counts as zero, since an interval counts whole packets,
and a flow within it of its fair rate is near. It determines how soon a proposal that just fits is approved, and how far
it may overshoot. A refused proposal is repeated from the current rate, also after a switch of router.

Before its first approval, and as its minimum rate, a flow sends `floor` packets per interval: routers could not count
it otherwise, and with fewer packets N is coarser. Newcomers add these packets to a link that may already be full. No
packets are lost, but over a second the load in T1 to T5 exceeds the capacity by 0.7 to 1.8 %, `tolerance` included, and
by nothing with gamma = 0.97. A link that is not the bottleneck of any flow announces gamma C, or 0 if overloaded. ACKs
on reverse links are unresponsive. A lost packet does not slow its flow. A flow that another link would limit, but that
is not near its fair rate yet, steps towards that of the other link.

With the choice by virtual loss, bottlenecks change smoothly, but proposals count: a neighbor's refused proposal can
drive flows away from the link that limits them. Such flows may switch back and forth permanently, and a flow that they
crowd out may stay at its minimum rate. With the choice by fair rate (THESIS ch. VII) flows switch more often, and
converge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import RATE, SIZE, TIME, as_delay, as_rate, as_size
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.forms import SteppedRates
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.formats.headers import (
    COMMON,
    FORWARD,
    MS,
    REVERSE,
    CongestionHeader,
    WireFields,
    constant_field,
    count_field,
    number_field,
    rate_field,
)
from ecc.models.shared.equilibria import crosses_several, shared_fair_rate
from ecc.network.network import Network

NO_ROUTER = 0  # hops are counted from 1
NO_LINK = -1
ANY_RATE = 1e300  # bit/s, above any fair rate


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK (JETMAX sec. 6.6)."""

    R_T: int = NO_ROUTER  # hops to the router of the flow's bottleneck
    R_C: int = 0  # hops so far
    R_S: int = NO_ROUTER  # hops to the router that suggests itself
    sequence: int = 0  # number of the sender's last change of router or rate
    stamp: int = 0  # interval of the router at R_T
    link: int = NO_LINK  # link of the router at R_S
    assigned: int = NO_LINK  # the only link that may write feedback; NO_LINK: any
    loss: float = 0.0  # largest virtual loss of the path
    rate: float = 0.0  # fair rate of the router at R_S [bit/s]
    size: float = 0.0  # virtual size, which proposes a rate [bytes]
    gap: float = 0.0  # time to the flow's next packet [s]
    desired: float = 0.0  # maximum rate that the flow can use [bit/s]


@dataclass
class LinkState:
    """A router's state at one link."""

    g: float = 0.0  # announced fair rate [bit/s]
    loss: float = 0.0  # announced virtual loss
    N: float = 0.0  # number of flows bottlenecked here, in the last interval
    responsive: float = 0.0  # volume proposed by flows bottlenecked here since the last tick [bytes]
    unresponsive: float = 0.0  # volume proposed by other flows since the last tick [bytes]
    gaps: float = 0.0  # sum of the gaps of responsive packets since the last tick [s]
    opened: float = 0.0  # start of the current interval [s]
    ticks: int = 0  # intervals closed; 0 until the first tick begins to count


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]
    proposed: float = 0.0  # rate proposed to the routers [bit/s]
    g: float = 0.0  # fair rate of the last step [bit/s]
    R_T: int = NO_ROUTER
    bottleneck: int = NO_LINK  # link of the router at R_T
    sequence: int = 0  # number of changes of router or rate so far
    first: int = -1  # interval in which the first packet since the last change met the router; -1: not known yet
    wait: int = 0  # number of intervals with ignored feedback
    assigned: int = NO_LINK  # the only link to take feedback from; NO_LINK: any


@dataclass(frozen=True)
class JetMax(Protocol):
    """JetMax.

    Parameters
    ----------
    tau : float, > 0
        Weight of the fair rate in the source's average (JETMAX sec. 5.4: 0.6).
    interval : float, s, > 0
        Control interval Delta (JETMAX sec. 6.1, THESIS VI.A.5: 100 ms).
    gamma : float, > 0
        Target utilization (JETMAX sec. 7: 1).
    switching : str
        "managed" (the first feedback after a change is ignored, sec. 6.3) or "naive" (it is used, 6.2).
    proposed_rate : bool
        Whether higher rates wait for approval (JETMAX sec. 6.4).
    bottleneck : str
        Choice of a flow's bottleneck: "loss", the link with the largest virtual loss (JETMAX sec. 5.1), or "rate", the
        link with the smallest fair rate (THESIS ch. VII).
    tolerance : float, >= 0
        Virtual loss that counts as zero, and relative distance from the fair rate that counts as near.
    floor : float, > 0
        Minimum sending rate, in packets per interval.
    mice : str
        Treatment of short flows (THESIS VI.B). "responsive": like all others. "unresponsive": they send at `basic_rate`
        until `mouse_size` is delivered. "desired_rate": flows of finite size request only the rate that delivers them
        in one RTT, and are unresponsive if it is below the fair rate.
    mouse_size : int, bytes, > 0
        Volume delivered at the basic rate, for example 1 MB.
    basic_rate : float, bit/s, > 0
        Rate of short flows with mice="unresponsive", for example 10 Mb/s.
    transport : str or None
        "newreno", "sack" or None: recovery of lost data; None: no retransmission, but its bytes are owed.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    tau: float = 0.6
    interval: float = 0.1
    gamma: float = 1.0
    switching: str = "managed"
    proposed_rate: bool = True
    bottleneck: str = "loss"
    tolerance: float = 0.01
    floor: float = 1.0
    mice: str = "responsive"
    mouse_size: int = 1_000_000
    basic_rate: float = 10e6
    transport: str | None = None

    dimensions = {"interval": TIME, "mouse_size": SIZE, "basic_rate": RATE}

    stamping = "arrival"
    main_parameter = "tau"
    header_bytes = (32, 32)  # EVAL sec. 3
    reference_loop = ReferenceLoop(1e9, (0.05,) * 3, "THESIS fig. 29")

    def __post_init__(self) -> None:
        check_number(self, tau=None, interval=as_delay, gamma=None, tolerance=0.0, floor=None)
        check_choice(self, "transport", TRANSPORTS)
        check_choice(self, "switching", ("naive", "managed"))
        check_choice(self, "proposed_rate", (True, False))
        check_choice(self, "bottleneck", ("loss", "rate"))
        check_choice(self, "mice", ("responsive", "unresponsive", "desired_rate"))
        object.__setattr__(self, "mouse_size", as_size(self.mouse_size, "mouse_size"))
        object.__setattr__(self, "basic_rate", as_rate(self.basic_rate, "basic_rate"))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(u: float, N: float, C: float, p: Params) -> float:
        """JETMAX (8), (25)."""
        return (p.gamma * C - u) / N

    @staticmethod
    def virtual_loss(y: float, C: float, p: Params) -> float:
        """JETMAX (10), (25): the virtual loss; 0 up to the tolerance."""
        loss = 1.0 - p.gamma * C / max(y, p.gamma * C)
        return loss if loss > p.tolerance else 0.0

    @staticmethod
    def source_law(x_rtt: float, R: float, p: Params) -> float:
        """JETMAX (9)."""
        return (1.0 - p.tau) * x_rtt + p.tau * R

    @property
    def priority_law(self) -> Callable[..., float] | None:
        return self.virtual_loss if self.bottleneck == "loss" else None

    @property
    def fluid_form(self) -> SteppedRates:
        p = self.params()
        return SteppedRates(
            waits=(int(p["wait_router"]), int(p["wait_rate"])),
            needs_approval=self.proposed_rate,
            near=self.tolerance,
            refusal_law=self.virtual_loss,
            opening_rate=p["basic_rate"],
            opening_bytes=p["mouse_size"],
            limits_requests=p["desires"] > 0.0,
        )

    def params(self) -> dict[str, float]:
        managed, unresponsive = self.switching == "managed", self.mice == "unresponsive"
        return {
            "tau": self.tau,
            "interval": self.interval,
            "gamma": self.gamma,
            "tolerance": self.tolerance,
            "floor": self.floor,
            "by_rate": float(self.bottleneck == "rate"),
            "proposes": float(self.proposed_rate),
            "wait_router": float(managed),
            "wait_rate": float(managed and self.proposed_rate),
            "mouse_size": float(self.mouse_size) if unresponsive else 0.0,
            "basic_rate": self.basic_rate if unresponsive else 0.0,
            "desires": float(self.mice == "desired_rate"),
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        on_arrival = {"loss": on_arrival_loss, "rate": on_arrival_rate}[self.bottleneck]
        return {"on_start": link_on_start, "on_arrival": on_arrival, "on_interval": on_interval}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": on_send, "on_ack": on_ack}

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        to = "reverse_" if is_ack else ""
        of = {
            "bottleneck": "R_T",
            "hop": "R_C",
            f"{to}suggested": "R_S",
            f"{to}loss": "loss",
            f"{to}rate": "rate",
            "proposed_size": "size",
            "spacing": "gap",
        }
        return WireFields(JetMaxHeader, of)

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        """Return the state of a router in steady state."""
        return LinkState(g=R)

    def flow_at(self, x: float, R: float, link: int) -> Any:
        """Return the state of a host in steady state; the hops to its router are learned from the first ACK."""
        return FlowState(x=x, proposed=x, g=R, bottleneck=link)

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, self.gamma * capacity

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """JETMAX Lemma 3, Theorem 3: g = (gamma C - u)/N, max-min fair rates for capacities gamma C."""
        point = shared_fair_rate(network, self.gamma * network.capacities, assignment)
        counts_refused = self.bottleneck == "loss" and self.proposed_rate
        return replace(point, notes=(REFUSED,) if counts_refused and crosses_several(network, point) else ())

    def published_bounds(self, network: Network) -> list[Bound]:
        """JETMAX Theorem 2, and the condition of sec. 5.4 for monotone convergence."""
        exact, assigned = "necessary and sufficient", "any delays, a consistent assignment that does not change"
        return [
            Bound("JETMAX Theorem 2", "tau", 2.0, exact, "discrete", assigned),
            Bound("JETMAX sec. 5.4", "tau", 1.0, exact, "discrete", assigned, "converges monotonically"),
        ]


REFUSED = (
    "flows choose the largest virtual loss, which counts refused proposals: a run may not reach this assignment, "
    "and may leave a flow at its minimum rate permanently (bottleneck='rate' does not count them)"
)

router_law, virtual_loss, source_law = JetMax.router_law, JetMax.virtual_loss, JetMax.source_law


def link_on_start(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Announce the whole target until the first full interval has been counted."""
    if link.g == 0.0:
        link.g = router_law(0.0, 1.0, env.capacity, p)
    env.next_interval = p.interval


def count(link: LinkState, header: Header, env: LinkEnv) -> None:
    """Add a packet's proposal to the counter of flows bottlenecked here, or to that of others (sec. 6.1, 6.2, 6.4)."""
    if env.kind != 0 or header.size == 0.0:  # an ACK, or a packet of another protocol
        link.unresponsive += env.packet_size
        return
    header.R_C += 1
    if header.R_C == header.R_T:
        header.stamp = link.ticks
    if header.R_C == header.R_T and header.desired >= link.g:
        link.responsive += header.size
        link.gaps += header.gap
    else:
        link.unresponsive += header.size


def answers(header: Header, env: LinkEnv) -> bool:
    """Return whether this router may give feedback: to data of JetMax, unless it is reserved for another router."""
    return bool(env.kind == 0 and header.size > 0.0 and (header.assigned == NO_LINK or header.assigned == env.link))


def suggest(link: LinkState, header: Header, env: LinkEnv) -> None:
    """Suggest this router and its fair rate as the flow's bottleneck."""
    header.rate = min(link.g, header.desired)
    header.R_S = header.R_C
    header.link = env.link


def on_arrival_loss(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet, and suggest this router if its virtual loss is the largest so far (sec. 6.2)."""
    count(link, header, env)
    if answers(header, env):
        if link.loss > header.loss or (link.loss == 0.0 and header.loss == 0.0 and link.g < header.rate):
            suggest(link, header, env)
        header.loss = max(header.loss, link.loss)


def on_arrival_rate(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet, and suggest this router if its fair rate is the smallest so far (THESIS ch. VII)."""
    count(link, header, env)
    if answers(header, env):
        if link.g < header.rate:
            suggest(link, header, env)
        header.loss = max(header.loss, link.loss)


def on_interval(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Announce fair rate and virtual loss of the interval; the first tick only starts the measurement."""
    if link.ticks > 0:
        duration = env.now - link.opened
        u = 8.0 * link.unresponsive / duration
        link.loss = virtual_loss(u + 8.0 * link.responsive / duration, env.capacity, p)
        link.N = link.gaps / duration
        if link.N > 0.0:
            link.g = max(0.0, router_law(u, link.N, env.capacity, p))
        else:
            link.g = 0.0 if link.loss > 0.0 else router_law(0.0, 1.0, env.capacity, p)
    link.responsive = 0.0
    link.unresponsive = 0.0
    link.gaps = 0.0
    link.opened = env.now
    link.ticks += 1


def minimum_rate(p: Params, env: FlowEnv) -> float:
    """Return `floor` packets per interval: with fewer, routers could not count the flow."""
    minimum: float = p.floor * 8.0 * env.packet_size / p.interval
    return minimum


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Start at the minimum rate, or the basic rate of mice; a flow started at an equilibrium sends at its rate."""
    if flow.x == 0.0:
        flow.x = max(p.basic_rate, minimum_rate(p, env))
        flow.proposed = flow.x
    env.rate = flow.x


def on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Fill the header (sec. 6.1, 6.2, 6.4)."""
    header.R_T = flow.R_T
    header.sequence = flow.sequence
    header.link = NO_LINK
    header.assigned = flow.assigned
    header.rate = ANY_RATE
    size = env.packet_size + env.header_bytes
    header.size = size * flow.proposed / flow.x
    header.gap = 8.0 * size / flow.x
    header.desired = ANY_RATE
    if p.desires != 0.0 and env.size >= 0 and env.min_rtt > 0.0:
        header.desired = 8.0 * env.size / env.min_rtt


def change(flow: FlowState, wait: float) -> None:
    """Discard feedback from before a change of router or rate."""
    flow.sequence += 1
    flow.first = -1
    flow.wait = int(wait)


def switch_router(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Switch to the suggested router; with the choice by fair rate, step towards a lower one at once."""
    flow.R_T = header.R_S
    flow.bottleneck = header.link
    flow.g = header.rate
    if p.by_rate != 0.0 and flow.g < flow.x:
        flow.x = max(source_law(flow.x, flow.g, p), minimum_rate(p, env))
    flow.proposed = flow.x
    change(flow, p.wait_router)
    env.rate = flow.x


def step(flow: FlowState, approved: bool, p: Params, env: FlowEnv) -> None:
    """Adopt an approved rate, and propose the next one; a lower rate needs no approval (sec. 6.4)."""
    if approved:
        flow.x = flow.proposed
    flow.proposed = max(source_law(flow.x, flow.g, p), minimum_rate(p, env))
    if p.proposes == 0.0 or flow.proposed < flow.x:
        flow.x = flow.proposed
    change(flow, p.wait_rate)
    env.rate = flow.x


def on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Follow the most congested router, and step once per change that it has measured for a full interval."""
    if header.sequence != flow.sequence or header.R_S == NO_ROUTER or env.delivered < p.mouse_size:
        return
    if flow.R_T == NO_ROUTER:
        switch_router(flow, header, p, env)
        return
    if flow.first < 0:
        flow.first = header.stamp
    if header.stamp <= flow.first + flow.wait:
        return
    converged = abs(flow.x - flow.g) <= p.tolerance * flow.g
    if header.R_S != flow.R_T and (converged or header.loss > 0.0 or p.by_rate != 0.0):
        switch_router(flow, header, p, env)
        return
    flow.g = header.rate
    step(flow, header.loss == 0.0, p, env)


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class JetMaxHeader(CongestionHeader):
    """JetMax header, 32 bytes; 20 without reverse data.

    `protocol`, `version`: as in XCPHeader; `bottleneck` (R_T), `hop` (R_C), `suggested` (R_S), `reverse_suggested`
    (RS_F): router IDs, counted in hops; `loss`: largest virtual loss so far; `rate`: fair rate [bit/s];
    `proposed_size` [bytes]; `spacing`: time between packets [s]; `reverse_loss`, `reverse_rate`: returned by an ACK.
    """

    title = "a JetMax header"
    protocol: int = count_field(1, 6, COMMON)
    length: int = constant_field(32)
    version: int = count_field(1, 1, COMMON)
    unused: int = constant_field(0, FORWARD)
    bottleneck: int = count_field(1)
    hop: int = count_field(1)
    suggested: int = count_field(1)
    reverse_suggested: int = count_field(1, direction=REVERSE)
    loss: float = number_field(high=1.0)
    rate: float = rate_field()
    proposed_size: float = number_field(unit="bytes")
    spacing: float = number_field(MS, unit="s")
    reverse_loss: float = number_field(high=1.0, direction=REVERSE)
    reverse_rate: float = rate_field(direction=REVERSE)


@check_arguments
@dataclass(frozen=True)
class JetMaxTransportHeader(CongestionHeader):
    """Header of JetMax's own transport, JETMAX sec. 6.6, 28 bytes.

    `source_port`, `destination_port`, `flags`, `sequence`: of the transport; `bottleneck`, `hop`, `suggested`, `loss`,
    `rate`, `proposed_size`, `spacing`: as in JetMaxHeader.
    """

    title = "a JetMax transport header"
    place = ""
    source_port: int = count_field(2, direction=COMMON)
    destination_port: int = count_field(2, direction=COMMON)
    flags: int = count_field(1, direction=COMMON)
    bottleneck: int = count_field(1)
    hop: int = count_field(1)
    suggested: int = count_field(1)
    sequence: int = count_field(4, direction=COMMON)
    loss: float = number_field(high=1.0)
    rate: float = rate_field()
    proposed_size: float = number_field(unit="bytes")
    spacing: float = number_field(MS, unit="s")
