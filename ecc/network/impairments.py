"""Impairments of a network: losses, delays, and changes of the service of links.

An impairment of packets acts on the wire of a `link` (after the queue, so lost packets have used capacity), or on the
pure delay of the ACKs of some flows, `acks_of`. Losses are applied before delays, spikes before jitter; the exact rules
are in docs/engine_specification.md, S-93 to S-97. `CapacitySchedule`, `Shaper`, `DeliveryTrace` and `Aggregation`
change the service of the queue of a link (S-26, S-155 to S-160): packets wait in the buffer of the link.
`DelaySchedule` changes the propagation delay of a link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ecc._support.arguments import check_arguments, nearest, shown
from ecc._support.files import checked_digest, read_bytes
from ecc._support.quantity import (
    OptionalSizeField,
    QuantitiesField,
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
from ecc.network.network import Network, from_table, to_table

__all__ = [
    "Aggregation",
    "BurstLoss",
    "CapacitySchedule",
    "DelaySchedule",
    "DelaySpikes",
    "DeliveryTrace",
    "Impairment",
    "Jitter",
    "RandomLoss",
    "Shaper",
    "check_impairments",
    "impairment_from_table",
    "impairment_to_table",
    "read_mahimahi",
    "write_mahimahi",
]

LOSS_KINDS = ("data", "ack", "all")
JITTER_LAWS = ("uniform", "normal", "pareto")
_MAHIMAHI = 1504
"""Size of a delivery opportunity in Mahimahi [bytes] (PACKET_SIZE of its link_queue.hh)."""
_MAX_OPPORTUNITY = 2**30
_MAX_DIGITS = 9
_MAX_TRACE = 2**26
"""Maximum size of a trace file [bytes]: some ten million opportunities."""


@check_arguments
@dataclass(frozen=True)
class RandomLoss:
    """Independent random loss of packets with a fixed probability.

    Parameters
    ----------
    probability : float, from 0 to 1
        Probability with which a packet is lost, for example 0.001.
    link : int or None
        Index of the link. Either this or `acks_of` is given.
    acks_of : object
        Flow index, list of flow indices, or "all" (including transfers): flows whose ACKs are lost.
    kind : str
        Packets of the link that are lost: "data", "ack" or "all". `acks_of` concerns ACKs only.

    Raises
    ------
    ValueError
        A value out of range, or not exactly one of link and acks_of.
    TypeError
        A value of the wrong type.

    Notes
    -----
    Receivers count missing data and report it in ACKs, so lost ACKs do not count as lost data.

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
        _check_target(self)


