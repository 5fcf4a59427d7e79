"""HPCC: windows that keep the bytes in flight, as reported by links, at a share of C T (Li et al. 2019).

At an ACK, for each link l of its path, compared with the report of the previous ACK:

    u_l = min(q, q_prev)/(C T) + (B - B_prev)/(C tau_l),  tau_l = t - t_prev             Algorithm 1, MeasureInflight
    U  <- (1 - tau/T) U + tau/T u,   u = max_l u_l, of link l*,  tau = min(tau_l*, T)
    W  <- W_c eta/U + W_AI      if U >= eta, or after max_stage RTTs of additions        Algorithm 1, ComputeWind
    W  <- W_c + W_AI            otherwise                                                Algorithm 1, ComputeWind
    W_c <- W                    once an RTT                                              Algorithm 1, NewAck

    W  window [bytes], paced at W/T   T  base_rtt [s]   q  queue   B  sent so far [bytes]   C  capacity   t  time [s]

The header is the paper's telemetry (INT): each link writes C, q, B and t as a packet leaves it. Initially W = C_host T.
The paper does not specify the first ACK. As in the authors' simulator, here it only stores its telemetry, and U is 1.
In that simulator, rates R = W/T with a minimum of `min_rate` follow the same steps (form="rate"), with W_AI/T as R_AI;
its scripts set max_stage = 0. Both forms limit R to C_host: otherwise U near 0, after an outage, would give unlimited
windows. csg-htsim and uet-htsim divide integers in tau/T, which is 0 or 1; they never update q_prev, B_prev and t_prev;
and they divide W instead of W_c, so that the division compounds ACK by ACK.

As fluid, with D the RTT, y the arrival rate of a link, and W(t) paced at W/max(T, D):

    U' = (u - U)/T,   u = max_l [q/(C T) + min(1, y/C + q/(C h))]           reports average over h = T/16
    W  = W_c eta/U + W_AI,   W_c' = (W - W_c)/D                             W_c is not a state: W and U determine it
    below eta: W_c' = W_AI/D in max_stage of max_stage + 1 RTTs, a division in the other one

Hosts that start with the maximum window add for max_stage RTTs after a division that leaves U below eta; the linear
model is that of the division, U > eta. Without queue and with D = T, sums of rates obey
s T + eps + (1 - eps) e^(-s T)/(1 + s h) = 0, eps = W_AI/W, differences s T + eps = 0 (docs/telemetry.md).

At equilibrium U_l = eta W/(W - W_AI) at each flow's link l* with the largest U. Windows are equal, with rates
W/max(T, RTT): max-min fair for equal RTTs. On one link with N flows U = eta + N W_AI/(C T). The queue is empty if
W_AI <= (1 - eta) C T/N, a rule ascribed to the paper; otherwise q = (U - 1) C T.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import RATE, SIZE, TIME, QuantityField, as_delay, as_rate, as_size, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.records import per_hop
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.models.shared import telemetry, windows
from ecc.network.network import Network


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow; the arrays hold the last ACK's report."""

    reference: float = 0.0  # W_c [bytes]
    U: float = 1.0
    stage: int = 0  # RTTs in a row with additions only
    update_end: float = 0.0  # W_c is updated when more than this is delivered [bytes]
    hops: int = 0
    queue: tuple[float, ...] = per_hop()
    sent: tuple[float, ...] = per_hop()
    time: tuple[float, ...] = per_hop()


