"""Cycles of hosts that update rates by the delays of their packets, over a link whose queue empties in each cycle.

N flows of one protocol and one RTT d update their rates x_i, and states v_i with the clock "update", every T, the
parameter `interval`:

    "discrete"     v_i <- law(v_i, ...),  x_i <- source_law(x_i, v_i, ...)       at the same ticks in all hosts
    "continuous"   x_i' = [source_law(x_i(t - T), ...) - x_i(t - T)]/T,   v_i' = [law(v_i, x_i(t - T), ...) - v_i]/T

with Q' = sum x_i - C, not below 0, and laws of R = router_law(Q(u)) and D = d + Q(u)/C of the data acknowledged now,
sent at u + D = t. These are the equations of `ecc.fluid.simulate` with the same times. The queue is piecewise linear
between ticks, and the discrete orbit is exact. The continuous one has steps of T/50.

While the queue is empty for more than an RTT, all delays are d, and states forget. (x_i, v_i) of all flows at the time
when sum x_i rises through C then determines the future; in rounds, at the first tick at which the sum exceeds C. The
map to the next such time is the return map. Deviations of states vanish, and have multipliers of 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import states_of
from ecc.cycles.limit_cycle import LimitCycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.arguments import arguments_except, call_law
from ecc.network.network import Network

__all__ = ["rate_update_cycle"]

Real = NDArray[np.float64]

_ARGUMENTS = ("x", "R", "R_prev", "D", "T", "s", "p")
_STEPS = 50  # steps of an interval in continuous time
_MAX_TICKS = 20_000  # ticks of a cycle
_SETTLING, _AVERAGED, _SAME = 30, 40, 1e-9  # cycles before the attractor, cycles on it, relative rounding
_DEVIATIONS = {"discrete": 1e-7, "continuous": 4e-3}  # relative, of rates


@dataclass(frozen=True)
class _Loop:
    """The first flow and the rest of N equal flows over a link [bit, bit/s, s]."""

    protocol: Protocol
    params: Any
    counts: Real
    capacity: float
    rtt: float
    interval: float
    packet: float

    @property
    def states(self) -> list[Any]:
        return list(self.protocol.states.values())

    def feedback(self, wait: float) -> float:
        """Return the feedback of the link to a packet that waits for so long."""
        law = self.protocol.router_law
        return float(call_law(law, {"q": wait * self.capacity, "C": self.capacity, "p": self.params}))

    def updated(
        self, x: float, states: Real, wait: float, wait_prev: float, at_once: bool
    ) -> tuple[float, list[float]]:
        """Return the rate and the states after an update; the rate follows from the new states if `at_once`."""
        known: dict[str, Any] = dict(zip(["x", *self.protocol.states], [x, *states], strict=True))
        D = self.rtt + wait
        known |= {"R": self.feedback(wait), "R_prev": self.feedback(wait_prev), "D": D, "T": self.interval}
        known |= {"s": self.packet, "p": self.params}
        before, after = dict(known), []
        for name, state in self.protocol.states.items():
            known[name] = min(max(float(call_law(state.law, known)), state.lowest), state.highest)
            after.append(known[name])
        rate = float(call_law(self.protocol.source_law, known if at_once else before))
        return max(rate, self.protocol.floor * self.packet / D), after


class _Cycle(NamedTuple):
    """A cycle: values of all groups at its end, times, queues and rates (n_times, n_groups) along it."""

    end: Any
    times: Real
    queue: Real
    rates: Real


def rate_update_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of equal flows that update rates by delays, from its return map.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts of one protocol with the kind "host rates", whose states have the clock "update".
    network : Network
        One link, and flows with equal RTTs.
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        The loop or the network has another form, the protocol has an equilibrium, or updates wait for ACKs.
    ConvergenceError
        The queue does not empty in each cycle.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Gb/s", ["10 us"] * 2, packet_size=1000)
    >>> cycle = rate_update_cycle(ecc.models.TIMELY(), net, "discrete")
    >>> 2.7e-3 < cycle.period < 2.8e-3, cycle.along
    (True, 0)
    """
    parts = _loop_of(loop, network)
    return _in_ticks(parts) if time == "discrete" else _in_steps(parts)


