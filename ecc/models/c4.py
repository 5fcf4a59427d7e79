"""C4: a nominal rate, and a window for a nominal maximum RTT (picoquic's c4.c, 2026; draft-huitema-ccwg-c4-spec-02).

    rate = gain x                              x: nominal rate, the maximum delivery rate, reduced by congestion
    W    = rate (D_x + min(15 ms, D_x/4))      D_x: nominal maximum RTT, without the queues of the flow's own pushes

    state       gain                          ends, by eras (an era ends with the ACK of a packet that was sent in it)
    Initial     2, W >= 2 in an era           x not 1/4 higher in 3 eras, or delays or losses; D_x = W/2/x
    Recovery    0.9375 (0.875 if congested)   after an era
    Cruising    1                             after 2 eras (1 after marks) without a limit by the application
    Probing     1.0625 (1.03125 after marks)  after an era, by Recovery, at the end of which its gain is known
    Pushing     1.2266                        after a probe that raised x without congestion; an era, more while x grows

    an era at gain <= 1:  D_x <- its maximum RTT, or 7/8 D_x + 1/8 of that if it is less; up to minimum RTT + 250 ms
    congestion:           Recovery; x <- x (1 - beta), except in a probe or a push; after losses also D_x

    signal      is congestion if                                               beta
    delay       RTT > D_x + T, T = D_x (1/16 + 0.19 (1 - s)) <= 25 ms, gain > 1    (RTT - D_x - T)/T, up to 1/4
    losses      averaged share > 0.02 + (1 - s)/2                              (1 + s)/8
    marks       averaged share > (2 - s) 3/32                                  (share - that)/that, up to 1/4

s is the sensitivity: 0 up to 0.4 Mb/s, 0.94 at 8 Mb/s and 1 from 80 Mb/s, linear in between. So flows with high rates
yield first. After two congested eras in a row x is limited to the delivery rate. The averaged share of losses has a
gain of 1/16 per packet. That of marks has 1/16 per report (as in Prague), or 1 for a larger share of 1/2 or more.
Initial begins again, once, if eras show D_x > 50 ms and D_x > 2.5 times the minimum RTT below 8 Mb/s. It also begins
again if a probe and pushes raise x three times.

Losses in Recovery are ignored, as they may be of packets sent before it, and a timeout changes nothing. Not modeled:
careful resumption from a remembered rate. c4.c ends a push after one era unless x grows by 3/4 of the push, while the
specification has two eras.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc._support.quantity import QuantityField, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import ProbingCycle
from ecc.contract.parameters import check_choice
from ecc.contract.reference import ReferenceLoop
from ecc.models.shared import delivery_rate, windows
from ecc.models.shared.bbr_parts import INFINITE

INITIAL, RECOVERY, CRUISING, PROBING, PUSHING = range(5)
STATES = ("Initial", "Recovery", "Cruising", "Probing", "Pushing")
"""Names of `FlowState.state`."""
NO_CONGESTION, DELAY, MARKS, LOSSES = range(4)

INITIAL_GAIN, RECOVERY_GAIN, DEEP_GAIN, PUSH_GAIN = 2.0, 0.9375, 0.875, 1256 / 1024
PROBE_GAIN, LOW_PROBE_GAIN = 1.0625, 1.03125
LOW_RATE, MIDDLE_RATE, HIGH_RATE, MIDDLE_SENSITIVITY = 0.4e6, 8e6, 80e6, 963 / 1024  # bit/s
MIN_RTT, MARGIN, MAX_JITTER, MAX_THRESHOLD = 1e-3, 15e-3, 0.25, 25e-3  # s
FIRST_RATE, CRUISES, MAX_CUT, PACKETS_BEFORE_LOSSES = 2.0**20, 2, 0.25, 20  # bit/s, eras, share, ACKs and losses
LOSS_GAIN, LOSS_SCOPE, MARK_GAIN = 1 / 16, 32, 1 / 16  # per packet, packets of an ACK that count, per report
JITTER_RTT, JITTER_RATIO = 50e-3, 2.5  # s, multiple of the minimum RTT
HIGHEST_LEVEL = 3  # pushes in a row before Initial begins again


@dataclass
class FlowState(delivery_rate.FlowState):
    """A host's state for one flow; rates in bit/s, times in s."""

    state: int = INITIAL
    nominal_rate: float = 0.0
    nominal_max_rtt: float = 0.0
    running_min_rtt: float = INFINITE
    gain: float = INITIAL_GAIN
    era_gain: float = INITIAL_GAIN  # gain when the data measured in this era was sent
    era_max_rtt: float = 0.0
    era_min_rtt: float = INFINITE
    delay_excess: float = 0.0  # excess of the last RTT over its threshold
    initial_window: float = 0.0
    initial_packets: int = 0  # number of ACKs and losses in Initial
    no_increase: int = 0  # eras in a row without growth
    cruises: int = 0  # eras of Cruising left
    level: int = 1  # 0: a lower probe, 2 and 3: push
    push_gain: float = INITIAL_GAIN
    push_rate: float = 0.0  # nominal rate before the push
    is_congested: int = 0
    was_not_limited: int = 0  # 1 if the network, not the application, has limited a rate
    recent_rate: float = 0.0  # maximum sample since Recovery
    congestions: int = 0  # congested eras in a row
    marks_after_push: int = 0
    began_again: int = 0
    loss_share: float = 0.0
    mark_share: float = 0.0
    marked: int = 0  # bytes reported as marked since the last update of mark_share
    unmarked_from: int = 0  # value of `delivered` at that update


