"""The results of all linear models of a protocol on a network at once: `ecc stability` in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf, isnan, nan
from typing import Any, Unpack

import numpy as np

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed, Rows, frequency_text, grid_html, html_table, quantity_text
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import (
    ProtocolAssignment,
    parameter_value,
    read_protocol,
    with_parameter,
)
from ecc.contract.equilibrium import Bound
from ecc.contract.kinds import router_takes
from ecc.contract.parameters import label
from ecc.contract.protocol import Protocol
from ecc.cycles.closed_loop import TIMES, limit_cycle
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.reference_cases import case_on
from ecc.errors import ConvergenceError, EccError, LinearizationError, UndecidedError
from ecc.linear import DelaySystem, Margins, SampledSystem, StabilityLimit, Switched, SwitchedLoop
from ecc.linear.empty_queue import empty_queue_proves
from ecc.loops.closed_loop import has_clockings, has_granted_windows, linearize
from ecc.loops.marked_hosts import SeveralClocks
from ecc.loops.options import LinearKeywords, LinearOptions, read_options
from ecc.network.network import Network
from ecc.stability.bifurcations import Bifurcation, bifurcation_at
from ecc.stability.checked import CLOCKED, OtherClocking, other_clocking
from ecc.stability.gains import critical_gain, parameter_of
from ecc.stability.relay_cycles import RelayCycle, relay_cycle
from ecc.stability.safe_perturbations import SafePerturbation, safe_perturbation

__all__ = ["Analysis", "ModelAnalysis", "StableInterval", "analyze", "stable_interval"]

_PROOF_OFFSET = 4.5e-10  # relative distance from an end of an interval at which either side is proven
_LAST = 1e-6  # relative distance to a value by which the search may end early if the protocol allows no larger values
_HALVINGS = 10  # halvings of the parameter for which the loop at the empty queue is checked
_STEP, _BISECTIONS = 1.25, 6  # upward search of the same range: factor of its steps, bisections at its end
_LOOPS = 6  # number of loops that are written out
_KEPT_ABOVE_ZERO = "with the queue kept >= 0 (control interval -> 0)"
_ASSUMED = "small deviations from the equilibrium, flows that last, constant delays and bottlenecks"
_OF_DELAY_MARGINS = "; for the delay margin also the gains and d of routers: it is not how far the RTT may grow"
_RUN = "a run shows what it does: ecc simulate SCENARIO.toml"  # the alternative to a linear model
_SLOWEST = -0.1  # per mean RTT: the loop is not checked if its decay without a queue is slower


@dataclass(frozen=True, repr=False)
class StableInterval(Displayed):
    """The values of a parameter for which a linear model is stable, all others fixed.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    value : float
        Its present value.
    stable : bool
        Whether the model is stable at the present value.
    lower, upper : float
        The interval of stable values that contains `value` or, if the model is unstable there, the nearest one; nan if
        none is known. upper is inf if no upper end was found.
    lower_certified, upper_certified : tuple of two float or None
        For each end, two values next to it at which ball arithmetic proves the model stable and unstable; None if the
        end is 0 or inf, or not proven.
    lower_frequency, upper_frequency : float
        Frequency of the oscillation that starts at the end, rad/s or rad/step; nan if none starts there.
    ranges : tuple of pairs of float
        All intervals of stable values that were found up to `searched_to`.
    complete_to : float
        The list of intervals is proven complete up to this value (`ecc.linear.StabilityLimit.complete_to`).
    searched_to : float
        Largest value that was searched.
    sampled, dt : bool, float or None
        Whether frequencies are in rad/step, and the length of a step [s]; None if it is not known, or differs between
        `value` and the ends.
    notes : tuple of str
        Notes of `ecc.stability.critical_gain`.
    all_allowed : bool
        Whether the protocol allows no value above `searched_to`.
    switched_stable, switched_range : bool or None, tuple of two float or None
        Results for the loop with its queue kept >= 0 (control interval -> 0), if the model permits negative queues: the
        verdict at `value`, and the smallest and largest value tried such that all tried values between them are proven
        stable. None if they are not known, or if the queue of the model cannot be negative.
    """

    parameter: str
    value: float
    stable: bool
    lower: float
    upper: float
    lower_certified: tuple[float, float] | None
    upper_certified: tuple[float, float] | None
    lower_frequency: float
    upper_frequency: float
    ranges: tuple[tuple[float, float], ...]
    complete_to: float
    sampled: bool
    dt: float | None
    notes: tuple[str, ...] = ()
    all_allowed: bool = False
    searched_to: float = 0.0
    switched_stable: bool | None = None
    switched_range: tuple[float, float] | None = None

    @property
    def is_proven(self) -> bool:
        """True if the interval is proven: both sides of each end at which stability is lost, and no loss in between."""
        if not self.complete_to >= min(self.upper, self.searched_to):
            return False  # also if there is no interval: nan
        ends = ((self.lower_frequency, self.lower_certified), (self.upper_frequency, self.upper_certified))
        return all(proof is not None for frequency, proof in ends if frequency == frequency)

    def _title(self) -> str:
        verdict = "stable" if self.stable else "unstable"
        return f"Stable interval of {self.parameter}; {verdict} at {self.parameter} = {self.value:g}"

    def _rows(self) -> Rows:
        rows = [(f"stable for {self.parameter}", self.text())]
        for which in ("lower", "upper"):
            proof, frequency = getattr(self, f"{which}_certified"), getattr(self, f"{which}_frequency")
            if proof is not None:
                rows.append((f"{which} end, proven", "stable at {:.12g}, unstable at {:.12g}".format(*proof)))
            if frequency == frequency:
                rows.append((f"{which} end, oscillation", frequency_text(frequency, self.sampled, self.dt)))
        further = [f"{low:.6g} to {high:.6g}" for low, high in self.ranges if high != self.upper and low != self.lower]
        rows += [("stable elsewhere", "; ".join(further))] if further else []
        if self.switched_stable is not None:
            rows.append((_KEPT_ABOVE_ZERO, "stable" if self.switched_stable else "unstable"))
        return rows + ([(self._tried_label(), self._tried_text())] if self.switched_range else [])

    def _tried_label(self) -> str:
        return f"  proven stable at points of {self.parameter}"

    def _tried_text(self) -> str:
        assert self.switched_range is not None
        return "from {:.4g} to {:.4g}, at all values tried".format(*self.switched_range)

    def text(self) -> str:
        """Return the interval in words."""
        if self.lower != self.lower and self.stable:
            return f"not known: the search ends at {quantity_text(self.searched_to, '', 6)}"
        if self.lower != self.lower:
            return f"no value up to {quantity_text(self.searched_to, '', 6)}"
        if self.upper == inf:
            ends = "the largest value allowed" if self.all_allowed else "the end of the search"
            entire = self.all_allowed and self.lower == 0.0
            return f"{self.lower:.7g} to {self.searched_to:.6g}, {'all allowed values' if entire else ends}"
        return f"{self.lower:.7g} to {self.upper:.7g}"


@check_arguments
def stable_interval(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    parameter: str | None = None,
    time: str = "continuous",
    certify: bool = True,
    *,
    options: LinearOptions | None = None,
    progress: ProgressCallback | None = None,
    **keywords: Unpack[LinearKeywords],
) -> StableInterval:
    """Return the interval of stable values of a parameter around its present value.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    parameter : str, optional
        Name of a numeric parameter. None: the protocol's `main_parameter`.
    time : str, optional
        "continuous", "discrete" or "hybrid", as for linearize.
    certify : bool, optional
        Whether to prove both sides of its ends by ball arithmetic.
    options : LinearOptions, optional
        Options of the linear models.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the value that is analyzed, as `text`.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    StableInterval

    Raises
    ------
    ValueError
        The protocol does not have the parameter, or none is named.
    LinearizationError
        The protocol has no linear model on the network.

    Notes
    -----
    Guarantee: as for `critical_gain`, no end of an interval up to `complete_to` is missing; between `complete_to` and
    `searched_to` values were counted on a mesh, and a note says so.

    Examples
    --------
    >>> interval = stable_interval(ecc.models.QIRCP(), ecc.Network.dumbbell("1 Gb/s", [0.1]))
    >>> interval.lower, round(interval.upper, 6), interval.stable
    (0.0, 1.570796, True)
    """
    protocol = read_protocol(protocol)
    name = parameter_of(protocol, parameter)
    chosen = read_options(options, keywords).given()
    interval, present = _interval(protocol, network, name, time, certify, chosen, progress)
    switched = present.switched
    if switched is None or switched.caveat:
        return interval
    scope = _switched_range(protocol, network, name, time, switched, chosen)
    return replace(interval, switched_stable=switched.is_stable, switched_range=scope)


def _interval(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    name: str,
    time: str,
    certify: bool,
    options: dict[str, Any],
    progress: ProgressCallback | None,
) -> tuple[StableInterval, DelaySystem | SampledSystem]:
    """Return the interval of a linear model (with signed queues), and the model at the present value."""
    value = parameter_value(protocol, name)
    if value is None:
        raise ValueError(f"parameter must be one that has a value, got {name!r}, which is None")

    def family(gain: float) -> DelaySystem | SampledSystem:
        return linearize(with_parameter(protocol, name, gain), network, time, **options)

    loss = critical_gain(protocol, network, name, time, certify, progress=progress, **options)
    present = family(value)
    stable = present.is_stable
    low, high = _nearest(loss.stable_ranges, value, stable)
    frequencies = {crossing.gain: crossing.frequency for crossing in loss.crossings}
    ends: list[tuple[float, tuple[float, float] | None]] = []
    for end, inward in ((low, 1.0), (high, -1.0)):
        proof = None
        if certify and end in frequencies:
            proof = loss.certified if end == loss.value else _certified_sides(family, end, inward)
        ends.append((frequencies.get(end, nan), proof))
    sampled, dt = present.sampling
    if any(family(end).sampling[1] != dt for end in (low, high) if end in frequencies):
        dt = None  # a control interval: steps differ in length
    interval = StableInterval(
        name,
        float(value),
        stable,
        low,
        inf if high == high and high not in frequencies else high,
        ends[0][1],
        ends[1][1],
        ends[0][0],
        ends[1][0],
        loss.stable_ranges,
        loss.complete_to,
        sampled,
        dt,
        loss.notes,
        _is_largest_allowed(protocol, name, loss.searched_to),
        searched_to=loss.searched_to,
    )
    return interval, present


def _is_largest_allowed(protocol: Protocol | ProtocolAssignment, name: str, value: float) -> bool:
    try:
        with_parameter(protocol, name, value * (1.0 + 2.0 * _LAST))
    except (ValueError, TypeError):
        return True
    return False


def _nearest(ranges: Sequence[tuple[float, float]], value: float, stable: bool) -> tuple[float, float]:
    """Return the interval that contains a value, or the nearest one; (nan, nan) without any."""

    def distance(interval: tuple[float, float]) -> float:
        return max(interval[0] - value, value - interval[1], 0.0)

    nearest = min(ranges, key=distance, default=(nan, nan))
    # A model may also be stable beyond the gains that were searched: then no interval around the value is known.
    return (nan, nan) if stable and nearest[1] == nearest[1] and distance(nearest) > _LAST * value else nearest


def _certified_sides(
    family: Callable[[float], DelaySystem | SampledSystem], end: float, inward: float
) -> tuple[float, float] | None:
    """Return two values next to an end at which a model is proven stable and unstable."""
    inside, outside = end * (1.0 + inward * _PROOF_OFFSET), end * (1.0 - inward * _PROOF_OFFSET)
    try:
        proven = family(inside).certify().stable is True and family(outside).certify().stable is False
    except (ValueError, EccError):  # outside the values that the protocol allows
        return None
    return (inside, outside) if proven else None


@dataclass(frozen=True, repr=False)
class ModelAnalysis(Displayed):
    """The results of one linear model.

    Attributes
    ----------
    time : str
        "continuous", "discrete" or "hybrid".
    system : DelaySystem or SampledSystem
        The model.
    verdict : str
        Verdict of the model at the present parameters.
    interval : StableInterval or None
        Stable values of the parameter; None if no parameter is named, or for the reason in `notes`.
    margins : Margins or None
        None if margins are not defined: for an unstable loop, or for a loop that is not opened at the routers.
    notes : tuple of str
        Notes of the model, its interval and its margins.
    other : OtherClocking or None
        Verdict of the model with the other clocking of windows; None if a clocking was named, or without windows.
    bifurcation : Bifurcation or None
        Kind of the bifurcation at the upper end of the interval; None if that is not known.
    """

    time: str
    system: DelaySystem | SampledSystem
    verdict: str
    interval: StableInterval | None
    margins: Margins | None
    notes: tuple[str, ...] = ()
    other: OtherClocking | None = None
    bifurcation: Bifurcation | None = None

    def _title(self) -> str:
        return f"{self.time.capitalize()} model: {self.verdict}"

    def _rows(self) -> Rows:
        rows: list[tuple[str, str]] = []
        if self.interval is not None:
            lower_proof, upper_proof = self.interval.lower_certified, self.interval.upper_certified
            edges = [proof for proof in (lower_proof, upper_proof) if proof is not None]
            rows += [
                (f"stable for {self.interval.parameter}", self.interval.text()),
                ("  proven stable at", ", ".join(f"{proof[0]:.10g}" for proof in edges)),
                ("  proven unstable at", ", ".join(f"{proof[1]:.10g}" for proof in edges)),
            ]
            ends = [w for w in (self.interval.lower_frequency, self.interval.upper_frequency) if w == w]
            sampled, dt = self.interval.sampled, self.interval.dt
            scale, unit = (1.0, "rad/step") if sampled and dt is None else (1.0 / (dt or 1.0), "rad/s")
            rows.append(
                ("  oscillation there", f"{', '.join(f'{scale * w:.4g}' for w in ends)} {unit}" if ends else "")
            )
        if self.bifurcation is not None:
            rows.append(("  bifurcation there", self.bifurcation.kind))
        if self.margins is not None:
            rows += [
                ("gain margin", quantity_text(self.margins.gain_margin, "")),
                ("phase margin", self.margins.phase_text()),
                ("delay margin", self.margins.delay_text()),
            ]
        return [(name, text) for name, text in rows if text]


@dataclass(frozen=True, repr=False)
class Analysis(Displayed):
    """The results on the stability of a protocol on a network, from `analyze`.

    Attributes
    ----------
    protocol, network : Protocol, Network
        The protocol and the network.
    parameter : str
        Name of the parameter of the interval, or empty.
    models : tuple of ModelAnalysis
        A ModelAnalysis for each available linear model.
    refused : dict
        Time of an unavailable model -> reason.
    switched : Switched or None
        Loops of the bottlenecks that switch at an empty queue, which may be negative in the models; None if there are
        none.
    switched_range : tuple of two float or None
        (smallest, largest) value of the parameter tried at which these loops are proven stable, together with all tried
        values between them; None if the present value is not proven stable.
    bounds : tuple of Bound
        The published bounds.
    cycle : RelayCycle or None
        The limit cycle of a protocol with relays as sources, by its describing function; or None.
    scaling_rtt : str
        The choice of the RTT d by routers, if flows have different RTTs and the law uses d; else empty.
    perturbation : SafePerturbation or None
        The perturbations that die out in fluid runs at the present parameters, for stable windows and below a
        subcritical limit; else None.
    cycles : tuple of LimitCycle
        The limit cycles of a loop without linear models, one for each time in which it was found.
    """

    protocol: Protocol | ProtocolAssignment
    network: Network
    parameter: str
    models: tuple[ModelAnalysis, ...]
    refused: dict[str, str]
    switched: Switched | None
    switched_range: tuple[float, float] | None
    bounds: tuple[Bound, ...]
    cycle: RelayCycle | None
    scaling_rtt: str = ""
    perturbation: SafePerturbation | None = None
    cycles: tuple[LimitCycle, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the models and the cycles, each once."""
        return tuple(dict.fromkeys(note for part in self._parts for note in part.notes))

    @property
    def _parts(self) -> tuple[ModelAnalysis | LimitCycle, ...]:
        return (*self.models, *self.cycles)

    @property
    def conclusion(self) -> str:
        """The verdict in one line, with the values of the parameter up to which it holds."""
        at = f"at {self.parameter} = {self._value():g}" if self.parameter else "at these parameters"
        if self.cycles:
            return self._conclusion_of_cycles()
        if not self.models:
            return f"not known, because {self._name} has no linear model here; a run shows the behavior"
        if self._has_signed_queue:
            return self._conclusion_above_zero(at)
        by_verdict: dict[str, list[str]] = {}
        for model in self.models:
            by_verdict.setdefault(model.verdict, []).append(model.time)
        if len(by_verdict) > 1:
            parts = (f"{verdict} in the {' and '.join(times)} model" for verdict, times in by_verdict.items())
            return f"the linear models differ {at}: {', '.join(parts)}"
        (verdict,) = by_verdict
        models = "all linear models" if self.models[1:] else f"the {self.models[0].time} model"
        return f"{verdict} {at} in {models}{self._reach(verdict)}"

    def _conclusion_of_cycles(self) -> str:
        """Return whether the loop returns to its limit cycles after small deviations."""
        words = {
            True: "the loop returns to its limit cycle after small deviations",
            False: "the limit cycle is unstable",
            None: "the stability of the limit cycle is undecided",
        }
        by_verdict: dict[bool | None, list[str]] = {}
        for cycle in self.cycles:
            by_verdict.setdefault(cycle.stable, []).append(cycle.time)
        return "; ".join(f"{words[verdict]} in {' and '.join(times)} time" for verdict, times in by_verdict.items())

    def _conclusion_above_zero(self, at: str) -> str:
        """Return the verdict on loops with the queue kept >= 0, because the models with signed queues have others."""
        verdict = None if self.switched is None or self.switched.caveat else self.switched.is_stable
        if verdict is None:
            return f"not known {at}, because the linear models hold for a signed queue only; a run shows the behavior"
        if not verdict or self.switched_range is None:
            return f"{'stable' if verdict else 'unstable'} {at}"
        low, high = self.switched_range
        return f"stable {at}; proven at the values of {self.parameter} tried from {low:.4g} to {high:.4g}"

    def _reach(self, verdict: str) -> str:
        """Return the values of the parameter around the present one at which all models are stable, as a clause."""
        intervals = [model.interval for model in self.models if model.interval is not None]
        if verdict not in ("stable", "unstable") or not intervals or len(intervals) < len(self.models):
            return ""
        if any(isnan(interval.lower) for interval in intervals):
            return f"; no value of {self.parameter} is known at which all are stable" if verdict == "unstable" else ""
        low, high = max(interval.lower for interval in intervals), min(interval.upper for interval in intervals)
        if low >= high:
            return ""
        if verdict == "unstable":
            values = f"above {low:.4g}" if high == inf else f"from {low:.4g} to {high:.4g}"
            return f"; stable for {self.parameter} {values}"
        start = f"down to {low:.4g} and " if low > 0.0 else ""
        if high == inf:
            return f", {start}up to the largest value searched"
        return f", {start}up to {self.parameter} = {high:.4g}, {high / self._value():.3g} times this value"

    def _note_rows(self) -> Rows:
        """Return rows of the notes, each with the models that it concerns."""
        about = {note: [part.time for part in self._parts if note in part.notes] for note in self.notes}
        return [(f"note ({', '.join(times)})", note) for note, times in about.items()]

    def _title(self) -> str:
        shown = [self.parameter] if self.parameter else []
        name = str(self.protocol) if isinstance(self.protocol, ProtocolAssignment) else label(self.protocol, *shown)
        return f"{name} on {self.network.summary()}"

    def _models(self) -> list[tuple[str, ...]]:
        """Return rows of a name and a cell for each model, without empty rows; the first row names the models."""
        if not self.models:
            return self._cycles()
        mark = " *" * self._has_signed_queue
        head = ("linear model" + mark, *(model.time for model in self.models))
        at = f"at {self.parameter} = {self._value():g}" if self.parameter else "at these parameters"
        rows: dict[str, list[str]] = {at: [model.verdict for model in self.models]}
        for k, model in enumerate(self.models):
            if model.other is not None:
                cells = rows.setdefault(f"  {CLOCKED[model.other.clocking]} instead", [""] * len(self.models))
                cells[k] = "no model" if model.other.verdict == "none" else model.other.verdict
        for k, model in enumerate(self.models):
            for name, text in model._rows():
                rows.setdefault(name, [""] * len(self.models))[k] = text
        return [head, *((name + mark, *cells) for name, cells in rows.items() if any(cells))]

    def _cycles(self) -> list[tuple[str, ...]]:
        """Return rows of a name and a cell for each limit cycle; the first row names the times."""
        if not self.cycles:
            return []
        rows: dict[str, list[str]] = {}
        for k, cycle in enumerate(self.cycles):
            for name, text in cycle._rows():
                rows.setdefault(name, [""] * len(self.cycles))[k] = text
        del rows["method"]
        times = [cycle.time if cycle.object == "cycle" else f"{cycle.time}, random" for cycle in self.cycles]
        return [("limit cycle", *times), *((name, *row) for name, row in rows.items())]

    @property
    def _has_signed_queue(self) -> bool:
        return any(model.system.has_signed_queue for model in self.models)

    @property
    def _name(self) -> str:
        is_protocol = isinstance(self.protocol, Protocol)
        return type(self.protocol).__name__ if is_protocol else str(self.protocol)

    def _value(self) -> float:
        return float(parameter_value(self.protocol, self.parameter))

    def _kept_above_zero(self) -> Rows:
        """Return the results with the queue kept >= 0; they precede those of models with signed queues."""
        if not self._has_signed_queue:
            return []
        switched, name = self.switched, self._name
        if switched is None:
            return [(_KEPT_ABOVE_ZERO, "not known")]
        verdict = {True: "stable", False: "unstable", None: "not known"}[switched.is_stable]
        rows = [(_KEPT_ABOVE_ZERO, f"{verdict}, but this is not a verdict on {name}" if switched.caveat else verdict)]
        loops = [] if switched.caveat else [str(loop).partition(": ") for loop in switched.loops]
        rows += [(f"  {link}", text) for link, _, text in loops[:_LOOPS]]
        rows += [("  ...", f"{len(loops)} links in all")] if len(loops) > _LOOPS else []
        rows += [(f"  of {name}", switched.caveat)] if switched.caveat else []
        interval = next((model.interval for model in self.models if model.interval is not None), None)
        if interval is not None and interval.switched_range is not None:
            rows.append((interval._tried_label(), interval._tried_text()))
        return rows

    def _common_rows(self) -> Rows:
        """Return the rows that concern all models."""
        rows: list[tuple[str, str]] = []
        if self._has_signed_queue:
            name = self._name
            rows.append((f"* not the loop of {name}", "in these models the queue may be negative"))
        if self.cycle is not None:
            rows += [(f"describing function, {name} of the queue", text) for name, text in self.cycle._rows()]
        rows += [(f"computed in {cycle.time} time by", cycle.method) for cycle in self.cycles]
        if self.perturbation is not None:
            rows.append(("in the fluid", self.perturbation.text()))
        for bound in self.bounds:
            condition = f"{bound.verdict} for {bound.parameter} {'>' if bound.above else '<'} {bound.value:.7g}"
            text = f"{condition} ({bound.kind}, {bound.time}; {bound.hypotheses})"
            rows.append((f"published, {bound.theorem}", text))
        rows += [("runs", self.protocol.run_findings)] if self.protocol.run_findings else []
        rows += [(f"no {name}" if " " in name else f"no {name} model", why) for name, why in self.refused.items()]
        rows += [("d of routers", self.scaling_rtt)] if self.scaling_rtt else []
        margins = _OF_DELAY_MARGINS if any(model.margins is not None for model in self.models) else ""
        return [*rows, *([("assumed", _ASSUMED + margins)] if self.models else [])]

    def _last_rows(self) -> Rows:
        return [*self._common_rows(), *self._note_rows(), ("conclusion", self.conclusion)]

    def __repr__(self) -> str:
        table = self._models()
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))] if table else []
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        first, rest = (
            [f"{name}: {text}" for name, text in rows] for rows in (self._kept_above_zero(), self._last_rows())
        )
        return "\n".join([self._title(), *first, *(f"  {line}" for line in lines), *rest])

    def _repr_html_(self) -> str:
        from html import escape

        models = ([f"<td>{escape(cell.strip())}</td>" for cell in row] for row in self._models())
        first = self._kept_above_zero()
        first_table = html_table(self._title(), first) if first else ""
        table = grid_html("" if first else self._title(), models)
        return first_table + table + html_table("", self._last_rows())

    def to_dict(self) -> dict[str, Any]:
        """Return all results as plain data, as `ecc stability --json` prints them."""
        return {
            "protocol": self._name,
            "parameter": self.parameter or None,
            "value": parameter_value(self.protocol, self.parameter) if self.parameter else None,
            "rtts": self.network.rtts.tolist(),
            "capacity": float(self.network.capacities[0]),
            "capacities": self.network.capacities.tolist(),
            "models": [self._model_dict(model) for model in self.models],
            "refused": self.refused,
            "conclusion": self.conclusion,
            "published": [asdict(bound) for bound in self.bounds],
            "cycle": None if self.cycle is None else asdict(self.cycle),
            "cycles": [_cycle_dict(cycle) for cycle in self.cycles],
            "safe_perturbation": None if self.perturbation is None else asdict(self.perturbation),
        }

    def _model_dict(self, model: ModelAnalysis) -> dict[str, Any]:
        interval, margins = model.interval, model.margins
        row: dict[str, Any] = {
            "model": model.time,
            "stable": {"stable": True, "unstable": False}.get(model.verdict),
            "frequency_unit": "rad/step" if model.system.sampling[0] else "rad/s",
            "step": model.system.sampling[1],
        }
        if interval is not None:
            first = next((low for low, _ in interval.ranges), nan)
            edges = [high for low, high in interval.ranges if low == 0.0]
            row |= {
                "critical": 0.0 if first != 0.0 else edges[0] if edges[0] < interval.searched_to else inf,
                "frequency": interval.upper_frequency,
                "interval": [interval.lower, interval.upper],
                "certified": [interval.lower_certified, interval.upper_certified],
                "frequencies": [interval.lower_frequency, interval.upper_frequency],
                "stable_ranges": [list(bounds) for bounds in interval.ranges],
                "complete_to": interval.complete_to,
                "searched_to": interval.searched_to,
            }
        for name in ("gain_margin", "phase_margin", "delay_margin"):
            row[name] = None if margins is None else getattr(margins, name)
        if self.switched is not None:
            verdict = None if self.switched.caveat else self.switched.is_stable
            row |= {"switched_stable": verdict, "switched": self.switched.caveat or str(self.switched)}
            row["switched_range"] = None if self.switched_range is None else list(self.switched_range)
        other = model.other
        row["other_clocking"] = None if other is None else {"clocking": other.clocking, "verdict": other.verdict}
        row["bifurcation"] = None if model.bifurcation is None else model.bifurcation.kind
        return row | {"notes": list(model.notes)}


