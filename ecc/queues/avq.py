"""AVQ, the adaptive virtual queue (Kunniyur, Srikant 2001, sec. 2).

v  <- max(0, v - V (t - s))                          each arrival, at t, the one before at s
the packet is chosen   v + b > B, else v <- v + b
V  <- min(V + alpha gamma C (t - s), C)
V  <- max(V - alpha b, 0)

v, V  virtual queue [packets] and its capacity [packets/s]   b  packet [packets]   B  virtual buffer [packets]
alpha [1/s]   gamma  utilization wanted   C  capacity [packets/s]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import PER_TIME
from ecc.contract.env import Hook
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested


def drained(v: Any, V: Any, passed: Any) -> Any:
    """The virtual queue at the next arrival."""
    return max(0.0, v - V * passed)


def raised(V: Any, C: Any, passed: Any, p: Any) -> Any:
    """The virtual capacity, increased by what could have arrived."""
    return min(V + p.alpha * p.gamma * C * passed, C)


def lowered(V: Any, b: Any, p: Any) -> Any:
    """The virtual capacity, decreased by what has arrived."""
    return max(V - p.alpha * b, 0.0)


def V_law(V: Any, C: Any, y: Any, p: Any) -> Any:
    """The virtual capacity after an arrival, of a rate."""
    return lowered(raised(V, C, 1.0 / y, p), 1.0, p)


def V_at_start(C: Any) -> Any:
    """The virtual capacity begins at the capacity."""
    return C


def probability_law(V: Any, y: Any) -> Any:
    """What does not go through a full virtual queue."""
    return max(1.0 - V / y, 0.0)


@dataclass(frozen=True)
class AVQ(QueueDiscipline):
    """The adaptive virtual queue.

    Parameters
    ----------
    mark, packet_size
        As of every `QueueDiscipline`.
    gamma : float, in (0, 1]
        Utilization that is wanted.
    alpha : float, 1/s, > 0
        How fast the virtual capacity adapts.
    buffer : float, packets, > 0
        That of the virtual queue, B.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    gamma: float = 0.98
    alpha: float = 0.15
    buffer: float = 100.0

    dimensions = {"alpha": PER_TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, gamma=None, alpha=None, buffer=None)
        if self.gamma > 1.0:
            raise ValueError(f"gamma must be <= 1, got {self.gamma:g}")

    probability_law = staticmethod(probability_law)

    @property
    def states(self) -> Mapping[str, State]:
        return {"V": State(V_law, "arrival", V_at_start, unit="packets/s", lowest=0.0)}

    @dataclass
    class LinkState:
        """The state of a queue."""

        v: float = 0.0  # [packets]
        V: float = -1.0  # [packets/s]; < 0 before the start
        last: float = 0.0  # arrival [s]

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float, **values: float) -> Any:
        """Return the state of a queue with a full virtual queue."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.v, link.last = float(self.buffer), -max_rtt
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_start": on_start, "on_arrival": on_arrival}


def on_start(link: Any, header: Any, p: Any, env: Any) -> None:
    """The virtual capacity begins at the capacity, unless the run begins at an equilibrium."""
    if link.V < 0.0:
        link.V = V_at_start(env.capacity / (8.0 * p.packet_size))


def on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    """Put the packet into the virtual queue if there is room, and update the virtual capacity."""
    passed = env.now - link.last
    b = env.packet_size / p.packet_size
    link.v = drained(link.v, link.V, passed)
    if link.v + b > p.buffer:
        congested(p, env)
    else:
        link.v += b
    C = env.capacity / (8.0 * p.packet_size)
    link.V = lowered(raised(link.V, C, passed, p), b, p)
    link.last = env.now
