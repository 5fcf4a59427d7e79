"""RACK-TLP in the twin of the packet engine: S-144 to S-154 of docs/engine_specification.md, with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from ecc.packet.twin.state import NEVER, to_ps, to_seconds
from ecc.packet.twin.transport import Outgoing, Ranges, Rule, Segment, added, within

__all__ = ["Awaits", "Rack"]

FIRST_PROBE = 10**12  # ps, before any RTT is known
PERSISTENCE = 16
REDUCE, LINUX = range(2)  # response to a lost retransmission during a recovery (S-163)


class Awaits(IntEnum):
    """Events for which the sender waits in addition to its timeout."""

    NOTHING = 0
    REORDERING = 1
    PROBE = 2


@dataclass
class Sent:
    """A segment that was sent and is not yet acknowledged."""

    begin: int
    size: int
    sent: int  # time of its last transmission, ps
    order: int  # number of its last transmission among all transmissions of the flow
    is_lost: bool = False
    is_sacked: bool = False
    was_repeated: bool = False
    is_repair: bool = False  # sent again because it was lost
    probes: int = 0  # additional copies in flight

    @property
    def end(self) -> int:
        return self.begin + self.size

    @property
    def is_outstanding(self) -> bool:
        return not (self.is_lost or self.is_sacked)


@dataclass
class Rack(Outgoing):
    """State of the stream of a sender of type 3."""

    segments: list[Sent] = field(default_factory=list)
    now: int = 0  # ps; `now` to `min_rtt` are set before each call
    n_timeouts: int = 0  # since the last ACK of new data
    echo: int = 0  # time at which the acknowledged packet was sent, ps
    srtt: float = 0.0
    min_rtt: float = 0.0
    newest: int = -1  # order of the delivered segment that was sent last
    n_transmissions: int = 0
    responded: int = 0  # transmissions before the last congestion response
    rtt: int = 0  # RTT of the newest delivery, ps
    window: int = 0  # time allowed for reordering, ps
    fack: int = 0  # end of the data delivered
    multiplier: int = 1  # factor of min_rtt / 4 in the window
    persists: int = PERSISTENCE  # recoveries until the multiplier is reset
    dsack_round: int | None = None
    has_reordering: bool = False
    timed_out: bool = False
    probe_end: int | None = None
    probe_is_copy: bool = False
    wants_probe: bool = False
    awaits: Awaits = Awaits.NOTHING
    wait_until: int = 0
    may_undo: bool = False
    by_timeout: bool = False
    undo_from: int = 0
    first_retransmission: int = NEVER
    not_duplicated: int = 0

    @property
    def in_flight(self) -> int:
        return sum(s.size * (1 + s.probes) for s in self.segments if s.is_outstanding)

    @property
    def lost(self) -> list[Sent]:
        return [s for s in self.segments if s.is_lost]

    @property
    def n_sacked(self) -> int:
        return sum(s.is_sacked for s in self.segments)

    @property
    def is_repairing(self) -> bool:
        return self.recovering or self.timed_out

    # ---- sending ----------------------------------------------------------------------------------------

    def next(self, max_size: int) -> Segment:
        if self.lost:
            rule = Rule.FIRST if self.retransmit_first else Rule.LOST
            return Segment(self.lost[0].begin, self.lost[0].size, rule)
        new = self.new(max_size)
        if self.wants_probe and new.size > 0:
            return new._replace(rule=Rule.NEW_PROBE)
        if self.wants_probe and self.segments:
            return Segment(self.segments[-1].begin, self.segments[-1].size, Rule.PROBE)
        return new

    def restarts_with(self, segment: Segment) -> bool:
        return segment.is_retransmitted and segment.begin == self.snd_una

    def sent(self, segment: Segment) -> None:
        if segment.is_probe:
            self.wants_probe, self.probe_is_copy = False, segment.rule == Rule.PROBE
            self.probe_end = self.snd_nxt if self.probe_is_copy else segment.begin + segment.size
        if not segment.is_retransmitted:
            self.snd_nxt = segment.begin + segment.size
            self.segments.append(Sent(segment.begin, segment.size, self.now, self.n_transmissions))
            self.n_transmissions += 1
            return
        entry = next(s for s in self.segments if s.begin == segment.begin)
        entry.sent, entry.is_lost, entry.was_repeated = self.now, False, True
        entry.order = self.n_transmissions
        self.n_transmissions += 1
        entry.is_repair = segment.rule != Rule.PROBE
        if segment.rule == Rule.PROBE:
            entry.probes = 1
            return
        self.retransmit_first = False
        if self.may_undo:
            self.first_retransmission = min(self.first_retransmission, self.now)
            self.not_duplicated += segment.size

    # ---- losses ----------------------------------------------------------------------------------------

    @property
    def reordering_window(self) -> int:
        """S-149: time allowed for reordering, ps."""
        if not self.has_reordering and (self.is_repairing or self.n_sacked >= self.dup_thresh):
            return 0
        return to_ps(min(self.multiplier * self.min_rtt / 4.0, self.srtt))

    def find_losses(self) -> bool:
        """S-150, S-163: declare segments lost; return whether a recovery, or a further response in one, begins."""
        self.window = self.reordering_window
        earlier = [s for s in self.segments if s.is_outstanding and self.newest > s.order]
        waits = [s.sent + self.rtt + self.window - self.now for s in earlier]
        lost = [segment for segment, time in zip(earlier, waits, strict=True) if time <= 0]
        for segment in lost:
            segment.is_lost, segment.probes, segment.is_repair = True, 0, False
        wait = max([0, *waits])
        self.awaits = Awaits.REORDERING if wait > 0 else Awaits.NOTHING
        self.wait_until = min(NEVER, self.now + wait)
        if not self.begins_response(lost):
            return False
        self.begin_response()
        self.recovering = True
        return True

    def begins_response(self, lost: list[Sent]) -> bool:
        """S-163: return whether newly lost segments begin a congestion response."""
        as_linux = self.config.lost_retransmission == LINUX
        if not self.recovering and self.snd_una >= self.recovery_point:
            unrepaired = as_linux and any(s.is_lost or (s.is_repair and s.is_outstanding) for s in self.segments)
            if lost or unrepaired:
                self.begin_episode(by_timeout=False)
            return bool(lost) or unrepaired
        is_repeated = any(segment.order >= self.responded for segment in lost)
        if is_repeated and not (as_linux and self.recovering):
            self.may_undo = False
            return True
        return False

    def begin_response(self) -> None:
        self.responded, self.retransmit_first = self.n_transmissions, True
        self.recovery_point = self.flight_end = self.snd_nxt
        self.probe_end, self.wants_probe = None, False

    def begin_episode(self, by_timeout: bool) -> None:
        """S-151: from here on, later ACKs can show that the response was unnecessary."""
        self.may_undo, self.by_timeout, self.undo_from = True, by_timeout, self.snd_una
        self.first_retransmission, self.not_duplicated = NEVER, 0

    def time_out(self) -> None:
        if self.snd_una >= self.recovery_point:
            self.begin_episode(by_timeout=True)
        elif self.n_timeouts == 1:
            self.may_undo = False
        for segment in self.segments:
            is_overdue = segment.sent + self.rtt + self.window <= self.now
            if segment.is_outstanding and (segment.begin == self.snd_una or is_overdue):
                segment.is_lost, segment.probes, segment.is_repair = True, 0, False
        self.begin_response()
        self.recovering, self.timed_out, self.awaits = False, True, Awaits.NOTHING
        self.prr_until = 0

    # ---- probes ----------------------------------------------------------------------------------------------

    def await_probe(self, latest: int) -> None:
        """S-153: wait for a probe, but not longer than for the timeout, unless the sender waits for reordered ACKs."""
        if self.awaits == Awaits.REORDERING:
            return
        may = self.segments and self.probe_end is None and not self.is_repairing
        may = may and not any(s.is_lost or s.is_sacked for s in self.segments)
        self.awaits = Awaits.PROBE if may else Awaits.NOTHING
        if may:
            wait = to_ps(2.0 * self.srtt) if self.srtt > 0.0 else FIRST_PROBE
            if self.srtt > 0.0 and len(self.segments) == 1 and self.config.ack_every > 1:
                wait += self.config.ack_wait
            self.wait_until = max(self.now, min(self.now + wait, latest))

    def end_wait(self) -> tuple[bool, bool]:
        """S-154: end the wait; return whether a recovery begins, and whether the timer starts."""
        if self.awaits == Awaits.PROBE:
            self.awaits, self.wants_probe = Awaits.NOTHING, True
            return False, True
        begins = self.find_losses()
        return begins, begins

    # ---- ACKs -----------------------------------------------------------------------------------

    def receive_ack(self, ack: int, sacks: Ranges, size: int) -> tuple[int, bool, bool]:
        acked, before = max(0, ack - self.snd_una), self.is_repairing
        duplicate = self.duplicate_of(ack, sacks)
        self.recovered = self.undone = self.wants_probe = False
        below = [s for s in self.segments if s.begin < ack]
        is_early = self.echo < self.first_retransmission < NEVER
        shows_original = is_early and any(s.was_repeated and self.echo < s.sent for s in below)
        is_new = [s for s in self.segments if not s.is_sacked and self.reports(s, ack, sacks)]
        for segment in is_new:
            segment.is_sacked, segment.is_lost, segment.probes, segment.is_repair = True, False, 0, False
        self.note_delivered(is_new)
        self.newly_delivered, self.finds_loss = sum(s.size for s in is_new), False
        self.segments = [s for s in self.segments if s.begin >= ack]
        if acked > 0:
            self.snd_una = self.lost_below = self.high_rxt = ack
            self.retransmit_first = False
        self.sacked = []
        for segment in self.segments:
            if segment.is_sacked:
                self.sacked = added(self.sacked, segment.begin, segment.end)
        is_of_probe = self.probe_end is not None and self.probe_is_copy and duplicate[1] == self.probe_end
        has_repaired = self.process_probe(ack, duplicate)
        if self.snd_una >= self.recovery_point:
            self.recovered, self.recovering, self.timed_out = self.recovering, False, False
        is_counted = duplicate[0] < duplicate[1] and duplicate[0] >= self.undo_from and not is_of_probe
        if self.may_undo and is_counted and self.not_duplicated > 0:
            self.not_duplicated -= duplicate[1] - duplicate[0]
            shows_original |= self.not_duplicated <= 0
        self.adapt_window(duplicate[0] < duplicate[1], before and not self.is_repairing)
        begins = False
        if self.may_undo and shows_original:
            self.undo()
        else:
            n_lost = len(self.lost)
            begins = self.find_losses()
            self.finds_loss = len(self.lost) > n_lost
            self.recovered &= not self.recovering
        if has_repaired and not (begins or self.is_repairing or self.undone):
            self.flight_end, self.recovered, begins = self.snd_nxt, True, True
            self.responded, self.may_undo = self.n_transmissions, False
        return acked, begins, acked > 0 or begins

    def reports(self, segment: Sent, ack: int, sacks: Ranges) -> bool:
        """Return whether an ACK reports a segment as received."""
        return segment.begin < ack or any(within([r], segment.begin, segment.end) > 0 for r in sacks)

    @staticmethod
    def duplicate_of(ack: int, sacks: Ranges) -> tuple[int, int]:
        """Return the first range if it reports a duplicate (RFC 2883), otherwise (0, 0)."""
        if not sacks:
            return 0, 0
        begin, end = sacks[0]
        is_held = len(sacks) > 1 and within([sacks[1]], begin, end) == end - begin
        return (begin, end) if end <= ack or is_held else (0, 0)

    def note_delivered(self, segments: list[Sent]) -> None:
        """S-149: update the RTT and the newest delivery, and detect reordering."""
        if any(not s.was_repeated and s.end < self.fack for s in segments):
            self.has_reordering = True
        self.fack = max([self.fack, *(s.end for s in segments)])
        clear = [
            s
            for s in segments
            if not s.was_repeated or (self.echo >= s.sent and to_seconds(self.now - s.sent) >= self.min_rtt)
        ]
        if clear:
            last = max(clear, key=lambda s: s.order)
            self.rtt = self.now - last.sent
            self.newest = max(self.newest, last.order)

    def process_probe(self, ack: int, duplicate: tuple[int, int]) -> bool:
        """S-152: end the episode of a probe if acknowledged; return whether the probe has repaired a loss."""
        is_known = not self.probe_is_copy or duplicate[1] == self.probe_end
        if self.probe_end is None or ack < self.probe_end or (ack == self.probe_end and not is_known):
            return False
        self.probe_end = None
        return not is_known

    def adapt_window(self, has_duplicate: bool, has_recovered: bool) -> None:
        """S-149: adapt the reordering window to duplicates."""
        if self.dsack_round is not None and self.snd_una >= self.dsack_round:
            self.dsack_round = None
        if self.dsack_round is None and has_duplicate:
            self.dsack_round = self.snd_nxt
            self.multiplier, self.persists = self.multiplier + 1, PERSISTENCE
        elif has_recovered:
            self.persists = max(0, self.persists - 1)
            self.multiplier = self.multiplier if self.persists > 0 else 1

    def undo(self) -> None:
        """S-151: undo a response to spurious losses."""
        self.has_reordering |= not self.by_timeout
        for segment in self.segments:
            segment.is_lost = segment.is_repair = False
        self.recovered |= self.recovering
        self.recovering = self.timed_out = self.retransmit_first = self.may_undo = False
        self.recovery_point, self.undone, self.awaits = self.snd_una, True, Awaits.NOTHING
