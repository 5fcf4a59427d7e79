"""PIQI-RCP, the proportional-integral queue-independent RCP of THESIS sec. IV.D.

The router adds the error of the previous interval, which makes it a PI controller. The source approaches the received
fair rate by an exponentially weighted average plus a term in its last change:

    R(t) = R(t - T) [1 + alpha1 T (gamma C - y(t)) / (gamma C d) + alpha2 T (gamma C - y(t - T)) / (gamma C d)]   (4.14)
    x_i(n) = x_i(n - 1) - tau1 (x_i(n - 1) - R(n - D_i^<-)) + tau2 (R(n - D_i^<-) - R(n - 1 - D_i^<-))            (4.19)

    R  fair rate [bit/s]      y  arrival rate [bit/s]       alpha1, alpha2  gains (alpha sets both)
    C  capacity [bit/s]       gamma  target utilization     tau1, tau2  weights of the source
    T  control interval [s]   x  sending rate [bit/s]       d  mean RTT [s]; D_i^<-  router back to source

Theorems 9, 10, 12 and 13 drop the terms in omega T of (4.19), which requires omega T << tau1 and not just T << D.

`capped=True` also keeps x_i from exceeding R(n - D_i^<-). THESIS has no such equation, but its ns-2 runs behave so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import TIME, as_delay
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.formats.headers import (
    COMMON,
    MS,
    REVERSE,
    CongestionHeader,
    WireFields,
    constant_field,
    count_field,
    rate_field,
    time_field,
)
from ecc.models.qi_rcp import integral_bounds
from ecc.models.shared import rate_feedback
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.network.network import Network


@dataclass(frozen=True)
class PIQIRCP(Protocol):
    """PIQI-RCP.

    Parameters
    ----------
    alpha : float, > 0
        Both gains of the router (THESIS IV.E: 0.5).
    tau1 : float, in (0, 2)
        Weight of the source's average (THESIS IV.E: 0.01).
    tau2 : float, >= 0
        Weight of the last change of the feedback (THESIS IV.E: 0.1).
    interval : float, s, > 0
        Control interval T, for example 0.01.
    gamma : float, > 0
        Target utilization (THESIS IV.E: 0.95).
    update : str
        "interval" (once for each new feedback), "ack" (every ACK: PIQI-RCP-ACK) or "rtt" (once an RTT).
    alpha1, alpha2 : float, > 0, or None
        Gains on the current error and on the previous one; None: `alpha`.
    initial : float, > 0
        Share of capacity announced before the first measurement.
    floor : float, >= 0
        Minimum fair rate and minimum sending rate, in packets per RTT.
    rtt_gain : float, > 0
        Weight of each packet in a router's moving average of RTTs.
    rtt_average : str
        "packet": that moving average. "interval": the means of intervals, averaged over about an RTT.
    capped : bool
        Whether a host never exceeds the last fair rate that it received.
    loss : str
        "keep" or "halve": a host's response to a loss, in addition to the retransmission.
    stamping : str
        "departure" or "arrival": a packet gets the fair rate after the queue or before it.
    transport : str or None
        "newreno", "sack" or None: recovery of lost data; None: no retransmission, but its bytes are owed.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.5
    tau1: float = 0.01
    tau2: float = 0.1
    interval: float = 0.01
    gamma: float = 0.95
    update: str = "interval"
    alpha1: float | None = None
    alpha2: float | None = None
    initial: float = 0.05
    floor: float = 1.0
    rtt_gain: float = 0.02
    rtt_average: str = "packet"
    capped: bool = False
    loss: str = "keep"
    stamping: str = "departure"
    transport: str | None = None

    dimensions = {"interval": TIME}

    main_parameter = "alpha"
    reference_loop = ReferenceLoop(1e9, (0.05,) * 3, "THESIS fig. 29")

    def __post_init__(self) -> None:
        check_number(
            self, alpha=None, tau1=None, tau2=0.0, interval=as_delay, gamma=None, initial=None, floor=0.0, rtt_gain=None
        )
        if not self.tau1 < 2.0:
            raise ValueError(f"tau1 must be > 0 and < 2, got {shown(self.tau1)}")
        for name in ("alpha1", "alpha2"):
            if getattr(self, name) is not None:
                check_number(self, **{name: None})
        check_choice(self, "transport", TRANSPORTS)
        check_choice(self, "update", ("interval", "ack", "rtt"))
        check_choice(self, "rtt_average", rate_feedback.AVERAGES)
        check_choice(self, "capped", (True, False))
        check_choice(self, "loss", ("keep", "halve"))
        check_choice(self, "stamping", ("departure", "arrival"))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, y_prev: float, C: float, d: float, T: float, p: Params) -> float:
        """THESIS (4.14)."""
        return R * (1.0 + T * (p.alpha1 * (p.gamma * C - y) + p.alpha2 * (p.gamma * C - y_prev)) / (p.gamma * C * d))

    @staticmethod
    def source_law(x: float, R: float, R_prev: float, p: Params) -> float:
        """THESIS (4.19); with `capped` limited to R."""
        moved = x - p.tau1 * (x - R) + p.tau2 * (R - R_prev)
        return min(moved, R) if p.capped > 0.0 else moved

    def params(self) -> dict[str, float]:
        return {
            "alpha1": self.alpha if self.alpha1 is None else self.alpha1,
            "alpha2": self.alpha if self.alpha2 is None else self.alpha2,
            "tau1": self.tau1,
            "tau2": self.tau2,
            "interval": self.interval,
            "gamma": self.gamma,
            "initial": self.initial,
            "floor": self.floor,
            "rtt_gain": self.rtt_gain,
            "rtt_rest": 1.0 - self.rtt_gain,
            "capped": float(self.capped),
        }

    @property
    def source_clock(self) -> str:
        return self.update

    reductions = {"4.64": "taylor", "4.75": "static"}

    # ---- hooks -------------------------------------------------------------------------------------------

    opening_size = rate_feedback.PROBE_SIZE
    header_bytes = (24, 24)  # EVAL sec. 3
    Header = rate_feedback.Header
    LinkState = rate_feedback.LinkState
    FlowState = rate_feedback.FlowState
    link_at = staticmethod(rate_feedback.link_at)
    flow_at = staticmethod(rate_feedback.flow_at)

    def link_hooks(self) -> dict[str, Hook]:
        return rate_feedback.link_hooks(
            on_interval if self.rtt_average == "packet" else on_interval_mean, self.stamping, self.rtt_average
        )

    def flow_hooks(self) -> dict[str, Hook]:
        on_ack = {"interval": on_ack_interval, "ack": on_ack_every, "rtt": on_ack_rtt}[self.update]
        return rate_feedback.flow_hooks(on_ack, self.loss)

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        rate, number = ("reverse", "reverse_interval_number") if is_ack else ("rate", "interval_number")
        return WireFields(PIQIRCPHeader, {rate: "rate", number: "stamp", "rtt": "rtt", "router": "link"}, {"router": 1})

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, capacity

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return y = gamma C at every bottleneck: max-min fair rates for capacities gamma C (THESIS (4.77))."""
        return shared_fair_rate(network, self.gamma * network.capacities, assignment)

    def published_bounds(self, network: Network) -> list[Bound]:
        """Theorems 9, 10, 12 and 13 of THESIS (alpha1 = alpha2) for the flows of a single-link network."""
        return integral_bounds(network, self.interval, integral_gain=2.0, theorems=("9", "10", "12", "13"))

    @property
    def linear_refusal(self) -> str | None:
        if self.update == "interval":
            return None
        return f"update must be 'interval' for a linear model, got {shown(self.update)}"


router_law = PIQIRCP.router_law
source_law = PIQIRCP.source_law


def on_interval(link: rate_feedback.LinkState, header: rate_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval and announce the next fair rate."""
    T = env.now - link.opened
    if rate_feedback.close_interval(link, env):
        R = router_law(link.R, link.y, link.y_prev, env.capacity, link.mean_rtt, T, p)
        rate_feedback.announce(link, R, link.mean_rtt, p, env)


