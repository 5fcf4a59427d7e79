"""Loss recovery in the twin of the packet engine: S-73 to S-92 of docs/engine_specification.md, with the same names."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

__all__ = ["NEWRENO", "QUIC", "RACK", "SACK", "Incoming", "Outgoing", "Rule", "Segment"]

NEWRENO, SACK, RACK, QUIC = 1, 2, 3, 4
DUP_THRESH = 3  # duplicate ACKs after which data counts as lost, if the flow has no threshold
MAX_SACK_BLOCKS = 3  # ranges in an ACK

Ranges = list[tuple[int, int]]  # sorted, and separated by gaps


def added(ranges: Ranges, begin: int, end: int) -> Ranges:
    """Return the ranges with one more added, joined with those that it touches."""
    joined = [(begin, end), *(r for r in ranges if r[0] <= end and begin <= r[1])]
    separate = [r for r in ranges if r not in joined]
    return sorted([*separate, (min(b for b, _ in joined), max(e for _, e in joined))])


def within(ranges: Ranges, begin: int, end: int) -> int:
    """Return the number of bytes from begin to end that are in the ranges."""
    return sum(max(0, min(e, end) - max(b, begin)) for b, e in ranges)


class Rule(IntEnum):
    """Rules that choose the next segment, in the order in which they are tried (S-77)."""

    NONE = 0  # the flow is not reliable
    FIRST = 1  # first unacknowledged data
    LOST = 2  # lost data
    NEW = 3  # new data
    UNSACKED = 4  # data below the highest sacked byte
    RESCUE = 5  # rescue retransmission
    NEW_PROBE = 6  # new data as a probe (S-147)
    PROBE = 7  # copy of the last segment as a probe (S-147)


class Segment(NamedTuple):
    """The data that is sent next."""

    begin: int
    size: int  # 0: there is nothing to send
    rule: Rule

    @property
    def is_retransmitted(self) -> bool:
        return self.rule not in (Rule.NONE, Rule.NEW, Rule.NEW_PROBE)

    @property
    def is_probe(self) -> bool:
        return self.rule in (Rule.NEW_PROBE, Rule.PROBE)


EMPTY = Segment(0, 0, Rule.NONE)


@dataclass
class Outgoing:
    """State of a sender's stream."""

    config: Any  # transport, receiver_window, ...: the fields of FLOW
    written: int = 0  # bytes written by the application; set before each call of `next`
    snd_una: int = 0
    snd_nxt: int = 0
    lost_below: int = 0
    high_rxt: int = 0
    recovery_point: int = 0
    rescue_rxt: int = 0
    flight_end: int = 0
    pipe_credit: int = 0
    dup_acks: int = 0
    partial_acks: int = 0
    recovering: bool = False
    recovered: bool = False
    undone: bool = False  # used by type 3 (rack.py)
    retransmit_first: bool = False
    rttvar: float = 0.0
    prr_delivered: int = 0  # bytes, since the last congestion response (S-164)
    prr_out: int = 0  # bytes sent since then
    recover_fs: int = 0  # bytes neither acknowledged nor sacked before it
    prr_credit: int = 0  # bytes that may be sent before the next ACK
    prr_until: int = 0  # a reduction for marks lasts until all below is acknowledged (S-166)
    newly_delivered: int = 0  # bytes acknowledged or sacked by the last ACK
    finds_loss: bool = False  # the last ACK revealed losses
    sacked: Ranges = field(default_factory=list)

    @property
    def dup_thresh(self) -> int:
        return int(self.config.reordering_threshold or DUP_THRESH)

    @property
    def is_sack(self) -> bool:
        return bool(self.config.transport >= SACK)

    @property
    def in_flight(self) -> int:
        out = within(self.sacked, self.lost_below, self.snd_nxt) if self.is_sack else self.pipe_credit
        retransmitted = self.high_rxt - self.snd_una - within(self.sacked, self.snd_una, self.high_rxt)
        return max(0, self.snd_nxt - self.lost_below - out + retransmitted)

    def hole(self, begin: int, end: int, max_size: int, rule: Rule) -> Segment:
        """Return a segment that starts at the first byte from `begin` on that is not sacked."""
        begin = next((e for b, e in self.sacked if b <= begin < e), begin)
        end = min([end, *(b for b, _ in self.sacked if b > begin)])
        return Segment(begin, min(max_size, end - begin), rule) if begin < end else EMPTY

    def next(self, max_size: int) -> Segment:
        """Return the next segment, of up to `max_size` bytes."""
        if self.retransmit_first:
            return self.hole(self.snd_una, self.snd_nxt, max_size, Rule.FIRST)
        segment = self.hole(self.high_rxt, self.lost_below, max_size, Rule.LOST)
        if not segment.size:
            segment = self.new(max_size)
        if segment.size or not (self.is_sack and self.recovering):
            return segment
        highest = self.sacked[-1][1] if self.sacked else self.snd_una
        segment = self.hole(self.high_rxt, highest, max_size, Rule.UNSACKED)
        if not segment.size and self.snd_una > self.rescue_rxt and highest < self.snd_nxt:
            begin = max(highest, self.snd_nxt - max_size)
            segment = Segment(begin, self.snd_nxt - begin, Rule.RESCUE)
        return segment

    def new(self, max_size: int) -> Segment:
        """Return a segment of new data."""
        window = self.config.receiver_window
        new = min(max_size, self.written - self.snd_nxt)
        fits = window == 0 or self.snd_nxt + new <= self.snd_una + window
        return Segment(self.snd_nxt, new, Rule.NEW) if fits and new > 0 else EMPTY

    def restarts_with(self, segment: Segment) -> bool:
        """Return whether sending a segment restarts the timer (S-80)."""
        return self.is_sack and self.recovering and segment.is_retransmitted and segment.begin < self.recovery_point

    # ---- proportional rate reduction ------------------------------------------------------------------------

    @property
    def reduces_proportionally(self) -> bool:
        return self.config.uses_prr > 0 and (self.recovering or self.snd_una < self.prr_until)

    def begin_prr(self, delivered: int) -> None:
        """S-164: a recovery, or a further response in one, begins with an ACK that delivers `delivered` bytes."""
        sacked = within(self.sacked, self.snd_una, self.snd_nxt)
        self.recover_fs = self.snd_nxt - self.snd_una - sacked + delivered
        self.prr_delivered = self.prr_out = self.prr_credit = self.prr_until = 0

    def reduce_for_marks(self, window: float, acked: int, delivered: int, finds_loss: bool) -> None:
        """S-166: hooks have reduced the window at an ACK that reports marks."""
        if not self.recovering:
            self.begin_prr(delivered)
            self.prr_until = self.snd_nxt
            self.update_prr(window, acked, delivered, finds_loss)

    def update_prr(self, window: float, acked: int, delivered: int, finds_loss: bool) -> None:
        """S-165: compute the bytes that may be sent before the next ACK."""
        if delivered <= 0:
            return
        largest = max(self.config.packet_size, self.config.packet_size_max)
        self.prr_delivered += delivered
        in_flight = float(self.in_flight)
        if in_flight > window:
            allowed = self.prr_delivered * window / self.recover_fs
            credit = (math.ceil(allowed) if allowed < 2.0**62 else 2**62) - self.prr_out
        else:
            is_safe = acked > 0 and not finds_loss
            credit = max(self.prr_delivered - self.prr_out, delivered) + (largest if is_safe else 0)
            credit = credit if credit < window - in_flight else int(window - in_flight)
        self.prr_credit = largest if self.prr_out == 0 and credit <= 0 else max(credit, 0)

    def count_prr(self, size: int) -> None:
        """Count a packet that is sent."""
        if self.reduces_proportionally:
            self.prr_out += size
            self.prr_credit -= size

    def sent(self, segment: Segment) -> None:
        end = segment.begin + segment.size
        if segment.rule == Rule.NEW:
            self.snd_nxt = end
        elif segment.rule == Rule.RESCUE:
            self.rescue_rxt = self.recovery_point
        else:
            self.retransmit_first = False
            if self.is_sack or not self.recovering:
                self.high_rxt = end
            if segment.rule == Rule.FIRST and self.recovering:
                self.rescue_rxt = end

    def receive_ack(self, ack: int, sacks: Ranges, size: int) -> tuple[int, bool, bool]:
        """Process an ACK; return the bytes newly acknowledged, whether recovery begins and whether the timer starts."""
        acked, is_same = max(0, ack - self.snd_una), ack == self.snd_una
        known = within(self.sacked, self.snd_una, ack)
        self.recovered = False
        if acked > 0:
            self.snd_una = ack
            self.lost_below, self.high_rxt = max(self.lost_below, ack), max(self.high_rxt, ack)
            self.retransmit_first, self.dup_acks = False, 0
            self.sacked = [(max(b, ack), e) for b, e in self.sacked if e > ack]
        before = self.lost_below
        newly_sacked = self.add_sack_blocks(sacks) if self.is_sack else 0
        self.newly_delivered, self.finds_loss = acked - known + newly_sacked, self.lost_below > before
        if self.recovering:
            if self.snd_una >= self.recovery_point:
                self.recovering, self.recovered, self.pipe_credit = False, True, 0
            elif not self.is_sack and acked > 0:
                self.pipe_credit = max(0, self.pipe_credit - acked + (size if acked >= size else 0))
                self.retransmit_first = True
                self.partial_acks += 1
                return acked, False, self.partial_acks == 1
            elif not self.is_sack and is_same:
                self.pipe_credit += size
            return acked, False, acked > 0
        if acked > 0:
            self.pipe_credit = 0
        is_duplicate = newly_sacked > 0 if self.is_sack else is_same and self.snd_nxt > self.snd_una
        begins_recovery = self.snd_una >= self.recovery_point and is_duplicate and self.count_duplicate(size)
        return acked, begins_recovery, acked > 0 or begins_recovery

    def add_sack_blocks(self, sacks: Ranges) -> int:
        """Record the data that the receiver holds; return the number of bytes reported for the first time."""
        known = within(self.sacked, 0, self.snd_nxt)
        for begin, end in sacks:
            if end > self.snd_una:
                self.sacked = added(self.sacked, max(begin, self.snd_una), end)
        largest = max(self.config.packet_size, self.config.packet_size_max)
        for k, (begin, _) in enumerate(reversed(self.sacked), 1):
            if k >= self.dup_thresh or within(self.sacked, begin, self.snd_nxt) > (self.dup_thresh - 1) * largest:
                self.lost_below = max(self.lost_below, begin)
                break
        return within(self.sacked, 0, self.snd_nxt) - known

    def count_duplicate(self, size: int) -> bool:
        """Count a duplicate ACK (S-84); return whether a recovery begins (S-85)."""
        if self.dup_acks == 0:
            self.flight_end = self.snd_nxt
        self.dup_acks += 1
        if not self.is_sack:
            self.pipe_credit += size
        if self.dup_acks < self.dup_thresh and self.lost_below == self.snd_una:
            return False
        self.recovering = self.retransmit_first = True
        self.recovery_point, self.high_rxt, self.partial_acks = self.snd_nxt, self.snd_una, 0
        return True

    def time_out(self) -> None:
        self.prr_until = 0
        self.recovering, self.retransmit_first = False, True
        self.recovery_point = self.snd_nxt if self.is_sack else self.snd_nxt + 1
        self.lost_below, self.high_rxt = self.snd_nxt, self.snd_una
        self.dup_acks = self.pipe_credit = 0
        self.sacked = []


