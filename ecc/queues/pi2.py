"""PI2 (De Schepper, Bondarenko, Tsang, Briscoe 2016): PI on the square root of the probability, over one queue.

p' <- p' + alpha (d - target) + beta (d - d_prev)   every T; 0 <= p' <= 1
a packet of a classic flow is chosen with p'^2
a packet of a scalable flow, ECT(1), is chosen with k p'   as in RFC 9332

d  delay of the queue [s], its length over the capacity   alpha, beta [1/s]   k  coupling

Defaults are those of the authors' Linux code (sch_pi2, 2015), which has alpha = 10/16 and beta = 100/16 for k p'. Not
here: additions of that code, no choice below two packets queued, and p' <- 0.98 p' while the delay is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import PER_TIME, TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested_at_random


def next_root(root: float, d: float, d_prev: float, p: Params) -> float:
    """Return the next p', limited to [0, 1]."""
    return min(max(root + p.alpha * (d - p.target) + p.beta * (d - d_prev), 0.0), 1.0)


def classic(root: float) -> float:
    """Return the probability for flows with windows proportional to 1/sqrt(p)."""
    return root * root


def coupled(root: float, k: float) -> float:
    """Return the probability for flows with windows proportional to 1/p."""
    return min(k * root, 1.0)


def probability(root: float, scalable: float, p: Params) -> float:
    """Return the probability for a packet of a scalable (`scalable` > 0) or of a classic flow."""
    return coupled(root, p.coupling) if scalable > 0.0 else classic(root)


def root_law(root: float, q: float, q_prev: float, C: float, p: Params) -> float:
    """Return the next p' for queues in packets."""
    return next_root(root, q / C, q_prev / C, p)


@dataclass(frozen=True)
class PI2(QueueDiscipline):
    """PI, squared, with the defaults of the authors' code.

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
    coupling : float, > 0
        Coupling factor, k.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    target: Quantity = 0.020
    interval: Quantity = 0.030
    alpha: float = 0.3125
    beta: float = 3.125
    coupling: float = 2.0

    dimensions = {"target": TIME, "interval": TIME, "alpha": PER_TIME, "beta": PER_TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, target=as_delay, interval=as_delay, alpha=None, beta=None, coupling=None)

    probability_law = staticmethod(probability)

    @property
    def states(self) -> Mapping[str, State]:
        return {"root": State(root_law, "interval", lowest=0.0, highest=1.0)}

    @dataclass
    class LinkState:
        """The state of a queue."""

        root: float = 0.0  # p'
        d_prev: float = 0.0  # [s]

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
        link.d_prev = 8.0 * queue / capacity
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival, "on_interval": on_interval}


def on_arrival(link: PI2.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the packet at random."""
    congested_at_random(probability(link.root, 1.0 if env.ecn == 1 else 0.0, p), p, env)


def on_interval(link: PI2.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Update p', the square root of the probability."""
    d = 8.0 * env.queue / env.capacity
    link.root = next_root(link.root, d, link.d_prev, p)
    link.d_prev = d
    env.next_interval = p.interval
