"""Conversion of the results of a packet run to a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc import __version__
from ecc._support.display import others_text
from ecc._support.on_demand import ArraysOnDemand
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.records import state_units
from ecc.native import Engine, Team, bin_edges, sampled_queues
from ecc.packet.recorded_fields import Series, recorded
from ecc.packet.setup import Setup
from ecc.packet.transfer_rows import flow_rows
from ecc.packet.transfers import Transfers
from ecc.queues import Policer
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario, notes_at_end, notes_on_parameters, notes_on_queues, notes_on_unfinished

if TYPE_CHECKING:
    from ecc.packet.twin import PythonEngine

__all__ = ["series_of", "trajectory_of"]

_BY_CLASS = {"class_queue": "queues", "class_drops": "queue_dropped", "class_marks": "queue_marked"}


def trajectory_of(
    scenario: Scenario,
    setup: Setup,
    engine: Engine | Team | PythonEngine,
    transfers: Transfers,
    recording: Sequence[Series],
    *,
    period: float,
    stopped: str,
    has_histogram: bool,
    threads: int = 1,
) -> Trajectory:
    """Return the trajectory of a packet run so far.

    Parameters
    ----------
    scenario : Scenario
    setup : Setup
    engine : Engine, Team or PythonEngine
    transfers : Transfers
    recording : sequence of Series
        Series recorded in addition to the standard ones.
    period : float, s
        Period of the samples, for example 0.1.
    stopped : str
        Reason for which the run does not continue.
    has_histogram : bool
        Whether queue lengths have been counted.
    threads : int, optional
        Maximum number of threads that was requested.
    """
    seen, stats, results = engine.samples, engine.stats, engine.flow_results
    series = series_of(setup, seen, recording, period)
    time = series.makers.pop("time")()
    now, notes_of_threads, columns = stats.now, _notes_on_threads(engine, threads), transfers.columns_of()
    transfer_rows: list[NDArray[np.void]] = []
    if scenario.workload is not None:
        transfer_rows = [transfers.rows, *([] if transfers.has_file else [engine.alive])]
    table: list[NDArray[np.void]] = []  # made when it is first used

    def rows() -> NDArray[np.void]:
        if not table:
            all_rows = np.concatenate([flow_rows(setup.flows[: setup.n_flows], results), *transfer_rows])
            table.append(all_rows[np.argsort(all_rows["number"])] if transfer_rows else all_rows)
        return table[0]

    def flows() -> ArraysOnDemand:
        makers: dict[str, Any] = {"transfer": lambda: rows()["number"].copy()} | columns(rows()).makers
        if isinstance(scenario.protocol, ProtocolAssignment):
            makers["protocol"] = lambda: _protocols(setup, rows())
        return ArraysOnDemand(makers)

    def attributes() -> dict[str, Any]:
        return {
            "engine": "packet",
            "protocol": str(scenario.deployment),
            "scenario": scenario.to_toml(),
            "seed": scenario.seed,
            "version": __version__,
        }

    def notes() -> Iterator[str]:
        yield from notes_of_threads
        if transfer_rows or not results["sent"].all():  # otherwise no flow is silent, and the rows are not needed
            yield from _notes_on_silence(setup, rows(), now)
        yield from _notes_of_plan(scenario, setup)
        if transfer_rows or (setup.flows["size"] >= 0).any():
            has_started = (rows()["size"] >= 0) & (rows()["start"] < 1e12 * now)
            yield from notes_on_unfinished(has_started, rows()["flow"]["completed"] == 1)
        yield from notes_at_end(scenario, time, series["rate"])

    return Trajectory.build(
        time,
        series,
        flows,
        {
            "stopped": stopped,
            "now": stats.now,
            "events": stats.events,
            "data_packets": stats.data_packets,
            "transfers": stats.transfers,
            "cpu_seconds": stats.cpu_seconds,
            "peak_bytes": stats.peak_bytes,
            "digest": stats.digest,
            "warmup_end": setup.warmup_end,
        },
        attributes,
        classes=_classes(setup) if "queues" in seen else None,
        units=state_units([item.name for item in recording], scenario.deployment.protocols),
        histogram=(bin_edges(), engine.histogram * [[[1e-12], [1.0]]]) if has_histogram else None,
        trace=trace if len(trace := engine.trace) else None,
        notes=notes,
    )


def series_of(
    setup: Setup, samples: Mapping[str, NDArray[Any]], recording: Sequence[Series], period: float
) -> ArraysOnDemand:
    """Return the series of a run by name, and "time", the ends of samples.

    Parameters
    ----------
    setup : Setup
    samples : mapping
        Samples of the engine by name.
    recording : sequence of Series
        Series recorded in addition to the standard ones.
    period : float, s
        Period of the samples, for example 0.1.
    """
    n = len(samples["time"])
    per_second = 8.0 / (samples["time"][0] if n else 1.0)

    def seen(name: str) -> NDArray[Any]:
        if name not in setup.counted:
            return samples[name]
        counts = samples[name].copy()
        counts[:1] -= setup.counted[name]
        return counts

    makers: dict[str, Callable[[], NDArray[Any]]] = {
        "time": lambda: period * np.arange(1, n + 1),
        "rate": lambda: seen("sent") * per_second,
        "goodput": lambda: seen("received") * per_second,
        "bottleneck": lambda: seen("bottleneck"),
        "rtt": lambda: _measured(seen("rtt")),
        "rtt_max": lambda: _measured(seen("rtt_peak")),
        "queue": lambda: seen("queue"),
        "queue_max": lambda: seen("queue_peak"),
        "queue_mean": lambda: seen("queue_mean"),
        "arrival": lambda: seen("arrived") * per_second,
        "drops": lambda: seen("dropped"),
        "dropped_bytes": lambda: seen("dropped_bytes"),
        "marks": lambda: seen("marked"),
    }
    makers |= {name: partial(seen, sampled) for name, sampled in _BY_CLASS.items() if sampled in samples}
    if "paused" in samples:
        makers |= {"paused": lambda: _paused(setup, samples), "pauses": lambda: _by_priority(setup, samples["pauses"])}
    if recording:
        words = samples.get("words", np.zeros((n, 0), np.int64))
        makers |= {name: partial(lambda values: values, values) for name, values in recorded(recording, words).items()}
    return ArraysOnDemand(makers)


def _measured(rtt: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return round-trip times with NaN instead of 0 before the first measurement."""
    return np.where(rtt > 0.0, rtt, np.nan)