def _loop_of(loop: Protocol | ProtocolAssignment, network: Network) -> _Loop:
    if not isinstance(loop, Protocol) or kind_of(loop) is not Kind.HOST_RATES:
        raise LinearizationError("its hosts do not set rates by states of their own")
    if not loop.no_equilibrium:
        raise LinearizationError("its rates have an equilibrium")
    laws = [loop.source_law, *(state.law for state in states_of(loop).values())]
    unknown = sorted({name for law in laws for name in arguments_except(law, (*_ARGUMENTS, *loop.states))})
    clocks = {state.clock for state in loop.states.values()}
    if unknown or clocks != {"update"} or arguments_except(loop.router_law, ("q", "C", "p")):
        raise LinearizationError("the laws of its hosts have arguments other than delays and their own states")
    if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
        raise LinearizationError("hosts that update rates must have equal RTTs over a single link")
    n, params = network.n_flows, loop.params()
    counts = np.array([1.0, n - 1.0] if n > 1 else [1.0])
    packet, capacity = 8.0 * network.flows[0].mean_packet, float(network.capacities[0])
    interval = float(params["interval"])
    if packet * n / capacity > interval:
        raise LinearizationError("updates wait for ACKs: packets are longer than the interval at the fair rate")
    return _Loop(loop, loop.namespace(), counts, capacity, float(network.rtts[0]), interval, packet)


def _start(parts: _Loop) -> Real:
    rate = parts.capacity / float(parts.counts.sum())
    return np.array([[rate, *(float(state.initial) for state in parts.states)]] * len(parts.counts))


# ---- ticks -------------------------------------------------------------------------------------------------


def _waits(parts: _Loop, times: list[float], queue: list[float], t: float) -> float:
    """Return the waiting time of the data acknowledged at t, from the corners of the queue."""
    first = max(len(times) - 400, 0)
    at, q = np.array(times[first:]), np.array(queue[first:])
    u = float(np.interp(t, at + q / parts.capacity + parts.rtt, at, left=np.nan))
    return 0.0 if np.isnan(u) else max(t - u - parts.rtt, 0.0)


def _tick_cycle(parts: _Loop, y: Real) -> _Cycle:
    """Return the cycle from the tick at which the rates exceed the capacity, with an empty queue, to the next one."""
    y, t, wait_prev, empty_since = y.copy(), 0.0, 0.0, -np.inf
    times, queue, rates = [0.0], [0.0], [y[:, 0].copy()]
    for tick in range(_MAX_TICKS):
        excess, q = float(parts.counts @ y[:, 0]) - parts.capacity, queue[-1]
        if tick and q == 0.0 and excess > 0.0 and t - empty_since > parts.rtt + parts.interval:
            return _Cycle(y, np.array(times), np.array(queue), np.array(rates))
        end = t + parts.interval
        if q > 0.0 and q + excess * parts.interval < 0.0:
            empty_since = t - q / excess
            times.append(empty_since)
            queue.append(0.0)
            rates.append(y[:, 0].copy())
        times.append(end)
        queue.append(max(q + excess * parts.interval, 0.0) if q > 0.0 or excess > 0.0 else 0.0)
        t, wait = end, _waits(parts, times, queue, end)
        first = y[0].copy()
        for row, values in enumerate(y):
            if row and np.array_equal(values, first):  # equal flows move alike
                y[row] = y[0]
                continue
            y[row, 0], y[row, 1:] = parts.updated(values[0], values[1:], wait, wait_prev, True)
        rates.append(y[:, 0].copy())
        wait_prev = wait
    raise ConvergenceError("the queue does not empty in each cycle", last=y)


