"""Transport logs in qlog: reading logs of any stack, and writing records (draft-ietf-quic-qlog-main-schema).

A log is JSON Text Sequences (RFC 7464: each record begins with 0x1E and ends with a line feed; files .sqlog), lines of
JSON, or one JSON object with its traces (.qlog). `read` returns the events that matter to a congestion controller, with
uniform names and units for all drafts of the format:

    packet_sent                space, number, size [bytes], counts (whether it counts as in flight), is_again
    packet_received            space, ranges of numbers that its ACK frames acknowledge, ce (None: no ECN counts)
    packet_lost                space, number, trigger
    packets_lost               largest, count (mvfst, which does not list the numbers)
    metrics_updated            all numbers: RTTs in s, volumes in bytes, pacing_rate in bit/s
    congestion_state_updated   new, trigger
    app_limited_updated        limited
    recovery_parameters_set    numbers

Other events are counted and left out. Nothing in a file is executed, and an error in it is reported in one line.
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
BLANK = " \t\r\n"  # white space of JSON; Python counts RS as white space too
PS_IN_MS = 1_000_000_000
FILE_SCHEMA = "urn:ietf:params:qlog:file:sequential"
EVENT_SCHEMA = "urn:ietf:params:qlog:events:quic-13"
UNITS = {"ms": PS_IN_MS, "us": 1_000_000, "s": 1000 * PS_IN_MS}
DELTA = ("delta", "relative_to_previous_event")
RTTS = ("min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance")
EPOCH = 1e10
"""Times [ms] beyond this are dates; they are converted to the time since the first event."""
NAMES = {
    "metric_update": "metrics_updated",
    "recovery_metrics_updated": "metrics_updated",
    "congestion_metric_update": "metrics_updated",
    "packet_drop": "packet_dropped",
    "congestion_state_update": "congestion_state_updated",
    "app_limited_update": "app_limited_updated",
    "custom_cc_application_limited": "app_limited_updated",
}
"""Names of events in older drafts and some stacks -> names here."""
FIELDS = {"cwnd": "congestion_window", "current_cwnd": "congestion_window"}
"""Names of metrics in older drafts and some stacks -> names here."""
ERROR = "error_description"
"""Key of an object that replaces a trace after an error (qlog-main-schema, TraceError)."""
LARGEST = 1e18
"""Metrics above this have no value yet: stacks begin with the maximum of 64 bits, for example in ssthresh."""
MAX_SIZE = 2**29
"""Maximum size of a log, compressed or not [bytes]."""
ACKS = {"ack", "ack_ecn", "path_ack", "path_ack_ecn", "ack_mp", "ack_mp_ecn", "mp_ack", "mp_ack_ecn"}
"""Types of frames that acknowledge packets; those of multipath QUIC have the path of these packets."""
RESTARTS = {"retry": "Retry", "versionnegotiation": "Version Negotiation"}
"""Types of packets after which a client begins again, with a new controller (RFC 9002 sec. 6.3)."""
UNNUMBERED = {*RESTARTS, "statelessreset"}
"""Types of packets without a number (RFC 9000 sec. 17.2.1, 17.2.5, 10.3), without separators in the name."""
UNCOUNTED = {"ack", "connection_close"}
"""Frames that do not count as in flight: a packet with no other frames is not in flight (RFC 9002 sec. 2)."""


@dataclass(frozen=True)
class Event:
    """An event of a log: its time [ps], name, data and number of its record.

    `seen`: records of a controller's hook calls in logs of `ecc.packet.hook_calls`, an extension of qlog.
    """

    time: int
    name: str
    data: Mapping[str, Any]
    record: int = 0
    seen: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """The log of one connection.

    `title`; `vantage_point` ("client", "server", "network" or "unknown"); `events` in the order of time; `n_records`,
    the number of records of the log; `notes`, remarks of one line each.
    """

    title: str
    vantage_point: str
    events: tuple[Event, ...]
    n_records: int
    notes: tuple[str, ...] = ()

    @property
    def packet_size(self) -> int:
        """Size of a full packet [bytes]: the declared one, or else the maximum sent."""
        declared = self._parameter("max_datagram_size")
        sizes = [event.data["size"] for event in self.events if event.name == "packet_sent"]
        return int(declared) if declared else max(sizes, default=0)

    @property
    def initial_window(self) -> float | None:
        """Window before the first ACK [bytes]; if the log lacks it, the bytes sent before the first ACK; or None."""
        declared = self._parameter("initial_congestion_window")
        if declared:
            return declared
        sent = 0
        window: float | None = None
        for event in self.events:
            if event.name == "packet_received":
                return window or sent or None
            if event.name == "packet_sent" and event.data["counts"]:
                sent += event.data["size"]
            if event.name == "metrics_updated":
                window = window or event.data.get("congestion_window")
        return window

    def _parameter(self, name: str) -> float | None:
        values = (event.data.get(name) for event in self.events if event.name == "recovery_parameters_set")
        return next((value for value in values if value), None)


# ---- writing -----------------------------------------------------------------------------------------------------


def head(title: str, vantage_point: str = "server") -> dict[str, Any]:
    """Return the first record of a log with times relative to its beginning.

    Parameters
    ----------
    title, vantage_point : str
    """
    reference = {"clock_type": "monotonic", "epoch": "unknown"}
    return {
        "file_schema": FILE_SCHEMA,
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "common_fields": {"time_format": "relative_to_epoch", "reference_time": reference},
            "vantage_point": {"type": vantage_point},
            "event_schemas": [EVENT_SCHEMA],
        },
    }


def event(time: int, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an event.

    Parameters
    ----------
    time : int, ps
    name : str
        Name in the QUIC schema without the namespace, for example "packet_sent".
    data : mapping
    """
    return {"time": time / PS_IN_MS, "name": f"quic:{name}", "data": dict(data)}