@check_arguments
def analyze(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    parameter: str | None = None,
    times: Sequence[str] | None = None,
    certify: bool = True,
    progress: ProgressCallback | None = None,
    *,
    options: LinearOptions | None = None,
    **keywords: Unpack[LinearKeywords],
) -> Analysis:
    """Return the results of the linear models of a protocol on a network: verdicts, stable intervals, margins.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    parameter : str, optional
        Name of the parameter of the stable interval. None: the protocol's `main_parameter`. Without either, the
        interval is left out.
    times : sequence of str, optional
        Models to analyze; None: all models of the protocol.
    certify : bool, optional
        Whether to prove both sides of the ends of intervals by ball arithmetic.
    progress : callable, optional
        Called before each step with a `Progress`: the step, as `text`.
    options : LinearOptions, optional
        Options of the linear models: `assignment`, `mean_rtt` and `clocking`. Without `clocking`, the results for
        window protocols include the verdict of the paced model.
    **keywords : optional
        Fields of `LinearOptions`, instead of `options`.

    Returns
    -------
    Analysis
        Results; its repr is the output of `ecc stability`. A loop without linear models has its limit cycles instead,
        with the multipliers of deviations, if `limit_cycle` finds them. For stable windows, and below a subcritical
        limit, fluid runs measure which perturbations die out; this takes seconds.

    Raises
    ------
    LinearizationError
        The protocol has no linear model, or no equilibrium on this network, and no limit cycle was found; the message
        has the reasons and an alternative.
    ValueError
        The protocol does not have the parameter.

    Examples
    --------
    >>> net = ecc.Network.parking_lot(["100 Mb/s", "50 Mb/s", "80 Mb/s"])
    >>> analyze(ecc.models.RCP(queue_term=False), net).models[0].interval.stable
    True
    """
    protocol = read_protocol(protocol)
    name = parameter_of(protocol, parameter) if parameter or protocol.main_parameter else ""
    chosen = read_options(options, keywords, ("assignment", "mean_rtt", "clocking"), "analyze").given()

    def report(step: str) -> None:
        if progress is not None:
            progress(Step(step))

    if isinstance(protocol, Protocol) and (protocol.linear_refusal is not None or not protocol.times):
        return _without_model(protocol, network, times, _refusal(protocol), report)
    models, refused = [], {}
    for time in protocol.times if times is None else times:
        report(f"{time} model")
        try:
            system = linearize(protocol, network, time, **chosen)
        except SeveralClocks:
            if "clocking" in chosen:
                raise
            return analyze(protocol, network, parameter, times, certify, progress, **chosen, clocking="rate")
        except (ValueError, LinearizationError) as error:
            refused[time] = str(error)
            continue
        model = _of_model(protocol, network, name, time, system, certify, chosen, report)
        report(f"{time} model, its bifurcation")
        models.append(_checked(model, protocol, network, name, chosen))
    if not models:
        reasons = "; ".join(dict.fromkeys(refused.values()))
        if isinstance(protocol, Protocol):  # it has models on other networks
            raise LinearizationError(f"{reasons}; {_RUN}")
        return _without_model(protocol, network, times, reasons, report)
    switched = next((model.system.switched for model in models if model.system.switched is not None), None)
    scope = None
    if switched is not None and name and not switched.caveat:
        report("the loop at the empty queue")
        scope = _switched_range(protocol, network, name, models[0].time, switched, chosen)
        models = [_with_switched(model, switched.is_stable, scope) for model in models]
    perturbation = None
    if _needs_runs(protocol, models):
        report("perturbed fluid runs")
        perturbation = _perturbation(protocol, network, chosen, report)
    bounds = tuple(protocol.published_bounds(network))
    return Analysis(
        protocol,
        network,
        name,
        tuple(models),
        refused,
        switched,
        scope,
        bounds,
        None,
        _scaling_rtt(protocol, network, chosen.get("mean_rtt")),
        perturbation,
    )


