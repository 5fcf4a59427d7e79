"""Bottleneck assignments: the bottleneck of each flow, the dependencies between flows, and whether these form a cycle.

A flow s that crosses the bottleneck b_r of flow r but is bottlenecked at another link is unresponsive there and affects
r: the dependency s -> r. An assignment is consistent if no chain of dependencies closes (JETMAX sec. 4.2, Lemmas 1 and
2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed, Rows, value_text
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.laws.jets import gradient
from ecc.models.shared.equilibria import check_assignment
from ecc.network.allocation import water_filling
from ecc.network.network import Network

if TYPE_CHECKING:
    import networkx

__all__ = ["BottleneckAssignment", "bottleneck_assignment", "water_filled"]


@check_arguments
@dataclass(frozen=True, eq=False, repr=False)
class BottleneckAssignment(Displayed):
    """A network with the link at which each flow is bottlenecked: `links`, shape (n_flows,)."""

    network: Network
    links: NDArray[np.int64]

    def _rows(self) -> Rows:
        cycle = "none" if self.cycle is None else f"links {value_text(self.cycle)}"
        return [
            ("network", self.network.summary()),
            ("link of each flow", value_text(self.links)),
            ("consistent", value_text(self.is_consistent)),
            ("cycle", cycle),
        ]

    @cached_property
    def cycle(self) -> list[int] | None:
        """Links that depend on each other in a circle, in order, or None; found by depth-first search.

        A link depends on another if a flow bottlenecked at the other crosses it. Flows with the same bottleneck depend
        on and affect the same flows, so the links close a circle if and only if flows do.
        """
        bottlenecks = set(self.links.tolist())
        crossed: dict[int, set[int]] = {link: set() for link in sorted(bottlenecks)}
        for link, flow in zip(self.links.tolist(), self.network.flows, strict=True):
            crossed[link] |= bottlenecks.intersection(flow.route) - {link}
        moves = {link: sorted(affected) for link, affected in crossed.items()}
        done: set[int] = set()
        for start in moves:
            path, branches = [start], [iter(moves[start])]
            while path:
                link = next(branches[-1], None)
                if link is None:
                    done.add(path.pop())
                    branches.pop()
                elif link in path:
                    return path[path.index(link) :]
                elif link not in done:
                    path.append(link)
                    branches.append(iter(moves[link]))
        return None

    @property
    def is_consistent(self) -> bool:
        """True if the dependency graph has no cycle."""
        return self.cycle is None

    @cached_property
    def dependency_graph(self) -> networkx.DiGraph:
        """Flows as nodes, with an edge s -> r if s crosses the bottleneck of r and has another one."""
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(range(self.network.n_flows))
        unresponsive = self.network.incidence[:, self.links] & (self.links[:, None] != self.links)
        graph.add_edges_from(np.argwhere(unresponsive).tolist())
        return graph

    def jacobian(self, protocol: Protocol) -> NDArray[np.float64]:
        """Return the derivatives of all next rates with respect to all rates, without delays.

        JetMax: x_r <- (1 - tau) x_r + tau (gamma C_b - u_b)/N_b, b the bottleneck of r (JETMAX (8), (9)).

        Parameters
        ----------
        protocol : Protocol
            Protocol with routers without memory and flows with one bottleneck each.

        Returns
        -------
        Shape (n_flows, n_flows)
            Jacobian at the equilibrium of the assignment; affine laws do not need an equilibrium.

        Raises
        ------
        ValueError
            The protocol is of another kind.
        LinearizationError, ConvergenceError
            The assignment has no equilibrium.
        """
        name = type(protocol).__name__
        if protocol.combine == "sum":
            raise ValueError(f"protocol must have one bottleneck a flow, got {name}, which adds feedback over a path")
        arguments = signature(protocol.router_law).parameters
        if "R" in arguments:
            raise ValueError(f"protocol must have routers without memory, got {name}; linearize(time='discrete') fits")
        if "d" in arguments:
            raise ValueError(f"protocol must have laws without RTTs, got {name}")
        network, links, crosses = self.network, self.links, self.network.incidence
        point = _arbitrary(network, links) if protocol.has_affine_laws else equilibrium_of(protocol, network, links)
        p = protocol.namespace()
        interval = interval_of(protocol)
        jacobian = np.zeros((network.n_flows, network.n_flows))
        for b in np.unique(links):
            bottlenecked = links == b
            through = crosses[:, b]
            x, y = float(point.rates[bottlenecked][0]), float(point.rates[through].sum())
            supply: dict[str, Any] = {
                "x": x,
                "y": y,
                "y_prev": y,
                "u": float(point.rates[through & ~bottlenecked].sum()),
                "q": 0.0,
                "T": interval,
                "N": float(bottlenecked.sum()),
                "N_all": float(through.sum()),
                "C": float(network.capacities[b]),
                "p": p,
            }
            at = {argument: supply[argument] for argument in arguments}
            derivatives = gradient(protocol.router_law, at, [a for a in ("x", "y", "y_prev", "u") if a in arguments])
            received = protocol.router_law(**at)
            source = protocol.source_law
            names = signature(source).parameters
            supply = {"x": x, "x_rtt": x, "R": received, "R_prev": received, "p": p}
            slopes = gradient(source, {a: supply[a] for a in names}, [a for a in names if a != "p"])
            gain = slopes["R"] + slopes.get("R_prev", 0.0)
            arrivals = derivatives.get("y", 0.0) + derivatives.get("y_prev", 0.0)
            jacobian[bottlenecked] = gain * (arrivals * through + derivatives.get("u", 0.0) * (through & ~bottlenecked))
            rows = np.flatnonzero(bottlenecked)
            jacobian[rows, rows] += slopes.get("x", 0.0) + slopes.get("x_rtt", 0.0) + gain * derivatives.get("x", 0.0)
        return jacobian

    def spectral_radius(self, protocol: Protocol) -> float:
        """Return the largest modulus of the Jacobian's eigenvalues.

        Parameters
        ----------
        protocol : Protocol
            As for `jacobian`.
        """
        return float(np.abs(np.linalg.eigvals(self.jacobian(protocol))).max())


@check_arguments
def bottleneck_assignment(network: Network, assignment: ArrayLike) -> BottleneckAssignment:
    """Return a bottleneck assignment with its dependency graph, its consistency and its Jacobians.

    Implements JETMAX sec. 4.2.

    Parameters
    ----------
    network : Network
    assignment : array_like, shape (n_flows,)
        Index of the link at which each flow is bottlenecked, one of the links that it crosses.

    Returns
    -------
    BottleneckAssignment
        Network, links, is_consistent, cycle, dependency_graph, jacobian, spectral_radius.

    Raises
    ------
    ValueError
        The assignment has another length, or a link that the flow does not cross.

    Examples
    --------
    >>> bottleneck_assignment(Network.parking_lot(["970 Mb/s", "800 Mb/s"]), [1, 0, 1]).is_consistent
    True
    """
    return BottleneckAssignment(network, check_assignment(network, np.asarray(assignment)))


@check_arguments
def water_filled(network: Network, capacities: ArrayLike | None = None) -> BottleneckAssignment:
    """Return the consistent assignment of max-min fairness, found by water-filling.

    Parameters
    ----------
    network : Network
    capacities : array_like, shape (n_links,), bit/s, optional
        Capacities to fill, instead of those of the links; random ones draw a random consistent assignment.

    Returns
    -------
    BottleneckAssignment

    Raises
    ------
    ValueError
        Capacities have another shape or are not > 0.

    Examples
    --------
    >>> net = ecc.Network.parking_lot(["100 Mb/s", "50 Mb/s"])
    >>> water_filled(net).is_consistent
    True
    """
    return BottleneckAssignment(network, water_filling(network, capacities).bottleneck)


def _arbitrary(network: Network, links: NDArray[np.int64]) -> Equilibrium:
    """Return an arbitrary point: affine laws have the same derivatives everywhere."""
    return Equilibrium(np.ones(network.n_flows), np.ones(network.n_links), links)
