"""The twin of the packet engine, writing down what flows of reliable transports do, as qlog has it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecc._support.arguments import shown
from ecc._support.files import replacing
from ecc.formats.qlog import event, events, head, record
from ecc.models.base import FlowEnv
from ecc.models.records import variable_value
from ecc.packet.twin.events import Twin
from ecc.packet.twin.hook_calls import Call, hook_calls
from ecc.packet.twin.state import Packet, Record, TwinFlow, TwinRouter
from ecc.packet.twin.transport import Segment

__all__ = ["LoggedTwin"]

SUFFIX = ".sqlog"
LARGE = 1e290
"""Values beyond this stand for "not known" or "no bound", which a log leaves out."""
PLENTY = 2**53
"""Data without end: hooks ask only whether there is any. A double has this number, in any reader of JSON."""
STANDARD = ("min_rtt", "smoothed_rtt", "latest_rtt", "congestion_window", "bytes_in_flight", "pacing_rate")
UNSEEN = ("rate", "window", "size", "flow", "header_bytes", "now")
"""Fields of `env` that a replay has by itself."""


@dataclass
class _Log:
    """Of a flow: records; what each hook saw, with the record that it belongs to; and packets."""

    path: Path
    title: str
    variables: Mapping[str, str]  # name -> field of its state, or element of one
    hooks: frozenset[str]
    records: list[dict[str, Any]] = field(default_factory=list)
    truths: list[tuple[str, int, dict[str, float]]] = field(default_factory=list)
    sent: int = 0  # packets
    flying: dict[int, tuple[int, int]] = field(default_factory=dict)  # number -> where its data begins and ends
    arrived: list[int] = field(default_factory=list)  # numbers, in order of arrival
    reports: dict[int, int] = field(default_factory=dict)  # of a packet's ACK: how many had arrived
    known: int = 0  # ... to the sender
    metrics: dict[str, Any] = field(default_factory=dict)  # as they were written last
    cause: int = -1  # the record of the ACK, or of the packet, that hooks are called for now
    acks: int = 0
    packet: int = -1  # that the last ACK was for
    received: set[str] = field(default_factory=set)  # variables that the receiver keeps

    def add(self, time: int, name: str, data: Mapping[str, Any]) -> None:
        self.records.append(event(time, name, data))


class _Headers(dict[int, Record]):
    """Those of a packet, with its number."""

    number = -1


class LoggedTwin(Twin):
    """A twin that writes logs.

    Parameters
    ----------
    *args, **options
        Of `Twin`.
    qlog : mapping
        Index of a flow -> path of a file .sqlog.
    variables : mapping
        Index of a flow -> what a log calls a variable of its controller -> field of its state, or element of one.

    Raises
    ------
    ValueError
        No such flow, another suffix, one file for two flows, or a flow without a transport.
    TypeError
        No path.
    """

    def __init__(
        self, *args: Any, qlog: Mapping[int, str | Path], variables: Mapping[int, Mapping[str, str]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.logs: dict[int, _Log] = {}
        self.next_number = -1  # of the packet that is being made
        for number, path in qlog.items():
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < self.n_flows:
                raise ValueError(f"qlog must name flows from 0 to {self.n_flows - 1}, got {shown(number)}")
            if not isinstance(path, str | Path):
                raise TypeError(f"qlog must be paths, got {shown(path)} (flow {number})")
            if Path(path).suffix != SUFFIX:
                raise ValueError(f"qlog must be files {SUFFIX}, got {shown(str(path))} (flow {number})")
            if self.flows[number].outgoing is None:
                raise ValueError(f"qlog needs a protocol with a transport, which flow {number} has not")
            own = {name: field for name, field in variables[number].items() if name not in STANDARD}
            hooks = frozenset(self.flows[number].hooks)
            self.logs[number] = _Log(Path(path), f"flow {number} of an ecc packet run", own, hooks)
            for other, log in self.logs.items():
                if other != number and log.path.resolve() == Path(path).resolve():
                    text = f"got {shown(str(path))} (flows {other} and {number})"
                    raise ValueError(f"qlog must have a file of its own for each flow, {text}")

    def log_of(self, flow: TwinFlow) -> _Log | None:
        return self.logs.get(flow.number)

    # ---- what happens ------------------------------------------------------------------------------------------

    def emit(self, flow: TwinFlow, segment: Segment) -> None:
        if log := self.log_of(flow):
            begin, end = segment.begin, segment.begin + segment.size
            if segment.is_retransmitted:
                self.lose(log, [k for k, (b, e) in log.flying.items() if b < end and begin < e])
            self.next_number = number = log.sent
            log.sent += 1
            before, log.cause = log.cause, len(log.records)
            if number == 0:  # with which a log begins
                log.truths = [(name, log.cause, seen) for name, _, seen in log.truths]
            frame = {"frame_type": "stream", "stream_id": 0, "offset": begin, "raw": {"length": segment.size}}
            log.add(self.now, "packet_sent", {
                "header": {"packet_type": "1RTT", "packet_number": number}, "raw": {"length": segment.size},
                "frames": [frame],
            })  # fmt: skip
            log.flying[number] = (begin, end)
            super().emit(flow, segment)
            log.cause = before
        else:
            super().emit(flow, segment)

    def new_headers(self) -> dict[int, Record]:
        made = _Headers(super().new_headers())
        made.number, self.next_number = self.next_number, -1
        return made

    def receive(self, packet: Packet) -> None:
        log = self.log_of(packet.flow)
        if log and not packet.is_trimmed:
            log.arrived.append(_number(packet))
        super().receive(packet)

    def send_ack(self, flow: TwinFlow) -> None:
        if (log := self.log_of(flow)) and (packet := flow.receiver.delayed):
            log.reports[_number(packet)] = len(log.arrived)
        super().send_ack(flow)

    def ack(self, packet: Packet) -> None:
        log = self.log_of(packet.flow)
        if log is None or packet.control_size > 0 or packet.is_trimmed or not packet.flow.active:
            super().ack(packet)
            return
        log.packet = _number(packet)
        count = log.reports.pop(log.packet)
        new = log.arrived[log.known : count]
        log.known = max(log.known, count)
        for number in new:
            log.flying.pop(number, None)
        frame: dict[str, Any] = {"frame_type": "ack", "acked_ranges": _ranges(new or [log.packet])}
        log.cause = len(log.records)
        log.acks += 1
        log.add(self.now, "packet_received", {
            "header": {"packet_type": "1RTT", "packet_number": log.acks - 1}, "frames": [frame],
        })  # fmt: skip
        super().ack(packet)
        log.cause = -1

    def lose(self, log: _Log, numbers: list[int], trigger: str = "reordering_threshold") -> None:
        for number in numbers:
            del log.flying[number]
            header = {"packet_type": "1RTT", "packet_number": number}
            log.add(self.now, "packet_lost", {"header": header, "trigger": trigger})

    def invoke(self, entity: TwinRouter | TwinFlow, name: str, packet: Packet | None, env: Record) -> None:
        log = self.log_of(entity) if isinstance(entity, TwinFlow) else None
        if log and name == "on_receive":
            before = entity.state.values()
            super().invoke(entity, name, packet, env)
            after = zip(entity.state._kinds, before, entity.state.values(), strict=True)
            changed = {one for one, old, new in after if old != new}
            log.received |= {name for name, field in log.variables.items() if field in changed}
            return
        if log is None or name not in ("on_start", "on_restart", "on_send", "on_ack", "on_loss"):
            super().invoke(entity, name, packet, env)
            return
        assert isinstance(entity, TwinFlow) and entity.outgoing is not None
        seen: Any = copy.copy(env)
        if name == "on_loss":
            self.declare_losses(log, entity, seen)
        super().invoke(entity, name, packet, env)
        if name == "on_restart":
            log.records[log.cause]["ecc"] = {name: {}}  # the call happened; `_add_what_was_seen` adds the values
        elif name != "on_send":
            self.note(log, entity, env, seen, name)
        values = {one: getattr(seen, one) for one in seen._kinds if one not in UNSEEN}
        values["unsent"] = 0 if seen.unsent <= 0 else PLENTY
        if not entity.given.wants_random or name in ("on_start", "on_restart", "on_send"):
            del values["random"]
        if name == "on_ack":
            values["packet"] = log.packet
        log.truths.append((name, log.cause, values))
        if name == "on_loss" and log.records[log.cause]["name"] != "quic:packet_received":
            log.cause = -1

    def declare_losses(self, log: _Log, flow: TwinFlow, env: FlowEnv) -> None:
        """What on_loss is called for."""
        stream: Any = flow.outgoing
        if log.cause < 0:
            log.cause = len(log.records)
        if env.kind == 1:
            self.lose(log, list(log.flying), "pto_expired")
            state = {"new": "slow_start", "trigger": "persistent_congestion"}
        else:
            lost = [k for k, (_, end) in log.flying.items() if end <= stream.lost_below]
            first = [k for k, (begin, _) in log.flying.items() if begin <= stream.snd_una]
            self.lose(log, lost or first[:1])
            state = {"new": "recovery"}
        log.add(self.now, "congestion_state_updated", state)

    def note(self, log: _Log, flow: TwinFlow, after: Any, seen: FlowEnv, name: str) -> None:
        """Metrics that have changed, and variables of the controller."""
        if name == "on_start":
            log.add(self.now, "recovery_parameters_set", {
                "timer_granularity": 0, "max_datagram_size": seen.packet_size,
                "initial_congestion_window": round(after.window),
            })  # fmt: skip
        if name == "on_ack" and seen.recovered:
            log.add(self.now, "congestion_state_updated", {"old": "recovery", "new": "congestion_avoidance"})
        found: dict[str, Any] = {}
        if name == "on_ack":
            found = {"latest_rtt": seen.rtt * 1e3, "smoothed_rtt": seen.srtt * 1e3, "min_rtt": seen.min_rtt * 1e3}
            found["bytes_in_flight"] = seen.in_flight
            log.metrics.pop("bytes_in_flight", None)  # which packets have changed since
        found["congestion_window"] = round(after.window)
        if after.rate > 0.0:
            found["pacing_rate"] = round(after.rate)
        for variable, of_state in log.variables.items():
            value = variable_value(flow.state, of_state)
            if abs(value) < LARGE:
                found[variable] = round(value) if variable == "ssthresh" else value
        changed = {key: value for key, value in found.items() if log.metrics.get(key) != value}
        log.metrics.update(found)
        if changed:
            log.add(self.now, "recovery_metrics_updated", changed)

    # ---- files -------------------------------------------------------------------------------------------------

    def write_logs(self) -> None:
        """Write the files.

        Raises
        ------
        OSError
            One cannot be written.
        """
        for log in self.logs.values():
            _add_what_was_seen(log)
            for one in log.records:
                one["data"] = {key: value for key, value in one["data"].items() if key not in log.received}
            with replacing(log.path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
                file.write(record(head(log.title)))
                file.writelines(record(one) for one in log.records)


def _number(packet: Packet) -> int:
    assert isinstance(packet.headers, _Headers)
    return packet.headers.number


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Numbers as ranges, the highest first, as ACK frames have them."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][-1] == number - 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return found[::-1]


def _add_what_was_seen(log: _Log) -> None:
    """Add to records what hooks saw and the log does not imply."""
    truths = iter(log.truths)

    def corrected(call: Call) -> dict[str, float]:
        if call.hook not in log.hooks:
            return {}
        name, cause, values = next(truths)
        assert name == call.hook, f"{call.hook} where {name} was called"
        implied = call.env | {"packet": call.packet[1] if call.packet else -1}
        seen = {key: value for key, value in values.items() if value != implied[key]}
        if seen:
            log.records[cause].setdefault("ecc", {})[name] = seen
        return seen

    size = next((one["data"]["max_datagram_size"] for one in log.records if "max_datagram_size" in one["data"]), 0)
    calls = sum(one.hook in log.hooks for one in hook_calls(events(log.records), size, corrected))
    assert calls == len(log.truths)
