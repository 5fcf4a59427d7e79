"""CoDel (RFC 8289).

    a packet may be chosen   sojourn >= target and more than a packet behind it, throughout an `interval`   sec. 5.6
    the first is chosen      at once; count = 1, or its recent growth if packets were chosen lately        sec. 5.5
    the next                 interval / sqrt(count) after the previous one; count <- count + 1             sec. 5.5, 5.6
    none                     as soon as a packet may not be chosen                                         sec. 5.5

    sojourn   time that a packet has waited when it reaches the head of the queue [s]

Chosen packets are dropped at the head of the queue, or marked. After a drop the next packet is examined too; after a
mark it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.models.shared.clock import has_come
from ecc.queues.discipline import QueueDiscipline, congested


def is_good(sojourn: float, behind: float, p: Params) -> bool:
    """Return whether the sojourn time, or the queue behind the packet [bytes], is small enough (RFC 8289, sec. 5.6)."""
    return sojourn < p.target or behind <= p.packet_size


def next_time(t: float, count: int, p: Params) -> float:
    """Return the time of the next choice by the control law of RFC 8289, sec. 5.6."""
    return t + p.interval / math.sqrt(count)


def first_count(count: int, last_count: int, since: float, p: Params) -> int:
    """Return the first count, `since` seconds after the next packet would have been chosen (RFC 8289, sec. 5.5)."""
    grown = count - last_count
    return grown if grown > 1 and since < 16.0 * p.interval else 1


@dataclass(frozen=True)
class CoDel(QueueDiscipline):
    """Controlled delay, with the defaults of RFC 8289.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`. No packet is chosen while `packet_size` bytes or less wait behind it.
    target : float, s, > 0
        Acceptable sojourn time.
    interval : float, s, > target
        Time for which the sojourn time may exceed the target: a typical RTT of the flows, for example 0.1 s.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; an interval that is not longer than the target.
    """

    target: Quantity = 0.005
    interval: Quantity = 0.1

    dimensions = {"target": TIME, "interval": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, target=as_delay, interval=as_delay)
        if float(self.interval) <= float(self.target):
            raise ValueError(f"interval must be > target ({self.target:g} s), got {self.interval:g} s")

    @dataclass
    class LinkState:
        """The state of each queue."""

        bad_until: tuple[float, ...] = (0.0,)  # time after which packets may be chosen [s]; 0: the last one was good
        choosing: tuple[int, ...] = (0,)
        next: tuple[float, ...] = (0.0,)  # time of the next choice [s]
        count: tuple[int, ...] = (0,)
        last_count: tuple[int, ...] = (0,)  # count at the first choice
        dropped: tuple[int, ...] = (0,)  # 1 if the previous packet was dropped in this same dequeue

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_dequeue": on_dequeue}


def may_choose(link: CoDel.LinkState, p: Params, env: LinkEnv) -> bool:
    """Return whether the queue has been bad for an interval."""
    k = env.queue_index
    if is_good(env.sojourn, env.queue - env.packet_size, p):
        link.bad_until[k] = 0.0
        return False
    if link.bad_until[k] == 0.0:
        link.bad_until[k] = env.now + p.interval
        return False
    return has_come(env.now, link.bad_until[k])


def on_dequeue(link: CoDel.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose packets with increasing frequency as long as the queue is bad."""
    k = env.queue_index
    if not may_choose(link, p, env):
        link.choosing[k] = 0
    elif link.choosing[k] == 0:
        link.choosing[k] = 1
        link.count[k] = first_count(link.count[k], link.last_count[k], env.now - link.next[k], p)
        link.last_count[k] = link.count[k]
        link.next[k] = next_time(env.now, link.count[k], p)
        congested(p, env)
    else:
        if link.dropped[k] > 0:
            link.next[k] = next_time(link.next[k], link.count[k], p)
        if has_come(env.now, link.next[k]):
            link.count[k] += 1
            congested(p, env)
            if env.drop == 0:
                link.next[k] = next_time(link.next[k], link.count[k], p)
            link.dropped[k] = env.drop
            return
    link.dropped[k] = 0
