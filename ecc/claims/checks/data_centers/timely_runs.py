"""Checks of claims on runs of TIMELY, and on TIMELY with a PI controller at hosts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.checks.data_centers.timely import LINE, MTU, patched_margin, patched_printed
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.fluid import solve_dde
from ecc.models import TIMELY, PatchedTIMELY
from ecc.network.network import Network
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]


def _late(size: int, starts: Sequence[float], protocol: TIMELY | None = None) -> tuple[FloatArray, FloatArray]:
    """Return queue [kB, every 10 us] and rates [shares of C] in the second half of a 0.4 s packet run, RTT 10 us."""
    network = Network.dumbbell(LINE, [10e-6] * len(starts), packet_size=size, starts=list(starts))
    run = packet.simulate(Scenario(network, protocol or TIMELY(), 0.4), sample=1e-5)
    half = len(run.queue) // 2
    return run.queue[half:, 0].to_numpy() / 1e3, run.goodput[half:].mean("time").to_numpy() / LINE


@check("timely-swings", cost=0.5)
def timely_swings(claim: Claim) -> Finding:
    """Measure the queue's standard deviation from 0.2 to 0.3 s and from 0.3 to 0.4 s."""
    measured, holds = [], True
    for flows in (2, 10):
        queue, got = _late(1000, [0.0] * flows)
        middle = len(queue) // 2
        early, late = float(queue[:middle].std()), float(queue[middle:].std())
        holds &= late > 0.9 * early and late > 5.0
        measured.append(
            Measurement(
                f"standard deviation of the queue, {flows} flows, from 0.3 s",
                late,
                "kB",
                note=f"{early:.1f} kB before; goodput {got.sum():.1%}",
                met=late > 0.9 * early,
            )
        )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "The queue swings as much after 0.3 s as before, down to 0, and the link is idle at times.",
        measured,
        (),
        ["10 Gb/s, RTTs of 10 us, packets of 1 kB evenly spaced, the stated parameters."],
    )


@check("timely-bursts", cost=0.5)
def timely_bursts(claim: Claim) -> Finding:
    """Run packets of 16 and 64 kB, each with an ACK."""
    results = {size: _late(size, [0.0, 0.0]) for size in (1000, 16_000, 64_000)}
    measured = [
        Measurement(
            f"goodput of two flows, bursts of {size / 1000:g} kB",
            float(got.sum()),
            "of C",
            note=f"shares {got[0]:.2f} and {got[1]:.2f}; queue {queue.mean():.1f} kB, standard deviation "
            f"{queue.std():.1f} kB",
        )
        for size, (queue, got) in results.items()
    ]
    fair, lost = results[16_000][1], float(results[64_000][1].sum())
    verdict = Verdict.CONFIRMED if float(fair.min() / fair.max()) > 0.95 else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict if lost < 0.5 else Verdict.REFUTED,
        f"With bursts of 64 kB, two flows use {lost:.0%} of the link: one burst takes 51 us, more than T_low, and "
        f"steps of 10 Mb/s recover slowly. With bursts of 16 kB they use {fair.sum():.0%} and share it as "
        f"{fair.max():.2f} to {fair.min():.2f}, with a queue that varies by less than a burst.",
        measured,
        (),
        ["Packets of the stated size, 10 Gb/s, RTTs of 10 us; flows start with 10 Mb/s; 0.2 to 0.4 s."],
    )


