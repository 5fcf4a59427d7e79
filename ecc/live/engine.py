"""The nodes of a live run as one engine, with the interface of `ecc.native.Team`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from socket import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import EccError, NativeError
from ecc.native import Engine, Frames, Partition, Port, Team, bin_edges, picoseconds
from ecc.native._engine import ffi, lib
from ecc.native.guard import Guard, advancing, guarded

__all__ = ["HostEnd", "LiveEngine", "MachineEngine", "Measured", "steal"]

HostEnd = tuple[socket, int, int, bool, int]
Reports = Mapping[int, Mapping[str, NDArray[np.int64]]]

SLICE = 100_000_000
"""ns of real time between two checks of Ctrl-C."""
_SYSTEM_ERRORS = 1000  # code -1000 - n stands for errno n
_PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
_STOPS = {lib.ECC_STOP_UNTIL: "until", lib.ECC_STOP_MAX_EVENTS: "max_events"}


@dataclass(frozen=True)
class Measured:
    """Measurements of a live run in addition to its results."""

    elapsed: float  # s of real time
    frozen: float  # s of these during which the clock was stopped
    longest_stall: float  # s of real time between two checks of the clock, without sleep
    lateness: dict[str, float]  # s of the scenario: "p50", "p99", "p999", "max"
    frames_sent: int
    frames_lost: int  # frames sent and never received
    frames_refused: int  # frames that were foreign, damaged, replayed, or not expected
    frames_reordered: int  # frames received after one that was sent later


class LiveEngine(Team):
    """Engines of the parts of a network, one per node, joined by real links.

    Parameters
    ----------
    engines : sequence of Engine
    partition : Partition
    words : sequence of ndarray
        As for Team.
    frames : sequence of Frames
        Frames of each node.
    ends : sequence of tuple
        For each end of a real link: packet socket, its node, the node at the other end, and port.
    slow : float
        Seconds of real time per second of the scenario, for example 2.0.
    longest_step : float, s
        Maximum advance of the clock between two checks, in real time; 0: the clock never stops.
    hosts : sequence of tuple, optional
        For each end of a link to a host of the kernel: packet socket, its node, the flow, whether the host is the
        receiver, and the number of the flow's packets that the network holds.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        partition: Partition,
        words: Sequence[NDArray[np.int64]],
        frames: Sequence[Frames],
        ends: Sequence[tuple[socket, int, int, Port]],
        slow: float,
        longest_step: float,
        hosts: Sequence[HostEnd] = (),
    ) -> None:
        super().__init__(engines, partition, words)
        self._join(engines, frames, ends, slow, longest_step, hosts)

    def _join(
        self,
        engines: Sequence[Engine],
        frames: Sequence[Frames],
        ends: Sequence[tuple[socket, int, int, Port]],
        slow: float,
        longest_step: float,
        hosts: Sequence[HostEnd] = (),
    ) -> None:
        self._frames, self._ends = frames, ends
        self._ports = ffi.new("ecc_live_port_t[]", len(ends) + len(hosts))
        for port, (end, node, peer, frame_port) in zip(self._ports, ends, strict=False):
            port.socket, port.node, port.peer, port.frames = end.fileno(), node, peer, frame_port._port
        for k, (end, node, flow, is_receiver, room) in enumerate(hosts, len(ends)):
            port = self._ports[k]
            port.socket, port.node, port.peer, port.flow, port.room = end.fileno(), node, node, flow, room
            port.host = lib.ECC_LIVE_RECEIVER if is_receiver else lib.ECC_LIVE_SENDER
        self._reports: Reports = {}
        engine_pointers = ffi.new("ecc_engine_t *[]", [engine._engine for engine in engines])
        frame_pointers = ffi.new("ecc_frames_t *[]", [item._frames for item in frames])
        config = {
            "n_nodes": len(engines),
            "engines": engine_pointers,
            "frames": frame_pointers,
            "n_ports": len(self._ports),
            "ports": self._ports,
            "slow": slow,
            "longest_step": round(longest_step * 1e9),
        }
        live = ffi.new("ecc_live_t **")
        code = lib.ecc_live_new(ffi.new("ecc_live_config_t *", config), live)
        if code <= -_SYSTEM_ERRORS:
            raise EccError(f"live runs need packet sockets with rings: {os.strerror(-_SYSTEM_ERRORS - code)}")
        if code != 0:
            raise NativeError(ffi.string(lib.ecc_engine_error_text(code)).decode(), code)
        self._live = ffi.gc(live[0], lib.ecc_live_free)
        self._lost = 0

    @advancing
    def advance(self, until: float, max_events: int | None = None) -> str:
        """Run all nodes up to a time, or for 0.1 s of real time.

        Parameters
        ----------
        until : float, s
        max_events : int or None
            Not used, because real time ends the call.

        Raises
        ------
        NativeError
            If a hook or the memory of a node failed.
        """
        began = time.thread_time()
        stop = lib.ecc_live_advance(self._live, int(picoseconds(until)), SLICE)
        self._engines[0]._cpu_seconds += time.thread_time() - began
        self.now = self._engines[0].stats.now
        if stop == lib.ECC_STOP_ERROR:
            self._reason = "error"
            raise self._first_failure()
        self._reason = _STOPS[stop]
        return self._reason

    @guarded
    def settle(self) -> None:
        """Count, at the end, the frames that the kernel has lost."""
        self._lost = lib.ecc_live_settle(self._live)

    def report(self, reports: Reports) -> None:
        """Replace the results of flows carried by hosts of the kernel with the reports of these hosts.

        Parameters
        ----------
        reports : mapping
            Flow -> values of TCP_INFO at each sample (`ecc.live.hosts`).
        """
        self._reports = reports

    @property
    def reports(self) -> Reports:
        """Reports of the hosts of the kernel, from `report`."""
        return self._reports

    @property
    def samples(self) -> dict[str, NDArray[Any]]:
        """The samples taken so far, as for `Team`, with the reports of hosts of the kernel."""
        out = super().samples
        for flow, series in self._reports.items():
            for name, source in (("sent", "sent"), ("received", "acked")):
                out[name][: len(series[source]), flow] = np.diff(series[source], prepend=0)[: len(out[name])]
        return out

    @property
    def flow_results(self) -> NDArray[np.void]:
        """Results of the flows, as for `Team`, with the reports of hosts of the kernel."""
        out = super().flow_results
        for flow, series in self._reports.items():
            last = {name: int(values[-1]) for name, values in series.items() if len(values)}
            if last:
                row = out[flow]
                row["sent"], row["received"], row["delivered"] = last["sent"], last["acked"], last["acked"]
                row["retransmitted"], row["window"] = last["retransmitted"], last["window"] * last["packet"]
                row["srtt"], row["min_rtt"] = last["rtt"] * 1e-6, last["min_rtt"] * 1e-6
        return out

    @property
    @guarded
    def measured(self) -> Measured:
        """Measurements so far; lost frames are counted by `settle`."""
        stats = ffi.new("ecc_live_stats_t *")
        lib.ecc_live_stats(self._live, stats)
        late = np.array(list(stats.late), np.int64)
        lateness = {name: _percentile(late, share) * 1e-9 for name, share in _PERCENTILES.items()}
        refused = [n for _, _, _, port in self._ends for verdict, n in port.verdicts.items() if verdict != "taken"]
        return Measured(
            stats.elapsed * 1e-9,
            stats.frozen * 1e-9,
            stats.longest * 1e-9,
            lateness | {"max": stats.latest * 1e-9},
            sum(port.sent for port in self._ports),
            self._lost,
            sum(refused) + sum(port.refused for port in self._ports),
            sum(port.reordered for _, _, _, port in self._ends),
        )


