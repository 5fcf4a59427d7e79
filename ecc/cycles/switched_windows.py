"""Cycles of paced windows over a switch: all packets are marked while the queue exceeds a threshold, a delay ago.

N flows send at w_i/D, D = d + q/C, so that q' = sum w_i/D - C, and q stays at 0 while an empty queue is not filled.
With n in RTTs, dn = dt/D, the values y_i of a flow (its window first) move by

    dy_i/dn = slope(y_i, D, marked),   marked: 1 if q(t - d - K/C) > K, else 0

and jump to `response` at the first mark, then after each `interval` while marks last. Without a `response`, the slope
has the mean of all responses. Between the crossings of K and their effects the loop is an ordinary differential
equation. When q rises through K and no mark is on its way, (y_i) of all flows determines the future; its map to the
next such time is the return map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.cycles.sum_and_differences import sum_and_differences
from ecc.errors import ConvergenceError

__all__ = ["SwitchedCycle", "SwitchedWindows", "switched_cycle"]

Real = NDArray[np.float64]

_TOLERANCE = 1e-9  # relative error per step of the integration between events
_MAX_EVENTS, _MAX_RTTS = 2000, 3000.0  # between two crossings of the threshold
_POINTS = 64  # points of the orbit between two events


@dataclass(frozen=True)
class SwitchedWindows:
    """A loop of windows over a switch; bits or packets in all fields.

    Attributes
    ----------
    slope : callable
        slope(values, D, marked) -> derivative of the values of a flow per RTT.
    response : callable or None
        response(values, D) -> values right after a response to a mark.
    interval : callable
        interval(D) -> minimum time between two responses [s].
    counts : ndarray
        Flows of each group: [1], or [1, N - 1].
    capacity, rtt, threshold : float
        C [1/s], d [s] and K.
    """

    slope: Callable[[Real, float, float], Real]
    response: Callable[[Real, float], Real] | None
    interval: Callable[[float], float]
    counts: Real
    capacity: float
    rtt: float
    threshold: float


class SwitchedCycle(NamedTuple):
    """A cycle: period [s], times [s], queues and windows (n_times, n_groups) along it, multipliers with their error."""

    period: float
    times: Real
    queue: Real
    windows: Real
    multipliers: NDArray[np.complex128]
    error: float
    states: Real


class _Orbit(NamedTuple):
    states: Real
    times: Real
    queue: Real
    windows: Real


def switched_cycle(
    loop: SwitchedWindows, start: Real, *, cycles: int = 300, converged: float = 1e-8, deviation: float = 1e-4
) -> SwitchedCycle:
    """Return the cycle that the return map reaches, with the multipliers of its derivative by central differences.

    Parameters
    ----------
    loop : SwitchedWindows
    start : ndarray, shape (n_groups, n_values)
        Values of the first flow and of one of the others, when the queue rises through the threshold.
    cycles : int, optional
        Maximum number of cycles until the map has converged.
    converged : float, optional
        Relative change of the values per cycle at which the map has converged.
    deviation : float, optional
        Relative deviation of values for differences; a second one, twice as large, gives the estimate of the error.

    Returns
    -------
    SwitchedCycle

    Raises
    ------
    ConvergenceError
        The queue does not return to the threshold, or the map does not converge.
    """
    y = start
    for _ in range(cycles):
        new = _return(loop, y).states
        change = float(np.max(np.abs(new - y) / np.maximum(np.abs(y), 1e-9)))
        y = new
        if change < converged:
            break
    else:
        raise ConvergenceError("the return map over the marking threshold does not converge", last=y, residual=change)
    slopes = []
    for scale in (deviation, 2.0 * deviation):
        columns = []
        for k in range(y.shape[1]):
            step = scale * max(float(abs(y[0, k])), 1e-3 if k else 0.0)
            shift = np.zeros_like(y)
            shift[0, k] = step
            columns.append((_return(loop, y + shift).states - _return(loop, y - shift).states) / (2.0 * step))
        slopes.append(np.stack(columns, axis=-1))
    multipliers, error = sum_and_differences(slopes[0], loop.counts, slopes[1])
    orbit = _return(loop, y)
    return SwitchedCycle(float(orbit.times[-1]), orbit.times, orbit.queue, orbit.windows, multipliers, error, y)


class _Run:
    """The loop between two crossings of the threshold: time, queue, values, marks on their way, and the next jump."""

    def __init__(self, loop: SwitchedWindows, y: Real) -> None:
        self.loop, self.t = loop, 0.0
        self.z = np.append(y.ravel(), loop.threshold)
        self.shape = y.shape
        self.marked, self.is_above, self.is_empty = 0.0, True, False
        self.lag = loop.rtt + loop.threshold / loop.capacity
        self.switches = [(self.lag, 1.0)]  # marks on their way: time of the effect, and its value
        self.next_response = 0.0
        self.parts: list[tuple[Real, Real]] = []

    def values(self, z: Real) -> Real:
        return z[:-1].reshape(self.shape)

    def rate(self, z: Real) -> float:
        """Return the sum of all sending rates."""
        return float(self.loop.counts @ self.values(z)[:, 0]) / self.delay(z)

    def delay(self, z: Real) -> float:
        return self.loop.rtt + max(float(z[-1]), 0.0) / self.loop.capacity

    def slope(self, t: float, z: Real) -> Real:
        D = self.delay(z)
        rows = self.values(z)
        moves = [self.loop.slope(rows[0], D, self.marked) / D]
        for values in rows[1:]:
            are_equal = np.array_equal(values, rows[0])
            moves.append(moves[0] if are_equal else self.loop.slope(values, D, self.marked) / D)
        return np.append(np.concatenate(moves), 0.0 if self.is_empty else self.rate(z) - self.loop.capacity)

    def events(self) -> dict[str, Any]:
        """Return the crossings at which the integration stops."""
        loop = self.loop

        def at(crossing: Callable[[Real], float], direction: float) -> Any:
            def event(t: float, z: Real) -> float:
                return crossing(z)

            event.terminal, event.direction = True, direction  # type: ignore[attr-defined]
            return event

        if self.is_empty:
            return {"fills": at(lambda z: self.rate(z) - loop.capacity, 1.0)}
        name, direction = ("falls", -1.0) if self.is_above else ("rises", 1.0)
        crossing = {name: at(lambda z: float(z[-1]) - loop.threshold, direction)}
        return crossing | {"empties": at(lambda z: float(z[-1]), -1.0)}

    def advance(self) -> str:
        """Integrate to the next event; return its name."""
        from scipy.integrate import solve_ivp

        due = [self.switches[0][0]] if self.switches else []
        if self.marked > 0.0 and self.loop.response is not None:
            due.append(max(self.next_response, self.t))
        end = min(due, default=self.t + _MAX_RTTS * self.lag)
        name = "due"
        if end > self.t:
            events = self.events()
            found = solve_ivp(
                self.slope,
                (self.t, end),
                self.z,
                events=list(events.values()),
                rtol=_TOLERANCE,
                atol=1e-11 * max(self.loop.threshold, 1.0),
                dense_output=True,
            )
            times = np.linspace(self.t, float(found.t[-1]), _POINTS)
            self.parts.append((times, found.sol(times)))
            self.t, self.z = float(found.t[-1]), found.y[:, -1].copy()
            hit = [key for key, at in zip(events, found.t_events, strict=True) if at.size]
            if not hit and not due:
                raise ConvergenceError("the queue does not return to the marking threshold", last=self.z)
            name = hit[0] if hit else "due"
        return name

    def apply(self, name: str) -> None:
        """Change the mode of the loop at an event."""
        if name in ("falls", "rises"):
            self.z[-1], self.is_above = self.loop.threshold, name == "rises"
            self.switches.append((self.t + self.lag, float(name == "rises")))
        elif name == "empties":
            self.z[-1], self.is_empty = 0.0, True
        elif name == "fills":
            self.is_empty = False
        elif self.switches and self.switches[0][0] <= self.t:
            self.marked = self.switches.pop(0)[1]
        elif self.loop.response is not None:
            D = self.delay(self.z)
            after = [self.loop.response(values, D) for values in self.values(self.z)]
            self.z[:-1] = np.concatenate(after)
            self.next_response = self.t + max(self.loop.interval(D), D)


def _return(loop: SwitchedWindows, y: Real) -> _Orbit:
    """Return the orbit to the next time at which the queue rises through the threshold, without marks on their way."""
    run = _Run(loop, y)
    for _ in range(_MAX_EVENTS):
        name = run.advance()
        if name == "rises" and not run.switches and run.marked == 0.0:
            times = np.concatenate([part[0] for part in run.parts])
            states = np.concatenate([part[1].T for part in run.parts])
            windows = states[:, :-1].reshape(len(times), *run.shape)[:, :, 0]
            return _Orbit(run.values(run.z).copy(), times, states[:, -1], windows)
        run.apply(name)
    raise ConvergenceError("the queue has too many crossings of the threshold", last=run.z)
