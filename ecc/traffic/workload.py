"""Workloads: transfers that begin and end during a run, single or in sequence in connections.

They are in addition to the flows of the network. Those have columns in the results; transfers have only rows in
`Trajectory.flows`. Transfers are drawn in blocks while a run advances, so that millions of them never exist at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, nearest, shown
from ecc._support.files import checked_digest
from ecc._support.quantity import (
    LONGEST_TIME,
    OptionalQuantityField,
    Quantity,
    QuantityField,
    as_choice,
    as_count,
    as_delay,
    as_number,
    as_rate,
    as_size,
    as_time,
    default,
    required,
)
from ecc.network.flow_sizes import FLOW_SIZES, FlowSizes, flow_sizes
from ecc.network.network import Flow, from_table, to_table
from ecc.traffic.tmix import (
    ACCEPTOR,
    INITIATOR,
    ConnectionVector,
    Synthetic,
    iter_vectors,
    thin,
    thinned,
    write_vectors,
)

__all__ = ["DRAWN", "LABELS", "Arrivals", "OnOff", "Tmix", "Workload"]

LABELS = np.dtype([("connection", "i8"), ("unit", "i8"), ("sender", "i8"), ("wait", "f8"), ("last", "i8")])
"""Place of a transfer in its connection (-1: no connection): number and sender of its unit, the wait before it if it
is subsequent to the preceding transfer (else -1), and 1 if it is the last of its chain."""
DRAWN = np.dtype(
    [
        ("start", "f8"),
        ("stop", "f8"),
        ("size", "i8"),
        ("access_delay", "f8"),
        ("template_index", "i8"),
        ("window", "i8"),
        ("label", LABELS),
    ]
)
"""A drawn transfer: times in s, `stop` inf for never, `size` -1 for endless, `template_index` an index in `templates`,
`window` of a transport's receiver (0: no limit). A subsequent transfer has the start of the first of its chain."""

BLOCK = 1024
DISTRIBUTIONS = ("fixed", "exponential", "lognormal", "pareto")
SPACINGS = ("poisson", "regular")


