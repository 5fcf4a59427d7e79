"""Engines of the parts of one network, advanced in threads, with the interface and results of one `Engine`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import NativeError
from ecc.native._engine import ffi, lib
from ecc.native.engine import Engine, Partition, Stats, picoseconds
from ecc.native.guard import Guard, advancing, guarded

__all__ = ["Team"]

_SUMS = (
    "events",
    "data_packets",
    "in_flight",
    "bytes",
    "peak_bytes",
    "cpu_seconds",
    "transfers",
    "alive",
    "waiting",
    "finished",
)
_PER_PART = ("state", "trace", "cpu_seconds", "words")
"""Arrays of `Engine.save` that differ between the engines of a team."""
_STOPS = {
    lib.ECC_STOP_UNTIL: "until",
    lib.ECC_STOP_MAX_EVENTS: "max_events",
    lib.ECC_STOP_IDLE: "idle",
    lib.ECC_STOP_TRANSFERS: "transfers",
}


class Team:
    """One run of the packet engine in several threads; its results equal those of one engine bit for bit.

    Between calls all engines have reached the same time, with the state that a single engine would have.

    Parameters
    ----------
    engines : sequence of Engine
        Engines of the parts 0, 1, ... of one network, which share samples and histogram (`shares_with`).
    partition : Partition
        Partition of any of them.
    words : sequence of ndarray
        For each engine, the indices of its words among all recorded words.
    records : sequence of (ndarray, ndarray, ndarray)
        Records of the run, the copy that an engine uses, and the rows that it updates. Both are synchronized at the
        beginning and end of a call. Copies are needed because threads that write to one cache line slow each other
        down.

    Raises
    ------
    NativeError
        If these are not the engines of all parts of one network.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        partition: Partition,
        words: Sequence[NDArray[np.int64]] = (),
        records: Sequence[tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int64]]] = (),
    ) -> None:
        self._guard = Guard()
        self._engines, self._partition, self._words, self._records = list(engines), partition, words, records
        self._reason = "not yet"
        self._when_full: Callable[[], None] | None = None
        team = ffi.new("ecc_team_t **")
        code = lib.ecc_team_new([engine._engine for engine in engines], len(engines), team)
        if code != 0:
            raise NativeError(ffi.string(lib.ecc_engine_error_text(code)).decode(), code)
        self._team = ffi.gc(team[0], lib.ecc_team_free)
        self.now = 0.0

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and including a time, like `Engine.advance`.

        Parameters
        ----------
        until : float, s
        max_events : int or None
            Number of events after which the call returns; the parts then continue to a common time.

        Raises
        ------
        NativeError
            The first failure of a hook or of memory. Parts that did not fail can be ahead by less than the delays
            between the parts.
        """
        end, limit = int(picoseconds(until)), -1 if max_events is None else max_events
        for original, copy, rows in self._records:
            copy[rows] = original[rows]
        while (codes := self._run(end, limit))[0] == lib.ECC_STOP_NOT_YET and self._when_full is not None:
            self._when_full()
        for original, copy, rows in self._records:
            original[rows] = copy[rows]
        self.now = min(engine.stats.now for engine in self._engines)
        if lib.ECC_STOP_ERROR in codes:
            self._reason = "error"
            raise self._first_failure()
        self._reason = _STOPS[codes[0]]
        return self._reason

    def stop(self) -> None:
        """Make a call of `advance` in another thread return soon, like `Engine.stop`."""
        lib.ecc_team_stop(self._team)

    def pause_for(self, n_events: int, when_full: Callable[[], None]) -> None:
        """Call a function each time that a part has run a number of events.

        Parameters
        ----------
        n_events : int, > 0
            Maximum number of events between two calls, for example 4096.
        when_full : callable
            Function that must not access the team, because its parts can be at different times.
        """
        self._when_full = when_full
        lib.ecc_team_set_most(self._team, n_events)

    def _run(self, end: int, limit: int) -> list[int]:
        """Call `ecc_team_advance` of all parts, each in a separate thread."""
        codes = [lib.ECC_STOP_ERROR] * len(self._engines)
        all_started, abandoned = threading.Event(), False

        def run(part: int) -> None:
            all_started.wait()
            if not abandoned:
                began = time.thread_time()
                codes[part] = lib.ecc_team_advance(self._team, part, end, limit)
                self._engines[part]._cpu_seconds += time.thread_time() - began

        threads = [threading.Thread(target=run, args=(part,)) for part in range(1, len(self._engines))]
        started = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
        except BaseException:
            abandoned = True
            raise
        finally:
            all_started.set()
            if abandoned:
                for thread in started:
                    thread.join()
        run(0)
        for thread in threads:
            thread.join()
        return codes

    def _first_failure(self) -> NativeError:
        reports = []
        for part, engine in enumerate(self._engines):
            report = ffi.new("ecc_report_t *")
            lib.ecc_engine_report(engine._engine, report)
            if report.code != 0:
                reports.append((report.time, part))
        return self._engines[min(reports)[1]]._reported()

    @property
    @guarded
    def stats(self) -> Stats:
        """Counts and costs of the run so far, of all parts together."""
        each = [engine.stats for engine in self._engines]
        sums = {name: sum(getattr(stats, name) for stats in each) for name in _SUMS}
        digest = sum(stats.digest for stats in each) % 2**64
        common = {name: min(getattr(stats, name) for stats in each) for name in ("now", "samples")}
        return replace(each[0], **sums, **common, digest=digest, stop=self._reason)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self._engines)

    @property
    @guarded
    def cpu_seconds_of_parts(self) -> list[float]:
        """CPU time of each part in its engine and hooks, and in busy waits for other parts [s]."""
        return [engine.stats.cpu_seconds for engine in self._engines]

    @property
    @guarded
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples taken so far, in the form of `Engine.samples`."""
        n = self.stats.samples  # after a failure, some parts may have more
        out = {name: array[:n] for name, array in self._engines[0].samples.items()}
        if any(len(words) for words in self._words):
            all_words = np.zeros((len(out["time"]), sum(map(len, self._words))), np.int64)
            for engine, words in zip(self._engines, self._words, strict=True):
                if len(words):
                    all_words[:, words] = engine.samples["words"][:n]
            out["words"] = all_words
        return out

    @property
    @guarded
    def histogram(self) -> NDArray[np.int64]:
        """Histograms of the queues, shape (n_links, 2, n_bins), as for `Engine.histogram`."""
        return self._engines[0].histogram

    @property
    @guarded
    def flow_results(self) -> NDArray[np.void]:
        """Results of the flows, shape (n_flows,), dtype FLOW_RESULT."""
        each = np.array([engine.flow_results for engine in self._engines])
        flows = np.arange(each.shape[1])
        out: NDArray[np.void] = each[self._partition.senders, flows]
        for name in ("received", "marked"):
            out[name] = each[name][self._partition.receivers, flows]
        out["acks_lost"] = each["acks_lost"].sum(axis=0)
        return out

    @property
    @guarded
    def link_results(self) -> NDArray[np.void]:
        """Totals of the links, shape (n_links,), dtype LINK_RESULT."""
        each = np.array([engine.link_results for engine in self._engines])
        out: NDArray[np.void] = each[self._partition.links, np.arange(each.shape[1])]
        return out

    @property
    @guarded
    def trace(self) -> NDArray[np.void]:
        """The first events of the whole network, as for `Engine.trace`."""
        traces = [engine.trace for engine in self._engines]
        room = len(self._engines[0]._trace)
        if not room:
            return traces[0]
        entries = np.concatenate([engine.wire_entries for engine in self._engines])
        return np.concatenate(traces)[_order(traces, entries)][:room]

    @guarded
    def save(self) -> dict[str, NDArray[Any]]:
        """Return the state with which engines of the same parts continue identically: name -> array."""
        out: dict[str, NDArray[Any]] = {}
        for part, engine in enumerate(self._engines):
            out |= {f"{name}_{part}" if name in _PER_PART else name: array for name, array in engine.save().items()}
        return out

    @guarded
    def load(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a saved state, like `Engine.load`.

        Parameters
        ----------
        saved : mapping
            Result of `save`.
        """
        for part, engine in enumerate(self._engines):
            engine.load({**saved, **{name: saved[f"{name}_{part}"] for name in _PER_PART if f"{name}_{part}" in saved}})
        self.now = self._engines[0].now

    @guarded
    def add(self, transfers: NDArray[np.void], more: bool) -> None:
        """Add the next transfers, like `Engine.add`.

        Parameters
        ----------
        transfers : NDArray[void], shape (n,)
            Dtype TRANSFER.
        more : bool
            Whether further transfers will be added later.
        """
        for engine in self._engines:
            engine.add(transfers, more)

    @property
    @guarded
    def alive(self) -> NDArray[np.void]:
        """Results so far of the transfers under way, as for `Engine.alive`."""
        rows = np.concatenate([engine.alive for engine in self._engines])
        return rows[np.argsort(rows["number"])]

    @guarded
    def take_finished(self) -> NDArray[np.void]:
        """Return the results of the finished transfers that were not taken yet, like `Engine.take_finished`."""
        rows = np.concatenate([engine.take_finished() for engine in self._engines])
        return rows[np.lexsort((rows["number"], rows["end"]))]

    @guarded
    def verify(self) -> None:
        """Check every invariant of all engines, like `Engine.verify`."""
        for engine in self._engines:
            engine.verify()


def _order(traces: Sequence[NDArray[np.void]], entries: NDArray[np.void]) -> NDArray[np.intp]:
    """Return the order that merges the concatenated traces of all parts (S-10, S-126).

    Parameters
    ----------
    traces : sequence of ndarray
        Dtype EVENT, by part.
    entries : ndarray
        `Engine.wire_entries` of all parts.
    """
    rows = np.concatenate(traces)
    lengths = [len(trace) for trace in traces]
    keys = [rows[name] for name in ("entity", "kind", "time")]
    order = np.lexsort([_places(rows, np.repeat(np.arange(len(traces)), lengths), entries), *keys])
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows))
    of_event = rows["kind"] < lib.ECC_EVENT_DROP  # drops and marks follow their event
    rank[~of_event] = 0
    ends = np.cumsum(lengths)
    return np.argsort(
        np.concatenate([np.maximum.accumulate(ranks) for ranks in np.split(rank, ends[:-1])]), kind="stable"
    )


def _places(rows: NDArray[np.void], parts: NDArray[np.intp], entries: NDArray[np.void]) -> NDArray[np.intp]:
    """Return the places of the packets of HOPs among all that were put on the wire of their link; 0 for other rows.

    The k-th HOP of a link at some instant in some part is that of the k-th packet with this arrival and part.
    """
    places = np.zeros(len(rows), np.intp)
    hops = np.flatnonzero(rows["kind"] == lib.ECC_EVENT_HOP)
    of_hops = [parts[hops], rows["entity"][hops], rows["time"][hops]]
    of_entries = [entries[name] for name in ("part", "link", "time")]
    joined = [
        np.concatenate(pair)
        for pair in zip([_repetitions(of_entries), *of_entries], [_repetitions(of_hops), *of_hops], strict=True)
    ]
    is_hop = np.arange(len(entries) + len(hops)) >= len(entries)
    order = np.lexsort([is_hop, *joined])  # the HOP of each packet follows its entry
    at = np.flatnonzero(is_hop[order])
    places[hops[order[at] - len(entries)]] = order[at - 1]
    return places


def _repetitions(keys: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    """Return for each row how many earlier rows have the same keys."""
    order = np.lexsort(keys)
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    positions = np.arange(len(order))
    repetitions = np.empty(len(order), np.intp)
    repetitions[order] = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
    return repetitions
