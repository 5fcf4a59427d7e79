"""Checks of claims on transports of data centers: DCTCP, DCQCN, TIMELY and patched TIMELY."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import degrees, exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc import fluid, packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.closed_loop import linearize
from ecc.errors import LinearizationError
from ecc.fluid import solve_dde
from ecc.impairments import Jitter
from ecc.laws.arguments import law_arguments
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem
from ecc.models import DCQCN, DCTCP, TIMELY, PatchedTIMELY
from ecc.models.dcqcn import alpha_law, target_law
from ecc.network import Network
from ecc.queues import StepMarking
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]

# ---- DCTCP -------------------------------------------------------------------------------------------------

SEGMENT, DCTCP_CAPACITY, DCTCP_RTT, THRESHOLD = 1500, 10e9, 100e-6, 40.0
PIPE = DCTCP_CAPACITY * DCTCP_RTT / (8.0 * SEGMENT)
"""Bandwidth-delay product [packets]."""


@lru_cache
def _sawtooth(flows: int, threshold: float) -> tuple[float, float, float]:
    """Least and largest queue of the second half of 0.15 s [packets], and the share of the capacity that is used."""
    starts = [3e-5 * k for k in range(flows)]
    network = Network.dumbbell(DCTCP_CAPACITY, [DCTCP_RTT] * flows, packet_size=SEGMENT, starts=starts)
    pair = {"flows": DCTCP(initial=10.0), "links": StepMarking(threshold=threshold, packet_size=SEGMENT)}
    run = packet.simulate(Scenario(network, pair, 0.15), sample=5e-6)
    half = len(run.queue) // 2
    queue = run.queue[half:, 0].to_numpy() / SEGMENT
    return float(queue.min()), float(queue.max()), float(run.goodput[half:].sum("flow").mean()) / DCTCP_CAPACITY


@check("dctcp-sawtooth", cost=4)
def dctcp_sawtooth(claim: Claim) -> Finding:
    """Swing and maximum of the queue in packet runs."""
    measured, off = [], {}
    for flows in (1, 2, 10, 40):
        least, largest, _ = _sawtooth(flows, THRESHOLD)
        swing = 0.5 * sqrt(2.0 * flows * (PIPE + THRESHOLD))
        off[flows] = (largest - least) / swing - 1.0
        measured += [
            Measurement(f"swing of the queue, {flows} flows", largest - least, "packets", reported=swing,
                        note=f"{off[flows]:+.0%}", met=abs(off[flows]) < 0.1),
            Measurement(f"largest queue, {flows} flows", largest, "packets", reported=THRESHOLD + flows,
                        met=abs(largest - THRESHOLD - flows) <= 2.0),
        ]  # fmt: skip
    good = [flows for flows, value in off.items() if abs(value) < 0.1]
    verdict = Verdict.CONFIRMED if len(good) == len(off) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    return Finding(
        claim, verdict,
        f"Packets swing as stated with {', '.join(map(str, good))} flows; with 40 the queue swings {off[40]:+.0%} of "
        "what is stated: windows of a few packets change in whole packets. The largest queue is K + N to two packets.",
        measured, (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, K = 40, g = 1/16; flows start 30 us apart; 0.15 s, the second half."],
    )  # fmt: skip


@check("dctcp-threshold", cost=2)
def dctcp_threshold(claim: Claim) -> Finding:
    """Least queue and goodput of packet runs below and above the threshold."""
    measured, holds = [], True
    for flows in (1, 2):
        for share in (0.3, 0.6, 1.05, 2.0):
            least, _, used = _sawtooth(flows, share * PIPE / 7.0)
            holds &= share < 1.0 or least > 0.0
            measured.append(
                Measurement(f"least queue, {flows} flows, K = {share:g} C RTT/7", least, "packets",
                            note=f"{used:.2%} of the capacity", met=least > 0.0 if share > 1.0 else None)
            )  # fmt: skip
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "Above the threshold the queue of one and of two flows never empties; it does so at 0.3 of it and not yet at "
        "0.6: the rule is sufficient, not sharp."
        if holds else "The queue empties above the threshold.",
        measured, (), ["10 Gb/s, RTT 100 us, 1500-byte packets, g = 1/16; 0.15 s, the second half."],
    )  # fmt: skip


# ---- DCQCN -------------------------------------------------------------------------------------------------

CAPACITY, PACKET = 40e9, 8000.0
"""Bit/s and bit, of ECN-DELAY."""
PRINTED = (
    "Their fluid as printed, (3) to (7): equal flows, marks and the rate beside them delayed by a constant, the queue "
    "in one place; linearized exactly, each verdict proven by a certificate."
)


def _marks(p: DCQCN, flows: int) -> float:
    """p* at which equal flows rest, were marks not limited by a ramp: their (11)."""
    x, laws = CAPACITY / flows, p.namespace()

    def growth(log_marks: float) -> float:
        marks = exp(log_marks)
        return target_law(x, x, marks, PACKET, p.resting(x, marks, PACKET)[1], laws)

    return exp(float(brentq(growth, log(1e-9), log(0.9), xtol=1e-14)))


def _ramp(p: DCQCN) -> float:
    """Slope of the marks [1/bit]."""
    return p.p_max / (8.0 * (p.max_threshold - p.min_threshold))


def _printed(p: DCQCN, flows: int, delay: float) -> DelaySystem:
    """Their loop around the fixed point, on the ramp or on what would continue it; states x, alpha, target, queue."""
    x, marks = CAPACITY / flows, _marks(p, flows)
    alpha, target = p.resting(x, marks, PACKET)
    at: dict[str, Any] = {
        "x": x, "x_rtt": x, "R": marks, "s": PACKET, "alpha": alpha, "target": target, "p": p.namespace()
    }  # fmt: skip
    now, late = np.zeros((4, 4)), np.zeros((4, 4))
    laws: tuple[Callable[..., float], ...] = (p.source_law, alpha_law, target_law)
    for row, law in enumerate(laws):
        names = law_arguments(law)
        g = gradient(law, {name: at[name] for name in names}, [name for name in names if name not in ("s", "p")])
        now[row, :3] = g.get("x", 0.0), g["alpha"] if "alpha" in g else 0.0, g.get("target", 0.0)
        late[row, 0], late[row, 3] = g["x_rtt"], g["R"] * _ramp(p)
    now[3, 0] = flows
    scale = np.array([x, 1.0, x, 1e6])
    return DelaySystem([matrix * scale / scale[:, None] for matrix in (now, late)], [0.0, delay])


def _critical(p: DCQCN, flows: int) -> float:
    """The delay at which the loop loses stability, to a millionth [s]: it is stable at all shorter ones tried."""
    low, high = 0.0, 10e-6
    while _printed(p, flows, high).is_stable:
        low, high = high, 1.25 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _printed(p, flows, middle).is_stable else (low, middle)
    return low


def _proven(system: DelaySystem) -> bool | None:
    return system.certify().stable


def _their_margin(p: DCQCN, flows: int, delay: float) -> float:
    """Phase margin by their loop: p* by (14), and slopes to first order in p, as in their appendix A [degrees]."""
    C, R_AI = CAPACITY / PACKET, p.rate_ai / PACKET
    B, T, F, tau, g, N = 8.0 * p.byte_counter / PACKET, p.increase_interval, p.fast_recovery, p.interval, p.g, flows
    R = C / N
    A = 1.0 / B + 1.0 / (T * R)
    marks = _their_marks(p, flows)
    ends = [marks * (1 - marks) ** (F * n) / ((1 - marks) ** -n - 1) for n in (B, T * R)]
    R_T = R * (1.0 + sum(ends) * tau * R_AI / (1.0 - (1.0 - marks) ** (tau * R)))
    alpha = 1.0 - (1.0 - marks) ** (p.alpha_interval * R)
    ramp, h = N * _ramp(p) * PACKET, 0.5 + 0.25 * A
    k = 0.5 * A * R - h * marks * R

    def loop(w: float) -> complex:
        s = 1j * w
        low, lag = N * s + g * C, s + marks * R
        late = (
            low * lag * ((-0.5 * R * R * alpha - h * R * (R_T - R)) * ramp
                         + (-0.5 * marks * R * alpha - 0.5 * A * R + h * marks * R) * s)
            - lag * 0.5 * marks * R * R * g * C * ramp
            + low * k * (s * (marks * (R - R_T) + A * R_AI - (1 + 2 * F + 0.5 * A) * R_AI * marks)
                         + (R * (R - R_T) - (1 + 2 * F + 0.5 * A) * R_AI * R) * ramp)
        )  # fmt: skip
        own = -0.5 * marks * R * alpha + 0.5 * A * (R_T - R) + h * marks * (R - R_T)
        now = s * low * (-lag * s + lag * own + k * (marks * R + A * R_AI))
        return complex(late / now * np.exp(-s * delay))

    return _least_margin(loop)


def _least_margin(loop: Callable[[float], complex]) -> float:
    """The phase margin nearest to 0 of a scalar loop over its crossings of 1 [degrees]."""
    w = np.geomspace(1.0, 1e7, 20_001)
    excess = np.array([abs(loop(float(one))) - 1.0 for one in w])
    found = []
    for k in np.flatnonzero(excess[:-1] * excess[1:] < 0.0):
        at = float(brentq(lambda v: abs(loop(v)) - 1.0, w[k], w[k + 1]))
        found.append((degrees(np.angle(loop(at))) % 360.0) - 180.0)
    return min(found, key=abs)


def _their_marks(p: DCQCN, flows: int) -> float:
    """Their (14), in packets."""
    x, B = CAPACITY / (flows * PACKET), 8.0 * p.byte_counter / PACKET
    first = p.rate_ai / PACKET / (p.alpha_interval * x**2)
    return float(np.cbrt(first * (1.0 / B + 1.0 / (p.increase_interval * x)) ** 2))


@lru_cache
def _swings(p: DCQCN, flows: int, delay: float, end: float = 0.05) -> tuple[float, float, float]:
    """Their nonlinear fluid from a queue 1 % off: largest deviation early and late [share], least queue late [kB]."""
    laws, x = p.namespace(), CAPACITY / flows
    marks = _marks(p, flows)
    alpha, target = p.resting(x, marks, PACKET)
    rest = 8.0 * p.min_threshold + marks / _ramp(p)

    def slope(t: float, y: FloatArray, lag: FloatArray) -> FloatArray:
        x, alpha, target, queue = y
        r, R = lag[0][0], p.router_law(lag[0][3], laws)
        fills = flows * x - CAPACITY
        return np.array([
            p.source_law(x, r, R, PACKET, alpha, target, laws), alpha_law(r, R, PACKET, alpha, laws),
            target_law(x, r, R, PACKET, target, laws), 0.0 if queue <= 0.0 and fills < 0.0 else fills,
        ])  # fmt: skip

    found = solve_dde(
        slope, (0.0, end), np.array([x, alpha, target, 1.01 * rest]), [delay], t_eval=np.arange(0.0, end, 1e-5),
        rtol=1e-6, atol=np.array([1e3, 1e-9, 1e3, 1.0]), jit=False,
    )  # fmt: skip
    queue = found.y[3]
    off = np.abs(queue / rest - 1.0)
    fifth = len(off) // 5
    return float(off[:fifth].max()), float(off[-fifth:].max()), float(max(0.0, queue[-fifth:].min())) / 8000.0


def _run_of(p: DCQCN, flows: int, delay: float, expected: str) -> Measurement:
    early, late, _ = _swings(p, flows, delay)
    found = "grows" if late > early else "decays"
    return Measurement(
        f"nonlinear fluid, {flows} flows, {1e6 * delay:g} us", found, met=found == expected,
        note=f"a queue 1 % off is {early:.2%} off in the first fifth of 50 ms, {late:.2%} in the last",
    )  # fmt: skip


def _packets_of(p: DCQCN, flows: int, rtt: float) -> Measurement:
    """The queue of packets from 0.1 s to 0.2 s."""
    network = Network.dumbbell(CAPACITY, [rtt] * flows, packet_size=1000)
    run = packet.simulate(Scenario(network, p, 0.2), sample=1e-5)
    queue = run.queue[len(run.queue) // 2 :, 0].to_numpy() / 1e3
    return Measurement(
        f"packets, {flows} flows, {1e6 * rtt:g} us: standard deviation of the queue", float(queue.std()), "kB",
        note=f"mean {queue.mean():.0f} kB, from {queue.min():.0f} to {queue.max():.0f} kB",
    )  # fmt: skip


def _last_with_fixed_point(p: DCQCN) -> int:
    """The most flows that have a fixed point: with more, marks would have to be between p_max and 1."""
    flows = 1
    while _marks(p, flows + 1) <= p.p_max:
        flows += 1
    return flows


@check("dcqcn-fixed", cost=12, main=False)
def dcqcn_fixed(claim: Claim) -> Finding:
    """Which numbers of flows have a fixed point, whether it is the only one, and what the fluid does without."""
    p = DCQCN()
    most = _last_with_fixed_point(p)
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
    _, late, least = _swings(p, 20, 4e-6)
    lost = _swings(p, 64, 85e-6)[2]
    return Finding(
        claim, Verdict.CONDITIONAL if set(crossings) == {1} and refused == 2 else Verdict.REFUTED,
        f"Their (11) has one solution p* for each number of flows, but from {most + 1} flows on it exceeds p_max: the "
        f"ramp ends there, and no queue marks between {p.p_max:g} and 1. With their parameters there is a unique fixed "
        f"point for up to {most} flows, and none for more: the queue swings around K_max.",
        [
            Measurement("most flows with a fixed point", most, reported="any"),
            Measurement(f"p* with {most} flows", _marks(p, most), note=f"p_max = {p.p_max:g}"),
            Measurement(f"p* with {most + 1} flows", _marks(p, most + 1), met=_marks(p, most + 1) <= p.p_max),
            Measurement("p* with 64 flows", _marks(p, 64), met=_marks(p, 64) <= p.p_max,
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
    counts = range(1, _last_with_fixed_point(p) + 1)
    ratios = {flows: _their_marks(p, flows) / _marks(p, flows) for flows in counts}
    worst = max(ratios, key=lambda flows: abs(ratios[flows] - 1.0))
    good = abs(ratios[worst] - 1.0) < 0.1
    return Finding(
        claim, Verdict.CONFIRMED if good else Verdict.REFUTED,
        f"The closed form is {min(ratios.values()):.3f} to {max(ratios.values()):.3f} times p*: tau R_C p* is no small "
        "number, and (1 - p)^(tau R_C) no straight line; their loop is linearized at this point.",
        [
            Measurement(f"p* with {flows} flows", _marks(p, flows), reported=_their_marks(p, flows),
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
        Measurement(f"phase margin by their formula, {flows} flows, 50 us", _their_margin(p, flows, 50e-6), "degrees",
                    reported=value)
        for flows, value in table.items()
    ]  # fmt: skip
    counts = range(1, _last_with_fixed_point(p) + 1)
    proven = {flows: _proven(_printed(p, flows, 50e-6)) for flows in counts}
    stable = [flows for flows in counts if proven[flows] is True]
    limits = {flows: _critical(p, flows) for flows in counts}
    worst = min(limits, key=lambda flows: limits[flows])
    measured += [
        Measurement("flows with which the exact loop is stable at 50 us", f"{len(stable)} of {len(counts)}",
                    note=f"proven, 1 to {max(counts)} flows", met=len(stable) == 0),
        Measurement(f"least critical delay, {worst} flows", 1e6 * limits[worst], "us"),
        Measurement("critical delay, 10 flows", 1e6 * limits[10], "us"),
        _run_of(p, 10, 0.95 * limits[10], "decays"),
        _run_of(p, 10, 1.05 * limits[10], "grows"),
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
    limits = [_critical(p, flows) for flows in counts]
    between = limits[3] < limits[0] and limits[3] < limits[-1]
    certified = all(
        _proven(_printed(p, flows, share * limit)) is (share < 1.0)
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
    longer = replace(p, max_threshold=2_000_000, p_max=_ramp(p) * 8.0 * (2_000_000 - p.min_threshold))
    most = _last_with_fixed_point(p)
    short = [_proven(_printed(p, flows, 4e-6)) for flows in range(1, most + 1)]
    two, ten, many = (_proven(_printed(one, flows, 85e-6)) for one, flows in ((p, 2), (p, 10), (longer, 64)))
    cycle = _swings(p, 64, 85e-6)
    measured = [
        Measurement("flows with a fixed point that is stable at 4 us", f"{sum(one is True for one in short)} of {most}",
                    note="proven", met=all(one is True for one in short)),
        Measurement("2 flows, 85 us", "stable" if two else "unstable", reported="stable", met=two is True,
                    note=f"critical delay {1e6 * _critical(p, 2):.2f} us; by their formula a margin of "
                    f"{_their_margin(p, 2, 85e-6):.1f} degrees"),
        Measurement("10 flows, 85 us", "stable" if ten else "unstable", reported="unstable", met=ten is False,
                    note=f"critical delay {1e6 * _critical(p, 10):.2f} us"),
        Measurement("64 flows, 85 us, K_max = 200 kB", "no fixed point", reported="stable", met=False,
                    note=f"the fluid's queue falls to {cycle[2]:.0f} kB again and again"),
        Measurement("64 flows, 85 us, the ramp continued to 2 MB", "stable" if many else "unstable", note="proven"),
        _run_of(p, 2, 85e-6, "decays"),
        _run_of(p, 10, 85e-6, "grows"),
        _run_of(longer, 64, 85e-6, "decays"),
        *(_packets_of(p, flows, delay) for flows, delay in ((2, 4e-6), (10, 4e-6), (10, 85e-6), (64, 85e-6))),
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
    most = _last_with_fixed_point(p)
    proven = {flows: _proven(_printed(p, flows, 100e-6)) for flows in range(1, most + 1)}
    stable = [flows for flows, value in proven.items() if value is True]
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


# ---- TIMELY ------------------------------------------------------------------------------------------------

LINE, SEG, MTU = 10e9, 128e3, 8e3
"""Bit/s, and bit, of ECN-DELAY; segments of 16 kB."""
QUEUES = (60e-6, 100e-6, 300e-6, 490e-6)
"""RTTs between T_low and T_high [s]."""


def _moves(increases_at_0: bool, rtts: Sequence[float] = QUEUES) -> list[float]:
    """What TIMELY's law makes of rates with g = 0, as shares of delta."""
    p = TIMELY().namespace()
    rates = [share * LINE for share in (0.01, 0.3, 0.7, 0.99)]
    gradient = 0.0 if increases_at_0 else 1e-300  # "g < 0" in the place of "g <= 0" takes g = 0 for what falls
    return [(TIMELY.source_law(x, D, gradient, 0.0, p) - x) / p.delta for x in rates for D in rtts]


