"""The base of all queue disciplines, which have a queue part and no host part, and the signals for a chosen packet.

A discipline is a frozen dataclass of parameters, derived from `QueueDiscipline`, in its own file. Its laws, plain
scalar functions in packets and seconds, are followed by a `LinkState`, the state of one queue, and hooks that update it
with the laws. `probability_law` and `states` name the laws for fluid and linear models (`ecc.contract`). A discipline
without a `probability_law` has no linear model; fluid runs use its hooks, if it examines packets only when they are
about to be served (`on_dequeue`). It is deployed at links: `Scenario(protocol={"flows": {"default": NewReno()},
"links": {0: RED()}})`. The queue of a link includes the packet in service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc._support.arguments import check_arguments
from ecc._support.quantity import SIZE
from ecc.contract.env import LinkEnv, Params
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
        Whether ECN-capable packets are marked instead of dropped. All others are dropped (RFC 3168, sec. 5).
    packet_size : float, bytes, > 0
        Packet size in which the discipline counts its queue.
    """

    mark: bool = field(default=False, kw_only=True)
    packet_size: float = field(default=1000.0, kw_only=True)

    dimensions = {"packet_size": SIZE}

    times = ()

    def __post_init__(self) -> None:
        check_choice(self, "mark", (True, False))
        check_number(self, packet_size=None)

    def link_at(self, R: float, y: float, mean_rtt: float, max_rtt: float, **values: float) -> Any:
        """Return the state of a queue, with the values of `states` in the fields of the same names."""
        return record_at(self.link_record(), values)

    @check_arguments
    def marking_threshold(self, capacity: float, is_scalable: bool) -> float | None:
        """Return the queue above which all packets are marked, and none below it [bytes]; None: another rule.

        Parameters
        ----------
        capacity : float, bit/s
            Capacity of the link.
        is_scalable : bool
            Whether all packets at the link are those of scalable flows (ECT(1)).
        """
        return None

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"ecn"} if self.mark else ())

    @property
    def linear_refusal(self) -> str | None:
        name = type(self).__name__
        return f"{name} is for links; add hosts, as in {{'flows': NewReno(ecn=True), 'links': {name}(mark=True)}}"


def congested(p: Params, env: LinkEnv) -> None:
    """Signal congestion to the flow of a packet, in a hook: by a mark if configured and possible, else by a drop."""
    if p.mark > 0.0 and env.ecn != 0:
        env.mark = 1
    else:
        env.drop = 1


def congested_at_random(probability: float, p: Params, env: LinkEnv) -> None:
    """Signal congestion with this probability; a discipline that uses it has "random" in its `required_env`."""
    if env.random < probability:
        congested(p, env)
