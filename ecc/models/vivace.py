"""PCC Vivace: rates follow the gradient of a utility that hosts measure (Dong et al., NSDI 2018).

    u(x) = x^t - b x g - c x L                           x [Mb/s], g = dRTT/dt, L share lost        Dong et al. sec. 3
    gamma = (u(x_1) - u(x_2))/(x_1 - x_2)                two monitor intervals, x_1,2 = r (1 +- epsilon), random order
    r <- r + theta m(k) gamma, limited to omega r        k steps in a row with the same sign        sec. 4
    m(k) = k,  2 k - 3 from the fourth on                confidence amplifier
    omega = 0.05 + 0.1 j                                 change boundary: j grows by one if it limits a step, otherwise
                                                         falls to the minimum without a limit; 0 if the sign changes

    t = 0.9    b = 900    c = 11.35    theta = 1    epsilon = 0.05

An interval lasts for a smoothed RTT, and for 5 packets or more. Its results take one more interval, sent at r.
|g| < 0.01 counts as 0. Flows begin with the initial window per RTT, and double it in each interval with a higher
utility than the one before; then they halve it and probe. m, omega and 0.01 are as in WebRTC's Vivace of 2018.

form="pcc-uspace" is the authors' program (PCCproject/PCC-Uspace):

    g                    0 if negative, or below the deviation of RTTs from their line, over the mean RTT
    probing              three pairs: up if two or more agree, down if all three do, otherwise once more
    moving               from r (1 +- epsilon) by single intervals, gamma of the last two, m(k) = [(k + 1)/2]^1.2
    omega                0.05 + 0.05 j: j falls by one if it limits no step
    a step               back if utility falls or rates do not change as decided, and then probing; 0.5 Mb/s or more
    an interval          the minimum RTT

(there gamma is per Mb of 2^20 bit; its memory of six intervals, to detect slow rises of RTTs, is not modeled). Rates
are `min_rate` or more. The flight is limited to two windows r D_s, which matters in outages only.

Equilibrium: on one link of capacity C the queue grows by g = (S - C)/C with S the sum of rates, to which a flow's x
adds x/C. So none of n flows with C/n gains by sending more if b/n >= t (C/n)^(t-1), a condition ascribed to the paper:

    b >= t n^(2-t) C^(t-1),   C in Mb/s.

(The same holds for any flow with (t C/b)^(1/(2-t)) or more, in any split of C; the gradient steps equalize rates
slowly.) With smaller b the queue grows until the buffer is full and RTTs are constant; then L = 1 - C/S and t x^(t-1) =
c (1 - C/S + x C/S^2), or S = C if c >= t n^(2-t) C^(t-1). With g clipped at 0 queues never drain, and any queue
persists.

Small deviations: at S = C the utility has a kink, and gamma jumps from t x^(t-1) to t x^(t-1) - b x/C. No derivative
exists there (`gradient_jacobians` has one for each side), and steps do not shrink: rates cycle around S = C. What can
be proven holds for any order of steps in which flows decide alike:

    a step at its bound            changes rates in proportion, and no ratio of rates changes
    x + theta m t x^(t-1)          reduces all ratios towards 1, as 1 + theta m t x^(t-2) decreases with x
                                   (theta m t (1-t) x^(t-2) < 1, otherwise a ratio may pass 1)

So the largest logarithm of a ratio is a common norm in which no step expands, and increases below the bound contract.
`round_map` has this for the cycle of flows that probe at the same time, the higher rate first. In its continuous model
increases and decreases alternate so fast that S = C (Filippov): dx/dt is x + theta t x^(t-1) in proportion to C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import RATE, QuantityField, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import RoundMap
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.errors import LinearizationError
from ecc.models import monitor_intervals
from ecc.models.shared import delivery_rate, windows
from ecc.models.shared.cycles import cycle_of
from ecc.network.network import Network

STARTING, PROBING, MOVING = range(3)
STATES = ("Starting", "Probing", "Moving")
"""Names of `FlowState.state`."""
FORMS = ("paper", "pcc-uspace")

FIRST_RTT, MIN_PACKETS, IN_FLIGHT = 0.1, 5, 2.0  # s before the first sample; packets of an interval; windows
GRADIENT_FLOOR, BOUNDARY, BOUNDARY_STEP = 0.01, 0.05, 0.1  # gradient that counts; omega at j = 0, and per j
FIELDS = ("x", "state", "direction", "confidence", "boundary")  # state of a flow in the map per round
USPACE_FIELDS = ("utility", "utility_rate")
SETTLING, MAX_CYCLE, SAME = 2000, 1000, 1e-9  # rounds before a cycle is sought, its maximum length, relative difference
USPACE_PAIRS, USPACE_AMPLIFIER, USPACE_BOUNDARY_STEP, USPACE_STEP, USPACE_MEGABIT = 3, 1.2, 0.05, 0.5e6, 2.0**20


@dataclass
class FlowState(monitor_intervals.FlowState):
    """A host's state for one flow; rates in bit/s, utilities of Mb/s."""

    state: int = STARTING
    x: float = 0.0  # center of the probes
    first: int = 1  # first interval of the current experiment
    needed: int = 1  # number of intervals of the experiment
    ends: int = 0  # 1: the next packet begins an interval
    direction: int = 0  # 1: up, -1: down
    confidence: int = 0  # k
    boundary: int = 0  # j
    utility: float = 0.0  # utility that the next interval must exceed
    utility_rate: float = 0.0  # target rate of the interval with that utility


