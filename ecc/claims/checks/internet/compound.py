"""Checks of claims on Compound TCP in packet runs: mean windows under random losses, and competition with Reno."""

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
SMALL = (1e-4, 3e-5)  # small loss rates
LOSSES, LOST = (1e-3, 3e-4, *SMALL), 150  # all loss rates; number of losses in a run
CAPACITY, SHORT, FLOWS, SECONDS = 2e8, 0.05, 8, 60.0
PER_FLOW = (104, 26, 10, 5)  # buffer per flow, packets; the first value is a bandwidth-delay product


@lru_cache
def mean_window(loss: float) -> float:
    """Return the mean window [packets] late in a run on an uncongested link with random losses."""
    host = Compound(transport="sack")
    duration = LOST * RTT / (loss * host.mean_window(loss))
    network = Network.dumbbell("10 Gb/s", [RTT] * 2, packet_size=PACKET)
    scenario = Scenario(network, host, duration, impairments=[RandomLoss(loss, link=0)])
    run = packet.simulate(scenario, sample=0.1, record=["env.window"])
    window = run.data["env.window"].to_numpy()
    return float(window[len(window) // 8 :].mean()) / PACKET


@check("compound-window", cost=9, main=False)
def compound_window(claim: Claim) -> Finding:
    """Measure mean windows at four loss rates, and their exponent between the last two."""
    host, measured, ratios = Compound(transport="sack"), [], []
    for loss in LOSSES:
        measured_window, stated = mean_window(loss), host.mean_window(loss, random=True)
        ratios.append(measured_window / stated)
        measured.append(
            Measurement(
                f"mean window, {loss:g} lost",
                measured_window,
                "packets",
                stated,
                "reported value: our closed form of the limit",
                met=abs(ratios[-1] - 1.0) < 0.1 if loss in SMALL else None,
            )
        )
    power = log(mean_window(SMALL[0]) / mean_window(SMALL[1])) / log(SMALL[0] / SMALL[1])
    measured.append(
        Measurement(
            f"power of the loss rate, {SMALL[0]:g} to {SMALL[1]:g}", power, reported=-0.8, met=abs(power + 0.8) < 0.05
        )
    )
    holds = all(measurement.met is not False for measurement in measured)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"As the loss rate falls, mean windows approach the closed form of the limit, from {ratios[0]:.2f} to "
        f"{ratios[-1]:.2f} times its value, and scale with p^{power:.2f}; the exponent of the limit is -1/(2 - k).",
        measured,
        (),
        [
            f"Two flows of 1500-byte packets, SACK, {1e3 * RTT:g} ms, on 10 Gb/s, no queue, about {LOST} losses per "
            "flow.",
            "The abstract of the paper was read. The closed form is ours: Compound.mean_window(loss, "
            "random=True). "
            "It neglects low_window, 41 packets, and RTTs without growth at a loss; at 0.001, losses are 15 RTTs "
            "apart.",
        ],
    )


@lru_cache
def shares(host: Protocol, packets: int) -> tuple[float, float]:
    """Return the capacity shares of four flows and four competing NewReno flows, with a buffer per flow [packets]."""
    reno, half = NewReno(transport="sack"), FLOWS // 2
    starts = np.random.default_rng(1).random(FLOWS).tolist()
    network = Network.dumbbell(CAPACITY, [SHORT] * FLOWS, FLOWS * packets * PACKET, packet_size=PACKET, starts=starts)
    protocol = {"flows": {f"0-{half - 1}": host, "default": reno}}
    run = packet.simulate(Scenario(network, protocol, SECONDS), sample=0.5)
    rates = run.goodput[round(SECONDS) // 2 :].mean("time").to_numpy() / CAPACITY
    return float(rates[:half].sum()), float(rates[half:].sum())


@check("compound-reno", cost=9, main=False)
def compound_reno(claim: Claim) -> Finding:
    """Compare NewReno's share against Compound, with gamma fixed and adaptive, with its share against itself."""
    measured, retained = [], {}
    for packets in PER_FLOW:
        alone = 0.5 * sum(shares(NewReno(transport="sack"), packets))
        for adaptive in (False, True):
            compounds, renos = shares(Compound(transport="sack", adaptive=adaptive), packets)
            retained[adaptive, packets] = renos / alone
            measured.append(
                Measurement(
                    f"buffer of {packets} packets per flow, gamma {'adaptive' if adaptive else 'fixed'}",
                    100.0 * renos / alone,
                    "% of Reno's share against Reno",
                    note=f"Compound {compounds:.1%}, Reno {renos:.1%} of the link",
                )
            )
    large, small = retained[False, PER_FLOW[0]], retained[False, PER_FLOW[2]]
    tuned, minimal = retained[True, PER_FLOW[2]], retained[True, PER_FLOW[3]]
    holds = large > 0.9 and small < 0.6
    restored = tuned > 0.9 and minimal > 0.9
    return Finding(
        claim,
        Verdict.REFUTED if not holds else Verdict.CONFIRMED if restored else Verdict.CONDITIONAL,
        f"With a buffer of {PER_FLOW[0]} packets per flow Reno keeps {large:.0%} of its share against itself, with "
        f"{PER_FLOW[2]} packets {small:.0%}. An adaptive gamma raises this to {tuned:.0%}, but with {PER_FLOW[3]} "
        f"packets, the minimum of gamma, Reno keeps only {minimal:.0%}.",
        measured,
        (),
        [
            f"Four flows of each, {1e-6 * CAPACITY:g} Mb/s, {1e3 * SHORT:g} ms, 1500-byte packets, SACK; the second "
            f"half of {SECONDS:g} s, one draw of start times.",
            "The adaptation of gamma is described in ecc/models/compound.py.",
        ],
    )
