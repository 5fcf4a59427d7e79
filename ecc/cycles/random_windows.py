"""Windows over a queue discipline that chooses packets at random: the random map of all flows on one link.

A step is an RTT D in discrete time, and a quarter of the RTT of the equilibrium in continuous time. In a step, a flow
with window w, packets of s and RTT D_i moves by the share h = step/D_i of its law, and expects n signals:

    w <- w + h (source_law(w) - w)                       n = -h w/s log(1 - P): no signal with probability exp(-n)
    v <- v + h (law(v) - v)                              states of hosts; those with a continuous clock by their law
    w, v <- jump(w), ...                                 at a signal: if the draw of the flow is below 1 - exp(-n); then
                                                         w is constant for an RTT, the recovery
    q:  sum of w_i/(d_i + q/C) = C                       ACK-clocked windows fill the queue at once
    z <- law(z, q, ...)                                  states of the discipline, as often as their clocks tick
    P  <- probability_law(z, q)                          which windows learn of a return time of data later

Each flow draws one uniform number per step, whatever its state. With shorter steps the draws become a Poisson measure:
points in the plane of time and rate, of which a flow takes those below its rate of signals. Two runs with the same
draws therefore have the same losses, except if a point lies between their rates.

Other draws give other exponents. If packets have numbers, and two runs lose the packets with the same numbers, a single
flow forgets twice as fast, but losses occur at other times, so that runs of several flows may part.

Left out: timeouts and the limit of buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from types import SimpleNamespace
from typing import Any

import numpy as np

from ecc.contract.assignment import ProtocolAssignment
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from
from ecc.laws.elementary import exp, log
from ecc.laws.jets import JETS, Jet, rebind
from ecc.loops.marked_equations import MarkedLoop
from ecc.loops.marked_equilibrium import settled
from ecc.loops.marked_parts import HostKind, takes_feedback
from ecc.network.network import Network

__all__ = ["RandomWindows", "random_step", "random_windows"]

STEPS_PER_RTT = 4
"""Steps of a continuous run in the shortest RTT."""
_MAX_SIGNALS = 1.0  # expected per RTT at the equilibrium; with more, draws average out within a round
_CERTAIN = 1e-9  # probability that packets pass, at least
_FIXED_POINT = 4  # Newton steps for the queue
_COARSE = 0.25  # maximum part of the distance to the value of its law that a state of a discipline moves in a substep


@dataclass(frozen=True)
class _Law:
    """A law on floats or jets."""

    plain: Callable[..., Any]
    on_jets: Callable[..., Any]

    @staticmethod
    def of(law: Callable[..., Any] | None) -> _Law | None:
        return None if law is None else _Law(law, rebind(law, JETS))

    def __call__(self, known: dict[str, Any]) -> Any:
        arguments = arguments_from(self.plain, known)
        varied = any(isinstance(value, Jet) for value in arguments.values())
        return self.on_jets(**arguments) if varied else self.plain(**arguments)


@dataclass(frozen=True)
class RandomWindows:
    """The random map of windows over one queue: `random_step(state, draws, p)`.

    Attributes
    ----------
    state : tuple of float and int
        Equilibrium: for each flow w [bit], states, and an int, the remaining steps of a recovery; then the queue
        [packets], states of the discipline, and past probabilities; last, the number of jumps so far, an int.
    p : object
        Laws and constants of the map.
    draws : int
        Uniform draws of a step: one for each flow.
    steps_per_rtt : int
    rtt : float
        Shortest RTT with the queue of the equilibrium [s].
    """

    state: tuple[float, ...]
    p: Any
    draws: int
    steps_per_rtt: int
    rtt: float


def random_windows(loop: ProtocolAssignment, network: Network, time: str) -> RandomWindows:
    """Return the random map of hosts over a queue discipline.

    Parameters
    ----------
    loop : ProtocolAssignment
        Hosts with windows over a discipline with a probability_law.
    network : Network
        Flows that share one link.
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        Several queues; no equilibrium, or laws that a loop of marks does not support.
    """
    try:
        marked, z, active = settled(loop.deploy(network), network)
    except ValueError as error:
        raise LinearizationError(str(error)) from None
    if len(marked.queues) != 1 or len(active) != 1:
        raise LinearizationError(f"its random map has one queue that chooses packets, got {len(marked.queues)}")
    queue, m = marked.queues[0], 1 if time == "discrete" else STEPS_PER_RTT
    delays = marked.delays(z.tolist())
    shortest = min(D for D, _ in delays)
    flows, state = [], []
    for g, (kind, (D, late)) in enumerate(zip(marked.kinds, delays, strict=True)):
        if queue.link not in kind.route:
            raise LinearizationError("its random map has flows that share one queue")
        back = round(m * (D - late[queue.link]) / shortest)
        flow = _host(marked, g, kind, shortest / (m * D), max(back, 1))
        flows += [flow] * len(kind.flows)
        host = [float(z[marked.at["host", g, name]]) for name in ("w", *kind.states)]
        state += [[*host, 0] for _ in kind.flows]
    size = max(flow.back for flow in flows)
    chosen = max(map(float, marked.moves(z.tolist())[1][0]))
    for g, kind in enumerate(marked.kinds):
        expected = -float(z[marked.at["host", g, "w"]]) / kind.s * np.log(max(1.0 - chosen, _CERTAIN))
        if expected > _MAX_SIGNALS:
            raise LinearizationError(
                f"its flows expect {expected:.3g} signals in an RTT, so that draws average out within a round"
            )
    probability = [chosen] * size
    marks = [float(z[marked.at["queue", 0, name]]) for name in ("q", *queue.states)]
    p = SimpleNamespace(
        flows=flows,
        discipline=_discipline(marked, z, shortest / m),
        dt=0.0 if m == 1 else shortest / m,
        steps_per_rtt=m,
        packet=queue.packet,
        base=min(flow.base for flow in flows),
    )
    begin = (*[value for of_flow in state for value in of_flow], *marks, *probability, 0)
    return RandomWindows(begin, p, len(flows), m, shortest)


def _host(marked: MarkedLoop, g: int, kind: HostKind, share: float, back: int) -> Any:
    """Return the laws and constants of a flow."""
    signal = marked.signal(marked.queues[0], kind)
    router, queue = None, marked.queues[0]
    if takes_feedback(kind.protocol, kind.states):
        router = _Law.of(kind.protocol.router_law)
    others = [float(marked.network.capacities[link]) for link in kind.route if link != queue.link]
    states = [
        SimpleNamespace(
            name=name,
            law=_Law.of(state.law),
            clock=state.clock,
            jump=_Law.of(state.jumps.get(signal)),
            simultaneous=state.simultaneous,
        )
        for name, state in kind.states.items()
    ]
    return SimpleNamespace(
        source=_Law.of(kind.protocol.source_law),
        jump=_Law.of(kind.jumps(signal)),
        router=router,
        elsewhere=0.0 if router is None else sum(router({"q": 0.0, "C": C, "s": kind.s, "p": kind.p}) for C in others),
        C=queue.capacity * queue.packet,
        states=states,
        base=kind.rtt,
        s=kind.s,
        a=kind.a,
        p=kind.p,
        share=share,
        back=back,
        marks=signal == "mark",
        scalable=kind.scalable,
    )


def _discipline(marked: MarkedLoop, z: Any, step: float) -> Any:
    """Return the laws and constants of the discipline, with the number of substeps that its states need in a step."""
    queue = marked.queues[0]
    states = []
    for name, state in queue.states.items():
        if state.clock == "interval" and queue.interval > 0.0:
            ticks = step / queue.interval
        else:
            ticks = queue.capacity * step if state.clock == "arrival" else step
        law = _Law.of(state.law)
        if law is not None:
            pull = _pull(law, name, state, marked, z)
            states.append(
                SimpleNamespace(
                    name=name,
                    law=law,
                    clock=state.clock,
                    substeps=max(1, ceil(pull * max(ticks, 1.0) / _COARSE)),
                    low=state.lowest,
                    high=state.highest,
                )
            )
        else:
            states.append(SimpleNamespace(name=name, law=None, clock="", substeps=1))
    return SimpleNamespace(
        states=states,
        probability=_Law.of(queue.law),
        C=queue.capacity,
        interval=queue.interval,
        p=queue.p,
        names=("q", *queue.states),
    )


def _pull(law: _Law, name: str, state: Any, marked: MarkedLoop, z: Any) -> float:
    """Return the part of the distance to the value of its law by which a state moves per tick."""
    queue = marked.queues[0]
    if state.clock == "continuous":
        return 1.0 / max(queue.capacity, 1.0)
    known: dict[str, Any] = {
        **{other: float(z[marked.at["queue", 0, other]]) for other in queue.states},
        "q": float(z[marked.at["queue", 0, "q"]]),
        "q_prev": float(z[marked.at["queue", 0, "q"]]),
        "y": queue.capacity,
        "C": queue.capacity,
        "T": queue.interval,
        "p": queue.p,
    }
    size = 1e-6 * max(abs(known[name]), 1e-3)
    moved = float(law({**known, name: known[name] + size})) - float(law(known))
    return float(abs(moved / size - 1.0))


def random_step(state: Sequence[Any], draws: Sequence[float], p: Any) -> list[Any]:
    """Return the state of all windows and their queue after a step.

    Parameters
    ----------
    state : sequence of float and int
        State as in `RandomWindows`.
    draws : sequence of float
        Uniform number of each flow.
    p : object
        Constants of `RandomWindows`.
    """
    size = len(p.flows)
    width = len(p.flows[0].states) + 2
    queue_at = size * width
    names = p.discipline.names
    marks_before = dict(zip(names, state[queue_at : queue_at + len(names)], strict=True))
    past = state[queue_at + len(names) : -1]
    after: list[Any] = []
    jumps = 0
    for k, flow in enumerate(p.flows):
        host = state[k * width : (k + 1) * width]
        rtt = flow.base + marks_before["q"] / p.discipline.C
        share = p.dt / rtt if p.dt > 0.0 else flow.share
        chosen = past[flow.back - 1]
        if host[-1] > 0:
            grown = _grown(flow, host[:-1], rtt, chosen, share)[1:]
            held = [
                old if kept.simultaneous else new for kept, old, new in zip(flow.states, host[1:-1], grown, strict=True)
            ]
            after += [host[0], *held, host[-1] - 1]
        elif draws[k] < 1.0 - exp(-_expected(flow, host[0], chosen, share)):
            after += [*_jumped(flow, host[:-1], rtt, chosen), p.steps_per_rtt]
            jumps += 1
        else:
            after += [*_grown(flow, host[:-1], rtt, chosen, share), 0]
    q = _queue([after[k * width] for k in range(size)], marks_before["q"], p)
    marks = _move_discipline(marks_before, q, p)
    known = {**marks, "q": q, "q_prev": marks_before["q"], "y": p.discipline.C, **_constants(p)}
    probability = p.discipline.probability({**known, "scalable": p.flows[0].scalable})
    return [*after, q, *[marks[name] for name in names[1:]], probability, *past[:-1], state[-1] + jumps]


def _constants(p: Any) -> dict[str, Any]:
    return {"C": p.discipline.C, "T": p.discipline.interval, "p": p.discipline.p}


def _known(flow: Any, host: Sequence[Any], rtt: Any, probability: Any) -> dict[str, Any]:
    """Return the arguments of the laws of a flow; routers report the queue that the RTT shows."""
    waiting = {"q": (rtt - flow.base) * flow.C, "C": flow.C, "s": flow.s, "p": flow.p}
    return {
        "w": host[0],
        "w_rtt": host[0],
        "R": 0.0 if flow.router is None else flow.router(waiting) + flow.elsewhere,
        "D": rtt,
        "s": flow.s,
        "a": flow.a,
        "marked": probability if flow.marks else 0.0,
        "p": flow.p,
        **{state.name: value for state, value in zip(flow.states, host[1:], strict=False)},
    }


def _grown(flow: Any, host: Sequence[Any], rtt: Any, probability: Any, share: Any) -> list[Any]:
    """Return the window and the states of a flow after a step without a signal."""
    known = _known(flow, host, rtt, probability)
    grown: list[Any] = []
    for state, value in zip(flow.states, host[1:], strict=False):
        new = value
        if state.law is not None:
            change = state.law(known) * rtt if state.clock == "continuous" else state.law(known) - value
            new = value + share * change
        known[state.name] = new
        grown.append(new)
    known |= {state.name: value for state, value in zip(flow.states, host[1:], strict=False) if state.simultaneous}
    return [host[0] + share * (flow.source(known) - host[0]), *grown]


def _jumped(flow: Any, host: Sequence[Any], rtt: Any, probability: Any) -> list[Any]:
    """Return the window and the states of a flow right after a signal."""
    known = _known(flow, host, rtt, probability)
    after = [host[0] if flow.jump is None else flow.jump(known)]
    for state, value in zip(flow.states, host[1:], strict=False):
        after.append(value if state.jump is None else state.jump(known))
    return after


def _expected(flow: Any, w: Any, probability: Any, share: Any) -> Any:
    """Return the number of signals that a flow expects in a step."""
    return -share * w / flow.s * log(max(1.0 - probability, _CERTAIN))


def _queue(windows: Sequence[Any], before: Any, p: Any) -> Any:
    """Return the queue [packets] that ACK-clocked windows keep, by Newton's method for the reciprocal of the rates."""
    C, packet = p.discipline.C, p.packet
    q = before
    for _ in range(_FIXED_POINT):
        rates = 0.0
        slope = 0.0
        for w, flow in zip(windows, p.flows, strict=True):
            rtt = flow.base + q / C
            rates = rates + w / (packet * rtt)
            slope = slope + w / (packet * rtt * rtt * C)
        q = max(q + (1.0 / C - 1.0 / rates) * rates * rates / slope, -0.5 * C * p.flows[0].base)
    return max(q, 0.0)


def _move_discipline(marks_before: dict[str, Any], q: Any, p: Any) -> dict[str, Any]:
    """Return the states of the discipline after a step with the queue before it; a tick sees its change first."""
    discipline = p.discipline
    step = p.dt if p.dt > 0.0 else p.base + marks_before["q"] / discipline.C
    known = {**marks_before, "q_prev": marks_before["q"], "q": q, "y": discipline.C, **_constants(p)}
    moved = dict(marks_before)
    for state in discipline.states:
        if state.law is None:
            continue
        value = known[state.name]
        ticks: Any = step
        if state.clock == "interval":
            ticks = step / discipline.interval
            first = min(ticks, 1.0)
            value = value + first * (state.law(known) - value)
            ticks = ticks - first
        elif state.clock == "arrival":
            ticks = step * discipline.C
        held = {**known, "q_prev": q}
        for _ in range(state.substeps):
            held[state.name] = value
            change = state.law(held) if state.clock == "continuous" else state.law(held) - value
            value = min(max(value + ticks / state.substeps * change, state.low), state.high)
        known[state.name] = moved[state.name] = value
    return moved
