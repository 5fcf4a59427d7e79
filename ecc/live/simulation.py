"""Live runs: a scenario in, a trajectory out, its packets on real frames between namespaces of this machine."""

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
"""s of real time that a steady clock goes on from look to look."""
STEAL = 0.05
"""Share of the processors that others may take from a run on the real clock."""
_SCHEDULER = Path("/proc/sys/kernel")
_FAIR_SERVER = 0.05
"""s in a second that Linux reserves for other tasks by its fair server, without a limit of real-time threads."""

Progress = Callable[[float], None]
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
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Trajectory:
    """Return the run of a scenario whose packets are real frames, on real links between the nodes of a network.

    The hosts of all senders, a router for each link, and the hosts of all receivers are network namespaces of Linux,
    joined by virtual Ethernet; hooks, queues and hosts are those of the packet engine. Each packet that goes from one
    to another is a frame with the congestion header of the protocol, sent when it is due and received when it is there.

    Parameters
    ----------
    scenario : Scenario
        Without a workload.
    sample : float, s, optional
        > 0 and <= duration. Period of the samples; None: 0.1 s, at most a tenth of the duration.
    start, perturbation
        See `ecc.packet.simulate`.
    slow : float, > 0, optional
        Seconds of real time for one of the scenario.
    clock : str, optional
        "steady": time stops for all nodes while this process is stalled; or "real".
    lateness : float, s, optional
        > 0. A run in which more than one packet in a thousand is later than this is void, and so is one of which the
        kernel loses frames, or, on the real clock, one that loses more than 5 % of the processors to other machines.
        A run in which the send buffer of a flow of the kernel has its maximum size in more than 2 % of the samples is
        void, too.
    attempts : int, >= 1, optional
        How often a run that is void is repeated until it is not; the last is returned, marked as void.
    traffic : sequence of TCP, optional
        Flows of the network that the TCP of the kernel carries instead of their protocols, which must have no routers;
        these flows have no reverse links and no size. Only on the real clock.
    exact : bool, optional
        Whether packets also carry the numbers of their headers in full precision; else nodes go on with what the header
        has room for.
    capture : str or Path, optional
        File .pcapng that gets the frames on all links, for tshark (see `ecc.packet.dissector`), with times of this
        machine. Frames between hosts of the kernel and the network are there, too.
    record, progress, cancel
        See `ecc.packet.simulate`.

    Returns
    -------
    Trajectory
        As of `ecc.packet.simulate`. Its `stats` also have `void` (why the run is void, "" if it is not), `attempts`,
        `lateness_p50`, `_p99`, `_p999` and `_max` [s of the scenario], `elapsed` and `frozen` [s of real time, and for
        how much of it time stood], `longest_stall` [s of real time], `steal` (share of the processors), `load` (of the
        system), `frames_sent`, `frames_lost`, `frames_refused` and `frames_reordered`.
        Of flows in `traffic` rates and goodputs are those of the application, without headers of TCP and IP, and there
        are `tcp_window` and `tcp_in_flight` [bytes], `tcp_pacing_rate` [bit/s, nan without], `tcp_rtt` [s, smoothed]
        and `tcp_retransmissions` [packets so far] at each sample (nan of others). `stats` has `buffer_limited` and
        `receiver_limited`: for which share of its time a send buffer of maximum size and the window of the receiver
        limited a flow of the kernel, the maximum of all such flows.

    Raises
    ------
    ValueError
        A bad sample, start, clock or limit; a workload; a capture to another file than .pcapng.
    OSError
        The capture cannot be written.
    EccError
        This system is not Linux, or forbids namespaces.
    NativeError
        The engine refuses the network.

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
        raise ValueError(f"clock must be 'real' with the kernel's TCP, whose clock does not stop, got {shown(clock)}")
    if traffic and slow != 1.0:
        raise ValueError(f"slow must be 1 with the kernel's TCP, which has a clock of its own, got {slow:g}")
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
        found = run.trajectory(limit, attempt)
        if not found.stats["void"] or not found.is_complete:
            break
    return found


class _Run:
    """One attempt."""

    def __init__(
        self, scenario: Scenario, sample: Quantity | None, start: str, perturbation: float, record: Sequence[str],
        *, slow: float, clock: str, exact: bool, capture: str | Path | None, traffic: Sequence[TCP],
    ) -> None:  # fmt: skip
        self._scenario, self._period, self._text = scenario, scenario.sample_period(sample), scenario.to_toml()
        self._slow, self._clock = slow, clock

        def fresh() -> Setup:
            setup = prepared_for_links(prepare(scenario, start, perturbation))
            silence(setup, self._carried, scenario.duration)
            return setup

        self._setup = prepared_for_links(prepare(scenario, start, perturbation))
        self._carried = carried(traffic, scenario, self._setup)
        flows = self._setup.flows.copy()
        silence(self._setup, self._carried, scenario.duration)
        self._recording = series(self._setup, record)
        of = joints_of(self._setup)
        parts = nodes(of, self._setup)
        setups = [self._setup, *(fresh() for _ in range(int(parts.max(initial=0))))]  # each node has its own records
        engines, partition, words = build_parts(
            setups, scenario, of, parts, [word for one in self._recording for word in one.words],
            sample=sample_width(scenario, self._period), n_samples=scenario.n_samples(self._period),
            memory_limit=free_memory(),
        )  # fmt: skip
        between, mtu = links_between(of, parts), _mtu(self._setup)
        token, layout = secrets.token_bytes(lib.ECC_FRAME_KEY), formats(self._setup)
        frames = [Frames(engine, layout, token, mtu=mtu, exact=exact) for engine in engines]
        ends: list[tuple[socket, int, int, Port]] = []
        taps: list[Tap] = []
        for (a, b), (one, other, *tapped) in zip(
            between, ends_of_links(between, mtu, tapped=capture is not None), strict=True
        ):
            addresses = [end.getsockname()[4] for end in (one, other)]
            ends += [(one, a, b, Port(*addresses)), (other, b, a, Port(*addresses[::-1]))]
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
        given = self._setup.flows
        ends: list[HostEnd] = []
        room = {flow: path_room(self._scenario, flow) for flow in self._carried}
        flows = [
            HostsFlow(
                control, given["start"][flow] * 1e-12, None if given["stop"][flow] < 0 else given["stop"][flow] * 1e-12,
                int(given["packet_size_max"][flow]), bool(given["ecn"][flow]),
                socket_buffer(room[flow], int(given["packet_size_max"][flow])),
            )
            for flow, control in self._carried.items()
        ]  # fmt: skip
        period = self._period
        self._hosts = KernelHosts(flows, period, self._scenario.n_samples(period), tapped=tapped)
        for (flow, control), (sender, receiver), tapped_at in zip(
            self._carried.items(), self._hosts.ends, self._hosts.taps, strict=True
        ):
            node = int(parts[self._scenario.network.flows[flow].route[0]])
            ends += [(sender, node, flow, False, room[flow]), (receiver, node, flow, True, room[flow])]
            names = [f"{host} of flow {flow}" for host in ("sender", "receiver")]
            ways = [way for host in names for way in (f"{host} to node {node}", f"node {node} to {host}")]
            self._sockets += [sender, receiver, *tapped_at]
            taps += [Tap(tap, way, control) for tap, way in zip(tapped_at, ways, strict=bool(tapped_at))]
        return ends

    def advance(self, progress: Progress | None, cancel: Cancel | None) -> None:
        """Run to the end, or until somebody ends it."""
        duration = self._scenario.duration
        before, self._load = steal(), os.getloadavg()[0]
        try:
            with Interrupts() as interrupts:
                if self._hosts is not None:
                    self._hosts.begin()
                while self._engine.advance(duration) != "until":
                    if progress is not None:
                        interrupts.callback(progress, self._engine.now / duration)
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
                self._engine.report({flow: columns(one) for flow, one in zip(self._carried, reports, strict=True)})
            self.close()

    def close(self) -> None:
        """End the capture and the links."""
        try:
            if self._capture is not None:
                self._capture.close()
        finally:
            if self._hosts is not None:
                self._hosts.close()
            for one in self._sockets:
                one.close()

    def trajectory(self, limit: float, attempt: int) -> Trajectory:
        """What happened."""
        run = trajectory_of(
            self._scenario, self._text, self._setup, self._engine, self._transfers, self._recording,
            period=self._period, stopped=self._stopped, has_histogram=False,
        )  # fmt: skip
        measured = self._engine.measured
        share = self._steal / max(measured.elapsed * (os.cpu_count() or 1), 1e-9)
        limited = limits(self._engine.reports)
        why = _void(measured, limit, share if self._clock == "real" else 0.0, limited["buffer_limited"])
        stats: dict[str, Any] = dict(run.stats)
        stats |= {name: share for name, (share, _) in limited.items()} if self._carried else {}
        stats |= {f"lateness_{name}": value for name, value in measured.lateness.items()}
        stats |= {
            "void": why, "attempts": attempt, "slow": self._slow, "clock": self._clock, "elapsed": measured.elapsed,
            "frozen": measured.frozen, "longest_stall": measured.longest_stall, "steal": share, "load": self._load,
            "frames_sent": measured.frames_sent, "frames_lost": measured.frames_lost,
            "frames_refused": measured.frames_refused, "frames_reordered": measured.frames_reordered,
            "notes": (*stats["notes"], *self._notes(why, limited["receiver_limited"])),
        }  # fmt: skip
        data = run.data.assign_attrs(engine="live")
        if self._carried:
            data = data.assign(tcp_info(self._engine.reports, *run.data["goodput"].shape))
        return replace(run, data=data, stats=stats)

    def _notes(self, why: str, receiver_limited: tuple[float, int]) -> list[str]:
        out = [f"this live run is void: {why}"] if why else []
        missing = 0 if self._capture is None else self._capture.missing
        if missing:
            out.append(f"the capture lacks {missing} frames, which came faster than they could be written")
        share, flow = receiver_limited
        if share > LIMITED:
            out.append(f"the window of its receiver limited flow {flow} of the kernel for {share:.1%} of its time")
        return out


def _void(measured: Measured, limit: float, stolen: float, limited: tuple[float, int]) -> str:
    """Why a run says nothing, or an empty string."""
    if measured.frames_lost:
        return f"{measured.frames_lost} of {measured.frames_sent} frames were lost by the kernel{_throttled(measured)}"
    if measured.lateness["p999"] > limit:
        late = f"one packet in a thousand was later than {measured.lateness['p999']:.2g} s, of {limit:g} s allowed"
        return late + _throttled(measured)
    if stolen > STEAL:
        return f"others took {stolen:.0%} of the processors, of {STEAL:.0%} allowed"
    full, flow = limited
    if full > LIMITED:
        return (
            f"the send buffer of flow {flow} had its maximum size for {full:.0%} of the samples, of {LIMITED:.0%} "
            "allowed: it limits the window"
        )
    return ""


def _throttled(measured: Measured) -> str:
    """A clause on the limit of real-time threads, if this thread is one and may have met the limit; else nothing."""
    if os.sched_getscheduler(0) not in (os.SCHED_FIFO, os.SCHED_RR):
        return ""
    try:
        period, runtime = (int((_SCHEDULER / f"sched_rt_{name}_us").read_text()) for name in ("period", "runtime"))
    except (OSError, ValueError):
        return ""
    stop = (period - runtime) * 1e-6 if runtime >= 0 else _FAIR_SERVER
    if measured.longest_stall < 0.8 * stop:  # shorter ones have other causes
        return ""
    return (
        f", and the longest stall was {1e3 * measured.longest_stall:.0f} ms: the kernel stops a real-time thread that "
        f"does not sleep for up to {1e3 * stop:.0f} ms in {period * 1e-6:g} s (sched_rt_runtime_us = {runtime}, and "
        "from Linux 6.12 on the fair server): run without chrt, at a lower rate, or on a processor without other tasks"
    )


def _mtu(setup: Setup) -> int:
    """Of the real links: the largest packet with its headers, at least that of Ethernet."""
    flows = setup.flows[: setup.n_flows]
    if not len(flows):
        return 1500
    largest = max(int(flows[name].max()) for name in ("packet_size", "packet_size_max", "opening_size"))
    return min(65535, max(1500, largest + int(flows["header_bytes"].max())))
