"""JetMax (Zhang, Leonard, Loguinov, Computer Networks 52, 2008; JETMAX sec. 5).

A link divides what unresponsive flows leave of its target among the flows that follow it; a flow approaches that share
by an average over RTTs:

    g_l(n) = (gamma C_l - u_l(n)) / N_l                                     JETMAX (8)
    x_r(n) = (1 - tau) x_r(n - D_r) + tau g_l(n - D_r^<-)                   JETMAX (9)

    g  fair rate [bit/s]       u  arrivals of flows that follow another link [bit/s]      tau    gain
    C  capacity [bit/s]        N  flows that follow the link                              gamma  target utilization
    x  sending rate [bit/s]    D_r  RTT, D_r^<- router back to source [control intervals]

A flow follows the link with the largest virtual loss 1 - gamma C/y (10), clipped at 0; among equal ones that with the
smallest g (11). (18) should read x_r(n) = (1 - tau) x_r(n - D_r) + tau x_r^*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.models.base import Bound, Equilibrium, Protocol, check_number
from ecc.models.equilibria import shared_fair_rate
from ecc.network import Network


@dataclass(frozen=True)
class JetMax(Protocol):
    """JetMax.

    Parameters
        tau : float, > 0. Weight of the fair rate in the source's average (JETMAX sec. 5.4: 0.6).
        interval : float, s, > 0. Control interval Delta (THESIS VI.A.5: 100 ms).
        gamma : float, > 0. Target utilization (JETMAX sec. 7: 1).
    Raises
        ValueError, TypeError: a parameter out of range.
    """

    tau: float = 0.6
    interval: float = 0.1
    gamma: float = 1.0

    times = ("discrete",)
    affine = True

    def __post_init__(self) -> None:
        check_number(self, tau=None, interval=None, gamma=None)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(u: Any, N: Any, C: Any, p: Any) -> Any:
        """JETMAX (8)."""
        return (p.gamma * C - u) / N

    @staticmethod
    def source_law(x_rtt: Any, R: Any, p: Any) -> Any:
        """JETMAX (9)."""
        return (1.0 - p.tau) * x_rtt + p.tau * R

    def params(self) -> dict[str, float]:
        return {"tau": self.tau, "interval": self.interval, "gamma": self.gamma}

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, self.gamma * capacity

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """JETMAX Lemma 3, Theorem 3: (gamma C - u)/N, max-min fair over capacities gamma C."""
        return shared_fair_rate(network, self.gamma * network.capacities, assignment)

    def published_bounds(self, network: Network) -> list[Bound]:
        """JETMAX Theorem 2, and the condition of sec. 5.4 for monotone convergence."""
        exact, assigned = "necessary and sufficient", "any delays, a consistent assignment that does not change"
        return [
            Bound("JETMAX Theorem 2", "tau", 2.0, exact, "discrete", assigned),
            Bound("JETMAX sec. 5.4", "tau", 1.0, exact, "discrete", f"monotone convergence; {assigned}"),
        ]
