"""PowerTCP and theta-PowerTCP: windows divided by the power of their path (Addanki, Michel and Schmid 2022).

At an ACK, for each link l of its path compared with the previous ACK's report, or (theta) for the RTT D and the last:

    Gamma_l = lambda (q + C T)/(C^2 T),  lambda = (q - q_prev + B - B_prev)/tau_l,  tau_l = t - t_prev    Algorithm 1
    Gamma   = (1 + (D - D_prev)/tau) D/T,                                           tau = now - now_prev    Algorithm 2
    P <- (1 - tau/T) P + tau/T Gamma,   Gamma = max_l Gamma_l, of link l*,  tau = min(tau_l*, T)
    W <- gamma (W_old/P + beta) + (1 - gamma) W         at each ACK, theta: once an RTT

    W  window [bytes], paced at W/T   W_old  an earlier window (`old_window`)   T  base_rtt [s]
    q  queue   B  sent so far [bytes]   C  capacity   t  time [s]   beta  increase [bytes]   P  power, 1 at first

The paper defines W_old in two ways. In equation (7), the basis of its proof, and in line 3 of Algorithm 1 it is the
window when the acknowledged packet was sent (old_window="packet"). By section 3.3 and line 7 a host stores its window
once an RTT (old_window="rtt"). The authors' kernel module does the latter (inet-tub/powertcp-linux, powertcp.c,
`get_cwnd` and `update_old`). These are two loops: they lose stability on different paths (docs/telemetry.md). theta
changes its window once an RTT, so that both definitions give the same W_old.

W = C_host T initially, which is also its maximum: otherwise P near 0, after an outage, would give unlimited windows. A
power of 0 or less, which theta measures if ACKs arrive together, also drives W to the maximum.

In the authors' simulator (`ns3()`), rates R = W/T follow the same steps (form="rate") with three changes: W_c, updated
once an RTT, takes the place of both W_old and W; `min_rate` is the minimum; P is divided by `target`. It reports
arrivals at a queue, not departures. There theta's T is the minimum RTT, its current has the minimum `least_current`,
and it acts at each ACK. Their TCP hosts limit both currents, and jump to W_c/P + beta below half the target.

At equilibrium P = target W/(W - beta), as in HPCC: one link with N flows holds N beta bytes with target 1, and shares
are equal. Flows of theta have equal windows if their RTTs are equal.

As fluid, with y the arrival rate of a link and D the RTT, W is sent in T or more, P' = (Gamma - P)/T, and

    Gamma = max_l (y/C) (1 + q/(C T))           y averaged over h = T/16; a Gamma of 0 leaves P unchanged
    Gamma = (1 + D') D/T                        theta: D' = (D - r)/h, r' = (D - r)/h
    W' = gamma_r (W_old/P + beta - W)           gamma_r = gamma times ACKs of the flow per second; theta: gamma/D
    W_old = W(t - D), or W_old' = (W - W_old)/D   old_window="packet", or "rtt"

The paper's proof identifies P with Gamma, and Gamma with C W(t - D) of the sum of windows, which would then obey
s + gamma_r = 0 for any delay. If flows are ACK-clocked (D > T) the sum obeys, with k = T/D and q/C = D - T on a path of
T,

    s + gamma_r = gamma_r k [e^(-s D) - e^(-s T) (1 + s D/(1 + s h))/(1 + s T)]

and differences of windows s + gamma_r = gamma_r k e^(-s D): slower, by about 1/(1 - k). On shorter paths, D < T, rates
W/T meet a queue that integrates them (`ecc.loops.paced_windows`), and lose stability (docs/telemetry.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import RATE, SIZE, TIME, Quantity, QuantityField, as_delay, as_rate, as_size, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.records import per_hop
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.models.shared import telemetry, windows
from ecc.models.shared.equilibria import full_links
from ecc.network.network import Network


@dataclass
class Header(telemetry.Header):
    """Telemetry, and the window that the host would otherwise have to remember for each packet."""

    window: float = 0.0  # window when the packet was sent [bytes]


@dataclass
class ThetaHeader:
    """The window that the host would otherwise have to remember for each packet."""

    window: float = 0.0  # window when the packet was sent [bytes]


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow; the arrays hold the last ACK's report."""

    reference: float = 0.0  # W_c, or W between updates [bytes]
    power: float = 1.0  # P
    update_end: float = 0.0  # the RTT ends when more than this is delivered [bytes]
    hops: int = 0
    queue: tuple[float, ...] = per_hop()
    sent: tuple[float, ...] = per_hop()
    time: tuple[float, ...] = per_hop()


