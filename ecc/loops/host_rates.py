"""The linear model of hosts that set rates from the queues of their path, around an equilibrium with queues.

Flow i has rate x_i, other states v_i (for example, the gradient of the RTT) and RTT D_i, queues included. Link l has
queue q_l, and r_l(q_l) is the feedback of its router law. A packet reaches that queue F_il after it was sent, and
D_i - F_il passes from there until the ACK that reports the queue. A rate is updated every h_i (`source_clock`): once in
T, or once an ACK if ACKs are further apart. Deviations from the equilibrium, with derivatives g of the source law and G
of the laws of the states:

    h_i x_i' = (g_x - 1) x_i(t - h_i) + g_v v_i(t) + sum_l [(g_R r_l' + g_D/C_l) q_l(t - D_i + F_il)
                                                           + g_{R_prev} r_l' q_l(t - D_i + F_il - h_i)]
    h_i v_i' = (G_v - 1) v_i(t) + G_x x_i(t - h_i) + sum_l [...]  with G instead of g
    q_l'     = sum_i x_i(t - F_il)

If the clock of the source is "continuous", laws return x_i' and v_i' themselves, as functions of x_i(t), without h_i
and the -1. A law that takes the rate of one RTT ago adds the term g_{x_rtt} x_i(t - D_i). If feedback is written at
departure, q_l is read when a packet has left it: the wait in that queue is not part of the delay of r_l.

These are the equations of `ecc.fluid.network.continuous`. Delays that change with queues and rates have no first-order
effect, because the delayed quantities are constant at the equilibrium. Equal flows are represented by their sum. Their
differences obey the same equations without queues, and are included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.entries import Taken
from ecc.contract.kinds import source_takes
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import clock_of_states, equilibrium_of, state_at, states_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem
from ecc.loops.options import ModelChoice
from ecc.network.network import Network

__all__ = ["linearize_rates"]

_SOURCE = ("x", "x_rtt", "R", "R_prev", "D", "T", "s", "p")
_TAKEN = Taken(
    "a linear model",
    {"router_law": ("q", "C", "T", "p"), "source_law": _SOURCE},
    {"combine": ("sum",), "source_clock": None, "stamping": None, "states": None},
    {"opening_rate": "", "floor": "", "initial": ""},  # at an equilibrium no flow starts, no rate is at its floor
    model="linear model",
    of_states=_SOURCE,
)
_EQUAL = 1e-9  # relative: rounding in the equilibrium


def linearize_rates(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem:
    """Return the linear model; its state: x and other states of each kind of flow, queues, differences.

    Parameters
    ----------
    protocol : Protocol
        Protocol of hosts that have states in addition to the rate.
    network : Network
    choice : ModelChoice
        Its assignment, which `Protocol.equilibrium` takes.

    Raises
    ------
    ValueError
        If a law takes other arguments, or a state has another clock.
    LinearizationError
        If no equilibrium or no queue exists, or a path has several queues.
    """
    name = type(protocol).__name__
    _TAKEN.check(protocol)
    states = states_of(protocol)
    clock = clock_of_states(protocol)
    if bad := [state for state, its in states.items() if its.clock != clock or its.law is None]:
        raise ValueError(f"{name} has no linear model: its state {bad[0]} must have a law and the clock {clock!r}")
    derivatives = clock == "continuous"  # returned by the laws
    steps = source_takes(protocol, "x") and not derivatives
    point = equilibrium_of(protocol, network, choice.assignment)
    waits = np.zeros(network.n_links) if point.queue is None else point.queue / network.capacities
    queues: list[int] = np.flatnonzero(waits > _EQUAL * waits.max(initial=0.0)).tolist()
    if not queues:
        raise LinearizationError(f"{name} has no linear model on this network: no link has a queue at the equilibrium")
    if network.incidence[:, queues].sum(axis=1).max() > 1:
        raise LinearizationError(f"{name} has no linear model if a path has several queues")
    kinds = _kinds(network, point.rates)
    width = 1 + len(states)
    first = [k * width for k in range(len(kinds))]
    differences = width * len(kinds) + len(queues)
    several = [k for k, members in enumerate(kinds) if len(members) > 1]
    size = differences + width * len(several)
    terms: dict[float, NDArray[np.float64]] = defaultdict(lambda: np.zeros((size, size)))
    seen: list[tuple[float, int, int, float]] = []  # terms in queues
    for k, members in enumerate(kinds):
        flow = network.flows[members[0]]
        route, x = list(flow.route), float(point.rates[members[0]])
        D = float(network.rtts[members[0]] + waits[route].sum())
        h = _update_time(protocol, 8.0 * flow.mean_packet / x, D)
        reports = {link: _report(protocol, network, link, waits) for link in route}
        R = sum(value for value, _ in reports.values())
        at: dict[str, Any] = {
            "x": x,
            "x_rtt": x,
            "s": 8.0 * flow.mean_packet,
            "R": R,
            "R_prev": R,
            "D": D,
            "T": interval_of(protocol),
            "p": protocol.namespace(),
        }
        at |= {state: state_at(point, state, its, members[0]) for state, its in states.items()}
        blocks = [first[k], *(differences + several.index(other) * width for other in several if other == k)]
        for row, (law, value) in enumerate(
            [(protocol.source_law, x), *((its.law, at[state]) for state, its in states.items())]
        ):
            g = _slopes(law, at, value, name, derivatives)
            pace, earlier = (1.0, 0.0) if derivatives else (1.0 / h, h)
            for block in blocks:
                if not derivatives:
                    terms[h if row == 0 and steps else 0.0][block + row, block + row] -= pace
                terms[earlier][block + row, block] += g.get("x", 0.0) * pace
                if "x_rtt" in g:
                    terms[D][block + row, block] += g["x_rtt"] * pace
                for column, state in enumerate(states, start=1):
                    terms[0.0][block + row, block + column] += g.get(state, 0.0) * pace
            for link in set(route) & set(queues):
                column = width * len(kinds) + queues.index(link)
                back = D - float(network.forward_delays[members[0], link]) - _upstream_wait(route, link, waits)
                slope, weight = reports[link][1], len(members) * pace
                read = back if protocol.stamping == "arrival" else back - float(waits[link])
                seen.append((read, first[k] + row, column, weight * g.get("R", 0.0) * slope))
                seen.append((back, first[k] + row, column, weight * g.get("D", 0.0) / float(network.capacities[link])))
                seen.append((read + h, first[k] + row, column, weight * g.get("R_prev", 0.0) * slope))
        for link in set(route) & set(queues):
            column = width * len(kinds) + queues.index(link)
            terms[float(network.forward_delays[members[0], link])][column, first[k]] += 1.0
    opened = DelaySystem([matrix.copy() for matrix in terms.values()], list(terms))
    for delay, row, column, value in seen:
        if value != 0.0:
            terms[delay][row, column] += value
    return DelaySystem(list(terms.values()), list(terms), opened=opened, notes=point.notes)


def _upstream_wait(route: list[int], link: int, waits: NDArray[np.float64]) -> float:
    """Return the total wait [s] of a packet in the queues upstream of a link."""
    return float(waits[route[: route.index(link)]].sum())


def _kinds(network: Network, rates: NDArray[np.float64]) -> list[list[int]]:
    """Group equal flows."""
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        delays = network.forward_delays[i, list(flow.route)].tolist()
        equal[flow.route, tuple(delays), float(network.rtts[i]), flow.mean_packet, float(rates[i])].append(i)
    return list(equal.values())


def _update_time(protocol: Protocol, spacing: float, D: float) -> float:
    """Return the time between updates of a rate [s]; `spacing`: time between ACKs [s]."""
    T = interval_of(protocol)
    return {"continuous": T, "always": T, "ack": spacing, "rtt": max(spacing, D), "interval": max(spacing, T)}[
        protocol.source_clock
    ]


def _report(protocol: Protocol, network: Network, link: int, waits: NDArray[np.float64]) -> tuple[float, float]:
    """Return the feedback of a link at the equilibrium, and its derivative with respect to the queue."""
    C = float(network.capacities[link])
    known = {"q": float(waits[link]) * C, "C": C, "T": interval_of(protocol), "p": protocol.namespace()}
    at = arguments_from(protocol.router_law, known)
    value = value_of(protocol.router_law, at, type(protocol).__name__, "router_law")
    return value, gradient(protocol.router_law, at, ["q"])["q"]


def _slopes(
    law: Callable[..., float] | None, at: dict[str, Any], value: Any, name: str, derivative: bool
) -> dict[str, float]:
    """Return the derivatives of a law, after a check that it keeps its value, or returns a derivative of 0."""
    assert law is not None
    supply = arguments_from(law, at)
    law_value = value_of(law, supply, name)
    residual = law_value * at["T"] if derivative else law_value - value
    if abs(residual) > _EQUAL * max(1.0, abs(value)):
        raise LinearizationError(f"no equilibrium: the laws of {name} do not stay at it")
    return gradient(law, supply, [argument for argument in supply if argument not in ("T", "s", "p")])
