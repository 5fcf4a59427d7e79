"""PIE (RFC 8033).

    p <- p + f(p) [alpha (d - target) + beta (d - d_prev)]   every T; 0 <= p <= 1                     sec. 4.2, 5.2
    f  = 1/2048, 1/512, 1/128, 1/32, 1/8, 1/2, 1             p below 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, above
    p <- 0.98 p                                              d = d_prev = 0                           sec. 4.2
    nothing is chosen   d_prev < target/2 and p < 0.2, or q <= 2 packets, or a burst is allowed           sec. 4.1, 4.4

    d  delay of the queue [s], its length over the capacity   alpha, beta [1/s]

A step is 0.02 or less while p >= 0.1 (sec. 5.5). Packets are marked while p <= `mark_limit`; above it they are dropped
(sec. 5.1). Not here: the optional spacing of sec. 5.4. The fluid model has no burst allowance, and marks packets above
`mark_limit` instead of dropping them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import PER_TIME, TIME, Quantity, as_delay, as_time
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested


def scale(prob: float) -> float:
    """Return the factor f(p) of RFC 8033, sec. 4.2."""
    if prob < 1e-6:
        return 1.0 / 2048.0
    if prob < 1e-5:
        return 1.0 / 512.0
    if prob < 1e-4:
        return 1.0 / 128.0
    if prob < 1e-3:
        return 1.0 / 32.0
    if prob < 1e-2:
        return 1.0 / 8.0
    return 0.5 if prob < 0.1 else 1.0


def next_probability(prob: float, d: float, d_prev: float, p: Params) -> float:
    """Return the next p (RFC 8033, sec. 4.2 and 5.5)."""
    step = scale(prob) * (p.alpha * (d - p.target) + p.beta * (d - d_prev))
    if prob >= 0.1:
        step = min(step, 0.02)
    fading = 0.98 if d == 0.0 and d_prev == 0.0 else 1.0
    return min(max((prob + step) * fading, 0.0), 1.0)


def probability(prob: float, q: float, d_prev: float, p: Params) -> float:
    """Return the probability that a packet is chosen, 0 while the queue q [packets] is short (RFC 8033, sec. 4.1)."""
    return 0.0 if q <= 2.0 or (d_prev < 0.5 * p.target and prob < 0.2) else prob


def prob_law(prob: float, q: float, q_prev: float, C: float, p: Params) -> float:
    """Return the next p for queues in packets."""
    return next_probability(prob, q / C, q_prev / C, p)


def probability_law(prob: float, q: float, q_prev: float, C: float, p: Params) -> float:
    """Return the probability that a packet is chosen for queues in packets, if no burst is allowed."""
    return probability(prob, q, q_prev / C, p)


@dataclass(frozen=True)
class PIE(QueueDiscipline):
    """Proportional integral controller enhanced, with the defaults of RFC 8033.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`.
    target : float, s, > 0
        Target delay of the queue.
    interval : float, s, > 0
        Time between updates, T.
    alpha : float, 1/s, > 0
        Gain of the delay's distance from the target.
    beta : float, 1/s, > 0
        Gain of the delay's change since the last update.
    burst : float, s, >= 0
        Duration for which a burst passes unsignaled after the queue has been short.
    mark_limit : float, in [0, 1]
        Probability above which packets are dropped even if they could be marked.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    target: Quantity = 0.015
    interval: Quantity = 0.015
    alpha: float = 0.125
    beta: float = 1.25
    burst: Quantity = 0.15
    mark_limit: float = 0.1

    dimensions = {"target": TIME, "interval": TIME, "alpha": PER_TIME, "beta": PER_TIME, "burst": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, target=as_delay, interval=as_delay, alpha=None, beta=None, mark_limit=0.0)
        object.__setattr__(self, "burst", as_time(self.burst, "burst"))
        if self.mark_limit > 1.0:
            raise ValueError(f"mark_limit must be <= 1, got {self.mark_limit:g}")

    probability_law = staticmethod(probability_law)

    @property
    def states(self) -> Mapping[str, State]:
        return {"prob": State(prob_law, "interval", lowest=0.0, highest=1.0)}

    def link_record(self) -> Any:
        return self.LinkState(allowed=float(self.burst))

    @dataclass
    class LinkState:
        """The state of a queue."""

        prob: float = 0.0
        d_prev: float = 0.0  # [s]
        allowed: float = 0.0  # remaining burst allowance [s]

    required_env = frozenset({"random"})

    def link_at(
        self,
        R: float,
        y: float,
        mean_rtt: float,
        max_rtt: float,
        queue: float = 0.0,
        capacity: float = 1.0,
        **values: float,
    ) -> Any:
        """Return the state of a queue that has had a constant length, without a burst allowance."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.d_prev, link.allowed = 8.0 * queue / capacity, 0.0
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival, "on_interval": on_interval}


def on_arrival(link: PIE.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the packet at random, unless the queue is short or a burst is allowed."""
    prob = probability(link.prob, env.queue / p.packet_size, link.d_prev, p)
    if link.allowed <= 0.0 and env.random < prob:
        if link.prob <= p.mark_limit:
            congested(p, env)
        else:
            env.drop = 1


def on_interval(link: PIE.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Update the probability."""
    d = 8.0 * env.queue / env.capacity
    link.prob = next_probability(link.prob, d, link.d_prev, p)
    link.allowed = max(0.0, link.allowed - p.interval)
    if link.prob == 0.0 and d < 0.5 * p.target and link.d_prev < 0.5 * p.target:
        link.allowed = p.burst
    link.d_prev = d
    env.next_interval = p.interval
