"""State of the twin of the packet engine: numbers, packets, links, routers, receivers and flows.

docs/engine_specification.md specifies them in numbered clauses (S-1, ...). The events that change them are in
`ecc.packet.twin.events`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ecc._support.arguments import shown
from ecc.contract.env import Hook
from ecc.packet.twin.quic import Quic
from ecc.packet.twin.transport import QUIC, Incoming, Outgoing, Ranges, Rule, Segment

__all__ = [
    "AGGRESSIVE", "Agent", "BY_DATA", "BY_PACER", "BY_WINDOW", "CE", "CLASSIC", "Channel", "DRR", "ECT_0", "ECT_1",
    "Echo", "Hole", "MAX_BURST", "MAX_ZERO_WAITS", "NEVER", "NOT_ECT", "OLD", "Packet", "Phase", "REPORT_TIMER",
    "Random", "Receiver", "Record", "SCALABLE", "SELECT", "STEP", "Server", "Template", "TwinFlow", "TwinLink",
    "TwinQueue", "TwinRouter", "WORD", "is_reordered", "scaled", "to_ps", "to_seconds", "transmission",
]  # fmt: skip

NO_END = 2**62  # bytes of a flow without end
INT_LIMIT = 2**63  # ints of records are below it, and at or above its negative
NEVER = 4 * 10**18  # ps; nothing happens then or later
MAX_TIMEOUT = 64 * 10**12  # ps; doubling stops here
MAX_BURST = 65536  # packets sent in one TRY-SEND
REPORT_TIMER = 4  # number of the timer of the receiver, after those of the sender
MAX_ZERO_WAITS = 100  # consecutive requests of a hook to be called again in less than 1 ps
WORD = 2**64 - 1
STEP = 0x9E3779B97F4A7C15
NOT_ECT, ECT_1, ECT_0, CE = range(4)  # codepoints of the IP header
CLASSIC, ACCURATE, SCALABLE = 1, 2, 3  # ways in which receivers report marks (S-105)
PRIORITY, DRR, FQ, SELECT = range(4)  # rules by which links choose the queue of the next packet (S-116)
AGGRESSIVE = 2  # ACK filter that also drops the last packet of a queue (S-227)
ROUND_ROBIN, RANDOM = range(2)  # rules by which flows with several routes choose the next one (S-131)
DATA, ACK, TRIMMED = range(3)  # kinds of packets in hooks of routers
BY_DATA, BY_WINDOW, BY_PACER = range(3)  # reasons for which a sender stops sending (S-176)
NEW, OLD = range(2)  # rounds of queues (S-117, S-118)

# Numbers -----------------------------------------------------------------------------------------------------------


def to_ps(seconds: float) -> int:
    """Convert a time to ps, rounded to the nearest; NEVER if it is too large."""
    ps = seconds * 1e12 + 0.5
    return math.floor(ps) if ps < 4e18 else NEVER


def to_seconds(ps: int) -> float:
    """Convert a time to s."""
    return ps * 1e-12


def transmission(size: int, rate: float) -> int:
    """Return the transmission time of `size` bytes at a rate > 0 bit/s, in ps; it is 1 ps or more."""
    ps = size * 8.0 / rate * 1e12 + 0.5
    return max(1, math.floor(ps)) if ps < 4e18 else NEVER


def scaled(time: int, share: float) -> int:
    """Return a share of a time, in ps."""
    ps = time * share + 0.5
    return math.floor(ps) if ps < 4e18 else NEVER


class Random:
    """Uniform numbers in [0, 1): SplitMix64, one stream per entity."""

    def __init__(self, seed: int, stream: int) -> None:
        self.state = self.mix(seed ^ self.mix((stream + STEP) & WORD))

    @staticmethod
    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    def next(self) -> float:
        self.state = (self.state + STEP) & WORD
        return (self.mix(self.state) >> 11) * 2.0**-53

    def between(self, lo: int, hi: int) -> int:
        """Return a random integer from lo to hi, both included."""
        return lo + min(math.floor(self.next() * float(hi - lo + 1)), hi - lo)


PHASE_PACKETS = 16  # duration of a phase
PARETO = 2  # value of `jitter_law`: 1 is normal, 0 uniform
AT_LINE_RATE = 1  # value of `phase_jitter`: 2 is always, 0 never


class Phase:
    """The random phase of a flow (S-186) or of a link (S-189)."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.offset = 0.0  # share of a packet time, below 1
        self.stretch = 1.0  # factor of the next pacing gap of a flow
        self.packet_time = 0  # transmission time at the slowest link of a flow's route, ps
        self.n = 0  # packets since the offset was drawn

    def begin(self) -> None:
        """Draw the first offset of a flow, and the number of packets for which it lasts."""
        self.offset = self.random.next()
        self.n = self.random.between(0, PHASE_PACKETS - 1)

    def redraw(self) -> float:
        """Draw a new offset; return 1 plus its difference to the offset before."""
        before, self.offset, self.n = self.offset, self.random.next(), 0
        return 1.0 + (self.offset - before)

    def sent(self) -> None:
        """Count a packet that the flow has sent."""
        self.stretch = 1.0
        self.n += 1
        if self.n == PHASE_PACKETS:
            self.stretch = self.redraw()

    def transmission(self, time: int, pauses: bool) -> int:
        """Return the transmission time of the link's next packet in ps; `pauses`: the link was idle before it."""
        if pauses:
            self.n, self.offset = 0, 0.0
        elif self.n == PHASE_PACKETS:
            time = max(1, scaled(time, self.redraw()))
        self.n += 1
        return time


