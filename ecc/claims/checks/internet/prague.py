"""Checks of claims on Prague: its rate at a marking probability, RTTs, and competition with classic flows."""

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
    """Marks one packet in a hundred, at random."""

    share = 0.01


class OneIn5(OneIn20):
    """Marks one packet in five, at random."""

    share = 0.2


def mark_at_random(link: Any, header: Any, p: Any, env: Any) -> None:
    """Mark a share of the packets."""
    if env.kind == 0 and env.random < p.share:
        env.mark = 1


@check("prague-rate", cost=1)
def prague_rate(claim: Claim) -> Finding:
    """Run flows with a fixed random share of marked packets."""
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
                Measurement(
                    f"rate, p = {p:g}, RTT {1e3 * rtt:g} ms",
                    1e-6 * rate,
                    "Mb/s",
                    reported=1e-6 * stated,
                    note=f"{1e-6 * random:.3g} by random marks",
                    met=abs(factors[-1] - 1.0) < 0.05,
                )
            )
    low, high = min(factors), max(factors)
    near = high < 1.05 * low
    verdict = Verdict.REFUTED if not near else Verdict.CONFIRMED if 0.95 < low < high < 1.05 else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        f"Rates scale with (1 - p)/p and do not depend on RTTs below 25 ms. With random marks they are {low:.2f} to "
        f"{high:.2f} times the stated rates: some virtual RTTs have no mark, which replaces 2 (1 - p) by 1 - p + "
        "sqrt((1 - p)(3 - p))."
        if near
        else f"Rates are {low:.2f} to {high:.2f} times the stated rates.",
        measured,
        (),
        [f"1 Gb/s, 1500-byte packets, one flow, marks at random with a fixed p; {5 * DURATION:g} s."],
    )


@lru_cache
def goodputs(hosts: tuple[Protocol, ...], rtts: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the goodput of each flow under DualPI2 [bit/s], mean of the seeds."""
    network = Network.dumbbell(CAPACITY, list(rtts), packet_size=PACKET, buffer="5 MB")
    pair: dict[str, Any] = {"flows": dict(enumerate(hosts)), "links": DualPI2()}
    runs = packet.ensemble(Scenario(network, pair, DURATION), seeds=SEEDS, series=["goodput"], sample=1.0)
    means: NDArray[np.float64] = runs.goodput[:, SKIPPED:].mean("time").mean("seed").to_numpy()
    return means


def two_by_two(host: Protocol, rtt: float) -> float:
    """Return the goodput of two flows over that of two flows with an RTT of 25 ms."""
    rates = goodputs((host,) * 4, (rtt, rtt, REFERENCE, REFERENCE))
    return float(rates[:2].sum() / rates[2:].sum())


@check("prague-rtt", cost=10, main=False)
def prague_rtt(claim: Claim) -> Finding:
    """Compare flows of several RTTs with flows of 25 ms, for Prague with and without virtual RTT and for NewReno."""
    measured, off = [], []
    for rtt in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        ratio = two_by_two(Prague(transport="sack"), rtt)
        plain, reno = (
            two_by_two(host, rtt) for host in (Prague(transport="sack", reference_rtt=0.0), NewReno(transport="sack"))
        )
        off += [abs(ratio - 1.0)] if rtt < REFERENCE else []
        measured.append(
            Measurement(
                f"goodput at {1e3 * rtt:g} ms over that at 25 ms",
                ratio,
                reported=1.0 if rtt < REFERENCE else None,
                met=off[-1] < 0.15 if rtt < REFERENCE else None,
                note=f"{plain:.2f} without virtual RTTs; NewReno {reno:.2f}",
            )
        )
    holds = max(off) < 0.15
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"For RTTs of 1 to 20 ms, rates differ from those at 25 ms by at most {max(off):.0%}. Above 25 ms rates fall "
        f"faster than 1/RTT: at 100 ms the ratio is {two_by_two(Prague(transport='sack'), 0.1):.2f}, but equal windows "
        f"would give {REFERENCE / 0.1:.2f}. The reason is that step marks of the low-latency queue occur in bursts.",
        measured,
        (),
        [
            "DualPI2() of 40 Mb/s, two flows of each RTT, 1500-byte packets; RTTs without queueing; 20 to 120 s, "
            "mean of "
            "two seeds. NewReno also has the classic queue's 15 ms."
        ],
    )


@check("prague-coexistence", cost=15, main=False)
def prague_coexistence(claim: Claim) -> Finding:
    """Measure the goodput of a Prague flow over that of a classic flow, by RTT and numbers of flows."""
    measured, ratios = [], {}
    classics: dict[str, Protocol] = {"NewReno": NewReno(transport="sack"), "CUBIC": CUBIC(transport="sack")}
    for name, classic in classics.items():
        for rtt in (0.005, 0.01, 0.02, 0.05, 0.1):
            for n, m in ((1, 1), (2, 2), (5, 5), (9, 1)):
                rates = goodputs((Prague(transport="sack"),) * n + (classic,) * m, (rtt,) * (n + m))
                ratio = ratios[name, rtt, n, m] = float(rates[:n].mean() / rates[n:].mean())
                measured.append(
                    Measurement(
                        f"{n} against {m} of {name}, {1e3 * rtt:g} ms", ratio, reported=1.0, met=0.5 < ratio < 2.0
                    )
                )
    good = [key for key, ratio in ratios.items() if 0.5 < ratio < 2.0]
    verdict = Verdict.CONFIRMED if len(good) == len(ratios) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    at_10 = [ratio for (_, rtt, n, m), ratio in ratios.items() if rtt == 0.01 and n == m]
    return Finding(
        claim,
        verdict,
        f"A Prague flow has {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times the rate of a classic flow, "
        f"within a factor of 2 in {len(good)} of {len(ratios)} cases. At 10 ms (25 ms with the classic queue) and with "
        f"equal numbers of both, the ratio is {min(at_10):.2f} to {max(at_10):.2f}: k = 2 is right if classic flows "
        "also have the virtual RTT.",
        measured,
        (),
        [
            "DualPI2() of 40 Mb/s, 1500-byte packets, base RTTs as stated; classic flows are not ECT; 20 to 120 "
            "s, mean "
            "of "
            "two seeds. Roughly equal: within a factor of 2."
        ],
    )
