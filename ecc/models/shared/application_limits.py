"""Windows that do not limit their flow, since the application or the receiver does: their growth, decay and losses.

The parameter `application_limited` of `StartUpProtocol` selects the rule. F is FlightSize, with the data that an ACK
acknowledges.

    "flight"       growth if the window was full, or if F fills it; in slow start if F fills half of it
                   (`windows.is_window_limited`; RFC 9438 sec. 5.8)
    "linux"        growth if the last packet filled the window; in slow start if W < 2 P, with P the largest flight
                   since the data then in flight was acknowledged (tcp_cwnd_validate, tcp_is_cwnd_limited)
    "rfc9002"      growth if F fills the window, or if the pacer limited the flow (sec. 7.8), in slow start too
    "ratelimited"  growth at each ACK, up to the window that an RTT of F_max gives: 2 F_max in slow start, F_max + s in
                   Reno's congestion avoidance (draft-ietf-ccwg-ratelimited-increase)
    "rfc7661"      growth if the window is validated, or was full; decay and reduction by RFC 7661
    "none"         growth at each ACK, as RFC 5681 has it

F_max is the largest F since the window was last reduced, or the initial window before. The draft caps the window; here
growth is capped, and a window is never reduced. Otherwise the small F behind a burst of losses would reduce it again.

RFC 7661: pipeACK is the maximum that an RTT has acknowledged, of the last max(3 RTTs, 1 s). A window W is validated if
pipeACK is undefined or >= W/2. Otherwise:

    W <- max(W/2, IW), ssthresh <- max(ssthresh, 3 W/4)      each 5 minutes
    W <- W' max(pipeACK, F)/F                                a loss, for which the law of the host gives W' from F
    W <- W (B - R)/B, B = max(pipeACK, F) at the loss        at the end of the recovery, R bytes retransmitted in it

A window survives idle periods then: `restart` is "rfc7661", and the five minutes include the idle time.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

from ecc.contract.env import FlowEnv, Hook, Params
from ecc.jit.reach import replace_functions
from ecc.models.shared import filters, windows
from ecc.models.shared.clock import is_over

__all__ = [
    "APPLICATION_LIMITS",
    "FLIGHT",
    "RFC7661",
    "STATES",
    "RateLimited",
    "Validated",
    "with_rule",
]

FLIGHT, LINUX, RFC9002, RATE_LIMITED, RFC7661, NONE = "flight", "linux", "rfc9002", "ratelimited", "rfc7661", "none"
APPLICATION_LIMITS = (FLIGHT, LINUX, RFC9002, RATE_LIMITED, RFC7661, NONE)
MIN_PERIOD, RTTS = 1.0, 3.0  # s, RTTs: the time in which pipeACK is a maximum


@dataclass
class Used(windows.FlowState):
    """Further state with `application_limited` "linux"."""

    fills: int = 0  # 1 if the window was full after the last packet (is_cwnd_limited)
    max_out: float = 0.0  # largest flight since `use_end` was set (max_packets_out) [bytes]
    use_end: int = 0  # volume to deliver until both are measured anew (cwnd_usage_seq) [bytes]


@dataclass
class RateLimited(windows.FlowState):
    """Further state with `application_limited` "ratelimited"."""

    max_flight: float = -1.0  # largest FlightSize since the last reduction of the window [bytes]; < 0: none yet
    last_window: float = 0.0  # window after the last hook [bytes]


@dataclass
class Validated(windows.FlowState):
    """Further state with `application_limited` "rfc7661"."""

    pipe_ack: float = -1.0  # pipeACK [bytes]; < 0: undefined
    pipe_samples: tuple[float, ...] = (0.0,) * 3
    pipe_times: tuple[float, ...] = (0.0,) * 3
    sample_from: int = 0  # volume delivered when this sample of pipeACK began [bytes]
    sample_end: int = -1  # volume to deliver until it ends [bytes]; < 0: none has begun
    validated_at: float = 0.0  # time at which the window was validated last, or decayed [s]
    loss_base: float = 0.0  # max(pipeACK, FlightSize) at a loss with a window that was not validated [bytes]; 0: none
    resent: int = 0  # bytes retransmitted since then


STATES = {LINUX: Used, RATE_LIMITED: RateLimited, RFC7661: Validated}
"""Further state of flows, by rule."""


# ---- rules of growth -------------------------------------------------------------------------------------------------


def always(flow: windows.FlowState, env: FlowEnv) -> bool:
    """RFC 5681: a window grows at each ACK of new data."""
    return True


def by_use(flow: Used, env: FlowEnv) -> bool:
    """Linux's tcp_is_cwnd_limited."""
    return flow.fills > 0 or (env.window < flow.ssthresh and env.window < 2.0 * flow.max_out)