# Entities ----------------------------------------------------------------------------------------------------------


@lru_cache(1024)
def _fields(dtype: np.dtype[Any]) -> tuple[dict[str, type], dict[str, Any]]:
    """Return the Python types of the fields of a dtype, and their zeros, by name."""
    names = dtype.names or ()
    zeros = {name: (0,) * dtype[name].shape[0] if dtype[name].shape else 0 for name in names}
    kinds: dict[str, type] = {
        name: (list if dtype[name].base.kind == "f" else WholeNumbers)
        if dtype[name].shape
        else (float if dtype[name].kind == "f" else int)
        for name in names
    }
    return kinds, zeros


class WholeNumbers(list[int]):
    """An array of integer fields of 64 bits each."""

    def __setitem__(self, index: Any, value: Any) -> None:
        for item in value if isinstance(index, slice) else (value,):
            if not isinstance(item, int):
                raise TypeError(f"an int array must have whole numbers, got {shown(item)}")
            if not -INT_LIMIT <= item < INT_LIMIT:
                raise OverflowError(f"an int array must have whole numbers of 64 bits, got {shown(item)}")
        super().__setitem__(index, value)


class Record:
    """A plain object with the float and int fields of a dtype, zero unless given."""

    _kinds: Mapping[str, type]

    def __init__(self, dtype: np.dtype[Any], values: Mapping[str, float] | None = None) -> None:
        kinds, zeros = _fields(dtype)
        object.__setattr__(self, "_kinds", kinds)
        if values:
            for name in kinds:
                setattr(self, name, values[name])
        else:
            self.__dict__.update({name: kind(zeros[name]) for name, kind in kinds.items()})

    @classmethod
    def of(cls, record: np.void) -> Any:
        """Return the same values in a plain object, arrays as lists."""
        return cls(record.dtype, {name: record[name].tolist() for name in record.dtype.names or ()})

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._kinds.get(name)
        if kind is None:
            raise AttributeError(f"there is no field {name!r}")
        if kind is int:
            if not isinstance(value, int):
                raise TypeError(f"field {name} is an int, got {shown(value)}")
            if not -INT_LIMIT <= value < INT_LIMIT:
                raise OverflowError(f"field {name} is an int of 64 bits, got {shown(value)}")
        self.__dict__[name] = kind(value)

    def values(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self._kinds)


@dataclass(slots=True)
class Packet:
    flow: TwinFlow
    size: int  # bytes of data; an ACK keeps the size of its packet
    offset: int  # bytes sent by its flow before it
    sent: int  # time at which it left the sender, ps
    headers: Mapping[int, Record]  # the regions of the header, by offset
    route: Sequence[TwinLink]  # one of the routes of its flow; for an ACK, the reverse route
    base: int  # bytes that the sender had abandoned when it sent the packet
    is_ack: bool = False
    is_trimmed: bool = False  # a link has removed its data
    passes_whole: bool = False  # it would be trimmed, but is not larger than a trimmed packet (S-135)
    front: int = 0  # carried by an ACK: bytes accounted for
    missing: int = 0  # carried by an ACK: missing bytes among these since the last timeout
    sacks: Ranges = field(default_factory=list)  # reliable flows: data that the receiver holds beyond front
    hop: int = 0  # index of its link in the route
    queue_index: int = 0  # its queue at this link
    control_size: int = 0  # bytes of a control packet (S-129) on links; its kind is in `offset`
    codepoint: int = NOT_ECT
    ecn: int = 0  # data: 1 with CWR; ACK: its report of marks (S-108, S-109)
    number: int = 0  # packet number, with a transport of type 4
    ack_delay: int = 0  # carried by an ACK, with a transport of type 4, ps

    @property
    def link(self) -> TwinLink:
        return self.route[self.hop]

    @property
    def wire_size(self) -> int:
        config = self.flow.config
        data_size = config.trimmed_size if self.is_trimmed else self.size + config.header_bytes
        return self.control_size or int(config.ack_size if self.is_ack else data_size)

    @property
    def kind(self) -> int:
        """Kind of the packet in hooks of routers."""
        return ACK if self.is_ack else TRIMMED if self.is_trimmed or self.passes_whole else DATA

    @property
    def is_filterable(self) -> bool:
        """True for a cumulative ACK, which an ACK filter may drop (S-227)."""
        return self.is_ack and not self.control_size and 0 < int(self.flow.config.transport) < QUIC

    def supersedes(self, other: Packet) -> bool:
        """Return whether this ACK reports all that another one reports, and more (S-227)."""
        for begin, end in other.sacks:
            if begin < other.front or not any(a <= begin and end <= b for a, b in self.sacks):
                return False
        more = sum(b - a for a, b in self.sacks) > sum(b - a for a, b in other.sacks)
        return other.front < self.front or (other.front == self.front and more)

    @property
    def upstream(self) -> TwinLink | None:
        """The previous link of its route, if that link can be paused."""
        before = self.route[self.hop - 1] if self.hop > 0 else None
        return before if before is not None and before.config.xoff > 0 else None

    @property
    def is_at_last_link(self) -> bool:
        return self.hop == len(self.route) - 1


