"""Several first-in, first-out queues in front of a link: strict priority, and deficit round robin.

Flow k and its ACKs join queue classes[k mod len(classes)]. The next queue to be served is

StrictPriority   the first nonempty one
DRR              selected in turns of quantum * weight bytes (Shreedhar, Varghese 1996)

A full buffer drops the first packet of the longest queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import SIZE, as_count, as_number
from ecc.contract.env import Hook, LinkEnv, Params
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol


def number_tuple(values: object, name: str) -> tuple[Any, ...]:
    """Return a parameter that must be a nonempty sequence of numbers, as a tuple."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise TypeError(f"{name} must be a nonempty sequence of numbers, got {shown(values)}")
    return tuple(as_number(value, name) for value in values)


def classes_of(values: object, n: int | None, allow_empty: bool = False) -> tuple[int, ...]:
    """Return the classes of flows, after a check that each exists (0 to n - 1); `allow_empty` permits no classes."""
    classes = () if allow_empty and isinstance(values, tuple | list) and not values else number_tuple(values, "classes")
    for value in classes:
        if value < 0 or value != int(value) or (n is not None and value >= n):
            allowed = "whole numbers >= 0" if n is None else f"from 0 to {n - 1} (one class per weight)"
            raise ValueError(f"classes must be {allowed}, got {value:g}")
    return tuple(map(int, classes))


def relabeled_classes(classes: Sequence[int], flows: Sequence[int]) -> tuple[int, ...]:
    """Return the class of each flow of a relabeled network.

    Parameters
    ----------
    classes : sequence of int
        Class of each flow of the old network, repeated cyclically.
    flows : sequence of int
        For each flow of the new network, the index of the flow in the old network that it copies.
    """
    if isinstance(flows, str) or not isinstance(flows, Iterable):
        raise TypeError(f"flows must be a sequence of flow indices, got {shown(flows)}")
    order = [as_count(flow, "flows") for flow in flows]
    if order == list(range(len(order))):
        return tuple(classes)
    return tuple(classes[flow % len(classes)] for flow in order)


@dataclass
class Classes:
    """The class of each flow."""

    classes: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class StrictPriority(Protocol):
    """Service of the first class before all others.

    Parameters
    ----------
    classes : tuple of int, >= 0
        Class of each flow, repeated cyclically if there are more flows; class 0 is served first.

    Raises
    ------
    ValueError, TypeError
        A class that is not a whole number >= 0.
    """

    classes: tuple[int, ...] = (0, 1)

    times = ()
    linear_refusal = "StrictPriority has no linear model: it signals no congestion"
    gives = frozenset()
    LinkState = Classes

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", classes_of(self.classes, None))

    def relabeled(self, flows: Sequence[int]) -> StrictPriority:
        return replace(self, classes=relabeled_classes(self.classes, flows))

    @property
    def queues(self) -> Queues:
        return Queues("priority", (1,) * (1 + max(self.classes)), drops_longest=True)

    def link_record(self) -> Any:
        return Classes(self.classes)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_classify": on_classify}


@dataclass(frozen=True)
class DRR(Protocol):
    """Deficit round robin: every class gets a share of the capacity in proportion to its weight.

    Parameters
    ----------
    weights : tuple of float, > 0
        Weight of each class.
    classes : tuple of int
        Class of each flow, repeated cyclically if there are more flows; if empty, flow k belongs to class k modulo the
        number of classes.
    quantum : float, bytes, > 0
        Bytes that a class of weight 1 may send in a turn, for example 1500; for short turns, a packet or more.

    Raises
    ------
    ValueError, TypeError
        A weight that is not > 0, or a class that does not exist.
    """

    weights: tuple[float, ...] = (1.0, 1.0)
    classes: tuple[int, ...] = ()
    quantum: float = 1500.0

    dimensions = {"quantum": SIZE}

    times = ()
    linear_refusal = "DRR has no linear model: it signals no congestion"
    gives = frozenset()
    LinkState = Classes

    def __post_init__(self) -> None:
        check_number(self, quantum=None)
        weights = number_tuple(self.weights, "weights")
        if not all(weight > 0.0 for weight in weights):
            raise ValueError(f"weights must be > 0, got {min(weights):g}")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "classes", classes_of(self.classes, len(weights), allow_empty=True))

    def relabeled(self, flows: Sequence[int]) -> DRR:
        return replace(self, classes=relabeled_classes(self.classes or tuple(range(len(self.weights))), flows))

    @property
    def queues(self) -> Queues:
        quanta = tuple(max(1, round(self.quantum * weight)) for weight in self.weights)
        return Queues("drr", quanta, drops_longest=True)

    def link_record(self) -> Any:
        return Classes(self.classes or tuple(range(len(self.weights))))

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_classify": on_classify}


def on_classify(link: Classes, header: Any, p: Params, env: LinkEnv) -> None:
    """Put the packet into the queue of its flow's class."""
    env.queue_index = link.classes[env.flow % len(link.classes)]
