"""The face of the packet engine: a scenario in, a trajectory out, at once or step by step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import __version__
from ecc.errors import NativeError
from ecc.models.mix import Mix
from ecc.native import FLOW_ENV, FLOW_HOOKS, LINK_ENV, LINK_HOOKS, Engine, addresses, bin_edges
from ecc.native.compile import compile_hooks
from ecc.packet.prepare import Setup, prepare
from ecc.packet.rows import FlowsFile, columns, flow_rows
from ecc.quantity import Quantity, as_count, as_size, as_time
from ecc.scenario import Scenario
from ecc.trajectory import Trajectory
from ecc.workload import DRAWN

__all__ = ["Run", "build_engine", "simulate"]

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
SLICE = 1_000_000
"""Events between looks at the clock and at Ctrl-C; slices never change the result."""
CHUNK = 1_000
"""Transfers that are drawn ahead of their starts, at least; nor do these."""

Progress = Callable[[float], None]
Cancel = Callable[[], bool]


def simulate(
    scenario: Scenario,
    sample: Quantity = 0.1,
    start: str = "empty",
    perturb: float = 0.0,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **options: Any,
) -> Trajectory:
    """Return the packet-level run of a scenario.

    Parameters
        scenario : Scenario.
        sample : float, s, > 0. Period of the samples.
        start : "empty", or "equilibrium" to begin at the protocol's equilibrium, all rates times 1 + perturb.
        perturb : float. See start; control begins at `stats["held_until"]` [s], when the pipes are full.
        progress : called with the share of the horizon that is done, now and then.
        cancel : called now and then; the run ends when it returns True (`threading.Event().is_set`).
        options : flows_to, trace, histogram_from, memory_limit: see `Run`.
    Returns
        Trajectory. A run that was canceled, interrupted (Ctrl-C), or ended by a failing hook or for want of memory
        holds what it had; `stats["stopped"]` says why.
    Raises
        ValueError: a bad sample or start. NativeError: the engine refuses the network.
    Example
        >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
        >>> run = simulate(ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0))
        >>> round(float(run.rate[-1, 0]) / 1e6, 1)
        9.5
    """
    run = Run(scenario, sample, start, perturb, **options)
    run.advance(progress=progress, cancel=cancel)
    run.close()
    return run.trajectory()


class Run:
    """A packet-level run that goes on when asked, and can be looked at whenever it rests.

    Parameters
        scenario, sample, start, perturb : see `simulate`.
        flows_to : path of a Parquet file that gets the rows of transfers as they end, or None: `Trajectory.flows` has
            them all. Needs pyarrow.
        trace : int, >= 0. How many events to keep, from the first on: `Trajectory.trace`.
        histogram_from : float, s, or None. From when on the queues are counted by length, for
            `Trajectory.queue_quantiles`; None: never.
        memory_limit : int, bytes, or None. What the engine may take.
    Raises
        ValueError: a value out of range. NativeError: the engine refuses the network. EccError: pyarrow is missing.
    Example
        >>> run = Run(ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.QIRCP(), duration=5.0))
        >>> run.advance(2.0).now
        2.0
        >>> len(run.trajectory().rate), run.advance().stopped
        (20, 'completed')
    """

    def __init__(
        self,
        scenario: Scenario,
        sample: Quantity = 0.1,
        start: str = "empty",
        perturb: float = 0.0,
        *,
        flows_to: str | Path | None = None,
        trace: int = 0,
        histogram_from: Quantity = None,
        memory_limit: Quantity = None,
    ) -> None:
        period = as_time(sample, "sample", positive=True)
        if period > scenario.duration:
            raise ValueError(f"sample must be <= the duration ({scenario.duration:g} s), got {period:g} s")
        self.scenario = scenario
        self.stopped = "paused"
        self._setup = prepare(scenario, start, perturb)
        self._histogram_from = None if histogram_from is None else as_time(histogram_from, "histogram_from")
        self._engine = build_engine(
            self._setup, scenario, sample=period, n_samples=int(scenario.duration / period + 1e-9),
            trace=as_count(trace, "trace"), histogram=histogram_from is not None,
            memory_limit=0 if memory_limit is None else as_size(memory_limit, "memory_limit"),
        )  # fmt: skip
        self._rows: list[NDArray[np.void]] = []
        self._file = None if flows_to is None else FlowsFile(flows_to)
        self._streams = flows_to is not None
        self._arriving = self._chunks()

    # ---- going on ----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """How far the run has come [s]."""
        return self._engine.stats.now

    def advance(self, until: Quantity = None, progress: Progress | None = None, cancel: Cancel | None = None) -> Run:
        """Go on to a time; in how many steps never changes the result.

        Parameters
            until : float, s, or None: to the end. Nothing happens if it is past, or the run is over.
            progress, cancel : see `simulate`.
        Returns
            the run itself. `stopped` is "paused", "completed", "canceled", "interrupted", or the error that ended it.
        """
        duration = self.scenario.duration
        end = duration if until is None else min(as_time(until, "until"), duration)
        if self._is_over:
            return self
        begin, self.stopped = self._histogram_from, "paused"
        try:
            if begin is not None and self.now < begin <= end and self._goes_on(begin, progress, cancel):
                self._engine.histogram[:] = 0
            if end > self.now and self._goes_on(end, progress, cancel) and end == duration:
                self.stopped = "completed"
                self.close()
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        except NativeError as error:
            self.stopped = str(error)
            warnings.warn(f"the run ended at {self.now:g} s: {error}", RuntimeWarning, stacklevel=2)
        return self

    @property
    def _is_over(self) -> bool:
        return self.stopped not in ("paused", "canceled", "interrupted")

    def _goes_on(self, until: float, progress: Progress | None, cancel: Cancel | None) -> bool:
        """Run up to a time; False: canceled on the way."""
        if self.stopped == "canceled":
            return False
        while True:
            reason = self._engine.advance(until, SLICE)
            self._take_rows(self._engine.take_over())
            if reason == "transfers":
                self._hand_over()
                continue
            if progress is not None:
                progress(self.now / self.scenario.duration)
            if reason != "max_events":
                return True
            if cancel is not None and cancel():
                self.stopped = "canceled"
                return False

    def _chunks(self) -> Iterator[NDArray[np.void]]:
        """Drawn transfers, CHUNK or more at a time."""
        waiting: list[NDArray[np.void]] = []
        workload = self.scenario.workload
        for block in workload.blocks(self.scenario.seed, self.scenario.duration) if workload else ():
            waiting.append(block)
            if sum(map(len, waiting)) >= CHUNK:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)

    def _hand_over(self) -> None:
        drawn = next(self._arriving, np.zeros(0, DRAWN))
        self._engine.add(self._setup.transfers(drawn), more=len(drawn) > 0)

    def _take_rows(self, rows: NDArray[np.void]) -> None:
        if len(rows) and self._file is not None:
            self._file.write(rows)
        elif len(rows):
            self._rows.append(rows)

    def close(self) -> None:
        """End the file of `flows_to`, if there is one; transfers that are not over get their rows as they are."""
        if self._file is not None:
            self._file.write(self._engine.alive)
            self._file.close()
            self._file = None
            self.stopped = self.stopped if self._is_over else f"{self.stopped}, closed"

    # ---- what there is -----------------------------------------------------------------------------------

    def trajectory(self) -> Trajectory:
        """Return all that happened so far."""
        engine, setup, scenario = self._engine, self._setup, self.scenario
        seen, stats = engine.samples, engine.stats
        per_second = 8.0 / (seen["time"][0] if len(seen["time"]) else 1.0)
        rows = np.concatenate([
            flow_rows(setup.flows[: setup.n_flows], engine.flow_results), *self._rows,
            *([] if self._streams else [engine.alive]),
        ])  # fmt: skip
        rows = rows[np.argsort(rows["number"])]
        runs = np.empty(len(setup.flows), dtype=object)
        for part in setup.parts:
            runs[part.flows] = type(part.protocol).__name__
        which = np.where(rows["number"] < setup.n_flows, rows["number"], setup.n_flows + rows["kind"])
        return Trajectory.build(
            seen["time"],
            {
                "rate": seen["sent"] * per_second,
                "goodput": seen["received"] * per_second,
                "bottleneck": seen["bottleneck"],
                "queue": seen["queue"],
                "queue_max": seen["queue_peak"],
                "queue_mean": seen["queue_mean"],
                "arrival": seen["arrived"] * per_second,
                "drops": seen["dropped"],
            },
            columns(rows) | ({"protocol": runs[which]} if isinstance(scenario.protocol, Mix) else {}),
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
            },
            {
                "engine": "packet",
                "protocol": str(Mix.of(scenario.protocol)),
                "scenario": scenario.to_toml(),
                "seed": scenario.seed,
                "version": __version__,
            },
            histogram=None if self._histogram_from is None else (bin_edges(), engine.histogram * [[[1e-12], [1.0]]]),
            trace=engine.trace if len(engine.trace) else None,
        )


def build_engine(setup: Setup, scenario: Scenario, **options: Any) -> Engine:
    """Return the C engine of a prepared run, hooks compiled.

    Parameters
        setup : Setup. scenario : Scenario. options : of ecc.native.Engine (sample, n_samples, trace).
    """
    keep: list[object] = [setup]
    reasons: dict[int, str] = {}
    for part in setup.parts:
        for side, numbers, states, params, hooks in part.sides():
            names, env, writable = _SIDES[side]
            for name in hooks:
                if name not in names:
                    raise ValueError(f"hooks must be among {', '.join(names)}, got {name!r}")
            if not hooks:
                continue
            compiled = compile_hooks(hooks, states.dtype, part.header, params.dtype, env, writable=writable)
            keep.append(compiled)
            reasons |= compiled.reasons
            rows = getattr(setup, side)
            rows["state"][numbers] = addresses(states)
            rows["params"][numbers] = addresses(params)
            for name, address in compiled.items():
                rows[name][numbers] = address
    return Engine(
        setup.links, setup.flows[: setup.n_flows], setup.routes, n_further=setup.n_further,
        templates=setup.flows[setup.n_flows :], record_size=setup.record_size, header_size=setup.header_size,
        seed=scenario.seed, n_sampled=scenario.network.n_flows, changes=setup.changes, impairments=setup.impairments,
        keep=keep, reasons=reasons, **options,
    )  # fmt: skip
