"""Cycles of windows that follow the reports of a load: routers measure over intervals, and announce a level.

Flows with windows w_i and RTTs D_i share one link of capacity C. The router announces a level at its ticks, which are T
apart. In the time of the link (host i is its forward delay ahead), with W the sum of all windows:

    y = mean of sum w_i/D_i over the last T                  arrivals without a queue
    R = router_law(R, y, q_mean)                             state at a tick;  level = announce_law(R, y, C, T)
    w_i <- decrease_law(w_i, level, D_i, T, since)           if that is less: at once; since: time since the last one
    w_i' = [source_law(w_i, level, D_i, T, since) - w_i]/D_i       level as announced at t - D_i

Between two events (a tick, a report that arrives, the end of a wait of T or T + D after a decrease) each law is affine
in w, so windows are known in closed form, and so are the arrivals. A queue, W - C D for equal RTTs, delays reports and
makes RTTs longer; both are held between events. In rounds, host i acts once per D_i and holds its window in between.

As long as the levels of all ticks stay the same, windows after a cycle are an affine function of those before it. The
eigenvalues of its matrix are the multipliers. There is no multiplier of a shift in time, since the ticks are given.

VCP's additive increase (AI) is the same for any window, and its decrease (MD) multiplies windows by beta. All N
multipliers are therefore beta for each MD of the cycle, the sum included. If load were measured at every moment, the
sum would return dead beat, since MD would begin at the same sum. As routers measure it at ticks, the sum at MD differs
by a part of the growth in an interval. The numbers of intervals in the cycles then form a pattern whose period may be
many cycles long. So multipliers are given per cycle: the geometric mean over several.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, expm1, floor, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import sets_windows
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import AtRest, LimitCycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.arguments import arguments_except, call_law
from ecc.network.network import Network

__all__ = ["load_report_cycle"]

FloatArray = NDArray[np.float64]

_AFTER = 1e-9  # share of an interval after an event at which laws are evaluated
_SUPPLIED = ("R", "y", "q_mean", "C", "T", "p")  # arguments of routers' laws
_TICKS = 20_000  # maximum number of ticks
_EQUAL = 1e-9  # relative difference of windows that count as equal
_DEVIATION = 1e-7  # relative deviation of a window, for derivatives
_REST = 40  # intervals without a change after which windows rest
_TRANSIENT, _CYCLES = 30, 20  # cycles before those that are examined, and the number of these
_PHASE = 0.5  # phase of rounds at a tick, in rounds: hosts do not act at the same moment as routers
_STARTS = (0.75, 0.5, 1.0, 1.25)  # loads at the start, as shares of the capacity


@dataclass(frozen=True)
class _Loop:
    """Groups of equal flows on a link: capacity [bit/s], interval [s]; members, RTT [s] and packet [bit] of each."""

    protocol: Protocol
    capacity: float
    interval: float
    members: FloatArray
    rtt: FloatArray
    packet: FloatArray
    in_rounds: bool

    @cached_property
    def params(self) -> Any:
        """Parameters as laws take them."""
        return self.protocol.namespace()

    def rate(self, windows: FloatArray) -> float:
        """Rate at which windows are sent if there is no queue [bit/s]."""
        return float((self.members * windows / self.rtt).sum())

    def queue(self, windows: FloatArray) -> float:
        """Queue of flows with equal RTTs [bit]; 0 if the link is not full."""
        return max(self.rate(windows) - self.capacity, 0.0) * float(self.rtt[0])

    def at_host(self, i: int, window: float, level: float, rtt: float, since: float) -> dict[str, object]:
        """Arguments of the laws of host i."""
        p = self.params
        return {"w": window, "R": level, "D": rtt, "T": self.interval, "since": since, "s": self.packet[i], "p": p}


@dataclass
class _State:
    """The state right after a tick: windows [bit], times of the last decreases, announced levels, the router's R."""

    windows: FloatArray
    tick: int
    decreased: FloatArray  # s
    levels: deque[tuple[float, float]]  # time of the announcement plus queueing delay [s], and level
    state: float
    acted: FloatArray  # in rounds: time at which each host acted last [s]
    y: float = 0.0
    queue_max: float = 0.0
    queue_mean: float = 0.0
    events: list[tuple[float, FloatArray]] = field(default_factory=list)

    def copy(self, windows: FloatArray | None = None) -> _State:
        """Return a copy, with other windows."""
        return replace(
            self,
            windows=(self.windows if windows is None else windows).copy(),
            decreased=self.decreased.copy(),
            levels=deque(self.levels),
            acted=self.acted.copy(),
            events=[],
        )


