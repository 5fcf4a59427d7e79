"""HyStart++ (RFC 9406): slow start that ends where the RTT begins to grow, not at a loss.

A round lasts until what was sent by its beginning is acknowledged. Once N_RTT samples of this round are in:

    d >= d_last + min(max(d_last/8, 4 ms), 16 ms)    slow start becomes conservative: a quarter of its growth
    d <  d_css                                       ... and is resumed, as the RTT grew by chance
    5 rounds later                                   it ends: ssthresh = W

    d  least RTT of this round   d_last  of the round before   d_css  of that in which it became conservative
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.models.base import FlowEnv
from ecc.models.shared import windows

N_RTT, LEAST, MOST, DIVISOR = 8, 0.004, 0.016, 8.0  # samples, s, s
CSS_GROWTH, CSS_ROUNDS = 4.0, 5
UNKNOWN = 1e300  # s, an RTT before any sample


@dataclass
class FlowState(windows.FlowState):
    """A host's state for one flow."""

    round_end: float = -1.0  # once so much is delivered, the round is over [bytes]; < 0: before the first
    d: float = UNKNOWN  # [s]
    d_last: float = UNKNOWN
    d_css: float = UNKNOWN
    samples: int = 0  # of the RTT in this round
    css_rounds: int = -1  # rounds of conservative slow start that have begun; -1: it is not conservative


def threshold(d_last: float) -> float:
    """RFC 9406 sec. 4.2: by how much the RTT has to grow [s]."""
    return min(max(d_last / DIVISOR, LEAST), MOST)


def slow_start(flow: Any, env: FlowEnv) -> None:
    """RFC 9406 sec. 4.2; after a loss, that of RFC 5681."""
    before = env.window
    windows.slow_start(flow, env)
    if flow.ssthresh < windows.NEVER_LEFT:
        return
    if flow.css_rounds >= 0:
        env.window = before + (env.window - before) / CSS_GROWTH
    if env.delivered >= flow.round_end:
        begin_round(flow, env)
    flow.d = min(flow.d, env.rtt)
    flow.samples += 1
    if flow.samples < N_RTT:
        return
    if flow.css_rounds < 0:
        if flow.d_last < UNKNOWN and flow.d >= flow.d_last + threshold(flow.d_last):
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
