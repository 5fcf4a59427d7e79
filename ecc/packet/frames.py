"""Congestion headers on real frames: tables for ecc.native, from the layouts that captures use too."""

from __future__ import annotations

from typing import Any

import numpy as np

from ecc.contract.protocol import Protocol
from ecc.formats.headers import WireFields
from ecc.native import FRAME_FIELD, FRAME_FORMAT, Formats
from ecc.native._engine import lib
from ecc.packet.setup import Part, Setup

__all__ = ["formats"]

_PLACES = {
    "above": lib.ECC_FRAME_ABOVE,
    "option": lib.ECC_FRAME_OPTION,
    "service": lib.ECC_FRAME_SERVICE,
    "fragment": lib.ECC_FRAME_FRAGMENT,
}


def formats(setup: Setup) -> Formats:
    """Return the formats of the frames of a prepared run, one for each protocol.

    If a protocol overrides `wire_header`, its frames have the fields of its header record, 8 bytes each.

    Parameters
    ----------
    setup : Setup
    """
    rows: list[dict[str, Any]] = []
    frame_formats = np.zeros(len(setup.parts), FRAME_FORMAT)
    format_of = np.zeros(setup.n_flows, np.int64)
    for k, part in enumerate(setup.parts):
        is_tcp = part.protocol.transport not in (None, "quic")
        for name, is_ack in (("n_data", False), ("n_ack", True)):
            wire = _wire_fields(part, is_ack)
            fields = _words(part) if wire is None else _fields(part, wire)
            frame_formats[name][k] = len(fields)
            rows += fields
        place = "above" if wire is None else wire.layout.place
        frame_formats["place"][k], frame_formats["is_tcp"][k] = _PLACES[place], is_tcp or place == "option"
        format_of[part.flows[part.flows < setup.n_flows]] = k
    table = np.zeros(len(rows), FRAME_FIELD)
    for row, values in enumerate(rows):
        for name, value in values.items():
            table[name][row] = value
    return Formats(frame_formats, table, format_of)


def _wire_fields(part: Part, is_ack: bool) -> WireFields | None:
    by_hand = getattr(type(part.protocol).wire_header, "__func__", None) is not Protocol.wire_header.__func__  # type: ignore[attr-defined]
    return None if by_hand else part.protocol.wire_fields(is_ack)


def _words(part: Part) -> list[dict[str, Any]]:
    return [{"kind": lib.ECC_FRAME_WORD, "width": 64, "word": word} for word in range(part.header.itemsize // 8)]


def _fields(part: Part, wire: WireFields) -> list[dict[str, Any]]:
    places: Any = part.header.fields or {}
    usual = int.from_bytes(wire.layout().placed(), "big")
    remaining = 8 * wire.layout.size()
    rows = []
    for name, field in wire.layout.layout().items():
        remaining -= field.width
        kind = lib.ECC_FRAME_SINGLE if field.single else lib.ECC_FRAME_INTEGER
        row: dict[str, Any] = {"kind": kind, "width": field.width, "word": -1}
        if name in wire.of:
            source = wire.of[name]
            kind_of_word, offset, *_ = places[source]
            if kind_of_word.shape:
                raise TypeError(
                    f"wire_fields of {type(part.protocol).__name__} must name numbers, got the array {source}: without "
                    "wire_fields, frames have all words of the record"
                )
            low, high = field.span
            row |= {"word": offset // 8, "is_real": kind_of_word.kind == "f", "factor": field.factor}
            row |= {"low": low, "high": high, "shift": wire.shift.get(name, 0)}
        else:
            row["bits"] = usual >> remaining & (1 << field.width) - 1
        rows.append(row)
    return rows
