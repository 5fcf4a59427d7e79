"""Fluid runs of a scenario: checks, the choice of clock, and the trajectory of every flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import process_time
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.memory import free_memory, reserved_bytes
from ecc._support.quantity import Quantity, as_number
from ecc._support.reports import ProgressCallback, Share
from ecc.contract.entries import Taken
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.kinds import Kind, kind_of, router_takes, sets_windows, source_takes, steps_from_rate
from ecc.contract.protocol import Protocol
from ecc.contract.records import check_params, state_units
from ecc.contract.values import equilibrium_of
from ecc.fluid.network.groups import FluidNetwork, StepDelays, step_delays
from ecc.fluid.network.kernels import kernel_of
from ecc.fluid.network.problem import MAX_UPDATES, Problem
from ecc.fluid.network.result import Result
from ecc.laws.arguments import takes
from ecc.network.impairments import CapacitySchedule, RandomLoss
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario, notes_at_end, notes_on_parameters, notes_on_queues, notes_on_unfinished

if TYPE_CHECKING:
    from ecc.loops.marked_hosts import MarkingEquilibrium

__all__ = ["Prepared", "prepare", "run_together", "simulate"]

_TIMES = ("continuous", "averaged", "discrete")
_STARTS = ("empty", "equilibrium")
_CLOCKINGS = ("ack", "rate")
_SIGNALS = ("rate", "random")


@check_arguments
def simulate(
    scenario: Scenario,
    sample: Quantity | None = None,
    start: str | ArrayLike = "empty",
    perturbation: float = 0.0,
    *,
    record: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    cancel: Callable[[], bool] | None = None,
    time: str = "continuous",
    rtol: float = 1e-6,
    delays: tuple[ArrayLike, ArrayLike] | None = None,
    clocking: str = "ack",
    signals: str = "rate",
    updates_per_rtt: int | None = None,
) -> Trajectory:
    """Return the fluid run of a scenario: rates and queues without packets, from the protocol's laws.

    Continuous runs solve delay differential equations, which the module continuous of ecc.fluid.network describes.
    Discrete runs compute the papers' recurrences (recurrence), with one step a control interval, delays rounded up, and
    headers that read routers as packets leave their queues. In discrete runs of window protocols (rounds), each host
    acts once per RTT and holds its window in between. Hosts that set rates by states of their own update them at their
    times (rate_updates). In continuous time some protocols are computed as
    cumulative curves in fixed steps. These are window protocols (windows), and protocols with
    a `fluid_form`: routers that grant the rest of the last interval (granted_windows), sources that change rates in
    steps (stepped_rates), sources that respond to prices of intervals (sampled_prices), and hosts that are machines of
    states (machines, a part of windows).

    Averaged runs spread every action evenly over its interval, T x' = law - x, also for protocols with a `fluid_form`,
    and for routers and queue disciplines of windows. These are the equations whose linear form is
    `ecc.linearize(time="continuous")`. Protocols of which no part acts at ticks have the same run with both times.

    Parameters
    ----------
    scenario : Scenario
        Scenario without a workload of transfers, of one protocol, or of several window protocols, over queue
        disciplines if these need no routers. In continuous time, and for windows, it may have random losses and
        capacities that change. In continuous time it may have unresponsive flows if hosts set rates.
    sample : float, s, > 0, optional
        Sampling period: series are averages over it, labelled by its end; for example 0.1.
    start : str or array_like, optional
        "empty": queues are empty, routers are at `initial` times their capacity, and flows join at their start.
        "equilibrium": the stationary point of the laws has held for all t < 0, with all flows active at any start time
        (over queue disciplines, the point of `ecc.loops.marked_hosts`, with their states and those of hosts). An array
        of shape (n_flows,), bit/s, > 0: rates of all flows for all t < 0, bottlenecked at the first link of their route
        or the assigned one, before the first tick of the routers (not for window protocols).
    perturbation : float, > -1, optional
        Relative deviation of all rates from the equilibrium, before and at the start (windows deviate at the start
        only). Only with start "equilibrium".
    record : sequence of str, optional
        States to record at the end of each sample, as series of the trajectory, if the protocol's laws have them:
        "link.R" and "flow.x" [bit/s]. For windows: "env.window" [bytes], "flow.m", "link.R", and states of queue
        disciplines by name ("link.average"). For machines: "env.window" and their states by name. For granted windows:
        "env.window", "env.srtt" [s] and "link.d" [s], the mean RTT that a router uses.
    progress : callable, optional
        Called regularly with a `Progress`: the completed `share` of the duration.
    cancel : callable, optional
        Called at intervals; the run ends if it returns True, for example `threading.Event().is_set`.
    time : str, optional
        "continuous", "averaged" (no interval has a beginning or an end) or "discrete".
    rtol : float, in [1e-13, 0.1], optional
        Relative tolerance of the solver of differential equations; not used for windows.
    delays : tuple of two array_like, optional
        (forward, backward), for discrete runs: integer numbers of control intervals, >= 0 from each flow to each link
        and >= 1 back, that broadcast to (period, n_flows, n_links). Row n % period holds for the arrivals of step n, so
        that a table of draws gives random delays. The delays of the network are then not used, and laws that take RTTs
        get the longest.
    clocking : str, optional
        For windows. "ack": ACKs admit as much as they acknowledge, and queues track windows within an RTT. "rate": a
        flow sends at its window over its RTT, as in the models of Low and others, in which queues integrate that rate
        minus the capacity, and routers that grant windows act on averages at every moment. Verdicts differ:
        docs/fluid_against_packets.md.
    signals : str, optional
        For windows over queue disciplines. "rate": a window moves by the mean response to the packets that are marked
        or dropped. "random": it jumps if a packet is chosen, drawn from the scenario's seed, once an RTT.

    updates_per_rtt : int, from 1 to 50, optional
        For windows in discrete time: number of times per RTT at which a host acts, for example 1, and then moves by
        this part of its law. None: 1, or for hosts whose windows follow a state (`window_clock`) the number of ACKs.

    Returns
    -------
    Trajectory
        Drops are in packets of the mean size at the link; `stats` has steps, rejected, cpu_seconds, and `stopped`:
        "completed", "canceled", "interrupted" (Ctrl-C), or the reason why the run could not continue.

    Raises
    ------
    ValueError
        If the fluid does not support a part of the scenario, if time or start is unknown, or a value is out of range.
    LinearizationError
        If no equilibrium exists.

    Notes
    -----
    Equal flows are computed once, unless random losses make their windows differ. Dropped fluid is not retransmitted.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", rtts=[0.12])
    >>> run = simulate(ecc.Scenario(net, ecc.models.QIRCP(), 20.0))
    >>> round(float(run.rate[-1, 0]) / 1e6)
    95
    """
    prepared = prepare(
        scenario,
        sample,
        start,
        perturbation,
        {},
        record=record,
        progress=progress,
        cancel=cancel,
        time=time,
        rtol=rtol,
        delays=delays,
        clocking=clocking,
        signals=signals,
        updates_per_rtt=updates_per_rtt,
    )
    text = scenario.to_toml()  # refuses, before the run, a scenario that cannot be stored with the result
    return prepared.trajectory(prepared.run(), text)


@dataclass(frozen=True)
class Prepared:
    """A run that has passed all checks: its problem, the fluid `model` that solves it, and the parts of its result.

    `begun`: CPU time at the start of its work [s].
    """

    scenario: Scenario
    problem: Problem
    model: ModuleType
    watch: _Watch
    time: str
    notes: tuple[str, ...]
    record: tuple[str, ...]
    begun: float

    def point_of(self, protocol: Protocol, start: str | ArrayLike) -> Equilibrium | None:
        """Return the point, as in `Problem`, of a run with another protocol and start.

        Parameters
        ----------
        protocol : Protocol
        start
            As in `simulate`.

        Raises
        ------
        ValueError, LinearizationError
            As `simulate`.
        """
        rates = None if isinstance(start, str) else _rates(start, self.scenario.network.n_flows)
        return _point(self.scenario, protocol, start, rates)

    @staticmethod
    def factor_of(start: str | ArrayLike, perturbation: float) -> float:
        """Return the factor, as in `Problem`, of a start.

        Parameters
        ----------
        start, perturbation
            As in `simulate`.

        Raises
        ------
        ValueError
            As `simulate`.
        """
        return 1.0 + _perturbation(perturbation, start)

    def run(self) -> Result:
        """Return the result of the model."""
        return self.ended(self.model.run(self.problem))

    def ended(self, result: Result) -> Result:
        """Return the result of the model, marked as canceled if the run was.

        Parameters
        ----------
        result : Result
        """
        if self.watch.canceled:
            done = len(result.time) == len(self.problem.samples)
            result = replace(result, stopped="completed" if done else "canceled")
        return result

    def series(self, result: Result) -> dict[str, NDArray[Any]]:
        """Return the series of a trajectory, name -> array (n_times, n_flows or n_links).

        Parameters
        ----------
        result : Result
        """
        return _series(self.problem.fluid, result, self.record)

    def trajectory(self, result: Result, text: str) -> Trajectory:
        """Return the result as a trajectory.

        Parameters
        ----------
        result : Result
        text : str
            The scenario, as it is stored with the trajectory.
        """
        seconds = process_time() - self.begun
        return _trajectory(self.scenario, text, self.problem.fluid, result, seconds, self.time, self.notes, self.record)


def run_together(members: Sequence[Prepared]) -> list[Result | Exception]:
    """Return the result or the exception of each member of an ensemble; similar members are set up together.

    Parameters
    ----------
    members : sequence of Prepared
    """

    def alone(prepared: Prepared) -> Result | Exception:
        try:
            return prepared.run()
        except Exception as error:  # the failure of one member must not end the ensemble
            return error

    alike: dict[Any, list[int]] = {}
    for k, prepared in enumerate(members):
        kind: Any = k
        if hasattr(prepared.model, "likeness"):
            with suppress(Exception):  # `alone` will raise the exception again
                kind = prepared.model.likeness(prepared.problem)
        alike.setdefault(kind, []).append(k)
    results_of_all: list[Any] = [None] * len(members)
    for group in alike.values():
        results: list[Any] = []
        if len(group) > 1:
            try:
                model = members[group[0]].model
                results = [
                    members[k].ended(result)
                    for k, result in zip(group, model.run_alike([members[k].problem for k in group]), strict=True)
                ]
            except Exception:  # one member failed: running each alone shows which
                results = []
        for k, result in zip(group, results or [alone(members[k]) for k in group], strict=True):
            results_of_all[k] = result
    return results_of_all


@check_arguments
def prepare(
    scenario: Scenario,
    sample: Quantity | None,
    start: str | ArrayLike,
    perturbation: float,
    shared: dict[Any, Any],
    *,
    record: Sequence[str],
    progress: ProgressCallback | None,
    cancel: Callable[[], bool] | None,
    time: str,
    rtol: float,
    delays: tuple[ArrayLike, ArrayLike] | None,
    clocking: str,
    signals: str,
    updates_per_rtt: int | None = None,
) -> Prepared:
    """Return a run that is ready to begin.

    Parameters
    ----------
    shared : dict
        Objects that the runs of one ensemble share, empty before the first.
    scenario, sample, start, perturbation, record, progress, cancel, time, rtol, delays, clocking, signals,
    updates_per_rtt
        As in `simulate`.

    Raises
    ------
    ValueError, LinearizationError
        As `simulate`.
    """
    _check_scenario(scenario)
    rates = None if isinstance(start, str) else _rates(start, scenario.network.n_flows)
    for name, value, allowed in (
        ("time", time, _TIMES),
        ("start", start if rates is None else "empty", _STARTS),
        ("clocking", clocking, _CLOCKINGS),
        ("signals", signals, _SIGNALS),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    width = scenario.sample_period(sample)
    rows = scenario.n_samples(width)
    columns = 4 * scenario.network.n_links + (4 + len(record)) * scenario.network.n_flows
    reserved_bytes(free_memory(), series=rows * columns)
    factor = 1.0 + _perturbation(perturbation, start)
    tolerance = as_number(rtol, "rtol")
    if not 1e-13 <= tolerance <= 0.1:
        raise ValueError(f"rtol must be >= 1e-13 and <= 0.1, got {shown(tolerance)}")
    if updates_per_rtt is not None and not 1 <= updates_per_rtt <= MAX_UPDATES:
        raise ValueError(f"updates_per_rtt must be from 1 to {MAX_UPDATES}, got {shown(updates_per_rtt)}")
    options = _Options(time, start, rates, delays, clocking, signals, updates_per_rtt)
    parts = _parts_of(scenario, options)
    _check_hosts(options, parts)
    _check_links(scenario, options, parts)
    drawn = _notes_on_draws(parts.disciplines, signals, parts.losses if parts.windows else ())
    notes = tuple(dict.fromkeys([*(note for host, taken in parts.taken.items() for note in taken.check(host)), *drawn]))
    if len(parts.taken) > 1 and start != "empty" and not any(parts.disciplines):
        raise ValueError(
            f"start must be 'empty' for several protocols without queue disciplines, got {shown(start)} for "
            f"{scenario.deployment}"
        )
    states = (name for host, taken in parts.taken.items() for name in _recordable(host, taken, parts.disciplines))
    _check_record(record, list(dict.fromkeys(states)))
    _check_losses_and_unresponsive_flows(options, parts)
    joined = _joined(scenario, parts.runs, parts.disciplines)
    fluid, table = _fluid_and_delays(scenario, options, parts, joined, shared)
    model = kernel_of(parts.taken[parts.protocol])
    begun = process_time()
    point, marking = _equilibria(scenario, options, parts)
    samples: NDArray[np.float64] = width * np.arange(1.0, rows + 1.0)
    watch = _Watch(progress, cancel)
    ticks = scenario.first_ticks(np.arange(fluid.n_links), np.random.default_rng(scenario.seed))
    problem = Problem(
        tuple(parts.runs[i] for i in fluid.first_flow),
        fluid,
        samples,
        watch,
        ticks,
        point,
        marking,
        factor,
        records=len(record) > 0,
        rtol=tolerance,
        ack_clocked=clocking == "ack",
        averaged=time == "averaged",
        seed=scenario.seed,
        delays=table,
        disciplines=parts.disciplines,
        signals=signals,
        updates_per_rtt=updates_per_rtt,
        joined=() if joined is None else [joined[i] for i in fluid.first_flow],
        shared=shared,
    )
    return Prepared(scenario, problem, model, watch, time, notes, tuple(record), begun)


class _Options(NamedTuple):
    """Options of a run; each alone has an allowed value."""

    time: str
    start: str | ArrayLike
    rates: NDArray[np.float64] | None  # rates of all flows at the start, if `start` gives them
    delays: tuple[ArrayLike, ArrayLike] | None
    clocking: str
    signals: str
    updates_per_rtt: int | None


class _Parts(NamedTuple):
    """Parts of a scenario that determine its fluid."""

    runs: list[Protocol]  # protocol of each flow; unresponsive flows have that of the responsive ones
    steady: NDArray[np.float64]  # rates of unresponsive flows, 0 of others
    disciplines: tuple[Protocol | None, ...]  # one per link
    losses: list[RandomLoss]
    taken: dict[Protocol, Taken]  # each protocol -> declaration that its fluid supports

    @property
    def protocol(self) -> Protocol:
        """Protocol of the first flow."""
        return self.runs[0]

    @property
    def machines(self) -> bool:
        """Whether hosts are machines of states."""
        from ecc.fluid.network.supported_entries import MACHINES

        return MACHINES in self.taken.values()

    @property
    def windows(self) -> bool:
        """Whether hosts set windows."""
        from ecc.fluid.network.supported_entries import MACHINES, ROUNDS, WINDOWS

        return self.taken[self.protocol] in (WINDOWS, ROUNDS, MACHINES)


def _check_scenario(scenario: Scenario) -> None:
    """Raise for settings of a scenario that only packet runs support."""
    if not isinstance(scenario, Scenario):
        raise TypeError(f"scenario must be a Scenario, got {shown(scenario)}")
    if scenario.header_bytes:
        raise ValueError("header_bytes must be False for a fluid run: fluid has no packets")
    if scenario.intervals is not None:
        raise ValueError("intervals must be None for a fluid run: its routers have one control interval")
    if scenario.workload is not None:
        raise ValueError("workload must be None for a fluid run: it carries the flows of the network only")


def _perturbation(perturbation: float, start: str | ArrayLike) -> float:
    """Return the checked relative deviation of rates from the equilibrium."""
    deviation = as_number(perturbation, "perturbation")
    if not deviation > -1.0:
        raise ValueError(f"perturbation must be > -1, got {shown(deviation)}")
    if deviation != 0.0 and not (isinstance(start, str) and start == "equilibrium"):
        raise ValueError(f"perturbation belongs to start='equilibrium', got {shown(deviation)} with start={start!r}")
    return deviation


def _parts_of(scenario: Scenario, options: _Options) -> _Parts:
    """Return the parts of a scenario, or raise for parts that no fluid supports."""
    from ecc.fluid.network.supported_entries import taken_by

    for deployed in scenario.deployment.protocols:
        check_params(deployed)
    runs, steady, disciplines = _responsive(scenario)
    _check_losses(scenario)
    losses = [impairment for impairment in scenario.impairments if isinstance(impairment, RandomLoss)]
    taken = {host: taken_by(host, options.time, options.clocking == "ack") for host in dict.fromkeys(runs)}
    return _Parts(runs, steady, disciplines, losses, taken)


def _check_hosts(options: _Options, parts: _Parts) -> None:
    """Raise for options that the hosts of a scenario do not support."""
    time, start, clocking = options.time, options.start, options.clocking
    protocol, kind = parts.protocol, type(parts.protocol)
    if parts.machines and clocking != "ack":
        raise ValueError(f"clocking must be 'ack' for hosts that are machines of states, got {shown(clocking)}")
    if parts.machines and start != "empty":
        raise ValueError(f"start must be 'empty' for hosts that are machines of states, got {shown(start)}")
    if clocking != "ack" and not (parts.windows or protocol.windowed):
        raise ValueError(f"clocking applies to window protocols only, got {shown(clocking)}")
    if parts.machines and time != "continuous":
        raise ValueError(f"time must be 'continuous' for hosts that are machines of states, got {shown(time)}")
    if options.updates_per_rtt is not None and (time != "discrete" or not parts.windows):
        raise ValueError(
            f"updates_per_rtt applies to windows in discrete time only, got {options.updates_per_rtt} with time="
            f"{time!r} for {kind.__name__}"
        )
    if time == "discrete" and parts.windows and protocol.window_clock == "ack":
        raise ValueError(
            f"time must be 'continuous' or 'averaged' for windows of {kind.__name__}, whose steps at each ACK depend "
            "on steps before (window_clock='ack'), got 'discrete'"
        )
    if time == "averaged" and clocking == "ack" and kind_of(protocol) is Kind.GRANTED_WINDOWS:
        raise ValueError(
            f"clocking must be 'rate' for time='averaged' of {kind.__name__}, got 'ack': its routers respond to "
            "present arrivals, and windows that ACKs clock arrive in trains"
        )
    if time == "discrete" and "stamping" in kind.__dataclass_fields__ and protocol.stamping != "departure":
        raise ValueError(f"time must be 'continuous' for stamping={protocol.stamping!r}, got {shown(time)}")
    if parts.windows and options.rates is not None:
        raise ValueError(
            f"start must be 'empty' or 'equilibrium' for {kind.__name__}, a window protocol, got {shown(start)}"
        )
    if options.delays is not None and time != "discrete":
        raise ValueError(f"delays belong to time='discrete', got time={time!r}")
    if options.delays is not None and parts.windows:
        raise ValueError(f"delays must be None for {kind.__name__}: windows have the delays of the network")


def _check_links(scenario: Scenario, options: _Options, parts: _Parts) -> None:
    """Raise for options that the impairments and queue disciplines of a scenario do not support."""
    if parts.windows and any(loss.acks_of is not None for loss in parts.losses):
        raise ValueError("acks_of must be None for windows as fluid: the next ACK also reports the data of a lost ACK")
    if options.time == "averaged":
        _check_departures(parts.disciplines)
    if options.time == "discrete" and not parts.windows and len(parts.losses) < len(scenario.impairments):
        raise ValueError("schedules of capacities need time='continuous' or 'averaged', got 'discrete'")
    if any(parts.disciplines) and parts.losses and options.start != "empty":
        raise ValueError(
            "start must be 'empty' for a fluid run over queue disciplines with random losses, got "
            f"{shown(options.start)}"
        )
    if options.signals != "rate" and not any(parts.disciplines):
        raise ValueError(f"signals must be 'rate' if no link has a queue discipline, got {shown(options.signals)}")


def _check_departures(disciplines: Sequence[Protocol | None]) -> None:
    """Raise for disciplines with hooks on departures: hooks act packet by packet, and no average of them is known."""
    from ecc.fluid.network.disciplines import chooses_departures

    for discipline in disciplines:
        if discipline is not None and chooses_departures(discipline):
            raise ValueError(
                f"time must be 'continuous' over {type(discipline).__name__}, which chooses departures, got 'averaged'"
            )


def _check_losses_and_unresponsive_flows(options: _Options, parts: _Parts) -> None:
    """Raise for random losses and unresponsive flows that the fluid of the other options does not support."""
    unresponsive = parts.steady.any()
    by_interval = options.time == "discrete" and not parts.windows
    if unresponsive and parts.windows:
        raise ValueError(
            "a fluid run with window protocols cannot have unresponsive flows: use a packet run, or reduce capacities "
            "by their rates"
        )
    if by_interval and (parts.losses or unresponsive):
        cause = "random losses" if parts.losses else "unresponsive flows"
        raise ValueError(f"time must be 'continuous' or 'averaged' for a fluid run with {cause}, got {options.time!r}")
    if unresponsive and (options.rates is not None or options.start != "empty"):
        raise ValueError(f"start must be 'empty' for a fluid run with unresponsive flows, got {shown(options.start)}")


def _fluid_and_delays(
    scenario: Scenario,
    options: _Options,
    parts: _Parts,
    joined: list[tuple[int, ...]] | None,
    shared: dict[Any, Any],
) -> tuple[FluidNetwork, StepDelays | None]:
    """Return the fluid network of a run, and the delays of its recurrence if these are not those of the network."""
    rates, delays, start = options.rates, options.delays, options.start
    random_losses = parts.windows and bool(parts.losses)
    separate = rates is not None or delays is not None or random_losses or options.signals == "random" or parts.machines
    hosts = list(parts.taken)
    unlike = list(zip(map(hosts.index, parts.runs), joined or [()] * len(parts.runs), strict=True))
    idle = _idle(scenario) if rates is None and start == "empty" and delays is None else None
    fluid = _network(scenario, separate, parts.steady, unlike, idle, shared)
    table = None if delays is None else step_delays(delays, fluid)
    if table is not None:
        interval = parts.protocol.params()["interval"]
        fluid = replace(fluid, rtt=np.multiply(interval, table.longest, dtype=np.float64))
    if not np.all(fluid.rtt > 0.0):
        raise ValueError(f"RTTs must be > 0 s for a fluid run, got 0.0 (flow {int(np.argmin(scenario.network.rtts))})")
    return fluid, table


def _equilibria(
    scenario: Scenario, options: _Options, parts: _Parts
) -> tuple[Equilibrium | None, MarkingEquilibrium | None]:
    """Return the point that holds before the start, and over queue disciplines also that of their marks."""
    if options.rates is not None or options.start == "empty" or not any(parts.disciplines):
        return _point(scenario, parts.protocol, options.start, options.rates), None
    from ecc.loops.marked_hosts import equilibrium_of_marks

    marking = equilibrium_of_marks(scenario.deployment, scenario.network)
    feedback = np.full(scenario.network.n_flows, -1)
    return Equilibrium(marking.rates, marking.probabilities, feedback, marking.queues), marking


def _point(
    scenario: Scenario, protocol: Protocol, start: str | ArrayLike, rates: NDArray[np.float64] | None
) -> Equilibrium | None:
    """Return the point that holds before the start if there are no queue disciplines; None: the network is empty."""
    network = scenario.network
    if rates is not None:
        max_rates = np.array([protocol.rate_range(float(C))[1] for C in network.capacities])
        entered = [flow.route[0] for flow in network.flows]
        bottleneck = np.array(entered if scenario.assignment is None else scenario.assignment)
        return Equilibrium(rates, max_rates, bottleneck)
    return None if start == "empty" else equilibrium_of(protocol, network, scenario.assigned)


def _idle(scenario: Scenario) -> NDArray[np.bool_] | None:
    """Return whether each flow never sends in a run that starts empty; None if this holds for no flow, or for all."""
    flows = scenario.network.flows
    idle = np.array(
        [f.start >= scenario.duration or (f.stop is not None and f.stop <= f.start) for f in flows], dtype=bool
    )
    return idle if idle.any() and not idle.all() else None


def _network(
    scenario: Scenario,
    separate: bool,
    steady: NDArray[np.float64],
    unlike: Sequence[Any],
    idle: NDArray[np.bool_] | None,
    shared: dict[Any, Any],
) -> FluidNetwork:
    """Return the fluid network of a scenario, shared with other scenarios that have the same parts."""
    parts = (scenario.network, scenario.impairments)
    left_out = b"" if idle is None else idle.tobytes()
    key = (*map(id, parts), scenario.assignment, separate, steady.tobytes(), tuple(unlike), left_out)
    if key not in shared:
        shared[key] = parts, FluidNetwork.of(scenario, separate, steady, unlike, idle)  # parts keep their ids
    network: FluidNetwork = shared[key][1]
    return network


class _Watch:
    """Callback of a run at intervals: it reports progress, and ends a canceled run as Ctrl-C does."""

    def __init__(self, progress: ProgressCallback | None, cancel: Callable[[], bool] | None) -> None:
        self.progress, self.cancel, self.canceled = progress, cancel, False

    def __call__(self, share: float) -> None:
        if self.progress is not None:
            self.progress(Share(share))
        if self.cancel is not None and self.cancel():
            self.canceled = True
            raise KeyboardInterrupt


def _recordable(protocol: Protocol, taken: Taken, disciplines: Sequence[Protocol | None]) -> list[str]:
    """Return the names of the states of laws that a fluid can record."""
    from ecc.fluid.network import supported_entries

    if taken is supported_entries.MACHINES:
        from ecc.fluid.network.machines import machine_fields

        return ["env.window", *(f"flow.{name}" for name in machine_fields(protocol))]
    if taken is supported_entries.WINDOWS or taken is supported_entries.ROUNDS:
        keeps_feedback = router_takes(protocol, "R") or takes(protocol.announce_law, "R")
        states = [f"link.{name}" for discipline in disciplines if discipline is not None for name in discipline.states]
        states += [f"flow.{name}" for name in protocol.states]
        keeps = ["flow.m"] * (protocol.memory_law is not None) + ["link.R"] * keeps_feedback
        return ["env.window", *keeps, *dict.fromkeys(states)]
    if taken is supported_entries.GRANTED:
        return ["env.window", "env.srtt", "link.d"]
    keeps_rate = steps_from_rate(protocol) and not protocol.windowed
    keeps_state = router_takes(protocol, "R")
    if taken is supported_entries.STEPPED or taken is supported_entries.SAMPLED:
        keeps_state = True
    if taken is supported_entries.RECURRENCE:
        keeps_rate = True
    states = (
        [f"flow.{name}" for name in protocol.states]
        if taken in (supported_entries.EQUATIONS, supported_entries.AVERAGED, supported_entries.UPDATES)
        else []
    )
    return ["flow.x"] * keeps_rate + ["link.R"] * keeps_state + states


def _notes_on_draws(
    disciplines: Sequence[Protocol | None], signals: str, losses: Sequence[RandomLoss]
) -> Iterator[str]:
    """Yield a note for each part of a run that draws random numbers, other than phases, from the scenario's seed."""
    from ecc.fluid.network.disciplines import chooses_departures

    parts = [
        type(discipline).__name__
        for discipline in disciplines
        if discipline is not None and chooses_departures(discipline) and "random" in discipline.required_env
    ]
    parts += ["signals='random'"] if signals == "random" else []
    parts += ["RandomLoss"] if losses else []
    for part in dict.fromkeys(parts):
        yield (
            f"{part} draws random numbers: this trajectory is one draw, and ecc.fluid.ensemble(scenario, "
            "{'seed': [1, 2, 3, ...]}) gives their distribution"
        )


