"""Checks of claims on NewReno and CUBIC: dependence of rates on the RTT."""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import CUBIC, NewReno, Protocol
from ecc.network.impairments import RandomLoss
from ecc.network.network import Network
from ecc.scenario import Scenario

PACKET, FLOWS = 1500, 4


@lru_cache
def rate(host: Protocol, rtt: float, loss: float, duration: float) -> float:
    """Return the mean goodput of flows on an uncongested link with random losses, without the first fifth."""
    network = Network.dumbbell("10 Gb/s", [rtt] * FLOWS, packet_size=PACKET)
    run = packet.simulate(Scenario(network, host, duration, impairments=[RandomLoss(loss, link=0)]), sample=1.0)
    return float(run.goodput[round(0.2 * duration) :].mean())


def exponent(host: Protocol, rtts: tuple[float, float], loss: float, duration: float) -> float:
    """Return the exponent e of rates that scale with RTT^-e between two RTTs."""
    short, long = (rate(host, rtt, loss, duration) for rtt in rtts)
    return log(short / long) / log(rtts[1] / rtts[0])


@check("reno-rtt", cost=2)
def reno_rtt(claim: Claim) -> Finding:
    """Measure rates at two RTTs and two loss rates."""
    host, measured, exponents = NewReno(transport="sack"), [], []
    for loss in (1e-4, 1e-3):
        exponents.append(exponent(host, (0.02, 0.16), loss, 100.0))
        stated = sqrt(1.5 / loss) * 8.0 * PACKET
        ratios = [rate(host, rtt, loss, 100.0) * rtt / stated for rtt in (0.02, 0.16)]
        measured.append(
            Measurement(
                f"e of RTT^-e from 20 to 160 ms, {loss:g} lost",
                exponents[-1],
                reported=1.0,
                met=abs(exponents[-1] - 1.0) < 0.1,
                note=f"{ratios[0]:.2f} and {ratios[1]:.2f} of the formula",
            )
        )
    holds = all(abs(value - 1.0) < 0.1 for value in exponents)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Rates scale with RTT^-{min(exponents):.2f} to RTT^-{max(exponents):.2f}.",
        measured,
        (),
        [f"{FLOWS} flows of 1500-byte packets, SACK, on 10 Gb/s, no queue; 20 to 100 s."],
    )


@check("cubic-rtt", cost=4, main=False)
def cubic_rtt(claim: Claim) -> Finding:
    """Measure rates at two RTTs with windows far above Reno's, and in the Reno-friendly region."""
    host, measured = CUBIC(transport="sack"), []
    as_cubic = exponent(host, (0.2, 0.8), 1e-5, 200.0)
    friendly = exponent(host, (0.01, 0.04), 1e-3, 100.0)
    for name, value, stated in (
        ("200 to 800 ms, 1e-05 lost", as_cubic, 0.25),
        ("10 to 40 ms, 0.001 lost", friendly, 1.0),
    ):
        measured.append(Measurement(f"e of RTT^-e from {name}", value, reported=stated, met=abs(value - stated) < 0.1))
    for rtt in (0.2, 0.8):
        window = rate(host, rtt, 1e-5, 200.0) * rtt / (8.0 * PACKET)
        measured.append(
            Measurement(
                f"mean window, {1e3 * rtt:g} ms, 1e-05 lost", window, "packets", reported=host.mean_window(1e-5, rtt)
            )
        )
    between = exponent(host, (0.02, 0.16), 1e-4, 100.0)
    measured.append(Measurement("e of RTT^-e from 20 to 160 ms, 0.0001 lost", between, note="one RTT in each region"))
    holds = abs(as_cubic - 0.25) < 0.1 and abs(friendly - 1.0) < 0.1
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Rates scale with RTT^-{as_cubic:.2f} in the cubic region, with RTT^-{friendly:.2f} in the Reno-friendly "
        f"region, and with RTT^-{between:.2f} between the two.",
        measured,
        (),
        [f"{FLOWS} flows of 1500-byte packets, SACK, on 10 Gb/s, no queue; without the first fifth."],
    )
