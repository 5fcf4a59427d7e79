"""The linear model of window protocols around an equilibrium with queues: ACK clocking and queueing delays.

Flow i has window w_i, rate x_i and RTT D_i, queues included. A packet waits b_l = q_l/C_l in the queue of link l. It
reaches that queue F_il after it was sent, and D_i - F_il passes from there until the ACK that reports it. R is summed
over the path. Deviations from the equilibrium, with derivatives of the laws:

    D_i w_i' = (g_w - 1) w_i(t) + sum_l (g_R r_q C_l + g_D) b_l(t - D_i + F_il)

    "ack"        w_i(t) = S_i(t) - S_i(t - D_i) + x_i sum_l b_l(t - D_i + F_il)      S_i  total amount sent
                 C_l b_l(t) = sum_i S_i(t - F_il)
    "rate"       C_l b_l' = sum_i [X_i(t - F_il) - x_i sum_k b_k'(t - F_il + F_ik)]  k  queues upstream of l
                 X_i = w_i/D_i - x_i/D_i sum_l b_l(t - D_i + F_il)

"ack" describes window protocols (Tang, Jacobsson, Andrew, Low 2007, and the fluid of `ecc.fluid.network`): a window is
the number of bits in flight. If the flows of a queue have equal RTTs and no other queue, S cancels:
C_l b_l = sum_i w_i(t - F_il). If RTTs differ, sum_i [x_i b - e^(-s F_i) w_i]/(1 - e^(-s D_i)) = 0: departures repeat in
patterns, some of which decay arbitrarily slowly, and the stability of a neutral system with roots so near the axis
cannot be decided. Some patterns even grow. For example, two flows of FAST with gamma = 0.5, equal alpha, RTTs of 100
and 199 ms and 10 ms in the queue have a root at 0.00088 + 63.04j 1/s. "rate" is the choice of models in which queues
integrate the rates w/D (Low, Peterson, Wang 2002).

Differences between equal flows obey D w' = (g_w - 1) w by themselves, as queues do not change; in the discrete model
w[n + 1] = [1 + (g_w - 1)/m] w[n] for m updates per RTT. Unless they decay, they are states of the model, too.

In the discrete model each host acts once per RTT and holds its window, over the same queues
(`ecc.loops.rounds_of_windows`). With ACK clocking, one queue and one RTT it is w[n + 1] = law(w[n], q[n]),
q[n] = sum w[n] - C d.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.entries import Taken
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_from, value_of
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.options import ModelChoice
from ecc.loops.rounds_of_windows import act_at_ticks
from ecc.network.network import Network

__all__ = ["linearize_windows"]

_TAKEN = Taken(
    "a linear model",
    {"router_law": ("q", "C", "s", "p"), "source_law": ("w", "R", "D", "s", "a", "p")},
    {"combine": None},
    # no flow starts and no packet is lost at an equilibrium
    {"slow_start_law": "", "loss_response_law": "", "memory_law": "", "initial": "", "opening_window": ""},
    model="linear model",
)
_EQUAL = 1e-9  # relative: rounding in the equilibrium


@dataclass(frozen=True)
class _Group:
    """Equal flows: their number, rate and RTT, and the derivatives of their law with respect to w and to waits.

    `by_window`: g_w; `late`: queue -> F; `by_wait`: queue -> g_R r_q C + g_D.
    """

    members: int
    x: float
    D: float
    by_window: float
    late: dict[int, float]
    by_wait: dict[int, float]


class _Terms:
    """Matrices by delay."""

    def __init__(self, size: int) -> None:
        self.at: dict[float, NDArray[np.float64]] = defaultdict(lambda: np.zeros((size, size)))

    def add(self, delay: float, row: int, column: int, value: float) -> None:
        self.at[delay][row, column] += value


def linearize_windows(protocol: Protocol, network: Network, choice: ModelChoice) -> DelaySystem | SampledSystem:
    """Return the linear model; its state has a window [bit] for each kind of flow, times the number of flows.

    If clocking is "rate", the state also has the waits b [s] of the queues. Differences of flows that do not decay are
    the last states.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a source law of w, R, D, s, a, p only, and a router law of q, C, s, p only. R is a sum over links.
    network : Network
    choice : ModelChoice
        Its time, "continuous" or "discrete"; its clocking, "ack" if it is None; its assignment, which
        `Protocol.equilibrium` takes; and its updates per RTT, for the time "discrete".

    Returns
    -------
    DelaySystem or SampledSystem

    Raises
    ------
    ValueError
        If a law takes other arguments, or the time is "hybrid": nothing in this kind of loop has a clock in seconds.
    LinearizationError
        If no equilibrium or no queue exists; or clocking is "ack", and RTTs are heterogeneous or a path has several
        queues; or the time is "discrete", and the ticks of hosts do not repeat.
    """
    name, clocking = type(protocol).__name__, choice.clocking or "ack"
    _TAKEN.check(protocol)
    if choice.time == "hybrid":
        raise ValueError(f"{name} has no control interval: time must be 'continuous' or 'discrete'")
    point = equilibrium_of(protocol, network, choice.assignment)
    waits = np.zeros(network.n_links) if point.queue is None else point.queue / network.capacities
    queues: list[int] = np.flatnonzero(waits > _EQUAL * waits.max(initial=0.0)).tolist()
    if not queues or protocol.combine != "sum":
        raise LinearizationError(
            f"{name} has no linear model: windows must have an equilibrium with queues, and R be their sum "
            "(combine = 'sum', bottleneck -1 at the equilibrium)"
        )
    groups = _groups(protocol, network, point.rates, waits, queues)
    updates = (choice.updates_per_rtt or 1) if choice.time == "discrete" else None
    differences = [group for group in groups if group.members > 1 and not _differences_decay(group, updates)]
    first = len(groups) + (len(queues) if clocking == "rate" else 0)
    terms, late = _Terms(first + len(differences)), _Terms(first + len(differences))
    for place, group in [*enumerate(groups), *enumerate(differences, first)]:
        terms.add(0.0, place, place, (group.by_window - 1.0) / group.D)
    if clocking == "rate":
        _integrate(terms, late, groups, network.capacities[queues])
    opened = DelaySystem([m.copy() for m in terms.at.values()], list(terms.at), **_neutral(late))
    for g, group in enumerate(groups):
        for k, by_wait in group.by_wait.items():
            gain, back = group.members * by_wait / group.D, group.D - group.late[k]
            if clocking == "rate":
                terms.add(back, g, len(groups) + k, gain)
                continue
            gain /= float(network.capacities[queues[k]])
            for j, other in enumerate(groups):
                if k in other.late:
                    _check_equal(group, other)
                    terms.add(back + other.late[k], g, j, gain)
    notes = point.notes
    if differences:
        notes = (*notes, "differences between equal flows do not decay: their split of the rates does not return")
    system = DelaySystem(list(terms.at.values()), list(terms.at), opened=opened, notes=notes, **_neutral(late))
    if choice.time == "continuous":
        return system
    assert updates is not None
    intervals = {g: group.D / updates for g, group in [*enumerate(groups), *enumerate(differences, first)]}
    return act_at_ticks(system, intervals, [group.D for group in groups], notes)


def _groups(
    protocol: Protocol, network: Network, rates: NDArray[np.float64], waits: NDArray[np.float64], queues: list[int]
) -> list[_Group]:
    """Differentiate the laws at the equilibrium."""
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        delays = network.forward_delays[i, list(flow.route)].tolist()
        equal[
            flow.route, tuple(delays), float(network.rtts[i]), flow.mean_packet, flow.mean_acknowledged, float(rates[i])
        ].append(i)
    p, name = protocol.namespace(), type(protocol).__name__
    groups = []
    for (route, delays, rtt, packet, acknowledged, x), members in equal.items():
        waited = np.cumsum([0.0, *waits[list(route)]]).tolist()
        D, s, R = rtt + waited[-1], 8.0 * packet, 0.0
        late, slopes = {}, {}
        for index, link in enumerate(route):
            C = float(network.capacities[link])
            at = arguments_from(protocol.router_law, {"q": float(waits[link]) * C, "C": C, "s": s, "p": p})
            R += value_of(protocol.router_law, at, name, "router_law")
            if link in queues:
                late[queues.index(link)] = delays[index] + waited[index]
                slopes[queues.index(link)] = C * gradient(protocol.router_law, at, ["q"])["q"]
        at = arguments_from(protocol.source_law, {"w": x * D, "R": R, "D": D, "s": s, "a": 8.0 * acknowledged, "p": p})
        w = value_of(protocol.source_law, at, name, "source_law")
        if abs(w - x * D) > _EQUAL * x * D:
            raise LinearizationError(
                f"no equilibrium: flow {members[0]} would move from its window of {x * D:g} bit to {w:g} bit"
            )
        g = gradient(protocol.source_law, at, [name for name in ("w", "R", "D") if name in at])
        by_wait = {k: g.get("R", 0.0) * slope + g.get("D", 0.0) for k, slope in slopes.items()}
        groups.append(_Group(len(members), x, D, g.get("w", 0.0), late, by_wait))
    return groups


def _differences_decay(group: _Group, updates: int | None) -> bool:
    """Return whether differences between equal flows decay; `updates`: per RTT, in the discrete model."""
    if updates is None:
        return group.by_window < 1.0 - _EQUAL
    return abs(1.0 + (group.by_window - 1.0) / updates) < 1.0 - _EQUAL


def _check_equal(group: _Group, other: _Group) -> None:
    """Refuse paths with several queues and unequal RTTs: S does not cancel for them."""
    if len(group.late) > 1:
        raise LinearizationError(
            f"windows have no ACK-clocked linear model if a path has several queues, got {len(group.late)}: "
            "use clocking='rate'"
        )
    if abs(group.D - other.D) > _EQUAL * group.D:
        raise LinearizationError(
            f"windows have no ACK-clocked linear model with heterogeneous RTTs in a queue, got {group.D:g} and "
            f"{other.D:g} s: departures repeat in patterns that do not decay; use clocking='rate'"
        )


def _integrate(terms: _Terms, late: _Terms, groups: list[_Group], capacities: NDArray[np.float64]) -> None:
    """Add the equations of queues that integrate the rates at which flows leave upstream queues."""
    for g, group in enumerate(groups):
        for link, forward in group.late.items():
            C, row = float(capacities[link]), len(groups) + link
            share = group.members * group.x / C
            terms.add(forward, row, g, 1.0 / (group.D * C))
            for k, other_forward in group.late.items():
                terms.add(forward + group.D - other_forward, row, len(groups) + k, -share / group.D)
                if other_forward < forward:
                    late.add(forward - other_forward, row, len(groups) + k, share)


def _neutral(late: _Terms) -> dict[str, Any]:
    return {"neutral": list(late.at.values()), "neutral_delays": list(late.at)}
