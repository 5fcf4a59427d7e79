"""PI, the proportional-integral controller (Hollot, Misra, Towsley, Gong 2001).

p <- p + a (q - q_ref) - b (q_prev - q_ref)   every 1/w; 0 <= p <= 1

p  probability that a packet is chosen   q, q_ref  queue and its reference [packets]   w  frequency [Hz]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from ecc._support.arguments import check_arguments
from ecc._support.quantity import TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested_at_random


def next_probability(prob: float, q: float, q_prev: float, p: Params) -> float:
    """Return the next p, limited to a probability."""
    return min(max(prob + p.a * (q - p.reference) - p.b * (q_prev - p.reference), 0.0), 1.0)


@dataclass(frozen=True)
class PI(QueueDiscipline):
    """The proportional-integral controller; the default gains are those of the authors' example.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`.
    a, b : float, 1/packet, > 0
        Gains of the current queue and of the queue one interval earlier; a > b.
    interval : float, s, > 0
        Time between updates, 1/w.
    reference : float, packets, >= 0
        Reference queue, q_ref.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range; a <= b, which would not integrate the queue.
    """

    a: float = 1.822e-5
    b: float = 1.816e-5
    interval: Quantity = 1.0 / 170.0
    reference: float = 50.0

    dimensions = {"interval": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, a=None, b=None, interval=as_delay, reference=0.0)
        if self.a <= self.b:
            raise ValueError(f"a must be > b ({self.b:g}), or the probability forgets the queue, got {self.a:g}")

    @classmethod
    @check_arguments
    def of_controller(cls, gain: float, zero: float, interval: Quantity = 1.0 / 160.0, **parameters: Any) -> PI:
        """Return the discretization of the controller gain (1 + s/zero)/s by the trapezoidal rule.

        For example, gain 9.64e-6 and zero 0.53 at 160 Hz give a = 1.822e-5 and b = 1.816e-5 (Hollot, Misra, Towsley,
        Gong 2001, sec. IV).

        Parameters
        ----------
        gain : float, 1/(packet s), > 0
            Gain of the controller.
        zero : float, rad/s, > 0
            Its zero.
        interval : float, s, > 0, optional
            Time between updates.
        **parameters : object
            Other parameters of `PI`.
        """
        T = as_delay(interval, "interval", positive=True)
        for name, value in (("gain", gain), ("zero", zero)):
            if not 0.0 < value < inf:
                raise ValueError(f"{name} must be > 0, got {value:g}")
        if zero * T >= 2.0:
            raise ValueError(f"zero must be < 2/interval, {2.0 / T:g} rad/s, or b is not positive, got {zero:g}")
        return cls(a=gain / zero + 0.5 * gain * T, b=gain / zero - 0.5 * gain * T, interval=T, **parameters)

    @staticmethod
    def probability_law(prob: float) -> float:
        """Return the state itself."""
        return prob

    @property
    def states(self) -> Mapping[str, State]:
        return {"prob": State(next_probability, "interval", lowest=0.0, highest=1.0)}

    @dataclass
    class LinkState:
        """The state of a queue."""

        prob: float = 0.0
        q_prev: float = 0.0  # [packets]

    required_env = frozenset({"random"})

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float, queue: float = 0.0, **values: float) -> Any:
        """Return the state of a queue that has had a constant length."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.q_prev = queue / self.packet_size
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival, "on_interval": on_interval}


def on_arrival(link: PI.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose the packet at random."""
    congested_at_random(link.prob, p, env)


def on_interval(link: PI.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Update the probability."""
    q = env.queue / p.packet_size
    link.prob = next_probability(link.prob, q, link.q_prev, p)
    link.q_prev = q
    env.next_interval = p.interval
