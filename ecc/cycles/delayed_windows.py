"""Cycles of windows that respond to delays and to the share of marks, over a link that marks above a threshold.

N flows of one protocol and one RTT d share a link of capacity C, and ACKs clock their windows w_i. The queue is
Q = sum w_i - C d, or 0. Data acknowledged at t were sent at u, t = u + d + Q(u)/C. Laws have R = router_law(Q(u)),
D = d + Q(u)/C, and marked = 1 if Q(u) > K, else 0. With n in RTTs, dn = dt C/sum w_i,

    "continuous"   dw_i/dn = source_law(w_i, ...) - w_i,   dv_i/dn = law(v_i, ...) - v_i,   in steps of d/250
    "discrete"     v_i <- law(v_i, ...),  w_i <- source_law(w_i, ...)     once per RTT, with Q of the round before

Multipliers in continuous time are those of the map of the windows of the last RTT, at a number of nodes, and of the
states over a period; the multiplier nearest to 1 is the shift in time, and is left out. A difference between flows
leaves the queue unchanged, so that it is a map of the values (w_i, v_i) alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.protocol import Protocol
from ecc.contract.values import refuse_simultaneous
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.marked_links import MarkedLink, host_over_threshold
from ecc.cycles.sum_and_differences import sum_and_differences
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.arguments import arguments_except, arguments_from, call_law, takes
from ecc.laws.jets import gradient
from ecc.models.shared.cycles import cycle_of
from ecc.network.network import Network

__all__ = ["delayed_window_cycle"]

Real = NDArray[np.float64]

_ARGUMENTS = ("w", "R", "D", "s", "a", "marked", "p")
_STEPS = 250  # steps in an RTT without queue
_SETTLING, _OBSERVED = 320, 80  # RTTs without queue before and during the search for a period
_NODES = 8  # nodes of a deviation of the windows in the last RTT
_PHASES = 3  # phases of the cycle that are tried
_MAX_ERROR = 0.1  # maximum error of the multiplier of a shift in time
_DEVIATION = 2e-3  # relative deviation of values for differences
_AT_REST = 1e-4  # swing of the queue, relative to the bandwidth-delay product, that counts as rest
_ROUNDS, _LONGEST, _SAME = 4000, 2000, 1e-10  # rounds before a cycle is sought, rounds of a cycle, rounding


@dataclass(frozen=True)
class _Loop(MarkedLink):
    """Flows whose laws take delays; one group has all of them, or the first is apart."""

    @cached_property
    def laws(self) -> list[tuple[Callable[..., float], tuple[str, ...]]]:
        """The laws of the window and of the states, with the names of their arguments."""
        laws: list[Any] = [self.protocol.source_law, *(state.law for state in self.protocol.states.values())]
        return [(law, tuple(signature(law).parameters)) for law in laws]

    def feedback(self, queue: float) -> dict[str, Any]:
        """Return the arguments of laws that data have met in this queue [bit]."""
        law = self.protocol.router_law
        R = call_law(law, {"q": queue, "C": self.capacity, "p": self.params})
        known = {"R": R, "D": self.rtt + queue / self.capacity, "marked": float(queue > self.threshold)}
        return known | {"s": self.packet, "a": self.packet, "p": self.params}

    def slopes(self, values: list[float], known: dict[str, Any]) -> list[float]:
        """Return the derivatives per RTT of the window and the states of a flow."""
        known.update(zip(self.names, values, strict=True))
        pairs = zip(self.laws, values, strict=True)
        return [law(*[known[name] for name in names]) - value for (law, names), value in pairs]


def delayed_window_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of equal windows that respond to delays and marks over a link with step marking.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts of one protocol whose source law takes R, over a discipline with a `marking_threshold`.
    network : Network
        One link, and flows with equal RTTs.
    time : str
        "continuous" or "discrete". In discrete time a map with a fixed point has a cycle without an amplitude.

    Raises
    ------
    LinearizationError
        The loop or the network has another form, or the queue comes to rest in continuous time.
    ConvergenceError
        No period was found.

    Examples
    --------
    >>> from ecc.cycles.reference_cases import cycle_case
    >>> cycle = delayed_window_cycle(*cycle_case(ecc.models.NSCC()), "discrete")
    >>> cycle.stable, cycle.amplitude < 1.0
    (True, True)
    """
    parts = _loop_of(loop, network)
    return _in_rounds(parts) if time == "discrete" else _continuous(parts)


