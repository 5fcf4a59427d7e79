"""AVQ, the adaptive virtual queue (Kunniyur, Srikant 2001, sec. 2).

v  <- max(0, v - V (t - s))                          at each arrival, at time t; the previous arrival was at s
the packet is chosen   v + b > B, else v <- v + b
V  <- min(V + alpha gamma C (t - s), C)
V  <- max(V - alpha b, 0)

v, V  virtual queue [packets] and its capacity [packets/s]   b  packet [packets]   B  virtual buffer [packets]
alpha [1/s]   gamma  target utilization   C  capacity [packets/s]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import PER_TIME
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested


def drained_queue(v: float, V: float, elapsed: float) -> float:
    """Return the virtual queue at the next arrival, in packets."""
    return max(0.0, v - V * elapsed)


def increased_capacity(V: float, C: float, elapsed: float, p: Params) -> float:
    """Return the virtual capacity, increased in proportion to the elapsed time."""
    return min(V + p.alpha * p.gamma * C * elapsed, C)


def decreased_capacity(V: float, b: float, p: Params) -> float:
    """Return the virtual capacity, decreased in proportion to the size of the arriving packet."""
    return max(V - p.alpha * b, 0.0)


def V_law(V: float, C: float, y: float, p: Params) -> float:
    """Return the virtual capacity after an arrival, if packets arrive at the rate y."""
    return decreased_capacity(increased_capacity(V, C, 1.0 / y, p), 1.0, p)


def V_at_start(C: float) -> float:
    """Return the initial virtual capacity, which is the real capacity."""
    return C


def probability_law(V: float, y: float) -> float:
    """Return the share of packets that overflow a virtual queue that is full."""
    return max(1.0 - V / y, 0.0)


@dataclass(frozen=True)
class AVQ(QueueDiscipline):
    """The adaptive virtual queue.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`.
    gamma : float, in (0, 1]
        Target utilization.
    alpha : float, 1/s, > 0
        Adaptation rate of the virtual capacity.
    buffer : float, packets, > 0
        Size of the virtual buffer, B.

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
        last: float = 0.0  # time of the previous arrival [s]

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float, **values: float) -> Any:
        """Return the state of a queue with a full virtual queue."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.v, link.last = float(self.buffer), -max_rtt
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_start": on_start, "on_arrival": on_arrival}


def on_start(link: AVQ.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Set the virtual capacity to the capacity, unless the run begins at an equilibrium."""
    if link.V < 0.0:
        link.V = V_at_start(env.capacity / (8.0 * p.packet_size))


def on_arrival(link: AVQ.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Put the packet into the virtual queue if there is room, and update the virtual capacity."""
    elapsed = env.now - link.last
    b = env.packet_size / p.packet_size
    link.v = drained_queue(link.v, link.V, elapsed)
    if link.v + b > p.buffer:
        congested(p, env)
    else:
        link.v += b
    C = env.capacity / (8.0 * p.packet_size)
    link.V = decreased_capacity(increased_capacity(link.V, C, elapsed, p), b, p)
    link.last = env.now
