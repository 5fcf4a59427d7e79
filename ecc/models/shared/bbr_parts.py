"""Parts shared by BBR's versions: state of a path, ACK aggregation, end of ProbeRTT, pacing rates, saved windows.

Names are those of draft-ietf-ccwg-bbr. Volumes are in bytes, rates in bit/s, times in s.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import FlowEnv, Params
from ecc.models.shared import delivery_rate, filters, windows

__all__ = [
    "FIRST_RTT",
    "INFINITE",
    "MIN_PACKETS",
    "PACING",
    "FlowState",
    "ends_probe_rtt",
    "flow_on_start",
    "init_pacing_rate",
    "restart_from_idle",
    "restore_cwnd",
    "save_cwnd",
    "set_pacing_rate",
    "update_ack_aggregation",
]

INFINITE = 1e300
PACING = 0.99  # share of bw at which flows are paced, so that queues drain
MIN_PACKETS = 4.0  # minimum window, in packets
FIRST_RTT = 1e-3  # s, RTT assumed before the first sample


@dataclass
class FlowState(delivery_rate.FlowState):
    """State that all versions have for one flow."""

    state: int = 0
    bw: float = 0.0
    min_rtt: float = INFINITE
    min_rtt_stamp: float = 0.0
    # ACK aggregation
    extra_acked: float = 0.0
    extra_acked_interval_start: float = 0.0
    extra_acked_delivered: float = 0.0
    extra_acked_value: tuple[float, ...] = (0.0,) * 3
    extra_acked_time: tuple[float, ...] = (0.0,) * 3
    # detection of a full pipe
    full_bw: float = 0.0
    full_bw_count: int = 0
    full_bw_reached: int = 0
    # ProbeBW and ProbeRTT
    cycle_stamp: float = 0.0
    probe_rtt_done_stamp: float = 0.0
    probe_rtt_round_done: int = 0
    idle_restart: int = 0
    # recovery
    prior_cwnd: float = 0.0
    rto_recovery_point: int = 0  # sequence number whose ACK ends the recovery from a timeout; 0: no such recovery


def flow_on_start(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """OnInit: start with the initial window, paced over an assumed RTT."""
    windows.flow_on_start(flow, header, p, env)
    flow.min_rtt_stamp = env.now
    flow.extra_acked_interval_start = env.now
    init_pacing_rate(env.window, FIRST_RTT, p, env)


def restart_from_idle(flow: FlowState, env: FlowEnv) -> bool:
    """HandleRestartFromIdle, the part common to all states; return whether a flow was idle.

    As in Linux, the interval of ACK aggregation begins without the data delivered before (ack_epoch_acked). The draft
    restarts only its clock: extra_acked and the window then grow with everything that an application-limited flow
    delivers.
    """
    if env.in_flight > 0 or flow.app_limited == 0:
        return False
    flow.idle_restart = 1
    flow.extra_acked_interval_start = env.now
    flow.extra_acked_delivered = 0.0
    return True


def update_ack_aggregation(flow: FlowState, rounds: float, env: FlowEnv) -> None:
    """UpdateACKAggregation: the maximum volume, over some rounds, acknowledged beyond bw since ACKs kept up with it."""
    expected = flow.bw * (env.now - flow.extra_acked_interval_start) / 8.0
    if flow.extra_acked_delivered <= expected:
        flow.extra_acked_delivered = 0.0
        flow.extra_acked_interval_start = env.now
        expected = 0.0
    flow.extra_acked_delivered += flow.newly_acked
    extra = min(flow.extra_acked_delivered - expected, env.window)
    flow.extra_acked = filters.windowed_max(
        flow.extra_acked_value, flow.extra_acked_time, rounds, 1.0 * flow.round_count, extra
    )


def ends_probe_rtt(flow: FlowState, level: float, p: Params, env: FlowEnv) -> bool:
    """HandleProbeRTT: return whether ProbeRTT may end, after its duration at a level in flight, and a round."""
    delivery_rate.mark_app_limited(flow, env)
    if flow.probe_rtt_done_stamp > 0.0:
        if flow.round_start > 0:
            flow.probe_rtt_round_done = 1
        may_end: bool = flow.probe_rtt_round_done > 0
        return may_end
    if env.in_flight <= level:
        flow.probe_rtt_done_stamp = env.now + p.probe_rtt_duration
        flow.probe_rtt_round_done = 0
        delivery_rate.start_round(flow)
    return False


def init_pacing_rate(window: float, rtt: float, p: Params, env: FlowEnv) -> None:
    """InitPacingRate: pace the initial window over an RTT, with the gain of Startup."""
    env.rate = p.startup_gain * 8.0 * window / rtt


def set_pacing_rate(flow: FlowState, gain: float, env: FlowEnv) -> None:
    """SetPacingRateWithGain: before the pipe is full, the rate only increases."""
    rate = PACING * gain * flow.bw
    if rate > env.rate or (flow.full_bw_reached > 0 and rate > 0.0):
        env.rate = rate


def save_cwnd(flow: FlowState, is_cut: bool, env: FlowEnv) -> None:
    """SaveCwnd; `is_cut`: a recovery or ProbeRTT currently limits the window, so keep the earlier value."""
    flow.prior_cwnd = max(flow.prior_cwnd, env.window) if is_cut else env.window


def restore_cwnd(flow: FlowState, env: FlowEnv) -> None:
    """RestoreCwnd: return to the saved window, if it is larger."""
    env.window = max(env.window, flow.prior_cwnd)
