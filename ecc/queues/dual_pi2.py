"""DualPI2 (RFC 9332): a queue for scalable flows and one for classic flows, coupled.

p' <- p' + alpha (d - target) + beta (d - d_prev)   every T; 0 <= p' <= 1
a packet of the classic queue is chosen with p'^2
a packet of the low-latency queue is marked   if it has waited for more than `step`, else with k p';
                                              if k p' >= 1 it is first dropped with p'^2
d   waiting time of the first packet, the longer one of the two queues [s]   alpha, beta [1/s]   k  coupling

Packets with ECT(1) or CE join the low-latency queue. If neither queue is empty, the classic one gets `classic_share` of
the capacity, by deficit round robin. Defaults are those of Linux (sch_dualpi2). Not here: an addition of that code, no
choice while two packets or fewer are queued.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ecc._support.arguments import check_arguments
from ecc._support.quantity import PER_TIME, TIME, Quantity, as_delay
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.queues.discipline import QueueDiscipline, congested_at_random
from ecc.queues.pi2 import PI2, classic, coupled, next_root

LOW_LATENCY, CLASSIC = 0, 1  # indices of the queues


@dataclass(frozen=True)
class DualPI2(QueueDiscipline):
    """PI2 over two queues.

    Parameters
    ----------
    mark, packet_size
        As for every `QueueDiscipline`, for the classic queue; packets of the low-latency queue are always marked.
    target : float, s, > 0
        Target delay of the classic queue.
    interval : float, s, > 0
        Time between updates, T.
    alpha : float, 1/s, > 0
        Gain of the delay's distance from the target.
    beta : float, 1/s, > 0
        Gain of the delay's change since the last update.
    coupling : float, > 0
        Coupling factor, k.
    step : float, s, > 0
        Time for which packets of the low-latency queue may wait unmarked.
    classic_share : float, in (0, 1)
        Minimum share of the capacity for the classic queue.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    mark: bool = field(default=True, kw_only=True)
    target: Quantity = 0.015
    interval: Quantity = 0.016
    alpha: float = 41.0 / 256.0
    beta: float = 819.0 / 256.0
    coupling: float = 2.0
    step: Quantity = 0.001
    classic_share: float = 0.1

    dimensions = {"target": TIME, "interval": TIME, "alpha": PER_TIME, "beta": PER_TIME, "step": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, target=as_delay, interval=as_delay, alpha=None, beta=None, coupling=None, step=as_delay)
        check_number(self, classic_share=None)
        if self.classic_share >= 1.0:
            raise ValueError(f"classic_share must be < 1, got {self.classic_share:g}")

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"ecn"})

    @property
    def queues(self) -> Queues:
        cycle = 10.0 * self.packet_size
        return Queues(
            "drr", (max(1, round(cycle * (1.0 - self.classic_share))), max(1, round(cycle * self.classic_share)))
        )

    @check_arguments
    def marking_threshold(self, capacity: float, is_scalable: bool) -> float | None:
        """The step, for scalable flows alone: the controller is then at 0, since delays are below its target."""
        return capacity * self.step / 8.0 if is_scalable and self.step < self.target else None  # type: ignore[operator]

    @property
    def classic_queue(self) -> PI2:
        """The `PI2` that this discipline is for classic flows alone, for linear models and proofs.

        It chooses packets at their arrival instead of their departure, so that its signals are later by the waiting
        time. Unresponsive flows with the share u of the capacity C act on the others as a capacity (1 - u) C, after
        the few RTTs in which the shares of the queue adjust.
        """
        names = ("mark", "packet_size", "target", "interval", "alpha", "beta", "coupling")
        return PI2(**{name: getattr(self, name) for name in names})

    @dataclass
    class LinkState:
        """The state of the controller, common to both queues."""

        root: float = 0.0  # p'
        d_prev: float = 0.0  # [s]

    required_env = frozenset({"random"})

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_classify": on_classify, "on_dequeue": on_dequeue, "on_interval": on_interval}


def on_classify(link: DualPI2.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Put packets with ECT(1) and CE into the low-latency queue."""
    env.queue_index = LOW_LATENCY if env.ecn == 1 or env.ecn == 3 else CLASSIC


def on_dequeue(link: DualPI2.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Choose at random; in the low-latency queue, mark every packet that has waited for more than the step."""
    scalable = coupled(link.root, p.coupling)
    if env.queue_index == CLASSIC:
        congested_at_random(classic(link.root), p, env)
    elif scalable >= 1.0 and env.random < classic(link.root):
        env.drop = 1
    elif env.sojourn > p.step or env.random < scalable:
        env.mark = 1


def on_interval(link: DualPI2.LinkState, header: Any, p: Params, env: LinkEnv) -> None:
    """Update the root of the probability."""
    link.root = next_root(link.root, env.sojourn, link.d_prev, p)
    link.d_prev = env.sojourn
    env.next_interval = p.interval
