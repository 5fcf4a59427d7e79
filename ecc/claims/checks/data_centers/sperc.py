"""Checks of claims on s-PERC: its bound, ignore bits, losses, departures, and its speed against RCP and DCTCP."""

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
"""Default capacity of links [bit/s], and default RTT of paths without queueing [s]."""
GAMMA = SPERC().gamma
CHANGE, NEAR = 4e-3, 0.1
"""Time at which flows start and stop [s]; relative distance at which a flow has reached its fair rate."""
RANDOM = (
    "Random networks: 2 to 15 links, in half of the networks with equal capacities, otherwise with 1 to 19 times the "
    "minimum; 2 to 29 flows over up to 8 links in any order. Rounds: flow after flow; or one to three trips of each "
    "flow, with all hops and the starts of links' rounds at random times. "
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
    """Return the rounds in which flows start, and those in which they stop; the first flow never stops.

    Parameters
    ----------
    network : Network
    seed : int
    """
    rng = np.random.default_rng(seed)
    joins = rng.integers(0, 20, network.n_flows).tolist()
    goes = rng.random(network.n_flows) < 0.4
    leaves = [int(join + rng.integers(1, 20)) if go else None for join, go in zip(joins, goes, strict=True)]
    return joins, [None, *leaves[1:]]


@check("sperc-bound", cost=16, main=False)
def sperc_bound(claim: Claim) -> Finding:
    """Compute rounds until rates stay fair, exactly and over N, and compare packet runs with water-filling."""
    protocol, measured, held = SPERC(gamma=1.0), [], []
    for name, seeds, ordered, moves in (
        ("flow after flow", range(300), False, False),
        ("at random times", range(300), True, False),
        ("at random times, flows start and stop", range(300), True, True),
    ):
        ratios = []
        for seed in seeds:
            network = drawn(seed)
            joins, leaves = churn(network, seed) if moves else (None, None)
            rounds = protocol.exact_rounds(network, seed if ordered else None, joins, leaves)
            ratios.append(float("inf") if rounds.converged is None else rounds.converged / rounds.iterations)
        held.append(max(ratios) <= 6.0)
        measured.append(
            Measurement(
                f"rounds over N, maximum of {len(ratios)} networks: {name}",
                max(ratios),
                reported=6.0,
                note=f"mean {np.mean(ratios):.2f}",
                met=held[-1],
            )
        )
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
        Measurement(
            "relative distance of packet rates from water-filling, maximum of 30 networks",
            max(off),
            reported=0.0,
            met=max(off) < 1e-9,
        ),
        Measurement(
            "packet runs: maximum time after the last start, in longest rounds, over N",
            max(spent),
            reported=6.0,
            note=f"mean {np.mean(spent):.2f}",
            met=max(spent) <= 6.0,
        ),
        Measurement(
            "packet runs: control packets that arrived after the link had dropped the flow's state",
            sum(late),
            met=max(late) == 0,
        ),
    ]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(held) else Verdict.REFUTED,
        "Rates become fair within the bound in every network: exactly in rational arithmetic, and up to rounding in "
        "packet runs."
        if all(held)
        else "Rates do not become fair within the bound in some networks.",
        measured,
        (),
        [RANDOM + "Packets of 1000 bytes, 10 Gb/s and more, links of 5 us, gamma = 0.94, 3 ms."],
    )


FOUR = ((3, 0), (2, 1, 0), (0, 1, 3, 2), (1, 2, 0, 3), (3, 1, 2))
"""Routes over four equal links, four flows on each, for which rates approach a quarter and never reach it."""
NINE = ((2, 1, 3), (3,), (3, 1, 0), (2, 0), (0, 3, 2, 1), (2, 0, 3), (2, 3, 1, 0), (1,), (1,))
"""Routes over four equal links for which flow 3, between links filled by other flows, never reaches its fair rate."""


