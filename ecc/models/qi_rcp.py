"""QI-RCP, the queue-independent RCP of THESIS sec. IV.C.

Each link announces one fair rate R, controlled by its arrival rate only; a flow sends at the smallest on its path:

    R(t) = R(t - T) [1 + alpha T (gamma C - y(t)) / (gamma C d)]            THESIS (4.4)
    x_i(t) = R(t - D_i^<-)                                                  THESIS (4.2)

    R  fair rate [bit/s]      y  arrival rate [bit/s]       alpha  gain
    C  capacity [bit/s]       gamma  target utilization     d  mean RTT of the link's traffic [s]
    T  control interval [s]   x  sending rate [bit/s]       D_i^<-  delay from router back to source [s]

The queue drains because gamma < 1. THESIS uses 22/7 for pi in places: its "alpha < 1.6523" for D = 10 is
20 sin(pi/38) = 1.65159.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, pi, sin

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import TIME, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.models.rcp import RCP
from ecc.models.shared import rate_feedback
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.network.network import Network


@dataclass(frozen=True)
class QIRCP(Protocol):
    """QI-RCP.

    Parameters
    ----------
    alpha : float, > 0
        Gain of the integral controller (THESIS IV.E: 0.5).
    interval : float, s, > 0
        Control interval T, for example 0.01.
    gamma : float, > 0
        Target utilization (THESIS IV.E: 0.95).
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

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.5
    interval: float = 0.01
    gamma: float = 0.95
    initial: float = 0.05
    floor: float = 1.0
    rtt_gain: float = 0.02
    loss: str = "keep"
    stamping: str = "departure"

    dimensions = {"interval": TIME}

    main_parameter = "alpha"
    reference_loop = ReferenceLoop(1e9, (0.05,) * 3, "THESIS fig. 29")

    def __post_init__(self) -> None:
        check_number(self, alpha=None, interval=as_delay, gamma=None, initial=None, floor=0.0, rtt_gain=None)
        check_choice(self, "loss", ("keep", "halve"))
        check_choice(self, "stamping", ("departure", "arrival"))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(R: float, y: float, C: float, d: float, T: float, p: Params) -> float:
        """THESIS (4.4)."""
        return R * (1.0 + p.alpha * T * (p.gamma * C - y) / (p.gamma * C * d))

    @staticmethod
    def source_law(R: float) -> float:
        """THESIS (4.2)."""
        return R

    def params(self) -> dict[str, float]:
        return {
            "alpha": self.alpha,
            "interval": self.interval,
            "gamma": self.gamma,
            "initial": self.initial,
            "floor": self.floor,
            "rtt_gain": self.rtt_gain,
            "rtt_rest": 1.0 - self.rtt_gain,
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    opening_size = rate_feedback.PROBE_SIZE
    header_bytes = (16, 16)  # the header of RCP
    Header = rate_feedback.Header
    LinkState = rate_feedback.LinkState
    FlowState = rate_feedback.FlowState
    link_at = staticmethod(rate_feedback.link_at)
    flow_at = staticmethod(rate_feedback.flow_at)

    def link_hooks(self) -> dict[str, Hook]:
        return rate_feedback.link_hooks(on_interval, self.stamping)

    def flow_hooks(self) -> dict[str, Hook]:
        return rate_feedback.flow_hooks(rate_feedback.adopt_rate, self.loss)

    wire_fields = staticmethod(RCP.wire_fields)

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, capacity

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return y = gamma C at every bottleneck: max-min fair rates for capacities gamma C (THESIS (4.37))."""
        return shared_fair_rate(network, self.gamma * network.capacities, assignment)

    def published_bounds(self, network: Network) -> list[Bound]:
        """Theorems 3, 4, 5, 7 and 8 of THESIS for the flows of a single-link network."""
        return integral_bounds(network, self.interval, integral_gain=1.0, theorems=("3", "4", "7", "8"))


def integral_bounds(
    network: Network, interval: float, integral_gain: float, theorems: tuple[str, str, str, str]
) -> list[Bound]:
    """Return the bounds of THESIS for an integral loop of `integral_gain` times alpha over one link.

    Theorems 3, 4, 7, 8 have gain 1. Theorems 9, 10, 12, 13 are their counterparts with gain 2 (PIQI-RCP at T/D -> 0).

    Parameters
    ----------
    network : Network
        Network of one link.
    interval : float, s
        Control interval.
    integral_gain : float
        1 or 2.
    theorems : tuple of four str
        Numbers of the theorems in THESIS.
    """
    if network.n_links != 1:
        return []
    rtts = network.rtts
    equal = bool(np.all(rtts == rtts[0]))
    steps = np.array([max(1, ceil(rtt / interval - 1e-9)) for rtt in rtts])
    step_bound = float(steps.mean()) * 2.0 * sin(pi / (2.0 * (2.0 * int(steps.max()) - 1.0))) / integral_gain
    mean, longest = float(rtts.mean()), float(rtts.max())
    time_bound = (pi / 2.0) * (mean / longest if longest > 0.0 else inf) / integral_gain
    homogeneous, heterogeneous, homogeneous_discrete, heterogeneous_discrete = theorems
    limit = "" if integral_gain == 1.0 else ", T/D -> 0"
    if equal:
        exact = "necessary and sufficient"
        return [
            Bound(f"THESIS Theorem {homogeneous}", "alpha", time_bound, exact, "continuous", f"equal RTTs{limit}"),
            Bound(
                f"THESIS Theorem {homogeneous_discrete}", "alpha", step_bound, exact, "discrete", f"equal RTTs{limit}"
            ),
        ]
    return [
        Bound(f"THESIS Theorem {heterogeneous}", "alpha", time_bound, "sufficient", "continuous", f"any RTTs{limit}"),
        Bound(
            f"THESIS Theorem {heterogeneous_discrete}",
            "alpha",
            step_bound,
            "sufficient",
            "discrete",
            f"any RTTs{limit}",
        ),
    ]


router_law = QIRCP.router_law


def on_interval(link: rate_feedback.LinkState, header: rate_feedback.Header, p: Params, env: LinkEnv) -> None:
    """Close an interval and announce the next fair rate."""
    T = env.now - link.opened
    if rate_feedback.close_interval(link, env):
        R = router_law(link.R, link.y, env.capacity, link.mean_rtt, T, p)
        rate_feedback.announce(link, R, link.mean_rtt, p, env)
