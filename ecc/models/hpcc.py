"""HPCC: windows that keep what is in flight, as links report it, at a share of their capacities (Li et al. 2019).

At an ACK, of each link l of its path, with what the ACK before it reported:

    u_l = min(q, q_prev)/(C T) + (B - B_prev)/(C tau_l),  tau_l = t - t_prev             Algorithm 1, MeasureInflight
    U  <- (1 - tau/T) U + tau/T u,   u = max_l u_l, of link l*,  tau = min(tau_l*, T)
    W  <- W_c eta/U + W_AI      U >= eta, or after max_stage RTTs of the other           Algorithm 1, ComputeWind
    W  <- W_c + W_AI            else
    W_c <- W                    once an RTT                                              Algorithm 1, NewAck

    W  window [bytes], paced at W/T   T  base_rtt [s]   q  queue   B  sent so far [bytes]   C  capacity   t  time [s]

The header is the paper's telemetry (INT): each link writes C, q, B and t as a packet leaves it. W = C_host T at first.
The paper does not say what comes before the first ACK: this one only keeps its telemetry, and U is 1, as in the
authors' simulator. There, rates R = W/T follow the same steps, from `min_rate` on (form="rate"), R_AI being W_AI/T,
with max_stage = 0 in its scripts. In both R <= C_host, without which U near 0, after an outage, leaves windows without
limit. csg-htsim and uet-htsim divide integers in tau/T, which is 0 or 1; never renew q_prev, B_prev and t_prev; and
divide W where it says W_c, so that the division compounds ACK by ACK.

As fluid, with D the RTT, y what comes to a link, and W(t) paced, at W/max(T, D):

    U' = (u - U)/T,   u = max_l [q/(C T) + min(1, y/C + q/(C h))]           reports average over h = T/16
    W  = W_c eta/U + W_AI,   W_c' = (W - W_c)/D                             W_c: left out of the state, by W and U
    below eta: W_c' = W_AI/D in max_stage of max_stage + 1 RTTs, a division in the other

Hosts that start with the largest window add for max_stage RTTs after a division where packets find U below eta; the
linear model is that of the division, U > eta. Without queue and with D = T, sums of rates obey
s T + eps + (1 - eps) e^(-s T)/(1 + s h) = 0, eps = W_AI/W, differences s T + eps = 0 (docs/telemetry.md).

At equilibrium U_l = eta W/(W - W_AI) at each flow's link l* of largest U: equal windows, and rates W/max(T, RTT), where
these are equal max-min fair. One link, N flows:  U = eta + N W_AI/(C T): without queue if W_AI <= (1 - eta) C T/N, a
rule that is ascribed to its paper, else q = (U - 1) C T.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import RATE, SIZE, TIME, QuantityField, as_delay, as_rate, as_size, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.records import per_hop
from ecc.contract.states import State
from ecc.models.shared import telemetry, windows
from ecc.network.network import Network


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow; the arrays are what the last ACK reported."""

    reference: float = 0.0  # W_c [bytes]
    U: float = 1.0
    stage: int = 0  # RTTs in a row that only added
    update_end: float = 0.0  # once more is delivered, W_c is renewed [bytes]
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
        Target of U.
    max_stage : int, >= 0
        RTTs in a row that may only add.
    w_ai : float, bytes, > 0
        What an update adds.
    base_rtt : float, s, > 0
        T, the longest RTT of the network without queues.
    line_rate : float, bit/s, > 0
        Of hosts: the first window is its product with T, or `initial` packets.
    form : str
        "window", the paper's, or "rate", its simulator's: at least `min_rate` T. Both: at most `line_rate` T.
    min_rate : float, bit/s, > 0
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        As of every `WindowProtocol`; L plays no part. What is lost is sent again, and the next ACK renews W_c.
        `restart` is "none". Windows of application-limited flows grow as any others do, up to
        `line_rate` T, which also bounds the first window.

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

    property_exceptions = {
        "agreement": "its additive increase changes the utilization by less than a packet does, which decides on shares"
    }

    @property
    def operating_range(self) -> OperatingRange:
        """The capacity of hosts, and RTTs of a data center."""
        return OperatingRange(
            (self.line_rate, self.line_rate), (0.8 * self.base_rtt, self.base_rtt), convergence=1000.0
        )

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
        """What a link reports, u: in T it sends what it holds and what comes, at most C T."""
        return in_flight(q, min(C, y + q / T), C, p.base_rtt)

    @staticmethod
    def source_law(w: float, R: float, D: float, U: float, p: Params) -> float:
        """The window once it is acknowledged; where windows may only add, one of 1 + max_stage RTTs divides."""
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
        """Equal windows at each link of largest U; `fair_rate` is U."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of HPCC follow the link of largest U")
        most = self.line_rate * self.base_rtt
        return telemetry.equilibrium_of_windows(network, self.base_rtt, self.eta, 8.0 * self.w_ai, most, "HPCC", "U")


def in_flight(queue: float, rate: float, C: float, T: float) -> float:
    """Algorithm 1, MeasureInflight: what a link holds and sends, as a share of C T."""
    return queue / (C * T) + rate / C


def average_law(R: float, U: float, p: Params) -> float:
    """Algorithm 1, MeasureInflight: U' [1/s]."""
    return (R - U) / p.base_rtt


def divided(window: float, U: float, added: float, p: Params) -> float:
    """Algorithm 1, ComputeWind: the window after a division."""
    return window * p.eta / U + added


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open with a window of the host's line rate."""
    flow.reference = p.initial * env.packet_size if p.initial > 0.0 else p.first
    telemetry.send_with(flow.reference, p, env)


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Algorithm 1, NewAck."""
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


def measured(flow: Any, header: Any, p: Params) -> float:
    """Algorithm 1, MeasureInflight; links whose report is no newer than the last one say nothing."""
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
    return (1.0 - tau / T) * flow.U + tau / T * largest  # type: ignore[no-any-return]