def _check_record(names: Sequence[str], allowed: Sequence[str]) -> None:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"record must be a sequence of names, got {names!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"record must name each state once, got {', '.join(names)}")
    for name in names:
        if name not in allowed:
            raise ValueError(f"record must name states of this fluid ({', '.join(allowed) or 'none'}), got {name!r}")


def _rates(start: ArrayLike, flows: int) -> NDArray[np.float64]:
    rates = np.asarray(start, dtype=float)
    if rates.shape != (flows,) or not np.all((rates > 0.0) & np.isfinite(rates)):
        raise ValueError(f"start must be 'empty', 'equilibrium' or {flows} rates > 0 bit/s, got {shown(start)}")
    return rates


def _responsive(scenario: Scenario) -> tuple[list[Protocol], NDArray[np.float64], tuple[Protocol | None, ...]]:
    """Return the protocol of each flow, the rates of unresponsive flows, and the disciplines of links.

    Unresponsive flows get the protocol of the responsive ones.
    """
    from ecc.fluid.network.supported_entries import taken_by

    network, protocols, routers = scenario.network, scenario.deployment.flows, scenario.deployment.links
    responsive = list(dict.fromkeys(host for host in protocols if host.is_responsive))
    for host in responsive:
        if host.fluid_refusal is not None:
            raise ValueError(host.fluid_refusal)
        taken_by(host, "continuous", ack_clocked=True).check_laws(host)  # laws that it needs for any options
    if len(responsive) != 1 and not (responsive and all(map(_sets_windows, responsive))):
        raise ValueError(
            "protocol must be one Protocol, optionally with unresponsive flows, for a fluid run, got "
            f"{scenario.protocol}{': several protocols must all be window protocols' if responsive else ''}"
        )
    disciplines: list[Protocol | None] = [None] * network.n_links
    for flow, protocol in zip(network.flows, protocols, strict=True):
        for link in flow.route if protocol.is_responsive else ():
            deployed = [router for router in routers[link] if router.is_responsive]
            disciplines[link] = _discipline(link, deployed, protocol, responsive)
    rates = [
        0.0 if host.is_responsive else host.opening_rate(rtt, 8.0 * flow.mean_packet)
        for flow, rtt, host in zip(network.flows, network.rtts, protocols, strict=True)
    ]
    runs = [host if host.is_responsive else responsive[0] for host in protocols]
    return runs, np.array(rates, float), tuple(disciplines)


