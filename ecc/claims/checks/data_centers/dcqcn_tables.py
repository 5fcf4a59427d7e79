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
"""Number of flows -> phase margin [degrees]."""


def _stable(p: DCQCN, delay: float) -> list[int]:
    """Return the numbers of flows with a provably stable fixed point; all other fixed points are provably unstable."""
    verdicts = {flows: proven(printed(p, flows, delay)) for flows in range(1, last_with_fixed_point(p) + 1)}
    assert None not in verdicts.values()
    return [flows for flows, value in verdicts.items() if value]


def _ranges(counts: list[int]) -> str:
    """Return ascending numbers as text with ranges, for example "2 to 7, 13, 14"."""
    groups: list[list[int]] = []
    for count in counts:
        if groups and count == groups[-1][-1] + 1:
            groups[-1].append(count)
        else:
            groups.append([count])
    texts = [f"{group[0]} to {group[-1]}" if group[2:] else ", ".join(map(str, group)) for group in groups]
    return ", ".join(texts) or "none"


def _margins(
    claim: Claim, p: DCQCN, tables: Mapping[float, Table], negative: Mapping[float, range], runs: list[Measurement]
) -> Finding:
    """Compare the tables with the paper's formula, and the signs of their margins with certificates of the exact loop.

    `negative` maps a delay to the numbers of flows with negative margins in its table.
    """
    max_flows = last_with_fixed_point(p)
    measured, wrong = [], []
    for delay, table in tables.items():
        us = f"{1e6 * delay:g} us"
        measured += [
            Measurement(
                f"phase margin by the paper's formula, {flows} flows, {us}",
                their_margin(p, flows, delay),
                "degrees",
                reported=value,
            )
            for flows, value in table.items()
        ]
        stable, reported = _stable(p, delay), [n for n in range(2, max_flows + 1) if n not in negative[delay]]
        off = sorted(set(stable) - {1} ^ set(reported))
        wrong += [(us, n in stable, n) for n in off]
        measured.append(
            Measurement(
                f"stable numbers of flows, of 2 to {max_flows}, {us}",
                _ranges([n for n in stable if n > 1]),
                reported=_ranges(reported),
                note="proven, as is the instability of the others" if len(stable) < max_flows else "proven",
                met=not off,
            )
        )
    limits = {flows: critical(p, flows) for flows in (2, 10, max_flows)}
    measured += [Measurement(f"critical delay, {flows} flows", 1e6 * limit, "us") for flows, limit in limits.items()]
    by_delay = {
        us: [n for other, stable, n in wrong if other == us and stable] for us in dict.fromkeys(w[0] for w in wrong)
    }
    stated = "; ".join(f"at {us} for {_ranges(ns)}" for us, ns in by_delay.items() if ns)
    reverse = [f"{n} at {us}" for us, stable, n in wrong if not stable]
    return Finding(
        claim,
        Verdict.REFUTED if wrong else Verdict.CONDITIONAL,
        "The numbers agree with the paper's formula, which is of first order in p. "
        + (f"The exact loop is provably stable although negative margins are reported: {stated}. " if stated else "")
        + (f"It is provably unstable although margins are positive: {', '.join(reverse)} flows. " if reverse else "")
        + ("" if wrong else f"Up to {max_flows} flows the signs are provably right. ")
        + f"With {max_flows + 1} flows or more no fixed point exists, because p* exceeds p_max.",
        [*measured, *runs],
        (),
        [PRINTED],
    )


@check("dcqcn-short", cost=1)
def dcqcn_short(claim: Claim) -> Finding:
    """Check four tables with the default parameters."""
    tables = {
        0.0: {2: 26.624, 10: 4.7564, 20: 9.6336, 100: 56.48}, 1e-6: {2: 26.257, 10: 4.5296, 20: 9.4219, 100: 56.147},
        10e-6: {2: 22.952, 10: 2.4883, 20: 7.5166, 100: 53.147},
        25e-6: {2: 17.443, 10: -0.91397, 20: 4.3412, 100: 48.146},
    }  # fmt: skip
    no_flows = range(0)
    return _margins(claim, DCQCN(), tables, {0.0: no_flows, 1e-6: no_flows, 10e-6: no_flows, 25e-6: range(8, 13)}, [])


@check("dcqcn-long", cost=12, main=False)
def dcqcn_long(claim: Claim) -> Finding:
    """Check one table with the default parameters, and run the nonlinear fluid at a positive margin."""
    p = DCQCN()
    table = {2: -10.099, 10: -17.925, 20: -11.536, 36: 1.2794, 100: 23.142}
    cycle = Measurement(
        "nonlinear fluid, 40 flows: minimum queue of a lasting cycle",
        swings(p, 40, 100e-6)[2],
        "kB",
        note="around K_max = 200 kB; stable is reported",
        met=False,
    )
    runs = [run_of(p, 2, 100e-6, "grows"), run_of(p, 14, 100e-6, "grows"), cycle]
    return _margins(claim, p, {100e-6: table}, {100e-6: range(2, 35)}, runs)


