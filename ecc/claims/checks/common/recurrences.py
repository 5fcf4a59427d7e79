"""The laws of protocols as recurrences in time, on random networks; rates are constant for all t < 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ecc.contract.protocol import Protocol
from ecc.fluid import simulate
from ecc.network.network import Flow, Link, Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

__all__ = ["law_run", "random_network", "settled"]


def law_run(
    protocol: Protocol,
    network: Network,
    steps: int,
    start: ArrayLike,
    forward: ArrayLike = 0,
    backward: ArrayLike = 1,
    assignment: Sequence[int] | None = None,
) -> Trajectory:
    """Return a run of the laws with one sample per control interval.

    Parameters
    ----------
    protocol : Protocol
        Protocol of all flows and links.
    network : Network
        Network; its delays and buffers have no effect.
    steps : int, > 0
    start : array_like, shape (n_flows,), bit/s
        Rates before the first step.
    forward, backward : array_like, optional
        Delays as integers that broadcast to (period, n_flows, n_links), steps.
    assignment : sequence of int, shape (n_flows,), optional
        Bottleneck link of each flow; if None, the protocol chooses it.
    """
    T = protocol.params()["interval"]
    # buffer = 1: a queueing delay would count in the RTTs that scale the routers' gains
    links = [Link(C, buffer=1) for C in network.capacities]
    small = Network(links, [Flow(flow.route, packet_size=1) for flow in network.flows])
    scenario = Scenario(small, protocol, steps * T, assignment=assignment)
    return simulate(scenario, sample=T, time="discrete", start=start, delays=(forward, backward))


def settled(run: Trajectory, tolerance: float = 1e-6) -> bool:
    """Return whether, in the last fifth of a run, rates vary by less than `tolerance` and bottlenecks do not change.

    Parameters
    ----------
    run : Trajectory
    tolerance : float, optional
        Allowed spread of a rate relative to its mean, for example 1e-6.
    """
    rates, followed = run.rate.to_numpy(), run.bottleneck.to_numpy()
    tail = rates[-len(rates) // 5 :]
    moved = np.ptp(tail, axis=0) / tail.mean(axis=0)
    return bool(moved.max() <= tolerance and not np.ptp(followed[-len(tail) :], axis=0).any())


def random_network(rng: np.random.Generator, links: int, flows: int, hops: int | None = None) -> Network:
    """Return a network without delays: capacities from 1 to 100 Mb/s, routes over 1 to `hops` links in any order.

    Parameters
    ----------
    rng : random.Generator
        Generator.
    links, flows : int
        Numbers of links and flows; every link is crossed.
    hops : int, optional
        Maximum number of links on a route; all links if None.
    """
    max_hops = links if hops is None else hops
    while True:
        routes = [rng.permutation(links)[: rng.integers(1, max_hops + 1)].tolist() for _ in range(flows)]
        if len(set().union(*routes)) == links:
            break
    return Network([Link(float(C) * 1e6) for C in rng.uniform(1.0, 100.0, links)], [Flow(route) for route in routes])