class Slots:
    """Slots in which packets leave together (S-158)."""

    def __init__(self, config: Any, random: Random) -> None:
        self.config, self.random = config, random  # slot_lo, ...
        self.opens = self.packets = self.bytes = 0  # time of the last slot [ps], and its remaining packets and bytes

    def out(self, ready: int, size: int) -> int:
        """Return the time at which a packet that is ready at a time leaves [ps]."""
        config = self.config
        if config.slot_hi == 0:
            return ready
        if self.opens < ready or self.packets == 0 or size > self.bytes:
            self.opens = min(NEVER, max(self.opens, ready) + self.random.between(config.slot_lo, config.slot_hi))
            self.packets, self.bytes = config.slot_packets or 2**63, config.slot_bytes or 2**63
        self.packets -= 1
        self.bytes -= size
        return self.opens


class Server:
    """Service of a link's queue beyond its capacity: tokens, opportunities and slots (S-155 to S-159)."""

    def __init__(self, config: Any, times: Sequence[int], random: Random) -> None:
        self.config, self.slots = config, Slots(config, random)  # the fields of SERVER
        self.full_at = self.done = 0  # ps
        self.has_opportunities = len(times) > 0
        self.opportunities = self.repeated(times)
        self.opportunity = self.remaining = 0  # time of the last opportunity [ps], and the bytes that may still use it

    @staticmethod
    def repeated(times: Sequence[int]) -> Iterator[int]:
        """Yield all opportunities: the trace repeats without end."""
        begin = 0
        while True:
            yield from (begin + time for time in times)
            begin += times[-1]

    def shape(self, begin: int, size: int) -> int:
        """Return the time at which the token bucket admits a packet (S-156)."""
        config = self.config
        if config.rate == 0.0:
            return begin
        early = transmission(config.burst - size, config.rate) if config.burst > size else 0
        begin = max(begin, self.full_at - early)
        self.full_at = min(NEVER, max(self.full_at, begin) + transmission(size, config.rate))
        return begin

    def use(self, begin: int, arrived: int, size: int) -> int:
        """Return the opportunity at which the last byte of a packet leaves (S-157)."""
        while True:
            if self.opportunity < begin or self.opportunity <= arrived:
                self.remaining = 0
            used = min(self.remaining, size)
            self.remaining -= used
            size -= used
            if size == 0 or self.opportunity >= NEVER:
                return min(NEVER, self.opportunity)
            self.opportunity, self.remaining = next(self.opportunities), self.config.opportunity


class Channel:
    """A channel that loses, delays or reorders packets, as an impairment specifies (S-93 to S-97)."""

    def __init__(self, config: Any, random: Random, delays: Sequence[tuple[int, int]]) -> None:
        self.config, self.random = config, random  # the fields of IMPAIRMENT
        self.delays = delays  # (time, additional delay from then on) [ps]
        self.slots = Slots(config, random)
        self.free_at = self.last_out = 0  # ps
        self.until_spike = self.draw_until_spike()
        self.is_bad = config.burst_kinds > 0 and self.random.next() < config.burst_begins / (
            config.burst_begins + config.burst_ends
        )

    def draw_until_spike(self) -> int:
        config = self.config
        return self.random.between(config.spike_every_lo, config.spike_every_hi) if config.spike_every_hi > 0 else 0

    def loses(self, is_ack: bool) -> bool:
        loss = self.config.ack_loss if is_ack else self.config.data_loss
        is_lost = loss > 0.0 and self.random.next() < loss
        if self.config.burst_kinds & (2 if is_ack else 1):
            is_lost = self.is_in_burst() or is_lost
        return bool(is_lost)

    def is_in_burst(self) -> bool:
        config = self.config
        loss, change = (
            (config.burst_bad_loss, config.burst_ends) if self.is_bad else (config.burst_good_loss, config.burst_begins)
        )
        is_lost = self.random.next() < loss
        if self.random.next() < change:
            self.is_bad = not self.is_bad
        return bool(is_lost)

    def additional(self, now: int) -> int:
        """Return the delay that scheduled changes add for packets that enter the channel now [ps]."""
        return max(((time, delay) for time, delay in self.delays if time <= now), default=(0, 0))[1]

    def min_delay(self, now: int) -> int:
        """Return the minimum delay that the impairment adds now [ps]."""
        config = self.config
        pareto = math.floor(config.jitter_scale + 0.5) if config.jitter_law == PARETO else 0
        return int(config.spike_between + config.jitter_lo + pareto + self.additional(now))

    def draw_jitter(self) -> int:
        config, logarithm = self.config, math.log1p(-self.random.next())
        if config.jitter_law == PARETO:
            delay = config.jitter_scale * (1.0 + math.expm1(-config.jitter_spread * logarithm))
        else:
            normal = math.sqrt(-2.0 * logarithm) * math.cos(2.0 * math.pi * self.random.next())
            delay = config.jitter_scale + config.jitter_spread * normal
        return min(NEVER, math.floor(delay + 0.5)) if delay > 0.0 else 0

    def out(self, now: int, delay: int, size: int) -> int:
        """Return the time at which a packet sent now reaches the end of the channel [ps]."""
        config, out = self.config, self.slots.out(now, size)
        if config.spike_every_hi > 0:
            service = config.spike_between
            self.until_spike -= 1
            if self.until_spike == 0:
                service = self.random.between(config.spike_lo, config.spike_hi)
                self.until_spike = self.draw_until_spike()
            out = self.free_at = min(NEVER, max(out, self.free_at) + service)
        out += delay + self.additional(now)
        if config.jitter_hi > 0:
            out += self.random.between(config.jitter_lo, config.jitter_hi)
        if config.jitter_law:
            out += self.draw_jitter()
        self.last_out = min(NEVER, out if config.reorders else max(out, self.last_out))
        return self.last_out


