"""Hosts whose controller is a trained network: monitor intervals, observations, and the network, in hooks.

    frame  o_k = observe(statistics of interval k)         one number per law in `observe`
    action a_k = network(o_{k-H+1}, ..., o_k)              the last H frames, oldest first
    rate or window <- act(a_k, statistics)                 at the end of interval k

An interval begins at an action and ends a given time later. Its statistics are those of the ACKs, losses and packets
sent in it; laws select them by the names of their arguments (`STATISTICS`). At the first action all frames are the
first. The gradient compares the mean RTTs of the two halves of the interval.

Functions here serve packets and fluid. `flow` holds floats; `memory` holds the arrays: in packets they are one
record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from ecc._support.arguments import shown
from ecc.contract.env import Params
from ecc.laws.arguments import arguments_beyond, arguments_text, with_arguments_of
from ecc.laws.dense_network import ACTIVATIONS, DenseNetwork
from ecc.laws.elementary import exp, tanh

__all__ = [
    "ACTIONS",
    "INTERVALS",
    "OBSERVATIONS",
    "STATISTICS",
    "Intervals",
    "begin",
    "deciding",
    "evaluate",
    "law_name",
    "law_of",
    "loaded",
    "measure",
    "memory_of",
    "network_params",
]

TANH = float(ACTIVATIONS.index("tanh"))
GAIN = 0.025  # change of Aurora's rate per unit of action
LOG_4 = 1.3862943611198906
PACING = 1.2  # windows per smoothed RTT, as Linux paces in congestion avoidance
MAX_PACING, LOSS_WEIGHT, DELAY_MARGIN = 10.0, 5.0, 1.25  # constants of Orca's features
MAX_SEND_RATIO = 1000.0
INTERVAL = 0.02  # s, between actions of Orca
MIN_WINDOW = 2.0  # packets, after Orca's action


def statistics(
    a: float,
    send_rate: float,
    delivery_rate: float,
    lost_rate: float,
    loss: float,
    rtt: float,
    gradient: float,
    samples: float,
    duration: float,
    srtt: float,
    min_rtt: float,
    min_mean_rtt: float,
    max_delivery_rate: float,
    x: float,
    w: float,
    s: float,
    p: Params,
) -> float:
    """The arguments that laws of policies may take.

    Rates are in bit/s, times in s, sizes in bits. `a` is the action; in observations and intervals it is the last one.
    `loss` is the share of acknowledged and lost data that was lost, `rtt` the mean RTT (without samples, the last one),
    `gradient` its change per time, `samples` the number of RTTs, `min_mean_rtt` and `max_delivery_rate` extremes over
    all intervals, `x` the pacing rate, `w` the window, `s` the size of a packet.
    """
    return a


STATISTICS = tuple(arguments_beyond(statistics, None))
"""Names of the arguments that laws of policies may take."""


# ---- choices of observations, actions and intervals ------------------------------------------------------------------


def latency_gradient(gradient: float) -> float:
    """Aurora's first feature: change of the RTT per time."""
    return gradient


def latency_ratio(rtt: float, min_mean_rtt: float) -> float:
    """Aurora's second feature: mean RTT in units of its minimum."""
    return rtt / min_mean_rtt


def send_ratio(send_rate: float, delivery_rate: float) -> float:
    """Aurora's third feature: sending rate in units of the delivery rate; 1 if this is 1000 or more."""
    return send_rate / delivery_rate if send_rate < MAX_SEND_RATIO * delivery_rate else 1.0


def change_rate(a: float, x: float, p: Params) -> float:
    """Aurora's action: the pacing rate after it."""
    changed = x * (1.0 + GAIN * a) if a >= 0.0 else x / (1.0 - GAIN * a)
    return max(changed, p.min_rate)


def half_rtt(rtt: float) -> float:
    """Aurora's interval: half the mean RTT."""
    return 0.5 * rtt


