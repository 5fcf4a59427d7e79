"""Fair allocations computed without a protocol, as a reference for stationary rates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError
from ecc.network.network import Network

__all__ = ["Allocation", "max_min", "proportional", "water_filling"]

_MAX_STEPS = 200
_TOLERANCE = 1e-13
"""Relative change of the rates in a step at which `proportional` ends; rounding errors are some 1e-15."""
_CENTERING = 0.1
"""Factor on p s from one step to the next."""
_REGULARIZATION = 1e-14
"""Added to the diagonal, whose other entries are at least 1/n_flows for a link that is full. It bounds the step between
prices that give the same rates."""


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
    flows, links = network.crossings
    by_link = np.argsort(links, kind="stable")  # positions in `crossings`, link by link
    users = np.bincount(links, minlength=network.n_links)
    begin = np.concatenate(([0], np.cumsum(users)))
    first = np.searchsorted(flows, np.arange(network.n_flows + 1))  # positions in `crossings` of each flow
    rates = np.zeros(network.n_flows)
    bottleneck = np.full(network.n_flows, -1, dtype=np.int64)
    while users.any():
        share = np.where(users > 0, room / np.maximum(users, 1), np.inf)
        tightest = int(np.argmin(share))
        crossing = flows[by_link[begin[tightest] : begin[tightest + 1]]]
        frozen = crossing[bottleneck[crossing] < 0]
        rates[frozen] = share[tightest]
        bottleneck[frozen] = tightest
        lengths = first[frozen + 1] - first[frozen]
        positions = np.arange(lengths.sum()) + np.repeat(first[frozen] - (np.cumsum(lengths) - lengths), lengths)
        leaving = np.bincount(links[positions], minlength=network.n_links)
        room = np.maximum(room - share[tightest] * leaving, 0.0)
        users -= leaving
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
    A primal-dual interior-point method: Newton steps for the prices p of the links and their unused shares s, with
    p s = mu on each link, which decreases to 0; x_i is 1 over the price of its path. Several vectors of prices may
    give the same rates, for example if the same flows cross two links. The relative error is about 1e-12. A step
    solves a linear system of the links that flows cross.

    Examples
    --------
    >>> proportional(Network.parking_lot(["90 Mb/s", "90 Mb/s"])) / 1e6
    array([30., 60., 60.])
    """
    flows, links = network.crossings
    room = _capacities(network, capacities)
    return _proportional(flows.tobytes(), links.tobytes(), room.tobytes()).copy()


@lru_cache(16)  # a search over a parameter needs the rates of one network thousands of times
def _proportional(of_flows: bytes, of_links: bytes, of_room: bytes) -> NDArray[np.float64]:
    """Return the rates for the bytes of the flows and the links of all crossings, and of the capacities."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse import csr_array

    flows, links = (np.frombuffer(indices, np.int64) for indices in (of_flows, of_links))
    room = np.frombuffer(of_room)
    used, column = np.unique(links, return_inverse=True)
    unit = float(room[used].min())
    use = csr_array((unit / room[links], (flows, column)))  # share of each link used by a rate of `unit`
    price = np.ones(len(used))
    price *= 2.0 * float((use.T @ (1.0 / (use @ price))).max())  # no link is more than half used
    unused = 1.0 - use.T @ (1.0 / (use @ price))
    for _ in range(_MAX_STEPS):
        rates = 1.0 / (use @ price)
        shares = use.multiply(rates[:, None]).tocsr()
        target = _CENTERING * (price @ unused) / len(used) / price  # goal for the unused shares
        matrix = (shares.T @ shares).toarray()
        matrix[np.diag_indices(len(used))] += unused / price + _REGULARIZATION
        step = cho_solve(cho_factor(matrix), target - 1.0 + shares.sum(axis=0))
        of_unused = target - unused - unused / price * step
        length = min(_longest_step(price, step), _longest_step(unused, of_unused))
        price = price + length * step
        unused = unused + length * of_unused
        change = float(np.abs(shares @ step).max())
        if change < _TOLERANCE:
            break
    else:
        raise ConvergenceError("the proportionally fair rates were not found", unit * rates, change)
    fair_rates: NDArray[np.float64] = unit / (use @ price)
    return fair_rates


def _longest_step(values: NDArray[np.float64], step: NDArray[np.float64]) -> float:
    """Return the factor on a step, at most 1, that keeps all values above 0."""
    return min(1.0, 0.99 / max(float(np.max(-step / values)), 1e-300))


def _capacities(network: Network, capacities: ArrayLike | None) -> NDArray[np.float64]:
    rates = np.array(network.capacities if capacities is None else capacities, dtype=float)
    if rates.shape != (network.n_links,) or not np.all((rates > 0) & np.isfinite(rates)):
        raise ValueError(f"capacities must be {network.n_links} finite rates > 0, got {shown(capacities)}")
    return rates