@check_arguments
@dataclass(frozen=True)
class Arrivals:
    """Arrivals of transfers over one route, each with a size to deliver or a duration to send for.

    Parameters
    ----------
    route : sequence of int
        Link indices of the route.
    mean_interarrival : float, s, > 0
        Mean time between arrivals.
    mean_size : int, bytes, > 0
        Mean size. With a table of sizes, the sizes are scaled to this mean; None: the mean of the table.
    shape : float
        Shape of the distribution: > 1 for "pareto", > 0 for "lognormal" (the standard deviation of the logarithm), None
        for the other distributions.
    start, stop : float, s
        Times at which arrivals begin and end (None: end of the run).
    access_delay : float, s
        Access delay, or (lowest, highest): drawn uniformly for each transfer.
    packet_size : int, bytes
        Packet size, or (lowest, highest), as in Flow.
    mean_duration : float, s, > 0
        Mean duration, instead of a size.
    duration : object
        (lowest, highest), s, instead of a size: drawn uniformly.
    distribution : object
        Distribution of sizes or durations about their mean: "fixed", "exponential", "lognormal" or "pareto"; None:
        "pareto" if a shape is given, else "fixed". Sizes may also have a table: "web-search", "data-mining", "hadoop",
        or pairs of a size and the share of transfers up to that size (see `ecc.flow_sizes.FlowSizes`); or a mapping
        with the `file` of the pairs and optionally the `unit` of its sizes (see `ecc.flow_sizes.read_flow_sizes`).
    spacing : str
        "poisson", or "regular": at start, start + mean_interarrival, ...
    batch : int, > 0
        Number of transfers per arrival.
    count : int, > 0, or None
        Total number of transfers. None: unlimited.
    reverse : sequence of int or None
        Link indices of the route of ACKs, or None, as in Flow.

    Raises
    ------
    ValueError, TypeError
        A value out of range; not exactly one of mean_size, mean_duration and duration.

    Examples
    --------
    >>> Arrivals([0], "10 ms", "100 kB", shape=1.4).offered_rate
    80000000.0
    >>> Arrivals([0], "10 ms", distribution="web-search").mean_size
    1711250
    """

    route: Sequence[int]
    mean_interarrival: QuantityField = required()
    mean_size: OptionalQuantityField = default(None)
    shape: float | None = None
    start: QuantityField = default(0.0)
    stop: OptionalQuantityField = default(None)
    access_delay: Any = 0.0
    packet_size: Any = 1000
    mean_duration: OptionalQuantityField = default(None)
    duration: Any = None
    distribution: Any = None
    spacing: str = "poisson"
    batch: int = 1
    count: int | None = None
    reverse: Sequence[int] | None = None

    def __post_init__(self) -> None:
        put = _field_setter(self)
        put("mean_interarrival", as_time(self.mean_interarrival, "mean_interarrival", positive=True))
        distribution = self.distribution
        if isinstance(distribution, str) and distribution not in (*DISTRIBUTIONS, *FLOW_SIZES):
            known = dict.fromkeys((*DISTRIBUTIONS, *FLOW_SIZES), "")
            allowed = ", ".join(map(repr, known))
            raise ValueError(
                f"distribution must be one of {allowed}, got {shown(distribution)}{nearest(distribution, known)}"
            )
        table = self._table
        if table is not None:
            put("distribution", self.distribution if isinstance(self.distribution, str) else table.table)
            put("mean_size", table.mean if self.mean_size is None else self.mean_size)
        amounts = [name for name in ("mean_size", "mean_duration", "duration") if getattr(self, name) is not None]
        if len(amounts) != 1:
            names = ", ".join(amounts) or "none"
            raise ValueError(f"arrivals must have one of mean_size, mean_duration and duration, got {names}")
        if self.mean_size is not None:
            put("mean_size", as_size(self.mean_size, "mean_size"))
        elif self.mean_duration is not None:
            put("mean_duration", as_time(self.mean_duration, "mean_duration", positive=True))
        else:
            put("duration", _range(self.duration, "duration"))
            if self.duration[0] <= 0.0:
                raise ValueError(f"duration must be > 0 s, got {shown(self.duration[0])} s")
            if self.distribution is not None or self.shape is not None:
                raise ValueError("distribution and shape must be None for duration=(lowest, highest): it is uniform")
        usual = "fixed" if self.shape is None else "pareto"
        if table is None:
            _check_distribution(self, usual if self.distribution is None else self.distribution, FLOW_SIZES)
        elif self.shape is not None:
            raise ValueError(f"shape must be None for a table of sizes, got {shown(self.shape)}")
        as_choice(self.spacing, "spacing", SPACINGS)
        put("batch", as_count(self.batch, "batch", minimum=1))
        if self.count is not None:
            put("count", as_count(self.count, "count", minimum=1))
        _check_common(self)

    # ---- workloads of the papers ---------------------------------------------------------------------------

    @classmethod
    def at_load(
        cls, route: Sequence[int], load: float, capacity: Quantity, mean_size: Quantity | None = None, **options: Any
    ) -> Arrivals:
        """Return arrivals that offer a share of a capacity, Pareto of shape 1.4 by default (THESIS fig. 25).

        Parameters
        ----------
        route : sequence of int
            Link indices of the route.
        load : float, > 0
            Offered rate as a share of the capacity.
        capacity : float, bit/s
        mean_size : int, bytes, optional
            Required unless `distribution` is a table of sizes.
        **options : object
            Further fields of Arrivals.

        Examples
        --------
        >>> Arrivals.at_load([0], 0.9, "2.4 Gb/s", 30_000).offered_rate
        2160000000.0
        >>> Arrivals.at_load([0], 0.5, "100 Gb/s", distribution="hadoop").mean_interarrival
        1.926736e-05
        """
        offered = as_number(load, "load", positive=True) * as_rate(capacity, "capacity")
        if "distribution" not in options:
            options = {"shape": 1.4} | options
        size = cls(route, 1.0, mean_size, **options).mean_size
        if size is None:
            raise ValueError("mean_size must be given for a load, got None")
        return cls(route, 8.0 * size / offered, size, **options)

    @classmethod
    def lifetimes(
        cls,
        route: Sequence[int],
        rtts: tuple[Quantity, Quantity] = ("40 ms", "1040 ms"),
        delay: Quantity = "20 ms",
        count: int = 500,
        sigma: float = 1.0,
        **options: Any,
    ) -> Arrivals:
        """Return the short flows of JETMAX figs. 14-15: a start every Exp(0.2 s), lognormal lifetimes of mean 10 s.

        Packet sizes are uniform in [800, 1300] bytes, RTTs uniform. JETMAX does not state the spread of the lifetimes.

        Parameters
        ----------
        route : sequence of int
            Link indices of the route.
        rtts : tuple of two Quantity, optional
            (lowest, highest), s.
        delay : float, s, in one direction, optional
            Delay of the route.
        count : int, optional
            Total number of flows.
        sigma : float, optional
            Standard deviation of the logarithm of the lifetimes.
        **options : object
            Further fields of Arrivals.

        Raises
        ------
        ValueError
            An RTT below twice the delay.
        """
        one_way = as_time(delay, "delay")
        low, high = (as_time(rtt, "rtts") / 2.0 - one_way for rtt in rtts)
        if low < -1e-12:
            raise ValueError(f"rtts must be >= twice the delay ({2 * one_way:g} s), got {2 * (low + one_way):g} s")
        settings: dict[str, Any] = {
            "mean_duration": 10.0,
            "distribution": "lognormal",
            "shape": sigma,
            "packet_size": (800, 1300),
            "access_delay": (max(low, 0.0), high),
            "count": count,
        }
        return cls(route, 0.2, **settings | options)

    # ---- arrivals ------------------------------------------------------------------------------------------

    @property
    def _table(self) -> FlowSizes | None:
        """Table of the sizes, or None."""
        distribution = self.distribution
        return (
            None
            if distribution is None or (isinstance(distribution, str) and distribution not in FLOW_SIZES)
            else flow_sizes(distribution)
        )

    @property
    def templates(self) -> tuple[Flow]:
        """Common properties of all transfers."""
        return (Flow(self.route, packet_size=self.packet_size, reverse=self.reverse),)

    @property
    def offered_rate(self) -> float:
        """Mean offered load, bit/s; nan if transfers have durations."""
        if self.mean_size is None:
            return math.nan
        return as_rate(8.0 * self.batch * self.mean_size / self.mean_interarrival, "offered_rate")

    def streams(self, rng: np.random.Generator, end: float) -> list[Iterator[NDArray[np.void]]]:
        """Return the single stream of these arrivals: blocks of `DRAWN` in the order of their starts.

        Parameters
        ----------
        rng : random.Generator
            NumPy generator.
        end : float, s
            End of the run.
        """
        return [self._blocks(rng, end if self.stop is None else min(end, self.stop))]

    def _blocks(self, rng: np.random.Generator, end: float) -> Iterator[NDArray[np.void]]:
        gaps, amounts, delays = rng.spawn(3)
        table = self._table
        now, begun, remaining = float(self.start), 0, self.count
        while remaining is None or remaining > 0:
            if self.spacing == "poisson":
                starts = now + np.cumsum(gaps.exponential(self.mean_interarrival, BLOCK))
            else:
                starts = self.start + self.mean_interarrival * np.arange(begun, begun + BLOCK, dtype=np.float64)
            now, begun = float(starts[-1]), begun + BLOCK
            starts = np.repeat(starts[starts < end], self.batch)[:remaining]
            block = _drawn(starts)
            if table is not None and self.mean_size is not None:
                block["size"] = table.draw(amounts, len(starts), self.mean_size)
            elif self.mean_size is not None:
                sizes = _amounts(amounts, self.mean_size, self.distribution, self.shape, len(starts))
                block["size"] = np.clip(np.rint(sizes), 1.0, 2.0**62)
            elif self.mean_duration is not None:
                durations = _amounts(amounts, self.mean_duration, self.distribution, self.shape, len(starts))
                block["stop"] = starts + durations
            else:
                block["stop"] = starts + _uniform(amounts, self.duration, len(starts))
            block["access_delay"] = _uniform(delays, self.access_delay, len(starts))
            if len(block):
                yield block
            if now >= end:
                return
            remaining = None if remaining is None else remaining - len(starts)


