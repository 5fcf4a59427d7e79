"""DCQCN: rates of RDMA hosts controlled by marks (Zhu et al. 2015), and its fluid model (Zhu et al. 2016).

    a packet is marked with      p(q) = 0 | p_max (q - K_min)/(K_max - K_min) | 1      as it leaves the queue q behind
    x_T <- x,  x <- x (1 - alpha/2),  alpha <- (1 - g) alpha + g      a CNP, for all marks in an interval of tau or more
    alpha <- (1 - g) alpha                                            tau' without a CNP
    x <- (x + x_T)/2                                                  an increase, after B bytes or after T
    x_T <- x_T + R_AI                                                 before an increase, after F of one kind

    x  rate [bit/s]    x_T  target    alpha  averaged congestion                   2015, sec. 3.1 and (1)-(4)

As mean fluid, with r = x(t - D), p the share of marks that the flow receives, s its packets: m(n) = 1 - (1 - p)^n is
the probability of a mark among n packets, e(n) = p (1 - p)^n/(1 - (1 - p)^n) that of completing n unmarked packets:

    x'     = -x alpha m(tau r)/(2 tau) + (x_T - x)/2 r [e(B) + e(T r)]                                        2016, (7)
    x_T'   = -(x_T - x) m(tau r)/tau + R_AI r [(1 - p)^(F B) e(B) + (1 - p)^(F T r) e(T r)]                   2016, (6)
    alpha' = g [m(tau' r) - alpha]/tau'                                                                       2016, (5)

(r, B in packets there.) Above K_max all packets are marked. Like theirs, the fluid omits hyper increase. A path marks
with the sum of the shares of its links, a few percent in all.

Hosts respond to marks of any discipline: over `PI(mark=True, ...)` they are the PI variant of 2016. A CNP is a packet
of 64 bytes on the path of ACKs. For marks less than tau after a CNP, the next CNP follows the first packet after tau.
Hyper increase adds R_HAI instead of R_AI, after more than F increases of both kinds. Losses have no response.

At equilibrium each p has a single x. One link has x = C/N and a single p, to first order p^3 = R_AI/(tau' r^2) [1/B +
1/(T r)]^2 (in packets; their (14) is a sixth to a third too large). If p exceeds p_max no equilibrium exists, as no
queue marks between p_max and 1: with the defaults, for 15 flows or more. Their loop has a delay tau*, this one the
delay of its path: the queueing delay acts on r but not on marks, since packets are marked as they leave the queue.
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
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.laws.elementary import exp, log
from ecc.models.shared.clock import has_come
from ecc.models.shared.equilibria import full_links
from ecc.models.shared.rate_feedback import minimum_rate
from ecc.network.network import Network

MIN_RATE = 1.0  # bit/s: laws divide by rates
RARE = 1e-5  # expected marks below which their second power is neglected
MIN_INCREASES = 1e-300  # 1/s: if all packets are marked there are no increases, and the target would be infinite
NO_COUNTER = 2.0**60  # bytes: a byte counter this large counts as absent
CNP_BYTES = 64  # size of a CNP on links
ALPHA = 0  # index of the timer that decays alpha; the other timer increases rates
ABOVE = 1e-9  # share by which a flow at line rate would exceed it, so that a link of the same rate marks
CERTAIN = 1.0 - 1e-6  # maximum probability of a mark: logarithms need a value below 1


def marking(q: float, p: Params) -> float:
    """2016, (3): the share of packets marked at a queue of q bits."""
    if q <= 8.0 * p.min_threshold:
        return 0.0
    if q <= 8.0 * p.max_threshold:
        return p.p_max * (q / 8.0 - p.min_threshold) / (p.max_threshold - p.min_threshold)
    return 1.0


def cut(x: float, alpha: float) -> float:
    """2015, (1): the rate after a CNP."""
    return x * (1.0 - 0.5 * alpha)


def recovered(x: float, target: float) -> float:
    """2015, (3) and (4): the rate after a timer or a byte counter."""
    return 0.5 * (x + target)


def raised_alpha(alpha: float, p: Params) -> float:
    """2015, (1): alpha after a CNP."""
    return (1.0 - p.g) * alpha + p.g


def decayed_alpha(alpha: float, p: Params) -> float:
    """2015, (2): alpha after `alpha_interval` without a CNP."""
    return (1.0 - p.g) * alpha


def unmarked(R: float, n: float) -> float:
    """The probability that n packets have no mark."""
    return exp(n * log(1.0 - min(R, CERTAIN)))


def ends(R: float, n: float) -> float:
    """e(n): the number of completed runs of n unmarked packets, per packet."""
    if R * n < RARE:
        return 1.0 / n - 0.5 * R * (1.0 + 1.0 / n)
    clear = unmarked(R, n)
    return R * clear / (1.0 - clear)


def resting(x: float, R: float, s: float, p: Params) -> tuple[float, float]:
    """Alpha and the target at which both are constant."""
    r = x / s
    increases = r * (ends(R, 8.0 * p.byte_counter / s) + ends(R, p.increase_interval * r))
    cuts = (1.0 - unmarked(R, p.interval * r)) / p.interval
    alpha = 1.0 - unmarked(R, p.alpha_interval * r)
    return alpha, x * (1.0 + alpha * cuts / max(increases, MIN_INCREASES))


def alpha_law(x_rtt: float, R: float, s: float, alpha: float, p: Params) -> float:
    """2016, (5)."""
    r = max(x_rtt, MIN_RATE) / s
    return p.g * (1.0 - unmarked(R, p.alpha_interval * r) - alpha) / p.alpha_interval


def target_law(x: float, x_rtt: float, R: float, s: float, target: float, p: Params) -> float:
    """2016, (6)."""
    r = max(x_rtt, MIN_RATE) / s
    B, n = 8.0 * p.byte_counter / s, p.increase_interval * r
    cuts = (1.0 - unmarked(R, p.interval * r)) / p.interval
    raises = r * (unmarked(R, p.fast_recovery * B) * ends(R, B) + unmarked(R, p.fast_recovery * n) * ends(R, n))
    return (x - target) * cuts + p.rate_ai * raises


@dataclass
class FlowState:
    """A flow's state: that of its sender (the reaction point) and that of its receiver (the notification point)."""

    x: float = 0.0  # sending rate [bit/s]
    target: float = 0.0  # x_T [bit/s]
    alpha: float = 1.0
    timer_increases: float = 0.0  # increases by the timer since the last CNP
    byte_increases: float = 0.0  # increases by the byte counter since the last CNP
    marked: int = 0  # volume received with marks since the last CNP was sent [bytes]
    notified: float = -inf  # time at which it was sent [s]