def relative_throughput(delivery_rate: float, max_delivery_rate: float) -> float:
    """Orca's first feature."""
    return delivery_rate / max_delivery_rate if max_delivery_rate > 0.0 else 0.0


def relative_pacing_rate(w: float, srtt: float, max_delivery_rate: float) -> float:
    """Orca's second feature: pacing rate in units of the maximum throughput, at most 10."""
    return min(MAX_PACING, PACING * w / srtt / max_delivery_rate) if max_delivery_rate > 0.0 else 0.0


def relative_losses(lost_rate: float, max_delivery_rate: float) -> float:
    """Orca's third feature: five times the rate of losses in units of the maximum throughput."""
    return LOSS_WEIGHT * lost_rate / max_delivery_rate if max_delivery_rate > 0.0 else 0.0


def samples_per_window(samples: float, w: float, s: float) -> float:
    """Orca's fourth feature: RTT samples in units of the window in packets."""
    return samples * s / w


def interval_length(duration: float) -> float:
    """Orca's fifth feature [s]."""
    return duration


def inverse_latency_ratio(min_rtt: float, srtt: float) -> float:
    """Orca's sixth feature."""
    return min_rtt / srtt


def delay_metric(min_rtt: float, srtt: float) -> float:
    """Orca's seventh feature."""
    return min(1.0, DELAY_MARGIN * min_rtt / srtt)