@check_arguments
@dataclass(frozen=True)
class BurstLoss:
    """Bursts of losses: a Gilbert-Elliott channel, with a good and a bad state.

    Parameters
    ----------
    begins : float, > 0, <= 1
        Probability that the state changes from good to bad after a packet.
    ends : float, > 0, <= 1
        Probability that the state changes from bad to good after a packet.
    good_loss : float, from 0 to 1
        Probability with which a packet is lost in the good state.
    bad_loss : float, from 0 to 1
        Probability with which a packet is lost in the bad state.
    link, acks_of : int or None, object
        See RandomLoss.
    kind : str
        Packets of the link that are concerned: "data", "ack" or "all". The state changes with these packets only.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss.

    Notes
    -----
    The first state is drawn from the stationary distribution. With the default losses (Gilbert's channel), the mean
    length of a burst is 1/ends packets.

    Examples
    --------
    >>> loss = BurstLoss(0.01, 0.24, link=0)
    >>> round(loss.loss_rate, 3), round(loss.mean_burst, 3)
    (0.04, 4.167)
    """

    begins: float
    ends: float
    good_loss: float = 0.0
    bad_loss: float = 1.0
    link: int | None = None
    acks_of: Any = None
    kind: str = "data"

    def __post_init__(self) -> None:
        for name in ("begins", "ends", "good_loss", "bad_loss"):
            value = as_number(getattr(self, name), name, minimum=0.0)
            if value > 1.0 or (value == 0.0 and name in ("begins", "ends")):
                limits = "> 0 and <= 1" if name in ("begins", "ends") else "<= 1"
                raise ValueError(f"{name} must be {limits}, got {shown(getattr(self, name))}")
            object.__setattr__(self, name, value)
        as_choice(self.kind, "kind", LOSS_KINDS)
        _check_target(self)

    @property
    def loss_rate(self) -> float:
        """Stationary share of packets that are lost."""
        return (self.ends * self.good_loss + self.begins * self.bad_loss) / (self.begins + self.ends)

    @property
    def mean_burst(self) -> float:
        """Mean number of consecutive packets lost; infinity if all packets are lost, and 0 if none is."""
        good, bad = self.ends / (self.begins + self.ends), self.begins / (self.begins + self.ends)
        good_passes, bad_passes = 1.0 - self.good_loss, 1.0 - self.bad_loss
        after_good = (1.0 - self.begins) * good_passes + self.begins * bad_passes
        after_bad = (1.0 - self.ends) * bad_passes + self.ends * good_passes
        last_of_burst = good * self.good_loss * after_good + bad * self.bad_loss * after_bad
        if self.loss_rate == 0.0:
            return 0.0
        return self.loss_rate / last_of_burst if last_of_burst > 0.0 else math.inf


