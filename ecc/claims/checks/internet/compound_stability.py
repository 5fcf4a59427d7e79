"""Check of the stability condition of the fluid model of Compound over small buffers, and of the Hopf bifurcation.

    w'(t) = w(t - tau)/tau {i(w) [1 - p(t - tau)] - d(w) p(t - tau)}      i = alpha w^(k-1),  d = beta w
    p = [w/(C tau)]^B                                                     overflows of B packets, or p = 1 - C tau/w

    w  window [packets]   C  capacity of a flow [packets/s]   tau  RTT

i is the increase per ACK with short queues, and d the decrease per loss. At equilibrium p = i/(i + d), and near it

    u' = -a u(t) - b u(t - tau),     a tau = (2 - k) d p,     b tau = B i     (d without a buffer)

Because i (1 - p) = d p, w (d' p - i' (1 - p)) is d p + (1 - k) i (1 - p) = (2 - k) d p, and w (i + d) p' is i w p'/p.
The equilibrium is therefore stable if and only if b <= a or tau sqrt(b^2 - a^2) < arccos(-a/b), for which
B alpha w^(k-1) < pi/2 is sufficient: it oscillates if the buffer is too large or the window too small. The terms of
second and third order decide if the bifurcation is supercritical (first Lyapunov coefficient, Kuznetsov).
"""

from __future__ import annotations

import cmath
from math import acos, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.fluid import solve_dde
from ecc.laws.elementary import exp, log
from ecc.laws.jets import taylor
from ecc.linear import DelaySystem
from ecc.models import Compound
from ecc.plot.states import states_figure

FloatArray = NDArray[np.float64]
WINDOWS = (10.0, 50.0, 100.0, 1000.0)  # packets
NEAR = 1e-6  # relative distance of the certificates from the boundary
FAR = 0.05  # relative distance of runs from the boundary
RENO_FACTOR = 1.1415
DURATION = 120.0  # RTTs


class Loop(NamedTuple):
    """Gains `a` and `b` of the loop [1/RTT], and p and C tau [packets] at equilibrium."""

    a: float
    b: float
    p: float
    pipe: float

    @property
    def excess(self) -> float:
        """Signed distance from the stability boundary; negative if the loop is stable."""
        if self.b <= self.a:
            return -1.0
        return sqrt(self.b**2 - self.a**2) - acos(-self.a / self.b)


def loop(w: float, B: float | None, alpha: float, beta: float, k: float) -> Loop:
    """Return the loop at a window [packets].

    Parameters
    ----------
    w : float
    B : float or None
        Buffer in packets; if None, the link has no buffer and loses all excess packets.
    alpha, beta, k : float
        Parameters of Compound; 1, 1/2 and 0 give Reno.
    """
    i, d = alpha * w ** (k - 1.0), beta * w
    p = i / (i + d)
    pipe = w * (1.0 - p) if B is None else w / p ** (1.0 / B)
    return Loop((2.0 - k) * d * p, d if B is None else B * i, p, pipe)


def critical_buffer(w: float, alpha: float, beta: float, k: float) -> float:
    """Return the buffer [packets] at which the loop loses stability."""
    i = alpha * w ** (k - 1.0)
    return float(brentq(lambda B: loop(w, B, alpha, beta, k).excess, 1.0 / i, 20.0 / i, xtol=1e-13, rtol=1e-14))


def critical_factor(alpha: float, beta: float, k: float) -> float:
    """Return arrivals over the capacity at which the loop without a buffer loses stability."""
    w = float(brentq(lambda w: loop(w, None, alpha, beta, k).excess, 1.01, 1e6, xtol=1e-13, rtol=1e-14))
    return w / loop(w, None, alpha, beta, k).pipe


def slope(now: float, then: float, pipe: float, B: float, alpha: float, beta: float, k: float) -> float:
    """Return the derivative of the window per RTT, for a loss probability of at most 1."""
    lost = exp(B * log(then / pipe))
    gain = alpha * exp((k - 1.0) * log(now))
    return then * (gain * (1.0 - lost) - beta * now * lost)


