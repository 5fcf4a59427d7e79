"""Kelly's primal control with the sum of the prices of a path (Kelly, Maulloo, Tan 1998; THESIS (2.7)).

    x_i(t) = x_i(t - 1) + kappa (omega - x_i(t - D_i) sum over l in i of p_l(t - D_il^<-))     THESIS (2.7), (2.6)

    x  sending rate [bit/s]    p  price of a link      omega  willingness to pay [bit/s]
    y  arrival rate [bit/s]    C  capacity [bit/s]     kappa  gain
    D_i  RTT, D_il^<- router back to source [steps of `interval`]

A flow receives the feedback of all links of its route. The papers leave the price open; here p(y) = (y/C)^steepness,
with y p'(y) = steepness p(y). The equilibrium maximizes sum omega log x_i - sum y_l p_l(y_l)/(1 + steepness): weighted
proportional fairness with soft capacities, which become hard as the steepness grows.

In packet runs every router adds its price to arriving data. A host starts at kappa omega, the law's step from rate 0.
From the first price on it steps on its own clock, with the last price received and the sending rate of that packet.

Johari and Tan (2001) count delays from the previous rate: their D is D_i - 1 here, since x(t) depends on x(t - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi
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
from ecc.errors import ConvergenceError
from ecc.models.mkc import on_interval, power_price
from ecc.models.shared import price_feedback, rate_feedback
from ecc.network.network import Network


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    price: float = 0.0  # sum over the links of the path so far
    x: float = 0.0  # sending rate when the packet was sent [bit/s]
    ticks: int = 0  # sum of the routers' ticks; 0: no price yet


@dataclass
class LinkState(price_feedback.LinkState):
    """A router's state at one link."""

    price: float = 0.0


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]; 0 before the start
    x_rtt: float = 0.0  # sending rate of the packet acknowledged last [bit/s]
    price: float = 0.0  # price in its ACK
    ticks: int = 0


@dataclass(frozen=True)
class Kelly(Protocol):
    """Kelly's control with the price (y/C)^steepness.

    Parameters
    ----------
    kappa : float, > 0
        Gain of a step, for example 0.01.
    omega : float, bit/s, > 0
        Willingness to pay: rate times price at equilibrium.
    interval : float, s, > 0
        Length of a step.
    steepness : float, > 0
        Exponent of the price.
    floor : float, >= 0
        Minimum sending rate, in packets per RTT.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    kappa: float = 0.01
    omega: float = 10e6
    interval: float = 0.01
    steepness: float = 1.0
    floor: float = 1.0

    dimensions = {"omega": RATE, "interval": TIME}

    combine = "sum"
    stamping = "arrival"
    fluid_form = SampledPrices()
    main_parameter = "kappa"
    overloads_at_equilibrium = True
    reference_loop = ReferenceLoop(100e6, (0.1,) * 2, "ours")

    def __post_init__(self) -> None:
        object.__setattr__(self, "omega", as_rate(self.omega, "omega"))
        check_number(self, kappa=None, interval=as_delay, steepness=None, floor=0.0)

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(y: float, C: float, p: Params) -> float:
        """THESIS (2.6): the price (y/C)^steepness."""
        return power_price(y, C, p.steepness)

    @staticmethod
    def source_law(x: float, x_rtt: float, R: float, p: Params) -> float:
        """THESIS (2.7)."""
        return x + p.kappa * (p.omega - x_rtt * R)

    @property
    def source_clock(self) -> str:
        return "always"

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        return self.kappa * self.omega

    def params(self) -> dict[str, float]:
        return {
            "kappa": self.kappa,
            "omega": self.omega,
            "interval": self.interval,
            "steepness": self.steepness,
            "floor": self.floor,
        }

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    LinkState = LinkState
    FlowState = FlowState

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float) -> Any:
        return LinkState(price=R, y=y)

    def flow_at(self, x: float, R: float, link: int) -> Any:
        return FlowState(x=x, x_rtt=x)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_start": price_feedback.link_on_start, "on_arrival": link_on_arrival, "on_interval": on_interval}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_send": flow_on_send, "on_ack": flow_on_ack, "on_timer": flow_on_timer}

    # ---- equilibrium and bounds --------------------------------------------------------------------------

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point at which x_i times its path's price is omega, by Newton on the objective in log x."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Kelly receive the feedback of all links of their route")
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
        """Johari and Tan: kappa sum_l (p_l + y_l p_l') < 2 sin(pi/(2 (2 D_i - 1))) for every flow i.

        Johari and Tan prove it for equal RTTs and conjecture it for any; Tian and Yang (2004) prove the latter.
        """
        rtts, price = network.rtts, self.equilibrium(network).fair_rate
        steps = np.maximum(1.0, np.ceil(rtts / self.interval - 1e-9))
        felt = (1.0 + self.steepness) * np.where(network.incidence, price, 0.0).sum(axis=1)
        value = float(np.min(2.0 * np.sin(pi / (2.0 * (2.0 * steps - 1.0))) / felt))
        is_exact = network.n_links == 1 and bool(np.all(steps == steps[0]))
        kind, hypotheses = ("necessary and sufficient", "equal RTTs") if is_exact else ("sufficient", "any RTTs")
        return [Bound("Johari and Tan 2001 (THESIS II.D.2)", "kappa", value, kind, "discrete", hypotheses)]


source_law = Kelly.source_law


def link_on_arrival(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet, and add the link's price to it."""
    link.arrived += env.packet_size
    if env.kind == 0:
        header.price += link.price
        header.ticks += link.ticks


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Start at the law's step from rate 0; a flow started at an equilibrium sends at its rate."""
    if flow.x == 0.0:
        flow.x = source_law(0.0, 0.0, 0.0, p)
    env.rate = flow.x


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Write the rate into the packet."""
    header.x = flow.x


def flow_on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Record the price and the rate that it refers to; the first price starts the clock."""
    if flow.ticks == 0 and header.ticks > 0:
        env.timer = p.interval
    flow.ticks = header.ticks
    flow.price = header.price
    flow.x_rtt = header.x


def flow_on_timer(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Take one step of the source law."""
    flow.x = max(source_law(flow.x, flow.x_rtt, flow.price, p), rate_feedback.minimum_rate(p, env))
    env.rate = flow.x
    env.timer = p.interval
