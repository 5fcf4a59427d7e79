"""What a network does to packets beside queueing them: losses, delays, and links that are served otherwise.

An impairment of packets acts on the wire of a `link` (after the queue: what is lost there has used capacity), or on the
pure delay of the ACKs of some flows, `acks_of`. Losses come before delays, spikes before jitter; exactly:
docs/engine_specification.md, S-93 to S-97. `CapacitySchedule`, `Shaper`, `DeliveryTrace` and `Aggregation` are about
how the queue of a link is served (S-26, S-155 to S-160): what waits is in the buffer of the link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    "Aggregation", "CapacitySchedule", "DelaySpikes", "DeliveryTrace", "Impairment", "Jitter", "RandomLoss", "Shaper",
    "check_impairments", "impairment_from_table", "impairment_to_table", "read_mahimahi", "write_mahimahi",
]  # fmt: skip

LOSS_KINDS = ("data", "ack", "all")
_MAHIMAHI = 1504
"""Bytes of an opportunity of Mahimahi (PACKET_SIZE of its link_queue.hh)."""
_MOST_BYTES = 2**30
_MOST_DIGITS = 9
_MAX_TRACE = 2**26
"""Maximum size of a trace file [bytes]: some ten million opportunities."""


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


@check_arguments
@dataclass(frozen=True)
class Shaper:
    """A token bucket that holds back what the queue of a link sends: no more than a burst beyond a rate.

    Parameters
    ----------
    link : int
        Link index.
    rate : float, bit/s, > 0
        At which the bucket fills.
    burst : int, bytes, > 0
        That it holds, and has at the start. A larger packet waits until it is full.

    Raises
    ------
    ValueError, TypeError
        As RandomLoss.

    Notes
    -----
    What waits is in the buffer of the link, and leaves at its capacity once there are tokens for it. What does not wait
    but is dropped is a policer's: `ecc.queues.Policer`.

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
    """A link that sends at given times only, as the links that Mahimahi plays from a file.

    Parameters
    ----------
    link : int
        Link index.
    times : sequence of Quantity
        Times of opportunities, s, >= 0, none before the one before it, the last > 0. After the last of them they begin
        anew.
    opportunity : int, bytes, > 0, at most 2^30
        What may leave at each.

    Raises
    ------
    ValueError, TypeError
        As RandomLoss.

    Notes
    -----
    An opportunity is of what came before it; several small packets may use one, a packet may use several, and what is
    not used is lost. The capacity of the link is not used, but for what its routers and the utilization take for it:
    `capacity` is the one to give it.

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
        if self.opportunity > _MOST_BYTES:
            raise ValueError(f"opportunity must be <= 2^30 bytes, got {self.opportunity}")

    @property
    def capacity(self) -> float:
        """What its opportunities carry [bit/s], on the average over a repetition."""
        return 8.0 * self.opportunity * len(self.times) / self.times[-1]


@check_arguments
def read_mahimahi(path: str | Path, link: int = 0) -> DeliveryTrace:
    """Return the link that a trace file of Mahimahi describes.

    Parameters
    ----------
    path : str or Path
        A file with a line for each opportunity of 1504 bytes: its time in whole milliseconds.
    link : int, optional
        Link index.

    Raises
    ------
    ValueError
        A line that is not a whole number, a time before the one before it, or no time above 0: mm-link refuses these.
        A device or pipe, or a file of more than 64 MiB.
    OSError
        The file cannot be read.
    """
    times: list[int] = []
    text = read_bytes(path, "file", _MAX_TRACE).decode("ascii", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        digits = line.strip()
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
            raise ValueError(f"{path}: a line must be a time in whole milliseconds, got {shown(line)} (line {number})")
        times.append(int(digits))
        if len(times) > 1 and times[-1] < times[-2]:
            raise ValueError(f"{path}: times must not decrease, got {times[-1]} ms after {times[-2]} (line {number})")
    if not times or times[-1] == 0:
        raise ValueError(f"{path}: times must end above 0 ms, got {times[-1] if times else 'none'}")
    return DeliveryTrace(link, [time / 1000.0 for time in times])


@check_arguments
def write_mahimahi(trace: DeliveryTrace, path: str | Path) -> None:
    """Write a trace to a file that mm-link of Mahimahi plays.

    Parameters
    ----------
    trace : DeliveryTrace
        Of opportunities of 1504 bytes at whole milliseconds, as the file has no others.
    path : str or Path
        Is replaced.

    Raises
    ------
    ValueError
        Another size, or a time between two milliseconds.
    OSError
        The file cannot be written.
    """
    if trace.opportunity != _MAHIMAHI:
        raise ValueError(f"opportunity must be {_MAHIMAHI} bytes in a file of Mahimahi, got {trace.opportunity}")
    times = [round(time * 1000.0) for time in trace.times]
    for time, found in zip(trace.times, times, strict=True):
        if abs(found - time * 1000.0) > 1e-6:
            raise ValueError(f"times must be whole milliseconds in a file of Mahimahi, got {time:g} s")
    Path(path).write_text("".join(f"{time}\n" for time in times), encoding="ascii")


@check_arguments
@dataclass(frozen=True)
class Aggregation:
    """Packets leave in bursts: those of a Wi-Fi station whose turn has come, or of a host that collects ACKs.

    Parameters
    ----------
    wait : tuple of two Quantity
        (lo, hi), s, 0 <= lo <= hi, > 0. From when the first packet of a burst is there, or the burst before it has
        left, until the burst leaves (the access to the channel), drawn uniformly for each.
    link : int or None
        Link index: packets are transmitted at the capacity of the link, and then await their burst in its queue.
    acks_of : object
        As in RandomLoss: ACKs await their burst at the beginning of their pure delay.
    max_packets : int, packets, >= 1, or None for unlimited
        Of a burst.
    max_size : int, bytes, > 0, or None for unlimited
        Of a burst, as of an A-MPDU; a larger packet is a burst of its own.

    Raises
    ------
    ValueError, TypeError
        As RandomLoss.

    Notes
    -----
    As the slots of Linux's netem, whose bytes may be exceeded by a packet. With limits, bursts bound what the link
    carries: `max_size` in each mean of `wait`. A mean delay is in docs/paths.md.

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
        _place(self)


Impairment: TypeAlias = RandomLoss | DelaySpikes | Jitter | CapacitySchedule | Shaper | DeliveryTrace | Aggregation
OfPackets: TypeAlias = RandomLoss | DelaySpikes | Jitter | Aggregation
"""Those that may be of the ACKs of flows."""
KINDS: dict[str, type[Impairment]] = {
    kind.__name__: kind
    for kind in (RandomLoss, DelaySpikes, Jitter, CapacitySchedule, Shaper, DeliveryTrace, Aggregation)
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
        flows = flows_of(one, network.n_flows) if isinstance(one, OfPackets) else ()
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


def flows_of(impairment: OfPackets, n_flows: int) -> tuple[int, ...]:
    """Return the flows whose ACKs an impairment meets on their pure delay.

    Parameters
    ----------
    impairment : RandomLoss or DelaySpikes or Jitter or Aggregation
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
        Mapping with a "name". A DeliveryTrace may have a "file" of Mahimahi instead of "times", and the "digest" that
        the file must have, its SHA-256 as 64 hexadecimal digits.
    where : str
        What to call it in a message.
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
    found: Impairment = from_table(KINDS[name], values, where, instead)
    return found


def _place(impairment: OfPackets) -> None:
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
