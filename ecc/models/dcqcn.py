"""DCQCN: rates of RDMA hosts by marks of the queue (Zhu et al. 2015), and its fluid (Zhu et al. 2016).

    a packet is marked with      p(q) = 0 | p_max (q - K_min)/(K_max - K_min) | 1      as it leaves the queue q behind
    x_T <- x,  x <- x (1 - alpha/2),  alpha <- (1 - g) alpha + g      a CNP: tau apart at least, one for all marks since
    alpha <- (1 - g) alpha                                            tau' without a CNP
    x <- (x + x_T)/2                                                  B bytes sent, or T, since the last of its kind;
    x_T <- x_T + R_AI  before that                                    ... more than F of either since the CNP

    x  rate [bit/s]    x_T  target    alpha  averaged congestion                   2015, sec. 3.1 and (1)-(4)

As mean fluid, with r = x(t - D) and p what the flow learns now, s its packets; m(n) = 1 - (1 - p)^n is the chance that
n packets hold a mark, and e(n) = p (1 - p)^n/(1 - (1 - p)^n) that of a packet to end n without one:

    x'     = -x alpha m(tau r)/(2 tau) + (x_T - x)/2 r [e(B) + e(T r)]                                        2016, (7)
    x_T'   = -(x_T - x) m(tau r)/tau + R_AI r [(1 - p)^(F B) e(B) + (1 - p)^(F T r) e(T r)]                   2016, (6)
    alpha' = g [m(tau' r) - alpha]/tau'                                                                       2016, (5)

(r, B in packets there.) Beyond K_max all packets are marked. Fluid leaves out hyper increase, which they do too. A path
marks with the sum of what its links do, which are no more than a few percent.

Hosts answer marks of any discipline: over `PI(mark=True, ...)` they are the PI variant of 2016. A CNP is a packet of
64 bytes that takes the way of ACKs; for marks less than tau after one, the next goes with the first packet after tau.
Hyper increase adds R_HAI, not R_AI, where both kinds have come more than F times. No loss is answered.

At rest x is the only one for its p: one link has x = C/N and one p, of first order p^3 = R_AI/(tau' r^2) [1/B +
1/(T r)]^2 (in packets; their (14), a sixth to a third too large). Where it is beyond p_max there is no rest, as no
queue marks between p_max and 1: with the defaults, from 15 flows on. Their loop has a delay tau*, ours that of its
path: what the queue adds to the RTT delays r, and marks, which packets take on as they leave the queue, not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import (
    RATE,
    SIZE,
    TIME,
    Quantity,
    QuantityField,
    SizeField,
    as_delay,
    as_number,
    as_rate,
    as_size,
    default,
)
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.laws.elementary import exp, log
from ecc.models.shared.clock import has_come
from ecc.models.shared.equilibria import full_links
from ecc.models.shared.rate_feedback import minimum_rate
from ecc.network.network import Network

LEAST_RATE = 1.0  # bit/s: laws divide by rates
RARE = 1e-5  # expected marks below which their second power is left out
LEAST_INCREASES = 1e-300  # 1/s: where all is marked, none is left, and the target would be infinite
NO_COUNTER = 2.0**60  # bytes: there is no byte counter
CNP_BYTES = 64  # of a CNP on links
ALPHA = 0  # the timer after which alpha decays; the other one increases rates
ABOVE = 1e-9  # of a line's rate: by so much a flow would exceed it, so that a link just as fast marks
CERTAIN = 1.0 - 1e-6  # probability of a mark that counts as 1: logarithms need less


def marking(q: float, p: Params) -> float:
    """2016, (3): the share of packets marked at a queue [bit]."""
    if q <= 8.0 * p.min_threshold:
        return 0.0
    if q <= 8.0 * p.max_threshold:
        return p.p_max * (q / 8.0 - p.min_threshold) / (p.max_threshold - p.min_threshold)
    return 1.0


def cut(x: float, alpha: float) -> float:
    """2015, (1): a rate after a CNP."""
    return x * (1.0 - 0.5 * alpha)


def recovered(x: float, target: float) -> float:
    """2015, (3) and (4): a rate after a timer or a byte counter."""
    return 0.5 * (x + target)


def raised_alpha(alpha: float, p: Params) -> float:
    """2015, (1): alpha after a CNP."""
    return (1.0 - p.g) * alpha + p.g


def decayed_alpha(alpha: float, p: Params) -> float:
    """2015, (2): alpha after `alpha_interval` without a CNP."""
    return (1.0 - p.g) * alpha


def unmarked(R: float, n: float) -> float:
    """The chance that n packets hold no mark."""
    return exp(n * log(1.0 - min(R, CERTAIN)))


def ends(R: float, n: float) -> float:
    """e(n): how many of n packets without a mark end, a packet."""
    if R * n < RARE:
        return 1.0 / n - 0.5 * R * (1.0 + 1.0 / n)
    clear = unmarked(R, n)
    return R * clear / (1.0 - clear)


def alpha_law(x_rtt: float, R: float, s: float, alpha: float, p: Params) -> float:
    """2016, (5)."""
    r = max(x_rtt, LEAST_RATE) / s
    return p.g * (1.0 - unmarked(R, p.alpha_interval * r) - alpha) / p.alpha_interval


def target_law(x: float, x_rtt: float, R: float, s: float, target: float, p: Params) -> float:
    """2016, (6)."""
    r = max(x_rtt, LEAST_RATE) / s
    B, n = 8.0 * p.byte_counter / s, p.increase_interval * r
    cuts = (1.0 - unmarked(R, p.interval * r)) / p.interval
    raises = r * (unmarked(R, p.fast_recovery * B) * ends(R, B) + unmarked(R, p.fast_recovery * n) * ends(R, n))
    return (x - target) * cuts + p.rate_ai * raises


@dataclass
class FlowState:
    """A flow's state, that of its sender (the reaction point) and that of its receiver (the notification point)."""

    x: float = 0.0  # sending rate [bit/s]
    target: float = 0.0  # x_T [bit/s]
    alpha: float = 1.0
    timer_increases: float = 0.0  # since the last CNP
    byte_increases: float = 0.0
    marked: int = 0  # came marked since the last CNP was sent [bytes]
    notified: float = -inf  # when that was [s]


