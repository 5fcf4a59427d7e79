"""Checks of claims on HPCC."""

from __future__ import annotations

from functools import lru_cache

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import HPCC
from ecc.network import Network
from ecc.scenario import Scenario

C, T, ETA = 100e9, 10e-6, 0.95
PIPE = C * T / 8.0
"""Bytes in T."""
SETUP = "One link of 100 Gb/s, RTT 10 us without queue, packets of 1000 bytes; eta = 0.95; 3 ms, the second half."


@lru_cache
def _run(flows: int, w_ai: float) -> tuple[float, float]:
    """Arrivals over C, and the mean queue [bytes], of the second half of a packet run."""
    network = Network.dumbbell(C, [T] * flows, starts=[1e-6 * k for k in range(flows)])
    run = packet.simulate(Scenario(network, HPCC(base_rtt=T, line_rate=C, w_ai=w_ai), 3e-3), sample=1e-5)
    half = len(run.queue) // 2
    return float(run.rate[half:].sum("flow").mean()) / C, float(run.queue[half:, 0].mean())


def _load(flows: int, w_ai: float) -> float:
    """U at the equilibrium."""
    return ETA + flows * w_ai / PIPE


@check("hpcc-utilization", cost=1)
def hpcc_utilization(claim: Claim) -> Finding:
    """Load and queue of packet runs with the paper's W_AI for many flows."""
    measured, near = [], []
    for flows, w_ai in ((1, 80.0), (4, 80.0), (16, 80.0), (32, 80.0)):
        load, queue = _run(flows, w_ai)
        near.append(abs(load - _load(flows, w_ai)) < 0.02 and queue < 0.05 * PIPE)
        measured += [
            Measurement(f"load, {flows} flows", load, reported=ETA, note=f"equilibrium {_load(flows, w_ai):.3f}",
                        met=abs(load - ETA) < 0.02),
            Measurement("... mean queue", queue / PIPE, "C T", reported=0.0, met=queue < 0.05 * PIPE),
        ]  # fmt: skip
    at_eta = [abs(_run(flows, 80.0)[0] - ETA) < 0.02 for flows in (1, 4, 16, 32)]
    verdict = (
        Verdict.CONFIRMED if all(at_eta) and all(near) else Verdict.CONDITIONAL if any(at_eta) else Verdict.REFUTED
    )
    return Finding(
        claim, verdict,
        "The load is eta + N W_AI/(C T): eta to 2 % where that last term is small, and queues are below 5 % of C T."
        if all(near) else "Load or queue of packets differ from eta + N W_AI/(C T) by more than 2 %, or 5 % of C T.",
        measured, (), [SETUP, "W_AI = 80 bytes."],
    )  # fmt: skip


@check("hpcc-empty", cost=1)
def hpcc_empty(claim: Claim) -> Finding:
    """Mean queues of packet runs below and above the rule."""
    measured, below, above = [], True, True
    for flows in (4, 16):
        rule = PIPE * (1.0 - ETA) / flows
        for share in (0.5, 0.9, 2.0, 4.0):
            w_ai = float(round(share * rule))
            _, queue = _run(flows, w_ai)
            stands = max(_load(flows, w_ai) - 1.0, 0.0) * PIPE
            if share < 1.0:
                below &= queue < 0.05 * PIPE
            else:
                above &= queue > 0.5 * stands
            measured.append(
                Measurement(f"mean queue, {flows} flows, W_AI {share:g} times the rule", queue / PIPE, "C T",
                            reported=0.0 if share < 1.0 else None, note=f"equilibrium {stands / PIPE:.3f}",
                            met=queue < 0.05 * PIPE if share < 1.0 else queue > 0.5 * stands)
            )  # fmt: skip
    return Finding(
        claim, Verdict.CONFIRMED if below and above else Verdict.CONDITIONAL if below or above else Verdict.REFUTED,
        "Within the rule mean queues are below 5 % of C T; beyond it a queue of (eta + N W_AI/(C T) - 1) C T stands."
        if below and above else
        "Queues of packets within the rule are not all below 5 % of C T, or those beyond it are not there.",
        measured, (), [SETUP],
    )  # fmt: skip