def _checked(
    model: ModelAnalysis,
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    name: str,
    options: dict[str, Any],
) -> ModelAnalysis:
    """Return the model with the verdict of the other clocking and the bifurcation at the upper end of its interval."""
    other, bifurcation = None, None
    if "clocking" not in options:
        other = other_clocking(protocol, network, model.time, "ack", options)
    interval = model.interval
    if interval is not None and interval.stable and interval.upper < inf:
        end = StabilityLimit(
            interval.upper,
            interval.upper_frequency,
            None,
            (),
            0,
            interval.complete_to,
            sampled=interval.sampled,
            dt=interval.dt,
        )
        bifurcation = bifurcation_at(protocol, network, name, end, model.time, options)
    return replace(model, other=other, bifurcation=bifurcation)


def _needs_runs(protocol: Protocol | ProtocolAssignment, models: Sequence[ModelAnalysis]) -> bool:
    """Return whether a continuous model is stable, and has windows or is below a subcritical limit."""
    if not any(model.time == "continuous" and model.verdict == "stable" for model in models):
        return False
    kinds = [model.bifurcation.kind for model in models if model.bifurcation is not None]
    return has_clockings(protocol) or has_granted_windows(protocol) or "subcritical" in kinds


def _perturbation(
    protocol: Protocol | ProtocolAssignment, network: Network, options: dict[str, Any], report: Callable[[str], None]
) -> SafePerturbation | None:
    named = {option: value for option, value in options.items() if option in ("assignment", "clocking")}
    try:
        return safe_perturbation(
            protocol, network, progress=lambda step: report(f"perturbed fluid runs: {step}"), **named
        )
    except (ValueError, EccError):  # the network or the protocol has no fluid model
        return None


