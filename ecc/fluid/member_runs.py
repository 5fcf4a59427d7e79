"""Results of members of an ensemble, alone or in the arrays of many, and the members that a generated kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from ecc.fluid.network.result import Result
from ecc.fluid.network.simulation import Prepared
from ecc.results.members import Varied, or_error

if TYPE_CHECKING:
    from ecc.fluid.network.generated_runs import GeneratedRuns, Member

__all__ = ["GeneratedMembers", "MemberRun", "batches"]

_STARTS = ("start", "perturbation")


@dataclass(frozen=True)
class MemberRun:
    """The result of a member, or the entry at `place` of the arrays of a batch of members."""

    prepared: Prepared
    result: Result
    place: int | None = None

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
            alike = {k: member for k in part if (member := self._member(runs, k)) is not None}
            if reason := self._reason_to_end():
                results.update((k, MemberRun(runs.first, runs.nothing(reason))) for k in alike)
            elif alike:
                result, completed = runs.run(list(alike.values()))
                results.update((k, MemberRun(runs.first, result, i)) for i, k in enumerate(alike) if completed[i])
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