@dataclass(frozen=True, kw_only=True)
class C4(windows.WindowProtocol):
    """C4.

    Parameters
    ----------
    ecn : bool
        Whether packets can be marked (ECT(1), RFC 9331).
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; `initial` and `min_rto` default to Linux's values, L has no effect. `restart` is
        "none": the model of the path stays valid after an idle period.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    ecn: bool = False
    transport: str = "rack"
    initial: float | None = 10.0
    min_rto: QuantityField = default(0.2)
    restart: str = "none"

    may_use_prr = False
    sets_rate = True
    restarts = ("none",)
    slow_start_law = None
    loss_response_law = None
    linear_refusal = (
        "C4 has no linear model: its hosts are state machines that alternate between probes, and never settle"
    )
    fluid_refusal = "C4 has no fluid model: it uses maximum RTTs and rates of eras, which only packet runs have"

    property_exceptions = {"scaling": "its sensitivity to congestion depends on rates of 0.4, 8 and 80 Mb/s"}
    reference_loop = ReferenceLoop(100e6, (0.03,) * 2, "ours")
    cycle_loop = ReferenceLoop(100e6, (0.03,) * 2, "ours", buffer=500_000)
    probing_cycle = ProbingCycle(
        {"nominal rate": ("nominal_rate",), "nominal maximum RTT": ("nominal_max_rtt",)},
        (("state", PROBING),),
        spread=0.5,  # a probe that raises the nominal rate by any amount is followed by a push
    )

    def __post_init__(self) -> None:
        check_choice(self, "ecn", (False, True))
        super().__post_init__()

    @property
    def ecn_echo(self) -> str | None:
        return "scalable" if self.ecn else None

    @property
    def answers(self) -> frozenset[str]:
        return frozenset({"loss", "ecn"} if self.ecn else {"loss"})

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = delivery_rate.Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": delivery_rate.on_send,
            "on_receive": delivery_rate.on_receive,
            "on_ack": flow_on_ack,
        }


def sensitivity(rate: float) -> float:
    """Return the sensitivity s: flows with high rates respond to weaker signals."""
    if rate < LOW_RATE:
        return 0.0
    if rate < MIDDLE_RATE:
        return MIDDLE_SENSITIVITY * (rate - LOW_RATE) / (MIDDLE_RATE - LOW_RATE)
    if rate < HIGH_RATE:
        return MIDDLE_SENSITIVITY + (1.0 - MIDDLE_SENSITIVITY) * (rate - MIDDLE_RATE) / (HIGH_RATE - MIDDLE_RATE)
    return 1.0


def delay_threshold(rate: float, max_rtt: float) -> float:
    """Return T, the delay above the nominal maximum RTT that counts as congestion [s]."""
    return min((64.0 + 196.0 * (1.0 - sensitivity(rate))) / 1024.0 * max_rtt, MAX_THRESHOLD)


def loss_threshold(rate: float) -> float:
    """Return the averaged share of losses above which they count as congestion."""
    return 0.02 + 0.5 * (1.0 - sensitivity(rate))


def mark_threshold(rate: float) -> float:
    """Return the averaged share of marks above which they count as congestion."""
    return (192.0 - 96.0 * sensitivity(rate)) / 1024.0


def flow_on_start(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Start with the initial window, paced at 1 Mb/s."""
    windows.flow_on_start(flow, header, p, env)
    flow.initial_window = env.window
    env.rate = FIRST_RATE


