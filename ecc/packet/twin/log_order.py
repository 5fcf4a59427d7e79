"""Events of a log in the order of their causes, for stacks that write them in another order.

Most stacks write an ACK, then the losses and the metrics that follow from it. quic-go writes the packet with the ACK
last, and the metrics before it processes the ACK: the RTTs are those of this ACK, the window is that after the previous
one. Here the ACK is moved before its RTTs and losses, and the window to the event after which it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan

from ecc.formats.qlog import Event

__all__ = ["in_causal_order"]

AT_ONCE = 10**9
"""ps; metrics that an ACK causes are written within this time of it."""
RTTS = ("latest_rtt", "smoothed_rtt", "min_rtt", "rtt_variance")
BEFORE = (*RTTS, "bytes_in_flight")
"""Metrics that do not hold after the previous ACK: of this one, and of packets sent since then."""
CAUSED = ("metrics_updated", "packet_lost", "packets_lost", "congestion_state_updated")


def in_causal_order(events: Sequence[Event]) -> list[Event]:
    """Return events with each ACK before what it causes; metrics after it are NaN if the log does not have them.

    Parameters
    ----------
    events : sequence of Event
        Events in the order of a log.
    """
    if not _writes_acks_last(events):
        return list(events)
    ordered: list[Event] = []
    end, unknown = 0, {"congestion_window": nan}  # index after the last ACK and what it caused
    for event in events:
        if not _is_ack(event):
            ordered.append(event)
            continue
        begin = len(ordered)
        while begin > end and ordered[begin - 1].name in CAUSED and event.time - ordered[begin - 1].time <= AT_ONCE:
            begin -= 1
        caused = ordered[begin:]
        del ordered[begin:]
        measured = [other for other in caused if other.name == "metrics_updated"]
        windows = [{name: value for name, value in other.data.items() if name not in BEFORE} for other in measured]
        if end:
            time, data = ordered[end - 1].time, windows[0] if windows else unknown
            ordered.insert(end, replace(event, name="metrics_updated", time=time, data=data, seen={}))
        ordered.append(event)
        rtts = [{name: other.data[name] for name in RTTS if name in other.data} for other in measured]
        ordered += [replace(other, data=data) for other, data in zip(measured, rtts, strict=True)]
        ordered += [other for other in caused if other.name != "metrics_updated"]
        end = len(ordered)
    return ordered


def _is_ack(event: Event) -> bool:
    return event.name == "packet_received" and bool(event.data["ranges"])


def _writes_acks_last(events: Sequence[Event]) -> bool:
    """Return whether metrics come directly before ACKs, and not directly after them."""
    before = after = 0
    for previous, event, following in zip(events, events[1:], events[2:], strict=False):
        if event.name == "metrics_updated":
            follows = _is_ack(previous) and event.time - previous.time <= AT_ONCE
            precedes = _is_ack(following) and following.time - event.time <= AT_ONCE
            before += precedes and not follows
            after += follows and not precedes
    return before >= 3 and after * 10 < before