@dataclass(eq=False)
class TwinRouter:
    index: int
    link: TwinLink
    config: Any  # first_interval, header_offset, ...: the fields of LINK
    state: Record
    params: Record
    hooks: Mapping[str, Hook]
    random: Random
    queue_low: int = 0  # minimum queue of the link since the router's last tick
    next_interval: float = 0.0  # s
    n_zero_waits: int = 0  # consecutive INTERVALs requested in less than 1 ps
    begun_state: Any = None  # record for hooks before time 0

    @property
    def queue(self) -> int:
        return self.link.queue


@dataclass(eq=False)
class TwinQueue:
    """One of the queues of a link that schedules."""

    quantum: int = 0  # bytes that it may send in a turn
    deficit: int = 0  # bytes that it may still send in this turn
    bytes: int = 0  # the packet in service included
    dropped: int = 0  # packets
    marked: int = 0  # packets
    waiting: deque[tuple[int, Packet]] = field(default_factory=deque)  # arrival time [ps], packet


@dataclass
class PauseState:
    """PFC state of a link and a class (S-139)."""

    held: int = 0  # bytes that arrived over the link and are queued at the next one
    has_paused: bool = False  # the last frame sent was a PAUSE
    is_paused: bool = False  # the last frame received was a PAUSE
    since: int = 0  # time of the last pause, ps
    time: int = 0  # total duration of the earlier pauses, ps
    count: int = 0  # PAUSE frames


