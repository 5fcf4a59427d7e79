"""BBR version 1: rate and volume follow the maximum delivery rate and the minimum RTT (Cardwell et al. 2016, Linux).

    bw       = maximum rate over 10 rounds                     min_rtt: minimum RTT over 10 s
    rate     = 0.99 pacing_gain bw
    W        = cwnd_gain bw min_rtt + extra_acked + room for offload

    state       pacing_gain              cwnd_gain   ends
    Startup     2.89                     2.89        rate not 5/4 higher for 3 rounds
    Drain       0.34                     2.89        in flight <= bdp
    ProbeBW     5/4, 3/4, 1 (six times)  2           a phase: after min_rtt; 5/4 not before 5/4 bdp are in flight or a
                                                     packet is lost; 3/4 as soon as in flight <= bdp
    ProbeRTT    1                        4 packets   200 ms and a round; begins after 10 s without a lower RTT

Losses act only on the window. Each loss removes its size from the window. In the first round of a recovery the flow
sends as much as is acknowledged; then the window grows back. At the end of the recovery it returns to its value before.
After a timeout it is one packet. The loss of a retransmission also removes its size, but begins no further recovery, as
in Linux (`lost_retransmission` "linux"). Volumes are in bytes, rates in bit/s; rate samples are those of
`delivery_rate`. Gains are Linux's whole numbers of 1/256. extra_acked is a maximum over 10 rounds, limited to 100 ms of
bw. Not modeled: the detection of policers from heavy losses in Linux ("long-term" sampling).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ecc._support.quantity import TIME, QuantityField, as_delay, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import ProbingCycle
from ecc.contract.parameters import check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models.shared import bbr_fluid, bbr_parts, delivery_rate, filters, windows
from ecc.models.shared.bbr_parts import MIN_PACKETS, PACING, restore_cwnd, save_cwnd
from ecc.models.shared.clock import is_over

STARTUP, DRAIN, PROBE_BW, PROBE_RTT = range(4)
STATES = ("Startup", "Drain", "ProbeBW", "ProbeRTT")
"""Names of `FlowState.state`."""

HIGH_GAIN, DRAIN_GAIN, CWND_GAIN, UP_GAIN, DOWN_GAIN = 739 / 256, 88 / 256, 2.0, 1.25, 0.75
CYCLE, BW_ROUNDS = 8, 10.0
FULL_GROWTH, FULL_ROUNDS = 1.25, 3  # growth that counts; rounds without it
QUANTUM_TIME, MAX_QUANTUM, TWO_PACKET_RATE = 1.0 / 1024.0, 65536.0, 1.2e6  # s, bytes, bit/s for quanta of two packets
AGGREGATION_TIME = 0.1  # s of bw, limit of extra_acked


@dataclass
class FlowState(bbr_parts.FlowState):
    """A host's state for one flow; times in s, rates in bit/s, volumes in bytes."""

    bw_value: tuple[float, ...] = (0.0,) * 3
    bw_time: tuple[float, ...] = (0.0,) * 3
    cycle_index: int = 0  # phase of ProbeBW: 0 is 5/4, 1 is 3/4
    packet_conservation: int = 0
    was_recovering: int = 0


@dataclass(frozen=True)
class BBRv1(windows.WindowProtocol):
    """BBR version 1.

    Parameters
    ----------
    min_rtt_window : float, s, > 0
        Time over which the minimum RTT is taken, and after which the flow empties the queue to measure it again.
    probe_rtt_duration : float, s, > 0
        Minimum time with a small volume in flight, in which the minimum RTT is measured (ProbeRTT).
    quanta : float, >= 0
        Send quanta added to the window, 3 in Linux; each is a millisecond at the rate, but two packets or more.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, L, restart, pacing
        See `WindowProtocol`; `initial` and `min_rto` default to Linux's values, L has no effect. `restart` is
        "none": the model of the path stays valid after an idle period.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    min_rtt_window: QuantityField = default(10.0)
    probe_rtt_duration: QuantityField = default(0.2)
    quanta: float = 3.0
    transport: str = field(default="rack", kw_only=True)
    lost_retransmission: str = field(default="linux", kw_only=True)
    initial: float | None = field(default=10.0, kw_only=True)
    min_rto: QuantityField = field(default=default(0.2), kw_only=True)
    restart: str = field(default="none", kw_only=True)

    dimensions = {"min_rtt_window": TIME, "probe_rtt_duration": TIME}

    may_use_prr = False
    sets_rate = True
    restarts = ("none",)
    slow_start_law = None
    loss_response_law = None
    required_env = frozenset({"random"})
    conformance_names = {"max_bw": "bw"}  # noqa: RUF012
    fluid_form = bbr_fluid.VERSION_1
    probing_cycle = ProbingCycle(
        {"bandwidth": ("bw", "bw_value"), "minimum RTT": ("min_rtt",)},
        (("state", PROBE_RTT), ("cycle_index", 0)),
        after=True,
    )
    linear_refusal = (
        "BBRv1 has no linear model: its hosts are state machines that alternate between probes, and never settle"
    )

    property_exceptions = bbr_fluid.EXCEPTIONS
    reference_loop = ReferenceLoop(100e6, (0.03,) * 10, "SCHERRER, the program: 100 Mb/s, 10 flows; the RTTs are ours")
    cycle_loop = ReferenceLoop(100e6, (0.03, 0.03), "ours", buffer=200_000)

    def __post_init__(self) -> None:
        check_number(self, min_rtt_window=as_delay, probe_rtt_duration=as_delay, quanta=0.0)
        super().__post_init__()

    def params(self) -> dict[str, float]:
        values = {name: getattr(self, name) for name in ("min_rtt_window", "probe_rtt_duration", "quanta")}
        by_time = float(self.transport in ("rack", "quic"))
        return {**values, "startup_gain": PACING * HIGH_GAIN, "finds_losses_by_time": by_time, **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = delivery_rate.Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": bbr_parts.flow_on_start,
            "on_send": flow_on_send,
            "on_receive": delivery_rate.on_receive,
            "on_ack": flow_on_ack,
            "on_loss": flow_on_loss,
        }


def flow_on_send(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Write the sender's counters into the packet; after an idle period restart at the estimated rate."""
    if bbr_parts.restart_from_idle(flow, env):
        flow.extra_acked_delivered = 0.0
        if flow.state == PROBE_BW:
            bbr_parts.set_pacing_rate(flow, 1.0, env)
        elif flow.state == PROBE_RTT:
            check_probe_rtt_done(flow, env)
    delivery_rate.on_send(flow, header, p, env)


