"""Members of an ensemble of recurrences, run by one generated kernel (`generated_steps`), many by one call.

A member differs from a first run in parameters of its protocol, in its start or in its perturbation. Only what depends
on these is computed for it: the checks of its protocol, its parameters and its initial conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import getattr_static
from keyword import iskeyword
from math import ceil
from numbers import Real
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.columns import Column
from ecc.contract.assignment import with_parameters
from ecc.contract.entries import ENTRIES
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.protocol import Protocol
from ecc.fluid.network import recurrence
from ecc.fluid.network.generated_steps import MAX_CROSSINGS, POINTERS, Kernel, Structure, kernel_of
from ecc.fluid.network.initial_conditions import InitialConditions
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.recurrence import NEVER, Setup, series_of, setup_of
from ecc.fluid.network.result import TOTALS, Result
from ecc.fluid.network.simulation import Prepared

__all__ = ["Batch", "GeneratedRuns", "Member", "seconds_of", "structure_of"]

FloatArray = NDArray[np.float64]

_MAX_STEPS = 5_000_000
"""Maximum number of steps of a member: a call of the kernel ends with a member only, and Ctrl-C waits for it."""
_OTHER_ENTRIES = ("is_responsive", "fluid_refusal", "answers", "gives", "receiver_window")
"""Entries of a protocol that determine whether a scenario or a fluid run is possible."""
_OF_INITIAL = ("initial", "floor")
"""Entries whose values the initial conditions of each member use."""
_MAX_BATCH, _STEPS_OF_BATCH = 256, 2e7
_RUN, _FAILED = 0, 1


def structure_of(problem: Problem) -> Structure | None:
    """Return the structure that a kernel can be generated for, or None: the engine of single runs is then used.

    No kernel is generated for parameters that are arrays, delays from a table with several rows, runs of more than
    5,000,000 steps, and networks with more than `MAX_CROSSINGS` pairs of a group of flows and a link. Neither is one if
    Numba replaces mathematical functions by those of Intel's library, which has other rounding errors.

    Parameters
    ----------
    problem : Problem
        Problem of a recurrence.
    """
    protocol, fluid, params = problem.protocol, problem.fluid, problem.protocol.params()
    interval = params["interval"]
    if (
        sum(map(len, fluid.routes)) > MAX_CROSSINGS
        or not all(isinstance(value, Real) for value in params.values())
        or not all(name.isidentifier() and not iskeyword(name) and name[0] != "_" for name in params)
        or (problem.delays is not None and len(problem.delays.ahead) > 1)
        or float(problem.samples[-1]) > _MAX_STEPS * float(interval)
        or numba.config.USING_SVML  # type: ignore[attr-defined]  # set when it is imported
    ):
        return None
    return Structure(
        tuple(fluid.routes),
        tuple(tuple(map(bool, responds)) for responds in fluid.responds),
        fluid.n_links,
        protocol.combine,
        protocol.scaling_rtt == "max",
        protocol.router_law,
        protocol.source_law,
        protocol.announce_law,
        protocol.priority_law,
        tuple(params),
        problem.records,
    )


def seconds_of(problem: Problem, n_members: int) -> float:
    """Return about how much CPU time members take one by one [s].

    Parameters
    ----------
    problem : Problem
        Problem of a recurrence.
    n_members : int
    """
    crossings = sum(map(len, problem.fluid.routes))
    steps = float(problem.samples[-1]) / float(problem.protocol.params()["interval"])
    return n_members * (_SECONDS_OF_MEMBER + _SECONDS_OF_STEP * steps * crossings)


_SECONDS_OF_MEMBER, _SECONDS_OF_STEP = 7e-4, 3e-8


@dataclass(frozen=True)
class Member:
    """What a member differs in: its protocol, and the point and the factor of its start, as in `Problem`."""

    protocol: Protocol
    params: list[float]
    point: Equilibrium | None
    factor: float


@dataclass(frozen=True)
class Batch:
    """Members that run by one call: their parameters, and the place of each in the list of initial conditions."""

    params: FloatArray  # (n_members, n_parameters)
    initial: list[InitialConditions]
    which: NDArray[np.intp]  # (n_members,)
    floor: FloatArray  # (n_members or 1, n_groups): minimum rate, as bits an RTT


class GeneratedRuns:
    """Runs of members that are like a first one but for parameters and starts.

    Parameters
    ----------
    first : Prepared
        The first run, of a recurrence.
    structure : Structure
        Its structure.
    kernel : Kernel
        Kernel of this structure.
    """

    def __init__(self, first: Prepared, structure: Structure, kernel: Kernel) -> None:
        self.first, self.problem, self.structure, self.kernel = first, first.problem, structure, kernel
        problem = first.problem
        self._points: dict[Any, Equilibrium | None] = {}
        self.setup = setup_of([problem])
        self._initial: dict[Any, InitialConditions] = {}
        protocol = problem.protocol
        kind, parameters = type(protocol), {f.name for f in fields(protocol)}
        names = dict.fromkeys([*ENTRIES, *_OTHER_ENTRIES])
        self._fixed = frozenset(name for name in names if name in parameters and name not in _OF_INITIAL)
        computed = [name for name in names if isinstance(getattr_static(kind, name, None), property | cached_property)]
        self._computed = {name: getattr(protocol, name) for name in computed if name not in parameters}
        self._interval = protocol.params()["interval"]

    @classmethod
    def of(cls, first: Prepared, n_members: int) -> GeneratedRuns | None:
        """Return the runs of an ensemble, or None if no kernel can be generated, or takes longer than it saves.

        Parameters
        ----------
        first : Prepared
        n_members : int
        """
        structure = structure_of(first.problem)
        if structure is None:
            return None
        try:
            kernel = kernel_of(structure, seconds_of(first.problem, n_members))
        except TypeError:  # the engine of single runs compiles laws in another way, or gives the reason
            return None
        return None if kernel is None else cls(first, structure, kernel)

    @property
    def batch(self) -> int:
        """Number of members to run by one call, which takes about 0.1 s at most."""
        return max(1, min(_MAX_BATCH, int(_STEPS_OF_BATCH / (self.steps * len(self.structure.crossings)))))

    def nothing(self, stopped: str) -> Result:
        """Return the result of a member that did not start.

        Parameters
        ----------
        stopped : str
            The reason.
        """
        n, L, G = len(self.setup.samples), self.structure.n_links, self.structure.n_groups
        series = series_of(self.setup, np.zeros((1, n, 4, L)), np.zeros((1, n, 4, G)), np.zeros((1, 4, G)))
        return Result(
            time=self.problem.samples[:0],
            **{name: values[0] if name in TOTALS else values[0, :0] for name, values in series.items()},
            stats={"steps": 0, "rejected": 0},
            recorded={"flow.x": np.empty((0, G)), "link.R": np.empty((0, L))},
            stopped=stopped,
        )

    @property
    def steps(self) -> int:
        """Number of steps of a member."""
        return ceil(float(self.setup.samples[-1]))

    def member(self, values: Mapping[str, Any], start: str | ArrayLike, perturbation: float) -> Member | None:
        """Return a member with other values of parameters, or None if it needs the checks of a single run.

        Parameters
        ----------
        values : mapping
            Name of a parameter -> value.
        start, perturbation
            As in `simulate`; `start` is a word, the one of the first run, or an array if that is one.
        """
        if not self._fixed.isdisjoint(values):
            return None
        try:
            protocol = with_parameters(self.problem.protocol, values) if values else self.problem.protocol
            params = protocol.params()
            if any(getattr(protocol, name) != value for name, value in self._computed.items()):
                return None
            point, factor = self._start_of(values, protocol, start, perturbation)
        except Exception:  # a single run raises it again
            return None
        numbers = list(params.values())
        is_alike = tuple(params) == self.structure.parameters and params["interval"] == self._interval
        if not is_alike or not all(type(number) is float or isinstance(number, Real) for number in numbers):
            return None
        return Member(protocol, numbers, point, factor)

    def _start_of(
        self, values: Mapping[str, Any], protocol: Protocol, start: str | ArrayLike, perturbation: float
    ) -> tuple[Equilibrium | None, float]:
        """Return the point and the factor of a start, as in `Problem`."""
        factor = self.first.factor_of(start, perturbation)
        if not isinstance(start, str):
            return self.first.point_of(protocol, start), factor
        if start == "empty":
            return None, factor
        key = tuple(values.items())
        if key not in self._points:
            self._points[key] = self.first.point_of(protocol, start)
        return self._points[key], factor

    def together(
        self, values: Sequence[Mapping[str, Any]], start: str | ArrayLike, perturbation: float
    ) -> Batch | None:
        """Return members that differ in parameters only, checked together; None if that is not possible.

        Parameters
        ----------
        values : sequence of mapping
            For each member, name of a parameter -> value.
        start, perturbation
            As in `simulate`, the same for all.
        """
        names = values[0].keys()
        is_empty = isinstance(start, str) and start == "empty"
        if not is_empty or not self._fixed.isdisjoint(names) or not names.isdisjoint(_OF_INITIAL):
            return None
        try:
            columns = {name: Column.of([member[name] for member in values]) for name in names}
            protocol = with_parameters(self.problem.protocol, columns)
            params = protocol.params()
            if any(getattr(protocol, name) != value for name, value in self._computed.items()):
                return None
            factor = self.first.factor_of(start, perturbation)
            initial = InitialConditions.of(protocol, self.setup.laws, self.problem.fluid, None, factor)
            floor = self.problem.fluid.floor(protocol)
        except Exception:  # each member is checked alone
            return None
        arrays = [floor, *(array for field in fields(initial) if np.ndim(array := getattr(initial, field.name)))]
        is_alike = tuple(params) == self.structure.parameters and params["interval"] == self._interval
        if not is_alike or any(array.dtype == object for array in arrays):
            return None
        numbers = np.empty((len(values), len(params)))
        for column, number in enumerate(params.values()):
            if not isinstance(number, Real):
                return None
            numbers[:, column] = number.values if isinstance(number, Column) else number
        return Batch(numbers, [initial], np.zeros(len(values), dtype=np.intp), floor[None])

    def apart(self, members: Sequence[Member]) -> Batch:
        """Return members that were checked one by one.

        Parameters
        ----------
        members : sequence of Member
        """
        initial, which = self._initial_conditions(members)
        floor = np.array([self.problem.fluid.floor(member.protocol) for member in members])
        return Batch(np.array([member.params for member in members]), initial, which, floor)

    def run(self, batch: Batch) -> tuple[Result, NDArray[np.bool_]]:
        """Return the results of members, arrays of shape (n_members, ...), and whether each completed.

        Parameters
        ----------
        batch : Batch

        Notes
        -----
        A member that does not complete has to be run alone, for the time and the reason of its end.
        """
        n, structure, layout = len(batch.params), self.structure, self.kernel.layout
        setup = replace(self.setup, problems=[self.problem] * len(batch.initial), initial=batch.initial)
        floats, integers = np.empty((n, len(layout.floats))), np.empty((n, len(layout.integers)), dtype=np.int64)
        memory = self._pack(setup, batch, floats, integers)
        L, G, samples = structure.n_links, structure.n_groups, np.asarray(setup.samples)
        scratch, int_scratch = layout.scratch(structure, setup.ring_size, memory)
        recorded = len(samples) if structure.records else 0
        arrays: dict[str, NDArray[Any]] = {
            "floats": floats,
            "samples": samples,
            "scratch": _aligned(scratch),
            "out_links": np.empty((n, len(samples), 4, L)),
            "out_groups": np.empty((n, len(samples), 4, G)),
            "finals": np.empty((n, 4, G)),
            "rates": np.empty((n, recorded, G)),
            "states": np.empty((n, recorded, L)),
            "integers": integers,
            "int_scratch": np.zeros(int_scratch, dtype=np.int64),
            "outcome": np.full((n, 2), _FAILED),
            "counter": np.zeros(1, dtype=np.int64),
        }
        self._run_all(arrays, n)
        completed: NDArray[np.bool_] = arrays["outcome"][:, 0] == _RUN
        for name in ("out_links", "out_groups", "finals"):
            arrays[name][~completed] = 0.0  # Not written to the end: any numbers, whose differences may overflow
        series = series_of(self.setup, arrays["out_links"], arrays["out_groups"], arrays["finals"])
        states = {"flow.x": arrays["rates"], "link.R": arrays["states"]}
        stats = {"steps": self.steps, "rejected": 0}
        return Result(time=self.problem.samples, **series, stats=stats, recorded=states), completed

    def _run_all(self, arrays: Mapping[str, NDArray[Any]], n: int) -> None:
        """Run n members. If a law raises, the members that run at the same time run again, each alone."""
        table, lanes = np.array([arrays[name].ctypes.data for name in POINTERS]), self.structure.lanes
        first = 0
        while first < n:
            try:
                self.kernel.run(table, first, n)
                first = n
            except Exception:
                failed = int(arrays["counter"][0])
                first = failed + lanes
                for k in range(failed, min(first, n) if lanes > 1 else failed):
                    with suppress(Exception):
                        self.kernel.run(table, k, k + 1)

    def _initial_conditions(self, members: Sequence[Member]) -> tuple[list[InitialConditions], NDArray[np.intp]]:
        """Return the distinct initial conditions, and the place of those of each member."""
        fluid, laws, conditions = self.problem.fluid, self.setup.laws, dict[Any, InitialConditions]()
        places: dict[Any, int] = {}
        which = []
        bits, capacities = 8.0 * fluid.packet_size, fluid.capacity.tolist()
        for k, member in enumerate(members):
            protocol = member.protocol
            key: Any = k
            if member.point is None:
                opening: Any = protocol.opening_rate(fluid.rtt, bits)
                opening = opening.tobytes() if isinstance(opening, np.ndarray) else float(opening)
                ranges = tuple(map(protocol.rate_range, capacities))
                key = ("empty", protocol.initial, protocol.floor, opening, ranges)
            if key not in places:
                if key not in self._initial:
                    made = InitialConditions.of(protocol, laws, fluid, member.point, member.factor)
                    if member.point is not None:
                        places[key], conditions[key] = len(places), made
                        which.append(places[key])
                        continue
                    self._initial[key] = made
                places[key], conditions[key] = len(places), self._initial[key]
            which.append(places[key])
        return list(conditions.values()), np.array(which)

    def _pack(self, setup: Setup, batch: Batch, floats: FloatArray, integers: NDArray[np.int64]) -> int:
        """Write the columns of members; return the number of steps that a queue keeps."""
        fluid, T, each = setup.fluid, setup.interval, setup.each
        memory = 1 << (setup.memory - 1).bit_length()  # a longer one never fails where that of the engine does not
        queue = each("queue")
        waiting = queue / (fluid.capacity * T)
        setup = replace(setup, waiting=waiting)
        sending, opens, rtt = np.isneginf(each("opens")), setup.steps(each("opens")), setup.around * T
        which, floor = batch.which, batch.floor
        of_float = {
            "T": T,
            "C": fluid.capacity,
            "buffer": fluid.buffer,
            "low": each("lowest")[which],
            "high": each("highest")[which],
            "state": each("state")[which],
            "queue": queue[which],
            "remaining": (waiting % 1.0 * fluid.capacity * T)[which],
            "wait_at_start": (waiting * T)[which],
            "y": each("measured")[which, 0],
            "urgency_at_start": each("priority")[which],
            "advertised_at_start": each("advertised")[which],
            "rtt": rtt,
            "members": fluid.members,
            "floor": floor,
            "floor_rate": floor / rtt,
            "size": fluid.size,
            "x": each("x")[which],
            "sent_at_start": np.where(sending, each("x"), 0.0)[which],
            "carried_at_start": (rtt + each("rtt") - fluid.rtt)[which],
        }
        announces_first = each("announces_first")[:, None]
        of_integer = {
            "last": self.steps,
            "n_samples": len(setup.samples),
            "mask": setup.ring_size - 1,
            "memory": memory,
            "waited": np.where(waiting.any(axis=1), 0, -NEVER)[which, None],
            "head": -np.floor(waiting).astype(np.int64)[which],
            "advertises_from": np.where(each("measures_first"), NEVER, -NEVER)[which, None],
            "opens": opens[which],
            "stops": setup.steps(fluid.stop),
            "responds_after": np.where(announces_first, -NEVER, opens)[which],
            "bottleneck_at_start": np.where(sending, each("bottleneck"), recurrence.NOT_STARTED)[which],
            "ahead": setup.ahead[0],
            "back": setup.back[0],
        }
        names = self.kernel.layout
        parameters = len(self.structure.parameters)
        floats[:, 1 : 1 + parameters] = batch.params
        for columns, array, sources in ((names.floats, floats, of_float), (names.integers, integers, of_integer)):
            for name, values in sources.items():
                _fill(array, columns, name, values)
        return memory


def _aligned(size: int) -> FloatArray:
    """Return zeros that begin at a line of the processor's cache, so that a vector lies in one line."""
    zeros = np.zeros(size + 7)
    return zeros[-zeros.ctypes.data // 8 % 8 :][:size]


def _fill(array: NDArray[Any], columns: Sequence[str], name: str, values: Any) -> None:
    """Write the columns of a quantity, which has one for each link, group, crossing or signal, or one in all."""
    first = next((k for k, column in enumerate(columns) if column in (name, f"{name}0")), None)
    if first is None:  # the structure does not use it
        return
    end = first + 1
    while end < len(columns) and columns[end] == f"{name}{end - first}":
        end += 1
    array[:, first:end] = values
