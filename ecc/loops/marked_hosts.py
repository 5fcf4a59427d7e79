"""The linear model of hosts with windows over queue disciplines that mark or drop at random.

For a flow with window w, rate x = w/D, RTT D (queues included) and packets of s, and a link l whose discipline chooses
packets with the probability P_l: F_l is what a packet takes to that queue, D - F_l from there to its ACK.

    w' = [source_law(w) - w]/D + r (jump(w) - w)       r = x(t - D) (1 - D') P/s
                                                       P = 1 - prod_l [1 - P_l(t - D + F_l)]
    h' = [law(h) - h]/D + r (jump(h) - h)              states of hosts, in the same way
    q_l' = y_l - C_l                                   y_l = sum of x(t - F_l), less what is dropped on arrival
    z' = [law(z) - z]/T, or y_l [law(z) - z]           states of disciplines, by their clocks
    D(t) = D_0 + sum_l q_l(t - D + F_l)/C_l
    R(t) = sum_l router_law(q_l(t - D + F_l), C_l)       of the host's protocol, where its laws ask for it

With marks at one queue under NewReno it is the model of Misra, Gong, Towsley 2000, whose linear form is that of Hollot,
Misra, Towsley, Gong 2001, but for D': theirs has ACKs come as packets were sent, x(t - D), though while the queue grows
they come apart, and no faster than C in all. All of it is evaluated on `_Signal`s, numbers with their derivatives in
every state at every delay: one text gives the equilibrium and the linear model, and laws are differentiated by jets.

That is clocking="rate": queues integrate w/D. With "ack" (`ecc.loops.ack_clocked_windows`) a window is the flight
size, q_l = sum of w(t - F_l) - C_l D_0 if one kind of flow fills one queue. ACKs arrive at the rate C_l, x of it
for a flow, and move its window by [source_law(w) - w] x/w.

With phases, disciplines whose clock is "interval" step at ticks, z <- law(z) with what they see there: q, q at the tick
before, and the mean of y in between. They hold z until the next tick (`ecc.linear.sample_and_hold`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import Deployment
from ecc.contract.env import Params
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.contract.values import states_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import law_arguments, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.sample_and_hold import Clock, SampleAndHold, Term
from ecc.network.network import Network

__all__ = ["MarkingEquilibrium", "equilibrium_of_marks", "linearize_marks"]

_Slopes = dict[tuple[int, float, int], float]
"""(state, delay [s], order of its derivative) -> coefficient."""
_OF_HOSTS = ("w", "w_rtt", "R", "D", "s", "a", "marked", "p")
_OF_ROUTERS = ("q", "C", "s", "p")
_OF_QUEUES = ("q", "q_prev", "y", "C", "T", "p")
_ROUNDING = 1e-10  # relative: of an equilibrium
_STEPS, _NEWTON = 500, 20  # towards it
_SWEEPS, _HALVINGS, _FARTHEST = 3, 60, 1e9  # for where to start
_NEWTON_STEPS, _EULER_STEPS, _COARSE = 4, 12, 1e-6  # of states of hosts towards it, and how near it they bring others
_LARGE_CUT = 0.25  # of the queue at the equilibrium: a step that a linear model takes for small
_PIECES = 4  # of the shortest RTT, at least, on which windows and queues are one polynomial between samples


class _Signal:
    """A number that moves along a run: its value at the equilibrium, and its derivatives in states, now and before."""

    __slots__ = ("slopes", "value")

    def __init__(self, value: float, slopes: _Slopes) -> None:
        self.value, self.slopes = value, slopes

    def _with(self, value: float, own: float, other: Any = 0.0, factor: float = 0.0) -> _Signal:
        slopes = {key: own * slope for key, slope in self.slopes.items()}
        for key, slope in other.slopes.items() if isinstance(other, _Signal) else ():
            slopes[key] = slopes.get(key, 0.0) + factor * slope
        return _Signal(value, slopes)

    def __add__(self, other: Any) -> _Signal:
        return self._with(self.value + _value(other), 1.0, other, 1.0)

    def __sub__(self, other: Any) -> _Signal:
        return self._with(self.value - _value(other), 1.0, other, -1.0)

    def __rsub__(self, other: float) -> _Signal:
        return self._with(other - self.value, -1.0)

    def __mul__(self, other: Any) -> _Signal:
        return self._with(self.value * _value(other), _value(other), other, self.value)

    def __truediv__(self, other: Any) -> _Signal:
        over = _value(other)
        return self._with(self.value / over, 1.0 / over, other, -self.value / over**2)

    def __rtruediv__(self, other: float) -> _Signal:
        return self._with(other / self.value, -other / self.value**2)

    __radd__ = __add__
    __rmul__ = __mul__


def _value(number: Any) -> float:
    return number.value if isinstance(number, _Signal) else float(number)


def _later(number: Any, delay: float) -> Any:
    """The number a while ago."""
    if not isinstance(number, _Signal):
        return number
    return _Signal(number.value, {(state, tau + delay, n): a for (state, tau, n), a in number.slopes.items()})


def _derivative(number: Any) -> Any:
    """How fast the number moves."""
    if not isinstance(number, _Signal):
        return 0.0
    return _Signal(0.0, {(state, tau, n + 1): a for (state, tau, n), a in number.slopes.items()})


def _mean(number: Any, span: float) -> Any:
    """Its mean over the time that ends now; what has no antiderivative among the states has the order -1."""
    if not isinstance(number, _Signal) or span <= 0.0:
        return number
    slopes: _Slopes = defaultdict(float)
    for (state, tau, n), a in number.slopes.items():
        if n == 0:
            slopes[state, tau, -1] += a
        else:
            slopes[state, tau, n - 1] += a / span
            slopes[state, tau + span, n - 1] -= a / span
    return _Signal(number.value, dict(slopes))


def _call(law: Callable[..., float], known: Mapping[str, Any]) -> Any:
    """A law of numbers, some of which may be signals."""
    given = {name: known[name] for name in law_arguments(law)}
    moving = [name for name, number in given.items() if isinstance(number, _Signal)]
    if not moving:
        return value_of(law, given)
    at = {name: _value(number) if name in moving else number for name, number in given.items()}
    found = _Signal(float(value_of(law, at)), {})
    for name, slope in gradient(law, at, moving).items():
        found = found._with(found.value, 1.0, given[name], slope)
    return found


@dataclass(frozen=True)
class _Kind:
    """Equal flows: how many, of which protocol, on which links; delays without queues [s], packets and ACKed [bit]."""

    flows: tuple[int, ...]
    protocol: Protocol
    route: tuple[int, ...]
    forward: tuple[float, ...]
    rtt: float
    s: float
    a: float
    p: Params
    states: Mapping[str, State]
    scalable: float

    def jumps(self, signal: str) -> Callable[..., float] | None:
        """What the window is right after a signal."""
        law = self.protocol.mark_response_law if signal == "mark" else None
        return law or self.protocol.loss_response_law


@dataclass(frozen=True)
class _Queue:
    """A link with a discipline; capacity [packets/s], packets [bit]."""

    link: int
    protocol: Protocol
    capacity: float
    packet: float
    p: Params
    states: Mapping[str, State]
    marks: bool
    interval: float

    @property
    def law(self) -> Callable[..., float]:
        law = self.protocol.probability_law
        assert law is not None
        return law


@dataclass(frozen=True)
class MarkingEquilibrium:
    """The equilibrium of hosts over queue disciplines: see `equilibrium_of_marks`.

    `windows` [bit] and `rates` [bit/s] by flow; `queues` [bit] and `probabilities`, the largest of all flows, by link;
    `chosen`, shape (n_flows, n_links), the probability for packets of each flow; `states` of links and `host_states` of
    flows, by name.
    """

    windows: NDArray[np.float64]
    rates: NDArray[np.float64]
    rtts: NDArray[np.float64]
    queues: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    chosen: NDArray[np.float64]
    states: tuple[Mapping[str, float], ...]
    host_states: tuple[Mapping[str, float], ...]


def _next(held: Any, queue: _Queue) -> Any:
    """What is held from this tick on."""
    return _later(held, -0.5 * queue.interval)


class _Loop:
    """All the equations, on numbers or on signals; its states are w and h of each kind of flows, q and z of queues."""

    def __init__(self, deployed: Deployment, network: Network, once: bool = False) -> None:
        self.network = network
        self.once = once
        self.queues = _queues(deployed, network)
        self.kinds = _kinds(deployed, network)
        self.names: list[tuple[str, int, str]] = []
        for g, kind in enumerate(self.kinds):
            self.names += [("host", g, name) for name in ("w", *kind.states)]
        for k, queue in enumerate(self.queues):
            self.names += [("queue", k, name) for name in ("q", *queue.states)]
        self.at = {name: place for place, name in enumerate(self.names)}
        self.number = {queue.link: k for k, queue in enumerate(self.queues)}
        dropping = [[self._signal(self.queues[self.number[link]], kind) == "loss" for link in kind.route
                     if link in self.number] for kind in self.kinds]  # fmt: skip
        self.most_upstream = max((sum(some[:-1]) for some in dropping), default=0)

    # ---- the equations -----------------------------------------------------------------------------------

    def _delays(self, z: Sequence[Any]) -> list[tuple[float, dict[int, float]]]:
        """D and F of each kind, queues included."""
        found = []
        for kind in self.kinds:
            waited, late = 0.0, {}
            for link, delay in zip(kind.route, kind.forward, strict=True):
                late[link] = delay + waited
                if link in self.number:
                    k = self.number[link]
                    waited += _value(z[self.at["queue", k, "q"]]) / self.queues[k].capacity
            found.append((kind.rtt + waited, late))
        return found

    def moves(
        self,
        z: Sequence[Any],
        clocking: str = "rate",
        deaf: bool = False,
        seen: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> tuple[list[Any], list[list[Any]], list[dict[str, Any]]]:
        """Derivatives of all states, probabilities of queues, by kind, and what disciplines see at ticks, q and y.

        `deaf`: hosts receive constant probabilities. `seen`: what disciplines saw at their last ticks, q and y; states
        with the clock "interval" then have what they step to at a tick instead of a derivative.
        """
        delays = self._delays(z)
        q = [z[self.at["queue", k, "q"]] for k in range(len(self.queues))]
        waits = {queue.link: q[k] / queue.capacity for k, queue in enumerate(self.queues)}
        rtts, rates = [], []
        for g, (kind, (D, late)) in enumerate(zip(self.kinds, delays, strict=True)):
            rtt: Any = kind.rtt
            for link in kind.route:
                if link in waits:
                    rtt = rtt + _later(waits[link], D - late[link])
            rtts.append(rtt)
            rates.append(z[self.at["host", g, "w"]] / rtt)
        arrivals = [self._arrivals(k, rates, waits, delays) for k in range(len(self.queues))]
        if clocking == "ack":
            arrivals = [[queue.capacity + _derivative(q[k])] for k, queue in enumerate(self.queues)]
        chosen = [self._chosen(k, z, sum(arrivals[k]), seen) for k in range(len(self.queues))]
        for _ in range(self.most_upstream):  # what one queue drops does not come to the next
            arrivals = [self._arrivals(k, rates, waits, delays, chosen) for k in range(len(self.queues))]
            chosen = [self._chosen(k, z, sum(arrivals[k]), seen) for k in range(len(self.queues))]
        out: list[Any] = [0.0] * len(self.names)
        for k, queue in enumerate(self.queues):
            kept = [
                y * (1.0 - P) if self._signal(queue, kind) == "loss" else y
                for y, P, kind in zip(arrivals[k], chosen[k], self.kinds, strict=True)
            ]
            out[self.at["queue", k, "q"]] = sum(kept) - queue.capacity
            known = self._known(k, z, sum(arrivals[k]), seen)
            ticking = known | {name: _next(one, queue) for name, one in (seen or {}).get(k, {}).items()}
            for name, state in queue.states.items():
                if state.law is None:
                    continue
                if seen is not None and state.clock == "interval":  # those before it have stepped already
                    place = self.at["queue", k, name]
                    out[place], ticking[name] = _call(state.law, ticking), _next(z[place], queue)
                    continue
                here, after = known[name], _call(state.law, known)
                rate = known["y"] if state.clock == "arrival" else 1.0 / queue.interval if queue.interval else 1.0
                moved = after if state.clock == "continuous" else (after - here) * rate
                out[self.at["queue", k, name]] = moved
        for g, kind in enumerate(self.kinds):
            D, late = delays[g]
            acked = _later(rates[g], D)
            for link in kind.route:  # ACKs come apart as queues grow; clocked by them, they come as a queue lets go
                k = self.number.get(link, -1)
                if k >= 0 and isinstance(q[k], _Signal):
                    grows = out[self.at["queue", k, "q"]] / self.queues[k].capacity
                    acked = acked * (1.0 - _later(grows - _value(grows), D - late[link]))
            acked = _value(rates[g]) if clocking == "ack" else acked
            received = [[_value(P) for P in some] for some in chosen] if deaf else chosen
            w = z[self.at["host", g, "w"]]
            turns = _value(rates[g]) / w if clocking == "ack" else 1.0 / rtts[g]  # windows acknowledged in a second
            acked = self.kinds[g].s * turns if self.once else acked
            self._host(g, z, out, rtts[g], turns, acked, received, delays[g])
        saw = [{"q": q[k], "y": _mean(sum(arrivals[k]), queue.interval)} for k, queue in enumerate(self.queues)]
        return out, chosen, saw

    def _arrivals(
        self, k: int, rates: Sequence[Any], waits: Mapping[int, Any], delays: Any, chosen: Any = ()
    ) -> list[Any]:
        """What each kind of flows brings to a queue, through those before it, whose waits stretch it; or drop some."""
        queue, found = self.queues[k], []
        for g, (kind, x, (_, late)) in enumerate(zip(self.kinds, rates, delays, strict=True)):
            if queue.link not in late:
                found.append(0.0)
                continue
            y = _later(x, late[queue.link]) * (len(kind.flows) / queue.packet)
            for link in kind.route[: kind.route.index(queue.link)]:
                if link in waits:
                    ago, upstream = late[queue.link] - late[link], self.number[link]
                    y = y * (1.0 - _derivative(_later(waits[link], ago)))
                    if chosen and self._signal(self.queues[upstream], kind) == "loss":
                        y = y * (1.0 - _later(chosen[upstream][g], ago))
            found.append(y)
        return found

    def _known(self, k: int, z: Sequence[Any], y: Any, seen: Mapping[int, Mapping[str, Any]] | None) -> dict[str, Any]:
        queue = self.queues[k]
        q = z[self.at["queue", k, "q"]]
        before = _later(q, queue.interval) if seen is None else seen.get(k, {}).get("q", q)
        return {
            **{name: z[self.at["queue", k, name]] for name in queue.states},
            "q": q, "q_prev": before, "y": y, "C": queue.capacity, "T": queue.interval, "p": queue.p,
        }  # fmt: skip

    def _chosen(self, k: int, z: Sequence[Any], y: Any, seen: Mapping[int, Mapping[str, Any]] | None) -> list[Any]:
        """The probability at a queue, for each kind of flows; 0 for those that do not come there."""
        queue, known = self.queues[k], self._known(k, z, y, seen)
        found: dict[float, Any] = {}
        for kind in self.kinds:
            if kind.scalable not in found:
                found[kind.scalable] = _call(queue.law, known | {"scalable": kind.scalable})
        return [found[kind.scalable] if queue.link in kind.route else 0.0 for kind in self.kinds]

    def _signal(self, queue: _Queue, kind: _Kind) -> str:
        return "mark" if queue.marks and kind.protocol.ecn_echo is not None else "loss"

    def _host(
        self,
        g: int,
        z: Sequence[Any],
        out: list[Any],
        rtt: Any,
        turns: Any,
        acked: Any,
        chosen: Sequence[Any],
        delays: Any,
    ) -> None:
        """The window and the states of a kind of flows."""
        kind, (D, late) = self.kinds[g], delays
        spared: dict[str, Any] = {"mark": 1.0, "loss": 1.0}
        for k, queue in enumerate(self.queues):
            if queue.link in late:
                signal = self._signal(queue, kind)
                spared[signal] = spared[signal] * (1.0 - _later(chosen[k][g], D - late[queue.link]))
        known = self._known_by_host(g, z, rtt, 1.0 - spared["mark"], delays)
        for name in ("w", *kind.states):
            here = known[name]
            state = kind.states.get(name)
            law = kind.protocol.source_law if state is None else state.law
            after = here if law is None else _call(law, known)
            moved = after if state is not None and state.clock == "continuous" else (after - here) * turns
            for signal, none in spared.items():
                jump = kind.jumps(signal) if state is None else state.jumps.get(signal)
                if jump is not None and not (isinstance(none, float) and none == 1.0):
                    moved = moved + acked * (1.0 - none) / kind.s * (_call(jump, known) - here)
            out[self.at["host", g, name]] = moved

    def _known_by_host(
        self, g: int, z: Sequence[Any], rtt: Any, marked: Any, delays: tuple[float, dict[int, float]]
    ) -> dict[str, Any]:
        """The arguments of the laws of a kind of flows."""
        kind = self.kinds[g]
        own = {name: z[self.at["host", g, name]] for name in ("w", *kind.states)}
        feedback = self._feedback(kind, z, delays) if _takes_feedback(kind.protocol, kind.states) else 0.0
        return {
            **own, "w_rtt": _later(own["w"], delays[0]), "R": feedback, "D": rtt, "s": kind.s, "a": kind.a,
            "marked": marked, "p": kind.p,
        }  # fmt: skip

    def largest_cut(self, z: NDArray[np.float64], active: Sequence[int]) -> tuple[float, float, str]:
        """Return the largest part of a queue [packets] that one flow's response to one signal takes away.

        With it, the queue [packets] and the host's name.
        """
        largest = (0.0, 1.0, "")
        delays = self._delays(z.tolist())
        for g, kind in enumerate(self.kinds):
            known = self._known_by_host(g, z.tolist(), delays[g][0], 0.0, delays[g])
            for k in active:
                queue, jump = self.queues[k], kind.jumps(self._signal(self.queues[k], kind))
                if queue.link in kind.route and jump is not None:
                    cut = (known["w"] - float(_call(jump, known))) / queue.packet
                    holds = float(z[self.at["queue", k, "q"]])
                    if cut * largest[1] > largest[0] * max(holds, 1.0):
                        largest = cut, max(holds, 1.0), type(kind.protocol).__name__
        return largest

    def _feedback(self, kind: _Kind, z: Sequence[Any], delays: tuple[float, dict[int, float]]) -> Any:
        """What the routers of its own protocol say of the queues of its path as its packets come there, summed."""
        total: Any = 0.0
        for link in kind.route:
            q: Any = 0.0
            if link in self.number:
                k = self.number[link]
                q = _later(z[self.at["queue", k, "q"]] * self.queues[k].packet, delays[0] - delays[1][link])
            known = {"q": q, "C": float(self.network.capacities[link]), "s": kind.s, "p": kind.p}
            total = total + _call(kind.protocol.router_law, known)
        return total

    # ---- the equilibrium ---------------------------------------------------------------------------------

    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Least and largest values, sizes, and where to start from, of all states."""
        low, high, size, start = (np.zeros(len(self.names)) for _ in range(4))
        loads = np.zeros(self.network.n_links)
        for kind in self.kinds:
            loads[list(kind.route)] += len(kind.flows)
        for place, (part, number, name) in enumerate(self.names):
            if name == "w":
                kind = self.kinds[number]
                share = min(self.network.capacities[link] / loads[link] for link in kind.route)
                w = max(share * kind.rtt, 2.0 * kind.s)
                low[place], high[place], size[place], start[place] = 1e-6 * kind.s, 1e6 * (w + kind.s), kind.s, w
                continue
            if name == "q":
                queue = self.queues[number]
                rtts = [kind.rtt for kind in self.kinds if queue.link in kind.route]
                size[place] = max(queue.capacity * min(rtts, default=0.0), 1.0)
                high[place], start[place] = 1e9, 0.05 * size[place]
                continue
            state = (self.kinds if part == "host" else self.queues)[number].states[name]
            first = state.initial
            if callable(first):
                queue = self.queues[number]
                first = _call(first, {"C": queue.capacity, "T": queue.interval, "p": queue.p})
            low[place], high[place], start[place] = state.lowest, state.highest, first
            size[place] = max(abs(first), state.highest if np.isfinite(state.highest) else 1.0, 1e-9)
        return low, high, size, start

    def _start(
        self, z: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return where to search from: windows of a fair share, the state of each queue where these keep still, those
        of hosts being where they do, and the queue where that state does. Laws that choose nothing below a threshold
        have no slope there to find it by."""
        z = z.copy()
        shares = [z[self.at["host", g, "w"]] / kind.rtt for g, kind in enumerate(self.kinds)]
        for _ in range(_SWEEPS):
            for g, (D, _) in enumerate(self._delays(z.tolist())):
                z[self.at["host", g, "w"]] = shares[g] * D
            for k, queue in enumerate(self.queues):
                host = next((g for g, kind in enumerate(self.kinds) if queue.link in kind.route), None)
                if host is None:
                    continue
                w, q = self.at["host", host, "w"], self.at["queue", k, "q"]
                states = [self.at["host", host, name] for name in self.kinds[host].states]
                for place in [*(self.at["queue", k, name] for name in queue.states), q]:
                    if self._balance(z, place, w, low, high, states):
                        if place != q:
                            self._balance(z, q, place, low, high)
                        break
        return z

    def at_limits(self, z: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> list[int]:
        """Return the states at a limit that are at none in an equilibrium: windows, and those of queues that choose."""
        chosen = self.moves(z.tolist())[1]
        choosing = [
            self.at["queue", k, name]
            for k, queue in enumerate(self.queues)
            for name in queue.states
            if max(map(float, chosen[k])) > 0.0
        ]
        places = [*(self.at["host", g, "w"] for g in range(len(self.kinds))), *choosing]
        return [place for place in places if not low[place] < z[place] < high[place]]

    def _rest(self, z: NDArray[np.float64], rows: Sequence[int], low: Any, high: Any) -> None:
        """Move some states to where they keep still, all others being held: by Newton's method, where it converges, or
        by implicit Euler steps that get longer."""
        at = list(rows)
        given = z[at]
        shortest = min(kind.rtt for kind in self.kinds)
        for steps in (
            (np.full(_NEWTON_STEPS, 1e9 * shortest), shortest * np.logspace(-2.0, 9.0, _EULER_STEPS)) if at else ()
        ):
            z[at] = given
            for dt in steps:
                G = np.array(self.moves(z.tolist())[0], float)[at]
                J = np.empty((len(at), len(at)))
                for column, place in enumerate(at):
                    there, h = z.copy(), 1e-7 * max(abs(z[place]), 1e-6)
                    there[place] += h if z[place] + h <= high[place] else -h
                    J[:, column] = (np.array(self.moves(there.tolist())[0], float)[at] - G) / (there[place] - z[place])
                before = z[at]
                z[at] = _step(before, G, J, float(dt), low[at], high[at])
                if dt >= 1e6 * shortest and np.all(np.abs(z[at] - before) <= 1e-9 * np.abs(z[at])):
                    return

    def _balance(
        self,
        z: NDArray[np.float64],
        place: int,
        row: int,
        lowest: NDArray[np.float64],
        highest: NDArray[np.float64],
        resting: Sequence[int] = (),
    ) -> bool:
        """Set a state to where another keeps still, by bisection, and `resting` to where they do; return whether there
        is such a value."""

        def moved(value: float) -> float:
            z[place] = value
            self._rest(z, resting, lowest, highest)
            return float(self.moves(z.tolist())[0][row])

        given, low, high = z.copy(), float(lowest[place]), float(highest[place])
        most = min(high, low + 1.0)
        first, last = moved(low), moved(most)
        while first * last >= 0.0 and most < min(high, _FARTHEST):
            most = min(high, 2.0 * most)
            last = moved(most)
        if first * last >= 0.0:
            z[:] = given
            return False
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + most)
            if resting and most - low <= _COARSE * most:
                break
            low, most = (middle, most) if moved(middle) * first > 0.0 else (low, middle)
        moved(most)
        return True

    def settle(self) -> NDArray[np.float64]:
        """Return the equilibrium: by Newton's method from points on a path of the loop without delays."""
        low, high, size, z = self._limits()

        def moving(z: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.array([float(moved) for moved in self.moves(z.tolist())[0]])

        def slopes(z: NDArray[np.float64], G: NDArray[np.float64]) -> NDArray[np.float64]:
            steps = np.where(z + 1e-7 * size > high, -1e-7, 1e-7) * np.maximum(np.abs(z), 1e-3 * size)
            return np.array([(moving(z + h) - G) / h.sum() for h in np.diag(steps)]).T

        def change(new: NDArray[np.float64], z: NDArray[np.float64]) -> float:
            return float(np.max(np.abs(new - z) / np.maximum(np.abs(z), 0.01 * size)))

        def ahead(z: NDArray[np.float64]) -> NDArray[np.float64] | None:
            """Newton's method from there; None where it does not converge."""
            last = np.inf
            for _ in range(_NEWTON):
                G = moving(z)
                new = _step(z, G, slopes(z, G), 1e12, low, high)
                moved, z = change(new, z), new
                if max(moved, last) < _ROUNDING:
                    off = np.where(z <= low, moving(z), np.where(z >= high, -moving(z), 0.0))  # back from a limit
                    return z if np.all(off * shortest < 1e-6 * size) else None
                last = moved
            return None

        shortest = min(kind.rtt for kind in self.kinds)
        dt = 0.02 * shortest
        z = self._start(z, low, high)
        stuck = None  # with a state at a limit, where laws that keep to it stand still
        for k in range(_STEPS):
            if k % 10 == 0 and (found := ahead(z)) is not None:
                if np.all(found < high) and not self.at_limits(found, low, high):
                    return found
                stuck = found
            G = moving(z)
            new = _step(z, G, slopes(z, G), dt, low, high)
            far = change(new, z)
            dt = min(dt * min(max(0.3 / max(far, 1e-12), 0.3), 3.0), 1e9)
            z = z if far > 1.0 and dt > 1e-9 else new
        if stuck is not None:
            return stuck
        raise LinearizationError(
            "no equilibrium was found: without delays, too, windows and queues of these laws have no equilibrium"
        )


def _step(
    z: NDArray[np.float64],
    G: NDArray[np.float64],
    J: NDArray[np.float64],
    dt: float,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """An implicit Euler step of z' = G, with those held at their limits that would pass them."""
    held = ((z <= low) & (G < 0.0)) | ((z >= high) & (G > 0.0))
    new = z
    for _ in z:
        left = np.eye(len(z)) / dt - J
        left[held] = np.eye(len(z))[held]
        try:
            limit = np.clip(new, low, high)
            new = np.where(held, limit, z + np.linalg.solve(left, np.where(held, limit - z, G)))
        except np.linalg.LinAlgError:
            return np.clip(z + 0.5 * dt * G, low, high)
        beyond = ((new < low) | (new > high)) & ~held
        if not beyond.any():
            break
        held |= beyond
    return np.clip(new, low, high)


def _queues(deployed: Deployment, network: Network) -> list[_Queue]:
    """The links whose disciplines choose packets by a law."""
    found = []
    for link, routers in enumerate(deployed.links):
        disciplines = [router for router in routers if not router.has_hosts()]
        laws = [router for router in disciplines if router.probability_law is not None]
        for router in disciplines:
            if router.probability_law is None and (router.states or router.link_hooks()):
                raise ValueError(f"{type(router).__name__} has no linear model: it has no probability_law")
        if len(laws) > 1:
            names = " and ".join(type(router).__name__ for router in laws)
            raise ValueError(f"link {link} must have one discipline for a linear model, got {names}")
        for router in laws:
            states, name = states_of(router), type(router).__name__
            if router.queues is not None:
                raise ValueError(f"{name} has no linear model: it has several queues at a link")
            p = router.namespace()
            packet = 8.0 * float(router.params()["packet_size"])
            clocked = "interval" in router.params()
            for law_name, law in [
                ("probability_law", router.probability_law),
                *((n, s.law) for n, s in states.items() if s.law),
            ]:
                given = (*states, *_OF_QUEUES, *(("scalable",) if law_name == "probability_law" else ()))
                given = given if clocked else tuple(one for one in given if one not in ("q_prev", "T"))
                _check(law, given, f"{name} has no linear model: its {law_name}")
            for state_name, state in states.items():
                if state.clock == "rtt" or (state.clock == "interval" and not clocked):
                    raise ValueError(
                        f"{name} has no linear model: its state {state_name} has the clock {state.clock!r}, "
                        "which its queue has not"
                    )
            interval = interval_of(router) if clocked else 0.0
            capacity = float(network.capacities[link]) / packet
            found.append(_Queue(link, router, capacity, packet, p, states, "ecn" in router.gives, interval))
    return found


def _kinds(deployed: Deployment, network: Network) -> list[_Kind]:
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, (flow, protocol) in enumerate(zip(network.flows, deployed.flows, strict=True)):
        delays = tuple(network.forward_delays[i, list(flow.route)].tolist())
        equal[protocol, flow.route, delays, float(network.rtts[i]), flow.mean_packet, flow.mean_acknowledged].append(i)
    kinds = []
    for (protocol, route, delays, rtt, packet, acknowledged), flows in equal.items():
        name, states = type(protocol).__name__, states_of(protocol)
        law = getattr(protocol, "source_law", None)
        takes = () if law is None else law_arguments(law)
        if "w" not in takes or (protocol.loss_response_law is None and "marked" not in takes):
            raise ValueError(
                f"{name} has no linear model over queue disciplines: it has no source_law of a window w with a "
                "loss_response_law"
            )
        if protocol.memory_law is not None or protocol.decrease_law is not None:
            raise ValueError(
                f"{name} has no linear model over queue disciplines: its memory of losses is none of its states"
            )
        given = (*states, *_OF_HOSTS)
        responses = [protocol.loss_response_law, protocol.mark_response_law]
        jumps = [(f"state {n}", jump) for n, state in states.items() for jump in state.jumps.values()]
        laws = [("source_law", law), *(("response", law) for law in responses if law), *jumps]
        for law_name, one in [*laws, *((f"state {n}", its.law) for n, its in states.items() if its.law)]:
            _check(one, given, f"{name} has no linear model over queue disciplines: its {law_name}")
        for state_name, state in states.items():
            if state.clock not in ("rtt", "continuous"):
                raise ValueError(
                    f"{name} has no linear model over queue disciplines: its state {state_name} has the clock "
                    f"{state.clock!r}"
                )
        if _takes_feedback(protocol, states):
            _check(
                protocol.router_law, _OF_ROUTERS, f"{name} has no linear model over queue disciplines: its router_law"
            )
            if protocol.combine != "sum":
                raise ValueError(
                    f"{name} has no linear model over queue disciplines: what its laws get of links must be their sum, "
                    f"got combine = {protocol.combine!r}"
                )
        scalable = float(protocol.ecn_echo == "scalable")
        p = protocol.namespace()
        s, a = 8.0 * packet, 8.0 * acknowledged
        kinds.append(_Kind(tuple(flows), protocol, route, delays, rtt, s, a, p, states, scalable))
    return kinds


def _takes_feedback(protocol: Protocol, states: Mapping[str, State]) -> bool:
    """Whether a law of a host, or a jump of its window or states, takes the feedback of the protocol's routers."""
    laws = [protocol.source_law, protocol.loss_response_law, protocol.mark_response_law]
    for state in states.values():
        laws += [state.law, *state.jumps.values()]
    return any("R" in law_arguments(law) for law in laws)


def _check(law: Any, given: Sequence[str], what: str) -> None:
    if unknown := [name for name in law_arguments(law) if name not in given]:
        raise ValueError(f"{what} takes {', '.join(unknown)}; available arguments: {', '.join(given)}")


def _settled(
    deployed: Deployment, network: Network, once: bool = False
) -> tuple[_Loop, NDArray[np.float64], list[int]]:
    """The loop, its equilibrium, and the queues that choose packets there."""
    loop = _Loop(deployed, network, once)
    if not loop.queues:
        raise ValueError("there is no linear model of windows over links without a queue discipline: they overflow")
    z = loop.settle()
    low, high, _, _ = loop._limits()
    _, chosen, _ = loop.moves(z.tolist())
    rates = [z[loop.at["host", g, "w"]] / D for g, (D, _) in enumerate(loop._delays(z.tolist()))]
    loads = np.zeros(network.n_links)
    for g, (kind, x) in enumerate(zip(loop.kinds, rates, strict=True)):
        w, most = z[loop.at["host", g, "w"]] / 8.0, kind.protocol.receiver_window
        if most and w > most:
            raise LinearizationError(
                f"no equilibrium: windows of {type(kind.protocol).__name__} would be {w:.6g} bytes, more than its "
                f"receiver_window of {most:g} bytes"
            )
        loads[list(kind.route)] += x * len(kind.flows)
    for link, load in enumerate(loads):
        if link not in loop.number and load > network.capacities[link] * (1.0 + 1e-9):
            raise LinearizationError(f"no equilibrium: link {link} has no queue discipline, and would overflow")
    active = []
    for k, queue in enumerate(loop.queues):
        P = max(chosen[k])
        if P > 0.0:
            active.append(k)
        held = z[loop.at["queue", k, "q"]] * queue.packet / 8.0
        buffer = network.links[queue.link].buffer
        if buffer is not None and held > buffer:
            raise LinearizationError(
                f"no equilibrium: the queue of link {queue.link} would be {held:.6g} bytes, more than its buffer"
            )
    for place in loop.at_limits(z, low, high):
        part, number, name = loop.names[place]
        where = f" at link {loop.queues[number].link}" if part == "queue" else ""
        owner = (loop.kinds if part == "host" else loop.queues)[number].protocol
        raise LinearizationError(
            f"no equilibrium: {name} of {type(owner).__name__}{where} stays at its limit {z[place]:g}, with windows of "
            f"{min(z[loop.at['host', g, 'w']] / kind.s for g, kind in enumerate(loop.kinds)):.3g} packets"
        )
    if not active:
        raise LinearizationError("no equilibrium: no link would mark or drop, and windows grow without end")
    return loop, z, active


def equilibrium_of_marks(deployed: Deployment, network: Network, once: bool = False) -> MarkingEquilibrium:
    """Return the equilibrium of hosts over queue disciplines, from their laws.

    Parameters
    ----------
    deployed : Deployment
        Who runs what (`ProtocolAssignment.deploy`).
    network : Network
    once : bool, optional
        Hosts answer once an RTT, in which all packets are chosen or none (step marking), instead of each packet.

    Raises
    ------
    LinearizationError
        They have no equilibrium.
    ValueError
        Laws that ask for what there is not.
    """
    loop, z, _ = _settled(deployed, network, once)
    _, chosen, _ = loop.moves(z.tolist())
    windows, rates, rtts = (np.zeros(network.n_flows) for _ in range(3))
    queues, probabilities = np.zeros(network.n_links), np.zeros(network.n_links)
    by_flow = np.zeros((network.n_flows, network.n_links))
    states: list[dict[str, float]] = [{} for _ in range(network.n_links)]
    host_states: list[dict[str, float]] = [{} for _ in range(network.n_flows)]
    for g, (kind, (D, _)) in enumerate(zip(loop.kinds, loop._delays(z.tolist()), strict=True)):
        w = float(z[loop.at["host", g, "w"]])
        windows[list(kind.flows)], rates[list(kind.flows)], rtts[list(kind.flows)] = w, w / D, D
        for flow in kind.flows:
            host_states[flow] = {name: float(z[loop.at["host", g, name]]) for name in kind.states}
    for k, queue in enumerate(loop.queues):
        queues[queue.link] = z[loop.at["queue", k, "q"]] * queue.packet
        probabilities[queue.link] = max(map(float, chosen[k]))
        for kind, P in zip(loop.kinds, chosen[k], strict=True):
            by_flow[list(kind.flows), queue.link] = P
        states[queue.link] = {name: float(z[loop.at["queue", k, name]]) for name in queue.states}
    return MarkingEquilibrium(windows, rates, rtts, queues, probabilities, by_flow, tuple(states), tuple(host_states))


def linearize_marks(
    deployed: Deployment,
    network: Network,
    clocking: str,
    once: bool = False,
    phases: NDArray[np.float64] | None = None,
) -> DelaySystem | SampledSystem:
    """Return the linear model; its states are w [bit] and those of hosts, then q [packets] and those of queues.

    Parameters
    ----------
    deployed : Deployment
        Who runs what (`ProtocolAssignment.deploy`).
    network : Network
    clocking : str
        "ack" or "rate".
    once : bool, optional
        As in equilibrium_of_marks.
    phases : ndarray of float, optional
        Shape (n_links,): disciplines step at ticks (`ecc.linear.sample_and_hold`), these parts of their intervals after
        the start; None: all the time.

    Raises
    ------
    LinearizationError
        No equilibrium, a law that switches there, or, clocked by ACKs, heterogeneous flows or several queues.
    ValueError
        Laws that ask for what there is not; no discipline with a clock, though there are phases.
    """
    loop, z, active = _settled(deployed, network, once)
    fixed = {place for place, (part, k, _) in enumerate(loop.names) if part == "queue" and k not in active}
    fixed |= {loop.at["queue", k, "q"] for k in active if z[loop.at["queue", k, "q"]] <= 0.0}  # it stays empty
    signals: list[Any] = [
        float(value) if place in fixed else _Signal(float(value), {(place, 0.0, 0): 1.0})
        for place, value in enumerate(z)
    ]
    if clocking == "ack":
        place = _clock(loop, z, active)
        (kind,), (k,) = loop.kinds, active
        late = loop._delays(z.tolist())[0][1][loop.queues[k].link]
        here = len(kind.flows) / loop.queues[k].packet
        signals[place] = _Signal(float(z[place]), {(loop.at["host", 0, "w"], late, 0): here})
        fixed.add(place)
    rows = [place for place in range(len(z)) if place not in fixed]
    held = None if phases is None else _Held.of(loop, z, active, phases)
    seen = None if held is None else held.seen
    moved, chosen, saw = loop.moves(signals, clocking, seen=seen)
    deaf, *_ = loop.moves(signals, clocking, deaf=True, seen=seen)
    apart = [one for g in range(len(loop.kinds)) for one in _differences(loop, g, z)]
    notes = _notes(loop, z, active, chosen, spread=held is None)
    if apart:
        notes = (*notes, "differences between flows of one link grow, even where their sum does not")
    at_once = moved if held is None else loop.moves(signals, clocking)[0]
    still = _system([(at_once, rows)]).matrices.sum(axis=0)
    for axis in (1, 0):
        still = still / np.maximum(np.abs(still).max(axis=axis, keepdims=True), 1e-300)
    if np.linalg.svd(still, compute_uv=False)[-1] < _ROUNDING:
        raise LinearizationError("no single equilibrium: these laws have a line of equilibria, or more")
    if held is not None:
        return held.system(saw, moved, deaf, rows, apart, notes)
    opened = _system([(deaf, rows), *apart])
    return _system([(moved, rows), *apart], opened, notes)


@dataclass(frozen=True)
class _Held:
    """What disciplines see at their ticks, states of the model after all others; the clocks of all that they hold."""

    seen: Mapping[int, Mapping[str, Any]]
    clocks: Mapping[int, Clock]
    longest: float

    @classmethod
    def of(cls, loop: _Loop, z: NDArray[np.float64], active: Sequence[int], phases: NDArray[np.float64]) -> _Held:
        """Return those of a loop."""
        clocks: dict[int, Clock] = {}
        holding: dict[int, Clock] = {}
        seen: dict[int, dict[str, Any]] = {}
        saw = loop.moves(z.tolist())[2]
        for k in active:
            queue = loop.queues[k]
            ticking = [name for name, state in queue.states.items() if state.clock == "interval"]
            if not ticking:
                continue
            clock = Clock(queue.interval, float(phases[queue.link]))
            seen[k] = {}
            for name, value in saw[k].items():
                place = len(z) + len(clocks)
                seen[k][name] = _Signal(float(value), {(place, 0.0, 0): 1.0})
                clocks[place] = clock
            holding |= {loop.at["queue", k, name]: clock for name in ticking}
        if not clocks:
            names = " and ".join(dict.fromkeys(type(loop.queues[k].protocol).__name__ for k in active))
            raise ValueError(f"{names} has no clock of its own: time must be 'continuous'")
        longest = min(D for D, _ in loop._delays(z.tolist())) / _PIECES
        return cls(seen, clocks | holding, longest)  # what is seen comes first

    def system(
        self,
        saw: Sequence[Mapping[str, Any]],
        moved: Sequence[Any],
        deaf: Sequence[Any],
        rows: Sequence[int],
        apart: Sequence[tuple[list[Any], list[int]]],
        notes: Sequence[str],
    ) -> SampledSystem:
        """Return the recurrence over frames; `saw`: what disciplines see, by the states of the loop."""
        used = {state for place in rows for state, _, _ in moved[place].slopes}
        sampled = {
            place: saw[k][name]
            for k, some in self.seen.items()
            for name, one in some.items()
            for place, _, _ in one.slopes
            if place in used and isinstance(saw[k][name], _Signal)
        }
        both = []
        for part in (moved, deaf):
            whole = {place: part[place] for place in rows} | sampled
            both.append(_terms([(whole, [*rows, *sampled]), *apart]))
        column = {place: number for number, place in enumerate([*rows, *sampled])}
        clocks = {column[place]: clock for place, clock in self.clocks.items() if place in column}
        size = len(column) + sum(len(rows) for _, rows in apart)
        grid = SampleAndHold(size, clocks, both[0], self.longest)
        return grid.recurrence(both[0], opened=grid.recurrence(both[1]), notes=notes)


def _differences(loop: _Loop, g: int, z: NDArray[np.float64]) -> list[tuple[list[Any], list[int]]]:
    """The equations of the difference between two equal flows, unless it decays; queues do not depend on it.

    The queue and the RTT stay as they are, and each flow has its own share of the ACKs, whatever clocks their sum.
    """
    if len(loop.kinds[g].flows) < 2:
        return []
    rows = [place for place, (part, number, _) in enumerate(loop.names) if (part, number) == ("host", g)]
    alone: list[Any] = [
        _Signal(float(value), {(place, 0.0, 0): 1.0}) if place in rows else float(value)
        for place, value in enumerate(z)
    ]
    moved, *_ = loop.moves(alone, deaf=True)
    return [] if _system([(moved, rows)]).verdict == "stable" else [(moved, rows)]


def _clock(loop: _Loop, z: NDArray[np.float64], active: Sequence[int]) -> int:
    """The place of the one queue whose ACKs clock one kind of flows."""
    queues = [k for k in range(len(loop.queues)) if z[loop.at["queue", k, "q"]] > 0.0]
    if len(loop.kinds) != 1 or len(active) != 1 or queues != list(active):
        raise LinearizationError(
            "windows have no self-clocked linear model over queue disciplines but where one kind of flows fills one "
            f"queue, got {len(loop.kinds)} kinds and {len(queues)} queues: clocking='rate' has one"
        )
    return loop.at["queue", active[0], "q"]


def _terms(parts: Sequence[tuple[Any, Sequence[int]]]) -> list[Term]:
    """The coefficients of some rows of equations, of each part in its own states."""
    found, first = [], 0
    for moved, rows in parts:
        column = {place: first + number for number, place in enumerate(rows)}
        for place in rows:
            for (state, delay, order), slope in moved[place].slopes.items():
                if state in column:
                    found.append(Term(column[place], column[state], delay, order, slope))
        first += len(rows)
    return found


def _system(
    parts: Sequence[tuple[Any, Sequence[int]]], opened: DelaySystem | None = None, notes: Sequence[str] = ()
) -> DelaySystem:
    """The linear system of some rows of equations, of each part in its own states."""
    size = sum(len(rows) for _, rows in parts)
    by_order: list[dict[float, NDArray[np.float64]]] = [defaultdict(lambda: np.zeros((size, size))) for _ in range(2)]
    for row, column, delay, order, gain in _terms(parts):
        by_order[order][delay][row, column] += gain
    plain, neutral = by_order
    plain = plain or {0.0: np.zeros((size, size))}
    neutral = {delay: -matrix for delay, matrix in neutral.items() if np.any(matrix)}
    return DelaySystem(
        list(plain.values()),
        list(plain),
        neutral=list(neutral.values()),
        neutral_delays=list(neutral),
        opened=opened,
        notes=notes,
    )


def _notes(
    loop: _Loop, z: NDArray[np.float64], active: Sequence[int], chosen: Sequence[Sequence[Any]], spread: bool
) -> tuple[str, ...]:
    """What must be known of the model."""
    found = []
    stepping = {queue.interval for queue in (loop.queues[k] for k in active) if queue.interval}
    if stepping and spread:
        every = ", ".join(f"{1e3 * T:.4g} ms" for T in sorted(stepping))
        found.append(f"steps of disciplines, every {every}, are spread evenly over their intervals in this model")
    most = 0.0
    for g, kind in enumerate(loop.kinds):
        spared = np.prod([1.0 - _value(chosen[k][g]) for k in active])
        most = max(most, float(z[loop.at["host", g, "w"]] / kind.s * (1.0 - spared)))
    found.append(
        f"marks and losses are a rate in this model, at most {most:.2g} an RTT of a flow, each answered; hosts answer "
        "one an RTT, each for itself, and packets may lose stability at smaller gains"
    )
    cut, queue, name = loop.largest_cut(z, active)
    if cut > _LARGE_CUT * queue:
        found.append(
            f"one mark or loss takes {cut:.3g} packets from a window of {name}, and the queue at the equilibrium holds "
            f"{queue:.3g}: such steps are not small, and packets may leave the equilibrium well below a stability "
            "limit of this model"
        )
    return tuple(found)