@dataclass(eq=False)
class TwinLink:
    index: int
    config: Any  # capacity, delay, buffer, ...: the fields of LINK
    changes: list[tuple[int, float]]  # changes of its capacity: time [ps], capacity [bit/s]
    channel: Channel | None  # impairment of its wire
    server: Server | None  # None: its capacity alone
    routers: list[TwinRouter] = field(default_factory=list)
    queue: int = 0  # bytes
    n_queued: int = 0  # packets
    queue_peak: int = 0  # maximum since the last sample, bytes
    flow_queue: Counter[tuple[int, bool]] = field(default_factory=Counter)  # bytes by flow and kind
    free_at: int = 0  # departure of the last bit of the queue [ps]; if it schedules, of the packet in service
    queues: list[TwinQueue] = field(default_factory=list)  # used if it schedules
    rounds: list[list[TwinQueue]] = field(default_factory=lambda: [[], []])  # queues that wait for a turn
    in_service: Packet | None = None  # used if it schedules
    filters: bool = False  # an ACK filter drops the packet of a hook
    in_lossless: bool = False  # some link of the network can be paused
    classes: list[PauseState] = field(default_factory=lambda: [PauseState() for _ in range(8)])  # by priority
    frames: deque[tuple[int, int, bool]] = field(
        default_factory=deque
    )  # arrival time [ps], class, whether it is a PAUSE
    arrived: int = 0  # bytes
    departed: int = 0  # bytes
    dropped: int = 0  # packets
    dropped_bytes: int = 0
    marked: int = 0  # packets
    lost: int = 0  # packets
    lost_bytes: int = 0
    phase: Phase | None = None  # random phase of its departures

    area: int = 0  # integral of the queue from the last sample to `measured`, byte ps
    measured: int = 0  # time of the last update of `area`, ps
    time_in_bin: Counter[int] = field(default_factory=Counter)  # ps by bin of the queue
    arrivals_in_bin: Counter[int] = field(default_factory=Counter)  # arrivals by bin of the queue

    @property
    def bin(self) -> int:
        """Histogram bin of the current queue."""
        shift = max(0, self.queue.bit_length() - 8)
        return (shift << 7) + (self.queue >> shift)

    @property
    def schedules(self) -> bool:
        """True if the link chooses the next packet when the one before it has left (S-112)."""
        return (
            self.in_lossless or self.config.n_queues > 0 or any("on_dequeue" in router.hooks for router in self.routers)
        )

    @property
    def scheduler(self) -> int:
        return int(self.config.scheduler)

    @property
    def drops_longest(self) -> bool:
        return self.schedules and self.config.drops_longest != 0

    @property
    def is_too_full(self) -> bool:
        """True if the queue exceeds the buffer (S-119)."""
        return bool(0 <= self.config.buffer < self.queue or 0 < self.config.buffer_packets < self.n_queued)

    @property
    def longest(self) -> TwinQueue:
        """The queue with the largest number of bytes among those with waiting packets."""
        return max((queue for queue in self.queues if queue.waiting), key=lambda queue: queue.bytes)

    def join(self, packet: Packet, now: int) -> None:
        """Append a packet to its queue, and give the queue a turn (S-117, S-118)."""
        queue = self.queues[packet.queue_index]
        queue.waiting.append((now, packet))
        if self.scheduler in (DRR, FQ) and queue not in self.rounds[NEW] + self.rounds[OLD]:
            queue.deficit = queue.quantum
            self.rounds[NEW if self.scheduler == FQ else OLD].append(queue)

    def superseded(self, packet: Packet, aggressive: bool) -> int | None:
        """Return the place in its queue of the ACK that the last packet of the queue supersedes, if any (S-227)."""
        waiting = self.queues[packet.queue_index].waiting
        if not packet.is_filterable:
            return None
        place, n_found = -1, 0
        for k, (_, other) in enumerate(waiting):
            if other is packet or other.flow is not packet.flow or not other.is_filterable:
                continue
            if place >= 0 and other.ecn != waiting[place][1].ecn:
                place, n_found = -1, n_found - 1
            if packet.supersedes(other):
                place, n_found = k if place < 0 else place, n_found + 1
            if n_found == 2:
                return place
        is_next = place >= 0 and place == len(waiting) - 2 and waiting[place][1].ecn == packet.ecn
        return place if aggressive and is_next else None

    def may_serve(self, queue: TwinQueue) -> bool:
        """Return whether a packet waits in a queue and its class is not paused."""
        return bool(queue.waiting) and not self.classes[queue.waiting[0][1].flow.config.priority].is_paused

    def next_queue(self) -> TwinQueue | None:
        """Return the queue of the next packet, or None if none may be served (S-116 to S-118, S-142)."""
        first = next((queue for queue in self.queues if self.may_serve(queue)), None)
        if self.scheduler == PRIORITY or first is None:
            return first
        while True:
            number = NEW if self.rounds[NEW] else OLD
            queue = self.rounds[number][0]
            if queue.waiting and not self.may_serve(queue):
                self.rounds[OLD].append(self.rounds[number].pop(0))
                continue
            needed = 1 if self.scheduler == FQ else queue.waiting[0][1].wire_size if queue.waiting else queue.deficit
            if queue.deficit < needed:
                queue.deficit += queue.quantum
                self.rounds[OLD].append(self.rounds[number].pop(0))
            elif queue.waiting:
                return queue
            else:
                self.rounds[number].pop(0)
                if number == NEW:
                    self.rounds[OLD].append(queue)

    def read_frames(self, now: int) -> None:
        """Apply the frames that have arrived (S-141)."""
        while self.frames and self.frames[0][0] <= now:
            time, priority, pauses = self.frames.popleft()
            state = self.classes[priority]
            state.is_paused = pauses
            if pauses:
                state.since = time
            else:
                state.time += time - state.since

    @property
    def is_blocked(self) -> bool:
        """True if packets wait, only a RESUME would let the link serve them, and no frame is on its way (S-143)."""
        waits = self.in_service is None and any(queue.waiting for queue in self.queues)
        return waits and not self.frames and not self.config.drops_longest

    @property
    def packets(self) -> list[Packet]:
        """All packets in the queue of a link that schedules."""
        served = [] if self.in_service is None else [self.in_service]
        return served + [packet for queue in self.queues for _, packet in queue.waiting]

    def grow(self, packet: Packet) -> None:
        """Add a packet to the counts of the queue."""
        self.queue += packet.wire_size
        self.n_queued += 1
        self.queue_peak = max(self.queue_peak, self.queue)
        self.flow_queue[packet.flow.number, packet.is_ack] += packet.wire_size
        self.queues[packet.queue_index].bytes += packet.wire_size

    def flow_queue_of(self, packet: Packet) -> int:
        """Return the bytes in the queue that have the flow and kind of a packet."""
        return self.flow_queue[packet.flow.number, packet.is_ack]

    def shrink(self, packet: Packet, now: int) -> None:
        """Subtract a packet from the counts of the queue."""
        self.measure(now)
        self.queue -= packet.wire_size
        self.n_queued -= 1
        for router in self.routers:
            router.queue_low = min(router.queue_low, self.queue)
        self.flow_queue[packet.flow.number, packet.is_ack] -= packet.wire_size
        self.queues[packet.queue_index].bytes -= packet.wire_size

    def measure(self, time: int) -> None:
        self.area += self.queue * (time - self.measured)
        self.time_in_bin[self.bin] += time - self.measured
        self.measured = time

    @property
    def reorders(self) -> bool:
        return self.channel is not None and self.channel.config.reorders != 0

    def capacity_at(self, now: int) -> tuple[float, int]:
        """Return the capacity, and the time of its next change [ps]."""
        capacity = float(self.config.capacity)
        for time, changed in self.changes:
            if time > now:
                return capacity, time
            capacity = changed
        return capacity, NEVER

    def advertised_capacity(self, now: int) -> float:
        """Return the capacity that routers see: during an outage, the capacity before it (S-27)."""
        past = [float(self.config.capacity), *(capacity for time, capacity in self.changes if time <= now)]
        return next(capacity for capacity in reversed(past) if capacity > 0.0)

    def serve(self, begin: int, arrived: int, size: int) -> int:
        """Return the departure time of a packet that may be served from `begin` on (S-155 to S-159)."""
        if self.server is None or begin >= NEVER:
            return self.transmitted(begin, size)
        server = self.server
        first = server.shape(max(server.done, arrived) if server.config.slot_hi > 0 else begin, size)
        server.done = server.use(first, arrived, size) if server.has_opportunities else self.transmitted(first, size)
        return server.slots.out(max(server.done, begin), size) if server.config.slot_hi > 0 else server.done

    def transmitted(self, begin: int, size: int) -> int:
        """Return the time at which the last bit of a packet leaves if its first bit is served at `begin`."""
        if not self.changes:
            time = transmission(size, self.config.capacity)
            if self.phase and self.server is None:
                time = self.phase.transmission(time, pauses=begin > self.free_at)
            return min(NEVER, begin + time)
        bits = size * 8.0
        while begin < NEVER:
            capacity, end = self.capacity_at(begin)
            if capacity > 0.0:
                ps = bits / capacity * 1e12 + 0.5
                wait = max(1, math.floor(ps)) if ps < 4e18 else NEVER
                if begin + wait <= end:
                    return begin + wait
                bits = max(bits - capacity * to_seconds(end - begin), 0.0)
            begin = end
        return NEVER