def _fluid(rates: Sequence[float], starts: Sequence[float], end: float = 0.1, step: float = 1e-6) -> FloatArray:
    """Return mean rates in the second half [shares of C] of the paper's fluid (20) to (24), by Euler's method.

    Packets have 1 kB, the propagation delay is 4 us, and the minimum rate is 1 Mb/s.
    """
    p, n, n_steps = TIMELY(), len(rates), int(end / step)
    queue, x, g = np.zeros(n_steps + 1), np.array(rates), np.zeros(n)
    low, high, sums = LINE * p.low, LINE * p.high, np.zeros(n)
    for k in range(n_steps):
        sending = k * step >= np.array(starts)
        delay = queue[k] / LINE + MTU / LINE + 4e-6
        update = np.maximum(MTU / x, p.interval)
        seen = queue[max(0, k - round(delay / step))]
        before = queue[np.maximum(0, k - np.rint((delay + update) / step).astype(int))]
        if seen < low:
            move = np.full(n, p.delta)
        elif seen > high:
            move = -p.beta * (1.0 - high / seen) * x
        else:
            move = np.where(g <= 0.0, p.delta, -p.beta * g * x)
        queue[k + 1] = max(0.0, queue[k] + ((x * sending).sum() - LINE) * step)
        g = g + sending * step * p.alpha / update * ((seen - before) / (LINE * p.interval) - g)
        x = np.maximum(x + sending * step * move / update, 1e6)
        if 2 * k >= n_steps:
            sums += x * sending
    shares: FloatArray = sums / (n_steps - n_steps // 2) / LINE
    return shares


@check("timely-starts", cost=6, main=False)
def timely_starts(claim: Claim) -> Finding:
    """Run the paper's fluid from 7 and 3 Gb/s and with a flow 10 ms late, and packets with different start times."""
    measured, ratios = [], []
    runs = {
        "fluid, 7 and 3 Gb/s at first": _fluid([7e9, 3e9], [0.0, 0.0]),
        "fluid, 5 Gb/s each, one 10 ms late": _fluid([5e9, 5e9], [0.0, 0.01]),
        "packets, one 3 ms late": _late(1000, [0.0, 0.003])[1],
        "packets, one 10 ms late": _late(1000, [0.0, 0.01])[1],
        "packets, one 100 ms late": _late(1000, [0.0, 0.1])[1],
    }
    for name, shares in runs.items():
        ratio = float(shares.min() / shares.max())
        ratios.append(ratio)
        measured.append(Measurement(name, ratio, note=f"{shares[0]:.3f} and {shares[1]:.3f} of C", met=ratio < 0.9))
    mixed = Verdict.CONFIRMED if min(ratios) < 0.8 else Verdict.CONDITIONAL
    return Finding(
        claim,
        Verdict.REFUTED if min(ratios) > 0.95 else mixed,
        f"The slower flow has at least {min(ratios):.3f} of the mean rate of the other, both from 7 and 3 Gb/s in the "
        "fluid as printed, and with a later start in fluid and packet runs: all flows see the same queue and cut in "
        "proportion to their rates.",
        measured,
        (),
        [
            "10 Gb/s, packets of 1 kB evenly spaced; fluid: 4 us of propagation, 0.1 s, the second half; "
            "packets: RTTs of "
            "10 us, flows start with 10 Mb/s, 0.4 s, the second half. Hyper increase in packet runs only."
        ],
    )


@check("patched-delays", cost=1)
def patched_delays(claim: Claim) -> Finding:
    """Compare two tables with the formula at a quarter of the slope, and check the printed loop with certificates."""
    tables = {
        50e-6: {2: -7.0458, 4: 1.6133, 18: 39.944, 36: 3.5753, 38: -1.1109, 50: -26.915},
        100e-6: {2: -12.138, 6: 6.8178, 18: 36.966, 34: 4.1775, 36: -0.68938, 50: -31.489},
    }
    measured, near, ranges = [], True, {}
    for delay, table in tables.items():
        us = f"{1e6 * delay:g} us"
        for flows, value in table.items():
            margin = patched_margin(flows, 0.5, delay)
            near &= abs(margin - value) < 1.0
            measured.append(
                Measurement(
                    f"phase margin with w = g/2 + 1/2, {flows} flows, {us}",
                    margin,
                    "degrees",
                    reported=value,
                    note=f"with w = 2 g + 1/2 {patched_margin(flows, 2.0, delay):.1f}",
                )
            )
        stable = [flows for flows in range(1, 41) if proven(patched_printed(flows, delay))]
        ranges[us] = (min(stable), max(stable))
        measured.append(
            Measurement(
                f"stable flows as printed, {us}",
                f"{min(stable)} to {max(stable)}",
                met=max(stable) >= 34,
                reported=f"up to {36 if delay < 60e-6 else 34}",
                note="proven",
            )
        )
    return Finding(
        claim,
        Verdict.REFUTED if all(high < 34 for _, high in ranges.values()) else Verdict.CONDITIONAL,
        "As printed, the loop is provably stable for "
        + " and for ".join(f"{low} to {high} flows with {us}" for us, (low, high) in ranges.items())
        + ". The reported margins are those of a quarter of the slope of w"
        + (", within a degree." if near else ", roughly."),
        measured,
        (),
        ["The setup of patched-stable."],
    )


# ---- a PI controller at hosts ------------------------------------------------------------------------------

SEG_PI, STEP, REFERENCE_PI = 512e3, 10e6, 275e-6 * LINE
"""Parameters of `timely_pi.m`: segments of 64 kB [bit], delta [bit/s], and q_ref between C T_low and C T_high [bit]."""
B_PI = 1.816e-9 / (10.0 * SEG_PI / LINE)
A_PI = 1.0005 * B_PI
"""Gains [1/(bit s)]."""


def _hosts_over_pi(rates: Sequence[float], marks: Sequence[float], end: float) -> tuple[FloatArray, float]:
    """Return final rates and queue [bit/s, bit] of the paper's fluid: R' = (delta - p R/2) R/Seg, p' by queues seen."""
    n = len(rates)

    def delays(t: float, y: FloatArray) -> list[float]:
        seen = max(float(y[-1]), 0.0) / LINE + MTU / LINE + 4e-6
        return [seen, *(seen + SEG_PI / max(float(x), 1e6) for x in y[:n])]

    def slope(t: float, y: FloatArray, lag: FloatArray) -> FloatArray:
        x, p = np.maximum(y[:n], 1e6), y[n : 2 * n]
        moves = (STEP - 0.5 * p * x) * x / SEG_PI
        controls = A_PI * (lag[0, -1] - REFERENCE_PI) - B_PI * (lag[1:, -1] - REFERENCE_PI)
        fills = x.sum() - LINE
        return np.concatenate(
            [np.where((x >= LINE) & (moves > 0.0), 0.0, moves), controls, [fills if y[-1] > 0.0 else max(fills, 0.0)]]
        )

    solution = solve_dde(
        slope,
        (0.0, end),
        np.array([*rates, *marks, 0.0]),
        delays,
        rtol=1e-4,
        max_step=2e-3,
        jit=False,
        atol=np.array([1e4] * n + [1e-8] * n + [1e2]),
    )
    return solution.y[:n, -1], float(solution.y[-1, -1])


def _free_directions(flows: int) -> int:
    """Return the number of zero roots of the loop at equal rates; p depends only on the queue, the same for all."""
    x, n = LINE / flows, flows
    p = 2.0 * STEP / x
    at_rest = np.zeros((2 * n + 1, 2 * n + 1))
    at_rest[:n, :n] = -0.5 * p * x / SEG_PI * np.eye(n)
    at_rest[:n, n : 2 * n] = -0.5 * x * x / SEG_PI * np.eye(n)
    at_rest[n : 2 * n, -1] = A_PI - B_PI
    at_rest[-1, :n] = 1.0
    scale = np.array([x] * n + [p] * n + [1e6])
    return 2 * n + 1 - int(np.linalg.matrix_rank(at_rest * scale / scale[:, None]))


@check("timely-pi", cost=5, main=False)
def timely_pi(claim: Claim) -> Finding:
    """Run the paper's fluid from two pairs of p, and count the roots at 0 of its linearization."""
    equal, queue = _hosts_over_pi([7e9, 3e9], [0.004, 0.004], 4.0)
    apart, same = _hosts_over_pi([7e9, 3e9], [0.005, 0.002], 4.0)
    free = {flows: _free_directions(flows) for flows in (2, 10, 40)}
    measured = [
        Measurement(
            "queue, p = 0.005 and 0.002 at first",
            same / 8e3,
            "kB",
            reported=300.0,
            note=f"q_ref of the paper's program is {REFERENCE_PI / 8e3:.2f} kB",
        ),
        Measurement(
            "rates, p = 0.005 and 0.002 at first",
            f"{apart[0] / 1e9:.2f} and {apart[1] / 1e9:.2f}",
            "Gb/s",
            reported="not fair",
            met=float(apart.min() / apart.max()) < 0.9,
        ),
        Measurement(
            "rates, p = 0.004 for both",
            f"{equal[0] / 1e9:.2f} and {equal[1] / 1e9:.2f}",
            "Gb/s",
            note=f"queue {queue / 8e3:.2f} kB",
        ),
        *(Measurement(f"roots at 0, {flows} flows", count, met=count == flows - 1) for flows, count in free.items()),
    ]
    holds = float(apart.min() / apart.max()) < 0.9 and all(count == flows - 1 for flows, count in free.items())
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "The queue converges to its reference, but the rates depend on the initial values of p: one queue moves all p "
        "alike, so their differences remain, and N - 1 roots are 0. Flows with equal initial p have nearly equal "
        "rates.",
        measured,
        (),
        [
            "timely_pi.m: 64 kB segments, 4 us of propagation, a = 1.0005 b; two flows from 7 and 3 Gb/s and an empty "
            "queue, 4 s. Its reference is the mean of C T_low and C T_high."
        ],
    )


