"""Checks of claims on DCQCN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ecc import plot
from ecc.claims.checks.data_centers.dcqcn_loop import (
    CAPACITY,
    PACKET,
    PRINTED,
    critical,
    last_with_fixed_point,
    marks_at_rest,
    packets_of,
    printed,
    run_of,
    slope_of_ramp,
    swings,
    their_margin,
    their_marks,
)
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.errors import LinearizationError
from ecc.models import DCQCN
from ecc.models.dcqcn import target_law
from ecc.network.network import Network


@check("dcqcn-fixed", cost=12, main=False)
def dcqcn_fixed(claim: Claim) -> Finding:
    """Find the numbers of flows with a fixed point, check its uniqueness, and run the fluid without a fixed point."""
    p = DCQCN()
    max_flows = last_with_fixed_point(p)
    crossings = []
    for flows in (1, 2, 10, max_flows, 20, 64):
        x = CAPACITY / flows
        growths = [
            target_law(x, x, R, PACKET, p.resting(x, R, PACKET)[1], p.namespace())
            for R in np.geomspace(1e-9, 0.9, 2000).tolist()
        ]
        crossings.append(int(np.sum(np.diff(np.sign(growths)) != 0)))
    refused = 0
    for flows in (max_flows, max_flows + 1, 64):
        try:
            p.equilibrium(Network.dumbbell(CAPACITY, ["4 us"] * flows, packet_size=1000))
        except LinearizationError:
            refused += 1
    _, late, min_queue = swings(p, 20, 4e-6)
    lost = swings(p, 64, 85e-6)[2]
    return Finding(
        claim,
        Verdict.CONDITIONAL if set(crossings) == {1} and refused == 2 else Verdict.REFUTED,
        f"The paper's (11) has one solution p* for each number of flows, but with {max_flows + 1} flows or more it "
        f"exceeds p_max, where the ramp ends: no queue has a marking probability between {p.p_max:g} and 1. With the "
        f"paper's parameters a unique fixed point exists for up to {max_flows} flows. With more flows none exists, and "
        "the queue swings around K_max.",
        [
            Measurement("maximum number of flows with a fixed point", max_flows, reported="any"),
            Measurement(f"p* with {max_flows} flows", marks_at_rest(p, max_flows), note=f"p_max = {p.p_max:g}"),
            Measurement(
                f"p* with {max_flows + 1} flows",
                marks_at_rest(p, max_flows + 1),
                met=marks_at_rest(p, max_flows + 1) <= p.p_max,
            ),
            Measurement(
                "p* with 64 flows",
                marks_at_rest(p, 64),
                met=marks_at_rest(p, 64) <= p.p_max,
                note=f"numbers of solutions of (11): {sorted(set(crossings))}",
            ),
            Measurement(
                "nonlinear fluid, 20 flows, 4 us: minimum queue of a lasting cycle",
                min_queue,
                "kB",
                note="around K_max = 200 kB",
            ),
            Measurement("nonlinear fluid, 64 flows, 85 us: minimum queue", lost, "kB", note="the queue empties"),
        ],
        (),
        [
            PRINTED,
            "C = 40 Gb/s, packets of 1 kB, tau = 50 us, tau' = T = 55 us, F = 5, B = 10 MB, R_AI = 40 Mb/s, "
            "K_min, K_max = 5, 200 kB, p_max = 1 %, g = 1/256 (table 2 of the paper).",
        ],
    )


@check("dcqcn-marks", cost=1)
def dcqcn_marks(claim: Claim) -> Finding:
    """Compare the closed form with the root for all numbers of flows with a fixed point."""
    p = DCQCN()
    counts = range(1, last_with_fixed_point(p) + 1)
    ratios = {flows: their_marks(p, flows) / marks_at_rest(p, flows) for flows in counts}
    worst = max(ratios, key=lambda flows: abs(ratios[flows] - 1.0))
    good = abs(ratios[worst] - 1.0) < 0.1
    return Finding(
        claim,
        Verdict.CONFIRMED if good else Verdict.REFUTED,
        f"The closed form is {min(ratios.values()):.3f} to {max(ratios.values()):.3f} times p*: tau R_C p* is not "
        "small, and (1 - p)^(tau R_C) is not linear. The paper linearizes its loop at this point.",
        [
            Measurement(
                f"p* with {flows} flows",
                marks_at_rest(p, flows),
                reported=their_marks(p, flows),
                note=f"{ratios[flows] - 1.0:+.1%}",
                met=abs(ratios[flows] - 1.0) < 0.1,
            )
            for flows in (1, 2, 10, max(counts))
        ],
    )


@check("dcqcn-margin", cost=15, main=False)
def dcqcn_margin(claim: Claim) -> Finding:
    """Check the printed margins, the exact loop with certificates, and the nonlinear fluid on both sides."""
    p = DCQCN()
    table = {2: 8.2626, 4: -0.75215, 10: -6.5844, 14: -5.1236}
    measured = [
        Measurement(
            f"phase margin by the paper's formula, {flows} flows, 50 us",
            their_margin(p, flows, 50e-6),
            "degrees",
            reported=value,
        )
        for flows, value in table.items()
    ]
    counts = range(1, last_with_fixed_point(p) + 1)
    verdicts = {flows: proven(printed(p, flows, 50e-6)) for flows in counts}
    stable = [flows for flows in counts if verdicts[flows] is True]
    limits = {flows: critical(p, flows) for flows in counts}
    worst = min(limits, key=lambda flows: limits[flows])
    measured += [
        Measurement(
            "numbers of flows with a stable exact loop at 50 us",
            f"{len(stable)} of {len(counts)}",
            note=f"proven, 1 to {max(counts)} flows",
            met=len(stable) == 0,
        ),
        Measurement(f"minimum critical delay, {worst} flows", 1e6 * limits[worst], "us"),
        Measurement("critical delay, 10 flows", 1e6 * limits[10], "us"),
        run_of(p, 10, 0.95 * limits[10], "decays"),
        run_of(p, 10, 1.05 * limits[10], "grows"),
    ]
    figure = plot.boundary_figure(
        np.array(counts, dtype=float),
        {"exact": [1e6 * limits[flows] for flows in counts]},
        {"50 us: negative margins are reported for 4 to 20 flows": [50.0] * len(counts)},
        None,
        "flows",
        "critical delay [us]",
        title="DCQCN's critical delay",
        log_x=False,
    )
    return Finding(
        claim,
        Verdict.REFUTED if len(stable) == len(counts) else Verdict.CONDITIONAL,
        "Linearized exactly, the paper's equations are provably stable at 50 us for every number of flows with a "
        "fixed "
        f"point (1 to {max(counts)}). The minimum critical delay is {1e6 * limits[worst]:.1f} us, with {worst} flows. "
        "The reported margins follow from the paper's formula, which is of first order in p around a p* that is too "
        "large; the nonlinear fluid agrees with the exact loop on both sides.",
        measured,
        [Picture.of(figure, "DCQCN's critical delay", "Delay at which the exact loop loses stability.")],
        [PRINTED, "With 15 flows or more there is no fixed point (dcqcn-fixed)."],
    )


@check("dcqcn-nonmonotone", cost=8, main=False)
def dcqcn_nonmonotone(claim: Claim) -> Finding:
    """Compute critical delays over the number of flows."""
    p = DCQCN()
    counts = (1, 2, 4, 8, 10, 14)
    limits = [critical(p, flows) for flows in counts]
    between = limits[3] < limits[0] and limits[3] < limits[-1]
    certified = all(
        proven(printed(p, flows, share * limit)) is (share < 1.0)
        for flows, limit in zip(counts, limits, strict=True)
        for share in (0.999, 1.001)
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if between and certified else Verdict.REFUTED,
        "The critical delay decreases up to 8 flows and then increases.",
        [
            Measurement(f"critical delay, {flows} flows", 1e6 * limit, "us", note="proven at 0.1 % on both sides")
            for flows, limit in zip(counts, limits, strict=True)
        ],
        (),
        [PRINTED],
    )


@check("dcqcn-delay", cost=12, main=False)
def dcqcn_delay(claim: Claim) -> Finding:
    """Check the exact loop and the fluid at both delays, with the paper's ramp and with a longer one."""
    p = DCQCN()
    longer = replace(p, max_threshold=2_000_000, p_max=slope_of_ramp(p) * 8.0 * (2_000_000 - p.min_threshold))
    max_flows = last_with_fixed_point(p)
    short = [proven(printed(p, flows, 4e-6)) for flows in range(1, max_flows + 1)]
    two, ten, sixty_four = (proven(printed(host, flows, 85e-6)) for host, flows in ((p, 2), (p, 10), (longer, 64)))
    cycle = swings(p, 64, 85e-6)
    measured = [
        Measurement(
            "numbers of flows with a stable fixed point at 4 us",
            f"{sum(stable is True for stable in short)} of {max_flows}",
            note="proven",
            met=all(stable is True for stable in short),
        ),
        Measurement(
            "2 flows, 85 us",
            "stable" if two else "unstable",
            reported="stable",
            met=two is True,
            note=f"critical delay {1e6 * critical(p, 2):.2f} us; margin by the paper's formula "
            f"{their_margin(p, 2, 85e-6):.1f} degrees",
        ),
        Measurement(
            "10 flows, 85 us",
            "stable" if ten else "unstable",
            reported="unstable",
            met=ten is False,
            note=f"critical delay {1e6 * critical(p, 10):.2f} us",
        ),
        Measurement(
            "64 flows, 85 us, K_max = 200 kB",
            "no fixed point",
            reported="stable",
            met=False,
            note=f"the fluid's queue falls to {cycle[2]:.0f} kB in each cycle",
        ),
        Measurement(
            "64 flows, 85 us, the ramp continued to 2 MB", "stable" if sixty_four else "unstable", note="proven"
        ),
        run_of(p, 2, 85e-6, "decays"),
        run_of(p, 10, 85e-6, "grows"),
        run_of(longer, 64, 85e-6, "decays"),
        *(packets_of(p, flows, delay) for flows, delay in ((2, 4e-6), (10, 4e-6), (10, 85e-6), (64, 85e-6))),
    ]
    holds = all(stable is True for stable in short) and two is True and ten is False
    return Finding(
        claim,
        Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        f"The claim holds for up to {max_flows} flows, but 2 flows at 85 us are within 1 % of the limit. With the "
        "stated K_max of 200 kB and p_max of 1 %, 64 flows have no fixed point, and the queue empties; they are stable "
        "if the ramp continues with the same slope to 10 % at 2 MB. In packet runs, with random marks, the queue of 10 "
        "flows swings over the whole ramp at 4 us, too: the loop is stable but so weakly damped that noise covers it.",
        measured,
        (),
        [PRINTED, "Packet runs: random marks, at most one notification per tau, RTTs of the stated delay."],
    )


@check("dcqcn-tuning", cost=5, main=False)
def dcqcn_tuning(claim: Claim) -> Finding:
    """Check the exact loop at 100 us for each number of flows with a fixed point."""
    p = DCQCN(rate_ai=10e6, max_threshold=1_000_000)
    max_flows = last_with_fixed_point(p)
    verdicts = {flows: proven(printed(p, flows, 100e-6)) for flows in range(1, max_flows + 1)}
    stable = [flows for flows, value in verdicts.items() if value is True]
    holds = len(stable) == max_flows
    return Finding(
        claim,
        Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        f"The loop is provably stable at 100 us for {'each' if holds else len(stable)} of 1 to {max_flows} flows. With "
        "more flows there is no fixed point, because p* would exceed p_max; the margins reported for them assume an "
        "unlimited ramp.",
        [
            Measurement(
                "numbers of flows with a stable fixed point at 100 us", f"{len(stable)} of {max_flows}", met=holds
            ),
            Measurement("maximum number of flows with a fixed point", max_flows, reported=100, met=max_flows >= 100),
        ],
        (),
        [PRINTED],
    )
