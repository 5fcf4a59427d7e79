"""What a case of conformance is, and what it works with.

A case is a function of a `Laboratory`, registered under the id of a claim of the ledger, which has what the
specification says. It runs a scenario with the protocol that is examined, says what it measures and in which band that
must be, draws a figure, and returns one sentence on what it found. From this the verdict is computed: confirmed if all
is in its band, conditional if that needs a condition, refuted if not; "not comparable" if the protocol lacks what the
case needs.

A case reads variables by the names that specifications use. They are fields of the protocol's `FlowState`, or, where a
class has `conformance_names = {"max_bw": "bw"}`, those that it names ("bw[0]": of an array). "state" is a number whose
name is in the list `STATES` of the module of that class (`ecc.models.bbr`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc._support.digests import function_digest
from ecc._support.display import number_text
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.models import all_protocols
from ecc.models.base import Protocol
from ecc.network.impairments import Impairment
from ecc.network.network import Network
from ecc.plot.states import states_figure
from ecc.scenario import Scenario

__all__ = [
    "CASES", "Case", "Laboratory", "NotReached", "Trace", "case", "examine", "identity", "missing", "state_names",
]  # fmt: skip

ENV = ("rate", "window", "in_flight", "rtt", "srtt", "min_rtt", "delivered", "lost", "recovering")
"""What the engine knows of a flow and every trace has."""
PACKET = 1500
"""Bytes of the packets of cases."""


class NotReached(Exception):
    """The protocol did not do what a case waits for; the message says what."""


@dataclass(frozen=True)
class Case:
    """A case: the claim that it examines, what it needs of a protocol, and the function that does."""

    id: str
    needs: tuple[str, ...]
    function: Callable[[Laboratory], str]
    cost: float


CASES: dict[str, Case] = {}
"""Registered cases by the id of their claim."""


def case(
    claim_id: str, *needs: str, cost: float = 1.0
) -> Callable[[Callable[[Laboratory], str]], Callable[[Laboratory], str]]:
    """Register a function as the case of a claim, and as the ledger's check of it for the protocols that it names.

    Parameters
    ----------
    claim_id : str
    *needs : str
        Variables, "parameter NAME", "losses" (it answers them), or "windows" (it has a transport).
    cost : float, optional
        About how many seconds it takes for one protocol.
    """

    def register(function: Callable[[Laboratory], str]) -> Callable[[Laboratory], str]:
        CASES[claim_id] = Case(claim_id, needs, function, cost)
        of_ledger = partial(_check, function)
        of_ledger.__module__ = function.__module__  # whose code a stored result is of, and that of its protocols
        of_ledger.identity = _identity  # type: ignore[attr-defined]
        check(claim_id, cost=2.0 * cost, main=False)(of_ledger)
        return function

    return register


def _check(function: Callable[[Laboratory], str], claim: Claim) -> Finding:
    """The verdict on a claim: that of all protocols that it names together.

    `function`, that of the case, is what makes a worker process import the module that registers it.
    """
    kinds = all_protocols()
    found = {name: examine(claim.id, claim, kinds[name]()) for name in claim.protocols}
    verdicts = {one.verdict for one in found.values()} - {Verdict.NOT_COMPARABLE}
    whole = next(iter(verdicts)) if len(verdicts) == 1 else Verdict.CONDITIONAL if verdicts else Verdict.NOT_COMPARABLE
    return Finding(
        claim,
        whole,
        " ".join([_who_conforms(found), *(f"{name}: {one.reason}" for name, one in found.items())]).strip(),
        [replace(m, name=f"{name}: {m.name}") for name, one in found.items() for m in one.measurements],
        [replace(p, title=f"{name}: {p.title}") for name, one in found.items() for p in one.pictures],
        list(dict.fromkeys(text for one in found.values() for text in one.assumptions)),
    )


def _who_conforms(found: Mapping[str, Finding]) -> str:
    """The sentence that a verdict on several protocols begins with, where not all of them have the same."""
    said = {
        Verdict.CONFIRMED: ("conforms", "conform"),
        Verdict.CONDITIONAL: ("conforms under a condition", "conform under conditions"),
        Verdict.REFUTED: ("does not", "do not"),
        Verdict.NOT_COMPARABLE: ("is not comparable", "are not comparable"),
    }
    groups = {kind: [name for name, one in found.items() if one.verdict is kind] for kind in said}
    parts = [f"{_listed(names)} {said[kind][len(names) > 1]}" for kind, names in groups.items() if names]
    if len(parts) < 2:
        return ""
    return f"{', '.join(parts)}." if groups[Verdict.CONFIRMED] or groups[Verdict.CONDITIONAL] else ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _identity(claim: Claim) -> str:
    return identity(*(all_protocols()[name]() for name in claim.protocols))


def identity(*protocols: Protocol) -> str:
    """Return a digest of all of some protocols that a finding can depend on: code, parameters, names of states.

    Parameters
    ----------
    *protocols : Protocol

    Raises
    ------
    TypeError
        One of them reaches something that cannot be read, such as an open file.
    """
    return function_digest(*protocols, *map(state_names, protocols))


def examine(case_id: str, claim: Claim, protocol: Protocol) -> Finding:
    """Return what a case finds of a protocol.

    Parameters
    ----------
    case_id : str
        Id of its claim.
    claim : Claim
    protocol : Protocol
    """
    begin, one = perf_counter(), CASES[case_id]
    about = replace(claim, protocols=(type(protocol).__name__,))
    lacking = missing(protocol, one.needs)
    if lacking:
        return Finding(about, Verdict.NOT_COMPARABLE, f"does not apply: it has {' and '.join(lacking)}")
    room = Laboratory(protocol)
    verdict, reason = Verdict.REFUTED, ""
    try:
        said = one.function(room)
    except NotReached as trouble:
        reason = str(trouble)
    else:
        missed = [m for m in room.measurements if m.met is False]
        if missed:
            reason = "; ".join(_missed(m) for m in missed)
        else:
            verdict = Verdict.CONDITIONAL if room.conditions else Verdict.CONFIRMED
            reason = " ".join([said, *room.conditions])
    if "_" not in reason.partition(" ")[0]:  # names of variables stay as they are
        reason = reason[:1].upper() + reason[1:]
    reason += "" if reason.endswith(".") else "."
    seconds = perf_counter() - begin
    return Finding(about, verdict, reason, room.measurements, room.pictures, room.assumptions, seconds)


def _missed(measurement: Measurement) -> str:
    value = f"{number_text(measurement.value)} {measurement.unit}".strip()
    return f"{measurement.name}: {value}, to be {measurement.reported}"


def missing(protocol: Protocol, needs: Sequence[str]) -> list[str]:
    """Return what a protocol lacks of what a case needs, as "no ...".

    Parameters
    ----------
    protocol : Protocol
    needs : sequence of str
        See `case`.
    """
    found, variables = [], []
    for need in needs:
        kind, _, name = need.rpartition(" ")
        if need == "windows":
            lacks = protocol.transport is None
            said = "no window: it has no transport that recovers losses"
        elif need == "losses":
            lacks, said = "loss" not in protocol.answers, "no answer to losses"
        elif kind == "transport":
            lacks = protocol.transport != name and "transport" not in getattr(protocol, "__dataclass_fields__", {})
            said = f"no parameter transport for {name!r}"
        elif kind == "parameter":
            lacks, said = name not in {*protocol.params(), *protocol.__dataclass_fields__}, f"no parameter {name}"
        elif need == "state":
            lacks, said = not state_names(protocol), "no named states (a field `state` and a list `STATES`)"
        else:
            lacks, said = False, ""
            variables += [need] if _field(protocol, need) is None else []
        if lacks:
            found.append(said)
    if variables:
        found.append(f"no variable{'s' if variables[1:] else ''} {', '.join(variables)}")
    return found


def _field(protocol: Protocol, name: str) -> str | None:
    """The field of the protocol's state, or the element of one, in which it has a variable."""
    kind = getattr(protocol, "FlowState", None)
    field: str = getattr(protocol, "conformance_names", {}).get(name, name)
    return field if kind is not None and field.partition("[")[0] in {one.name for one in fields(kind)} else None


