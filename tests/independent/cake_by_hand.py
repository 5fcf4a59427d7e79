"""CAKE of Linux 6.18 (`net/sched/sch_cake.c`), played by hand on a list of packets; it uses nothing of ecc.

One class for each thing of the kernel's code: a queue with its COBALT, a tin, the discipline, and the device behind it.
Times are float seconds. 1/sqrt(count) is exact, or has the kernel's 32 bits, with its Newton steps from count 16 on
(`is_exact`). The turns of the kernel, which rounds them at random, are exact. Flows have a
queue each: there are no collisions.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field

ONE = 2**32 - 1
TABLE = [ONE, ONE, *(round(2**32 / math.sqrt(count)) for count in range(2, 16))]
TICK = 5e-13  # s; times closer than this are equal


@dataclass
class Packet:
    flow: int
    offset: int
    size: int
    ecn: bool
    arrived: float = 0.0


@dataclass
class Queue:
    """A queue of a tin, with the variables of COBALT."""

    flow: int
    target: float
    interval: float
    mtu_time: float
    is_exact: bool
    packets: deque = field(default_factory=deque)
    kind: str = "none"
    deficit: float = 0.0
    count: int = 0
    scale: float = 0
    next: float = 0.0
    dropping: bool = False
    p_drop: float = 0.0
    blue: float = -1e9

    def step(self, change):
        self.count += change
        if self.is_exact:
            self.scale = 2**32 / math.sqrt(max(self.count, 1))
        elif self.count < 16:
            self.scale = TABLE[self.count]
        else:
            square = self.scale * self.scale >> 32
            self.scale = ((3 * 2**32 - self.count * square) >> 2) * self.scale >> 31
        self.next += self.interval * self.scale / 2**32

    def full(self, now):
        if now - self.blue > self.target:
            self.p_drop, self.blue = min(1.0, self.p_drop + 2**-8), now
        self.dropping, self.next, self.count = True, now, max(self.count, 1)

    def found_empty(self, now):
        if self.p_drop and now - self.blue > self.target:
            self.p_drop, self.blue = max(0.0, self.p_drop - 2**-12), now
        self.dropping = False
        if self.count and now - self.next >= -TICK:
            self.step(-1)

    def judge(self, now, packet, draw, bulk_flows):
        """Return whether a packet is to be dropped, and whether it is marked."""
        drop = marked = False
        late = now - self.next
        due = self.count > 0 and late >= -TICK
        sojourn = now - packet.arrived
        if sojourn - self.target > TICK and sojourn - max(4, 2 * bulk_flows) * self.mtu_time > TICK:
            if not self.dropping:
                self.dropping = True
                self.next = now + self.interval * self.scale / 2**32
            self.count = self.count or 1
        else:
            self.dropping = False
        if due and self.dropping:
            marked, drop = packet.ecn, not packet.ecn
            self.step(1)
            late = now - self.next
        else:
            while due:
                self.step(-1)
                late = now - self.next
                due = self.count > 0 and late >= -TICK
        if self.p_drop and not drop and draw() < self.p_drop:
            drop = True
        if not self.count:
            self.next = now + self.interval
        elif late > TICK and not drop:
            self.next = now
        return drop, marked


class Tin:
    def __init__(self, rate, target, interval, mtu):
        time = 8 * mtu / rate
        self.rate, self.time_next, self.n_packets = rate, 0.0, 0
        self.target = max(1.5 * time, target)
        self.interval = max(interval + self.target - target, 2 * self.target)
        self.mtu_time = time
        self.quantum = max(min(int(rate / 8) >> 12, 1514), 300)
        self.queues = {}
        self.new, self.old, self.decaying = [], [], []
        self.sparse = self.bulk = 0


class Cake:
    def __init__(self, rate, shares, tin_of, hosts, limit, mtu, adjust, is_exact=True, ingress=False):
        self.rate, self.tin_of, self.hosts, self.limit, self.adjust = rate, tin_of, hosts, limit, adjust
        self.is_exact, self.ingress = is_exact, ingress
        self.tins = [Tin(rate * share, 0.005, 0.1, mtu) for share in shares]
        self.time_next, self.n_packets, self.in_service, self.waiting = 0.0, 0, 0, 0
        self.failsafe = 0.0
        self.draw = random.Random(1).random
        self.dropped, self.marked = [], []

    def quantum(self, tin, queue):
        bulk = [other.flow for other in tin.queues.values() if other.kind == "bulk"]
        loads = [sum(self.hosts(flow)[side] == self.hosts(queue.flow)[side] for flow in bulk) for side in (0, 1)]
        return tin.quantum / max(1, *loads)

    def enqueue(self, now, packet):
        tin = self.tins[self.tin_of(packet.flow)]
        if packet.flow not in tin.queues:
            tin.queues[packet.flow] = Queue(packet.flow, tin.target, tin.interval, tin.mtu_time, self.is_exact)
        queue = tin.queues[packet.flow]
        if not tin.n_packets:
            tin.time_next = max(tin.time_next, now)
            if not self.n_packets and self.time_next < now:
                self.time_next = self.failsafe = now
        packet.arrived = now
        queue.packets.append(packet)
        tin.n_packets += 1
        self.n_packets += 1
        if queue.kind in ("none", "decaying"):
            if queue.kind == "decaying":
                tin.decaying.remove(queue)
            tin.new.append(queue)
            queue.kind = "sparse"
            tin.sparse += 1
            queue.deficit = self.quantum(tin, queue)
        elif queue.kind == "waiting":
            queue.kind = "bulk"
            tin.sparse -= 1
            tin.bulk += 1
        self.waiting += packet.size
        while self.in_service + self.waiting > self.limit:
            self.drop_of_longest(now)

    def drop_of_longest(self, now):
        queues = [(tin, queue) for tin in self.tins for queue in tin.queues.values() if queue.packets]
        tin, queue = max(queues, key=lambda pair: sum(packet.size for packet in pair[1].packets))
        self.dropped.append((now, queue.packets.popleft()))
        self.waiting -= self.dropped[-1][1].size
        tin.n_packets -= 1
        self.n_packets -= 1
        queue.full(now)
        if self.ingress:
            self.charge(now, tin, self.dropped[-1][1], True)

    def choose_tin(self, now):
        best, wait = self.tins[0], math.inf
        for tin in self.tins:
            if tin.sparse + tin.bulk:
                ahead = tin.time_next - now
                if ahead <= TICK or ahead <= wait:
                    best, wait = tin, ahead
        return best

    def dequeue(self, now):
        """Return the next packet, or None if the shaper waits."""
        first, tin = True, None
        while True:
            if tin is None:
                if not self.n_packets or min(self.time_next, self.failsafe) - now > TICK:
                    return None
                tin = self.choose_tin(now)
            while True:
                turns = tin.decaying if first and tin.decaying else tin.new or tin.old or tin.decaying
                if not turns:
                    break
                queue, first = turns[0], False
                if queue.deficit > 0:
                    break
                if queue.kind == "sparse":
                    queue.kind = "bulk" if queue.packets else "waiting"
                    if queue.packets:
                        tin.sparse -= 1
                        tin.bulk += 1
                queue.deficit += self.quantum(tin, queue)
                turns.pop(0)
                tin.old.append(queue)
            if turns and queue.packets:
                packet = self.take(now, tin, queue)
                if packet is not None:
                    return packet
                continue  # In ingress mode a drop may end the turn; the tin is served on
            if turns:
                turns.pop(0)
                self.retire(now, tin, queue)
            tin = None

    def retire(self, now, tin, queue):
        queue.found_empty(now)
        tin.bulk -= queue.kind == "bulk"
        tin.sparse -= queue.kind in ("sparse", "waiting")
        rests = not queue.p_drop and not queue.count and queue.next - now <= TICK
        queue.kind = "none" if rests else "decaying"
        if not rests:
            tin.decaying.append(queue)

    def take(self, now, tin, queue):
        while True:
            packet = queue.packets.popleft()
            self.waiting -= packet.size
            tin.n_packets -= 1
            self.n_packets -= 1
            drop, marked = queue.judge(now, packet, self.draw, tin.bulk if self.ingress else 0)
            if not drop or not queue.packets:
                break
            self.dropped.append((now, packet))
            if self.ingress:
                queue.deficit -= self.charge(now, tin, packet, True)
                return None
        if marked:
            self.marked.append((now, packet))
        queue.deficit -= self.charge(now, tin, packet, False)
        return packet

    def charge(self, now, tin, packet, is_dropped):
        size = self.adjust(packet.size)
        time = 8 * size / tin.rate
        if tin.time_next < now - TICK:
            tin.time_next += time
        elif tin.time_next < now + time - TICK:
            tin.time_next = now + time
        self.time_next += 8 * size / self.rate
        if not is_dropped:
            self.failsafe += 12 * size / self.rate
        return size


def play(cake, capacity, arrivals, duration):
    """Send packets (time, Packet) through CAKE in front of a device; return the departures (time, Packet)."""
    events = [(time, 1, k, packet) for k, (time, packet) in enumerate(arrivals)]
    heapq.heapify(events)
    departures, busy, serial = [], None, len(events)
    while events and events[0][0] <= duration:
        now, what, _, packet = heapq.heappop(events)
        if what == 0 and packet is not None:
            departures.append((now, packet))
            busy, cake.in_service = None, 0
        elif what == 1:
            cake.enqueue(now, packet)
        if busy is None:
            busy = cake.dequeue(now)
            if busy is not None:
                cake.in_service = busy.size
                serial += 1
                heapq.heappush(events, (now + 8 * busy.size / capacity, 0, serial, busy))
            elif cake.n_packets:
                serial += 1
                heapq.heappush(events, (min(cake.time_next, cake.failsafe), 0, serial, None))
    return departures


def compare_blocks(a, b, ack_a):
    """The kernel's comparison of SACK blocks: -1 if a has some that b lacks, 1 if b has more, else 0."""
    if a and not b:
        return -1
    if b and not a:
        return 1
    if not a:
        return 0
    for begin, end in a:
        if begin < ack_a or not any(low <= begin and end <= high for low, high in b):
            return -1
    return 1 if sum(high - low for low, high in b) > sum(end - begin for begin, end in a) else 0


def filtered(queue, aggressive):
    """Return the place of the ACK that the last one of a queue makes the kernel drop, or None.

    An ACK is (flow, cumulative ACK, SACK blocks, flags of ECN).
    """
    *earlier, (flow, ack, blocks, flags) = queue
    eligible, eligible_flags, n_found = None, None, 0
    for place, (other_flow, other_ack, other_blocks, other_flags) in enumerate(earlier):
        if other_flow != flow:
            continue
        if eligible is not None and other_flags != eligible_flags:
            eligible, n_found = None, n_found - 1
        if other_ack > ack:
            continue
        compared = compare_blocks(other_blocks, blocks, other_ack)
        if compared < 0 or (other_ack == ack and compared == 0):
            continue
        if eligible is None:
            eligible, eligible_flags = place, other_flags
        n_found += 1
        if n_found > 1:
            return eligible
    if eligible is not None and aggressive and eligible == len(queue) - 2 and eligible_flags == flags:
        return eligible
    return None
