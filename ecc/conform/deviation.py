"""Where a controller leaves a reference: both are fed with the same ACKs, and their variables are compared at each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import number_text
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
"""Largest relative difference of values that are the same."""
DRAWN, BEFORE = 3, 0.1
"""Variables in the figure, and the share of the run that it has before the first deviation."""
SLICE = 1000
"""Events between two calls of `progress`."""
STREAM = 2**32
"""Of random numbers, of flow 0 in a run."""


@dataclass(frozen=True)
class Deviation:
    """The first ACK after which a variable differs: when [s], and both values; `hook`: which hook was called."""

    variable: str
    time: float
    value: float
    reference: float
    hook: str


@dataclass(frozen=True)
class Divergence:
    """What replaying a controller's ACKs to a reference shows.

    `deviations`: the first of each variable, in the order of time; `compared`: all variables; `time` [s], `values` and
    `reference_values`: those of each call of a hook, by variable; `lacking`: variables of the reference that the
    controller has not; `notes`: what a reader must know, one line each.
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
        """The first of all, or None."""
        return self.deviations[0] if self.deviations else None

    def __str__(self) -> str:
        first = self.first
        if first is None:
            return f"no deviation in {len(self.time)} calls: {', '.join(self.compared)}"
        values = f"{number_text(first.value)}, of the reference {number_text(first.reference)}"
        return f"{first.variable} deviates first, at {first.time:.6g} s in {first.hook}: {values}"

    def figure(self) -> Any:
        """Return the first variables that deviate, of both, from shortly before the first deviation on."""
        names = [one.variable for one in self.deviations[:DRAWN]] or list(self.compared[:1])
        begin = self.first.time - BEFORE * float(self.time[-1]) if self.first is not None else 0.0
        drawn = self.time >= begin
        panels = {}
        for name in names:
            both = {name: self.values[name], f"{name}, reference": self.reference_values[name]}
            panels[name] = {key: np.where(np.abs(one) < 1e290, one, np.nan)[drawn] for key, one in both.items()}
        marks = [self.first.time] if self.first is not None else []
        return states_figure(self.time[drawn], panels, marks=marks, title="Same ACKs, two controllers")


@check_arguments
def compare(
    protocol: Protocol | str,
    reference: Protocol | str,
    scenario: Scenario | None = None,
    progress: Callable[[float], None] | None = None,
) -> Divergence:
    """Return where a protocol's variables leave those of a reference that sees the same ACKs.

    Parameters
    ----------
    protocol, reference : Protocol or str
        Of flow 0; the reference sends nothing. Variables are compared that both have by name (`conformance_names`),
        and `env.rate` and `env.window`, unless the reference never sets them.
    scenario : Scenario, optional
        Whose flow 0 runs the protocol in place of its own; other flows, links and impairments are as they are there.
        None: a flow over 10 Mb/s, RTT 40 ms, a buffer of 75 kB, 8 s.
    progress : callable, optional
        Called as progress(share), now and then, with the share of the run that is done, from 0 to 1.

    Returns
    -------
    Divergence

    Raises
    ------
    ValueError
        A reference that acts by timers.

    Notes
    -----
    A reference that draws random numbers is given those of the protocol, or has its own where the protocol draws none.
    Made by the engine in plain Python, some 100,000 events a second.

    Examples
    --------
    >>> compare("CUBIC", "CUBIC").first is None
    True
    """
    subject, other = (protocol_class(one)() if isinstance(one, str) else one for one in (protocol, reference))
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
        whose = f"{type(subject).__name__} draws no random numbers, and reference {type(other).__name__} may"
        notes = (f"{whose}: the reference has a stream of its own, that of flow 0",)
    parts = [replace(one, flow_hooks=_followed(one, shadow)) if one is part else one for one in setup.parts]
    engine = build_twin(replace(setup, parts=parts), seed=scenario.seed)
    while engine.advance(scenario.duration, SLICE) == "max_events":
        if progress is not None:
            progress(min(to_seconds(engine.now) / scenario.duration, 1.0))
    lacking = tuple(name for name in named_variables(other) if name not in names)
    found = shadow.divergence(lacking)
    return replace(found, notes=notes + found.notes)


