"""Fair allocations computed without a protocol, as a reference for stationary rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError
from ecc.network.network import Network

__all__ = ["Allocation", "max_min", "proportional", "water_filling"]


@dataclass(frozen=True, repr=False)
class Allocation(Displayed):
    """Rates, and the bottleneck link of each flow.

    `rates`: shape (n_flows,), bit/s; `bottleneck`: shape (n_flows,), index of the saturated link that froze the flow.
    """

    rates: NDArray[np.float64]
    bottleneck: NDArray[np.int64]
    _units = {"rates": "bit/s"}


@check_arguments
def max_min(network: Network, capacities: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the max-min fair rates by water-filling (Bertsekas and Gallager, sec. 6.5).

    Parameters
    ----------
    network : Network
    capacities : array_like, shape (n_links,), bit/s, optional
        Capacities to allocate instead of those of the links, for example gamma C.

    Returns
    -------
    rates : ndarray, shape (n_flows,), bit/s

    Raises
    ------
    ValueError
        Capacities of another shape or not > 0.

    Examples
    --------
    >>> max_min(Network.parking_lot(["970 Mb/s", "800 Mb/s"])) / 1e6
    array([400., 570., 400.])
    """
    return water_filling(network, capacities).rates


@check_arguments
def water_filling(network: Network, capacities: ArrayLike | None = None) -> Allocation:
    """Return the max-min rates and each flow's bottleneck; ties go to the lower link index.

    Parameters
    ----------
    network : Network
    capacities : array_like, shape (n_links,), bit/s, optional
        Capacities to allocate instead of those of the links.

    Returns
    -------
    Allocation

    Raises
    ------
    ValueError
        Capacities of another shape or not > 0.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("90 Mb/s", rtts=[0.1, 0.1, 0.1])
    >>> water_filling(net).rates
    array([30000000., 30000000., 30000000.])
    """
    room = _capacities(network, capacities)
    crosses = network.incidence
    rates = np.zeros(network.n_flows)
    bottleneck = np.full(network.n_flows, -1, dtype=np.int64)
    free = np.ones(network.n_flows, dtype=bool)
    while free.any():
        users = (crosses & free[:, None]).sum(axis=0)
        share = np.where(users > 0, room / np.maximum(users, 1), np.inf)
        tightest = int(np.argmin(share))
        frozen = free & crosses[:, tightest]
        rates[frozen] = share[tightest]
        bottleneck[frozen] = tightest
        room = np.maximum(room - share[tightest] * (crosses & frozen[:, None]).sum(axis=0), 0.0)
        free &= ~frozen
    return Allocation(rates, bottleneck)


@check_arguments
def proportional(network: Network, capacities: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the proportionally fair rates: those that maximize the sum of their logarithms (Kelly, Maulloo, Tan 1998).

    Parameters
    ----------
    network : Network
    capacities : array_like, shape (n_links,), bit/s, optional
        Capacities to allocate instead of those of the links.

    Returns
    -------
    rates : ndarray, shape (n_flows,), bit/s

    Raises
    ------
    ValueError
        Capacities of another shape or not > 0.
    ConvergenceError
        Newton's method did not converge.

    Notes
    -----
    The method solves the dual problem in the prices of the links (x_i is 1 over the price of its path) with a barrier
    that decreases to 0. The problem is self-concordant, so damped Newton steps converge. The relative error is about
    1e-12.

    Examples
    --------
    >>> proportional(Network.parking_lot(["90 Mb/s", "90 Mb/s"])) / 1e6
    array([30., 60., 60.])
    """
    room = _capacities(network, capacities)
    used = network.incidence.any(axis=0)
    unit = float(room[used].min())
    use = network.incidence[:, used] * (unit / room[used])  # share of each link used by a rate of `unit`
    price = np.full(use.shape[1], float(network.n_flows))
    for barrier in 0.1 ** np.arange(15):
        for _ in range(100):
            rates = 1.0 / (use @ price)
            slope = 1.0 - rates @ use - barrier / price
            step = np.linalg.solve((use.T * rates**2) @ use + np.diag(barrier / price**2), -slope)
            decrement = float(np.sqrt(max(0.0, -slope @ step) / barrier))
            price = price + step / (1.0 + decrement if decrement > 0.25 else 1.0)
            if decrement < 1e-3:
                break
        else:
            raise ConvergenceError("the proportionally fair rates were not found", unit * rates, decrement)
    fair_rates: NDArray[np.float64] = unit / (use @ price)
    return fair_rates


def _capacities(network: Network, capacities: ArrayLike | None) -> NDArray[np.float64]:
    rates = np.array(network.capacities if capacities is None else capacities, dtype=float)
    if rates.shape != (network.n_links,) or not np.all((rates > 0) & np.isfinite(rates)):
        raise ValueError(f"capacities must be {network.n_links} finite rates > 0, got {shown(capacities)}")
    return rates