def by_rfc9002(flow: windows.FlowState, env: FlowEnv) -> bool:
    """RFC 9002 sec. 7.8: return whether bytes in flight fill the window, or pacing limits the flow."""
    return env.limited_by != windows.BY_DATA or windows.is_filled(env.window, False, env)


def by_validation(flow: Validated, env: FlowEnv) -> bool:
    """RFC 7661: return whether the window is validated, or limits the flow."""
    return is_validated(flow, env) or env.limited_by == windows.BY_WINDOW or windows.is_filled(env.window, False, env)


RULES = {LINUX: by_use, RFC9002: by_rfc9002, RATE_LIMITED: always, RFC7661: by_validation, NONE: always}
"""Function of state and `env` in place of `windows.is_window_limited`, by rule."""


def with_rule(hooks: dict[str, Hook], rule: str) -> dict[str, Hook]:
    """Return the hooks of a window protocol with a rule for windows that do not limit their flow.

    The hooks ask `windows.is_window_limited`, which the rule replaces.

    Parameters
    ----------
    hooks : dict
        Hooks by name.
    rule : str
        One of `APPLICATION_LIMITS`.
    """
    if rule == FLIGHT:
        return hooks
    limited: Any = windows.is_window_limited
    growth: Any = RULES[rule]
    changed: dict[str, Hook] = {
        name: replace_functions(cast(FunctionType, hook), {limited: growth}) for name, hook in hooks.items()
    }
    if rule == LINUX:
        changed["on_send"] = measuring_use(changed["on_send"]) if "on_send" in changed else measure_use
    if rule == RATE_LIMITED:
        changed["on_ack"] = up_to_limit(changed["on_ack"])
    if rule == RFC7661:
        changed["on_ack"] = validating(changed["on_ack"])
        changed["on_loss"] = reduced_to_pipe(changed["on_loss"])
        changed["on_restart"] = resumed(changed["on_restart"])
        changed["on_send"] = counting(changed["on_send"]) if "on_send" in changed else count_resent
    return changed


# ---- Linux -----------------------------------------------------------------------------------------------------------


def measure_use(flow: Used, header: Any, p: Params, env: FlowEnv) -> None:
    """Linux's tcp_cwnd_validate, at each packet."""
    out = env.in_flight + env.packet_size
    fills = 1 if out + env.packet_size > env.window else 0
    if env.delivered >= flow.use_end or fills > 0 or (flow.fills == 0 and out > flow.max_out):
        flow.fills = fills
        flow.max_out = 1.0 * out
        flow.use_end = env.delivered + out


def measuring_use(on_send: Hook) -> Hook:
    """Return a hook for transmissions that measures the use of the window.

    Parameters
    ----------
    on_send : callable
    """

    def on_send_measuring_use(flow: Used, header: Any, p: Params, env: FlowEnv) -> None:
        measure_use(flow, header, p, env)
        on_send(flow, header, p, env)

    return on_send_measuring_use


# ---- draft-ietf-ccwg-ratelimited-increase ----------------------------------------------------------------------------


def up_to_limit(on_ack: Hook) -> Hook:
    """Return a hook for ACKs whose growth ends at limit(F_max).

    Parameters
    ----------
    on_ack : callable
        Hook that grows the window at each ACK.
    """

    def on_ack_up_to_limit(flow: RateLimited, header: Any, p: Params, env: FlowEnv) -> None:
        before, s = env.window, 1.0 * env.packet_size
        flight = 1.0 * (env.in_flight + env.acked)
        if flow.max_flight < 0.0:
            flow.max_flight = windows.first_window(s, p)
        elif before < flow.last_window:
            flow.max_flight = 0.0  # a loss, a timeout or a restart
        flow.max_flight = max(flow.max_flight, flight)
        doubles = windows.in_slow_start(flow, env)
        on_ack(flow, header, p, env)
        gain = env.window - before
        if gain > 0.0 and flight < before and env.acked > 0:
            limit = 2.0 * flow.max_flight if doubles else flow.max_flight + gain * before / env.acked
            env.window = max(before, min(env.window, limit))
        elif gain < 0.0:
            flow.max_flight = 0.0
        flow.last_window = env.window

    return on_ack_up_to_limit


# ---- RFC 7661 --------------------------------------------------------------------------------------------------------


