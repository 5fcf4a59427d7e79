"""Several queues behind a link of a fluid of windows: which a flow joins, and how they share the link.

Each queue that a flow joins is a row of the curves, as a link with one queue is. The hook `on_classify` of the
discipline is asked once for each flow. Of a link of capacity C, with queues k in which b_k waits or comes in a step h,

    priority    serves the first that is not empty: min(b_k, what those before it leave of C h)
    drr, fq     serve all in proportion to their quanta; what one cannot use goes to the others

A full buffer drops what comes to the longest queue, or, without `drops_longest`, of what comes to all the same share.
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

__all__ = ["ECT_0", "ECT_1", "NOT_ECT", "LinkQueues", "Service", "codepoint", "joined_queue", "serve_several"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MOST_SHOWN = 64  # queues of a link whose bytes are in a result, as in packet runs
_DATA = 0  # kind of a packet
NOT_ECT, ECT_1, ECT_0 = range(3)
"""ECN codepoints of what hosts send (RFC 3168)."""


class Service(NamedTuple):
    """How links serve their queues."""

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
        In ascending order; a link that no flow crosses has one, too.
    index : ndarray, shape (n_queues,)
        Of the queue at its link.
    fluid : FluidNetwork
        Whose links are the queues.
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
            The discipline of each link.
        joined : sequence of sequence of int
            For each group, the index of the queue that it joins at each link of its route.
        """
        crossed = {(link, k) for route, ks in zip(fluid.routes, joined, strict=True)
                   for link, k in zip(route, ks, strict=True)}  # fmt: skip
        idle = set(range(fluid.n_links)) - {link for link, _ in crossed}
        queues = sorted(crossed | {(link, 0) for link in idle})
        row = {queue: k for k, queue in enumerate(queues)}
        link = np.array([link for link, _ in queues])
        several = [None if one is None else one.queues for one in at_links]
        owners = [(several[link], k) for link, k in queues]
        service = Service(
            np.searchsorted(link, np.arange(fluid.n_links + 1)).astype(np.int64),
            np.array([int(one is not None and one.scheduler == "priority") for one in several]),
            np.array([int(one is not None and one.drops_longest) for one in several]),
            np.array([1.0 if one is None else float(one.quanta[k]) for one, k in owners]),
        )
        routes = [
            tuple(row[queue] for queue in zip(route, ks, strict=True))
            for route, ks in zip(fluid.routes, joined, strict=True)
        ]
        changes = [fluid.changes[one] for one in link]
        as_links = replace(
            fluid, routes=routes, capacity=fluid.capacity[link], buffer=fluid.buffer[link], changes=changes
        )
        return cls(link, np.array([k for _, k in queues], np.int64), as_links, service)

    def by_link(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what belongs to queues, in the first axis, added up for each link.

        Parameters
        ----------
        values : ndarray, shape (n_queues, ...)
        """
        found: NDArray[Any] = np.add.reduceat(values, self.service.first[:-1])
        return found

    def classes(self, at_links: Sequence[Protocol | None]) -> tuple[IntArray, IntArray]:
        """Return the queues that results show, those of links with 2 to 64, and the row of each, -1 for an idle one.

        Parameters
        ----------
        at_links : sequence of Protocol or None
            The discipline of each link.

        Returns
        -------
        tuple of ndarray
            Shapes (2, n_classes), link and index there, and (n_classes,).
        """
        sizes = [1 if one is None or one.queues is None else len(one.queues.quanta) for one in at_links]
        row = {queue: k for k, queue in enumerate(zip(self.link.tolist(), self.index.tolist(), strict=True))}
        shown = [(link, k) for link, n in enumerate(sizes) if 1 < n <= _MOST_SHOWN for k in range(n)]
        return np.array(shown, np.int64).reshape(-1, 2).T, np.array([row.get(queue, -1) for queue in shown], np.int64)

    def whole(self, paths: Paths, curves: Curves) -> tuple[Paths, Curves]:
        """Return paths and curves of the links.

        Parameters
        ----------
        paths, curves : Paths, Curves
            Of the queues.
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
        Of the link.
    flow : int
    host : Protocol
        Of the flow.

    Raises
    ------
    ValueError
        The hook asks for what differs from packet to packet, or there is no such queue.
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
    """Let the queues of a link accept what the link has room for, and serve them, at time i."""
    a, b = service.first[link], service.first[link + 1]
    into, out, incoming = curves.into, curves.out, curves.incoming
    left = paths.served[a, i] - paths.served[a, i - 1]
    for k in range(a, b):
        into[k, i], out[k, i] = into[k, i - 1] + incoming[k], out[k, i - 1]
        curves.link_drops[k, i] = curves.link_drops[k, i - 1]
    if service.by_priority[link] != 0:
        for k in range(a, b):
            amount = min(into[k, i] - out[k, i], left)
            out[k, i] += amount
            left -= amount
    else:
        emptied = True
        while emptied and left > 0.0:
            emptied, quanta, spent = False, 0.0, 0.0
            for k in range(a, b):
                if into[k, i] > out[k, i]:
                    quanta += service.quantum[k]
            for k in range(a, b):
                waits = into[k, i] - out[k, i]
                if waits > 0.0:
                    share = left * service.quantum[k] / quanta
                    if waits <= share:
                        emptied, spent, out[k, i] = True, spent + waits, into[k, i]
                    else:
                        spent, out[k, i] = spent + share, out[k, i] + share
            left -= spent
    came, excess = 0.0, -paths.buffer[a]
    for k in range(a, b):
        came += incoming[k]
        excess += into[k, i] - out[k, i]
    if excess > 0.0 and came > 0.0:
        if service.drops_longest[link] == 0:
            for k in range(a, b):
                cut = min(excess * incoming[k] / came, incoming[k], into[k, i] - out[k, i])
                into[k, i] -= cut
                curves.link_drops[k, i] += cut
        else:
            for _ in range(a, b):
                longest, most = -1, 0.0
                for k in range(a, b):
                    cut = incoming[k] - (curves.link_drops[k, i] - curves.link_drops[k, i - 1])
                    if cut > 0.0 and into[k, i] - out[k, i] > most:
                        longest, most = k, into[k, i] - out[k, i]
                if longest >= 0 and excess > 0.0:
                    cut = incoming[longest] - (curves.link_drops[longest, i] - curves.link_drops[longest, i - 1])
                    cut = min(excess, cut, most)
                    into[longest, i] -= cut
                    curves.link_drops[longest, i] += cut
                    excess -= cut
