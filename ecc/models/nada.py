"""NADA: rates of real-time media controlled by delays, losses and marks (RFC 8698).

The receiver measures, and reports every delta:

    d~     = d                                      no loss within 7 loss intervals, or d < QTH          sec. 4.2
             QTH exp(-LAMBDA (d - QTH)/QTH)         otherwise                                            (1)
    x_curr = d~ + DMARK (p_mark/PMRREF)^2 + DLOSS (p_loss/PLRREF)^2                                      (2)

    rmode 0 (accelerated ramp-up) if no packet was lost and all delays < QEPS within LOGWIN, else 1 (gradual update).

At a report the sender updates its rate, between RMIN and RMAX:

    gamma = min(GAMMA_MAX, QBOUND/(rtt + delta + DFILT))                                                 (3)
    r     <- max(r, (1 + gamma) r_recv)                                              rmode 0             (4)
    x_offset = x_curr - PRIO XREF RMAX/r                                                                 (5)
    x_diff   = x_curr - x_prev                                                                           (6)
    r     <- r - KAPPA (delta/tau)(x_offset/tau) r - KAPPA ETA (x_diff/tau) r        rmode 1             (7)

    r  rate [bit/s]    d  queueing delay: one-way delay over its minimum, minimum of the last 15 packets [s]
    p_mark, p_loss  shares of packets within LOGWIN, averaged    r_recv  rate received within LOGWIN [bit/s]

Laws, fluid and linear models have only the delay in x_curr: they are for buffers that lose nothing, and links that do
not mark. Runs note a buffer that is smaller than the queue at equilibrium. x_curr of a path is then the sum of its
queueing delays. They have no minimum of the last packets either, which delays increases of x_curr by 15 packets and
leaves decreases as they are: `taps=1` switches it off.

At equilibrium x_curr = PRIO XREF RMAX/r for each flow. On one link with capacity C

    r_i = C w_i/sum(w),    d = XREF sum(w)/C,    w_i = PRIO_i RMAX_i

As delta -> 0, deviations of one flow with r < RMAX, T the delay around the loop, have the characteristic equation

    s^2 + s KAPPA XREF RMAX/(C tau^2) + e^(-s T) (KAPPA ETA s/tau + KAPPA/tau^2) = 0

Equation numbers and constants: RFC 8698, secs. 4 and 5.1. From the program of its authors for ns-3
(github.com/cisco/ns3-rmcat, nada-controller.cc): the transition after 7 loss intervals, the maximum of x_curr, and
delays of the ramp-up that are those of single packets, before the minimum filter. The rates of packets sent in frames
of an encoder are in `ecc.models.shared.encoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.display import quantity_text
from ecc._support.quantity import (
    RATE,
    SIZE,
    TIME,
    QuantityField,
    SizeField,
    as_delay,
    as_rate,
    as_size,
    default,
)
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.contract.states import State
from ecc.errors import EccError
from ecc.laws.elementary import exp
from ecc.models.shared import encoder
from ecc.models.shared.equilibria import full_links
from ecc.network.network import Network

TAPS = 15  # maximum number of packets of the minimum filter
BINS = 25  # maximum number of reports in LOGWIN
HISTORY = 8  # loss intervals that count in their average (RFC 5348 sec. 5.4)
REFERENCE_SHARE = 0.01  # PMRREF and PLRREF
ALMOST = 1.0 - 1e-9  # share of LOGWIN that counts as all of it, against rounding


@dataclass
class Header(encoder.FrameHeader):
    """Header fields of data, and of reports."""

    signal: float = 0.0  # report: x_curr [s]
    received: float = 0.0  # report: r_recv [bit/s]
    mode: int = 1  # report: rmode
    reports: int = 0  # report: its number, from 1


@dataclass
class FlowState(encoder.FrameState):
    """A flow's state: that of its sender, and that of its receiver."""

    x: float = 0.0  # r, the reference rate [bit/s]
    signal: float = 0.0  # x_curr of the last report, and x_prev of the next [s]
    heard: int = 0  # number of the last report
    base: float = -1.0  # receiver: minimum one-way delay [s]; < 0: no packet has arrived
    queued: float = 0.0  # receiver: queueing delay of the first packet [s]; > 0 in runs from an equilibrium
    delays: tuple[float, ...] = (0.0,) * TAPS  # receiver: queueing delays of the last packets [s]
    packets: int = 0  # receiver: packets arrived
    highest: int = 0  # receiver: highest number of a packet
    peak: float = 0.0  # receiver: maximum queueing delay since the last report [s]
    quiet: float = 1e6  # receiver: consecutive reports without losses and with all delays below QEPS
    reports: int = 0  # receiver: reports sent
    bytes_in: tuple[int, ...] = (0,) * BINS  # receiver: per report, bytes that arrived before it
    packets_in: tuple[int, ...] = (0,) * BINS  # receiver: the same for packets
    lost_in: tuple[int, ...] = (0,) * BINS  # receiver: the same for lost packets
    marked_in: tuple[int, ...] = (0,) * BINS  # receiver: the same for marked packets
    p_loss: float = 0.0  # receiver: averaged share of lost packets
    p_mark: float = 0.0  # receiver: averaged share of marked packets
    losses: int = 0  # receiver: number of losses
    since_loss: float = 0.0  # receiver: packets since the last loss
    loss_intervals: tuple[float, ...] = (0.0,) * HISTORY  # receiver: last loss intervals, newest first [packets]


