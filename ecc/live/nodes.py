"""Which node of a live run has what: the hosts of all senders, a router for each link, the hosts of all receivers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecc.native import IMPAIRMENT
from ecc.packet.partition import Joints
from ecc.packet.setup import Setup

__all__ = ["links_between", "nodes", "prepared_for_links"]

SENDERS, RECEIVERS = 0, 1
"""Nodes of hosts; routers count on."""
_LEAST = 1
"""ps. Of delays where a link is real."""


def prepared_for_links(setup: Setup) -> Setup:
    """Return a prepared run in which each receiver can be apart from its sender, and each link, too.

    ACKs that would take a pure delay become packets that a receiver sends, which finds out itself what is missing
    (S-62): real links may lose some. Delays of 0 become 1 ps.

    Parameters
    ----------
    setup : Setup

    Raises
    ------
    ValueError
        A flow has several routes, or packets that can be trimmed: frames do not say which one they are on, or whether
        they were. A link can be paused.
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
    links["phase_jitter"] = flows["phase_jitter"] = 0  # real hosts and links have phases of their own
    impairments = np.concatenate([setup.impairments, np.zeros(1, IMPAIRMENT)])
    plain = (flows["n_reverse"] == 0) & (flows["impairment"] == 0)
    flows["impairment"][plain] = len(impairments)
    for table, name in ((links, "delay"), (flows, "access_delay"), (flows, "ack_delay")):
        table[name] = np.maximum(table[name], _LEAST)
    return replace(setup, links=links, flows=flows, impairments=impairments)


def nodes(of: Joints, setup: Setup) -> NDArray[np.int64]:
    """Return the node of each link, sender and receiver, shape (n_links + 2 n_flows,).

    What no delay separates is in one node (S-122): a receiver is with its sender if its protocol has `on_receive`, and
    with the first of its reverse links.

    Parameters
    ----------
    of : Joints
    setup : Setup
        From `prepared_for_links`.
    """
    groups = of.groups(_LEAST)
    first_receiver = of.n_links + of.n_flows
    forward = np.zeros(of.n_links, np.bool_)
    at = 0
    for n_forward, n_reverse in setup.flows[: of.n_flows][["n_forward", "n_reverse"]].tolist():
        forward[setup.routes[at : at + n_forward]] = True
        at += n_forward + n_reverse
    parts = groups + RECEIVERS + 1
    sending = np.isin(groups, groups[of.n_links : first_receiver])
    routing = np.isin(groups, groups[: of.n_links][forward])
    receiving = np.isin(groups, groups[first_receiver:])
    parts[receiving & ~routing] = RECEIVERS
    used = np.unique(np.concatenate([of.begins, of.ends]))
    parts[np.setdiff1d(np.arange(len(parts)), used)] = SENDERS  # links without packets
    parts[sending] = SENDERS
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)


def links_between(of: Joints, parts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the pairs of nodes that packets go between, in either direction.

    Parameters
    ----------
    of : Joints
    parts : ndarray of int
        From `nodes`.
    """
    a, b = parts[of.begins], parts[of.ends]
    pairs = np.unique(np.sort(np.stack([a, b], axis=1)[a != b], axis=1), axis=0)
    return [(int(one), int(other)) for one, other in pairs]