class MachineEngine(LiveEngine):
    """The engine of one part of a network, with the other parts on other machines.

    Parameters
    ----------
    engine : Engine
    frames : Frames
    ends : sequence of tuple
        For each real link: packet socket of this end, the part at the other end, and port.
    slow : float
        Seconds of real time per second of the scenario.
    """

    def __init__(self, engine: Engine, frames: Frames, ends: Sequence[tuple[socket, int, Port]], slow: float) -> None:
        self._guard = Guard()
        self._engines, self._reason, self.now = [engine], "not yet", 0.0
        self._join([engine], [frames], [(end, 0, peer, port) for end, peer, port in ends], slow, 0.0)

    @guarded
    def await_first(self) -> bool:
        """Wait for the first frame of the run, for up to 0.1 s; return whether it has arrived.

        Raises
        ------
        NativeError
            If memory is exhausted.
        """
        stop = lib.ecc_live_await(self._live, SLICE)
        if stop == lib.ECC_STOP_ERROR:
            raise self._first_failure()
        return bool(stop == lib.ECC_STOP_UNTIL)

    @property
    @guarded
    def counts(self) -> dict[str, int]:
        """Numbers of frames so far, by outcome at the socket and when read."""
        names = ("sent", "not_sent", "refused", "overrun")
        counts = {name: sum(getattr(port, name) for port in self._ports) for name in names}
        for _, _, _, port in self._ends:
            for verdict, n in port.verdicts.items():
                counts[verdict] = counts.get(verdict, 0) + n
        for name, attribute in (("lost", "missing"), ("reordered", "reordered")):
            counts[name] = sum(getattr(port, attribute) for _, _, _, port in self._ends)
        return counts


def _percentile(counts: NDArray[np.int64], share: float) -> float:
    """Return the percentile of lateness, as the upper edge of its bin [ns]; 0 without packets."""
    total = np.cumsum(counts)
    if total[-1] == 0:
        return 0.0
    return float(bin_edges()[np.searchsorted(total, share * total[-1]) + 1])


def steal() -> float:
    """Return the time for which a hypervisor has withheld the processors since boot [s]; 0 if it is unknown."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
