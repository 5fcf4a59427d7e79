"""The face of the packet engine: a scenario in, a trajectory out, at once or step by step."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import __version__
from ecc.arguments import check_arguments, shown
from ecc.errors import NativeError
from ecc.jit import CompiledHooks, compile_hooks
from ecc.models.base import Hook
from ecc.models.protocol_assignment import ProtocolAssignment
from ecc.native import (
    FLOW_ENV,
    FLOW_HOOKS,
    LINK_ENV,
    LINK_HOOKS,
    TRANSFER_RESULT,
    Engine,
    addresses,
    bin_edges,
    picoseconds,
)
from ecc.native.guard import advancing, guarded
from ecc.packet.capture import ROOM, Capture, attach
from ecc.packet.checkpoint import Checkpoint, write_checkpoint
from ecc.packet.prepare import Part, Setup, prepare
from ecc.packet.recorded import Word, recorded, series, table
from ecc.packet.rows import FlowsFile, columns, flow_rows, label_columns, next_name
from ecc.packet.twin.engine import PythonEngine
from ecc.quantity import Quantity, as_count, as_size, as_time
from ecc.scenario import Scenario, notes_at_end
from ecc.trajectory import EVENTS, Trajectory
from ecc.workload import DRAWN, LABELS

__all__ = ["Run", "build_engine", "resume", "simulate"]

_SIDES: dict[str, tuple[tuple[str, ...], np.dtype[np.void], dict[str, tuple[str, ...]]]] = {
    "links": (
        LINK_HOOKS,
        LINK_ENV,
        dict.fromkeys(LINK_HOOKS, ("next_interval",)) | {"on_arrival": ("drop", "next_interval")},
    ),
    "flows": (
        FLOW_HOOKS,
        FLOW_ENV,
        dict.fromkeys(FLOW_HOOKS, ("rate", "window", "timer")) | {"on_receive": (), "on_stop": ()},
    ),
}
"""Hooks of links and of flows, what they see, and the fields of it that the engine reads back."""
SLICE, TURN = 1_000_000, 0.1
"""Events between looks at the clock and at Ctrl-C, at most, and how long they shall take [s]; slices never change the
result."""
CHUNK = 1_000
"""Transfers that are drawn ahead of their starts, at least; nor do these."""
_ENGINES = ("c", "python")

Progress = Callable[[float], None]
Cancel = Callable[[], bool]


@check_arguments
def simulate(
    scenario: Scenario,
    sample: Quantity = None,
    start: str = "empty",
    perturb: float = 0.0,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **options: Any,
) -> Trajectory:
    """Return the packet-level run of a scenario.

    Parameters
    ----------
    scenario : Scenario
    sample : float, s, optional
        > 0 and <= duration. Period of the samples; None: 0.1 s, at most a tenth of the duration.
    start : str, optional
        "empty", or "equilibrium" to begin at the protocol's equilibrium, all rates times 1 + perturb.
    perturb : float, optional
        See start; control begins at `stats["held_until"]` [s], when the pipes are full.
    progress : Progress, optional
        Called with the share of the horizon that is done, now and then.
    cancel : Cancel, optional
        Called now and then; the run ends when it returns True (`threading.Event().is_set`).
    **options : object
        Record, engine, flows_to, capture, trace, histogram_from, memory_limit: see `Run`.

    Returns
    -------
    Trajectory
        A run that was canceled, interrupted (Ctrl-C), or ended by a failing hook or for want of memory holds what it
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
    run = Run(scenario, sample, start, perturb, **options)
    run.advance(progress=progress, cancel=cancel)
    run.close()
    return run.trajectory()