def _breaks(loop: _Loop, state: _State, rtt: FloatArray) -> list[float]:
    """Return the times at which laws may change before the next tick, with this tick and the next one."""
    begin, end = state.tick * loop.interval, (state.tick + 1) * loop.interval
    times = {begin, end}
    for i, D in enumerate(rtt):
        if loop.in_rounds:
            n = floor((end - state.acted[i]) / D + _AFTER)
            times |= {state.acted[i] + (k + 1) * D for k in range(n)}
        else:
            times |= {announced + D for announced, _ in state.levels}
            times |= {state.decreased[i] + wait for wait in (loop.interval, loop.interval + D)}
    inside = sorted(t for t in times if begin < t < end)
    kept = [begin]
    for t in [*inside, end]:
        if t - kept[-1] > _AFTER * loop.interval:
            kept.append(t)
    return kept


def _level(state: _State, sent: float) -> float:
    """Return the level announced before a time."""
    level = state.levels[0][1]
    for announced, value in state.levels:
        if announced <= sent:
            level = value
    return level


def _slope(loop: _Loop, state: _State, i: int, t: float, rtt: float) -> tuple[float, float]:
    """Let a host decrease, or act in its round, at time t; return its law as w' = a + b w until the next event."""
    level, after = _level(state, t - rtt), t + _AFTER * loop.interval
    if loop.in_rounds and after - state.acted[i] < rtt:
        return 0.0, 0.0
    window = float(state.windows[i])
    at = loop.at_host(i, window, level, rtt, after - float(state.decreased[i]))
    if loop.protocol.decrease_law is not None:
        less = float(call_law(loop.protocol.decrease_law, at))
        if less < window:
            state.windows[i], state.decreased[i] = less, t
            window, at = less, {**at, "w": less, "since": after - t}
            if loop.in_rounds:
                state.acted[i] = t
                return 0.0, 0.0
    moved = float(call_law(loop.protocol.source_law, at))
    if loop.in_rounds:
        state.windows[i], state.acted[i] = moved, t
        return 0.0, 0.0
    twice = float(call_law(loop.protocol.source_law, {**at, "w": 2.0 * window}))
    b = (twice - moved) / window - 1.0
    b = 0.0 if abs(b) < 1e-9 else b
    return (moved - window - b * window) / rtt, b / rtt


def _advance(loop: _Loop, state: _State, record: bool = False) -> None:
    """Move a state to the next tick."""
    arrived = held = 0.0
    start = loop.queue(state.windows)
    rtt = loop.rtt + start / loop.capacity
    times = _breaks(loop, state, rtt)
    for begin, end in zip(times[:-1], times[1:], strict=True):
        slopes = [_slope(loop, state, i, begin, float(rtt[i])) for i in range(len(rtt))]
        before, h = state.windows.copy(), end - begin
        if record:
            state.events.append((begin, before))
        area = np.zeros_like(before)
        for i, (a, b) in enumerate(slopes):
            w = before[i]
            if b == 0.0:
                state.windows[i], area[i] = w + a * h, (w + 0.5 * a * h) * h
            else:
                state.windows[i] = w * exp(b * h) + a * expm1(b * h) / b
                area[i] = (state.windows[i] - w - a * h) / b
        queues = [loop.queue(before), loop.queue(state.windows)]
        state.queue_max = max(state.queue_max, *queues)
        if max(queues) > 0.0 and np.ptp(loop.rtt) > 0.0:
            raise LinearizationError("its windows build a queue, which is modeled for equal RTTs only")
        excess = 0.0
        if max(queues) > 0.0:
            excess = (
                loop.rate(area) - loop.capacity * h if min(queues) > 0.0 else 0.5 * _triangle(loop, before, state) * h
            )
        arrived += loop.rate(area) - excess
        excess *= float(loop.rtt[0])
        held += excess
        if record:
            state.events.append((end, state.windows.copy()))
    arrived += loop.queue(state.windows) - start
    _announce(loop, state, arrived / loop.interval, held / loop.interval)


def _triangle(loop: _Loop, before: FloatArray, state: _State) -> float:
    """Return the maximum excess of the rate over the capacity in a piece, times the part of it with an excess."""
    first, last = loop.rate(before), loop.rate(state.windows)
    top = max(first, last) - loop.capacity
    return top * top / abs(last - first)


