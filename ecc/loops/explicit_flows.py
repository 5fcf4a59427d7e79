"""Linear models of explicit feedback with a state for each kind of flow: the discrete one, and the continuous one if
routers without memory respond to the rate of each flow (`ecc.loops.explicit_feedback` has the equations).
"""

from __future__ import annotations

from collections import defaultdict
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.explicit_derivatives import Linearization, steps_of
from ecc.loops.explicit_terms import (
    CUT_AT_SOURCES,
    FEEDBACK,
    MAX_SIGNALED,
    Terms,
    refuse_passing_on,
    sampled_system,
    signaled_system,
    with_differences_if_stable,
)
from ecc.network.network import Network

__all__ = ["continuous_flows", "sampled_flows"]


def continuous_flows(laws: Linearization, network: Network, T: float) -> DelaySystem:
    """Return the continuous model with state (x[, q][, differences]).

    An x is the sum of equal flows, as it enters their first link.

    Parameters
    ----------
    laws : Linearization
    network : Network
    T : float, s
        Interval of the laws.
    """
    router, bottleneck = laws.router, laws.equilibrium.bottleneck
    refuse_passing_on(laws, "with a state for each flow")
    ahead = laws.delays.forward
    row = {int(link): k for k, link in enumerate(laws.links)}
    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        start, b = float(ahead[i, flow.route[0]]), int(bottleneck[i])
        around = float(laws.delays.rtts[i])
        back = float(laws.delays.backward[i, b] + start if b != flow.route[0] else laws.delays.around[i, b])
        distances = frozenset((link, float(ahead[i, link]) - start) for link in flow.route)
        equal[distances, b, back, around].append(i)
    if len(equal) > MAX_SIGNALED:
        raise LinearizationError(
            f"the model has a state for each kind of flow: at most {MAX_SIGNALED}, got {len(equal)}"
        )
    queued = np.flatnonzero(router["q"] != 0.0).tolist()
    first = len(equal) + len(queued)
    source = laws.source
    differences = []  # (gain, delay) of differences between equal flows
    for (_, b, _, around), flows in equal.items():
        gain = float(source["R"][flows[0]] * router["x"][row[b]]) / T
        if len(flows) > 1 and -gain * around >= 1.5:
            differences.append((gain, around))
    n_states = first + len(differences)
    kinds = np.arange(len(equal))
    at = np.array([row[b] for _, b, _, _ in equal])
    backs, arounds = (np.array([key[at] for key in equal]) for at in (2, 3))
    heads = np.array([flows[0] for flows in equal.values()])
    count = np.array([float(len(flows)) for flows in equal.values()])
    gains = source["R"][heads] / T
    crossing = network.incidence.sum(axis=0)[laws.links]
    arrivals = [
        (n_states + row[link], g, delay)
        for g, (distances, *_) in enumerate(equal)
        for link, delay in distances
        if link in row
    ]
    to, sender, ahead_of = (np.array(column) for column in zip(*arrivals, strict=True))
    queues = np.array(queued, dtype=int)
    place = np.full(len(laws.links), -1)
    place[queues] = len(equal) + np.arange(len(queues))
    waits = kinds[place[at] >= 0]
    extra = first + np.arange(len(differences))
    own_rates = [
        (kinds, kinds, T, (source["x"][heads] - 1.0) / T),
        (kinds, kinds, arounds, gains * router["x"][at]),
    ]
    sums = [
        (to, sender, ahead_of, 1.0),
        (place[queues], n_states + queues, 0.0, 1.0),
        (extra, extra, [delay for _, delay in differences], [gain for gain, _ in differences]),
    ]
    of_queues = (waits, place[at[waits]], backs[waits], (count * gains * router["q"][at])[waits])

    def system(of_y: NDArray[np.float64], queued: bool, opened: DelaySystem | None) -> DelaySystem:
        of_arrivals = (kinds, n_states + at, backs, count * gains * of_y[at])
        return signaled_system(
            n_states, len(laws.links), [*own_rates, of_arrivals, *([of_queues] * queued), *sums], opened
        )

    return system(router["y"], True, system(-router["x"] / crossing, False, None))


