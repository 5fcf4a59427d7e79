"""Fabrics: nodes and links, the shortest paths between hosts, and the choice of a path by hash (ECMP).

Nodes are numbered, hosts first: 0, 1, ..., n_hosts - 1. A link leads from its tail to its head. Hosts forward nothing.
The links of a fabric are in this order: those that leave hosts (link i leaves host i), those that enter hosts (link
n_hosts + i enters host i), then those between switches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

__all__ = ["Ends", "Graph", "ecmp_index", "fat_tree_ends", "leaf_spine_ends"]

Ends = tuple[tuple[int, int], ...]
"""Pairs (tail, head), one for each link."""


class Graph:
    """Shortest paths between hosts, by number of links: counted, and read by index.

    Parameters
    ----------
    ends : Ends
        (tail, head) of each link.
    n_hosts : int
        Number of hosts.
    """

    def __init__(self, ends: Ends, n_hosts: int) -> None:
        self._ends, self._n_hosts = ends, n_hosts
        self._leaving: dict[int, list[int]] = {}
        self._entering: dict[int, list[int]] = {}
        for link, (tail, head) in enumerate(ends):
            self._leaving.setdefault(tail, []).append(link)
            self._entering.setdefault(head, []).append(link)
        self._attached: dict[int, tuple[int, ...]] = {}
        self._found: dict[tuple[int, ...], dict[int, tuple[int, int]]] = {}
        self._onward: dict[tuple[int, tuple[int, ...]], list[tuple[int, int]]] = {}

    def n_paths(self, source: int, destination: int) -> int:
        """Return the number of shortest paths from one host to another, which is > 0.

        Parameters
        ----------
        source, destination : int

        Raises
        ------
        ValueError
            Not two different hosts, or no path between them.
        """
        for name, host in (("source", source), ("destination", destination)):
            if not 0 <= host < self._n_hosts:
                raise ValueError(f"{name} must be a host, 0 to {self._n_hosts - 1}, got {host}")
        if source == destination:
            raise ValueError(f"destination must be another host than the source, got {destination} for both")
        count = sum(count for _, count in self._next(source, destination))
        if not count:
            raise ValueError(f"destination must be a host that links lead to from host {source}, got {destination}")
        return count

    def path(self, source: int, destination: int, index: int) -> tuple[int, ...]:
        """Return the links of one of the shortest paths; paths are sorted by their link indices.

        Parameters
        ----------
        source, destination : int
        index : int, in [0, n_paths)
        """
        links, at = [], source
        while at != destination:
            for link, count in self._next(at, destination):
                if index < count:
                    links.append(link)
                    at = self._ends[link][1]
                    break
                index -= count
        return tuple(links)

    def _next(self, node: int, destination: int) -> list[tuple[int, int]]:
        """Return the links from a node on shortest paths, each with the number of shortest paths through it."""
        leaving = self._leaving.get(node, ())
        if direct := [(link, 1) for link in leaving if self._ends[link][1] == destination]:
            return direct
        attached = self._switches_at(destination)
        if (node, attached) not in self._onward:
            known = self._toward(attached)
            onward = [(link, entry) for link in leaving if (entry := known.get(self._ends[link][1])) is not None]
            nearest = min((hops for _, (hops, _) in onward), default=0)
            self._onward[node, attached] = [(link, count) for link, (hops, count) in onward if hops == nearest]
        return self._onward[node, attached]

    def _switches_at(self, host: int) -> tuple[int, ...]:
        """Return the switches with links to a host; hosts with the same switches share one search."""
        if host not in self._attached:
            before = [self._ends[link][0] for link in self._entering.get(host, ())]
            self._attached[host] = tuple(sorted(node for node in before if node >= self._n_hosts))
        return self._attached[host]

    def _toward(self, attached: tuple[int, ...]) -> dict[int, tuple[int, int]]:
        """Return, for each switch with paths to hosts at `attached`, the hops and the number of shortest paths."""
        if attached not in self._found:
            level = {node: attached.count(node) for node in attached}
            table, hops = {node: (1, count) for node, count in level.items()}, 1
            while level:
                hops += 1
                further: dict[int, int] = {}
                for node, count in level.items():
                    for link in self._entering.get(node, ()):
                        tail = self._ends[link][0]
                        if tail >= self._n_hosts and tail not in table:
                            further[tail] = further.get(tail, 0) + count
                table |= {node: (hops, count) for node, count in further.items()}
                level = further
            self._found[attached] = table
        return self._found[attached]


def ecmp_index(n_paths: int, source: int, destination: int, number: int, seed: int, is_ack: bool = False) -> int:
    """Return the index of a flow's path: a hash of its endpoints, its number among their flows, and a seed.

    It is BLAKE2b of these numbers, modulo `n_paths`: all paths are equally likely, the path of a flow does not depend
    on other flows, and the hash is the same on every machine.

    Parameters
    ----------
    n_paths : int, > 0
    source, destination : int
        Hosts of the flow; the same for its ACKs.
    number : int
        Number of the flow among those of this source and destination; it corresponds to a port.
    seed : int
    is_ack : bool, optional
        True: path of the ACKs, with a separate hash.
    """
    fields = (source, destination, number, seed, int(is_ack))
    key = b"".join(field.to_bytes(8, "little") for field in fields)
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") % n_paths


def leaf_spine_ends(leaves: int, spines: int, hosts_per_leaf: int) -> tuple[Ends, int]:
    """Return the ends of the links of a leaf-spine fabric, and its number of hosts.

    Host h is at leaf h // hosts_per_leaf; leaves are numbered after the hosts, spines after the leaves. Links between
    switches are those from leaves to spines, leaf by leaf, then those back, in the same order.

    Parameters
    ----------
    leaves, spines, hosts_per_leaf : int, > 0
    """
    n_hosts = leaves * hosts_per_leaf
    at = [(host, n_hosts + host // hosts_per_leaf) for host in range(n_hosts)]
    up = [(n_hosts + leaf, n_hosts + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    return (*at, *_back(at), *up, *_back(up)), n_hosts


def fat_tree_ends(k: int) -> tuple[Ends, int]:
    """Return the ends of the links of a fat tree of switches with k ports, and its number of hosts, k^3/4.

    A pod has k/2 edge switches, each with k/2 hosts, and k/2 aggregation switches, each joined to all of them; the a-th
    aggregation switch of every pod is joined to the core switches a k/2 to (a + 1) k/2 - 1. Nodes: hosts, edge switches
    and aggregation switches, each pod by pod, then core switches. Links between switches: from edge to aggregation,
    back, from aggregation to core, back.

    Parameters
    ----------
    k : int, even, > 0
    """
    half = k // 2
    n_hosts = k * half * half
    edge, aggregation, core = (n_hosts + k * half * tier for tier in range(3))
    at = [(host, edge + host // half) for host in range(n_hosts)]
    lower = [
        (edge + p * half + e, aggregation + p * half + a) for p in range(k) for e in range(half) for a in range(half)
    ]
    upper = [
        (aggregation + p * half + a, core + a * half + c) for p in range(k) for a in range(half) for c in range(half)
    ]
    return (*at, *_back(at), *lower, *_back(lower), *upper, *_back(upper)), n_hosts


def _back(ends: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    return ((head, tail) for tail, head in ends)
