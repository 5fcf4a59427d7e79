"""Python interface of the packet engine: arrays in, arrays out. The engine is independent of any protocol.

A run is described by two structured arrays, `new_links(n)` and `new_flows(n)`, with the fields of `ecc_link_t` and
`ecc_flow_t` in core/inputs.h (times in integer picoseconds), and by one array with the routes of all flows. Hooks are
addresses of C functions; records and parameters are addresses of memory, see `addresses`. docs/engine_specification.md
specifies the exact behavior of the engine.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Count, check_arguments, shown
from ecc._support.memory import reserved_bytes
from ecc._support.on_demand import ArraysOnDemand
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
    "ACTION", "ACTIONS", "BEGUN", "CHANGE", "COUNTERS", "DELAY_CHANGE", "EVENT", "FLOW", "FLOW_ENV", "FLOW_HOOKS",
    "FLOW_RESULT", "IMPAIRMENT", "LINK", "LINK_ENV", "LINK_HOOKS", "LINK_RESULT", "OBSERVATION", "RECORDED", "SERVER",
    "TRANSFER", "TRANSFER_RESULT", "UNDER_WAY", "WRITE", "Actions", "Engine", "Partition", "Stats", "addresses",
    "bin_edges", "copied", "new_flows", "new_links", "new_transfers", "picoseconds", "inside", "sample_columns",
    "sampled_queues", "STEP", "ffi", "lib",
]  # fmt: skip

COUNTERS = (
    "sent",
    "received",
    "arrived",
    "dropped",
    "dropped_bytes",
    "marked",
    "queue_dropped",
    "queue_marked",
    "paused",
    "pauses",
)
"""Samples that count from the start of a run."""
_REALS = ("queue_mean", "rtt", "rtt_peak")
"""Samples that are float64; all others are int64."""

_NUMPY = {"double": "f8", "int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8", "uint64_t": "u8"}
_STOPS = {
    lib.ECC_STOP_NOT_YET: "not yet",
    lib.ECC_STOP_UNTIL: "until",
    lib.ECC_STOP_MAX_EVENTS: "max_events",
    lib.ECC_STOP_IDLE: "idle",
    lib.ECC_STOP_TRANSFERS: "transfers",
    lib.ECC_STOP_ERROR: "error",
}


_COUNTS = tuple(name for name, _ in ffi.typeof("ecc_stats_t").fields)


def _dtype(struct: str) -> np.dtype[np.void]:
    """Return the dtype of a struct of the headers: float64, int64, uint64 for addresses, and structs of these."""
    kind = ffi.typeof(struct)
    fields = [
        (
            name,
            _dtype(field.type.cname) if field.type.kind == "struct" else _NUMPY.get(field.type.cname, "u8"),
            field.offset,
        )
        for name, field in kind.fields
    ]
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
DELAY_CHANGE = _dtype("ecc_delay_change_t")
WRITE = _dtype("ecc_write_t")
SERVER = _dtype("ecc_server_t")
RECORDED = _dtype("ecc_recorded_t")
TRANSFER = _dtype("ecc_transfer_t")
BEGUN = _dtype("ecc_begun_t")
UNDER_WAY = _dtype("ecc_under_way_t")
TRANSFER_RESULT = _dtype("ecc_transfer_result_t")
_WIRE_ENTRY = _dtype("ecc_wire_entry_t")
ACTION = _dtype("ecc_action_t")
OBSERVATION = _dtype("ecc_observation_t")
STEP = _dtype("ecc_step_t")
ACTIONS = {"rate": lib.ECC_ACTION_RATE, "window": lib.ECC_ACTION_WINDOW, "word": lib.ECC_ACTION_WORD}
"""Quantities that an action can set -> `kind` in ACTION."""
_NO_TRANSFERS = np.zeros(0, TRANSFER_RESULT)
LINK_HOOKS = _hooks("ecc_link_t")
FLOW_HOOKS = _hooks("ecc_flow_t")


@check_arguments
def picoseconds(seconds: ArrayLike) -> Any:
    """Return times in integer picoseconds, rounded to the nearest; ECC_NEVER if a time is too large.

    Parameters
    ----------
    seconds : array_like
        Array of any shape, float, s, >= 0. For example 0.05.

    Returns
    -------
    object
        Array of the same shape, int64, ps.
    """
    if type(seconds) is float and 0.0 <= seconds < _SOON:
        return np.int64(_rounded(seconds))
    ps = np.floor(np.asarray(seconds, dtype=np.float64) * 1e12 + 0.5)
    return np.minimum(ps, float(lib.ECC_NEVER)).astype(np.int64)


_SOON = lib.ECC_NEVER * 1e-13  # s


def _rounded(seconds: float) -> int:
    """Return a time < _SOON in integer picoseconds."""
    return math.floor(seconds * 1e12 + 0.5)


def copied(records: NDArray[np.void]) -> NDArray[np.void]:
    """Return a contiguous copy of records; much faster than their method `copy`, which copies field by field.

    Parameters
    ----------
    records : NDArray[void]
    """
    return np.ndarray(records.shape, records.dtype, bytearray(records.tobytes()))


@check_arguments
def addresses(records: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the address of each element of a one-dimensional, contiguous array, for `state` and `params`.

    Parameters
    ----------
    records : ndarray, shape (n,)
        Array of any dtype. The engine reads and writes it in place; keep it alive (`Engine(keep=...)`).

    Returns
    -------
    NDArray[uint64], shape (n,)
        uint64.

    Raises
    ------
    ValueError
        If the array is not one-dimensional and contiguous.
    """
    if records.ndim != 1 or not records.flags.c_contiguous:
        raise ValueError(f"records must be one-dimensional and contiguous, got shape {records.shape}")
    return np.uint64(records.ctypes.data) + np.arange(len(records), dtype=np.uint64) * np.uint64(records.itemsize)


