"""What the hosts of all window protocols share: RFC 5681's opening, slow start, and answer to losses.

Windows and thresholds are in bytes; s is a packet, SMSS in the RFC. Routers do nothing but queue and drop. The engine
recovers the losses (RFC 6582 or RFC 6675) and lets a window's worth of packets be on the way meanwhile; the hooks set
the window at the start of a recovery and at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.models.base import check_choice, check_number
from ecc.quantity import as_count

NEVER_LEFT = 1e300  # bytes, a slow-start threshold "arbitrarily high" (RFC 5681 sec. 3.1)


@dataclass
class FlowState:
    """A host's books for one flow."""

    ssthresh: float = NEVER_LEFT  # slow-start threshold [bytes]
    window: float = 0.0  # of a flow that is under way from the start [bytes]; 0: it opens
    backed_off: int = 0  # whether its timer has expired since the last ACK of something new


def check_parameters(protocol: Any) -> None:
    """Check the parameters that all of these protocols have.

    Parameters
        protocol : with transport, initial, receiver_window, min_rto.
    """
    check_choice(protocol, "transport", ("newreno", "sack"))
    if protocol.initial is not None:
        check_number(protocol, initial=None)
    check_number(protocol, min_rto=None)
    object.__setattr__(protocol, "receiver_window", as_count(protocol.receiver_window, "receiver_window"))


def grown(window: Any, s: Any) -> Any:
    """RFC 5681 (3), of an ACK in congestion avoidance: about a packet an RTT."""
    return window + s * s / window


def halved(window: Any) -> Any:
    """RFC 5681 (4), of the data on its way."""
    return 0.5 * window


def initial_window(s: Any) -> Any:
    """RFC 5681 (1)."""
    if s > 2190.0:
        return 2.0 * s
    if s > 1095.0:
        return 3.0 * s
    return 4.0 * s


def flow_on_start(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Open with the initial window; a flow placed at an equilibrium has its window."""
    s = 1.0 * env.packet_size
    if flow.window > 0.0:
        env.window = flow.window
        flow.ssthresh = flow.window
    else:
        env.window = p.initial * s if p.initial > 0.0 else initial_window(s)


def in_slow_start(flow: Any, env: Any) -> bool:
    """Whether an ACK of something new finds the window below the threshold."""
    below: bool = env.window < flow.ssthresh
    return below


def slow_start(env: Any) -> None:
    """RFC 5681 (2)."""
    env.window += min(env.acked, env.packet_size)


def opens(flow: Any, env: Any) -> bool:
    """Whether an ACK says that something new has arrived, and no loss is being recovered; its timer is then reset."""
    if env.acked > 0:
        flow.backed_off = 0
    may: bool = env.acked > 0 and env.recovering == 0 and env.recovered == 0
    return may


def on_the_way(env: Any) -> Any:
    """FlightSize, but no more than a window: behind a gap that long stays open, SACK lets more be outstanding."""
    return min(env.window, 1.0 * env.in_flight)


def cut(flow: Any, window: Any, env: Any) -> None:
    """Go on from a window, of two packets at least, without slow start."""
    flow.ssthresh = max(window, 2.0 * env.packet_size)
    env.window = flow.ssthresh


def time_out(flow: Any, window: Any, env: Any) -> None:
    """One packet, and slow start up to a window; the threshold stays if the timer expires again (RFC 5681 sec. 3.1)."""
    if flow.backed_off == 0:
        flow.ssthresh = max(window, 2.0 * env.packet_size)
    flow.backed_off = 1
    env.window = 1.0 * env.packet_size