@check("timely-none", cost=0.1)
def timely_none(claim: Claim) -> Finding:
    """A constant queue has no gradient: what the law then does."""
    moves = np.array(_moves(True))
    early, late = np.array(_moves(True, (20e-6, 49e-6))), np.array(_moves(True, (501e-6, 1e-3)))
    holds = bool(np.all(np.abs(moves - 1.0) < 1e-6) and np.all(early > 0.5) and np.all(late < 0.0))
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "A constant queue has g = 0, at which every rate grows by delta an update, whatever it is; below T_low it "
        "grows in any case, beyond T_high it falls: no rates and no queue stay.",
        [Measurement("least move at g = 0", float(moves.min()), "delta", note="16 pairs of rate and RTT"),
         Measurement("largest move beyond T_high", float(late.max()), "delta")],
    )  # fmt: skip


@check("timely-many", cost=0.1)
def timely_many(claim: Claim) -> Finding:
    """The law with the other comparison."""
    moves = np.array(_moves(False))
    holds = bool(np.all(np.abs(moves) < 1e-6))
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "With g < 0 in the place of g <= 0 a constant queue between the thresholds leaves every rate as it is: all "
        "rates that add up to C are fixed points, with all these queues.",
        [Measurement("largest move at g = 0", float(np.abs(moves).max()), "delta", note="16 pairs of rate and RTT")],
    )  # fmt: skip


