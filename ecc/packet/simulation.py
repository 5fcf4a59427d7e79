"""Packet runs: a scenario in, a trajectory out, at once or step by step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.memory import free_memory, reserved_bytes
from ecc._support.quantity import Quantity, as_count, as_size, as_time
from ecc.errors import NativeError, warn
from ecc.native import Engine, Team, picoseconds
from ecc.native.engine import sample_columns
from ecc.native.guard import advancing, guarded
from ecc.packet.c_engine import build_engine, build_team, hook_digests
from ecc.packet.capture import ROOM, Capture, attach
from ecc.packet.checkpoint import Checkpoint, write_checkpoint
from ecc.packet.interrupts import Interrupts, SliceLimit
from ecc.packet.prepare import prepare, sample_width
from ecc.packet.recorded_fields import series
from ecc.packet.result import trajectory_of
from ecc.packet.transfers import Transfers
from ecc.packet.twin import PythonEngine
from ecc.results.trajectory import EVENTS, Trajectory
from ecc.scenario import Scenario

__all__ = ["Run", "resume", "simulate"]

SLICE, TURN, LONGEST_TURN = 100_000, 0.02, 0.05
"""Maximum number of events and packets sent between two looks at `cancel` and Ctrl-C, the time that such a slice should
take, and its limit [s]. Slices never change the result."""
_ENGINES = ("c", "python")
_PYTHON_VALUES = 4
"""Memory of a number in the samples of the engine in Python, relative to one of the C engine."""

Progress = Callable[[float], None]
Cancel = Callable[[], bool]


@check_arguments
def simulate(
    scenario: Scenario,
    sample: Quantity | None = None,
    start: str = "empty",
    perturbation: float = 0.0,
    *,
    record: Sequence[str] = (),
    progress: Progress | None = None,
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
        > 0 and <= duration. Period of the samples; None: 0.1 s, at most a tenth of the duration.
    start : str, optional
        "empty", or "equilibrium" to begin at the equilibrium of the protocol, or of hosts over queue disciplines. If it
        has queues, they exist at time 0, with the packets that flows then have in the network. Otherwise flows begin to
        send, and control begins at `stats["warmup_end"]` [s], when the path is full.
    perturbation : float, > -1, optional
        With start="equilibrium": flows begin with their rates or windows times 1 + perturbation.
    record : sequence of str, optional
        Names of fields to record, "link.FIELD", "flow.FIELD" and "env.FIELD": see `Run`.
    progress : Progress, optional
        Called with the share of the horizon that is done, now and then.
    cancel : Cancel, optional
        Called now and then; the run ends when it returns True (`threading.Event().is_set`).
    engine, flows_to, capture, qlog, trace, histogram_from, memory_limit, threads
        See `Run`.

    Returns
    -------
    Trajectory
        A run that was canceled, interrupted (Ctrl-C), or ended by a failing hook or for lack of memory holds what it
        had; `stats["stopped"]` says why.

    Raises
    ------
    ValueError
        A bad sample or start.
    NativeError
        The engine refuses the network.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> run = simulate(ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0))
    >>> round(float(run.rate[-1, 0]) / 1e6, 1)
    9.5
    """
    run = Run(
        scenario, sample, start, perturbation, record=record, engine=engine, flows_to=flows_to, capture=capture,
        qlog=qlog, trace=trace, histogram_from=histogram_from, memory_limit=memory_limit, threads=threads,
    )  # fmt: skip
    run.advance(progress=progress, cancel=cancel)
    run.close()
    return run.trajectory()