def _loop_of(loop: Protocol | ProtocolAssignment, network: Network) -> _Loop:
    host, threshold = host_over_threshold(loop, network)
    laws = [host.source_law, *(state.law for state in host.states.values())]
    if any(arguments_except(law, (*_ARGUMENTS, *host.states)) for law in laws) or not takes(host.source_law, "R"):
        raise LinearizationError("the source law of its windows takes no delay of the queue")
    if host.loss_response_law or host.mark_response_law or {state.clock for state in host.states.values()} - {"rtt"}:
        raise LinearizationError("its windows jump at signals, or it has states that do not move per RTT")
    n, packet = network.n_flows, 8.0 * network.flows[0].mean_packet
    rtt, capacity = float(network.rtts[0]), float(network.capacities[0])
    return _Loop(host, host.namespace(), np.array([float(n)]), capacity, rtt, threshold, packet)


def _apart(parts: _Loop) -> _Loop:
    """Return the loop in which the first flow can differ from the others."""
    n = float(parts.counts.sum())
    return replace(parts, counts=np.array([1.0, n - 1.0] if n > 1.0 else [1.0]))


# ---- continuous time -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    """The windows on the grid of the last RTT and before, (n_times, n_groups), and all values, (n_groups, n_values)."""

    windows: Real
    values: Real


def _advance(parts: _Loop, start: _State, steps: int) -> _State:
    """Return the state after steps, with all windows along them."""
    h, C, counts = parts.rtt / _STEPS, parts.capacity, parts.counts.tolist()
    windows, y = start.windows.tolist(), start.values.tolist()
    queue = [parts.queue(sum(n * w for n, w in zip(counts, row, strict=True))) for row in windows]
    u, memory = 0, len(windows)
    for _ in range(steps):
        now = (len(queue) - 1) * h
        while u + 2 < len(queue) and (u + 1) * h + parts.rtt + queue[u + 1] / C <= now:
            u += 1
        before, after = u * h + parts.rtt + queue[u] / C, (u + 1) * h + parts.rtt + queue[u + 1] / C
        share = min(max((now - before) / (after - before), 0.0), 1.0) if after > before else 1.0
        known = parts.feedback(queue[u] + share * (queue[u + 1] - queue[u]))
        dn = h * C / max(sum(n * values[0] for n, values in zip(counts, y, strict=True)), parts.pipe)
        y = [[v + dn * move for v, move in zip(values, parts.slopes(values, known), strict=True)] for values in y]
        windows.append([values[0] for values in y])
        queue.append(parts.queue(sum(n * values[0] for n, values in zip(counts, y, strict=True))))
    return _State(np.array(windows[-max(memory, steps + 1) :]), np.array(y))


def _memory(parts: _Loop, queue: float) -> int:
    """Return the steps of the longest RTT, with a queue [bit]."""
    return ceil(_STEPS * (1.0 + queue / parts.pipe)) + 4


