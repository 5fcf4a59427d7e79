"""Rates that follow the gradient of delays: groups of packets, filters, over-use detector and rate control of GCC.

Equations, sources and differences from them are in `ecc.models.gcc`. The sender of a protocol calls

    on_control   `feedback.read_report`, then `note_packet` for each packet in it, `received_rate`, `update_estimate`
                 and `update_loss_estimate`; the rate is the minimum of `estimate` and `loss_estimate`
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import FlowEnv, Params
from ecc.laws.elementary import exp, log, sqrt
from ecc.models.shared import encoder, feedback

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