def _scaling_rtt(protocol: Protocol | ProtocolAssignment, network: Network, mean_rtt: Any) -> str:
    """Return how routers determine d, in words; empty if all methods agree, or if no law uses d."""
    if isinstance(protocol, ProtocolAssignment) or not router_takes(protocol, "d"):
        return ""
    if mean_rtt is not None and not isinstance(mean_rtt, str):
        return f"as given, {', '.join(quantity_text(float(d), 's') for d in np.asarray(mean_rtt)[:_LOOPS])}"
    if float(np.ptp(network.rtts)) == 0.0:
        return ""
    if protocol.scaling_rtt == "max":
        return "the largest RTT of a link's flows"
    over = "packets" if mean_rtt == "packets" else "flows"
    other = {"packets": "flows", "flows": "packets"}[over]
    return f"the mean RTT over the {over} of a link; --mean-rtt {other} (mean_rtt='{other}') takes it over {other}"


def _of_model(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    name: str,
    time: str,
    system: DelaySystem | SampledSystem,
    certify: bool,
    options: dict[str, Any],
    progress: ProgressCallback | None,
) -> ModelAnalysis:
    notes = dict.fromkeys(system.notes)
    interval: StableInterval | None = None
    margins: Margins | None = None
    try:
        interval = _interval(protocol, network, name, time, certify, options, progress)[0] if name else None
        notes |= dict.fromkeys(interval.notes if interval is not None else ())
    except (ConvergenceError, UndecidedError, LinearizationError) as error:
        notes[f"no stable interval of {name}: {error}"] = None
    if system.verdict == "stable" and system.opened is not None and system.opened.notes:
        notes |= dict.fromkeys(f"no margins: {note}" for note in system.opened.notes)
    elif system.verdict == "stable":
        try:
            margins = system.margins()
        except ConvergenceError as error:
            notes[f"no margins: no isolated crossover frequencies ({error})"] = None
        except LinearizationError as error:  # too many states
            notes[f"no margins: {error}"] = None
    return ModelAnalysis(time, system, system.verdict, interval, margins, tuple(notes))


