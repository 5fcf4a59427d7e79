"""Fair allocations computed without any protocol: the yardsticks that stationary rates are held against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc.network import Network

__all__ = ["Allocation", "max_min", "water_filling"]


@dataclass(frozen=True)
class Allocation:
    """Rates with the link that holds each flow back.

    `rates`: shape (n_flows,), bit/s; `bottleneck`: shape (n_flows,), index of the saturated link that froze the flow.
    """

    rates: NDArray[np.float64]
    bottleneck: NDArray[np.int64]


def max_min(network: Network, capacities: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the max-min fair rates by water-filling (Bertsekas and Gallager, sec. 6.5).

    Parameters
        network : Network.
        capacities : shape (n_links,), bit/s, to fill instead of the links' own (gamma C, say).
    Returns
        rates : shape (n_flows,), bit/s.
    Raises
        ValueError: capacities of another shape or not > 0.
    Example
        >>> max_min(Network.parking_lot(["970 Mb/s", "800 Mb/s"])) / 1e6
        array([400., 570., 400.])
    """
    return water_filling(network, capacities).rates


def water_filling(network: Network, capacities: ArrayLike | None = None) -> Allocation:
    """Return the max-min rates and each flow's bottleneck; ties go to the lower link index.

    Parameters
        network : Network. capacities : shape (n_links,), bit/s, instead of the links' own.
    Returns
        Allocation.
    Raises
        ValueError: capacities of another shape or not > 0.
    """
    room = np.array(network.capacities if capacities is None else capacities, dtype=float)
    if room.shape != (network.n_links,) or not np.all((room > 0) & np.isfinite(room)):
        raise ValueError(f"capacities must be {network.n_links} finite rates > 0, got {capacities!r}")
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