@dataclass
class ThetaFlowState(windows.FlowState):
    """A host's state for one flow."""

    reference: float = 0.0  # W_c, or W between updates [bytes]
    power: float = 1.0  # P
    update_end: float = 0.0  # the RTT ends when more than this is delivered [bytes]
    rtt: float = 0.0  # RTT sample of the last ACK [s]
    time: float = 0.0  # arrival time of the last ACK [s]


@dataclass(frozen=True)
class PowerTCP(telemetry.TelemetryProtocol):
    """PowerTCP.

    Parameters
    ----------
    gamma : float, in (0, 1]
        Weight of an update in the window (Addanki et al.: 0.9).
    beta : int, bytes, >= 1
        Additive increase: C_host T/N in the paper, for N flows at a host.
    base_rtt : float, s, > 0
        T, the longest RTT of the network without queues.
    line_rate : float, bit/s, > 0
        Rate of the hosts' interfaces: its product with T is the maximum window, and the initial one unless `initial`
        sets it.
    target : float, > 0
        Divisor of the power; 1 in the paper.
    least_current : float, in [0, 1]
        Minimum of the current, the arrivals of a link as a share of its capacity; 0: no minimum.
    form : str
        "window", as in the paper, or "rate", as in its simulator: windows are `min_rate` T or more.
    min_rate : float, bit/s, > 0
        Minimum rate in the form "rate", for example 100 Mb/s.
    old_window : str
        The earlier window that is divided by the power: "packet", the window when the acknowledged packet was sent
        (equation 7), or "rtt", the window that the host stores once an RTT (section 3.3). The form "rate" uses the
        latter.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; L has no effect. Lost data is retransmitted, and the next ACK begins a new RTT. `restart`
        is "none". Windows of application-limited flows grow like all others, up to `line_rate` T, which also limits the
        initial window.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    gamma: float = 0.9
    beta: QuantityField = default(1000.0)
    base_rtt: QuantityField = default(13e-6)
    line_rate: QuantityField = default(100e9)
    target: float = 1.0
    least_current: float = 0.0
    form: str = "window"
    min_rate: QuantityField = default(100e6)
    old_window: str = field(default="packet", kw_only=True)
    transport: str = field(default="sack", kw_only=True)
    restart: str = field(default="none", kw_only=True)

    dimensions = {"beta": SIZE, "base_rtt": TIME, "line_rate": RATE, "min_rate": RATE}

    @property
    def operating_range(self) -> OperatingRange:
        """Capacities equal to the hosts' line rate, and RTTs of a data center."""
        return OperatingRange(
            (self.line_rate, self.line_rate), (0.8 * self.base_rtt, self.base_rtt), convergence=1000.0
        )

    @property
    def reference_loop(self) -> ReferenceLoop:
        """Two flows at the hosts' line rate, with the base RTT."""
        return ReferenceLoop(self.line_rate, (self.base_rtt,) * 2, "ours", 1000)

    def __post_init__(self) -> None:
        for name in ("line_rate", "min_rate"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        check_number(self, gamma=None, beta=as_size, base_rtt=as_delay, target=None, least_current=0.0)
        check_choice(self, "form", ("window", "rate"))
        check_choice(self, "old_window", ("packet", "rtt"))
        for name in ("gamma", "least_current"):
            if getattr(self, name) > 1.0:
                raise ValueError(f"{name} must be <= 1, got {shown(getattr(self, name))}")
        if self.form == "rate" and self.min_rate > self.line_rate:
            raise ValueError(f"min_rate must be <= line_rate ({self.line_rate:g} bit/s), got {shown(self.min_rate)}")
        super().__post_init__()

    @classmethod
    @check_arguments
    def ns3(cls, line_rate: Quantity = "25 Gb/s", base_rtt: Quantity = "13 us", **others: Any) -> PowerTCP:
        """Return the protocol as in the RDMA hosts of the authors' simulator (inet-tub/ns3-datacenter, 2022).

        Parameters
        ----------
        line_rate : float, bit/s, > 0, optional
            Rate of the hosts' interfaces.
        base_rtt : float, s, > 0, optional
            Longest RTT of the network without queues.
        **others : object
            Other parameters of the class, for example `target=1.0`.
        """
        T = as_delay(base_rtt, "base_rtt", positive=True)
        values: dict[str, Any] = {"beta": max(150e6 * T / 8.0, 1.0), "form": "rate"} | cls._constants()
        return cls(line_rate=line_rate, base_rtt=T, **(values | others))

    @classmethod
    def _constants(cls) -> dict[str, float]:
        return {"gamma": 0.9, "target": 0.95}

    def params(self) -> dict[str, float]:
        is_rate, bytes_of = self.form == "rate", self.base_rtt / 8.0
        return {
            "gamma": self.gamma,
            "beta": self.beta,
            "base_rtt": self.base_rtt,
            "target": self.target,
            "least_current": self.least_current,
            "is_rate": 1.0 if is_rate else 0.0,
            "least": self.min_rate * bytes_of if is_rate else 0.0,
            "most": self.line_rate * bytes_of,
            "interval": telemetry.reports_of(self.base_rtt),
            "remembers": 1.0 if self._remembers else 0.0,
            **super().params(),
        }

    @property
    def _remembers(self) -> bool:
        """True if the power divides the window that the host stores once an RTT."""
        return self.form == "window" and self.old_window == "rtt"

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(y: float, q: float, C: float, p: Params) -> float:
        """Algorithm 1, NormPower: Gamma of a link."""
        return power(max(y / C, p.least_current), 1.0 + q / (C * p.base_rtt))

    @property
    def source_law(self) -> Callable[..., float]:  # type: ignore[override]
        """The window after it is acknowledged, changed at each ACK."""
        return by_remembered_window if self._remembers else by_window_of_packet

    @property
    def window_clock(self) -> str:
        """Windows move at each ACK; in the form "rate" they follow the power, over a rate stored once per RTT."""
        return "power" if self.form == "rate" else "ack"

    @property
    def states(self) -> Mapping[str, State]:
        states = {"power": State(averaged, "continuous", 1.0, lowest=telemetry.MIN_AVERAGE)}
        if self._remembers:
            states["remembered"] = State(remembered_law, "rtt", first_window, unit="bit", lowest=0.0)
        return states

    # ---- hooks -------------------------------------------------------------------------------------------

    Header: ClassVar[type] = Header
    FlowState: ClassVar[type[windows.FlowState]] = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_ack": flow_on_ack,
            "on_loss": telemetry.flow_on_loss,
        }

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return equal windows at each link with the largest power; `fair_rate` is the power."""
        self._check_no_assignment(assignment, "the link of largest power")
        limit = self.line_rate * self.base_rtt
        point = telemetry.equilibrium_of_windows(
            network, self.base_rtt, self.target, 8.0 * self.beta, limit, type(self).__name__, "power"
        )
        if not self._remembers:
            return point
        assert point.queue is not None
        D = network.rtts + network.incidence @ (point.queue / network.capacities)
        windows_of_flows = point.rates * np.maximum(D, self.base_rtt)
        return replace(point, states={**point.states, "remembered": windows_of_flows})

    def _check_no_assignment(self, assignment: NDArray[np.int64] | None, followed: str) -> None:
        if assignment is not None:
            raise ValueError(f"assignment must be None: flows of {type(self).__name__} follow {followed}")


@dataclass(frozen=True)
class ThetaPowerTCP(PowerTCP):
    """theta-PowerTCP, which measures power by RTTs instead of telemetry.

    Parameters
    ----------
    gamma, beta, base_rtt, line_rate, target, least_current, form, min_rate
        See `PowerTCP`; in the form "rate" T is limited to the minimum RTT.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `PowerTCP`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    combine = "sum"
    header_bytes = (0, 0)
    times: ClassVar[tuple[str, ...]] = ("continuous", "discrete")  # RTTs replace the reports of routers

    @classmethod
    def _constants(cls) -> dict[str, float]:
        return {"gamma": 0.7, "target": 1.05, "least_current": 0.5}

    @staticmethod
    def router_law(q: float, C: float) -> float:  # type: ignore[override]
        """The queueing delay; the delays of a path's links add up."""
        return q / C

    _remembers = False  # windows change once an RTT: the window of the packet is the stored one

    @staticmethod
    def source_law(w: float, w_rtt: float, R: float, D: float, T: float, power: float, rtt: float, p: Params) -> float:
        """The window after it is acknowledged, changed once an RTT."""
        if p.is_rate > 0.0:
            return in_rates(w, D, power, theta_averaged(R, D, T, power, rtt, p), p)
        return w + max(D, p.base_rtt) / D * (8.0 * updated(w / 8.0, w_rtt / 8.0, power, p) - w)

    @property
    def window_clock(self) -> str:
        """Windows move once per RTT; in the form "rate" they follow the power, over a rate stored once per RTT."""
        return "power" if self.form == "rate" else "rtt"

    @property
    def states(self) -> Mapping[str, State]:
        return {
            "power": State(theta_averaged, "continuous", 1.0, lowest=telemetry.MIN_AVERAGE),
            "rtt": State(rtt_law, "continuous", float(self.base_rtt), unit="s"),
        }

    Header: ClassVar[type] = ThetaHeader
    LinkState: ClassVar[type] = windows.WindowProtocol.LinkState
    FlowState: ClassVar[type[windows.FlowState]] = ThetaFlowState

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {**super().flow_hooks(), "on_ack": theta_on_ack}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, rtt: float = 0.0, **values: float) -> Any:
        """Return the state of a flow after many RTTs of length `rtt`."""
        flow = super().flow_at(x, R, link, window, **values)
        flow.reference, flow.rtt = window, rtt
        return flow

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point with RTTs of `target` W/(W - beta) T; `fair_rate` is a link's queueing delay [s]."""
        self._check_no_assignment(assignment, "their whole path")
        p = self.namespace()
        T = np.full(network.n_flows, p.base_rtt)
        if p.is_rate:
            T = np.minimum(T, network.rtts)

        def demand(D: NDArray[np.float64]) -> NDArray[np.float64]:
            aim = p.target * T
            W = p.beta / np.maximum(1.0 - aim / np.maximum(D, aim), 1e-15)
            return np.asarray(8.0 * np.clip(W, p.least, p.most) / np.maximum(p.base_rtt, D))

        waits = full_links(network, demand, type(self).__name__, "any window is stationary")
        rates = demand(network.rtts + network.incidence @ waits)
        D = network.rtts + network.incidence @ waits
        return Equilibrium(
            rates, waits, np.full(network.n_flows, -1), waits * network.capacities, states={"power": D / T, "rtt": D}
        )


