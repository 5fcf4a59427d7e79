"""Hook calls of a sender and the values of `env` in them, reconstructed from its qlog.

A log has packets, ACKs, losses and metrics, from which all fields of `env` follow:

    on_start   with the first packet
    on_restart before on_send, for packets for which the log reports it: other logs do not show whether senders restart
    on_send    with each packet that counts as in flight
    on_loss    kind 0, once per recovery: when the log reports that one begins (congestion_state_updated, "recovery"),
               or, if it never does, at the loss of a packet sent after the last one began (RFC 9002 sec. 7.3.1);
               kind 1 at a persistent congestion, or, in a log without states, if only a timer (pto_expired) detects
               losses
    on_ack     with each packet that has an ACK frame for new data; later events belong to it, up to the next
               packet that is sent or received

    acked      bytes of packets that an ACK acknowledges first, and that were not lost
    rtt        latest_rtt, or the time since the packet with the highest number among these was sent
    srtt       smoothed_rtt, or a moving average of weight 1/8 (RFC 9002 sec. 5.3); min_rtt: min_rtt, or the minimum rtt
    in_flight  bytes_in_flight, or bytes sent and neither acknowledged nor lost; at a loss: the value before it
    recovering from the start of a recovery to the next state in the log; or while ACKs are for packets sent before it
    unsent     0 while the log reports that the application limits the sender; otherwise there is always more to send
    limited_by the window, unless the log reports that the application limits the sender; in a log that never reports
               it, the window if it had no room for a packet before the ACK
    marked     increase of the CE count of the ACKs, in full packets

The header that an ACK returns is that of the packet with the highest number that it acknowledges first. A log can also
record values that a sender saw and that do not follow from these rules, for example of TCP: `Event.seen`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ecc.formats.qlog import Event
from ecc.packet.twin.log_order import in_causal_order
from ecc.packet.twin.state import BY_DATA, BY_WINDOW, NO_END, to_seconds

__all__ = ["Call", "hook_calls"]

Key = tuple[str, int]
"""Packet number space and number of a packet."""
Corrections = Callable[["Call"], Mapping[str, float]]
LOSSES = ("packet_lost", "packets_lost")
APPLICATION_LIMITED = ("application_limited", "app_limited")
"""Names of the state of a sender that its application limits."""
SOON = 10**9
"""ps; events that are later than an ACK by more than this do not belong to it."""
ACCUMULATED = ("in_flight", "delivered", "lost", "unsent")
"""Counts that continue from a corrected value."""


@dataclass
class Call:
    """A call of a hook.

    `time` is in ps. `env` holds the fields that the hook reads, except rate and window. `packet` is the packet that
    carries the header, and `event` the event that caused the call. `arrived` lists packets that the receiver has
    counted since the last call, with sizes. `metrics` holds the known metrics of the log after the call. `is_last` is
    true for the last call that the event caused.
    """

    hook: str
    time: int
    env: dict[str, float]
    packet: Key | None
    event: Event
    arrived: Sequence[tuple[Key, int]] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    is_last: bool = True


def hook_calls(events: Sequence[Event], packet_size: int, corrected: Corrections | None = None) -> Iterator[Call]:
    """Yield the calls of a sender's hooks.

    Parameters
    ----------
    events : sequence of Event
    packet_size : int, bytes
        Size of a full packet, for example 1500.
    corrected : callable, optional
        Returns the fields of `env` that differ from the reconstruction, for a call; None: those in the log.

    Raises
    ------
    ValueError
        If the number of a packet is not larger than the previous number in its space.
    """
    events = in_causal_order(events)
    sender = _Sender(events, packet_size, corrected or (lambda call: call.event.seen.get(call.hook, {})))
    for group in _groups(events):
        yield from sender.take(group)


def _groups(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield groups of events: an ACK, or a loss without an ACK, with the events that follow from it; others alone."""
    group: list[Event] = []
    for event in events:
        if group and _follows(event, group):
            group.append(event)
            continue
        if group:
            yield group
        group = [event] if event.name == "packet_received" or _is_loss(event) else []
        if not group:
            yield [event]
    if group:
        yield group


def _follows(event: Event, group: Sequence[Event]) -> bool:
    """Return whether an event belongs to a group: it is soon after, and if it reports losses, before the metrics."""
    if event.name not in (*LOSSES, "metrics_updated", "congestion_state_updated"):
        return False
    if event.time - group[0].time > SOON:
        return False
    if event.name == "metrics_updated":
        return True
    if group[0].name == "packet_received" and _is_timeout(event):
        return False
    measured = [other.time for other in group if other.name == "metrics_updated"]
    return not measured or event.time <= measured[-1]


def _is_loss(event: Event) -> bool:
    """Return whether an event without an ACK begins a group."""
    return event.name in LOSSES or (event.name == "congestion_state_updated" and _is_response(event))


def _is_timeout(event: Event) -> bool:
    trigger = event.data.get("trigger", "")
    return trigger == "pto_expired" or "persistent" in trigger


