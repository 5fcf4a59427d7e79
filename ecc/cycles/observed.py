"""Limit cycles observed in runs, and the decay of deviations from them: of any protocol, as fluid and as packets.

1. Runs from the start of all flows become longer until the last half of one is periodic.
2. A finer run gives the period, and the queue over one period.
3. Short cuts of the capacity disturb the sum of the flows, and later starts of some flows disturb their differences.
   The deviations of successive periods from the cycle give the multipliers (`ecc.cycles.signals`).

If the queue is not periodic at an approximate period, the sum of rates is examined.

Hosts that probe have cycles whose parts do not repeat in order, for example bandwidth probes between two measurements
of the minimum RTT, and some draw their waits. In packet runs, their declared cycles (`Protocol.probing_cycle`) are
counted. The means are those of period and swing of the queue. The multipliers are those of the deviations that the
memory has in each cycle (`ecc.cycles.signals.remembered_map`).

Flows that start together stay equal in fluid runs. Therefore such a cycle can be unstable against differences of flows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import fluid, packet
from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import Quantity, as_time
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.forms import ProbingCycle
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.probing import CycleStarts, standard_error
from ecc.cycles.reference_cases import cycle_case, host_of, named_protocol
from ecc.cycles.signals import (
    CERTAIN,
    MIN_PERIODS,
    NEAR,
    ReturnMap,
    Sections,
    bin_means,
    dead_beat,
    decay_text,
    decays,
    fitted_map,
    memory_maps,
    multipliers_of,
    period_of,
    profiles,
    sections_of,
)
from ecc.errors import ConvergenceError, EccError, LinearizationError
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Network
from ecc.scenario import Scenario

__all__ = ["measured_cycle", "observed_cycle"]

Real = NDArray[np.float64]
Loop = Protocol | ProtocolAssignment

_FIRST_RTTS, _GROWTH = 250, 4  # length of the first run, RTTs; factor to the next one
_SAMPLES_PER_RTT, _MAX_SAMPLES = 20, 40_000  # both for the first runs
_POINTS, _BINS, _FLOW_BINS = 192, 16, 2  # points and bins of a period of the queue; bins of a period of rates
_PERIODS = 40  # periods of the finer run
_AFTER = 16  # periods after a disturbance
_MIN_RANGE = 1e-3  # range of the queue, as a share of its mean, below which it is constant
_CORRELATION = {"fluid": 0.8, "packet": 0.5}
_CUTS = {"fluid": (0.1, 0.5, 2.0), "packet": (0.5, 2.0)}  # bytes not sent in a cut of capacity, in ranges of the queue
_CLEAR = 15.0  # a disturbance of this multiple of the noise is large enough
_LATER = {"fluid": (0.03,), "packet": (0.1, 0.3, 0.5, 0.7)}  # start of the last flow, in periods
_PHASES = {"fluid": (0.2, 0.7), "packet": (0.1, 0.35, 0.6, 0.85)}  # times of the cuts, in periods
_CEILING = {"fluid": 0.3, "packet": 1.0}  # largest deviation that counts as small, as a share of the norm of the cycle
_NEAR = {"fluid": 0.3, "packet": 0.1}  # largest deviation of the sum at which differences count, in the same unit
_SPREAD = {"fluid": 0.03, "packet": 0.1}  # standard deviation of return times, in periods, of a cycle that has settled
_MAX_PACKETS = 2e7
_MAX_INTERVALS = 2e6  # control intervals of a fluid run
_REST = 1e-5  # range of rates, over C, and of the queue, over C RTT, up to which the last half of a run is at rest
_ROUNDING = 1e-9  # share of a growing queue that rounding may take away
_GROWTH_OF_QUEUE = 1.5  # factor by which a queue that grows without bound grows in the last half of a run, at least
_DECLARED_TIMES = 300.0, 2000.0  # s, of runs in which declared cycles are counted
_DECLARED_ERROR = 0.01  # standard error of period and amplitude, as a share, with which a run is long enough


class _Series(NamedTuple):
    """Samples of a run: their period [s], the queue [bytes], and the rates of flows [bit/s], (n_samples, n_flows).

    `by_rates`: whether periods are those of the rates, and not of the queue.
    """

    step: float
    queue: Real
    rates: Real
    by_rates: bool = False

    @property
    def signal(self) -> Real:
        """The queue; with `by_rates`, or if it is constant, the sum of rates."""
        half = self.queue[len(self.queue) // 2 :]
        is_constant = np.ptp(half) <= _MIN_RANGE * max(half.mean(), 1.0)
        return self.rates.sum(axis=1) if is_constant or self.by_rates else self.queue


@dataclass(frozen=True)
class _Case:
    """A loop on a network in an engine."""

    loop: Loop
    network: Network
    engine: str
    time: str
    seed: int
    near: float | None = None
    """Approximate period [s]; None: the shortest one."""
    by_rates: bool = False
    progress: ProgressCallback | None = None

    def report(self, duration: float, purpose: str) -> None:
        """Report a run before it begins."""
        if self.progress is not None:
            self.progress(Step(f"{purpose}: a {self.engine} run of {duration:.4g} s"))

    def run(self, duration: float, step: float, later: Sequence[float] = (), cut: Any = None, seed: int = 0) -> _Series:
        """Return the samples of a run with later starts of flows [s] and a cut of the capacity."""
        disturbed = "decay of differences" if len(later) else "decay of the sum"
        self.report(duration, "the cycle" if cut is None and not len(later) else disturbed)
        network = self.network
        if len(later):
            starts = [flow.start + wait for flow, wait in zip(network.flows, later, strict=True)]
            moved = [replace(flow, start=start) for flow, start in zip(network.flows, starts, strict=True)]
            network = replace(network, flows=moved)
        impairments = () if cut is None else (cut,)
        scenario = Scenario(network, self.loop, duration, seed=self.seed + seed, impairments=impairments)
        simulated = (
            packet.simulate(scenario, step)
            if self.engine == "packet"
            else fluid.simulate(scenario, step, time=self.time)
        )
        simulated.raise_if_incomplete(samples=2)
        rates = simulated.rate.to_numpy()
        link = int((simulated.arrival.to_numpy()[len(rates) // 2 :].mean(axis=0) / network.capacities).argmax())
        return _Series(step, simulated.queue.to_numpy()[:, link].astype(float), rates, self.by_rates)

    @property
    def capacity(self) -> float:
        return float(self.network.capacities.min())

    @property
    def interval(self) -> float:
        """Control interval of the hosts [s], at which the fluid has steps; inf without one."""
        return float(host_of(self.loop).params().get("interval", inf))


class _Cycle(NamedTuple):
    """A settled cycle: series of a run, its sections, the time from which it has settled [s], period [s], mean rows."""

    series: _Series
    sections: Sections
    settled: float
    period: float
    rows: Real
    scale: Real

    @property
    def spread(self) -> float:
        """Standard deviation of the return times, in periods."""
        late = self.sections.starts[len(self.sections.starts) // 2 :]
        return float(np.std(np.diff(late)) / self.sections.period)


def observed_cycle(loop: Loop, network: Network, time: str) -> LimitCycle:
    """Return the cycle that the fluid shows after a start from empty queues, the last method of `limit_cycle`.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
    network : Network
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        The loop has no such fluid.
    ConvergenceError
        No periodic motion was found.
    """
    return _observe(_Case(loop, network, "fluid", time, 1))


@check_arguments
def measured_cycle(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any] | type | str,
    network: Network | None = None,
    engine: str = "packet",
    time: str = "continuous",
    seed: int = 1,
    *,
    near: Quantity | None = None,
    progress: ProgressCallback | None = None,
) -> LimitCycle:
    """Return the limit cycle that runs show, with multipliers from the decay of disturbances.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping, class or str
        As for `limit_cycle`.
    network : Network, optional
        As for `limit_cycle`.
    engine : str, optional
        "packet" or "fluid".
    time : str, optional
        "continuous" or "discrete", of the fluid.
    seed : int, optional
        Seed of the first packet run.
    near : float, s, > 0, optional
        Approximate period, for example that of `limit_cycle`: shorter and longer motions by more than a third are not
        considered. None: the shortest motion that repeats.
    progress : callable, optional
        Called with a `Progress` before each run: its purpose and length, as `text`.

    Returns
    -------
    LimitCycle
        `amplitude` is half of the mean peak-to-peak range of a period. `multipliers`: those of the sum of flows and of
        their differences that the runs distinguish; `notes` has their standard errors.

    Raises
    ------
    ValueError
        An unknown engine or time.
    LinearizationError
        The engine does not run the loop.
    ConvergenceError
        No periodic motion was found: the queue is constant, or not periodic; the message reports which.

    Notes
    -----
    The capacity is cut for a short time, by 10 % of the range of the queue or more, until the disturbance is above the
    noise of a cycle. A multiplier is resolved down to the ratio of this noise to the disturbance. A deviation that is
    below the noise after one period has the multiplier 0.

    Examples
    --------
    >>> cycle = measured_cycle("NewReno", ecc.Network.dumbbell("10 Mb/s", [0.05], 62_500), engine="fluid")
    >>> round(cycle.period, 1), cycle.is_dead_beat
    (4.9, True)
    """
    if engine not in _CUTS:
        raise ValueError(f"engine must be one of fluid, packet, got {shown(engine)}")
    if time not in ("continuous", "discrete"):
        raise ValueError(f"time must be one of continuous, discrete, got {shown(time)}")
    loop = named_protocol(protocol)
    if network is None:
        loop, network = cycle_case(loop)
    period = None if near is None else as_time(near, "near", positive=True)
    return _observe(_Case(loop, network, engine, time, seed, period, progress=progress))


def _observe(case: _Case) -> LimitCycle:
    """Return the cycle that runs show."""
    declared = _declared(case)
    if declared is not None:
        return declared
    try:
        case, cycle = _settled(case)
    except (ValueError, TypeError) as error:
        raise LinearizationError(f"it has no {case.engine} runs: {error}") from None
    maps = {"sum of flows": _of_sum(case, cycle)}
    if case.network.n_flows > 1:
        maps["differences of flows"] = _of_differences(case, cycle)
    known = {mode: fitted for mode, fitted in maps.items() if fitted is not None}
    values = np.concatenate([np.empty(0, complex), *(fitted.multipliers for fitted in known.values())])
    notes = [decay_text(*pair) for pair in maps.items()]
    notes.append(f"standard deviation of the return times: {cycle.spread:.2%} of the period")
    queue = cycle.rows[:, :, 0]
    mean = cycle.rows.mean(axis=0)
    engine = "packets" if case.engine == "packet" else f"the fluid in {case.time} time"
    return LimitCycle(
        "random cycle" if case.engine == "packet" and _draws(case.loop) else "cycle",
        case.time,
        cycle.period,
        float(queue.mean()),
        0.5 * float(np.ptp(queue, axis=1).mean()),
        values[np.argsort(-np.abs(values))],
        stable=decays(known),
        method=f"runs of {engine}, and the decay of disturbances of the sum and of the differences of flows",
        orbit={
            "time": cycle.period * np.arange(_POINTS) / _POINTS,
            "queue": mean[:, 0],
            "rates": mean[:, 1:].T,
        },
        notes=tuple(notes),
    )


def _draws(loop: Loop) -> bool:
    """Return whether hosts or queue disciplines draw random numbers."""
    protocols = [loop] if isinstance(loop, Protocol) else list(loop.protocols)
    return any("random" in protocol.required_env for protocol in protocols)


def _declared(case: _Case) -> LimitCycle | None:
    """Return the cycle that hosts declare, from the fields of their records in packet runs.

    None: they declare none, it does not recur, or it is not of the approximate period.
    """
    form = host_of(case.loop).probing_cycle
    if form is None or case.engine != "packet":
        return None
    maps: dict[str, ReturnMap | None] = {}
    for duration in _DECLARED_TIMES:
        cycles = _declared_cycles(case, form, duration)
        if cycles is None:
            return None
        maps = memory_maps(cycles.memories)
        errors = [standard_error(each) / each.mean() for each in (cycles.lengths, cycles.swings)]
        if max(errors) <= _DECLARED_ERROR and all(fitted.error <= CERTAIN for fitted in maps.values() if fitted):
            break
    assert cycles is not None
    lengths, swings = cycles.lengths, cycles.swings
    return LimitCycle(
        "random cycle",
        case.time,
        float(lengths.mean()),
        cycles.mean,
        float(swings.mean()),
        multipliers_of(maps),
        stable=decays(maps),
        method=f"means of {len(swings)} cycles of packets, from a change of {cycles.field} to the next, and the decay "
        "of deviations of the memory",
        notes=(
            *(decay_text(*pair) for pair in maps.items()),
            f"standard errors of the means: period {standard_error(lengths):.2g} s, "
            f"amplitude {standard_error(swings):.2g} bytes",
        ),
    )


class _Declared(NamedTuple):
    """Declared cycles of a run: lengths [s], swings and mean of the queue [bytes], memories, and the field."""

    lengths: Real
    swings: Real
    mean: float
    memories: dict[str, Real]
    field: str


def _declared_cycles(case: _Case, form: ProbingCycle, duration: float) -> _Declared | None:
    """Return the declared cycles of a packet run, without those of its first quarter."""
    step = float(case.network.rtts.min()) / _SAMPLES_PER_RTT
    entries = {quantity: names[0] for quantity, names in form.memory.items()}
    fields = dict.fromkeys([*(name for name, _ in form.begins), *entries.values()])
    scenario = Scenario(case.network, case.loop, duration, seed=case.seed)
    case.report(duration, "the declared cycle")
    run = packet.simulate(scenario, step, record=[f"flow.{name}" for name in fields])
    queue = run.queue.to_numpy()[:, int(case.network.capacities.argmin())].astype(float)
    for begins in form.begins:
        starts = CycleStarts((), begins, after=form.after and begins == form.begins[0])
        values = run[f"flow.{begins[0]}"].to_numpy()[:, :1].tolist()
        at = np.array([k for k, value in enumerate(values) if starts.sees(value)], dtype=int)
        at = at[at > len(queue) // 4]
        if len(at) <= MIN_PERIODS:
            continue
        lengths = np.diff(at) * step
        if case.near is not None and not 1.0 / NEAR <= lengths.mean() / case.near <= NEAR:
            return None
        swings = [0.5 * float(np.ptp(queue[first:last])) for first, last in zip(at, at[1:], strict=False)]
        memories = {quantity: run[f"flow.{name}"].to_numpy()[at] for quantity, name in entries.items()}
        return _Declared(lengths, np.array(swings), float(queue[at[0] : at[-1]].mean()), memories, begins[0])
    return None


def _settled(case: _Case) -> tuple[_Case, _Cycle]:
    """Return the cycle at the end of the first run that is long enough, and the case with the signal that shows it.

    Raises
    ------
    ConvergenceError
        No run is periodic.
    """
    rtt = float(case.network.rtts.max())
    packet_bits = 8.0 * float(np.mean([flow.mean_packet for flow in case.network.flows]))
    length = max(_FIRST_RTTS * rtt, 0.0 if case.near is None else 4.0 * MIN_PERIODS * case.near)
    longest = _GROWTH**4 * length
    if case.engine == "packet":
        longest = min(longest, max(_MAX_PACKETS * packet_bits / case.capacity, length))
    ends, grew = "", False
    while length <= longest * (1.0 + 1e-9):
        if case.engine == "fluid" and length > _MAX_INTERVALS * case.interval:
            limit = f"{_MAX_INTERVALS:.0e} intervals of {case.interval:.4g} s"
            ends += f"{', and ' if ends else ''}a run of {length:.4g} s has more than {limit}"
            break
        step = max(rtt / _SAMPLES_PER_RTT, length / _MAX_SAMPLES)
        series = case.run(length, step)
        if case.engine == "fluid" and _rests(case, series):
            raise ConvergenceError(
                f"no periodic motion was found: after {0.5 * length:.4g} s the fluid is at rest, with a queue of "
                f"{series.queue[-1]:.4g} bytes and rates of {series.rates[-1].sum():.4g} bit/s"
            )
        grows = _grows(case, series)
        if grows and grew:
            raise ConvergenceError(
                f"no periodic motion was found: the queue grows without bound, to {series.queue[-1]:.4g} bytes within "
                f"{length:.4g} s, in a buffer without a limit"
            )
        grew = grows
        near = None if case.near is None else case.near / step
        late = series.queue[len(series.queue) // 2 :]
        ends = (
            f"in the last half of a run of {length:.4g} s the queue is from {late.min():.4g} to {late.max():.4g} bytes"
        )
        # without an approximate period, the shortest motion of rates would be that of single packets
        for by_rates in (False,) if near is None else (False, True):
            half = series._replace(by_rates=by_rates).signal[len(series.queue) // 2 :]
            period = period_of(half, _CORRELATION[case.engine], near) * step
            if np.ptp(half) <= _MIN_RANGE * max(abs(half.mean()), 1.0) or isnan(period):
                continue
            seen = replace(case, by_rates=by_rates)
            cycle = _finer(seen, 0.5 * length, period)
            if cycle.spread <= _SPREAD[case.engine]:
                return seen, cycle
            signal = "the sum of rates" if by_rates else "it"
            ends += f", and {signal} returns after {cycle.period:.4g} s with a standard deviation of {cycle.spread:.0%}"
        length *= _GROWTH
    raise ConvergenceError(f"no periodic motion was found: {ends}")


def _rests(case: _Case, series: _Series) -> bool:
    """Return whether the queue and all rates are constant in the last half of a run of the fluid."""
    half = len(series.queue) // 2
    queue, rates = 8.0 * series.queue[half:], series.rates[half:]
    rtt = float(case.network.rtts.max()) + queue[-1] / case.capacity
    return bool(np.ptp(queue) <= _REST * case.capacity * rtt and np.ptp(rates, axis=0).max() <= _REST * case.capacity)


def _grows(case: _Case, series: _Series) -> bool:
    """Return whether the queue never falls in the last half of a run, and grows much, in buffers without a limit."""
    if any(link.buffer is not None for link in case.network.links):
        return False
    late = series.queue[len(series.queue) // 2 :]
    falls = np.diff(late) < -_ROUNDING * late[-1]
    return bool(late[-1] > _GROWTH_OF_QUEUE * late[0] and not falls.any())


def _finer(case: _Case, settled: float, period: float) -> _Cycle:
    """Return the cycle from a run with many samples per period."""
    points = _POINTS if settled < 500.0 * period else _POINTS // 3
    step = period / (points + 0.382)  # samples fall on other phases in each period, so that their noise is seen
    series = case.run(settled + _PERIODS * period, step)
    signal = series.signal[round(settled / step) :]
    sections = sections_of(signal, period / step)
    starts = sections.starts + round(settled / step)
    sections = sections._replace(starts=starts)
    rows = profiles(_columns(series), starts[len(starts) // 2 :], sections.period, _POINTS)
    scale = np.array(
        [max(float(np.ptp(rows[:, :, 0])), 1.0), *[case.capacity / case.network.n_flows] * case.network.n_flows]
    )
    return _Cycle(series, sections, settled, sections.period * step, rows, scale)


def _columns(series: _Series) -> Real:
    """Return the queue and the rates as columns."""
    return np.column_stack([series.queue, series.rates])


def _binned(cycle: _Cycle, series: _Series, starts: Real, shift: float = 0.0) -> tuple[Real, Real]:
    """Return the scaled means over bins of periods: of the queue and the sum of rates, and of the rates of flows."""
    period, scale = cycle.sections.period, cycle.scale
    total = np.column_stack([series.queue / scale[0], series.rates.sum(axis=1) / scale[1:].sum()])
    of_sum = bin_means(total, starts + shift, period, _BINS)
    of_flows = bin_means(series.rates / scale[1:], starts + shift, period, _FLOW_BINS)
    differences = of_flows - of_flows.mean(axis=2, keepdims=True)
    return of_sum.reshape(len(starts), -1) / np.sqrt(_BINS), differences.reshape(len(starts), -1) / np.sqrt(_FLOW_BINS)


def _deviations(cycle: _Cycle, series: _Series, starts: Real) -> tuple[Real, Real]:
    """Return the deviations of periods from the cycle, of the sum and of the differences of flows.

    The part of a deviation along the cycle, a shift in time, is removed.
    """
    late = cycle.sections.starts[len(cycle.sections.starts) // 2 : -1]
    mean, mean_difference = (rows.mean(axis=0) for rows in _binned(cycle, cycle.series, late))
    shift = cycle.sections.period / 50.0
    tangent = _binned(cycle, cycle.series, late, shift)[0].mean(axis=0) - mean
    of_sum, differences = _binned(cycle, series, starts)
    of_sum = of_sum - mean
    along = of_sum @ tangent / max(float(tangent @ tangent), 1e-300)
    return of_sum - np.outer(along, tangent), differences - mean_difference


def _later_starts(cycle: _Cycle, series: _Series, begin: float) -> Real:
    """Return the sections of a disturbed run, from a time [s] on, for complete periods."""
    first = ceil(begin / series.step)
    sections = sections_of(series.signal[first:], cycle.sections.period, cycle.sections.template)
    return sections.starts[:-1] + first


def _noise(cycle: _Cycle) -> tuple[float, float]:
    """Return the norms below which deviations of the sum, and of the differences, are noise."""
    late = cycle.sections.starts[len(cycle.sections.starts) // 2 : -1]
    of_sum, differences = _deviations(cycle, cycle.series, late)
    sizes = [float(np.median(np.linalg.norm(rows, axis=1))) for rows in (of_sum, differences)]
    return max(sizes[0], 1e-9), max(sizes[1], 1e-9)


def _of_sum(case: _Case, cycle: _Cycle) -> ReturnMap | None:
    """Return the multipliers of the sum of flows: from cuts of the capacity, else from the approach to the cycle."""
    noise = _noise(cycle)[0]
    sequences = list[Real]()
    for size in _CUTS[case.engine]:
        try:
            sequences = [_after_cut(case, cycle, size, index) for index in range(len(_PHASES[case.engine]))]
        except (ValueError, EccError):
            break  # this kind of loop has no changes of capacity, or the cut stops a flow
        if min(np.linalg.norm(rows[0]) for rows in sequences) > _CLEAR * noise:
            break
    fitted = fitted_map([rows[1:] for rows in sequences], noise, _CEILING[case.engine])
    if fitted is None and sequences:
        fitted = dead_beat(sequences, noise)
    if fitted is None:
        approach = _deviations(cycle, cycle.series, _later_starts(cycle, cycle.series, 0.0))[0]
        fitted = fitted_map([approach], noise, _CEILING[case.engine])
    return fitted


def _after_cut(case: _Case, cycle: _Cycle, size: float, index: int) -> Real:
    """Return the deviations of the sum of flows in the period of a cut of the capacity and after it."""
    step, period, capacity = cycle.series.step, cycle.period, case.capacity
    span = float(np.ptp(cycle.rows[:, :, 0].mean(axis=0)))
    bits = size * (8.0 * span if span > 0.0 else 0.1 * capacity * period)
    width = max(period / 50.0, bits / (0.5 * capacity))
    begin = float(cycle.sections.starts[2]) * step
    at = begin + _PHASES[case.engine][index] * period
    link = int(case.network.capacities.argmin())
    cut = CapacitySchedule(link, (at, at + width), (capacity - bits / width, capacity))
    series = case.run(at + width + _AFTER * period, step, cut=cut, seed=index)
    starts = _later_starts(cycle, series, begin - 0.5 * period)
    first = int(np.searchsorted(starts, at / step)) - 1
    last = int(np.searchsorted(starts, (at + width) / step)) - 1  # the last period with a part of the cut
    of_sum = _deviations(cycle, series, starts)[0]
    return np.vstack([of_sum[max(first, 0)], of_sum[max(last, 0) + 1 :]])


def _of_differences(case: _Case, cycle: _Cycle) -> ReturnMap | None:
    """Return the multipliers of the differences of flows, from later starts of some flows."""
    n_flows, noise = case.network.n_flows, _noise(cycle)
    sequences = []
    for index, share in enumerate(_LATER[case.engine]):
        later = share * cycle.period * np.arange(n_flows) / max(n_flows - 1, 1)
        series = case.run(cycle.settled + _PERIODS * cycle.period, cycle.series.step, later.tolist(), seed=index)
        of_sum, differences = _deviations(cycle, series, _later_starts(cycle, series, float(later.max())))
        is_near = np.linalg.norm(of_sum, axis=1) < max(_NEAR[case.engine], 4.0 * noise[0])
        first = 0 if is_near.all() else len(is_near) - int(np.argmin(is_near[::-1]))
        sequences.append(differences[first:])
    return fitted_map([rows for rows in sequences if len(rows) > 1], noise[1], _CEILING[case.engine])