@dataclass(frozen=True)
class DCQCN(Protocol):
    """DCQCN.

    Parameters
    ----------
    line_rate : float, bit/s, > 0
        What flows begin with, and the largest target.
    g : float, in (0, 1]
        Weight of a CNP, or of an `alpha_interval` without one, in alpha.
    interval : float, s, > 0
        Least time between two CNPs of a flow, tau.
    alpha_interval : float, s, > 0
        Time without a CNP after which alpha decays, tau'.
    increase_interval : float, s, > 0
        Time after which the timer increases a rate, T.
    byte_counter : int, bytes, > 0
        What is sent until the byte counter increases a rate, B; from 2^60 on: there is none.
    fast_recovery : float, >= 0
        Increases of either kind after a CNP that leave the target as it is, F.
    rate_ai, rate_hai : float, bit/s, > 0
        What is added to the target from then on, and where both kinds have come so far.
    min_threshold, max_threshold : int, bytes, > 0
        Queues at which marks begin, and beyond which all packets are marked.
    p_max : float, in (0, 1]
        Share marked at `max_threshold`.
    floor : float, > 0
        Minimum sending rate, in packets per RTT.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; thresholds that are crossed.
    """

    line_rate: QuantityField = default(40e9)
    g: float = 1.0 / 256.0
    interval: QuantityField = default(50e-6)
    alpha_interval: QuantityField = default(55e-6)
    increase_interval: QuantityField = default(55e-6)
    byte_counter: SizeField = default(10_000_000)
    fast_recovery: float = 5.0
    rate_ai: QuantityField = default(40e6)
    rate_hai: QuantityField = default(400e6)
    min_threshold: SizeField = default(5000)
    max_threshold: SizeField = default(200_000)
    p_max: float = 0.01
    floor: float = 0.01

    dimensions = {
        "line_rate": RATE, "rate_ai": RATE, "rate_hai": RATE, "interval": TIME, "alpha_interval": TIME,
        "increase_interval": TIME, "byte_counter": SIZE, "min_threshold": SIZE, "max_threshold": SIZE,
    }  # fmt: skip

    combine = "sum"
    source_clock = "continuous"
    ecn_echo = "accurate"
    gives: ClassVar[frozenset[str]] = frozenset({"ecn"})
    answers: ClassVar[frozenset[str]] = frozenset({"ecn"})
    n_timers = 2
    required_env = frozenset({"random"})
    times: ClassVar[tuple[str, ...]] = ("continuous",)
    main_parameter = "rate_ai"
    equilibrium_is_static = False
    header_bytes = (0, 0)
    phase_jitter = "line rate"

    operating_range = OperatingRange((10e9, 40e9), (20e-6, 40e-6), convergence=1000.0)

    def __post_init__(self) -> None:
        for name in ("line_rate", "rate_ai", "rate_hai"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        for name in ("byte_counter", "min_threshold", "max_threshold"):
            object.__setattr__(self, name, as_size(getattr(self, name), name))
        check_number(
            self, g=None, interval=as_delay, alpha_interval=as_delay, increase_interval=as_delay, fast_recovery=0.0,
            p_max=None, floor=None,
        )  # fmt: skip
        for name in ("g", "p_max"):
            if getattr(self, name) > 1.0:
                raise ValueError(f"{name} must be <= 1, got {shown(getattr(self, name))}")
        if self.max_threshold <= self.min_threshold:
            raise ValueError(
                f"max_threshold must be > min_threshold ({self.min_threshold} bytes), got {shown(self.max_threshold)}"
            )

    @classmethod
    @check_arguments
    def mellanox(cls, line_rate: Quantity = "25 Gb/s", **others: Any) -> DCQCN:
        """Return the protocol with the parameters of Mellanox' adapters, as the simulator of HPCC has them (2019).

        Those in bit/s and bytes are for 25 Gb/s there, and go with the line. There is no byte counter. The laws stay
        those of 2015; the simulator moves alpha and cuts rates by clocks of their own.

        Parameters
        ----------
        line_rate : float, bit/s, > 0, optional
        **others : object
            Of DCQCN.
        """
        rate = as_rate(line_rate, "line_rate")
        share = rate / 25e9
        values: dict[str, Any] = {
            "interval": 4e-6, "alpha_interval": 1e-6, "increase_interval": 300e-6, "byte_counter": int(NO_COUNTER),
            "fast_recovery": 1.0, "rate_ai": 5e6 * share, "rate_hai": 50e6 * share,
            "min_threshold": round(100e3 * share), "max_threshold": round(400e3 * share), "p_max": 0.2,
        }  # fmt: skip
        return cls(rate, **(values | others))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, p: Params) -> float:
        """2016, (3); of the links of a path, the sum."""
        return marking(q, p)

    @staticmethod
    def source_law(x: float, x_rtt: float, R: float, s: float, alpha: float, target: float, p: Params) -> float:
        """2016, (7): how fast the rate moves."""
        r = max(x_rtt, LEAST_RATE) / s
        B, n = 8.0 * p.byte_counter / s, p.increase_interval * r
        cuts = (1.0 - unmarked(R, p.interval * r)) / p.interval
        return 0.5 * (target - x) * r * (ends(R, B) + ends(R, n)) - 0.5 * x * alpha * cuts

    @property
    def states(self) -> Mapping[str, State]:
        return {
            "alpha": State(alpha_law, "continuous", 1.0, lowest=0.0, highest=1.0),
            "target": State(target_law, "continuous", self.line_rate, unit="bit/s", lowest=0.0, highest=self.line_rate),
        }

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """The line's."""
        return self.line_rate

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start, "on_receive": flow_on_receive, "on_control": flow_on_control,
            "on_timer": flow_on_timer, "on_count": flow_on_count,
        }  # fmt: skip

    def flow_at(self, x: float, R: float, link: int, alpha: float = 1.0, target: float = 0.0) -> Any:
        """Return the state of a flow that has long been notified of the share R of its packets."""
        return FlowState(x=x, alpha=alpha, target=target)

    # ---- equilibrium -------------------------------------------------------------------------------------

    def resting(self, x: float, R: float, s: float) -> tuple[float, float]:
        """Return alpha and the target of a flow that keeps the rate x while the share R is marked [bit/s].

        Parameters
        ----------
        x : float, bit/s
        R : float
        s : float, bit
            Packet.
        """
        x, R, s = as_number(x, "x", positive=True), as_number(R, "R", minimum=0.0), as_number(s, "s", minimum=1.0)
        p = self.namespace()
        r = x / s
        increases = r * (ends(R, 8.0 * p.byte_counter / s) + ends(R, p.increase_interval * r))
        cuts = (1.0 - unmarked(R, p.interval * r)) / p.interval
        alpha = 1.0 - unmarked(R, p.alpha_interval * r)
        return alpha, x * (1.0 + alpha * cuts / max(increases, LEAST_INCREASES))

    def resting_rate(self, R: float, s: float) -> float:
        """Return the rate that a flow keeps while the share R is marked [bit/s]: where the target rests, too.

        It is above `line_rate`, by rounding, where that is what the line allows.

        Parameters
        ----------
        R : float
        s : float, bit
            Packet.
        """
        from scipy.optimize import brentq

        R, s = as_number(R, "R", minimum=0.0), as_number(s, "s", minimum=1.0)
        p = self.namespace()

        def growth(log_x: float) -> float:
            x = exp(log_x)
            return target_law(x, x, R, s, self.resting(x, R, s)[1], p) / x

        most = log(self.line_rate)
        if R <= 0.0 or growth(most) >= 0.0:
            return self.line_rate * (1.0 + ABOVE)
        if growth(0.0) <= 0.0:
            return LEAST_RATE
        log_x, found = brentq(growth, 0.0, most, xtol=1e-14, rtol=1e-14, maxiter=500, full_output=True, disp=False)
        if not found.converged:
            raise LinearizationError(f"DCQCN has no rate that it keeps while {R:g} of its packets are marked")
        return exp(float(log_x))

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Zhu et al.'s fixed point (2016, Theorem 1), on any network; `fair_rate` is the share that a link marks."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of DCQCN answer the marks of their whole path")
        packets = [8.0 * flow.mean_packet for flow in network.flows]

        def demand(marks: NDArray[np.float64]) -> NDArray[np.float64]:
            found = {key: self.resting_rate(*key) for key in set(zip(marks.tolist(), packets, strict=True))}
            return np.array([found[key] for key in zip(marks.tolist(), packets, strict=True)])

        marks = full_links(network, demand, "DCQCN", "a rate is the only one for its marks", np.zeros(network.n_flows))
        rates = demand(network.incidence @ marks)
        if np.any(alone := network.incidence @ marks <= 0.0):
            flow = int(alone.argmax())
            loads = network.incidence.T @ rates
            link = max(network.flows[flow].route, key=lambda one: loads[one] / network.capacities[one])
            raise LinearizationError(
                f"DCQCN has no equilibrium with marks for flow {flow} here: no link of its path is ever full (rates up "
                f"to line_rate = {self.line_rate / 1e9:g} Gb/s sum to {loads[link] / 1e9:g} of "
                f"{network.capacities[link] / 1e9:g} Gb/s at link {link})"
            )
        if marks.max() > self.p_max:
            link = int(marks.argmax())
            raise LinearizationError(
                f"DCQCN has no equilibrium here: link {link} would mark {marks[link]:.3g} of its packets, more than "
                f"p_max = {self.p_max:g} and less than all"
            )
        width = self.max_threshold - self.min_threshold
        queue = np.where(marks > 0.0, 8.0 * (self.min_threshold + width * marks / self.p_max), 0.0)
        path = network.incidence @ marks
        rest = [self.resting(*key) for key in zip(rates.tolist(), path.tolist(), packets, strict=True)]
        alpha, target = (np.array(values) for values in zip(*rest, strict=True))
        feedback = np.full(network.n_flows, -1, dtype=np.int64)
        return Equilibrium(rates, marks, feedback, queue, states={"alpha": alpha, "target": target})


