"""Careful Resume: a flow begins with half of the window that an earlier flow used on the same path (RFC 9959).

    Reconnaissance   slow start; when the initial window is acknowledged and more data is waiting, the flow jumps
    Unvalidated      W = J = saved_window/2, paced at J per RTT; ends at the first ACK of a packet sent in it, after an
                     RTT, or when J is in flight: W = F, or W = P and normal control if F <= P or F < IW
    Validating       normal growth, until the last packet of the jump is acknowledged; then normal control
    Safe Retreat     after a loss or mark in either phase: W <= P/2, until the last packet of the jump is acknowledged;
                     then ssthresh = P/2 and normal control

    F  FlightSize   P  PipeSize: F before the jump, and the data of later packets that has been acknowledged

The flow does not jump after a loss, a mark or the end of slow start, if its minimum RTT is at most half of `saved_rtt`
or more than ten times as long, or if its window is larger than J already. P does not count the packets that were in
flight before the jump again when they are acknowledged: so the examples of the text, although its rule counts each ACK.
Retransmitted data is taken off P at the end of the retreat.

One flow at a time may use the saved values; a run with more prints a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.models.shared import windows
from ecc.models.shared.clock import has_come

__all__ = ["FlowState", "resuming"]

RECONNAISSANCE, UNVALIDATED, VALIDATING, RETREAT, NORMAL = range(5)
JUMP = 0.5  # share of the saved window
MIN_RTT, MAX_RTT = 0.5, 10.0  # range of the RTT, as factors of the saved one
RETREAT_SHARE = 0.5  # share of PipeSize that the window is, in a retreat
BETA = 0.5  # share of PipeSize that the threshold is, after a retreat


@dataclass
class FlowState(windows.FlowState):
    """Further state of a host's flow."""

    resume_phase: int = RECONNAISSANCE
    resume_began: float = 0.0  # time of the jump [s]
    resume_from: int = 0  # volume sent before the jump [bytes]
    resume_end: int = 0  # volume sent at the end of the jump [bytes]
    resume_lost: int = 0  # volume retransmitted before the jump [bytes]
    resume_window: float = 0.0  # window of a retreat [bytes]
    resume_rate: float = 0.0  # rate before the jump [bit/s]; 0: not paced
    pipe_size: float = 0.0  # PipeSize [bytes]


def resuming(hooks: dict[str, Hook]) -> dict[str, Hook]:
    """Return the hooks of a window protocol with Careful Resume; parameters `saved_window` and `saved_rtt`.

    Parameters
    ----------
    hooks : dict
        Hooks by name, with `on_ack` and `on_loss`.
    """
    return {**hooks, "on_ack": on_ack_of(hooks["on_ack"]), "on_loss": on_loss_of(hooks["on_loss"])}


def on_ack_of(on_ack: Hook) -> Hook:
    """Return a hook for ACKs that passes through the phases.

    Parameters
    ----------
    on_ack : callable
        Hook of normal congestion control.
    """

    def on_ack_resuming(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        on_ack(flow, header, p, env)
        is_marked = env.marked > 0 or env.ece > 0
        if flow.resume_phase == RECONNAISSANCE:
            if is_marked:
                flow.resume_phase = NORMAL
            elif env.acked > 0:
                reconnoiter(flow, p, env)
        elif flow.resume_phase != NORMAL:
            validated = env.delivered - max(flow.resume_from, env.delivered - env.acked)
            flow.pipe_size += max(1.0 * validated, 0.0)
            if flow.resume_phase == RETREAT:
                env.window = min(env.window, flow.resume_window)
                if env.delivered >= flow.resume_end:
                    known = flow.pipe_size - (env.lost - flow.resume_lost)
                    flow.ssthresh = max(BETA * known, 2.0 * env.packet_size)
                    flow.resume_phase = NORMAL
            elif is_marked:
                retreat(flow, env)
            elif flow.resume_phase == UNVALIDATED:
                env.window = JUMP * p.saved_window
                if is_complete(flow, env):
                    validate(flow, p, env)
            elif env.delivered >= flow.resume_end:
                flow.resume_phase = NORMAL

    return on_ack_resuming


def on_loss_of(on_loss: Hook) -> Hook:
    """Return a hook for losses that retreats from a jump.

    Parameters
    ----------
    on_loss : callable
        Hook of normal congestion control.
    """

    def on_loss_resuming(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        on_loss(flow, header, p, env)
        is_jump = flow.resume_phase == UNVALIDATED or flow.resume_phase == VALIDATING
        if is_jump and env.kind == 0:
            retreat(flow, env)
        elif flow.resume_phase != RETREAT or env.kind == 1:
            if flow.resume_phase == UNVALIDATED:
                env.rate = flow.resume_rate
            flow.resume_phase = NORMAL  # a loss before the jump, or a timeout

    return on_loss_resuming


def reconnoiter(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Jump if the path is confirmed and more data is waiting than the window permits."""
    s, jump = 1.0 * env.packet_size, JUMP * p.saved_window
    if env.delivered < windows.first_window(s, p):
        return
    is_confirmed = MIN_RTT * p.saved_rtt < env.min_rtt <= MAX_RTT * p.saved_rtt
    if not is_confirmed or env.window >= jump or flow.ssthresh < windows.NEVER_LEFT:
        flow.resume_phase = NORMAL
    elif env.unsent > env.window - env.in_flight:
        flow.resume_phase = UNVALIDATED
        flow.resume_began = env.now
        flow.resume_from = env.delivered + env.in_flight
        flow.resume_lost = env.lost
        flow.resume_rate = env.rate
        flow.pipe_size = 1.0 * env.in_flight
        env.window = jump
        env.rate = 8.0 * jump / env.rtt


def is_complete(flow: FlowState, env: FlowEnv) -> bool:
    """Return whether the jump ends: one of its packets is acknowledged, an RTT has passed, or all is in flight."""
    is_over: bool = env.delivered > flow.resume_from or has_come(env.now, flow.resume_began + env.rtt)
    return is_over or windows.is_filled(env.window, False, env)


def validate(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """End the jump with the data in flight as the window."""
    lowest = windows.first_window(1.0 * env.packet_size, p)
    flow.resume_end = env.delivered + env.in_flight
    env.rate = flow.resume_rate
    if env.in_flight < lowest or env.in_flight <= flow.pipe_size:
        env.window = max(flow.pipe_size, lowest)
        flow.resume_phase = NORMAL
    else:
        env.window = 1.0 * env.in_flight
        flow.resume_phase = VALIDATING


def retreat(flow: FlowState, env: FlowEnv) -> None:
    """Reduce the window to half of what the path is known to hold, until the jump is acknowledged."""
    if flow.resume_phase == UNVALIDATED:
        flow.resume_end = env.delivered + env.in_flight
        env.rate = flow.resume_rate
    flow.resume_window = max(RETREAT_SHARE * flow.pipe_size, 2.0 * env.packet_size)
    env.window = min(env.window, flow.resume_window)
    flow.resume_phase = RETREAT