def _patched(flows: int, propagation: float, slope: float = 2.0) -> DelaySystem:
    """The loop of patched TIMELY as ECN-DELAY prints it: w = slope g + 1/2; states x, g, queue."""
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


def _patched_margin(flows: int, slope: float) -> float:
    """Phase margin without propagation delay, the loop cut at what a host sees of the queue [degrees]."""
    p = PatchedTIMELY().namespace()
    x, excess = LINE / flows, flows * p.delta / (p.beta * LINE)
    update = SEG / x
    delay = (1.0 + excess) * p.low + MTU / LINE

    def loop(w: float) -> complex:
        s = 1j * w
        steep = 2.0 * x * p.delta * p.alpha * slope / (s * p.interval * (SEG * s + p.alpha * x))
        level = x * x * 0.5 * p.beta / (LINE * p.low) * flows / s
        seen = (steep + level) - steep * np.exp(-s * update)
        return complex(seen * np.exp(-s * delay) / (s * SEG + 0.5 * p.delta))

    return _least_margin(loop)


@check("patched-fixed", cost=1)
def patched_fixed(claim: Claim) -> Finding:
    """The fixed point over the number of flows, and where it ends."""
    protocol, p = PatchedTIMELY(), PatchedTIMELY().namespace()
    most = int(p.beta * LINE / p.delta * (p.high / p.low - 1.0) + 1e-9)
    measured = []
    for flows in (2, 20, most):
        network = Network.dumbbell(LINE, ["1 us"] * flows, packet_size=1000)
        point = protocol.equilibrium(network)
        assert point.queue is not None
        theirs = LINE * p.low * (1.0 + flows * p.delta / (p.beta * LINE))
        found = float(point.queue[0]) + 1e-6 * LINE  # they have no propagation delay in the thresholds
        measured.append(
            Measurement(f"q* with {flows} flows", found / 8e3, "kB", reported=theirs / 8e3,
                        met=abs(found / theirs - 1.0) < 1e-6)
        )  # fmt: skip
    unstable = _proven(_patched(30, 0.0)) is False
    holds = all(one.met for one in measured)
    return Finding(
        claim, Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        f"The fixed point is the one stated up to {most} flows. With more it would be beyond C T_high, where rates "
        "only fall, and there is none. It does not attract from 20 flows on, where it is unstable (patched-stable).",
        [*measured, Measurement("most flows with a fixed point", most, reported="any"),
         Measurement("30 flows", "unstable" if unstable else "stable", reported="stable", met=not unstable)],
    )  # fmt: skip