def _joined(
    scenario: Scenario, runs: Sequence[Protocol], disciplines: Sequence[Protocol | None]
) -> list[tuple[int, ...]] | None:
    """Return the index of the queue that each flow joins at each link of its route; None if each link has one queue."""
    if not any(discipline is not None and discipline.queues is not None for discipline in disciplines):
        return None
    from ecc.fluid.network.queues import joined_queue

    return [
        tuple(joined_queue(disciplines[link], index, host) for link in flow.route)
        for index, (flow, host) in enumerate(zip(scenario.network.flows, runs, strict=True))
    ]


def _sets_windows(host: Protocol) -> bool:
    return kind_of(host) is Kind.STATE_MACHINE or sets_windows(host)


def _discipline(link: int, deployed: Sequence[Protocol], host: Protocol, hosts: Sequence[Protocol]) -> Protocol | None:
    """Return the queue discipline of a link that has not only the routers of hosts; None if `host` needs no other."""
    from ecc.fluid.network.disciplines import discipline_refusal

    if list(deployed) == [host]:
        return None
    acting = [
        router
        for router in deployed
        if router not in hosts
        and (router.probability_law is not None or (router.has_packet_hooks() and router.link_hooks()))
    ]
    name = type(host).__name__
    needs_own = not host.has_packet_hooks() or host.link_hooks()
    missing = needs_own and (acting or host not in deployed)
    if missing or not _sets_windows(host) or len(acting) > 1:
        raise ValueError(f"link {link} must have the routers of {name} for a fluid run")
    if not acting:
        return None
    if refusal := discipline_refusal(acting[0]):
        raise ValueError(refusal)
    if kind_of(host) is Kind.STATE_MACHINE:
        return acting[0]
    answers_marks = source_takes(host, "marked") and "ecn" in acting[0].gives
    if host.loss_response_law is None and not answers_marks:
        raise ValueError(f"{name} has no fluid model over {type(acting[0]).__name__}: it has no loss_response_law")
    return acting[0]


