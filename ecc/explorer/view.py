"""The state of a view: protocols, network and parameters, and the Python lines that reproduce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf, isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from ecc._support.arguments import nearest, shown
from ecc._support.quantity import as_choice, as_count, as_delay, as_number, as_rate, as_size
from ecc.contract.assignment import (
    ProtocolAssignment,
    parameter_names,
    parameter_value,
    read_protocol,
    with_parameters,
)
from ecc.contract.parameters import settings
from ecc.contract.protocol import Protocol
from ecc.errors import EccError
from ecc.explorer.explanations import explanations
from ecc.linear import DelaySystem, SampledSystem
from ecc.models import all_protocols
from ecc.network.network import Network
from ecc.queues import all_disciplines
from ecc.scenario import Scenario, protocol_class
from ecc.stability import reference_case
from ecc.stability.checked import linearize

__all__ = [
    "MAX_FLOWS",
    "MAX_PACKETS",
    "MAX_RTTS",
    "TIMES",
    "Slider",
    "View",
    "disciplines",
    "reference_view",
    "view_of",
]

TIMES = ("continuous", "discrete", "hybrid")
"""Times of linear models."""
MAX_FLOWS = 64
"""Maximum number of flows of a view."""
MAX_RTTS = 8
"""Maximum number of different RTTs of a view."""
MAX_DURATION = 2000.0
"""Maximum duration of runs in RTTs."""
MAX_PACKETS = 5e6
"""Maximum number of packets that a link can send in a run of a view, about a second of work."""
_USUAL_PACKETS = 150_000  # packets of a run of usual duration
_RTT_RATIO = 1000.0  # maximum ratio of the longest RTT to the shortest
_RATES, _TIMES, _SIZES = (1e4, 1e12), (1e-6, 10.0), (100, 10**10)  # bit/s, s, bytes
_DECADE = 10.0  # sliders extend by this factor to either side of the value
_HALVINGS = 30  # bisections for the end of the values that a protocol accepts
_ECN = ("ecn", "mark")  # parameters of hosts and disciplines
_RECOVERY = (
    "L", "initial", "initial_rto", "lost_retransmission", "min_rto", "packet_size", "pacing", "receiver_window",
    "search_threshold", "floor", "tolerance", "segment", "mouse_size", "basic_rate", "line_rate", "patience", "taps",
    "report_size", "frames", "key_every", "key_factor", "noise", "headroom", "slots", "quanta",
)  # fmt: skip
"""Parameters of starts, loss recovery and pacing, whose sliders are folded."""


@dataclass(frozen=True)
class Slider:
    """A numeric parameter with the range of its slider, which is logarithmic.

    `name` is that of `parameter_names`, for example "alpha" or "links.beta"; `minimum` and `maximum` are a decade below
    and above the value, as far as the protocol accepts them; `is_main` is False for parameters of starts and
    loss recovery. `unit` and `explanation` are those of the protocol's docstring, or "".
    """

    name: str
    value: float
    minimum: float
    maximum: float
    is_main: bool
    unit: str = ""
    explanation: str = ""


@dataclass(frozen=True)
class View:
    """Protocols, a network and parameters that are shown together.

    Parameters
    ----------
    protocol : str
        Name of a protocol in `ecc.models`, for example "PIQIRCP".
    second : str
        Name of the protocol of every second flow, for example "CUBIC" next to "BBR". "": all flows have `protocol`.
    discipline : str
        Name of a queue discipline in `ecc.queues`, for example "PI2". "": the routers of the protocol, or a drop-tail
        queue.
    marks : bool
        Whether hosts use ECN, and the discipline marks instead of dropping.
    parameters : mapping
        Name -> value of parameters that differ from their defaults, as in `ecc.stability.stability_map`: "alpha", or
        "flows.beta" and "links.alpha" over a queue discipline.
    capacity : float, bit/s
        Capacity of the bottleneck, for example 100e6 or "100 Mb/s".
    rtts : sequence of float, s
        RTTs, which flows have in turn, for example (0.1, 0.3).
    flows : int
        Number of flows.
    buffer : int, bytes, or None
        Buffer of the bottleneck; None: unlimited.
    packet_size : int, bytes
        Size of packets.
    time : str
        Time of the linear model: "continuous", "discrete" or "hybrid". "": the first one that the protocol declares.
    duration : float, RTTs
        Duration of runs in multiples of the longest RTT.
    scenario : Scenario or None
        Scenario with other networks or protocols, whose parameters alone can be changed.

    Raises
    ------
    ValueError, TypeError
        A field out of range, in one line.

    Examples
    --------
    >>> view = View("QIRCP", rtts=("100 ms",))
    >>> view.linear().is_stable
    True
    >>> print(view.code().splitlines()[-1])
    system = ecc.linearize(protocol, network, time="continuous")
    """

    protocol: str = "PIQIRCP"
    second: str = ""
    discipline: str = ""
    marks: bool = False
    parameters: Mapping[str, float] = field(default_factory=dict)
    capacity: Any = 100e6
    rtts: Sequence[Any] = (0.1, 0.1)
    flows: int = 2
    buffer: Any = None
    packet_size: int = 1000
    time: str = ""
    duration: float = 100.0
    scenario: Scenario | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._check_names()
        self._check_network()
        self._check_parameters()
        self._check_runs()

    def _check_names(self) -> None:
        for name, known in (("protocol", all_protocols()), ("second", all_protocols()), ("discipline", disciplines())):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {shown(value)}")
            if value not in known and (value or name == "protocol"):
                hint = nearest(value, dict.fromkeys(known, ""))
                raise ValueError(f"{name} must be a name in ecc.{_ROOMS[name]}, got {shown(value)}{hint}")
        as_choice(self.marks, "marks", (False, True))
        as_choice(self.time, "time", ("", *TIMES))

    def _check_network(self) -> None:
        capacity = _within(as_rate(self.capacity, "capacity"), "capacity", *_RATES, "bit/s")
        if isinstance(self.rtts, str) or not isinstance(self.rtts, Sequence):
            raise TypeError(f"rtts must be a sequence of times, got {shown(self.rtts)}")
        if not 1 <= len(self.rtts) <= MAX_RTTS:
            raise ValueError(f"rtts must be 1 to {MAX_RTTS} times, got {len(self.rtts)}")
        rtts = tuple(_within(as_delay(rtt, "rtts"), "rtts", *_TIMES, "s") for rtt in self.rtts)
        if max(rtts) > _RTT_RATIO * min(rtts):
            raise ValueError(f"rtts must differ by a factor of at most {_RTT_RATIO:g}, got {max(rtts) / min(rtts):.4g}")
        flows = as_count(self.flows, "flows", minimum=1)
        if flows > MAX_FLOWS:
            raise ValueError(f"flows must be 1 to {MAX_FLOWS}, got {flows}")
        size = as_count(self.packet_size, "packet_size", minimum=1)
        _within(size, "packet_size", 40, 64_000, "bytes")
        values: dict[str, Any] = {"capacity": capacity, "rtts": rtts, "flows": flows, "packet_size": size}
        if self.buffer is not None:
            values["buffer"] = int(_within(as_size(self.buffer, "buffer"), "buffer", *_SIZES, "bytes"))
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_parameters(self) -> None:
        if not isinstance(self.parameters, Mapping):
            raise TypeError(f"parameters must be a mapping of names to numbers, got {shown(self.parameters)}")
        defaults = self._defaults
        known = parameter_names(defaults)
        for name, value in self.parameters.items():
            if name not in known:
                raise ValueError(f"parameters must be among {', '.join(known)}, got {shown(name)}")
            as_number(value, name)
        values = MappingProxyType({name: float(value) for name, value in self.parameters.items()})
        object.__setattr__(self, "parameters", values)
        object.__setattr__(self, "_changed", with_parameters(defaults, values) if values else defaults)

    def _check_runs(self) -> None:
        duration = as_number(self.duration, "duration", positive=True)
        object.__setattr__(self, "duration", _within(duration, "duration", 1.0, MAX_DURATION, "RTTs"))
        if self.scenario is not None:
            return
        packets = self.capacity * self.duration * max(self.rtts) / (8.0 * self.packet_size)
        if packets > MAX_PACKETS:
            allowed = self.duration * MAX_PACKETS / packets
            raise ValueError(
                f"duration must be <= {allowed:.3g} RTTs at this capacity and RTT ({MAX_PACKETS:g} packets), got "
                f"{self.duration:g}"
            )

    @cached_property
    def _defaults(self) -> Protocol | ProtocolAssignment:
        """The protocols without changed parameters."""
        if self.scenario is not None:
            return read_protocol(self.scenario.protocol)
        first = _made(all_protocols()[self.protocol], self.marks)
        hosts: Any = first
        if self.second and self.second != self.protocol and self.flows > 1:
            second = _made(all_protocols()[self.second], self.marks)
            hosts = {flow: second if flow % 2 else first for flow in range(self.flows)}
        if not self.discipline:
            return first if hosts is first else ProtocolAssignment(hosts)
        return ProtocolAssignment(hosts, _made(all_disciplines()[self.discipline], self.marks, self.packet_size))

    @property
    def can_mark(self) -> bool:
        """True if hosts or the discipline have a choice of ECN, so that `marks` changes them."""
        kinds = [kind for kind in (all_protocols().get(self.second), all_disciplines().get(self.discipline)) if kind]
        return any(part.name in _ECN for kind in (all_protocols()[self.protocol], *kinds) for part in fields(kind))

    @property
    def loop(self) -> Protocol | ProtocolAssignment:
        """The protocols with the parameters of the view."""
        changed: Protocol | ProtocolAssignment = self.__dict__["_changed"]
        return changed

    @cached_property
    def network(self) -> Network:
        """The network: one link, and flows with the RTTs in turn."""
        if self.scenario is not None:
            return self.scenario.network
        return Network.dumbbell(self.capacity, self._all_rtts(), self.buffer, packet_size=self.packet_size)

    @cached_property
    def run(self) -> Scenario:
        """The scenario of the runs."""
        if self.scenario is not None:
            return replace(self.scenario, protocol=self.loop)
        return Scenario(self.network, self.loop, self.duration * max(self.rtts))

    @property
    def model_time(self) -> str:
        """The time of the linear model: `time`, or the first one that the protocol declares."""
        return self.time or next(iter(self.loop.times), "") or "continuous"

    def linear(self) -> DelaySystem | SampledSystem:
        """Return the linear model of the view."""
        return linearize(self.loop, self.network, self.model_time)

    @property
    def main_parameter(self) -> str:
        """The parameter of stability limits: that of the protocol, or the first slider of the discipline or hosts."""
        if self.loop.main_parameter:
            return self.loop.main_parameter
        names = [slider.name for slider in self.sliders if slider.is_main]
        preferred = [name for name in names if name in ("links.beta", "links.alpha", "flows.g")]
        return next(iter(preferred or names), "")

    @cached_property
    def sliders(self) -> tuple[Slider, ...]:
        """The numeric parameters with the ranges of their sliders; parameters that are 0 or undefined are left out."""
        return tuple(filter(None, (self._slider(name) for name in parameter_names(self._defaults))))

    def _slider(self, name: str) -> Slider | None:
        value = parameter_value(self.loop, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 < value < inf:
            return None
        low, high = (_last_accepted(self.loop, name, float(value), factor) for factor in (1 / _DECADE, _DECADE))
        if not low < high:
            return None
        half, _, short = name.rpartition(".")
        unit, explanation = self._explained(half, short)
        return Slider(name, float(value), low, high, short not in _RECOVERY, unit, explanation)

    def _explained(self, half: str, name: str) -> tuple[str, str]:
        """Return the unit and the explanation of a parameter of the protocol, or of the first one of a half with it."""
        loop = self.loop
        parts = [loop] if isinstance(loop, Protocol) else [part for place, part in loop.halves if place == half]
        known = (explanations(type(part)).get(name) for part in parts)
        return next(filter(None, known), ("", ""))

    def _all_rtts(self) -> list[float]:
        return [self.rtts[flow % len(self.rtts)] for flow in range(self.flows)]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, without the scenario."""
        values = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "scenario"}
        return values | {"parameters": dict(self.parameters), "rtts": list(self.rtts)}

    @classmethod
    def from_dict(cls, data: Any, scenario: Scenario | None = None) -> View:
        """Return the view of plain values, which may come from a request.

        Parameters
        ----------
        data : mapping
            Values from `to_dict`; missing fields have their defaults.
        scenario : Scenario, optional
            Scenario of the view.
        """
        if not isinstance(data, dict):
            raise TypeError(f"view must be an object, got {shown(data)}")
        known = [part.name for part in fields(cls) if part.name != "scenario"]
        for name in data:
            if name not in known:
                raise ValueError(f"view must have fields among {', '.join(known)}, got {shown(name)}")
        return cls(**data, scenario=scenario)

    def code(self) -> str:
        """Return Python lines that reproduce the view: protocol, network, scenario, runs and linear model."""
        if self.scenario is not None:
            return self._code_of_scenario()
        network = f"ecc.Network.dumbbell({self.capacity!r}, rtts={self._rtts_code()}"
        network += "" if self.buffer is None else f", buffer={self.buffer}"
        network += f", packet_size={self.packet_size})"
        return "\n".join(
            [
                "import ecc",
                "from ecc.models import " + ", ".join(sorted({self.protocol, self.second} - {""})),
                *([f"from ecc.queues import {self.discipline}"] if self.discipline else []),
                "",
                f"network = {network}",
                f"protocol = {self._protocol_code()}",
                f"scenario = ecc.Scenario(network, protocol, duration={self.run.duration!r})",
                *self._analysis_code(),
            ]
        )

    def _rtts_code(self) -> str:
        if self.flows % len(self.rtts):
            return repr(self._all_rtts())
        repeats = self.flows // len(self.rtts)
        return repr(list(self.rtts)) + (f" * {repeats}" if repeats > 1 else "")

    def _protocol_code(self) -> str:
        if isinstance(self.loop, Protocol):
            return _call_code(self.loop)
        halves = {half: [part for where, part in self.loop.halves if where == half] for half in ("flows", "links")}
        hosts = halves["flows"]
        code = _call_code(hosts[0])
        if len({type(host) for host in hosts}) > 1:
            second = next(host for host in hosts if type(host) is not type(hosts[0]))
            code = "{" + f"flow: {_call_code(second)} if flow % 2 else {code} for flow in range({self.flows})" + "}"
        links = f', "links": {_call_code(halves["links"][0])}' if self.discipline else ""
        return "{" + f'"flows": {code}{links}' + "}"

    def _code_of_scenario(self) -> str:
        try:
            text = self.run.to_toml()
        except EccError as error:
            raise ValueError(f"this view has no code, since its scenario has no file: {error}") from None
        return "\n".join(
            [
                "import tempfile",
                "from pathlib import Path",
                "",
                "import ecc",
                "",
                f"text = {text!r}",
                'path = Path(tempfile.mkdtemp(), "scenario.toml")',
                "path.write_text(text)",
                "scenario = ecc.Scenario.from_toml(path)",
                "network, protocol = scenario.network, scenario.protocol",
                *self._analysis_code(),
            ]
        )

    def _analysis_code(self) -> list[str]:
        lines = ['run = ecc.simulate(scenario, "packet")']
        try:
            self.linear()
        except (ValueError, EccError):
            return lines
        return [*lines, f'system = ecc.linearize(protocol, network, time="{self.model_time}")']