# Hooks ---------------------------------------------------------------------------------------------------------------


def power(current: float, voltage: float) -> float:
    """Algorithm 1, NormPower: the product of current (arrivals over C) and voltage ((q + C T)/(C T)) of a link."""
    return current * voltage


def by_window_of_packet(w: float, w_rtt: float, R: float, D: float, s: float, power: float, p: Params) -> float:
    """Equation (7): the window after it is acknowledged, from the window when the acknowledged packet was sent."""
    if p.is_rate > 0.0:
        return in_rates(w, D, power, averaged(R, power, p), p)
    return w + w / s * (8.0 * updated(w / 8.0, w_rtt / 8.0, power, p) - w)


def by_remembered_window(w: float, s: float, power: float, remembered: float, p: Params) -> float:
    """Section 3.3: the window after it is acknowledged, from the window that the host stored."""
    return w + w / s * (8.0 * updated(w / 8.0, remembered / 8.0, power, p) - w)


def remembered_law(w: float) -> float:
    """Section 3.3: the window [bit] that the host stores once an RTT."""
    return w


def first_window(w: float) -> float:
    """The stored window [bit] at first."""
    return w


def averaged(R: float, power: float, p: Params) -> float:
    """Algorithm 1, NormPower: P' [1/s]; 0 without arrivals, since then no link has a Gamma above 0."""
    return (R - power) / p.base_rtt if R > 0.0 else 0.0


