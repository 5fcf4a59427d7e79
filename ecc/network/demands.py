"""Demands: what hosts send to each other, before it has a route; and the patterns of traffic in data centers.

A pattern is a list of demands; `Network.fat_tree`, `Network.leaf_spine` and `Network.with_demands` route them. All
patterns take the other fields of `Demand` by name: size, start, packet_size, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import (
    OptionalQuantityField,
    OptionalSizeField,
    PacketSizeField,
    Quantity,
    QuantityField,
    SizeField,
    as_count,
    as_number,
    as_rate,
    as_size,
    as_time,
    default,
)
from ecc.network.flow_sizes import FlowSizes, flow_sizes

__all__ = ["ACK_SIZE", "Demand", "all_to_all", "incast", "permutation", "poisson", "shift"]

ACK_SIZE = 40
"""Bytes on the wire, unless an ACK carries what was asked for."""


@check_arguments
@dataclass(frozen=True)
class Demand:
    """A flow between two hosts, whose route the network chooses.

    Parameters
    ----------
    source, destination : int
        Two hosts.
    size : int, bytes, > 0, or None for endless
    start : float, s, >= 0
    stop : float, s, > start, or None
    packet_size : int, bytes, > 0
        Or (lowest, highest).
    path : int, "all" or None
        Index in `Network.paths(source, destination)`, None: ECMP, by hash, or "all": its packets are spread over them.
    delayed_acks : (int, Quantity) or None
    spraying : str
    reordering_threshold : int or None
    priority : int
    trimmed_size : int, bytes, > 0, or None
    writes : (Quantity, Quantity), Quantity or None
    ack_size : int, bytes, > 0
        What Flow has, too, is as there.

    Raises
    ------
    ValueError
        One host twice, or a negative number. What is a field of Flow, too, is checked as the flow is made.

    Examples
    --------
    >>> Demand(0, 5, "1 MB").size
    '1 MB'
    """

    source: int
    destination: int
    size: OptionalSizeField = default(None)
    start: QuantityField = default(0.0)
    stop: OptionalQuantityField = default(None)
    packet_size: PacketSizeField = default(1000)
    path: int | str | None = None
    delayed_acks: tuple[int, Quantity] | None = None
    spraying: str = "round robin"
    reordering_threshold: int | None = None
    priority: int = 0
    trimmed_size: OptionalSizeField = default(None)
    writes: tuple[Quantity, Quantity] | Quantity | None = None
    ack_size: SizeField = default(ACK_SIZE)

    def __post_init__(self) -> None:
        for name in ("source", "destination"):
            object.__setattr__(self, name, as_count(getattr(self, name), name))
        if self.source == self.destination:
            raise ValueError(f"destination must be another host than the source, got {self.destination} for both")
        if isinstance(self.path, str) and self.path != "all":
            raise ValueError(f"path must be an index, 'all' or None, got {shown(self.path)}")
        elif self.path is not None and not isinstance(self.path, str):
            object.__setattr__(self, "path", as_count(self.path, "path"))


@check_arguments
def permutation(n_hosts: int, seed: int = 1, **fields: Any) -> list[Demand]:
    """Return a random permutation: each host sends to one other, and receives from one.

    Parameters
    ----------
    n_hosts : int, >= 2
    seed : int, optional
        All permutations without a host that stays where it is are equally likely.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        By source: n_hosts of them.

    Examples
    --------
    >>> [one.destination for one in permutation(4)]
    [3, 0, 1, 2]
    """
    hosts = np.arange(as_count(n_hosts, "n_hosts", minimum=2, bits=20))
    rng = np.random.default_rng(as_count(seed, "seed", bits=64))
    while np.any((to := rng.permutation(hosts)) == hosts):
        pass  # a share of 1/e of all permutations, and at least a third, has no fixed point
    return [Demand(source, destination, **fields) for source, destination in enumerate(to.tolist())]


@check_arguments
def incast(
    sources: int | Sequence[int], destination: int = 0, spread: Quantity = 0.0, seed: int = 1, **fields: Any
) -> list[Demand]:
    """Return an incast: many hosts send to one.

    Parameters
    ----------
    sources : int or sequence of int
        Hosts; a number n: so many, the first hosts but for the destination.
    destination : int, optional
    spread : float, s, >= 0, optional
        Starts are drawn uniformly from [start, start + spread].
    seed : int, optional
        Of these.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        One for each source.

    Examples
    --------
    >>> [one.source for one in incast(3, 1, size="64 kB")]
    [0, 2, 3]
    """
    to, width = as_count(destination, "destination"), as_time(spread, "spread")
    if isinstance(sources, Iterable):
        hosts = [as_count(host, "sources") for host in sources]
    else:
        hosts = [host for host in range(as_count(sources, "sources", minimum=1, bits=20) + 1) if host != to]
        hosts = hosts[:sources]
    if not hosts:
        raise ValueError(f"sources must be at least one host, got {shown(sources)}")
    first = as_time(fields.pop("start", 0.0), "start")
    starts = first + width * np.random.default_rng(as_count(seed, "seed", bits=64)).random(len(hosts))
    return [Demand(host, to, start=start, **fields) for host, start in zip(hosts, starts.tolist(), strict=True)]


@check_arguments
def shift(n_hosts: int, by: int = 1, **fields: Any) -> list[Demand]:
    """Return a shift: each host i sends to host i + by, modulo n_hosts.

    A ring all-reduce of M bytes is 2 (n_hosts - 1) rounds of `shift(n_hosts, 1, size=M / n_hosts)`, each after the one
    before it is done.

    Parameters
    ----------
    n_hosts : int, >= 2
    by : int, optional
        No multiple of n_hosts.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        By source: n_hosts of them.

    Examples
    --------
    >>> [one.destination for one in shift(4, by=-1)]
    [3, 0, 1, 2]
    """
    count = as_count(n_hosts, "n_hosts", minimum=2, bits=20)
    if by % count == 0:
        raise ValueError(f"by must be no multiple of n_hosts ({count}), got {by}")
    return [Demand(host, (host + by) % count, **fields) for host in range(count)]


@check_arguments
def all_to_all(n_hosts: int, gap: Quantity = 0.0, **fields: Any) -> list[Demand]:
    """Return all-to-all traffic: all shifts, by 1 to n_hosts - 1.

    Parameters
    ----------
    n_hosts : int, >= 2
    gap : float, s, >= 0, optional
        Between the starts of one shift and the next; 0: all begin together.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        Shift by shift: n_hosts (n_hosts - 1) of them.

    Examples
    --------
    >>> len(all_to_all(8, size="1 MB"))
    56
    """
    width, first = as_time(gap, "gap"), as_time(fields.pop("start", 0.0), "start")
    return [
        replace(one, start=first + (by - 1) * width)
        for by in range(1, as_count(n_hosts, "n_hosts", minimum=2, bits=10))
        for one in shift(n_hosts, by, **fields)
    ]


@check_arguments
def poisson(
    n_hosts: int, load: float, capacity: Quantity, sizes: Any, duration: Quantity, seed: int = 1, **fields: Any
) -> list[Demand]:
    """Return random flows of random sizes between random hosts, which arrive as a Poisson process.

    Parameters
    ----------
    n_hosts : int, >= 2
        Source and destination of each flow are two of them, all pairs equally likely.
    load : float, > 0
        What a host sends on average, as a share of its capacity: n_hosts * load * capacity / mean size flows arrive
        in a second.
    capacity : float, bit/s
        Of a host's link.
    sizes : object
        "web-search", "data-mining", "hadoop", a table of pairs (size, share) as of `ecc.flow_sizes.FlowSizes`, or one
        size.
    duration : float, s, > 0
        Flows start from `start` (0 if it is not given) until then.
    seed : int, optional
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        In the order of their starts; a random number of them.

    Raises
    ------
    ValueError
        A number out of range, no such sizes, 10 million flows or more.

    Examples
    --------
    >>> len(poisson(128, 0.5, "100 Gb/s", "web-search", "1 ms"))
    468
    """
    count = as_count(n_hosts, "n_hosts", minimum=2, bits=20)
    offered = count * as_number(load, "load", positive=True) * as_rate(capacity, "capacity") / 8.0
    is_one = isinstance(sizes, int | float) or (isinstance(sizes, str) and sizes[:1].isdigit())
    table = FlowSizes([(as_size(sizes, "sizes"), 1.0)]) if is_one else flow_sizes(sizes)
    first, width = as_time(fields.pop("start", 0.0), "start"), as_time(duration, "duration", positive=True)
    expected = offered / table.mean * width
    if not expected < _MOST_FLOWS:
        raise ValueError(
            f"duration must be < {_MOST_FLOWS / expected * width:g} s for {_MOST_FLOWS:g} flows, got {width:g} s"
        )
    rng = np.random.default_rng(as_count(seed, "seed", bits=64))
    n = int(rng.poisson(expected))  # that many, independent and uniform: the same process
    starts = first + width * np.sort(rng.random(n))
    source = rng.integers(count, size=n)
    destination = (source + rng.integers(1, count, size=n)) % count
    rows = zip(source.tolist(), destination.tolist(), table.draw(rng, n).tolist(), starts.tolist(), strict=True)
    return [Demand(a, b, size, start, **fields) for a, b, size, start in rows]


_MOST_FLOWS = 1e7
