"""What the twin of the packet engine holds: its numbers, packets, links, routers, receivers and flows.

docs/engine_specification.md specifies them in numbered clauses (S-1, ...); `ecc.packet.twin.events` is what happens.
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
from ecc.models.base import Hook
from ecc.packet.twin.transport import Incoming, Outgoing, Ranges, Rule, Segment

__all__ = [
    "Agent", "BY_DATA", "BY_PACER", "BY_WINDOW", "CE", "CLASSIC", "Channel", "DRR", "ECT_0", "ECT_1", "Echo", "Hole",
    "MAX_BURST", "MAX_ZERO_WAITS", "NEVER", "NOT_ECT", "OLD", "Packet", "Phase", "Random", "Receiver", "Record",
    "SCALABLE", "STEP", "Server", "Template", "TwinFlow", "TwinLink", "TwinQueue", "TwinRouter", "WORD", "is_reordered",
    "scaled", "to_ps", "to_seconds", "transmission",
]  # fmt: skip

NO_END = 2**62  # bytes of a flow without end
WHOLE = 2**63  # ints of records are below it, and at least its negative
NEVER = 4 * 10**18  # ps; nothing happens then or later
MAX_TIMEOUT = 64 * 10**12  # ps; by doubling it does not get beyond it
MAX_BURST = 65536  # packets that one `go` sends
MAX_ZERO_WAITS = 100  # times in a row that a hook may ask to be called again in less than 1 ps
WORD = 2**64 - 1
STEP = 0x9E3779B97F4A7C15
NOT_ECT, ECT_1, ECT_0, CE = range(4)  # codepoints of the IP header
CLASSIC, ACCURATE, SCALABLE = 1, 2, 3  # how receivers report marks (S-105)
PRIORITY, DRR, FQ = range(3)  # how links choose the queue of the next packet (S-116)
ROUND_ROBIN, RANDOM = range(2)  # how packets of a flow with several routes are spread over them (S-131)
DATA, ACK, TRIMMED = range(3)  # what packets are for hooks of routers
BY_DATA, BY_WINDOW, BY_PACER = range(3)  # why a sender sends no more (S-176)
NEW, OLD = range(2)  # rounds of queues (S-117, S-118)

# Numbers -----------------------------------------------------------------------------------------------------------


def to_ps(seconds: float) -> int:
    """A time in ps, to the nearest; NEVER where that is too far."""
    ps = seconds * 1e12 + 0.5
    return math.floor(ps) if ps < 4e18 else NEVER


def to_seconds(ps: int) -> float:
    """A time in s."""
    return ps * 1e-12


def transmission(size: int, rate: float) -> int:
    """How long a packet of `size` bytes takes at a rate > 0 bit/s, in ps, at least 1."""
    ps = size * 8.0 / rate * 1e12 + 0.5
    return max(1, math.floor(ps)) if ps < 4e18 else NEVER


def scaled(time: int, share: float) -> int:
    """A share of a time, in ps."""
    ps = time * share + 0.5
    return math.floor(ps) if ps < 4e18 else NEVER


class Random:
    """Uniform numbers in [0, 1): SplitMix64, one stream an entity."""

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
        """A whole number from lo to hi."""
        return lo + min(math.floor(self.next() * float(hi - lo + 1)), hi - lo)


PHASE_PACKETS = 16  # that a phase lasts
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
        """Draw the first offset of a flow, and after how many packets it ends."""
        self.offset = self.random.next()
        self.n = self.random.between(0, PHASE_PACKETS - 1)

    def redraw(self) -> float:
        """Draw a new offset; return 1 plus its difference to the offset before."""
        before, self.offset, self.n = self.offset, self.random.next(), 0
        return 1.0 + (self.offset - before)

    def sent(self) -> None:
        """The flow has sent a packet."""
        self.stretch = 1.0
        self.n += 1
        if self.n == PHASE_PACKETS:
            self.stretch = self.redraw()

    def transmission(self, time: int, pauses: bool) -> int:
        """Transmission time of the next packet of the link, which has been idle before if it pauses, in ps."""
        if pauses:
            self.n, self.offset = 0, 0.0
        elif self.n == PHASE_PACKETS:
            time = max(1, scaled(time, self.redraw()))
        self.n += 1
        return time


# What there is -----------------------------------------------------------------------------------------------------


@lru_cache(1024)
def _fields(dtype: np.dtype[Any]) -> tuple[dict[str, type], dict[str, Any]]:
    """What fields are in Python, by name, and their zeros."""
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
    """An array of int fields, which holds 64 bits each."""

    def __setitem__(self, index: Any, value: Any) -> None:
        for one in value if isinstance(index, slice) else (value,):
            if not isinstance(one, int):
                raise TypeError(f"an int array must have whole numbers, got {shown(one)}")
            if not -WHOLE <= one < WHOLE:
                raise OverflowError(f"an int array must have whole numbers of 64 bits, got {shown(one)}")
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
        """The same values in a plain object, arrays as lists."""
        return cls(record.dtype, {name: record[name].tolist() for name in record.dtype.names or ()})

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._kinds.get(name)
        if kind is None:
            raise AttributeError(f"there is no field {name!r}")
        if kind is int:
            if not isinstance(value, int):
                raise TypeError(f"field {name} is an int, got {shown(value)}")
            if not -WHOLE <= value < WHOLE:
                raise OverflowError(f"field {name} is an int of 64 bits, got {shown(value)}")
        self.__dict__[name] = kind(value)

    def values(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self._kinds)


@dataclass(slots=True)
class Packet:
    flow: TwinFlow
    size: int  # of the data, also once it is an ACK
    offset: int  # bytes that its flow had sent before it
    sent: int  # ps, when it left the sender
    headers: Mapping[int, Record]  # the regions of the header, by offset
    route: Sequence[TwinLink]  # one of those of its flow, then, as an ACK, reverse
    base: int  # what the sender had abandoned when it sent it
    is_ack: bool = False
    is_trimmed: bool = False  # it has lost its data on the way
    passes_whole: bool = False  # it arrives where it would be trimmed, and is no larger than what would be left (S-135)
    front: int = 0  # what the ACK carries: so many bytes are accounted for ...
    missing: int = 0  # ... and so many of them, since the last timeout, are missing
    sacks: Ranges = field(default_factory=list)  # of a reliable flow: what the receiver holds beyond front
    hop: int = 0  # index in route of the link it is at
    queue_index: int = 0  # of the link it is at
    control_size: int = 0  # of a control packet (S-129), whose kind is its offset: bytes on links
    codepoint: int = NOT_ECT
    ecn: int = 0  # of data: 1 with CWR; of an ACK: what it reports of marks (S-108, S-109)

    @property
    def link(self) -> TwinLink:
        return self.route[self.hop]

    @property
    def wire_size(self) -> int:
        given = self.flow.given
        whole = given.trimmed_size if self.is_trimmed else self.size + given.header_bytes
        return self.control_size or int(given.ack_size if self.is_ack else whole)

    @property
    def kind(self) -> int:
        """What it is for hooks of routers."""
        return ACK if self.is_ack else TRIMMED if self.is_trimmed or self.passes_whole else DATA

    @property
    def upstream(self) -> TwinLink | None:
        """The link that it came over to the one it is at, if that can be paused."""
        before = self.route[self.hop - 1] if self.hop > 0 else None
        return before if before is not None and before.given.xoff > 0 else None

    @property
    def is_at_last_link(self) -> bool:
        return self.hop == len(self.route) - 1


class Slots:
    """Slots in which packets leave together (S-158)."""

    def __init__(self, given: Any, random: Random) -> None:
        self.given, self.random = given, random  # slot_lo, ...
        self.opens = self.packets = self.bytes = 0  # ps; what the last slot still takes

    def out(self, ready: int, size: int) -> int:
        """When a packet leaves that is there at a time."""
        given = self.given
        if given.slot_hi == 0:
            return ready
        if self.opens < ready or self.packets == 0 or size > self.bytes:
            self.opens = min(NEVER, max(self.opens, ready) + self.random.between(given.slot_lo, given.slot_hi))
            self.packets, self.bytes = given.slot_packets or 2**63, given.slot_bytes or 2**63
        self.packets -= 1
        self.bytes -= size
        return self.opens


class Server:
    """How the queue of a link is served, beside its capacity (S-155 to S-159)."""

    def __init__(self, given: Any, times: Sequence[int], random: Random) -> None:
        self.given, self.slots = given, Slots(given, random)  # the fields of SERVER
        self.full_at = self.done = 0  # ps
        self.has_opportunities = len(times) > 0
        self.opportunities = self.repeated(times)
        self.opportunity = self.left = 0  # the last one that was reached [ps], and what may still leave at it

    @staticmethod
    def repeated(times: Sequence[int]) -> Iterator[int]:
        """All opportunities, one repetition after the other."""
        begin = 0
        while True:
            yield from (begin + time for time in times)
            begin += times[-1]

    def shape(self, begin: int, size: int) -> int:
        """When the bucket of tokens lets a packet begin (S-156)."""
        given = self.given
        if given.rate == 0.0:
            return begin
        early = transmission(given.burst - size, given.rate) if given.burst > size else 0
        begin = max(begin, self.full_at - early)
        self.full_at = min(NEVER, max(self.full_at, begin) + transmission(size, given.rate))
        return begin

    def use(self, begin: int, arrived: int, size: int) -> int:
        """The opportunity at which the last byte of a packet leaves (S-157)."""
        while True:
            if self.opportunity < begin or self.opportunity <= arrived:
                self.left = 0
            used = min(self.left, size)
            self.left -= used
            size -= used
            if size == 0 or self.opportunity >= NEVER:
                return min(NEVER, self.opportunity)
            self.opportunity, self.left = next(self.opportunities), self.given.opportunity


class Channel:
    """An impairment at work: what a channel does to the packets on it (S-93 to S-97)."""

    def __init__(self, given: Any, random: Random) -> None:
        self.given, self.random = given, random  # the fields of IMPAIRMENT
        self.slots = Slots(given, random)
        self.free_at = self.last_out = 0  # ps
        self.until_spike = self.draw_until_spike()

    def draw_until_spike(self) -> int:
        given = self.given
        return self.random.between(given.spike_every_lo, given.spike_every_hi) if given.spike_every_hi > 0 else 0

    def loses(self, is_ack: bool) -> bool:
        loss = self.given.ack_loss if is_ack else self.given.data_loss
        return bool(loss > 0.0 and self.random.next() < loss)

    def out(self, now: int, delay: int, size: int) -> int:
        """When a packet that sets out now gets to the end."""
        given, out = self.given, self.slots.out(now, size)
        if given.spike_every_hi > 0:
            service = given.spike_between
            self.until_spike -= 1
            if self.until_spike == 0:
                service = self.random.between(given.spike_lo, given.spike_hi)
                self.until_spike = self.draw_until_spike()
            out = self.free_at = min(NEVER, max(out, self.free_at) + service)
        out += delay
        if given.jitter_hi > 0:
            out += self.random.between(given.jitter_lo, given.jitter_hi)
        self.last_out = min(NEVER, out if given.reorders else max(out, self.last_out))
        return self.last_out


@dataclass(eq=False)
class TwinRouter:
    index: int
    link: TwinLink
    given: Any  # first_interval, header_offset, ...: the fields of LINK
    state: Record
    params: Record
    hooks: Mapping[str, Hook]
    random: Random
    queue_low: int = 0  # of the link, since the router's last tick
    next_interval: float = 0.0  # s
    n_zero_waits: int = 0  # INTERVALs in a row that were to come in less than 1 ps
    begun_state: Any = None  # record for hooks before time 0

    @property
    def queue(self) -> int:
        return self.link.queue


@dataclass(eq=False)
class TwinQueue:
    """One of the queues of a link that schedules."""

    quantum: int = 0  # bytes that it may send in a turn ...
    deficit: int = 0  # ... and may still send in this one
    bytes: int = 0  # the packet in service included
    dropped: int = 0  # packets
    marked: int = 0  # packets
    waiting: deque[tuple[int, Packet]] = field(default_factory=deque)  # each since when [ps]


@dataclass
class PauseState:
    """What PFC knows of a link and a class (S-139)."""

    held: int = 0  # bytes that came over the link and are queued behind it
    asked: bool = False  # the last frame sent was PAUSE ...
    is_paused: bool = False  # ... and the last that came
    since: int = 0  # ps, when it was paused last ...
    time: int = 0  # ... and how long before
    count: int = 0  # PAUSE frames


@dataclass(eq=False)
class TwinLink:
    index: int
    given: Any  # capacity, delay, buffer, ...: the fields of LINK
    changes: list[tuple[int, float]]  # of its capacity: when [ps] and to what
    channel: Channel | None  # what its wire does to packets
    server: Server | None  # how its queue is served
    routers: list[TwinRouter] = field(default_factory=list)
    queue: int = 0  # bytes
    n_queued: int = 0  # packets
    queue_peak: int = 0  # since the last sample
    flow_queue: Counter[tuple[int, bool]] = field(default_factory=Counter)  # bytes by flow and kind
    free_at: int = 0  # ps, when the last bit in the queue, of a link that schedules: in service, leaves it
    queues: list[TwinQueue] = field(default_factory=list)  # used if it schedules
    rounds: list[list[TwinQueue]] = field(default_factory=lambda: [[], []])  # that will have a turn
    in_service: Packet | None = None  # if it schedules
    in_lossless: bool = False  # some link of the network can be paused
    classes: list[PauseState] = field(default_factory=lambda: [PauseState() for _ in range(8)])  # by priority
    frames: deque[tuple[int, int, bool]] = field(default_factory=deque)  # when they come [ps], class, whether PAUSE
    arrived: int = 0  # bytes
    departed: int = 0  # bytes
    dropped: int = 0  # packets
    dropped_bytes: int = 0
    marked: int = 0  # packets
    lost: int = 0  # packets
    lost_bytes: int = 0
    phase: Phase | None = None  # of its departures

    area: int = 0  # sum of queue * ps since the last sample, up to ...
    measured: int = 0  # ... this time, ps
    time_in_bin: Counter[int] = field(default_factory=Counter)  # ps by bin of the queue
    found: Counter[int] = field(default_factory=Counter)  # arrivals by bin

    @property
    def bin(self) -> int:
        """The bin of a histogram that the queue is in."""
        shift = max(0, self.queue.bit_length() - 8)
        return (shift << 7) + (self.queue >> shift)

    @property
    def schedules(self) -> bool:
        """Whether the next packet is chosen when the one before it has left (S-112)."""
        return (
            self.in_lossless or self.given.n_queues > 0 or any("on_dequeue" in router.hooks for router in self.routers)
        )

    @property
    def scheduler(self) -> int:
        return int(self.given.scheduler)

    @property
    def drops_longest(self) -> bool:
        return self.schedules and self.given.drops_longest != 0

    @property
    def is_too_full(self) -> bool:
        """Whether the buffer holds more than it may (S-119)."""
        return bool(0 <= self.given.buffer < self.queue or 0 < self.given.buffer_packets < self.n_queued)

    @property
    def longest(self) -> TwinQueue:
        """The queue with most bytes of those where a packet waits."""
        return max((queue for queue in self.queues if queue.waiting), key=lambda queue: queue.bytes)

    def join(self, packet: Packet, now: int) -> None:
        """A packet waits in its queue, which gets a turn (S-117, S-118)."""
        queue = self.queues[packet.queue_index]
        queue.waiting.append((now, packet))
        if self.scheduler != PRIORITY and queue not in self.rounds[NEW] + self.rounds[OLD]:
            queue.deficit = queue.quantum
            self.rounds[NEW if self.scheduler == FQ else OLD].append(queue)

    def may_serve(self, queue: TwinQueue) -> bool:
        """Whether a packet waits in a queue, and its class is not paused."""
        return bool(queue.waiting) and not self.classes[queue.waiting[0][1].flow.given.priority].is_paused

    def next_queue(self) -> TwinQueue | None:
        """The queue of the next packet, if one may be served (S-116 to S-118, S-142)."""
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
        """The frames that have come take effect (S-141)."""
        while self.frames and self.frames[0][0] <= now:
            time, priority, pauses = self.frames.popleft()
            one = self.classes[priority]
            one.is_paused = pauses
            if pauses:
                one.since = time
            else:
                one.time += time - one.since

    @property
    def is_blocked(self) -> bool:
        """Whether nothing but a frame, of which none is on its way, lets it serve what waits (S-143)."""
        waits = self.in_service is None and any(queue.waiting for queue in self.queues)
        return waits and not self.frames and not self.given.drops_longest

    @property
    def packets(self) -> list[Packet]:
        """All in the queue, where it schedules."""
        served = [] if self.in_service is None else [self.in_service]
        return served + [packet for queue in self.queues for _, packet in queue.waiting]

    def grow(self, packet: Packet) -> None:
        """The queue has a packet more."""
        self.queue += packet.wire_size
        self.n_queued += 1
        self.queue_peak = max(self.queue_peak, self.queue)
        self.flow_queue[packet.flow.number, packet.is_ack] += packet.wire_size
        self.queues[packet.queue_index].bytes += packet.wire_size

    def flow_queue_of(self, packet: Packet) -> int:
        """Bytes of the flow and kind of a packet in the queue."""
        return self.flow_queue[packet.flow.number, packet.is_ack]

    def shrink(self, packet: Packet, now: int) -> None:
        """The queue has a packet less."""
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
        return self.channel is not None and self.channel.given.reorders != 0

    def capacity_at(self, now: int) -> tuple[float, int]:
        """The capacity, and until when it stays so."""
        capacity = float(self.given.capacity)
        for time, changed in self.changes:
            if time > now:
                return capacity, time
            capacity = changed
        return capacity, NEVER

    def advertised_capacity(self, now: int) -> float:
        """The capacity that routers see: in an outage, the one before it (S-27)."""
        past = [float(self.given.capacity), *(capacity for time, capacity in self.changes if time <= now)]
        return next(capacity for capacity in reversed(past) if capacity > 0.0)

    def serve(self, begin: int, arrived: int, size: int) -> int:
        """When a packet leaves that arrived at a time, and that may be served from `begin` on (S-155 to S-159)."""
        if self.server is None or begin >= NEVER:
            return self.transmitted(begin, size)
        own = self.server
        first = own.shape(max(own.done, arrived) if own.given.slot_hi > 0 else begin, size)
        own.done = own.use(first, arrived, size) if own.has_opportunities else self.transmitted(first, size)
        return own.slots.out(max(own.done, begin), size) if own.given.slot_hi > 0 else own.done

    def transmitted(self, begin: int, size: int) -> int:
        """When the last bit of a packet leaves, whose first is served at `begin`."""
        if not self.changes:
            time = transmission(size, self.given.capacity)
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
    """Whether packets on these routes may overtake each other."""
    return len(routes) > 1 or any(link.reorders for link in routes[0])


@dataclass
class Hole:
    """A gap in what a receiver got."""

    begin: int
    end: int
    missing: int
    n_passed: int  # packets received from beyond it


@dataclass
class Receiver:
    """A receiver that finds out what is missing, to report it in ACKs (S-62 to S-72)."""

    reordering_threshold: int  # packets from beyond a hole that prove a loss
    next: int = 0
    front: int = 0  # bytes that were received or given up
    missing: int = 0
    holes: list[Hole] = field(default_factory=list)
    delayed: Packet | None = None  # with delayed ACKs
    n_delayed: int = 0
    acks_lost: int = 0

    def account(self, begin: int, size: int, base: int, is_trimmed: bool = False) -> None:
        """A packet has arrived, whose sender has abandoned what was before `base` (S-66, S-67, S-136)."""
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
    """What a receiver remembers of marks, and its sender of what was reported (S-108 to S-110)."""

    marked: int = 0  # bytes of data that came marked
    known: int = 0  # to the sender
    answered: int = 0  # offset of the last packet that carried CWR
    has_marks: bool = False  # of data since the last CWR
    was_marked: bool = False  # the last packet
    owes_answer: bool = False  # the next new packet carries CWR

    def receive(self, packet: Packet) -> None:
        """The receiver notes what a packet says."""
        self.was_marked = packet.codepoint == CE
        self.has_marks = self.was_marked or (self.has_marks and packet.ecn == 0)
        self.marked += packet.size if self.was_marked else 0

    def read(self, ack: Packet, acked: int, front: int) -> tuple[int, int]:
        """What an ACK reports as marked and none did before [bytes], and whether it carries ECE (S-108 to S-111).

        It acknowledges so many bytes, and all below `front`.
        """
        if ack.flow.given.ecn != CLASSIC:
            marked = max(0, ack.ecn - self.known)
            self.known += marked
            return marked, 0
        if not (ack.ecn and acked > 0 and not self.owes_answer and front > self.answered):
            return 0, ack.ecn
        self.owes_answer = True
        return acked, ack.ecn


@dataclass(eq=False)
class TwinFlow:
    number: int  # its index; of a transfer: all flows and the transfers before it
    given: Any  # start, stop, size, packet_size, ...: the fields of FLOW
    state: Record
    params: Record
    hooks: Mapping[str, Hook]
    random: Random
    routes: Sequence[Sequence[TwinLink]]  # of data; most flows have one
    reverse: Sequence[TwinLink]
    rate: float  # bit/s
    window: float  # bytes, 0: not window-clocked
    sizes: Random  # of packets, where they are drawn
    channel: Channel | None  # what the pure delay does to ACKs
    route_random: Random  # where routes are drawn
    receiver: Receiver
    outgoing: Outgoing | None  # of a transport
    incoming: Incoming
    full_size: int = 0  # of the next packet after the opening
    started: bool = False
    active: bool = False
    completed: bool = False
    finish: int = -1  # ps
    sent: int = 0  # bytes
    expected: int = 0  # all offsets below are accounted for: acknowledged or lost
    lost: int = 0  # bytes
    sender_base: int = 0  # sent, at the last timeout
    acked: int = 0  # bytes, by the last ACK
    newly_marked: int = 0  # bytes, as the last ACK reports
    ece: int = 0  # whether it carries ECE
    sender_missing: int = 0  # bytes missing since then, as the last ACK reported
    received: int = 0  # bytes
    n_routed: int = 0  # packets that have entered one of its routes
    last_time: int = 0  # ps, of the last packet sent ...
    last_size: int = 0  # ... and its size with header_bytes, 0 before any
    timer_start: int = 0  # ps, of the retransmission timer
    n_timeouts: int = 0  # since the last ACK
    limited_by: int = BY_DATA  # why the last TRY-SEND sent no more (S-176)
    n_zero_waits: int = 0  # TIMERs in a row that on_timer wanted in less than 1 ps
    rtt: float = 0.0  # s
    srtt: float = 0.0
    min_rtt: float = 0.0
    rtt_sum: float = 0.0  # s, of the RTTs measured since the last sample
    rtt_peak: float = 0.0  # s
    n_rtts: int = 0
    packets: int = 0  # in the network
    template_index: int = 0  # of a transfer
    end: int = -1  # when it finished, of a transfer
    echo: Echo = field(default_factory=Echo)
    timers: dict[int, int] = field(default_factory=dict)  # that its hooks have set: number -> ps
    count: float = math.inf  # bytes sent at which on_count is called
    subsequent: Sequence[dict[str, int]] = ()  # to a transfer: each to the one before it
    phase: Phase | None = None  # of its packets
    begun_state: Any = None  # record for its on_start if it has begun before time 0

    @property
    def forward(self) -> Sequence[TwinLink]:
        """The first of its routes."""
        return self.routes[0]

    def next_route(self) -> Sequence[TwinLink]:
        """The route of the packet that is at the first link now (S-131)."""
        number, n = self.n_routed, len(self.routes)
        if n > 1 and self.given.spraying == RANDOM:
            number = self.route_random.between(0, n - 1)
        self.n_routed += 1
        return self.routes[number % n]

    @property
    def needs_receiver(self) -> bool:
        """Else every ACK acknowledges its packet (S-71, S-72)."""
        reordered = self.given.reordering_threshold > 1 or is_reordered(self.routes)
        return (
            bool(self.reverse)
            or self.channel is not None
            or self.given.ack_every > 1
            or self.given.ecn > 0
            or self.given.trimmed_size > 0
            or reordered
        )

    @property
    def is_watched(self) -> bool:
        """Whether the arrival of a packet at its receiver is an event (S-32)."""
        return (
            "on_receive" in self.hooks
            or bool(self.given.enables_subsequent)
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
        """`in_flight` as the window and hooks see it (S-76)."""
        return self.outgoing.in_flight if self.outgoing else self.in_flight

    def written(self, now: int) -> int:
        """What the application has written (S-161)."""
        most = self.given.size if self.given.size >= 0 else NO_END
        if self.given.write_size == 0:
            return most
        n = max(0, now - self.given.start) // self.given.write_period + 1
        return min(most, int(self.given.write_size * n))

    @property
    def taken(self) -> int:
        """What of it was sent for the first time (S-162)."""
        return self.sent - self.lost if self.outgoing or self.given.size >= 0 else self.sent

    def next_of(self, written: int) -> Segment:
        """The next segment; its size is 0 when nothing is owed."""
        if self.outgoing:
            self.outgoing.written = written
            return self.outgoing.next(self.packet_size)
        return Segment(self.sent, min(self.packet_size, written - self.taken), Rule.NONE)

    def next(self, now: int) -> tuple[Segment, int]:
        """... and when its data is there (S-162)."""
        segment = self.next_of(self.written(now))
        if segment.size > 0 or self.given.write_size == 0:
            return segment, now
        start, period = self.given.start, self.given.write_period
        due = min(NEVER, start + ((now - start) // period + 1) * period)
        return self.next_of(self.written(due)), due

    def may_leave(self, segment: Segment) -> bool:
        """Whether a segment exists, and window or rate let it leave at some time (S-52.1)."""
        may_limit = self.outstanding > 0 or not self.outgoing
        limited = self.window > 0.0 and segment.rule != Rule.FIRST and not segment.is_probe and may_limit
        full = limited and self.outstanding + segment.size > self.window
        if limited and self.outgoing and self.outgoing.reduces_proportionally:
            full = segment.size > self.outgoing.prr_credit
        return segment.size > 0 and not full and not self.window == self.rate == 0.0

    def limit(self, segment: Segment) -> int:
        """Why no segment may leave (S-176)."""
        if self.window > 0.0 and (segment.size > 0 or self.outstanding + self.packet_size > self.window):
            return BY_WINDOW
        return BY_PACER if segment.size > 0 else BY_DATA

    @property
    def packet_size(self) -> int:
        """Size of a full packet: smaller ones may open the flow, until the first ACK."""
        opening = self.srtt == 0.0 and self.given.opening_size > 0
        return int(self.given.opening_size) if opening else self.full_size

    @property
    def largest_size(self) -> int:
        """`packet_size` of hooks without a packet (S-101)."""
        opening = self.srtt == 0.0 and self.given.opening_size > 0
        return self.packet_size if opening else int(max(self.given.packet_size, self.given.packet_size_max))

    def draw_size(self) -> None:
        lo, hi = self.given.packet_size, self.given.packet_size_max
        self.full_size = self.sizes.between(lo, hi) if hi > lo else lo

    def first_rtt(self, now: int) -> int:
        """The least time in which the first answer can come (S-43)."""
        given, sizes = self.given, (self.largest_size + self.given.header_bytes, self.given.ack_size)
        times: list[int] = [given.access_delay, given.ack_delay, given.ack_wait if given.ack_every > 1 else 0]
        for links, size in zip((self.forward, self.reverse), sizes, strict=True):
            times += [link.given.delay + transmission(size, link.advertised_capacity(now)) for link in links]
        channels = [c for c in (self.channel, *(link.channel for link in [*self.forward, *self.reverse])) if c]
        times += [c.given.spike_between + c.given.jitter_lo for c in channels]
        return min(NEVER, sum(times))

    @property
    def waits_for_phase(self) -> bool:
        """Whether a segment that nothing else delays waits for the phase (S-187.2)."""
        return self.given.phase_jitter != AT_LINE_RATE or self.last_size == 0

    def slowest_transmission(self, now: int) -> int:
        """Transmission time of a packet at the slowest link of the route (S-186)."""
        size = self.largest_size + self.given.header_bytes
        return max(transmission(size, link.advertised_capacity(now)) for link in self.forward)

    def timeout(self, now: int) -> int:
        given, measured = self.given, self.srtt > 0.0
        wait: int = to_ps(3.0 * (self.srtt if measured else to_seconds(self.first_rtt(now))))
        if self.outgoing and measured:
            spread = max(to_seconds(given.rto_granularity), 4.0 * self.outgoing.rttvar)
            wait = max(given.min_rto, to_ps(self.srtt + spread))
        elif self.outgoing:
            wait = max(given.min_rto, given.initial_rto, wait)
        else:
            wait = max(given.min_rto, wait)
        return min(wait << min(self.n_timeouts, 6), max(MAX_TIMEOUT, wait))  # 64 s: six doublings at most


@dataclass(frozen=True)
class Agent:
    """What runs at a router or a flow: its records as they begin, which are not written, and its hooks by name."""

    state: np.void
    params: np.void
    hooks: Mapping[str, Hook]
    begun_state: np.void | None = None  # record for hooks before time 0, in a run that begins with packets under way

    @property
    def records(self) -> tuple[Any, Any]:
        return Record.of(self.state), Record.of(self.params)

    def field_at(self, offset: int) -> str | None:
        """The field at an offset in the state."""
        fields: Mapping[str, Any] = self.state.dtype.fields or {}
        return next((name for name, (_, at, *_) in fields.items() if at == offset), None)


@dataclass(frozen=True)
class Template:
    """What transfers have in common."""

    given: Mapping[str, float]  # the fields of FLOW
    agent: Agent
    forward: Sequence[TwinLink]
    reverse: Sequence[TwinLink]
