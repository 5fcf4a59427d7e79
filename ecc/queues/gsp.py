"""GSP, global synchronization protection (Lautenschlaeger, Francini 2016).

    a packet is chosen   d > threshold and t > expiry       at its arrival; then expiry <- t + T
    T = interval / (1 + c/tau)
    c <- c + alpha a - b, in [0, max_time]                  at each arrival

    t   time                        d     delay of the queue without the packet, its length over the capacity [s]
    T   time without choices [s]    a, b  times above and below the threshold since the last arrival [s]

A drop takes an RTT to act on the queue. Drops in this time would reduce the windows of many flows at once, so there are
none for T. After a buffer overflow b is not counted until the queue has been empty and then above the threshold. With
`adaptive=False` T is the interval: basic GSP.

The text of the paper was not available. The rules are those of two programs:

- a P4 program that quotes the paper (Stanford University, 2018): the suspension after an overflow, and an interval of
  two RTTs of the flows that dominate the queue;
- a program for ns-3 and its description (NITK Surathkal, 2018): alpha, tau, max_time, and thresholds that are delays.

The default threshold, and marks instead of drops, are choices of `ecc`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import TIME, Quantity, as_delay, as_time
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_choice, check_number
from ecc.models.shared.clock import is_over
from ecc.queues.discipline import QueueDiscipline, congested

OVERFLOWED, EMPTIED = 1, 2  # values of `overflow`; 0: the cycle after the last overflow is complete


def time_without_choices(cumulated: float, p: Params) -> float:
    """Return the time for which no packet is chosen after one, T [s]."""
    return p.interval / (1.0 + cumulated / p.tau)


@dataclass(frozen=True)
class GSP(QueueDiscipline):
    """Global synchronization protection: one packet is chosen when the queue is long, then the next after two RTTs.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`. GSP counts bytes and does not use `packet_size`.
    threshold : float, s, > 0
        Delay of the queue above which a packet is chosen.
    interval : float, s, > 0
        Time without choices after one: two RTTs of the flows that dominate the queue. The adaptive form shortens it.
    adaptive : bool
        Shorten the interval while the queue is above the threshold for most of the time.
    alpha : float, > 0
        Weight of times above the threshold, relative to times below it.
    tau : float, s, > 0
        Time constant of the adaptation: five intervals by default.
    max_time : float, s, >= 0
        Maximum of the cumulated time.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.

    Examples
    --------
    >>> GSP(threshold="5 ms").threshold
    0.005
    """

    threshold: Quantity = 0.02
    interval: Quantity = 0.2
    adaptive: bool = True
    alpha: float = 2.0
    tau: Quantity = 1.0
    max_time: Quantity = 60.0

    dimensions = {"threshold": TIME, "interval": TIME, "tau": TIME, "max_time": TIME}

    fluid_refusal = (
        "GSP has no fluid model: it chooses a single packet at its arrival and then none for an interval, and arrivals "
        "of a fluid are not single packets"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "adaptive", (True, False))
        check_number(self, threshold=as_delay, interval=as_delay, alpha=None, tau=as_delay)
        object.__setattr__(self, "max_time", as_time(self.max_time, "max_time"))

    @dataclass
    class LinkState:
        """The state of a queue."""

        expiry: float = 0.0  # time after which a packet may be chosen [s]
        chosen: int = 0  # 1 between the choice of a packet and its drop
        cumulated: float = 0.0  # c [s]
        last: float = 0.0  # time up to which c is counted [s]
        above: int = 0  # 1 if the queue has been above the threshold since then
        overflow: int = 0

    def link_hooks(self) -> dict[str, Hook]:
        if not self.adaptive:
            return {"on_arrival": on_arrival}
        return {"on_arrival": on_adaptive_arrival, "on_departure": on_departure, "on_drop": on_drop}


def is_long(queue: float, p: Params, env: LinkEnv) -> bool:
    """Return whether a queue [bytes] is above the threshold."""
    return is_over(8.0 * queue / env.capacity, p.threshold)


def on_arrival(link: GSP.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the packet if the queue is long and the time without choices has ended."""
    if is_long(env.queue, p, env) and is_over(env.now, link.expiry):
        link.expiry = env.now + time_without_choices(link.cumulated, p)
        congested(p, env)
        link.chosen = env.drop


def count(link: GSP.LinkState, p: Params, env: LinkEnv) -> None:
    """Count the time since the last event as above or below the threshold."""
    if link.above > 0:
        link.cumulated += p.alpha * (env.now - link.last)
    elif link.overflow == 0:
        link.cumulated -= env.now - link.last
    link.last = env.now


def observe(link: GSP.LinkState, queue: float, p: Params, env: LinkEnv) -> None:
    """Note where the queue is from now on."""
    link.above = 1 if is_long(queue, p, env) else 0
    if queue == 0 and link.overflow == OVERFLOWED:
        link.overflow = EMPTIED
    elif link.above > 0 and link.overflow == EMPTIED:
        link.overflow = 0


def on_adaptive_arrival(link: GSP.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Bound the cumulated time, and choose the packet by it."""
    count(link, p, env)
    link.cumulated = min(max(link.cumulated, 0.0), p.max_time)
    on_arrival(link, header, p, env)
    observe(link, env.queue + env.packet_size, p, env)


def on_departure(link: GSP.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Count the time up to the departure."""
    count(link, p, env)
    observe(link, env.queue, p, env)


def on_drop(link: GSP.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Take back the packet, which is not in the queue; a packet that was not chosen is an overflow of the buffer."""
    observe(link, env.queue, p, env)
    if link.chosen == 0:
        link.overflow = OVERFLOWED
    link.chosen = 0
