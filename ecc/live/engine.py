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
"""ns of real time between looks at Ctrl-C."""
_OF_SYSTEM = 1000
_PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
_STOPS = {lib.ECC_STOP_UNTIL: "until", lib.ECC_STOP_MAX_EVENTS: "max_events"}


@dataclass(frozen=True)
class Measured:
    """What is measured of a live run besides its results."""

    elapsed: float  # s of real time
    frozen: float  # s of these, in which time stood
    longest_stall: float  # s of real time from look to look, but for sleep
    lateness: dict[str, float]  # s of the scenario: "p50", "p99", "p999", "max"
    frames_sent: int
    frames_lost: int  # sent, and never received
    frames_refused: int  # of others, damaged, replayed, or not awaited
    frames_reordered: int  # received after one that was sent later


class LiveEngine(Team):
    """Engines of the parts of a network, one a node, joined by real links.

    Parameters
    ----------
    engines : sequence of Engine
    partition : Partition
    words : sequence of ndarray
        As for Team.
    frames : sequence of Frames
        By node.
    ends : sequence of tuple
        Packet socket of each end of a real link, the node that it is of, the one that it leads to, and the port.
    slow : float
        Seconds of real time for one of the scenario.
    longest_step : float, s
        How far the clock goes on from look to look in real time; 0: it never stops.
    hosts : sequence of tuple, optional
        Packet socket of each end of a link to a host of the kernel, the node that it is of, the flow, whether the
        host is its receiver, and how many packets of the flow the network holds.
    """

    def __init__(
        self, engines: Sequence[Engine], partition: Partition, words: Sequence[NDArray[np.int64]],
        frames: Sequence[Frames], ends: Sequence[tuple[socket, int, int, Port]], slow: float, longest_step: float,
        hosts: Sequence[HostEnd] = (),
    ) -> None:  # fmt: skip
        super().__init__(engines, partition, words)
        self._join(engines, frames, ends, slow, longest_step, hosts)

    def _join(
        self, engines: Sequence[Engine], frames: Sequence[Frames], ends: Sequence[tuple[socket, int, int, Port]],
        slow: float, longest_step: float, hosts: Sequence[HostEnd] = (),
    ) -> None:  # fmt: skip
        self._frames, self._ends = frames, ends
        self._ports = ffi.new("ecc_live_port_t[]", len(ends) + len(hosts))
        for port, (one, node, peer, its) in zip(self._ports, ends, strict=False):
            port.socket, port.node, port.peer, port.frames = one.fileno(), node, peer, its._port
        for k, (one, node, flow, is_receiver, room) in enumerate(hosts, len(ends)):
            port = self._ports[k]
            port.socket, port.node, port.peer, port.flow, port.room = one.fileno(), node, node, flow, room
            port.host = lib.ECC_LIVE_RECEIVER if is_receiver else lib.ECC_LIVE_SENDER
        self._reports: Reports = {}
        its_engines = ffi.new("ecc_engine_t *[]", [one._engine for one in engines])
        its_frames = ffi.new("ecc_frames_t *[]", [one._frames for one in frames])
        given = {
            "n_nodes": len(engines), "engines": its_engines, "frames": its_frames, "n_ports": len(self._ports),
            "ports": self._ports, "slow": slow, "longest_step": round(longest_step * 1e9),
        }  # fmt: skip
        live = ffi.new("ecc_live_t **")
        code = lib.ecc_live_new(ffi.new("ecc_live_config_t *", given), live)
        if code <= -_OF_SYSTEM:
            raise EccError(f"live runs need packet sockets with rings: {os.strerror(-_OF_SYSTEM - code)}")
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
            Not used: real time ends the call.

        Raises
        ------
        NativeError
            The failure of a hook or the memory of a node.
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
        """Find out at the end which frames the kernel has lost."""
        self._lost = lib.ecc_live_settle(self._live)

    def report(self, reports: Reports) -> None:
        """Let results of flows that hosts of the kernel carry be what these say of them.

        Parameters
        ----------
        reports : mapping
            Flow -> what TCP_INFO says at each sample (`ecc.live.hosts`).
        """
        self._reports = reports

    @property
    def reports(self) -> Reports:
        """What `report` was given."""
        return self._reports

    @property
    def samples(self) -> dict[str, NDArray[Any]]:
        """As of `Team`."""
        out = super().samples
        for flow, told in self._reports.items():
            for name, of in (("sent", "sent"), ("received", "acked")):
                out[name][: len(told[of]), flow] = np.diff(told[of], prepend=0)[: len(out[name])]
        return out

    @property
    def flow_results(self) -> NDArray[np.void]:
        """As of `Team`."""
        out = super().flow_results
        for flow, told in self._reports.items():
            last = {name: int(values[-1]) for name, values in told.items() if len(values)}
            if last:
                row = out[flow]
                row["sent"], row["received"], row["delivered"] = last["sent"], last["acked"], last["acked"]
                row["retransmitted"], row["window"] = last["retransmitted"], last["window"] * last["packet"]
                row["srtt"], row["min_rtt"] = last["rtt"] * 1e-6, last["min_rtt"] * 1e-6
        return out

    @property
    @guarded
    def measured(self) -> Measured:
        """What is measured so far; the frames lost, by `settle`."""
        stats = ffi.new("ecc_live_stats_t *")
        lib.ecc_live_stats(self._live, stats)
        late = np.array(list(stats.late), np.int64)
        lateness = {name: _percentile(late, share) * 1e-9 for name, share in _PERCENTILES.items()}
        others = [n for _, _, _, port in self._ends for verdict, n in port.verdicts.items() if verdict != "taken"]
        return Measured(
            stats.elapsed * 1e-9, stats.frozen * 1e-9, stats.longest * 1e-9, lateness | {"max": stats.latest * 1e-9},
            sum(port.sent for port in self._ports), self._lost,
            sum(others) + sum(port.refused for port in self._ports),
            sum(port.reordered for _, _, _, port in self._ends),
        )  # fmt: skip


