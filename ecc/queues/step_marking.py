"""Step marking, the queue of DCTCP (Alizadeh et al. 2010, sec. 3.1; RFC 8257, sec. 3.1).

a packet is marked   q > K   at its arrival, q the queue without it

q  queue [packets]   K  threshold [packets]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc._support.arguments import check_arguments
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.queues.discipline import QueueDiscipline, congested


def is_above(q: float, K: float) -> float:
    """Return whether the queue is above the threshold (Alizadeh et al. 2010, sec. 3.1 (1))."""
    return q > K


def probability_law(q: float, p: Params) -> float:
    """Return 1 above the threshold, else 0."""
    return 1.0 if is_above(q, p.threshold) else 0.0


@dataclass(frozen=True)
class StepMarking(QueueDiscipline):
    """Marking of every packet that finds a queue above a threshold.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`; marks by default.
    threshold : float, packets, >= 0
        Threshold, K. The default is that of DCTCP at 1 Gb/s.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    mark: bool = field(default=True, kw_only=True)
    threshold: float = 20.0

    property_exceptions = dict.fromkeys(
        ("fixed-point", "linearization", "stability-limit"),
        "its marking probability jumps at the threshold, which is the equilibrium queue of the fluid model",
    )

    probability_law = staticmethod(probability_law)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, threshold=0.0)

    @check_arguments
    def marking_threshold(self, capacity: float, is_scalable: bool) -> float | None:
        """The threshold, if packets are marked and not dropped."""
        return self.threshold * self.packet_size if self.mark else None

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival}


def on_arrival(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Compare the queue with the threshold."""
    if is_above(env.queue / p.packet_size, p.threshold):
        congested(p, env)