def is_reordered(routes: Sequence[Sequence[TwinLink]]) -> bool:
    """Return whether packets on these routes can overtake each other."""
    return len(routes) > 1 or any(link.reorders for link in routes[0])


@dataclass
class Hole:
    """A gap in the data that a receiver has received."""

    begin: int
    end: int
    missing: int
    n_passed: int  # packets received with data beyond it


@dataclass
class Receiver:
    """A receiver that detects missing data and reports it in ACKs (S-62 to S-72)."""

    reordering_threshold: int  # packets from beyond a hole after which it counts as lost
    next: int = 0
    front: int = 0  # bytes received or given up
    missing: int = 0
    holes: list[Hole] = field(default_factory=list)
    delayed: Packet | None = None  # packet with a delayed ACK
    n_delayed: int = 0
    acks_lost: int = 0

    def account(self, begin: int, size: int, base: int, is_trimmed: bool = False) -> None:
        """Account for a packet; its sender has abandoned the data before `base` (S-66, S-67, S-136)."""
        if base >= self.next:
            self.next, self.missing, self.holes = base, 0, []
        for hole in self.holes:
            hole.n_passed += hole.end <= begin and not is_trimmed
            if hole.begin <= begin < hole.end:
                hole.missing -= size
                self.missing += size if is_trimmed else 0
        if begin >= self.next:
            n_passed = 0 if is_trimmed else 1
            if begin > self.next and self.holes and self.holes[-1].n_passed == n_passed:  # headers have passed it
                self.holes[-1].missing += begin - self.next
                self.holes[-1].end = begin
            elif begin > self.next:
                self.holes.append(Hole(self.next, begin, begin - self.next, n_passed))
            self.next = begin + size
            self.missing += size if is_trimmed else 0
        while self.holes and (self.holes[0].missing == 0 or self.holes[0].n_passed >= self.reordering_threshold):
            self.missing += self.holes.pop(0).missing
        self.front = self.next - sum(hole.missing for hole in self.holes)


@dataclass
class Echo:
    """ECN state of a flow: marks at the receiver, and reports known to the sender (S-108 to S-110)."""

    marked: int = 0  # bytes of data that arrived marked
    known: int = 0  # marked bytes known to the sender
    answered: int = 0  # offset of the last packet that carried CWR
    has_marks: bool = False  # marked data has arrived since the last CWR
    was_marked: bool = False  # the last packet was marked
    owes_answer: bool = False  # the next new packet carries CWR

    def receive(self, packet: Packet) -> None:
        """Record the mark and CWR of a packet at the receiver."""
        self.was_marked = packet.codepoint == CE
        self.has_marks = self.was_marked or (self.has_marks and packet.ecn == 0)
        self.marked += packet.size if self.was_marked else 0

    def read(self, ack: Packet, acked: int, front: int) -> tuple[int, int]:
        """Return the marked bytes that an ACK reports first, and whether it carries ECE (S-108 to S-111).

        The ACK acknowledges `acked` new bytes, and all data below `front`.
        """
        if not ack.flow.echoes_marks:
            marked = max(0, ack.ecn - self.known)
            self.known += marked
            if isinstance(ack.flow.outgoing, Quic) and ack.flow.config.ecn == CLASSIC:
                stream = ack.flow.outgoing
                is_event = marked > 0 and not stream.recovering and not stream.is_persistent
                return marked if is_event else 0, int(is_event)
            return marked, 0
        if not (ack.ecn and acked > 0 and not self.owes_answer and front > self.answered):
            return 0, ack.ecn
        self.owes_answer = True
        return acked, ack.ecn