def _check_losses(scenario: Scenario) -> None:
    """Raise for impairments that only packet runs support."""
    for index, impairment in enumerate(scenario.impairments):
        kind = type(impairment).__name__
        if isinstance(impairment, CapacitySchedule):
            continue
        if not isinstance(impairment, RandomLoss):
            raise ValueError(
                f"impairments must be RandomLoss or CapacitySchedule for a fluid run, got {kind} (impairments[{index}])"
            )
        if impairment.link is not None and impairment.kind == "ack":
            raise ValueError(f"kind must be 'data' or 'all' for a fluid run, got 'ack' (impairments[{index}])")


def _series(fluid: FluidNetwork, result: Result, record: Sequence[str]) -> dict[str, NDArray[Any]]:
    flows_through = np.maximum(1.0, fluid.members @ fluid.crosses)
    packet = (fluid.members * fluid.packet_size) @ fluid.crosses / flows_through  # mean size of the packets of a link
    packet[packet == 0.0] = 1.0
    by_class = {}
    if result.classes is not None:
        in_packets = 8.0 * packet[result.classes[0]]
        by_class = {
            name: values / (8.0 if name == "class_queue" else in_packets) for name, values in result.by_class.items()
        }
    return {
        "rate": fluid.spread(result.rate),
        "goodput": fluid.spread(result.goodput),
        "bottleneck": fluid.spread(result.bottleneck, -1),
        "queue": result.queue / 8.0,
        "queue_max": result.queue_max / 8.0,
        "arrival": result.arrival,
        "drops": result.drops / 8.0 / packet,
        "dropped_bytes": result.drops / 8.0,
        **by_class,
        **({} if result.marks is None else {"marks": result.marks / 8.0 / packet}),
        **{
            name: result.recorded[name] if name.startswith("link.") else fluid.spread(result.recorded[name], np.nan)
            for name in record
        },
    }