def on_interval_mean(link: rate_feedback.LinkState, header: rate_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval and announce the next fair rate, with RTTs averaged by interval."""
    rate_feedback.average_interval(link, env)
    on_interval(link, header, p, env)


def approach(flow: rate_feedback.FlowState, header: rate_feedback.Header, p: Params, env: FlowEnv) -> None:
    """Take one step of the source law towards the fair rate in the header; start at one packet per RTT."""
    minimum = rate_feedback.minimum_rate(p, env)
    heard_before = flow.R if flow.x > 0.0 else header.rate
    x = flow.x if flow.x > 0.0 else minimum
    flow.x = max(source_law(x, header.rate, heard_before, p), minimum)
    rate_feedback.receive(flow, header, env)
    env.rate = flow.x


def on_ack_interval(flow: rate_feedback.FlowState, header: rate_feedback.Header, p: Params, env: FlowEnv) -> None:
    """Step once for each new feedback: another interval, or another bottleneck."""
    if header.link != rate_feedback.NO_LINK and (header.stamp != flow.stamp or header.link != flow.bottleneck):
        approach(flow, header, p, env)


def on_ack_every(flow: rate_feedback.FlowState, header: rate_feedback.Header, p: Params, env: FlowEnv) -> None:
    """Step on every ACK (PIQI-RCP-ACK)."""
    if header.link != rate_feedback.NO_LINK:
        approach(flow, header, p, env)


def on_ack_rtt(flow: rate_feedback.FlowState, header: rate_feedback.Header, p: Params, env: FlowEnv) -> None:
    """Step once an RTT."""
    if header.link != rate_feedback.NO_LINK and (flow.x == 0.0 or env.now - flow.updated >= env.srtt):
        approach(flow, header, p, env)


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class PIQIRCPHeader(CongestionHeader):
    """PIQI-RCP header, 24 bytes; 13 without reverse data.

    `protocol`, `version`, `rate`, `rtt`, `reverse`: as in RCPHeader; `router`: ID of the bottleneck; `interval_number`:
    the control interval in which it announced the rate; `reverse_interval_number`: the one that an ACK returns.
    """

    title = "a PIQI-RCP header"
    protocol: int = count_field(1, 6, COMMON)
    length: int = constant_field(24)
    version: int = count_field(1, 1, COMMON)
    router: int = count_field(1)
    rate: float = rate_field()
    rtt: float = time_field(4, MS)
    reverse: float = rate_field(direction=REVERSE)
    interval_number: int = count_field(4)
    reverse_interval_number: int = count_field(4, direction=REVERSE)
