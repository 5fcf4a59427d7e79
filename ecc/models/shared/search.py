"""SEARCH: slow start ends when less is delivered than was sent an RTT before (draft-chung-ccwg-search).

Time is divided into bins of b = 0.35 D_0, with D_0 the first RTT. At the end of bin i the host stores A[i] and S[i],
the volumes acknowledged and sent until then. With k + f = D/b (k whole, 0 <= f < 1), D the last RTT, and p = i - k:

    delivered = A[i] - A[i - 10]                                              in the last 10 bins, 3.5 RTTs
    expected  = (1 - f) (S[p] - S[p - 10]) + f (S[p - 1] - S[p - 11])         sent in 10 bins, until an RTT ago
    slow start ends if (expected - delivered)/expected >= 0.26

Bin p ends k bins before bin i. The time D before lies f bins earlier, between the ends of bins p - 1 and p. So the
interpolation is with p - 1, as in Firefox (neqo), and not with p + 1, as in draft -09 by Firefox's notes. With p + 1
the volume would be that sent (k - f) b before: for D = D_0, 1.14 bins and not 2.86. A rate that doubles per RTT has
then sent 1.5 times as much, and slow start ends on an empty path.

No check is made until 11 bins have passed one RTT ago, or if D is 15 bins or longer: the stored volumes do not reach as
far back. After 10 or more bins without an ACK the measurement begins anew. It applies to the first slow start only.

At the end ssthresh = W. With `search_drain` the window is also reduced, to the volume acknowledged in the last D_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.models.shared import windows
from ecc.models.shared.clock import is_over

__all__ = ["FlowState", "by_delivery", "expected_delivery", "has_fallen_behind"]

WINDOW = 10  # bins over which volumes are compared
BINS_PER_RTT = WINDOW / 3.5  # first RTTs are this many bins long
RTT_BINS = 3  # BINS_PER_RTT, rounded up
MAX_LOOKBACK = 15  # bins of an RTT, exclusive
ACKED_BINS = WINDOW + 1
SENT_BINS = ACKED_BINS + MAX_LOOKBACK
THRESHOLD = 0.26


@dataclass
class FlowState(windows.FlowState):
    """Further state of a host's flow."""

    search_bin: float = 0.0  # length of a bin [s]; 0: not measuring
    search_end: float = 0.0  # end of the current bin [s]
    search_index: int = 0  # number of bins that have ended
    search_acked: tuple[float, ...] = (0.0,) * ACKED_BINS  # volumes acknowledged at the ends of bins, a ring [bytes]
    search_sent: tuple[float, ...] = (0.0,) * SENT_BINS  # volumes sent at the ends of bins, a ring [bytes]


def by_delivery(on_ack: Hook) -> Hook:
    """Return a hook for ACKs with SEARCH; parameters `search_threshold` and `search_drain`.

    Parameters
    ----------
    on_ack : callable
        Hook with the slow start of RFC 5681.
    """

    def on_ack_by_delivery(flow: FlowState, header: Any, p: Params, env: FlowEnv) -> None:
        if flow.ssthresh >= windows.NEVER_LEFT and env.acked > 0 and env.recovering == 0:
            if has_fallen_behind(flow, p.search_threshold, env):
                if p.search_drain > 0.0:
                    i = flow.search_index
                    acked = flow.search_acked[i % ACKED_BINS] - flow.search_acked[(i - RTT_BINS) % ACKED_BINS]
                    env.window = min(env.window, max(acked, 2.0 * env.packet_size))
                flow.ssthresh = env.window
        on_ack(flow, header, p, env)

    return on_ack_by_delivery


def has_fallen_behind(flow: FlowState, threshold: float, env: FlowEnv) -> bool:
    """Return whether an ACK ends a bin, and the delivery lags the volume sent an RTT before by the threshold.

    Parameters
    ----------
    flow : FlowState
    threshold : float
        Share of the volume sent, for example 0.26.
    env : FlowEnv
        Environment of `on_ack`.
    """
    if not ends_bin(flow, env):
        return False
    i = flow.search_index
    bins = env.rtt / flow.search_bin
    if bins >= MAX_LOOKBACK or i - int(bins) <= WINDOW:
        return False
    delivered = flow.search_acked[i % ACKED_BINS] - flow.search_acked[(i - WINDOW) % ACKED_BINS]
    expected = expected_delivery(flow, bins)
    lags: bool = expected > 0.0 and expected - delivered >= threshold * expected
    return lags


def expected_delivery(flow: FlowState, bins: float) -> float:
    """Return the volume [bytes] sent in 10 bins until `bins` bins before the end of the last bin."""
    p = flow.search_index - int(bins)
    f = bins - int(bins)
    return (1.0 - f) * sent_until(flow, p) + f * sent_until(flow, p - 1)


def sent_until(flow: FlowState, p: int) -> float:
    """Return the volume [bytes] sent in the 10 bins that end with bin p."""
    volume: float = flow.search_sent[p % SENT_BINS] - flow.search_sent[(p - WINDOW) % SENT_BINS]
    return volume


def ends_bin(flow: FlowState, env: FlowEnv) -> bool:
    """Store the volumes if an ACK is the first one after the end of a bin; return whether it is."""
    acked, sent = 1.0 * env.delivered, 1.0 * (env.delivered + env.in_flight + env.lost)
    if flow.search_bin == 0.0:
        flow.search_bin = env.rtt / BINS_PER_RTT
        flow.search_end = env.now + flow.search_bin
        flow.search_index = 0
        flow.search_acked[0], flow.search_sent[0] = acked, sent
        return False
    if not is_over(env.now, flow.search_end):
        return False
    last = flow.search_index
    flow.search_index += 1
    flow.search_end += flow.search_bin
    while is_over(env.now, flow.search_end):  # bins without an ACK end with the volumes of the bin before
        i = flow.search_index
        flow.search_acked[i % ACKED_BINS] = flow.search_acked[last % ACKED_BINS]
        flow.search_sent[i % SENT_BINS] = flow.search_sent[last % SENT_BINS]
        flow.search_index += 1
        flow.search_end += flow.search_bin
        if flow.search_index - last > WINDOW:
            flow.search_bin = 0.0
            return False
    flow.search_acked[flow.search_index % ACKED_BINS] = acked
    flow.search_sent[flow.search_index % SENT_BINS] = sent
    return True