@dataclass(frozen=True)
class HPCC(telemetry.TelemetryProtocol):
    """HPCC.

    Parameters
    ----------
    eta : float, in (0, 1]
        Target of U (Li et al.: 0.95).
    max_stage : int, >= 0
        Maximum number of RTTs in a row with additions only.
    w_ai : float, bytes, > 0
        Additive increase of an update.
    base_rtt : float, s, > 0
        T, the longest RTT of the network without queues.
    line_rate : float, bit/s, > 0
        Rate of the hosts' interfaces: the initial window is its product with T, or `initial` packets.
    form : str
        "window", as in the paper, or "rate", as in its simulator: windows are `min_rate` T or more. Both forms limit
        windows to `line_rate` T.
    min_rate : float, bit/s, > 0
        Minimum rate in the form "rate", for example 100 Mb/s.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; L has no effect. Lost data is retransmitted, and the next ACK updates W_c. `restart` is
        "none". Windows of application-limited flows grow like all others, up to `line_rate` T, which also limits the
        initial window.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    eta: float = 0.95
    max_stage: float = 5.0
    w_ai: QuantityField = default(80.0)
    base_rtt: QuantityField = default(13e-6)
    line_rate: QuantityField = default(100e9)
    form: str = "window"
    min_rate: QuantityField = default(100e6)
    transport: str = field(default="sack", kw_only=True)
    restart: str = field(default="none", kw_only=True)

    dimensions = {"w_ai": SIZE, "base_rtt": TIME, "line_rate": RATE, "min_rate": RATE}

    window_clock = "U"
    property_exceptions = {
        "agreement": "its additive increase changes the utilization less than a packet does, and packets decide shares"
    }

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
        check_number(self, eta=None, max_stage=0.0, w_ai=as_size, base_rtt=as_delay)
        check_choice(self, "form", ("window", "rate"))
        if self.eta > 1.0:
            raise ValueError(f"eta must be <= 1, got {shown(self.eta)}")
        if self.max_stage != int(self.max_stage):
            raise ValueError(f"max_stage must be a whole number, got {shown(self.max_stage)}")
        if self.min_rate > self.line_rate:
            raise ValueError(f"min_rate must be <= line_rate ({self.line_rate:g} bit/s), got {shown(self.min_rate)}")
        super().__post_init__()

    def params(self) -> dict[str, float]:
        is_rate, bytes_of = self.form == "rate", self.base_rtt / 8.0
        return {
            "eta": self.eta,
            "max_stage": self.max_stage,
            "w_ai": self.w_ai,
            "base_rtt": self.base_rtt,
            "first": self.line_rate * bytes_of,
            "least": self.min_rate * bytes_of if is_rate else 0.0,
            "most": self.line_rate * bytes_of,
            "interval": telemetry.reports_of(self.base_rtt),
            **super().params(),
        }

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(y: float, q: float, C: float, T: float, p: Params) -> float:
        """The report u of a link: in T it sends its queue and its arrivals, limited to C T."""
        return in_flight(q, min(C, y + q / T), C, p.base_rtt)

    @staticmethod
    def source_law(w: float, R: float, D: float, U: float, p: Params) -> float:
        """The window after it is acknowledged; if windows may only add, one of 1 + max_stage RTTs divides."""
        factor, T = p.eta / U, p.base_rtt
        after = telemetry.renewed(w, D, T, factor, 8.0 * p.w_ai, -factor / U * average_law(R, U, p))
        if U < p.eta:
            after = (after + p.max_stage * (w + max(D, T) / D * 8.0 * p.w_ai)) / (1.0 + p.max_stage)
        return min(max(after, 8.0 * p.least), 8.0 * p.most)

    @property
    def states(self) -> Mapping[str, State]:
        return {"U": State(average_law, "continuous", 1.0, lowest=telemetry.MIN_AVERAGE)}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": flow_on_start, "on_ack": flow_on_ack, "on_loss": telemetry.flow_on_loss}

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return equal windows at each link with the largest U; `fair_rate` is U."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of HPCC follow the link of largest U")
        limit = self.line_rate * self.base_rtt
        return telemetry.equilibrium_of_windows(network, self.base_rtt, self.eta, 8.0 * self.w_ai, limit, "HPCC", "U")


def in_flight(queue: float, rate: float, C: float, T: float) -> float:
    """Algorithm 1, MeasureInflight: the volume that a link holds and sends in T, as a share of C T."""
    return queue / (C * T) + rate / C


def average_law(R: float, U: float, p: Params) -> float:
    """Algorithm 1, MeasureInflight: U' [1/s]."""
    return (R - U) / p.base_rtt


def divided(window: float, U: float, added: float, p: Params) -> float:
    """Algorithm 1, ComputeWind: the window after a division."""
    return window * p.eta / U + added


def flow_on_start(flow: FlowState, header: telemetry.Header, p: Params, env: FlowEnv) -> None:
    """Start with a window of the host's line rate."""
    flow.reference = p.initial * env.packet_size if p.initial > 0.0 else p.first
    telemetry.send_with(flow.reference, p, env)


def flow_on_ack(flow: FlowState, header: telemetry.Header, p: Params, env: FlowEnv) -> None:
    """Algorithm 1, NewAck: update U, the window and, once an RTT, the reference window."""
    is_first = flow.hops == 0
    if not is_first:
        flow.U = measured(flow, header, p)
        divides = flow.U >= p.eta or flow.stage >= p.max_stage
        window = divided(flow.reference, flow.U, p.w_ai, p) if divides else flow.reference + p.w_ai
        window = min(max(window, p.least), p.most)
        if env.delivered > flow.update_end:
            flow.stage = 0 if divides else flow.stage + 1
            flow.reference = window
        telemetry.send_with(window, p, env)
    if is_first or env.delivered > flow.update_end:
        flow.update_end = 1.0 * (env.delivered + env.in_flight)
    telemetry.keep(flow, header)


def measured(flow: FlowState, header: telemetry.Header, p: Params) -> float:
    """Algorithm 1, MeasureInflight; links with a report no newer than the last one are skipped."""
    T = p.base_rtt
    largest = 0.0
    tau = 0.0
    for k in range(header.hops):
        passed = header.time[k] - flow.time[k]
        if passed > 0.0:
            rate = 8.0 * (header.sent[k] - flow.sent[k]) / passed
            u = in_flight(8.0 * min(header.queue[k], flow.queue[k]), rate, header.capacity[k], T)
            if u > largest:
                largest = u
                tau = min(passed, T)
    return (1.0 - tau / T) * flow.U + tau / T * largest