def _in_ticks(parts: _Loop) -> LimitCycle:
    y = _start(parts)
    for _ in range(_SETTLING):
        y = _tick_cycle(parts, y).end
    orbit, first, slopes, error = list[_Cycle](), y, [], 0.0
    while len(orbit) < _AVERAGED:
        found = _slopes(parts, y[0, 0], _DEVIATIONS["discrete"], partial(_tick_end, parts, y))
        slopes.append(found[0])
        error = max(error, found[1])
        orbit.append(_tick_cycle(parts, y))
        y = orbit[-1].end
        if np.all(np.abs(y - first)[:, 0] <= _SAME * first[:, 0]):
            break
    n, period = len(orbit), sum(float(cycle.times[-1]) for cycle in orbit)
    notes = [f"differences have an error of {error:.0e}", "packets", "times of updates that differ"]
    if n < _AVERAGED:
        method = f"return map at ticks over {n} cycle{'s' * (n > 1)}, by differences"
        return _result(parts, "discrete", orbit, period, np.prod(slopes, axis=0), method, notes)
    mean = np.exp(np.mean(np.log(np.maximum(np.abs(slopes), 1e-300)), axis=0))
    notes.insert(0, f"the orbit does not close within {n} cycles: the period and the moduli are means per cycle")
    method = f"return map at ticks, by differences, mean of {n} cycles"
    return _result(parts, "discrete", orbit, period / n, mean, method, notes)


def _tick_end(parts: _Loop, y: Real, shift: float) -> Real:
    """Return the rates at the end of a cycle in ticks, with the rate of the first flow shifted at its beginning."""
    moved = y.copy()
    moved[0, 0] += shift
    return np.asarray(_tick_cycle(parts, moved).end[:, 0])


def _slopes(parts: _Loop, rate: float, deviation: float, end: Callable[[float], Real]) -> tuple[Real, float]:
    """Return the derivatives of rates for a deviation of the sum and for a difference of flows, and their error.

    States are forgotten while the queue is empty: deviations of them change nothing.
    """
    found = []
    for step in (deviation * rate, 2.0 * deviation * rate):
        slope = (end(step) - end(-step)) / (2.0 * step)
        own = slope[0] if len(slope) == 1 else slope[0] - slope[1]
        found.append(np.array([own + (parts.counts.sum() * slope[1] if len(slope) > 1 else 0.0), own]))
    return found[0], float(np.max(np.abs(found[1] - found[0])))


# ---- steps -------------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """Values when the rates rise through the capacity, and the rates in the interval before, on the grid."""

    y: Real
    before: Real  # (steps + 1, n_groups)


