"""Live runs: scenarios with packets in real frames between namespaces of this machine, and their trajectories."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.memory import free_memory
from ecc._support.quantity import Quantity, as_count, as_time
from ecc._support.reports import ProgressCallback, Share
from ecc.errors import EccError, NativeError, warn
from ecc.live.capture import Tap, WireCapture
from ecc.live.engine import HostEnd, LiveEngine, Measured, steal
from ecc.live.hosts import HostsFlow, KernelHosts
from ecc.live.namespaces import ends_of_links
from ecc.live.nodes import links_between, nodes, prepared_for_links
from ecc.live.tcp import (
    LIMITED,
    TCP,
    carried,
    columns,
    limits,
    path_room,
    silence,
    socket_buffer,
    tcp_info,
)
from ecc.native import Frames, Port
from ecc.native._engine import lib
from ecc.packet.c_engine import build_parts, joints_of
from ecc.packet.frames import formats
from ecc.packet.interrupts import Interrupts
from ecc.packet.prepare import prepare, sample_width
from ecc.packet.recorded_fields import series
from ecc.packet.result import trajectory_of
from ecc.packet.setup import Setup
from ecc.packet.transfers import Transfers
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

__all__ = ["simulate"]

CLOCKS = ("steady", "real")
LONGEST_STEP = 20e-6
"""Maximum advance of a steady clock between two checks, in real time [s]."""
STEAL = 0.05
"""Maximum share of the processors that other machines may take from a run on the real clock."""
_SCHEDULER = Path("/proc/sys/kernel")
_FAIR_SERVER = 0.05
"""Share of time that the fair server of Linux reserves for other tasks, without a limit on real-time threads."""

Cancel = Callable[[], bool]


@check_arguments
def simulate(
    scenario: Scenario,
    sample: Quantity | None = None,
    start: str = "empty",
    perturbation: float = 0.0,
    *,
    slow: float = 1.0,
    clock: str = "steady",
    lateness: Quantity = "1 ms",
    attempts: int = 3,
    exact: bool = False,
    traffic: Sequence[TCP] = (),
    capture: str | Path | None = None,
    record: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    cancel: Cancel | None = None,
) -> Trajectory:
    """Return the run of a scenario with packets as real frames, on real links between the nodes of a network.

    The hosts of all senders, a router for each link, and the hosts of all receivers are network namespaces of Linux,
    joined by virtual Ethernet; hooks, queues and hosts are those of the packet engine. Each packet between two nodes is
    a frame with the congestion header of the protocol. It is sent at its time in the scenario, and processed when it
    arrives.

    Parameters
    ----------
    scenario : Scenario
        Scenario without a workload.
    sample : float, s, optional
        > 0 and <= duration. Period of the samples, for example "10 ms"; None: 0.1 s, or a tenth of shorter durations.
    start, perturbation
        See `ecc.packet.simulate`.
    slow : float, > 0, optional
        Seconds of real time per second of the scenario, for example 2.0 for half the speed.
    clock : str, optional
        "steady": the clock of all nodes stops while this process is stalled; or "real".
    lateness : float, s, optional
        > 0. A run is void if more than one packet in a thousand is later than this, if the kernel loses frames, if
        other machines take more than 5 % of the processors (on the real clock), or if the send buffer of a flow of the
        kernel has its maximum size in more than 2 % of the samples.
    attempts : int, >= 1, optional
        Maximum number of attempts: a void run is repeated. If all are void, the last one is returned, marked as void.
    traffic : sequence of TCP, optional
        Flows of the network that the TCP of the kernel carries instead of their protocols, for example
        [TCP("cubic", [0])]. These protocols must have no routers, and the flows no reverse links and no size. Only with
        clock="real".
    exact : bool, optional
        Whether packets also carry the values of their headers in full precision; otherwise nodes use the values rounded
        to the precision of the header.
    capture : str or Path, optional
        Path of a .pcapng file for the frames on all links, for tshark (see `ecc.packet.dissector`), with times of this
        machine. It includes the frames between hosts of the kernel and the network.
    record, progress, cancel
        See `ecc.packet.simulate`.

    Returns
    -------
    Trajectory
        As for `ecc.packet.simulate`. In addition, `stats` has `void` (the reason for which the run is void, or ""),
        `attempts`, `lateness_p50`, `_p99`, `_p999` and `_max` [s of the scenario], `elapsed` [s of real time], `frozen`
        [s of real time with a stopped clock], `longest_stall` [s of real time], `steal` (share of the processors taken
        by other machines), `load` (of the system), `frames_sent`, `frames_lost`, `frames_refused` and
        `frames_reordered`.
        Rates and goodputs of flows in `traffic` are those of the application, without headers of TCP and IP. For these
        flows the trajectory has `tcp_window` and `tcp_in_flight` [bytes], `tcp_pacing_rate` [bit/s; NaN if not paced],
        `tcp_rtt` [s, smoothed] and `tcp_retransmissions` [packets so far] at each sample (NaN for other flows). `stats`
        has `buffer_limited` and `receiver_limited`: the share of time for which a send buffer of maximum size, or the
        window of the receiver, limited a flow of the kernel; the maximum over these flows.

    Raises
    ------
    ValueError
        If the sample, start, clock or a limit is not admissible, if the scenario has a workload, or if the capture is
        not a .pcapng file.
    OSError
        If the capture cannot be written.
    EccError
        If this system is not Linux, or forbids namespaces.
    NativeError
        If the engine refuses the network.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> run = simulate(ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0))  # doctest: +SKIP
    >>> round(float(run.rate[-1, 0]) / 1e6, 1), run.stats["void"]  # doctest: +SKIP
    (9.5, '')
    """
    if not hasattr(lib, "ecc_live_new"):
        raise EccError(f"live runs need the network namespaces of Linux, got {sys.platform}")
    if not 0.0 < slow < float("inf"):
        raise ValueError(f"slow must be > 0 and finite, got {slow:g}")
    if clock not in CLOCKS:
        raise ValueError(f"clock must be one of {', '.join(map(repr, CLOCKS))}, got {shown(clock)}")
    limit = as_time(lateness, "lateness")
    if limit <= 0.0:
        raise ValueError(f"lateness must be > 0 s, got {limit:g} s")
    if traffic and clock != "real":
        raise ValueError(
            f"clock must be 'real' with the kernel's TCP, because its clock does not stop, got {shown(clock)}"
        )
    if traffic and slow != 1.0:
        raise ValueError(f"slow must be 1 with the kernel's TCP, because its clock is the real one, got {slow:g}")
    if scenario.workload:
        raise ValueError("a live run must have no workload: its flows are those of the network")
    if capture is not None:
        WireCapture.check(capture)
    for attempt in range(1, as_count(attempts, "attempts", minimum=1) + 1):
        run = _Run(
            scenario,
            sample,
            start,
            perturbation,
            record,
            slow=slow,
            clock=clock,
            exact=exact,
            capture=capture,
            traffic=traffic,
        )
        run.advance(progress, cancel)
        result = run.trajectory(limit, attempt)
        if not result.stats["void"] or not result.is_complete:
            break
    return result


class _Run:
    """One attempt of a live run."""

    def __init__(
        self,
        scenario: Scenario,
        sample: Quantity | None,
        start: str,
        perturbation: float,
        record: Sequence[str],
        *,
        slow: float,
        clock: str,
        exact: bool,
        capture: str | Path | None,
        traffic: Sequence[TCP],
    ) -> None:
        scenario.check_writable()  # refuse a scenario that cannot be saved with the result before the work
        self._scenario, self._period = scenario, scenario.sample_period(sample)
        self._slow, self._clock = slow, clock

        def new_setup() -> Setup:
            setup = prepared_for_links(prepare(scenario, start, perturbation))
            silence(setup, self._carried, scenario.duration)
            return setup

        self._setup = prepared_for_links(prepare(scenario, start, perturbation))
        self._carried = carried(traffic, scenario, self._setup)
        flows = self._setup.flows.copy()
        silence(self._setup, self._carried, scenario.duration)
        self._recording = series(self._setup, record)
        graph = joints_of(self._setup)
        parts = nodes(graph, self._setup)
        setups = [
            self._setup,
            *(new_setup() for _ in range(int(parts.max(initial=0)))),
        ]  # each node has separate records
        engines, partition, words = build_parts(
            setups,
            scenario,
            graph,
            parts,
            [word for item in self._recording for word in item.words],
            sample=sample_width(scenario, self._period),
            n_samples=scenario.n_samples(self._period),
            memory_limit=free_memory(),
        )
        between, mtu = links_between(graph, parts), _mtu(self._setup)
        token, layout = secrets.token_bytes(lib.ECC_FRAME_KEY), formats(self._setup)
        frames = [Frames(engine, layout, token, mtu=mtu, exact=exact) for engine in engines]
        ends: list[tuple[socket, int, int, Port]] = []
        taps: list[Tap] = []
        for (a, b), (end_a, end_b, *tapped) in zip(
            between, ends_of_links(between, mtu, tapped=capture is not None), strict=True
        ):
            addresses = [end.getsockname()[4] for end in (end_a, end_b)]
            ends += [(end_a, a, b, Port(*addresses)), (end_b, b, a, Port(*addresses[::-1]))]
            for tap, begin, end in zip(tapped, (b, a), (a, b), strict=bool(tapped)):
                taps.append(Tap(tap, f"node {begin} to node {end}"))
        self._sockets = [*(end[0] for end in ends), *(tap.socket for tap in taps)]
        self._setup.flows[:] = flows
        self._transfers = Transfers(scenario, self._setup, None)
        self._stopped = "canceled"
        self._capture: WireCapture | None = None
        self._hosts: KernelHosts | None = None
        step = LONGEST_STEP if clock == "steady" else 0.0
        try:
            hosts = self._join_hosts(parts, taps, tapped=capture is not None) if self._carried else []
            self._engine = LiveEngine(engines, partition, words, frames, ends, slow, step, hosts)
            if capture is not None:
                self._capture = WireCapture(capture, self._setup, taps, float(self._setup.links["capacity"].max()))
        except BaseException:
            self.close()
            raise

    def _join_hosts(self, parts: NDArray[np.int64], taps: list[Tap], *, tapped: bool) -> list[HostEnd]:
        """Make the hosts of the flows that the kernel carries, and their taps; return the ends of links to them."""
        table = self._setup.flows
        ends: list[HostEnd] = []
        room = {flow: path_room(self._scenario, flow) for flow in self._carried}
        flows = [
            HostsFlow(
                control,
                table["start"][flow] * 1e-12,
                None if table["stop"][flow] < 0 else table["stop"][flow] * 1e-12,
                int(table["packet_size_max"][flow]),
                bool(table["ecn"][flow]),
                socket_buffer(room[flow], int(table["packet_size_max"][flow])),
            )
            for flow, control in self._carried.items()
        ]
        period = self._period
        self._hosts = KernelHosts(flows, period, self._scenario.n_samples(period), tapped=tapped)
        for (flow, control), (sender, receiver), tapped_at in zip(
            self._carried.items(), self._hosts.ends, self._hosts.taps, strict=True
        ):
            node = int(parts[self._scenario.network.flows[flow].route[0]])
            ends += [(sender, node, flow, False, room[flow]), (receiver, node, flow, True, room[flow])]
            names = [f"{host} of flow {flow}" for host in ("sender", "receiver")]
            directions = [name for host in names for name in (f"{host} to node {node}", f"node {node} to {host}")]
            self._sockets += [sender, receiver, *tapped_at]
            taps += [Tap(tap, name, control) for tap, name in zip(tapped_at, directions, strict=bool(tapped_at))]
        return ends

    def advance(self, progress: ProgressCallback | None, cancel: Cancel | None) -> None:
        """Run to the end, or until it is canceled or interrupted."""
        duration = self._scenario.duration
        before, self._load = steal(), os.getloadavg()[0]
        try:
            with Interrupts() as interrupts:
                if self._hosts is not None:
                    self._hosts.begin()
                while self._engine.advance(duration) != "until":
                    if progress is not None:
                        interrupts.callback(progress, Share(self._engine.now / duration))
                    if interrupts.noted:
                        raise KeyboardInterrupt
                    if cancel is not None and interrupts.callback(cancel):
                        return
                self._stopped = "completed"
        except KeyboardInterrupt:
            self._stopped = "interrupted"
        except NativeError as error:
            self._stopped = str(error)
            warn(f"the run ended at {self._engine.now:g} s: {error}")
        finally:
            self._engine.settle()
            self._steal = steal() - before
            if self._hosts is not None:
                reports = self._hosts.reports(is_over=self._stopped == "completed")
                self._engine.report({flow: columns(rows) for flow, rows in zip(self._carried, reports, strict=True)})
            self.close()

    def close(self) -> None:
        """Close the capture and the links."""
        try:
            if self._capture is not None:
                self._capture.close()
        finally:
            if self._hosts is not None:
                self._hosts.close()
            for end in self._sockets:
                end.close()

    def trajectory(self, limit: float, attempt: int) -> Trajectory:
        """Return the results."""
        run = trajectory_of(
            self._scenario,
            self._setup,
            self._engine,
            self._transfers,
            self._recording,
            period=self._period,
            stopped=self._stopped,
            has_histogram=False,
        )
        measured = self._engine.measured
        share = self._steal / max(measured.elapsed * (os.cpu_count() or 1), 1e-9)
        limited = limits(self._engine.reports)
        why = _void(measured, limit, share if self._clock == "real" else 0.0, limited["buffer_limited"])
        stats: dict[str, Any] = dict(run.stats)
        stats |= {name: share for name, (share, _) in limited.items()} if self._carried else {}
        stats |= {f"lateness_{name}": value for name, value in measured.lateness.items()}
        stats |= {
            "void": why,
            "attempts": attempt,
            "slow": self._slow,
            "clock": self._clock,
            "elapsed": measured.elapsed,
            "frozen": measured.frozen,
            "longest_stall": measured.longest_stall,
            "steal": share,
            "load": self._load,
            "frames_sent": measured.frames_sent,
            "frames_lost": measured.frames_lost,
            "frames_refused": measured.frames_refused,
            "frames_reordered": measured.frames_reordered,
            "notes": (*stats["notes"], *self._notes(why, limited["receiver_limited"])),
        }
        data = run.data.assign_attrs(engine="live")
        if self._carried:
            data = data.assign(tcp_info(self._engine.reports, *run.data["goodput"].shape))
        return replace(run, data=data, stats=stats)

    def _notes(self, why: str, receiver_limited: tuple[float, int]) -> list[str]:
        out = [f"this live run is void: {why}"] if why else []
        missing = 0 if self._capture is None else self._capture.missing
        if missing:
            out.append(f"the capture lacks {missing} frames, which arrived faster than they could be written")
        share, flow = receiver_limited
        if share > LIMITED:
            out.append(f"the window of its receiver limited flow {flow} of the kernel for {share:.1%} of its time")
        return out


def _void(measured: Measured, limit: float, stolen: float, limited: tuple[float, int]) -> str:
    """Return the reason for which a run is void, or an empty string."""
    if measured.frames_lost:
        return f"{measured.frames_lost} of {measured.frames_sent} frames were lost by the kernel{_throttled(measured)}"
    if measured.lateness["p999"] > limit:
        late = f"one packet in a thousand was later than {measured.lateness['p999']:.2g} s, the limit is {limit:g} s"
        return late + _throttled(measured)
    if stolen > STEAL:
        return f"other machines took {stolen:.0%} of the processors, more than {STEAL:.0%}"
    full, flow = limited
    if full > LIMITED:
        return (
            f"the send buffer of flow {flow} had its maximum size in {full:.0%} of the samples, more than "
            f"{LIMITED:.0%}: it limits the window"
        )
    return ""


def _throttled(measured: Measured) -> str:
    """Return a clause on the limit of real-time threads, or "" if the limit cannot have affected this thread."""
    if os.sched_getscheduler(0) not in (os.SCHED_FIFO, os.SCHED_RR):
        return ""
    try:
        period, runtime = (int((_SCHEDULER / f"sched_rt_{name}_us").read_text()) for name in ("period", "runtime"))
    except (OSError, ValueError):
        return ""
    stop = (period - runtime) * 1e-6 if runtime >= 0 else _FAIR_SERVER
    if measured.longest_stall < 0.8 * stop:  # shorter stalls have other causes
        return ""
    return (
        f", and the longest stall was {1e3 * measured.longest_stall:.0f} ms: the kernel stops a real-time thread that "
        f"does not sleep for up to {1e3 * stop:.0f} ms in {period * 1e-6:g} s (sched_rt_runtime_us = {runtime}, and "
        "from Linux 6.12 on the fair server): run without chrt, at a lower rate, or on a processor without other tasks"
    )


def _mtu(setup: Setup) -> int:
    """Return the MTU of the real links: the maximum packet with its headers, or that of Ethernet if it is larger."""
    flows = setup.flows[: setup.n_flows]
    if not len(flows):
        return 1500
    largest = max(int(flows[name].max()) for name in ("packet_size", "packet_size_max", "opening_size"))
    return min(65535, max(1500, largest + int(flows["header_bytes"].max())))
