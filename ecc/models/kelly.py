"""Kelly's primal control with the prices of a path added up (Kelly, Maulloo, Tan 1998; THESIS (2.7)).

    x_i(t) = x_i(t - 1) + kappa (omega - x_i(t - D_i) sum over l in i of p_l(t - D_il^<-))     THESIS (2.7), (2.6)

    x  sending rate [bit/s]    p  price of a link      omega  what a flow is willing to pay [bit/s]
    y  arrival rate [bit/s]    C  capacity [bit/s]     kappa  gain
    D_i  RTT, D_il^<- router back to source [steps of `interval`]

A flow hears all links of its route. The papers leave the price open; here p(y) = (y/C)^steepness, for which
y p'(y) = steepness p(y). It rests at the maximum of sum omega log x_i - sum y_l p_l(y_l)/(1 + steepness), weighted
proportional fairness with soft capacities, which grow hard with the steepness.

Johari and Tan (2001) count delays from the rate before: their D is D_i - 1 here, where x(t) follows x(t - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import ConvergenceError
from ecc.models.base import Bound, Equilibrium, Protocol, check_number
from ecc.models.mkc import power_price
from ecc.network import Network
from ecc.quantity import as_rate


@dataclass(frozen=True)
class Kelly(Protocol):
    """Kelly's control with the price (y/C)^steepness.

    Parameters
        kappa : float, > 0. Gain of a step.
        omega : float, bit/s, > 0. Willingness to pay: rate times price at rest.
        interval : float, s, > 0. Length of a step.
        steepness : float, > 0. Exponent of the price.
    Raises
        ValueError, TypeError: a parameter out of range.
    """

    kappa: float = 0.01
    omega: float = 10e6
    interval: float = 0.01
    steepness: float = 1.0

    combine = "sum"
    times = ("discrete",)
    overloads = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "omega", as_rate(self.omega, "omega"))
        check_number(self, kappa=None, interval=None, steepness=None)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(y: Any, C: Any, p: Any) -> Any:
        """The price."""
        return power_price(y, C, p.steepness)

    @staticmethod
    def source_law(x: Any, x_rtt: Any, R: Any, p: Any) -> Any:
        """THESIS (2.7)."""
        return x + p.kappa * (p.omega - x_rtt * R)

    def params(self) -> dict[str, float]:
        return {"kappa": self.kappa, "omega": self.omega, "interval": self.interval, "steepness": self.steepness}

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """x_i times the prices of its path is omega; Newton on the concave objective in log x."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Kelly listen to all links of their route")
        crosses = network.incidence.astype(float)
        log_rate = np.log(self.omega / crosses.sum(axis=1))
        for _ in range(500):
            x = np.exp(log_rate)
            y = x @ crosses
            price = np.where(y > 0.0, (y / network.capacities) ** self.steepness, 0.0)
            paid = x * (crosses @ price)
            slope = self.steepness * np.divide(price, y, out=np.zeros_like(y), where=y > 0.0)
            along = x[:, None] * crosses
            step = np.linalg.solve(np.diag(paid) + (along * slope) @ along.T, self.omega - paid)
            if np.abs(step).max() < 1e-14:
                bottleneck = np.full(network.n_flows, -1, dtype=np.int64)
                return Equilibrium(x, np.where(y > 0.0, price, inf), bottleneck)
            log_rate = log_rate + step / max(1.0, np.abs(step).max())
        raise ConvergenceError("the equilibrium of Kelly was not found in 500 steps", x, float(np.abs(step).max()))

    def published_bounds(self, network: Network) -> list[Bound]:
        """Johari and Tan: kappa sum_l (p_l + y_l p_l') < 2 sin(pi/(2 (2 D_i - 1))) for every flow i."""
        rtts, price = network.rtts, self.equilibrium(network).fair_rate
        steps = np.maximum(1.0, np.ceil(rtts / self.interval - 1e-9))
        felt = (1.0 + self.steepness) * np.where(network.incidence, price, 0.0).sum(axis=1)
        value = float(np.min(2.0 * np.sin(pi / (2.0 * (2.0 * steps - 1.0))) / felt))
        one = network.n_links == 1 and bool(np.all(steps == steps[0]))
        kind, hypotheses = ("necessary and sufficient", "equal RTTs") if one else ("sufficient", "any RTTs")
        return [Bound("Johari and Tan 2001 (THESIS II.D.2)", "kappa", value, kind, "discrete", hypotheses)]
