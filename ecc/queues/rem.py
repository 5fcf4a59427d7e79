"""REM, random exponential marking (Athuraliya, Low, Li, Yin 2001).

price <- max(0, price + gamma (alpha (q - q_ref) + x - c))   every T
prob   = 1 - phi^-price
x     <- (1 - w) x + w n                                     every T, as in ns-2

q, q_ref  queue and its reference   n  arrivals in T   c = C T   packets that the link can send in T   [all in packets]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.display import quantity_text
from ecc._support.quantity import TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.laws.elementary import exp, log
from ecc.network.network import Network
from ecc.queues.discipline import QueueDiscipline, congested_at_random

MIN_DELAY = 0.3  # RTTs; with shorter delays of the reference queue, CUBIC downloads used 41 to 98 % of links


def next_arrivals(arrivals: float, n: float, p: Params) -> float:
    """Return the average of the arrivals per interval, as in the authors' ns-2 code."""
    return (1.0 - p.weight) * arrivals + p.weight * n


def next_price(price: float, q: float, x: float, c: float, p: Params) -> float:
    """Return the next price."""
    return max(0.0, price + p.gamma * (p.alpha * (q - p.reference) + x - c))


def probability(price: float, p: Params) -> float:
    """Return the probability that a packet is chosen."""
    return 1.0 - exp(-price * log(p.phi))


def arrivals_law(arrivals: float, y: float, T: float, p: Params) -> float:
    """Return the average of the arrivals per interval for an arrival rate."""
    return next_arrivals(arrivals, y * T, p)


def price_law(price: float, q: float, arrivals: float, C: float, T: float, p: Params) -> float:
    """Return the next price for a capacity in packets/s."""
    return next_price(price, q, arrivals, C * T, p)


@dataclass(frozen=True)
class REM(QueueDiscipline):
    """Random exponential marking with the defaults of ns-2, except that arrivals are averaged (ns-2 has `weight` 1).

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`.
    gamma, alpha : float, > 0
        Gain of the price [1/packet], and weight of the queue relative to the rate.
    phi : float, > 1
        Base of the exponential marking probability.
    reference : float, packets, >= 0
        Reference queue, q_ref.
    interval : float, s, > 0
        Time between updates, T.
    weight : float, in (0, 1]
        Weight of an interval in the average of the arrivals, w.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    gamma: float = 0.001
    alpha: float = 0.1
    phi: float = 1.001
    reference: float = 20.0
    interval: Quantity = 0.002
    weight: float = 0.02

    dimensions = {"interval": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, gamma=None, alpha=None, phi=None, reference=0.0, interval=as_delay, weight=None)
        if self.phi <= 1.0:
            raise ValueError(f"phi must be > 1, got {self.phi:g}")
        if self.weight > 1.0:
            raise ValueError(f"weight must be <= 1, got {self.weight:g}")

    def network_notes(self, network: Network) -> tuple[str, ...]:
        """Note a reference queue with a delay below 0.3 RTT or above an RTT."""
        delay = 8.0 * self.reference * self.packet_size / float(network.capacities[0])
        queue = f"the reference queue of {self.reference:g} packets is a delay of {quantity_text(delay, 's')}"
        shortest, longest = float(network.rtts.min()), float(network.rtts.max())
        if delay > longest:
            return (f"{queue}, longer than all RTTs, which are up to {quantity_text(longest, 's')}",)
        if delay < MIN_DELAY * shortest:
            longer = f"RTTs of {quantity_text(shortest, 's')} and more"
            return (f"{queue}, short for {longer}: losses of several downloads may empty the link",)
        return ()

    probability_law = staticmethod(probability)

    @property
    def states(self) -> Mapping[str, State]:
        return {
            "arrivals": State(arrivals_law, "interval", unit="packets", lowest=0.0),
            "price": State(price_law, "interval", lowest=0.0),
        }

    @dataclass
    class LinkState:
        """The state of a queue."""

        prob: float = 0.0
        price: float = 0.0
        arrivals: float = 0.0  # average per interval [packets]
        arrived: float = 0.0  # arrivals so far in this interval [packets]

    required_env = frozenset({"random"})

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float, **values: float) -> Any:
        """Return the state of a queue that has had a constant price."""
        link = super().link_at(R, y, mean_rtt, max_rtt, **values)
        link.prob = R
        return link

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": on_arrival, "on_interval": on_interval}


def on_arrival(link: REM.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Count the packet, and choose it at random."""
    link.arrived += env.packet_size / p.packet_size
    congested_at_random(link.prob, p, env)


def on_interval(link: REM.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Update the price."""
    link.arrivals = next_arrivals(link.arrivals, link.arrived, p)
    link.arrived = 0.0
    c = env.capacity * p.interval / (8.0 * p.packet_size)
    link.price = next_price(link.price, env.queue / p.packet_size, link.arrivals, c, p)
    link.prob = probability(link.price, p)
    env.next_interval = p.interval