@dataclass(eq=False)
class TwinFlow:
    number: int  # its index; for a transfer: the number of flows and earlier transfers
    config: Any  # start, stop, size, packet_size, ...: the fields of FLOW
    state: Record
    params: Record
    hooks: Mapping[str, Hook]
    random: Random
    routes: Sequence[Sequence[TwinLink]]  # routes of data, one unless it sprays
    reverse: Sequence[TwinLink]
    rate: float  # bit/s
    window: float  # bytes, 0: not window-clocked
    sizes: Random  # for random packet sizes
    channel: Channel | None  # impairment of the ACKs' pure delay
    route_random: Random  # for random routes
    receiver: Receiver
    outgoing: Outgoing | None  # None: not a reliable flow
    incoming: Incoming
    writes: Sequence[tuple[int, int]] = ()  # an application's: time after the start [ps], bytes up to then
    full_size: int = 0  # size of the next packet after the opening
    started: bool = False
    active: bool = False
    completed: bool = False
    finish: int = -1  # ps
    sent: int = 0  # bytes
    expected: int = 0  # all offsets below are accounted for: acknowledged or lost
    lost: int = 0  # bytes
    sender_base: int = 0  # value of `sent` at the last timeout
    acked: int = 0  # bytes acknowledged by the last ACK
    newly_marked: int = 0  # bytes reported as marked by the last ACK
    ece: int = 0  # 1 if the last ACK carried ECE
    sender_missing: int = 0  # bytes missing since the last timeout, as the last ACK reported
    received: int = 0  # bytes
    n_routed: int = 0  # packets that have entered a route
    last_time: int = 0  # time of the last packet sent, ps
    last_size: int = 0  # size of the last packet with header_bytes; 0 before the first
    timer_start: int = 0  # start of the retransmission timer, ps
    pacing_credit: float = 0.0  # bytes that a paced window may send at once
    pacing_at: int = 0  # time of the last update of pacing_credit, ps
    n_timeouts: int = 0  # since the last ACK
    limited_by: int = BY_DATA  # reason for which the last TRY-SEND stopped (S-176)
    n_zero_waits: int = 0  # consecutive TIMERs that on_timer requested in less than 1 ps
    rtt: float = 0.0  # s
    srtt: float = 0.0
    min_rtt: float = 0.0
    rtt_sum: float = 0.0  # sum of the RTTs since the last sample, s
    rtt_peak: float = 0.0  # maximum of these RTTs, s
    n_rtts: int = 0  # number of these RTTs
    packets: int = 0  # packets in the network
    template_index: int = 0  # template of a transfer
    end: int = -1  # end of a transfer, ps
    echo: Echo = field(default_factory=Echo)
    timers: dict[int, int] = field(default_factory=dict)  # timers set by its hooks: number -> ps
    count: float = math.inf  # bytes sent at which on_count is called
    subsequent: Sequence[dict[str, int]] = ()  # transfers that follow it, in order
    phase: Phase | None = None  # random phase of its packets
    begun_state: Any = None  # record for its on_start if it has begun before time 0
    monitor: Any = None  # its Monitor, if it is observed

    @property
    def forward(self) -> Sequence[TwinLink]:
        """Its first route."""
        return self.routes[0]

    def next_route(self) -> Sequence[TwinLink]:
        """Return the route of the packet that enters the network now (S-131)."""
        number, n = self.n_routed, len(self.routes)
        if n > 1 and self.config.spraying == RANDOM:
            number = self.route_random.between(0, n - 1)
        self.n_routed += 1
        return self.routes[number % n]

    @property
    def needs_receiver(self) -> bool:
        """True if the receiver tracks missing data; otherwise every ACK acknowledges its packet (S-71, S-72)."""
        reordered = self.config.reordering_threshold > 1 or is_reordered(self.routes)
        return (
            bool(self.reverse)
            or self.channel is not None
            or self.config.ack_every > 1
            or self.config.ecn > 0
            or self.config.trimmed_size > 0
            or reordered
        )

    @property
    def echoes_marks(self) -> bool:
        """True if its receiver reports marks as in RFC 3168; the reports of QUIC are counts (S-221)."""
        return bool(self.config.ecn == CLASSIC and not isinstance(self.outgoing, Quic))

    @property
    def is_watched(self) -> bool:
        """True if the arrival of a packet at the receiver is an event (S-32)."""
        return (
            "on_receive" in self.hooks
            or bool(self.config.enables_subsequent)
            or self.outgoing is not None
            or self.needs_receiver
        )

    @property
    def in_flight(self) -> int:
        return self.sent - self.expected

    @property
    def delivered(self) -> int:
        return self.expected - self.lost

    @property
    def outstanding(self) -> int:
        """Bytes in flight for the window and hooks (S-76)."""
        return self.outgoing.in_flight if self.outgoing else self.in_flight

    def written(self, now: int) -> int:
        """Return the bytes that the application has written (S-161)."""
        size = self.config.size if self.config.size >= 0 else NO_END
        if not self.has_writes:
            return size
        if self.writes:
            return min(size, max((total for time, total in self.writes if self.config.start + time <= now), default=0))
        n = max(0, now - self.config.start) // self.config.write_period + 1
        return min(size, int(self.config.write_size * n))

    @property
    def taken(self) -> int:
        """Bytes of application data that were sent for the first time (S-162)."""
        return self.sent - self.lost if self.outgoing or self.config.size >= 0 else self.sent

    def next_of(self, written: int) -> Segment:
        """Return the next segment; its size is 0 if there is nothing to send."""
        if self.outgoing:
            self.outgoing.written = written
            return self.outgoing.next(self.packet_size)
        return Segment(self.sent, min(self.packet_size, written - self.taken), Rule.NONE)

    def next(self, now: int) -> tuple[Segment, int]:
        """Return the next segment, and the time at which its data is available (S-162)."""
        segment = self.next_of(self.written(now))
        if segment.size > 0 or not self.has_writes:
            return segment, now
        due = self.next_write(now)
        return self.next_of(self.written(due)), due

    @property
    def has_writes(self) -> bool:
        """Whether the application writes over time."""
        return self.config.write_size > 0 or bool(self.writes)

    def next_write(self, now: int) -> int:
        """Return the time of the next write, NEVER if there is none."""
        start, period = self.config.start, self.config.write_period
        if self.writes:
            return min(NEVER, min((start + time for time, _ in self.writes if start + time > now), default=NEVER))
        return int(min(NEVER, start + ((now - start) // period + 1) * period))

    def may_leave(self, segment: Segment) -> bool:
        """Return whether a segment exists and the window and rate allow it, now or later (S-52.1)."""
        may_limit = self.outstanding > 0 or not self.outgoing
        limited = self.window > 0.0 and segment.rule != Rule.FIRST and not segment.is_probe and may_limit
        full = limited and self.outstanding + segment.size > self.window
        if limited and self.outgoing and self.outgoing.reduces_proportionally:
            full = segment.size > self.outgoing.prr_credit
        return segment.size > 0 and not full and not self.window == self.rate == 0.0

    def pacing_wait(self, size: int, now: int) -> int:
        """Update the pacing credit; return the wait for the next segment of a paced window [ps] (S-222)."""
        config = self.config
        if config.pacing_gain == 0.0 or self.rate > 0.0:
            return 0
        rate = config.pacing_gain * self.window / self.srtt if self.srtt > 0.0 else 0.0
        self.pacing_credit = min(
            float(config.pacing_burst), self.pacing_credit + rate * to_seconds(now - self.pacing_at)
        )
        self.pacing_at = now
        if rate == 0.0 or self.pacing_credit >= size:
            return 0
        return max(1, to_ps((size - self.pacing_credit) / rate))

    def fills_window(self, segment: Segment, now: int) -> bool:
        """Return whether a paced window would be full without its pacer (S-222)."""
        unsent = self.written(now) - self.taken + (segment.size if segment.is_retransmitted else 0)
        return self.outstanding + unsent + self.packet_size > self.window

    def limit(self, segment: Segment) -> int:
        """Return the reason for which no segment may leave (S-176)."""
        if self.window > 0.0 and (segment.size > 0 or self.outstanding + self.packet_size > self.window):
            return BY_WINDOW
        return BY_PACER if segment.size > 0 else BY_DATA

    @property
    def packet_size(self) -> int:
        """Size of a full packet; before the first ACK it can be smaller (opening_size)."""
        opening = self.srtt == 0.0 and self.config.opening_size > 0
        return int(self.config.opening_size) if opening else self.full_size

    @property
    def largest_size(self) -> int:
        """Value of `packet_size` in hooks without a packet (S-101)."""
        opening = self.srtt == 0.0 and self.config.opening_size > 0
        return self.packet_size if opening else int(max(self.config.packet_size, self.config.packet_size_max))

    def draw_size(self) -> None:
        lo, hi = self.config.packet_size, self.config.packet_size_max
        self.full_size = self.sizes.between(lo, hi) if hi > lo else lo

    def first_rtt(self, now: int) -> int:
        """Return the minimum time after which the first ACK can arrive [ps] (S-43)."""
        config, sizes = self.config, (self.largest_size + self.config.header_bytes, self.config.ack_size)
        times: list[int] = [config.access_delay, config.ack_delay, config.ack_wait if config.ack_every > 1 else 0]
        for links, size in zip((self.forward, self.reverse), sizes, strict=True):
            times += [link.config.delay + transmission(size, link.advertised_capacity(now)) for link in links]
        channels = [c for c in (self.channel, *(link.channel for link in [*self.forward, *self.reverse])) if c]
        times += [c.min_delay(now) for c in channels]
        return min(NEVER, sum(times))

    @property
    def waits_for_phase(self) -> bool:
        """True if a segment that is not delayed otherwise waits for the phase (S-187.2)."""
        return self.config.phase_jitter != AT_LINE_RATE or self.last_size == 0

    def slowest_transmission(self, now: int) -> int:
        """Return the transmission time of a packet at the slowest link of the route [ps] (S-186)."""
        size = self.largest_size + self.config.header_bytes
        return max(transmission(size, link.advertised_capacity(now)) for link in self.forward)

    def timeout(self, now: int) -> int:
        config, measured = self.config, self.srtt > 0.0
        wait: int = to_ps(3.0 * (self.srtt if measured else to_seconds(self.first_rtt(now))))
        if isinstance(self.outgoing, Quic) and measured:
            self.outgoing.srtt = self.srtt
            wait = self.outgoing.probe_timeout
        elif self.outgoing and measured:
            spread = max(to_seconds(config.rto_granularity), 4.0 * self.outgoing.rttvar)
            wait = max(config.min_rto, to_ps(self.srtt + spread))
        elif self.outgoing:
            wait = max(config.min_rto, config.initial_rto, wait)
        else:
            wait = max(config.min_rto, wait)
        if isinstance(self.outgoing, Quic):
            return min(NEVER, wait << self.n_timeouts)
        return min(wait << min(self.n_timeouts, 6), max(MAX_TIMEOUT, wait))  # 64 s: six doublings at most


@dataclass(frozen=True)
class Agent:
    """Protocol of a router or flow: initial records, which are not written, and hooks by name."""

    state: np.void
    params: np.void
    hooks: Mapping[str, Hook]
    begun_state: np.void | None = None  # record for hooks before time 0, in a run that begins with packets under way

    @property
    def records(self) -> tuple[Any, Any]:
        params = Record.of(self.params)
        arrays = {name: tuple(value) for name, value in vars(params).items() if isinstance(value, list)}
        vars(params).update(arrays)  # hooks read them only
        return Record.of(self.state), params

    def field_at(self, offset: int) -> str | None:
        """Return the name of the field at an offset in the state, or None."""
        fields: Mapping[str, Any] = self.state.dtype.fields or {}
        return next((name for name, (_, at, *_) in fields.items() if at == offset), None)


@dataclass(frozen=True)
class Template:
    """Properties that transfers share."""

    config: Mapping[str, float]  # the fields of FLOW
    agent: Agent
    forward: Sequence[TwinLink]
    reverse: Sequence[TwinLink]
