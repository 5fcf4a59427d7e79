"""A policer: a bucket of tokens, one for each byte, that fills at a rate; a packet that lacks tokens is dropped.

level  <- min(B, level + r (t - s))                     at each arrival, at time t; the previous arrival was at s
the packet is chosen   b > level, else level <- level - b

level  tokens [bytes]   B  burst [bytes]   r  rate [bytes/s]   b  packet [bytes]

In any time of length T, B + r T bytes or fewer pass: RFC 2697 with an excess burst of 0 (green passes, red is chosen).
The fluid model shares out the last packet of tokens, or the arrivals in a step of length h if these are more:

level' = r - (1 - P) y    up to B        P = max(0, 1 - level/max(b, y h))    y  arrival rate [bytes/s]

Then P is 1 - r/y if the arrival rate stays above r, as in packet runs. P is that of the previous step: the level may
fall below 0 by the bytes that pass in one step, and nothing passes until these are paid back. In any time of length T,
B + r T bytes or fewer pass, plus those of one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.display import quantity_text
from ecc._support.quantity import RATE, SIZE, QuantityField, SizeField, as_rate, as_size, default
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.states import State
from ecc.network.network import Network
from ecc.queues.discipline import QueueDiscipline, congested

SMALL_SHARE = 0.1  # share of the capacity below which a rate is noted
ROUNDING = 1e-6  # bytes: a level this much below a packet size is a rounding error; the packet passes


def level_at_arrival(level: float, elapsed: float, p: Params) -> float:
    """Return the tokens at the next arrival."""
    return min(p.burst, level + p.rate / 8.0 * elapsed)


def level_law(y_passed: float, p: Params) -> float:
    """Return the rate of change of the tokens, in packets/s."""
    return p.rate / (8.0 * p.packet_size) - y_passed


def probability_law(level: float, y: float, T: float) -> float:
    """Return the share of packets that find too few tokens."""
    return min(max(1.0 - level / max(1.0, y * T), 0.0), 1.0)


@dataclass(frozen=True)
class Policer(QueueDiscipline):
    """A token-bucket policer in front of the queue of a link.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`. Marked packets pass without tokens. A policer counts bytes: only its fluid model
        uses `packet_size`.
    rate : float, bit/s, > 0
        Rate at which the bucket fills.
    burst : int, bytes, > 0
        Size of the bucket, which is full at the start. A larger packet never passes.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.

    Examples
    --------
    >>> Policer(rate="5 Mb/s", burst="30 kB").burst
    30000
    """

    rate: QuantityField = default(1e6)
    burst: SizeField = default(15_000)

    dimensions = {"rate": RATE, "burst": SIZE}

    probability_law = staticmethod(probability_law)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rate", as_rate(self.rate, "rate"))
        object.__setattr__(self, "burst", as_size(self.burst, "burst"))

    def network_notes(self, network: Network) -> tuple[str, ...]:
        """Note a rate that is not below the capacity, or only a small share of it."""
        capacity = float(network.capacities[0])
        rate, share = quantity_text(self.rate, "bit/s"), float(self.rate) / capacity
        of = f"the capacity, {quantity_text(capacity, 'bit/s')}"
        if share >= 1.0:
            return (f"the rate of {rate} is not below {of}: it limits bursts only",)
        return (f"the rate of {rate} is {100.0 * share:.2g} % of {of}",) if share < SMALL_SHARE else ()

    @property
    def states(self) -> Mapping[str, State]:
        max_level = self.burst / self.packet_size
        return {"level": State(level_law, "continuous", max_level, unit="packets", highest=max_level)}

    @dataclass
    class LinkState:
        """The bucket, and counters of the packets that found too few tokens."""

        level: float = -1.0  # [bytes]; < 0 before the start
        last: float = 0.0  # time of the previous arrival [s]
        policed: int = 0  # packets that found too few tokens
        policed_bytes: int = 0

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_start": on_start, "on_arrival": on_arrival}


def on_start(link: Policer.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Fill the bucket."""
    link.level = p.burst


def on_arrival(link: Policer.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Take a token for each byte of the packet, or choose the packet if there are too few."""
    link.level = level_at_arrival(link.level, env.now - link.last, p)
    link.last = env.now
    if env.packet_size > link.level + ROUNDING:
        link.policed += 1
        link.policed_bytes += env.packet_size
        congested(p, env)
    else:
        link.level -= env.packet_size
