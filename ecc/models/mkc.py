"""MKC, Max-min Kelly Control (Zhang, Kang, Loguinov, INFOCOM 2006; JETMAX sec. 4.2, THESIS II.E.3).

Kelly's control (THESIS (2.7)) with the price of the most congested link instead of the sum. It steps from the rate one
RTT ago:

    x_i(n) = x_i(n - D_i) + alpha - beta eta_i(n) x_i(n - D_i)              THESIS (2.13), JETMAX (6)
    eta_i(n) = max over l in i of p_l(n - D_il^<-),  p_l(n) = p(y_l(n))     THESIS (2.14), JETMAX (7)

    x  sending rate [bit/s]    p  price of a link            alpha  rate added each RTT [bit/s]
    y  arrival rate [bit/s]    eta  price received           beta   gain
    C  capacity [bit/s]        D_i  RTT, D_il^<- router back to source [control intervals]

The papers leave p(y) open. Here p(y) = (y/C)^steepness, the example of Kelly, Maulloo and Tan (1998) and of Johari and
Tan (2001), with y p'(y) = steepness p(y). EMKC and EMKC-AVQ are MKC with other prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import RATE, TIME, as_delay, as_rate
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.forms import SampledPrices
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.laws.elementary import exp, log
from ecc.models.shared import price_feedback, rate_feedback
from ecc.models.shared.equilibria import bottleneck_links, shared_rate
from ecc.network.network import Network


@dataclass(frozen=True)
class MKC(Protocol):
    """MKC with the price (y/C)^steepness.

    Parameters
    ----------
    alpha : float, bit/s, > 0
        Increase of the rate per RTT (JETMAX sec. 3.3, for EMKC: 0.2 Mb/s).
    beta : float, > 0
        Gain on the price (JETMAX sec. 3.3, for EMKC: 0.5).
    interval : float, s, > 0
        Control interval (JETMAX sec. 3.3: 100 ms).
    steepness : float, > 0
        Exponent of the price.
    floor : float, >= 0
        Minimum sending rate, in packets per RTT.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.2e6
    beta: float = 0.5
    interval: float = 0.1
    steepness: float = 1.0
    floor: float = 1.0

    dimensions = {"alpha": RATE, "interval": TIME}

    combine = "max"
    stamping = "arrival"
    fluid_form = SampledPrices()
    main_parameter = "beta"
    overloads_at_equilibrium = True
    reference_loop = ReferenceLoop(10e6, (0.22, 2.02), "JETMAX sec. 3, fig. 1a", 1000)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_rate(self.alpha, "alpha"))
        check_number(self, beta=None, interval=as_delay, steepness=None, floor=0.0)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(y: float, C: float, p: Params) -> float:
        """JETMAX (7): the price."""
        return power_price(y, C, p.steepness)

    @staticmethod
    def source_law(x_rtt: float, R: float, p: Params) -> float:
        """THESIS (2.13), JETMAX (6)."""
        return x_rtt + p.alpha - p.beta * R * x_rtt

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        return self.alpha

    def params(self) -> dict[str, float]:
        return {
            "alpha": self.alpha,
            "beta": self.beta,
            "interval": self.interval,
            "steepness": self.steepness,
            "floor": self.floor,
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    header_bytes = (20, 20)  # THESIS III.C
    Header = price_feedback.Header
    LinkState = price_feedback.LinkState
    FlowState = price_feedback.FlowState
    link_at = staticmethod(price_feedback.link_at)
    flow_at = staticmethod(price_feedback.flow_at)

    def link_hooks(self) -> dict[str, Hook]:
        return price_feedback.link_hooks(on_interval)

    def flow_hooks(self) -> dict[str, Hook]:
        return flow_hooks()

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point with x_i = alpha/(beta p_l) at the link with the largest price."""
        from scipy.optimize import brentq  # imported here: as slow to import as all protocols together

        added, steepness = self.alpha / self.beta, self.steepness

        def share(link: int, count: int, others: float) -> float:
            # y - others = count * added * (C/y)^steepness; without other flows the root is y = alone
            C = float(network.capacities[link])
            alone = C * (count * added / C) ** (1.0 / (1.0 + steepness))
            y = alone
            if others > 0.0:
                y = brentq(
                    lambda y: y - others - count * added * (C / y) ** steepness,
                    max(alone, others) * (1.0 - 1e-9),
                    (alone + others) * (1.0 + 1e-9),
                    xtol=1e-300,
                    rtol=1e-15,
                )
            return float(added * (C / y) ** steepness)

        point = shared_rate(network, share, assignment)
        return Equilibrium(point.rates, prices(point, added), point.bottleneck)

    def published_bounds(self, network: Network) -> list[Bound]:
        """One link: beta (p + y p') < 2, without delays and with any constant delays (JETMAX Theorem 1)."""
        if network.n_links != 1:
            return []
        C = float(network.capacities[0])
        load = network.n_flows * self.alpha / C
        value = (2.0 / (1.0 + self.steepness)) ** (1.0 + self.steepness) / load**self.steepness
        return [
            Bound(
                "JETMAX Theorem 1", "beta", value, "necessary and sufficient", "discrete", "all constant delays at once"
            )
        ]


router_law = MKC.router_law
source_law = MKC.source_law


def on_interval(link: price_feedback.LinkState, header: price_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval and announce the price of its arrivals."""
    if price_feedback.close_interval(link, env):
        link.price = router_law(link.y, env.capacity, p)


def flow_on_start(flow: price_feedback.FlowState, header: price_feedback.Header, p: Params, env: FlowEnv) -> None:
    """Start at alpha, the law's step from rate 0; a flow started at an equilibrium sends at its rate."""
    if flow.x == 0.0:
        flow.x = source_law(0.0, 0.0, p)
    env.rate = flow.x


def flow_on_ack(flow: price_feedback.FlowState, header: price_feedback.Header, p: Params, env: FlowEnv) -> None:
    """Step from the rate one RTT ago, once for each new price."""
    if price_feedback.receive(flow, header):
        flow.x = max(source_law(flow.x_rtt, header.price, p), rate_feedback.minimum_rate(p, env))
        env.rate = flow.x


def flow_hooks() -> dict[str, Hook]:
    """Return the hooks of a host of MKC, EMKC and EMKC-AVQ."""
    return {"on_start": flow_on_start, "on_send": price_feedback.flow_on_send, "on_ack": flow_on_ack}


def power_price(y: float, C: float, steepness: float) -> float:
    """(y/C)^steepness, with functions that laws may call."""
    return exp(steepness * log(y / C))


def prices(point: Equilibrium, added: float) -> NDArray[np.float64]:
    """Return the links' prices at a point with `fair_rate` the rate of their flows: p = alpha/(beta x)."""
    return np.where(bottleneck_links(point), added / point.fair_rate, inf)