def is_validated(flow: Validated, env: FlowEnv) -> bool:
    """RFC 7661 sec. 4.2: return whether a recent RTT has acknowledged half of the window."""
    return flow.pipe_ack < 0.0 or 2.0 * flow.pipe_ack >= env.window


def measure(flow: Validated, env: FlowEnv) -> None:
    """Update pipeACK at an ACK."""
    if env.acked == 0:
        return
    if flow.sample_end < 0:
        flow.sample_from = env.delivered - env.acked
        flow.sample_end = env.delivered + env.in_flight
    if env.delivered >= flow.sample_end:
        sample = 1.0 * (env.delivered - flow.sample_from)
        period = max(RTTS * env.srtt, MIN_PERIOD)
        flow.pipe_ack = filters.windowed_max(flow.pipe_samples, flow.pipe_times, period, env.now, sample)
        flow.sample_from = env.delivered
        flow.sample_end = env.delivered + env.in_flight if env.in_flight > 0 else -1


def decay(flow: Validated, p: Params, env: FlowEnv) -> None:
    """RFC 7661 sec. 4.4.3: halve the window for each five minutes in which it was not validated."""
    while is_over(env.now, flow.validated_at + windows.NON_VALIDATED_PERIOD):
        flow.validated_at += windows.NON_VALIDATED_PERIOD
        env.window = windows.decayed(env.window, windows.NON_VALIDATED_PERIOD, flow, p, env)


def validating(on_ack: Hook) -> Hook:
    """Return a hook for ACKs that measures pipeACK, and completes the response to a loss.

    Parameters
    ----------
    on_ack : callable
        Hook that grows validated windows.
    """

    def on_ack_validating(flow: Validated, header: Any, p: Params, env: FlowEnv) -> None:
        measure(flow, env)
        on_ack(flow, header, p, env)
        if flow.loss_base > 0.0 and env.recovering == 0:
            share = max(1.0 - flow.resent / flow.loss_base, 0.0)
            if env.undone == 0:
                windows.cut(flow, share * env.window, env)
            flow.loss_base = 0.0
        if is_validated(flow, env):
            flow.validated_at = env.now
        elif env.recovering == 0:
            decay(flow, p, env)

    return on_ack_validating


def reduced_to_pipe(on_loss: Hook) -> Hook:
    """Return a hook for losses that reduces a window which was not validated to a share of the path's known capacity.

    Parameters
    ----------
    on_loss : callable
        Hook that reduces the window.
    """

    def on_loss_reduced_to_pipe(flow: Validated, header: Any, p: Params, env: FlowEnv) -> None:
        validated = is_validated(flow, env)
        window, flight, source = env.window, min(env.window, 1.0 * env.in_flight), windows.on_the_way(env)
        on_loss(flow, header, p, env)
        flow.loss_base = 0.0
        if env.kind == 0 and not validated and flight > 0.0:
            flow.loss_base = min(max(flow.pipe_ack, flight), window)
            flow.resent = 0
            if env.window > source:
                source = window  # hosts that reduce the window, as Linux's CUBIC, and not the data in flight
            windows.cut(flow, env.window * flow.loss_base / source, env)
        flow.pipe_ack = -1.0
        filters.reset(flow.pipe_samples, flow.pipe_times, env.now, 0.0)
        flow.sample_end = -1

    return on_loss_reduced_to_pipe


def resumed(on_restart: Hook) -> Hook:
    """Return a hook for restarts that counts the five minutes on from those which the restart has applied.

    Parameters
    ----------
    on_restart : callable
        Hook with the restart of RFC 7661.
    """

    def on_restart_resumed(flow: Validated, header: Any, p: Params, env: FlowEnv) -> None:
        on_restart(flow, header, p, env)
        periods = env.idle // windows.NON_VALIDATED_PERIOD
        flow.validated_at += periods * windows.NON_VALIDATED_PERIOD

    return on_restart_resumed


def count_resent(flow: Validated, header: Any, p: Params, env: FlowEnv) -> None:
    """Count retransmitted bytes."""
    if env.kind > 0:
        flow.resent += env.packet_size


def counting(on_send: Hook) -> Hook:
    """Return a hook for transmissions that counts retransmitted bytes.

    Parameters
    ----------
    on_send : callable
    """

    def on_send_counting(flow: Validated, header: Any, p: Params, env: FlowEnv) -> None:
        count_resent(flow, header, p, env)
        on_send(flow, header, p, env)

    return on_send_counting
