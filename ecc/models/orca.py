"""Orca: a trained policy multiplies the window of CUBIC every 20 ms (Abbasloo, Yen, Chao, SIGCOMM 2020).

    w <- max(floor(floor(100 4^a) w/100), 2)    a = network(last 10 frames), after slow start
    w <- 1.1 w                                  in slow start

In between, and in all other respects, the host is CUBIC (`ecc.models.cubic`). A frame has seven features:

    x_d/M,  min(10, x_p/M),  5 x_l/M,  n/w,  t,  r,  min(1, 1.25 r)

    w  window [packets]   a  action, in [-1, 1]   x_d, x_l  rates of delivered and lost data in the interval [bit/s]
    x_p  pacing rate, 1.2 windows per smoothed RTT as in Linux   M  maximum of x_d so far   n  number of RTT samples
    t  length of the interval [s]   r  minimum RTT/smoothed RTT

The default network is the published one (`ecc.models.shared.actors.orca_actor`, checkpoint 1283529 of
github.com/Soheil-ab/Orca; equations and constants from its source code). Three choices of this file concern what the
source leaves to the kernel. Recoveries keep their windows. Windows that a flow does not fill do not grow. Intervals
begin with the first ACK.

As fluid, CUBIC grows by its laws per step, reduces its window once in an RTT with losses, and leaves it as it is for an
RTT; actions act as in packets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ecc._support.quantity import TIME, QuantityField, as_delay, default
from ecc.contract.env import FlowEnv, FluidEnv, Hook, Params
from ecc.contract.forms import StateMachine
from ecc.contract.records import with_fields
from ecc.contract.reference import ReferenceLoop
from ecc.laws.dense_network import DenseNetwork
from ecc.models import cubic, policy
from ecc.models.cubic import CUBIC
from ecc.models.shared import delivery_rate, policies, windows
from ecc.models.shared.actors import orca_actor

SLOW_START_FACTOR = 1.1
UNLIMITED = 1e300  # slow-start threshold before the first loss [bit]


@dataclass
class FlowState(policies.Intervals, delivery_rate.FlowState, cubic.FlowState):
    """A host's state for one flow; `flow_record` adds the arrays for the network."""


@dataclass(frozen=True, kw_only=True)
class Orca(CUBIC):
    """Orca.

    Parameters
    ----------
    network : DenseNetwork, str, path, or None
        Network, or its file (see `Policy`), with frames of seven features. None: the published one.
    interval : float, s, > 0
        Time between two actions (20 ms).
    C, beta, version, fast_convergence, slow_start, search_threshold, search_drain, application_limited, saved_window
        See `CUBIC`; `version` is that of Linux by default.
    saved_rtt, transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, pacing, restart
        See `CUBIC`; `initial` and `min_rto` default to Linux's values.
    ecn
        See `CUBIC`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    FileNotFoundError
        The file of the network does not exist.
    EccError
        The package `onnx` is needed and missing.
    """

    network: Any = field(default=None)
    interval: QuantityField = default(0.02)
    version: str = "linux"
    initial: float | None = 10.0
    min_rto: QuantityField = default(0.2)

    dimensions = {"interval": TIME}

    router_law = None  # type: ignore[assignment]
    source_law = None  # type: ignore[assignment]
    slow_start_law = None
    loss_response_law = None  # type: ignore[assignment]
    states = {}
    no_equilibrium = "its policy multiplies windows in every interval"
    linear_refusal = "Orca has no linear model: its hosts act at the ends of intervals, on whole histories"
    property_exceptions = {"scaling": "its network was trained for a range of rates and times, and acts every 20 ms"}
    reference_loop = ReferenceLoop(48e6, (0.04,) * 2, "ours; two bandwidth-delay products of buffer", buffer=480_000)
    cycle_loop = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.network is not None:
            policy.adopt_network(self)
        object.__setattr__(self, "interval", as_delay(self.interval, "interval", positive=True))
        policy.check_frames(self.actor, len(policies.OBSERVATIONS["orca"]))
        super().__post_init__()

    @property
    def actor(self) -> DenseNetwork:
        """The network."""
        return orca_actor() if self.network is None else policy.actor_of(self.network)

    def params(self) -> dict[str, Any]:
        return {"interval": self.interval, **policy.network_params(self.actor), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    FlowState = FlowState
    Header = delivery_rate.Header

    def flow_record(self) -> Any:
        """Return the initial state of a flow, with the arrays for the network."""
        return with_fields(super().flow_record(), policies.memory_of(self.actor.n_in, policy.width_of(self.actor)))

    def flow_hooks(self) -> dict[str, Hook]:
        hooks = dict(super().flow_hooks())
        measured = {"on_send": delivery_rate.on_send, "on_receive": delivery_rate.on_receive}
        return {**hooks, **measured, "on_ack": observing(hooks["on_ack"]), "on_timer": flow_on_timer}

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, t: float = 0.0, **values: float) -> Any:
        raise ValueError("start must be 'empty' for packets of Orca: it acts on earlier intervals")

    # ---- fluid -------------------------------------------------------------------------------------------

    @property
    def fluid_form(self) -> StateMachine:
        """Orca at the steps of a fluid."""
        return StateMachine(on_step, FluidState, memory=policy.fluid_memory(self.actor))


