"""Windows between one overflow and the next: growth by the laws of hosts, losses, and the responses to them.

Equal flows form a group, and each group has a window w, states v and a remembered value m. A group of n flows with the
propagation RTT d and the data W in the network fills a queue q of a link with the capacity C so that

    sum n W/(d + q/C) = C            if that gives q > 0;   D = d + q/C is the RTT
    w' = [source_law(w, m, v, R, D) - w]/D,   v' = [law - v]/D or law                 `Continuous`
    w <- source_law(w, m, v, R, D),           v <- law, or v + D law, after D         `PerRound`: equal RTTs

R and D of a law are those of the data acknowledged now; D is the present RTT if no law takes R. At q = `room` the
buffer is full, and the growth of the windows is dropped. A flow has lost a packet once half a packet of its data is
dropped, and responds an RTT later: w, m and v jump by `loss_response_law`, `memory_law` and the jumps of the states.
The flow sends nothing until its data in flight fit w, and w is held for the RTT of its recovery, in which further
losses have no effect. Drops that do not add up to half a packet count at the next overflow. If `marks` is set, `room`
is a threshold above which all packets are marked, and flows respond an RTT later by `mark_response_law`, or else
`loss_response_law`. These are the rules of `ecc.fluid.network`.

The choice `losers` decides which flows the drops fall on: "arrivals" (each flow in proportion to its rate), "growth"
(each flow loses the growth of its window: a full queue that ACKs clock has room for a packet whenever one leaves, but
not for the packet by which a window grows), or "largest" (the flow with the largest window).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from ecc.contract.protocol import Protocol
from ecc.contract.states import State
from ecc.contract.values import simultaneous_states, states_of
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.arguments import arguments_except, call_law, takes

__all__ = ["LOSERS", "Continuous", "Group", "Host", "Motion", "PerRound"]

LOSERS = ("arrivals", "growth", "largest")
LOSS_SIZE = 0.5  # packets: dropped data that count as a lost packet, as in `ecc.fluid.network`
_STEP = 0.125  # step of the integration, in shortest RTTs
_MAX_STEPS = 100_000
_HALVINGS = 60
_SUPPLIED = ("w", "m", "R", "D", "s", "a", "p", "T")


class Law(NamedTuple):
    """A law with the names of its arguments."""

    law: Callable[..., float]
    names: tuple[str, ...]

    def __call__(self, known: Mapping[str, Any]) -> float:
        return self.law(*[known[name] for name in self.names])


class Host:
    """The laws of a protocol, for flows with packets of one size [bit].

    Parameters
    ----------
    protocol : Protocol
        Protocol with a source law of windows and a loss response law.
    packet, acknowledged : float, bit
        Packet, and data that an ACK acknowledges.
    marks : bool
        Whether hosts respond to marks, by their `mark_response_law` if they have one.

    Raises
    ------
    LinearizationError
        A law takes another argument, for example the share of marked data, or windows decrease by feedback.
    """

    def __init__(self, protocol: Protocol, packet: float, acknowledged: float, marks: bool = False) -> None:
        if protocol.decrease_law is not None:
            raise LinearizationError("its windows also decrease by feedback (decrease_law)")
        self.states: Mapping[str, State] = states_of(protocol)
        self.simultaneous = simultaneous_states(protocol)
        self.constants: dict[str, Any] = {"s": packet, "a": acknowledged, "p": protocol.namespace()}
        self.constants["T"] = float(protocol.params().get("interval", 0.0))
        self.source = self._law(protocol.source_law)
        response = (protocol.mark_response_law if marks else None) or protocol.loss_response_law
        if response is None:
            raise LinearizationError("its windows do not respond to losses (no loss_response_law)")
        self.response = self._law(response)
        self.memory = None if protocol.memory_law is None else self._law(protocol.memory_law)
        self.moves = {name: self._law(state.law) for name, state in self.states.items() if state.law is not None}
        signal = "mark" if marks else "loss"
        self.jumps = {
            name: self._law(state.jumps[signal]) for name, state in self.states.items() if signal in state.jumps
        }
        laws = (self.source, *self.moves.values())
        self.is_late = any(takes(law.law, "R") for law in laws)
        self._feedback = self._router_law(protocol) if self.is_late else None

    def _law(self, law: Callable[..., float]) -> Law:
        if unknown := arguments_except(law, (*_SUPPLIED, *self.states)):
            raise LinearizationError(f"a law takes {unknown[0]}, which is no window, state or delay")
        return Law(law, tuple(arguments_except(law, ())))

    def _router_law(self, protocol: Protocol) -> Callable[..., float]:
        if arguments_except(protocol.router_law, ("q", "C", "s", "p", "T")):
            raise LinearizationError("its router_law takes more than the queue and the capacity")
        return protocol.router_law

    def feedback(self, queue: float, capacity: float) -> float:
        """Return R for data that met a queue [bit] at a link of this capacity [bit/s]."""
        if self._feedback is None:
            return 0.0
        report: float = call_law(self._feedback, {"q": queue, "C": capacity, **self.constants})
        return report

    def slopes(self, y: list[float], memory: float, R: float, D: float, held: bool, rtt: float) -> list[float]:
        """Return the derivatives of the window and the states; `rtt` is the time in which a window is acknowledged."""
        known = self.known(y, memory, R, D)
        slopes = [0.0 if held else (self.source(known) - y[0]) / rtt]
        for k, (name, state) in enumerate(self.states.items(), 1):
            law = self.moves.get(name)
            if law is None or (held and name in self.simultaneous):
                slopes.append(0.0)
            elif state.clock == "continuous":
                slopes.append(law(known))
            else:
                slopes.append((law(known) - y[k]) / (rtt if state.clock == "rtt" else self.constants["T"]))
        return slopes

    def moved(self, y: list[float], memory: float, R: float, D: float, held: bool) -> list[float]:
        """Return the states after a round, and the window before it; `held`: whether the window is held."""
        known = self.known(y, memory, R, D)
        moved = [y[0]]
        for k, (name, state) in enumerate(self.states.items(), 1):
            value, law = y[k], self.moves.get(name)
            if held and name in self.simultaneous:
                law = None
            if law is not None and state.clock == "rtt":
                value = law(known)
            elif law is not None:
                value += D * (law(known) if state.clock == "continuous" else (law(known) - value) / self.constants["T"])
            known[name] = min(max(value, state.lowest), state.highest)
            moved.append(known[name])
        return moved

    def grown(self, y: list[float], moved: list[float], memory: float, R: float, D: float) -> float:
        """Return the window after a round, from the states after it and simultaneous ones before it."""
        before = self.known(y, memory, R, D)
        return self.source({**self.known(moved, memory, R, D), **{name: before[name] for name in self.simultaneous}})

    def limited(self, y: list[float]) -> list[float]:
        """Return the window and the states, the states within their limits."""
        for k, state in enumerate(self.states.values(), 1):
            y[k] = min(max(y[k], state.lowest), state.highest)
        return y

    def reduced(self, y: list[float], memory: float, R: float, D: float) -> tuple[list[float], float]:
        """Return the window, the states and the remembered value right after a loss or mark."""
        known = self.known(y, memory, R, D)
        after = [self.response(known)]
        for k, name in enumerate(self.states, 1):
            jump = self.jumps.get(name)
            after.append(y[k] if jump is None else jump(known))
        return after, memory if self.memory is None else self.memory(known)

    def known(self, y: list[float], memory: float, R: float, D: float) -> dict[str, Any]:
        """Return the values of all arguments that a law may take."""
        return {**self.constants, "w": y[0], "m": memory, "R": R, "D": D, **dict(zip(self.states, y[1:], strict=True))}


class Group(NamedTuple):
    """Equal flows: their host, number and propagation RTT [s]."""

    host: Host
    members: float
    rtt: float


@dataclass
class Motion:
    """The state of all groups at a time, in bits and seconds; each list has an entry for each group."""

    t: float
    y: list[list[float]]  # window, and the states of the host
    memory: list[float]
    dropped: list[float]  # data dropped since the flow's last recovery
    due: list[float]  # time of the response to a loss; inf: no loss
    until: list[float]  # end of the recovery
    flight: list[
        tuple[float, float, float, float]
    ]  # at the last response: window before, time, RTT, data lost unnoticed
    past: list[tuple[float, float]] = field(default_factory=list)  # times and queues of the last RTTs
    losses: list[int] = field(default_factory=list)  # responses so far

    @classmethod
    def of(cls, windows: list[list[float]], memory: list[float]) -> Motion:
        """Return a motion at time 0 without losses; `windows` has the windows and the states."""
        n = len(windows)
        return cls(
            0.0,
            [list(y) for y in windows],
            list(memory),
            [0.0] * n,
            [inf] * n,
            [-inf] * n,
            [(0.0, -inf, 1.0, 0.0)] * n,
            [],
            [0] * n,
        )

    def copy(self) -> Motion:
        """Return a copy that shares no list."""
        return Motion(
            self.t,
            [list(y) for y in self.y],
            list(self.memory),
            list(self.dropped),
            list(self.due),
            list(self.until),
            list(self.flight),
            list(self.past),
            list(self.losses),
        )

    @property
    def is_quiet(self) -> bool:
        """Whether no flow recovers from a loss or will respond to one."""
        return all(due == inf for due in self.due) and all(until <= self.t for until in self.until)


Watch = Callable[[float, float, list[float], float], None]
"""Called with the time [s], the queue [bit], the windows [bit] and the used share of the capacity after each step."""


@dataclass(frozen=True)
class _Link:
    """A link and the groups that share it.

    `room` [bit]: the buffer, or with `marks` a threshold above which hosts get a signal. `patience` [s]: with `marks`,
    the time for which the queue has to stay above the threshold before a single signal.
    """

    capacity: float
    room: float
    groups: tuple[Group, ...]
    marks: bool = False
    losers: str = "arrivals"
    patience: float = 0.0

    def queue(self, in_flight: list[float]) -> float:
        """Return the queue [bit] if windows had no limit."""
        C, groups = self.capacity, self.groups
        shortest = min(group.rtt for group in groups)
        total = sum(group.members * w for group, w in zip(groups, in_flight, strict=True))
        if all(group.rtt == shortest for group in groups):
            return max(0.0, total - C * shortest)
        q = 0.0
        for _ in range(_HALVINGS):  # Newton's method on a convex, decreasing function, from the left
            excess, slope = -C, 0.0
            for group, w in zip(groups, in_flight, strict=True):
                D = group.rtt + q / C
                excess += group.members * w / D
                slope += group.members * w / (D * D * C)
            step = excess / slope
            q = max(0.0, q + step)
            if step <= 1e-13 * total:
                break
        return q

    def used(self, in_flight: list[float]) -> float:
        """Return the share of the capacity that is used."""
        rate = sum(group.members * w / group.rtt for group, w in zip(self.groups, in_flight, strict=True))
        return min(rate / self.capacity, 1.0)

    def shares(self, growth: list[float], rates: list[float], windows: list[float]) -> list[float]:
        """Return the data that a flow of each group loses if all growth of all windows is dropped."""
        members = [group.members for group in self.groups]
        total = sum(n * more for n, more in zip(members, growth, strict=True))
        if self.losers == "growth":
            return growth
        if self.losers == "arrivals":
            arrivals = sum(n * x for n, x in zip(members, rates, strict=True))
            return [total * x / arrivals for x in rates]
        largest = windows.index(max(windows))
        return [total / n if g == largest else 0.0 for g, n in enumerate(members)]


@dataclass(frozen=True)
class Continuous(_Link):
    """Windows that grow at each ACK: the fluid of `ecc.fluid.network`, with rates w/D."""

    def until_overflow(self, motion: Motion, watch: Watch | None = None) -> Motion:
        """Return the state at the next begin of an overflow after flows have responded to this one and recovered."""
        now = motion.copy()
        start = list(now.losses)
        is_full = False
        late = any(group.host.is_late for group in self.groups)
        if not now.past:
            self.remember(now, late)
        for _ in range(_MAX_STEPS):
            in_flight = self.in_flight(now, now.t, now.y)
            q = self.queue(in_flight)
            if watch is not None:
                queue = q if self.marks else min(q, self.room)
                watch(now.t, queue, [y[0] for y in now.y], self.used(in_flight))
            if is_full and q < self.room * (1.0 - 1e-12):
                is_full = False
            if not is_full and q >= self.room * (1.0 - 1e-12):
                if now.losses != start and now.is_quiet:
                    return now
                is_full = True
            if is_full and self.marks:
                self._mark(now, start)
            self._step(now, is_full, late)
        raise ConvergenceError(f"the queue did not fill again within {_MAX_STEPS} steps of the windows", None)

    def in_flight(self, motion: Motion, t: float, y: list[list[float]]) -> list[float]:
        """Return the data of a flow of each group in the network.

        This is its window, or more until a reduced window fits, without the lost data that the host still counts.
        """
        return [
            max(values[0], before * (1.0 - (t - since) / D)) - lost * (1.0 - (t - since) / D)
            if t - since < D
            else values[0]
            for values, (before, since, D, lost) in zip(y, motion.flight, strict=True)
        ]

    def remember(self, now: Motion, late: bool) -> None:
        """Keep the present queue, if a law takes feedback of the past."""
        if late:
            q = min(self.queue(self.in_flight(now, now.t, now.y)), inf if self.marks else self.room)
            now.past.append((now.t, q))

    def _met(self, now: Motion, t: float, group: Group) -> float:
        """Return the queue that the data acknowledged at a time t met, which was sent about an RTT before."""
        past, C = now.past, self.capacity
        after = past[-1]
        for k in range(len(past) - 1, -1, -1):
            u, q = past[k]
            if u + group.rtt + q / C <= t:
                u_after, q_after = after
                begin, end = u + q / C, u_after + q_after / C
                share = (t - group.rtt - begin) / (end - begin) if end > begin else 0.0
                return q + min(share, 1.0) * (q_after - q)
            after = past[k]
        return past[0][1]

    def _slopes(self, now: Motion, t: float, y: list[list[float]], late: bool) -> list[list[float]]:
        q = min(self.queue(self.in_flight(now, t, y)), inf if self.marks else self.room)
        slopes = []
        for g, group in enumerate(self.groups):
            rtt = group.rtt + q / self.capacity
            met = self._met(now, t, group) if late else q
            R, D = group.host.feedback(met, self.capacity), group.rtt + met / self.capacity
            slopes.append(group.host.slopes(y[g], now.memory[g], R, D, now.until[g] > now.t, rtt))
        return slopes

    def moved(self, now: Motion, h: float, late: bool) -> list[list[float]]:
        """Return windows and states after a step by the midpoint rule.

        Laws jump at the end of a recovery, where a step ends; the rule takes slopes from inside the step.
        """

        def after(slopes: list[list[float]], step: float) -> list[list[float]]:
            return [
                [value + step * slope for value, slope in zip(values, by, strict=True)]
                for values, by in zip(now.y, slopes, strict=True)
            ]

        half = after(self._slopes(now, now.t, now.y, late), 0.5 * h)
        moved = after(self._slopes(now, now.t + 0.5 * h, half, late), h)
        return [group.host.limited(values) for group, values in zip(self.groups, moved, strict=True)]

    def _step(self, now: Motion, is_full: bool, late: bool) -> None:
        """Take a step up to the next event: the end of a recovery, a response, or the begin of an overflow."""
        shortest = min(group.rtt for group in self.groups)
        h = _STEP * (shortest + self.room / self.capacity)
        events = [time for time in (*now.due, *now.until) if now.t < time < inf]
        h = min([h, *(time - now.t for time in events)])
        y = self.moved(now, h, late)
        if not is_full and self._excess(now, now.t + h, y) > 0.0:
            h, y = self._crossing(now, h, late)
        ends = min(events, default=inf)
        t = ends if now.t + h >= ends - 1e-12 * max(1.0, now.t) else now.t + h
        if is_full and not self.marks:
            self._drop(now, y, h)
        now.t, now.y = t, y
        for g in range(len(self.groups)):
            if now.due[g] <= t:
                self.respond(now, g, self.room)
        self.remember(now, late)
        oldest = now.t - 2.0 * (max(group.rtt for group in self.groups) + self.room / self.capacity)
        while len(now.past) > 1 and now.past[0][0] < oldest:
            del now.past[0]

    def _excess(self, now: Motion, t: float, y: list[list[float]]) -> float:
        return self.queue(self.in_flight(now, t, y)) - self.room

    def _crossing(self, now: Motion, h: float, late: bool) -> tuple[float, list[list[float]]]:
        """Return the step at whose end the queue fills `room`, with the windows and states then."""
        low, high = 0.0, h
        low_excess, high_excess = (
            self._excess(now, now.t, now.y),
            self._excess(now, now.t + h, self.moved(now, h, late)),
        )
        y = now.y
        for _ in range(_HALVINGS):  # secants within the bracket, with the Illinois rule
            h = (low * high_excess - high * low_excess) / (high_excess - low_excess)
            y = self.moved(now, h, late)
            excess = self._excess(now, now.t + h, y)
            if abs(excess) <= 1e-13 * (self.room + self.capacity * self.groups[0].rtt) or high - low <= 1e-15 * now.t:
                break
            if excess > 0.0:
                high, high_excess, low_excess = h, excess, 0.5 * low_excess
            else:
                low, low_excess, high_excess = h, excess, 0.5 * high_excess
        return h, y

    def _drop(self, now: Motion, y: list[list[float]], h: float) -> None:
        """Drop the growth of windows in a step at a full queue; a flow that loses half a packet will respond."""
        growth = [
            max(0.0, after[0] - before[0]) if now.until[g] <= now.t else 0.0
            for g, (before, after) in enumerate(zip(now.y, y, strict=True))
        ]
        windows = [before[0] for before in now.y]
        delays = [group.rtt + self.room / self.capacity for group in self.groups]
        lost = self.shares(growth, [w / D for w, D in zip(windows, delays, strict=True)], windows)
        for g, group in enumerate(self.groups):
            if now.until[g] > now.t or lost[g] <= 0.0:
                continue
            before, limit = now.dropped[g], LOSS_SIZE * group.host.constants["s"]
            now.dropped[g] += lost[g]
            if now.due[g] == inf and now.dropped[g] >= limit:
                share = min(1.0, max(0.0, limit - before) / lost[g])
                now.due[g] = now.t + share * h + delays[g]

    def _mark(self, now: Motion, start: list[int]) -> None:
        """Let each flow respond to marks on the data that it sends now, unless it waits or will respond anyway.

        `start` has the losses before this overflow.
        """
        for g, group in enumerate(self.groups):
            before, since, D, _ = now.flight[g]
            waits = before * (1.0 - (now.t - since) / D) > now.y[g][0] * (1.0 + 1e-9)
            if now.due[g] == inf and not waits:
                if self.patience > 0.0 and now.losses != start:
                    raise LinearizationError("a single reduction does not bring the queue below the threshold")
                D = group.rtt + self.room / self.capacity
                sent = now.t + LOSS_SIZE * group.host.constants["s"] * D / now.y[g][0]
                now.due[g] = max(sent + self.patience + D, now.until[g])

    def respond(self, now: Motion, g: int, queue: float) -> None:
        """Reduce the window of a flow of group g, whose data met a queue [bit]."""
        group = self.groups[g]
        D = group.rtt + queue / self.capacity
        lost = max(0.0, now.dropped[g] - LOSS_SIZE * group.host.constants["s"])
        R = group.host.feedback(queue, self.capacity)
        now.flight[g] = now.y[g][0], now.t, D, lost
        now.y[g], now.memory[g] = group.host.reduced(now.y[g], now.memory[g], R, D)
        now.dropped[g], now.due[g], now.until[g] = 0.0, inf, now.t + D
        now.losses[g] += 1


@dataclass(frozen=True)
class PerRound(_Link):
    """Windows that change once per RTT, all at the same time: groups have equal RTTs."""

    def until_overflow(self, motion: Motion, watch: Watch | None = None) -> Motion:
        """Return the state at the next round in which flows respond, after all have recovered."""
        now = motion.copy()
        start = list(now.losses)
        for _ in range(_MAX_STEPS):
            if now.losses != start and any(due <= now.t for due in now.due) and all(u <= now.t for u in now.until):
                return now
            self.advance(now, watch)
        raise ConvergenceError(f"the queue did not fill again within {_MAX_STEPS} rounds", None)

    def advance(self, now: Motion, watch: Watch | None = None) -> None:
        """Move by a round."""
        C, base = self.capacity, self.groups[0].rtt
        for g in range(len(self.groups)):
            if now.due[g] <= now.t:
                self._respond(now, g)
            elif now.until[g] > now.t:
                now.dropped[g] = 0.0
        windows = [y[0] for y in now.y]
        unlimited = self.queue(windows)
        q = unlimited if self.marks else min(unlimited, self.room)
        if watch is not None:
            watch(now.t, q, windows, self.used(windows))
        D = base + q / C
        self._lose(now, unlimited, D)
        for g, group in enumerate(self.groups):
            R = group.host.feedback(q, C)
            held = not (now.until[g] <= now.t + 0.5 * D and now.due[g] == inf)
            y = group.host.moved(now.y[g], now.memory[g], R, D, held)
            if not held:
                grown = group.host.grown(now.y[g], y, now.memory[g], R, D)
                now.flight[g] = (max(0.0, grown - y[0]), now.t, D, 0.0)
                y[0] = grown
            now.y[g] = y
        now.t += D
        for g in range(len(self.groups)):
            if now.until[g] != -inf and now.until[g] > now.t - 0.5 * D:
                now.until[g] = now.t
            if now.due[g] < inf:
                now.due[g] = now.t

    def _lose(self, now: Motion, unlimited: float, D: float) -> None:
        """Drop the queue above `room` from the last growth of the windows, or mark; a flow responds a round later."""
        excess = unlimited - self.room
        growth = [more for more, *_ in now.flight]
        total = sum(group.members * more for group, more in zip(self.groups, growth, strict=True))
        if excess <= 0.0 or (total <= 0.0 and not self.marks):
            return
        windows = [y[0] for y in now.y]
        lost = self.shares([more * excess / total for more in growth] if total > 0.0 else growth, windows, windows)
        for g, group in enumerate(self.groups):
            if now.until[g] > now.t:
                continue
            now.dropped[g] += 0.0 if self.marks else lost[g]
            if self.marks or now.dropped[g] >= LOSS_SIZE * group.host.constants["s"]:
                now.due[g] = now.t + D

    def _respond(self, now: Motion, g: int) -> None:
        group = self.groups[g]
        D = group.rtt + self.room / self.capacity
        R = group.host.feedback(self.room, self.capacity)
        now.y[g], now.memory[g] = group.host.reduced(now.y[g], now.memory[g], R, D)
        now.dropped[g], now.due[g], now.until[g] = 0.0, inf, inf
        now.flight[g] = (0.0, now.t, D, 0.0)
        now.losses[g] += 1
