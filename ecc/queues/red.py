"""RED (Floyd, Jacobson 1993), gentle (Floyd 2000) and adaptive (Floyd, Gummadi, Shenker 2001).

avg <- (1 - w) avg + w q                       each arrival                                    1993, fig. 2
avg <- (1 - w)^m avg                           ... that ends m packet times of an idle queue   1993, fig. 2
p_b  = p_max (avg - min)/(max - min)           min <= avg < max; 0 below                       1993, sec. 4
p_b  = p_max + (1 - p_max)(avg - max)/max      max <= avg < 2 max, gentle; else 1              2000
p_a  = p_b/(1 - n p_b)                         n packets since the last that was chosen        1993, sec. 4
p_max <- p_max + min(0.01, p_max/4)            avg > min + 0.6 (max - min), p_max <= 0.5       2001
p_max <- 0.9 p_max                             avg < min + 0.4 (max - min), p_max >= 0.01      2001

q  queue [packets]   w  weight   min, max  thresholds [packets]; the last two every `interval`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import TIME, Quantity, as_delay
from ecc.contract.env import Hook
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested


def averaged(avg: Any, q: Any, w: Any) -> Any:
    """Floyd, Jacobson 1993, fig. 2."""
    return (1.0 - w) * avg + w * q


def averaged_idle(avg: Any, m: Any, w: Any) -> Any:
    """Floyd, Jacobson 1993, fig. 2, after m packet times of an idle queue."""
    return avg * (1.0 - w) ** m


def probability(avg: Any, p_max: Any, p: Any) -> Any:
    """p_b of Floyd, Jacobson 1993, sec. 4, and of Floyd 2000 if gentle."""
    if avg < p.min_threshold:
        return 0.0
    if avg < p.max_threshold:
        return p_max * (avg - p.min_threshold) / (p.max_threshold - p.min_threshold)
    if p.gentle > 0.0 and avg < 2.0 * p.max_threshold:
        return p_max + (1.0 - p_max) * (avg - p.max_threshold) / p.max_threshold
    return 1.0


def share_chosen(p_b: Any) -> Any:
    """What `spread` comes to: from 1 to 1/p_b packets lie between two that are chosen, all numbers equally likely."""
    return 2.0 * p_b / (1.0 + p_b)


def spread(p_b: Any, n: Any) -> Any:
    """p_a of Floyd, Jacobson 1993, sec. 4: evenly spaced, not geometrically."""
    return p_b / (1.0 - n * p_b) if n * p_b < 1.0 else 1.0


def adapted(p_max: Any, avg: Any, p: Any) -> Any:
    """Floyd, Gummadi, Shenker 2001."""
    width = p.max_threshold - p.min_threshold
    if avg > p.min_threshold + 0.6 * width and p_max <= 0.5:
        return p_max + min(0.01, 0.25 * p_max)
    if avg < p.min_threshold + 0.4 * width and p_max >= 0.01:
        return 0.9 * p_max
    return p_max


def average_law(average: Any, q: Any, y: Any, C: Any, p: Any) -> Any:
    """The average, after an arrival at a rate; while the queue is empty, the link could have sent C/y packets."""
    packets = C / y if q <= 0.0 else 1.0
    return average + packets * (averaged(average, q, p.weight) - average)


def p_max_law(p_max: Any, average: Any, p: Any) -> Any:
    """The largest probability, after an interval."""
    return adapted(p_max, average, p)


def probability_law(average: Any, p: Any) -> Any:
    """The share of packets that is chosen."""
    return share_chosen(probability(average, p.p_max, p))


def adaptive_probability_law(average: Any, p_max: Any, p: Any) -> Any:
    """The share of packets that is chosen, with the largest probability of the moment."""
    return share_chosen(probability(average, p_max, p))


@dataclass(frozen=True)
class RED(QueueDiscipline):
    """Random early detection.

    Parameters
    ----------
    mark, packet_size
        As of every `QueueDiscipline`.
    min_threshold, max_threshold : float, packets, >= 0
        Averages at which packets begin to be chosen, and at which the probability is `p_max`.
    p_max : float, in (0, 1]
    weight : float, in (0, 1]
        Of a packet in the average, w.
    gentle : bool
        Whether the probability grows from `p_max` to 1 between the maximum threshold and its double, instead of being 1
        from there on.
    adaptive : bool
        Whether `p_max` is adapted to keep the average in the middle.
    interval : float, s, > 0
        Between moves of `p_max`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; thresholds that are crossed.
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
        idle_from: float = 0.0  # when the queue is empty if nothing comes [s]
        since: int = 0  # packets since the last that was chosen, where any might be

    required_env = frozenset({"random"})

    def link_at(
        self, R: float, y: float, mean_rtt: float, max_rtt: float, queue: float = 0.0, capacity: float = 1.0,
        **values: float,
    ) -> Any:  # fmt: skip
        """Return the state of a queue that has long been of one length."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.idle_from = 8.0 * queue / capacity
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival, **({"on_interval": on_interval} if self.adaptive else {})}


def on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    """Average the queue, and choose at random."""
    if env.queue == 0:
        idle = max(0.0, env.now - link.idle_from) * env.capacity / (8.0 * p.packet_size)
        link.average = averaged_idle(link.average, idle, p.weight)
    link.average = averaged(link.average, env.queue / p.packet_size, p.weight)
    link.idle_from = env.now + 8.0 * (env.queue + env.packet_size) / env.capacity
    p_b = probability(link.average, link.p_max, p)
    if p_b <= 0.0:
        link.since = 0
    elif env.random < spread(p_b, link.since):
        link.since = 0
        congested(p, env)
    else:
        link.since += 1


def on_interval(link: Any, header: Any, p: Any, env: Any) -> None:
    """Move the largest probability."""
    link.p_max = adapted(link.p_max, link.average, p)
    env.next_interval = p.interval
