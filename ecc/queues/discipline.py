"""What all queue disciplines share: a queue part without a host part, and what is done with a packet that is chosen.

A discipline is a frozen dataclass of parameters, derived from `QueueDiscipline`, in a file of its own: its laws, plain
scalar functions in packets and seconds, first; then a `LinkState`, the state of one queue, and hooks that keep it and
call the laws. `probability_law` and `states` name the laws for fluid and linear models (`ecc.contract`). Without a
`probability_law` it has no linear model, and is run as fluid by its hooks, if it looks at packets no sooner than they
are to be served (`on_dequeue`). It is deployed at links: `Scenario(protocol={"flows": {"default": NewReno()}, "links":
{0: RED()}})`. The queue of a link includes the packet in service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc._support.quantity import SIZE
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.protocol import Protocol
from ecc.contract.values import record_at

__all__ = ["QueueDiscipline", "congested", "congested_at_random"]


@dataclass(frozen=True)
class QueueDiscipline(Protocol):
    """Base of the disciplines that drop or mark packets before a queue is full.

    Parameters
    ----------
    mark : bool
        Whether packets that can be marked (ECN) are marked instead of dropped. All others are dropped (RFC 3168, sec.
        5).
    packet_size : float, bytes, > 0
        Of a packet, in which the discipline counts its queue.
    """

    mark: bool = field(default=False, kw_only=True)
    packet_size: float = field(default=1000.0, kw_only=True)

    dimensions = {"packet_size": SIZE}

    times = ()

    def __post_init__(self) -> None:
        check_choice(self, "mark", (True, False))
        check_number(self, packet_size=None)

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float, **values: float) -> Any:
        """Return the state of a queue, with its `states` in the fields of their names."""
        return record_at(self.link_record(), values)

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"ecn"} if self.mark else ())

    @property
    def linear_refusal(self) -> str | None:
        name = type(self).__name__
        return f"{name} is for links: {{'flows': NewReno(ecn=True), 'links': {name}(mark=True)}} has hosts over it"


def congested(p: Any, env: Any) -> None:
    """Signal congestion to the flow of a packet, in a hook: by a mark where it is wanted and possible, or a drop."""
    if p.mark > 0.0 and env.ecn != 0:
        env.mark = 1
    else:
        env.drop = 1


def congested_at_random(probability: Any, p: Any, env: Any) -> None:
    """Signal congestion with a probability; the discipline has "random" in its `required_env`."""
    if env.random < probability:
        congested(p, env)