# Hooks ---------------------------------------------------------------------------------------------------------------


def link_on_departure(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """The congestion point: mark by the queue that a packet leaves behind."""
    if env.random < marking(8.0 * env.queue, p):
        env.mark = 1


def flow_on_receive(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """The notification point: a CNP at a mark, or for those of the last `interval` with the first packet after it."""
    flow.marked += env.marked
    if flow.marked > 0 and has_come(env.now, flow.notified + p.interval):
        env.control_size = CNP_BYTES
        flow.marked = 0
        flow.notified = env.now


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open at the rate of the line; nothing is timed or counted until the first CNP."""
    flow.x = p.line_rate
    flow.target = p.line_rate
    env.rate = flow.x


def flow_on_control(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """A CNP: cut the rate; timers and counter begin anew."""
    flow.target = flow.x
    least = minimum_rate(p, env) if env.rtt > 0.0 else 0.0  # a CNP may come before the first ACK
    flow.x = max(cut(flow.x, flow.alpha), least)
    flow.alpha = raised_alpha(flow.alpha, p)
    flow.timer_increases = 0.0
    flow.byte_increases = 0.0
    env.rate = flow.x
    env.timer = p.alpha_interval
    env.timer_1 = p.increase_interval
    env.counter = int(p.byte_counter)


def flow_on_timer(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Let alpha decay, or increase the rate."""
    if env.kind == ALPHA:
        flow.alpha = decayed_alpha(flow.alpha, p)
        env.timer = p.alpha_interval
    else:
        increase(flow, p, env)
        flow.timer_increases += 1.0
        env.timer_1 = p.increase_interval


def flow_on_count(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Increase the rate."""
    increase(flow, p, env)
    flow.byte_increases += 1.0
    env.counter = int(p.byte_counter)


def increase(flow: Any, p: Params, env: FlowEnv) -> None:
    """2015, figure 7: fast recovery, additive or hyper increase, by what came before; up to the rate of the line."""
    by_bytes = flow.byte_increases if p.byte_counter < NO_COUNTER else flow.timer_increases
    if min(flow.timer_increases, by_bytes) > p.fast_recovery:
        flow.target += p.rate_hai
    elif max(flow.timer_increases, by_bytes) >= p.fast_recovery:
        flow.target += p.rate_ai
    flow.target = min(flow.target, p.line_rate)
    flow.x = recovered(flow.x, flow.target)
    env.rate = flow.x
