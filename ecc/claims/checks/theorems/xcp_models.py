"""Check on the three linear models of XCP: their verdicts at the suggested gains, compared with runs."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ecc.claims.checks.common.evidence import CAPACITY
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.loops.closed_loop import linearize
from ecc.models import XCP
from ecc.network.network import Network
from ecc.stability import perturbed_run

RTT = 0.1
TIMES = ("continuous", "discrete", "hybrid")
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "averaged fluid": ("fluid", {"time": "averaged", "clocking": "rate", "floor": 1e-6}),
    "fluid with exact ticks": ("fluid", {"time": "continuous", "floor": 1e-6}),
    "packets": ("packet", {}),
}


def _end_of_curve(network: Network, time: str) -> float:
    """Return the alpha at which a model with beta = sqrt(2) alpha^2 becomes unstable, within 1e-4."""
    low, high = 0.1, 1.5
    while high - low > 1e-4:
        alpha = 0.5 * (low + high)
        protocol = XCP(alpha=alpha, beta=sqrt(2.0) * alpha * alpha)
        stable = linearize(protocol, network, time=time, clocking="rate").is_stable
        low, high = (alpha, high) if stable else (low, alpha)
    return 0.5 * (low + high)


@check("xcp-models", cost=5, main=False)
def xcp_models(claim: Claim) -> Finding:
    """Compute the dominant root of each model at the suggested gains, its limit of alpha, and growth in runs."""
    network = Network.dumbbell(CAPACITY, rtts=[RTT])
    stable, measurements = {}, []
    for time in TIMES:
        system = linearize(XCP(), network, time=time, clocking="rate")
        stable[time] = system.certify().stable
        root = system.roots(1)[0]
        end = _end_of_curve(network, time)
        measurements += [
            Measurement(f"dominant root, {time} model", f"{root:.4f}", "1/s" if time == "continuous" else "per RTT"),
            Measurement(f"limit of alpha with beta = sqrt(2) alpha^2, {time} model", end),
        ]
    statuses = {}
    for name, (engine, options) in RUNS.items():
        stability = perturbed_run(XCP(paced=True), network, 6.0 * RTT, 60.0, engine, **options).stability
        statuses[name] = stability.status
        measurements.append(Measurement(f"growth of a perturbation of 2 %, {name}", stability.growth_rate, "1/s"))
    unstable = [time for time in TIMES if not stable[time]]
    return Finding(
        claim,
        Verdict.REFUTED if unstable else Verdict.CONFIRMED,
        f"Unstable: {', '.join(unstable) or 'none'}, by a certified count of roots. Runs at the same gains: "
        f"{', '.join(f'{name} {status}' for name, status in statuses.items())}. The linear models let the queue be "
        "negative; queues of runs are not.",
        measurements,
        (),
        ["One flow, RTT 100 ms, paced; the published condition is that of the continuous model, and holds there."],
    )
