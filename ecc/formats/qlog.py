"""Logs of transports in qlog: reading those of any stack, and writing records (draft-ietf-quic-qlog-main-schema).

A log is JSON Text Sequences (RFC 7464: each record begins with 0x1E and ends with a line feed; files .sqlog), lines of
JSON, or one JSON object with its traces (.qlog). `read` returns the events that a congestion controller has to do with,
under one name and in one unit each, whatever draft a stack follows:

    packet_sent                space, number, size [bytes], counts (whether it counts as in flight), is_again
    packet_received            space, ranges of numbers that its ACK frames acknowledge, ce (None: no counts of ECN)
    packet_lost                space, number, trigger
    packets_lost               largest, count (mvfst, which does not name them)
    metrics_updated            whatever numbers there are: RTTs in s, volumes in bytes, pacing_rate in bit/s
    congestion_state_updated   new, trigger
    app_limited_updated        limited
    recovery_parameters_set    numbers

Others are counted and left out. Nothing in a file is executed, and what is wrong with it is one line.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from ecc._support.arguments import check_arguments, shown
from ecc._support.files import read_bytes
from ecc.errors import warn

__all__ = ["Event", "Trace", "read"]

RS = "\x1e"
BLANK = " \t\r\n"  # of JSON; to Python, RS is one too
PS_IN_MS = 1_000_000_000
FILE_SCHEMA = "urn:ietf:params:qlog:file:sequential"
EVENT_SCHEMA = "urn:ietf:params:qlog:events:quic-13"
UNITS = {"ms": PS_IN_MS, "us": 1_000_000, "s": 1000 * PS_IN_MS}
DELTA = ("delta", "relative_to_previous_event")
RTTS = ("min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance")
EPOCH = 1e10
"""Times [ms] beyond this are dates, and count from the first event on."""
NAMES = {
    "metric_update": "metrics_updated", "recovery_metrics_updated": "metrics_updated",
    "congestion_metric_update": "metrics_updated", "packet_drop": "packet_dropped",
    "congestion_state_update": "congestion_state_updated", "app_limited_update": "app_limited_updated",
    "custom_cc_application_limited": "app_limited_updated",
}  # fmt: skip
"""What older drafts and single stacks call events -> what they are called here."""
FIELDS = {"cwnd": "congestion_window", "current_cwnd": "congestion_window"}
"""Likewise of metrics."""
ERROR = "error_description"
"""Key of an object that replaces a trace that could not be made (qlog-main-schema, TraceError)."""
LARGEST = 1e18
"""Metrics above this have no value yet: stacks begin with the largest number of 64 bits, for example in ssthresh."""
MAX_SIZE = 2**29
"""Maximum size of a log, compressed or not [bytes]."""
ACKS = {"ack", "ack_ecn", "path_ack", "path_ack_ecn", "ack_mp", "ack_mp_ecn", "mp_ack", "mp_ack_ecn"}
"""Types of frames that acknowledge packets; those of multipath QUIC have the path of these packets."""
RESTARTS = {"retry": "Retry", "versionnegotiation": "Version Negotiation"}
"""Types of packets after which a client begins again, with a new controller (RFC 9002 sec. 6.3)."""
UNNUMBERED = {*RESTARTS, "statelessreset"}
"""Types of packets that have no number (RFC 9000 sec. 17.2.1, 17.2.5, 10.3), however they are written."""
UNCOUNTED = {"ack", "connection_close"}
"""Frames of packets that are not in flight (RFC 9002 sec. 2), where a packet has no others."""


@dataclass(frozen=True)
class Event:
    """An event of a log: when [ps], what, its data, and the record it was in.

    `seen`: what the log says beyond qlog on the calls of a controller's hooks (`ecc.packet.hook_calls`).
    """

    time: int
    name: str
    data: Mapping[str, Any]
    record: int = 0
    seen: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """What a log says of one connection.

    `title`, `vantage_point` ("client", "server", "network" or "unknown"); `events` in the order of time; `n_records`
    that the log has; `notes`: what a reader must know, one line each.
    """

    title: str
    vantage_point: str
    events: tuple[Event, ...]
    n_records: int
    notes: tuple[str, ...] = ()

    @property
    def packet_size(self) -> int:
        """Size of a full packet: as declared, or the largest that was sent [bytes]."""
        declared = self._parameter("max_datagram_size")
        sizes = [one.data["size"] for one in self.events if one.name == "packet_sent"]
        return int(declared) if declared else max(sizes, default=0)

    @property
    def initial_window(self) -> float | None:
        """The window before the first ACK, or, where the log does not say, what was sent by then [bytes]; or None."""
        declared = self._parameter("initial_congestion_window")
        if declared:
            return declared
        sent = 0
        window: float | None = None
        for one in self.events:
            if one.name == "packet_received":
                return window or sent or None
            if one.name == "packet_sent" and one.data["counts"]:
                sent += one.data["size"]
            if one.name == "metrics_updated":
                window = window or one.data.get("congestion_window")
        return window

    def _parameter(self, name: str) -> float | None:
        found = (one.data.get(name) for one in self.events if one.name == "recovery_parameters_set")
        return next((value for value in found if value), None)


# ---- writing -----------------------------------------------------------------------------------------------------


def head(title: str, vantage_point: str = "server") -> dict[str, Any]:
    """Return the first record of a log whose times count from its beginning.

    Parameters
    ----------
    title, vantage_point : str
    """
    reference = {"clock_type": "monotonic", "epoch": "unknown"}
    return {
        "file_schema": FILE_SCHEMA, "serialization_format": "application/qlog+json-seq", "title": title,
        "trace": {
            "common_fields": {"time_format": "relative_to_epoch", "reference_time": reference},
            "vantage_point": {"type": vantage_point}, "event_schemas": [EVENT_SCHEMA],
        },
    }  # fmt: skip


def event(time: int, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of an event.

    Parameters
    ----------
    time : int, ps
    name : str
        Of the schema of QUIC, without its namespace.
    data : mapping
    """
    return {"time": time / PS_IN_MS, "name": f"quic:{name}", "data": dict(data)}