@dataclass
class Incoming:
    """State of a receiver's stream."""

    rcv_nxt: int = 0
    held: Ranges = field(default_factory=list)
    recent: list[int] = field(default_factory=list)  # sequence numbers of the latest additions, newest first
    duplicate: Ranges = field(default_factory=list)  # the last data received, if all of it was a duplicate
    reports_duplicates: bool = False  # its ACKs report duplicates (S-148)

    @property
    def sacks(self) -> Ranges:
        blocks = [next(r for r in self.held if r[0] <= number < r[1]) for number in self.recent]
        return [*self.duplicate, *blocks][:MAX_SACK_BLOCKS]

    def receive_data(self, begin: int, end: int) -> tuple[int, bool]:
        """Add a packet; return the bytes that it lets be delivered, and whether its ACK may be delayed."""
        before, may_delay = self.rcv_nxt, begin == self.rcv_nxt and not self.held
        is_known = end <= self.rcv_nxt or within(self.held, begin, end) == end - begin
        self.duplicate = [(begin, end)] if self.reports_duplicates and is_known else []
        if begin > self.rcv_nxt:
            self.held = added(self.held, begin, end)
            self.recent.insert(0, begin)
        elif end > self.rcv_nxt:
            self.rcv_nxt = max([end, *(e for b, e in self.held if b <= end)])
            self.held = [r for r in self.held if r[0] > self.rcv_nxt]
        previous, self.recent = self.recent, []
        for number in previous:
            known = (r for r in self.held if any(r[0] <= n < r[1] for n in self.recent))
            if number >= self.rcv_nxt and not any(b <= number < e for b, e in known):
                self.recent.append(number)
        del self.recent[MAX_SACK_BLOCKS:]
        return self.rcv_nxt - before, may_delay
