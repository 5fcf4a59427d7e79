"""A policer: a bucket of tokens, one for each byte, that fills at a rate; what finds too few of them is dropped.

level  <- min(B, level + r (t - s))                     each arrival, at t, the one before at s
the packet is chosen   b > level, else level <- level - b

level  tokens [bytes]   B  burst [bytes]   r  rate [bytes/s]   b  packet [bytes]

In any time of length T at most B + r T bytes pass: RFC 2697 with an excess burst of 0 (green passes, red is chosen).
As fluid, the last packet of tokens, or what comes in a step of length h if that is more, is given out in parts:

level' = r - (1 - P) y    up to B        P = max(0, 1 - level/max(b, y h))    y  what comes [bytes/s]

so that P is 1 - r/y where more than r keeps coming, as in packets. P is that of the step before: the level falls below
0 by what passes in one step at most, and nothing more passes until that is paid back. In any time of length T at most
B + r T pass, and what passes in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import RATE, SIZE, QuantityField, SizeField, as_rate, as_size, default
from ecc.contract.env import Hook
from ecc.contract.states import State
from ecc.queues.discipline import QueueDiscipline, congested

ROUNDING = 1e-6  # bytes: a level that is that much below a packet is rounded, and has room for it


def filled(level: Any, passed: Any, p: Any) -> Any:
    """The tokens at the next arrival."""
    return min(p.burst, level + p.rate / 8.0 * passed)


def level_law(y_passed: Any, p: Any) -> Any:
    """How the tokens change, in packets."""
    return p.rate / (8.0 * p.packet_size) - y_passed


def probability_law(level: Any, y: Any, T: Any) -> Any:
    """What finds too few tokens."""
    return min(max(1.0 - level / max(1.0, y * T), 0.0), 1.0)


@dataclass(frozen=True)
class Policer(QueueDiscipline):
    """A token-bucket policer before the queue of a link.

    Parameters
    ----------
    mark, packet_size
        As of every `QueueDiscipline`. What is marked passes without tokens. A policer counts bytes: `packet_size` is of
        its fluid.
    rate : float, bit/s, > 0
        At which the bucket fills.
    burst : int, bytes, > 0
        That the bucket holds, and has at the start. A larger packet never passes.

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

    @property
    def states(self) -> Mapping[str, State]:
        most = self.burst / self.packet_size
        return {"level": State(level_law, "continuous", most, unit="packets", highest=most)}

    @dataclass
    class LinkState:
        """The bucket, and what found too few tokens in it."""

        level: float = -1.0  # [bytes]; < 0 before the start
        last: float = 0.0  # arrival [s]
        policed: int = 0  # packets ...
        policed_bytes: int = 0

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_start": on_start, "on_arrival": on_arrival}


def on_start(link: Any, header: Any, p: Any, env: Any) -> None:
    """The bucket begins full."""
    link.level = p.burst


def on_arrival(link: Any, header: Any, p: Any, env: Any) -> None:
    """Take a token for each byte of the packet, or choose it."""
    link.level = filled(link.level, env.now - link.last, p)
    link.last = env.now
    if env.packet_size > link.level + ROUNDING:
        link.policed += 1
        link.policed_bytes += env.packet_size
        congested(p, env)
    else:
        link.level -= env.packet_size
