"""Checks of claims on TIMELY and patched TIMELY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from ecc import fluid, packet, plot
from ecc.claims.checks.data_centers.dcqcn_loop import CAPACITY
from ecc.claims.checks.data_centers.margins import proven, smallest_margin
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import DCQCN, TIMELY, PatchedTIMELY
from ecc.network.impairments import Jitter
from ecc.network.network import Network
from ecc.scenario import Scenario

LINE, SEG, MTU = 10e9, 128e3, 8e3
"""Line rate [bit/s], segment size [bit] and packet size [bit] of ECN-DELAY; segments have 16 kB."""
QUEUES = (60e-6, 100e-6, 300e-6, 490e-6)
"""RTTs between T_low and T_high [s]."""


def _moves(increases_at_0: bool, rtts: Sequence[float] = QUEUES) -> list[float]:
    """Return the changes of rates by TIMELY's law with g = 0, in units of delta."""
    p = TIMELY().namespace()
    rates = [share * LINE for share in (0.01, 0.3, 0.7, 0.99)]
    gradient = (
        0.0 if increases_at_0 else 1e-300
    )  # with "g < 0" instead of "g <= 0", g = 0 counts as a positive gradient
    return [(TIMELY.source_law(x, D, gradient, 0.0, p) - x) / p.delta for x in rates for D in rtts]


@check("timely-none", cost=0.1)
def timely_none(claim: Claim) -> Finding:
    """Evaluate the law for a constant queue, which has no gradient."""
    moves = np.array(_moves(True))
    early, late = np.array(_moves(True, (20e-6, 49e-6))), np.array(_moves(True, (501e-6, 1e-3)))
    holds = bool(np.all(np.abs(moves - 1.0) < 1e-6) and np.all(early > 0.5) and np.all(late < 0.0))
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "A constant queue has g = 0, and every rate then grows by delta per update. Below T_low every rate grows, and "
        "above T_high every rate falls, so neither rates nor a queue can be constant.",
        [
            Measurement("minimum change at g = 0", float(moves.min()), "delta", note="16 pairs of rate and RTT"),
            Measurement("maximum change above T_high", float(late.max()), "delta"),
        ],
    )


@check("timely-many", cost=0.1)
def timely_many(claim: Claim) -> Finding:
    """Evaluate the law with the other comparison."""
    moves = np.array(_moves(False))
    holds = bool(np.all(np.abs(moves) < 1e-6))
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "With g < 0 instead of g <= 0, every rate is constant if the queue is constant between the thresholds. All "
        "rates "
        "that add up to C are fixed points, with any such queue.",
        [Measurement("maximum change at g = 0", float(np.abs(moves).max()), "delta", note="16 pairs of rate and RTT")],
    )


def patched_printed(flows: int, propagation: float, slope: float = 2.0) -> DelaySystem:
    """Return the loop of patched TIMELY as ECN-DELAY prints it, with w = slope g + 1/2; states x, g, queue.

    Parameters
    ----------
    flows : int
    propagation : float, s
    slope : float, optional
    """
    p = PatchedTIMELY().namespace()
    reference = LINE * p.low
    x, excess = LINE / flows, flows * p.delta / (p.beta * LINE)  # q*/q' - 1
    update = max(SEG / x, p.interval)
    delay = (1.0 + excess) * reference / LINE + MTU / LINE + propagation
    now, late, later = (np.zeros((3, 3)) for _ in range(3))
    now[0] = -0.5 * p.beta * excess / update, -slope * (p.delta + p.beta * x * excess) / update, 0.0
    now[1, 1], now[2, 0] = -p.alpha / update, flows
    late[0, 2], late[1, 2] = -0.5 * p.beta * x / reference / update, p.alpha / update / (LINE * p.interval)
    later[1, 2] = -late[1, 2]
    scale = np.array([x, 1.0, 1e6])
    return DelaySystem([matrix * scale / scale[:, None] for matrix in (now, late, later)], [0.0, delay, delay + update])


def patched_margin(flows: int, slope: float, propagation: float = 0.0) -> float:
    """Return the phase margin, with w = slope g + 1/2, of the loop opened at the queue seen by a host [degrees].

    Parameters
    ----------
    flows : int
    slope : float
    propagation : float, s, optional
    """
    p = PatchedTIMELY().namespace()
    x, excess = LINE / flows, flows * p.delta / (p.beta * LINE)
    update = SEG / x
    delay = (1.0 + excess) * p.low + MTU / LINE + propagation

    def loop(w: Any) -> Any:
        s = 1j * w
        steep = 2.0 * x * p.delta * p.alpha * slope / (s * p.interval * (SEG * s + p.alpha * x))
        level = x * x * 0.5 * p.beta / (LINE * p.low) * flows / s
        seen = (steep + level) - steep * np.exp(-s * update)
        return seen * np.exp(-s * delay) / (s * SEG + 0.5 * p.delta)

    return smallest_margin(loop)


