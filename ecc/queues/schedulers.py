"""Several queues behind a link, each first in, first out: strict priority, and deficit round robin.

Flow k joins queue classes[k mod len(classes)], and so do its ACKs. Which queue is next:

StrictPriority   the first that is not empty
DRR              in turns of quantum * weight bytes (Shreedhar, Varghese 1996)

A full buffer drops the first packet of the longest queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import SIZE, as_count, as_number
from ecc.contract.env import Hook
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol


def numbers(values: object, name: str) -> tuple[Any, ...]:
    """Return what a parameter that is a sequence of numbers is."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise TypeError(f"{name} must be a sequence of numbers, one at least, got {shown(values)}")
    return tuple(as_number(value, name) for value in values)


def classes_of(values: object, n: int | None, none: bool = False) -> tuple[int, ...]:
    """Return classes of flows, each of which exists; `none`: there may be none."""
    found = () if none and isinstance(values, tuple | list) and not values else numbers(values, "classes")
    for value in found:
        if value < 0 or value != int(value) or (n is not None and value >= n):
            allowed = "whole numbers >= 0" if n is None else f"from 0 to {n - 1}, as many as weights"
            raise ValueError(f"classes must be {allowed}, got {value:g}")
    return tuple(map(int, found))


def relabeled_classes(classes: Sequence[int], flows: Sequence[int]) -> tuple[int, ...]:
    """Return the class of each flow of a relabeled network.

    Parameters
    ----------
    classes : sequence of int
        Class of each flow of the old network, repeated as often as needed.
    flows : sequence of int
        For each flow of the new network, the flow of the old one of which it is a copy.
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
    """Packets of the first class go first.

    Parameters
    ----------
    classes : tuple of int, >= 0
        Class of each flow, again from the first where there are more flows; 0 goes first.

    Raises
    ------
    ValueError, TypeError
        A class that cannot be.
    """

    classes: tuple[int, ...] = (0, 1)

    times = ()
    linear_refusal = "StrictPriority has no linear model: it chooses no packets"
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
    """Deficit round robin: every class has the share of its weight.

    Parameters
    ----------
    weights : tuple of float, > 0
        One a class.
    classes : tuple of int
        Class of each flow, again from the first where there are more flows; empty: 0, 1, ..., one after the other.
    quantum : float, bytes, > 0
        What a class of weight 1 may send in a turn; at least a packet, for turns to be short.

    Raises
    ------
    ValueError, TypeError
        A weight that is not above 0, or a class that does not exist.
    """

    weights: tuple[float, ...] = (1.0, 1.0)
    classes: tuple[int, ...] = ()
    quantum: float = 1500.0

    dimensions = {"quantum": SIZE}

    times = ()
    linear_refusal = "DRR has no linear model: it chooses no packets"
    gives = frozenset()
    LinkState = Classes

    def __post_init__(self) -> None:
        check_number(self, quantum=None)
        weights = numbers(self.weights, "weights")
        if not all(weight > 0.0 for weight in weights):
            raise ValueError(f"weights must be > 0, got {min(weights):g}")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "classes", classes_of(self.classes, len(weights), none=True))

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


def on_classify(link: Any, header: Any, p: Any, env: Any) -> None:
    """Look the flow up."""
    env.queue_index = link.classes[env.flow % len(link.classes)]
