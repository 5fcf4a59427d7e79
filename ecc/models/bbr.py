"""BBRv3: rate and volume in flight follow a model of the path from deliveries, RTTs and losses (draft-ietf-ccwg-bbr).

    bw       = min(max_bw, bw_shortterm)                         max_bw: of this cycle and the previous one
    bdp      = bw min_rtt                                        min_rtt: over 10 s
    rate     = 0.99 pacing_gain bw
    W        = cwnd_gain bdp + extra_acked, limited to inflight_longterm and inflight_shortterm, but >= 4 packets

    state       pacing_gain  cwnd_gain  ends                                                   inflight_longterm
    Startup     2.77         2          rate not 5/4 higher for 3 rounds, or 2 % lost          --
    Drain       0.5          2          in flight <= bdp, or after 3 rounds                    all
    DOWN        0.9          2          in flight <= bdp, and with headroom                    all
    CRUISE      1            2          2 to 3 s or min(bdp, 63) rounds after UP               less 15 %
    REFILL      1            2          after a round                                          all
    UP          1.25         2.25       as Startup, or at the level that was too high before   all, grows
    ProbeRTT    1            0.5        200 ms and a round; begins after 5 s without a lower RTT   less 15 %

    2 % lost of a flight of UP or REFILL:               inflight_longterm  <- max(that flight, 0.7 min(bdp, W))
    a loss in a round, outside Startup, REFILL and UP:  bw_shortterm       <- max(rate of the round, 0.7 bw_shortterm)
                                                        inflight_shortterm <- max(delivered in it, 0.7 of the bound)

Volumes are in bytes, rates in bit/s. Names are the draft's, and functions are in its order; rate samples are those of
`delivery_rate`. form="google" selects the choices of Google's code (tcp_bbr.c, v3), see `Form`. With ECN (in that code
only; links mark, receivers report bytes, min_rtt <= 5 ms), alpha is the averaged share of marks of a round:

    alpha <- alpha + (share - alpha)/16      inflight_shortterm <- inflight_shortterm (1 - alpha/3)   a round with marks
    half of a sample's delivery marked: as 2 % lost; in Startup for two rounds: Drain

A lost packet does not return its header. Its flight is taken to be that of the packet whose ACK shows the loss. Losses
that one ACK shows are one burst of the draft. If the transport detects a spurious recovery (`env.undone`), bounds and
state return to their values before it. The loss of a retransmission counts as a further loss in the model; as in Linux
it begins no further recovery (`lost_retransmission` "linux").
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from ecc._support.arguments import shown
from ecc._support.quantity import TIME, QuantityField, as_delay, as_time, default
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.forms import ProbingCycle, StateMachine
from ecc.contract.parameters import check_choice, check_number
from ecc.contract.reference import ReferenceLoop
from ecc.models.shared import bbr_fluid, bbr_parts, delivery_rate, windows
from ecc.models.shared.bbr_parts import INFINITE, MIN_PACKETS, restore_cwnd, save_cwnd, set_pacing_rate
from ecc.models.shared.clock import is_over

STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT = range(7)
STATES = ("Startup", "Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL", "ProbeBW_UP", "ProbeRTT")
"""Names of `FlowState.state`."""
ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING = range(5)

STARTUP_GAIN, UP_GAIN, CWND_GAIN, PROBE_RTT_GAIN = 2.77, 1.25, 2.0, 0.5
FULL_GROWTH, FULL_ROUNDS, DRAIN_ROUNDS = 1.25, 3, 3  # growth that counts; rounds without it; rounds of Drain
WAIT, WAIT_SPREAD, WAIT_ROUNDS, MAX_UP_ROUNDS = 2.0, 1.0, 63.0, 30  # s, s, rounds, doublings
QUANTUM_TIME, MAX_QUANTUM, MIN_QUANTUM = 1e-3, 65536.0, 2.0  # s, bytes, packets
ALPHA_GAIN, ECN_FACTOR, ECN_THRESHOLD, ECN_ROUNDS, ECN_REPROBE = 1.0 / 16.0, 1.0 / 3.0, 0.5, 2, 0.5


@dataclass
class Header(delivery_rate.Header):
    """Header fields that travel with a packet and return with its ACK."""

    marked: int = 0  # bytes reported as marked when the packet was sent


@dataclass
class FlowState(bbr_parts.FlowState):
    """A host's state for one flow, with the draft's names; times in s, rates in bit/s, volumes in bytes."""

    # model of the path
    max_bw: float = 0.0
    max_bw_filter: tuple[float, ...] = (0.0, 0.0)  # maximum of the previous cycle, and of this one
    cycle_count: int = 0
    bw_shortterm: float = INFINITE
    inflight_shortterm: float = INFINITE
    inflight_longterm: float = INFINITE
    # signals of the last round
    bw_latest: float = 0.0
    inflight_latest: float = 0.0
    loss_round_delivered: int = 0
    loss_round_start: int = 0
    is_loss_in_round: int = 0
    loss_events: int = 0  # number of ACKs that showed losses
    # detection of a full pipe
    full_bw_now: int = 0
    drain_start_round: int = 0
    # ProbeBW
    ack_phase: int = ACKS_INIT
    bw_probe_wait: float = 0.0
    rounds_since_probe_up: int = 0
    bw_probe_up_rounds: int = 0
    bw_probe_up_acked: float = 0.0
    probe_up_acked_per_inc: float = INFINITE
    is_bw_probe_sample: int = 0
    prev_probe_too_high: int = 0
    prev_probe_precautionary: int = 0
    # ProbeRTT
    probe_rtt_min_delay: float = INFINITE
    probe_rtt_min_stamp: float = 0.0
    probe_rtt_expired: int = 0
    # recovery
    undo_state: int = -1  # state that losses have ended; -1: none
    undo_bw_shortterm: float = 0.0  # bounds before the first loss of the last round with losses
    undo_inflight_shortterm: float = 0.0
    undo_inflight_longterm: float = 0.0
    # ECN
    ecn_eligible: int = 0
    alpha: float = 1.0
    marked: int = 0  # bytes that ACKs have reported as marked
    marked_in_alpha: int = 0  # value of `marked` at the last update of alpha
    delivered_in_alpha: int = 0  # value of `delivered` at that time
    is_marked_in_round: int = 0
    was_marked_in_round: int = 0  # the same for the previous round
    marked_in_cycle: int = 0
    lost_in_cycle: int = 0
    startup_ecn_rounds: int = 0


@dataclass(frozen=True)
class Form:
    """Constants and choices (1: yes) that differ among the draft, Google's code and version 2; volumes in packets.

    Google's gains are whole numbers of 1/256.
    """

    startup_gain: float = STARTUP_GAIN
    drain_gain: float = 0.5
    down_gain: float = 0.9
    startup_cwnd_gain: float = CWND_GAIN  # also in Drain
    up_cwnd_gain: float = 2.25
    full_losses: float = 6.0  # ACKs that show losses, in a round, for Startup to end by losses
    extra_acked_rounds: float = 10.0
    drain_rounds: float = 3.0  # maximum length of Drain
    adds_budget: float = 0.0  # add the offload budget to the window; the draft uses it as the minimum window
    any_growth: float = 0.0  # any ACK can show growth of the rate, not only the first ACK of a round
    clears_signals: float = 0.0  # discard the losses of Startup when Drain begins
    bounds_cruise: float = 0.0  # limit inflight_shortterm to inflight_longterm when CRUISE begins
    startup_cwnds: float = 0.0  # initial windows up to which W grows in Startup for any model
    compares_max_bw: float = 0.0  # Startup needs growth of max_bw instead of a sample's rate
    ends_up_by_queue: float = 0.0  # UP ends after an RTT at 5/4 bdp in flight, not when the rate stops growing
    recalls_inflight: float = 1.0  # after losses in Startup, inflight_longterm is a round's delivery or more


FORMS = {
    "draft": Form(),
    "google": Form(
        startup_gain=710 / 256,
        drain_gain=88 / 256,
        down_gain=232 / 256,
        extra_acked_rounds=5.0,
        drain_rounds=1e9,
        adds_budget=1.0,
        any_growth=1.0,
        clears_signals=1.0,
        bounds_cruise=1.0,
        startup_cwnds=2.0,
    ),
}


@dataclass(frozen=True, kw_only=True)
class BoundedInflight(windows.WindowProtocol):
    """Base class of versions 2 and 3, which limit the volume in flight by the losses that they observe.

    Parameters
    ----------
    loss_threshold : float, in (0, 1)
        Share of lost packets that ends probing for more bandwidth: LossThresh.
    beta : float, in (0, 1)
        Factor of the limits of the rate and the volume in flight after a round with losses: Beta.
    headroom : float, in [0, 1)
        Share of inflight_longterm that is left free: Headroom.
    min_rtt_window : float, s, > 0
        Age up to which the minimum RTT is used: MinRTTFilterLen.
    probe_rtt_interval : float, s, > 0
        Time after which the flow empties the queue to measure the minimum RTT again: ProbeRTTInterval.
    probe_rtt_duration : float, s, > 0
        Minimum time with a small volume in flight, in which the minimum RTT is measured: ProbeRTTDuration.
    quanta : float, >= 0
        Send quanta for which the window has room: 3 for TCP hosts with segmentation offload, 1 for QUIC. 0: hosts send
        packet by packet, as here.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, L, restart, pacing
        See `WindowProtocol`; `initial` and `min_rto` default to Linux's values, L has no effect. `restart` is
        "none": the model of the path stays valid after an idle period.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    loss_threshold: float = 0.02
    beta: float = 0.7
    headroom: float = 0.15
    min_rtt_window: QuantityField = default(10.0)
    probe_rtt_interval: QuantityField = default(5.0)
    probe_rtt_duration: QuantityField = default(0.2)
    quanta: float = 0.0
    transport: str = "rack"
    lost_retransmission: str = "linux"
    initial: float | None = 10.0
    min_rto: QuantityField = default(0.2)
    restart: str = "none"

    dimensions = {"min_rtt_window": TIME, "probe_rtt_interval": TIME, "probe_rtt_duration": TIME}

    may_use_prr = False
    sets_rate = True
    restarts = ("none",)
    slow_start_law = None
    loss_response_law = None
    required_env = frozenset({"random"})
    probing_cycle = ProbingCycle(
        {
            "bandwidth": ("max_bw", "max_bw_filter", "bw"),
            "minimum RTT": ("min_rtt", "probe_rtt_min_delay"),
            "bound of inflight": ("inflight_longterm",),
        },
        (("state", PROBE_RTT), ("state", REFILL)),
    )
    cycle_loop = ReferenceLoop(100e6, (0.03, 0.03), "ours", buffer=1_000_000)

    def __post_init__(self) -> None:
        check_number(
            self,
            loss_threshold=None,
            beta=None,
            headroom=0.0,
            min_rtt_window=as_delay,
            probe_rtt_interval=as_delay,
            probe_rtt_duration=as_delay,
            quanta=0.0,
        )
        for name in ("loss_threshold", "beta", "headroom"):
            if getattr(self, name) >= 1.0:
                allowed = ">= 0" if name == "headroom" else "> 0"
                raise ValueError(f"{name} must be {allowed} and < 1, got {shown(getattr(self, name))}")
        super().__post_init__()

    def params(self) -> dict[str, float]:
        names = ("loss_threshold", "beta", "headroom", "min_rtt_window", "probe_rtt_interval", "probe_rtt_duration")
        return {
            **{name: getattr(self, name) for name in (*names, "quanta")},
            **vars(self._form),
            "ecn": 0.0,
            "ecn_max_rtt": 0.0,
            "has_selective_acks": float(self.transport != "newreno"),
            "finds_losses_by_time": float(self.transport in ("rack", "quic")),
            **super().params(),
        }

    @property
    @abstractmethod
    def _form(self) -> Form:
        """Constants of the version."""

    @property
    def answers(self) -> frozenset[str]:
        return frozenset({"loss"})

    @property
    def linear_refusal(self) -> str | None:
        return (
            f"{type(self).__name__} has no linear model: its hosts are state machines that alternate between "
            "probes, and never settle"
        )

    # ---- hooks -------------------------------------------------------------------------------------------

    Header = Header
    FlowState = FlowState

    def flow_hooks(self) -> dict[str, Hook]:
        return {
            "on_start": flow_on_start,
            "on_send": flow_on_send,
            "on_receive": delivery_rate.on_receive,
            "on_ack": flow_on_ack,
            "on_loss": flow_on_loss,
        }


