"""The state and the hooks of CAKE (`cake`), with the lists of queues that have turns.

Queue k belongs to tin k // n_queues. Each tin has three lists: queues of new flows, of old flows, and of flows that are
empty while COBALT returns to rest (decaying). A list is a ring through `after` and `before` that begins and ends at its
own entry, behind the entries of the queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.contract.env import Hook, LinkEnv, Params
from ecc.models.shared.clock import has_come
from ecc.queues.cobalt import LONG_AGO, CobaltState, empty, examine, full

NONE, SPARSE, WAITING, BULK, DECAYING = range(5)
"""Kinds of flows: without a queue; sparse; counted as sparse, but empty in the turns of old ones; bulk; decaying."""
NEW, OLD, EMPTY = range(3)  # lists of a tin
ACK = 1  # kind of packet
PTM, ATM = 1, 2  # framing
WAYS = 8  # queues of a set


@dataclass
class CakeState(CobaltState):
    """The state of all queues, hosts and tins of a link."""

    kind: tuple[int, ...] = (NONE,)
    tag: tuple[int, ...] = (0,)  # flow and direction of the queue, from 1; 0: none yet
    packets: tuple[int, ...] = (0,)  # waiting packets
    deficit: tuple[float, ...] = (0.0,)  # bytes that the queue may still send in its turn
    source: tuple[int, ...] = (0,)  # place of its source host among the hosts
    destination: tuple[int, ...] = (0,)
    host_tag: tuple[int, ...] = (0, 0)  # source hosts, then destination hosts, from 1; 0: none yet
    host_bulk: tuple[int, ...] = (0, 0)  # bulk flows of the host
    after: tuple[int, ...] = (0,)
    before: tuple[int, ...] = (0,)
    tin_packets: tuple[int, ...] = (0,)
    sparse: tuple[int, ...] = (0,)  # flows of a tin
    bulk: tuple[int, ...] = (0,)
    tin_next: tuple[float, ...] = (0.0,)  # time from which the tin is below its threshold [s]
    tin_deficit: tuple[float, ...] = (0.0,)  # bytes
    tin: int = 0  # tin that has its turn, without a rate
    total: int = 0  # waiting packets
    next_packet: float = 0.0  # time from which the shaper lets a packet leave [s]
    failsafe: float = 0.0  # time from which it does so although dropped packets were counted: at 2/3 of the rate [s]
    again: int = -1  # queue whose packet was dropped, and which is served again; -1: none
    signaled: int = 0  # 1 while a packet that COBALT has chosen is dropped


def cake_state(n_queues: int, n_tins: int) -> CakeState:
    """Return the state of an empty link."""
    n = n_queues * n_tins
    zeros, times, tins = (0,) * n, (0.0,) * n, (0,) * n_tins
    ring = tuple(range(n + 3 * n_tins))
    return CakeState(
        count=zeros,
        scale=times,
        next=times,
        dropping=zeros,
        p_drop=times,
        blue_time=(LONG_AGO,) * n,
        kind=zeros,
        tag=zeros,
        packets=zeros,
        deficit=times,
        source=zeros,
        destination=zeros,
        host_tag=zeros * 2,
        host_bulk=zeros * 2,
        after=ring,
        before=ring,
        tin_packets=tins,
        sparse=tins,
        bulk=tins,
        tin_next=(0.0,) * n_tins,
        tin_deficit=(0.0,) * n_tins,
    )


# ---- lists -----------------------------------------------------------------------------------------------------------


def list_of(tin: int, which: int, p: Params) -> int:
    """Return the entry of a list of a tin."""
    return int(p.n_tins * p.n_queues) + 3 * tin + which


def remove(link: CakeState, k: int) -> None:
    """Remove a queue from its list, if it is in one."""
    link.after[link.before[k]] = link.after[k]
    link.before[link.after[k]] = link.before[k]
    link.after[k] = k
    link.before[k] = k


def move(link: CakeState, k: int, head: int) -> None:
    """Make a queue the last one of a list."""
    remove(link, k)
    last = link.before[head]
    link.after[last] = k
    link.before[k] = last
    link.after[k] = head
    link.before[head] = k


# ---- flows and hosts -------------------------------------------------------------------------------------------------


def place_of(number: int, n: int) -> int:
    """Return the place of a number among n, by multiplicative hashing to 32 bits."""
    return number * 2654435761 % 4294967296 * n // 4294967296


def host_place(link: CakeState, side: int, tin: int, host: int, p: Params) -> int:
    """Return the place of a host in the table of its side (0: sources) and tin: a free one of its set, if it is new."""
    n = int(p.n_queues)
    base, slot = side * int(p.n_tins) * n + tin * n, place_of(host, n)
    first, way = base + slot - slot % WAYS, slot % WAYS
    for i in range(WAYS):
        if link.host_tag[first + (way + i) % WAYS] == host + 1:
            return first + (way + i) % WAYS
    chosen = first + way
    for i in range(WAYS):
        if link.host_bulk[first + (way + i) % WAYS] == 0:
            chosen = first + (way + i) % WAYS
            break
    link.host_tag[chosen] = host + 1
    return chosen


def count_bulk(link: CakeState, k: int, change: int, p: Params) -> None:
    """Count a bulk flow more or less at its hosts."""
    if p.by_source > 0.0:
        link.host_bulk[link.source[k]] = max(link.host_bulk[link.source[k]] + change, 0)
    if p.by_destination > 0.0:
        link.host_bulk[link.destination[k]] = max(link.host_bulk[link.destination[k]] + change, 0)


def quantum_of(link: CakeState, k: int, p: Params) -> float:
    """Return the bytes of a turn: less if a host of the flow has several bulk flows."""
    load = 1
    if p.by_source > 0.0:
        load = max(load, link.host_bulk[link.source[k]])
    if p.by_destination > 0.0:
        load = max(load, link.host_bulk[link.destination[k]])
    return p.quantum[k // int(p.n_queues)] / load


def reserve(link: CakeState, k: int, tin: int, flow: int, direction: int, p: Params) -> None:
    """Give a queue to a flow: the queue belongs to the flow's hosts from now on."""
    sender = flow if p.sources[0] < 0.0 else int(p.sources[flow % len(p.sources)])
    receiver = flow if p.destinations[0] < 0.0 else int(p.destinations[flow % len(p.destinations)])
    shared = link.kind[k] == BULK
    if shared:
        count_bulk(link, k, -1, p)
    if direction == 1:  # ACKs are sent by the receiver
        sender, receiver = receiver, sender
    if p.by_source > 0.0:
        link.source[k] = host_place(link, 0, tin, sender, p)
    if p.by_destination > 0.0:
        link.destination[k] = host_place(link, 1, tin, receiver, p)
    if shared:
        count_bulk(link, k, 1, p)


