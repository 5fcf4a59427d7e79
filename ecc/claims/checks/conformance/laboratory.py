"""Conformance cases, and the laboratory that runs them.

A case is a function of a `Laboratory`, registered under the id of a claim of the ledger that states the specification.
It runs a scenario with the examined protocol, records measurements with their required bands, draws a figure, and
returns its result in one sentence. The verdict follows: confirmed if all measurements are in their bands, conditional
if that needs a condition, otherwise refuted; "not comparable" if the protocol lacks something that the case needs.

A case reads variables by their names in the specification. They are fields of the protocol's `FlowState`. If the fields
have other names, the class maps them: `conformance_names = {"max_bw": "bw"}`, or "bw[0]" for an element of an array.
"state" is a number; its name is in the list `STATES` of the module of that class (for example `ecc.models.bbr`).
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
from ecc.contract.protocol import Protocol
from ecc.models import all_protocols
from ecc.network.impairments import Impairment
from ecc.network.network import Network
from ecc.plot.states import states_figure
from ecc.scenario import Scenario

__all__ = [
    "CASES",
    "Case",
    "Laboratory",
    "NotReached",
    "Trace",
    "case",
    "examine",
    "identity",
    "missing",
    "state_names",
]

ENV = ("rate", "window", "in_flight", "rtt", "srtt", "min_rtt", "delivered", "lost", "recovering")
"""Variables of a flow that the engine records in every trace."""
PACKET = 1500
"""Packet size of the cases, bytes."""


class NotReached(Exception):
    """The protocol did not reach a state or event that a case needs; the message names it."""


@dataclass(frozen=True)
class Case:
    """A case: the id of its claim, the needs that a protocol must meet, and the function that examines the protocol."""

    id: str
    needs: tuple[str, ...]
    function: Callable[[Laboratory], str]
    cost: float


CASES: dict[str, Case] = {}
"""Registered cases by the id of their claim."""


def case(
    claim_id: str, *needs: str, cost: float = 1.0
) -> Callable[[Callable[[Laboratory], str]], Callable[[Laboratory], str]]:
    """Register a function as the case of a claim, and as the check of the claim for the protocols it names.

    Parameters
    ----------
    claim_id : str
    *needs : str
        Required variables, "parameter NAME", "without parameter NAME", "transport NAME", "without transport NAME",
        "losses" (the protocol
        responds to losses), "windows" (it has a transport), or "reports" (its receiver sends reports by a timer).
    cost : float, optional
        Approximate duration for one protocol, s.
    """

    def register(function: Callable[[Laboratory], str]) -> Callable[[Laboratory], str]:
        CASES[claim_id] = Case(claim_id, needs, function, cost)
        of_ledger = partial(_check, function)
        of_ledger.__module__ = function.__module__  # stored results depend on the code of this module
        of_ledger.identity = _identity  # type: ignore[attr-defined]
        check(claim_id, cost=2.0 * cost, main=False)(of_ledger)
        return function

    return register


def _check(function: Callable[[Laboratory], str], claim: Claim) -> Finding:
    """Return the joint verdict on a claim for all protocols that it names.

    The argument `function`, the function of the case, makes a worker process import the module that registers it.
    """
    kinds = all_protocols()
    findings = {name: examine(claim.id, claim, kinds[name]()) for name in claim.protocols}
    verdicts = {finding.verdict for finding in findings.values()} - {Verdict.NOT_COMPARABLE}
    joint = next(iter(verdicts)) if len(verdicts) == 1 else Verdict.CONDITIONAL if verdicts else Verdict.NOT_COMPARABLE
    return Finding(
        claim,
        joint,
        " ".join([_who_conforms(findings), *(f"{name}: {f.reason}" for name, f in findings.items())]).strip(),
        [replace(m, name=f"{name}: {m.name}") for name, finding in findings.items() for m in finding.measurements],
        [replace(p, title=f"{name}: {p.title}") for name, finding in findings.items() for p in finding.pictures],
        list(dict.fromkeys(text for finding in findings.values() for text in finding.assumptions)),
    )


def _who_conforms(findings: Mapping[str, Finding]) -> str:
    """Return the first sentence of a reason if the verdicts on its protocols differ."""
    verbs = {
        Verdict.CONFIRMED: ("conforms", "conform"),
        Verdict.CONDITIONAL: ("conforms under a condition", "conform under conditions"),
        Verdict.REFUTED: ("does not", "do not"),
        Verdict.NOT_COMPARABLE: ("is not comparable", "are not comparable"),
    }
    groups = {kind: [name for name, finding in findings.items() if finding.verdict is kind] for kind in verbs}
    parts = [f"{_listed(names)} {verbs[kind][len(names) > 1]}" for kind, names in groups.items() if names]
    if len(parts) < 2:
        return ""
    return f"{', '.join(parts)}." if groups[Verdict.CONFIRMED] or groups[Verdict.CONDITIONAL] else ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _identity(claim: Claim) -> str:
    return identity(*(all_protocols()[name]() for name in claim.protocols))


def identity(*protocols: Protocol) -> str:
    """Return a digest of everything in protocols that can change a finding: code, parameters, names of states.

    Parameters
    ----------
    *protocols : Protocol

    Raises
    ------
    TypeError
        A protocol refers to an object that cannot be digested, for example an open file.
    """
    return function_digest(*protocols, *map(state_names, protocols))


def examine(case_id: str, claim: Claim, protocol: Protocol) -> Finding:
    """Return the finding of a case on a protocol.

    Parameters
    ----------
    case_id : str
        Id of the case's claim, for example "bbr-probe-rtt".
    claim : Claim
    protocol : Protocol
    """
    begin, examination = perf_counter(), CASES[case_id]
    about = replace(claim, protocols=(type(protocol).__name__,))
    lacking = missing(protocol, examination.needs)
    if lacking:
        return Finding(about, Verdict.NOT_COMPARABLE, f"does not apply: it has {' and '.join(lacking)}")
    lab = Laboratory(protocol)
    verdict, reason = Verdict.REFUTED, ""
    try:
        result = examination.function(lab)
    except NotReached as trouble:
        reason = str(trouble)
    else:
        missed = [m for m in lab.measurements if m.met is False]
        if missed:
            reason = f"{'; '.join(_missed(m) for m in missed)} ({claim.source})"
        else:
            verdict = Verdict.CONDITIONAL if lab.conditions else Verdict.CONFIRMED
            reason = " ".join([result, *lab.conditions])
    if "_" not in reason.partition(" ")[0]:  # names of variables keep their case
        reason = reason[:1].upper() + reason[1:]
    reason += "" if reason.endswith(".") else "."
    if lab.transports:
        reason += f" With the transport {' and '.join(map(repr, sorted(lab.transports)))}."
    seconds = perf_counter() - begin
    return Finding(about, verdict, reason, lab.measurements, lab.pictures, lab.assumptions, seconds)


def _missed(measurement: Measurement) -> str:
    value = f"{number_text(measurement.value)} {measurement.unit}".strip()
    return f"{measurement.name}: {value}, required: {measurement.reported}"


def missing(protocol: Protocol, needs: Sequence[str]) -> list[str]:
    """Return the needs of a case that a protocol does not meet, for example ["no parameter headroom"].

    Parameters
    ----------
    protocol : Protocol
    needs : sequence of str
        Needs as in `case`.
    """
    lacking, variables = [], []
    for need in needs:
        kind, _, name = need.rpartition(" ")
        if need == "reports":
            lacks, text = "on_report" not in protocol.flow_hooks(), "no reports of receivers"
        elif need == "windows":
            lacks = protocol.transport is None
            text = "no window: it has no transport with loss recovery"
        elif need == "losses":
            lacks, text = "loss" not in protocol.answers, "no response to losses"
        elif kind == "without transport":
            lacks, text = protocol.transport == name, f"the transport {name!r}"
        elif kind == "transport":
            lacks = protocol.transport != name and "transport" not in getattr(protocol, "__dataclass_fields__", {})
            text = f"no parameter transport for {name!r}"
        elif kind == "without parameter":
            lacks, text = name in {*protocol.params(), *protocol.__dataclass_fields__}, f"a parameter {name}"
        elif kind == "parameter":
            is_known = name in protocol.params() or hasattr(protocol, name)  # a constant of the class will do
            lacks, text = not is_known, f"no parameter {name}"
        elif need == "state":
            lacks, text = not state_names(protocol), "no named states (a field `state` and a list `STATES`)"
        else:
            lacks, text = False, ""
            variables += [need] if _field(protocol, need) is None else []
        if lacks:
            lacking.append(text)
    if variables:
        lacking.append(f"no variable{'s' if variables[1:] else ''} {', '.join(variables)}")
    return lacking


def _field(protocol: Protocol, name: str) -> str | None:
    """Return the field of the protocol's state, or the array element, that holds a variable; None if it has none."""
    kind = getattr(protocol, "FlowState", None)
    field: str = getattr(protocol, "conformance_names", {}).get(name, name)
    return field if kind is not None and field.partition("[")[0] in {item.name for item in fields(kind)} else None


