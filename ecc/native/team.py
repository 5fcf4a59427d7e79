"""Parts of one network, each an engine, advanced in threads: with the interface of `Engine`, and its results."""

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
    "events", "data_packets", "in_flight", "bytes", "peak_bytes", "cpu_seconds", "transfers", "alive", "waiting",
    "finished",
)  # fmt: skip
_OWN = ("state", "trace", "cpu_seconds", "words")
"""What `Engine.save` returns that is not the same for all engines of a team."""
_STOPS = {
    lib.ECC_STOP_UNTIL: "until", lib.ECC_STOP_MAX_EVENTS: "max_events", lib.ECC_STOP_IDLE: "idle",
    lib.ECC_STOP_TRANSFERS: "transfers",
}  # fmt: skip


class Team:
    """One run of the packet engine in several threads; what it computes is what one engine would, bit for bit.

    Between calls all engines are at the same time, in the state that one engine would have at its end.

    Parameters
    ----------
    engines : sequence of Engine
        Of the parts 0, 1, ... of one network, which share samples and histogram (`beside`).
    partition : Partition
        That of any of them.
    words : sequence of ndarray
        For each engine, which of the words of all that are `recorded` it has.
    records : sequence of (ndarray, ndarray, ndarray)
        Records, others that an engine works on instead, and which of these it has: they are brought into line at the
        beginning and the end of a call. Threads that write to one cache line would wait for each other.

    Raises
    ------
    NativeError
        They are not the engines of all parts of one network.
    """

    def __init__(
        self, engines: Sequence[Engine], partition: Partition, words: Sequence[NDArray[np.int64]] = (),
        records: Sequence[tuple[NDArray[np.void], NDArray[np.void], NDArray[np.int64]]] = (),
    ) -> None:  # fmt: skip
        self._guard = Guard()
        self._engines, self._partition, self._words, self._records = list(engines), partition, words, records
        self._reason = "not yet"
        self._when_full: Callable[[], None] | None = None
        team = ffi.new("ecc_team_t **")
        code = lib.ecc_team_new([one._engine for one in engines], len(engines), team)
        if code != 0:
            raise NativeError(ffi.string(lib.ecc_engine_error_text(code)).decode(), code)
        self._team = ffi.gc(team[0], lib.ecc_team_free)
        self.now = 0.0

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and at a time, as `Engine.advance` does.

        Parameters
        ----------
        until : float, s
        max_events : int or None
            The run ends at a time when at least so many have happened.

        Raises
        ------
        NativeError
            The first failure of a hook or the memory. Parts that did not fail may be ahead of it, by less than the
            delays to them.
        """
        end, most = int(picoseconds(until)), -1 if max_events is None else max_events
        for theirs, own, which in self._records:
            own[which] = theirs[which]
        while (codes := self._run(end, most))[0] == lib.ECC_STOP_NOT_YET and self._when_full is not None:
            self._when_full()
        for theirs, own, which in self._records:
            theirs[which] = own[which]
        self.now = min(engine.stats.now for engine in self._engines)
        if lib.ECC_STOP_ERROR in codes:
            self._reason = "error"
            raise self._first_failure()
        self._reason = _STOPS[codes[0]]
        return self._reason

    def stop(self) -> None:
        """Let a call of `advance` in another thread end soon, as `Engine.stop` does."""
        lib.ecc_team_stop(self._team)

    def pause_for(self, most: int, when_full: Callable[[], None]) -> None:
        """Call a function whenever a part has run as many events as it may, and at least once in so many.

        Parameters
        ----------
        most : int, > 0
        when_full : callable
            It must not look at the team: parts may be at different times then.
        """
        self._when_full = when_full
        lib.ecc_team_set_most(self._team, most)

    def _run(self, end: int, most: int) -> list[int]:
        """Call `ecc_team_advance` of all parts, each in its thread."""
        codes = [lib.ECC_STOP_ERROR] * len(self._engines)
        all_started, abandoned = threading.Event(), False

        def run(part: int) -> None:
            all_started.wait()
            if not abandoned:
                began = time.thread_time()
                codes[part] = lib.ecc_team_advance(self._team, part, end, most)
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
        """How many there are."""
        return len(self._engines)

    @property
    @guarded
    def cpu_seconds_of_parts(self) -> list[float]:
        """What each part has spent in its engine and hooks, and waiting for the others without sleep [s]."""
        return [engine.stats.cpu_seconds for engine in self._engines]

    @property
    @guarded
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples taken so far, as `Engine.samples`."""
        n = self.stats.samples  # after a failure, parts may have come further
        out = {name: array[:n] for name, array in self._engines[0].samples.items()}
        if any(len(words) for words in self._words):
            found = np.zeros((len(out["time"]), sum(map(len, self._words))), np.int64)
            for engine, words in zip(self._engines, self._words, strict=True):
                if len(words):
                    found[:, words] = engine.samples["words"][:n]
            out["words"] = found
        return out

    @property
    @guarded
    def histogram(self) -> NDArray[np.int64]:
        """Shape (n_links, 2, n_bins), as `Engine.histogram`."""
        return self._engines[0].histogram

    @property
    @guarded
    def flow_results(self) -> NDArray[np.void]:
        """Shape (n_flows,), dtype FLOW_RESULT."""
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
        """Shape (n_links,), dtype LINK_RESULT."""
        each = np.array([engine.link_results for engine in self._engines])
        out: NDArray[np.void] = each[self._partition.links, np.arange(each.shape[1])]
        return out

    @property
    @guarded
    def trace(self) -> NDArray[np.void]:
        """The first events of the whole network, as `Engine.trace`."""
        traces = [engine.trace for engine in self._engines]
        room = len(self._engines[0]._trace)
        return np.concatenate(traces)[_order(traces)][:room] if room else traces[0]

    @guarded
    def save(self) -> dict[str, NDArray[Any]]:
        """Return all that the engines of the same parts need to continue as these would: name -> array."""
        out: dict[str, NDArray[Any]] = {}
        for part, engine in enumerate(self._engines):
            out |= {f"{name}_{part}" if name in _OWN else name: array for name, array in engine.save().items()}
        return out

    @guarded
    def load(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `save` returned, as `Engine.load`.

        Parameters
        ----------
        saved : mapping
        """
        for part, engine in enumerate(self._engines):
            engine.load({**saved, **{name: saved[f"{name}_{part}"] for name in _OWN if f"{name}_{part}" in saved}})
        self.now = self._engines[0].now

    @guarded
    def add(self, transfers: NDArray[np.void], more: bool) -> None:
        """Add the next transfers, as `Engine.add`.

        Parameters
        ----------
        transfers : NDArray[void], shape (n,)
        more : bool
        """
        for engine in self._engines:
            engine.add(transfers, more)

    @property
    @guarded
    def alive(self) -> NDArray[np.void]:
        """The results so far of the transfers that are alive, as `Engine.alive`."""
        rows = np.concatenate([engine.alive for engine in self._engines])
        return rows[np.argsort(rows["number"])]

    @guarded
    def take_finished(self) -> NDArray[np.void]:
        """Return the results of the finished transfers that were not taken yet, as `Engine.take_finished`."""
        rows = np.concatenate([engine.take_finished() for engine in self._engines])
        return rows[np.lexsort((rows["number"], rows["end"]))]

    @guarded
    def verify(self) -> None:
        """Check every invariant of all engines, as `Engine.verify`."""
        for engine in self._engines:
            engine.verify()


def _order(traces: Sequence[NDArray[np.void]]) -> NDArray[np.intp]:
    """The order of events of all parts, whose traces follow one another: of the next of each, the first (S-10)."""
    rows = np.concatenate(traces)
    keys = [rows[name] for name in ("entity", "kind", "time")]
    order = np.lexsort(keys)
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows))
    of_event = rows["kind"] < lib.ECC_EVENT_DROP  # what is discarded or marked follows its event
    rank[~of_event] = 0
    ends = np.cumsum([len(trace) for trace in traces])
    return np.argsort(np.concatenate([np.maximum.accumulate(one) for one in np.split(rank, ends[:-1])]), kind="stable")
