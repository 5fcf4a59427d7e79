"""XCP, the eXplicit Control Protocol (Katabi, Handley, Rohrs 2002; EVAL sec. 2, THESIS II.E.1).

Every mean RTT d, a router shares out the change phi of all windows that would fill the link, and moves a part gamma of
the traffic from the large flows to the small ones:

    phi = alpha d (C - y) - beta q                                          EVAL (1)
    h = max(0, gamma y d - |phi|)                                           traffic to be shuffled
    x' = [(h + max(phi, 0))/N - (h + max(-phi, 0)) x/y] / d^2               of a flow at rate x; the least on its path

    y  arrival rate [bit/s]    x  sending rate [bit/s]   alpha  gain on spare capacity
    C  capacity [bit/s]        q  queue [bit]            beta   gain on the queue
    d  mean RTT [s]            N  flows at the link      gamma  share of the traffic that is shuffled

The last line is per-packet feedback added up over a flow's packets, as in Low, Andrew and Wydrowski (INFOCOM 2005):
increases are equal and decreases in proportion to the rate, whatever the RTTs. With y < C a flow that is held back
elsewhere wastes its share of the increase, so the others stop at x = (gamma y/N) y/((gamma + alpha) y - alpha C):
XCP is max-min fair on one link, but not in networks, and may leave alpha/(alpha + gamma) of a link as its load.

The linear model is that of the sum, x_i' = phi/(N d^2) after each flow's own RTT and without shuffling, with a queue
that may be negative: s^2 + (alpha s/d + beta/d^2) mean(exp(-s D_i)) = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError
from ecc.models.base import Bound, Equilibrium, Protocol, check_number
from ecc.models.equilibria import followers, shared_rate
from ecc.network import Network


@dataclass(frozen=True)
class XCP(Protocol):
    """XCP.

    Parameters
        alpha : float, > 0. Gain on spare capacity (EVAL sec. 4: 0.4).
        beta : float, >= 0. Gain on the queue (EVAL sec. 4: 0.226).
        gamma : float, >= 0. Share of the traffic that is shuffled (Katabi et al.: 0.1).
        interval : float, s, > 0. Step of the law; a router's own is the mean RTT, and the linear model has none.
    Raises
        ValueError, TypeError: a parameter out of range.
    """

    alpha: float = 0.4
    beta: float = 0.226
    gamma: float = 0.1
    interval: float = 0.01

    times = ("continuous",)

    def __post_init__(self) -> None:
        check_number(self, alpha=None, beta=0.0, gamma=0.0, interval=None)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(x: Any, y: Any, q: Any, N_all: Any, C: Any, d: Any, T: Any, p: Any) -> Any:
        """EVAL (1) and the fairness controller: what a flow at rate x is to add to it in T."""
        phi = p.alpha * d * (C - y) - p.beta * q
        h = max(0.0, p.gamma * y * d - abs(phi))
        return T * ((h + max(phi, 0.0)) / N_all - (h + max(-phi, 0.0)) * x / y) / (d * d)

    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        """EVAL (2), as a rate."""
        return x + R

    def params(self) -> dict[str, float]:
        return {"alpha": self.alpha, "beta": self.beta, "gamma": self.gamma, "interval": self.interval}

    @property
    def linearized(self) -> Protocol:
        """Without shuffling, which changes no sum where RTTs are equal."""
        return replace(self, gamma=0.0)

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return -inf, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Constrained max-min fairness (Low, Andrew, Wydrowski); max-min fair on one link or with gamma = 0."""
        alpha, gamma = self.alpha, self.gamma
        crossing = network.incidence.sum(axis=0)

        def share(link: int, count: int, others: float) -> float:
            # y - others = count gamma y^2 / (N ((gamma + alpha) y - alpha C)): the larger root of a y^2 - b y + c
            C, N = float(network.capacities[link]), int(crossing[link])
            a = N * (gamma + alpha) - count * gamma
            b = N * ((gamma + alpha) * others + alpha * C)
            c = N * others * alpha * C
            y = (b + sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
            if y > C * (1.0 + 1e-9):
                raise LinearizationError(f"no equilibrium without a standing queue at link {link}")
            return (y - others) / count

        point = shared_rate(network, share, assignment)
        return Equilibrium(point.rates, np.where(followers(point), 0.0, inf), point.bottleneck)

    def published_bounds(self, network: Network) -> list[Bound]:
        """EVAL sec. 2 (Katabi et al.), which is exact in the free-queue model."""
        if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
            return []
        hypotheses = "equal RTTs, beta = sqrt(2) alpha^2"
        return [Bound("EVAL sec. 2", "alpha", pi / (4.0 * sqrt(2.0)), "sufficient", "continuous", hypotheses)]
