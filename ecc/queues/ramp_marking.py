"""Ramp marking: the marking probability grows linearly between two thresholds, as in data-center switches.

P = (q - K_min)/(K_max - K_min)   limited to [0, 1], at the arrival of a packet, q the queue without it

q  queue [packets]   K_min, K_max  thresholds [packets]

This is RED with the instantaneous queue, probabilities up to 1 and no even spacing (Zhu et al. 2015, sec. 3.1, with
p_max = 1; Ultra Ethernet 1.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.queues.discipline import QueueDiscipline, congested_at_random


def ramp(q: float, low: float, high: float) -> float:
    """Return the ramp from 0 at the lower threshold to 1 at the higher one."""
    return min(max((q - low) / (high - low), 0.0), 1.0)


def probability_law(q: float, p: Params) -> float:
    """Return the probability that a packet is chosen."""
    return ramp(q, p.min_threshold, p.max_threshold)


@dataclass(frozen=True)
class RampMarking(QueueDiscipline):
    """Marking with a probability that grows with the queue.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`; marks by default.
    min_threshold, max_threshold : float, packets, >= 0
        Queue up to which no packet is marked, and queue from which on every packet is marked.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; min_threshold >= max_threshold.
    """

    mark: bool = field(default=True, kw_only=True)
    min_threshold: float = 7.0
    max_threshold: float = 30.0

    probability_law = staticmethod(probability_law)
    required_env = frozenset({"random"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, min_threshold=0.0, max_threshold=None)
        if self.min_threshold >= self.max_threshold:
            raise ValueError(
                f"max_threshold must be > min_threshold ({self.min_threshold:g} packets), got {self.max_threshold:g}"
            )

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival}


def on_arrival(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the packet at random."""
    congested_at_random(ramp(env.queue / p.packet_size, p.min_threshold, p.max_threshold), p, env)
