"""Checks of the margins of PIE, PI2 and DualPI2 over loads and RTTs."""

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
"""With the queue at its target [s]."""
PROBABILITIES = tuple(share * 10.0**-k for k in range(6, 0, -1) for share in (1.02, 9.8) if share * 10.0**-k < 0.2)
"""Just above and just below the steps of PIE's gains."""
STATED = 10.0
ENOUGH = 10.0 ** (STATED / 20.0)
"""Margin that is stated for DualPI2, in dB and as a gain."""
MODEL = (
    "Equal flows fill one queue; marks are a mean rate, the steps of the discipline are spread evenly over their "
    "interval, delays are exact. Clocked by ACKs a window is what is on its way; clocked by rates the queue integrates "
    "window/RTT, as in Misra, Gong, Towsley 2000."
)
ONE_QUEUE = (
    "Both queues of DualPI2 are driven by one controller, on the larger delay; it is taken over one queue, without the "
    "step at 1 ms."
)
UPPER_BOUND = (
    "One window stands for all, which is an upper bound for packets; docs/queue_disciplines.md has margins of packets, "
    "of hosts that stop at a mark and of hosts that reduce over an RTT."
)


@lru_cache
def _over_p(discipline: Any, clocking: str) -> tuple[list[float], list[float]]:
    """Gain margins [dB] and decays [1/s] of NewReno at each probability."""
    margins, decays = [], []
    for p in PROBABILITIES:
        window = sqrt(2.0 / p)
        margins.append(float(decibels(margin(NEWRENO, discipline, RTT, window, clocking))))
        decays.append(-loop(NEWRENO, discipline, RTT, window, clocking).spectral_abscissa)
    return margins, decays


def _of_probabilities(name: str, discipline: Any) -> tuple[list[Measurement], dict[str, list[float]], dict[str, Any]]:
    """Least margins and decays of both models, the margins, and their least."""
    found, curves, least = [], {}, {}
    for clocking in ("ack", "rate"):
        margins, decays = _over_p(discipline, clocking)
        at, stable = int(np.argmin(margins)), min(margins) > 0.0
        least[clocking] = (margins[at], min(decays), max(margins) - margins[at])
        curves[f"{name}, {CLOCKED[clocking]}"] = margins
        note = f"largest {max(margins):.1f} dB; slowest decay {min(decays):.3g}/s, fastest {max(decays):.3g}/s"
        found.append(
            Measurement(f"{name}, {CLOCKED[clocking]}: least gain margin",
                        margins[at] if stable else "unstable", "dB" if stable else "",
                        note=f"at p = {PROBABILITIES[at]:.3g}; {note}", met=stable)
        )  # fmt: skip
    return found, curves, least


def _margin_figure(curves: dict[str, Any], x: Any, x_title: str, stated: dict[str, Any], title: str) -> Any:
    return plot.boundary_figure(x, curves, stated, None, x_title, "gain margin [dB]", title=title)


@check("pie-gains", cost=3, group="pi2")
def pie_gains(claim: Claim) -> Finding:
    """PIE under NewReno at the ends of each of its ranges, in both models."""
    found, curves, least = _of_probabilities("PIE", PIE(mark=True))
    stable = {clocking: values[0] > 0.0 for clocking, values in least.items()}
    reason = (
        f"Clocked by ACKs its margin is {least['ack'][0]:.1f} dB or more, least right above a step, and varies by "
        f"{least['ack'][2]:.1f} dB over the probability; clocked by rates the loop is "
        f"{'stable, too' if stable['rate'] else 'unstable right above some steps of the gains'}."
    )
    title = f"Gain margins of PIE, RTT {1e3 * RTT:g} ms"
    drawn = {name: np.where(np.isfinite(values), values, np.nan) for name, values in curves.items()}
    figure = _margin_figure(drawn, PROBABILITIES, "drop probability", {}, title)
    verdict = (
        Verdict.CONFIRMED if all(stable.values()) else Verdict.CONDITIONAL if any(stable.values()) else Verdict.REFUTED
    )
    return Finding(claim, verdict, reason, found, [Picture.of(figure, title, "A gap: unstable.")], [MODEL])