def state_names(protocol: Protocol) -> tuple[str, ...]:
    """Return the names of a protocol's states, from the module of its class; none if it has no variable "state".

    Parameters
    ----------
    protocol : Protocol
    """
    if _field(protocol, "state") is None:
        return ()
    for kind in type(protocol).__mro__:
        names = getattr(sys.modules.get(kind.__module__), "STATES", None)
        if names:
            return tuple(names)
    return ()


class Laboratory:
    """Runs a protocol in scenarios of a case, and keeps what the case measures of it.

    Parameters
    ----------
    protocol : Protocol
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.measurements: list[Measurement] = []
        self.pictures: list[Picture] = []
        self.assumptions: list[str] = []
        self.conditions: list[str] = []

    def has(self, *names: str) -> bool:
        """Return whether the protocol has variables.

        Parameters
        ----------
        *names : str
        """
        return not missing(self.protocol, names)

    def run(
        self,
        network: Network,
        duration: float,
        *variables: str,
        impairments: Sequence[Impairment] = (),
        links: Mapping[int, Any] | None = None,
        others: Mapping[int, Protocol] | None = None,
        transport: str | None = None,
        sample: float = 0.001,
        seed: int = 1,
    ) -> Trace:
        """Return a run of the protocol, with the variables that it has of those given.

        Parameters
        ----------
        network : Network
            Its flow 0 is looked at.
        duration : float, s
        *variables : str
            "state" and what else is to be recorded.
        impairments : sequence of Impairment, optional
        links : mapping, optional
            Index -> queue discipline.
        others : mapping, optional
            Flow -> protocol of flows that are not those of the protocol.
        transport : str, optional
            How its losses are recovered; None: as the protocol says.
        sample : float, s, optional
        seed : int, optional

        Raises
        ------
        NotReached
            The run has ended early, by an error of a hook.
        """
        names = {name: field for name in variables if (field := _field(self.protocol, name)) is not None}
        protocol: Any = self.protocol
        if transport is not None and protocol.transport != transport:
            protocol = replace(protocol, transport=transport)
        if links or others:
            protocol = {"flows": {"default": protocol, **(others or {})}, "links": dict(links or {})}
        scenario = Scenario(network, protocol, duration, impairments=tuple(impairments), seed=seed)
        record = [*(f"flow.{field}" for field in names.values()), *(f"env.{name}" for name in ENV)]
        run = packet.simulate(scenario, sample=sample, record=record)
        if run.stats["stopped"] == "interrupted":
            raise KeyboardInterrupt
        if run.stats["stopped"] != "completed":
            raise NotReached(f"a run of {duration:g} s ended at {run.stats['now']:g} s: {run.stats['stopped']}")
        return Trace(run, names, state_names(self.protocol))

    def expect(
        self,
        name: str,
        value: float,
        near: float | None = None,
        band: float = 0.02,
        within: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        unit: str = "",
        note: str = "",
    ) -> bool:
        """Take note of a number and of the band in which it is to be, and return whether it is.

        Parameters
        ----------
        name : str
        value : float
        near : float, optional
            ... `band`, relative, or `within`, absolute, of this.
        band, within : float, optional
        at_least, at_most : float, optional
        unit, note : str, optional
        """
        if near is not None:
            half = abs(near) * band if within is None else within
            at_least, at_most = near - half, near + half
        low, high = at_least is not None, at_most is not None
        met = bool((not low or value >= at_least) and (not high or value <= at_most))  # type: ignore[operator]
        ends = [number_text(end) for end in (at_least, at_most) if end is not None]
        said = " to ".join(ends) if low and high else f"{'at least' if low else 'at most'} {ends[0]}"
        self.measurements.append(Measurement(name, float(value), unit, said, note, met=met))
        return met

    def expect_that(self, name: str, value: bool | str, wanted: bool | str = True, note: str = "") -> bool:
        """Take note of something that is to be so.

        Parameters
        ----------
        name : str
        value : bool or str
        wanted : bool or str, optional
        note : str, optional
        """
        shown = [("yes" if one else "no") if isinstance(one, bool | np.bool_) else str(one) for one in (value, wanted)]
        self.measurements.append(Measurement(name, shown[0], "", shown[1], note, met=shown[0] == shown[1]))
        return shown[0] == shown[1]

    def draw(
        self,
        trace: Trace,
        title: str,
        caption: str,
        volumes: Sequence[str] = ("in_flight", "window"),
        rates: Sequence[str] = ("rate", "max_bw"),
        marks: Sequence[float] = (),
        span: tuple[float, float] | None = None,
    ) -> None:
        """Keep a figure of a trace.

        Parameters
        ----------
        trace : Trace
        title, caption : str
        volumes, rates : sequence of str, optional
            Variables that are drawn in kB, and in Mb/s, of those that the trace has.
        marks : sequence of float, s, optional
        span : tuple of two float, s, optional
            Part that is drawn.
        """
        begin, end = span or (0.0, np.inf)
        where = (trace.time >= begin) & (trace.time <= end)
        panels: dict[str, dict[str, Any]] = {}
        for label, names, unit in (("Mb/s", rates, 1e6), ("kB", volumes, 1e3)):
            curves = {name: np.where(trace[name] < _NEVER, trace[name] / unit, np.nan)[where]
                      for name in names if name in trace}  # fmt: skip
            curves = {name: values for name, values in curves.items() if np.isfinite(values).any()}
            if curves:
                panels[label] = curves
        states = [str(name) for name in trace.states[where]] if "state" in trace else []
        figure = states_figure(trace.time[where], panels, states, [m for m in marks if begin <= m <= end], title)
        self.pictures.append(Picture.of(figure, title, caption))


_NEVER = 1e290
"""Bounds from here on are none."""


@dataclass(frozen=True)
class Trace:
    """One flow of a run: its variables over time, and the states that it was in.

    `run` is the trajectory; `names`: variable -> field of the state; `state_names`: names of the values of "state".
    """

    run: Any
    names: Mapping[str, str]
    state_names: tuple[str, ...]
    flow: int = 0

    @cached_property
    def time(self) -> NDArray[np.float64]:
        """When samples end [s], shape (n_times,)."""
        return np.asarray(self.run.data["time"].to_numpy(), dtype=float)

    def __contains__(self, name: str) -> bool:
        return name in ENV or name in self.names

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        full = f"flow.{self.names[name]}" if name in self.names else f"env.{name}"
        return np.asarray(self.run.data[full].to_numpy()[:, self.flow], dtype=float)

    @cached_property
    def goodput(self) -> NDArray[np.float64]:
        """Bit/s, shape (n_times,)."""
        return np.asarray(self.run.data["goodput"].to_numpy()[:, self.flow], dtype=float)

    @cached_property
    def drops(self) -> NDArray[np.float64]:
        """Packets dropped at the first link in each sample, shape (n_times,)."""
        return np.asarray(self.run.data["drops"].to_numpy()[:, 0], dtype=float)

    @cached_property
    def states(self) -> NDArray[np.str_]:
        """Name of the state at each time; phases of version 1's ProbeBW by the names that version 3 has for them."""
        found = np.array(self.state_names)[self["state"].astype(int)].astype("<U16")
        if "cycle_index" in self.names:
            phase = self["cycle_index"]
            for name, chosen in (("UP", phase == 0), ("DOWN", phase == 1), ("CRUISE", phase > 1)):
                found[(found == "ProbeBW") & chosen] = f"ProbeBW_{name}"
        return np.asarray(found)

    @cached_property
    def spans(self) -> list[tuple[str, int, int]]:
        """States in their order: name, index of the first sample in it, and of the first after it."""
        names = self.states
        edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
        return [(str(names[a]), a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def span(self, state: str, after: float = 0.0) -> tuple[int, int, str]:
        """Return the first stay in a state: its first sample, the first after it, and the state that follows.

        Parameters
        ----------
        state : str
        after : float, s, optional
            It begins no sooner.

        Raises
        ------
        NotReached
            There is none that ends.
        """
        for k, (name, a, b) in enumerate(self.spans[:-1]):
            if name == state and self.time[a] >= after:
                return a, b, self.spans[k + 1][0]
        where = f"after {after:g} s " if after else ""
        raise NotReached(f"no stay in {state} {where}that ends within {self.time[-1]:g} s")

    def mean(self, values: NDArray[np.float64], begin: float, end: float = np.inf) -> float:
        """Return the mean of samples between two times.

        Parameters
        ----------
        values : ndarray, shape (n_times,)
        begin, end : float, s
        """
        return float(values[(self.time > begin) & (self.time <= end)].mean())

    def at(self, time: float) -> int:
        """Return the index of the first sample that ends no sooner than a time, at most the last.

        Parameters
        ----------
        time : float, s
        """
        return min(int(np.searchsorted(self.time, time - 1e-9)), len(self.time) - 1)
