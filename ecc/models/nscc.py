"""NSCC: Ultra Ethernet's windows, controlled by marks and queueing delay together (UEC 1.0, 2025).

At an ACK of A bytes, with d its RTT minus the minimum RTT T, D the target, W the window:

                 d < D                                               d >= D
    not marked   I <- I + alpha A (D - d);   W <- W + f A, fast      I <- I + fi A
    marked       no change                                           W <- W max(1 - gamma (m - D)/m, 1/2)
                                                                     if m > D, once in T
    m <- (1 - g) m + g d,  T/4 instead of d if d > D and not marked
    W <- W + I/W, I <- 0        every 8 packets that arrive, or after T_net
    W <- W + eta                then, if T_net has passed since the last eta
    W <- W - A                  a trimmed or lost packet of A; m also takes a sample of T_net
    W <- V                      quick adapt: after a trim, or d > 4 D, if V <= W_max/8 has arrived in the last T + D.
                                Trims, and ACKs with marks, of data in flight at that time then change nothing

    a = C T_net/(100 Gb/s 12 us)   D = 3/4 T_net, or T_net without trimming   alpha = 4 s a/(12 us)   fi = 5 s a
    eta = 0.15 s a   gamma = 0.8   g = 1/80   f = a/4, once d < 1 us for a window
    s <= W <= W_max = 1.5 C T, initially W_max

    C  rate of hosts   T_net  RTT of the network   s  packet   I  [bytes^2]   m  averaged delay

This is `htsim/sim/uec.cpp` of ultraethernet/uet-htsim, whose authors set its defaults to those of the specification.
Windows are the sender's only. Not modeled: RCCC (credits of receivers that limit windows further), the choice of paths
by marks, and probes. An ACK reports each packet. Reordering beyond a flow's threshold counts as a trim. Windows of
application-limited flows grow like all others, up to W_max, and nothing restarts after an idle period.

As fluid, windows are sent without pacing, marks are a share of the acknowledged data, and decreases occur once in T
plus the time to the next mark; quick adapt and losses are omitted, and fast increase begins at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ecc._support.quantity import RATE, TIME, OptionalQuantityField, QuantityField, as_delay, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.models.shared.clock import has_come, is_over

REFERENCE_RATE, REFERENCE_RTT = 100e9, 12e-6  # rate and RTT for which the constants are given [bit/s, s]
FAST = 1e-6  # delay below which windows grow fast [s]
ADJUSTED_PACKETS = 8.0  # packets received between two increases
MIN_FACTOR = 0.5  # minimum factor of a decrease
QUICK, QUICK_SHARE = 4.0, 0.125  # multiple of the target, and share of the maximum window, for quick adapt


def cut(w: float, average: float, p: Params) -> float:
    """Return the window after a mark with a delay above the target."""
    return w * max(1.0 - p.gamma * (average - p.target) / average, MIN_FACTOR)


def averaged(average: float, sample: float, p: Params) -> float:
    """Return the averaged delay after a sample."""
    return average + p.delay_gain * (sample - average)


def average_law(w: float, R: float, D: float, s: float, marked: float, average: float, p: Params) -> float:
    """The averaged delay after an RTT."""
    unmarked = 0.25 * (D - R) if R > p.target else R
    return average + w / s * p.delay_gain * (marked * R + (1.0 - marked) * unmarked - average)


@dataclass
class FlowState:
    """A host's state for one flow."""

    base: float = 0.0  # T [s]
    average: float = 0.0  # m [s]
    increase: float = 0.0  # I [bytes^2]
    received: float = 0.0  # volume received since I was added [bytes]
    adjusted: float = 0.0  # time of the last addition of eta [s]
    decreased: float = -1.0  # time of the last decrease [s]
    uncongested: float = 0.0  # bytes in a row with almost no delay
    is_fast: int = 0  # 1 if they exceed a window
    delivered: float = 0.0  # volume delivered so far [bytes]
    lost: float = 0.0  # volume lost so far [bytes]
    achieved: float = 0.0  # V [bytes]
    achieved_until: float = 0.0  # time at which V is compared [s]; 0: not set yet
    is_trimmed: int = 0  # 1 if a packet was trimmed since quick adapt
    ignored: float = 0.0  # volume acknowledged or lost since quick adapt [bytes]
    to_ignore: float = 0.0  # volume in flight at quick adapt [bytes]


