"""PCC Vivace: rates climb the gradient of a utility that hosts measure (Dong et al., NSDI 2018).

    u(x) = x^t - b x g - c x L                           x [Mb/s], g = dRTT/dt, L share lost        Dong et al. sec. 3
    gamma = (u(x_1) - u(x_2))/(x_1 - x_2)                of two monitor intervals, x_1,2 = r (1 +- epsilon), any first
    r <- r + theta m(k) gamma, at most by omega r        k of them in a row with one sign           sec. 4
    m(k) = k,  2 k - 3 from the fourth on                confidence amplifier
    omega = 0.05 + 0.1 j                                 change boundary: j grows by one where it binds, otherwise falls
                                                         to the least with which it would not; 0 where the sign changes

    t = 0.9    b = 900    c = 11.35    theta = 1    epsilon = 0.05

An interval lasts for a smoothed RTT, and for 5 packets; its results take one more, in which r is sent. |g| < 0.01
counts as 0. Flows begin with the first window in an RTT, and double it in each interval whose utility is more than that
of the one before; then they halve it and probe. m, omega and 0.01 are as in WebRTC's Vivace of 2018.

form="pcc-uspace" is the authors' program (PCCproject/PCC-Uspace):

    g                    negative ones are 0, and those below the deviation of RTTs from their line, over the mean RTT
    probing              three pairs: up if two say so, down if all three do, once more otherwise
    moving               from r (1 +- epsilon) on by single intervals, gamma of the last two, m(k) = [(k + 1)/2]^1.2
    omega                0.05 + 0.05 j: j falls by one where it does not bind
    a step               back where utility falls or rates do not go as decided, and then probing; at least 0.5 Mb/s
    an interval          the least RTT

(there gamma is by Mb of 2^20 bit; what it keeps of six intervals, to find slow rises of RTTs, is not here). Rates are
at least `min_rate`; no more than two windows r D_s are in flight, which binds in outages alone.

Equilibrium: on one link of capacity C the queue grows by g = (S - C)/C, S the sum of rates, to which a flow's x adds
x/C. So none of n flows with C/n gains by more if b/n >= t (C/n)^(t-1), a condition that is ascribed to the paper

    b >= t n^(2-t) C^(t-1),   C in Mb/s.

(Nor does any that has (t C/b)^(1/(2-t)) or more, in any split of C; climbing evens rates out, slowly.) With less b
the queue grows until the buffer is full, where RTTs are constant; then L = 1 - C/S and t x^(t-1) = c (1 - C/S +
x C/S^2), or S = C if c >= t n^(2-t) C^(t-1). With g clipped nothing empties a queue: it may be any.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import RATE, QuantityField, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.parameters import check_choice, check_number
from ecc.errors import LinearizationError
from ecc.models import monitor_intervals
from ecc.models.shared import delivery_rate, windows
from ecc.network.network import Network

STARTING, PROBING, MOVING = range(3)
STATES = ("Starting", "Probing", "Moving")
"""Names of `FlowState.state`."""
FORMS = ("paper", "pcc-uspace")

FIRST_RTT, LEAST_PACKETS, IN_FLIGHT = 0.1, 5, 2.0  # s; in an interval; windows
GRADIENT_FLOOR, BOUNDARY, BOUNDARY_STEP = 0.01, 0.05, 0.1
USPACE_PAIRS, USPACE_AMPLIFIER, USPACE_BOUNDARY_STEP, USPACE_STEP, USPACE_MEGABIT = 3, 1.2, 0.05, 0.5e6, 2.0**20


@dataclass
class FlowState(monitor_intervals.FlowState):
    """A host's state for one flow; rates in bit/s, utilities of Mb/s."""

    state: int = STARTING
    x: float = 0.0  # the rate around which it probes
    first: int = 1  # interval with which the running experiment begins
    needed: int = 1  # of how many intervals it is
    ends: int = 0  # 1: the next packet begins an interval
    direction: int = 0  # 1: up, -1: down
    confidence: int = 0  # k
    boundary: int = 0  # j
    utility: float = 0.0  # to beat
    utility_rate: float = 0.0  # target of the interval that had it


