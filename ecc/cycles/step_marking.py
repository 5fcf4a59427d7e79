"""Cycles of windows over a link that marks all packets above a threshold, and none below it.

N flows of one protocol and one RTT d share a link of capacity C. ACKs clock their windows w_i, so that the queue is
q = sum w_i - C d after an RTT, and an RTT is D = d + q/C. Without marks, n counts RTTs:

    dw_i/dn = source_law(w_i) - w_i,   dv_i/dn = law(v_i) - v_i       v: states with the clock "rtt"

"continuous": the queue crosses K bits. The marks return after a window is acknowledged (sum w_i bits), during which
windows grow. Then each window jumps to `marked_round_law`, or else to `mark_response_law`, and is held until the data
in flight at the jump are acknowledged, all of them marked. If the queue still exceeds K, windows jump again. Otherwise
they grow until the queue crosses K again. The state at the end of the marked round, (w_i, v_i) of all flows, determines
the future; its map to the next cycle is the return map.

If hosts are paced (`Protocol.is_paced`), they send at w_i/D in continuous time, and the queue integrates the rates
(`switched_windows`). It then drains over several RTTs after a jump, and windows jump again while marks last, after each
`response_interval`.

"discrete": each host acts once per RTT, as in `ecc.fluid.simulate(time="discrete")`. With marks (q > K in the round
before) it moves its states, jumps, and holds its window for a round. Without marks it moves by its laws.

Deviations of one flow of N have two kinds of multipliers. Those of the sum belong to a deviation of all flows at once,
those of differences to a deviation of one flow that the others compensate. Each of the latter occurs N - 1 times.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.marked_links import MarkedWindows, marked_windows, starting_windows
from ecc.cycles.marking_rounds import LONGEST, cycle_of_rounds, round_over_threshold, rounds_over_threshold
from ecc.cycles.sum_and_differences import sum_and_differences
from ecc.cycles.switched_windows import SwitchedWindows, switched_cycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.arguments import call_law
from ecc.laws.jets import jacobian
from ecc.network.network import Network

__all__ = ["step_marking_cycle"]

Real = NDArray[np.float64]

_TOLERANCE = 1e-9  # relative error per step of the integration between events
_MAX_RTTS = 1e5  # longest time between two events [RTTs]
_MAX_CYCLES = 400  # cycles until the return map has converged
_CONVERGED = 1e-8  # relative change of the state per cycle
_DEVIATION = 1e-5  # relative deviation of a state for differences
_SMALLER = 0.3  # factor on states at a second start of paced windows
_SAME_PERIOD = 0.01  # relative difference of the periods of one cycle
_POINTS = 40  # points of the orbit in each of its parts


def step_marking_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of equal window flows over one link with step marking, from its return map.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts of one protocol with a response to marks, over a discipline with a `marking_threshold`.
    network : Network
        One link, and flows with equal RTTs.
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        The loop or the network has another form, or the windows are at rest with all packets marked.
    ConvergenceError
        The return map does not converge.

    Examples
    --------
    >>> from ecc.cycles.reference_cases import cycle_case
    >>> cycle = step_marking_cycle(*cycle_case(ecc.models.DCTCP()), "continuous")
    >>> 44e3 < cycle.amplitude * 2 < 46e3, cycle.stable
    (True, True)
    """
    parts = marked_windows(loop, network)
    if time == "discrete":
        return _discrete(parts)
    return _paced(parts) if parts.protocol.is_paced else _continuous(parts)


# ---- continuous time -----------------------------------------------------------------------------------------


@dataclass
class _Trace:
    """Time, queue and windows along an orbit, and the integral of the queue over time [bit s]."""

    time: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)
    windows: list[Real] = field(default_factory=list)
    area: float = 0.0

    def extend(self, times: Real, queues: Real, windows: Real) -> None:
        """Append a part of the orbit; times count from its beginning."""
        self.area += float(np.trapezoid(queues, times))
        self.time += list((self.time[-1] if self.time else 0.0) + times)
        self.queue += list(queues)
        self.windows += list(windows)