@dataclass(frozen=True)
class NADA(encoder.EncodedMedia):
    """NADA.

    Parameters
    ----------
    priority : float, > 0
        Weight of the flow, PRIO.
    min_rate, max_rate : float, bit/s, > 0
        Range of the rate, RMIN and RMAX, for example 150 kb/s and 1.5 Mb/s; `min_rate` is the initial rate.
    reference : float, s, > 0
        XREF, the queueing delay of a flow of priority 1 that sends at `max_rate`.
    kappa : float, > 0
        Gain of the gradual update.
    eta : float, >= 0
        Weight of the change of the signal.
    tau : float, s, > 0
        Time scale of the gradual update.
    interval : float, s, > 0
        Time between two reports, delta: 20 to 100 ms.
    window : float, s, > 0
        Time over which the receiver measures, LOGWIN: at most 25 intervals.
    empty : float, s, > 0
        Queueing delay below which rates may ramp up, QEPS.
    filter_delay : float, s, > 0
        Delay of the filters of the signal, which slows the ramp-up: DFILT.
    max_self_delay : float, s, > 0
        Maximum queueing delay that the ramp-up may cause: QBOUND.
    max_growth : float, > 0
        Maximum growth by a report in ramp-up, GAMMA_MAX.
    warp_threshold : float, s, > 0
        Queueing delay above which delays are warped after losses, QTH.
    warp : float, >= 0
        Exponent of the warping, LAMBDA.
    patience : float, > 0
        Loss intervals for which a loss counts as recent.
    loss_penalty, mark_penalty : float, s, > 0
        Part of the signal at 1 % of losses or marks, DLOSS and DMARK.
    average : float, in (0, 1]
        Weight of a report in the averages of losses and marks.
    max_signal : float, s, > 0
        Maximum of the signal.
    taps : float, 1 to 15
        Packets of the minimum filter of delays.
    report_size : int, bytes, > 0
        Size of a report.
    ecn : bool
        Whether links can mark packets.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    priority: float = 1.0
    min_rate: QuantityField = default(150e3)
    max_rate: QuantityField = default(1.5e6)
    reference: QuantityField = default(0.01)
    kappa: float = 0.5
    eta: float = 2.0
    tau: QuantityField = default(0.5)
    interval: QuantityField = default(0.1)
    window: QuantityField = default(0.5)
    empty: QuantityField = default(0.01)
    filter_delay: QuantityField = default(0.12)
    max_self_delay: QuantityField = default(0.05)
    max_growth: float = 0.5
    warp_threshold: QuantityField = default(0.05)
    warp: float = 0.5
    patience: float = 7.0
    loss_penalty: QuantityField = default(0.01)
    mark_penalty: QuantityField = default(0.002)
    average: float = 0.1
    max_signal: QuantityField = default(0.5)
    taps: float = 15.0
    report_size: SizeField = default(80)
    ecn: bool = False

    dimensions = {
        **dict.fromkeys(("min_rate", "max_rate"), RATE),
        **dict.fromkeys(("reference", "tau", "interval", "window", "empty", "filter_delay", "max_self_delay"), TIME),
        **dict.fromkeys(("warp_threshold", "loss_penalty", "mark_penalty", "max_signal"), TIME),
        "report_size": SIZE,
        **encoder.EncodedMedia.dimensions,
    }

    combine = "sum"
    stamping = "arrival"
    source_clock = "always"
    main_parameter = "kappa"
    times: ClassVar[tuple[str, ...]] = ("continuous", "discrete", "hybrid")
    required_env = frozenset({"random"})
    equilibrium_is_static = False

    operating_range = OperatingRange((1e6, 3e6), (0.04, 0.2), packet_size=500, convergence=500.0)
    reference_loop = ReferenceLoop(1e6, (0.1,), "ours", 200)

    def __post_init__(self) -> None:
        for name in ("min_rate", "max_rate"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        object.__setattr__(self, "report_size", as_size(self.report_size, "report_size"))
        times = {name: as_delay for name, dimension in self.dimensions.items() if dimension is TIME}
        check_number(self, **{name: read for name, read in times.items() if name != "pauses"})
        check_number(self, priority=None, kappa=None, eta=0.0, max_growth=None, warp=0.0, patience=None, average=None)
        check_number(self, taps=1.0)
        check_choice(self, "ecn", (True, False))
        limits = {"min_rate": self.max_rate, "average": 1.0, "taps": TAPS, "window": BINS * self.interval}
        for name, limit in limits.items():
            if getattr(self, name) > limit:
                raise ValueError(f"{name} must be <= {limit:g}, got {shown(getattr(self, name))}")
        super().__post_init__()

    # ---- laws --------------------------------------------------------------------------------------------

    @staticmethod
    def router_law(q: float, C: float) -> float:
        """The queueing delay; the delays of a path's links add up."""
        return q / C

    @staticmethod
    def source_law(
        x: float, x_rtt: float, R: float, D: float, T: float, difference: float, quiet: float, p: Params
    ) -> float:
        """RFC 8698, (3) to (7), between RMIN and RMAX; a growing delay lowers the rate received."""
        if quiet * T >= ALMOST * p.window:
            return limited(ramped(x, x_rtt / (1.0 + max(difference, 0.0) / T), D, p), p)
        return limited(updated(x, R, difference, T, p), p)

    @property
    def states(self) -> Mapping[str, State]:
        waits = self.window / self.interval
        return {
            "difference": State(changed, "update", unit="s"),
            "quiet": State(counted, "update", waits, lowest=0.0, highest=waits),
        }

    def opening_rate(self, rtt: Any, packet: Any) -> Any:
        """The minimum rate."""
        return self.min_rate

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, float("inf")

    @property
    def ecn_echo(self) -> str | None:
        return "accurate" if self.ecn else None

    # ---- equilibrium -------------------------------------------------------------------------------------

    def equilibrium(self, network: Network, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
        """Return the point of (5) with x_offset = 0, on any network; `fair_rate` is a link's queueing delay [s]."""
        if assignment is not None:
            raise ValueError("assignment must be None: flows of NADA respond to the delays of their whole path")

        weight = self.priority * self.reference * self.max_rate

        def demand(wait: NDArray[np.float64]) -> NDArray[np.float64]:
            wanted = weight / np.maximum(wait, weight / self.max_rate * 1e-9)
            return np.clip(wanted, self.min_rate, self.max_rate)

        waits = full_links(network, demand, "NADA", "each delay has one rate", np.zeros(network.n_flows))
        feedback = np.full(network.n_flows, -1, dtype=np.int64)
        rates = demand(network.incidence @ waits)
        states = {"difference": np.zeros(network.n_flows), "quiet": np.zeros(network.n_flows)}
        return Equilibrium(rates, waits, feedback, waits * network.capacities, states=states)

    def network_notes(self, network: Network) -> tuple[str, ...]:
        """Return a note for each link whose buffer is smaller than its queue at equilibrium."""
        try:
            queues = np.asarray(self.equilibrium(network).queue, dtype=np.float64) / 8.0
        except (EccError, ValueError):  # packet runs need none, and may be on networks without models
            return ()
        return tuple(
            f"link {place} loses packets: its queue at equilibrium, {quantity_text(queue, 'bytes')}, exceeds its "
            f"buffer of {quantity_text(link.buffer, 'bytes')}: fluid and linear models have no signal of losses"
            for place, (link, queue) in enumerate(zip(network.links, queues.tolist(), strict=True))
            if link.buffer is not None and queue > link.buffer
        )

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_receive": flow_on_receive,
            "on_report": flow_on_report,
            "on_control": flow_on_control,
            "on_timer": flow_on_timer,
        }

    def flow_at(self, x: float, R: float, link: int, difference: float = 0.0, quiet: float = 0.0) -> Any:
        """Return the state of a flow whose packets have long waited for R [s]."""
        return FlowState(x=x, signal=R, queued=R, quiet=quiet, target=x)