def _is_response(event: Event) -> bool:
    """Return whether an event reports a sender's response to losses."""
    return _is_recovery(event) or (event.name == "congestion_state_updated" and _is_timeout(event))


def _is_about_limits(event: Event) -> bool:
    """Return whether an event reports whether the application limits the sender."""
    if event.name == "congestion_state_updated":
        return event.data["new"] in APPLICATION_LIMITED
    return event.name == "app_limited_updated" or (event.name == "metrics_updated" and "app_limited" in event.data)


class _Space:
    """Packets of a number space in flight, and lost packets: number -> (size, time of sending [ps])."""

    def __init__(self) -> None:
        self.flying: dict[int, tuple[int, int]] = {}
        self.gone: dict[int, tuple[int, int]] = {}
        self.highest = -1

    def within(self, packets: Mapping[int, Any], ranges: Iterable[tuple[int, int]]) -> list[int]:
        """Return the numbers of packets that are in ranges, sorted."""
        numbers = sorted(packets)
        selected: set[int] = set()
        for low, high in ranges:
            selected.update(numbers[bisect_left(numbers, low) : bisect_right(numbers, high)])
        return sorted(selected)


class _Sender:
    """State of a sender, updated by each event."""

    def __init__(self, events: Sequence[Event], packet_size: int, corrected: Corrections) -> None:
        self.packet_size, self.corrected = packet_size, corrected
        self.spaces: dict[str, _Space] = {}
        self.metrics: dict[str, float] = {}
        self.has_states = any(_is_response(event) for event in events)
        self.has_limits = any(_is_about_limits(event) for event in events)
        self.recovers = self.started = False
        self.recovery_began = -1
        self.rtt = self.srtt = self.min_rtt = 0.0
        self.in_flight = self.delivered = self.lost = 0
        self.unsent = NO_END
        self.ce = 0
        self.last: Key | None = None

    def take(self, group: Sequence[Event]) -> Iterator[Call]:
        event = group[0]
        if event.name == "packet_sent":
            yield from self.send(event)
        elif event.name == "packet_received" or _is_loss(event):
            yield from self.process(group)
        else:
            self.note(event)

    def note(self, event: Event) -> None:
        """Process an event that is not part of a group."""
        if event.name == "metrics_updated":
            self.metrics.update(event.data)
            self.in_flight = int(event.data.get("bytes_in_flight", self.in_flight))
            if "app_limited" in event.data:
                self.limit(event.data["app_limited"] > 0.0)
        elif event.name == "app_limited_updated":
            self.limit(event.data["limited"])
        elif event.name == "congestion_state_updated":
            self.recovers = _is_recovery(event)
            self.limit(event.data["new"] in APPLICATION_LIMITED)

    def limit(self, is_limited: bool) -> None:
        self.unsent = 0 if is_limited else NO_END

    def call(self, hook: str, event: Event, packet: Key | None = None, **values: Any) -> Call:
        env: dict[str, float] = {
            "now": to_seconds(event.time),
            "packet_size": self.packet_size,
            "rtt": self.rtt,
            "srtt": self.srtt,
            "min_rtt": self.min_rtt,
            "in_flight": self.in_flight,
            "delivered": self.delivered,
            "lost": self.lost,
            "kind": 0,
            "flow": 0,
            "random": -1.0,
            "size": -1,
            "unsent": self.unsent,
            "header_bytes": 0,
            "acked": 0,
            "recovering": int(self.recovers),
            "recovered": 0,
            "undone": 0,
            "marked": 0,
            "ece": 0,
            "timer": -1.0,
            "timer_1": -1.0,
            "timer_2": -1.0,
            "timer_3": -1.0,
            "counter": 0,
            "control_size": 0,
            "control_kind": 0,
            "limited_by": BY_WINDOW if self.unsent > 0 else BY_DATA,
            "idle": 0.0,
            "rto": 0.0,
            "transport": 0,
        } | values
        call = Call(hook, event.time, env, packet, event)
        seen = dict(self.corrected(call))
        if packet is not None and "packet" in seen:
            call.packet = (packet[0], int(seen.pop("packet")))
        env.update(seen)
        for name in ACCUMULATED:
            if name in seen:
                setattr(self, name, int(seen[name]))
        return call

    def send(self, event: Event) -> Iterator[Call]:
        space = self.spaces.setdefault(event.data["space"], _Space())
        number, size = event.data["number"], event.data["size"]
        if number <= space.highest:
            raise ValueError(
                f"record {event.record}: packet_number must grow within a space, got {number} after {space.highest}"
            )
        space.highest = number
        if not event.data["counts"]:
            return
        if not self.started:
            self.started = True
            start = self.call("on_start", event)
            start.metrics = dict(self.metrics)
            yield start
        key = (event.data["space"], number)
        if "on_restart" in event.seen:
            restart = self.call("on_restart", event)
            restart.is_last = False
            yield restart
        yield self.call("on_send", event, key, packet_size=size, kind=int(event.data["is_again"]))
        space.flying[number] = (size, event.time)
        self.in_flight += size

    def process(self, group: Sequence[Event]) -> Iterator[Call]:
        """Process an ACK, or losses that a timer detects, and yield the calls that follow."""
        first, before, recovered_before = group[0], self.in_flight, self.recovers
        has_room = before + self.packet_size <= self.metrics.get("congestion_window", 0.0)
        arrived: list[tuple[Key, int]] = []
        acked, newest, newest_time = 0, None, -1
        if first.name == "packet_received":
            name = first.data["space"]
            space = self.spaces.setdefault(name, _Space())
            late = space.within(space.gone, first.data["ranges"])
            new = space.within(space.flying, first.data["ranges"])
            acked = sum(space.flying[number][0] for number in new)
            for number in sorted(new + late):
                size, newest_time = (space.flying if number in space.flying else space.gone).pop(number)
                newest = (name, number)
                arrived.append((newest, size))
            self.delivered += acked
            self.in_flight = max(0, self.in_flight - acked)
            self.last = newest or self.last
        lost_times = [time for event in group for time in self.lose(event)]
        changes: dict[str, float] = {}
        for event in group:
            if event.name == "metrics_updated":
                changes.update(event.data)
        self.metrics.update({name: value for name, value in changes.items() if value == value})
        self.measure(changes, first.time, newest_time)
        self.in_flight = int(changes.get("bytes_in_flight", self.in_flight))
        if "app_limited" in changes:
            self.limit(changes["app_limited"] > 0.0)
        kind = self.begins(group, lost_times, first)
        has_recovered = recovered_before and not self.recovers and self.has_states
        calls = []
        if kind is not None:
            calls.append(self.at_loss(first, kind, before, recovered_before))
        if first.name == "packet_received":
            if not self.has_states and newest is not None:
                self.recovers = self.recovery_began >= 0 and newest_time <= self.recovery_began
            ce, marked = first.data["ce"], 0
            if ce is not None:
                marked, self.ce = self.packet_size * max(0, ce - self.ce), ce
            calls.append(
                self.call(
                    "on_ack",
                    first,
                    newest or self.last,
                    acked=acked,
                    recovered=int(has_recovered),
                    marked=marked,
                    ece=int(marked > 0),
                    **({} if self.has_limits else {"limited_by": BY_DATA if has_room else BY_WINDOW}),
                    packet_size=arrived[-1][1] if arrived else self.packet_size,
                )
            )
        for call in calls:
            call.arrived, arrived = arrived, []
            call.metrics, call.is_last = self.metrics | changes, call is calls[-1]
            yield call

    def at_loss(self, event: Event, kind: int, in_flight: int, recovering: bool) -> Call:
        after = self.in_flight
        call = self.call("on_loss", event, kind=kind, in_flight=in_flight, recovering=int(kind == 0 or recovering))
        self.in_flight = after
        return call

    def lose(self, event: Event) -> Iterator[int]:
        """Remove the packets that an event declares lost; yield the times at which they were sent."""
        if event.name == "packet_lost":
            space = self.spaces.setdefault(event.data["space"], _Space())
            numbers = [event.data["number"]]
        elif event.name == "packets_lost":
            space = self.spaces.setdefault("application", _Space())
            numbers = [number for number in space.flying if number <= event.data["largest"]][: event.data["count"]]
        else:
            return
        for number in numbers:
            if number in space.flying:
                space.gone[number] = size, time = space.flying.pop(number)
                self.lost += size
                self.in_flight = max(0, self.in_flight - size)
                yield time

    def measure(self, changes: Mapping[str, float], now: int, sent: int) -> None:
        """Update the RTTs from the log, or from the packet with the highest number that is acknowledged first."""
        if sent < 0 and "latest_rtt" not in changes:
            return
        self.rtt = changes["latest_rtt"] if "latest_rtt" in changes else to_seconds(now - sent)
        average = self.rtt if self.srtt == 0.0 else self.srtt + (self.rtt - self.srtt) / 8.0
        minimum = self.rtt if self.min_rtt == 0.0 else min(self.min_rtt, self.rtt)
        self.srtt = self.metrics.get("smoothed_rtt", average)
        self.min_rtt = self.metrics.get("min_rtt", minimum)

    def begins(self, group: Sequence[Event], lost_times: Sequence[int], first: Event) -> int | None:
        """Return the kind of on_loss with which the sender responds to these losses, or None."""
        if self.has_states:
            kind = None
            for event in group:
                if event.name == "congestion_state_updated":
                    self.note(event)
                    if _is_timeout(event):
                        kind = 1
                    elif self.recovers:
                        kind = 0
            return kind
        if not any(time > self.recovery_began for time in lost_times):
            return None
        self.recovery_began = first.time
        triggers = {event.data["trigger"] for event in group if event.name == "packet_lost"}
        return int(first.name == "packet_lost" and triggers == {"pto_expired"})


def _is_recovery(event: Event) -> bool:
    """Return whether an event reports that a sender recovers from losses."""
    return event.name == "congestion_state_updated" and "recovery" in event.data["new"]