_ROOMS = {"protocol": "models", "second": "models", "discipline": "queues"}


def disciplines() -> dict[str, type[Protocol]]:
    """Return the disciplines that need no sub-queues: those of one queue for all flows."""
    return {name: kind for name, kind in all_disciplines().items() if name not in ("StrictPriority", "DRR")}


def _made(kind: type[Protocol], marks: bool, packet_size: int | None = None) -> Protocol:
    """Return a protocol with its defaults, the choice of ECN, and the packet size of a discipline."""
    names = {part.name: part for part in fields(kind) if part.init}
    values: dict[str, Any] = {name: marks for name in _ECN if marks and name in names}
    if packet_size is not None and "packet_size" in names:
        values["packet_size"] = float(packet_size)
    return kind(**values)


def _within(value: float, name: str, low: float, high: float, unit: str) -> float:
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low:g} to {high:g} {unit}, got {value:g}")
    return value


def _last_accepted(loop: Any, name: str, value: float, factor: float) -> float:
    """Return the number furthest from a value, up to a factor, that the protocol accepts; by bisection."""
    if _accepts(loop, name, value * factor):
        return float(f"{value * factor:.6g}")
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _accepts(loop, name, value * factor**middle) else (low, middle)
    # A limit may be open: the next number of three digits on the side of the value.
    end = value * factor**low
    inside = (float(f"{end * (1.0 + shift * np.sign(1.0 - factor)):.3g}") for shift in (0.0, 1e-3, 2e-3))
    return next((number for number in inside if _accepts(loop, name, number)), value)


