"""Captures of the packets that a link sends: pcapng files with congestion headers as bytes, or Parquet tables.

An additional router at the link, after all others, records each packet when its last bit leaves the queue, with its
header at that time. Packets lost later on the wire are included; packets dropped before the queue are not.

Frames are raw IPv4 without data. Flow f sends from 10.0.0.0 + f to 10.128.0.0 + f, and ACKs in the opposite direction;
numbers of transfers follow those of the flows. The result of the protocol's `wire_header` is above IPv4, as IP protocol
253 (for experiments, RFC 3692), or as TCP for protocols with a transport of TCP and for headers in a TCP option; or it
is in fields of the IP header itself, which also has the ECN codepoint. If the papers do not specify the layout of a
header, it has the fields of its record, 8 bytes each. Sequence numbers count the bytes of a flow that the link has
sent. The original length is the size of the packet on this link, or that of the headers if they are longer. A value
that does not fit into its field is replaced by the nearest value that does. A file has an interface for each protocol;
its description has the name of the protocol and, if `ecc.packet.dissector` knows the header, that of the header.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc.errors import EccError, install_command
from ecc.formats.headers import WireHeader
from ecc.native import new_links
from ecc.packet import pcapng
from ecc.packet.setup import Part, Setup

__all__ = ["ROOM", "Capture", "attach", "description"]

ROOM = 8192
"""Capacity of the record of packets; the run pauses at least once in this number of events to write them."""
SUFFIXES = (".pcapng", ".parquet")
ACK = 1
EXPERIMENT, TCP = 253, 6


def note(link: Any, header: Any, p: Any, env: Any) -> None:
    k = link.count
    n = len(header.words)
    link.count = k + 1
    link.time[k] = env.now
    link.size[k] = env.packet_size
    link.kind[k] = env.kind
    link.flow[k] = env.flow
    link.ecn[k] = env.ecn
    for i in range(n):
        link.words[n * k + i] = header.words[i]


def note_without_header(link: Any, header: Any, p: Any, env: Any) -> None:
    k = link.count
    link.count = k + 1
    link.time[k] = env.now
    link.size[k] = env.packet_size
    link.kind[k] = env.kind
    link.flow[k] = env.flow
    link.ecn[k] = env.ecn


@dataclass(frozen=True)
class _Recorder:
    """Placeholder of a protocol for the routers that record packets."""

    required_env: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def has_hosts(cls) -> bool:
        return False


def attach(setup: Setup, paths: Mapping[int, str | Path]) -> tuple[Setup, list[Capture]]:
    """Return a prepared run with routers that record packets, and its capture files, which are not opened yet.

    Parameters
    ----------
    setup : Setup
    paths : mapping
        Index of a link -> path of a .pcapng or .parquet file, for example {0: "link.pcapng"}.

    Raises
    ------
    ValueError
        If a link does not exist, a suffix is different, or two links share a file.
    TypeError
        If a value is not a path.
    EccError
        If pyarrow is missing.
    """
    files: dict[int, Path] = {}
    for link, path in paths.items():
        if isinstance(link, bool) or not isinstance(link, int) or not 0 <= link < setup.n_links:
            raise ValueError(f"capture must name links from 0 to {setup.n_links - 1}, got {shown(link)}")
        if not isinstance(path, str | Path):
            raise TypeError(f"capture must be paths, got {shown(path)} (link {link})")
        files[link] = Path(path)
        if files[link].suffix not in SUFFIXES:
            raise ValueError(f"capture must be files {' or '.join(SUFFIXES)}, got {shown(str(path))} (link {link})")
        for other in files:
            if other != link and files[other].resolve() == files[link].resolve():
                text = f"got {shown(str(path))} (links {other} and {link})"
                raise ValueError(f"capture must have a separate file for each link, {text}")
    n_words = setup.header_size // 8
    recorded: list[tuple[Any, ...]] = [("count", "i8"), ("time", "f8", (ROOM,))]
    recorded += [(name, "i8", (ROOM,)) for name in ("size", "kind", "flow", "ecn")]
    recorded += [("words", "i8", (ROOM * n_words,))] if n_words else []
    states = np.zeros(len(files), recorded)
    routers = new_links(len(files))
    routers["at"] = list(files)
    no_flows = np.zeros(0, np.int64)
    plain = np.zeros(len(files), [("unused", "f8")])
    recorder: Any = _Recorder()
    part = Part(
        recorder,
        np.dtype([("words", "i8", (n_words,))] if n_words else []),
        0,
        np.arange(len(setup.links), len(setup.links) + len(files)),
        no_flows,
        states,
        np.zeros(0, np.dtype([])),
        plain,
        plain[:1],
        {"on_departure": note if n_words else note_without_header},
        {},
    )
    captures = [Capture(setup, link, path, states[k : k + 1]) for k, (link, path) in enumerate(files.items())]
    return replace(setup, links=np.concatenate([setup.links, routers]), parts=[*setup.parts, part]), captures


class Capture:
    """A file with the packets that one link has sent.

    Parameters
    ----------
    setup : Setup
    link : int
        Index.
    path : Path
        File to write; `open` creates it.
    state : NDArray[void], shape (1,)
        Record of the router at the link.
    """

    def __init__(self, setup: Setup, link: int, path: Path, state: NDArray[np.void]) -> None:
        self.path, self._state, self._n_flows = path, state, setup.n_flows
        self._is_open = False
        self._regions = {k: _Region(part) for k, part in enumerate(setup.parts)}
        self._part_of = np.zeros(
            setup.n_flows + 1, np.int64
        )  # part of each flow; the last entry: part of all transfers
        for k, part in enumerate(setup.parts):
            self._part_of[np.minimum(part.flows, setup.n_flows)] = k
        file = _Pcapng if path.suffix == ".pcapng" else _Table
        self._file = file(path, link, float(setup.links["capacity"][link]), list(self._regions.values()))

    def open(self) -> None:
        """Create the file if it is not open.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        if not self._is_open:
            self._file.open()
            self._is_open = True

    def drain(self) -> None:
        """Write the packets recorded since the last call."""
        state = self._state[0]
        n = int(state["count"])
        if n == 0:
            return
        has_words = "words" in (state.dtype.names or ())
        words = state["words"].reshape(ROOM, -1)[:n] if has_words else np.zeros((n, 0), np.int64)
        columns = {name: state[name][:n].copy() for name in ("time", "size", "kind", "flow", "ecn")}
        parts = self._part_of[np.minimum(columns["flow"], self._n_flows)]
        records: list[Any] = [None] * n
        for k in np.unique(parts).tolist():
            rows = np.flatnonzero(parts == k)
            for row, record in zip(rows.tolist(), self._regions[k].records(words[rows]), strict=True):
                records[row] = (self._regions[k], record)
        self._file.write(columns, records)
        state["count"] = 0

    def close(self) -> None:
        """Write the remaining packets and finish the file."""
        self.open()
        self.drain()
        self._file.close()