def state_names(protocol: Protocol) -> tuple[str, ...]:
    """Return the names of a protocol's states from the module of its class; () if it has no variable "state".

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
    """Runs a protocol in the scenarios of a case and collects measurements, pictures and conditions.

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
        self.transports: set[str] = set()  # loss recovery that replaced the protocol's own

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
        """Return a run of the protocol that records those of the given variables that the protocol has.

        Parameters
        ----------
        network : Network
            Network; the trace is of flow 0.
        duration : float, s
        *variables : str
            Variables to record, for example "state" or "max_bw".
        impairments : sequence of Impairment, optional
        links : mapping, optional
            Index of a link -> queue discipline.
        others : mapping, optional
            Index of a flow -> other protocol for this flow.
        transport : str, optional
            Loss recovery, for example "rack"; None for the protocol's default.
        sample : float, s, optional
        seed : int, optional

        Raises
        ------
        NotReached
            The run ended early, because a hook raised an error.
        """
        names = {name: field for name in variables if (field := _field(self.protocol, name)) is not None}
        protocol: Any = self.protocol
        if transport is not None and protocol.transport != transport:
            protocol = replace(protocol, transport=transport)
            self.transports.add(transport)
        if links or others:
            protocol = {"flows": {"default": protocol, **(others or {})}, "links": dict(links or {})}
        scenario = Scenario(network, protocol, duration, impairments=tuple(impairments), seed=seed)
        record = [*(f"flow.{field}" for field in names.values()), *(f"env.{name}" for name in ENV)]
        run = packet.simulate(scenario, sample=sample, record=record)
        if run.stats["stopped"] == "interrupted":
            raise KeyboardInterrupt
        if run.stats["stopped"] != "completed":
            raise NotReached(f"a run of {duration:g} s ended at {run.stats['now']:g} s: {run.stats['stopped']}")
        return Trace(run, names, state_names(self.protocol), scenario)

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
        """Record a number with its required band, and return whether the number is in the band.

        Parameters
        ----------
        name : str
        value : float
        near : float, optional
            Required value, with the relative tolerance `band` or the absolute tolerance `within`.
        band, within : float, optional
        at_least, at_most : float, optional
            Required minimum and maximum, if `near` is None.
        unit, note : str, optional
        """
        if near is not None:
            half = abs(near) * band if within is None else within
            at_least, at_most = near - half, near + half
        low, high = at_least is not None, at_most is not None
        met = bool((not low or value >= at_least) and (not high or value <= at_most))  # type: ignore[operator]
        ends = [number_text(end) for end in (at_least, at_most) if end is not None]
        required = " to ".join(ends) if low and high else f"{'at least' if low else 'at most'} {ends[0]}"
        self.measurements.append(Measurement(name, float(value), unit, required, note, met=met))
        return met

    def expect_that(self, name: str, value: bool | str, wanted: bool | str = True, note: str = "") -> bool:
        """Record a value that must equal another one, for example a condition that must be true.

        Parameters
        ----------
        name : str
        value : bool or str
        wanted : bool or str, optional
        note : str, optional
        """
        shown = [("yes" if x else "no") if isinstance(x, bool | np.bool_) else str(x) for x in (value, wanted)]
        self.measurements.append(Measurement(name, shown[0], "", shown[1], note, met=shown[0] == shown[1]))
        return shown[0] == shown[1]

    def note(self, name: str, value: float | str, unit: str = "") -> None:
        """Record a number that has no required band.

        Parameters
        ----------
        name : str
        value : float or str
        unit : str, optional
        """
        self.measurements.append(Measurement(name, value, unit))

    def draw(
        self,
        trace: Trace,
        title: str,
        caption: str,
        volumes: Sequence[str] = ("in_flight", "window"),
        rates: Sequence[str] = ("rate", "max_bw"),
        marks: Sequence[float] = (),
        span: tuple[float, float] | None = None,
        specified: NDArray[np.float64] | None = None,
    ) -> None:
        """Add a figure of a trace.

        Parameters
        ----------
        trace : Trace
        title, caption : str
        volumes, rates : sequence of str, optional
            Variables to draw in kB and in Mb/s; variables that the trace lacks are omitted.
        marks : sequence of float, s, optional
            Times of vertical lines.
        span : tuple of two float, s, optional
            Part of the trace to draw.
        specified : ndarray, shape (n_times,), bytes, optional
            Values that the specification gives for the volume, drawn as "specification"; NaN: none at this time.
        """
        begin, end = span or (0.0, np.inf)
        where = (trace.time >= begin) & (trace.time <= end)
        panels: dict[str, dict[str, Any]] = {}
        volume = "window" if list(volumes) == ["window"] else "volume"
        for label, names, unit in (("rate [Mb/s]", rates, 1e6), (f"{volume} [kB]", volumes, 1e3)):
            curves = {
                name: np.where(trace[name] < _NEVER, trace[name] / unit, np.nan)[where]
                for name in names
                if name in trace
            }
            curves = {name: values for name, values in curves.items() if np.isfinite(values).any()}
            if curves:
                panels[label] = curves
        if specified is not None:
            panels[f"{volume} [kB]"]["specification"] = specified[where] / 1e3
        states = [str(name) for name in trace.states[where]] if "state" in trace else []
        figure = states_figure(trace.time[where], panels, states, [m for m in marks if begin <= m <= end], title)
        figure.update_traces({"line": {"width": 6, "color": _REFERENCE}}, {"name": "specification"})
        figure.data = sorted(figure.data, key=lambda drawn: drawn.name != "specification")  # behind the measured curve
        self.pictures.append(Picture.of(figure, title, caption))