@check("pi2-gains", cost=3, group="pi2")
def pi2_gains(claim: Claim) -> Finding:
    """PI2 and PIE at the same probabilities: least margins and slowest decays."""
    measured, curves, least = _of_probabilities("PI2", PI2(mark=True))
    others, more, pie = _of_probabilities("PIE", PIE(mark=True))
    better = {c: least[c][0] >= pie[c][0] and least[c][1] >= pie[c][1] for c in least}
    p = next(q for q in PROBABILITIES if q > 0.05)
    late = {name: -loop(NEWRENO, q, RTT, sqrt(2.0 / p)).spectral_abscissa
            for name, q in (("PI2", PI2(mark=True)), ("PIE", PIE(mark=True)))}  # fmt: skip
    reason = (
        f"Clocked by ACKs PI2's margin is {least['ack'][0]:.1f} dB at least and varies by {least['ack'][2]:.1f} dB, "
        f"PIE's {pie['ack'][0]:.1f} dB and {pie['ack'][2]:.1f} dB; the slowest decays are {least['ack'][1]:.2g}/s and "
        f"{pie['ack'][1]:.2g}/s. At p = {p:.2g} PIE decays at {late['PIE']:.2g}/s, PI2 at {late['PI2']:.2g}/s. "
        f"Clocked by rates {'both' if pie['rate'][0] <= 0.0 else 'PI2, not PIE,'} lose stability somewhere."
        if least["rate"][0] <= 0.0
        else "PI2 is no worse in either model."
    )
    verdict = (
        Verdict.CONFIRMED if all(better.values()) else Verdict.CONDITIONAL if any(better.values()) else Verdict.REFUTED
    )
    title = f"Gain margins of PI2 and PIE, RTT {1e3 * RTT:g} ms"
    drawn = {name: np.where(np.isfinite(values), values, np.nan) for name, values in (curves | more).items()}
    figure = _margin_figure(drawn, PROBABILITIES, "drop probability", {}, title)
    return Finding(
        claim, verdict, reason, [*measured, *others], [Picture.of(figure, title, "A gap: unstable.")], [MODEL]
    )


HOSTS = {
    "NewReno, an ACK for each packet": NEWRENO,
    "NewReno that counts ACKs, delayed": DELAYED_ACKS,
    "CUBIC as friendly to Reno": FRIENDLY,
    "half a packet less for each mark": HALF_A_PACKET,
    "DCTCP's average of marks": DCTCP_HOST,
}


def _reach(host: Any, window: float, least: float) -> float:
    """The RTT, queue included, up to which the margin is that large [s]."""

    def lacking(logarithm: float) -> float:
        stiff = margin(host, scaled(DUALPI2_BASE, least), float(np.exp(logarithm)), window)
        return log(stiff) if stiff > 0.0 else -1.0

    return float(np.exp(brentq(lacking, log(0.03), log(0.4), xtol=1e-3)))


def _roots(host: Any, windows: Any = WINDOWS, rtt: float = RTT) -> list[float]:
    """p' at each window."""
    networks = (loaded(host, DUALPI2_BASE, rtt, window) for window in windows)
    return [float(rest(host, DUALPI2_BASE, network).states[0]["root"]) for network in networks]


@check("dualpi2-margin", cost=5)
def dualpi2_margin(claim: Claim) -> Finding:
    """Margins of several hosts at the RTT that is stated; how far 10 dB reach; gains that have them, proven."""
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
            Measurement(f"{name}: least margin at an RTT of {1e3 * RTT:g} ms", reached[name], "dB", STATED,
                        f"p' = {roots[worst]:.3g}; {levels.max():.1f} dB at most; the limit is "
                        f"{'' if proof else 'not '}proven from both sides",
                        met=reached[name] >= STATED)
        )  # fmt: skip
    base = RTT + float(DUALPI2_BASE.target)
    share = min(margin(host, DUALPI2_BASE, base, window) for host in HOSTS.values() for window in WINDOWS)
    share = float(f"{0.999 * share / ENOUGH:.3f}")
    gains = scaled(DUALPI2_BASE, share)
    at_limit = scaled(gains, ENOUGH)
    proven = [
        loop(host, at_limit, rtt, window).certify().stable is True
        for host in HOSTS.values() for rtt in (0.03, base) for window in WINDOWS
    ]  # fmt: skip
    measured.append(
        Measurement("share of the default gains that has 10 dB for each of these hosts up to a base RTT of 100 ms",
                    share, note=f"alpha = {gains.alpha:.4g}, beta = {gains.beta:.4g}; stable with 10 dB more, proven "
                    f"for {sum(proven)} of {len(proven)} loops with RTTs of 30 and {1e3 * base:g} ms", met=all(proven))
    )  # fmt: skip
    have = [name for name, least in reached.items() if least >= STATED]
    lack = [f"{least:.1f} dB for {name}" for name, least in reached.items() if least < STATED]
    verdict = Verdict.CONFIRMED if not lack else Verdict.CONDITIONAL if have else Verdict.REFUTED
    reason = f"At 100 ms with the queue it holds for {', '.join(have) or 'none'}; {', '.join(lack) or 'none lacks it'}."
    title = f"Gain margins of DualPI2's defaults, RTT {1e3 * RTT:g} ms"
    figure = plot.boundary_figure(
        np.array([1e-3, 1.0]), {}, {"stated": [STATED, STATED]}, points, "p'", "gain margin [dB]", title=title
    )
    caption = "Over the output p' of the controller; classic flows receive its square, scalable ones twice p'."
    pictures = [Picture.of(figure, title, caption)]
    return Finding(claim, verdict, reason, measured, pictures, [MODEL, ONE_QUEUE, UPPER_BOUND])


