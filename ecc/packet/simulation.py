"""Packet runs: from a scenario to its trajectory, at once or step by step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.memory import recent_free_memory as free_memory
from ecc._support.memory import reserved_bytes
from ecc._support.quantity import Quantity, as_count, as_size, as_time
from ecc._support.reports import ProgressCallback, Share
from ecc.errors import NativeError, warn
from ecc.native import OBSERVATION, Actions, Engine, Team, picoseconds
from ecc.native.engine import sample_columns
from ecc.native.guard import advancing, guarded
from ecc.packet.actions import Target, observed_flows, target_of, value_of
from ecc.packet.c_engine import build_engine, build_team, hook_digests
from ecc.packet.capture import ROOM, Capture, attach
from ecc.packet.checkpoint import Checkpoint, write_checkpoint
from ecc.packet.interrupts import Interrupts, SliceLimit
from ecc.packet.plans import idle_runs, prepared, setup_of_plan
from ecc.packet.prepare import first_intervals_of, sample_width
from ecc.packet.recorded_fields import Word, series
from ecc.packet.result import series_of, trajectory_of
from ecc.packet.setup import Setup
from ecc.packet.transfers import Transfers
from ecc.results.trajectory import EVENTS, Trajectory
from ecc.scenario import Scenario

if TYPE_CHECKING:
    from ecc.packet.twin import PythonEngine

__all__ = ["Run", "resume", "simulate"]

FIRST_SLICE, SLICE, TURN, LONGEST_TURN = 10_000, 100_000, 0.02, 0.05
"""Maximum number of events and packets sent before the first check of `cancel` and Ctrl-C, and between later ones,
intended duration of such a slice, and its limit [s]. Slices never change the result."""
_ENGINES = ("c", "python")
_PYTHON_VALUES = 4
"""Memory of a number in the samples of the Python engine, relative to the C engine."""

Cancel = Callable[[], bool]
ActionMapping: TypeAlias = Annotated[Mapping[int, Mapping[str, Quantity]], "checked where it is read"]
Observations: TypeAlias = Annotated[NDArray[np.void], "checked where it is read"]


@check_arguments
def simulate(
    scenario: Scenario,
    sample: Quantity | None = None,
    start: str = "empty",
    perturbation: float = 0.0,
    *,
    record: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    cancel: Cancel | None = None,
    engine: str = "c",
    flows_to: str | Path | None = None,
    capture: Mapping[int, str | Path] | None = None,
    qlog: Mapping[int, str | Path] | None = None,
    trace: int = 0,
    histogram_from: Quantity | None = None,
    memory_limit: int | str | None = None,
    threads: int = 1,
) -> Trajectory:
    """Return the packet-level run of a scenario.

    Parameters
    ----------
    scenario : Scenario
    sample : float, s, optional
        > 0 and <= duration. Period of the samples, for example "10 ms"; None: 0.1 s, or a tenth of shorter durations.
    start : str, optional
        "empty", or "equilibrium" to begin at the equilibrium of the protocol, or of hosts over queue disciplines. If it
        has queues, they exist at time 0, and so do the packets that the flows have in the network. Otherwise flows
        begin to send at time 0, and control begins at `stats["warmup_end"]` [s], when the path is full.
    perturbation : float, > -1, optional
        Only with start="equilibrium": the rates or windows of all flows begin multiplied by 1 + perturbation.
    record : sequence of str, optional
        Names of fields to record: "link.FIELD", "flow.FIELD" and "env.FIELD", for example "env.srtt". See `Run`.
    progress : callable, optional
        Called regularly with a `Progress`: the completed `share` of the duration.
    cancel : Cancel, optional
        Called regularly; the run ends when it returns True. For example `threading.Event().is_set`.
    engine, flows_to, capture, qlog, trace, histogram_from, memory_limit, threads
        See `Run`.

    Returns
    -------
    Trajectory
        Results of the run. If it was canceled, interrupted (Ctrl-C), or ended by a failing hook or lack of memory, they
        are the results until then, and `stats["stopped"]` gives the reason.

    Raises
    ------
    ValueError
        If `sample` or `start` is not admissible.
    NativeError
        If the engine refuses the network.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> run = simulate(ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0))
    >>> round(float(run.rate[-1, 0]) / 1e6, 1)
    9.5
    """
    options: dict[str, Any] = {
        "engine": engine,
        "flows_to": flows_to,
        "capture": capture,
        "qlog": qlog,
        "trace": trace,
        "histogram_from": histogram_from,
        "memory_limit": memory_limit,
        "threads": threads,
    }
    is_plain = start == "empty" and perturbation == 0.0 and not record and _are_plain(options)
    run = _idle_run(scenario, sample) if is_plain else None
    run = Run(scenario, sample, start, perturbation, record=record, **options) if run is None else run
    run.advance(progress=progress, cancel=cancel)
    run.close()
    result = run.trajectory()
    if is_plain and run.stopped == "completed":
        _keep_idle(run)
    return result


_PLAIN: dict[str, Any] = {
    "engine": "c",
    "flows_to": None,
    "capture": None,
    "qlog": None,
    "trace": 0,
    "histogram_from": None,
    "memory_limit": None,
    "threads": 1,
}
"""Options of runs that may use the engine of a finished run."""
_MAX_IDLE, _MAX_IDLE_BYTES = 4, 2**20
"""Number of finished runs that a plan keeps, and the maximum memory of each."""


def _are_plain(options: dict[str, Any]) -> bool:
    # types first: an array compared with a number is an array
    return all(type(options[name]) is type(plain) and options[name] == plain for name, plain in _PLAIN.items())


def _idle_run(scenario: Scenario, sample: Quantity | None) -> Run | None:
    """Return a finished run that begins again with a scenario, if the scenarios differ in nothing but their seed."""
    idle = idle_runs(scenario)
    run: Run | None = idle.pop((scenario.duration, scenario.sample_period(sample)), None) if idle else None
    return run if run is not None and run._begin_again(scenario) else None


def _keep_idle(run: Run) -> None:
    """Keep a finished run of a plan for the next one, if it is small."""
    shared, engine = run._setup.compiled, run._engine
    if shared is None or not isinstance(engine, Engine) or engine.held_bytes > _MAX_IDLE_BYTES:
        return
    idle: dict[Any, Run] = shared["idle"]
    idle[run.scenario.duration, run._period] = run
    while len(idle) > _MAX_IDLE:
        with suppress(KeyError, RuntimeError):  # another thread has taken one
            del idle[next(iter(idle))]


@check_arguments
class Run:
    """A packet-level run that advances step by step, and can be inspected between steps.

    Threads: while one thread advances a run, others can read `now` and `stopped`; everything else raises an EccError.
    Any number of threads may inspect a paused run. The thread that advances the run calls `progress` and `cancel`, and
    may inspect the run in them.

    Parameters
    ----------
    scenario, sample, start, perturbation
        See `simulate`.
    record : sequence of str, optional
        Names of fields to record, as series of the trajectory (`run["flow.x"]`): "link.FIELD" and "flow.FIELD" of the
        protocol's `LinkState` and `FlowState` (or a name from its `conformance_names`), and "env.FIELD" of the `env` of
        flows, for example "env.window". Values are those at the end of each sample, for the flows of the network and
        for the first router of each link that has the field.
    engine : str, optional
        "c", or "python": the same engine in plain Python, about a hundred times slower. Its hooks run uncompiled, so
        that `print` and a debugger work in them. It has no capture, histogram_from, memory_limit and checkpoints.
    flows_to : str or Path, optional
        Path of a Parquet file to which the rows of transfers are written as they end, from the first `advance` on;
        needs pyarrow. None: all rows are in `Trajectory.flows`.
    capture : mapping, optional
        Index of a link -> path of a file to which the packets sent by the link are written with their headers, from the
        first `advance` on: .pcapng, for tshark, or .parquet, which needs pyarrow. For example {0: "link.pcapng"}. See
        `ecc.packet.capture`. A capture adds events and changes no result.
    qlog : mapping, optional
        Index of a flow -> path of a .sqlog file for the packets that it sends, receives and loses, and the metrics of
        its controller: qlog in JSON Text Sequences (docs/qlog.md), written when the run ends. Only with
        engine="python", and for flows with a transport that recovers losses.
    trace : int, >= 0, optional
        Number of events to keep in `Trajectory.trace`, starting with the first.
    histogram_from : float, s, optional
        Time below the duration from which on queue lengths are counted, for `Trajectory.queue_quantiles`; None: they
        are not counted.
    memory_limit : int, bytes, or None
        Maximum memory of the run, for example "2 GB": of the engine, of series, records, histograms and trace, and of
        the result made from these. None: nine tenths of the memory that is free when the run is created. A run is
        refused if its series alone exceed the limit. Rows of ended transfers are not counted; `flows_to` keeps them out
        of memory.
    observe : sequence of int, optional
        Indices of the flows of the network that `step` observes, for example [0]. Needs threads=1.
    threads : int, >= 1
        Maximum number of parts into which the network is divided, at links and access lines with a delay; each part
        runs in a thread. If more parts would be slower, fewer are used, and a note reports it. No result changes.
        Cannot be combined with memory_limit or engine="python". After a failing hook, other parts may be ahead by less
        than the delay between the parts.

    Raises
    ------
    ValueError, TypeError
        If a value is out of range or not a path, or if series exceed memory_limit.
    NativeError
        If the engine refuses the network.
    EccError
        If pyarrow is needed and missing.

    Examples
    --------
    >>> run = Run(ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.QIRCP(), duration=5.0))
    >>> run.advance(2.0).now
    2.0
    >>> len(run.trajectory().rate), run.advance().stopped
    (20, 'completed')
    """

    @check_arguments
    def __init__(
        self,
        scenario: Scenario,
        sample: Quantity | None = None,
        start: str = "empty",
        perturbation: float = 0.0,
        *,
        record: Sequence[str] = (),
        engine: str = "c",
        flows_to: str | Path | None = None,
        capture: Mapping[int, str | Path] | None = None,
        qlog: Mapping[int, str | Path] | None = None,
        trace: int = 0,
        histogram_from: Quantity | None = None,
        memory_limit: int | str | None = None,
        observe: Sequence[int] = (),
        threads: int = 1,
    ) -> None:
        period = scenario.sample_period(sample)
        self._scenario, self._period = scenario, period
        self._stopped = "paused"
        self._setup = prepared(scenario, start, perturbation)
        self._captures: list[Capture] = []
        self._histogram_from = None if histogram_from is None else as_time(histogram_from, "histogram_from")
        if self._histogram_from is not None and self._histogram_from >= scenario.duration:
            limit = f"{scenario.duration:g} s"
            raise ValueError(f"histogram_from must be < the duration ({limit}), got {self._histogram_from:g} s")
        self._options: dict[str, Any] = {
            "sample": period,
            "start": start,
            "perturbation": float(perturbation),
            "trace": as_count(trace, "trace"),
            "histogram_from": self._histogram_from,
            "memory_limit": None if memory_limit is None else as_size(memory_limit, "memory_limit"),
            "record": list(record),
            "observe": observed_flows(observe, scenario.network.n_flows),
            "threads": as_count(threads, "threads", minimum=1),
        }
        self._recording = series(self._setup, record)
        words = [word for item in self._recording for word in item.words]
        if capture:
            self._setup, self._captures = attach(self._setup, capture)
        rows = None if flows_to is None else _path(flows_to, "flows_to")
        if rows is not None and rows.resolve() in [item.path.resolve() for item in self._captures]:
            raise ValueError(f"flows_to must differ from the files of capture, got {shown(str(rows))}")
        if engine not in _ENGINES:
            raise ValueError(f"engine must be one of {', '.join(map(repr, _ENGINES))}, got {engine!r}")
        if qlog and engine != "python":
            raise ValueError(f"qlog needs engine='python', got engine={engine!r}")
        if (qlog or capture) and len(self._setup.under_way):
            name = "qlog" if qlog else "capture"
            raise ValueError(f"{name} must be None for a run that begins with queues at an equilibrium")
        if threads > 1:
            _check_threads(threads, engine=engine != "c", memory_limit=memory_limit, observe=len(observe))
        options = {"trace": self._options["trace"], **_sampling(scenario, sample)}
        if len(observe):
            options["monitors"] = self._options["observe"]
        self._engine: Engine | Team | PythonEngine
        if engine == "python":
            _check_python(capture=capture, histogram_from=histogram_from, memory_limit=memory_limit)
            self._engine = _python_engine(self._setup, scenario, words, qlog, **options)
        else:
            options["histogram"] = histogram_from is not None
            max_bytes = self._options["memory_limit"] or free_memory()
            self._engine = (
                build_team(self._setup, scenario, threads, words, memory_limit=max_bytes, **options)
                if threads > 1
                else build_engine(self._setup, scenario, words, memory_limit=max_bytes, **options)
            )
        if self._captures and isinstance(self._engine, Team):
            self._engine.pause_for(ROOM, self._drain)
        self._guard = self._engine._guard
        self._transfers = Transfers(scenario, self._setup, rows)
        self._events = FIRST_SLICE
        self._closed, self._has_logs = False, bool(qlog)
        self._known_actions: dict[Any, tuple[list[Target], Actions]] = {}

    @cached_property
    def _tables_text(self) -> str:
        """The scenario in the format of checkpoints, cached because a run may write many."""
        return _tables_text(self.scenario)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"{name} of a Run cannot be set: change the scenario and create another Run")
        super().__setattr__(name, value)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        return self._scenario

    @property
    def stopped(self) -> str:
        """State of the run: "paused", "completed", "canceled", "interrupted", or the message of an error."""
        return self._stopped

    # ---- advancing --------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Time reached by the run [s]; slightly out of date while another thread advances it."""
        return self._engine.now

    @advancing
    def advance(
        self, until: Quantity | None = None, progress: ProgressCallback | None = None, cancel: Cancel | None = None
    ) -> Run:
        """Advance to a time; the number of steps never changes the result.

        Parameters
        ----------
        until : float, s, or None
            Time to reach, for example 2.0; None: the end. If it has passed or the run is over, nothing happens.
        progress, cancel
            See `simulate`.

        Returns
        -------
        Run
            The run itself. `stopped` is "paused", "completed", "canceled", "interrupted", or the error that ended it.

        Raises
        ------
        OSError
            If a file of `flows_to` or `capture` cannot be written.
        """
        duration = self.scenario.duration
        end = duration if until is None else min(as_time(until, "until"), duration)
        if self._is_over:
            return self
        begin, self._stopped = self._histogram_from, "paused"
        try:
            with Interrupts() as interrupts:
                self._transfers.open_file()
                for capture in self._captures:
                    capture.open()
                ends = (progress, cancel, interrupts)
                if begin is not None and self.now < begin <= end and self._run_to(begin, *ends):
                    self._engine.histogram[:] = 0
                if (end >= self.now or end == duration) and self._run_to(end, *ends) and end == duration:
                    self._stopped = "completed"
                    self.close()
        except KeyboardInterrupt:
            self._stopped = "interrupted"
        except NativeError as error:
            self._fail(error)
        return self

    @advancing
    def step(
        self,
        until: Quantity,
        actions: ActionMapping | None = None,
        observations: Observations | None = None,
    ) -> NDArray[np.void]:
        """Act on flows now, advance to a time, and return what the observed flows have measured since the last step.

        Parameters
        ----------
        until : float, s
            Time to reach, for example 2.0. If it has passed, time does not move; times after the end are the end.
        actions : mapping, optional
            Index of a flow -> what is set, and its value: "rate" (bit/s), "window" (bytes; 0: none), or the name of a
            field of the protocol's `FlowState` that holds a float and that its hooks read. For example
            {0: {"rate": "5 Mb/s"}}. A flow that acts must have started: `run.step(0.0)` starts the flows of time 0.
        observations : NDArray[void], shape (n_observed,), optional
            Array of dtype `OBSERVATION` to overwrite, which is faster; None: a new one.

        Returns
        -------
        NDArray[void], shape (n_observed,)
            The observations, in the order of `observe`, of dtype `OBSERVATION`; see there. The run itself is as after
            `advance`: `stopped` reports whether it can go on.

        Raises
        ------
        ValueError
            If a value is out of range, a flow has not started or has ended, or the run is over; then nothing has
            happened. If the run has several threads.
        TypeError
            If a value is of the wrong kind.

        Examples
        --------
        >>> network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
        >>> run = Run(ecc.Scenario(network, ecc.models.ConstantRate("5 Mb/s"), duration=5.0), observe=[0])
        >>> first, second = run.step(1.0), run.step(2.0, {0: {"rate": "8 Mb/s"}})
        >>> float(first["sent"][0]), float(second["sent"][0])
        (625000.0, 1000000.0)
        """
        if isinstance(self._engine, Team):
            raise ValueError(f"step needs threads=1, got threads={self._options['threads']}")
        end = min(until if type(until) is float and until >= 0.0 else as_time(until, "until"), self._scenario.duration)
        observations = np.zeros(len(self._options["observe"]), OBSERVATION) if observations is None else observations
        targets, table = self._actions(actions) if actions else ([], None)
        if self._is_over and targets:
            raise ValueError(f"actions must be for a run that can continue, got a run that ended: {self._stopped}")
        if isinstance(self._engine, Engine) and self._is_simple and not self._is_over:
            if self._step(self._engine, end, table, observations):
                return observations
        elif table is not None:
            self._act(targets, table)
        self.advance(end)
        self._engine.observe(observations)
        return observations

    def _actions(self, actions: ActionMapping) -> tuple[list[Target], Actions]:
        """Return the targets of actions, and their table with checked values."""
        if type(actions) is not dict or not all(type(quantities) is dict for quantities in actions.values()):
            if not isinstance(actions, Mapping) or not all(isinstance(item, Mapping) for item in actions.values()):
                raise TypeError(f"actions must be a mapping of flows to mappings, got {shown(actions)}")
        key = tuple((flow, name) for flow, quantities in actions.items() for name in quantities)
        known = self._known_actions.get(key)
        if known is None:
            targets = [target_of(self._setup, flow, name) for flow, name in key]
            known = self._known_actions[key] = (targets, Actions([target.row for target in targets]))
        values = [value for quantities in actions.values() for value in quantities.values()]
        checked = [value_of(target, value) for target, value in zip(known[0], values, strict=True)]
        for k, value in enumerate(checked):
            known[1].values[k] = value
        return known

    def _act(self, targets: list[Target], table: Actions) -> None:
        """Perform actions now; refused ones raise a ValueError."""
        engine = self._engine
        assert not isinstance(engine, Team)
        try:
            if isinstance(engine, Engine):
                engine.act(table)
            else:
                engine.act(targets, list(table.values))
        except NativeError as error:
            self._fail(error)

    def _step(self, engine: Engine, end: float, table: Actions | None, observations: NDArray[np.void]) -> bool:
        """Take a step by one call of the engine; return whether it has reached its end, and was observed."""
        self._stopped = "paused"
        try:
            reason = engine._take_step(end, table, observations, SLICE)
        except NativeError as error:
            self._fail(error)
            return False
        if engine._has_finished:
            self._take_all()
        if reason not in ("until", "idle"):
            return False
        if end == self._scenario.duration:
            self._stopped = "completed"
            self.close()
        return True

    def _fail(self, error: NativeError) -> None:
        """End the run after a failure of its engine; raise a ValueError if the engine has only refused an action."""
        if self._engine.stats.stop != "error":
            raise ValueError(str(error)) from None
        self._stopped = str(error)
        self._take_all()
        warn(f"the run ended at {self.now:g} s: {error}")

    @cached_property
    def _is_simple(self) -> bool:
        """True if nothing but the engine takes part in a step: no files, and no histogram that begins later."""
        return not self._captures and not self._transfers.has_file and self._histogram_from is None

    @property
    def _has_histogram(self) -> bool:
        """True if queue lengths have been counted for some time."""
        return self._histogram_from is not None and self.now > self._histogram_from

    @property
    def _is_over(self) -> bool:
        return self._closed or self.stopped not in ("paused", "canceled", "interrupted")

    def _run_to(
        self, until: float, progress: ProgressCallback | None, cancel: Cancel | None, interrupts: Interrupts
    ) -> bool:
        """Run up to a time; return False if the run was canceled or interrupted before."""
        if self.stopped != "paused":
            return False
        max_events = min(SLICE, ROOM) if self._captures else SLICE
        limit = SliceLimit(self._engine.stop, LONGEST_TURN)
        while True:
            begin = time.perf_counter()
            with limit:
                reason = self._engine.advance(until, min(self._events, max_events))
            elapsed = time.perf_counter() - begin
            self._take_all()
            if reason == "max_events":  # adapt the slice: hooks can be slow
                self._events = max(1, round(min(self._events, max_events) * min(10.0, TURN / elapsed)))
            if reason == "transfers":
                drawn = self._transfers.draw()
                self._engine.add(drawn, more=len(drawn) > 0)
            elif progress is not None:
                interrupts.callback(progress, Share(self.now / self.scenario.duration))
            if interrupts.noted:
                self._stopped = "interrupted"
                return False
            if reason not in ("max_events", "transfers"):
                return True
            if reason == "max_events" and cancel is not None and interrupts.callback(cancel):
                self._stopped = "canceled"
                return False

    def _take_all(self) -> None:
        if self._scenario.workload is not None:
            self._transfers.keep(self._engine.take_finished())
        self._drain()

    def _drain(self) -> None:
        for capture in self._captures:
            capture.drain()

    @guarded
    def close(self) -> None:
        """Finish the files of `flows_to`, `capture` and `qlog`, and end the run; transfers under way get rows too."""
        if self._has_logs:
            cast("PythonEngine", self._engine).write_logs()
            self._has_logs, self._closed = False, True
        for capture in self._captures:
            capture.close()
            self._closed = True
        self._captures = []
        if self._transfers.is_open:
            self._transfers.close_file(self._engine.alive)
            self._closed = True

    @property
    def options(self) -> dict[str, Any]:
        """Options with which the run was created: sample [s], start, perturbation, record, trace and so on."""
        return dict(self._options)

    @property
    def flows_to(self) -> Path | None:
        """The file to which further rows of transfers are written, or None."""
        return self._transfers.path

    # ---- checkpoints -----------------------------------------------------------------------------------------

    @guarded
    def save(self, path: str | Path) -> None:
        """Write the state of the run to a file, from which `resume` continues to the identical end.

        A file of `flows_to` is closed with the rows so far; later rows are written to the first of the files "...-1",
        "...-2" and so on that does not exist.

        Parameters
        ----------
        path : str or Path
            File to write, for example "run.ecc"; it is never left incomplete.

        Raises
        ------
        ValueError
            If the run has failed, was closed, or has captures, or if the path is that of `flows_to`.
        OSError
            If the file cannot be written.
        """
        if self._is_over and self.stopped != "completed":
            raise ValueError(f"save needs a run that can be resumed, got a run that ended: {self.stopped}")
        if self._captures or not isinstance(self._engine, Engine | Team):
            raise ValueError("save needs a run of engine='c', without capture")
        if self.flows_to is not None and self.flows_to.resolve() == Path(path).resolve():
            raise ValueError(f"path must differ from the file of flows_to, got {shown(str(path))}")
        arrays: dict[str, Any] = {f"engine_{name}": array for name, array in self._engine.save().items()}
        for k, part in enumerate(self._setup.parts):
            arrays |= {f"links_{k}": part.link_states, f"flows_{k}": part.flow_states}
        about, rows = self._transfers.save()
        about |= {
            "scenario": self._tables_text,
            "options": self._options,
            "stopped": self.stopped,
            "hooks": hook_digests(self._setup),
        }
        write_checkpoint(path, about, arrays | rows)

    @classmethod
    def _restored(cls, saved: Checkpoint, scenario: Scenario | None, rows: Path | None) -> Run:
        run = cls(scenario or Scenario.from_dict(json.loads(saved.scenario)), **saved.options)
        setup, engine = run._setup, run._engine
        if hook_digests(setup) != saved.hooks:
            raise ValueError("protocol must have the hooks of the checkpoint, got different ones")
        for k, part in enumerate(setup.parts):
            part.link_states[:] = saved.array(f"links_{k}", part.link_states.dtype, len(part.link_states))
            part.flow_states[:] = saved.array(f"flows_{k}", part.flow_states.dtype, len(part.flow_states))
        assert isinstance(engine, Engine | Team)  # save refuses the others
        engine.load(saved.engine)
        if not np.isin(engine.trace["kind"], np.arange(len(EVENTS))).all():
            raise ValueError(f"kinds of events must be from 0 to {len(EVENTS) - 1}")
        run._stopped = saved.stopped
        run._transfers.restore(saved, rows)
        return run

    def _restart(self, scenario: Scenario) -> bool:
        """Begin again with a scenario from `_with_seed`, in the same memory; return False if this run cannot.

        Results that were taken before do not change.
        """
        return scenario._is_alike(self._scenario) and self._begin_again(scenario)

    def _restart_like(self, scenario: Scenario) -> bool:
        """Begin again with a scenario if it differs from that of this run in nothing but its seed."""
        mine, shared = self._scenario, self._setup.compiled
        if shared is None or scenario.duration != mine.duration:
            return False
        if not scenario._is_alike(mine) and setup_of_plan(scenario) is not shared["setup"]:
            return False
        return self._begin_again(scenario)

    def _begin_again(self, scenario: Scenario) -> bool:
        """Begin again with a scenario that the plan of this run serves, like `_restart`."""
        shared, engine = self._setup.compiled, self._engine
        if shared is None or len(self._setup.writes) > 0 or not isinstance(engine, Engine):  # a seed draws writes
            return False
        for states, initial in self._records:
            states[:] = initial
        max_bytes = self._options["memory_limit"] or free_memory()
        engine._restart(scenario.seed, first_intervals_of(shared["setup"], scenario), max_bytes)
        state = self.__dict__
        state.update(_scenario=scenario, _stopped="paused", _closed=False)
        state["_transfers"] = Transfers(scenario, self._setup, None)
        for name in ("_tables_text", "_is_simple"):
            state.pop(name, None)
        return True

    @cached_property
    def _records(self) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
        """The bytes of the records of a plan's run, and of their initial values."""
        assert self._setup.compiled is not None
        return [
            (states.view(np.uint8), initial.view(np.uint8))
            for part, first in zip(self._setup.parts, self._setup.compiled["setup"].parts, strict=True)
            for states, initial in (
                (part.link_states, first.link_states),
                (part.flow_states, first.flow_states),
            )
            if len(states)
        ]

    def _series(self) -> Mapping[str, NDArray[Any]]:
        """Return the series so far by name, and "time"."""
        return series_of(self._setup, self._engine.samples, self._recording, self._period)

    # ---- results -----------------------------------------------------------------------------------------

    @guarded
    def trajectory(self) -> Trajectory:
        """Return the results of the run so far."""
        return trajectory_of(
            self.scenario,
            self._setup,
            self._engine,
            self._transfers,
            self._recording,
            period=self._period,
            stopped=self.stopped,
            has_histogram=self._has_histogram,
            threads=self._options["threads"],
        )


