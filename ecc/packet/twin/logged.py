"""The twin of the packet engine, with qlog files of flows that have a reliable transport."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecc._support.arguments import shown
from ecc._support.files import replacing
from ecc.contract.env import FlowEnv
from ecc.contract.records import variable_value
from ecc.formats.qlog import event, events, head, record
from ecc.packet.twin.events import Twin
from ecc.packet.twin.hook_calls import Call, hook_calls
from ecc.packet.twin.state import Packet, Record, TwinFlow, TwinRouter
from ecc.packet.twin.transport import Segment

__all__ = ["LoggedTwin"]

SUFFIX = ".sqlog"
LARGE = 1e290
"""Larger values mean "not known" or "no bound"; a log omits them."""
UNLIMITED = 2**53
"""Unsent bytes of unlimited data: hooks test only whether it is positive. A double represents this number exactly."""
STANDARD = ("min_rtt", "smoothed_rtt", "latest_rtt", "congestion_window", "bytes_in_flight", "pacing_rate")
OMITTED = ("rate", "window", "size", "flow", "header_bytes", "now", "transport")
"""Fields of `env` that a replay computes itself."""


@dataclass
class _Log:
    """Log of a flow: records, values that each hook saw with the record of their event, and packets."""

    path: Path
    title: str
    variables: Mapping[str, str]  # name -> field of its state, or element of a field
    hooks: frozenset[str]
    records: list[dict[str, Any]] = field(default_factory=list)
    observed: list[tuple[str, int, dict[str, float]]] = field(default_factory=list)
    sent: int = 0  # number of packets
    flying: dict[int, tuple[int, int]] = field(default_factory=dict)  # number -> begin and end of its data
    arrived: list[int] = field(default_factory=list)  # numbers, in order of arrival
    reports: dict[int, int] = field(default_factory=dict)  # number of a packet with an ACK -> arrivals before the ACK
    known: int = 0  # arrivals known to the sender
    metrics: dict[str, Any] = field(default_factory=dict)  # last values written
    cause: int = -1  # record of the ACK or packet for which hooks are called now
    acks: int = 0
    packet: int = -1  # packet of the last ACK
    received: set[str] = field(default_factory=set)  # variables that the receiver changes

    def add(self, time: int, name: str, data: Mapping[str, Any]) -> None:
        self.records.append(event(time, name, data))


class _Headers(dict[int, Record]):
    """Headers of a packet, with its number."""

    number = -1


class LoggedTwin(Twin):
    """A twin that writes logs.

    Parameters
    ----------
    *args, **options
        Arguments of `Twin`.
    qlog : mapping
        Index of a flow -> path of a .sqlog file, for example {0: "flow.sqlog"}.
    variables : mapping
        Index of a flow -> name of a variable in the log -> field of the flow's state, or element of a field.

    Raises
    ------
    ValueError
        If there is no such flow, a suffix differs, two flows share a file, or a flow has no transport.
    TypeError
        If a value is not a path.
    """

    def __init__(
        self, *args: Any, qlog: Mapping[int, str | Path], variables: Mapping[int, Mapping[str, str]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.logs: dict[int, _Log] = {}
        self.next_number = -1  # number of the packet under construction
        for number, path in qlog.items():
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < self.n_flows:
                raise ValueError(f"qlog must name flows from 0 to {self.n_flows - 1}, got {shown(number)}")
            if not isinstance(path, str | Path):
                raise TypeError(f"qlog must be paths, got {shown(path)} (flow {number})")
            if Path(path).suffix != SUFFIX:
                raise ValueError(f"qlog must be files {SUFFIX}, got {shown(str(path))} (flow {number})")
            if self.flows[number].outgoing is None:
                raise ValueError(f"qlog needs a protocol with a transport; flow {number} has none")
            logged = {name: field for name, field in variables[number].items() if name not in STANDARD}
            hooks = frozenset(self.flows[number].hooks)
            self.logs[number] = _Log(Path(path), f"flow {number} of an ecc packet run", logged, hooks)
            for other, log in self.logs.items():
                if other != number and log.path.resolve() == Path(path).resolve():
                    text = f"got {shown(str(path))} (flows {other} and {number})"
                    raise ValueError(f"qlog must have a separate file for each flow, {text}")

    def log_of(self, flow: TwinFlow) -> _Log | None:
        return self.logs.get(flow.number)

    # ---- events ------------------------------------------------------------------------------------------------

    def emit(self, flow: TwinFlow, segment: Segment) -> None:
        if log := self.log_of(flow):
            begin, end = segment.begin, segment.begin + segment.size
            if segment.is_retransmitted:
                self.lose(log, [k for k, (b, e) in log.flying.items() if b < end and begin < e])
            self.next_number = number = log.sent
            log.sent += 1
            before, log.cause = log.cause, len(log.records)
            if number == 0:  # a log begins with this packet
                log.observed = [(name, log.cause, seen) for name, _, seen in log.observed]
            frame = {"frame_type": "stream", "stream_id": 0, "offset": begin, "raw": {"length": segment.size}}
            log.add(
                self.now,
                "packet_sent",
                {
                    "header": {"packet_type": "1RTT", "packet_number": number},
                    "raw": {"length": segment.size},
                    "frames": [frame],
                },
            )
            log.flying[number] = (begin, end)
            super().emit(flow, segment)
            log.cause = before
        else:
            super().emit(flow, segment)

    def new_headers(self) -> dict[int, Record]:
        headers = _Headers(super().new_headers())
        headers.number, self.next_number = self.next_number, -1
        return headers

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
        log.add(
            self.now,
            "packet_received",
            {
                "header": {"packet_type": "1RTT", "packet_number": log.acks - 1},
                "frames": [frame],
            },
        )
        super().ack(packet)
        log.cause = -1

    def lose(self, log: _Log, numbers: list[int], trigger: str = "reordering_threshold") -> None:
        for number in numbers:
            del log.flying[number]
            header = {"packet_type": "1RTT", "packet_number": number}
            log.add(self.now, "packet_lost", {"header": header, "trigger": trigger})

    def invoke(
        self,
        entity: TwinRouter | TwinFlow,
        name: str,
        packet: Packet | None,
        env: Record,
        headers: Mapping[int, Record] | None = None,
    ) -> None:
        log = self.log_of(entity) if isinstance(entity, TwinFlow) else None
        if log and name == "on_receive":
            before = entity.state.values()
            super().invoke(entity, name, packet, env, headers)
            after = zip(entity.state._kinds, before, entity.state.values(), strict=True)
            changed = {key for key, old, new in after if old != new}
            log.received |= {name for name, field in log.variables.items() if field in changed}
            return
        if log is None or name not in ("on_start", "on_restart", "on_send", "on_ack", "on_loss"):
            super().invoke(entity, name, packet, env, headers)
            return
        assert isinstance(entity, TwinFlow) and entity.outgoing is not None
        seen: Any = copy.copy(env)
        if name == "on_loss":
            self.declare_losses(log, entity, seen)
        super().invoke(entity, name, packet, env, headers)
        if name == "on_restart":
            log.records[log.cause]["ecc"] = {name: {}}  # the call happened; `_add_seen_values` adds the values
        elif name != "on_send":
            self.note(log, entity, env, seen, name)
        values = {key: getattr(seen, key) for key in seen._kinds if key not in OMITTED}
        values["unsent"] = 0 if seen.unsent <= 0 else UNLIMITED
        if not entity.config.wants_random or name in ("on_start", "on_restart", "on_send"):
            del values["random"]
        if name == "on_ack":
            values["packet"] = log.packet
        log.observed.append((name, log.cause, values))
        if name == "on_loss" and log.records[log.cause]["name"] != "quic:packet_received":
            log.cause = -1

    def declare_losses(self, log: _Log, flow: TwinFlow, env: FlowEnv) -> None:
        """Log the losses for which on_loss is called."""
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
        """Log the changed metrics and variables of the controller."""
        if name == "on_start":
            log.add(
                self.now,
                "recovery_parameters_set",
                {
                    "timer_granularity": 0,
                    "max_datagram_size": seen.packet_size,
                    "initial_congestion_window": round(after.window),
                },
            )
        if name == "on_ack" and seen.recovered:
            log.add(self.now, "congestion_state_updated", {"old": "recovery", "new": "congestion_avoidance"})
        metrics: dict[str, Any] = {}
        if name == "on_ack":
            metrics = {"latest_rtt": seen.rtt * 1e3, "smoothed_rtt": seen.srtt * 1e3, "min_rtt": seen.min_rtt * 1e3}
            metrics["bytes_in_flight"] = seen.in_flight
            log.metrics.pop("bytes_in_flight", None)  # packets have changed it since
        metrics["congestion_window"] = round(after.window)
        if after.rate > 0.0:
            metrics["pacing_rate"] = round(after.rate)
        for variable, of_state in log.variables.items():
            value = variable_value(flow.state, of_state)
            if abs(value) < LARGE:
                metrics[variable] = round(value) if variable == "ssthresh" else value
        changed = {key: value for key, value in metrics.items() if log.metrics.get(key) != value}
        log.metrics.update(metrics)
        if changed:
            log.add(self.now, "recovery_metrics_updated", changed)

    # ---- files -------------------------------------------------------------------------------------------------

    def write_logs(self) -> None:
        """Write the files.

        Raises
        ------
        OSError
            If a file cannot be written.
        """
        for log in self.logs.values():
            _add_seen_values(log)
            for entry in log.records:
                entry["data"] = {key: value for key, value in entry["data"].items() if key not in log.received}
            with replacing(log.path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
                file.write(record(head(log.title)))
                file.writelines(record(entry) for entry in log.records)


def _number(packet: Packet) -> int:
    assert isinstance(packet.headers, _Headers)
    return packet.headers.number


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Return numbers as ranges, the highest first, as in ACK frames."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ranges[::-1]


def _add_seen_values(log: _Log) -> None:
    """Add to the records the values that hooks saw and that do not follow from the log."""
    observed = iter(log.observed)

    def corrected(call: Call) -> dict[str, float]:
        if call.hook not in log.hooks:
            return {}
        name, cause, values = next(observed)
        assert name == call.hook, f"{call.hook} where {name} was called"
        implied = call.env | {"packet": call.packet[1] if call.packet else -1}
        seen = {key: value for key, value in values.items() if value != implied[key]}
        if seen:
            log.records[cause].setdefault("ecc", {})[name] = seen
        return seen

    size = next((row["data"]["max_datagram_size"] for row in log.records if "max_datagram_size" in row["data"]), 0)
    calls = sum(call.hook in log.hooks for call in hook_calls(events(log.records), size, corrected))
    assert calls == len(log.observed)
