"""The laws of protocols in time: one step a control interval, every flow apart, delays that may change at every step.

With f_il and b_il the delays of flow i to link l and back, in steps (b_il >= 1):

    y_l[n] = sum over i of x_i[n - f_il[n]],   R_l[n] = router_law(R_l[n - 1], y_l[n], ...)
    x_i[n] = source_law(x_i[m - f_il[m]], what link l announced at m),   m = n - b_il[n]

where l is the link that i follows: the assigned one, or the one that speaks loudest of those on its route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc.closed_loop import law_arguments
from ecc.models import JetMax
from ecc.models.base import Protocol
from ecc.network import Flow, Link, Network

__all__ = ["LawRun", "law_run", "random_network", "settled"]

FLOOR = 1.0
"""Least rate of a flow [bit/s]."""


@dataclass(frozen=True)
class LawRun:
    """`rates` (steps, n_flows) and `arrivals` (steps, n_links) [bit/s], `followed` (steps, n_flows): link indices."""

    rates: NDArray[np.float64]
    arrivals: NDArray[np.float64]
    followed: NDArray[np.int64]


def law_run(
    protocol: Protocol,
    network: Network,
    steps: int,
    start: ArrayLike,
    forward: ArrayLike = 0,
    backward: ArrayLike = 1,
    assignment: Sequence[int] | None = None,
) -> LawRun:
    """Return rates and arrivals of the laws, from rates that were there for ever.

    Parameters
        protocol : of all flows and links, following one link a flow. network : Network; its delays play no part.
        steps : int, > 0. start : shape (n_flows,), bit/s.
        forward, backward : integers that broadcast to (period, n_flows, n_links), steps; used over and over again.
        assignment : shape (n_flows,), link each flow follows, or None: as the protocol chooses.
    """
    flows, links, crosses = network.n_flows, network.n_links, network.incidence
    ahead = _pattern(forward, flows, links)
    back = _pattern(backward, flows, links)
    past = int(ahead.max() + back.max()) + 1
    everyone, p, T = np.arange(flows), protocol.namespace(), protocol.params()["interval"]
    near = p.tolerance if isinstance(protocol, JetMax) else None
    rtt = (ahead.max(axis=0) + back.max(axis=0)) * T
    longest = np.where(crosses, rtt, 0.0).max(axis=0)
    x = np.tile(np.asarray(start, dtype=float), (past + steps, 1))
    y = np.tile(x[0] @ crosses, (past + steps, 1))
    memory = np.array([protocol.rate_range(float(C))[1] for C in network.capacities])
    told = np.zeros((past + steps, links))
    loud = np.zeros((past + steps, links))
    follows = np.zeros((past + steps, flows), dtype=np.int64)
    follows[:] = [flow.route[0] for flow in network.flows] if assignment is None else np.asarray(assignment)
    announce, asks = protocol.announce_law, law_arguments(protocol.router_law)

    def speak(n: int) -> None:
        """The routers at step n, from the rates that reach them."""
        for link in range(links):
            through = np.flatnonzero(crosses[:, link])
            sent = n - ahead[n % len(ahead), through, link]
            arriving = x[sent, through]
            mine = follows[sent, through] == link
            y[n, link] = total = float(arriving.sum())
            supply: dict[str, Any] = {
                "R": memory[link], "y": total, "u": float(arriving[~mine].sum()), "N": float(mine.sum()),
                "C": float(network.capacities[link]), "d": float(longest[link]), "T": T, "p": p,
            }  # fmt: skip
            if isinstance(protocol, JetMax):  # a link without followers has no fair rate
                told[n, link] = protocol.router_law(**{a: supply[a] for a in asks}) if mine.any() else np.inf
                loss = protocol.loss_law(total, supply["C"], p)
                loud[n, link] = loss if loss > p.tolerance else 0.0
                continue
            told[n, link] = protocol.router_law(**{a: supply[a] for a in asks})
            if announce is not None:
                memory[link] = told[n, link]
                told[n, link] = announce(memory[link], total)
            loud[n, link] = told[n, link]

    for n in range(past):
        speak(n)
    for n in range(past, past + steps):
        b = back[n % len(back)]
        heard = n - b
        follows[n] = follows[n - 1]
        if assignment is None:
            level = np.where(crosses, loud[heard, np.arange(links)], -np.inf)
            rate = np.where(crosses, told[heard, np.arange(links)], np.inf)
            follows[n] = _choose(near, follows[n - 1], level, rate, x[n - 1])
        at = heard[everyone, follows[n]]
        old = x[at - ahead[at % len(ahead), everyone, follows[n]], everyone]
        said = told[at, follows[n]]
        listening = np.isfinite(said)
        said = np.where(listening, said, old)
        x[n] = np.maximum(FLOOR, protocol.source_law(old, said, p))
        speak(n)
    return LawRun(x[past:], y[past:], follows[past:])


def _pattern(delays: ArrayLike, flows: int, links: int) -> NDArray[np.int64]:
    given = np.asarray(delays, dtype=np.int64)
    return np.broadcast_to(given, (len(given) if given.ndim == 3 else 1, flows, links))


def _choose(
    near: float | None, current: NDArray[np.int64], level: NDArray[np.float64], rate: NDArray[np.float64],
    x: NDArray[np.float64],
) -> NDArray[np.int64]:  # fmt: skip
    """The loudest link; JetMax: among links without virtual loss the one of least fair rate, once `near` its own."""
    loudest: NDArray[np.int64] = np.argmax(level, axis=1)
    if near is None:
        return loudest
    now = np.arange(len(x))
    keep = level[now, current] >= level[now, loudest]
    at_rest = np.abs(rate[now, current] / x - 1.0) <= near
    least = np.argmin(np.where(level == level.max(axis=1, keepdims=True), rate, np.inf), axis=1)
    return np.where(keep & ~at_rest & np.isfinite(rate[now, current]), current, np.where(keep, least, loudest))


def settled(run: LawRun, tolerance: float = 1e-6) -> bool:
    """Return whether rates keep within `tolerance`, relatively, and bottlenecks do not change, in the last fifth.

    Parameters
        run : LawRun. tolerance : float.
    """
    tail = run.rates[-len(run.rates) // 5 :]
    moved = np.ptp(tail, axis=0) / tail.mean(axis=0)
    return bool(moved.max() <= tolerance and not np.ptp(run.followed[-len(tail) :], axis=0).any())


def random_network(rng: np.random.Generator, links: int, flows: int, hops: int | None = None) -> Network:
    """Return a network without delays: capacities from 1 to 100 Mb/s, routes over 1 to `hops` links in any order.

    Parameters
        rng : generator. links, flows : counts; every link is crossed. hops : at most; default all links.
    """
    most = links if hops is None else hops
    while True:
        routes = [rng.permutation(links)[: rng.integers(1, most + 1)].tolist() for _ in range(flows)]
        if len(set().union(*routes)) == links:
            break
    return Network([Link(float(C) * 1e6) for C in rng.uniform(1.0, 100.0, links)], [Flow(route) for route in routes])
