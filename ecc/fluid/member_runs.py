"""Results of members of an ensemble, alone or in the arrays of many, and the members that a generated kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from ecc._support.arguments import shown
from ecc.fluid.network.result import Result
from ecc.fluid.network.simulation import Prepared, prepare, run_together
from ecc.results.members import Varied, or_error
from ecc.results.metrics import evaluated
from ecc.scenario import Scenario

if TYPE_CHECKING:
    from ecc.fluid.network.generated_runs import Batch, GeneratedRuns, Member

__all__ = ["GeneratedMembers", "Measures", "MemberRun", "MemberRunner", "batches"]

_STARTS = ("start", "perturbation")
_MAX_BATCH = 16
"""Maximum number of members that a thread takes at once."""
_MAX_GENERATED_BATCH = 256
"""This number if a generated kernel may run them."""


@dataclass(frozen=True)
class MemberRun:
    """The result of a member, or the entry at `place` of the arrays of a batch of members.

    `error`: reasons for metrics that cannot be computed, or "".
    """

    prepared: Prepared
    result: Result
    place: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def rows(self) -> int:
        """Number of complete samples."""
        return len(self.result.time)

    def series(self) -> dict[str, Any]:
        """Return the series of the member, or those of all members of its batch."""
        return self.prepared.series(self.result)

    def alone(self) -> Result:
        """Return the result of the member only."""
        return self.result if self.place is None else self.result.of_member(self.place)


def batches(runs: Sequence[MemberRun | None]) -> Iterator[tuple[list[MemberRun], list[int]]]:
    """Yield the runs that share arrays, and their places among all members.

    Parameters
    ----------
    runs : sequence of MemberRun or None
    """
    by_result: dict[int, tuple[list[MemberRun], list[int]]] = {}
    for k, run in enumerate(runs):
        if run is not None:
            batch, places = by_result.setdefault(id(run.result), ([], []))
            batch.append(run)
            places.append(k)
    yield from by_result.values()


class GeneratedMembers:
    """Runs of members by a generated kernel, if they are recurrences that differ in parameters and starts only.

    The first member that passes all checks is the pattern of all others. Members that the kernel does not complete, or
    whose parameters change other declarations of the protocol, are left to the engine of single runs.

    Parameters
    ----------
    varied : Varied
        Names that the ensemble may vary.
    options : mapping
        Options of all runs, as in `simulate`.
    values : sequence of mapping
        Varied values of each member.
    prepare_member : callable
        Function of these values that returns a `Prepared`.
    """

    def __init__(
        self,
        varied: Varied,
        options: Mapping[str, Any],
        values: Sequence[Mapping[str, Any]],
        prepare_member: Callable[[dict[str, Any]], Prepared],
    ) -> None:
        self._options, self._values, self._prepare = options, values, prepare_member
        self._parameters = [name for name in values[0] if name not in _STARTS]
        names = varied.parameters_of_protocol
        self.is_possible = options["time"] == "discrete" and all(name in names for name in self._parameters)
        self._lock, self._is_decided = Lock(), not self.is_possible
        self._runs: GeneratedRuns | None = None

    def run(self, which: Sequence[int]) -> dict[int, Any]:
        """Return the runs that the kernel has completed, by member.

        Parameters
        ----------
        which : sequence of int
            Numbers of members.
        """
        with self._lock:
            for k in which:
                if not self._is_decided:
                    self._decide(k)
        runs, results = self._runs, dict[int, Any]()
        if runs is None:
            return results
        for begin in range(0, len(which), runs.batch):
            part = which[begin : begin + runs.batch]
            batch = self._together(runs, part)
            if batch is None:
                alike = {k: member for k in part if (member := self._member(runs, k)) is not None}
                part = list(alike)
                batch = runs.apart(list(alike.values())) if alike else None
            if reason := self._reason_to_end():
                results.update((k, MemberRun(runs.first, runs.nothing(reason))) for k in part)
            elif batch is not None:
                result, completed = runs.run(batch)
                results.update((k, MemberRun(runs.first, result, i)) for i, k in enumerate(part) if completed[i])
        return results

    def attributes(self) -> dict[str, Any]:
        """Return how the members were run, as attributes of the result."""
        if self._runs is None:
            return {"kernel": "single runs"}
        return {"kernel": "generated", "compile_seconds": self._runs.kernel.seconds}

    def _decide(self, k: int) -> None:
        """Choose the kernel by a member, if the member passes its checks."""
        prepared = or_error(self._prepare, dict(self._values[k]))
        if isinstance(prepared, Exception):
            return
        self._is_decided = True
        from ecc.fluid.network import recurrence

        if prepared.model is recurrence:
            from ecc.fluid.network.generated_runs import GeneratedRuns

            self._runs = GeneratedRuns.of(prepared, len(self._values))
            self._start = self._values[k].get("start", self._options["start"])

    def _together(self, runs: GeneratedRuns, which: Sequence[int]) -> Batch | None:
        """Return members that are checked together, or None."""
        if not self._parameters or len(self._parameters) < len(self._values[0]):
            return None
        start, perturbation = (self._options[name] for name in _STARTS)
        return runs.together([self._values[k] for k in which], start, perturbation)

    def _member(self, runs: GeneratedRuns, k: int) -> Member | None:
        values = self._values[k]
        start, perturbation = (values.get(name, self._options[name]) for name in _STARTS)
        if isinstance(start, str) or isinstance(self._start, str):
            if not (isinstance(start, str) and isinstance(self._start, str) and start == self._start):
                return None
        return runs.member({name: values[name] for name in self._parameters}, start, perturbation)

    def _reason_to_end(self) -> str:
        """Return why no further member may begin, or "" if it may."""
        try:
            self._options["progress"](0.0)
        except KeyboardInterrupt:
            return "interrupted"
        cancel = self._options["cancel"]
        return "canceled" if cancel is not None and cancel() else ""


@dataclass
class Measures:
    """Quantities that are taken from the run of each member: metrics as in `evaluated`, and names of series."""

    metrics: Mapping[str, tuple[str, Mapping[str, Any]]]
    arguments: Mapping[str, Any]
    series: Sequence[str]
    available: list[str] = field(default_factory=list)

    def check_series(self, run: MemberRun) -> None:
        """Refuse names of series that runs do not have.

        Parameters
        ----------
        run : MemberRun
        """
        if self.series and not self.available:
            self.available.extend(run.series())
        for name in self.series:
            if name not in self.available:
                raise ValueError(f"series must be among {', '.join(self.available)}, got {shown(name)}")

    def of(self, run: MemberRun, scenario: Scenario) -> MemberRun:
        """Return the run of a member with its metrics, if it completed.

        Parameters
        ----------
        run : MemberRun
        scenario : Scenario
            Scenario of the member.
        """
        result = run.alone()
        if result.stopped != "completed":
            return run
        trajectory = replace(run.prepared, scenario=scenario).trajectory(result, scenario.to_toml())
        values, reasons = evaluated(trajectory, scenario, self.metrics, self.arguments)
        return replace(run, metrics=values, error="; ".join(f"{name}: {why}" for name, why in reasons.items()))


class MemberRunner:
    """Runs of the members of an ensemble, by a generated kernel or by the engines of single runs.

    Parameters
    ----------
    varied : Varied
    options : mapping
        Options of all runs, as in `simulate`.
    values : sequence of mapping
        Varied values of each member.
    measures : Measures
    """

    def __init__(
        self, varied: Varied, options: Mapping[str, Any], values: Sequence[Mapping[str, Any]], measures: Measures
    ) -> None:
        self._varied, self._options, self._values, self._measures = varied, options, values, measures
        self._shared: dict[Any, Any] = {}
        self.generated = GeneratedMembers(varied, options, values, partial(self._prepared, copy(varied)))
        self.together = _MAX_GENERATED_BATCH if self.generated.is_possible else _MAX_BATCH

    def worker(self) -> Callable[[Sequence[int]], list[Any]]:
        """Return the function of a thread, from the numbers of members to their results or exceptions."""
        return partial(self._run, copy(self._varied))

    def _prepared(self, varied: Varied, values: Mapping[str, Any]) -> Prepared:
        scenario, own_options = varied.member(values)
        return prepare(scenario, shared=self._shared, **{**self._options, **own_options})

    def _run(self, varied: Varied, which: Sequence[int]) -> list[Any]:
        runs = self.generated.run(which)
        rest = [k for k in which if k not in runs]
        for first in range(0, len(rest), _MAX_BATCH):
            part = rest[first : first + _MAX_BATCH]
            runs.update(zip(part, self._run_alone(varied, part), strict=True))
        if self._measures.metrics or self._measures.series:
            for k, run in runs.items():
                if isinstance(run, MemberRun):
                    runs[k] = or_error(partial(self._measured, varied, run), dict(self._values[k]))
        return [runs[k] for k in which]

    def _run_alone(self, varied: Varied, which: Sequence[int]) -> list[Any]:
        ready = [or_error(partial(self._prepared, varied), dict(self._values[k])) for k in which]
        results = iter(run_together([prepared for prepared in ready if not isinstance(prepared, Exception)]))
        return [
            prepared
            if isinstance(prepared, Exception)
            else result
            if isinstance(result := next(results), Exception)
            else MemberRun(prepared, result)
            for prepared in ready
        ]

    def _measured(self, varied: Varied, run: MemberRun, values: Mapping[str, Any]) -> MemberRun:
        self._measures.check_series(run)
        return self._measures.of(run, varied.member(values)[0]) if self._measures.metrics else run