@check("sperc-ignore", cost=14, main=False)
def sperc_ignore(claim: Claim) -> Finding:
    """Repeat the rounds without ignore bits: examples in rational arithmetic, and random networks."""
    naive, protocol = SPERC(gamma=1.0, ignore=False), SPERC(gamma=1.0)
    example = Network([Link(C)] * 4, [Flow(list(route)) for route in FOUR])
    fair, slow = protocol.exact_rounds(example), naive.exact_rounds(example, most=100)
    away = [max(abs(rate / quarter - 1) for rate, quarter in zip(now, slow.fair, strict=True)) for now in slow.rates]
    never = slow.period is None and min(away) > 0
    jumping = Network([Link(C)] * 4, [Flow(list(route)) for route in NINE])
    steady, off = protocol.exact_rounds(jumping), naive.exact_rounds(jumping, most=200)
    farthest = [max(abs(rates[3] / off.fair[3] - 1) for rates in off.rates[k : k + 10]) for k in range(0, 200, 10)]
    jumps = len(off.rates) == 200 and min(farthest) > 0.3
    ratios, distances, count = [], [], 0
    for seed in range(200):
        network = drawn(seed)
        for order in (None, seed):
            count += 1
            rounds = naive.exact_rounds(network, order, most=200)
            if rounds.period is None:
                final = zip(rounds.rates[-1], rounds.fair, strict=True)
                distances.append(max(float(abs(rate / right - 1)) for rate, right in final))
            else:
                ratios.append(float("inf") if rounds.converged is None else rounds.converged / rounds.iterations)
    slower = sum(ratio > 6.0 for ratio in ratios)
    measured = [
        Measurement(
            "four equal links, five flows: rounds until rates are fair, with ignore bits",
            fair.converged or 0,
            note=f"N = {fair.iterations}",
        ),
        Measurement(
            "the same without ignore bits: rounds after each of which some rate is unfair",
            len(away) if never else 0,
            note=f"relative distance {float(away[5]):.1e} after 6, {float(away[-1]):.1e} after the last; it "
            f"falls to {away[94] / away[89]} in five rounds",
            met=never,
        ),
        Measurement(
            "four equal links, nine flows: rounds until rates are fair, with ignore bits",
            steady.converged or 0,
            note=f"N = {steady.iterations}",
        ),
        Measurement(
            "the same without: minimum over tens of 200 rounds of the maximum relative distance of flow 3",
            float(min(farthest)),
            met=jumps,
        ),
        Measurement(
            f"of {count} runs on random networks, unsettled after 200 rounds",
            len(distances),
            met=len(distances) > 0,
            note=f"relative distance from fair rates then up to {max(distances, default=0.0):.0e}",
        ),
        Measurement(
            f"of {count} runs on random networks, fair after more than 6 N rounds",
            slower,
            note=f"up to {max(ratios):.0f} N",
        ),
        Measurement(
            f"of {count} runs on random networks, settled or in a cycle at unfair rates",
            sum(ratio == float("inf") for ratio in ratios),
        ),
    ]
    holds = never and jumps and len(distances) + slower > 0
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "Without ignore bits, shrinking differences between equal links never vanish, and decide at which links flows "
        "count as limited. Rates approach the fair ones, and some jump away from them, by "
        f"{float(max(farthest[10:])):.0%} after more than 100 rounds. Other networks need up to {max(ratios):.0f} N "
        "rounds."
        if holds
        else "Rates become fair in 6 N rounds without ignore bits, too.",
        measured,
        (),
        [RANDOM],
    )


COST = 8.0
"""Maximum cost of a lost control packet in trips: two until the loss is noticed, four for two rounds, two to report."""


class Losses(NamedTuple):
    """Effects of random loss: time share at fair rates, mean and minimum rate over the fair rate, maximum load."""

    fair: float
    mean: float
    minimum: float
    load: float
    queue: float


