"""The twin behind the interface of `ecc.native.Engine`: packet runs in which hooks are plain Python."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.records import named_variables
from ecc.errors import NativeError
from ecc.native import COUNTERS, Stats
from ecc.native.engine import check_observations
from ecc.native.guard import Guard, advancing
from ecc.packet.actions import Target
from ecc.packet.setup import Setup
from ecc.packet.twin.events import Twin, build_twin
from ecc.packet.twin.logged import LoggedTwin
from ecc.packet.twin.state import to_seconds

__all__ = ["PythonEngine"]


class PythonEngine:
    """One run of the packet engine in plain Python, about 100,000 events per second.

    Parameters
    ----------
    setup : Setup
    sample : float
        Period of the samples, s.
    trace : int
        Number of events to keep, for example 1000; 0: none.
    qlog : mapping, or None
        Index of a flow -> path of its log, for example {0: "run.sqlog"}; `write_logs` writes it.
    **options : object
        Further arguments of `Twin`.
    """

    def __init__(
        self, setup: Setup, *, sample: float, trace: int, qlog: Mapping[int, str | Path] | None = None, **options: Any
    ) -> None:
        self._guard = Guard()
        kind: type[Twin] = LoggedTwin if qlog else Twin
        if qlog:
            protocols = {number: part.protocol for part in setup.parts for number in part.flows.tolist()}
            variables = {number: named_variables(protocols[number]) for number in qlog if number in protocols}
            options |= {"qlog": qlog, "variables": variables}
        self._twin = build_twin(setup, kind, sample=sample, n_sampled=setup.n_flows, trace=trace, **options)
        self._period = sample
        self._reason, self._cpu_seconds = "not yet", 0.0
        self._taken = 0  # number of finished transfers that were returned

    @property
    def now(self) -> float:
        """Time up to which the run has been advanced [s]."""
        return to_seconds(self._twin.now)

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and including a time, like `Engine.advance`.

        Parameters
        ----------
        until : float, s
        max_events : int or None
            Maximum number of events to run.
        """
        began = time.thread_time()
        try:
            self._reason = self._twin.advance(until, max_events)
        except BaseException:
            self._reason = "error"
            raise
        finally:
            self._cpu_seconds += time.thread_time() - began
        return self._reason

    @advancing
    def act(self, actions: Sequence[Target], values: Sequence[float]) -> None:
        """Perform actions on flows now, like `Engine.act`.

        Parameters
        ----------
        actions : sequence of Target
        values : sequence of float
        """
        try:
            self._twin.act(actions, values)
        except NativeError as error:
            if "an action must be" not in str(error):
                self._reason = "error"
            raise

    def observe(self, observations: NDArray[np.void]) -> None:
        """Write the monitor intervals until now, and begin the next ones, like `Engine.observe`.

        Parameters
        ----------
        observations : NDArray[void], shape (n_monitors,)
            Dtype OBSERVATION; it is overwritten.
        """
        check_observations(observations, len(self._twin.monitors))
        observations[:] = self._twin.observe()

    def stop(self) -> None:
        """Make a call of `advance` in another thread return after the current event, like `Engine.stop`."""
        self._twin.must_stop = True

    def write_logs(self) -> None:
        """Write the logs, if the run has any.

        Raises
        ------
        OSError
            If a file cannot be written.
        """
        if isinstance(self._twin, LoggedTwin):
            self._twin.write_logs()

    def add(self, transfers: NDArray[np.void], more: bool) -> None:
        """Add the next transfers.

        Parameters
        ----------
        transfers : NDArray[void], shape (n,)
            Dtype TRANSFER.
        more : bool
            Whether further transfers will be added later.
        """
        self._twin.add(transfers, more)

    def take_finished(self) -> NDArray[np.void]:
        """Return the results of the finished transfers that were not taken yet, dtype TRANSFER_RESULT."""
        new = self._twin.finished[self._taken :]
        self._taken += len(new)
        return self._twin.transfer_results(new)

    @property
    def alive(self) -> NDArray[np.void]:
        """Results so far of the transfers under way, dtype TRANSFER_RESULT."""
        return self._twin.transfers_alive

    @property
    def stats(self) -> Stats:
        """Counts and costs of the run so far; memory is not measured and reported as 0."""
        twin = self._twin
        return Stats(
            now=self.now,
            events=twin.events,
            data_packets=twin.data_packets,
            in_flight=twin.in_flight,
            samples=len(twin.rows),
            trace=twin.n_traced,
            transfers=twin.started,
            alive=len(self.alive),
            waiting=sum(map(len, twin.pending)),
            finished=len(twin.finished) - self._taken,
            bytes=0,
            peak_bytes=0,
            digest=twin.digest,
            stop=self._reason,
            cpu_seconds=self._cpu_seconds,
        )

    @property
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples taken so far, in the form of `Engine.samples`."""
        rows = len(self._twin.rows)
        out: dict[str, NDArray[Any]] = {"time": self._period * np.arange(1, rows + 1)}
        for name, array in self._twin.samples.items():
            out[name] = np.diff(array, axis=0, prepend=0) if name in COUNTERS else array
        return out

    @property
    def trace(self) -> NDArray[np.void]:
        """The first events, dtype EVENT."""
        return self._twin.events_traced

    @property
    def histogram(self) -> NDArray[np.int64]:
        """Histograms of the queues, shape (n_links, 2, n_bins), as for `Engine.histogram`."""
        return self._twin.histogram

    @property
    def flow_results(self) -> NDArray[np.void]:
        """Results of the flows, shape (n_flows,), dtype FLOW_RESULT."""
        return self._twin.flow_results
