"""The twin with the interface of `ecc.native.Engine`: a run of the packet engine in which hooks are plain Python."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.models.records import named_variables
from ecc.native import COUNTERS, Stats
from ecc.native.guard import Guard, advancing
from ecc.packet.setup import Setup
from ecc.packet.twin.events import Twin, build_twin
from ecc.packet.twin.logged import LoggedTwin
from ecc.packet.twin.state import to_seconds

__all__ = ["PythonEngine"]


class PythonEngine:
    """One run, some 100,000 events a second.

    Parameters
    ----------
    setup : Setup
    sample : float
        Period of the samples, s.
    trace : int
        Events to keep.
    qlog : mapping, or None
        Index of a flow -> path of its log, which `write_logs` writes.
    **options : object
        Of `Twin`.
    """

    def __init__(
        self, setup: Setup, *, sample: float, trace: int, qlog: Mapping[int, str | Path] | None = None, **options: Any
    ) -> None:
        self._guard = Guard()
        kind: type[Twin] = LoggedTwin if qlog else Twin
        if qlog:
            named = {number: part.protocol for part in setup.parts for number in part.flows.tolist()}
            options |= {"qlog": qlog, "variables": {one: named_variables(named[one]) for one in qlog if one in named}}
        self._twin = build_twin(setup, kind, sample=sample, n_sampled=setup.n_flows, trace=trace, **options)
        self._period = sample
        self._reason, self._cpu_seconds = "not yet", 0.0
        self._taken = 0  # of the transfers that are over

    @property
    def now(self) -> float:
        """Time up to which it was advanced [s]."""
        return to_seconds(self._twin.now)

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and at a time, as `Engine.advance` does.

        Parameters
        ----------
        until : float, s
        max_events : int or None
            Events to run at most.
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

    def stop(self) -> None:
        """Let a call of `advance` in another thread end after the current event, as `Engine.stop` does."""
        self._twin.must_stop = True

    def write_logs(self) -> None:
        """Write the logs, if there are any.

        Raises
        ------
        OSError
            One cannot be written.
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
            Whether others will come.
        """
        self._twin.add(transfers, more)

    def take_finished(self) -> NDArray[np.void]:
        """Return the results of the finished transfers that were not taken yet, dtype TRANSFER_RESULT."""
        new = self._twin.finished[self._taken :]
        self._taken += len(new)
        return self._twin.transfer_results(new)

    @property
    def alive(self) -> NDArray[np.void]:
        """The results so far of the transfers that are alive, dtype TRANSFER_RESULT."""
        return self._twin.transfers_alive

    @property
    def stats(self) -> Stats:
        """Counts and costs of the run so far; memory is not measured."""
        twin = self._twin
        return Stats(
            now=self.now, events=twin.events, data_packets=twin.data_packets, in_flight=twin.in_flight,
            samples=len(twin.rows), trace=twin.n_traced, transfers=twin.started, alive=len(self.alive),
            waiting=sum(map(len, twin.pending)), finished=len(twin.finished) - self._taken, bytes=0, peak_bytes=0,
            digest=twin.digest, stop=self._reason, cpu_seconds=self._cpu_seconds,
        )  # fmt: skip

    @property
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples taken so far, as `Engine.samples`."""
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
        """Shape (n_links, 2, n_bins), as `Engine.histogram`."""
        return self._twin.histogram

    @property
    def flow_results(self) -> NDArray[np.void]:
        """Shape (n_flows,), dtype FLOW_RESULT."""
        return self._twin.flow_results