@dataclass(frozen=True, kw_only=True)
class Vivace(windows.WindowProtocol):
    """PCC Vivace.

    Parameters
    ----------
    t : float, in (0, 1)
        Exponent of the rate in the utility.
    b, c : float, >= 0
        Weights of the RTT's gradient and of losses.
    epsilon : float, in (0, 1)
        By which share of it probes are above and below a rate.
    theta : float, > 0
        Rate [Mb/s] by unit of the utility's slope.
    min_rate : float, bit/s, > 0
        Least rate.
    form : str
        "paper", or "pcc-uspace" (the authors' program).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        As of every `WindowProtocol`; L plays no part. `restart` is "none": the rate stays after an idle period.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    t: float = 0.9
    b: float = 900.0
    c: float = 11.35
    epsilon: float = 0.05
    theta: float = 1.0
    min_rate: QuantityField = default(0.5e6)
    form: str = "paper"
    transport: str = "rack"
    initial: float | None = 10.0
    restart: str = "none"

    dimensions = {"min_rate": RATE}

    may_use_prr = False
    restarts = ("none",)
    slow_start_law = None
    loss_response_law = None
    required_env = frozenset({"random"})
    linear_refusal = "Vivace has no linear model: at its equilibrium its utility has a kink, and no slope"
    fluid_refusal = (
        "Vivace has no fluid model: the slope of its utility needs the capacities of links beside their feedback, and "
        "laws of hosts get one number of a path"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "min_rate", as_rate(self.min_rate, "min_rate"))
        check_number(self, t=None, b=0.0, c=0.0, epsilon=None, theta=None)
        for name in ("t", "epsilon"):
            if getattr(self, name) >= 1.0:
                raise ValueError(f"{name} must be > 0 and < 1, got {shown(getattr(self, name))}")
        check_choice(self, "form", FORMS)
        super().__post_init__()

    def params(self) -> dict[str, float]:
        own = {name: getattr(self, name) for name in ("t", "b", "c", "epsilon", "theta", "min_rate")}
        return {**own, "form": float(FORMS.index(self.form)), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = monitor_intervals.Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start, "on_send": flow_on_send, "on_receive": delivery_rate.on_receive,
            "on_ack": flow_on_ack,
        }  # fmt: skip

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, **values: float) -> Any:
        raise ValueError("start must be 'empty' for packets of Vivace: it moves rates by the monitor intervals before")

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Equal rates on one link; with a queue that is full, and losses, where b is too small for the flows.

        Parameters
        ----------
        network : Network
            Network of one link.
        assignment : None

        Raises
        ------
        LinearizationError
            Several links; or b too small, and no buffer that ends the queue's growth.
        """
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Vivace answer the RTT of their whole path")
        if network.n_links != 1:
            raise LinearizationError(f"the equilibrium of Vivace is known on one link, got {network.n_links} links")
        n, C = network.n_flows, float(network.capacities[0])
        least = least_weight(n, C, self.t)
        rate, queue = C / n, 0.0
        notes: tuple[str, ...] = ()
        if self.b < least:
            buffer = network.links[0].buffer
            if buffer is None:
                raise LinearizationError(
                    f"Vivace has no equilibrium here: b must be >= {least:g} for {n} flows at {C:g} bit/s, got "
                    f"{self.b:g}, and no buffer ends the queue's growth"
                )
            rate, queue = self._rate_with_losses(n, C), 8.0 * buffer
        elif self.form == "pcc-uspace":
            notes = ("with gradients clipped to 0 no queue is emptied: it may be any",)
        return Equilibrium(
            np.full(n, rate), np.array([queue / C]), np.full(n, -1, dtype=np.int64), np.array([queue]), notes
        )

    def _rate_with_losses(self, n: int, C: float) -> float:
        """Return the rate at which a full buffer's losses cost a flow as much as its rate is worth."""
        if self.c >= least_weight(n, C, self.t):
            return C / n
        if self.c == 0.0:
            raise LinearizationError("Vivace has no equilibrium here: c must be > 0 where the buffer is full, got 0")

        def slope(x: float) -> float:
            S = n * x
            return float(self.t * (1e-6 * x) ** (self.t - 1.0) - self.c * (1.0 - C / S + x * C / (S * S)))

        low, high = C / n, 2.0 * C / n
        for _ in range(2000):
            if slope(high) <= 0.0:
                break
            high *= 2.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
        return 0.5 * (low + high)


