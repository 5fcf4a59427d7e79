"""Links, flows and the network they make, with the topologies of the papers.

A link is unidirectional: a buffer, a transmitter of `capacity`, then a wire of `delay`. A flow sends over its
access delay and then the links of its `route`; its ACKs return over the links of `reverse` or, by default, over a
pure delay as long as the forward path. RTT of a flow = 2 (access_delay + sum of link delays): no queue and no
transmission time is part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.arguments import check_arguments, shown
from ecc.display import Displayed, Rows, quantity_text
from ecc.quantity import (
    LONGEST_DELAY,
    OptionalQuantityField,
    OptionalSizeField,
    PacketSizeField,
    Quantity,
    QuantityField,
    as_count,
    as_delay,
    as_rate,
    as_size,
    as_time,
    default,
    required,
)

__all__ = ["Flow", "Link", "Network"]

FloatArray = NDArray[np.float64]


@check_arguments
@dataclass(frozen=True)
class Link:
    """A unidirectional link.

    Parameters
    ----------
    capacity : float, bit/s, > 0
    delay : float, s, >= 0
        Propagation delay, in one direction.
    buffer : int, bytes, > 0, or None for unlimited
        Drop-tail; holds the packet in service too.
    buffer_packets : int, packets, > 0, or None for unlimited
        Where both are given, both hold.

    Raises
    ------
    ValueError
        A value out of range.
    TypeError
        Not a quantity.

    Examples
    --------
    >>> Link("155 Mb/s", "1 ms").capacity
    155000000.0
    """

    capacity: QuantityField = required()
    delay: QuantityField = default(0.0)
    buffer: OptionalSizeField = default(None)
    buffer_packets: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", as_rate(self.capacity, "capacity"))
        object.__setattr__(self, "delay", as_delay(self.delay, "delay"))
        if self.buffer is not None:
            object.__setattr__(self, "buffer", as_size(self.buffer, "buffer"))
        if self.buffer_packets is not None:
            object.__setattr__(self, "buffer_packets", as_count(self.buffer_packets, "buffer_packets", minimum=1))


@check_arguments
@dataclass(frozen=True)
class Flow:
    """A flow: one sender, one receiver, and the links between them.

    Parameters
    ----------
    route : sequence of int
        Sequence of link indices that the data cross, in order; at least one.
    start : float, s, >= 0
        When the flow begins.
    stop : float, s, > start, or None
        When it stops sending.
    size : int, bytes, > 0, or None for endless
        How much it has to deliver.
    access_delay : float, s, >= 0
        In one direction, between the sender and the first link.
    packet_size : int, bytes, > 0
        Size of a data packet on the wire; (lo, hi): drawn uniformly for each packet.
    reverse : sequence of int or None
        Sequence of link indices that the ACKs cross, or None: a pure delay equal to the forward one.
    delayed_acks : (int, Quantity) or None
        (packets, time): the receiver sends one ACK for so many packets (>= 2), or for what it has so long (s, >= 0)
        after the first of them; it is the last packet's ACK. None: one for each packet.

    Raises
    ------
    ValueError
        Empty route, stop not after start, a value out of range.
    TypeError
        Not a quantity.

    Examples
    --------
    >>> Flow(route=[0, 1], stop="30 s").stop
    30.0
    """

    route: Sequence[int]
    start: QuantityField = default(0.0)
    stop: OptionalQuantityField = default(None)
    size: OptionalSizeField = default(None)
    access_delay: QuantityField = default(0.0)
    packet_size: PacketSizeField = default(1000)
    reverse: Sequence[int] | None = None
    delayed_acks: tuple[int, Quantity] | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("route", _links_of(self.route, "route"))
        put("start", as_time(self.start, "start"))
        if self.stop is not None:
            put("stop", as_time(self.stop, "stop"))
            if self.stop <= self.start:
                raise ValueError(f"stop must be > start ({self.start:g} s), got {self.stop:g} s")
        if self.size is not None:
            put("size", as_size(self.size, "size"))
        put("access_delay", as_delay(self.access_delay, "access_delay"))
        put("packet_size", _sizes(self.packet_size))
        if self.reverse is not None:
            put("reverse", _links_of(self.reverse, "reverse"))
        if self.delayed_acks is not None:
            if not isinstance(self.delayed_acks, list | tuple) or len(self.delayed_acks) != 2:
                raise ValueError(f"delayed_acks must be (packets, time), got {shown(self.delayed_acks)}")
            packets, wait = self.delayed_acks
            put("delayed_acks", (as_count(packets, "delayed_acks", minimum=2), as_delay(wait, "delayed_acks")))

    @property
    def largest_packet(self) -> int:
        """Size of the largest packet, bytes."""
        return int(np.max(self.packet_size))

    @property
    def mean_packet(self) -> float:
        """Mean size of the packets, bytes."""
        return float(np.mean(self.packet_size))

    @property
    def mean_acknowledged(self) -> float:
        """Mean of what an ACK acknowledges, bytes, where none waits so long that it is sent for fewer packets."""
        return self.mean_packet * (1 if self.delayed_acks is None else self.delayed_acks[0])


def _sizes(given: Any) -> int | tuple[int, ...]:
    """One size, or the lowest and the highest of a range."""
    if not isinstance(given, list | tuple):
        return as_size(given, "packet_size")
    sizes = tuple(as_size(size, "packet_size") for size in given)
    if len(sizes) != 2 or sizes[0] > sizes[1]:
        raise ValueError(f"packet_size must be one size or (lowest, highest), got {shown(given)}")
    return sizes


def _links_of(route: Any, name: str) -> tuple[int, ...]:
    if isinstance(route, str) or not isinstance(route, Iterable):
        raise TypeError(f"{name} must be a sequence of link indices, got {shown(route)}")
    links = tuple(as_count(link, name) for link in route)
    if not links:
        raise ValueError(f"{name} must name at least one link, got {shown(route)}")
    if len(set(links)) < len(links):
        raise ValueError(f"{name} must cross a link at most once, got {list(links)}")
    return links


_SHOWN = 6  # links and flows that a view of a network lists


@check_arguments
@dataclass(frozen=True, repr=False)
class Network(Displayed):
    """Links and the flows over them.

    Parameters
    ----------
    links : sequence of Link
    flows : sequence of Flow
        Sequence of Flow; routes index into `links`.

    Raises
    ------
    ValueError
        No link, no flow, a route over an unknown link, a buffer smaller than a packet that crosses it.

    Notes
    -----
    Arrays over flows and links follow the order in which they were given.

    Examples
    --------
    >>> Network.dumbbell("100 Mb/s", rtts=[0.12, 0.3]).rtts.tolist()
    [0.12, 0.3]
    """

    links: Sequence[Link]
    flows: Sequence[Flow]
    _rtts: tuple[float, ...] | None = field(default=None, repr=False)  # as given by `rtts=`, free of rounding

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", _instances(self.links, Link, "links"))
        object.__setattr__(self, "flows", _instances(self.flows, Flow, "flows"))
        for index, flow in enumerate(self.flows):
            self.check_flow(flow, f"flow {index}")

    def summary(self) -> str:
        """Return the network in a line: links, flows and RTTs."""
        links = "a link" if self.n_links == 1 else f"{self.n_links} links"
        flows = "a flow" if self.n_flows == 1 else f"{self.n_flows} flows"
        rtts = f"RTT{'s' if len(set(self.rtts.tolist())) > 1 else ''} {_span(self.rtts, 's')}"
        return f"{links} of {_span(self.capacities, 'bit/s')}, {flows}, {rtts}"

    def _title(self) -> str:
        return f"Network: {self.summary()}"

    def _rows(self) -> Rows:
        def of_link(link: Link) -> str:
            packets = None if link.buffer_packets is None else f"{link.buffer_packets} packets"
            limits = [text for text in (link.buffer and quantity_text(link.buffer, "bytes"), packets) if text]
            buffer = " and ".join(limits) or "unlimited"
            return f"{quantity_text(link.capacity, 'bit/s')}, {quantity_text(link.delay, 's')}, buffer {buffer}"

        def of_flow(flow: Flow, rtt: float) -> str:
            parts = [f"links {', '.join(map(str, flow.route))}", f"RTT {quantity_text(rtt, 's')}"]
            parts += [f"from {quantity_text(flow.start, 's')}"] if flow.start else []
            parts += [] if flow.stop is None else [f"to {quantity_text(flow.stop, 's')}"]
            parts += [] if flow.size is None else [quantity_text(flow.size, "bytes")]
            return ", ".join(parts)

        rows = [(f"link {k}", of_link(link)) for k, link in enumerate(self.links[:_SHOWN])]
        rows += [("...", f"{self.n_links} links in all")] if self.n_links > _SHOWN else []
        rows += [
            (f"flow {k}", of_flow(flow, float(rtt)))
            for k, (flow, rtt) in enumerate(zip(self.flows[:_SHOWN], self.rtts, strict=False))
        ]
        return [*rows, *([("...", f"{self.n_flows} flows in all")] if self.n_flows > _SHOWN else [])]

    def check_flow(self, flow: Flow, name: str) -> None:
        """Refuse a flow that does not fit: unknown links, packets larger than a buffer, delays beyond the clock.

        Parameters
        ----------
        flow : Flow
        name : str
            What to call it in the message.

        Raises
        ------
        ValueError
            It does not fit.
        """
        for path in ("route", "reverse"):
            for link in getattr(flow, path) or ():
                if link >= len(self.links):
                    raise ValueError(f"{path} must use links 0 to {len(self.links) - 1}, got {link} ({name})")
        one_way = flow.access_delay + max(self._along(flow.route), self._along(flow.reverse or ()))
        if one_way >= LONGEST_DELAY:
            raise ValueError(f"delays of {name} must add up to < {LONGEST_DELAY:g} s one way, got {one_way:g} s")
        for link in flow.route:
            buffer = self.links[link].buffer
            if buffer is not None and buffer < flow.largest_packet:
                raise ValueError(
                    f"buffer must be >= a packet of {name} ({flow.largest_packet} bytes), "
                    f"got {buffer} bytes (link {link})"
                )

    # ---- delays and routes -------------------------------------------------------------------------------

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.flows)

    @property
    def n_links(self) -> int:
        """Number of links."""
        return len(self.links)

    @cached_property
    def capacities(self) -> FloatArray:
        """Shape (n_links,), bit/s."""
        return np.array([link.capacity for link in self.links])

    @cached_property
    def buffers(self) -> FloatArray:
        """Shape (n_links,), bytes, inf where unlimited; packets count as the mean one of the flows that cross."""
        packet = np.array([flow.mean_packet for flow in self.flows])
        mean = packet @ self.incidence / np.maximum(self.incidence.sum(axis=0), 1)
        in_bytes, in_packets = (
            np.array([np.inf if limit is None else float(limit) for limit in limits])
            for limits in ([link.buffer for link in self.links], [link.buffer_packets for link in self.links])
        )
        found: FloatArray = np.fmin(in_bytes, in_packets * np.where(mean > 0.0, mean, np.inf))
        return found

    @cached_property
    def incidence(self) -> NDArray[np.bool_]:
        """Shape (n_flows, n_links): True where the data of the flow cross the link."""
        crosses = np.zeros((self.n_flows, self.n_links), dtype=bool)
        for index, flow in enumerate(self.flows):
            crosses[index, list(flow.route)] = True
        return crosses

    @cached_property
    def rtts(self) -> FloatArray:
        """Shape (n_flows,), s: round-trip time without queues or transmission times."""
        return self._delays if self._rtts is None else np.array(self._rtts)

    @cached_property
    def _delays(self) -> FloatArray:
        """Shape (n_flows,), s: what the delays of hosts and links add up to, with the rounding of the sums."""
        return np.array([2.0 * f.access_delay + self._along(f.route) + self._along(f.reverse or f.route)
                         for f in self.flows])  # fmt: skip

    @cached_property
    def forward_delays(self) -> FloatArray:
        """Shape (n_flows, n_links), s: from the sender to the queue of the link; NaN where it is not crossed."""
        delays = np.full((self.n_flows, self.n_links), np.nan)
        for index, flow in enumerate(self.flows):
            at = flow.access_delay
            for link in flow.route:
                delays[index, link] = at
                at += self.links[link].delay
        return delays

    @cached_property
    def backward_delays(self) -> FloatArray:
        """Shape (n_flows, n_links), s: from the queue of the link over the receiver back to the sender."""
        return self.rtts[:, None] - self.forward_delays

    @cached_property
    def ack_delays(self) -> FloatArray:
        """Shape (n_flows,), s: what an ACK takes outside reverse links (all of its path, where there are none)."""
        return np.array([
            flow.access_delay if flow.reverse else rtt - flow.access_delay - self._along(flow.route)
            for flow, rtt in zip(self.flows, self.rtts, strict=True)
        ]).clip(min=0.0)  # fmt: skip

    def _along(self, route: Sequence[int]) -> float:
        return float(sum(self.links[link].delay for link in route))

    # ---- topologies --------------------------------------------------------------------------------------

    @classmethod
    def dumbbell(
        cls,
        capacity: Quantity,
        rtts: Sequence[Quantity],
        buffer: Quantity | None = None,
        delay: Quantity | None = None,
        starts: Sequence[Quantity] | None = None,
        stops: Sequence[Quantity | None] | None = None,
        sizes: Sequence[Quantity | None] | None = None,
        packet_size: Quantity = 1000,
    ) -> Network:
        """Return one bottleneck shared by flows of the given RTTs.

        Parameters
        ----------
        capacity : float, bit/s
            Of the bottleneck.
        rtts : sequence of Quantity, shape (n_flows,), s, >= 0
        buffer : int, bytes, or None for unlimited
        delay : float, s, optional
            Of the bottleneck, in one direction; default half the smallest RTT. Access delays make up the rest.
        starts, stops, sizes : sequence of Quantity, shape (n_flows,), optional
            As in Flow; None: from 0, endless.
        packet_size : int, bytes, optional

        Returns
        -------
        Network
            Network of one link and len(rtts) flows.

        Raises
        ------
        ValueError
            No RTT, an RTT below twice the delay, lists of different lengths.

        Examples
        --------
        >>> Network.dumbbell("100 Mb/s", rtts=["120 ms"]).links[0].delay
        0.06
        """
        times = [as_delay(rtt, "rtts") for rtt in rtts]
        if not times:
            raise ValueError("rtts must name at least one flow, got []")
        one_way = min(times) / 2.0 if delay is None else as_delay(delay, "delay")
        if min(times) < 2.0 * one_way * (1.0 - 1e-12):
            raise ValueError(f"rtts must be >= twice the delay ({2 * one_way:g} s), got {min(times):g} s")
        lists: dict[str, Sequence[Any]] = {}
        for name, given in (("start", starts), ("stop", stops), ("size", sizes)):
            if given is not None:
                lists[name] = list(given)
                if len(lists[name]) != len(times):
                    raise ValueError(
                        f"{name}s must have one entry for each of {len(times)} flows, got {len(lists[name])}"
                    )
        flows = [
            Flow(
                route=[0],
                access_delay=max(0.0, rtt / 2.0 - one_way),
                packet_size=packet_size,
                **{name: values[i] for name, values in lists.items()},
            )
            for i, rtt in enumerate(times)
        ]
        return cls([Link(capacity, one_way, buffer)], flows, tuple(times))

    @classmethod
    def parking_lot(
        cls,
        capacities: Sequence[Quantity],
        delay: Quantity = "50 ms",
        buffer: Quantity | None = None,
        starts: Sequence[Quantity] | None = None,
        access_delay: Quantity = 0.0,
        packet_size: Quantity = 1000,
        rtts: Sequence[Quantity] | None = None,
    ) -> Network:
        """Return a chain of links: flow 0 crosses all of them, flow k only link k - 1.

        Parameters
        ----------
        capacities : sequence of Quantity, shape (n_links,), bit/s
        delay : float, s, in one direction, optional
            Of a link.
        buffer : int, bytes, or None
        starts : sequence of Quantity, shape (n_links + 1,), s, optional
            Default all 0.
        access_delay : float, s, optional
            Of every flow.
        packet_size : int, bytes, optional
        rtts : sequence of Quantity, shape (n_links + 1,), s, optional
            Of the flows: then links have the largest equal delays that these allow, and access delays make up the rest,
            instead of delay and access_delay.

        Returns
        -------
        Network
            Network with n_links + 1 flows (THESIS IV.E.2, EVAL sec. 4.6 with two links).

        Raises
        ------
        ValueError
            No capacity, starts or rtts of another length.
        """
        if rtts is not None:
            return cls._lot(capacities, rtts, buffer, starts, packet_size)
        links = [Link(c, delay, buffer) for c in capacities]
        begin = list(starts) if starts is not None else [0.0] * (len(links) + 1)
        if len(begin) != len(links) + 1:
            raise ValueError(f"starts must have {len(links) + 1} entries, got {len(begin)}")
        routes = [list(range(len(links))), *([k] for k in range(len(links)))]
        flows = [
            Flow(route, start=start, access_delay=access_delay, packet_size=packet_size)
            for route, start in zip(routes, begin, strict=True)
        ]
        return cls(links, flows)

    @classmethod
    def _lot(
        cls,
        capacities: Sequence[Quantity],
        rtts: Sequence[Quantity],
        buffer: Quantity | None,
        starts: Sequence[Quantity] | None,
        packet_size: Quantity,
    ) -> Network:
        """A parking lot by the RTTs of its flows."""
        times, count = [as_delay(rtt, "rtts") for rtt in rtts], len(capacities)
        if len(times) != count + 1:
            raise ValueError(f"rtts must have {count + 1} entries, one more than links, got {len(times)}")
        delay = min(times[0] / count, *times[1:]) / 2.0
        lot = cls.parking_lot(capacities, delay, buffer, starts, packet_size=packet_size)
        flows = [
            replace(flow, access_delay=max(0.0, rtt / 2.0 - delay * len(flow.route)))
            for flow, rtt in zip(lot.flows, times, strict=True)
        ]
        return cls(lot.links, flows, tuple(times))

    @classmethod
    def T1(cls, capacity: Quantity = "10 Mb/s", starts: Sequence[Quantity] = (0.0, 5.0)) -> Network:
        """Return JETMAX fig. 1a: two flows of RTT 220 and 2020 ms; the second starts 5 s later.

        Parameters
        ----------
        capacity : float, bit/s, optional
        starts : sequence of Quantity, shape (2,), s, optional
        """
        return cls.dumbbell(capacity, rtts=[0.22, 2.02], starts=starts)

    @classmethod
    def T2(cls, capacity: Quantity = "10 Mb/s", starts: Sequence[Quantity] | None = None) -> Network:
        """Return JETMAX sec. 3.4: x1 to x99 of RTT 220 ms and x100 of 2020 ms; its capacity is taken from T1.

        Parameters
        ----------
        capacity : float, bit/s, optional
        starts : sequence of Quantity, shape (100,), s, optional
            Default: x100 starts 5 s later, as in T1.
        """
        return cls.dumbbell(
            capacity, rtts=[0.22] * 99 + [2.02], starts=[0.0] * 99 + [5.0] if starts is None else starts
        )

    @classmethod
    def T3(cls, capacity: Quantity = "10 Mb/s", starts: Sequence[Quantity] = (0.0, 5.0)) -> Network:
        """Return JETMAX fig. 3a without its ACK delays: T1, whose ACKs a Scenario sends through delay spikes.

        Parameters
        ----------
        capacity : float, bit/s, optional
        starts : sequence of Quantity, shape (2,), s, optional
        """
        return cls.T1(capacity, starts)

    @classmethod
    def T4(cls, delay: Quantity = "50 ms", access_delay: Quantity = 0.0) -> Network:
        """Return JETMAX fig. 4a: four bottlenecks in a ring, x1 and x3 half round each, x2 and x4 one link.

        The ACKs of x1 share links with x3 and those of x3 with x1 (R1 and R4 route clockwise); those of x2 and x4
        return by the shortest path. Capacities are those of the rates that JETMAX states (x1 alone 17 Mb/s, all four
        10 Mb/s): 20 and 17 Mb/s on either half; the delay of a link is not stated.

        Parameters
        ----------
        delay : float, s, in one direction, optional
            Of every link.
        access_delay : float, s, optional
            Of every flow.
        """
        links = [Link(c, delay) for c in ("20 Mb/s", "17 Mb/s", "20 Mb/s", "17 Mb/s")]
        paths: list[tuple[list[int], list[int] | None]] = [([0, 1], [2, 3]), ([0], None), ([2, 3], [0, 1]), ([2], None)]
        flows = [
            Flow(route, start=30.0 * k, access_delay=access_delay, reverse=reverse)
            for k, (route, reverse) in enumerate(paths)
        ]
        return cls(links, flows)

    @classmethod
    def T5(cls, joining: int = 50, join_at: Quantity = 30.0) -> Network:
        """Return JETMAX sec. 3.8: 100 Mb/s, RTT 100 ms, 1.25 MB buffer, one flow and then many at once.

        Parameters
        ----------
        joining : int, optional
            Flows that join.
        join_at : float, s, optional
        """
        count = as_count(joining, "joining", bits=20)
        return cls.dumbbell("100 Mb/s", rtts=[0.1] * (count + 1), buffer="1.25 MB", starts=[0.0] + [join_at] * count)

    @classmethod
    def T_u(cls, scale: float = 1.0, join_at: Quantity = 30.0) -> Network:
        """Return THESIS fig. 3: x1 over l1 (155 Mb/s) and l2 (622 Mb/s), x2 to x10 over l1 and l3 (100 Mb/s).

        Parameters
        ----------
        scale : float, > 0, optional
            Factor on all link delays (1, 100 and 1 ms).
        join_at : float, s, optional
            Start of x2 to x10.
        """
        links = [
            Link("155 Mb/s", 0.001 * scale),
            Link("622 Mb/s", 0.1 * scale),
            Link("100 Mb/s", 0.001 * scale),
        ]
        return cls(links, [Flow([0, 1])] + [Flow([0, 2], start=join_at) for _ in range(9)])

    @classmethod
    def xcp_unfair(cls, n: int, delay: Quantity = "10 ms", long_link_first: bool = False) -> Network:
        """Return EVAL fig. 6a: l1 of 155 Mb/s, l2 of 155 (n-1)/n Mb/s, flow 0 on l1, n^2 - 1 flows on both.

        Parameters
        ----------
        n : int, >= 2
        delay : float, s, in one direction, optional
            Of either link (not stated by EVAL).
        long_link_first : bool, optional
            The long flows cross l2 before l1.
        """
        count = as_count(n, "n", minimum=2)
        links = [Link("155 Mb/s", delay), Link(155e6 * (count - 1) / count, delay)]
        route = [1, 0] if long_link_first else [0, 1]
        return cls(links, [Flow([0])] + [Flow(route) for _ in range(count**2 - 1)])

    # ---- plain data --------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables (for TOML): `links` and `flows`, defaults left out; `rtts` where they were given."""
        tables = {"links": [to_table(link) for link in self.links], "flows": [to_table(flow) for flow in self.flows]}
        return ({} if self._rtts is None else {"rtts": list(self._rtts)}) | tables

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Network:
        """Return the network that `to_dict` described; unknown keys are refused by name.

        Parameters
        ----------
        data : mapping
            Mapping with the lists of tables `links` and `flows`, and maybe `rtts` [s], free of the rounding of sums:
            ignored where delays differ from it.
        """
        network = cls(
            links=[from_table(Link, table, f"links[{i}]") for i, table in enumerate(tables_in(data, "links"))],
            flows=[from_table(Flow, table, f"flows[{i}]") for i, table in enumerate(tables_in(data, "flows"))],
        )
        if "rtts" not in data:
            return network
        if isinstance(data["rtts"], str) or not isinstance(data["rtts"], Iterable):
            raise TypeError(f"rtts must be a sequence of times, got {shown(data['rtts'])}")
        rtts = tuple(as_delay(rtt, "rtts") for rtt in data["rtts"])
        if len(rtts) != network.n_flows:
            raise ValueError(f"rtts must have one entry for each of {network.n_flows} flows, got {len(rtts)}")
        return replace(network, _rtts=rtts) if np.allclose(rtts, network.rtts, rtol=1e-12, atol=1e-15) else network

    def with_flows(self, flows: Sequence[Flow]) -> Network:
        """Return this network with other flows.

        Parameters
        ----------
        flows : sequence of Flow
        """
        return replace(self, flows=flows, _rtts=None)