@dataclass(frozen=True, kw_only=True)
class Vivace(windows.WindowProtocol):
    """PCC Vivace.

    Parameters
    ----------
    t : float, in (0, 1)
        Exponent of the rate in the utility (Dong et al.: 0.9).
    b, c : float, >= 0
        Weights of the RTT's gradient and of losses (900 and 11.35).
    epsilon : float, in (0, 1)
        Relative distance of probes from the rate (0.05).
    theta : float, > 0
        Change of the rate [Mb/s] per unit of the utility's slope.
    min_rate : float, bit/s, > 0
        Minimum rate, for example 0.5 Mb/s.
    form : str
        "paper", or "pcc-uspace" (the authors' program).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; L has no effect. `restart` is "none": the rate is unchanged by an idle period.

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
    sets_rate = True
    restarts = ("none",)
    slow_start_law = None
    loss_response_law = None
    required_env = frozenset({"random"})
    times = ("continuous", "discrete")
    fluid_refusal = (
        "Vivace has no fluid model: the slope of its utility needs the capacities of links in addition to their "
        "feedback, and laws of hosts get one number for a path"
    )
    reference_loop = ReferenceLoop(100e6, (0.03,) * 2, "ours")

    def __post_init__(self) -> None:
        object.__setattr__(self, "min_rate", as_rate(self.min_rate, "min_rate"))
        check_number(self, t=None, b=0.0, c=0.0, epsilon=None, theta=None)
        for name in ("t", "epsilon"):
            if getattr(self, name) >= 1.0:
                raise ValueError(f"{name} must be > 0 and < 1, got {shown(getattr(self, name))}")
        check_choice(self, "form", FORMS)
        super().__post_init__()

    def params(self) -> dict[str, float]:
        values = {name: getattr(self, name) for name in ("t", "b", "c", "epsilon", "theta", "min_rate")}
        return {**values, "form": float(FORMS.index(self.form)), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = monitor_intervals.Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_receive": delivery_rate.on_receive,
            "on_ack": flow_on_ack,
        }

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, **values: float) -> Any:
        raise ValueError("start must be 'empty' for packets of Vivace: its rates depend on earlier monitor intervals")

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return equal rates on one link; with a full queue, and losses, if b is too small for the flows.

        Parameters
        ----------
        network : Network
            Network of one link.
        assignment : None

        Raises
        ------
        LinearizationError
            Several links; or b too small, and no buffer that limits the queue.
        """
        if assignment is not None:
            raise ValueError("assignment must be None: flows of Vivace respond to the RTT of their whole path")
        if network.n_links != 1:
            raise LinearizationError(f"the equilibrium of Vivace is known on one link, got {network.n_links} links")
        n, C = network.n_flows, float(network.capacities[0])
        minimum = minimum_weight(n, C, self.t)
        rate, queue = C / n, 0.0
        notes: tuple[str, ...] = ()
        if self.b < minimum:
            buffer = network.links[0].buffer
            if buffer is None:
                raise LinearizationError(
                    f"Vivace has no equilibrium here: b must be >= {minimum:g} for {n} flows at {C:g} bit/s, got "
                    f"{self.b:g}, and no buffer limits the queue"
                )
            rate, queue = self._rate_with_losses(n, C), 8.0 * buffer
        elif self.form == "pcc-uspace":
            notes = ("with gradients clipped to 0 queues never drain, and any queue persists",)
        return Equilibrium(
            np.full(n, rate), np.array([queue / C]), np.full(n, -1, dtype=np.int64), np.array([queue]), notes
        )

    def _rate_with_losses(self, n: int, C: float) -> float:
        """Return the rate at which the losses of a full buffer cost a flow as much as more rate gains."""
        if self.c >= minimum_weight(n, C, self.t):
            return C / n
        if self.c == 0.0:
            raise LinearizationError("Vivace has no equilibrium here: c must be > 0 if the buffer is full, got 0")

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

    # ---- the map per round -------------------------------------------------------------------------------

    def round_map(self, network: Network) -> RoundMap:
        """Return the hooks for experiments that all flows make at the same time, as a map over its cycle.

        States of each flow are the rate [bit/s], state, direction, confidence k and bound j, for "pcc-uspace" also the
        last utility and its rate; then the queue [bit]. The link is a fluid queue, the higher rate of a pair of
        probes comes first, and an interval lasts the RTT of the equilibrium.

        Parameters
        ----------
        network : Network
            Network of one link, with equal RTTs.

        Raises
        ------
        LinearizationError
            No equilibrium, as for `equilibrium`; RTTs differ.

        Examples
        --------
        >>> net = ecc.Network.dumbbell("100 Mb/s", rtts=["30 ms"] * 2)
        >>> print(ecc.linearize(ecc.models.Vivace(), net, time="discrete").notes[0])
        cycle of 10 rounds
        """
        point = self.equilibrium(network)
        rtts, n, C = network.rtts, network.n_flows, float(network.capacities[0])
        if np.ptp(rtts) > 1e-9 * rtts.max():
            raise LinearizationError(
                f"Vivace has no map per round for different RTTs, got {rtts.min():g} to {rtts.max():g} s: a round is "
                "an experiment of all flows"
            )
        x = float(point.rates[0])
        queue = 0.0 if point.queue is None else float(point.queue[0])
        packet = 8.0 * max(flow.mean_packet for flow in network.flows)
        buffer = network.links[0].buffer
        p = SimpleNamespace(
            **self.params(),
            flows=n,
            capacity=C,
            interval=max(float(rtts[0]) + queue / C, MIN_PACKETS * packet / x),
            buffer=inf if buffer is None else 8.0 * buffer,
            is_kink=x <= C / n * (1.0 + 1e-12),
        )
        averaged = RoundMap(
            averaged_increase if p.is_kink else gradient_step,
            (x if p.is_kink else fixed_rate(x, p),) * n,
            p,
            duration=p.interval * (3 if self.form == "paper" else 2),
            notes=averaged_notes(x, p),
        )
        return self._cycle(averaged, x, queue)

    def _cycle(self, averaged: RoundMap, x: float, queue: float) -> RoundMap:
        """Return the map over the cycle that equal flows reach; without a cycle, over one round."""
        p = averaged.p
        start = {"x": x, "state": PROBING, "direction": 0, "confidence": 0, "boundary": 0}
        of_flow = [{**start, "utility": 0.0, "utility_rate": 0.0}[name] for name in map_fields(p)]
        begin = [*(of_flow * p.flows), queue]
        states, _ = cycle_of(lambda state: round_of_probes(state, p), begin, SETTLING, MAX_CYCLE, SAME)
        intervals = sum(intervals_of(state[1], p) + 1 for state in states)
        return RoundMap(
            round_of_probes,
            tuple(states[0]),
            p,
            duration=intervals * p.interval / len(states),
            rounds=len(states),
            notes=("flows probe at the same time, the higher rate first",),
            averaged=averaged,
            one_sided="an empty queue can only grow: derivatives are those for increases of the queue",
            random_law=round_of_drawn_probes,
            draws=p.flows * pairs(p),
        )

    @check_arguments
    def gradient_jacobians(self, network: Network) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the derivatives of x + theta gamma, without bound and amplifier, below and above the equilibrium's S.

        They are equal if the equilibrium has losses. At S = C without losses they differ, and the one above is that of
        an unstable step if theta (n + 1) b/C > 2 + theta t (1 - t) x^(t-2), as for the published parameters. This is
        why steps need a bound.

        Parameters
        ----------
        network : Network
            Network of one link.

        Returns
        -------
        tuple of ndarray, shape (n_flows, n_flows)

        Raises
        ------
        LinearizationError
            No equilibrium, as for `equilibrium`.

        Examples
        --------
        >>> net = ecc.Network.dumbbell("100 Mb/s", rtts=["30 ms"] * 2)
        >>> below, above = ecc.models.Vivace().gradient_jacobians(net)
        >>> print([round(float(min(np.linalg.eigvalsh(side))), 3) for side in (below, above)])
        [0.999, -26.001]
        """
        point = self.equilibrium(network)
        n, C, x = network.n_flows, 1e-6 * float(network.capacities[0]), 1e-6 * float(point.rates[0])
        curvature, S = self.t * (self.t - 1.0) * x ** (self.t - 2.0), n * x
        below = np.eye(n) * (1.0 + self.theta * curvature)
        if self.b >= minimum_weight(n, 1e6 * C, self.t):
            return below, below - self.theta * self.b / C * (np.eye(n) + 1.0)  # derivative of b (g + x/C)
        losses = self.c * C / S**2 * (np.eye(n) + 1.0 - 2.0 * x / S)  # derivative of c (L + x C/S^2)
        above = below - self.theta * losses
        return (below if S <= C * (1.0 + 1e-12) else above), above


def minimum_weight(flows: int, capacity: float, t: float) -> float:
    """Return t n^(2-t) C^(t-1), C in Mb/s: the minimum b for an empty queue, and the minimum c for no losses.

    Parameters
    ----------
    flows : int
        Number of flows.
    capacity : float, bit/s
        Capacity of their link.
    t : float
        Exponent of the rate in the utility.
    """
    return float(t * flows ** (2.0 - t) * (1e-6 * capacity) ** (t - 1.0))


def utility(x: float, g: float, L: float, p: Params) -> float:
    """Dong et al. sec. 3: the utility of a rate in Mb/s."""
    return exp(p.t * log(x)) - p.b * x * g - p.c * x * L


def utility_of(flow: FlowState, interval: int, p: Params) -> float:
    """Return the utility of a complete interval."""
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


def flow_on_start(flow: FlowState, header: monitor_intervals.Header, p: Params, env: FlowEnv) -> None:
    """Start with the initial window, paced over an assumed RTT."""
    windows.flow_on_start(flow, header, p, env)
    flow.x = 8.0 * env.window / FIRST_RTT
    env.rate = flow.x


def flow_on_send(flow: FlowState, header: monitor_intervals.Header, p: Params, env: FlowEnv) -> None:
    """Begin an interval, with its rate, if the last one is over."""
    k = flow.number % monitor_intervals.SLOTS
    lasts = env.srtt if p.form == 0.0 else env.min_rtt
    is_over = env.now - flow.began[k] >= lasts and flow.sent_in[k] >= MIN_PACKETS * env.packet_size
    is_measured = flow.number < flow.first + flow.needed  # a later interval lasts until the results are known
    if flow.number == 0 or flow.ends > 0 or (is_measured and is_over):
        flow.ends = 0
        monitor_intervals.begin(flow, probe_rate(flow, p, env), env)
        env.rate = flow.target[flow.number % monitor_intervals.SLOTS]
    monitor_intervals.on_send(flow, header, p, env)


def probe_rate(flow: FlowState, p: Params, env: FlowEnv) -> float:
    """Return the rate of the next interval: probes of a pair are above and below x in random order."""
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


def flow_on_ack(flow: FlowState, header: monitor_intervals.Header, p: Params, env: FlowEnv) -> None:
    """Choose the next rate when the intervals of an experiment are complete."""
    if flow.delivered == 0:
        flow.x *= max(FIRST_RTT / env.rtt, 1.0)
        flow.ends = 1
        flow.first = flow.number + 1
    monitor_intervals.on_ack(flow, header, p, env)
    last = flow.first + flow.needed - 1
    if flow.number > last and monitor_intervals.is_complete(flow, last):
        decide(flow, p)
        flow.needed = pairs(p) * 2 if flow.state == PROBING else 1
        flow.first = flow.number + 1
        flow.ends = 1
    env.window = max(IN_FLIGHT * flow.x * env.srtt / 8.0, windows.first_window(1.0 * env.packet_size, p))


def decide(flow: FlowState, p: Params) -> None:
    """Change the rate, and the state, by the intervals of a complete experiment."""
    if flow.state == STARTING:
        end_of_doubling(flow, p)
    elif p.form == 0.0:
        step(flow, p)
    elif flow.state == PROBING:
        uspace_probed(flow, p)
    else:
        uspace_moved(flow, p)
    flow.x = max(flow.x, p.min_rate)


def pairs(p: Params) -> int:
    """Return the number of pairs of probes for a decision."""
    return 1 if p.form == 0.0 else USPACE_PAIRS


def end_of_doubling(flow: FlowState, p: Params) -> None:
    """Double the rate as long as the utility grows."""
    current = utility_of(flow, flow.first, p)
    if current > flow.utility:
        flow.utility = current
        flow.x *= 2.0
    else:
        flow.x *= 0.5
        flow.state = PROBING


def slope_of_pair(flow: FlowState, first: int, p: Params) -> float:
    """Return gamma of two consecutive intervals."""
    step_up = flow.target[first % monitor_intervals.SLOTS] - flow.target[(first + 1) % monitor_intervals.SLOTS]
    gamma: float = (utility_of(flow, first, p) - utility_of(flow, first + 1, p)) / (1e-6 * step_up)
    return gamma


# ---- steps of the paper ----------------------------------------------------------------------------------------------


def step(flow: FlowState, p: Params) -> None:
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
        steps, needed = (change / flow.x - BOUNDARY) / BOUNDARY_STEP, 0
        for _ in range(flow.boundary + 1):  # a loop, since derivatives of the map per round need comparisons only
            if needed < steps:
                needed += 1
        flow.boundary = needed
    flow.x += sign * change


# ---- steps of the authors' program -----------------------------------------------------------------------------------


def uspace_probed(flow: FlowState, p: Params) -> None:
    """Decide from three pairs, and take the first step away from their center."""
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


def uspace_moved(flow: FlowState, p: Params) -> None:
    """Continue in the direction of the decision, or go back and probe."""
    current = utility_of(flow, flow.first, p)
    target = flow.target[flow.first % monitor_intervals.SLOTS]
    gamma = (current - flow.utility) / (1e-6 * (target - flow.utility_rate)) if target != flow.utility_rate else 0.0
    if gamma * flow.direction > 0.0:
        flow.confidence += 1
        flow.utility = current
        flow.utility_rate = target
        uspace_go(flow, flow.direction * uspace_change(flow, abs(gamma), amplified(flow.confidence), p), p)
    else:
        flow.confidence = 1
        flow.x -= flow.direction * uspace_change(flow, abs(gamma), 1.0, p)
        flow.state = PROBING


def uspace_go(flow: FlowState, change: float, p: Params) -> None:
    """Change the rate; below the minimum rate, probe again."""
    flow.x += change
    if flow.x < p.min_rate:
        flow.boundary = 0
        flow.state = PROBING


def uspace_change(flow: FlowState, gamma: float, amplifier: float, p: Params) -> float:
    """Return the size of a step [bit/s], within the change boundary."""
    change = USPACE_MEGABIT * USPACE_MEGABIT * 1e-6 * p.theta * gamma * amplifier
    limit = (BOUNDARY + USPACE_BOUNDARY_STEP * flow.boundary) * flow.x
    if change > limit:
        change = limit
        flow.boundary += 1
    elif flow.boundary > 0:
        flow.boundary -= 1
    return max(change, USPACE_STEP)


def amplified(k: int) -> float:
    """Return the confidence amplifier [(k + 1)/2]^1.2, with integer division."""
    return exp(USPACE_AMPLIFIER * log(1.0 * ((k + 1) // 2)))


# ---- the map per round -----------------------------------------------------------------------------------------------


def round_of_probes(state: Sequence[Any], p: Any) -> list[Any]:
    """Return the states of `Vivace.round_map` after an experiment of all flows at the same time, and its results."""
    return round_of_drawn_probes(state, [0.0] * (p.flows * pairs(p)), p)


def round_of_drawn_probes(state: Sequence[Any], draws: Sequence[float], p: Any) -> list[Any]:
    """Return the states after an experiment; the higher rate of a pair of probes comes first if its draw is below 0.5.

    Parameters
    ----------
    state : sequence of float and int
        States of `Vivace.round_map`.
    draws : sequence of float
        One number for each pair of probes of each flow, in the order of flows.
    p : object
        Constants of `Vivace.round_map`.
    """
    size = (len(state) - 1) // p.flows
    flows = [flow_in_map(state[size * k : size * (k + 1)]) for k in range(p.flows)]
    queue = state[-1]
    needed = intervals_of(flows[0].state, p)
    for interval in range(1, needed + 2):
        rates = []
        for k, flow in enumerate(flows):
            flow.needed = needed
            flow.number = interval - 1
            pair = min((interval - 1) // 2, pairs(p) - 1)
            env: Any = SimpleNamespace(random=draws[k * pairs(p) + pair])
            rates.append(probe_rate(flow, p, env))
        before = queue
        queue = max(before + (sum(rates) - p.capacity) * p.interval, 0.0)
        lost = 0.0
        if queue > p.buffer:
            lost = (queue - p.buffer) / (sum(rates) * p.interval)
            queue = p.buffer
        for flow, rate in zip(flows, rates, strict=True):
            record(flow, interval, rate, (queue - before) / p.capacity, lost, p.interval)
    after: list[Any] = []
    for flow in flows:
        flow.number = needed + 1
        decide(flow, p)
        after += [getattr(flow, name) for name in map_fields(p)]
    return [*after, queue]


def flow_in_map(values: Sequence[Any]) -> Any:
    """Return a flow with these values of `map_fields`, whose intervals are not yet recorded."""
    arrays = ("began", "target", "sent_in", "acked_in", "first_rtt", "samples", "sum_t", "sum_d", "sum_tt", "sum_td")
    flow = SimpleNamespace(**{name: [0.0] * monitor_intervals.SLOTS for name in (*arrays, "sum_dd")})
    for name, value in zip((*FIELDS, *USPACE_FIELDS), values, strict=False):
        setattr(flow, name, value)
    flow.first = 1
    return flow


def record(flow: Any, interval: int, rate: Any, growth: Any, lost: Any, lasts: float) -> None:
    """Record an interval with two samples of the RTT, at its begin and its end; times are in units of its length."""
    k = interval % monitor_intervals.SLOTS
    flow.target[k] = rate
    flow.began[k] = lasts * interval
    flow.began[(interval + 1) % monitor_intervals.SLOTS] = lasts * (interval + 1)
    flow.sent_in[k] = rate * lasts / 8.0
    flow.acked_in[k] = (1.0 - lost) * flow.sent_in[k]
    slope = growth / lasts
    flow.first_rtt[k], flow.samples[k], flow.sum_t[k], flow.sum_tt[k] = lasts, 2.0, 1.0, 1.0
    flow.sum_d[k], flow.sum_td[k], flow.sum_dd[k] = slope, slope, slope * slope


def intervals_of(state: int, p: Any) -> int:
    """Return the number of intervals of an experiment in a state."""
    return 2 * pairs(p) if state == PROBING else 1


def map_fields(p: Any) -> tuple[str, ...]:
    """Return the fields of a flow that are states of the map per round."""
    return FIELDS if p.form == 0.0 else (*FIELDS, *USPACE_FIELDS)


def averaged_increase(state: Sequence[Any], p: Any) -> list[Any]:
    """Return rates after an increase of each flow, and decreases in proportion until they sum up to C."""
    raised = [x + increase(x, p) for x in state]
    total = sum(raised)
    return [p.capacity / total * x for x in raised]


def averaged_notes(x: float, p: Any) -> tuple[str, ...]:
    """Return the properties of the averaged map that its roots do not show."""
    omitted = "the amplifier, the growth of the bound and the probes of other flows are omitted"
    if not p.is_kink:
        return ("the equilibrium has losses", omitted)
    notes = ["set of equilibria: any split of the capacity; roots are those of differences between rates", omitted]
    if increase(x, p) >= BOUNDARY * x:
        notes.append("the first increase is at its bound and changes no ratio of rates: roots are 0")
    return tuple(notes)


def increase(x: Any, p: Any) -> Any:
    """Return the first increase of a rate after a decrease, without a queue and losses."""
    gain = utility(1e-6 * (1.0 + p.epsilon) * x, 0.0, 0.0, p) - utility(1e-6 * (1.0 - p.epsilon) * x, 0.0, 0.0, p)
    gamma = gain / (2e-6 * p.epsilon * x)
    if p.form == 0.0:
        return min(1e6 * p.theta * gamma, BOUNDARY * x)
    change = USPACE_MEGABIT * USPACE_MEGABIT * 1e-6 * p.theta * gamma
    return max(min(change, BOUNDARY * x), USPACE_STEP)


def fixed_rate(near: float, p: Any) -> float:
    """Return the rate at which equal flows measure the slope 0, near the equilibrium without the width of probes."""
    low, high = 0.5 * near, 2.0 * near
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gradient_step((middle,) * p.flows, p)[0] > middle else (low, middle)
    return 0.5 * (low + high)


def gradient_step(state: Sequence[Any], p: Any) -> list[Any]:
    """Return rates after a step of each flow with a full buffer, whose losses depend on all rates."""
    total = sum(state)
    after = []
    for x in state:
        up, down = (1.0 + p.epsilon) * x, (1.0 - p.epsilon) * x
        gain = utility(1e-6 * up, 0.0, 1.0 - p.capacity / (total - x + up), p)
        gain = gain - utility(1e-6 * down, 0.0, 1.0 - p.capacity / (total - x + down), p)
        after.append(x + 1e6 * p.theta * gain / (2e-6 * p.epsilon * x))
    return after
