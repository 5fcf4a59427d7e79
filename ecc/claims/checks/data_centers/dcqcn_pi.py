"""Checks of claims on DCQCN's marking: PI controllers, and marking at arrival or departure of packets."""

from __future__ import annotations

import numpy as np

from ecc import packet
from ecc.claims.checks.data_centers.dcqcn_loop import (
    PACKET,
    PRINTED,
    critical,
    marks_at_rest,
    printed,
    slope_of_ramp,
    swings,
)
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.linear import DelaySystem
from ecc.models import DCQCN
from ecc.network.network import Network
from ecc.queues import PI
from ecc.scenario import Scenario

SHARE, INTERVAL, REFERENCE = 1e-4, 10e-6, 200.0
"""a/b - 1, interval [s] and q_ref [packets] of the PI controller; the paper states no interval."""
GAINS = {4e-6: 1.816e-5, 85e-6: 5.816e-6}
"""Delay [s] -> b [1/packet]."""


def _over_pi(flows: int, delay: float, b: float, interval: float) -> DelaySystem:
    """Return the paper's loop with p' = (a - b)(q - q_ref)/T + b q' for marks; states x, alpha, target, queue, p."""
    p = DCQCN()
    ramp, plain = slope_of_ramp(p), printed(p, flows, delay)
    scale = np.array([p.line_rate / flows, 1.0, p.line_rate / flows, 1e6])
    now, late = (matrix * scale[:, None] / scale for matrix in plain.matrices)  # back to bits
    wide, wider = np.zeros((5, 5)), np.zeros((5, 5))
    wide[:4, :4], wider[:4, :3] = now, late[:, :3]
    wider[:4, 4] = late[:, 3] / ramp
    wide[4, 3], wide[4, 0] = SHARE * b / interval / PACKET, b * flows / PACKET
    units = np.append(scale, 1e-3)
    return DelaySystem([matrix * units / units[:, None] for matrix in (wide, wider)], [0.0, delay])


def _shortest(flows: int, delay: float, b: float) -> float:
    """Return the minimum controller interval for stability, within 0.1 % [s]; inf if 1 s is unstable."""
    low, high = 1e-9, 1.0
    if not _over_pi(flows, delay, b, high).is_stable:
        return float("inf")
    while high > 1.001 * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if _over_pi(flows, delay, b, middle).is_stable else (middle, high)
    return high


def _packets_over_pi(flows: int, delay: float) -> tuple[Measurement, float]:
    """Return queue and rates of the second half of 1 s, and the relative error of the mean queue."""
    b = GAINS[delay]
    pi = PI(mark=True, a=(1.0 + SHARE) * b, b=b, interval=INTERVAL, reference=REFERENCE, packet_size=1000)
    network = Network.dumbbell(DCQCN().line_rate, [delay] * flows, packet_size=1000)
    run = packet.simulate(Scenario(network, {"flows": DCQCN(), "links": pi}, 1.0), sample=1e-3)
    half = len(run.queue) // 2
    queue = run.queue[half:, 0].to_numpy() / 1e3
    got = run.goodput[half:].mean("time").to_numpy() * flows / DCQCN().line_rate
    off = abs(float(queue.mean()) / REFERENCE - 1.0)
    return Measurement(
        f"packets, {flows} flows, {1e6 * delay:g} us: mean queue",
        float(queue.mean()),
        "kB",
        reported=REFERENCE,
        note=f"standard deviation {queue.std():.0f} kB; flows have {got.min():.2f} to {got.max():.2f} of C/N",
        met=off < 0.1,
    ), off


@check("dcqcn-pi", cost=6, main=False)
def dcqcn_pi(claim: Claim) -> Finding:
    """Check the linear loop over the controller's interval with certificates, and run packets."""
    measured, shortest = [], []
    for delay, b in GAINS.items():
        for flows in (2, 10, 64):
            minimum = _shortest(flows, delay, b)
            sides = [proven(_over_pi(flows, delay, b, share * minimum)) for share in (0.99, 1.01)]
            assert sides == [False, True]
            shortest.append(minimum)
            measured.append(
                Measurement(
                    f"{flows} flows, {1e6 * delay:g} us: minimum stable interval",
                    1e6 * minimum,
                    "us",
                    note="proven at 1 % on both sides",
                )
            )
    stable = [flows for flows in range(1, 101) if _over_pi(flows, 85e-6, GAINS[85e-6], INTERVAL).is_stable]
    measured.append(
        Measurement(
            f"stable numbers of flows, of 1 to 100, 85 us, an interval of {1e6 * INTERVAL:g} us",
            f"{min(stable)} to {max(stable)}",
            reported="any",
            met=len(stable) == 100,
        )
    )
    runs = [_packets_over_pi(flows, delay) for flows, delay in ((2, 4e-6), (10, 4e-6), (64, 4e-6))]
    measured += [measurement for measurement, _ in runs]
    holds = len(stable) == 100
    return Finding(
        claim,
        Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        "The fluid is at equilibrium at the reference for any number of flows, and stable if the controller's "
        "interval "
        f"is at least {1e6 * max(shortest):.1f} us. The paper states no interval: its program updates p at each "
        "evaluation of the right-hand side, so its gains have no time scale. Packet runs have equal rates, and the "
        "mean "
        "queue is at the reference with 10 and 64 flows. With 2 flows it is far lower, because p* is smaller than the "
        "noise of p, and p is clipped at 0.",
        measured,
        (),
        [
            PRINTED,
            "p' = (a - b)(q - q_ref)/T + b q'. "
            "Packet runs: marks at arrival, p is updated every 10 us; second half of 1 s.",
        ],
    )


@check("dcqcn-egress", cost=6, main=False)
def dcqcn_egress(claim: Claim) -> Finding:
    """Check the exact loop and the nonlinear fluid of two flows with marks at departure and at arrival."""
    p, flows, delay = DCQCN(), 2, 85e-6
    wait = (8.0 * p.min_threshold + marks_at_rest(p, flows) / slope_of_ramp(p)) / p.line_rate
    leaving, coming = proven(printed(p, flows, delay)), proven(printed(p, flows, delay + wait))
    measured = [
        Measurement(
            "marks at departure",
            "stable" if leaving else "unstable",
            reported="stable",
            note="proven",
            met=leaving is True,
        ),
        Measurement(
            "marks at arrival",
            "stable" if coming else "unstable",
            reported="swings",
            met=coming is False,
            note=f"proven; the queue at equilibrium adds {1e6 * wait:.2f} us",
        ),
        Measurement("critical delay", 1e6 * critical(p, flows), "us"),
    ]
    for on_arrival, expected in ((False, "decays"), (True, "grows")):
        early, late, _ = swings(p, flows, delay, 0.1, on_arrival)
        trend = "grows" if late > early else "decays"
        measured.append(
            Measurement(
                f"nonlinear fluid, marks at {'arrival' if on_arrival else 'departure'}",
                trend,
                met=trend == expected,
                note=f"a queue 1 % off is {early:.2%} off in the first fifth of 0.1 s, {late:.2%} in the last",
            )
        )
    holds = all(measurement.met in (True, None) for measurement in measured)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "If packets are marked at arrival, the queue at equilibrium delays marks beyond the limit; if they are marked "
        "at "
        "departure, it does not. The delay of 85 us is so close to the limit of two flows that 4 us matter.",
        measured,
        (),
        [PRINTED, "Marks at arrival: a delay of 85 us plus q/C, which varies with the queue."],
    )