def _announce(loop: _Loop, state: _State, y: float, q_mean: float) -> None:
    """Compute the router's state and level at the next tick."""
    protocol, p = loop.protocol, loop.params
    state.tick += 1
    values = (state.state, y, q_mean, loop.capacity, loop.interval, p)
    supply: dict[str, Any] = dict(zip(_SUPPLIED, values, strict=True))
    state.state = float(call_law(protocol.router_law, supply))
    level = float(call_law(protocol.announce_law, {**supply, "R": state.state}))
    now = state.tick * loop.interval
    state.levels.append((now, level))
    while len(state.levels) > 2 and state.levels[1][0] < now - float(loop.rtt.max()) - 2.0 * loop.interval:
        state.levels.popleft()
    state.y, state.queue_mean = y, q_mean


def _loop_of(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> _Loop:
    """Return the loop of windows that follow announced levels, on one link."""
    if not isinstance(loop, Protocol) or not sets_windows(loop) or loop.announce_law is None:
        raise LinearizationError("its routers announce no levels of a load to windows")
    if "interval" not in loop.params() or loop.paced_over > 0.0 or loop.states:
        raise LinearizationError("its routers announce no levels of a load once in an interval")
    for law in (loop.router_law, loop.announce_law):
        if unknown := arguments_except(law, _SUPPLIED):
            raise LinearizationError(f"its routers announce levels that depend on {unknown[0]}")
    interval = interval_of(loop)
    if network.n_links != 1:
        raise LinearizationError("its cycle is computed on one link")
    members, rtts, packets = _groups(network)
    return _Loop(loop, float(network.capacities[0]), interval, members, rtts, packets, time == "discrete")


def _groups(network: Network) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return members, RTT and packet of groups of equal flows; the first flow of several is a group of its own."""
    counts = Counter(
        (float(rtt), 8.0 * float(flow.mean_packet)) for rtt, flow in zip(network.rtts, network.flows, strict=True)
    )
    rows = []
    for (rtt, packet), count in counts.items():
        rows += [(1.0, rtt, packet)] + [(count - 1.0, rtt, packet)] * (count > 1)
    members, rtts, packets = np.array(rows).T
    return members, rtts, packets


def _begin(loop: _Loop, load: float) -> _State:
    """Return a start with equal rates, which load the link with a share of its capacity."""
    windows = load * loop.capacity / loop.members.sum() * loop.rtt
    never = np.full(len(windows), -inf)
    acted = -_PHASE * loop.rtt if loop.in_rounds else never
    state = _State(windows, 0, never, deque([(-inf, 0.0)]), 0.0, acted)
    _announce(loop, state, loop.rate(windows), 0.0)
    state.tick, state.levels = 0, deque([(-inf, state.levels[-1][1])])
    return state


def _sections(loop: _Loop, state: _State) -> tuple[_State, NDArray[np.int64]]:
    """Return the state at a rise to the maximum level after a transient, and the intervals between the next rises."""
    rises, states = list[int](), list[_State]()
    highest, moved = -inf, 0
    for tick in range(_TICKS):
        last, before = state.windows.copy(), state.levels[-1][1]
        _advance(loop, state)
        level = state.levels[-1][1]
        moved = tick if np.any(np.abs(state.windows - last) > _EQUAL * last) else moved
        if tick - moved > _REST:
            raise AtRest("windows come to rest between the levels of its reports")
        if level > highest and tick < _TICKS // 2:
            highest, rises, states = level, [], []
        if level == highest > before:
            rises.append(tick)
            states.append(state.copy())
        if len(rises) > _TRANSIENT + _CYCLES:
            return states[_TRANSIENT], np.diff(rises[_TRANSIENT:])
    raise ConvergenceError(f"its level does not rise {_TRANSIENT + _CYCLES} times within {_TICKS} intervals")


def _cycles_of(loop: _Loop) -> tuple[_State, NDArray[np.int64]]:
    """Return the state and intervals of `_sections` from the first start.

    Raises
    ------
    AtRest
        Windows come to rest from all starts.
    ConvergenceError
        They do so from the first start only.
    """
    try:
        return _sections(loop, _begin(loop, _STARTS[0]))
    except AtRest:
        for start in _STARTS[1:]:
            try:
                _sections(loop, _begin(loop, start))
            except AtRest:
                continue
            raise ConvergenceError("windows come to rest from some starts, and oscillate from others") from None
        raise


def _after(loop: _Loop, state: _State, ticks: int) -> tuple[FloatArray, list[float]]:
    """Return the windows after some ticks, and the levels of these."""
    state, levels = state.copy(), []
    for _ in range(ticks):
        _advance(loop, state)
        levels.append(state.levels[-1][1])
    return state.windows, levels


def _matrix(loop: _Loop, state: _State, ticks: int) -> FloatArray:
    """Return the derivative of the windows after a period with respect to those before."""
    columns = []
    _, itinerary = _after(loop, state, ticks)
    for i, window in enumerate(state.windows):
        ends = []
        for sign in (1.0, -1.0):
            moved = state.windows.copy()
            moved[i] += sign * _DEVIATION * window
            end, levels = _after(loop, state.copy(moved), ticks)
            if levels != itinerary:
                raise ConvergenceError("the levels of its cycle change with small deviations of its windows")
            ends.append(end)
        columns.append((ends[0] - ends[1]) / (2.0 * _DEVIATION * window))
    return np.array(columns).T


def load_report_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of windows that follow announced levels of a load, with all N multipliers.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Protocol whose routers announce levels once in an interval, and whose hosts set windows: for example VCP.
    network : Network
        Network of one link.
    time : str
        "continuous", or "discrete": hosts act once per RTT.

    Raises
    ------
    LinearizationError
        Another kind of loop or network.
    AtRest
        Windows come to rest from all starts.
    ConvergenceError
        Windows come to rest from some starts, or levels do not rise often enough.
    """
    model = _loop_of(loop, network, time)
    state, gaps = _cycles_of(model)
    ticks = int(gaps.sum())
    matrix = _matrix(model, state, ticks)
    return _result(model, state, matrix, gaps)


def _multipliers(model: _Loop, matrix: FloatArray, cycles: int) -> NDArray[np.complex128]:
    """Return the multipliers of all flows per cycle: of the groups, and of differences within groups of several flows.

    Parameters
    ----------
    model : _Loop
    matrix : ndarray, shape (n_groups, n_groups)
        Derivative of the windows of groups over several cycles.
    cycles : int
        Number of the cycles.
    """
    values = list(np.linalg.eigvals(matrix))
    for k, count in enumerate(model.members):
        if count > 1.0:  # the flow before this group is equal to its members
            values += [matrix[k - 1, k - 1] - matrix[k, k - 1]] * (round(count) - 1)
    powers = np.array(values, dtype=complex)
    return np.asarray(powers ** (1.0 / cycles))


def _queue_notes(queue_max: float) -> tuple[str, ...]:
    """Return a note if there is a queue [bit]."""
    if queue_max == 0.0:
        return ()
    return ("its queue is that of rates in proportion to windows: gaps and trains of packets make it longer",)


def _result(model: _Loop, state: _State, matrix: FloatArray, gaps: NDArray[np.int64]) -> LimitCycle:
    """Return the mean cycle of those that follow a state."""
    run, cycles = state.copy(), len(gaps)
    loads, queues, queue, first = [], [], [], int(gaps[0])
    begin = run.tick * model.interval
    for tick in range(int(gaps.sum())):
        _advance(model, run, record=True)
        loads.append(run.y / model.capacity)
        queues.append(run.queue_mean)
        queue += [model.queue(values) for _, values in run.events]
        if tick < first:
            events = run.events.copy()
        else:
            run.events.clear()
    multipliers = _multipliers(model, matrix, cycles)
    along = np.abs(multipliers - 1.0) < 1e-6
    across = multipliers[~along]
    across = across[np.argsort(-np.abs(across), kind="stable")]
    each = np.repeat(np.arange(len(model.members)), model.members.astype(int))
    intervals = f"{gaps.min()}" if gaps.min() == gaps.max() else f"{gaps.min()} to {gaps.max()}"
    return LimitCycle(
        "cycle",
        "discrete" if model.in_rounds else "continuous",
        float(gaps.mean()) * model.interval,
        float(np.mean(queues)) / 8.0,
        0.5 * float(np.ptp(queue)) / 8.0,
        across,
        along=int(along.sum()),
        stable=bool(np.all(np.abs(across) < 1.0)),
        method=f"affine map with the levels of all ticks; means over {cycles} cycles of {intervals} intervals",
        orbit={
            "time": np.array([t for t, _ in events]) - begin,
            "queue": np.array([model.queue(values) for _, values in events]) / 8.0,
            "windows": np.array([values for _, values in events]).T[each] / 8.0,
        },
        notes=(
            *_queue_notes(max(queue)),
            f"the load that routers measure is {min(loads):.4g} to {max(loads):.4g} of the capacity",
            "cycles have whole numbers of intervals, so that windows repeat exactly after several cycles only",
            "rates are in proportion to windows: the gap that follows a decrease recurs every RTT, and is left out",
        ),
    )