@dataclass(frozen=True)
class DCQCN(Protocol):
    """DCQCN.

    Parameters
    ----------
    line_rate : float, bit/s, > 0
        Initial rate, and maximum of the target.
    g : float, in (0, 1]
        Weight of a CNP, or of an `alpha_interval` without one, in alpha.
    interval : float, s, > 0
        Minimum time between two CNPs of a flow, tau, for example 50 us.
    alpha_interval : float, s, > 0
        Time without a CNP after which alpha decays, tau'.
    increase_interval : float, s, > 0
        Time after which the timer increases a rate, T.
    byte_counter : int, bytes, > 0
        Volume sent after which the byte counter increases a rate, B; 2^60 or more: no byte counter.
    fast_recovery : float, >= 0
        Number of increases of one kind after a CNP that leave the target unchanged, F.
    rate_ai, rate_hai : float, bit/s, > 0
        Additive increase of the target after fast recovery, and after fast recovery of both kinds.
    min_threshold, max_threshold : int, bytes, > 0
        Queues above which marks begin, and above which all packets are marked.
    p_max : float, in (0, 1]
        Share marked at `max_threshold`.
    floor : float, > 0
        Minimum sending rate, in packets per RTT.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; `max_threshold` not above `min_threshold`.
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
        "line_rate": RATE,
        "rate_ai": RATE,
        "rate_hai": RATE,
        "interval": TIME,
        "alpha_interval": TIME,
        "increase_interval": TIME,
        "byte_counter": SIZE,
        "min_threshold": SIZE,
        "max_threshold": SIZE,
    }

    combine = "sum"
    source_clock = "continuous"
    ecn_echo = "accurate"
    gives: ClassVar[frozenset[str]] = frozenset({"ecn"})
    answers: ClassVar[frozenset[str]] = frozenset({"ecn"})
    n_timers = 2
    required_env = frozenset({"random"})
    main_parameter = "rate_ai"
    equilibrium_is_static = False
    header_bytes = (0, 0)
    phase_jitter = "line rate"

    operating_range = OperatingRange((10e9, 40e9), (20e-6, 40e-6), convergence=1000.0)
    reference_loop = ReferenceLoop(40e9, (4e-6,) * 10, "ECN-DELAY sec. 3.2, fig. 4", 1000)

    def __post_init__(self) -> None:
        for name in ("line_rate", "rate_ai", "rate_hai"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        for name in ("byte_counter", "min_threshold", "max_threshold"):
            object.__setattr__(self, name, as_size(getattr(self, name), name))
        check_number(
            self,
            g=None,
            interval=as_delay,
            alpha_interval=as_delay,
            increase_interval=as_delay,
            fast_recovery=0.0,
            p_max=None,
            floor=None,
        )
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
        """Return the protocol with the parameters of Mellanox's adapters, from the simulator of HPCC (2019).

        Values in bit/s and bytes, given there for 25 Gb/s, scale with the line rate, without the byte counter. The laws
        are still those of 2015; the simulator uses separate clocks for alpha and for rate reductions.

        Parameters
        ----------
        line_rate : float, bit/s, > 0, optional
            Rate of the hosts' interfaces.
        **others : object
            Other parameters of DCQCN, for example `p_max=0.1`.
        """
        rate = as_rate(line_rate, "line_rate")
        share = rate / 25e9
        values: dict[str, Any] = {
            "interval": 4e-6,
            "alpha_interval": 1e-6,
            "increase_interval": 300e-6,
            "byte_counter": int(NO_COUNTER),
            "fast_recovery": 1.0,
            "rate_ai": 5e6 * share,
            "rate_hai": 50e6 * share,
            "min_threshold": round(100e3 * share),
            "max_threshold": round(400e3 * share),
            "p_max": 0.2,
        }
        return cls(rate, **(values | others))

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, p: Params) -> float:
        """2016, (3): the share that a link marks; a path has the sum of its links' shares."""
        return marking(q, p)

    @staticmethod
    def source_law(x: float, x_rtt: float, R: float, s: float, alpha: float, target: float, p: Params) -> float:
        """2016, (7): the derivative of the rate."""
        r = max(x_rtt, MIN_RATE) / s
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
        """The line rate."""
        return self.line_rate

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_receive": flow_on_receive,
            "on_control": flow_on_control,
            "on_timer": flow_on_timer,
            "on_count": flow_on_count,
        }

    def flow_at(self, x: float, R: float, link: int, alpha: float = 1.0, target: float = 0.0) -> Any:
        """Return the state of a flow with alpha and target in steady state."""
        return FlowState(x=x, alpha=alpha, target=target)

    # ---- equilibrium -------------------------------------------------------------------------------------

    def resting(self, x: float, R: float, s: float) -> tuple[float, float]:
        """Return alpha and the target [bit/s] of a flow with a constant rate x and share R of marks.

        Parameters
        ----------
        x : float, bit/s
            Rate.
        R : float
            Share of packets marked.
        s : float, bit
            Packet size.
        """
        x, R, s = as_number(x, "x", positive=True), as_number(R, "R", minimum=0.0), as_number(s, "s", minimum=1.0)
        return resting(x, R, s, self.namespace())

    def resting_rate(self, R: float, s: float) -> float:
        """Return the stationary rate [bit/s] of a flow with a share R of marks, at which the target is constant too.

        If the line rate limits it, the result exceeds `line_rate` by a rounding error, so that a link of that rate is
        full.

        Parameters
        ----------
        R : float
            Share of packets marked.
        s : float, bit
            Packet size.
        """
        from scipy.optimize import brentq

        R, s = as_number(R, "R", minimum=0.0), as_number(s, "s", minimum=1.0)
        p = self.namespace()

        def growth(log_x: float) -> float:
            x = exp(log_x)
            return target_law(x, x, R, s, resting(x, R, s, p)[1], p) / x

        log_line_rate = log(self.line_rate)
        if R <= 0.0 or growth(log_line_rate) >= 0.0:
            return self.line_rate * (1.0 + ABOVE)
        if growth(0.0) <= 0.0:
            return MIN_RATE
        log_x, result = brentq(
            growth, 0.0, log_line_rate, xtol=1e-14, rtol=1e-14, maxiter=500, full_output=True, disp=False
        )
        if not result.converged:
            raise LinearizationError(f"DCQCN has no stationary rate for a share {R:g} of marked packets")
        return exp(float(log_x))

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return Zhu et al.'s fixed point (2016, Theorem 1), on any network; `fair_rate` is a link's share of marks."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of DCQCN respond to the marks of their whole path")
        packets = [8.0 * flow.mean_packet for flow in network.flows]

        def demand(marks: NDArray[np.float64]) -> NDArray[np.float64]:
            by_key = {key: self.resting_rate(*key) for key in set(zip(marks.tolist(), packets, strict=True))}
            return np.array([by_key[key] for key in zip(marks.tolist(), packets, strict=True)])

        marks = full_links(network, demand, "DCQCN", "each share of marks has one rate", np.zeros(network.n_flows))
        rates = demand(network.incidence @ marks)
        if np.any(alone := network.incidence @ marks <= 0.0):
            flow = int(alone.argmax())
            loads = network.incidence.T @ rates
            link = max(network.flows[flow].route, key=lambda index: loads[index] / network.capacities[index])
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
    """The congestion point: mark a packet by the queue that it leaves behind."""
    if env.random < marking(8.0 * env.queue, p):
        env.mark = 1


