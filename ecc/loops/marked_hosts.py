"""The linear model of hosts with windows over queue disciplines that mark or drop at random.

A flow has window w, rate x = w/D, RTT D (queues included) and packets of s. The discipline of link l chooses packets
with the probability P_l. A packet reaches that queue F_l after it was sent, and its ACK arrives D - F_l later.

    w' = [source_law(w) - w]/D + r (jump(w) - w)       r = x(t - D) (1 - D') P/s
                                                       P = 1 - prod_l [1 - P_l(t - D + F_l)]
    h' = [law(h) - h]/D + r (jump(h) - h)              states of hosts, in the same way
    q_l' = y_l - C_l                                   y_l = sum of x(t - F_l), less drops on arrival
    z' = [law(z) - z]/T, or y_l [law(z) - z]           states of disciplines, by their clocks
    D(t) = D_0 + sum_l q_l(t - D + F_l)/C_l
    R(t) = sum_l router_law(q_l(t - D + F_l), C_l)       of the host's protocol, if its laws take R

With marks at one queue under NewReno it is the model of Misra, Gong, Towsley 2000, in the linear form of Hollot, Misra,
Towsley, Gong 2001, except for D'. In their model ACKs arrive at the rate x(t - D) at which packets were sent. But ACKs
are spread out while the queue grows, and their total rate never exceeds C. All equations are evaluated on `_Signal`s,
numbers with their derivatives with respect to every state at every delay. The same code therefore gives the equilibrium
and the linear model, and laws are differentiated by jets.

This is the model with clocking="rate", in which queues integrate w/D. With "ack" (`ecc.loops.ack_clocked_windows`) a
window is the flight size, q_l = sum of w(t - F_l) - C_l D_0 if one kind of flow fills one queue. ACKs arrive at the
total rate C_l, and at the rate x for a flow. They move its window by [source_law(w) - w] x/w.

If phases are given, disciplines with the clock "interval" step at ticks, z <- law(z), with their measurements: q, q at
the previous tick, and the mean of y in between. They hold z until the next tick (`ecc.linear.sample_and_hold`).
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
from ecc.laws.arguments import arguments_except, arguments_from, takes, value_of
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
_ROUNDING = 1e-10  # relative accuracy of an equilibrium
_STEPS, _NEWTON = 500, 20  # steps on the path to the equilibrium; Newton steps from a point of it
_SWEEPS, _HALVINGS, _MAX_VALUE = 3, 60, 1e9  # limits of the search for a start
_NEWTON_STEPS, _EULER_STEPS, _COARSE = 4, 12, 1e-6  # steps that settle host states; relative width of a bracket then
_LARGE_CUT = 0.25  # share of the equilibrium queue: a larger window reduction gets a note
_PIECES = 4  # minimum number of polynomial pieces of windows and queues in the shortest RTT


class _Signal:
    """A varying number: its value at the equilibrium, and its derivatives with respect to present and past states."""

    __slots__ = ("slopes", "value")

    def __init__(self, value: float, slopes: _Slopes) -> None:
        self.value, self.slopes = value, slopes

    def _with(self, value: float, scale: float, other: Any = 0.0, factor: float = 0.0) -> _Signal:
        slopes = {key: scale * slope for key, slope in self.slopes.items()}
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


def _delayed(number: Any, delay: float) -> Any:
    """Return the value of the number `delay` seconds ago."""
    if not isinstance(number, _Signal):
        return number
    return _Signal(number.value, {(state, tau + delay, n): a for (state, tau, n), a in number.slopes.items()})


def _derivative(number: Any) -> Any:
    """Return the time derivative of the number."""
    if not isinstance(number, _Signal):
        return 0.0
    return _Signal(0.0, {(state, tau, n + 1): a for (state, tau, n), a in number.slopes.items()})


def _mean(number: Any, span: float) -> Any:
    """Return the mean over the last `span` seconds; terms without an antiderivative among the states have order -1."""
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
    """Return the value of a law, with derivatives if some of its arguments are signals."""
    arguments = arguments_from(law, known)
    varying = [name for name, number in arguments.items() if isinstance(number, _Signal)]
    if not varying:
        return value_of(law, arguments)
    at = {name: _value(number) if name in varying else number for name, number in arguments.items()}
    result = _Signal(float(value_of(law, at)), {})
    for name, slope in gradient(law, at, varying).items():
        result = result._with(result.value, 1.0, arguments[name], slope)
    return result


@dataclass(frozen=True)
class _Kind:
    """Equal flows: indices, protocol, route; delays without queues [s], packets and bits per ACK [bit]."""

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
        """Return the law of the window right after a signal."""
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

    `windows` [bit] and `rates` [bit/s] by flow; `queues` [bit] and `probabilities`, the maximum over flows, by link;
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


def _held_from_tick(held: Any, queue: _Queue) -> Any:
    """Return the held value after this tick, which a negative delay marks (`ecc.linear.sample_and_hold`)."""
    return _delayed(held, -0.5 * queue.interval)


class _Loop:
    """The equations of the loop, on numbers or signals; states: w and h of each kind of flow, q and z of queues."""

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
        dropping = [
            [self._signal(self.queues[self.number[link]], kind) == "loss" for link in kind.route if link in self.number]
            for kind in self.kinds
        ]
        self.max_upstream_drops = max((sum(some[:-1]) for some in dropping), default=0)

    # ---- the equations -----------------------------------------------------------------------------------

    def _delays(self, z: Sequence[Any]) -> list[tuple[float, dict[int, float]]]:
        """Return D and F of each kind of flow, queues included."""
        delays = []
        for kind in self.kinds:
            waited, late = 0.0, {}
            for link, delay in zip(kind.route, kind.forward, strict=True):
                late[link] = delay + waited
                if link in self.number:
                    k = self.number[link]
                    waited += _value(z[self.at["queue", k, "q"]]) / self.queues[k].capacity
            delays.append((kind.rtt + waited, late))
        return delays

    def moves(
        self,
        z: Sequence[Any],
        clocking: str = "rate",
        open_loop: bool = False,
        seen: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> tuple[list[Any], list[list[Any]], list[dict[str, Any]]]:
        """Return derivatives of all states, probabilities of queues by kind, and q and y that disciplines sample.

        `open_loop`: hosts receive constant probabilities. `seen`: q and y that disciplines sampled at their last ticks;
        if given, the result has the next value of a state with the clock "interval" instead of a derivative.
        """
        delays = self._delays(z)
        q = [z[self.at["queue", k, "q"]] for k in range(len(self.queues))]
        waits = {queue.link: q[k] / queue.capacity for k, queue in enumerate(self.queues)}
        rtts, rates = [], []
        for g, (kind, (D, late)) in enumerate(zip(self.kinds, delays, strict=True)):
            rtt: Any = kind.rtt
            for link in kind.route:
                if link in waits:
                    rtt = rtt + _delayed(waits[link], D - late[link])
            rtts.append(rtt)
            rates.append(z[self.at["host", g, "w"]] / rtt)
        arrivals = [self._arrivals(k, rates, waits, delays) for k in range(len(self.queues))]
        if clocking == "ack":
            arrivals = [[queue.capacity + _derivative(q[k])] for k, queue in enumerate(self.queues)]
        chosen = [self._chosen(k, z, sum(arrivals[k]), seen) for k in range(len(self.queues))]
        for _ in range(self.max_upstream_drops):  # drops reduce the arrivals downstream
            arrivals = [self._arrivals(k, rates, waits, delays, chosen) for k in range(len(self.queues))]
            chosen = [self._chosen(k, z, sum(arrivals[k]), seen) for k in range(len(self.queues))]
        out: list[Any] = [0.0] * len(self.names)
        for k, queue in enumerate(self.queues):
            accepted = [
                y * (1.0 - P) if self._signal(queue, kind) == "loss" else y
                for y, P, kind in zip(arrivals[k], chosen[k], self.kinds, strict=True)
            ]
            out[self.at["queue", k, "q"]] = sum(accepted) - queue.capacity
            known = self._known(k, z, sum(arrivals[k]), seen)
            ticking = known | {name: _held_from_tick(signal, queue) for name, signal in (seen or {}).get(k, {}).items()}
            for name, state in queue.states.items():
                if state.law is None:
                    continue
                if seen is not None and state.clock == "interval":  # earlier states have stepped already
                    place = self.at["queue", k, name]
                    out[place], ticking[name] = _call(state.law, ticking), _held_from_tick(z[place], queue)
                    continue
                current, after = known[name], _call(state.law, known)
                rate = known["y"] if state.clock == "arrival" else 1.0 / queue.interval if queue.interval else 1.0
                moved = after if state.clock == "continuous" else (after - current) * rate
                out[self.at["queue", k, name]] = moved
        for g, kind in enumerate(self.kinds):
            D, late = delays[g]
            acked = _delayed(rates[g], D)
            for link in kind.route:  # growing queues spread ACKs out; ACKs that clock windows have a constant rate
                k = self.number.get(link, -1)
                if k >= 0 and isinstance(q[k], _Signal):
                    grows = out[self.at["queue", k, "q"]] / self.queues[k].capacity
                    acked = acked * (1.0 - _delayed(grows - _value(grows), D - late[link]))
            acked = _value(rates[g]) if clocking == "ack" else acked
            received = [[_value(P) for P in some] for some in chosen] if open_loop else chosen
            w = z[self.at["host", g, "w"]]
            turns = _value(rates[g]) / w if clocking == "ack" else 1.0 / rtts[g]  # windows acknowledged per second
            acked = self.kinds[g].s * turns if self.once else acked
            self._host(g, z, out, rtts[g], turns, acked, received, delays[g])
        saw = [{"q": q[k], "y": _mean(sum(arrivals[k]), queue.interval)} for k, queue in enumerate(self.queues)]
        return out, chosen, saw

    def _arrivals(
        self, k: int, rates: Sequence[Any], waits: Mapping[int, Any], delays: Any, chosen: Any = ()
    ) -> list[Any]:
        """Return the arrivals of each kind of flow at a queue, less drops upstream, and delayed by upstream waits."""
        queue, arrivals = self.queues[k], []
        for g, (kind, x, (_, late)) in enumerate(zip(self.kinds, rates, delays, strict=True)):
            if queue.link not in late:
                arrivals.append(0.0)
                continue
            y = _delayed(x, late[queue.link]) * (len(kind.flows) / queue.packet)
            for link in kind.route[: kind.route.index(queue.link)]:
                if link in waits:
                    ago, upstream = late[queue.link] - late[link], self.number[link]
                    y = y * (1.0 - _derivative(_delayed(waits[link], ago)))
                    if chosen and self._signal(self.queues[upstream], kind) == "loss":
                        y = y * (1.0 - _delayed(chosen[upstream][g], ago))
            arrivals.append(y)
        return arrivals

    def _known(self, k: int, z: Sequence[Any], y: Any, seen: Mapping[int, Mapping[str, Any]] | None) -> dict[str, Any]:
        queue = self.queues[k]
        q = z[self.at["queue", k, "q"]]
        before = _delayed(q, queue.interval) if seen is None else seen.get(k, {}).get("q", q)
        return {
            **{name: z[self.at["queue", k, name]] for name in queue.states},
            "q": q,
            "q_prev": before,
            "y": y,
            "C": queue.capacity,
            "T": queue.interval,
            "p": queue.p,
        }

    def _chosen(self, k: int, z: Sequence[Any], y: Any, seen: Mapping[int, Mapping[str, Any]] | None) -> list[Any]:
        """Return the probability at a queue for each kind of flow; 0 for flows on other routes."""
        queue, known = self.queues[k], self._known(k, z, y, seen)
        probabilities: dict[float, Any] = {}
        for kind in self.kinds:
            if kind.scalable not in probabilities:
                probabilities[kind.scalable] = _call(queue.law, known | {"scalable": kind.scalable})
        return [probabilities[kind.scalable] if queue.link in kind.route else 0.0 for kind in self.kinds]

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
        """Write the derivatives of the window and the states of a kind of flow into `out`."""
        kind, (D, late) = self.kinds[g], delays
        spared: dict[str, Any] = {"mark": 1.0, "loss": 1.0}
        for k, queue in enumerate(self.queues):
            if queue.link in late:
                signal = self._signal(queue, kind)
                spared[signal] = spared[signal] * (1.0 - _delayed(chosen[k][g], D - late[queue.link]))
        known = self._known_by_host(g, z, rtt, 1.0 - spared["mark"], delays)
        for name in ("w", *kind.states):
            current = known[name]
            state = kind.states.get(name)
            law = kind.protocol.source_law if state is None else state.law
            after = current if law is None else _call(law, known)
            moved = after if state is not None and state.clock == "continuous" else (after - current) * turns
            for signal, unsignaled in spared.items():
                jump = kind.jumps(signal) if state is None else state.jumps.get(signal)
                if jump is not None and not (isinstance(unsignaled, float) and unsignaled == 1.0):
                    moved = moved + acked * (1.0 - unsignaled) / kind.s * (_call(jump, known) - current)
            out[self.at["host", g, name]] = moved

    def _known_by_host(
        self, g: int, z: Sequence[Any], rtt: Any, marked: Any, delays: tuple[float, dict[int, float]]
    ) -> dict[str, Any]:
        """Return the arguments of the laws of a kind of flow."""
        kind = self.kinds[g]
        values = {name: z[self.at["host", g, name]] for name in ("w", *kind.states)}
        feedback = self._feedback(kind, z, delays) if _takes_feedback(kind.protocol, kind.states) else 0.0
        return {
            **values,
            "w_rtt": _delayed(values["w"], delays[0]),
            "R": feedback,
            "D": rtt,
            "s": kind.s,
            "a": kind.a,
            "marked": marked,
            "p": kind.p,
        }

    def largest_cut(self, z: NDArray[np.float64], active: Sequence[int]) -> tuple[float, float, str]:
        """Return the largest window reduction by one signal relative to a queue: reduction, queue [packets], host."""
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
        """Return the feedback of the protocol's routers on the queues that its packets meet, summed over the path."""
        total: Any = 0.0
        for link in kind.route:
            q: Any = 0.0
            if link in self.number:
                k = self.number[link]
                q = _delayed(z[self.at["queue", k, "q"]] * self.queues[k].packet, delays[0] - delays[1][link])
            known = {"q": q, "C": float(self.network.capacities[link]), "s": kind.s, "p": kind.p}
            total = total + _call(kind.protocol.router_law, known)
        return total

    # ---- the equilibrium ---------------------------------------------------------------------------------

    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the minimum, maximum, scale and first guess of all states."""
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
        """Return a start for the search: fair windows, and states and queues at which these windows are constant.

        The state of a queue is set so that windows are constant, with host states settled, and the queue so that its
        state is constant. Newton's method cannot start below the threshold of a law: its slope is 0 there.
        """
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
        """Return the windows, and states of queues that choose packets, that are at a limit: not an equilibrium."""
        chosen = self.moves(z.tolist())[1]
        choosing = [
            self.at["queue", k, name]
            for k, queue in enumerate(self.queues)
            for name in queue.states
            if max(map(float, chosen[k])) > 0.0
        ]
        places = [*(self.at["host", g, "w"] for g in range(len(self.kinds))), *choosing]
        return [place for place in places if not low[place] < z[place] < high[place]]

    def _settle_states(self, z: NDArray[np.float64], rows: Sequence[int], low: Any, high: Any) -> None:
        """Move some states to values at which they are constant, with all other states held.

        Newton's method is tried first, then implicit Euler steps of growing length.
        """
        places = list(rows)
        initial = z[places]
        shortest = min(kind.rtt for kind in self.kinds)
        for steps in (
            (np.full(_NEWTON_STEPS, 1e9 * shortest), shortest * np.logspace(-2.0, 9.0, _EULER_STEPS)) if places else ()
        ):
            z[places] = initial
            for dt in steps:
                G = np.array(self.moves(z.tolist())[0], float)[places]
                J = np.empty((len(places), len(places)))
                for column, place in enumerate(places):
                    shifted, h = z.copy(), 1e-7 * max(abs(z[place]), 1e-6)
                    shifted[place] += h if z[place] + h <= high[place] else -h
                    moved = np.array(self.moves(shifted.tolist())[0], float)[places]
                    J[:, column] = (moved - G) / (shifted[place] - z[place])
                before = z[places]
                z[places] = _step(before, G, J, float(dt), low[places], high[places])
                if dt >= 1e6 * shortest and np.all(np.abs(z[places] - before) <= 1e-9 * np.abs(z[places])):
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
        """Set a state by bisection to a value at which another state is constant; return whether there is such a value.

        States in `resting` are settled for each value.
        """

        def moved(value: float) -> float:
            z[place] = value
            self._settle_states(z, resting, lowest, highest)
            return float(self.moves(z.tolist())[0][row])

        initial, low, high = z.copy(), float(lowest[place]), float(highest[place])
        upper = min(high, low + 1.0)
        first, last = moved(low), moved(upper)
        while first * last >= 0.0 and upper < min(high, _MAX_VALUE):
            upper = min(high, 2.0 * upper)
            last = moved(upper)
        if first * last >= 0.0:
            z[:] = initial
            return False
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + upper)
            if resting and upper - low <= _COARSE * upper:
                break
            low, upper = (middle, upper) if moved(middle) * first > 0.0 else (low, middle)
        moved(upper)
        return True

    def settle(self) -> NDArray[np.float64]:
        """Return the equilibrium, by Newton's method from points on a trajectory of the loop without delays."""
        low, high, size, z = self._limits()

        def moving(z: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.array([float(moved) for moved in self.moves(z.tolist())[0]])

        def slopes(z: NDArray[np.float64], G: NDArray[np.float64]) -> NDArray[np.float64]:
            steps = np.where(z + 1e-7 * size > high, -1e-7, 1e-7) * np.maximum(np.abs(z), 1e-3 * size)
            return np.array([(moving(z + h) - G) / h.sum() for h in np.diag(steps)]).T

        def change(new: NDArray[np.float64], z: NDArray[np.float64]) -> float:
            return float(np.max(np.abs(new - z) / np.maximum(np.abs(z), 0.01 * size)))

        def converged(z: NDArray[np.float64]) -> NDArray[np.float64] | None:
            """Return the limit of Newton's method from z; None if it does not converge."""
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
        stuck = None  # candidate with a state at its limit
        for k in range(_STEPS):
            if k % 10 == 0 and (candidate := converged(z)) is not None:
                if np.all(candidate < high) and not self.at_limits(candidate, low, high):
                    return candidate
                stuck = candidate
            G = moving(z)
            new = _step(z, G, slopes(z, G), dt, low, high)
            far = change(new, z)
            dt = min(dt * min(max(0.3 / max(far, 1e-12), 0.3), 3.0), 1e9)
            z = z if far > 1.0 and dt > 1e-9 else new
        if stuck is not None:
            return stuck
        raise LinearizationError(
            "no equilibrium was found: even without delays, windows and queues of these laws do not settle"
        )


def _step(
    z: NDArray[np.float64],
    G: NDArray[np.float64],
    J: NDArray[np.float64],
    dt: float,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return z after an implicit Euler step of z' = G; states that would pass their limits are held there."""
    held = ((z <= low) & (G < 0.0)) | ((z >= high) & (G > 0.0))
    new = z
    for _ in z:
        matrix = np.eye(len(z)) / dt - J
        matrix[held] = np.eye(len(z))[held]
        try:
            limit = np.clip(new, low, high)
            new = np.where(held, limit, z + np.linalg.solve(matrix, np.where(held, limit - z, G)))
        except np.linalg.LinAlgError:
            return np.clip(z + 0.5 * dt * G, low, high)
        outside = ((new < low) | (new > high)) & ~held
        if not outside.any():
            break
        held |= outside
    return np.clip(new, low, high)


def _queues(deployed: Deployment, network: Network) -> list[_Queue]:
    """Return the links with a discipline that chooses packets by a law."""
    queues = []
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
                available = (*states, *_OF_QUEUES, *(("scalable",) if law_name == "probability_law" else ()))
                available = tuple(name for name in available if clocked or name not in ("q_prev", "T"))
                _check(law, available, f"{name} has no linear model: its {law_name}")
            for state_name, state in states.items():
                if state.clock == "rtt" or (state.clock == "interval" and not clocked):
                    raise ValueError(
                        f"{name} has no linear model: its state {state_name} has the clock {state.clock!r}, "
                        "but its queue has no such clock"
                    )
            interval = interval_of(router) if clocked else 0.0
            capacity = float(network.capacities[link]) / packet
            queues.append(_Queue(link, router, capacity, packet, p, states, "ecn" in router.gives, interval))
    return queues


def _kinds(deployed: Deployment, network: Network) -> list[_Kind]:
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, (flow, protocol) in enumerate(zip(network.flows, deployed.flows, strict=True)):
        delays = tuple(network.forward_delays[i, list(flow.route)].tolist())
        equal[protocol, flow.route, delays, float(network.rtts[i]), flow.mean_packet, flow.mean_acknowledged].append(i)
    kinds = []
    for (protocol, route, delays, rtt, packet, acknowledged), flows in equal.items():
        name, states = type(protocol).__name__, states_of(protocol)
        law = getattr(protocol, "source_law", None)
        if not takes(law, "w") or (protocol.loss_response_law is None and not takes(law, "marked")):
            raise ValueError(
                f"{name} has no linear model over queue disciplines: it has no source_law of a window w with a "
                "loss_response_law"
            )
        if protocol.memory_law is not None or protocol.decrease_law is not None:
            raise ValueError(f"{name} has no linear model over queue disciplines: its memory of losses is not a state")
        available = (*states, *_OF_HOSTS)
        responses = [protocol.loss_response_law, protocol.mark_response_law]
        jumps = [(f"state {n}", jump) for n, state in states.items() for jump in state.jumps.values()]
        laws = [("source_law", law), *(("response", law) for law in responses if law), *jumps]
        for law_name, function in [*laws, *((f"state {n}", its.law) for n, its in states.items() if its.law)]:
            _check(function, available, f"{name} has no linear model over queue disciplines: its {law_name}")
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
                    f"{name} has no linear model over queue disciplines: feedback must be summed over links, "
                    f"got combine = {protocol.combine!r}"
                )
        scalable = float(protocol.ecn_echo == "scalable")
        p = protocol.namespace()
        s, a = 8.0 * packet, 8.0 * acknowledged
        kinds.append(_Kind(tuple(flows), protocol, route, delays, rtt, s, a, p, states, scalable))
    return kinds


def _takes_feedback(protocol: Protocol, states: Mapping[str, State]) -> bool:
    """Return whether a law of a host, or a jump of its window or states, takes feedback of the protocol's routers."""
    laws = [protocol.source_law, protocol.loss_response_law, protocol.mark_response_law]
    for state in states.values():
        laws += [state.law, *state.jumps.values()]
    return any(takes(law, "R") for law in laws)


def _check(law: Any, available: Sequence[str], subject: str) -> None:
    if unknown := arguments_except(law, available):
        raise ValueError(f"{subject} takes {', '.join(unknown)}; available arguments: {', '.join(available)}")


def _settled(
    deployed: Deployment, network: Network, once: bool = False
) -> tuple[_Loop, NDArray[np.float64], list[int]]:
    """Return the loop, its equilibrium, and the queues that choose packets there."""
    loop = _Loop(deployed, network, once)
    if not loop.queues:
        raise ValueError("windows over links without a queue discipline have no linear model: their queues overflow")
    z = loop.settle()
    low, high, _, _ = loop._limits()
    _, chosen, _ = loop.moves(z.tolist())
    rates = [z[loop.at["host", g, "w"]] / D for g, (D, _) in enumerate(loop._delays(z.tolist()))]
    loads = np.zeros(network.n_links)
    for g, (kind, x) in enumerate(zip(loop.kinds, rates, strict=True)):
        w, limit = z[loop.at["host", g, "w"]] / 8.0, kind.protocol.receiver_window
        if limit and w > limit:
            raise LinearizationError(
                f"no equilibrium: windows of {type(kind.protocol).__name__} would be {w:.6g} bytes, more than its "
                f"receiver_window of {limit:g} bytes"
            )
        loads[list(kind.route)] += x * len(kind.flows)
    for link, load in enumerate(loads):
        if link not in loop.number and load > network.capacities[link] * (1.0 + 1e-9):
            raise LinearizationError(f"no equilibrium: link {link} has no queue discipline and would overflow")
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
        at_link = f" at link {loop.queues[number].link}" if part == "queue" else ""
        owner = (loop.kinds if part == "host" else loop.queues)[number].protocol
        raise LinearizationError(
            f"no equilibrium: {name} of {type(owner).__name__}{at_link} stays at its limit {z[place]:g}, with windows "
            f"of {min(z[loop.at['host', g, 'w']] / kind.s for g, kind in enumerate(loop.kinds)):.3g} packets"
        )
    if not active:
        raise LinearizationError("no equilibrium: no link would mark or drop, so windows grow without end")
    return loop, z, active


def equilibrium_of_marks(deployed: Deployment, network: Network, once: bool = False) -> MarkingEquilibrium:
    """Return the equilibrium of hosts over queue disciplines, from their laws.

    Parameters
    ----------
    deployed : Deployment
        Protocols of flows and links (`ProtocolAssignment.deploy`).
    network : Network
    once : bool, optional
        Hosts respond once per RTT, in which either all packets or no packets are chosen (step marking), instead of to
        each chosen packet.

    Raises
    ------
    LinearizationError
        If no equilibrium exists.
    ValueError
        If a law takes arguments that are not available, or a protocol has no linear model.
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
    """Return the linear model; its states are w [bit] and states of hosts, then q [packets] and states of queues.

    Parameters
    ----------
    deployed : Deployment
        Protocols of flows and links (`ProtocolAssignment.deploy`).
    network : Network
    clocking : str
        "ack" or "rate".
    once : bool, optional
        Same option as that of `equilibrium_of_marks`.
    phases : ndarray of float, optional
        Shape (n_links,), in [0, 1): disciplines step at ticks (`ecc.linear.sample_and_hold`), the first of them this
        part of an interval after the start, for example 0.5. None: disciplines act continuously.

    Raises
    ------
    LinearizationError
        If no equilibrium exists, a law switches at it, or clocking is "ack" and flows are heterogeneous or there are
        several queues.
    ValueError
        If a law takes arguments that are not available, or phases are given and no discipline has a clock.
    """
    loop, z, active = _settled(deployed, network, once)
    fixed = {place for place, (part, k, _) in enumerate(loop.names) if part == "queue" and k not in active}
    fixed |= {loop.at["queue", k, "q"] for k in active if z[loop.at["queue", k, "q"]] <= 0.0}  # empty queues stay empty
    signals: list[Any] = [
        float(value) if place in fixed else _Signal(float(value), {(place, 0.0, 0): 1.0})
        for place, value in enumerate(z)
    ]
    if clocking == "ack":
        place = _clock(loop, z, active)
        (kind,), (k,) = loop.kinds, active
        late = loop._delays(z.tolist())[0][1][loop.queues[k].link]
        slope = len(kind.flows) / loop.queues[k].packet
        signals[place] = _Signal(float(z[place]), {(loop.at["host", 0, "w"], late, 0): slope})
        fixed.add(place)
    rows = [place for place in range(len(z)) if place not in fixed]
    held = None if phases is None else _Held.of(loop, z, active, phases)
    seen = None if held is None else held.seen
    moved, chosen, saw = loop.moves(signals, clocking, seen=seen)
    open_loop, *_ = loop.moves(signals, clocking, open_loop=True, seen=seen)
    differences = [difference for g in range(len(loop.kinds)) for difference in _differences(loop, g, z)]
    notes = _notes(loop, z, active, chosen, spread=held is None)
    if differences:
        notes = (*notes, "differences between flows of one link grow, whether or not their sum does")
    at_once = moved if held is None else loop.moves(signals, clocking)[0]
    static = _system([(at_once, rows)]).matrices.sum(axis=0)
    for axis in (1, 0):
        static = static / np.maximum(np.abs(static).max(axis=axis, keepdims=True), 1e-300)
    if np.linalg.svd(static, compute_uv=False)[-1] < _ROUNDING:
        raise LinearizationError("no single equilibrium: these laws have a line of equilibria, or a larger set")
    if held is not None:
        return held.system(saw, moved, open_loop, rows, differences, notes)
    opened = _system([(open_loop, rows), *differences])
    return _system([(moved, rows), *differences], opened, notes)


@dataclass(frozen=True)
class _Held:
    """Values that disciplines sample at ticks, which are the last states of the model; clocks of all held values."""

    seen: Mapping[int, Mapping[str, Any]]
    clocks: Mapping[int, Clock]
    longest: float

    @classmethod
    def of(cls, loop: _Loop, z: NDArray[np.float64], active: Sequence[int], phases: NDArray[np.float64]) -> _Held:
        """Return the sampled values and clocks of a loop."""
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
            raise ValueError(f"{names} has no control interval: time must be 'continuous'")
        longest = min(D for D, _ in loop._delays(z.tolist())) / _PIECES
        return cls(seen, clocks | holding, longest)  # sampled values precede held states

    def system(
        self,
        saw: Sequence[Mapping[str, Any]],
        moved: Sequence[Any],
        open_loop: Sequence[Any],
        rows: Sequence[int],
        differences: Sequence[tuple[list[Any], list[int]]],
        notes: Sequence[str],
    ) -> SampledSystem:
        """Return the recurrence over frames; `saw`: sampled values as functions of the states of the loop."""
        used = {state for place in rows for state, _, _ in moved[place].slopes}
        sampled = {
            place: saw[k][name]
            for k, signals in self.seen.items()
            for name, signal in signals.items()
            for place, _, _ in signal.slopes
            if place in used and isinstance(saw[k][name], _Signal)
        }
        terms = []
        for part in (moved, open_loop):
            equations = {place: part[place] for place in rows} | sampled
            terms.append(_terms([(equations, [*rows, *sampled]), *differences]))
        column = {place: number for number, place in enumerate([*rows, *sampled])}
        clocks = {column[place]: clock for place, clock in self.clocks.items() if place in column}
        size = len(column) + sum(len(rows) for _, rows in differences)
        grid = SampleAndHold(size, clocks, terms[0], self.longest)
        return grid.recurrence(terms[0], opened=grid.recurrence(terms[1]), notes=notes)


def _differences(loop: _Loop, g: int, z: NDArray[np.float64]) -> list[tuple[list[Any], list[int]]]:
    """Return the equations of the difference between two equal flows, unless it decays; queues do not depend on it.

    The queue and the RTT are constant, and each flow has a fixed share of the ACKs for either clocking of their sum.
    """
    if len(loop.kinds[g].flows) < 2:
        return []
    rows = [place for place, (part, number, _) in enumerate(loop.names) if (part, number) == ("host", g)]
    alone: list[Any] = [
        _Signal(float(value), {(place, 0.0, 0): 1.0}) if place in rows else float(value)
        for place, value in enumerate(z)
    ]
    moved, *_ = loop.moves(alone, open_loop=True)
    return [] if _system([(moved, rows)]).verdict == "stable" else [(moved, rows)]


def _clock(loop: _Loop, z: NDArray[np.float64], active: Sequence[int]) -> int:
    """Return the place of the queue, if it is the only queue and its ACKs clock the only kind of flow."""
    queues = [k for k in range(len(loop.queues)) if z[loop.at["queue", k, "q"]] > 0.0]
    if len(loop.kinds) != 1 or len(active) != 1 or queues != list(active):
        raise LinearizationError(
            "windows have a self-clocked linear model over queue disciplines only if one kind of flow fills one queue, "
            f"got {len(loop.kinds)} kinds and {len(queues)} queues: use clocking='rate'"
        )
    return loop.at["queue", active[0], "q"]


def _terms(parts: Sequence[tuple[Any, Sequence[int]]]) -> list[Term]:
    """Return the coefficients of some rows of equations; each part has separate states."""
    terms, first = [], 0
    for moved, rows in parts:
        column = {place: first + number for number, place in enumerate(rows)}
        for place in rows:
            for (state, delay, order), slope in moved[place].slopes.items():
                if state in column:
                    terms.append(Term(column[place], column[state], delay, order, slope))
        first += len(rows)
    return terms


def _system(
    parts: Sequence[tuple[Any, Sequence[int]]], opened: DelaySystem | None = None, notes: Sequence[str] = ()
) -> DelaySystem:
    """Return the linear system of some rows of equations; each part has separate states."""
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
    """Return the caveats of the model."""
    notes = []
    stepping = {queue.interval for queue in (loop.queues[k] for k in active) if queue.interval}
    if stepping and spread:
        every = ", ".join(f"{1e3 * T:.4g} ms" for T in sorted(stepping))
        notes.append(f"steps of disciplines, every {every}, are spread evenly over their intervals in this model")
    max_signals = 0.0
    for g, kind in enumerate(loop.kinds):
        spared = np.prod([1.0 - _value(chosen[k][g]) for k in active])
        max_signals = max(max_signals, float(z[loop.at["host", g, "w"]] / kind.s * (1.0 - spared)))
    notes.append(
        f"marks and losses are a rate in this model, at most {max_signals:.2g} per RTT of a flow, with a response to "
        "each; real hosts respond once per RTT and independently, and packets may lose stability at smaller gains"
    )
    cut, queue, name = loop.largest_cut(z, active)
    if cut > _LARGE_CUT * queue:
        notes.append(
            f"one mark or loss takes {cut:.3g} packets from a window of {name}, and the queue at the equilibrium holds "
            f"{queue:.3g}: such steps are not small, and packets may leave the equilibrium well below a stability "
            "limit of this model"
        )
    return tuple(notes)