def description(part: Part) -> str:
    """Return the description of a protocol's interface: its name and that of its header.

    Parameters
    ----------
    part : Part
    """
    empty = dict.fromkeys(part.header.names or (), 0.0)
    layout = part.protocol.wire_header(empty, False).layout
    return f"{type(part.protocol).__name__} (ecc{'' if layout is None else '.' + layout.short_name()})"


class _Region:
    """Region of a protocol in the headers."""

    def __init__(self, part: Part) -> None:
        self.name, self.protocol = type(part.protocol).__name__, part.protocol
        self.is_tcp = part.protocol.transport not in (None, "quic")
        self.dtype, self.offset = part.header, part.header_offset
        self.description = description(part)

    def records(self, words: NDArray[np.int64]) -> list[dict[str, Any]]:
        names = self.dtype.names or ()
        if not names:
            return [{} for _ in words]
        raw = np.ascontiguousarray(words).view(np.uint8)[:, self.offset : self.offset + self.dtype.itemsize]
        table = np.ascontiguousarray(raw).view(self.dtype)[:, 0]
        return [dict(zip(names, row, strict=True)) for row in table.tolist()]


# ---- headers as bytes ------------------------------------------------------------------------------------------------


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - (total + (total >> 16)) % 2**16


def _frame(
    region: _Region, wire: WireHeader, flow: int, kind: int, size: int, ecn: int, sequence: int
) -> tuple[bytes, int]:
    """Return the headers of a packet, and its original length."""
    above, protocol = wire.above, EXPERIMENT
    ends = [0x0A000000 + flow % 2**23, 0x0A800000 + flow % 2**23]
    ports = list(pcapng.PORTS)
    if kind == ACK:
        ends, ports = ends[::-1], ports[::-1]
    if region.is_tcp or wire.option:
        options = wire.option + bytes(-len(wire.option) % 4)
        words = 5 + len(options) // 4
        tcp = struct.pack("!HHIIBBHHH", *ports, sequence % 2**32, 0, words << 4, 0x10, 0xFFFF, 0, 0)
        above, protocol = tcp + options + wire.above, TCP
    length = max(size, 20 + len(above))
    start = (0x45, wire.service | ecn, min(length, 0xFFFF), sequence % 2**16, wire.fragment, 64, protocol)
    ends_bytes = struct.pack("!II", *ends)
    check = _checksum(struct.pack("!BBHHHBBH", *start, 0) + ends_bytes)
    return struct.pack("!BBHHHBBH", *start, check) + ends_bytes + above, length


