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
)  # fmt: skip
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.errors import LinearizationError
from ecc.models import DCQCN
from ecc.models.dcqcn import target_law
from ecc.network.network import Network


@check("dcqcn-fixed", cost=12, main=False)
def dcqcn_fixed(claim: Claim) -> Finding:
    """Which numbers of flows have a fixed point, whether it is the only one, and what the fluid does without."""
    p = DCQCN()
    most = last_with_fixed_point(p)
    crossings = []
    for flows in (1, 2, 10, most, 20, 64):
        x = CAPACITY / flows
        growths = [
            target_law(x, x, R, PACKET, p.resting(x, R, PACKET)[1], p.namespace())
            for R in np.geomspace(1e-9, 0.9, 2000).tolist()
        ]
        crossings.append(int(np.sum(np.diff(np.sign(growths)) != 0)))
    refused = 0
    for flows in (most, most + 1, 64):
        try:
            p.equilibrium(Network.dumbbell(CAPACITY, ["4 us"] * flows, packet_size=1000))
        except LinearizationError:
            refused += 1
    _, late, least = swings(p, 20, 4e-6)
    lost = swings(p, 64, 85e-6)[2]
    return Finding(
        claim, Verdict.CONDITIONAL if set(crossings) == {1} and refused == 2 else Verdict.REFUTED,
        f"Their (11) has one solution p* for each number of flows, but from {most + 1} flows on it exceeds p_max: the "
        f"ramp ends there, and no queue marks between {p.p_max:g} and 1. With their parameters there is a unique fixed "
        f"point for up to {most} flows, and none for more: the queue swings around K_max.",
        [
            Measurement("most flows with a fixed point", most, reported="any"),
            Measurement(f"p* with {most} flows", marks_at_rest(p, most), note=f"p_max = {p.p_max:g}"),
            Measurement(f"p* with {most + 1} flows", marks_at_rest(p, most + 1),
                        met=marks_at_rest(p, most + 1) <= p.p_max),
            Measurement("p* with 64 flows", marks_at_rest(p, 64), met=marks_at_rest(p, 64) <= p.p_max,
                        note=f"numbers of solutions of (11) that were met: {sorted(set(crossings))}"),
            Measurement("nonlinear fluid, 20 flows, 4 us: least queue of a cycle that stays", least, "kB",
                        note="around K_max = 200 kB"),
            Measurement("nonlinear fluid, 64 flows, 85 us: least queue", lost, "kB", note="the queue empties"),
        ],
        (), [PRINTED, "C = 40 Gb/s, packets of 1 kB, tau = 50 us, tau' = T = 55 us, F = 5, B = 10 MB, R_AI = 40 Mb/s, "
             "K_min, K_max = 5, 200 kB, p_max = 1 %, g = 1/256: their table 2."],
    )  # fmt: skip


@check("dcqcn-marks", cost=1)
def dcqcn_marks(claim: Claim) -> Finding:
    """The closed form beside the root, where there is a fixed point."""
    p = DCQCN()
    counts = range(1, last_with_fixed_point(p) + 1)
    ratios = {flows: their_marks(p, flows) / marks_at_rest(p, flows) for flows in counts}
    worst = max(ratios, key=lambda flows: abs(ratios[flows] - 1.0))
    good = abs(ratios[worst] - 1.0) < 0.1
    return Finding(
        claim, Verdict.CONFIRMED if good else Verdict.REFUTED,
        f"The closed form is {min(ratios.values()):.3f} to {max(ratios.values()):.3f} times p*: tau R_C p* is no small "
        "number, and (1 - p)^(tau R_C) no straight line; their loop is linearized at this point.",
        [
            Measurement(f"p* with {flows} flows", marks_at_rest(p, flows), reported=their_marks(p, flows),
                        note=f"{ratios[flows] - 1.0:+.1%}", met=abs(ratios[flows] - 1.0) < 0.1)
            for flows in (1, 2, 10, max(counts))
        ],
    )  # fmt: skip


@check("dcqcn-margin", cost=15, main=False)
def dcqcn_margin(claim: Claim) -> Finding:
    """Their margins as printed, the exact loop with certificates, and their nonlinear fluid on both sides."""
    p = DCQCN()
    table = {2: 8.2626, 4: -0.75215, 10: -6.5844, 14: -5.1236}
    measured = [
        Measurement(f"phase margin by their formula, {flows} flows, 50 us", their_margin(p, flows, 50e-6), "degrees",
                    reported=value)
        for flows, value in table.items()
    ]  # fmt: skip
    counts = range(1, last_with_fixed_point(p) + 1)
    found = {flows: proven(printed(p, flows, 50e-6)) for flows in counts}
    stable = [flows for flows in counts if found[flows] is True]
    limits = {flows: critical(p, flows) for flows in counts}
    worst = min(limits, key=lambda flows: limits[flows])
    measured += [
        Measurement("flows with which the exact loop is stable at 50 us", f"{len(stable)} of {len(counts)}",
                    note=f"proven, 1 to {max(counts)} flows", met=len(stable) == 0),
        Measurement(f"least critical delay, {worst} flows", 1e6 * limits[worst], "us"),
        Measurement("critical delay, 10 flows", 1e6 * limits[10], "us"),
        run_of(p, 10, 0.95 * limits[10], "decays"),
        run_of(p, 10, 1.05 * limits[10], "grows"),
    ]  # fmt: skip
    figure = plot.boundary_figure(
        np.array(counts, dtype=float), {"exact": [1e6 * limits[flows] for flows in counts]},
        {"50 us: negative margins are reported for 4 to 20 flows": [50.0] * len(counts)}, None, "flows",
        "critical delay [us]", title="DCQCN's critical delay", log_x=False,
    )  # fmt: skip
    return Finding(
        claim, Verdict.REFUTED if len(stable) == len(counts) else Verdict.CONDITIONAL,
        f"Linearized exactly, their equations are stable at 50 us for every number of flows that has a fixed point "
        f"(1 to {max(counts)}, proven); the least critical delay is {1e6 * limits[worst]:.1f} us, with {worst} flows. "
        "Their margins come out of their own formula, which is of first order in p around a p* that is too large; the "
        "nonlinear fluid agrees with the exact loop on both sides.",
        measured, [Picture.of(figure, "DCQCN's critical delay", "Where the exact loop loses stability.")],
        [PRINTED, "From 15 flows on there is no fixed point (dcqcn-fixed)."],
    )  # fmt: skip


