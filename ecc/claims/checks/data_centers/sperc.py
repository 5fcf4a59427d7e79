"""Checks of claims on s-PERC: its bound, its ignore bits, losses and departures, and its speed beside RCP and DCTCP."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import DCTCP, RCP, SPERC, Protocol
from ecc.network.allocation import max_min
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.queues import StepMarking
from ecc.scenario import Scenario

C, RTT = 10e9, 40e-6
"""Of links [bit/s], and of paths without queues [s], where nothing else is said."""
GAMMA = SPERC().gamma
CHANGE, NEAR = 4e-3, 0.1
"""When flows come and go [s], and how near to its fair rate a flow has reached it."""
RANDOM = (
    "Random networks: 2 to 15 links, in half of the networks of one capacity, else of 1 to 19 times the least; 2 to 29 "
    "flows over up to 8 of them, in any order. Rounds: flow after flow; and one to three trips of each, with all hops, "
    "and beginnings of links' rounds, at random times. "
)


def drawn(seed: int) -> Network:
    """Return a random network of these claims.

    Parameters
    ----------
    seed : int
    """
    rng = np.random.default_rng(seed)
    n, flows, longest = int(rng.integers(2, 16)), int(rng.integers(2, 30)), int(rng.integers(2, 9))
    equal = bool(rng.integers(0, 2))
    links = [Link(C * (1.0 if equal else float(rng.integers(1, 20))), "5 us") for _ in range(n)]
    routes = [rng.choice(n, int(rng.integers(1, min(longest, n) + 1)), replace=False).tolist() for _ in range(flows)]
    delays, starts = rng.uniform(1e-6, 2e-5, flows), rng.uniform(0.0, 1e-4, flows)
    return Network(
        links, [Flow(routes[k], start=float(starts[k]), access_delay=float(delays[k])) for k in range(flows)]
    )


def churn(network: Network, seed: int) -> tuple[list[int], list[int | None]]:
    """Return rounds in which flows come, and in which all but the first may go.

    Parameters
    ----------
    network : Network
    seed : int
    """
    rng = np.random.default_rng(seed)
    joins = rng.integers(0, 20, network.n_flows).tolist()
    goes = rng.random(network.n_flows) < 0.4
    leaves = [int(one + rng.integers(1, 20)) if go else None for one, go in zip(joins, goes, strict=True)]
    return joins, [None, *leaves[1:]]


@check("sperc-bound", cost=16, main=False)
def sperc_bound(claim: Claim) -> Finding:
    """Rounds until rates are fair for good, in fractions, over N; and rates of packets beside water-filling."""
    protocol, measured, held = SPERC(gamma=1.0), [], []
    for name, seeds, ordered, moves in (
        ("flow after flow", range(300), False, False),
        ("at random times", range(300), True, False),
        ("at random times, flows come and go", range(300), True, True),
    ):
        ratios = []
        for seed in seeds:
            network = drawn(seed)
            joins, leaves = churn(network, seed) if moves else (None, None)
            found = protocol.exact_rounds(network, seed if ordered else None, joins, leaves)
            ratios.append(float("inf") if found.converged is None else found.converged / found.iterations)
        held.append(max(ratios) <= 6.0)
        measured.append(
            Measurement(f"rounds over N, the most of {len(ratios)} networks: {name}", max(ratios), reported=6.0,
                        note=f"mean {np.mean(ratios):.2f}", met=held[-1])
        )  # fmt: skip
    off, late, spent = [], [], []
    for seed in range(30):
        network = drawn(seed)
        recorded = ["flow.x", "link.late", "link.trip"]
        run = packet.simulate(Scenario(network, SPERC(), 3e-3), sample=5e-6, record=recorded)
        away = np.abs(run.data["flow.x"].to_numpy() / max_min(network, GAMMA * network.capacities) - 1.0).max(axis=1)
        off.append(float(away[-1]))
        late.append(int(run.data["link.late"][-1].sum()))
        reached = 5e-6 * float(np.flatnonzero(away > 1e-9)[-1] + 1) - max(flow.start for flow in network.flows)
        longest = 2.0 * float(run.data["link.trip"][-1].max())  # margin = 2
        spent.append(reached / longest / SPERC().exact_rounds(network).iterations)
    held.append(max(off) < 1e-9 and max(spent) <= 6.0 and max(late) == 0)
    measured += [
        Measurement("relative distance of packets' rates from water-filling, the largest of 30 networks", max(off),
                    reported=0.0, met=max(off) < 1e-9),
        Measurement("... time after the last start, in longest rounds and over N, the most", max(spent), reported=6.0,
                    note=f"mean {np.mean(spent):.2f}", met=max(spent) <= 6.0),
        Measurement("... control packets that came after a link had forgotten the flow", sum(late), met=max(late) == 0),
    ]  # fmt: skip
    return Finding(
        claim, Verdict.CONFIRMED if all(held) else Verdict.REFUTED,
        "Rates are fair within the bound in each network drawn, exactly in fractions, and up to rounding in packets."
        if all(held) else "Rates are not fair within the bound in some network.",
        measured, (), [RANDOM + "Packets of 1000 bytes, 10 Gb/s and more, links of 5 us, gamma = 0.94, 3 ms."],
    )  # fmt: skip


FOUR = ((3, 0), (2, 1, 0), (0, 1, 3, 2), (1, 2, 0, 3), (3, 1, 2))
"""Routes over four equal links, four flows on each, with which rates come near to a quarter and never there."""
NINE = ((2, 1, 3), (3,), (3, 1, 0), (2, 0), (0, 3, 2, 1), (2, 0, 3), (2, 3, 1, 0), (1,), (1,))
"""Routes over four equal links with which flow 3, between links that are full by others, is off for good."""


@check("sperc-ignore", cost=14, main=False)
def sperc_ignore(claim: Claim) -> Finding:
    """The same rounds without ignore bits: an example in fractions, and how many random networks are fair in time."""
    naive, protocol = SPERC(gamma=1.0, ignore=False), SPERC(gamma=1.0)
    example = Network([Link(C)] * 4, [Flow(list(one)) for one in FOUR])
    fair, slow = protocol.exact_rounds(example), naive.exact_rounds(example, most=100)
    away = [max(abs(one / quarter - 1) for one, quarter in zip(now, slow.fair, strict=True)) for now in slow.rates]
    never = slow.period is None and min(away) > 0
    jumping = Network([Link(C)] * 4, [Flow(list(one)) for one in NINE])
    steady, off = protocol.exact_rounds(jumping), naive.exact_rounds(jumping, most=200)
    farthest = [max(abs(one[3] / off.fair[3] - 1) for one in off.rates[k : k + 10]) for k in range(0, 200, 10)]
    jumps = len(off.rates) == 200 and min(farthest) > 0.3
    ratios, left, count = [], [], 0
    for seed in range(200):
        network = drawn(seed)
        for order in (None, seed):
            count += 1
            found = naive.exact_rounds(network, order, most=200)
            if found.period is None:
                final = zip(found.rates[-1], found.fair, strict=True)
                left.append(max(float(abs(rate / right - 1)) for rate, right in final))
            else:
                ratios.append(float("inf") if found.converged is None else found.converged / found.iterations)
    beyond = sum(ratio > 6.0 for ratio in ratios)
    measured = [
        Measurement("four equal links, five flows: rounds until rates are fair, with ignore bits", fair.converged or 0,
                    note=f"N = {fair.iterations}"),
        Measurement("... without, some rate is not fair after each of so many rounds", len(away) if never else 0,
                    note=f"relative distance {float(away[5]):.1e} after 6, {float(away[-1]):.1e} after the last; it "
                         f"falls to {away[94] / away[89]} in five rounds", met=never),
        Measurement("four equal links, nine flows: rounds until rates are fair, with ignore bits",
                    steady.converged or 0, note=f"N = {steady.iterations}"),
        Measurement("... without, least over each ten of 200 rounds of the largest relative distance of flow 3",
                    float(min(farthest)), met=jumps),
        Measurement(f"of {count} runs on random networks, not at rest within 200 rounds", len(left), met=len(left) > 0,
                    note=f"relative distance from fair rates then up to {max(left, default=0.0):.0e}"),
        Measurement("... fair, but after more than 6 N rounds", beyond, note=f"up to {max(ratios):.0f} N"),
        Measurement("... at rest, or in a cycle, at other rates", sum(ratio == float("inf") for ratio in ratios)),
    ]  # fmt: skip
    holds = never and jumps and len(left) + beyond > 0
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "Where links are equal, smaller and smaller differences between them go on for good without ignore bits, and "
        "decide where flows count as limited: rates come near fair ones, and some jump away from them, by "
        f"{float(max(farthest[10:])):.0%} after 100 rounds and more. Elsewhere up to {max(ratios):.0f} N rounds passed."
        if holds else "Rates are fair in 6 N rounds without ignore bits, too.",
        measured, (), [RANDOM],
    )  # fmt: skip


COST = 8.0
"""Trips that a lost control packet may cost: two until it is missed, four of two rounds, and two to learn of it."""


class Losses(NamedTuple):
    """What random loss does: share of the time at fair rates, mean and least rate over it, and the largest load."""

    fair: float
    mean: float
    least: float
    load: float
    queue: float


def under_loss(network: Network, probability: float) -> Losses:
    """Return what rates do from 5 ms to 50 ms with losses at the first link, all kinds of packets alike.

    Parameters
    ----------
    network : Network
    probability : float
    """
    losses = [RandomLoss(probability, link=0)] if probability > 0.0 else []
    run = packet.simulate(Scenario(network, SPERC(), 0.05, impairments=losses), sample=1e-5, record=["flow.x"])
    ratio = run.data["flow.x"][500:].to_numpy() / max_min(network, GAMMA * network.capacities)
    load = run.rate[500:].rolling(time=9).mean().to_numpy()[8:] @ network.incidence / network.capacities
    at = (np.abs(ratio - 1.0) < 0.01).all(axis=1).mean()
    queue = float(run.queue_max[500:].max())
    return Losses(float(at), float(ratio.mean()), float(ratio.min()), float(load.max()), queue)


@check("sperc-robust", cost=2, main=False)
def sperc_robust(claim: Claim) -> Finding:
    """Rates under random loss of packets, and how long a flow is remembered that stops without a word."""
    chain = Network.parking_lot([C, C], delay="5 us", starts=[0.0, 3e-5, 6e-5])
    many = Network.dumbbell(C, [RTT] * 10, starts=[3e-6 * k for k in range(10)])
    measured, held, shares = [], [], []
    for name, network in (("10 flows on a link", many), ("3 flows on two links", chain)):
        for probability in (0.0, 1e-4, 1e-3, 1e-2):
            found = under_loss(network, probability)
            shares.append(found.fair)
            held.append(1.0 - found.fair <= COST * network.n_flows * probability)
            measured.append(
                Measurement(f"share of the time with all rates fair to 1 %: {name}, loss {probability:g}", found.fair,
                            reported=1.0 if probability == 0.0 else None, met=held[-1],
                            note=f"mean rate {found.mean:.3f}, least {found.least:.2f} of fair ones; "
                                 f"load over 0.09 ms up to {found.load:.2f}, queue {found.queue / 1e3:.0f} kB")
            )  # fmt: skip
    stops = Network.dumbbell(C, [RTT] * 4, starts=[0.0, 3e-5, 6e-5, 1e-4], stops=[None, None, 1e-3, None])
    run = packet.simulate(Scenario(stops, SPERC(), 2e-3), sample=1e-6, record=["link.num_b", "link.round", "flow.x"])
    counted, rounds = (run.data[name][:, 0].to_numpy() for name in ("link.num_b", "link.round"))
    forgotten = 1000 + int(np.flatnonzero(counted[1000:] < 4)[0])
    shared = 1000 + int(np.flatnonzero(run.data["flow.x"][1000:, [0, 1, 3]].min("flow") > 0.31 * C)[0])
    heals = int(rounds[forgotten] - rounds[999]) <= 2 and bool((counted[forgotten:] == 3).all())
    measured += [
        Measurement("rounds until a flow that has stopped is forgotten", int(rounds[forgotten] - rounds[999]),
                    reported=2, met=heals),
        Measurement("... until others have its share", (shared - 999) * 1e-6 / RTT, "RTTs"),
    ]  # fmt: skip
    for capacity in (C, 0.1 * C):
        crowd = Network.dumbbell(capacity, [RTT] * 50, starts=[1e-6 * k for k in range(50)])
        run = packet.simulate(Scenario(crowd, SPERC(), 0.1), sample=1e-4, record=["flow.x"])
        away = np.abs(run.data["flow.x"].to_numpy() / (GAMMA * capacity / 50) - 1.0).max(axis=1)
        measured.append(
            Measurement(f"50 flows that start 1 us apart, {capacity / 1e9:g} Gb/s: time until rates are fair",
                        0.1 * float(np.flatnonzero(away > 0.01)[-1] + 1), "ms",
                        note=f"{GAMMA * capacity / 50 * RTT / 8e3:.2g} packets in an RTT; largest queue "
                             f"{float(run.queue_max.max()) / 1e3:.0f} kB")
        )  # fmt: skip
    holds = all(held) and heals
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.CONDITIONAL,
        "A lost control packet leaves rates below or beyond the fair ones for two rounds or so, as the flow is counted "
        "twice or not at all, and so does a flow that stops; then nothing of it is left. With losses of 1 % some flow "
        f"is often in that state: all rates are fair for {100 * min(shares):.0f} % of the time only."
        if holds else "Losses or flows that stop change rates for longer than for some rounds.",
        measured, (),
        ["10 Gb/s, RTTs of 40 us (10 flows) and 10 to 20 us, packets of 1000 bytes, losses at the first link; 5 to 50 "
         "ms, one seed. Expected of losses with probability p: that rates are off for no more than 8 N p of the time, "
         "as N flows lose p of their control packets, each of which costs up to 8 trips."],
    )  # fmt: skip


# ---- speed -----------------------------------------------------------------------------------------------------------


def changing(seed: int, some_go: bool = True) -> tuple[Network, Network]:
    """Return a network where 5 of 30 flows come, as 5 others go, and that of those which stay.

    Parameters
    ----------
    seed : int
    some_go : bool, optional
        Else these 5 are not there.
    """
    rng = np.random.default_rng(seed)
    links = [Link(C * float(rng.integers(1, 5)), "5 us", "1 MB") for _ in range(8)]
    flows = []
    for k in range(30):
        route = rng.choice(8, int(rng.integers(1, 5)), replace=False).tolist()
        start = CHANGE + 1e-9 * k if k >= 25 else float(rng.uniform(0.0, 1e-4))
        delay = float(rng.uniform(1e-6, 1e-5))
        flows.append(Flow(route, start=start, stop=CHANGE if k < 5 else None, access_delay=delay))
    return Network(links, flows if some_go else flows[5:]), Network(links, flows[5:])


def settling(protocol: Any, network: Network, kept: Network, share: float, state: str | None) -> float:
    """Return the time after the change from which on all flows are within 10 % of fair rates [s]; inf: never.

    Parameters
    ----------
    protocol : object
        Protocol or mapping.
    network, kept : Network
    share : float
        Of capacities, that protocol's flows have.
    state : str or None
        Of flows, their rate; None: what they deliver in 1 ms.
    """
    run = packet.simulate(
        Scenario(network, protocol, 5.0 * CHANGE), sample=1e-5, record=[f"flow.{state}"] if state else []
    )
    rates: NDArray[np.float64]
    rates = (run.data[f"flow.{state}"] if state else run.goodput.rolling(time=100).mean()).to_numpy()[
        :, -kept.n_flows :
    ]
    fair = max_min(kept, share * kept.capacities)
    if state is None:
        fair = fair * (rates[-500:].sum(axis=1).mean() / fair.sum())  # of what is delivered in all
    begin = round(CHANGE / 1e-5)
    away = np.flatnonzero(~(np.abs(rates[begin:] / fair - 1.0) <= NEAR).all(axis=1))
    last = int(max(away, default=-1)) + 1
    return float("inf") if last > len(rates) - begin - 100 else 1e-5 * last


@check("sperc-faster", cost=5, main=False)
def sperc_faster(claim: Claim) -> Finding:
    """Times until rates are fair again, on the same networks."""
    kinds: dict[str, tuple[Protocol | dict[str, Protocol], float, str | None]] = {
        "s-PERC": (SPERC(), GAMMA, "x"),
        "RCP, alpha = 0.4, beta = 1": (RCP(interval=5e-6), 1.0, "x"),
        "RCP, alpha = 0.8, beta = 0.5": (RCP(alpha=0.8, beta=0.5, interval=5e-6), 1.0, "x"),
        "DCTCP": ({"flows": DCTCP(transport="sack", initial=10.0), "links": StepMarking(threshold=65.0)}, 1.0, None),
    }
    measured, times = [], {}
    for name, (protocol, share, state) in kinds.items():
        found = [settling(protocol, *changing(seed), share, state) for seed in range(8)]
        times[name] = found
        settled = sorted(1e6 * one for one in found if one < float("inf"))
        range_of = f"{settled[0]:.0f} to {settled[-1]:.0f} us" if settled else "none"
        measured.append(
            Measurement(f"networks of 8 with rates fair again within 16 ms: {name}", len(settled), note=range_of)
        )  # fmt: skip
    own = np.array(times["s-PERC"])
    for name in list(kinds)[1:]:
        ratios = np.sort(np.array(times[name]) / own)
        median = float(np.median(ratios))
        told = ", ".join(f"{one:.1f}" if one < float("inf") else "never" for one in (ratios[0], ratios[-1]))
        measured.append(
            Measurement(f"median of times over those of s-PERC: {name}", median if median < float("inf") else "never",
                        reported="10 to 100", note=f"least and most: {told}", met=median >= 10.0)
        )  # fmt: skip
    come = []
    for name in ("s-PERC", "RCP, alpha = 0.8, beta = 0.5"):
        protocol, share, state = kinds[name]
        come.append(np.array([settling(protocol, *changing(seed, False), share, state) for seed in range(8)]))
    ratio = float(np.median(come[1] / come[0]))
    measured.append(
        Measurement("... flows come, and none go: RCP, alpha = 0.8, beta = 0.5", ratio, reported="10 to 100",
                    note=f"s-PERC {1e6 * come[0].min():.0f} to {1e6 * come[0].max():.0f} us, RCP "
                         f"{1e6 * come[1].min():.0f} to {1e6 * come[1].max():.0f} us", met=ratio >= 10.0)
    )  # fmt: skip
    met = [one.met for one in measured if one.met is not None]
    return Finding(
        claim, Verdict.CONFIRMED if all(met) else Verdict.CONDITIONAL if any(met) else Verdict.REFUTED,
        f"s-PERC takes {1e6 * own.min():.0f} to {1e6 * own.max():.0f} us. RCP takes "
        f"{np.median(np.array(times['RCP, alpha = 0.8, beta = 0.5']) / own):.1f} times as long with gains that suit "
        "these networks, and is not within 10 % for good in some of them with those of its authors; DCTCP keeps no "
        "max-min rates over several links to 10 %.",
        measured, (),
        ["Eight links of 10 to 40 Gb/s and 5 us, 30 flows over 1 to 4 of them, RTTs of 20 to 60 us, buffers of 1 MB; "
         "at 4 ms five flows stop without a word and five come. Within 10 %: each flow, its own rate at any time; of "
         "DCTCP what it delivers in 1 ms, as a share of all."],
    )  # fmt: skip
