"""Several queues at a link of a fluid of windows: the queue that a flow joins, and how queues share the link.

Each queue that a flow joins is a row of the curves, as a link with one queue is. The hook `on_classify` of the
discipline is called once for each flow. For a link of capacity C and a step h, let b_k be the bits that wait at queue k
or arrive there in the step. Then

    priority    serves queues in order: min(b_k, C h minus the service of the queues before it)
    drr, fq     serve all queues in proportion to their quanta; the others share the service that one cannot use

A full buffer drops arrivals to the longest queue or, without `drops_longest`, the same share of all arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.contract.protocol import Protocol
from ecc.fluid.compiled import Floats, Integers, inlined
from ecc.fluid.network.curves import Curves, Paths
from ecc.fluid.network.groups import FluidNetwork
from ecc.scenario import MAX_SAMPLED_QUEUES

__all__ = ["ECT_0", "ECT_1", "NOT_ECT", "LinkQueues", "Service", "codepoint", "joined_queue", "serve_several"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_DATA = 0  # kind of a packet
NOT_ECT, ECT_1, ECT_0 = range(3)
"""ECN codepoints of the packets of hosts (RFC 3168)."""


class Service(NamedTuple):
    """Scheduling of the queues of all links."""

    first: Integers  # (n_links + 1,): the queues of link l are those from first[l] to first[l + 1]
    by_priority: Integers  # (n_links,)
    drops_longest: Integers  # (n_links,)
    quantum: Floats  # (n_queues,)


@dataclass(frozen=True)
class LinkQueues:
    """The queues that flows join, link by link.

    Attributes
    ----------
    link : ndarray, shape (n_queues,)
        Link of each queue, in ascending order; a link that no flow crosses has one queue, too.
    index : ndarray, shape (n_queues,)
        Index of each queue at its link.
    fluid : FluidNetwork
        Network with the queues as its links.
    service : Service
    """

    link: IntArray
    index: IntArray
    fluid: FluidNetwork
    service: Service

    @classmethod
    def of(
        cls, fluid: FluidNetwork, at_links: Sequence[Protocol | None], joined: Sequence[Sequence[int]]
    ) -> LinkQueues:
        """Return the queues of a network.

        Parameters
        ----------
        fluid : FluidNetwork
        at_links : sequence of Protocol or None
            Discipline of each link.
        joined : sequence of sequence of int
            Index of the queue that each group joins at each link of its route.
        """
        crossed = {
            (link, k) for route, ks in zip(fluid.routes, joined, strict=True) for link, k in zip(route, ks, strict=True)
        }
        idle = set(range(fluid.n_links)) - {link for link, _ in crossed}
        queues = sorted(crossed | {(link, 0) for link in idle})
        row = {queue: k for k, queue in enumerate(queues)}
        link = np.array([link for link, _ in queues])
        several = [None if discipline is None else discipline.queues for discipline in at_links]
        owners = [(several[link], k) for link, k in queues]
        service = Service(
            np.searchsorted(link, np.arange(fluid.n_links + 1)).astype(np.int64),
            np.array([int(discipline is not None and discipline.scheduler == "priority") for discipline in several]),
            np.array([int(discipline is not None and discipline.drops_longest) for discipline in several]),
            np.array([1.0 if discipline is None else float(discipline.quanta[k]) for discipline, k in owners]),
        )
        routes = [
            tuple(row[queue] for queue in zip(route, ks, strict=True))
            for route, ks in zip(fluid.routes, joined, strict=True)
        ]
        changes = [fluid.changes[index] for index in link]
        as_links = replace(
            fluid, routes=routes, capacity=fluid.capacity[link], buffer=fluid.buffer[link], changes=changes
        )
        return cls(link, np.array([k for _, k in queues], np.int64), as_links, service)

    def by_link(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of queues, in the first axis, added up for each link.

        Parameters
        ----------
        values : ndarray, shape (n_queues, ...)
        """
        sums: NDArray[Any] = np.add.reduceat(values, self.service.first[:-1])
        return sums

    def classes(self, at_links: Sequence[Protocol | None]) -> tuple[IntArray, IntArray]:
        """Return the queues that results show (at links with 2 to 64 queues), and the row of each, -1 for an idle one.

        Parameters
        ----------
        at_links : sequence of Protocol or None
            Discipline of each link.

        Returns
        -------
        queues : ndarray, shape (2, n_classes)
            Link of each queue, and its index at the link.
        rows : ndarray, shape (n_classes,)
            Row of each queue in the curves.
        """
        queues = [None if discipline is None else discipline.queues for discipline in at_links]
        sizes = [1 if several is None else len(several.quanta) for several in queues]
        row = {queue: k for k, queue in enumerate(zip(self.link.tolist(), self.index.tolist(), strict=True))}
        shown = [(link, k) for link, n in enumerate(sizes) if 1 < n <= MAX_SAMPLED_QUEUES for k in range(n)]
        return np.array(shown, np.int64).reshape(-1, 2).T, np.array([row.get(queue, -1) for queue in shown], np.int64)

    def of_links(self, paths: Paths, curves: Curves) -> tuple[Paths, Curves]:
        """Return paths and curves of the links.

        Parameters
        ----------
        paths, curves : Paths, Curves
            Paths and curves of the queues.
        """
        into, out, drops = map(self.by_link, (curves.into, curves.out, curves.link_drops))
        return (
            paths._replace(buffer=paths.buffer[self.service.first[:-1]]),
            curves._replace(into=into, out=out, link_drops=drops),
        )


