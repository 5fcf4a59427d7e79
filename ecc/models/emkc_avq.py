"""EMKC-AVQ: EMKC with a virtual capacity that adapts until the load of links is gamma C (JETMAX sec. 3.3).

    x_i(n) = x_i(n - D_i) + alpha - beta p_i(n) x_i(n - D_i)                JETMAX (3)
    V_l(n) = V_l(n - Delta) + tau Delta (gamma C_l - y_l(n)) / D_max        JETMAX (5), limited to gamma C_l
    p_l(n) = (y_l(n) - V_l(n)) / y_l(n), p_i the largest on the path        JETMAX (4) with V for C

    V  virtual capacity [bit/s]    alpha  rate added each RTT [bit/s]       gamma  target utilization
    y  arrival rate [bit/s]        beta   gain of the source                tau    gain of the router
    C  capacity [bit/s]            Delta  control interval [s]              D_max  largest RTT of the link's flows [s]

Its equilibrium is y = gamma C with V = gamma C - N alpha/beta, which may be negative. There beta p = alpha/x:
differences between equal flows change as (1 - alpha/x)^n and decay only if the fair share is above alpha/2. With the
parameters of JETMAX that limit is the share in its T2, 0.1 Mb/s: a link with more flows oscillates permanently.

D_max is the moving average, with the weight of JETMAX's footnote 4, of the largest smoothed RTT that packets carried in
an interval; V stays at gamma C until the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import RATE, TIME, as_delay, as_rate
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import SampledPrices
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.models.mkc import MKC, flow_hooks
from ecc.models.shared import price_feedback
from ecc.models.shared.equilibria import bottleneck_links, shared_fair_rate
from ecc.network.network import Network


@dataclass
class LinkState(price_feedback.LinkState):
    """A router's state at one link."""

    V: float = inf  # virtual capacity [bit/s]
    max_rtt: float = 0.0  # moving average of the largest RTTs [s]; 0 before the first sample
    rtt_peak: float = 0.0  # largest RTT since the last tick [s]


@dataclass(frozen=True)
class EMKCAVQ(Protocol):
    """EMKC with an adaptive virtual capacity.

    Parameters
    ----------
    alpha : float, bit/s, > 0
        Increase of the rate per RTT (JETMAX sec. 3.3: 0.2 Mb/s).
    beta : float, > 0
        Gain on the loss (JETMAX sec. 3.3: 0.5).
    tau : float, > 0
        Gain on the virtual capacity (JETMAX sec. 3.3: 0.2).
    interval : float, s, > 0
        Control interval Delta (JETMAX sec. 3.3: 100 ms).
    gamma : float, > 0
        Target utilization (JETMAX fig. 1e: 1).
    rtt_gain : float, > 0
        Weight of each interval in a router's moving average of RTTs (JETMAX footnote 4: 0.4).
    floor : float, >= 0
        Minimum sending rate, in packets per RTT.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.2e6
    beta: float = 0.5
    tau: float = 0.2
    interval: float = 0.1
    gamma: float = 1.0
    rtt_gain: float = 0.4
    floor: float = 1.0

    dimensions = {"alpha": RATE, "interval": TIME}

    combine = "max"
    stamping = "arrival"
    main_parameter = "beta"

    property_exceptions = {"agreement": "its equilibrium fills links exactly, so a queue of any length persists"}
    reference_loop = ReferenceLoop(10e6, (0.22, 2.02), "JETMAX sec. 3, fig. 1a", 1000)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_rate(self.alpha, "alpha"))
        check_number(self, beta=None, tau=None, interval=as_delay, gamma=None, rtt_gain=None, floor=0.0)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, C: float, d: float, T: float, p: Params) -> float:
        """JETMAX (5): the next virtual capacity."""
        return min(R + p.tau * T * (p.gamma * C - y) / d, p.gamma * C)

    @staticmethod
    def announce_law(R: float, y: float) -> float:
        """JETMAX (4), with the virtual capacity instead of C."""
        return (y - R) / y

    source_law = staticmethod(MKC.source_law)

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        return self.alpha

    @property
    def fluid_form(self) -> SampledPrices:
        return SampledPrices(self.rtt_gain)

    def params(self) -> dict[str, float]:
        return {
            "alpha": self.alpha,
            "beta": self.beta,
            "tau": self.tau,
            "interval": self.interval,
            "gamma": self.gamma,
            "rtt_gain": self.rtt_gain,
            "floor": self.floor,
        }

    @property
    def scaling_rtt(self) -> str:
        return "max"

    # ---- hooks -------------------------------------------------------------------------------------------

    header_bytes = (20, 20)  # THESIS III.C
    Header = price_feedback.Header
    LinkState = LinkState
    FlowState = price_feedback.FlowState
    flow_at = staticmethod(price_feedback.flow_at)

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        return LinkState(price=self.announce_law(R, y), y=y, V=R, max_rtt=max_rtt)

    def link_hooks(self) -> dict[str, Hook]:
        return price_feedback.link_hooks(on_interval) | {"on_start": on_start, "on_arrival": on_arrival}

    def flow_hooks(self) -> dict[str, Hook]:
        return flow_hooks()

    # ---- equilibrium -------------------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return -inf, self.gamma * capacity

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return max-min fair rates for capacities gamma C; `fair_rate` is V = gamma C (1 - p), p = alpha/(beta x)."""
        target = self.gamma * network.capacities
        point = shared_fair_rate(network, target, assignment)
        virtual = np.where(bottleneck_links(point), target * (1.0 - self.alpha / self.beta / point.fair_rate), inf)
        return Equilibrium(point.rates, virtual, point.bottleneck)


router_law = EMKCAVQ.router_law
announce_law = EMKCAVQ.announce_law


def on_start(link: LinkState, header: price_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Start with the maximum virtual capacity, gamma C."""
    link.V = min(link.V, p.gamma * env.capacity)
    price_feedback.link_on_start(link, header, p, env)


def on_arrival(link: LinkState, header: price_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Record the largest RTT, then count and mark the packet."""
    if env.kind == 0:
        link.rtt_peak = max(link.rtt_peak, header.rtt)
    price_feedback.link_on_arrival(link, header, p, env)


def on_interval(link: LinkState, header: price_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval, update the virtual capacity and announce the resulting price."""
    T = env.now - link.opened
    if link.rtt_peak > 0.0:
        weight = p.rtt_gain if link.max_rtt > 0.0 else 1.0
        link.max_rtt += weight * (link.rtt_peak - link.max_rtt)
        link.rtt_peak = 0.0
    if price_feedback.close_interval(link, env):
        if link.max_rtt > 0.0:
            link.V = router_law(link.V, link.y, env.capacity, link.max_rtt, T, p)
        link.price = announce_law(link.V, link.y)
