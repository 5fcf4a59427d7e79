"""Which hooks a sender called, and what they saw, by its qlog.

A log has packets, ACKs, losses and metrics, from which all follows that `env` has:

    on_start   with the first packet
    on_restart before on_send, for packets for which the log reports it: other logs do not show whether senders restart
    on_send    with each packet that counts as in flight
    on_loss    kind 0, once a recovery: where the log says that one begins (congestion_state_updated, "recovery"), or,
               if it never does, at the loss of a packet that was sent after the last one began (RFC 9002 sec. 7.3.1);
               kind 1 at a persistent congestion, or, of a log without states, where only a timer (pto_expired) finds
               losses
    on_ack     with each packet whose ACK frame acknowledges something; events after it belong to it, up to the next
               packet that is sent or received

    acked      of packets that an ACK acknowledges first, and which were not lost
    rtt        latest_rtt, or the time since the highest number among these was sent
    srtt       smoothed_rtt, or a moving average of weight 1/8 (RFC 9002 sec. 5.3); min_rtt: min_rtt, or the least rtt
    in_flight  bytes_in_flight, or what is sent and neither acknowledged nor lost; at a loss: before it
    recovering from its beginning to the next state in the log; or while all that an ACK acknowledges was sent before it
    unsent     0 while the log says that the application limits it; otherwise there is always more to send
    limited_by  the window, unless the log says that the application limits it
    marked     packets that its counts of CE have grown by, in full packets

The packet whose header an ACK brings back is the one of the highest number that it acknowledges first. What a sender
saw otherwise, as TCP does beside QUIC, a log can say: `Event.seen`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ecc.formats.qlog import Event
from ecc.packet.twin.state import BY_DATA, BY_WINDOW, NO_END, to_seconds

__all__ = ["Call", "hook_calls"]

Key = tuple[str, int]
"""Of a packet: its space and number."""
Corrections = Callable[["Call"], Mapping[str, float]]
LOSSES = ("packet_lost", "packets_lost")
SOON = 10**9
"""ps; what is later than an ACK by more does not follow from it."""
LASTING = ("in_flight", "delivered", "lost", "unsent")
"""What a sender counts on from, where it is corrected."""


@dataclass
class Call:
    """A call of a hook.

    `time` [ps]; `env`: what the hook sees but for rate and window; `packet`: whose header; `arrived`: packets that the
    receiver has counted since the last call, with sizes; `metrics`: of the log after it, as far as they are known;
    `event`: that caused it; `is_last` of those that an event caused.
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
        Of a full packet.
    corrected : callable, optional
        What a call saw otherwise; None: as the log says.

    Raises
    ------
    ValueError
        A number of a packet that is not larger than the one before in its space.
    """
    sender = _Sender(events, packet_size, corrected or (lambda call: call.event.seen.get(call.hook, {})))
    for group in _groups(events):
        yield from sender.take(group)


def _groups(events: Iterable[Event]) -> Iterator[list[Event]]:
    """An ACK, or a loss that no ACK shows, with what follows from it; any other event by itself."""
    group: list[Event] = []
    for one in events:
        if group and _follows(one, group):
            group.append(one)
            continue
        if group:
            yield group
        group = [one] if one.name == "packet_received" or _is_loss(one) else []
        if not group:
            yield [one]
    if group:
        yield group


def _follows(one: Event, group: Sequence[Event]) -> bool:
    """Whether an event is part of a group: soon after it, and no later than its metrics if it is on losses."""
    if one.name not in (*LOSSES, "metrics_updated", "congestion_state_updated"):
        return False
    if one.time - group[0].time > SOON:
        return False
    if one.name == "metrics_updated":
        return True
    if group[0].name == "packet_received" and _is_timeout(one):
        return False
    measured = [other.time for other in group if other.name == "metrics_updated"]
    return not measured or one.time <= measured[-1]


def _is_loss(one: Event) -> bool:
    """Whether a group begins with an event if no ACK shows it."""
    return one.name in LOSSES or (one.name == "congestion_state_updated" and _is_answer(one))


def _is_timeout(one: Event) -> bool:
    trigger = one.data.get("trigger", "")
    return trigger == "pto_expired" or "persistent" in trigger


def _is_answer(one: Event) -> bool:
    """Whether an event says that a sender answers losses."""
    return _is_recovery(one) or (one.name == "congestion_state_updated" and _is_timeout(one))


class _Space:
    """Packets in flight of a space of numbers, and those that were lost; number -> (size, when sent [ps])."""

    def __init__(self) -> None:
        self.flying: dict[int, tuple[int, int]] = {}
        self.gone: dict[int, tuple[int, int]] = {}
        self.highest = -1

    def within(self, packets: Mapping[int, Any], ranges: Iterable[tuple[int, int]]) -> list[int]:
        """Numbers of packets in ranges, in order."""
        numbers = sorted(packets)
        found: set[int] = set()
        for low, high in ranges:
            found.update(numbers[bisect_left(numbers, low) : bisect_right(numbers, high)])
        return sorted(found)


class _Sender:
    """What a sender knows after each event."""

    def __init__(self, events: Sequence[Event], packet_size: int, corrected: Corrections) -> None:
        self.packet_size, self.corrected = packet_size, corrected
        self.spaces: dict[str, _Space] = {}
        self.metrics: dict[str, float] = {}
        self.has_states = any(_is_answer(one) for one in events)
        self.recovers = self.started = False
        self.recovery_began = -1
        self.rtt = self.srtt = self.min_rtt = 0.0
        self.in_flight = self.delivered = self.lost = 0
        self.unsent = NO_END
        self.ce = 0
        self.last: Key | None = None

    def take(self, group: Sequence[Event]) -> Iterator[Call]:
        one = group[0]
        if one.name == "packet_sent":
            yield from self.send(one)
        elif one.name == "packet_received" or _is_loss(one):
            yield from self.hear(group)
        else:
            self.note(one)

    def note(self, one: Event) -> None:
        """An event by itself."""
        if one.name == "metrics_updated":
            self.metrics.update(one.data)
            self.in_flight = int(one.data.get("bytes_in_flight", self.in_flight))
            if "app_limited" in one.data:
                self.limit(one.data["app_limited"] > 0.0)
        elif one.name == "app_limited_updated":
            self.limit(one.data["limited"])
        elif one.name == "congestion_state_updated":
            self.recovers = _is_recovery(one)
            self.limit(one.data["new"] in ("application_limited", "app_limited"))

    def limit(self, is_limited: bool) -> None:
        self.unsent = 0 if is_limited else NO_END

    def call(self, hook: str, one: Event, packet: Key | None = None, **values: Any) -> Call:
        env: dict[str, float] = {
            "now": to_seconds(one.time), "packet_size": self.packet_size, "rtt": self.rtt, "srtt": self.srtt,
            "min_rtt": self.min_rtt, "in_flight": self.in_flight, "delivered": self.delivered, "lost": self.lost,
            "kind": 0, "flow": 0, "random": -1.0, "size": -1, "unsent": self.unsent, "header_bytes": 0, "acked": 0,
            "recovering": int(self.recovers), "recovered": 0, "undone": 0, "marked": 0, "ece": 0, "timer": -1.0,
            "timer_1": -1.0, "timer_2": -1.0, "timer_3": -1.0, "counter": 0, "control_size": 0, "control_kind": 0,
            "limited_by": BY_WINDOW if self.unsent > 0 else BY_DATA, "idle": 0.0, "rto": 0.0,
        } | values  # fmt: skip
        made = Call(hook, one.time, env, packet, one)
        seen = dict(self.corrected(made))
        if packet is not None and "packet" in seen:
            made.packet = (packet[0], int(seen.pop("packet")))
        env.update(seen)
        for name in LASTING:
            if name in seen:
                setattr(self, name, int(seen[name]))
        return made

    def send(self, one: Event) -> Iterator[Call]:
        space = self.spaces.setdefault(one.data["space"], _Space())
        number, size = one.data["number"], one.data["size"]
        if number <= space.highest:
            raise ValueError(
                f"record {one.record}: packet_number must grow within a space, got {number} after {space.highest}"
            )
        space.highest = number
        if not one.data["counts"]:
            return
        if not self.started:
            self.started = True
            start = self.call("on_start", one)
            start.metrics = dict(self.metrics)
            yield start
        key = (one.data["space"], number)
        if "on_restart" in one.seen:
            restart = self.call("on_restart", one)
            restart.is_last = False
            yield restart
        yield self.call("on_send", one, key, packet_size=size, kind=int(one.data["is_again"]))
        space.flying[number] = (size, one.time)
        self.in_flight += size

    def hear(self, group: Sequence[Event]) -> Iterator[Call]:
        """An ACK, or losses that a timer finds, and what follows from them."""
        one, before, recovered_before = group[0], self.in_flight, self.recovers
        arrived: list[tuple[Key, int]] = []
        acked, newest, newest_time = 0, None, -1
        if one.name == "packet_received":
            name = one.data["space"]
            space = self.spaces.setdefault(name, _Space())
            late = space.within(space.gone, one.data["ranges"])
            new = space.within(space.flying, one.data["ranges"])
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
        self.metrics.update(changes)
        self.measure(changes, one.time, newest_time)
        self.in_flight = int(changes.get("bytes_in_flight", self.in_flight))
        if "app_limited" in changes:
            self.limit(changes["app_limited"] > 0.0)
        kind = self.begins(group, lost_times, one)
        left = recovered_before and not self.recovers and self.has_states
        calls = []
        if kind is not None:
            calls.append(self.at_loss(one, kind, before, recovered_before))
        if one.name == "packet_received":
            if not self.has_states and newest is not None:
                self.recovers = self.recovery_began >= 0 and newest_time <= self.recovery_began
            ce, marked = one.data["ce"], 0
            if ce is not None:
                marked, self.ce = self.packet_size * max(0, ce - self.ce), ce
            calls.append(self.call(
                "on_ack", one, newest or self.last, acked=acked, recovered=int(left), marked=marked,
                ece=int(marked > 0), packet_size=arrived[-1][1] if arrived else self.packet_size,
            ))  # fmt: skip
        for made in calls:
            made.arrived, arrived = arrived, []
            made.metrics, made.is_last = dict(self.metrics), made is calls[-1]
            yield made

    def at_loss(self, one: Event, kind: int, in_flight: int, recovering: bool) -> Call:
        after = self.in_flight
        made = self.call("on_loss", one, kind=kind, in_flight=in_flight, recovering=int(kind == 0 or recovering))
        self.in_flight = after
        return made

    def lose(self, event: Event) -> Iterator[int]:
        """When packets were sent that an event declares lost."""
        if event.name == "packet_lost":
            space = self.spaces.setdefault(event.data["space"], _Space())
            numbers = [event.data["number"]]
        elif event.name == "packets_lost":
            space = self.spaces.setdefault("application", _Space())
            numbers = [one for one in space.flying if one <= event.data["largest"]][: event.data["count"]]
        else:
            return
        for number in numbers:
            if number in space.flying:
                space.gone[number] = size, time = space.flying.pop(number)
                self.lost += size
                self.in_flight = max(0, self.in_flight - size)
                yield time

    def measure(self, changes: Mapping[str, float], now: int, sent: int) -> None:
        """RTTs: those of the log, or by the packet of the highest number that is acknowledged first."""
        if sent < 0 and "latest_rtt" not in changes:
            return
        self.rtt = changes["latest_rtt"] if "latest_rtt" in changes else to_seconds(now - sent)
        own = self.rtt if self.srtt == 0.0 else self.srtt + (self.rtt - self.srtt) / 8.0
        least = self.rtt if self.min_rtt == 0.0 else min(self.min_rtt, self.rtt)
        self.srtt = self.metrics.get("smoothed_rtt", own)
        self.min_rtt = self.metrics.get("min_rtt", least)

    def begins(self, group: Sequence[Event], lost_times: Sequence[int], one: Event) -> int | None:
        """Whether these losses are answered: the kind of on_loss, or None."""
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
        self.recovery_began = one.time
        triggers = {event.data["trigger"] for event in group if event.name == "packet_lost"}
        return int(one.name == "packet_lost" and triggers == {"pto_expired"})


def _is_recovery(one: Event) -> bool:
    """Whether an event says that a sender recovers from losses."""
    return one.name == "congestion_state_updated" and "recovery" in one.data["new"]