@dataclass(frozen=True)
class NSCC(Protocol):
    """NSCC.

    Parameters
    ----------
    line_rate : float, bit/s, > 0
        Rate of the hosts' interfaces, C.
    network_rtt : float, s, > 0
        T_net, the longest RTT of the network without queues.
    base_rtt : float, s, > 0, or None
        Initial value of T, the minimum RTT of packets; None: T_net. As fluid, T is the RTT without queues.
    trimming : bool
        Whether links trim, which determines the target.
    target : float, s, > 0, or None
        D; None: 3/4 T_net with trimming, T_net without.
    alpha, fair, eta : float, > 0
        Increases below and above the target, and in each T_net, in packets scaled by a: 4, 5 and 0.15.
    gamma : float, in (0, 1]
        Share of the excess delay that a decrease removes.
    delay_gain : float, in (0, 1]
        Weight of a sample in the averaged delay, g.
    fast : float, >= 0
        Growth of a window without queue, as a share of the acknowledged data scaled by a; 0: no fast growth.
    quick_adapt : bool
        Whether windows can fall at once to the volume that has arrived.
    min_rto : float, s, > 0
        Minimum time without an ACK after which the flight counts as lost.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    line_rate: QuantityField = default(100e9)
    network_rtt: QuantityField = default(12e-6)
    base_rtt: OptionalQuantityField = default(None)
    trimming: bool = True
    target: OptionalQuantityField = default(None)
    alpha: float = 4.0
    fair: float = 5.0
    eta: float = 0.15
    gamma: float = 0.8
    delay_gain: float = 0.0125
    fast: float = 0.25
    quick_adapt: bool = True
    min_rto: QuantityField = default(1.0)

    dimensions = {"line_rate": RATE, "network_rtt": TIME, "base_rtt": TIME, "target": TIME, "min_rto": TIME}

    combine = "sum"
    times = ()
    ecn_echo = "accurate"
    gives: ClassVar[frozenset[str]] = frozenset()
    answers: ClassVar[frozenset[str]] = frozenset({"ecn", "loss"})
    equilibrium_is_static = False
    header_bytes = (0, 0)
    phase_jitter = "always"  # its windows lose packets at a full queue, and ACKs would keep the order of flows there
    no_equilibrium = "its windows grow until packets are marked; over a discipline that marks it may have one"

    property_exceptions = {"scaling": "its gains refer to 100 Gb/s and 12 us"}

    @property
    def operating_range(self) -> OperatingRange:
        """Capacities equal to the hosts' line rate, and RTTs of a data center."""
        return OperatingRange((self.line_rate, self.line_rate), (0.8 * self.network_rtt, self.network_rtt))

    @property
    def reference_loop(self) -> ReferenceLoop:
        """The marking of Ultra Ethernet's simulator, from 20 to 80 % of the bandwidth-delay product."""
        pipe = self.line_rate * self.network_rtt / (8.0 * 4096)
        return ReferenceLoop(
            self.line_rate,
            (self.network_rtt,) * 4,
            "UEC, uec.cpp; four flows are ours",
            4096,
            "RampMarking",
            {"min_threshold": 0.2 * pipe, "max_threshold": 0.8 * pipe},
        )

    @property
    def cycle_loop(self) -> ReferenceLoop:
        """The reference loop with a step at its lower threshold, 20 % of the bandwidth-delay product."""
        pipe = self.line_rate * self.network_rtt / (8.0 * 4096)
        source = "ours; the network of the reference loop over a step"
        settings = {"threshold": 0.2 * pipe}
        return ReferenceLoop(self.line_rate, (self.network_rtt,) * 4, source, 4096, "StepMarking", settings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line_rate", as_rate(self.line_rate, "line_rate"))
        check_number(
            self,
            network_rtt=as_delay,
            alpha=None,
            fair=None,
            eta=None,
            gamma=None,
            delay_gain=None,
            fast=0.0,
            min_rto=as_delay,
        )
        for name in ("base_rtt", "target"):
            if getattr(self, name) is not None:
                check_number(self, **{name: as_delay})
        for name in ("trimming", "quick_adapt"):
            check_choice(self, name, (True, False))
        for name in ("gamma", "delay_gain"):
            if getattr(self, name) > 1.0:
                raise ValueError(f"{name} must be <= 1, got {getattr(self, name):g}")

    @property
    def linear_refusal(self) -> str:
        return (
            "NSCC has no linear model alone: its windows decrease only at marks, as with {'flows': NSCC(), 'links': "
            "RampMarking()}"
        )

    def params(self) -> dict[str, float]:
        a = self.line_rate * self.network_rtt / (REFERENCE_RATE * REFERENCE_RTT)
        target = self.target if self.target is not None else (0.75 if self.trimming else 1.0) * self.network_rtt
        return {
            "line_rate": self.line_rate,
            "network_rtt": self.network_rtt,
            "base_rtt": self.network_rtt if self.base_rtt is None else self.base_rtt,
            "target": target,
            "alpha": self.alpha * a / REFERENCE_RTT,  # packets/s
            "fair": self.fair * a,
            "eta": self.eta * a,
            "gamma": self.gamma,
            "delay_gain": self.delay_gain,
            "fast": self.fast * a,
            "quick_adapt": float(self.quick_adapt),
        }

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float) -> float:
        """The queueing delay; the delays of a path's links add up."""
        return q / C

    @staticmethod
    def source_law(w: float, R: float, D: float, s: float, marked: float, average: float, p: Params) -> float:
        """The window after an RTT in which the share `marked` was marked."""
        base = D - R
        grown = p.eta * s * D / p.network_rtt
        if R < FAST and p.fast > 0.0:
            grown += (1.0 - marked) * p.fast * w
        elif R < p.target:
            grown += (1.0 - marked) * p.alpha * s * (p.target - R)
        else:
            grown += (1.0 - marked) * p.fair * s
            if average > p.target:  # decreases are apart by T plus the time to the next marked packet
                grown -= (w - cut(w, average, p)) * D * marked * w / (base * marked * w + D * s)
        return min(max(w + grown, s), 1.5 * p.line_rate * base)

    loss_response_law = None

    @property
    def states(self) -> Mapping[str, State]:
        return {"average": State(average_law, "rtt", 0.0, unit="s", lowest=0.0)}

    @property
    def opening_window(self) -> float:
        """The maximum window."""
        return largest(self.network_rtt, self.namespace())

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_ack": flow_on_ack, "on_loss": flow_on_loss}

    def flow_at(self, x: float, R: float, link: int, min_rtt: float = 0.0, average: float = 0.0) -> Any:
        """Return the state of a flow in steady state at the delay `average`, with a known minimum RTT."""
        return FlowState(base=min(self.params()["base_rtt"], min_rtt), average=average)


