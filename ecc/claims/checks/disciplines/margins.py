"""Checks of the gain margins of PIE, PI2 and DualPI2 over loads and RTTs."""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ecc import plot
from ecc.claims.checks.disciplines.loops import (
    CLOCKED,
    CUBIC_HOST,
    DCTCP_HOST,
    DELAYED_ACKS,
    DUALPI2_BASE,
    FRIENDLY,
    HALF_A_PACKET,
    NEWRENO,
    WINDOWS,
    decibels,
    loaded,
    loop,
    margin,
    proven_within,
    rest,
    scaled,
)
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.queues import PI2, PIE

RTT = 0.1
"""RTT with the queue at its target [s]."""
PROBABILITIES = tuple(share * 10.0**-k for k in range(6, 0, -1) for share in (1.02, 9.8) if share * 10.0**-k < 0.2)
"""Probabilities just above and just below the steps of PIE's gains."""
STATED = 10.0
ENOUGH = 10.0 ** (STATED / 20.0)
"""Stated margin of DualPI2, in dB and as a gain."""
MODEL = (
    "Equal flows fill one queue; marks are a mean rate, updates of the discipline are spread evenly over their "
    "interval, and delays are exact. In the ACK-clocked model the window equals the data in flight; in the "
    "rate-clocked "
    "model the queue integrates window/RTT, as in Misra, Gong, Towsley 2000."
)
ONE_QUEUE = (
    "One controller drives both queues of DualPI2 by the larger delay; it is analyzed over one queue, without the step "
    "at 1 ms."
)
UPPER_BOUND = (
    "One window represents all flows, which gives an upper bound for packets. docs/queue_disciplines.md has margins of "
    "packets, of hosts that stop at a mark, and of hosts that reduce over an RTT."
)


@lru_cache
def _over_p(discipline: Any, clocking: str) -> tuple[list[float], list[float]]:
    """Return gain margins [dB] and decay rates [1/s] of NewReno at each probability."""
    margins, decays = [], []
    for p in PROBABILITIES:
        window = sqrt(2.0 / p)
        margins.append(float(decibels(margin(NEWRENO, discipline, RTT, window, clocking))))
        decays.append(-loop(NEWRENO, discipline, RTT, window, clocking).spectral_abscissa)
    return margins, decays


def _of_probabilities(name: str, discipline: Any) -> tuple[list[Measurement], dict[str, list[float]], dict[str, Any]]:
    """Return measurements of both models, their margins, and their minimum margins and decay rates."""
    measured, curves, minimum = [], {}, {}
    for clocking in ("ack", "rate"):
        margins, decays = _over_p(discipline, clocking)
        at, stable = int(np.argmin(margins)), min(margins) > 0.0
        minimum[clocking] = (margins[at], min(decays), max(margins) - margins[at])
        curves[f"{name}, {CLOCKED[clocking]}"] = margins
        note = f"maximum {max(margins):.1f} dB; slowest decay {min(decays):.3g}/s, fastest {max(decays):.3g}/s"
        measured.append(
            Measurement(
                f"{name}, {CLOCKED[clocking]}: minimum gain margin",
                margins[at] if stable else "unstable",
                "dB" if stable else "",
                note=f"at p = {PROBABILITIES[at]:.3g}; {note}",
                met=stable,
            )
        )
    return measured, curves, minimum


def _margin_figure(curves: dict[str, Any], x: Any, x_title: str, stated: dict[str, Any], title: str) -> Any:
    return plot.boundary_figure(x, curves, stated, None, x_title, "gain margin [dB]", title=title)


