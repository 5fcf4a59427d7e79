"""Nodes of a live run: one for the hosts of all senders, a router for each link, one for the hosts of all receivers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecc.native import IMPAIRMENT
from ecc.packet.partition import Joints
from ecc.packet.setup import Setup

__all__ = ["links_between", "nodes", "prepared_for_links"]

SENDERS, RECEIVERS = 0, 1
"""Nodes of hosts; the numbers of routers follow."""
_MIN_DELAY = 1
"""ps. Minimum delay of real links."""


def prepared_for_links(setup: Setup) -> Setup:
    """Return a prepared run in which all senders, receivers and links can be in different nodes.

    ACKs with a pure delay become packets of the receiver, which detects missing data itself (S-62), because real links
    can lose packets. Delays of 0 become 1 ps.

    Parameters
    ----------
    setup : Setup

    Raises
    ------
    ValueError
        If a flow has several routes or packets that can be trimmed, because frames carry neither the route nor the
        trimming, if a link can be paused, or if the run begins with queues.
    """
    for flow, n in enumerate(setup.flows["n_alternatives"].tolist()):
        if n > 0:
            raise ValueError(f"alternatives must be empty in live runs, got {n} (flow {flow})")
    for flow, size in enumerate(setup.flows["trimmed_size"].tolist()):
        if size > 0:
            raise ValueError(f"trimmed_size must be None in live runs, got {size} bytes (flow {flow})")
    if (paused := np.flatnonzero(setup.links["xoff"])).size:
        raise ValueError(f"pause must be None in live runs (link {paused[0]})")
    if len(setup.under_way):
        raise ValueError("start must be 'empty' in live runs of an equilibrium with queues, got 'equilibrium'")
    links, flows = setup.links.copy(), setup.flows.copy()
    links["phase_jitter"] = flows["phase_jitter"] = 0  # real hosts and links have their random phases
    impairments = np.concatenate([setup.impairments, np.zeros(1, IMPAIRMENT)])
    plain = (flows["n_reverse"] == 0) & (flows["impairment"] == 0)
    flows["impairment"][plain] = len(impairments)
    for table, name in ((links, "delay"), (flows, "access_delay"), (flows, "ack_delay")):
        table[name] = np.maximum(table[name], _MIN_DELAY)
    return replace(setup, links=links, flows=flows, impairments=impairments)


def nodes(graph: Joints, setup: Setup) -> NDArray[np.int64]:
    """Return the node of each link, sender and receiver, shape (n_links + 2 n_flows,).

    Links, senders and receivers without a delay between them are in the same node (S-122): a receiver is in the node of
    its sender if its protocol has `on_receive`, and in the node of its first reverse link.

    Parameters
    ----------
    graph : Joints
    setup : Setup
        Result of `prepared_for_links`.
    """
    groups = graph.groups(_MIN_DELAY)
    first_receiver = graph.n_links + graph.n_flows
    forward = np.zeros(graph.n_links, np.bool_)
    at = 0
    for n_forward, n_reverse in setup.flows[: graph.n_flows][["n_forward", "n_reverse"]].tolist():
        forward[setup.routes[at : at + n_forward]] = True
        at += n_forward + n_reverse
    parts = groups + RECEIVERS + 1
    sending = np.isin(groups, groups[graph.n_links : first_receiver])
    routing = np.isin(groups, groups[: graph.n_links][forward])
    receiving = np.isin(groups, groups[first_receiver:])
    parts[receiving & ~routing] = RECEIVERS
    used = np.unique(np.concatenate([graph.begins, graph.ends]))
    parts[np.setdiff1d(np.arange(len(parts)), used)] = SENDERS  # links without packets
    parts[sending] = SENDERS
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)


def links_between(graph: Joints, parts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the pairs of nodes between which packets are exchanged, in either direction.

    Parameters
    ----------
    graph : Joints
    parts : ndarray of int
        Result of `nodes`.
    """
    a, b = parts[graph.begins], parts[graph.ends]
    pairs = np.unique(np.sort(np.stack([a, b], axis=1)[a != b], axis=1), axis=0)
    return [(int(first), int(second)) for first, second in pairs]