@dataclass(frozen=True)
class BBR(BoundedInflight):
    """BBR version 3.

    Parameters
    ----------
    form : str
        "draft" (draft-ietf-ccwg-bbr) or "google" (Google's code).
    ecn : bool
        Whether packets can be marked, and hosts respond to marks as in Google's code.
    ecn_max_rtt : float, s, >= 0
        Maximum min_rtt for responses to marks; 0: any.
    loss_threshold, beta, headroom, min_rtt_window, probe_rtt_interval, probe_rtt_duration, quanta
        See `BoundedInflight`.
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, L, restart, pacing
        See `WindowProtocol`; `initial` and `min_rto` default to Linux's values, L has no effect. `restart` is
        "none": the model of the path stays valid after an idle period.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    form: str = "draft"
    ecn: bool = False
    ecn_max_rtt: QuantityField = default(0.005)

    dimensions = {"ecn_max_rtt": TIME}

    property_exceptions = bbr_fluid.EXCEPTIONS
    reference_loop = ReferenceLoop(100e6, (0.03,) * 10, "SCHERRER, the program: 100 Mb/s, 10 flows; the RTTs are ours")

    def __post_init__(self) -> None:
        check_choice(self, "form", tuple(FORMS))
        check_choice(self, "ecn", (False, True))
        object.__setattr__(self, "ecn_max_rtt", as_time(self.ecn_max_rtt, "ecn_max_rtt"))
        super().__post_init__()

    def params(self) -> dict[str, float]:
        return {**super().params(), "ecn": float(self.ecn), "ecn_max_rtt": self.ecn_max_rtt}

    @property
    def _form(self) -> Form:
        return FORMS[self.form]

    @property
    def fluid_form(self) -> StateMachine | None:
        """The state machine; None with ECN, as the fluid does not model responses to marks."""
        return None if self.ecn else bbr_fluid.VERSION_3

    @property
    def ecn_echo(self) -> str | None:
        return "accurate" if self.ecn else None

    @property
    def answers(self) -> frozenset[str]:
        return frozenset({"loss", "ecn"} if self.ecn else {"loss"})


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """OnInit: start with the initial window."""
    bbr_parts.flow_on_start(flow, header, p, env)
    flow.probe_rtt_min_stamp = env.now


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """OnTransmit: HandleRestartFromIdle, and the sender's counters for the packet."""
    if bbr_parts.restart_from_idle(flow, env):
        if is_in_probe_bw(flow):
            set_pacing_rate(flow, 1.0, env)
        elif flow.state == PROBE_RTT:
            check_probe_rtt_done(flow, p, env)
    delivery_rate.on_send(flow, header, p, env)
    header.marked = flow.marked