def lyapunov(w: float, B: float, alpha: float, beta: float, k: float) -> float:
    """Return the first Lyapunov coefficient over the frequency, for perturbations relative to the window.

    If it is negative, the bifurcation is supercritical: the cycle beyond the boundary is small and stable.
    """
    at = loop(w, B, alpha, beta, k)
    omega = sqrt(at.b**2 - at.a**2)

    def along(x: float, y: float) -> tuple[float, ...]:
        """Return second and third directional derivatives of the slope over w, along (x w, y w) in (now, then)."""
        coefficients = taylor(
            slope,
            {"now": w, "then": w, "pipe": at.pipe, "B": B, "alpha": alpha, "beta": beta, "k": k},
            {"now": x * w, "then": y * w},
        )
        return 2.0 * coefficients[2] / w, 6.0 * coefficients[3] / w

    # second (xx, yy, xy) and third (xxx, yyy, xxy, xyy) derivatives from directional derivatives
    (xx, xxx), (yy, yyy), (both, sum3), (_, diff3) = along(1, 0), along(0, 1), along(1, 1), along(1, -1)
    xy = 0.5 * (both - xx - yy)
    xxy, xyy = (sum3 - diff3 - 2.0 * yyy) / 6.0, (sum3 + diff3 - 2.0 * xxx) / 6.0

    def second(f: tuple[complex, complex], g: tuple[complex, complex]) -> complex:
        return xx * f[0] * g[0] + yy * f[1] * g[1] + xy * (f[0] * g[1] + f[1] * g[0])

    def characteristic(s: complex) -> complex:
        return s + at.a + at.b * cmath.exp(-s)

    q = (1.0 + 0j, cmath.exp(-1j * omega))
    c = (1.0 + 0j, cmath.exp(1j * omega))
    twice = second(q, q) / characteristic(2j * omega)
    mean = second(q, c) / characteristic(0j)
    cubed = (
        xxx
        + yyy * q[1] * q[1] * c[1]
        + xxy * (q[0] * q[0] * c[1] + 2.0 * q[1])
        + xyy * (q[1] * q[1] + 2.0 * q[1] * c[1])
    )
    force = cubed + 2.0 * second(q, (mean, mean)) + second(c, (twice, twice * cmath.exp(-2j * omega)))
    return float((force / (1.0 - at.b * cmath.exp(-1j * omega)) / 2.0).real / omega)


def amplitude(w: float, B: float, critical: float, alpha: float, beta: float, k: float) -> float:
    """Return the relative amplitude of the cycle beyond the boundary, to first order."""
    at = loop(w, critical, alpha, beta, k)
    omega = sqrt(at.b**2 - at.a**2)
    turn = cmath.exp(-1j * omega)
    growth = (-(at.b / critical) * turn / (1.0 - at.b * turn)).real * (B - critical)
    return 2.0 * sqrt(-growth / (omega * lyapunov(w, critical, alpha, beta, k)))


