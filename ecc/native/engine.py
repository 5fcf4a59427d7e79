"""The packet engine for Python: arrays in, arrays out, seconds and addresses; it knows no protocol.

A run is described by two structured arrays, `new_links(n)` and `new_flows(n)`, whose fields are those of `ecc_link_t`
and `ecc_flow_t` in core/engine.h (times in integer picoseconds), and by the routes of all flows in one array. Hooks are
addresses of C functions, records and parameters addresses of memory: see `addresses`. What the engine does, exactly, is
written in docs/engine_specification.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Count, check_arguments, shown
from ecc._support.memory import reserved_bytes
from ecc.errors import NativeError
from ecc.native.guard import Guard, advancing, guarded

try:
    from ecc.native._engine import ffi, lib
except ModuleNotFoundError as error:
    if error.name != "ecc.native._engine":
        raise
    raise ImportError(
        "this is the source tree of ecc, whose C engine is built by `pip install .`: to use what is installed, start "
        "Python from another folder, or as `python -P`"
    ) from None

__all__ = [
    "BEGUN", "CHANGE", "COUNTERS", "EVENT", "FLOW", "FLOW_ENV", "FLOW_HOOKS", "FLOW_RESULT", "IMPAIRMENT", "LINK",
    "LINK_ENV", "LINK_HOOKS", "LINK_RESULT", "RECORDED", "SERVER", "TRANSFER", "TRANSFER_RESULT", "UNDER_WAY", "Engine",
    "Partition", "Stats", "addresses", "bin_edges", "new_flows", "new_links", "new_transfers", "picoseconds", "inside",
    "sample_columns", "sampled_queues",
]  # fmt: skip

COUNTERS = (
    "sent", "received", "arrived", "dropped", "dropped_bytes", "marked", "queue_dropped", "queue_marked", "paused",
    "pauses",
)  # fmt: skip
"""Samples that count from the start of a run."""
_REALS = ("queue_mean", "rtt", "rtt_peak")
"""Samples that are float64; all others are int64."""

_NUMPY = {"double": "f8", "int32_t": "i4", "int64_t": "i8", "uint64_t": "u8"}
_STOPS = {
    lib.ECC_STOP_NOT_YET: "not yet",
    lib.ECC_STOP_UNTIL: "until",
    lib.ECC_STOP_MAX_EVENTS: "max_events",
    lib.ECC_STOP_IDLE: "idle",
    lib.ECC_STOP_TRANSFERS: "transfers",
    lib.ECC_STOP_ERROR: "error",
}


def _dtype(struct: str) -> np.dtype[np.void]:
    """Return the dtype of a struct of engine.h: float64, int64, uint64 for addresses, and structs of these."""
    kind = ffi.typeof(struct)
    fields = [
        (name, _dtype(field.type.cname) if field.type.kind == "struct" else _NUMPY.get(field.type.cname, "u8"),
         field.offset)
        for name, field in kind.fields
    ]  # fmt: skip
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(kind)})


def _hooks(struct: str) -> tuple[str, ...]:
    """Return the names of the hooks in a struct, in the order in which the engine numbers them."""
    return tuple(name for name, _ in ffi.typeof(struct).fields if name.startswith("on_"))


LINK_ENV = _dtype("ecc_link_env_t")
FLOW_ENV = _dtype("ecc_flow_env_t")
LINK = _dtype("ecc_link_t")
FLOW = _dtype("ecc_flow_t")
EVENT = _dtype("ecc_event_t")
LINK_RESULT = _dtype("ecc_link_result_t")
FLOW_RESULT = _dtype("ecc_flow_result_t")
CHANGE = _dtype("ecc_change_t")
IMPAIRMENT = _dtype("ecc_impairment_t")
SERVER = _dtype("ecc_server_t")
RECORDED = _dtype("ecc_recorded_t")
TRANSFER = _dtype("ecc_transfer_t")
BEGUN = _dtype("ecc_begun_t")
UNDER_WAY = _dtype("ecc_under_way_t")
TRANSFER_RESULT = _dtype("ecc_transfer_result_t")
LINK_HOOKS = _hooks("ecc_link_t")
FLOW_HOOKS = _hooks("ecc_flow_t")


@check_arguments
def picoseconds(seconds: ArrayLike) -> Any:
    """Return times on the engine's clock, int64 picoseconds, to the nearest; ECC_NEVER where that is too far.

    Parameters
    ----------
    seconds : array_like
        Array of any shape, float, s, >= 0.

    Returns
    -------
    object
        Array of the same shape, int64, ps.
    """
    ps = np.floor(np.asarray(seconds, dtype=np.float64) * 1e12 + 0.5)
    return np.minimum(ps, float(lib.ECC_NEVER)).astype(np.int64)


@check_arguments
def addresses(records: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the address of each element of a one-dimensional, contiguous array, for `state` and `params`.

    Parameters
    ----------
    records : ndarray, shape (n,)
        Any dtype. The engine reads and writes it in place; keep it alive (`Engine(keep=...)`).

    Returns
    -------
    NDArray[uint64], shape (n,)
        uint64.

    Raises
    ------
    ValueError
        The array is not one-dimensional and contiguous.
    """
    if records.ndim != 1 or not records.flags.c_contiguous:
        raise ValueError(f"records must be one-dimensional and contiguous, got shape {records.shape}")
    return np.uint64(records.ctypes.data) + np.arange(len(records), dtype=np.uint64) * np.uint64(records.itemsize)