def record(values: Mapping[str, Any]) -> str:
    """Return a record as text, by RFC 7464.

    Parameters
    ----------
    values : mapping
    """
    return f"{RS}{json.dumps(values, separators=(',', ':'), allow_nan=False)}\n"


# ---- reading -----------------------------------------------------------------------------------------------------


@check_arguments
def read(path: str | Path, trace: int | None = None, path_id: int | None = None) -> Trace:
    """Return what a log says, in JSON-SEQ, in lines of JSON, or in one JSON object, each also compressed by gzip.

    Drafts from 00 on are read, as aioquic, mvfst, picoquic, quic-go and quiche follow them.

    Parameters
    ----------
    path : str or Path
    trace : int, >= 0, optional
        Index of the trace in a file with several. None: the first that is not an error, which a note names.
    path_id : int, >= 0, optional
        Identifier of the path of a multipath connection, each of which has a controller. None: the lowest, which a note
        names.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        Not qlog, more than 512 MiB, or a bad record: its number, the field, its value, and the allowed values; of text
        that is not JSON, line and column. A last event that is incomplete is left out, with a warning.
    OSError
        The file cannot be read.

    Notes
    -----
    A file that was cut off, for example by a crash, is read up to its last complete event. After a Retry or a Version
    Negotiation a client begins again with new packet numbers and a new controller; the packets before are left out.
    Either is noted.

    Examples
    --------
    >>> trace = read("flow.sqlog")  # doctest: +SKIP
    >>> len(trace.events), trace.packet_size  # doctest: +SKIP
    (2114, 1500)
    """
    try:
        return _Reader(read_bytes(path, "file", MAX_SIZE), trace, path_id).trace()
    except ValueError as error:
        raise ValueError(f"{error} ({str(path)!r})") from None