def run(
    w: float, B: float, alpha: float, beta: float, k: float, by: float, times: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return times [RTT] and windows [packets] of a run from a relative perturbation; by default at solver steps."""
    pipe = loop(w, B, alpha, beta, k).pipe

    def derivative(t: float, y: FloatArray, past: FloatArray) -> FloatArray:
        return np.array([slope(y[0], min(past[0, 0], pipe), pipe, B, alpha, beta, k)])

    solution = solve_dde(derivative, (0.0, DURATION), [(1.0 + by) * w], [1.0], t_eval=times, rtol=1e-7, atol=1e-7 * w)
    return solution.t, solution.y[0]


def swing(t: FloatArray, w: FloatArray) -> float:
    """Return half the swing of the window late in a run, relative to its mean."""
    late = w[t > 0.85 * t[-1]]
    return float(np.ptp(late) / (late.max() + late.min()))


@check("compound-hopf", cost=7, main=False)
def compound_hopf(claim: Claim) -> Finding:
    """Compute boundaries with certificates on either side, Lyapunov coefficients, runs, and the factor for Reno."""
    host, measured = Compound(transport="sack"), []
    alpha, beta, k = host.alpha, host.beta, host.k
    proven, kinds = [], []
    for w in WINDOWS:
        critical = critical_buffer(w, alpha, beta, k)
        for share, stable in ((1.0 - NEAR, True), (1.0 + NEAR, False)):
            at = loop(w, share * critical, alpha, beta, k)
            proven.append(DelaySystem([-at.a, -at.b], [0.0, 1.0]).certify().stable is stable)
        kinds.append(lyapunov(w, critical, alpha, beta, k))
        at = loop(w, critical, alpha, beta, k)
        measured.append(
            Measurement(
                f"window of {w:g} packets: maximum buffer for stability",
                critical,
                "packets",
                met=all(proven[-2:]),
                note=f"sufficient: {acos(0.0) / (alpha * w ** (k - 1.0)):.4g}; period "
                f"{4.0 * acos(0.0) / sqrt(at.b**2 - at.a**2):.3f} RTTs; coefficient {kinds[-1]:.4f}",
            )
        )
    w = WINDOWS[2]
    critical = critical_buffer(w, alpha, beta, k)
    below, above = (swing(*run(w, share * critical, alpha, beta, k, 0.02)) for share in (1.0 - FAR, 1.0 + FAR))
    stated = amplitude(w, (1.0 + FAR) * critical, critical, alpha, beta, k)
    measured += [
        Measurement(
            f"swing at {1.0 - FAR:g} of the maximum buffer, {w:g} packets", below, reported=0.0, met=below < 0.001
        ),
        Measurement(
            f"swing at {1.0 + FAR:g} of the maximum buffer, {w:g} packets",
            above,
            reported=stated,
            met=abs(above / stated - 1.0) < 0.1,
        ),
    ]
    factor = critical_factor(1.0, 0.5, 0.0)
    measured.append(
        Measurement(
            "Reno without a buffer: arrivals over the capacity at the boundary",
            factor,
            reported=RENO_FACTOR,
            met=abs(factor - RENO_FACTOR) < 1e-4,
        )
    )
    measured.append(
        Measurement(
            "Compound without a buffer: arrivals over the capacity at the boundary", critical_factor(alpha, beta, k)
        )
    )
    holds = all(proven) and max(kinds) < 0.0 and all(measurement.met is not False for measurement in measured)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "The equilibrium is stable if and only if tau sqrt(b^2 - a^2) < arccos(-a/b), proven on either side of the "
        f"boundary for windows of {WINDOWS[0]:g} to {WINDOWS[-1]:g} packets; a stable cycle begins there. For Reno "
        f"without a buffer this condition gives the published factor, {factor:.4f}.",
        measured,
        [picture()],
        [
            "One link, equal flows, constant RTTs. The abstracts of both papers were read; model and condition are "
            "derived here and hold for our model. Its delay windows never decrease: queues are shorter than gamma."
        ],
    )


def picture() -> Picture:
    """Return windows on both sides of the boundary."""
    host, w = Compound(transport="sack"), WINDOWS[2]
    critical = critical_buffer(w, host.alpha, host.beta, host.k)
    times = np.linspace(0.0, 60.0, 1201)
    series = {}
    for share in (1.0 - 2.0 * FAR, 1.0 + 2.0 * FAR):
        _, series[f"{share * critical:.1f} packets of buffer"] = run(
            w, share * critical, host.alpha, host.beta, host.k, 0.01, times
        )
    figure = states_figure(0.1 * times, {"window [packets]": series})
    return Picture.of(
        figure.update_yaxes(rangemode="normal"),  # an axis from 0 would hide swings of 3 %
        "Fluid model of Compound on both sides of its stability limit",
        f"Windows of {w:g} packets at equilibrium, RTT 100 ms; stable up to a buffer of {critical:.1f} packets.",
    )
