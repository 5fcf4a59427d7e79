"""Slow start that ends when the RTT begins to grow, before packets are lost: HyStart++ and Linux's HyStart.

HyStart++ (RFC 9406):

A round lasts until the data sent before its beginning is acknowledged. After eight samples of the RTT (sec. 4.2):

    d >= d_last + min(max(d_last/8, 4 ms), 16 ms)   slow start becomes conservative: a quarter of its growth
    d <  d_css                                      slow start resumes, as the RTT grew by chance
    5 conservative rounds                           slow start ends: ssthresh = W

    d  minimum RTT of this round   d_last  that of the previous round   d_css  that of the first conservative round

It applies to the first slow start only; after a loss slow start is that of RFC 5681.

HyStart as in Linux (net/ipv4/tcp_cubic.c; Ha and Rhee 2011): once the window has 16 packets, slow start ends, with
ssthresh = W, at the first ACK that meets either condition. A timeout starts it again.

    t - t_0 > (m + a)/2                     and each ACK of the round arrived within 2 ms after its predecessor
    d > m + min(max(m/8, 4 ms), 16 ms)      with more than eight samples of the RTT in the round

    t_0  first ACK of the round   m  minimum RTT of the flow   d  minimum RTT of the round
    a    min(1 ms, 4 * 65536 bytes/(2 W/srtt)), an allowance for segments that are sent together

SEARCH, the third choice, is in `ecc.models.shared.search`.

Protocols derived from `SlowStartProtocol`, with a `FlowState` derived from the one here, have the parameter. Their hook
for ACKs grows the window below the threshold (`windows.slow_start`). A hook around it ends slow start or, for
HyStart++, takes back three quarters of the growth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.records import with_fields
from ecc.models.shared import search, windows

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

N_RTT, MIN_RISE, MAX_RISE, RISE = 8, 0.004, 0.016, 0.125  # samples, s, s, share of the RTT (RFC 9406 sec. 4.3)
CSS_GROWTH, CSS_ROUNDS = 0.25, 5
UNKNOWN = 1e300  # s, an RTT before the first sample
LOW_WINDOW, ACK_GAP = 16.0, 0.002  # packets, s: hystart_low_window and hystart_ack_delta_us of Linux
MAX_ACK_DELAY, BURST = 0.001, 262144.0  # s, bytes: hystart_ack_delay of Linux
STANDARD, HYSTART, HYSTART_PLUS_PLUS, SEARCH = "standard", "hystart", "hystart++", "search"


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    round_end: float = -1.0  # the round ends when this volume is delivered [bytes]; < 0: before the first round
    d: float = UNKNOWN  # minimum RTT of this round [s]
    d_last: float = UNKNOWN  # minimum RTT of the previous round [s]
    d_css: float = UNKNOWN  # minimum RTT of the round in which slow start became conservative [s]
    samples: int = 0  # RTT samples in this round
    css_rounds: int = -1  # rounds of conservative slow start that have begun; -1: not conservative
    round_began: float = 0.0  # time of the first ACK of this round [s]
    train_end: float = 0.0  # time of the last ACK of this round within 2 ms after its predecessor [s]
    has_ended: int = 0  # 1 if Linux's HyStart has ended slow start


@dataclass(frozen=True, kw_only=True)
class SlowStartProtocol(windows.EndToEndProtocol):
    """Base class of the protocols with a choice of slow starts.

    Parameters
    ----------
    slow_start : str
        "standard" (RFC 5681), "hystart++" (RFC 9406), "hystart" (Linux's CUBIC) or "search"
        (draft-chung-ccwg-search); the last three in packet runs only.
    search_threshold : float, in (0, 1)
        SEARCH ends slow start when the volume delivered in 3.5 RTTs lags the volume sent an RTT before by this share
        (draft -09: 0.26; drafts of 2024: 0.35).
    search_drain : bool
        Whether SEARCH also reduces the window, to the volume acknowledged in the last RTT.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, ecn
        See `EndToEndProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    slow_start: str = STANDARD
    search_threshold: float = search.THRESHOLD
    search_drain: bool = False

    FlowState: ClassVar[type] = FlowState

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "slow_start", (STANDARD, HYSTART, HYSTART_PLUS_PLUS, SEARCH))
        check_choice(self, "search_drain", (False, True))
        check_number(self, search_threshold=None)
        if not self.search_threshold < 1.0:
            raise ValueError(f"search_threshold must be < 1, got {self.search_threshold:g}")

    def params(self) -> dict[str, float]:
        chosen = {"search_threshold": self.search_threshold, "search_drain": float(self.search_drain)}
        return {**(chosen if self.slow_start == SEARCH else {}), **super().params()}

    def flow_record(self) -> Any:
        record = super().flow_record()
        return with_fields(record, search.FlowState) if self.slow_start == SEARCH else record

    def _completed_flow_hooks(self, hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        changed = dict(hooks)
        if self.slow_start == HYSTART_PLUS_PLUS and "on_ack" in hooks:
            changed["on_ack"] = by_rtts(hooks["on_ack"])
        elif self.slow_start == HYSTART and {"on_ack", "on_loss"} <= set(hooks):
            changed["on_ack"] = by_delay_or_train(hooks["on_ack"])
            changed["on_loss"] = after_timeout(hooks["on_loss"])
        elif self.slow_start == SEARCH and "on_ack" in hooks:
            changed["on_ack"] = search.by_delivery(hooks["on_ack"])
        return super()._completed_flow_hooks(changed)

    @property
    def fluid_refusal(self) -> str | None:
        if self.slow_start == STANDARD:
            return None
        name = f"{type(self).__name__}(slow_start={self.slow_start!r})"
        return f"{name} has no fluid model: its slow start ends by measurements at single ACKs"


def rise(d_last: float) -> float:
    """RFC 9406 sec. 4.2: the increase of the RTT [s] that signals a growing queue."""
    return min(max(RISE * d_last, MIN_RISE), MAX_RISE)


def by_rtts(on_ack: Hook) -> Hook:
    """Return a hook for ACKs with HyStart++ as its slow start.

    Parameters
    ----------
    on_ack : callable
        Hook with the slow start of RFC 5681.
    """

    def on_ack_by_rtts(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        before = env.window
        grows = flow.ssthresh >= windows.NEVER_LEFT and windows.opens(flow, env)
        on_ack(flow, header, p, env)
        if grows:
            hystart(flow, before, env)

    return on_ack_by_rtts


def by_delay_or_train(on_ack: Hook) -> Hook:
    """Return a hook for ACKs with Linux's HyStart.

    Parameters
    ----------
    on_ack : callable
        Hook with the slow start of RFC 5681.
    """

    def on_ack_by_delay_or_train(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        if flow.has_ended == 0 and env.window < flow.ssthresh and env.acked > 0 and env.recovering == 0:
            linux_hystart(flow, env)
        on_ack(flow, header, p, env)

    return on_ack_by_delay_or_train


def after_timeout(on_loss: Hook) -> Hook:
    """Return a hook for losses that lets Linux's HyStart begin again after a timeout.

    Parameters
    ----------
    on_loss : callable
        Hook for losses.
    """

    def on_loss_or_timeout(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        if env.kind == 1:
            flow.has_ended = 0
            flow.round_end = -1.0
        on_loss(flow, header, p, env)

    return on_loss_or_timeout


def linux_hystart(flow: FlowState, env: FlowEnv) -> None:
    """Linux's hystart_update, at an ACK in slow start, before the window grows."""
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
            flow.has_ended = 1
    flow.d = min(flow.d, env.rtt)
    if flow.samples < N_RTT:
        flow.samples += 1
    elif flow.d > env.min_rtt + rise(env.min_rtt):
        flow.has_ended = 1
    if flow.has_ended > 0:
        flow.ssthresh = env.window


def hystart(flow: FlowState, before: float, env: FlowEnv) -> None:
    """RFC 9406 sec. 4.2, after slow start has opened the window from `before`."""
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


def begin_round(flow: FlowState, env: FlowEnv) -> None:
    """Begin a round with the data in flight now; after five conservative rounds slow start ends."""
    flow.round_end = 1.0 * (env.delivered + env.in_flight)
    flow.d_last = flow.d
    flow.d = UNKNOWN
    flow.samples = 0
    if flow.css_rounds >= 0:
        flow.css_rounds += 1
        if flow.css_rounds >= CSS_ROUNDS:
            flow.ssthresh = env.window