@check_arguments
def resume(path: str | Path, scenario: Scenario | None = None, *, flows_to: str | Path | None = None) -> Run:
    """Return the run of a checkpoint; when advanced, it continues as if it had not been saved, with the same digest.

    This reads the checkpoint and writes nothing. If the run writes its rows to a file, later rows go to another file,
    which is created when the run advances: in the folder of the checkpoint, with the first free name of the form
    "...-1", "...-2" (`run.flows_to`).

    Parameters
    ----------
    path : str or Path
        File that `Run.save` wrote.
    scenario : Scenario, or None
        Scenario of the run, needed if the protocol cannot be imported by name; it must equal the one in the file. None:
        the scenario in the file.
    flows_to : str or Path, optional
        Path of the file for later rows; if it exists, the next free name is used. None: as above.

    Returns
    -------
    Run
        The run at the time at which it was saved.

    Raises
    ------
    ValueError
        If the file is not a checkpoint or is damaged (it has a checksum), if its version, its scenario or the hooks of
        its protocol differ, or if flows_to is given for a run that keeps its rows in memory.
    OSError
        If the file cannot be read.

    Notes
    -----
    A checksum is not a signature. A forged file is checked completely before it is used, so that it cannot crash the
    process or access other files. However, its results can be false, the run can take any time and memory, and a
    protocol "module:Class" in its scenario is imported. If you do not trust the source of a file, pass the scenario
    too, which must then equal the one in the file, and limit time and memory from outside.

    Examples
    --------
    >>> scenario = ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.QIRCP(), duration=5.0)
    >>> ecc.packet.Run(scenario).advance(2.0).save("run.ckpt")
    >>> run = resume("run.ckpt")
    >>> run.now, run.advance().stopped
    (2.0, 'completed')
    """
    saved = Checkpoint.read(path)
    if scenario is not None and _tables_text(scenario) != saved.scenario:
        raise ValueError(f"scenario must be that of the checkpoint, got another one ({str(path)!r})")
    try:
        return Run._restored(saved, scenario, None if flows_to is None else _path(flows_to, "flows_to"))
    except (ValueError, TypeError, NativeError, MemoryError) as error:
        raise ValueError(f"{error or 'out of memory'} ({str(path)!r})") from None


