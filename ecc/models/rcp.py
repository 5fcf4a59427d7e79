"""RCP, the Rate Control Protocol (Dukkipati et al., IWQoS 2005), as analyzed by THESIS ch. III and JETMAX sec. 2.

Each link announces one fair rate R to all flows; a flow sends at the smallest rate on its path:

    R(t) = R(t - T) [1 + T (alpha (C - y(t)) - beta q(t)/d) / (d C)]        THESIS (2.16), (3.1)
    x_i(t) = R(t - D_i^<-)                                                  THESIS (3.4)

    R  fair rate [bit/s]      y  arrival rate [bit/s]       alpha, beta  gains
    C  capacity [bit/s]       q  queue [bit]                d  mean RTT of the link's traffic [s]
    T  control interval [s]   x  sending rate [bit/s]       D_i^<-  delay from router back to source [s]

JETMAX (1) and EVAL (5) print the queue term with the wrong sign, and THESIS (3.3) lost a bracket. Variants:
`queue_term=False` is RCP-1 (3.2); `rtt="max"` is RCP-2 (3.3), with the largest RTT instead of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import TIME, as_delay
from ecc.contract.choices import TRANSPORTS
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium
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
from ecc.models.shared import rate_feedback
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.network.network import Network


@dataclass(frozen=True)
class RCP(Protocol):
    """RCP and its variants RCP-1 and RCP-2.

    Parameters
    ----------
    alpha : float, > 0
        Gain on spare capacity (JETMAX sec. 3.3: 0.4; THESIS IV.E 0.5, VI 0.1).
    beta : float, >= 0
        Gain on the queue (1.0 in all these sources).
    interval : float, s, > 0
        Control interval T, for example 0.01; a router with a shorter mean RTT d uses d instead (JETMAX sec. 3.8).
    queue_term : bool
        False omits the queue (RCP-1).
    rtt : str
        RTT used as d: "mean", or "max" (RCP-2).
    initial : float, > 0
        Share of capacity announced before the first measurement.
    floor : float, >= 0
        Minimum fair rate and minimum sending rate, in packets per RTT.
    rtt_gain : float, > 0
        Weight of each packet in a router's moving average of RTTs.
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

    alpha: float = 0.4
    beta: float = 1.0
    interval: float = 0.01
    queue_term: bool = True
    rtt: str = "mean"
    initial: float = 0.05
    floor: float = 1.0
    rtt_gain: float = 0.02
    loss: str = "keep"
    stamping: str = "departure"
    transport: str | None = None

    dimensions = {"interval": TIME}

    main_parameter = "alpha"
    reference_loop = ReferenceLoop(1e9, (0.05,) * 3, "THESIS fig. 29")

    def __post_init__(self) -> None:
        check_number(self, alpha=None, beta=0.0, interval=as_delay, initial=None, floor=0.0, rtt_gain=None)
        check_choice(self, "transport", TRANSPORTS)
        check_choice(self, "queue_term", (True, False))
        check_choice(self, "rtt", ("mean", "max"))
        check_choice(self, "loss", ("keep", "halve"))
        check_choice(self, "stamping", ("departure", "arrival"))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, q: float, C: float, d: float, T: float, p: Params) -> float:
        """THESIS (2.16), (3.1); (3.2) with beta = 0; (3.3) with d the maximum RTT."""
        return R * (1.0 + T * (p.alpha * (C - y) - p.beta * q / d) / (d * C))

    @staticmethod
    def source_law(R: float) -> float:
        """THESIS (3.4)."""
        return R

    def params(self) -> dict[str, float]:
        return {
            "alpha": self.alpha,
            "beta": self.beta if self.queue_term else 0.0,
            "interval": self.interval,
            "use_max": float(self.rtt == "max"),
            "initial": self.initial,
            "floor": self.floor,
            "rtt_gain": self.rtt_gain,
            "rtt_rest": 1.0 - self.rtt_gain,
        }

    @property
    def scaling_rtt(self) -> str:
        return self.rtt

    # ---- hooks -------------------------------------------------------------------------------------------

    opening_size = rate_feedback.PROBE_SIZE
    header_bytes = (16, 16)  # EVAL sec. 3
    Header = rate_feedback.Header
    LinkState = rate_feedback.LinkState
    FlowState = rate_feedback.FlowState
    link_at = staticmethod(rate_feedback.link_at)
    flow_at = staticmethod(rate_feedback.flow_at)

    def link_hooks(self) -> dict[str, Hook]:
        return rate_feedback.link_hooks(on_interval, self.stamping)

    def flow_hooks(self) -> dict[str, Hook]:
        return rate_feedback.flow_hooks(rate_feedback.adopt_rate, self.loss)

    @staticmethod
    def wire_fields(is_ack: bool) -> WireFields:
        return WireFields(RCPHeader, {"rtt": "rtt", "reverse" if is_ack else "rate": "rate"})

    # ---- equilibrium -------------------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, capacity

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return y = C and q = 0 (with the queue term) at every bottleneck: max-min fair rates."""
        return shared_fair_rate(network, network.capacities, assignment)


router_law = RCP.router_law


def on_interval(link: rate_feedback.LinkState, header: rate_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval and announce the next fair rate."""
    T = env.now - link.opened
    if rate_feedback.close_interval(link, env):
        d = link.max_rtt if p.use_max > 0.0 else link.mean_rtt
        R = router_law(link.R, link.y, 8.0 * env.queue, env.capacity, d, T, p)
        rate_feedback.announce(link, R, d, p, env)
        env.next_interval = min(p.interval, d)


# ---- on the wire -----------------------------------------------------------------------------------------------------


@check_arguments
@dataclass(frozen=True)
class RCPHeader(CongestionHeader):
    """RCP header, 16 bytes; 8 without reverse data.

    `protocol`, `version`: as in XCPHeader; `rate`: the routers' [bit/s]; `rtt`: the host's estimate [s]; `reverse`: the
    `rate` that an ACK returns.
    """

    title = "an RCP header"
    protocol: int = count_field(1, 6, COMMON)
    length: int = constant_field(16)
    version: int = count_field(1, 1, COMMON)
    unused: int = constant_field(0)
    rate: float = rate_field()
    rtt: float = time_field(4, MS)
    reverse: float = rate_field(direction=REVERSE)