@check("pie-gains", cost=3, group="pi2")
def pie_gains(claim: Claim) -> Finding:
    """Compute margins of PIE under NewReno at the ends of each range of its gains, in both models."""
    measured, curves, minimum = _of_probabilities("PIE", PIE(mark=True))
    stable = {clocking: values[0] > 0.0 for clocking, values in minimum.items()}
    reason = (
        f"In the ACK-clocked model PIE's margin is at least {minimum['ack'][0]:.1f} dB; it is smallest just above a "
        f"step and varies by {minimum['ack'][2]:.1f} dB over the probability. In the rate-clocked model the loop is "
        f"{'stable, too' if stable['rate'] else 'unstable just above some steps of the gains'}."
    )
    title = f"Gain margins of PIE, RTT {1e3 * RTT:g} ms"
    drawn = {name: np.where(np.isfinite(values), values, np.nan) for name, values in curves.items()}
    figure = _margin_figure(drawn, PROBABILITIES, "drop probability", {}, title)
    verdict = (
        Verdict.CONFIRMED if all(stable.values()) else Verdict.CONDITIONAL if any(stable.values()) else Verdict.REFUTED
    )
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, "A gap: unstable.")], [MODEL])


@check("pi2-gains", cost=3, group="pi2")
def pi2_gains(claim: Claim) -> Finding:
    """Compare PI2 and PIE at the same probabilities: minimum margins and slowest decay rates."""
    measured, curves, minimum = _of_probabilities("PI2", PI2(mark=True))
    pie_measured, more, pie = _of_probabilities("PIE", PIE(mark=True))
    better = {c: minimum[c][0] >= pie[c][0] and minimum[c][1] >= pie[c][1] for c in minimum}
    p = next(q for q in PROBABILITIES if q > 0.05)
    late = {
        name: -loop(NEWRENO, q, RTT, sqrt(2.0 / p)).spectral_abscissa
        for name, q in (("PI2", PI2(mark=True)), ("PIE", PIE(mark=True)))
    }
    reason = (
        f"In the ACK-clocked model PI2's margin is at least {minimum['ack'][0]:.1f} dB and varies by "
        f"{minimum['ack'][2]:.1f} dB; PIE's margin is at least {pie['ack'][0]:.1f} dB and varies by "
        f"{pie['ack'][2]:.1f} dB. The slowest decay rates are {minimum['ack'][1]:.2g}/s and {pie['ack'][1]:.2g}/s. At "
        f"p = {p:.2g} PIE decays at {late['PIE']:.2g}/s, PI2 at {late['PI2']:.2g}/s. In the rate-clocked model "
        f"{'both are' if pie['rate'][0] <= 0.0 else 'PI2, but not PIE, is'} unstable at some probabilities."
        if minimum["rate"][0] <= 0.0
        else "PI2 is at least as good in both models."
    )
    verdict = (
        Verdict.CONFIRMED if all(better.values()) else Verdict.CONDITIONAL if any(better.values()) else Verdict.REFUTED
    )
    title = f"Gain margins of PI2 and PIE, RTT {1e3 * RTT:g} ms"
    drawn = {name: np.where(np.isfinite(values), values, np.nan) for name, values in (curves | more).items()}
    figure = _margin_figure(drawn, PROBABILITIES, "drop probability", {}, title)
    return Finding(
        claim, verdict, reason, [*measured, *pie_measured], [Picture.of(figure, title, "A gap: unstable.")], [MODEL]
    )


HOSTS = {
    "NewReno, an ACK for each packet": NEWRENO,
    "NewReno, delayed ACKs counted": DELAYED_ACKS,
    "CUBIC, Reno-friendly": FRIENDLY,
    "half a packet less per mark": HALF_A_PACKET,
    "DCTCP's average of marks": DCTCP_HOST,
}


def _reach(host: Any, window: float, gain: float) -> float:
    """Return the maximum RTT, which includes the queue, with at least this gain margin [s]."""

    def lacking(logarithm: float) -> float:
        stiff = margin(host, scaled(DUALPI2_BASE, gain), float(np.exp(logarithm)), window)
        return log(stiff) if stiff > 0.0 else -1.0

    return float(np.exp(brentq(lacking, log(0.03), log(0.4), xtol=1e-3)))


