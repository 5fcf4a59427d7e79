"""Comparison of a trace from any stack with a reference that sees the same ACKs and losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import as_number
from ecc.conform.deviation import Divergence, divergence
from ecc.contract.choices import TRANSPORTS
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.contract.protocol import Protocol
from ecc.contract.records import named_variables, variable_value
from ecc.formats.qlog import Trace, read
from ecc.native import FLOW_ENV
from ecc.network.network import Network
from ecc.packet.prepare import prepare
from ecc.packet.twin.hook_calls import Call, hook_calls
from ecc.packet.twin.state import Random, Record
from ecc.scenario import Scenario, protocol_class

__all__ = ["replay"]

TOLERANCE = 0.01
ROUNDING = 1.0
"""Allowed difference of values that qlog rounds to integers (bytes, bit/s)."""
SEED, STREAM = 0, 2**32
HOOKS = {"on_start", "on_send", "on_receive", "on_ack", "on_loss", "on_restart", "on_stop"}
METRICS = {"congestion_window": "window", "pacing_rate": "rate"}
"""Metrics that hooks set in `env` -> fields of `env`."""


@check_arguments
def replay(reference: Protocol | str, trace: Trace | str | Path, tolerance: float = TOLERANCE) -> Divergence:
    """Return the deviations of the window, pacing rate and other variables of a trace from those of a reference.

    The reference sends nothing: its hooks are called with the packets, ACKs and losses of the trace (docs/qlog.md).
    After each ACK, loss and start its values are compared with the values in the trace.

    Parameters
    ----------
    reference : Protocol or str
        Protocol or its name, for example "CUBIC". If it does not specify its first window (`initial`), it gets that of
        the trace.
    trace : Trace, or str or Path
        Result of `ecc.qlog.read`, or a file in qlog format.
    tolerance : float, >= 0, optional
        Relative difference up to which values count as equal; volumes and rates may also differ by 1 byte or bit/s.

    Returns
    -------
    Divergence
        Deviations of `congestion_window`, `pacing_rate`, and the variables of the reference that metrics of the trace
        name.

    Raises
    ------
    ValueError
        If the file is not qlog or has a bad record (`ecc.qlog.read`), if the trace has no ACKs or windows, or if the
        reference has timers or routers, or fails on the trace.
    OSError
        If the file cannot be read.

    Notes
    -----
    If the reference sets no pacing rate, or no window, this metric is not compared, and a note reports it. For example,
    paced CUBIC or NewReno (RFC 9002 sec. 7.7) is compared by its windows. The reference draws separate random numbers,
    unless the trace has them, as traces of `ecc` do.

    Examples
    --------
    >>> replay("CUBIC", "examples/cubic.sqlog").first is None  # doctest: +SKIP
    True
    """
    law = protocol_class(reference)() if isinstance(reference, str) else reference
    allowed = as_number(tolerance, "tolerance")
    if allowed < 0.0:
        raise ValueError(f"tolerance must be >= 0, got {tolerance:g}")
    name = type(law).__name__
    if unfit := sorted(set(law.flow_hooks()) - HOOKS):
        raise ValueError(f"reference must act at ACKs and losses alone, got {name}, which has {unfit[0]}")
    if law.link_hooks():
        raise ValueError(f"reference must act at ACKs and losses alone, got {name}, which has routers")
    log = trace if isinstance(trace, Trace) else read(trace)
    if log.packet_size < 1:
        raise ValueError("trace must have packets of at least a byte")
    law = _begun(law, log)
    shadow = _Shadow(law, log)
    for call in hook_calls(log.events, log.packet_size):
        shadow.take(call)
    if not shadow.called.count("on_ack"):
        raise ValueError("trace must have packets that are sent and acknowledged, got no ACK of one")
    if not shadow.compared:
        raise ValueError(f"trace must have a variable of {name} in its metrics, such as congestion_window")
    return shadow.divergence(allowed)


def _begun(law: Protocol, log: Trace) -> Protocol:
    """Return the reference with the trace's first window, if it does not specify one."""
    opens = any(field.name == "initial" for field in fields(law)) and getattr(law, "initial", 0) is None
    if not opens or log.initial_window is None or log.initial_window <= 0.0:
        return law
    initial: Any = {"initial": log.initial_window / log.packet_size}
    return replace(law, **initial)