_REFERENCE = "#c8c8c8"
_NEVER = 1e290
"""Values from here on mean that there is no bound."""


@dataclass(frozen=True)
class Trace:
    """One flow of a run: its variables over time, and its sequence of states.

    `run` is the trajectory of `scenario`; `names`: variable -> field of the state; `state_names`: names of the values
    of "state".
    """

    run: Any
    names: Mapping[str, str]
    state_names: tuple[str, ...]
    scenario: Scenario
    flow: int = 0

    @cached_property
    def time(self) -> NDArray[np.float64]:
        """End times of samples [s], shape (n_times,)."""
        return np.asarray(self.run.data["time"].to_numpy(), dtype=float)

    def __contains__(self, name: str) -> bool:
        return name in ENV or name in self.names

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        full = f"flow.{self.names[name]}" if name in self.names else f"env.{name}"
        return np.asarray(self.run.data[full].to_numpy()[:, self.flow], dtype=float)

    @cached_property
    def goodput(self) -> NDArray[np.float64]:
        """Goodput [bit/s], shape (n_times,)."""
        return np.asarray(self.run.data["goodput"].to_numpy()[:, self.flow], dtype=float)

    @cached_property
    def drops(self) -> NDArray[np.float64]:
        """Packets dropped at the first link in each sample, shape (n_times,)."""
        return np.asarray(self.run.data["drops"].to_numpy()[:, 0], dtype=float)

    @cached_property
    def states(self) -> NDArray[np.str_]:
        """Name of the state at each time; ProbeBW phases of BBR version 1 have the names of version 3."""
        names = np.array(self.state_names)[self["state"].astype(int)].astype("<U16")
        if "cycle_index" in self.names:
            phase = self["cycle_index"]
            for name, chosen in (("UP", phase == 0), ("DOWN", phase == 1), ("CRUISE", phase > 1)):
                names[(names == "ProbeBW") & chosen] = f"ProbeBW_{name}"
        return np.asarray(names)

    @cached_property
    def spans(self) -> list[tuple[str, int, int]]:
        """Stays in states in order: name, index of the first sample, and index of the first sample after the stay."""
        names = self.states
        edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
        return [(str(names[a]), a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def span(self, state: str, after: float = 0.0) -> tuple[int, int, str]:
        """Return the first stay in a state: its first sample, the first sample after it, and the next state.

        Parameters
        ----------
        state : str
        after : float, s, optional
            Earliest begin of the stay.

        Raises
        ------
        NotReached
            No such stay ends within the run.
        """
        for k, (name, a, b) in enumerate(self.spans[:-1]):
            if name == state and self.time[a] >= after:
                return a, b, self.spans[k + 1][0]
        where = f"after {after:g} s " if after else ""
        raise NotReached(f"no stay in {state} {where}ends within {self.time[-1]:g} s")

    def mean(self, values: NDArray[np.float64], begin: float, end: float = np.inf) -> float:
        """Return the mean of samples between two times.

        Parameters
        ----------
        values : ndarray, shape (n_times,)
        begin, end : float, s
        """
        return float(values[(self.time > begin) & (self.time <= end)].mean())

    def at(self, time: float) -> int:
        """Return the index of the first sample that ends at or after a time; the last sample if none does.

        Parameters
        ----------
        time : float, s
        """
        return min(int(np.searchsorted(self.time, time - 1e-9)), len(self.time) - 1)