def _roots(host: Any, windows: Any = WINDOWS, rtt: float = RTT) -> list[float]:
    """Return p' at each window."""
    networks = (loaded(host, DUALPI2_BASE, rtt, window) for window in windows)
    return [float(rest(host, DUALPI2_BASE, network).states[0]["root"]) for network in networks]


@check("dualpi2-margin", cost=5)
def dualpi2_margin(claim: Claim) -> Finding:
    """Compute margins of several hosts at the stated RTT, and gains that provably have 10 dB for all of them."""
    measured, points, reached, proofs = [], {}, {}, []
    for name, host in HOSTS.items():
        margins = [margin(host, DUALPI2_BASE, RTT, window) for window in WINDOWS]
        levels = decibels(margins)
        worst = int(np.argmin(margins))
        proof = proven_within(host, DUALPI2_BASE, RTT, WINDOWS[worst], margins[worst])
        proofs.append(proof)
        reached[name] = float(levels.min())
        roots = _roots(host)
        points[name] = (roots, levels, None)
        measured.append(
            Measurement(
                f"{name}: minimum margin at an RTT of {1e3 * RTT:g} ms",
                reached[name],
                "dB",
                STATED,
                f"p' = {roots[worst]:.3g}; maximum {levels.max():.1f} dB; the limit is "
                f"{'' if proof else 'not '}proven from both sides",
                met=reached[name] >= STATED,
            )
        )
    base = RTT + float(DUALPI2_BASE.target)
    share = min(margin(host, DUALPI2_BASE, base, window) for host in HOSTS.values() for window in WINDOWS)
    share = float(f"{0.999 * share / ENOUGH:.3f}")
    gains = scaled(DUALPI2_BASE, share)
    at_limit = scaled(gains, ENOUGH)
    proven = [
        loop(host, at_limit, rtt, window).certify().stable is True
        for host in HOSTS.values()
        for rtt in (0.03, base)
        for window in WINDOWS
    ]
    measured.append(
        Measurement(
            "factor of the default gains for 10 dB with each of these hosts up to a base RTT of 100 ms",
            share,
            note=f"alpha = {gains.alpha:.4g}, beta = {gains.beta:.4g}; stable with 10 dB more, proven "
            f"for {sum(proven)} of {len(proven)} loops with RTTs of 30 and {1e3 * base:g} ms",
            met=all(proven),
        )
    )
    have = [name for name, minimum in reached.items() if minimum >= STATED]
    lack = [f"{minimum:.1f} dB for {name}" for name, minimum in reached.items() if minimum < STATED]
    verdict = Verdict.CONFIRMED if not lack else Verdict.CONDITIONAL if have else Verdict.REFUTED
    reason = (
        f"At 100 ms with the queue the margin is at least {STATED:g} dB for {', '.join(have) or 'no host'}"
        f"{'; it is ' if lack else ''}{', '.join(lack)}."
    )
    title = f"Gain margins of DualPI2's defaults, RTT {1e3 * RTT:g} ms"
    figure = plot.boundary_figure(
        np.array([1e-3, 1.0]), {}, {"stated": [STATED, STATED]}, points, "p'", "gain margin [dB]", title=title
    )
    caption = "Over the output p' of the controller; classic flows receive its square, scalable ones twice p'."
    pictures = [Picture.of(figure, title, caption)]
    return Finding(claim, verdict, reason, measured, pictures, [MODEL, ONE_QUEUE, UPPER_BOUND])