@check_arguments
class Run:
    """A packet-level run that goes on when asked, and can be looked at whenever it pauses.

    Threads: while one advances a run, the others can read `now` and `stopped`; all else raises an EccError. Any number
    may look at a run that pauses. `progress` and `cancel` are called by the thread that advances it, which may look at
    it there.

    Parameters
    ----------
    scenario, sample, start, perturb
        See `simulate`.
    record : sequence of str, optional
        Names of fields to record, as series of the trajectory (`run["flow.x"]`): "link.FIELD" and "flow.FIELD" of the
        protocol's `LinkState` and `FlowState`, "env.FIELD" of the `env` of flows (window, srtt, ...), as they are at
        the end of each sample; of the flows of the network, and a link's first router that has it.
    engine : str, optional
        "c", or "python": the same engine in plain Python, some hundred times slower, in which hooks run uncompiled, so
        that `print` and a debugger work in them. Without capture, histogram_from, memory_limit and checkpoints.
    flows_to : str or Path, optional
        Path of a Parquet file that gets the rows of transfers as they end, from the first `advance` on, or None:
        `Trajectory.flows` has them all. Needs pyarrow.
    capture : mapping, optional
        Index of a link -> path of a file that gets what the link sends, with its headers: .pcapng, for tshark, or
        .parquet, which needs pyarrow. See `ecc.packet.capture`. It adds events, and changes no result.
    trace : int, >= 0, optional
        How many events to keep, from the first on: `Trajectory.trace`.
    histogram_from : float, s, optional
        Below the duration, or None. From when on the queues are counted by length, for `Trajectory.queue_quantiles`;
        None: never.
    memory_limit : int, bytes, or None
        What the engine may take.

    Raises
    ------
    ValueError, TypeError
        A value out of range, or no path.
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
        sample: Quantity = None,
        start: str = "empty",
        perturb: float = 0.0,
        *,
        record: Sequence[str] = (),
        engine: str = "c",
        flows_to: str | Path | None = None,
        capture: Mapping[int, str | Path] | None = None,
        trace: int = 0,
        histogram_from: Quantity = None,
        memory_limit: Quantity = None,
    ) -> None:
        period = scenario.sample_period(sample)
        self.scenario, self._period = scenario, period
        self._scenario_text = scenario.to_toml()  # what cannot be kept with the result is refused before the work
        self.stopped = "paused"
        file = None if flows_to is None else _path(flows_to, "flows_to")
        self._setup = prepare(scenario, start, perturb)
        self._captures: list[Capture] = []
        self._histogram_from = None if histogram_from is None else as_time(histogram_from, "histogram_from")
        if self._histogram_from is not None and self._histogram_from >= scenario.duration:
            limit = f"{scenario.duration:g} s"
            raise ValueError(f"histogram_from must be < the duration ({limit}), got {self._histogram_from:g} s")
        self._options = {
            "sample": period, "start": start, "perturb": float(perturb), "trace": as_count(trace, "trace"),
            "histogram_from": self._histogram_from,
            "memory_limit": None if memory_limit is None else as_size(memory_limit, "memory_limit"),
            "record": list(record),
        }  # fmt: skip
        self._series = series(self._setup, record)
        words = [word for one in self._series for word in one.words]
        if capture:
            self._setup, self._captures = attach(self._setup, capture)
        if engine not in _ENGINES:
            raise ValueError(f"engine must be one of {', '.join(map(repr, _ENGINES))}, got {engine!r}")
        samples: dict[str, Any] = {"sample": _width(scenario, period), "n_samples": scenario.n_samples(period)}
        if engine == "python":
            for name, given in (
                ("capture", capture),
                ("histogram_from", histogram_from),
                ("memory_limit", memory_limit),
            ):
                if given:
                    raise ValueError(f"{name} needs engine='c', got engine='python'")
            kept = as_count(trace, "trace")
            self._engine: Engine | PythonEngine = PythonEngine(
                self._setup, trace=kept, seed=scenario.seed, recorded=words, **samples
            )
        else:
            self._engine = build_engine(
                self._setup, scenario, words, trace=self._options["trace"], histogram=histogram_from is not None,
                memory_limit=self._options["memory_limit"] or 0, **samples,
            )  # fmt: skip
        self._guard = self._engine._guard
        self._rows: list[NDArray[np.void]] = []
        self._labels = [np.zeros(0, LABELS)]
        self._file = None if file is None else FlowsFile(file, self._columns)
        self._has_file = file is not None
        self._arriving = self._chunks()
        self._handed = 0
        self._events = 100
        self._closed = False

    # ---- going on ----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """How far the run has come [s]; while another thread advances it, how far it was a moment ago."""
        return self._engine.now

    @advancing
    def advance(self, until: Quantity = None, progress: Progress | None = None, cancel: Cancel | None = None) -> Run:
        """Go on to a time; in how many steps never changes the result.

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
            The file of `flows_to` cannot be written.
        """
        duration = self.scenario.duration
        end = duration if until is None else min(as_time(until, "until"), duration)
        if self._is_over:
            return self
        begin, self.stopped = self._histogram_from, "paused"
        try:
            with _Interrupts() as interrupts:
                if self._file is not None:
                    self._file.open()
                ends = (progress, cancel, interrupts)
                if begin is not None and self.now < begin <= end and self._goes_on(begin, *ends):
                    self._engine.histogram[:] = 0
                if (end >= self.now or end == duration) and self._goes_on(end, *ends) and end == duration:
                    self.stopped = "completed"
                    self.close()
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        except NativeError as error:
            self.stopped = str(error)
            self._take_all()
            warnings.warn(f"the run ended at {self.now:g} s: {error}", RuntimeWarning, stacklevel=3)
        return self

    @property
    def _counts(self) -> bool:
        """Whether queues have been counted for a while."""
        return self._histogram_from is not None and self.now > self._histogram_from

    @property
    def _is_over(self) -> bool:
        return self._closed or self.stopped not in ("paused", "canceled", "interrupted")

    def _goes_on(self, until: float, progress: Progress | None, cancel: Cancel | None, interrupts: _Interrupts) -> bool:
        """Run up to a time; False: canceled or interrupted on the way."""
        if self.stopped != "paused":
            return False
        most = min(SLICE, ROOM) if self._captures else SLICE
        while True:
            begin = time.perf_counter()
            reason = self._engine.advance(until, min(self._events, most))
            taken = time.perf_counter() - begin
            self._take_all()
            if reason == "max_events":  # hooks may take their time
                self._events = max(1, round(min(self._events, most) * min(10.0, TURN / taken)))
            if reason == "transfers":
                self._hand_over()
            elif progress is not None:
                interrupts.callback(progress, self.now / self.scenario.duration)
            if interrupts.noted:
                self.stopped = "interrupted"
                return False
            if reason not in ("max_events", "transfers"):
                return True
            if reason == "max_events" and cancel is not None and interrupts.callback(cancel):
                self.stopped = "canceled"
                return False

    def _chunks(self, skipped: int = 0) -> Iterator[NDArray[np.void]]:
        """Drawn transfers but for the first, CHUNK or more at a time."""
        waiting: list[NDArray[np.void]] = []
        workload = self.scenario.workload
        for block in workload.blocks(self.scenario.seed, self.scenario.duration) if workload else ():
            waiting.append(block[skipped:])
            skipped = max(0, skipped - len(block))
            if sum(map(len, waiting)) >= CHUNK:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)

    def _hand_over(self) -> None:
        drawn = next(self._arriving, np.zeros(0, DRAWN))
        self._handed += len(drawn)
        if self._has_connections:
            self._labels.append(drawn["label"].copy())
        self._engine.add(self._setup.transfers(drawn), more=len(drawn) > 0)

    @property
    def _has_connections(self) -> bool:
        return self.scenario.workload is not None and len(self.scenario.workload.tmix) > 0

    def _columns(self, rows: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        found = columns(rows)
        if self._has_connections:
            self._labels = [np.concatenate(self._labels)]
            found |= label_columns(rows, self._setup.n_flows, self._labels[0])
        return found

    def _take_all(self) -> None:
        self._take_rows(self._engine.take_finished())
        for capture in self._captures:
            capture.drain()

    def _take_rows(self, rows: NDArray[np.void]) -> None:
        if len(rows) and self._file is not None:
            self._file.write(rows)
        elif len(rows):
            self._rows.append(rows)

    @guarded
    def close(self) -> None:
        """End the files of `flows_to` and `capture`, if any, and with them the run; transfers alive get their rows."""
        for capture in self._captures:
            capture.close()
            self._closed = True
        self._captures = []
        if self._file is not None:
            self._file.write(self._engine.alive)
            self._file.close()
            self._file = None
            self._closed = True

    @property
    def flows_to(self) -> Path | None:
        """The file that rows of transfers go to from here on, or None."""
        return None if self._file is None else self._file.path

    # ---- checkpoints -----------------------------------------------------------------------------------------

    @guarded
    def save(self, path: str | Path) -> None:
        """Write all of the run to a file, from which `resume` goes on to the identical end.

        A file of `flows_to` is closed with the rows until now, and later ones go to the next file "...-1", "...-2" that
        is not there.

        Parameters
        ----------
        path : str or Path
            File to write; it is complete or not there.

        Raises
        ------
        ValueError
            The run has failed, was closed, or has captures.
        OSError
            The file cannot be written.
        """
        if self._is_over and self.stopped != "completed":
            raise ValueError(f"save needs a run that can go on, got one that ended: {self.stopped}")
        if self._captures or not isinstance(self._engine, Engine):
            raise ValueError("save needs a run of engine='c' without capture")
        arrays: dict[str, Any] = {f"engine_{name}": array for name, array in self._engine.save().items()}
        for k, part in enumerate(self._setup.parts):
            arrays |= {f"links_{k}": part.link_states, f"flows_{k}": part.flow_states}
        arrays |= {"rows": np.concatenate([np.zeros(0, TRANSFER_RESULT), *self._rows])}
        arrays |= {"labels": np.concatenate(self._labels)}
        if self._file is not None and self._file.is_open:
            self._file.close()
            self._file = FlowsFile(next_name(self._file.path), self._columns, is_new=True)
        about = {
            "scenario": self._scenario_text, "options": self._options,
            "stopped": self.stopped, "handed": self._handed, "hooks": _sources(self._setup),
            "file": None if self._file is None else self._file.path.name, "has_file": self._has_file,
        }  # fmt: skip
        write_checkpoint(path, about, arrays)

    @classmethod
    def _restored(cls, saved: Checkpoint, scenario: Scenario | None) -> Run:
        run = cls(scenario or Scenario.from_toml(saved.scenario + "\n"), **saved.options)
        setup, engine = run._setup, run._engine
        if _sources(setup) != saved.hooks:
            raise ValueError("protocol must have the hooks of the checkpoint, got others")
        for k, part in enumerate(setup.parts):
            part.link_states[:] = saved.array(f"links_{k}", part.link_states.dtype, len(part.link_states))
            part.flow_states[:] = saved.array(f"flows_{k}", part.flow_states.dtype, len(part.flow_states))
        assert isinstance(engine, Engine)  # no other is saved
        engine.load(saved.engine)
        if not np.isin(engine.trace["kind"], np.arange(len(EVENTS))).all():
            raise ValueError(f"kinds of events must be from 0 to {len(EVENTS) - 1}")
        run._rows, run._labels = [saved.array("rows", TRANSFER_RESULT)], [saved.array("labels", LABELS)]
        run.stopped, run._handed = saved.stopped, saved.handed
        number, kind = run._rows[0]["number"] - setup.n_flows, run._rows[0]["template_index"]
        if not ((number >= 0) & (number < run._handed) & (kind >= 0) & (kind < len(setup.flows) - setup.n_flows)).all():
            raise ValueError("rows must be of transfers that there are")
        if run._has_connections and len(run._labels[0]) != run._handed:
            raise ValueError(f"labels must be of {run._handed} transfers, got {len(run._labels[0])}")
        run._arriving = run._chunks(run._handed)
        run._has_file = saved.has_file
        if saved.file is not None:
            run._file = FlowsFile(saved.file, run._columns, is_new=True)
        return run

    # ---- what there is -----------------------------------------------------------------------------------

    @guarded
    def trajectory(self) -> Trajectory:
        """Return all that happened so far."""
        engine, setup, scenario = self._engine, self._setup, self.scenario
        seen, stats = engine.samples, engine.stats
        per_second = 8.0 / (seen["time"][0] if len(seen["time"]) else 1.0)
        rows = np.concatenate([
            flow_rows(setup.flows[: setup.n_flows], engine.flow_results), *self._rows,
            *([] if self._has_file else [engine.alive]),
        ])  # fmt: skip
        rows = rows[np.argsort(rows["number"])]
        runs = np.empty(len(setup.flows), dtype=object)
        for part in setup.parts:
            runs[part.flows] = type(part.protocol).__name__
        which = np.where(rows["number"] < setup.n_flows, rows["number"], setup.n_flows + rows["template_index"])
        return Trajectory.build(
            self._period * np.arange(1, len(seen["time"]) + 1),
            {
                "rate": seen["sent"] * per_second,
                "goodput": seen["received"] * per_second,
                "bottleneck": seen["bottleneck"],
                "queue": seen["queue"],
                "queue_max": seen["queue_peak"],
                "queue_mean": seen["queue_mean"],
                "arrival": seen["arrived"] * per_second,
                "drops": seen["dropped"],
                **recorded(self._series, seen.get("words", np.zeros((len(seen["time"]), 0), np.int64))),
            },
            {"transfer": rows["number"].copy()}
            | self._columns(rows)
            | ({"protocol": runs[which]} if isinstance(scenario.protocol, ProtocolAssignment) else {}),
            {
                "stopped": self.stopped,
                "now": stats.now,
                "events": stats.events,
                "data_packets": stats.data_packets,
                "transfers": stats.transfers,
                "cpu_seconds": stats.cpu_seconds,
                "peak_bytes": stats.peak_bytes,
                "digest": stats.digest,
                "held_until": setup.held_until,
                "notes": notes_at_end(scenario, seen["time"], seen["sent"] * per_second),
            },
            {
                "engine": "packet",
                "protocol": str(scenario.deployment),
                "scenario": self._scenario_text,
                "seed": scenario.seed,
                "version": __version__,
            },
            histogram=(bin_edges(), engine.histogram * [[[1e-12], [1.0]]]) if self._counts else None,
            trace=engine.trace if len(engine.trace) else None,
        )


@check_arguments
def resume(path: str | Path, scenario: Scenario | None = None) -> Run:
    """Return the run of a checkpoint, which goes on (`advance`) as it would have: the digest is the same.

    This reads the one file and writes none. If the run writes its rows to a file, the first `advance` makes a new one
    for those to come: beside the checkpoint, under the next name "...-1", "...-2" that is not there (`run.flows_to`).

    Parameters
    ----------
    path : str or Path
        File that `Run.save` wrote.
    scenario : Scenario, or None
        The one in the file. Given, it must be the same; a protocol that cannot be imported by name needs it.

    Raises
    ------
    ValueError
        No checkpoint, a damaged one (it has a checksum), or one of another version, of another scenario, or of a
        protocol whose hooks have changed.
    OSError
        The file cannot be read.

    Notes
    -----
    A checksum is no signature. A file that somebody has made up is checked as a whole before anything is done with it,
    so that it cannot crash the process or reach other files; but what it says happened need not have, the run may take
    any time and memory, and a protocol "module:Class" in its scenario is imported. From somebody whom you do not trust,
    give the scenario too, which must then be the same, and limit time and memory from outside.
    """
    saved = Checkpoint.read(path)
    if scenario is not None and scenario.to_toml() != saved.scenario:
        raise ValueError(f"scenario must be that of the checkpoint, got another one ({str(path)!r})")
    try:
        return Run._restored(saved, scenario)
    except (ValueError, TypeError, NativeError, MemoryError) as error:
        raise ValueError(f"{error or 'out of memory'} ({str(path)!r})") from None


class _Interrupts:
    """Notes Ctrl-C instead of raising it: it must not fall between a step of the engine and the books of the run.

    A second one is raised within `callback`, in code that is not ours. In other threads, and where somebody else
    handles it, nothing changes.
    """

    def __init__(self) -> None:
        self.noted = self._may_raise = False
        in_main = threading.current_thread() is threading.main_thread()
        self._mine = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> _Interrupts:
        if self._mine:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: object) -> None:
        if self.noted and self._may_raise:
            raise KeyboardInterrupt
        self.noted = True

    def callback(self, function: Callable[..., Any], *arguments: float) -> Any:
        """Call a function of the caller's."""
        self._may_raise = True
        try:
            return function(*arguments)
        finally:
            self._may_raise = False


