"""A queue discipline in one file: it drops or marks packets with one probability."""

from dataclasses import dataclass

from ecc.models.base import check_number
from ecc.queues.discipline import QueueDiscipline, congested_at_random


@dataclass(frozen=True)
class RandomDrop(QueueDiscipline):
    probability: float = 0.01
    required_env = frozenset({"random"})  # makes the engine draw env.random

    def __post_init__(self):
        super().__post_init__()
        check_number(self, probability=0.0)  # >= 0

    def link_hooks(self):
        return {"on_arrival": on_arrival}


def on_arrival(link, header, p, env):
    congested_at_random(p.probability, p, env)