@check_arguments
class Run:
    """A packet-level run that advances when asked, and can be inspected between steps.

    Threads: while one advances a run, the others can read `now` and `stopped`; all else raises an EccError. Any number
    may inspect a run that pauses. `progress` and `cancel` are called by the thread that advances it, which may look at
    it there.

    Parameters
    ----------
    scenario, sample, start, perturbation
        See `simulate`.
    record : sequence of str, optional
        Names of fields to record, as series of the trajectory (`run["flow.x"]`): "link.FIELD" and "flow.FIELD" of the
        protocol's `LinkState` and `FlowState` (or what its `conformance_names` call one), "env.FIELD" of the `env` of
        flows (window, srtt, ...), as they are at the end of each sample; of the flows of the network, and a link's
        first router that has it.
    engine : str, optional
        "c", or "python": the same engine in plain Python, some hundred times slower, in which hooks run uncompiled, so
        that `print` and a debugger work in them. Without capture, histogram_from, memory_limit and checkpoints.
    flows_to : str or Path, optional
        Path of a Parquet file that gets the rows of transfers as they end, from the first `advance` on, or None:
        `Trajectory.flows` has them all. Needs pyarrow.
    capture : mapping, optional
        Index of a link -> path of a file that gets what the link sends, with its headers, from the first `advance` on:
        .pcapng, for tshark, or .parquet, which needs pyarrow. See `ecc.packet.capture`. It adds events, and changes no
        result.
    qlog : mapping, optional
        Index of a flow -> path of a file .sqlog that gets what it sends, receives and loses, and its controller's
        metrics, when the run ends: qlog in JSON Text Sequences (docs/qlog.md). With engine="python", of flows whose
        losses a transport recovers.
    trace : int, >= 0, optional
        How many events to keep, from the first on: `Trajectory.trace`.
    histogram_from : float, s, optional
        Below the duration, or None. From when on the queues are counted by length, for `Trajectory.queue_quantiles`;
        None: never.
    memory_limit : int, bytes, or None
        Maximum memory of the run: of the engine, of series, records, histograms and trace, and of the result that is
        made from these. None: nine tenths of the free memory of the machine when the run is made. A run whose series
        alone take more is refused. Rows of ended transfers are not counted; `flows_to` keeps them out of memory.
    threads : int, >= 1
        How many parts, at most, the network is cut into where links and access lines have a delay; each runs in a
        thread. There are fewer where more would be slower, which a note says. No result changes. Without memory_limit
        and engine="python"; after a failing hook, parts without failure may be ahead by less than the
        delay between them.

    Raises
    ------
    ValueError, TypeError
        A value out of range, not a path, or series that take more than memory_limit.
    NativeError
        The engine refuses the network.
    EccError
        Pyarrow is missing.

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
        threads: int = 1,
    ) -> None:
        period = scenario.sample_period(sample)
        self._scenario, self._period = scenario, period
        scenario.check_writable()  # what cannot be kept with the result is refused before the work
        self._stopped = "paused"
        self._setup = prepare(scenario, start, perturbation)
        self._captures: list[Capture] = []
        self._histogram_from = None if histogram_from is None else as_time(histogram_from, "histogram_from")
        if self._histogram_from is not None and self._histogram_from >= scenario.duration:
            limit = f"{scenario.duration:g} s"
            raise ValueError(f"histogram_from must be < the duration ({limit}), got {self._histogram_from:g} s")
        self._options: dict[str, Any] = {
            "sample": period, "start": start, "perturbation": float(perturbation), "trace": as_count(trace, "trace"),
            "histogram_from": self._histogram_from,
            "memory_limit": None if memory_limit is None else as_size(memory_limit, "memory_limit"),
            "record": list(record), "threads": as_count(threads, "threads", minimum=1),
        }  # fmt: skip
        self._recording = series(self._setup, record)
        words = [word for one in self._recording for word in one.words]
        if capture:
            self._setup, self._captures = attach(self._setup, capture)
        rows = None if flows_to is None else _path(flows_to, "flows_to")
        if rows is not None and rows.resolve() in [one.path.resolve() for one in self._captures]:
            raise ValueError(f"flows_to must be another file than those of capture, got {shown(str(rows))}")
        if engine not in _ENGINES:
            raise ValueError(f"engine must be one of {', '.join(map(repr, _ENGINES))}, got {engine!r}")
        if qlog and engine != "python":
            raise ValueError(f"qlog needs engine='python', got engine={engine!r}")
        if (qlog or capture) and len(self._setup.under_way):
            name = "qlog" if qlog else "capture"
            raise ValueError(f"{name} must be None for a run that begins with queues at an equilibrium")
        if threads > 1:
            _check_threads(threads, engine=engine != "c", memory_limit=memory_limit)
        samples: dict[str, Any] = {"sample": sample_width(scenario, period), "n_samples": scenario.n_samples(period)}
        if picoseconds(samples["sample"]) < 1:
            raise ValueError(
                f"duration must be >= 1e-11 s, as samples are apart by 1 ps at least, got {scenario.duration:g} s"
                if sample is None
                else f"sample must be >= 1e-12 s, got {period:g} s"
            )
        if engine == "python":
            for name, given in (
                ("capture", capture),
                ("histogram_from", histogram_from),
                ("memory_limit", memory_limit),
            ):
                if given:
                    raise ValueError(f"{name} needs engine='c', got engine='python'")
            columns = sample_columns(
                self._setup.links[: scenario.network.n_links], self._setup.flows, self._setup.flows[:0],
                scenario.network.n_flows, len(words),
            )  # fmt: skip
            values = samples["n_samples"] * sum(columns.values())
            reserved_bytes(free_memory(), series=_PYTHON_VALUES * values, trace=4 * self._options["trace"])
            self._engine: Engine | Team | PythonEngine = PythonEngine(
                self._setup, trace=self._options["trace"], seed=scenario.seed, recorded=words,
                qlog=qlog, **samples,
            )  # fmt: skip
        elif threads > 1:
            self._engine = build_team(
                self._setup, scenario, threads, words, trace=self._options["trace"],
                histogram=histogram_from is not None, memory_limit=free_memory(), **samples,
            )  # fmt: skip
        else:
            self._engine = build_engine(
                self._setup, scenario, words, trace=self._options["trace"], histogram=histogram_from is not None,
                memory_limit=self._options["memory_limit"] or free_memory(), **samples,
            )  # fmt: skip
        if self._captures and isinstance(self._engine, Team):
            self._engine.pause_for(ROOM, self._drain)
        self._guard = self._engine._guard
        self._transfers = Transfers(scenario, self._setup, rows)
        self._events = 100
        self._closed, self._has_logs = False, bool(qlog)

    @cached_property
    def _scenario_text(self) -> str:
        """The scenario as TOML, which the result keeps."""
        return self.scenario.to_toml()

    @cached_property
    def _tables_text(self) -> str:
        """The scenario as a checkpoint has it; checkpoints may be many."""
        return _tables_text(self.scenario)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"{name} of a Run cannot be set: change the scenario, and make another Run")
        super().__setattr__(name, value)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        return self._scenario

    @property
    def stopped(self) -> str:
        """Why the run does not advance: "paused", "completed", "canceled", "interrupted", or an error."""
        return self._stopped

    # ---- advancing --------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """How far the run has come [s]; while another thread advances it, how far it was a moment ago."""
        return self._engine.now

    @advancing
    def advance(
        self, until: Quantity | None = None, progress: Progress | None = None, cancel: Cancel | None = None
    ) -> Run:
        """Advance to a time; in how many steps never changes the result.

        Parameters
        ----------
        until : float, s, or None
            To the end. Nothing happens if it is past, or the run is over.
        progress, cancel
            See `simulate`.

        Returns
        -------
        Run
            The run itself. `stopped` is "paused", "completed", "canceled", "interrupted", or the error that ended it.

        Raises
        ------
        OSError
            A file of `flows_to` or `capture` cannot be written.
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
            self._stopped = str(error)
            self._take_all()
            warn(f"the run ended at {self.now:g} s: {error}")
        return self

    @property
    def _has_histogram(self) -> bool:
        """Whether queues have been counted for a while."""
        return self._histogram_from is not None and self.now > self._histogram_from

    @property
    def _is_over(self) -> bool:
        return self._closed or self.stopped not in ("paused", "canceled", "interrupted")

    def _run_to(self, until: float, progress: Progress | None, cancel: Cancel | None, interrupts: Interrupts) -> bool:
        """Run up to a time; False: canceled or interrupted on the way."""
        if self.stopped != "paused":
            return False
        most = min(SLICE, ROOM) if self._captures else SLICE
        limit = SliceLimit(self._engine.stop, LONGEST_TURN)
        while True:
            begin = time.perf_counter()
            with limit:
                reason = self._engine.advance(until, min(self._events, most))
            taken = time.perf_counter() - begin
            self._take_all()
            if reason == "max_events":  # hooks may take their time
                self._events = max(1, round(min(self._events, most) * min(10.0, TURN / taken)))
            if reason == "transfers":
                drawn = self._transfers.draw()
                self._engine.add(drawn, more=len(drawn) > 0)
            elif progress is not None:
                interrupts.callback(progress, self.now / self.scenario.duration)
            if interrupts.noted:
                self._stopped = "interrupted"
                return False
            if reason not in ("max_events", "transfers"):
                return True
            if reason == "max_events" and cancel is not None and interrupts.callback(cancel):
                self._stopped = "canceled"
                return False

    def _take_all(self) -> None:
        self._transfers.keep(self._engine.take_finished())
        self._drain()

    def _drain(self) -> None:
        for capture in self._captures:
            capture.drain()

    @guarded
    def close(self) -> None:
        """End the files of `flows_to`, `capture` and `qlog`, and with them the run; transfers alive get their rows."""
        if self._has_logs and isinstance(self._engine, PythonEngine):
            self._engine.write_logs()
            self._has_logs, self._closed = False, True
        for capture in self._captures:
            capture.close()
            self._closed = True
        self._captures = []
        self._closed |= self._transfers.close_file(self._engine.alive)

    @property
    def options(self) -> dict[str, Any]:
        """The options that the run was made with: sample [s], start, perturbation, record, trace and so on."""
        return dict(self._options)

    @property
    def flows_to(self) -> Path | None:
        """The file that rows of transfers go to from here on, or None."""
        return self._transfers.path

    # ---- checkpoints -----------------------------------------------------------------------------------------

    @guarded
    def save(self, path: str | Path) -> None:
        """Write all of the run to a file, from which `resume` continues to the identical end.

        A file of `flows_to` is closed with the rows until now, and later ones go to the next file "...-1", "...-2" that
        is not there.

        Parameters
        ----------
        path : str or Path
            File to write; it is complete or not there.

        Raises
        ------
        ValueError
            The run has failed, was closed, or has captures; the path is that of `flows_to`.
        OSError
            The file cannot be written.
        """
        if self._is_over and self.stopped != "completed":
            raise ValueError(f"save needs a run that can be resumed, got one that ended: {self.stopped}")
        if self._captures or isinstance(self._engine, PythonEngine):
            raise ValueError("save needs a run of engine='c', without capture")
        if self.flows_to is not None and self.flows_to.resolve() == Path(path).resolve():
            raise ValueError(f"path must be another file than that of flows_to, got {shown(str(path))}")
        arrays: dict[str, Any] = {f"engine_{name}": array for name, array in self._engine.save().items()}
        for k, part in enumerate(self._setup.parts):
            arrays |= {f"links_{k}": part.link_states, f"flows_{k}": part.flow_states}
        about, kept = self._transfers.save()
        about |= {
            "scenario": self._tables_text, "options": self._options, "stopped": self.stopped,
            "hooks": hook_digests(self._setup),
        }  # fmt: skip
        write_checkpoint(path, about, arrays | kept)

    @classmethod
    def _restored(cls, saved: Checkpoint, scenario: Scenario | None, rows: Path | None) -> Run:
        run = cls(scenario or Scenario.from_dict(json.loads(saved.scenario)), **saved.options)
        setup, engine = run._setup, run._engine
        if hook_digests(setup) != saved.hooks:
            raise ValueError("protocol must have the hooks of the checkpoint, got others")
        for k, part in enumerate(setup.parts):
            part.link_states[:] = saved.array(f"links_{k}", part.link_states.dtype, len(part.link_states))
            part.flow_states[:] = saved.array(f"flows_{k}", part.flow_states.dtype, len(part.flow_states))
        assert not isinstance(engine, PythonEngine)  # none is saved
        engine.load(saved.engine)
        if not np.isin(engine.trace["kind"], np.arange(len(EVENTS))).all():
            raise ValueError(f"kinds of events must be from 0 to {len(EVENTS) - 1}")
        run._stopped = saved.stopped
        run._transfers.restore(saved, rows)
        return run

    # ---- results -----------------------------------------------------------------------------------------

    @guarded
    def trajectory(self) -> Trajectory:
        """Return all that happened so far."""
        return trajectory_of(
            self.scenario, self._scenario_text, self._setup, self._engine, self._transfers, self._recording,
            period=self._period, stopped=self.stopped, has_histogram=self._has_histogram,
            threads=self._options["threads"],
        )  # fmt: skip