def _with_switched(model: ModelAnalysis, stable: bool | None, scope: tuple[float, float] | None) -> ModelAnalysis:
    if model.interval is None or not model.system.has_signed_queue:
        return model
    return replace(model, interval=replace(model.interval, switched_stable=stable, switched_range=scope))


def _switched_range(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    name: str,
    time: str,
    present: Switched,
    options: dict[str, Any],
) -> tuple[float, float] | None:
    """Return the range of tried values around the present one that the theorem of the empty queue proves stable."""

    def proven(value: float) -> bool:
        try:
            switched = linearize(with_parameter(protocol, name, value), network, time, **options).switched
        except (ValueError, LinearizationError):
            return False
        return switched is not None and all(
            not _decays_slowly(loop) and empty_queue_proves(loop.alpha, loop.beta, loop.rtts) for loop in switched.loops
        )

    if not all(loop.proven for loop in present.loops):
        return None
    value = float(parameter_value(protocol, name))
    low = high = value
    for _ in range(_HALVINGS):
        if not proven(0.5 * low):
            break
        low *= 0.5
    while high < 1e3 * value and proven(_STEP * high):
        high *= _STEP
    unproven = _STEP * high
    for _ in range(_BISECTIONS if high < 1e3 * value else 0):
        middle = 0.5 * (high + unproven)
        high, unproven = (middle, unproven) if proven(middle) else (high, middle)
    return low, high


