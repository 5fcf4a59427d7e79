"""GCC, Google Congestion Control: rates of real-time media follow the gradient of delays (draft-ietf-rmcat-gcc-02).

The receiver reports each packet (RFC 8888). Packets that are sent within `burst_time`, or arrive in a burst, form a
group. Of two groups, with t, T the times of arrival and departure of the last packet [ms], the sender computes

    d = t_i - t_(i-1) - (T_i - T_(i-1))                                                                sec. 5.1
    m <- m + k (d - m),   k = (e + q)/(var_v + e + q),   e <- (1 - k)(e + q)                           sec. 5.3
    var_v <- max(alpha var_v + (1 - alpha) min(z, 3 sqrt(var_v))^2, 1),   alpha = (1 - chi)^(30/(1000 f_max))
    M = min(n, `groups`) m                                                                             n groups so far
    over-use: M > gamma for `overuse_time`, and m does not decrease;   under-use: M < -gamma           sec. 5.4
    gamma <- gamma + (t_i - t_(i-1)) K (|M| - gamma) within [6, 600] ms, unless |M| > gamma + 15 ms
    K = `gain_down` if |M| < gamma, otherwise `gain_up` [1/ms]

At each report, with R the rate received within `window`, A is (sec. 5.5)

    increased after normal groups    by min(1.08^dt - 1, 8 %) A, or, if R is near the mean of R at over-uses, by
                                     max(1000 bit/s, min(dt/(rtt + 100 ms), 1)/2 packets);   to 1.5 R at most
    set to beta R                    after an over-use
    held                             after an under-use, and at the first normal group after an over-use

    near: within three standard deviations, estimated as in libwebrtc (the draft does not say how)
    packets: A/30 bits, divided into equal packets of 1200 bytes or less

and As <- 1.05 As if a share p < 2 % of packets was lost, As (1 - p/2) if p > 10 % (sec. 6). The rate is min(A, As).

form="libwebrtc" is the delay-based controller of the program (modules/congestion_controller/goog_cc):

    m           slope of the smoothed delay, s <- 0.9 s + 0.1 sum(d), over the arrivals of the last 20 groups
    M           4 min(n, 60) m;   K: 0.0087 up, 0.039 down
    over-use    begins a new count of `overuse_time`, and lasts until a group is below gamma
    increase    additive from the first over-use until R exceeds the mean by three deviations; at a rate of 1/2 packet
                per rtt + 100 ms, and 4 kb/s or more;   to 1.5 R + 10 kb/s at most
    decrease    to beta R - 5 kb/s, once per RTT (10 to 200 ms), then held
    losses      p over 20 packets or more; reductions 300 ms + rtt apart

Different here: the factor `groups` is in the programs only (libwebrtc, and pion/interceptor for the draft's filter);
with groups=1, as in the text, evenly spaced packets have no over-use, and frames sent at once have one when seconds of
data are queued. The draft bounds A by 1.5 R, the programs its increases, as here. libwebrtc's mean R by a Bayesian
filter, its probes of capacity, its second loss-based controller, its time-outs and the pacer (groups of 5 ms) are not
modeled; `ecc.models.shared.encoder` paces frames.

There is no fluid, because a fluid has no packets to form groups, and over-uses depend on these groups. With arrivals
exact to 1/65536 s, and not rounded to 1/1024 s, the period of the draft's form on a link of 4 Mb/s is 10.5 s, and not
4.4 s (docs/media.md).

There is no equilibrium: A rises until delays do. `cycle_orbit` has the cycle of one flow: packets at even distances,
and the clock of reports.

The flow sends at x. Of packets with the service time s/C that leave s/x apart, with the queueing delay w,

    w <- max(w + s/C - s/x, 0),   a packet is delayed by D/2 + w + s/C (D without a queue)

A report leaves `report_interval` after the last one, or as soon as it is full (64 packets). It rounds arrivals as
RFC 8888 does, to 1/1024 s. The functions of the hooks read it, and the new rate is in force D/2 later. The rounding
matters: a packet that seems to follow its predecessor closer than it was sent joins its group.

The rate is forgotten in each cycle: if the link has been busy for `window` before an over-use, R = C, and A = beta C
whatever it was. A cycle has up to three over-uses, in successive reports, before the queue is empty. From one cycle to
the next remain the mean of R, with the weight 0.95 at each over-use, and the threshold, with the product of
1 - K (t_i - t_(i-1)) over the groups that change it (at fixed times of over-uses). The mean alone decays slowly. It
decides, in the draft's form, from which rate on growth is additive. A report, and a change of A, moves it by 5 % of the
change of R only, so that the decay of rates and queues in packet runs does not show it.

    a = max(s_a/(2 (0.1 + D)), a_0)        growth of A near the mean [bit/s per s]; s_a: A/30 bits in equal packets
    period ~ [(1 - beta) C + e]/a          e: excess of A over C at the over-use

e follows from the ramp of the delay, w' = a t/C: the gradient exceeds the threshold later by the delay of its filter.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.quantity import PER_TIME, RATE, TIME, QuantityField, as_delay, as_rate, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import CycleOrbit, OperatingRange
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.elementary import exp, log, sqrt
from ecc.models.shared import encoder, feedback, reported_media
from ecc.network.network import Network

FORMS = ("draft", "libwebrtc")
DRAFT = 0.0
GAINS = ((0.01, 0.00018), (0.0087, 0.039))  # K_u and K_d of each form [1/ms]
SLOPE_GAIN, SMOOTHING, SLOPE_GROUPS = 4.0, 0.9, 20  # trendline_estimator.cc
GAPS = 60  # groups of f_max: K of sec. 5.3, overuse_estimator.cc
MIN_VARIANCE, OUTLIER, FIRST_ERROR = 1.0, 3.0, 0.1  # [ms^2]; deviations; e(0)
MIN_THRESHOLD, MAX_THRESHOLD, MAX_EXCESS, MAX_STEP = 6.0, 600.0, 15.0, 100.0  # [ms]
MAX_BURST = 0.1  # s, inter_arrival_delta.cc
GROWTH, MIN_GROWTH = 1.08, 1000.0  # per s; bit/s
MIN_SLOPE, EXTRA_LIMIT, EXTRA_DECREASE = 4000.0, 10e3, 5e3  # bit/s per s, bit/s, bit/s: aimd_rate_control.cc
MAX_RATIO = 1.5  # maximum of A/R at increases
FRAME_RATE, PACKET_BITS, REACTION = 30.0, 9600.0, 0.1  # 1/s, bit, s
MIN_WAIT, MAX_WAIT, FAR_BELOW = 0.01, 0.2, 0.5  # s between decreases; share of A below which there is no wait
MEAN_WEIGHT, MIN_DEVIATION, MAX_DEVIATION = 0.05, 400.0, 2500.0  # link_capacity_estimator.cc; bit/s
NEAR = 3.0  # deviations
LOW_LOSS, HIGH_LOSS, LOSS_GROWTH = 0.02, 0.1, 1.05
LOSS_PACKETS, LOSS_WAIT = 20, 0.3  # packets, s: send_side_bandwidth_estimation.cc
ARRIVALS = 1024  # packets whose arrivals the sender keeps
INCREASE, DECREASE, HOLD = range(3)
STATES = ("Increase", "Decrease", "Hold")
"""Names of `FlowState.state`."""
_SETTLING, _CYCLES = 3, 12  # cycles before those that are examined, and the number of these
_MAX_PACKETS = 500_000
"""Packets after which the search for a cycle ends: about 5 s of work."""


@dataclass
class FlowState(encoder.FrameState, feedback.FeedbackState):
    """A flow's state; times of groups in s, delays and thresholds in ms."""

    x: float = 0.0  # rate [bit/s]
    size: int = 0  # size of the last packet [bytes]
    arrivals: int = 0  # packets reported as received
    first_arrival: float = 0.0  # arrival of the first of them [s]
    arrival_of: tuple[float, ...] = (0.0,) * ARRIVALS  # arrivals of the last of them [s]
    groups: int = -2  # complete groups with a predecessor; -2: no packet, -1: one group
    first_sent: float = 0.0  # departure of the first packet of the current group [s]
    first_in: float = 0.0  # arrival of its first packet [s]
    last_sent_at: float = 0.0  # departure of its last packet [s]
    last_in: float = 0.0  # arrival of its last packet [s]
    before_sent: float = 0.0  # departure of the last packet of the group before [s]
    before_in: float = 0.0  # arrival of that packet [s]
    m: float = 0.0  # delay gradient [ms], or slope
    m_before: float = 0.0  # value for the group before
    error: float = FIRST_ERROR  # e [ms^2]
    variance: float = MIN_VARIANCE  # var_v [ms^2]
    gap: tuple[float, ...] = (0.0,) * GAPS  # last times between departures of groups [s]
    delay: float = 0.0  # sum of d [ms]
    smoothed: float = 0.0  # its average [ms]
    delay_of: tuple[float, ...] = (0.0,) * SLOPE_GROUPS  # averages of the last groups [ms]
    time_of: tuple[float, ...] = (0.0,) * SLOPE_GROUPS  # their arrivals [s]
    signal: float = 0.0  # M [ms]
    threshold: float = 0.0  # gamma [ms]
    updated: float = -1.0  # arrival at the last update of gamma; < 0: none
    over_time: float = -1.0  # time above gamma [ms]; < 0: below
    over_groups: int = 0  # groups above gamma
    usage: int = 0  # 1: over-use, -1: under-use
    state: int = INCREASE
    estimate: float = 0.0  # A [bit/s]
    received_rate: float = 0.0  # R [bit/s]
    changed: float = 0.0  # time of the last change of A [s]
    mean: float = 0.0  # mean of R at over-uses [bit/s]; 0: none
    deviation: float = MIN_DEVIATION  # its variance over the mean [bit/s]
    decreases: int = 0  # decreases by over-use
    loss_estimate: float = 0.0  # As [bit/s]
    loss_packets: int = 0  # packets reported since the last update of As
    loss_lost: int = 0  # lost packets among these
    loss_reduced: float = -1e9  # time of the last reduction by losses [s]