class _Shadow:
    """The reference, headers of packets, and the values of both after each ACK and loss."""

    def __init__(self, law: Protocol, log: Trace) -> None:
        self.hooks, self.name = flow_hooks_of(law), type(law).__name__
        network = Network.dumbbell(1e7, rtts=[0.1], packet_size=log.packet_size)
        part = prepare(Scenario(network, law, 1.0)).parts[0]
        self.state: Any = Record.of(part.flow_states[0])
        self.params: Any = Record.of(part.flow_params[0])
        self.header = part.header
        self.headers: dict[tuple[str, int] | None, Any] = {}
        self.rate, self.window = 0.0, 0.0
        self.transport = TRANSPORTS.index(law.transport)
        self.random = Random(SEED, STREAM)
        self.variables = named_variables(law)
        self.known = [*METRICS, *(name for name in self.variables if name not in ("min_rtt", *METRICS))]
        self.times: list[float] = []
        self.called: list[str] = []
        self.first: str | None = None  # hook that an event called
        self.rows: list[list[float]] = []
        self.reference_rows: list[list[float]] = []
        self.in_trace: set[str] = set()  # variables with a value in some row
        self.positive: set[str] = set()  # variables that the reference has set above 0

    @property
    def logged(self) -> list[str]:
        """Variables that the trace has."""
        return [name for name in self.known if name in self.in_trace]

    @property
    def unset(self) -> list[str]:
        """Windows and pacing rates that the trace has, and the reference never sets."""
        return [name for name in self.logged if name in METRICS and name not in self.positive]

    @property
    def compared(self) -> list[str]:
        """Variables of the trace that the reference has too."""
        unset = self.unset
        return [name for name in self.logged if name not in unset]

    def take(self, call: Call) -> None:
        """Call the reference's hook."""
        for packet, size in call.arrived:
            self.call("on_receive", call, packet, {"packet_size": size, "acked": 0, "marked": 0, "ece": 0})
        self.call(call.hook, call, call.packet, {})
        self.first = self.first or call.hook
        if call.is_last:
            hook, self.first = self.first, None
            if hook == "on_send":
                return
            self.times.append(call.env["now"])
            self.called.append(hook)
            self.rows.append([call.metrics.get(name, np.nan) for name in self.known])
            values = {"congestion_window": self.window, "pacing_rate": self.rate}
            self.reference_rows.append(
                [
                    values[name] if name in values else variable_value(self.state, self.variables[name])
                    for name in self.known
                ]
            )
            for name, logged, value in zip(self.known, self.rows[-1], self.reference_rows[-1], strict=True):
                if logged == logged:
                    self.in_trace.add(name)
                if value > 0.0:
                    self.positive.add(name)

    def call(self, hook: str, call: Call, packet: tuple[str, int] | None, values: Mapping[str, float]) -> None:
        if hook not in self.hooks:
            return
        controls = {"rate": self.rate, "window": self.window, "transport": self.transport}
        env: Any = Record(FLOW_ENV, {**call.env, **values, **controls})
        if env.random < 0.0:
            env.random = self.random.next()
        header = self.headers.setdefault(packet, Record(self.header))
        try:
            self.hooks[hook](self.state, header, self.params, env)
        except Exception as error:
            raise ValueError(
                f"reference must run on the trace, got {type(error).__name__}: {error} "
                f"({self.name}, {hook}, t = {env.now:.6g} s, record {call.event.record})"
            ) from None
        for field in ("rate", "window"):
            value = getattr(env, field)
            if not (np.isfinite(value) and value >= 0.0):
                raise ValueError(f"reference must set a {field} >= 0, got {shown(value)} ({self.name}, {hook})")
        if hook != "on_receive":
            self.rate, self.window = env.rate, env.window

    def divergence(self, tolerance: float) -> Divergence:
        rows, reference = np.array(self.rows), np.array(self.reference_rows)
        reference[np.abs(reference) > 1e290] = np.nan
        columns: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {
            name: (rows[:, k], reference[:, k]) for k, name in enumerate(self.known) if name in self.compared
        }
        lacking = tuple(name for name in self.known if name not in columns and name not in self.unset)
        rounding = {name: ROUNDING for name in ("ssthresh", *METRICS)}
        notes = tuple(f"{name} of the trace is not compared, because {self.name} sets none" for name in self.unset)
        result = divergence(np.array(self.times), self.called, columns, lacking, tolerance, rounding)
        return replace(result, notes=notes)