def largest(base: float, p: Params) -> float:
    """W_max [bytes]."""
    return 1.5 * p.line_rate * base / 8.0


def send_with(window: float, flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Continue with a window between its limits."""
    env.window = max(min(window, largest(flow.base, p)), 1.0 * env.packet_size)


def quickly_adapts(flow: FlowState, is_marked: bool, delay: float, p: Params, env: FlowEnv) -> bool:
    """Return whether quick adapt sets the window, or did so after this packet was sent: nothing else then changes."""
    adapts = False
    if flow.ignored < flow.to_ignore and is_marked:
        adapts = True
    elif is_over(env.now, flow.achieved_until):
        is_congested = flow.is_trimmed > 0 or delay > QUICK * p.target
        if flow.achieved_until > 0.0 and is_congested and flow.achieved < QUICK_SHARE * largest(flow.base, p):
            send_with(flow.achieved, flow, p, env)
            flow.to_ignore = 1.0 * env.in_flight
            flow.ignored = 0.0
            flow.is_trimmed = 0
            adapts = True
        flow.achieved = 0.0
        flow.achieved_until = env.now + flow.base + p.target
    if adapts:
        flow.increase = 0.0
        flow.received = 0.0
    return adapts


def flow_on_start(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Start with the maximum window, paced at the line rate; delays are measured from a packet's departure."""
    env.rate = p.line_rate
    flow.base = p.base_rtt
    flow.adjusted = env.now
    send_with(largest(flow.base, p), flow, p, env)


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Apply one of the four quadrants of the table; then add increases that are due."""
    acked = env.delivered - flow.delivered
    flow.delivered = 1.0 * env.delivered
    flow.achieved += acked
    flow.received += acked
    flow.ignored += acked
    flow.base = min(flow.base, env.min_rtt)
    delay = env.rtt - flow.base
    is_marked = env.marked > 0
    is_stray = delay > p.target and not is_marked  # a long delay without a mark is not taken as a queue
    flow.average = averaged(flow.average, 0.25 * flow.base if is_stray else delay, p)
    if p.quick_adapt > 0.0 and quickly_adapts(flow, is_marked, delay, p, env):
        return
    if not is_marked:
        if delay >= p.target:
            flow.increase += p.fair * env.packet_size * acked
        else:
            increase(flow, acked, delay, p, env)
    elif delay >= p.target:
        flow.is_fast = 0
        flow.uncongested = 0.0
        if flow.average > p.target and is_over(env.now, flow.decreased + flow.base):
            flow.decreased = env.now
            send_with(cut(env.window, flow.average, p), flow, p, env)
    send_with(env.window, flow, p, env)
    due = flow.adjusted + p.network_rtt
    if flow.received > ADJUSTED_PACKETS * env.packet_size or is_over(env.now, due):
        window = env.window + flow.increase / env.window
        if has_come(env.now, due):
            window += p.eta * env.packet_size
            flow.adjusted = env.now
        flow.increase = 0.0
        flow.received = 0.0
        send_with(window, flow, p, env)


def increase(flow: FlowState, acked: float, delay: float, p: Params, env: FlowEnv) -> None:
    """Below the target: grow fast after a window without delay, otherwise in proportion to the distance to it."""
    flow.uncongested = flow.uncongested + acked if delay < FAST else 0.0
    if p.fast > 0.0 and delay < FAST and (flow.uncongested > env.window or flow.is_fast > 0):
        flow.is_fast = 1
        env.window += p.fast * acked
    else:
        flow.is_fast = 0
        flow.increase += p.alpha * env.packet_size * (p.target - delay) * acked


def flow_on_loss(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Remove a trimmed packet, or the flight after a timeout, from the window."""
    lost = env.lost - flow.lost
    flow.lost = 1.0 * env.lost
    flow.ignored += lost
    flow.average = averaged(flow.average, p.network_rtt, p)
    flow.is_trimmed = 1
    if p.quick_adapt > 0.0 and quickly_adapts(flow, True, 0.0, p, env):
        return
    send_with(env.window - lost, flow, p, env)
