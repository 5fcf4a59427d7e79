"""TIMELY: rates controlled by the gradient of the RTT (Mittal et al. 2015), and the patch by Zhu et al. (2016).

At an ACK, once in D_min or less often, g <- (1 - alpha) g + alpha (D - D_prev)/D_min, D_prev that of the last update:

    x <- x + delta                                        D < T_low                      Mittal et al., Algorithm 1
    x <- x (1 - beta (1 - T_high/D))                      D > T_high
    x <- x + delta    (5 delta from the fifth on)         else, g <= 0
    x <- x (1 - beta g)                                   else, g > 0

    x <- (1 - w) delta + x (1 - beta w (D - T_low)/T_low), w = clip(2 g + 1/2, 0, 1)     the last two, patched
                                                          Zhu et al., Algorithm 2
    x  rate [bit/s]    D  RTT, with queues [s]    g  gradient    delta  step [bit/s]    T_low, T_high, D_min [s]

An ACK stands for the completion of a segment: packets of the network are segments, 16 or 64 kB, evenly spaced. So a
rate is updated every max(s/x, D_min) with s a packet, as in the fluid of Zhu et al. They compare q/C with the
thresholds, while the algorithms compare the RTT, propagation included, as these laws do.

TIMELY has no equilibrium (their theorem): at a constant RTT g = 0, and rates increase. With the patch, g = 0 gives
w = 1/2 and the equilibrium

    x_i = delta T_low/(beta (D_i - T_low)),    one link, N equal RTTs:  D = T_low (1 + N delta/(beta C))

(q* = q' + N delta q'/(beta C) there, q' = C T_low): flows with longer RTTs get less. Losses have no response: if a full
buffer holds the RTT below T_high, TIMELY takes it for constant and increases its rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import RATE, TIME, QuantityField, as_delay, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium, EquilibriumSet
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.models.shared.equilibria import full_links
from ecc.models.shared.rate_feedback import minimum_rate
from ecc.network.network import Network

RISING = 1e-12  # gradient at a point next to the set of equilibria, at which laws are those of g > 0
HYPER = 5.0  # consecutive increases before hyperactive increase, and its factor on delta


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]
    gradient: float = 0.0
    increases: float = 0.0  # consecutive updates with g <= 0 between the thresholds
    rtt: float = 0.0  # RTT at the last update [s]; 0 before the first sample
    updated: float = 0.0  # time of the last update [s]


@dataclass(frozen=True)
class TIMELY(Protocol):
    """TIMELY.

    Parameters
    ----------
    alpha : float, in (0, 1]
        Weight of a new difference of RTTs (Mittal et al.: 0.875).
    beta : float, in (0, 1]
        Factor of decreases.
    delta : float, bit/s, > 0
        Additive increase of an update, and initial rate, for example 10 Mb/s.
    low, high : float, s, > 0
        RTTs below which rates always increase, and above which they always decrease.
    interval : float, s, > 0
        D_min, the minimum RTT: unit of the gradient, and minimum time between updates.
    floor : float, > 0
        Minimum sending rate, in packets per RTT.
    increases_at_zero : bool
        Whether a rate increases at g = 0, as in Algorithm 1. False: only for g < 0 (Zhu et al., Theorem 4).

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    alpha: float = 0.875
    beta: float = 0.8
    delta: QuantityField = default(10e6)
    low: QuantityField = default(50e-6)
    high: QuantityField = default(500e-6)
    interval: QuantityField = default(20e-6)
    floor: float = 0.01
    increases_at_zero: bool = True

    dimensions = {"delta": RATE, "low": TIME, "high": TIME, "interval": TIME}

    combine = "sum"
    stamping = "arrival"
    times: ClassVar[tuple[str, ...]] = ()
    equilibrium_is_static = False
    header_bytes = (0, 0)
    phase_jitter = "line rate"
    no_equilibrium = "at a constant RTT the gradient is 0, and rates increase"

    operating_range = OperatingRange((10e9, 40e9), (20e-6, 40e-6), convergence=1000.0)
    reference_loop = ReferenceLoop(10e9, (1e-6,) * 2, "ECN-DELAY sec. 4.2; the RTT is ours", 16_000)

    cycle_loop = ReferenceLoop(10e9, (10e-6,) * 2, "ours; packets that do not delay updates", 1000)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", as_rate(self.delta, "delta"))
        check_number(self, alpha=None, beta=None, low=as_delay, high=as_delay, interval=as_delay, floor=None)
        for name in ("alpha", "beta"):
            if getattr(self, name) > 1.0:
                raise ValueError(f"{name} must be <= 1, got {shown(getattr(self, name))}")
        check_choice(self, "increases_at_zero", (True, False))
        if self.high <= self.low:
            raise ValueError(f"high must be > low ({self.low:g} s), got {shown(self.high)}")

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float) -> float:
        """The queueing delay; the delays of a path's links add up."""
        return q / C

    @staticmethod
    def source_law(x: float, D: float, gradient: float, increases: float, p: Params) -> float:
        """Mittal et al., Algorithm 1."""
        if D < p.low:
            return x + p.delta
        if D > p.high:
            return too_late(x, D, p)
        if is_falling(gradient, p):
            return x + p.delta * (HYPER if increases >= HYPER else 1.0)
        return x * (1.0 - p.beta * gradient)

    @property
    def states(self) -> Mapping[str, State]:
        return {"gradient": State(averaged, "update"), "increases": State(counted, "update", lowest=0.0)}

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """The additive increase delta."""
        return self.delta

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    @property
    def linear_refusal(self) -> str | None:
        return f"{type(self).__name__} has no equilibrium to linearize at: {self.no_equilibrium}"

    # ---- equilibria, if rates increase for g < 0 only ----------------------------------------------------

    def equilibrium_set(self, network: Network) -> EquilibriumSet | None:
        """Return rates that add up to C, with RTTs from T_low to T_high (Zhu et al., Theorem 4); None if they move.

        The given point has equal rates, and an RTT halfway between the thresholds. Its laws are those of g > 0: a
        negative gradient, however small, adds delta to rates at each update until the increase is seen a delay later.
        So runs that start next to the set leave it by a distance that does not depend on the start.
        """
        if self.increases_at_zero or not self.no_equilibrium:
            return None
        if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
            raise LinearizationError(
                "TIMELY's set of equilibria is known on one link with equal RTTs only, got another network"
            )
        wait = 0.5 * (self.low + self.high) - float(network.rtts[0])
        if wait <= 0.0:
            raise LinearizationError(
                f"TIMELY has no set of equilibria here: the RTT must be < {0.5 * (self.low + self.high):g} s, got "
                f"{network.rtts[0]:g} s"
            )
        C, n = float(network.capacities[0]), network.n_flows
        point = Equilibrium(
            np.full(n, C / n),
            np.array([wait]),
            np.full(n, -1),
            np.array([wait * C]),
            states={"gradient": np.full(n, RISING)},
        )
        outside = "each update at g < 0 adds delta, however small g is, and runs leave the set by more than that"
        members = "any rates that add up to C, with an RTT from T_low to T_high"
        return EquilibriumSet(point, n, members, outside, stable=False)

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return hooks(type(self).source_law)

    def flow_at(self, x: float, R: float, link: int, rtt: float = 0.0) -> Any:
        """Return the state of a flow after many RTTs of length `rtt`."""
        return FlowState(x=x, rtt=rtt)