class MachineEngine(LiveEngine):
    """The engine of one part of a network, whose other parts are on other machines.

    Parameters
    ----------
    engine : Engine
    frames : Frames
    ends : sequence of tuple
        Packet socket of this end of each real link, the part that it leads to, and the port.
    slow : float
        Seconds of real time for one of the scenario.
    """

    def __init__(self, engine: Engine, frames: Frames, ends: Sequence[tuple[socket, int, Port]], slow: float) -> None:
        self._guard = Guard()
        self._engines, self._reason, self.now = [engine], "not yet", 0.0
        self._join([engine], [frames], [(one, 0, peer, port) for one, peer, port in ends], slow, 0.0)

    @guarded
    def await_first(self) -> bool:
        """Wait for 0.1 s, or until the first frame of the run is here; whether it is.

        Raises
        ------
        NativeError
            The memory ended.
        """
        stop = lib.ecc_live_await(self._live, SLICE)
        if stop == lib.ECC_STOP_ERROR:
            raise self._first_failure()
        return bool(stop == lib.ECC_STOP_UNTIL)

    @property
    @guarded
    def counts(self) -> dict[str, int]:
        """Frames so far: what became of them, at the socket and as read."""
        names = ("sent", "not_sent", "refused", "overrun")
        found = {name: sum(getattr(port, name) for port in self._ports) for name in names}
        for _, _, _, port in self._ends:
            for verdict, n in port.verdicts.items():
                found[verdict] = found.get(verdict, 0) + n
        for name, of in (("lost", "missing"), ("reordered", "reordered")):
            found[name] = sum(getattr(port, of) for _, _, _, port in self._ends)
        return found


def _percentile(counts: NDArray[np.int64], share: float) -> float:
    """The upper end of the bin of lateness that so much is below [ns]; 0 without any."""
    total = np.cumsum(counts)
    if total[-1] == 0:
        return 0.0
    return float(bin_edges()[np.searchsorted(total, share * total[-1]) + 1])


def steal() -> float:
    """Return how long the processors of this machine have run for others since it started [s], 0 where nobody says."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
