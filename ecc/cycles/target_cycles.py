"""The limit cycle of hosts that keep the delay at a target, and once an RTT reduce it by a share of the excess.

Many hosts, with reductions spread over the RTT, are on average a fluid with one delay. Time is in RTTs, and x is the
deviation of the delay from its equilibrium in units of the increase by all hosts in an RTT:

    v = x(t - 1) + kappa x(t)           excess that hosts see over their targets, which fall by kappa x
    x' = 1            v < 0             additive increase
    x' = -beta v      v >= 0            the share beta of the excess, once an RTT by each host

The increase ends at v = 0. If it lasted an RTT, the last RTT was the line x = 1/(1 + kappa) + t, t <= 0, regardless of
the earlier history: the cycle is the solution from there. It is reached after one increase; all its multipliers are 0.
The increase after x has fallen to x_0 lasts an RTT if x_0 <= -kappa/(1 + kappa). Otherwise it is shorter, and swings
decay. If beta exp(1 + beta kappa) <= 1 there is a real root, and x decreases to 0 without an oscillation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed
from ecc.fluid.dde.solver import solve_dde

__all__ = ["TargetCycle", "target_cycle"]

_HORIZON = 40.0  # RTTs within which any solution that oscillates has crossed 0, or is close enough to it


@dataclass(frozen=True, repr=False)
class TargetCycle(Displayed):
    """Deviations of the delay from its equilibrium, in units of all hosts' increase in an RTT; `period` in RTTs.

    `excess_rate`: change of the excess v per RTT when an increase begins, negative.
    """

    largest: float
    least: float
    mean: float
    period: float
    excess_rate: float

    def _title(self) -> str:
        return "Limit cycle around a delay target"


@check_arguments
def target_cycle(beta: float, steepness: float = 0.0) -> TargetCycle | None:
    """Return the limit cycle of many hosts that once an RTT cut the delay by a share of its excess over a target.

    Parameters
    ----------
    beta : float, in (0, 1]
        Share of the excess by which hosts reduce, for example 0.8.
    steepness : float, >= 0, optional
        kappa: decrease of the targets if the delay grows by 1, with all windows proportional to it.

    Returns
    -------
    TargetCycle or None
        None if swings decay and the equilibrium is stable.

    Raises
    ------
    ValueError
        A parameter out of range.

    Notes
    -----
    Valid for increases that are small compared with the delay, windows above a packet, and queues that do not empty.
    One host, or hosts that reduce at the same time, do not oscillate with beta < 1. Cost: about 20 ms.

    Examples
    --------
    >>> cycle = target_cycle(0.8)
    >>> round(cycle.largest, 3), round(cycle.least, 3), round(cycle.period, 3)
    (1.0, -0.281, 4.106)
    """
    if not 0.0 < beta <= 1.0:
        raise ValueError(f"beta must be > 0 and <= 1, got {beta:g}")
    if not steepness >= 0.0:
        raise ValueError(f"steepness must be >= 0, got {steepness:g}")
    if beta * exp(1.0 + beta * steepness) <= 1.0:
        return None
    top = 1.0 / (1.0 + steepness)

    def falls(t: float, x: NDArray[np.float64], late: NDArray[np.float64]) -> list[float]:
        return [-beta * (float(late[0, 0]) + steepness * float(x[0]))]

    solution = solve_dde(
        falls, (0.0, _HORIZON), lambda t: [top + t], [1.0], dense_output=True, rtol=1e-9, atol=1e-12, jit=False
    )
    assert solution.sol is not None
    t = np.linspace(0.0, _HORIZON, round(400 * _HORIZON) + 1)
    x = solution.sol(t)[0]
    late = np.concatenate([top + t[:400] - 1.0, x[:-400]])
    excess = late + steepness * x
    below = np.flatnonzero(excess[1:] <= 0.0)
    if not len(below):
        return None
    k = int(below[0])
    share = float(excess[k] / (excess[k] - excess[k + 1]))
    falling = float(t[k] + share * (t[k + 1] - t[k]))
    bottom = float(solution.sol(falling)[0])
    if bottom > -steepness / (1.0 + steepness):
        return None
    rising = top - bottom
    fall = float(np.trapezoid(np.append(x[: k + 1], bottom), np.append(t[: k + 1], falling)))
    area = fall + 0.5 * (top**2 - bottom**2)
    rate = 400.0 * float(excess[k + 1] - excess[k])
    return TargetCycle(top, bottom, area / (falling + rising), falling + rising, rate)