@check_arguments
def resume(path: str | Path, scenario: Scenario | None = None, *, flows_to: str | Path | None = None) -> Run:
    """Return the run of a checkpoint, which continues (`advance`) as it would have: the digest is the same.

    This reads the checkpoint and writes nothing. If the run writes its rows to a file, later rows go to another file,
    which is made when the run is advanced: in the folder of the checkpoint, under the next name "...-1", "...-2" that
    is free (`run.flows_to`).

    Parameters
    ----------
    path : str or Path
        File that `Run.save` wrote.
    scenario : Scenario, or None
        The one in the file. Given, it must be the same; a protocol that cannot be imported by name needs it.
    flows_to : str or Path, optional
        Path of the file for later rows, or, if there is a file, the next name that is free. None: as above.

    Raises
    ------
    ValueError
        Not a checkpoint, a damaged one (it has a checksum), or one of another version, of another scenario, or of a
        protocol whose hooks have changed; or flows_to for a run that keeps its rows in memory.
    OSError
        The file cannot be read.

    Notes
    -----
    A checksum is no signature. A file that somebody has made up is checked as a whole before anything is done with it,
    so that it cannot crash the process or reach other files; but what it reports need not have happened, the run may
    take any time and memory, and a protocol "module:Class" in its scenario is imported. From somebody whom you do not
    trust, give the scenario too, which must then be the same, and limit time and memory from outside.
    """
    saved = Checkpoint.read(path)
    if scenario is not None and _tables_text(scenario) != saved.scenario:
        raise ValueError(f"scenario must be that of the checkpoint, got another one ({str(path)!r})")
    try:
        return Run._restored(saved, scenario, None if flows_to is None else _path(flows_to, "flows_to"))
    except (ValueError, TypeError, NativeError, MemoryError) as error:
        raise ValueError(f"{error or 'out of memory'} ({str(path)!r})") from None


def _tables_text(scenario: Scenario) -> str:
    """The tables of a scenario as a checkpoint has them."""
    return json.dumps(scenario.to_dict(), separators=(",", ":"))


def _check_threads(threads: int, **given: object) -> None:
    """Refuse what runs in one thread only."""
    name = next((name for name, value in given.items() if value), None)
    if name == "engine":
        raise ValueError(f"threads needs engine='c', got threads={threads} and engine='python'")
    if name is not None:
        raise ValueError(f"{name} needs threads=1, got threads={threads}")


def _path(given: object, name: str) -> Path:
    if not isinstance(given, str | Path):
        raise TypeError(f"{name} must be a path, got {shown(given)}")
    return Path(given)
