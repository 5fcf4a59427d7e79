"""FQ-CoDel (RFC 8290): a queue for each flow, by deficit round robin, with CoDel in each.

queue = hash(flow, direction) mod n   each of them with a state of CoDel (RFC 8289)
a queue that was empty has its turn first; it may send `quantum` bytes in a turn
a full buffer drops the first packet of the longest queue
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.quantity import SIZE, TIME
from ecc.contract.env import Hook
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.queues.codel import CoDel

MOST_QUEUES = 65536


def hashed(flow: Any, kind: Any, n: Any) -> Any:
    """The queue of a flow and a direction: multiplicative hashing to 32 bits."""
    return (flow * 2 + kind) * 2654435761 % 4294967296 * n // 4294967296


@dataclass(frozen=True)
class FQCoDel(CoDel):
    """CoDel in each of many queues; defaults as in its RFC.

    Parameters
    ----------
    mark, packet_size
        As of every `QueueDiscipline`.
    target, interval
        As of `CoDel`.
    quantum : int, bytes, > 0
        What a queue may send in a turn.
    n_queues : int, from 1 to 65536
        Flows whose hashes agree share one.

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
        if self.n_queues > MOST_QUEUES:
            raise ValueError(f"n_queues must be <= {MOST_QUEUES}, got {self.n_queues}")

    @property
    def queues(self) -> Queues:
        return Queues("fq", (self.quantum,) * self.n_queues, drops_longest=True)

    def link_record(self) -> Any:
        none = (0,) * self.n_queues
        return self.LinkState((0.0,) * self.n_queues, none, (0.0,) * self.n_queues, none, none, none)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_classify": on_classify, **super().link_hooks()}


def on_classify(link: Any, header: Any, p: Any, env: Any) -> None:
    """Hash the flow."""
    env.queue_index = hashed(env.flow, env.kind, int(p.n_queues))