@check("patched-fixed", cost=1)
def patched_fixed(claim: Claim) -> Finding:
    """Compute the fixed point over the number of flows, and the maximum number with a fixed point."""
    protocol, p = PatchedTIMELY(), PatchedTIMELY().namespace()
    max_flows = int(p.beta * LINE / p.delta * (p.high / p.low - 1.0) + 1e-9)
    measured = []
    for flows in (2, 20, max_flows):
        network = Network.dumbbell(LINE, ["1 us"] * flows, packet_size=1000)
        point = protocol.equilibrium(network)
        assert point.queue is not None
        printed = LINE * p.low * (1.0 + flows * p.delta / (p.beta * LINE))
        queue = float(point.queue[0]) + 1e-6 * LINE  # the paper's thresholds exclude the propagation delay
        measured.append(
            Measurement(
                f"q* with {flows} flows",
                queue / 8e3,
                "kB",
                reported=printed / 8e3,
                met=abs(queue / printed - 1.0) < 1e-6,
            )
        )
    unstable = proven(patched_printed(30, 0.0)) is False
    holds = all(measurement.met for measurement in measured)
    return Finding(
        claim,
        Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        f"The fixed point is as stated up to {max_flows} flows. With more flows it would be above C T_high, where "
        "rates "
        "only fall, so none exists. With 20 flows or more it is unstable (patched-stable).",
        [
            *measured,
            Measurement("maximum number of flows with a fixed point", max_flows, reported="any"),
            Measurement("30 flows", "unstable" if unstable else "stable", reported="stable", met=not unstable),
        ],
    )


@check("patched-stable", cost=4)
def patched_stable(claim: Claim) -> Finding:
    """Check margins with the slope of the paper's program, the printed loop with certificates, and packet runs."""
    delays = (0.0, 50e-6, 100e-6)

    def ranges(slope: float) -> list[tuple[int, int]]:
        ends = []
        for delay in delays:
            stable = [flows for flows in range(1, 61) if patched_printed(flows, delay, slope).is_stable]
            ends.append((min(stable), max(stable)))
        return ends

    printed, program = ranges(2.0), ranges(0.5)
    certified = all(
        proven(patched_printed(flows, delay)) is inside
        for delay, (low, high) in zip(delays, printed, strict=True)
        for flows, inside in ((low, True), (high, True), (high + 1, False), (40, False))
    )
    table: Mapping[int, float] = {2: -1.9535, 18: 42.921, 40: -1.3105}
    measured = [
        Measurement(
            f"phase margin with w = g/2 + 1/2, {flows} flows",
            patched_margin(flows, 0.5),
            "degrees",
            reported=value,
            note=f"with w = 2 g + 1/2 {patched_margin(flows, 2.0):.1f}",
        )
        for flows, value in table.items()
    ]
    for delay, (low, high), (low_program, high_program) in zip(delays, printed, program, strict=True):
        measured.append(
            Measurement(
                f"stable flows, propagation delay {1e6 * delay:g} us",
                f"{low} to {high}",
                reported="up to 40",
                met=high >= 40,
                note=f"proven at the ends; with w = g/2 + 1/2 {low_program} to {high_program}",
            )
        )
    for flows in (10, 18, 30, 40):
        measured.append(_patched_packets(flows))
    counts = np.arange(2.0, 51.0, 4.0)
    curves = {
        f"w = {name} + 1/2": [patched_margin(int(flows), slope) for flows in counts]
        for name, slope in (("2 g (as printed)", 2.0), ("g/2", 0.5))
    }
    figure = plot.boundary_figure(
        counts,
        curves,
        None,
        {"reported": (list(table), list(table.values()), [0.0] * len(table))},
        "flows",
        "phase margin [degrees]",
        title="Phase margin of patched TIMELY",
        log_x=False,
        log_y=False,
    )
    title = "Phase margin of patched TIMELY"
    picture = Picture.of(figure, title, "Without propagation delay; the loop is opened at the queue seen by a host.")
    return Finding(
        claim,
        Verdict.REFUTED if certified and printed[0][1] < 40 else Verdict.CONDITIONAL,
        f"As printed, with w = 2 g + 1/2, the loop is provably stable for {printed[0][0]} to {printed[0][1]} flows "
        f"without propagation delay and for {printed[2][0]} to {printed[2][1]} flows with 100 us. The reported margins "
        "are those of w = g/2 + 1/2, a quarter of the slope, within a tenth of a degree; they are also negative for 2 "
        "flows.",
        measured,
        [picture],
        [
            "C = 10 Gb/s, segments of 16 kB, beta = 0.008, delta = 10 Mb/s, alpha = 0.875, D_min = 20 us, T_low "
            "= 50 us, "
            "T_high = 500 us: the fluid as printed, delays q*/C + MTU/C + propagation. Packet runs: 16 kB packets, RTT "
            "1 us, flows start at random times within 2 ms; one packet is 16 kB of queue."
        ],
    )