@check("patched-stable", cost=4)
def patched_stable(claim: Claim) -> Finding:
    """Their margins with the slope of their program, the printed loop with certificates, and packets."""
    delays = (0.0, 50e-6, 100e-6)

    def ranges(slope: float) -> list[tuple[int, int]]:
        found = []
        for delay in delays:
            stable = [flows for flows in range(1, 61) if _patched(flows, delay, slope).is_stable]
            found.append((min(stable), max(stable)))
        return found

    printed, theirs = ranges(2.0), ranges(0.5)
    certified = all(
        _proven(_patched(flows, delay)) is inside
        for delay, (low, high) in zip(delays, printed, strict=True)
        for flows, inside in ((low, True), (high, True), (high + 1, False), (40, False))
    )
    table: Mapping[int, float] = {2: -1.9535, 18: 42.921, 40: -1.3105}
    measured = [
        Measurement(f"phase margin with w = g/2 + 1/2, {flows} flows", _patched_margin(flows, 0.5), "degrees",
                    reported=value, note=f"with w = 2 g + 1/2 {_patched_margin(flows, 2.0):.1f}")
        for flows, value in table.items()
    ]  # fmt: skip
    for delay, (low, high), (low_theirs, high_theirs) in zip(delays, printed, theirs, strict=True):
        measured.append(
            Measurement(f"stable flows, propagation delay {1e6 * delay:g} us", f"{low} to {high}", reported="up to 40",
                        met=high >= 40, note=f"proven at the ends; with w = g/2 + 1/2 {low_theirs} to {high_theirs}")
        )  # fmt: skip
    for flows in (10, 18, 30, 40):
        measured.append(_patched_packets(flows))
    counts = np.arange(2.0, 51.0, 4.0)
    curves = {
        f"w = {name} + 1/2": [_patched_margin(int(flows), slope) for flows in counts]
        for name, slope in (("2 g (as printed)", 2.0), ("g/2", 0.5))
    }
    figure = plot.boundary_figure(
        counts, curves, None, {"reported": (list(table), list(table.values()), [0.0] * len(table))}, "flows",
        "phase margin [degrees]", title="Phase margin of patched TIMELY", log_x=False, log_y=False,
    )  # fmt: skip
    title = "Phase margin of patched TIMELY"
    picture = Picture.of(figure, title, "Without propagation delay; the loop is cut at what a host sees of the queue.")
    return Finding(
        claim, Verdict.REFUTED if certified and printed[0][1] < 40 else Verdict.CONDITIONAL,
        f"As printed, with w = 2 g + 1/2, the loop is stable for {printed[0][0]} to {printed[0][1]} flows without "
        f"propagation delay and for {printed[2][0]} to {printed[2][1]} with 100 us, proven. The margins reported are "
        "those of w = g/2 + 1/2, a quarter of the slope, to a tenth of a degree; and they are negative for 2 flows, "
        "too.",
        measured, [picture],
        ["C = 10 Gb/s, segments of 16 kB, beta = 0.008, delta = 10 Mb/s, alpha = 0.875, D_min = 20 us, T_low = 50 us, "
         "T_high = 500 us: their fluid as printed, delays q*/C + MTU/C + propagation. Packets are 16 kB with an RTT of "
         "1 us, flows start at random within 2 ms; one packet is 16 kB of queue."],
    )  # fmt: skip