def flow_on_receive(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """The notification point: send a CNP for marks, with the first packet that is `interval` after the last CNP."""
    flow.marked += env.marked
    if flow.marked > 0 and has_come(env.now, flow.notified + p.interval):
        env.control_size = CNP_BYTES
        flow.marked = 0
        flow.notified = env.now


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start at the line rate; timers and counter start with the first CNP."""
    flow.x = p.line_rate
    flow.target = p.line_rate
    env.rate = flow.x


def flow_on_control(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """A CNP: reduce the rate, and restart timers and counter."""
    flow.target = flow.x
    minimum = minimum_rate(p, env) if env.rtt > 0.0 else 0.0  # a CNP may arrive before the first ACK
    flow.x = max(cut(flow.x, flow.alpha), minimum)
    flow.alpha = raised_alpha(flow.alpha, p)
    flow.timer_increases = 0.0
    flow.byte_increases = 0.0
    env.rate = flow.x
    env.timer = p.alpha_interval
    env.timer_1 = p.increase_interval
    env.counter = int(p.byte_counter)


def flow_on_timer(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Let alpha decay, or increase the rate."""
    if env.kind == ALPHA:
        flow.alpha = decayed_alpha(flow.alpha, p)
        env.timer = p.alpha_interval
    else:
        increase(flow, p, env)
        flow.timer_increases += 1.0
        env.timer_1 = p.increase_interval


def flow_on_count(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Increase the rate after B bytes."""
    increase(flow, p, env)
    flow.byte_increases += 1.0
    env.counter = int(p.byte_counter)


def increase(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """2015, figure 7: fast recovery, additive or hyper increase, by the number of increases since the last CNP."""
    by_bytes = flow.byte_increases if p.byte_counter < NO_COUNTER else flow.timer_increases
    if min(flow.timer_increases, by_bytes) > p.fast_recovery:
        flow.target += p.rate_hai
    elif max(flow.timer_increases, by_bytes) >= p.fast_recovery:
        flow.target += p.rate_ai
    flow.target = min(flow.target, p.line_rate)
    flow.x = recovered(flow.x, flow.target)
    env.rate = flow.x
