"""Congestion headers as bytes: EVAL fig. 2 (THESIS fig. 28), JETMAX sec. 6.6, MAXNET fig. 3, EDN sec. 5, VCP.

The texts give the fields, their units and the sizes, in all and for data that flow one way only; with these sizes every
width is determined. The order of fields is that of the texts. What they leave open: numbers are unsigned integers where
they are counts or identifiers and IEEE singles where they may have fractions, big end first; rates are bytes a
millisecond (as EVAL says of XCP's) and MaxNet's prices microseconds (as its `frequency`).

Python sees seconds, bit/s and bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from ecc.arguments import check_arguments, shown

__all__ = [
    "CongestionHeader", "EDNField", "JetMaxHeader", "JetMaxTransportHeader", "MaxNetOption", "PIQIRCPHeader",
    "RCPHeader", "VCPField", "XCPHeader",
]  # fmt: skip

COMMON, FORWARD, REVERSE = "common", "forward", "reverse"
MS, BYTES_PER_MS, US = 1e3, 1.0 / 8000.0, 1e6  # on the wire, of a second and of a bit/s


@dataclass(frozen=True)
class _Wire:
    """How a field travels: `width` bits, an integer or a single; its value is `factor` times ours, from low to high."""

    width: int
    single: bool = False
    factor: float = 1.0
    low: float = 0.0
    high: float = float("inf")
    way: str = FORWARD
    constant: int | None = None

    @property
    def span(self) -> tuple[float, float]:
        """Least and largest value in our units."""
        most = 3.4028234663852886e38 if self.single else 2.0**self.width - 1.0
        return max(self.low, -most / self.factor), min(self.high, most / self.factor)

    def pack(self, value: float) -> int:
        """The bits, as a number."""
        if self.single:
            return int.from_bytes(struct.pack("!f", value * self.factor), "big")
        return round(value * self.factor)

    def unpack(self, number: int) -> float:
        """The value that these bits are."""
        if self.single:
            return float(struct.unpack("!f", number.to_bytes(4, "big"))[0]) / self.factor
        return number if self.factor == 1.0 else number / self.factor


def _count(size: int, default: int = 0, way: str = FORWARD) -> Any:
    return field(default=default, metadata={"wire": _Wire(8 * size, way=way)})


def _bits(width: int, default: int = 0, way: str = FORWARD) -> Any:
    return field(default=default, metadata={"wire": _Wire(width, way=way)})


def _constant(value: int, way: str = COMMON, width: int = 8) -> Any:
    return field(default=value, init=False, repr=False, metadata={"wire": _Wire(width, way=way, constant=value)})


def _number(factor: float = 1.0, low: float = 0.0, high: float = float("inf"), way: str = FORWARD) -> Any:
    return field(default=0.0, metadata={"wire": _Wire(32, True, factor, low, high, way)})


def _time(size: int, factor: float, way: str = FORWARD) -> Any:
    return field(default=0.0, metadata={"wire": _Wire(8 * size, factor=factor, way=way)})


@check_arguments
class CongestionHeader:
    """Base of the headers: what is common to encoding and decoding; the fields are those of the subclasses."""

    title: ClassVar[str]

    def __post_init__(self) -> None:
        for name, wire in self.layout().items():
            value = getattr(self, name)
            low, high = wire.span
            kind = int | float if wire.single or wire.factor != 1.0 else int
            if isinstance(value, bool) or not isinstance(value, kind):
                wanted = "a whole number" if kind is int else "a number"
                raise TypeError(f"{name} of {self.title} must be {wanted}, got {shown(value)}")
            if not low <= value <= high:
                raise ValueError(f"{name} of {self.title} must be from {low:g} to {high:g}, got {shown(value)}")

    @classmethod
    def layout(cls) -> dict[str, _Wire]:
        """Return the fields in the order of the bytes, and of the bits in them."""
        return {f.name: f.metadata["wire"] for f in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def size(cls, one_way: bool = False) -> int:
        """Return the size in bytes.

        Parameters
        ----------
        one_way : bool, optional
            What is needed where data flow one way only: neither what ACKs carry back nor what all have.
        """
        bits = sum(wire.width for wire in cls.layout().values() if not one_way or wire.way == FORWARD)
        return -(-bits // 8)

    def encode(self) -> bytes:
        """Return the bytes."""
        number = 0
        for name, wire in self.layout().items():
            number = number << wire.width | wire.pack(getattr(self, name))
        return number.to_bytes(self.size(), "big")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the header that these bytes are; `encode` gives the same bytes again.

        Parameters
        ----------
        data : bytes
            All of the header and no more.

        Raises
        ------
        ValueError
            Another size, a constant field with another value, or a field out of its range.
        """
        if len(data) != cls.size():
            raise ValueError(f"{cls.title} must have {cls.size()} bytes, got {len(data)}")
        values: dict[str, Any] = {}
        number, left = int.from_bytes(data, "big"), 8 * len(data)
        for name, wire in cls.layout().items():
            left -= wire.width
            value = wire.unpack(number >> left & (1 << wire.width) - 1)
            if wire.constant is None:
                values[name] = value
            elif value != wire.constant:
                raise ValueError(f"{name} of {cls.title} must be {wire.constant}, got {value}")
        return cls(**values)


@check_arguments
@dataclass(frozen=True)
class XCPHeader(CongestionHeader):
    """XCP's, 20 bytes; 12 one way.

    `protocol`: number of the transport above; `version`; `rtt`: the host's estimate [s]; `spacing`: time between its
    packets [s]; `delta`: change of throughput asked for, then allowed [bit/s]; `reverse`: what ACKs bring back of it.
    """

    title = "an XCP header"
    protocol: int = _count(1, 6, COMMON)
    length: int = _constant(20)
    version: int = _count(1, 1, COMMON)
    unused: int = _constant(0)
    rtt: float = _time(4, MS)
    spacing: float = _number(MS)
    delta: float = _number(BYTES_PER_MS, low=float("-inf"))
    reverse: float = _number(BYTES_PER_MS, low=float("-inf"), way=REVERSE)


