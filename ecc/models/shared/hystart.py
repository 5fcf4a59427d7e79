"""HyStart++ (RFC 9406): slow start that ends where the RTT begins to grow, not at a loss.

A round lasts until what was sent by its beginning is acknowledged; once it has eight samples of the RTT (sec. 4.2):

    d >= d_last + min(max(d_last/8, 4 ms), 16 ms)   slow start becomes conservative: a quarter of its growth
    d <  d_css                                      ... and is resumed, as the RTT grew by chance
    5 rounds later                                  it ends: ssthresh = W

    d  least RTT of this round   d_last  of the round before   d_css  of that in which it became conservative

It is of the first slow start; after a loss slow start is that of RFC 5681. Hosts that derive from `SlowStartProtocol`,
and whose `FlowState` is derived from the one here, have the parameter: around their own hook for ACKs, which lets the
window grow below the threshold (`windows.slow_start`), comes one that takes back three quarters of that, or ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ecc.models.base import FlowEnv, Hook, check_choice
from ecc.models.shared import windows

__all__ = ["FlowState", "SlowStartProtocol", "begin_round", "by_rtts", "hystart", "rise"]

N_RTT, LEAST_RISE, MOST_RISE, RISE = 8, 0.004, 0.016, 0.125  # samples, s, s, share of the RTT
CSS_GROWTH, CSS_ROUNDS = 0.25, 5
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


@dataclass(frozen=True, kw_only=True)
class SlowStartProtocol(windows.EndToEndProtocol):
    """Base of the protocols whose slow start is a parameter.

    Parameters
    ----------
    slow_start : str
        "standard" (RFC 5681), or "hystart++" (RFC 9406; in packets).
    transport, initial, receiver_window, min_rto, initial_rto, L, ecn
        As of every `EndToEndProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    slow_start: str = "standard"

    FlowState: ClassVar[type] = FlowState

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "slow_start", ("standard", "hystart++"))

    def _hosts(self, on_ack: Hook, on_loss: Hook) -> dict[str, Hook]:
        return super()._hosts(on_ack if self.slow_start == "standard" else by_rtts(on_ack), on_loss)

    @property
    def fluid_refusal(self) -> str | None:
        if self.slow_start == "standard":
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