@check_arguments
@dataclass(frozen=True)
class OnOff:
    """Sources that alternate between silence and sending; each sending period is one transfer.

    Parameters
    ----------
    route : sequence of int
        Link indices of the route.
    mean_on, mean_off : float, s, > 0
        Mean times for which a source sends and is silent; it begins silent.
    sources : int, > 0
        Number of independent sources.
    distribution : str
        Distribution of both times: "exponential", "pareto", "lognormal" or "fixed".
    shape : float or None
        See Arrivals.
    start, stop : float, s
        Times at which the sources begin and end (None: end of the run).
    access_delay, packet_size, reverse : object, sequence of int or None
        See Arrivals; the access delay is drawn once for each source.

    Raises
    ------
    ValueError, TypeError
        A value out of range.
    """

    route: Sequence[int]
    mean_on: QuantityField = required()
    mean_off: QuantityField = required()
    sources: int = 1
    distribution: str = "exponential"
    shape: float | None = None
    start: QuantityField = default(0.0)
    stop: OptionalQuantityField = default(None)
    access_delay: Any = 0.0
    packet_size: Any = 1000
    reverse: Sequence[int] | None = None

    def __post_init__(self) -> None:
        put = _field_setter(self)
        for name in ("mean_on", "mean_off"):
            put(name, as_time(getattr(self, name), name, positive=True))
        put("sources", as_count(self.sources, "sources", minimum=1))
        _check_distribution(self, self.distribution)
        _check_common(self)

    @property
    def templates(self) -> tuple[Flow]:
        """Common properties of all transfers."""
        return (Flow(self.route, packet_size=self.packet_size, reverse=self.reverse),)

    def streams(self, rng: np.random.Generator, end: float) -> list[Iterator[NDArray[np.void]]]:
        """Return the stream of each source: blocks of `DRAWN` in the order of their starts.

        Parameters
        ----------
        rng : random.Generator
            NumPy generator.
        end : float, s
            End of the run.
        """
        until = end if self.stop is None else min(end, self.stop)
        return [self._blocks(source_rng, until) for source_rng in rng.spawn(self.sources)]

    def _blocks(self, rng: np.random.Generator, end: float) -> Iterator[NDArray[np.void]]:
        now, access_delay, size = float(self.start), _uniform(rng, self.access_delay, 1)[0], 16
        while now < end:
            off = _amounts(rng, self.mean_off, self.distribution, self.shape, size)
            on = _amounts(rng, self.mean_on, self.distribution, self.shape, size)
            stops = now + np.cumsum(off + on)
            now = float(stops[-1])
            block = _drawn((stops - on)[stops - on < end])
            block["stop"] = stops[: len(block)]
            if self.stop is not None:
                block["stop"] = np.minimum(block["stop"], self.stop)
            block["access_delay"] = access_delay
            if len(block):
                yield block


