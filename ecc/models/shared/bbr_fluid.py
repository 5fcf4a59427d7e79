"""BBR's versions as fluid: state machines over the feedback of ACKs at each moment (`ecc.contract.forms.StateMachine`).

Versions 1 and 2 in ProbeBW and ProbeRTT are those of Scherrer, Legner, Perrig, Schmid, "Model-Based Insights on the
Performance, Fairness, and Stability of BBR" (IMC 2022). d is the minimum RTT, D the RTT, t' the time since a period
began, z the delivery rate, p the share lost, v the volume in flight, b = y d; (a)+ = max(a, 0), [a] is 1 if a holds:

    m' = 5 (z - m)+ - [t' < 10 ms] m         maximum delivery rate, discarded as a period begins           [1/ms]
    y' = [t' > T - 10 ms] (m - y)            version 1: bottleneck rate, updated at the end of a period    [1/ms]
    y  = max(m, m of the period before)      version 2: bottleneck rate, updated in DOWN
    x  = min(W/D, y (1 + 1/4 [UP] - 1/4 [DOWN]))

    version 1   T = 8 d, W = 2 b; UP in the RTT i mod 6 of the periods of flow i, DOWN in the next one
    version 2   T = min(2 + i/N s, 63 d), W = min(2 b, w_lo, w_hi), in CRUISE with 0.85 w_hi; a period begins with an
                RTT at y, then UP until v > 1.2475 b or p > 2 %, DOWN until v < min(b, 0.85 w_hi), or 10 d, then CRUISE
      w_hi'     outside CRUISE: 2^(t'/d) packets per ms [v > w_hi, t' > d] - 0.3 w_hi [p > 2 %]/d; w_hi >= 1.15 b
      w_lo'     in CRUISE: ln(0.9) w_lo [p > 2 %]/d; outside it w_lo = w_hi
    ProbeRTT    200 ms at W = 4 packets (version 2: b/2), if d has not fallen for 10 s (5 s)

Their flows begin with fair shares, and never discard d. Here flows begin with Startup and Drain: at 2.89 z until three
RTTs pass with less than a quarter of growth, or, for version 2, until 8 packets and 2 % of a round are lost, which sets
w_hi = 5/4 b (there is no w_hi before a loss); then at y/2.89 until v < b. After 10 s d is the RTT measured by ProbeRTT.
v is exact, D is the RTT of acknowledged data (theirs: of data sent), and z of version 2 the mean over an RTT, as hosts
measure it: if other flows pause after a loss, a flow has the link to itself for some ms.

No fluid model of version 3 is published. This one has the states, bounds and constants of its draft
(`ecc.models.bbr`), with delivery rates z that are means over an RTT, and rounds of an RTT:

    DOWN at 0.9 until v < min(b, 0.85 w_hi); CRUISE until 2 + i/N s or min(b in packets, 63) rounds after UP; REFILL, a
    round; UP at 5/4, W = 9/4 b, until z grows by less than a quarter in three rounds, or p > 2 % in a round
    p > 2 % in REFILL, UP              w_hi <- max(v, 0.7 min(b, W))
    losses in a round, DOWN, CRUISE    y_lo <- max(z, 0.7 y), w_lo <- max(z D, 0.7 W); removed in REFILL
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.contract.env import FluidEnv, Params
from ecc.contract.forms import ProbingCycle, StateMachine
from ecc.laws.elementary import exp, log

__all__ = ["VERSION_1", "VERSION_2", "VERSION_3"]

STARTUP, DRAIN, PROBE_BW, PROBE_RTT = range(4)
CRUISE, REFILL, UP, DOWN = range(4)  # phases of ProbeBW in versions 2 and 3
INFINITE = 1e300
MS = 1e-3
HIGH_GAIN, FULL_GROWTH, FULL_ROUNDS = 2.885, 1.25, 3.0
GROWTH, EDGE = 5.0, 10.0 * MS  # rate at which m follows z [1/ms]; time at the ends of a period to discard and adopt m
PERIOD_1, PHASES = 8.0, 6.0  # minimum RTTs
WAIT, SPREAD, ROUNDS = 2.0, 1.0, 63.0  # s, s, minimum RTTs
FULL, FIRST_HI, MIN_HI, LONGEST_DOWN = 1.2475, 1.25, 1.15, 10.0  # multiples of b; minimum RTTs
MIN_PACKETS = 4.0
MIN_LOSS, STARTUP_LOSSES = 0.5, 8.0  # packets lost in a round that count, and that end Startup of version 2
MAX_DOUBLINGS = 30.0  # doublings of the growth in UP, one per round
UP_GAIN, PACING = 1.25, 0.99

EXCEPTIONS = {
    "relabeling": "as fluid, the index of a flow determines the phases in which it probes",
    "scaling": "it probes every 2 to 10 s, for 200 ms, at any RTT",
}
"""Properties of `ecc check` that all versions violate."""


@dataclass
class Probing:
    """State of all versions; rates in bit/s, times in s, volumes in bits."""

    state: float = 0.0
    min_rtt: float = INFINITE
    min_rtt_stamp: float = 0.0
    probe_rtt_least: float = INFINITE  # minimum RTT since the last ProbeRTT was due
    probe_rtt_stamp: float = 0.0
    bw: float = 0.0  # y
    max_bw: float = 0.0  # m
    began: float = 0.0  # start of the period, or of ProbeRTT
    round_end: float = 0.0  # delivered volume at which the round ends
    full_bw: float = 0.0
    full_rounds: float = 0.0


@dataclass
class Bounded(Probing):
    """State of versions 2 and 3."""

    phase: float = 0.0
    last_max_bw: float = 0.0  # m of the previous period
    inflight_hi: float = INFINITE
    inflight_lo: float = INFINITE
    round_acked: float = 0.0
    round_lost: float = 0.0


@dataclass
class ByRounds(Bounded):
    """State of version 3."""

    bw_lo: float = INFINITE
    rounds: float = 0.0  # rounds since UP; in UP, rounds since REFILL
    keeps_cycle: float = 0.0  # 1 if the cycle of max_bw continues


def measures(flow: Probing, interval: float, p: Params, env: FluidEnv) -> bool:
    """Update the minimum RTT, enter ProbeRTT if it has not fallen for an interval; return whether a round begins."""
    if env.rtt > 0.0:
        is_due = env.now > flow.probe_rtt_stamp + interval
        if is_due and flow.state == PROBE_BW:
            flow.state = PROBE_RTT
            flow.began = env.now
        if is_due or env.rtt < flow.probe_rtt_least - 1e-6:
            flow.probe_rtt_least = env.rtt
            flow.probe_rtt_stamp = env.now
        if flow.probe_rtt_least < flow.min_rtt or env.now > flow.min_rtt_stamp + p.min_rtt_window:
            flow.min_rtt = flow.probe_rtt_least
            flow.min_rtt_stamp = flow.probe_rtt_stamp
    if env.delivered < flow.round_end or env.rtt == 0.0:
        return False
    flow.round_end = env.delivered + env.in_flight
    return True


def lost_in_round(flow: Bounded, begins_round: bool, minimum: float, env: FluidEnv) -> float:
    """Return the share lost in this round, or in the one that ends; 0 if fewer than `minimum` packets are lost."""
    flow.round_acked += env.acked
    flow.round_lost += env.lost
    share = 0.0
    if flow.round_lost >= minimum * env.packet_size:
        share = flow.round_lost / (flow.round_acked + flow.round_lost)
    if begins_round:
        flow.round_acked = 0.0
        flow.round_lost = 0.0
    return share


def opens(flow: Probing, begins_round: bool, gain: float, drain: float, p: Params, env: FluidEnv) -> bool:
    """Run Startup and Drain; return whether ProbeBW begins now."""
    first = p.initial * env.packet_size
    flow.max_bw = max(flow.max_bw, env.delivery_rate)
    flow.bw = flow.max_bw
    if env.rtt == 0.0:
        env.window = first
        env.rate = gain * first / MS
        return False
    bdp = flow.bw * flow.min_rtt
    if flow.state == STARTUP:
        env.rate = gain * max(flow.bw, first / env.rtt)
        env.window = max(first, gain * bdp)
        if begins_round:
            is_full = stops_growing(flow, flow.max_bw)
            if is_full:
                flow.state = DRAIN
    else:
        env.rate = drain * flow.bw
        if env.in_flight <= bdp:
            flow.state = PROBE_BW
            flow.began = env.now
            return True
    return False


def stops_growing(flow: Probing, rate: float) -> bool:
    """Return whether a rate has not grown by a quarter for three rounds."""
    if rate >= FULL_GROWTH * flow.full_bw:
        flow.full_bw = rate
        flow.full_rounds = 0.0
    else:
        flow.full_rounds += 1.0
    is_full: bool = flow.full_rounds >= FULL_ROUNDS
    return is_full


def probes_rtt(flow: Probing, window: float, p: Params, env: FluidEnv) -> bool:
    """Run ProbeRTT; return whether a flow is still in it. When it ends, `began` is the current time."""
    if flow.state != PROBE_RTT:
        return False
    env.rate = flow.bw
    env.window = max(window, MIN_PACKETS * env.packet_size)
    if env.now - flow.began < p.probe_rtt_duration + flow.min_rtt:
        return True
    flow.state = PROBE_BW
    flow.began = env.now
    flow.probe_rtt_stamp = env.now
    return False


def share_of(time_constants: float) -> float:
    """Return the share of an exponential approach that is completed after some time constants."""
    return 1.0 - exp(-time_constants)


def follow_largest(flow: Probing, z: float, since: float, env: FluidEnv) -> None:
    """m: follow the maximum delivery rate, and discard it as a period begins."""
    if z > flow.max_bw:
        flow.max_bw += share_of(GROWTH * env.step / MS) * (z - flow.max_bw)
    if since < EDGE:
        flow.max_bw -= share_of(env.step / MS) * flow.max_bw


def send(flow: Probing, gain: float, window: float, env: FluidEnv) -> None:
    """x: send at a gain, limited by a window over the RTT."""
    env.rate = min(gain * flow.bw, window / env.rtt)
    env.window = INFINITE


def step_1(flow: Probing, header: Any, p: Params, env: FluidEnv) -> None:
    """Step version 1 by one interval of the grid."""
    begins_round = measures(flow, p.min_rtt_window, p, env)
    if flow.state < PROBE_BW:
        opens(flow, begins_round, HIGH_GAIN, 1.0 / HIGH_GAIN, p, env)
        return
    if probes_rtt(flow, MIN_PACKETS * env.packet_size, p, env):
        return
    d = flow.min_rtt
    if env.now - flow.began >= PERIOD_1 * d:
        flow.began = env.now
    since = env.now - flow.began
    follow_largest(flow, env.acked / env.step, since, env)
    if since > PERIOD_1 * d - EDGE:
        flow.bw += share_of(env.step / MS) * (flow.max_bw - flow.bw)
    rounds = since / d - env.flow % PHASES
    gain = 1.25 if 0.0 <= rounds < 1.0 else 0.75 if 1.0 <= rounds < 2.0 else 1.0
    send(flow, gain, 2.0 * flow.bw * d, env)


def begin_period(flow: Bounded, env: FluidEnv) -> None:
    """Begin a period with REFILL; the maximum rate of the last period stays in use for this one."""
    flow.last_max_bw = flow.max_bw
    flow.began = env.now
    flow.phase = REFILL


def set_bound(bound: float, env: FluidEnv) -> float:
    """Return a bound, or the volume in flight if the bound is not set yet."""
    return bound if bound < INFINITE else env.in_flight


def step_2(flow: Bounded, header: Any, p: Params, env: FluidEnv) -> None:
    """Step version 2 by one interval of the grid."""
    begins_round = measures(flow, p.probe_rtt_interval, p, env)
    share = lost_in_round(flow, begins_round, STARTUP_LOSSES, env)
    if flow.state < PROBE_BW:
        if opens(flow, begins_round, HIGH_GAIN, 1.0 / HIGH_GAIN, p, env):
            flow.inflight_lo = flow.inflight_hi
        elif flow.state == STARTUP and begins_round and share > p.loss_threshold:
            flow.state = DRAIN
            flow.inflight_hi = FIRST_HI * flow.bw * flow.min_rtt
        return
    d = flow.min_rtt
    if probes_rtt(flow, 0.5 * flow.bw * d, p, env):
        flow.phase = CRUISE
        return
    if flow.phase == CRUISE and env.now - flow.began >= min(WAIT + SPREAD * env.flow / env.flows, ROUNDS * d):
        begin_period(flow, env)
    since = env.now - flow.began
    follow_largest(flow, env.delivery_rate, since, env)
    bdp, is_high = flow.bw * d, env.loss >= p.loss_threshold
    gain, lowest = 1.0, (1.0 - p.headroom) * flow.inflight_hi
    if flow.phase == REFILL and since >= d:
        flow.phase = UP
    if flow.phase == UP:
        gain = 1.25
        if env.in_flight >= FULL * bdp or is_high:
            flow.phase = DOWN
    elif flow.phase == DOWN:
        gain = 0.75
        flow.bw = max(flow.max_bw, flow.last_max_bw)
        if env.in_flight <= min(bdp, lowest) or since >= LONGEST_DOWN * d:
            flow.phase = CRUISE
    if flow.phase == CRUISE:
        if is_high:
            flow.inflight_lo = set_bound(flow.inflight_lo, env) * exp(log(0.9) * env.step / d)
    else:
        if since >= d and env.in_flight >= flow.inflight_hi:
            flow.inflight_hi += exp(log(2.0) * min(since / d, 30.0)) * env.packet_size * env.step / MS
        if is_high:
            flow.inflight_hi = set_bound(flow.inflight_hi, env) * (1.0 - (1.0 - p.beta) * env.step / d)
    flow.inflight_hi = max(flow.inflight_hi, MIN_HI * flow.bw * d)
    if flow.phase != CRUISE:
        flow.inflight_lo = flow.inflight_hi
    high = flow.inflight_hi if flow.phase != CRUISE else (1.0 - p.headroom) * flow.inflight_hi
    send(flow, gain, min(2.0 * flow.bw * d, flow.inflight_lo, high), env)


def step_3(flow: ByRounds, header: Any, p: Params, env: FluidEnv) -> None:
    """Step version 3 by one interval of the grid."""
    begins_round = measures(flow, p.probe_rtt_interval, p, env)
    share = lost_in_round(flow, begins_round, MIN_LOSS, env)
    if flow.state < PROBE_BW:
        if opens(flow, begins_round, p.startup_gain, p.drain_gain, p, env):
            start_down(flow, env)
        elif flow.state == STARTUP and begins_round and share > p.loss_threshold:
            flow.state = DRAIN
            flow.inflight_hi = max(flow.bw * flow.min_rtt, env.delivery_rate * env.rtt)
    else:
        flow.max_bw = max(flow.max_bw, env.delivery_rate)
        if probes_rtt(flow, 0.5 * flow.bw * flow.min_rtt, p, env):
            flow.phase = CRUISE
            flow.rounds = 0.0
            flow.inflight_lo = INFINITE
            flow.bw_lo = INFINITE
        else:
            probe_bw(flow, begins_round, share, p, env)


def start_down(flow: ByRounds, env: FluidEnv) -> None:
    """Begin DOWN; feedback of its first round still belongs to the current cycle."""
    flow.phase = DOWN
    flow.began = env.now
    flow.rounds = 0.0
    flow.keeps_cycle = 1.0


def probe_bw(flow: ByRounds, begins_round: bool, share: float, p: Params, env: FluidEnv) -> None:
    """Step ProbeBW of version 3."""
    largest = max(flow.max_bw, flow.last_max_bw)
    flow.bw = min(largest, flow.bw_lo)
    bdp = flow.bw * flow.min_rtt
    if begins_round:
        flow.rounds += 1.0
    if flow.phase == DOWN or flow.phase == CRUISE:
        if begins_round and flow.keeps_cycle > 0.0:
            flow.keeps_cycle = 0.0
            flow.last_max_bw = flow.max_bw
            flow.max_bw = 0.0
        if begins_round and share > 0.0:
            flow.bw_lo = max(env.delivery_rate, p.beta * flow.bw)
            flow.inflight_lo = max(env.delivery_rate * env.rtt, p.beta * min(flow.inflight_lo, env.window))
        rounds = min(bdp / env.packet_size, ROUNDS)
        if env.now - flow.began >= WAIT + SPREAD * env.flow / env.flows or flow.rounds >= rounds:
            flow.phase = REFILL
            flow.round_end = env.delivered + env.in_flight
            flow.inflight_lo = INFINITE
            flow.bw_lo = INFINITE
        elif flow.phase == DOWN and env.in_flight <= min(largest * flow.min_rtt, (1.0 - p.headroom) * flow.inflight_hi):
            flow.phase = CRUISE
    elif flow.phase == REFILL and begins_round:
        flow.phase = UP
        flow.rounds = 0.0
        flow.full_bw = env.delivery_rate
        flow.full_rounds = 0.0
    elif share > p.loss_threshold:
        flow.inflight_hi = max(env.in_flight, p.beta * min(bdp, env.window))
        start_down(flow, env)
    elif flow.phase == UP:
        if flow.inflight_hi < INFINITE:
            flow.inflight_hi = max(flow.inflight_hi, env.in_flight)
            if env.in_flight >= flow.inflight_hi - env.packet_size:
                growth = exp(log(2.0) * min(flow.rounds, MAX_DOUBLINGS)) * env.packet_size
                flow.inflight_hi += growth * env.acked / max(env.window, env.packet_size)
        if begins_round and stops_growing(flow, env.delivery_rate):
            start_down(flow, env)
    gain, limit = 1.0, 2.0 * bdp
    if flow.phase == DOWN:
        gain = p.down_gain
    elif flow.phase == UP:
        gain, limit = UP_GAIN, p.up_cwnd_gain * bdp
    high = (1.0 - p.headroom) * flow.inflight_hi if flow.phase == CRUISE else flow.inflight_hi
    env.rate = PACING * gain * flow.bw
    env.window = max(min(limit, high, flow.inflight_lo), MIN_PACKETS * env.packet_size)


BANDWIDTH, MIN_RTT = "bandwidth", "minimum RTT"
MEMORY = {BANDWIDTH: ("bw", "max_bw"), MIN_RTT: ("min_rtt", "probe_rtt_least")}
BOUNDED = {**MEMORY, BANDWIDTH: ("bw", "max_bw", "last_max_bw"), "bound of inflight": ("inflight_hi",)}
"""Quantities that probes leave to the next one, with the fields that hold them."""

VERSION_1 = StateMachine(step_1, Probing, ProbingCycle(MEMORY, (("state", PROBE_RTT), ("began", None))))
VERSION_2 = StateMachine(step_2, Bounded, ProbingCycle(BOUNDED, (("state", PROBE_RTT), ("phase", REFILL))))
VERSION_3 = StateMachine(step_3, ByRounds, ProbingCycle(BOUNDED, (("state", PROBE_RTT), ("phase", REFILL))))
