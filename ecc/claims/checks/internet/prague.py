"""Checks of claims on Prague: its rate at a share of marks, RTTs, and classic flows beside it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.env import Hook
from ecc.models import CUBIC, NewReno, Prague, Protocol
from ecc.network.network import Network
from ecc.queues import DualPI2
from ecc.queues.discipline import QueueDiscipline
from ecc.scenario import Scenario

PACKET, CAPACITY, REFERENCE = 1500, 40e6, 0.025
DURATION, SKIPPED = 120.0, 20
SEEDS = (1, 2)


class OneIn20(QueueDiscipline):
    """Marks one packet in twenty, at random."""

    share = 0.05
    required_env = frozenset({"random"})
    gives = frozenset({"ecn"})

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": mark_at_random}

    def params(self) -> dict[str, float]:
        return {"share": self.share, **super().params()}


class OneIn100(OneIn20):
    """... or one in a hundred."""

    share = 0.01


class OneIn5(OneIn20):
    """... or one in five."""

    share = 0.2


def mark_at_random(link: Any, header: Any, p: Any, env: Any) -> None:
    """Mark a share of the packets."""
    if env.kind == 0 and env.random < p.share:
        env.mark = 1


@check("prague-rate", cost=1)
def prague_rate(claim: Claim) -> Finding:
    """Packets of which a fixed share is marked at random."""
    measured, factors = [], []
    for discipline in (OneIn100, OneIn20, OneIn5):
        for rtt in (0.005, 0.02, 0.06):
            network = Network.dumbbell("1 Gb/s", [rtt], packet_size=PACKET)
            run = packet.simulate(
                Scenario(
                    network,
                    {"flows": Prague(transport="sack", growth=False), "links": discipline(mark=True)},
                    5 * DURATION,
                ),
                sample=1.0,
            )
            rate, p = float(run.rate[5 * SKIPPED :].mean()), discipline.share
            stated, random = (Prague(transport="sack").mean_rate(p, rtt, PACKET, random=way) for way in (False, True))
            factors.append(rate / stated)
            measured.append(
                Measurement(f"rate, p = {p:g}, RTT {1e3 * rtt:g} ms", 1e-6 * rate, "Mb/s", reported=1e-6 * stated,
                            note=f"{1e-6 * random:.3g} by random marks", met=abs(factors[-1] - 1.0) < 0.05)
            )  # fmt: skip
    least, most = min(factors), max(factors)
    near = most < 1.05 * least
    verdict = Verdict.REFUTED if not near else Verdict.CONFIRMED if 0.95 < least < most < 1.05 else Verdict.CONDITIONAL
    return Finding(
        claim, verdict,
        f"Rates go with (1 - p)/p and do not depend on RTTs below 25 ms, but are {least:.2f} to {most:.2f} times what "
        "is stated where marks come at random: some virtual RTTs pass without a mark, and 1 - p + sqrt((1 - p)(3 - p)) "
        "takes the place of 2 (1 - p)."
        if near else f"Rates are {least:.2f} to {most:.2f} times what is stated.",
        measured, (), [f"1 Gb/s, 1500-byte packets, one flow, marks at random with a fixed p; {5 * DURATION:g} s."],
    )  # fmt: skip


@lru_cache
def goodputs(hosts: tuple[Protocol, ...], rtts: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the goodput of each flow under DualPI2 [bit/s], mean of the seeds."""
    network = Network.dumbbell(CAPACITY, list(rtts), packet_size=PACKET, buffer="5 MB")
    pair: dict[str, Any] = {"flows": dict(enumerate(hosts)), "links": DualPI2()}
    runs = [packet.simulate(Scenario(network, pair, DURATION, seed=seed), sample=1.0) for seed in SEEDS]
    found: NDArray[np.float64] = np.mean([run.goodput[SKIPPED:].mean("time").to_numpy() for run in runs], axis=0)
    return found


def two_by_two(host: Protocol, rtt: float) -> float:
    """Return the goodput of two flows over that of two others whose RTT is 25 ms."""
    found = goodputs((host,) * 4, (rtt, rtt, REFERENCE, REFERENCE))
    return float(found[:2].sum() / found[2:].sum())


@check("prague-rtt", cost=10, main=False)
def prague_rtt(claim: Claim) -> Finding:
    """Two flows with an RTT beside two with 25 ms, of Prague, with and without the virtual RTT, and NewReno."""
    measured, off = [], []
    for rtt in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        ratio = two_by_two(Prague(transport="sack"), rtt)
        own, reno = (
            two_by_two(host, rtt) for host in (Prague(transport="sack", reference_rtt=0.0), NewReno(transport="sack"))
        )
        off += [abs(ratio - 1.0)] if rtt < REFERENCE else []
        measured.append(
            Measurement(f"goodput at {1e3 * rtt:g} ms over that at 25 ms", ratio,
                        reported=1.0 if rtt < REFERENCE else None, met=off[-1] < 0.15 if rtt < REFERENCE else None,
                        note=f"{own:.2f} without virtual RTTs; NewReno {reno:.2f}")
        )  # fmt: skip
    holds = max(off) < 0.15
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"From 1 to 20 ms rates differ from those at 25 ms by {max(off):.0%} at most. Beyond 25 ms RTTs count more "
        f"than proportionally: {two_by_two(Prague(transport='sack'), 0.1):.2f} at 100 ms, where windows would make it "
        f"{REFERENCE / 0.1:.2f}: the step marks of the low-latency queue come in bursts.",
        measured, (),
        ["DualPI2() of 40 Mb/s, two flows of each RTT, 1500-byte packets; RTTs without queue; 20 to 120 s, mean of two "
         "seeds. NewReno has the classic queue's 15 ms besides."],
    )  # fmt: skip


@check("prague-coexistence", cost=15, main=False)
def prague_coexistence(claim: Claim) -> Finding:
    """Goodput of a flow of Prague over that of a classic one, by RTTs and numbers of flows."""
    measured, ratios = [], {}
    classics: dict[str, Protocol] = {"NewReno": NewReno(transport="sack"), "CUBIC": CUBIC(transport="sack")}
    for name, classic in classics.items():
        for rtt in (0.005, 0.01, 0.02, 0.05, 0.1):
            for n, m in ((1, 1), (2, 2), (5, 5), (9, 1)):
                found = goodputs((Prague(transport="sack"),) * n + (classic,) * m, (rtt,) * (n + m))
                ratio = ratios[name, rtt, n, m] = float(found[:n].mean() / found[n:].mean())
                measured.append(
                    Measurement(
                        f"{n} beside {m} of {name}, {1e3 * rtt:g} ms", ratio, reported=1.0, met=0.5 < ratio < 2.0
                    )
                )
    good = [key for key, ratio in ratios.items() if 0.5 < ratio < 2.0]
    verdict = Verdict.CONFIRMED if len(good) == len(ratios) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    at_10 = [ratio for (_, rtt, n, m), ratio in ratios.items() if rtt == 0.01 and n == m]
    return Finding(
        claim, verdict,
        f"A flow has {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times the rate of a classic one, within "
        f"a factor of 2 in {len(good)} of {len(ratios)} cases. At 10 ms, 25 ms with the classic queue, and with as "
        f"many of both, it is {min(at_10):.2f} to {max(at_10):.2f}: k = 2 is right where classic flows have the "
        "virtual RTT, too.",
        measured, (),
        ["DualPI2() of 40 Mb/s, 1500-byte packets, base RTTs as named; classic flows are not ECT; 20 to 120 s, mean of "
         "two seeds. Roughly equal: within a factor of 2."],
    )  # fmt: skip