@check("dualpi2-stable", cost=12, main=False)
def dualpi2_stable(claim: Claim) -> Finding:
    """Compute the maximum RTTs with which each loop is stable and has the stated margin, over windows."""
    windows = (WINDOWS[1], WINDOWS[2], WINDOWS[-1])
    measured, curves, within = [], {}, {}
    for name, host in HOSTS.items():
        limits, reach = (np.array([1e3 * _reach(host, window, gain) for window in windows]) for gain in (1.0, ENOUGH))
        curves[name], within[name] = limits, reach
        low, at = float(limits.min()), windows[int(np.argmin(limits))]
        sides = [loop(host, DUALPI2_BASE, 1e-3 * low * f, at).certify().stable for f in (0.99, 1.01)]
        sign = "" if sides == [True, False] else "not "
        sizes = ", ".join(f"{window:g}" for window in windows)
        measured += [
            Measurement(
                f"{name}: maximum RTT for stability",
                low,
                "ms",
                met=low > 1e3 * RTT,
                note=f"{', '.join(f'{v:.0f}' for v in limits)} ms with windows of {sizes} packets; {sign}"
                "proven stable 1 % below and unstable 1 % above",
            ),
            Measurement(
                f"{name}: maximum RTT for a margin of {STATED:g} dB",
                float(reach.min()),
                "ms",
                note=f"{', '.join(f'{v:.0f}' for v in reach)} ms with windows of {sizes} packets",
            ),
        ]
    first, last = (float(f(values.min() for values in curves.values())) for f in (min, max))
    reason = (
        f"The first of these loops loses stability at an RTT of {first:.0f} ms with the queue, the last at {last:.0f} "
        "ms; the gains are designed for 100 ms."
    )
    pictures = []
    for title, reached in (("are stable", curves), (f"have a margin of {STATED:g} dB", within)):
        title = f"Maximum RTTs with which DualPI2's defaults {title}"
        figure = plot.boundary_figure(
            windows,
            reached,
            {"max_rtt": [1e3 * RTT] * len(windows)},
            None,
            "window [packets]",
            "RTT with the queue [ms]",
            title=title,
        )
        pictures.append(Picture.of(figure, title, "Below the line of a host."))
    verdict = Verdict.CONDITIONAL if first > 1e3 * RTT else Verdict.REFUTED
    return Finding(claim, verdict, reason, measured, pictures, [MODEL, ONE_QUEUE])


@check("dualpi2-cubic", cost=7, main=False)
def dualpi2_cubic(claim: Claim) -> Finding:
    """Compute margins under CUBIC's laws."""
    measured, curves = [], {}
    for rtt in (RTT, RTT + float(DUALPI2_BASE.target)):
        margins = np.array([margin(CUBIC_HOST, DUALPI2_BASE, rtt, window) for window in WINDOWS])
        levels = np.where(np.isnan(margins), np.nan, decibels(np.nan_to_num(margins)))
        curves[f"RTT {1e3 * rtt:g} ms"] = levels
        missing = int(np.isnan(levels).sum())
        low = float(np.nanmin(levels))
        note = f"maximum {np.nanmax(levels):.1f} dB; {missing} of {len(WINDOWS)} loads have no linear model"
        stated = STATED if rtt <= RTT else None
        measured.append(
            Measurement(
                f"CUBIC: minimum margin at an RTT of {1e3 * rtt:g} ms",
                low,
                "dB",
                stated,
                note,
                met=low >= STATED if stated else None,
            )
        )
    low, high = (float(f(curves[f"RTT {1e3 * RTT:g} ms"])) for f in (np.nanmin, np.nanmax))
    verdict = Verdict.CONFIRMED if low >= STATED else Verdict.CONDITIONAL if high >= STATED else Verdict.REFUTED
    title = "Gain margins of DualPI2's defaults under CUBIC"
    figure = _margin_figure(curves, WINDOWS, "window [packets]", {"stated": [STATED] * len(WINDOWS)}, title)
    caption = "A gap: no linear model, because the law switches at the equilibrium or no equilibrium was found."
    reason = f"At an RTT of 100 ms with the queue the margin is {low:.1f} to {high:.1f} dB, depending on the load."
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, caption)], [MODEL, ONE_QUEUE])