@check_arguments
@dataclass(frozen=True)
class DelaySpikes:
    """Delay spikes: a queue that serves packets at once, except an occasional slow one (JETMAX sec. 3.5).

    Parameters
    ----------
    every : tuple of two int
        (lo, hi), packets, >= 1: number of packets from spike to spike, drawn uniformly each time.
    delay : tuple of two Quantity
        (lo, hi), s, >= 0: duration of a spike, drawn uniformly each time.
    between : float, s, >= 0
        Service time of any other packet.
    link, acks_of : int or None, object
        See RandomLoss.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss.

    Notes
    -----
    The queue is first in, first out: packets that arrive during a spike wait for its end. The defaults are those of
    JETMAX fig. 3.

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
        _check_target(self)


@check_arguments
@dataclass(frozen=True)
class Jitter:
    """Independent random additional delay of each packet.

    Parameters
    ----------
    delay : tuple of two Quantity
        With the law "uniform", (lo, hi), s, 0 <= lo <= hi, hi > 0: the range of the delay. With the other laws, its
        (mean, standard deviation), s, both > 0.
    link, acks_of : int or None, object
        See RandomLoss.
    in_order : bool
        True: packets stay in order, and wait for a slower one ahead. False: packets may overtake each other.
    law : str
        Distribution of the delay: "uniform", "normal" or "pareto".

    Raises
    ------
    ValueError, TypeError
        See RandomLoss.

    Notes
    -----
    If data may be overtaken, a gap counts as a loss after three packets from beyond it have arrived (RFC 5681 sec.
    3.2). Data that fill the gap later are received but do not count as delivered.

    A normal delay below 0 s becomes 0 s, as in Linux's netem. The Pareto law has the shape a = 1 + sqrt(1 + mean^2 /
    deviation^2), which is above 2, and the minimum mean (a - 1)/a.

    Examples
    --------
    >>> Jitter((0.0, "5 ms"), link=0, in_order=False).delay
    (0.0, 0.005)
    >>> Jitter(("10 ms", "2 ms"), link=0, law="pareto").minimum
    0.00836...
    """

    delay: tuple[Quantity, Quantity]
    link: int | None = None
    acks_of: Any = None
    in_order: bool = True
    law: str = "uniform"

    def __post_init__(self) -> None:
        as_choice(self.law, "law", JITTER_LAWS)
        if self.law == "uniform":
            object.__setattr__(self, "delay", _times(self.delay))
            if self.delay[1] == 0.0:
                raise ValueError(f"delay must end above 0 s, got {shown(self.delay)}")
        else:
            moments = tuple(as_delay(value, "delay") for value in _range(self.delay, "delay"))
            if min(moments) < 1e-12:
                raise ValueError(f"delay must be (mean, deviation) > 0 s for {self.law!r}, got {shown(self.delay)}")
            object.__setattr__(self, "delay", moments)
        if not isinstance(self.in_order, bool):
            raise TypeError(f"in_order must be True or False, got {shown(self.in_order)}")
        _check_target(self)

    @property
    def shape(self) -> float:
        """Shape of the Pareto law with this mean and deviation."""
        mean, deviation = as_delay(self.delay[0], "delay"), as_delay(self.delay[1], "delay")
        return 1.0 + math.hypot(1.0, mean / deviation)

    @property
    def minimum(self) -> float:
        """Minimum delay [s]."""
        if self.law == "pareto":
            return as_delay(self.delay[0], "delay") * (1.0 - 1.0 / self.shape)
        return as_delay(self.delay[0], "delay") if self.law == "uniform" else 0.0


@check_arguments
@dataclass(frozen=True)
class CapacitySchedule:
    """Capacities of a link that take effect at given times; before the first, the link has its own.

    Parameters
    ----------
    link : int
        Link index.
    times : sequence of Quantity
        Increasing times, s, >= 0.
    capacities : sequence of Quantity
        One capacity for each time, bit/s, >= 0; 0 is an outage.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss; also times that do not increase, or lists of different lengths.

    Notes
    -----
    After a change, the packet in service is served at the new capacity. Routers see the current capacity; in an outage
    they see the last one above 0, and the growing queue.

    Examples
    --------
    >>> CapacitySchedule(0, [10.0, 20.0], ["5 Mb/s", "10 Mb/s"]).capacities
    (5000000.0, 10000000.0)
    """

    link: int
    times: QuantitiesField = required()
    capacities: QuantitiesField = required()

    def __post_init__(self) -> None:
        _check_schedule(self, "capacities", lambda capacity: as_rate(capacity, "capacities", positive=False))


@check_arguments
@dataclass(frozen=True)
class DelaySchedule:
    """Propagation delays of a link that take effect at given times, for example at handovers between satellites.

    Parameters
    ----------
    link : int
        Link index. Before the first time, the link has its own delay.
    times : sequence of Quantity
        Increasing times, s, >= 0.
    delays : sequence of Quantity
        One delay for each time, s, >= 0.
    in_order : bool
        True: packets stay in order. False: packets may overtake each other.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss; also times that do not increase, or lists of different lengths.

    Notes
    -----
    The delay of a packet is that of the time at which it leaves the queue, so a change does not affect packets on the
    way. After a decrease, packets in order arrive together with the last packet sent before it; otherwise they overtake
    packets on the way. An increase leaves a gap without arrivals.

    Examples
    --------
    >>> DelaySchedule(0, [15.0, 30.0], ["30 ms", "20 ms"]).delays
    (0.03, 0.02)
    """

    link: int
    times: QuantitiesField = required()
    delays: QuantitiesField = required()
    in_order: bool = True

    def __post_init__(self) -> None:
        _check_schedule(self, "delays", lambda delay: as_delay(delay, "delays"))
        if not isinstance(self.in_order, bool):
            raise TypeError(f"in_order must be True or False, got {shown(self.in_order)}")


@check_arguments
@dataclass(frozen=True)
class Shaper:
    """Token bucket that shapes the output of a link's queue to a rate with a maximum burst.

    Parameters
    ----------
    link : int
        Link index.
    rate : float, bit/s, > 0
        Rate at which the bucket fills.
    burst : int, bytes, > 0
        Size of the bucket, which is full at the start. A larger packet waits until the bucket is full.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss.

    Notes
    -----
    Packets wait in the buffer of the link, and leave at its capacity if there are tokens for them. To drop packets
    instead of delaying them, use `ecc.queues.Policer`.

    Examples
    --------
    >>> Shaper(0, "5 Mb/s", burst="30 kB").burst
    30000
    """

    link: int
    rate: QuantityField = required()
    burst: SizeField = required()

    def __post_init__(self) -> None:
        object.__setattr__(self, "link", as_count(self.link, "link"))
        object.__setattr__(self, "rate", as_rate(self.rate, "rate"))
        object.__setattr__(self, "burst", as_size(self.burst, "burst"))


@check_arguments
@dataclass(frozen=True)
class DeliveryTrace:
    """Delivery opportunities of a link at given times only, like those that Mahimahi reads from a file.

    Parameters
    ----------
    link : int
        Link index.
    times : sequence of Quantity
        Times of opportunities, s, >= 0, in nondecreasing order, the last > 0. The sequence repeats after the last.
    opportunity : int, bytes, > 0, <= 2^30
        Number of bytes that may leave at each.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss.

    Notes
    -----
    An opportunity serves bytes that arrived before it. Several small packets may share one, a packet may use several,
    and unused bytes are lost. The capacity of the link does not limit departures; it only enters the laws of its
    routers and the utilization, and should be set to `capacity`.

    Examples
    --------
    >>> DeliveryTrace(0, ["4 ms", "4 ms", "10 ms"]).capacity
    3609600.0
    """

    link: int
    times: QuantitiesField = required()
    opportunity: SizeField = default(_MAHIMAHI)

    def __post_init__(self) -> None:
        object.__setattr__(self, "link", as_count(self.link, "link"))
        if isinstance(self.times, str) or not isinstance(self.times, Iterable):
            raise TypeError(f"times must be a sequence, got {shown(self.times)}")
        times = tuple(as_time(time, "times") for time in self.times)
        if any(b < a for a, b in zip(times, times[1:], strict=False)):
            raise ValueError(f"times must not decrease, got {shown(list(times))}")
        if not times or times[-1] < 1e-12:
            raise ValueError(f"times must end above 0 s, got {shown(list(times))}")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "opportunity", as_size(self.opportunity, "opportunity"))
        if self.opportunity > _MAX_OPPORTUNITY:
            raise ValueError(f"opportunity must be <= 2^30 bytes, got {self.opportunity}")

    @property
    def capacity(self) -> float:
        """Mean rate of the opportunities over one repetition [bit/s]."""
        return 8.0 * self.opportunity * len(self.times) / self.times[-1]


@check_arguments
def read_mahimahi(path: str | Path, link: int = 0) -> DeliveryTrace:
    """Return the delivery opportunities in a trace file of Mahimahi.

    Parameters
    ----------
    path : str or Path
        File with one line for each opportunity of 1504 bytes: its time in whole milliseconds.
    link : int, optional
        Link index.

    Returns
    -------
    DeliveryTrace
        Times of the delivery opportunities [s].

    Raises
    ------
    ValueError
        A line that is not a whole number, times that decrease, or no time above 0, all of which mm-link refuses; a
        device or pipe, or a file of more than 64 MiB.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> ecc.impairments.write_mahimahi(ecc.impairments.DeliveryTrace(0, [0.001, 0.005]), "trace.up")
    >>> read_mahimahi("trace.up").times
    (0.001, 0.005)
    """
    times: list[int] = []
    text = read_bytes(path, "file", _MAX_TRACE).decode("ascii", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        digits = line.strip()
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
            raise ValueError(f"{path}: a line must be a time in whole milliseconds, got {shown(line)} (line {number})")
        times.append(int(digits))
        if len(times) > 1 and times[-1] < times[-2]:
            raise ValueError(f"{path}: times must not decrease, got {times[-1]} ms after {times[-2]} (line {number})")
    if not times or times[-1] == 0:
        raise ValueError(f"{path}: times must end above 0 ms, got {times[-1] if times else 'none'}")
    return DeliveryTrace(link, [time / 1000.0 for time in times])


@check_arguments
def write_mahimahi(trace: DeliveryTrace, path: str | Path) -> None:
    """Write a trace to a file for mm-link of Mahimahi.

    Parameters
    ----------
    trace : DeliveryTrace
        Trace with opportunities of 1504 bytes at whole milliseconds, as the format allows no others.
    path : str or Path
        File, which is replaced if it exists.

    Raises
    ------
    ValueError
        Opportunities of another size, or a time that is not in whole milliseconds.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> write_mahimahi(ecc.impairments.DeliveryTrace(0, [0.001, 0.005]), "trace.up")
    >>> from pathlib import Path
    >>> Path("trace.up").read_text().split()
    ['1', '5']
    """
    if trace.opportunity != _MAHIMAHI:
        raise ValueError(f"opportunity must be {_MAHIMAHI} bytes in a file of Mahimahi, got {trace.opportunity}")
    times = [round(time * 1000.0) for time in trace.times]
    for time, milliseconds in zip(trace.times, times, strict=True):
        if abs(milliseconds - time * 1000.0) > 1e-6:
            raise ValueError(f"times must be whole milliseconds in a file of Mahimahi, got {time:g} s")
    Path(path).write_text("".join(f"{time}\n" for time in times), encoding="ascii")


@check_arguments
@dataclass(frozen=True)
class Aggregation:
    """Aggregation of packets into bursts, as by a Wi-Fi station that waits for its turn, or a host that collects ACKs.

    Parameters
    ----------
    wait : tuple of two Quantity
        (lo, hi), s, 0 <= lo <= hi, hi > 0: time from the arrival of the first packet of a burst, or the departure of
        the previous burst if that is later, until the burst leaves (access to the channel), drawn uniformly each time.
    link : int or None
        Link index: packets are transmitted at the capacity of the link, and then wait for their burst in its queue.
    acks_of : object
        See RandomLoss: ACKs wait for their burst at the beginning of their pure delay.
    max_packets : int, packets, >= 1, or None for unlimited
        Maximum number of packets in a burst.
    max_size : int, bytes, > 0, or None for unlimited
        Maximum size of a burst, for example that of an A-MPDU; a larger packet forms a burst by itself.

    Raises
    ------
    ValueError, TypeError
        See RandomLoss.

    Notes
    -----
    Bursts are like the slots of Linux's netem, except that there the last packet may exceed the bytes of a slot. With
    limits, bursts bound the rate of the link to `max_size` per mean of `wait`. The mean delay is in docs/paths.md.

    Examples
    --------
    >>> Aggregation(("2 ms", "6 ms"), link=0, max_packets=32).wait
    (0.002, 0.006)
    """

    wait: tuple[Quantity, Quantity]
    link: int | None = None
    acks_of: Any = None
    max_packets: int | None = None
    max_size: OptionalSizeField = default(None)

    def __post_init__(self) -> None:
        lo, hi = _range(self.wait, "wait")
        lo, hi = _ordered((as_delay(lo, "wait"), as_delay(hi, "wait")), "wait")
        object.__setattr__(self, "wait", (lo, hi))
        if hi < 1e-12:
            raise ValueError(f"wait must end above 0 s, got {shown(self.wait)}")
        if self.max_packets is not None:
            object.__setattr__(self, "max_packets", as_count(self.max_packets, "max_packets", minimum=1))
        if self.max_size is not None:
            object.__setattr__(self, "max_size", as_size(self.max_size, "max_size"))
        _check_target(self)


OfPackets: TypeAlias = RandomLoss | BurstLoss | DelaySpikes | Jitter | Aggregation
"""Impairments of packets, which may also apply to the ACKs of flows."""
OfLinks: TypeAlias = CapacitySchedule | DelaySchedule | Shaper | DeliveryTrace
Impairment: TypeAlias = OfPackets | OfLinks
KINDS: dict[str, type[Impairment]] = {
    kind.__name__: kind
    for kind in (
        RandomLoss,
        BurstLoss,
        DelaySpikes,
        Jitter,
        CapacitySchedule,
        DelaySchedule,
        Shaper,
        DeliveryTrace,
        Aggregation,
    )
}


@check_arguments
def check_impairments(impairments: Any, network: Network) -> tuple[Impairment, ...]:
    """Return impairments as a tuple; refuse links and flows that the network does not have.

    Parameters
    ----------
    impairments : object
        Sequence of impairments.
    network : Network

    Returns
    -------
    tuple of impairments
        The same impairments, for links that exist.

    Raises
    ------
    TypeError
        An item that is not an impairment.
    ValueError
        An unknown link or flow, two impairments of a class for one of them, or jitter and a delay schedule of a link
        of which only one keeps packets in order.

    Examples
    --------
    >>> from ecc.impairments import RandomLoss
    >>> check_impairments([RandomLoss(0.01, link=0)], ecc.Network.dumbbell("10 Mb/s", rtts=[0.1]))
    (RandomLoss(probability=0.01, link=0, acks_of=None, kind='data'),)
    """
    items = tuple(impairments) if isinstance(impairments, Iterable) else None
    if items is None or not all(isinstance(item, tuple(KINDS.values())) for item in items):
        raise TypeError(f"impairments must be a sequence of {', '.join(KINDS)}, got {shown(impairments)}")
    taken = set()
    for index, item in enumerate(items):
        name = type(item).__name__
        flows = flows_of(item, network.n_flows) if isinstance(item, OfPackets) else ()
        if item.link is not None and item.link >= network.n_links:
            raise ValueError(f"link must be from 0 to {network.n_links - 1}, got {item.link} (impairments[{index}])")
        for flow in flows:
            if flow >= network.n_flows:
                raise ValueError(f"acks_of must be from 0 to {network.n_flows - 1}, got {flow} (impairments[{index}])")
        where = [("link", item.link)] if item.link is not None else [("ACKs of flow", flow) for flow in flows]
        kinds = LOSS_KINDS[:2] if isinstance(item, RandomLoss) and item.kind == "all" else (getattr(item, "kind", ""),)
        for target in [(*at, kind) for at in where for kind in kinds]:
            if (name, target) in taken:
                raise ValueError(
                    f"impairments must have one {name} for a link or flow, got two for {target[0]} {target[1]}"
                )
            taken.add((name, target))
    first_of: dict[int, Jitter | DelaySchedule] = {}
    for index, item in enumerate(items):
        if isinstance(item, Jitter | DelaySchedule) and item.link is not None:
            other = first_of.setdefault(item.link, item)
            if other.in_order != item.in_order:
                raise ValueError(
                    f"in_order must be equal for Jitter and DelaySchedule of link {item.link}: set that of "
                    f"{type(item).__name__} (impairments[{index}]) to {other.in_order}, or that of "
                    f"{type(other).__name__} to {item.in_order}"
                )
    return items


def flows_of(impairment: OfPackets, n_flows: int) -> tuple[int, ...]:
    """Return the flows with ACKs that an impairment affects on their pure delay.

    Parameters
    ----------
    impairment : RandomLoss or BurstLoss or DelaySpikes or Jitter or Aggregation
        Impairment of packets.
    n_flows : int
        Number of flows of the network.
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

    Returns
    -------
    dict
        `name` of the class, and its fields.

    Examples
    --------
    >>> impairment_to_table(ecc.impairments.RandomLoss(0.01, link=0))
    {'name': 'RandomLoss', 'probability': 0.01, 'link': 0}
    """
    return {"name": type(impairment).__name__, **to_table(impairment)}


@check_arguments
def impairment_from_table(table: Any, where: str) -> Impairment:
    """Return the impairment that a table describes.

    Parameters
    ----------
    table : object
        Mapping with a "name". A DeliveryTrace may have a "file" of Mahimahi instead of "times", and the required
        "digest" of the file, its SHA-256 as 64 hexadecimal digits.
    where : str
        Name of the table in a message, for example "impairments[0]".

    Returns
    -------
    impairment
        Object of the class that `name` names.

    Examples
    --------
    >>> impairment_from_table({"name": "RandomLoss", "probability": 0.01, "link": 0}, "impairments[0]")
    RandomLoss(probability=0.01, link=0, acks_of=None, kind='data')
    """
    name = table.get("name") if isinstance(table, Mapping) else None
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(
            f"{where} must be a table with a name, one of {', '.join(KINDS)}, got {shown(table)}"
            f"{nearest(name, dict.fromkeys(KINDS, ''))}"
        )
    values = {k: v for k, v in table.items() if k != "name"}
    instead = {"times": "file"} if name == "DeliveryTrace" else {}
    if instead and "file" in values:
        file = values.pop("file")
        if "times" in values or not isinstance(file, str):
            raise ValueError(f"file must be the path of a trace, in place of times, got {shown(file)} (in {where})")
        values["times"] = read_mahimahi(file).times
        if (digest := values.pop("digest", None)) is not None:
            checked_digest(file, "file", digest)
    impairment: Impairment = from_table(KINDS[name], values, where, instead)
    return impairment


def _check_target(impairment: OfPackets) -> None:
    """Check that one of link and acks_of is given, and convert it."""
    if (impairment.link is None) == (impairment.acks_of is None):
        both = f"link={shown(impairment.link)} and acks_of={shown(impairment.acks_of)}"
        raise ValueError(f"one of link and acks_of must be given, got {both}")
    if impairment.link is not None:
        object.__setattr__(impairment, "link", as_count(impairment.link, "link"))
        return
    acks_of = impairment.acks_of
    if acks_of == "all":
        return
    if isinstance(acks_of, str):
        raise ValueError(f"acks_of must be a flow, a list of flows or 'all', got {shown(acks_of)}")
    flows = tuple(as_count(flow, "acks_of") for flow in (acks_of if isinstance(acks_of, Iterable) else [acks_of]))
    if not flows or len(set(flows)) < len(flows):
        raise ValueError(f"acks_of must name flows, each once, got {shown(acks_of)}")
    object.__setattr__(impairment, "acks_of", flows)


def _check_schedule(schedule: CapacitySchedule | DelaySchedule, name: str, convert: Callable[[Any], float]) -> None:
    """Check and convert the link, the times, and the values called `name` of a schedule."""
    for field in ("times", name):
        if isinstance(getattr(schedule, field), str) or not isinstance(getattr(schedule, field), Iterable):
            raise TypeError(f"{field} must be a sequence, got {shown(getattr(schedule, field))}")
    times = tuple(as_time(time, "times") for time in schedule.times)
    values = tuple(convert(value) for value in getattr(schedule, name))
    if not times or len(times) != len(values):
        raise ValueError(f"{name} must be one for each of {len(times)} times, got {len(values)}")
    if any(b <= a for a, b in zip(times, times[1:], strict=False)):
        raise ValueError(f"times must increase, got {list(times)}")
    object.__setattr__(schedule, "times", times)
    object.__setattr__(schedule, name, values)
    object.__setattr__(schedule, "link", as_count(schedule.link, "link"))


def _range(value: Any, name: str) -> tuple[Any, Any]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise ValueError(f"{name} must be a range (lowest, highest), got {shown(value)}")
    return value[0], value[1]


def _ordered(limits: tuple[Any, Any], name: str) -> tuple[Any, Any]:
    if limits[0] > limits[1]:
        raise ValueError(f"{name} must be a range (lowest, highest), got {shown(limits)}")
    return limits


def _times(value: Any) -> tuple[float, float]:
    lo, hi = _range(value, "delay")
    return _ordered((as_delay(lo, "delay"), as_delay(hi, "delay")), "delay")
