"""Checks of claims on Compound TCP in packets: mean windows under random losses, and what it leaves to Reno."""

from __future__ import annotations

from functools import lru_cache
from math import log

import numpy as np

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import Compound, NewReno, Protocol
from ecc.network.impairments import RandomLoss
from ecc.network.network import Network
from ecc.scenario import Scenario

PACKET, RTT = 1500, 0.1
SMALL = (1e-4, 3e-5)  # rates of losses
LOSSES, LOST = (1e-3, 3e-4, *SMALL), 150  # ... in a run
CAPACITY, SHORT, FLOWS, SECONDS = 2e8, 0.05, 8, 60.0
PER_FLOW = (104, 26, 10, 5)  # packets of buffer; the first are a bandwidth-delay product


@lru_cache
def mean_window(loss: float) -> float:
    """Return the mean window [packets] of flows on a link that never fills and loses at random, late in a run."""
    host = Compound(transport="sack")
    duration = LOST * RTT / (loss * host.mean_window(loss))
    network = Network.dumbbell("10 Gb/s", [RTT] * 2, packet_size=PACKET)
    scenario = Scenario(network, host, duration, impairments=[RandomLoss(loss, link=0)])
    run = packet.simulate(scenario, sample=0.1, record=["env.window"])
    window = run.data["env.window"].to_numpy()
    return float(window[len(window) // 8 :].mean()) / PACKET


@check("compound-window", cost=9, main=False)
def compound_window(claim: Claim) -> Finding:
    """Mean windows at four loss rates, and the power with which they go at the last two."""
    host, measured, ratios = Compound(transport="sack"), [], []
    for loss in LOSSES:
        found, stated = mean_window(loss), host.mean_window(loss, random=True)
        ratios.append(found / stated)
        measured.append(
            Measurement(f"mean window, {loss:g} lost", found, "packets", stated,
                        "reported: our closed form of the limit",
                        met=abs(ratios[-1] - 1.0) < 0.1 if loss in SMALL else None)
        )  # fmt: skip
    power = log(mean_window(SMALL[0]) / mean_window(SMALL[1])) / log(SMALL[0] / SMALL[1])
    measured.append(
        Measurement(f"power of the loss rate, {SMALL[0]:g} to {SMALL[1]:g}", power, reported=-0.8,
                    met=abs(power + 0.8) < 0.05)
    )  # fmt: skip
    holds = all(one.met is not False for one in measured)
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Mean windows come from {ratios[0]:.2f} to {ratios[-1]:.2f} times the closed form of the limit as the loss "
        f"rate falls, and go with p^{power:.2f} there; the power of the limit is -1/(2 - k).",
        measured, (), [
            f"Two flows of 1500-byte packets, SACK, {1e3 * RTT:g} ms, on 10 Gb/s, no queue, some {LOST} losses a flow.",
            "Of the paper the abstract was read. The closed form is ours: Compound.mean_window(loss, random=True). It "
            "leaves out low_window, 41 packets, and RTTs without growth at a loss: at 0.001 there are 15 between two.",
        ],
    )  # fmt: skip


@lru_cache
def shares(host: Protocol, packets: int) -> tuple[float, float]:
    """Return what four flows and four of NewReno beside them have of the capacity, with so much buffer for each."""
    reno, half = NewReno(transport="sack"), FLOWS // 2
    starts = np.random.default_rng(1).random(FLOWS).tolist()
    network = Network.dumbbell(CAPACITY, [SHORT] * FLOWS, FLOWS * packets * PACKET, packet_size=PACKET, starts=starts)
    protocol = {"flows": {f"0-{half - 1}": host, "default": reno}}
    run = packet.simulate(Scenario(network, protocol, SECONDS), sample=0.5)
    rates = run.goodput[round(SECONDS) // 2 :].mean("time").to_numpy() / CAPACITY
    return float(rates[:half].sum()), float(rates[half:].sum())


@check("compound-reno", cost=9, main=False)
def compound_reno(claim: Claim) -> Finding:
    """What NewReno has beside Compound, of what it has beside itself; with gamma fixed, and adaptive."""
    measured, kept = [], {}
    for packets in PER_FLOW:
        alone = 0.5 * sum(shares(NewReno(transport="sack"), packets))
        for adaptive in (False, True):
            theirs, renos = shares(Compound(transport="sack", adaptive=adaptive), packets)
            kept[adaptive, packets] = renos / alone
            measured.append(
                Measurement(f"{packets} packets of buffer a flow, gamma {'adaptive' if adaptive else 'fixed'}",
                            100.0 * renos / alone, "% of what Reno has beside Reno",
                            note=f"Compound {theirs:.1%}, Reno {renos:.1%} of the link")
            )  # fmt: skip
    large, small = kept[False, PER_FLOW[0]], kept[False, PER_FLOW[2]]
    tuned, least = kept[True, PER_FLOW[2]], kept[True, PER_FLOW[3]]
    holds = large > 0.9 and small < 0.6
    restored = tuned > 0.9 and least > 0.9
    return Finding(
        claim, Verdict.REFUTED if not holds else Verdict.CONFIRMED if restored else Verdict.CONDITIONAL,
        f"With {PER_FLOW[0]} packets of buffer a flow Reno keeps {large:.0%} of what it has beside itself, with "
        f"{PER_FLOW[2]} {small:.0%}; there an adaptive gamma leaves it {tuned:.0%}, but with {PER_FLOW[3]}, the least "
        f"that gamma can be, {least:.0%}.",
        measured, (), [
            f"Four flows of each, {1e-6 * CAPACITY:g} Mb/s, {1e3 * SHORT:g} ms, 1500-byte packets, SACK; the second "
            f"half of {SECONDS:g} s, one draw of starts.",
            "The adaptation of gamma is described in ecc/models/compound.py.",
        ],
    )  # fmt: skip
