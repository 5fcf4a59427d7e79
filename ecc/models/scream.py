"""SCReAM version 2: a window for real-time media from losses, marks and queueing delay, and rates from the window.

Text: draft-ietf-ccwg-rfc8298bis-screamv2, the editors' copy of 2026 (d30e8b8), and the authors' program
(github.com/EricssonResearch/scream, ScreamV2Tx.cpp of July 2026). Constants and order of operations are the draft's.

The receiver reports each packet (RFC 8888). At each report the sender computes

    d          one-way delay of the newest packet over its minimum, the queueing delay
    d_avg      <- d if d < d_avg, otherwise d_avg + (d - d_avg)/4                      every V = min(VIRTUAL_RTT, s_rtt)
    v          <- v + (clip(d/0.025 - 1/4, 0, 1.5 v_th) - v)/64,   v_th = max(0.05, 0.1 - MSS/W)                 every V
    alpha      <- alpha + (f - alpha)/8 if f >= alpha, otherwise alpha (1 - 1/128)            every min(10 ms, s_rtt)
    f          share of marked packets since the last update of alpha
    scl        = clip((8 (W - W_i)/W_i)^2, 0.1, 1)
    calm       = max(0.1, 1 - v/v_th)

    lost since the last reaction      W <- BETA_LOSS W                                 at most one reaction every V
    else marked, classic ECN          W <- BETA_ECN W
    else marked, L4S                  W <- W (1 - b alpha/(2 h)),   h = max(1, s_rtt/VIRTUAL_RTT)
    else d_avg > target/2             W <- W (1 - a/(2 h)),   a = clip(2 d_avg/target - 1, 0, 1)
    b          = max(0.25, scl) calm if d < target/4, otherwise 1
    W_i        W before a reaction, kept for 10 s_rtt

    W <- W + acked (MSS/W) min(1, s_rtt/VIRTUAL_RTT) max(0.25, scl) calm [1 + MUL (W/MSS) post scl]
    post       = min(1, time since the last loss or mark/(100 max(VIRTUAL_RTT, s_rtt)))

    acked      bytes newly acknowledged without marks, lost ones included
    growth     only while W <= MSS + 1.5 max(bytes in flight of the last two RTTs), and the rate is below its maximum

    rate       x = clip(8 W/s_rtt [1 - clip(MSS/W - 0.1, 0, 0.2)] MSS/(MSS + overhead)/(1.2 + adjust + deviation))
    adjust     integral of the media queue's delay over 1/4 frame, per frame; deviation: mean excess of frames' sizes
    bytes in flight   at most W [1.5 + 1.5 max(0, 1 - v/v_th)], and at most 4096 packets (`ecc.models.shared.feedback`)
    pacing     1.5 x, up to 6 x near the maximum rate

    W  reference window [bytes]    MSS  packet size [bytes]    s_rtt  smoothed RTT, without waits for reports [s]

The target is adapted to competing flows that fill the queue (`competing`; the draft permits to leave this out).

Two marks per RTT: with scl = 0.1 on both sides, growth of 1/4 MSS per RTT balances reductions by alpha W/8 per RTT, so
that alpha W = 2 MSS. The division by h keeps the reductions per RTT constant beyond VIRTUAL_RTT, when they occur
s_rtt/V times in an RTT. alpha exceeds the probability p of independent marks, because it rises 16 times as fast as it
falls. `marked_window` has the window at p: per second, growth and reductions are

    x (1 - p) (MSS/W) min(1, R/VIRTUAL_RTT)/4 = W E[alpha]/(8 h t)

with E[alpha] the mean at reactions and t the mean time between them. Both are those of the chain of alpha, the reports
since the last reaction, and whether one of these had a mark; a report of n packets has a binomial number of marks.

The loop of the rate, with a window that does not move: x = const/s_rtt, s_rtt follows the RTT R by 1/8 of their
difference at each report, and the queue integrates x - C. For deviations d of the delay and y of s_rtt, and reports T
apart,

    d'(t) = -y(t)/R,    y <- y + [d(t - R) - y]/8 at each report

(`rate_loop`). The determinant of its map from report to report is 1 if R <= T: oscillations of the rate then do not
decay. For R > T they do, slowly; an additional delay, such as that of an encoder, makes them grow (docs/media.md).

Differences of the program: V = min(30 ms, s_rtt) and h with 30 ms; MUL 0.05; post over 200 RTTs; target 0.1 to 0.3 s;
BETA_ECN 0.9; divisor 1.1; reductions by marks and delays are 1/4 while the target is below 0.8 of the acknowledged
rate; a is divided by h twice; v from the range of delays; W_i is renewed after each growth; losses above 10 % are
treated as those of a policer. All of its constants can be set here, not its rules. Not modeled: clock drift, several
streams, a reordering window (packets that a report lacks are lost), and the window's history of 10 minutes for the
minimum delay, which is that of the run.

The fluid has the functions of the hooks, at reports: `on_step` reads RTT, acknowledged, marked and lost data from the
path, and sets the rate. Delays are those of the RTT over its minimum. It has no frames.

`cycle_orbit` has the cycle of one flow without marks: data as a fluid on a link, with the clock of reports and exact
delays, and the functions of the hooks. The loop of the rate oscillates, and peaks of the delay reduce the window.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import ceil, comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import (
    RATE,
    SIZE,
    TIME,
    Quantity,
    QuantityField,
    SizeField,
    as_delay,
    as_rate,
    as_size,
    default,
)
from ecc.contract.env import FlowEnv, FluidEnv, Hook, Params
from ecc.contract.forms import CycleOrbit, OperatingRange, StateMachine
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.elementary import sqrt
from ecc.linear import SampledSystem
from ecc.linear.sample_and_hold import Clock, SampleAndHold, Term
from ecc.models.shared import encoder, feedback, reported_media
from ecc.network.network import Network

ECN = ("none", "classic", "l4s")
L4S = 2.0
KEEP = 10.0  # RTTs between updates of W_i
MIN_GROWTH, MIN_SCALE, NEAR = 0.25, 0.1, 8.0  # lower limits of scl, and its slope
LARGE_DELAY = 0.25  # share of the target above which reductions by marks are in full
DEVIATION_GAIN, MAX_DEVIATION = 1.0 / 64.0, 1.5  # gain of v, and its maximum over its threshold
DIVISOR = 1.2  # divisor in the rate of the media
ADJUST_GAIN, MAX_ADJUST, SIZE_GAIN, MAX_SIZE = 1.0 / 16.0, 0.5, 1.0 / 64.0, 0.2
MIN_PACE, RELAXED_FROM, MAX_RELAXED = 50e3, 0.8, 4.0  # bit/s; share of the maximum rate; factor
TIMEOUT = 0.5  # s without a packet sent after which packets in flight count as lost (ScreamV2Tx.cpp)
HISTORY, RECENT, HISTORY_STEP = 200, 50, 0.05  # delays for the target; those in its mean; s (ScreamV2Tx.cpp)
_SETTLING, _CYCLES, _MAX_REPORTS = 100, 20, 40_000  # cycles before those examined, cycles examined; reports
_IRREGULAR, _PERTURBATION, _FLOOR = 0.1, 1e-3, 2e-5  # deviation of periods; change of a window; smallest effect of it
_POINTS, _CLOSE = 200, 2e-3  # values of alpha in its chain; relative error of a window
LOSS_WEIGHT, LOSS_EVENTS, STEADY = 0.02, 0.002, 0.2  # per RTT; share of RTTs; variance of delays over the target


@dataclass
class Header(encoder.FrameHeader, feedback.FeedbackHeader):
    """Header fields of data, and of reports."""


@dataclass
class FlowState(encoder.FrameState, feedback.FeedbackState):
    """A flow's state; sizes in bytes, times in s."""

    x: float = 0.0  # rate [bit/s]
    window: float = 0.0  # W
    inflection: float = 1.0  # W_i
    size: int = 0  # size of the last packet
    cleared: int = 0  # number of the last packet that no longer counts as in flight
    sent_time: float = 0.0  # time of the last packet sent
    srtt: float = 0.0  # s_rtt; 0: no sample
    base: float = -1e9  # minimum one-way delay; < -1e8: no sample
    delay: float = 0.0  # d
    delay_average: float = 0.0  # d_avg
    variation: float = 0.0  # v
    averaged: float = -1e9  # time of the last update of d_avg
    alpha: float = 0.0
    alpha_time: float = -1e9  # time of its last update
    delivered: int = 0  # packets received since then
    delivered_marked: int = 0  # those of them that are marked
    is_lost: int = 0  # 1: a loss since the last reaction
    is_marked: int = 0  # 1: a mark since the last reaction
    reacted: float = -1e9  # time of the last reaction
    congested: float = -1e9  # time of the last loss or mark
    inflection_time: float = -1e9  # time of the last update of W_i
    reactions: int = 0  # number of reductions of W
    in_flight: int = 0  # maximum bytes in flight in this RTT
    in_flight_before: int = 0  # maximum in the RTT before
    round_time: float = -1e9  # begin of this RTT
    adjust: float = 0.0  # rate_adjust_factor
    size_deviation: float = 0.0  # frame_size_dev
    target_delay: float = 0.0  # qdelay_target
    norms: tuple[float, ...] = (0.0,) * HISTORY  # last delays over the minimum of the target
    norm_count: int = 0
    norm_time: float = -1e9
    lossy: int = 0  # 1: a loss in this RTT
    loss_rate: float = 0.0  # loss_event_rate, averaged share of RTTs with losses


