"""Check of the claim that CUBIC is stable as fluid: linear part, what decides where that does not, and runs.

    M' = -(M - W) l(t - tau)     s' = 1 - s l(t - tau)     W = c (s - K)^3 + M     K = cbrt(b M/c)
    l = max(W/tau - C, 0)        losses per second: what a window sends beyond the capacity

    M  window at the last loss [packets]   s  time since [s]   W  window   b = 1 - beta   C  capacity [packets/s]

At equilibrium s = K = 1/l. The cubic is flat there, W - M is of third order, and the linear part is m' = 0, with one
root at 0, and z' = -l z - m(t - tau) l_W/l for the deviation z of s, whose root is -l: no delay is in a loop, and the
linear model decides nothing. What decides is the slow motion of m along the centre manifold, s - K = -kappa m:

    m' = -c l kappa^3 m^3        kappa = l_W/l^2 + K/(3 M) > 0,  l_W = 1/tau
    m(t) = m(0)/sqrt(1 + 2 c l kappa^3 m(0)^2 t)

which is stable for all C, tau, b and c, but as t^(-1/2), not exponentially, and where it is slow beside l.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc.claims.checks.common.bisection import narrowed
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.fluid import solve_dde
from ecc.linear import DelaySystem
from ecc.models import CUBIC
from ecc.plot.states import states_figure

FloatArray = NDArray[np.float64]
STEEPNESS, CUT = CUBIC().C, 1.0 - CUBIC().beta
LOOPS = ((10.0, 1.0), (100.0, 0.1), (1000.0, 0.01), (1000.0, 0.1), (100.0, 1.0), (8333.0, 0.1))
"""Capacities [packets/s] and RTTs [s]; 8333 packets of 1500 bytes are 100 Mb/s."""
LARGEST = 0.3  # of the window, perturbations
SLOW = 0.005  # relative decay of m, beside l


class Point(NamedTuple):
    """Equilibrium M [packets], s [s], and kappa [s/packet]."""

    M: float
    s: float
    kappa: float


def derivative(t: float, y: FloatArray, ylag: FloatArray, c: float, b: float, C: float, tau: float) -> FloatArray:
    """The fluid."""
    M, s = y
    M_then, s_then = ylag[0]
    W = c * (s - (b * M / c) ** (1.0 / 3.0)) ** 3 + M
    W_then = c * (s_then - (b * M_then / c) ** (1.0 / 3.0)) ** 3 + M_then
    losses = max(W_then / tau - C, 0.0)
    return np.array([-(M - W) * losses, 1.0 - s * losses])


def equilibrium(capacity: float, rtt: float) -> Point:
    """Return where losses come as often as windows return to their maximum."""
    least = capacity * rtt

    def beyond(M: float) -> float:
        return float((M / rtt - capacity) * (CUT * M / STEEPNESS) ** (1.0 / 3.0) - 1.0)

    M = float(brentq(beyond, least, 100.0 * least + 100.0, xtol=1e-13 * least, rtol=1e-15))
    s = (CUT * M / STEEPNESS) ** (1.0 / 3.0)
    return Point(M, s, s * s / rtt + s / (3.0 * M))


def run(
    capacity: float, rtt: float, m: float, s: float, duration: float, rtol: float = 1e-8
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return times [s], M and W [packets] of a run from M higher by m, and s."""
    point = equilibrium(capacity, rtt)
    found = solve_dde(
        derivative, (0.0, duration), np.array([point.M + m, s]), [rtt], rtol=rtol, atol=0.1 * rtol,
        max_step=0.2 * point.s, args=(STEEPNESS, CUT, capacity, rtt),
    )  # fmt: skip
    M, s_then = found.y
    return found.t, M, STEEPNESS * (s_then - np.cbrt(CUT * M / STEEPNESS)) ** 3 + M


def perturbed(capacity: float, rtt: float, share: float, duration: float) -> tuple[FloatArray, FloatArray]:
    """Return times [s] and windows [packets] of a run from a window, and last maximum, larger by a share."""
    m = share * equilibrium(capacity, rtt).M
    t, _, W = run(capacity, rtt, m, float(np.cbrt(CUT * (m / share + m) / STEEPNESS)), duration)
    return t, W