def change_window(a: float, w: float, s: float) -> float:
    """Orca's action: the window after it, in whole percents and packets."""
    percent = (100.0 * exp(LOG_4 * a)) // 1.0
    return max((percent * (w / s // 1.0) / 100.0) // 1.0, MIN_WINDOW) * s


OBSERVATIONS: dict[str, tuple[Callable[..., float], ...]] = {
    "aurora": (latency_gradient, latency_ratio, send_ratio),
    "orca": (
        relative_throughput,
        relative_pacing_rate,
        relative_losses,
        samples_per_window,
        interval_length,
        inverse_latency_ratio,
        delay_metric,
    ),
}
"""Choice -> laws of the features of a frame, in order."""
ACTIONS: dict[str, Callable[..., float]] = {"aurora": change_rate, "orca": change_window}
"""Choice -> law of the rate or of the window after an action."""
INTERVALS: dict[str, Callable[..., float] | float] = {"aurora": half_rtt, "orca": INTERVAL}
"""Choice of actions -> law of the length of the next interval, or its length [s]."""


def law_name(law: Any, name: str) -> str:
    """Return the text that stands for a law in scenario files: "module:function".

    Parameters
    ----------
    law : function or str
        A function of a module, or its text.
    name : str
        Name of the parameter in messages.

    Raises
    ------
    ValueError, TypeError
        It is not a function that its module has under its name.
    """
    if isinstance(law, FunctionType):
        if "<" in law.__qualname__:
            raise ValueError(f"{name} must be functions of a module, which scenario files can name, got {shown(law)}")
        return f"{law.__module__}:{law.__qualname__}"
    if isinstance(law, str) and law.count(":") == 1:
        return law
    raise TypeError(f"{name} must be a choice, a function, or 'module:function', got {shown(law)}")


def law_of(text: str, name: str) -> FunctionType:
    """Return the function that a text "module:function" stands for.

    Parameters
    ----------
    text : str
        For example "my_module:my_law".
    name : str
        Name of the parameter in messages.

    Raises
    ------
    ValueError
        There is no such function, or it takes an argument that is not in `STATISTICS`.
    """
    module, _, path = text.partition(":")
    try:
        law: Any = import_module(module)
        for part in path.split("."):
            law = getattr(law, part)
    except (ImportError, AttributeError, ValueError):
        raise ValueError(f"{name} must be 'module:function', and {text!r} does not exist") from None
    if not isinstance(law, FunctionType):
        raise ValueError(f"{name} must be a function, got {shown(law)}")
    for argument in arguments_beyond(law, statistics):
        raise ValueError(f"{name} must have arguments among {', '.join(STATISTICS)}, got {argument} ({text})")
    return law


# ---- the network -----------------------------------------------------------------------------------------------------


@cache
def loaded(path: str, written: float) -> DenseNetwork:
    """Return the network in a file; `written` is the time of its last change, which makes changed files new ones."""
    return DenseNetwork.load(path)


def network_params(network: DenseNetwork) -> dict[str, Any]:
    """Return the parameters of the hooks that evaluate a network: weights by layers, each followed by its biases.

    The weights of an input are together, so that the inner loop of `evaluate` has no sum to reorder.
    """
    arrays = [part.ravel() for layer in network.layers for part in (layer.weight.T, layer.bias)]
    return {
        "weights": np.concatenate(arrays),
        "sizes": (float(network.n_in), *(float(len(layer.bias)) for layer in network.layers)),
        "kinds": tuple(float(ACTIVATIONS.index(layer.activation)) for layer in network.layers),
        "slopes": tuple(layer.slope if layer.activation != "linear" else 1.0 for layer in network.layers),
    }


def evaluate(memory: Any, p: Params) -> float:
    """Return the first output of the network for the frames in memory."""
    source, target, frames, weights = memory.units, memory.next_units, memory.frames, p.weights
    for j in range(int(p.sizes[0])):
        source[j] = frames[j]
    at = 0
    for k in range(len(p.kinds)):
        n_in, n_out = int(p.sizes[k]), int(p.sizes[k + 1])
        for i in range(n_out):
            target[i] = weights[at + n_in * n_out + i]
        for j in range(n_in):
            h = source[j]
            for i in range(n_out):
                target[i] += h * weights[at + j * n_out + i]
        for i in range(n_out):
            if p.kinds[k] == TANH:
                target[i] = tanh(target[i])
            elif target[i] < 0.0:
                target[i] *= p.slopes[k]
        at += (n_in + 1) * n_out
        source, target = target, source
    a: float = source[0]
    return a


# ---- monitor intervals -----------------------------------------------------------------------------------------------


@dataclass
class Intervals:
    """Floats of a flow: the interval so far, and what is kept of earlier ones; volumes in bits."""

    opened: float = 0.0  # begin of the interval [s]
    ends: float = 0.0  # [s]; 0: no interval has begun
    sent_before: float = 0.0  # volume sent before this interval
    delivered_before: float = 0.0  # volume delivered before this interval
    lost_before: float = 0.0
    rtts: float = 0.0  # number of RTTs
    rtt_sum: float = 0.0  # their sum [s]
    early_rtts: float = 0.0  # number of RTTs in the first half of the interval
    early_sum: float = 0.0
    mean_rtt: float = 0.0  # mean RTT of the last interval with samples [s]
    min_mean_rtt: float = 1e300  # [s]
    max_delivery_rate: float = 0.0  # [bit/s]
    decisions: float = 0.0  # number of actions
    action: float = 0.0  # last action


@cache
def memory_of(n_in: int, width: int) -> type:
    """Return a dataclass of the arrays of a flow: frames, and units of two layers."""
    tables = {"frames": n_in, "units": width, "next_units": width}
    return make_dataclass("Memory", [(name, tuple[float, ...], (0.0,) * size) for name, size in tables.items()])


def begin(flow: Any, duration: float, now: float, sent: float, delivered: float, lost: float) -> None:
    """Begin an interval."""
    flow.opened = now
    flow.ends = now + duration
    flow.sent_before = sent
    flow.delivered_before = delivered
    flow.lost_before = lost
    flow.rtts = 0.0
    flow.rtt_sum = 0.0
    flow.early_rtts = 0.0
    flow.early_sum = 0.0


def measure(flow: Any, samples: float, rtt: float, now: float) -> None:
    """Count RTTs."""
    flow.rtts += samples
    flow.rtt_sum += samples * rtt
    if now < 0.5 * (flow.opened + flow.ends):
        flow.early_rtts += samples
        flow.early_sum += samples * rtt


def gradient_of(flow: Any, duration: float) -> float:
    """Return the change of the RTT from the first half of the interval to the second, per time."""
    late = flow.rtts - flow.early_rtts
    if flow.early_rtts <= 0.0 or late <= 0.0:
        return 0.0
    change: float = (flow.rtt_sum - flow.early_sum) / late - flow.early_sum / flow.early_rtts
    return change / duration


@cache
def deciding(
    observe: tuple[FunctionType, ...], act: FunctionType, interval: FunctionType | float
) -> Callable[..., float]:
    """Return the function that ends an interval, takes an action, and begins the next interval.

    It has the arguments `flow, memory, now, sent, delivered, lost, srtt, min_rtt, x, w, s, p`, volumes in bits. It
    returns the result of `act`: the new rate [bit/s] or window [bit].

    Parameters
    ----------
    observe : tuple of function
        Laws of the features of a frame.
    act : function
        Law of the new rate or window.
    interval : function or float
        Law of the length of the next interval [s], or the length.
    """
    n_features, write_frame = len(observe), frame_writer(observe)
    act_law: Callable[..., float] = with_arguments_of(act, statistics)  # type: ignore[arg-type]
    law = interval if callable(interval) else constant(float(interval))
    duration_law: Callable[..., float] = with_arguments_of(law, statistics)  # type: ignore[arg-type]

    def decide(
        flow: Any,
        memory: Any,
        now: float,
        sent: float,
        delivered: float,
        lost: float,
        srtt: float,
        min_rtt: float,
        x: float,
        w: float,
        s: float,
        p: Params,
    ) -> float:
        duration = now - flow.opened
        if flow.rtts > 0.0:
            flow.mean_rtt = flow.rtt_sum / flow.rtts
        flow.min_mean_rtt = min(flow.min_mean_rtt, flow.mean_rtt)
        acked, gone = delivered - flow.delivered_before, lost - flow.lost_before
        rate = acked / duration
        flow.max_delivery_rate = max(flow.max_delivery_rate, rate)
        loss = gone / (gone + acked) if gone + acked > 0.0 else 0.0
        values = (
            (sent - flow.sent_before) / duration,
            rate,
            gone / duration,
            loss,
            flow.mean_rtt,
            gradient_of(flow, duration),
            flow.rtts,
            duration,
            srtt,
            min_rtt,
            flow.min_mean_rtt,
            flow.max_delivery_rate,
            x,
            w,
            s,
            p,
        )
        last = len(memory.frames) - n_features
        for j in range(last):
            memory.frames[j] = memory.frames[j + n_features]
        write_frame(memory.frames, last, flow.action, *values)
        if flow.decisions == 0.0:
            for j in range(last):
                memory.frames[j] = memory.frames[last + j % n_features]
        flow.decisions += 1.0
        flow.action = evaluate(memory, p)
        begin(flow, duration_law(flow.action, *values), now, sent, delivered, lost)
        return act_law(flow.action, *values)

    return decide


@cache
def constant(value: float) -> FunctionType:
    """Return a law of no arguments with a constant value."""

    def law() -> float:
        return value

    return law  # type: ignore[return-value]


def frame_writer(laws: tuple[FunctionType, ...]) -> Callable[..., None]:
    """Return a function that writes the features of a frame into an array from a place on.

    Its text is generated, since a compiled hook cannot loop over functions.

    Parameters
    ----------
    laws : tuple of function
        Law of each feature.
    """
    scope: dict[str, Any] = {f"law_{k}": law for k, law in enumerate(laws)} | {"__name__": __name__}
    lines = [f"    frames[place + {k}] = law_{k}({arguments_text(law)})\n" for k, law in enumerate(laws)]
    exec(f"def write_frame(frames, place, {', '.join(STATISTICS)}):\n{''.join(lines)}", scope)
    writer: Callable[..., None] = scope["write_frame"]
    return writer