@check("dualpi2-stable", cost=12, main=False)
def dualpi2_stable(claim: Claim) -> Finding:
    """The RTTs up to which each loop is stable, and has the margin that is stated, over windows."""
    windows = (WINDOWS[1], WINDOWS[2], WINDOWS[-1])
    measured, curves, within = [], {}, {}
    for name, host in HOSTS.items():
        limits, reach = (np.array([1e3 * _reach(host, window, gain) for window in windows]) for gain in (1.0, ENOUGH))
        curves[name], within[name] = limits, reach
        low, at = float(limits.min()), windows[int(np.argmin(limits))]
        sides = [loop(host, DUALPI2_BASE, 1e-3 * low * f, at).certify().stable for f in (0.99, 1.01)]
        said = "" if sides == [True, False] else "not "
        sizes = ", ".join(f"{window:g}" for window in windows)
        measured += [
            Measurement(f"{name}: RTT up to which it is stable", low, "ms", met=low > 1e3 * RTT,
                        note=f"{', '.join(f'{v:.0f}' for v in limits)} ms with windows of {sizes} packets; {said}"
                        "proven stable 1 % below and unstable 1 % above"),
            Measurement(f"{name}: RTT up to which it has {STATED:g} dB", float(reach.min()), "ms",
                        note=f"{', '.join(f'{v:.0f}' for v in reach)} ms with windows of {sizes} packets"),
        ]  # fmt: skip
    least, most = (float(f(values.min() for values in curves.values())) for f in (min, max))
    reason = (
        f"The first of these loops loses stability at an RTT of {least:.0f} ms with the queue, the last at {most:.0f} "
        "ms; the gains are for 100 ms."
    )
    pictures = []
    for title, reached in (("are stable", curves), (f"have a margin of {STATED:g} dB", within)):
        title = f"RTTs up to which DualPI2's defaults {title}"
        figure = plot.boundary_figure(
            windows, reached, {"max_rtt": [1e3 * RTT] * len(windows)}, None, "window [packets]",
            "RTT with the queue [ms]", title=title,
        )  # fmt: skip
        pictures.append(Picture.of(figure, title, "Below the line of a host."))
    verdict = Verdict.CONDITIONAL if least > 1e3 * RTT else Verdict.REFUTED
    return Finding(claim, verdict, reason, measured, pictures, [MODEL, ONE_QUEUE])


@check("dualpi2-cubic", cost=7, main=False)
def dualpi2_cubic(claim: Claim) -> Finding:
    """The same under CUBIC's own laws."""
    measured, curves = [], {}
    for rtt in (RTT, RTT + float(DUALPI2_BASE.target)):
        margins = np.array([margin(CUBIC_HOST, DUALPI2_BASE, rtt, window) for window in WINDOWS])
        levels = np.where(np.isnan(margins), np.nan, decibels(np.nan_to_num(margins)))
        curves[f"RTT {1e3 * rtt:g} ms"] = levels
        missing = int(np.isnan(levels).sum())
        low = float(np.nanmin(levels))
        note = f"largest {np.nanmax(levels):.1f} dB; {missing} of {len(WINDOWS)} loads have no linear model"
        stated = STATED if rtt <= RTT else None
        measured.append(
            Measurement(f"CUBIC: least margin at an RTT of {1e3 * rtt:g} ms", low, "dB", stated, note,
                        met=low >= STATED if stated else None)
        )  # fmt: skip
    low, high = (float(f(curves[f"RTT {1e3 * RTT:g} ms"])) for f in (np.nanmin, np.nanmax))
    verdict = Verdict.CONFIRMED if low >= STATED else Verdict.CONDITIONAL if high >= STATED else Verdict.REFUTED
    title = "Gain margins of DualPI2's defaults under CUBIC"
    figure = _margin_figure(curves, WINDOWS, "window [packets]", {"stated": [STATED] * len(WINDOWS)}, title)
    caption = "A gap: no linear model, as the law switches at the equilibrium or none was found."
    reason = f"At an RTT of 100 ms with the queue its margin is {low:.1f} to {high:.1f} dB, by the load."
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, caption)], [MODEL, ONE_QUEUE])
