"""Division of a network into parts that run in threads: separated by delays, and with equal loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc.native import Partition

__all__ = ["Joints", "joints", "partition"]

SENDER, HOP, RECEIVER, CROSSING = 150e-9, 100e-9, 50e-9, 130e-9
"""Approximate cost of a packet at each [s of CPU]: it affects only the balance of the parts, and no result."""
EXCHANGE = 2e-6
"""Approximate cost of an exchange with the other parts [s of CPU], once per minimum delay from them."""
MAX_PARTS = 1024
"""Limit of the engine; empty parts are omitted."""
_MAX_DELAYS = 12
"""Maximum number of delays that are tried as thresholds."""


@dataclass(frozen=True)
class Joints:
    """Graph of a network: nodes (links, senders and receivers), and the joints over which packets pass between them.

    Nodes are the links, then the senders, then the receivers by flow. Flows are those of the network, then templates of
    transfers. Of shape (n_joints,) are `begins` and `ends`, the nodes; `delays`, the minimum delay [ps], or 0 if the
    nodes cannot be in different parts; and `flows`, the flow of the packets. `places`, of shape (n_nodes,), is the link
    at which a node is located. `n_templates` of the `n_flows` flows are templates.
    """

    n_links: int
    n_flows: int
    n_templates: int
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    delays: NDArray[np.int64]
    flows: NDArray[np.int64]
    places: NDArray[np.int64]

    def groups(self, threshold: int) -> NDArray[np.int64]:
        """Return the group of each node; nodes of a group are joined by delays below a threshold.

        Parameters
        ----------
        threshold : int, ps
            Minimum delay between groups, for example 10**6 for 1 us.
        """
        from scipy.sparse import coo_array  # imported here: runs in one thread do not need it, and it is slow to import
        from scipy.sparse.csgraph import connected_components

        n, joined = len(self.places), self.delays < threshold
        matrix = coo_array((np.ones(joined.sum()), (self.begins[joined], self.ends[joined])), shape=(n, n))
        numbers: NDArray[np.int64] = connected_components(matrix, directed=False)[1].astype(np.int64)
        return numbers

    def of_parts(self, part: int, parts: NDArray[np.int64]) -> Partition:
        """Return the parts of all nodes in the format of an engine.

        Parameters
        ----------
        part : int
            Part of the engine.
        parts : ndarray of int, shape (n_nodes,)
            Part of each node.
        """
        links, senders, receivers = np.split(parts, np.cumsum([self.n_links, self.n_flows]))
        n = self.n_flows - self.n_templates
        return Partition(part, links, senders[:n], receivers[:n], senders[n:])


def joints(
    links: NDArray[np.void],
    flows: NDArray[np.void],
    routes: NDArray[np.int64],
    impairments: NDArray[np.void],
    receives: NDArray[np.bool_],
    n_templates: int = 0,
    chains: Sequence[tuple[int, int]] = (),
) -> Joints:
    """Return the joints of a network (S-122, S-124, S-127).

    Parameters
    ----------
    links, flows : NDArray[void]
        Dtypes LINK, without additional routers, and FLOW, templates last.
    routes : ndarray of int
    impairments : NDArray[void]
    receives : ndarray of bool, shape (n_flows,)
        Whether each flow has on_receive.
    n_templates : int, optional
        Number of templates of transfers among the flows.
    chains : sequence of (int, int), optional
        Pairs of templates; transfers of the second can follow those of the first.
    """
    n_links, n_flows = len(links), len(flows)
    reorders = np.array([False, *(impairments["reorders"] != 0)])
    wire_reorders = reorders[links["impairment"]].tolist()
    delay = links["delay"].tolist()
    places = np.concatenate([np.arange(n_links), np.zeros(2 * n_flows, np.int64)])
    rows: list[tuple[int, int, int, int]] = []
    names = list(flows.dtype.fields or {})
    at = 0
    for f, flow in enumerate(flows.tolist()):
        row = dict(zip(names, flow, strict=True))
        forward = routes[at : (at := at + row["n_forward"])].tolist()
        reverse = routes[at : (at := at + row["n_reverse"])].tolist()
        lengths = routes[at : (at := at + row["n_alternatives"])].tolist()
        alternatives = [routes[at : (at := at + length)].tolist() for length in lengths]
        sender, receiver, impaired = n_links + f, n_links + n_flows + f, row["impairment"] > 0
        places[sender], places[receiver] = forward[0], forward[-1]
        is_silent = not (
            receives[f]
            or reverse
            or impaired
            or row["ack_every"] > 1
            or row["ecn"]
            or row["transport"]
            or any(wire_reorders[k] for k in forward)
            or alternatives
            or row["reordering_threshold"] > 1
            or row["trimmed_size"]
        )
        is_template = f >= n_flows - n_templates
        rows.append((sender, forward[0], 0 if is_template else row["access_delay"], f))
        for route in (forward, reverse, *alternatives):
            rows += [(a, b, delay[a], f) for a, b in zip(route, route[1:], strict=False)]
        rows += [(forward[0], route[0], 0, f) for route in alternatives]
        rows += [(route[-1], receiver, delay[route[-1]], f) for route in (forward, *alternatives)]
        if is_silent or receives[f] or is_template:
            rows.append((receiver, sender, 0, f))
        if reverse:
            rows.append((receiver, reverse[0], 0, f))
            is_event = impaired or wire_reorders[reverse[-1]]
            pure = 0 if is_event or is_template else row["ack_delay"]
            rows.append((reverse[-1], sender, delay[reverse[-1]] + pure, f))
        elif not is_silent:
            rows.append((receiver, sender, row["ack_delay"], f))
    first = n_links + n_flows - n_templates
    rows += [(first + a, first + b, 0, n_flows - n_templates + a) for a, b in chains]
    begins, ends, delays, flow_of = np.array(rows, np.int64).reshape(-1, 4).T
    return Joints(n_links, n_flows, n_templates, begins, ends, delays, flow_of, places)


def partition(
    graph: Joints, n_parts: int, links: NDArray[np.void], flows: NDArray[np.void]
) -> tuple[NDArray[np.int64], float]:
    """Return the part of each node, for the number of parts that makes the run fastest, and the estimated speedup.

    Parameters
    ----------
    graph : Joints
    n_parts : int, >= 1
        Maximum number of parts.
    links, flows : NDArray[void]
        As for `joints`.

    Returns
    -------
    parts : ndarray of int, shape (n_nodes,)
        Numbers from 0; all are 0 if no delay separates nodes, or if several parts would be slower than one.
    speedup : float
        Estimate from a rough model, not a measurement: the balance of the parts, the packets that cross between them,
        and the frequency of exchanges.
    """
    n, n_parts = len(graph.places), min(n_parts, MAX_PARTS)
    rates = _packet_rates(graph, links, flows)
    loads = np.zeros(n)
    loads[graph.n_links : graph.n_links + graph.n_flows] = SENDER * rates
    loads[graph.n_links + graph.n_flows :] = RECEIVER * rates
    np.add.at(loads, graph.ends, np.where(graph.ends < graph.n_links, HOP * rates[graph.flows], 0.0))
    best = np.zeros(n, np.int64), float(loads.sum())
    delays = np.unique(graph.delays[graph.delays > 0])
    indices = np.unique(np.linspace(0, len(delays) - 1, _MAX_DELAYS).round().astype(int))
    thresholds = delays[indices] if len(delays) else []
    for threshold in thresholds:
        groups = graph.groups(int(threshold))
        for count in _counts(n_parts):
            parts = _split(graph, groups, loads, count)
            crosses = parts[graph.begins] != parts[graph.ends]
            work = np.bincount(parts, loads, count)
            for node in (graph.begins, graph.ends):
                np.add.at(work, parts[node[crosses]], CROSSING * rates[graph.flows[crosses]])
            min_delay = np.full(count, np.inf)
            np.minimum.at(min_delay, parts[graph.ends[crosses]], graph.delays[crosses] * 1e-12)
            time = float((work + EXCHANGE / min_delay).max())
            if time < best[1]:
                best = parts, time
    return best[0], float(loads.sum()) / best[1] if best[1] > 0.0 else 1.0


def _counts(maximum: int) -> list[int]:
    """Return the numbers of parts that are tried: the maximum, half of it, and so on."""
    return [maximum >> k for k in range(maximum.bit_length()) if maximum >> k > 1]


def _packet_rates(graph: Joints, links: NDArray[np.void], flows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return the packets per second of each flow if the flows of each link share it equally."""
    at_links = graph.ends < graph.n_links
    n_through = np.maximum(np.bincount(graph.ends[at_links], minlength=graph.n_links), 1)
    shares = links["capacity"] / n_through
    rates = np.full(graph.n_flows, np.inf)
    np.minimum.at(rates, graph.flows[at_links], shares[graph.ends[at_links]])
    packet_rates: NDArray[np.float64] = rates / (8.0 * flows["packet_size"])
    return packet_rates


def _split(graph: Joints, groups: NDArray[np.int64], loads: NDArray[np.float64], n_parts: int) -> NDArray[np.int64]:
    """Return the part of each node: groups in the order of their first links, divided into equal loads."""
    first = np.full(groups.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, groups, graph.places)
    order = np.argsort(first, kind="stable")
    work = np.bincount(groups, loads)[order]
    middle = np.cumsum(work) - work / 2.0
    part = np.empty(len(order), np.int64)
    total = work.sum()
    part[order] = np.unique(np.minimum(middle / total * n_parts, n_parts - 1).astype(np.int64), return_inverse=True)[1]
    return part[groups]