def record(values: Mapping[str, Any]) -> str:
    """Return a record as text in the format of RFC 7464.

    Parameters
    ----------
    values : mapping
    """
    return f"{RS}{json.dumps(values, separators=(',', ':'), allow_nan=False)}\n"


# ---- reading -----------------------------------------------------------------------------------------------------


@check_arguments
def read(path: str | Path, trace: int | None = None, path_id: int | None = None) -> Trace:
    """Return a log in JSON-SEQ, in lines of JSON, or in one JSON object, each optionally compressed by gzip.

    All drafts from 00 are read, as written by aioquic, mvfst, picoquic, quic-go and quiche.

    Parameters
    ----------
    path : str or Path
    trace : int, >= 0, optional
        Index of the trace in a file with several. None: the first that is not an error; a note names it.
    path_id : int, >= 0, optional
        Identifier of the path of a multipath connection, which has one controller per path. None: the lowest; a note
        names it.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If the file is not qlog, has more than 512 MiB, or has a bad record. The message has the number of the record,
        the field, its value and the allowed values, or line and column if the text is not JSON. An incomplete last
        event is left out, with a warning.
    OSError
        If the file cannot be read.

    Notes
    -----
    A file that was cut off, for example by a crash, is read up to its last complete event. After a Retry or a Version
    Negotiation a client begins again with new packet numbers and a new controller; the packets before are left out.
    A note reports either.

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
    return [made for number, values in enumerate(records, 1) for made in reader.event(values, number)]


class _Reader:
    """Reader of a file, record by record."""

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
        """Return the content of a gzip file; of a truncated one, the beginning."""
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
        traces = top.get("traces")
        if traces is None:
            traces = [top["trace"]] if isinstance(top.get("trace"), dict) else [{}]
        if not isinstance(traces, list) or not traces or not all(isinstance(item, dict) for item in traces):
            raise ValueError(f"record 0: traces must be a list of objects, got {shown(traces)}")
        about = traces[self.number_of_trace(traces)]
        if records is None:
            listed = about.get("events")
            if not isinstance(listed, list):
                raise ValueError(f"record 0: events must be a list, got {shown(listed)}")
            records = list(enumerate(listed, 1))
        parser = _Events(about, self.notes)
        events = [event for number, values in records for event in parser.event(values, number)]
        events = self.without_former_attempts(self.on_path(events))
        if any(a.time > b.time for a, b in zip(events, events[1:], strict=False)):
            late = sum(a.time > b.time for a, b in zip(events, events[1:], strict=False))
            self.notes.append(f"events were sorted by time ({late} out of order)")
            events.sort(key=lambda event: event.time)
        if not any(event.name == "packet_sent" for event in events):
            raise ValueError(f"file must have packet_sent events, got none in {len(records)} records")
        point = about.get("vantage_point")
        kind = point.get("type") if isinstance(point, dict) else None
        title = about.get("title") or top.get("title")
        return Trace(
            title if isinstance(title, str) else "",
            kind.lower() if isinstance(kind, str) else "unknown",
            tuple(events),
            len(records),
            tuple(self.notes),
        )

    def number_of_trace(self, traces: Sequence[Mapping[str, Any]]) -> int:
        """Return the index of the trace to read; errors (TraceError) in place of a trace are skipped."""
        if self.chosen is None:
            complete = [k for k, item in enumerate(traces) if ERROR not in item]
            if not complete:
                raise ValueError(f"record 0: traces must be one at least, got {ERROR} {shown(traces[0][ERROR])} alone")
            if len(traces) > 1:
                errors = (
                    "" if len(complete) == len(traces) else f", {len(traces) - len(complete)} without events ({ERROR})"
                )
                self.notes.append(f"the file has {len(traces)} traces{errors}; number {complete[0]} was read")
            return complete[0]
        if not 0 <= self.chosen < len(traces):
            raise ValueError(f"trace must be from 0 to {len(traces) - 1}, got {self.chosen}")
        if ERROR in traces[self.chosen]:
            raise ValueError(
                f"trace must be one with events, got {self.chosen}: {ERROR} {shown(traces[self.chosen][ERROR])}"
            )
        return self.chosen

    def on_path(self, events: Sequence[Event]) -> list[Event]:
        """Return the events of the selected path, and those without a path, which belong to all."""
        paths = sorted({event.data["path"] for event in events if event.name == "packet_sent" and "path" in event.data})
        chosen = (paths or [0])[0] if self.path_id is None else self.path_id
        if chosen not in (paths or [chosen]) or (not paths and self.path_id):
            raise ValueError(f"path_id must be one of {', '.join(map(str, paths or [0]))}, got {chosen}")
        if len(paths) > 1:
            listed = ", ".join(map(str, paths))
            self.notes.append(f"the log has the paths {listed}, each with a controller; path {chosen} was read")
        selected = []
        for event in events:
            if event.data.get("path", chosen) == chosen:
                data = {key: value for key, value in event.data.items() if key != "path"}
                selected.append(replace(event, data=data))
        return selected

    def without_former_attempts(self, events: Sequence[Event]) -> list[Event]:
        """Return the events after the last restart of a client by a Retry or a Version Negotiation, and all parameters.

        Such a packet has no effect after other packets were received. If a log lacks it, a restart shows as packet 0
        sent again.
        """
        begin, cause, sent = 0, "", False
        for k, event in enumerate(events):
            if event.name == "packet_received":
                break
            is_first = event.name == "packet_sent" and event.data["space"] == "initial" and event.data["number"] == 0
            if event.name == RESTARTED and sent:
                begin, cause, sent = k, f"a {event.data['cause']}", False
            elif is_first and sent and not cause:
                begin, cause = k, "packet number 0 was sent again"
            sent |= event.name == "packet_sent"
        if begin:
            self.notes.append(
                f"the connection begins again in record {events[begin].record} ({cause}): packets before it are left "
                "out, as congestion control is reset there (RFC 9002 sec. 6.3)"
            )
        parameters = [event for event in events[:begin] if event.name == "recovery_parameters_set"]
        return parameters + [event for event in events[begin:] if event.name != RESTARTED]

    def records(self) -> tuple[dict[str, Any], list[tuple[int, Any]] | None]:
        """Return the head of the file and the records after it (None: the records are in the head)."""
        text = self.text
        if not text.strip():
            raise ValueError("file must be qlog, got an empty one")
        is_sequence = text.lstrip(BLANK).startswith(RS)
        if not is_sequence:
            try:
                content = _json(text)
            except ValueError as error:
                if not _is_json(text.lstrip(BLANK).partition("\n")[0]):
                    return self._repaired(error), None
            else:
                if not isinstance(content, dict):
                    raise ValueError(f"file must be a JSON object, or records, got {shown(content)}")
                return content, None
        chunks = list(re.finditer(rf"[^{RS}]*\S[^{RS}]*" if is_sequence else r".*\S.*", text))
        records = []
        for number, chunk in enumerate(chunks):
            try:
                records.append((number, _json(chunk[0])))
            except ValueError as error:
                if number == 0 or number < len(chunks) - 1:
                    raise ValueError(
                        f"record {number} must be JSON: {_json_error(error, text, chunk.start())}"
                    ) from None
                self.notes.append(f"record {number}, the last, is incomplete and was left out")
                warn(self.notes[-1])
        first = records[0][1]
        if not isinstance(first, dict):
            raise ValueError(f"record 0 must be a JSON object, got {shown(first)}")
        if "name" in first and "data" in first:
            self.notes.append("there is no first record that describes the log: times are taken as ms")
            return {}, records
        return first, records[1:]

    def _repaired(self, error: ValueError) -> dict[str, Any]:
        """Return a truncated JSON object up to its last complete event."""
        end, closing = _last_complete_event(self.text)
        if end and not (isinstance(error, json.JSONDecodeError) and error.pos < end):
            with suppress(ValueError):
                content: dict[str, Any] = _json(self.text[:end] + closing)
                self.notes.append("the file is incomplete and was read up to its last complete event")
                warn(self.notes[-1])
                return content
        raise ValueError(f"file must be JSON: {_json_error(error, self.text)}")


class _Events:
    """Parser of the records of one trace."""

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
        self.columns = [str(name).lower() for name in named] if isinstance(named, list) else []
        self.notes, self.number = notes, 0
        self.path: int | None = None  # path of the current event
        self.last = 0  # time of the last event [ps]
        self.first: float | None = None
        self.highest: dict[Any, float] = {}  # end of the data sent on each stream

    def event(self, values: Any, number: int) -> Iterator[Event]:
        """Yield the events of a record that are in `EVENTS`."""
        self.number = number
        if values in ([], {}):  # some files end with an empty record
            return
        if isinstance(values, list):
            if len(values) != len(self.columns):
                self.fail("record", f"a list of {len(self.columns)} (event_fields)", values)
            values = dict(zip(self.columns, values, strict=True))
        values = self.mapping(values, "record")
        name = str(values.get("name") or values.get("event") or values.get("event_type") or "").lower()
        category, _, name = name.rpartition(":")
        category = category or str(values.get("category") or "").lower()
        time = self.time(values)
        if name == "parameters_set" and category == "recovery":
            name = "recovery_parameters_set"
        name = NAMES.get(name, name)
        if name == "packet_lost" and self.mapping(values.get("data", {}), "data").get("lost_packets") is not None:
            name = "packets_lost"
        parse: Callable[[Mapping[str, Any]], Any] | None = getattr(self, f"_{name}", None)
        if parse is None or name not in EVENTS:
            return
        content = self.mapping(values.get("data") or {}, "data")
        if name in ("packet_sent", "packet_received") and (cause := RESTARTS.get(self.plain_type(content))):
            if name == "packet_received":
                yield Event(time, RESTARTED, {"cause": cause}, number)
            return
        self.path = self.path_of(values, content)
        parsed = parse(content)
        for data in parsed if isinstance(parsed, list) else [parsed]:
            if data is not None:
                if trigger := values.get("trigger"):
                    data.setdefault("trigger", str(trigger).lower())
                yield Event(time, name, data, number, self.seen(values.get("ecc")))

    def time(self, values: Mapping[str, Any]) -> int:
        names = ("time", "relative_time", "delta_time", "reference_time")
        name = next((candidate for candidate in names if candidate in values), "time")
        value = self.value(values.get(name), name)
        form = values.get("time_format") or self.common.get("time_format")
        if name == "delta_time" or form in DELTA:
            self.last += round(value * self.unit)
            return self.last
        if self.first is None:
            self.first = value if form == "absolute" or value * self.unit / PS_IN_MS > EPOCH else 0.0
        self.last = round((value - self.first) * self.unit)
        return self.last

    # ---- events ---------------------------------------------------------------------------------------------

    def _packet_sent(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        space, number = self.packet(data)
        if number is None:
            if self.plain_type(data) in UNNUMBERED:
                return None
            kind = self.packet_type(data) or "unknown"
            self.fail("packet_number", f"a whole number >= 0 in a packet of type {kind}", None)
        frames = self.frames(data)
        kinds = {str(frame.get("frame_type")).lower() for frame in frames}
        counts = not kinds or not kinds <= UNCOUNTED
        again = str(data.get("trigger", "")).lower().startswith("retransmit")
        for frame in frames:
            if str(frame.get("frame_type")).lower() == "stream" and "offset" in frame:
                stream = str(frame.get("stream_id", frame.get("id")))
                offset = self.value(frame["offset"], "offset")
                again = again or offset < self.highest.get(stream, 0.0)
                length = frame.get("length", self.inner(frame, "raw").get("length", 0))
                self.highest[stream] = max(self.highest.get(stream, 0.0), offset + self.value(length, "length"))
        size = self.size(data)
        sent = {"space": space, "number": number, "size": size, "counts": counts, "is_again": again}
        return self.of_path(sent)

    def _packet_received(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the acknowledged ranges of each path; a frame without a path is of path 0, not of its packet's."""
        by_path: dict[int | None, dict[str, Any]] = {}
        for frame in self.frames(data):
            if str(frame.get("frame_type")).lower() not in ACKS:
                continue
            path = self.number_of_path(frame)
            if path is None and self.path is not None:
                path = 0
            of_path = by_path.setdefault(path, {"space": self.space(data), "ranges": [], "ce": None})
            ranges = frame.get("acked_ranges", [])
            if not isinstance(ranges, list):
                self.fail("acked_ranges", "a list of ranges", ranges)
            for pair in ranges:
                pair = [pair] if isinstance(pair, int | str) else pair
                if not isinstance(pair, list) or not 1 <= len(pair) <= 2:
                    self.fail("acked_ranges", "lists of one or two numbers", pair)
                low, high = self.unsigned(pair[0], "acked_ranges"), self.unsigned(pair[-1], "acked_ranges")
                if low > high:
                    self.fail("acked_ranges", "ranges from the lower to the higher number", pair)
                of_path["ranges"].append((low, high))
            of_path["ce"] = self.unsigned(frame["ce"], "ce") if "ce" in frame else of_path["ce"]
        known = {path: {} if path is None else {"path": path} for path in by_path}
        return [frame | known[path] for path, frame in by_path.items() if frame["ranges"]]

    def _packet_lost(self, data: Mapping[str, Any]) -> dict[str, Any]:
        space, number = self.packet(data)
        if number is None:
            self.fail("packet_number", "a whole number >= 0", None)
        return self.of_path({"space": space, "number": number, "trigger": str(data.get("trigger", "")).lower()})

    def _packets_lost(self, data: Mapping[str, Any]) -> dict[str, Any]:
        largest = self.unsigned(data.get("largest_lost_packet_num"), "largest_lost_packet_num")
        return self.of_path({"largest": largest, "count": self.unsigned(data["lost_packets"], "lost_packets")})

    def _metrics_updated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        metrics: dict[str, Any] = {}
        for key, value in data.items():
            name = FIELDS.get(key.lower(), key)
            if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
                continue
            known = name in (*RTTS, "congestion_window", "bytes_in_flight", "ssthresh", "pacing_rate")
            if isinstance(value, str) and not known:
                continue
            number = self.value(value, name, limit=math.inf)
            if known and number < 0.0:
                self.fail(name, ">= 0", value)
            if abs(number) <= LARGEST:
                metrics[name] = number / (1e12 / self.unit) if name in RTTS else number
        return self.of_path(metrics)

    def _congestion_state_updated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        new = data.get("new")
        if not isinstance(new, str):
            self.fail("new", "a string", new)
        return self.of_path({"new": new.lower(), "trigger": str(data.get("trigger", "")).lower()})

    def _app_limited_updated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        limited = str(data.get("app_limited", "app_limited")).lower() in ("app_limited", "true", "1")
        return self.of_path({"limited": limited})

    def _recovery_parameters_set(self, data: Mapping[str, Any]) -> dict[str, Any]:
        numbers = {
            key: value for key, value in data.items() if isinstance(value, int | float) and not isinstance(value, bool)
        }
        values = {key: self.value(value, key, limit=math.inf) for key, value in numbers.items()}
        return {key: value for key, value in values.items() if abs(value) <= LARGEST}

    # ---- fields ----------------------------------------------------------------------------------------------

    def path_of(self, values: Mapping[str, Any], data: Mapping[str, Any]) -> int | None:
        """Return the path of an event of a multipath connection, or None."""
        places = (data, data.get("header"), values)
        numbers = (self.number_of_path(place) for place in places if isinstance(place, dict))
        return next((number for number in numbers if number is not None), None)

    def number_of_path(self, values: Mapping[str, Any]) -> int | None:
        """Return the number under "path_id", or None; qlog also allows names of paths, which are ignored."""
        value = values.get("path_id")
        return int(value) if isinstance(value, int | str) and str(value).isdecimal() else None

    def of_path(self, data: dict[str, Any]) -> dict[str, Any]:
        return data if self.path is None else data | {"path": self.path}

    def packet(self, data: Mapping[str, Any]) -> tuple[str, int | None]:
        inner = self.inner(data, "header")
        number = inner.get("packet_number", data.get("packet_number"))
        return self.space(data), None if number is None else self.unsigned(number, "packet_number")

    def space(self, data: Mapping[str, Any]) -> str:
        """Return the packet number space of a packet."""
        kind = self.packet_type(data)
        return kind if kind in ("initial", "handshake") else "application"

    def packet_type(self, data: Mapping[str, Any]) -> str:
        """Return the type of a packet; aioquic has it under "type" in packet_lost."""
        kind = data.get("packet_type", data.get("type", ""))
        return str(self.inner(data, "header").get("packet_type", kind)).lower()

    def plain_type(self, data: Mapping[str, Any]) -> str:
        return re.sub("[-_ ]", "", self.packet_type(data))

    def size(self, data: Mapping[str, Any]) -> int:
        raw, inner = self.inner(data, "raw"), self.inner(data, "header")
        for place, name in (
            (raw, "length"),
            (inner, "packet_size"),
            (data, "packet_size"),
            (inner, "length"),
            (raw, "payload_length"),
            (inner, "payload_length"),
        ):
            if place.get(name) is not None:
                return self.unsigned(place[name], name)
        self.fail("raw.length", "the size of a packet", None)

    def frames(self, data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        frames = data.get("frames") or []
        if not isinstance(frames, list):
            self.fail("frames", "a list", frames)
        return [self.mapping(frame, "frames") for frame in frames]

    def inner(self, data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        return self.mapping(data.get(name) or {}, name)

    def seen(self, calls: Any) -> dict[str, dict[str, float]]:
        """Return the hook calls of logs that `ecc` has written, by hook."""
        hooks = {} if calls is None else self.mapping(calls, "ecc")
        return {
            hook: {
                name: self.value(value, name) if isinstance(value, float) else self.signed(value, name)
                for name, value in self.mapping(values, hook).items()
            }
            for hook, values in hooks.items()
        }

    def mapping(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(name, "a JSON object", value)
        return value

    def unsigned(self, value: Any, name: str) -> int:
        number = self.signed(value, name)
        if number < 0:
            self.fail(name, "a whole number >= 0", value)
        return number

    def signed(self, value: Any, name: str) -> int:
        number = self.value(value, name)
        if number != math.floor(number):
            self.fail(name, "a whole number", value)
        return int(value) if isinstance(value, int | str) and str(value).lstrip("-").isdigit() else int(number)

    def value(self, value: Any, name: str, limit: float = LARGEST) -> float:
        """Return a finite number, also from a string, as in early drafts."""
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            self.fail(name, "a finite number", value)
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or abs(number) > limit:
            self.fail(name, "a finite number" + (", at most 1e18" if limit < math.inf else ""), value)
        return number

    def fail(self, name: str, allowed: str, value: Any) -> NoReturn:
        raise ValueError(f"record {self.number}: {name} must be {allowed}, got {shown(value)}")


EVENTS: Sequence[str] = (
    "packet_sent",
    "packet_received",
    "packet_lost",
    "packets_lost",
    "metrics_updated",
    "congestion_state_updated",
    "app_limited_updated",
    "recovery_parameters_set",
)
"""Events that are read."""
RESTARTED = "restarted"
"""Event of this module: a client has received a Retry or a Version Negotiation packet."""


def _is_json(text: str) -> bool:
    try:
        _json(text)
    except ValueError:
        return False
    return True


def _json_error(error: ValueError, text: str, start: int = 0) -> str:
    """Return the error in JSON with line and column in the whole text, a part of which was read from `start`."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    at = start + error.pos
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"{error.msg.removesuffix(' at')} (line {line}, column {column})"


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*:)?|[\[\]{}]|"', re.DOTALL)


def _last_complete_event(text: str) -> tuple[int, str]:
    """Return the end of the last complete event of a JSON object (0: none), and the brackets to close there."""
    end, closing = 0, ""
    stack: list[str] = []
    depths: list[int] = []  # depths of the open lists of events
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
        elif word == '"':  # an unterminated string
            break
        key = word[1 : word.rindex('"')] if word.endswith(":") else ""
    return end, closing


def _json(text: str) -> Any:
    """Parse standard JSON, without NaN; raise a ValueError for other text, or if it is nested too deeply."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("too deep") from None
