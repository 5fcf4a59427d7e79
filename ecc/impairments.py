"""What a network does to packets beside queueing them: losses, delay spikes, jitter, capacities that change.

An impairment of packets acts on the wire of a `link` (after the queue: what is lost there has used capacity), or on the
pure delay of the ACKs of some flows, `acks_of`. Losses come before delays, spikes before jitter; exactly:
docs/engine_specification.md, S-93 to S-97.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ecc.arguments import check_arguments, shown
from ecc.network import Network, from_table, to_table
from ecc.quantity import (
    QuantitiesField,
    Quantity,
    QuantityField,
    as_choice,
    as_count,
    as_delay,
    as_number,
    as_rate,
    as_time,
    default,
    required,
)

__all__ = [
    "CapacitySchedule", "DelaySpikes", "Impairment", "Jitter", "RandomLoss", "check_impairments",
    "impairment_from_table", "impairment_to_table",
]  # fmt: skip

LOSS_KINDS = ("data", "ack", "all")


@check_arguments
@dataclass(frozen=True)
class RandomLoss:
    """Every packet is lost with the same probability, independently of the others.

    Parameters
    ----------
    probability : float, from 0 to 1
    link : int or None
        Link index, or None.
    acks_of : object
        Flow index, a list of them, "all" (transfers too), or None. One of both.
    kind : str
        "data", "ack" or "all": which packets of the link are lost. Those of `acks_of` are ACKs.

    Raises
    ------
    ValueError
        A value out of range, none or both of link and acks_of.
    TypeError
        A wrong kind.

    Notes
    -----
    Receivers count what is missing and ACKs report it: lost ACKs are not taken for lost data.

    Examples
    --------
    >>> RandomLoss(0.1, link=0).kind
    'data'
    """

    probability: float
    link: int | None = None
    acks_of: Any = None
    kind: str = "data"

    def __post_init__(self) -> None:
        probability = as_number(self.probability, "probability", minimum=0.0)
        if probability > 1.0:
            raise ValueError(f"probability must be <= 1, got {shown(self.probability)}")
        object.__setattr__(self, "probability", probability)
        as_choice(self.kind, "kind", LOSS_KINDS)
        _place(self)


@check_arguments
@dataclass(frozen=True)
class DelaySpikes:
    """Packets pass a queue that serves most of them at once, and now and then one of them slowly (JETMAX sec. 3.5).

    Parameters
    ----------
    every : tuple of two int
        (lo, hi), packets, >= 1. From spike to spike, drawn uniformly each time.
    delay : tuple of two Quantity
        (lo, hi), s, >= 0. That a spike takes, drawn uniformly each time.
    between : float, s, >= 0
        That the service of any other packet takes.
    link, acks_of : int or None, object
        As in RandomLoss.

    Raises
    ------
    ValueError, TypeError
        As RandomLoss.

    Notes
    -----
    First in, first out: packets that come during a spike wait for its end. The defaults are those of JETMAX fig. 3.

    Examples
    --------
    >>> DelaySpikes(acks_of="all").delay
    (0.5, 1.0)
    """

    every: tuple[int, int] = (5000, 10000)
    delay: tuple[Quantity, Quantity] = (0.5, 1.0)
    between: QuantityField = default(1e-5)
    link: int | None = None
    acks_of: Any = None

    def __post_init__(self) -> None:
        lo, hi = _range(self.every, "every")
        object.__setattr__(self, "every", _ordered((as_count(lo, "every", minimum=1), as_count(hi, "every")), "every"))
        object.__setattr__(self, "delay", _times(self.delay))
        object.__setattr__(self, "between", as_delay(self.between, "between"))
        _place(self)


@check_arguments
@dataclass(frozen=True)
class Jitter:
    """Every packet takes longer by a delay of its own.

    Parameters
    ----------
    delay : tuple of two Quantity
        (lo, hi), s, 0 <= lo <= hi, > 0. Drawn uniformly for each packet.
    link, acks_of : int or None, object
        As in RandomLoss.
    in_order : bool
        True: no packet overtakes another; those after a slow one wait for it. False: packets may overtake.

    Raises
    ------
    ValueError, TypeError
        As RandomLoss.

    Notes
    -----
    Where data may be overtaken, a gap is a loss once three packets from beyond it have come (RFC 5681 sec. 3.2); what
    comes after that is received, but no longer counted as delivered.

    Examples
    --------
    >>> Jitter((0.0, "5 ms"), link=0, in_order=False).delay
    (0.0, 0.005)
    """

    delay: tuple[Quantity, Quantity]
    link: int | None = None
    acks_of: Any = None
    in_order: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", _times(self.delay))
        if self.delay[1] == 0.0:
            raise ValueError(f"delay must end above 0 s, got {shown(self.delay)}")
        if not isinstance(self.in_order, bool):
            raise TypeError(f"in_order must be True or False, got {shown(self.in_order)}")
        _place(self)


@check_arguments
@dataclass(frozen=True)
class CapacitySchedule:
    """The capacity of a link from given times on; before them it is the link's own.

    Parameters
    ----------
    link : int
        Link index.
    times : sequence of Quantity
        Increasing times, s, >= 0.
    capacities : sequence of Quantity
        Shape of times, bit/s, >= 0; 0 is an outage.

    Raises
    ------
    ValueError, TypeError
        As RandomLoss; times that do not increase, lists of different lengths.

    Notes
    -----
    A packet in service is served at the new capacity from the instant of the change on. Routers see the capacity
    of the moment, and in an outage the one before it: they see the queue grow.

    Examples
    --------
    >>> CapacitySchedule(0, [10.0, 20.0], ["5 Mb/s", "10 Mb/s"]).capacities
    (5000000.0, 10000000.0)
    """

    link: int
    times: QuantitiesField = required()
    capacities: QuantitiesField = required()

    def __post_init__(self) -> None:
        for name in ("times", "capacities"):
            if isinstance(getattr(self, name), str) or not isinstance(getattr(self, name), Iterable):
                raise TypeError(f"{name} must be a sequence, got {shown(getattr(self, name))}")
        times = tuple(as_time(time, "times") for time in self.times)
        capacities = tuple(as_rate(capacity, "capacities", positive=False) for capacity in self.capacities)
        if not times or len(times) != len(capacities):
            raise ValueError(f"capacities must be one for each of {len(times)} times, got {len(capacities)}")
        if any(b <= a for a, b in zip(times, times[1:], strict=False)):
            raise ValueError(f"times must increase, got {list(times)}")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "capacities", capacities)
        object.__setattr__(self, "link", as_count(self.link, "link"))


Impairment: TypeAlias = RandomLoss | DelaySpikes | Jitter | CapacitySchedule
KINDS: dict[str, type[Impairment]] = {
    kind.__name__: kind for kind in (RandomLoss, DelaySpikes, Jitter, CapacitySchedule)
}


@check_arguments
def check_impairments(impairments: Any, network: Network) -> tuple[Impairment, ...]:
    """Return impairments as a tuple, refusing those whose link or flow the network has not.

    Parameters
    ----------
    impairments : object
        Sequence of impairments.
    network : Network

    Raises
    ------
    TypeError
        Something else.
    ValueError
        An unknown link or flow, or two of a kind for one of them.
    """
    found = tuple(impairments) if isinstance(impairments, Iterable) else None
    if found is None or not all(isinstance(one, tuple(KINDS.values())) for one in found):
        raise TypeError(f"impairments must be a sequence of {', '.join(KINDS)}, got {shown(impairments)}")
    taken = set()
    for index, one in enumerate(found):
        name = type(one).__name__
        flows = () if isinstance(one, CapacitySchedule) else flows_of(one, network.n_flows)
        if one.link is not None and one.link >= network.n_links:
            raise ValueError(f"link must be from 0 to {network.n_links - 1}, got {one.link} (impairments[{index}])")
        for flow in flows:
            if flow >= network.n_flows:
                raise ValueError(f"acks_of must be from 0 to {network.n_flows - 1}, got {flow} (impairments[{index}])")
        where = [("link", one.link)] if one.link is not None else [("ACKs of flow", flow) for flow in flows]
        kinds = LOSS_KINDS[:2] if isinstance(one, RandomLoss) and one.kind == "all" else (getattr(one, "kind", ""),)
        for target in [(*at, kind) for at in where for kind in kinds]:
            if (name, target) in taken:
                raise ValueError(
                    f"impairments must have one {name} for a link or flow, got two for {target[0]} {target[1]}"
                )
            taken.add((name, target))
    return found


def flows_of(impairment: RandomLoss | DelaySpikes | Jitter, n_flows: int) -> tuple[int, ...]:
    """Return the flows whose ACKs an impairment meets on their pure delay.

    Parameters
    ----------
    impairment : RandomLoss or DelaySpikes or Jitter
        Of packets.
    n_flows : int
        Flows of the network.
    """
    if impairment.acks_of == "all":
        return tuple(range(n_flows))
    return impairment.acks_of if impairment.acks_of is not None else ()


@check_arguments
def impairment_to_table(impairment: Impairment) -> dict[str, Any]:
    """Return an impairment as a plain table, its class under "name".

    Parameters
    ----------
    impairment : Impairment
        Of any class.
    """
    return {"name": type(impairment).__name__, **to_table(impairment)}


@check_arguments
def impairment_from_table(table: Any, where: str) -> Impairment:
    """Return the impairment that a table describes.

    Parameters
    ----------
    table : object
        Mapping with a "name".
    where : str
        What to call it in a message.
    """
    if not isinstance(table, Mapping) or table.get("name") not in KINDS:
        raise ValueError(f"{where} must be a table with a name, one of {', '.join(KINDS)}, got {shown(table)}")
    found: Impairment = from_table(KINDS[table["name"]], {k: v for k, v in table.items() if k != "name"}, where)
    return found


def _place(impairment: RandomLoss | DelaySpikes | Jitter) -> None:
    """Check link and acks_of."""
    if (impairment.link is None) == (impairment.acks_of is None):
        given = f"link={shown(impairment.link)} and acks_of={shown(impairment.acks_of)}"
        raise ValueError(f"one of link and acks_of must be given, got {given}")
    if impairment.link is not None:
        object.__setattr__(impairment, "link", as_count(impairment.link, "link"))
        return
    given = impairment.acks_of
    if given == "all":
        return
    if isinstance(given, str):
        raise ValueError(f"acks_of must be a flow, a list of flows or 'all', got {shown(given)}")
    flows = tuple(as_count(flow, "acks_of") for flow in (given if isinstance(given, Iterable) else [given]))
    if not flows or len(set(flows)) < len(flows):
        raise ValueError(f"acks_of must name flows, each once, got {shown(given)}")
    object.__setattr__(impairment, "acks_of", flows)


def _range(given: Any, name: str) -> tuple[Any, Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise ValueError(f"{name} must be a range (lowest, highest), got {shown(given)}")
    return given[0], given[1]


def _ordered(given: tuple[Any, Any], name: str) -> tuple[Any, Any]:
    if given[0] > given[1]:
        raise ValueError(f"{name} must be a range (lowest, highest), got {shown(given)}")
    return given


def _times(given: Any) -> tuple[float, float]:
    lo, hi = _range(given, "delay")
    return _ordered((as_delay(lo, "delay"), as_delay(hi, "delay")), "delay")