def rtt_law(D: float, T: float, rtt: float) -> float:
    """The derivative of the RTT that is compared with the current one."""
    return (D - rtt) / T


def theta_averaged(R: float, D: float, T: float, power: float, rtt: float, p: Params) -> float:
    """Algorithm 2, NormPower: P' [1/s]; the RTT without queues is D - R."""
    base = min(p.base_rtt, D - R) if p.is_rate > 0.0 else p.base_rtt
    current = 1.0 + rtt_law(D, T, rtt)
    if p.least_current > 0.0:
        current = max(current, p.least_current)
    return (current * D / base - power) / base


def in_rates(w: float, D: float, P: float, P_change: float, p: Params) -> float:
    """The window in the form "rate": W <- gamma (W_c target/P + beta) + (1 - gamma) W_c at each ACK."""
    share = p.gamma * p.target / P
    after = telemetry.renewed(w, D, p.base_rtt, share + 1.0 - p.gamma, 8.0 * p.gamma * p.beta, -share / P * P_change)
    return min(max(after, 8.0 * p.least), 8.0 * p.most)


def smoothed(before: float, sample: float, elapsed: float, T: float) -> float:
    """Algorithms 1 and 2, NormPower: an average over T."""
    weight = min(elapsed, T) / T
    return (1.0 - weight) * before + weight * sample