@dataclass(frozen=True)
class PatchedTIMELY(TIMELY):
    """TIMELY with the patch of Zhu et al. (2016): decreases by the RTT, blended with increases by the gradient.

    Parameters
    ----------
    alpha, beta, delta, low, high, interval, floor, increases_at_zero
        See `TIMELY`; `increases_at_zero` has no effect. `low` is also the reference RTT of decreases.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    beta: float = 0.008

    times = ("continuous", "discrete", "hybrid")
    main_parameter = "beta"
    no_equilibrium = ""
    linear_refusal = None

    @staticmethod
    def source_law(x: float, D: float, gradient: float, p: Params) -> float:  # type: ignore[override]
        """Zhu et al., Algorithm 2."""
        if D < p.low:
            return x + p.delta
        if D > p.high:
            return too_late(x, D, p)
        weight = min(max(2.0 * gradient + 0.5, 0.0), 1.0)
        return (1.0 - weight) * p.delta + x * (1.0 - p.beta * weight * (D - p.low) / p.low)

    @property
    def states(self) -> Mapping[str, State]:
        return {"gradient": State(averaged, "update")}

    def flow_hooks(self) -> dict[str, Hook]:
        law = type(self).source_law
        return hooks(lambda x, rtt, gradient, increases, p: law(x, rtt, gradient, p))

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return Zhu et al.'s fixed point, on any network; `fair_rate` is a link's queueing delay [s]."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of PatchedTIMELY respond to the RTT of their whole path")

        p = self.namespace()

        def demand(D: NDArray[np.float64]) -> NDArray[np.float64]:
            late = D > p.low
            return np.where(late, p.delta * p.low / (p.beta * np.where(late, D - p.low, 1.0)), inf)

        waits = full_links(network, demand, "PatchedTIMELY", "at the RTT `low` any rate is stationary")
        D = network.rtts + network.incidence @ waits
        if D.max() > p.high:
            raise LinearizationError(
                f"PatchedTIMELY has no equilibrium here: the RTT of flow {D.argmax()} would be {D.max():g} s, and high "
                f"is {p.high:g} s"
            )
        feedback = np.full(network.n_flows, -1, dtype=np.int64)
        return Equilibrium(demand(D), waits, feedback, waits * network.capacities)


def too_late(x: float, D: float, p: Params) -> float:
    """Algorithm 1: the rate after an RTT above `high`."""
    return x * (1.0 - p.beta * (1.0 - p.high / D))


def averaged(gradient: float, R: float, R_prev: float, T: float, p: Params) -> float:
    """Algorithm 1: the gradient, from two RTTs or from two queueing delays."""
    return (1.0 - p.alpha) * gradient + p.alpha * (R - R_prev) / T


def is_falling(gradient: float, p: Params) -> bool:
    """Algorithm 1: whether a gradient increases rates."""
    return gradient < 0.0 or (gradient == 0.0 and p.increases_at_zero > 0.0)


def counted(increases: float, gradient: float, D: float, p: Params) -> float:
    """Algorithm 1: the number of consecutive increases by the gradient."""
    return increases + 1.0 if is_falling(gradient, p) and D >= p.low and D <= p.high else 0.0


def hooks(law: Callable[..., float]) -> dict[str, Hook]:
    """Return the hooks of a flow, for a law of x, D, gradient, increases and p."""

    def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        if flow.rtt == 0.0:
            flow.rtt = env.rtt
            flow.updated = env.now
        elif env.now - flow.updated >= p.interval:
            flow.gradient = averaged(flow.gradient, env.rtt, flow.rtt, p.interval, p)
            flow.increases = counted(flow.increases, flow.gradient, env.rtt, p)
            flow.x = max(law(flow.x, env.rtt, flow.gradient, flow.increases, p), minimum_rate(p, env))
            flow.rtt = env.rtt
            flow.updated = env.now
            env.rate = flow.x

    return {"on_start": flow_on_start, "on_ack": flow_on_ack}


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start at the rate delta."""
    flow.x = p.delta
    env.rate = flow.x
