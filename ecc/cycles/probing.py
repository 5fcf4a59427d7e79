"""Cycles of hosts that probe: return maps from one probe, or one measurement of the minimum RTT, to the next.

A long cycle begins as the first host enters or leaves a state, for example ProbeRTT. A short cycle begins as a field of
the first host changes (`ProbingCycle`). In the fluid, where the order of hosts is the same in each cycle, a long one
begins as any host enters the state, or the last one leaves it: no host is in the middle of a probe then. The memory of
a cycle is what all hosts keep from it: bandwidth estimates, minimum RTTs, bounds (`ProbingCycle.memory`). Multipliers
are those of `return_maps`, by runs that differ by 5 % in one entry of the memory.

- continuous: the fluid of state machines (`ecc.fluid`), also next to other window protocols; for hosts that have hooks
  only, the fluid of their hooks, with 32 ACKs per RTT (`parcels`).
- discrete: the map from round to round of the hooks, with 16 ACKs per RTT (`parcels`).

State machines have constant waits, evenly spread over the flows. Hooks draw theirs, and runs that are compared draw the
same numbers.

If the memory does not return, the cycle is random. Then two runs that draw the same numbers give the exponent of the
growth of small deviations, and a longer run of hooks gives the multipliers of the mean map: the decay of the deviations
that the memory has in each cycle (`ecc.cycles.signals.memory_maps`), which packet runs show, too. Both can disagree:
hosts change their state at single ACKs. Two runs with the same draws part until they differ by the effect of such an
event, while larger deviations decay in the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.intervals import mean_with_interval
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import ProbingCycle, StateMachine
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.parcels import Parcels
from ecc.cycles.return_maps import STEP, UNKNOWN, period_of, return_map
from ecc.cycles.signals import ReturnMap, decay_text, memory_maps, multipliers_of
from ecc.errors import ConvergenceError, LinearizationError
from ecc.fluid.network.simulation import Prepared, prepare
from ecc.network.network import Network
from ecc.scenario import Scenario

__all__ = ["CycleStarts", "Hooks", "probing_cycle", "staggered", "standard_error"]

FloatArray = NDArray[np.float64]
Loop = Protocol | ProtocolAssignment

ACKS = {"discrete": 16, "continuous": 32}
"""ACKs per RTT of the hosts' hooks."""
CYCLES = 4
"""Minimum number of cycles until the memory returns."""
MAX_CYCLES = 400
MAX_TIME = 150.0  # s, until which a run must have these cycles
LONG_RUNS = (500.0, 1000), (1000.0, 2000)
"""Time [s] and cycles after which a run of hooks ends whose memory does not return: first, and if that is undecided."""
SETTLING = 0.25  # share of a long run before the cycles that count
_EQUAL = 8  # equal memories in a row that show a cycle of hosts that draw
_TOLERANCE = 4e-4  # relative change of a memory per second of a period that counts as none
_DELAYS = 1, 2  # cycles after a change until deviations are compared: long cycles, and those shorter than _SHORT
_SHORT = 1.0  # s
_FLUID_CYCLES = 14  # maximum number of cycles of the fluid over which growth is averaged
_TURNS = 2  # cycles in which a deviation turns into the direction that grows most
_BATCHES, _FEW_BATCHES = 20, 6  # maximum number of batches of cycles for a confidence interval; that of short batches
_BATCH = 4  # cycles of a batch that is not short
_SMALL = {"fluid": 0.01, "hooks": 0.001}  # relative deviations; the fluid has events on a grid of time
_MIN_GROWTH = 1e-6  # growth below which a deviation counts as gone
_APART = 1.0  # s between the starts of flows
_LONGEST = 25.0  # s in which a cycle must begin twice to count; otherwise the next shorter one is used
_PER_RTT = 5  # samples of the fluid per shortest RTT


class _Orbit(NamedTuple):
    """Times and memories of all starts of cycles of a run, and a period of it for figures."""

    times: FloatArray
    memories: FloatArray
    period: int  # cycles; 0: the memory does not return
    orbit: dict[str, FloatArray]
    begins: str


