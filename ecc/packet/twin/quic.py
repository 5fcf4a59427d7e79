"""QUIC's loss recovery in the twin of the packet engine: S-211 to S-221 of docs/engine_specification.md.

Written after the pseudocode of RFC 9002, appendices A and B.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ecc.packet.twin.transport import MAX_SACK_BLOCKS, QUIC, Incoming, Outgoing, Ranges, Rule, Segment, added

__all__ = ["QUIC", "Quic", "QuicIncoming"]

NEVER = 4 * 10**18  # ps
GRANULARITY = 0.001  # s
N_PROBES = 2
PERSISTENCE = 3
MAX_RANGES = 32
DELAY_UNIT = 8 * 10**6  # ps


def removed(ranges: Ranges, begin: int, end: int) -> Ranges:
    """Return the ranges without the numbers from begin to end."""
    parts = [part for b, e in ranges for part in ((b, min(e, begin)), (max(b, end), e))]
    return [(b, e) for b, e in parts if b < e]


@dataclass
class Sent:
    """A packet in flight (sent_packets of RFC 9002, A.1)."""

    begin: int
    size: int
    sent: int  # ps

    @property
    def end(self) -> int:
        return self.begin + self.size


@dataclass
class Quic(Outgoing):
    """State of the stream of a sender of type 4."""

    packets: dict[int, Sent] = field(default_factory=dict)  # packets in flight, by their numbers
    now: int = 0  # ps; `now` to `srtt` are set before each call
    rtt: float = 0.0
    srtt: float = 0.0
    next_number: int = 0
    largest_acked: int = -1
    recovery_from: int = 0  # packets with lower numbers were sent before the recovery began
    lost: Ranges = field(default_factory=list)  # data of lost packets that was not sent again
    loss_time: int = NEVER
    first_sample: int = NEVER  # time of the first RTT sample
    acked_numbers: set[int] = field(default_factory=set)
    run: list[tuple[int, int]] = field(default_factory=list)  # number and time of each packet of the run of losses
    n_probes: int = 0
    probe: int = 0  # lowest number of a packet that a probe may repeat
    probe_end: int = 0  # number of the first packet after the probe timeout
    is_persistent: bool = False
    reported: int = 0  # bytes that the last ACK acknowledged for on_ack

    @property
    def in_flight(self) -> int:
        return sum(packet.size for packet in self.packets.values())

    # ---- sending ----------------------------------------------------------------------------------------

    @property
    def missing(self) -> Ranges:
        """Lost data that is not acknowledged."""
        ranges = removed(self.lost, 0, self.snd_una)
        for begin, end in self.sacked:
            ranges = removed(ranges, begin, end)
        return ranges

    @property
    def repeated(self) -> int | None:
        """The number of the packet whose data a probe repeats."""
        return min((n for n in self.packets if self.probe <= n < self.probe_end), default=None)

    def next(self, max_size: int) -> Segment:
        if self.missing:
            begin, end = self.missing[0]
            rule = Rule.PROBE if self.n_probes > 0 else Rule.FIRST if self.retransmit_first else Rule.LOST
            return Segment(begin, min(max_size, end - begin), rule)
        new = self.new(max_size)
        if self.n_probes == 0:
            return new
        if new.size > 0:
            return new._replace(rule=Rule.NEW_PROBE)
        if self.repeated is not None:
            packet = self.packets[self.repeated]
            return Segment(packet.begin, packet.size, Rule.PROBE)
        return new

    def restarts_with(self, segment: Segment) -> bool:
        return False

    def sent(self, segment: Segment) -> None:
        end = segment.begin + segment.size
        self.n_probes -= segment.is_probe
        if not segment.is_retransmitted:
            self.snd_nxt = end
        elif self.missing:
            self.lost = removed(self.lost, 0, end)
            self.retransmit_first = False
        else:
            assert self.repeated is not None
            self.probe = self.repeated + 1
        self.packets[self.next_number] = Sent(segment.begin, segment.size, self.now)
        self.next_number += 1

    # ---- ACKs -----------------------------------------------------------------------------------------------

    def newly_acked(self, ranges: Ranges) -> list[int]:
        """Return the numbers of the packets in flight that an ACK acknowledges."""
        return sorted(n for n in self.packets if any(begin <= n < end for begin, end in ranges))

    def acknowledge(self, numbers: list[int], largest: int) -> tuple[int, bool]:
        """Remove acknowledged packets; return the bytes by which `snd_una` grows, and whether a recovery begins."""
        self.recovered = False
        self.largest_acked, self.n_probes = max(self.largest_acked, largest), 0
        before = self.snd_una
        sizes = {n: self.packets[n].size for n in numbers}
        for number in numbers:
            packet = self.packets.pop(number)
            self.acked_numbers.add(number)
            if packet.end > self.snd_una:
                self.sacked = added(self.sacked, max(packet.begin, self.snd_una), packet.end)
            if self.sacked and self.sacked[0][0] == self.snd_una:
                self.snd_una = self.sacked.pop(0)[1]
        self.lost_below = self.high_rxt = self.snd_una
        after = sum(size for n, size in sizes.items() if n >= self.recovery_from)
        if self.recovering and after > 0:
            self.recovering, self.recovered = False, True
        begins = self.find_losses()
        self.newly_delivered = sum(sizes.values())
        self.reported = self.newly_delivered if self.recovering or self.is_persistent else after
        return self.snd_una - before, begins

    # ---- losses ---------------------------------------------------------------------------------------------

    def find_losses(self) -> bool:
        """Find lost packets (A.10); return whether a recovery begins."""
        delay = max(1.125 * max(self.rtt, self.srtt), GRANULARITY)
        self.loss_time, self.is_persistent, self.finds_loss = NEVER, False, False
        lost: list[int] = []
        for number, packet in sorted(self.packets.items()):
            if number > self.largest_acked:
                break
            due = packet.sent + self.to_ps(delay)
            if due <= self.now or self.largest_acked >= number + self.dup_thresh:
                lost.append(number)
            else:
                self.loss_time = min(self.loss_time, due)
        spans = [self.lose(number) for number in lost]
        if not self.missing:
            self.retransmit_first = False
        if not lost:
            return False
        self.finds_loss, begins = True, lost[-1] >= self.recovery_from
        if begins:
            self.begin_recovery()
            self.recovered, self.retransmit_first = False, bool(self.missing)
        self.is_persistent = max(spans) // PERSISTENCE > self.probe_timeout
        if self.is_persistent:
            self.run, self.recovery_from = [], 0
        return begins

    def lose(self, number: int) -> int:
        """Declare a packet lost; return the time between the first packet of its run of losses and this one."""
        packet = self.packets.pop(number)
        self.lost = added(self.lost, packet.begin, packet.end)
        if self.run and any(self.run[-1][0] < n < number for n in self.acked_numbers):
            self.run = []
        if packet.sent <= self.first_sample:
            return 0
        self.run.append((number, packet.sent))
        return packet.sent - self.run[0][1]

    def begin_recovery(self) -> None:
        self.recovering, self.recovery_from = True, self.next_number

    @property
    def probe_timeout(self) -> int:
        """PTO without backoff, ps."""
        spread = max(4.0 * self.rttvar, GRANULARITY)
        return int(min(NEVER, self.to_ps(self.srtt + spread) + self.config.ack_wait))

    def request_probes(self) -> None:
        self.n_probes, self.probe, self.probe_end = N_PROBES, 0, self.next_number

    @staticmethod
    def to_ps(seconds: float) -> int:
        ps = seconds * 1e12 + 0.5
        return int(ps) if ps < 4e18 else NEVER


@dataclass
class QuicIncoming(Incoming):
    """State of a receiver of type 4 (RFC 9000, section 13.2)."""

    numbers: Ranges = field(default_factory=list)  # packet numbers received
    latest: list[int] = field(default_factory=list)  # numbers in the ranges that have grown last, newest first
    largest_at: int = 0  # arrival of the largest number, ps

    def receive_number(self, number: int, now: int) -> bool:
        """Record a packet number; return whether its ACK may be delayed."""
        expected = self.numbers[-1][1] if self.numbers else 0
        if number >= expected:
            self.largest_at = now
        self.numbers = added(self.numbers, number, number + 1)[-MAX_RANGES:]
        latest, self.latest = [number, *self.latest], []
        for n in latest:
            if self.range_of(n) and all(self.range_of(n) != self.range_of(m) for m in self.latest):
                self.latest.append(n)
        del self.latest[MAX_SACK_BLOCKS:]
        return number == expected

    def range_of(self, number: int) -> tuple[int, int] | None:
        return next(((b, e) for b, e in self.numbers if b <= number < e), None)

    @property
    def reported(self) -> Ranges:
        """The ranges that an ACK names: that of the largest number, then those that have grown last."""
        grown = [r for n in self.latest if (r := self.range_of(n)) and r != self.numbers[-1]]
        return [self.numbers[-1], *grown][:MAX_SACK_BLOCKS]

    def ack_delay(self, now: int) -> int:
        """Delay of the ACK that is sent now, ps; it is a multiple of 8 us."""
        return (now - self.largest_at) // DELAY_UNIT * DELAY_UNIT