def updated(window: float, old: float, P: float, p: Params) -> float:
    """Algorithms 1 and 2, UpdateWindow; the window divided by the power is limited to the line rate times T."""
    share: float = p.most
    if old * p.target < p.most * P:
        share = old * p.target / P
    return min(max(p.gamma * (share + p.beta) + (1.0 - p.gamma) * window, p.least), p.most)


def flow_on_start(flow: FlowState | ThetaFlowState, header: Header | ThetaHeader, p: Params, env: FlowEnv) -> None:
    """Start with a window of the host's line rate."""
    flow.reference = p.initial * env.packet_size if p.initial > 0.0 else p.most
    telemetry.send_with(flow.reference, p, env)


def flow_on_send(flow: FlowState | ThetaFlowState, header: Header | ThetaHeader, p: Params, env: FlowEnv) -> None:
    """Write the window into the packet."""
    header.window = env.window


def flow_on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Algorithm 1, NewAck: update the power, the window and, once an RTT, the stored window."""
    is_first = flow.hops == 0
    if not is_first:
        flow.power = measured(flow, header, p)
        if p.is_rate > 0.0:
            telemetry.send_with(updated(flow.reference, flow.reference, flow.power, p), p, env)
        else:
            old = flow.reference if p.remembers > 0.0 else header.window
            telemetry.send_with(updated(env.window, old, flow.power, p), p, env)
    if is_first or env.delivered > flow.update_end:
        flow.reference = env.window
        flow.update_end = 1.0 * (env.delivered + env.in_flight)
    telemetry.keep(flow, header)


def theta_on_ack(flow: ThetaFlowState, header: ThetaHeader, p: Params, env: FlowEnv) -> None:
    """Algorithm 2, NewAck: update the power at each ACK and, once an RTT, the window."""
    is_first = flow.rtt <= 0.0
    ends = is_first or env.delivered > flow.update_end
    passed = env.now - flow.time
    if not is_first and passed > 0.0:
        T = min(p.base_rtt, env.min_rtt) if p.is_rate > 0.0 else p.base_rtt
        current = 1.0 + (env.rtt - flow.rtt) / passed
        if p.least_current > 0.0:
            current = max(current, p.least_current)
        flow.power = smoothed(flow.power, power(current, env.rtt / T), passed, T)
    if not is_first:
        if p.is_rate > 0.0:
            telemetry.send_with(updated(flow.reference, flow.reference, flow.power, p), p, env)
        elif ends:
            telemetry.send_with(updated(env.window, header.window, flow.power, p), p, env)
    if ends:
        flow.reference = env.window
        flow.update_end = 1.0 * (env.delivered + env.in_flight)
    flow.rtt = env.rtt
    flow.time = env.now


def measured(flow: FlowState, header: Header, p: Params) -> float:
    """Algorithm 1, NormPower; links with a report no newer than the last one are skipped."""
    T = p.base_rtt
    largest = 0.0
    tau = 0.0
    for k in range(header.hops):
        passed = header.time[k] - flow.time[k]
        if passed > 0.0:
            C = header.capacity[k]
            arrived = 8.0 * (header.queue[k] - flow.queue[k] + header.sent[k] - flow.sent[k])
            current = max(arrived / passed / C, p.least_current)
            link_power = power(current, 1.0 + 8.0 * header.queue[k] / (C * T))
            if link_power > largest:
                largest = link_power
                tau = passed
    return smoothed(flow.power, largest, tau, T)