def events(records: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return the events of records that `event` made.

    Parameters
    ----------
    records : iterable of mapping
    """
    reader = _Events({}, [])
    return [one for number, given in enumerate(records, 1) for one in reader.event(given, number)]


class _Reader:
    """A file, record by record."""

    def __init__(self, raw: bytes, chosen: int | None, path_id: int | None) -> None:
        self.path_id = path_id
        self.notes: list[str] = []
        if raw.startswith(b"\x1f\x8b"):
            raw = self._unzipped(raw)
        try:
            self.text = raw.decode("utf-8").lstrip("\ufeff")
        except UnicodeDecodeError as error:
            raise ValueError(f"file must be UTF-8, got a byte {raw[error.start]:#04x} at {error.start}") from None
        self.chosen = chosen

    def _unzipped(self, raw: bytes) -> bytes:
        """The content of a gzip file, or of a file that is cut off, the beginning of it."""
        parts: list[bytes] = []
        size, member = 0, zlib.decompressobj(wbits=31)
        while raw:
            try:
                parts.append(member.decompress(raw, MAX_SIZE + 1 - size))
            except zlib.error as error:
                raise ValueError(f"file must be qlog, or qlog compressed by gzip, got a damaged one: {error}") from None
            size += len(parts[-1])
            if size > MAX_SIZE:
                raise ValueError(f"file must have <= {MAX_SIZE // 2**20} MiB when it is decompressed, got more")
            raw = member.unused_data
            if member.eof:
                member = zlib.decompressobj(wbits=31) if raw else member
        if not member.eof:
            self.notes.append("the gzip file is incomplete and was read up to its end")
        return b"".join(parts)

    def trace(self) -> Trace:
        top, records = self.records()
        many = top.get("traces")
        if many is None:
            many = [top["trace"]] if isinstance(top.get("trace"), dict) else [{}]
        if not isinstance(many, list) or not many or not all(isinstance(one, dict) for one in many):
            raise ValueError(f"record 0: traces must be a list of objects, got {shown(many)}")
        about = many[self.number_of_trace(many)]
        if records is None:
            given = about.get("events")
            if not isinstance(given, list):
                raise ValueError(f"record 0: events must be a list, got {shown(given)}")
            records = list(enumerate(given, 1))
        found = _Events(about, self.notes)
        made = [one for number, given in records for one in found.event(given, number)]
        made = self.without_former_attempts(self.on_path(made))
        if any(a.time > b.time for a, b in zip(made, made[1:], strict=False)):
            late = sum(a.time > b.time for a, b in zip(made, made[1:], strict=False))
            self.notes.append(f"events were put in the order of time, from which {late} had departed")
            made.sort(key=lambda one: one.time)
        if not any(one.name == "packet_sent" for one in made):
            raise ValueError(f"file must have packet_sent events, got none in {len(records)} records")
        point = about.get("vantage_point")
        kind = point.get("type") if isinstance(point, dict) else None
        title = about.get("title") or top.get("title")
        return Trace(
            title if isinstance(title, str) else "", kind.lower() if isinstance(kind, str) else "unknown", tuple(made),
            len(records), tuple(self.notes),
        )  # fmt: skip

    def number_of_trace(self, many: Sequence[Mapping[str, Any]]) -> int:
        """The trace that is read; some may be errors, which stand in the place of one (TraceError)."""
        if self.chosen is None:
            whole = [k for k, one in enumerate(many) if ERROR not in one]
            if not whole:
                raise ValueError(f"record 0: traces must be one at least, got {ERROR} {shown(many[0][ERROR])} alone")
            if len(many) > 1:
                others = "" if len(whole) == len(many) else f", {len(many) - len(whole)} without events ({ERROR})"
                self.notes.append(f"the file has {len(many)} traces{others}; number {whole[0]} was read")
            return whole[0]
        if not 0 <= self.chosen < len(many):
            raise ValueError(f"trace must be from 0 to {len(many) - 1}, got {self.chosen}")
        if ERROR in many[self.chosen]:
            raise ValueError(
                f"trace must be one with events, got {self.chosen}: {ERROR} {shown(many[self.chosen][ERROR])}"
            )
        return self.chosen

    def on_path(self, events: Sequence[Event]) -> list[Event]:
        """The events of the path that is read; those without a path are of all."""
        paths = sorted({one.data["path"] for one in events if one.name == "packet_sent" and "path" in one.data})
        chosen = (paths or [0])[0] if self.path_id is None else self.path_id
        if chosen not in (paths or [chosen]) or (not paths and self.path_id):
            raise ValueError(f"path_id must be one of {', '.join(map(str, paths or [0]))}, got {chosen}")
        if len(paths) > 1:
            listed = ", ".join(map(str, paths))
            self.notes.append(f"the log has the paths {listed}, each with a controller; path {chosen} was read")
        found = []
        for one in events:
            if one.data.get("path", chosen) == chosen:
                data = {key: value for key, value in one.data.items() if key != "path"}
                found.append(replace(one, data=data))
        return found

    def without_former_attempts(self, events: Sequence[Event]) -> list[Event]:
        """The events since a client began again after a Retry or a Version Negotiation; parameters are kept.

        Such a packet has no effect once others were received. Logs may lack it: then the first number is sent again.
        """
        begin, cause, sent = 0, "", False
        for k, one in enumerate(events):
            if one.name == "packet_received":
                break
            is_first = one.name == "packet_sent" and one.data["space"] == "initial" and one.data["number"] == 0
            if one.name == RESTARTED and sent:
                begin, cause, sent = k, f"a {one.data['cause']}", False
            elif is_first and sent and not cause:
                begin, cause = k, "packet number 0 was sent again"
            sent |= one.name == "packet_sent"
        if begin:
            self.notes.append(
                f"the connection begins again in record {events[begin].record} ({cause}): packets before it are left "
                "out, as congestion control is reset there (RFC 9002 sec. 6.3)"
            )
        kept = [one for one in events[:begin] if one.name == "recovery_parameters_set"]
        return kept + [one for one in events[begin:] if one.name != RESTARTED]

    def records(self) -> tuple[dict[str, Any], list[tuple[int, Any]] | None]:
        """The head of the file, and the records after it; None: they are in the head."""
        text = self.text
        if not text.strip():
            raise ValueError("file must be qlog, got an empty one")
        is_sequence = text.lstrip(BLANK).startswith(RS)
        if not is_sequence:
            try:
                whole = _json(text)
            except ValueError as error:
                if not _is_json(text.lstrip(BLANK).partition("\n")[0]):
                    return self._repaired(error), None
            else:
                if not isinstance(whole, dict):
                    raise ValueError(f"file must be a JSON object, or records, got {shown(whole)}")
                return whole, None
        chunks = list(re.finditer(rf"[^{RS}]*\S[^{RS}]*" if is_sequence else r".*\S.*", text))
        found = []
        for number, chunk in enumerate(chunks):
            try:
                found.append((number, _json(chunk[0])))
            except ValueError as error:
                if number == 0 or number < len(chunks) - 1:
                    raise ValueError(f"record {number} must be JSON: {_place(error, text, chunk.start())}") from None
                self.notes.append(f"record {number}, the last, is incomplete and was left out")
                warn(self.notes[-1])
        first = found[0][1]
        if not isinstance(first, dict):
            raise ValueError(f"record 0 must be a JSON object, got {shown(first)}")
        if "name" in first and "data" in first:
            self.notes.append("there is no first record that describes the log: times are taken as ms")
            return {}, found
        return first, found[1:]

    def _repaired(self, error: ValueError) -> dict[str, Any]:
        """A JSON object that was cut off, up to its last complete event."""
        end, closing = _complete(self.text)
        if end and not (isinstance(error, json.JSONDecodeError) and error.pos < end):
            with suppress(ValueError):
                whole: dict[str, Any] = _json(self.text[:end] + closing)
                self.notes.append("the file is incomplete and was read up to its last complete event")
                warn(self.notes[-1])
                return whole
        raise ValueError(f"file must be JSON: {_place(error, self.text)}")


class _Events:
    """What the records of one trace say."""

    def __init__(self, about: Mapping[str, Any], notes: list[str]) -> None:
        common = about.get("common_fields")
        self.common: dict[str, Any] = common if isinstance(common, dict) else {}
        configuration = about.get("configuration")
        units = (configuration if isinstance(configuration, dict) else {}).get("time_units")
        units = units or self.common.get("time_units") or "ms"
        if units not in UNITS:
            raise ValueError(f"record 0: time_units must be {', '.join(UNITS)}, got {shown(units)}")
        self.unit = UNITS[units]
        named = about.get("event_fields")
        self.columns = [str(one).lower() for one in named] if isinstance(named, list) else []
        self.notes, self.number = notes, 0
        self.path: int | None = None  # of the event that is read
        self.last = 0  # ps
        self.first: float | None = None
        self.highest: dict[Any, float] = {}  # of each stream, that was sent

    def event(self, given: Any, number: int) -> Iterator[Event]:
        """The event of a record, if it is one of those that are wanted."""
        self.number = number
        if given in ([], {}):  # with which some end
            return
        if isinstance(given, list):
            if len(given) != len(self.columns):
                self.fail("record", f"a list of {len(self.columns)} (event_fields)", given)
            given = dict(zip(self.columns, given, strict=True))
        given = self.mapping(given, "record")
        name = str(given.get("name") or given.get("event") or given.get("event_type") or "").lower()
        category, _, name = name.rpartition(":")
        category = category or str(given.get("category") or "").lower()
        time = self.time(given)
        if name == "parameters_set" and category == "recovery":
            name = "recovery_parameters_set"
        name = NAMES.get(name, name)
        if name == "packet_lost" and self.mapping(given.get("data", {}), "data").get("lost_packets") is not None:
            name = "packets_lost"
        made: Callable[[Mapping[str, Any]], Any] | None = getattr(self, f"_{name}", None)
        if made is None or name not in EVENTS:
            return
        content = self.mapping(given.get("data") or {}, "data")
        if name in ("packet_sent", "packet_received") and (cause := RESTARTS.get(self.plain_type(content))):
            if name == "packet_received":
                yield Event(time, RESTARTED, {"cause": cause}, number)
            return
        self.path = self.path_of(given, content)
        found = made(content)
        for data in found if isinstance(found, list) else [found]:
            if data is not None:
                if trigger := given.get("trigger"):
                    data.setdefault("trigger", str(trigger).lower())
                yield Event(time, name, data, number, self.seen(given.get("ecc")))

    def time(self, given: Mapping[str, Any]) -> int:
        names = ("time", "relative_time", "delta_time", "reference_time")
        name = next((one for one in names if one in given), "time")
        value = self.value(given.get(name), name)
        form = given.get("time_format") or self.common.get("time_format")
        if name == "delta_time" or form in DELTA:
            self.last += round(value * self.unit)
            return self.last
        if self.first is None:
            self.first = value if form == "absolute" or value * self.unit / PS_IN_MS > EPOCH else 0.0
        self.last = round((value - self.first) * self.unit)
        return self.last

    # ---- what events say -------------------------------------------------------------------------------------

    def _packet_sent(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        space, number = self.packet(data)
        if number is None:
            if self.plain_type(data) in UNNUMBERED:
                return None
            kind = self.packet_type(data) or "unknown"
            self.fail("packet_number", f"a whole number >= 0 in a packet of type {kind}", None)
        frames = self.frames(data)
        kinds = {str(one.get("frame_type")).lower() for one in frames}
        counts = not kinds or not kinds <= UNCOUNTED
        again = str(data.get("trigger", "")).lower().startswith("retransmit")
        for one in frames:
            if str(one.get("frame_type")).lower() == "stream" and "offset" in one:
                stream = str(one.get("stream_id", one.get("id")))
                offset = self.value(one["offset"], "offset")
                again = again or offset < self.highest.get(stream, 0.0)
                length = one.get("length", self.inner(one, "raw").get("length", 0))
                self.highest[stream] = max(self.highest.get(stream, 0.0), offset + self.value(length, "length"))
        size = self.size(data)
        sent = {"space": space, "number": number, "size": size, "counts": counts, "is_again": again}
        return self.of_path(sent)

    def _packet_received(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What is acknowledged of each path: an ACK frame may be of another path than its packet, or of path 0."""
        found: dict[int | None, dict[str, Any]] = {}
        for one in self.frames(data):
            if str(one.get("frame_type")).lower() not in ACKS:
                continue
            path = self.number_of_path(one)
            if path is None and self.path is not None:
                path = 0
            of_path = found.setdefault(path, {"space": self.space(data), "ranges": [], "ce": None})
            given = one.get("acked_ranges", [])
            if not isinstance(given, list):
                self.fail("acked_ranges", "a list of ranges", given)
            for pair in given:
                pair = [pair] if isinstance(pair, int | str) else pair
                if not isinstance(pair, list) or not 1 <= len(pair) <= 2:
                    self.fail("acked_ranges", "lists of one or two numbers", pair)
                low, high = self.whole(pair[0], "acked_ranges"), self.whole(pair[-1], "acked_ranges")
                if low > high:
                    self.fail("acked_ranges", "ranges from the lower to the higher number", pair)
                of_path["ranges"].append((low, high))
            of_path["ce"] = self.whole(one["ce"], "ce") if "ce" in one else of_path["ce"]
        known = {path: {} if path is None else {"path": path} for path in found}
        return [one | known[path] for path, one in found.items() if one["ranges"]]

    def _packet_lost(self, data: Mapping[str, Any]) -> dict[str, Any]:
        space, number = self.packet(data)
        if number is None:
            self.fail("packet_number", "a whole number >= 0", None)
        return self.of_path({"space": space, "number": number, "trigger": str(data.get("trigger", "")).lower()})

    def _packets_lost(self, data: Mapping[str, Any]) -> dict[str, Any]:
        largest = self.whole(data.get("largest_lost_packet_num"), "largest_lost_packet_num")
        return self.of_path({"largest": largest, "count": self.whole(data["lost_packets"], "lost_packets")})

    def _metrics_updated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in data.items():
            name = FIELDS.get(key.lower(), key)
            if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
                continue
            known = name in (*RTTS, "congestion_window", "bytes_in_flight", "ssthresh", "pacing_rate")
            if isinstance(value, str) and not known:
                continue
            number = self.value(value, name, most=math.inf)
            if known and number < 0.0:
                self.fail(name, ">= 0", value)
            if abs(number) <= LARGEST:
                found[name] = number / (1e12 / self.unit) if name in RTTS else number
        return self.of_path(found)

    def _congestion_state_updated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        new = data.get("new")
        if not isinstance(new, str):
            self.fail("new", "a string", new)
        return self.of_path({"new": new.lower(), "trigger": str(data.get("trigger", "")).lower()})

    def _app_limited_updated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        limited = str(data.get("app_limited", "app_limited")).lower() in ("app_limited", "true", "1")
        return self.of_path({"limited": limited})

    def _recovery_parameters_set(self, data: Mapping[str, Any]) -> dict[str, Any]:
        numbers = {key: one for key, one in data.items() if isinstance(one, int | float) and not isinstance(one, bool)}
        values = {key: self.value(one, key, most=math.inf) for key, one in numbers.items()}
        return {key: value for key, value in values.items() if abs(value) <= LARGEST}

    # ---- fields ----------------------------------------------------------------------------------------------

    def path_of(self, given: Mapping[str, Any], data: Mapping[str, Any]) -> int | None:
        """The path of an event of a multipath connection, or None."""
        places = (data, data.get("header"), given)
        numbers = (self.number_of_path(one) for one in places if isinstance(one, dict))
        return next((number for number in numbers if number is not None), None)

    def number_of_path(self, given: Mapping[str, Any]) -> int | None:
        """The number under "path_id", or None; qlog also has names of paths there, which say nothing of packets."""
        value = given.get("path_id")
        return int(value) if isinstance(value, int | str) and str(value).isdecimal() else None

    def of_path(self, data: dict[str, Any]) -> dict[str, Any]:
        return data if self.path is None else data | {"path": self.path}

    def packet(self, data: Mapping[str, Any]) -> tuple[str, int | None]:
        inner = self.inner(data, "header")
        number = inner.get("packet_number", data.get("packet_number"))
        return self.space(data), None if number is None else self.whole(number, "packet_number")

    def space(self, data: Mapping[str, Any]) -> str:
        """Numbers of packets count within a space."""
        kind = self.packet_type(data)
        return kind if kind in ("initial", "handshake") else "application"

    def packet_type(self, data: Mapping[str, Any]) -> str:
        """The type of a packet; aioquic has it under "type" in packet_lost."""
        own = data.get("packet_type", data.get("type", ""))
        return str(self.inner(data, "header").get("packet_type", own)).lower()

    def plain_type(self, data: Mapping[str, Any]) -> str:
        return re.sub("[-_ ]", "", self.packet_type(data))

    def size(self, data: Mapping[str, Any]) -> int:
        raw, inner = self.inner(data, "raw"), self.inner(data, "header")
        for given, name in ((raw, "length"), (inner, "packet_size"), (data, "packet_size"), (inner, "length"),
                            (raw, "payload_length"), (inner, "payload_length")):  # fmt: skip
            if given.get(name) is not None:
                return self.whole(given[name], name)
        self.fail("raw.length", "the size of a packet", None)

    def frames(self, data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        given = data.get("frames") or []
        if not isinstance(given, list):
            self.fail("frames", "a list", given)
        return [self.mapping(one, "frames") for one in given]

    def inner(self, data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        return self.mapping(data.get(name) or {}, name)

    def seen(self, given: Any) -> dict[str, dict[str, float]]:
        """What our own logs have for each hook."""
        found = {} if given is None else self.mapping(given, "ecc")
        return {
            hook: {name: self.value(value, name) if isinstance(value, float) else self.signed(value, name)
                   for name, value in self.mapping(values, hook).items()}
            for hook, values in found.items()
        }  # fmt: skip

    def mapping(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(name, "a JSON object", value)
        return value

    def whole(self, value: Any, name: str) -> int:
        found = self.signed(value, name)
        if found < 0:
            self.fail(name, "a whole number >= 0", value)
        return found

    def signed(self, value: Any, name: str) -> int:
        number = self.value(value, name)
        if number != math.floor(number):
            self.fail(name, "a whole number", value)
        return int(value) if isinstance(value, int | str) and str(value).lstrip("-").isdigit() else int(number)

    def value(self, value: Any, name: str, most: float = LARGEST) -> float:
        """A finite number, also one in a string, as early drafts have them."""
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            self.fail(name, "a finite number", value)
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or abs(number) > most:
            self.fail(name, "a finite number" + (", at most 1e18" if most < math.inf else ""), value)
        return number

    def fail(self, name: str, allowed: str, value: Any) -> NoReturn:
        raise ValueError(f"record {self.number}: {name} must be {allowed}, got {shown(value)}")


EVENTS: Sequence[str] = (
    "packet_sent", "packet_received", "packet_lost", "packets_lost", "metrics_updated", "congestion_state_updated",
    "app_limited_updated", "recovery_parameters_set",
)  # fmt: skip
"""Events that are read."""
RESTARTED = "restarted"
"""Event of this module: a client has received a Retry or a Version Negotiation."""


def _is_json(text: str) -> bool:
    try:
        _json(text)
    except ValueError:
        return False
    return True


def _place(error: ValueError, text: str, start: int = 0) -> str:
    """What is wrong with JSON, with line and column in a text of which a part, from `start` on, was read."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    at = start + error.pos
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"{error.msg.removesuffix(' at')} (line {line}, column {column})"


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*:)?|[\[\]{}]|"', re.DOTALL)


def _complete(text: str) -> tuple[int, str]:
    """Where the last complete event of a JSON object ends, and the brackets that are open there; 0: nowhere."""
    end, closing = 0, ""
    stack: list[str] = []
    depths: list[int] = []  # of the lists of events that are open
    key = ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "[{":
            stack.append("]" if word == "[" else "}")
            if word == "[" and key == "events":
                depths.append(len(stack))
        elif word in "]}":
            if not stack or stack.pop() != word:
                break
            if depths and depths[-1] == len(stack):
                end, closing = token.end(), "".join(reversed(stack))
            elif depths and depths[-1] > len(stack):
                depths.pop()
        elif word == '"':  # a string that does not end
            break
        key = word[1 : word.rindex('"')] if word.endswith(":") else ""
    return end, closing


def _json(text: str) -> Any:
    """JSON as the standard has it: without NaN; a ValueError for all that is none, too deep or too long."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("too deep") from None