@dataclass
class FluidState:
    """A flow's state in the fluid, as in `FlowState`; sizes in bytes, times in s."""

    target: float = 0.0  # rate of the media [bit/s]; 0: not started
    window: float = 0.0
    inflection: float = 1.0
    size: float = 0.0
    srtt: float = 0.0
    base: float = -1e9
    delay: float = 0.0
    delay_average: float = 0.0
    variation: float = 0.0
    averaged: float = -1e9
    alpha: float = 0.0
    alpha_time: float = -1e9
    delivered: float = 0.0
    delivered_marked: float = 0.0
    is_lost: float = 0.0
    is_marked: float = 0.0
    reacted: float = -1e9
    congested: float = -1e9
    inflection_time: float = -1e9
    reactions: float = 0.0
    in_flight: float = 0.0
    in_flight_before: float = 0.0
    round_time: float = -1e9
    adjust: float = 0.0
    size_deviation: float = 0.0
    target_delay: float = 0.0
    norm_count: float = 0.0
    norm_time: float = -1e9
    lossy: float = 0.0
    loss_rate: float = 0.0
    acked: float = 0.0  # data acknowledged without marks since the last report
    due: float = 0.0  # time of the next report


@dataclass
class FluidMemory:
    """The last delays of a flow in the fluid."""

    norms: tuple[float, ...] = (0.0,) * HISTORY


