"""Checks of the tables of DCQCN's phase margins and convergence times."""

from __future__ import annotations

from collections.abc import Mapping
from math import log, sqrt

import numpy as np
from scipy.optimize import brentq

from ecc import packet
from ecc.claims.checks.data_centers.dcqcn_loop import (
    PRINTED,
    critical,
    last_with_fixed_point,
    printed,
    run_of,
    swings,
    their_margin,
)
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.linear import DelaySystem
from ecc.models import DCQCN
from ecc.network.network import Network
from ecc.scenario import Scenario

Table = Mapping[int, float]
"""Flows -> a phase margin [degrees]."""


def _stable(p: DCQCN, delay: float) -> list[int]:
    """Numbers of flows with a fixed point that is stable, each proven; all others of them are proven unstable."""
    found = {flows: proven(printed(p, flows, delay)) for flows in range(1, last_with_fixed_point(p) + 1)}
    assert None not in found.values()
    return [flows for flows, value in found.items() if value]


def _span(counts: list[int]) -> str:
    return f"{min(counts)} to {max(counts)}" if counts else "none"


def _margins(
    claim: Claim, p: DCQCN, tables: Mapping[float, Table], negative: Mapping[float, range], runs: list[Measurement]
) -> Finding:
    """The tables beside the paper's formula, and their signs beside the exact loop, with certificates.

    `negative`: numbers of flows whose margins a table has below 0.
    """
    most = last_with_fixed_point(p)
    measured, wrong = [], []
    for delay, table in tables.items():
        us = f"{1e6 * delay:g} us"
        measured += [
            Measurement(f"phase margin by their formula, {flows} flows, {us}", their_margin(p, flows, delay), "degrees",
                        reported=value)
            for flows, value in table.items()
        ]  # fmt: skip
        stable, theirs = _stable(p, delay), [n for n in range(2, most + 1) if n not in negative[delay]]
        off = sorted(set(stable) - {1} ^ set(theirs))
        wrong += [(us, n in stable, n) for n in off]
        measured.append(
            Measurement(f"stable numbers of flows, of 2 to {most}, {us}", _span([n for n in stable if n > 1]),
                        reported=_span(theirs), note="proven, and that others are unstable", met=not off)
        )  # fmt: skip
    limits = {flows: critical(p, flows) for flows in (2, 10, most)}
    measured += [Measurement(f"critical delay, {flows} flows", 1e6 * limit, "us") for flows, limit in limits.items()]
    by_delay = {
        us: [n for other, stable, n in wrong if other == us and stable] for us in dict.fromkeys(w[0] for w in wrong)
    }
    stated = "; ".join(f"at {us} for {_span(ns)}" for us, ns in by_delay.items() if ns)
    reverse = [f"{n} at {us}" for us, stable, n in wrong if not stable]
    return Finding(
        claim, Verdict.REFUTED if wrong else Verdict.CONDITIONAL,
        "The numbers are those of their formula, of first order in p. "
        + (f"The exact loop is stable, proven, where margins below 0 are reported: {stated}. " if stated else "")
        + (f"It is unstable where they are above 0: {', '.join(reverse)} flows. " if reverse else "")
        + ("" if wrong else f"Up to {most} flows their signs are right, proven. ")
        + f"From {most + 1} flows on there is no fixed point: p* exceeds p_max.",
        [*measured, *runs], (), [PRINTED],
    )  # fmt: skip


@check("dcqcn-short", cost=1)
def dcqcn_short(claim: Claim) -> Finding:
    """Four tables with the default parameters."""
    tables = {
        0.0: {2: 26.624, 10: 4.7564, 20: 9.6336, 100: 56.48}, 1e-6: {2: 26.257, 10: 4.5296, 20: 9.4219, 100: 56.147},
        10e-6: {2: 22.952, 10: 2.4883, 20: 7.5166, 100: 53.147},
        25e-6: {2: 17.443, 10: -0.91397, 20: 4.3412, 100: 48.146},
    }  # fmt: skip
    none = range(0)
    return _margins(claim, DCQCN(), tables, {0.0: none, 1e-6: none, 10e-6: none, 25e-6: range(8, 13)}, [])


@check("dcqcn-long", cost=12, main=False)
def dcqcn_long(claim: Claim) -> Finding:
    """One table with the default parameters; the nonlinear fluid where margins are above 0 again."""
    p = DCQCN()
    table = {2: -10.099, 10: -17.925, 20: -11.536, 36: 1.2794, 100: 23.142}
    cycle = Measurement("nonlinear fluid, 40 flows: least queue of a cycle that stays", swings(p, 40, 100e-6)[2], "kB",
                        note="around K_max = 200 kB; stable is reported", met=False)  # fmt: skip
    runs = [run_of(p, 2, 100e-6, "grows"), run_of(p, 14, 100e-6, "grows"), cycle]
    return _margins(claim, p, {100e-6: table}, {100e-6: range(2, 35)}, runs)