def _patched_packets(flows: int) -> Measurement:
    """Return the standard deviation of the queue from 0.2 s to 0.4 s."""
    starts: Sequence[float] = np.random.default_rng(1).uniform(0.0, 2e-3, flows).tolist()
    network = Network.dumbbell(LINE, ["1 us"] * flows, packet_size=16_000, starts=starts)
    run = packet.simulate(Scenario(network, PatchedTIMELY(), 0.4), sample=1e-5)
    queue = run.queue[len(run.queue) // 2 :, 0].to_numpy() / 1e3
    return Measurement(
        f"packets, {flows} flows: standard deviation of the queue",
        float(queue.std()),
        "kB",
        note=f"{queue.min():.0f} to {queue.max():.0f} kB",
    )


@check("patched-pace", cost=2, main=False)
def patched_pace(claim: Claim) -> Finding:
    """Compute the root of differences between flows, and the convergence of rates in the fluid."""
    p = PatchedTIMELY().namespace()
    stated = p.delta / (2.0 * SEG)
    network = Network.dumbbell(LINE, ["1 us"] * 2, packet_size=16_000)
    model = linearize(PatchedTIMELY(), network)
    assert isinstance(model, DelaySystem)
    roots = np.array(model.roots(8))
    root = float(-roots[np.abs(roots + stated).argmin()].real)
    run = fluid.simulate(Scenario(network, PatchedTIMELY(), 0.1), sample=1e-3, start=[0.7 * LINE, 0.3 * LINE])
    rates = run.rate[10:].to_numpy()
    gap = np.abs(rates[:, 0] - rates[:, 1])
    pace = float(-np.polyfit(1e-3 * np.arange(len(gap)), np.log(gap), 1)[0])
    near = abs(root / stated - 1.0) < 0.02 and abs(pace / stated - 1.0) < 0.05
    return Finding(
        claim,
        Verdict.CONFIRMED if near else Verdict.REFUTED,
        f"Differences decay at {root:.1f} 1/s in the linear model, and rates of 7 and 3 Gb/s converge at {pace:.1f} "
        "1/s "
        "in the fluid.",
        [
            Measurement("root of differences", root, "1/s", reported=stated, met=near),
            Measurement("decay in the fluid, from 7 and 3 Gb/s", pace, "1/s", reported=stated, met=near),
            Measurement("time from one flow at C to a tenth of C/N", 1e3 * log(20.0) / root, "ms", reported=76.7),
        ],
        (),
        ["C = 10 Gb/s, 16 kB segments, RTT of 1 us without queueing; hosts compare the total RTT with T_low."],
    )


@check("marks-jitter", cost=4, main=False)
def marks_jitter(claim: Claim) -> Finding:
    """Run packets of both protocols with and without random delays of ACKs and notifications."""
    measured, lost = [], []
    cases: tuple[tuple[Any, float, int, float], ...] = (
        (DCQCN(), CAPACITY, 1000, 10e-6),
        (PatchedTIMELY(), LINE, 16_000, 10e-6),
    )
    for protocol, capacity, size, rtt in cases:
        used = []
        for jitter in (0.0, 100e-6):
            noise = [Jitter((0.0, jitter), acks_of="all")] if jitter else []
            network = Network.dumbbell(capacity, [rtt] * 2, packet_size=size)
            run = packet.simulate(Scenario(network, protocol, 0.2, impairments=noise), sample=1e-5)
            half = len(run.queue) // 2
            queue = run.queue[half:, 0].to_numpy() * 8e6 / capacity
            used.append(float(run.goodput[half:].sum("flow").mean()) / capacity)
            measured.append(
                Measurement(
                    f"{type(protocol).__name__}, jitter up to {1e6 * jitter:g} us: goodput",
                    used[-1],
                    note=f"queue {queue.mean():.1f} us, standard deviation {queue.std():.1f} us",
                )
            )
        lost.append(used[0] - used[1])
    holds = lost[0] < 0.02 and lost[1] > 0.1
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Jitter reduces the goodput of two flows of DCQCN by {lost[0]:.1%}, and of two flows of patched TIMELY by "
        f"{lost[1]:.0%}: TIMELY mistakes noise for a queue.",
        measured,
        (),
        ["Packet runs, RTTs of 10 us, independent random delays of ACKs and notifications, in order."],
    )