def _decays_slowly(loop: SwitchedLoop) -> bool:
    """Return whether an oscillation without a queue decays so slowly that its proof would take minutes."""
    delays = np.array(loop.rtts) / np.mean(loop.rtts)
    root = DelaySystem(np.full(len(delays), -loop.alpha / len(delays)), delays).roots(1)[0]
    return bool(root.imag != 0.0 and root.real > _SLOWEST)


def _without_model(
    protocol: Protocol | ProtocolAssignment,
    network: Network,
    times: Sequence[str] | None,
    reason: str,
    report: Callable[[str], None],
) -> Analysis:
    """Return the analysis of the limit cycles of a loop that has no linear model for a reason.

    Raises
    ------
    LinearizationError
        No cycle was found.
    """
    relay = None
    if isinstance(protocol, Protocol) and protocol.has_relay():
        with suppress(ValueError, LinearizationError):
            relay = relay_cycle(protocol, network)
    refused, cycles = {"linear": reason}, []
    for time in TIMES if times is None else [time for time in times if time in TIMES]:
        try:
            cycle = limit_cycle(protocol, network, time, progress=lambda step: report(f"limit cycle, {step}"))
        except (ValueError, LinearizationError) as error:
            refused[f"{time} cycle"] = str(error)
        else:
            cycles.append(cycle)
    if not cycles and relay is None:
        raise LinearizationError("; ".join([*list(refused.values())[:2], _RUN]))
    return Analysis(protocol, network, "", (), refused, None, None, (), relay, cycles=tuple(cycles))