@dataclass
class Header(encoder.FrameHeader, feedback.FeedbackHeader):
    """Header fields of data, and of reports."""


@dataclass(frozen=True)
class GCC(encoder.EncodedMedia):
    """Google Congestion Control.

    Parameters
    ----------
    form : str
        "draft" (the Kalman filter of draft-ietf-rmcat-gcc-02), or "libwebrtc" (the slope of delays).
    min_rate, max_rate : float, bit/s, > 0
        Range of the rate, for example 150 kb/s and 1.5 Mb/s; `min_rate` is the initial rate.
    beta : float, in (0, 1)
        Rate after an over-use, relative to the received rate.
    threshold : float, s, > 0
        Initial threshold, del_var_th(0).
    gain_up, gain_down : float, 1/ms, >= 0
        K_u and K_d, gains of the threshold. None: those of the form.
    groups : float, >= 1
        Maximum number of groups by which the gradient is multiplied: 60 in the programs, 1 in the draft.
    overuse_time : float, s, > 0
        Time for which the gradient exceeds the threshold before over-use is signaled.
    burst_time : float, s, > 0
        Maximum time between the departures of the first and the last packet of a group.
    q : float, ms^2, > 0
        Variance of the gradient's change from group to group.
    chi : float, in (0, 1)
        Weight of a group in the variance of the measurement, at 30 groups per second: 0.001 to 0.1.
    window : float, s, > 0
        Time over which the received rate is measured, T: 0.5 to 1 s.
    report_interval : float, s, > 0
        Time between two reports, for example 0.1.
    report_repeat : float, packets, >= 0
        Packets of earlier reports that a report repeats.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    form: str = "draft"
    min_rate: QuantityField = default(150e3)
    max_rate: QuantityField = default(1.5e6)
    beta: float = 0.85
    threshold: QuantityField = default(0.0125)
    gain_up: float | None = None
    gain_down: float | None = None
    groups: float = 60.0
    overuse_time: QuantityField = default(0.01)
    burst_time: QuantityField = default(0.005)
    q: float = 1e-3
    chi: float = 0.01
    window: QuantityField = default(0.5)
    report_interval: QuantityField = default(0.1)
    report_repeat: float = 0.0

    dimensions = {
        **dict.fromkeys(("min_rate", "max_rate"), RATE),
        **dict.fromkeys(("threshold", "overuse_time", "burst_time", "window", "report_interval"), TIME),
        **dict.fromkeys(("gain_up", "gain_down"), PER_TIME),
        **encoder.EncodedMedia.dimensions,
    }

    required_env = frozenset({"random"})
    equilibrium_is_static = False
    times = ()
    no_equilibrium = "its rate rises until delays grow, and is reduced then"
    linear_refusal = "GCC has no linear model: an over-use of the path switches its rate from increase to decrease"
    operating_range = OperatingRange((1e6, 3e6), (0.04, 0.2), packet_size=500, convergence=500.0)
    reference_loop = ReferenceLoop(1e6, (0.1,), "ours", 500)

    def __post_init__(self) -> None:
        for name in ("min_rate", "max_rate"):
            object.__setattr__(self, name, as_rate(getattr(self, name), name))
        times = {name: as_delay for name, dimension in self.dimensions.items() if dimension is TIME}
        check_number(self, **{name: read for name, read in times.items() if name != "pauses"})
        check_number(self, beta=None, groups=1.0, q=None, chi=None, report_repeat=0.0)
        check_number(self, **{name: 0.0 for name in ("gain_up", "gain_down") if getattr(self, name) is not None})
        check_choice(self, "form", FORMS)
        if self.min_rate > self.max_rate:
            raise ValueError(f"min_rate must be <= {self.max_rate:g}, got {shown(self.min_rate)}")
        for name, limit in {"beta": 1.0, "chi": 1.0}.items():
            if not getattr(self, name) < limit:
                raise ValueError(f"{name} must be < {limit:g}, got {shown(getattr(self, name))}")
        super().__post_init__()

    def params(self) -> dict[str, Any]:
        """Return the parameters, with gains of the form and its index, and with `ecn` off."""
        up, down = GAINS[FORMS.index(self.form)]
        gains = {"gain_up": up, "gain_down": down, "form": float(FORMS.index(self.form)), "ecn": 0.0}
        return {**gains, **super().params()}

    # ---- cycle -------------------------------------------------------------------------------------------

    def cycle_orbit(self, network: Network) -> CycleOrbit:
        """Return the cycle of one flow on one link from over-use to over-use."""
        return over_use_cycle(self, network)

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
    """Start at the minimum rate."""
    if flow.x == 0.0:
        flow.x = p.min_rate
    flow.estimate, flow.loss_estimate, flow.changed = flow.x, flow.x, env.now
    encoder.open_media(flow, flow.x, p, env)


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Number a packet, name its frame, and keep its departure."""
    flow.size = env.packet_size
    encoder.packet_sent(flow, header, p, env)
    feedback.packet_sent(flow, header, env)