def _step_cycle(parts: _Loop, start: _Point) -> _Cycle:
    """Return the cycle from the time at which the rates rise through the capacity, with an empty queue, to the next."""
    h, T, C = parts.interval / _STEPS, parts.interval, parts.capacity
    memory = ceil(parts.rtt / h) + _STEPS + 2
    x, y = [*start.before], start.y.copy()
    origin = len(x) - 1  # index of the present
    queue, empty = [0.0] * len(x), memory
    u = 0.0  # index of the data acknowledged now, relative to the present
    waits = [0.0] * len(x)
    for i in range(1, _MAX_TICKS * _STEPS):
        excess = float(parts.counts @ x[-1]) - C
        if i > _STEPS and empty > memory and excess > 0.0:
            rates: Real = np.array(x)
            share = excess / float(parts.counts @ (rates[-1] - rates[-2]))  # share after the crossing
            back = rates[-1 - _STEPS :] - share * (rates[-1 - _STEPS :] - rates[-2 - _STEPS : -1])
            end = _Point(np.column_stack([back[-1], y[:, 1:]]), back)
            times: Real = h * np.arange(float(len(queue) - origin))
            times[-1] -= share * h
            return _Cycle(end, times, np.array(queue[origin:]), rates[origin:])
        queue.append(max(queue[-1] + excess * h, 0.0))
        empty = empty + 1 if queue[-1] == 0.0 else 0
        now = len(queue) - 1
        while u + 1 < now and (u + 1) * h + queue[int(u) + 1] / C + parts.rtt <= now * h:
            u += 1
        low = (u * h + queue[int(u)] / C + parts.rtt, (u + 1) * h + queue[int(u) + 1] / C + parts.rtt)
        share = min(max((now * h - low[0]) / (low[1] - low[0]), 0.0), 1.0) if low[1] > low[0] else 0.0
        wait = (queue[int(u)] + share * (queue[int(u) + 1] - queue[int(u)])) / C if now * h >= low[0] else 0.0
        waits.append(wait)
        wait_prev, late = waits[now - _STEPS], x[now - _STEPS]
        new = np.empty_like(y)
        for row, values in enumerate(y):
            if row and np.array_equal(values, y[0]) and late[row] == late[0]:
                new[row] = new[0]
                continue
            rate, states = parts.updated(late[row], values[1:], wait, wait_prev, False)
            new[row, 0] = values[0] + h / T * (rate - late[row])
            new[row, 1:] = values[1:] + h / T * (np.array(states) - values[1:])
        y = new
        x.append(y[:, 0].copy())
    raise ConvergenceError("the queue does not empty in each cycle", last=y)


def _in_steps(parts: _Loop) -> LimitCycle:
    y = _start(parts)
    point = _Point(y, np.repeat(y[None, :, 0], _STEPS + 1, axis=0))
    for _ in range(2):
        cycle = _step_cycle(parts, point)
        point = cycle.end

    def end(shift: float) -> Real:
        shifts = np.zeros(len(y))
        shifts[0] = shift
        moved = point.y.copy()
        moved[:, 0] += shifts
        return np.asarray(_step_cycle(parts, _Point(moved, point.before + shifts)).end.y[:, 0])

    slopes, error = _slopes(parts, point.y[0, 0], _DEVIATIONS["continuous"], end)
    notes = [f"differences have an error of {error:.0e}", "steps of hosts", "packets"]
    method = f"return map of the fluid when its queue begins, in steps of {1e6 * parts.interval / _STEPS:g} us"
    return _result(parts, "continuous", [cycle], float(cycle.times[-1]), slopes, method, notes)


def _result(
    parts: _Loop, time: str, orbit: list[_Cycle], period: float, slopes: Real, method: str, notes: list[str]
) -> LimitCycle:
    n = int(parts.counts.sum())
    values = np.where(np.abs(slopes) < 1e-6, 0.0, slopes)  # below the error of differences
    multipliers = np.concatenate([values[:1], np.repeat(values[1], n - 1), np.zeros(n * len(parts.states))])
    if abs(values[0]) > 1.0:
        notes.insert(
            0, "the sum of the rates is chaotic: its value at the first tick above the capacity, within an update"
        )
    area = sum(float(np.trapezoid(cycle.queue, cycle.times)) for cycle in orbit)
    seconds = sum(float(cycle.times[-1]) for cycle in orbit)
    peaks = [float(cycle.queue.max()) for cycle in orbit]
    shown = orbit[0]
    groups = np.repeat(np.arange(len(parts.counts)), parts.counts.astype(int))
    order = np.argsort(-np.abs(multipliers), kind="stable")
    return LimitCycle(
        "cycle",
        time,
        period,
        area / seconds / 8.0,
        0.5 * float(np.mean(peaks)) / 8.0,
        multipliers[order].astype(np.complex128),
        stable=bool(np.abs(multipliers).max() < 1.0),
        method=method,
        orbit={"time": shown.times, "queue": shown.queue / 8.0, "rates": shown.rates.T[groups]},
        notes=(*notes, "the queue is empty in a part of the cycle"),
    )