def _cycle_dict(cycle: LimitCycle) -> dict[str, Any]:
    """Return the numbers and the verdict of a limit cycle as plain data."""
    names = ("object", "time", "period", "mean", "amplitude", "along", "stable", "proven", "method", "notes")
    row = {name: getattr(cycle, name) for name in names}
    row["multipliers"] = [[float(value.real), float(value.imag)] for value in cycle.multipliers]
    return row


def _refusal(protocol: Protocol) -> str:
    """Return why a protocol has no linear model, and over which queue discipline it has one."""
    reason = protocol.linear_refusal
    if isinstance(reason, str):
        return f"{reason}{_over_discipline(protocol)}"
    needs_queue = protocol.has_hosts() and protocol.loss_response_law is not None
    discipline = " without a queue discipline that drops or marks (links of the scenario)" if needs_queue else ""
    return f"{type(protocol).__name__} has no linear model{discipline}"


def _over_discipline(protocol: Protocol) -> str:
    """Return how to name the queue discipline over which a protocol has linear models; empty without one."""
    loop = protocol.reference_loop
    if loop is None or not loop.discipline:
        return ""
    try:
        linearize(*case_on(protocol, loop))
    except (ValueError, EccError):
        return ""
    flows, links = (f'{{ default = {{ name = "{name}" }} }}' for name in (type(protocol).__name__, loop.discipline))
    halves = f"protocol = {{ flows = {flows}, links = {links} }}"
    return f"; over a queue discipline it has linear models: --links {loop.discipline}, or in a scenario, {halves}"
