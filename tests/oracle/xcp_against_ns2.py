"""XCP here and in ns-2, on the same networks: `python tests/oracle/xcp_against_ns2.py [CASE ...] [--seeds N]`.

Flows start at random within one of the routers' first control intervals, and the routers' clocks begin as ns-2 draws
them: all that happens to a packet is then the same for a while, and start-up peaks can be compared run by run. The
numbers are means over seeds. Queues are looked at as often in both.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ns2
import numpy as np

import ecc
from ecc.contract.env import Hook
from ecc.models import XCP
from ecc.models.xcp import link_on_start
from ecc.network.network import Network
from ecc.traffic.workload import Arrivals, Workload

STEADY = 0.05  # a load that swings by more than this share of its mean is not stable


@dataclass(frozen=True)
class Case:
    """A network, how long it runs, when it counts as settled, and which flows are reported together."""

    network: Network
    duration: float
    settled: float
    groups: dict[str, slice]
    workload: Workload | None = None
    period: float = 0.05  # s, over which rates are averaged
    look: float = 0.001  # s, between looks at queues

    def drawn(self, seed: int) -> Network:
        """Return the network with flows that start up to 50 ms later."""
        rng = np.random.default_rng(seed)
        late = 0.05 * rng.random(self.network.n_flows)
        late[1:] = np.where(np.diff([flow.start for flow in self.network.flows]) == 0.0, late[0], late[1:])
        flows = [replace(flow, start=flow.start + at) for flow, at in zip(self.network.flows, late, strict=True)]
        return Network(self.network.links, flows, self.network._rtts)


@dataclass(frozen=True)
class Ticking(XCP):
    """XCP whose routers first look at their queues when told [s]."""

    first_look: float = 0.0

    def params(self) -> dict[str, float]:
        return {**super().params(), "first_look": self.first_look}

    def link_hooks(self) -> dict[str, Hook]:
        return {**super().link_hooks(), "on_start": on_start}


def on_start(link: Any, header: Any, p: Any, env: Any) -> None:
    """Set both clocks."""
    link_on_start(link, header, p, env)
    link.queue_due = p.first_look


@dataclass(frozen=True)
class Outcome:
    """What came out of a run, or the mean over several.

    When settled: `rates` of each group [bit/s], mean `queue` of each link [bytes], `load` of the first link over its
    capacity and `swing`, the standard deviation of that load over its mean. Over the whole run: `peak` of each link's
    queue [bytes]; `fair_after` [s]: how long after the last start the groups' rates, averaged over 4 s, differ by more
    than 10 %; infinite if they do at the end.
    """

    rates: dict[str, float]
    queue: np.ndarray
    peak: np.ndarray
    swing: float
    load: float
    fair_after: float

    @property
    def is_stable(self) -> bool:
        return self.swing < STEADY


def scaled(network: Network, factor: float) -> Network:
    """Return a network with all times divided and all rates multiplied by `factor`: as many packets everywhere."""
    return Network.dumbbell(
        network.links[0].capacity * factor,
        rtts=[rtt / factor for rtt in network.rtts],
        starts=[0.5 + flow.start / factor for flow in network.flows],
    )


def unfair(n: int, long_link_first: bool) -> Case:
    net = Network.xcp_unfair(n, long_link_first=long_link_first)
    flows = [replace(flow, start=0.5) for flow in net.flows]
    return Case(net.with_flows(flows), 12.0, 6.0, {"x1": slice(0, 1), "others": slice(1, None)})


THREE = Network.dumbbell("100 Mb/s", rtts=[0.05] * 3, starts=[0.5, 3.5, 6.5])
ONE = Network.dumbbell("100 Mb/s", rtts=[0.05], starts=[0.5])
MICE = Workload([], [Arrivals([0], 0.05, "100 kB", shape=1.4, start=3.0)])
CASES = {
    "three flows": Case(THREE, 12.0, 8.0, {f"x{k + 1}": slice(k, k + 1) for k in range(3)}),
    "T1 / 4": Case(scaled(Network.T1(), 4.0), 50.0, 25.0, {"x1": slice(0, 1), "x2": slice(1, 2)}),
    "T2 / 4": Case(scaled(Network.T2(), 4.0), 50.0, 12.0, {"x1-x99": slice(0, 99), "x100": slice(99, 100)}),
    "T1": Case(scaled(Network.T1(), 1.0), 200.0, 100.0, {"x1": slice(0, 1), "x2": slice(1, 2)}, look=0.01),
    "T2": Case(scaled(Network.T2(), 1.0), 200.0, 100.0, {"x1-x99": slice(0, 99), "x100": slice(99, 100)}, look=0.01),
    **{
        f"xcp_unfair({n}), {'l2, l1' if first else 'l1, l2'}": unfair(n, first)
        for n in range(2, 7)
        for first in (False, True)
    },
    "long flow and mice": Case(ONE, 23.0, 3.0, {"long": slice(0, 1)}, MICE),
}


def here(case: Case, seed: int, **options: float) -> Outcome:
    """Return the outcome of the packet engine.

    Parameters
    ----------
    case : Case
    seed : int
    **options : float
        Of XCP.
    """
    looks, ticks = ns2.first_ticks(seed, case.network.n_links).T
    routers = [Ticking(first_look=look, **options) for look in looks]
    protocol = {"links": dict(enumerate(routers)), "flows": {"default": routers[0]}}
    phases = ticks / routers[0].interval % 1.0
    scenario = ecc.Scenario(case.drawn(seed), protocol, case.duration, case.workload, seed=seed, phases=phases)
    run = ecc.packet.simulate(scenario, sample=case.look)
    queue, per = run.queue.to_numpy(), round(case.period / case.look)
    rate, arrival = (x.to_numpy().reshape(-1, per, x.shape[1]).mean(axis=1) for x in (run.rate, run.arrival))
    return _outcome(case, rate, arrival, queue[round(case.settled / case.look) :], queue)


def in_ns2(case: Case, seed: int, **options: float) -> Outcome:
    """Return the outcome of ns-2.

    Parameters
    ----------
    case : Case
    seed : int
    **options : float
        Of ns2.run.
    """
    seen = ns2.run(case.drawn(seed), case.duration, case.period, case.look, case.workload, seed, **options)
    return _outcome(case, seen.rate, seen.arrival, seen.queue[round(case.settled / case.period) :], seen.peak)


def _outcome(case: Case, rate: np.ndarray, arrival: np.ndarray, queue: np.ndarray, peak: np.ndarray) -> Outcome:
    settled = slice(round(case.settled / case.period), None)
    rates = {name: float(rate[settled, flows].mean()) for name, flows in case.groups.items()}
    load = arrival[settled, 0] / case.network.links[0].capacity
    swing = float(load.std() / load.mean())
    return Outcome(rates, queue.mean(axis=0), peak.max(axis=0), swing, float(load.mean()), _fair_after(case, rate))


def _fair_after(case: Case, rate: np.ndarray) -> float:
    per = round(4.0 / case.period)
    blocks = rate[: len(rate) // per * per].reshape(-1, per, rate.shape[1]).mean(axis=1)
    groups = np.array([blocks[:, flows].mean(axis=1) for flows in case.groups.values()])
    unfair = np.flatnonzero(groups.max(axis=0) > 1.1 * groups.min(axis=0))
    if len(unfair) == 0:
        return 0.0
    if unfair[-1] == len(blocks) - 1:
        return float("inf")
    return 4.0 * (float(unfair[-1]) + 1.0) - float(max(flow.start for flow in case.network.flows))


def mean(outcomes: list[Outcome]) -> Outcome:
    """Return the mean over seeds.

    Parameters
    ----------
    outcomes : list of Outcome
        Of the same case.
    """
    return Outcome(
        {name: float(np.mean([one.rates[name] for one in outcomes])) for name in outcomes[0].rates},
        np.mean([one.queue for one in outcomes], axis=0),
        np.mean([one.peak for one in outcomes], axis=0),
        *(float(np.mean([getattr(one, name) for one in outcomes])) for name in ("swing", "load", "fair_after")),
    )


def compared(name: str, seeds: int) -> tuple[Outcome, Outcome]:
    """Return the mean outcome in ns-2 and here.

    Parameters
    ----------
    name : str
        A key of CASES.
    seeds : int
        Number of runs.
    """
    case = CASES[name]
    first, second = (
        [run(case, seed) for seed in range(1, seeds + 1)] for run in (in_ns2, partial(here, rtt_limit=1.0))
    )
    return mean(first), mean(second)


def main() -> None:
    """Print a row a case: ns-2 / here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    print("| case | rates [Mb/s] | mean queue [kB] | peak queue [kB] | swing of the load |\n|---|---|---|---|---|")
    for name in arguments.cases or CASES:
        theirs, ours = compared(name, arguments.seeds)
        rates = "; ".join(f"{who} {a / 1e6:.3g} / {ours.rates[who] / 1e6:.3g}" for who, a in theirs.rates.items())
        queues = (
            "; ".join(f"{a / 1e3:.2f} / {b / 1e3:.2f}" for a, b in zip(theirs_of, ours_of, strict=True))
            for theirs_of, ours_of in ((theirs.queue, ours.queue), (theirs.peak, ours.peak))
        )
        print(f"| {name} | {rates} | {' | '.join(queues)} | {theirs.swing:.1%} / {ours.swing:.1%} |", flush=True)


if __name__ == "__main__":
    main()