@dataclass(frozen=True)
class SCReAM(encoder.EncodedMedia):
    """Self-Clocked Rate Adaptation for Multimedia, version 2.

    Parameters
    ----------
    min_rate, max_rate : float, bit/s, > 0
        Range of the rate, TARGET_BITRATE_MIN and TARGET_BITRATE_MAX, for example 150 kb/s and 1.5 Mb/s.
    ecn : str
        "none", "classic" (RFC 3168), or "l4s" (ECT(1), RFC 9331).
    beta_loss, beta_ecn : float, in (0, 1)
        Factors of the window after a loss and after a mark of classic ECN.
    virtual_rtt : float, s, > 0
        VIRTUAL_RTT; the program has 0.030 s for reactions.
    divided : bool
        Whether reductions by marks and delays are divided by h, as in the text; False shows the effect.
    queue_target, max_queue_target : float, s, > 0
        Target of the queueing delay (QDELAY_TARGET_LO), and its maximum while competing flows fill the queue
        (QDELAY_TARGET_HI); 0.1 and 0.3 s in the program.
    competing : bool
        Whether the target grows if competing flows fill the queue.
    min_window : int, bytes, > 0
        MIN_REF_WND, and the initial window.
    growth : float, >= 0
        Multiplicative growth per RTT far from W_i, MUL_INCREASE_FACTOR; 0.05 in the program.
    cautious_rtts : float, > 0
        RTTs after congestion until it is in force in full, POST_CONGESTION_DELAY_RTT; 200 in the program.
    overhead : int, bytes, > 0
        Bytes of headers of a packet, which the rate of the media does not have: PACKET_OVERHEAD.
    window_headroom : float, > 0
        Maximum window over bytes in flight, for growth: BYTES_IN_FLIGHT_HEAD_ROOM.
    min_overhead, max_overhead : float, >= 1
        Range of bytes in flight over the window, REF_WND_OVERHEAD_MIN and REF_WND_OVERHEAD_MAX.
    gain_up, gain_down : float, in (0, 1]
        Weights of a new share of marks in its average, alpha, as it rises (L4S_AVG_G_UP) and falls (L4S_AVG_G_DOWN).
    alpha_interval : float, s, > 0
        Maximum time between updates of alpha.
    delay_gain : float, in (0, 1]
        Weight of a growing delay in its average, QDELAY_AVG_G.
    variation : float, s, > 0
        Delay that counts as a variation of 1, QDELAY_DEV_NORM.
    min_calm : float, in (0, 1]
        MIN_QUEUE_DELAY_DEV_SCALE; 1 leaves out the optional restriction by the variation of delays.
    report_interval : float, s, > 0
        Time between two reports, for example 0.02.
    report_repeat : float, packets, >= 0
        Packets of earlier reports that a report repeats.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    min_rate: QuantityField = default(150e3)
    max_rate: QuantityField = default(1.5e6)
    ecn: str = "none"
    beta_loss: float = 0.7
    beta_ecn: float = 0.8
    virtual_rtt: QuantityField = default(0.025)
    divided: bool = True
    queue_target: QuantityField = default(0.06)
    max_queue_target: QuantityField = default(0.4)
    competing: bool = True
    min_window: SizeField = default(3000)
    growth: float = 0.02
    cautious_rtts: float = 100.0
    overhead: SizeField = default(20)
    window_headroom: float = 1.5
    min_overhead: float = 1.5
    max_overhead: float = 3.0
    gain_up: float = 0.125
    gain_down: float = 0.0078125
    alpha_interval: QuantityField = default(0.01)
    delay_gain: float = 0.25
    variation: QuantityField = default(0.025)
    min_calm: float = 0.1
    report_interval: QuantityField = default(0.02)
    report_repeat: float = 0.0

    dimensions = {
        **dict.fromkeys(("min_rate", "max_rate"), RATE),
        **dict.fromkeys(("virtual_rtt", "queue_target", "max_queue_target", "alpha_interval"), TIME),
        **dict.fromkeys(("variation", "report_interval"), TIME),
        **dict.fromkeys(("min_window", "overhead"), SIZE),
        **encoder.EncodedMedia.dimensions,
    }

    required_env = frozenset({"random"})
    equilibrium_is_static = False
    times = ()
    no_equilibrium = "its window grows until packets are marked, lost or delayed, and is reduced then"
    linear_refusal = "SCReAM has no linear model: its average of delays falls at once, and grows by a quarter"
    operating_range = OperatingRange((1e6, 3e6), (0.04, 0.2), packet_size=500, convergence=500.0)
    reference_loop = ReferenceLoop(1e6, (0.1,), "ours", 500)

    def __post_init__(self) -> None:
        for name in ("min_rate", "max_rate"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        object.__setattr__(self, "min_window", as_size(self.min_window, "min_window"))
        object.__setattr__(self, "overhead", as_size(self.overhead, "overhead"))
        times = {name: as_delay for name, dimension in self.dimensions.items() if dimension is TIME}
        check_number(self, **{name: read for name, read in times.items() if name != "pauses"})
        check_number(self, beta_loss=None, beta_ecn=None, growth=0.0, cautious_rtts=None, window_headroom=None)
        check_number(self, min_overhead=1.0, max_overhead=1.0, gain_up=None, gain_down=None, delay_gain=None)
        check_number(self, min_calm=None, report_repeat=0.0)
        check_choice(self, "ecn", ECN)
        check_choice(self, "competing", (True, False))
        check_choice(self, "divided", (True, False))
        limits = {"min_rate": self.max_rate, "queue_target": self.max_queue_target, "min_overhead": self.max_overhead}
        for name, limit in {**limits, **dict.fromkeys(("gain_up", "gain_down", "delay_gain", "min_calm"), 1.0)}.items():
            if getattr(self, name) > limit:
                raise ValueError(f"{name} must be <= {limit:g}, got {shown(getattr(self, name))}")
        for name in ("beta_loss", "beta_ecn"):
            if not getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be < 1, got {shown(getattr(self, name))}")
        super().__post_init__()

    def params(self) -> dict[str, Any]:
        """Return the parameters, with the index of `ecn`."""
        return {**super().params(), "ecn": float(ECN.index(self.ecn))}

    @property
    def ecn_echo(self) -> str | None:
        return {"none": None, "classic": "accurate", "l4s": "scalable"}[self.ecn]

    # ---- cycle -------------------------------------------------------------------------------------------

    def cycle_orbit(self, network: Network) -> CycleOrbit:
        """Return the cycle of one flow on one link without marks, from reductions to reductions by the delay."""
        return delay_cycle(self, network)

    # ---- windows at random marks -------------------------------------------------------------------------

    @check_arguments
    def marked_window(self, probability: float, rtt: Quantity, packet_size: Quantity) -> float:
        """Return the mean window of L4S if packets are marked independently of each other, without a queue [bytes].

        For packets that are evenly spaced. Packet runs have it within 4 % for windows of ten packets or more.

        Parameters
        ----------
        probability : float
            Probability that a packet is marked, > 0 and < 1.
        rtt : float, s
            RTT, > 0.
        packet_size : int, bytes
            Size of packets, > 0.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            An argument out of range; an interval of reports that is shorter than `alpha_interval`, so that alpha is not
            updated at each report, or so long that a report is full before.
        ConvergenceError
            No window balances growth and reductions.

        Examples
        --------
        >>> hosts = SCReAM(ecn="l4s", max_rate="100 Mb/s")
        >>> round(hosts.marked_window(0.05, "25 ms", 1360) * 0.05 / 1360, 2)  # packets marked per RTT
        1.31
        """
        if not 0.0 < probability < 1.0:
            raise ValueError(f"probability must be > 0 and < 1, got {shown(probability)}")
        path, size = as_delay(rtt, "rtt"), as_size(packet_size, "packet_size")
        if self.report_interval < min(self.alpha_interval, path):
            raise ValueError(
                f"report_interval must be >= {min(self.alpha_interval, path):g} s, the interval of alpha, got "
                f"{self.report_interval:g}"
            )
        return balanced_window(self.namespace(), probability, path, size)

    # ---- the loop of the rate ----------------------------------------------------------------------------

    @check_arguments
    def rate_loop(self, rtt: Quantity) -> SampledSystem:
        """Return the loop of the rate for a window that does not move: delay, s_rtt, and the rate of the last frame.

        Parameters
        ----------
        rtt : float, s
            RTT with the queue at equilibrium, > 0.

        Returns
        -------
        SampledSystem
            Its step is the time after which the ticks of reports and frames repeat.

        Raises
        ------
        ValueError
            An RTT out of range, or reports and frames whose ticks do not repeat within 1000 states.

        Examples
        --------
        >>> SCReAM(report_interval="100 ms").rate_loop("80 ms").spectral_radius > 1 - 1e-7  # deviations do not decay
        True
        >>> SCReAM(report_interval="20 ms").rate_loop("80 ms").is_stable
        True
        """
        path = as_delay(rtt, "rtt")
        if not path > 0.0:
            raise ValueError(f"rtt must be > 0 s, got {shown(path)}")
        return loop_of_rate(path, float(self.report_interval), self.frames)

    @property
    def fluid_form(self) -> StateMachine | None:
        return None if self.frames else StateMachine(on_step, FluidState, memory=FluidMemory())

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_receive": reported_media.flow_on_receive,
            "on_report": reported_media.flow_on_report,
            "on_control": flow_on_control,
            "on_timer": flow_on_timer,
        }


# Hooks ----------------------------------------------------------------------------------------------------------------


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Start with the minimum window, at the minimum rate."""
    flow.x = max(flow.x, p.min_rate)
    flow.window = p.min_window
    flow.target_delay = p.queue_target
    flow.sent_time = env.now
    encoder.open_media(flow, flow.x, p, env)
    if p.frames == 0.0:
        env.timer = TIMEOUT


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Number a packet, name its frame, and stop if the window is full."""
    flow.size = env.packet_size
    flow.sent_time = env.now
    encoder.packet_sent(flow, header, p, env)
    feedback.packet_sent(flow, header, env)
    flow.in_flight = max(flow.in_flight, bytes_in_flight(flow))
    if is_full(flow, p):
        env.rate = 0.0


def flow_on_control(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Update delays, window and rate by a report."""
    before = flow.reported_to
    feedback.read_report(flow, header, env)
    if flow.received > 0 and flow.received_arrival[flow.received - 1] >= 0.0:
        newest = flow.received - 1
        waited = header.stamp / feedback.STAMP_UNITS - flow.received_arrival[newest]
        for k in range(flow.received):
            if flow.received_arrival[k] >= 0.0:
                note_base(flow, flow.received_arrival[k] - flow.received_sent[k])
        note_delay(flow, flow.received_arrival[newest] - flow.received_sent[newest])
        note_rtt(flow, env.now - flow.received_sent[newest] - waited)
    if flow.srtt > 0.0:
        flow.delivered += flow.received
        flow.delivered_marked += flow.marked
        flow.is_lost = 1 if flow.lost > 0 else flow.is_lost
        flow.lossy = 1 if flow.lost > 0 else flow.lossy
        flow.is_marked = 1 if flow.marked > 0 else flow.is_marked
        adjust_target(flow, flow, p, env.now)
        acked = 1.0 * flow.size * (flow.reported_to - before - flow.marked)
        flow.x = respond(flow, acked, bytes_in_flight(flow), flow.x, p, env.now)
    release(flow, p, env)


