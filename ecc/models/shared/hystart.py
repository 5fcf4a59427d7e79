"""Slow start that ends when the RTT begins to grow, before packets are lost: HyStart++ and Linux's HyStart.

HyStart++ (RFC 9406):

A round lasts until what was sent by its beginning is acknowledged; once it has eight samples of the RTT (sec. 4.2):

    d >= d_last + min(max(d_last/8, 4 ms), 16 ms)   slow start becomes conservative: a quarter of its growth
    d <  d_css                                      ... and is resumed, as the RTT grew by chance
    5 rounds later                                  it ends: ssthresh = W

    d  least RTT of this round   d_last  of the round before   d_css  of that in which it became conservative

It is of the first slow start; after a loss slow start is that of RFC 5681.

HyStart as in Linux (net/ipv4/tcp_cubic.c; Ha and Rhee 2011): from a window of 16 packets on, slow start ends, with
ssthresh = W, at the first ACK for which either condition holds. A timeout starts it again.

    t - t_0 > (m + a)/2                     and each ACK of the round arrived at most 2 ms after its predecessor
    d > m + min(max(m/8, 4 ms), 16 ms)      with more than eight samples of the RTT in the round

    t_0  first ACK of the round   m  minimum RTT of the flow   d  minimum RTT of the round
    a    min(1 ms, 4 * 65536 bytes/(2 W/srtt)), for segments that are sent together

Hosts that derive from `SlowStartProtocol`, and whose `FlowState` is derived from the one here, have the parameter.
Around their own hook for ACKs, which lets the window grow below the threshold (`windows.slow_start`), is one that ends
slow start or, for HyStart++, takes back three quarters of the growth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ecc.models.base import FlowEnv, Hook, check_choice
from ecc.models.shared import windows

__all__ = [
    "FlowState",
    "SlowStartProtocol",
    "after_timeout",
    "begin_round",
    "by_delay_or_train",
    "by_rtts",
    "hystart",
    "linux_hystart",
    "rise",
]

N_RTT, LEAST_RISE, MOST_RISE, RISE = 8, 0.004, 0.016, 0.125  # samples, s, s, share of the RTT
CSS_GROWTH, CSS_ROUNDS = 0.25, 5
UNKNOWN = 1e300  # s, an RTT before any sample
LOW_WINDOW, ACK_GAP = 16.0, 0.002  # packets, s: hystart_low_window and hystart_ack_delta_us of Linux
MAX_ACK_DELAY, BURST = 0.001, 262144.0  # s, bytes: hystart_ack_delay of Linux
STANDARD, HYSTART, HYSTART_PLUS_PLUS = "standard", "hystart", "hystart++"


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    round_end: float = -1.0  # once so much is delivered, the round is over [bytes]; < 0: before the first
    d: float = UNKNOWN  # [s]
    d_last: float = UNKNOWN
    d_css: float = UNKNOWN
    samples: int = 0  # of the RTT in this round
    css_rounds: int = -1  # rounds of conservative slow start that have begun; -1: it is not conservative
    round_began: float = 0.0  # time of the first ACK of this round [s]
    train_end: float = 0.0  # time of the last ACK of this round that followed another within 2 ms [s]
    found: int = 0  # whether Linux's HyStart has ended slow start


@dataclass(frozen=True, kw_only=True)
class SlowStartProtocol(windows.EndToEndProtocol):
    """Base of the protocols whose slow start is a parameter.

    Parameters
    ----------
    slow_start : str
        "standard" (RFC 5681), "hystart++" (RFC 9406), or "hystart" (that of Linux's CUBIC); the last two in packets.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        As of every `EndToEndProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    slow_start: str = STANDARD

    FlowState: ClassVar[type] = FlowState

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "slow_start", (STANDARD, HYSTART, HYSTART_PLUS_PLUS))

    def _completed_flow_hooks(self, hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        changed = dict(hooks)
        if self.slow_start == HYSTART_PLUS_PLUS and "on_ack" in hooks:
            changed["on_ack"] = by_rtts(hooks["on_ack"])
        elif self.slow_start == HYSTART and {"on_ack", "on_loss"} <= set(hooks):
            changed["on_ack"] = by_delay_or_train(hooks["on_ack"])
            changed["on_loss"] = after_timeout(hooks["on_loss"])
        return super()._completed_flow_hooks(changed)

    @property
    def fluid_refusal(self) -> str | None:
        if self.slow_start == STANDARD:
            return None
        name = f"{type(self).__name__}(slow_start={self.slow_start!r})"
        return f"{name} has no fluid model: its slow start ends by RTTs of single packets"


def rise(d_last: float) -> float:
    """RFC 9406 sec. 4.2: by how much the RTT has to grow [s]."""
    return min(max(RISE * d_last, LEAST_RISE), MOST_RISE)


def by_rtts(on_ack: Hook) -> Hook:
    """Return a hook for ACKs whose slow start is HyStart++.

    Parameters
    ----------
    on_ack : callable
        Whose slow start is that of RFC 5681.
    """

    def on_ack_by_rtts(flow: Any, header: Any, p: Any, env: Any) -> None:
        before = env.window
        grows = flow.ssthresh >= windows.NEVER_LEFT and windows.opens(flow, env)
        on_ack(flow, header, p, env)
        if grows:
            hystart(flow, before, env)

    return on_ack_by_rtts


def by_delay_or_train(on_ack: Hook) -> Hook:
    """Return a hook for ACKs whose slow start ends by Linux's HyStart.

    Parameters
    ----------
    on_ack : callable
        Hook with the slow start of RFC 5681.
    """

    def on_ack_by_delay_or_train(flow: Any, header: Any, p: Any, env: Any) -> None:
        if flow.found == 0 and env.window < flow.ssthresh and env.acked > 0 and env.recovering == 0:
            linux_hystart(flow, env)
        on_ack(flow, header, p, env)

    return on_ack_by_delay_or_train


def after_timeout(on_loss: Hook) -> Hook:
    """Return a hook for losses after which Linux's HyStart begins again if the loss was a timeout.

    Parameters
    ----------
    on_loss : callable
        Hook for losses.
    """

    def on_loss_or_timeout(flow: Any, header: Any, p: Any, env: Any) -> None:
        if env.kind == 1:
            flow.found = 0
            flow.round_end = -1.0
        on_loss(flow, header, p, env)

    return on_loss_or_timeout


def linux_hystart(flow: Any, env: FlowEnv) -> None:
    """Linux's hystart_update, at an ACK in slow start and before its growth."""
    if env.delivered > flow.round_end:
        flow.round_end = 1.0 * (env.delivered + env.in_flight)
        flow.round_began = flow.train_end = env.now
        flow.d = UNKNOWN
        flow.samples = 0
    if env.window < LOW_WINDOW * env.packet_size:
        return
    if env.now - flow.train_end <= ACK_GAP:
        flow.train_end = env.now
        ack_delay = min(MAX_ACK_DELAY, 0.5 * BURST * env.srtt / env.window)
        if env.now - flow.round_began > 0.5 * (env.min_rtt + ack_delay):
            flow.found = 1
    flow.d = min(flow.d, env.rtt)
    if flow.samples < N_RTT:
        flow.samples += 1
    elif flow.d > env.min_rtt + rise(env.min_rtt):
        flow.found = 1
    if flow.found > 0:
        flow.ssthresh = env.window


def hystart(flow: Any, before: float, env: FlowEnv) -> None:
    """RFC 9406 sec. 4.2, where slow start has opened the window from what it was before."""
    if flow.css_rounds >= 0:
        env.window = before + CSS_GROWTH * (env.window - before)
    if env.delivered >= flow.round_end:
        begin_round(flow, env)
    flow.d = min(flow.d, env.rtt)
    flow.samples += 1
    if flow.samples < N_RTT:
        return
    if flow.css_rounds < 0:
        if flow.d_last < UNKNOWN and flow.d >= flow.d_last + rise(flow.d_last):
            flow.d_css = flow.d
            flow.css_rounds = 0
    elif flow.d < flow.d_css:
        flow.css_rounds = -1


def begin_round(flow: Any, env: FlowEnv) -> None:
    """What is in flight now is this round's; after five conservative ones slow start ends."""
    flow.round_end = 1.0 * (env.delivered + env.in_flight)
    flow.d_last = flow.d
    flow.d = UNKNOWN
    flow.samples = 0
    if flow.css_rounds >= 0:
        flow.css_rounds += 1
        if flow.css_rounds >= CSS_ROUNDS:
            flow.ssthresh = env.window