def _continuous(parts: _Loop) -> LimitCycle:
    width = (parts.pipe + max(parts.threshold, 0.5 * parts.pipe)) / float(parts.counts[0])
    values = np.array([[width, *(0.0 for _ in parts.protocol.states)]])
    state = _State(np.full((_memory(parts, 4.0 * parts.pipe), 1), width), values)
    state = _advance(parts, state, _SETTLING * _STEPS)
    seen = _advance(parts, state, _OBSERVED * _STEPS)
    queue = np.array([parts.queue(float(parts.counts @ row)) for row in seen.windows])
    if np.ptp(queue) < _AT_REST * parts.pipe:
        raise LinearizationError("the queue comes to rest in continuous time")
    level = 0.5 * float(queue.min() + queue.max())
    rises = np.flatnonzero((queue[:-1] <= level) & (queue[1:] > level))
    spacings = np.diff(rises[len(rises) // 2 :])
    if len(spacings) < 2 or np.ptp(spacings) > 0.02 * spacings.mean():
        raise ConvergenceError("the queue has no period", last=spacings)
    steps = round(float(spacings.mean()))
    memory = _memory(parts, float(queue.max()))
    point = _State(seen.windows[-memory:], seen.values)
    found: list[tuple[float, NDArray[np.complex128], _State]] = []
    for _ in range(_PHASES):  # differences are inexact if the law is about to switch
        values = _values_of(_of_sum(parts, point, steps, _DEVIATION))
        found.append((float(np.min(np.abs(values - 1.0))), values, point))
        later = _advance(parts, point, steps // _PHASES)
        point = _State(later.windows[-memory:], later.values)
    error, values, point = min(found, key=lambda candidate: candidate[0])
    if error > _MAX_ERROR:
        raise ConvergenceError("the multiplier of a shift in time is not 1: laws switch too fast", values, error)
    multipliers = np.delete(values, int(np.argmin(np.abs(values - 1.0))))
    n = int(parts.counts.sum())
    if n > 1:
        differences = [_of_difference(parts, point, steps, scale * _DEVIATION) for scale in (1.0, 2.0)]
        first, second = (_values_of(matrix) for matrix in differences)
        error = max(error, float(np.max(np.abs(first - second))))
        multipliers = np.concatenate([multipliers, *[first] * (n - 1)])
    multipliers = multipliers[np.argsort(-np.abs(multipliers), kind="stable")]
    period, cycle = steps * parts.rtt / _STEPS, queue[-steps - 1 :]
    return LimitCycle(
        "cycle",
        "continuous",
        period,
        float(cycle.mean()) / 8.0,
        0.5 * float(np.ptp(cycle)) / 8.0,
        multipliers,
        stable=bool(np.abs(multipliers).max() < 1.0),
        method=f"map over a period of the windows of the last RTT at {_NODES} nodes, by differences",
        orbit={
            "time": parts.rtt / _STEPS * np.arange(float(len(cycle))),
            "queue": cycle / 8.0,
            "windows": np.repeat(seen.windows[-steps - 1 :].T, n, axis=0) / 8.0,
        },
        notes=(f"differences have an error of {error:.0e}", "steps of hosts", "packets"),
    )


def _values_of(matrix: Real) -> NDArray[np.complex128]:
    values = np.linalg.eigvals(matrix).astype(np.complex128)
    return values[np.argsort(-np.abs(values), kind="stable")]


def _of_sum(parts: _Loop, point: _State, steps: int, scale: float) -> Real:
    """Return the derivative of windows at the nodes, and of states, for deviations of all flows together."""
    length, n_states = len(point.windows), point.values.shape[1] - 1
    nodes = np.linspace(0.0, length - 1.0, _NODES)
    columns = []
    for k in range(_NODES + n_states):
        unit = np.zeros(_NODES + n_states)
        step = scale * float(point.values[0, 0] if k < _NODES else max(point.values[0, k - _NODES + 1], 1e-9))
        unit[k] = step
        ends = []
        for sign in (1.0, -1.0):
            shape = sign * np.interp(np.arange(length), nodes, unit[:_NODES])
            values = point.values.copy()
            values[0, 0] += shape[-1]
            values[0, 1:] += sign * unit[_NODES:]
            end = _advance(parts, _State(point.windows + shape[:, None], values), steps)
            history = end.windows[-length:, 0] if len(end.windows) >= length else end.windows[:, 0]
            ends.append(np.concatenate([np.interp(nodes, np.arange(length), history), end.values[0, 1:]]))
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    return np.array(columns).T


def _of_difference(parts: _Loop, point: _State, steps: int, scale: float) -> Real:
    """Return the derivative of the values of the first flow for a deviation that the other flows compensate."""
    apart = _apart(parts)
    windows, values = np.repeat(point.windows, 2, axis=1), np.repeat(point.values, 2, axis=0)
    columns = []
    for k in range(values.shape[1]):
        step = scale * float(max(values[0, k], 1e-9))
        ends = []
        for sign in (1.0, -1.0):
            moved = values.copy()
            moved[0, k] += sign * step
            moved[1, k] -= sign * step / apart.counts[1]
            ends.append(_advance(apart, _State(windows, moved), steps).values[0])
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    return np.array(columns).T


# ---- rounds ------------------------------------------------------------------------------------------------


def _moved(parts: _Loop, y: Real, derivative: bool = False) -> tuple[Real, Real]:
    """Return the values after a round, and their derivatives with respect to those before it, by jets."""
    queue = parts.queue(float(parts.counts @ y[:, 0]))
    known = parts.feedback(queue)
    names = ["w", *parts.protocol.states]
    of_queue = np.zeros(y.shape)
    if queue > 0.0:
        of_queue[:, 0] = parts.counts
    router = {"q": queue, "C": parts.capacity, "p": parts.params}
    slope = gradient(parts.protocol.router_law, arguments_from(parts.protocol.router_law, router), ["q"])["q"]
    common = {"R": slope * of_queue.ravel(), "D": of_queue.ravel() / parts.capacity}
    laws: dict[str, Callable[..., float]] = {name: state.law for name, state in parts.protocol.states.items()}  # type: ignore[misc]
    laws["w"] = parts.protocol.source_law
    after, slopes = y.copy(), np.zeros((y.size, y.size))
    for row, values in enumerate(y):
        at = known | dict(zip(names, map(float, values), strict=True))
        rows = common | {name: np.eye(y.size)[row * len(names) + k] for k, name in enumerate(names)}
        for name, law in laws.items():
            taken = arguments_from(law, at)
            if derivative:
                parts_of = gradient(law, taken, [argument for argument in taken if argument in rows])
                rows[name] = sum((parts_of[argument] * rows[argument] for argument in parts_of), np.zeros(y.size))
            at[name] = law(**taken)
        for k, name in enumerate(names):
            after[row, k], slopes[row * len(names) + k] = at[name], rows[name]
    return after, slopes


def _in_rounds(parts: _Loop) -> LimitCycle:
    refuse_simultaneous(parts.protocol, "map per round of windows that respond to delays")
    apart = _apart(parts)
    groups, n_values = len(apart.counts), 1 + len(parts.protocol.states)
    width = (parts.pipe + max(parts.threshold, 0.5 * parts.pipe)) / float(parts.counts[0])
    start = [width, *(0.0 for _ in parts.protocol.states)] * groups

    def step(state: list[float]) -> list[float]:
        return [*_moved(apart, np.array(state).reshape(groups, n_values))[0].ravel()]

    states, closed = cycle_of(step, start, _ROUNDS, _LONGEST, _SAME)
    if not closed:
        raise ConvergenceError(f"the map per round does not return within {_LONGEST} rounds", last=states[-1])
    total, queues, seconds = np.eye(len(start)), [], []
    for state in states:
        y = np.array(state).reshape(groups, n_values)
        total = _moved(apart, y, derivative=True)[1] @ total
        queues.append(parts.queue(float(apart.counts @ y[:, 0])))
        seconds.append(parts.rtt + queues[-1] / parts.capacity)
    columns = total[:, :n_values].reshape(groups, n_values, n_values)
    multipliers, _ = sum_and_differences(columns, apart.counts)
    rest = "at its point of rest" if len(states) == 1 else f"over {len(states)} rounds"
    windows = np.array(states).reshape(len(states), groups, n_values)[:, :, 0].T
    return LimitCycle(
        "cycle",
        "discrete",
        float(np.sum(seconds)),
        float(np.average(queues, weights=seconds)) / 8.0,
        0.5 * float(np.ptp(queues)) / 8.0,
        multipliers,
        stable=bool(np.abs(multipliers).max() < 1.0),
        method=f"derivative of the map per round {rest}, by jets",
        orbit={
            "time": np.concatenate([[0.0], np.cumsum(seconds)[:-1]]),
            "queue": np.array(queues) / 8.0,
            "windows": np.repeat(windows, apart.counts.astype(int), axis=0) / 8.0,
        },
        notes=("packets",),
    )
