"""Topologies and flows in the file formats of HPCC's simulator (Li et al. 2019), common in data center simulators.

A topology file (`topology.txt`, `fat.txt`) has the numbers of nodes, switches and links, the switches, and a line for
each bidirectional link:

    257 1 256
    0
    0 1 100Gbps 0.001ms 0        two nodes, rate, delay, probability of losing a packet

A flow file (`flow.txt`) has the number of flows and a line for each; lines beyond that number are ignored, as in the
simulator:

    2
    2 1 3 100 200000000 2        source, destination, priority group, port, bytes, start [s]

Some simulators omit the port. Nodes that are not switches are hosts. Priority groups and ports have no effect here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecc._support.arguments import check_arguments, shown
from ecc._support.files import read_bytes
from ecc._support.quantity import Quantity, as_number, as_time
from ecc.network.demands import Demand
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Link, Network

__all__ = ["Topology", "read_flows", "read_network", "read_topology"]

_MAX_SIZE = 2**28
"""Maximum size of a file [bytes]: some ten million flows."""
_FLOW = ("source", "destination", "priority group", "port", "bytes", "start")


@dataclass(frozen=True)
class Topology:
    """Nodes and links of a topology file.

    `links` and `ends` are those of `ecc.Network`: two links for each link of the file, first all in the direction of
    the file, then all in the reverse direction. Node k of the network is node `nodes[k]` of the file; the first
    `n_hosts` are hosts. `losses`: impairments, one for each link that loses packets.
    """

    links: tuple[Link, ...]
    ends: tuple[tuple[int, int], ...]
    n_hosts: int
    nodes: tuple[int, ...]
    losses: tuple[RandomLoss, ...] = ()


@check_arguments
def read_topology(path: str | Path, buffer: Quantity | None = None) -> Topology:
    """Return the nodes and links of a topology file.

    Parameters
    ----------
    path : str or Path
    buffer : int, bytes, optional
        Buffer of each link, which is not in the file. None: unlimited.

    Returns
    -------
    Topology

    Raises
    ------
    ValueError
        A line that violates the format, or an unknown node. The message has the number of the line.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> topology = read_topology("topology.txt")  # doctest: +SKIP
    >>> topology.n_hosts, len(topology.links)  # doctest: +SKIP
    (256, 512)
    """
    lines = _lines(path)
    n_nodes, n_switches, n_links = _next_numbers(lines, path, ("nodes", "switches", "links"))
    switches: list[int] = []
    while len(switches) < n_switches:
        number, words = _next(lines, path, "the switches")
        with _located(path, number):
            switches += [_node(word, n_nodes) for word in words]
    if len(set(switches)) != n_switches:
        raise ValueError(f"switches must be {n_switches} different nodes, got {shown(switches)} ({str(path)!r})")
    is_switch = [node in set(switches) for node in range(n_nodes)]
    nodes = sorted(range(n_nodes), key=lambda node: (is_switch[node], node))
    index = {node: k for k, node in enumerate(nodes)}
    links, ends, losses = [], [], []
    for k in range(n_links):
        number, words = _next(lines, path, f"link {k}")
        with _located(path, number):
            if len(words) not in (4, 5):
                raise ValueError(f"a link must have two nodes, rate, delay and loss, got {shown(' '.join(words))}")
            ends.append((index[_node(words[0], n_nodes)], index[_node(words[1], n_nodes)]))
            links.append(Link(words[2], words[3], buffer=buffer))
            loss = _number(words[4], "loss") if len(words) == 5 else 0.0
            if loss:
                losses += [RandomLoss(loss, link=link, kind="all") for link in (k, n_links + k)]
    back = tuple((head, tail) for tail, head in ends)
    return Topology(tuple(links) * 2, tuple(ends) + back, n_nodes - n_switches, tuple(nodes), tuple(losses))


@check_arguments
def read_flows(path: str | Path, topology: Topology, packet_size: Quantity = 1000) -> list[Demand]:
    """Return the flows of a flow file as demands, in the order of the file.

    Parameters
    ----------
    path : str or Path
    topology : Topology
        Topology of the network.
    packet_size : int, bytes, optional

    Returns
    -------
    list of Demand

    Raises
    ------
    ValueError
        A line that violates the format, or nodes that are not two hosts. The message has the number of the line.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> demands = read_flows("flow.txt", read_topology("topology.txt"))  # doctest: +SKIP
    """
    hosts = {node: k for k, node in enumerate(topology.nodes[: topology.n_hosts])}
    lines = _lines(path)
    (n_flows,) = _next_numbers(lines, path, ("flows",))
    demands = []
    for k in range(n_flows):
        number, words = _next(lines, path, f"flow {k} of {n_flows}")
        with _located(path, number):
            if len(words) not in (5, 6):
                raise ValueError(f"a flow must have {', '.join(_FLOW)}, got {shown(' '.join(words))}")
            ends = [_node(word, len(topology.nodes)) for word in words[:2]]
            for name, node in zip(_FLOW, ends, strict=False):
                if node not in hosts:
                    raise ValueError(f"{name} must be a host, got {node}, a switch")
            start = as_time(_number(words[-1], "start"), "start")
            size = _number(words[-2], "bytes")
            demands.append(Demand(hosts[ends[0]], hosts[ends[1]], size=size, start=start, packet_size=packet_size))
    return demands


@check_arguments
def read_network(
    topology: str | Path,
    flows: str | Path,
    buffer: Quantity | None = None,
    packet_size: Quantity = 1000,
    seed: int = 1,
    ack_links: bool = True,
) -> Network:
    """Return the network of a topology file with the flows of a flow file.

    Parameters
    ----------
    topology, flows : str or Path
        Files.
    buffer : int, bytes, optional
        Buffer of each link. None: unlimited.
    packet_size : int, bytes, optional
    seed, ack_links : object
        See `Network.with_demands`: shortest paths by ECMP.

    Returns
    -------
    Network
        Network with one flow per line. Its flows have columns in results. If there are many, all but one can be
        transfers instead, which have only rows: `network.with_flows(network.flows[:1])` with
        `ecc.Workload(network.flows[1:])`.

    Raises
    ------
    ValueError, OSError
        See `read_topology` and `read_flows`; also, no path between two hosts.

    Notes
    -----
    Losses of links are not part of a network: `read_topology(...).losses` are impairments for a scenario.

    Examples
    --------
    >>> net = read_network("topology.txt", "flow.txt", buffer="16 MB")  # doctest: +SKIP
    """
    nodes = read_topology(topology, buffer)
    demands = read_flows(flows, nodes, packet_size)
    if not demands:
        raise ValueError(f"flows must be at least one, got 0 ({str(flows)!r})")
    graph = Network(nodes.links, [Flow([0], packet_size=packet_size)], ends=nodes.ends, n_hosts=nodes.n_hosts)
    return graph.with_demands(demands, seed, ack_links)


class _located:
    """Adds the file and the number of the line to errors."""

    def __init__(self, path: str | Path, number: int) -> None:
        self._place = f"(line {number} of {str(path)!r})"

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, ValueError | TypeError):
            raise ValueError(f"{error} {self._place}") from None


def _lines(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers and words of the lines that are not blank."""
    text = read_bytes(path, "file", _MAX_SIZE).decode("utf-8", errors="replace")
    return ((number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _next(lines: Iterator[tuple[int, list[str]]], path: str | Path, what: str) -> tuple[int, list[str]]:
    entry = next(lines, None)
    if entry is None:
        raise ValueError(f"file must have {what}, got its end ({str(path)!r})")
    return entry


def _next_numbers(lines: Iterator[tuple[int, list[str]]], path: str | Path, names: Sequence[str]) -> list[int]:
    """The whole numbers of the first line."""
    number, words = _next(lines, path, f"numbers of {', '.join(names)}")
    with _located(path, number):
        if len(words) != len(names) or not all(word.isdecimal() and len(word) < 10 for word in words):
            raise ValueError(f"the first line must be the numbers of {', '.join(names)}, got {shown(' '.join(words))}")
    return [int(word) for word in words]


def _node(word: str, n_nodes: int) -> int:
    if not (word.isdecimal() and len(word) < 10 and int(word) < n_nodes):
        raise ValueError(f"a node must be from 0 to {n_nodes - 1}, got {shown(word)}")
    return int(word)


def _number(word: str, name: str) -> float:
    try:
        return as_number(float(word), name, minimum=0.0)
    except ValueError:
        raise ValueError(f"{name} must be a number >= 0, got {shown(word)}") from None
