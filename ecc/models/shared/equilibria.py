"""Stationary points of several protocols."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ecc.contract.equilibrium import Equilibrium
from ecc.errors import ConvergenceError, LinearizationError
from ecc.network.allocation import water_filling
from ecc.network.network import Network

__all__ = ["check_assignment", "crosses_several", "bottleneck_links", "full_links", "shared_fair_rate", "shared_rate"]

LONGEST_WAIT = 1e6  # s, a queueing delay beyond any equilibrium; the search stops there

Demand = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Share = Callable[[int, int, float], float]


def shared_fair_rate(
    network: Network, target: NDArray[np.float64], assignment: NDArray[np.int64] | None = None
) -> Equilibrium:
    """Return the point at which every bottleneck's arrivals equal its target and its flows share one rate.

    R_l = (target_l - u_l) / N_l, with N_l flows bottlenecked there and u_l the rate of the flows that cross it but
    are bottlenecked elsewhere (JETMAX (15), Lemma 3).

    Parameters
    ----------
    network : Network
    target : ndarray, shape (n_links,), bit/s
    assignment : ndarray of int, shape (n_flows,), optional
        Link at which each flow is bottlenecked; None: the assignment of max-min fairness.

    Returns
    -------
    Equilibrium

    Raises
    ------
    ValueError
        A flow assigned to a link it does not cross.
    LinearizationError
        The assignment has no equilibrium with all rates > 0.
    """
    if assignment is None:
        filled = water_filling(network, target)
        bottleneck = filled.bottleneck
    else:
        bottleneck = check_assignment(network, assignment)
    crosses = network.incidence
    bottlenecked = np.zeros((network.n_flows, network.n_links), dtype=bool)
    bottlenecked[np.arange(network.n_flows), bottleneck] = True
    links = np.flatnonzero(bottlenecked.any(axis=0))
    # sum over flows i crossing l of R_{b_i} = target_l, one row for each bottleneck
    users = (crosses[:, links].T.astype(float)) @ bottlenecked[:, links].astype(float)
    fair = np.full(network.n_links, np.inf)
    try:
        fair[links] = np.linalg.solve(users, target[links])
    except np.linalg.LinAlgError:
        raise LinearizationError(f"the assignment {bottleneck.tolist()} has no unique equilibrium") from None
    if not np.all(fair > 0):
        raise LinearizationError(f"the assignment {bottleneck.tolist()} needs negative rates at its equilibrium")
    return Equilibrium(fair[bottleneck], fair, bottleneck)


def shared_rate(network: Network, share: Share, assignment: NDArray[np.int64] | None = None) -> Equilibrium:
    """Return the point at which the flows of every bottleneck share the rate given by the link's own law.

    Water-filling with any law: the link with the smallest share fixes its flows first, and they load the other links.
    The result is correct if a share never falls when flows are bottlenecked elsewhere.

    Parameters
    ----------
    network : Network
    share : Share
        (link, flows bottlenecked there > 0, rate [bit/s] of the other flows that cross it) -> rate [bit/s] of each
        bottlenecked flow.
    assignment : ndarray of int, shape (n_flows,), optional
        Link at which each flow is bottlenecked, or None for the link with the smallest share.

    Returns
    -------
    Equilibrium
        `fair_rate` is the rate of the flows bottlenecked at the link.

    Raises
    ------
    ValueError
        A flow assigned to a link it does not cross.
    ConvergenceError
        An inconsistent assignment: the rates at its links keep changing each other.
    """
    crosses = network.incidence
    rates = np.zeros(network.n_flows)
    fair = np.full(network.n_links, np.inf)
    if assignment is None:
        bottleneck = np.full(network.n_flows, -1, dtype=np.int64)
        while (free := bottleneck < 0).any():
            users = crosses[free].sum(axis=0)
            loads = rates @ crosses
            shares = [share(k, int(n), float(loads[k])) if n else np.inf for k, n in enumerate(users)]
            tightest = int(np.argmin(shares))
            bottlenecked_here = free & crosses[:, tightest]
            fair[tightest] = rates[bottlenecked_here] = shares[tightest]
            bottleneck[bottlenecked_here] = tightest
        return Equilibrium(rates, fair, bottleneck)
    bottleneck = check_assignment(network, assignment)
    links = np.unique(bottleneck)
    for _ in range(1000):
        before = rates.copy()
        for k in links:
            bottlenecked_here = bottleneck == k
            crossing = float(rates[crosses[:, k] & ~bottlenecked_here].sum())
            fair[k] = rates[bottlenecked_here] = share(int(k), int(bottlenecked_here.sum()), crossing)
        moved = float(np.abs(rates - before).max() / rates.max())
        if moved <= 1e-14:
            return Equilibrium(rates, fair, bottleneck)
    raise ConvergenceError(f"no equilibrium found for the assignment {bottleneck.tolist()}", rates, moved)


def bottleneck_links(point: Equilibrium) -> NDArray[np.bool_]:
    """Return the links at which one or more flows are bottlenecked, as a mask of shape (n_links,).

    Parameters
    ----------
    point : Equilibrium
        Equilibrium with a finite `fair_rate` at those links only.
    """
    return np.isfinite(point.fair_rate)


def check_assignment(network: Network, assignment: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a bottleneck assignment as an integer array; refuse invalid ones.

    Parameters
    ----------
    network : Network
    assignment : ndarray of int, shape (n_flows,)
        Link at which each flow is bottlenecked.
    """
    links = np.asarray(assignment)
    if links.shape != (network.n_flows,) or not np.issubdtype(links.dtype, np.integer):
        raise ValueError(f"assignment must have {network.n_flows} link indices, got {np.asarray(assignment).tolist()}")
    for flow, link in enumerate(links):
        if link not in network.flows[flow].route:
            raise ValueError(f"assignment must use links of the flow's route, got {int(link)} (flow {flow})")
    return links.astype(np.int64)