def flow_on_ack(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Update the model of the path, then rate and window."""
    if flow.round_count == 0 and flow.delivered == 0:
        bbr_parts.init_pacing_rate(env.window, env.srtt, p, env)
    delivery_rate.on_ack(flow, header, p, env)
    if env.undone > 0:  # a spurious recovery: look for growth of the rate again
        flow.full_bw = 0.0
        flow.full_bw_count = 0
    if flow.newly_acked > 0:
        update_bw(flow)
        bbr_parts.update_ack_aggregation(flow, BW_ROUNDS, env)
        update_cycle_phase(flow, p, env)
        check_full_bw_reached(flow)
        check_drain(flow, p, env)
        update_min_rtt(flow, p, env)
        bbr_parts.set_pacing_rate(flow, pacing_gain(flow), env)
    set_cwnd(flow, p, env)


def flow_on_loss(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Save the window at the start of a recovery; after a timeout, look for growth of the rate again."""
    save_cwnd(flow, flow.rto_recovery_point > 0 or flow.state == PROBE_RTT, env)
    if env.kind == 1:
        flow.rto_recovery_point = flow.snd_nxt
        flow.packet_conservation = 0
        flow.was_recovering = 0
        flow.full_bw = 0.0
        if p.finds_losses_by_time == 0.0:
            delivery_rate.count_losses(flow, 0)
        env.window = 1.0 * env.packet_size


# ---- gains, and target volumes in flight -----------------------------------------------------------------------------


def pacing_gain(flow: FlowState) -> float:
    """Return the pacing gain of the state, see the table of the module."""
    if flow.state == STARTUP:
        return HIGH_GAIN
    if flow.state == DRAIN:
        return DRAIN_GAIN
    return cycle_gain(flow) if flow.state == PROBE_BW else 1.0


def cycle_gain(flow: FlowState) -> float:
    """Return the pacing gain of the phase of ProbeBW."""
    if flow.cycle_index == 0:
        return UP_GAIN
    return DOWN_GAIN if flow.cycle_index == 1 else 1.0


def inflight(gain: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """Return a multiple of the bandwidth-delay product, with room for offload, in an even number of packets."""
    s = 1.0 * env.packet_size
    return with_budget(gain * flow.bw * flow.min_rtt / 8.0, s, flow, p, env)


def with_budget(volume: float, s: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """Return a volume with room for offload, in an even number of packets; two more in the phase 5/4, to exceed it."""
    minimum = 1.0 if env.rate < TWO_PACKET_RATE else 2.0
    quantum = max(min(env.rate * QUANTUM_TIME / 8.0, MAX_QUANTUM) // s, minimum)
    packets = -((-volume / s) // 1.0) + p.quanta * quantum
    packets += packets % 2.0
    return (packets + 2.0 if flow.state == PROBE_BW and flow.cycle_index == 0 else packets) * s


# ---- model of the path -----------------------------------------------------------------------------------------------


def update_bw(flow: FlowState) -> None:
    """Update the maximum rate of 10 rounds; application-limited samples count only if they are larger."""
    if flow.round_start > 0:
        flow.packet_conservation = 0
    if flow.sample_app_limited == 0 or flow.rate >= flow.bw:
        flow.bw = filters.windowed_max(flow.bw_value, flow.bw_time, BW_ROUNDS, 1.0 * flow.round_count, flow.rate)


def update_min_rtt(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Update the minimum RTT; begin ProbeRTT once it has expired.

    An RTT equal to the minimum does not renew it, as in Linux since 5.10: on a path whose RTT without queue is exactly
    the same each time, ProbeBW would renew it in each of its cycles, and ProbeRTT would never begin.
    """
    has_expired = is_over(env.now, flow.min_rtt_stamp + p.min_rtt_window)
    if env.rtt < flow.min_rtt or has_expired:
        flow.min_rtt = env.rtt
        flow.min_rtt_stamp = env.now
    if has_expired and flow.idle_restart == 0 and flow.state != PROBE_RTT:
        save_cwnd(flow, env.recovering > 0 or flow.rto_recovery_point > 0, env)
        flow.state = PROBE_RTT
        flow.probe_rtt_done_stamp = 0.0
    if flow.state == PROBE_RTT and bbr_parts.ends_probe_rtt(flow, MIN_PACKETS * env.packet_size, p, env):
        check_probe_rtt_done(flow, env)
    flow.idle_restart = 0


def check_probe_rtt_done(flow: FlowState, env: FlowEnv) -> None:
    """Leave ProbeRTT after its duration."""
    if flow.probe_rtt_done_stamp > 0.0 and is_over(env.now, flow.probe_rtt_done_stamp):
        flow.min_rtt_stamp = env.now
        restore_cwnd(flow, env)
        if flow.full_bw_reached > 0:
            start_probe_bw(flow, env)
        else:
            flow.state = STARTUP


# ---- states ----------------------------------------------------------------------------------------------------------


def check_full_bw_reached(flow: FlowState) -> None:
    """Treat the pipe as full after three rounds in which the rate grows by less than a quarter."""
    if flow.full_bw_reached > 0 or flow.round_start == 0 or flow.sample_app_limited > 0:
        return
    if flow.bw >= FULL_GROWTH * flow.full_bw:
        flow.full_bw = flow.bw
        flow.full_bw_count = 0
    else:
        flow.full_bw_count += 1
        if flow.full_bw_count >= FULL_ROUNDS:
            flow.full_bw_reached = 1


def check_drain(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Move from Startup to Drain, and from Drain to ProbeBW."""
    if flow.state == STARTUP and flow.full_bw_reached > 0:
        flow.state = DRAIN
    if flow.state == DRAIN and env.in_flight <= inflight(1.0, flow, p, env):
        start_probe_bw(flow, env)


def start_probe_bw(flow: FlowState, env: FlowEnv) -> None:
    """Start ProbeBW in a random phase other than 3/4, so that flows do not probe at the same time."""
    flow.state = PROBE_BW
    flow.cycle_index = (CYCLE - int((CYCLE - 1) * env.random)) % CYCLE
    flow.cycle_stamp = env.now


def update_cycle_phase(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Move to the next phase of ProbeBW if it is time."""
    if flow.state != PROBE_BW:
        return
    ends = is_over(env.now, flow.cycle_stamp + flow.min_rtt)
    before = env.in_flight + flow.newly_acked + flow.newly_lost  # in flight before this ACK
    if flow.cycle_index == 0:
        ends = ends and (flow.newly_lost > 0 or before >= inflight(UP_GAIN, flow, p, env))
    elif flow.cycle_index == 1:
        ends = ends or before <= inflight(1.0, flow, p, env)
    if ends:
        flow.cycle_index = (flow.cycle_index + 1) % CYCLE
        flow.cycle_stamp = env.now


# ---- window ----------------------------------------------------------------------------------------------------------


def set_cwnd(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Remove losses from the window, and grow it towards the target of the model."""
    s = 1.0 * env.packet_size
    if flow.newly_acked > 0:
        if not is_conserving(flow, s, env):
            target = (HIGH_GAIN if flow.state == STARTUP or flow.state == DRAIN else CWND_GAIN) * flow.bw
            if flow.state == PROBE_RTT:
                target = flow.bw
            volume = target * flow.min_rtt / 8.0
            if flow.full_bw_reached > 0:
                volume += min(flow.extra_acked, AGGREGATION_TIME * flow.bw / 8.0)
            limit = with_budget(volume, s, flow, p, env)
            if flow.full_bw_reached > 0:
                env.window = min(env.window + flow.newly_acked, limit)
            elif env.window < limit or flow.delivered < windows.first_window(s, p):
                env.window += flow.newly_acked
            env.window = max(env.window, MIN_PACKETS * s)
    if flow.state == PROBE_RTT:
        env.window = min(env.window, MIN_PACKETS * s)


def is_conserving(flow: FlowState, s: float, env: FlowEnv) -> bool:
    """Remove losses from the window, restore it after a recovery; return whether a round conserves packets."""
    env.window = max(env.window - flow.newly_lost, s)
    sending = 1.0 * (env.in_flight + flow.newly_acked)
    if env.recovering > 0 and flow.was_recovering == 0:
        flow.packet_conservation = 1
        delivery_rate.start_round(flow)
        env.window = sending
    elif env.recovering == 0 and (
        flow.was_recovering > 0 or (flow.rto_recovery_point > 0 and env.delivered >= flow.rto_recovery_point)
    ):
        flow.packet_conservation = 0
        flow.rto_recovery_point = 0
        restore_cwnd(flow, env)
    flow.was_recovering = 1 if env.recovering > 0 else 0
    if flow.packet_conservation > 0:
        env.window = max(env.window, sending)
        return True
    return False