def under_loss(network: Network, probability: float) -> Losses:
    """Return the effects of losses at the first link, which affect all kinds of packets equally, from 5 to 50 ms.

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
    """Measure rates under random loss, and the time for which links remember a flow that stops silently."""
    chain = Network.parking_lot([C, C], delay="5 us", starts=[0.0, 3e-5, 6e-5])
    dumbbell = Network.dumbbell(C, [RTT] * 10, starts=[3e-6 * k for k in range(10)])
    measured, held, shares = [], [], []
    for name, network in (("10 flows on a link", dumbbell), ("3 flows on two links", chain)):
        for probability in (0.0, 1e-4, 1e-3, 1e-2):
            losses = under_loss(network, probability)
            shares.append(losses.fair)
            held.append(1.0 - losses.fair <= COST * network.n_flows * probability)
            measured.append(
                Measurement(
                    f"share of the time with all rates fair to 1 %: {name}, loss {probability:g}",
                    losses.fair,
                    reported=1.0 if probability == 0.0 else None,
                    met=held[-1],
                    note=f"mean rate {losses.mean:.3f}, minimum {losses.minimum:.2f} of the fair rate; "
                    f"load over 0.09 ms up to {losses.load:.2f}, queue {losses.queue / 1e3:.0f} kB",
                )
            )
    stops = Network.dumbbell(C, [RTT] * 4, starts=[0.0, 3e-5, 6e-5, 1e-4], stops=[None, None, 1e-3, None])
    run = packet.simulate(Scenario(stops, SPERC(), 2e-3), sample=1e-6, record=["link.num_b", "link.round", "flow.x"])
    counted, rounds = (run.data[name][:, 0].to_numpy() for name in ("link.num_b", "link.round"))
    forgotten = 1000 + int(np.flatnonzero(counted[1000:] < 4)[0])
    shared = 1000 + int(np.flatnonzero(run.data["flow.x"][1000:, [0, 1, 3]].min("flow") > 0.31 * C)[0])
    heals = int(rounds[forgotten] - rounds[999]) <= 2 and bool((counted[forgotten:] == 3).all())
    measured += [
        Measurement(
            "rounds until the state of a stopped flow is dropped",
            int(rounds[forgotten] - rounds[999]),
            reported=2,
            met=heals,
        ),
        Measurement("time until other flows have the share of a stopped flow", (shared - 999) * 1e-6 / RTT, "RTTs"),
    ]
    for capacity in (C, 0.1 * C):
        crowd = Network.dumbbell(capacity, [RTT] * 50, starts=[1e-6 * k for k in range(50)])
        run = packet.simulate(Scenario(crowd, SPERC(), 0.1), sample=1e-4, record=["flow.x"])
        away = np.abs(run.data["flow.x"].to_numpy() / (GAMMA * capacity / 50) - 1.0).max(axis=1)
        measured.append(
            Measurement(
                f"50 flows that start 1 us apart, {capacity / 1e9:g} Gb/s: time until rates are fair",
                0.1 * float(np.flatnonzero(away > 0.01)[-1] + 1),
                "ms",
                note=f"{GAMMA * capacity / 50 * RTT / 8e3:.2g} packets per RTT; maximum queue "
                f"{float(run.queue_max.max()) / 1e3:.0f} kB",
            )
        )
    holds = all(held) and heals
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.CONDITIONAL,
        "A lost control packet or a stopped flow makes rates unfair for about two rounds, because the flow is counted "
        "twice or not at all; after that the effect is gone. With losses of 1 % some flow is often affected: all rates "
        f"are fair for only {100 * min(shares):.0f} % of the time."
        if holds
        else "Losses or stopped flows change rates for longer than a few rounds.",
        measured,
        (),
        [
            "10 Gb/s, RTTs of 40 us (10 flows) and 10 to 20 us, packets of 1000 bytes, losses at the first link; "
            "5 to 50 "
            "ms, one seed. With loss probability p, rates are expected to be unfair for at most 8 N p of the time: N "
            "flows "
            "lose p of their control packets, and each loss costs up to 8 trips."
        ],
    )


# ---- speed -----------------------------------------------------------------------------------------------------------


def changing(seed: int, some_go: bool = True) -> tuple[Network, Network]:
    """Return a network in which 5 of 30 flows start when 5 others stop, and the network of the remaining flows.

    Parameters
    ----------
    seed : int
    some_go : bool, optional
        If false, the 5 flows that would stop are omitted.
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