@check("dcqcn-steps", cost=2, main=False)
def dcqcn_steps(claim: Claim) -> Finding:
    """Check six tables with R_AI = 10 Mb/s."""
    tables = {
        0.0: {2: 58.388, 10: 20.979, 20: 11.332, 100: 38.249}, 1e-6: {2: 58.003, 10: 20.812, 20: 11.193, 100: 38.069},
        10e-6: {2: 54.539, 10: 19.306, 20: 9.9487, 100: 36.442},
        25e-6: {2: 48.766, 10: 16.796, 20: 7.8742, 100: 33.732},
        50e-6: {2: 39.145, 10: 12.613, 20: 4.4168, 100: 29.215},
        100e-6: {2: 19.902, 10: 4.2463, 14: -0.50778, 20: -2.4981, 100: 20.181},
    }  # fmt: skip
    no_flows = range(0)
    negative = {delay: no_flows for delay in tables} | {100e-6: range(14, 35)}
    return _margins(claim, DCQCN(rate_ai=10e6), tables, negative, [])


@check("dcqcn-100g", cost=1)
def dcqcn_100g(claim: Claim) -> Finding:
    """Check three tables at 100 Gb/s."""
    tables = {
        0.0: {2: 23.919, 10: 12.363, 34: -0.30535, 100: 10.758},
        50e-6: {2: -16.686, 10: -10.139, 100: -3.7909}, 100e-6: {2: -57.292, 10: -32.642, 100: -18.34},
    }  # fmt: skip
    return _margins(
        claim, DCQCN(line_rate=100e9), tables, {0.0: range(32, 45), 50e-6: range(2, 101), 100e-6: range(2, 101)}, []
    )


# ---- convergence -------------------------------------------------------------------------------------------


def _cycle(p: DCQCN, flows: int, less: float) -> tuple[float, float]:
    """Return alpha* = (1 - g)^(Delta T* - less) ((1 - g) alpha* + g) and Delta T* [intervals] of equal flows."""
    build = 0.5 * (sqrt(1.0 + 64.0 * p.max_threshold / (flows * p.rate_ai * p.alpha_interval)) - 1.0)
    per = 0.5 * build + p.line_rate / (2.0 * flows * p.rate_ai)

    def excess(alpha: float) -> float:
        return float((1.0 - p.g) ** (2.0 + per * alpha - less) * ((1.0 - p.g) * alpha + p.g) - alpha)

    alpha = float(brentq(excess, 1e-9, 1.0, xtol=1e-14))
    return alpha, 2.0 + per * alpha


def _time(p: DCQCN, flows: int, less: float = 1.0) -> float:
    """Return the time in which a difference decays from C to a tenth of C/N, by (1 - alpha*/2) per cycle [s]."""
    alpha, cycle = _cycle(p, flows, less)
    return p.alpha_interval * cycle * log(10.0 * flows) / -log(1.0 - 0.5 * alpha)


@check("dcqcn-times", cost=0.1)
def dcqcn_times(claim: Claim) -> Finding:
    """Check four tables with the printed equation for alpha* and with the exponent of its recursion."""
    cases = {
        "default": (DCQCN(), {2: 96.901, 10: 35.894, 100: 10.089}),
        "R_AI = 10 Mb/s": (DCQCN(rate_ai=10e6), {2: 358.17, 10: 121.37, 100: 25.873}),
        "g = 1/16": (DCQCN(g=1.0 / 16.0), {2: 100.07, 10: 37.117, 100: 10.444}),
        "K_max = 1000 kB": (DCQCN(max_threshold=1_000_000), {2: 102.7, 10: 40.103, 100: 12.405}),
    }
    measured, worst = [], 0.0
    for name, (p, table) in cases.items():
        for flows, value in table.items():
            duration = 1e3 * _time(p, flows)
            worst = max(worst, abs(1e3 * _time(p, flows, 0.0) / value - 1.0))
            measured.append(
                Measurement(
                    f"{name}, {flows} flows",
                    duration,
                    "ms",
                    reported=value,
                    met=abs(duration / value - 1.0) < 1e-3,
                    note=f"{1e3 * _time(p, flows, 0.0):.4g} with the exponent Delta T* that is printed",
                )
            )
    holds = all(measurement.met for measurement in measured)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "All times agree to four digits with alpha* = (1 - g)^(Delta T* - 1) ((1 - g) alpha* + g), the fixed point of "
        "the paper's (17). The printed equation for alpha* has the exponent Delta T*, which makes times up to "
        f"{worst:.0%} longer.",
        measured,
    )


def _differences(p: DCQCN, flows: int, delay: float) -> float:
    """Return the decay rate of differences between flows in the paper's fluid; they do not change the queue [1/s]."""
    now, late = printed(p, flows, delay).matrices
    rates = DelaySystem([now[:3, :3], late[:3, :3]], [0.0, delay])
    return -float(rates.spectral_abscissa)


