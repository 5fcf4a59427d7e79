"""RED (Floyd, Jacobson 1993), gentle (Floyd 2000) and adaptive (Floyd, Gummadi, Shenker 2001).

avg <- (1 - w) avg + w q                       at each arrival                                 1993, fig. 2
avg <- (1 - w)^m avg                           first, if the queue was idle for m packet times 1993, fig. 2
p_b  = p_max (avg - min)/(max - min)           min <= avg < max; 0 below                       1993, sec. 4
p_b  = p_max + (1 - p_max)(avg - max)/max      max <= avg < 2 max, gentle; else 1              2000
p_a  = p_b/(1 - n p_b)                         n packets since the last chosen one             1993, sec. 4
p_max <- p_max + min(0.01, p_max/4)            avg > min + 0.6 (max - min), p_max <= 0.5       2001
p_max <- 0.9 p_max                             avg < min + 0.4 (max - min), p_max >= 0.01      2001

q  queue [packets]   w  weight   min, max  thresholds [packets]; the last two every `interval`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested


def next_average(avg: float, q: float, w: float) -> float:
    """Return the average after an arrival (Floyd, Jacobson 1993, fig. 2)."""
    return (1.0 - w) * avg + w * q


def average_after_idle(avg: float, m: float, w: float) -> float:
    """Return the average after m packet times of an idle queue (Floyd, Jacobson 1993, fig. 2)."""
    average: float = avg * (1.0 - w) ** m
    return average


def probability(avg: float, p_max: float, p: Params) -> float:
    """Return p_b of Floyd, Jacobson 1993, sec. 4, and of Floyd 2000 if gentle."""
    if avg < p.min_threshold:
        return 0.0
    if avg < p.max_threshold:
        return p_max * (avg - p.min_threshold) / (p.max_threshold - p.min_threshold)
    if p.gentle > 0.0 and avg < 2.0 * p.max_threshold:
        return p_max + (1.0 - p_max) * (avg - p.max_threshold) / p.max_threshold
    return 1.0


def share_chosen(p_b: float) -> float:
    """Return the share that `spread` chooses: gaps between chosen packets are uniform over 1, ..., 1/p_b packets."""
    return 2.0 * p_b / (1.0 + p_b)


def spread(p_b: float, n: int) -> float:
    """Return p_a of Floyd, Jacobson 1993, sec. 4, which makes gaps uniform instead of geometric."""
    return p_b / (1.0 - n * p_b) if n * p_b < 1.0 else 1.0


def next_p_max(p_max: float, avg: float, p: Params) -> float:
    """Return the next p_max (Floyd, Gummadi, Shenker 2001)."""
    width = p.max_threshold - p.min_threshold
    if avg > p.min_threshold + 0.6 * width and p_max <= 0.5:
        return p_max + min(0.01, 0.25 * p_max)
    if avg < p.min_threshold + 0.4 * width and p_max >= 0.01:
        return 0.9 * p_max
    return p_max


def average_law(average: float, q: float, y: float, C: float, p: Params) -> float:
    """Return the average after an arrival at rate y; while the queue is empty, the link could have sent C/y packets."""
    packets = C / y if q <= 0.0 else 1.0
    return average + packets * (next_average(average, q, p.weight) - average)


def p_max_law(p_max: float, average: float, p: Params) -> float:
    """Return p_max after an interval."""
    return next_p_max(p_max, average, p)


def probability_law(average: float, p: Params) -> float:
    """Return the share of chosen packets."""
    return share_chosen(probability(average, p.p_max, p))


def adaptive_probability_law(average: float, p_max: float, p: Params) -> float:
    """Return the share of chosen packets for the current p_max."""
    return share_chosen(probability(average, p_max, p))


@dataclass(frozen=True)
class RED(QueueDiscipline):
    """Random early detection.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`.
    min_threshold, max_threshold : float, packets, >= 0
        Average queue above which packets are chosen, and average at which the probability is `p_max`.
    p_max : float, in (0, 1]
        Probability at the maximum threshold.
    weight : float, in (0, 1]
        Weight of a packet in the average, w.
    gentle : bool
        Whether the probability grows from `p_max` to 1 between the maximum threshold and its double. If not, it is 1
        above the maximum threshold.
    adaptive : bool
        Whether `p_max` is adapted to keep the average halfway between the thresholds.
    interval : float, s, > 0
        Time between adaptations of `p_max`.
    Raises
    ------
    ValueError, TypeError
        A parameter out of range; min_threshold >= max_threshold.
    """

    min_threshold: float = 5.0
    max_threshold: float = 15.0
    p_max: float = 0.1
    weight: float = 0.002
    gentle: bool = True
    adaptive: bool = False
    interval: Quantity = 0.5

    dimensions = {"interval": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, min_threshold=0.0, max_threshold=None, p_max=None, weight=None, interval=as_delay)
        for name in ("p_max", "weight"):
            if getattr(self, name) > 1.0:
                raise ValueError(f"{name} must be <= 1, got {getattr(self, name):g}")
        if self.min_threshold >= self.max_threshold:
            raise ValueError(
                f"max_threshold must be > min_threshold ({self.min_threshold:g} packets), got {self.max_threshold:g}"
            )

    def params(self) -> dict[str, float]:
        values = super().params()
        return values if self.adaptive else {name: value for name, value in values.items() if name != "interval"}

    def link_record(self) -> Any:
        return self.LinkState(p_max=self.p_max)

    @property
    def probability_law(self) -> Callable[..., float]:
        return adaptive_probability_law if self.adaptive else probability_law

    @property
    def states(self) -> Mapping[str, State]:
        average = State(average_law, "arrival", unit="packets", lowest=0.0)
        if not self.adaptive:
            return {"average": average}
        return {"average": average, "p_max": State(p_max_law, "interval", self.p_max, lowest=0.0, highest=1.0)}

    @dataclass
    class LinkState:
        """The state of a queue."""

        average: float = 0.0  # [packets]
        p_max: float = 0.0
        idle_from: float = 0.0  # time at which the queue becomes empty if nothing arrives [s]
        since: int = 0  # packets since the last chosen one, while packets may be chosen

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
        """Return the state of a queue that has had a constant length."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.idle_from = 8.0 * queue / capacity
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival, **({"on_interval": on_interval} if self.adaptive else {})}


def on_arrival(link: RED.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Average the queue, and choose the packet at random."""
    if env.queue == 0:
        idle = max(0.0, env.now - link.idle_from) * env.capacity / (8.0 * p.packet_size)
        link.average = average_after_idle(link.average, idle, p.weight)
    link.average = next_average(link.average, env.queue / p.packet_size, p.weight)
    link.idle_from = env.now + 8.0 * (env.queue + env.packet_size) / env.capacity
    p_b = probability(link.average, link.p_max, p)
    if p_b <= 0.0:
        link.since = 0
    elif env.random < spread(p_b, link.since):
        link.since = 0
        congested(p, env)
    else:
        link.since += 1


def on_interval(link: RED.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Adapt p_max."""
    link.p_max = next_p_max(link.p_max, link.average, p)
    env.next_interval = p.interval
