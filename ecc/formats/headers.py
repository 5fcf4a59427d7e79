"""Congestion headers as bytes: encoding of their layouts, which the files of protocols declare.

The papers (EVAL fig. 2, THESIS fig. 28, JETMAX sec. 6.6, MAXNET fig. 3, EDN sec. 5) give the fields, their units and
the sizes, in total and for data in one direction only; these sizes determine every width. The order of fields is that
of the papers. Details that they do not specify: counts and identifiers are unsigned integers, numbers with fractions
IEEE singles, all big-endian; rates are in bytes per millisecond.

In Python, values are in seconds, bit/s and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from ecc._support.arguments import check_arguments, shown

__all__ = ["CongestionHeader", "WireFields", "WireHeader"]

COMMON, FORWARD, REVERSE = "common", "forward", "reverse"
MS, BYTES_PER_MS, US = 1e3, 1.0 / 8000.0, 1e6  # units of the wire in a second, a bit/s and a second
DONT_FRAGMENT = 0x4000  # in the flags and fragment offset of the IP header


@dataclass(frozen=True)
class WireHeader:
    """Bytes that a protocol writes into a packet.

    `above`: bytes after the IP header; `option`: a TCP option; `service`: the traffic class byte of the IP header;
    `fragment`: its flags and fragment offset.
    """

    above: bytes = b""
    option: bytes = b""
    service: int = 0
    fragment: int = DONT_FRAGMENT
    layout: type[CongestionHeader] | None = None  # layout of these bytes, if it is a header of the papers


@dataclass(frozen=True)
class _Wire:
    """Encoding of a field: `width` bits, an integer or a single, of `factor` times the value, from low to high."""

    width: int
    single: bool = False
    factor: float = 1.0
    low: float = 0.0
    high: float = float("inf")
    direction: str = FORWARD
    constant: int | None = None
    unit: str = ""

    @property
    def span(self) -> tuple[float, float]:
        """Minimum and maximum value, in units of Python."""
        maximum = 3.4028234663852886e38 if self.single else 2.0**self.width - 1.0
        return max(self.low, -maximum / self.factor), min(self.high, maximum / self.factor)

    def pack(self, value: float) -> int:
        """Return the bits of a value, as a number."""
        if self.single:
            return int.from_bytes(struct.pack("!f", value * self.factor), "big")
        return round(value * self.factor)

    def within_range(self, value: float, bits: int) -> float:
        """Return the value, or the limit that it exceeds only by rounding: the limit has the same bits."""
        low, high = self.span
        limit = min(max(value, low), high)
        return limit if limit != value and self.pack(limit) == bits else value

    def unpack(self, number: int) -> float:
        """Return the value of these bits."""
        if self.single:
            return float(struct.unpack("!f", number.to_bytes(4, "big"))[0]) / self.factor
        return number if self.factor == 1.0 else number / self.factor


def count_field(size: int, default: int = 0, direction: str = FORWARD) -> Any:
    """Return a field that is an unsigned integer of `size` bytes."""
    return field(default=default, metadata={"wire": _Wire(8 * size, direction=direction)})


def bits_field(width: int, default: int = 0, direction: str = FORWARD) -> Any:
    """Return a field that is an unsigned integer of `width` bits."""
    return field(default=default, metadata={"wire": _Wire(width, direction=direction)})


def constant_field(value: int, direction: str = COMMON, width: int = 8) -> Any:
    """Return a field with a constant value."""
    return field(
        default=value, init=False, repr=False, metadata={"wire": _Wire(width, direction=direction, constant=value)}
    )


def number_field(
    factor: float = 1.0, low: float = 0.0, high: float = float("inf"), direction: str = FORWARD, unit: str = ""
) -> Any:
    """Return a field that is an IEEE single of `factor` times the value."""
    return field(default=0.0, metadata={"wire": _Wire(32, True, factor, low, high, direction, unit=unit)})


def rate_field(low: float = 0.0, direction: str = FORWARD) -> Any:
    """Return a field that is an IEEE single, in bytes/ms."""
    return number_field(BYTES_PER_MS, low, direction=direction, unit="bit/s")


def time_field(size: int, factor: float, direction: str = FORWARD) -> Any:
    """Return a field that is an unsigned integer of `size` bytes, of `factor` times the value."""
    return field(default=0.0, metadata={"wire": _Wire(8 * size, factor=factor, direction=direction, unit="s")})


@check_arguments
class CongestionHeader:
    """Base of the headers: encoding and decoding of the fields that a subclass declares."""

    title: ClassVar[str]
    place: ClassVar[str] = "above"
    """Field of `WireHeader` for this header; "": captures do not contain it."""

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
        """Return the fields in the order of their bits."""
        return {f.name: f.metadata["wire"] for f in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def size(cls, one_way: bool = False) -> int:
        """Return the size in bytes.

        Parameters
        ----------
        one_way : bool, optional
            True: size if data flow in one direction only, without the fields of ACKs and the common fields.
        """
        bits = sum(wire.width for wire in cls.layout().values() if not one_way or wire.direction == FORWARD)
        return -(-bits // 8)

    @classmethod
    def nearest(cls, **values: float) -> Self:
        """Return the header with these values of its fields, or with the nearest possible ones.

        Parameters
        ----------
        **values : float
            Values by field; NaN becomes the minimum.
        """
        fitted: dict[str, Any] = {}
        for name, wire in cls.layout().items():
            if name in values:
                low, high = wire.span
                value = min(max(values[name], low), high) if values[name] == values[name] else low
                fitted[name] = value if wire.single or wire.factor != 1.0 else round(value)
        return cls(**fitted)

    def encode(self) -> bytes:
        """Return the bytes."""
        number = 0
        for name, wire in self.layout().items():
            number = number << wire.width | wire.pack(getattr(self, name))
        return number.to_bytes(self.size(), "big")

    def placed(self) -> bytes:
        """Return the bytes as they are in a packet, with the length of a TCP option."""
        data = self.encode()
        return bytes([data[0], len(data), *data[2:]]) if self.place == "option" else data

    def on_wire(self) -> WireHeader:
        """Return the bytes that a packet with this header carries."""
        is_number = self.place in ("service", "fragment")
        value: Any = int.from_bytes(self.placed(), "big") if is_number else self.placed()
        return replace(WireHeader(layout=type(self)), **{self.place: value})

    @classmethod
    def short_name(cls) -> str:
        """Return the name of its protocol in lower case."""
        return cls.__name__.removesuffix("Header").removesuffix("Option").removesuffix("Field").lower()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the header in some bytes; `encode` returns the same bytes.

        Parameters
        ----------
        data : bytes
            Exactly the bytes of the header.

        Raises
        ------
        ValueError
            Another size, a constant field with another value, or a field out of its range.
        """
        if len(data) != cls.size():
            raise ValueError(f"{cls.title} must have {cls.size()} bytes, got {len(data)}")
        values: dict[str, Any] = {}
        number, remaining = int.from_bytes(data, "big"), 8 * len(data)
        for name, wire in cls.layout().items():
            remaining -= wire.width
            bits = number >> remaining & (1 << wire.width) - 1
            value = wire.unpack(bits)
            if wire.constant is None:
                values[name] = wire.within_range(value, bits)
            elif value != wire.constant:
                raise ValueError(f"{name} of {cls.title} must be {wire.constant}, got {value}")
        return cls(**values)


@dataclass(frozen=True)
class WireFields:
    """Mapping from fields of a protocol's header record to those of a layout, which otherwise have their defaults.

    `of`: field of the layout -> field of the record; `shift`: number that is added to a field of the layout.
    """

    layout: type[CongestionHeader]
    of: Mapping[str, str]
    shift: Mapping[str, int] = field(default_factory=dict)

    def header(self, record: Mapping[str, float]) -> CongestionHeader:
        """Return the header nearest to a record.

        Parameters
        ----------
        record : mapping
            Values by field.
        """
        values = {name: record[source] for name, source in self.of.items()}
        return self.layout.nearest(**values | {name: values[name] + offset for name, offset in self.shift.items()})
