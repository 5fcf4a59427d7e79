"""DCTCP (Alizadeh et al. 2010; RFC 8257): a window is cut by as much as packets were marked.

    alpha <- (1 - g) alpha + g m      once a window of data, of whose bytes the share m was marked    RFC 8257 sec. 3.3
    W     <- (1 - alpha/2) W          a mark, once a window of data                                   RFC 8257 sec. 3.3
    W     <- W + s a/W                an ACK of a that reports no mark; W + a in slow start           RFC 5681
    W     <- F/2                      a loss, once a window                                           RFC 5681 (4)

    W  window [bytes]   s  packet   F  data in flight when the loss is seen   g  1/16

Links mark beyond a threshold (`ecc.queues.StepMarking`); receivers report each marked byte, and at once where marks
begin or end among packets whose ACKs are delayed (RFC 8257 sec. 3.2). Where links only drop, DCTCP is NewReno.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ecc.models.base import FlowEnv, Hook, Params, State, check_number
from ecc.models.newreno import NewReno, flow_on_loss
from ecc.models.newreno import flow_on_ack as flow_on_unmarked_ack
from ecc.models.shared import windows


def averaged(alpha: float, marked: float, p: Params) -> float:
    """RFC 8257 sec. 3.3: the share of marks, a window of data later."""
    return (1.0 - p.g) * alpha + p.g * marked


def reduced(w: float, alpha: float) -> float:
    """RFC 8257 sec. 3.3: the window after a mark."""
    return (1.0 - 0.5 * alpha) * w


def window_after_mark(w: float, alpha: float, s: float) -> float:
    """RFC 8257 sec. 3.3; two packets at least."""
    return max(reduced(w, alpha), 2.0 * s)


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    alpha: float = 1.0  # averaged share of marks
    acked: float = 0.0  # in this window of data [bytes]
    marked: float = 0.0  # of these
    window_end: float = 0.0  # once more is delivered, the window of data is over [bytes]
    reduced_until: float = 0.0  # ... and once more than this, the next mark is answered [bytes]


@dataclass(frozen=True)
class DCTCP(windows.WindowProtocol):
    """DCTCP.

    Parameters
    ----------
    g : float, in (0, 1]
        Weight of a window of data in the averaged share of marks.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart
        As of every `WindowProtocol`. Linux and Windows recover losses by RACK-TLP with
        proportional rate reduction, the default here.

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


def flow_on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Count marks, answer the first of a window of data, and open the window at ACKs without."""
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