@check_arguments
def new_links(n: Count) -> NDArray[np.void]:
    """Return n links to fill in: without hooks and delay, with an unlimited buffer; on_start sets the first tick.

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
    """Return n flows to fill in: without hooks and transport, with 1000-byte packets and 40-byte ACKs.

    They start at time 0, have no end, and do not send before they have a rate or window. A transport would have a
    minimum timeout of 1 s.

    Parameters
    ----------
    n : int, >= 0
        Number of flows.

    Returns
    -------
    NDArray[void], shape (n,)
        Dtype FLOW; `n_forward` must still be set, and a rate or window, here or by on_start.
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
    """Return the edges of the bins of histograms.

    Returns
    -------
    ndarray of int, shape (n_bins + 1,)
        int64: every integer up to 256, then 128 bins per power of two; in bytes for queues, in ns for lateness.
    """
    k = np.arange(lib.ECC_N_BINS + 1)
    shift = np.maximum(k // 128 - 1, 0)
    edges: NDArray[np.int64] = (k - 128 * shift) << shift
    return edges


@check_arguments
def new_transfers(n: Count) -> NDArray[np.void]:
    """Return n transfers to fill in: with the first template, without end and delays, at time 0.

    Parameters
    ----------
    n : int, >= 0
        Number of transfers.

    Returns
    -------
    NDArray[void], shape (n,)
        Dtype TRANSFER; `start` [ps] must be increasing.
    """
    transfers = np.zeros(n, TRANSFER)
    for name in ("stop", "size"):
        transfers[name] = -1
    return transfers


@check_arguments
def sampled_queues(links: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the number of sampled queues of each link: all queues of links that have 2 to 64, otherwise 0.

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
    """Return the numbers of columns of a run's samples, by name; each value takes eight bytes.

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
    data_packets: int  # data packets that reached their receivers
    in_flight: int  # packets and ACKs in the network
    samples: int  # rows filled
    trace: int  # events traced, including those that were not kept
    transfers: int  # transfers that have started
    alive: int  # transfers that have started and not finished
    waiting: int  # transfers that have not started
    finished: int  # finished transfers with results not taken yet
    bytes: int  # memory held by the engine
    peak_bytes: int  # maximum of `bytes` so far
    digest: int  # 64-bit hash of all events
    stop: str  # reason of the last stop: "not yet", "until", "max_events", "idle", "transfers" or "error"
    cpu_seconds: float  # CPU time of the engine and the hooks


@dataclass(frozen=True)
class Partition:
    """Division of a network into parts: the part of this engine, and that of each link, sender, receiver, template."""

    part: int
    links: NDArray[np.int64]
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    templates: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return (
            int(max(parts.max(initial=0) for parts in (self.links, self.senders, self.receivers, self.templates))) + 1
        )


def check_observations(observations: NDArray[np.void], n: int) -> None:
    """Refuse an array that cannot hold the observations of flows.

    Parameters
    ----------
    observations : NDArray[void]
    n : int
        Number of the flows.

    Raises
    ------
    ValueError, TypeError
        If the array is of another dtype or length, or not an array.
    """
    if not isinstance(observations, np.ndarray):
        raise TypeError(f"observations must be an array of dtype OBSERVATION, got {shown(observations)}")
    if observations.dtype != OBSERVATION or observations.shape != (n,) or not observations.flags.carray:
        raise ValueError(
            f"observations must be a contiguous array of dtype OBSERVATION and length {n}, got "
            f"{'another dtype' if observations.dtype != OBSERVATION else f'shape {observations.shape}'}"
        )


class Actions:
    """Actions on flows, with their values.

    Parameters
    ----------
    rows : sequence of (int, int, int)
        Index of a flow, kind from ACTIONS, and address of the word that is set (0 for rate and window).

    Attributes
    ----------
    table, values : object
        Arrays in C. The values are set by the caller: `values[k] = 1e6`; nan: no action.
    """

    @check_arguments
    def __init__(self, rows: Sequence[tuple[int, int, int]]) -> None:
        self.table = ffi.new(
            "ecc_action_t[]", [(flow, kind, ffi.cast("double *", address)) for flow, kind, address in rows]
        )
        self.values = ffi.new("double[]", len(rows))


@check_arguments
class Engine:
    """One run of the packet engine, used by one thread at a time: see `ecc.native.guard`.

    `now` is the time up to which the run was last advanced [s]; any thread may read it.

    Parameters
    ----------
    links : NDArray[void], shape (n_links + n_additional,)
        Dtype LINK, from `new_links`.
    flows : NDArray[void], shape (n_flows,)
        Dtype FLOW, from `new_flows`.
    routes : array_like, shape (sum of n_forward and n_reverse,), int
        Links of the routes, flow by flow: forward, then reverse. Routes of templates follow those of flows.
    n_additional : int, >= 0, optional
        Number of additional routers at the end of `links`, each at the link given by `at`.
    header_size : int, bytes, optional
        A multiple of 8. Size of the header of each packet.
    seed : int, optional
        From 0 to 2^64 - 1.
    sample : float, s, >= 0, optional
        Period of the samples, for example 0.1; 0: no samples.
    n_samples : int, >= 0, optional
        Number of samples.
    n_sampled : int or None
        Number of flows in samples, starting with the first; None: all.
    recorded : NDArray[void], shape (n_recorded,), optional
        Dtype RECORDED, or None. Words of eight bytes to add to each sample, as int64: from records, or from the `env`
        of a flow.
    trace : int, >= 0, optional
        Number of events to keep in the trace.
    histogram : bool, optional
        Whether to count the time of the queues in each bin, and the arrivals at queues in each bin.
    templates : NDArray[void], shape (n_templates,), optional
        Dtype FLOW, or None. Shared properties of transfers (`add`).
    record_size : int, bytes, optional
        A multiple of 8. Size of the record at `state` of every template.
    changes : NDArray[void], optional
        Dtype CHANGE, or None. Capacities of links from a time [ps] on, link by link (`n_changes` of each).
    impairments : NDArray[void], optional
        Dtype IMPAIRMENT, or None. Impairments to which `impairment` of links and flows refers, counted from 1.
    delay_changes : NDArray[void], optional
        Dtype DELAY_CHANGE, or None. Additional delays [ps] of channels from a time [ps] on, to which `first_delay` and
        `n_delays` of impairments refer.
    writes : NDArray[void], optional
        Dtype WRITE, or None. Writes of applications, to which `first_write` and `n_writes` of flows refer.
    servers : NDArray[void], optional
        Dtype SERVER, or None. Servers to which `server` of links refers, counted from 1.
    opportunities : ndarray of int, optional
        Times of opportunities [ps], server by server (`n_opportunities` of each), or None.
    begun : NDArray[void], shape (n_flows,), optional
        Dtype BEGUN, or None. State of the flows at time 0 if all of them have begun before.
    under_way : NDArray[void], optional
        Dtype UNDER_WAY, or None. Packets in the network at time 0, of flows that have begun before.
    quanta : ndarray of int, optional
        Bytes that each queue may send in a turn, link by link (`n_queues` of each), or None.
    monitors : sequence of int, optional
        Indices of the flows whose monitor intervals `observe` returns, in increasing order; none for a part of a
        network.
    memory_limit : int, bytes, >= 0, optional
        Maximum memory of the engine with its samples, histogram and trace, and of the result made from these; 0: no
        limit.
    keep : sequence of object, optional
        Objects to keep alive as long as the engine: records, parameters, compiled hooks.
    reasons : mapping, optional
        Code that a hook may return -> description of the failure, for the message.
    partition : Partition, optional
        Part of the network that this engine runs; None: the whole network. See `Team`.
    shares_with : Engine, optional
        Engine of another part, with which this one shares samples (except recorded words) and histogram, or None.

    Raises
    ------
    NativeError
        If a value is out of range (the message has the link or flow, and the range), or memory is missing.
    ValueError
        If samples, histogram and trace alone exceed memory_limit.
    TypeError
        If an array has a different dtype.
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
        delay_changes: NDArray[np.void] | None = None,
        writes: NDArray[np.void] | None = None,
        servers: NDArray[np.void] | None = None,
        opportunities: NDArray[np.int64] | None = None,
        quanta: NDArray[np.int64] | None = None,
        begun: NDArray[np.void] | None = None,
        under_way: NDArray[np.void] | None = None,
        monitors: Sequence[int] = (),
        memory_limit: int = 0,
        keep: Sequence[object] = (),
        reasons: Mapping[int, str] | None = None,
        partition: Partition | None = None,
        shares_with: Engine | None = None,
    ) -> None:
        templates = new_flows(0) if templates is None else templates
        _check("links", links, LINK)
        _check("flows", flows, FLOW)
        _check("templates", templates, FLOW)
        if n_additional > len(links):
            raise ValueError(f"n_additional must be at most the number of links, {len(links)}, got {n_additional}")
        changes = np.zeros(0, CHANGE) if changes is None else np.array(changes, CHANGE)
        impairments = np.zeros(0, IMPAIRMENT) if impairments is None else np.array(impairments, IMPAIRMENT)
        delay_changes = np.zeros(0, DELAY_CHANGE) if delay_changes is None else np.array(delay_changes, DELAY_CHANGE)
        writes = np.zeros(0, WRITE) if writes is None else np.array(writes, WRITE)
        servers = np.zeros(0, SERVER) if servers is None else np.array(servers, SERVER)
        opportunities = np.array([] if opportunities is None else opportunities, np.int64)
        quanta = np.array([] if quanta is None else quanta, np.int64)
        begun = np.zeros(0, BEGUN) if begun is None else np.array(begun, BEGUN)
        under_way = np.zeros(0, UNDER_WAY) if under_way is None else np.array(under_way, UNDER_WAY)
        self._guard = Guard()
        self.now = 0.0
        self._engine: Any = None
        self._stats = ffi.new("ecc_stats_t *")
        self._memory_limit = memory_limit
        self._keep = tuple(keep)
        self._reasons = reasons or {}
        self._at = links["at"].tolist()
        self._cpu_seconds = 0.0
        self._step: Any = None
        self._observations: NDArray[np.void] | None = None
        self._links, self._flows = len(links) - n_additional, len(flows)
        self._period = sample
        n_sampled = len(flows) if n_sampled is None else n_sampled
        self._recorded = np.zeros(0, RECORDED) if recorded is None else np.array(recorded, RECORDED)  # read in samples
        columns = sample_columns(links[: self._links], flows, templates, n_sampled, len(self._recorded))
        shared: dict[str, NDArray[Any]] = {}
        if shares_with is not None:
            shared = {name: array for name, array in shares_with._samples.items() if name != "words"}
        n_new = sum(n for name, n in columns.items() if name not in shared)
        counts = histogram and shares_with is None
        bins = 2 * lib.ECC_N_BINS * self._links if counts else 0
        self._reserved = reserved_bytes(
            memory_limit, series=n_samples * n_new, histograms=bins, trace=EVENT.itemsize // 8 * trace
        )
        self._samples: dict[str, NDArray[Any]] = _new_samples(columns, n_samples, shared)
        self._histogram = np.zeros((self._links, 2, lib.ECC_N_BINS), np.int64) if counts else None
        if shares_with is not None:
            self._histogram = shares_with._histogram
        self._trace = np.zeros(trace, EVENT)

        tables = {
            "flows": copied(flows),
            "templates": copied(templates),
            "routes": _whole_numbers(routes),
            "changes": changes,
            "quanta": quanta,
            "impairments": impairments,
            "delay_changes": delay_changes,
            "writes": writes,
            "servers": servers,
            "opportunities": opportunities,
            "under_way": under_way,
            "monitors": np.array(monitors, np.int64),
        }
        pointers: dict[str, NDArray[Any]] = {"links": copied(links), **tables}  # contiguous
        pointers |= {name: array for name, array in (("begun", begun), ("trace", self._trace)) if len(array)}
        if self._histogram is not None:
            pointers["histogram"] = self._histogram
        config = ffi.new("ecc_config_t *")
        config.seed, config.header_size, config.record_size, config.n_trace = seed, header_size, record_size, trace
        config.n_links, config.n_additional = self._links, n_additional
        config.max_bytes = memory_limit - self._reserved if memory_limit else 0
        for name, table in tables.items():
            setattr(config, f"n_{name}", len(table))
        _point(config, pointers)
        if n_samples > 0:
            self._configure_samples(ffi.addressof(config, "samples"), n_samples, n_sampled)
        if partition is not None:
            parts_by_name = _parts_by_name(partition, self._links, self._flows, len(templates))
            config.partition.n_parts, config.partition.part = partition.n_parts, partition.part
            _point(ffi.addressof(config, "partition"), parts_by_name)
        self._config = config
        self._tables: dict[str, NDArray[Any]] = pointers if partition is None else {}
        self._begin()

    def _configure_samples(self, samples: Any, n_samples: int, n_sampled: int) -> None:
        samples.period = int(picoseconds(self._period))
        samples.n_samples, samples.n_flows = n_samples, n_sampled
        samples.n_recorded = len(self._recorded)
        _point(samples, {"recorded": self._recorded, **self._samples})

    def _begin(self) -> None:
        engine, report = ffi.new("ecc_engine_t **"), ffi.new("ecc_report_t *")
        if lib.ecc_engine_new(self._config, engine, report) != 0:
            raise self._error(report)
        self._engine = ffi.gc(engine[0], lib.ecc_engine_free)

    @guarded
    def restart(self, seed: Annotated[int, 0, 64], first_intervals: NDArray[np.int64]) -> None:
        """Begin again at time 0 with another seed; the caller's records must have their initial values.

        Parameters
        ----------
        seed : int
            From 0 to 2^64 - 1.
        first_intervals : ndarray of int, shape (n_links + n_additional,), ps
            First ticks of the routers, `first_interval` of links.

        Raises
        ------
        ValueError
            If this engine runs a part of a network, or `first_intervals` is of another length.
        NativeError
            If memory is missing.
        """
        first = np.asarray(first_intervals)
        if not self._tables or first.shape != self._tables["links"].shape or first.dtype != np.int64:
            raise ValueError(
                "first_intervals must be int64 values, one for each router of a whole network, "
                f"got {first.dtype} of shape {first.shape}"
            )
        self._restart(seed, first)

    def _restart(self, seed: int, first_intervals: NDArray[np.int64] | None, memory_limit: int | None = None) -> None:
        """Begin again like `restart`, without checks; ticks and memory limit do not change if they are None."""
        if memory_limit is not None:
            self._memory_limit = memory_limit
            self._config.max_bytes = memory_limit - self._reserved if memory_limit else 0
        if first_intervals is not None:
            self._tables["links"]["first_interval"] = first_intervals
        for array in self._samples.values():
            array.fill(0)
        if self._histogram is not None:
            self._histogram.fill(0)
        self._config.seed, self._cpu_seconds, self.now = seed, 0.0, 0.0
        self._begin()

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all events up to and including a time, and return the reason of the stop; slices never change the result.

        Parameters
        ----------
        until : float, s
            Time to advance to, >= 0 and < 4e6, for example 2.0.
        max_events : int or None, >= 0
            Maximum number of events to run; each packet that a window releases within an event counts as one too, so
            that the call ends soon. None: no limit.

        Returns
        -------
        str
            "until", "max_events", "idle" (the time was reached and no events remain), or "transfers" (`add` must first
            add the next transfers, or report that there are no more).

        Raises
        ------
        NativeError
            If a hook failed or left a bad value, or memory is missing; the message has hook, place and time.

        Notes
        -----
        Other Python threads can run during the call.
        """
        began, thread = time.thread_time(), threading.get_ident()
        _inside[thread] = self, time.monotonic()
        end = _rounded(until) if 0.0 <= until < _SOON else int(picoseconds(until))
        code = lib.ecc_engine_advance(self._engine, end, -1 if max_events is None else max_events)
        del _inside[thread]
        self._cpu_seconds += time.thread_time() - began
        raw = self._raw_stats()
        self.now = raw.now * 1e-12
        if code != 0:
            raise self._reported()
        return _STOPS[raw.stop]

    @advancing
    def act(self, actions: Actions) -> None:
        """Perform actions on flows now: all of them, or none if one is refused.

        Parameters
        ----------
        actions : Actions
            Actions with their values, which remain.

        Raises
        ------
        NativeError
            If a flow is not active or a value is out of range; or if the run fails as a result, and then `stats.stop`
            is "error".
        """
        if lib.ecc_engine_act(self._engine, actions.table, actions.values, len(actions.values)) != 0:
            raise self._reported()

    @guarded
    def observe(self, observations: NDArray[np.void]) -> None:
        """Write the monitor intervals of `monitors` until now, and begin the next ones.

        Parameters
        ----------
        observations : NDArray[void], shape (n_monitors,)
            Dtype OBSERVATION, contiguous; it is overwritten.
        """
        check_observations(observations, len(self._tables["monitors"]) if self._tables else 0)
        lib.ecc_engine_observe(self._engine, _pointer("ecc_observation_t *", observations))

    @advancing
    def step(self, until: float, actions: Actions | None, observations: NDArray[np.void], max_events: int) -> str:
        """Perform actions, run all events up to and including a time, and observe: `act`, `advance` and `observe`.

        Parameters
        ----------
        until : float, s
            Time to advance to, >= 0 and < 4e6, for example 2.0.
        actions : Actions or None
            Actions, whose values become nan when they have been performed.
        observations : NDArray[void], shape (n_monitors,)
            As for `observe`; unchanged unless the time is reached.
        max_events : int, >= 0
            Maximum number of events to run.

        Returns
        -------
        str
            As for `advance`; the observations are written if it is "until" or "idle".

        Raises
        ------
        NativeError
            As for `act` and `advance`.
        """
        return self._take_step(until, actions, observations, max_events)

    def _take_step(self, until: float, actions: Actions | None, observations: NDArray[np.void], max_events: int) -> str:
        """Take a step like `step`; the caller holds the guard."""
        step, began, thread = self._step, time.thread_time(), threading.get_ident()
        if step is None:
            step = self._step = ffi.new("ecc_step_t *", {"end": lib.ECC_NEVER})
        if observations is not self._observations:
            check_observations(observations, len(self._tables["monitors"]) if self._tables else 0)
            self._observations = observations
            step.observations = _pointer("ecc_observation_t *", observations)
        step.engine = self._engine
        step.until = until
        step.n_actions = 0
        if actions is not None:
            step.actions, step.values, step.n_actions = actions.table, actions.values, len(actions.values)
        _inside[thread] = self, time.monotonic()
        lib.ecc_crew_step(step, max_events)
        del _inside[thread]
        self._cpu_seconds += time.thread_time() - began
        self.now = step.now
        if step.code != 0:
            raise self._reported()
        return _STOPS[step.stop]

    def stop(self) -> None:
        """Make a call of `advance` in another thread return after the current event, as if it had reached max_events.

        Notes
        -----
        A call can have no effect; repeat it if necessary.
        """
        lib.ecc_engine_stop(self._engine)

    @guarded
    def add(self, transfers: NDArray[np.void], more: bool) -> None:
        """Add the next transfers; the number of calls never changes the result.

        Parameters
        ----------
        transfers : NDArray[void], shape (n,)
            Dtype TRANSFER, from `new_transfers`, in the order of their starts.
        more : bool
            Whether further transfers will be added later.

        Raises
        ------
        NativeError
            If a transfer starts before the previous one or before now, or has a value out of range; none is added.
        """
        _check("transfers", transfers, TRANSFER)
        table = transfers.copy()
        if lib.ecc_engine_add(self._engine, _pointer("const ecc_transfer_t *", table), len(table), more) != 0:
            raise self._reported()

    @guarded
    def take_finished(self) -> NDArray[np.void]:
        """Return the results of the finished transfers that were not taken yet, sorted by `end`, dtype TRANSFER_RESULT.

        `number` counts the flows and then the transfers, in the order of their starts.
        """
        n_finished = self._raw_stats().finished
        if not n_finished:
            return _NO_TRANSFERS
        results = np.zeros(n_finished, TRANSFER_RESULT)
        lib.ecc_engine_take_finished(self._engine, _pointer("ecc_transfer_result_t *", results), len(results))
        return results[np.lexsort((results["number"], results["end"]))]

    @property
    @guarded
    def alive(self) -> NDArray[np.void]:
        """Results so far of the transfers under way, sorted by number, dtype TRANSFER_RESULT."""
        results = np.zeros(self._raw_stats().alive, TRANSFER_RESULT)
        if not len(results):
            return results
        lib.ecc_engine_alive(self._engine, _pointer("ecc_transfer_result_t *", results))
        return results[np.argsort(results["number"])]

    @guarded
    def save(self) -> dict[str, NDArray[Any]]:
        """Return the state with which an engine of the same configuration continues identically: name -> array.

        Records belong to the caller and are not included.
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
        """Continue from a saved state; the caller's records must have their values at the time of `save`.

        Parameters
        ----------
        saved : mapping
            Result of `save` of an engine with the same configuration. This engine must be new.

        Raises
        ------
        NativeError
            If this engine is not new or has a different configuration, or if the bytes are incomplete.
        ValueError
            If an array is missing, or has a different dtype or shape.
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
        """Return the packets that have left for another part since the last call, in the format of `enter`.

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
        """Accept packets that have left another part; they are checked, so that any bytes are safe.

        Parameters
        ----------
        crossings : bytes
            Result of `take_leaving`. No packet may be due at or before now.

        Raises
        ------
        NativeError
            If this part does not expect a packet; the message has its number. Earlier packets were accepted.
        """
        if lib.ecc_engine_enter(self._engine, ffi.from_buffer(crossings), len(crossings)) != 0:
            raise self._reported()

    @property
    @guarded
    def wire_entries(self) -> NDArray[np.void]:
        """Packets that a part with a trace has put on wires, in this order: arrival time [ps], link, part of the HOP.

        Recorded until the trace is full. With them, traces of all parts are merged: packets on the wire of a link that
        reach its end at the same instant do so in this order.
        """
        entries = np.zeros(lib.ecc_engine_wire_entries(self._engine, ffi.NULL), _WIRE_ENTRY)
        lib.ecc_engine_wire_entries(self._engine, _pointer("ecc_wire_entry_t *", entries))
        return entries

    @property
    @guarded
    def lookahead(self) -> float:
        """Minimum time from an event in this part to its effect in another part [s]; inf: no effect."""
        lookahead = lib.ecc_engine_lookahead(self._engine)
        return float("inf") if lookahead >= lib.ECC_NEVER else lookahead * 1e-12

    def _reported(self) -> NativeError:
        report = ffi.new("ecc_report_t *")
        lib.ecc_engine_report(self._engine, report)
        return self._error(report)

    @property
    def _has_finished(self) -> bool:
        """True if there are finished transfers that were not taken yet."""
        return self._config.n_templates > 0 and bool(self._raw_stats().finished)

    @property
    @guarded
    def held_bytes(self) -> int:
        """Maximum memory of the run so far, with series, histograms and trace."""
        return int(self._reserved + self._raw_stats().peak_bytes)

    def _raw_stats(self) -> Any:
        lib.ecc_engine_stats(self._engine, self._stats)
        return self._stats

    @property
    @guarded
    def stats(self) -> Stats:
        """Counts and costs of the run so far."""
        raw = self._raw_stats()
        counts = {name: getattr(raw, name) for name in _COUNTS}
        counts |= {"now": raw.now * 1e-12, "stop": _STOPS[raw.stop], "cpu_seconds": self._cpu_seconds}
        return Stats(**counts)

    @property
    @guarded
    def samples(self) -> ArraysOnDemand:
        """The samples taken so far, time first.

        `time` [s] is the end of each sample. By flow: `sent` and `received` [bytes in the sample], `bottleneck` [index,
        -1: none], `rtt` and `rtt_peak` [s, mean and maximum of the RTTs measured in the sample; 0 without any].
        By link: `queue` [bytes, at the end], `queue_peak` [bytes, maximum in the sample], `arrived` [bytes in the
        sample, including dropped ones], `dropped` and `marked` [packets in the sample], `dropped_bytes` [bytes in the
        sample, including those removed by trimming], `queue_mean` [bytes, exact average over the sample]. By queue of
        the links with 2 to 64 queues, link by link: `queues` [bytes, at the end], `queue_dropped` and `queue_marked`
        [packets in the sample]. By link and priority, if links can be paused: `paused` [ps in the sample], `pauses`
        [frames in the sample]. `words` are the eight bytes of each entry of `recorded`.
        """
        n, period = self._raw_stats().samples, self._period
        makers: dict[str, Callable[[], NDArray[Any]]] = {"time": lambda: period * np.arange(1, n + 1)}
        for name, array in self._samples.items():
            makers[name] = partial(_increments if name in COUNTERS else _unchanged, array[:n].copy())
        return ArraysOnDemand(makers)

    @property
    @guarded
    def histogram(self) -> NDArray[np.int64]:
        """Time of each queue in each bin [ps], and arrivals at queues in each bin, shape (n_links, 2, n_bins).

        Raises
        ------
        ValueError
            If the engine was created without a histogram.
        """
        if self._histogram is None:
            raise ValueError("histogram needs Engine(histogram=True)")
        return self._histogram

    @property
    @guarded
    def trace(self) -> NDArray[np.void]:
        """The first events, dtype EVENT: time [ps], kind, entity, value, kind as in `enum ecc_event_kind`."""
        return self._trace[: self._raw_stats().trace]

    @property
    @guarded
    def flow_results(self) -> NDArray[np.void]:
        """Results of flows, dtype FLOW_RESULT: finish [ps; -1: none], bytes, rate, window, RTTs [s], idle_rtt [ps]."""
        results = np.zeros(self._flows, FLOW_RESULT)
        lib.ecc_engine_flow_results(self._engine, _pointer("ecc_flow_result_t *", results))
        return results

    @property
    @guarded
    def link_results(self) -> NDArray[np.void]:
        """Totals of links, dtype LINK_RESULT: bytes arrived, departed, dropped and queued; packets dropped."""
        results = np.zeros(self._links, LINK_RESULT)
        lib.ecc_engine_link_results(self._engine, _pointer("ecc_link_result_t *", results))
        return results

    def _error(self, report: Any) -> NativeError:
        """Return the error of a report, in one line: failure, value, place and time."""
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
            detail = self._memory_text()
        else:
            detail = f": {reason}" if reason else f", got {report.value:.12g}"
        return NativeError(f"{text}{detail}{place}", report.code)

    def _memory_text(self) -> str:
        """Return a text on the memory held by the engine and its limit."""
        parts = []
        if self._engine is not None:
            raw = self._raw_stats()
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
            If an invariant does not hold, which is a bug of the engine.
        """
        code = lib.ecc_engine_verify(self._engine)
        if code != 0:
            raise NativeError(ffi.string(lib.ecc_engine_error_text(code)).decode(), code)


_NO_MEMORY = -1
"""First value of `enum ecc_error`."""
_inside: dict[int, tuple[Engine, float]] = {}
"""Thread in a call of `advance` -> engine, and start of the call, `time.monotonic()`."""


@check_arguments
def inside(thread: int) -> tuple[Engine | None, float]:
    """Return the engine whose `advance` a thread runs, or None, and the duration of this call so far [s].

    Parameters
    ----------
    thread : int
        Identifier of the thread, from `threading.get_ident()`.
    """
    engine, began = _inside.get(thread, (None, 0.0))
    return engine, 0.0 if engine is None else time.monotonic() - began


def _check(name: str, array: NDArray[Any], dtype: np.dtype[np.void]) -> None:
    if array.dtype != dtype or array.ndim != 1:
        maker = "flows" if name == "templates" else name
        raise TypeError(f"{name} must come from new_{maker}(n), got dtype {array.dtype}, shape {array.shape}")


def _whole_numbers(routes: ArrayLike) -> NDArray[np.int64]:
    """Return a copy of the routes, one after another."""
    hops = np.asarray(routes)
    if hops.size and hops.dtype.kind not in "iu":
        raise TypeError(f"routes must be whole numbers, got {shown(routes)}")
    return np.array(hops, np.int64).ravel()


def _unchanged(values: NDArray[Any]) -> NDArray[Any]:
    return values


def _increments(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers in each sample of what is counted from the start of a run."""
    out = counts.copy()
    out[1:] -= counts[:-1]
    return out


def _new_samples(
    columns: Mapping[str, int], n_samples: int, shared: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return arrays of samples by name: those that are shared, and new ones of zeros."""
    kinds = {name: np.float64 if name in _REALS else np.int64 for name in columns}
    return {
        name: shared[name] if name in shared else np.zeros((n_samples, n), kinds[name]) for name, n in columns.items()
    }


def _parts_by_name(partition: Partition, n_links: int, n_flows: int, n_templates: int) -> dict[str, NDArray[np.int64]]:
    """Return the checked arrays of a partition by name."""
    lengths = {"links": n_links, "senders": n_flows, "receivers": n_flows, "templates": n_templates}
    parts_by_name = {name: np.array(getattr(partition, name), np.int64) for name in lengths}
    if any(len(parts) != lengths[name] for name, parts in parts_by_name.items()):
        raise ValueError("a partition must have an entry for each link, sender, receiver and template")
    return parts_by_name


def _saved(saved: Mapping[str, NDArray[Any]], name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a checked array of a saved engine; -1 in a shape: any length."""
    array = saved.get(name)
    if array is None or array.dtype != dtype or array.ndim != len(shape):
        raise ValueError(f"{name} of a saved engine must be present, as save returned it")
    if any(required not in (-1, length) for required, length in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name} of a saved engine must be of shape {shape}, got {array.shape}")
    return array.copy()  # contiguous


@cache
def _pointer_types(struct: Any) -> dict[str, Any]:
    """Return the types of the fields of a pointer to a struct, by name."""
    return {name: field.type for name, field in struct.item.fields}


def _point(struct: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Let the fields of a struct point to the arrays of their names, which must live as long as the struct is used."""
    types = _pointer_types(ffi.typeof(struct))
    for name, array in arrays.items():
        is_plain = array.dtype.names is None
        pointer = ffi.from_buffer(types[name], array) if is_plain else ffi.cast(types[name], array.ctypes.data)
        setattr(struct, name, pointer)


def _pointer(kind: str, array: NDArray[Any]) -> Any:
    return ffi.cast(kind, array.ctypes.data)