def flow_on_timer(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Capture the next frame; send again if reports have been missing for long."""
    if env.now - flow.sent_time >= TIMEOUT:
        flow.cleared = flow.sent
    if p.frames == 0.0:
        env.timer = TIMEOUT
    else:
        capture(flow, p, env)
    release(flow, p, env)


# Sending --------------------------------------------------------------------------------------------------------------


def bytes_in_flight(flow: FlowState) -> int:
    """The bytes sent after the newest packet that has been reported."""
    return flow.size * (flow.sent - max(flow.reported_to, flow.cleared))


def variation_threshold(flow: Any) -> float:
    """The threshold v_th of the variation of delays."""
    threshold: float = max(0.05, 0.1 - min(flow.size / flow.window, 1.0))
    return threshold


def is_full(flow: FlowState, p: Params) -> bool:
    """Return whether the send window is closed, or the record of sending times is full."""
    if flow.sent - max(flow.reported_to, flow.cleared) >= feedback.SENT:
        return True
    return bytes_in_flight(flow) >= send_window(flow, p)


def send_window(flow: Any, p: Params) -> float:
    """The maximum number of bytes in flight."""
    quiet = max(0.0, 1.0 - flow.variation / variation_threshold(flow))
    window: float = flow.window * (p.min_overhead + (p.max_overhead - p.min_overhead) * quiet)
    return window


def pace(flow: FlowState, p: Params) -> float:
    """The rate at which frames leave, which is relaxed near the maximum rate."""
    relaxed = min(1.0, (flow.x / p.max_rate - RELAXED_FROM) / (1.0 - RELAXED_FROM))
    scale = min(1.0, max(1.0 / MAX_RELAXED, 1.0 - relaxed))
    return p.headroom * max(MIN_PACE, flow.x) / scale


def release(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Send, if there are packets and the window is open."""
    if is_full(flow, p):
        env.rate = 0.0
    elif p.frames == 0.0:
        env.rate = flow.x
    elif flow.last_of[flow.encoded % encoder.RING] > flow.sent:
        env.rate = pace(flow, p)


def capture(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Capture a frame, and measure delay of the media queue and size of the frame."""
    period = 1.0 / p.frames
    waited = 0.0
    if flow.last_of[flow.encoded % encoder.RING] > flow.sent:
        oldest = flow.sending if flow.last_of[flow.sending % encoder.RING] > flow.sent else flow.sending + 1
        waited = env.now - flow.captured_of[oldest % encoder.RING]
    flow.adjust += ADJUST_GAIN * (waited - 0.25 * period) / period
    flow.adjust = min(max(flow.adjust, 0.0), MAX_ADJUST)
    encoded, rest, nominal = flow.encoded, flow.rest, flow.target * period / 8.0
    last = flow.last_of[encoded % encoder.RING] if encoded > 0 else flow.sent
    encoder.next_frame(flow, flow.x, p, env)
    if flow.encoded > encoded:
        size = env.packet_size * (flow.last_of[flow.encoded % encoder.RING] - last) + flow.rest - rest
        excess = max(0.0, (size - nominal) / nominal)
        flow.size_deviation = min(MAX_SIZE, flow.size_deviation + SIZE_GAIN * (excess - flow.size_deviation))


# Measurements ---------------------------------------------------------------------------------------------------------


def note_base(flow: Any, delay: float) -> None:
    """Keep the minimum one-way delay."""
    flow.base = delay if flow.base < -1e8 else min(flow.base, delay)


def note_delay(flow: Any, delay: float) -> None:
    """Compute the queueing delay from a one-way delay."""
    flow.delay = max(delay - flow.base, 0.0)


def note_rtt(flow: Any, rtt: float) -> None:
    """Smooth the RTT (RFC 6298, sec. 2)."""
    flow.srtt = rtt if flow.srtt == 0.0 else flow.srtt + 0.125 * (rtt - flow.srtt)


def average_marks(flow: Any, p: Params, now: float) -> None:
    """Update alpha: it rises fast and falls slowly."""
    if now - flow.alpha_time >= min(p.alpha_interval, flow.srtt) and flow.delivered > 0:
        share = flow.delivered_marked / flow.delivered
        if share >= flow.alpha:
            flow.alpha += p.gain_up * (share - flow.alpha)
        else:
            flow.alpha *= 1.0 - p.gain_down
        flow.alpha_time = now
        flow.delivered, flow.delivered_marked = 0, 0


def average_delay(flow: Any, p: Params, now: float) -> None:
    """Update the average of the delay, which falls at once, and its variation."""
    if now - flow.averaged >= min(p.virtual_rtt, flow.srtt):
        if flow.delay < flow.delay_average:
            flow.delay_average = flow.delay
        else:
            flow.delay_average += p.delay_gain * (flow.delay - flow.delay_average)
        limit = MAX_DEVIATION * variation_threshold(flow)
        excess = min(max((flow.delay - 0.25 * p.variation) / p.variation, 0.0), limit)
        flow.variation += DEVIATION_GAIN * (excess - flow.variation)
        flow.averaged = now


def adjust_target(flow: Any, history: Any, p: Params, now: float) -> None:
    """Raise the target of the delay if competing flows keep the queue long; `history` holds the last delays."""
    if p.competing == 0.0 or now - flow.norm_time < HISTORY_STEP:
        return
    flow.norm_time = now
    newest = int(flow.norm_count) % HISTORY
    history.norms[newest] = flow.delay / p.queue_target
    flow.norm_count += 1
    recent, total, squares = 0.0, 0.0, 0.0
    for k in range(HISTORY):
        total += history.norms[k] / HISTORY
        squares += history.norms[k] * history.norms[k] / HISTORY
    for k in range(RECENT):
        recent += history.norms[(newest - k + HISTORY) % HISTORY] / RECENT
    variance = max(squares - total * total, 0.0)
    target = p.queue_target * (recent + sqrt(variance))
    if flow.loss_rate > LOSS_EVENTS:
        flow.target_delay = 1.5 * target
    elif variance < STEADY:
        flow.target_delay = target
    elif target < p.queue_target:
        flow.target_delay = max(0.5 * flow.target_delay, target)
    else:
        flow.target_delay *= 0.9
    flow.target_delay = max(p.queue_target, min(p.max_queue_target, flow.target_delay))


# Window ---------------------------------------------------------------------------------------------------------------


def respond(flow: Any, acked: float, in_flight: float, rate: float, p: Params, now: float) -> float:
    """Update the window, and return the new rate.

    `acked` are bytes newly acknowledged without marks, `in_flight` bytes in flight, and `rate` is the rate until now.
    """
    average_marks(flow, p, now)
    average_delay(flow, p, now)
    if now - flow.round_time >= flow.srtt:
        flow.in_flight_before = flow.in_flight
        flow.in_flight = in_flight
        flow.loss_rate += LOSS_WEIGHT * (flow.lossy - flow.loss_rate)
        flow.lossy = 0
        flow.round_time = now
    distance = NEAR * (flow.window - flow.inflection) / flow.inflection
    scale = max(MIN_SCALE, min(1.0, distance * distance))
    calm = max(p.min_calm, 1.0 - flow.variation / variation_threshold(flow))
    reduce_window(flow, scale, calm, p, now)
    if rate < p.max_rate:
        grow_window(flow, acked, scale, calm, p, now)
    rate = media_rate(flow, p)
    if rate >= p.max_rate:
        limit = max(flow.in_flight, flow.in_flight_before, p.headroom * p.max_rate * flow.srtt / 8.0)
        flow.window = max(min(flow.window, limit), p.min_window)
    return rate


def reduce_window(flow: Any, scale: float, calm: float, p: Params, now: float) -> None:
    """Reduce the window by losses, marks or the delay, once every min(VIRTUAL_RTT, s_rtt)."""
    if flow.is_lost > 0 or flow.is_marked > 0:
        flow.congested = now
    since = now - flow.reacted
    is_delayed = flow.delay_average > 0.5 * flow.target_delay
    if since < min(p.virtual_rtt, flow.srtt) or not (flow.is_lost > 0 or flow.is_marked > 0 or is_delayed):
        return
    if now - flow.inflection_time > KEEP * flow.srtt:
        flow.inflection_time = now
        flow.inflection = flow.window
    repeated = reductions_per_rtt(flow.srtt, p)
    if flow.is_lost > 0:
        flow.window *= p.beta_loss
    elif flow.is_marked > 0 and p.ecn == L4S:
        reduction = 0.5 * flow.alpha / repeated
        if flow.delay < LARGE_DELAY * flow.target_delay:
            reduction *= max(MIN_GROWTH, scale) * calm
        if since > 100.0 * max(p.virtual_rtt, flow.srtt) and flow.in_flight_before > 0:
            flow.window = min(flow.window, 1.0 * flow.in_flight_before)
        flow.window *= 1.0 - reduction
    elif flow.is_marked > 0:
        flow.window *= p.beta_ecn
    else:
        excess = min(1.0, 2.0 * flow.delay_average / flow.target_delay - 1.0)
        flow.window *= 1.0 - 0.5 * excess / repeated
    flow.window = max(flow.window, p.min_window)
    flow.reacted = now
    flow.reactions += 1
    flow.is_lost, flow.is_marked = 0, 0


def reductions_per_rtt(rtt: float, p: Params) -> float:
    """The number by which reductions are divided, because so many can occur in an RTT."""
    return max(1.0, rtt / p.virtual_rtt) if p.divided > 0.0 else 1.0


def grow_window(flow: Any, acked: float, scale: float, calm: float, p: Params, now: float) -> None:
    """Grow the window by acknowledged bytes without marks, unless the media do not use it."""
    post = min(1.0, (now - flow.congested) / (p.cautious_rtts * max(p.virtual_rtt, flow.srtt)))
    increment = acked * min(1.0, flow.size / flow.window) * min(1.0, flow.srtt / p.virtual_rtt)
    increment *= max(MIN_GROWTH, scale) * calm
    increment *= 1.0 + p.growth * flow.window / flow.size * post * scale
    allowed = flow.size + p.window_headroom * max(flow.in_flight, flow.in_flight_before)
    if flow.window + increment <= allowed:
        flow.window += increment


def media_rate(flow: Any, p: Params) -> float:
    """The rate of the media for a window."""
    share = media_share(flow.window, flow.size, flow.adjust + flow.size_deviation, p)
    rate: float = min(max(8.0 * flow.window * share / flow.srtt, p.min_rate), p.max_rate)
    return rate


def media_share(window: float, size: float, variation: float, p: Params) -> float:
    """The share of the window per RTT that media use, for packets of a size, and variations of frames."""
    small = 1.0 - min(0.2, max(0.0, min(size / window, 1.0) - 0.1))
    return small * size / (size + p.overhead) / (DIVISOR + variation)


# Fluid ----------------------------------------------------------------------------------------------------------------


def on_step(flow: FluidState, header: FluidMemory, p: Params, env: FluidEnv) -> None:
    """Collect what has been acknowledged, and respond to it at reports."""
    if flow.target == 0.0:
        flow.target, flow.window, flow.size = p.min_rate, p.min_window, env.packet_size / 8.0
        flow.target_delay, flow.due = p.queue_target, env.now + p.report_interval
    flow.acked += (1.0 - env.marked) * env.acked / 8.0
    flow.delivered += env.acked
    flow.delivered_marked += env.marked * env.acked
    flow.in_flight = max(flow.in_flight, env.in_flight / 8.0)
    if env.marked > 0.0:
        flow.is_marked = 1.0
    if env.lost > 0.0:
        flow.is_lost, flow.lossy = 1.0, 1.0
    if env.now >= flow.due and env.rtt > 0.0:
        flow.due += p.report_interval
        note_base(flow, env.rtt)
        note_delay(flow, env.rtt)
        note_rtt(flow, env.rtt)
        adjust_target(flow, header, p, env.now)
        flow.target = respond(flow, flow.acked, env.in_flight / 8.0, flow.target, p, env.now)
        flow.acked = 0.0
    env.rate, env.window = flow.target, 8.0 * send_window(flow, p)


# The loop of the rate -------------------------------------------------------------------------------------------------


def loop_of_rate(rtt: float, interval: float, frames: float) -> SampledSystem:
    """Return the loop of deviations of the delay (0), s_rtt (1) and the rate of frames (2), at a fixed window."""
    terms = [Term(0, 2 if frames else 1, 0.0, 0, -1.0 / rtt), Term(1, 1, 0.0, 0, 0.875), Term(1, 0, rtt, 0, 0.125)]
    clocks = {1: Clock(interval)}
    if frames:  # a frame has the rate of one frame ago
        terms.append(Term(2, 1, 1.0 / frames, 0, 1.0))
        clocks[2] = Clock(1.0 / frames)
    return SampleAndHold(len(clocks) + 1, clocks, terms, 0.25 * rtt).recurrence(terms)


# Windows at random marks ----------------------------------------------------------------------------------------------


def balanced_window(p: Params, probability: float, rtt: float, size: float) -> float:
    """Return the window at which growth equals reductions [bytes]."""
    reports = max(ceil(min(p.virtual_rtt, rtt) / p.report_interval - 1e-9), 1)
    repeated = reductions_per_rtt(rtt, p)

    def excess(window: float) -> float:
        share = media_share(window, size, 0.0, p)
        packets = share * window / rtt * p.report_interval / size
        alpha, wait = alpha_at_reactions(probability, packets, reports, p)
        growth = share * size * (1.0 - probability) * min(1.0, rtt / p.virtual_rtt) / rtt
        return growth - 0.5 * alpha * window / repeated / (wait * p.report_interval)

    full = feedback.BLOCKS * size * rtt / (p.report_interval * media_share(1e9 * size, size, 0.0, p))
    low, high = 0.3 * size / probability, min(5.0 * size / probability, full)
    if high == full and (low > full or excess(full) > 0.0):
        raise ValueError(
            f"report_interval must be so short that a report has {feedback.BLOCKS} packets or fewer, got "
            f"{p.report_interval:g} s with probability = {probability:g}"
        )
    if not excess(low) > 0.0 > excess(high):
        raise ConvergenceError(f"no window balances growth and reductions at probability = {probability:g}")
    while high > (1.0 + _CLOSE) * low:
        middle = sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return sqrt(low * high)


def alpha_at_reactions(probability: float, packets: float, reports: int, p: Params) -> tuple[float, float]:
    """Return the mean of alpha at reactions, and the mean number of reports between two.

    `packets` is the mean number of packets of a report, and `reports` the minimum number between two reactions.
    """
    spread = sqrt(probability * (1.0 - probability) / max(packets, 1.0))
    top = min(1.0, probability + 8.0 * spread + 2.0 / max(packets, 1.0))
    grid = np.linspace(0.0, top, _POINTS)
    steps = np.zeros((2, _POINTS, _POINTS))  # from alpha to alpha, in a report without marks and in one with marks
    rows, fewer = np.arange(_POINTS), int(packets)
    for n, weight in ((fewer, fewer + 1.0 - packets), (fewer + 1, packets - fewer)):
        for marks in range(n + 1):
            chance = weight * comb(n, marks) * probability**marks * (1.0 - probability) ** (n - marks)
            share = marks / n if n > 0 else 0.0
            after = np.where(share >= grid, grid + p.gain_up * (share - grid), grid * (1.0 - p.gain_down))
            place = np.minimum(after if n > 0 else grid, top) / top * (_POINTS - 1)
            below = np.minimum(place.astype(int), _POINTS - 2)
            steps[int(marks > 0), rows, below] += chance * (below + 1.0 - place)
            steps[int(marks > 0), rows, below + 1] += chance * (place - below)
    clean, marked = steps
    until_mark = np.linalg.inv(np.eye(_POINTS) - clean)
    both = clean + marked
    # rows: alpha at a reaction; columns: alpha after reports without marks since then, or with some
    without = np.linalg.matrix_power(clean, reports - 1)
    some = np.linalg.matrix_power(both, reports - 1) - without
    waiting = without @ clean @ until_mark
    kernel = some @ both + without @ marked + waiting @ marked
    law = _stationary(kernel)
    return float(law @ grid), float(reports + (law @ waiting).sum())


def _stationary(kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the stationary distribution of a chain."""
    system = np.vstack([kernel.T - np.eye(len(kernel)), np.ones(len(kernel))])
    law, *_ = np.linalg.lstsq(system, np.append(np.zeros(len(kernel)), 1.0), rcond=None)
    return np.asarray(law)


# Cycle ----------------------------------------------------------------------------------------------------------------


@dataclass
class _Link:
    """A flow whose data is a fluid on a link: its state, and the pieces of constant rate since some time."""

    p: Any
    flow: Any
    capacity: float  # [bit/s]
    rtt: float  # with the service time of a packet, without the queue [s]
    pieces: list[tuple[float, float, float, float]]  # begin [s], queue [bit], data sent [bit], rate [bit/s]
    reports: int = 0
    taken: float = 0.0  # data acknowledged [bit]
    quiet: int = 0  # reports since the last reduction

    def report(self) -> tuple[float, float, float, float]:
        """Let the next report change the rate; return its time, the queue, the rate and the window."""
        self.reports += 1
        at_receiver = self.reports * self.p.report_interval
        delay, sent = self._seen(at_receiver - 0.5 * self.rtt)
        now = at_receiver + 0.5 * self.rtt
        flow, before = self.flow, self.flow.reactions
        flow.delay = delay
        note_rtt(flow, self.rtt + delay)
        flow.in_flight = flow.window
        adjust_target(flow, flow, self.p, now)
        flow.x = respond(flow, (sent - self.taken) / 8.0, flow.window, flow.x, self.p, now)
        self.taken = sent
        self.quiet = 0 if flow.reactions > before else self.quiet + 1
        begin, queue, total, rate = self.pieces[-1]
        queue = max(queue + (rate - self.capacity) * (now - begin), 0.0)
        self.pieces.append((now, queue, total + rate * (now - begin), flow.x))
        return now, queue, flow.x, flow.window

    def _seen(self, departure: float) -> tuple[float, float]:
        """Return the delay of the data that leaves the queue at a time, and the data sent until it."""
        place = len(self.pieces) - 1
        while place > 0 and self.pieces[place][0] + self.pieces[place][1] / self.capacity > departure:
            place -= 1
        del self.pieces[:place]
        begin, queue, total, rate = self.pieces[0]
        entry = begin + (departure - begin - queue / self.capacity) * self.capacity / rate
        if queue + (rate - self.capacity) * (entry - begin) < 0.0:
            entry = departure
        return departure - entry, total + rate * (entry - begin)


def delay_cycle(protocol: Any, network: Network) -> CycleOrbit:
    """Return the cycle of one flow on one link without marks.

    Parameters
    ----------
    protocol : SCReAM
    network : Network
        Network of one link and one flow.

    Raises
    ------
    LinearizationError
        Another network, an encoder of frames, or a capacity outside the range of rates.
    ConvergenceError
        The delay does not reduce the window regularly within 40,000 reports.
    """
    capacity, rtt, size = reported_media.of_flow_alone(protocol, network)
    if not protocol.min_rate < capacity < protocol.max_rate:
        raise LinearizationError(
            f"the capacity of {capacity:g} bit/s is not between min_rate = {protocol.min_rate:g} and "
            f"max_rate = {protocol.max_rate:g}"
        )
    link = _started(protocol, capacity, rtt + 8.0 * size / capacity, size)
    begins, rows = _cycles(link, _SETTLING)
    changed = deepcopy(link)
    changed.flow.window *= 1.0 + _PERTURBATION
    begins, rows = _cycles(link, _CYCLES)
    lengths = np.diff(begins)
    if lengths.std() > _IRREGULAR * lengths.mean():
        raise ConvergenceError(f"periods of SCReAM are irregular, from {lengths.min():.3g} to {lengths.max():.3g} s")
    count = len(rows)
    others = np.array([changed.report()[3] for _ in range(count)])
    time, queue, rate, window = np.array(rows).T
    per_cycle = max(round(count / _CYCLES), 1)
    effects = np.abs(np.add.reduceat(others / window - 1.0, np.arange(0, count, per_cycle)) / per_cycle)[:-1]
    effects = np.array([_PERTURBATION, *effects])
    seen = max(int(np.flatnonzero(effects > _FLOOR)[-1]), 1)
    multiplier = float((effects[seen] / effects[0]) ** (1.0 / seen))
    packets = reported_media.queue_of_packets(queue / 8.0, size)
    swings = [0.5 * np.ptp(packets[(time >= a) & (time < b)]) for a, b in zip(begins, begins[1:], strict=False)]
    last = (time >= begins[-2]) & (time < begins[-1])
    return CycleOrbit(
        float(lengths.mean()),
        float(queue.mean()) / 8.0 + size,
        float(np.mean(swings)),
        (multiplier,),
        np.repeat(time[last] - time[last][0], 2),
        packets[last].ravel(),
        np.repeat(rate[last], 2)[None],
        f"a fluid on a link with the clock of reports, mean of {len(lengths)} cycles",
        (f"the multiplier is the mean decay of a change of the window by {_PERTURBATION:g}, per cycle",),
    )


def _started(protocol: Any, capacity: float, rtt: float, size: float) -> _Link:
    """Return a flow that sends at the capacity, with a queue of half of the target."""
    flow = reported_media.initial_flow(FlowState)
    flow.size, flow.target_delay, flow.x = size, protocol.queue_target, capacity
    flow.delay = flow.delay_average = 0.5 * protocol.queue_target
    flow.srtt = rtt + flow.delay
    flow.window = flow.inflection = (
        capacity * flow.srtt / (8.0 * media_share(1e9 * size, size, 0.0, protocol.namespace()))
    )
    begin = -2.0 * flow.srtt
    return _Link(
        protocol.namespace(),
        flow,
        capacity,
        rtt,
        [(begin, flow.delay * capacity, 0.0, capacity)],
        taken=capacity * (-0.5 * rtt - flow.delay - begin),
    )


def _cycles(link: _Link, count: int) -> tuple[list[float], list[tuple[float, float, float, float]]]:
    """Run a number of cycles; return their begins, at the first reduction after a pause, and the rows of reports."""
    pause = ceil(link.p.virtual_rtt / link.p.report_interval) + 1
    begins, rows = list[float](), list[tuple[float, float, float, float]]()
    while len(begins) <= count:
        before = link.quiet
        rows.append(link.report())
        if link.quiet == 0 and before > pause:
            begins.append(rows[-1][0])
        if link.reports > _MAX_REPORTS:
            raise ConvergenceError(f"delays begin {len(begins)} reductions of SCReAM in {_MAX_REPORTS:,} reports")
    return begins, rows