@check_arguments
@dataclass(frozen=True)
class Tmix:
    """Connections of Tmix vectors between hosts at the two ends of a path, with one transfer for each unit of data.

    In a sequential connection a unit is sent after the previous unit has reached its receiver and the wait is over. In
    a concurrent one each side waits likewise for its previous unit. Each transfer starts congestion control anew, and
    its ACKs return over the path of the other side. Half of the RTT of a vector is before the first link, half after
    the last; delays of links add to it, as in ns-2. If the protocol has a `transport`, the window of a side, at least
    one packet, limits its bytes in flight, as in ns-2. Losses and segments of vectors are not applied.

    Parameters
    ----------
    vectors : object
        Sequence of ConnectionVector; the path of a file of vectors, or its text; or a Synthetic.
    route : sequence of int
        Link indices of the route of data from initiators.
    reverse : sequence of int
        Link indices of the route of data from acceptors.
    share : float, in (0, 1]
        Probability with which each connection is included (see ecc.tmix.thin), drawn with the seed of the run.
    packet_size : int, bytes
        Packet size, or (lowest, highest), as in Flow.
    digest : str or None
        SHA-256 of the file of `vectors`, 64 hexadecimal digits; a file with other content is refused. None: computed
        from the file now, if there is a file.

    Raises
    ------
    ValueError, TypeError
        A value out of range, vectors that cannot be read, or a file with another digest.
    OSError
        A file that cannot be read.

    Notes
    -----
    A file is read while the run advances and may be larger than the memory, if its vectors are in the order of their
    starts; otherwise they are sorted in memory. The digest is part of the scenario, so stores, checkpoints and workers
    on other machines use the file only with the content that it had when the scenario was made. Rows of
    `Trajectory.flows` name their connection; `ecc.tmix.response_times` sums them up.
    """

    vectors: Any
    route: Sequence[int]
    reverse: Sequence[int]
    share: float = 1.0
    packet_size: Any = 1000
    digest: str | None = None
    _in_order: ClassVar[bool] = False  # True if a file has been read and its vectors are in order

    def __post_init__(self) -> None:
        put = _field_setter(self)
        vectors = self.vectors
        if isinstance(vectors, Mapping):
            put("vectors", from_table(Synthetic, vectors, "vectors"))
        elif isinstance(vectors, str | Path):
            is_text = isinstance(vectors, str) and "\n" in vectors
            put("vectors", tuple(iter_vectors(vectors)) if is_text else str(vectors))
            if not is_text:
                put("digest", checked_digest(vectors, "vectors", self.digest))
            checked_vectors = self.vectors if is_text else iter_vectors(vectors)
            starts = (float(vector.start or 0.0) for vector in checked_vectors)
            put("_in_order", sum(a > b for a, b in pairwise(starts)) == 0)
        elif not isinstance(vectors, Synthetic):
            items = tuple(vectors) if isinstance(vectors, Iterable) else None
            if items is None or not all(isinstance(item, ConnectionVector) for item in items):
                raise TypeError(f"vectors must be ConnectionVectors, a path, or Synthetic, got {shown(vectors)}")
            put("vectors", items)
        if self.digest is not None and not isinstance(self.vectors, str):
            raise ValueError(f"digest must be None unless vectors is the path of a file, got {shown(self.digest)}")
        thin((), self.share)
        sides = self.templates
        for name, side in (("route", sides[INITIATOR]), ("reverse", sides[ACCEPTOR])):
            put(name, side.route)
        put("packet_size", sides[0].packet_size)

    @property
    def templates(self) -> tuple[Flow, Flow]:
        """Common properties of the transfers of either side: initiators, acceptors."""
        directions = ((self.route, self.reverse), (self.reverse, self.route))
        first, second = (Flow(route, packet_size=self.packet_size, reverse=reverse) for route, reverse in directions)
        return first, second

    def to_table(self) -> dict[str, Any]:
        """Return the fields as plain values; a sequence of vectors becomes text, with times in whole microseconds."""
        table = to_table(self)
        if isinstance(self.vectors, Synthetic):
            table["vectors"] = to_table(self.vectors)
        elif isinstance(self.vectors, tuple):
            table["vectors"] = write_vectors(self.vectors, alternate=True)
        return table

    def draw_vectors(self, rng: np.random.Generator, end: float) -> Iterator[ConnectionVector]:
        """Yield the connections of a run, in the order of their starts.

        Parameters
        ----------
        rng : random.Generator
            NumPy generator.
        end : float, s
            End of the run.
        """
        vectors = self.vectors
        if isinstance(vectors, Synthetic):
            vectors = vectors.vectors(rng, end)
        elif isinstance(vectors, str):
            checked_digest(vectors, "vectors", self.digest)  # the file may have changed, or be that of another machine
            vectors = iter_vectors(vectors)
        sample = thinned(vectors, self.share, int(rng.integers(2**32))) if self.share < 1.0 else vectors
        if isinstance(self.vectors, str) and self._in_order:
            yield from takewhile(lambda vector: vector.start < end, sample)
        else:
            yield from sorted(
                (vector for vector in sample if vector.start < end), key=lambda vector: float(vector.start or 0.0)
            )

    def streams(self, rng: np.random.Generator, end: float) -> list[Iterator[NDArray[np.void]]]:
        """Return the stream of all connections: blocks of `DRAWN` in the order of their starts.

        Parameters
        ----------
        rng : random.Generator
            NumPy generator.
        end : float, s
            End of the run.
        """
        return [self._blocks(rng, end)]

    def _blocks(self, rng: np.random.Generator, end: float) -> Iterator[NDArray[np.void]]:
        rows: list[tuple[Any, ...]] = []
        n_chains = 0
        for chain in _in_order_of_starts(self._chains(rng, end)):
            if chain[0][0] < end:
                rows += chain
                n_chains += 1
            if n_chains == BLOCK:
                yield np.array(rows, DRAWN)
                rows, n_chains = [], 0
        if rows:
            yield np.array(rows, DRAWN)

    def _chains(self, rng: np.random.Generator, end: float) -> Iterator[tuple[float, list[tuple[Any, ...]]]]:
        """Yield, for each chain of units, the start of its connection and the rows of `DRAWN`."""
        largest = self.templates[0].largest_packet
        for number, vector in enumerate(self.draw_vectors(rng, end)):
            for chain in vector.chains:
                start = vector.start + vector.units[chain[0]].wait
                units = [(k, vector.units[k]) for k in chain]
                yield (
                    vector.start,
                    [
                        (
                            start,
                            math.inf,
                            unit.size,
                            vector.rtt / 2.0,
                            unit.sender,
                            max(vector.windows[unit.sender], largest) if vector.windows else 0,
                            (number, k, unit.sender, -1.0 if k == chain[0] else unit.wait, k == chain[-1]),
                        )
                        for k, unit in units
                    ],
                )


