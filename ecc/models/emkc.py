"""EMKC, Exponential Max-min Kelly Control (Zhang, Kang, Loguinov, INFOCOM 2006; JETMAX sec. 2, THESIS II.E.3).

MKC with the share of arrivals beyond capacity as its price, negative below capacity:

    x_i(n) = x_i(n - D_i) + alpha - beta p_i(n) x_i(n - D_i)                JETMAX (3), THESIS (2.13)
    p_l(n) = (y_l(n) - C_l) / y_l(n), p_i the largest on the path           JETMAX (4), THESIS (2.15)

    x  sending rate [bit/s]    p  packet loss                alpha  rate added each RTT [bit/s]
    y  arrival rate [bit/s]    C  capacity [bit/s]           beta   gain
    D_i  RTT [control intervals]; y_l sums rates one forward delay ago, p_i is the links' price one backward delay ago

Its equilibrium is y = C + N alpha/beta: it loses packets permanently.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import RATE, TIME, as_delay, as_rate
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.forms import SampledPrices
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.models.mkc import MKC, flow_hooks, prices
from ecc.models.shared import price_feedback
from ecc.models.shared.equilibria import shared_rate
from ecc.network.network import Network


@dataclass(frozen=True)
class EMKC(Protocol):
    """EMKC.

    Parameters
    ----------
    alpha : float, bit/s, > 0
        Increase of the rate per RTT (JETMAX sec. 3.3: 0.2 Mb/s).
    beta : float, > 0
        Gain on the loss (JETMAX sec. 3.3: 0.5).
    interval : float, s, > 0
        Control interval Delta (JETMAX sec. 3.3: 100 ms).
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
        check_number(self, beta=None, interval=as_delay, floor=0.0)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(y: float, C: float) -> float:
        """JETMAX (4), THESIS (2.15)."""
        return (y - C) / y

    source_law = staticmethod(MKC.source_law)

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        return self.alpha

    def params(self) -> dict[str, float]:
        return {"alpha": self.alpha, "beta": self.beta, "interval": self.interval, "floor": self.floor}

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
        return -inf, 1.0

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """JETMAX sec. 3.8: y = C + N alpha/beta on one link, x_i = alpha/(beta p_l) at the link of largest loss."""
        added = self.alpha / self.beta

        def share(link: int, count: int, others: float) -> float:
            # (y - others)(y - C) = count * added * y
            C = float(network.capacities[link])
            total = others + C + count * added
            return float((total + sqrt(total * total - 4.0 * others * C)) / 2.0 - others) / count

        point = shared_rate(network, share, assignment)
        return Equilibrium(point.rates, prices(point, added), point.bottleneck)

    def published_bounds(self, network: Network) -> list[Bound]:
        """JETMAX sec. 2, THESIS II.E.3: beta < 2; for networks JETMAX Theorem 1.

        The bound is sharp for equal RTTs; with some RTT distributions slightly larger gains are stable.
        """
        hypotheses = "all constant delays at once, an assignment that does not change"
        kind = "necessary and sufficient" if np.ptp(network.rtts) == 0.0 else "sufficient"
        return [Bound("JETMAX sec. 2", "beta", 2.0, kind, "discrete", hypotheses)]


router_law = EMKC.router_law


def on_interval(link: price_feedback.LinkState, header: price_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval and announce the loss of its arrivals."""
    if price_feedback.close_interval(link, env):
        link.price = router_law(link.y, env.capacity)