def horizon(point: Point, rtt: float) -> float:
    """Return the duration of a run: a hundred times between losses, or RTTs."""
    return 100.0 * max(point.s, rtt)


def returns(capacity: float, rtt: float, share: float) -> bool:
    """Whether the window comes back from a perturbation by a share of it."""
    point = equilibrium(capacity, rtt)
    t, W = perturbed(capacity, rtt, share, horizon(point, rtt))
    late = np.abs(W[t > 0.8 * t[-1]] - point.M)
    return bool(late.max() < share * point.M)


@lru_cache
def basin(capacity: float, rtt: float) -> tuple[float, float]:
    """Return shares of the window from which it comes back, and from which it does not, a fifth apart."""
    if returns(capacity, rtt, LARGEST):
        return LARGEST, LARGEST
    low, high = narrowed(-8.0, np.log(LARGEST), 0.2, lambda log: returns(capacity, rtt, float(np.exp(log))))
    return float(np.exp(low)), float(np.exp(high))


@check("cubic-stable", cost=4, main=False)
def cubic_stable(claim: Claim) -> Finding:
    """Roots, the slow motion that decides, and how far from equilibrium it does."""
    measured, off, shares = [], [], {}
    for capacity, rtt in LOOPS:
        point = equilibrium(capacity, rtt)
        losses, name = 1.0 / point.s, f"{capacity:g} packets/s, {1e3 * rtt:g} ms"
        now, then = np.diag([0.0, -losses]), np.array([[0.0, 0.0], [-point.s / rtt, 0.0]])
        roots = DelaySystem([now, then], [0.0, rtt]).roots(2)
        m = sqrt(SLOW / (STEEPNESS * point.kappa**3))
        duration = 4.0 / (SLOW * losses)  # until a third is left
        slow = point.s - m * point.s**2 / rtt
        found = float(run(capacity, rtt, m, slow, duration, rtol=1e-12)[1][-1]) - point.M
        stated = m / 3.0
        off.append(abs(found / stated - 1.0))
        shares[name] = basin(capacity, rtt)
        low, high = shares[name]
        measured.append(
            Measurement(f"{name}: m(t)/m(0), t = {duration:.3g} s", found / m, reported=stated / m, met=off[-1] < 0.05,
                        note=f"window {point.M:.1f} packets, roots {roots[0].real:.2g} and {roots[1].real:.3g}/s")
        )  # fmt: skip
        measured.append(
            Measurement(f"{name}: comes back from", 100.0 * low, "% of its window",
                        note="or more" if low == high else f"not from {100.0 * high:.3g} %")
        )  # fmt: skip
    least = min(low for low, high in shares.values())
    lasting = [name for name, (low, high) in shares.items() if low < high]
    return Finding(
        claim, Verdict.CONFIRMED if max(off) < 0.05 else Verdict.REFUTED,
        "The linear part has a root at 0 for all parameters; the slow motion that decides is stable for all of them, "
        f"as t^(-1/2), and runs follow it to {max(off):.1%}. In {len(lasting)} of {len(LOOPS)} loops a "
        f"larger perturbation, in one from {100.0 * least:.2g} % of the window on, ends in lasting oscillations."
        if lasting else f"Stable, as t^(-1/2), from {LARGEST:.0%} of the window in all loops.",
        measured, [picture()],
        ["Constant RTTs, no buffer, losses p = max(1 - C tau/W, 0), C = 0.4 and beta = 0.7 of RFC 9438. The "
         "equations are quoted from memory; of the paper its abstract was read."],
    )  # fmt: skip


def picture() -> Picture:
    """Return windows on both sides of what an equilibrium recovers from."""
    capacity, rtt = LOOPS[-1]
    point = equilibrium(capacity, rtt)
    low, high = basin(capacity, rtt)
    times = np.linspace(0.0, 40.0 * point.s, 2001)
    series = {}
    for share in (0.9 * low, 1.1 * high):
        t, W = perturbed(capacity, rtt, share, float(times[-1]))
        series[f"from {100.0 * share:.2g} % more"] = np.interp(times, t, W)
    return Picture.of(
        states_figure(times, {"window [packets]": series}), "CUBIC as fluid on both sides of what it recovers from",
        "100 Mb/s, RTT 100 ms: a locally stable equilibrium beside lasting oscillations.",
    )  # fmt: skip
