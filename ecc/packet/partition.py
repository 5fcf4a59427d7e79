"""How a network is cut into parts that run in threads: where there is delay, into parts with as much to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ecc.native import Partition

__all__ = ["Joints", "joints", "partition"]

SENDER, HOP, RECEIVER, CROSSING = 150e-9, 100e-9, 50e-9, 130e-9
"""What a packet costs at each [s of CPU], about: only the balance of the parts depends on it, and no result."""
EXCHANGE = 2e-6
"""What it costs a part to hear from the others, once in the least delay from them [s], about."""
MOST_PARTS = 1024
"""That the engine knows; some may be empty, and are left out."""
_MOST_TRIED = 12


@dataclass(frozen=True)
class Joints:
    """Where packets go from one link, sender or receiver (node) to another, and how long they take at least.

    Nodes are the links, then the senders, then the receivers by flow; flows are those of the network, then templates of
    transfers. Shapes (n_joints,): `begins`, `ends`: nodes;
    `delays` [ps], 0 where nodes cannot be apart; `flows`: whose packets. `places`, shape (n_nodes,): the link that a
    node is at. `n_templates`: of `n_flows`.
    """

    n_links: int
    n_flows: int
    n_templates: int
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    delays: NDArray[np.int64]
    flows: NDArray[np.int64]
    places: NDArray[np.int64]

    def groups(self, least: int) -> NDArray[np.int64]:
        """Return the number of the group of each node: those in one are joined by delays below `least`.

        Parameters
        ----------
        least : int, ps
        """
        n, joined = len(self.places), self.delays < least
        matrix = coo_array((np.ones(joined.sum()), (self.begins[joined], self.ends[joined])), shape=(n, n))
        numbers: NDArray[np.int64] = connected_components(matrix, directed=False)[1].astype(np.int64)
        return numbers

    def of_parts(self, part: int, parts: NDArray[np.int64]) -> Partition:
        """Return the parts of all nodes as an engine reads them.

        Parameters
        ----------
        part : int
            Number of that of the engine.
        parts : ndarray of int, shape (n_nodes,)
        """
        links, senders, receivers = np.split(parts, np.cumsum([self.n_links, self.n_flows]))
        n = self.n_flows - self.n_templates
        return Partition(part, links, senders[:n], receivers[:n], senders[n:])


def joints(
    links: NDArray[np.void], flows: NDArray[np.void], routes: NDArray[np.int64], impairments: NDArray[np.void],
    receives: NDArray[np.bool_], n_templates: int = 0, chains: Sequence[tuple[int, int]] = (),
) -> Joints:  # fmt: skip
    """Return the joints of a network (S-122, S-124, S-127).

    Parameters
    ----------
    links, flows : NDArray[void]
        Dtypes LINK, without additional routers, and FLOW, templates last.
    routes : ndarray of int
    impairments : NDArray[void]
    receives : ndarray of bool, shape (n_flows,)
        Whether a flow has on_receive.
    n_templates : int, optional
    chains : sequence of (int, int), optional
        Pairs of templates of which transfers of one may be subsequent to those of the other.
    """
    n_links, n_flows = len(links), len(flows)
    reorders = np.array([False, *(impairments["reorders"] != 0)])
    wire_reorders = reorders[links["impairment"]].tolist()
    delay = links["delay"].tolist()
    places = np.concatenate([np.arange(n_links), np.zeros(2 * n_flows, np.int64)])
    found: list[tuple[int, int, int, int]] = []
    names = list(flows.dtype.fields or {})
    at = 0
    for f, flow in enumerate(flows.tolist()):
        given = dict(zip(names, flow, strict=True))
        forward = routes[at : (at := at + given["n_forward"])].tolist()
        reverse = routes[at : (at := at + given["n_reverse"])].tolist()
        lengths = routes[at : (at := at + given["n_alternatives"])].tolist()
        others = [routes[at : (at := at + length)].tolist() for length in lengths]
        sender, receiver, impaired = n_links + f, n_links + n_flows + f, given["impairment"] > 0
        places[sender], places[receiver] = forward[0], forward[-1]
        is_silent = not (
            receives[f] or reverse or impaired or given["ack_every"] > 1 or given["ecn"] or given["transport"]
            or any(wire_reorders[k] for k in forward) or others or given["reordering_threshold"] > 1
            or given["trimmed_size"]
        )  # fmt: skip
        is_template = f >= n_flows - n_templates
        found.append((sender, forward[0], 0 if is_template else given["access_delay"], f))
        for way in (forward, reverse, *others):
            found += [(a, b, delay[a], f) for a, b in zip(way, way[1:], strict=False)]
        found += [(forward[0], way[0], 0, f) for way in others]
        found += [(way[-1], receiver, delay[way[-1]], f) for way in (forward, *others)]
        if is_silent or receives[f] or is_template:
            found.append((receiver, sender, 0, f))
        if reverse:
            found.append((receiver, reverse[0], 0, f))
            is_event = impaired or wire_reorders[reverse[-1]]
            pure = 0 if is_event or is_template else given["ack_delay"]
            found.append((reverse[-1], sender, delay[reverse[-1]] + pure, f))
        elif not is_silent:
            found.append((receiver, sender, given["ack_delay"], f))
    first = n_links + n_flows - n_templates
    found += [(first + a, first + b, 0, n_flows - n_templates + a) for a, b in chains]
    begins, ends, delays, whose = np.array(found, np.int64).reshape(-1, 4).T
    return Joints(n_links, n_flows, n_templates, begins, ends, delays, whose, places)


def partition(
    of: Joints, n_parts: int, links: NDArray[np.void], flows: NDArray[np.void]
) -> tuple[NDArray[np.int64], float]:
    """Return the part of each node, of as many parts as make the run fast, and how many times as fast it may get.

    Parameters
    ----------
    of : Joints
    n_parts : int, >= 1
        So many at most.
    links, flows : NDArray[void]
        As for `joints`.

    Returns
    -------
    parts : ndarray of int, shape (n_nodes,)
        Numbers from 0; all 0 where no delay separates anything, or parts would take longer than the whole.
    speedup : float
        By a rough model of the network, no measurement: the balance of the parts, what crosses, and how often a part
        has to hear from others.
    """
    n, n_parts = len(of.places), min(n_parts, MOST_PARTS)
    rates = _packet_rates(of, links, flows)
    loads = np.zeros(n)
    loads[of.n_links : of.n_links + of.n_flows] = SENDER * rates
    loads[of.n_links + of.n_flows :] = RECEIVER * rates
    np.add.at(loads, of.ends, np.where(of.ends < of.n_links, HOP * rates[of.flows], 0.0))
    best = np.zeros(n, np.int64), float(loads.sum())
    delays = np.unique(of.delays[of.delays > 0])
    tried = delays[np.unique(np.linspace(0, len(delays) - 1, _MOST_TRIED).round().astype(int))] if len(delays) else []
    for least in tried:
        groups = of.groups(int(least))
        for count in _counts(n_parts):
            parts = _split(of, groups, loads, count)
            crosses = parts[of.begins] != parts[of.ends]
            work = np.bincount(parts, loads, count)
            for node in (of.begins, of.ends):
                np.add.at(work, parts[node[crosses]], CROSSING * rates[of.flows[crosses]])
            least_into = np.full(count, np.inf)
            np.minimum.at(least_into, parts[of.ends[crosses]], of.delays[crosses] * 1e-12)
            time = float((work + EXCHANGE / least_into).max())
            if time < best[1]:
                best = parts, time
    return best[0], float(loads.sum()) / best[1] if best[1] > 0.0 else 1.0


def _counts(most: int) -> list[int]:
    """How many parts are tried: the most, half of them, and so on."""
    return [most >> k for k in range(most.bit_length()) if most >> k > 1]


def _packet_rates(of: Joints, links: NDArray[np.void], flows: NDArray[np.void]) -> NDArray[np.float64]:
    """Packets per second of each flow, if the flows of a link had equal shares of it."""
    at_links = of.ends < of.n_links
    n_through = np.maximum(np.bincount(of.ends[at_links], minlength=of.n_links), 1)
    shares = links["capacity"] / n_through
    rates = np.full(of.n_flows, np.inf)
    np.minimum.at(rates, of.flows[at_links], shares[of.ends[at_links]])
    found: NDArray[np.float64] = rates / (8.0 * flows["packet_size"])
    return found


def _split(of: Joints, groups: NDArray[np.int64], loads: NDArray[np.float64], n_parts: int) -> NDArray[np.int64]:
    """The part of each node: groups in the order of their links, as these follow on routes, cut into equal loads."""
    first = np.full(groups.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, groups, of.places)
    order = np.argsort(first, kind="stable")
    work = np.bincount(groups, loads)[order]
    middle = np.cumsum(work) - work / 2.0
    part = np.empty(len(order), np.int64)
    total = work.sum()
    part[order] = np.unique(np.minimum(middle / total * n_parts, n_parts - 1).astype(np.int64), return_inverse=True)[1]
    return part[groups]