def _classes(setup: Setup) -> NDArray[np.int64]:
    """Return the link of each sampled queue, and its number at this link."""
    counts = sampled_queues(setup.links[: setup.n_links]).tolist()
    return np.array([(link, index) for link, n in enumerate(counts) for index in range(n)], dtype=np.int64).T


def _paused(setup: Setup, samples: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the share of time for which links were paused, by link and priority."""
    period = 1e12 * (samples["time"][0] if len(samples["time"]) else 1.0)
    return _by_priority(setup, samples["paused"]) / period


def _by_priority(setup: Setup, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return samples of links that can be paused by link and priority."""
    n_priorities = -1 if len(values) else 1 + int(setup.flows["priority"].max(initial=0))
    return values.reshape(len(values), setup.n_links, n_priorities)


def _notes_on_threads(engine: Engine | Team | PythonEngine, threads: int) -> tuple[str, ...]:
    """Return a note if the run used fewer threads than requested."""
    used = engine.n_parts if isinstance(engine, Team) else 1
    return (f"threads: {used} of {threads}, because more would be slower",) if used < threads else ()


def _notes_of_plan(scenario: Scenario, setup: Setup) -> tuple[str, ...]:
    """Return the notes that are the same for all runs of a plan."""
    shared: dict[str, Any] = {} if setup.compiled is None else setup.compiled
    if "notes" not in shared:
        shared["notes"] = (
            *notes_on_parameters(scenario),
            *_notes_on_headers(scenario),
            *_notes_on_policers(scenario),
            *notes_on_queues(scenario),
        )
    notes: tuple[str, ...] = shared["notes"]
    return notes


def _notes_on_headers(scenario: Scenario) -> Iterator[str]:
    """Yield a note for each protocol with routers if none of the links of its flows has one."""
    for protocol, flows in scenario.deployment.without_routers(scenario.network).items():
        more = f" and {others_text(len(flows) - 1)}" if flows[1:] else ""
        name = type(protocol).__name__
        yield (
            f"no router writes into the headers of flow {flows[0]}{more}: no link on these routes runs {name}; "
            f"{{'links': [{name}(), ...]}} adds such routers"
        )


def _notes_on_silence(setup: Setup, rows: NDArray[np.void], now: float) -> tuple[str, ...]:
    """Return a note if flows have not sent a byte since they started."""
    results = rows["flow"]
    silent = rows[(results["sent"] == 0) & (results["finish"] < 0) & (rows["start"] < 1e12 * now) & (rows["size"] != 0)]
    if not len(silent):
        return ()
    row, window = silent[0], float(silent["flow"]["window"][0])
    number = int(row["number"])
    size = int(setup.flows["packet_size"][number if number < setup.n_flows else setup.n_flows + row["template_index"]])
    n_more = len(silent) - 1
    more = f"; nor {'has' if n_more == 1 else 'have'} {others_text(n_more)}" if n_more else ""
    reason = f"its window of {window:g} bytes has no room for a packet of {size} bytes (env.window is in bytes)"
    return (f"flow {number} has not sent a byte: {reason if window > 0.0 else 'it has no rate and no window'}{more}",)


def _notes_on_policers(scenario: Scenario) -> tuple[str, ...]:
    """Return a note for each link with a policer that has a burst smaller than a packet of some flow."""
    notes = []
    for link, routers in enumerate(scenario.deployment.links):
        for router in routers:
            if not isinstance(router, Policer):
                continue
            sizes = [int(np.min(flow.packet_size)) for flow in scenario.network.flows]
            crossing = [any(link in route for route in flow.routes) for flow in scenario.network.flows]
            flows = [k for k, size in enumerate(sizes) if crossing[k] and size > router.burst]
            if flows:
                more = f" and {others_text(len(flows) - 1)}" if flows[1:] else ""
                notes.append(
                    f"the Policer of link {link} never has the tokens for a packet of flow {flows[0]}{more}: burst "
                    f"must be >= a packet ({sizes[flows[0]]} bytes), got {router.burst} bytes"
                )
    return tuple(notes)


def _protocols(setup: Setup, rows: NDArray[np.void]) -> NDArray[np.object_]:
    """Return the name of the protocol of each transfer."""
    names = np.empty(len(setup.flows), dtype=object)
    for part in setup.parts:
        names[part.flows] = type(part.protocol).__name__
    number = rows["number"]
    chosen: NDArray[np.object_] = names[
        np.where(number < setup.n_flows, number, setup.n_flows + rows["template_index"])
    ]
    return chosen