def _in_order_of_starts(chains: Iterator[tuple[float, list[tuple[Any, ...]]]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of chains in the order of the chains' starts; `chains` is in the order of connections' starts."""
    waiting: list[tuple[float, int, list[tuple[Any, ...]]]] = []
    for number, (start, rows) in enumerate(chains):
        while waiting and waiting[0][0] <= start:
            yield heappop(waiting)[2]
        heappush(waiting, (rows[0][0], number, rows))
    while waiting:
        yield heappop(waiting)[2]


@check_arguments
@dataclass(frozen=True)
class Workload:
    """Traffic of transfers: listed ones, streams of random arrivals, on-off sources, and connections.

    Parameters
    ----------
    transfers : sequence of Flow
    arrivals : sequence of Arrivals
    on_off : sequence of OnOff
    tmix : sequence of Tmix
        Connections, at most one Tmix.

    Raises
    ------
    TypeError
        An item of another type in one of them.
    ValueError
        Several Tmix.
    """

    transfers: Sequence[Flow] = ()
    arrivals: Sequence[Arrivals] = ()
    on_off: Sequence[OnOff] = ()
    tmix: Sequence[Tmix] = ()

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            value = getattr(self, name)
            items = tuple(value) if isinstance(value, Iterable) else None
            if items is None or not all(isinstance(item, kind) for item in items):
                raise TypeError(f"{name} must be a sequence of {kind.__name__}, got {shown(value)}")
            object.__setattr__(self, name, items)
        for k, flow in enumerate(self.transfers):
            if flow.alternatives:
                raise ValueError(
                    f"alternatives must be empty in transfers, got {len(flow.alternatives)} (transfer {k})"
                )
        if len(self.tmix) > 1:
            raise ValueError(f"tmix must be one Tmix at most, got {len(self.tmix)}")

    @property
    def _streams(self) -> list[Arrivals | OnOff | Tmix]:
        return [*self.arrivals, *self.on_off, *self.tmix]

    @property
    def templates(self) -> list[Flow]:
        """Common properties of each kind of transfers: flows without times, size and access delay."""
        plain = [_template(flow) for flow in self.transfers]
        return list(dict.fromkeys([*plain, *(template for stream in self._streams for template in stream.templates)]))

    @property
    def enables_subsequent(self) -> list[bool]:
        """For each template, True if its transfers enable subsequent ones."""
        sides = [side_template for tmix in self.tmix for side_template in tmix.templates]
        return [template in sides for template in self.templates]

    @property
    def chains(self) -> list[tuple[int, int]]:
        """Pairs of indices of templates; transfers of one may be subsequent to transfers of the other."""
        kinds = {template: kind for kind, template in enumerate(self.templates)}
        return [(kinds[tmix.templates[INITIATOR]], kinds[tmix.templates[ACCEPTOR]]) for tmix in self.tmix]

    def blocks(self, seed: int, duration: float) -> Iterator[NDArray[np.void]]:
        """Yield all transfers that start before `duration`, in the order of their starts, in blocks.

        Parameters
        ----------
        seed : int
        duration : float, s

        Returns
        -------
        Iterator[NDArray[void]]
            Iterator of arrays of dtype DRAWN; `template_index` is an index in `templates`.
        """
        kinds = {template: kind for kind, template in enumerate(self.templates)}
        transfers = sorted(
            (flow for flow in self.transfers if flow.start < duration), key=lambda flow: float(flow.start)
        )
        block = _drawn(np.array([flow.start for flow in transfers], float))
        block["stop"] = [math.inf if flow.stop is None else flow.stop for flow in transfers]
        block["size"] = [-1 if flow.size is None else flow.size for flow in transfers]
        block["access_delay"] = [flow.access_delay for flow in transfers]
        block["template_index"] = [kinds[_template(flow)] for flow in transfers]
        streams = [iter([block] if len(block) else [])]
        chances = np.random.default_rng(seed).spawn(len(self._streams))
        for source, rng in zip(self._streams, chances, strict=True):
            template_indices = np.array([kinds[template] for template in source.templates])
            streams += [_of_kinds(stream, template_indices) for stream in source.streams(rng, duration)]
        return _merged(streams)

    def draw(self, seed: int, duration: float) -> list[Flow]:
        """Return all transfers that start before `duration`, in the order of their starts.

        Parameters
        ----------
        seed : int, >= 0
        duration : float, s

        Raises
        ------
        ValueError
            A seed below 0, or a workload with connections, whose subsequent transfers start at times that depend on
            the run.
        """
        if self.tmix:
            raise ValueError("tmix must be () to draw flows: their starts depend on the run")
        templates, number = self.templates, as_count(seed, "seed", bits=64)
        return [
            replace(
                templates[kind],
                start=start,
                stop=stop if math.isfinite(stop) else None,
                size=size if size >= 0 else None,
                access_delay=delay,
            )
            for block in self.blocks(number, duration)
            for start, stop, size, delay, kind, *_ in block.tolist()
        ]


KINDS: dict[str, type] = {"transfers": Flow, "arrivals": Arrivals, "on_off": OnOff, "tmix": Tmix}
"""Class of the items of each field of a Workload."""


def _template(flow: Flow) -> Flow:
    return replace(flow, start=0.0, stop=None, size=None, access_delay=0.0)


def _field_setter(item: Any) -> Any:
    return lambda name, value: object.__setattr__(item, name, value)


def _range(value: Any, name: str, read: Any = as_time) -> tuple[float, float]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be (lowest, highest), got {shown(value)}")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        raise TypeError(f"{name} must be (lowest, highest), got {shown(value)}")
    times = tuple(read(time, name) for time in value)
    if len(times) != 2 or times[0] > times[1]:
        raise ValueError(f"{name} must be (lowest, highest), got {shown(value)}")
    return times[0], times[1]


def _check_distribution(item: Any, distribution: str, tables: Iterable[str] = ()) -> None:
    """Check a distribution and its shape; `tables` are further names that a message lists."""
    if not isinstance(distribution, str) or distribution not in DISTRIBUTIONS:
        allowed = ", ".join(map(repr, (*DISTRIBUTIONS, *tables)))
        raise ValueError(f"distribution must be one of {allowed}, got {shown(distribution)}")
    if (item.shape is None) != (distribution in ("fixed", "exponential")):
        needs = "must be None" if item.shape is not None else "is needed"
        raise ValueError(f"shape {needs} for distribution {distribution!r}, got {shown(item.shape)}")
    if item.shape is not None:
        object.__setattr__(item, "shape", as_number(item.shape, "shape", positive=True))
        if distribution == "pareto" and item.shape <= 1.0:
            raise ValueError(f"shape must be > 1 (or the mean is infinite), got {shown(item.shape)}")


def _check_common(item: Any) -> None:
    """Check the common fields of streams: times, delays, route and packets."""
    put = _field_setter(item)
    put("start", as_time(item.start, "start"))
    if item.stop is not None:
        put("stop", as_time(item.stop, "stop"))
        if item.stop <= item.start:
            raise ValueError(f"stop must be > start ({item.start:g} s), got {item.stop:g} s")
    is_range = not isinstance(item.access_delay, str) and isinstance(item.access_delay, Iterable)
    put(
        "access_delay",
        _range(item.access_delay, "access_delay", as_delay)
        if is_range
        else as_delay(item.access_delay, "access_delay"),
    )
    template = Flow(item.route, packet_size=item.packet_size, reverse=item.reverse)
    for name in ("route", "packet_size", "reverse"):
        put(name, getattr(template, name))


def _drawn(starts: NDArray[np.float64]) -> NDArray[np.void]:
    """Return endless transfers with these starts."""
    block = np.zeros(len(starts), DRAWN)
    block["start"] = starts
    block["stop"] = math.inf
    block["size"] = -1
    for name in ("connection", "unit", "sender", "wait", "last"):
        block["label"][name] = -1
    return block


def _amounts(
    rng: np.random.Generator, mean: float, distribution: str | None, shape: float | None, n: int
) -> NDArray[np.float64]:
    """Draw n sizes or durations with a mean."""
    if distribution == "exponential":
        return rng.exponential(mean, n)
    if distribution == "lognormal" and shape is not None:
        return rng.lognormal(math.log(mean) - shape * shape / 2.0, shape, n)
    if shape is not None:
        return mean * (shape - 1.0) / shape * (1.0 + rng.pareto(shape, n))
    return np.full(n, float(mean))


def _uniform(rng: np.random.Generator, value: Any, n: int) -> NDArray[np.float64]:
    low, high = value if isinstance(value, tuple) else (value, value)
    return rng.uniform(low, high, n)


def _of_kinds(stream: Iterator[NDArray[np.void]], kinds: NDArray[np.int64]) -> Iterator[NDArray[np.void]]:
    for block in stream:
        block["template_index"] = kinds[block["template_index"]]
        block["stop"][block["stop"] >= LONGEST_TIME] = math.inf  # no run lasts that long
        yield block


def _merged(streams: Sequence[Iterator[NDArray[np.void]]]) -> Iterator[NDArray[np.void]]:
    """Merge ordered streams into one; transfers with equal starts are in the order of the streams."""
    empty = np.zeros(0, DRAWN)
    waiting = [next(stream, empty) for stream in streams]
    alive = [len(block) > 0 for block in waiting]
    while any(alive):
        until = min(block["start"][-1] for block, lives in zip(waiting, alive, strict=True) if lives)
        counts = [int(np.searchsorted(block["start"], until)) for block in waiting]
        ready = np.concatenate([block[:n] for block, n in zip(waiting, counts, strict=True)])
        if len(ready):
            yield ready[np.argsort(ready["start"], kind="stable")]
        waiting = [block[n:] for block, n in zip(waiting, counts, strict=True)]
        for k, block in enumerate(waiting):
            if alive[k] and block["start"][-1] == until:
                more = next(streams[k], empty)
                waiting[k], alive[k] = np.concatenate([block, more]), len(more) > 0
    rest = np.concatenate(waiting) if waiting else empty
    if len(rest):
        yield rest[np.argsort(rest["start"], kind="stable")]