def _trajectory(
    scenario: Scenario,
    text: str,
    fluid: FluidNetwork,
    result: Result,
    seconds: float,
    time: str,
    notes: tuple[str, ...],
    record: Sequence[str],
) -> Trajectory:
    from ecc import __version__

    flows_of = scenario.network.flows
    finish = fluid.spread(result.stopped_at + fluid.rtt, np.nan)
    begin = np.array([flow.start for flow in flows_of])
    size = np.array([np.inf if flow.size is None else flow.size for flow in flows_of], dtype=float)
    sized = np.isfinite(size)
    sent = fluid.spread(result.sent) / 8.0
    finish = np.where(sized & (sent >= size * (1.0 - 1e-9)), finish, np.nan)
    series = _series(fluid, result, record)
    flows = {
        "start": begin,
        "finish": finish,
        "size": np.where(sized, size, np.nan),
        "completion_time": finish - begin,
        "delivered": fluid.spread(result.delivered) / 8.0,
        "lost": fluid.spread(result.lost) / 8.0,
        "retransmitted": np.zeros(len(begin)),
    }
    stats: dict[str, Any] = {**result.stats, "cpu_seconds": seconds, "stopped": result.stopped}
    at_end = notes_at_end(scenario, np.asarray(result.time), series["rate"])
    has_started = sized & (begin < (result.time[-1] if len(result.time) else 0.0))
    unfinished = notes_on_unfinished(has_started, np.isfinite(finish))
    before = (*notes, *notes_on_parameters(scenario), *result.stats.get("notes", ()))
    stats["notes"] = (*before, *notes_on_queues(scenario), *unfinished, *at_end)
    attributes = {
        "engine": "fluid",
        "time": time,
        "protocol": str(scenario.deployment),
        "scenario": text,
        "seed": scenario.seed,
        "version": __version__,
    }
    units = state_units(record, scenario.deployment.protocols)
    return Trajectory.build(result.time, series, flows, stats, attributes, classes=result.classes, units=units)