def least_weight(flows: int, capacity: float, t: float) -> float:
    """Return t n^(2-t) C^(t-1), C in Mb/s: the least b with which no queue is worth its wait, and the least c.

    Parameters
    ----------
    flows : int
    capacity : float
        [bit/s].
    t : float
    """
    return float(t * flows ** (2.0 - t) * (1e-6 * capacity) ** (t - 1.0))


def utility(x: float, g: float, L: float, p: Params) -> float:
    """Dong et al. sec. 3, of a rate in Mb/s."""
    return exp(p.t * log(x)) - p.b * x * g - p.c * x * L


def utility_of(flow: Any, interval: int, p: Params) -> float:
    """The utility of an interval that is complete."""
    g = monitor_intervals.gradient(flow, interval)
    if p.form == 0.0:
        if abs(g) < GRADIENT_FLOOR:
            g = 0.0
    elif g > 0.0:
        if g <= monitor_intervals.deviation(flow, interval) / monitor_intervals.mean_rtt(flow, interval):
            g = 0.0
    else:
        g = 0.0
    return utility(1e-6 * monitor_intervals.rate(flow, interval), g, monitor_intervals.loss(flow, interval), p)


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """The first window, over an RTT that is not known."""
    windows.flow_on_start(flow, header, p, env)
    flow.x = 8.0 * env.window / FIRST_RTT
    env.rate = flow.x


def flow_on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Begin an interval where the last is over, with the rate that is its own."""
    k = flow.number % monitor_intervals.SLOTS
    lasts = env.srtt if p.form == 0.0 else env.min_rtt
    is_over = env.now - flow.began[k] >= lasts and flow.sent_in[k] >= LEAST_PACKETS * env.packet_size
    is_measured = flow.number < flow.first + flow.needed  # what comes after lasts until its results are there
    if flow.number == 0 or flow.ends > 0 or (is_measured and is_over):
        flow.ends = 0
        monitor_intervals.begin(flow, probe_rate(flow, p, env), env)
        env.rate = flow.target[flow.number % monitor_intervals.SLOTS]
    monitor_intervals.on_send(flow, header, p, env)


def probe_rate(flow: Any, p: Params, env: FlowEnv) -> float:
    """The rate of the interval that begins: of a pair, above and below x in random order."""
    index = flow.number + 1 - flow.first
    center: float = flow.x
    if flow.state != PROBING or index >= flow.needed:
        return center
    if index % 2 == 0:
        flow.direction = 1 if env.random < 0.5 else -1
    else:
        flow.direction = -flow.direction
    probe: float = center * (1.0 + flow.direction * p.epsilon)
    return probe


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Once the intervals of an experiment are complete, choose the next rate."""
    if flow.delivered == 0:
        flow.x *= max(FIRST_RTT / env.rtt, 1.0)
        flow.ends = 1
        flow.first = flow.number + 1
    monitor_intervals.on_ack(flow, header, p, env)
    last = flow.first + flow.needed - 1
    if flow.number > last and monitor_intervals.is_complete(flow, last):
        if flow.state == STARTING:
            end_of_doubling(flow, p)
        elif p.form == 0.0:
            step(flow, p)
        elif flow.state == PROBING:
            uspace_probed(flow, p)
        else:
            uspace_moved(flow, p)
        flow.x = max(flow.x, p.min_rate)
        flow.needed = pairs(p) * 2 if flow.state == PROBING else 1
        flow.first = flow.number + 1
        flow.ends = 1
    env.window = max(IN_FLIGHT * flow.x * env.srtt / 8.0, windows.first_window(1.0 * env.packet_size, p))


def pairs(p: Params) -> int:
    """How many pairs of probes make a decision."""
    return 1 if p.form == 0.0 else USPACE_PAIRS


def end_of_doubling(flow: Any, p: Params) -> None:
    """Double as long as utility grows."""
    found = utility_of(flow, flow.first, p)
    if found > flow.utility:
        flow.utility = found
        flow.x *= 2.0
    else:
        flow.x *= 0.5
        flow.state = PROBING