def flow_on_control(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Update gradient and rates by a report."""
    feedback.read_report(flow, header, env)
    if p.form == DRAFT:
        flow.usage = 0
    for k in range(flow.received):
        if flow.received_arrival[k] >= 0.0:
            note_packet(flow, flow.received_sent[k], flow.received_arrival[k], p)
    if flow.arrivals > 0 and flow.received > 0:
        flow.received_rate = received_rate(flow, p)
        update_estimate(flow, p, env)
    update_loss_estimate(flow, p, env)
    flow.x = min(flow.estimate, flow.loss_estimate)
    if p.frames == 0.0:
        env.rate = flow.x


def flow_on_timer(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Capture the next frame."""
    encoder.next_frame(flow, flow.x, p, env)


def limited(x: float, p: Params) -> float:
    """The rate between its minimum and its maximum."""
    return min(max(x, p.min_rate), p.max_rate)


# Delays: groups of packets, and their gradient ------------------------------------------------------------------------


def note_packet(flow: FlowState, sent: float, arrival: float, p: Params) -> None:
    """Add a packet to the current group, or complete that group and begin the next (secs. 5.1 and 5.2)."""
    if flow.arrivals == 0:
        flow.first_arrival = arrival
    flow.arrival_of[flow.arrivals % ARRIVALS] = arrival
    flow.arrivals += 1
    if flow.groups < -1:
        flow.groups = -1
        begin_group(flow, sent, arrival)
    elif sent >= flow.first_sent:  # a packet that was overtaken does not count
        if sent - flow.first_sent <= p.burst_time or is_burst(flow, sent, arrival, p):
            flow.last_sent_at = max(flow.last_sent_at, sent)
        else:
            complete_group(flow, arrival, p)
            begin_group(flow, sent, arrival)
        flow.last_in = arrival


def begin_group(flow: FlowState, sent: float, arrival: float) -> None:
    """Begin a group with a packet."""
    flow.first_sent, flow.last_sent_at = sent, sent
    flow.first_in, flow.last_in = arrival, arrival


def is_burst(flow: FlowState, sent: float, arrival: float, p: Params) -> bool:
    """Return whether a packet arrives in a burst with the packets before it."""
    gap = arrival - flow.last_in
    return gap <= p.burst_time and gap < sent - flow.last_sent_at and arrival - flow.first_in < MAX_BURST


def complete_group(flow: FlowState, now: float, p: Params) -> None:
    """Update the gradient by the current group, at the arrival of the packet after it; then examine it."""
    if flow.groups >= 0:
        sent_gap = flow.last_sent_at - flow.before_sent
        d = 1e3 * (flow.last_in - flow.before_in - sent_gap)
        if p.form == DRAFT:
            filter_gradient(flow, d, sent_gap, p)
        else:
            fit_slope(flow, d, now)
        flow.groups += 1
        detect(flow, 1e3 * sent_gap, now, p)
    else:
        flow.groups = 0
        flow.threshold = 1e3 * p.threshold
    flow.before_sent, flow.before_in = flow.last_sent_at, flow.last_in


def filter_gradient(flow: FlowState, d: float, sent_gap: float, p: Params) -> None:
    """Sec. 5.3: the scalar Kalman filter of the gradient."""
    flow.gap[flow.groups % GAPS] = sent_gap
    shortest = sent_gap
    for k in range(min(flow.groups, GAPS)):
        shortest = min(shortest, flow.gap[k])
    alpha = exp(30.0 * shortest * log(1.0 - p.chi))
    z = d - flow.m
    counted = min(z, OUTLIER * sqrt(flow.variance))
    flow.variance = max(alpha * flow.variance + (1.0 - alpha) * counted * counted, MIN_VARIANCE)
    error = flow.error + p.q
    k_gain = error / (flow.variance + error)
    flow.m += k_gain * z
    flow.error = (1.0 - k_gain) * error


def fit_slope(flow: FlowState, d: float, now: float) -> None:
    """The slope of the smoothed delay over arrivals, by least squares (trendline_estimator.cc)."""
    flow.delay += d
    flow.smoothed = SMOOTHING * flow.smoothed + (1.0 - SMOOTHING) * flow.delay
    place = flow.groups % SLOPE_GROUPS
    flow.delay_of[place], flow.time_of[place] = flow.smoothed, now
    if flow.groups >= SLOPE_GROUPS - 1:
        mean_time, mean_delay = 0.0, 0.0
        for k in range(SLOPE_GROUPS):
            mean_time += (flow.time_of[k] - now) / SLOPE_GROUPS
            mean_delay += flow.delay_of[k] / SLOPE_GROUPS
        products, squares = 0.0, 0.0
        for k in range(SLOPE_GROUPS):
            offset = flow.time_of[k] - now - mean_time
            products += offset * (flow.delay_of[k] - mean_delay)
            squares += offset * offset
        if squares > 0.0:
            flow.m = 1e-3 * products / squares


def detect(flow: FlowState, sent_gap: float, now: float, p: Params) -> None:
    """Sec. 5.4: compare the gradient with the threshold, and adapt the threshold; `sent_gap` in ms."""
    if flow.groups < 2:
        return
    flow.signal = min(1.0 * flow.groups, p.groups) * flow.m
    if p.form != DRAFT:
        flow.signal *= SLOPE_GAIN
    usage = -1 if flow.signal < -flow.threshold else 0
    if flow.signal > flow.threshold:
        flow.over_time = 0.5 * sent_gap if flow.over_time < 0.0 else flow.over_time + sent_gap
        flow.over_groups += 1
        if p.form != DRAFT:
            usage = flow.usage  # libwebrtc: unchanged until over-use is certain
        if flow.over_time > 1e3 * p.overuse_time and flow.over_groups > 1 and flow.m >= flow.m_before:
            usage = 1
            if p.form != DRAFT:
                flow.over_time, flow.over_groups = 0.0, 0
    else:
        flow.over_time, flow.over_groups = -1.0, 0
    if p.form != DRAFT or flow.usage != 1:  # an over-use in the draft's form counts until the report has been used
        flow.usage = usage
    flow.m_before = flow.m
    adapt_threshold(flow, now, p)


def adapt_threshold(flow: FlowState, now: float, p: Params) -> None:
    """Sec. 5.4: move the threshold towards the signal."""
    distance = abs(flow.signal) - flow.threshold
    if distance <= MAX_EXCESS and flow.updated >= 0.0:
        gain = p.gain_down if distance < 0.0 else p.gain_up
        threshold = flow.threshold + gain * distance * min(1e3 * (now - flow.updated), MAX_STEP)
        flow.threshold = min(max(threshold, MIN_THRESHOLD), MAX_THRESHOLD)
    flow.updated = now


# Rates ----------------------------------------------------------------------------------------------------------------


def received_rate(flow: FlowState, p: Params) -> float:
    """Sec. 5.5: the rate received within the window that ends with the last arrival; at first since the first one."""
    last = flow.arrival_of[(flow.arrivals - 1) % ARRIVALS]
    oldest = min(flow.arrivals, ARRIVALS)
    count = 0
    while count < oldest and flow.arrival_of[(flow.arrivals - 1 - count) % ARRIVALS] > last - p.window:
        count += 1
    received = 8.0 * flow.size * count
    if count < oldest:
        return received / p.window
    since_first = last - flow.arrival_of[(flow.arrivals - count) % ARRIVALS]
    return received / max(min(since_first, p.window), p.report_interval)


def update_estimate(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Sec. 5.5: change state by the signal, and A by the state."""
    if p.form != DRAFT and flow.usage == 1:
        wait = min(max(env.rtt, MIN_WAIT), MAX_WAIT)
        if env.now - flow.changed < wait and flow.received_rate >= FAR_BELOW * flow.estimate:
            return
    elapsed = env.now - flow.changed
    if flow.usage == 1:
        flow.state = DECREASE
    elif flow.usage == -1 or flow.state == DECREASE:
        flow.state = HOLD
    elif flow.state == HOLD:
        flow.state = INCREASE
        elapsed = elapsed if p.form == DRAFT else 0.0
    if flow.state == INCREASE:
        increase(flow, elapsed, p, env)
    elif flow.state == DECREASE:
        decrease(flow, p)
        flow.state = DECREASE if p.form == DRAFT else HOLD
    if p.form == DRAFT or flow.state == INCREASE or flow.usage == 1:
        flow.changed = env.now


def packet_bits(rate: float) -> float:
    """Sec. 5.5: the size of a packet at 30 frames per second, in packets of 1200 bytes or less."""
    frame = rate / FRAME_RATE
    packets = 1.0 * int(frame / PACKET_BITS)
    return frame / (packets if packets * PACKET_BITS >= frame else packets + 1.0)


def increase(flow: FlowState, elapsed: float, p: Params, env: FlowEnv) -> None:
    """Sec. 5.5: additive near the mean of R at over-uses, otherwise multiplicative."""
    rate = flow.received_rate
    margin = NEAR * sqrt(flow.deviation * flow.mean)
    if flow.mean > 0.0 and rate > flow.mean + margin:
        flow.mean = 0.0
    is_near = flow.mean > 0.0 and (p.form != DRAFT or rate > flow.mean - margin)
    growth = (exp(log(GROWTH) * min(elapsed, 1.0)) - 1.0) * flow.estimate
    limit = MAX_RATIO * rate
    if p.form != DRAFT:
        limit += EXTRA_LIMIT
        growth = max(growth, MIN_GROWTH)
    if is_near:
        response = REACTION + env.rtt
        half = 0.5 * packet_bits(flow.estimate)
        if p.form == DRAFT:
            growth = max(half * min(elapsed / response, 1.0), MIN_GROWTH)
        else:
            growth = max(half / response, MIN_SLOPE) * elapsed
    if flow.estimate < limit:
        flow.estimate = limited(min(flow.estimate + growth, limit), p)


def decrease(flow: FlowState, p: Params) -> None:
    """Sec. 5.5: a share of the received rate."""
    rate = flow.received_rate
    target = p.beta * rate
    if p.form != DRAFT:
        if target > EXTRA_DECREASE:
            target -= EXTRA_DECREASE
        if target > flow.estimate and flow.mean > 0.0:
            target = p.beta * flow.mean
        if rate < flow.mean - NEAR * sqrt(flow.deviation * flow.mean):
            flow.mean = 0.0
    flow.estimate = limited(min(target, flow.estimate), p)
    flow.mean = rate if flow.mean == 0.0 else flow.mean + MEAN_WEIGHT * (rate - flow.mean)
    error = rate - flow.mean
    deviation = flow.deviation + MEAN_WEIGHT * (error * error / flow.mean - flow.deviation)
    flow.deviation = min(max(deviation, MIN_DEVIATION), MAX_DEVIATION)
    flow.decreases += 1


def update_loss_estimate(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Sec. 6: the rate by losses, which does not exceed A."""
    flow.loss_packets += flow.lost + flow.received - flow.late
    flow.loss_lost += flow.lost - flow.late
    if flow.loss_packets > 0 and flow.loss_packets >= (1 if p.form == DRAFT else LOSS_PACKETS):
        share = max(flow.loss_lost, 0) / flow.loss_packets
        wait = 0.0 if p.form == DRAFT else LOSS_WAIT + env.rtt
        if share < LOW_LOSS:
            flow.loss_estimate *= LOSS_GROWTH
        elif share > HIGH_LOSS and env.now - flow.loss_reduced >= wait:
            flow.loss_estimate *= 1.0 - 0.5 * share
            flow.loss_reduced = env.now
        flow.loss_packets, flow.loss_lost = 0, 0
    flow.loss_estimate = limited(min(flow.loss_estimate, flow.estimate), p)


# Cycle ----------------------------------------------------------------------------------------------------------------


@dataclass
class _Path:
    """The link: capacity [bit/s], delay of reports [s], packet [bit]."""

    capacity: float
    delay: float
    packet: float

    @property
    def service(self) -> float:
        """The service time of a packet [s]."""
        return self.packet / self.capacity


@dataclass
class _Packets:
    """Packets on their way, and the history of a run."""

    path: _Path
    p: Any
    flow: Any
    sent: float = 0.0  # departure of the last packet [s]
    wait: float = 0.0  # its queueing delay [s]
    now: float = 0.0  # time from which the rate is in force [s]
    reported: float = 0.0  # time of the last report [s]
    arriving: deque[tuple[float, float]] = field(default_factory=deque)  # departure and arrival of each [s]
    weight: float = 1.0  # derivative of the threshold with respect to that at the last over-use
    rows: list[tuple[float, float, float]] = field(default_factory=list)  # time [s], w [s], rate [bit/s]

    def send(self, until: float, count: float = np.inf) -> None:
        """Send the packets that depart up to a time, as long as fewer than `count` are unreported."""
        service = self.path.service
        gap = self.path.packet / self.flow.x
        while (at := max(self.sent + gap, self.now)) <= until and len(self.arriving) < count:
            self.wait = max(self.wait + service - (at - self.sent), 0.0)
            self.sent = at
            self.arriving.append((at, at + self.path.delay + self.wait + service))
            self.rows.append((at, self.wait, self.flow.x))

    def report(self) -> None:
        """Go on to the next report: when its time has come, or when it is full."""
        due = self.reported + self.p.report_interval
        self.send(due - self.path.delay - self.path.service, feedback.BLOCKS)
        is_full = len(self.arriving) >= feedback.BLOCKS
        self.reported = min(due, self.arriving[feedback.BLOCKS - 1][1]) if is_full else due

    def read(self) -> None:
        """Let the hooks read the packets of the report."""
        stamp = feedback.report_stamp(self.reported)
        self.flow.received = 0
        while self.arriving and self.arriving[0][1] <= self.reported:
            sent, arrival = self.arriving.popleft()
            self.flow.received += 1
            before, updated = self.flow.threshold, self.flow.updated
            seen = feedback.reported_arrival(stamp, feedback.arrival_offset(stamp, arrival))
            note_packet(self.flow, sent, seen, self.p)
            if self.flow.threshold != before and MIN_THRESHOLD < self.flow.threshold:
                gain = self.p.gain_down if abs(self.flow.signal) < before else self.p.gain_up
                self.weight *= 1.0 - gain * min(1e3 * (self.flow.updated - updated), MAX_STEP)
            elif self.flow.threshold == MIN_THRESHOLD:
                self.weight = 0.0


def over_use_cycle(protocol: Any, network: Network) -> CycleOrbit:
    """Return the cycle of one flow from over-use to over-use.

    Parameters
    ----------
    protocol : GCC
    network : Network
        Network of one link and one flow.

    Raises
    ------
    LinearizationError
        Another network, an encoder of frames, or a capacity that the rate does not exceed.
    ConvergenceError
        There are fewer than 16 cycles within 500,000 packets.
    """
    capacity, rtt, size = reported_media.of_flow_alone(protocol, network)
    if not protocol.beta * capacity > protocol.min_rate or not protocol.max_rate > capacity:
        raise LinearizationError(
            f"the rate does not pass the capacity of {capacity:g} bit/s between min_rate = {protocol.min_rate:g} and "
            f"max_rate = {protocol.max_rate:g}"
        )
    packets = _started(protocol, _Path(capacity, 0.5 * rtt, 8.0 * size))
    return _orbit(packets, *_over_uses(packets))


def _started(protocol: Any, path: _Path) -> _Packets:
    """Return a flow that has sent its first packet, at the minimum rate; reports begin as it arrives."""
    flow = reported_media.initial_flow(FlowState)
    flow.x = flow.estimate = flow.loss_estimate = protocol.min_rate
    flow.size = path.packet / 8.0
    arrival = path.delay + path.service
    return _Packets(path, protocol.namespace(), flow, reported=arrival, arriving=deque([(0.0, arrival)]))


def _over_uses(packets: _Packets) -> tuple[list[float], list[float], list[int]]:
    """Run up to the last cycle that is examined.

    Return the times of the first over-uses of cycles, the weights of the threshold since the last of them, and the
    numbers of all over-uses until then.
    """
    flow, p, path = packets.flow, packets.p, packets.path
    ends, weights, counts = list[float](), list[float](), list[int]()
    while len(ends) <= _SETTLING + _CYCLES:
        packets.report()
        now = packets.reported + path.delay
        packets.send(now)
        packets.now = now
        if len(packets.rows) > _MAX_PACKETS:
            raise ConvergenceError(f"GCC has {len(ends)} over-uses within {_MAX_PACKETS:,} packets, {now:.0f} s")
        if p.form == DRAFT:
            flow.usage = 0
        packets.read()
        if flow.received == 0:
            continue
        flow.received_rate = received_rate(flow, p)
        before, since = flow.decreases, flow.estimate
        env: Any = SimpleNamespace(now=now, rtt=2.0 * path.delay + packets.wait + path.service)
        update_estimate(flow, p, env)
        update_loss_estimate(flow, p, env)
        flow.x = min(flow.estimate, flow.loss_estimate)
        if flow.decreases > before and since > path.capacity:
            ends.append(now)
            weights.append(packets.weight)
            counts.append(flow.decreases)
            packets.weight = 1.0
    return ends, weights, counts


def _orbit(packets: _Packets, ends: list[float], weights: list[float], counts: list[int]) -> CycleOrbit:
    """Return the mean of the last cycles, and the last one as the orbit."""
    time, wait, rate = (np.array(column) for column in zip(*packets.rows, strict=True))
    size, path = packets.path.packet / 8.0, packets.path
    queue = reported_media.queue_of_packets(wait * path.capacity / 8.0, size)
    lengths = np.diff(ends[_SETTLING:])
    spans = [(time >= a) & (time < b) for a, b in zip(ends[_SETTLING:], ends[_SETTLING + 1 :], strict=False)]
    swings = [0.5 * float(np.ptp(queue[span])) for span in spans]
    examined = (time >= ends[_SETTLING]) & (time < ends[-1])
    last: NDArray[np.bool_] = spans[-1]
    over_uses = (counts[-1] - counts[_SETTLING]) / len(lengths)
    multipliers = (
        (1.0 - MEAN_WEIGHT) ** over_uses,
        float(np.abs(np.prod(weights[_SETTLING + 1 :])) ** (1.0 / len(lengths))),
        0.0,
    )
    return CycleOrbit(
        float(lengths.mean()),
        size * float((wait[examined] + path.service).sum() / lengths.sum()),  # Little's law
        float(np.mean(swings)),
        multipliers,
        np.repeat(time[last] - time[last][0], 2),
        queue[last].ravel(),
        np.repeat(rate[last], 2)[None],
        f"packets at even distances with the reports of RFC 8888, mean of {len(lengths)} cycles",
        (
            "multipliers are those of the threshold and of the mean of received rates, at fixed times of over-uses",
            "the rate after an over-use does not depend on that before it",
        ),
    )