def _tables_text(scenario: Scenario) -> str:
    """Return a scenario as JSON, in the format of checkpoints."""
    return json.dumps(scenario.to_dict(), separators=(",", ":"))


def _sampling(scenario: Scenario, sample: Quantity | None) -> dict[str, Any]:
    """Return the width and number of samples; refuse samples that are less than 1 ps apart."""
    period = scenario.sample_period(sample)
    width = sample_width(scenario, period)
    if picoseconds(width) < 1:
        raise ValueError(
            f"duration must be >= 1e-11 s, as samples are at least 1 ps apart, got {scenario.duration:g} s"
            if sample is None
            else f"sample must be >= 1e-12 s, got {period:g} s"
        )
    return {"sample": width, "n_samples": scenario.n_samples(period)}


def _check_python(**options: object) -> None:
    """Refuse options that the Python engine does not have."""
    for name, value in options.items():
        if value:
            raise ValueError(f"{name} needs engine='c', got engine='python'")


def _python_engine(
    setup: Setup,
    scenario: Scenario,
    words: Sequence[Word],
    qlog: Mapping[int, str | Path] | None,
    *,
    trace: int,
    sample: float,
    n_samples: int,
    monitors: Sequence[int] = (),
) -> PythonEngine:
    """Return the Python engine of a prepared run; refuse series and a trace that exceed the free memory."""
    from ecc.packet.twin import PythonEngine

    columns = sample_columns(
        setup.links[: scenario.network.n_links], setup.flows, setup.flows[:0], scenario.network.n_flows, len(words)
    )
    n_values = n_samples * sum(columns.values())
    reserved_bytes(free_memory(), series=_PYTHON_VALUES * n_values, trace=4 * trace)
    return PythonEngine(
        setup,
        trace=trace,
        seed=scenario.seed,
        recorded=words,
        qlog=qlog,
        sample=sample,
        n_samples=n_samples,
        monitors=monitors,
    )


def _check_threads(threads: int, **options: object) -> None:
    """Refuse options that cannot be combined with several threads."""
    name = next((name for name, value in options.items() if value), None)
    if name == "engine":
        raise ValueError(f"threads needs engine='c', got threads={threads} and engine='python'")
    if name is not None:
        raise ValueError(f"{name} needs threads=1, got threads={threads}")


def _path(value: object, name: str) -> Path:
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} must be a path, got {shown(value)}")
    return Path(value)