def _width(scenario: Scenario, period: float) -> float:
    """A period of samples for the clock: the last one must not be rounded to behind the end of the run."""
    count, end = scenario.n_samples(period), picoseconds(scenario.duration)
    while count * picoseconds(period) > end:
        period = float(np.nextafter(period - 0.5e-12, 0.0))
    return period


def _path(given: object, name: str) -> Path:
    if not isinstance(given, str | Path):
        raise TypeError(f"{name} must be a path, got {shown(given)}")
    return Path(given)


def _sources(setup: Setup) -> list[str]:
    """A digest of the hooks of each part, and of all that they reach."""
    return [
        _compiled(side, states, part, params, hooks).source
        for part in setup.parts
        for side, _, states, params, hooks in part.sides()
        if hooks
    ]


def _compiled(
    side: str, states: NDArray[np.void], part: Part, params: NDArray[np.void], hooks: Mapping[str, Hook]
) -> CompiledHooks:
    _, env, writable = _SIDES[side]
    return compile_hooks(hooks, states.dtype, part.header, params.dtype, env, writable=writable)


def build_engine(setup: Setup, scenario: Scenario, words: Sequence[Word] = (), **options: Any) -> Engine:
    """Return the C engine of a prepared run, hooks compiled.

    Parameters
    ----------
    setup : Setup
    scenario : Scenario
    words : sequence of Word, optional
        What samples record.
    **options : object
        Of ecc.native.Engine (sample, n_samples, trace).
    """
    keep: list[object] = [setup]
    reasons: dict[int, str] = {}
    for part in setup.parts:
        for side, numbers, states, params, hooks in part.sides():
            names = _SIDES[side][0]
            for name in hooks:
                if name not in names:
                    raise ValueError(f"hooks must be among {', '.join(names)}, got {shown(name)}")
            if not hooks:
                continue
            compiled = _compiled(side, states, part, params, hooks)
            keep.append(compiled)
            reasons |= compiled.reasons
            rows = getattr(setup, side)
            rows["state"][numbers] = addresses(states)
            rows["params"][numbers] = addresses(params)
            for name, address in compiled.items():
                rows[name][numbers] = address
    return Engine(
        setup.links, setup.flows[: setup.n_flows], setup.routes, n_additional=setup.n_additional,
        templates=setup.flows[setup.n_flows :], record_size=setup.record_size, header_size=setup.header_size,
        seed=scenario.seed, n_sampled=scenario.network.n_flows, changes=setup.changes, impairments=setup.impairments,
        recorded=table(setup, words), keep=keep, reasons=reasons, **options,
    )  # fmt: skip