def sampled_flows(laws: Linearization, network: Network, T: float) -> SampledSystem:
    """Return the discrete model with state (R[, announced], x[, q]) at a step; an x is the sum of equal flows.

    Parameters
    ----------
    laws : Linearization
    network : Network
    T : float, s
        Length of a step.
    """
    refuse_passing_on(laws, "with a state for each flow")
    around = [steps_of(float(rtt), T) for rtt in laws.delays.rtts]

    def forward(flow: int, link: int) -> int:
        return min(ceil(float(laws.delays.forward[flow, link]) / T - 1e-9), around[flow] - 1)

    def backward(flow: int, link: int) -> int:
        waited = float(laws.delays.rtts[flow] - laws.delays.around[flow, link])
        return max(1, around[flow] - forward(flow, link) - floor(waited / T + 1e-9))

    equal: dict[Any, list[int]] = defaultdict(list)
    for i, flow in enumerate(network.flows):
        distances = frozenset((link, forward(i, link)) for link in flow.route)
        equal[distances, around[i], laws.receives[i].tobytes()].append(i)
    groups = list(equal.values())
    count = len(laws.links)
    reads_queue = laws.router["q"] != 0.0
    if laws.announce is not None:
        reads_queue |= laws.announce["q"] != 0.0
    queues = np.flatnonzero(reads_queue).tolist()
    first = count * (1 if laws.announce is None else 2)  # index of the first rate
    announced = first - count  # index of the first announced value
    q_at = first + len(groups)
    size = q_at + len(queues)
    terms = Terms(size)
    source = laws.source
    for k, link in enumerate(laws.links.tolist()):
        crossing = [(first + g, flows[0]) for g, flows in enumerate(groups) if network.incidence[flows[0], link]]
        for slopes, row in ((laws.router, k), (laws.announce, announced + k)):
            if slopes is None:
                continue
            for x, i in crossing:
                m, other = forward(i, link), not laws.receives[i, k]
                terms.add(m, row, x, slopes["y"][k] + (slopes["u"][k] if other else 0.0))
                terms.add(m + 1, row, x, slopes["y_prev"][k])
            terms.add(1 if slopes is laws.router else 0, row, k, slopes["R"][k])
            if k in queues:
                terms.add(0, row, q_at + queues.index(k), slopes["q"][k])
        if k in queues:
            q = q_at + queues.index(k)
            terms.add(1, q, q, 1.0)
            for x, i in crossing:
                terms.add(forward(i, link), q, x, T)
    answered = (laws.announce or laws.router)["x"]
    for g, flows in enumerate(groups):
        x, i = first + g, flows[0]
        terms.add(1, x, x, source["x"][i])
        terms.add(around[i], x, x, source["x_rtt"][i])
        receives: list[int] = np.flatnonzero(laws.receives[i]).tolist()
        for k in receives:
            back = backward(i, int(laws.links[k]))
            terms.add(back, x, announced + k, len(flows) * source["R"][i])
            terms.add(back + 1, x, announced + k, len(flows) * source["R_prev"][i])
            terms.add(around[i], x, x, source["R"][i] * answered[k])
            terms.add(around[i] + 1, x, x, source["R_prev"][i] * answered[k])
    differences = []
    for flows in (flows for flows in groups if len(flows) > 1):
        i, feedback = flows[0], float(answered[laws.receives[flows[0]]].sum())
        differences.append(
            (
                (1, float(source["x"][i])),
                (around[i], float(source["x_rtt"][i] + source["R"][i] * feedback)),
                (around[i] + 1, float(source["R_prev"][i] * feedback)),
            )
        )
    if laws.measures:
        cut = terms.without(range(first), range(first, size))
        opened = sampled_system(cut, T, None)
        opened = opened.with_notes(FEEDBACK) if source["x_rtt"].any() else opened
        return with_differences_if_stable(sampled_system(terms, T, opened), differences)
    cut = terms.without(range(first, size), range(size))
    for g, flows in enumerate(groups):
        if laws.steps_from is not None:
            cut.add(1 if laws.steps_from == "x" else around[flows[0]], first + g, first + g, 1.0)
    opened = sampled_system(cut, T, None).with_notes(CUT_AT_SOURCES)
    return with_differences_if_stable(sampled_system(terms, T, opened), differences)