def codepoint(host: Protocol) -> int:
    """Return the ECN codepoint of the packets of a host.

    Parameters
    ----------
    host : Protocol
    """
    return {None: NOT_ECT, "scalable": ECT_1}.get(host.ecn_echo, ECT_0)


def joined_queue(discipline: Protocol | None, flow: int, host: Protocol) -> int:
    """Return the index of the queue that a flow joins at a link, by the hook `on_classify`.

    Parameters
    ----------
    discipline : Protocol or None
        Discipline of the link.
    flow : int
        Index of the flow.
    host : Protocol
        Protocol of the flow.

    Raises
    ------
    ValueError
        If the hook reads a field that differs from packet to packet, or if its queue does not exist.
    """
    if discipline is None or discipline.queues is None or "on_classify" not in discipline.link_hooks():
        return 0
    name = type(discipline).__name__
    env = SimpleNamespace(flow=flow, kind=_DATA, ecn=codepoint(host), queue_index=0)
    try:
        discipline.link_hooks()["on_classify"](discipline.link_record(), None, discipline.namespace(), env)
    except AttributeError as error:
        raise ValueError(
            f"{name} has no fluid model: its on_classify may read env.flow, env.kind and env.ecn there ({error})"
        ) from None
    if not 0 <= env.queue_index < len(discipline.queues.quanta):
        raise ValueError(
            f"queue_index of {name} must be from 0 to {len(discipline.queues.quanta) - 1}, got {env.queue_index} for"
            f" flow {flow}"
        )
    return int(env.queue_index)


@inlined
def serve_several(paths: Any, curves: Any, service: Any, link: int, i: int) -> None:
    """Let the queues of a link accept the arrivals that fit in its buffer, and serve them, at time i."""
    a, b = service.first[link], service.first[link + 1]
    into, out, incoming = curves.into, curves.out, curves.incoming
    remaining = paths.served[a, i] - paths.served[a, i - 1]
    for k in range(a, b):
        into[k, i], out[k, i] = into[k, i - 1] + incoming[k], out[k, i - 1]
        curves.link_drops[k, i] = curves.link_drops[k, i - 1]
    if service.by_priority[link] != 0:
        for k in range(a, b):
            amount = min(into[k, i] - out[k, i], remaining)
            out[k, i] += amount
            remaining -= amount
    else:
        emptied = True
        while emptied and remaining > 0.0:
            emptied, quanta, spent = False, 0.0, 0.0
            for k in range(a, b):
                if into[k, i] > out[k, i]:
                    quanta += service.quantum[k]
            for k in range(a, b):
                waits = into[k, i] - out[k, i]
                if waits > 0.0:
                    share = remaining * service.quantum[k] / quanta
                    if waits <= share:
                        emptied, spent, out[k, i] = True, spent + waits, into[k, i]
                    else:
                        spent, out[k, i] = spent + share, out[k, i] + share
            remaining -= spent
    arrivals, excess = 0.0, -paths.buffer[a]
    for k in range(a, b):
        arrivals += incoming[k]
        excess += into[k, i] - out[k, i]
    if excess > 0.0 and arrivals > 0.0:
        if service.drops_longest[link] == 0:
            for k in range(a, b):
                cut = min(excess * incoming[k] / arrivals, incoming[k], into[k, i] - out[k, i])
                into[k, i] -= cut
                curves.link_drops[k, i] += cut
        else:
            for _ in range(a, b):
                longest, max_length = -1, 0.0
                for k in range(a, b):
                    cut = incoming[k] - (curves.link_drops[k, i] - curves.link_drops[k, i - 1])
                    if cut > 0.0 and into[k, i] - out[k, i] > max_length:
                        longest, max_length = k, into[k, i] - out[k, i]
                if longest >= 0 and excess > 0.0:
                    cut = incoming[longest] - (curves.link_drops[longest, i] - curves.link_drops[longest, i - 1])
                    cut = min(excess, cut, max_length)
                    into[longest, i] -= cut
                    curves.link_drops[longest, i] += cut
                    excess -= cut
