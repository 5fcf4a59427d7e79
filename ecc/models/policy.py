"""A trained policy as a host: a network of dense layers observes monitor intervals and sets a rate or a window.

    o_k = observe(statistics of interval k)             features of a frame
    a_k = network(o_{k-H+1}, ..., o_k)                  H frames, oldest first
    x or w <- act(a_k, statistics)                      rate or window until the next action

    choice    observe                                            act                                   interval
    "aurora"  dD/dt, D/min D, x_s/x_d                            x (1 + 0.025 a), x/(1 - 0.025 a)      D/2
    "orca"    x_d/M, 1.2 w/sRTT/M, 5 x_l/M, n/w, t, r, m         floor(floor(100 4^a) w/100)           20 ms

    a  action   x  pacing rate   w  window   D  mean RTT of the interval   x_s, x_d, x_l  rates of sent, delivered and
    lost data   M  maximum of x_d   n  RTT samples   t  length of the interval   r  minRTT/sRTT   m  min(1, 1.25 r)

`ecc.models.shared.policies` defines the statistics. A rate begins with an initial window per RTT. The flight is limited
to two windows x sRTT, which matters in outages only. Lost packets are retransmitted; only the policy changes the rate
or the window. In the fluid the same functions act at the end of the step in which an interval ends, on averages over
the interval; each acknowledged packet counts as an RTT sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import RATE, TIME, OptionalQuantityField, QuantityField, as_delay, as_rate, default
from ecc.contract.env import FlowEnv, FluidEnv, Hook, Params
from ecc.contract.forms import StateMachine
from ecc.contract.records import with_fields
from ecc.contract.reference import ReferenceLoop
from ecc.laws.arguments import takes
from ecc.laws.dense_network import TEXT, DenseNetwork
from ecc.models.shared import delivery_rate, policies, windows
from ecc.models.shared.actors import ACTORS

FIRST_RTT, IN_FLIGHT = 0.1, 2.0  # s before the first sample; windows
UNLIMITED = 1e30  # rate of a window in the fluid [bit/s]; maximum rates and windows of flows that use them in part


@dataclass
class FlowState(policies.Intervals, delivery_rate.FlowState, windows.FlowState):
    """A host's state for one flow; `flow_record` adds the arrays for the network."""


