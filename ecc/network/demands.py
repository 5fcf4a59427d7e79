"""Demands: flows between hosts without routes; and the patterns of traffic in data centers.

A pattern is a list of demands; `Network.fat_tree`, `Network.leaf_spine` and `Network.with_demands` route them. All
patterns accept further fields of `Demand` by name, for example size, start and packet_size.
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
"""Default size of an ACK on the wire [bytes], if it carries no requested data."""


@check_arguments
@dataclass(frozen=True)
class Demand:
    """A flow between two hosts; the network chooses its route.

    Parameters
    ----------
    source, destination : int
        Numbers of two different hosts.
    size : int, bytes, > 0, or None for endless
    start : float, s, >= 0
    stop : float, s, > start, or None
    packet_size : int, bytes, > 0
        Packet size, or (lowest, highest).
    path : int, "all" or None
        Index in `Network.paths(source, destination)`; None: ECMP, by hash; "all": packets are spread over all paths.
    delayed_acks : (int, Quantity) or None
    spraying : str
    reordering_threshold : int or None
    priority : int
    trimmed_size : int, bytes, > 0, or None
    writes : (Quantity, Quantity), Quantity or None
    ack_size : int, bytes, > 0
        Fields that Flow has too have the same meaning there.

    Raises
    ------
    ValueError
        One host twice, or a negative number. Fields that Flow has too are checked when the flow is made.

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
    """Return a random permutation: each host sends to one other host, and receives from one.

    Parameters
    ----------
    n_hosts : int, >= 2
    seed : int, optional
        Seed; all permutations in which no host sends to itself are equally likely.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        One demand per host, in the order of sources.

    Examples
    --------
    >>> [demand.destination for demand in permutation(4)]
    [3, 0, 1, 2]
    """
    hosts = np.arange(as_count(n_hosts, "n_hosts", minimum=2, bits=20))
    rng = np.random.default_rng(as_count(seed, "seed", bits=64))
    while np.any((destinations := rng.permutation(hosts)) == hosts):
        pass  # about 1/e of all permutations, and never less than a third, have no fixed point
    return [Demand(source, destination, **fields) for source, destination in enumerate(destinations.tolist())]


@check_arguments
def incast(
    sources: int | Sequence[int], destination: int = 0, spread: Quantity = 0.0, seed: int = 1, **fields: Any
) -> list[Demand]:
    """Return an incast: many hosts send to one host.

    Parameters
    ----------
    sources : int or sequence of int
        Hosts, or their number: the first ones except the destination.
    destination : int, optional
    spread : float, s, >= 0, optional
        Starts are drawn uniformly from [start, start + spread].
    seed : int, optional
        Seed of the starts.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        One demand per source.

    Examples
    --------
    >>> [demand.source for demand in incast(3, 1, size="64 kB")]
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

    A ring all-reduce of M bytes is 2 (n_hosts - 1) rounds of `shift(n_hosts, 1, size=M / n_hosts)`, each after the
    previous one is done.

    Parameters
    ----------
    n_hosts : int, >= 2
    by : int, optional
        Shift, not a multiple of n_hosts.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        One demand per host, in the order of sources.

    Examples
    --------
    >>> [demand.destination for demand in shift(4, by=-1)]
    [3, 0, 1, 2]
    """
    count = as_count(n_hosts, "n_hosts", minimum=2, bits=20)
    if by % count == 0:
        raise ValueError(f"by must not be a multiple of n_hosts ({count}), got {by}")
    return [Demand(host, (host + by) % count, **fields) for host in range(count)]


@check_arguments
def all_to_all(n_hosts: int, gap: Quantity = 0.0, **fields: Any) -> list[Demand]:
    """Return all-to-all traffic: all shifts by 1 to n_hosts - 1.

    Parameters
    ----------
    n_hosts : int, >= 2
    gap : float, s, >= 0, optional
        Time between the starts of successive shifts; 0: all start together.
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        n_hosts (n_hosts - 1) demands, shift by shift.

    Examples
    --------
    >>> len(all_to_all(8, size="1 MB"))
    56
    """
    width, first = as_time(gap, "gap"), as_time(fields.pop("start", 0.0), "start")
    return [
        replace(demand, start=first + (by - 1) * width)
        for by in range(1, as_count(n_hosts, "n_hosts", minimum=2, bits=10))
        for demand in shift(n_hosts, by, **fields)
    ]


@check_arguments
def poisson(
    n_hosts: int, load: float, capacity: Quantity, sizes: Any, duration: Quantity, seed: int = 1, **fields: Any
) -> list[Demand]:
    """Return flows of random sizes between random hosts, in a Poisson process.

    Parameters
    ----------
    n_hosts : int, >= 2
        Number of hosts. All pairs of source and destination are equally likely.
    load : float, > 0, at most 10
        Mean sending rate of a host as a share of its capacity: n_hosts * load * capacity / mean size flows arrive per
        second.
    capacity : float, bit/s
        Capacity of a host's link.
    sizes : object
        "web-search", "data-mining", "hadoop", a table of pairs (size, share) as in `ecc.flow_sizes.FlowSizes`, or one
        size.
    duration : float, s, > 0
        Time over which flows start, beginning with `start` (default 0).
    seed : int, optional
    **fields : object
        Further fields of Demand.

    Returns
    -------
    list of Demand
        Random number of demands, in the order of their starts.

    Raises
    ------
    ValueError
        A number out of range, unknown sizes, or an expected number of 10 million flows or more.

    Examples
    --------
    >>> len(poisson(128, 0.5, "100 Gb/s", "web-search", "1 ms"))
    468
    """
    count = as_count(n_hosts, "n_hosts", minimum=2, bits=20)
    share = as_number(load, "load", positive=True)
    if share > _MAX_LOAD:
        raise ValueError(f"load must be at most {_MAX_LOAD:g}, a share of the capacity (0.6 is 60 %), got {share:g}")
    offered = count * share * as_rate(capacity, "capacity") / 8.0
    is_one = isinstance(sizes, int | float) or (isinstance(sizes, str) and sizes[:1].isdigit())
    table = FlowSizes([(as_size(sizes, "sizes"), 1.0)]) if is_one else flow_sizes(sizes)
    first, width = as_time(fields.pop("start", 0.0), "start"), as_time(duration, "duration", positive=True)
    expected = offered / table.mean * width
    if not expected < _MAX_FLOWS:
        raise ValueError(
            f"duration must be < {_MAX_FLOWS / expected * width:g} s for {_MAX_FLOWS:g} flows, got {width:g} s"
        )
    rng = np.random.default_rng(as_count(seed, "seed", bits=64))
    n = int(rng.poisson(expected))  # a Poisson number of independent uniform starts is a Poisson process
    starts = first + width * np.sort(rng.random(n))
    source = rng.integers(count, size=n)
    destination = (source + rng.integers(1, count, size=n)) % count
    rows = zip(source.tolist(), destination.tolist(), table.draw(rng, n).tolist(), starts.tolist(), strict=True)
    return [Demand(a, b, size, start, **fields) for a, b, size, start in rows]


_MAX_FLOWS = 1e7
_MAX_LOAD = 10.0  # a larger one is a percentage: a run with it would last for hours