def _with_flow_0(scenario: Scenario, protocol: Protocol) -> Scenario:
    """The scenario in which flow 0 runs another protocol; links that it does not name have the routers of all flows."""
    given = scenario.protocol
    others = given if isinstance(given, ProtocolAssignment) else ProtocolAssignment(given)
    return scenario.with_(protocol=others.with_flow(0, protocol, scenario.network.n_flows))


def _part(setup: Setup) -> Part:
    """That of flow 0."""
    return next(one for one in setup.parts if 0 in one.flows)


def _common(subject: Protocol, other: Protocol) -> dict[str, tuple[str, str]]:
    """Variable -> its fields in both."""
    ours, theirs = named_variables(subject), named_variables(other)
    return {name: (ours[name], theirs[name]) for name in ours if name in theirs}


class _Shadow:
    """The reference: its state, the headers that it has written, and what both had at each call."""

    def __init__(self, protocol: Protocol, part: Part, names: Mapping[str, tuple[str, str]]) -> None:
        self.hooks, self.names = flow_hooks_of(protocol), names
        self.state: Any = Record.of(part.flow_states[0])
        self.params: Any = Record.of(part.flow_params[0])
        self.header = part.header
        self.rate: float | None = None
        self.window: float | None = None
        self.random: Random | None = None  # of its own; None: it is given what the protocol draws
        self.rows: list[tuple[float, ...]] = []
        self.called: list[str] = []

    def call(self, name: str, header: Any, env: Any, before: Any, state: Any) -> None:
        """Call the reference's hook with what the protocol's hook saw, and take note of both."""
        if self.rate is not None:
            before.rate, before.window = self.rate, self.window
        if name in self.hooks:
            if self.random is not None:
                before.random = self.random.next()
            own = header.__dict__.setdefault("_of_reference", Record(self.header))
            self.hooks[name](self.state, own, self.params, before)
        if name == "on_receive":
            return
        self.rate, self.window = before.rate, before.window
        self.rows.append((
            env.now, env.rate, env.window, before.rate, before.window,
            *(variable_value(state, ours) for ours, _ in self.names.values()),
            *(variable_value(self.state, theirs) for _, theirs in self.names.values()),
        ))  # fmt: skip
        self.called.append(name)

    def divergence(self, lacking: tuple[str, ...]) -> Divergence:
        """Return the first difference of each variable."""
        table, n = np.array(self.rows), len(self.names)
        columns = {"env.rate": (table[:, 1], table[:, 3]), "env.window": (table[:, 2], table[:, 4])}
        unset = [name for name, (values, own) in columns.items() if not (own > 0.0).any() and (values > 0.0).any()]
        for name in unset:
            del columns[name]
        for k, name in enumerate(self.names):
            columns[name] = (table[:, 5 + k], table[:, 5 + n + k])
        notes = tuple(f"{name} is not compared, as the reference sets none" for name in unset)
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
        Which hook, at each time.
    columns : mapping
        Variable -> its values and the reference's, each of shape (n_calls,); NaN: not known.
    lacking : tuple of str
        Variables of the reference alone.
    tolerance : float, optional
        Relative difference up to which values are the same.
    allowed : mapping, optional
        Variable -> difference that is allowed beside it.
    """
    found = []
    for name, (values, reference) in columns.items():
        scale = np.maximum(np.abs(values), np.abs(reference))
        off = np.flatnonzero(np.abs(values - reference) > tolerance * scale + (allowed or {}).get(name, 0.0))
        if len(off):
            k = int(off[0])
            found.append((k, Deviation(name, float(time[k]), float(values[k]), float(reference[k]), called[k])))
    order = tuple(one for _, one in sorted(found, key=lambda item: item[0]))
    ours, theirs = ({name: both[side] for name, both in columns.items()} for side in (0, 1))
    return Divergence(order, tuple(ours), lacking, time, ours, theirs)


def _followed(part: Part, shadow: _Shadow) -> dict[str, Hook]:
    """The hooks of a part's flows; for flow 0 each is followed by that of the reference."""
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
