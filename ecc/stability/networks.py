"""Decomposition of networks: each bottleneck isolated, with the flows bottlenecked at it.

If a flow has one bottleneck and links see the sum of the sent rates, R_l affects R_m only if a flow bottlenecked at l
crosses m. A consistent assignment forms no cycle of these dependencies, so the loop is block triangular in the order of
the bottlenecks, for constant delays of any kind: its spectrum is the union of those of the isolated links, each with
its flows. Let s be the share of these flows in the link's load, D their mean RTT, d the RTT that the router uses.
Isolated, the link is the loop of a dumbbell with those flows' RTTs and the gains

    alpha s D/d,   beta s (D/d)^2     (in units of D).

The statement on spectra holds for linear models, in which RCP's queue may be negative; the gains of an isolated link
are the same if its queue is >= 0. With d the mean over packets, s D <= d (flows of one bottleneck send at one rate), so
alpha s D/d <= alpha in any network, while beta s (D/d)^2 <= beta/s may be as large as beta/s. Therefore a router that
integrates only arrivals is stable in every network at a gain if it is stable, at this gain and every smaller one, for
every distribution of RTTs; this does not hold for a router that adds a queue term. With d the mean over flows, s D/d is
not bounded.

Links that keep packets in order break the triangle: downstream of a busy queue a flow's arrivals are its share of the
capacity, which depends on the rates of other flows, and the downstream link depends on the upstream one, regardless of
the bottlenecks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed, Rows
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network

__all__ = ["IsolatedLink", "isolated_links", "mean_rtts"]

_GAINS = ("alpha", "alpha1", "alpha2", "beta")


@check_arguments
@dataclass(frozen=True, repr=False)
class IsolatedLink(Displayed):
    """A bottleneck of a network with its flows: the loop of `protocol` on `network`, a dumbbell.

    Attributes
    ----------
    link : int
        Index of the link.
    share : float
        Share of its load that is sent by the flows bottlenecked there.
    mean_rtt : float
        d of its router [s].
    protocol : Protocol
        The protocol with its gains times `share`.
    network : Network
        A dumbbell with the flows bottlenecked at the link.
    gains : dict
        Gains in units of these flows' mean RTT: alpha s D/d, and beta s (D/d)^2 if there is one.
    """

    link: int
    share: float
    mean_rtt: float
    protocol: Protocol
    network: Network
    _units = {"mean_rtt": "s"}

    def _rows(self) -> Rows:
        named = {
            "protocol": "protocol, its gains times the share",
            "mean rtt": "d of the router",
            "share": "share of the load",
        }
        rows = [(named.get(name, name), text) for name, text in super()._rows()]
        gains = ", ".join(f"{name} {gain:.4g}" for name, gain in self.gains.items())
        return [*rows, ("gains per mean RTT of its flows", gains)]

    @property
    def gains(self) -> dict[str, float]:
        ratio = float(self.network.rtts.mean()) / self.mean_rtt
        powers = {"alpha": 1, "alpha1": 1, "alpha2": 1, "beta": 2}
        return {name: getattr(self.protocol, name) * ratio ** powers[name] for name in _scaled(self.protocol)}

    def linearize(self, time: str = "continuous") -> DelaySystem | SampledSystem:
        """Return the link's linear model.

        Parameters
        ----------
        time : str, optional
            As for linearize.
        """
        return linearize(self.protocol, self.network, time, mean_rtt=[self.mean_rtt])


def _scaled(protocol: Protocol) -> list[str]:
    present = {field.name for field in fields(protocol)}
    return [name for name in _GAINS if name in present and getattr(protocol, name) is not None]


@check_arguments
def mean_rtts(protocol: Protocol, network: Network, assignment: Sequence[int] | None = None) -> NDArray[np.float64]:
    """Return the mean RTT over the packets of each link at the equilibrium, without queues.

    Parameters
    ----------
    protocol : Protocol
    network : Network
    assignment : sequence of int, optional
        Link at which each flow is bottlenecked; default: the bottlenecks of the equilibrium.

    Returns
    -------
    ndarray, shape (n_links,)
        Mean RTT of each link [s]; NaN if no flow sends over it.

    Raises
    ------
    LinearizationError
        The network has no equilibrium.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", rtts=[0.1, 0.3])
    >>> mean_rtts(ecc.models.QIRCP(), net).round(3)
    array([0.2])
    """
    links = None if assignment is None else np.asarray(assignment)
    loads = network.incidence * equilibrium_of(protocol, network, links).rates[:, None]
    with np.errstate(invalid="ignore"):
        mean: NDArray[np.float64] = np.minimum(network.rtts, protocol.scaling_rtt_limit) @ loads / loads.sum(axis=0)
    return mean


@check_arguments
def isolated_links(
    protocol: Protocol, network: Network, assignment: Sequence[int] | None = None, by_flow: bool = False
) -> list[IsolatedLink]:
    """Return the bottlenecks of a network, each isolated; the linear model is stable if and only if all theirs are.

    Implements the decomposition described in this module: JETMAX Theorem 1, which is for routers without memory,
    extended to delays, RTTs and queues.

    Parameters
    ----------
    protocol : Protocol
        RCP, QI-RCP or PIQI-RCP.
    network : Network
    assignment : sequence of int, optional
        Link at which each flow is bottlenecked, consistent; default: the bottlenecks of the equilibrium.
    by_flow : bool, optional
        Whether routers average RTTs over flows, as `linearize` does by default, instead of packets.

    Returns
    -------
    list of IsolatedLink
        One for each bottleneck.

    Raises
    ------
    ValueError
        The protocol is of another kind.
    LinearizationError
        The network has no equilibrium.

    Examples
    --------
    >>> isolated = isolated_links(RCP(alpha=0.5), ecc.Network.T_u())[0]
    >>> round(isolated.share, 3), {name: round(gain, 3) for name, gain in isolated.gains.items()}
    (0.355, {'alpha': 0.483, 'beta': 2.626})
    """
    if "R" not in protocol.router_law.__code__.co_varnames or protocol.combine != "min":
        raise ValueError(f"protocol must have routers that integrate one rate, got {type(protocol).__name__}")
    links = None if assignment is None else np.asarray(assignment)
    point = equilibrium_of(protocol, network, links)
    crosses = network.incidence
    by_packet = mean_rtts(protocol, network, assignment)
    out = []
    for link in np.unique(point.bottleneck).tolist():
        bottlenecked, through = point.bottleneck == link, crosses[:, link]
        share = float(point.rates[bottlenecked].sum() / point.rates[through].sum())
        rtts = network.rtts[bottlenecked]
        counted = np.minimum(network.rtts[through], protocol.scaling_rtt_limit)
        if protocol.scaling_rtt == "max":
            d = float(counted.max())
        else:
            d = float(counted.mean() if by_flow else by_packet[link])
        changed: dict[str, Any] = {name: share * getattr(protocol, name) for name in _scaled(protocol)}
        dumbbell = Network.dumbbell(network.capacities[link], rtts.tolist())
        out.append(IsolatedLink(link, share, d, replace(protocol, **changed), dumbbell))
    return out
