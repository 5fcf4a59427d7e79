"""Hosts that set rates, as fluid in discrete time: each updates its rate at its own times, and holds it in between.

Flow i has rate x_i, other states v_i (for example, an average of marks) and RTT D_i, queues included. It updates them
when the first ACK arrives, and then every h_i:

    "interval"     h_i = T, or the time between its ACKs if that is longer
    "ack", "rtt"   h_i = the time between its ACKs, or its RTT if that is longer
    "always"       h_i = T
    "continuous"   h_i = T; laws return derivatives

    v_i <- law(v_i, x_i, R_i, R_prev_i, D_i, ...)        in the order of `states`; each takes the earlier ones after it
    x_i <- source_law(x_i, v_i, R_i, R_prev_i, D_i, ...)
    v_i <- v_i + T law(...),  x_i <- x_i + T source_law(...)        "continuous": of the values before the update
    R_i = sum over the path of router_law(q_l),  q_l' = y_l - C_l   within 0 and the buffer; the excess is lost

R_i and D_i are those of the data acknowledged at the time of the update: q_l is the queue on their arrival or departure
(`stamping`). R_prev is R at the update before. No delay is rounded, so that these are the hybrid linear models of
`ecc.loops.host_rates`, and its discrete ones if all delays are whole intervals. The grid divides the interval of hosts
into equal steps of up to a 200th of the shortest RTT; queues and paths are as in `curves`.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.compiled import FloatRows, Floats, Integers, call, entry, inlined, unpacker
from ecc.fluid.network.curves import (
    Curves,
    Paths,
    arrive,
    at,
    at_equilibrium,
    clear,
    curves_of,
    drop,
    look_back,
    paths_of,
    result_of,
    serve,
)
from ecc.fluid.network.grid import ROUTER, SOURCE, STATE, Grid, failed
from ecc.fluid.network.host_states import states_of_rates
from ecc.fluid.network.initial_conditions import InitialConditions
from ecc.fluid.network.laws import ARGUMENTS, CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result

__all__ = ["advance", "run"]

FloatArray = NDArray[np.float64]

_R, _Y, _Y_PREV, _U, _N, _N_ALL, _Q, _C, _D, _T, _X, _X_RTT, _R_PREV, _OWN_RTT, _S, _RESULT = range(len(ARGUMENTS))
_STATES = len(ARGUMENTS)
_STEPS = 200  # minimum number of steps of the grid in the shortest RTT
_EACH_INTERVAL, _EACH_ACK, _EACH_RTT, _AT_ALL_TIMES, _DERIVATIVES = range(5)
_CLOCKS = ("interval", "ack", "rtt", "always", "continuous")
_UNKNOWN = -np.inf
_pointers = unpacker("ff")


class Rules(NamedTuple):
    """Laws, and the options of their application."""

    router: int
    source: int
    states: int  # law that writes the next values of all states, or their derivatives; 0: no states
    addresses: Integers  # addresses of the record and of the parameters
    record: Floats
    failed: Floats  # `Grid.failed`
    clock: int
    at_arrival: int  # whether headers read queues on arrival


class Sources(NamedTuple):
    """State of a source of each group."""

    floor: Floats  # [bit], an RTT
    x: Floats
    states: FloatRows  # (n_groups, n_states)
    lowest: Floats  # (n_states,)
    highest: Floats  # (n_states,)
    due: Floats  # s, next update; inf before the first ACK
    feedback: Floats  # R at the last update; -inf before the first


@entry
def advance(
    begin: int,
    end: int,
    h: float,
    zero: int,
    paths: Paths,
    curves: Curves,
    rules: Rules,
    sources: Sources,
) -> Any:
    """Take steps on the grid; return 0, or the status of a law that failed."""
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(paths.members)):
            _send(paths, curves, sources, g, i, t, h)
            u = look_back(paths, curves, g, i)
            if sources.due[g] == np.inf and (u - zero) * h >= paths.start[g]:
                sources.due[g] = t
            if t >= sources.due[g] - 1e-9 * h and t < paths.stop[g]:
                status = _update(paths, curves, rules, sources, g, i, u, t, h)
                if status != 0:
                    return status
        clear(curves)
        for c in range(len(paths.links)):
            arrive(paths, curves, c, i)
        for link in range(len(paths.buffer)):
            serve(paths, curves, link, i)
        drop(paths, curves, i)
    return 0


@inlined
def _send(paths: Any, curves: Any, sources: Any, g: int, i: int, t: float, h: float) -> None:
    """Send at the present rate in the step that ends at t."""
    sent = curves.sent
    seconds = max(0.0, min(t, paths.stop[g]) - max(t - h, paths.start[g]))
    bits = sources.x[g] * seconds
    sent[g, i] = sent[g, i - 1] + bits
    if sent[g, i] >= paths.size[g]:
        sent[g, i] = paths.size[g]
        paths.stop[g] = min(paths.stop[g], t)


@inlined
def _update(paths: Any, curves: Any, rules: Any, sources: Any, g: int, i: int, u: float, t: float, h: float) -> Any:
    """Update the rate and the states of a host by the data acknowledged now; return 0, or the status of a law."""
    pointer, params = _pointers(rules.addresses)
    record, n_states = rules.record, sources.states.shape[1]
    status, R = _feedback(paths, curves, rules, g, t)
    if status != 0:
        return status
    D, sent_then = (i - u) * h, (at(curves.sent[g], u) - at(curves.sent[g], u - 1.0)) / h
    record[_R], record[_R_PREV], record[_OWN_RTT] = R, sources.feedback[g], D
    if record[_R_PREV] == _UNKNOWN:
        record[_R_PREV] = R
    record[_X], record[_X_RTT], record[_S] = sources.x[g], sent_then, paths.packet[g]
    for k in range(n_states):
        record[_STATES + k] = sources.states[g, k]
    if rules.clock == _DERIVATIVES:
        status = _step_by_derivatives(rules, sources, g, t)
    else:
        for k in range(n_states):
            status = call(rules.states, (pointer, pointer, params, pointer))
            if status != 0:
                return failed(rules.failed, STATE, g, t, status)
            record[_STATES + k] = min(max(record[_STATES + n_states + k], sources.lowest[k]), sources.highest[k])
        status = call(rules.source, (pointer, pointer, params, pointer))
        if status != 0:
            return failed(rules.failed, SOURCE, g, t, status)
        sources.x[g] = record[_RESULT]
    if status != 0:
        return status
    for k in range(n_states):
        sources.states[g, k] = record[_STATES + k]
    sources.x[g] = max(sources.x[g], sources.floor[g] / D)
    sources.feedback[g] = R
    sources.due[g] += _until_next(paths, rules, sent_then, D, g)
    return 0


@inlined
def _step_by_derivatives(rules: Any, sources: Any, g: int, t: float) -> Any:
    """Move the states in the record and the rate by an interval; return 0, or the status of a law."""
    pointer, params = _pointers(rules.addresses)
    record, n_states = rules.record, sources.states.shape[1]
    status = call(rules.source, (pointer, pointer, params, pointer))
    if status != 0:
        return failed(rules.failed, SOURCE, g, t, status)
    sources.x[g] += record[_T] * record[_RESULT]
    if n_states > 0:
        status = call(rules.states, (pointer, pointer, params, pointer))
        if status != 0:
            return failed(rules.failed, STATE, g, t, status)
    for k in range(n_states):
        moved = record[_STATES + k] + record[_T] * record[_STATES + n_states + k]
        record[_STATES + k] = min(max(moved, sources.lowest[k]), sources.highest[k])
    return 0


@inlined
def _feedback(paths: Any, curves: Any, rules: Any, g: int, t: float) -> Any:
    """Return the status of the router law, and the sum of the feedback of all links to the data acknowledged now."""
    pointer, params = _pointers(rules.addresses)
    record, status, total = rules.record, 0, 0.0
    for c in range(paths.first[g], paths.first[g + 1]):
        link = paths.links[c]
        read = curves.entered_at[c] if rules.at_arrival != 0 else curves.left_at[c]
        record[_Q] = max(0.0, at(curves.into[link], read) - at(curves.out[link], read))
        record[_C] = paths.capacity[link, max(0, int(read))]
        status = call(rules.router, (pointer, pointer, params, pointer))
        if status != 0:
            return failed(rules.failed, ROUTER, link, t, status), 0.0
        total += record[_RESULT]
    return status, total


@inlined
def _until_next(paths: Any, rules: Any, acked: float, D: float, g: int) -> Any:
    """Return the time to the next update [s]; ACKs of data that were sent at a rate return packet by packet."""
    T = rules.record[_T]
    if rules.clock == _DERIVATIVES or rules.clock == _AT_ALL_TIMES:
        return T
    spacing = paths.packet[g] / acked if acked > 0.0 else T
    if rules.clock == _EACH_ACK:
        return spacing
    return max(spacing, D if rules.clock == _EACH_RTT else T)


def run(problem: Problem) -> Result:
    """Compute the curves of a network whose hosts update rates at their times.

    Parameters
    ----------
    problem : Problem
        Problem with a protocol whose hosts set rates, and routers without memory.

    Returns
    -------
    Result
    """
    protocol, fluid = problem.protocol, problem.fluid
    laws, states = CompiledLaws(protocol, shared=problem.shared), states_of_rates(protocol)
    initial = InitialConditions.of(protocol, laws, fluid, problem.point, problem.factor)
    T = float(protocol.params()["interval"])
    h = T / ceil(_STEPS * T / float(fluid.rtt.min()))
    grid = Grid.of(h, 3 + ceil(float(initial.rtt.max()) / h), problem.samples)
    paths = paths_of(fluid, grid)
    curves = curves_of(paths, fluid, grid)
    x = np.maximum(initial.x, fluid.floor(protocol) / initial.rtt)
    of_hosts = np.array([[float(state.initial)] * fluid.n_groups for state in states.values()]).T  # type: ignore[arg-type]
    of_hosts = np.ascontiguousarray(of_hosts.reshape(fluid.n_groups, len(states)))
    if problem.point is not None:
        at_equilibrium(paths, curves, problem, grid, x, initial.queue)
        for k, name in enumerate(states):
            if name in problem.point.states:
                of_hosts[:, k] = np.asarray(problem.point.states[name])[fluid.first_flow]
    record = np.zeros(len(ARGUMENTS) + 2 * len(states))
    record[_T] = T
    rules = Rules(
        laws.router,
        laws.source,
        laws.states,
        np.array([record.ctypes.data, laws.params.ctypes.data]),
        record,
        grid.failed,
        _CLOCKS.index(protocol.source_clock),
        int(protocol.stamping == "arrival"),
    )
    sources = Sources(
        fluid.floor(protocol),
        x,
        of_hosts,
        np.array([state.lowest for state in states.values()]),
        np.array([state.highest for state in states.values()]),
        np.full(fluid.n_groups, np.inf if problem.point is None else T),
        np.full(fluid.n_groups, _UNKNOWN),
    )
    recorded = {"flow.x": x} | {f"flow.{name}": of_hosts[:, k] for k, name in enumerate(states)}
    grid.run(
        lambda begin, end: int(advance(begin, end, h, grid.zero - 1, paths, curves, rules, sources)),
        problem.progress,
        recorded if problem.records else None,
        code=[laws.code],
        flows=fluid.first_flow,
    )
    return result_of(grid, paths, curves)