def crosses_several(network: Network, point: Equilibrium) -> bool:
    """Return whether a flow crosses several links at which flows are bottlenecked.

    Parameters
    ----------
    network : Network
    point : Equilibrium
    """
    bottlenecks = set(point.bottleneck.tolist())
    return any(len(bottlenecks & set(flow.route)) > 1 for flow in network.flows)


def full_links(
    network: Network, demand: Demand, name: str, why: str, without: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the queueing delays [s], shape (n_links,), at which no link is overloaded.

    Links with a delay > 0 are exactly full. Each link in turn gets the delay at which it is just full, until all delays
    stay the same. Other prices that add up along paths are found in the same way.

    Parameters
    ----------
    network : Network
    demand : callable
        RTTs with queues [s], shape (n_flows,) -> sending rates [bit/s], decreasing with the RTT; may be infinite.
    name : str
        Name of the protocol, for messages.
    why : str
        Reason for a jump of the demand, as a clause for the message.
    without : ndarray, shape (n_flows,), optional
        RTTs, or other sums of prices, of the paths without queues; None: their RTTs.

    Raises
    ------
    LinearizationError
        The demand exceeds the capacity for any delay, or jumps across it.
    """
    crosses, capacities = network.incidence, network.capacities
    rtts = network.rtts if without is None else without
    waits = np.zeros(network.n_links)
    shortest = 1e-6 * max(float(rtts.max(initial=0.0)), 1e-6)
    for _ in range(1000):
        before = waits.copy()
        for link in range(network.n_links):
            base = rtts + crosses @ waits - crosses[:, link] * waits[link]

            def excess(wait: float, link: int = link, base: NDArray[np.float64] = base) -> float:
                through = crosses[:, link]
                return float(demand(base + wait * through)[through].sum() - capacities[link])

            low, high = 0.0, 0.0
            while excess(high) > 0.0:
                low, high = high, max(2.0 * high, shortest)
                if high > LONGEST_WAIT:
                    raise LinearizationError(f"{name} has no equilibrium here: the minimum rates exceed the capacity")
            for _ in range(200):
                middle = 0.5 * (low + high)
                if not low < middle < high:
                    break
                low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
            if high > 0.0 and abs(excess(high)) > 1e-6 * capacities[link]:
                raise LinearizationError(f"{name} has no single equilibrium here: {why}")
            waits[link] = high
        if np.abs(waits - before).max() <= 1e-13 * waits.max(initial=shortest):
            break
    return waits