def changed(R: float, R_prev: float) -> float:
    """RFC 8698, (6): the change of the signal between two reports."""
    return R - R_prev


def counted(quiet: float, R: float, p: Params) -> float:
    """RFC 8698, sec. 4.2: the number of consecutive reports with a delay below QEPS."""
    return quiet + 1.0 if R < p.empty else 0.0


def ramped(x: float, received: float, rtt: float, p: Params) -> float:
    """RFC 8698, (3) and (4): the rate of the accelerated ramp-up."""
    gamma = min(p.max_growth, p.max_self_delay / (rtt + p.interval + p.filter_delay))
    return max(x, (1.0 + gamma) * received)


def updated(x: float, signal: float, difference: float, delta: float, p: Params) -> float:
    """RFC 8698, (5) and (7): the rate of the gradual update."""
    offset = signal - p.priority * p.reference * p.max_rate / x
    return x - p.kappa * (delta / p.tau) * (offset / p.tau) * x - p.kappa * p.eta * (difference / p.tau) * x


def limited(x: float, p: Params) -> float:
    """The rate between RMIN and RMAX."""
    return min(max(x, p.min_rate), p.max_rate)


def warped(delay: float, p: Params) -> float:
    """RFC 8698, (1)."""
    if delay < p.warp_threshold:
        return delay
    return p.warp_threshold * exp(-p.warp * (delay - p.warp_threshold) / p.warp_threshold)