def slope_of_pair(flow: Any, first: int, p: Params) -> float:
    """gamma of two intervals, the second next to the first."""
    step_up = flow.target[first % monitor_intervals.SLOTS] - flow.target[(first + 1) % monitor_intervals.SLOTS]
    gamma: float = (utility_of(flow, first, p) - utility_of(flow, first + 1, p)) / (1e-6 * step_up)
    return gamma


# ---- the paper's steps -----------------------------------------------------------------------------------------------


def step(flow: Any, p: Params) -> None:
    """Sec. 4: the confidence amplifier and the dynamic change boundary."""
    gamma = slope_of_pair(flow, flow.first, p)
    sign = 1 if gamma > 0.0 else -1
    if sign * flow.confidence < 0:
        flow.confidence = 0
        flow.boundary = 0
    flow.confidence += sign
    k = abs(flow.confidence)
    change = 1e6 * p.theta * abs(gamma) * (k if k <= 3 else 2 * k - 3)
    if change > (BOUNDARY + BOUNDARY_STEP * flow.boundary) * flow.x:
        change = (BOUNDARY + BOUNDARY_STEP * flow.boundary) * flow.x
        flow.boundary += 1
    else:
        steps = max((change / flow.x - BOUNDARY) / BOUNDARY_STEP, 0.0)
        flow.boundary = int(steps) + (1 if steps > int(steps) else 0)
    flow.x += sign * change


# ---- the program's ---------------------------------------------------------------------------------------------------


def uspace_probed(flow: Any, p: Params) -> None:
    """What three pairs say, and the first step away from their rate."""
    up = 0
    for pair in range(USPACE_PAIRS):
        if slope_of_pair(flow, flow.first + 2 * pair, p) > 0.0:
            up += 1
    if up == 1:
        flow.state = STARTING if flow.x <= p.min_rate else PROBING
        return
    flow.direction = 1 if up > 1 else -1
    gamma = 0.0
    for pair in range(USPACE_PAIRS):
        first = flow.first + 2 * pair
        slope = slope_of_pair(flow, first, p)
        if slope * flow.direction > 0.0:
            gamma += abs(slope) / USPACE_PAIRS
            best = first
            if utility_of(flow, first + 1, p) > utility_of(flow, first, p):
                best = first + 1
            flow.utility = utility_of(flow, best, p)
            flow.utility_rate = flow.target[best % monitor_intervals.SLOTS]
    flow.boundary = 0
    flow.confidence = 1
    flow.state = MOVING
    flow.x *= 1.0 + flow.direction * p.epsilon
    uspace_go(flow, flow.direction * uspace_change(flow, gamma, 1.0, p), p)


def uspace_moved(flow: Any, p: Params) -> None:
    """Go on in the direction that was decided, or go back and probe."""
    found = utility_of(flow, flow.first, p)
    target = flow.target[flow.first % monitor_intervals.SLOTS]
    gamma = (found - flow.utility) / (1e-6 * (target - flow.utility_rate)) if target != flow.utility_rate else 0.0
    if gamma * flow.direction > 0.0:
        flow.confidence += 1
        flow.utility = found
        flow.utility_rate = target
        uspace_go(flow, flow.direction * uspace_change(flow, abs(gamma), amplified(flow.confidence), p), p)
    else:
        flow.confidence = 1
        flow.x -= flow.direction * uspace_change(flow, abs(gamma), 1.0, p)
        flow.state = PROBING


def uspace_go(flow: Any, change: float, p: Params) -> None:
    """A step; below the least rate it begins anew."""
    flow.x += change
    if flow.x < p.min_rate:
        flow.boundary = 0
        flow.state = PROBING


def uspace_change(flow: Any, gamma: float, amplifier: float, p: Params) -> float:
    """A step's size [bit/s]."""
    change = USPACE_MEGABIT * USPACE_MEGABIT * 1e-6 * p.theta * gamma * amplifier
    most = (BOUNDARY + USPACE_BOUNDARY_STEP * flow.boundary) * flow.x
    if change > most:
        change = most
        flow.boundary += 1
    elif flow.boundary > 0:
        flow.boundary -= 1
    return max(change, USPACE_STEP)


def amplified(k: int) -> float:
    """[(k + 1)/2]^1.2, by whole numbers."""
    return exp(USPACE_AMPLIFIER * log(1.0 * ((k + 1) // 2)))