@check("dcqcn-steps", cost=2, main=False)
def dcqcn_steps(claim: Claim) -> Finding:
    """Six tables with R_AI = 10 Mb/s."""
    tables = {
        0.0: {2: 58.388, 10: 20.979, 20: 11.332, 100: 38.249}, 1e-6: {2: 58.003, 10: 20.812, 20: 11.193, 100: 38.069},
        10e-6: {2: 54.539, 10: 19.306, 20: 9.9487, 100: 36.442},
        25e-6: {2: 48.766, 10: 16.796, 20: 7.8742, 100: 33.732},
        50e-6: {2: 39.145, 10: 12.613, 20: 4.4168, 100: 29.215},
        100e-6: {2: 19.902, 10: 4.2463, 14: -0.50778, 20: -2.4981, 100: 20.181},
    }  # fmt: skip
    none = range(0)
    negative = {delay: none for delay in tables} | {100e-6: range(14, 35)}
    return _margins(claim, DCQCN(rate_ai=10e6), tables, negative, [])


@check("dcqcn-100g", cost=1)
def dcqcn_100g(claim: Claim) -> Finding:
    """Three tables at 100 Gb/s."""
    tables = {
        0.0: {2: 23.919, 10: 12.363, 34: -0.30535, 100: 10.758},
        50e-6: {2: -16.686, 10: -10.139, 100: -3.7909}, 100e-6: {2: -57.292, 10: -32.642, 100: -18.34},
    }  # fmt: skip
    return _margins(
        claim, DCQCN(line_rate=100e9), tables, {0.0: range(32, 45), 50e-6: range(2, 101), 100e-6: range(2, 101)}, []
    )


# ---- convergence -------------------------------------------------------------------------------------------


def _cycle(p: DCQCN, flows: int, less: float) -> tuple[float, float]:
    """alpha* and Delta T* [intervals] of equal flows: alpha* = (1 - g)^(Delta T* - less) ((1 - g) alpha* + g)."""
    build = 0.5 * (sqrt(1.0 + 64.0 * p.max_threshold / (flows * p.rate_ai * p.alpha_interval)) - 1.0)
    per = 0.5 * build + p.line_rate / (2.0 * flows * p.rate_ai)

    def excess(alpha: float) -> float:
        return float((1.0 - p.g) ** (2.0 + per * alpha - less) * ((1.0 - p.g) * alpha + p.g) - alpha)

    alpha = float(brentq(excess, 1e-9, 1.0, xtol=1e-14))
    return alpha, 2.0 + per * alpha


def _time(p: DCQCN, flows: int, less: float = 1.0) -> float:
    """How long until a difference of C is a tenth of C/N, by (1 - alpha*/2) a cycle [s]."""
    alpha, cycle = _cycle(p, flows, less)
    return p.alpha_interval * cycle * log(10.0 * flows) / -log(1.0 - 0.5 * alpha)


@check("dcqcn-times", cost=0.1)
def dcqcn_times(claim: Claim) -> Finding:
    """The four tables, by the equation for alpha* as printed and with the exponent of its recursion."""
    cases = {
        "default": (DCQCN(), {2: 96.901, 10: 35.894, 100: 10.089}),
        "R_AI = 10 Mb/s": (DCQCN(rate_ai=10e6), {2: 358.17, 10: 121.37, 100: 25.873}),
        "g = 1/16": (DCQCN(g=1.0 / 16.0), {2: 100.07, 10: 37.117, 100: 10.444}),
        "K_max = 1000 kB": (DCQCN(max_threshold=1_000_000), {2: 102.7, 10: 40.103, 100: 12.405}),
    }
    measured, worst = [], 0.0
    for name, (p, table) in cases.items():
        for flows, value in table.items():
            found = 1e3 * _time(p, flows)
            worst = max(worst, abs(1e3 * _time(p, flows, 0.0) / value - 1.0))
            measured.append(
                Measurement(f"{name}, {flows} flows", found, "ms", reported=value, met=abs(found / value - 1.0) < 1e-3,
                            note=f"{1e3 * _time(p, flows, 0.0):.4g} with the exponent Delta T* that is printed")
            )  # fmt: skip
    holds = all(one.met for one in measured)
    return Finding(
        claim, Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "All come out to four digits, of alpha* = (1 - g)^(Delta T* - 1) ((1 - g) alpha* + g), the fixed point of "
        f"their (17). The equation printed for alpha* has Delta T* there, which makes times up to {worst:.0%} longer.",
        measured,
    )  # fmt: skip


def _differences(p: DCQCN, flows: int, delay: float) -> float:
    """How fast differences between flows decay in their fluid, which do not move the queue [1/s]."""
    now, late = printed(p, flows, delay).matrices
    rates = DelaySystem([now[:3, :3], late[:3, :3]], [0.0, delay])
    return -float(rates.spectral_abscissa)


