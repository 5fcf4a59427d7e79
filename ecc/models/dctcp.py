"""DCTCP (Alizadeh et al. 2010; RFC 8257): the window reduction is proportional to the share of marked packets.

    alpha <- (1 - g) alpha + g m      once a window of data; m is the share of its bytes marked       RFC 8257 sec. 3.3
    W     <- (1 - alpha/2) W          a mark, once a window of data                                   RFC 8257 sec. 3.3
    W     <- W + s a/W                an ACK of a that reports no mark; W + a in slow start           RFC 5681
    W     <- F/2                      a loss, once a window                                           RFC 5681 (4)

    W  window [bytes]   s  packet   F  data in flight at the loss   g  1/16

Links mark above a threshold (`ecc.queues.StepMarking`). Receivers report each marked byte; if ACKs are delayed, they
send one at once when marks begin or end (RFC 8257 sec. 3.2). On links that only drop, DCTCP is NewReno.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.models.newreno import NewReno, flow_on_loss
from ecc.models.newreno import flow_on_ack as flow_on_unmarked_ack
from ecc.models.shared import windows


def averaged(alpha: float, marked: float, p: Params) -> float:
    """RFC 8257 sec. 3.3: the averaged share of marks after a window of data."""
    return (1.0 - p.g) * alpha + p.g * marked


def reduced(w: float, alpha: float) -> float:
    """RFC 8257 sec. 3.3: the window after a mark."""
    return (1.0 - 0.5 * alpha) * w


def window_after_mark(w: float, alpha: float, s: float) -> float:
    """RFC 8257 sec. 3.3: the window after a mark, two packets or more."""
    return max(reduced(w, alpha), 2.0 * s)


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    alpha: float = 1.0  # averaged share of marks; 1 at first, so that early marks halve the window
    acked: float = 0.0  # acknowledged in this window of data [bytes]
    marked: float = 0.0  # marked part of these [bytes]
    window_end: float = 0.0  # the window of data ends when more than this is delivered [bytes]
    reduced_until: float = 0.0  # the next mark counts when more than this is delivered [bytes]


@dataclass(frozen=True)
class DCTCP(windows.WindowProtocol):
    """DCTCP.

    Parameters
    ----------
    g : float, in (0, 1]
        Weight of a window of data in the averaged share of marks (RFC 8257: 1/16).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`. The default is recovery by RACK-TLP with proportional rate reduction, as in Linux and
        Windows.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    g: float = 0.0625
    transport: str = field(default="rack", kw_only=True)

    ecn_echo = "accurate"
    answers: ClassVar[frozenset[str]] = frozenset({"ecn", "loss"})
    no_equilibrium = windows.GROW_UNTIL_MARKED
    reference_loop = ReferenceLoop(
        10e9,
        (100e-6,) * 10,
        "DCTCP sec. 3.3: 10 Gb/s, 100 us, marks from 40 packets on; their slope is ours",
        1500,
        "RampMarking",
        {"min_threshold": 40.0, "max_threshold": 80.0},
    )
    cycle_loop = ReferenceLoop(
        10e9,
        (100e-6,) * 10,
        "DCTCP sec. 3.3: 10 Gb/s, 100 us, marks from 40 packets on",
        1500,
        "StepMarking",
        {"threshold": 40.0},
    )

    def __post_init__(self) -> None:
        check_number(self, g=None)
        if self.g > 1.0:
            raise ValueError(f"g must be <= 1, got {self.g:g}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    router_law = staticmethod(NewReno.router_law)
    source_law = staticmethod(NewReno.source_law)

    mark_response_law = staticmethod(window_after_mark)

    @property
    def states(self) -> Mapping[str, State]:
        return {"alpha": State(averaged, "rtt", 1.0, lowest=0.0, highest=1.0)}

    def params(self) -> dict[str, float]:
        return {"g": self.g, "deflates": float(self.transport == "newreno"), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {**windows.STARTS, "on_ack": flow_on_ack, "on_loss": flow_on_loss}


def flow_on_ack(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
    """Count marks, reduce the window at the first mark of a window of data, and open it at ACKs without marks."""
    flow.acked += env.acked
    flow.marked += env.marked
    if env.delivered > flow.window_end:
        flow.alpha = averaged(flow.alpha, min(flow.marked / flow.acked, 1.0), p)
        flow.window_end = 1.0 * (env.delivered + env.in_flight)
        flow.acked = 0.0
        flow.marked = 0.0
    if env.marked == 0 or env.recovered > 0:
        flow_on_unmarked_ack(flow, header, p, env)
    elif env.recovering == 0 and env.delivered > flow.reduced_until:
        windows.cut(flow, window_after_mark(env.window, flow.alpha, 1.0 * env.packet_size), env)
        flow.reduced_until = 1.0 * (env.delivered + env.in_flight)
