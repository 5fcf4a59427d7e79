"""Deviations of a controller from a reference: both see the same ACKs, and their variables are compared at each ACK."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import number_text
from ecc._support.reports import ProgressCallback, Share
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.env import Hook
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.contract.protocol import Protocol
from ecc.contract.records import named_variables, variable_value
from ecc.network.network import Network
from ecc.packet.prepare import prepare
from ecc.packet.setup import Part, Setup
from ecc.packet.twin import build_twin
from ecc.packet.twin.state import Random, Record, to_seconds
from ecc.plot.states import states_figure
from ecc.scenario import Scenario, protocol_class

__all__ = ["Deviation", "Divergence", "compare", "divergence"]

TOLERANCE = 1e-9
"""Maximum relative difference of values that count as equal."""
DRAWN, BEFORE = 3, 0.1
"""Number of variables in the figure, and the share of the run that it shows before the first deviation."""
SLICE = 1000
"""Events between two calls of `progress`."""
OUTPUTS = ("env.rate", "env.window", "pacing_rate", "congestion_window")
"""Variables that determine what the flow sends, in runs and in traces; all others are internal to a controller."""
STREAM = 2**32
"""Stream of random numbers of flow 0 in a run."""


@dataclass(frozen=True)
class Deviation:
    """The first ACK after which a variable differs: its time [s], both values, and the `hook` that was called."""

    variable: str
    time: float
    value: float
    reference: float
    hook: str


@dataclass(frozen=True)
class Divergence:
    """Result of replaying a controller's ACKs to a reference.

    `deviations`: the first deviation of each variable, in the order of time; `compared`: all compared variables; `time`
    [s], `values` and `reference_values`: those at each call of a hook, by variable; `lacking`: variables that only the
    reference has; `notes`: restrictions of the comparison, one line each.
    """

    deviations: tuple[Deviation, ...]
    compared: tuple[str, ...]
    lacking: tuple[str, ...]
    time: NDArray[np.float64]
    values: Mapping[str, NDArray[np.float64]]
    reference_values: Mapping[str, NDArray[np.float64]]
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> Deviation | None:
        """The first deviation of all, or None."""
        return self.deviations[0] if self.deviations else None

    def __str__(self) -> str:
        first = self.first
        if first is None:
            return f"no deviation in {len(self.time)} calls: {', '.join(self.compared)}"
        line = f"{first.variable} deviates first, at {first.time:.6g} s in {first.hook}: {_values(first)}"
        if first.variable in OUTPUTS or not set(OUTPUTS) & set(self.compared):
            return line
        output = next((item for item in self.deviations if item.variable in OUTPUTS), None)
        if output is None:
            return f"{line}; rates and windows do not deviate"
        return f"{line}; {output.variable} deviates at {output.time:.6g} s in {output.hook}: {_values(output)}"

    def figure(self) -> Any:
        """Return a figure of the first deviating variables of both, from shortly before the first deviation on."""
        names = [deviation.variable for deviation in self.deviations[:DRAWN]] or list(self.compared[:1])
        begin = self.first.time - BEFORE * float(self.time[-1]) if self.first is not None else 0.0
        drawn = self.time >= begin
        panels = {}
        for name in names:
            both = {name: self.values[name], f"{name}, reference": self.reference_values[name]}
            panels[name] = {
                key: np.where(np.abs(values) < 1e290, values, np.nan)[drawn] for key, values in both.items()
            }
        marks = [self.first.time] if self.first is not None else []
        return states_figure(self.time[drawn], panels, marks=marks, title="Same ACKs, two controllers")


def _values(item: Deviation) -> str:
    """Return both values of a deviation in words."""
    return f"{number_text(item.value)}, of the reference {number_text(item.reference)}"


@check_arguments
def compare(
    protocol: Protocol | str,
    reference: Protocol | str,
    scenario: Scenario | None = None,
    progress: ProgressCallback | None = None,
) -> Divergence:
    """Return the deviations of a protocol's variables from those of a reference that sees the same ACKs.

    Parameters
    ----------
    protocol, reference : Protocol or str
        Protocols of flow 0; the reference sends nothing. The comparison covers variables with the same name in both
        (`conformance_names`), and `env.rate` and `env.window`, unless the reference never sets them.
    scenario : Scenario, optional
        Scenario in which flow 0 runs the protocol; other flows, links and impairments do not change. None: a flow over
        10 Mb/s, RTT 40 ms, a buffer of 75 kB, 8 s.
    progress : callable, optional
        Called regularly with a `Progress`: the completed `share` of the run.

    Returns
    -------
    Divergence

    Raises
    ------
    ValueError
        If the reference has timers.

    Notes
    -----
    If the reference draws random numbers, it gets those of the protocol, or a separate stream if the protocol draws
    none. The engine in plain Python computes the run, about 100,000 events a second.

    Examples
    --------
    >>> compare("CUBIC", "CUBIC").first is None
    True
    """
    subject, other = (protocol_class(law)() if isinstance(law, str) else law for law in (protocol, reference))
    if scenario is None:
        network = Network.dumbbell("10 Mb/s", rtts=["40 ms"], buffer="75 kB", packet_size=1500)
        scenario = Scenario(network, subject, 8.0)
    if "on_timer" in other.flow_hooks():
        raise ValueError(f"reference must act at ACKs and losses alone, got {type(other).__name__}, which has timers")
    setup, of_reference = prepare(_with_flow_0(scenario, subject)), _part(prepare(_with_flow_0(scenario, other)))
    part = _part(setup)
    names = _common(subject, other)
    shadow = _Shadow(other, of_reference, names)
    notes: tuple[str, ...] = ()
    if "random" in other.required_env - subject.required_env:
        shadow.random = Random(scenario.seed, STREAM)
        difference = f"{type(subject).__name__} draws no random numbers, and reference {type(other).__name__} may"
        notes = (f"{difference}: the reference has a separate stream, that of flow 0",)
    parts = [replace(each, flow_hooks=_followed(each, shadow)) if each is part else each for each in setup.parts]
    engine = build_twin(replace(setup, parts=parts), seed=scenario.seed)
    while engine.advance(scenario.duration, SLICE) == "max_events":
        if progress is not None:
            progress(Share(min(to_seconds(engine.now) / scenario.duration, 1.0)))
    lacking = tuple(name for name in named_variables(other) if name not in names)
    divergence_found = shadow.divergence(lacking)
    return replace(divergence_found, notes=notes + divergence_found.notes)


def _with_flow_0(scenario: Scenario, protocol: Protocol) -> Scenario:
    """Return the scenario with another protocol for flow 0; links not named in it have the routers of all flows."""
    current = scenario.protocol
    assignment = current if isinstance(current, ProtocolAssignment) else ProtocolAssignment(current)
    return scenario.with_(protocol=assignment.with_flow(0, protocol, scenario.network.n_flows))


def _part(setup: Setup) -> Part:
    """Return the part of flow 0."""
    return next(part for part in setup.parts if 0 in part.flows)


def _common(subject: Protocol, other: Protocol) -> dict[str, tuple[str, str]]:
    """Return the common variables: name -> its fields in both."""
    of_subject, of_other = named_variables(subject), named_variables(other)
    return {name: (of_subject[name], of_other[name]) for name in of_subject if name in of_other}


class _Shadow:
    """The reference: its state, the headers that it has written, and the values of both at each call."""

    def __init__(self, protocol: Protocol, part: Part, names: Mapping[str, tuple[str, str]]) -> None:
        self.hooks, self.names = flow_hooks_of(protocol), names
        self.state: Any = Record.of(part.flow_states[0])
        self.params: Any = Record.of(part.flow_params[0])
        self.header = part.header
        self.rate: float | None = None
        self.window: float | None = None
        self.random: Random | None = (
            None  # separate stream; None: the reference gets the numbers that the protocol draws
        )
        self.rows: list[tuple[float, ...]] = []
        self.called: list[str] = []

    def call(self, name: str, header: Any, env: Any, before: Any, state: Any) -> None:
        """Call the reference's hook with the arguments of the protocol's hook, and record the values of both."""
        if self.rate is not None:
            before.rate, before.window = self.rate, self.window
        if name in self.hooks:
            if self.random is not None:
                before.random = self.random.next()
            header_of_reference = header.__dict__.setdefault("_of_reference", Record(self.header))
            self.hooks[name](self.state, header_of_reference, self.params, before)
        if name == "on_receive":
            return
        self.rate, self.window = before.rate, before.window
        self.rows.append(
            (
                env.now,
                env.rate,
                env.window,
                before.rate,
                before.window,
                *(variable_value(state, variable) for variable, _ in self.names.values()),
                *(variable_value(self.state, variable) for _, variable in self.names.values()),
            )
        )
        self.called.append(name)

    def divergence(self, lacking: tuple[str, ...]) -> Divergence:
        """Return the first difference of each variable."""
        table, n = np.array(self.rows), len(self.names)
        columns = {"env.rate": (table[:, 1], table[:, 3]), "env.window": (table[:, 2], table[:, 4])}
        unset = [
            name
            for name, (values, reference) in columns.items()
            if not (reference > 0.0).any() and (values > 0.0).any()
        ]
        for name in unset:
            del columns[name]
        for k, name in enumerate(self.names):
            columns[name] = (table[:, 5 + k], table[:, 5 + n + k])
        notes = tuple(f"{name} is not compared, because the reference sets none" for name in unset)
        return replace(divergence(table[:, 0], self.called, columns, lacking), notes=notes)


def divergence(
    time: NDArray[np.float64],
    called: Sequence[str],
    columns: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    lacking: tuple[str, ...],
    tolerance: float = TOLERANCE,
    allowed: Mapping[str, float] | None = None,
) -> Divergence:
    """Return the first difference of each variable.

    Parameters
    ----------
    time : ndarray, shape (n_calls,), s
    called : sequence of str
        Hook that was called at each time.
    columns : mapping
        Variable -> its values and the reference's, each of shape (n_calls,); NaN: unknown.
    lacking : tuple of str
        Variables that only the reference has.
    tolerance : float, optional
        Relative difference up to which values count as equal.
    allowed : mapping, optional
        Variable -> difference that is allowed in addition to the relative one.
    """
    deviations = []
    for name, (values, reference) in columns.items():
        scale = np.maximum(np.abs(values), np.abs(reference))
        off = np.flatnonzero(np.abs(values - reference) > tolerance * scale + (allowed or {}).get(name, 0.0))
        if len(off):
            k = int(off[0])
            deviations.append((k, Deviation(name, float(time[k]), float(values[k]), float(reference[k]), called[k])))
    order = tuple(deviation for _, deviation in sorted(deviations, key=lambda item: item[0]))
    all_values, all_references = ({name: both[side] for name, both in columns.items()} for side in (0, 1))
    return Divergence(order, tuple(all_values), lacking, time, all_values, all_references)


def _followed(part: Part, shadow: _Shadow) -> dict[str, Hook]:
    """Return the hooks of a part's flows; for flow 0 the reference's hook follows each."""
    hooks = part.flow_hooks

    def both(name: str) -> Callable[[Any, Any, Any, Any], None]:
        def call(state: Any, header: Any, params: Any, env: Any) -> None:
            before = copy.copy(env)
            if name in hooks:
                hooks[name](state, header, params, env)
            if env.flow == 0:
                shadow.call(name, header, env, before, state)

        return call

    called = [*hooks, *(name for name in shadow.hooks if name not in hooks)]
    return {name: both(name) for name in called}
