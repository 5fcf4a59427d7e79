"""Cycles of windows around a delay target, above which hosts reduce them once per RTT by a share of the excess.

N equal flows share a link of capacity C, so that D = N w/C while the queue is not empty. With the increase a per RTT
below the target, and the slopes of `decrease_law` right above it at equilibrium,

    beta = -(D/w) d(law)/dD        kappa = (1 - d(law)/dw)/beta

"continuous", two flows or more: reductions are spread over the RTT, and the deviation x of the queue in units of N a
follows x' = 1 or x' = -beta v with v = x(t - 1) + kappa x (`ecc.cycles.target_cycles`). The cycle is reached after
one increase, so that the multipliers of the sum are 0. A difference delta between two windows, in units of a, is kept
during increases and shrinks by beta (kappa + v a/w) per RTT during reductions. The integral of beta v is the swing G of
x. The excess of the larger window is v + kappa delta: its increases end earlier by kappa delta/(1 + kappa) RTTs, and
begin later by kappa delta/|v'|, with the slope v' of v there. Hence

    multiplier of a difference per cycle = exp(-beta kappa T - G a/w)/(1 + kappa) (1 - kappa/|v'|)

with the duration T of the reductions in RTTs.

"discrete", and a single flow: hosts act once per RTT, all at the same time. Right above the target w -> decrease_law is
a map with the fixed point D = D*. Its multipliers are 1 - beta (1 + kappa) for the sum and 1 - beta kappa for
differences. Right below it windows grow by a, to above the target.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.target_cycles import target_cycle
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_except, arguments_from, call_law
from ecc.laws.jets import gradient
from ecc.network.network import Network

__all__ = ["delay_target_cycle"]

_ARGUMENTS = ("w", "R", "D", "since", "s", "p")
_ABOVE = 1e-9  # relative distance from the target of the delay at which laws have the slopes of reductions


def delay_target_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle, or the point of rest in rounds, of equal windows around a delay target.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        Hosts with a `decrease_law` that begins at a target for the delay D.
    network : Network
        One link, and flows with equal RTTs.
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        The loop or the network has another form, or swings decay.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Gb/s", ["10 us"] * 10, packet_size=4000)
    >>> swift = ecc.models.Swift(base_target="20 us", hop_scaling=0.0, fs_range="50 us")
    >>> cycle = delay_target_cycle(swift, net, "continuous")
    >>> round(cycle.dominant.real, 2)
    0.43
    """
    if not isinstance(loop, Protocol) or loop.decrease_law is None:
        raise LinearizationError("it has no law for reductions once per RTT")
    laws = (loop.source_law, loop.decrease_law)
    if any(arguments_except(law, _ARGUMENTS) for law in laws) or arguments_except(loop.router_law, ("p",)):
        raise LinearizationError("the laws of its windows have arguments other than delays")
    if network.n_links != 1 or np.ptp(network.rtts) > 0.0:
        raise LinearizationError("hosts with a delay target must have equal RTTs over a single link")
    n, capacity = network.n_flows, float(network.capacities[0])
    point = loop.equilibrium(network)
    assert point.queue is not None
    queue = float(point.queue[0])
    D = float(network.rtts[0]) + queue / capacity
    w = float(point.rates[0]) * D
    if not 0.99 < n * w / (capacity * D) < 1.01 or queue <= 0.0:
        raise LinearizationError("the delay exceeds the target without a queue: the link is not busy")
    params = loop.namespace()
    known: dict[str, Any] = {"w": w, "D": D, "since": np.inf, "s": 8.0 * network.flows[0].mean_packet, "p": params}
    known["R"] = call_law(loop.router_law, {"p": params})
    above = {**known, "D": D * (1.0 + _ABOVE)}
    slope = gradient(loop.decrease_law, arguments_from(loop.decrease_law, above), ["w", "D"])
    increase = call_law(loop.source_law, {**known, "D": D * (1.0 - _ABOVE)}) - w
    beta = -slope["D"] * D / w
    if not 0.0 < beta <= 1.0 or increase <= 0.0:
        raise LinearizationError("right above the equilibrium its windows do not fall by a share of the excess delay")
    kappa = (1.0 - slope["w"]) / beta
    if time == "discrete" or n == 1:
        return _in_rounds(time, n, D, queue, beta, kappa, increase)
    return _spread(n, D, queue, w, beta, max(kappa, 0.0), increase)


def _in_rounds(time: str, n: int, D: float, queue: float, beta: float, kappa: float, increase: float) -> LimitCycle:
    values = np.array([1.0 - beta * (1.0 + kappa), *[1.0 - beta * kappa] * (n - 1)], dtype=np.complex128)
    notes = (
        f"right below the target, windows grow by {increase / 8.0:.4g} bytes in a round, and then return from above",
        "packets",
    )
    return LimitCycle(
        "cycle",
        time,
        D,
        queue / 8.0,
        0.0,
        values[np.argsort(-np.abs(values), kind="stable")],
        along=0,
        stable=bool(np.abs(values).max() < 1.0),
        method="point of rest of the map per round, right above the target, by jets",
        notes=notes,
    )


def _spread(n: int, D: float, queue: float, w: float, beta: float, kappa: float, increase: float) -> LimitCycle:
    cycle = target_cycle(beta, kappa)
    if cycle is None:
        raise LinearizationError(f"swings around the delay target decay, with beta = {beta:.3g}, kappa = {kappa:.3g}")
    rising, unit = cycle.largest - cycle.least, n * increase
    reduced = exp(-beta * kappa * (cycle.period - rising) - rising * increase / w)
    kept = reduced / (1.0 + kappa) * (1.0 + kappa / cycle.excess_rate)
    values = np.array([*[kept] * (n - 1), 0.0], dtype=np.complex128)
    notes = ["windows of a packet or two", "packets"]
    if queue + cycle.least * unit <= 0.0:
        notes.insert(0, "the queue would be empty in a part of the cycle, which the solution does not have")
    return LimitCycle(
        "cycle",
        "continuous",
        cycle.period * D,
        (queue + cycle.mean * unit) / 8.0,
        0.5 * rising * unit / 8.0,
        values,
        stable=True,
        method="solution from the end of an increase, with reductions spread over the RTT; differences by quadrature",
        notes=tuple(notes),
    )