def _accepts(loop: Any, name: str, value: float) -> bool:
    try:
        with_parameters(loop, {name: value})
    except (ValueError, TypeError):
        return False
    return True


def _call_code(protocol: Protocol) -> str:
    changed = settings(protocol)
    return f"{type(protocol).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def reference_view(protocol: str, second: str = "", discipline: str | None = None) -> View:
    """Return a protocol on the network of its reference loop, with few enough flows and packets for a view.

    Parameters
    ----------
    protocol : str
        Name of a protocol, for example "DCTCP".
    second : str, optional
        Name of the protocol of every second flow.
    discipline : str, optional
        Name of a queue discipline. None: that of the reference loop.
    """
    View(protocol, second, discipline or "")  # refuses unknown names in one line
    loop, network = reference_case(all_protocols()[protocol]())
    halves = getattr(loop, "halves", ())
    queue = next((part for half, part in halves if half == "links"), None)
    parameters: dict[str, float] = {}
    if discipline is None and queue is not None:
        changed = {name: value for name, value in settings(queue).items() if name in parameter_names(queue)}
        parameters = {f"links.{name}": float(value) for name, value in changed.items() if name != "packet_size"}
    chosen = (type(queue).__name__ if queue is not None else "") if discipline is None else discipline
    rtts = _pattern(network)[:MAX_RTTS]
    flows = min(max(network.n_flows, 2), MAX_FLOWS)
    buffer = network.links[0].buffer
    packet_size = int(network.flows[0].largest_packet)
    capacity = float(network.capacities[0])
    return View(
        protocol,
        second,
        chosen,
        parameters=parameters,
        capacity=capacity,
        rtts=rtts,
        flows=flows,
        buffer=None if buffer is None or not isfinite(float(buffer)) else int(buffer),
        packet_size=packet_size,
        duration=_affordable(capacity, max(rtts), packet_size),
    )