def on_classify(link: CakeState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the tin by the flow's codepoint, and a queue of the flow's set."""
    n, direction = int(p.n_queues), 1 if env.kind == ACK else 0
    tin = int(p.tin_of[env.flow % len(p.tin_of)])
    number = 2 * env.flow + direction
    slot = place_of(number, n)
    first, way = tin * n + slot - slot % WAYS, slot % WAYS
    chosen, is_new = -1, 0
    for i in range(WAYS):
        k = first + (way + i) % WAYS
        if chosen < 0 and link.tag[k] == number + 1:
            chosen, is_new = k, 1 if link.kind[k] == NONE else 0
    for i in range(WAYS):
        k = first + (way + i) % WAYS
        if chosen < 0 and link.kind[k] == NONE:
            chosen, is_new = k, 1
    if chosen < 0:  # all queues of the set are in use
        chosen, is_new = first + way, 1
    link.tag[chosen] = number + 1
    if is_new == 1:
        reserve(link, chosen, tin, env.flow, direction, p)
    env.queue_index = chosen


# ---- arrivals and drops ----------------------------------------------------------------------------------------------


def on_arrival(link: CakeState, header: Any, p: Params, env: LinkEnv) -> None:
    """Count the packet, and give its queue a turn."""
    k = env.queue_index
    tin = k // int(p.n_queues)
    env.filter = int(p.filter)
    if link.tin_packets[tin] == 0:
        link.tin_next[tin] = max(link.tin_next[tin], env.now)
    if link.total == 0 and link.next_packet < env.now:
        link.next_packet, link.failsafe = env.now, env.now
    link.packets[k] += 1
    link.tin_packets[tin] += 1
    link.total += 1
    if link.kind[k] == NONE or link.kind[k] == DECAYING:
        link.kind[k] = SPARSE
        link.sparse[tin] += 1
        link.deficit[k] = quantum_of(link, k, p)
        move(link, k, list_of(tin, NEW, p))
    elif link.kind[k] == WAITING:
        link.kind[k] = BULK
        link.sparse[tin] -= 1
        link.bulk[tin] += 1
        count_bulk(link, k, 1, p)


def discount(link: CakeState, k: int, p: Params) -> None:
    """A packet has left queue k."""
    link.packets[k] -= 1
    link.tin_packets[k // int(p.n_queues)] -= 1
    link.total -= 1


def on_drop(link: CakeState, header: Any, p: Params, env: LinkEnv) -> None:
    """Note that the buffer was full, unless COBALT or the ACK filter has dropped the packet."""
    k = env.queue_index
    if link.signaled == 1:
        link.signaled = 0
        return
    tin = k // int(p.n_queues)
    discount(link, k, p)
    if env.filter == 0:
        full(link, k, env.now, p.tin_target[tin])
    if p.ingress > 0.0:
        charge(link, tin, charged_size(env.packet_size, p), 1, env.now, p)


# ---- departures ------------------------------------------------------------------------------------------------------


def below_threshold(link: CakeState, now: float, p: Params) -> int:
    """Return the last tin with flows that is below its threshold, or else the one that will be so next."""
    best, best_wait = 0, 1e30
    for tin in range(int(p.n_tins)):
        wait = link.tin_next[tin] - now
        if link.sparse[tin] + link.bulk[tin] > 0 and (has_come(now, link.tin_next[tin]) or wait <= best_wait):
            best, best_wait = tin, wait
    return best


def by_turns(link: CakeState, p: Params) -> int:
    """Return the tin that has its turn, without a rate; the caller has made sure that a packet waits."""
    while link.tin_deficit[link.tin] < 0.0 or link.sparse[link.tin] + link.bulk[link.tin] == 0:
        if link.tin_deficit[link.tin] <= 0.0:
            link.tin_deficit[link.tin] += p.tin_quantum[link.tin]
        link.tin = link.tin + 1 if link.tin + 1 < int(p.n_tins) else 0
    return link.tin


def retire(link: CakeState, k: int, tin: int, now: float, p: Params) -> None:
    """Queue k is empty at its turn: it leaves the turns, and is free for other flows once COBALT is at rest."""
    empty(link, k, now, p.tin_target[tin], p.tin_interval[tin])
    if link.kind[k] == BULK:
        link.bulk[tin] -= 1
        count_bulk(link, k, -1, p)
    elif link.kind[k] != DECAYING:
        link.sparse[tin] -= 1
    if link.p_drop[k] > 0.0 or link.count[k] > 0 or not has_come(now, link.next[k]):
        link.kind[k] = DECAYING
        move(link, k, list_of(tin, EMPTY, p))
    else:
        link.kind[k] = NONE
        remove(link, k)


def first_queue(link: CakeState, tin: int, examines_empty: bool, p: Params) -> int:
    """Return the queue of a tin that has its turn: a new one, an old one or, if asked for, first a decaying one.

    The entry of the list of decaying queues is returned if all lists are empty.
    """
    decaying = list_of(tin, EMPTY, p)
    if examines_empty and link.after[decaying] != decaying:
        return link.after[decaying]
    for which in (NEW, OLD):
        head = list_of(tin, which, p)
        if link.after[head] != head:
            return link.after[head]
    return link.after[decaying]


def is_shaped(link: CakeState, now: float, p: Params) -> bool:
    """Return whether the shaper lets no packet leave now."""
    return p.rate > 0.0 and not has_come(now, link.next_packet) and not has_come(now, link.failsafe)


def next_queue(link: CakeState, last_tin: int, now: float, p: Params) -> int:
    """Return the queue of the next packet; a packet waits, so that the search ends.

    `last_tin` is the tin of a packet that was just dropped, which is served on, or -1. After a drop the shaper may let
    no packet leave: -1.
    """
    tin, examines_empty = last_tin, last_tin < 0
    while True:
        if tin < 0:
            tin = below_threshold(link, now, p) if p.rate > 0.0 else by_turns(link, p)
        k = first_queue(link, tin, examines_empty, p)
        while k < list_of(0, NEW, p) and link.deficit[k] <= 0.0:
            if link.kind[k] == SPARSE and link.packets[k] > 0:
                link.kind[k] = BULK
                link.sparse[tin] -= 1
                link.bulk[tin] += 1
                count_bulk(link, k, 1, p)
            elif link.kind[k] == SPARSE:
                link.kind[k] = WAITING
            link.deficit[k] += quantum_of(link, k, p)
            move(link, k, list_of(tin, OLD, p))
            k = first_queue(link, tin, False, p)
        examines_empty = False
        if k < list_of(0, NEW, p):
            if link.packets[k] > 0:
                return k
            retire(link, k, tin, now, p)
        if is_shaped(link, now, p):
            return -1
        tin = -1


def on_select(link: CakeState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the queue of the next packet, or wait for the shaper."""
    k = link.again
    if k < 0 and not is_shaped(link, env.now, p):
        k = next_queue(link, -1, env.now, p)
    elif k >= 0 and p.ingress > 0.0:
        k = next_queue(link, k // int(p.n_queues), env.now, p)
    if k >= 0:
        env.queue_index = k
    else:
        link.again = -1
        env.wait = min(link.next_packet, link.failsafe) - env.now


def charged_size(size: int, p: Params) -> float:
    """Return the bytes for which the shaper and the turns count a packet."""
    length, framing = max(size + int(p.overhead), int(p.mpu)), int(p.framing)
    if framing == ATM:
        length = (length + 47) // 48 * 53
    elif framing == PTM:
        length += (length + 63) // 64
    return float(length)


def charge(link: CakeState, tin: int, size: float, is_dropped: int, now: float, p: Params) -> None:
    """Charge a packet to its tin and to the shaper."""
    if p.rate > 0.0:
        time = 8.0 * size / p.tin_rate[tin]
        if not has_come(link.tin_next[tin], now):
            link.tin_next[tin] += time
        elif not has_come(link.tin_next[tin], now + time):
            link.tin_next[tin] = now + time
        link.next_packet += 8.0 * size / p.rate
        if is_dropped == 0:
            link.failsafe += 1.5 * 8.0 * size / p.rate


def on_dequeue(link: CakeState, header: Any, p: Params, env: LinkEnv) -> None:
    """Signal congestion by COBALT, and charge the packet to its queue, its tin and the shaper.

    A packet that is dropped is charged in ingress mode only, in which it has already used the link before CAKE.
    """
    k = env.queue_index
    tin = k // int(p.n_queues)
    size = charged_size(env.packet_size, p)
    discount(link, k, p)
    packets = max(4.0, 2.0 * link.bulk[tin]) if p.ingress > 0.0 else 4.0
    examine(link, k, p.tin_target[tin], p.tin_interval[tin], packets * p.mtu_time[tin], p, env)
    if link.packets[k] == 0:
        env.drop = 0
    if env.drop != 0:
        link.signaled = 1
        link.again = k
        if p.ingress == 0.0:
            return
    else:
        link.again = -1
    link.deficit[k] -= size
    link.tin_deficit[tin] -= size
    charge(link, tin, size, env.drop, env.now, p)


HOOKS: dict[str, Hook] = {
    "on_classify": on_classify,
    "on_arrival": on_arrival,
    "on_select": on_select,
    "on_dequeue": on_dequeue,
    "on_drop": on_drop,
}