def penalty(share: float, at_reference: float) -> float:
    """RFC 8698, (2): the part of the signal for a share of lost or marked packets."""
    return at_reference * (share / REFERENCE_SHARE) * (share / REFERENCE_SHARE)


# Hooks: the receiver --------------------------------------------------------------------------------------------------


def flow_on_receive(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Measure the delay of a packet, and count losses, marks and frames; start the reports."""
    if header.number > 0:  # packets that were in flight at the start of a run have no number
        if flow.base < 0.0:
            env.timer = p.interval
            flow.base = env.now - header.sent - flow.queued
            flow.highest = header.number - 1
        place = flow.reports % BINS
        flow.base = min(flow.base, env.now - header.sent)
        delay = env.now - header.sent - flow.base
        flow.delays[flow.packets % TAPS] = delay
        flow.packets += 1
        flow.peak = max(flow.peak, delay)
        flow.bytes_in[place] += env.packet_size
        flow.packets_in[place] += 1
        flow.marked_in[place] += 1 if env.marked > 0 else 0
        if header.number > flow.highest + 1:
            flow.lost_in[place] += header.number - flow.highest - 1
            note_loss(flow)
        flow.since_loss += 1.0
        flow.highest = max(flow.highest, header.number)
        encoder.frame_received(flow, header, env)


def note_loss(flow: FlowState) -> None:
    """Close a loss interval."""
    for k in range(HISTORY - 1):
        flow.loss_intervals[HISTORY - 1 - k] = flow.loss_intervals[HISTORY - 2 - k]
    flow.loss_intervals[0] = flow.since_loss
    flow.since_loss = 0.0
    flow.losses += 1


def mean_loss_interval(flow: FlowState) -> float:
    """RFC 5348, sec. 5.4: the mean of the last loss intervals, with less weight on the four oldest [packets]."""
    total = 0.0
    weights = 0.0
    for k in range(min(flow.losses, HISTORY)):
        weight = 1.0 if k < HISTORY // 2 else 1.0 - 0.2 * (k - HISTORY // 2 + 1)
        total += weight * flow.loss_intervals[k]
        weights += weight
    return max(total / weights, 1.0)


def measured_delay(flow: FlowState, p: Params) -> float:
    """The minimum of the last queueing delays, warped for a while after losses."""
    n = min(int(p.taps), flow.packets)
    delay = flow.delays[(flow.packets - 1) % TAPS]
    for k in range(n):
        delay = min(delay, flow.delays[(flow.packets - 1 - k) % TAPS])
    if flow.losses == 0:
        return delay
    mean = mean_loss_interval(flow)
    weight = min(max(flow.since_loss / mean - p.patience, 0.0), 1.0)  # weight of the delay without warping
    return weight * delay + (1.0 - weight) * warped(delay, p)


def flow_on_report(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Report the signal, the mode and the received rate."""
    bins = int(p.window / p.interval + 0.5)
    received, packets, lost, marked = 0, 0, 0, 0
    for k in range(min(bins, flow.reports + 1)):
        place = (flow.reports - k) % BINS
        received += flow.bytes_in[place]
        packets += flow.packets_in[place]
        lost += flow.lost_in[place]
        marked += flow.marked_in[place]
    if packets + lost > 0:
        flow.p_loss += p.average * (lost / (packets + lost) - flow.p_loss)
        flow.p_mark += p.average * (marked / (packets + lost) - flow.p_mark)
    is_quiet = flow.lost_in[flow.reports % BINS] == 0 and flow.peak < p.empty
    flow.quiet = flow.quiet + 1.0 if is_quiet else 0.0
    flow.peak = 0.0
    signal = measured_delay(flow, p) + penalty(flow.p_mark, p.mark_penalty) + penalty(flow.p_loss, p.loss_penalty)
    header.signal = min(signal, p.max_signal)
    header.mode = 0 if flow.quiet * p.interval >= ALMOST * p.window else 1
    header.received = 8.0 * received / (p.interval * min(bins, flow.reports + 1))
    flow.reports += 1
    header.reports = flow.reports
    place = flow.reports % BINS
    flow.bytes_in[place], flow.packets_in[place], flow.lost_in[place], flow.marked_in[place] = 0, 0, 0, 0
    env.control_size = int(p.report_size)
    env.timer = p.interval


# Hooks: the sender ----------------------------------------------------------------------------------------------------


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Start at RMIN."""
    if flow.x == 0.0:
        flow.x = p.min_rate
    encoder.open_media(flow, flow.x, p, env)


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Number a packet, and name its frame."""
    encoder.packet_sent(flow, header, p, env)


def flow_on_control(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Update the rate by a report; lost reports count in the time since the last update."""
    if header.reports > flow.heard:
        delta = (header.reports - flow.heard) * p.interval
        if header.mode == 0:
            flow.x = limited(ramped(flow.x, header.received, env.rtt, p), p)
        else:
            flow.x = limited(updated(flow.x, header.signal, header.signal - flow.signal, delta, p), p)
        flow.signal = header.signal
        flow.heard = header.reports
        if p.frames == 0.0:
            env.rate = flow.x


def flow_on_timer(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Capture the next frame."""
    encoder.next_frame(flow, flow.x, p, env)