def interval_law(p: Params) -> float:
    """The time between two actions [s]."""
    return p.interval


decide = policies.deciding(policies.OBSERVATIONS["orca"], policies.change_window, interval_law)


@cache
def observing(on_ack: Hook) -> Hook:
    """Return CUBIC's hook for ACKs, with measurements.

    Parameters
    ----------
    on_ack : callable
        Hook of CUBIC.
    """

    def on_ack_measured(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
        if flow.ends == 0.0:
            policy.begin_interval(flow, p.interval, env)
        policy.measure_ack(flow, header, p, env)
        on_ack(flow, header, p, env)

    return on_ack_measured


def flow_on_timer(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Act at the end of an interval."""
    s, w = 8.0 * env.packet_size, 8.0 * env.window
    sent, delivered, lost = 8.0 * flow.sent, 8.0 * flow.delivered, 8.0 * flow.lost
    rate = 0.0  # no law of Orca takes it
    window = decide(flow, flow, env.now, sent, delivered, lost, env.srtt, env.min_rtt, rate, w, s, p) / 8.0
    is_slow = windows.in_slow_start(flow, env)
    if is_slow:
        window = SLOW_START_FACTOR * env.window
    if is_slow or env.recovering == 0:  # a window that the flow does not use must not grow without a limit
        if window < env.window or windows.is_filled(env.window, is_slow, env):
            env.window = window
    env.timer = flow.ends - env.now


# ---- CUBIC and actions in the fluid ----------------------------------------------------------------------------------


@dataclass
class FluidState(policy.FluidState):
    """State of a flow in the fluid; windows in bits."""

    threshold: float = UNLIMITED  # slow-start threshold
    maximum: float = 0.0  # M
    prior: float = 0.0  # W_prior
    flat: float = 0.0  # K [s]
    avoiding: float = -1.0  # start of congestion avoidance [s]; < 0: not started
    friendly: float = 0.0  # E
    recovered: float = -1.0  # end of the last recovery [s]


def on_step(flow: FluidState, header: Any, p: Params, env: FluidEnv) -> None:
    """Measure; respond to losses or grow as CUBIC; act at the end of an interval."""
    if flow.congestion_window == 0.0:
        flow.congestion_window = policy.first_volume(p, env)
    policy.take_step(flow, env)
    if env.lost > 0.0 and env.now >= flow.recovered:
        reduce_window(flow, p, env)
    elif env.now >= flow.recovered and env.acked > 0.0:
        grow(flow, p, env)
    if flow.ends == 0.0 and env.rtt > 0.0:
        flow.mean_rtt = env.rtt
        policies.begin(flow, p.interval, env.now, flow.sent_so_far, env.delivered, flow.lost_so_far)
    elif flow.ends > 0.0 and env.now >= flow.ends:
        w, s = flow.congestion_window, env.packet_size
        sent, lost, now = flow.sent_so_far, flow.lost_so_far, env.now
        window = decide(flow, header, now, sent, env.delivered, lost, flow.srtt, flow.min_rtt, 0.0, w, s, p)
        if w < flow.threshold:
            flow.congestion_window = SLOW_START_FACTOR * w
        elif env.now >= flow.recovered:
            flow.congestion_window = window
    env.rate, env.window = policy.UNLIMITED, flow.congestion_window


def reduce_window(flow: FluidState, p: Params, env: FluidEnv) -> None:
    """RFC 9438 secs. 4.6 and 4.7, for the losses of an RTT."""
    w, s = flow.congestion_window, env.packet_size
    flow.maximum = cubic.maximum_after_loss(w, flow.maximum, p)
    flow.prior = cubic.window_at_loss(w)
    flow.congestion_window = cubic.window_after_loss(w, s, p)
    flow.threshold = flow.congestion_window
    flow.avoiding = -1.0
    flow.recovered = env.now + env.rtt


def grow(flow: FluidState, p: Params, env: FluidEnv) -> None:
    """Slow start, or the cubic and Reno's window: the growth of an RTT for a window of acknowledged data."""
    w, s = flow.congestion_window, env.packet_size
    if w < flow.threshold:
        flow.congestion_window = w + env.acked
        return
    if flow.avoiding < 0.0:
        flow.avoiding = env.now
        flow.maximum = max(flow.maximum, w)
        flow.flat = cubic.time_to(flow.maximum, w, s, p)
        flow.friendly = w
    t = env.now - flow.avoiding
    flow.friendly += cubic.reno_step(flow.friendly, flow.prior, p) * s * env.acked / w
    goal = cubic.window_law(w, t, flow.flat, flow.maximum, flow.friendly, env.rtt, s, p)
    flow.congestion_window = w + (goal - w) * min(env.acked / w, 1.0)