def _pattern(network: Network) -> tuple[float, ...]:
    """Return the shortest sequence of RTTs that flows have in turn."""
    rtts = tuple(float(f"{rtt:.12g}") for rtt in network.rtts)
    period = next(n for n in range(1, len(rtts) + 1) if all(rtts[k] == rtts[k % n] for k in range(len(rtts))))
    return rtts[:period]


def _affordable(capacity: float, rtt: float, packet_size: int) -> float:
    """Return a duration in RTTs: 200, or fewer for runs of more than 150,000 packets, which take about 30 ms."""
    return float(np.clip(np.floor(_USUAL_PACKETS * 8.0 * packet_size / (capacity * rtt)), 1.0, 200.0))


def view_of(
    protocol: Any, network: Network | None = None, duration: float | None = None, rtts: Sequence[Any] = ()
) -> View:
    """Return the view of a protocol or pair on a network; of other networks and protocols, that of a scenario.

    Parameters
    ----------
    protocol : str, Protocol, ProtocolAssignment or mapping
        Name or protocol; hosts and queue disciplines, {"flows": ..., "links": ...}.
    network : Network, optional
        None: the network of the reference loop.
    duration : float, s, optional
        Duration of runs. None: 200 of the longest RTT, or fewer for runs of many packets.
    rtts : sequence of float, s, optional
        RTTs of flows, instead of those of the reference loop.
    """
    loop = protocol_class(protocol)() if isinstance(protocol, str) else read_protocol(protocol)
    if network is None:
        loop, network = reference_case(loop)
        if rtts:
            times = list(rtts) * (2 if len(rtts) == 1 else 1)
            packet_size = int(network.flows[0].largest_packet)
            network = Network.dumbbell(float(network.capacities[0]), times, packet_size=packet_size)
    longest = float(max(network.rtts))
    usual = _affordable(float(max(network.capacities)), longest, int(network.flows[0].largest_packet))
    length = usual if duration is None else min(max(duration / longest, 1.0), MAX_DURATION)
    for marks in (False, True):
        view = _plain_view(loop, network, marks, length)
        if view is not None:
            return view
    return View(scenario=Scenario(network, loop, duration or length * longest), duration=length)


def _plain_view(loop: Any, network: Network, marks: bool, duration: float) -> View | None:
    """Return the view of protocols and a network; None if its fields, without a scenario, cannot express them."""
    halves = getattr(loop, "halves", (("flows", loop),))
    hosts = [part for half, part in halves if half == "flows"]
    queues = [part for half, part in halves if half == "links"]
    if network.n_links != 1 or len(hosts) != 1 or len(queues) > 1:
        return None
    parameters: dict[str, float] = {}
    for prefix, part in (("flows.", hosts[0]), ("links.", queues[0])) if queues else (("", hosts[0]),):
        changed = settings(part)
        numeric = {name: value for name, value in changed.items() if name in parameter_names(part)}
        parameters |= {prefix + name: float(value) for name, value in numeric.items() if name != "packet_size"}
    try:
        view = View(
            type(hosts[0]).__name__,
            "",
            type(queues[0]).__name__ if queues else "",
            marks,
            parameters,
            float(network.capacities[0]),
            _pattern(network),
            network.n_flows,
            network.links[0].buffer,
            int(network.flows[0].largest_packet),
            duration=duration,
        )
    except (ValueError, TypeError):
        return None
    return view if view.loop == loop and view.network == network else None
