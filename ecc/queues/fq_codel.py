"""FQ-CoDel (RFC 8290): a queue for each flow, by deficit round robin, with CoDel in each.

queue = hash(flow, direction) mod n; each queue has its own CoDel state (RFC 8289)
a queue that was empty is served first; a queue may send `quantum` bytes in a turn
a full buffer drops the first packet of the longest queue
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import SIZE, TIME
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.queues.codel import CoDel

MAX_QUEUES = 65536


def flow_queue(flow: int, kind: int, n: int) -> int:
    """Return the queue of a flow and a direction, by multiplicative hashing to 32 bits."""
    return (flow * 2 + kind) * 2654435761 % 4294967296 * n // 4294967296


@dataclass(frozen=True)
class FQCoDel(CoDel):
    """CoDel in each of many queues, with the defaults of RFC 8290.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`.
    target, interval
        As for `CoDel`.
    quantum : int, bytes, > 0
        Bytes that a queue may send in a turn.
    n_queues : int, from 1 to 65536
        Number of queues, for example 1024; flows with the same hash share a queue.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    quantum: int = 1514
    n_queues: int = 1024

    dimensions = {"target": TIME, "interval": TIME, "quantum": SIZE}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, quantum=None, n_queues=None)
        for name, value in (("quantum", float(self.quantum)), ("n_queues", float(self.n_queues))):
            if not value.is_integer():
                raise ValueError(f"{name} must be a whole number, got {value:g}")
            object.__setattr__(self, name, int(value))
        if self.n_queues > MAX_QUEUES:
            raise ValueError(f"n_queues must be <= {MAX_QUEUES}, got {self.n_queues}")

    @property
    def queues(self) -> Queues:
        return Queues("fq", (self.quantum,) * self.n_queues, drops_longest=True)

    def link_record(self) -> Any:
        zeros = (0,) * self.n_queues
        return self.LinkState((0.0,) * self.n_queues, zeros, (0.0,) * self.n_queues, zeros, zeros, zeros)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_classify": on_classify, **super().link_hooks()}


def on_classify(link: CoDel.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Assign the packet to the queue of its flow."""
    env.queue_index = flow_queue(env.flow, env.kind, int(p.n_queues))