@check("fair-or-fixed", cost=0.5)
def fair_or_fixed(claim: Claim) -> Finding:
    """Check both laws of the paper: an equilibrium with a growing queue, or a fixed queue with N - 1 zero roots."""
    queues = {}
    for flows in (2, 10, 40):
        point = PatchedTIMELY().equilibrium(Network.dumbbell(LINE, ["1 us"] * flows, packet_size=16_000))
        assert point.queue is not None
        queues[flows] = float(point.queue[0]) / 8e3
    free = {flows: _free_directions(flows) for flows in queues}
    holds = queues[2] < queues[10] < queues[40] and all(count == flows - 1 for flows, count in free.items())
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "Both laws of the paper are as stated. Patched TIMELY has one equilibrium, with equal rates and a queue that "
        "grows with the number of flows. With PI controllers at hosts the queue is fixed, and N - 1 directions are "
        "free.",
        [
            *(Measurement(f"patched TIMELY, {flows} flows: queue", queue, "kB") for flows, queue in queues.items()),
            *(
                Measurement(f"PI at hosts, {flows} flows: roots at 0", count, met=count == flows - 1)
                for flows, count in free.items()
            ),
        ],
        (),
        ["Checked for these two laws, not for all laws covered by the theorem; it does not cover limit cycles."],
    )
