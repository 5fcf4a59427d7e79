"""Links, flows and networks of them, with the topologies of the papers and of data centers.

A link is unidirectional: a buffer, a transmitter of `capacity`, then a wire of `delay`. The data of a
flow cross its access delay and then the links of its `route`; its ACKs return over the links of `reverse` or, by
default, over a pure delay equal to the forward one. The RTT of a flow is 2 (access_delay + sum of link delays):
it includes neither queues nor transmission times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown, unknown_key
from ecc._support.display import Displayed, Rows, changed_text, quantity_text
from ecc._support.quantity import (
    LONGEST_DELAY,
    OptionalQuantityField,
    OptionalSizeField,
    PacketSizeField,
    Quantity,
    QuantityField,
    SizeField,
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
from ecc.network.applications import Application, application_from_table
from ecc.network.demands import ACK_SIZE, Demand
from ecc.network.drawing import routes_svg
from ecc.network.fabric import Ends, Graph, ecmp_index, fat_tree_ends, leaf_spine_ends

__all__ = ["Flow", "Link", "Network", "Pause"]

FloatArray = NDArray[np.float64]
SPRAYINGS = ("round robin", "random")
"""Allowed ways to spread the packets of a flow over several routes."""
_MAX_THRESHOLD = 255
_PRIORITIES = range(8)
_FEW = 1 << 31  # indices of links below this number need no further check


@check_arguments
@dataclass(frozen=True)
class Pause:
    """Priority flow control of a link (PFC, IEEE 802.1Qbb), which pauses the link before its packets are dropped.

    For each priority, the bytes that arrived over the link and wait in the queues of the next links are counted. If the
    count exceeds `xoff`, a PAUSE frame is sent back. After the delay of the link, the link finishes the packet in
    transmission and serves no more packets of this priority. If the count falls to `xon` or below, another frame lets
    the link resume, after the same delay.

    Parameters
    ----------
    xoff : int, bytes, > 0, <= 2^50
        Count above which the link is paused, for example "100 kB".
    xon : int, bytes, >= 0, <= xoff, or None
        Count at which it resumes. None: half of `xoff`.
    headroom : int, bytes, >= 0, or None
        Bytes accepted beyond `xoff`; excess packets are dropped. None: the maximum that can arrive before the link has
        stopped, which is capacity * 2 * delay / 8 + 2 * the largest packet of the run.

    Raises
    ------
    ValueError, TypeError
        A value that is not a size, or xon above xoff.

    Examples
    --------
    >>> Link("100 Gb/s", "1 us", pause=Pause("100 kB")).pause.xon
    50000
    """

    xoff: SizeField = required()
    xon: OptionalSizeField = default(None)
    headroom: OptionalSizeField = default(None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "xoff", as_size(self.xoff, "xoff"))
        for name in ("xon", "headroom"):
            value = getattr(self, name)
            if value is not None:
                is_zero = type(value) in (int, float) and value == 0
                size = 0 if is_zero else as_size(value, f"{name}, unless 0,")
                object.__setattr__(self, name, size)
        if self.xon is None:
            object.__setattr__(self, "xon", self.xoff // 2)
        if self.xon is not None and self.xon > self.xoff:
            raise ValueError(f"xon must be <= xoff ({self.xoff} bytes), got {self.xon}")


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
        Size of the drop-tail buffer, which holds the packet in service too.
    buffer_packets : int, packets, > 0, or None for unlimited
        Limit in packets. If both limits are given, both apply.
    pause : Pause or None
        Priority flow control (PFC) of the packets that arrive over the link. None: packets that do not fit into the
        buffers of the next links are dropped.

    Raises
    ------
    ValueError
        A value out of range.
    TypeError
        A value that is not a quantity.

    Examples
    --------
    >>> Link("155 Mb/s", "1 ms").capacity
    155000000.0
    """

    capacity: QuantityField = required()
    delay: QuantityField = default(0.0)
    buffer: OptionalSizeField = default(None)
    buffer_packets: int | None = None
    pause: Pause | None = None

    def __repr__(self) -> str:
        return changed_text(self, {"capacity": "bit/s", "delay": "s", "buffer": "bytes"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", as_rate(self.capacity, "capacity"))
        object.__setattr__(self, "delay", as_delay(self.delay, "delay"))
        if isinstance(self.buffer, str) and self.buffer.rstrip().endswith(("packet", "packets")):
            raise ValueError(
                f"buffer must be in bytes, for example 20 * 1500, got {shown(self.buffer)}; buffer_packets of a link "
                "limits it in packets"
            )
        if self.buffer is not None:
            object.__setattr__(self, "buffer", as_size(self.buffer, "buffer"))
        if self.buffer_packets is not None:
            object.__setattr__(self, "buffer_packets", as_count(self.buffer_packets, "buffer_packets", minimum=1))
        if isinstance(self.pause, Mapping):
            object.__setattr__(self, "pause", from_table(Pause, self.pause, "pause"))
        if not isinstance(self.pause, Pause | None):
            raise TypeError(f"pause must be a Pause or None, got {shown(self.pause)}")


@check_arguments
@dataclass(frozen=True)
class Flow:
    """A flow: one sender, one receiver, and the links between them.

    Parameters
    ----------
    route : sequence of int
        Indices of the links that the data cross, in order; at least one.
    start : float, s, >= 0
        Time at which the flow begins.
    stop : float, s, > start, or None
        Time at which it stops sending. None: never.
    size : int, bytes, > 0, or None for endless
        Number of bytes to deliver.
    access_delay : float, s, >= 0
        Delay between the sender and the first link, in one direction.
    packet_size : int, bytes, > 0
        Size of a data packet on the wire; (lo, hi): drawn uniformly for each packet.
    reverse : sequence of int or None
        Indices of the links that the ACKs cross. None: a pure delay equal to that of the forward path.
    alternatives : sequence of sequence of int
        Further routes from the sender to the receiver: each packet takes one of all routes. RTT, first timeout and the
        pure delay of ACKs are those of `route`, the first one.
    spraying : str
        Choice of the route of each packet if there are several: "round robin" (one after the other) or "random".
    trimmed_size : int, bytes, > 0, or None
        Size of a packet after a router has trimmed its data (`ecc.queues.Trimming`), at most that of a packet. None:
        packets of this flow are dropped there instead.
    reordering_threshold : int, packets, from 1 to 255, or None
        Number of later packets, or of duplicate ACKs, after which missing data count as lost; fewer may be reordering.
        None: 3, or 1 without a transport if packets stay in order.
    writes : (Quantity, Quantity), Quantity, Application or None
        Writes of the application: (bytes, period) [bytes, s; > 0], one at the start and one after each period; a rate
        [bit/s], one packet at a time; or an application of `ecc.applications`. None: all data are available at the
        start.
    delayed_acks : (int, Quantity) or None
        (packets, time): the receiver sends one ACK for this number of packets (>= 1), or for those received up to this
        time (s, >= 0) after the first of them. The ACK is that of the last packet. None: one ACK for each packet; with
        the transport "quic", (2, "25 ms") (RFC 9000 sec. 13.2).
    priority : int, from 0 to 7
        Class of its packets and ACKs in priority flow control (`Pause`); without effect elsewhere.
    ack_size : int, bytes, > 0
        Size of an ACK on the wire: more than 40 if it carries data that the sender requested, for example 1500.

    Raises
    ------
    ValueError
        Empty route, stop not after start, a value out of range.
    TypeError
        A value that is not a quantity.

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
    alternatives: Sequence[Sequence[int]] = ()
    spraying: str = "round robin"
    reordering_threshold: int | None = None
    trimmed_size: OptionalSizeField = default(None)
    priority: int = 0
    writes: tuple[Quantity, Quantity] | Quantity | Application | None = None
    ack_size: SizeField = default(ACK_SIZE)

    def __repr__(self) -> str:
        return changed_text(self, dict.fromkeys(("start", "stop", "access_delay"), "s") | {"size": "bytes"})

    def __post_init__(self) -> None:
        for name, value in tuple(vars(self).items()):
            if value is not _DEFAULTS_OF_FLOW[name]:  # most fields of a hundred thousand flows are defaults
                object.__setattr__(self, name, _FIELDS_OF_FLOW[name](value, name))
        if self.stop is not None and self.stop <= self.start:
            raise ValueError(f"stop must be > start ({self.start:g} s), got {self.stop:g} s")
        if self.trimmed_size is not None and self.trimmed_size > self.largest_packet:
            allowed = f"<= a packet ({self.largest_packet} bytes)"
            raise ValueError(f"trimmed_size must be {allowed}, got {self.trimmed_size} bytes")

    def _with_access_delay(self, delay: float) -> Flow:
        """Return a copy with an access delay that has been checked: no field is checked again."""
        flow = object.__new__(Flow)
        vars(flow).update(vars(self), access_delay=delay)
        return flow

    @property
    def routes(self) -> tuple[Sequence[int], ...]:
        """All routes of the data, the first one first."""
        return (self.route, *self.alternatives)

    @property
    def writes_in_bytes(self) -> tuple[int, float]:
        """Size of a write [bytes] and the period [s] of the application; (0, 0.0): it does not write periodically."""
        if self.writes is None or isinstance(self.writes, Application):
            return 0, 0.0
        if isinstance(self.writes, tuple):
            return int(as_number(self.writes[0], "writes")), float(as_number(self.writes[1], "writes"))
        return self.largest_packet, 8.0 * self.largest_packet / as_number(self.writes, "writes")

    @property
    def largest_packet(self) -> int:
        """Size of the largest packet, bytes."""
        size = self.packet_size
        return int(size[1] if isinstance(size, tuple) else size)

    @property
    def mean_packet(self) -> float:
        """Mean size of the packets, bytes."""
        size = self.packet_size
        return 0.5 * (size[0] + size[1]) if isinstance(size, tuple) else float(size)

    @property
    def mean_acknowledged(self) -> float:
        """Mean number of bytes that an ACK acknowledges if no delayed ACK is sent early because its time is up."""
        return self.mean_packet * (1 if self.delayed_acks is None else self.delayed_acks[0])


def _writes(value: Any, name: str) -> tuple[int, float] | float | Application:
    """Return (bytes, period), a rate, or an application."""
    if isinstance(value, Application):
        return value
    if isinstance(value, Mapping):
        return application_from_table(value, name)
    if not isinstance(value, list | tuple):
        return as_rate(value, name)
    if len(value) != 2:
        raise ValueError(f"{name} must be (bytes, period) or a rate, got {shown(value)}")
    return as_size(value[0], name), as_delay(value[1], name, positive=True)


def _sizes(value: Any, name: str) -> int | tuple[int, ...]:
    """Return one size, or the limits of a range of sizes."""
    if not isinstance(value, list | tuple):
        return as_size(value, name)
    sizes = tuple(as_size(size, name) for size in value)
    if len(sizes) != 2 or sizes[0] > sizes[1]:
        raise ValueError(f"{name} must be one size or (lowest, highest), got {shown(value)}")
    return sizes


def _links_of(route: Any, name: str) -> tuple[int, ...]:
    if isinstance(route, str) or not isinstance(route, Iterable):
        raise TypeError(f"{name} must be a sequence of link indices, got {shown(route)}")
    links = tuple(link if type(link) is int and 0 <= link < _FEW else as_count(link, name) for link in route)
    if not links:
        raise ValueError(f"{name} must name at least one link, got {shown(route)}")
    if len(set(links)) < len(links):
        raise ValueError(f"{name} must cross a link at most once, got {list(links)}")
    return links


def _routes_of(routes: Any, name: str) -> tuple[tuple[int, ...], ...]:
    if isinstance(routes, str) or not isinstance(routes, Iterable):
        raise TypeError(f"{name} must be a sequence of routes, got {shown(routes)}")
    return tuple(_links_of(route, name) for route in routes)


def _acks_delayed_by(value: Any, name: str) -> tuple[int, float]:
    """Return (packets, time)."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name} must be (packets, time), got {shown(value)}")
    return as_count(value[0], name, minimum=1, bits=31), as_delay(value[1], name)


def _spraying(value: Any, name: str) -> Any:
    return as_choice(value, name, SPRAYINGS)


def _priority(value: Any, name: str) -> int:
    if (priority := as_count(value, name)) not in _PRIORITIES:
        raise ValueError(f"{name} must be from 0 to {_PRIORITIES[-1]}, got {value}")
    return priority


def _threshold(value: Any, name: str) -> int:
    if (threshold := as_count(value, name, minimum=1)) > _MAX_THRESHOLD:
        raise ValueError(f"{name} must be <= {_MAX_THRESHOLD} packets, got {threshold}")
    return threshold


_FIELDS_OF_FLOW: dict[str, Callable[[Any, str], Any]] = {
    "route": _links_of,
    "start": as_time,
    "stop": as_time,
    "size": as_size,
    "access_delay": as_delay,
    "packet_size": _sizes,
    "reverse": _links_of,
    "delayed_acks": _acks_delayed_by,
    "alternatives": _routes_of,
    "trimmed_size": as_size,
    "spraying": _spraying,
    "priority": _priority,
    "writes": _writes,
    "ack_size": as_size,
    "reordering_threshold": _threshold,
}
"""Functions that convert and check the values of fields."""
_DEFAULTS_OF_FLOW = {f.name: f.default for f in fields(Flow)}

_MAX_SHOWN = 6  # number of links and of flows that the repr of a network lists


@check_arguments
@dataclass(frozen=True, repr=False)
class Network(Displayed):
    """Links and the flows over them.

    Parameters
    ----------
    links : sequence of Link
    flows : sequence of Flow
        Flows; their routes are indices into `links`.
    ends : sequence of (int, int)
        Nodes at the tail and the head of each link. (): unknown.
    n_hosts : int
        Number of hosts: nodes 0 to n_hosts - 1, which forward nothing. The other nodes are switches.

    Raises
    ------
    ValueError
        No link, no flow, a route over an unknown link, a buffer smaller than a packet that crosses it; ends for only
        some of the links, hosts without ends.

    Notes
    -----
    Arrays over flows and links follow the order of `flows` and `links`.

    Examples
    --------
    >>> Network.dumbbell("100 Mb/s", rtts=[0.12, 0.3]).rtts.tolist()
    [0.12, 0.3]
    """

    links: Sequence[Link]
    flows: Sequence[Flow]
    _rtts: tuple[float, ...] | None = field(default=None, repr=False)  # values of `rtts=`, free of rounding
    ends: Sequence[tuple[int, int]] = ()
    n_hosts: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", _instances(self.links, Link, "links"))
        object.__setattr__(self, "flows", _instances(self.flows, Flow, "flows"))
        object.__setattr__(self, "ends", _ends_of(self.ends, len(self.links)))
        object.__setattr__(self, "n_hosts", as_count(self.n_hosts, "n_hosts"))
        if self.n_hosts and not self.ends:
            raise ValueError(f"n_hosts must be 0 if links have no ends, got {self.n_hosts}")
        n_links = len(self.links)
        longest = sum(link.delay for link in self.links)
        smallest = min((link.buffer for link in self.links if link.buffer is not None), default=math.inf)
        for index, flow in enumerate(self.flows):
            if (  # a flow that may fail a check
                max(flow.route) >= n_links
                or flow.reverse is not None
                or flow.alternatives
                or flow.access_delay + longest >= LONGEST_DELAY
                or flow.largest_packet > smallest
            ):
                self.check_flow(flow, f"flow {index}")

    def summary(self) -> str:
        """Return a one-line summary: links, flows and RTTs."""
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
            pause = "" if link.pause is None else f", XOFF {quantity_text(link.pause.xoff, 'bytes')}"
            return f"{quantity_text(link.capacity, 'bit/s')}, {quantity_text(link.delay, 's')}, buffer {buffer}{pause}"

        def of_flow(flow: Flow, rtt: float) -> str:
            parts = [f"links {', '.join(map(str, flow.route))}", f"RTT {quantity_text(rtt, 's')}"]
            parts += [f"from {quantity_text(flow.start, 's')}"] if flow.start else []
            parts += [] if flow.stop is None else [f"to {quantity_text(flow.stop, 's')}"]
            parts += [] if flow.size is None else [quantity_text(flow.size, "bytes")]
            parts += [f"{len(flow.routes)} routes, {flow.spraying}"] if flow.alternatives else []
            return ", ".join(parts)

        rows = [(f"link {k}", of_link(link)) for k, link in enumerate(self.links[:_MAX_SHOWN])]
        rows += [("...", f"{self.n_links} links in all")] if self.n_links > _MAX_SHOWN else []
        rows += [
            (f"flow {k}", of_flow(flow, float(rtt)))
            for k, (flow, rtt) in enumerate(zip(self.flows[:_MAX_SHOWN], self.rtts, strict=False))
        ]
        return [*rows, *([("...", f"{self.n_flows} flows in all")] if self.n_flows > _MAX_SHOWN else [])]

    def _repr_html_(self) -> str:
        texts = [(quantity_text(link.capacity, "bit/s"), quantity_text(link.delay, "s")) for link in self.links]
        return super()._repr_html_() + routes_svg(texts, [flow.route for flow in self.flows])

    def check_flow(self, flow: Flow, name: str) -> None:
        """Raise an error if a flow does not fit: unknown links, packets larger than a buffer, delays beyond the clock.

        Parameters
        ----------
        flow : Flow
        name : str
            Name of the flow in the message.

        Raises
        ------
        ValueError
            The flow does not fit.
        """
        paths = [("route", flow.route), ("reverse", flow.reverse or ())]
        paths += [("alternatives", route) for route in flow.alternatives]
        for path, links in paths:
            for link in links:
                if link >= len(self.links):
                    raise ValueError(f"{path} must use links 0 to {len(self.links) - 1}, got {link} ({name})")
        one_way = flow.access_delay + max(self._delay_along(links) for _, links in paths)
        if one_way >= LONGEST_DELAY:
            raise ValueError(f"delays of {name} must add up to < {LONGEST_DELAY:g} s one way, got {one_way:g} s")
        for link in dict.fromkeys(link for route in flow.routes for link in route):
            buffer = self.links[link].buffer
            if buffer is not None and buffer < flow.largest_packet:
                raise ValueError(
                    f"buffer must be >= a packet of {name} ({flow.largest_packet} bytes), "
                    f"got {buffer} bytes (link {link})"
                )
        for link in flow.reverse or ():
            buffer = self.links[link].buffer
            if buffer is not None and buffer < flow.ack_size:
                raise ValueError(
                    f"buffer must be >= an ACK of {name} ({flow.ack_size} bytes), got {buffer} bytes (link {link})"
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
        """Capacities of the links, shape (n_links,), bit/s."""
        return np.array([link.capacity for link in self.links])

    @cached_property
    def buffers(self) -> FloatArray:
        """Buffers of the links, shape (n_links,), bytes; inf: unlimited.

        A limit in packets is converted with the mean packet of the flows that cross the link.
        """
        packet = np.array([flow.mean_packet for flow in self.flows])
        mean = packet @ self.incidence / np.maximum(self.incidence.sum(axis=0), 1)
        in_bytes, in_packets = (
            np.array([np.inf if limit is None else float(limit) for limit in limits])
            for limits in ([link.buffer for link in self.links], [link.buffer_packets for link in self.links])
        )
        limits_in_bytes: FloatArray = np.fmin(in_bytes, in_packets * np.where(mean > 0.0, mean, np.inf))
        return limits_in_bytes

    @cached_property
    def incidence(self) -> NDArray[np.bool_]:
        """Links on each flow's route, shape (n_flows, n_links): True if the data of the flow cross the link.

        Raises
        ------
        ValueError
            A flow has several routes or a link has a `pause`: only packet runs represent these.
        """
        crosses = np.zeros((self.n_flows, self.n_links), dtype=bool)
        crosses[self.crossings] = True
        return crosses

    @cached_property
    def crossings(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`incidence` as pairs: the index of a flow, and that of a link on its route, in the order of flows and routes.

        Raises
        ------
        ValueError
            See `incidence`.
        """
        self._refuse_packets_only()
        lengths = np.array([len(flow.route) for flow in self.flows])
        links = np.fromiter(chain.from_iterable(flow.route for flow in self.flows), np.int64, int(lengths.sum()))
        return np.repeat(np.arange(self.n_flows), lengths), links

    @cached_property
    def rtts(self) -> FloatArray:
        """Round-trip times without queues or transmission times, shape (n_flows,), s."""
        return self._delays if self._rtts is None else np.array(self._rtts)

    @cached_property
    def _delays(self) -> FloatArray:
        """Sums of the delays of hosts and links over each round trip, with rounding, shape (n_flows,), s."""
        return np.array(
            [
                2.0 * f.access_delay
                + (forward_delay := self._delay_along(f.route))
                + (self._delay_along(f.reverse) if f.reverse else forward_delay)
                for f in self.flows
            ]
        )

    @cached_property
    def forward_delays(self) -> FloatArray:
        """Delays from sender to the queue of each link, shape (n_flows, n_links), s; NaN: not on the route."""
        self._refuse_packets_only()
        delays = np.full((self.n_flows, self.n_links), np.nan)
        flows, links = self.crossings
        hops = np.arange(len(flows)) - np.searchsorted(flows, flows)
        of_links = np.array([link.delay for link in self.links])
        at = np.array([flow.access_delay for flow in self.flows])
        for hop in range(int(hops.max()) + 1):
            crossing, link = flows[hops == hop], links[hops == hop]
            delays[crossing, link] = at[crossing]
            at[crossing] += of_links[link]
        return delays

    @cached_property
    def backward_delays(self) -> FloatArray:
        """Delays from the queue of each link over the receiver back to the sender, shape (n_flows, n_links), s."""
        return self.rtts[:, None] - self.forward_delays

    @cached_property
    def ack_delays(self) -> FloatArray:
        """Delays of ACKs outside the links of `reverse` (without them: of the whole path), shape (n_flows,), s."""
        return np.array(
            [
                flow.access_delay if flow.reverse else rtt - flow.access_delay - self._delay_along(flow.route)
                for flow, rtt in zip(self.flows, self.rtts, strict=True)
            ]
        ).clip(min=0.0)

    def _refuse_packets_only(self) -> None:
        for index, flow in enumerate(self.flows):
            if flow.alternatives:
                raise ValueError(
                    f"alternatives must be empty except in packet runs, got {len(flow.alternatives)} (flow {index})"
                )
            if flow.writes is not None:
                raise ValueError(f"writes must be None except in packet runs, got {shown(flow.writes)} (flow {index})")
            if flow.ack_size != ACK_SIZE:
                raise ValueError(
                    f"ack_size must be {ACK_SIZE} bytes except in packet runs, got {flow.ack_size} (flow {index})"
                )
        for index, link in enumerate(self.links):
            if link.pause is not None:
                raise ValueError(f"pause must be None except in packet runs, got {link.pause} (link {index})")

    def _delay_along(self, route: Sequence[int]) -> float:
        return float(sum([self.links[link].delay for link in route]))

    # ---- paths between hosts -----------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> Graph:
        if not self.n_hosts:
            raise ValueError("n_hosts must be > 0 for paths between hosts, got 0: give the network ends and n_hosts")
        return Graph(tuple(self.ends), self.n_hosts)

    def paths(self, source: int, destination: int) -> tuple[tuple[int, ...], ...]:
        """Return all shortest paths from one host to another, in the order of their links.

        Parameters
        ----------
        source, destination : int
            Hosts.

        Returns
        -------
        tuple of tuple of int
            Sequences of link indices, like `route` of a Flow.

        Raises
        ------
        ValueError
            Not two hosts of a network with `ends`, or no path between them.

        Examples
        --------
        >>> len(Network.fat_tree(4, [(0, 15)]).paths(0, 15))
        4
        """
        hosts = as_count(source, "source"), as_count(destination, "destination")
        return tuple(self._graph.path(*hosts, index) for index in range(self._graph.n_paths(*hosts)))

    def with_demands(self, demands: Sequence[Any], seed: int = 1, ack_links: bool = True) -> Network:
        """Return this network with flows between its hosts, each over one of the shortest paths.

        Parameters
        ----------
        demands : sequence of Demand, or of (source, destination)
        seed : int, optional
            Seed of the hash that chooses paths (ECMP): BLAKE2b of source, destination, the number of the flow among
            those of this pair, and the seed, modulo the number of paths (`ecc.network.fabric.ecmp_index`). All packets
            of a flow take one path, which does not depend on other flows. The choice is uniform over whole paths, not
            made switch by switch.
        ack_links : bool, optional
            True: ACKs return over links, on a path with a separate hash. False: over a pure delay equal to that of the
            forward path.

        Raises
        ------
        TypeError, ValueError
            A value that is not a demand, or not between two hosts of a network with `ends`; a path that does not
            exist.
        """
        return self.with_flows(_routed(self._graph, demands, seed, ack_links))

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
        """Return a dumbbell: one bottleneck shared by flows of the given RTTs.

        Parameters
        ----------
        capacity : float, bit/s
            Capacity of the bottleneck.
        rtts : sequence of Quantity, shape (n_flows,), s, >= 0
        buffer : int, bytes, or None for unlimited
        delay : float, s, optional
            Delay of the bottleneck, in one direction; default: half the smallest RTT. Access delays make up the rest.
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
        times = _delays_of(rtts, "rtts")
        if not times:
            raise ValueError("rtts must name at least one flow, got []")
        one_way = min(times) / 2.0 if delay is None else as_delay(delay, "delay")
        if min(times) < 2.0 * one_way * (1.0 - 1e-12):
            raise ValueError(f"rtts must be >= twice the delay ({2 * one_way:g} s), got {min(times):g} s")
        lists: dict[str, Sequence[Any]] = {}
        for name, entries in (("start", starts), ("stop", stops), ("size", sizes)):
            if entries is not None:
                lists[name] = list(entries)
                if len(lists[name]) != len(times):
                    raise ValueError(
                        f"{name}s must have one entry for each of {len(times)} flows, got {len(lists[name])}"
                    )
        delays = [max(0.0, rtt / 2.0 - one_way) for rtt in times]
        if lists:
            flows = [
                Flow([0], access_delay=delay, packet_size=packet_size, **{name: of[i] for name, of in lists.items()})
                for i, delay in enumerate(delays)
            ]
        else:
            first = Flow([0], packet_size=packet_size)
            flows = [first._with_access_delay(delay) for delay in delays]
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
            Delay of each link.
        buffer : int, bytes, or None
        starts : sequence of Quantity, shape (n_links + 1,), s, optional
            Default all 0.
        access_delay : float, s, optional
            Access delay of every flow.
        packet_size : int, bytes, optional
        rtts : sequence of Quantity, shape (n_links + 1,), s, optional
            RTTs of the flows, instead of delay and access_delay: all links have the same delay, the largest that these
            RTTs allow, and access delays make up the rest.

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
            return cls._parking_lot_with_rtts(capacities, rtts, buffer, starts, packet_size)
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
    def _parking_lot_with_rtts(
        cls,
        capacities: Sequence[Quantity],
        rtts: Sequence[Quantity],
        buffer: Quantity | None,
        starts: Sequence[Quantity] | None,
        packet_size: Quantity,
    ) -> Network:
        """Return a parking lot with given RTTs."""
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
    def leaf_spine(
        cls,
        leaves: int,
        spines: int,
        hosts_per_leaf: int,
        flows: Sequence[Any],
        capacity: Quantity = "100 Gb/s",
        delay: Quantity = "1 us",
        buffer: Quantity | None = None,
        fabric_capacity: Quantity | None = None,
        oversubscription: float | None = None,
        host_delay: Quantity | None = None,
        host_buffer: Quantity | None = None,
        seed: int = 1,
        ack_links: bool = True,
        pause: Pause | None = None,
    ) -> Network:
        """Return a leaf-spine fabric: hosts at leaves, and each leaf joined to each spine.

        Parameters
        ----------
        leaves, spines, hosts_per_leaf : int, > 0
            Host h is at leaf h // hosts_per_leaf.
        flows : sequence of Demand, or of (source, destination)
            Flows between hosts; see `ecc.demands` for patterns.
        capacity : float, bit/s, optional
            Capacity of the links of hosts.
        delay : float, s, in one direction, optional
            Delay of every link.
        buffer : int, bytes, or None for unlimited
            Buffer of every port of a switch.
        fabric_capacity : float, bit/s, optional
            Capacity of the links between switches; default: determined by `oversubscription`.
        oversubscription : float, > 0, optional
            Total capacity of the hosts of a leaf over that of its links to spines, instead of fabric_capacity. Default
            1; for example 2 if hosts can send twice the rate that the uplinks carry.
        host_delay : float, s, in one direction, optional
            Delay of the links of hosts; default: `delay`.
        host_buffer : int, bytes, or None for unlimited
            Buffer of the links that leave hosts.
        seed, ack_links : int, bool, optional
            See `with_demands`.
        pause : Pause, optional
            Priority flow control (PFC) of all links that lead to a switch.

        Returns
        -------
        Network
            Link i leaves host i, link n_hosts + i enters it. Then follow the links from leaves to spines, leaf by leaf,
            and those back, in the same order. There is one shortest path between two leaves over each spine.

        Raises
        ------
        ValueError, TypeError
            A number out of range, fabric_capacity and oversubscription together, flows that are not between two hosts.

        Examples
        --------
        >>> net = Network.leaf_spine(4, 2, 8, [(0, 31)], "25 Gb/s", oversubscription=2)
        >>> net.n_hosts, net.links[-1].capacity
        (32, 50000000000.0)
        """
        counts = [
            as_count(leaves, "leaves", minimum=1, bits=16),
            as_count(spines, "spines", minimum=1, bits=16),
            as_count(hosts_per_leaf, "hosts_per_leaf", minimum=1, bits=16),
        ]
        return cls._fabric(
            leaf_spine_ends(*counts),
            flows,
            capacity,
            delay,
            buffer,
            fabric_capacity,
            oversubscription,
            counts[2] / counts[1],
            host_delay,
            host_buffer,
            seed,
            ack_links,
            pause,
        )

    @classmethod
    def fat_tree(
        cls,
        k: int,
        flows: Sequence[Any],
        capacity: Quantity = "100 Gb/s",
        delay: Quantity = "1 us",
        buffer: Quantity | None = None,
        fabric_capacity: Quantity | None = None,
        oversubscription: float | None = None,
        host_delay: Quantity | None = None,
        host_buffer: Quantity | None = None,
        seed: int = 1,
        ack_links: bool = True,
        pause: Pause | None = None,
    ) -> Network:
        """Return a fat tree of switches with k ports: k^3/4 hosts in k pods (Al-Fares et al. 2008).

        Parameters
        ----------
        k : int, even, >= 2
            Number of ports. Host h is at edge switch h // (k/2), in pod h // (k/2)^2.
        flows, capacity, delay, buffer, fabric_capacity : object
            See `leaf_spine`.
        oversubscription : float, > 0, optional
            Capacity of the links of hosts over that of links between switches, instead of fabric_capacity. Default 1.
        host_delay, host_buffer, seed, ack_links, pause : object
            See `leaf_spine`.

        Returns
        -------
        Network
            Link i leaves host i, link n_hosts + i enters it. Then follow the links from edge to aggregation switches,
            those back, those from aggregation to core switches, and those back. There are k^2/4 shortest paths between
            hosts of different pods, k/2 between edge switches of a pod.

        Raises
        ------
        ValueError, TypeError
            An odd k, a number out of range, fabric_capacity and oversubscription together, flows that are not between
            two hosts.

        Examples
        --------
        >>> from ecc.demands import permutation
        >>> Network.fat_tree(4, permutation(16)).summary()
        '96 links of 100 Gb/s, 16 flows, RTTs 4 us to 12 us'
        """
        ports = as_count(k, "k", minimum=2, bits=7)
        if ports % 2:
            raise ValueError(f"k must be even, got {ports}")
        return cls._fabric(
            fat_tree_ends(ports),
            flows,
            capacity,
            delay,
            buffer,
            fabric_capacity,
            oversubscription,
            1.0,
            host_delay,
            host_buffer,
            seed,
            ack_links,
            pause,
        )

    @classmethod
    def _fabric(
        cls,
        nodes: tuple[Ends, int],
        flows: Sequence[Any],
        capacity: Quantity,
        delay: Quantity,
        buffer: Quantity | None,
        fabric_capacity: Quantity | None,
        oversubscription: float | None,
        ports: float,
        host_delay: Quantity | None,
        host_buffer: Quantity | None,
        seed: int,
        ack_links: bool,
        pause: Pause | None,
    ) -> Network:
        """Return a fabric; `ports` is the number of hosts of a lowest-tier switch per link to the tier above."""
        ends, n_hosts = nodes
        if fabric_capacity is not None and oversubscription is not None:
            raise ValueError(
                f"oversubscription must be None if fabric_capacity is given, got {shown(oversubscription)}"
            )
        of_host = as_rate(capacity, "capacity")
        if fabric_capacity is None:
            ratio = 1.0 if oversubscription is None else oversubscription
            between = as_rate(of_host * ports / as_number(ratio, "oversubscription", positive=True), "fabric_capacity")
        else:
            between = as_rate(fabric_capacity, "fabric_capacity")
        near = as_delay(delay if host_delay is None else host_delay, "delay" if host_delay is None else "host_delay")
        buffer_of_hosts = None if host_buffer is None else as_size(host_buffer, "host_buffer")
        links = [Link(of_host, near, buffer_of_hosts, pause=pause)] * n_hosts + [Link(of_host, near, buffer)] * n_hosts
        links += [Link(between, delay, buffer, pause=pause)] * (len(ends) - 2 * n_hosts)
        return cls(links, _routed(Graph(ends, n_hosts), flows, seed, ack_links), ends=ends, n_hosts=n_hosts)

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
        """Return JETMAX sec. 3.4: x1 to x99 of RTT 220 ms and x100 of 2020 ms; the capacity is that of T1.

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
        """Return JETMAX fig. 3a without its ACK delays: this is T1, and a Scenario adds the delay spikes of the ACKs.

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
        return by the shortest path. Capacities, 20 and 17 Mb/s on either half, follow from the rates that JETMAX states
        (x1 alone 17 Mb/s, all four 10 Mb/s). JETMAX does not state the delay of a link.

        Parameters
        ----------
        delay : float, s, in one direction, optional
            Delay of every link.
        access_delay : float, s, optional
            Access delay of every flow.
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
        """Return JETMAX sec. 3.8: 100 Mb/s, RTT 100 ms, 1.25 MB buffer, one flow, then many that join at once.

        Parameters
        ----------
        joining : int, optional
            Number of flows that join.
        join_at : float, s, optional
            Time at which they join.
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
            Delay of either link (not stated by EVAL).
        long_link_first : bool, optional
            True: flows on both links cross l2 before l1.
        """
        count = as_count(n, "n", minimum=2)
        links = [Link("155 Mb/s", delay), Link(155e6 * (count - 1) / count, delay)]
        route = [1, 0] if long_link_first else [0, 1]
        return cls(links, [Flow([0])] + [Flow(route) for _ in range(count**2 - 1)])

    # ---- plain data --------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables (for TOML): `links` and `flows` without defaults; `rtts` and `ends` if given."""
        tables: dict[str, Any] = {
            "links": [to_table(link) for link in self.links],
            "flows": [to_table(flow) for flow in self.flows],
        }
        tables |= {} if self._rtts is None else {"rtts": list(self._rtts)}
        return tables | ({"n_hosts": self.n_hosts, "ends": [list(pair) for pair in self.ends]} if self.ends else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Network:
        """Return the network that `to_dict` described; unknown keys are refused by name.

        Parameters
        ----------
        data : mapping
            Lists of tables `links` and `flows`; optionally `ends` and `n_hosts`, and `rtts` [s], RTTs free of the
            rounding of sums, which are ignored if the delays of the links disagree with them.
        """
        network = cls(
            links=[from_table(Link, table, f"links[{i}]") for i, table in enumerate(tables_in(data, "links"))],
            flows=_flows_of(tables_in(data, "flows")),
            ends=data.get("ends", ()),
            n_hosts=data.get("n_hosts", 0),
        )
        if "rtts" not in data:
            return network
        if isinstance(data["rtts"], str) or not isinstance(data["rtts"], Iterable):
            raise TypeError(f"rtts must be a sequence of times, got {shown(data['rtts'])}")
        rtts = tuple(_delays_of(data["rtts"], "rtts"))
        if len(rtts) != network.n_flows:
            raise ValueError(f"rtts must have one entry for each of {network.n_flows} flows, got {len(rtts)}")
        if np.allclose(rtts, network._delays, rtol=1e-12, atol=1e-15):
            object.__setattr__(network, "_rtts", rtts)  # dataclasses.replace would repeat all checks
        return network

    def with_flows(self, flows: Sequence[Flow]) -> Network:
        """Return this network with other flows.

        Parameters
        ----------
        flows : sequence of Flow
        """
        return replace(self, flows=flows, _rtts=None)


def _delays_of(values: Iterable[Quantity], name: str) -> list[float]:
    """Return a list of delays [s]; plain numbers of many flows are not passed to functions."""
    items = values.tolist() if isinstance(values, np.ndarray) and values.dtype == np.float64 else values
    return [item if type(item) is float and 0.0 <= item < LONGEST_DELAY else as_delay(item, name) for item in items]


def _flows_of(tables: Sequence[Any]) -> list[Flow]:
    """Return the flows of tables.

    Flows that differ only in their access delays, such as those of a dumbbell, are checked once.
    """
    flows: list[Flow] = []
    alike: dict[str, Flow] = {}
    for i, table in enumerate(tables):
        delay = table.get("access_delay") if type(table) is dict else None
        if type(delay) is not float or not 0.0 <= delay < LONGEST_DELAY:
            flows.append(from_table(Flow, table, f"flows[{i}]"))
            continue
        key = repr({**table, "access_delay": None})
        if (flow := alike.get(key)) is not None:
            flows.append(flow._with_access_delay(delay))
            continue
        flows.append(from_table(Flow, table, f"flows[{i}]"))
        if "..." not in key:  # an abbreviated array has the text of other arrays
            alike[key] = flows[-1]
    return flows


def _ends_of(pairs: Any, n_links: int) -> Ends:
    """Return the ends of links as pairs of integers."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError(f"ends must be a sequence of (tail, head), got {shown(pairs)}")
    ends = []
    for index, pair in enumerate(pairs):
        tail, *head = (as_count(node, "ends") for node in pair) if isinstance(pair, list | tuple) and pair else (0,)
        if len(head) != 1 or head[0] == tail:
            raise ValueError(f"ends must be (tail, head), two nodes, got {shown(pair)} (link {index})")
        ends.append((tail, head[0]))
    if ends and len(ends) != n_links:
        raise ValueError(f"ends must be of all {n_links} links, or (), got {len(ends)}")
    return tuple(ends)


def _demand(value: Any) -> Demand:
    """Return a demand, made from two hosts if necessary."""
    if isinstance(value, Demand):
        return value
    if isinstance(value, str) or not isinstance(value, Iterable) or len(hosts := tuple(value)) != 2:
        raise TypeError(f"a flow must be a Demand, or (source, destination), got {shown(value)}")
    return Demand(*hosts)


_COMMON_FIELDS = sorted({f.name for f in fields(Demand)} & {f.name for f in fields(Flow)})
"""Fields that a demand and its flow have in common."""


def _routed(graph: Graph, demands: Sequence[Any], seed: int, ack_links: bool) -> list[Flow]:
    """Return the flows of demands: see `Network.with_demands`."""
    key = as_count(seed, "seed", bits=64)
    numbers: dict[tuple[int, int], int] = {}
    flows = []
    for index, value in enumerate(demands):
        try:
            demand = _demand(value)
            pair = (demand.source, demand.destination)
            nth = numbers[pair] = numbers.get(pair, -1) + 1
            count = graph.n_paths(*pair)
            if isinstance(demand.path, int) and demand.path >= count:
                raise ValueError(f"path must be one of {count}, 0 to {count - 1}, got {demand.path}")
            chosen = (
                demand.path
                if isinstance(demand.path, int)
                else 0
                if demand.path
                else ecmp_index(count, *pair, nth, key)
            )
            further_paths = range(1, count) if demand.path == "all" else ()
            reverse = None
            if ack_links:
                back = pair[::-1]
                reverse = graph.path(*back, ecmp_index(graph.n_paths(*back), *pair, nth, key, is_ack=True))
            flow = Flow(
                graph.path(*pair, chosen),
                reverse=reverse,
                alternatives=[graph.path(*pair, k) for k in further_paths],
                **{name: getattr(demand, name) for name in _COMMON_FIELDS},
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} (flows[{index}])") from None
        flows.append(flow)
    return flows


def _span(values: FloatArray, unit: str) -> str:
    """Return the range of some quantities as text; one value if all are equal."""
    low, high = float(values.min()), float(values.max())
    return quantity_text(low, unit) + ("" if low == high else f" to {quantity_text(high, unit)}")


def _instances(items: Any, kind: type, name: str) -> tuple[Any, ...]:
    instances = tuple(items) if isinstance(items, Iterable) else None
    if instances is None or any(not isinstance(item, kind) for item in instances):
        raise TypeError(f"{name} must be a sequence of {kind.__name__}, got {shown(items)}")
    if not instances:
        raise ValueError(f"{name} must be at least one {kind.__name__}, got none")
    return instances


def tables_in(data: Mapping[str, Any], name: str, where: str = "") -> Sequence[Any]:
    """Return the list of tables of this name, empty if it is missing.

    Parameters
    ----------
    data : mapping
        Mapping read from TOML.
    name : str
        Key.
    where : str, optional
        Prefix of the key in a message, for example "workload.".
    """
    tables = data.get(name, ())
    if isinstance(tables, str | bytes) or not isinstance(tables, Sequence):
        raise TypeError(f"{where}{name} must be a list of tables, got {shown(tables)}")
    return tables


def to_table(item: Any) -> dict[str, Any]:
    """Return a dataclass as a plain table that `from_table` reads back, defaults left out.

    Parameters
    ----------
    item : Link, Flow or another dataclass
        Dataclass of plain values.
    """
    kind: type = type(item)
    values = ((name, getattr(item, name), default) for name, default in _defaults(kind))
    return {
        k: {"name": type(v).__name__, **to_table(v)}
        if isinstance(v, Application)
        else list(v)
        if isinstance(v, tuple)
        else to_table(v)
        if is_dataclass(v)
        else v
        for k, v, default in values
        if v != default
    }


@cache
def _defaults(kind: type) -> list[tuple[str, Any]]:
    """Return the fields of a dataclass with their defaults; cached, as a network may have a hundred thousand flows."""
    return [(f.name, f.default) for f in fields(kind)]


@cache
def _keys(kind: type) -> tuple[dict[str, None], list[str]]:
    """Return the names of the constructor's fields of a dataclass, and those of the fields without a default."""
    of_init = [f for f in fields(kind) if f.init]
    required = [f.name for f in of_init if f.default is MISSING and f.default_factory is MISSING]
    return dict.fromkeys(f.name for f in of_init), required


def from_table(kind: type, table: Any, where: str, instead: Mapping[str, str] | None = None) -> Any:
    """Return `kind(**table)`, refusing unknown keys and naming the position of any bad value in one line.

    Parameters
    ----------
    kind : type
        Dataclass.
    table : object
        Mapping read from TOML.
    where : str
        Name of the table in a message, for example "links[0]".
    instead : mapping, optional
        Key -> alternative key that a file may have instead. The caller has already converted it.
    """
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table, got {shown(table)}")
    alternates = instead or {}
    known, required = _keys(kind)
    for key in table:
        if key not in known:
            raise ValueError(unknown_key(where, key, [*known, *alternates.values()]))
    for name in required:
        if name not in table:
            alternate = f" or {alternates[name]!r}" if name in alternates else ""
            raise ValueError(f"{where} lacks the key {name!r}{alternate}")
    try:
        return kind(**table)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (in {where})") from None
