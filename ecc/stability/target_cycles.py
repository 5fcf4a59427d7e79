"""The limit cycle of hosts that keep the delay at a target, and cut once an RTT what is beyond it.

Many hosts, whose cuts are spread over the RTT, are on the average a fluid with one delay. In RTTs of time, with the
delay's deviation x from its equilibrium in units of what all hosts add to it in an RTT:

    v = x(t - 1) + kappa x(t)           what hosts see beyond their targets, which fall by kappa x
    x' = 1            v < 0             additive increase
    x' = -beta v      v >= 0            the share beta of the excess, once an RTT each

Increase ends at v = 0. Where it lasted an RTT, the last RTT was the line x = 1/(1 + kappa) + t, t <= 0, whatever was
before: the cycle is the solution from there, and reached after one increase, all its multipliers being 0. The increase
after x has fallen to x_0 lasts an RTT if x_0 <= -kappa/(1 + kappa). Else it is shorter, and swings decay; with
beta exp(1 + beta kappa) <= 1 there is a real root, and x comes down to 0 without swinging.
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

_HORIZON = 40.0  # RTTs, within which all that swings has crossed 0, or has come near enough to it


@dataclass(frozen=True, repr=False)
class TargetCycle(Displayed):
    """Deviations of the delay from its equilibrium, in what all hosts add in an RTT; `period` in RTTs."""

    largest: float
    least: float
    mean: float
    period: float

    def _title(self) -> str:
        return "Limit cycle around a delay target"


@check_arguments
def target_cycle(beta: float, steepness: float = 0.0) -> TargetCycle | None:
    """Return the limit cycle of many hosts that cut, once an RTT, a share of the delay beyond their target.

    Parameters
    ----------
    beta : float, in (0, 1]
        The share.
    steepness : float, >= 0, optional
        kappa: by how much targets fall where the delay grows by 1, all windows being in proportion to it.

    Returns
    -------
    TargetCycle or None
        None: swings decay, and the equilibrium is stable.

    Raises
    ------
    ValueError
        A parameter out of range.

    Notes
    -----
    For increases that are small beside the delay, windows above a packet, and queues that do not empty; one host, or
    hosts that cut at one time, do not swing with beta < 1. About 20 ms.

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

    found = solve_dde(
        falls, (0.0, _HORIZON), lambda t: [top + t], [1.0], dense_output=True, rtol=1e-9, atol=1e-12, jit=False
    )  # fmt: skip
    assert found.sol is not None
    t = np.linspace(0.0, _HORIZON, round(400 * _HORIZON) + 1)
    x = found.sol(t)[0]
    late = np.concatenate([top + t[:400] - 1.0, x[:-400]])
    seen = late + steepness * x
    below = np.flatnonzero(seen[1:] <= 0.0)
    if not len(below):
        return None
    k = int(below[0])
    share = float(seen[k] / (seen[k] - seen[k + 1]))
    falling = float(t[k] + share * (t[k + 1] - t[k]))
    least = float(found.sol(falling)[0])
    if least > -steepness / (1.0 + steepness):
        return None
    rising = top - least
    area = float(np.trapezoid(np.append(x[: k + 1], least), np.append(t[: k + 1], falling))) + 0.5 * (top**2 - least**2)
    return TargetCycle(top, least, area / (falling + rising), falling + rising)