def flow_on_ack(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """UpdateOnACK: process losses shown by the ACK, the end of a recovery, then model, state, rate and window."""
    if flow.round_count == 0 and flow.delivered == 0:
        bbr_parts.init_pacing_rate(env.window, env.srtt, p, env)
    delivery_rate.on_ack(flow, header, p, env)
    flow.marked += env.marked
    if flow.newly_lost > 0:
        handle_losses(flow, p, env)
    if env.recovered > 0 or (flow.rto_recovery_point > 0 and env.delivered >= flow.rto_recovery_point):
        flow.rto_recovery_point = 0
        restore_cwnd(flow, env)
    if env.undone > 0:
        handle_spurious_losses(flow, env)
    if flow.newly_acked > 0:
        update_model_and_state(flow, header, p, env)
        set_pacing_rate(flow, pacing_gain(flow, p), env)
        set_cwnd(flow, p, env)
    bound_cwnd(flow, p, env)


def flow_on_loss(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """OnEnterFastRecovery, OnEnterRTO: save the window; without RACK, a timeout counts the whole flight as lost."""
    save_cwnd(flow, flow.rto_recovery_point > 0 or flow.state == PROBE_RTT, env)
    if env.kind == 1:
        flow.rto_recovery_point = flow.snd_nxt
        if p.finds_losses_by_time == 0.0:
            delivery_rate.count_losses(flow, 0)
            flow.tx_in_flight = flow.newly_lost
            flow.sample_lost = flow.newly_lost
            flow.sample_app_limited = 1 if flow.app_limited > 0 else 0
            if flow.newly_lost > 0:
                handle_losses(flow, p, env)
        env.window = 1.0 * env.packet_size


def update_model_and_state(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """UpdateModelAndState: process a sample, in the draft's order."""
    if flow.round_start > 0:
        flow.rounds_since_probe_up += 1
        if p.ecn > 0.0:
            update_alpha(flow, p, env)
    if env.marked > 0 and flow.ecn_eligible > 0:
        flow.is_marked_in_round = 1
    update_latest_delivery_signals(flow)
    update_congestion_signals(flow, p, env)
    bbr_parts.update_ack_aggregation(flow, p.extra_acked_rounds if flow.full_bw_reached > 0 else 1.0, env)
    check_full_bw_reached(flow, p)
    check_startup_done(flow, p, env)
    check_drain_done(flow, p, env)
    update_probe_bw_cycle_phase(flow, header, p, env)
    update_min_rtt(flow, p, env)
    check_probe_rtt(flow, p, env)
    if flow.loss_round_start > 0:  # AdvanceLatestDeliverySignals
        flow.bw_latest = flow.rate
        flow.inflight_latest = 1.0 * flow.sample_delivered
    flow.bw = min(flow.max_bw, flow.bw_shortterm)
    if flow.sample_lost > 0:
        flow.lost_in_cycle = 1
    if flow.marked > header.marked:
        flow.marked_in_cycle = 1


# ---- gains, and target volumes in flight -----------------------------------------------------------------------------


def pacing_gain(flow: FlowState, p: Params) -> float:
    """Return the pacing gain of the state, see the table of the module."""
    if flow.state == STARTUP:
        return p.startup_gain
    if flow.state == DRAIN:
        return p.drain_gain
    if flow.state == DOWN:
        return p.down_gain
    return UP_GAIN if flow.state == UP else 1.0


def cwnd_gain(flow: FlowState, p: Params) -> float:
    """Return the window gain of the state, see the table of the module."""
    if flow.state == UP:
        return p.up_cwnd_gain
    if flow.state == STARTUP or flow.state == DRAIN:
        return p.startup_cwnd_gain
    return PROBE_RTT_GAIN if flow.state == PROBE_RTT else CWND_GAIN


def is_in_probe_bw(flow: FlowState) -> bool:
    """IsInAProbeBWState: one of the four phases of ProbeBW."""
    inside: bool = flow.state in (DOWN, CRUISE, REFILL, UP)
    return inside


def is_probing_bw(flow: FlowState) -> bool:
    """IsProbingBW: a state in which losses do not lower the short-term bounds."""
    probing: bool = flow.state in (STARTUP, REFILL, UP)
    return probing


def bdp(bw: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """BDPMultiple(1): the bandwidth-delay product, or the initial window before the first RTT sample."""
    volume: float = (
        bw * flow.min_rtt / 8.0 if flow.min_rtt < INFINITE else windows.first_window(1.0 * env.packet_size, p)
    )
    return volume


def quantization_budget(cap: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """QuantizationBudget, with SetSendQuantum and UpdateOffloadBudget: room for offload, and two packets in UP."""
    s = 1.0 * env.packet_size
    budget = p.quanta * max(min(env.rate * QUANTUM_TIME / 8.0, MAX_QUANTUM), MIN_QUANTUM * s)
    cap = cap + budget if p.adds_budget > 0.0 else max(cap, budget)
    cap = max(cap, MIN_PACKETS * s)
    return cap + 2.0 * s if flow.state == UP else cap


def inflight(bw: float, flow: FlowState, p: Params, env: FlowEnv) -> float:
    """Inflight(bw, 1): the volume in flight of a full pipe."""
    return quantization_budget(bdp(bw, flow, p, env), flow, p, env)


def target_inflight(flow: FlowState, p: Params, env: FlowEnv) -> float:
    """TargetInflight: the estimated volume in flight without a queue, limited to the window."""
    return min(bdp(flow.bw, flow, p, env), env.window)


def inflight_with_headroom(flow: FlowState, p: Params, env: FlowEnv) -> float:
    """InflightWithHeadroom: leave a share of inflight_longterm to flows that enter."""
    if flow.inflight_longterm >= INFINITE:
        return INFINITE
    s = 1.0 * env.packet_size
    level: float = max(flow.inflight_longterm - max(s, p.headroom * flow.inflight_longterm), MIN_PACKETS * s)
    return level


# ---- Startup and Drain -----------------------------------------------------------------------------------------------


def reset_full_bw(flow: FlowState, full_bw: float) -> None:
    """ResetFullBW: begin to look for growth from the rate `full_bw`."""
    flow.full_bw = full_bw
    flow.full_bw_count = 0
    flow.full_bw_now = 0


def check_full_bw_reached(flow: FlowState, p: Params) -> None:
    """CheckFullBWReached: the pipe is full after three rounds in which the rate grows by less than a quarter."""
    if flow.full_bw_now > 0 or flow.sample_app_limited > 0:
        return
    if flow.round_start == 0 and p.any_growth == 0.0:
        return
    rate = flow.max_bw if p.compares_max_bw > 0.0 else flow.rate
    if rate >= FULL_GROWTH * flow.full_bw:
        reset_full_bw(flow, rate)
    elif flow.round_start > 0:
        flow.full_bw_count += 1
        if flow.full_bw_count >= FULL_ROUNDS:
            flow.full_bw_now = 1
            flow.full_bw_reached = 1


def check_startup_done(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """CheckStartupDone and CheckStartupHighLoss, EnterDrain: a full pipe or many losses end Startup."""
    if flow.state == STARTUP and flow.full_bw_reached == 0:
        if p.has_selective_acks > 0.0:
            is_high = (
                flow.loss_round_start > 0
                and env.recovering > 0
                and flow.loss_events >= p.full_losses
                and is_loss_too_high(flow, p)
            )
        else:
            is_high = env.recovering > 0 and flow.newly_lost > 0
        if is_high:
            flow.undo_state = STARTUP
            leave_startup(flow, p, env)
    if flow.loss_round_start > 0:
        flow.loss_events = 0
    if flow.state == STARTUP and flow.full_bw_reached > 0:
        flow.state = DRAIN
        flow.drain_start_round = flow.round_count
        if p.clears_signals > 0.0:
            reset_congestion_signals(flow)


def leave_startup(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Treat the pipe as full, as losses or marks indicate, and set inflight_longterm from the path's model."""
    flow.full_bw_reached = 1
    flow.inflight_longterm = bdp(flow.bw, flow, p, env)
    if p.recalls_inflight > 0.0:
        flow.inflight_longterm = max(flow.inflight_longterm, flow.inflight_latest)


def check_drain_done(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """CheckDrainDone, EnterProbeBW: Drain ends when the queue of Startup is gone."""
    if flow.state == DRAIN and (
        env.in_flight <= inflight(flow.bw, flow, p, env) or flow.round_count > flow.drain_start_round + p.drain_rounds
    ):
        start_probe_bw_down(flow, env)


# ---- ProbeBW ---------------------------------------------------------------------------------------------------------


def start_probe_bw_down(flow: FlowState, env: FlowEnv) -> None:
    """StartProbeBW_DOWN and PickProbeWait; one random number gives both, by its first bit and its later digits."""
    reset_congestion_signals(flow)
    flow.probe_up_acked_per_inc = INFINITE
    flow.rounds_since_probe_up = 1 if env.random >= 0.5 else 0
    flow.bw_probe_wait = WAIT + WAIT_SPREAD * ((2.0 * env.random) % 1.0)
    flow.cycle_stamp = env.now
    flow.ack_phase = ACKS_PROBE_STOPPING
    delivery_rate.start_round(flow)
    flow.state = DOWN


def start_probe_bw_cruise(flow: FlowState, p: Params) -> None:
    """StartProbeBW_CRUISE: send at the estimated rate."""
    if p.bounds_cruise > 0.0 and flow.inflight_shortterm < INFINITE:
        flow.inflight_shortterm = min(flow.inflight_shortterm, flow.inflight_longterm)
    flow.state = CRUISE


def start_probe_bw_refill(flow: FlowState, up_rounds: int) -> None:
    """StartProbeBW_REFILL: fill the pipe for a round, so that UP starts with a fully used path."""
    reset_short_term_model(flow)
    flow.bw_probe_up_rounds = up_rounds
    flow.bw_probe_up_acked = 0.0
    flow.prev_probe_precautionary = 0
    flow.ack_phase = ACKS_REFILLING
    delivery_rate.start_round(flow)
    flow.state = REFILL


def start_probe_bw_up(flow: FlowState, env: FlowEnv) -> None:
    """StartProbeBW_UP: probe for more bandwidth."""
    flow.ack_phase = ACKS_PROBE_STARTING
    flow.cycle_stamp = env.now
    delivery_rate.start_round(flow)
    reset_full_bw(flow, flow.rate)
    flow.state = UP
    raise_inflight_longterm_slope(flow, env)


def update_probe_bw_cycle_phase(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """UpdateProbeBWCyclePhase: move to the next phase of ProbeBW if it is time."""
    if flow.full_bw_reached == 0 or adapt_long_term_model(flow, header, p, env):
        return
    if flow.state == DOWN or flow.state == CRUISE:
        if is_time_to_probe_bw(flow, p, env):
            return
        if flow.state == DOWN and is_time_to_cruise(flow, p, env):
            start_probe_bw_cruise(flow, p)
    elif flow.state == REFILL:
        if flow.round_start > 0:
            flow.is_bw_probe_sample = 1
            start_probe_bw_up(flow, env)
    elif flow.state == UP and is_time_to_go_down(flow, p, env):
        flow.prev_probe_too_high = 0
        start_probe_bw_down(flow, env)


def is_time_to_cruise(flow: FlowState, p: Params, env: FlowEnv) -> bool:
    """IsTimeToCruise: DOWN has drained the queue, and headroom is free."""
    is_low: bool = env.in_flight <= min(inflight_with_headroom(flow, p, env), inflight(flow.max_bw, flow, p, env))
    return is_low


def is_time_to_go_down(flow: FlowState, p: Params, env: FlowEnv) -> bool:
    """IsTimeToGoDown: UP has filled the pipe, or has reached the level that was too high in the last probe."""
    if flow.prev_probe_too_high > 0 and env.in_flight >= flow.inflight_longterm:
        flow.prev_probe_precautionary = 1
        return True
    if p.ends_up_by_queue > 0.0:
        queues: bool = is_over(env.now, flow.cycle_stamp + flow.min_rtt) and env.in_flight >= quantization_budget(
            UP_GAIN * bdp(flow.max_bw, flow, p, env), flow, p, env
        )
        return queues
    if delivery_rate.is_window_limited(flow) and env.window >= flow.inflight_longterm:
        reset_full_bw(flow, flow.rate)
        return False
    is_full: bool = flow.full_bw_now > 0
    return is_full


def is_time_to_probe_bw(flow: FlowState, p: Params, env: FlowEnv) -> bool:
    """IsTimeToProbeBW, IsRenoCoexistenceProbeTime; with ECN also when marks cease, in a cycle without losses."""
    if (
        flow.ecn_eligible > 0
        and flow.marked_in_cycle > 0
        and flow.lost_in_cycle == 0
        and flow.is_marked_in_round + flow.was_marked_in_round == 0
        and env.recovering == 0
        and flow.inflight_longterm < INFINITE
    ):
        n, volume = 0, ECN_REPROBE * flow.inflight_longterm / env.packet_size
        while volume >= 2.0 and n < MAX_UP_ROUNDS:
            volume *= 0.5
            n += 1
        start_probe_bw_refill(flow, n)
        return True
    rounds = min(target_inflight(flow, p, env) / env.packet_size, WAIT_ROUNDS)
    if is_over(env.now, flow.cycle_stamp + flow.bw_probe_wait) or flow.rounds_since_probe_up >= rounds:
        start_probe_bw_refill(flow, 0)
        return True
    return False


def raise_inflight_longterm_slope(flow: FlowState, env: FlowEnv) -> None:
    """RaiseInflightLongtermSlope: grow by 1, 2, 4, ... packets per round."""
    growth = 1 << flow.bw_probe_up_rounds
    flow.bw_probe_up_rounds = min(flow.bw_probe_up_rounds + 1, MAX_UP_ROUNDS)
    flow.probe_up_acked_per_inc = max(env.window / growth, 1.0 * env.packet_size)


def probe_inflight_longterm_upward(flow: FlowState, env: FlowEnv) -> None:
    """ProbeInflightLongtermUpward: raise inflight_longterm while the window fills it."""
    if not delivery_rate.is_window_limited(flow) or env.window < flow.inflight_longterm:
        return
    flow.bw_probe_up_acked += flow.newly_acked
    if flow.bw_probe_up_acked >= flow.probe_up_acked_per_inc:
        delta = flow.bw_probe_up_acked // flow.probe_up_acked_per_inc
        flow.bw_probe_up_acked -= delta * flow.probe_up_acked_per_inc
        flow.inflight_longterm += delta * env.packet_size
    if flow.round_start > 0:
        raise_inflight_longterm_slope(flow, env)


def adapt_long_term_model(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> bool:
    """AdaptLongTermModel: adapt bounds to a probe's feedback; return whether the state has changed."""
    if flow.ack_phase == ACKS_PROBE_STARTING and flow.round_start > 0:
        flow.ack_phase = ACKS_PROBE_FEEDBACK
    if flow.ack_phase == ACKS_PROBE_STOPPING and flow.round_start > 0:
        flow.is_bw_probe_sample = 0
        flow.ack_phase = ACKS_INIT
        if is_in_probe_bw(flow):
            if flow.sample_app_limited == 0:
                advance_max_bw_filter(flow)
            if flow.prev_probe_precautionary > 0 and flow.prev_probe_too_high == 0:
                start_probe_bw_refill(flow, 0)
                return True
    if is_marking_too_high(flow, header):
        if flow.is_bw_probe_sample > 0:
            handle_inflight_too_high(flow, p, env)
    elif not is_loss_too_high(flow, p) and flow.inflight_longterm < INFINITE:
        flow.inflight_longterm = max(flow.inflight_longterm, 1.0 * flow.tx_in_flight)
        if flow.state == UP:
            probe_inflight_longterm_upward(flow, env)
    return False


# ---- ProbeRTT --------------------------------------------------------------------------------------------------------


def update_min_rtt(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """UpdateMinRTT: keep one minimum for ProbeRTT (5 s) and one for the model (10 s)."""
    flow.probe_rtt_expired = 1 if is_over(env.now, flow.probe_rtt_min_stamp + p.probe_rtt_interval) else 0
    if env.rtt < flow.probe_rtt_min_delay or flow.probe_rtt_expired > 0:
        flow.probe_rtt_min_delay = env.rtt
        flow.probe_rtt_min_stamp = env.now
    if flow.probe_rtt_min_delay < flow.min_rtt or is_over(env.now, flow.min_rtt_stamp + p.min_rtt_window):
        flow.min_rtt = flow.probe_rtt_min_delay
        flow.min_rtt_stamp = flow.probe_rtt_min_stamp


def probe_rtt_cwnd(flow: FlowState, p: Params, env: FlowEnv) -> float:
    """ProbeRTTCwnd: half the bandwidth-delay product, so that the queue drains."""
    return max(PROBE_RTT_GAIN * bdp(flow.bw, flow, p, env), MIN_PACKETS * env.packet_size)


def check_probe_rtt(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """CheckProbeRTT, EnterProbeRTT and HandleProbeRTT: drain the queue if the minimum RTT is old."""
    if flow.state != PROBE_RTT and flow.probe_rtt_expired > 0 and flow.idle_restart == 0:
        save_cwnd(flow, env.recovering > 0 or flow.rto_recovery_point > 0, env)
        flow.state = PROBE_RTT
        flow.probe_rtt_done_stamp = 0.0
        flow.ack_phase = ACKS_PROBE_STOPPING
        delivery_rate.start_round(flow)
    if flow.state == PROBE_RTT and bbr_parts.ends_probe_rtt(flow, probe_rtt_cwnd(flow, p, env), p, env):
        check_probe_rtt_done(flow, p, env)
    flow.idle_restart = 0


def check_probe_rtt_done(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """CheckProbeRTTDone and ExitProbeRTT: restore the window, and cruise or resume Startup."""
    if flow.probe_rtt_done_stamp == 0.0 or not is_over(env.now, flow.probe_rtt_done_stamp):
        return
    flow.probe_rtt_min_stamp = env.now
    restore_cwnd(flow, env)
    reset_short_term_model(flow)
    if flow.full_bw_reached > 0:
        start_probe_bw_down(flow, env)
        start_probe_bw_cruise(flow, p)
    else:
        flow.state = STARTUP


# ---- model of the path: rates ----------------------------------------------------------------------------------------


def update_max_bw(flow: FlowState) -> None:
    """UpdateMaxBw: application-limited samples count only if they are larger."""
    if flow.rate >= flow.max_bw or flow.sample_app_limited == 0:
        flow.max_bw_filter[1] = max(flow.max_bw_filter[1], flow.rate)
        flow.max_bw = max(flow.max_bw_filter[0], flow.max_bw_filter[1])


def advance_max_bw_filter(flow: FlowState) -> None:
    """AdvanceMaxBwFilter: begin a cycle, unless the current one has no sample."""
    if flow.max_bw_filter[1] > 0.0:
        flow.max_bw_filter[0] = flow.max_bw_filter[1]
        flow.max_bw_filter[1] = 0.0
        flow.max_bw = flow.max_bw_filter[0]
        flow.cycle_count += 1


# ---- losses and marks ------------------------------------------------------------------------------------------------


def is_loss_too_high(flow: FlowState, p: Params) -> bool:
    """IsInflightTooHigh: more than 2 % of a flight is lost; without selective ACKs any loss."""
    if p.has_selective_acks == 0.0:
        has_lost: bool = flow.sample_lost > 0
        return has_lost
    is_high: bool = flow.sample_lost > flow.tx_in_flight * p.loss_threshold
    return is_high


def is_marking_too_high(flow: FlowState, header: Header) -> bool:
    """Return whether more than half of a sample's delivery was marked."""
    is_high: bool = flow.ecn_eligible > 0 and flow.marked - header.marked > ECN_THRESHOLD * flow.sample_delivered
    return is_high


def handle_losses(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """NoteLoss and HandleLostPacket, for the losses that one ACK shows, or a timeout."""
    flow.loss_events += 1
    if flow.is_loss_in_round == 0:
        flow.loss_round_delivered = flow.delivered
        flow.undo_state = -1  # SaveStateUponLoss
        flow.undo_bw_shortterm = flow.bw_shortterm
        flow.undo_inflight_shortterm = flow.inflight_shortterm
        flow.undo_inflight_longterm = flow.inflight_longterm
    flow.is_loss_in_round = 1
    if flow.is_bw_probe_sample > 0 and is_loss_too_high(flow, p):
        flow.tx_in_flight = int(inflight_at_loss(flow, p))
        handle_inflight_too_high(flow, p, env)


def inflight_at_loss(flow: FlowState, p: Params) -> float:
    """InflightAtLoss: the flight at which the losses reached the threshold, within the burst of this ACK."""
    size = 1.0 * flow.newly_lost
    before = flow.tx_in_flight - size
    prefix = (p.loss_threshold * before - (flow.sample_lost - size)) / (1.0 - p.loss_threshold)
    level: float = before + min(max(prefix, 0.0), size)
    return level


def handle_inflight_too_high(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """HandleInflightTooHigh: a probe caused too many losses; lower inflight_longterm and end UP."""
    flow.prev_probe_too_high = 1
    flow.is_bw_probe_sample = 0
    if flow.sample_app_limited == 0:
        flow.inflight_longterm = max(1.0 * flow.tx_in_flight, p.beta * target_inflight(flow, p, env))
    if flow.state == UP:
        flow.undo_state = UP
        start_probe_bw_down(flow, env)


def handle_spurious_losses(flow: FlowState, env: FlowEnv) -> None:
    """HandleSpuriousLossDetection."""
    restore_cwnd(flow, env)
    flow.rto_recovery_point = 0
    flow.is_loss_in_round = 0
    reset_full_bw(flow, 0.0)
    flow.bw_shortterm = max(flow.bw_shortterm, flow.undo_bw_shortterm)
    flow.inflight_shortterm = max(flow.inflight_shortterm, flow.undo_inflight_shortterm)
    flow.inflight_longterm = max(flow.inflight_longterm, flow.undo_inflight_longterm)
    if flow.undo_state == STARTUP and flow.state != STARTUP:
        flow.full_bw_reached = 0
        if flow.state != PROBE_RTT:
            flow.state = STARTUP
    elif flow.undo_state == UP and flow.state != UP and flow.state != PROBE_RTT:
        start_probe_bw_refill(flow, 0)
    flow.undo_state = -1


def update_latest_delivery_signals(flow: FlowState) -> None:
    """UpdateLatestDeliverySignals: maxima of the current round of losses."""
    flow.loss_round_start = 0
    flow.bw_latest = max(flow.bw_latest, flow.rate)
    flow.inflight_latest = max(flow.inflight_latest, 1.0 * flow.sample_delivered)
    if flow.prior_delivered >= flow.loss_round_delivered:
        flow.loss_round_delivered = flow.delivered
        flow.loss_round_start = 1


def reset_congestion_signals(flow: FlowState) -> None:
    """ResetCongestionSignals: discard losses and marks of the cycle."""
    flow.is_loss_in_round = 0
    flow.is_marked_in_round = 0
    flow.lost_in_cycle = 0
    flow.marked_in_cycle = 0
    flow.bw_latest = 0.0
    flow.inflight_latest = 0.0


def reset_short_term_model(flow: FlowState) -> None:
    """ResetShortTermModel: remove the short-term bounds."""
    flow.bw_shortterm = INFINITE
    flow.inflight_shortterm = INFINITE


def update_congestion_signals(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """UpdateCongestionSignals, AdaptLowerBoundsFromCongestion: lower the short-term bounds once a round."""
    update_max_bw(flow)
    if flow.loss_round_start == 0:
        return
    if not is_probing_bw(flow) and flow.is_loss_in_round + flow.is_marked_in_round > 0:
        if flow.inflight_shortterm >= INFINITE:
            flow.inflight_shortterm = env.window
        marked_inflight = INFINITE
        if flow.is_marked_in_round > 0:
            marked_inflight = flow.inflight_shortterm * (1.0 - ECN_FACTOR * flow.alpha)
        if flow.is_loss_in_round > 0:
            if flow.bw_shortterm >= INFINITE:
                flow.bw_shortterm = flow.max_bw
            flow.bw_shortterm = max(flow.bw_latest, p.beta * flow.bw_shortterm)
            flow.inflight_shortterm = max(flow.inflight_latest, p.beta * flow.inflight_shortterm)
        flow.inflight_shortterm = min(flow.inflight_shortterm, marked_inflight)
    flow.is_loss_in_round = 0
    flow.was_marked_in_round = flow.is_marked_in_round
    flow.is_marked_in_round = 0


def update_alpha(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """Average the share of marks, once a round; in Startup, two rounds with many marks show a full pipe."""
    if p.ecn_max_rtt == 0.0 or flow.min_rtt <= p.ecn_max_rtt:
        flow.ecn_eligible = 1
    delivered = flow.delivered - flow.delivered_in_alpha
    if flow.ecn_eligible == 0 or delivered <= 0:
        return
    share = (flow.marked - flow.marked_in_alpha) / delivered
    flow.alpha = min(flow.alpha + ALPHA_GAIN * (share - flow.alpha), 1.0)
    flow.marked_in_alpha = flow.marked
    flow.delivered_in_alpha = flow.delivered
    if flow.full_bw_reached == 0:
        flow.startup_ecn_rounds = flow.startup_ecn_rounds + 1 if share >= ECN_THRESHOLD else 0
        if flow.startup_ecn_rounds >= ECN_ROUNDS:
            leave_startup(flow, p, env)


# ---- rate and window -------------------------------------------------------------------------------------------------


def set_cwnd(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """SetCwnd, with UpdateMaxInflight: grow towards the target window."""
    s = 1.0 * env.packet_size
    first = windows.first_window(s, p)
    target = quantization_budget(cwnd_gain(flow, p) * bdp(flow.bw, flow, p, env) + flow.extra_acked, flow, p, env)
    if flow.full_bw_reached > 0:
        env.window = min(env.window + flow.newly_acked, target)
    elif env.window < target or flow.delivered < first or env.window < p.startup_cwnds * first:
        env.window += flow.newly_acked
    env.window = max(env.window, MIN_PACKETS * s)


def bound_cwnd(flow: FlowState, p: Params, env: FlowEnv) -> None:
    """BoundCwndForProbeRTT and BoundCwndForModel: apply the bounds of the state."""
    if flow.state == PROBE_RTT:
        env.window = min(env.window, probe_rtt_cwnd(flow, p, env))
    cap = flow.inflight_shortterm
    if flow.state == PROBE_RTT or flow.state == CRUISE:
        cap = min(cap, inflight_with_headroom(flow, p, env))
    elif is_in_probe_bw(flow):
        cap = min(cap, flow.inflight_longterm)
    env.window = min(env.window, max(cap, MIN_PACKETS * env.packet_size))