def flow_on_ack(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Process losses, RTT, marks and acknowledged data of an ACK; then set rate and window."""
    delivery_rate.on_ack(flow, header, p, env)
    take_losses(flow, env)
    if flow.newly_acked > 0:
        take_rtt(flow, env)
        flow.marked += env.marked
        if env.marked > 0:
            take_marks(flow)
        take_rate(flow)
        if flow.state == INITIAL:
            initial_on_ack(flow, env)
        elif flow.round_start > 0:
            end_era(flow, env)
        elif flow.state == PUSHING and growth(flow) > 1:
            mark_growth(flow)
            begin_era(flow)
    set_rate_and_window(flow, p, env)


# ---- signals ---------------------------------------------------------------------------------------------------------


def take_losses(flow: FlowState, env: FlowEnv) -> None:
    """Average the share of lost packets, and respond if it is above its threshold."""
    for _ in range(min(flow.newly_acked // env.packet_size, LOSS_SCOPE)):
        flow.loss_share *= 1.0 - LOSS_GAIN
    if flow.newly_lost == 0 or flow.state == RECOVERY:
        return
    for _ in range(min(flow.newly_lost // env.packet_size, LOSS_SCOPE)):
        flow.loss_share += LOSS_GAIN * (1.0 - flow.loss_share)
    if flow.loss_share > loss_threshold(flow.nominal_rate):
        if flow.state == INITIAL:
            flow.initial_packets += 1
            if flow.initial_packets > PACKETS_BEFORE_LOSSES:
                leave_initial(flow)
        else:
            meet_congestion(flow, LOSSES)


def take_rtt(flow: FlowState, env: FlowEnv) -> None:
    """Compare an RTT with the nominal maximum; only data sent above the nominal rate indicates congestion by delay."""
    flow.era_max_rtt = max(flow.era_max_rtt, env.rtt)
    flow.era_min_rtt = min(flow.era_min_rtt, env.rtt)
    flow.running_min_rtt = min(flow.running_min_rtt, env.rtt)
    if flow.nominal_max_rtt == 0.0:
        flow.nominal_max_rtt = max(env.rtt, MIN_RTT)
    limit = flow.nominal_max_rtt + delay_threshold(flow.nominal_rate, flow.nominal_max_rtt)
    flow.delay_excess = max(env.rtt - limit, 0.0)
    if flow.delay_excess > 0.0:
        if flow.state == INITIAL:
            leave_initial_if_late(flow)
        elif flow.era_gain > 1.0:
            meet_congestion(flow, DELAY)


def take_marks(flow: FlowState) -> None:
    """Average the share of marks, and respond if it is above its threshold."""
    average_marks(flow)
    if flow.mark_share > mark_threshold(flow.nominal_rate):
        if flow.state == INITIAL:
            if flow.delay_excess > 0.0:
                leave_initial_if_late(flow)
        else:
            meet_congestion(flow, MARKS)


def average_marks(flow: FlowState) -> None:
    """Average marks as Prague does; a larger share of a half or more replaces the average."""
    delivered = flow.delivered - flow.unmarked_from
    if delivered > 0:
        share = min(flow.marked / delivered, 1.0)
        if share > flow.mark_share and share >= 0.5:
            flow.mark_share = share
        else:
            flow.mark_share += MARK_GAIN * (share - flow.mark_share)
    flow.marked = 0
    flow.unmarked_from = flow.delivered


def take_rate(flow: FlowState) -> None:
    """Raise the nominal rate to the maximum sample, except in a congested Recovery."""
    flow.recent_rate = max(flow.recent_rate, flow.rate)
    before = flow.nominal_rate
    if flow.rate > before and not (flow.state == RECOVERY and flow.is_congested > 0):
        flow.was_not_limited = 1
        flow.nominal_rate = flow.rate
    elif 8.0 * flow.sample_delivered > before * flow.running_min_rtt:
        flow.was_not_limited = 1


def meet_congestion(flow: FlowState, kind: int) -> None:
    """Reduce the nominal rate, unless it is a probe or a push that met congestion; enter or deepen Recovery."""
    flow.is_congested = 1
    x = flow.nominal_rate
    beta = MAX_CUT * 0.5 * (1.0 + sensitivity(x))
    if kind == MARKS:
        beta = min(flow.mark_share / mark_threshold(x) - 1.0, MAX_CUT)
    elif kind == DELAY:
        beta = min(flow.delay_excess / delay_threshold(x, flow.nominal_max_rtt), MAX_CUT)
    if kind != DELAY:
        flow.delay_excess = 0.0
    if flow.state == RECOVERY:
        if flow.gain == RECOVERY_GAIN:
            flow.gain = DEEP_GAIN
            delivery_rate.start_round(flow)
        if kind == MARKS:
            flow.marks_after_push = 1
        return
    if flow.state != PROBING and flow.state != PUSHING:
        flow.nominal_rate -= beta * x
        if kind == LOSSES:
            flow.nominal_max_rtt = max((1.0 - beta) * flow.nominal_max_rtt, MIN_RTT)
    enter_recovery(flow, kind)


# ---- eras and states -------------------------------------------------------------------------------------------------


def begin_era(flow: FlowState) -> None:
    """Begin an era; it measures data sent with the current gain."""
    delivery_rate.start_round(flow)
    flow.round_start = 0
    flow.era_max_rtt = 0.0
    flow.era_min_rtt = INFINITE
    flow.era_gain = flow.gain
    average_marks(flow)


def growth(flow: FlowState) -> int:
    """Return the gain of the nominal rate from a push: 0: little, 1: a quarter of the push, 2: three quarters."""
    before = flow.push_rate
    if flow.push_gain > PROBE_GAIN:
        push = (flow.push_gain - 1.0) * before
        if flow.nominal_rate < before + 0.25 * push:
            return 0
        return 2 if flow.nominal_rate > before + 0.75 * push else 1
    return 2 if flow.nominal_rate > before and flow.is_congested == 0 else 0


def mark_growth(flow: FlowState) -> None:
    """Begin to look for growth of the nominal rate."""
    flow.is_congested = 0
    flow.was_not_limited = 0
    flow.push_rate = flow.nominal_rate
    flow.push_gain = flow.gain


def enter_initial(flow: FlowState, env: FlowEnv) -> None:
    """Begin to search for the rate again."""
    flow.state = INITIAL
    flow.initial_window = env.window
    flow.level = 1
    flow.gain = INITIAL_GAIN
    flow.initial_packets = 0
    begin_era(flow)
    flow.no_increase = 0
    flow.mark_share = 0.0
    mark_growth(flow)


def initial_on_ack(flow: FlowState, env: FlowEnv) -> None:
    """Grow by the acknowledged data, 1/8 of it after an era without growth, 1/64 after two; end after three."""
    flow.initial_packets += 1
    slower = 1.0 if flow.no_increase == 0 else 0.125 if flow.no_increase == 1 else 0.015625
    flow.initial_window += slower * flow.newly_acked
    if flow.round_start > 0:
        if growth(flow) > 0:
            flow.no_increase = 0
        elif flow.was_not_limited > 0:
            flow.no_increase += 1
        begin_era(flow)
        if flow.no_increase >= 3:
            leave_initial(flow)
        else:
            mark_growth(flow)


def leave_initial_if_late(flow: FlowState) -> None:
    """End Initial at high delays after two eras without growth."""
    if flow.no_increase > 1 and flow.push_rate >= flow.nominal_rate:
        leave_initial(flow)


def leave_initial(flow: FlowState) -> None:
    """End Initial; the nominal maximum RTT is the time to send half the window at the nominal rate."""
    if flow.nominal_rate > 0.0:
        flow.nominal_max_rtt = max(4.0 * flow.initial_window / flow.nominal_rate, MIN_RTT)
        flow.no_increase = 0
        flow.level = 1
        enter_recovery(flow, NO_CONGESTION)


def enter_recovery(flow: FlowState, kind: int) -> None:
    """Send less for an era, which measures the data sent before."""
    if flow.state == INITIAL:
        mark_growth(flow)
    flow.marks_after_push = 1 if kind == MARKS else 0
    flow.state = RECOVERY
    begin_era(flow)
    flow.gain = RECOVERY_GAIN


def end_era(flow: FlowState, env: FlowEnv) -> None:
    """Update the nominal maximum RTT, and choose the next state."""
    update_rtts(flow)
    is_jittery = flow.nominal_max_rtt > JITTER_RTT and flow.nominal_max_rtt > JITTER_RATIO * flow.running_min_rtt
    if flow.began_again == 0 and is_jittery and flow.nominal_rate < MIDDLE_RATE:
        flow.began_again = 1
        enter_initial(flow, env)
    elif flow.state == RECOVERY:
        leave_recovery(flow, env)
    elif flow.state == CRUISING:
        flow.cruises = max(flow.cruises - 1, 0)
        if flow.cruises == 0 and flow.sample_app_limited == 0:
            flow.state = PROBING
            flow.gain = PROBE_GAIN if flow.level > 0 else LOW_PROBE_GAIN
            flow.push_gain = flow.gain
        begin_era(flow)
    elif flow.state == PUSHING and growth(flow) > 1:
        mark_growth(flow)
        begin_era(flow)
    else:
        enter_recovery(flow, NO_CONGESTION)


def update_rtts(flow: FlowState) -> None:
    """Update the nominal maximum RTT from an era without queues of the flow's own."""
    if flow.era_gain <= 1.0:
        low = 0.875 * flow.running_min_rtt + 0.125 * flow.era_min_rtt
        flow.running_min_rtt = min(low, flow.era_min_rtt)
        largest = min(flow.era_max_rtt, flow.running_min_rtt + MAX_JITTER)
        slow = 0.875 * flow.nominal_max_rtt + 0.125 * largest
        flow.nominal_max_rtt = max(slow, largest, MIN_RTT)


def leave_recovery(flow: FlowState, env: FlowEnv) -> None:
    """Push if the last probe or push has raised the rate; otherwise cruise."""
    if growth(flow) > 0:
        if flow.marks_after_push == 0:
            flow.level += 1
        flow.congestions = 0
    else:
        if flow.was_not_limited > 0:
            flow.level = 0 if flow.marks_after_push > 0 else 1
        flow.congestions = flow.congestions + 1 if flow.is_congested > 0 else 0
        if flow.congestions >= 2 and flow.recent_rate > 0.0:
            flow.nominal_rate = min(flow.nominal_rate, flow.recent_rate)
    flow.recent_rate = 0.0
    mark_growth(flow)
    flow.delay_excess = 0.0
    flow.loss_share = 0.0
    flow.mark_share = 0.0
    if flow.level > HIGHEST_LEVEL:
        enter_initial(flow, env)
    elif flow.level > 1:
        flow.state = PUSHING
        flow.gain = PUSH_GAIN
        mark_growth(flow)
        begin_era(flow)
    else:
        begin_era(flow)
        if flow.cruises == 0:
            flow.cruises = CRUISES if flow.level > 0 else 1
        flow.gain = 1.0 + 48.0 / 1024.0 if env.srtt < MIN_RTT else 1.0
        flow.state = CRUISING


# ---- rate and window -------------------------------------------------------------------------------------------------


def set_rate_and_window(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Set pacing rate and window."""
    s = 1.0 * env.packet_size
    rate = flow.gain * flow.nominal_rate
    window = rate * flow.nominal_max_rtt / 8.0 if rate > 0.0 else windows.first_window(s, p)
    if flow.state == INITIAL:
        rate = max(rate, FIRST_RATE)
        flow.initial_window = max(flow.initial_window, window)
        window = flow.initial_window
    else:
        window += rate * min(MARGIN, 0.25 * flow.nominal_max_rtt) / 8.0
        if flow.state == PROBING or flow.state == PUSHING:
            window += max(s - (flow.gain - 1.0) * flow.nominal_rate * flow.nominal_max_rtt / 8.0, 0.0)
    env.rate = rate
    env.window = max(window, 2.0 * s)