def _synchronized(p: DCQCN, flows: int, cycles: int) -> list[float]:
    """Return alpha(T_k) of the paper's recursion, which starts at alpha = 1."""
    build = 0.5 * (sqrt(1.0 + 64.0 * p.max_threshold / (flows * p.rate_ai * p.alpha_interval)) - 1.0)
    per = 0.5 * build + p.line_rate / (2.0 * flows * p.rate_ai)
    alphas = [1.0]
    for _ in range(cycles):
        alphas.append((1.0 - p.g) ** (1.0 + per * alphas[-1]) * ((1.0 - p.g) * alphas[-1] + p.g))
    return alphas


@check("dcqcn-pace", cost=0.5)
def dcqcn_pace(claim: Claim) -> Finding:
    """Compare the paper's recursion of alpha, and the root of differences in its fluid, with the bound."""
    measured, below, slower = [], [], []
    for name, p in (("default", DCQCN()), ("R_AI = 10 Mb/s", DCQCN(rate_ai=10e6))):
        for flows in (2, 4, 10):
            alpha, cycle = _cycle(p, flows, 1.0)
            min_alpha = min(_synchronized(p, flows, 400))
            bound = -log(1.0 - 0.5 * alpha) / (p.alpha_interval * cycle)
            root = _differences(p, flows, 4e-6)
            if min_alpha < 0.999 * alpha:
                below.append(f"{flows} flows with {name}")
            if root < bound:
                slower.append(f"{flows} flows with {name}")
            measured += [
                Measurement(
                    f"minimum alpha(T_k), {flows} flows, {name}",
                    min_alpha,
                    met=min_alpha >= 0.999 * alpha,
                    note=f"alpha* = {alpha:.4g}",
                ),
                Measurement(
                    f"decay of differences in the fluid, {flows} flows, {name}",
                    root,
                    "1/s",
                    note=f"at least {bound:.3g} 1/s by the theorem",
                    met=root >= bound,
                ),
            ]
    verdict = Verdict.CONFIRMED if not below + slower else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        "Differences decay exponentially in every case. "
        + (
            f"One step of the proof fails: alpha(T_k) falls below alpha* for {', '.join(below)}, because the first "
            "cycle "
            "from alpha = 1 is long enough for alpha to decay further. "
            if below
            else ""
        )
        + (
            f"In the paper's fluid, differences decay more slowly than the bound of the synchronized model for "
            f"{', '.join(slower)}."
            if slower
            else ""
        ),
        measured,
        (),
        ["The paper's synchronized model from alpha = 1; the fluid linearized at a delay of 4 us."],
    )


def _joining(rate_ai: float, flows: int) -> tuple[float, float]:
    """Return the time until a joining flow has 90 % of its fair share [s], and the variation of its share afterwards.

    Rates are averages over 5 ms, and the variation is their standard deviation over the fair rate. Both results are
    means of eight seeds, because the time of one run varies by 10 ms.
    """
    p = DCQCN(rate_ai=rate_ai)
    starts = [0.0] * flows + [0.1]
    network = Network.dumbbell(p.line_rate, [4e-6] * (flows + 1), packet_size=1000, starts=starts)
    times, spreads = [], []
    runs = packet.ensemble(Scenario(network, p, 0.3), seeds=8, series=["rate"], sample=5e-3)
    for share in runs.rate[:, 20:, -1].to_numpy() / (p.line_rate / (flows + 1)):
        reached = int(np.flatnonzero(share >= 0.9)[0])
        times.append(5e-3 * (reached + 1))
        spreads.append(float(share[reached:].std()))
    return float(np.mean(times)), float(np.mean(spreads))


@check("dcqcn-join", cost=4, main=False)
def dcqcn_join(claim: Claim) -> Finding:
    """Run packets of flows that another flow joins at 0.1 s."""
    cases = {"2 flows": (40e6, 2), "2 flows, R_AI = 10 Mb/s": (10e6, 2), "10 flows": (40e6, 10)}
    results = {name: _joining(*case) for name, case in cases.items()}
    measured = [
        Measurement(
            f"{name}: time until the joining flow has 90 % of C/N",
            1e3 * seconds,
            "ms",
            note=f"averages over 5 ms, with a standard deviation of {spread:.0%} afterwards",
        )
        for name, (seconds, spread) in results.items()
    ]
    default, small, ten = (results[name][0] for name in cases)
    verdict = Verdict.CONFIRMED if small > default >= ten else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict if default <= 0.1 else Verdict.REFUTED,
        f"The joining flow takes {1e3 * default:.0f} ms with the defaults, {1e3 * small:.0f} ms with R_AI = 10 Mb/s, "
        f"and {1e3 * ten:.0f} ms if it joins ten flows (means of eight seeds).",
        measured,
        (),
        ["40 Gb/s, packets of 1 kB, RTTs of 4 us; flows start at the rate of the line; 0.25 s."],
    )