@check_arguments
@dataclass(frozen=True)
class RCPHeader(CongestionHeader):
    """RCP's, 16 bytes; 8 one way.

    `protocol`, `version`: as in XCPHeader; `rate`: of the routers [bit/s]; `rtt`: the host's estimate [s]; `reverse`:
    the `rate` that an ACK brings back.
    """

    title = "an RCP header"
    protocol: int = _count(1, 6, COMMON)
    length: int = _constant(16)
    version: int = _count(1, 1, COMMON)
    unused: int = _constant(0)
    rate: float = _number(BYTES_PER_MS)
    rtt: float = _time(4, MS)
    reverse: float = _number(BYTES_PER_MS, way=REVERSE)


@check_arguments
@dataclass(frozen=True)
class PIQIRCPHeader(CongestionHeader):
    """PIQI-RCP's, 24 bytes; 13 one way.

    `protocol`, `version`, `rate`, `rtt`, `reverse`: as in RCPHeader; `router`: ID of the bottleneck; `interval_number`:
    the control interval in which it announced the rate; `reverse_interval_number`: the one that an ACK brings back.
    """

    title = "a PIQI-RCP header"
    protocol: int = _count(1, 6, COMMON)
    length: int = _constant(24)
    version: int = _count(1, 1, COMMON)
    router: int = _count(1)
    rate: float = _number(BYTES_PER_MS)
    rtt: float = _time(4, MS)
    reverse: float = _number(BYTES_PER_MS, way=REVERSE)
    interval_number: int = _count(4)
    reverse_interval_number: int = _count(4, way=REVERSE)


@check_arguments
@dataclass(frozen=True)
class JetMaxHeader(CongestionHeader):
    """JetMax's, 32 bytes; 20 one way.

    `protocol`, `version`: as in XCPHeader; `bottleneck` (R_T), `hop` (R_C), `suggested` (R_S), `reverse_suggested`
    (RS_F): router IDs, counted in hops; `loss`: virtual, largest so far; `rate`: fair [bit/s]; `proposed_size` [bytes];
    `spacing`: time between packets [s]; `reverse_loss`, `reverse_rate`: what an ACK brings back.
    """

    title = "a JetMax header"
    protocol: int = _count(1, 6, COMMON)
    length: int = _constant(32)
    version: int = _count(1, 1, COMMON)
    unused: int = _constant(0, FORWARD)
    bottleneck: int = _count(1)
    hop: int = _count(1)
    suggested: int = _count(1)
    reverse_suggested: int = _count(1, way=REVERSE)
    loss: float = _number(high=1.0)
    rate: float = _number(BYTES_PER_MS)
    proposed_size: float = _number()
    spacing: float = _number(MS)
    reverse_loss: float = _number(high=1.0, way=REVERSE)
    reverse_rate: float = _number(BYTES_PER_MS, way=REVERSE)


@check_arguments
@dataclass(frozen=True)
class JetMaxTransportHeader(CongestionHeader):
    """JetMax's own transport of JETMAX sec. 6.6, 28 bytes.

    `source_port`, `destination_port`, `flags`, `sequence`: of the transport; `bottleneck`, `hop`, `suggested`, `loss`,
    `rate`, `proposed_size`, `spacing`: as in JetMaxHeader.
    """

    title = "a JetMax transport header"
    source_port: int = _count(2, way=COMMON)
    destination_port: int = _count(2, way=COMMON)
    flags: int = _count(1, way=COMMON)
    bottleneck: int = _count(1)
    hop: int = _count(1)
    suggested: int = _count(1)
    sequence: int = _count(4, way=COMMON)
    loss: float = _number(high=1.0)
    rate: float = _number(BYTES_PER_MS)
    proposed_size: float = _number()
    spacing: float = _number(MS)


@check_arguments
@dataclass(frozen=True)
class MaxNetOption(CongestionHeader):
    """MaxNet's TCP option, 8 bytes: option 42, then the length of what follows it.

    `echo`: the price that an ACK brings back [s]; `price`: largest on the path so far [s].
    """

    title = "a MaxNet option"
    option: int = _constant(42)
    length: int = _constant(6)
    echo: float = _time(3, US, REVERSE)
    price: float = _time(3, US)


@check_arguments
@dataclass(frozen=True)
class EDNField(CongestionHeader):
    """EDN's and PEDN's, the two bytes of flags and fragment offset in the IP header.

    `reverse`: D_r; `forward`: D_f, of units or packets. EDN sec. 5 has 14 bits for the two, D_f in the lower 7; but the
    offset has 13, so that the highest bit of D_r is the flag for more fragments. Packets must not be fragmented.
    """

    title = "an EDN field"
    reserved: int = _constant(0, width=1)
    unfragmented: int = _constant(1, width=1)
    reverse: int = _bits(7, way=REVERSE)
    forward: int = _bits(7)


@check_arguments
@dataclass(frozen=True)
class VCPField(CongestionHeader):
    """VCP's and UTIL's, the byte of the IP header that ends in the two ECN bits.

    `service`: the six bits before these, of others; `load`: region of the load factor (1 low, 2 high, 3 overload; 0: a
    packet of another protocol).
    """

    title = "a VCP field"
    service: int = _bits(6, way=COMMON)
    load: int = _bits(2)