class _Growth:
    """The growth of a small deviation from one start of a cycle to the next.

    At each start, the memory is changed by `size`, a share of it, in the direction that the last change has reached.
    """

    def __init__(self, memory: FloatArray, size: float) -> None:
        self.size = size
        self.known = (np.abs(memory) < UNKNOWN) & (memory != 0.0)
        self.direction = np.where(self.known, np.where(np.arange(len(memory)) % 2 == 0, 1.0, -1.0), 0.0)
        self.logarithms: list[float] = []

    def changes(self) -> FloatArray:
        """Return the next relative changes of the memory."""
        return np.asarray(self.size * self.direction / np.linalg.norm(self.direction))

    def add(self, changed: FloatArray, memory: FloatArray) -> None:
        """Add the growth over a cycle, which ends with these memories of the changed run and of the other one."""
        reached = np.where(self.known, (changed - memory) / np.where(self.known, memory, 1.0), 0.0)
        size = float(np.linalg.norm(reached))
        self.logarithms.append(log(max(size / self.size, _MIN_GROWTH)))
        self.direction = reached if size > 0.0 else self.direction

    def exponent(self) -> tuple[float, tuple[float, float]]:
        """Return the mean logarithm of the growth per cycle, with its confidence interval (95 %).

        Growth in successive cycles is correlated, so that the interval is that of the means of batches.
        """
        late = np.array(self.logarithms[_TURNS:])
        count = min(_BATCHES, max(len(late) // _BATCH, min(len(late) // 2, _FEW_BATCHES)))
        if count < 2:
            return nan, (-inf, inf)
        means = np.array([batch.mean() for batch in np.array_split(late, count)])
        half = float(mean_with_interval(means, 0, 0.95)[1])
        return float(late.mean()), (float(late.mean()) - half, float(late.mean()) + half)

    @property
    def decays(self) -> bool | None:
        """Whether deviations decay; None: the interval of the exponent contains 0."""
        _, (low, high) = self.exponent()
        return True if high < 0.0 else False if low > 0.0 else None


@dataclass
class CycleStarts:
    """Starts of cycles of a run, and the memory of all probing flows there."""

    fields: Sequence[Sequence[tuple[str, ...]]]  # per probing flow and entry of its memory
    begins: tuple[str, float | None]
    times: list[float] = field(default_factory=list)
    memories: list[FloatArray] = field(default_factory=list)
    after: bool = False  # whether a cycle begins as the first flow leaves the value
    together: bool = False  # whether all flows count, instead of the first one
    draws: bool = False  # whether hosts draw random numbers
    returns: bool = True  # False: the run has ended without a period
    last: float | None = None

    def sees(self, values: Sequence[float]) -> bool:
        """Return whether a cycle begins, given the field of each probing flow now."""
        value = float(self.begins[1] in values) if self.together else values[0]
        before, self.last = self.last, value
        if before is None or before == value:
            return False
        if self.together:
            return value == float(not self.after)
        return self.begins[1] in (None, before if self.after else value)

    def place(self, entry: int) -> tuple[int, tuple[str, ...]]:
        """Return the flow and the fields of an entry of the memory."""
        for flow, entries in enumerate(self.fields):
            if entry < len(entries):
                return flow, entries[entry]
            entry -= len(entries)
        raise IndexError(entry)

    def text(self, entry: int) -> str:
        """Return an entry in words: its field, and the number of its probing flow."""
        flow, names = self.place(entry)
        return f"{names[0]} of probing flow {flow}"

    @property
    def period(self) -> int:
        """Cycles after which the memory returns; 0: not yet."""
        if len(self.times) < CYCLES or not self.returns:
            return 0
        length = (self.times[-1] - self.times[0]) / (len(self.times) - 1)
        memories, tolerance = np.array(self.memories), _TOLERANCE * length
        if not self.draws:
            return period_of(memories, tolerance)
        # two equal memories are no period yet, as other numbers may follow
        last = memories[-_EQUAL:]
        return int(len(last) == _EQUAL and all(period_of(last[k : k + 2], tolerance) for k in range(_EQUAL - 1)))


# ---- hooks -----------------------------------------------------------------------------------------------------------


class Hooks:
    """The run of hosts with hooks, in parcels; `acks` and `spread` of their ACKs are those of `Parcels`.

    If they are not given, they are those of `ACKS` and, in continuous time, of the protocol.
    """

    def __init__(
        self, protocols: Sequence[Protocol], network: Network, time: str, acks: int = 0, spread: float | None = None
    ) -> None:
        self.forms = [form for form in (protocol.probing_cycle for protocol in protocols) if form is not None]
        if len(self.forms) < len(protocols):
            raise LinearizationError("parcels need hosts that all declare a probing_cycle")
        if spread is None:
            spread = self.forms[0].spread if time == "continuous" else 0.0
        self.spread = spread
        self.run = Parcels(protocols, network, acks or ACKS[time], time == "discrete", spread)
        self.fields = [tuple(form.memory.values()) for form in self.forms]
        self.draws = spread > 0.0 or any("random" in protocol.required_env for protocol in protocols)
        self.form: ProbingCycle = self.forms[0]
        self.trace: list[tuple[float, ...]] = []
        self.copy = self.run  # at the start of a cycle
        self.size = _SMALL["hooks"]  # size of the deviations whose growth is measured

    def starts(self, begins: tuple[str, float | None]) -> CycleStarts:
        after = self.form.after and begins == self.form.begins[0]
        return CycleStarts(self.fields, begins, after=after, draws=self.draws)

    def next_start(self, run: Parcels, starts: CycleStarts, until: float) -> bool:
        """Advance to the next start of a cycle, and add it; return False if there is none until a time."""
        self.trace, name = [], starts.begins[0]
        while run.now < until:
            run.step()
            self.trace.append((run.now, run.queue, *(8.0 * each.rate for each in run.hosts)))
            if starts.sees([float(getattr(run.hosts[0].flow, name))]):
                starts.times.append(run.now)
                starts.memories.append(self._memory(run))
                return True
        return False

    def _memory(self, run: Parcels) -> FloatArray:
        pairs = zip(run.hosts, self.fields, strict=True)
        return np.array([float(getattr(host.flow, names[0])) for host, entries in pairs for names in entries])

    def orbit(self) -> _Orbit:
        """Advance until the memory returns; if it does not, until the end of a long run."""
        begins = self.begins()
        starts, traces = self.starts(begins), list[list[tuple[float, ...]]]()
        while len(starts.times) < MAX_CYCLES and self.next_start(self.run, starts, MAX_TIME):
            traces.append(self.trace)
            self.copy = self.run.copy()
            if starts.period:
                break
        else:
            starts.returns = False
        self.begun = starts
        if len(starts.times) < CYCLES:
            raise ConvergenceError(f"only {len(starts.times)} cycles begin within {MAX_TIME:g} s")
        if not starts.returns:
            self._continue(starts, traces)
        table = np.array([row for trace in traces[-_shown(starts) :] for row in trace]).T
        orbit = {"time": table[0] - table[0, 0], "queue": table[1], "rates": table[2:]}
        return _Orbit(np.array(starts.times), np.array(starts.memories), starts.period, orbit, begins[0])

    def _continue(self, starts: CycleStarts, traces: list[list[tuple[float, ...]]]) -> None:
        """Continue a run whose memory does not return, and measure the growth of deviations."""
        self.grown = _Growth(starts.memories[-1], self.size)
        for until, cycles in LONG_RUNS:
            self.run = self.copy.copy()  # at the start of a cycle
            starts.last = float(getattr(self.run.hosts[0].flow, starts.begins[0]))
            while len(starts.times) < cycles and self.next_start(self.run, starts, until):
                traces.append(self.trace)
                self.grown.add(self.respond(-1, self.grown.changes(), 1)[0], starts.memories[-1])
                self.copy = self.run.copy()
            if self.grown.decays is not None:
                break

    def begins(self) -> tuple[str, float | None]:
        """Return the field and value at which the longest cycle begins that recurs."""
        for begins in self.form.begins:
            run, starts = self.run.copy(), self.starts(begins)
            while self.next_start(run, starts, _LONGEST):
                if len(starts.times) == 2:
                    return begins
        raise ConvergenceError(f"no cycle recurs within {_LONGEST:g} s")

    def respond(self, cycle: int, changes: FloatArray, count: int) -> FloatArray:
        """Return the memories at the next starts of cycles, after relative changes at the start of one."""
        run, starts = self.copy.copy(), self.starts(self.begun.begins)
        starts.last = float(getattr(run.hosts[0].flow, starts.begins[0]))
        for entry in np.flatnonzero(changes):
            flow, names = starts.place(int(entry))
            record, factor = run.hosts[flow].flow, 1.0 + float(changes[entry])
            for name in names:
                value = getattr(record, name)
                setattr(record, name, [factor * x for x in value] if isinstance(value, list) else factor * value)
        until = run.now + MAX_TIME
        while len(starts.times) < count:
            if not self.next_start(run, starts, until):
                raise ConvergenceError("a changed run begins no further cycle")
        return np.array(starts.memories)


# ---- fluid -----------------------------------------------------------------------------------------------------------


class _Fluid:
    """The fluid of state machines, with samples at which their states are read, and changed once."""

    def __init__(self, loop: Loop, network: Network) -> None:
        self.loop, self.network = loop, network
        self.step = float(np.min(network.rtts)) / _PER_RTT
        begun = max(flow.start for flow in network.flows)
        prepared = self._prepared(begun + 2.0 * self.step)
        pairs = [(flow, p.fluid_form) for flow, p in enumerate(prepared.problem.protocols)]
        machines = [(g, form) for g, form in pairs if isinstance(form, StateMachine) and form.probing_cycle is not None]
        if not machines:
            raise LinearizationError("it has no state machine with a cycle as fluid")
        self.groups = [g for g, _ in machines]
        cycles = [form.probing_cycle for _, form in machines if form.probing_cycle is not None]
        self.fields = [tuple(cycle.memory.values()) for cycle in cycles]
        self.form = cycles[0]
        names = [name for entries in self.fields for names in entries for name in names]
        self.names = [f"flow.{name}" for name in dict.fromkeys([*names, *(name for name, _ in self.form.begins)])]

    def starts(self, begins: tuple[str, float | None]) -> CycleStarts:
        is_longest = begins == self.form.begins[0]
        return CycleStarts(self.fields, begins, after=self.form.after and is_longest, together=is_longest)

    def _prepared(
        self, duration: float, cancel: Callable[[], bool] | None = None, names: Sequence[str] = ()
    ) -> Prepared:
        """Return a run of the fluid that is ready to begin."""
        return prepare(
            Scenario(self.network, self.loop, duration),
            self.step,
            "empty",
            0.0,
            {},
            record=names,
            progress=None,
            cancel=cancel,
            time="continuous",
            rtol=1e-6,
            delays=None,
            clocking="ack",
            signals="rate",
        )

    def _run(self, starts: CycleStarts, duration: float, count: int, change: tuple[int, FloatArray] | None) -> Any:
        """Run until a number of cycles has begun, or the memory returns (count 0), with changes at the start of one."""
        done = [False]
        watched = f"flow.{starts.begins[0]}"

        def visit(time: float, states: Mapping[str, FloatArray]) -> None:
            if done[0] or not starts.sees(states[watched][self.groups].tolist()):
                return
            if change is not None and len(starts.times) == change[0]:
                for entry in np.flatnonzero(change[1]):
                    flow, names = starts.place(int(entry))
                    for name in names:
                        states[f"flow.{name}"][self.groups[flow]] *= 1.0 + change[1][entry]
            starts.times.append(time)
            pairs = zip(self.groups, self.fields, strict=True)
            starts.memories.append(np.array([states[f"flow.{n[0]}"][g] for g, entries in pairs for n in entries]))
            reached = len(starts.times) >= (count or MAX_CYCLES)
            done[0] = reached or (count == 0 and starts.period > 0)

        prepared = self._prepared(duration, lambda: done[0], self.names)
        return prepared.model.run(replace(prepared.problem, visit=visit)), prepared

    def orbit(self) -> _Orbit:
        """Run until the memory returns."""
        for begins in self.form.begins:
            starts = self.starts(begins)
            self._run(starts, _LONGEST, 2, None)
            if len(starts.times) == 2:
                break
        else:
            raise ConvergenceError(f"no cycle recurs within {_LONGEST:g} s")
        starts = self.starts(begins)
        result, prepared = self._run(starts, MAX_TIME, 0, None)
        if len(starts.times) < CYCLES:
            raise ConvergenceError(f"only {len(starts.times)} cycles begin within {MAX_TIME:g} s")
        self.begun, time = starts, result.time
        inside = (time > starts.times[-1 - _shown(starts)]) & (time <= starts.times[-1])
        link = int(np.argmax(result.queue.mean(axis=0)))
        rates = prepared.problem.fluid.spread(result.rate, 0.0)[inside].T
        orbit = {"time": time[inside] - time[inside][0], "queue": result.queue[inside, link] / 8.0, "rates": rates}
        return _Orbit(np.array(starts.times), np.array(starts.memories), starts.period, orbit, begins[0])

    def growth(self, memories: FloatArray) -> _Growth:
        """Return the growth of deviations in the first cycles."""
        growth = _Growth(memories[-1], _SMALL["fluid"])
        for cycle in range(CYCLES, min(len(memories) - 1, CYCLES + _FLUID_CYCLES)):
            growth.add(self.respond(cycle, growth.changes(), 1)[0], memories[cycle + 1])
        return growth

    def respond(self, cycle: int, changes: FloatArray, count: int) -> FloatArray:
        """Return the memories at the next starts of cycles, after relative changes at the start of one."""
        begun = cycle % len(self.begun.times)
        starts = self.starts(self.begun.begins)
        length = float(np.diff(self.begun.times).max())
        self._run(starts, self.begun.times[begun] + (count + 2.0) * length, begun + 1 + count, (begun, changes))
        if len(starts.times) < begun + 1 + count:
            raise ConvergenceError("a changed run begins no further cycle")
        return np.array(starts.memories[begun + 1 :])


def staggered(network: Network) -> Network:
    """Return the network with flows that start a second apart, unless it has starts of its own.

    Flows that start together have the same memory for ever, even if other flows do not return to it.
    """
    if any(flow.start for flow in network.flows):
        return network
    return replace(network, flows=tuple(replace(flow, start=_APART * k) for k, flow in enumerate(network.flows)))


# ---- the cycle -------------------------------------------------------------------------------------------------------


def _shown(starts: CycleStarts) -> int:
    """Return the number of cycles of a run that are shown: a period, or the last half if the memory does not return."""
    return starts.period or len(starts.times) // 2


def _cycles(orbit: _Orbit) -> tuple[FloatArray, FloatArray]:
    """Return the lengths [s] of the cycles that are shown, and half of the range of the queue in each."""
    begun = orbit.times[-1 - len(orbit.times) // 2 :]
    at = np.searchsorted(orbit.orbit["time"], begun - begun[0])
    queue = orbit.orbit["queue"]
    swings = [0.5 * float(np.ptp(queue[first : last + 1])) for first, last in zip(at, at[1:], strict=False)]
    return np.diff(begun), np.array(swings)


def standard_error(values: FloatArray) -> float:
    """Return the standard error of the mean of values in order of time, from the means of up to ten parts.

    Parameters
    ----------
    values : ndarray, shape (n,)
    """
    parts = np.array([part.mean() for part in np.array_split(values, min(10, len(values)))])
    return float(parts.std(ddof=1) / sqrt(len(parts))) if len(parts) > 1 else nan


def _mean_maps(run: Hooks | _Fluid, memories: FloatArray) -> dict[str, ReturnMap | None]:
    """Return the maps of the deviations that the memories of a long run of hooks have; no maps for other runs."""
    if isinstance(run, _Fluid) or len({tuple(form.memory) for form in run.forms}) > 1:
        return {}
    late = memories[int(SETTLING * len(memories)) :]
    table = late.reshape(len(late), len(run.forms), -1)
    return memory_maps({quantity: table[:, :, k] for k, quantity in enumerate(run.form.memory)})


def probing_cycle(loop: Loop, network: Network, time: str) -> LimitCycle:
    """Return the cycle of hosts that probe, with the multipliers of its return map.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts with a `probing_cycle`, or with a `StateMachine` that has a cycle, for continuous time.
    network : Network
        Network of one link for the hooks of hosts.
    time : str
        "continuous" or "discrete".

    Returns
    -------
    LimitCycle

    Raises
    ------
    LinearizationError
        Hosts declare no such cycle.
    ConvergenceError
        The run does not return to the same memory after up to four cycles.
    """
    network = staggered(network)
    protocols = ProtocolAssignment.of(loop).deploy(network).flows
    if not any(protocol.probing_cycle is not None for protocol in protocols):
        raise LinearizationError("its hosts declare no probing cycle")
    by_fluid = time == "continuous" and any(isinstance(p.fluid_form, StateMachine) for p in protocols)
    run = _Fluid(loop, network) if by_fluid else Hooks(protocols, network, time)
    orbit = run.orbit()
    model = "the fluid" if by_fluid else f"the hooks with {ACKS[time]} ACKs per RTT"
    at, queue = orbit.orbit["time"], orbit.orbit["queue"]
    mean = float(np.trapezoid(queue, at) / (at[-1] - at[0]))
    basic = partial(LimitCycle, time=time, mean=mean, orbit=orbit.orbit)
    notes: tuple[str, ...] = ()
    if by_fluid:
        notes = ("waits are constant numbers, evenly spread over the flows",)
    elif isinstance(run, Hooks) and run.draws:
        drawn = "ACKs arrive at times that are drawn" if run.spread else "hosts draw their waits"
        notes = (f"{drawn}; a changed run draws the same numbers",)
    starts = f"from a change of {orbit.begins} to the next"
    if not orbit.period:
        growth = run.grown if isinstance(run, Hooks) else run.growth(orbit.memories)
        exponent, interval = growth.exponent()
        maps = _mean_maps(run, orbit.memories)
        multipliers = multipliers_of(maps)
        stays = len(multipliers) > 0 and abs(multipliers[0]) >= 1.0
        lengths, swings = _cycles(orbit)
        return basic(
            object="random cycle",
            period=float(lengths.mean()),
            amplitude=float(swings.mean()),
            multipliers=multipliers,
            exponent=exponent,
            interval=interval,
            stable=False if growth.decays and stays else growth.decays,
            method=f"growth of deviations of {growth.size:.1%} in the memory of {model}, {starts}",
            notes=(
                *notes,
                f"the memory does not return after 1 to 4 cycles, within {orbit.times[-1]:.0f} s",
                f"exponent from {len(growth.logarithms) - _TURNS} cycles",
                f"means of {len(lengths)} cycles; standard error of the period {standard_error(lengths):.2g} s, of the "
                f"amplitude {standard_error(swings):.2g} bytes",
                *(f"mean map of the {decay_text(*pair)}" for pair in maps.items() if pair[1] is not None),
            ),
        )
    duration = float(orbit.times[-1] - orbit.times[-1 - orbit.period])
    delay, base = _DELAYS[int(duration < _SHORT)], len(orbit.memories[-1])

    def respond(entry: int, e: float) -> FloatArray:
        changes = np.where(np.arange(base) == entry, e, 0.0)
        memories = run.respond(-1, changes, (delay + 1) * orbit.period)
        return memories[[delay * orbit.period - 1, (delay + 1) * orbit.period - 1]]

    result_map = return_map(respond, orbit.memories[-1])
    if result_map.jumps:
        where = ", ".join(run.begun.text(entry) for entry in result_map.jumps)
        notes = (
            *notes,
            f"the return map jumps at the orbit, to another cycle, for deviations in one direction: {where}",
        )
    size = float(np.abs(result_map.multipliers[:1]).max(initial=0.0))
    cycles = f"{orbit.period} cycles, each" if orbit.period > 1 else "a cycle"
    return basic(
        object="cycle",
        period=duration,
        amplitude=0.5 * float(np.ptp(queue)),
        multipliers=result_map.multipliers,
        along=result_map.along,
        stable=(size < 1.0) if abs(size - 1.0) > result_map.error else None,
        method=f"return map of {model} over {cycles} {starts}, by changes of {STEP:.0%} in its memory; multipliers by "
        f"changes up and down differ by up to {result_map.error:.2g}",
        notes=notes,
    )