@check("dcqcn-nonmonotone", cost=8, main=False)
def dcqcn_nonmonotone(claim: Claim) -> Finding:
    """Critical delays over the number of flows."""
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
        claim, Verdict.CONFIRMED if between and certified else Verdict.REFUTED,
        "The critical delay falls up to 8 flows and rises again.",
        [Measurement(f"critical delay, {flows} flows", 1e6 * limit, "us", note="proven at 0.1 % on both sides")
         for flows, limit in zip(counts, limits, strict=True)],
        (), [PRINTED],
    )  # fmt: skip


@check("dcqcn-delay", cost=12, main=False)
def dcqcn_delay(claim: Claim) -> Finding:
    """The exact loop and the fluid at both delays, with their ramp and with one that goes on."""
    p = DCQCN()
    longer = replace(p, max_threshold=2_000_000, p_max=slope_of_ramp(p) * 8.0 * (2_000_000 - p.min_threshold))
    most = last_with_fixed_point(p)
    short = [proven(printed(p, flows, 4e-6)) for flows in range(1, most + 1)]
    two, ten, many = (proven(printed(one, flows, 85e-6)) for one, flows in ((p, 2), (p, 10), (longer, 64)))
    cycle = swings(p, 64, 85e-6)
    measured = [
        Measurement("flows with a fixed point that is stable at 4 us", f"{sum(one is True for one in short)} of {most}",
                    note="proven", met=all(one is True for one in short)),
        Measurement("2 flows, 85 us", "stable" if two else "unstable", reported="stable", met=two is True,
                    note=f"critical delay {1e6 * critical(p, 2):.2f} us; by their formula a margin of "
                    f"{their_margin(p, 2, 85e-6):.1f} degrees"),
        Measurement("10 flows, 85 us", "stable" if ten else "unstable", reported="unstable", met=ten is False,
                    note=f"critical delay {1e6 * critical(p, 10):.2f} us"),
        Measurement("64 flows, 85 us, K_max = 200 kB", "no fixed point", reported="stable", met=False,
                    note=f"the fluid's queue falls to {cycle[2]:.0f} kB again and again"),
        Measurement("64 flows, 85 us, the ramp continued to 2 MB", "stable" if many else "unstable", note="proven"),
        run_of(p, 2, 85e-6, "decays"),
        run_of(p, 10, 85e-6, "grows"),
        run_of(longer, 64, 85e-6, "decays"),
        *(packets_of(p, flows, delay) for flows, delay in ((2, 4e-6), (10, 4e-6), (10, 85e-6), (64, 85e-6))),
    ]  # fmt: skip
    holds = all(one is True for one in short) and two is True and ten is False
    return Finding(
        claim, Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        f"Up to {most} flows it is as stated, though 2 flows at 85 us are within 1 % of the limit. 64 flows have no "
        "fixed point with the stated K_max of 200 kB and p_max of 1 %, and empty the queue; they are stable with a "
        "ramp of the same slope that goes on, to 10 % at 2 MB. In packets, whose marks are random, the queue of 10 "
        "flows swings over the whole ramp at 4 us, too: the loop is stable, and so weakly damped that noise fills it.",
        measured, (), [PRINTED, "Packets: marks at random, one notification in tau at most, RTTs of the stated delay."],
    )  # fmt: skip


@check("dcqcn-tuning", cost=5, main=False)
def dcqcn_tuning(claim: Claim) -> Finding:
    """The exact loop at 100 us for each number of flows that has a fixed point."""
    p = DCQCN(rate_ai=10e6, max_threshold=1_000_000)
    most = last_with_fixed_point(p)
    found = {flows: proven(printed(p, flows, 100e-6)) for flows in range(1, most + 1)}
    stable = [flows for flows, value in found.items() if value is True]
    holds = len(stable) == most
    return Finding(
        claim, Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        f"Stable, proven, at 100 us for {'each' if holds else len(stable)} of 1 to {most} flows; with more there is no "
        "fixed point, as p* would exceed p_max, and the margins reported for them are those of a ramp without an end.",
        [
            Measurement("flows with a stable fixed point at 100 us", f"{len(stable)} of {most}", met=holds),
            Measurement("most flows with a fixed point", most, reported=100, met=most >= 100),
        ],
        (), [PRINTED],
    )  # fmt: skip