def _span(values: FloatArray, unit: str) -> str:
    """The least and the largest of some quantities; one if they are equal."""
    low, high = float(values.min()), float(values.max())
    return quantity_text(low, unit) + ("" if low == high else f" to {quantity_text(high, unit)}")


def _instances(items: Any, kind: type, name: str) -> tuple[Any, ...]:
    found = tuple(items) if isinstance(items, Iterable) else None
    if found is None or any(not isinstance(item, kind) for item in found):
        raise TypeError(f"{name} must be a sequence of {kind.__name__}, got {shown(items)}")
    if not found:
        raise ValueError(f"{name} must be at least one {kind.__name__}, got none")
    return found


def tables_in(data: Mapping[str, Any], name: str, where: str = "") -> Sequence[Any]:
    """Return the list of tables of this name, empty if there is none.

    Parameters
    ----------
    data : mapping
        Mapping read from TOML.
    name : str
        Key.
    where : str, optional
        What comes before it in a message.
    """
    given = data.get(name, ())
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise TypeError(f"{where}{name} must be a list of tables, got {shown(given)}")
    return given


def to_table(item: Any) -> dict[str, Any]:
    """Return a dataclass as a plain table that `from_table` reads back, defaults left out.

    Parameters
    ----------
    item : Link
        Flow or another dataclass of plain values.
    """
    values = {f.name: (getattr(item, f.name), f.default) for f in fields(item)}
    return {k: list(v) if isinstance(v, tuple) else v for k, (v, default) in values.items() if v != default}


def from_table(kind: type, table: Any, where: str) -> Any:
    """Return `kind(**table)`, refusing unknown keys and naming the position of any bad value in one line.

    Parameters
    ----------
    kind : type
        Dataclass.
    table : object
        Mapping read from TOML.
    where : str
        What to call it in a message.
    """
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table, got {shown(table)}")
    known = [f.name for f in fields(kind) if f.init]
    for key in table:
        if key not in known:
            raise ValueError(f"{where} has no key {key!r}; allowed are {', '.join(known)}")
    try:
        return kind(**table)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (in {where})") from None