# ---- files -----------------------------------------------------------------------------------------------------------


class _Pcapng:
    """A file with one section and an interface for each protocol, times in ns."""

    def __init__(self, path: Path, link: int, capacity: float, regions: Sequence[_Region]) -> None:
        self._path = path
        self._sent: dict[tuple[int, int], int] = {}
        self._interfaces = {region: number for number, region in enumerate(regions)}
        self._head = pcapng.section()
        for region in regions:
            self._head += pcapng.interface(pcapng.RAW_IP, f"link {link}", region.description, capacity)

    def open(self) -> None:
        self._file = self._path.open("wb")
        self._file.write(self._head)

    def write(self, columns: Mapping[str, NDArray[Any]], records: Sequence[tuple[_Region, Mapping[str, Any]]]) -> None:
        for time, size, kind, flow, ecn, (region, record) in zip(
            *(columns[name].tolist() for name in ("time", "size", "kind", "flow", "ecn")), records, strict=True
        ):
            wire = region.protocol.wire_header(record, kind == ACK)
            sent = self._sent.get((flow, kind), 0)
            frame, length = _frame(region, wire, flow, kind, size, ecn, sent)
            self._sent[flow, kind] = sent + (0 if kind == ACK else length - len(frame))
            self._file.write(pcapng.packet(self._interfaces[region], round(time * 1e9), frame, length))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _Table:
    """A table with one row per packet: time [s], flow, ack, size [bytes], ecn (codepoint), protocol, header fields."""

    def __init__(self, path: Path, link: int, capacity: float, regions: Sequence[_Region]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise EccError(
                f"capture to .parquet needs pyarrow, which is not installed: {install_command('parquet')}"
            ) from None
        kinds = {"time": pyarrow.float64(), "flow": pyarrow.int64(), "ack": pyarrow.bool_(), "size": pyarrow.int64()}
        kinds |= {"ecn": pyarrow.int64(), "protocol": pyarrow.string()}
        for region in regions:
            for name in region.dtype.names or ():
                kind = pyarrow.int64() if region.dtype[name].base.kind == "i" else pyarrow.float64()
                kind = pyarrow.list_(kind) if region.dtype[name].shape else kind
                kinds[f"header_{name}"] = kind if kinds.get(f"header_{name}", kind) == kind else pyarrow.float64()
        self._path, self._arrow, self._schema = path, pyarrow, pyarrow.schema(list(kinds.items()))

    def open(self) -> None:
        self._writer = self._arrow.parquet.ParquetWriter(str(self._path), self._schema)

    def write(self, columns: Mapping[str, NDArray[Any]], records: Sequence[tuple[_Region, Mapping[str, Any]]]) -> None:
        table = {
            "time": columns["time"],
            "flow": columns["flow"],
            "ack": columns["kind"] == ACK,
            "size": columns["size"],
            "ecn": columns["ecn"],
            "protocol": [region.name for region, _ in records],
        }
        for field in self._schema.names[len(table) :]:
            table[field] = [record.get(field.removeprefix("header_")) for _, record in records]
        self._writer.write_table(self._arrow.table(table, schema=self._schema))

    def close(self) -> None:
        self._writer.close()