def settling(protocol: Any, network: Network, remaining: Network, share: float, state: str | None) -> float:
    """Return the time after the change until all flows stay within 10 % of fair rates [s]; inf if they never do.

    Parameters
    ----------
    protocol : object
        Protocol or mapping.
    network, kept : Network
    share : float
        Share of the capacities that the protocol's flows use.
    state : str or None
        State variable with the rate of a flow; None for the goodput over 1 ms.
    """
    run = packet.simulate(
        Scenario(network, protocol, 5.0 * CHANGE), sample=1e-5, record=[f"flow.{state}"] if state else []
    )
    rates: NDArray[np.float64]
    rates = (run.data[f"flow.{state}"] if state else run.goodput.rolling(time=100).mean()).to_numpy()[
        :, -remaining.n_flows :
    ]
    fair = max_min(remaining, share * remaining.capacities)
    if state is None:
        fair = fair * (rates[-500:].sum(axis=1).mean() / fair.sum())  # relative to the total goodput
    begin = round(CHANGE / 1e-5)
    away = np.flatnonzero(~(np.abs(rates[begin:] / fair - 1.0) <= NEAR).all(axis=1))
    last = int(max(away, default=-1)) + 1
    return float("inf") if last > len(rates) - begin - 100 else 1e-5 * last


@check("sperc-faster", cost=5, main=False)
def sperc_faster(claim: Claim) -> Finding:
    """Compare the times until rates are fair again on the same networks."""
    kinds: dict[str, tuple[Protocol | dict[str, Protocol], float, str | None]] = {
        "s-PERC": (SPERC(), GAMMA, "x"),
        "RCP, alpha = 0.4, beta = 1": (RCP(interval=5e-6), 1.0, "x"),
        "RCP, alpha = 0.8, beta = 0.5": (RCP(alpha=0.8, beta=0.5, interval=5e-6), 1.0, "x"),
        "DCTCP": ({"flows": DCTCP(transport="sack", initial=10.0), "links": StepMarking(threshold=65.0)}, 1.0, None),
    }
    measured, times = [], {}
    for name, (protocol, share, state) in kinds.items():
        durations = [settling(protocol, *changing(seed), share, state) for seed in range(8)]
        times[name] = durations
        settled = sorted(1e6 * value for value in durations if value < float("inf"))
        range_of = f"{settled[0]:.0f} to {settled[-1]:.0f} us" if settled else "none"
        measured.append(
            Measurement(f"networks of 8 with rates fair again within 16 ms: {name}", len(settled), note=range_of)
        )
    sperc_times = np.array(times["s-PERC"])
    for name in list(kinds)[1:]:
        ratios = np.sort(np.array(times[name]) / sperc_times)
        median = float(np.median(ratios))
        extremes = ", ".join(f"{value:.1f}" if value < float("inf") else "never" for value in (ratios[0], ratios[-1]))
        measured.append(
            Measurement(
                f"median of times over those of s-PERC: {name}",
                median if median < float("inf") else "never",
                reported="10 to 100",
                note=f"minimum and maximum: {extremes}",
                met=median >= 10.0,
            )
        )
    come = []
    for name in ("s-PERC", "RCP, alpha = 0.8, beta = 0.5"):
        protocol, share, state = kinds[name]
        come.append(np.array([settling(protocol, *changing(seed, False), share, state) for seed in range(8)]))
    ratio = float(np.median(come[1] / come[0]))
    measured.append(
        Measurement(
            "the same if flows only start: RCP, alpha = 0.8, beta = 0.5",
            ratio,
            reported="10 to 100",
            note=f"s-PERC {1e6 * come[0].min():.0f} to {1e6 * come[0].max():.0f} us, RCP "
            f"{1e6 * come[1].min():.0f} to {1e6 * come[1].max():.0f} us",
            met=ratio >= 10.0,
        )
    )
    met = [value.met for value in measured if value.met is not None]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(met) else Verdict.CONDITIONAL if any(met) else Verdict.REFUTED,
        f"s-PERC takes {1e6 * sperc_times.min():.0f} to {1e6 * sperc_times.max():.0f} us. RCP takes "
        f"{np.median(np.array(times['RCP, alpha = 0.8, beta = 0.5']) / sperc_times):.1f} times as long with gains "
        "tuned to "
        "these networks; with its authors' gains it never settles within 10 % in some of them. DCTCP does not "
        "keep "
        "max-min rates over several links to 10 %.",
        measured,
        (),
        [
            "Eight links of 10 to 40 Gb/s and 5 us, 30 flows over 1 to 4 of them, RTTs of 20 to 60 us, buffers "
            "of 1 MB; "
            "at 4 ms five flows stop silently and five start. All flows must be within 10 %, by their rate at "
            "any time; "
            "for DCTCP by the goodput over 1 ms as a share of the total."
        ],
    )
