"""COBALT: CoDel and BLUE in parallel, as in CAKE of Linux (`net/sched/sch_cake.c`, 6.18).

    the queue is over        sojourn > target and sojourn > 4 s/C
    first signal             an interval / sqrt(count) after the queue went over
    next signals             interval / sqrt(count) after each other; count <- count + 1
    not over                 count <- count - 1 after each such time, also while no packet is there to be signaled
    full                     P <- P + 1/256        at most once per target
    empty                    P <- P - 1/4096       at most once per target
    every packet             is dropped with P, also if it is ECN-capable

sojourn   time that a packet has waited when it reaches the head of the queue [s]
P         probability of BLUE
s         maximum packet size

Differences from CoDel: count decreases step by step instead of restarting; packets that do not respond to signals fill
the buffer and raise P; the last packet of a queue is never dropped. The kernel computes 1/sqrt(count) by a Newton step
from the value before, in 32 bits; here it is exact. As in the kernel, the first signal of a queue does not wait for an
interval, because its 1/sqrt(count) starts at 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.models.shared.clock import has_come, is_over
from ecc.queues.discipline import QueueDiscipline, congested

P_UP, P_DOWN = 1.0 / 256.0, 1.0 / 4096.0  # steps of BLUE
LONG_AGO = -1e9  # s


def target_at(mtu_time: float, target: float) -> float:
    """Return the target for packets that take `mtu_time` to send [s]: at least 1.5 packets."""
    return max(1.5 * mtu_time, target)


def interval_at(mtu_time: float, target: float, interval: float) -> float:
    """Return the interval for packets that take `mtu_time` to send [s]: longer by as much as the target is."""
    longer = target_at(mtu_time, target)
    return max(interval + longer - target, 2.0 * longer)


@dataclass
class CobaltState:
    """The state of COBALT in each queue."""

    count: tuple[int, ...] = (0,)
    scale: tuple[float, ...] = (0.0,)  # 1/sqrt(count), 1 for count 0; 0 before the first signal
    next: tuple[float, ...] = (0.0,)  # time of the next signal [s]
    dropping: tuple[int, ...] = (0,)
    p_drop: tuple[float, ...] = (0.0,)  # P
    blue_time: tuple[float, ...] = (LONG_AGO,)  # time of the last change of P [s]


@dataclass(frozen=True)
class COBALT(QueueDiscipline):
    """CoDel and BLUE in one queue, with the defaults of CAKE.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`; BLUE drops packets that could be marked, too. `packet_size` is the size of the
        largest packets.
    target : float, s, > 0
        Acceptable sojourn time. It is raised to the transmission time of 1.5 packets if that is longer.
    interval : float, s, > target
        Time from the first sojourn time above the target to the first signal: a typical RTT of the flows, for example
        0.1 s.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; an interval that is not longer than the target.
    """

    target: Quantity = 0.005
    interval: Quantity = 0.1

    dimensions = {"target": TIME, "interval": TIME}

    fluid_refusal = (
        "COBALT has no fluid model: BLUE counts single packets, those that a full buffer drops and those after which "
        "the queue is empty; CoDel has a fluid, and signals by the same law"
    )

    LinkState = CobaltState
    required_env = frozenset({"random"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(self)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_dequeue": on_dequeue, "on_departure": on_departure, "on_drop": on_drop}


def check_target(discipline: Any) -> None:
    """Check the target and the interval of a discipline."""
    check_number(discipline, target=as_delay, interval=as_delay)
    if float(discipline.interval) <= float(discipline.target):
        raise ValueError(f"interval must be > target ({discipline.target:g} s), got {discipline.interval:g} s")


def count_on(link: CobaltState, k: int, change: int, interval: float) -> None:
    """Change the count of a queue, and set the time of the next signal."""
    link.count[k] += change
    link.scale[k] = 1.0 / math.sqrt(max(link.count[k], 1))
    link.next[k] += interval * link.scale[k]


def full(link: CobaltState, k: int, now: float, target: float) -> None:
    """A packet of queue k was dropped because the buffer is full."""
    if is_over(now - link.blue_time[k], target):
        link.p_drop[k] = min(link.p_drop[k] + P_UP, 1.0)
        link.blue_time[k] = now
    link.dropping[k] = 1
    link.next[k] = now
    link.count[k] = max(link.count[k], 1)


def empty(link: CobaltState, k: int, now: float, target: float, interval: float) -> None:
    """Queue k is found empty when its next packet could be sent."""
    if link.p_drop[k] > 0.0 and is_over(now - link.blue_time[k], target):
        link.p_drop[k] = max(link.p_drop[k] - P_DOWN, 0.0)
        link.blue_time[k] = now
    link.dropping[k] = 0
    if link.count[k] > 0 and has_come(now, link.next[k]):
        count_on(link, k, -1, interval)


def examine(
    link: CobaltState, k: int, target: float, interval: float, min_sojourn: float, p: Params, env: LinkEnv
) -> None:
    """Signal congestion by the packet at the head of queue k, if it is due and has waited for `min_sojourn` too."""
    now, passed = env.now, is_over(env.now, link.next[k])
    is_due = link.count[k] > 0 and has_come(now, link.next[k])
    if is_over(env.sojourn, target) and is_over(env.sojourn, min_sojourn):
        if link.dropping[k] == 0:
            link.dropping[k] = 1
            link.next[k] = now + interval * link.scale[k]
        link.count[k] = max(link.count[k], 1)
    else:
        link.dropping[k] = 0
    if is_due and link.dropping[k] > 0:
        congested(p, env)
        count_on(link, k, 1, interval)
        passed = is_over(now, link.next[k])
    else:
        while is_due:  # Ends when the count is 0 or the next time is in the future
            count_on(link, k, -1, interval)
            passed = is_over(now, link.next[k])
            is_due = link.count[k] > 0 and has_come(now, link.next[k])
    if env.drop == 0 and env.random < link.p_drop[k]:
        env.drop = 1
    if link.count[k] == 0:
        link.next[k] = now + interval
    elif passed and env.drop == 0:
        link.next[k] = now


def on_dequeue(link: CobaltState, header: Any, p: Params, env: LinkEnv) -> None:
    """Signal congestion by CoDel and BLUE; the last packet of the queue is not dropped."""
    mtu_time = 8.0 * p.packet_size / env.capacity
    target, interval = target_at(mtu_time, p.target), interval_at(mtu_time, p.target, p.interval)
    examine(link, 0, target, interval, 4.0 * mtu_time, p, env)
    if env.queue <= env.packet_size:
        env.drop = 0


def on_departure(link: CobaltState, header: Any, p: Params, env: LinkEnv) -> None:
    """Note that the queue is empty."""
    if env.queue == 0:
        mtu_time = 8.0 * p.packet_size / env.capacity
        target, interval = target_at(mtu_time, p.target), interval_at(mtu_time, p.target, p.interval)
        empty(link, 0, env.now, target, interval)


def on_drop(link: CobaltState, header: Any, p: Params, env: LinkEnv) -> None:
    """Note that the buffer was full, unless `on_dequeue` has dropped the packet."""
    if env.sojourn == 0.0:
        full(link, 0, env.now, target_at(8.0 * p.packet_size / env.capacity, p.target))