def _patched_packets(flows: int) -> Measurement:
    """Standard deviation of the queue from 0.2 s to 0.4 s."""
    starts: Sequence[float] = np.random.default_rng(1).uniform(0.0, 2e-3, flows).tolist()
    network = Network.dumbbell(LINE, ["1 us"] * flows, packet_size=16_000, starts=starts)
    run = packet.simulate(Scenario(network, PatchedTIMELY(), 0.4), sample=1e-5)
    queue = run.queue[len(run.queue) // 2 :, 0].to_numpy() / 1e3
    return Measurement(
        f"packets, {flows} flows: standard deviation of the queue", float(queue.std()), "kB",
        note=f"{queue.min():.0f} to {queue.max():.0f} kB",
    )  # fmt: skip


@check("patched-pace", cost=2, main=False)
def patched_pace(claim: Claim) -> Finding:
    """The root of differences between flows, and how fast rates of the fluid come together."""
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
        claim, Verdict.CONFIRMED if near else Verdict.REFUTED,
        f"Differences decay by {root:.1f} 1/s in the linear model, and rates of 7 and 3 Gb/s come together by "
        f"{pace:.1f} 1/s in the fluid.",
        [
            Measurement("root of differences", root, "1/s", reported=stated, met=near),
            Measurement("decay in the fluid, from 7 and 3 Gb/s", pace, "1/s", reported=stated, met=near),
            Measurement("time from one flow at C to a tenth of C/N", 1e3 * log(20.0) / root, "ms", reported=76.7),
        ],
        (), ["C = 10 Gb/s, 16 kB segments, RTT of 1 us without queues; hosts compare the whole RTT with T_low."],
    )  # fmt: skip


@check("marks-jitter", cost=4, main=False)
def marks_jitter(claim: Claim) -> Finding:
    """Packets of both with late ACKs and notifications, and without."""
    measured, lost = [], []
    cases: tuple[tuple[Any, float, int, float], ...] = (
        (DCQCN(), CAPACITY, 1000, 10e-6), (PatchedTIMELY(), LINE, 16_000, 10e-6)
    )  # fmt: skip
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
                Measurement(f"{type(protocol).__name__}, jitter up to {1e6 * jitter:g} us: goodput", used[-1],
                            note=f"queue {queue.mean():.1f} us, standard deviation {queue.std():.1f} us")
            )  # fmt: skip
        lost.append(used[0] - used[1])
    holds = lost[0] < 0.02 and lost[1] > 0.1
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Two flows of DCQCN lose {lost[0]:.1%} of their goodput to the jitter, two of patched TIMELY {lost[1]:.0%}: "
        "it takes noise for a queue.",
        measured, (), ["Packets, RTTs of 10 us, each ACK and notification later by a delay of its own, in order."],
    )  # fmt: skip
