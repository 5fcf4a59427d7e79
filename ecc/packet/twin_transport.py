"""Loss recovery in the twin of the packet engine: TRANSPORT at the top of ecc/native/engine.h, the names as there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["NEWRENO", "SACK", "Incoming", "Outgoing", "Segment"]

NEWRENO, SACK = 1, 2
DUPLICATES = 3  # that are taken for a loss
SACKS = 3  # ranges that an ACK can say

Ranges = list[tuple[int, int]]  # in order, none touches another


def added(ranges: Ranges, begin: int, end: int) -> Ranges:
    """The ranges with one more, which may join others."""
    joined = [(begin, end), *(r for r in ranges if r[0] <= end and begin <= r[1])]
    others = [r for r in ranges if r not in joined]
    return sorted([*others, (min(b for b, _ in joined), max(e for _, e in joined))])


def within(ranges: Ranges, begin: int, end: int) -> int:
    """How many bytes from begin to end are in the ranges."""
    return sum(max(0, min(e, end) - max(b, begin)) for b, e in ranges)


class Segment(NamedTuple):
    """What is to be sent next."""

    begin: int
    size: int  # 0: nothing
    rule: int  # of the text; 0: without transport

    @property
    def is_repeat(self) -> bool:
        return self.rule not in (0, 3)


NOTHING = Segment(0, 0, 0)


@dataclass
class Outgoing:
    """What a sender knows of its stream."""

    given: Any  # transport, receiver_window, ...: the fields of FLOW
    una: int = 0
    top: int = 0
    gone: int = 0
    again: int = 0
    recover: int = 0
    rescue: int = 0
    before: int = 0
    left: int = 0
    duplicates: int = 0
    partials: int = 0
    recovering: bool = False
    recovered: bool = False
    urgent: bool = False
    rttvar: float = 0.0
    sacked: Ranges = field(default_factory=list)

    @property
    def is_sack(self) -> bool:
        return bool(self.given.transport == SACK)

    @property
    def in_flight(self) -> int:
        out = within(self.sacked, self.gone, self.top) if self.is_sack else self.left
        return max(0, self.top - self.gone - out + self.again - self.una - within(self.sacked, self.una, self.again))

    def hole(self, place: int, end: int, most: int, rule: int) -> Segment:
        """From the first byte at or after a place that is not sacked."""
        place = next((e for b, e in self.sacked if b <= place < e), place)
        end = min([end, *(b for b, _ in self.sacked if b > place)])
        return Segment(place, min(most, end - place), rule) if place < end else NOTHING

    def next(self, most: int) -> Segment:
        """The next packet, at most so long."""
        if self.urgent:
            return self.hole(self.una, self.top, most, 1)
        found = self.hole(self.again, self.gone, most, 2)
        if not found.size:
            window = self.given.receiver_window
            new = min(most, self.given.size - self.top) if self.given.size >= 0 else most
            if window == 0 or self.top + new <= self.una + window:
                found = Segment(self.top, new, 3)
        if found.size or not (self.is_sack and self.recovering):
            return found
        highest = self.sacked[-1][1] if self.sacked else self.una
        found = self.hole(self.again, highest, most, 4)
        if not found.size and self.una > self.rescue and highest < self.top:
            begin = max(highest, self.top - most)
            found = Segment(begin, self.top - begin, 5)
        return found

    def restarts_with(self, segment: Segment) -> bool:
        """Whether the timer starts with a packet, though it runs."""
        return self.is_sack and self.recovering and segment.is_repeat and segment.begin < self.recover

    def sent(self, segment: Segment) -> None:
        end = segment.begin + segment.size
        if segment.rule == 3:
            self.top = end
        elif segment.rule == 5:
            self.rescue = self.recover
        else:
            self.urgent = False
            if self.is_sack or not self.recovering:
                self.again = end
            if segment.rule == 1 and self.recovering:
                self.rescue = end

    def hear(self, ack: int, sacks: Ranges, size: int) -> tuple[int, bool, bool]:
        """An ACK for a packet of a size: bytes it newly acknowledges, whether it shows a loss, starts the timer."""
        acked, is_same = max(0, ack - self.una), ack == self.una
        self.recovered = False
        if acked > 0:
            self.una = ack
            self.gone, self.again = max(self.gone, ack), max(self.again, ack)
            self.urgent, self.duplicates = False, 0
            self.sacked = [(max(b, ack), e) for b, e in self.sacked if e > ack]
        news = self.note(sacks) if self.is_sack else 0
        if self.recovering:
            if self.una >= self.recover:
                self.recovering, self.recovered, self.left = False, True, 0
            elif not self.is_sack and acked > 0:
                self.left = max(0, self.left - acked + (size if acked >= size else 0))
                self.urgent = True
                self.partials += 1
                return acked, False, self.partials == 1
            elif not self.is_sack and is_same:
                self.left += size
            return acked, False, acked > 0
        if acked > 0:
            self.left = 0
        is_duplicate = news > 0 if self.is_sack else is_same and self.top > self.una
        is_loss = self.una >= self.recover and is_duplicate and self.duplicate(size)
        return acked, is_loss, acked > 0 or is_loss

    def note(self, sacks: Ranges) -> int:
        """Learn what the receiver holds; how many bytes are news."""
        known = within(self.sacked, 0, self.top)
        for begin, end in sacks:
            if end > self.una:
                self.sacked = added(self.sacked, max(begin, self.una), end)
        largest = max(self.given.packet_size, self.given.packet_size_max)
        for k, (begin, _) in enumerate(reversed(self.sacked), 1):
            if k >= DUPLICATES or within(self.sacked, begin, self.top) > (DUPLICATES - 1) * largest:
                self.gone = max(self.gone, begin)
                break
        return within(self.sacked, 0, self.top) - known

    def duplicate(self, size: int) -> bool:
        """What counts as a duplicate ACK; whether it is taken for a loss."""
        if self.duplicates == 0:
            self.before = self.top
        self.duplicates += 1
        if not self.is_sack:
            self.left += size
        if self.duplicates < DUPLICATES and self.gone == self.una:
            return False
        self.recovering = self.urgent = True
        self.recover, self.again, self.partials = self.top, self.una, 0
        return True

    def time_out(self) -> None:
        self.recovering, self.urgent = False, True
        self.recover = self.top if self.is_sack else self.top + 1
        self.gone, self.again = self.top, self.una
        self.duplicates = self.left = 0
        self.sacked = []


@dataclass
class Incoming:
    """What a receiver holds of a stream."""

    next: int = 0
    held: Ranges = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # where it grew last

    @property
    def sacks(self) -> Ranges:
        return [next(r for r in self.held if r[0] <= place < r[1]) for place in self.places]

    def take(self, begin: int, end: int) -> tuple[int, bool]:
        """A packet has come: how many bytes can be handed on, and whether its ACK may wait for others."""
        before, may_wait = self.next, begin == self.next and not self.held
        if begin > self.next:
            self.held = added(self.held, begin, end)
            self.places.insert(0, begin)
        elif end > self.next:
            self.next = max([end, *(e for b, e in self.held if b <= end)])
            self.held = [r for r in self.held if r[0] > self.next]
        last, self.places = self.places, []
        for place in last:
            if place >= self.next and not any(b <= place < e for b, e in self.sacks):
                self.places.append(place)
        del self.places[SACKS:]
        return self.next - before, may_wait