@dataclass(frozen=True, kw_only=True)
class Policy(windows.WindowProtocol):
    """A trained policy as a protocol.

    Parameters
    ----------
    network : str, path or DenseNetwork
        File of the network, "actor.npz" or "model.onnx" (see `DenseNetwork.load`), the network, or "orca" or
        "aurora", the networks of these protocols. Its inputs are whole frames, oldest first; its first output is the
        action.
    observe : str, function, or tuple of these
        "aurora", "orca", or the laws of the features of a frame: functions of a module with arguments among
        `ecc.models.shared.policies.STATISTICS`, in the language of laws.
    act : str or function
        "aurora", "orca", or the law of the new window [bit] if it takes `w`, otherwise of the new rate [bit/s].
    interval : float, s, > 0, str, function, or None
        Length of intervals, for example "20 ms", or a law of it. None: that of the choice `act`.
    initial_rate : float, bit/s, > 0, or None
        Initial rate. None: an initial window per RTT.
    min_rate : float, bit/s, > 0
        Minimum rate of the action "aurora".
    transport, lost_retransmission, prr, initial, receiver_window, min_rto, initial_rto, L, restart, pacing
        See `WindowProtocol`; `initial` and `min_rto` default to Linux's values, L has no effect. `restart` is "none".

    Raises
    ------
    ValueError, TypeError
        A parameter out of range, a network whose inputs are not whole frames, or a law that does not exist.
    FileNotFoundError
        The file of the network does not exist.
    EccError
        The package `onnx` is needed and missing.
    """

    network: Any = field(default="aurora", kw_only=False)
    observe: Any = "aurora"
    act: Any = "aurora"
    interval: Any = None
    initial_rate: OptionalQuantityField = default(None)
    min_rate: QuantityField = default(0.48e6)
    transport: str = "rack"
    initial: float | None = 10.0
    min_rto: QuantityField = default(0.2)
    restart: str = "none"

    dimensions = {"initial_rate": RATE, "min_rate": RATE, "interval": TIME}

    may_use_prr = False
    sets_rate = True
    restarts = ("none",)
    slow_start_law = None
    loss_response_law = None
    linear_refusal = "Policy has no linear model: its hosts act at the ends of intervals, on whole histories"
    no_equilibrium = "its network may have none"
    property_exceptions = {"scaling": "its network was trained for a range of rates and times"}
    reference_loop = ReferenceLoop(3.6e6, (0.1,) * 2, "ours; within the range of Aurora's training")

    def __post_init__(self) -> None:
        adopt_network(self)
        object.__setattr__(self, "observe", _laws(self.observe, "observe", tuple(policies.OBSERVATIONS)))
        object.__setattr__(self, "act", _law(self.act, "act", tuple(policies.ACTIONS)))
        object.__setattr__(self, "interval", _interval(self.interval, self.act))
        if self.initial_rate is not None:
            object.__setattr__(self, "initial_rate", as_rate(self.initial_rate, "initial_rate"))
        object.__setattr__(self, "min_rate", as_rate(self.min_rate, "min_rate"))
        check_frames(self.actor, len(self.policy_laws[0]))
        super().__post_init__()

    @property
    def actor(self) -> DenseNetwork:
        """The network."""
        return actor_of(self.network)

    @property
    def policy_laws(self) -> tuple[tuple[Any, ...], Any, Any]:
        """The laws of the features, of the action, and of the interval."""
        return _laws_of(self.observe, self.act, self.interval)

    @property
    def sets_window(self) -> bool:
        """Whether the action is a window."""
        return takes(self.policy_laws[1], "w") and not takes(self.policy_laws[1], "x")

    def params(self) -> dict[str, Any]:
        rates = {"initial_rate": self.initial_rate or 0.0, "min_rate": self.min_rate}
        return {**rates, **network_params(self.actor), **super().params()}

    # ---- hooks -------------------------------------------------------------------------------------------

    def flow_record(self) -> Any:
        """Return the initial state of a flow, with the arrays for the network."""
        return with_fields(FlowState(), policies.memory_of(self.actor.n_in, width_of(self.actor)))

    FlowState = FlowState
    Header = delivery_rate.Header

    def flow_hooks(self) -> dict[str, Hook]:
        return _hooks(self.policy_laws, self.sets_window)

    def flow_at(self, x: float, R: float, link: int, window: float = 0.0, **values: float) -> Any:
        raise ValueError(f"start must be 'empty' for packets of {type(self).__name__}: it acts on earlier intervals")

    # ---- fluid -------------------------------------------------------------------------------------------

    @property
    def fluid_form(self) -> StateMachine:
        """The same policy at the steps of a fluid."""
        return StateMachine(
            _fluid_step(self.policy_laws, self.sets_window), FluidState, memory=fluid_memory(self.actor)
        )


def actor_of(network: Any) -> DenseNetwork:
    """Return the network of a parameter that is a network, its file, or a name."""
    if isinstance(network, DenseNetwork):
        return network
    if network in ACTORS:
        return ACTORS[network]()
    return policies.loaded(network, Path(network).stat().st_mtime)


@cache
def network_params(actor: DenseNetwork) -> dict[str, Any]:
    """Return the parameters of hooks for a network."""
    return policies.network_params(actor)


def check_frames(actor: DenseNetwork, n_features: int) -> None:
    """Refuse a network whose inputs are not whole frames.

    Parameters
    ----------
    actor : DenseNetwork
    n_features : int
        Features of a frame.

    Raises
    ------
    ValueError
    """
    if actor.n_in % n_features:
        raise ValueError(f"network must have a multiple of {n_features} inputs, the features, got {actor.n_in}")


def fluid_memory(actor: DenseNetwork) -> Any:
    """Return the initial arrays of a flow in the fluid."""
    return policies.memory_of(actor.n_in, width_of(actor))()