@check_arguments
def new_links(n: Count) -> NDArray[np.void]:
    """Return n links to fill in: no hooks, no delay, unlimited buffer, a clock that starts as on_start sets it.

    Parameters
    ----------
    n : int, >= 0
        Number of links.

    Returns
    -------
    NDArray[void], shape (n,)
        Dtype LINK; `capacity` [bit/s] must still be set.
    """
    links = np.zeros(n, LINK)
    links["buffer"] = -1
    links["first_interval"] = -1
    return links


@check_arguments
def new_flows(n: Count) -> NDArray[np.void]:
    """Return n flows to fill in: no hooks, silent, unlimited, 1000-byte packets, 40-byte ACKs, from time 0 on,
    no transport (its timeouts would be at least 1 s).

    Parameters
    ----------
    n : int, >= 0
        Number of flows.

    Returns
    -------
    NDArray[void], shape (n,)
        Dtype FLOW; `n_forward` must still be set, and a rate or window here or in on_start.
    """
    flows = np.zeros(n, FLOW)
    for name in ("stop", "size", "bottleneck"):
        flows[name] = -1
    flows["packet_size"] = 1000
    flows["ack_size"] = 40
    flows["min_rto"] = flows["initial_rto"] = 10**12  # RFC 6298
    return flows


@check_arguments
def bin_edges() -> NDArray[np.int64]:
    """Return where the bins of a histogram begin, and the last one ends.

    Returns
    -------
    ndarray of int, shape (n_bins + 1,)
        int64: each number up to 256, then 128 bins for each power of two; bytes of queues, ns of lateness.
    """
    k = np.arange(lib.ECC_N_BINS + 1)
    shift = np.maximum(k // 128 - 1, 0)
    edges: NDArray[np.int64] = (k - 128 * shift) << shift
    return edges


@check_arguments
def new_transfers(n: Count) -> NDArray[np.void]:
    """Return n transfers to fill in: of the first template, unlimited, without delays, at time 0.

    Parameters
    ----------
    n : int, >= 0
        Number of transfers.

    Returns
    -------
    NDArray[void], shape (n,)
        Dtype TRANSFER; `start` [ps] must grow.
    """
    transfers = np.zeros(n, TRANSFER)
    for name in ("stop", "size"):
        transfers[name] = -1
    return transfers


@check_arguments
def sampled_queues(links: NDArray[np.void]) -> NDArray[np.int64]:
    """Return how many queues of each link samples show: those of links that have 2 to 64.

    Parameters
    ----------
    links : NDArray[void], shape (n_links,)
        Dtype LINK.
    """
    n = links["n_queues"]
    return np.where((n > 1) & (n <= lib.ECC_MAX_SAMPLED_QUEUES), n, 0)


def sample_columns(
    links: NDArray[np.void], flows: NDArray[np.void], templates: NDArray[np.void], n_sampled: int, n_recorded: int
) -> dict[str, int]:
    """Return the numbers of columns of the samples of a run, by name; each entry takes eight bytes.

    Parameters
    ----------
    links : NDArray[void], shape (n_links,)
        Dtype LINK, without additional routers.
    flows, templates : NDArray[void]
        Dtype FLOW.
    n_sampled : int
        Number of flows in samples.
    n_recorded : int
        Number of recorded words.
    """
    columns = dict.fromkeys(("sent", "received", "bottleneck", "rtt", "rtt_peak"), n_sampled)
    of_links = ("queue", "queue_peak", "arrived", "dropped", "dropped_bytes", "marked", "queue_mean")
    columns |= dict.fromkeys(of_links, len(links))
    if n_queues := int(sampled_queues(links).sum()):
        columns |= dict.fromkeys(("queues", "queue_dropped", "queue_marked"), n_queues)
    if (links["xoff"] > 0).any():
        classes = 1 + max(int(table["priority"].max(initial=0)) for table in (flows, templates))
        columns |= dict.fromkeys(("paused", "pauses"), len(links) * classes)
    return columns | ({"words": n_recorded} if n_recorded else {})


@dataclass(frozen=True)
class Stats:
    """Counts and costs of a run so far."""

    now: float  # s
    events: int
    data_packets: int  # that reached their receivers
    in_flight: int  # packets and ACKs in the network
    samples: int  # rows filled
    trace: int  # events the trace saw, kept or not
    transfers: int  # that have started
    alive: int  # transfers that have started and not finished
    waiting: int  # transfers that have not started
    finished: int  # transfers whose results were not taken yet
    bytes: int  # of memory held by the engine
    peak_bytes: int
    digest: int  # 64-bit hash of all events
    stop: str  # why it stopped: "not yet", "until", "max_events", "idle", "transfers" or "error"
    cpu_seconds: float  # spent in the engine and the hooks


@dataclass(frozen=True)
class Partition:
    """Which part of a network an engine runs: its number, and the part of each link, sender, receiver and template."""

    part: int
    links: NDArray[np.int64]
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    templates: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def n_parts(self) -> int:
        """How many there are."""
        return int(max(of.max(initial=0) for of in (self.links, self.senders, self.receivers, self.templates))) + 1


@check_arguments
class Engine:
    """One run of the packet engine. One thread at a time is let in: see `ecc.native.guard`.

    `now` is the time up to which it was last advanced [s], for any thread.

    Parameters
    ----------
    links : NDArray[void], shape (n_links + n_additional,)
        Dtype LINK, from `new_links`.
    flows : NDArray[void], shape (n_flows,)
        Dtype FLOW, from `new_flows`.
    routes : array_like, shape (sum of n_forward and n_reverse,), int
        Links of the routes, flow by flow: forward, then reverse; those of the templates last.
    n_additional : int, >= 0, optional
        How many of `links`, the last, are additional routers, each at the link of its `at`.
    header_size : int, bytes, optional
        A multiple of 8. What travels with each packet.
    seed : int, optional
        From 0 to 2^64 - 1.
    sample : float, s, >= 0, optional
        Period of the samples; 0: none.
    n_samples : int, >= 0, optional
        Number of samples.
    n_sampled : int or None
        The first n_sampled flows appear in samples; None: all.
    recorded : NDArray[void], shape (n_recorded,), optional
        Dtype RECORDED, or None. Eight bytes each that samples show too, as int64: of records, or of what hooks of a
        flow see.
    trace : int, >= 0, optional
        Events to keep in the trace.
    histogram : bool, optional
        Whether to count the time that queues were in each bin, and what arrivals found there.
    templates : NDArray[void], shape (n_templates,), optional
        Dtype FLOW, or None. What transfers (`add`) have in common.
    record_size : int, bytes, optional
        A multiple of 8. Of the record at `state` of every template.
    changes : NDArray[void], optional
        Dtype CHANGE, or None. Capacities of links from a time [ps] on, link by link (`n_changes` of each).
    impairments : NDArray[void], optional
        Dtype IMPAIRMENT, or None. What `impairment` of links and flows counts from 1.
    servers : NDArray[void], optional
        Dtype SERVER, or None. What `server` of links counts from 1.
    opportunities : ndarray of int, optional
        Times of opportunities [ps], server by server (`n_opportunities` of each), or None.
    begun : NDArray[void], shape (n_flows,), optional
        Dtype BEGUN, or None. What flows have at time 0 if all of them have begun before.
    under_way : NDArray[void], optional
        Dtype UNDER_WAY, or None. Packets in the network at time 0, of flows that have begun before.
    quanta : ndarray of int, optional
        Bytes that each queue may send in a turn, link by link (`n_queues` of each), or None.
    memory_limit : int, bytes, >= 0, optional
        Maximum memory of the engine with its samples, histogram and trace, and of the result that is made from these;
        0: no limit.
    keep : sequence of object, optional
        Objects to keep alive as long as the engine: records, parameters, compiled hooks.
    reasons : mapping, optional
        Code that a hook may return -> what went wrong, for the message.
    partition : Partition, optional
        Which part of the network this engine runs, or None: the whole. See `Team`.
    beside : Engine, optional
        That of another part, whose samples (but what is `recorded`) and histogram this one shares, or None.

    Raises
    ------
    NativeError
        A value out of range (which link or flow, and what is allowed), or no memory.
    ValueError
        Samples, histogram and trace alone exceed memory_limit.
    TypeError
        An array of another dtype.
    """

    @check_arguments
    def __init__(
        self,
        links: NDArray[np.void],
        flows: NDArray[np.void],
        routes: ArrayLike,
        *,
        n_additional: Count = 0,
        header_size: int = 0,
        seed: Annotated[int, 0, 64] = 0,
        sample: float = 0.0,
        n_samples: Count = 0,
        n_sampled: Count | None = None,
        recorded: NDArray[np.void] | None = None,
        trace: Count = 0,
        histogram: bool = False,
        templates: NDArray[np.void] | None = None,
        record_size: int = 0,
        changes: NDArray[np.void] | None = None,
        impairments: NDArray[np.void] | None = None,
        servers: NDArray[np.void] | None = None,
        opportunities: NDArray[np.int64] | None = None,
        quanta: NDArray[np.int64] | None = None,
        begun: NDArray[np.void] | None = None,
        under_way: NDArray[np.void] | None = None,
        memory_limit: int = 0,
        keep: Sequence[object] = (),
        reasons: Mapping[int, str] | None = None,
        partition: Partition | None = None,
        beside: Engine | None = None,
    ) -> None:
        templates = new_flows(0) if templates is None else templates
        _check("links", links, LINK)
        _check("flows", flows, FLOW)
        _check("templates", templates, FLOW)
        if n_additional > len(links):
            raise ValueError(f"n_additional must be at most the number of links, {len(links)}, got {n_additional}")
        changes = np.zeros(0, CHANGE) if changes is None else np.array(changes, CHANGE)
        impairments = np.zeros(0, IMPAIRMENT) if impairments is None else np.array(impairments, IMPAIRMENT)
        servers = np.zeros(0, SERVER) if servers is None else np.array(servers, SERVER)
        opportunities = np.array([] if opportunities is None else opportunities, np.int64)
        quanta = np.array([] if quanta is None else quanta, np.int64)
        begun = np.zeros(0, BEGUN) if begun is None else np.array(begun, BEGUN)
        under_way = np.zeros(0, UNDER_WAY) if under_way is None else np.array(under_way, UNDER_WAY)
        self._guard = Guard()
        self.now = 0.0
        self._engine: Any = None
        self._memory_limit = memory_limit
        self._keep = tuple(keep)
        self._reasons = reasons or {}
        self._at = links["at"].tolist()
        self._cpu_seconds = 0.0
        self._links = len(links) - n_additional
        self._flows = len(flows)
        self._period = sample
        n_sampled = len(flows) if n_sampled is None else n_sampled
        self._recorded = np.zeros(0, RECORDED) if recorded is None else np.array(recorded, RECORDED)  # read in samples
        columns = sample_columns(links[: self._links], flows, templates, n_sampled, len(self._recorded))
        shared = {} if beside is None else {name: one for name, one in beside._samples.items() if name != "words"}
        own = sum(n for name, n in columns.items() if name not in shared)
        bins = 2 * lib.ECC_N_BINS * self._links if histogram and beside is None else 0
        self._reserved = reserved_bytes(
            memory_limit, series=n_samples * own, histograms=bins, trace=EVENT.itemsize // 8 * trace
        )
        self._samples: dict[str, NDArray[Any]] = {
            name: shared[name] if name in shared else
            np.zeros((n_samples, n), np.float64 if name in _REALS else np.int64)
            for name, n in columns.items()
        }  # fmt: skip
        self._histogram = np.zeros((self._links, 2, lib.ECC_N_BINS), np.int64) if histogram and beside is None else None
        if beside is not None:
            self._histogram = beside._histogram
        self._trace = np.zeros(trace, EVENT)

        hops = np.asarray(routes)
        if hops.size and hops.dtype.kind not in "iu":
            raise TypeError(f"routes must be whole numbers, got {shown(routes)}")
        link_table, flow_table, template_table = links.copy(), flows.copy(), templates.copy()  # contiguous
        table = np.array(hops, np.int64)
        config = ffi.new("ecc_config_t *")
        config.seed = seed
        config.n_links, config.n_additional = self._links, n_additional
        config.n_flows, config.n_routes = len(flows), table.size
        limit = memory_limit - self._reserved if memory_limit else 0
        config.n_templates, config.record_size, config.max_bytes = len(templates), record_size, limit
        config.header_size = header_size
        config.links = _pointer("const ecc_link_t *", link_table)
        config.flows = _pointer("const ecc_flow_t *", flow_table)
        config.templates = _pointer("const ecc_flow_t *", template_table)
        config.routes = _pointer("const int64_t *", table)
        config.n_changes, config.changes = len(changes), _pointer("const ecc_change_t *", changes)
        config.n_quanta, config.quanta = len(quanta), _pointer("const int64_t *", quanta)
        config.n_impairments = len(impairments)
        config.impairments = _pointer("const ecc_impairment_t *", impairments)
        config.n_servers, config.servers = len(servers), _pointer("const ecc_server_t *", servers)
        config.n_opportunities = len(opportunities)
        config.opportunities = _pointer("const ecc_ps_t *", opportunities)
        if len(begun):
            config.begun = _pointer("const ecc_begun_t *", begun)
        config.n_under_way = len(under_way)
        config.under_way = _pointer("const ecc_under_way_t *", under_way)
        if trace > 0:
            config.trace, config.n_trace = _pointer("ecc_event_t *", self._trace), trace
        if n_samples > 0:
            config.samples.period = int(picoseconds(sample))
            config.samples.n_samples, config.samples.n_flows = n_samples, n_sampled
            config.samples.n_recorded = len(self._recorded)
            config.samples.recorded = _pointer("const ecc_recorded_t *", self._recorded)
            for name, samples in self._samples.items():
                setattr(
                    config.samples, name, _pointer("int64_t *" if samples.dtype == np.int64 else "double *", samples)
                )
        if self._histogram is not None:
            config.histogram = _pointer("int64_t *", self._histogram)
        if partition is not None:
            names = ("links", "senders", "receivers", "templates")
            of = [np.array(getattr(partition, name), np.int64) for name in names]
            if [len(parts) for parts in of] != [self._links, self._flows, self._flows, len(template_table)]:
                raise ValueError("a partition must have an entry for each link, sender, receiver and template")
            config.partition.n_parts, config.partition.part = partition.n_parts, partition.part
            for name, parts in zip(names, of, strict=True):
                setattr(config.partition, name, _pointer("const int64_t *", parts))
        engine, report = ffi.new("ecc_engine_t **"), ffi.new("ecc_report_t *")
        if lib.ecc_engine_new(config, engine, report) != 0:
            raise self._error(report)
        self._engine = ffi.gc(engine[0], lib.ecc_engine_free)

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and at a time, and return why the run stopped; slices never change the result.

        Parameters
        ----------
        until : float, s
            From 0 to below 4e6. Time to advance to.
        max_events : int or None, >= 0
            Events to run at most, each packet that a window lets go within an event counted as one too, so that the
            call ends soon; None: no limit.

        Returns
        -------
        str
            "until", "max_events", "idle" (the time was reached and nothing is left to happen), or "transfers" (`add`
            must add the next transfers first, or report that there are no more).

        Raises
        ------
        NativeError
            A hook failed or left a bad value, or no memory; the message has which, where and when.

        Notes
        -----
        Other Python threads run meanwhile.
        """
        began, thread = time.thread_time(), threading.get_ident()
        _inside[thread] = self, time.monotonic()
        code = lib.ecc_engine_advance(self._engine, int(picoseconds(until)), -1 if max_events is None else max_events)
        del _inside[thread]
        self._cpu_seconds += time.thread_time() - began
        stats = self.stats
        self.now = stats.now
        if code != 0:
            raise self._reported()
        return stats.stop

    def stop(self) -> None:
        """Let a call of `advance` in another thread end after the event that it is at, as if it had reached max_events.

        Notes
        -----
        A call may be missed, and can be repeated.
        """
        lib.ecc_engine_stop(self._engine)

    @guarded
    def add(self, transfers: NDArray[np.void], more: bool) -> None:
        """Add the next transfers; in how many calls never changes the result.

        Parameters
        ----------
        transfers : NDArray[void], shape (n,)
            Dtype TRANSFER, from `new_transfers`, in the order of their starts.
        more : bool
            Whether others will come.

        Raises
        ------
        NativeError
            One starts before the one before it or before now, or has a value out of range; none was added.
        """
        _check("transfers", transfers, TRANSFER)
        table = transfers.copy()
        if lib.ecc_engine_add(self._engine, _pointer("const ecc_transfer_t *", table), len(table), more) != 0:
            raise self._reported()

    @guarded
    def take_finished(self) -> NDArray[np.void]:
        """Return the results of the finished transfers that were not taken yet, by `end`, dtype TRANSFER_RESULT.

        `number` counts the flows and then the transfers, in the order of their starts.
        """
        results = np.zeros(self.stats.finished, TRANSFER_RESULT)
        lib.ecc_engine_take_finished(self._engine, _pointer("ecc_transfer_result_t *", results), len(results))
        return results[np.lexsort((results["number"], results["end"]))]

    @property
    @guarded
    def alive(self) -> NDArray[np.void]:
        """The results so far of the transfers that are alive, by number, dtype TRANSFER_RESULT."""
        results = np.zeros(self.stats.alive, TRANSFER_RESULT)
        lib.ecc_engine_alive(self._engine, _pointer("ecc_transfer_result_t *", results))
        return results[np.argsort(results["number"])]

    @guarded
    def save(self) -> dict[str, NDArray[Any]]:
        """Return all that an engine of the same configuration needs to continue as this one would: name -> array.

        Records, which belong to the caller, are not in it.
        """
        size = lib.ecc_engine_save(self._engine, ffi.NULL)
        if size < 0:
            raise self._reported()
        state = np.zeros(size, np.uint8)
        lib.ecc_engine_save(self._engine, _pointer("unsigned char *", state))
        stats = self.stats
        out = {name: array[: stats.samples] for name, array in self._samples.items()}
        out |= {"state": state, "trace": self.trace, "cpu_seconds": np.array(self._cpu_seconds)}
        return out if self._histogram is None else out | {"histogram": self.histogram}

    @guarded
    def load(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `save` returned; the caller's records must be as they were.

        Parameters
        ----------
        saved : mapping
            Of an engine of the same configuration. This one must be new.

        Raises
        ------
        NativeError
            It is not, or the bytes are not whole.
        ValueError
            An array is missing, or another one.
        """
        state = _saved(saved, "state", np.dtype(np.uint8), (-1,))
        if lib.ecc_engine_load(self._engine, _pointer("const unsigned char *", state), len(state)) != 0:
            raise self._reported()
        stats = self.stats
        self.now = stats.now
        for name, array in self._samples.items():
            array[: stats.samples] = _saved(saved, name, array.dtype, (stats.samples, *array.shape[1:]))
        n_traced = min(stats.trace, len(self._trace))
        self._trace[:n_traced] = _saved(saved, "trace", EVENT, (n_traced,))
        self._cpu_seconds = float(_saved(saved, "cpu_seconds", np.dtype(float), ()))
        if self._histogram is not None:
            self._histogram[:] = _saved(saved, "histogram", self._histogram.dtype, self._histogram.shape)

    @guarded
    def take_leaving(self, part: Count) -> bytes:
        """Return the packets that have left for another part since the last call, as `enter` of its engine takes them.

        Parameters
        ----------
        part : int, >= 0
            Number of the part.
        """
        crossings = np.zeros(lib.ecc_engine_take_leaving(self._engine, part, ffi.NULL), np.uint8)
        lib.ecc_engine_take_leaving(self._engine, part, _pointer("unsigned char *", crossings))
        return crossings.tobytes()

    @guarded
    def enter(self, crossings: bytes) -> None:
        """Let packets in that left another part; they may come from anywhere, and are checked.

        Parameters
        ----------
        crossings : bytes
            What `take_leaving` returned. None may be due at or before now.

        Raises
        ------
        NativeError
            One that this part does not await, with its number; those before it are in.
        """
        if lib.ecc_engine_enter(self._engine, ffi.from_buffer(crossings), len(crossings)) != 0:
            raise self._reported()

    @property
    @guarded
    def lookahead(self) -> float:
        """The least time from an event in this part to what it causes in another [s]; inf: none."""
        lookahead = lib.ecc_engine_lookahead(self._engine)
        return float("inf") if lookahead >= lib.ECC_NEVER else lookahead * 1e-12

    def _reported(self) -> NativeError:
        report = ffi.new("ecc_report_t *")
        lib.ecc_engine_report(self._engine, report)
        return self._error(report)

    @property
    @guarded
    def stats(self) -> Stats:
        """Counts and costs of the run so far."""
        raw = ffi.new("ecc_stats_t *")
        lib.ecc_engine_stats(self._engine, raw)
        counts = {name: getattr(raw, name) for name, _ in ffi.typeof("ecc_stats_t").fields}
        counts |= {"now": raw.now * 1e-12, "stop": _STOPS[raw.stop], "cpu_seconds": self._cpu_seconds}
        return Stats(**counts)

    @property
    @guarded
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples taken so far, time first.

        `time` [s] ends each sample. By flow: `sent` and `received` [bytes in the sample], `bottleneck` [index, -1
        none], `rtt` and `rtt_peak` [s, mean and largest of the RTTs measured in the sample, 0 without any]. By link:
        `queue` [bytes, at the instant], `queue_peak` [bytes, highest in the sample], `arrived` [bytes in the sample,
        dropped ones included], `dropped` and `marked` [packets in the sample], `dropped_bytes` [bytes in the sample,
        those removed by trimming included], `queue_mean` [bytes, exact average over the sample]. By queue of the links
        with 2 to 64, link by link: `queues` [bytes, at the instant], `queue_dropped` and `queue_marked` [packets in the
        sample]. By link and priority, if links can be paused: `paused` [ps in the sample], `pauses` [frames in the
        sample]. `words` are the eight bytes of each entry of `recorded`.
        """
        n = self.stats.samples
        out: dict[str, NDArray[Any]] = {"time": self._period * np.arange(1, n + 1)}
        for name, array in self._samples.items():
            out[name] = np.diff(array[:n], axis=0, prepend=0) if name in COUNTERS else array[:n].copy()
        return out

    @property
    @guarded
    def histogram(self) -> NDArray[np.int64]:
        """Shape (n_links, 2, n_bins): time [ps] that the queue was in each bin, and arrivals that found it there.

        Raises
        ------
        ValueError
            The engine was made without one.
        """
        if self._histogram is None:
            raise ValueError("histogram needs Engine(histogram=True)")
        return self._histogram

    @property
    @guarded
    def trace(self) -> NDArray[np.void]:
        """The first events, dtype EVENT: time [ps], kind, entity, value, kind as in `enum ecc_event_kind`."""
        return self._trace[: self.stats.trace]

    @property
    @guarded
    def flow_results(self) -> NDArray[np.void]:
        """Shape (n_flows,), dtype FLOW_RESULT: finish [ps, -1 not yet], bytes, rate, window, RTTs [s; idle_rtt: ps]."""
        results = np.zeros(self._flows, FLOW_RESULT)
        lib.ecc_engine_flow_results(self._engine, _pointer("ecc_flow_result_t *", results))
        return results

    @property
    @guarded
    def link_results(self) -> NDArray[np.void]:
        """Shape (n_links,), dtype LINK_RESULT: bytes arrived, departed, dropped and queued; packets dropped."""
        results = np.zeros(self._links, LINK_RESULT)
        lib.ecc_engine_link_results(self._engine, _pointer("ecc_link_result_t *", results))
        return results

    def _error(self, report: Any) -> NativeError:
        """The error of a report: what, the value, where and when, in one line."""
        text = ffi.string(lib.ecc_engine_error_text(report.code)).decode()
        reason = self._reasons.get(int(report.value)) if report.failed else None
        where = []
        if report.entity:
            entity, hooks = (("link", LINK_HOOKS), ("flow", FLOW_HOOKS), ("transfer", FLOW_HOOKS))[report.entity - 1]
            additional = entity == "link" and report.index >= self._links
            where.append(
                f"router {report.index} at link {self._at[report.index]}" if additional else f"{entity} {report.index}"
            )
            if report.hook >= 0:
                where += [hooks[report.hook], f"t = {report.time * 1e-12:.12g} s"]
        place = f" ({', '.join(where)})" if where else ""
        if report.code == _NO_MEMORY:
            what = self._memory_text()
        else:
            what = f": {reason}" if reason else f", got {report.value:.12g}"
        return NativeError(f"{text}{what}{place}", report.code)

    def _memory_text(self) -> str:
        """What the engine holds, and what it may."""
        parts = []
        if self._engine is not None:
            raw = ffi.new("ecc_stats_t *")
            lib.ecc_engine_stats(self._engine, raw)
            parts.append(f"{(raw.bytes + self._reserved) / 1e6:.6g} MB are held")
        if self._memory_limit:
            parts.append(f"memory_limit is {self._memory_limit / 1e6:.6g} MB")
        return f": {' and '.join(parts)}" if parts else ""

    @guarded
    def verify(self) -> None:
        """Check every invariant of the engine.

        Raises
        ------
        NativeError
            One does not hold, which is a bug of the engine.
        """
        code = lib.ecc_engine_verify(self._engine)
        if code != 0:
            raise NativeError(ffi.string(lib.ecc_engine_error_text(code)).decode(), code)


_NO_MEMORY = -1
"""Of `enum ecc_error`, the first one."""
_inside: dict[int, tuple[Engine, float]] = {}
"""Threads that are in a call of `advance` -> whose, and when it began, `time.monotonic()`."""


@check_arguments
def inside(thread: int) -> tuple[Engine | None, float]:
    """Return the engine in whose `advance` a thread is, or None, and for how long this call has taken [s].

    Parameters
    ----------
    thread : int
        Its `threading.get_ident()`.
    """
    engine, began = _inside.get(thread, (None, 0.0))
    return engine, 0.0 if engine is None else time.monotonic() - began


def _check(name: str, array: NDArray[Any], dtype: np.dtype[np.void]) -> None:
    if array.dtype != dtype or array.ndim != 1:
        maker = "flows" if name == "templates" else name
        raise TypeError(f"{name} must come from new_{maker}(n), got dtype {array.dtype}, shape {array.shape}")


def _saved(saved: Mapping[str, NDArray[Any]], name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of a saved engine; -1 in a shape: any length."""
    array = saved.get(name)
    if array is None or array.dtype != dtype or array.ndim != len(shape):
        raise ValueError(f"{name} of a saved engine must be there, as save returned it")
    if any(wanted not in (-1, length) for wanted, length in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name} of a saved engine must be of shape {shape}, got {array.shape}")
    return array.copy()  # contiguous


def _pointer(kind: str, array: NDArray[Any]) -> Any:
    return ffi.cast(kind, array.ctypes.data)