def _grow(parts: MarkedWindows, y: Real, trace: _Trace) -> Real:
    """Return the state a window of data after the queue has crossed the threshold."""
    from scipy.integrate import solve_ivp

    size = y.size

    def slope(_: float, z: Real) -> Real:
        now = z[:size].reshape(y.shape)
        bits = parts.in_flight(now)
        D, dz = parts.delay(bits), np.empty_like(z)
        rates = dz[:size].reshape(y.shape)
        for row, values in enumerate(now):
            if row and np.array_equal(values, now[0]):  # equal flows have equal slopes
                rates[row] = rates[0]
                continue
            known = parts.supply(values, D, 0.0)
            rates[row, 0] = call_law(parts.protocol.source_law, known) - values[0]
            for k, state in enumerate(parts.protocol.states.values(), 1):
                rates[row, k] = call_law(state.law, known) - values[k]
        dz[size:] = D, bits
        return dz

    def crosses(_: float, z: Real) -> float:
        return parts.in_flight(z[:size].reshape(y.shape)) - parts.pipe - parts.threshold

    start = np.concatenate([y.ravel(), [0.0, 0.0]])
    for event in (crosses, None):
        bits_at_crossing = parts.in_flight(start[:size].reshape(y.shape))
        start[size:] = 0.0

        def acknowledged(_: float, z: Real, bits: float = bits_at_crossing) -> float:
            return float(z[-1]) - bits

        reached: Any = event or acknowledged
        if reached(0.0, start) >= 0.0:
            continue
        reached.terminal, reached.direction = True, 1.0
        found = solve_ivp(
            slope, (0.0, _MAX_RTTS), start, "DOP853", events=reached, rtol=_TOLERANCE, atol=1e-14, dense_output=True
        )
        if not found.t_events[0].size:
            raise ConvergenceError("the queue does not reach the marking threshold", last=found.y[:, -1])
        along = found.sol(np.linspace(0.0, found.t[-1], _POINTS))
        windows = along[:size].reshape(*y.shape, -1)[:, 0]
        queues = np.maximum(parts.counts @ windows - parts.pipe, 0.0)
        trace.extend(along[size], queues, windows.T)
        start = found.y_events[0][0].copy()
    return start[:size].reshape(y.shape)


def _respond(parts: MarkedWindows, y: Real, trace: _Trace) -> Real:
    """Return the state at the end of a marked round, in which windows jump and are held."""
    from scipy.integrate import solve_ivp

    before = parts.in_flight(y)
    after = parts.jumped(y, parts.delay(before))
    D, seconds = parts.delay(before), before / parts.capacity
    for row, values in enumerate(after):
        rounds = y[row, 0] / values[0]  # windows of data acknowledged
        for k, state in enumerate(parts.protocol.states.values(), 1):
            others = values.copy()

            def slope(_: float, v: Real, k: int = k, state: Any = state, others: Real = others) -> list[float]:
                others[k] = v[0]
                return [call_law(state.law, parts.supply(others, D, 1.0)) - float(v[0])]

            values[k] = solve_ivp(slope, (0.0, rounds), values[k : k + 1], "DOP853", rtol=_TOLERANCE).y[0, -1]
    low = parts.queue(parts.in_flight(after))
    drained = min((parts.queue(before) - low) / parts.capacity, seconds)
    windows = np.repeat(after[None, :, 0], 3, axis=0)
    trace.extend(np.array([0.0, drained, seconds]), np.array([parts.queue(before), low, low]), windows)
    return after


def _return(parts: MarkedWindows, y: Real) -> tuple[Real, _Trace]:
    """Return the state at the end of the next marked rounds, and the orbit until then."""
    trace = _Trace()
    y = _grow(parts, y, trace)
    for _ in range(_MAX_CYCLES):
        y = _respond(parts, y, trace)
        if not parts.is_marked(parts.in_flight(y)):
            return y, trace
    raise LinearizationError("all packets are marked, and windows are at their minimum: no cycle")


def _continuous(parts: MarkedWindows) -> LimitCycle:
    y, change = starting_windows(parts), np.inf
    for _ in range(_MAX_CYCLES):
        new, trace = _return(parts, y)
        change = float(np.max(np.abs(new - y) / np.maximum(np.abs(y), 1e-9)))
        y = new
        if change < _CONVERGED:
            break
    else:
        raise ConvergenceError("the return map over the marking threshold does not converge", last=y, residual=change)
    columns = []
    for scale in (_DEVIATION, 2.0 * _DEVIATION):
        responses = []
        for k in range(y.shape[1]):
            step = scale * max(float(y[0, k]), 1e-3)
            ends = []
            for sign in (1.0, -1.0):
                moved = y.copy()
                moved[0, k] += sign * step
                ends.append(_return(parts, moved)[0])
            responses.append((ends[0] - ends[1]) / (2.0 * step))
        columns.append(np.stack(responses, axis=-1))
    multipliers, error = sum_and_differences(columns[0], parts.counts, columns[1])
    method = "return map from a marked round to the next, by differences"
    return _cycle(parts, "continuous", trace, multipliers, method, f"differences have an error of {error:.0e}")