def width_of(actor: DenseNetwork) -> int:
    """Return the maximum number of units of a layer, inputs included."""
    return max(actor.n_in, *(len(layer.bias) for layer in actor.layers))


def adopt_network(protocol: Any) -> None:
    """Check the parameter `network`, and turn a path into text."""
    network = protocol.network
    if isinstance(network, Path):
        object.__setattr__(protocol, "network", str(network))
    elif isinstance(network, str) and network.startswith(TEXT):
        object.__setattr__(protocol, "network", DenseNetwork.from_text(network))
    elif not isinstance(network, str | DenseNetwork):
        raise TypeError(f"network must be a DenseNetwork or a file, .npz or .onnx, got {shown(network)}")
    elif isinstance(network, str) and network not in ACTORS and Path(network).suffix not in (".npz", ".onnx"):
        raise ValueError(f"network must be one of {', '.join(ACTORS)}, or a file, .npz or .onnx, got {shown(network)}")


def _law(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return a choice or a law as text, after a check."""
    if isinstance(value, str) and value in choices:
        return value
    if isinstance(value, str) and ":" not in value:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, a function, or 'module:function', got {value!r}")
    text = policies.law_name(value, name)
    policies.law_of(text, name)
    return text


def _laws(value: Any, name: str, choices: tuple[str, ...]) -> str | tuple[str, ...]:
    """Return a choice, or the laws of features as texts."""
    if isinstance(value, str) and value in choices:
        return value
    laws = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not laws:
        raise ValueError(f"{name} must have at least one law, got none")
    return tuple(_law(law, name, choices if len(laws) == 1 else ()) for law in laws)


def _interval(value: Any, act: str) -> Any:
    """Return the length of intervals, or the text of a law."""
    if value is None:
        if act not in policies.INTERVALS:
            raise ValueError("interval must be a time or a law, as act is no choice, got None")
        return None
    if isinstance(value, FunctionType) or (isinstance(value, str) and ":" in value):
        return _law(value, "interval", ())
    return as_delay(value, "interval", positive=True)


@cache
def _laws_of(observe: Any, act: str, interval: Any) -> tuple[tuple[Any, ...], Any, Any]:
    """Return the laws that three parameters stand for."""
    if isinstance(observe, str):
        features: tuple[Any, ...] = policies.OBSERVATIONS[observe]
    else:
        features = tuple(policies.law_of(text, "observe") for text in observe)
    action = policies.ACTIONS[act] if act in policies.ACTIONS else policies.law_of(act, "act")
    if interval is None:
        return features, action, policies.INTERVALS[act]
    return features, action, policies.law_of(interval, "interval") if isinstance(interval, str) else interval


# ---- packets ---------------------------------------------------------------------------------------------------------


def begin_interval(flow: Any, duration: float, env: FlowEnv) -> None:
    """Begin the first interval of packets."""
    flow.mean_rtt = env.rtt
    policies.begin(flow, duration, env.now, 8.0 * flow.sent, 8.0 * flow.delivered, 8.0 * flow.lost)
    env.timer = duration


def measure_ack(flow: Any, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
    """Count what an ACK reports, and its RTT."""
    delivery_rate.on_ack(flow, header, p, env)
    if flow.newly_acked > 0:
        policies.measure(flow, 1.0, env.now - header.send_time, env.now)


@cache
def _hooks(laws: tuple[Any, ...], sets_window: bool) -> dict[str, Hook]:
    """Return the hooks of a flow."""
    decide: Callable[..., float] = policies.deciding(*laws)

    def flow_on_start(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
        windows.flow_on_start(flow, header, p, env)
        if not sets_window:
            env.rate = p.initial_rate if p.initial_rate > 0.0 else 8.0 * env.window / FIRST_RTT

    def limit_flight(p: Params, env: FlowEnv) -> None:
        if not sets_window:
            min_window = windows.first_window(1.0 * env.packet_size, p)
            env.window = max(IN_FLIGHT * env.rate * env.srtt / 8.0, min_window)

    def flow_on_ack(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
        if flow.ends == 0.0:
            if not sets_window and p.initial_rate == 0.0:
                env.rate = 8.0 * windows.first_window(1.0 * env.packet_size, p) / env.rtt
            begin_interval(flow, env.rtt, env)
        measure_ack(flow, header, p, env)
        limit_flight(p, env)

    def flow_on_timer(flow: FlowState, header: delivery_rate.Header, p: Params, env: FlowEnv) -> None:
        s, volume = 8.0 * env.packet_size, 8.0 * env.window
        sent, delivered, lost = 8.0 * flow.sent, 8.0 * flow.delivered, 8.0 * flow.lost
        result = decide(flow, flow, env.now, sent, delivered, lost, env.srtt, env.min_rtt, env.rate, volume, s, p)
        if sets_window:
            env.window = min(max(result / 8.0, 1.0 * env.packet_size), UNLIMITED)
        else:
            env.rate = min(result, UNLIMITED)
            limit_flight(p, env)
        env.timer = flow.ends - env.now

    return {
        "on_start": flow_on_start,
        "on_send": delivery_rate.on_send,
        "on_receive": delivery_rate.on_receive,
        "on_ack": flow_on_ack,
        "on_timer": flow_on_timer,
    }


# ---- fluid -----------------------------------------------------------------------------------------------------------


@dataclass
class FluidState(policies.Intervals):
    """State of a flow in the fluid; volumes in bits."""

    pace: float = 0.0  # rate [bit/s]
    congestion_window: float = 0.0  # if the action is a window
    srtt: float = 0.0  # [s]
    min_rtt: float = 1e300  # [s]
    lost_so_far: float = 0.0
    sent_so_far: float = 0.0


SMOOTHING = 0.125  # gain of the smoothed RTT per acknowledged packet


def take_step(flow: Any, env: FluidEnv) -> None:
    """Measure a step of the fluid: RTTs, and volumes sent and lost."""
    flow.lost_so_far += env.lost
    flow.sent_so_far = env.delivered + env.in_flight + flow.lost_so_far
    if env.rtt > 0.0:
        flow.min_rtt = min(flow.min_rtt, env.rtt)
        weight = min(SMOOTHING * env.acked / env.packet_size, 1.0)
        flow.srtt = env.rtt if flow.srtt == 0.0 else flow.srtt + weight * (env.rtt - flow.srtt)
        policies.measure(flow, env.acked / env.packet_size, env.rtt, env.now)


def first_volume(p: Params, env: FluidEnv) -> float:
    """Return the initial window [bit]."""
    return 8.0 * windows.first_window(env.packet_size / 8.0, p)


@cache
def _fluid_step(laws: tuple[Any, ...], sets_window: bool) -> Hook:
    """Return the hook of a step of the fluid."""
    decide: Callable[..., float] = policies.deciding(*laws)

    def on_step(flow: Any, header: Any, p: Params, env: FluidEnv) -> None:
        if flow.pace == 0.0:
            flow.congestion_window = first_volume(p, env)
            flow.pace = p.initial_rate if p.initial_rate > 0.0 else flow.congestion_window / FIRST_RTT
        take_step(flow, env)
        if flow.ends == 0.0 and env.rtt > 0.0:
            flow.mean_rtt = env.rtt
            if p.initial_rate == 0.0:
                flow.pace = flow.congestion_window / env.rtt
            policies.begin(flow, env.rtt, env.now, flow.sent_so_far, env.delivered, flow.lost_so_far)
        elif flow.ends > 0.0 and env.now >= flow.ends:
            x, w, sent, lost = flow.pace, flow.congestion_window, flow.sent_so_far, flow.lost_so_far
            srtt, min_rtt, s = flow.srtt, flow.min_rtt, env.packet_size
            result = decide(flow, header, env.now, sent, env.delivered, lost, srtt, min_rtt, x, w, s, p)
            if sets_window:
                flow.congestion_window = max(result, env.packet_size)
            else:
                flow.pace = result
        if sets_window:
            env.rate, env.window = UNLIMITED, flow.congestion_window
        else:
            env.rate = flow.pace
            env.window = max(IN_FLIGHT * flow.pace * flow.srtt, first_volume(p, env))

    return on_step
