"""Loss detection and congestion control of QUIC, written from the pseudocode of RFC 9002, appendices A and B.

It shares no code with the engines, and only `replay` knows their log. It covers a sender of 1-RTT packets of a
confirmed connection: all packets are in one packet number space, are ack-eliciting and in flight. Times are integer
picoseconds; RTT estimates are in seconds. Packets are full: hooks of the engine take the size of the acknowledged
packet as `max_datagram_size`.

The pseudocode leaves some points open. Here they are decided as follows:

- Packets and events of one instant have an order: a packet is sent after the start of a recovery period if it leaves
  after it, at the same instant too. `congestion_recovery_start_time` therefore also has a packet number.
- `OnPacketsAcked` grows the window once per ACK, by the bytes of all its packets, and not packet by packet. Section
  7.3.3 only limits the growth per window of acknowledged data. `per_packet=True` is the pseudocode's loop.
- `IsAppOrFlowControlLimited` is section 7.8: the bytes in flight before the ACK leave room for another full packet.
- `InPersistentCongestion` is section 7.6.2. The earlier of the two packets may have been declared lost before, since
  the last persistent congestion. The pseudocode passes only the packets that one ACK reveals.
- An ACK of a packet that was declared lost before acknowledges nothing, as in A.7. Its `ce_counter` is processed. In
  the pseudocode the increase waits for the next ACK, so that marks reported in a recovery period would begin another
  one after it. Section 7.3.2 excludes that: increases in a recovery period have no effect.
- The threshold of slow start is at least the minimum window; the pseudocode's lower values have the same effect.
- Before the first RTT sample, the probe timeout is that of a handshake: `max_ack_delay` is not added.
- Section 5.2: `min_rtt` is the newest RTT after persistent congestion. The pseudocode omits it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import floor, inf, isclose
from typing import NamedTuple

PACKET_THRESHOLD = 3
TIME_THRESHOLD = 9 / 8
GRANULARITY = 0.001  # s
PERSISTENT_CONGESTION_THRESHOLD = 3
SECOND = 10**12  # ps
RESOLUTION = 1  # ps


def ticks(seconds: float) -> int:
    """Return a duration in picoseconds, the resolution of the clock."""
    return floor(seconds * SECOND + 0.5)


class SentPacket(NamedTuple):
    number: int
    size: int  # bytes
    time_sent: int  # ps


@dataclass
class NewReno:
    """Appendix B."""

    congestion_window: float  # bytes
    max_datagram_size: int  # bytes
    per_packet: bool = False
    ssthresh: float = inf
    bytes_in_flight: int = 0
    recovery_start: int = -1  # number of the first packet sent after congestion_recovery_start_time; -1: no start
    in_recovery: bool = False  # until a packet sent in the recovery period is acknowledged
    ecn_ce_counter: int = 0
    may_send_one_packet: bool = False
    events: int = 0  # number of recovery periods
    loss_reduction_factor: float = 0.5

    @property
    def minimum_window(self) -> float:
        return 2.0 * self.max_datagram_size

    @property
    def is_underutilized(self) -> bool:
        """Section 7.8."""
        return self.bytes_in_flight + self.max_datagram_size <= self.congestion_window

    def on_packet_sent(self, packet: SentPacket) -> None:
        self.bytes_in_flight += packet.size

    def in_congestion_recovery(self, number: int) -> bool:
        """Return whether a packet was sent before the recovery period began."""
        return number < self.recovery_start

    def on_packets_acked(self, acked: list[SentPacket], is_limited: bool) -> None:
        self.bytes_in_flight -= sum(packet.size for packet in acked)
        counted = [packet.size for packet in acked if not self.in_congestion_recovery(packet.number)]
        if is_limited or not counted:
            return
        for size in counted if self.per_packet else [sum(counted)]:
            if self.congestion_window < self.ssthresh:
                self.congestion_window += size
            else:
                self.congestion_window += self.max_datagram_size * size / self.congestion_window

    def on_congestion_event(self, number: int, next_number: int) -> None:
        """OnCongestionEvent; `number` is that of the packet whose sent_time the pseudocode passes."""
        if self.in_congestion_recovery(number):
            return
        self.recovery_start, self.in_recovery = next_number, True
        self.events += 1
        self.ssthresh = max(self.congestion_window * self.loss_reduction_factor, self.minimum_window)
        self.congestion_window = self.ssthresh
        self.may_send_one_packet = True

    def process_ecn(self, ce_counter: int, largest: int, next_number: int) -> None:
        if ce_counter > self.ecn_ce_counter:
            self.ecn_ce_counter = ce_counter
            self.on_congestion_event(largest, next_number)

    def on_packets_lost(self, lost: list[SentPacket], next_number: int, is_persistent: bool) -> None:
        self.bytes_in_flight -= sum(packet.size for packet in lost)
        self.on_congestion_event(max(packet.number for packet in lost), next_number)
        if is_persistent:
            self.congestion_window = self.minimum_window
            self.recovery_start, self.in_recovery = -1, False


@dataclass
class ReductionOnly(NewReno):
    """Another controller with the recovery periods of section 7.3.2: only its reductions are compared.

    The growth between them is that of the log. It is limited to the bytes acknowledged after persistent congestion.
    """

    growth: int = 0  # bytes

    def on_packets_acked(self, acked: list[SentPacket], is_limited: bool) -> None:
        super().on_packets_acked(acked, is_limited=True)
        counted = [packet.size for packet in acked if not self.in_congestion_recovery(packet.number)]
        self.growth = 0 if is_limited else sum(counted)


@dataclass
class Recovery:
    """Appendix A."""

    controller: NewReno
    max_ack_delay: int  # ps
    initial_rtt: float = 1 / 3  # s; 333 ms, "handshakes starting with a PTO of 1 second"
    latest_rtt: float = 0.0
    min_rtt: float = 0.0
    first_rtt_sample: int | None = None
    pto_count: int = 0
    time_of_last_packet: int = 0
    largest_acked: int = -1
    loss_time: int | None = None
    loss_detection_timer: int | None = None
    next_number: int = 0
    sent_packets: dict[int, SentPacket] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    lost: list[SentPacket] = field(default_factory=list)  # since the last persistent congestion
    lost_by_number: int = 0
    lost_by_time: int = 0
    persistent: int = 0  # number of persistent congestions
    underutilized: int = 0  # number of ACKs
    marks_of_lost_packets: int = 0  # number of ACKs that report marks and acknowledge nothing in flight

    def __post_init__(self) -> None:
        self.smoothed_rtt, self.rttvar = self.initial_rtt, self.initial_rtt / 2

    # ---- A.5 to A.7 --------------------------------------------------------------------------------------------------

    def on_packet_sent(self, now: int, number: int, size: int) -> None:
        self.sent_packets[number] = packet = SentPacket(number, size, now)
        self.next_number = number + 1
        self.time_of_last_packet = now
        self.controller.on_packet_sent(packet)
        self.set_loss_detection_timer()

    def on_ack_received(self, now: int, ranges: Iterable[tuple[int, int]], ack_delay: int, ce_counter: int) -> None:
        """OnAckReceived; a range is the first number and the last plus 1, `ack_delay` is in ps."""
        numbers = {number for begin, end in ranges for number in range(begin, end)}
        largest = max(numbers)
        self.largest_acked = max(self.largest_acked, largest)
        newly_acked = [self.sent_packets.pop(number) for number in sorted(numbers & self.sent_packets.keys())]
        controller = self.controller
        if not newly_acked:
            self.marks_of_lost_packets += ce_counter > controller.ecn_ce_counter
            controller.process_ecn(ce_counter, largest, self.next_number)
            return
        is_limited = controller.bytes_in_flight + controller.max_datagram_size <= controller.congestion_window
        self.underutilized += is_limited
        self.acked.update(packet.number for packet in newly_acked)
        if newly_acked[-1].number == largest:
            self.latest_rtt = (now - newly_acked[-1].time_sent) / SECOND
            self.update_rtt(now, ack_delay)
        if any(not controller.in_congestion_recovery(packet.number) for packet in newly_acked):
            controller.in_recovery = False
        controller.process_ecn(ce_counter, largest, self.next_number)
        self.lose(self.detect_and_remove_lost_packets(now))
        controller.on_packets_acked(newly_acked, is_limited)
        self.pto_count = 0
        self.set_loss_detection_timer()

    def update_rtt(self, now: int, ack_delay: int) -> None:
        if self.first_rtt_sample is None:
            self.min_rtt = self.smoothed_rtt = self.latest_rtt
            self.rttvar = self.latest_rtt / 2
            self.first_rtt_sample = now
            return
        self.min_rtt = min(self.min_rtt, self.latest_rtt)
        ack_delay = min(ack_delay, self.max_ack_delay)
        adjusted_rtt = self.latest_rtt
        if ticks(self.latest_rtt) >= ticks(self.min_rtt) + ack_delay:  # exact: they are often equal
            adjusted_rtt = self.latest_rtt - ack_delay / SECOND
        self.rttvar = 3 / 4 * self.rttvar + 1 / 4 * abs(self.smoothed_rtt - adjusted_rtt)
        self.smoothed_rtt = 7 / 8 * self.smoothed_rtt + 1 / 8 * adjusted_rtt

    # ---- A.8, A.9 ----------------------------------------------------------------------------------------------------

    @property
    def pto(self) -> int:
        """Probe timeout without backoff, ps."""
        duration = ticks(self.smoothed_rtt + max(4 * self.rttvar, GRANULARITY))
        return duration if self.first_rtt_sample is None else duration + self.max_ack_delay

    def set_loss_detection_timer(self) -> None:
        if self.loss_time is not None:
            self.loss_detection_timer = self.loss_time
        elif not self.sent_packets:
            self.loss_detection_timer = None
        else:
            self.loss_detection_timer = self.time_of_last_packet + self.pto * 2**self.pto_count

    def on_loss_detection_timeout(self, now: int) -> bool:
        """OnLossDetectionTimeout; return whether it is a probe timeout, after which probes must be sent."""
        if self.loss_time is not None:
            lost = self.detect_and_remove_lost_packets(now)
            assert lost
            self.lose(lost)
            self.set_loss_detection_timer()
            return False
        assert self.sent_packets
        self.pto_count += 1
        self.set_loss_detection_timer()
        return True

    # ---- A.10 --------------------------------------------------------------------------------------------------------

    def detect_and_remove_lost_packets(self, now: int) -> list[SentPacket]:
        self.loss_time = None
        loss_delay = ticks(max(TIME_THRESHOLD * max(self.latest_rtt, self.smoothed_rtt), GRANULARITY))
        lost = []
        for unacked in list(self.sent_packets.values()):
            if unacked.number > self.largest_acked:
                continue
            is_late = unacked.time_sent <= now - loss_delay
            if is_late or self.largest_acked >= unacked.number + PACKET_THRESHOLD:
                lost.append(self.sent_packets.pop(unacked.number))
                self.lost_by_number += self.largest_acked >= unacked.number + PACKET_THRESHOLD
                self.lost_by_time += self.largest_acked < unacked.number + PACKET_THRESHOLD
            else:
                due = unacked.time_sent + loss_delay
                self.loss_time = due if self.loss_time is None else min(self.loss_time, due)
        return lost

    def lose(self, lost: list[SentPacket]) -> None:
        """OnPacketsLost, with its test for persistent congestion."""
        if not lost:
            return
        first = self.first_rtt_sample
        self.lost += [packet for packet in lost if first is not None and packet.time_sent > first]
        is_persistent = self.in_persistent_congestion(lost)
        self.controller.on_packets_lost(lost, self.next_number, is_persistent)
        if is_persistent:
            self.persistent += 1
            self.lost = []
            self.min_rtt = self.latest_rtt

    def in_persistent_congestion(self, lost: list[SentPacket]) -> bool:
        """Section 7.6.2: two lost packets far apart, the later one newly lost, and nothing between is acknowledged."""
        oldest: SentPacket | None = None
        before = -1
        for packet in sorted(self.lost):
            if oldest is None or any(number in self.acked for number in range(before + 1, packet.number)):
                oldest = packet
            before = packet.number
            if packet in lost and packet.time_sent - oldest.time_sent > PERSISTENT_CONGESTION_THRESHOLD * self.pto:
                return True
        return False


# ---- replay ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """State of a sender under test after an event."""

    latest_rtt: float
    smoothed_rtt: float
    rttvar: float
    min_rtt: float
    has_sample: bool
    in_flight: frozenset[int]  # numbers of packets
    bytes_in_flight: int
    timer: int | None  # ps
    pto_count: int
    in_recovery: bool
    congestion_window: float
    ssthresh: float


@dataclass(frozen=True)
class Sent:
    now: int
    number: int
    size: int
    is_probe: bool
    state: State


@dataclass(frozen=True)
class Acked:
    now: int
    ranges: tuple[tuple[int, int], ...]
    ack_delay: int
    ce_counter: int
    state: State


@dataclass(frozen=True)
class Expired:
    now: int
    is_probe_timeout: bool
    state: State


@dataclass
class Counts:
    """What a replay has compared."""

    events: int = 0
    probe_timeouts: int = 0
    timer_losses: int = 0
    first_packets: int = 0  # packets beyond the window at the start of a recovery period
    max_ack_delay: int = 0  # ps, largest delay that an ACK reported
    gaps: int = 0  # number of ACKs with more than one range


def replay(log: list[Sent | Acked | Expired], recovery: Recovery, tolerance: float = 1e-9) -> Counts:
    """Drive the pseudocode with a log, and compare its state with that of the sender after each event.

    `tolerance` is the relative one of the window. Only its reductions are compared for a `ReductionOnly`. A timer may
    differ by `RESOLUTION`: a duration between two ticks is rounded up or down by the last digit of an RTT estimate.
    """
    counts = Counts()
    controller, probes, owes_probe = recovery.controller, 0, False
    for k, entry in enumerate(log):
        place = f"event {k} at {entry.now / SECOND:.9f} s: {type(entry).__name__}"
        timer = recovery.loss_detection_timer
        assert timer is None or timer >= entry.now - RESOLUTION, f"{place}: the timer was due at {timer}"
        events, persistent = controller.events, recovery.persistent
        if isinstance(entry, Sent):
            fits = controller.bytes_in_flight + entry.size <= controller.congestion_window * (1.0 + tolerance)
            if entry.is_probe:
                assert probes > 0, f"{place}: more probes than two"
                probes, owes_probe = probes - 1, False
            elif not fits:
                assert controller.may_send_one_packet, f"{place}: exceeds the window"
                controller.may_send_one_packet = False
                counts.first_packets += 1
            recovery.on_packet_sent(entry.now, entry.number, entry.size)
        else:
            assert not owes_probe, f"{place}: no probe was sent before"
            probes = 0
            if isinstance(entry, Acked):
                counts.max_ack_delay = max(counts.max_ack_delay, entry.ack_delay)
                counts.gaps += len(entry.ranges) > 1
                recovery.on_ack_received(entry.now, entry.ranges, entry.ack_delay, entry.ce_counter)
            else:
                assert timer is not None and timer <= entry.now + RESOLUTION, f"{place}: the timer is due at {timer}"
                is_probe_timeout = recovery.on_loss_detection_timeout(max(timer, entry.now))
                assert is_probe_timeout == entry.is_probe_timeout, place
                counts.probe_timeouts += is_probe_timeout
                counts.timer_losses += not is_probe_timeout
                probes, owes_probe = (2, True) if is_probe_timeout else (0, False)
        counts.events += 1
        is_after_pto = isinstance(entry, Expired) and entry.is_probe_timeout  # the timer starts when the probes leave
        compare(recovery, entry.state, place, has_timer=not is_after_pto)
        is_reduced = controller.events > events or recovery.persistent > persistent
        if is_reduced or not isinstance(controller, ReductionOnly):
            for name in ("congestion_window", "ssthresh"):
                expected, found = getattr(controller, name), getattr(entry.state, name)
                if isinstance(controller, ReductionOnly) and name == "congestion_window":
                    expected = min(max(expected, found), expected + controller.growth)
                assert isclose(found, expected, rel_tol=tolerance) or (expected == inf and found > 1e299), (
                    f"{place}: {name} must be {expected}, got {found}"
                )
        if isinstance(controller, ReductionOnly):
            controller.congestion_window, controller.growth = entry.state.congestion_window, 0
    return counts


def compare(recovery: Recovery, state: State, place: str, has_timer: bool) -> None:
    """Compare loss detection, bytes in flight and recovery periods."""
    if recovery.first_rtt_sample is not None:
        for name in ("latest_rtt", "smoothed_rtt", "rttvar", "min_rtt"):
            expected, found = getattr(recovery, name), getattr(state, name)
            assert isclose(found, expected, rel_tol=1e-11, abs_tol=1e-14), f"{place}: {name} {found}, not {expected}"
    expected = {
        "has_sample": recovery.first_rtt_sample is not None,
        "in_flight": frozenset(recovery.sent_packets),
        "bytes_in_flight": recovery.controller.bytes_in_flight,
        "pto_count": recovery.pto_count,
        "in_recovery": recovery.controller.in_recovery,
    }
    if has_timer:
        timer, found = recovery.loss_detection_timer, state.timer
        is_same = timer == found or (timer is not None and found is not None and abs(timer - found) <= RESOLUTION)
        assert is_same, f"{place}: timer must be {timer}, got {found}"
    for name, value in expected.items():
        assert getattr(state, name) == value, f"{place}: {name} must be {value}, got {getattr(state, name)}"