def _paced(parts: MarkedWindows) -> LimitCycle:
    """Return the cycle of paced windows; its notes have the cycle that smaller states reach, if that is another."""
    start = starting_windows(parts)
    cycle = _paced_from(parts, start)
    start[:, 1:] *= _SMALLER
    try:
        other = _paced_from(parts, start)
    except ConvergenceError:
        return cycle
    if abs(other.period / cycle.period - 1.0) < _SAME_PERIOD:
        return cycle
    note = (
        f"a start with smaller {', '.join(parts.names[1:])} reaches another cycle, with a period of {other.period:.4g} "
        f"s and an amplitude of {other.amplitude:.4g} bytes"
    )
    return replace(cycle, notes=(*cycle.notes, note))


def _paced_from(parts: MarkedWindows, start: Real) -> LimitCycle:
    """Return the cycle that the values of all groups reach, if the queue rises through the threshold with them."""
    states = list(parts.protocol.states.values())

    def slope(values: Real, D: float, marked: float) -> Real:
        known = parts.supply(values, D, marked)
        growth = 0.0 if marked > 0.0 else call_law(parts.protocol.source_law, known) - values[0]
        return np.array([growth, *(call_law(state.law, known) - values[k] for k, state in enumerate(states, 1))])

    def response(values: Real, D: float) -> Real:
        return np.array([call_law(parts.response, parts.supply(values, D, 1.0)), *values[1:]])

    interval, counts = parts.protocol.response_interval, parts.counts
    windows = SwitchedWindows(slope, response, interval, counts, parts.capacity, parts.rtt, parts.threshold)
    cycle = switched_cycle(windows, start)
    area = float(np.trapezoid(cycle.queue, cycle.times))
    method = "return map of paced windows at the threshold, by differences"
    note = f"hosts pace at the present RTT, not at a smoothed one; differences have an error of {cycle.error:.0e}"
    trace = _Trace(list(cycle.times), list(cycle.queue), list(cycle.windows), area)
    return _cycle(parts, "continuous", trace, cycle.multipliers, method, note)


# ---- discrete time -------------------------------------------------------------------------------------------


def _discrete(parts: MarkedWindows) -> LimitCycle:
    p = rounds_over_threshold(parts)
    states, closed = cycle_of_rounds(parts, p)
    at = [k for k, (state, after) in enumerate(zip(states, [*states[1:], states[0]], strict=True)) if after[-1]]
    if len(states) == 1:
        raise LinearizationError("all packets are marked, and windows are at their minimum: no cycle")
    if not closed:
        if len(at) < 2:
            raise ConvergenceError("the map per round over the marking threshold has no cycle", last=states[-1])
        states = states[at[0] : at[-1]]
    cuts = len(at) - (not closed)
    shape = (len(parts.counts), len(parts.names))
    varied = range(shape[0] * shape[1])
    total, trace = np.eye(len(varied)), _Trace()
    for state in states:
        total = np.array(jacobian(round_over_threshold, state, p, varied).slopes)[: len(varied)] @ total
        windows = np.array(state[:-1]).reshape(shape)[:, 0]
        bits = float(parts.counts @ windows)
        queue, seconds = parts.queue(bits), parts.delay(bits)
        trace.extend(np.array([0.0, seconds]), np.array([queue, queue]), np.array([windows, windows]))
    columns = total[:, : shape[1]].reshape(*shape, shape[1])
    multipliers, _ = sum_and_differences(columns, parts.counts)
    times = f"{len(states)} rounds with {cuts} response{'s' * (cuts > 1)} to marks"
    method = f"derivative of the map over {times}, by jets"
    if closed:
        return _cycle(parts, "discrete", trace, multipliers, method)
    mean = (np.abs(multipliers) ** (1.0 / cuts)).astype(np.complex128)
    note = f"the orbit does not close within {LONGEST} rounds: period and moduli are means per response"
    cycle = _cycle(parts, "discrete", trace, mean, f"{method}; means", note)
    return replace(cycle, period=cycle.period / cuts)


def _cycle(
    parts: MarkedWindows, time: str, trace: _Trace, multipliers: NDArray[np.complex128], method: str, note: str = ""
) -> LimitCycle:
    times, queue = np.array(trace.time), np.array(trace.queue)
    period, windows = trace.time[-1], np.array(trace.windows).T
    groups = np.repeat(np.arange(len(parts.counts)), parts.counts.astype(int))
    notes = [note, "packets"] if note else ["packets"]
    if queue.min() <= 0.0:
        notes.append("the queue is empty in a part of the cycle")
    return LimitCycle(
        "cycle",
        time,
        period,
        trace.area / period / 8.0,
        0.5 * float(np.ptp(queue)) / 8.0,
        multipliers,
        stable=bool(np.abs(multipliers).max() < 1.0),
        method=method,
        orbit={"time": times, "queue": queue / 8.0, "windows": windows[groups] / 8.0},
        notes=tuple(notes),
    )
