"""Many independent runs that step together: actions in, observations out, by one call of the engine in C threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments
from ecc._support.quantity import Quantity
from ecc._support.workers import thread_count
from ecc.native import ACTION, Crew, Engine, picoseconds
from ecc.native.guard import Guard, advancing, guarded
from ecc.packet.actions import observed_flows, target_of
from ecc.packet.simulation import SLICE, Run
from ecc.scenario import Scenario

__all__ = ["RunBatch"]


@check_arguments
class RunBatch:
    """Runs that step together, each on its own scenario; results do not depend on the number of threads.

    Write `actions`, call `step`, read `observations`; `restart` begins a run again. No trajectory is built. One thread
    at a time may use a batch and its runs.

    Parameters
    ----------
    scenarios : sequence of Scenario
        Scenario of each run.
    flows : sequence of int, optional
        Indices of the flows that act, the same in all runs, for example (0,).
    act : str, optional
        What actions set: "rate" (bit/s), "window" (bytes; 0: none), or the name of a field of the protocol's
        `FlowState` that holds a float and that its hooks read.
    observe : sequence of int, optional
        Indices of the observed flows, in increasing order; None: `flows`.
    sample : float, s, optional
        Period of the samples of `run(k).trajectory()`; None: one sample, at the end.
    threads : int, >= 1, optional
        Number of threads, for example 2; None: the number of cores available to this process.

    Raises
    ------
    ValueError, TypeError
        If `scenarios` is empty, or a flow or a field does not exist.
    NativeError
        If the engine refuses a network.

    Examples
    --------
    >>> network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> scenario = ecc.Scenario(network, ecc.models.ConstantRate("5 Mb/s"), duration=5.0)
    >>> batch = RunBatch([scenario, scenario])
    >>> batch.actions[:, 0] = [4e6, 8e6]
    >>> batch.step(1.0)
    >>> batch.observations["rate"][:, 0].tolist(), batch.now.tolist()
    ([4000000.0, 8000000.0], [1.0, 1.0])
    """

    @check_arguments
    def __init__(
        self,
        scenarios: Sequence[Scenario],
        flows: Sequence[int] = (0,),
        act: str = "rate",
        *,
        observe: Sequence[int] | None = None,
        sample: Quantity | None = None,
        threads: int | None = None,
    ) -> None:
        if len(scenarios) == 0:
            raise ValueError("scenarios must have one or more entries, got none")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be >= 1, got {threads}")
        self._flows, self._act, self._sample = tuple(flows), act, sample
        self._observe = sorted(self._flows) if observe is None else observe
        for scenario in scenarios:
            observed_flows(self._observe, scenario.network.n_flows)
        self._guard = Guard()
        self._runs = [self._new(scenario) for scenario in scenarios]
        table = np.stack([self._table(run) for run in self._runs])
        self._crew = Crew([_engine(run) for run in self._runs], table, thread_count(threads))
        self._duration: NDArray[np.float64] = np.array([scenario.duration for scenario in scenarios])
        steps = self._crew.steps
        steps["end"] = picoseconds(self._duration)
        self._until: NDArray[np.float64] = steps["until"]
        self._now: NDArray[np.float64] = steps["now"]
        self._failures: dict[int, str] = {}
        self._is_dead = np.zeros(len(scenarios), np.bool_)

    def _new(self, scenario: Scenario) -> Run:
        """Return a run at time 0, whose flows of time 0 have started."""
        sample = scenario.duration if self._sample is None else self._sample
        run = Run(scenario, sample, observe=self._observe)
        run._guard = _engine(run)._guard = self._guard
        return run.advance(0.0)

    def _table(self, run: Run) -> NDArray[np.void]:
        """Return the actions of a run in the format of the engine."""
        return np.array([target_of(run._setup, flow, self._act).row for flow in self._flows], ACTION)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def actions(self) -> NDArray[np.float64]:
        """Values of the actions of the next step, to be written, shape (n_runs, n_flows); nan: no action.

        `step` sets them to nan.
        """
        return self._crew.values

    @property
    def observations(self) -> NDArray[np.void]:
        """Observations of the last step, shape (n_runs, n_observed), dtype `OBSERVATION`; each step overwrites them."""
        return self._crew.observations

    @property
    def now(self) -> NDArray[np.float64]:
        """Times that the runs have reached [s], shape (n_runs,); each step overwrites them."""
        return self._now

    @property
    def duration(self) -> NDArray[np.float64]:
        """Durations of the runs [s], shape (n_runs,)."""
        return self._duration

    @property
    def failures(self) -> dict[int, str]:
        """Index of a run -> message: runs that have failed, until they are restarted, and refused actions of the step.

        An action is refused if its value is out of range or its flow has not started or has ended; the run then stays
        as it was, and takes part in the next step.
        """
        return dict(self._failures)

    @advancing
    def step(self, until: ArrayLike) -> None:
        """Act, advance each run to its time, and observe. A failure of a run affects no other run.

        Parameters
        ----------
        until : array_like, s
            Times to reach, one for each run or one for all, for example `batch.now + 0.1`. If a time has passed, the
            run stays at its time; times after the end are the end.

        Raises
        ------
        ValueError
            If a time is negative or not a finite number, or their number is not that of the runs.
        KeyboardInterrupt
            At Ctrl-C, within a moment. Runs may be at different times, and observations are incomplete.
        """
        times = self._until
        if type(until) is not float and np.shape(until) not in ((), times.shape):
            n, shape = len(times), np.shape(until)
            raise ValueError(f"until must have one time, or one for each of {n} runs, got shape {shape}")
        times[:] = until
        n_behind = self._crew.step(SLICE)
        if n_behind < 0:
            raise ValueError(f"until must be >= 0 s, got {times.min()}")
        if self._failures:
            self._failures = {k: text for k, text in self._failures.items() if self._is_dead[k]}
        if n_behind > 0:
            self._continue()
        for run, now in zip(self._runs, self._now.tolist(), strict=True):
            _engine(run).now = now
            if now >= run._scenario.duration:
                run._stopped = "completed"

    def _continue(self) -> None:
        """Step the runs that have not arrived: with the next transfers, or after a slice; note those that failed."""
        crew, steps = self._crew, self._crew.steps
        engines = steps["engine"].copy()
        try:
            while True:
                waits = np.flatnonzero((steps["engine"] != 0) & ~crew.has_arrived)
                for k in np.flatnonzero((steps["engine"] != 0) & (steps["code"] != 0)).tolist():
                    self._note_failure(k)
                waits = waits[steps["code"][waits] == 0]
                if len(waits) == 0:
                    return
                for k in waits.tolist():
                    self._hand_over(k)
                steps["engine"] = 0
                steps["engine"][waits] = engines[waits]
                crew.step(SLICE)
        finally:
            steps["engine"] = np.where(self._is_dead, 0, engines)
            steps["code"] = 0

    def _note_failure(self, k: int) -> None:
        run = self._runs[k]
        error = _engine(run)._reported()
        self._failures[k] = str(error)
        if self._crew.stop_of(k) == "error":
            self._is_dead[k], run._stopped = True, str(error)

    def _hand_over(self, k: int) -> None:
        """Give a run the next transfers of its workload, if it needs them."""
        run, engine = self._runs[k], _engine(self._runs[k])
        if self._crew.stop_of(k) == "transfers":
            drawn = run._transfers.draw()
            engine.add(drawn, more=len(drawn) > 0)
            run._transfers.keep(engine.take_finished())

    @advancing
    def restart(self, k: int, scenario: Scenario | None = None, seed: int | None = None) -> None:
        """Begin a run again at time 0, and start the flows of time 0. Its observations become 0, its actions nan.

        Parameters
        ----------
        k : int
            Index of the run, for example 0.
        scenario : Scenario or None
            Its scenario from now on, which must have the flows that act and are observed; None: the same again. This
            takes milliseconds, unless network, workload, protocol, duration and options are those of before.
        seed : int, optional
            Seed of the scenario, from 0 to 2^32 - 1; None: its own. With `scenario=None` this takes some 50 us.

        Raises
        ------
        ValueError, TypeError
            If there is no such run, flow or field, or the seed is not admissible.
        NativeError
            If the engine refuses the network.
        """
        if not 0 <= k < len(self._runs):
            raise ValueError(f"k must be from 0 to {len(self._runs) - 1}, got {k}")
        run = self._runs[k]
        chosen = run.scenario if scenario is None else scenario
        if seed is not None:
            chosen = chosen.with_(seed=seed) if not 0 <= seed < 2**32 else chosen._with_seed(seed)
        if run._restart_like(chosen):
            run.advance(0.0)
        else:
            observed_flows(self._observe, chosen.network.n_flows)
            run = self._new(chosen)
            self._crew.replace(k, _engine(run), self._table(run))
            self._runs[k] = run
        self._crew.replace(k, _engine(run))
        self._crew.observations[k] = np.zeros(1, self._crew.observations.dtype)[0]
        self._now[k], self._duration[k] = 0.0, chosen.duration
        self._crew.steps["end"][k] = picoseconds(chosen.duration)
        self._is_dead[k] = False
        self._failures.pop(k, None)

    @guarded
    def run(self, k: int) -> Run:
        """Return a run, for example to read its trajectory; it belongs to the batch.

        Parameters
        ----------
        k : int
            Index of the run, for example 0.

        Raises
        ------
        ValueError
            If there is no such run.
        """
        if not 0 <= k < len(self._runs):
            raise ValueError(f"k must be from 0 to {len(self._runs) - 1}, got {k}")
        self._runs[k]._take_all()
        return self._runs[k]


def _engine(run: Run) -> Engine:
    """Return the C engine of a run of the batch."""
    engine = run._engine
    assert isinstance(engine, Engine)
    return engine