def _synchronized(p: DCQCN, flows: int, cycles: int) -> list[float]:
    """alpha(T_k) of their recursion, from alpha = 1."""
    build = 0.5 * (sqrt(1.0 + 64.0 * p.max_threshold / (flows * p.rate_ai * p.alpha_interval)) - 1.0)
    per = 0.5 * build + p.line_rate / (2.0 * flows * p.rate_ai)
    found = [1.0]
    for _ in range(cycles):
        found.append((1.0 - p.g) ** (1.0 + per * found[-1]) * ((1.0 - p.g) * found[-1] + p.g))
    return found


@check("dcqcn-pace", cost=0.5)
def dcqcn_pace(claim: Claim) -> Finding:
    """Their recursion of alpha, and the root of differences in their fluid, beside the bound."""
    measured, below, slower = [], [], []
    for name, p in (("default", DCQCN()), ("R_AI = 10 Mb/s", DCQCN(rate_ai=10e6))):
        for flows in (2, 4, 10):
            alpha, cycle = _cycle(p, flows, 1.0)
            least = min(_synchronized(p, flows, 400))
            bound = -log(1.0 - 0.5 * alpha) / (p.alpha_interval * cycle)
            root = _differences(p, flows, 4e-6)
            if least < 0.999 * alpha:
                below.append(f"{flows} flows with {name}")
            if root < bound:
                slower.append(f"{flows} flows with {name}")
            measured += [
                Measurement(f"least alpha(T_k), {flows} flows, {name}", least, met=least >= 0.999 * alpha,
                            note=f"alpha* = {alpha:.4g}"),
                Measurement(f"decay of differences in the fluid, {flows} flows, {name}", root, "1/s",
                            note=f"at least {bound:.3g} 1/s by the theorem", met=root >= bound),
            ]  # fmt: skip
    verdict = Verdict.CONFIRMED if not below + slower else Verdict.CONDITIONAL
    return Finding(
        claim, verdict,
        "Differences decay exponentially in every case. "
        + (f"The steps of the proof do not all hold: alpha(T_k) falls below alpha* for {', '.join(below)}, as one "
           "cycle from alpha = 1 is so long that it decays further. " if below else "")
        + (f"In their fluid differences decay more slowly than the bound of the synchronized model says for "
           f"{', '.join(slower)}." if slower else ""),
        measured, (), ["Their synchronized model from alpha = 1; the fluid linearized at a delay of 4 us."],
    )  # fmt: skip


def _joining(rate_ai: float, flows: int) -> tuple[float, float]:
    """How long a flow that joins others takes to nine tenths of the fair share, and how its share varies from then on.

    By averages of 5 ms [s], and their standard deviation as a share of the fair rate; means of eight seeds, because the
    time of one run varies by 10 ms.
    """
    p = DCQCN(rate_ai=rate_ai)
    starts = [0.0] * flows + [0.1]
    network = Network.dumbbell(p.line_rate, [4e-6] * (flows + 1), packet_size=1000, starts=starts)
    times, spreads = [], []
    for seed in range(1, 9):
        run = packet.simulate(Scenario(network, p, 0.3, seed=seed), sample=5e-3)
        share = run.rate[20:, -1].to_numpy() / (p.line_rate / (flows + 1))
        there = int(np.flatnonzero(share >= 0.9)[0])
        times.append(5e-3 * (there + 1))
        spreads.append(float(share[there:].std()))
    return float(np.mean(times)), float(np.mean(spreads))


@check("dcqcn-join", cost=4, main=False)
def dcqcn_join(claim: Claim) -> Finding:
    """Packets of flows that one more joins at 0.1 s."""
    cases = {"2 flows": (40e6, 2), "2 flows, R_AI = 10 Mb/s": (10e6, 2), "10 flows": (40e6, 10)}
    found = {name: _joining(*case) for name, case in cases.items()}
    measured = [
        Measurement(f"{name}: time of the one more to nine tenths of C/N", 1e3 * seconds, "ms",
                    note=f"averages of 5 ms, whose standard deviation is {spread:.0%} from then on")
        for name, (seconds, spread) in found.items()
    ]  # fmt: skip
    default, small, many = (found[name][0] for name in cases)
    verdict = Verdict.CONFIRMED if small > default >= many else Verdict.CONDITIONAL
    return Finding(
        claim, verdict if default <= 0.1 else Verdict.REFUTED,
        f"Packets of eight seeds take {1e3 * default:.0f} ms on average with the defaults, {1e3 * small:.0f} ms with "
        f"R_AI = 10 Mb/s and {1e3 * many:.0f} ms where ten flows are joined.",
        measured, (), ["40 Gb/s, packets of 1 kB, RTTs of 4 us; flows start at the rate of the line; 0.25 s."],
    )  # fmt: skip
